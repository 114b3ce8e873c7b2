"""Minimal covers: all minimal sets of vertices that hit every edge. Also what all searches for covers share.

MMCS of Murakami and Uno (Discrete Applied Mathematics 170, 2014) on bitsets over the edges. Vertices come in groups
(the vertices of one comparison), and some sets of vertices of one group are forbidden in a cover. Every subset of an
allowed set is allowed too, so forbidden vertices are simply never tried.

edges      uint64[n_edges, n_words], one bit per vertex.
start      uint64[n_words]: only covers that contain these vertices are sought ...
candidates uint64[n_words]: ... and otherwise take vertices from these.
limits     a tuple of four arrays:
  group_of int64[64 * n_words]: the group of each vertex.
  groups   int64[n_groups, 18]: a group's first vertex, the mask of its vertices counted from there, and for each of
           16 sets of them the vertices that may not join it.
  most     int64[2 or 4]: the most groups in a cover, the most covers to find; for near covers see `near`.
  control  int64[2]: set control[0] from another thread to stop early; control[1] counts covers found, over all calls.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.kernels.bits import ONE, ZERO, bit, count_common, has, lowest, popcount
from naysay.kernels.compile import kernel

CoverLimits = tuple[Int64Array, Int64Array, Int64Array, Int64Array]

# How many edges of its own are remembered for each vertex of a cover.
_OWN = 4
_STRIDE = 16


@kernel
def count_missed(edges: UInt64Array, counts: Int64Array, covers: UInt64Array, enough: int) -> Int64Array:
    """For each cover the sum of the counts of the edges that it misses; it may stop once that is > enough.

    edges uint64[n_edges, n_words], counts int64[n_edges], covers uint64[n_covers, n_words]. O(n_edges * n_covers).
    """
    n_edges, n_words = edges.shape
    missed = np.zeros(covers.shape[0], np.int64)
    for place in range(covers.shape[0]):
        total = 0
        for edge in range(n_edges):
            common = ZERO
            for word in range(n_words):
                common |= edges[edge, word] & covers[place, word]
            if common == ZERO:
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

    Pairs that fail every vertex of the group, because a value is null, test nothing and are not counted. The last
    column counts the pairs that break the rule. A group lies within one word. int64[n_covers, n_groups + 1];
    O(n_edges * n_covers).
    """
    n_edges, n_words = edges.shape
    near = np.zeros((covers.shape[0], groups.shape[0] + 1), np.int64)
    for place in range(covers.shape[0]):
        for edge in range(n_edges):
            hit = -1
            for word in range(n_words):
                common = edges[edge, word] & covers[place, word]
                if common == ZERO:
                    continue
                if hit >= 0:
                    hit = -2
                    break
                group = group_of[64 * word + np.int64(lowest(common))]
                if common & ~_mask(groups, group) != ZERO:
                    hit = -2
                    break
                mask = _mask(groups, group)
                hit = group if edges[edge, word] & mask != mask else -2
                if hit == -2:
                    break
            if hit != -2:
                near[place, hit] += counts[edge]
    return near


@kernel
def _mask(groups: Int64Array, group: int) -> np.uint64:
    """The bits of a group's vertices in their word."""
    return np.uint64(groups[group, 1]) << np.uint64(groups[group, 0] & 63)


@kernel
def join_vertex(
    vertex: int, cover: UInt64Array, candidates: UInt64Array, group_of: Int64Array, groups: Int64Array
) -> bool:
    """Add a vertex to a cover and take what may no longer join it out of the candidates.

    Returns whether the vertex is the first of its group.
    """
    word = vertex >> 6
    group = group_of[vertex]
    shift = np.uint64(groups[group, 0] & 63)
    own = np.uint64(groups[group, 1])
    is_first = (cover[word] >> shift) & own == ZERO
    cover[word] |= bit(vertex)
    chosen = np.int64((cover[word] >> shift) & own)
    candidates[word] &= ~(np.uint64(chosen | groups[group, 2 + chosen]) << shift)
    return is_first


@kernel
def may_join(vertex: int, cover: UInt64Array, group_of: Int64Array, groups: Int64Array) -> bool:
    """Whether no vertex of a cover forbids another one."""
    group = group_of[vertex]
    first = groups[group, 0]
    chosen = np.int64((cover[vertex >> 6] >> np.uint64(first & 63)) & np.uint64(groups[group, 1]))
    return (groups[group, 2 + chosen] >> (vertex - first)) & 1 == 0


@kernel
def keep_groups(cover: UInt64Array, candidates: UInt64Array, group_of: Int64Array, groups: Int64Array) -> None:
    """Remove every candidate that would bring a new group into the cover."""
    for word in range(cover.size):
        left = cover[word]
        kept = ZERO
        while left != ZERO:
            mask = _mask(groups, group_of[64 * word + np.int64(lowest(left))])
            left &= ~mask
            kept |= mask
        candidates[word] &= kept


