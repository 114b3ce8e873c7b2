"""A join over real rows: the arrays that kernels work on."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np

from naysay.arrays import MAX_CODES, BoolArray, Int64Array
from naysay.plan.join import Join, Match, Order
from naysay.rule.model import Nulls, Predicate
from naysay.table import Table
from naysay.table.column import Codes
from naysay.table.table import OnceCache, densify

Made = TypeVar("Made")
# From this many rules on, codes with gaps are renumbered, as shorter codes are quicker to group and to sort; and rules
# are counted from the pairs of rows that agree (`plan.agreeing`), which takes longer for a few dependencies that hold.
_MANY_RULES = 8
# Codes in so short a range gain nothing, those in so long a one would have to be sorted.
_FEW_VALUES, _VALUES_PER_ROW = 256, 4


class Memo:
    """Values by what they are and by the identity of the arrays they were made from. Safe to use from threads.

    Keeps the arrays too, so that no other array gets their identity. Rules with the same key share the grouping, rules
    with the same key and first order share the sort.
    """

    # Whether anything is remembered.
    shares = True

    def __init__(self, n_rules: int = 1) -> None:
        self._cache = OnceCache()
        # Whether work that only many rules make up for is worth it.
        self.has_many_rules = n_rules >= _MANY_RULES

    def get(self, what: Hashable, arrays: tuple[Int64Array, ...], make: Callable[[], Made]) -> Made:
        """The value made before, or the one that `make` returns now; threads that want the same one wait for it."""
        return self._cache.get((what, *map(id, arrays)), lambda: (arrays, make()))[1]

    def renumbered(self, codes: tuple[Codes, ...]) -> tuple[Codes, ...]:
        """The same codes without gaps, if there are rules enough to make up for the time that takes."""
        n_values, n_rows = max(code.n_values for code in codes), len(codes[0].values)
        if not self.has_many_rules or n_values <= _FEW_VALUES or n_values > _VALUES_PER_ROW * n_rows:
            return codes
        return self.get("renumbered", tuple(code.values for code in codes), lambda: densify(codes))


class NoMemo(Memo):
    """Remembers nothing, for a single rule."""

    shares = False

    def __init__(self, n_rules: int = 1) -> None:
        super().__init__(1)

    def get(self, what: Hashable, arrays: tuple[Int64Array, ...], make: Callable[[], Made]) -> Made:
        return make()


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a bound join: the rows that pass its filters and have a value in every column that needs one.

    `rows` are the row numbers, ascending. `key` is the same on both sides exactly if all equalities hold. Each array of
    `order` compares strictly: the part holds if left < right. Each of `differs` holds if left != right.
    """

    rows: Int64Array
    key: Int64Array
    order: tuple[Int64Array, ...]
    differs: tuple[Int64Array, ...]

    @property
    def n_rows(self) -> int:
        return int(self.rows.size)

    def places_of(self, rows: Int64Array) -> Int64Array:
        """Where these row numbers are, all of which are among those of this side."""
        is_whole_table = self.n_rows > 0 and self.rows[-1] == self.n_rows - 1
        return rows if is_whole_table else np.searchsorted(self.rows, rows)

    def take(self, places: Int64Array) -> Side:
        return Side(
            self.rows[places],
            self.key[places],
            tuple(codes[places] for codes in self.order),
            tuple(codes[places] for codes in self.differs),
        )


