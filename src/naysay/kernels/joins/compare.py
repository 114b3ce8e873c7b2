"""Comparing the rows of a group, all with all: what pays off if groups are small and predicates many.

A few right rows are compared one by one. More of them form a *block*: up to 4,096 rows as bits of 64 words, compared
with one left row at a time. A disequality clears the bits of the right rows that agree, an order those that are not
greater, so that a predicate costs one word operation for 64 pairs.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int32Array, Int64Array, UInt64Array
from naysay.kernels.bits import ALL, ONE, ZERO, bit, lowest, popcount
from naysay.kernels.compile import kernel
from naysay.kernels.sort import sorted_places

Rows = tuple[Int64Array, Int64Array, Int64Array]

BLOCK_ROWS = 4096
_N_WORDS = BLOCK_ROWS // 64
# The bits of a value that at most this many rows of a block have are cleared one by one; others have their own words.
_FEW = 6
_MAX_SETS = BLOCK_ROWS // (_FEW + 1) + 1
# In ascending order there is a checkpoint every _STEP rows: the set of all rows from there on.
_STEP = 32
_N_STEPS = BLOCK_ROWS // _STEP + 1

# planes: the rows' weights, bit by bit. codes, rows, behind: for each order its codes in ascending order, the rows in
# that order, and the checkpoints. starts, slots: for each value of each differs, at starts[differs] + value, 0 or where
# its rows are: 1 + 2 * row for the last of a chain, 2 + 2 * set for a set. before: the chains. sets: the sets. alive:
# room for an answer.
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
    """Put the rows at some places, at most BLOCK_ROWS, into an empty block. O(rows * features)."""
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
    """Empty the block of the rows at these places. O(rows * differs)."""
    starts, slots = block[4], block[5]
    for place in places:
        for which in range(starts.size - 1):
            slots[starts[which] + features[place, n_orders + which]] = 0


@kernel
def match_block(block: Block, n_rows: int, row: Int64Array, n_orders: int) -> bool:
    """Leave the partners of a left row among n_rows in `alive`; False if there are certainly none.

    Bits beyond n_rows mean nothing. O(features * n_rows / 64).
    """
    _, codes, sorted_rows, behind, starts, slots, before, sets, alive = block
    n_words = (n_rows + 63) >> 6
    for order in range(n_orders):
        if row[order] >= codes[order, n_rows - 1]:
            return False
    for word in range(n_words):
        alive[word] = ALL
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
            alive[at >> 6] &= ~bit(at)
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
        found = ZERO
        for word in range((n_rows + 63) >> 6):
            found += popcount(alive[word] & planes[plane, word])
        total += np.int64(found) << plane
    return total


@kernel
def _fill_planes(planes: UInt64Array, places: Int64Array, weights: Int64Array) -> None:
    """Plane p has the rows whose weight has bit p; bits beyond the rows are in none."""
    planes[:] = ZERO
    for row in range(places.size):
        for plane in range(planes.shape[0]):
            if weights[places[row]] >> plane & 1:
                planes[plane, row >> 6] |= bit(row)


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
    behind[step, :] = ZERO
    for at in range(n_rows - 1, -1, -1):
        if (at + 1) % _STEP == 0 or at == n_rows - 1:
            step -= 1
            behind[step, :] = behind[step + 1, :]
        behind[step, rows[at] >> 6] |= bit(rows[at])


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
            sets[n_sets, :] = ZERO
            sets[n_sets, row >> 6] |= bit(row)
            slots[value] = 2 + 2 * n_sets
            n_sets += 1
        elif slot & 1 == 1:
            before[row] = (slot - 1) >> 1
            slots[value] = 1 + 2 * row
        else:
            sets[(slot - 2) >> 1, row >> 6] |= bit(row)
    return n_sets


@kernel
def _keep_behind(
    code: int, n_rows: int, codes: Int64Array, rows: Int64Array, behind: UInt64Array, alive: UInt64Array
) -> None:
    """Keep the rows with a greater code, if some but not all have one."""
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
        behind[step, rows[at] >> 6] |= bit(rows[at])
    for word in range((n_rows + 63) >> 6):
        alive[word] &= behind[step, word]
    for at in range(low, stop):
        behind[step, rows[at] >> 6] &= ~bit(rows[at])


# Up to this many right rows are compared one by one: as bits they would cost as much.
_FEW_ROWS = 16


@kernel
def compare_groups(
    left: Rows,
    right: Rows,
    weights: Int64Array,
    shape: tuple[int, Int64Array],
    most: float,
    sign: int,
    out: Int64Array,
    stop: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    """Add to out[place] `sign` times the weight of each left row's partners, in groups small enough to compare.

    A side is (key, places, features): the places of its rows in ascending order of their keys, and for every place a
    row of features, first the orders (left < right), then the differs (left != right). `shape` is the number of orders,
    and for each of the differs that count the range [0, n) of its codes. `weights` says how many rows each right place
    represents. Groups of c left and d right rows with c * d > most * (c + d) are skipped: the places of their rows are
    returned, in the order of the keys. Returns early, with half an answer, once stop[0] is not 0.
    O(pairs * features / 64) word operations for large groups.
    """
    left_key, left_places, left_features = left
    right_key, right_places, right_features = right
    n_orders, ranges = shape
    left_rest = np.empty(left_places.size, np.int64)
    right_rest = np.empty(right_places.size, np.int64)
    n_left_rest = 0
    n_right_rest = 0
    block = empty_block(n_orders, ranges, weights)
    i = 0
    j = 0
    while i < left_places.size and stop[0] == 0:
        i_end = _run_end(left_key, i)
        while j < right_places.size and right_key[j] < left_key[i]:
            j += 1
        j_end = _run_end(right_key, j) if j < right_places.size and right_key[j] == left_key[i] else j
        n_left = i_end - i
        n_right = j_end - j
        if np.float64(n_left) * n_right > most * (n_left + n_right):
            left_rest[n_left_rest : n_left_rest + n_left] = left_places[i:i_end]
            right_rest[n_right_rest : n_right_rest + n_right] = right_places[j:j_end]
            n_left_rest += n_left
            n_right_rest += n_right
        elif n_right <= _FEW_ROWS:
            for at in range(i, i_end):
                place = left_places[at]
                for other in range(j, j_end):
                    if is_partner(left_features[place], right_features[right_places[other]], n_orders, ranges.size):
                        out[place] += sign * weights[right_places[other]]
        else:
            for start in range(j, j_end, BLOCK_ROWS):
                if stop[0] != 0:
                    break
                rows = right_places[start : min(start + BLOCK_ROWS, j_end)]
                fill_block(block, rows, right_features, weights, n_orders)
                for at in range(i, i_end):
                    place = left_places[at]
                    out[place] += sign * count_block(block, rows.size, left_features[place], n_orders)
                clear_block(block, rows, right_features, n_orders)
        i = i_end
        j = j_end
    return left_rest[:n_left_rest].copy(), right_rest[:n_right_rest].copy()


@kernel
def list_groups(
    left: Rows,
    right: Rows,
    identities: tuple[Int64Array, Int64Array],
    shape: tuple[int, Int64Array],
    limit: int,
    stop: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    """List pairs of (left place, right place) that are partners, at most `limit`; a row never meets itself.

    Sides, shape and stop as for `compare_groups`; identities are by place, for each side. O(pairs compared * features /
    64) word operations, and the pairs.
    """
    left_key, left_places, left_features = left
    right_key, right_places, right_features = right
    n_orders, ranges = shape
    block = empty_block(n_orders, ranges, np.ones(1, np.int64))
    ones = np.ones(right_features.shape[0], np.int64)
    found = np.empty((2, min(limit, 1024)), np.int64)
    n_found = 0
    j = 0
    i = 0
    while i < left_places.size and n_found < limit and stop[0] == 0:
        i_end = _run_end(left_key, i)
        while j < right_places.size and right_key[j] < left_key[i]:
            j += 1
        j_end = _run_end(right_key, j) if j < right_places.size and right_key[j] == left_key[i] else j
        for start in range(j, j_end, BLOCK_ROWS):
            rows = right_places[start : min(start + BLOCK_ROWS, j_end)]
            fill_block(block, rows, right_features, ones, n_orders)
            for at in range(i, i_end):
                if stop[0] != 0 or not match_block(block, rows.size, left_features[left_places[at]], n_orders):
                    continue
                for word in range((rows.size + 63) >> 6):
                    bits = block[8][word] & block[0][0, word]
                    while bits != 0 and n_found < limit:
                        other = rows[64 * word + np.int64(lowest(bits))]
                        bits &= bits - ONE
                        if identities[0][left_places[at]] == identities[1][other]:
                            continue
                        if n_found == found.shape[1]:
                            found = _doubled(found, limit)
                        found[0, n_found] = left_places[at]
                        found[1, n_found] = other
                        n_found += 1
            clear_block(block, rows, right_features, n_orders)
        i = i_end
        j = j_end
    return found[0, :n_found].copy(), found[1, :n_found].copy()


@kernel
def _doubled(found: Int64Array, limit: int) -> Int64Array:
    bigger = np.empty((2, min(2 * found.shape[1], limit)), np.int64)
    bigger[:, : found.shape[1]] = found
    return bigger


@kernel
def _run_end(keys: Int64Array, start: int) -> int:
    end = start + 1
    while end < keys.size and keys[end] == keys[start]:
        end += 1
    return end


@kernel
def is_partner(left: Int64Array, right: Int64Array, n_orders: int, n_differs: int) -> bool:
    """Whether left < right in each order and left != right in each of the first n_differs after them."""
    for feature in range(n_orders + n_differs):
        if feature < n_orders:
            if left[feature] >= right[feature]:
                return False
        elif left[feature] == right[feature]:
            return False
    return True
