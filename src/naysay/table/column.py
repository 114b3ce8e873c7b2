"""A column in its plainest exact form: integers with a decimal scale, floats, wide integers, or text.

Every kind that has an order is one of the first three: a boolean, a date or a time is an integer; a decimal is its
unscaled integer with its scale; a time in milliseconds has scale 3. So mixed scales, units and number types all compare
in the same way (see `numbers.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from naysay.arrays import BoolArray, Float64Array, Int64Array
from naysay.table.frame import decoded


@dataclass(frozen=True, slots=True)
class Codes:
    """A column as integers: equal codes for equal values, and in the order of the values if `ordered`.

    `values` is fresh, C-contiguous, writable int64 in [0, n_values) with n_values <= MAX_CODES; it need not be
    dense. `valid` is False for rows that are null (their code is 0 and means nothing), None if no row is.
    Codes from one call of `Table.joint` share one code space.
    """

    values: Int64Array
    n_values: int
    valid: BoolArray | None
    ordered: bool


class Kind(Enum):
    """The family a column's values compare within. OTHER is everything that rules cannot compare."""

    BOOL = "boolean"
    INT = "integer"
    FLOAT = "floating point"
    DECIMAL = "decimal"
    TEXT = "text"
    DATE = "date"
    TIME = "time of day"
    TIMESTAMP = "timestamp without zone"
    INSTANT = "timestamp with zone"
    DURATION = "duration"
    NULL = "null"
    OTHER = "unsupported"

    @property
    def is_number(self) -> bool:
        return self in (Kind.INT, Kind.FLOAT, Kind.DECIMAL)

    @property
    def has_order(self) -> bool:
        """Whether order comparisons are usual: text and booleans are ordered only if a rule asks for it."""
        return self not in (Kind.TEXT, Kind.BOOL, Kind.NULL, Kind.OTHER)

    def compares_with(self, other: Kind) -> bool:
        """Whether the two can be compared. A column of only nulls compares with anything."""
        if Kind.OTHER in (self, other):
            return False
        if Kind.NULL in (self, other) or self is other:
            return True
        return self.is_number and other.is_number


def kind_of(type_: pa.DataType) -> Kind:
    """The kind of a type; encodings (dictionary, run-end) have the kind of their values."""
    if types.is_dictionary(type_) or types.is_run_end_encoded(type_):
        return kind_of(type_.value_type)
    if types.is_timestamp(type_):
        return Kind.TIMESTAMP if type_.tz is None else Kind.INSTANT
    for holds, kind in _KINDS:
        if holds(type_):
            return kind
    return Kind.OTHER


_KINDS = (
    (types.is_integer, Kind.INT),
    (types.is_floating, Kind.FLOAT),
    (types.is_string, Kind.TEXT),
    (types.is_large_string, Kind.TEXT),
    (types.is_string_view, Kind.TEXT),
    (types.is_boolean, Kind.BOOL),
    (types.is_decimal, Kind.DECIMAL),
    (types.is_date, Kind.DATE),
    (types.is_time, Kind.TIME),
    (types.is_duration, Kind.DURATION),
    (types.is_null, Kind.NULL),
)


# The numbers of types: quicker to compare than to ask `types`, as every small batch does again.
_RUNS, _DICTIONARY, _INT64 = pa.lib.Type_RUN_END_ENCODED, pa.lib.Type_DICTIONARY, pa.lib.Type_INT64
_TEXTS = frozenset((pa.lib.Type_STRING, pa.lib.Type_LARGE_STRING, pa.lib.Type_STRING_VIEW))
_FLOATS = frozenset((pa.lib.Type_HALF_FLOAT, pa.lib.Type_FLOAT, pa.lib.Type_DOUBLE))

_UNIT_SCALE = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_MS_PER_DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class Integers:
    """Values times 10**-scale. Here and below, values of null rows mean nothing, and arrays may be views."""

    values: Int64Array
    scale: int
    valid: BoolArray | None


@dataclass(frozen=True, slots=True)
class Floats:
    """Floats as float64, and how many bits each had in its column: a constant is read in the column's type."""

    values: Float64Array
    valid: BoolArray | None
    bits: int = 64


@dataclass(frozen=True, slots=True)
class Wide:
    """Integers beyond 64 bits times 10**-scale, as limbs (see `codes.numbers`); `digits` is the most that they have."""

    limbs: Int64Array
    scale: int
    digits: int
    valid: BoolArray | None


@dataclass(frozen=True, slots=True)
class Text:
    """Text as one Arrow array, string or large_string."""

    array: pa.Array
    valid: BoolArray | None


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
    kind = column.type.id
    if kind == _RUNS:
        return read_column(decoded(column))
    if kind == _DICTIONARY:
        return _read_dictionary(column)
    return Indexed(_plain(column))


