"""Evidence inversion: minimal covers kept current while edges come one by one (Hydra, section 5, algorithm 1).

The covers stand in a set trie: a node is a vertex, a path from the root is a cover, vertices ascending. A cover that
misses the next edge is taken out, and each vertex of the edge that may join it makes a new one, unless a part of the
new one is a cover already.

nodes int64[n, 4]: vertex, first child, next sibling, number of covers at or below the node; node 0 is the root.
group_of and groups as in `kernels.cover`, limits int64[2] the most groups in a cover and the most covers.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.kernels.compile import kernel
from naysay.kernels.covers.minimal import _count_groups, _join
from naysay.kernels.sort import lowest

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_VERTEX, _CHILD, _NEXT, _COUNT = 0, 1, 2, 3
_MAX_SIZE = 1024


@kernel
def _has(cover: UInt64Array, vertex: int) -> bool:
    return (cover[vertex >> 6] >> np.uint64(vertex & 63)) & _ONE != _ZERO


@kernel
def _child(nodes: Int64Array, node: int, vertex: int) -> int:
    child = nodes[node, _CHILD]
    while child >= 0 and nodes[child, _VERTEX] != vertex:
        child = nodes[child, _NEXT]
    return child


@kernel
def insert_cover(nodes: Int64Array, n_nodes: int, cover: UInt64Array) -> tuple[Int64Array, int]:
    """Put a cover into the trie, which must not hold it; gives the nodes, perhaps more of them, and their number."""
    node = 0
    nodes[0, _COUNT] += 1
    for word in range(cover.size):
        left = cover[word]
        while left != _ZERO:
            vertex = 64 * word + np.int64(lowest(left))
            left &= left - _ONE
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
    """Whether some cover of the trie is part of the given one. No cover is part of another, so paths end in leaves.

    `resume` is scratch of length _MAX_SIZE.
    """
    depth = 0
    resume[0] = nodes[0, _CHILD]
    while depth >= 0:
        child = resume[depth]
        while child >= 0 and (nodes[child, _COUNT] == 0 or not _has(cover, nodes[child, _VERTEX])):
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
    """Take all covers that miss an edge out of the trie; gives them, in `taken` or a larger array, and their number."""
    path = np.empty(_MAX_SIZE, np.int64)
    resume = np.empty(_MAX_SIZE, np.int64)
    depth = 0
    path[0] = 0
    resume[0] = nodes[0, _CHILD]
    n_taken = 0
    while depth >= 0:
        child = resume[depth]
        while child >= 0 and (nodes[child, _COUNT] == 0 or _has(edge, nodes[child, _VERTEX])):
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
        if n_taken == taken.shape[0]:
            taken = _more(taken)
        for word in range(taken.shape[1]):
            taken[n_taken, word] = _ZERO
        for k in range(depth + 1):
            nodes[path[k], _COUNT] -= 1
            if k > 0:
                vertex = nodes[path[k], _VERTEX]
                taken[n_taken, vertex >> 6] |= _ONE << np.uint64(vertex & 63)
        n_taken += 1
        depth -= 1
    return taken, n_taken


@kernel
def _more(rows: UInt64Array) -> UInt64Array:
    larger = np.empty((2 * rows.shape[0], rows.shape[1]), np.uint64)
    for i in range(rows.shape[0]):
        for word in range(rows.shape[1]):
            larger[i, word] = rows[i, word]
    return larger


@kernel
def invert(
    edges: UInt64Array,
    nodes: Int64Array,
    n_nodes: int,
    group_of: Int64Array,
    groups: Int64Array,
    limits: Int64Array,
    control: Int64Array,
) -> tuple[Int64Array, int]:
    """Make the covers of a trie hit all of the edges as well. control[0] set from elsewhere stops it early."""
    n_words = edges.shape[1]
    taken = np.zeros((64, n_words), np.uint64)
    wider = np.zeros(n_words, np.uint64)
    ignored = np.zeros(n_words, np.uint64)
    scratch = np.empty(_MAX_SIZE, np.int64)
    for number in range(edges.shape[0]):
        if control[0] != 0:
            break
        taken, n_taken = take_missing(nodes, edges[number], taken)
        for place in range(n_taken):
            for word in range(n_words):
                left = edges[number, word]
                while left != _ZERO:
                    vertex = 64 * word + np.int64(lowest(left))
                    left &= left - _ONE
                    for k in range(n_words):
                        wider[k] = taken[place, k]
                    if not _may_join(wider, vertex, group_of, groups):
                        continue
                    _join(vertex, wider, ignored, group_of, groups)
                    if _count_groups(wider, groups) <= limits[0] and not holds_part(nodes, wider, scratch):
                        nodes, n_nodes = insert_cover(nodes, n_nodes, wider)
        control[1] = nodes[0, _COUNT]
        if nodes[0, _COUNT] > limits[1]:
            control[0] = 1
    return nodes, n_nodes


@kernel
def _may_join(cover: UInt64Array, vertex: int, group_of: Int64Array, groups: Int64Array) -> bool:
    group = group_of[vertex]
    first = groups[group, 0]
    chosen = np.int64((cover[vertex >> 6] >> np.uint64(first & 63)) & np.uint64(groups[group, 1]))
    return (groups[group, 2 + chosen] >> (vertex - first)) & 1 == 0


@kernel
def covers_of(nodes: Int64Array, n_words: int) -> UInt64Array:
    """All covers of a trie; it is emptied."""
    taken, n_taken = take_missing(nodes, np.zeros(n_words, np.uint64), np.zeros((64, n_words), np.uint64))
    return taken[:n_taken].copy()
