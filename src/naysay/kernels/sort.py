"""Sorting, ranking and grouping by integer codes, and counting equal keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from naysay.arrays import Int32Array, Int64Array, UInt32Array, UInt64Array
from naysay.kernels.bits import GOLDEN, bit_length
from naysay.kernels.compile import kernel

_DIGIT_BITS = 11
_N_DIGITS = 1 << _DIGIT_BITS
# Packed rows are sorted in parts of about so many bits of rows, and fewer by insertion.
_PART_BITS, _FEW_WORDS = 15, 32


@kernel
def sorted_places(major: Int64Array, minor: Int64Array) -> Int64Array:
    """The places of rows in ascending order of (major, minor); stable.

    Least-significant-digit radix sort: O(n) for every 11 bits of the two ranges together.
    """
    n_rows = major.size
    places = np.arange(n_rows)
    if n_rows < 2:
        return places
    low_major, high_major = bounds(major)
    low_minor, high_minor = bounds(minor)
    major_bits = bit_length(np.uint64(high_major) - np.uint64(low_major))
    minor_bits = bit_length(np.uint64(high_minor) - np.uint64(low_minor))
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
def bounds(values: Any) -> tuple[Any, Any]:
    """The least and the greatest of at least one value."""
    low = values[0]
    high = low
    for value in values:
        low = min(low, value)
        high = max(high, value)
    return low, high


@kernel
def _radix(digits: UInt64Array, places: Int64Array, n_bits: int) -> Int64Array:
    """Sort places by digits; overwrites `digits`."""
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
def sorted_runs(major: Int32Array, minor: Int32Array) -> tuple[Int32Array, Int32Array]:
    """The places of rows in ascending order of (major, minor), stable, and where each run of equal majors starts.

    With the number of rows after the last start. An empty array stands for a column of equal codes; at least one of the
    two is not empty. A row is packed into one word together with its place. By their leading bits the words are put
    into parts that fit in the cache, so that the sort takes little more than 8 bytes per row unless most are alike.
    """
    n_rows = max(major.size, minor.size)
    low_major, major_bits = _span(major)
    low_minor, minor_bits = _span(minor)
    place_bits = bit_length(np.uint64(n_rows))
    key_bits = major_bits + minor_bits
    if key_bits + place_bits > 64:
        places = sorted_places(major.astype(np.int64), minor.astype(np.int64))
        return places.astype(np.int32), group_starts(major[places].astype(np.int64)).astype(np.int32)
    part_bits = max(0, min(_DIGIT_BITS, key_bits, place_bits - _PART_BITS))
    shift = np.uint64(place_bits + key_bits - part_bits)
    starts = np.zeros((1 << part_bits) + 1, np.int64)
    for i in range(n_rows):
        row = _packed(_code(major, i, low_major), _code(minor, i, low_minor), i, minor_bits, place_bits)
        starts[np.int64(_above(row, shift)) + 1] += 1
    largest = 0
    for part in range(1 << part_bits):
        largest = max(largest, starts[part + 1])
        starts[part + 1] += starts[part]
    rows, other = np.empty(n_rows, np.uint64), np.empty(largest, np.uint64)
    ends = starts[:-1].copy()
    for i in range(n_rows):
        row = _packed(_code(major, i, low_major), _code(minor, i, low_minor), i, minor_bits, place_bits)
        part = np.int64(_above(row, shift))
        rows[ends[part]] = row
        ends[part] += 1
    for part in range(1 << part_bits):
        _sort_packed(rows[starts[part] : starts[part + 1]], other, place_bits, key_bits - part_bits)
    return _unpack_runs(rows, place_bits, np.uint64(place_bits + minor_bits))


@kernel
def _code(codes: Int32Array, row: int, low: int) -> np.uint64:
    """The code of a row above the least one."""
    return np.uint64(np.int64(codes[row]) - low) if codes.size else np.uint64(0)


@kernel
def _packed(major: np.uint64, minor: np.uint64, row: int, minor_bits: int, place_bits: int) -> np.uint64:
    """The codes of a row and its place in one word."""
    return (major << np.uint64(minor_bits) | minor) << np.uint64(place_bits) | np.uint64(row)


@kernel
def _unpack_runs(rows: UInt64Array, place_bits: int, shift: np.uint64) -> tuple[Int32Array, Int32Array]:
    """The places in sorted words, and where each run of words that are equal above some bits starts."""
    order = np.empty(rows.size, np.int32)
    mask = (np.uint64(1) << np.uint64(place_bits)) - np.uint64(1)
    n_runs = 0
    for i in range(rows.size):
        order[i] = np.int32(rows[i] & mask)
        n_runs += i == 0 or _above(rows[i], shift) != _above(rows[i - 1], shift)
    starts = np.empty(n_runs + 1, np.int32)
    n_runs = 0
    for i in range(rows.size):
        if i == 0 or _above(rows[i], shift) != _above(rows[i - 1], shift):
            starts[n_runs] = i
            n_runs += 1
    starts[n_runs] = rows.size
    return order, starts


@kernel
def _above(row: np.uint64, shift: np.uint64) -> np.uint64:
    """What is left of a packed row above some bits, of which there may be 64."""
    return row >> shift if shift < np.uint64(64) else np.uint64(0)


@kernel
def _span(codes: Int32Array) -> tuple[int, int]:
    """The least code, and how many bits the others need above it."""
    if codes.size == 0:
        return np.int64(0), np.int64(0)
    low, high = bounds(codes)
    return np.int64(low), np.int64(bit_length(np.uint64(np.int64(high) - np.int64(low))))


@kernel
def _sort_packed(rows: UInt64Array, other: UInt64Array, first_bit: int, n_bits: int) -> None:
    """Sort words in place by n_bits from first_bit on; `other` is room for as many."""
    if rows.size <= _FEW_WORDS:
        _insert_packed(rows)
        return
    starts = np.empty(_N_DIGITS, np.int64)
    source, target = rows, other[: rows.size]
    for bit in range(first_bit, first_bit + n_bits, _DIGIT_BITS):
        shift = np.uint64(bit)
        width = 1 << min(_DIGIT_BITS, first_bit + n_bits - bit)
        mask = np.uint64(width - 1)
        starts[:width] = 0
        for row in source:
            starts[np.int64((row >> shift) & mask)] += 1
        position = 0
        for digit in range(width):
            count = starts[digit]
            starts[digit] = position
            position += count
        for row in source:
            digit = np.int64((row >> shift) & mask)
            target[starts[digit]] = row
            starts[digit] += 1
        source, target = target, source
    if (n_bits + _DIGIT_BITS - 1) // _DIGIT_BITS % 2:
        rows[:] = source


@kernel
def _insert_packed(rows: UInt64Array) -> None:
    """Sort a few words, whose places make them distinct, by insertion."""
    for i in range(1, rows.size):
        row = rows[i]
        k = i
        while k > 0 and rows[k - 1] > row:
            rows[k] = rows[k - 1]
            k -= 1
        rows[k] = row


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


# A table of all keys has at most so many places per row: four bytes each, less than a hash table of the rows takes.
_PLACES_PER_ROW = 8


@kernel
def dense_ranks(codes: Int64Array) -> tuple[Int64Array, int]:
    """Replace codes by their rank among the distinct ones. O(n) in a small range, else per digit of it."""
    if codes.size:
        low, high = bounds(codes)
        if np.uint64(high) - np.uint64(low) < np.uint64(_PLACES_PER_ROW * codes.size):
            return _ranks_in_range(codes, low, high - low + 1)
    places = sorted_places(np.zeros(codes.size, np.int64), codes)
    ranks = np.empty(codes.size, np.int64)
    rank = -1
    for i in range(codes.size):
        if i == 0 or codes[places[i]] != codes[places[i - 1]]:
            rank += 1
        ranks[places[i]] = rank
    return ranks, rank + 1


@kernel
def _ranks_in_range(codes: Int64Array, low: int, n_values: int) -> tuple[Int64Array, int]:
    """The same for codes from `low` on, by a table with a place for each value."""
    rank_of = np.zeros(n_values, np.int32)
    for code in codes:
        rank_of[code - low] = 1
    n_ranks = 0
    for value in range(n_values):
        is_used = rank_of[value]
        rank_of[value] = n_ranks
        n_ranks += is_used
    ranks = np.empty(codes.size, np.int64)
    for i in range(codes.size):
        ranks[i] = rank_of[codes[i] - low]
    return ranks, n_ranks


_EMPTY = -1
# Bits of a hash table that grows.
_FIRST_BITS = 12


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
    slot = np.int64((np.uint64(key) * GOLDEN) >> shift)
    last = slots.size - 1
    while slots[slot] != _EMPTY and slots[slot] != key:
        slot = slot + 1 if slot < last else 0
    return slot


@kernel
def dense_groups(left: Int64Array, right: Int64Array) -> tuple[Int64Array, Int64Array, int]:
    """Number the distinct keys of both sides 0, 1, ... in order of appearance. O(n) expected.

    Keys are not negative. Returns the numbers for each side and how many there are.
    """
    left_ids = np.empty(left.size, np.int64)
    right_ids = np.empty(right.size, np.int64)
    largest = np.int64(-1)
    for key in left:
        largest = max(largest, key)
    for key in right:
        largest = max(largest, key)
    if largest < _PLACES_PER_ROW * (left.size + right.size):
        places = np.full(largest + 1, _EMPTY, np.int32)
        n_groups = _number_placed(left, left_ids, places, 0)
        return left_ids, right_ids, _number_placed(right, right_ids, places, n_groups)
    bits = table_bits(left.size + right.size)
    slots = np.full(1 << bits, _EMPTY, np.int64)
    numbers = np.empty(1 << bits, np.int32)
    n_groups = _number_hashed(left, left_ids, slots, numbers, 0)
    return left_ids, right_ids, _number_hashed(right, right_ids, slots, numbers, n_groups)


@kernel
def _number_placed(keys: Int64Array, ids: Int64Array, places: Int32Array, n_groups: int) -> int:
    """Number keys by a table with a place for each; returns how many numbers are taken then."""
    for i in range(keys.size):
        number = places[keys[i]]
        if number == _EMPTY:
            number = np.int32(n_groups)
            places[keys[i]] = number
            n_groups += 1
        ids[i] = number
    return n_groups


@kernel
def _number_hashed(keys: Int64Array, ids: Int64Array, slots: Int64Array, numbers: Int32Array, n_groups: int) -> int:
    """The same by a hash table, whose size is a power of two."""
    shift = np.uint64(65 - bit_length(np.uint64(slots.size)))
    for i in range(keys.size):
        slot = slot_of(keys[i], slots, shift)
        if slots[slot] == _EMPTY:
            slots[slot] = keys[i]
            numbers[slot] = n_groups
            n_groups += 1
        ids[i] = numbers[slot]
    return n_groups


@kernel
def number_pairs(left: Int32Array, right: Int32Array) -> tuple[Int32Array, int]:
    """Number the distinct pairs (left[i], right[i]) 0, 1, ... in order of appearance, and say how many there are.

    Codes are not negative. The hash table grows with the pairs that are found: of a million rows few may differ. O(n)
    expected.
    """
    numbers = np.empty(left.size, np.int32)
    if left.size == 0:
        return numbers, 0
    width = np.int64(bounds(right)[1]) + 1
    n_keys = (np.int64(bounds(left)[1]) + 1) * width
    n_groups = 0
    if n_keys <= left.size:
        places = np.full(n_keys, _EMPTY, np.int32)
        for i in range(left.size):
            key = left[i] * width + right[i]
            if places[key] == _EMPTY:
                places[key] = np.int32(n_groups)
                n_groups += 1
            numbers[i] = places[key]
        return numbers, n_groups
    slots, keys = np.full(1 << _FIRST_BITS, _EMPTY, np.int32), np.empty(1 << (_FIRST_BITS - 1), np.int64)
    shift = np.uint64(64 - _FIRST_BITS)
    for i in range(left.size):
        key = left[i] * width + right[i]
        slot = _group_slot(key, slots, keys, shift)
        if slots[slot] == _EMPTY:
            if n_groups == keys.size:
                slots, keys = _larger_table(keys)
                shift = np.uint64(65 - bit_length(np.uint64(slots.size)))
                slot = _group_slot(key, slots, keys, shift)
            slots[slot] = np.int32(n_groups)
            keys[n_groups] = key
            n_groups += 1
        numbers[i] = slots[slot]
    return numbers, n_groups


@kernel
def _group_slot(key: int, slots: Int32Array, keys: Int64Array, shift: np.uint64) -> int:
    """Find the slot of the group with a key, or the empty one where it belongs. Keys are not negative."""
    slot = np.int64((np.uint64(key) * GOLDEN) >> shift)
    last = slots.size - 1
    while slots[slot] != _EMPTY and keys[slots[slot]] != key:
        slot = slot + 1 if slot < last else 0
    return slot


@kernel
def _larger_table(keys: Int64Array) -> tuple[Int32Array, Int64Array]:
    """The same groups, by their keys, in a table of twice the slots, with room for the keys of twice as many groups."""
    more_slots, more_keys = np.full(4 * keys.size, _EMPTY, np.int32), np.empty(2 * keys.size, np.int64)
    shift = np.uint64(65 - bit_length(np.uint64(more_slots.size)))
    for group in range(keys.size):
        more_slots[_group_slot(keys[group], more_slots, more_keys, shift)] = group
        more_keys[group] = keys[group]
    return more_slots, more_keys


@kernel
def partition_keys(keys: Int64Array, n_bits: int) -> tuple[Int64Array, Int64Array]:
    """Bring keys with the same leading hash bits together, so that each part's hash table stays in the cache.

    Returns the keys part by part, and where each of the 2^n_bits parts starts. n_bits is at least 1. O(n).
    """
    n_parts = 1 << n_bits
    shift = np.uint64(64 - n_bits)
    starts = np.zeros(n_parts + 1, np.int64)
    for key in keys:
        starts[np.int64((np.uint64(key) * GOLDEN) >> shift) + 1] += 1
    for part in range(n_parts):
        starts[part + 1] += starts[part]
    positions = starts.copy()
    parted = np.empty_like(keys)
    for key in keys:
        part = np.int64((np.uint64(key) * GOLDEN) >> shift)
        parted[positions[part]] = key
        positions[part] += 1
    return parted, starts


@kernel
def count_equal_parts(parted: Int64Array, starts: Int64Array, first: int, last: int) -> int:
    """Sum c * c over the distinct keys of the parts first..last-1, c the number of rows with the key.

    Takes the result of `partition_keys`. O(n) expected.
    """
    largest = 0
    for part in range(first, last):
        largest = max(largest, starts[part + 1] - starts[part])
    bits = table_bits(largest)
    mask = np.int64((1 << bits) - 1)
    slots = np.empty(1 << bits, np.int64)
    counts = np.empty(1 << bits, np.int64)
    total = 0
    for part in range(first, last):
        slots[:] = _EMPTY
        for i in range(starts[part], starts[part + 1]):
            key = parted[i]
            # The leading bits of the hash are the same in a part: use those below.
            slot = np.int64((np.uint64(key) * GOLDEN) >> np.uint64(20)) & mask
            while slots[slot] != _EMPTY and slots[slot] != key:
                slot = (slot + 1) & mask
            if slots[slot] == _EMPTY:
                slots[slot] = key
                counts[slot] = 0
            # (c + 1)^2 - c^2 = 2c + 1
            total += 2 * counts[slot] + 1
            counts[slot] += 1
    return total


@kernel
def count_meeting_parts(left: Int64Array, left_starts: Int64Array, right: Int64Array, right_starts: Int64Array) -> int:
    """Count pairs (i, j) with left[i] == right[j], both sides as `partition_keys` leaves them. O(n) expected."""
    largest = 0
    for part in range(left_starts.size - 1):
        largest = max(largest, left_starts[part + 1] - left_starts[part])
    bits = table_bits(largest)
    mask = np.int64((1 << bits) - 1)
    slots = np.empty(1 << bits, np.int64)
    counts = np.empty(1 << bits, np.int64)
    total = 0
    for part in range(left_starts.size - 1):
        slots[:] = _EMPTY
        for i in range(left_starts[part], left_starts[part + 1]):
            key = left[i]
            slot = np.int64((np.uint64(key) * GOLDEN) >> np.uint64(20)) & mask
            while slots[slot] != _EMPTY and slots[slot] != key:
                slot = (slot + 1) & mask
            if slots[slot] == _EMPTY:
                slots[slot] = key
                counts[slot] = 0
            counts[slot] += 1
        for j in range(right_starts[part], right_starts[part + 1]):
            key = right[j]
            slot = np.int64((np.uint64(key) * GOLDEN) >> np.uint64(20)) & mask
            while slots[slot] != _EMPTY and slots[slot] != key:
                slot = (slot + 1) & mask
            if slots[slot] == key:
                total += counts[slot]
    return total


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


# Three columns of codes, and numbers such that ((first * a + second * b) * c + third) is one code for all of them.
Columns = tuple[Int64Array, Int64Array, Int64Array]
Factors = tuple[int, int, int]


@kernel
def count_agreeing_small(columns: Columns, factors: Factors, n_cells: int) -> int:
    """Sum c * c over the combined codes, in a small range [0, n_cells), c the number of rows with the code."""
    first, second, third = columns
    by_first, by_second, by_key = factors
    # Short, so that more of them fit into the cache. No array has 2 ** 32 rows.
    counts = np.zeros(n_cells, np.uint32)
    total = 0
    for i in range(first.size):
        cell = (first[i] * by_first + second[i] * by_second) * by_key + third[i]
        # (c + 1)^2 - c^2 = 2c + 1
        total += 2 * np.int64(counts[cell]) + 1
        counts[cell] = np.uint32(counts[cell] + np.uint32(1))
    return total


@kernel
def count_agreeing_parts(columns: Columns, factors: Factors, n_cells: int, n_bits: int) -> int:
    """The same for codes in any range [0, n_cells): partitions them by n_bits leading hash bits. O(n) expected."""
    hash_bits = max(bit_length(np.uint64(n_cells)), n_bits)
    if hash_bits - n_bits > 32:
        first, second, third = columns
        by_first, by_second, by_key = factors
        codes = np.empty(first.size, np.int64)
        for i in range(first.size):
            codes[i] = (first[i] * by_first + second[i] * by_second) * by_key + third[i]
        parted, starts = partition_keys(codes, n_bits)
        return count_equal_parts(parted, starts, 0, 1 << n_bits)
    # A hash of so many bits is another number for every code: the part and 32 bits say which code it is.
    rests, starts = _partition_rests(columns, factors, hash_bits, n_bits)
    largest = 0
    for part in range(starts.size - 1):
        largest = max(largest, starts[part + 1] - starts[part])
    rest_bits = hash_bits - n_bits
    bits = min(table_bits(largest), rest_bits)
    shift = np.uint32(rest_bits - bits)
    last = (1 << bits) - 1
    slots = np.empty(1 << bits, np.uint32)
    # Short, so that both arrays fit the first cache. No array has 2 ** 32 rows.
    counts = np.empty(1 << bits, np.uint32)
    total = 0
    for part in range(starts.size - 1):
        counts[:] = 0
        for i in range(starts[part], starts[part + 1]):
            slot = np.int64(rests[i] >> shift)
            while counts[slot] != 0 and slots[slot] != rests[i]:
                slot = (slot + 1) & last
            slots[slot] = rests[i]
            # (c + 1)^2 - c^2 = 2c + 1
            total += 2 * np.int64(counts[slot]) + 1
            counts[slot] = np.uint32(counts[slot] + np.uint32(1))
    return total


@kernel
def _partition_rests(columns: Columns, factors: Factors, hash_bits: int, n_bits: int) -> tuple[UInt32Array, Int64Array]:
    """The hashes of codes, part by part, each without the leading bits that say which part; where each part starts."""
    first, second, third = columns
    by_first, by_second, by_key = factors
    mask = np.uint64((1 << hash_bits) - 1)
    shift = np.uint64(hash_bits - n_bits)
    rest = (np.uint64(1) << shift) - np.uint64(1)
    starts = np.zeros((1 << n_bits) + 1, np.int64)
    for i in range(first.size):
        code = (first[i] * by_first + second[i] * by_second) * by_key + third[i]
        starts[np.int64(((np.uint64(code) * GOLDEN) & mask) >> shift) + 1] += 1
    starts = np.cumsum(starts)
    positions = starts[:-1].copy()
    rests = np.empty(first.size, np.uint32)
    # The codes are computed twice, which takes less than to write them down.
    for i in range(first.size):
        code = (first[i] * by_first + second[i] * by_second) * by_key + third[i]
        number = (np.uint64(code) * GOLDEN) & mask
        part = np.int64(number >> shift)
        rests[positions[part]] = np.uint32(number & rest)
        positions[part] += 1
    return rests, starts


@kernel
def count_agreeing_nearly(columns: Columns, factors: Factors, n_keys: int, n_bits: int) -> int:
    """The same if the first two columns, as a key in a small range [0, n_keys), nearly determine the third.

    Only rows whose third code is not the first one of their key are partitioned. Returns -1, early, if those are many.
    """
    first, second, third = columns
    by_first, by_second, by_key = factors
    n_rows = first.size
    first_code = np.full(n_keys, _EMPTY, np.int64)
    agreeing = np.zeros(n_keys, np.int64)
    others = np.empty(n_rows // 4 + 1, np.int64)
    n_others = 0
    total = 0
    for i in range(n_rows):
        key = first[i] * by_first + second[i] * by_second
        if first_code[key] == _EMPTY:
            first_code[key] = third[i]
        if first_code[key] == third[i]:
            total += 2 * agreeing[key] + 1
            agreeing[key] += 1
        else:
            if n_others > 64 + i // 4 or n_others == others.size:
                return -1
            others[n_others] = key * by_key + third[i]
            n_others += 1
    rest = others[:n_others]
    return total + count_agreeing_parts((rest, rest, rest), (0, 0, 0), n_keys * by_key, n_bits)


@kernel
def split_dependency(keys: Int64Array, values: Int64Array, n_keys: int, n_values: int) -> tuple[int, int, Int64Array]:
    """One pass over a column that a key nearly determines: the squares it needs, and the rows left over.

    Returns the sum over keys of (rows of the key)^2, the sum of (rows that have the key's first value)^2, and for
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
