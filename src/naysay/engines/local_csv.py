"""Comma-separated files to Arrow: every fault found has a line, and no value changes its meaning on the way.

Types are inferred over the whole file, a column at a time: integer, boolean, date, time, timestamp, float, else text.
A column stays text where any of its values has leading zeros (00123 is not 123), and becomes decimal where whole
numbers are too long for 64 bits, text again beyond 38 digits. An empty cell is null, a quoted empty cell is an empty
text.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray
from pyarrow import types

from naysay.errors import TableError

_DELIMITERS = ",;\t|"
_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_BOMS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
LONGEST_DECIMAL = pa.decimal128(38, 0)
_WHOLE = r"^[ \t]*-?[0-9]+[ \t]*$"
_NO_BYTES = np.frombuffer(b"", dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A file as UTF-8, the names of its columns, and the byte where its rows begin."""

    path: str
    names: tuple[str, ...]
    delimiter: str
    data: bytes
    start: int


def open_csv(path: str, data: bytes, *, encoding: str | None = None, delimiter: str | None = None) -> CsvFile:
    """Find the header. The delimiter is the most frequent of comma, semicolon, tab and bar in it, unless given."""
    data = as_utf8(path, data, encoding)
    if not data.strip():
        raise TableError(f"{path}: the file is empty; a CSV file begins with a line of column names")
    header_end = _record_end(path, data)
    try:
        header = data[:header_end].decode("utf-8").strip("\r\n")
    except UnicodeDecodeError:
        raise _not_utf8(path, data) from None
    if delimiter is None:
        delimiter = max(_DELIMITERS, key=lambda character: _unquoted(header).count(character))
    elif len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise TableError(f"{delimiter!r} cannot divide the values of a CSV file; a delimiter is one ASCII character")
    names = next(csv.reader(io.StringIO(header, newline=""), delimiter=delimiter))
    return CsvFile(path, tuple(names), delimiter, data, header_end)


def read_csv(file: CsvFile, given: Mapping[str, pa.DataType] | None = None) -> pa.Table:
    """Read the rows; the types of the columns named in `given` are not inferred. TableError names line and value."""
    from naysay.kernels.csv import LEADING_ZERO, LONG_INTEGER

    looks, n_rows = _scan(file)
    for name, look in zip(file.names, looks, strict=True):
        if given and name in given and look & LEADING_ZERO and _is_number(given[name]):
            raise TableError(f"{file.path}: a value in column {name!r} has leading zeros, and is no {given[name]}")
    if n_rows == 0:
        fields = [pa.field(name, (given or {}).get(name, pa.null())) for name in file.names]
        return pa.schema(fields).empty_table()
    wanted = {f"{i}": given[name] for i, name in enumerate(file.names) if given and name in given}
    table = _convert(file, wanted)
    again: dict[str, pa.DataType] = {}
    for i, type_ in enumerate(table.schema.types):
        if f"{i}" in wanted or not (types.is_integer(type_) or types.is_floating(type_)):
            continue
        if looks[i] & LEADING_ZERO:
            again[f"{i}"] = pa.string()
        elif looks[i] & LONG_INTEGER and types.is_floating(type_):
            again[f"{i}"] = LONGEST_DECIMAL
    for name, type_ in again.items():
        table = table.set_column(int(name), name, _convert_one(file, name, type_, table.column(name)))
    return table.rename_columns(file.names)


def _is_number(type_: pa.DataType) -> bool:
    return bool(types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_))


@dataclass(frozen=True, slots=True)
class RaggedRow:
    """A row with more or fewer fields than the header: its number among all rows, from 1, its fields and its text."""

    row: int
    n_fields: int
    text: str


def without_ragged(file: CsvFile) -> tuple[CsvFile, list[RaggedRow]]:
    """The file without its ragged rows, and these. TableError where its structure is wrong in another way."""
    from naysay.kernels import csv as kernel

    ragged: list[RaggedRow] = []
    kept = [file.data[: file.start]]
    looks = np.zeros(len(file.names), dtype=np.int64)
    rest, n_before = file.data[file.start :], 0
    while rest:
        fault = np.zeros(4, dtype=np.int64)
        n_rows = int(kernel.scan_csv(_as_array(rest), ord(file.delimiter), len(file.names), looks, fault))
        what, position, _, n_fields = fault.tolist()
        if what != kernel.RAGGED:
            break
        end = position + _record_end(file.path, rest[position:])
        n_before += n_rows + 1
        ragged.append(RaggedRow(n_before, n_fields, rest[position:end].decode("utf-8", "replace").rstrip("\r\n")))
        kept.append(rest[:position])
        rest = rest[end:]
    if not ragged:
        return file, []
    return CsvFile(file.path, file.names, file.delimiter, b"".join([*kept, rest]), file.start), ragged


def has_leading_zero(file: CsvFile, names: Sequence[str]) -> bool:
    """Whether a value in one of these columns has zeros before its digits."""
    from naysay.kernels.csv import LEADING_ZERO

    looks, _ = _scan(file)
    return any(look & LEADING_ZERO for name, look in zip(file.names, looks, strict=True) if name in names)


def as_utf8(path: str, data: bytes, encoding: str | None) -> bytes:
    """The same text in UTF-8, without a byte order mark."""
    if encoding is not None and codecs_name(encoding) not in ("utf-8", "utf-8-sig"):
        try:
            return data.decode(encoding).removeprefix("\ufeff").encode("utf-8")
        except UnicodeDecodeError as error:
            place = f"byte {error.start + 1:,} (line {1 + _n_lines(data[: error.start]):,})"
            raise TableError(f"{path}: {place} is not {encoding}: {error.reason}; give another --encoding") from None
    for mark, name in _BOMS:
        if data.startswith(mark):
            raise TableError(f"{path}: the file is {name.upper()}, as its first bytes say; give --encoding {name}")
    return data.removeprefix(codecs.BOM_UTF8)