@kernel
def select_allowed(start: UInt64Array, candidates: UInt64Array, limits: CoverLimits) -> UInt64Array:
    """The candidates that may join `start`."""
    group_of, groups, most, _ = limits
    allowed = candidates.copy()
    cover = np.zeros(start.size, np.uint64)
    n_groups = 0
    for word in range(start.size):
        left = start[word]
        while left != ZERO:
            n_groups += join_vertex(64 * word + np.int64(lowest(left)), cover, allowed, group_of, groups)
            left &= left - ONE
    if n_groups >= most[0]:
        keep_groups(cover, allowed, group_of, groups)
    return allowed


@kernel
def count_groups(cover: UInt64Array, limits: CoverLimits) -> int:
    """The number of groups that a cover has vertices of."""
    groups = limits[1]
    n_groups = 0
    for group in range(groups.shape[0]):
        n_groups += cover[groups[group, 0] >> 6] & _mask(groups, group) != ZERO
    return n_groups


@kernel
def take_branch(edge: UInt64Array, allowed: UInt64Array, branch: UInt64Array) -> None:
    """Move the allowed vertices of an edge to `branch`."""
    for word in range(allowed.size):
        branch[word] = edge[word] & allowed[word]
        allowed[word] &= ~branch[word]


@kernel
def next_vertex(branch: UInt64Array) -> int:
    """Take the lowest vertex out of a set; -1 if it is empty."""
    for word in range(branch.size):
        if branch[word] != ZERO:
            vertex = 64 * word + np.int64(lowest(branch[word]))
            branch[word] &= branch[word] - ONE
            return vertex
    return -1


@kernel
def append_set(sets: UInt64Array, n_sets: int, added: UInt64Array) -> UInt64Array:
    """Write a set to sets[n_sets], of an array twice as long if it is full; returns the array."""
    if n_sets == sets.shape[0]:
        sets = double_sets(sets)
    sets[n_sets] = added
    return sets


@kernel
def double_sets(sets: UInt64Array) -> UInt64Array:
    """The same sets in an array twice as long."""
    larger = np.empty((2 * sets.shape[0], sets.shape[1]), np.uint64)
    larger[: sets.shape[0]] = sets
    return larger


@kernel
def find_holders(edges: UInt64Array, stride: int) -> UInt64Array:
    """For each vertex the set of edges that contain it, in whole strides of words."""
    n_edges, n_words = edges.shape
    n_strides = (n_edges + 64 * stride - 1) // (64 * stride)
    holders = np.zeros((64 * n_words, max(1, n_strides) * stride), np.uint64)
    for edge in range(n_edges):
        for word in range(n_words):
            left = edges[edge, word]
            while left != ZERO:
                holders[64 * word + np.int64(lowest(left)), edge >> 6] |= bit(edge)
                left &= left - ONE
    return holders


@kernel
def add_hits(
    once: UInt64Array, twice: UInt64Array, held: UInt64Array, next_once: UInt64Array, next_twice: UInt64Array
) -> None:
    """The edges that a cover hits at least once, and twice, after a vertex that is in the edges `held` has joined."""
    for k in range(once.size):
        next_twice[k] = twice[k] | (once[k] & held[k])
        next_once[k] = once[k] | held[k]


@kernel
def expand(
    edges: UInt64Array, start: UInt64Array, candidates: UInt64Array, limits: CoverLimits
) -> tuple[UInt64Array, UInt64Array, bool]:
    """One level of the search: starts and candidates of the branches below, and whether `start` is a cover already.

    The branches partition the covers, so that each can be searched by itself.
    """
    n_words = edges.shape[1]
    starts, below = np.zeros((2, 64 * n_words, n_words), np.uint64)
    allowed = select_allowed(start, candidates, limits)
    best = 64 * n_words + 1
    chosen = -1
    for edge in range(edges.shape[0]):
        if count_common(edges[edge], start) == 0:
            n_common = count_common(edges[edge], allowed)
            if n_common < best:
                best = n_common
                chosen = edge
    if chosen < 0:
        return starts[:0].copy(), below[:0].copy(), True
    branch = np.empty(n_words, np.uint64)
    take_branch(edges[chosen], allowed, branch)
    n_branches = 0
    vertex = next_vertex(branch)
    while vertex >= 0 and limits[3][0] == 0:
        starts[n_branches] = start
        starts[n_branches, vertex >> 6] |= bit(vertex)
        if is_irredundant(edges, starts[n_branches]):
            below[n_branches] = allowed
            allowed[vertex >> 6] |= bit(vertex)
            n_branches += 1
        vertex = next_vertex(branch)
    return starts[:n_branches].copy(), below[:n_branches].copy(), False


