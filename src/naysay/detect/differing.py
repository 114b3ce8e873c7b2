"""Partners under many disequalities or many orders: rows compared as bits in small groups, large groups divided.

Of the pairs that agree in the key, those that differ in every one of m columns are all of them, minus for each column
those that agree in it and differ in the columns before it. That is the same question with a longer key and fewer
columns, asked of ever smaller groups. A group small enough is compared all with all, and what is left of it costs
nothing further. Columns with few values come first, so that the long tails of questions come after columns with many
values, whose groups are small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from naysay.arrays import Int64Array
from naysay.budget import check_stop, in_turn_or_on_threads, require_seconds, stop_flag, threads_for
from naysay.detect.blocks import NOBODY, BlockSearch, build_seconds
from naysay.detect.partners import add_partners, agreement, self_partners, small_keys
from naysay.kernels.joins.compare import compare_groups, list_groups
from naysay.kernels.sort import dense_groups, sorted_places
from naysay.plan.bind import BoundJoin, NoMemo, Side, combine
from naysay.plan.cost import Agreement, compare_limit, partners_seconds

# Equal rows are collapsed if that leaves at most this share of them.
_WORTH_COLLAPSING = 0.7
# If rows are worth collapsing, at least this many rows of a sample are equal to an earlier one.
_FEW_ALIKE = 25
# Nanoseconds to find the classes and selectivities, for each row and column.
_PREPARE = 30.0
# The trees are built, only to find out that the search would cost more, for at most this part of the time to compare.
_WORTH_BUILDING = 0.4
# The search is taken if it costs at most this part of it.
_WORTH_SEARCHING = 1.0
# Fewer rows are not worth a thread; each thread takes its groups in this many shares, as some take longer.
_ROWS_PER_THREAD, _SHARES_PER_THREAD = 50_000, 4
# This few pairs cost less than finding out how to divide them.
_FEW_PAIRS = 1 << 20

Classes = tuple[Int64Array, Int64Array, Int64Array]


def partners_differing(bound: BoundJoin) -> Int64Array:
    """For each left row the right rows that agree in the key, satisfy all orders and differ in all differs.

    A row that meets itself is counted. Refuses work that would take longer than allowed.
    """
    comparison = prepare(bound)
    search = search_blocks(comparison)
    if search is not None:
        return comparison.spread(search.partners())
    require_seconds(comparison.seconds)
    return comparison.partners()


def find_differing_left(bound: BoundJoin) -> int | None:
    """The place of some left row with a partner other than itself."""
    comparison = prepare(bound)
    own = self_partners(comparison.bound).astype(np.int64) if bound.reflexive else NOBODY
    most = comparison.seconds
    search = search_blocks(comparison)
    if search is not None:
        found, complete = search.find(own, most)
        if found is not None or complete:
            return comparison.member(found)
    require_seconds(most)
    places = np.flatnonzero(comparison.compare() > (own if own.size else 0))
    return comparison.member(int(places[0])) if places.size else None


def count_seconds(bound: BoundJoin) -> float:
    """About the time for the partners of all rows."""
    comparison = prepare(bound)
    search = search_blocks(comparison)
    if search is None:
        return comparison.seconds
    return build_seconds(comparison.bound, comparison.shape.group_rows) + search.seconds()


def search_blocks(comparison: GroupComparison) -> BlockSearch | None:
    """The search by blocks of rows, if a sample says that it is cheaper than to compare groups."""
    building = build_seconds(comparison.bound, comparison.shape.group_rows)
    if building > _WORTH_BUILDING * comparison.seconds:
        return None
    search = BlockSearch(comparison.bound, comparison.weights)
    # Once the trees are built, only what is still to do counts.
    most = _WORTH_SEARCHING * comparison.seconds
    return search if search.seconds(most) <= most else None


def prepare(bound: BoundJoin) -> GroupComparison:
    """Decide how to compare: which rows are equal to the rule, in which order of columns, and at what cost."""
    if bound.left.n_rows * bound.right.n_rows <= _FEW_PAIRS:
        # These are best compared at once, without looking at them.
        one_value_each = Agreement(bound.left.n_rows, bound.right.n_rows, 1, (1.0,) * len(bound.n_differs))
        return GroupComparison(_by_selectivity(bound, range(len(bound.n_differs))), one_value_each)
    left_classes = classes_of(bound.left)
    right_classes = left_classes if bound.mirror else classes_of(bound.right)
    members, weights = None, None
    if left_classes is not None and right_classes is not None:
        members, first, _ = left_classes
        left = bound.left.take(first)
        right, weights = _take_right(bound, left, right_classes[1]), right_classes[2]
        bound = replace(bound, left=left, right=right, memo=NoMemo(), equalities=())
    shape = agreement(bound)
    order = sorted(range(len(shape.values)), key=lambda which: shape.values[which])
    shape = replace(shape, values=tuple(shape.values[which] for which in order))
    return GroupComparison(_by_selectivity(bound, order), shape, weights, members)


def list_compared(bound: BoundJoin, places: Int64Array, limit: int) -> tuple[Int64Array, Int64Array]:
    """Row numbers of the pairs that the left rows at some places form, at most `limit`, in no particular order."""
    bound = _by_selectivity(bound, range(len(bound.n_differs)))
    left, right = bound.left, bound.right
    some = _Part(places, left.key[places]).sorted(left.order)
    everything = _Part(np.arange(right.n_rows), right.key).sorted(right.order)
    left_at, right_at = list_groups(
        (some.key, some.places, _features(left)),
        (everything.key, everything.places, _features(right)),
        (left.rows, right.rows),
        (len(left.order), np.array(bound.n_differs, np.int64)),
        limit,
        stop_flag(),
    )
    check_stop()
    return left.rows[left_at], right.rows[right_at]


def classes_of(side: Side) -> Classes | None:
    """The rows that look alike to the rule: the class of each row, a row of each class, and the rows in each.

    None if most rows are alone in their class, which shows in a sample of a large table: of rows that are worth
    collapsing, 16 * sqrt(n) form some 50 pairs.
    """
    n_sample = 16 * math.isqrt(side.n_rows)
    if 4 * n_sample < side.n_rows:
        sample = side.take(np.unique(np.random.default_rng(0).integers(0, side.n_rows, n_sample)))
        if _number_classes(sample, sample.n_rows - _FEW_ALIKE) is None:
            return None
    found = _number_classes(side, _WORTH_COLLAPSING * side.n_rows)
    if found is None:
        return None
    class_of, n_classes = found
    first = np.empty(n_classes, np.int64)
    first[class_of[::-1]] = np.arange(class_of.size - 1, -1, -1)
    return class_of, first, np.bincount(class_of, minlength=n_classes)


def _number_classes(side: Side, most: float) -> tuple[Int64Array, int] | None:
    """The class of each row and how many there are; None if there are more than `most`, which shows early."""
    class_of, _, n_classes = dense_groups(side.key, side.key[:0])
    for codes in sorted((*side.order, *side.differs), key=_n_values_at_first, reverse=True):
        if n_classes > most:
            return None
        values, _, n_values = dense_groups(codes - codes.min(), codes[:0])
        class_of, _, n_classes = dense_groups(class_of * n_values + values, codes[:0])
    return None if n_classes > most else (class_of, n_classes)


def _n_values_at_first(codes: Int64Array) -> int:
    some = codes[:10_000]
    # Ten times as fast as np.unique.
    return dense_groups(some - some.min(), some[:0])[2]


def _by_selectivity(bound: BoundJoin, order: Sequence[int]) -> BoundJoin:
    """The same join with its differs in another order, and in ranges that are small enough for an array."""
    differs = []
    for which in order:
        left, right = bound.left.differs[which], bound.right.differs[which]
        differs.append(small_keys(left, left if bound.mirror else right, bound.n_differs[which]))
    return replace(
        bound,
        left=replace(bound.left, differs=tuple(left for left, _, _ in differs)),
        right=replace(bound.right, differs=tuple(right for _, right, _ in differs)),
        n_differs=tuple(n_values for _, _, n_values in differs),
        memo=NoMemo(),
    )


def _take_right(bound: BoundJoin, left: Side, first: Int64Array) -> Side:
    """Some right rows; arrays that are the left ones stay the left ones."""
    right = bound.right.take(first)
    if not bound.mirror:
        return right
    orders = zip(bound.left.order, bound.right.order, left.order, right.order, strict=True)
    order = tuple(mine if one is other else taken for one, other, mine, taken in orders)
    return replace(left, order=order)


@dataclass(frozen=True, slots=True)
class _Part:
    """Some rows of a side: their places, and a key for each."""

    places: Int64Array
    key: Int64Array

    def sorted(self, order: tuple[Int64Array, ...]) -> _Part:
        """By key, then by the first order, so that the rows of a block lie close to each other in it."""
        second = order[0][self.places] if order else np.zeros(self.key.size, np.int64)
        by_key = sorted_places(self.key, second)
        return _Part(self.places[by_key], self.key[by_key])


class GroupComparison:
    """One join with its differs in ascending order of their values, and the partners found so far.

    `weights`: how many rows each right row represents, one if not given. `members`: which row of the join represents
    each left row that was asked about, if they are not the same.
    """

    def __init__(
        self, bound: BoundJoin, shape: Agreement, weights: Int64Array | None = None, members: Int64Array | None = None
    ) -> None:
        self.bound = bound
        self.shape = shape
        self.members = members
        self.n_orders = len(bound.left.order)
        self.ranges = np.array(bound.n_differs, np.int64)
        self.weights = weights
        self.out = np.zeros(bound.left.n_rows, np.int64)

    @property
    def seconds(self) -> float:
        """About what the partners will take on one core, the preparation included."""
        n_rows = self.bound.left.n_rows if self.members is None else self.members.size
        prepared = _PREPARE * n_rows * (1 + self.n_orders + len(self.bound.n_differs))
        return partners_seconds(self.shape, self.n_orders) + 1e-9 * prepared

    def partners(self) -> Int64Array:
        """The partners of each left row that was asked about."""
        return self.spread(self.compare())

    def compare(self) -> Int64Array:
        """The partners of each left row of the join."""
        if self.shape.n_pairs:
            self._begin()
        return self.out

    def spread(self, counts: Int64Array) -> Int64Array:
        """Counts by row of the join as counts by row that was asked about."""
        return counts if self.members is None else counts[self.members]

    def member(self, place: int | None) -> int | None:
        """The place of some row that was asked about and that the row at a place of the join represents."""
        if place is None or self.members is None:
            return place
        return int(np.argmax(self.members == place))

    def _begin(self) -> None:
        left_side, right_side = self.bound.left, self.bound.right
        self.left_features = _features(left_side)
        self.right_features = self.left_features if self.bound.has_same_sides else _features(right_side)
        self.each = np.ones(right_side.n_rows, np.int64) if self.weights is None else self.weights
        left = _Part(np.arange(self.bound.left.n_rows), self.bound.left.key)
        right = left if self.bound.mirror else _Part(np.arange(self.bound.right.n_rows), self.bound.right.key)
        self._visit(left, right, self.bound.n_keys, len(self.bound.n_differs), 1)

    def _visit(self, left: _Part, right: _Part, n_keys: int, n_differs: int, sign: int) -> None:
        """Add the partners under a key that differ in the first n_differs columns."""
        one_side = left is right
        right = right.sorted(self.bound.right.order)
        left = right if one_side else left.sorted(self.bound.left.order)
        left_rest, right_rest = self._compare(left, right, n_differs, sign)
        if not left_rest.size or not right_rest.size:
            return
        left = _keep(left, left_rest)
        right = left if one_side else _keep(right, right_rest)
        self._add_all(left, right, n_keys, sign)
        for which in range(n_differs):
            self._visit(*self._agreeing(left, right, n_keys, which), which, -sign)

    def _compare(self, left: _Part, right: _Part, n_differs: int, sign: int) -> tuple[Int64Array, Int64Array]:
        """Compare the groups that are small enough, on threads; the places of the rows in the others."""
        n_threads = threads_for(right.places.size // _ROWS_PER_THREAD)
        n_shares = 1 if n_threads == 1 else _SHARES_PER_THREAD * n_threads
        # A group is not divided: each share begins with a new key.
        first_keys = right.key[np.linspace(0, right.key.size, n_shares, endpoint=False).astype(np.int64)[1:]]
        cuts = [(0, *np.searchsorted(part.key, first_keys).tolist(), part.key.size) for part in (left, right)]
        shares = list(zip(*(pairwise(places) for places in cuts), strict=True))
        limit = compare_limit(self.shape, n_differs, self.n_orders)
        flag = stop_flag()

        def compare(share: tuple[tuple[int, int], tuple[int, int]]) -> tuple[Int64Array, Int64Array]:
            of_left, of_right = (slice(*bounds) for bounds in share)
            return compare_groups(
                (left.key[of_left], left.places[of_left], self.left_features),
                (right.key[of_right], right.places[of_right], self.right_features),
                self.each,
                (self.n_orders, self.ranges[:n_differs].copy()),
                limit,
                sign,
                self.out,
                flag,
            )

        rest = in_turn_or_on_threads(shares, compare, n_threads)
        check_stop()
        return np.concatenate([left for left, _ in rest]), np.concatenate([right for _, right in rest])

    def _add_all(self, left: _Part, right: _Part, n_keys: int, sign: int) -> None:
        """Add the partners under a key, regardless of what differs."""
        left_order = tuple(codes[left.places] for codes in self.bound.left.order)
        if self.weights is not None:
            each = self.weights[right.places]
            right = _Part(np.repeat(right.places, each), np.repeat(right.key, each))
        right_order = tuple(
            mine if left is right and one is other else other[right.places]
            for mine, one, other in zip(left_order, self.bound.left.order, self.bound.right.order, strict=True)
        )
        part = replace(
            self.bound,
            left=Side(left.places, left.key, left_order, ()),
            right=Side(right.places, right.key, right_order, ()),
            n_keys=n_keys,
            n_differs=(),
        )
        counts = np.zeros(left.places.size, np.int64)
        add_partners(part, left.key, right.key, n_keys, sign, counts)
        self.out[left.places] += counts

    def _agreeing(self, left: _Part, right: _Part, n_keys: int, which: int) -> tuple[_Part, _Part, int]:
        """The same rows under a key that holds one more column."""
        left_codes = self.bound.left.differs[which][left.places]
        right_codes = left_codes if left is right else self.bound.right.differs[which][right.places]
        parts = [(left.key, right.key, n_keys), (left_codes, right_codes, self.bound.n_differs[which])]
        left_key, right_key, n_keys = combine(parts, left.places.size, self.bound.memo)
        longer = _Part(left.places, left_key)
        return longer, longer if left is right else _Part(right.places, right_key), n_keys


def _keep(part: _Part, places: Int64Array) -> _Part:
    """The rows at some of a part's places, which are in the part's order."""
    if places.size == part.places.size:
        return part
    key_of = np.empty(int(part.places.max()) + 1, np.int64)
    key_of[part.places] = part.key
    return _Part(places, key_of[places])


def _features(side: Side) -> Int64Array:
    return np.ascontiguousarray(np.stack((*side.order, *side.differs), axis=1))
