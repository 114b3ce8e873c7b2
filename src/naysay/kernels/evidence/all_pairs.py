"""Evidence: which outcome every pair of rows has in every field, counted by distinct combination.

A *field* compares a value of the left row with a value of the right row. The sides are int32 matrices, one line a
field and one place a row, then one line a *word*. A word is 31 bits of outcome codes; a field owns one or two bits
of one word: its `less` bit is set where left < right, its `equal` bit where left == right (a field that knows no
order has less = 0). The lines after the fields hold, for each word, bits that a row sets whatever it meets: that is
how nulls are told. Fields lie in the matrix word by word, within a word those with order first.

masks   int32[2, n_fields]: the `less` and the `equal` bit of each field.
spans   int64[n_words, 3]: a word's first field, the end of its fields with order, the end of its fields.
weights int64[n_rows] a side: how many rows of the table stand behind a row; a pair counts their product.
block   int64[5]: left start, left stop, right start, right stop, and 1 where left and right are the same rows and
        each unordered pair counts once (only right > left), 0 where all pairs of the block count.

Bits that vary most should be the lowest of word 0: the counters that are hot then lie together.
Cost: one pass over the pairs, about one nanosecond each for fifteen fields.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int32Array, Int64Array
from naysay.kernels.compile import kernel


@kernel
def pair_codes(
    left: Int32Array, right: Int32Array, masks: Int32Array, spans: Int64Array, lefts: Int64Array, rights: Int64Array
) -> Int32Array:
    """int32[n_pairs, n_words]: the code of (lefts[k], rights[k]). O(n_pairs * n_fields)."""
    n_fields, n_words = masks.shape[1], spans.shape[0]
    codes = np.zeros((lefts.size, n_words), np.int32)
    for k in range(lefts.size):
        t, s = lefts[k], rights[k]
        for word in range(n_words):
            code = left[n_fields + word, t] | right[n_fields + word, s]
            for field in range(spans[word, 0], spans[word, 2]):
                if left[field, t] < right[field, s]:
                    code |= masks[0, field]
                elif left[field, t] == right[field, s]:
                    code |= masks[1, field]
            codes[k, word] = code
    return codes


_CHUNK = 1024
# Left rows between two looks at whether to stop.
_STRIP = 32
_ZERO = np.int32(0)
_SPREAD = np.int64(0x2545F4914F6CDD1D)
# Codes that differ in so many of their lowest bits, those that vary most, lie side by side in a hash table.
_NEAR = 6


@kernel
def _fill_codes(
    left: Int32Array,
    right: Int32Array,
    masks: Int32Array,
    span: Int64Array,
    row: int,
    start: int,
    stop: int,
    codes: Int32Array,
) -> None:
    """Add to codes[k] the outcomes in one word of the pair (row, start + k). Columns outside, rows inside: vectors."""
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
def _codes_of(
    left: Int32Array,
    right: Int32Array,
    masks: Int32Array,
    spans: Int64Array,
    row: int,
    start: int,
    stop: int,
    codes: Int32Array,
) -> None:
    """Write all words of the codes of (row, start), ..., (row, stop - 1) to codes[word, k]."""
    n_fields = masks.shape[1]
    for word in range(spans.shape[0]):
        line = codes[word]
        own = left[n_fields + word, row]
        other = right[n_fields + word, start:stop]
        for k in range(stop - start):
            line[k] = own | other[k]
        _fill_codes(left, right, masks, spans[word], row, start, stop, line)


@kernel
def count_direct(
    left: Int32Array,
    right: Int32Array,
    left_weights: Int64Array,
    right_weights: Int64Array,
    masks: Int32Array,
    spans: Int64Array,
    block: Int64Array,
    counts: Int64Array,
) -> None:
    """Add each pair of the block to counts[code]: one word of few bits, counts of length 2**bits."""
    codes = np.empty((1, _CHUNK), np.int32)
    line = codes[0]
    first = block[2]
    while first < block[3]:
        stop = min(block[3], first + _CHUNK)
        for row in range(block[0], block[1]):
            start = max(first, row + 1) if block[4] else first
            if start >= stop:
                continue
            _codes_of(left, right, masks, spans, row, start, stop, codes)
            own = left_weights[row]
            other = right_weights[start:stop]
            for k in range(stop - start):
                counts[line[k]] += own * other[k]
        first = stop


@kernel
def count_hashed(
    left: Int32Array,
    right: Int32Array,
    left_weights: Int64Array,
    right_weights: Int64Array,
    masks: Int32Array,
    spans: Int64Array,
    block: Int64Array,
    keys: Int32Array,
    counts: Int64Array,
) -> tuple[Int32Array, Int64Array]:
    """Add each pair of the block to a hash table of codes of any width.

    keys is int32[capacity, n_words] with a capacity that is a power of two, counts int64[capacity + 1]: zero marks
    an empty slot, and the last place says how many slots are used. Gives the table back, larger where it had to grow.
    """
    codes = np.empty((spans.shape[0], _CHUNK), np.int32)
    weights = np.empty(_CHUNK, np.int64)
    slots = np.empty(_CHUNK, np.int64)
    first = block[2]
    while first < block[3]:
        stop = min(block[3], first + _CHUNK)
        for row in range(block[0], block[1]):
            start = max(first, row + 1) if block[4] else first
            if start >= stop:
                continue
            _codes_of(left, right, masks, spans, row, start, stop, codes)
            own = left_weights[row]
            for k in range(stop - start):
                weights[k] = own * right_weights[start + k]
            if 4 * (counts[-1] + _CHUNK) > keys.shape[0]:
                keys, counts = _grow(keys, counts)
            _add_codes(keys, counts, codes, weights, slots, stop - start)
        first = stop
    return keys, counts


@kernel
def count_direct_blocks(
    left: Int32Array,
    right: Int32Array,
    left_weights: Int64Array,
    right_weights: Int64Array,
    masks: Int32Array,
    spans: Int64Array,
    blocks: Int64Array,
    counts: Int64Array,
    control: Int64Array,
) -> None:
    """`count_direct` for each of blocks, int64[n, 5]; returns early once control[0] is set from elsewhere."""
    for place in range(blocks.shape[0]):
        for first in range(blocks[place, 0], blocks[place, 1], _STRIP):
            if control[0] != 0:
                return
            strip = _strip(blocks[place], first)
            count_direct(left, right, left_weights, right_weights, masks, spans, strip, counts)


@kernel
def count_hashed_blocks(
    left: Int32Array,
    right: Int32Array,
    left_weights: Int64Array,
    right_weights: Int64Array,
    masks: Int32Array,
    spans: Int64Array,
    blocks: Int64Array,
    keys: Int32Array,
    counts: Int64Array,
    control: Int64Array,
) -> tuple[Int32Array, Int64Array]:
    """`count_hashed` for each of blocks, int64[n, 5]; returns early once control[0] is set from elsewhere."""
    for place in range(blocks.shape[0]):
        for first in range(blocks[place, 0], blocks[place, 1], _STRIP):
            if control[0] != 0:
                return keys, counts
            strip = _strip(blocks[place], first)
            keys, counts = count_hashed(left, right, left_weights, right_weights, masks, spans, strip, keys, counts)
    return keys, counts


@kernel
def _strip(block: Int64Array, first: int) -> Int64Array:
    """The left rows of a block from `first` on, so few that they are soon done."""
    strip = block.copy()
    strip[0] = first
    strip[1] = min(block[1], first + _STRIP)
    return strip


@kernel
def _add_codes(
    keys: Int32Array, counts: Int64Array, codes: Int32Array, weights: Int64Array, slots: Int64Array, n_codes: int
) -> None:
    """Add weights[k] to the code codes[:, k]; the table has room for all of them. `slots` is scratch."""
    n_words = keys.shape[1]
    last = keys.shape[0] - 1
    for k in range(n_codes):
        slots[k] = (codes[0, k] >> _NEAR) * _SPREAD
    for word in range(1, n_words):
        line = codes[word]
        for k in range(n_codes):
            slots[k] = (slots[k] ^ (slots[k] >> 17) ^ line[k]) * _SPREAD
    for k in range(n_codes):
        slot = (((slots[k] ^ (slots[k] >> 29)) << _NEAR) | (codes[0, k] & ((1 << _NEAR) - 1))) & last
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
        counts[slot] += weights[k]


@kernel
def _grow(keys: Int32Array, counts: Int64Array) -> tuple[Int32Array, Int64Array]:
    capacity, n_words = keys.shape
    larger = np.empty((4 * capacity, n_words), np.int32)
    kept = np.zeros(4 * capacity + 1, np.int64)
    code = np.empty((n_words, 1), np.int32)
    weight = np.empty(1, np.int64)
    slots = np.empty(1, np.int64)
    for slot in range(capacity):
        if counts[slot] != 0:
            code[:, 0] = keys[slot]
            weight[0] = counts[slot]
            _add_codes(larger, kept, code, weight, slots, 1)
    return larger, kept
