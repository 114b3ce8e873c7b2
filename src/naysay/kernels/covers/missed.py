"""How many pairs a cover misses: those that break its rule."""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.kernels.bits import lowest
from naysay.kernels.compile import kernel

_ZERO = np.uint64(0)


@kernel
def count_missed(edges: UInt64Array, counts: Int64Array, covers: UInt64Array, enough: int) -> Int64Array:
    """For each cover the sum of the counts of the edges that it does not hit; it may stop once that is > enough.

    edges uint64[n_edges, n_words], counts int64[n_edges], covers uint64[n_covers, n_words]. O(n_edges * n_covers).
    """
    n_edges, n_words = edges.shape
    missed = np.zeros(covers.shape[0], np.int64)
    for place in range(covers.shape[0]):
        total = 0
        for edge in range(n_edges):
            common = _ZERO
            for word in range(n_words):
                common |= edges[edge, word] & covers[place, word]
            if common == _ZERO:
                total += counts[edge]
                if total > enough:
                    break
        missed[place] = total
    return missed


@kernel
def count_near_misses(
    edges: UInt64Array, counts: Int64Array, covers: UInt64Array, group_of: Int64Array, groups: Int64Array
) -> Int64Array:
    """For each cover and group: the pairs that only this group's vertices keep from breaking the rule.

    The last column counts the pairs that break it. group_of and groups as in `kernels.cover`; a group lies within
    one word. int64[n_covers, n_groups + 1]; O(n_edges * n_covers).
    """
    n_edges, n_words = edges.shape
    n_groups = groups.shape[0]
    near = np.zeros((covers.shape[0], n_groups + 1), np.int64)
    for place in range(covers.shape[0]):
        for edge in range(n_edges):
            hit = -1
            for word in range(n_words):
                common = edges[edge, word] & covers[place, word]
                if common == _ZERO:
                    continue
                if hit >= 0:
                    hit = -2
                    break
                group = group_of[64 * word + np.int64(lowest(common))]
                mask = np.uint64(groups[group, 1]) << np.uint64(groups[group, 0] & 63)
                if common & ~mask != _ZERO:
                    hit = -2
                    break
                hit = group
            if hit != -2:
                near[place, hit] += counts[edge]
    return near
