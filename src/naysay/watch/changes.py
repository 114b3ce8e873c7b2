"""Change files: rows with an `op` beside their columns, read so that one bad row spoils no other.

Parquet, CSV and JSON lines. An op is insert, update or delete, or c, u, d as Debezium writes them (r, a row read at the
start, is an insert). What cannot be read is set aside with its place and the reason.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from naysay.errors import TableError
from naysay.table.codes import Int64Array

OP_COLUMN = "op"


class ChangeOp(Enum):
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


_OPS = {
    **dict.fromkeys(("insert", "i", "create", "c", "read", "r"), ChangeOp.INSERT),
    **dict.fromkeys(("update", "u"), ChangeOp.UPDATE),
    **dict.fromkeys(("delete", "d"), ChangeOp.DELETE),
}


@dataclass(frozen=True, slots=True)
class Aside:
    """A change that was not made: its row, from 1 (None: the whole file), why, and what it said."""

    row: int | None
    reason: str
    content: str = ""


@dataclass(slots=True)
class ChangeRows:
    """The changes of one file in order: the columns without the op, the ops, and each one's row in the file."""

    table: pa.Table
    ops: list[ChangeOp]
    rows: Int64Array
    aside: list[Aside] = field(default_factory=list)

    def keep(self, places: Int64Array) -> None:
        """Drop all changes but those at these places."""
        self.table = self.table.take(pa.array(places))
        self.ops = [self.ops[place] for place in places.tolist()]
        self.rows = self.rows[places]

    def set_aside(self, place: int, reason: str) -> None:
        content = json.dumps(self.table.slice(place, 1).to_pylist()[0], default=str, ensure_ascii=False)
        self.aside.append(Aside(int(self.rows[place]), reason, content))


def format_of(path: Path) -> str | None:
    """The format of a change file by its name; None where it is none."""
    return {
        ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"
    }.get(path.suffix.lower())  # fmt: skip


def read_changes(path: Path, known: pa.Schema | None) -> ChangeRows:
    """Read a change file; `known` has the types of a table that has rows already. TableError where nothing can be read.

    A column of another type in Parquet is for the caller to refuse: here text alone is converted.
    """
    try:
        table, rows, aside = _READERS[format_of(path) or ""](path, known)
    except KeyError:
        raise TableError(f"{path.name}: a change file is Parquet, CSV or JSON lines, not {path.suffix!r}") from None
    except (pa.ArrowException, ValueError, UnicodeError) as error:
        raise TableError(f"{path.name}: the file cannot be read: {_first_line(error)}") from error
    if OP_COLUMN not in table.column_names:
        raise TableError(f"{path.name}: there is no column {OP_COLUMN!r} with insert, update or delete")
    return _split_ops(table, rows, aside)


def _split_ops(table: pa.Table, rows: Int64Array, aside: list[Aside]) -> ChangeRows:
    words = table.column(OP_COLUMN).to_pylist()
    found = [_OPS.get(word.strip().lower()) if isinstance(word, str) else None for word in words]
    made = ChangeRows(table, [op or ChangeOp.INSERT for op in found], rows, aside)
    good = np.array([op is not None for op in found], np.bool_)
    for place in np.flatnonzero(~good).tolist():
        word = words[place]
        made.set_aside(place, "the op is missing" if word is None else f"unknown op {word!r}")
    if not good.all():
        made.keep(np.flatnonzero(good))
    made.table = made.table.drop_columns([OP_COLUMN])
    return made


_Read = tuple[pa.Table, Int64Array, list[Aside]]


def _read_parquet(path: Path, known: pa.Schema | None) -> _Read:
    with pa.parquet.ParquetFile(path) as file:
        table = file.read()
    return table, np.arange(1, table.num_rows + 1), []


def _read_csv(path: Path, known: pa.Schema | None) -> _Read:
    data = path.read_bytes()
    types = {field.name: field.type for field in known or ()}
    try:
        return _parse_csv(data, types)
    except pa.ArrowInvalid:
        if known is None:
            raise
    # Some value does not fit its column: read text, and convert value by value.
    header = next(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))
    table, rows, aside = _parse_csv(data, dict.fromkeys(header, pa.string()))
    return _convert_rows(table, rows, aside, types)


