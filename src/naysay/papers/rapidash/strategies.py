"""Rapidash's own methods as strategies: hash on the key, orthogonal range search for the rest.

After "Rapidash: Efficient Detection of Constraint Violations" (PVLDB 17, 2024). A bound join has applied the filters of
both rows, combined its equalities into one key and written its inequalities as left < right, so that one-row predicates
and `<=` need nothing more here. The paper's trees take insertions; ours know their points beforehand and switch them
on, and are rebuilt each time the rows looked at have grown eightfold (Overmars' global rebuilding, the paper's [32]).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from naysay.arrays import BoolArray, Int64Array
from naysay.detect.strategy import PairBlock
from naysay.errors import CountOverflow, ResourceError
from naysay.kernels.joins.find import find_ordered_by_key
from naysay.kernels.sort import dense_groups, sorted_places
from naysay.kernels.trees.range_tree import ABOVE, BELOW, INSERT, Queries, interleave
from naysay.papers import MethodLimits
from naysay.papers.rapidash.forest import Ranked, SearchForest, Tree, grow_forest
from naysay.plan.bind import BoundJoin, Side

_MEMORY = 8 << 30
_FIRST_STAGE = 1 << 10
_GROWTH = 8
_BYTES_OF_PAIR = 16
_CHUNK = 1 << 16

Chunk = tuple[Int64Array, Int64Array]


@dataclass(frozen=True, slots=True)
class Rapidash:
    """The three verbs with one of the trees, in at most `memory` bytes for trees and for lists of pairs.

    `vanilla`: plain range search (4.8), one tree with a dimension for each predicate, and none of the optimizations.
    """

    tree: Tree
    memory: int = _MEMORY
    vanilla: bool = False

    def verify(self, bound: BoundJoin) -> tuple[int, int] | None:
        """Look at the rows in order, in batches that double, and stop at one that breaks the rule with an earlier one.

        At most one inequality or disequality: running extremes in one pass (Algorithms 1 and 4). More: range search
        with one tree if both sides are the same rows and one is enough, else with one for each side (Algorithms 2 and
        3, Appendix C.2).
        """
        if not bound.left.n_rows or not bound.right.n_rows:
            return None
        limits = self._limits()
        left_time, right_time = _times(bound)
        if not self.vanilla and not _has_tree(bound):
            limits.check()
            found = _verify_extremes(bound, left_time, right_time)
            return None if found is None else (int(bound.left.rows[found[0]]), int(bound.right.rows[found[1]]))
        done = -1
        for cut in _stages(left_time, right_time):
            limits.check()
            n_left, n_right = int(np.searchsorted(left_time, cut)), int(np.searchsorted(right_time, cut))
            times = left_time[:n_left], right_time[:n_right]
            part = replace(bound, left=_head(bound.left, n_left), right=_head(bound.right, n_right))
            search = self._plan(part, *times, done, limits)
            pair = search.forest.first_pair(search.queries, search.tape)
            if pair is not None:
                left, right = search.oriented(np.array([pair[0]]), np.array([pair[1]]))
                return int(bound.left.rows[left[0]]), int(bound.right.rows[right[0]])
            done = cut
        return None

    def count(self, bound: BoundJoin) -> int:
        """Count with one dimension less than verify: in the order of one inequality (4.7, Algorithm 6)."""
        if bound.left.n_rows * bound.right.n_rows > np.iinfo(np.int64).max:
            raise CountOverflow("more pairs of rows than 64 bits can count")
        limits = self._limits()
        if self.vanilla:
            return self._count_vanilla(bound, limits)
        return sum(self._count_sorted(part, weight, limits) for part, weight in _sortable(bound))

    def violations(self, bound: BoundJoin, limit: int | None) -> PairBlock:
        """List in the same order as count counts, and stop at the limit."""
        left: list[Int64Array] = []
        right: list[Int64Array] = []
        n_found = 0
        limits = self._limits()
        for left_rows, right_rows in self._pairs(bound, limits):
            limits.check()
            left.append(left_rows)
            right.append(right_rows)
            n_found += left_rows.size
            if limit is not None and n_found > limit:
                break
            if n_found * _BYTES_OF_PAIR > self.memory:
                raise ResourceError(f"more than {n_found:,} violations to list; set a lower limit, or count them")
        none = np.empty(0, np.int64)
        return PairBlock(
            np.concatenate([none, *left])[:limit],
            np.concatenate([none, *right])[:limit],
            complete=limit is None or n_found <= limit,
        )

    def _limits(self) -> MethodLimits:
        return MethodLimits(f"Rapidash's {self.tree.value}")

    def _plan(
        self, bound: BoundJoin, left_time: Int64Array, right_time: Int64Array, done: int, limits: MethodLimits
    ) -> _Search:
        """Each row searches the rows before it, then is inserted; rows before the time `done` have searched already.

        One tree serves both sides if they are the same points, compared with < or <= (Algorithm 2). With only
        disequalities and equalities both searches cover the same boxes, and one is left out (Proposition 2), as for
        every rule that means the same with both rows exchanged (Example 14). Otherwise each side has its own tree
        (Section 4.4, Appendix C.2).
        """
        space = _Space.of(bound, vanilla=self.vanilla)
        if not space.one_set and (self.vanilla or not space.is_symmetric(bound)):
            return self._plan_two_trees(space, left_time, right_time, done, limits)
        points = Ranked.of(space.left_groups, space.n_groups, space.left)
        acts = [BELOW, INSERT]
        if space.one_set:
            queries = space.queries_of_one_set(points)
            acts = [ABOVE, BELOW, INSERT] if space.n_orders else [ABOVE, INSERT]
        else:
            queries = points.queries(space.right_groups, space.right, space.n_orders)
        n_done = int(np.searchsorted(left_time, done))
        fresh = (4 * np.arange(n_done, left_time.size)[:, None] + np.array(acts)).ravel()
        tape = _in_batches(np.concatenate((4 * np.arange(n_done) + INSERT, fresh)), space.left_groups)
        return _Search(grow_forest(self.tree, points, self.memory, limits), queries, tape, one_way=len(acts) == 2)

    def _plan_two_trees(
        self, space: _Space, left_time: Int64Array, right_time: Int64Array, done: int, limits: MethodLimits
    ) -> _Search:
        """Left rows search the right rows that came before them, and the mirror of that."""
        columns = tuple(np.concatenate(both) for both in zip(space.left, space.right, strict=True))
        groups = np.concatenate((2 * space.left_groups, 2 * space.right_groups + 1))
        points = Ranked.of(groups, 2 * space.n_groups, columns)
        queries = points.queries(groups ^ 1, columns, space.n_orders, space.n_equal)
        tape = _in_batches(_two_sided_tape(left_time, right_time, done), groups >> 1)
        forest = grow_forest(self.tree, points, self.memory, limits)
        return _Search(forest, queries, tape, n_left=left_time.size)

    def _count_vanilla(self, bound: BoundJoin, limits: MethodLimits) -> int:
        if not bound.left.n_rows or not bound.right.n_rows:
            return 0
        search = self._plan(bound, *_times(bound), -1, limits)
        return (1 + search.one_way) * search.forest.count(search.queries, search.tape)

    def _pairs_vanilla(self, bound: BoundJoin, limits: MethodLimits) -> Iterator[Chunk]:
        if not bound.left.n_rows or not bound.right.n_rows:
            return
        search = self._plan(bound, *_times(bound), -1, limits)
        for entries, points in search.forest.all_pairs(search.queries, search.tape):
            left, right = search.oriented(entries, points)
            yield bound.left.rows[left], bound.right.rows[right]
            if search.one_way:
                yield bound.left.rows[right], bound.right.rows[left]

    def _count_sorted(self, bound: BoundJoin, weight: int, limits: MethodLimits) -> int:
        by_order = _Sorted.of(bound)
        total = int(by_order.n_earlier.sum())
        if _has_tree(bound):
            forest, queries = self._search(bound, by_order, limits)
            total = forest.count(queries, by_order.tape())
        if bound.reflexive:
            total -= _count_reflexive(bound)
        return weight * total

    def _search(self, bound: BoundJoin, by_order: _Sorted, limits: MethodLimits) -> tuple[SearchForest, Queries]:
        """The forest over all parts but the first inequality, and its queries."""
        left, right = bound.left, bound.right
        points = Ranked.of(by_order.left.groups, by_order.left.n_groups, left.order[1:] + left.differs)
        queries = points.queries(by_order.right_groups, right.order[1:] + right.differs, len(left.order) - 1)
        return grow_forest(self.tree, points, self.memory, limits), queries

    def _pairs(self, bound: BoundJoin, limits: MethodLimits) -> Iterator[Chunk]:
        """Violations as row numbers, in chunks."""
        if self.vanilla:
            yield from self._pairs_vanilla(bound, limits)
            return
        for part, weight in _sortable(bound):
            for left, right in self._pairs_sorted(part, limits):
                left_rows, right_rows = part.left.rows[left], part.right.rows[right]
                distinct = left_rows != right_rows
                left_rows, right_rows = left_rows[distinct], right_rows[distinct]
                yield left_rows, right_rows
                if weight == 2:
                    yield right_rows, left_rows

    def _pairs_sorted(self, bound: BoundJoin, limits: MethodLimits) -> Iterator[Chunk]:
        by_order = _Sorted.of(bound)
        if not _has_tree(bound):
            yield from by_order.pairs()
            return
        forest, queries = self._search(bound, by_order, limits)
        for entries, left in forest.all_pairs(queries, by_order.tape()):
            yield left, entries >> 2


@dataclass(frozen=True, slots=True)
class _Space:
    """Both sides of a join as points: their groups, and a column for each dimension.

    The columns of orders come first, those of equalities last: the key is either the group, or plain dimensions.
    `one_set`: both sides are the same points, compared with < or <=.
    """

    left_groups: Int64Array
    right_groups: Int64Array
    n_groups: int
    left: tuple[Int64Array, ...]
    right: tuple[Int64Array, ...]
    n_orders: int
    n_equal: int
    one_set: bool

    @classmethod
    def of(cls, bound: BoundJoin, *, vanilla: bool) -> _Space:
        left, right = bound.left, bound.right
        equal: list[tuple[Int64Array, Int64Array]] = []
        if vanilla:
            groups = np.zeros(left.n_rows, np.int64), np.zeros(right.n_rows, np.int64), 1
            equal = [(codes[left.rows], others[right.rows]) for codes, others in bound.equalities]
            if not equal and (bound.n_keys > 1 or not left.order + left.differs):
                equal = [(left.key, right.key)]
        elif bound.mirror:
            ids, _, n_groups = dense_groups(left.key, left.key[:0])
            groups = ids, ids, n_groups
        else:
            groups = dense_groups(left.key, right.key)
        orders = list(zip(left.order, right.order, strict=True))
        columns = orders + list(zip(left.differs, right.differs, strict=True)) + equal
        one_set = bound.mirror and all(np.array_equal(codes, others) for codes, others in columns[len(orders) :])
        one_set = one_set and all(
            np.array_equal(codes, others) or _is_one_less(codes, others) for codes, others in orders
        )
        sides = tuple(codes for codes, _ in columns), tuple(others for _, others in columns)
        return cls(*groups, *sides, len(orders), len(equal), one_set)

    def is_symmetric(self, bound: BoundJoin) -> bool:
        """Both sides have the same rows in the same groups, and a pair breaks the rule both ways or not at all."""
        same_rows = np.array_equal(bound.left.rows, bound.right.rows)
        return bound.symmetric and same_rows and np.array_equal(self.left_groups, self.right_groups)

    def queries_of_one_set(self, points: Ranked) -> Queries:
        """Each point as a query; where left codes are right codes less one, <= and not < is meant."""
        queries = points.queries(self.left_groups, self.left, self.n_orders, self.n_equal)
        for at in range(self.n_orders):
            if _is_one_less(self.left[at], self.right[at]):
                queries.below[:, at], queries.upto[:, at] = queries.upto[:, at].copy(), queries.below[:, at].copy()
        return queries


@dataclass(frozen=True, slots=True)
class _Search:
    """A tape to run over a forest. `one_way`: every pair breaks the rule in both directions, and is found in one.

    Left rows come first and right rows after `n_left` of them, if they are different points.
    """

    forest: SearchForest
    queries: Queries
    tape: Int64Array
    one_way: bool = False
    n_left: int = 0

    def oriented(self, entries: Int64Array, points: Int64Array) -> Chunk:
        """Pairs (entry of the tape, point) as places (left, right)."""
        is_left = (entries & 3) == ABOVE
        queries = entries >> 2
        left, right = np.where(is_left, queries, points), np.where(is_left, points, queries)
        return left, right - self.n_left


# The strategies by their names: range trees take O(n log(n)**k) time for k dimensions and space with one log less,
# kd-trees O(n**(2 - 1/k)) time and linear space (Theorem 1; Theorem 2 with k - 1 for count and violations).
RapidashRangeTree = partial(Rapidash, Tree.RANGE)
RapidashKdTree = partial(Rapidash, Tree.KD)
# Section 4.8: k counts all predicates.
VanillaRangeTree = partial(Rapidash, Tree.RANGE, vanilla=True)


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Algorithm 6 and Appendix B: left rows in the order of one inequality, searched by the right rows.

    `left` ranks the left rows by that inequality. A right row searches after the first `n_earlier` left rows of its
    group, which are those that satisfy the inequality with it; only the other parts are left to trees.
    """

    left: Ranked
    right_groups: Int64Array
    n_earlier: Int64Array

    @classmethod
    def of(cls, bound: BoundJoin) -> _Sorted:
        left, right = bound.left, bound.right
        left_groups, right_groups, n_groups = dense_groups(left.key, right.key)
        ranked = Ranked.of(left_groups, n_groups, left.order[:1])
        n_earlier = ranked.queries(right_groups, right.order[:1], 1).below.ravel()
        return cls(ranked, right_groups, n_earlier)

    def tape(self) -> Int64Array:
        """Insert the left rows group by group, and put each right row's search in its place among them."""
        return interleave(self.left.orders[0], self.left.starts[self.right_groups] + self.n_earlier)

    def pairs(self) -> Iterator[Chunk]:
        """All pairs (left, right) that satisfy the key and the one inequality, in chunks of bounded size."""
        order, starts = self.left.orders[0], self.left.starts[self.right_groups]
        ends = np.cumsum(self.n_earlier)
        begin = 0
        while begin < ends.size:
            before = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + _CHUNK, side="right")))
            sizes = self.n_earlier[begin:end]
            right = np.repeat(np.arange(begin, end), sizes)
            offsets = np.arange(right.size) - np.repeat(ends[begin:end] - sizes - before, sizes)
            yield order[starts[right] + offsets], right
            begin = end


