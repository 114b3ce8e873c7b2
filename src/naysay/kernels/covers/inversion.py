"""Evidence inversion: minimal covers kept up to date while edges come one by one (Hydra, section 5, algorithm 1).

The covers are in a set trie: a node is a vertex, a path from the root is a cover, vertices ascending. A cover that
misses the next edge is taken out, and each vertex of the edge that may join it makes a new one, unless a part of the
new one is a cover already.

nodes int64[n, 4]: vertex, first child, next sibling, number of covers at or below the node; node 0 is the root.
limits as in `covers.minimal`.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.kernels.bits import ONE, ZERO, bit, has, lowest
from naysay.kernels.compile import kernel
from naysay.kernels.covers.minimal import CoverLimits, append_set, count_groups, join_vertex, may_join

_VERTEX, _CHILD, _NEXT, _COUNT = 0, 1, 2, 3
MAX_SIZE = 1024


@kernel
def _child(nodes: Int64Array, node: int, vertex: int) -> int:
    child = nodes[node, _CHILD]
    while child >= 0 and nodes[child, _VERTEX] != vertex:
        child = nodes[child, _NEXT]
    return child


@kernel
def insert_cover(nodes: Int64Array, n_nodes: int, cover: UInt64Array) -> tuple[Int64Array, int]:
    """Put a cover into the trie, which must not contain it; returns the nodes, perhaps more, and their number."""
    node = 0
    nodes[0, _COUNT] += 1
    for word in range(cover.size):
        left = cover[word]
        while left != ZERO:
            vertex = 64 * word + np.int64(lowest(left))
            left &= left - ONE
            child = _child(nodes, node, vertex)
            if child < 0:
                if n_nodes == nodes.shape[0]:
                    nodes = _doubled(nodes)
                child = n_nodes
                n_nodes += 1
                nodes[child, _VERTEX] = vertex
                nodes[child, _CHILD] = -1
                nodes[child, _NEXT] = nodes[node, _CHILD]
                nodes[child, _COUNT] = 0
                nodes[node, _CHILD] = child
            node = child
            nodes[node, _COUNT] += 1
    return nodes, n_nodes


@kernel
def _doubled(nodes: Int64Array) -> Int64Array:
    larger = np.empty((2 * nodes.shape[0], 4), np.int64)
    for i in range(nodes.shape[0]):
        for k in range(4):
            larger[i, k] = nodes[i, k]
    return larger


@kernel
def holds_part(nodes: Int64Array, cover: UInt64Array, resume: Int64Array) -> bool:
    """Whether some cover of the trie is part of the given one. No cover is part of another, so all end in leaves.

    `resume` is scratch space of length MAX_SIZE.
    """
    depth = 0
    resume[0] = nodes[0, _CHILD]
    while depth >= 0:
        child = resume[depth]
        while child >= 0 and (nodes[child, _COUNT] == 0 or not has(cover, nodes[child, _VERTEX])):
            child = nodes[child, _NEXT]
        if child < 0:
            depth -= 1
            continue
        if not _has_live_child(nodes, child):
            return True
        resume[depth] = nodes[child, _NEXT]
        depth += 1
        resume[depth] = nodes[child, _CHILD]
    return False


@kernel
def _has_live_child(nodes: Int64Array, node: int) -> bool:
    child = nodes[node, _CHILD]
    while child >= 0:
        if nodes[child, _COUNT] > 0:
            return True
        child = nodes[child, _NEXT]
    return False


@kernel
def take_missing(nodes: Int64Array, edge: UInt64Array, taken: UInt64Array) -> tuple[UInt64Array, int]:
    """Take all covers that miss an edge out of the trie; returns them, in `taken` or a larger array, and how many."""
    path, resume = np.empty((2, MAX_SIZE), np.int64)
    cover = np.empty(edge.size, np.uint64)
    depth = 0
    path[0] = 0
    resume[0] = nodes[0, _CHILD]
    n_taken = 0
    while depth >= 0:
        child = resume[depth]
        while child >= 0 and (nodes[child, _COUNT] == 0 or has(edge, nodes[child, _VERTEX])):
            child = nodes[child, _NEXT]
        if child < 0:
            depth -= 1
            continue
        resume[depth] = nodes[child, _NEXT]
        depth += 1
        path[depth] = child
        resume[depth] = nodes[child, _CHILD]
        if _has_live_child(nodes, child):
            continue
        cover[:] = ZERO
        for k in range(depth + 1):
            nodes[path[k], _COUNT] -= 1
            if k > 0:
                vertex = nodes[path[k], _VERTEX]
                cover[vertex >> 6] |= bit(vertex)
        taken = append_set(taken, n_taken, cover)
        n_taken += 1
        depth -= 1
    return taken, n_taken


@kernel
def invert(edges: UInt64Array, nodes: Int64Array, n_nodes: int, limits: CoverLimits) -> tuple[Int64Array, int]:
    """Make the covers of a trie hit all of the edges as well."""
    group_of, groups, most, control = limits
    n_words = edges.shape[1]
    taken = np.zeros((64, n_words), np.uint64)
    wider, ignored = np.zeros((2, n_words), np.uint64)
    scratch = np.empty(MAX_SIZE, np.int64)
    for number in range(edges.shape[0]):
        if control[0] != 0:
            break
        taken, n_taken = take_missing(nodes, edges[number], taken)
        for place in range(n_taken):
            for word in range(n_words):
                left = edges[number, word]
                while left != ZERO:
                    vertex = 64 * word + np.int64(lowest(left))
                    left &= left - ONE
                    for k in range(n_words):
                        wider[k] = taken[place, k]
                    if not may_join(vertex, wider, group_of, groups):
                        continue
                    join_vertex(vertex, wider, ignored, group_of, groups)
                    if count_groups(wider, limits) <= most[0] and not holds_part(nodes, wider, scratch):
                        nodes, n_nodes = insert_cover(nodes, n_nodes, wider)
        control[1] = nodes[0, _COUNT]
        if nodes[0, _COUNT] > most[1]:
            control[0] = 1
    return nodes, n_nodes


@kernel
def covers_of(nodes: Int64Array, n_words: int) -> UInt64Array:
    """All covers of a trie; it is emptied."""
    taken, n_taken = take_missing(nodes, np.zeros(n_words, np.uint64), np.zeros((64, n_words), np.uint64))
    return taken[:n_taken].copy()
