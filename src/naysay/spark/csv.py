"""CSV files read by Spark, with the rows, types and refusals of our own reader (`io/csv.py`).

One pass over the lines checks their structure, Spark parses all columns as text, one pass looks at the values, and the
columns are cast. So leading zeros are kept, long numbers stay exact, and one word in the last row makes a column text
instead of nulls.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.errors import TableError
from naysay.io.csv import CsvFile, codecs_name, open_csv
from naysay.io.files import compression_of, csv_delimiter, require_columns
from naysay.io.notation import (
    ALL_LOOKS,
    DEFAULT,
    Notation,
    complaint,
    convert,
    has_comma_numbers,
    looks_of,
    type_by_looks,
)
from naysay.spark.frame import map_in_arrow
from naysay.spark.types import cast_text, looks_at

_NULL = "__HIVE_DEFAULT_PARTITION__"


def names_of_files(data: DataFrame) -> list[str]:
    """The files that a DataFrame is read from, by their plain names."""
    return [unquote(path) for path in data.inputFiles()]


def partitions_of(rows: DataFrame, source: str) -> dict[str, set[str]]:
    """The columns of a table just read that come from its folder names, each with its values."""
    address = urlparse(source)
    base = os.path.normpath(address.path) if address.scheme else os.path.abspath(source)
    depth = len(base.rstrip("/").split("/"))
    known = {name.lower(): name for name in rows.columns}
    found: dict[str, set[str]] = {}
    for file in rows.inputFiles():
        # An address is escaped, and so is the name of a folder.
        for folder in unquote(urlparse(file).path).split("/")[depth:-1]:
            name, divided, value = folder.partition("=")
            column = known.get(unquote(name).lower())
            if divided and column is not None:
                found.setdefault(column, set()).add(unquote(value))
    return found


def with_text(schema: T.StructType, partitions: dict[str, set[str]]) -> T.StructType:
    """The schema with these columns as text."""
    fields = schema.fields
    return T.StructType([T.StructField(f.name, T.StringType()) if f.name in partitions else f for f in fields])


def cast_partitions(session: SparkSession, rows: DataFrame, partitions: dict[str, set[str]], source: str) -> DataFrame:
    """The same rows, with these columns in the types that all their values have."""
    for name, values in partitions.items():
        texts = [(value,) for value in sorted(values - {_NULL, ""})]
        looks = looks_at(session.createDataFrame(texts, "value string"), ["value"])
        column = F.col("`" + name.replace("`", "``") + "`")
        rows = rows.withColumn(
            name, cast_text(column, looks, "value", f"{source}: {{}} in the folder names of {name!r}")
        )
    return rows


# What Spark can decode, by Python's names.
_ENCODINGS = {
    "utf-8": "UTF-8",
    "utf-8-sig": "UTF-8",
    "ascii": "US-ASCII",
    "iso8859-1": "ISO-8859-1",
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16LE",
    "utf-16-be": "UTF-16BE",
    "utf-32": "UTF-32",
}
_CORRUPT = "naysay_malformed_row"
# Spark's reader of CSV skips lines of nothing but these characters, as Java's trim() does.
_SPACES = r"\A[\x00-\x20]+\z"
_FEWEST_COLUMNS = 20_480


def read_csv(
    session: SparkSession, source: str, encoding: str | None, delimiter: str | None, notation: Notation = DEFAULT
) -> DataFrame:
    charset = _charset(source, encoding)
    lines = _lines(session, source, charset)
    header = _header(source, lines, delimiter)
    require_columns(source, notation.types, header.names)
    has_spaces = _require_structure(source, header, lines)
    positions = [f"c{place}" for place in range(len(header.names))]
    parsed = _parse(session, source, charset, header.delimiter, positions)
    if parts := partitions_of(parsed, source):
        raise TableError(
            f"{source}: the folder is partitioned by {', '.join(map(repr, parts))}, which Spark does not read from CSV "
            "here; convert the files to Parquet, or name one folder"
        )
    rows = parsed.select(*positions, _CORRUPT)
    if has_spaces:
        rows = rows.unionAll(_lines_of_spaces(lines, header.delimiter, positions))
    malformed = F.max(_CORRUPT).alias("malformed"), F.max(_find_undecoded(positions)).alias("odd")
    typed: dict[str, pa.DataType] = {}
    if notation:
        rows, typed = _in_default_notation(source, header.names, rows, notation)
    found = looks_at(rows, [position for position in positions if position not in typed], *malformed)
    _refuse_malformed(source, found["malformed"], len(header.names))
    if found["odd"] is not None and not _is_all_text(source, encoding or "UTF-8"):
        raise TableError(
            f"{source}: a value is not in the file's encoding: {found['odd'][:60]!r}; "
            "give the file's --encoding, such as latin-1"
        )
    if typed:
        rows = map_in_arrow(rows, partial(_convert_batches, typed=typed, notation=notation), _schema(rows, typed))
    columns = [
        F.col(position)
        if position in typed
        else cast_text(F.col(position), found, position, f"{source}: {{}} in column {name!r}")
        for position, name in zip(positions, header.names, strict=True)
    ]
    return rows.select(*columns).toDF(*header.names)


_LOOKS = pa.schema([("place", pa.int64()), ("looks", pa.int64()), ("bad", pa.string())])


def _in_default_notation(
    source: str, names: tuple[str, ...], rows: DataFrame, notation: Notation
) -> tuple[DataFrame, dict[str, pa.DataType]]:
    """The rows with nulls and decimal points, as text, and the types of the columns that `_convert_batches` converts.

    Refuses a value that is not of its column's declared type.
    """
    positions = [f"c{place}" for place in range(len(names))]
    if notation.null_values:
        values = {name: F.when(~F.col(name).isin(*notation.null_values), F.col(name)) for name in positions}
        rows = rows.withColumns(values)
    declared = notation.arrow_types
    wanted = [(place, declared.get(name)) for place, name in enumerate(names)]
    if not notation.changes_inference:
        wanted = [(place, type_) for place, type_ in wanted if type_ is not None]
    work = partial(_look_at_batches, wanted=wanted, notation=notation)
    columns = [positions[place] for place, _ in wanted]
    looks = dict.fromkeys(names, ALL_LOOKS)
    for row in map_in_arrow(rows.select(*columns), work, _LOOKS).collect():
        name = names[row["place"]]
        looks[name] &= row["looks"]
        if row["bad"] is not None:
            what = complaint(row["bad"], declared[name], notation)
            raise TableError(f"{source}: {row['bad'][:60]!r} in column {name!r} {what}")
    found = {name: type_by_looks(look, notation) for name, look in looks.items()} | declared
    typed = {position: found[name] for position, name in zip(positions, names, strict=True) if found[name] is not None}
    commas = [
        position
        for position, name in zip(positions, names, strict=True)
        if position not in typed and has_comma_numbers(looks[name])
    ]
    return rows.withColumns({name: F.replace(F.col(name), F.lit(","), F.lit(".")) for name in commas}), typed


def _look_at_batches(
    batches: Iterable[pa.RecordBatch], wanted: list[tuple[int, pa.DataType | None]], notation: Notation
) -> Iterator[pa.RecordBatch]:
    """What the columns of a partition look like, and the first value that is not of its declared type."""
    looks = dict.fromkeys((place for place, _ in wanted), ALL_LOOKS)
    bad: dict[int, str] = {}
    for batch in batches:
        for (place, type_), column in zip(wanted, pa.table(batch).columns, strict=True):
            if type_ is None:
                looks[place] &= looks_of(column, notation)
            elif place not in bad and (rows := np.flatnonzero(convert(column, type_, notation)[1])).size:
                bad[place] = column[int(rows[0])].as_py()
    yield pa.record_batch([list(looks), list(looks.values()), [bad.get(place) for place in looks]], schema=_LOOKS)


def _convert_batches(
    batches: Iterable[pa.RecordBatch], typed: dict[str, pa.DataType], notation: Notation
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        table = pa.table(batch)
        columns = [
            _for_spark(convert(column, typed[name], notation)[0]) if name in typed else column
            for name, column in zip(table.column_names, table.columns, strict=True)
        ]
        yield from pa.table(columns, table.column_names).combine_chunks().to_batches()


def _for_spark(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times of day as text: Spark's type for them is off by default."""
    return column.cast(pa.string()) if pa.types.is_time(column.type) else column


