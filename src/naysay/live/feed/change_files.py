"""Change files: Parquet, CSV or JSON lines with an `op` column; a bad row does not affect the others.

The first file is read as `check` reads files, so that leading zeros and long numbers keep their meaning; from then on
the table has types, and a value that cannot be converted is rejected with its row.
"""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet
from pyarrow import types

from naysay.arrays import Int64Array
from naysay.errors import TableError
from naysay.io.csv import CsvFile, has_leading_zero, loss, open_csv, read_csv, read_text, suspects, without_ragged
from naysay.io.csv_files import convert_files
from naysay.io.files import require_columns, require_type
from naysay.io.json import read_json_lines
from naysay.io.notation import DEFAULT, Notation
from naysay.live.feed.changes import OP_COLUMN, ChangeRows, FirstBatchError, RejectedChange, split_ops

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_Read = tuple[pa.Table, Int64Array, list[RejectedChange]]
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


def format_of(name: str) -> str | None:
    """The format of a change file by its name; None if it is not a change file."""
    return _FORMATS.get(PurePath(name).suffix.lower())


def endings() -> tuple[str, ...]:
    """The file name extensions of change files."""
    return tuple(_FORMATS)


def read_changes(name: str, data: bytes, known: pa.Schema | None, notation: Notation = DEFAULT) -> ChangeRows:
    """Read a change file; `known` has the types of an existing table. TableError if nothing can be read.

    Only text is converted: a Parquet column of another type is for the caller to refuse. CSV files may have another
    notation; the types that it declares are those of the first file.
    """
    reader = _READERS.get(format_of(name) or "")
    if reader is None:
        ending = PurePath(name).suffix
        raise TableError(f"{name}: a change file is Parquet, CSV or JSON lines, not {ending!r}")
    try:
        if notation and format_of(name) == "csv":
            table, rows, rejected = _read_notation(name, data, known, notation)
        else:
            table, rows, rejected = reader(name, data, known)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TableError(f"{name}: the file cannot be read: {_first_line(error)}") from error
    if known is None:
        _require_declared(name, table.schema, notation)
    return split_ops(name, table, rows, rejected)


def _require_declared(name: str, schema: pa.Schema, notation: Notation) -> None:
    """Stop before the first file is applied if a declared column is missing, or has another type."""
    try:
        require_columns(name, notation.types, schema.names)
        for column, wanted in notation.arrow_types.items():
            require_type(name, schema.field(column), wanted, notation.types[column])
    except TableError as error:
        raise FirstBatchError(f"{error}\nNothing was applied. Correct the types.") from error


def _numbered(table: pa.Table) -> _Read:
    return table, np.arange(1, table.num_rows + 1), []


def _read_parquet(name: str, data: bytes, known: pa.Schema | None) -> _Read:
    with pa.parquet.ParquetFile(pa.BufferReader(data)) as file:
        table = file.read()
    table.validate(full=True)
    return _numbered(table)


def _given(known: pa.Schema | None) -> dict[str, pa.DataType]:
    """The known types; a column that has held only nulls has none yet."""
    return {field.name: field.type for field in known or () if not types.is_null(field.type)}


def _open_csv(name: str, data: bytes) -> tuple[CsvFile, list[RejectedChange], Callable[[int], Int64Array]]:
    """A file without its ragged rows; these, rejected; and the numbers of the other rows, if there are so many."""
    file = open_csv(name, data, delimiter="\t" if name.lower().endswith(".tsv") else None)
    file, ragged = without_ragged(file)
    rejected = [
        RejectedChange(bad.row, f"{bad.n_fields} columns, but the header has {len(file.names)}", bad.text, name)
        for bad in ragged
    ]
    gone = np.array([bad.row for bad in ragged], np.int64)
    return file, rejected, lambda n_rows: np.setdiff1d(np.arange(1, n_rows + len(gone) + 1), gone)


def _read_csv(name: str, data: bytes, known: pa.Schema | None) -> _Read:
    file, rejected, numbers = _open_csv(name, data)
    given = {**_given(known), OP_COLUMN: pa.string()}
    table, fits = _typed_csv(file, given)
    rows = numbers(table.num_rows)
    return (table, rows, rejected) if fits else _convert_rows(name, table, rows, rejected, given)


