"""Files, folders, globs and tables that Spark can reach, as a DataFrame with the types that our own reader would give.

What a CSV file means is decided in `local_csv.py`, which reads small files of this machine itself. Of others Spark
reads all columns as text, one pass looks at the values, and the columns are cast. So leading zeros stay, long numbers
stay exact, and one word in the last row makes a column text instead of nulls.
"""

from __future__ import annotations

import codecs
import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.engines.local_csv import codecs_name
from naysay.engines.local_files import read_table
from naysay.engines.spark_frame import FILE_ROW, from_arrow, spark_type
from naysay.engines.spark_identity import with_file_rows
from naysay.engines.spark_session import plain_errors
from naysay.errors import TableError, UsageError

_FORMATS = {
    ".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet", ".json": "json", ".jsonl": "json",
    ".ndjson": "json", ".orc": "orc", ".txt": "csv",
}  # fmt: skip
FORMATS = ("csv", "json", "parquet", "orc", "table")
_COMPRESSED = (".gz", ".bz2", ".zst", ".snappy", ".lz4")
# Up to this size a CSV file of this machine is read by our own reader, which knows line breaks inside of quotes and
# says in which line a fault is; Spark gets the table.
_WHOLE_BYTES = 64 << 20
# What Spark can decode, by Python's names.
_ENCODINGS = {
    "utf-8": "UTF-8", "utf-8-sig": "UTF-8", "ascii": "US-ASCII", "iso8859-1": "ISO-8859-1", "utf-16": "UTF-16",
    "utf-16-le": "UTF-16LE", "utf-16-be": "UTF-16BE", "utf-32": "UTF-32",
}  # fmt: skip
_DELIMITERS = ",;\t|"
_CORRUPT = "naysay_malformed_row"


def read(
    session: SparkSession, source: str, *, format: str | None = None, encoding: str | None = None,
    delimiter: str | None = None, numbered: bool = False,
) -> DataFrame:  # fmt: skip
    """Read a file, a folder, a glob, any URL that Spark knows, or a table by its name.

    Where `numbered`, rows of Parquet files and of small CSV files carry the file that they are from and their number in
    it, by which a `Frame` knows them.
    """
    if format is not None and format not in FORMATS:
        raise UsageError(f"there is no input format {format!r}; choose one of: {', '.join(FORMATS)}")
    chosen = format or _format_of(session, source)
    with plain_errors(source):
        if chosen == "table":
            return session.table(source)
        if chosen == "csv":
            if _is_small(source):
                table = read_table(source, format="csv", encoding=encoding, delimiter=delimiter)
                return _frame_of(session, table, source if numbered else None)
            return _read_csv(session, source, encoding, delimiter)
        if chosen == "json":
            reader = session.read.option("mode", "FAILFAST").option("encoding", encoding or "UTF-8")
            return reader.json(source)
        rows = session.read.format(chosen).load(source)
        return with_file_rows(rows) if numbered and chosen == "parquet" else rows


def _format_of(session: SparkSession, source: str) -> str:
    name = source.rstrip("/")
    while name.endswith(_COMPRESSED):
        name = name[: name.rindex(".")]
    known = _FORMATS.get(Path(name).suffix.lower())
    local = Path(source)
    if local.is_dir():
        inside = {_FORMATS.get(Path(_uncompressed(file.name)).suffix.lower()) for file in local.rglob("*")
                  if file.is_file() and not file.name.startswith(("_", "."))}  # fmt: skip
        kinds = sorted(kind for kind in inside if kind)
        if len(kinds) == 1:
            return kinds[0]
        raise TableError(
            f"{source}: the folder holds {'files of several kinds' if kinds else 'no data files'}; "
            "name the kind with --input-format"
        )
    if known:
        return known
    if "/" not in source and session.catalog.tableExists(source):
        return "table"
    if local.exists() or "/" in source:
        raise TableError(f"{source}: the name does not say what kind of file it is; say so with --input-format")
    raise TableError(f"there is no file, folder or table {source!r}")


def _uncompressed(name: str) -> str:
    return next((name[: -len(ending)] for ending in _COMPRESSED if name.endswith(ending)), name)


