"""Minimal covers: all minimal sets of vertices that hit every edge.

MMCS of Murakami and Uno (Discrete Applied Mathematics 170, 2014) on bitsets over the edges. Vertices come in groups
(the vertices of one comparison), and some sets of vertices of one group may not stand in a cover together; what may
is closed under taking subsets, so forbidden vertices are simply never tried.

edges      uint64[n_edges, n_words], a bit a vertex.
start      uint64[n_words]: only covers that contain these vertices are sought ...
candidates uint64[n_words]: ... and otherwise take vertices from these.
group_of   int64[64 * n_words]: the group of each vertex.
groups     int64[n_groups, 18]: a group's first vertex, the mask of its vertices counted from there, and for each of
           16 sets of them the vertices that may not join it.
limits     int64[3]: the most groups in a cover, the most covers to find, how many edges to look at for a branch.
control    int64[2]: set control[0] from elsewhere to stop early; control[1] counts covers found, over all calls.
"""

# ruff: noqa: SIM110  (numba compiles loops, not generators)

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from naysay.kernels.bits import lowest, popcount
from naysay.kernels.compile import kernel

Int64Array = NDArray[np.int64]
UInt64Array = NDArray[np.uint64]

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_STRIDE = 16


@kernel
def _disjoint(left: UInt64Array, right: UInt64Array) -> bool:
    for word in range(left.size):
        if left[word] & right[word] != _ZERO:
            return False
    return True


@kernel
def _n_common(left: UInt64Array, right: UInt64Array) -> int:
    total = _ZERO
    for word in range(left.size):
        total += popcount(left[word] & right[word])
    return np.int64(total)


@kernel
def _join(vertex: int, cover: UInt64Array, candidates: UInt64Array, group_of: Int64Array, groups: Int64Array) -> bool:
    """Add a vertex to a cover and take what may not join it any more out of the candidates.

    Says whether the vertex is the first of its group.
    """
    word = vertex >> 6
    group = group_of[vertex]
    shift = np.uint64(groups[group, 0] & 63)
    own = np.uint64(groups[group, 1])
    fresh = (cover[word] >> shift) & own == _ZERO
    cover[word] |= _ONE << np.uint64(vertex & 63)
    chosen = np.int64((cover[word] >> shift) & own)
    candidates[word] &= ~(np.uint64(chosen | groups[group, 2 + chosen]) << shift)
    return fresh


@kernel
def _keep_groups(cover: UInt64Array, candidates: UInt64Array, group_of: Int64Array, groups: Int64Array) -> None:
    """Take every candidate away that would bring a new group into the cover."""
    for word in range(cover.size):
        left = cover[word]
        kept = _ZERO
        while left != _ZERO:
            group = group_of[64 * word + np.int64(lowest(left))]
            mask = np.uint64(groups[group, 1]) << np.uint64(groups[group, 0] & 63)
            left &= ~mask
            kept |= mask
        candidates[word] &= kept


@kernel
def expand(
    edges: UInt64Array, start: UInt64Array, candidates: UInt64Array, group_of: Int64Array, groups: Int64Array,
    limits: Int64Array,
) -> tuple[UInt64Array, UInt64Array, bool]:
    """One level of the search: the starts and candidates of the branches below, and whether `start` covers already.

    The branches partition the covers, so that each may be searched by itself.
    """
    n_words = edges.shape[1]
    starts = np.zeros((64 * n_words, n_words), np.uint64)
    below = np.zeros((64 * n_words, n_words), np.uint64)
    allowed = _allowed(start, candidates, group_of, groups, limits[0])
    best = 64 * n_words + 1
    chosen = -1
    for edge in range(edges.shape[0]):
        if _disjoint(edges[edge], start):
            n_common = _n_common(edges[edge], allowed)
            if n_common < best:
                best = n_common
                chosen = edge
    if chosen < 0:
        return starts[:0].copy(), below[:0].copy(), True
    branch = edges[chosen] & allowed
    allowed = allowed & ~branch
    n_branches = 0
    for word in range(n_words):
        while branch[word] != _ZERO:
            bit = branch[word] & (~branch[word] + _ONE)
            branch[word] ^= bit
            starts[n_branches] = start
            starts[n_branches, word] |= bit
            if _is_irredundant(edges, starts[n_branches]):
                below[n_branches] = allowed
                allowed[word] |= bit
                n_branches += 1
    return starts[:n_branches].copy(), below[:n_branches].copy(), False


@kernel
def _allowed(
    start: UInt64Array, candidates: UInt64Array, group_of: Int64Array, groups: Int64Array, max_groups: int
) -> UInt64Array:
    """The candidates that may join `start`."""
    allowed = candidates.copy()
    cover = np.zeros(start.size, np.uint64)
    n_groups = 0
    for word in range(start.size):
        left = start[word]
        while left != _ZERO:
            n_groups += _join(64 * word + np.int64(lowest(left)), cover, allowed, group_of, groups)
            left &= left - _ONE
    if n_groups >= max_groups:
        _keep_groups(cover, allowed, group_of, groups)
    return allowed


