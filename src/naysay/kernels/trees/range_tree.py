"""Orthogonal range trees in flat arrays, one for each group (Rapidash 4.2 and Table 2).

A tree over d dimensions of 2**height points is a *block*: the sorted ranks of its points in its first dimension, then,
if d > 1, for each level from 0 to the height and each run of 2**level sorted points a block over the other
dimensions. A block of one dimension is a binary search tree: its counts are a Fenwick tree of the points switched on.
In blocks of more dimensions the first count is how many are. Points that fill up a group to a power of two have the
same rank in all dimensions and are never switched on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from naysay.arrays import Int32Array, Int64Array
from naysay.kernels.compile import kernel

BYTES_OF_ENTRY = 8


INSERT = 0
BELOW = 1
ABOVE = 2


class Queries(NamedTuple):
    """For each query and dimension, how many points of its group lie below it, and how many do not lie above it.

    The first `n_orders` dimensions are inequalities, all facing one way; the last `n_equal` are equalities, and those
    between are disequalities.
    """

    group: Int64Array
    below: Int64Array
    upto: Int64Array
    n_orders: int
    n_equal: int


class TreeLayout(NamedTuple):
    """Entries of a block by dimensions and height, and where in it the blocks of each level start."""

    sizes: Int64Array
    levels: Int64Array


class RangeForest(NamedTuple):
    """A tree for each group. Inside its group a point is named by its rank in the first dimension.

    `rank_of[d, slots[g] + name]` is its rank in dimension d, `name_of` the inverse, `ids[slots[g] + name]` its number.
    """

    ranks: Int32Array
    counts: Int32Array
    rank_of: Int32Array
    name_of: Int32Array
    ids: Int64Array
    n_points: Int64Array
    slots: Int64Array
    roots: Int64Array
    heights: Int64Array
    sizes: Int64Array
    levels: Int64Array


def lay_out(n_dimensions: int, height: int) -> TreeLayout:
    """Lay out blocks of up to n_dimensions and up to a height: n * log(n)**(d - 1) entries."""
    sizes = np.zeros((n_dimensions + 1, height + 1), np.int64)
    levels = np.zeros((n_dimensions + 1, height + 1, height + 2), np.int64)
    for d in range(1, n_dimensions + 1):
        for h in range(height + 1):
            at = 1 << h
            for level in range(h + 1 if d > 1 else 0):
                levels[d, h, level] = at
                at += int(sizes[d - 1, level]) << (h - level)
            sizes[d, h] = at
    return TreeLayout(sizes, levels)


def entries(n_dimensions: int, height: int) -> int:
    """Count the entries of one block: the sum over e < d of 2**h * C(h + e, e), in whole numbers of any size."""
    total, binomial = 0, 1
    for extra in range(n_dimensions):
        total += binomial
        binomial = binomial * (height + extra + 1) // (extra + 1)
    return total << height


@kernel
def build_range_forest(forest: RangeForest) -> None:
    """Write the sorted ranks of all blocks. Linear in their entries: each run is merged from its halves."""
    n_dimensions = forest.rank_of.shape[0]
    frames = np.zeros((n_dimensions + 1, 4), np.int64)
    for group in range(forest.roots.size):
        root = forest.roots[group]
        for rank in range(1 << forest.heights[group]):
            forest.ranks[root + rank] = rank
        depth = np.int64(0)
        _set_frame(frames, depth, root, forest.heights[group])
        while depth >= 0:
            start, height, level, run = frames[depth, 0], frames[depth, 1], frames[depth, 2], frames[depth, 3]
            left = n_dimensions - depth
            if left == 1 or level > height:
                depth -= 1
                continue
            size = forest.sizes[left - 1, level]
            child = start + forest.levels[left, height, level] + run * size
            if level == 0:
                slot = forest.slots[group]
                name = forest.name_of[depth, slot + forest.ranks[start + run]]
                forest.ranks[child] = forest.rank_of[depth + 1, slot + name]
            else:
                half = forest.sizes[left - 1, level - 1]
                first = start + forest.levels[left, height, level - 1] + 2 * run * half
                _merge_runs(forest.ranks, first, first + half, child, 1 << (level - 1))
            last = run + 1 == 1 << (height - level)
            frames[depth, 2] = level + 1 if last else level
            frames[depth, 3] = 0 if last else run + 1
            depth += 1
            _set_frame(frames, depth, child, level)


@kernel
def _set_frame(frames: Int64Array, depth: int, start: int, height: int) -> None:
    """Begin with the first run of the lowest level of a block."""
    frames[depth, 0], frames[depth, 1] = start, height
    frames[depth, 2], frames[depth, 3] = 0, 0


@kernel
def _merge_runs(ranks: Int32Array, left: int, right: int, to: int, size: int) -> None:
    """Merge two sorted runs of one size into `to`. Linear."""
    left_end = left + size
    right_end = right + size
    for at in range(to, to + 2 * size):
        if right == right_end or (left < left_end and ranks[left] < ranks[right]):
            ranks[at] = ranks[left]
            left += 1
        else:
            ranks[at] = ranks[right]
            right += 1


@kernel
def _first_at_least(ranks: Int32Array, start: int, size: int, bound: int) -> int:
    if ranks[start] >= bound:
        return 0
    low = 1
    high = size
    while low < high:
        middle = (low + high) >> 1
        if ranks[start + middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _count_before(counts: Int32Array, start: int, end: int) -> int:
    total = 0
    while end > 0:
        total += counts[start + end - 1]
        end &= end - 1
    return total


@kernel
def _list_on(
    counts: Int32Array, start: int, size: int, begin: int, end: int, walk: Int64Array, found: Int64Array, at: int
) -> int:
    """Write the places in begin..end that are switched on to `found`, from row `at` until it is full; the next row.

    A Fenwick tree of a power of two is a binary tree: the right half of a node has what its left half lacks.
    """
    # Each node by its end, its size and its count.
    walk[0, 0], walk[0, 1], walk[0, 2] = size, size, counts[start + size - 1]
    top = 1
    while top > 0:
        top -= 1
        last, width, n_on = walk[top, 0], walk[top, 1], walk[top, 2]
        if n_on == 0 or last <= begin or last - width >= end:
            continue
        if n_on == width:
            for place in range(max(begin, last - width), min(end, last)):
                if at == found.shape[0]:
                    return at
                found[at, 1] = place
                at += 1
            continue
        half = width >> 1
        in_left = np.int64(counts[start + last - half - 1])
        walk[top, 0], walk[top, 1], walk[top, 2] = last, half, n_on - in_left
        walk[top + 1, 0], walk[top + 1, 1], walk[top + 1, 2] = last - half, half, in_left
        top += 2
    return at


@kernel
def _push(stack: Int64Array, top: int, column: int, start: int, height: int) -> int:
    """Put a block on a stack: its first dimension, its start and its height; returns the new top."""
    stack[top, 0], stack[top, 1], stack[top, 2] = column, start, height
    return top + 1


@kernel
def insert_range(forest: RangeForest, group: int, name: int, stack: Int64Array) -> None:
    """Switch a point on in each block that holds it. O(log(n)**d)."""
    n_dimensions = forest.rank_of.shape[0]
    top = _push(stack, np.int64(0), np.int64(0), forest.roots[group], forest.heights[group])
    while top > 0:
        top -= 1
        column, start, height = stack[top, 0], stack[top, 1], stack[top, 2]
        size = 1 << height
        place = name
        if column > 0:
            rank = np.int64(forest.rank_of[column, forest.slots[group] + name])
            place = _first_at_least(forest.ranks, start, size, rank)
        left = n_dimensions - column
        if left == 1:
            place += 1
            while place <= size:
                forest.counts[start + place - 1] += 1
                place += place & -place
            continue
        forest.counts[start] += 1
        for level in range(height + 1):
            run = (place >> level) * forest.sizes[left - 1, level]
            top = _push(stack, top, column + 1, start + forest.levels[left, height, level] + run, level)


@kernel
def _push_runs(forest: RangeForest, left: int, stack: Int64Array, top: int, begin: int, end: int) -> int:
    """Put the fewest blocks that cover the sorted points begin..end in place of the block on top of the stack."""
    column, start, height = stack[top, 0], stack[top, 1], stack[top, 2]
    level = np.int64(0)
    while begin < end:
        at = start + forest.levels[left, height, level]
        size = forest.sizes[left - 1, level]
        if begin & 1:
            top = _push(stack, top, column + 1, at + begin * size, level)
            begin += 1
        if end & 1:
            end -= 1
            top = _push(stack, top, column + 1, at + end * size, level)
        begin >>= 1
        end >>= 1
        level += 1
    return top


@kernel
def search_range(
    forest: RangeForest, group: int, low: Int64Array, high: Int64Array, stack: Int64Array, found: Int64Array, at: int
) -> int:
    """Count the points switched on with low <= rank < high in each dimension. O(log(n)**d).

    If `found` has rows, write the points to its second column from row `at`, and stop when full: k points of one block
    of n take O(k log(n / k)).
    """
    n_dimensions = forest.rank_of.shape[0]
    walk = np.empty((64, 3), np.int64)
    n_found = 0
    top = _push(stack, np.int64(0), np.int64(0), forest.roots[group], forest.heights[group])
    while top > 0:
        top -= 1
        column, start, height = stack[top, 0], stack[top, 1], stack[top, 2]
        size = 1 << height
        left = n_dimensions - column
        if forest.counts[start + size - 1 if left == 1 else start] == 0:
            continue
        begin = _first_at_least(forest.ranks, start, size, low[column])
        end = size
        if high[column] < forest.n_points[group]:
            end = _first_at_least(forest.ranks, start, size, high[column])
        if left > 1:
            top = _push_runs(forest, left, stack, top, begin, end)
            continue
        before = _count_before(forest.counts, start, begin)
        inside = _count_before(forest.counts, start, end) - before
        n_found += inside
        if found.shape[0] == 0:
            continue
        stop = _list_on(forest.counts, start, size, begin, end, walk, found, at)
        slot = forest.slots[group]
        for row in range(at, stop):
            name = forest.name_of[column, slot + forest.ranks[start + found[row, 1]]]
            found[row, 1] = forest.ids[slot + name]
        at = stop
        if at == found.shape[0]:
            return n_found
    return n_found


@kernel
def run_range_forest(
    forest: RangeForest,
    points: Int64Array,
    queries: Queries,
    tape: Int64Array,
    begin: int,
    found: Int64Array,
    most: int,
) -> tuple[int, int]:
    """Run a tape from entry `begin`; returns how many pairs were found, and the entry to continue from.

    `points[i]` is the group and the name there of point i. With an empty `found` pairs are only counted; otherwise
    they are written to it as (tape entry, point), and the run stops after the query that brings them to `most`, or in
    the middle of one that fills `found`. Rapidash, Algorithms 2, 5 and 6.
    """
    n_dimensions = forest.rank_of.shape[0]
    low = np.empty(n_dimensions, np.int64)
    high = np.empty(n_dimensions, np.int64)
    stack = np.empty((64 * n_dimensions + 64, 3), np.int64)
    n_signs = 1 << (n_dimensions - queries.n_orders - queries.n_equal)
    # Typed, or the search would be compiled once more for a literal 0.
    n_found = np.int64(0)
    for at in range(begin, tape.size):
        item = tape[at] >> 2
        act = tape[at] & 3
        if act == INSERT:
            insert_range(forest, points[item, 0], points[item, 1], stack)
            continue
        first = n_found
        group = queries.group[item]
        for signs in range(n_signs):
            if fill_box(queries, item, act == ABOVE, signs, forest.n_points[group], low, high):
                n_found += search_range(forest, group, low, high, stack, found, n_found)
                if found.shape[0] > 0 and n_found >= found.shape[0]:
                    break
        for row in range(first, min(n_found, found.shape[0])):
            found[row, 0] = tape[at]
        if found.shape[0] > 0 and n_found >= most:
            return n_found, at + 1
    return n_found, tape.size


@kernel
def rank_queries(
    values: Int64Array,
    starts: Int64Array,
    order: Int64Array,
    groups: Int64Array,
    queries: Int64Array,
    column: int,
    below: Int64Array,
    upto: Int64Array,
) -> None:
    """Write to one column how many values of a query's group are less than it, and how many are not greater.

    `values[starts[g]:starts[g + 1]]` ascend for each group g, and `order` sorts the queries by (group, query): one
    merge, O(values + queries).
    """
    group = -1
    less = 0
    not_greater = 0
    for query in order:
        if groups[query] != group:
            group = groups[query]
            less = starts[group]
            not_greater = less
        end = starts[group + 1]
        while less < end and values[less] < queries[query]:
            less += 1
        not_greater = max(less, not_greater)
        while not_greater < end and values[not_greater] == queries[query]:
            not_greater += 1
        below[query, column] = less - starts[group]
        upto[query, column] = not_greater - starts[group]


@kernel
def interleave(order: Int64Array, slots: Int64Array) -> Int64Array:
    """Make the tape that inserts points in `order` and asks each query BELOW after its first `slots[query]` points.

    O(points + queries).
    """
    n_points = order.size
    ends = np.zeros(n_points + 1, np.int64)
    for slot in slots:
        ends[slot] += 1
    for slot in range(1, n_points + 1):
        ends[slot] += ends[slot - 1] + 1
    tape = np.empty(n_points + slots.size, np.int64)
    for query in range(slots.size - 1, -1, -1):
        slot = slots[query]
        ends[slot] -= 1
        tape[ends[slot]] = 4 * query + BELOW
    # Each end has come down to the first query of its slot, just after the point that the slot waits for.
    for slot in range(1, n_points + 1):
        tape[ends[slot] - 1] = 4 * order[slot - 1] + INSERT
    return tape


@kernel
def fill_box(
    queries: Queries, query: int, above: bool, signs: int, n_points: int, low: Int64Array, high: Int64Array
) -> bool:
    """Write the box low <= rank < high that a query searches; false if it is empty.

    Inequalities look at the points above the query, or below it; bit i of `signs` says the same for disequality i,
    so that the boxes of all `signs` cover each point that differs exactly once. Rapidash, Algorithm 3 and 4.5.
    """
    first_equal = low.size - queries.n_equal
    for column in range(low.size):
        up = above
        if column >= queries.n_orders:
            up = (signs >> (column - queries.n_orders)) & 1 == 1
        if column >= first_equal:
            low[column], high[column] = queries.below[query, column], queries.upto[query, column]
        else:
            low[column] = queries.upto[query, column] if up else 0
            high[column] = n_points if up else queries.below[query, column]
        if low[column] >= high[column]:
            return False
    return True
