"""Sorting by integer codes, and ranks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import Int64Array
from naysay.kernels.compile import kernel

_DIGIT_BITS = 11
_N_DIGITS = 1 << _DIGIT_BITS


@kernel
def sorted_places(major: Int64Array, minor: Int64Array) -> Int64Array:
    """Give the places of rows in ascending order of (major, minor); stable.

    Least-significant-digit radix sort: O(n) for each 11 bits of the two ranges together.
    """
    n_rows = major.size
    places = np.arange(n_rows)
    if n_rows < 2:
        return places
    low_major, high_major = _bounds(major)
    low_minor, high_minor = _bounds(minor)
    major_bits = _bit_length(np.uint64(high_major) - np.uint64(low_major))
    minor_bits = _bit_length(np.uint64(high_minor) - np.uint64(low_minor))
    digits = np.empty(n_rows, np.uint64)
    if major_bits + minor_bits <= 64:
        for i in range(n_rows):
            digits[i] = np.uint64(minor[i]) - np.uint64(low_minor)
            if minor_bits < 64:
                digits[i] |= (np.uint64(major[i]) - np.uint64(low_major)) << np.uint64(minor_bits)
        return _radix(digits, places, major_bits + minor_bits)
    for i in range(n_rows):
        digits[i] = np.uint64(minor[i]) - np.uint64(low_minor)
    places = _radix(digits, places, minor_bits)
    digits = np.empty(n_rows, np.uint64)
    for i in range(n_rows):
        digits[i] = np.uint64(major[places[i]]) - np.uint64(low_major)
    return _radix(digits, places, major_bits)


@kernel
def _bounds(codes: Int64Array) -> tuple[int, int]:
    low = codes[0]
    high = low
    for code in codes:
        low = min(low, code)
        high = max(high, code)
    return low, high


@kernel
def _bit_length(value: np.uint64) -> int:
    bits = 0
    while value > np.uint64(0):
        value >>= np.uint64(1)
        bits += 1
    return bits


@kernel
def _radix(digits: NDArray[np.uint64], places: Int64Array, n_bits: int) -> Int64Array:
    """Sort places by digits, which go along; `digits` is consumed."""
    n_rows = places.size
    n_passes = (n_bits + _DIGIT_BITS - 1) // _DIGIT_BITS
    if n_passes == 0:
        return places
    other_digits = np.empty_like(digits)
    other_places = np.empty_like(places)
    mask = np.uint64(_N_DIGITS - 1)
    starts = np.zeros((n_passes, _N_DIGITS), np.int64)
    for i in range(n_rows):
        value = digits[i]
        for turn in range(n_passes):
            starts[turn, np.int64(value & mask)] += 1
            value >>= np.uint64(_DIGIT_BITS)
    for turn in range(n_passes):
        position = 0
        only_one = False
        for digit in range(_N_DIGITS):
            count = starts[turn, digit]
            only_one |= count == n_rows
            starts[turn, digit] = position
            position += count
        if only_one:
            continue
        shift = np.uint64(turn * _DIGIT_BITS)
        for i in range(n_rows):
            digit = np.int64((digits[i] >> shift) & mask)
            target = starts[turn, digit]
            starts[turn, digit] = target + 1
            other_digits[target] = digits[i]
            other_places[target] = places[i]
        digits, other_digits = other_digits, digits
        places, other_places = other_places, places
    return places


@kernel
def group_starts(sorted_keys: Int64Array) -> Int64Array:
    """Where each run of equal keys starts, and the end: n_groups + 1 places."""
    n_rows = sorted_keys.size
    starts = np.empty(n_rows + 1, np.int64)
    n_groups = 0
    for i in range(n_rows):
        if i == 0 or sorted_keys[i] != sorted_keys[i - 1]:
            starts[n_groups] = i
            n_groups += 1
    starts[n_groups] = n_rows
    return starts[: n_groups + 1].copy()


@kernel
def dense_ranks(codes: Int64Array) -> tuple[Int64Array, int]:
    """Replace codes by their rank among the distinct ones. O(n) a digit of their range."""
    places = sorted_places(np.zeros(codes.size, np.int64), codes)
    ranks = np.empty(codes.size, np.int64)
    rank = -1
    for i in range(codes.size):
        if i == 0 or codes[places[i]] != codes[places[i - 1]]:
            rank += 1
        ranks[places[i]] = rank
    return ranks, rank + 1
