"""The fewest rows to remove so that no pair is left."""

from __future__ import annotations

import numpy as np

from naysay.arrays import BoolArray, Int64Array
from naysay.kernels.compile import kernel
from naysay.kernels.trees.zones import LEAF_ROWS, Rows, Zones, holds, may_hold


@kernel
def removed_commonest(keys: Int64Array, values: Int64Array, places: Int64Array) -> BoolArray:
    """Which rows do not have the (first) most common value of their key. `places` sorts by (key, value). O(n)."""
    removed = np.ones(places.size, np.bool_)
    best_start = 0
    best_end = 0
    start = 0
    for at in range(1, places.size + 1):
        is_last = at == places.size
        new_key = is_last or keys[places[at]] != keys[places[start]]
        if not new_key and values[places[at]] == values[places[start]]:
            continue
        if at - start > best_end - best_start:
            best_start = start
            best_end = at
        start = at
        if new_key:
            for kept in range(best_start, best_end):
                removed[places[kept]] = False
            best_start = at
            best_end = at
    return removed


@kernel
def monotone_levels(keys: Int64Array, values: Int64Array, places: Int64Array) -> Int64Array:
    """For each row how many rows are before it in the longest subsequence of its key that ends with it and never rises.

    `places` brings the rows of a key together. Of two rows of a key with the same level, the later one has the greater
    value. Patience sorting, O(n log n).
    """
    levels = np.empty(places.size, np.int64)
    # For each length the place of the subsequence's end.
    tails = np.empty(places.size, np.int64)
    length = 0
    for at in range(places.size):
        place = places[at]
        if at > 0 and keys[place] != keys[places[at - 1]]:
            length = 0
        # The values of tails never rise; this one replaces the first below it.
        low = 0
        high = length
        while low < high:
            middle = (low + high) // 2
            if values[tails[middle]] >= values[place]:
                low = middle + 1
            else:
                high = middle
        tails[low] = place
        levels[place] = low
        length = max(length, low + 1)
    return levels


@kernel
def removed_monotone(keys: Int64Array, values: Int64Array, places: Int64Array) -> BoolArray:
    """Which rows are not in their key's longest subsequence of values that never rises, in the order of `places`."""
    levels = monotone_levels(keys, values, places)
    removed = np.ones(places.size, np.bool_)
    start = 0
    while start < places.size:
        end = start
        last = start
        while end < places.size and keys[places[end]] == keys[places[start]]:
            if levels[places[end]] >= levels[places[last]]:
                last = end
            end += 1
        # From the end back: a row follows the nearest one before it of the level below.
        wanted = levels[places[last]]
        for at in range(last, start - 1, -1):
            if levels[places[at]] == wanted:
                removed[places[at]] = False
                wanted -= 1
        start = end
    return removed


@kernel
def first_of_keys(keys: Int64Array, most: Int64Array) -> BoolArray:
    """Which rows are among the first `most[key]` of their key. Keys lie in the range of `most`. O(n)."""
    n_taken = np.zeros(most.size, np.int64)
    taken = np.zeros(keys.size, np.bool_)
    for i in range(keys.size):
        if n_taken[keys[i]] < most[keys[i]]:
            n_taken[keys[i]] += 1
            taken[i] = True
    return taken


@kernel
def connected_parts(n_rows: int, first: Int64Array, second: Int64Array) -> Int64Array:
    """For each row the least row that pairs connect it with. Nearly O(rows + pairs)."""
    least = np.arange(n_rows)
    for i in range(first.size):
        one = _least_of(first[i], least)
        other = _least_of(second[i], least)
        least[max(one, other)] = min(one, other)
    for row in range(n_rows):
        least[row] = _least_of(row, least)
    return least


@kernel
def first_apart(starts: Int64Array, neighbours: Int64Array, order: Int64Array) -> BoolArray:
    """Which vertices of a graph are taken if each is, in some order, that has no neighbour among those taken before.

    Vertex v has the neighbours from `starts[v]` to `starts[v + 1]`.
    """
    taken = np.zeros(order.size, np.bool_)
    beside = np.zeros(order.size, np.bool_)
    for vertex in order:
        if not beside[vertex]:
            taken[vertex] = True
            for i in range(starts[vertex], starts[vertex + 1]):
                beside[neighbours[i]] = True
    return taken


