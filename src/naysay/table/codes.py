"""What a column becomes: one integer a row."""

from __future__ import annotations

from dataclasses import dataclass

from naysay.arrays import BoolArray, Int64Array

# Codes leave room to be doubled (for <=) and negated (for >) inside 64 bits.
MAX_CODES = 1 << 61


@dataclass(frozen=True, slots=True)
class Codes:
    """A column as integers: equal codes for equal values, and in the order of the values where `ordered`.

    `values` is fresh, C-contiguous, writable int64 in [0, n_values) with n_values <= MAX_CODES; it need not be
    dense. `valid` is False where the value is null (the code there is 0 and means nothing), None where no value is.
    Codes from one call of `Table.joint` share one code space.
    """

    values: Int64Array
    n_values: int
    valid: BoolArray | None
    ordered: bool
