"""Counting points in boxes: a wavelet matrix over rows that are sorted by one column and have ranks of another.

For each bit of the rank, from the highest, the matrix keeps which rows have it set, and then puts the rows without it
before those with it, each in the order they came. The rows of a range with a rank below a bound are counted by
following the range through the bits: O(log n) per count, n log n bits in all (Claude and Navarro, The wavelet matrix,
2012).
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.kernels.bits import ONE, bit, popcount
from naysay.kernels.compile import kernel

# Which bits are set [n_bits, words]; how many are before each word, likewise; rows without the bit [n_bits].
Wavelet = tuple[UInt64Array, Int64Array, Int64Array]


@kernel
def build_wavelet(ranks: Int64Array, n_bits: int) -> Wavelet:
    """The matrix of ranks in [0, 2^n_bits), in the order given. O(n n_bits)."""
    n_rows = ranks.size
    n_words = n_rows // 64 + 1
    bits = np.zeros((n_bits, n_words), np.uint64)
    before = np.zeros((n_bits, n_words), np.int64)
    clears = np.zeros(n_bits, np.int64)
    current = ranks.copy()
    after = np.empty_like(current)
    for level in range(n_bits):
        shift = n_bits - 1 - level
        for row in range(n_rows):
            clears[level] += 1 - ((current[row] >> shift) & 1)
        clear, is_set = 0, clears[level]
        n_set = 0
        for row in range(n_rows):
            if row & 63 == 0:
                before[level, row >> 6] = n_set
            if (current[row] >> shift) & 1:
                bits[level, row >> 6] |= bit(row)
                after[is_set] = current[row]
                is_set += 1
                n_set += 1
            else:
                after[clear] = current[row]
                clear += 1
        if n_rows & 63 == 0:
            before[level, n_words - 1] = n_set
        current, after = after, current
    return bits, before, clears


@kernel
def _count_set(bits: UInt64Array, before: Int64Array, level: int, stop: int) -> int:
    """How many of the first `stop` rows have the bit of a level set."""
    word = bits[level, stop >> 6] & (bit(stop) - ONE)
    return before[level, stop >> 6] + np.int64(popcount(word))


@kernel
def _count_below(wavelet: Wavelet, start: int, stop: int, bound: int) -> int:
    """How many rows from start to stop have a rank less than bound."""
    bits, before, clears = wavelet
    n_bits = bits.shape[0]
    if bound >> n_bits:
        return stop - start
    total = 0
    for level in range(n_bits):
        if start >= stop:
            break
        set_start, set_stop = _count_set(bits, before, level, start), _count_set(bits, before, level, stop)
        if (bound >> (n_bits - 1 - level)) & 1:
            total += (stop - start) - (set_stop - set_start)
            start, stop = clears[level] + set_start, clears[level] + set_stop
        else:
            start, stop = start - set_start, stop - set_stop
    return total


@kernel
def _find_place(keys: Int64Array, values: Int64Array, key: int, value: int, above: bool) -> int:
    """The first place whose (key, value) is at least the given one, or above it; places ascend by both."""
    low, high = 0, keys.size
    while low < high:
        middle = (low + high) // 2
        before = keys[middle] < key
        if keys[middle] == key:
            before = values[middle] <= value if above else values[middle] < value
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def add_points(
    points: tuple[Int64Array, Int64Array, Int64Array],
    wavelet: Wavelet,
    boxes: Int64Array,
    sign: int,
    counts: Int64Array,
) -> None:
    """Add to counts[i] `sign` times the number of points in box i: [key, low, low, high, high].

    Points are (keys, firsts, seconds) and ascend by (key, first); `seconds` are the distinct second values ascending,
    and the wavelet has the rank of each point's second value among them. O(log n) per box.
    """
    keys, firsts, seconds = points
    for i in range(boxes.shape[0]):
        key = boxes[i, 0]
        start = _find_place(keys, firsts, key, boxes[i, 1], False)
        stop = _find_place(keys, firsts, key, boxes[i, 3], True)
        if start >= stop or boxes[i, 2] > boxes[i, 4]:
            continue
        low = np.searchsorted(seconds, boxes[i, 2])
        high = np.searchsorted(seconds, boxes[i, 4], side="right")
        counts[i] += sign * (_count_below(wavelet, start, stop, high) - _count_below(wavelet, start, stop, low))


@kernel
def add_points_one_by_one(points: Int64Array, boxes: Int64Array, counts: Int64Array) -> None:
    """As add_points, over a few points [key, first, second, sign] in any order. O(points * boxes)."""
    for i in range(boxes.shape[0]):
        total = 0
        for j in range(points.shape[0]):
            inside = points[j, 0] == boxes[i, 0]
            inside &= boxes[i, 1] <= points[j, 1] <= boxes[i, 3]
            inside &= boxes[i, 2] <= points[j, 2] <= boxes[i, 4]
            if inside:
                total += points[j, 3]
        counts[i] += total
