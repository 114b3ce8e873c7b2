"""Counting under a key and two orders, group by group, over columns that rules share: those of a key, in its order."""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int32Array, Int64Array
from naysay.kernels.compile import kernel

# Up to this many rows in a group, comparing all with all beats sorting.
FEW_ROWS = 384
# Up to this many values of y there are counts by value and by block of values. A row changes its whole block and all
# blocks, by instructions for many counts at once: quicker than a Fenwick tree, whose steps are hard to predict.
_FEW_VALUES = 1 << 16
_BLOCK_BITS, _MORE_BLOCK_BITS, _MORE_VALUES = 6, 8, 1 << 12


@kernel
def group_rows(key: Int64Array, n_keys: int) -> tuple[Int32Array, Int64Array]:
    """The places of rows, key by key, and where each key starts, then the end of the last. O(n + n_keys)."""
    starts = np.zeros(n_keys + 1, np.int64)
    for code in key:
        starts[code + 1] += 1
    starts = np.cumsum(starts)
    positions = starts[:-1].copy()
    places = np.empty(key.size, np.int32)
    for i in range(key.size):
        places[positions[key[i]]] = i
        positions[key[i]] += 1
    return places, starts


@kernel
def in_groups(codes: Int32Array, places: Int32Array) -> Int32Array:
    """The codes at some places."""
    taken = np.empty(places.size, np.int32)
    for i in range(places.size):
        taken[i] = codes[places[i]]
    return taken


@kernel
def count_two_grouped(starts: Int64Array, x: Int32Array, y: Int32Array, n_x: int, n_y: int) -> int:
    """Pairs of rows of one group, the right one greater in x and in y, in [0, n_x) and [0, n_y).

    Groups of up to FEW_ROWS rows are compared all with all, for any x and y; others sorted by x and swept.
    """
    largest = 0
    for group in range(starts.size - 1):
        largest = max(largest, starts[group + 1] - starts[group])
    ends = np.zeros(n_x + 1, np.int64)
    # With room for a whole last block.
    tree = np.zeros(n_y + (1 << _MORE_BLOCK_BITS), np.int32)
    by_x = np.empty(largest, np.int32)
    total = 0
    for group in range(starts.size - 1):
        begin, end = starts[group], starts[group + 1]
        if end - begin <= FEW_ROWS:
            total += _compare_all(x[begin:end], y[begin:end])
        else:
            total += _sweep(x[begin:end], y[begin:end], n_y, ends, tree, by_x)
    return total


@kernel
def _compare_all(x: Int32Array, y: Int32Array) -> int:
    total = 0
    for i in range(x.size):
        own_x = x[i]
        own_y = y[i]
        # 32 bits, as the codes, and cast back each time: so one instruction compares many rows.
        above = np.int32(0)
        for j in range(x.size):
            above = np.int32(above + np.int32((x[j] > own_x) & (y[j] > own_y)))
        total += above
    return total


@kernel
def _sweep(x: Int32Array, y: Int32Array, n_y: int, ends: Int64Array, tree: Int32Array, by_x: Int32Array) -> int:
    """Sweep down x with counts by y, or a Fenwick tree of them, empty before and after."""
    ends[:] = 0
    for value in x:
        ends[value + 1] += 1
    for value in range(ends.size - 1):
        ends[value + 1] += ends[value]
    for i in range(x.size):
        by_x[ends[x[i]]] = y[i]
        ends[x[i]] += 1
    total = 0
    if n_y <= _FEW_VALUES:
        return _sweep_blocks(by_x, ends, n_y, tree)
    for value in range(ends.size - 2, -1, -1):
        begin = ends[value - 1] if value > 0 else 0
        # Ranks are stored from the top: ranks above y are the nodes 1 .. n_y - 1 - y.
        for i in range(begin, ends[value]):
            node = n_y - 1 - np.int64(by_x[i])
            while node > 0:
                total += np.int64(tree[node])
                node -= node & -node
        for i in range(begin, ends[value]):
            node = n_y - np.int64(by_x[i])
            while node <= n_y:
                tree[node] += np.int32(1)
                node += node & -node
    tree[:] = 0
    return total


@kernel
def _sweep_blocks(y: Int32Array, ends: Int64Array, n_y: int, by_value: Int32Array) -> int:
    """The same over y in order of x: counts of the rows above a value within its block, and of those above a block."""
    bits = _BLOCK_BITS if n_y <= _MORE_VALUES else _MORE_BLOCK_BITS
    size = 1 << bits
    n_blocks = (n_y + size - 1) >> bits
    by_block = np.zeros(n_blocks, np.int32)
    total = 0
    for value in range(ends.size - 2, -1, -1):
        begin = ends[value - 1] if value > 0 else 0
        for i in range(begin, ends[value]):
            total += np.int64(by_value[y[i]]) + np.int64(by_block[y[i] >> bits])
        for i in range(begin, ends[value]):
            block = np.int32(y[i] >> bits)
            place = np.int32(y[i] & (size - 1))
            of_block = by_value[block << bits : (block + 1) << bits]
            for other in range(size):
                of_block[other] = np.int32(of_block[other] + np.int32(np.int32(other) < place))
            for other in range(n_blocks):
                by_block[other] = np.int32(by_block[other] + np.int32(np.int32(other) < block))
    by_value[:] = 0
    return total
