"""Searching a tree of zones (kernels.zone_tree) for the partners of many rows.

What a row asks of its partner is a box: [key, lows of the orders, highs of the orders, values it must differ from].
A partner has that key, lies from low to high in each order, and differs from each value. `features` names the place
in the tree's rows of each order, then of each differing value. A null never lies between low and high; it differs
from a value only where `nulls_differ`.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array
from naysay.kernels.compile import kernel
from naysay.kernels.trees.zone_tree import FAN_OUT, HEIGHT, NULL, ROOT, Tree

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
