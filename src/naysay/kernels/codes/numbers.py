"""Numbers to codes: integers that keep equality and order."""

from __future__ import annotations

import numpy as np

from naysay.arrays import FLOAT_EXACT, NULL, BoolArray, Float64Array, Int64Array
from naysay.kernels.compile import kernel

_INFINITY = np.int64(0x7FF0000000000000)


@kernel
def valid_span(keys: Int64Array, valid: BoolArray) -> tuple[int, int, int]:
    """How many rows are valid, and the least and the greatest of their keys (0 and 0 if none is). O(n)."""
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
def clear_nulls(codes: Int64Array, valid: BoolArray) -> None:
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
def finite_spans(keys: Int64Array, valid: BoolArray, spans: Int64Array) -> None:
    """Widen spans = [least negative, greatest negative, least positive, greatest positive] by finite float keys.

    `valid` is empty if no row is null. O(n).
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
def short_decimals(values: Float64Array, valid: BoolArray, factor: float, out: Int64Array) -> int:
    """Write the integers v with v / factor == value, up to the first value that has none within 2**53; returns its row.

    Division by one factor rounds monotonically, so that the integers keep order and equality. `valid` is empty if no
    row is null; null rows get 0. O(n).
    """
    for i in range(len(values)):
        out[i] = 0
        if valid.size and not valid[i]:
            continue
        scaled = np.rint(values[i] * factor)
        if not abs(scaled) <= FLOAT_EXACT or scaled / factor != values[i]:
            return i
        out[i] = np.int64(scaled)
    return len(values)


_MASK = np.int64(0xFFFFFFFF)
# What the floor of a float lost, if nothing: less than every order key of a float.
NOTHING_LOST = np.int64(NULL)


@kernel
def multiply_power_of_ten(limbs: Int64Array, power: int) -> None:
    """Multiply each row by 10**power in place; the caller provides enough limbs. O(rows * limbs * power / 9)."""
    n_rows, n_limbs = limbs.shape
    while power > 0:
        step = min(power, 9)
        power -= step
        factor = np.int64(1)
        for _ in range(step):
            factor *= 10
        for row in range(n_rows):
            carry = np.int64(0)
            for k in range(n_limbs):
                product = (limbs[row, k] & _MASK) * factor + carry
                limbs[row, k] = product & _MASK
                carry = product >> 32
            limbs[row, n_limbs - 1] = _signed(limbs[row, n_limbs - 1])


@kernel
def _signed(limb: int) -> int:
    return limb - 0x100000000 if limb & 0x80000000 else limb


@kernel
def floor_of_floats(
    mantissa: Int64Array, exponent: Int64Array, order: Int64Array, power: int, limbs: Int64Array, beyond: Int64Array
) -> None:
    """Write floor(mantissa * 2**exponent * 10**power) to `limbs`, and what the floor lost to `beyond`.

    `beyond` is NOTHING_LOST or else `order`, the order key of the float, so rows compare as (limbs, beyond). Floats
    too large for the limbs saturate, as does a row whose exponent is 99999 (infinity, NaN), by the sign of its
    mantissa. There are at least four limbs, and they have more than 54 + 4 * power bits.
    """
    n_rows, n_limbs = limbs.shape
    n_bits = 32 * n_limbs
    for row in range(n_rows):
        sign = np.int64(-1) if mantissa[row] < 0 else np.int64(0)
        limbs[row, 0] = mantissa[row] & _MASK
        limbs[row, 1] = (mantissa[row] >> 32) & _MASK
        for k in range(2, n_limbs - 1):
            limbs[row, k] = sign & _MASK
        limbs[row, n_limbs - 1] = sign
        beyond[row] = NOTHING_LOST
    multiply_power_of_ten(limbs, power)
    for row in range(n_rows):
        shift = exponent[row]
        if mantissa[row] == 0:
            continue
        if shift > 0 and shift + 54 + 4 * power > n_bits - 2:
            _saturate(limbs, row, mantissa[row] < 0)
            beyond[row] = order[row]
        elif shift > 0:
            _shift_left(limbs, row, shift)
        elif shift < 0 and _shift_right(limbs, row, -shift):
            beyond[row] = order[row]


@kernel
def _saturate(limbs: Int64Array, row: int, negative: bool) -> None:
    n_limbs = limbs.shape[1]
    for k in range(n_limbs - 1):
        limbs[row, k] = 0
    limbs[row, n_limbs - 1] = -(1 << 40) if negative else 1 << 40


@kernel
def _shift_left(limbs: Int64Array, row: int, shift: int) -> None:
    n_limbs = limbs.shape[1]
    whole, part = shift // 32, shift % 32
    for k in range(n_limbs - 1, -1, -1):
        low = limbs[row, k - whole] & _MASK if k >= whole else np.int64(0)
        lower = limbs[row, k - whole - 1] & _MASK if k >= whole + 1 else np.int64(0)
        limbs[row, k] = ((low << part) | (lower >> (32 - part))) & _MASK
    limbs[row, n_limbs - 1] = _signed(limbs[row, n_limbs - 1])


@kernel
def _shift_right(limbs: Int64Array, row: int, shift: int) -> bool:
    """Shift one row right, rounding down; true if a bit was lost."""
    n_limbs = limbs.shape[1]
    fill = np.int64(-1) if limbs[row, n_limbs - 1] < 0 else np.int64(0)
    whole, part = min(shift // 32, n_limbs), shift % 32
    lost = False
    for k in range(whole):
        lost = lost or (limbs[row, k] & _MASK) != 0
    if whole < n_limbs and part > 0:
        lost = lost or (limbs[row, whole] & ((np.int64(1) << part) - 1)) != 0
    for k in range(n_limbs):
        low = limbs[row, k + whole] & _MASK if k + whole < n_limbs else fill & _MASK
        upper = limbs[row, k + whole + 1] & _MASK if k + whole + 1 < n_limbs else fill & _MASK
        limbs[row, k] = ((low >> part) | (upper << (32 - part))) & _MASK
    limbs[row, n_limbs - 1] = _signed(limbs[row, n_limbs - 1])
    return lost
