"""kd-trees in flat arrays, one for each group, in linear space (Rapidash 4.2 and Table 2).

The points of a group are permuted so that each node is a run of places: node i of depth t holds the places from
i * n >> t to (i + 1) * n >> t, split at the median of the dimension whose turn it is. All leaves have one depth. A
node knows the box around its points and how many of them are switched on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from naysay.arrays import Int8Array, Int64Array
from naysay.kernels.compile import kernel
from naysay.kernels.trees.range_tree import ABOVE, INSERT, Queries, fill_box

LEAF = 8


class KdForest(NamedTuple):
    """A tree for each group. `ranks[place]` is a point by its rank in each dimension, `ids[place]` its number.

    A group has the places starts[g]..starts[g + 1] and, from nodes[g] on, its nodes in heap order from 1, the leaves
    at depths[g]. `boxes[node]` is the least and then the greatest rank in each dimension.
    """

    ranks: Int64Array
    ids: Int64Array
    on: Int8Array
    starts: Int64Array
    nodes: Int64Array
    depths: Int64Array
    counts: Int64Array
    boxes: Int64Array


@kernel
def build_kd_forest(forest: KdForest) -> None:
    """Permute the points of each group and find the boxes of its nodes. O(n log n) expected."""
    n_dimensions = forest.ranks.shape[1]
    for group in range(forest.depths.size):
        first = forest.starts[group]
        n_points = forest.starts[group + 1] - first
        depth = forest.depths[group]
        for t in range(depth):
            for i in range(1 << t):
                begin = first + ((i * n_points) >> t)
                end = first + (((i + 1) * n_points) >> t)
                middle = first + (((2 * i + 1) * n_points) >> (t + 1))
                split_at(forest.ranks, forest.ids, t % n_dimensions, begin, end, middle)
        for node in range((2 << depth) - 1, 0, -1):
            _enclose(forest, group, node, n_points, depth)


@kernel
def split_at(ranks: Int64Array, ids: Int64Array, column: int, begin: int, end: int, middle: int) -> None:
    """Permute places so that those before `middle` have lesser ranks than those from it on. Linear expected."""
    end -= 1
    while begin < end:
        pivot = ranks[(begin + end) >> 1, column]
        low = begin
        high = end
        while low <= high:
            while ranks[low, column] < pivot:
                low += 1
            while ranks[high, column] > pivot:
                high -= 1
            if low <= high:
                for k in range(ranks.shape[1]):
                    ranks[low, k], ranks[high, k] = ranks[high, k], ranks[low, k]
                ids[low], ids[high] = ids[high], ids[low]
                low += 1
                high -= 1
        if middle <= high:
            end = high
        elif middle >= low:
            begin = low
        else:
            return


@kernel
def _enclose(forest: KdForest, group: int, node: int, n_points: int, depth: int) -> None:
    n_dimensions = forest.ranks.shape[1]
    at = forest.nodes[group] + node
    for column in range(n_dimensions):
        if node >= 1 << depth:
            leaf = node - (1 << depth)
            first = forest.starts[group]
            least = n_points
            greatest = -1
            for place in range(first + ((leaf * n_points) >> depth), first + (((leaf + 1) * n_points) >> depth)):
                least = min(least, forest.ranks[place, column])
                greatest = max(greatest, forest.ranks[place, column])
        else:
            child = at + node
            least = min(forest.boxes[child, column], forest.boxes[child + 1, column])
            greatest = max(forest.boxes[child, n_dimensions + column], forest.boxes[child + 1, n_dimensions + column])
        forest.boxes[at, column] = least
        forest.boxes[at, n_dimensions + column] = greatest


@kernel
def insert_kd(forest: KdForest, group: int, place: int) -> None:
    """Switch the point at a place on, and count it in each node that holds it. O(log n)."""
    forest.on[place] = 1
    first = forest.starts[group]
    n_points = forest.starts[group + 1] - first
    depth = forest.depths[group]
    node = (1 << depth) + (((place - first + 1) << depth) - 1) // n_points
    while node > 0:
        forest.counts[forest.nodes[group] + node] += 1
        node >>= 1


@kernel
def _compare_box(boxes: Int64Array, node: int, low: Int64Array, high: Int64Array) -> int:
    """0 if a node's box is outside low <= rank < high, 2 if it is inside, else 1."""
    n_dimensions = low.size
    answer = 2
    for column in range(n_dimensions):
        least = boxes[node, column]
        greatest = boxes[node, n_dimensions + column]
        if greatest < low[column] or least >= high[column]:
            return 0
        if least < low[column] or greatest >= high[column]:
            answer = 1
    return answer


