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
    binder = _Binder(table, nulls)
    left_rows = binder.rows(join, left=True)
    right_rows = binder.rows(join, left=False)
    mirror = (
        all(match.left == match.right for match in join.key + join.differs)
        and not join.left_filter
        and not join.right_filter
        and all(order.left == order.right for order in join.order)
    )
    if mirror:
        right_rows = left_rows
    keys = [binder.matched(match) for match in join.key]
    left_key, right_key, n_keys = combine(
        [left for left, _, _ in keys], [right for _, right, _ in keys], [n for _, _, n in keys], table.n_rows
    )
    orders = [binder.ordered(order) for order in join.order]
    differs = [binder.matched(match) for match in join.differs]
    left = Side(
        _numbers(left_rows, table.n_rows),
        _pick(left_key, left_rows),
        tuple(_pick(codes, left_rows) for codes, _ in orders),
        tuple(_pick(codes, left_rows) for codes, _, _ in differs),
    )
    if mirror:
        # A strict order has the same codes on both sides: kernels then sort them once.
        same = [
            picked if left_codes is right_codes else _pick(right_codes, right_rows)
            for picked, (left_codes, right_codes) in zip(left.order, orders, strict=True)
        ]
        right = replace(left, order=tuple(same))
    else:
        right = Side(
            _numbers(right_rows, table.n_rows),
            _pick(right_key, right_rows),
            tuple(_pick(codes, right_rows) for _, codes in orders),
            tuple(_pick(codes, right_rows) for _, codes, _ in differs),
        )
    return BoundJoin(
        left, right, n_keys, tuple(n for _, _, n in differs), not join.irreflexive, mirror, join.symmetric
    )


def singles(table: Table, join: Join, nulls: Nulls) -> Int64Array:
    """The rows that break a one-row rule."""
    return np.flatnonzero(_all_hold(table, join.left_filter, nulls))


@dataclass(frozen=True, slots=True)
class _Binder:
    table: Table
    nulls: Nulls

    def rows(self, join: Join, *, left: bool) -> Int64Array | None:
        """The rows of one side; None for all of them."""
        mask: BoolArray | None = None
        filters = join.left_filter if left else join.right_filter
        if filters:
            mask = _all_hold(self.table, filters, self.nulls)
        ordered = [(order.left, order.right)[not left] for order in join.order]
        matched = [(match.left, match.right)[not left] for match in join.key + join.differs]
        must_have_value = ordered if self.nulls is Nulls.EQUAL else ordered + matched
        for name in dict.fromkeys(must_have_value):
            valid = self.table.codes(name, ordered=name in ordered and self._is_ordered_alone(name, join)).valid
            if valid is not None:
                mask = valid if mask is None else mask & valid
        if mask is None or bool(mask.all()):
            return None
        return np.flatnonzero(mask)

    def _is_ordered_alone(self, name: str, join: Join) -> bool:
        """Ask for the codes that the join needs anyway, so that no column is encoded only for its nulls."""
        return any(order.left == name == order.right for order in join.order)

    def matched(self, match: Match) -> tuple[Int64Array, Int64Array, int]:
        """Codes of an equality or difference: left, right, and their range."""
        if match.left == match.right:
            codes = self.table.codes(match.left, ordered=False)
            values, n_values = self._with_nulls(codes)
            return values, values, n_values
        left, right = self.table.joint((match.left, match.right), ordered=False)
        n_values = max(left.n_values, right.n_values)
        left_values, left_n = self._with_nulls(replace(left, n_values=n_values))
        right_values, right_n = self._with_nulls(replace(right, n_values=n_values))
        return left_values, right_values, max(left_n, right_n)

    def _with_nulls(self, codes: Codes) -> tuple[Int64Array, int]:
        if codes.valid is None or self.nulls is Nulls.SQL:
            return codes.values, max(codes.n_values, 1)
        return np.where(codes.valid, codes.values, codes.n_values), codes.n_values + 1

    def ordered(self, order: Order) -> tuple[Int64Array, Int64Array]:
        """Codes such that the order holds exactly where left < right."""
        if order.left == order.right:
            left = right = self.table.codes(order.left, ordered=True).values
        else:
            left_codes, right_codes = self.table.joint((order.left, order.right), ordered=True)
            left, right = left_codes.values, right_codes.values
        if order.descending:
            left, right = (-left, -right) if left is not right else (negative := -left, negative)
        if not order.strict:
            left, right = left * 2, right * 2 + 1
        return left, right


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
