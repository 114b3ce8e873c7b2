"""What sort of thing a column holds, as far as comparisons care."""

from __future__ import annotations

from enum import Enum

import pyarrow as pa
from pyarrow import types


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
        """Whether order comparisons are usual: text and booleans have an order only where a rule asks for it."""
        return self not in (Kind.TEXT, Kind.BOOL, Kind.NULL, Kind.OTHER)

    def compares_with(self, other: Kind) -> bool:
        """Whether a comparison of the two has a meaning. A column of nulls alone compares with anything."""
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
