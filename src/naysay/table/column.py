"""A column in its plainest exact form: integers with a decimal scale, floats, wide integers, or text.

Every kind that has an order is one of the first three: a boolean, a date or a time is an integer; a decimal is its
unscaled integer with its scale; a time in milliseconds has scale 3. So that mixed scales, units and number types
compare in one way (see `numbers.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from naysay.table.codes import BoolArray, Int64Array

Scalar = TypeVar("Scalar", np.int64, np.uint64, np.float64)
Float64Array = NDArray[np.float64]

_UNIT_SCALE = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_MS_PER_DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class Integers:
    """Values times 10**-scale. What stands where a value is null means nothing, here and below."""

    values: Int64Array
    scale: int
    valid: BoolArray | None


@dataclass(frozen=True, slots=True)
class Floats:
    values: Float64Array
    valid: BoolArray | None


@dataclass(frozen=True, slots=True)
class Wide:
    """Integers beyond 64 bits times 10**-scale, as limbs of `kernels.wide`; `digits` bounds their decimal digits."""

    limbs: Int64Array
    scale: int
    digits: int
    valid: BoolArray | None


@dataclass(frozen=True, slots=True)
class Text:
    """Text as one Arrow array, string or large_string."""

    array: pa.Array

    @property
    def valid(self) -> BoolArray | None:
        return valid_of(self.array)


Numbers = Integers | Floats | Wide
Plain = Numbers | Text


@dataclass(frozen=True, slots=True)
class Indexed:
    """A column as stored: `plain` itself, or a dictionary `plain` with the place in it of each row's value."""

    plain: Plain
    index: Int64Array | None = None
    index_valid: BoolArray | None = None


def read_column(column: pa.ChunkedArray) -> Indexed:
    """Bring a column of any comparable kind to its plain form."""
    type_ = column.type
    if types.is_run_end_encoded(type_):
        chunks = [pc.run_end_decode(chunk) for chunk in column.chunks]
        return read_column(pa.chunked_array(chunks, type_.value_type))
    if types.is_dictionary(type_):
        return _read_dictionary(column)
    return Indexed(_plain(column))


def valid_of(array: pa.Array | pa.ChunkedArray) -> BoolArray | None:
    """Where an array is not null, as a fresh array; None where it never is."""
    if array.null_count == 0:
        return None
    return np.array(pc.is_valid(array).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _read_dictionary(column: pa.ChunkedArray) -> Indexed:
    """Chunks may have different dictionaries, and dictionaries repeated values and nulls: all are kept side by side."""
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    dictionaries = [chunk.dictionary for chunk in chunks]
    plain = read_column(pa.chunked_array(dictionaries, column.type.value_type))
    if plain.index is not None:
        return read_column(pa.chunked_array([chunk.dictionary_decode() for chunk in chunks], column.type.value_type))
    index = np.empty(sum(map(len, chunks)), dtype=np.int64)
    start = offset = 0
    for chunk, dictionary in zip(chunks, dictionaries, strict=True):
        stop = start + len(chunk)
        index[start:stop] = pc.fill_null(chunk.indices, 0).to_numpy(zero_copy_only=False)
        index[start:stop] += offset
        start, offset = stop, offset + len(dictionary)
    valid = valid_of(pa.chunked_array([chunk.indices for chunk in chunks])) if chunks else None
    if valid is not None:
        if offset == 0:
            return Indexed(_plain(pa.chunked_array([pa.nulls(len(index), column.type.value_type)])))
        index[~valid] = 0
    return Indexed(plain.plain, index, valid)


def _plain(column: pa.ChunkedArray) -> Plain:
    type_ = column.type
    if types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_):
        return Text(_one_text(column))
    if types.is_floating(type_):
        return Floats(_numpy(pc.cast(column, pa.float64()), np.float64), valid_of(column))
    if types.is_decimal(type_):
        return _decimals(column)
    if types.is_uint64(type_):
        return _unsigned(column)
    return Integers(*_integers(column), valid_of(column))


def _one_text(column: pa.ChunkedArray) -> pa.Array:
    """One array of all chunks, with offsets of 32 bits where they came so and suffice."""
    if types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if column.num_chunks > 1 and types.is_string(column.type) and column.nbytes > 1 << 30:
        column = column.cast(pa.large_string())
    return combine(column)


def _integers(column: pa.ChunkedArray) -> tuple[Int64Array, int]:
    type_ = column.type
    if types.is_null(type_):
        return np.zeros(len(column), dtype=np.int64), 0
    if types.is_boolean(type_):
        return _numpy(pc.cast(column, pa.int8()), np.int64), 0
    if types.is_integer(type_):
        return _numpy(column, np.int64), 0
    if types.is_date64(type_):
        return _numpy(column.cast(pa.int64()), np.int64) // _MS_PER_DAY, 0
    if type_.bit_width == 32:
        column = column.cast(pa.int32())
    values = _numpy(column.cast(pa.int64()), np.int64)
    return values, 0 if types.is_date(type_) else _UNIT_SCALE[type_.unit]


def _unsigned(column: pa.ChunkedArray) -> Numbers:
    values = _numpy(column, np.uint64)
    valid = valid_of(column)
    if not len(values) or values.max() < 2**63:
        return Integers(values.view(np.int64), 0, valid)
    limbs = np.zeros((len(values), 4), dtype=np.int64)
    limbs[:, 0] = (values & np.uint64(0xFFFFFFFF)).view(np.int64)
    limbs[:, 1] = (values >> np.uint64(32)).view(np.int64)
    return Wide(limbs, 0, 20, valid)


def _decimals(column: pa.ChunkedArray) -> Numbers:
    type_ = column.type
    valid = valid_of(column)
    is_256 = types.is_decimal256(type_)
    if not is_256 and not types.is_decimal128(type_):
        column = column.cast(pa.decimal128(type_.precision, type_.scale))
    words = 4 if is_256 else 2
    array = combine(column)
    raw = np.frombuffer(array.buffers()[1] or b"", dtype="<i8", count=words * (len(array) + array.offset))
    raw = raw.reshape(-1, words)[array.offset :]
    low = np.array(raw[:, 0])
    if valid is not None:
        low[~valid] = 0
    sign = low >> 63
    narrow = raw[:, 1:] == sign[:, None]
    if bool(np.all(narrow if valid is None else narrow[valid])):
        return Integers(low, type_.scale, valid)
    limbs = raw.copy().view("<u4").astype(np.int64)
    limbs[:, -1] = limbs[:, -1].astype(np.uint32).view(np.int32)
    if valid is not None:
        limbs[~valid] = 0
    return Wide(limbs, type_.scale, type_.precision, valid)


def combine(column: pa.ChunkedArray) -> pa.Array:
    """One array of all chunks, without a copy where there is one chunk."""
    if column.num_chunks == 1:
        return column.chunk(0)
    if column.num_chunks == 0:
        return pa.array([], column.type)
    return pa.concat_arrays(column.chunks)


def _numpy(column: pa.ChunkedArray, dtype: type[Scalar]) -> NDArray[Scalar]:
    """A fresh array of the values, zero where they are null."""
    out: NDArray[Scalar] = np.empty(len(column), dtype=dtype)
    start = 0
    for chunk in column.chunks:
        if chunk.null_count:
            chunk = pc.fill_null(chunk, 0)
        out[start : start + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
        start += len(chunk)
    return out
