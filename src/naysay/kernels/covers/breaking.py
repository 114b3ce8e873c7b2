"""Covers that new edges break, and what they grow to: the inversion of IncDC (section 8, algorithm 5).

The covers known before lie in a *fixed trie*: a path from the root is a cover, vertices descending, as the covers are
sorted; what only one cover has is not branched any more.

trie    a tuple of two arrays:
  masks uint64[n_nodes, n_words]: the vertices of a node's children; of a leaf, the other vertices of its cover.
  child int64[n_nodes]: a node's first child, the others follow it; of a leaf ~cover.
broken  bool[n_covers]: the covers that an edge breaks. The trie keeps them, so that it need not be built again.

Those that grow are in a trie as of `covers.inversion`. All covers together never contain one another, so what is within
a cover that has grown by a vertex has that vertex.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import BoolArray, Int64Array, UInt64Array
from naysay.kernels.bits import ALL, ONE, ZERO, bit, highest, lowest, popcount
from naysay.kernels.compile import kernel
from naysay.kernels.covers.inversion import covers_of, holds_part, insert_cover, take_missing
from naysay.kernels.covers.minimal import CoverLimits, count_groups, join_vertex, may_join

Trie = tuple[UInt64Array, Int64Array]

_MAX_SIZE = 1024


@kernel
def _next_below(cover: UInt64Array, vertex: int) -> int:
    """The greatest vertex of a cover below another one, -1 if there is none."""
    word = vertex >> 6
    if word < cover.size:
        rest = cover[word] & (bit(vertex) - ONE)
        if rest != ZERO:
            return 64 * word + np.int64(highest(rest))
    for lower in range(min(word, cover.size) - 1, -1, -1):
        if cover[lower] != ZERO:
            return 64 * lower + np.int64(highest(cover[lower]))
    return -1


@kernel
def _n_nodes(covers: UInt64Array) -> int:
    """At most so many nodes does a trie of these covers have: one for each vertex not shared with the cover before."""
    n_words = covers.shape[1]
    n_nodes = 1
    for number in range(covers.shape[0]):
        differs = number == 0
        for word in range(n_words - 1, -1, -1):
            own = covers[number, word]
            if not differs:
                other = own ^ covers[number - 1, word]
                if other == ZERO:
                    continue
                own &= ALL >> (np.uint64(63) - highest(other))
                differs = True
            n_nodes += np.int64(popcount(own))
    return n_nodes


@kernel
def build_trie(covers: UInt64Array) -> Trie:
    """A fixed trie of covers that are sorted and do not contain each other. O(total number of vertices)."""
    n_words = covers.shape[1]
    room = _n_nodes(covers)
    masks, child = np.zeros((room, n_words), np.uint64), np.zeros(room, np.int64)
    # For each node its covers, from one to another, and the vertex that they share last.
    start, stop, last = np.zeros((3, room), np.int64)
    stop[0], last[0] = covers.shape[0], 64 * n_words
    n_nodes, node = 1, 0
    while node < n_nodes:
        if stop[node] - start[node] == 1:
            child[node] = ~start[node]
            vertex = _next_below(covers[start[node]], last[node])
            while vertex >= 0:
                masks[node, vertex >> 6] |= bit(vertex)
                vertex = _next_below(covers[start[node]], vertex)
        else:
            child[node] = n_nodes
            before = -1
            for number in range(start[node], stop[node]):
                vertex = _next_below(covers[number], last[node])
                if vertex != before:
                    masks[node, vertex >> 6] |= bit(vertex)
                    start[n_nodes], last[n_nodes] = number, vertex
                    n_nodes += 1
                    before = vertex
                stop[n_nodes - 1] = number + 1
        node += 1
    return masks[:n_nodes].copy(), child[:n_nodes].copy()


@kernel
def _hit(before: UInt64Array, holder: UInt64Array, after: UInt64Array) -> bool:
    """Add the edges of a vertex to those hit; returns whether all are hit."""
    every = ALL
    for k in range(before.size):
        after[k] = before[k] | holder[k]
        every &= after[k]
    return every == ALL


@kernel
def find_broken(trie: Trie, n_edges: int, holders: UInt64Array, broken: BoolArray) -> UInt64Array:
    """Mark the covers that miss one of some edges, and return the set of edges that are missed.

    `holders` is `find_holders(edges, 1)`. Costs n_edges / 64 for each node, less where all edges are hit early.
    """
    masks, child = trie
    n_words, width = masks.shape[1], holders.shape[1]
    depths = 64 * n_words + 2
    hits = np.zeros((depths, width), np.uint64)
    left = np.zeros((depths, n_words), np.uint64)
    following = np.zeros(depths, np.int64)
    missed = np.zeros(width, np.uint64)
    if n_edges & 63:
        hits[0, width - 1] = ALL << np.uint64(n_edges & 63)
    depth = 0
    left[0], following[0] = masks[0], child[0]
    if child[0] < 0:
        left[0] = ZERO
        _note_missed(trie, 0, holders, hits, 0, broken, missed)
    while depth >= 0:
        vertex = -1
        for word in range(n_words):
            if left[depth, word] != ZERO:
                vertex = 64 * word + np.int64(lowest(left[depth, word]))
                left[depth, word] &= left[depth, word] - ONE
                break
        if vertex < 0:
            depth -= 1
            continue
        node = following[depth]
        following[depth] += 1
        if _hit(hits[depth], holders[vertex], hits[depth + 1]):
            continue
        if child[node] < 0:
            _note_missed(trie, node, holders, hits, depth + 1, broken, missed)
        else:
            depth += 1
            left[depth], following[depth] = masks[node], child[node]
    return missed


@kernel
def _note_missed(
    trie: Trie, node: int, holders: UInt64Array, hits: UInt64Array, depth: int, broken: BoolArray, missed: UInt64Array
) -> None:
    """Add the other vertices of a leaf, and mark its cover if an edge is left."""
    masks, child = trie
    for word in range(masks.shape[1]):
        rest = masks[node, word]
        while rest != ZERO:
            vertex = 64 * word + np.int64(lowest(rest))
            rest &= rest - ONE
            if _hit(hits[depth], holders[vertex], hits[depth]):
                return
    for k in range(missed.size):
        if hits[depth, k] != ALL:
            broken[~child[node]] = True
            missed[k] |= ~hits[depth, k]


@kernel
def _has_part(
    trie: Trie, broken: BoolArray, cover: UInt64Array, vertex: int, left: UInt64Array, path: Int64Array
) -> bool:
    """Whether a cover of the trie that is not broken is part of the given one and has the vertex.

    `left` and `path` are scratch space: for each depth the children to visit, and the node.
    """
    masks, child = trie
    n_words = cover.size
    depth = 0
    path[0] = 0
    left[0] = masks[0] & cover
    has_vertex = -1
    if child[0] < 0:
        return _is_part(trie, 0, broken, cover)
    while depth >= 0:
        found = -1
        for word in range(n_words - 1, -1, -1):
            if left[depth, word] != ZERO:
                found = 64 * word + np.int64(highest(left[depth, word]))
                left[depth, word] &= ~bit(found)
                break
        # Vertices descend along a path.
        if found < 0 or (has_vertex < 0 and found < vertex):
            if has_vertex == depth:
                has_vertex = -1
            depth -= 1
            continue
        node = path[depth]
        place = child[node]
        for word in range(found >> 6):
            place += np.int64(popcount(masks[node, word]))
        place += np.int64(popcount(masks[node, found >> 6] & (bit(found) - ONE)))
        if child[place] < 0:
            if _is_part(trie, place, broken, cover):
                return True
            continue
        depth += 1
        path[depth] = place
        left[depth] = masks[place] & cover
        if found == vertex:
            has_vertex = depth
    return False


@kernel
def _is_part(trie: Trie, leaf: int, broken: BoolArray, cover: UInt64Array) -> bool:
    masks, child = trie
    for word in range(cover.size):
        if masks[leaf, word] & ~cover[word] != ZERO:
            return False
    return not broken[~child[leaf]]


@kernel
def have_part(trie: Trie, covers: UInt64Array, vertex: int) -> BoolArray:
    """For each cover whether some cover of the trie that has the vertex is part of it."""
    found = np.zeros(covers.shape[0], np.bool_)
    intact = np.zeros(trie[0].shape[0], np.bool_)
    left, path = np.zeros((_MAX_SIZE, covers.shape[1]), np.uint64), np.empty(_MAX_SIZE, np.int64)
    for number in range(covers.shape[0]):
        found[number] = _has_part(trie, intact, covers[number], vertex, left, path)
    return found


@kernel
def grow_broken_covers(
    covers: UInt64Array, edges: UInt64Array, trie: Trie, broken: BoolArray, limits: CoverLimits
) -> UInt64Array:
    """Lines 4 to 18 of algorithm 5: what the broken covers grow to with the edges that they miss.

    A cover that misses an edge is replaced by all that it grows to with a vertex of the edge, except if another cover
    is part of that.
    """
    group_of, groups, most, control = limits
    n_words = edges.shape[1]
    nodes, n_nodes = np.full((1024, 4), -1, np.int64), 1
    nodes[0, 3] = 0
    for number in range(covers.shape[0]):
        nodes, n_nodes = insert_cover(nodes, n_nodes, covers[number])
    taken = np.zeros((64, n_words), np.uint64)
    wider, ignored = np.zeros((2, n_words), np.uint64)
    scratch, path = np.empty((2, _MAX_SIZE), np.int64)
    left = np.zeros((_MAX_SIZE, n_words), np.uint64)
    for number in range(edges.shape[0]):
        if control[0] != 0:
            break
        taken, n_taken = take_missing(nodes, edges[number], taken)
        for place in range(n_taken):
            for word in range(n_words):
                rest = edges[number, word]
                while rest != ZERO:
                    vertex = 64 * word + np.int64(lowest(rest))
                    rest &= rest - ONE
                    for k in range(n_words):
                        wider[k] = taken[place, k]
                    if not may_join(vertex, wider, group_of, groups):
                        continue
                    join_vertex(vertex, wider, ignored, group_of, groups)
                    if count_groups(wider, limits) > most[0] or _has_part(trie, broken, wider, vertex, left, path):
                        continue
                    if not holds_part(nodes, wider, scratch):
                        nodes, n_nodes = insert_cover(nodes, n_nodes, wider)
        control[1] = nodes[0, 3]
        if nodes[0, 3] > most[1]:
            control[0] = 1
    return covers_of(nodes, n_words)
