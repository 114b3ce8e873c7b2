"""Codes that stay: one integer a value, the same in every batch, in the order of the values.

`table/` ranks the values of one table; a table that grows needs codes that do not depend on what comes later. Integers,
dates, times and short decimals are their own codes, floats the order-keeping form of their bits, texts under equality
alone the number of their first appearance. Whatever fits none of these (text under order, decimals and integers beyond
64 bits, floats beside great integers) gets labels: see `labels.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyarrow import types

from naysay.arrays import BoolArray, Int64Array
from naysay.kernels.codes.numbers import float_keys
from naysay.kernels.trees.zone_tree import NULL
from naysay.live.intern import TextTable
from naysay.live.labels import Labels
from naysay.table.column import Floats, Indexed, Integers, Plain, Text, Wide, read_column
from naysay.table.kind import Kind, kind_of

_FLOAT_EXACT = 1 << 53
_UNIT_SCALE = {"s": 0, "ms": 3, "us": 6, "ns": 9}


class Space:
    """One code space for the columns that a rule compares with each other.

    Codes are integers above NULL, which stands for null. `version` changes where codes given out before are void.
    """

    def __init__(self, column_types: Sequence[pa.DataType], *, ordered: bool) -> None:
        self.version = 0
        self._coder = _coder_for(column_types, ordered)

    def encode(self, column: pa.ChunkedArray) -> Int64Array:
        """The codes of a column, as a fresh array."""
        indexed = read_column(column)
        coder = self._coder
        before = coder.version
        values = coder.encode(indexed.plain)
        if values is None:
            # From here on every value has a label.
            self._coder = coder = LabelCoder(max(coder.scale, _scale_of(column.type)))
            self.version += 1
            before = coder.version
            values = coder.encode(indexed.plain)
            assert values is not None, "labels take every value"
        if coder.version != before:
            self.version += 1
        return _spread(values, indexed)


class Coder(Protocol):
    """A way to give values codes; None where a value does not fit it. `scale` is the decimal scale of the codes."""

    scale: int

    @property
    def version(self) -> int: ...

    def encode(self, plain: Plain) -> Int64Array | None: ...


class IntegerCoder:
    """Integers at one decimal scale as they are."""

    version = 0

    def __init__(self, scale: int) -> None:
        self.scale = scale

    def encode(self, plain: Plain) -> Int64Array | None:
        if not isinstance(plain, Integers) or plain.scale > self.scale:
            return None
        values = np.array(plain.values, np.int64)
        if plain.valid is not None:
            values[~plain.valid] = 0
        if not values.any():
            # Zero at any scale, even one whose factor no 64-bit integer holds.
            return values
        factor = 10 ** (self.scale - plain.scale)
        low, high = int(values.min()), int(values.max())
        if low * factor <= NULL or high * factor >= 2**63:
            return None
        return values if factor == 1 else values * np.int64(factor)


class FloatCoder:
    """Floats, and integers that floats hold exactly, as the order-keeping form of their bits."""

    version = 0
    scale = 0

    def encode(self, plain: Plain) -> Int64Array | None:
        if isinstance(plain, Floats):
            floats = plain.values
        elif isinstance(plain, Integers) and plain.scale == 0:
            integers = plain.values if plain.valid is None else np.where(plain.valid, plain.values, 0)
            if len(integers) and (integers.min() < -_FLOAT_EXACT or integers.max() > _FLOAT_EXACT):
                return None
            floats = integers.astype(np.float64)
        else:
            return None
        keys = np.array(floats, np.float64).view(np.int64)
        float_keys(keys, keys)
        return keys


class TextCoder:
    """Texts that are only ever asked whether they are equal."""

    version = 0
    scale = 0

    def __init__(self) -> None:
        self._table = TextTable()

    def encode(self, plain: Plain) -> Int64Array | None:
        if isinstance(plain, Text):
            return self._table.add(plain.array)
        # A column of nulls alone beside one of text.
        return np.zeros(_length(plain), np.int64) if _all_null(plain) else None


class LabelCoder:
    """Anything with an order, by labels."""

    def __init__(self, scale: int) -> None:
        self.scale = scale
        self._labels = Labels()

    @property
    def version(self) -> int:
        return self._labels.version

    def encode(self, plain: Plain) -> Int64Array | None:
        values = exact_values(plain, self.scale)
        codes = np.zeros(len(values), np.int64)
        valid = np.flatnonzero([value is not None for value in values])
        codes[valid] = self._labels.label([values[place] for place in valid])
        return codes


def exact_values(plain: Plain, scale: int) -> list[Any]:
    """Values that Python compares exactly, times 10**scale; None for null. NaN is greater than infinity."""
    valid = plain.valid
    if isinstance(plain, Text):
        # Python orders text by code point, which is the order of its UTF-8 bytes.
        texts: list[Any] = plain.array.to_pylist()
        return texts if valid is None else [text if kept else None for text, kept in zip(texts, valid, strict=True)]
    if isinstance(plain, Floats):
        exact = [_exact_float(value, scale) for value in plain.values.tolist()]
    elif isinstance(plain, Integers):
        exact = [(0, value * _power(scale - plain.scale)) for value in plain.values.tolist()]
    else:
        weights = [1 << (32 * place) for place in range(plain.limbs.shape[1])]
        factor = _power(scale - plain.scale)
        exact = [
            (0, factor * sum(limb * weight for limb, weight in zip(limbs, weights, strict=True)))
            for limbs in plain.limbs.tolist()
        ]
    if valid is None:
        return exact
    return [value if kept else None for value, kept in zip(exact, valid.tolist(), strict=True)]


def _exact_float(value: float, scale: int) -> tuple[int, Any]:
    if math.isnan(value):
        return 1, 0
    if math.isinf(value):
        return 0, value
    return 0, int(value) * 10**scale if value == math.trunc(value) else Fraction(value) * 10**scale


def _power(exponent: int) -> Any:
    return 10**exponent if exponent >= 0 else Fraction(1, 10**-exponent)


def _coder_for(column_types: Sequence[pa.DataType], ordered: bool) -> Coder:
    kinds = {kind_of(type_) for type_ in column_types} - {Kind.NULL}
    scale = max(_scale_of(type_) for type_ in column_types)
    if kinds == {Kind.TEXT}:
        return LabelCoder(0) if ordered else TextCoder()
    if Kind.FLOAT in kinds:
        return FloatCoder() if kinds <= {Kind.FLOAT, Kind.INT} else LabelCoder(scale)
    return IntegerCoder(scale)


def _scale_of(type_: pa.DataType) -> int:
    if types.is_dictionary(type_) or types.is_run_end_encoded(type_):
        return _scale_of(type_.value_type)
    if types.is_decimal(type_):
        return max(int(type_.scale), 0)
    if types.is_time(type_) or types.is_timestamp(type_) or types.is_duration(type_):
        return _UNIT_SCALE[type_.unit]
    return 0


def _spread(values: Int64Array, column: Indexed) -> Int64Array:
    """Codes of the rows, NULL where they are null."""
    valid = column.plain.valid
    if valid is not None:
        values[~valid] = NULL
    if column.index is None:
        return values
    if len(values) == 0:
        return np.full(len(column.index), NULL, np.int64)
    values = values[column.index]
    if column.index_valid is not None:
        values[~column.index_valid] = NULL
    return values


def _length(plain: Plain) -> int:
    if isinstance(plain, Text):
        return len(plain.array)
    return len(plain.limbs) if isinstance(plain, Wide) else len(plain.values)


def _all_null(plain: Plain) -> bool:
    valid: BoolArray | None = plain.valid
    return _length(plain) == 0 if valid is None else not bool(valid.any())
