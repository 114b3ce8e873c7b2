"""Is there a left row and a right row that satisfy any number of comparisons? Two kd-trees, walked together.

A side is features int64[n_features, n_rows] and its rows in groups (see `build_tree`); a pair belongs to groups of
the same number. Feature f of a pair holds by kinds[f]: LESS (left < right), AT_MOST (left <= right) or DIFFERS
(left != right). Pairs of two nodes are skipped if no pair below them can hold, and end the search if all do.
Linear memory; for few features and random data about n ** (1 - 1 / n_features) node pairs.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array
from naysay.kernels.compile import kernel

# Nodes, least and greatest codes, roots: see `build_tree`.
KdTree = tuple[Int64Array, Int64Array, Int64Array, Int64Array]
# Of a pair's left side and of its right side.
Both = tuple[Int64Array, Int64Array]

LESS, AT_MOST, DIFFERS = 0, 1, 2
_LEAF_ROWS = 16
# What a node is: first and last row in the order of the tree, left and right child (-1 for a leaf).
_START, _STOP, _LEFT, _RIGHT = 0, 1, 2, 3


@kernel
def build_tree(features: Int64Array, order: Int64Array, starts: Int64Array) -> KdTree:
    """Nodes int64[n, 4], their least and greatest codes int64[n, n_features] each, and the root of each group.

    Group g is order[starts[g]:starts[g + 1]]; rows are moved within their group. An empty group has root -1. Each
    node is split at the median of the feature in which it is widest, relative to that feature's range.
    """
    n_features = features.shape[0]
    n_groups = starts.size - 1
    capacity = 4 * (order.size // _LEAF_ROWS + 1) + 2 * n_groups + 2
    nodes = np.full((capacity, 4), -1, np.int64)
    least = np.zeros((capacity, n_features), np.int64)
    greatest = np.zeros((capacity, n_features), np.int64)
    roots = np.full(n_groups, -1, np.int64)
    ranges = np.ones(n_features, np.int64)
    for f in range(n_features):
        if features.shape[1]:
            ranges[f] = features[f].max() - features[f].min() + 1
    n_nodes = 0
    for group in range(n_groups):
        if starts[group] == starts[group + 1]:
            continue
        roots[group] = n_nodes
        nodes[n_nodes, _START], nodes[n_nodes, _STOP] = starts[group], starts[group + 1]
        node = n_nodes
        n_nodes += 1
        while node < n_nodes:
            start, stop = nodes[node, _START], nodes[node, _STOP]
            widest = _measure(features, order[start:stop], node, least, greatest, ranges)
            if stop - start > _LEAF_ROWS and widest >= 0:
                middle = (start + stop) >> 1
                _split(features, order, start, stop, middle, widest)
                nodes[node, _LEFT], nodes[node, _RIGHT] = n_nodes, n_nodes + 1
                nodes[n_nodes, _START], nodes[n_nodes, _STOP] = start, middle
                nodes[n_nodes + 1, _START], nodes[n_nodes + 1, _STOP] = middle, stop
                n_nodes += 2
            node += 1
    return nodes[:n_nodes].copy(), least[:n_nodes].copy(), greatest[:n_nodes].copy(), roots


@kernel
def _measure(
    features: Int64Array, places: Int64Array, node: int, least: Int64Array, greatest: Int64Array, ranges: Int64Array
) -> int:
    """Write the bounds of a node; returns the feature in which it is widest, -1 if it is a point."""
    widest = -1
    width = 0.0
    for f in range(features.shape[0]):
        low = high = features[f, places[0]]
        for place in places:
            low = min(low, features[f, place])
            high = max(high, features[f, place])
        least[node, f], greatest[node, f] = low, high
        if (high - low) / ranges[f] > width:
            width = (high - low) / ranges[f]
            widest = f
    return widest


@kernel
def _split(features: Int64Array, order: Int64Array, start: int, stop: int, middle: int, feature: int) -> None:
    """Move rows so that those before `middle` have at most the codes of those from it on: quickselect."""
    while stop - start > 1:
        pivot = features[feature, order[(start + stop) >> 1]]
        i = start
        j = stop - 1
        while i <= j:
            while features[feature, order[i]] < pivot:
                i += 1
            while features[feature, order[j]] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            stop = j + 1
        elif middle >= i:
            start = i
        else:
            return


@kernel
def _prospect(
    low: Int64Array, high: Int64Array, other_low: Int64Array, other_high: Int64Array, kinds: Int64Array
) -> int:
    """0 if no pair of two nodes with these bounds holds, 2 if all do, else 1."""
    certain = 2
    for f in range(kinds.size):
        if kinds[f] == LESS:
            can, must = low[f] < other_high[f], high[f] < other_low[f]
        elif kinds[f] == AT_MOST:
            can, must = low[f] <= other_high[f], high[f] <= other_low[f]
        else:
            apart = high[f] < other_low[f] or low[f] > other_high[f]
            one = low[f] == high[f] and other_low[f] == other_high[f]
            can, must = apart or not (one and low[f] == other_low[f]), apart
        if not can:
            return 0
        if not must:
            certain = 1
    return certain


@kernel
def _holds(left: Int64Array, t: int, right: Int64Array, s: int, kinds: Int64Array) -> bool:
    for f in range(kinds.size):
        if kinds[f] == LESS:
            if not left[f, t] < right[f, s]:
                return False
        elif kinds[f] == AT_MOST:
            if not left[f, t] <= right[f, s]:
                return False
        elif left[f, t] == right[f, s]:
            return False
    return True


@kernel
def find_pair(
    features: Both,
    orders: Both,
    identities: Both,
    left_tree: KdTree,
    right_tree: KdTree,
    kinds: Int64Array,
    budget: int,
) -> tuple[int, int]:
    """A pair (left row, right row) of one group for which every feature holds, and whose identities differ.

    Of each of features, orders and identities the left side comes first; trees are from `build_tree`. (-1, -1) if there
    is no such pair, (-2, -2) if `budget` pairs of nodes and rows were compared before that was known.
    """
    left_nodes, low, high, left_roots = left_tree
    right_nodes, other_low, other_high, right_roots = right_tree
    stack = np.empty((256, 2), np.int64)
    for group in range(min(left_roots.size, right_roots.size)):
        if left_roots[group] < 0 or right_roots[group] < 0:
            continue
        stack[0, 0], stack[0, 1] = left_roots[group], right_roots[group]
        n_stack = 1
        while n_stack > 0:
            n_stack -= 1
            left, right = stack[n_stack, 0], stack[n_stack, 1]
            budget -= 1
            if budget < 0:
                return -2, -2
            prospect = _prospect(low[left], high[left], other_low[right], other_high[right], kinds)
            if prospect == 0:
                continue
            is_leaf = left_nodes[left, _LEFT] < 0
            if prospect == 2 or (is_leaf and right_nodes[right, _LEFT] < 0):
                t, s = _search_leaves(features, orders, identities, left_nodes[left], right_nodes[right], kinds)
                if t >= 0:
                    return t, s
                budget -= _LEAF_ROWS
                continue
            # Open the larger of the two.
            size = left_nodes[left, _STOP] - left_nodes[left, _START]
            other_size = right_nodes[right, _STOP] - right_nodes[right, _START]
            open_left = not is_leaf and (right_nodes[right, _LEFT] < 0 or size >= other_size)
            for child in range(2):
                stack[n_stack, 0] = left_nodes[left, _LEFT + child] if open_left else left
                stack[n_stack, 1] = right if open_left else right_nodes[right, _LEFT + child]
                n_stack += 1
    return -1, -1


@kernel
def _search_leaves(
    features: Both, orders: Both, identities: Both, left: Int64Array, right: Int64Array, kinds: Int64Array
) -> tuple[int, int]:
    for i in range(left[_START], left[_STOP]):
        t = orders[0][i]
        for j in range(right[_START], right[_STOP]):
            s = orders[1][j]
            if identities[0][t] != identities[1][s] and _holds(features[0], t, features[1], s, kinds):
                return t, s
    return -1, -1
