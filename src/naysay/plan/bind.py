"""A join over real rows: the arrays that kernels work on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from naysay.plan.join import Join, Match, Order
from naysay.rule.model import Nulls, Predicate
from naysay.table import Table
from naysay.table.codes import MAX_CODES, BoolArray, Codes, Int64Array


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a bound join: the rows that pass its filters and have a value wherever one is compared.

    `rows` are the row numbers, ascending. `key` equals on both sides exactly where all equalities hold. Each array
    of `order` compares strictly: the part holds where left < right. Each of `differs` holds where left != right.
    """

    rows: Int64Array
    key: Int64Array
    order: tuple[Int64Array, ...]
    differs: tuple[Int64Array, ...]

    @property
    def n_rows(self) -> int:
        return int(self.rows.size)

    def take(self, places: Int64Array) -> Side:
        return Side(
            self.rows[places],
            self.key[places],
            tuple(codes[places] for codes in self.order),
            tuple(codes[places] for codes in self.differs),
        )


@dataclass(frozen=True, slots=True)
class BoundJoin:
    """Two sides in one code space. Pairs of places (i, j) break the rule where all parts hold.

    Keys lie in [0, n_keys), each differs in [0, n_differs[.]). `reflexive`: a row may stand on both sides and satisfy
    all parts with itself; such a pair is no violation. `mirror`: both sides are the same rows with the same keys and
    differs (their orders may still differ, by doubling).  `symmetric`: (i, j) breaks the rule exactly when (j, i) does.
    """

    left: Side
    right: Side
    n_keys: int
    n_differs: tuple[int, ...]
    reflexive: bool
    mirror: bool
    symmetric: bool

    def swapped(self) -> BoundJoin:
        """The same pairs seen from the other side."""
        return replace(self, left=_negated(self.right), right=_negated(self.left))


def _negated(side: Side) -> Side:
    """Turn left < right into right < left."""
    return replace(side, order=tuple(-codes for codes in side.order))


def bind(table: Table, join: Join, nulls: Nulls) -> BoundJoin:
    """Bind a two-row join to a table joined with itself."""
    matches = [_encode(table, match, ordered=False) for match in join.key + join.differs]
    orders = [_encode(table, order, ordered=True) for order in join.order]
    must_have_value = orders if nulls is Nulls.EQUAL else orders + matches
    left_rows = _rows(table, join.left_filter, [left for left, _ in must_have_value], nulls)
    right_rows = _rows(table, join.right_filter, [right for _, right in must_have_value], nulls)
    matched = [_matched(left, right, nulls) for left, right in matches]
    ordered = [_ordered(left, right, order) for (left, right), order in zip(orders, join.order, strict=True)]
    keys, differs = matched[: len(join.key)], matched[len(join.key) :]
    left_key, right_key, n_keys = combine(
        [left for left, _, _ in keys], [right for _, right, _ in keys], [n for _, _, n in keys], table.n_rows
    )
    left = Side(
        _numbers(left_rows, table.n_rows),
        _pick(left_key, left_rows),
        tuple(_pick(codes, left_rows) for codes, _ in ordered),
        tuple(_pick(codes, left_rows) for codes, _, _ in differs),
    )
    mirror = _is_mirror(join)
    if mirror:
        # A strict order has the same codes on both sides: kernels then sort them once.
        same = (
            picked if left_codes is right_codes else _pick(right_codes, left_rows)
            for picked, (left_codes, right_codes) in zip(left.order, ordered, strict=True)
        )
        right = replace(left, order=tuple(same))
    else:
        right = Side(
            _numbers(right_rows, table.n_rows),
            _pick(right_key, right_rows),
            tuple(_pick(codes, right_rows) for _, codes in ordered),
            tuple(_pick(codes, right_rows) for _, codes, _ in differs),
        )
    return BoundJoin(
        left, right, n_keys, tuple(n for _, _, n in differs), not join.irreflexive, mirror, join.symmetric
    )


def encodings(join: Join) -> list[tuple[tuple[str, ...], bool]]:
    """What `bind` will ask of the table, for `Table.prepare`."""
    parts: list[tuple[Match | Order, bool]] = [(match, False) for match in join.key + join.differs]
    parts += [(order, True) for order in join.order]
    return [(_names(part), ordered) for part, ordered in parts]