def _read_csv(session: SparkSession, source: str, encoding: str | None, delimiter: str | None) -> DataFrame:
    charset = _charset(source, encoding)
    header = _first_line(session, source, charset)
    delimiter = delimiter or _delimiter(source, header)
    # Spark takes what equals `nullValue` for null, quoted or not: so that a quoted empty cell stays an empty text.
    options: dict[str, Any] = {
        "header": True, "inferSchema": False, "quote": '"', "escape": '"', "encoding": charset,
        "multiLine": False, "sep": delimiter, "nullValue": "\0",
    }  # fmt: skip
    _refuse_open_quotes(session, source, charset, delimiter)
    names = next(csv.reader([header], delimiter=delimiter))
    positions = [f"c{place}" for place in range(len(names))]
    # Where names tell columns apart, Spark compares the header of every file with them.
    distinct = all(names) and len({name.lower() for name in names}) == len(names)
    fields = [*(names if distinct else positions), _CORRUPT]
    schema = T.StructType([T.StructField(name, T.StringType()) for name in fields])
    reader = session.read.options(**options, mode="PERMISSIVE", columnNameOfCorruptRecord=_CORRUPT)
    rows = reader.option("enforceSchema", not distinct).schema(schema).csv(source).toDF(*positions, _CORRUPT)
    looks = rows.agg(*_looks(positions), F.max(_CORRUPT).alias("malformed"), F.max(_undecoded(positions)).alias("odd"))
    found = looks.collect()[0]
    _refuse_malformed(source, found["malformed"], len(names))
    if found["odd"] is not None and not _is_all_text(source, encoding or "UTF-8"):
        raise TableError(
            f"{source}: a value is not in the file's encoding: {found['odd'][:60]!r}; "
            "give the file's --encoding, such as latin-1"
        )
    columns = [_typed(F.col(position), found.asDict(), position) for position in positions]
    return rows.select(*columns).toDF(*names)


def _frame_of(session: SparkSession, table: pa.Table, file: str | None) -> DataFrame:
    """A table of ours as a DataFrame, its types kept; with the file's name, numbered rows."""
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
    """A column of a type that Spark has: times in microseconds, or as text; its time of day is off by default."""
    if pa.types.is_time(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.string())
    if pa.types.is_timestamp(column.type):
        try:
            return column.cast(pa.timestamp("us", column.type.tz))
        except pa.ArrowInvalid:
            return column.cast(pa.string())
    return column


def _charset(source: str, encoding: str | None) -> str:
    name = codecs_name(encoding or "utf-8")
    if name not in _ENCODINGS:
        raise TableError(
            f"{source}: Spark reads no CSV files in {encoding}, but in utf-8, latin-1 and utf-16; convert the file"
        )
    return _ENCODINGS[name]


def _refuse_open_quotes(session: SparkSession, source: str, charset: str, delimiter: str) -> None:
    """Spark reads line by line, and takes the rest of a line after an open quote for a value: refuse such lines.

    A quote inside a value that does not begin with one is a character as any other.
    """
    lines = session.read.option("encoding", charset).text(source)
    n_quotes = F.length("value") - F.length(F.replace(F.col("value"), F.lit('"')))
    is_suspect = n_quotes % 2 == 1
    if len(delimiter) == 1:
        # Quantifiers are possessive: one pass over the line, however long it is.
        between = rf"\x{{{ord(delimiter):x}}}"
        field = rf'(?:"[^"]*+(?:""[^"]*+)*+"|(?!")[^{between}]*+)'
        is_suspect &= ~F.col("value").rlike(rf"\A{field}(?:{between}{field})*+\z")
    row = lines.filter(is_suspect).head()
    if row is not None:
        raise TableError(
            f"{source}: a line has a quote that is not closed in it: {row[0][:60]!r}; close it, or double it inside a "
            "value. A quoted value that goes on in the next line can be read from a single file of up to 64 MB alone"
        )


def _is_small(source: str) -> bool:
    path = Path(source)
    return path.is_file() and not source.endswith(_COMPRESSED) and path.stat().st_size <= _WHOLE_BYTES


def _is_all_text(source: str, encoding: str) -> bool:
    """Whether a file that we can open ourselves is in its encoding throughout; then U+FFFD is one character of many."""
    if not Path(source).is_file() or source.endswith(_COMPRESSED):
        return False
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with open(source, "rb") as file:
            while part := file.read(1 << 20):
                decoder.decode(part)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _first_line(session: SparkSession, source: str, charset: str) -> str:
    first = session.read.option("encoding", charset).text(source).filter("length(value) > 0").head()
    if first is None:
        raise TableError(f"{source}: the file is empty; a CSV file begins with a line of column names")
    return str(first[0]).removeprefix("\ufeff")


