"""Minimal near covers: minimal sets of vertices that miss edges of at most a given total count.

For approximate rules, by the fraction of pairs that break them (g1). The search is that of `covers.minimal` with one
more branch per node, which leaves the chosen edge unhit (as in Livshits, Heidari, Ilyas and Kimelfeld, PVLDB 13(10),
2020). A vertex is needed as long as the cover without it misses more than is allowed.

Arrays as in `covers.minimal`; counts int64[n_edges], descending: heavy edges decide soonest. `most` in the limits has
two more entries: how many edges to look at for the one to branch on, and the greatest total count that may be missed.
"""

# ruff: noqa: SIM110  (numba compiles loops, not generators)

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.kernels.bits import ONE, ZERO, bit, count_common, has, lowest
from naysay.kernels.compile import kernel
from naysay.kernels.covers.minimal import (
    CoverLimits,
    count_groups,
    double_sets,
    find_holders,
    join_vertex,
    keep_groups,
    next_vertex,
    select_allowed,
    take_branch,
)

_STRIDE = 16


@kernel
def _weight(edges: UInt64Array, within: UInt64Array, counts: Int64Array) -> int:
    """The total count of the edges in both sets."""
    total = 0
    for place in range(edges.size):
        left = edges[place] & within[place]
        while left != ZERO:
            total += counts[64 * place + np.int64(lowest(left))]
            left &= left - ONE
    return total


@kernel
def _weighs_more(edges: UInt64Array, without: UInt64Array, counts: Int64Array, bound: int) -> bool:
    """Whether the edges of the first set that are not in the second have a total count above `bound`."""
    if bound < 0:
        return True
    total = 0
    for place in range(edges.size):
        left = edges[place] & ~without[place]
        while left != ZERO:
            total += counts[64 * place + np.int64(lowest(left))]
            left &= left - ONE
            if total > bound:
                return True
    return False


@kernel
def _choose(
    edges: UInt64Array, alive: UInt64Array, counts: Int64Array, candidates: UInt64Array, most: Int64Array
) -> int:
    """A live edge to branch on: among the heaviest that have candidates, one with the fewest.

    -1 if there is none, or if those seen without candidates have a greater total count than may be missed.
    """
    n_looks = most[2]
    best = 64 * candidates.size + 1
    chosen = -1
    hopeless = 0
    for place in range(alive.size):
        left = alive[place]
        while left != ZERO:
            edge = 64 * place + np.int64(lowest(left))
            left &= left - ONE
            n_common = count_common(edges[edge], candidates)
            if n_common == 0:
                hopeless += counts[edge]
                if hopeless > most[3]:
                    return -1
            elif n_common < best:
                best = n_common
                chosen = edge
            n_looks -= 1
        if chosen >= 0 and (best == 1 or n_looks <= 0):
            break
    return chosen


@kernel
def _at_most_once(edges: UInt64Array, counts: Int64Array, start: UInt64Array) -> tuple[UInt64Array, Int64Array]:
    """The edges that `start` hits at most once, and their counts: those hit more often never matter again."""
    kept = np.empty_like(edges)
    kept_counts = np.empty_like(counts)
    n_kept = 0
    for edge in range(edges.shape[0]):
        if count_common(edges[edge], start) <= 1:
            kept[n_kept] = edges[edge]
            kept_counts[n_kept] = counts[edge]
            n_kept += 1
    return kept[:n_kept].copy(), kept_counts[:n_kept].copy()


@kernel
def _first_sets(
    edges: UInt64Array, holders: UInt64Array, start: UInt64Array, alive: UInt64Array, critical: UInt64Array
) -> None:
    """The edges that `start` misses, and for each of its vertices those that only it hits."""
    for edge in range(edges.shape[0]):
        if count_common(edges[edge], start) == 0:
            alive[edge >> 6] |= bit(edge)
    n_done = 0
    for vertex in range(64 * start.size):
        if has(start, vertex):
            # All edges are hit at most once, so a vertex is the only one to hit the edges that contain it.
            critical[n_done] = holders[vertex]
            n_done += 1


@kernel
def _stays_needed(critical: UInt64Array, held: UInt64Array, counts: Int64Array, n_cover: int, bound: int) -> bool:
    """Whether each vertex of the cover is still the only one to hit a total count above `bound` when another joins."""
    for k in range(n_cover - 1, -1, -1):
        if not _weighs_more(critical[k], held, counts, bound):
            return False
    return True


@kernel
def expand_near(
    edges: UInt64Array, counts: Int64Array, start: UInt64Array, candidates: UInt64Array, limits: CoverLimits
) -> tuple[UInt64Array, UInt64Array, bool]:
    """One level of the search, like `minimal.expand`; the last branch leaves the chosen edge unhit."""
    most = limits[2]
    n_words = edges.shape[1]
    edges, counts = _at_most_once(edges, counts, start)
    holders = find_holders(edges, _STRIDE)
    alive = np.zeros(holders.shape[1], np.uint64)
    n_start = count_common(start, start)
    critical = np.zeros((n_start + 1, holders.shape[1]), np.uint64)
    _first_sets(edges, holders, start, alive, critical)
    starts, below = np.zeros((2, 64 * n_words + 1, n_words), np.uint64)
    missed = _weight(alive, alive, counts)
    if missed <= most[3]:
        return starts[:0].copy(), below[:0].copy(), True
    allowed = select_allowed(start, candidates, limits)
    edge = _choose(edges, alive, counts, allowed, most)
    if edge < 0:
        return starts[:0].copy(), below[:0].copy(), False
    branch = np.empty(n_words, np.uint64)
    take_branch(edges[edge], allowed, branch)
    n_branches = 0
    vertex = next_vertex(branch)
    while vertex >= 0:
        bound = most[3] - (missed - _weight(alive, holders[vertex], counts))
        if _stays_needed(critical, holders[vertex], counts, n_start, bound):
            starts[n_branches] = start
            starts[n_branches, vertex >> 6] |= bit(vertex)
            below[n_branches] = allowed
            allowed[vertex >> 6] |= bit(vertex)
            n_branches += 1
        vertex = next_vertex(branch)
    starts[n_branches] = start
    below[n_branches] = allowed & ~edges[edge]
    return starts[: n_branches + 1].copy(), below[: n_branches + 1].copy(), False