def _schema(rows: DataFrame, typed: dict[str, pa.DataType]) -> pa.Schema:
    types = {name: pa.string() if pa.types.is_time(type_) else type_ for name, type_ in typed.items()}
    return pa.schema([(name, types.get(name, pa.string())) for name in rows.columns])


def _lines(session: SparkSession, source: str, charset: str) -> DataFrame:
    """All lines that are not empty: their file, whether they are in its first part, and their order in it."""
    return (
        session.read.option("encoding", charset)
        .text(source)
        .select(
            "value",
            F.col("_metadata.file_path").alias("file"),
            (F.col("_metadata.file_block_start") == 0).alias("is_first_part"),
        )
        .withColumn("number", F.monotonically_increasing_id())
        .filter(F.length("value") > 0)
    )


def _header(source: str, lines: DataFrame, delimiter: str | None) -> CsvFile:
    first = lines.select("value", "file").head()
    if first is None:
        raise TableError(f"{source}: the file is empty; a CSV file begins with a line of column names")
    path = Path(unquote(urlparse(first["file"]).path))
    return _header_line(source, first["value"], csv_delimiter(str(path), delimiter))


def _header_line(source: str, line: str, delimiter: str | None) -> CsvFile:
    if not line.strip():
        raise TableError(f"{source}: the line of column names is blank; a CSV file begins with them")
    return open_csv(source, line.encode(), delimiter=delimiter)


