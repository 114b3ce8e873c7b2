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
limits     int64[2]: the most groups in a cover, the most covers to find.
control    int64[2]: set control[0] from elsewhere to stop early; control[1] counts covers found, over all calls.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.kernels.compile import kernel
from naysay.kernels.sort import lowest, popcount

_ZERO = np.uint64(0)


@kernel
def count_missed(edges: UInt64Array, counts: Int64Array, covers: UInt64Array, enough: int) -> Int64Array:
    """For each cover the sum of the counts of the edges that it does not hit; it may stop once that is > enough.

    edges uint64[n_edges, n_words], counts int64[n_edges], covers uint64[n_covers, n_words]. O(n_edges * n_covers).
    """
    n_edges, n_words = edges.shape
    missed = np.zeros(covers.shape[0], np.int64)
    for place in range(covers.shape[0]):
        total = 0
        for edge in range(n_edges):
            common = _ZERO
            for word in range(n_words):
                common |= edges[edge, word] & covers[place, word]
            if common == _ZERO:
                total += counts[edge]
                if total > enough:
                    break
        missed[place] = total
    return missed


@kernel
def count_near_misses(
    edges: UInt64Array, counts: Int64Array, covers: UInt64Array, group_of: Int64Array, groups: Int64Array
) -> Int64Array:
    """For each cover and group: the pairs that only this group's vertices keep from breaking the rule.

    The last column counts the pairs that break it. group_of and groups as in `kernels.cover`; a group lies within
    one word. int64[n_covers, n_groups + 1]; O(n_edges * n_covers).
    """
    n_edges, n_words = edges.shape
    n_groups = groups.shape[0]
    near = np.zeros((covers.shape[0], n_groups + 1), np.int64)
    for place in range(covers.shape[0]):
        for edge in range(n_edges):
            hit = -1
            for word in range(n_words):
                common = edges[edge, word] & covers[place, word]
                if common == _ZERO:
                    continue
                if hit >= 0:
                    hit = -2
                    break
                group = group_of[64 * word + np.int64(lowest(common))]
                mask = np.uint64(groups[group, 1]) << np.uint64(groups[group, 0] & 63)
                if common & ~mask != _ZERO:
                    hit = -2
                    break
                hit = group
            if hit != -2:
                near[place, hit] += counts[edge]
    return near


# ruff: noqa: SIM110  (numba compiles loops, not generators)


_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
# How many edges of its own are remembered for each vertex of a cover.
_OWN = 4
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
    edges: UInt64Array,
    start: UInt64Array,
    candidates: UInt64Array,
    group_of: Int64Array,
    groups: Int64Array,
    limits: Int64Array,
    control: Int64Array,
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
        while branch[word] != _ZERO and control[0] == 0:
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
    """For each vertex the set of edges that hold it, in whole strides of words."""
    n_edges, n_words = edges.shape
    n_strides = (n_edges + 64 * _STRIDE - 1) // (64 * _STRIDE)
    holders = np.zeros((64 * n_words, max(1, n_strides) * _STRIDE), np.uint64)
    for edge in range(n_edges):
        bit = _ONE << np.uint64(edge & 63)
        for word in range(n_words):
            left = edges[edge, word]
            while left != _ZERO:
                holders[64 * word + np.int64(lowest(left)), edge >> 6] |= bit
                left &= left - _ONE
    return holders


