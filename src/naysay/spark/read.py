"""Files, folders, globs and tables that Spark can reach, as a DataFrame with the types that our own reader would give.

Small local CSV files are read by our own reader (`io/csv.py`); others by Spark (`spark/csv.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.errors import TableError, UsageError
from naysay.io.files import read_table
from naysay.io.json import lost_number
from naysay.io.numbers import refuse_address, unknown_format
from naysay.spark.csv import cast_partitions, partitions_of, read_csv, with_text
from naysay.spark.frame import FILE_ROW, from_arrow, map_in_arrow, spark_type
from naysay.spark.identity import with_file_rows
from naysay.spark.session import plain_errors

_FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
    ".txt": "csv",
}
FORMATS = ("csv", "json", "parquet", "orc", "table")
_COMPRESSED = (".gz", ".bz2", ".zst", ".snappy", ".lz4")
# Up to this size a local CSV file is read by our own reader, which allows line breaks inside quotes and reports the
# line of an error; Spark gets the table.
_WHOLE_BYTES = 64 << 20
# Lines of JSON that may hold a number that a double would change: many digits, or a long exponent.
_LOSSY = r"[0-9]{16}|[eE][+-]?[0-9]{3}"
_LOST = pa.schema([("lost", pa.string())])


def read(
    session: SparkSession,
    source: str,
    *,
    format: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    numbered: bool = False,
) -> DataFrame:
    """Read a file, a folder, a glob, any URL that Spark can read, or a table by its name.

    If `numbered`, rows of Parquet files and of small CSV files carry their file and their number in it, by which a
    `Frame` identifies them.
    """
    if format is not None and format not in FORMATS:
        raise UsageError(f"there is no input format {format!r}; choose one of: {', '.join(FORMATS)}")
    refuse_address(source)
    chosen = format or _format_of(session, source)
    with plain_errors(source):
        if chosen == "table":
            return session.table(source)
        if chosen == "csv":
            if _is_small(source):
                table = read_table(source, format="csv", encoding=encoding, delimiter=delimiter)
                return _frame_of(session, table, source if numbered else None)
            return read_csv(session, source, encoding, delimiter)
        reader = session.read.format(chosen)
        if chosen == "json":
            reader = reader.option("mode", "FAILFAST").option("encoding", encoding or "UTF-8")
        else:
            # A column that a file lacks is null there, regardless of the file that Spark looks at first.
            reader = reader.option("mergeSchema", True)
        parts = partitions_of(rows := reader.load(source), source)
        if parts:
            rows = reader.schema(with_text(rows.schema, parts)).load(source)
        if chosen == "json" and encoding is None:
            _require_kept(session, rows.schema, source)
        rows = with_file_rows(rows) if numbered and chosen == "parquet" else rows
        return cast_partitions(session, rows, parts, source)


def _require_kept(session: SparkSession, schema: T.StructType, source: str) -> None:
    """Refuse JSON with a number that a double would change; only lines that may hold one are parsed again."""
    names = [field.name for field in schema.fields if isinstance(field.dataType, T.DoubleType)]
    if not names:
        return
    lines = session.read.text(source).select("value").filter(F.col("value").rlike(_LOSSY))
    found = map_in_arrow(lines, partial(_lost_numbers, names=names), _LOST).limit(1).collect()
    if found:
        raise TableError(f"{source}: {found[0]['lost']}")


def _lost_numbers(batches: Iterable[pa.RecordBatch], names: list[str]) -> Iterator[pa.RecordBatch]:
    """The first number of a partition that a double cannot hold; `naysay.io.json` has the same check."""
    for batch in batches:
        for line in batch.column(0).to_pylist():
            lost = lost_number(line, names)
            if lost:
                yield pa.record_batch([[lost]], schema=_LOST)
                return


def _format_of(session: SparkSession, source: str) -> str:
    local = Path(source)
    if local.is_dir():
        files = (file for file in local.rglob("*") if file.is_file() and not file.name.startswith(("_", ".")))
        kinds = sorted(kind for kind in {_format_by_name(file.name) for file in files} if kind)
        if len(kinds) == 1:
            return kinds[0]
        raise TableError(
            f"{source}: the folder holds {'files of several kinds' if kinds else 'no data files'}; "
            "name the kind with --input-format"
        )
    if known := _format_by_name(source):
        return known
    if "/" not in source and _is_table(session, source):
        return "table"
    if local.exists() or "/" in source:
        raise unknown_format(source)
    raise TableError(f"there is no file, folder or table {source!r}")


def _is_table(session: SparkSession, name: str) -> bool:
    try:
        return bool(session.catalog.tableExists(name))
    except ParseException:
        # Not every text can be the name of a table.
        return False


def _format_by_name(name: str) -> str | None:
    name = name.rstrip("/")
    while name.endswith(_COMPRESSED):
        name = name[: name.rindex(".")]
    return _FORMATS.get(Path(name).suffix.lower())


def _frame_of(session: SparkSession, table: pa.Table, file: str | None) -> DataFrame:
    """An Arrow table as a DataFrame of the same types; with numbered rows if a file is given."""
    columns = [_for_spark(column) for column in table.columns]
    names = list(table.column_names)
    if file is not None:
        columns.append(pa.array(np.arange(table.num_rows)))
        names.append(FILE_ROW[1])
    fields = [T.StructField(f"c{place}", spark_type(column.type)) for place, column in enumerate(columns)]
    positional = pa.table(columns, names=[field.name for field in fields])
    rows = from_arrow(session, positional, T.StructType(fields))
    if file is None:
        return rows.toDF(*names)
    last = fields[-1].name
    return rows.select(*(field.name for field in fields[:-1]), F.lit(file), last).toDF(*names[:-1], *FILE_ROW)


def _for_spark(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column in a type that Spark has: times in microseconds, or as text; time of day is off by default."""
    if pa.types.is_time(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.string())
    if pa.types.is_timestamp(column.type):
        try:
            return column.cast(pa.timestamp("us", column.type.tz))
        except pa.ArrowInvalid:
            return column.cast(pa.string())
    return column


def _is_small(source: str) -> bool:
    path = Path(source)
    return path.is_file() and not source.endswith(_COMPRESSED) and path.stat().st_size <= _WHOLE_BYTES
