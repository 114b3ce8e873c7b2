"""FACET's loops over rows: the hash table of a refinement, IEJoin's scan (Pena et al., PVLDB 15(4), section 5), and
HyperLogLog: the number of distinct codes of a column from a few kilobytes (Flajolet et al., 2007).
"""

from __future__ import annotations

import math

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.kernels.bits import ALL, GOLDEN, ONE, lowest, popcount
from naysay.kernels.compile import kernel
from naysay.kernels.sort import sorted_places, table_bits

# What a scan keeps between calls: the next left row, how many right rows are marked, one above the greatest mark; the
# pairs found, the words of the bitmap read, and how many of them may be read.
NEXT, MARKED, TOP, N_PAIRS, N_WORDS, MOST_WORDS, N_STATE = 0, 1, 2, 3, 4, 5, 6

_EMPTY = -1
_NONE = -1

# One side of many pairs of sets: the places, where those of each set begin and end (one more bound than there are
# sets), and the codes of all places of a column.
ClusterSide = tuple[Int64Array, Int64Array, Int64Array]

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
    slots = np.empty(1 << table_bits(places.size), np.int64)
    values = np.empty(places.size, np.int64)
    numbers = np.empty(places.size, np.int64)
    n_values = _number(places, codes, slots, values, numbers)
    grouped, bounds = _scatter(places, numbers, n_values)
    return values[:n_values], grouped, bounds, slots


@kernel
def _number(places: Int64Array, codes: Int64Array, slots: Int64Array, values: Int64Array, numbers: Int64Array) -> int:
    """Number the distinct codes in order of appearance: the number of each place; returns how many there are."""
    slots[:] = _EMPTY
    n_values = np.int64(0)
    for i in range(places.size):
        code = codes[places[i]]
        slot = _slot_of(code, slots, values)
        if slots[slot] == _EMPTY:
            slots[slot] = n_values
            values[n_values] = code
            n_values += 1
        numbers[i] = slots[slot]
    return n_values


