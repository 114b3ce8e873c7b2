"""Floats to integers that keep their order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from naysay.arrays import BoolArray, Int64Array
from naysay.table.codes import MAX_CODES
from naysay.table.column import Floats
from naysay.table.ranks import rank_together, read_only

_FLOAT_EXACT = 1 << 53
_MAX_DIGITS = 6
_NO_MASK: BoolArray = np.empty(0, dtype=np.bool_)


def times_power_of_ten(column: Floats, digits: int) -> tuple[Int64Array | None, int]:
    """The values times 10**digits, or how many digits they need instead; None where even the most do not do."""
    from naysay.kernels.codes.numbers import short_decimals

    values = read_only(column.values)
    valid = _NO_MASK if column.valid is None else column.valid
    out = np.empty(len(values), dtype=np.int64)
    for tried in range(digits, _MAX_DIGITS + 1):
        stop = short_decimals(values, valid, 10.0**tried, out)
        if stop == len(values):
            return out, tried
        if not abs(float(values[stop])) * 10.0**tried <= _FLOAT_EXACT:
            break
    return None, digits


def order_keys(column: Floats) -> Int64Array:
    """Integers in the order of the floats; see `kernels.encode.float_keys`."""
    from naysay.kernels.codes.numbers import float_keys

    keys = np.empty(len(column.values), dtype=np.int64)
    float_keys(read_only(column.values).view(np.int64), keys)
    return keys


def close_gaps(keys: list[Int64Array], valid: Sequence[BoolArray | None]) -> tuple[list[Int64Array], int]:
    """Bring keys of floats together in place, as the bits of numbers near 1 and of zero or infinity are far apart."""
    from naysay.kernels.codes import numbers as encode

    infinity = 0x7FF << 52
    spans = np.array([0, -infinity, infinity, 0], dtype=np.int64)
    for key, mask in zip(keys, valid, strict=True):
        encode.finite_spans(key, _NO_MASK if mask is None else mask, spans)
    least_negative, greatest_negative, least_positive, greatest_positive = spans.tolist()
    n_negative = max(0, greatest_negative - least_negative + 1)
    n_positive = max(0, greatest_positive - least_positive + 1)
    n_values = n_negative + n_positive + 4
    if n_values > MAX_CODES:
        return rank_together(keys, valid)
    # Codes: minus infinity 0, the negative from 1, zero, the positive, infinity, NaN.
    zero = n_negative + 1
    low = np.array([-infinity, least_negative, 0, least_positive, infinity], dtype=np.int64)
    if not n_negative:
        low[1] = -1
    if not n_positive:
        low[3] = 1
    code = np.array([0, 1, zero, zero + 1, zero + 1 + n_positive], dtype=np.int64)
    for key in keys:
        encode.close_gaps(key, low, low - code)
    return keys, n_values
