"""Joins of rows under many orders: blocks of left rows searched in a tree over the right rows, box against box.

Rows are sorted by key and then split like a kd-tree, so that a node of the tree of zones above them is a small box in
every order. A block of left rows skips a node in which none of them has a partner, and counts a node at once if all of
its rows are partners of all of them. So the work follows the boundary between partners and others: little if a rule
holds or nearly holds, up to n ** (2 - 1 / orders) if columns are independent.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array
from naysay.kernels.compile import kernel
from naysay.kernels.sort import sorted_places
from naysay.kernels.trees.kd_tree import split_at
from naysay.kernels.trees.zones import LEAF_ROWS, Zones, build_zones

# The rows of a side in the order of its tree, [n_features, n_rows], and the zones above them.
Blocks = tuple[Int64Array, Zones]

_LESS, _INSIDE, _SPLIT = 0, 1, 2


@kernel
def build_blocks(features: Int64Array) -> tuple[Blocks, Int64Array]:
    """Rows [n_features, n_rows], the first feature the key, in the order of a tree; and their places. O(n log n)."""
    n_features, n_rows = features.shape
    order = sorted_places(features[0], features[1])
    rows = np.empty((n_rows, n_features), np.int64)
    for i in range(n_rows):
        for feature in range(n_features):
            rows[i, feature] = features[feature, order[i]]
    split_rows(rows, order)
    ordered = np.empty_like(features)
    for i in range(n_rows):
        for feature in range(n_features):
            ordered[feature, i] = rows[i, feature]
    return (ordered, build_zones(ordered)), order


@kernel
def split_rows(rows: Int64Array, places: Int64Array) -> None:
    """Permute rows, sorted by key (column 0) and first order, so that each node is a small box. O(n log n) expected.

    `places` are permuted with them. Nodes of a single key are split at the median of their features in turn; a feature
    in which a node has one value is left out.
    """
    n_rows = rows.shape[0]
    n_features = rows.shape[1] - 1
    if n_features < 2:
        return
    span = LEAF_ROWS
    while span < n_rows:
        span *= 2
    n_nodes = 1
    turns = np.zeros(1, np.int64)
    while span > LEAF_ROWS:
        below = np.zeros(2 * n_nodes, np.int64)
        for node in range(n_nodes):
            begin = node * span
            end = min(begin + span, n_rows)
            middle = begin + span // 2
            if middle >= end:
                below[2 * node] = turns[node]
                continue
            if rows[begin, 0] != rows[end - 1, 0]:
                continue
            turn = turns[node]
            for _ in range(n_features):
                if _is_spread(rows, begin, end, 1 + turn):
                    break
                turn = (turn + 1) % n_features
            split_at(rows, places, 1 + turn, begin, end, middle)
            below[2 * node] = below[2 * node + 1] = (turn + 1) % n_features
        turns = below
        n_nodes *= 2
        span //= 2


@kernel
def _is_spread(rows: Int64Array, begin: int, end: int, column: int) -> bool:
    """Whether some rows have more than one value."""
    place = begin + 1
    while place < end and rows[place, column] == rows[begin, column]:
        place += 1
    return place < end


@kernel
def _compare(left: Zones, block: int, right: Zones, node: int, n_orders: int) -> int:
    """Whether no, all or some rows below a node are partners of the rows in a block."""
    left_least, left_greatest = left
    least, greatest = right
    if greatest[0, node] < left_least[0, block] or least[0, node] > left_greatest[0, block]:
        return _LESS
    answer = _INSIDE
    if (
        left_least[0, block] != left_greatest[0, block]
        or least[0, node] != left_least[0, block]
        or greatest[0, node] != left_least[0, block]
    ):
        answer = _SPLIT
    for feature in range(1, least.shape[0]):
        if feature <= n_orders:
            if greatest[feature, node] <= left_least[feature, block]:
                return _LESS
            if least[feature, node] <= left_greatest[feature, block]:
                answer = _SPLIT
        elif (
            greatest[feature, node] >= left_least[feature, block]
            and least[feature, node] <= left_greatest[feature, block]
        ):
            if (
                least[feature, node] == greatest[feature, node]
                and left_least[feature, block] == left_greatest[feature, block]
            ):
                return _LESS
            answer = _SPLIT
    return answer


@kernel
def count_blocks(
    left: Blocks,
    right: Blocks,
    sums: Int64Array,
    n_orders: int,
    chosen: Int64Array,
    work: Int64Array,
    out: Int64Array,
    own: Int64Array,
    flag: Int64Array,
) -> int:
    """Add to `out`, by place, the partners of the left rows in the chosen blocks (leaves of the left tree).

    `sums[i]` is the weight of all right rows before place i. Adds the nodes visited and the pairs compared to work[0]
    and work[1], and stops when their sum is more than work[2]. With `own`, the partners that a row has in itself, it
    stops after a block with a row that has more. With an empty `out` it stops at a row that has any partner, and
    work[3] is the place of that row. Returns the number of blocks done.
    """
    features, left_zones = left
    right_features, zones = right
    n_left, n_right = features.shape[1], right_features.shape[1]
    first_leaf, left_first_leaf = zones[0].shape[1] // 2, left_zones[0].shape[1] // 2
    stack = np.empty(192, np.int64)
    spans = np.empty(192, np.int64)
    hits = np.empty(LEAF_ROWS, np.int64)
    any_will_do = out.size == 0
    for number in range(chosen.size):
        if flag[0] != 0 or work[0] + work[1] > work[2]:
            return number
        block = left_first_leaf + chosen[number]
        begin = chosen[number] * LEAF_ROWS
        end = min(begin + LEAF_ROWS, n_left)
        together = np.int64(0)
        stack[0] = 1
        spans[0] = first_leaf * LEAF_ROWS
        top = 1
        while top > 0:
            top -= 1
            node = stack[top]
            span = spans[top]
            work[0] += 1
            compared = _compare(left_zones, block, zones, node, n_orders)
            if compared == _LESS:
                continue
            if compared == _SPLIT and node < first_leaf:
                stack[top] = 2 * node + 1
                stack[top + 1] = 2 * node
                spans[top] = spans[top + 1] = span // 2
                top += 2
                continue
            # The places below a node: its number within its level, times the places of each node there.
            low = (node * span) % (first_leaf * LEAF_ROWS)
            high = min(low + span, n_right)
            if compared == _INSIDE:
                if any_will_do:
                    work[3] = begin
                    return number + 1
                together += sums[high] - sums[low]
                continue
            for place in range(begin, end):
                if not _may_meet(features, place, zones, node, n_orders):
                    continue
                work[1] += high - low
                n_partners = _count_leaf(features, place, right_features, low, high, n_orders, sums, hits)
                if not any_will_do:
                    out[place] += n_partners
                elif n_partners > 0:
                    work[3] = place
                    return number + 1
        if any_will_do:
            continue
        found = False
        for place in range(begin, end):
            out[place] += together
            found = found or (own.size > 0 and out[place] > own[place])
        if found:
            return number + 1
    return chosen.size


@kernel
def _may_meet(features: Int64Array, place: int, zones: Zones, node: int, n_orders: int) -> bool:
    """False if no row below a node is a partner of the left row at a place."""
    least, greatest = zones
    if features[0, place] < least[0, node] or features[0, place] > greatest[0, node]:
        return False
    for feature in range(1, features.shape[0]):
        value = features[feature, place]
        if feature <= n_orders:
            if greatest[feature, node] <= value:
                return False
        elif least[feature, node] == value and greatest[feature, node] == value:
            return False
    return True


@kernel
def _count_leaf(
    features: Int64Array,
    place: int,
    others: Int64Array,
    low: int,
    high: int,
    n_orders: int,
    sums: Int64Array,
    hits: Int64Array,
) -> int:
    """The weight of the right rows from `low` to `high` that are partners of the left row at a place.

    Without branches: which rows are partners is hard to predict, and the loops over rows become vector instructions.
    """
    # Slices from zero on: numba would guard every index that might be negative, and not use vectors then.
    partners = hits[: high - low]
    codes = others[0, low:high]
    value = features[0, place]
    for i in range(partners.size):
        partners[i] = np.int64(codes[i] == value)
    for feature in range(1, features.shape[0]):
        codes = others[feature, low:high]
        value = features[feature, place]
        if feature <= n_orders:
            for i in range(partners.size):
                partners[i] &= np.int64(codes[i] > value)
        else:
            for i in range(partners.size):
                partners[i] &= np.int64(codes[i] != value)
    before = sums[low : high + 1]
    total = np.int64(0)
    for i in range(partners.size):
        total += partners[i] * (before[i + 1] - before[i])
    return total