def _require_structure(source: str, header: CsvFile, lines: DataFrame) -> bool:
    """Refuse quotes that are not closed in their line, NUL, and files with other columns. Whether a line is all spaces.

    Spark reads line by line, and takes the rest of a line after an open quote as a value. A quote inside a value that
    does not begin with one is an ordinary character.
    """
    value = F.col("value")
    # Quantifiers are possessive: one pass over the line, even if it is long.
    between = rf"\x{{{ord(header.delimiter):x}}}"
    field = rf'(?:"[^"]*+(?:""[^"]*+)*+"|(?!")[^{between}]*+)'
    structure = rf"\A{field}(?:{between}{field})*+\z"
    files = lines.groupBy("file").agg(
        F.min_by("value", F.when(F.col("is_first_part"), F.col("number"))).alias("header"),
        F.max(F.when(value.contains('"') & ~value.rlike(structure), value)).alias("quote"),
        F.max(F.when(value.contains("\0"), value)).alias("nul"),
        F.max(value.rlike(_SPACES)).alias("spaces"),
    )
    found = files.agg(
        F.collect_set("header").alias("headers"),
        F.max("quote").alias("quote"),
        F.max("nul").alias("nul"),
        F.max("spaces").alias("spaces"),
    ).collect()[0]
    _refuse_lines(source, found)
    for line in sorted(found["headers"]):
        names = _header_line(source, line, header.delimiter).names
        if names != header.names:
            raise TableError(
                f"{source}: the files have different columns, or have them in another order: "
                f"{_list_names(header.names)} and {_list_names(names)}; give all one header"
            )
    return bool(found["spaces"])


def _refuse_lines(source: str, found: Row) -> None:
    if found["nul"] is not None:
        raise TableError(
            f"{source}: a line holds NUL: {found['nul'][:60]!r}; the file is damaged, not text, or in another "
            "encoding such as UTF-16: then give --encoding utf-16"
        )
    if found["quote"] is not None:
        raise TableError(
            f"{source}: a line has a quote that is not closed in it, or text after its end: "
            f"{found['quote'][:60]!r}; close it, or double it inside a value. A quoted value that continues on the "
            "next line can only be read from a single uncompressed file of up to 64 MB"
        )


def _parse(session: SparkSession, source: str, charset: str, delimiter: str, positions: list[str]) -> DataFrame:
    """All rows except lines of spaces, as text, and those with too many or too few fields."""
    # Spark reads `nullValue` as null, quoted or not: NUL keeps a quoted empty cell an empty text.
    options: dict[str, Any] = {
        "header": True,
        "inferSchema": False,
        "quote": '"',
        "escape": '"',
        "encoding": charset,
        "sep": delimiter,
        "multiLine": False,
        "nullValue": "\0",
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": _CORRUPT,
        "maxColumns": max(_FEWEST_COLUMNS, len(positions) + 1),
    }
    fields = [*positions, _CORRUPT]
    schema = T.StructType([T.StructField(name, T.StringType()) for name in fields])
    return session.read.options(**options).schema(schema).csv(source)


def _lines_of_spaces(lines: DataFrame, delimiter: str, positions: list[str]) -> DataFrame:
    """The rows that Spark's reader skips: in a tab-separated file, a line of tabs is a row of nulls."""
    parts = F.split("value", re.escape(delimiter), -1)
    cells = [F.get(parts, F.lit(place)) for place in range(len(positions))]
    columns = [F.when(cell != "", cell).alias(name) for cell, name in zip(cells, positions, strict=True)]
    malformed = F.when(F.size(parts) != len(positions), F.col("value")).alias(_CORRUPT)
    return lines.filter(F.col("value").rlike(_SPACES)).select(*columns, malformed)


def _charset(source: str, encoding: str | None) -> str:
    name = codecs_name(encoding or "utf-8")
    if name not in _ENCODINGS:
        raise TableError(
            f"{source}: Spark does not read CSV files in {encoding}, only in utf-8, latin-1 and utf-16; convert it"
        )
    return _ENCODINGS[name]


def _is_all_text(source: str, encoding: str) -> bool:
    """Whether a file that we can open ourselves is entirely in its encoding; then U+FFFD is an ordinary character."""
    if not Path(source).is_file() or compression_of(source) is not None or source.endswith(".snappy"):
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


def _refuse_malformed(source: str, row: str | None, n_columns: int) -> None:
    if row is not None:
        raise TableError(
            f"{source}: a row does not have the {n_columns} fields of the header: {row[:60]!r}; "
            "complete it, or quote a value that holds the delimiter"
        )


def _find_undecoded(positions: list[str]) -> Column:
    """A value of a row with U+FFFD, which replaces bytes that are not text; null if there is none."""
    return F.coalesce(*[F.when(F.col(position).contains("\ufffd"), F.col(position)) for position in positions])


def _list_names(names: tuple[str, ...]) -> str:
    return ", ".join(repr(name) for name in names[:8]) + ("" if len(names) <= 8 else ", …")