@kernel
def half_cover(starts: Int64Array, neighbours: Int64Array) -> Int64Array:
    """A smallest cover of a graph by whole and half vertices: 0, 1 or 2 halves of each.

    Vertex v has the neighbours from `starts[v]` to `starts[v + 1]`. Some smallest cover of whole vertices has all with
    2 halves and none with 0 (Nemhauser and Trotter, 1975). The graph is doubled, left and right copies of vertices, and
    matched: Hopcroft and Karp, O(edges * sqrt(vertices)).
    """
    n = starts.size - 1
    right_of = np.full(n, -1, np.int64)
    left_of = np.full(n, -1, np.int64)
    depth = np.empty(n, np.int64)
    queue = np.empty(n, np.int64)
    reached = np.zeros(n, np.bool_)
    path = np.empty(n, np.int64)
    while _layers(starts, neighbours, right_of, left_of, depth, queue, reached):
        upcoming = starts[:-1].copy()
        for vertex in range(n):
            if right_of[vertex] >= 0:
                continue
            path[0] = vertex
            length = 1
            while length > 0:
                last = path[length - 1]
                if upcoming[last] == starts[last + 1]:
                    depth[last] = -1
                    length -= 1
                    continue
                other = left_of[neighbours[upcoming[last]]]
                upcoming[last] += 1
                if other >= 0 and depth[other] == depth[last] + 1:
                    path[length] = other
                    length += 1
                elif other < 0:
                    for i in range(length):
                        right = neighbours[upcoming[path[i]] - 1]
                        right_of[path[i]] = right
                        left_of[right] = path[i]
                    length = 0
    halves = np.zeros(n, np.int64)
    for vertex in range(n):
        halves[vertex] = int(depth[vertex] < 0) + int(reached[vertex])
    return halves


@kernel
def _layers(
    starts: Int64Array,
    neighbours: Int64Array,
    right_of: Int64Array,
    left_of: Int64Array,
    depth: Int64Array,
    queue: Int64Array,
    reached: BoolArray,
) -> bool:
    """Set the depth of each left vertex on paths from unmatched ones, and which right ones are reached; whether one of
    these is unmatched."""
    n_queued = 0
    for vertex in range(right_of.size):
        reached[vertex] = False
        depth[vertex] = -1
        if right_of[vertex] < 0:
            depth[vertex] = 0
            queue[n_queued] = vertex
            n_queued += 1
    found = False
    at = 0
    while at < n_queued:
        vertex = queue[at]
        at += 1
        for i in range(starts[vertex], starts[vertex + 1]):
            right = neighbours[i]
            reached[right] = True
            other = left_of[right]
            if other < 0:
                found = True
            elif depth[other] < 0:
                depth[other] = depth[vertex] + 1
                queue[n_queued] = other
                n_queued += 1
    return found


@kernel
def _least_of(row: int, least: Int64Array) -> int:
    while least[row] != row:
        least[row] = least[least[row]]
        row = least[row]
    return row


@kernel
def match_greedily(left: Rows, right: Rows, zones: Zones, n_orders: int, max_steps: int) -> tuple[Int64Array, bool]:
    """Match left rows with partners, each row at most once on either side; returns the rows of each pair in turn.

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
    matched = np.empty(2 * rows.shape[0], np.int64)
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
                return matched[: 2 * n_matched], False
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
        matched[2 * n_matched] = identities[i]
        matched[2 * n_matched + 1] = feature_identities[found]
        n_matched += 1
        _kill(found, dead, alive, n_leaves)
        if own >= 0:
            _kill(own, dead, alive, n_leaves)
    return matched[: 2 * n_matched], True


@kernel
def may_have_partner(left: Rows, right: Rows, zones: Zones, n_orders: int, max_steps: int) -> BoolArray:
    """Which left rows have a partner, or are not known to have none within max_steps visited nodes and compared rows.

    Arguments as for `trees.zones.list_partners`.
    """
    rows, identities = left
    features, feature_identities = right
    least, greatest = zones
    n_leaves = least.shape[1] // 2
    n_rows = features.shape[1]
    has_partner = np.ones(rows.shape[0], np.bool_)
    stack = np.empty(128, np.int64)
    n_steps = 0
    for i in range(rows.shape[0]):
        stack[0] = 1
        n_stack = 1
        found = False
        while n_stack > 0 and not found:
            n_stack -= 1
            node = stack[n_stack]
            n_steps += 1
            if n_steps > max_steps:
                return has_partner
            if not may_hold(rows[i], least, greatest, node, n_orders):
                continue
            if node < n_leaves:
                stack[n_stack] = 2 * node + 1
                stack[n_stack + 1] = 2 * node
                n_stack += 2
                continue
            start = (node - n_leaves) * LEAF_ROWS
            n_steps += LEAF_ROWS
            for place in range(start, min(start + LEAF_ROWS, n_rows)):
                if feature_identities[place] != identities[i] and holds(rows[i], features, place, n_orders):
                    found = True
                    break
        has_partner[i] = found
    return has_partner


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
