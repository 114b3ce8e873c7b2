"""How a row is identified on Spark: by the user's key, its place in a file, or a hash of its values.

A DataFrame has no row numbers. `monotonically_increasing_id` changes with partition sizes and the position of a filter,
so that a second run would name other rows. A hash of the values is always the same; rows with all values equal are
numbered as copies, #2, #3 and so on, and it does not matter which of them is which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.arrays import Int64Array
from naysay.errors import UsageError
from naysay.rule.scan import columns_hint
from naysay.spark.expressions import hash_of
from naysay.spark.frame import FILE_ROW, Frame, arrow_type, position
from naysay.spark.versions import CalendarIntervalType, VariantType, file_metadata

# The column that distinguishes rows if the columns of the identity may not (the user's key may have repeats).
CONTENT = "content"


class Naming(Enum):
    KEY = "key"
    FILE = "file and row number in it, from 0"
    CONTENT = "hash of the row's values, #2 and up for further copies of the same row"


@dataclass(frozen=True)
class Identity:
    """The columns i0, i1, ... that name a row, and their names for people."""

    naming: Naming
    names: tuple[str, ...]
    columns: tuple[Expression, ...]
    types: tuple[T.DataType, ...]
    content: Expression

    @property
    def positions(self) -> list[str]:
        return [f"i{place}" for place in range(len(self.names))]

    @property
    def description(self) -> str:
        return ", ".join(self.names) if self.naming is Naming.KEY else self.naming.value

    def attached(self, *, sided: bool = False) -> list[Expression]:
        """The columns to select: the identity, and what distinguishes rows if each is sent twice."""
        named = [column.alias(name) for column, name in zip(self.columns, self.positions, strict=True)]
        return [*named, self.content.alias(CONTENT)] if sided and self.naming is Naming.KEY else named

    def value(self, prefix: str) -> Expression:
        """One column of the identity's columns `PREFIXi0` ...: as it is for one, a struct for several."""
        columns = [F.col(prefix + name) for name in self.positions]
        if len(columns) == 1:
            return columns[0]
        return F.struct(*(column.alias(name) for column, name in zip(columns, self.names, strict=True)))

    def named(self, values: Mapping[str, Any], hidden: Sequence[str]) -> dict[str, Any]:
        """Values under `hidden` names, under the names that people know."""
        names = dict(zip(hidden, self.names, strict=True))
        return {names[name]: value for name, value in values.items()}


def identity_of(frame: Frame, key: Sequence[str]) -> Identity:
    """The user's key if there is one; else the place in a file if `with_file_rows` noted it; else the values."""
    content = _content(frame)
    if key:
        places = [_key_place(frame, name) for name in key]
        columns = tuple(F.col(position(place)) for place in places)
        return Identity(Naming.KEY, tuple(key), columns, tuple(frame.types[place] for place in places), content)
    if frame.file_row is not None:
        types: tuple[T.DataType, ...] = (T.StringType(), T.LongType())
        return Identity(Naming.FILE, ("file", "row"), tuple(map(F.col, frame.file_row)), types, content)
    return Identity(Naming.CONTENT, ("row",), (content,), (T.StringType(),), content)


def with_file_rows(data: DataFrame) -> DataFrame:
    """Note in a DataFrame just read from Parquet files which row of which file each row is.

    Not for the result of a join or an explode, in which one row of a file may occur several times.
    """
    source = file_metadata(data)
    if source is None:
        return data
    file, row = source.getField("file_path"), source.getField("row_index")
    return data.select("*", file.alias(FILE_ROW[0]), row.alias(FILE_ROW[1]))


def number_copies(rows: DataFrame, identity: Identity) -> DataFrame:
    """Rows with i0 ... attached: if values name them, number the copies. One shuffle; for few rows."""
    return number_equal(rows, "i0") if identity.naming is Naming.CONTENT else rows


