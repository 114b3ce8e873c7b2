"""How a number in a rule is read beside a column: a fraction in the type of the column, a whole number exactly."""

from __future__ import annotations

import math
import struct
from decimal import Decimal

from naysay.rule.model import Value

_NARROW = {32: "<f", 16: "<e"}


def read_as_float(value: float, bits: int) -> float:
    """A finite float beside floats of `bits` bits: of 0.1, the nearest that such a column can hold.

    A whole number, and one that would become zero or infinity, stays as it is.
    """
    form = _NARROW.get(bits)
    if form is None or value == math.trunc(value):
        return value
    try:
        nearest: float = struct.unpack(form, struct.pack(form, value))[0]
    except OverflowError:
        return value
    return nearest or value


def readings(value: Value) -> list[int | float | Decimal]:
    """A number as it is read beside a column of ints, of decimals, and of floats of 64, 32 and 16 bits."""
    if isinstance(value, float) and math.isfinite(value):
        return [value, value if value == int(value) else Decimal(float.__repr__(value)), *_as_floats(value)]
    if isinstance(value, Decimal):
        nearest = float(value)
        return [value, value, *(_as_floats(nearest) if math.isfinite(nearest) else [value] * 3)]
    assert isinstance(value, (int, float))
    return [value] * 5


def _as_floats(value: float) -> list[float]:
    return [read_as_float(value, bits) for bits in (64, 32, 16)]


def is_plain(value: Value) -> bool:
    """A number that is the same number beside columns of every type, as 1 and 0.5 are and 0.1 is not."""
    first, *others = readings(value)
    return all(other == first for other in others)
