"""Estimate how large the table in a file will be, and refuse one that is too large before it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from naysay.errors import TableError
from naysay.io.csv import open_csv
from naysay.io.csv_files import read_csv_files
from naysay.io.files import compression_of, csv_delimiter, files_at, format_of, open_file
from naysay.io.notation import DEFAULT, Notation
from naysay.plan.bind import encodings
from naysay.plan.cost import ExecutionPlan, bytes_per_row, process_bytes, still_to_load, too_much
from naysay.plan.join import Join
from naysay.table.column import Kind, kind_of

_SAMPLE_BYTES = 1 << 20
_SAMPLE_ROWS = 10_000
# Bytes in memory while a file is read, for each byte of its text, or for each byte of the table.
_READING_TEXT, _READING_TABLE = {"csv": 3.0, "json": 2.8}, {"parquet": 2.4, "orc": 2.4, "arrow": 1.4}
# More of it for a CSV file in another notation: the values as text, and rewritten.
_NOTATION = 3.0
# What Arrow keeps of the text that it read, as a share: of CSV it sometimes does.
_LEFT_OF_TEXT = {"csv": 1.1, "json": 0.0}
# For text whose beginning cannot be read, and for ORC, which is not sampled: bytes of the table for each byte of the
# file, and bytes of text per row.
_TABLE_OF_TEXT, _TABLE_OF_ORC, _TEXT_ROW = 1.5, 3.0, 40
# Rows are written in parts; in addition there are the numbers of all rows in conflict, for each rule.
_WRITING, _WRITING_ROW = 48 << 20, 10


@dataclass(frozen=True, slots=True)
class ExpectedTable:
    """An estimate: the rows, their bytes in memory, the bytes that stay after reading, and the most that reading takes.

    `kinds` are the kinds of the columns, if the file was sampled.
    """

    n_rows: int
    table_bytes: int
    left_bytes: int
    reading_bytes: int
    kinds: dict[str, Kind]


def require_room(
    path: str, joins: Sequence[Join], allowed: int | None, *, writes: bool = False, **options: Any
) -> None:
    """Refuse a file if its table, or the work on it, would not fit into the memory allowed.

    `writes`: the rows in conflict, possibly all rows, are written out afterwards. `options` are those of `read`.
    """
    if allowed is None:
        return
    found = expect_table(path, **options)
    needed = 0 if found is None else needed_bytes(found, joins, writes=writes)
    if found is not None and needed > allowed:
        rows = f"about {found.n_rows:,} rows in {path}"
        raise too_much(needed, allowed, f"{rows}, {found.reading_bytes >> 20:,} MiB to read them")


def needed_bytes(found: ExpectedTable, joins: Sequence[Join] | None, *, writes: bool = False) -> int:
    """The memory that this process will have used when a table is read and rules are checked: all columns, if None."""
    if joins is None:
        joins, to_encode = (), list(found.kinds.values())
    else:
        groups = {encoding for join in joins for encoding in encodings(join)}
        to_encode = [found.kinds.get(name, Kind.OTHER) for names, _ in groups for name in names]
    work = found.n_rows * bytes_per_row(joins, to_encode, ExecutionPlan(1, shares=False))
    if writes:
        work += _WRITING + _WRITING_ROW * len(joins) * found.n_rows
    return process_bytes() + still_to_load() + max(found.reading_bytes, found.table_bytes + found.left_bytes + work)


def expect_table(
    path: str, *, format: str | None = None, encoding: str | None = None, delimiter: str | None = None, **_: Any
) -> ExpectedTable | None:
    """Estimate the table of a file or folder; None if its beginning does not show it, and reading will.

    The other options of `read` hardly change how large a table is.
    """
    try:
        files = files_at(path)
        found = format or format_of(files[0])
        n_bytes = sum(_size_of(file) for file in files)
        if found in _READING_TEXT:
            return _expect_of_text(files[0], n_bytes, found, encoding, delimiter)
        return _expect_of_table(files[0], n_bytes, found)
    except (OSError, ValueError, ImportError, TableError, pa.ArrowException):
        return None


def _size_of(path: str) -> int:
    with open_file(path) as file:
        return int(file.size())


def _expect_of_text(
    path: str, n_bytes: int, format: str, encoding: str | None, delimiter: str | None, notation: Notation = DEFAULT
) -> ExpectedTable:
    text, ratio = _beginning(path)
    n_text = n_bytes * ratio
    n_rows, table_bytes, kinds = n_text / _TEXT_ROW, _TABLE_OF_TEXT * n_text, {}
    try:
        if format == "json":
            from naysay.io.json import read_json_lines

            sample = read_json_lines(path, text, encoding)
        else:
            file = open_csv(path, text, encoding=encoding, delimiter=csv_delimiter(path, delimiter))
            (sample,) = read_csv_files([file], notation)
    except TableError:
        # A value may reach beyond the part that was read.
        pass
    else:
        scale = n_text / max(len(text), 1)
        n_rows, table_bytes, kinds = sample.num_rows * scale, sample.nbytes * scale, _kinds(sample.schema)
    copies = _READING_TEXT[format] + (0.0 if encoding is None else 2.0) + (_NOTATION if notation else 0.0)
    left = _LEFT_OF_TEXT[format] * n_text
    return ExpectedTable(int(n_rows), int(table_bytes), int(left), int(copies * n_text + table_bytes), kinds)


def _beginning(path: str) -> tuple[bytes, float]:
    """The first lines of a text file, and the bytes of text for each byte of the file."""
    compression = compression_of(path)
    with open_file(path) as file:
        if compression is None:
            text, ratio, is_all = file.read(_SAMPLE_BYTES), 1.0, file.tell() == file.size()
        else:
            with pa.CompressedInputStream(file, compression) as stream:
                text = stream.read(4 * _SAMPLE_BYTES)
                ratio, is_all = len(text) / max(file.tell(), 1), False
    return text if is_all else text[: text.rfind(b"\n") + 1], ratio


def _expect_of_table(path: str, n_bytes: int, format: str) -> ExpectedTable | None:
    share = n_bytes / max(_size_of(path), 1)
    sample: Any
    if format == "orc":
        import pyarrow.orc

        file = pyarrow.orc.ORCFile(open_file(path))
        n_rows, table_bytes, schema = file.nrows * share, _TABLE_OF_ORC * n_bytes, file.schema
    else:
        if format == "parquet":
            import pyarrow.parquet

            file = pyarrow.parquet.ParquetFile(open_file(path))
            n_rows, sample = file.metadata.num_rows, next(file.iter_batches(_SAMPLE_ROWS), None)
        else:
            import pyarrow.ipc

            reader = pyarrow.ipc.open_file(open_file(path))
            sample = reader.get_batch(0) if reader.num_record_batches else None
            n_rows = sample.num_rows * reader.num_record_batches if sample is not None else 0
        if sample is None or not sample.num_rows:
            return None
        n_rows, schema = n_rows * share, sample.schema
        table_bytes = sample.nbytes / sample.num_rows * n_rows
    return ExpectedTable(int(n_rows), int(table_bytes), 0, int(_READING_TABLE[format] * table_bytes), _kinds(schema))


def _kinds(schema: pa.Schema) -> dict[str, Kind]:
    return {field.name: kind_of(field.type) for field in schema}
