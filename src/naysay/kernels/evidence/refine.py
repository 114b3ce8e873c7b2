"""Refining pairs of clusters of rows, as Hydra does (section 6.3): keep the pairs of rows that satisfy a predicate.

partition   cluster pairs: rows and starts of the left side, then of the right; pair c represents all (t, s) with t in
            left_rows[left_starts[c]:left_starts[c + 1]] and s likewise on the right, t != s.
sides       int32[n_lines, n_rows] left and right, as in `evidence.pairs`.
predicates  int64[n, 6]: the line of the values; the kind of comparison; 1, or -1 to turn the values, so that > is <;
            a line and bits of it that are set for rows that satisfy nothing; and which row it is about: BOTH, or LEFT
            or RIGHT if all rows of the other side have the same value. n is 2 for two inequalities, else 1.
state       int64[2]: the cluster pair and the place among its left rows to begin with. Output clusters are copies, so
            a refinement stops once it has written about `limit` rows, and is called again with the state that it left;
            state[0] is the number of cluster pairs when it is done.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int32Array, Int64Array, UInt64Array
from naysay.kernels.bits import ALL, ONE, ZERO, bit, lowest
from naysay.kernels.compile import kernel

Partition = tuple[Int64Array, Int64Array, Int64Array, Int64Array]
Sides = tuple[Int32Array, Int32Array]
# A partition that grows, and its number of cluster pairs.
Output = tuple[Int64Array, Int64Array, Int64Array, Int64Array, int]

EQUAL, DIFFERS, LESS, AT_MOST = 0, 1, 2, 3
BOTH, LEFT, RIGHT = 0, 1, 2
_LINE, _KIND, _SIGN, _NULL_LINE, _NULL_BITS, _ABOUT = 0, 1, 2, 3, 4, 5
# Below all values, which have 32 bits.
_NOTHING = -(1 << 40)


@kernel
def refine(partition: Partition, sides: Sides, predicates: Int64Array, state: Int64Array, limit: int) -> Partition:
    """The pairs of a partition that satisfy the predicates, from `state` on, which is advanced."""
    left_rows, left_starts, right_rows, right_starts = partition
    rows, marks = np.empty((2, 1024), np.int64), np.zeros((2, 64), np.int64)
    output = (rows[0], marks[0], rows[1], marks[1], 0)
    while state[0] < left_starts.size - 1 and _n_written(output) < limit:
        c = state[0]
        left = left_rows[left_starts[c] : left_starts[c + 1]]
        right = right_rows[right_starts[c] : right_starts[c + 1]]
        i = left.size
        if left.size == 1 or predicates[0, _ABOUT] == RIGHT:
            output = _emit(output, left, _satisfying(right, left[:1], sides, predicates, False), left[:0])
        elif right.size == 1 or predicates[0, _ABOUT] == LEFT:
            output = _emit(output, _satisfying(left, right[:1], sides, predicates, True), right, left[:0])
        elif predicates.shape[0] == 1:
            output, i = _join(output, left, right, sides, predicates[0], state[1], limit)
        else:
            output, i = _inequality_join(output, left, right, sides, predicates, state[1], limit)
        state[1] = i
        if i >= left.size:
            state[0] = c + 1
            state[1] = 0
    left_rows, left_starts, right_rows, right_starts, n_pairs = output
    return (
        left_rows[: left_starts[n_pairs]].copy(),
        left_starts[: n_pairs + 1].copy(),
        right_rows[: right_starts[n_pairs]].copy(),
        right_starts[: n_pairs + 1].copy(),
    )


@kernel
def _n_written(output: Output) -> int:
    return output[1][output[4]] + output[3][output[4]]


@kernel
def _emit(output: Output, left: Int64Array, right: Int64Array, more: Int64Array) -> Output:
    """Append a cluster pair, the right one in two stretches, unless it contains no pair of different rows."""
    left_rows, left_starts, right_rows, right_starts, n_pairs = output
    n_right = right.size + more.size
    if left.size == 0 or n_right == 0:
        return output
    if left.size == 1 and n_right == 1 and left[0] == (right[0] if right.size else more[0]):
        return output
    left_rows, n_left = _append(left_rows, left_starts[n_pairs], left)
    right_rows, place = _append(right_rows, right_starts[n_pairs], right)
    right_rows, place = _append(right_rows, place, more)
    left_starts, n_pairs = _reserve(left_starts, n_pairs + 1, n_pairs + 2), n_pairs + 1
    right_starts = _reserve(right_starts, n_pairs, n_pairs + 1)
    left_starts[n_pairs] = n_left
    right_starts[n_pairs] = place
    return left_rows, left_starts, right_rows, right_starts, n_pairs


@kernel
def _append(rows: Int64Array, n_rows: int, cluster: Int64Array) -> tuple[Int64Array, int]:
    rows = _reserve(rows, n_rows, n_rows + cluster.size)
    for k in range(cluster.size):
        rows[n_rows + k] = cluster[k]
    return rows, n_rows + cluster.size


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
def _value(side: Int32Array, predicate: Int64Array, row: int) -> int:
    """What a predicate compares of a row; _NOTHING if the row does not satisfy it with any other."""
    if predicate[_NULL_BITS] and side[predicate[_NULL_LINE], row] & predicate[_NULL_BITS]:
        return _NOTHING
    return predicate[_SIGN] * side[predicate[_LINE], row]


@kernel
def _holds(left: int, right: int, kind: int) -> bool:
    if left == _NOTHING or right == _NOTHING:
        return False
    if kind == EQUAL:
        return left == right
    if kind == DIFFERS:
        return left != right
    return left < right or (kind == AT_MOST and left == right)


@kernel
def _satisfying(
    cluster: Int64Array, other: Int64Array, sides: Sides, predicates: Int64Array, is_left: bool
) -> Int64Array:
    """The rows of a cluster that satisfy the predicates with one row, or with any: filters, and clusters of one row."""
    kept = np.empty(cluster.size, np.int64)
    n_kept = 0
    for row in cluster:
        fits = other.size > 0
        for k in range(predicates.shape[0]):
            if fits:
                left = _value(sides[0], predicates[k], row if is_left else other[0])
                right = _value(sides[1], predicates[k], other[0] if is_left else row)
                fits = _holds(left, right, predicates[k, _KIND])
        if fits:
            kept[n_kept] = row
            n_kept += 1
    return kept[:n_kept]


@kernel
def _sorted_cluster(rows: Int64Array, side: Int32Array, predicate: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The rows of a cluster that have a value, by value, and their values."""
    kept, values = np.empty(rows.size, np.int64), np.empty(rows.size, np.int64)
    n_kept = 0
    for row in rows:
        value = _value(side, predicate, row)
        if value != _NOTHING:
            kept[n_kept] = row
            values[n_kept] = value
            n_kept += 1
    order = np.argsort(values[:n_kept], kind="mergesort")
    return kept[order], values[order]


