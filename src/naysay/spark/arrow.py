"""The only way out of a Python task: what it gives is what was declared.

Spark does not compare the batches of `mapInArrow` with the schema that goes with them. It reads the vectors as they
come, so the indices of a dictionary would become values, and one type would be read as another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyarrow import types as arrow_types
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from naysay.spark.frame import arrow_type, spark_type
from naysay.table.frame import decoded

Batches = Iterable[pa.RecordBatch]


def map_in_arrow(
    data: DataFrame, work: Callable[[Batches], Iterator[pa.RecordBatch]], schema: pa.Schema | T.StructType
) -> DataFrame:
    """Do the work on each partition. Its batches must have the columns of the schema, in order."""
    if isinstance(schema, pa.Schema):
        declared = T.StructType([T.StructField(field.name, spark_type(field.type)) for field in schema])
    else:
        declared = schema
        schema = pa.schema([(field.name, _arrow_type(field.dataType)) for field in declared.fields])
    return data.mapInArrow(partial(_matched, work, schema), declared)


def matching(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in exactly these types: dictionaries and other encodings are undone, nothing is converted."""
    if batch.schema.names != schema.names:
        raise TypeError(f"a task gives the columns {batch.schema.names}, and {schema.names} are declared")
    columns = [_plain(column, field) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _matched(
    work: Callable[[Batches], Iterator[pa.RecordBatch]], schema: pa.Schema, batches: Batches
) -> Iterator[pa.RecordBatch]:
    for batch in work(batches):
        yield matching(batch, schema)


def _plain(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    plain = decoded(pa.chunked_array([column])).chunk(0)
    if not _is_same(plain.type, field.type):
        raise TypeError(f"a task gives {field.name!r} as {column.type}, and {field.type} is declared")
    return plain.cast(field.type)


def _is_same(given: pa.DataType, declared: pa.DataType) -> bool:
    """Whether the values mean the same, whatever the width of their offsets or the zone that they are shown in."""
    if arrow_types.is_timestamp(given) and arrow_types.is_timestamp(declared):
        return bool(given.unit == declared.unit) and (given.tz is None) == (declared.tz is None)
    texts, binaries = (pa.string(), pa.large_string()), (pa.binary(), pa.large_binary())
    return bool(given == declared) or any(given in each and declared in each for each in (texts, binaries))


def _arrow_type(type_: T.DataType) -> pa.DataType:
    found = pa.binary() if isinstance(type_, T.BinaryType) else arrow_type(type_)
    assert found is not None, type_
    return found
