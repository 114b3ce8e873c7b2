"""Incremental evidence inversion (section 8, algorithm 5): rules that evidence breaks are extended until none is.

A rule is a cover, a set of vertices (see `discover.vertices`), an evidence the edge of vertices that its pairs fail:
the rule is broken where it has none of them, and each of them that joins it mends that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import Int64Array, UInt64Array
from naysay.discovery.outcomes import FieldKind
from naysay.discovery.vertices import Vertices, sorted_unique

_CHUNK = 1 << 22


def inverted(covers: UInt64Array, edges: UInt64Array, vertices: Vertices, max_groups: int | None) -> UInt64Array:
    """The minimal covers after these edges, one by one; sorted. Covers and edges are rows of words."""
    group_of, groups = vertices.tables()
    for edge in edges:
        broken = ~(covers & edge).any(axis=1)
        if not broken.any():
            continue
        kept = covers[~broken]
        extended = [
            _extended(covers[broken], kept, vertex, group_of, groups, max_groups) for vertex in _vertices_of(edge)
        ]
        covers = np.concatenate([kept, *extended])
    return sorted_unique(covers)


def unrelaxed_among(covers: UInt64Array, vertices: Vertices) -> UInt64Array:
    """Without the covers that say `<=` and `>=` where another of them shows that `==` would do; see `trivial`."""
    for group in vertices.groups:
        if group.kind is not FieldKind.ORDER_OR_NULL:
            continue
        places = np.flatnonzero(vertices.chosen(covers, group) == 0b101)
        relaxed = covers[places]
        relaxed[:, group.first // 64] ^= np.uint64(0b1101 << (group.first % 64))
        covers = np.delete(covers, places[_contain_some(relaxed, covers)], axis=0)
    return covers


def _vertices_of(edge: UInt64Array) -> list[int]:
    return [64 * word + bit for word in range(edge.size) for bit in range(64) if int(edge[word]) >> bit & 1]


def _extended(
    broken: UInt64Array,
    kept: UInt64Array,
    vertex: int,
    group_of: Int64Array,
    groups: Int64Array,
    max_groups: int | None,
) -> UInt64Array:
    """Lines 14 to 17: broken rules with one more predicate, where that says something and no kept rule says it all."""
    word, bit = vertex >> 6, np.uint64(1) << np.uint64(vertex & 63)
    group = group_of[vertex]
    shift, mask = np.uint64(groups[group, 0] & 63), np.uint64(groups[group, 1])
    chosen = ((broken[:, word] >> shift) & mask).astype(np.int64)
    trivial = (groups[group, 2 + chosen] >> (vertex - groups[group, 0])) & 1
    candidates = broken[trivial == 0].copy()
    candidates[:, word] |= bit
    if max_groups is not None:
        candidates = candidates[_n_groups(candidates, groups) <= max_groups]
    rivals = kept[(kept[:, word] & bit) != 0]
    safe: UInt64Array = candidates[~_contain_some(candidates, rivals)]
    return safe


def _contain_some(candidates: UInt64Array, rivals: UInt64Array) -> NDArray[np.bool_]:
    """For each candidate whether one of the rivals is a part of it."""
    found = np.zeros(len(candidates), np.bool_)
    step = max(1, _CHUNK // max(1, len(rivals)))
    for start in range(0, len(candidates), step):
        beyond: UInt64Array = rivals[None, :, :] & ~candidates[start : start + step, None, :]
        inside = np.logical_not(np.any(beyond, axis=2))
        found[start : start + step] = np.any(inside, axis=1)
    return found


def _n_groups(covers: UInt64Array, groups: Int64Array) -> Int64Array:
    total = np.zeros(len(covers), np.int64)
    for first, mask in groups[:, :2]:
        total += ((covers[:, first >> 6] >> np.uint64(first & 63)) & np.uint64(mask)) != 0
    return total