@kernel
def probe(
    places: Int64Array, codes: Int64Array, values: Int64Array, slots: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Bring places to the entries of a table from `build` that have their code; those without an entry come last.

    Returns the places code by code, and their bounds, which end with those of the last code. O(n) expected.
    """
    numbers = np.empty(places.size, np.int64)
    _look_up(places, codes, slots, values, values.size, numbers)
    grouped, bounds = _scatter(places, numbers, values.size + 1)
    return grouped, bounds[:-1]


@kernel
def _look_up(
    places: Int64Array, codes: Int64Array, slots: Int64Array, values: Int64Array, missing: int, numbers: Int64Array
) -> None:
    """The number that `_number` gave to the code of each place, or `missing`."""
    for i in range(places.size):
        found = slots[_slot_of(codes[places[i]], slots, values)]
        numbers[i] = missing if found == _EMPTY else found


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
def refine_reflexive(side: ClusterSide, least: int) -> tuple[Int64Array, Int64Array]:
    """Split each set by code: the places set by set, and their bounds. Sets of fewer than `least` are dropped. O(n)."""
    places, bounds, codes = side
    slots, values, numbers, sizes = _scratch(bounds)
    grouped, ends = np.empty_like(places), np.zeros(places.size + 1, np.int64)
    n_sets = np.int64(0)
    for k in range(bounds.size - 1):
        members = places[bounds[k] : bounds[k + 1]]
        if members.size < least:
            continue
        n_values = _number(members, codes, slots[: 1 << table_bits(members.size)], values, numbers)
        _count_numbers(numbers[: members.size], n_values, sizes)
        for value in range(n_values):
            size, sizes[value] = sizes[value], _NONE
            if size >= least:
                sizes[value] = ends[n_sets]
                ends[n_sets + 1] = ends[n_sets] + size
                n_sets += 1
        _place(members, numbers, sizes, grouped)
    return grouped[: ends[n_sets]].copy(), ends[: n_sets + 1].copy()


@kernel
def refine_pairs(built: ClusterSide, probed: ClusterSide) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Split each pair of sets by code: places and bounds of both sides, for pairs where neither is empty. O(n)."""
    slots, values, built_numbers, built_sizes = _scratch(built[1])
    _, _, probed_numbers, _ = _scratch(probed[1])
    probed_sizes = np.empty_like(built_sizes)
    built_grouped, probed_grouped = np.empty_like(built[0]), np.empty_like(probed[0])
    built_ends, probed_ends = np.zeros(built[0].size + 1, np.int64), np.zeros(built[0].size + 1, np.int64)
    n_sets = np.int64(0)
    for k in range(built[1].size - 1):
        rows, others = built[0][built[1][k] : built[1][k + 1]], probed[0][probed[1][k] : probed[1][k + 1]]
        table = slots[: 1 << table_bits(rows.size)]
        n_values = _number(rows, built[2], table, values, built_numbers)
        _look_up(others, probed[2], table, values, n_values, probed_numbers)
        _count_numbers(built_numbers[: rows.size], n_values, built_sizes)
        _count_numbers(probed_numbers[: others.size], n_values + 1, probed_sizes)
        probed_sizes[n_values] = _NONE
        for value in range(n_values):
            n_built, n_probed = built_sizes[value], probed_sizes[value]
            built_sizes[value] = probed_sizes[value] = _NONE
            if n_probed > 0:
                built_sizes[value], probed_sizes[value] = built_ends[n_sets], probed_ends[n_sets]
                n_sets += 1
                built_ends[n_sets] = built_ends[n_sets - 1] + n_built
                probed_ends[n_sets] = probed_ends[n_sets - 1] + n_probed
        _place(rows, built_numbers, built_sizes, built_grouped)
        _place(others, probed_numbers, probed_sizes, probed_grouped)
    return (
        built_grouped[: built_ends[n_sets]].copy(),
        built_ends[: n_sets + 1].copy(),
        probed_grouped[: probed_ends[n_sets]].copy(),
        probed_ends[: n_sets + 1].copy(),
    )


@kernel
def count_equal(built: ClusterSide, probed: ClusterSide, same: bool) -> tuple[int, int]:
    """Count the pairs of places with equal codes, and all pairs; `same`: both sides are the same. O(n)."""
    slots, values, numbers, sizes = _scratch(built[1])
    n_equal = n_pairs = np.int64(0)
    for k in range(built[1].size - 1):
        rows = built[0][built[1][k] : built[1][k + 1]]
        n_pairs += rows.size * (probed[1][k + 1] - probed[1][k])
        table = slots[: 1 << table_bits(rows.size)]
        n_values = _number(rows, built[2], table, values, numbers)
        _count_numbers(numbers[: rows.size], n_values, sizes)
        if same:
            for value in range(n_values):
                n_equal += sizes[value] * sizes[value]
            continue
        for place in probed[0][probed[1][k] : probed[1][k + 1]]:
            found = table[_slot_of(probed[2][place], table, values)]
            if found != _EMPTY:
                n_equal += sizes[found]
    return n_equal, n_pairs


@kernel
def _scratch(bounds: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Room for the hash table of the largest set: its slots, values, numbers of places, and sizes."""
    largest = np.int64(0)
    for k in range(bounds.size - 1):
        largest = max(largest, bounds[k + 1] - bounds[k])
    slots = np.empty(1 << table_bits(largest), np.int64)
    return slots, np.empty(largest, np.int64), np.empty(largest, np.int64), np.empty(largest + 1, np.int64)


@kernel
def _count_numbers(numbers: Int64Array, n_numbers: int, sizes: Int64Array) -> None:
    sizes[:n_numbers] = 0
    for number in numbers:
        sizes[number] += 1


@kernel
def _place(places: Int64Array, numbers: Int64Array, ends: Int64Array, grouped: Int64Array) -> None:
    """Append each place to the set of its number, where the set ends so far; _NONE: the set is dropped."""
    for i in range(places.size):
        end = ends[numbers[i]]
        if end != _NONE:
            grouped[end] = places[i]
            ends[numbers[i]] = end + 1


@kernel
def sort_sets(side: ClusterSide) -> Int64Array:
    """The order that brings the places of each set by rising code, set by set; stable."""
    places, bounds, codes = side
    numbers = np.empty(places.size, np.int64)
    for k in range(bounds.size - 1):
        numbers[bounds[k] : bounds[k + 1]] = k
    return sorted_places(numbers, codes[places])


@kernel
def count_less(left: ClusterSide, right: ClusterSide) -> int:
    """Count the pairs with a lesser left code in all pairs of sets; the places of a set by rising code. O(n)."""
    total = np.int64(0)
    for k in range(left[1].size - 1):
        begin, end = right[1][k], right[1][k + 1]
        for place in left[0][left[1][k] : left[1][k + 1]]:
            while begin < end and right[2][right[0][begin]] <= left[2][place]:
                begin += 1
            total += end - begin
    return total


@kernel
def count_two_orders(
    left: ClusterSide, right: ClusterSide, left_second: Int64Array, right_second: Int64Array, rising: Int64Array
) -> tuple[int, int]:
    """IEJoin's count in all pairs of sets at once: the pairs, and the words of the bitmap that were read.

    Left places of a set come by rising second code, right ones by rising first code; `rising` brings the latter into
    the order of their second code. See `scan`.
    """
    (places, bounds, first), (others, other_bounds, other_first) = left, right
    codes = other_first[others]
    bits = np.empty((others.size >> 6) + 1, np.uint64)
    n_pairs = n_words = np.int64(0)
    for k in range(bounds.size - 1):
        begin, end = other_bounds[k], other_bounds[k + 1]
        bits[: ((end - begin) >> 6) + 1] = 0
        unmarked, top = end, np.int64(0)
        for i in range(bounds[k + 1] - 1, bounds[k] - 1, -1):
            while unmarked > begin and right_second[others[rising[unmarked - 1]]] > left_second[places[i]]:
                unmarked -= 1
                number = rising[unmarked] - begin
                bits[number >> 6] |= ONE << np.uint64(number & 63)
                top = max(top, number + 1)
            low = np.searchsorted(codes[begin:end], first[places[i]], side="right")
            n_pairs += _count_marked(bits, low, top)
            n_words += 1 + max(top - low, 0) // 64
    return n_pairs, n_words


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