@dataclass(frozen=True, slots=True)
class BoundJoin:
    """Two sides in one code space. Pairs of places (i, j) break the rule if all parts hold.

    Keys lie in [0, n_keys), each differs in [0, n_differs[.]). `reflexive`: a row may be on both sides and satisfy all
    parts with itself; such a pair is not a violation. `mirror`: both sides are the same rows with the same keys and
    differs (their orders may still differ, by doubling). `symmetric`: (i, j) breaks the rule exactly when (j, i) does.
    `equalities`: the left and right codes of each equality in the key, by row number of the table; none if the sides
    have other numbers or another order.
    """

    left: Side
    right: Side
    n_keys: int
    n_differs: tuple[int, ...]
    reflexive: bool
    mirror: bool
    symmetric: bool
    memo: Memo = field(default_factory=NoMemo, compare=False, repr=False)
    equalities: tuple[tuple[Int64Array, Int64Array], ...] = field(default=(), compare=False, repr=False)

    @property
    def has_same_sides(self) -> bool:
        """Whether both sides are the same, their orders included, as they are for strict orders of single columns."""
        return self.mirror and all(map(operator.is_, self.left.order, self.right.order))

    def swapped(self) -> BoundJoin:
        """The same pairs seen from the other side."""
        equalities = tuple((right, left) for left, right in self.equalities)
        return replace(self, left=_negated(self.right), right=_negated(self.left), equalities=equalities)

    def among(self, mask: BoolArray) -> BoundJoin:
        """The same join of only those rows of the table that a mask has."""
        left = self.left.take(np.flatnonzero(mask[self.left.rows]))
        if not self.mirror:
            right = self.right.take(np.flatnonzero(mask[self.right.rows]))
            return replace(self, left=left, right=right, memo=NoMemo())
        # Arrays that are the left ones stay the left ones.
        places = np.flatnonzero(mask[self.right.rows])
        orders = zip(self.left.order, self.right.order, left.order, strict=True)
        order = tuple(mine if one is other else other[places] for one, other, mine in orders)
        return replace(self, left=left, right=replace(left, order=order), memo=NoMemo())


def _negated(side: Side) -> Side:
    """Turn left < right into right < left."""
    return replace(side, order=tuple(-codes for codes in side.order))


def bind(table: Table, join: Join, nulls: Nulls, memo: Memo | None = None) -> BoundJoin:
    """Bind a two-row join to a table joined with itself; joins bound with one memo share what they can."""
    memo = memo or NoMemo()
    matches = [_encode(table, match, memo, ordered=False) for match in join.key + join.differs]
    orders = [_encode(table, order, memo, ordered=True) for order in join.order]
    must_have_value = orders if nulls is Nulls.EQUAL else orders + matches
    mirror = join.is_mirror
    left_filter = join.row_filter if mirror else join.left_filter
    left_rows = selected_rows(table, left_filter, [left for left, _ in must_have_value], nulls)
    matched = [matched_codes(left, right, nulls, memo) for left, right in matches]
    ordered = [_ordered(left, right, order, memo) for (left, right), order in zip(orders, join.order, strict=True)]
    keys, differs = matched[: len(join.key)], matched[len(join.key) :]
    left_key, right_key, n_keys = combine(keys, table.n_rows, memo)
    left = _side(
        _numbers(table, left_rows, memo),
        left_rows,
        left_key,
        [codes for codes, _ in ordered],
        [codes for codes, _, _ in differs],
    )
    if mirror:
        # A strict order has the same codes on both sides: kernels then sort them once.
        same = (
            picked if left_codes is right_codes else _pick(right_codes, left_rows)
            for picked, (left_codes, right_codes) in zip(left.order, ordered, strict=True)
        )
        right = replace(left, order=tuple(same))
    else:
        rows = selected_rows(table, join.right_filter, [right for _, right in must_have_value], nulls)
        right = _side(
            _numbers(table, rows, memo),
            rows,
            right_key,
            [codes for _, codes in ordered],
            [codes for _, codes, _ in differs],
        )
    n_differs = tuple(n for _, _, n in differs)
    equalities = tuple((left_codes, right_codes) for left_codes, right_codes, _ in keys)
    return BoundJoin(left, right, n_keys, n_differs, not join.irreflexive, mirror, join.symmetric, memo, equalities)


def encodings(join: Join) -> list[tuple[tuple[str, ...], bool]]:
    """The encodings that `bind` will need, for `Table.prepare`."""
    parts: list[tuple[Match | Order, bool]] = [(match, False) for match in join.key + join.differs]
    parts += [(order, True) for order in join.order]
    return [(_names(part), ordered) for part, ordered in parts]


def singles(table: Table, join: Join, nulls: Nulls) -> Int64Array:
    """The rows that break a one-row rule."""
    return np.flatnonzero(_all_hold(table, join.left_filter, nulls))


def _names(part: Match | Order) -> tuple[str, ...]:
    return (part.left,) if part.left == part.right else (part.left, part.right)


