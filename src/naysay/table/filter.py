"""The truth of a predicate about one row, for every row."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from naysay.arrays import BoolArray, Float64Array, Int64Array
from naysay.rule.model import Nulls, Op, Value
from naysay.rule.reading import read_as_float
from naysay.table.codes import Codes
from naysay.table.column import Floats, Indexed, Integers, Plain, Text, Wide

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)


def compare_codes(left: Codes, op: Op, right: Codes, nulls: Nulls) -> BoolArray:
    """`left op right` row by row, for two columns in one code space."""
    truth: BoolArray = op.compare(left.values, right.values)
    if left.valid is None and right.valid is None:
        return truth
    every = np.ones(len(truth), dtype=np.bool_)
    left_valid = every if left.valid is None else left.valid
    right_valid = every if right.valid is None else right.valid
    truth = truth & left_valid & right_valid
    if nulls is Nulls.EQUAL and op is Op.EQ:
        truth |= ~left_valid & ~right_valid
    if nulls is Nulls.EQUAL and op is Op.NE:
        truth |= left_valid != right_valid
    return truth


def compare_constant(column: Indexed, op: Op, value: Value, nulls: Nulls) -> BoolArray:
    """`column op value` row by row, exactly; the kinds must compare (see `fit.check_constant`)."""
    truth = _compare_plain(column.plain, op, value)
    valid = column.plain.valid
    if column.index is not None:
        truth = truth[column.index]
        valid = None if valid is None else valid[column.index]
        if column.index_valid is not None:
            valid = column.index_valid if valid is None else valid & column.index_valid
    if valid is not None:
        truth = np.where(valid, truth, nulls is Nulls.EQUAL and op is Op.NE)
    return truth


def _compare_plain(plain: Plain, op: Op, value: Value) -> BoolArray:
    if isinstance(plain, Text):
        less, equal = _beside_text(plain.array, value)
    else:
        number = exact_number(value, plain.bits if isinstance(plain, Floats) else None)
        if isinstance(plain, Floats):
            less, equal = _beside_floats(plain.values, number)
        elif isinstance(plain, Integers):
            less, equal = _beside_integers(plain.values, _scaled(number, plain.scale))
        else:
            less, equal = _beside_wide(plain, _scaled(number, plain.scale))
    if op in (Op.EQ, Op.NE):
        return equal if op is Op.EQ else ~equal
    if op in (Op.LT, Op.GE):
        return less if op is Op.LT else ~less
    return less | equal if op is Op.LE else ~(less | equal)


def exact_number(value: Value, float_bits: int | None) -> Fraction | float:
    """A constant as an exact number (times: seconds; dates: days); a float only where it is infinite or NaN.

    A written fraction is read in the type of the column: 0.1 is the nearest float beside floats of `float_bits`, and
    one tenth beside decimals (None), whichever of Python's types carries it.
    """
    if isinstance(value, Decimal):
        if not value.is_finite():
            return float(value)
        nearest = math.inf if float_bits is None else float(value)
        return Fraction(value) if math.isinf(nearest) else Fraction(read_as_float(nearest, float_bits or 64))
    if isinstance(value, float):
        if not math.isfinite(value):
            return value
        if float_bits is not None:
            return Fraction(read_as_float(value, float_bits))
        return Fraction(value) if value == math.trunc(value) else Fraction(repr(value))
    if isinstance(value, int):
        return Fraction(value)
    if isinstance(value, datetime.datetime):
        return Fraction((value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND, 10**6)
    if isinstance(value, datetime.date):
        return Fraction((value - _EPOCH.date()).days)
    assert isinstance(value, datetime.time)
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return Fraction(seconds * 10**6 + value.microsecond, 10**6)


def _scaled(number: Fraction | float, scale: int) -> Fraction | float:
    return number * Fraction(10) ** scale if isinstance(number, Fraction) else number


def _beside_text(array: pa.Array, value: Value) -> tuple[BoolArray, BoolArray]:
    """Where values are less than the constant, and where equal; so too below."""
    assert isinstance(value, str)
    # As bytes: a constant may hold half a surrogate pair, which no text in a column can.
    scalar = pa.scalar(value.encode("utf-8", "surrogatepass"), pa.large_binary())
    stored = array.cast(pa.large_binary())
    less, equal = (
        np.array(pc.fill_null(compare(stored, scalar), False).to_numpy(zero_copy_only=False), dtype=np.bool_)
        for compare in (pc.less, pc.equal)
    )
    return less, equal


def _beside_floats(values: Float64Array, number: Fraction | float) -> tuple[BoolArray, BoolArray]:
    if isinstance(number, float):
        if math.isnan(number):
            return ~np.isnan(values), np.isnan(values)
        return values < number, values == number
    try:
        nearest = float(number)
    except OverflowError:
        nearest = math.inf if number > 0 else -math.inf
    never = np.zeros(len(values), dtype=np.bool_)
    if math.isfinite(nearest) and nearest == number:
        return values < nearest, values == nearest
    return (values <= nearest if nearest < number else values < nearest), never


def _beside_integers(values: Int64Array, number: Fraction | float) -> tuple[BoolArray, BoolArray]:
    never = np.zeros(len(values), dtype=np.bool_)
    if isinstance(number, float):
        return (never if number == -math.inf else ~never), never
    floor = math.floor(number)
    if not -(2**63) <= floor < 2**63:
        return (never if floor < 0 else ~never), never
    if floor == number:
        return values < floor, values == floor
    return values <= floor, never


def _beside_wide(plain: Wide, number: Fraction | float) -> tuple[BoolArray, BoolArray]:
    n_rows, n_limbs = plain.limbs.shape
    less, equal = np.zeros(n_rows, dtype=np.bool_), np.ones(n_rows, dtype=np.bool_)
    if isinstance(number, float) or not -(2 ** (32 * n_limbs - 1)) <= math.floor(number) < 2 ** (32 * n_limbs - 1):
        return (less if number < 0 else ~less), ~equal
    floor = math.floor(number)
    for k in range(n_limbs - 1, -1, -1):
        limb = floor >> (32 * k)
        if k < n_limbs - 1:
            limb &= 0xFFFFFFFF
        less |= equal & (plain.limbs[:, k] < limb)
        equal &= plain.limbs[:, k] == limb
    if floor != number:
        return less | equal, np.zeros(n_rows, dtype=np.bool_)
    return less, equal
