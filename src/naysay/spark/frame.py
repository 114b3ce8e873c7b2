"""Spark DataFrames with columns named by position, so that user names never reach a parser; Arrow in and out."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import pyarrow as pa
from pyarrow import types as arrow_types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.errors import TableError, UsageError
from naysay.rule.model import Column, Predicate, Rule
from naysay.spark import versions
from naysay.spark.versions import MissingType, TimeType
from naysay.table import compatibility
from naysay.table.column import Kind, kind_of
from naysay.table.frame import decoded

_UNSUPPORTED = pa.binary()
# The collation that compares text by its bytes.
_BYTES = "UTF8_BINARY"
# The names of the columns that say which file a row came from and which row of it it was.
FILE_ROW = ("__naysay_file", "__naysay_row")


@dataclass(frozen=True)
class Frame:
    """A Spark DataFrame with columns c0, c1, ..., and their original names and types."""

    data: DataFrame
    names: tuple[str, ...]
    types: tuple[T.DataType, ...]
    file_row: tuple[str, str] | None = None

    @classmethod
    def of(cls, data: DataFrame) -> Frame:
        """Wrap a DataFrame. Files that naysay read carry the file and number of each row in two more columns."""
        if data.isStreaming:
            raise UsageError("this DataFrame is a stream, but checks need a table: read it with spark.read")
        fields = data.schema.fields
        by_position = data.toDF(*(position(place) for place in range(len(fields))))
        if any(field.metadata for field in fields):
            by_position = _without_padding(by_position)
        file_row = None
        if tuple(field.name for field in fields[-2:]) == FILE_ROW:
            fields = fields[:-2]
            file_row = (position(len(fields)), position(len(fields) + 1))
        return cls(
            by_position, tuple(field.name for field in fields), tuple(field.dataType for field in fields), file_row
        )

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The schema as kernels see it, for the checks that every engine shares."""
        columns = zip(self.names, self.types, strict=True)
        return pa.schema([(name, arrow_type(type_) or _UNSUPPORTED) for name, type_ in columns])

    def require(self, rule: Rule, why_text: Callable[[str], str] = lambda name: "") -> None:
        """Raise RuleError or TableError if the rule does not fit the table; see `compatibility.check_rule`."""
        for name in rule.column_names:
            type_ = self.types[compatibility.place(self.arrow_schema, name)]
            # Before Spark 4.0 there are no collations.
            collation = getattr(type_, "collation", _BYTES) if isinstance(type_, T.StringType) else _BYTES
            if collation != _BYTES:
                raise TableError(
                    f"column {name!r} has the collation {collation}, and rules compare text by its bytes; "
                    "cast it to string collate UTF8_BINARY, after lower() or trim() if that is what you mean"
                )
            if arrow_type(type_) is None:
                raise TableError(
                    f"column {name!r} has type {type_.simpleString()}, which rules cannot compare; "
                    "cast it to text or a number, or extract the part that you mean"
                )
        compatibility.check_rule(self.arrow_schema, rule, why_text)

    def by_position(self, rule: Rule) -> Rule:
        """The same rule about c0, c1, ..."""
        predicates = []
        for predicate in rule.predicates:
            right = self._column(predicate.right) if isinstance(predicate.right, Column) else predicate.right
            predicates.append(Predicate(self._column(predicate.left), predicate.op, right))
        return replace(rule, predicates=tuple(predicates))

    def place(self, name: str) -> int:
        return compatibility.place(self.arrow_schema, name)

    def name_of(self, position_name: str) -> str:
        return self.names[int(position_name[1:])]

    def type_of(self, position_name: str) -> T.DataType:
        return self.types[int(position_name[1:])]

    def kind_of(self, position_name: str) -> Kind:
        return kind_of(arrow_type(self.type_of(position_name)) or _UNSUPPORTED)

    def _column(self, column: Column) -> Column:
        return Column(column.row, position(self.place(column.name)))


def from_arrow(session: SparkSession, table: pa.Table, schema: T.StructType | None = None) -> DataFrame:
    """An Arrow table as a DataFrame. Empty batches are dropped: Spark would lose the rows after one."""
    table = pa.table([decoded(column) for column in table.columns], table.column_names)
    batches = [batch for batch in table.to_batches() if batch.num_rows]
    if schema is None:
        schema = T.StructType([T.StructField(field.name, spark_type(field.type)) for field in table.schema])
    return versions.from_arrow(session, pa.Table.from_batches(batches, table.schema), schema)


def _without_padding(data: DataFrame) -> DataFrame:
    """Columns of char(n) as plain text, still padded with blanks as Spark reads them.

    Spark pads what it compares with such a column only in its own expressions, so kernels would disagree.
    """
    return data.select(*(F.col(name).alias(name, metadata={}) for name in data.columns))


