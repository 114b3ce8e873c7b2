"""Refinements: from pairs of row sets to those that also satisfy a predicate (FACET, section 3.2)."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from naysay.arrays import BoolArray, Int64Array
from naysay.kernels.joins.facet import (
    MOST_WORDS,
    N_PAIRS,
    N_STATE,
    N_WORDS,
    NEXT,
    ClusterSide,
    build,
    count_equal,
    count_less,
    count_two_orders,
    probe,
    refine_pairs,
    refine_reflexive,
    scan,
    sort_sets,
)
from naysay.papers.facet.stage import (
    Clusters,
    Operator,
    Refinable,
    RefinementWork,
    RowSet,
    SetPair,
    Stage,
    array_of,
    bitmap_of,
    split_at,
)


class HashTable:
    """The row sets of the distinct values; `values` are in order, the sentinels of HSM's scans.

    An entry is an array until it is first asked for, and a bitmap from then on.
    """

    def __init__(self, codes: Int64Array, rows: RowSet) -> None:
        self._codes = codes
        self._entries: dict[int, RowSet] = {}
        self.values: list[int] = []
        self.add(rows)

    def add(self, rows: RowSet) -> None:
        """Add rows that are not in it."""
        values, grouped, bounds, _ = build(array_of(rows), self._codes)
        for value, places in zip(values.tolist(), split_at(grouped, bounds), strict=True):
            if value in self._entries:
                entry = self[value]
                entry |= bitmap_of(places)
            else:
                self._entries[value] = places
                self.values.append(value)
        # What was there is in order: sorting is a merge.
        self.values.sort()

    def get(self, value: int) -> BitMap:
        """The rows that have the value, if there are any."""
        return self[value] if value in self._entries else BitMap()

    def __getitem__(self, value: int) -> BitMap:
        entry = self._entries[value]
        if not isinstance(entry, BitMap):
            entry = self._entries[value] = bitmap_of(entry)
        return entry

    def union(self, values: Sequence[int]) -> BitMap:
        """The rows that have one of the values, of which there is at least one."""
        if len(values) == 1:
            return self[values[0]]
        return BitMap.union(*(self[value] for value in values))


class GrowingTable(threading.local):
    """The hash table of right sets that come one after the other, each of which may contain the one before.

    HSM and BHSM make such sets; only what is new is added then (section 5.3, optimizations). Each thread has its own.
    """

    def __init__(self, codes: Int64Array) -> None:
        self._codes = codes
        self._table = HashTable(codes, BitMap())
        self._rows = BitMap()

    def of(self, rows: BitMap) -> HashTable:
        fresh = rows - self._rows
        if len(self._rows) + len(fresh) != len(rows):
            self._table = HashTable(self._codes, rows)
            self._rows = rows.copy()
        elif fresh:
            self._table.add(fresh)
            self._rows |= fresh
        return self._table


# Row numbers that IEJoin hands on at a time; few at first, as they may be all that is wanted.
_FIRST_CHUNK = 1 << 10
_LAST_CHUNK = 1 << 20
# Words that one scan reads, at most.
_SCAN_WORDS = 1 << 26
# Rows of the pairs of sets that IEJoin counts many of in one call: a kernel cannot be interrupted.
_MOST_AT_ONCE = 1 << 13


class HSM:
    """Hash-Sort-Merge: a hash table of distinct values for each side, and a merge of their sorted keys.

    On a reflexive pair and a single column one table is both. If right sets grow, their table is kept and added to.
    """

    def __init__(self, left: Int64Array, right: Int64Array, *, grows: bool) -> None:
        self._left = left
        self._right = right
        self._growing = GrowingTable(right) if grows else None

    def refine(self, pair: SetPair) -> Iterator[SetPair]:
        return merge(*self.tables(pair))

    def count_all(self, clusters: Clusters) -> int:
        """Count the pairs by merging sorted values: sizes are enough, so no set is made."""
        left = _sorted_side(clusters.left, clusters.left_bounds, self._left)
        if clusters.reflexive and self._left is self._right:
            return int(count_less(left, left))
        return int(count_less(left, _sorted_side(clusters.right, clusters.right_bounds, self._right)))

    def tables(self, pair: SetPair) -> tuple[HashTable, HashTable]:
        left = HashTable(self._left, pair.left)
        if pair.reflexive and self._left is self._right:
            return left, left
        if self._growing is not None:
            return left, self._growing.of(bitmap_of(pair.right))
        return left, HashTable(self._right, pair.right)


def _sorted_side(places: Int64Array, bounds: Int64Array, codes: Int64Array) -> ClusterSide:
    return places[sort_sets((places, bounds, codes))], bounds, codes


def merge(left: HashTable, right: HashTable) -> Iterator[SetPair]:
    """Scan the values of both sides from the greatest down, the right one ahead.

    A left value meets all right rows met before and those of the right values just passed: a union with the last
    result. Left values between the same two right values meet the same rows, and share a pair.
    """
    lefts, rights = left.values, right.values
    if not lefts or not rights:
        return
    # The greatest left values and the least right ones may satisfy nothing.
    lefts, rights = lefts[: bisect_left(lefts, rights[-1])], rights[bisect_right(rights, lefts[0]) :]
    met = BitMap()
    i, j = len(lefts), len(rights)
    while i > 0:
        passed = j
        while j > 0 and rights[j - 1] > lefts[i - 1]:
            j -= 1
        met |= right.union(rights[j:passed])
        last = i
        while i > 0 and (j == 0 or lefts[i - 1] >= rights[j - 1]):
            i -= 1
        yield SetPair(left.union(lefts[i:last]), met)


class BHSM:
    """Binning-Hash-Sort-Merge: HSM on ranges of values, then on the values of the rows that share a range.

    The ranges are of equal width, over the values of both columns, so that a left range overlaps one right range. Sets
    of fewer rows than there would be ranges are left to HSM (section 6.2).
    """

    def __init__(self, predicate: Refinable, n_bins: int, *, grows: bool) -> None:
        self._n_bins = n_bins
        self._values = HSM(predicate.left, predicate.right, grows=grows)
        self._ranges = HSM(*_binned(predicate.left, predicate.right, n_bins), grows=grows)
        self._candidates = HSM(predicate.left, predicate.right, grows=False)

    def count_all(self, clusters: Clusters) -> int:
        """Count the pairs; ranges only help to make sets."""
        return self._values.count_all(clusters)

    def refine(self, pair: SetPair) -> Iterator[SetPair]:
        if max(len(pair.left), len(pair.right)) <= self._n_bins:
            yield from self._values.refine(pair)
            return
        left, right = self._ranges.tables(pair)
        yield from merge(left, right)
        for number in left.values:
            if candidates := right.get(number):
                yield from self._candidates.refine(SetPair(left[number], candidates))


def _binned(left: Int64Array, right: Int64Array, n_bins: int) -> tuple[Int64Array, Int64Array]:
    """The number of the range of each code."""
    if not left.size or not right.size:
        return left, right
    least = min(int(left.min()), int(right.min()))
    width = (max(int(left.max()), int(right.max())) - least) // n_bins + 1
    bins = (left - least) // width
    return bins, bins if left is right else (right - least) // width


class IEJoin:
    """Two inequalities at a time, after Khayyat et al., PVLDB 8(13): sorted rows, permutations, offsets, a bitmap.

    Its sets are arrays: they are only stored and read.
    """

    def __init__(self, first: Refinable, second: Refinable, work: RefinementWork) -> None:
        self._first = first
        self._second = second
        self._work = work

    def refine(self, pair: SetPair) -> Iterator[SetPair]:
        left, right, offsets, permutation = self._sort(pair)
        bits, state = np.zeros((right.size >> 6) + 1, np.uint64), np.zeros(N_STATE, np.int64)
        capacity = max(_FIRST_CHUNK, right.size)
        while state[NEXT] < left.size:
            found = self._scan(offsets, permutation, bits, state, capacity)
            lefts, rights = left[found[0]], right[found[2]]
            left_begin = right_begin = 0
            for left_end, right_end in zip(found[1].tolist(), found[3].tolist(), strict=True):
                yield SetPair(lefts[left_begin:left_end], rights[right_begin:right_end])
                left_begin, right_begin = left_end, right_end
            capacity = max(capacity, min(2 * capacity, _LAST_CHUNK))

    def count_all(self, clusters: Clusters) -> int:
        """Count the pairs: marks are counted, and no set is made. Small pairs of sets are counted together."""
        total = begin = 0
        for large in [*np.flatnonzero(clusters.sizes > _MOST_AT_ONCE).tolist(), len(clusters)]:
            if begin < large:
                total += self._count_small(clusters.slice(begin, large))
            begin = large + 1
            total += sum(map(self._count_large, clusters.slice(large, begin).pairs()))
        return total

    def _count_small(self, clusters: Clusters) -> int:
        first, second = self._first, self._second
        right = _sorted_side(clusters.right, clusters.right_bounds, first.right)
        rising = sort_sets((right[0], right[1], second.right))
        if clusters.reflexive and first.left is first.right and second.left is second.right:
            left = right[0][rising]
        else:
            left = _sorted_side(clusters.left, clusters.left_bounds, second.left)[0]
        n_pairs, n_words = count_two_orders(
            (left, clusters.left_bounds, first.left), right, second.left, second.right, rising
        )
        self._work.spend(n_words)
        return int(n_pairs)

    def _count_large(self, pair: SetPair) -> int:
        left, right, offsets, permutation = self._sort(pair)
        bits, state = np.zeros((right.size >> 6) + 1, np.uint64), np.zeros(N_STATE, np.int64)
        while state[NEXT] < left.size:
            self._scan(offsets, permutation, bits, state, 0)
        return int(state[N_PAIRS])

    def _sort(self, pair: SetPair) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """The left rows by falling second code, the right rows by first code, and what `scan` takes."""
        first, second = self._first, self._second
        right = array_of(pair.right)
        right = right[np.argsort(first.right[right], kind="stable")]
        codes = second.right[right]
        rising = np.argsort(codes, kind="stable")
        permutation = np.ascontiguousarray(rising[::-1])
        if pair.reflexive and first.left is first.right and second.left is second.right:
            left = right[permutation]
        else:
            left = array_of(pair.left)
            left = left[np.argsort(second.left[left], kind="stable")[::-1]]
        offsets = np.empty((2, left.size), np.int64)
        offsets[0] = np.searchsorted(first.right[right], first.left[left], side="right")
        offsets[1] = right.size - np.searchsorted(codes[rising], second.left[left], side="right")
        return left, right, offsets, permutation

    def _scan(
        self, offsets: Int64Array, permutation: Int64Array, bits: NDArray[np.uint64], state: Int64Array, capacity: int
    ) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """Continue the last scan, but not for long: a kernel cannot be interrupted."""
        state[N_WORDS], state[MOST_WORDS] = 0, min(self._work.left, max(_SCAN_WORDS, bits.size + 1))
        found = scan(offsets, permutation, bits, state, capacity)
        self._work.spend(int(state[N_WORDS]))
        return found


class EqualityRefinement:
    """Section 5.1: each value of the build side, with the rows of the probe side that have it; arrays of integers.

    On a reflexive pair and a single column nothing is probed, and the sets are reflexive again; with `prune` those of
    one row, which hold no pair, are dropped.
    """

    def __init__(self, predicate: Refinable, *, build_right: bool, prune: bool) -> None:
        self._predicate = predicate
        self._build_right = build_right
        self._prune = prune

    def refine(self, pair: SetPair) -> Iterator[SetPair]:
        _, built, built_bounds, probed, probed_bounds = _build_and_probe(self._predicate, pair, self._build_right)
        if built is probed:
            least = 2 if self._prune else 1
            yield from (SetPair(rows, rows) for rows in split_at(built, built_bounds) if rows.size >= least)
            return
        for rows, others in zip(split_at(built, built_bounds), split_at(probed, probed_bounds), strict=True):
            if others.size:
                yield SetPair(others, rows) if self._build_right else SetPair(rows, others)

    def refine_all(self, clusters: Clusters) -> Clusters:
        """The same for many pairs at once."""
        built, probed, same = _sides(self._predicate, clusters, self._build_right)
        if same:
            rows, bounds = refine_reflexive(built, 2 if self._prune else 1)
            return Clusters(rows, bounds, rows, bounds)
        rows, bounds, others, other_bounds = refine_pairs(built, probed)
        if self._build_right:
            return Clusters(others, other_bounds, rows, bounds)
        return Clusters(rows, bounds, others, other_bounds)

    def count_all(self, clusters: Clusters) -> int:
        """Count the pairs without making any set: sizes are enough."""
        built, probed, same = _sides(self._predicate, clusters, self._build_right)
        n_equal, _ = count_equal(built, probed, same)
        return int(n_equal) - clusters.left.size if same else int(n_equal)


class NonEqualityRefinement:
    """Section 5.2: each value of the build side, with the set difference of the probe side and the rows that have it.

    The differences are bitmaps; the sets of the values are only read from here on, and stay arrays. If right sets
    grow, their table is kept from pair to pair, and looked up instead of probed (section 5.3, optimizations).
    """

    def __init__(self, predicate: Refinable, *, build_right: bool, grows: bool) -> None:
        self._predicate = predicate
        self._build_right = build_right and not grows
        self._right = GrowingTable(predicate.right) if grows else None

    def refine(self, pair: SetPair) -> Iterator[SetPair]:
        entries = self._probe(pair) if self._right is None else self._look_up(pair, self._right)
        if entries is None:
            return
        everyone = bitmap_of(pair.left if self._build_right else pair.right)
        for rows, equal in entries:
            others = everyone - bitmap_of(equal) if len(equal) else everyone
            if others:
                yield SetPair(others, rows) if self._build_right else SetPair(rows, others)

    def count_all(self, clusters: Clusters) -> int:
        """Count the pairs without making any set: all of them less those that are equal."""
        n_equal, n_pairs = count_equal(*_sides(self._predicate, clusters, self._build_right))
        return int(n_pairs) - int(n_equal)

    def _probe(self, pair: SetPair) -> Iterator[tuple[RowSet, RowSet]] | None:
        """The rows of each value on the build side, and those on the probe side; None if all are equal."""
        values, built, built_bounds, probed, probed_bounds = _build_and_probe(self._predicate, pair, self._build_right)
        if built is probed and values.size == 1:
            return None
        return zip(split_at(built, built_bounds), split_at(probed, probed_bounds), strict=True)

    def _look_up(self, pair: SetPair, right: GrowingTable) -> Iterator[tuple[RowSet, RowSet]]:
        values, grouped, bounds, _ = build(array_of(pair.left), self._predicate.left)
        table = right.of(bitmap_of(pair.right))
        return zip(split_at(grouped, bounds), map(table.get, values.tolist()), strict=True)


def _build_and_probe(
    predicate: Refinable, pair: SetPair, build_right: bool
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array, Int64Array]:
    """The distinct values of the build side, and for both sides the rows value by value with their bounds.

    If both sides are the same, so are the arrays.
    """
    sides = (pair.left, predicate.left), (pair.right, predicate.right)
    (build_rows, build_codes), (probe_rows, probe_codes) = reversed(sides) if build_right else sides
    values, built, built_bounds, slots = build(array_of(build_rows), build_codes)
    if pair.reflexive and predicate.left is predicate.right:
        return values, built, built_bounds, built, built_bounds
    probed, probed_bounds = probe(array_of(probe_rows), probe_codes, values, slots)
    return values, built, built_bounds, probed, probed_bounds


def _sides(predicate: Refinable, clusters: Clusters, build_right: bool) -> tuple[ClusterSide, ClusterSide, bool]:
    """What is built, what is probed, and whether both are the same."""
    left = clusters.left, clusters.left_bounds, predicate.left
    right = clusters.right, clusters.right_bounds, predicate.right
    same = clusters.reflexive and predicate.left is predicate.right
    return (right, left, same) if build_right else (left, right, same)


class Refinement:
    """A stage at work on the pairs of sets that the stage before it makes, or on the first pair.

    With `prune` a set of one row that meets only itself may be dropped (section 5.1).
    """

    def __init__(self, stage: Stage, work: RefinementWork, *, prune: bool, before: Stage | None = None) -> None:
        self._operator = _operator(stage, work, prune, before)
        self._filters = [_Filter(predicate) for predicate in stage.predicates if predicate.can_fail_alone]
        # What is kept for right sets that grow is worth more than a count without sets.
        self._counts_sets = before is not None and before.operator in _GROWING
        self._work = work

    def refine(self, pair: SetPair) -> Iterator[SetPair]:
        """The pairs of sets with those pairs that also satisfy the stage; none of them is empty."""
        pair = self._restrict(pair)
        if pair.empty:
            return
        for refined in self._operator.refine(pair) if self._operator else (pair,):
            self._work.spend(refined.n_words)
            yield refined

    def count(self, pair: SetPair) -> int:
        """Count the pairs that also satisfy the stage."""
        if self._counts_sets and not isinstance(self._operator, EqualityRefinement | IEJoin):
            return sum(refined.n_pairs for refined in self.refine(pair))
        return self.count_all(Clusters.of(pair))

    @property
    def refines_all(self) -> bool:
        """Whether it refines many pairs at once."""
        return self._operator is None or isinstance(self._operator, EqualityRefinement)

    def refine_all(self, clusters: Clusters) -> Clusters:
        """As `refine`, for many pairs at once; some may be empty. Only if `refines_all`."""
        clusters = self._restrict_all(clusters)
        return self._operator.refine_all(clusters) if isinstance(self._operator, EqualityRefinement) else clusters

    def count_all(self, clusters: Clusters) -> int:
        """As `count`, for many pairs at once."""
        clusters = self._restrict_all(clusters)
        return clusters.n_pairs if self._operator is None else self._operator.count_all(clusters)

    def _restrict_all(self, clusters: Clusters) -> Clusters:
        for restriction in self._filters:
            clusters = restriction.apply_all(clusters)
        self._work.spend(clusters.n_rows)
        return clusters

    def _restrict(self, pair: SetPair) -> SetPair:
        for restriction in self._filters:
            pair = restriction.apply(pair)
        return pair


_GROWING = (Operator.HSM, Operator.BHSM)


def _operator(
    stage: Stage, work: RefinementWork, prune: bool, before: Stage | None
) -> EqualityRefinement | NonEqualityRefinement | HSM | BHSM | IEJoin | None:
    if stage.operator is Operator.KEEP:
        return None
    if stage.operator is Operator.IEJOIN:
        first, second = stage.predicates
        return IEJoin(first, second, work)
    (predicate,) = stage.predicates
    if stage.operator is Operator.EQUAL:
        return EqualityRefinement(predicate, build_right=stage.build_right, prune=prune)
    # The right sets of these two contain each the one before: what is built for them is kept (5.3, optimizations).
    grows = before is not None and before.operator in _GROWING
    if stage.operator is Operator.DIFFERS:
        return NonEqualityRefinement(predicate, build_right=stage.build_right, grows=grows)
    if stage.operator is Operator.HSM:
        return HSM(predicate.left, predicate.right, grows=grows)
    return BHSM(predicate, work.n_bins, grows=grows)


class _Filter:
    """Drops the places for which a predicate can never hold: the value is null, or fails a filter."""

    def __init__(self, predicate: Refinable) -> None:
        self._left, self._right = predicate.left_valid, predicate.right_valid
        # By the identity of a mask: both sides may have the same one.
        self._bits = {
            id(mask): bitmap_of(np.flatnonzero(mask)) for mask in (self._left, self._right) if mask is not None
        }

    def apply(self, pair: SetPair) -> SetPair:
        left = self._keep(pair.left, self._left)
        same = pair.reflexive and self._left is self._right
        return SetPair(left, left if same else self._keep(pair.right, self._right))

    def apply_all(self, clusters: Clusters) -> Clusters:
        left = _keep_places(clusters.left, clusters.left_bounds, self._left)
        same = clusters.reflexive and self._left is self._right
        return Clusters(*left, *(left if same else _keep_places(clusters.right, clusters.right_bounds, self._right)))

    def _keep(self, rows: RowSet, mask: BoolArray | None) -> RowSet:
        if mask is None:
            return rows
        return rows & self._bits[id(mask)] if isinstance(rows, BitMap) else rows[mask[rows]]


def _keep_places(places: Int64Array, bounds: Int64Array, mask: BoolArray | None) -> tuple[Int64Array, Int64Array]:
    if mask is None:
        return places, bounds
    kept = mask[places]
    return places[kept], np.concatenate([[0], np.cumsum(kept)])[bounds]