def _encode(table: Table, part: Match | Order, memo: Memo, *, ordered: bool) -> tuple[Codes, Codes]:
    codes = memo.renumbered(table.joint(_names(part), ordered=ordered))
    return codes[0], codes[-1]


def selected_rows(
    table: Table, filters: tuple[Predicate, ...], columns: list[Codes], nulls: Nulls
) -> Int64Array | None:
    """The rows that pass the filters and have a value in each of the columns; None for all rows."""
    mask = _all_hold(table, filters, nulls) if filters else None
    for codes in columns:
        if codes.valid is not None:
            mask = codes.valid if mask is None else mask & codes.valid
    return None if mask is None or bool(mask.all()) else np.flatnonzero(mask)


Matched = tuple[Int64Array, Int64Array, int]


def matched_codes(left: Codes, right: Codes, nulls: Nulls, memo: Memo) -> Matched:
    """Codes of an equality or difference: left, right, and their range. A null, if there is one, is one more value."""
    n_values = max(left.n_values, right.n_values, 1)
    if nulls is Nulls.SQL or (left.valid is None and right.valid is None):
        return left.values, right.values, n_values
    left_values = _null_as(left, n_values, memo)
    return left_values, left_values if left is right else _null_as(right, n_values, memo), n_values + 1


def _null_as(codes: Codes, code: int, memo: Memo) -> Int64Array:
    values, valid = codes.values, codes.valid
    if valid is None:
        return values
    return memo.get(("null as", code), (values,), lambda: np.where(valid, values, code))


def _ordered(left: Codes, right: Codes, order: Order, memo: Memo) -> tuple[Int64Array, Int64Array]:
    """Codes such that the order holds exactly if left < right; one array for both sides if possible."""
    sign = -1 if order.descending else 1
    if order.strict:
        left_values = _scaled(left.values, sign, 0, memo)
        return left_values, left_values if left is right else _scaled(right.values, sign, 0, memo)
    return _scaled(left.values, 2 * sign, 0, memo), _scaled(right.values, 2 * sign, 1, memo)


def _scaled(values: Int64Array, factor: int, offset: int, memo: Memo) -> Int64Array:
    if (factor, offset) == (1, 0):
        return values
    return memo.get(("scaled", factor, offset), (values,), lambda: factor * values + offset)


def combine(parts: Sequence[Matched], n_rows: int, memo: Memo) -> Matched:
    """Combine several codes into one: equal on both sides exactly if each of them is. No parts: all rows are equal."""
    if not parts:
        zeros = memo.get(("no key", n_rows), (), lambda: np.zeros(n_rows, np.int64))
        return zeros, zeros, 1
    combined = parts[0]
    for part in parts[1:]:
        arrays = (combined[0], combined[1], part[0], part[1])
        combined = memo.get(("combine", combined[2], part[2]), arrays, partial(_combine_two, combined, part))
    return combined


def _combine_two(first: Matched, second: Matched) -> Matched:
    if first[2] * second[2] > MAX_CODES:
        first = _densify(first[0], first[1])
    if first[2] * second[2] > MAX_CODES:
        second = _densify(second[0], second[1])
    left = first[0] * second[2] + second[0]
    same = first[0] is first[1] and second[0] is second[1]
    return left, left if same else first[1] * second[2] + second[1], first[2] * second[2]


def _densify(left: Int64Array, right: Int64Array) -> tuple[Int64Array, Int64Array, int]:
    from naysay.kernels.sort import dense_groups

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


def _numbers(table: Table, rows: Int64Array | None, memo: Memo) -> Int64Array:
    """The numbers of the given rows, or of all."""
    return memo.get("all rows", (), lambda: np.arange(table.n_rows, dtype=np.int64)) if rows is None else rows


def _side(
    numbers: Int64Array, rows: Int64Array | None, key: Int64Array, order: list[Int64Array], differs: list[Int64Array]
) -> Side:
    """The given rows, or all of them."""
    picked = [_pick(codes, rows) for codes in (key, *order, *differs)]
    return Side(numbers, picked[0], tuple(picked[1 : 1 + len(order)]), tuple(picked[1 + len(order) :]))


def _pick(codes: Int64Array, rows: Int64Array | None) -> Int64Array:
    return codes if rows is None else codes[rows]
