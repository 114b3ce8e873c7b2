"""Minimal covers of edges that come and go, from the covers there were before.

Arrays as in `kernels.cover`. When edges come, a cover that misses some of them grows, and every new cover holds an old
one: `grow_covers` continues the search of MMCS from each. When edges go, every new cover misses one of those, so it
lives among the vertices outside it: `avoid_edge` is the little problem that is left there.
"""

# ruff: noqa: SIM110  (numba compiles loops, not generators)

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from naysay.kernels.bits import lowest, popcount
from naysay.kernels.compile import kernel
from naysay.kernels.cover import (
    _allowed,
    _count_groups,
    _doubled,
    _join,
    _keep_groups,
    _n_common,
    _next_vertex,
    _transposed,
)

BoolArray = NDArray[np.bool_]
Int64Array = NDArray[np.int64]
UInt64Array = NDArray[np.uint64]

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@kernel
def _disjoint(left: UInt64Array, right: UInt64Array) -> bool:
    for word in range(left.size):
        if left[word] & right[word] != _ZERO:
            return False
    return True


@kernel
def transposed(edges: UInt64Array) -> UInt64Array:
    """For each vertex the set of edges that hold it, as `grow_covers` wants it."""
    return _transposed(edges)


@kernel
def first_missed(covers: UInt64Array, edges: UInt64Array) -> Int64Array:
    """For each cover the first edge that it does not hit, -1 where it hits all. O(n_covers * n_edges)."""
    missed = np.full(covers.shape[0], -1, np.int64)
    for place in range(covers.shape[0]):
        for edge in range(edges.shape[0]):
            if _disjoint(edges[edge], covers[place]):
                missed[place] = edge
                break
    return missed


@kernel
def first_within(covers: UInt64Array, smaller: UInt64Array) -> Int64Array:
    """For each cover the first of `smaller` that is a proper part of it, -1 where none is. O(product)."""
    n_words = covers.shape[1]
    found = np.full(covers.shape[0], -1, np.int64)
    for place in range(covers.shape[0]):
        for other in range(smaller.shape[0]):
            beyond = _ZERO
            differs = _ZERO
            for word in range(n_words):
                beyond |= smaller[other, word] & ~covers[place, word]
                differs |= smaller[other, word] ^ covers[place, word]
            if beyond == _ZERO and differs != _ZERO:
                found[place] = other
                break
    return found


@kernel
def _hit(
    once: UInt64Array, twice: UInt64Array, own: UInt64Array, next_once: UInt64Array, next_twice: UInt64Array
) -> None:
    """The edges that a cover hits at least once, and twice, after a vertex joined that is held by `own`."""
    for k in range(once.size):
        next_twice[k] = twice[k] | (once[k] & own[k])
        next_once[k] = once[k] | own[k]


@kernel
def _open(live: UInt64Array, start: int, stop: int, allowed: UInt64Array, branch: UInt64Array) -> bool:
    """Move the allowed vertices of the live edge in [start, stop) with the fewest to `branch`; False if it has none."""
    fewest = 64 * allowed.size + 1
    chosen = -1
    for edge in range(start, stop):
        n_common = _n_common(live[edge], allowed)
        if n_common < fewest:
            fewest = n_common
            chosen = edge
    if chosen < 0 or fewest == 0:
        return False
    for word in range(allowed.size):
        branch[word] = live[chosen, word] & allowed[word]
        allowed[word] &= ~branch[word]
    return True


@kernel
def _still_missed(live: UInt64Array, start: int, stop: int, vertex: int) -> int:
    """Copy the live edges in [start, stop) without a vertex behind themselves; gives the end of the copy."""
    end = stop
    for edge in range(start, stop):
        if (live[edge, vertex >> 6] >> np.uint64(vertex & 63)) & _ONE == _ZERO:
            live[end] = live[edge]
            end += 1
    return end


@kernel
def _keeps_own(
    once: UInt64Array, twice: UInt64Array, own: UInt64Array, holders: UInt64Array, members: Int64Array
) -> bool:
    """Whether each member of a cover has an edge of its own left when a vertex, held by the edges `own`, joins.

    Mostly one of the first words says so.
    """
    for place in range(members.size - 1, -1, -1):
        theirs = holders[members[place]]
        kept = False
        for k in range(once.size):
            if once[k] & theirs[k] & ~(twice[k] | own[k]) != _ZERO:
                kept = True
                break
        if not kept:
            return False
    return True