def _delimiter(source: str, header: str) -> str:
    """The most frequent of comma, semicolon, tab and bar in the header; tab for .tsv."""
    if _uncompressed(source).endswith(".tsv"):
        return "\t"
    return max(_DELIMITERS, key="".join(header.split('"')[::2]).count)


def _refuse_malformed(source: str, row: str | None, n_columns: int) -> None:
    if row is not None:
        raise TableError(
            f"{source}: a row does not have the {n_columns} fields of the header: {row[:60]!r}; "
            "complete it, or quote a value that holds the delimiter"
        )


def _undecoded(positions: list[str]) -> Column:
    """A value with the character that stands for bytes that were no text, if a row has one."""
    return F.coalesce(*[F.when(F.col(position).contains("\ufffd"), F.col(position)) for position in positions])


# What values look like; a column has the first type that all its values look like. Spaces and tabs around a number, a
# date or a time mean nothing, here as to our own reader.
_INTEGER = r"^[ \t]*-?[0-9]+[ \t]*$"
_WIDE = r"^[ \t]*-?[0-9]{1,38}[ \t]*$"
_LEADING_ZERO = r"^[ \t]*[+-]?0[0-9xX]"
_BOOLEAN = r"^(true|True|TRUE|false|False|FALSE)$"
_DATE = r"^[ \t]*[0-9]{4}-[0-9]{2}-[0-9]{2}[ \t]*$"
_TIME = r"^[ \t]*([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?[ \t]*$"
_CLOCK = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}(:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?)?"
_TIMESTAMP = rf"^{_CLOCK}$"
_INSTANT = rf"^{_CLOCK}(Z|[+-][0-9]{{2}}(:?[0-9]{{2}})?)$"
_FLOAT = r"^[ \t]*[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))[ \t]*$"


def _looks(positions: list[str]) -> list[Column]:
    """For each column, whether all of its values look like each type."""
    looks = []
    for position in positions:
        value = F.col(position)
        tests = {
            "zero": ~value.rlike(_LEADING_ZERO),
            "integer": value.rlike(_INTEGER),
            "long": value.try_cast("bigint").isNotNull(),
            "wide": value.rlike(_WIDE),
            "boolean": value.rlike(_BOOLEAN),
            "date": value.rlike(_DATE) & value.try_cast("date").isNotNull(),
            "time": value.rlike(_TIME),
            "timestamp": (value.rlike(_TIMESTAMP) | value.rlike(_DATE)) & value.try_cast("timestamp_ntz").isNotNull(),
            "instant": value.rlike(_INSTANT) & _in_full(value).try_cast("timestamp").isNotNull(),
            "float": value.rlike(_FLOAT),
        }
        looks += [F.min(F.when(value.isNotNull(), test)).alias(f"{position} {name}") for name, test in tests.items()]
    return looks


def _in_full(instant: Column) -> Column:
    """An instant with its minutes and seconds, and a colon in its offset: Spark reads no zone without them."""
    text = F.regexp_replace(instant, r"([ T][0-9]{2})(Z|[+-])", "$1:00$2")
    text = F.regexp_replace(text, r"([ T][0-9]{2}:[0-9]{2})(Z|[+-])", "$1:00$2")
    return F.regexp_replace(text, r"([+-][0-9]{2})([0-9]{2})$", "$1:$2")


def _typed(value: Column, looks: dict[str, Any], position: str) -> Column:
    """The column as the first type that all its values look like."""

    def all_look(*names: str) -> bool:
        return all(looks[f"{position} {name}"] is True for name in names)

    if all_look("integer", "zero"):
        return value.cast("bigint") if all_look("long") else value.cast("decimal(38,0)") if all_look("wide") else value
    for name, type_ in (("boolean", "boolean"), ("date", "date")):
        if all_look(name):
            return value.cast(type_)
    if all_look("time"):
        # Spark's type for the time of day is off by default; written out in full, text has its order and equality.
        bare = F.regexp_replace(value, r"[ \t]", "")
        return F.when(F.length(bare) == 5, F.concat(bare, F.lit(":00"))).otherwise(bare)
    if all_look("timestamp"):
        return value.cast("timestamp_ntz")
    if all_look("instant"):
        return _in_full(value).cast("timestamp")
    if all_look("float", "zero"):
        # Spark knows no NaN with a sign.
        return F.regexp_replace(value, "[+-](?i:nan)", "NaN").cast("double")
    return value
