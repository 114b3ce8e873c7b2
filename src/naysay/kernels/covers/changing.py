"""Minimal covers of edges that come and go, from the covers there were before.

Arrays and limits as in `covers.minimal`; `holders` is `find_holders(edges, 1)`: for each vertex the set of edges that
contain it. An edge that a cover hits just once is *own* to the vertex that hits it; a cover is minimal if each of its
vertices has an own edge.

When edges come, a cover that misses one grows, and every new cover contains an old one: `grow_covers`. When edges go,
every new cover misses one of those, so it uses only vertices outside it: `reduce_edges` is the small problem that is
left there; covers that are no longer minimal are found by `are_minimal`.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import BoolArray, Int64Array, UInt64Array
from naysay.kernels.bits import ONE, ZERO, bit, count_common, has, lowest, popcount
from naysay.kernels.compile import kernel
from naysay.kernels.covers.minimal import (
    CoverLimits,
    add_hits,
    append_set,
    count_groups,
    double_sets,
    find_holders,
    join_vertex,
    keep_groups,
    may_join,
    next_vertex,
    select_allowed,
)


@kernel
def _collect_hit(cover: UInt64Array, holders: UInt64Array, hit: UInt64Array) -> None:
    """Write the set of edges that a cover hits to `hit`."""
    hit[:] = ZERO
    for vertex in range(64 * cover.size):
        if has(cover, vertex):
            for k in range(hit.size):
                hit[k] |= holders[vertex, k]


@kernel
def first_missed(covers: UInt64Array, n_edges: int, holders: UInt64Array) -> Int64Array:
    """For each cover the first edge that it misses, -1 if it hits all. n_edges / 64 for each vertex."""
    missed = np.full(covers.shape[0], -1, np.int64)
    hit = np.zeros(holders.shape[1], np.uint64)
    for number in range(covers.shape[0]):
        _collect_hit(covers[number], holders, hit)
        for k in range(hit.size):
            if ~hit[k] != ZERO:
                edge = 64 * k + np.int64(lowest(~hit[k]))
                if edge < n_edges:
                    missed[number] = edge
                break
    return missed


@kernel
def missed_by_some(covers: UInt64Array, n_edges: int, holders: UInt64Array) -> BoolArray:
    """For each edge whether some cover misses it. n_edges / 64 for each vertex of each cover."""
    hit, missed = np.zeros((2, holders.shape[1]), np.uint64)
    for number in range(covers.shape[0]):
        _collect_hit(covers[number], holders, hit)
        for k in range(hit.size):
            missed[k] |= ~hit[k]
    found = np.zeros(n_edges, np.bool_)
    for edge in range(n_edges):
        found[edge] = has(missed, edge)
    return found


@kernel
def _climb(
    cover: UInt64Array, order: Int64Array, members: Int64Array, n_before: int, holders: UInt64Array, hits: UInt64Array
) -> int:
    """Bring members and hits from the previous cover to this one: covers in order share their first members.

    hits[0, k] and hits[1, k] are the edges that the first k members hit at least once, and twice. Returns the number
    of members.
    """
    once, twice = hits[0], hits[1]
    same = True
    size = 0
    for vertex in order:
        if not has(cover, vertex):
            continue
        if not (same and size < n_before and members[size] == vertex):
            same = False
            members[size] = vertex
            add_hits(once[size], twice[size], holders[vertex], once[size + 1], twice[size + 1])
        size += 1
    return size


@kernel
def _collect_own(edges: UInt64Array, once: UInt64Array, twice: UInt64Array, own: UInt64Array) -> int:
    """Copy the edges that are hit just once to `own`; returns their number."""
    n_own = 0
    for k in range(once.size):
        left = once[k] & ~twice[k]
        while left != ZERO:
            own[n_own] = edges[64 * k + np.int64(lowest(left))]
            n_own += 1
            left &= left - ONE
    return n_own


@kernel
def _take_safe(
    own: UInt64Array, start: int, stop: int, cover: UInt64Array, branch: UInt64Array, shared: UInt64Array
) -> None:
    """Remove from `branch` the vertices that would leave a member of the cover without an own edge in own[start:stop].

    `shared` is scratch space: for each member the vertices of the branch that are in all of its own edges.
    """
    for vertex in range(64 * cover.size):
        for word in range(cover.size):
            shared[vertex, word] = branch[word]
    for place in range(start, stop):
        for word in range(cover.size):
            hit = own[place, word] & cover[word]
            if hit != ZERO:
                vertex = 64 * word + np.int64(lowest(hit))
                for other in range(cover.size):
                    shared[vertex, other] &= own[place, other]
    for vertex in range(64 * cover.size):
        if has(cover, vertex):
            for word in range(cover.size):
                branch[word] &= ~shared[vertex, word]


@kernel
def _next_missed(
    fresh: UInt64Array, once: UInt64Array, twice: UInt64Array, place: int, own: UInt64Array, end: int
) -> tuple[int, int]:
    """The first of fresh[place:] that is not in `once`, and the end of `own` with those on the way not in `twice`."""
    k = place >> 6
    beyond = ~ZERO << np.uint64(place & 63)
    while k < once.size:
        missed = ~once[k] & beyond
        way = once[k] & ~twice[k] & beyond
        if missed != ZERO:
            way &= (missed & (~missed + ONE)) - ONE
            place = min(fresh.shape[0], 64 * k + np.int64(lowest(missed)))
        while way != ZERO:
            own[end] = fresh[64 * k + np.int64(lowest(way))]
            end += 1
            way &= way - ONE
        if missed != ZERO:
            return place, end
        beyond = ~ZERO
        k += 1
    return fresh.shape[0], end


@kernel
def _without(own: UInt64Array, start: int, stop: int, vertex: int) -> int:
    """Copy own[start:stop] without the edges of a vertex to the places from `stop` on; returns the end of the copy."""
    end = stop
    for place in range(start, stop):
        if not has(own[place], vertex):
            own[end] = own[place]
            end += 1
    return end


@kernel
def grow_covers(
    edges: UInt64Array,
    holders: UInt64Array,
    fresh: UInt64Array,
    covers: UInt64Array,
    order: Int64Array,
    every: UInt64Array,
    limits: CoverLimits,
) -> UInt64Array:
    """The minimal covers of `edges` and `fresh` that contain one of the given minimal covers of `edges`; each once.

    Fresh edges are multiplied in one by one, depth first (Kavvadias and Stavropoulos, Journal of Graph Algorithms and
    Applications 9, 2005): a cover that misses the next one takes a vertex of it, if all its members keep an own edge.
    Covers that follow each other should share their first members, in the order of vertices given: a cover costs
    n_edges / 64 for each member that it does not share with the one before, then its own edges and n_fresh / 64.
    """
    group_of, groups, most, control = limits
    n_words, n_fresh = edges.shape[1], fresh.shape[0]
    depths = 4 * groups.shape[0] + 3
    cover, allowed, branch = np.zeros((3, depths, n_words), np.uint64)
    members, n_groups, place = np.zeros((3, depths), np.int64)
    # Own edges of each depth are own[ends[depth - 1]:ends[depth]].
    ends = np.zeros(depths, np.int64)
    hits = np.zeros((2, depths, holders.shape[1]), np.uint64)
    fresh_holders = find_holders(fresh, 1)
    once, twice = np.zeros((2, depths, fresh_holders.shape[1]), np.uint64)
    shared = np.zeros((64 * n_words, n_words), np.uint64)
    own = np.empty((edges.shape[0] + n_fresh + 1, n_words), np.uint64)
    found, n_found = np.empty((64, n_words), np.uint64), 0
    n_start = 0
    for start in covers:
        n_start = _climb(start, order, members, n_start, holders, hits)
        once[0], twice[0] = ZERO, ZERO
        for k in range(n_start):
            add_hits(once[0], twice[0], fresh_holders[members[k]], once[0], twice[0])
        cover[0], n_groups[0], place[0] = start, count_groups(start, limits), -1
        allowed[0] = select_allowed(start, every, limits)
        ends[0] = _collect_own(edges, hits[0, n_start], hits[1, n_start], own)
        depth, arrived = 0, True
        while depth >= 0 and control[0] == 0:
            first = ends[depth - 1] if depth else 0
            if arrived:
                arrived = False
                if ends[depth] + n_fresh + 1 > own.shape[0]:
                    own = double_sets(own)
                place[depth], ends[depth] = _next_missed(
                    fresh, once[depth], twice[depth], place[depth] + 1, own, ends[depth]
                )
                if place[depth] == n_fresh:
                    found = append_set(found, n_found, cover[depth])
                    n_found += 1
                    control[1] += 1
                    if control[1] >= most[1]:
                        control[0] = 1
                    depth -= 1
                    continue
                for word in range(n_words):
                    branch[depth, word] = fresh[place[depth], word] & allowed[depth, word]
                _take_safe(own, first, ends[depth], cover[depth], branch[depth], shared)
            vertex = next_vertex(branch[depth])
            if vertex < 0:
                depth -= 1
                continue
            below = depth + 1
            cover[below], allowed[below], place[below] = cover[depth], allowed[depth], place[depth]
            n_groups[below] = n_groups[depth] + join_vertex(vertex, cover[below], allowed[below], group_of, groups)
            if n_groups[below] >= most[0]:
                keep_groups(cover[below], allowed[below], group_of, groups)
            add_hits(once[depth], twice[depth], fresh_holders[vertex], once[below], twice[below])
            if 2 * ends[depth] - first + 1 > own.shape[0]:
                own = double_sets(own)
            ends[below] = _without(own, first, ends[depth], vertex)
            own[ends[below]] = fresh[place[depth]]
            ends[below] += 1
            depth, arrived = below, True
    return found[:n_found].copy()


@kernel
def are_minimal(edges: UInt64Array, holders: UInt64Array, covers: UInt64Array, order: Int64Array) -> BoolArray:
    """For each cover whether each of its vertices has an own edge; order and cost as for `grow_covers`."""
    n_words = edges.shape[1]
    minimal = np.zeros(covers.shape[0], np.bool_)
    members = np.zeros(64 * n_words, np.int64)
    largest = 0
    for cover in covers:
        largest = max(largest, count_common(cover, cover))
    hits = np.zeros((2, largest + 1, holders.shape[1]), np.uint64)
    needed = np.zeros(n_words, np.uint64)
    size = 0
    for number in range(covers.shape[0]):
        size = _climb(covers[number], order, members, size, holders, hits)
        needed[:] = ZERO
        n_needed = 0
        for k in range(holders.shape[1]):
            left = hits[0, size, k] & ~hits[1, size, k]
            while left != ZERO:
                edge = edges[64 * k + np.int64(lowest(left))]
                for word in range(n_words):
                    needed[word] |= edge[word] & covers[number, word]
                left &= left - ONE
                n_needed = count_common(needed, needed)
                if n_needed == size:
                    break
            if n_needed == size:
                break
        minimal[number] = n_needed == size
    return minimal


@kernel
def reduce_edges(
    edges: UInt64Array, holders: UInt64Array, gone: UInt64Array, every: UInt64Array, limits: CoverLimits
) -> tuple[UInt64Array, UInt64Array, UInt64Array, bool]:
    """What is left of covering `edges` without the vertices of `gone`.

    Returns the parts of edges that are still to be hit, the vertices that every such cover needs, the vertices that
    may still join, and whether there can be any cover. The needed vertices are among the parts, each by itself.
    """
    n_edges, n_words = edges.shape
    needed, allowed = np.zeros(n_words, np.uint64), every & ~gone
    unhit, once, twice = np.zeros((3, holders.shape[1]), np.uint64)
    for k in range(unhit.size):
        unhit[k] = ~ZERO
    if n_edges & 63:
        unhit[-1] = (ONE << np.uint64(n_edges & 63)) - ONE
    if n_edges == 0:
        unhit[:] = ZERO
    grew = True
    while grew:
        once[:], twice[:] = ZERO, ZERO
        for vertex in range(64 * n_words):
            if has(allowed, vertex):
                add_hits(once, twice, holders[vertex], once, twice)
        grew = False
        for k in range(unhit.size):
            if unhit[k] & ~once[k] != ZERO:
                return edges[:0].copy(), needed, allowed, False
            single = unhit[k] & ~twice[k]
            while single != ZERO:
                edge = edges[64 * k + np.int64(lowest(single))]
                single &= single - ONE
                for word in range(n_words):
                    if edge[word] & allowed[word] & ~needed[word] != ZERO:
                        needed[word] |= edge[word] & allowed[word]
                        grew = True
        if grew:
            if not _is_allowed(needed, limits) or count_groups(needed, limits) > limits[2][0]:
                return edges[:0].copy(), needed, allowed, False
            for vertex in range(64 * n_words):
                if has(needed, vertex):
                    for k in range(unhit.size):
                        unhit[k] &= ~holders[vertex, k]
            allowed = select_allowed(needed, every & ~gone, limits)
    return _parts(edges, unhit, needed, allowed), needed, allowed, True


@kernel
def _parts(edges: UInt64Array, unhit: UInt64Array, needed: UInt64Array, allowed: UInt64Array) -> UInt64Array:
    """The needed vertices one by one, then what is allowed of the edges not hit."""
    n_words = edges.shape[1]
    n_parts = count_common(needed, needed)
    for k in range(unhit.size):
        n_parts += np.int64(popcount(unhit[k]))
    parts = np.zeros((n_parts, n_words), np.uint64)
    n_parts = 0
    for vertex in range(64 * n_words):
        if has(needed, vertex):
            parts[n_parts, vertex >> 6] = bit(vertex)
            n_parts += 1
    for k in range(unhit.size):
        left = unhit[k]
        while left != ZERO:
            edge = edges[64 * k + np.int64(lowest(left))]
            for word in range(n_words):
                parts[n_parts, word] = edge[word] & allowed[word]
            n_parts += 1
            left &= left - ONE
    return parts


@kernel
def _is_allowed(cover: UInt64Array, limits: CoverLimits) -> bool:
    """Whether no vertices of a set forbid each other."""
    joined = np.zeros(cover.size, np.uint64)
    for vertex in range(64 * cover.size):
        if has(cover, vertex):
            if not may_join(vertex, joined, limits[0], limits[1]):
                return False
            joined[vertex >> 6] |= bit(vertex)
    return True