def valid_of(array: pa.Array | pa.ChunkedArray) -> BoolArray | None:
    """Which values are not null, as a fresh array; None if none is null."""
    if array.null_count == 0:
        return None
    return np.array(pc.is_valid(array).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _read_dictionary(column: pa.ChunkedArray) -> Indexed:
    """Chunks may have different dictionaries, with repeated values and nulls: all of them are concatenated."""
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
    valid = valid_of(column)
    kind = type_.id
    if kind == _INT64:
        return Integers(_raw(column, "i8"), 0, valid)
    if kind in _TEXTS:
        return Text(_one_text(column), valid)
    if kind in _FLOATS:
        values = _raw(column, f"f{type_.bit_width // 8}").astype(np.float64, copy=False)
        return Floats(values, valid, type_.bit_width)
    if types.is_null(type_):
        return Integers(np.zeros(len(column), dtype=np.int64), 0, np.zeros(len(column), dtype=np.bool_))
    if types.is_decimal(type_):
        return _decimals(column, valid)
    if types.is_uint64(type_):
        return _unsigned(_raw(column, "u8"), valid)
    if types.is_boolean(type_):
        return Integers(_raw(pc.cast(column, pa.uint8()), "u1").astype(np.int64), 0, valid)
    sign = "u" if types.is_unsigned_integer(type_) else "i"
    whole = _raw(column, f"{sign}{type_.bit_width // 8}").astype(np.int64, copy=False)
    if types.is_date64(type_):
        return Integers(whole // _MS_PER_DAY, 0, valid)
    scale = 0 if types.is_integer(type_) or types.is_date(type_) else _UNIT_SCALE[type_.unit]
    return Integers(whole, scale, valid)


def _raw(column: pa.ChunkedArray, dtype: str) -> NDArray[Any]:
    """The values as stored, also those of null rows; no copy if there is one chunk."""
    chunks = [column.chunk(0)] if column.num_chunks == 1 else [chunk for chunk in column.chunks if len(chunk)]
    if len(chunks) == 1:
        return _raw_chunk(chunks[0], dtype)
    return np.concatenate([_raw_chunk(chunk, dtype) for chunk in chunks]) if chunks else np.empty(0, dtype)


def _raw_chunk(chunk: pa.Array, dtype: str) -> NDArray[Any]:
    n_values = len(chunk)
    if n_values == 0:
        # It may have no buffer.
        return np.empty(0, dtype)
    return np.frombuffer(chunk.buffers()[1], dtype, n_values, chunk.offset * int(dtype[1:]))


def _one_text(column: pa.ChunkedArray) -> pa.Array:
    """One array of all chunks, with offsets of 32 bits if the chunks have those and they suffice."""
    if column.type.id == pa.lib.Type_STRING_VIEW:
        column = column.cast(pa.large_string())
    if column.num_chunks > 1 and types.is_string(column.type) and column.nbytes > 1 << 30:
        column = column.cast(pa.large_string())
    return combine(column)


def _unsigned(values: NDArray[np.uint64], valid: BoolArray | None) -> Numbers:
    if valid is not None:
        values = np.where(valid, values, np.uint64(0))
    if not len(values) or values.max() < 2**63:
        return Integers(values.view(np.int64), 0, valid)
    limbs = np.zeros((len(values), 4), dtype=np.int64)
    limbs[:, 0] = (values & np.uint64(0xFFFFFFFF)).view(np.int64)
    limbs[:, 1] = (values >> np.uint64(32)).view(np.int64)
    return Wide(limbs, 0, 20, valid)


def _decimals(column: pa.ChunkedArray, valid: BoolArray | None) -> Numbers:
    type_ = column.type
    if type_.bit_width <= 64:
        return Integers(_raw(column, f"i{type_.bit_width // 8}").astype(np.int64, copy=False), type_.scale, valid)
    n_words = type_.bit_width // 64
    words = _raw(column, f"V{8 * n_words}").view("<i8").reshape(-1, n_words)
    if valid is not None:
        words = np.where(valid[:, None], words, 0)
    low = np.ascontiguousarray(words[:, 0])
    if all(np.array_equal(words[:, k], low >> 63) for k in range(1, n_words)):
        return Integers(low, type_.scale, valid)
    limbs = np.ascontiguousarray(words).view("<u4").astype(np.int64)
    limbs[:, -1] = limbs[:, -1].astype(np.uint32).view(np.int32)
    return Wide(limbs, type_.scale, type_.precision, valid)


def combine(column: pa.ChunkedArray) -> pa.Array:
    """One array of all chunks, without a copy if there is one chunk."""
    if column.num_chunks == 1:
        return column.chunk(0)
    if column.num_chunks == 0:
        return pa.array([], column.type)
    return pa.concat_arrays(column.chunks)