@kernel
def search_near_covers(
    edges: UInt64Array, counts: Int64Array, start: UInt64Array, candidates: UInt64Array, limits: CoverLimits
) -> UInt64Array:
    """All minimal near covers of one branch of the search. `start` comes from `expand_near`."""
    group_of, groups, most, control = limits
    n_words = edges.shape[1]
    edges, counts = _at_most_once(edges, counts, start)
    holders = find_holders(edges, _STRIDE)
    width, n_start = holders.shape[1], count_common(start, start)
    # A depth is one more vertex or one more edge given up; both are bounded by the vertices.
    depths = groups[:, 1].size * 4 + 66 * n_words + 2
    cover, allowed = np.zeros((depths, n_words), np.uint64), np.zeros((depths, n_words), np.uint64)
    branch, alive = np.zeros((depths, n_words), np.uint64), np.zeros((depths, width), np.uint64)
    chosen, missed = np.zeros(depths, np.int64), np.zeros(depths, np.int64)
    n_cover, n_groups = np.zeros(depths, np.int64), np.zeros(depths, np.int64)
    critical = np.zeros((8 + n_start, 8 + n_start, width), np.uint64)
    found, n_found = np.empty((256, n_words), np.uint64), 0
    cover[0], n_cover[0], n_groups[0] = start, n_start, count_groups(start, limits)
    allowed[0] = select_allowed(start, candidates, limits)
    _first_sets(edges, holders, start, alive[0], critical[n_start])
    missed[0] = _weight(alive[0], alive[0], counts)
    if missed[0] <= most[3]:
        control[1] += 1
        return cover[:1].copy()
    chosen[0] = _open(edges, alive[0], counts, allowed[0], branch[0], most)
    depth = 0 if chosen[0] >= 0 else -1
    while depth >= 0 and control[0] == 0:
        vertex = next_vertex(branch[depth])
        size, below = n_cover[depth], depth + 1
        if vertex < 0:
            # The last branch: none of the chosen edge's vertices. It takes this depth's place.
            for word in range(n_words):
                allowed[depth, word] &= ~edges[chosen[depth], word]
            chosen[depth] = _open(edges, alive[depth], counts, allowed[depth], branch[depth], most)
            if chosen[depth] < 0:
                depth -= 1
            continue
        left_over = missed[depth] - _weight(alive[depth], holders[vertex], counts)
        if not _stays_needed(critical[size], holders[vertex], counts, size, most[3] - left_over):
            continue
        cover[below], allowed[below] = cover[depth], allowed[depth]
        allowed[depth, vertex >> 6] |= bit(vertex)
        is_first = join_vertex(vertex, cover[below], allowed[below], group_of, groups)
        if left_over <= most[3]:
            if n_found == found.shape[0]:
                found = double_sets(found)
            found[n_found] = cover[below]
            n_found += 1
            control[1] += 1
            if control[1] >= most[1]:
                control[0] = 1
            continue
        n_groups[below], missed[below], n_cover[below] = n_groups[depth] + is_first, left_over, size + 1
        if n_groups[below] >= most[0]:
            keep_groups(cover[below], allowed[below], group_of, groups)
        _subtract(alive[depth], holders[vertex], alive[below])
        chosen[below] = _open(edges, alive[below], counts, allowed[below], branch[below], most)
        if chosen[below] < 0:
            continue
        if size + 2 > critical.shape[0]:
            critical = _deepen(critical)
        for k in range(size):
            _subtract(critical[size, k], holders[vertex], critical[size + 1, k])
        for k in range(width):
            critical[size + 1, size, k] = alive[depth, k] & holders[vertex, k]
        depth += 1
    return found[:n_found].copy()


@kernel
def _open(
    edges: UInt64Array,
    alive: UInt64Array,
    counts: Int64Array,
    allowed: UInt64Array,
    branch: UInt64Array,
    most: Int64Array,
) -> int:
    """Choose the edge to branch on; its candidates move to `branch`. -1 if nothing can come of this node."""
    edge = _choose(edges, alive, counts, allowed, most)
    if edge < 0:
        branch[:] = ZERO
        return edge
    for word in range(allowed.size):
        branch[word] = edges[edge, word] & allowed[word]
        allowed[word] &= ~branch[word]
    return edge


@kernel
def _subtract(left: UInt64Array, right: UInt64Array, out: UInt64Array) -> None:
    """out = left without right."""
    for k in range(left.size):
        out[k] = left[k] & ~right[k]


@kernel
def _deepen(critical: UInt64Array) -> UInt64Array:
    n = critical.shape[0]
    larger = np.zeros((2 * n, 2 * n, critical.shape[2]), np.uint64)
    larger[:n, :n] = critical
    return larger
