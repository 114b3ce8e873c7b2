"""Numbers of any mix of types to codes in one space: exact for all scales, units and widths.

The first of these that is exact: integers at one scale; floats that are short decimals; the bits of floats, which sort
like integers; ranks among wide integers, which can represent everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import FLOAT_EXACT, MAX_CODES, BoolArray, Int64Array
from naysay.errors import TableError
from naysay.table.column import Codes, Floats, Integers, Numbers, Wide

_MAX_DIGITS = 6
_NO_MASK: BoolArray = np.empty(0, dtype=np.bool_)


def times_power_of_ten(column: Floats, digits: int) -> tuple[Int64Array | None, int]:
    """The values times 10**digits, or how many digits they need instead; None if even the most are too few."""
    from naysay.kernels.codes.numbers import short_decimals

    values = read_only(column.values)
    valid = _NO_MASK if column.valid is None else column.valid
    out = np.empty(len(values), dtype=np.int64)
    for tried in range(digits, _MAX_DIGITS + 1):
        stop = short_decimals(values, valid, 10.0**tried, out)
        if stop == len(values):
            return out, tried
        if not abs(float(values[stop])) * 10.0**tried <= FLOAT_EXACT:
            break
    return None, digits


def order_keys(column: Floats) -> Int64Array:
    """Integers in the order of the floats; see `kernels.codes.numbers.float_keys`."""
    from naysay.kernels.codes.numbers import float_keys

    keys = np.empty(len(column.values), dtype=np.int64)
    float_keys(read_only(column.values).view(np.int64), keys)
    return keys


def close_gaps(keys: list[Int64Array], valid: Sequence[BoolArray | None]) -> tuple[list[Int64Array], int]:
    """Bring keys of floats together in place: the bits of numbers near 1, of zero and of infinity are far apart."""
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


def encode_numbers(columns: Sequence[Numbers]) -> tuple[Codes, ...]:
    """Order-keeping codes in one space. O(n) if a 64-bit form fits all columns, else a sort."""
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
    """All columns as int64 at one scale, or None if some value does not fit. They may be views."""
    keys: list[Int64Array] = []
    scale = max([column.scale for column in columns if not isinstance(column, Floats)], default=0)
    for column in columns:
        if not isinstance(column, Integers):
            return None
        key = column.values if column.scale == scale else _times(column, 10 ** (scale - column.scale), 2**63 - 1)
        if key is None:
            return None
        keys.append(key)
    return keys


def _times(column: Integers, factor: int, most: int) -> Int64Array | None:
    """The values times a factor, or None if one of them is then beyond `most`."""
    low, high = span_of(column.values, column.valid) or (0, 0)
    if max(-low, high) * factor > most:
        return None
    scaled: Int64Array = column.values * np.int64(factor if factor < 2**63 else 0)
    return scaled


def _as_short_decimals(columns: Sequence[Numbers]) -> list[Int64Array] | None:
    """Floats and whole numbers, times a power of ten that makes integers of all; None if there is none.

    Measured amounts and rates are mostly short decimals, and their codes then have a small range.
    """
    digits = 0
    keys: list[Int64Array] = []
    while len(keys) < len(columns):
        column = columns[len(keys)]
        if isinstance(column, Floats):
            key, needed = times_power_of_ten(column, digits)
        elif isinstance(column, Integers) and column.scale == 0:
            key, needed = _times(column, 10**digits, FLOAT_EXACT), digits
        else:
            return None
        if needed > digits:
            keys, digits = [], needed
        elif key is None:
            return None
        else:
            keys.append(key)
    return keys


def _as_floats(columns: Sequence[Numbers]) -> list[Int64Array] | None:
    """All columns as order keys of float64, fresh; None if some value is not a float64."""
    keys = []
    for column in columns:
        if isinstance(column, Floats):
            keys.append(order_keys(column))
        elif isinstance(column, Integers) and column.scale == 0 and _times(column, 1, FLOAT_EXACT) is not None:
            keys.append(order_keys(Floats(column.values.astype(np.float64), column.valid)))
        else:
            return None
    return keys


_NOT_FINITE = 99_999


def wide_ranks(columns: Sequence[Numbers]) -> tuple[list[Int64Array], int]:
    """Ranks of the exact values over all rows of all columns, as wide integers at one scale. O(n log n)."""
    scale = max(0, max([column.scale for column in columns if not isinstance(column, Floats)], default=0))
    digits = max(_whole_digits(column) for column in columns) + scale
    if digits > 150:
        raise TableError(f"decimals of {digits} digits once brought to one scale are too wide to compare exactly")
    given = [column.limbs.shape[1] for column in columns if isinstance(column, Wide)]
    n_limbs = max(4, (4 * digits + 64) // 32 + 1, *given)
    parts = [_rows(column, scale, n_limbs) for column in columns]
    keys = np.concatenate(parts)
    order = np.lexsort(keys.T)
    ordered = keys[order]
    new = np.any(ordered[1:] != ordered[:-1], axis=1)
    ranks = np.zeros(len(keys), dtype=np.int64)
    ranks[order[1:]] = np.cumsum(new)
    bounds = np.cumsum([len(part) for part in parts])[:-1]
    return [np.array(part) for part in np.split(ranks, bounds)], int(new.sum()) + 1


def _whole_digits(column: Numbers) -> int:
    """A bound on the digits before the point; floats beyond the bound saturate."""
    if isinstance(column, Floats):
        return 20
    return (column.digits if isinstance(column, Wide) else 19) - column.scale


def _rows(column: Numbers, scale: int, n_limbs: int) -> Int64Array:
    """Rows that compare as the values do, the last column first: what a floor lost, then limbs, the least first."""
    if isinstance(column, Floats):
        return _float_rows(column, scale, n_limbs)
    from naysay.kernels.codes.numbers import NOTHING_LOST, multiply_power_of_ten

    given = column.limbs if isinstance(column, Wide) else _two_limbs(column)
    n_rows, n_given = given.shape
    limbs = np.empty((n_rows, n_limbs), dtype=np.int64)
    limbs[:, :n_given] = given
    if n_given < n_limbs:
        sign = given[:, -1] >> 63
        limbs[:, n_given - 1] &= 0xFFFFFFFF
        limbs[:, n_given:-1] = (sign & 0xFFFFFFFF)[:, None]
        limbs[:, -1] = sign
    multiply_power_of_ten(limbs, scale - column.scale)
    return np.column_stack((np.full(n_rows, NOTHING_LOST), limbs))


def _two_limbs(column: Integers) -> Int64Array:
    values = column.values if column.valid is None else np.where(column.valid, column.values, 0)
    return np.column_stack((values & 0xFFFFFFFF, values >> 32))


def _float_rows(column: Floats, scale: int, n_limbs: int) -> Int64Array:
    from naysay.kernels.codes.numbers import floor_of_floats

    values = column.values if column.valid is None else np.where(column.valid, column.values, 0.0)
    finite = np.isfinite(values)
    fraction, exponent = np.frexp(np.where(finite, values, np.where(values < 0, -1.0, 1.0)))
    mantissa = np.ldexp(fraction, 53).astype(np.int64)
    shift = np.where(finite, exponent.astype(np.int64) - 53, _NOT_FINITE)
    limbs = np.empty((len(values), n_limbs), dtype=np.int64)
    beyond = np.empty(len(values), dtype=np.int64)
    floor_of_floats(mantissa, shift, order_keys(Floats(values, None)), scale, limbs, beyond)
    return np.column_stack((beyond, limbs))


Scalar = TypeVar("Scalar", np.int64, np.float64)


def shift_to_zero(keys: list[Int64Array], valid: Sequence[BoolArray | None]) -> tuple[list[Int64Array], int]:
    """Keys as fresh codes in [0, n_values): less their minimum, or ranks if their range is too large."""
    spans = [span_of(key, mask) for key, mask in zip(keys, valid, strict=True)]
    found = [span for span in spans if span is not None]
    low, high = min([span[0] for span in found], default=0), max([span[1] for span in found], default=0)
    if high - low < MAX_CODES:
        return [key - low for key in keys], high - low + 1
    return rank_together(keys, valid)


def rank_together(keys: list[Int64Array], valid: Sequence[BoolArray | None]) -> tuple[list[Int64Array], int]:
    """Dense ranks over all valid rows of all columns; null rows get 0. A radix sort."""
    from naysay.kernels.sort import dense_ranks

    parts = [key if mask is None else key[mask] for key, mask in zip(keys, valid, strict=True)]
    ranks, n_ranks = dense_ranks(np.concatenate(parts))
    codes = []
    start = 0
    for key, mask, part in zip(keys, valid, parts, strict=True):
        code = np.zeros(len(key), dtype=np.int64)
        code[slice(None) if mask is None else mask] = ranks[start : start + len(part)]
        start += len(part)
        codes.append(code)
    return codes, max(1, int(n_ranks))


def span_of(keys: Int64Array, valid: BoolArray | None) -> tuple[int, int] | None:
    """The least and the greatest valid key, None if there is none."""
    if valid is None:
        return (int(keys.min()), int(keys.max())) if len(keys) else None
    from naysay.kernels.codes.numbers import valid_span

    n_valid, low, high = valid_span(read_only(keys), valid)
    return (int(low), int(high)) if n_valid else None


def clear_nulls(codes: Int64Array, valid: BoolArray | None) -> None:
    """Set the codes of null rows to 0, in place."""
    if valid is not None:
        from naysay.kernels.codes import numbers as encode

        encode.clear_nulls(codes, valid)


def read_only(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """A contiguous read-only view: arrays from Arrow are read-only, and a kernel should see only one type."""
    view: NDArray[Scalar] = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
