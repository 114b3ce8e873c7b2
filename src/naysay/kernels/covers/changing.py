"""Minimal covers of edges that come and go, from the covers there were before.

Arrays as in `kernels.cover`; `holders` is `transposed(edges)`, for each vertex the set of edges that hold it. An edge
that a cover hits just once is *own* to the vertex that hits it; a cover is minimal where each vertex has an own edge.

When edges come, a cover that misses one grows, and every new cover holds an old one: `grow_covers`. When edges go,
every new cover misses one of those, and so lives among the vertices outside it: `part_beside` is the small problem that
is left there; covers of before that are not minimal any more are found by `are_minimal`.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import BoolArray, Int64Array, UInt64Array
from naysay.kernels.compile import kernel
from naysay.kernels.covers.minimal import _allowed, _count_groups, _doubled, _join, _keep_groups, _next_vertex
from naysay.kernels.sort import lowest, popcount

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@kernel
def transposed(edges: UInt64Array) -> UInt64Array:
    """For each vertex the set of edges that hold it."""
    n_edges, n_words = edges.shape
    holders = np.zeros((64 * n_words, max(1, (n_edges + 63) >> 6)), np.uint64)
    for edge in range(n_edges):
        for word in range(n_words):
            left = edges[edge, word]
            while left != _ZERO:
                holders[64 * word + np.int64(lowest(left)), edge >> 6] |= _ONE << np.uint64(edge & 63)
                left &= left - _ONE
    return holders


@kernel
def first_missed(covers: UInt64Array, n_edges: int, holders: UInt64Array) -> Int64Array:
    """For each cover the first edge that it does not hit, -1 where it hits all. n_edges / 64 for each vertex."""
    missed = np.full(covers.shape[0], -1, np.int64)
    hit = np.zeros(holders.shape[1], np.uint64)
    for number in range(covers.shape[0]):
        hit[:] = _ZERO
        for vertex in range(64 * covers.shape[1]):
            if _has(covers[number], vertex):
                for k in range(hit.size):
                    hit[k] |= holders[vertex, k]
        for k in range(hit.size):
            if ~hit[k] != _ZERO:
                edge = 64 * k + np.int64(lowest(~hit[k]))
                if edge < n_edges:
                    missed[number] = edge
                break
    return missed


@kernel
def missed_by_some(covers: UInt64Array, n_edges: int, holders: UInt64Array) -> BoolArray:
    """For each edge whether some cover does not hit it. n_edges / 64 for each vertex of each cover."""
    hit, missed = np.zeros((2, holders.shape[1]), np.uint64)
    for number in range(covers.shape[0]):
        hit[:] = _ZERO
        for vertex in range(64 * covers.shape[1]):
            if _has(covers[number], vertex):
                for k in range(hit.size):
                    hit[k] |= holders[vertex, k]
        for k in range(hit.size):
            missed[k] |= ~hit[k]
    found = np.zeros(n_edges, np.bool_)
    for edge in range(n_edges):
        found[edge] = (missed[edge >> 6] >> np.uint64(edge & 63)) & _ONE != _ZERO
    return found


@kernel
def _n_hits(edge: UInt64Array, cover: UInt64Array) -> np.uint64:
    n_hits = _ZERO
    for word in range(edge.size):
        n_hits += popcount(edge[word] & cover[word])
    return n_hits


@kernel
def _has(words: UInt64Array, vertex: int) -> bool:
    return (words[vertex >> 6] >> np.uint64(vertex & 63)) & _ONE != _ZERO


@kernel
def _hit(
    once: UInt64Array, twice: UInt64Array, held: UInt64Array, next_once: UInt64Array, next_twice: UInt64Array
) -> None:
    """The edges that a cover hits at least once, and twice, after a vertex joined that is held by `held`."""
    for k in range(once.size):
        next_twice[k] = twice[k] | (once[k] & held[k])
        next_once[k] = once[k] | held[k]


@kernel
def _climb(
    cover: UInt64Array,
    order: Int64Array,
    members: Int64Array,
    n_before: int,
    holders: UInt64Array,
    once: UInt64Array,
    twice: UInt64Array,
) -> int:
    """Bring members, once and twice from the cover before to this one: covers in order share their first members.

    once[k] and twice[k] are the edges that the first k members hit so often. Gives the number of members.
    """
    same = True
    size = 0
    for vertex in order:
        if not _has(cover, vertex):
            continue
        if not (same and size < n_before and members[size] == vertex):
            same = False
            members[size] = vertex
            _hit(once[size], twice[size], holders[vertex], once[size + 1], twice[size + 1])
        size += 1
    return size


@kernel
def _collect_own(edges: UInt64Array, once: UInt64Array, twice: UInt64Array, own: UInt64Array) -> int:
    """Copy the edges that are hit just once to `own`; gives their number."""
    n_own = 0
    for k in range(once.size):
        left = once[k] & ~twice[k]
        while left != _ZERO:
            own[n_own] = edges[64 * k + np.int64(lowest(left))]
            n_own += 1
            left &= left - _ONE
    return n_own


@kernel
def _take_safe(
    own: UInt64Array, start: int, stop: int, cover: UInt64Array, branch: UInt64Array, shared: UInt64Array
) -> None:
    """Take from `branch` the vertices that would leave a member of the cover without an own edge in own[start:stop].

    `shared` is scratch: for each member the vertices of the branch that stand in all its own edges.
    """
    for vertex in range(64 * cover.size):
        for word in range(cover.size):
            shared[vertex, word] = branch[word]
    for place in range(start, stop):
        for word in range(cover.size):
            hit = own[place, word] & cover[word]
            if hit != _ZERO:
                vertex = 64 * word + np.int64(lowest(hit))
                for other in range(cover.size):
                    shared[vertex, other] &= own[place, other]
    for vertex in range(64 * cover.size):
        if _has(cover, vertex):
            for word in range(cover.size):
                branch[word] &= ~shared[vertex, word]


@kernel
def _next_missed(
    fresh: UInt64Array, once: UInt64Array, twice: UInt64Array, place: int, own: UInt64Array, end: int
) -> tuple[int, int]:
    """The first of fresh[place:] that is not in `once`, and the end of `own` with those on the way not in `twice`."""
    k = place >> 6
    beyond = ~_ZERO << np.uint64(place & 63)
    while k < once.size:
        missed = ~once[k] & beyond
        way = once[k] & ~twice[k] & beyond
        if missed != _ZERO:
            bit = missed & (~missed + _ONE)
            way &= bit - _ONE
            place = min(fresh.shape[0], 64 * k + np.int64(lowest(bit)))
        while way != _ZERO:
            own[end] = fresh[64 * k + np.int64(lowest(way))]
            end += 1
            way &= way - _ONE
        if missed != _ZERO:
            return place, end
        beyond = ~_ZERO
        k += 1
    return fresh.shape[0], end


@kernel
def _without(own: UInt64Array, start: int, stop: int, vertex: int) -> int:
    """Copy own[start:stop] without the edges of a vertex behind itself; gives the end of the copy."""
    end = stop
    for place in range(start, stop):
        if not _has(own[place], vertex):
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
    group_of: Int64Array,
    groups: Int64Array,
    limits: Int64Array,
    control: Int64Array,
) -> UInt64Array:
    """The minimal covers of `edges` and `fresh` that hold one of the given minimal covers of `edges`; each once.

    Fresh edges are multiplied in one by one, depth first (Kavvadias and Stavropoulos, Journal of Graph Algorithms and
    Applications 9, 2005): a cover that misses the next one takes a vertex of it, if all its members keep an own edge.
    Covers that follow each other should share their first members, in the order of vertices given: a cover costs
    n_edges / 64 for each member that it does not share with the one before, then its own edges and n_fresh / 64.
    """
    n_words, n_fresh = edges.shape[1], fresh.shape[0]
    depths = 4 * groups.shape[0] + 3
    cover, allowed, branch = np.zeros((3, depths, n_words), np.uint64)
    members, n_groups, place = np.zeros((3, depths), np.int64)
    # Own edges of each depth are own[ends[depth - 1]:ends[depth]].
    ends = np.zeros(depths, np.int64)
    once, twice = np.zeros((2, depths, holders.shape[1]), np.uint64)
    fresh_holders = transposed(fresh)
    fresh_once, fresh_twice = np.zeros((2, depths, fresh_holders.shape[1]), np.uint64)
    shared = np.zeros((64 * n_words, n_words), np.uint64)
    own = np.empty((edges.shape[0] + n_fresh + 1, n_words), np.uint64)
    found, n_found = np.empty((64, n_words), np.uint64), 0
    n_start = 0
    for start in covers:
        n_start = _climb(start, order, members, n_start, holders, once, twice)
        fresh_once[0], fresh_twice[0] = _ZERO, _ZERO
        for k in range(n_start):
            _hit(fresh_once[0], fresh_twice[0], fresh_holders[members[k]], fresh_once[0], fresh_twice[0])
        cover[0], n_groups[0], place[0] = start, _count_groups(start, groups), -1
        allowed[0] = _allowed(start, every, group_of, groups, limits[0])
        ends[0] = _collect_own(edges, once[n_start], twice[n_start], own)
        depth, arrived = 0, True
        while depth >= 0 and control[0] == 0:
            first = ends[depth - 1] if depth else 0
            if arrived:
                arrived = False
                if ends[depth] + n_fresh + 1 > own.shape[0]:
                    own = _doubled(own)
                place[depth], ends[depth] = _next_missed(
                    fresh, fresh_once[depth], fresh_twice[depth], place[depth] + 1, own, ends[depth]
                )
                if place[depth] == n_fresh:
                    if n_found == found.shape[0]:
                        found = _doubled(found)
                    found[n_found] = cover[depth]
                    n_found += 1
                    control[1] += 1
                    if control[1] >= limits[1]:
                        control[0] = 1
                    depth -= 1
                    continue
                for word in range(n_words):
                    branch[depth, word] = fresh[place[depth], word] & allowed[depth, word]
                _take_safe(own, first, ends[depth], cover[depth], branch[depth], shared)
            vertex = _next_vertex(branch[depth])
            if vertex < 0:
                depth -= 1
                continue
            below = depth + 1
            cover[below], allowed[below], place[below] = cover[depth], allowed[depth], place[depth]
            n_groups[below] = n_groups[depth] + _join(vertex, cover[below], allowed[below], group_of, groups)
            if n_groups[below] >= limits[0]:
                _keep_groups(cover[below], allowed[below], group_of, groups)
            _hit(fresh_once[depth], fresh_twice[depth], fresh_holders[vertex], fresh_once[below], fresh_twice[below])
            if 2 * ends[depth] - first + 1 > own.shape[0]:
                own = _doubled(own)
            ends[below] = _without(own, first, ends[depth], vertex)
            own[ends[below]] = fresh[place[depth]]
            ends[below] += 1
            depth, arrived = below, True
    return found[:n_found].copy()


@kernel
def are_minimal(edges: UInt64Array, holders: UInt64Array, covers: UInt64Array, order: Int64Array) -> BoolArray:
    """Whether each vertex of a cover has an own edge, for each cover; in order as for `grow_covers`, and as dear."""
    n_words = edges.shape[1]
    minimal = np.zeros(covers.shape[0], np.bool_)
    members = np.zeros(64 * n_words, np.int64)
    most = 0
    for cover in covers:
        most = max(most, np.int64(_n_hits(cover, cover)))
    once, twice = np.zeros((2, most + 1, holders.shape[1]), np.uint64)
    needed = np.zeros(n_words, np.uint64)
    size = 0
    for number in range(covers.shape[0]):
        size = _climb(covers[number], order, members, size, holders, once, twice)
        needed[:] = _ZERO
        n_needed = 0
        for k in range(holders.shape[1]):
            left = once[size, k] & ~twice[size, k]
            while left != _ZERO:
                edge = edges[64 * k + np.int64(lowest(left))]
                for word in range(n_words):
                    needed[word] |= edge[word] & covers[number, word]
                left &= left - _ONE
                n_needed = np.int64(_n_hits(needed, needed))
                if n_needed == size:
                    break
            if n_needed == size:
                break
        minimal[number] = n_needed == size
    return minimal


@kernel
def part_beside(
    edges: UInt64Array,
    holders: UInt64Array,
    gone: UInt64Array,
    every: UInt64Array,
    group_of: Int64Array,
    groups: Int64Array,
    limits: Int64Array,
) -> tuple[UInt64Array, UInt64Array, UInt64Array, bool]:
    """What is left of covering `edges` without the vertices of `gone`.

    Gives parts of edges that are still to be hit, the vertices that every such cover needs, the vertices that may
    still join, and whether there can be any cover. The needed vertices stand among the parts, each by itself.
    """
    n_edges, n_words = edges.shape
    needed, allowed = np.zeros(n_words, np.uint64), every & ~gone
    unhit, once, twice = np.zeros((3, holders.shape[1]), np.uint64)
    for k in range(unhit.size):
        unhit[k] = ~_ZERO
    if n_edges & 63:
        unhit[-1] = (_ONE << np.uint64(n_edges & 63)) - _ONE
    if n_edges == 0:
        unhit[:] = _ZERO
    grew = True
    while grew:
        once[:], twice[:] = _ZERO, _ZERO
        for vertex in range(64 * n_words):
            if _has(allowed, vertex):
                _hit(once, twice, holders[vertex], once, twice)
        grew = False
        for k in range(unhit.size):
            if unhit[k] & ~once[k] != _ZERO:
                return edges[:0].copy(), needed, allowed, False
            single = unhit[k] & ~twice[k]
            while single != _ZERO:
                edge = edges[64 * k + np.int64(lowest(single))]
                single &= single - _ONE
                for word in range(n_words):
                    if edge[word] & allowed[word] & ~needed[word] != _ZERO:
                        needed[word] |= edge[word] & allowed[word]
                        grew = True
        if grew:
            if not _may_stand(needed, group_of, groups) or _count_groups(needed, groups) > limits[0]:
                return edges[:0].copy(), needed, allowed, False
            for vertex in range(64 * n_words):
                if _has(needed, vertex):
                    for k in range(unhit.size):
                        unhit[k] &= ~holders[vertex, k]
            allowed = _allowed(needed, every & ~gone, group_of, groups, limits[0])
    return _parts(edges, unhit, needed, allowed), needed, allowed, True


@kernel
def _parts(edges: UInt64Array, unhit: UInt64Array, needed: UInt64Array, allowed: UInt64Array) -> UInt64Array:
    """The needed vertices one by one, then what is allowed of the edges not hit."""
    n_words = edges.shape[1]
    n_parts = np.int64(_n_hits(needed, needed))
    for k in range(unhit.size):
        n_parts += np.int64(popcount(unhit[k]))
    parts = np.zeros((n_parts, n_words), np.uint64)
    n_parts = 0
    for vertex in range(64 * n_words):
        if _has(needed, vertex):
            parts[n_parts, vertex >> 6] = _ONE << np.uint64(vertex & 63)
            n_parts += 1
    for k in range(unhit.size):
        left = unhit[k]
        while left != _ZERO:
            edge = edges[64 * k + np.int64(lowest(left))]
            for word in range(n_words):
                parts[n_parts, word] = edge[word] & allowed[word]
            n_parts += 1
            left &= left - _ONE
    return parts


@kernel
def _may_stand(cover: UInt64Array, group_of: Int64Array, groups: Int64Array) -> bool:
    """Whether no vertices of a set keep each other out of a cover."""
    joined = np.zeros(cover.size, np.uint64)
    for vertex in range(64 * cover.size):
        if not _has(cover, vertex):
            continue
        group = group_of[vertex]
        shift = np.uint64(groups[group, 0] & 63)
        chosen = np.int64((joined[vertex >> 6] >> shift) & np.uint64(groups[group, 1]))
        if (groups[group, 2 + chosen] >> (vertex - groups[group, 0])) & 1:
            return False
        joined[vertex >> 6] |= _ONE << np.uint64(vertex & 63)
    return True
