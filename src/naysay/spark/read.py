"""Files, folders, globs and tables that Spark can reach, as a DataFrame with the types that our own reader would give.

Small local CSV files are read by our own reader (`io/csv.py`); others by Spark (`spark/csv.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.errors import TableError, UsageError
from naysay.io.files import (
    DATABASE_FORMATS,
    read_table,
    refuse_address,
    refuse_text_options,
    refuse_workbook,
    require_columns,
    require_type,
    source_shown,
    unknown_format,
)
from naysay.io.files import format_of as file_format_of
from naysay.io.json import lost_number
from naysay.io.notation import DEFAULT, Notation
from naysay.spark.csv import cast_partitions, partitions_of, read_csv, with_text
from naysay.spark.frame import FILE_ROW, Frame, from_arrow, map_in_arrow, spark_type
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
_FILE_FORMATS = ("json", "parquet", "orc")
# Files of one machine, which the driver reads and Spark gets as a table.
_READ_BY_DRIVER = (*DATABASE_FORMATS, "arrow")
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
    table: str | None = None,
    notation: Notation = DEFAULT,
    options: Mapping[str, str] | None = None,
    numbered: bool = False,
) -> DataFrame:
    """Read a file, a folder, a glob, any URL that Spark can read, a table by its name, or a table of a JDBC source.

    `format` is one of ours, or any format that Spark or its packages have; `options` are those of Spark's reader. If
    `numbered`, rows of Parquet files and of small CSV files carry their file and their number in it, by which a `Frame`
    identifies them.
    """
    is_jdbc = source.startswith("jdbc:")
    if not is_jdbc:
        refuse_address(source)
        refuse_workbook(source)
    chosen = format or ("jdbc" if is_jdbc else _format_of(session, source))
    refuse_text_options(source_shown(source), chosen, encoding, delimiter, notation)
    _require_options(source, chosen, table, options)
    with plain_errors(source_shown(source)):
        if chosen == "csv":
            if _is_small(source):
                rows = read_table(source, format="csv", encoding=encoding, delimiter=delimiter, notation=notation)
                return _frame_of(session, rows, source if numbered else None)
            return read_csv(session, source, encoding, delimiter, notation)
        if chosen in _READ_BY_DRIVER:
            return _frame_of(session, read_table(source, format=chosen, table=table, notation=notation), None)
        data = _load(session, source, chosen, encoding, table, dict(options or {}), numbered=numbered)
        _require_types(source, data, notation)
        return data


def _require_options(source: str, format: str, table: str | None, options: Mapping[str, str] | None) -> None:
    if table is not None and format not in (*DATABASE_FORMATS, "jdbc"):
        raise UsageError(f"{source}: --table applies to DuckDB and SQLite files and JDBC sources, not to {format}")
    if format == "jdbc" and table is None and not {"dbtable", "query"} & {name.lower() for name in options or ()}:
        raise UsageError("a JDBC source needs the name of its table: --table TABLE")
    if options and format in ("csv", "table", *_READ_BY_DRIVER):
        raise UsageError(f"{source}: --option is for Spark's readers, which are not used for {format}")


def _require_types(source: str, data: DataFrame, notation: Notation) -> None:
    """Refuse a column that does not have its declared type."""
    if notation.types:
        require_columns(source, notation.types, data.columns)
        for name, wanted in notation.arrow_types.items():
            require_type(source, Frame.of(data).arrow_schema.field(name), wanted, notation.types[name])


def _load(
    session: SparkSession,
    source: str,
    format: str,
    encoding: str | None,
    table: str | None,
    options: dict[str, str],
    *,
    numbered: bool,
) -> DataFrame:
    """Let Spark read a source."""
    if format == "table":
        return session.table(source)
    reader = session.read.format(format)
    if format == "jdbc":
        options = {"url": source} | ({} if table is None else {"dbtable": table}) | options
    if format not in _FILE_FORMATS:
        reader = reader.options(**options)
        return _loaded(session, format, lambda: reader.load() if format == "jdbc" else reader.load(source))
    if format == "json":
        reader = reader.option("mode", "FAILFAST").option("encoding", encoding or "UTF-8")
    else:
        # A column that a file lacks is null there, regardless of the file that Spark looks at first.
        reader = reader.option("mergeSchema", True)
    reader = reader.options(**options)
    parts = partitions_of(rows := reader.load(source), source)
    if parts:
        rows = reader.schema(with_text(rows.schema, parts)).load(source)
    if format == "json" and encoding is None:
        _require_kept(session, rows.schema, source)
    rows = with_file_rows(rows) if numbered and format == "parquet" else rows
    return cast_partitions(session, rows, parts, source)


# Formats that Spark reads with a package. {version} is that of Spark.
_PACKAGES = {
    "delta": "io.delta:delta-spark_{scala}:VERSION",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{minor}_{scala}:VERSION",
    "hudi": "org.apache.hudi:hudi-spark{minor}-bundle_{scala}:VERSION",
    "avro": "org.apache.spark:spark-avro_{scala}:{version}",
}
_NO_FORMAT = re.compile(r"DATA_SOURCE_NOT_FOUND|Failed to find (the )?data source|[.]DefaultSource")


def _loaded(session: SparkSession, format: str, load: Callable[[], DataFrame]) -> DataFrame:
    """Load a table, and say which package is missing if Spark does not know its format."""
    try:
        data = load()
        # Spark Connect loads nothing before it is asked.
        _ = data.schema
    except Exception as error:
        # PySpark raises this one as it came from Java, if there is a Java.
        if _NO_FORMAT.search(str(error)) is None:
            raise
        raise UsageError(_missing_format(format, session.version)) from error
    return data


def _missing_format(format: str, version: str) -> str:
    """How to get a format that Spark does not have."""
    scala = "2.12" if version.startswith("3.") else "2.13"
    minor = ".".join(version.split(".")[:2])
    package = _PACKAGES.get(format.lower(), "").format(scala=scala, minor=minor, version=version)
    if not package:
        return f"Spark has no format {format!r}; check the name, or name its package with --packages GROUP:NAME:VERSION"
    fitting = f", in the VERSION for Spark {minor}" if "VERSION" in package else ""
    return f"Spark has no format {format!r} without its package; add --packages {package}{fitting}"


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
    if local.is_file():
        return file_format_of(source)
    if "/" not in source and _is_table(session, source):
        return "table"
    if "/" in source:
        raise unknown_format(source)
    raise TableError(f"there is no file, folder or table {source!r}")


def _is_table(session: SparkSession, name: str) -> bool:
    try:
        return bool(session.catalog.tableExists(name))
    except ParseException:
        # Not every text can be the name of a table.
        return False
    except AnalysisException as error:
        catalog, mark, rest = name.partition(".")
        if mark and "." in rest and "catalog" in str(error).lower():
            raise TableError(
                f"there is no file {name!r}, and no catalog {catalog!r} in Spark; configure it with --conf "
                f"spark.sql.catalog.{catalog}=CLASS"
            ) from error
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
