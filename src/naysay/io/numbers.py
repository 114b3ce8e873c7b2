"""Detect numbers that a 64-bit float cannot hold: too large, too small, or with too many digits."""

from __future__ import annotations

import math
import re
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from naysay.arrays import FLOAT_EXACT

TOO_LARGE = "is too large for a 64-bit float; write inf if you mean infinity"
TOO_SMALL = "is too small for a 64-bit float and would become 0; write 0 if you mean that"
LONG = (
    "is beyond 2^53, where 64-bit floats cannot tell whole numbers apart, and the column is not all plain numbers of "
    "up to 38 digits; write all of them that way, without exponents, or write this one with an exponent"
)
LONG_IN_JSON = (
    "is beyond 2^53, where 64-bit floats cannot tell whole numbers apart, and the column has fractions; write it with "
    "an exponent if it need not be exact, or save the table as CSV or Parquet, which have decimals"
)
_PLAIN = re.compile(r"[+-]?([0-9]*)[.]?[0-9]*")
_NOT_ZERO = re.compile(r"[^eE]*[1-9]")
# A number below the least float has a negative exponent, or this many zeros.
_TINY = (b"e-", b"E-", b"0" * 300)


def suspects(column: pa.ChunkedArray, data: bytes) -> pa.ChunkedArray | None:
    """Which floats may differ from the number written in the text `data`; None if none do."""
    size = pc.abs(column)
    suspect = pc.greater_equal(size, float(FLOAT_EXACT))
    if pc.any(pc.equal(size, 0.0)).as_py() and any(part in data for part in _TINY):
        suspect = pc.or_(suspect, pc.equal(size, 0.0))
    return suspect if pc.any(suspect).as_py() else None


def loss(text: str, value: float) -> str:
    """What is lost when this text becomes this float, in words; empty if only its fraction is rounded."""
    text = text.strip(" \t")
    if math.isinf(value) and "inf" not in text.lower():
        return TOO_LARGE
    if value == 0 and _NOT_ZERO.match(text):
        return TOO_SMALL
    return LONG if is_long(text) and Decimal(value) != Decimal(text) else ""


def is_long(text: str) -> bool:
    """Whether there are more digits before the point than a float keeps; numbers with exponents are floats anyway."""
    found = _PLAIN.fullmatch(text.strip(" \t"))
    return found is not None and int(found[1] or "0") > FLOAT_EXACT
