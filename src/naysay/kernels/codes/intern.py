"""Growing dictionaries: tuples of integers, and texts, to numbers that never change.

A dictionary is a hash table `slots` (a power of two, at most half full) of numbers into its store, -1 if empty. The
store of tuples is an array [capacity, width]; that of texts is one array of bytes and the place where each begins.
The caller makes room before a call: kernels never grow an array.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array, UInt8Array
from naysay.kernels.bits import GOLDEN
from naysay.kernels.compile import kernel


@kernel
def _mix(mixed: np.uint64, word: np.uint64) -> np.uint64:
    mixed = (mixed ^ word) * GOLDEN
    return mixed ^ (mixed >> np.uint64(32))


@kernel
def _first_slot(codes: Int64Array, row: int, slots: Int64Array) -> int:
    """Where the search for the tuple in this row begins."""
    mixed = GOLDEN
    for k in range(codes.shape[1]):
        mixed = _mix(mixed, np.uint64(codes[row, k]))
    return np.int64(mixed >> np.uint64(1)) & (slots.size - 1)


@kernel
def _slot_of_tuple(codes: Int64Array, row: int, slots: Int64Array, tuples: Int64Array, slot: int) -> int:
    """The slot that holds the tuple in this row of `codes`, or the empty one where it belongs, from `slot` on."""
    mask = slots.size - 1
    while slots[slot] != -1:
        number = slots[slot]
        same = True
        for k in range(codes.shape[1]):
            same &= tuples[number, k] == codes[row, k]
        if same:
            break
        slot = (slot + 1) & mask
    return slot


@kernel
def _first_slots(codes: Int64Array, slots: Int64Array, tuples: Int64Array) -> Int64Array:
    """The first slot of each row. What they lead to is read in loops of its own, which wait for the memory together."""
    firsts = np.empty(codes.shape[0], np.int64)
    numbers = np.empty(codes.shape[0], np.int64)
    for row in range(codes.shape[0]):
        firsts[row] = _first_slot(codes, row, slots)
    for row in range(codes.shape[0]):
        numbers[row] = slots[firsts[row]]
    n_same = 0
    # The first column, if there is one.
    for k in range(min(codes.shape[1], 1)):
        for row in range(codes.shape[0]):
            if numbers[row] >= 0:
                n_same += tuples[numbers[row], k] == codes[row, k]
    # Never the case: so that the loops are not left out.
    if n_same > codes.shape[0]:
        firsts[0] = -1
    return firsts


@kernel
def find_tuples(codes: Int64Array, slots: Int64Array, tuples: Int64Array) -> Int64Array:
    """The number of each row of `codes` [n, width], -1 if it is not in the dictionary. O(n) expected."""
    numbers = np.empty(codes.shape[0], np.int64)
    firsts = _first_slots(codes, slots, tuples)
    for row in range(codes.shape[0]):
        numbers[row] = slots[_slot_of_tuple(codes, row, slots, tuples, firsts[row])]
    return numbers


@kernel
def add_tuples(codes: Int64Array, slots: Int64Array, tuples: Int64Array, n_known: int) -> Int64Array:
    """Like find_tuples, but a tuple that is not in the dictionary yet gets the next number, from `n_known` on."""
    numbers = np.empty(codes.shape[0], np.int64)
    firsts = _first_slots(codes, slots, tuples)
    for row in range(codes.shape[0]):
        slot = _slot_of_tuple(codes, row, slots, tuples, firsts[row])
        if slots[slot] == -1:
            slots[slot] = n_known
            for k in range(codes.shape[1]):
                tuples[n_known, k] = codes[row, k]
            n_known += 1
        numbers[row] = slots[slot]
    return numbers


@kernel
def _slot_of_text(
    data: UInt8Array, start: int, stop: int, slots: Int64Array, known: UInt8Array, starts: Int64Array
) -> int:
    mixed = GOLDEN
    word = np.uint64(0)
    for at in range(start, stop):
        word = (word << np.uint64(8)) | np.uint64(data[at])
        if (at - start) & 7 == 7:
            mixed = _mix(mixed, word)
            word = np.uint64(0)
    mixed = _mix(_mix(mixed, word), np.uint64(stop - start))
    mask = slots.size - 1
    slot = np.int64(mixed >> np.uint64(1)) & mask
    while slots[slot] != -1:
        number = slots[slot]
        begin = starts[number]
        same = starts[number + 1] - begin == stop - start
        at = start
        while same and at < stop:
            same = known[begin + at - start] == data[at]
            at += 1
        if same:
            break
        slot = (slot + 1) & mask
    return slot


@kernel
def add_texts(
    data: UInt8Array, offsets: Int64Array, slots: Int64Array, known: UInt8Array, starts: Int64Array, n_known: int
) -> Int64Array:
    """The number of each text data[offsets[i]:offsets[i + 1]]; a new one gets the next, from `n_known` on.

    `starts` holds n_known + 1 places into `known`, the last one being its end. O(bytes) expected.
    """
    numbers = np.empty(offsets.size - 1, np.int64)
    for row in range(offsets.size - 1):
        start, stop = offsets[row], offsets[row + 1]
        slot = _slot_of_text(data, start, stop, slots, known, starts)
        if slots[slot] == -1:
            slots[slot] = n_known
            begin = starts[n_known]
            for at in range(start, stop):
                known[begin + at - start] = data[at]
            starts[n_known + 1] = begin + stop - start
            n_known += 1
        numbers[row] = slots[slot]
    return numbers


@kernel
def rehash_tuples(tuples: Int64Array, n_known: int, slots: Int64Array) -> None:
    """Enter the known tuples into an empty, larger hash table. O(n)."""
    for number in range(n_known):
        slots[_slot_of_tuple(tuples, number, slots, tuples, _first_slot(tuples, number, slots))] = number


@kernel
def rehash_texts(known: UInt8Array, starts: Int64Array, n_known: int, slots: Int64Array) -> None:
    """Enter the known texts into an empty, larger hash table. O(bytes)."""
    for number in range(n_known):
        slots[_slot_of_text(known, starts[number], starts[number + 1], slots, known, starts)] = number