@kernel
def _join(
    output: Output, left: Int64Array, right: Int64Array, sides: Sides, predicate: Int64Array, i: int, limit: int
) -> tuple[Output, int]:
    """One predicate: runs of left rows with the same partners, from place i on. Also the place to go on from."""
    kind = predicate[_KIND]
    n_rows = left.size
    left, left_values = _sorted_cluster(left, sides[0], predicate)
    right, right_values = _sorted_cluster(right, sides[1], predicate)
    nothing = right[:0]
    if kind == DIFFERS:
        n_alone = _unequal_first(left, left_values, right_values)
        if i < n_alone:
            output, i = _emit(output, left[:n_alone], right, nothing), n_alone
    low = 0
    while i < left.size and _n_written(output) < limit:
        value = left_values[i]
        end = i + 1
        while end < left.size and left_values[end] == value:
            end += 1
        while low < right.size and right_values[low] < value:
            low += 1
        high = low
        while high < right.size and right_values[high] == value:
            high += 1
        if kind == EQUAL:
            output = _emit(output, left[i:end], right[low:high], nothing)
        elif kind == DIFFERS:
            output = _emit(output, left[i:end], right[:low], right[high:])
        else:
            first = high if kind == LESS else low
            while end < left.size and (first == right.size or _holds(left_values[end], right_values[first], kind)):
                end += 1
            output = _emit(output, left[i:end], right[first:], nothing)
        i = end
    return output, (n_rows if i == left.size else i)


