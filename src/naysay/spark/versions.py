"""What differs between the supported versions of Spark. Everything else asks here, so that no other file knows of one.

Only the public DataFrame API is used in every version: no RDD, no SparkContext, no access to the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.spark import OLDEST, VERSION

_CONTENT = "content binary"
# Tables travel as Arrow streams of about this many bytes.
_MESSAGE_BYTES = 4 << 20


class MissingType(T.DataType):  # type: ignore[misc]
    """Stands for a type that this version of Spark lacks: no column has it."""


def _type_named(name: str) -> type[T.DataType]:
    found: type[T.DataType] = getattr(T, name, MissingType)
    return found


TimeType: Any = _type_named("TimeType")
VariantType = _type_named("VariantType")
CalendarIntervalType = _type_named("CalendarIntervalType")


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of some DataFrames with the same columns."""
    # Before Spark 4.0, DataFrame.union is not a method of the DataFrames of Connect.
    return reduce(lambda one, other: one.union(other), frames)


# Spark 3.5 knows try_cast only as text, which is written here rather than made.
_TRY_CAST: dict[str, Callable[[], Column]] = {
    "bigint": lambda: F.expr("value -> try_cast(value as bigint)"),
    "date": lambda: F.expr("value -> try_cast(value as date)"),
    "decimal(38,0)": lambda: F.expr("value -> try_cast(value as decimal(38,0))"),
    "double": lambda: F.expr("value -> try_cast(value as double)"),
    "int": lambda: F.expr("value -> try_cast(value as int)"),
    "timestamp": lambda: F.expr("value -> try_cast(value as timestamp)"),
    "timestamp_ntz": lambda: F.expr("value -> try_cast(value as timestamp_ntz)"),
}


def try_cast(value: Column, type_: str) -> Column:
    """The value in another type; null if it cannot be converted, also if ANSI mode is on."""
    if VERSION > OLDEST:
        return value.try_cast(type_)
    return F.get(F.call_function("transform", F.array(value), _TRY_CAST[type_]()), F.lit(0))


def file_metadata(data: DataFrame) -> Column | None:
    """Where each row of a DataFrame just read from files is; None if a column of the table hides it."""
    if VERSION > OLDEST:
        return data.metadataColumn("_metadata")
    return None if "_metadata" in (name.lower() for name in data.columns) else F.col("_metadata")


def to_arrow(data: DataFrame) -> pa.Table:
    """All rows of a DataFrame."""
    if VERSION > OLDEST:
        return data.toArrow()
    fields = data.schema.fields
    names = [f"c{place}" for place in range(len(fields))]
    tables = _collect(data.toDF(*names))
    if not tables:
        # Only a row shows in which Arrow types Spark sends the columns.
        nulls = [F.lit(None).cast(field.dataType).alias(name) for name, field in zip(names, fields, strict=True)]
        tables = [table.slice(0, 0) for table in _collect(data.sparkSession.range(1).select(*nulls))]
    return pa.concat_tables(tables).rename_columns([field.name for field in fields])


def _collect(data: DataFrame) -> list[pa.Table]:
    return [pa.ipc.open_stream(bytes(row[0])).read_all() for row in data.mapInArrow(_to_messages, _CONTENT).collect()]


def from_arrow(session: SparkSession, table: pa.Table, schema: T.StructType) -> DataFrame:
    """An Arrow table as a DataFrame."""
    if VERSION > OLDEST:
        return session.createDataFrame(table, schema)
    messages = [(message,) for message in _messages(table.to_batches(), table.schema)]
    names = [f"c{place}" for place in range(len(schema.fields))]
    plain = [T.StructField(name, field.dataType) for name, field in zip(names, schema.fields, strict=True)]
    sent = session.createDataFrame(messages, _CONTENT)
    received = sent.mapInArrow(partial(_from_messages, names=names), T.StructType(plain))
    return received.toDF(*(field.name for field in schema.fields))


