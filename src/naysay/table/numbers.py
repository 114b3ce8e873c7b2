"""Numbers of any mix of types to codes in one space: exact, whatever their scales, units and widths.

Tried in turn, each only where it is exact: integers at one scale; floats that are short decimals; the bits of
floats, which order as integers; and ranks among wide integers, which hold everything.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from naysay.arrays import Int64Array
from naysay.table.codes import Codes
from naysay.table.column import Floats, Integers, Numbers
from naysay.table.floats import close_gaps, order_keys, times_power_of_ten
from naysay.table.ranks import clear_nulls, shift_to_zero, span_of
from naysay.table.wide import wide_ranks

_FLOAT_EXACT = 1 << 53


def encode_numbers(columns: Sequence[Numbers]) -> tuple[Codes, ...]:
    """Order-keeping codes in one space. O(n) where a 64-bit form fits all columns, else a sort."""
    valid = [column.valid for column in columns]
    keys = _as_integers(columns) or _as_short_decimals(columns)
    if keys is not None:
        codes, n_values = shift_to_zero(keys, valid)
    else:
        keys = _as_floats(columns)
        if keys is not None:
            codes, n_values = close_gaps(keys, valid)
        else:
            codes, n_values = wide_ranks(columns)
    for code, mask in zip(codes, valid, strict=True):
        clear_nulls(code, mask)
    return tuple(Codes(code, n_values, mask, True) for code, mask in zip(codes, valid, strict=True))


def _as_integers(columns: Sequence[Numbers]) -> list[Int64Array] | None:
    """All columns as int64 at one scale, or None where some value does not fit. They may be views."""
    keys = []
    scale = max([column.scale for column in columns if not isinstance(column, Floats)], default=0)
    for column in columns:
        if not isinstance(column, Integers):
            return None
        key = _scaled(column, scale)
        if key is None:
            return None
        keys.append(key)
    return keys


def _scaled(column: Integers, scale: int) -> Int64Array | None:
    if column.scale == scale:
        return column.values
    factor: int = 10 ** (scale - column.scale)
    low, high = span_of(column.values, column.valid) or (0, 0)
    if max(-low, high) * factor >= 2**63:
        return None
    scaled: Int64Array = column.values * np.int64(factor if factor < 2**63 else 0)
    return scaled


def _as_short_decimals(columns: Sequence[Numbers]) -> list[Int64Array] | None:
    """Floats, and whole numbers beside them, times a power of ten that makes integers of all; None if none does.

    Measured amounts and rates mostly are short decimals, and their codes then have a small range.
    """
    digits = 0
    keys: list[Int64Array] = []
    while len(keys) < len(columns):
        column = columns[len(keys)]
        if isinstance(column, Floats):
            key, needed = times_power_of_ten(column, digits)
        elif isinstance(column, Integers) and column.scale == 0:
            key, needed = _times_exactly(column, 10**digits), digits
        else:
            return None
        if needed > digits:
            keys, digits = [], needed
        elif key is None:
            return None
        else:
            keys.append(key)
    return keys


def _times_exactly(column: Integers, factor: int) -> Int64Array | None:
    low, high = span_of(column.values, column.valid) or (0, 0)
    if max(-low, high) * factor > _FLOAT_EXACT:
        return None
    scaled: Int64Array = column.values * np.int64(factor)
    return scaled


def _as_floats(columns: Sequence[Numbers]) -> list[Int64Array] | None:
    """All columns as order keys of float64, fresh; None where some value is no float64."""
    keys = []
    for column in columns:
        if isinstance(column, Floats):
            keys.append(order_keys(column))
        elif isinstance(column, Integers) and column.scale == 0 and _times_exactly(column, 1) is not None:
            keys.append(order_keys(Floats(column.values.astype(np.float64), column.valid)))
        else:
            return None
    return keys