@kernel
def grow_covers(
    edges: UInt64Array, holders: UInt64Array, fresh: UInt64Array, covers: UInt64Array, group_of: Int64Array,
    groups: Int64Array, limits: Int64Array, control: Int64Array,
) -> UInt64Array:
    """All minimal covers of `edges` that hold one of the given covers, each perhaps several times.

    The covers are minimal ones of the edges without `fresh`, which are some of the edges. `holders` is
    `transposed(edges)`. A cover costs n_edges / 64 for each of its vertices, and about as much for each of the
    vertices that are tried beside it.
    """
    n_words = edges.shape[1]
    depths = 3 * groups.shape[0] + 3
    cover, allowed, branch = np.zeros((3, depths, n_words), np.uint64)
    members, n_groups, ends = np.zeros((3, depths), np.int64)
    once, twice = np.zeros((2, depths, holders.shape[1]), np.uint64)
    live = np.empty((2 * fresh.shape[0] + 64, n_words), np.uint64)
    every = np.zeros(n_words, np.uint64)
    for vertex in range(group_of.size):
        if group_of[vertex] >= 0:
            every[vertex >> 6] |= _ONE << np.uint64(vertex & 63)
    found, n_found = np.empty((64, n_words), np.uint64), 0
    for start in covers:
        if control[0] != 0:
            break
        ends[0] = 0
        for edge in fresh:
            if _disjoint(edge, start):
                live[ends[0]] = edge
                ends[0] += 1
        cover[0] = start
        n_start = 0
        once[0], twice[0] = _ZERO, _ZERO
        for vertex in range(64 * n_words):
            if (start[vertex >> 6] >> np.uint64(vertex & 63)) & _ONE != _ZERO:
                members[n_start] = vertex
                n_start += 1
                _hit(once[0], twice[0], holders[vertex], once[0], twice[0])
        allowed[0] = _allowed(start, every, group_of, groups, limits[0])
        n_groups[0] = _count_groups(start, groups)
        depth = 0 if _open(live, 0, ends[0], allowed[0], branch[0]) else -1
        while depth >= 0 and control[0] == 0:
            vertex = _next_vertex(branch[depth])
            if vertex < 0:
                depth -= 1
                continue
            size = n_start + depth
            if not _keeps_own(once[depth], twice[depth], holders[vertex], holders, members[:size]):
                continue
            below = depth + 1
            cover[below], allowed[below] = cover[depth], allowed[depth]
            allowed[depth, vertex >> 6] |= _ONE << np.uint64(vertex & 63)
            n_groups[below] = n_groups[depth] + _join(vertex, cover[below], allowed[below], group_of, groups)
            if n_groups[below] >= limits[0]:
                _keep_groups(cover[below], allowed[below], group_of, groups)
            first = ends[depth - 1] if depth else 0
            if 2 * ends[depth] - first > live.shape[0]:
                live = _doubled(live)
            ends[below] = _still_missed(live, first, ends[depth], vertex)
            if ends[below] == ends[depth]:
                if n_found == found.shape[0]:
                    found = _doubled(found)
                found[n_found] = cover[below]
                n_found += 1
                control[1] += 1
                if control[1] >= limits[1]:
                    control[0] = 1
            elif _open(live, ends[depth], ends[below], allowed[below], branch[below]):
                _hit(once[depth], twice[depth], holders[vertex], once[below], twice[below])
                members[size] = vertex
                depth = below
    return found[:n_found].copy()


@kernel
def avoid_edge(edges: UInt64Array, gone: UInt64Array, every: UInt64Array) -> tuple[UInt64Array, UInt64Array, bool]:
    """What is left of covering `edges` without the vertices of `gone`: parts of edges, the vertices that all covers
    need, and whether there can be any cover.

    Parts that hold a needed vertex are left out, but for that vertex alone. O(n_edges).
    """
    n_edges, n_words = edges.shape
    needed = np.zeros(n_words, np.uint64)
    n_single = 0
    for edge in range(n_edges):
        size = _ZERO
        for word in range(n_words):
            size += popcount(edges[edge, word] & every[word] & ~gone[word])
        if size == _ZERO:
            return edges[:0].copy(), needed, False
        if size == _ONE:
            n_single += 1
            for word in range(n_words):
                needed[word] |= edges[edge, word] & every[word] & ~gone[word]
    parts = np.zeros((n_edges - n_single + 64 * n_words, n_words), np.uint64)
    n_parts = 0
    for word in range(n_words):
        left = needed[word]
        while left != _ZERO:
            parts[n_parts, word] = _ONE << lowest(left)
            n_parts += 1
            left &= left - _ONE
    for edge in range(n_edges):
        if _disjoint(edges[edge], needed):
            for word in range(n_words):
                parts[n_parts, word] = edges[edge, word] & every[word] & ~gone[word]
            n_parts += 1
    return parts[:n_parts].copy(), needed, True


@kernel
def may_stand(cover: UInt64Array, group_of: Int64Array, groups: Int64Array) -> bool:
    """Whether no vertices of a set keep each other out of a cover."""
    joined = np.zeros(cover.size, np.uint64)
    for vertex in range(64 * cover.size):
        word = vertex >> 6
        if (cover[word] >> np.uint64(vertex & 63)) & _ONE == _ZERO:
            continue
        group = group_of[vertex]
        shift = np.uint64(groups[group, 0] & 63)
        chosen = np.int64((joined[word] >> shift) & np.uint64(groups[group, 1]))
        bit = np.int64(vertex - groups[group, 0])
        if (groups[group, 2 + chosen] >> bit) & 1:
            return False
        joined[word] |= _ONE << np.uint64(vertex & 63)
    return True