def _parse_csv(data: bytes, types: dict[str, pa.DataType]) -> _Read:
    aside: list[Aside] = []
    bad: list[int] = []

    def skip(row: pa.csv.InvalidRow) -> str:
        bad.append(row.number)
        reason = f"{row.actual_columns} columns where the header has {row.expected_columns}"
        aside.append(Aside(row.number - 1, reason, row.text or ""))
        return "skip"

    table = pa.csv.read_csv(
        io.BytesIO(data),
        # One thread, so that rows are numbered.
        read_options=pa.csv.ReadOptions(use_threads=False),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
        convert_options=pa.csv.ConvertOptions(
            column_types={**types, OP_COLUMN: pa.string()},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    # The header is row 1 for Arrow; ours count from the first row below it.
    rows = np.setdiff1d(np.arange(1, table.num_rows + len(bad) + 1), np.array(bad, np.int64) - 1)
    return table, rows[: table.num_rows], aside


def _read_json(path: Path, known: pa.Schema | None) -> _Read:
    data = path.read_bytes()
    schema = None if known is None else pa.schema([*known, pa.field(OP_COLUMN, pa.string())])
    if not data.strip():
        raise TableError(f"{path.name}: the file is empty")
    try:
        table = pa.json.read_json(
            io.BytesIO(data), parse_options=pa.json.ParseOptions(explicit_schema=schema, newlines_in_values=False)
        )
        return table, np.arange(1, table.num_rows + 1), []
    except pa.ArrowInvalid:
        pass
    return _read_json_lines(data, known)


def _read_json_lines(data: bytes, known: pa.Schema | None) -> _Read:
    """Line by line, where some line is no object or holds a value of another type."""
    objects: list[dict[str, Any]] = []
    rows: list[int] = []
    aside: list[Aside] = []
    for number, line in enumerate(data.decode("utf-8-sig", "replace").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except ValueError as error:
            aside.append(Aside(number, f"no JSON: {_first_line(error)}", line[:1000]))
            continue
        if isinstance(item, dict):
            objects.append(item)
            rows.append(number)
        else:
            aside.append(Aside(number, "no JSON object", line[:1000]))
    if known is None:
        return pa.Table.from_pylist(objects), np.array(rows, np.int64), aside
    names = list(dict.fromkeys([*known.names, OP_COLUMN, *(name for item in objects for name in item)]))
    columns = {name: [_as_text(item.get(name)) for item in objects] for name in names}
    table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    return _convert_rows(table, np.array(rows, np.int64), aside, {field.name: field.type for field in known})


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)


def _convert_rows(table: pa.Table, rows: Int64Array, aside: list[Aside], types: dict[str, pa.DataType]) -> _Read:
    """Convert text to the types of the table, setting aside each row where that fails."""
    columns: dict[str, pa.ChunkedArray] = {}
    reasons: dict[int, str] = {}
    for name in table.column_names:
        column = table.column(name)
        wanted = types.get(name, pa.string())
        columns[name], bad = _convert(column, wanted)
        for place in bad:
            reasons.setdefault(place, f"{column[place].as_py()!r} in column {name!r} is no {wanted}")
    for place, reason in reasons.items():
        content = json.dumps(table.slice(place, 1).to_pylist()[0], ensure_ascii=False)
        aside.append(Aside(int(rows[place]), reason, content))
    good = np.setdiff1d(np.arange(table.num_rows), np.array(list(reasons), np.int64))
    return pa.table(columns).take(pa.array(good)), rows[good], aside


def _convert(column: pa.ChunkedArray, wanted: pa.DataType) -> tuple[pa.ChunkedArray, list[int]]:
    try:
        return column.cast(wanted), []
    except pa.ArrowException:
        pass
    values, bad = [], []
    for place, value in enumerate(column):
        try:
            values.append(value.cast(wanted).as_py())
        except (pa.ArrowException, ValueError):
            values.append(None)
            bad.append(place)
    return pa.chunked_array([pa.array(values, wanted)]), bad


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


_READERS: dict[str, Callable[[Path, pa.Schema | None], _Read]] = {
    "parquet": _read_parquet,
    "csv": _read_csv,
    "json": _read_json,
}
