"""Minimal near covers: minimal sets of vertices that miss edges of at most a given total count.

For approximate rules by the fraction of pairs that break them (g1). The search is that of `kernels.cover` with one
more branch a node, which leaves the chosen edge unhit (Livshits, Heidari, Ilyas and Kimelfeld, PVLDB 13(10), 2020,
enumerate in this way). A vertex is needed while the cover without it misses more than is allowed.

Arrays as in `kernels.cover`; counts int64[n_edges], descending: heavy edges decide soonest. limits[3] is the most
that may be missed.
"""

# ruff: noqa: SIM110  (numba compiles loops, not generators)

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.kernels.compile import kernel
from naysay.kernels.covers.minimal import (
    _allowed,
    _count_groups,
    _doubled,
    _join,
    _keep_groups,
    _n_common,
    _next_vertex,
    _transposed,
)
from naysay.kernels.sort import lowest

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@kernel
def _weight(edges: UInt64Array, within: UInt64Array, counts: Int64Array) -> int:
    """The total count of the edges in both sets."""
    total = 0
    for place in range(edges.size):
        left = edges[place] & within[place]
        while left != _ZERO:
            total += counts[64 * place + np.int64(lowest(left))]
            left &= left - _ONE
    return total


@kernel
def _weighs_more(edges: UInt64Array, without: UInt64Array, counts: Int64Array, bound: int) -> bool:
    """Whether the edges of the first set that are not in the second count more than `bound` together."""
    if bound < 0:
        return True
    total = 0
    for place in range(edges.size):
        left = edges[place] & ~without[place]
        while left != _ZERO:
            total += counts[64 * place + np.int64(lowest(left))]
            left &= left - _ONE
            if total > bound:
                return True
    return False


@kernel
def _choose(
    edges: UInt64Array, alive: UInt64Array, counts: Int64Array, candidates: UInt64Array, n_looks: int, most: int
) -> int:
    """A live edge to branch on: of the heaviest that have candidates one with the fewest.

    -1 where there is none, or where those seen without candidates are more than may be missed.
    """
    best = 64 * candidates.size + 1
    chosen = -1
    hopeless = 0
    for place in range(alive.size):
        left = alive[place]
        while left != _ZERO:
            edge = 64 * place + np.int64(lowest(left))
            left &= left - _ONE
            n_common = _n_common(edges[edge], candidates)
            if n_common == 0:
                hopeless += counts[edge]
                if hopeless > most:
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
    """The edges that `start` hits at most once: hitting more often they never matter again."""
    kept = np.empty_like(edges)
    kept_counts = np.empty_like(counts)
    n_kept = 0
    for edge in range(edges.shape[0]):
        if _n_common(edges[edge], start) <= 1:
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
        if _n_common(edges[edge], start) == 0:
            alive[edge >> 6] |= _ONE << np.uint64(edge & 63)
    n_done = 0
    for vertex in range(64 * start.size):
        if (start[vertex >> 6] >> np.uint64(vertex & 63)) & _ONE != _ZERO:
            # All edges are hit at most once, so those that hold the vertex are hit by it alone.
            critical[n_done] = holders[vertex]
            n_done += 1


@kernel
def _stays_needed(critical: UInt64Array, holders: UInt64Array, counts: Int64Array, n_cover: int, bound: int) -> bool:
    """Whether each vertex of the cover, when another joins, still hits more than `bound` alone."""
    for k in range(n_cover - 1, -1, -1):
        if not _weighs_more(critical[k], holders, counts, bound):
            return False
    return True


@kernel
def expand_near(
    edges: UInt64Array,
    counts: Int64Array,
    start: UInt64Array,
    candidates: UInt64Array,
    group_of: Int64Array,
    groups: Int64Array,
    limits: Int64Array,
) -> tuple[UInt64Array, UInt64Array, bool]:
    """One level of the search, as `kernels.cover.expand`; the last branch leaves the chosen edge unhit."""
    n_words = edges.shape[1]
    edges, counts = _at_most_once(edges, counts, start)
    holders = _transposed(edges)
    alive = np.zeros(holders.shape[1], np.uint64)
    n_start = _n_common(start, start)
    critical = np.zeros((n_start + 1, holders.shape[1]), np.uint64)
    _first_sets(edges, holders, start, alive, critical)
    starts = np.zeros((64 * n_words + 1, n_words), np.uint64)
    below = np.zeros((64 * n_words + 1, n_words), np.uint64)
    missed = _weight(alive, alive, counts)
    if missed <= limits[3]:
        return starts[:0].copy(), below[:0].copy(), True
    allowed = _allowed(start, candidates, group_of, groups, limits[0])
    edge = _choose(edges, alive, counts, allowed, limits[2], limits[3])
    if edge < 0:
        return starts[:0].copy(), below[:0].copy(), False
    branch = edges[edge] & allowed
    allowed = allowed & ~branch
    n_branches = 0
    vertex = _next_vertex(branch)
    while vertex >= 0:
        bound = limits[3] - (missed - _weight(alive, holders[vertex], counts))
        if _stays_needed(critical, holders[vertex], counts, n_start, bound):
            starts[n_branches] = start
            starts[n_branches, vertex >> 6] |= _ONE << np.uint64(vertex & 63)
            below[n_branches] = allowed
            allowed[vertex >> 6] |= _ONE << np.uint64(vertex & 63)
            n_branches += 1
        vertex = _next_vertex(branch)
    starts[n_branches] = start
    below[n_branches] = allowed & ~edges[edge]
    return starts[: n_branches + 1].copy(), below[: n_branches + 1].copy(), False


