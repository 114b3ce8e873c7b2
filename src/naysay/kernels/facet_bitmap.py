"""FACET's refinements that keep the right rows as a bitmap over their sorted order: IEJoin, and HSM on moving runs.

A bit stands for a rank, not for a row, so that "all present rows with a greater value" is a suffix of the bitmap.
Both kernels stop when their output is full and go on from there: `state` holds the cluster pair and the left row to
go on with, how much output fits, whether to write output or only to count, the pairs counted, and the words of bitmap
that were read and that may be read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from naysay.kernels.compile import kernel
from naysay.kernels.facet import extent, sort_run
from naysay.kernels.group import Int64Array

Bits = NDArray[np.uint64]

CLUSTER, OFFSET, CAPACITY, WRITES, N_PAIRS, WORDS_READ, WORDS_ALLOWED, N_STATE = 0, 1, 2, 3, 4, 5, 6, 7
EQUAL, DIFFERS, LESS = 0, 1, 2

_NONE = -1
_ONE = np.uint64(1)
_FIVES = np.uint64(0x5555555555555555)
_THREES = np.uint64(0x3333333333333333)
_NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)
_BYTES = np.uint64(0x0101010101010101)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel
def population(word: np.uint64) -> int:
    """Count the bits of a word; the compiler knows this form and makes it one instruction."""
    word = word - ((word >> _ONE) & _FIVES)
    word = (word & _THREES) + ((word >> np.uint64(2)) & _THREES)
    word = (word + (word >> np.uint64(4))) & _NIBBLES
    return np.int64((word * _BYTES) >> np.uint64(56))


@kernel
def flip(bits: Bits, rank: int) -> None:
    bits[rank >> 6] ^= _ONE << np.uint64(rank & 63)


@kernel
def word_within(bits: Bits, word: int, begin: int, end: int) -> np.uint64:
    """The word with all bits cleared whose rank is outside [begin, end)."""
    value = bits[word]
    if begin > word << 6:
        value &= _ALL << np.uint64(begin & 63)
    if end < (word + 1) << 6:
        value &= ~(_ALL << np.uint64(end & 63))
    return value


@kernel
def count_marked(bits: Bits, begin: int, end: int) -> int:
    """Count the marked ranks in [begin, end). O((end - begin) / 64)."""
    if begin >= end:
        return 0
    total = 0
    for word in range(begin >> 6, ((end - 1) >> 6) + 1):
        total += population(word_within(bits, word, begin, end))
    return total


@kernel
def collect_marked(bits: Bits, begin: int, end: int, places: Int64Array, out: Int64Array, at: int) -> int:
    """Write the places of the marked ranks in [begin, end) from out[at]; gives where it stopped."""
    if begin >= end:
        return at
    for word in range(begin >> 6, ((end - 1) >> 6) + 1):
        value = word_within(bits, word, begin, end)
        while value != 0:
            lowest = value & (~value + _ONE)
            out[at] = places[(word << 6) + population(lowest - _ONE)]
            at += 1
            value ^= lowest
    return at


@kernel
def first_above(codes: Int64Array, begin: int, end: int, code: int) -> int:
    """The first position in codes[begin:end], ascending, with a code greater than `code`. O(log n)."""
    while begin < end:
        middle = (begin + end) >> 1
        if codes[middle] > code:
            end = middle
        else:
            begin = middle + 1
    return begin


@kernel
def rank_segments(places: Int64Array, codes: Int64Array, segments: Int64Array) -> Int64Array:
    """Sort each segment [begin, end) of a buffer of places by code. O(n log n).

    Gives three rows as long as the buffer: the rank of each position, and in order of rank the place and its code.
    """
    ranked = np.zeros((3, places.size), np.int64)
    _, longest = extent(segments)
    spare_places = np.empty(longest, np.int64)
    spare_codes = np.empty(longest, np.int64)
    order = ranked[1]
    for k in range(segments.shape[0]):
        begin, end = segments[k, 0], segments[k, 1]
        for i in range(begin, end):
            order[i] = i
            ranked[2, i] = codes[places[i]]
        sort_run(order, ranked[2], begin, end, spare_places, spare_codes)
        for i in range(begin, end):
            ranked[0, order[i]] = i
            order[i] = places[order[i]]
    return ranked


@kernel
def _move_window(bits: Bits, ranks: Int64Array, window: Int64Array, begin: int, end: int) -> None:
    """Mark the ranks of positions [begin, end) and no others, where `window` says what is marked.

    Costs the change alone, which is FACET's cache between refinements. window[2] is above every marked rank.
    """
    old_begin, old_end = window[0], window[1]
    if begin >= old_end or end <= old_begin:
        for position in range(old_begin, old_end):
            flip(bits, ranks[position])
        old_begin = old_end = begin
        window[2] = 0
    for position in range(old_begin, begin):
        flip(bits, ranks[position])
    for position in range(end, old_end):
        flip(bits, ranks[position])
    for position in range(begin, old_begin):
        flip(bits, ranks[position])
        window[2] = max(window[2], ranks[position] + 1)
    for position in range(old_end, end):
        flip(bits, ranks[position])
        window[2] = max(window[2], ranks[position] + 1)
    window[0], window[1] = begin, end


@kernel
def _load_sorted(places: Int64Array, begin: int, end: int, codes: Int64Array, scratch: Int64Array) -> int:
    """Bring a run of places to scratch[0], sorted by code, the codes to scratch[1]; two more rows are spare."""
    size = end - begin
    for i in range(size):
        scratch[0, i] = places[begin + i]
        scratch[1, i] = codes[places[begin + i]]
    sort_run(scratch[0], scratch[1], np.int64(0), size, scratch[2], scratch[3])
    return size


@kernel
def refine_moving(
    left_places: Int64Array,
    left_runs: Int64Array,
    left_codes: Int64Array,
    right_runs: Int64Array,
    segments: Int64Array,
    ranked: Int64Array,
    comparison: int,
    state: Int64Array,
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Refine cluster pairs whose right runs move step by step over a segment each, by EQUAL, DIFFERS or LESS.

    `segments[k]` contains the right run of pair k; `ranked` is from rank_segments. Marking costs what a run gains
    and loses against the one before; each left value reads the words of its range of ranks. Gives places and runs,
    left then right; the capacity is at least the longest run and segment. Section 5.3, optimizations.
    """
    capacity = state[CAPACITY] if state[WRITES] else 0
    out_places = np.empty((2, capacity), np.int64)
    out_left_runs = np.empty((capacity, 2), np.int64)
    out_right_runs = np.empty((capacity, 2), np.int64)
    n_out = left_at = right_at = np.int64(0)
    _, longest = extent(left_runs)
    scratch = np.empty((4, longest), np.int64)
    keys = scratch[1]
    bits = np.zeros((ranked.shape[1] >> 6) + 1, np.uint64)
    window = np.zeros(3, np.int64)
    codes = ranked[2]
    for k in range(state[CLUSTER], left_runs.shape[0]):
        state[CLUSTER] = k
        _move_window(bits, ranked[0], window, right_runs[k, 0], right_runs[k, 1])
        size = _load_sorted(left_places, left_runs[k, 0], left_runs[k, 1], left_codes, scratch)
        begin, end = segments[k, 0], segments[k, 1]
        while state[OFFSET] < size:
            i = state[OFFSET]
            above = first_above(codes, begin, end, keys[i])
            below = above if comparison == LESS else first_above(codes, begin, end, keys[i] - 1)
            ceiling = codes[above] if comparison == LESS and above < end else keys[i] + 1
            j = i + 1
            while j < size and (keys[j] < ceiling or (comparison == LESS and above == end)):
                j += 1
            low, high = (above, min(end, window[2])) if comparison == LESS else (below, above)
            n_right = count_marked(bits, low, high)
            state[WORDS_READ] += 1 + max(high - low, 0) // 64
            if comparison == DIFFERS:
                n_right = right_runs[k, 1] - right_runs[k, 0] - n_right
            if state[WORDS_READ] > state[WORDS_ALLOWED] or (
                state[WRITES] and max(left_at + j - i, right_at + n_right) > capacity
            ):
                return out_places[0, :left_at], out_left_runs[:n_out], out_places[1, :right_at], out_right_runs[:n_out]
            state[OFFSET] = j
            state[N_PAIRS] += n_right * (j - i)
            if n_right == 0 or not state[WRITES]:
                continue
            out_left_runs[n_out, 0], out_left_runs[n_out, 1] = left_at, left_at + j - i
            out_right_runs[n_out, 0], out_right_runs[n_out, 1] = right_at, right_at + n_right
            n_out += 1
            for place in scratch[0, i:j]:
                out_places[0, left_at] = place
                left_at += 1
            if comparison == DIFFERS:
                right_at = collect_marked(bits, begin, below, ranked[1], out_places[1], right_at)
                low, high = above, min(end, window[2])
            right_at = collect_marked(bits, low, high, ranked[1], out_places[1], right_at)
        state[OFFSET] = 0
    state[CLUSTER] = left_runs.shape[0]
    return out_places[0, :left_at], out_left_runs[:n_out], out_places[1, :right_at], out_right_runs[:n_out]


