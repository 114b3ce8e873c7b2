"""Values to codes: integers that keep equality and order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from naysay.kernels.compile import kernel

_INFINITY = np.int64(0x7FF0000000000000)


@kernel
def float_keys(bits: NDArray[np.int64], keys: NDArray[np.int64]) -> None:
    """Turn the bits of float64 values into integers in the same order: -0.0 is 0.0, and all NaN are one, the greatest.

    `keys` may be `bits`. Keys lie in [-2**63 + 2**52 + 1, 2**63 - 2**52 + 1]. O(n).
    """
    for i in range(len(bits)):
        size = bits[i] & np.int64(0x7FFFFFFFFFFFFFFF)
        if size > _INFINITY:
            keys[i] = _INFINITY + 1
        elif bits[i] < 0:
            keys[i] = -size
        else:
            keys[i] = size


@kernel
def close_gaps(keys: NDArray[np.int64], low: NDArray[np.int64], shift: NDArray[np.int64]) -> None:
    """Subtract from each key the shift of its segment: the last one whose `low` is at most the key. In place, O(n)."""
    for i in range(len(keys)):
        k = len(low) - 1
        while k > 0 and keys[i] < low[k]:
            k -= 1
        keys[i] -= shift[k]
