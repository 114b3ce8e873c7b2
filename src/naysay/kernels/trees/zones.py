"""A static tree over rows whose nodes know the range of every feature below: zones.

A row is [key, orders ..., differs ...]. A right row is a partner of a left row if it has the same key, a greater code
in each order and another code in each of the differs.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array
from naysay.kernels.compile import kernel

# The rows of a side, and which row of the table each of them is.
Rows = tuple[Int64Array, Int64Array]
# Least and greatest code by feature and node.
Zones = tuple[Int64Array, Int64Array]

LEAF_ROWS = 16


@kernel
def build_zones(features: Int64Array) -> Zones:
    """Least and greatest code of each feature for each node: arrays [n_features, 2 * n_leaves], node 1 the root.

    `features` is [n_features, n_rows] in the tree's order; the children of node v are 2v and 2v + 1. O(n).
    """
    n_features, n_rows = features.shape
    n_leaves = 1
    while n_leaves * LEAF_ROWS < n_rows:
        n_leaves *= 2
    least = np.full((n_features, 2 * n_leaves), np.iinfo(np.int64).max, np.int64)
    greatest = np.full((n_features, 2 * n_leaves), np.iinfo(np.int64).min, np.int64)
    for feature in range(n_features):
        for row in range(n_rows):
            node = n_leaves + row // LEAF_ROWS
            least[feature, node] = min(least[feature, node], features[feature, row])
            greatest[feature, node] = max(greatest[feature, node], features[feature, row])
        for node in range(n_leaves - 1, 0, -1):
            least[feature, node] = min(least[feature, 2 * node], least[feature, 2 * node + 1])
            greatest[feature, node] = max(greatest[feature, 2 * node], greatest[feature, 2 * node + 1])
    return least, greatest


@kernel
def may_hold(row: Int64Array, least: Int64Array, greatest: Int64Array, node: int, n_orders: int) -> bool:
    """False if no row below the node is a partner of the left row with these features."""
    if greatest[0, node] < row[0] or least[0, node] > row[0]:
        return False
    for feature in range(1, row.size):
        if feature <= n_orders:
            if greatest[feature, node] <= row[feature]:
                return False
        elif least[feature, node] == row[feature] and greatest[feature, node] == row[feature]:
            return False
    return True


@kernel
def holds(row: Int64Array, features: Int64Array, place: int, n_orders: int) -> bool:
    """Whether the tree's row at `place` is a partner of the left row with these features, unless it is the same row."""
    if features[0, place] != row[0]:
        return False
    for feature in range(1, row.size):
        if feature <= n_orders:
            if features[feature, place] <= row[feature]:
                return False
        elif features[feature, place] == row[feature]:
            return False
    return True


@kernel
def list_partners(
    left: Rows, right: Rows, zones: Zones, n_orders: int, limit: int
) -> tuple[Int64Array, Int64Array, bool]:
    """List pairs of (place of a left row, place in the tree), left rows in the order given, at most `limit`.

    The left rows are [n_left, n_features], the right ones [n_features, n_right] in the tree's order, each with the
    identities of the rows. A pair with equal identities is a row with itself and is left out. The flag is
    True if all pairs were listed.
    """
    rows, identities = left
    features, feature_identities = right
    least, greatest = zones
    n_leaves = least.shape[1] // 2
    n_rows = features.shape[1]
    lefts = np.empty(min(limit, 1024), np.int64)
    rights = np.empty(min(limit, 1024), np.int64)
    n_found = 0
    stack = np.empty(128, np.int64)
    for i in range(rows.shape[0]):
        row = rows[i]
        stack[0] = 1
        n_stack = 1
        while n_stack > 0:
            n_stack -= 1
            node = stack[n_stack]
            if not may_hold(row, least, greatest, node, n_orders):
                continue
            if node < n_leaves:
                stack[n_stack] = 2 * node + 1
                stack[n_stack + 1] = 2 * node
                n_stack += 2
                continue
            start = (node - n_leaves) * LEAF_ROWS
            for place in range(start, min(start + LEAF_ROWS, n_rows)):
                if feature_identities[place] == identities[i] or not holds(row, features, place, n_orders):
                    continue
                if n_found == limit:
                    return lefts[:n_found].copy(), rights[:n_found].copy(), False
                if n_found == lefts.size:
                    lefts = double(lefts, limit)
                    rights = double(rights, limit)
                lefts[n_found] = i
                rights[n_found] = place
                n_found += 1
    return lefts[:n_found].copy(), rights[:n_found].copy(), True


@kernel
def double(array: Int64Array, limit: int) -> Int64Array:
    """The same values in an array twice as long, but at most `limit`."""
    bigger = np.empty(min(2 * array.size, limit), np.int64)
    # A loop: assigning to a slice takes numba two seconds to compile.
    for i in range(array.size):
        bigger[i] = array[i]
    return bigger
