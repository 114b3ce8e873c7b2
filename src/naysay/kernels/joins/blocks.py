"""A block of right rows as sets of bits: up to 4,096 rows in 64 words, compared with one left row at a time.

A disequality clears the bits of the right rows that agree, an order those that do not stand behind, so that a predicate
costs one operation on a word for 64 pairs.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int32Array, Int64Array, UInt64Array
from naysay.kernels.bits import popcount
from naysay.kernels.compile import kernel
from naysay.kernels.sort import sorted_places

BLOCK_ROWS = 4096
_N_WORDS = BLOCK_ROWS // 64
# The bits of a value that so few rows of a block have are cleared one by one; others have words of their own.
_FEW = 6
_MAX_SETS = BLOCK_ROWS // (_FEW + 1) + 1
# From every so many rows in ascending order there is a checkpoint: the set of all rows from there on.
_STEP = 32
_N_STEPS = BLOCK_ROWS // _STEP + 1

# planes: the rows' weights, bit by bit. codes, sorted, behind: for each order its codes in ascending order, the rows in
# that order, and the checkpoints. starts, slots: for each value of each differs, at
# starts[differs] + value, 0 or where its rows are: 1 + 2 * row for the last of a chain, 2 + 2 * set for a set. before:
# the chains. sets: the sets. alive: room for an answer.
Block = tuple[
    UInt64Array, Int64Array, Int64Array, UInt64Array, Int64Array, Int32Array, Int32Array, UInt64Array, UInt64Array
]


@kernel
def empty_block(n_orders: int, ranges: Int64Array, weights: Int64Array) -> Block:
    """Room for a block. The codes of the d-th differs lie in [0, ranges[d]). O(sum of the ranges)."""
    starts = np.zeros(ranges.size + 1, np.int64)
    for which in range(ranges.size):
        starts[which + 1] = starts[which] + ranges[which]
    heaviest = 1
    for weight in weights:
        heaviest = max(heaviest, weight)
    n_planes = 1
    while heaviest >> n_planes > 0:
        n_planes += 1
    return (
        np.empty((n_planes, _N_WORDS), np.uint64),
        np.empty((n_orders, BLOCK_ROWS), np.int64),
        np.empty((n_orders, BLOCK_ROWS), np.int64),
        np.empty((n_orders, _N_STEPS, _N_WORDS), np.uint64),
        starts,
        np.zeros(starts[ranges.size], np.int32),
        np.empty((ranges.size, BLOCK_ROWS), np.int32),
        np.empty((ranges.size * _MAX_SETS, _N_WORDS), np.uint64),
        np.empty(_N_WORDS, np.uint64),
    )


@kernel
def fill_block(block: Block, places: Int64Array, features: Int64Array, weights: Int64Array, n_orders: int) -> None:
    """Put the rows at some places, at most BLOCK_ROWS, into a block that is empty. O(rows * features)."""
    planes, codes, sorted_rows, behind, starts, slots, before, sets, _ = block
    _fill_planes(planes, places, weights)
    for order in range(n_orders):
        _fill_order(codes[order], sorted_rows[order], behind[order], places, features, order)
    n_sets = 0
    for which in range(starts.size - 1):
        n_sets = _fill_sets(
            slots[starts[which] : starts[which + 1]], before[which], sets, n_sets, places, features, n_orders + which
        )


@kernel
def clear_block(block: Block, places: Int64Array, features: Int64Array, n_orders: int) -> None:
    """Make the block empty again of the rows at these places. O(rows * differs)."""
    starts, slots = block[4], block[5]
    for place in places:
        for which in range(starts.size - 1):
            slots[starts[which] + features[place, n_orders + which]] = 0


@kernel
def match_block(block: Block, n_rows: int, row: Int64Array, n_orders: int) -> bool:
    """Leave in the block's last words the partners of a left row among n_rows; False where there are none for sure.

    Bits beyond n_rows mean nothing. O(features * n_rows / 64).
    """
    _, codes, sorted_rows, behind, starts, slots, before, sets, alive = block
    n_words = (n_rows + 63) >> 6
    for order in range(n_orders):
        if row[order] >= codes[order, n_rows - 1]:
            return False
    for word in range(n_words):
        alive[word] = ~np.uint64(0)
    for order in range(n_orders):
        if row[order] >= codes[order, 0]:
            _keep_behind(row[order], n_rows, codes[order], sorted_rows[order], behind[order], alive)
    for which in range(starts.size - 1):
        slot = slots[starts[which] + row[n_orders + which]]
        if slot == 0:
            continue
        at = np.int64(slot - 1) >> 1
        if slot & 1 == 0:
            for word in range(n_words):
                alive[word] &= ~sets[at, word]
            continue
        while at >= 0:
            alive[at >> 6] &= ~(np.uint64(1) << np.uint64(at & 63))
            at = np.int64(before[which, at])
    return True


@kernel
def count_block(block: Block, n_rows: int, row: Int64Array, n_orders: int) -> int:
    """The weight of a left row's partners in a block of n_rows. O(features * n_rows / 64)."""
    if not match_block(block, n_rows, row, n_orders):
        return 0
    planes, alive = block[0], block[8]
    total = 0
    for plane in range(planes.shape[0]):
        found = np.uint64(0)
        for word in range((n_rows + 63) >> 6):
            found += popcount(alive[word] & planes[plane, word])
        total += np.int64(found) << plane
    return total


