"""The types of numpy arrays that everything is made of, and the codes and bounds that have a meaning everywhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
Float64Array = NDArray[np.float64]
Int8Array = NDArray[np.int8]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
UInt8Array = NDArray[np.uint8]
UInt32Array = NDArray[np.uint32]
UInt64Array = NDArray[np.uint64]

# The code of a null in a table that changes. No value has it, so a range of values never includes it by accident.
NULL: int = np.iinfo(np.int64).min
# Codes stay below this, so that they can be doubled (for <=) and negated (for >) within 64 bits.
MAX_CODES = 1 << 61
# A float64 holds every whole number up to this one.
FLOAT_EXACT = 1 << 53
# A limit that is never reached.
UNLIMITED = 1 << 62


def largest(numbers: Int64Array) -> int:
    """The greatest of some numbers. Quicker than `max` on a single one, as in a batch of one row."""
    return int(numbers[0]) if len(numbers) == 1 else int(numbers.max())


def as_rows(columns: Sequence[Int64Array]) -> Int64Array:
    """The columns side by side, one row after another; a single one as it is. Quicker than np.stack on a few rows."""
    if len(columns) == 1:
        return columns[0].reshape(-1, 1)
    rows = np.empty((len(columns[0]), len(columns)), np.int64)
    for number, column in enumerate(columns):
        rows[:, number] = column
    return rows
