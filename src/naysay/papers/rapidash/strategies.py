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
from naysay.kernels.joins.find import find_ordered_pair
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
    """The three verbs with one of the trees, in at most `memory` bytes for trees and for lists of pairs."""

    tree: Tree
    memory: int = _MEMORY

    def verify(self, bound: BoundJoin) -> tuple[int, int] | None:
        """Look at the rows in order, in batches that double, and stop at one that breaks the rule with an earlier one.

        At most one inequality or disequality: running extremes (Algorithms 1 and 4). More: range search with one tree
        if both sides are the same points, else with one for each side (Algorithms 2 and 3, Appendix C.2).
        """
        if not bound.left.n_rows or not bound.right.n_rows:
            return None
        limits = self._limits()
        n_parts = len(bound.left.order) + len(bound.left.differs)
        left_time, right_time = _times(bound)
        done = -1
        for cut in _stages(left_time, right_time):
            limits.check()
            n_left, n_right = int(np.searchsorted(left_time, cut)), int(np.searchsorted(right_time, cut))
            times = left_time[:n_left], right_time[:n_right]
            part = replace(bound, left=_head(bound.left, n_left), right=_head(bound.right, n_right))
            if n_parts < 2:
                pair = _verify_extremes(part, *times)
            elif _is_one_set(bound):
                pair = self._verify_one_tree(part, int(np.searchsorted(left_time, done)), limits)
            else:
                pair = self._verify_two_trees(part, *times, done, limits)
            if pair is not None:
                return int(bound.left.rows[pair[0]]), int(bound.right.rows[pair[1]])
            done = cut
        return None

    def count(self, bound: BoundJoin) -> int:
        """Count with one dimension less than verify: in the order of one inequality (4.7, Algorithm 6)."""
        if bound.left.n_rows * bound.right.n_rows > np.iinfo(np.int64).max:
            raise CountOverflow("more pairs of rows than 64 bits can count")
        limits = self._limits()
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

    def _verify_one_tree(self, bound: BoundJoin, n_done: int, limits: MethodLimits) -> tuple[int, int] | None:
        """Algorithm 2: each row searches the rows before it above and below itself, then is inserted.

        With only disequalities both searches cover the same boxes, and one is left out (Proposition 2).
        """
        side = bound.left
        groups, _, n_groups = dense_groups(side.key, side.key[:0])
        columns = side.order + side.differs
        points = Ranked.of(groups, n_groups, columns)
        queries = points.queries(groups, columns, len(side.order))
        acts = np.array((ABOVE, BELOW, INSERT) if side.order else (ABOVE, INSERT), np.int64)
        fresh = (4 * np.arange(n_done, side.n_rows)[:, None] + acts).ravel()
        tape = _in_batches(np.concatenate((4 * np.arange(n_done) + INSERT, fresh)), groups)
        pair = grow_forest(self.tree, points, self.memory, limits).first_pair(queries, tape)
        if pair is None:
            return None
        row, earlier = (np.array([place]) for place in pair)
        return pair if _hold(side.take(row), side.take(earlier))[0] else (pair[1], pair[0])

    def _verify_two_trees(
        self, bound: BoundJoin, left_time: Int64Array, right_time: Int64Array, done: int, limits: MethodLimits
    ) -> tuple[int, int] | None:
        """Section 4.4 and Appendix C.2: left rows search the right rows that came before them, and the mirror."""
        left, right = bound.left, bound.right
        left_groups, right_groups, n_groups = dense_groups(left.key, right.key)
        columns = tuple(np.concatenate(both) for both in zip(left.order, right.order, strict=True)) + tuple(
            np.concatenate(both) for both in zip(left.differs, right.differs, strict=True)
        )
        groups = np.concatenate((2 * left_groups, 2 * right_groups + 1))
        points = Ranked.of(groups, 2 * n_groups, columns)
        queries = points.queries(groups ^ 1, columns, len(left.order))
        tape = _in_batches(_two_sided_tape(left_time, right_time, done), groups >> 1)
        pair = grow_forest(self.tree, points, self.memory, limits).first_pair(queries, tape)
        if pair is None:
            return None
        first, second = sorted(pair)
        return first, second - left.n_rows

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
        for right, left in forest.all_pairs(queries, by_order.tape()):
            yield left, right


# The strategies by their names: range trees take O(n log(n)**k) time for k dimensions and space with one log less,
# kd-trees O(n**(2 - 1/k)) time and linear space (Theorem 1; Theorem 2 with k - 1 for count and violations).
RapidashRangeTree = partial(Rapidash, Tree.RANGE)
RapidashKdTree = partial(Rapidash, Tree.KD)


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


def _is_one_set(bound: BoundJoin) -> bool:
    """Both sides are the same points, so that one tree serves both searches."""
    return bound.mirror and all(left is right for left, right in zip(bound.left.order, bound.right.order, strict=True))


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
    left_groups, right_groups, n_groups = dense_groups(left.key, right.key)
    if left.order or left.differs:
        left_codes, right_codes = (left.order + left.differs)[0], (right.order + right.differs)[0]
    else:
        left_codes, right_codes = np.zeros(left.n_rows, np.int64), np.ones(right.n_rows, np.int64)
    left_rows, right_rows = (left_groups, left_codes, left_time), (right_groups, right_codes, right_time)
    i, j = find_ordered_pair(left_rows, right_rows, n_groups, bool(left.differs))
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