@kernel
def _is_inside(ranks: Int64Array, place: int, low: Int64Array, high: Int64Array) -> bool:
    for column in range(low.size):
        if ranks[place, column] < low[column] or ranks[place, column] >= high[column]:
            return False
    return True


@kernel
def search_kd(
    forest: KdForest, group: int, low: Int64Array, high: Int64Array, stack: Int64Array, found: Int64Array, at: int
) -> int:
    """Count the points switched on with low <= rank < high in each dimension. O(n**(1 - 1/d)).

    If `found` has rows, write the points to its second column from row `at`, and stop when full.
    """
    first = forest.starts[group]
    n_points = forest.starts[group + 1] - first
    depth = forest.depths[group]
    n_leaves = 1 << depth
    counting = found.shape[0] == 0
    n_found = 0
    stack[0] = 1
    top = 1
    while top > 0:
        top -= 1
        node = stack[top]
        here = forest.nodes[group] + node
        if forest.counts[here] == 0:
            continue
        where = _compare_box(forest.boxes, here, low, high)
        if where == 0:
            continue
        if where == 2 and counting:
            n_found += forest.counts[here]
        elif node < n_leaves:
            stack[top] = 2 * node + 1
            stack[top + 1] = 2 * node
            top += 2
        else:
            leaf = node - n_leaves
            for place in range(first + ((leaf * n_points) >> depth), first + (((leaf + 1) * n_points) >> depth)):
                if forest.on[place] == 1 and (where == 2 or _is_inside(forest.ranks, place, low, high)):
                    n_found += 1
                    if not counting:
                        found[at, 1] = forest.ids[place]
                        at += 1
                        if at == found.shape[0]:
                            return n_found
    return n_found


@kernel
def run_kd_forest(
    forest: KdForest, points: Int64Array, queries: Queries, tape: Int64Array, begin: int, found: Int64Array, most: int
) -> tuple[int, int]:
    """Run a tape from entry `begin`; returns how many pairs were found, and the entry to continue from.

    `points[i]` is the group and the place of point i. With an empty `found` pairs are only counted; otherwise they
    are written to it as (tape entry, point), and the run stops after the query that brings them to `most`, or in the
    middle of one that fills `found`. Rapidash, Algorithms 2, 5 and 6.
    """
    n_dimensions = forest.ranks.shape[1]
    low = np.empty(n_dimensions, np.int64)
    high = np.empty(n_dimensions, np.int64)
    stack = np.empty(128, np.int64)
    n_signs = 1 << (n_dimensions - queries.n_orders - queries.n_equal)
    # Typed, or the search would be compiled once more for a literal 0.
    n_found = np.int64(0)
    for at in range(begin, tape.size):
        item = tape[at] >> 2
        act = tape[at] & 3
        if act == INSERT:
            insert_kd(forest, points[item, 0], points[item, 1])
            continue
        first = n_found
        group = queries.group[item]
        n_points = forest.starts[group + 1] - forest.starts[group]
        for signs in range(n_signs):
            if fill_box(queries, item, act == ABOVE, signs, n_points, low, high):
                n_found += search_kd(forest, group, low, high, stack, found, n_found)
                if found.shape[0] > 0 and n_found >= found.shape[0]:
                    break
        for row in range(first, min(n_found, found.shape[0])):
            found[row, 0] = tape[at]
        if found.shape[0] > 0 and n_found >= most:
            return n_found, at + 1
    return n_found, tape.size
