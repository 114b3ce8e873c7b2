"""Evidence inversion (section 5)."""

from __future__ import annotations

import numpy as np

from naysay.arrays import UInt64Array
from naysay.discovery.cover import Brake
from naysay.discovery.vertices import Vertices, sorted_unique
from naysay.discovery.work import Clock, run_all

_UNLIMITED = 1 << 62


def inverted(
    edges: UInt64Array, vertices: Vertices, *, max_groups: int | None, brake: Brake, clock: Clock
) -> UInt64Array:
    """All minimal covers of the edges, by updating those of the first edges with each further one.

    Meaningless where brake or clock stopped it.
    """
    from naysay.kernels.covers.inversion import covers_of, invert

    # Sorted, an edge is much like the last one, and few covers miss it: ten times faster than in a random order.
    edges = sorted_unique(edges)
    nodes = np.zeros((1024, 4), np.int64)
    nodes[0] = (-1, -1, -1, 0)
    n_nodes = 1
    # The rule without predicates, the empty cover, cannot stand in the trie: the first edge is its one successor.
    if not len(edges):
        return np.zeros((1, vertices.n_words), np.uint64)
    nodes, n_nodes = _first_covers(edges[0], nodes, n_nodes, vertices)
    limits = np.array([max_groups or _UNLIMITED, brake.max_covers], np.int64)
    tables = vertices.tables()

    def work() -> UInt64Array:
        made, _ = invert(np.ascontiguousarray(edges[1:]), nodes, n_nodes, *tables, limits, brake.control)
        found: UInt64Array = covers_of(made, vertices.n_words)
        return found

    parts = run_all(
        [work], 1, clock, on_stop=brake.stop, on_tick=lambda clock: clock.report("inversion", None, brake.n_found)
    )
    return parts[0] if parts else np.empty((0, vertices.n_words), np.uint64)


def _first_covers(edge: UInt64Array, nodes: np.ndarray, n_nodes: int, vertices: Vertices) -> tuple[np.ndarray, int]:
    from naysay.kernels.covers.inversion import insert_cover

    for vertex in range(64 * vertices.n_words):
        if int(edge[vertex >> 6]) >> (vertex & 63) & 1:
            nodes, n_nodes = insert_cover(nodes, n_nodes, vertices.words([1 << vertex])[0])
    return nodes, n_nodes
