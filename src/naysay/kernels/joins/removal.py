"""The fewest rows to remove so that no pair is left."""

from __future__ import annotations

import numpy as np

from naysay.arrays import BoolArray, Int64Array
from naysay.kernels.compile import kernel
from naysay.kernels.trees.zones import LEAF_ROWS, Rows, Zones, holds, may_hold


@kernel
def kept_commonest(keys: Int64Array, values: Int64Array, places: Int64Array) -> int:
    """Sum over keys of the rows that have the key's most common value. `places` sorts by (key, value). O(n)."""
    kept = 0
    best = 0
    run = 0
    for at in range(places.size):
        place = places[at]
        new_key = at == 0 or keys[place] != keys[places[at - 1]]
        if new_key:
            kept += best
            best = 0
        if new_key or values[place] != values[places[at - 1]]:
            run = 0
        run += 1
        best = max(best, run)
    return kept + best


@kernel
def kept_monotone(keys: Int64Array, values: Int64Array, places: Int64Array) -> int:
    """Sum over keys of the longest subsequence of values that never rises, in the order of `places`.

    `places` brings the rows of a key together. Patience sorting, O(n log n).
    """
    tails = np.empty(places.size, np.int64)
    kept = 0
    length = 0
    for at in range(places.size):
        place = places[at]
        if at > 0 and keys[place] != keys[places[at - 1]]:
            kept += length
            length = 0
        # tails never rises; the value replaces the first tail below it.
        low = 0
        high = length
        while low < high:
            middle = (low + high) // 2
            if tails[middle] >= values[place]:
                low = middle + 1
            else:
                high = middle
        tails[low] = values[place]
        length = max(length, low + 1)
    return kept + length


@kernel
def match_greedily(left: Rows, right: Rows, zones: Zones, n_orders: int, max_steps: int) -> tuple[int, bool]:
    """Match left rows with partners, each row at most once on either side; returns the number of pairs.

    Arguments as for `trees.zones.list_partners`. The flag is True if the matching is maximal: no violation is left
    between unmatched rows. Stops after max_steps visited nodes and compared rows.
    """
    rows, identities = left
    features, feature_identities = right
    least, greatest = zones
    n_leaves = least.shape[1] // 2
    n_rows = features.shape[1]
    alive = _count_alive(n_rows, n_leaves)
    places_by_identity = np.argsort(feature_identities)
    sorted_identities = feature_identities[places_by_identity]
    dead = np.zeros(n_rows, np.bool_)
    n_matched = 0
    n_steps = 0
    stack = np.empty(128, np.int64)
    for i in range(rows.shape[0]):
        own = _place_of(identities[i], sorted_identities, places_by_identity)
        if own >= 0 and dead[own]:
            continue
        stack[0] = 1
        n_stack = 1
        found = -1
        while n_stack > 0 and found < 0:
            n_stack -= 1
            node = stack[n_stack]
            n_steps += 1
            if n_steps > max_steps:
                return n_matched, False
            if alive[node] == 0 or not may_hold(rows[i], least, greatest, node, n_orders):
                continue
            if node < n_leaves:
                stack[n_stack] = 2 * node + 1
                stack[n_stack + 1] = 2 * node
                n_stack += 2
                continue
            start = (node - n_leaves) * LEAF_ROWS
            n_steps += LEAF_ROWS
            for place in range(start, min(start + LEAF_ROWS, n_rows)):
                if not dead[place] and place != own and holds(rows[i], features, place, n_orders):
                    found = place
                    break
        if found < 0:
            continue
        n_matched += 1
        _kill(found, dead, alive, n_leaves)
        if own >= 0:
            _kill(own, dead, alive, n_leaves)
    return n_matched, True


@kernel
def _count_alive(n_rows: int, n_leaves: int) -> Int64Array:
    alive = np.zeros(2 * n_leaves, np.int64)
    for place in range(n_rows):
        alive[n_leaves + place // LEAF_ROWS] += 1
    for node in range(n_leaves - 1, 0, -1):
        alive[node] = alive[2 * node] + alive[2 * node + 1]
    return alive


@kernel
def _place_of(identity: int, sorted_identities: Int64Array, places: Int64Array) -> int:
    at = np.searchsorted(sorted_identities, identity)
    if at < sorted_identities.size and sorted_identities[at] == identity:
        return places[at]
    return -1


@kernel
def _kill(place: int, dead: BoolArray, alive: Int64Array, n_leaves: int) -> None:
    if dead[place]:
        return
    dead[place] = True
    node = n_leaves + place // LEAF_ROWS
    while node > 0:
        alive[node] -= 1
        node //= 2