@kernel
def _is_irredundant(edges: UInt64Array, cover: UInt64Array) -> bool:
    """Whether each vertex is the only one of the cover in some edge."""
    n_words = edges.shape[1]
    needed = np.zeros(n_words, np.uint64)
    for edge in range(edges.shape[0]):
        if _n_common(edges[edge], cover) == 1:
            for word in range(n_words):
                needed[word] |= edges[edge, word] & cover[word]
    for word in range(n_words):
        if needed[word] != cover[word]:
            return False
    return True


@kernel
def _transposed(edges: UInt64Array) -> UInt64Array:
    """For each vertex the set of edges that hold it."""
    n_edges, n_words = edges.shape
    holders = np.zeros((64 * n_words, max(1, (n_edges + 63) >> 6)), np.uint64)
    for edge in range(n_edges):
        bit = _ONE << np.uint64(edge & 63)
        for word in range(n_words):
            left = edges[edge, word]
            while left != _ZERO:
                holders[64 * word + np.int64(lowest(left)), edge >> 6] |= bit
                left &= left - _ONE
    return holders


@kernel
def _outside(edges: UInt64Array, holders: UInt64Array) -> bool:
    """Whether some edge of the first set is not in the second."""
    place = 0
    while place < edges.size:
        found = _ZERO
        for k in range(place, min(place + _STRIDE, edges.size)):
            found |= edges[k] & ~holders[k]
        if found != _ZERO:
            return True
        place += _STRIDE
    return False


@kernel
def _fewest(edges: UInt64Array, alive: UInt64Array, candidates: UInt64Array, n_looks: int) -> int:
    """The live edge with the fewest candidates, or -1 where one has none."""
    best = 64 * candidates.size + 1
    chosen = -1
    for place in range(alive.size):
        left = alive[place]
        while left != _ZERO:
            edge = 64 * place + np.int64(lowest(left))
            left &= left - _ONE
            n_common = _n_common(edges[edge], candidates)
            n_looks -= 1
            if n_common < best:
                best = n_common
                chosen = edge
        if best <= 1 or n_looks <= 0:
            break
    return -1 if best == 0 else chosen


@kernel
def _split(edges: UInt64Array, start: UInt64Array) -> tuple[UInt64Array, UInt64Array]:
    """The edges that `start` does not hit, and those that it hits once."""
    n_edges, n_words = edges.shape
    missed = np.empty((n_edges, n_words), np.uint64)
    once = np.empty((n_edges, n_words), np.uint64)
    n_missed = 0
    n_once = 0
    for edge in range(n_edges):
        n_common = _n_common(edges[edge], start)
        if n_common == 0:
            missed[n_missed] = edges[edge]
            n_missed += 1
        elif n_common == 1:
            once[n_once] = edges[edge]
            n_once += 1
    return missed[:n_missed].copy(), once[:n_once].copy()


@kernel
def _start_critical(once: UInt64Array, start: UInt64Array) -> UInt64Array:
    """For each vertex of `start`, in order, the set of edges of `once` that hold it."""
    holders = _transposed(once)
    n_start = _n_common(start, start)
    critical = np.zeros((n_start, holders.shape[1]), np.uint64)
    n_done = 0
    for vertex in range(64 * start.size):
        if (start[vertex >> 6] >> np.uint64(vertex & 63)) & _ONE != _ZERO:
            critical[n_done] = holders[vertex]
            n_done += 1
    return critical