def _read_notation(name: str, data: bytes, known: pa.Schema | None, notation: Notation) -> _Read:
    """Read a CSV file in another notation, rejecting each row with a value that is not of its column's type."""
    file, rejected, numbers = _open_csv(name, data)
    (converted,) = convert_files([file], notation, {**_given(known), OP_COLUMN: pa.string()})
    reasons: dict[int, str] = {}
    for bad in converted.bad_values():
        reasons.setdefault(bad.row, f"column {file.names[bad.place]!r}: {bad.text!r} {bad.complaint}")
    rows = numbers(converted.table.num_rows)
    text = read_text(file, range(len(file.names))).rename_columns(file.names) if reasons else converted.table
    return _without_rejected(name, converted.table, text, rows, rejected, reasons)


def _typed_csv(file: CsvFile, given: dict[str, pa.DataType]) -> tuple[pa.Table, bool]:
    """The rows with the given types, others inferred; or all as text if some value cannot be converted."""
    numeric = [name for name, type_ in given.items() if _is_number(type_)]
    if not (numeric and has_leading_zero(file, numeric)):
        try:
            return read_csv(file, given), True
        except TableError:
            if len(given) == 1:
                raise
    return read_csv(file, {**dict.fromkeys(file.names, pa.string())}), False


def _is_number(type_: pa.DataType) -> bool:
    return bool(types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_))


def _read_json(name: str, data: bytes, known: pa.Schema | None) -> _Read:
    given = _given(known)
    if not data.strip():
        raise TableError(f"{name}: the file is empty")
    try:
        return _numbered(_typed_json(data, given) if given else read_json_lines(name, data))
    except (pa.ArrowException, UnicodeError, TableError):
        return _read_lines(name, data, given)


def _typed_json(data: bytes, given: dict[str, pa.DataType]) -> pa.Table:
    """The rows with the given types; an error if some value cannot be converted."""
    # Arrow would take a time without a zone as UTC, and vice versa; a cast from text does not.
    read_as = {name: pa.string() if types.is_timestamp(type_) else type_ for name, type_ in given.items()}
    schema = pa.schema([*read_as.items(), (OP_COLUMN, pa.string())])
    options = pa.json.ParseOptions(explicit_schema=schema, newlines_in_values=False)
    table = pa.json.read_json(io.BytesIO(data), parse_options=options)
    table.validate(full=True)
    for place, name in enumerate(table.column_names):
        if read_as.get(name) != given.get(name):
            table = table.set_column(place, name, table.column(place).cast(given[name]))
    if any(types.is_floating(column.type) and suspects(column, data) is not None for column in table.columns):
        raise pa.ArrowInvalid("a number may not be exact as a float")
    empty = {name for name in given if table.column(name).null_count == table.num_rows}
    if empty and table.num_rows:
        # A column that no line mentions is missing, not null.
        mentioned = {name for line in data.splitlines() if line.strip() for name in json.loads(line)}
        table = table.drop_columns(sorted(empty - mentioned))
    return table


