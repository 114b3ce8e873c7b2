"""FACET's loops over rows: the hash table of a refinement, IEJoin's scan (Pena et al., PVLDB 15(4), section 5), and
HyperLogLog: the number of distinct codes of a column from a few kilobytes (Flajolet et al., 2007).
"""

from __future__ import annotations

import math

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
# The multipliers of splitmix64.
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_HALF = np.uint64(1 << 62)


@kernel
def build(places: Int64Array, codes: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Build a hash table from each distinct code to the places that have it. O(n) expected.

    Returns the codes in order of appearance; the places code by code, those of code g in [bounds[g], bounds[g + 1]);
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
    """Bring places to the entries of a table from `build` that have their code; those without an entry come last.

    Returns the places code by code, and their bounds, which end with those of the last code. O(n) expected.
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
    """Bring places with the same number together, in the order they came. O(n)."""
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
    Left rows in sequence that meet the same right rows become one cluster pair. Returns the numbers of left rows,
    where those of each pair end, and the same for right rows; stops when `capacity`, at least the number of right rows,
    is full, and continues from there. With capacity 0 it only counts. For each left row O(words between its offset and
    the greatest mark). Section 5.3, after Khayyat et al., PVLDB 8(13).
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
    """Write the marks in [begin, end) from out[at]; returns where it stopped."""
    if begin >= end:
        return at
    for word in range(begin >> 6, ((end - 1) >> 6) + 1):
        value = _word_within(bits, word, begin, end)
        while value != 0:
            out[at] = (word << 6) + np.int64(lowest(value))
            at += 1
            value &= value - ONE
    return at


@kernel
def sketch(codes: Int64Array, n_bits: int) -> Int64Array:
    """Fill 2^n_bits registers: each the most leading zeros, plus one, among the hashes assigned to it. O(n)."""
    registers = np.zeros(1 << n_bits, np.int64)
    # The least hash has the most leading zeros, and keeping it needs no branch.
    least = np.full(1 << n_bits, ALL)
    shift = np.uint64(64 - n_bits)
    for code in codes:
        # The finalizer of splitmix64: every bit of the code affects every bit of the hash.
        mixed = np.uint64(code) + GOLDEN
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
        mixed ^= mixed >> np.uint64(31)
        register = np.int64(mixed >> shift)
        least[register] = min(least[register], (mixed << np.uint64(n_bits)) >> ONE)
    for register in range(registers.size):
        if least[register] != ALL:
            registers[register] = 1
            while registers[register] <= 64 - n_bits and least[register] < _HALF:
                least[register] <<= ONE
                registers[register] += 1
    return registers


def estimate(registers: Int64Array) -> float:
    """The number of distinct codes that a sketch saw, with a standard error of 1.04 / sqrt(registers).

    Few codes leave registers empty, and the number of those says how many there are (linear counting). Hashes have 64
    bits, so the paper's correction for large counts is not needed.
    """
    n_registers = registers.size
    alpha = 0.7213 / (1 + 1.079 / n_registers)
    raw = alpha * n_registers**2 / float(np.sum(np.exp2(-registers.astype(np.float64))))
    n_empty = int(np.count_nonzero(registers == 0))
    if raw <= 2.5 * n_registers and n_empty > 0:
        return n_registers * math.log(n_registers / n_empty)
    return raw