@kernel
def search_covers(
    edges: UInt64Array, start: UInt64Array, candidates: UInt64Array, group_of: Int64Array, groups: Int64Array,
    limits: Int64Array, control: Int64Array,
) -> UInt64Array:
    """All minimal covers of one branch of the search, uint64[n, n_words], in no particular order.

    `start` is irredundant (see `expand`). Time is proportional to the nodes of the search tree times n_edges / 64
    times the size of a cover; memory to n_edges / 64 times the square of the size of a cover.
    """
    n_words = edges.shape[1]
    missed, once = _split(edges, start)
    found = np.empty((256, n_words), np.uint64)
    if missed.shape[0] == 0:
        found[0] = start
        control[1] += 1
        return found[:1].copy()
    holders, holders_once = _transposed(missed), _transposed(once)
    n_start, width, width_once = _n_common(start, start), holders.shape[1], holders_once.shape[1]
    depths = 3 * groups.shape[0] + 2
    # At each depth: the cover, its candidates, the vertices still to try, the edges not hit yet, how many groups.
    cover, allowed = np.zeros((depths, n_words), np.uint64), np.zeros((depths, n_words), np.uint64)
    branch, alive = np.zeros((depths, n_words), np.uint64), np.zeros((depths, width), np.uint64)
    n_groups = np.zeros(depths, np.int64)
    # The edges that only one vertex of the cover hits: the vertices of `start` first, then one a depth.
    critical_once = np.zeros((depths, n_start, width_once), np.uint64)
    critical = np.zeros((8, 8, width), np.uint64)
    n_found = 0
    cover[0], critical_once[0] = start, _start_critical(once, start)
    allowed[0] = _allowed(start, candidates, group_of, groups, limits[0])
    n_groups[0] = _count_groups(start, group_of, groups)
    for edge in range(missed.shape[0]):
        alive[0, edge >> 6] |= _ONE << np.uint64(edge & 63)
    depth = 0
    _branch(missed, alive[0], allowed[0], branch[0], limits[2])
    while depth >= 0 and control[0] == 0:
        vertex = _next_vertex(branch[depth])
        if vertex < 0:
            depth -= 1
            continue
        if not _stays_minimal(critical_once[depth], holders_once[vertex], critical[depth], holders[vertex], depth):
            continue
        cover[depth + 1], allowed[depth + 1] = cover[depth], allowed[depth]
        allowed[depth, vertex >> 6] |= _ONE << np.uint64(vertex & 63)
        fresh = _join(vertex, cover[depth + 1], allowed[depth + 1], group_of, groups)
        if not _minus(alive[depth], holders[vertex], alive[depth + 1]):
            if n_found == found.shape[0]:
                found = _doubled(found)
            found[n_found] = cover[depth + 1]
            n_found += 1
            control[1] += 1
            if control[1] >= limits[1]:
                control[0] = 1
            continue
        n_groups[depth + 1] = n_groups[depth] + fresh
        if n_groups[depth + 1] >= limits[0]:
            _keep_groups(cover[depth + 1], allowed[depth + 1], group_of, groups)
        if not _branch(missed, alive[depth + 1], allowed[depth + 1], branch[depth + 1], limits[2]):
            continue
        if depth + 2 > critical.shape[0]:
            critical = _deeper(critical)
        for k in range(n_start):
            _minus(critical_once[depth, k], holders_once[vertex], critical_once[depth + 1, k])
        for k in range(depth):
            _minus(critical[depth, k], holders[vertex], critical[depth + 1, k])
        for k in range(width):
            critical[depth + 1, depth, k] = alive[depth, k] & holders[vertex, k]
        depth += 1
    return found[:n_found].copy()


@kernel
def _count_groups(cover: UInt64Array, group_of: Int64Array, groups: Int64Array) -> int:
    n_groups = 0
    for group in range(groups.shape[0]):
        word = cover[groups[group, 0] >> 6] >> np.uint64(groups[group, 0] & 63)
        n_groups += (word & np.uint64(groups[group, 1])) != _ZERO
    return n_groups


@kernel
def _branch(
    edges: UInt64Array, alive: UInt64Array, allowed: UInt64Array, branch: UInt64Array, n_looks: int
) -> bool:
    """Choose the edge to hit next; its candidates move to `branch`. False where some edge has none."""
    edge = _fewest(edges, alive, allowed, n_looks)
    if edge < 0:
        branch[:] = _ZERO
        return False
    for word in range(allowed.size):
        branch[word] = edges[edge, word] & allowed[word]
        allowed[word] &= ~branch[word]
    return True


@kernel
def _next_vertex(branch: UInt64Array) -> int:
    """Take the lowest vertex out of a set; -1 where there is none."""
    for word in range(branch.size):
        if branch[word] != _ZERO:
            vertex = 64 * word + np.int64(lowest(branch[word]))
            branch[word] &= branch[word] - _ONE
            return vertex
    return -1


@kernel
def _stays_minimal(
    critical_once: UInt64Array, holders_once: UInt64Array, critical: UInt64Array, holders: UInt64Array, depth: int
) -> bool:
    """Whether each vertex of the cover still has an edge of its own when another joins."""
    for k in range(critical_once.shape[0]):
        if not _outside(critical_once[k], holders_once):
            return False
    for k in range(depth - 1, -1, -1):
        if not _outside(critical[k], holders):
            return False
    return True


@kernel
def _minus(left: UInt64Array, right: UInt64Array, out: UInt64Array) -> bool:
    """out = left without right; whether anything is left."""
    found = _ZERO
    for k in range(left.size):
        kept = left[k] & ~right[k]
        out[k] = kept
        found |= kept
    return found != _ZERO


@kernel
def _doubled(found: UInt64Array) -> UInt64Array:
    larger = np.empty((2 * found.shape[0], found.shape[1]), np.uint64)
    larger[: found.shape[0]] = found
    return larger


@kernel
def _deeper(critical: UInt64Array) -> UInt64Array:
    n = critical.shape[0]
    larger = np.zeros((2 * n, 2 * n, critical.shape[2]), np.uint64)
    larger[:n, :n] = critical
    return larger
