"""For each left row, how many right rows with the same key are greater in all of a join's orders.

The kernels named add_... add `sign` times that number to `out[place of the left row]`, so that inclusion and exclusion
over disequalities is a sequence of calls.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array
from naysay.kernels.compile import kernel

# The orders [k, n] of the left and of the right side.
Both = tuple[Int64Array, Int64Array]
# Key, x and y of each point.
Points = tuple[Int64Array, Int64Array, Int64Array]

# Below this many pairs, comparing them all is cheaper than dividing further.
_BRUTE_PAIRS = 2048


@kernel
def add_partners_equal(left_key: Int64Array, right_key: Int64Array, n_keys: int, sign: int, out: Int64Array) -> None:
    """Count right rows with the left row's key. Keys lie in a small range [0, n_keys). O(n + n_keys)."""
    counts = np.zeros(n_keys, np.int64)
    for key in right_key:
        counts[key] += 1
    for i in range(left_key.size):
        out[i] += sign * counts[left_key[i]]


@kernel
def partners_one(
    left_key: Int64Array, left_x: Int64Array, right_key: Int64Array, right_x: Int64Array, right_starts: Int64Array
) -> Int64Array:
    """For each left point the right rows with the same key and left.x < right.x. O(n).

    Points ascend by (key, x); right point j represents right_starts[j + 1] - right_starts[j] rows.
    """
    out = np.empty(left_key.size, np.int64)
    n_right = right_key.size
    above = 0
    end = 0
    for i in range(left_key.size):
        key = left_key[i]
        while end < n_right and right_key[end] <= key:
            end += 1
        while above < end and (right_key[above] < key or right_x[above] <= left_x[i]):
            above += 1
        out[i] = right_starts[end] - right_starts[above]
    return out


