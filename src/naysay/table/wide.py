"""Ranks of numbers that no 64-bit form holds: decimals of many digits, uint64 beside int64, floats beside decimals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from naysay.arrays import Int64Array
from naysay.errors import TableError
from naysay.table.column import Floats, Integers, Numbers, Wide
from naysay.table.floats import order_keys

_EXACT = -(2**63)
_NOT_FINITE = 99_999


def wide_ranks(columns: Sequence[Numbers]) -> tuple[list[Int64Array], int]:
    """Ranks of the exact values over all rows of all columns, by way of wide integers at one scale. O(n log n)."""
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
    from naysay.kernels.codes.wide import multiply_power_of_ten

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
    return np.column_stack((np.full(n_rows, _EXACT, dtype=np.int64), limbs))


def _two_limbs(column: Integers) -> Int64Array:
    values = column.values if column.valid is None else np.where(column.valid, column.values, 0)
    return np.column_stack((values & 0xFFFFFFFF, values >> 32))


def _float_rows(column: Floats, scale: int, n_limbs: int) -> Int64Array:
    from naysay.kernels.codes.wide import floor_of_floats

    values = column.values if column.valid is None else np.where(column.valid, column.values, 0.0)
    finite = np.isfinite(values)
    fraction, exponent = np.frexp(np.where(finite, values, np.where(values < 0, -1.0, 1.0)))
    mantissa = np.ldexp(fraction, 53).astype(np.int64)
    shift = np.where(finite, exponent.astype(np.int64) - 53, _NOT_FINITE)
    limbs = np.empty((len(values), n_limbs), dtype=np.int64)
    beyond = np.empty(len(values), dtype=np.int64)
    floor_of_floats(mantissa, shift, order_keys(Floats(values, None)), scale, limbs, beyond)
    return np.column_stack((beyond, limbs))