@kernel
def is_irredundant(edges: UInt64Array, cover: UInt64Array) -> bool:
    """Whether each vertex is the only one of the cover in some edge."""
    needed = np.zeros(cover.size, np.uint64)
    n_left = count_common(cover, cover)
    for edge in range(edges.shape[0]):
        if count_common(edges[edge], cover) == 1:
            for word in range(cover.size):
                hit = edges[edge, word] & cover[word]
                if hit & ~needed[word] != ZERO:
                    needed[word] |= hit
                    n_left -= 1
            if n_left == 0:
                return True
    return n_left == 0


@kernel
def _recollect(
    edges: UInt64Array, holders: UInt64Array, once: UInt64Array, depth: int, vertex: int, member: int, own: UInt64Array
) -> int:
    """Collect edges that only one member of a cover hits after a vertex joins. Their number; -n if n are all of them.

    once[0, depth] and once[1, depth] are the edges that the cover hits at least once, and twice. Writes at most as
    many as `own` has room for.
    """
    hit_once, hit_twice, joining, hit = once[0, depth], once[1, depth], holders[vertex], holders[member]
    n_own = 0
    for block in range(hit.size // _STRIDE):
        first = block * _STRIDE
        found = ZERO
        for k in range(_STRIDE):
            word = first + k
            found |= hit_once[word] & ~(hit_twice[word] | joining[word]) & hit[word]
        if found == ZERO:
            continue
        for k in range(_STRIDE):
            word = first + k
            alone = hit_once[word] & ~(hit_twice[word] | joining[word]) & hit[word]
            while alone != ZERO:
                if n_own == own.shape[0]:
                    return n_own
                own[n_own] = edges[64 * word + np.int64(lowest(alone))]
                n_own += 1
                alone &= alone - ONE
    return -n_own


@kernel
def _keep_own(own: UInt64Array, n_own: Int64Array, depth: int, place: int, vertex: int) -> None:
    """Copy the edges of a member that do not contain a vertex to the next depth."""
    word = vertex >> 6
    shift = np.uint64(vertex & 63)
    n_kept = 0
    for k in range(abs(n_own[depth, place])):
        for part in range(own.shape[3]):
            own[depth + 1, place, n_kept, part] = own[depth, place, k, part]
        n_kept += np.int64(~(own[depth, place, k, word] >> shift) & ONE)
    n_own[depth + 1, place] = n_kept if n_own[depth, place] > 0 else -n_kept


@kernel
def _hits(live: UInt64Array, vertex: int, own: UInt64Array) -> int:
    """Collect edges that contain a vertex, with the result of `_recollect`."""
    n_own = 0
    for edge in range(live.shape[0]):
        if has(live[edge], vertex):
            if n_own == own.shape[0]:
                return n_own
            own[n_own] = live[edge]
            n_own += 1
    return -n_own


@kernel
def _filter(live: UInt64Array, start: int, stop: int, vertex: int, allowed: UInt64Array) -> tuple[int, int]:
    """Copy the live edges in [start, stop) that do not contain a vertex to the places from `stop` on.

    Returns the end of the copy and the edge in it with the fewest allowed vertices, -1 if one has none.
    """
    n_words = live.shape[1]
    place = vertex >> 6
    shift = np.uint64(vertex & 63)
    most = np.uint64(64 * n_words + 1)
    fewest = most
    chosen = stop
    end = stop
    for edge in range(start, stop):
        # Whether an edge stays is a coin toss, so there is no branch on it: each is written, the next overwrites it.
        n_common = ZERO
        for word in range(n_words):
            live[end, word] = live[edge, word]
            n_common += popcount(live[edge, word] & allowed[word])
        stays = ~(live[edge, place] >> shift) & ONE
        n_common = n_common if stays != ZERO else most
        if n_common < fewest:
            fewest = n_common
            chosen = end
        end += np.int64(stays)
    return end, chosen if fewest > ZERO else -1


@kernel
def _at_most_once(edges: UInt64Array, start: UInt64Array) -> UInt64Array:
    """The edges that `start` hits at most once: those hit more often never matter again. Missed ones come first."""
    kept = np.empty_like(edges)
    n_kept = 0
    for n_hits in range(2):
        for edge in range(edges.shape[0]):
            if count_common(edges[edge], start) == n_hits:
                kept[n_kept] = edges[edge]
                n_kept += 1
    return kept[:n_kept].copy()


@kernel
def search_covers(edges: UInt64Array, start: UInt64Array, candidates: UInt64Array, limits: CoverLimits) -> UInt64Array:
    """All minimal covers of one branch of the search, uint64[n, n_words], in no particular order.

    `start` is irredundant (see `expand`); the edges should come in random order. A node of the search costs about
    its live edges and a few operations for each vertex of its cover, rarely n_edges / 64 more.
    """
    group_of, groups, most, control = limits
    n_words = edges.shape[1]
    edges = _at_most_once(edges, start)
    holders = find_holders(edges, _STRIDE)
    depths = 3 * groups.shape[0] + 3
    # At each depth: the cover and its members, its candidates, the vertices still to try, its number of groups, and
    # the end of its live edges in `live`. For each member, own[depth, place] has some edges that only it hits; n_own
    # is how many, negative if they are all.
    cover, allowed, branch = np.zeros((3, depths, n_words), np.uint64)
    members, n_groups, ends = np.zeros((3, depths), np.int64)
    n_start = 0
    for vertex in range(64 * n_words):
        if has(start, vertex):
            members[n_start] = vertex
            n_start += 1
    room = max(16, n_start + 2)
    own, n_own = np.empty((room, room, _OWN, n_words), np.uint64), np.zeros((depths, depths), np.int64)
    once = np.zeros((2, depths, holders.shape[1]), np.uint64)
    live = np.empty((2 * edges.shape[0] + 64, n_words), np.uint64)
    found, n_found = np.empty((64, n_words), np.uint64), 0
    cover[0] = start
    for place in range(n_start):
        n_own[0, place] = _hits(edges, members[place], own[0, place])
        add_hits(once[0, 0], once[1, 0], holders[members[place]], once[0, 0], once[1, 0])
    while ends[0] < edges.shape[0] and count_common(edges[ends[0]], start) == 0:
        live[ends[0]] = edges[ends[0]]
        ends[0] += 1
    if ends[0] == 0:
        control[1] += 1
        return cover[:1].copy()
    allowed[0] = select_allowed(start, candidates, limits)
    n_groups[0] = count_groups(start, limits)
    chosen = _fewest(live[: ends[0]], allowed[0])
    depth = 0 if chosen >= 0 else -1
    take_branch(live[max(chosen, 0)], allowed[0], branch[0])
    while depth >= 0 and control[0] == 0:
        vertex = next_vertex(branch[depth])
        if vertex < 0:
            depth -= 1
            continue
        below, size = depth + 1, n_start + depth
        if max(below, size) + 1 >= own.shape[0]:
            own = _deepen(own)
        # Each member must keep an edge of its own. The remembered ones that the vertex leaves to it go to the next
        # depth; if it leaves none of them, others are looked for.
        is_minimal = True
        for place in range(size - 1, -1, -1):
            _keep_own(own, n_own, depth, place, vertex)
            if n_own[below, place] == 0 and n_own[depth, place] >= 0:
                n_own[below, place] = _recollect(edges, holders, once, depth, vertex, members[place], own[below, place])
            if n_own[below, place] == 0:
                is_minimal = False
                break
        if not is_minimal:
            continue
        cover[below], allowed[below] = cover[depth], allowed[depth]
        allowed[depth, vertex >> 6] |= bit(vertex)
        n_groups[below] = n_groups[depth] + join_vertex(vertex, cover[below], allowed[below], group_of, groups)
        if n_groups[below] >= most[0]:
            keep_groups(cover[below], allowed[below], group_of, groups)
        first = ends[depth - 1] if depth else 0
        if 2 * ends[depth] - first > live.shape[0]:
            live = double_sets(live)
        ends[below], chosen = _filter(live, first, ends[depth], vertex, allowed[below])
        if ends[below] == ends[depth]:
            found = append_set(found, n_found, cover[below])
            n_found += 1
            control[1] += 1
            if control[1] >= most[1]:
                control[0] = 1
        elif chosen >= 0:
            take_branch(live[chosen], allowed[below], branch[below])
            add_hits(once[0, depth], once[1, depth], holders[vertex], once[0, below], once[1, below])
            n_own[below, size] = _hits(live[first : ends[depth]], vertex, own[below, size])
            members[size] = vertex
            depth = below
    return found[:n_found].copy()


@kernel
def _deepen(own: UInt64Array) -> UInt64Array:
    n = own.shape[0]
    larger = np.empty((2 * n, 2 * n, own.shape[2], own.shape[3]), np.uint64)
    larger[:n, :n] = own
    return larger


@kernel
def _fewest(live: UInt64Array, allowed: UInt64Array) -> int:
    """The edge with the fewest allowed vertices, or -1 if one has none."""
    fewest = 64 * allowed.size + 1
    chosen = -1
    for edge in range(live.shape[0]):
        n_common = count_common(live[edge], allowed)
        if n_common < fewest:
            fewest = n_common
            chosen = edge
    return chosen if fewest > 0 else -1
