"""Numbers of any mix of types to codes in one space: exact, whatever their scales, units and widths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from naysay.errors import TableError
from naysay.table.codes import MAX_CODES, BoolArray, Codes, Int64Array
from naysay.table.column import Floats, Integers, Numbers, Wide

_FLOAT_EXACT = 1 << 53
_EXACT = -(2**63)


def encode_numbers(columns: Sequence[Numbers]) -> tuple[Codes, ...]:
    """Order-keeping codes in one space. O(n) where one 64-bit form fits them all, else a sort."""
    keys = _as_integers(columns) or _as_floats(columns)
    if keys is None:
        keys, n_values = _as_ranks(columns)
    else:
        n_values = close_range(keys, columns)
    for key, column in zip(keys, columns, strict=True):
        if column.valid is not None:
            key[~column.valid] = 0
    return tuple(Codes(key, n_values, column.valid, True) for key, column in zip(keys, columns, strict=True))


def close_range(keys: list[Int64Array], columns: Sequence[Numbers]) -> int:
    """Shift keys in place to [0, n_values): by their minimum, by closing the widest gaps, or else by rank."""
    spans = [_span(key, column.valid) for key, column in zip(keys, columns, strict=True)]
    found = [span for span in spans if span is not None]
    if not found:
        return 1
    low, high = min(span[0] for span in found), max(span[1] for span in found)
    if high - low < MAX_CODES:
        for key in keys:
            np.subtract(key, low, out=key)
        return high - low + 1
    return rank_together(keys, [column.valid for column in columns])


def rank_together(keys: list[Int64Array], valid: Sequence[BoolArray | None]) -> int:
    """Replace keys in place by their dense ranks over all valid rows of all columns."""
    parts = [key if mask is None else key[mask] for key, mask in zip(keys, valid, strict=True)]
    distinct = np.unique(np.concatenate(parts))
    for key in keys:
        key[:] = np.searchsorted(distinct, key)
    return max(1, len(distinct))


def _span(keys: Int64Array, valid: BoolArray | None) -> tuple[int, int] | None:
    if valid is not None:
        keys = keys[valid]
    return (int(keys.min()), int(keys.max())) if len(keys) else None


def _as_integers(columns: Sequence[Numbers]) -> list[Int64Array] | None:
    """All columns as int64 at one scale, or None where some value does not fit. Always fresh."""
    scale = max([column.scale for column in columns if not isinstance(column, Floats)], default=0)
    keys = []
    for column in columns:
        key = _scaled_integers(column, max(scale, 0))
        if key is None:
            return None
        keys.append(key)
    return keys


def _scaled_integers(column: Numbers, scale: int) -> Int64Array | None:
    if isinstance(column, Wide):
        return None
    if isinstance(column, Floats):
        return _whole(column) if scale == 0 else None
    if column.scale == scale:
        return np.array(column.values, dtype=np.int64)
    span = _span(column.values, column.valid)
    factor: int = 10 ** (scale - column.scale)
    if span is not None and max(-span[0], span[1]) * factor >= 2**63:
        return None
    scaled: Int64Array = column.values * np.int64(factor if factor < 2**63 else 0)
    return scaled


def _whole(column: Floats) -> Int64Array | None:
    """The floats as integers where every one is whole and within 2**53."""
    values = column.values if column.valid is None else np.where(column.valid, column.values, 0.0)
    small = np.abs(values) <= _FLOAT_EXACT
    if not bool(small.all()) or bool((np.trunc(values) != values).any()):
        return None
    return values.astype(np.int64)


def _as_floats(columns: Sequence[Numbers]) -> list[Int64Array] | None:
    """All columns as order keys of float64, or None where some value is no float64. Always fresh."""
    from naysay.kernels.encode import float_keys

    keys = []
    for column in columns:
        if isinstance(column, Floats):
            values = column.values
        elif isinstance(column, Integers) and column.scale == 0:
            span = _span(column.values, column.valid) or (0, 0)
            if max(-span[0], span[1]) > _FLOAT_EXACT:
                return None
            values = column.values.astype(np.float64)
        else:
            return None
        key = np.empty(len(values), dtype=np.int64)
        float_keys(np.ascontiguousarray(values).view(np.int64), key)
        keys.append(key)
    return keys


def _as_ranks(columns: Sequence[Numbers]) -> tuple[list[Int64Array], int]:
    """Dense ranks of the exact values, by way of wide integers. O(n log n)."""
    scale = max(0, max([column.scale for column in columns if not isinstance(column, Floats)], default=0))
    digits = max(_digits(column) + scale for column in columns)
    if digits > 150:
        raise TableError(f"decimals of {digits} digits once brought to one scale are too wide to compare exactly")
    given = [column.limbs.shape[1] for column in columns if isinstance(column, Wide)]
    n_limbs = max(4, (4 * digits + 64) // 32 + 1, *given)
    parts = [_limbs(column, scale, n_limbs) for column in columns]
    keys = np.concatenate(parts)
    order = np.lexsort(keys.T)
    ordered = keys[order]
    new = np.any(ordered[1:] != ordered[:-1], axis=1)
    ranks = np.empty(len(keys), dtype=np.int64)
    if len(keys):
        ranks[order] = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(new)))
    bounds = np.cumsum([len(part) for part in parts])[:-1]
    return [part.copy() for part in np.split(ranks, bounds)], max(1, int(new.sum()) + 1)


def _digits(column: Numbers) -> int:
    if isinstance(column, Floats):
        return 20
    return (column.digits if isinstance(column, Wide) else 19) - column.scale


def _limbs(column: Numbers, scale: int, n_limbs: int) -> Int64Array:
    """Rows that compare as the values do: what floors lost first, then limbs, the most significant last."""
    from naysay.kernels.encode import float_keys
    from naysay.kernels.wide import floor_of_floats, multiply_power_of_ten

    n_rows = len(column.limbs) if isinstance(column, Wide) else len(column.values)
    limbs = np.zeros((n_rows, n_limbs), dtype=np.int64)
    beyond = np.full(n_rows, _EXACT, dtype=np.int64)
    if isinstance(column, Floats):
        values = column.values if column.valid is None else np.where(column.valid, column.values, 0.0)
        order = np.empty(n_rows, dtype=np.int64)
        float_keys(np.ascontiguousarray(values).view(np.int64), order)
        finite = np.isfinite(values)
        fraction, exponent = np.frexp(np.where(finite, values, np.where(values < 0, -1.0, 1.0)))
        mantissa = np.ldexp(fraction, 53).astype(np.int64)
        shift = np.where(finite, exponent.astype(np.int64) - 53, 99_999)
        floor_of_floats(mantissa, shift, order, scale, limbs, beyond)
    else:
        if isinstance(column, Wide):
            n_given = column.limbs.shape[1]
            limbs[:, :n_given] = column.limbs
        else:
            n_given = 2
            limbs[:, 0] = column.values & 0xFFFFFFFF
            limbs[:, 1] = column.values >> 32
        _extend_sign(limbs, n_given)
        multiply_power_of_ten(limbs, scale - column.scale)
    return np.column_stack((beyond, limbs))


def _extend_sign(limbs: Int64Array, n_given: int) -> None:
    if n_given == limbs.shape[1]:
        return
    sign = limbs[:, n_given - 1] >> 63
    limbs[:, n_given - 1] &= 0xFFFFFFFF
    limbs[:, n_given:-1] = (sign & 0xFFFFFFFF)[:, None]
    limbs[:, -1] = sign