@kernel
def _recollect(
    edges: UInt64Array, holders: UInt64Array, once: UInt64Array, depth: int, vertex: int, member: int, own: UInt64Array
) -> int:
    """Collect edges that only one member of a cover hits, when a vertex joins. How many; -n where n are all.

    once[0, depth] and once[1, depth] are the edges that the cover hits at least once, and twice. Writes at most as
    many as `own` has room for.
    """
    hit_once, hit_twice, joining, hit = once[0, depth], once[1, depth], holders[vertex], holders[member]
    n_own = 0
    for block in range(hit.size // _STRIDE):
        first = block * _STRIDE
        found = _ZERO
        for k in range(_STRIDE):
            word = first + k
            found |= hit_once[word] & ~(hit_twice[word] | joining[word]) & hit[word]
        if found == _ZERO:
            continue
        for k in range(_STRIDE):
            word = first + k
            alone = hit_once[word] & ~(hit_twice[word] | joining[word]) & hit[word]
            while alone != _ZERO:
                if n_own == own.shape[0]:
                    return n_own
                own[n_own] = edges[64 * word + np.int64(lowest(alone))]
                n_own += 1
                alone &= alone - _ONE
    return -n_own


@kernel
def _keep_own(own: UInt64Array, n_own: Int64Array, depth: int, place: int, vertex: int) -> None:
    """Copy the edges of a member that do not hold a vertex to the next depth."""
    word = vertex >> 6
    bit = np.uint64(vertex & 63)
    n_kept = 0
    for k in range(abs(n_own[depth, place])):
        for part in range(own.shape[3]):
            own[depth + 1, place, n_kept, part] = own[depth, place, k, part]
        n_kept += np.int64(~(own[depth, place, k, word] >> bit) & _ONE)
    n_own[depth + 1, place] = n_kept if n_own[depth, place] > 0 else -n_kept


@kernel
def _hit(once: UInt64Array, depth: int, below: int, holders: UInt64Array, vertex: int) -> None:
    """The edges that a cover hits at least once, and twice, after a vertex joined."""
    hit_once, hit_twice, hit = once[0, depth], once[1, depth], holders[vertex]
    next_once, next_twice = once[0, below], once[1, below]
    for k in range(hit.size):
        next_twice[k] = hit_twice[k] | (hit_once[k] & hit[k])
        next_once[k] = hit_once[k] | hit[k]


@kernel
def _stays_minimal(
    edges: UInt64Array,
    holders: UInt64Array,
    once: UInt64Array,
    own: UInt64Array,
    n_own: Int64Array,
    members: Int64Array,
    depth: int,
    size: int,
    vertex: int,
) -> bool:
    """Whether each member of a cover still has an edge of its own when a vertex joins.

    own[depth, place] are some edges that only that member hits, n_own how many, negative where they are all. Those
    that the vertex leaves to it go to the next depth; where it leaves none of them, others are looked for.
    """
    for place in range(size - 1, -1, -1):
        _keep_own(own, n_own, depth, place, vertex)
        if n_own[depth + 1, place] == 0:
            if n_own[depth, place] < 0:
                return False
            n_own[depth + 1, place] = _recollect(
                edges, holders, once, depth, vertex, members[place], own[depth + 1, place]
            )
            if n_own[depth + 1, place] == 0:
                return False
    return True


@kernel
def _hits(live: UInt64Array, vertex: int, own: UInt64Array) -> int:
    """Collect edges that hold a vertex, as `_recollect` does."""
    word = vertex >> 6
    bit = np.uint64(vertex & 63)
    n_own = 0
    for edge in range(live.shape[0]):
        if (live[edge, word] >> bit) & _ONE != _ZERO:
            if n_own == own.shape[0]:
                return n_own
            own[n_own] = live[edge]
            n_own += 1
    return -n_own


@kernel
def _filter(live: UInt64Array, start: int, stop: int, vertex: int, allowed: UInt64Array) -> tuple[int, int]:
    """Copy the live edges in [start, stop) that do not hold a vertex behind themselves.

    Gives the end of the copy and the edge in it with the fewest allowed vertices, -1 where one has none.
    """
    n_words = live.shape[1]
    place = vertex >> 6
    bit = np.uint64(vertex & 63)
    most = np.uint64(64 * n_words + 1)
    fewest = most
    chosen = stop
    end = stop
    for edge in range(start, stop):
        # Whether an edge stays is a coin toss, so it is not branched on: each is written, and the next overwrites it.
        n_common = _ZERO
        for word in range(n_words):
            live[end, word] = live[edge, word]
            n_common += popcount(live[edge, word] & allowed[word])
        stays = ~(live[edge, place] >> bit) & _ONE
        n_common = n_common if stays != _ZERO else most
        if n_common < fewest:
            fewest = n_common
            chosen = end
        end += np.int64(stays)
    return end, chosen if fewest > _ZERO else -1


@kernel
def _at_most_once(edges: UInt64Array, start: UInt64Array) -> UInt64Array:
    """The edges that `start` hits at most once: those hit more often never matter again. Missed ones come first."""
    n_edges, n_words = edges.shape
    kept = np.empty((n_edges, n_words), np.uint64)
    n_kept = 0
    for n_hits in range(2):
        for edge in range(n_edges):
            if _n_common(edges[edge], start) == n_hits:
                kept[n_kept] = edges[edge]
                n_kept += 1
    return kept[:n_kept].copy()


@kernel
def _members(cover: UInt64Array, members: Int64Array) -> int:
    """Write the vertices of a cover to `members`; gives their number."""
    n_members = 0
    for vertex in range(64 * cover.size):
        if (cover[vertex >> 6] >> np.uint64(vertex & 63)) & _ONE != _ZERO:
            members[n_members] = vertex
            n_members += 1
    return n_members


@kernel
def _take_branch(edge: UInt64Array, allowed: UInt64Array, branch: UInt64Array) -> None:
    """Move the allowed vertices of an edge to `branch`."""
    for word in range(allowed.size):
        branch[word] = edge[word] & allowed[word]
        allowed[word] &= ~branch[word]


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
def _doubled(rows: UInt64Array) -> UInt64Array:
    larger = np.empty((2 * rows.shape[0], rows.shape[1]), np.uint64)
    larger[: rows.shape[0]] = rows
    return larger


@kernel
def _count_groups(cover: UInt64Array, groups: Int64Array) -> int:
    n_groups = 0
    for group in range(groups.shape[0]):
        word = cover[groups[group, 0] >> 6] >> np.uint64(groups[group, 0] & 63)
        n_groups += (word & np.uint64(groups[group, 1])) != _ZERO
    return n_groups


@kernel
def search_covers(
    edges: UInt64Array,
    start: UInt64Array,
    candidates: UInt64Array,
    group_of: Int64Array,
    groups: Int64Array,
    limits: Int64Array,
    control: Int64Array,
) -> UInt64Array:
    """All minimal covers of one branch of the search, uint64[n, n_words], in no particular order.

    `start` is irredundant (see `expand`); the edges should come in a random order. A node of the search costs about
    its live edges and a few for each vertex of its cover, seldom n_edges / 64 more.
    """
    n_words = edges.shape[1]
    edges = _at_most_once(edges, start)
    holders = _transposed(edges)
    depths = 3 * groups.shape[0] + 3
    # At each depth: the cover and its members, its candidates, the vertices still to try, its number of groups, and
    # where its live edges end in `live`; for each member some edges of its own.
    cover, allowed, branch = np.zeros((3, depths, n_words), np.uint64)
    members, n_groups, ends = np.zeros((3, depths), np.int64)
    n_start = _members(start, members)
    room = max(16, n_start + 2)
    own, n_own = np.empty((room, room, _OWN, n_words), np.uint64), np.zeros((depths, depths), np.int64)
    once = np.zeros((2, depths, holders.shape[1]), np.uint64)
    live = np.empty((2 * edges.shape[0] + 64, n_words), np.uint64)
    found, n_found = np.empty((64, n_words), np.uint64), 0
    cover[0] = start
    for place in range(n_start):
        n_own[0, place] = _hits(edges, members[place], own[0, place])
        _hit(once, 0, 0, holders, members[place])
    while ends[0] < edges.shape[0] and _disjoint(edges[ends[0]], start):
        live[ends[0]] = edges[ends[0]]
        ends[0] += 1
    if ends[0] == 0:
        control[1] += 1
        return cover[:1].copy()
    allowed[0] = _allowed(start, candidates, group_of, groups, limits[0])
    n_groups[0] = _count_groups(start, groups)
    chosen = _fewest(live[: ends[0]], allowed[0])
    depth = 0 if chosen >= 0 else -1
    _take_branch(live[max(chosen, 0)], allowed[0], branch[0])
    while depth >= 0 and control[0] == 0:
        vertex = _next_vertex(branch[depth])
        if vertex < 0:
            depth -= 1
            continue
        below, size = depth + 1, n_start + depth
        if max(below, size) + 1 >= own.shape[0]:
            own = _deeper(own)
        if not _stays_minimal(edges, holders, once, own, n_own, members, depth, size, vertex):
            continue
        cover[below], allowed[below] = cover[depth], allowed[depth]
        allowed[depth, vertex >> 6] |= _ONE << np.uint64(vertex & 63)
        n_groups[below] = n_groups[depth] + _join(vertex, cover[below], allowed[below], group_of, groups)
        if n_groups[below] >= limits[0]:
            _keep_groups(cover[below], allowed[below], group_of, groups)
        first = ends[depth - 1] if depth else 0
        if 2 * ends[depth] - first > live.shape[0]:
            live = _doubled(live)
        ends[below], chosen = _filter(live, first, ends[depth], vertex, allowed[below])
        if ends[below] == ends[depth]:
            if n_found == found.shape[0]:
                found = _doubled(found)
            found[n_found] = cover[below]
            n_found += 1
            control[1] += 1
            if control[1] >= limits[1]:
                control[0] = 1
        elif chosen >= 0:
            _take_branch(live[chosen], allowed[below], branch[below])
            _hit(once, depth, below, holders, vertex)
            n_own[below, size] = _hits(live[first : ends[depth]], vertex, own[below, size])
            members[size] = vertex
            depth = below
    return found[:n_found].copy()


@kernel
def _deeper(own: UInt64Array) -> UInt64Array:
    n = own.shape[0]
    larger = np.empty((2 * n, 2 * n, own.shape[2], own.shape[3]), np.uint64)
    larger[:n, :n] = own
    return larger


@kernel
def _fewest(live: UInt64Array, allowed: UInt64Array) -> int:
    """The edge with the fewest allowed vertices, or -1 where one has none."""
    fewest = 64 * allowed.size + 1
    chosen = -1
    for edge in range(live.shape[0]):
        n_common = _n_common(live[edge], allowed)
        if n_common < fewest:
            fewest = n_common
            chosen = edge
    return chosen if fewest > 0 else -1