def _has_tree(bound: BoundJoin) -> bool:
    return len(bound.left.order) + len(bound.left.differs) > 1


def _sortable(bound: BoundJoin) -> Iterator[tuple[BoundJoin, int]]:
    """Split the pairs into joins that have an inequality to sort by, each with how often its pairs count.

    A disequality is < or >, and if both sides are the same rows each < has its mirror > (4.5, Proposition 2).
    Without any part each row of a group meets each other (Algorithm 5): an inequality that always holds.
    """
    left, right = bound.left, bound.right
    if not left.n_rows or not right.n_rows:
        return
    if left.order:
        yield bound, 1
    elif not left.differs:
        yield _ordered(bound, np.zeros(left.n_rows, np.int64), np.ones(right.n_rows, np.int64)), 1
    elif bound.mirror:
        yield replace(_ordered(bound, left.differs[0], right.differs[0]), reflexive=False), 2
    else:
        yield _ordered(bound, left.differs[0], right.differs[0]), 1
        yield _ordered(bound, -left.differs[0], -right.differs[0]), 1


def _ordered(bound: BoundJoin, left: Int64Array, right: Int64Array) -> BoundJoin:
    """Replace the first disequality, if there is one, by an inequality."""
    return replace(
        bound,
        left=replace(bound.left, order=(left,), differs=bound.left.differs[1:]),
        right=replace(bound.right, order=(right,), differs=bound.right.differs[1:]),
        n_differs=bound.n_differs[1:],
    )


