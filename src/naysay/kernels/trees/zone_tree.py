"""A tree of zones that grows and shrinks row by row: a B+ tree whose nodes know the range of every feature below.

A row is [key, features ..., owner]; rows ascend by (key, first feature, owner), which is different for every row.
Inner nodes keep for each child the row key that it begins with (that of the first one is never used), its number of
rows, and the least and the greatest value of the key and of each feature. A search for a box skips every child that
cannot contain a partner: with one key and two features each visited child contains a partner or is on the border of the
key or of the first feature, so that listing costs O(log n) per pair and O(log n) if there is none.

A tree is a tuple of arrays, made with room to spare by the caller: rows [leaves, LEAF_ROWS, width], sizes of leaves,
children [nodes, FAN_OUT], fan_outs of nodes, begins [nodes, FAN_OUT, 3], zones [nodes, FAN_OUT, 2 * width - 1]
(least values, greatest values, number of rows), and `state`: see the names below.

What a row asks of its partners is a *box*: [key, lows of the orders, highs of the orders, values to differ from]. A
partner has that key, is between low and high in each order, and differs from each value. Boxes are a tuple: the boxes
[n, 1 + 2 * n_orders + n_differs]; `features`, the column of the tree's rows for each order, then for each value to
differ from; the number of orders; and `nulls_differ`. A null is never between low and high; it differs from a value
only if `nulls_differ`.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import NULL, Int64Array
from naysay.kernels.compile import kernel
from naysay.kernels.trees.zones import double

Tree = tuple[Int64Array, Int64Array, Int64Array, Int64Array, Int64Array, Int64Array, Int64Array]
Boxes = tuple[Int64Array, Int64Array, int, bool]

_OUT, _SOME, _ALL = 0, 1, 2

LEAF_ROWS = 32
FAN_OUT = 16
_GREATEST = np.iinfo(np.int64).max

# Places in `state`. Height counts levels of inner nodes. Free leaves and nodes form chains: -2 - next in their size.
ROOT, HEIGHT, N_LEAVES, N_NODES, N_ROWS, FREE_LEAF, FREE_NODE = 0, 1, 2, 3, 4, 5, 6
N_STATE = 7

_FILL_LEAF = 24
_FILL_NODE = 12


@kernel
def _comes_before(row: Int64Array, begins: Int64Array, node: int, place: int) -> bool:
    """Whether a row is less than what a child begins with."""
    if row[0] != begins[node, place, 0]:
        return row[0] < begins[node, place, 0]
    if row[1] != begins[node, place, 1]:
        return row[1] < begins[node, place, 1]
    return row[row.size - 1] < begins[node, place, 2]


@kernel
def _child_of(row: Int64Array, begins: Int64Array, node: int, n_children: int) -> int:
    """The last child that begins at or before the row; the first one if none does."""
    low, high = 1, n_children
    while low < high:
        middle = (low + high) // 2
        if _comes_before(row, begins, node, middle):
            high = middle
        else:
            low = middle + 1
    return low - 1


@kernel
def _place_in(row: Int64Array, rows: Int64Array, leaf: int, size: int) -> int:
    """How many rows of the leaf come before the row."""
    last = row.size - 1
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        before = rows[leaf, middle, last] < row[last]
        if rows[leaf, middle, 1] != row[1]:
            before = rows[leaf, middle, 1] < row[1]
        if rows[leaf, middle, 0] != row[0]:
            before = rows[leaf, middle, 0] < row[0]
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _set_begin(begins: Int64Array, node: int, place: int, row: Int64Array) -> None:
    begins[node, place, 0] = row[0]
    begins[node, place, 1] = row[1]
    begins[node, place, 2] = row[row.size - 1]


@kernel
def _empty_zone(zone: Int64Array) -> None:
    n_features = zone.size // 2
    for feature in range(n_features):
        zone[feature] = _GREATEST
        zone[n_features + feature] = NULL
    zone[2 * n_features] = 0


@kernel
def _widen(zone: Int64Array, row: Int64Array) -> None:
    n_features = zone.size // 2
    for feature in range(n_features):
        zone[feature] = min(zone[feature], row[feature])
        zone[n_features + feature] = max(zone[n_features + feature], row[feature])
    zone[2 * n_features] += 1


@kernel
def _measure(tree: Tree, node: int, place: int, level: int) -> None:
    """Compute the zone of a child from its current content."""
    rows, sizes, children, fan_outs, _, zones, _ = tree
    zone = zones[node, place]
    child = children[node, place]
    _empty_zone(zone)
    if level == 1:
        for at in range(sizes[child]):
            _widen(zone, rows[child, at])
        return
    n_features = zone.size // 2
    for at in range(fan_outs[child]):
        part = zones[child, at]
        for feature in range(n_features):
            zone[feature] = min(zone[feature], part[feature])
            zone[n_features + feature] = max(zone[n_features + feature], part[n_features + feature])
        zone[2 * n_features] += part[2 * n_features]


@kernel
def _allocate(sizes: Int64Array, state: Int64Array, free: int, n_used: int) -> int:
    """A leaf or node that is free, or the next one that was never used."""
    number = state[free]
    if number >= 0:
        state[free] = -2 - sizes[number]
    else:
        number = state[n_used]
        state[n_used] += 1
    sizes[number] = 0
    return number


@kernel
def _free(sizes: Int64Array, state: Int64Array, free: int, number: int) -> None:
    sizes[number] = -2 - state[free]
    state[free] = number


@kernel
def _copy(array: Int64Array, node: int, place: int, to_node: int, to_place: int) -> None:
    for k in range(array.shape[2]):
        array[to_node, to_place, k] = array[node, place, k]


@kernel
def _move_child(tree: Tree, node: int, place: int, to_node: int, to_place: int) -> None:
    children, begins, zones = tree[2], tree[4], tree[5]
    children[to_node, to_place] = children[node, place]
    _copy(begins, node, place, to_node, to_place)
    _copy(zones, node, place, to_node, to_place)


@kernel
def _split(tree: Tree, node: int, place: int, level: int) -> None:
    """Move the upper half of a full child into a new one next to it. The node has room."""
    rows, sizes, children, fan_outs, begins, _, state = tree
    for at in range(fan_outs[node], place + 1, -1):
        _move_child(tree, node, at - 1, node, at)
    fan_outs[node] += 1
    child = children[node, place]
    if level == 1:
        fresh = _allocate(sizes, state, FREE_LEAF, N_LEAVES)
        half = sizes[child] // 2
        for at in range(half, sizes[child]):
            _copy(rows, child, at, fresh, at - half)
        sizes[fresh] = sizes[child] - half
        sizes[child] = half
        _set_begin(begins, node, place + 1, rows[fresh, 0])
    else:
        fresh = _allocate(fan_outs, state, FREE_NODE, N_NODES)
        half = fan_outs[child] // 2
        for at in range(half, fan_outs[child]):
            _move_child(tree, child, at, fresh, at - half)
        fan_outs[fresh] = fan_outs[child] - half
        fan_outs[child] = half
        _copy(begins, fresh, 0, node, place + 1)
    children[node, place + 1] = fresh
    _measure(tree, node, place, level)
    _measure(tree, node, place + 1, level)


@kernel
def insert_rows(tree: Tree, new: Int64Array) -> None:
    """Insert rows [n, width]. There must be room for n more leaves and n + 16 more nodes. O(log n) per row."""
    rows, sizes, children, fan_outs, begins, zones, state = tree
    for i in range(new.shape[0]):
        row = new[i]
        node = state[ROOT]
        if fan_outs[node] == 0:
            children[node, 0] = _allocate(sizes, state, FREE_LEAF, N_LEAVES)
            _empty_zone(zones[node, 0])
            fan_outs[node] = 1
        elif fan_outs[node] == FAN_OUT:
            root = _allocate(fan_outs, state, FREE_NODE, N_NODES)
            children[root, 0] = node
            fan_outs[root] = 1
            state[ROOT] = root
            state[HEIGHT] += 1
            _split(tree, root, 0, state[HEIGHT])
            node = root
        for level in range(state[HEIGHT], 0, -1):
            place = _child_of(row, begins, node, fan_outs[node])
            child = children[node, place]
            if (sizes[child] == LEAF_ROWS) if level == 1 else (fan_outs[child] == FAN_OUT):
                _split(tree, node, place, level)
                place = _child_of(row, begins, node, fan_outs[node])
                child = children[node, place]
            _widen(zones[node, place], row)
            node = child
        place = _place_in(row, rows, node, sizes[node])
        for at in range(sizes[node], place, -1):
            _copy(rows, node, at - 1, node, at)
        for k in range(row.size):
            rows[node, place, k] = row[k]
        sizes[node] += 1
        state[N_ROWS] += 1


@kernel
def delete_rows(tree: Tree, old: Int64Array) -> int:
    """Delete rows [n, width] in ascending order, found by key, first feature and owner.

    Returns how many were not there. Leaves and nodes are freed when they are empty. O(log n) per row.
    """
    rows, sizes, children, fan_outs, begins, zones, state = tree
    # For each level the node and the child that the last row was in, and whether that child's zone must be measured
    # again: once for all rows that leave it. `waiting` says whether some zone must.
    path = np.full((64, 3), -1, np.int64)
    kept = np.empty(zones.shape[2], np.int64)
    waiting = False
    n_missing = 0
    # From the last to the first: as rows ascend, each then moves few others of its leaf.
    for i in range(old.shape[0] - 1, -1, -1):
        row = old[i]
        last = row.size - 1
        node = state[ROOT]
        if fan_outs[node] == 0:
            n_missing += 1
            continue
        for level in range(state[HEIGHT], 0, -1):
            place = _child_of(row, begins, node, fan_outs[node])
            if path[level, 0] != node or path[level, 1] != place:
                if waiting:
                    _narrow(tree, path, level, kept)
                    waiting = level < state[HEIGHT]
                path[level, 0], path[level, 1] = node, place
            node = children[node, place]
        place = _place_in(row, rows, node, sizes[node])
        if place == sizes[node] or (
            rows[node, place, 0] != row[0] or rows[node, place, 1] != row[1] or rows[node, place, last] != row[last]
        ):
            n_missing += 1
            continue
        for at in range(place, sizes[node] - 1):
            _copy(rows, node, at + 1, node, at)
        sizes[node] -= 1
        state[N_ROWS] -= 1
        for level in range(1, state[HEIGHT] + 1):
            zones[path[level, 0], path[level, 1], zones.shape[2] - 1] -= 1
        if sizes[node] == 0:
            _free_path(tree, path)
            waiting = True
        elif _bounded(row, rows, node, place, sizes[node], zones, path):
            path[1, 2] = 1
            waiting = True
    if waiting:
        _narrow(tree, path, state[HEIGHT], kept)
    return n_missing


@kernel
def _bounded(
    row: Int64Array, rows: Int64Array, leaf: int, place: int, size: int, zones: Int64Array, path: Int64Array
) -> bool:
    """Whether a row that has left its place in a leaf bounded the zone, and neither neighbour there does so too.

    No array is sliced here: a slice counts references, which keeps the next row's memory from being fetched meanwhile.
    """
    node, child = path[1, 0], path[1, 1]
    n_features = zones.shape[2] // 2
    for feature in range(n_features):
        low, high, value = zones[node, child, feature], zones[node, child, n_features + feature], row[feature]
        if low != high and value in (low, high):
            before = place > 0 and rows[leaf, place - 1, feature] == value
            if not before and not (place < size and rows[leaf, place, feature] == value):
                return True
    return False


@kernel
def _narrow(tree: Tree, path: Int64Array, top: int, kept: Int64Array) -> None:
    """Measure the zones that wait for it, up to level `top`; then those above that they bounded."""
    zones, state = tree[5], tree[6]
    for level in range(1, top + 1):
        if path[level, 2] != 1:
            continue
        path[level, 2] = 0
        zone = zones[path[level, 0], path[level, 1]]
        for k in range(zone.size):
            kept[k] = zone[k]
        _measure(tree, path[level, 0], path[level, 1], level)
        if level == state[HEIGHT]:
            continue
        above = zones[path[level + 1, 0], path[level + 1, 1]]
        for k in range(zone.size - 1):
            if kept[k] != zone[k] and kept[k] == above[k]:
                path[level + 1, 2] = 1


@kernel
def _free_path(tree: Tree, path: Int64Array) -> None:
    """After the last row has left a leaf: free it, and everything above it that is then empty."""
    _, sizes, children, fan_outs, _, _, state = tree
    _free(sizes, state, FREE_LEAF, children[path[1, 0], path[1, 1]])
    for level in range(1, state[HEIGHT] + 1):
        node, place = path[level, 0], path[level, 1]
        fan_outs[node] -= 1
        for at in range(place, fan_outs[node]):
            _move_child(tree, node, at + 1, node, at)
        path[level, 1], path[level, 2] = -1, 0
        if level == state[HEIGHT]:
            break
        if fan_outs[node] > 0:
            path[level + 1, 2] = 1
            break
        _free(fan_outs, state, FREE_NODE, node)
    while state[HEIGHT] > 1 and fan_outs[state[ROOT]] <= 1:
        root = state[ROOT]
        if fan_outs[root] == 0:
            state[HEIGHT] = 1
            return
        state[ROOT] = children[root, 0]
        state[HEIGHT] -= 1
        _free(fan_outs, state, FREE_NODE, root)


@kernel
def build_tree(tree: Tree, ordered: Int64Array) -> None:
    """Fill an empty tree with rows [n, width] in ascending order, leaving room in every leaf. O(n).

    Needs n // 24 + 1 leaves and n // 200 + 16 nodes.
    """
    rows, sizes, children, fan_outs, begins, _, state = tree
    n_rows = ordered.shape[0]
    state[N_ROWS] = n_rows
    n_below = (n_rows + _FILL_LEAF - 1) // _FILL_LEAF
    for leaf in range(n_below):
        start = leaf * n_rows // n_below
        stop = (leaf + 1) * n_rows // n_below
        for at in range(start, stop):
            for k in range(ordered.shape[1]):
                rows[leaf, at - start, k] = ordered[at, k]
        sizes[leaf] = stop - start
    state[N_LEAVES] = n_below
    state[HEIGHT] = 0
    first_below = 0
    while True:
        state[HEIGHT] += 1
        first = state[N_NODES]
        n_nodes = max((n_below + _FILL_NODE - 1) // _FILL_NODE, 1)
        for number in range(n_nodes):
            node = first + number
            start = number * n_below // n_nodes
            stop = (number + 1) * n_below // n_nodes
            fan_outs[node] = stop - start
            for place in range(stop - start):
                child = first_below + start + place
                children[node, place] = child
                if state[HEIGHT] == 1:
                    _set_begin(begins, node, place, rows[child, 0])
                else:
                    _copy(begins, child, 0, node, place)
                _measure(tree, node, place, state[HEIGHT])
        state[N_NODES] += n_nodes
        if n_nodes == 1:
            state[ROOT] = first
            return
        first_below, n_below = first, n_nodes


@kernel
def all_rows(tree: Tree) -> Int64Array:
    """All rows in ascending order. O(n)."""
    rows, sizes, children, fan_outs, _, _, state = tree
    out = np.empty((state[N_ROWS], rows.shape[2]), np.int64)
    n_out = 0
    stack = np.empty((64 * FAN_OUT, 2), np.int64)
    stack[0, 0], stack[0, 1] = state[ROOT], state[HEIGHT]
    n_stack = 1
    while n_stack > 0:
        n_stack -= 1
        node, level = stack[n_stack, 0], stack[n_stack, 1]
        if level == 0:
            for at in range(sizes[node]):
                for k in range(out.shape[1]):
                    out[n_out, k] = rows[node, at, k]
                n_out += 1
            continue
        for place in range(fan_outs[node] - 1, -1, -1):
            stack[n_stack, 0], stack[n_stack, 1] = children[node, place], level - 1
            n_stack += 1
    return out


@kernel
def _overlap(
    boxes: Int64Array,
    box: int,
    zones: Int64Array,
    node: int,
    place: int,
    features: Int64Array,
    n_orders: int,
    nulls_differ: bool,
) -> int:
    """Whether no row of a zone can be a partner, some may be, or all are. By index: views of rows take longer."""
    n_features = zones.shape[2] // 2
    key = boxes[box, 0]
    if zones[node, place, 0] > key or zones[node, place, n_features] < key:
        return _OUT
    every = zones[node, place, 0] == zones[node, place, n_features]
    for part in range(features.size):
        low, high = zones[node, place, features[part]], zones[node, place, n_features + features[part]]
        # The greatest code of an order, or the value to differ from.
        value = boxes[box, 1 + n_orders + part]
        if part < n_orders:
            least = boxes[box, 1 + part]
            if low > value or high < least:
                return _OUT
            every &= low >= least and high <= value
        else:
            if low == high and (low == value or (low == NULL and not nulls_differ)):
                return _OUT
            every &= (value < low or value > high) and (nulls_differ or low != NULL)
    return _ALL if every else _SOME


@kernel
def _first_zone(zones: Int64Array, node: int, fan_out: int, key: int) -> int:
    """The first child of a node that may have rows with a key, or one after it: rows ascend by key. O(log FAN_OUT)."""
    greatest = zones.shape[2] // 2
    low, high = 0, fan_out
    while low < high:
        middle = (low + high) // 2
        if zones[node, middle, greatest] < key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _is_partner(
    boxes: Int64Array,
    box: int,
    rows: Int64Array,
    node: int,
    place: int,
    features: Int64Array,
    n_orders: int,
    nulls_differ: bool,
) -> bool:
    if rows[node, place, 0] != boxes[box, 0]:
        return False
    for part in range(features.size):
        value = rows[node, place, features[part]]
        limit = boxes[box, 1 + n_orders + part]
        if part < n_orders:
            if value < boxes[box, 1 + part] or value > limit:
                return False
        elif value == limit or (value == NULL and not nulls_differ):
            return False
    return True


@kernel
def list_boxes(
    tree: Tree, boxes: Boxes, owners: Int64Array, stamps: Int64Array, skipped: int, limit: int
) -> tuple[Int64Array, Int64Array, bool]:
    """List pairs (place of a box, owner of a partner), at most `limit`; the flag is True if these are all.

    A row is not its own partner: owners[place] is left out, as is an owner whose stamp is `skipped`, if that is not
    negative. O(log n) per box and per pair, for one key with up to two orders.
    """
    rows, sizes, children, fan_outs, _, zones, state = tree
    asked, features, n_orders, nulls_differ = boxes
    last = rows.shape[2] - 1
    found_boxes = np.empty(1024, np.int64)
    found_owners = np.empty(1024, np.int64)
    n_found = 0
    # Node, level, and whether all rows below are partners.
    stack = np.empty((64 * FAN_OUT, 3), np.int64)
    for i in range(asked.shape[0]):
        key, own = asked[i, 0], owners[i]
        stack[0, 0], stack[0, 1], stack[0, 2] = state[ROOT], state[HEIGHT], 0
        n_stack = 1
        while n_stack > 0:
            n_stack -= 1
            node, level, every = stack[n_stack, 0], stack[n_stack, 1], stack[n_stack, 2] == 1
            if level > 0:
                for place in range(_first_zone(zones, node, fan_outs[node], key), fan_outs[node]):
                    if zones[node, place, 0] > key:
                        break
                    overlap = _ALL
                    if not every:
                        overlap = _overlap(asked, i, zones, node, place, features, n_orders, nulls_differ)
                    if overlap != _OUT:
                        stack[n_stack, 0], stack[n_stack, 1] = children[node, place], level - 1
                        stack[n_stack, 2] = overlap == _ALL
                        n_stack += 1
                continue
            # Room for a whole leaf, so that nothing needs to be checked row by row.
            if n_found + sizes[node] > found_boxes.size:
                found_boxes = double(found_boxes, limit + 2 * LEAF_ROWS)
                found_owners = double(found_owners, limit + 2 * LEAF_ROWS)
            for at in range(sizes[node]):
                owner = rows[node, at, last]
                found_boxes[n_found] = i
                found_owners[n_found] = owner
                is_found = owner != own and (skipped < 0 or stamps[owner] != skipped)
                if is_found and not every:
                    is_found = _is_partner(asked, i, rows, node, at, features, n_orders, nulls_differ)
                n_found += is_found
            if n_found > limit:
                return found_boxes[:limit].copy(), found_owners[:limit].copy(), False
    return found_boxes[:n_found].copy(), found_owners[:n_found].copy(), True


@kernel
def count_boxes(tree: Tree, boxes: Boxes) -> Int64Array:
    """For each box the number of rows in it, including its own row if that is inside.

    O(log n) per box with a key and one order or one differing value; with more, each zone that is partly inside the box
    is searched.
    """
    rows, sizes, children, fan_outs, _, zones, state = tree
    asked, features, n_orders, nulls_differ = boxes
    counts = np.zeros(asked.shape[0], np.int64)
    n_rows_at = zones.shape[2] - 1
    stack = np.empty((64 * FAN_OUT, 2), np.int64)
    for i in range(asked.shape[0]):
        key = asked[i, 0]
        stack[0, 0], stack[0, 1] = state[ROOT], state[HEIGHT]
        n_stack = 1
        while n_stack > 0:
            n_stack -= 1
            node, level = stack[n_stack, 0], stack[n_stack, 1]
            if level == 0:
                for at in range(sizes[node]):
                    counts[i] += _is_partner(asked, i, rows, node, at, features, n_orders, nulls_differ)
                continue
            for place in range(_first_zone(zones, node, fan_outs[node], key), fan_outs[node]):
                if zones[node, place, 0] > key:
                    break
                overlap = _overlap(asked, i, zones, node, place, features, n_orders, nulls_differ)
                if overlap == _ALL:
                    counts[i] += zones[node, place, n_rows_at]
                elif overlap == _SOME:
                    stack[n_stack, 0], stack[n_stack, 1] = children[node, place], level - 1
                    n_stack += 1
    return counts
