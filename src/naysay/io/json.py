"""Read JSON lines into Arrow: one object per line, with the types that JSON has."""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from pyarrow import types

from naysay.arrays import FLOAT_EXACT
from naysay.errors import TableError
from naysay.io.csv import LONG, LONG_IN_JSON, LONGEST_DECIMAL, TOO_LARGE, TOO_SMALL, as_utf8, loss, suspects

_PIECE = 1 << 20
_SHAPE = "one object per line"
# JSON has no infinity.
_IN_JSON = {LONG: LONG_IN_JSON, TOO_SMALL: TOO_SMALL, TOO_LARGE: "is too large for a 64-bit float"}
_TYPE_NAMES = {bool: "boolean", int: "number", float: "number", str: "text", dict: "object", list: "list"}


def read_json_lines(path: str, data: bytes, encoding: str | None = None) -> pa.Table:
    """Read objects, one per line. Text stays text, even dates; whole numbers beyond 64 bits become decimals.

    A number that would change, such as 2^53 + 1 in a column with fractions, raises TableError.
    """
    data = as_utf8(path, data, encoding)
    if not data.strip():
        raise TableError(f"{path}: the file is empty; JSON lines have {_SHAPE}")
    if not _is_utf8(data):
        # Arrow would take the bytes for text unchecked.
        raise _located(path, data) or TableError(f"{path}: the file is not UTF-8; JSON is UTF-8")
    table = _parse(path, data, {})
    exact: dict[str, pa.DataType] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if types.is_timestamp(column.type):
            exact[name] = pa.string()
        elif types.is_floating(column.type):
            if not _only_whole(column):
                _require_kept(path, data, name, column)
            elif _within_decimals(column):
                exact[name] = LONGEST_DECIMAL
            else:
                _refuse_long_integers(path, data, name)
    return _parse(path, data, exact) if exact else table


def _is_utf8(data: bytes) -> bool:
    """Decode piece by piece: text takes up to four times the memory of its bytes."""
    if data.isascii():
        return True
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), _PIECE):
            decoder.decode(data[start : start + _PIECE], final=start + _PIECE >= len(data))
    except UnicodeDecodeError:
        return False
    return True


def _only_whole(column: pa.ChunkedArray) -> bool:
    """All numbers are whole, and some are beyond what a float holds exactly."""
    beyond = pc.any(pc.greater_equal(pc.abs(column), float(FLOAT_EXACT))).as_py()
    return bool(beyond) and bool(pc.all(pc.equal(pc.floor(column), column)).as_py())


def _within_decimals(column: pa.ChunkedArray) -> bool:
    return bool(pc.all(pc.less(pc.abs(column), 1e38)).as_py())


def _refuse_long_integers(path: str, data: bytes, name: str) -> None:
    """Numbers too long for decimals are floats if written with an exponent; others would lose digits."""
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            value = json.loads(line).get(name) if line.strip() else None
        except ValueError as error:
            raise TableError(f"{path}:{number}: {error}; JSON lines have {_SHAPE}") from error
        if isinstance(value, int) and abs(value) > FLOAT_EXACT:
            raise TableError(
                f"{path}:{number}: {name!r} is a whole number of {len(str(abs(value)))} digits in a column with "
                "numbers of more than 38 digits, which cannot be read exactly; write them as text"
            )


class _Number(str):
    """A number as it is written."""


def _require_kept(path: str, data: bytes, name: str, column: pa.ChunkedArray) -> None:
    """Refuse a column of floats in which a number changed."""
    if suspects(column, data) is None:
        return
    for number, line in enumerate(data.split(b"\n"), 1):
        lost = lost_number(line, [name]) if line.strip() else ""
        if lost:
            raise TableError(f"{path}:{number}: {lost}")


def lost_number(line: bytes | str, names: Sequence[str]) -> str:
    """The first of these fields of an object that changes as a float, and why; empty if none does."""
    record = json.loads(line, parse_int=_Number, parse_float=_Number)
    for name in names if isinstance(record, dict) else ():
        value = record.get(name)
        what = loss(value, float(value)) if isinstance(value, _Number) else ""
        if what:
            return f"{value[:60]} in {name!r} {_IN_JSON[what]}"
    return ""


def _parse(path: str, data: bytes, exact: dict[str, pa.DataType]) -> pa.Table:
    schema = pa.schema(list(exact.items())) if exact else None
    try:
        return pyarrow.json.read_json(
            pa.BufferReader(data),
            read_options=pyarrow.json.ReadOptions(block_size=min(max(1 << 22, len(data) // 16), (1 << 31) - 1)),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=schema),
        )
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise _located(path, data) or TableError(f"{path}: {error}") from error


def _located(path: str, data: bytes) -> TableError | None:
    """The error for the first line that is not an object, or that has a value of another type than before."""
    kinds: dict[str, str] = {}
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            return TableError(f"{path}:{number}: byte {error.start + 1} of the line is not UTF-8; JSON is UTF-8")
        except json.JSONDecodeError as error:
            return TableError(f"{path}:{number}: column {error.colno}: {error.msg}; JSON lines have {_SHAPE}")
        if not isinstance(record, dict):
            return TableError(
                f"{path}:{number}: expected an object, found a {_TYPE_NAMES.get(type(record), 'null')}; "
                f"JSON lines have {_SHAPE}, without brackets around them"
            )
        for name, value in record.items():
            if isinstance(value, float) and math.isinf(value):
                return TableError(f"{path}:{number}: {lost_number(line, [name])}")
            kind = _TYPE_NAMES.get(type(value), "")
            if kind and kinds.setdefault(name, kind) != kind:
                return TableError(
                    f"{path}:{number}: {name!r} is a {kind} ({json.dumps(value)[:40]}) but a {kinds[name]} in "
                    "earlier lines; use one type"
                )
    return None