@kernel
def _unequal_first(rows: Int64Array, values: Int64Array, others: Int64Array) -> int:
    """Bring the rows whose value no other has to the front; returns how many these are. All ascend by value."""
    old_rows, old_values = rows.copy(), values.copy()
    is_alone = np.empty(rows.size, np.bool_)
    j = 0
    for i in range(rows.size):
        while j < others.size and others[j] < values[i]:
            j += 1
        is_alone[i] = j == others.size or others[j] != values[i]
    n_alone = 0
    for wanted in (True, False):
        for i in range(rows.size):
            if is_alone[i] == wanted:
                rows[n_alone] = old_rows[i]
                values[n_alone] = old_values[i]
                n_alone += 1
    return is_alone.sum()


@kernel
def _inequality_join(
    output: Output, left: Int64Array, right: Int64Array, sides: Sides, predicates: Int64Array, i: int, limit: int
) -> tuple[Output, int]:
    """Two inequalities in one pass, IEJoin made to give clusters, from place i on. Also the place to go on from.

    The left rows come by descending first value, so that right rows only ever join those whose first inequality
    holds: bits in the order of their second values. Left rows with the same partners become one cluster.
    """
    n_rows = left.size
    left, left_values = _by_two_values(left, sides[0], predicates)
    right, right_values = _sorted_cluster(right, sides[1], predicates[0])
    second, second_values = _sorted_cluster(right, sides[1], predicates[1])
    place_of = _places(right, second)
    joined = np.zeros((second.size >> 6) + 1, np.uint64)
    partners, last = np.empty((2, second.size), np.int64)
    nothing = right[:0]
    n_last = 0
    start = k = i
    j = right.size
    while k < left.size and _n_written(output) < limit:
        if k == i or left_values[0, k] != left_values[0, k - 1] or left_values[1, k] != left_values[1, k - 1]:
            while j > 0 and _holds(left_values[0, k], right_values[j - 1], predicates[0, _KIND]):
                j -= 1
                if place_of[j] >= 0:
                    joined[place_of[j] >> 6] |= bit(place_of[j])
            first = np.searchsorted(second_values, left_values[1, k] + (predicates[1, _KIND] == LESS))
            n_partners = _collect(joined, first, second, partners)
            if n_partners != n_last or (partners[:n_partners] != last[:n_last]).any():
                output = _emit(output, left[start:k], last[:n_last], nothing)
                start = k
                partners, last, n_last = last, partners, n_partners
        k += 1
    if k == left.size:
        output = _emit(output, left[start:], last[:n_last], nothing)
        start = n_rows
    return output, start


@kernel
def _by_two_values(rows: Int64Array, side: Int32Array, predicates: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The rows of a cluster that have both values, by descending first and ascending second value; and the values."""
    kept, keys, values = (
        np.empty(rows.size, np.int64),
        np.empty(rows.size, np.int64),
        np.empty((2, rows.size), np.int64),
    )
    n_kept = 0
    for row in rows:
        first, second = _value(side, predicates[0], row), _value(side, predicates[1], row)
        if first != _NOTHING and second != _NOTHING:
            kept[n_kept] = row
            values[0, n_kept] = first
            values[1, n_kept] = second
            keys[n_kept] = second - (first << 32)
            n_kept += 1
    order = np.argsort(keys[:n_kept], kind="mergesort")
    return kept[order], values[:, order]


@kernel
def _collect(joined: UInt64Array, first: int, second: Int64Array, partners: Int64Array) -> int:
    """Put the rows of `second` from `first` on whose bits are set into `partners`; returns how many these are."""
    n_partners = 0
    for word in range(first >> 6, joined.size):
        left = joined[word]
        if word == first >> 6:
            left &= ALL << np.uint64(first & 63)
        while left != ZERO:
            partners[n_partners] = second[64 * word + np.int64(lowest(left))]
            left &= left - ONE
            n_partners += 1
    return n_partners


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
