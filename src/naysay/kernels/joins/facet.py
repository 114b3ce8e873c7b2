"""FACET's loops over rows: the hash table of a refinement, and IEJoin's scan (Pena et al., PVLDB 15(4), section 5)."""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.kernels.bits import ALL, GOLDEN, ONE, lowest, popcount
from naysay.kernels.compile import kernel
from naysay.kernels.sort import table_bits

# What a scan keeps between calls: the next left row, how many right rows are marked, one above the greatest mark; the
# pairs found, the words of the bitmap read, and how many of them may be read.
NEXT, MARKED, TOP, N_PAIRS, N_WORDS, MOST_WORDS, N_STATE = 0, 1, 2, 3, 4, 5, 6

_EMPTY = -1
_NONE = -1


@kernel
def build(places: Int64Array, codes: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Build a hash table from each distinct code to the places that have it. O(n) expected.

    Gives the codes in order of appearance; the places code by code, those of code g in [bounds[g], bounds[g + 1]);
    these bounds; and the slots of the table, for `probe`.
    """
    slots = np.full(1 << table_bits(places.size), _EMPTY, np.int64)
    values = np.empty(places.size, np.int64)
    numbers = np.empty(places.size, np.int64)
    n_values = np.int64(0)
    for i in range(places.size):
        code = codes[places[i]]
        slot = _slot_of(code, slots, values)
        if slots[slot] == _EMPTY:
            slots[slot] = n_values
            values[n_values] = code
            n_values += 1
        numbers[i] = slots[slot]
    grouped, bounds = _scatter(places, numbers, n_values)
    return values[:n_values], grouped, bounds, slots


@kernel
def probe(
    places: Int64Array, codes: Int64Array, values: Int64Array, slots: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Bring places to the entries of a table from `build` that have their code; those that have none come last.

    Gives the places code by code, and their bounds, which end with those of the last code. O(n) expected.
    """
    numbers = np.empty(places.size, np.int64)
    for i in range(places.size):
        found = slots[_slot_of(codes[places[i]], slots, values)]
        numbers[i] = values.size if found == _EMPTY else found
    grouped, bounds = _scatter(places, numbers, values.size + 1)
    return grouped, bounds[:-1]


@kernel
def _slot_of(code: int, slots: Int64Array, values: Int64Array) -> int:
    """The slot with the number of `code` among the values, or the empty one where it belongs. Codes may be negative."""
    mixed = np.uint64(code) * GOLDEN
    last = slots.size - 1
    slot = np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(last))
    while slots[slot] != _EMPTY and values[slots[slot]] != code:
        slot = slot + 1 if slot < last else 0
    return slot


@kernel
def _scatter(places: Int64Array, numbers: Int64Array, n_numbers: int) -> tuple[Int64Array, Int64Array]:
    """Bring places with the same number together, in the order they come in. O(n)."""
    bounds = np.zeros(n_numbers + 1, np.int64)
    for number in numbers:
        bounds[number + 1] += 1
    for number in range(n_numbers):
        bounds[number + 1] += bounds[number]
    ends = bounds[:-1].copy()
    grouped = np.empty_like(places)
    for i in range(places.size):
        grouped[ends[numbers[i]]] = places[i]
        ends[numbers[i]] += 1
    return grouped, bounds


@kernel
def scan(
    offsets: Int64Array, permutation: Int64Array, bits: UInt64Array, state: Int64Array, capacity: int
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """IEJoin's last phase: mark the right rows that satisfy one order, look among them for those of the other.

    Right rows are numbered by the first order, left rows by the second. Left row i satisfies the second order with the
    first offsets[1, i] right rows of the permutation, and the first order with those from number offsets[0, i] on.
    Left rows in sequence that meet the same right rows become one cluster pair. Gives the numbers of left rows, where
    those of each pair end, and the same of right rows; stops where `capacity`, at least the number of right rows, is
    full, and goes on from there. With capacity 0 only counts. For each left row O(words between its offset and the
    greatest mark). Section 5.3, after Khayyat et al., PVLDB 8(13).
    """
    left_out, right_out = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    left_ends, right_ends = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    n_out = left_at = right_at = np.int64(0)
    newest = np.int64(0)
    last_low = np.int64(_NONE)
    while state[NEXT] < offsets.shape[1]:
        i = state[NEXT]
        for k in range(state[MARKED], offsets[1, i]):
            bits[permutation[k] >> 6] |= ONE << np.uint64(permutation[k] & 63)
            newest = max(newest, permutation[k] + 1)
        state[MARKED] = offsets[1, i]
        state[TOP] = max(state[TOP], newest)
        low, top = offsets[0, i], state[TOP]
        n_met = _count_marked(bits, low, top)
        state[N_WORDS] += 1 + max(top - low, 0) // 64
        # No mark is new in the common part, and there is none in the part that only one of the two rows looks at.
        known = last_low != _NONE and newest <= max(low, last_low)
        known = known and _count_marked(bits, min(low, last_low), max(low, last_low)) == 0
        n_new = 0 if known else n_met
        full = capacity > 0 and max(left_at + 1, right_at + n_new) > capacity
        if full or state[N_WORDS] > state[MOST_WORDS]:
            break
        state[NEXT] += 1
        state[N_PAIRS] += n_met
        if n_met == 0 or capacity == 0:
            continue
        left_out[left_at] = i
        left_at += 1
        if not known:
            right_at = _collect_marked(bits, low, top, right_out, right_at)
            n_out += 1
        left_ends[n_out - 1], right_ends[n_out - 1] = left_at, right_at
        newest, last_low = np.int64(0), low
    return left_out[:left_at], left_ends[:n_out], right_out[:right_at], right_ends[:n_out]


@kernel
def _word_within(bits: UInt64Array, word: int, begin: int, end: int) -> np.uint64:
    """The word with all bits cleared whose number is outside [begin, end)."""
    value = bits[word]
    if begin > word << 6:
        value &= ALL << np.uint64(begin & 63)
    if end < (word + 1) << 6:
        value &= ~(ALL << np.uint64(end & 63))
    return value


@kernel
def _count_marked(bits: UInt64Array, begin: int, end: int) -> int:
    """Count the marks in [begin, end). O((end - begin) / 64)."""
    if begin >= end:
        return 0
    total = np.int64(0)
    for word in range(begin >> 6, ((end - 1) >> 6) + 1):
        total += np.int64(popcount(_word_within(bits, word, begin, end)))
    return total


@kernel
def _collect_marked(bits: UInt64Array, begin: int, end: int, out: Int64Array, at: int) -> int:
    """Write the marks in [begin, end) from out[at]; gives where it stopped."""
    if begin >= end:
        return at
    for word in range(begin >> 6, ((end - 1) >> 6) + 1):
        value = _word_within(bits, word, begin, end)
        while value != 0:
            out[at] = (word << 6) + np.int64(lowest(value))
            at += 1
            value &= value - ONE
    return at
