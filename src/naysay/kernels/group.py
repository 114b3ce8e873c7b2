"""Grouping: rows with equal keys, without sorting."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from naysay.kernels.compile import kernel

Int64Array = NDArray[np.int64]

# Fibonacci hashing: the odd number nearest 2^64 divided by the golden ratio.
_MULTIPLIER = np.uint64(11400714819323198485)
_EMPTY = -1


@kernel
def table_bits(n_keys: int) -> int:
    """Bits of a hash table that stays at most half full with n_keys keys."""
    bits = 4
    while (1 << bits) < 2 * n_keys:
        bits += 1
    return bits


@kernel
def slot_of(key: int, slots: Int64Array, shift: np.uint64) -> int:
    """Find the slot that holds `key`, or the empty one where it belongs. Keys are not negative."""
    slot = np.int64((np.uint64(key) * _MULTIPLIER) >> shift)
    last = slots.size - 1
    while slots[slot] != _EMPTY and slots[slot] != key:
        slot = slot + 1 if slot < last else 0
    return slot


@kernel
def dense_groups(left: Int64Array, right: Int64Array) -> tuple[Int64Array, Int64Array, int]:
    """Number the distinct keys of both sides 0, 1, ... in order of appearance. O(n) expected.

    Keys are not negative. Gives the numbers for each side and how many there are.
    """
    n_left = left.size
    n_right = right.size
    bits = table_bits(n_left + n_right)
    shift = np.uint64(64 - bits)
    slots = np.full(1 << bits, _EMPTY, np.int64)
    numbers = np.empty(1 << bits, np.int64)
    left_ids = np.empty(n_left, np.int64)
    right_ids = np.empty(n_right, np.int64)
    n_groups = 0
    for i in range(n_left + n_right):
        key = left[i] if i < n_left else right[i - n_left]
        slot = slot_of(key, slots, shift)
        if slots[slot] == _EMPTY:
            slots[slot] = key
            numbers[slot] = n_groups
            n_groups += 1
        if i < n_left:
            left_ids[i] = numbers[slot]
        else:
            right_ids[i - n_left] = numbers[slot]
    return left_ids, right_ids, n_groups


@kernel
def count_equal_within(keys: Int64Array, parts: int, part: int) -> int:
    """Sum c * c over the distinct keys of a column, c the number of rows with the key. O(n) expected.

    Looks only at keys whose hash falls into `part` of `parts` (a power of two), so that parts may run side by side
    and add up. Keys are not negative.
    """
    bits = table_bits(keys.size // parts + 64)
    mask = np.uint64(parts - 1)
    wanted = np.uint64(part)
    shift = np.uint64(64 - bits)
    slots = np.full(1 << bits, _EMPTY, np.int64)
    counts = np.zeros(1 << bits, np.int32)
    used = 0
    total = 0
    for key in keys:
        if parts > 1 and ((np.uint64(key) * _MULTIPLIER) >> np.uint64(20)) & mask != wanted:
            continue
        slot = slot_of(key, slots, shift)
        if slots[slot] == _EMPTY:
            slots[slot] = key
            used += 1
            if 2 * used > slots.size:
                slots, counts = _grow(slots, counts)
                shift -= np.uint64(1)
                slot = slot_of(key, slots, shift)
        # (c + 1)^2 - c^2 = 2c + 1
        total += 2 * np.int64(counts[slot]) + 1
        counts[slot] += np.int32(1)
    return total


@kernel
def _grow(slots: Int64Array, counts: NDArray[np.int32]) -> tuple[Int64Array, NDArray[np.int32]]:
    bigger = np.full(2 * slots.size, _EMPTY, np.int64)
    kept = np.zeros(2 * slots.size, np.int32)
    bits = 0
    while (1 << bits) < bigger.size:
        bits += 1
    shift = np.uint64(64 - bits)
    for i in range(slots.size):
        if slots[i] != _EMPTY:
            slot = slot_of(slots[i], bigger, shift)
            bigger[slot] = slots[i]
            kept[slot] = counts[i]
    return bigger, kept


@kernel
def count_equal_small(left: Int64Array, right: Int64Array, n_keys: int) -> int:
    """Count pairs (i, j) with left[i] == right[j], for keys in a small range [0, n_keys). O(n + n_keys)."""
    counts = np.zeros(n_keys, np.int64)
    for key in left:
        counts[key] += 1
    total = 0
    for key in right:
        total += counts[key]
    return total


@kernel
def split_dependency(
    keys: Int64Array, values: Int64Array, n_keys: int, n_values: int
) -> tuple[int, int, Int64Array]:
    """One pass over a column that a key nearly determines: the squares it needs, and the rows left over.

    Gives the sum over keys of (rows of the key)^2, the sum of (rows that carry the key's first value)^2, and for
    each other row key * n_values + value. Keys lie in a small range [0, n_keys). O(n + n_keys).
    """
    n_rows = keys.size
    first = np.full(n_keys, _EMPTY, np.int64)
    rows = np.zeros(n_keys, np.int64)
    agreeing = np.zeros(n_keys, np.int64)
    others = np.empty(n_rows, np.int64)
    n_others = 0
    for i in range(n_rows):
        key = keys[i]
        value = values[i]
        rows[key] += 1
        if first[key] == _EMPTY:
            first[key] = value
        if first[key] == value:
            agreeing[key] += 1
        else:
            others[n_others] = key * n_values + value
            n_others += 1
    all_pairs = 0
    same_pairs = 0
    for key in range(n_keys):
        all_pairs += rows[key] * rows[key]
        same_pairs += agreeing[key] * agreeing[key]
    return all_pairs, same_pairs, others[:n_others].copy()
