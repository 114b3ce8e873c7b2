"""Rows as words: key, x and y packed into 63 bits, sorted in parts that threads can work on, equal ones counted.

A word holds the key in its highest bits, then x, then y, each less the least that there is. So words in ascending order
are rows in ascending order of (key, x, y). Kernels work on a range of places, the share of one thread.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int32Array, Int64Array, UInt64Array
from naysay.kernels.bits import bit_length
from naysay.kernels.compile import kernel
from naysay.kernels.sort import bounds

_DIGIT_BITS = 11
_N_BUCKETS = 1 << _DIGIT_BITS
# A part is put together from buckets until it has this many words: with its copy it fits into a core's own cache.
_PART_WORDS = 1 << 15
# Digits within a part: as many buckets as the first cache has lines.
_SORT_BITS = 9
# From this many rows on, rows of equal key and x are sorted, so that equal ones become one point.
_LONG_RUN = 32

# The least x and the least y; the bits of x and of y.
Layout = tuple[int, int, int, int]
# Words in ascending order, each once, and how often each occurs.
Points = tuple[UInt64Array, Int64Array]


@kernel
def pack_words(
    key: Int64Array, x: Int64Array, y: Int64Array, layout: Layout, shift: int, begin: int, end: int, words: UInt64Array
) -> Int64Array:
    """Make the words of some rows, and count them by bucket: the number in the bits from `shift` on."""
    low_x, low_y, bits_x, bits_y = layout
    counts = np.zeros(_N_BUCKETS, np.int64)
    for i in range(begin, end):
        word = ((np.uint64(key[i]) << np.uint64(bits_x)) | np.uint64(x[i] - low_x)) << np.uint64(bits_y)
        if bits_y > 0:
            word |= np.uint64(y[i] - low_y)
        words[i] = word
        counts[np.int64(word >> np.uint64(shift))] += 1
    return counts


@kernel
def count_words(key: Int64Array, x: Int64Array, y: Int64Array, layout: Layout, n_words: int) -> Int32Array:
    """How many rows have each word, for so few words that there can be an array of counts."""
    low_x, low_y, bits_x, bits_y = layout
    counts = np.zeros(n_words, np.int32)
    for i in range(key.size):
        word = ((key[i] << bits_x) | (x[i] - low_x)) << bits_y
        if bits_y > 0:
            word |= y[i] - low_y
        counts[word] += 1
    return counts


@kernel
def scatter_words(
    words: UInt64Array, low: np.uint64, shift: int, begin: int, end: int, positions: Int64Array, target: UInt64Array
) -> None:
    """Move some words to where the next of their bucket goes, `positions`, which move on. Buckets begin at `low`."""
    for i in range(begin, end):
        bucket = np.int64((words[i] - low) >> np.uint64(shift))
        target[positions[bucket]] = words[i]
        positions[bucket] += 1


@kernel
def split_part(words: UInt64Array, scratch: UInt64Array, begin: int, end: int) -> Int64Array:
    """Order some words by bucket, for buckets between their least and their greatest; where each bucket starts."""
    low, high = bounds(words[begin:end])
    shift = max(bit_length(high - low) - _DIGIT_BITS, 0)
    counts = np.zeros(_N_BUCKETS + 1, np.int64)
    for i in range(begin, end):
        counts[np.int64((words[i] - low) >> np.uint64(shift)) + 1] += 1
    starts = begin + np.cumsum(counts)
    scatter_words(words, low, shift, begin, end, starts[:-1].copy(), scratch)
    words[begin:end] = scratch[begin:end]
    return starts


@kernel
def group_buckets(starts: Int64Array) -> Int64Array:
    """Where the parts start that are made of neighbouring buckets, then the end of the last; no part is empty."""
    parts = np.empty(starts.size, np.int64)
    parts[0] = starts[0]
    n_parts = 0
    for bucket in range(1, starts.size):
        size = starts[bucket] - parts[n_parts]
        is_last = bucket == starts.size - 1
        following = 0 if is_last else starts[bucket + 1] - starts[bucket]
        if size > 0 and (is_last or size + following > _PART_WORDS):
            n_parts += 1
            parts[n_parts] = starts[bucket]
    return parts[: n_parts + 1].copy()


@kernel
def sort_part(words: UInt64Array, scratch: UInt64Array, weights: Int64Array, bits_y: int, begin: int, end: int) -> int:
    """Sort some words by key and x, and move them to the front, neighbours that are equal as one; how many are left.

    `weights` become how often each occurs.
    """
    _sort_range(words[begin:end], scratch[begin:end], bits_y)
    n_points = 0
    run_end = begin
    for i in range(begin, end):
        if bits_y > 0 and i == run_end:
            run_end = _sort_run(words, scratch, bits_y, i, end)
        if n_points == 0 or words[i] != words[begin + n_points - 1]:
            words[begin + n_points] = words[i]
            weights[begin + n_points] = 0
            n_points += 1
        weights[begin + n_points - 1] += 1
    return n_points


@kernel
def _sort_run(words: UInt64Array, scratch: UInt64Array, bits_y: int, begin: int, end: int) -> int:
    """Sort the words with the key and the x of the first, if there are many and not all equal; where they end."""
    shift = np.uint64(bits_y)
    first = words[begin]
    is_mixed = False
    i = begin + 1
    while i < end and (words[i] >> shift) == (first >> shift):
        is_mixed |= words[i] != first
        i += 1
    if is_mixed and i - begin >= _LONG_RUN:
        _sort_range(words[begin:i], scratch[begin:i], 0)
    return i


@kernel
def _sort_range(words: UInt64Array, scratch: UInt64Array, first_bit: int) -> None:
    """Sort words by their bits from the first one on: least-significant-digit radix sort. O(n) for every digit."""
    n_words = words.size
    low, high = bounds(words)
    low = (low >> np.uint64(first_bit)) << np.uint64(first_bit)
    n_bits = bit_length((high - low) >> np.uint64(first_bit))
    n_passes = (n_bits + _SORT_BITS - 1) // _SORT_BITS
    if n_passes == 0:
        return
    digit_bits = (n_bits + n_passes - 1) // n_passes
    mask = np.uint64((1 << digit_bits) - 1)
    positions = np.zeros((n_passes, 1 << digit_bits), np.int64)
    for word in words:
        rest = (word - low) >> np.uint64(first_bit)
        for turn in range(n_passes):
            positions[turn, np.int64(rest & mask)] += 1
            rest >>= np.uint64(digit_bits)
    source = words
    target = scratch
    for turn in range(n_passes):
        position = 0
        for digit in range(1 << digit_bits):
            count = positions[turn, digit]
            positions[turn, digit] = position
            position += count
        shift = np.uint64(first_bit + turn * digit_bits)
        places = positions[turn]
        for i in range(n_words):
            digit = np.int64(((source[i] - low) >> shift) & mask)
            target[places[digit]] = source[i]
            places[digit] += 1
        source, target = target, source
    if n_passes % 2 == 1:
        words[:] = scratch


@kernel
def words_to_rank(words: UInt64Array, bits_x: int, bits_y: int, bits_place: int) -> UInt64Array:
    """Words of the key, the y and the place of each point."""
    ranked = np.empty_like(words)
    mask = np.uint64((1 << bits_y) - 1)
    for i in range(words.size):
        key = words[i] >> np.uint64(bits_x + bits_y)
        ranked[i] = (((key << np.uint64(bits_y)) | (words[i] & mask)) << np.uint64(bits_place)) | np.uint64(i)
    return ranked


@kernel
def rank_words(
    ranked: UInt64Array, words: UInt64Array, bits_x: int, bits_y: int, bits_place: int, bits_rank: int
) -> int:
    """Replace y in the words of points by its rank among those of the same key; returns a bound on the ranks.

    `ranked` are the words of `words_to_rank`, in ascending order.
    """
    mask = np.uint64((1 << bits_place) - 1)
    last_key = last_code = np.uint64(0)
    rank = 0
    highest = 0
    for i in range(ranked.size):
        code = ranked[i] >> np.uint64(bits_place)
        key = code >> np.uint64(bits_y)
        if i == 0 or key != last_key:
            rank = 0
        elif code != last_code:
            rank += 1
        highest = max(highest, rank)
        last_key, last_code = key, code
        place = np.int64(ranked[i] & mask)
        words[place] = ((words[place] >> np.uint64(bits_y)) << np.uint64(bits_rank)) | np.uint64(rank)
    return highest + 1


@kernel
def _first_at_least(words: UInt64Array, word: np.uint64) -> int:
    low = 0
    high = words.size
    while low < high:
        middle = (low + high) // 2
        if words[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def count_one(left: Points, right: Points, bits_x: int, begin: int, end: int) -> int:
    """Pairs of a left row, of the points begin to end - 1, and a right row with the same key and a greater x. O(n)."""
    left_words, left_weights = left
    right_words, right_weights = right
    total = 0
    above = 0
    last_key = np.uint64(0)
    shift = np.uint64(bits_x)
    j = right_words.size
    for i in range(end - 1, begin - 1, -1):
        word = left_words[i]
        key = word >> shift
        if i == end - 1 or key != last_key:
            if i == end - 1:
                j = _first_at_least(right_words, (key + np.uint64(1)) << shift)
            while j > 0 and (right_words[j - 1] >> shift) > key:
                j -= 1
            above = 0
            last_key = key
        while j > 0 and right_words[j - 1] > word and (right_words[j - 1] >> shift) == key:
            j -= 1
            above += right_weights[j]
        total += left_weights[i] * above
    return total


@kernel
def count_differing(points: Points, bits_x: int) -> int:
    """Pairs of rows with the same key and another x: all pairs of a key minus those that agree. O(n)."""
    words, weights = points
    shift = np.uint64(bits_x)
    total = 0
    rows = 0
    for i in range(words.size):
        if i > 0 and (words[i] >> shift) != (words[i - 1] >> shift):
            total += rows * rows
            rows = 0
        rows += weights[i]
        total -= weights[i] * weights[i]
    return total + rows * rows


@kernel
def count_two(left: Points, right: Points, bits_x: int, bits_y: int, n_ranks: int, begin: int, end: int) -> int:
    """Pairs of a left row, of the points begin to end - 1, and a right row with the same key and greater x and y.

    Sweeps down x with a Fenwick tree over y, in [0, n_ranks), emptied after each key. O(n log n_ranks).
    """
    left_words, left_weights = left
    right_words, right_weights = right
    shift_x, shift_key = np.uint64(bits_y), np.uint64(bits_x + bits_y)
    mask = np.uint64((1 << bits_y) - 1)
    tree = np.zeros(n_ranks + 1, np.int64)
    total = 0
    i = end - 1
    j = _first_at_least(right_words, ((left_words[i] >> shift_key) + np.uint64(1)) << shift_key) if i >= begin else 0
    while i >= begin:
        key = left_words[i] >> shift_key
        while j > 0 and (right_words[j - 1] >> shift_key) > key:
            j -= 1
        first = j
        if i == end - 1:
            # The right rows that the points from `end` on would have brought into the tree.
            above = _first_at_least(right_words, ((left_words[i] >> shift_x) + np.uint64(1)) << shift_x)
            if first - above > n_ranks // 8:
                _fill(tree, right_words[above:first], right_weights[above:first], mask, n_ranks)
                j = above
        while i >= begin and (left_words[i] >> shift_key) == key:
            x = left_words[i] >> shift_x
            while j > 0 and (right_words[j - 1] >> shift_x) > x and (right_words[j - 1] >> shift_key) == key:
                j -= 1
                node = n_ranks - np.int64(right_words[j] & mask)
                while node <= n_ranks:
                    tree[node] += right_weights[j]
                    node += node & -node
            # Ranks are stored from the top: ranks above y are the nodes 1 .. n_ranks - 1 - y.
            node = n_ranks - 1 - np.int64(left_words[i] & mask)
            partners = 0
            while node > 0:
                partners += tree[node]
                node -= node & -node
            total += left_weights[i] * partners
            i -= 1
        if first - j > n_ranks // 8:
            tree[:] = 0
        else:
            for inserted in range(j, first):
                node = n_ranks - np.int64(right_words[inserted] & mask)
                while node <= n_ranks and tree[node] != 0:
                    tree[node] = 0
                    node += node & -node
    return total


@kernel
def find_two_words(left: UInt64Array, right: UInt64Array, bits_x: int, bits_y: int) -> int:
    """The place of a left word for which a right word has the same key and greater x and y, or -1.

    Sweeps down x with the greatest y so far. O(n).
    """
    shift_x, shift_key = np.uint64(bits_y), np.uint64(bits_x + bits_y)
    mask = np.uint64((1 << bits_y) - 1)
    last_key = greatest = np.uint64(0)
    j = right.size
    for i in range(left.size - 1, -1, -1):
        word = left[i]
        key = word >> shift_key
        if i == left.size - 1 or key != last_key:
            while j > 0 and (right[j - 1] >> shift_key) > key:
                j -= 1
            last_key = key
            greatest = np.uint64(0)
        while j > 0 and (right[j - 1] >> shift_x) > (word >> shift_x) and (right[j - 1] >> shift_key) == key:
            j -= 1
            greatest = max(greatest, right[j] & mask)
        # No y is above the greatest one if there was none yet.
        if greatest > (word & mask):
            return i
    return -1


@kernel
def _fill(tree: Int64Array, words: UInt64Array, weights: Int64Array, mask: np.uint64, n_ranks: int) -> None:
    """Put rows into an empty Fenwick tree at once. O(n + n_ranks)."""
    for j in range(words.size):
        tree[n_ranks - np.int64(words[j] & mask)] += weights[j]
    for node in range(1, n_ranks + 1):
        above = node + (node & -node)
        if above <= n_ranks:
            tree[above] += tree[node]