def _times(bound: BoundJoin) -> tuple[Int64Array, Int64Array]:
    """When rows arrive: by number, so that a row on both sides arrives once; sides far apart take turns."""
    left, right = bound.left.rows, bound.right.rows
    if left[-1] < right[0] or right[-1] < left[0]:
        return 2 * np.arange(left.size), 2 * np.arange(right.size) + 1
    return left, right


def _stages(left_time: Int64Array, right_time: Int64Array) -> Iterator[int]:
    """Times before which to look at the rows, so that each time there are about eight times as many."""
    size = _FIRST_STAGE
    while size < max(left_time.size, right_time.size):
        yield min(int(time[size]) for time in (left_time, right_time) if time.size > size)
        size *= _GROWTH
    yield max(int(left_time[-1]), int(right_time[-1])) + 1


def _in_batches(tape: Int64Array, groups: Int64Array) -> Int64Array:
    """Split a tape into batches that double in size, each sorted by group, for the sake of the caches.

    Groups are independent, and the order inside a group stays.
    """
    batch = np.zeros(tape.size, np.int64)
    end = _FIRST_STAGE
    while end < tape.size:
        batch[end:] += 1
        end *= 2
    return tape[sorted_places(batch, groups[tape >> 2])]


def _head(side: Side, n_rows: int) -> Side:
    order, differs = (tuple(codes[:n_rows] for codes in part) for part in (side.order, side.differs))
    return Side(side.rows[:n_rows], side.key[:n_rows], order, differs)


