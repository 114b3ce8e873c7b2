"""Minimal covers of few groups: a plain tree search, for which nothing has to be prepared.

`minimal.search_covers` prepares each branch in time that grows with the edges, to be quick in deep searches. If covers
may have vertices of two or three groups only, there are few nodes, and each is left as soon as one edge is missed.

Arrays and limits as in `covers.minimal`.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import UInt64Array
from naysay.kernels.bits import ZERO, bit
from naysay.kernels.compile import kernel
from naysay.kernels.covers.minimal import (
    CoverLimits,
    append_set,
    count_groups,
    is_irredundant,
    join_vertex,
    keep_groups,
    next_vertex,
    select_allowed,
    take_branch,
)


@kernel
def _next_missed(edges: UInt64Array, cover: UInt64Array, place: int) -> int:
    """The first of edges[place:] that a cover misses; the number of edges if it hits all of them."""
    while place < edges.shape[0]:
        common = ZERO
        for word in range(cover.size):
            common |= edges[place, word] & cover[word]
        if common == ZERO:
            break
        place += 1
    return place


@kernel
def search_few(edges: UInt64Array, start: UInt64Array, candidates: UInt64Array, limits: CoverLimits) -> UInt64Array:
    """All minimal covers of one branch of the search, like `minimal.search_covers`; edges should ascend by size.

    Exponential in the most groups that a cover may have.
    """
    group_of, groups, most, control = limits
    n_edges, n_words = edges.shape
    depths = 4 * groups.shape[0] + 2
    cover, allowed, branch = np.zeros((3, depths, n_words), np.uint64)
    place, n_groups = np.zeros((2, depths), np.int64)
    found, n_found = np.empty((64, n_words), np.uint64), 0
    cover[0], n_groups[0] = start, count_groups(start, limits)
    allowed[0] = select_allowed(start, candidates, limits)
    depth, arrived = 0, True
    while depth >= 0 and control[0] == 0:
        if arrived:
            arrived = False
            place[depth] = _next_missed(edges, cover[depth], place[depth])
            if place[depth] == n_edges:
                if is_irredundant(edges, cover[depth]):
                    found = append_set(found, n_found, cover[depth])
                    n_found += 1
                    control[1] += 1
                    if control[1] >= most[1]:
                        control[0] = 1
                depth -= 1
                continue
            take_branch(edges[place[depth]], allowed[depth], branch[depth])
        vertex = next_vertex(branch[depth])
        if vertex < 0:
            depth -= 1
            continue
        below = depth + 1
        cover[below], allowed[below], place[below] = cover[depth], allowed[depth], place[depth]
        # Later branches of this node may take the vertex too, so that each cover is found once.
        allowed[depth, vertex >> 6] |= bit(vertex)
        n_groups[below] = n_groups[depth] + join_vertex(vertex, cover[below], allowed[below], group_of, groups)
        if n_groups[below] >= most[0]:
            keep_groups(cover[below], allowed[below], group_of, groups)
        depth, arrived = below, True
    return found[:n_found].copy()
