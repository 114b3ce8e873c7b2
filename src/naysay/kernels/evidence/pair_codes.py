"""The codes of given pairs of rows; sides, masks and spans as in `kernels.evidence`."""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int32Array, Int64Array
from naysay.kernels.compile import kernel


@kernel
def pair_codes(
    left: Int32Array, right: Int32Array, masks: Int32Array, spans: Int64Array, lefts: Int64Array, rights: Int64Array
) -> Int32Array:
    """int32[n_pairs, n_words]: the code of (lefts[k], rights[k]). O(n_pairs * n_fields)."""
    n_fields, n_words = masks.shape[1], spans.shape[0]
    codes = np.zeros((lefts.size, n_words), np.int32)
    for k in range(lefts.size):
        t, s = lefts[k], rights[k]
        for word in range(n_words):
            code = left[n_fields + word, t] | right[n_fields + word, s]
            for field in range(spans[word, 0], spans[word, 2]):
                if left[field, t] < right[field, s]:
                    code |= masks[0, field]
                elif left[field, t] == right[field, s]:
                    code |= masks[1, field]
            codes[k, word] = code
    return codes
