"""Comparing the rows of a group, all with all: what pays where groups are small and predicates many.

A few right rows are compared one by one; more of them 4,096 at a time as bits of 64 words, see `kernels.blocks`.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array
from naysay.kernels.bits import lowest
from naysay.kernels.compile import kernel
from naysay.kernels.joins.blocks import BLOCK_ROWS, clear_block, count_block, empty_block, fill_block, match_block

Rows = tuple[Int64Array, Int64Array, Int64Array]

# So many right rows are compared one by one: as bits they would cost as much.
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
    and for each of the differs that count the range [0, n) of its codes. `weights` says for how many rows each right
    place stands. Groups of c left and d right rows with c * d > most * (c + d) are left alone: the places of their rows
    come back, in the order of the keys. Returns early, with half an answer, once stop[0] is not 0.
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
                        bits &= bits - np.uint64(1)
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
    """Whether left < right in each order and left != right in each of the first n_differs behind them."""
    for feature in range(n_orders + n_differs):
        if feature < n_orders:
            if left[feature] >= right[feature]:
                return False
        elif left[feature] == right[feature]:
            return False
    return True