@kernel
def collapse_two(
    key: Int64Array, x: Int64Array, y: Int64Array, places: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Bring rows into the order of `places`, rows that follow each other with the same (key, x, y) as one point.

    Returns key, x, y of each point, and where its run starts in `places`, then the end of the last. O(n).
    """
    n_rows = places.size
    point_key, point_x, point_y = np.empty((3, n_rows), np.int64)
    starts = np.empty(n_rows + 1, np.int64)
    n_points = 0
    for at in range(n_rows):
        place = places[at]
        last = n_points - 1
        if at == 0 or y[place] != point_y[last] or x[place] != point_x[last] or key[place] != point_key[last]:
            point_key[n_points] = key[place]
            point_x[n_points] = x[place]
            point_y[n_points] = y[place]
            starts[n_points] = at
            n_points += 1
    starts[n_points] = n_rows
    starts = starts[: n_points + 1].copy()
    return point_key[:n_points].copy(), point_x[:n_points].copy(), point_y[:n_points].copy(), starts


@kernel
def partners_two(left: Points, right: Points, right_starts: Int64Array, n_ranks: int) -> Int64Array:
    """For each left point the right rows with the same key, left.x < right.x and left.y < right.y. O(n log n).

    A side is (key, x, y) by point, ascending by (key, x), with y a rank in [0, n_ranks), comparable within a key; a
    right point represents right_starts[j + 1] - right_starts[j] rows. Sweeps down x with a Fenwick tree over y,
    emptied after each key.
    """
    left_key, left_x, left_y = left
    right_key, right_x, right_y = right
    out = np.zeros(left_key.size, np.int64)
    tree = np.zeros(n_ranks + 1, np.int64)
    i = left_key.size - 1
    j = right_key.size - 1
    while i >= 0:
        key = left_key[i]
        while j >= 0 and right_key[j] > key:
            j -= 1
        first = j
        while i >= 0 and left_key[i] == key:
            while j >= 0 and right_key[j] == key and right_x[j] > left_x[i]:
                weight = right_starts[j + 1] - right_starts[j]
                node = n_ranks - right_y[j]
                while node <= n_ranks:
                    tree[node] += weight
                    node += node & -node
                j -= 1
            # Ranks are stored from the top: ranks above y are the nodes 1 .. n_ranks - 1 - y.
            node = n_ranks - 1 - left_y[i]
            while node > 0:
                out[i] += tree[node]
                node -= node & -node
            i -= 1
        for inserted in range(j + 1, first + 1):
            node = n_ranks - right_y[inserted]
            while node <= n_ranks and tree[node] != 0:
                tree[node] = 0
                node += node & -node
    return out


@kernel
def add_to_rows(counts: Int64Array, starts: Int64Array, places: Int64Array, sign: int, out: Int64Array) -> None:
    """Give each row the count of the point that it was collapsed into. O(n)."""
    for point in range(counts.size):
        if counts[point] != 0:
            for at in range(starts[point], starts[point + 1]):
                out[places[at]] += sign * counts[point]


@kernel
def ranks_within(
    left_key: Int64Array, right_key: Int64Array, places: Int64Array, left_codes: Int64Array, right_codes: Int64Array
) -> tuple[Int64Array, Int64Array, int]:
    """Rank codes among those of the same key, jointly for both sides, from 0 for each key.

    `places` sorts the left rows followed by the right rows by (key, code). Returns both sides' ranks and a bound on
    them. O(n).
    """
    n_left = left_key.size
    left_ranks = np.empty(n_left, np.int64)
    right_ranks = np.empty(right_key.size, np.int64)
    last_key = np.int64(-1)
    last_code = np.int64(0)
    rank = 0
    highest = 0
    for place in places:
        is_left = place < n_left
        key = left_key[place] if is_left else right_key[place - n_left]
        code = left_codes[place] if is_left else right_codes[place - n_left]
        if key != last_key:
            rank = 0
        elif code != last_code:
            rank += 1
        highest = max(highest, rank)
        last_key, last_code = key, code
        if is_left:
            left_ranks[place] = rank
        else:
            right_ranks[place - n_left] = rank
    return left_ranks, right_ranks, highest + 1


@kernel
def partners_many(
    left_key: Int64Array, left_orders: Int64Array, right_key: Int64Array, right_orders: Int64Array
) -> Int64Array:
    """For each left row the right rows with the same key and left < right in every order. O(n log^(k-1) n).

    Orders are arrays [k, n]; both sides ascend by (key, orders[0]). Divide and conquer over one order after the other
    (Bentley, Multidimensional divide-and-conquer, 1980), down to a merge in the first.
    """
    n_left = left_key.size
    n_right = right_key.size
    out = np.zeros(n_left, np.int64)
    i = 0
    j = 0
    while i < n_left:
        key = left_key[i]
        left_end = i
        while left_end < n_left and left_key[left_end] == key:
            left_end += 1
        while j < n_right and right_key[j] < key:
            j += 1
        right_end = j
        while right_end < n_right and right_key[right_end] == key:
            right_end += 1
        if right_end > j:
            orders = left_orders, right_orders
            _divide(orders, np.arange(i, left_end), np.arange(j, right_end), left_orders.shape[0], out)
        i = left_end
        j = right_end
    return out


@kernel
def _divide(orders: Both, left: Int64Array, right: Int64Array, n_orders: int, out: Int64Array) -> None:
    """Count over the first n_orders orders; the others certainly hold. Places ascend in orders[0]."""
    left_orders, right_orders = orders
    while True:
        if left.size == 0 or right.size == 0:
            return
        if left.size * right.size <= _BRUTE_PAIRS:
            _compare_all(orders, left, right, n_orders, out)
            return
        if n_orders == 1:
            _merge(left_orders[0], left, right_orders[0], right, out)
            return
        last = n_orders - 1
        left_low, left_high = _bounds(left_orders[last], left)
        right_low, right_high = _bounds(right_orders[last], right)
        if left_low >= right_high:
            return
        if left_high < right_low:
            n_orders = last
            continue
        pivot = _pivot(left_orders[last], left, right_orders[last], right, min(left_low, right_low))
        left_below, left_above = _split(left_orders[last], left, pivot)
        right_below, right_above = _split(right_orders[last], right, pivot)
        _divide(orders, left_below, right_above, last, out)
        _divide(orders, left_below, right_below, n_orders, out)
        left = left_above
        right = right_above


@kernel
def _compare_all(orders: Both, left: Int64Array, right: Int64Array, n_orders: int, out: Int64Array) -> None:
    left_orders, right_orders = orders
    for i in left:
        total = 0
        for j in right:
            holds = True
            for order in range(n_orders):
                holds &= left_orders[order, i] < right_orders[order, j]
            total += holds
        out[i] += total


@kernel
def _merge(
    left_codes: Int64Array, left: Int64Array, right_codes: Int64Array, right: Int64Array, out: Int64Array
) -> None:
    above = 0
    for i in left:
        while above < right.size and right_codes[right[above]] <= left_codes[i]:
            above += 1
        out[i] += right.size - above


@kernel
def _bounds(codes: Int64Array, places: Int64Array) -> tuple[int, int]:
    low = codes[places[0]]
    high = low
    for place in places:
        low = min(low, codes[place])
        high = max(high, codes[place])
    return low, high


@kernel
def _pivot(left_codes: Int64Array, left: Int64Array, right_codes: Int64Array, right: Int64Array, low: int) -> int:
    """A middling code above `low`, from a sample of both sides: something lies below it and something at or above."""
    n_sample = 31
    sample = np.empty(2 * n_sample, np.int64)
    for i in range(n_sample):
        sample[i] = left_codes[left[i * left.size // n_sample]]
        sample[n_sample + i] = right_codes[right[i * right.size // n_sample]]
    sample.sort()
    if sample[n_sample] > low:
        return sample[n_sample]
    # The commonest case of ties: the smallest code fills half of the sample. Cut right above it.
    return low + 1


@kernel
def _split(codes: Int64Array, places: Int64Array, pivot: int) -> tuple[Int64Array, Int64Array]:
    """Places with codes below the pivot, and the others, each in the order they came."""
    n_below = 0
    for place in places:
        n_below += codes[place] < pivot
    below = np.empty(n_below, np.int64)
    above = np.empty(places.size - n_below, np.int64)
    b = 0
    a = 0
    for place in places:
        if codes[place] < pivot:
            below[b] = place
            b += 1
        else:
            above[a] = place
            a += 1
    return below, above
