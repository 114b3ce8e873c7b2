"""Counting and finding under a key and one or two orders: rows as sorted words, equal rows as one point, on threads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from naysay.arrays import Int32Array, Int64Array, UInt64Array
from naysay.budget import in_turn_or_on_threads, threads_for
from naysay.kernels.joins.grouped import FEW_ROWS, count_two_grouped, group_rows, in_groups
from naysay.kernels.words import (
    Layout,
    Points,
    count_differing,
    count_one,
    count_two,
    count_words,
    find_two_words,
    group_buckets,
    pack_words,
    rank_words,
    scatter_words,
    sort_part,
    split_part,
    words_to_rank,
)
from naysay.plan.bind import BoundJoin

# A word is less than 2 ** 63, so that the one after it is a word, too.
_WORD_BITS = 63
_BUCKET_BITS = 11
# A part with more words is split again: its words share their first bits, as those of one large key do.
_LARGE_PART = 1 << 17
# Up to this many possible words, or this many per row, are counted in an array instead of sorted; never if the array
# would not fit into a cache, or a count into its 32 bits.
_FEW_WORDS, _WORDS_PER_ROW, _MANY_WORDS, _MAX_COUNT = 1 << 16, 4, 1 << 22, (1 << 31) - 1
# Fewer rows are not worth a thread.
_ROWS_PER_THREAD = 100_000
# y is counted as it is up to this many values, or four for each point; beyond that it is ranked.
_FEW_RANKS = 1 << 16
# Up to this many rows in the group of a row, a few rules are counted group by group; many rules in groups of any size.
_GROUP_ROWS = 256
# A large group is sorted by the values of one order, if there are at most so many of them, over all groups, per row.
_VALUES_PER_ROW = 8
# Spans of points for each thread, so that no thread waits long for the slowest.
_SPANS_PER_THREAD = 2


@dataclass(frozen=True, slots=True)
class _Ranged:
    """An order on both sides, its least code, and the range of its codes."""

    left: Int64Array
    right: Int64Array
    low: int
    n_values: int

    @property
    def n_bits(self) -> int:
        return _bits(self.n_values)


@dataclass(frozen=True, slots=True)
class PointJoin:
    """Both sides of a join as points, under a key and the orders x and y; there may be no y."""

    left: Points
    right: Points
    left_key: Int64Array
    n_keys: int
    x: _Ranged
    y: _Ranged | None
    n_threads: int

    @property
    def bits(self) -> tuple[int, int]:
        """The bits of x and of y in a word."""
        return self.x.n_bits, 0 if self.y is None else self.y.n_bits

    def count(self) -> int | None:
        """Count the pairs of rows with the same key, the right one greater in each order.

        None if it would take longer words to rank y.
        """
        n_points = len(self.left[0])
        n_spans = _SPANS_PER_THREAD * self.n_threads if self.n_threads > 1 else 1
        bounds = np.linspace(0, n_points, n_spans + 1).astype(np.int64)
        spans = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
        left, right, (bits_x, bits_y) = self.left, self.right, self.bits
        if self.y is None:
            return sum(
                in_turn_or_on_threads(spans, lambda span: int(count_one(left, right, bits_x, *span)), self.n_threads)
            )
        n_ranks = self.y.n_values
        if n_ranks > max(_FEW_RANKS, 4 * n_points):
            ranked = self._ranked()
            if ranked is None:
                return None
            left, right, bits_y, n_ranks = ranked
        return sum(
            in_turn_or_on_threads(
                spans, lambda span: int(count_two(left, right, bits_x, bits_y, n_ranks, *span)), self.n_threads
            )
        )

    def _ranked(self) -> tuple[Points, Points, int, int] | None:
        """The points with y as a rank among those of the same key, the bits of a rank, and a bound on all of them."""
        bits_x, bits_y = self.bits
        words = np.concatenate([self.left[0]] if self.left is self.right else [self.left[0], self.right[0]])
        bits_place = _bits(len(words) + 1)
        if _bits(self.n_keys) + bits_y + bits_place > _WORD_BITS:
            return None
        given = words_to_rank(words, bits_x, bits_y, bits_place)
        ranked, _ = _sorted_parts(given, np.empty_like(given), np.array([0, len(given)]), 0, self.n_threads)
        bits_rank = min(bits_place, bits_y)
        n_ranks = rank_words(ranked, words, bits_x, bits_y, bits_place, bits_rank)
        n_left = len(self.left[0])
        left = words[:n_left], self.left[1]
        return left, left if self.left is self.right else (words[n_left:], self.right[1]), bits_rank, int(n_ranks)

    def find(self) -> int | None:
        """The place of some left row with a partner, in two orders."""
        assert self.y is not None
        bits_x, bits_y = self.bits
        point = find_two_words(self.left[0], self.right[0], bits_x, bits_y)
        if point < 0:
            return None
        word = int(self.left[0][point])
        is_there = self.left_key == word >> (bits_x + bits_y)
        is_there &= self.x.left == ((word >> bits_y) & ((1 << bits_x) - 1)) + self.x.low
        is_there &= self.y.left == (word & ((1 << bits_y) - 1)) + self.y.low
        return int(np.argmax(is_there))


def join_points(bound: BoundJoin, left_key: Int64Array, right_key: Int64Array, n_keys: int) -> PointJoin | None:
    """The points of a join with one or two orders under the given key; None if a row does not fit into a word."""
    orders = _ranges(bound)
    x, y = orders[0], orders[1] if len(orders) == 2 else None
    n_bits = _bits(n_keys) + sum(order.n_bits for order in orders)
    if n_bits > _WORD_BITS:
        return None
    n_threads = threads_for(max(bound.left.n_rows, bound.right.n_rows) // _ROWS_PER_THREAD)
    low_y, bits_y = (0, 0) if y is None else (y.low, y.n_bits)
    layout = (x.low, low_y, x.n_bits, bits_y)
    left = _points(left_key, x.left, (y or x).left, layout, n_bits, n_threads)
    is_same = left_key is right_key and all(order.left is order.right for order in orders)
    right = left if is_same else _points(right_key, x.right, (y or x).right, layout, n_bits, n_threads)
    return PointJoin(left, right, left_key, n_keys, x, y, n_threads)


def count_dependency(key: Int64Array, n_keys: int, values: Int64Array, n_values: int) -> int | None:
    """Count the pairs of rows with the same key and another value, both from 0 on; None if a row fits into no word."""
    bits_x = _bits(n_values)
    n_bits = _bits(n_keys) + bits_x
    if n_bits > _WORD_BITS:
        return None
    n_threads = threads_for(key.size // _ROWS_PER_THREAD)
    return int(count_differing(_points(key, values, values, (0, 0, bits_x, 0), n_bits, n_threads), bits_x))


def count_grouped(bound: BoundJoin) -> int | None:
    """Count under a key and two orders group by group; None unless rules share the groups and that is quicker."""
    left, memo = bound.left, bound.memo
    if not memo.shares or not bound.has_same_sides or bound.n_keys > left.n_rows or left.n_rows > _MAX_COUNT:
        return None
    orders = _ranges(bound)
    if _are_few(_bits(bound.n_keys) + sum(order.n_bits for order in orders), left.n_rows):
        return None
    groups = memo.get("groups", (left.key,), partial(_groups, bound))
    if groups is None:
        return None
    places, starts, n_large = groups
    # A sort by more values leaves a tree of fewer.
    most = _VALUES_PER_ROW * left.n_rows
    x, y = orders if n_large * orders[0].n_values <= most else orders[::-1]
    if max(x.n_values, y.n_values) > (most if n_large else _MAX_COUNT) or n_large * x.n_values > most:
        return None

    def in_order_of_groups(order: _Ranged) -> Int32Array:
        # Half as long, codes are reached at random in half of the time.
        codes = memo.get("short", (order.left,), lambda: (order.left - order.low).astype(np.int32))
        return memo.get("in groups", (left.key, order.left), lambda: in_groups(codes, places))

    of_x, of_y = map(in_order_of_groups, (x, y))
    n_x, n_y = (x.n_values, y.n_values) if n_large else (0, 0)
    return int(count_two_grouped(starts, of_x, of_y, n_x, n_y))


def _groups(bound: BoundJoin) -> tuple[Int32Array, Int64Array, int] | None:
    """The rows of each key and how many keys have many rows, if rules can share them."""
    key, n_keys = bound.left.key, bound.n_keys
    sizes = np.bincount(key, minlength=n_keys)
    if not bound.memo.has_many_rules and int((sizes * sizes).sum()) > _GROUP_ROWS * key.size:
        return None
    return *group_rows(key, n_keys), int(np.count_nonzero(sizes > FEW_ROWS))


def _ranges(bound: BoundJoin) -> list[_Ranged]:
    """The orders of a join, that with the most values first."""
    orders = [
        bound.memo.get("range", (left, right), partial(_ranged, left, right))
        for left, right in zip(bound.left.order, bound.right.order, strict=True)
    ]
    return sorted(orders, key=lambda order: -order.n_values)


def _are_few(n_bits: int, n_rows: int) -> bool:
    """Whether words of so many bits are counted in an array."""
    return 1 << n_bits <= min(max(_FEW_WORDS, _WORDS_PER_ROW * n_rows), _MANY_WORDS) and n_rows <= _MAX_COUNT


def _ranged(left: Int64Array, right: Int64Array) -> _Ranged:
    arrays = (left,) if left is right else (left, right)
    low = min(int(codes.min()) for codes in arrays)
    return _Ranged(left, right, low, max(int(codes.max()) for codes in arrays) - low + 1)


def _bits(n_values: int) -> int:
    return (n_values - 1).bit_length()


def _points(key: Int64Array, x: Int64Array, y: Int64Array, layout: Layout, n_bits: int, n_threads: int) -> Points:
    """The distinct words of rows, and how often each occurs."""
    n_rows = key.size
    chunks = np.linspace(0, n_rows, n_threads + 1).astype(np.int64)
    places = list(range(n_threads))
    if _are_few(n_bits, n_rows):

        def count_chunk(place: int) -> Int32Array:
            some = slice(chunks[place], chunks[place + 1])
            return count_words(key[some], x[some], y[some], layout, 1 << n_bits)

        n_of_word: Int32Array = reduce(np.add, in_turn_or_on_threads(places, count_chunk, n_threads))
        found = np.flatnonzero(n_of_word)
        return found.view(np.uint64), n_of_word[found].astype(np.int64)
    words, scratch = np.empty((2, n_rows), np.uint64)
    shift = max(n_bits - _BUCKET_BITS, 0)

    def pack(place: int) -> Int64Array:
        return pack_words(key, x, y, layout, shift, chunks[place], chunks[place + 1], words)

    counts = np.stack(in_turn_or_on_threads(places, pack, n_threads))
    starts = np.zeros(counts.shape[1] + 1, np.int64)
    np.cumsum(counts.sum(axis=0), out=starts[1:])
    # In each bucket the words of the first chunk come first.
    positions = starts[:-1] + np.cumsum(counts, axis=0) - counts

    def scatter(place: int) -> None:
        scatter_words(words, np.uint64(0), shift, chunks[place], chunks[place + 1], positions[place], scratch)

    in_turn_or_on_threads(places, scatter, n_threads)
    bits_y = layout[3]
    return _sorted_parts(scratch, words, group_buckets(starts), bits_y, n_threads)


def _sorted_parts(words: UInt64Array, scratch: UInt64Array, starts: Int64Array, bits_y: int, n_threads: int) -> Points:
    """Sort words, of which the parts are in order, by key and x; neighbours that are equal become one."""
    weights = np.empty(words.size, np.int64)

    def sort(part: tuple[int, int]) -> list[Points]:
        begin, end = part
        if end - begin > _LARGE_PART:
            bounds = group_buckets(split_part(words, scratch, begin, end))
            if len(bounds) > 2:
                return sort_all(bounds)
        n_points = sort_part(words, scratch, weights, bits_y, begin, end)
        return [(words[begin : begin + n_points], weights[begin : begin + n_points])]

    def sort_all(bounds: Int64Array) -> list[Points]:
        parts = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
        return [points for found in in_turn_or_on_threads(parts, sort, n_threads) for points in found]

    found = sort_all(starts)
    return np.concatenate([points[0] for points in found]), np.concatenate([points[1] for points in found])