@kernel
def _fill_planes(planes: UInt64Array, places: Int64Array, weights: Int64Array) -> None:
    """Plane p has the rows whose weight has bit p; bits beyond the rows are in none."""
    planes[:] = np.uint64(0)
    for row in range(places.size):
        for plane in range(planes.shape[0]):
            if weights[places[row]] >> plane & 1:
                planes[plane, row >> 6] |= np.uint64(1) << np.uint64(row & 63)


@kernel
def _fill_order(
    codes: Int64Array, rows: Int64Array, behind: UInt64Array, places: Int64Array, features: Int64Array, order: int
) -> None:
    """The codes of a block in ascending order, the rows in that order, and the set of rows from each checkpoint on."""
    n_rows = places.size
    column = np.empty(n_rows, np.int64)
    for row in range(n_rows):
        column[row] = features[places[row], order]
    ascending = sorted_places(np.zeros(n_rows, np.int64), column)
    for at in range(n_rows):
        rows[at] = ascending[at]
        codes[at] = column[ascending[at]]
    step = (n_rows + _STEP - 1) // _STEP
    behind[step, :] = np.uint64(0)
    for at in range(n_rows - 1, -1, -1):
        if (at + 1) % _STEP == 0 or at == n_rows - 1:
            step -= 1
            behind[step, :] = behind[step + 1, :]
        behind[step, rows[at] >> 6] |= np.uint64(1) << np.uint64(rows[at] & 63)


@kernel
def _fill_sets(
    slots: Int32Array,
    before: Int32Array,
    sets: UInt64Array,
    n_sets: int,
    places: Int64Array,
    features: Int64Array,
    feature: int,
) -> int:
    """For each value of one of the differs the rows of the block that have it, as a chain or as a set."""
    # A slot is minus the number of rows until one of them is put in.
    for place in places:
        slots[features[place, feature]] -= 1
    for row in range(places.size):
        value = features[places[row], feature]
        slot = slots[value]
        if -_FEW <= slot < 0:
            before[row] = -1
            slots[value] = 1 + 2 * row
        elif slot < 0:
            sets[n_sets, :] = np.uint64(0)
            sets[n_sets, row >> 6] |= np.uint64(1) << np.uint64(row & 63)
            slots[value] = 2 + 2 * n_sets
            n_sets += 1
        elif slot & 1 == 1:
            before[row] = (slot - 1) >> 1
            slots[value] = 1 + 2 * row
        else:
            sets[(slot - 2) >> 1, row >> 6] |= np.uint64(1) << np.uint64(row & 63)
    return n_sets


@kernel
def _keep_behind(
    code: int, n_rows: int, codes: Int64Array, rows: Int64Array, behind: UInt64Array, alive: UInt64Array
) -> None:
    """Keep the rows with a greater code; some have one and some have not."""
    low = 1
    high = n_rows
    while low < high:
        middle = (low + high) // 2
        if codes[middle] > code:
            high = middle
        else:
            low = middle + 1
    step = (low + _STEP - 1) // _STEP
    stop = min(step * _STEP, n_rows)
    # The rows before the next checkpoint are not in its set: they are put in, and taken out again.
    for at in range(low, stop):
        behind[step, rows[at] >> 6] |= np.uint64(1) << np.uint64(rows[at] & 63)
    for word in range((n_rows + 63) >> 6):
        alive[word] &= behind[step, word]
    for at in range(low, stop):
        behind[step, rows[at] >> 6] &= ~(np.uint64(1) << np.uint64(rows[at] & 63))
