"""Evidence of the pairs that a change brings or takes: counts as in `kernels.evidence`, and one pair for each code.

Arrays as in `kernels.evidence`, every row of weight one. A pair is kept as left place * 2**32 + right place.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import Int32Array, Int64Array
from naysay.kernels.compile import kernel
from naysay.kernels.evidence.all_pairs import _codes_of

_CHUNK = 1024
_SPREAD = np.int64(0x2545F4914F6CDD1D)


@kernel
def see_direct(
    left: Int32Array,
    right: Int32Array,
    masks: Int32Array,
    spans: Int64Array,
    block: Int64Array,
    counts: Int64Array,
    codes: Int32Array,
    pairs: Int64Array,
    n_codes: int,
    lanes: NDArray[np.uint32],
) -> tuple[Int32Array, Int64Array, int]:
    """Add each pair of the block to counts[code + lane]; note each such sum when it is first seen, and the pair.

    One word of few bits, counts zero wherever a code has not been seen; codes and pairs of length n_codes or more.
    Gives codes and pairs back, perhaps larger ones, and how many there are: whoever keeps `counts` for later clears
    it by them. `lanes` has a multiple of 2**bits for each of 1,024 pairs in a row: where few codes are hot, adding to
    a counter waits for the addition before, unless that was to another one.
    """
    found = np.empty((1, _CHUNK), np.int32)
    # Unsigned, so that no index needs to be looked at for its sign.
    line = found[0].view(np.uint32)
    fresh = np.empty(_CHUNK, np.int64)
    first = block[2]
    while first < block[3]:
        stop = min(block[3], first + _CHUNK)
        for row in range(block[0], block[1]):
            start = max(first, row + 1) if block[4] else first
            if start >= stop:
                continue
            _codes_of(left, right, masks, spans, row, start, stop, found)
            n_fresh = 0
            for k in range(stop - start):
                code = line[k] + lanes[k]
                count = counts[code]
                counts[code] = count + 1
                if count == 0:
                    fresh[n_fresh] = k
                    n_fresh += 1
            if n_codes + n_fresh > codes.size:
                codes, pairs = _longer(codes, pairs)
            for place in range(n_fresh):
                codes[n_codes] = line[fresh[place]] + lanes[fresh[place]]
                pairs[n_codes] = (row << 32) + start + fresh[place]
                n_codes += 1
        first = stop
    return codes, pairs, n_codes


@kernel
def see_hashed(
    left: Int32Array,
    right: Int32Array,
    masks: Int32Array,
    spans: Int64Array,
    block: Int64Array,
    keys: Int32Array,
    counts: Int64Array,
    pairs: Int64Array,
) -> tuple[Int32Array, Int64Array, Int64Array]:
    """Add each pair of the block to a hash table of codes of any width, with the first pair of each.

    keys is int32[capacity, n_words] with a capacity that is a power of two, pairs int64[capacity], counts
    int64[capacity + 1]: zero marks an empty slot, and the last place says how many slots are used. Gives the table
    back, larger where it had to grow.
    """
    codes = np.empty((spans.shape[0], _CHUNK), np.int32)
    hashes = np.empty(_CHUNK, np.int64)
    ones = np.ones(_CHUNK, np.int64)
    places = np.empty(_CHUNK, np.int64)
    first = block[2]
    while first < block[3]:
        stop = min(block[3], first + _CHUNK)
        for row in range(block[0], block[1]):
            start = max(first, row + 1) if block[4] else first
            if start >= stop:
                continue
            _codes_of(left, right, masks, spans, row, start, stop, codes)
            if 2 * (counts[-1] + _CHUNK) > keys.shape[0]:
                keys, counts, pairs = _grown(keys, counts, pairs)
            for k in range(stop - start):
                places[k] = (row << 32) + start + k
            _see_codes(keys, counts, pairs, codes, ones, places, hashes, stop - start)
        first = stop
    return keys, counts, pairs


@kernel
def _see_codes(
    keys: Int32Array,
    counts: Int64Array,
    pairs: Int64Array,
    codes: Int32Array,
    weights: Int64Array,
    places: Int64Array,
    hashes: Int64Array,
    n_codes: int,
) -> None:
    """Add weights[k] to the code codes[:, k], and note places[k] where it is new; the table has room for all."""
    n_words = keys.shape[1]
    last = keys.shape[0] - 1
    for k in range(n_codes):
        hashes[k] = codes[0, k] * _SPREAD
    for word in range(1, n_words):
        line = codes[word]
        for k in range(n_codes):
            hashes[k] = (hashes[k] ^ (hashes[k] >> 17) ^ line[k]) * _SPREAD
    for k in range(n_codes):
        slot = (hashes[k] ^ (hashes[k] >> 29)) & last
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
            pairs[slot] = places[k]
            counts[-1] += 1
        counts[slot] += weights[k]


@kernel
def _grown(keys: Int32Array, counts: Int64Array, pairs: Int64Array) -> tuple[Int32Array, Int64Array, Int64Array]:
    capacity, n_words = keys.shape
    larger = np.empty((4 * capacity, n_words), np.int32)
    kept = np.zeros(4 * capacity + 1, np.int64)
    moved = np.empty(4 * capacity, np.int64)
    code = np.empty((n_words, 1), np.int32)
    for slot in range(capacity):
        if counts[slot] != 0:
            code[:, 0] = keys[slot]
            weight, place, scratch = counts[slot : slot + 1], pairs[slot : slot + 1], np.empty(1, np.int64)
            _see_codes(larger, kept, moved, code, weight, place, scratch, 1)
    return larger, kept, moved


@kernel
def _longer(codes: Int32Array, pairs: Int64Array) -> tuple[Int32Array, Int64Array]:
    more_codes = np.empty(2 * codes.size + _CHUNK, np.int32)
    more_pairs = np.empty(2 * codes.size + _CHUNK, np.int64)
    more_codes[: codes.size] = codes
    more_pairs[: pairs.size] = pairs
    return more_codes, more_pairs
