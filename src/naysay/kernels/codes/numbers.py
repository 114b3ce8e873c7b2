"""Numbers to codes: integers that keep equality and order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import Int64Array
from naysay.kernels.compile import kernel

_INFINITY = np.int64(0x7FF0000000000000)
_EXACT = 9007199254740992.0


@kernel
def valid_span(keys: Int64Array, valid: NDArray[np.bool_]) -> tuple[int, int, int]:
    """How many rows are valid, and the least and the greatest of their keys (0 and 0 where none is). O(n)."""
    n_valid = 0
    low = np.int64(0)
    high = np.int64(0)
    for i in range(len(keys)):
        if valid[i]:
            key = keys[i]
            low = key if n_valid == 0 or key < low else low
            high = key if n_valid == 0 or key > high else high
            n_valid += 1
    return n_valid, low, high


@kernel
def clear_nulls(codes: Int64Array, valid: NDArray[np.bool_]) -> None:
    """Set the codes of null rows to 0. O(n)."""
    for i in range(len(codes)):
        codes[i] = codes[i] if valid[i] else 0


@kernel
def float_keys(bits: Int64Array, keys: Int64Array) -> None:
    """Turn the bits of float64 values into integers in the same order: -0.0 is 0.0, and all NaN are one, the greatest.

    Zero is 0, infinity 0x7FF << 52, NaN the number after it; negative values mirror positive ones. O(n).
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
def finite_spans(keys: Int64Array, valid: NDArray[np.bool_], spans: Int64Array) -> None:
    """Widen spans = [least negative, greatest negative, least positive, greatest positive] by finite float keys.

    `valid` is empty where no row is null. O(n).
    """
    for i in range(len(keys)):
        if valid.size and not valid[i]:
            continue
        key = keys[i]
        if -_INFINITY < key < 0:
            spans[0] = min(spans[0], key)
            spans[1] = max(spans[1], key)
        elif 0 < key < _INFINITY:
            spans[2] = min(spans[2], key)
            spans[3] = max(spans[3], key)


@kernel
def close_gaps(keys: Int64Array, low: Int64Array, shift: Int64Array) -> None:
    """Subtract from each key the shift of its segment: the last one whose `low` is at most the key. In place, O(n)."""
    for i in range(len(keys)):
        k = len(low) - 1
        while k > 0 and keys[i] < low[k]:
            k -= 1
        keys[i] -= shift[k]


@kernel
def short_decimals(values: NDArray[np.float64], valid: NDArray[np.bool_], factor: float, out: Int64Array) -> int:
    """Write the integers v with v / factor == value, up to the first value that has none within 2**53; give its row.

    Division by one factor rounds monotonically, so that the integers keep order and equality. `valid` is empty where no
    row is null; null rows get 0. O(n).
    """
    for i in range(len(values)):
        out[i] = 0
        if valid.size and not valid[i]:
            continue
        scaled = np.rint(values[i] * factor)
        if not abs(scaled) <= _EXACT or scaled / factor != values[i]:
            return i
        out[i] = np.int64(scaled)
    return len(values)
