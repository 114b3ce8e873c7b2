"""Which of many rows agree with one of a few: a hash table of the few, asked by the many.

few, many  int32[n_lines, n_rows]: the codes to agree on, a line per column.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import BoolArray, Int32Array, Int64Array
from naysay.kernels.bits import GOLDEN
from naysay.kernels.compile import kernel
from naysay.kernels.sort import bounds, table_bits

_EMPTY = -1


@kernel
def _find_slot(few: Int32Array, slots: Int64Array, shift: np.uint64, lines: Int32Array, row: int) -> int:
    """The slot of a row among the few that agrees with a row of some lines, or the empty one where it belongs."""
    key = np.uint64(0)
    for k in range(lines.shape[0]):
        key = (key ^ np.uint64(np.int64(lines[k, row]))) * GOLDEN
        key ^= key >> np.uint64(29)
    slot = np.int64((key * GOLDEN) >> shift)
    last = slots.size - 1
    while slots[slot] != _EMPTY:
        agrees = True
        for k in range(lines.shape[0]):
            if few[k, slots[slot]] != lines[k, row]:
                agrees = False
                break
        if agrees:
            break
        slot = slot + 1 if slot < last else 0
    return slot


@kernel
def _place_rows(few: Int32Array) -> tuple[Int64Array, Int64Array, np.uint64]:
    """For each row the first one that it agrees with; and the hash table of those, with its shift."""
    n_few = few.shape[1]
    bits = table_bits(n_few)
    slots, shift = np.full(1 << bits, _EMPTY, np.int64), np.uint64(64 - bits)
    first = np.empty(n_few, np.int64)
    for row in range(n_few):
        slot = _find_slot(few, slots, shift, few, row)
        if slots[slot] == _EMPTY:
            slots[slot] = row
        first[row] = slots[slot]
    return first, slots, shift


@kernel
def match_rows(few: Int32Array, many: Int32Array) -> tuple[Int64Array, Int64Array]:
    """For each of the few and of the many the first of the few that it agrees with; -1 if none. O(n) expected."""
    if few.shape[0] == 1 and few.shape[1] > 0:
        low, high = bounds(few[0])
        if np.int64(high) - low < few.shape[1] + many.shape[1]:
            return _match_codes(few[0], many[0], low, high)
    first, slots, shift = _place_rows(few)
    matched = np.empty(many.shape[1], np.int64)
    for row in range(many.shape[1]):
        matched[row] = slots[_find_slot(few, slots, shift, many, row)]
    return first, matched


@kernel
def _match_codes(few: Int32Array, many: Int32Array, low: int, high: int) -> tuple[Int64Array, Int64Array]:
    """The same for one column whose codes among the few lie close together: by a table with a place for each."""
    places = np.full(np.int64(high) - low + 1, _EMPTY, np.int64)
    first, matched = np.empty(few.size, np.int64), np.full(many.size, _EMPTY, np.int64)
    for row in range(few.size):
        place = np.int64(few[row]) - low
        if places[place] == _EMPTY:
            places[place] = row
        first[row] = places[place]
    for row in range(many.size):
        if low <= many[row] <= high:
            matched[row] = places[np.int64(many[row]) - low]
    return first, matched


@kernel
def are_new(few: Int32Array, many: Int32Array) -> BoolArray:
    """For each of the few whether none of the many agrees with it. Ends when that is decided for all."""
    first, slots, shift = _place_rows(few)
    is_new = np.zeros(few.shape[1], np.bool_)
    n_new = 0
    for row in first:
        n_new += not is_new[row]
        is_new[row] = True
    for row in range(many.shape[1]):
        if n_new == 0:
            break
        known = slots[_find_slot(few, slots, shift, many, row)]
        if known != _EMPTY and is_new[known]:
            is_new[known] = False
            n_new -= 1
    return is_new[first]