def codecs_name(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        raise TableError(f"there is no encoding {encoding!r}; usual ones are utf-8, utf-16, latin-1, cp1252") from None


def _scan(file: CsvFile) -> tuple[list[int], int]:
    """Check the structure of the rows; what the fields of each column look like, and how many rows there are."""
    from naysay.kernels import csv as kernel

    looks = np.zeros(len(file.names), dtype=np.int64)
    fault = np.zeros(4, dtype=np.int64)
    data = _as_array(file.data, file.start)
    n_rows = int(kernel.scan_csv(data, ord(file.delimiter), len(file.names), looks, fault))
    what, position, line, n_fields = fault.tolist()
    if what == kernel.FINE:
        return looks.tolist(), n_rows
    place = f"{file.path}:{_n_lines(file.data[: file.start]) + line}"
    text = _line_at(file.data, file.start + position)
    if what == kernel.RAGGED:
        divided = "" if file.delimiter == "," else f", divided by {_NAMES.get(file.delimiter, repr(file.delimiter))}"
        raise TableError(
            f"{place}: {n_fields} fields where the header has {len(file.names)}{divided}: {text}; "
            "complete the row, or quote a value that holds the delimiter"
        )
    if what == kernel.UNCLOSED:
        raise TableError(f"{place}: a quote is opened and never closed: {text}; close it, or double it inside a value")
    if what == kernel.AFTER_QUOTE:
        raise TableError(
            f"{place}: text follows the closing quote of a value: {text}; double the quotes inside a value"
        )
    raise TableError(
        f"{place}: byte {file.start + position + 1:,} of the file is NUL; the file is damaged, or no text, or in "
        "another encoding such as UTF-16: then give --encoding utf-16"
    )


def _as_array(data: bytes, start: int = 0) -> NDArray[np.uint8]:
    return np.frombuffer(data, dtype=np.uint8, offset=start) if start < len(data) else _NO_BYTES


def _convert(file: CsvFile, wanted: Mapping[str, pa.DataType], only: str | None = None) -> pa.Table:
    """Let Arrow parse and convert rows whose structure is known to be right. Columns are named by position."""
    n_bytes = len(file.data) - file.start
    block = max(1 << 22, n_bytes // 64)
    while True:
        try:
            table = pyarrow.csv.read_csv(
                pa.BufferReader(pa.py_buffer(file.data).slice(file.start)),
                read_options=pyarrow.csv.ReadOptions(
                    column_names=[f"{i}" for i in range(len(file.names))], block_size=min(block, (1 << 31) - 1)
                ),
                parse_options=pyarrow.csv.ParseOptions(delimiter=file.delimiter, newlines_in_values=b'"' in file.data),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=dict(wanted),
                    include_columns=[only] if only is not None else None,
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    true_values=["true", "True", "TRUE"],
                    false_values=["false", "False", "FALSE"],
                ),
            )
            break
        except pa.ArrowInvalid as error:
            if "straddling" in str(error) and block <= n_bytes:
                block *= 4
            elif "UTF8" in str(error):
                raise _not_utf8(file.path, file.data) from None
            else:
                raise TableError(f"{file.path}: {error}") from error
    if any(types.is_binary(type_) for type_ in table.schema.types):
        raise _not_utf8(file.path, file.data)
    return table


def _convert_one(file: CsvFile, name: str, type_: pa.DataType, inferred: pa.ChunkedArray) -> pa.ChunkedArray:
    """One column again, as another type; as inferred where the text does not allow it, as numbers with exponents.

    Whole numbers too long for a decimal stay text: as floats, different ones would be equal.
    """
    try:
        return _convert(file, {name: type_}, only=name).column(0)
    except TableError:
        text = _convert(file, {name: pa.string()}, only=name).column(0)
        return text if pc.all(pc.match_substring_regex(text, _WHOLE)).as_py() else inferred


def _not_utf8(path: str, data: bytes) -> TableError:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = 1 + _n_lines(data[: error.start])
        column = error.start - max(data.rfind(b"\n", 0, error.start), data.rfind(b"\r", 0, error.start))
        return TableError(
            f"{path}:{line}: byte {column} of the line is 0x{data[error.start]:02x}, which is not UTF-8: "
            f"{_line_at(data, error.start)}; give the file's --encoding, such as latin-1 or cp1252"
        )
    return TableError(f"{path}: a column holds bytes that are no text")


def _record_end(path: str, data: bytes) -> int:
    """Where the first record ends, its line end included; blank lines before it belong to it."""
    position = len(data) - len(data.lstrip(b"\r\n"))
    inside = False
    while position < len(data):
        byte = data[position]
        if byte == 0:
            raise TableError(
                f"{path}: byte {position + 1} is NUL: the file is no text, or in another encoding; "
                "for UTF-16 give --encoding utf-16"
            )
        if byte == 34:
            inside = not inside
        elif not inside and byte in b"\r\n":
            return position + (2 if data[position : position + 2] == b"\r\n" else 1)
        position += 1
    if inside:
        raise TableError(f"{path}:1: a quote in the header is opened and never closed")
    return len(data)


def _unquoted(text: str) -> str:
    return "".join(text.split('"')[::2])


def _n_lines(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


def _line_at(data: bytes, position: int, length: int = 60) -> str:
    """The line around a place, shortened, as a person may be shown it."""
    start = 1 + max(data.rfind(b"\n", 0, position), data.rfind(b"\r", 0, position))
    start = max(start, position - length)
    line = data[start : position + length].splitlines() or [b""]
    text = line[0].decode("utf-8", "replace")
    return repr(text if len(text) <= length else text[:length] + "…")
