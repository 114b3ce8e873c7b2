"""Searching a tree of zones (kernels.zone_tree) for the partners of many rows.

What a row asks of its partner is a box: [key, lows of the orders, highs of the orders, values it must differ from].
A partner has that key, lies from low to high in each order, and differs from each value. `features` names the place
in the tree's rows of each order, then of each differing value. A null never lies between low and high; it differs
from a value only where `nulls_differ`.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import NULL, Int64Array
from naysay.kernels.compile import kernel
from naysay.kernels.trees.zone_tree import FAN_OUT, HEIGHT, ROOT, Tree

LEAF_ROWS = 16


@kernel
def build_zones(features: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Least and greatest code of each feature for each node: arrays [n_features, 2 * n_leaves], node 1 the root.

    `features` is [n_features, n_rows] in the tree's order; the children of node v are 2v and 2v + 1. O(n).
    """
    n_features, n_rows = features.shape
    n_leaves = 1
    while n_leaves * LEAF_ROWS < n_rows:
        n_leaves *= 2
    least = np.full((n_features, 2 * n_leaves), np.iinfo(np.int64).max, np.int64)
    greatest = np.full((n_features, 2 * n_leaves), NULL, np.int64)
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
    """False where no row below the node is a partner of the left row with these features."""
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
    """Whether the tree's row at `place` is a partner of the left row with these features, identity aside."""
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
    rows: Int64Array,
    identities: Int64Array,
    features: Int64Array,
    feature_identities: Int64Array,
    zones: tuple[Int64Array, Int64Array],
    n_orders: int,
    limit: int,
) -> tuple[Int64Array, Int64Array, bool]:
    """List pairs of (place of a left row, place in the tree), left rows in the order given, at most `limit`.

    `rows` is [n_left, n_features]. A pair with equal identities is a row with itself and is left out. The flag is
    True where all pairs were listed.
    """
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
                    lefts = _doubled_zones(lefts, limit)
                    rights = _doubled_zones(rights, limit)
                lefts[n_found] = i
                rights[n_found] = place
                n_found += 1
    return lefts[:n_found].copy(), rights[:n_found].copy(), True


@kernel
def _doubled_zones(array: Int64Array, limit: int) -> Int64Array:
    bigger = np.empty(min(2 * array.size, limit), np.int64)
    # A loop: assigning to a slice takes numba two seconds to compile.
    for i in range(array.size):
        bigger[i] = array[i]
    return bigger


_OUT, _SOME, _ALL = 0, 1, 2


@kernel
def _overlap(box: Int64Array, zone: Int64Array, features: Int64Array, n_orders: int, nulls_differ: bool) -> int:
    """Whether no row of a zone can be a partner, some may, or all are."""
    n_features = zone.size // 2
    if zone[0] > box[0] or zone[n_features] < box[0]:
        return _OUT
    every = zone[0] == zone[n_features]
    for part in range(features.size):
        low, high = zone[features[part]], zone[n_features + features[part]]
        if part < n_orders:
            if low > box[1 + n_orders + part] or high < box[1 + part]:
                return _OUT
            every &= low >= box[1 + part] and high <= box[1 + n_orders + part]
        else:
            value = box[1 + n_orders + part]
            if low == high and (low == value or (low == NULL and not nulls_differ)):
                return _OUT
            every &= (value < low or value > high) and (nulls_differ or low != NULL)
    return _ALL if every else _SOME


@kernel
def _is_partner(box: Int64Array, row: Int64Array, features: Int64Array, n_orders: int, nulls_differ: bool) -> bool:
    if row[0] != box[0]:
        return False
    for part in range(features.size):
        value = row[features[part]]
        if part < n_orders:
            if value < box[1 + part] or value > box[1 + n_orders + part]:
                return False
        elif value == box[1 + n_orders + part] or (value == NULL and not nulls_differ):
            return False
    return True


@kernel
def list_boxes(
    tree: Tree,
    boxes: Int64Array,
    features: Int64Array,
    n_orders: int,
    nulls_differ: bool,
    owners: Int64Array,
    stamps: Int64Array,
    skipped: int,
    limit: int,
) -> tuple[Int64Array, Int64Array, bool]:
    """List pairs (place of a box, owner of a partner), at most `limit`; the flag is True where that was all.

    A row is no partner of itself: owners[place] is left out; so is an owner whose stamp is `skipped`.
    O(log n) a box and a pair, for one key with up to two orders.
    """
    rows, sizes, children, fan_outs, _, zones, state = tree
    last = rows.shape[2] - 1
    found_boxes = np.empty(1024, np.int64)
    found_owners = np.empty(1024, np.int64)
    n_found = 0
    stack = np.empty((64 * FAN_OUT, 2), np.int64)
    for i in range(boxes.shape[0]):
        box = boxes[i]
        stack[0, 0], stack[0, 1] = state[ROOT], state[HEIGHT]
        n_stack = 1
        while n_stack > 0:
            n_stack -= 1
            node, level = stack[n_stack, 0], stack[n_stack, 1]
            if level > 0:
                for place in range(fan_outs[node]):
                    if zones[node, place, 0] > box[0]:
                        break
                    if _overlap(box, zones[node, place], features, n_orders, nulls_differ) != _OUT:
                        stack[n_stack, 0], stack[n_stack, 1] = children[node, place], level - 1
                        n_stack += 1
                continue
            for at in range(sizes[node]):
                row = rows[node, at]
                if not _is_partner(box, row, features, n_orders, nulls_differ):
                    continue
                if row[last] == owners[i] or stamps[row[last]] == skipped:
                    continue
                if n_found == limit:
                    return found_boxes[:n_found].copy(), found_owners[:n_found].copy(), False
                if n_found == found_boxes.size:
                    found_boxes = _doubled(found_boxes)
                    found_owners = _doubled(found_owners)
                found_boxes[n_found] = i
                found_owners[n_found] = row[last]
                n_found += 1
    return found_boxes[:n_found].copy(), found_owners[:n_found].copy(), True


@kernel
def count_boxes(tree: Tree, boxes: Int64Array, features: Int64Array, n_orders: int, nulls_differ: bool) -> Int64Array:
    """For each box the number of rows in it, its own row included where it lies there.

    O(log n) a box with a key and one order or one differing value; with more, each zone that only some rows of lie in
    the box is looked into.
    """
    rows, sizes, children, fan_outs, _, zones, state = tree
    counts = np.zeros(boxes.shape[0], np.int64)
    n_rows_at = zones.shape[2] - 1
    stack = np.empty((64 * FAN_OUT, 2), np.int64)
    for i in range(boxes.shape[0]):
        box = boxes[i]
        stack[0, 0], stack[0, 1] = state[ROOT], state[HEIGHT]
        n_stack = 1
        while n_stack > 0:
            n_stack -= 1
            node, level = stack[n_stack, 0], stack[n_stack, 1]
            if level == 0:
                for at in range(sizes[node]):
                    counts[i] += _is_partner(box, rows[node, at], features, n_orders, nulls_differ)
                continue
            for place in range(fan_outs[node]):
                if zones[node, place, 0] > box[0]:
                    break
                overlap = _overlap(box, zones[node, place], features, n_orders, nulls_differ)
                if overlap == _ALL:
                    counts[i] += zones[node, place, n_rows_at]
                elif overlap == _SOME:
                    stack[n_stack, 0], stack[n_stack, 1] = children[node, place], level - 1
                    n_stack += 1
    return counts


@kernel
def _doubled(array: Int64Array) -> Int64Array:
    bigger = np.empty(2 * array.size, np.int64)
    bigger[: array.size] = array
    return bigger