def _read_lines(name: str, data: bytes, given: dict[str, pa.DataType]) -> _Read:
    """Line by line, if some line is not an object or has a value of another type."""
    objects: list[dict[str, Any]] = []
    rows: list[int] = []
    rejected: list[RejectedChange] = []
    for number, line in enumerate(data.decode("utf-8-sig", "replace").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            # Keep all digits until the value is converted to the type of its column.
            item = json.loads(line, parse_float=Decimal if given else None)
        except ValueError as error:
            rejected.append(RejectedChange(number, f"not JSON: {_first_line(error)}", line[:1000], name))
            continue
        if isinstance(item, dict):
            objects.append(item)
            rows.append(number)
        else:
            rejected.append(RejectedChange(number, "not a JSON object", line[:1000], name))
    numbers = np.array(rows, np.int64)
    if not given:
        return _first_objects(name, objects), numbers, rejected
    names = list(dict.fromkeys([OP_COLUMN, *(column for item in objects for column in item)]))
    columns = {}
    strange: dict[int, str] = {}
    for column in names:
        wanted = given.get(column, pa.string())
        values = [item.get(column) for item in objects]
        for place, value in enumerate(values):
            if not _is_convertible(value, wanted):
                shown = repr(value) if isinstance(value, str | bool) else _as_text(value)
                strange.setdefault(place, f"column {column!r}: cannot convert {shown} to {wanted}")
        columns[column] = pa.array([_as_text(value) for value in values], pa.string())
    return _convert_rows(name, pa.table(columns), numbers, rejected, given, strange)


def _first_objects(name: str, objects: list[dict[str, Any]]) -> pa.Table:
    """The good lines of a first file, read as if the bad ones were not there."""
    if not objects:
        return pa.table({OP_COLUMN: pa.array([], pa.string())})
    return read_json_lines(name, "".join(f"{json.dumps(item)}\n" for item in objects).encode())


def _is_convertible(value: Any, wanted: pa.DataType) -> bool:
    """Whether a JSON value may become a value of a type: text as text, a number as a number."""
    if value is None:
        return True
    if types.is_boolean(wanted) or isinstance(value, bool):
        return types.is_boolean(wanted) and isinstance(value, bool)
    if types.is_decimal(wanted):
        return isinstance(value, int | float | Decimal | str)
    if _is_number(wanted):
        return isinstance(value, int | float | Decimal)
    return isinstance(value, str)


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value) if isinstance(value, Decimal) else json.dumps(value, default=float)


def _convert_rows(
    name: str,
    table: pa.Table,
    rows: Int64Array,
    rejected: list[RejectedChange],
    given: dict[str, pa.DataType],
    strange: dict[int, str] | None = None,
) -> _Read:
    """Convert text to the types of the table, rejecting each row for which that fails, and the strange ones."""
    columns: dict[str, pa.ChunkedArray] = {}
    reasons = dict(strange or {})
    for column_name in table.column_names:
        column = table.column(column_name)
        wanted = given.get(column_name, pa.string())
        columns[column_name], bad = _convert(column, wanted)
        for place in bad:
            reasons.setdefault(place, f"column {column_name!r}: cannot convert {column[place].as_py()!r} to {wanted}")
    return _without_rejected(name, pa.table(columns), table, rows, rejected, reasons)


def _without_rejected(
    name: str,
    table: pa.Table,
    text: pa.Table,
    rows: Int64Array,
    rejected: list[RejectedChange],
    reasons: dict[int, str],
) -> _Read:
    """The rows for which there is no reason to reject them; the others are shown as they were written."""
    for place, reason in sorted(reasons.items()):
        content = json.dumps(text.slice(place, 1).to_pylist()[0], ensure_ascii=False)
        rejected.append(RejectedChange(int(rows[place]), reason, content, name))
    good = np.setdiff1d(np.arange(table.num_rows), np.array(list(reasons), np.int64))
    return table.take(pa.array(good)), rows[good], rejected


def _convert(column: pa.ChunkedArray, wanted: pa.DataType) -> tuple[pa.ChunkedArray, Sequence[int]]:
    """Text to a type, value by value, and the places where that fails; a number must not have leading zeros."""
    if types.is_string(wanted):
        return column, ()
    values: list[Any] = []
    bad = []
    for place, value in enumerate(column):
        text = value.as_py()
        try:
            values.append(None if text is None else _converted(text, value, wanted))
        except (pa.ArrowException, ValueError, KeyError):
            values.append(None)
            bad.append(place)
    return pa.chunked_array([pa.array(values, wanted)]), bad


def _converted(text: str, value: pa.Scalar, wanted: pa.DataType) -> Any:
    if types.is_boolean(wanted):
        return _BOOLEANS[text]
    digits = text.strip().lstrip("+-")
    if _is_number(wanted) and len(digits) > 1 and digits[0] == "0" and digits[1] in "0123456789xX":
        raise ValueError("a leading zero")
    if types.is_time(wanted):
        return datetime.time.fromisoformat(text.strip())
    converted = pa.scalar(text.strip(), value.type).cast(wanted).as_py()
    if types.is_floating(wanted) and loss(text, converted):
        raise ValueError("another number")
    return converted


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


_READERS: dict[str, Callable[[str, bytes, pa.Schema | None], _Read]] = {
    "parquet": _read_parquet,
    "csv": _read_csv,
    "json": _read_json,
}
