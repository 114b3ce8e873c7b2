"""Refining pairs of clusters of rows, as Hydra does (section 6.3): keep the pairs of rows for which a predicate holds.

A partition is a list of cluster pairs: rows and starts of the left side, then of the right; pair c represents all
(t, s) with t in left_rows[left_starts[c]:left_starts[c + 1]] and s likewise on the right, t != s. values int64 for each
side, by row, negative if a row satisfies nothing. Output clusters are copies, so a refinement stops once it has written
about `limit` rows, and is called again with the state that it left: int64[2], the cluster pair and the run of left rows
to begin with; state[0] is the number of cluster pairs when it is done.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.kernels.bits import ALL, ONE, ZERO, bit, lowest
from naysay.kernels.compile import kernel

Partition = tuple[Int64Array, Int64Array, Int64Array, Int64Array]

EQUAL, DIFFERS, LESS, AT_MOST = 0, 1, 2, 3


@kernel
def _sorted_cluster(rows: Int64Array, start: int, stop: int, values: Int64Array) -> Int64Array:
    """The rows of a cluster that have a value, by value."""
    kept = np.empty(stop - start, np.int64)
    n_kept = 0
    for k in range(start, stop):
        if values[rows[k]] >= 0:
            kept[n_kept] = rows[k]
            n_kept += 1
    keys = np.empty(n_kept, np.int64)
    for k in range(n_kept):
        keys[k] = values[kept[k]]
    order = np.argsort(keys, kind="mergesort")
    cluster = np.empty(n_kept, np.int64)
    for k in range(n_kept):
        cluster[k] = kept[order[k]]
    return cluster


@kernel
def _run_end(cluster: Int64Array, start: int, values: Int64Array) -> int:
    end = start + 1
    while end < cluster.size and values[cluster[end]] == values[cluster[start]]:
        end += 1
    return end


@kernel
def _reserve(array: Int64Array, n_used: int, n_needed: int) -> Int64Array:
    """The array, or a longer copy if it has no room for n_needed entries."""
    if n_needed <= array.size:
        return array
    larger = np.empty(2 * n_needed, np.int64)
    for k in range(n_used):
        larger[k] = array[k]
    return larger


@kernel
def _append(rows: Int64Array, n_rows: int, cluster: Int64Array, start: int, stop: int) -> tuple[Int64Array, int]:
    rows = _reserve(rows, n_rows, n_rows + stop - start)
    for k in range(start, stop):
        rows[n_rows + k - start] = cluster[k]
    return rows, n_rows + stop - start


@kernel
def _mark(starts: Int64Array, n_pairs: int, n_rows: int) -> Int64Array:
    """Note where the cluster after the n_pairs-th starts."""
    starts = _reserve(starts, n_pairs + 1, n_pairs + 2)
    starts[n_pairs + 1] = n_rows
    return starts


@kernel
def _trim(
    left: Int64Array, left_marks: Int64Array, right: Int64Array, right_marks: Int64Array, n_pairs: int
) -> Partition:
    """Copies of the parts of four arrays that are in use."""
    left, right = left[: left_marks[n_pairs]].copy(), right[: right_marks[n_pairs]].copy()
    return left, left_marks[: n_pairs + 1].copy(), right, right_marks[: n_pairs + 1].copy()


@kernel
def refine(
    partition: Partition, left_values: Int64Array, right_values: Int64Array, kind: int, state: Int64Array, limit: int
) -> Partition:
    """The pairs of a partition for which left `kind` right holds, from `state` on, which is advanced."""
    left_rows, left_starts, right_rows, right_starts = partition
    out_left, out_right = np.empty(1024, np.int64), np.empty(1024, np.int64)
    left_marks, right_marks = np.zeros(64, np.int64), np.zeros(64, np.int64)
    n_left = n_right = n_pairs = 0
    while state[0] < left_starts.size - 1 and n_left + n_right < limit:
        c = state[0]
        left = _sorted_cluster(left_rows, left_starts[c], left_starts[c + 1], left_values)
        right = _sorted_cluster(right_rows, right_starts[c], right_starts[c + 1], right_values)
        i = state[1]
        j = 0
        while i < left.size and n_left + n_right < limit:
            value = left_values[left[i]]
            end = _run_end(left, i, left_values)
            while j < right.size and right_values[right[j]] < value:
                j += 1
            stop = j
            while stop < right.size and right_values[right[stop]] == value:
                stop += 1
            # Of the right cluster two stretches are joined with the run: before `low` and from `high` on.
            low, high = 0, right.size
            if kind == EQUAL:
                high = j
            elif kind == DIFFERS:
                low, high = j, stop
                while stop == j and end < left.size and not _contains(right, right_values, left_values[left[end]]):
                    end = _run_end(left, end, left_values)
            else:
                high = stop if kind == LESS else j
                while end < left.size and _same_stretch(right, right_values, high, left_values[left[end]], kind):
                    end = _run_end(left, end, left_values)
            n_before = n_right
            if kind == EQUAL:
                out_right, n_right = _append(out_right, n_right, right, j, stop)
            else:
                out_right, n_right = _append(out_right, n_right, right, 0, low)
                out_right, n_right = _append(out_right, n_right, right, high, right.size)
            alone = n_right - n_before == 1 and end - i == 1 and out_right[n_before] == left[i]
            if n_right == n_before or alone:
                n_right = n_before
            else:
                out_left, n_left = _append(out_left, n_left, left, i, end)
                left_marks = _mark(left_marks, n_pairs, n_left)
                right_marks = _mark(right_marks, n_pairs, n_right)
                n_pairs += 1
            i = end
        state[1] = i
        if i >= left.size:
            state[0] = c + 1
            state[1] = 0
    return _trim(out_left, left_marks, out_right, right_marks, n_pairs)


@kernel
def _contains(cluster: Int64Array, values: Int64Array, value: int) -> bool:
    """Whether a cluster that is sorted by value contains a value."""
    place = _first_above(cluster, values, value, AT_MOST)
    return place < cluster.size and values[cluster[place]] == value


@kernel
def _same_stretch(right: Int64Array, values: Int64Array, high: int, value: int, kind: int) -> bool:
    """Whether another left value has the same partners from `high` on."""
    if high == right.size:
        return True
    return value < values[right[high]] if kind == LESS else value <= values[right[high]]


@kernel
def refine_two(
    partition: Partition,
    left_values: Int64Array,
    right_values: Int64Array,
    kinds: Int64Array,
    state: Int64Array,
    limit: int,
) -> Partition:
    """Two inequalities in one pass, IEJoin made to give clusters; values int64[2, n_rows], kinds LESS or AT_MOST.

    The left rows come by descending first value, so that right rows only ever join those whose first inequality
    holds: bits in the order of their second values.
    """
    left_rows, left_starts, right_rows, right_starts = partition
    out_left, out_right = np.empty(1024, np.int64), np.empty(1024, np.int64)
    left_marks, right_marks = np.zeros(64, np.int64), np.zeros(64, np.int64)
    n_left = n_right = n_pairs = 0
    while state[0] < left_starts.size - 1 and n_left + n_right < limit:
        c = state[0]
        left = _sorted_cluster(left_rows, left_starts[c], left_starts[c + 1], left_values[0])
        right = _sorted_cluster(right_rows, right_starts[c], right_starts[c + 1], right_values[0])
        second = _sorted_cluster(right, 0, right.size, right_values[1])
        place_of = _places(right, second)
        joined = np.zeros((second.size >> 6) + 1, np.uint64)
        j = right.size
        i = 0
        while i < left.size and n_left + n_right < limit:
            row = left[left.size - 1 - i]
            first = _first_above(right, right_values[0], left_values[0, row], kinds[0])
            while j > first:
                j -= 1
                if place_of[j] >= 0:
                    joined[place_of[j] >> 6] |= bit(place_of[j])
            if i >= state[1] and left_values[1, row] >= 0:
                n_before = n_right
                first = _first_above(second, right_values[1], left_values[1, row], kinds[1])
                out_right, n_right = _collect(joined, first, second, row, out_right, n_right)
                if n_right > n_before:
                    out_left, n_left = _append(out_left, n_left, left, left.size - 1 - i, left.size - i)
                    left_marks = _mark(left_marks, n_pairs, n_left)
                    right_marks = _mark(right_marks, n_pairs, n_right)
                    n_pairs += 1
            i += 1
        state[1] = i
        if i >= left.size:
            state[0] = c + 1
            state[1] = 0
    return _trim(out_left, left_marks, out_right, right_marks, n_pairs)


@kernel
def _first_above(cluster: Int64Array, values: Int64Array, value: int, kind: int) -> int:
    """The first place of a sorted cluster whose value is greater than (AT_MOST: at least) the given one."""
    low = 0
    high = cluster.size
    while low < high:
        middle = (low + high) >> 1
        here = values[cluster[middle]]
        if here > value or (kind == AT_MOST and here == value):
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def _collect(
    joined: UInt64Array, first: int, second: Int64Array, row: int, out: Int64Array, n_out: int
) -> tuple[Int64Array, int]:
    """Append the rows of `second` from `first` on whose bits are set, except the row itself."""
    for word in range(first >> 6, joined.size):
        left = joined[word]
        if word == first >> 6:
            left &= ALL << np.uint64(first & 63)
        while left != ZERO:
            place = 64 * word + np.int64(lowest(left))
            left &= left - ONE
            if second[place] != row:
                out, n_out = _append(out, n_out, second, place, place + 1)
    return out, n_out


@kernel
def _places(right: Int64Array, second: Int64Array) -> Int64Array:
    """For each row of `right` its place in `second`, -1 if it is not there. A cluster has each row once."""
    by_row = np.argsort(second, kind="mergesort")
    places = np.full(right.size, -1, np.int64)
    ascending = second[by_row]
    for k in range(right.size):
        at = np.searchsorted(ascending, right[k])
        if at < second.size and ascending[at] == right[k]:
            places[k] = by_row[at]
    return places
