"""How many pairs a cover misses: those that break its rule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from naysay.kernels.compile import kernel

Int64Array = NDArray[np.int64]
UInt64Array = NDArray[np.uint64]

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