@kernel
def search_near_covers(
    edges: UInt64Array,
    counts: Int64Array,
    start: UInt64Array,
    candidates: UInt64Array,
    group_of: Int64Array,
    groups: Int64Array,
    limits: Int64Array,
    control: Int64Array,
) -> UInt64Array:
    """All minimal near covers of one branch of the search. `start` is one that `expand_near` gave."""
    n_words = edges.shape[1]
    edges, counts = _at_most_once(edges, counts, start)
    holders = _transposed(edges)
    width, n_start, most = holders.shape[1], _n_common(start, start), limits[3]
    # A depth is a vertex more or an edge given up; both are bounded by the vertices.
    depths = groups[:, 1].size * 4 + 66 * n_words + 2
    cover, allowed = np.zeros((depths, n_words), np.uint64), np.zeros((depths, n_words), np.uint64)
    branch, alive = np.zeros((depths, n_words), np.uint64), np.zeros((depths, width), np.uint64)
    chosen, missed = np.full(depths, -1, np.int64), np.zeros(depths, np.int64)
    n_cover, n_groups = np.zeros(depths, np.int64), np.zeros(depths, np.int64)
    critical = np.zeros((8 + n_start, 8 + n_start, width), np.uint64)
    found, n_found = np.empty((256, n_words), np.uint64), 0
    cover[0], n_cover[0], n_groups[0] = start, n_start, _count_groups(start, groups)
    allowed[0] = _allowed(start, candidates, group_of, groups, limits[0])
    _first_sets(edges, holders, start, alive[0], critical[n_start])
    missed[0] = _weight(alive[0], alive[0], counts)
    if missed[0] <= most:
        found[0] = start
        control[1] += 1
        return found[:1].copy()
    depth = 0
    if not _open(edges, alive[0], counts, allowed[0], branch[0], chosen, 0, limits):
        depth = -1
    while depth >= 0 and control[0] == 0:
        vertex = _next_vertex(branch[depth])
        size = n_cover[depth]
        if vertex < 0:
            # The last branch: none of the chosen edge's vertices. It takes this depth's place.
            for word in range(n_words):
                allowed[depth, word] &= ~edges[chosen[depth], word]
            if not _open(edges, alive[depth], counts, allowed[depth], branch[depth], chosen, depth, limits):
                depth -= 1
            continue
        left_over = missed[depth] - _weight(alive[depth], holders[vertex], counts)
        if not _stays_needed(critical[size], holders[vertex], counts, size, most - left_over):
            continue
        cover[depth + 1], allowed[depth + 1] = cover[depth], allowed[depth]
        allowed[depth, vertex >> 6] |= _ONE << np.uint64(vertex & 63)
        fresh = _join(vertex, cover[depth + 1], allowed[depth + 1], group_of, groups)
        if left_over <= most:
            if n_found == found.shape[0]:
                found = _doubled(found)
            found[n_found] = cover[depth + 1]
            n_found += 1
            control[1] += 1
            if control[1] >= limits[1]:
                control[0] = 1
            continue
        n_groups[depth + 1], missed[depth + 1], n_cover[depth + 1] = n_groups[depth] + fresh, left_over, size + 1
        if n_groups[depth + 1] >= limits[0]:
            _keep_groups(cover[depth + 1], allowed[depth + 1], group_of, groups)
        _minus(alive[depth], holders[vertex], alive[depth + 1])
        if not _open(edges, alive[depth + 1], counts, allowed[depth + 1], branch[depth + 1], chosen, depth + 1, limits):
            continue
        if size + 2 > critical.shape[0]:
            critical = _deeper(critical)
        for k in range(size):
            _minus(critical[size, k], holders[vertex], critical[size + 1, k])
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
    chosen: Int64Array,
    depth: int,
    limits: Int64Array,
) -> bool:
    """Choose the edge to branch on; its candidates move to `branch`. False where nothing can come of this node."""
    edge = _choose(edges, alive, counts, allowed, limits[2], limits[3])
    chosen[depth] = edge
    if edge < 0:
        branch[:] = _ZERO
        return False
    for word in range(allowed.size):
        branch[word] = edges[edge, word] & allowed[word]
        allowed[word] &= ~branch[word]
    return True


@kernel
def _minus(left: UInt64Array, right: UInt64Array, out: UInt64Array) -> None:
    """out = left without right."""
    for k in range(left.size):
        out[k] = left[k] & ~right[k]


@kernel
def _deeper(critical: UInt64Array) -> UInt64Array:
    n = critical.shape[0]
    larger = np.zeros((2 * n, 2 * n, critical.shape[2]), np.uint64)
    larger[:n, :n] = critical
    return larger