def _is_one_less(codes: Int64Array, others: Int64Array) -> bool:
    return bool((codes < others).all()) and np.array_equal(codes + 1, others)


def _two_sided_tape(left_time: Int64Array, right_time: Int64Array, done: int) -> Int64Array:
    """Search at each time before inserting, so that a row on both sides does not meet itself.

    The sort is stable and the searches come first in it; merging sorted runs, it is linear.
    """
    left = 4 * np.arange(left_time.size)
    right = 4 * np.arange(left_time.size, left_time.size + right_time.size)
    left_new, right_new = left_time >= done, right_time >= done
    times = np.concatenate((left_time[left_new], right_time[right_new], left_time, right_time))
    acts = np.concatenate((left[left_new] + ABOVE, right[right_new] + BELOW, left + INSERT, right + INSERT))
    return acts[np.argsort(times, kind="stable")]


def _verify_extremes(bound: BoundJoin, left_time: Int64Array, right_time: Int64Array) -> tuple[int, int] | None:
    """Section 4.6, Algorithm 4; without any part (Algorithm 1) the inequality is one that always holds."""
    left, right = bound.left, bound.right
    if left.order or left.differs:
        left_codes, right_codes = (left.order + left.differs)[0], (right.order + right.differs)[0]
    else:
        left_codes, right_codes = np.zeros(left.n_rows, np.int64), np.ones(right.n_rows, np.int64)
    left_rows, right_rows = (left.key, left_codes, left_time), (right.key, right_codes, right_time)
    i, j = find_ordered_by_key(left_rows, right_rows, bool(left.differs))
    return (i, j) if i >= 0 else None


def _count_reflexive(bound: BoundJoin) -> int:
    """Rows on both sides that satisfy all parts with themselves."""
    left, right = bound.left, bound.right
    if not bound.mirror:
        _, left_places, right_places = np.intersect1d(left.rows, right.rows, assume_unique=True, return_indices=True)
        left, right = left.take(left_places), right.take(right_places)
    return int(np.count_nonzero(_hold(left, right)))


def _hold(left: Side, right: Side) -> BoolArray:
    """Where all parts hold between rows at the same places."""
    holds: BoolArray = left.key == right.key
    for left_codes, right_codes in zip(left.order, right.order, strict=True):
        holds &= left_codes < right_codes
    for left_codes, right_codes in zip(left.differs, right.differs, strict=True):
        holds &= left_codes != right_codes
    return holds