def number_equal(rows: DataFrame, column: str) -> DataFrame:
    """Rows with #2, #3, ... after the values of a column of text that repeat."""
    from pyspark.sql import Window

    copy = F.row_number().over(Window.partitionBy(column).orderBy(column))
    names = [name for name in rows.columns if name != column]
    numbered = rows.withColumn("copy", copy)
    named = F.when(F.col("copy") == 1, F.col(column)).otherwise(F.concat_ws("#", column, "copy"))
    return numbered.select(*names, named.alias(column))


def sorted_by(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Rows in ascending order of some columns, nulls last."""
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names]))


def number_repeats(names: pa.Array, alike: Int64Array | None = None, sides: Int64Array | None = None) -> pa.Array:
    """Names with #2, #3, ... after those that repeat.

    A row that is sent as a record for each of its `sides` has one name. `alike` is a number for each name with the key
    and the values compared: names are hashes, so rows that differ may share one and must not be confused.
    """
    codes = np.asarray(names.dictionary_encode().indices.to_numpy(), np.int64)
    if alike is None or sides is None:
        copy = _places_within(codes)
    else:
        nth = _places_within(2 * alike + sides)
        rows = alike * (int(nth.max(initial=0)) + 1) + nth
        _, first, row_of = np.unique(rows, return_index=True, return_inverse=True)
        copy = _places_within(codes[first])[row_of]
    suffix = pa.array((copy + 1).astype(str), pa.string()).cast(names.type)
    suffixed = pc.binary_join_element_wise(names, suffix, pa.scalar("#", names.type))
    return pc.if_else(pa.array(copy == 0), names, suffixed)


def _places_within(keys: Int64Array) -> Int64Array:
    """For each element its place, from 0, among those of the same key."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    is_first = np.ones(order.size, np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    starts = np.maximum.accumulate(np.where(is_first, np.arange(order.size), 0))
    places = np.empty(order.size, np.int64)
    places[order] = np.arange(order.size) - starts
    return places


def _key_place(frame: Frame, name: str) -> int:
    if name not in frame.names:
        raise UsageError(f"the key column {name!r} is not in the table; {columns_hint(name, frame.names)}")
    place = frame.place(name)
    if arrow_type(frame.types[place]) is None and not isinstance(frame.types[place], T.BinaryType):
        raise UsageError(
            f"the key column {name!r} has type {frame.types[place].simpleString()}, which Spark cannot sort by"
        )
    return place


def _content(frame: Frame) -> Expression:
    """128 bits of hash of all values, as 32 hexadecimal digits."""
    values = [
        value
        for place, type_ in enumerate(frame.types)
        if not _is_opaque(type_)
        for value in _hashable(F.col(position(place)), type_)
    ]
    halves = [hash_of([F.lit(seed), *values]) for seed in (1, 2)]
    return F.concat(*(F.lpad(F.lower(F.hex(half)), 16, "0") for half in halves))


def _hashable(value: Expression, type_: T.DataType) -> list[Expression]:
    """What to hash of a value. The hash of a list or struct ignores its length and nulls; its text has both."""
    if _holds(type_, T.MapType | VariantType):
        return [F.to_json(F.struct(value.alias("value")), {"ignoreNullFields": "false"})]
    return [value, value.cast(T.StringType())] if isinstance(type_, T.ArrayType | T.StructType) else [value]


def _is_opaque(type_: T.DataType) -> bool:
    """Types whose values Spark can neither hash nor write as text; rows that differ only there count as copies."""
    return _holds(type_, T.UserDefinedType | CalendarIntervalType) or type_.typeName() in ("geometry", "geography")


def _holds(type_: T.DataType, wanted: object) -> bool:
    if isinstance(type_, wanted):  # type: ignore[arg-type]
        return True
    if isinstance(type_, T.ArrayType):
        return _holds(type_.elementType, wanted)
    if isinstance(type_, T.MapType):
        return _holds(type_.keyType, wanted) or _holds(type_.valueType, wanted)
    return isinstance(type_, T.StructType) and any(_holds(field.dataType, wanted) for field in type_.fields)