def singles(table: Table, join: Join, nulls: Nulls) -> Int64Array:
    """The rows that break a one-row rule."""
    return np.flatnonzero(_all_hold(table, join.left_filter, nulls))


def _is_mirror(join: Join) -> bool:
    parts: tuple[Match | Order, ...] = join.key + join.differs + join.order
    return not join.left_filter and not join.right_filter and all(part.left == part.right for part in parts)


def _names(part: Match | Order) -> tuple[str, ...]:
    return (part.left,) if part.left == part.right else (part.left, part.right)


def _encode(table: Table, part: Match | Order, *, ordered: bool) -> tuple[Codes, Codes]:
    codes = table.joint(_names(part), ordered=ordered)
    return codes[0], codes[-1]


def _rows(table: Table, filters: tuple[Predicate, ...], columns: list[Codes], nulls: Nulls) -> Int64Array | None:
    """The rows that pass the filters and have a value in each of the columns; None for all rows."""
    mask = _all_hold(table, filters, nulls) if filters else None
    for codes in columns:
        if codes.valid is not None:
            mask = codes.valid if mask is None else mask & codes.valid
    return None if mask is None or bool(mask.all()) else np.flatnonzero(mask)


def _matched(left: Codes, right: Codes, nulls: Nulls) -> tuple[Int64Array, Int64Array, int]:
    """Codes of an equality or difference: left, right, and their range. A null is one more value, or no row has one."""
    n_values = max(left.n_values, right.n_values, 1)
    if nulls is Nulls.SQL or (left.valid is None and right.valid is None):
        return left.values, right.values, n_values
    left_values = _null_as(left, n_values)
    return left_values, left_values if left is right else _null_as(right, n_values), n_values + 1


def _null_as(codes: Codes, code: int) -> Int64Array:
    return codes.values if codes.valid is None else np.where(codes.valid, codes.values, code)


def _ordered(left: Codes, right: Codes, order: Order) -> tuple[Int64Array, Int64Array]:
    """Codes such that the order holds exactly where left < right."""
    sign = -1 if order.descending else 1
    if order.strict:
        left_values = left.values if sign == 1 else -left.values
        return left_values, left_values if left is right else sign * right.values
    return 2 * sign * left.values, 2 * sign * right.values + 1


def combine(
    lefts: list[Int64Array], rights: list[Int64Array], ranges: list[int], n_rows: int
) -> tuple[Int64Array, Int64Array, int]:
    """Make one code of several: equal on both sides exactly where each of them is. No parts: all rows are equal."""
    if not lefts:
        zeros = np.zeros(n_rows, np.int64)
        return zeros, zeros, 1
    left, right, n_codes = lefts[0], rights[0], ranges[0]
    for next_left, next_right, n_next in zip(lefts[1:], rights[1:], ranges[1:], strict=True):
        if n_codes * n_next > MAX_CODES:
            left, right, n_codes = _densify(left, right)
        if n_codes * n_next > MAX_CODES:
            next_left, next_right, n_next = _densify(next_left, next_right)
        same = left is right and next_left is next_right
        left = left * n_next + next_left
        right = left if same else right * n_next + next_right
        n_codes *= n_next
    return left, right, n_codes


def _densify(left: Int64Array, right: Int64Array) -> tuple[Int64Array, Int64Array, int]:
    from naysay.kernels.group import dense_groups

    if left is right:
        ids, _, n_groups = dense_groups(left, left[:0])
        return ids, ids, max(n_groups, 1)
    left_ids, right_ids, n_groups = dense_groups(left, right)
    return left_ids, right_ids, max(n_groups, 1)


def _all_hold(table: Table, predicates: tuple[Predicate, ...], nulls: Nulls) -> BoolArray:
    mask = np.ones(table.n_rows, np.bool_)
    for predicate in predicates:
        mask &= table.holds(predicate, nulls)
    return mask


def _numbers(rows: Int64Array | None, n_rows: int) -> Int64Array:
    return np.arange(n_rows, dtype=np.int64) if rows is None else rows


def _pick(codes: Int64Array, rows: Int64Array | None) -> Int64Array:
    return codes if rows is None else codes[rows]