def _to_messages(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for message in _messages([batch], batch.schema):
            yield pa.record_batch([pa.array([message], pa.binary())], ["content"])


def _messages(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[bytes]:
    """Arrow streams of the batches, cut into pieces of a size that every Spark can send."""
    for batch in batches:
        n_rows = max(1, batch.num_rows * _MESSAGE_BYTES // max(batch.nbytes, 1))
        for start in range(0, batch.num_rows, n_rows):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, schema) as writer:
                writer.write_batch(batch.slice(start, n_rows))
            yield sink.getvalue().to_pybytes()


def _from_messages(batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for message in batch.column(0):
            for part in pa.ipc.open_stream(message.as_buffer()):
                yield pa.RecordBatch.from_arrays(part.columns, names=list(names))


def numbers(values: Iterable[object], type_: T.DataType | None = None) -> Column:
    """An array of numbers, by default integers, from one literal of text: Spark plans an array of literals slowly."""
    return F.split(F.lit(",".join(map(str, values))), ",").cast(T.ArrayType(type_ or T.IntegerType()))


def deal_out(data: DataFrame, n_parts: int, place: Column) -> DataFrame:
    """The rows in `n_parts` partitions, each in the one whose number, from 0, is its `place`.

    Spark 4.1 has `repartitionById` for that. In every version, a partition by a column is its hash modulo their
    number, and for each partition there is an integer whose hash is its number. A Spark that hashed in another way
    would raise an error: tasks rely on having the rows of one place.
    """
    keys = numbers(map(_hashed_to, range(n_parts)))
    dealt = data.repartition(n_parts, F.element_at(keys, place.cast("int") + F.lit(1)))
    misplaced = F.raise_error(F.lit("this Spark does not partition rows by their hash")).cast("boolean")
    return dealt.filter(F.when(F.spark_partition_id() == place, F.lit(True)).otherwise(misplaced))


_BITS = 0xFFFFFFFF


def _hashed_to(number: int) -> int:
    """The 32-bit integer whose hash in Spark (Murmur 3 with seed 42) is `number`: each step of the hash, undone."""
    value = _undo_shift(number, 16) * pow(0xC2B2AE35, -1, 1 << 32) & _BITS
    value = _undo_shift(value, 13) * pow(0x85EBCA6B, -1, 1 << 32) & _BITS
    # The length of an integer in bytes goes in last.
    value = _undo_shift(value, 16) ^ 4
    value = _rotate((value - 0xE6546B64) * pow(5, -1, 1 << 32) & _BITS, 32 - 13) ^ 42
    value = _rotate(value * pow(0x1B873593, -1, 1 << 32) & _BITS, 32 - 15)
    value = value * pow(0xCC9E2D51, -1, 1 << 32) & _BITS
    return value - (1 << 32) if value >> 31 else value


def _undo_shift(value: int, n_bits: int) -> int:
    """The x of `x ^ (x >> n_bits)`."""
    found = value
    for _ in range(32 // n_bits):
        found = value ^ (found >> n_bits)
    return found


def _rotate(value: int, n_bits: int) -> int:
    return (value << n_bits | value >> (32 - n_bits)) & _BITS


@contextmanager
def tagged(session: SparkSession, tag: str) -> Iterator[None]:
    """Jobs that this thread starts inside carry the tag, by which `interrupt` finds them."""
    add, remove, _ = _tagging(session)
    add(tag)
    try:
        yield
    finally:
        remove(tag)


def interrupt(session: SparkSession, tag: str) -> None:
    """Stop the jobs with this tag."""
    _tagging(session)[2](tag)


def running_session() -> SparkSession | None:
    """Return the session that is already running, whichever thread started it.

    After an interrupt py4j continues in another thread of Java, in which no session is active. If only that thread were
    asked, a session of the caller would look like one of ours, and be stopped.
    """
    try:
        session = SparkSession.active()
    except RuntimeError:
        return None
    is_stopped = False if is_connect(session) else session.sparkContext._jsc is None
    return None if is_stopped else session


def is_connect(session: SparkSession) -> bool:
    return "connect" in type(session).__module__.split(".")


def _tagging(session: SparkSession) -> tuple[Callable[[str], Any], Callable[[str], Any], Callable[[str], Any]]:
    """What adds a tag, removes it, and stops the jobs that have it."""
    if is_connect(session):
        return session.addTag, session.removeTag, session.interruptTag
    # The tags of a classic session do not reach its jobs; those of its context do. Without it, jobs run to their end.
    with suppress(Exception):
        context = session.sparkContext
        return context.addJobTag, context.removeJobTag, context.cancelJobsWithTag
    return _ignore, _ignore, _ignore


def _ignore(tag: str) -> None:
    pass
