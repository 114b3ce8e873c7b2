"""Evidence: which outcome every pair of rows has in every field, counted by distinct combination.

A *field* compares a value of the left row with a value of the right row. The sides are int32 matrices with one line per
field and one column per row, then one line per *word*. A word is 31 bits of outcome codes; a field owns one or two bits
of one word: its `less` bit is set if left < right, its `equal` bit if left == right (a field without order has
less = 0). The lines after the fields hold, for each word, bits that a row always sets, regardless of its partner: that
is how nulls are represented. FieldArrays are in the matrix word by word, within a word those with order first.

fields  a tuple of four arrays:
  left  int32[n_fields + n_words, n_rows]: the left side.
  right the right side, likewise.
  masks int32[2, n_fields]: the `less` and the `equal` bit of each field.
  spans int64[n_words, 3]: a word's first field, the end of its fields with order, the end of its fields.
weights int64[n_rows], left and right: how many rows of the table a row represents; a pair counts their product.
block   int64[5]: left start, left stop, right start, right stop, and 1 if left and right are the same rows and each
        unordered pair counts once (only right > left), 0 if all pairs of the block count.
table   a hash table of codes: keys int32[capacity, n_words] with a capacity that is a power of two; counts
        int64[capacity + 1], where zero marks an empty slot and the last entry says how many slots are used; and pairs
        int64[capacity], the first pair of each code as left row * 2**32 + right row, or empty if nobody needs them.

Bits that vary most should be the lowest of word 0: the counters that are hot are then close together.
Cost: one pass over the pairs, about one nanosecond each for fifteen fields.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import Int32Array, Int64Array, UInt64Array
from naysay.kernels.bits import ONE, ZERO, has, lowest, popcount
from naysay.kernels.compile import kernel

FieldArrays = tuple[Int32Array, Int32Array, Int32Array, Int64Array]
Weights = tuple[Int64Array, Int64Array]
CodeTable = tuple[Int32Array, Int64Array, Int64Array]

_CHUNK = 1024
# Pairs that the compiled comparison takes at once.
_VECTOR = 32
# Left rows between two checks whether to stop.
_STRIP = 32
_ZERO = np.int32(0)
_SPREAD = np.int64(0x2545F4914F6CDD1D)
# Codes that differ only in this many of their lowest bits, those that vary most, are neighbours in a hash table.
_NEAR = 6


@kernel
def pair_codes(fields: FieldArrays, lefts: Int64Array, rights: Int64Array) -> Int32Array:
    """int32[n_pairs, n_words]: the code of (lefts[k], rights[k]). O(n_pairs * n_fields)."""
    codes = np.empty((fields[3].shape[0], lefts.size), np.int32)
    _compare_pairs(fields, lefts, rights, lefts.size, codes)
    return np.ascontiguousarray(codes.T)


@kernel
def _compare_pairs(fields: FieldArrays, lefts: Int64Array, rights: Int64Array, n_pairs: int, codes: Int32Array) -> None:
    """Write the code of (lefts[k], rights[k]) to codes[:, k], for the first pairs."""
    left, right, masks, spans = fields
    n_fields = masks.shape[1]
    for k in range(n_pairs):
        t, s = lefts[k], rights[k]
        for word in range(spans.shape[0]):
            code = left[n_fields + word, t] | right[n_fields + word, s]
            for field in range(spans[word, 0], spans[word, 2]):
                if left[field, t] < right[field, s]:
                    code |= masks[0, field]
                elif left[field, t] == right[field, s]:
                    code |= masks[1, field]
            codes[word, k] = code


@kernel
def _fill_codes(fields: FieldArrays, span: Int64Array, row: int, start: int, stop: int, codes: Int32Array) -> None:
    """Add to codes[k] the outcomes in one word of the pair (row, start + k). Columns outside, rows inside: vectors."""
    left, right, masks, _ = fields
    n_pairs = stop - start
    field = span[0]
    while field + 4 <= span[1]:
        a0, a1, a2, a3 = left[field, row], left[field + 1, row], left[field + 2, row], left[field + 3, row]
        b0, b1 = right[field, start:stop], right[field + 1, start:stop]
        b2, b3 = right[field + 2, start:stop], right[field + 3, start:stop]
        less0, less1, less2, less3 = masks[0, field], masks[0, field + 1], masks[0, field + 2], masks[0, field + 3]
        same0, same1, same2, same3 = masks[1, field], masks[1, field + 1], masks[1, field + 2], masks[1, field + 3]
        for k in range(n_pairs):
            code = codes[k]
            code |= (less0 if a0 < b0[k] else _ZERO) | (same0 if a0 == b0[k] else _ZERO)
            code |= (less1 if a1 < b1[k] else _ZERO) | (same1 if a1 == b1[k] else _ZERO)
            code |= (less2 if a2 < b2[k] else _ZERO) | (same2 if a2 == b2[k] else _ZERO)
            code |= (less3 if a3 < b3[k] else _ZERO) | (same3 if a3 == b3[k] else _ZERO)
            codes[k] = code
        field += 4
    while field < span[1]:
        a0, b0, less0, same0 = left[field, row], right[field, start:stop], masks[0, field], masks[1, field]
        for k in range(n_pairs):
            codes[k] |= (less0 if a0 < b0[k] else _ZERO) | (same0 if a0 == b0[k] else _ZERO)
        field += 1
    while field + 4 <= span[2]:
        a0, a1, a2, a3 = left[field, row], left[field + 1, row], left[field + 2, row], left[field + 3, row]
        b0, b1 = right[field, start:stop], right[field + 1, start:stop]
        b2, b3 = right[field + 2, start:stop], right[field + 3, start:stop]
        same0, same1, same2, same3 = masks[1, field], masks[1, field + 1], masks[1, field + 2], masks[1, field + 3]
        for k in range(n_pairs):
            code = codes[k]
            code |= (same0 if a0 == b0[k] else _ZERO) | (same1 if a1 == b1[k] else _ZERO)
            code |= (same2 if a2 == b2[k] else _ZERO) | (same3 if a3 == b3[k] else _ZERO)
            codes[k] = code
        field += 4
    while field < span[2]:
        a0, b0, same0 = left[field, row], right[field, start:stop], masks[1, field]
        for k in range(n_pairs):
            codes[k] |= same0 if a0 == b0[k] else _ZERO
        field += 1


@kernel
def _codes_of(fields: FieldArrays, row: int, start: int, stop: int, codes: Int32Array) -> None:
    """Write all words of the codes of (row, start), ..., (row, stop - 1) to codes[word, k]."""
    left, right, masks, spans = fields
    n_fields = masks.shape[1]
    for word in range(spans.shape[0]):
        line = codes[word]
        own = left[n_fields + word, row]
        other = right[n_fields + word, start:stop]
        for k in range(stop - start):
            line[k] = own | other[k]
        _fill_codes(fields, spans[word], row, start, stop, line)


@kernel
def count_direct(
    fields: FieldArrays, weights: Weights, blocks: Int64Array, counts: Int64Array, control: Int64Array
) -> None:
    """Add each pair of blocks int64[n, 5] to counts[code]: one word of few bits, counts of length 2**bits.

    Returns early once another thread has set control[0].
    """
    left_weights, right_weights = weights
    codes = np.empty((1, _CHUNK), np.int32)
    line = codes[0]
    for block in blocks:
        for strip in range(block[0], block[1], _STRIP):
            if control[0] != 0:
                return
            first = block[2]
            while first < block[3]:
                stop = min(block[3], first + _CHUNK)
                for row in range(strip, min(block[1], strip + _STRIP)):
                    start = max(first, row + 1) if block[4] else first
                    if start >= stop:
                        continue
                    _codes_of(fields, row, start, stop, codes)
                    own = left_weights[row]
                    other = right_weights[start:stop]
                    for k in range(stop - start):
                        counts[line[k]] += own * other[k]
                first = stop


@kernel
def mark_direct(fields: FieldArrays, blocks: Int64Array, seen: NDArray[np.uint8], control: Int64Array) -> None:
    """Set seen[code] to 1 for each pair of blocks in which each unordered pair counts once, see `count_direct`.

    And for some pairs beyond their right ends, which are pairs of different rows, too: rounding up to whole vectors
    costs less than comparing the last pairs of a block one by one.
    """
    codes = np.empty((1, _CHUNK), np.int32)
    # Unsigned, so that no index has to be checked for its sign.
    line = codes[0].view(np.uint32)
    n_rows = fields[0].shape[1]
    for block in blocks:
        for strip in range(block[0], block[1], _STRIP):
            if control[0] != 0:
                return
            first = block[2]
            while first < block[3]:
                stop = min(block[3], first + _CHUNK)
                for row in range(strip, min(block[1], strip + _STRIP)):
                    start = max(first, row + 1)
                    if start >= stop:
                        continue
                    # At most _CHUNK pairs, which is a multiple of _VECTOR.
                    end = min(n_rows, start + (stop - start + _VECTOR - 1) // _VECTOR * _VECTOR)
                    _codes_of(fields, row, start, end, codes)
                    for k in range(end - start):
                        seen[line[k]] = 1
                first = stop


@kernel
def count_hashed(
    fields: FieldArrays, weights: Weights, blocks: Int64Array, table: CodeTable, control: Int64Array
) -> CodeTable:
    """Like `count_direct`, into a hash table of codes of any width. Returns the table, larger if it had to grow."""
    left_weights, right_weights = weights
    codes = np.empty((fields[3].shape[0], _CHUNK), np.int32)
    products, slots, places = np.empty((3, _CHUNK), np.int64)
    for block in blocks:
        for strip in range(block[0], block[1], _STRIP):
            if control[0] != 0:
                return table
            first = block[2]
            while first < block[3]:
                stop = min(block[3], first + _CHUNK)
                for row in range(strip, min(block[1], strip + _STRIP)):
                    start = max(first, row + 1) if block[4] else first
                    if start >= stop:
                        continue
                    _codes_of(fields, row, start, stop, codes)
                    own = left_weights[row]
                    for k in range(stop - start):
                        products[k] = own * right_weights[start + k]
                    if 4 * (table[1][-1] + _CHUNK) > table[0].shape[0]:
                        table = _grow(table, _NEAR)
                    _add_codes(table, codes, products, places, slots, stop - start, _NEAR)
                first = stop
    return table


@kernel
def see_direct(
    fields: FieldArrays,
    blocks: Int64Array,
    counts: Int64Array,
    codes: Int32Array,
    pairs: Int64Array,
    n_codes: int,
    lanes: NDArray[np.uint32],
) -> tuple[Int32Array, Int64Array, int]:
    """Add each pair of blocks int64[n, 5] to counts[code + lane]; note each sum when it is first seen, and the pair.

    One word of few bits, counts zero wherever a code has not been seen; codes and pairs of length n_codes or more;
    pairs as in a table. Returns codes and pairs, perhaps larger ones, and how many there are: to reuse `counts`, clear
    the entries of these codes. `lanes` has a multiple of 2**bits for each of 1,024 pairs in a row: if few codes are
    hot, adding to a counter waits for the previous addition, unless that was to another one.
    """
    found = np.empty((1, _CHUNK), np.int32)
    # Unsigned, so that no index has to be checked for its sign.
    line = found[0].view(np.uint32)
    fresh = np.empty(_CHUNK, np.int64)
    for block in blocks:
        first = block[2]
        while first < block[3]:
            stop = min(block[3], first + _CHUNK)
            for row in range(block[0], block[1]):
                start = max(first, row + 1) if block[4] else first
                if start >= stop:
                    continue
                _codes_of(fields, row, start, stop, found)
                n_fresh = 0
                for k in range(stop - start):
                    code = line[k] + lanes[k]
                    count = counts[code]
                    counts[code] = count + 1
                    if count == 0:
                        fresh[n_fresh] = k
                        n_fresh += 1
                if n_codes + n_fresh > codes.size:
                    codes, pairs = _lengthen(codes, pairs)
                for place in range(n_fresh):
                    codes[n_codes] = line[fresh[place]] + lanes[fresh[place]]
                    pairs[n_codes] = (row << 32) + start + fresh[place]
                    n_codes += 1
            first = stop
    return codes, pairs, n_codes


@kernel
def see_hashed(fields: FieldArrays, blocks: Int64Array, table: CodeTable) -> CodeTable:
    """Add each pair of blocks int64[n, 5], of weight one, to a hash table with pairs. Returns it, perhaps larger."""
    codes = np.empty((fields[3].shape[0], _CHUNK), np.int32)
    slots, places = np.empty((2, _CHUNK), np.int64)
    ones = np.ones(_CHUNK, np.int64)
    for block in blocks:
        first = block[2]
        while first < block[3]:
            stop = min(block[3], first + _CHUNK)
            for row in range(block[0], block[1]):
                start = max(first, row + 1) if block[4] else first
                if start >= stop:
                    continue
                _codes_of(fields, row, start, stop, codes)
                if 2 * (table[1][-1] + _CHUNK) > table[0].shape[0]:
                    table = _grow(table, 0)
                for k in range(stop - start):
                    places[k] = (row << 32) + start + k
                _add_codes(table, codes, ones, places, slots, stop - start, 0)
            first = stop
    return table


@kernel
def see_marked(
    fields: FieldArrays, marks: UInt64Array, first: int, start: int, stop: int, table: CodeTable
) -> CodeTable:
    """As `see_hashed`, for the pairs of the rows first + start to first + stop - 1 that are marked in their lines.

    Where marks are dense, all codes of a chunk are computed, as vectors.
    """
    n_words = fields[3].shape[0]
    codes = np.empty((n_words, _CHUNK), np.int32)
    slots, places, rows, others = np.empty((4, _CHUNK), np.int64)
    ones = np.ones(_CHUNK, np.int64)
    for line in range(start, stop):
        row = first + line
        for begin in range(0, row, _CHUNK):
            end = min(row, begin + _CHUNK)
            n_marked = 0
            for word in range(begin >> 6, (end + 63) >> 6):
                n_marked += np.int64(popcount(marks[line, word]))
            if n_marked == 0:
                continue
            n_found = 0
            if 8 * n_marked > end - begin:
                _codes_of(fields, row, begin, end, codes)
                for other in range(begin, end):
                    if has(marks[line], other):
                        for word in range(n_words):
                            codes[word, n_found] = codes[word, other - begin]
                        places[n_found] = (row << 32) + other
                        n_found += 1
            else:
                for word in range(begin >> 6, (end + 63) >> 6):
                    left_marks = marks[line, word]
                    while left_marks != ZERO:
                        other = 64 * word + np.int64(lowest(left_marks))
                        left_marks &= left_marks - ONE
                        others[n_found] = other
                        places[n_found] = (row << 32) + other
                        n_found += 1
                rows[:n_found] = row
                _compare_pairs(fields, rows, others, n_found, codes)
            if 2 * (table[1][-1] + _CHUNK) > table[0].shape[0]:
                table = _grow(table, 0)
            _add_codes(table, codes, ones, places, slots, n_found, 0)
    return table


@kernel
def _add_codes(
    table: CodeTable,
    codes: Int32Array,
    weights: Int64Array,
    places: Int64Array,
    slots: Int64Array,
    n_codes: int,
    near: int,
) -> None:
    """Add weights[k] to the code codes[:, k], and note places[k] if it is new; the table has room for all of them.

    `slots` is scratch space. Codes that differ only in the lowest `near` bits are neighbours.
    """
    keys, counts, pairs = table
    n_words = keys.shape[1]
    last = keys.shape[0] - 1
    for k in range(n_codes):
        slots[k] = (codes[0, k] >> near) * _SPREAD
    for word in range(1, n_words):
        line = codes[word]
        for k in range(n_codes):
            slots[k] = (slots[k] ^ (slots[k] >> 17) ^ line[k]) * _SPREAD
    for k in range(n_codes):
        slot = (((slots[k] ^ (slots[k] >> 29)) << near) | (codes[0, k] & ((1 << near) - 1))) & last
        while counts[slot] != 0:
            word = 0
            while word < n_words and keys[slot, word] == codes[word, k]:
                word += 1
            if word == n_words:
                break
            slot = (slot + 1) & last
        if counts[slot] == 0:
            for word in range(n_words):
                keys[slot, word] = codes[word, k]
            counts[-1] += 1
            if pairs.size:
                pairs[slot] = places[k]
        counts[slot] += weights[k]


@kernel
def _grow(table: CodeTable, near: int) -> CodeTable:
    keys, counts, pairs = table
    capacity, n_words = keys.shape
    larger = (
        np.empty((4 * capacity, n_words), np.int32),
        np.zeros(4 * capacity + 1, np.int64),
        np.empty(4 * pairs.size, np.int64),
    )
    code = np.empty((n_words, 1), np.int32)
    weight, place, slots = np.empty((3, 1), np.int64)
    for slot in range(capacity):
        if counts[slot] != 0:
            code[:, 0] = keys[slot]
            weight[0] = counts[slot]
            if pairs.size:
                place[0] = pairs[slot]
            _add_codes(larger, code, weight, place, slots, 1, near)
    return larger


@kernel
def _lengthen(codes: Int32Array, pairs: Int64Array) -> tuple[Int32Array, Int64Array]:
    more_codes = np.empty(2 * codes.size + _CHUNK, np.int32)
    more_pairs = np.empty(2 * codes.size + _CHUNK, np.int64)
    more_codes[: codes.size] = codes
    more_pairs[: pairs.size] = pairs
    return more_codes, more_pairs
