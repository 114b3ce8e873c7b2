"""How large the table in a file will be, from its first part; and the refusal of one too large, before it is read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from naysay.errors import TableError
from naysay.io.csv import open_csv, read_csv
from naysay.io.files import compression_of, csv_delimiter, files_in, format_of
from naysay.plan.bind import encodings
from naysay.plan.cost import ExecutionPlan, bytes_per_row, process_bytes, still_to_load, too_much
from naysay.plan.join import Join
from naysay.table.column import Kind, kind_of

_SAMPLE_BYTES = 1 << 20
_SAMPLE_ROWS = 10_000
# While a file is read there is for each byte of its text, and for each byte of the table, so much in memory.
_READING_TEXT, _READING_TABLE = {"csv": 3.0, "json": 2.8}, {"parquet": 2.4, "orc": 2.4, "arrow": 1.4}
# What Arrow keeps for itself of the text that it read, as a share: of CSV it does now and then.
_LEFT_OF_TEXT = {"csv": 1.1, "json": 0.0}
# For text whose beginning cannot be read, and for ORC, of which nothing is read: bytes of the table for each of the
# file, and bytes of text for a row.
_TABLE_OF_TEXT, _TABLE_OF_ORC, _TEXT_ROW = 1.5, 3.0, 40
# Rows are written in parts; beside those there are the numbers of all rows in conflict, for each rule.
_WRITING, _WRITING_ROW = 48 << 20, 10


@dataclass(frozen=True, slots=True)
class Expected:
    """About how many rows a file has, how large they are in memory, what else may stay of reading them, and the most
    that reading takes."""

    n_rows: int
    table_bytes: int
    left_bytes: int
    reading_bytes: int
    kinds: dict[str, Kind]


def require_room(
    path: str,
    joins: Sequence[Join],
    allowed: int | None,
    *,
    writes: bool = False,
    format: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
) -> None:
    """Refuse a file whose table, or the work on it, would not fit into the memory allowed.

    `writes`: the rows in conflict, which may be all of them, are written out afterwards.
    """
    if allowed is None:
        return
    found = expected(path, format=format, encoding=encoding, delimiter=delimiter)
    if found is None:
        return
    groups = {encoding for join in joins for encoding in encodings(join)}
    to_encode = [found.kinds.get(name, Kind.OTHER) for names, _ in groups for name in names]
    work = found.n_rows * bytes_per_row(joins, to_encode, ExecutionPlan(1, shares=False))
    if writes:
        work += _WRITING + _WRITING_ROW * len(joins) * found.n_rows
    needed = process_bytes() + still_to_load() + max(found.reading_bytes, found.table_bytes + found.left_bytes + work)
    if needed > allowed:
        rows = f"about {found.n_rows:,} rows in {path}"
        raise too_much(needed, allowed, f"{rows}, {found.reading_bytes >> 20:,} MiB to read them")


def expected(path: str, *, format: str | None, encoding: str | None, delimiter: str | None) -> Expected | None:
    """What to expect of a file or folder; None where its first part does not tell, and reading it will."""
    try:
        files = files_in(path) if os.path.isdir(path) else [path]
        found = format or format_of(files[0])
        n_bytes = sum(os.path.getsize(file) for file in files)
        if found in _READING_TEXT:
            return _of_text(files[0], n_bytes, found, encoding, delimiter)
        return _of_table(files[0], n_bytes, found)
    except (OSError, ValueError, ImportError, TableError, pa.ArrowException):
        return None


def _of_text(path: str, n_bytes: int, format: str, encoding: str | None, delimiter: str | None) -> Expected:
    text, ratio = _beginning(path)
    n_text = n_bytes * ratio
    copies = _READING_TEXT[format] + (0.0 if encoding is None else 2.0)
    left = int(_LEFT_OF_TEXT[format] * n_text)
    try:
        sample = _read_sample(path, text, format, encoding, delimiter)
    except TableError:
        # A value may reach beyond the part that was looked at.
        table_bytes = int(_TABLE_OF_TEXT * n_text)
        return Expected(int(n_text / _TEXT_ROW), table_bytes, left, int(copies * n_text) + table_bytes, {})
    scale = n_text / max(len(text), 1)
    table_bytes = int(sample.nbytes * scale)
    reading = int(copies * n_text) + table_bytes
    return Expected(int(sample.num_rows * scale), table_bytes, left, reading, _kinds(sample.schema))


def _beginning(path: str) -> tuple[bytes, float]:
    """The first lines of a text file, and how many bytes of text there are for each byte of the file."""
    compression = compression_of(path)
    with pa.OSFile(path) as file:
        if compression is None:
            return _whole_lines(file.read(_SAMPLE_BYTES), file.size()), 1.0
        with pa.CompressedInputStream(file, compression) as stream:
            text = stream.read(4 * _SAMPLE_BYTES)
            ratio = len(text) / max(file.tell(), 1)
    return _whole_lines(text, len(text) + 1), ratio


def _whole_lines(text: bytes, size: int) -> bytes:
    return text if len(text) == size else text[: text.rfind(b"\n") + 1]


def _read_sample(path: str, text: bytes, format: str, encoding: str | None, delimiter: str | None) -> pa.Table:
    if format == "json":
        from naysay.io.json import read_json_lines

        return read_json_lines(path, text)
    return read_csv(open_csv(path, text, encoding=encoding, delimiter=csv_delimiter(path, delimiter)))


def _of_table(path: str, n_bytes: int, format: str) -> Expected | None:
    share = n_bytes / max(os.path.getsize(path), 1)
    if format == "parquet":
        import pyarrow.parquet

        file = pyarrow.parquet.ParquetFile(path)
        n_rows, sample = file.metadata.num_rows, next(file.iter_batches(_SAMPLE_ROWS), None)
    elif format == "arrow":
        import pyarrow.ipc

        reader = pyarrow.ipc.open_file(path)
        sample = reader.get_batch(0) if reader.num_record_batches else None
        n_rows = sample.num_rows * reader.num_record_batches if sample is not None else 0
    else:
        import pyarrow.orc

        file = pyarrow.orc.ORCFile(path)
        table_bytes = int(_TABLE_OF_ORC * n_bytes)
        reading = int(_READING_TABLE[format] * table_bytes)
        return Expected(int(file.nrows * share), table_bytes, 0, reading, _kinds(file.schema))
    if sample is None or not sample.num_rows:
        return None
    table_bytes = int(sample.nbytes / sample.num_rows * n_rows * share)
    reading = int(_READING_TABLE[format] * table_bytes)
    return Expected(int(n_rows * share), table_bytes, 0, reading, _kinds(sample.schema))


def _kinds(schema: pa.Schema) -> dict[str, Kind]:
    return {field.name: kind_of(field.type) for field in schema}
