"""Refinements by left < right: HSM, BHSM and IEJoin (FACET, section 5.3)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from naysay.arrays import Int64Array
from naysay.kernels.joins.facet import MOST_WORDS, N_PAIRS, N_STATE, N_WORDS, NEXT, scan
from naysay.papers.facet.hash_tables import GrowingTable, HashTable
from naysay.papers.facet.predicates import Refinable
from naysay.papers.facet.rowsets import SetPair, array_of, bitmap_of
from naysay.papers.facet.stage import Work

# Row numbers that IEJoin hands on at a time; few at first, as they may be all that is wanted.
_FIRST_CHUNK = 1 << 10
_LAST_CHUNK = 1 << 20


class HSM:
    """Hash-Sort-Merge: a hash table of distinct values for each side, and a merge of their sorted keys.

    On a reflexive pair and a single column one table is both. Where right sets grow, theirs is kept and added to.
    """

    def __init__(self, left: Int64Array, right: Int64Array, *, grows: bool) -> None:
        self._left = left
        self._right = right
        self._growing = GrowingTable(right) if grows else None

    def refine(self, pair: SetPair) -> Iterator[SetPair]:
        return merge(*self.tables(pair))

    def tables(self, pair: SetPair) -> tuple[HashTable, HashTable]:
        left = HashTable(self._left, pair.left)
        if pair.reflexive and self._left is self._right:
            return left, left
        if self._growing is not None:
            return left, self._growing.of(bitmap_of(pair.right))
        return left, HashTable(self._right, pair.right)


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

    def __init__(self, first: Refinable, second: Refinable, work: Work) -> None:
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

    def count(self, pair: SetPair) -> int:
        """Count the pairs: marks are counted, and no set is made."""
        _, right, offsets, permutation = self._sort(pair)
        bits, state = np.zeros((right.size >> 6) + 1, np.uint64), np.zeros(N_STATE, np.int64)
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
        state[N_WORDS], state[MOST_WORDS] = 0, self._work.left
        found = scan(offsets, permutation, bits, state, capacity)
        self._work.spend(int(state[N_WORDS]))
        return found
