"""Covers that new edges break, and what they grow to: the inversion of IncDC (section 8, algorithm 5).

The covers known before lie in a *fixed trie*: a path from the root is a cover, vertices descending, as the covers are
sorted; what only one cover has is not branched any more.

trie    a tuple of three arrays:
  masks uint64[n_nodes, n_words]: the vertices of a node's children; of a leaf, the other vertices of its cover.
  child int32[n_nodes]: a node's first child, the others follow it; of a leaf ~cover.
  least uint16[n_nodes]: the number of vertices of the smallest cover below a node. Small, as it is looked at most.
broken  bool[n_covers]: the covers that an edge breaks. The trie keeps them, so that it need not be built again.

Those that grow are in a trie as of `covers.inversion`. All covers together never contain one another, so what is within
a cover that has grown by a vertex has that vertex.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import BoolArray, Int32Array, Int64Array, UInt64Array
from naysay.kernels.bits import ALL, ONE, ZERO, bit, count_common, has, highest, lowest, popcount
from naysay.kernels.compile import kernel
from naysay.kernels.covers.inversion import covers_of, holds_part, insert_cover, take_missing
from naysay.kernels.covers.minimal import CoverLimits, join_vertex, next_vertex, select_allowed

Trie = tuple[UInt64Array, Int32Array, NDArray[np.uint16]]

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
    """The most nodes that a trie of these covers can have: one for each vertex not shared with the cover before."""
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
    masks, child = np.zeros((room, n_words), np.uint64), np.zeros(room, np.int32)
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
    least = np.full(n_nodes, 64 * n_words, np.uint16)
    for node in range(n_nodes - 1, -1, -1):
        if child[node] < 0:
            least[node] = count_common(covers[~child[node]], covers[~child[node]])
        else:
            for place in range(child[node], child[node] + count_common(masks[node], masks[node])):
                least[node] = min(least[node], least[place])
    return masks[:n_nodes].copy(), child[:n_nodes].copy(), least


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
    masks, child, _ = trie
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
    masks, child, _ = trie
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
def _drop_covered(
    trie: Trie, broken: BoolArray, cover: UInt64Array, free: UInt64Array, left: UInt64Array, path: Int64Array
) -> None:
    """Take out of `free` the vertices with which the cover would contain a cover of the trie that is not broken.

    Each of those has one vertex that is not in the cover, so that one visit finds them for all vertices. It is often
    almost as large as the cover: a branch in which all are larger than what can still come together is not visited.
    `left` and `path` are scratch space: for each depth the children to visit; the node, and the vertex that is not in
    the cover.
    """
    masks, child, least = trie
    n_words = cover.size
    if child[0] < 0:
        _drop_leaf(trie, 0, broken, cover, free, -1)
        return
    depth = 0
    path[0, 0], path[0, 1] = 0, -1
    left[0] = masks[0] & (cover | free)
    while depth >= 0:
        node, extra = path[depth, 0], path[depth, 1]
        vertex = -1
        if extra < 0 or has(free, extra):
            vertex = next_vertex(left[depth])
        if vertex < 0:
            depth -= 1
            continue
        if not has(cover, vertex):
            if not has(free, vertex):
                continue
            extra = vertex
        word = vertex >> 6
        below = bit(vertex) - ONE
        place = child[node] + np.int64(popcount(masks[node, word] & below))
        most = depth + 1 + np.int64(popcount(cover[word] & below)) + (extra < 0)
        for lower in range(word):
            place += np.int64(popcount(masks[node, lower]))
            most += np.int64(popcount(cover[lower]))
        if most < least[place]:
            continue
        if child[place] < 0:
            _drop_leaf(trie, place, broken, cover, free, extra)
            continue
        depth += 1
        path[depth, 0], path[depth, 1] = place, extra
        for word in range(n_words):
            left[depth, word] = masks[place, word] & (cover[word] if extra >= 0 else cover[word] | free[word])


@kernel
def _drop_leaf(trie: Trie, leaf: int, broken: BoolArray, cover: UInt64Array, free: UInt64Array, extra: int) -> None:
    """The same for the cover of a leaf, of whose other vertices one is `extra`, if that is not negative."""
    masks, child, _ = trie
    if broken[~child[leaf]]:
        return
    for word in range(cover.size):
        outside = masks[leaf, word] & ~cover[word]
        if outside == ZERO:
            continue
        if extra >= 0 or outside & (outside - ONE) != ZERO:
            return
        extra = 64 * word + np.int64(lowest(outside))
    if extra >= 0:
        free[extra >> 6] &= ~bit(extra)


@kernel
def have_part(trie: Trie, covers: UInt64Array, vertex: int) -> BoolArray:
    """For each cover whether some cover of the trie that has the vertex is part of it."""
    found = np.zeros(covers.shape[0], np.bool_)
    intact = np.zeros(trie[0].shape[0], np.bool_)
    left, path = np.zeros((_MAX_SIZE, covers.shape[1]), np.uint64), np.empty((_MAX_SIZE, 2), np.int64)
    rest, free = np.zeros((2, covers.shape[1]), np.uint64)
    for number in range(covers.shape[0]):
        rest[:], free[:] = covers[number], ZERO
        rest[vertex >> 6] &= ~bit(vertex)
        free[vertex >> 6] |= bit(vertex)
        _drop_covered(trie, intact, rest, free, left, path)
        found[number] = not has(free, vertex)
    return found


@kernel
def free_vertices(
    covers: UInt64Array, edges: UInt64Array, missed: Int64Array, trie: Trie, broken: BoolArray, limits: CoverLimits
) -> UInt64Array:
    """For each cover the vertices of the first edge it misses with which it contains no cover that is not broken."""
    free = np.zeros_like(covers)
    path, left = np.empty((_MAX_SIZE, 2), np.int64), np.zeros((_MAX_SIZE, covers.shape[1]), np.uint64)
    for number in range(covers.shape[0]):
        if missed[number] >= 0:
            free[number] = select_allowed(covers[number], edges[missed[number]], limits)
            _drop_covered(trie, broken, covers[number], free[number], left, path)
    return free


@kernel
def _number_of(covers: UInt64Array, cover: UInt64Array) -> int:
    """The place of a cover among sorted ones, -1 if it is not there."""
    low, high = 0, covers.shape[0] - 1
    while low <= high:
        middle = (low + high) >> 1
        word = cover.size - 1
        while word > 0 and covers[middle, word] == cover[word]:
            word -= 1
        if covers[middle, word] == cover[word]:
            return middle
        if covers[middle, word] < cover[word]:
            low = middle + 1
        else:
            high = middle - 1
    return -1


@kernel
def grow_broken_covers(
    covers: UInt64Array, edges: UInt64Array, free: UInt64Array, trie: Trie, broken: BoolArray, limits: CoverLimits
) -> UInt64Array:
    """Lines 4 to 18 of algorithm 5: what broken covers, sorted, grow to with the edges that they miss.

    A cover that misses an edge is replaced by all that it grows to with a vertex of the edge, except if another cover
    is part of that. `free` is from `free_vertices`, for the first edge that each of the covers misses.
    """
    group_of, groups, most, control = limits
    n_words = edges.shape[1]
    nodes, n_nodes = np.full((1024, 4), -1, np.int64), 1
    nodes[0, 3] = 0
    for number in range(covers.shape[0]):
        nodes, n_nodes = insert_cover(nodes, n_nodes, covers[number])
    taken = np.zeros((64, n_words), np.uint64)
    wider, allowed, ignored = np.zeros((3, n_words), np.uint64)
    scratch, path = np.empty(_MAX_SIZE, np.int64), np.empty((_MAX_SIZE, 2), np.int64)
    left = np.zeros((_MAX_SIZE, n_words), np.uint64)
    for edge in range(edges.shape[0]):
        if control[0] != 0:
            break
        taken, n_taken = take_missing(nodes, edges[edge], taken)
        for place in range(n_taken):
            number = _number_of(covers, taken[place])
            if number >= 0:
                allowed[:] = free[number]
            else:
                allowed[:] = select_allowed(taken[place], edges[edge], limits)
                _drop_covered(trie, broken, taken[place], allowed, left, path)
            vertex = next_vertex(allowed)
            while vertex >= 0:
                wider[:] = taken[place]
                join_vertex(vertex, wider, ignored, group_of, groups)
                if not holds_part(nodes, wider, scratch):
                    nodes, n_nodes = insert_cover(nodes, n_nodes, wider)
                vertex = next_vertex(allowed)
        control[1] = nodes[0, 3]
        if nodes[0, 3] > most[1]:
            control[0] = 1
    return covers_of(nodes, n_words)