@kernel
def refine_two_orders(
    left_places: Int64Array,
    left_runs: Int64Array,
    right_places: Int64Array,
    right_runs: Int64Array,
    left_first: Int64Array,
    right_first: Int64Array,
    left_second: Int64Array,
    right_second: Int64Array,
    state: Int64Array,
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Refine cluster pairs by two orders at a time, left < right in both: IEJoin.

    Visits left rows by falling first code, marks the right rows with a greater one at
    their rank in the second, and reads the bitmap above the second code of the left row. Neighbours that meet the
    same right rows share a cluster pair. O(n log n) and for each left row the words between its second code and the
    greatest marked. The capacity is at least the longest run. Section 5.3, after Khayyat et al., PVLDB 8(13).
    """
    capacity = state[CAPACITY] if state[WRITES] else 0
    out_places = np.empty((2, capacity), np.int64)
    out_left_runs = np.empty((capacity, 2), np.int64)
    out_right_runs = np.empty((capacity, 2), np.int64)
    n_out = left_at = right_at = np.int64(0)
    _, longest_left = extent(left_runs)
    _, longest_right = extent(right_runs)
    lefts = np.empty((4, longest_left), np.int64)
    rights = np.empty((4, longest_right), np.int64)
    bits = np.empty((longest_right >> 6) + 1, np.uint64)
    whole = np.zeros((1, 2), np.int64)
    for k in range(state[CLUSTER], left_runs.shape[0]):
        state[CLUSTER] = k
        n_left = _load_sorted(left_places, left_runs[k, 0], left_runs[k, 1], left_first, lefts)
        n_right = _load_sorted(right_places, right_runs[k, 0], right_runs[k, 1], right_first, rights)
        whole[0, 1] = n_right
        ranked = rank_segments(rights[0, :n_right], right_second, whole)
        bits.fill(0)
        marked, top, newest, last_low = n_right, 0, 0, _NONE
        for i in range(n_left - 1 - state[OFFSET], -1, -1):
            while marked > 0 and rights[1, marked - 1] > lefts[1, i]:
                marked -= 1
                flip(bits, ranked[0, marked])
                newest = max(newest, ranked[0, marked] + 1)
            top = max(top, newest)
            low = first_above(ranked[2], np.int64(0), n_right, left_second[lefts[0, i]])
            n_met = count_marked(bits, low, top)
            state[WORDS_READ] += 1 + max(top - low, 0) // 64
            known = last_low != _NONE and newest <= max(low, last_low)
            known = known and count_marked(bits, min(low, last_low), max(low, last_low)) == 0
            n_new = 0 if known else n_met
            if state[WORDS_READ] > state[WORDS_ALLOWED] or (
                state[WRITES] and max(left_at + 1, right_at + n_new) > capacity
            ):
                return out_places[0, :left_at], out_left_runs[:n_out], out_places[1, :right_at], out_right_runs[:n_out]
            state[OFFSET] += 1
            state[N_PAIRS] += n_met
            if n_met == 0 or not state[WRITES]:
                continue
            out_places[0, left_at] = lefts[0, i]
            left_at += 1
            if not known:
                out_left_runs[n_out, 0] = left_at - 1
                out_right_runs[n_out, 0] = right_at
                right_at = collect_marked(bits, low, top, ranked[1], out_places[1], right_at)
                out_right_runs[n_out, 1] = right_at
                n_out += 1
            out_left_runs[n_out - 1, 1] = left_at
            newest, last_low = 0, low
        state[OFFSET] = 0
    state[CLUSTER] = left_runs.shape[0]
    return out_places[0, :left_at], out_left_runs[:n_out], out_places[1, :right_at], out_right_runs[:n_out]