def position(place: int) -> str:
    """The name of a column inside naysay's plans."""
    return f"c{place}"


def arrow_type(type_: T.DataType) -> pa.DataType | None:
    """The Arrow type in which Spark hands such a column to kernels; None for types that rules cannot compare."""
    if isinstance(type_, T.DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    return next((arrow for spark, arrow in _ARROW_TYPES if isinstance(type_, spark)), None)


def spark_type(type_: pa.DataType) -> T.DataType:
    """The Spark type of an Arrow type: the inverse of `arrow_type`, plus the types of tasks' answers."""
    if arrow_types.is_decimal(type_):
        return T.DecimalType(type_.precision, type_.scale)
    if arrow_types.is_timestamp(type_):
        return T.TimestampNTZType() if type_.tz is None else T.TimestampType()
    if arrow_types.is_time(type_):
        return _time_type()
    if arrow_types.is_binary(type_):
        return T.BinaryType()
    if arrow_types.is_list(type_):
        return T.ArrayType(spark_type(type_.value_type))
    return next(spark() for spark, arrow in _ARROW_TYPES if arrow == type_)


def _time_type() -> T.DataType:
    if TimeType is MissingType:
        raise TableError("this version of Spark has no type for the time of day; cast the column to text")
    return TimeType(6)


_ARROW_TYPES: tuple[tuple[type[T.DataType], pa.DataType], ...] = (
    (T.LongType, pa.int64()),
    (T.IntegerType, pa.int32()),
    (T.ShortType, pa.int16()),
    (T.ByteType, pa.int8()),
    (T.DoubleType, pa.float64()),
    (T.FloatType, pa.float32()),
    (T.StringType, pa.string()),
    (T.CharType, pa.string()),
    (T.VarcharType, pa.string()),
    (T.BooleanType, pa.bool_()),
    (T.DateType, pa.date32()),
    (T.TimestampType, pa.timestamp("us", "UTC")),
    (T.TimestampNTZType, pa.timestamp("us")),
    (TimeType, pa.time64("ns")),
    (T.DayTimeIntervalType, pa.duration("us")),
    (T.NullType, pa.null()),
)


# A task leaves fewer objects behind than this; more of them are modules and kernels that were loaded, and stay.
_LIVE_OBJECTS = 10_000

Batches = Iterable[pa.RecordBatch]
TaskWork = Callable[[Batches], Iterator[pa.RecordBatch]]


def map_in_arrow(data: DataFrame, work: TaskWork, schema: pa.Schema | T.StructType) -> DataFrame:
    """Do the work on each partition. The batches it returns must have the columns of the schema, in order."""
    if isinstance(schema, pa.Schema):
        declared = T.StructType([T.StructField(field.name, spark_type(field.type)) for field in schema])
    else:
        declared = schema
        schema = pa.schema([(field.name, _arrow_type(field.dataType)) for field in declared.fields])
    return data.mapInArrow(partial(_match_batches, work, schema), declared)


def match_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in exactly these types: dictionaries and other encodings are undone, nothing is converted."""
    if batch.schema.names != schema.names:
        raise TypeError(f"a task returns the columns {batch.schema.names}, but {schema.names} are declared")
    columns = [_plain(column, field) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _match_batches(work: TaskWork, schema: pa.Schema, batches: Batches) -> Iterator[pa.RecordBatch]:
    try:
        yield from (match_batch(batch, schema) for batch in work(batches))
    finally:
        _spare_collector()


def _spare_collector() -> None:
    """PySpark collects garbage after every task, and would look at all of numba's objects (50 ms) each time."""
    if len(gc.get_objects()) > _LIVE_OBJECTS:
        gc.collect()
        gc.freeze()


def _plain(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    plain = decoded(pa.chunked_array([column])).chunk(0)
    if not _is_same(plain.type, field.type):
        raise TypeError(f"a task returns {field.name!r} as {column.type}, but {field.type} is declared")
    return plain.cast(field.type)


def _is_same(given: pa.DataType, declared: pa.DataType) -> bool:
    """Whether the values mean the same, regardless of the width of offsets or the zone of display."""
    if arrow_types.is_timestamp(given) and arrow_types.is_timestamp(declared):
        return bool(given.unit == declared.unit) and (given.tz is None) == (declared.tz is None)
    texts, binaries = (pa.string(), pa.large_string()), (pa.binary(), pa.large_binary())
    return bool(given == declared) or any(given in each and declared in each for each in (texts, binaries))


def _arrow_type(type_: T.DataType) -> pa.DataType:
    found = pa.binary() if isinstance(type_, T.BinaryType) else arrow_type(type_)
    assert found is not None, type_
    return found
