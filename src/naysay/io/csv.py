"""Comma-separated files to Arrow: every fault found has a line, and no value changes its meaning on the way.

Types are inferred over the whole file, a column at a time: integer, boolean, date, time, timestamp, float, else text.
A column stays text where any of its values has leading zeros (00123 is not 123), and becomes decimal where whole
numbers are too long for 64 bits, or for a float beside fractions; text again where all are whole and one is beyond 38
digits. A number that none of these can hold, such as 1e400, is refused. An empty cell is null, a quoted empty cell is
an empty text.
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
from naysay.io.numbers import LONG, is_long, loss, suspects

_DELIMITERS = ",;\t|"
_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_BOMS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_MOST_DIGITS = 38
LONGEST_DECIMAL = pa.decimal128(_MOST_DIGITS, 0)
_WHOLE = r"^[ \t]*-?[0-9]+[ \t]*$"
_PLAIN = r"^[ \t]*[+-]?(?P<whole>[0-9]*)[.]?(?P<fraction>[0-9]*)[ \t]*$"
_NUMBER = r"(?i)^[ \t]*[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(e[+-]?[0-9]+)?|inf|infinity|nan)[ \t]*$"
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
    if delimiter is None:
        headers = [_first_row(data, character) for character in _DELIMITERS]
        header = max(headers, key=lambda header: (header.n_fields, header.is_whole))
    elif len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise TableError(f"{delimiter!r} cannot divide the values of a CSV file; a delimiter is one ASCII character")
    else:
        header = _first_row(data, delimiter)
    if not header.is_whole:
        raise _fault(path, data, header.fault, "in the header ")
    try:
        text = data[header.start : header.end].decode("utf-8").strip("\r\n")
    except UnicodeDecodeError:
        raise _not_utf8(path, data) from None
    if not text.strip():
        raise TableError(f"{path}:{header.fault[2]}: the line of column names is blank; a CSV file begins with them")
    try:
        names = next(csv.reader(io.StringIO(text, newline=""), delimiter=header.delimiter))
    except csv.Error as error:
        raise TableError(f"{path}: the line of column names cannot be read: {error}") from None
    return CsvFile(path, tuple(names), header.delimiter, data, header.end)


@dataclass(frozen=True, slots=True)
class _Header:
    """The first row of a file if this is the delimiter; not whole if it cannot be."""

    delimiter: str
    fault: list[int]

    @property
    def is_whole(self) -> bool:
        from naysay.kernels.codes.csv import RAGGED

        return self.fault[0] == RAGGED

    @property
    def n_fields(self) -> int:
        return self.fault[3]

    @property
    def start(self) -> int:
        return self.fault[1]

    @property
    def end(self) -> int:
        return self.fault[4]


def _first_row(data: bytes, delimiter: str) -> _Header:
    from naysay.kernels.codes.csv import FIRST_ROW

    return _Header(delimiter, _scanned(data, 0, delimiter, FIRST_ROW)[2])


def read_csv(file: CsvFile, given: Mapping[str, pa.DataType] | None = None) -> pa.Table:
    """Read the rows; the types of the columns named in `given` are not inferred. TableError names line and value."""
    from naysay.kernels.codes.csv import LEADING_ZERO, LONG_INTEGER

    looks, n_rows = _scan(file)
    for name, look in zip(file.names, looks, strict=True):
        if given and name in given and look & LEADING_ZERO and _is_number(given[name]):
            raise TableError(f"{file.path}: a value in column {name!r} has leading zeros, and is no {given[name]}")
    if n_rows == 0:
        fields = [pa.field(name, (given or {}).get(name, pa.null())) for name in file.names]
        return pa.schema(fields).empty_table()
    wanted = {f"{i}": given[name] for i, name in enumerate(file.names) if given and name in given}
    table = _convert(file, wanted)
    for i, type_ in enumerate(table.schema.types):
        name, exact = f"{i}", None
        if name not in wanted and _is_number(type_) and looks[i] & LEADING_ZERO:
            exact = pa.string()
        elif name not in wanted and types.is_floating(type_) and looks[i] & LONG_INTEGER:
            exact = exact_type([file], i)
        if exact is not None:
            table = table.set_column(i, name, _convert(file, {name: exact}, only=name).column(0))
        elif types.is_floating(type_):
            _require_kept(file, i, table.column(i))
    return table.rename_columns(file.names)


def exact_type(files: Sequence[CsvFile], place: int) -> pa.DataType:
    """The type that keeps all digits of a column of numbers, in one file or over several: a decimal, or text for whole
    numbers beyond that. TableError if there is none, for the first number with too many digits for a float."""
    texts = [_text(file, place) for file in files]
    text = pa.chunked_array([chunk for column in texts for chunk in column.chunks], pa.string())
    parts = pc.extract_regex(text, _PLAIN)
    if parts.null_count == text.null_count:
        lengths = [pc.max(pc.utf8_length(pc.struct_field(parts, [part]))).as_py() for part in (0, 1)]
        if sum(lengths) <= _MOST_DIGITS:
            return pa.decimal128(_MOST_DIGITS, lengths[1])
    if pc.all(pc.match_substring_regex(text, _WHOLE)).as_py():
        return pa.string()
    for file, column in zip(files, texts, strict=True):
        for row, value in enumerate(column.to_pylist()):
            if value is not None and is_long(value):
                raise _value_error(file, place, row, value, LONG)
    raise AssertionError("called for a column without long numbers")


def holds_long_numbers(file: CsvFile, place: int) -> bool:
    """Whether a column has numbers with more digits before the point than a float keeps, and nothing but numbers."""
    from naysay.kernels.codes.csv import LONG_INTEGER

    looks = _scan(file)[0][place]
    # Only whole numbers beyond decimals are text and numbers still.
    return looks == LONG_INTEGER and bool(pc.all(pc.match_substring_regex(_text(file, place), _NUMBER)).as_py())


def _require_kept(file: CsvFile, place: int, column: pa.ChunkedArray) -> None:
    """Refuse a column of floats in which a number of the text became another."""
    suspect = suspects(column, file.data)
    if suspect is None:
        return
    text = _text(file, place)
    lost = {value: loss(value, float(value)) for value in pc.unique(text.filter(suspect)).to_pylist()}
    if not any(lost.values()):
        return
    row, value = next((row, value) for row, value in enumerate(text.to_pylist()) if lost.get(value))
    raise _value_error(file, place, row, value, lost[value])


def _text(file: CsvFile, place: int) -> pa.ChunkedArray:
    return _convert(file, {f"{place}": pa.string()}, only=f"{place}").column(0)


def _value_error(file: CsvFile, place: int, row: int, value: str, what: str) -> TableError:
    shown = value if len(value) <= 60 else value[:60] + "…"
    return TableError(f"{file.path}:{_line_of_row(file, row)}: {shown} in column {file.names[place]!r} {what}")


def _line_of_row(file: CsvFile, row: int) -> int:
    """The line in which a row begins; rows are numbered from 0."""
    from naysay.kernels.codes.csv import FIRST_ROW

    position = file.start
    for _ in range(row):
        position += _scanned(file.data, position, file.delimiter, FIRST_ROW)[2][4]
    return _n_lines(file.data[:position]) + _scanned(file.data, position, file.delimiter, FIRST_ROW)[2][2]


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
    from naysay.kernels.codes.csv import RAGGED

    ragged: list[RaggedRow] = []
    kept = [file.data[: file.start]]
    start, n_before = file.start, 0
    while True:
        _, n_rows, (what, position, _, n_fields, end) = _scanned(file.data, start, file.delimiter, len(file.names))
        if what != RAGGED:
            break
        n_before += n_rows + 1
        text = file.data[start + position : start + end].decode("utf-8", "replace").rstrip("\r\n")
        ragged.append(RaggedRow(n_before, n_fields, text))
        kept.append(file.data[start : start + position])
        start += end
    if not ragged:
        return file, []
    return CsvFile(file.path, file.names, file.delimiter, b"".join([*kept, file.data[start:]]), file.start), ragged


def has_leading_zero(file: CsvFile, names: Sequence[str]) -> bool:
    """Whether a value in one of these columns has zeros before its digits."""
    from naysay.kernels.codes.csv import LEADING_ZERO

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
    from naysay.kernels.codes.csv import FINE, RAGGED

    looks, n_rows, fault = _scanned(file.data, file.start, file.delimiter, len(file.names))
    if fault[0] == FINE:
        return looks, n_rows
    if fault[0] != RAGGED:
        raise _fault(file.path, file.data, fault, start=file.start)
    divided = "" if file.delimiter == "," else f", divided by {_NAMES.get(file.delimiter, repr(file.delimiter))}"
    raise TableError(
        f"{file.path}:{_n_lines(file.data[: file.start]) + fault[2]}: {fault[3]} fields where the header has "
        f"{len(file.names)}{divided}: {_line_at(file.data, file.start + fault[1])}; "
        "complete the row, or quote a value that holds the delimiter"
    )


def _scanned(data: bytes, start: int, delimiter: str, n_columns: int) -> tuple[list[int], int, list[int]]:
    """What the kernel says of the rows from a byte on: looks of the columns, number of rows, fault (from that byte)."""
    from naysay.kernels.codes import csv as kernel

    looks = np.zeros(max(n_columns, 0), dtype=np.int64)
    fault = np.zeros(kernel.FAULT_SIZE, dtype=np.int64)
    n_rows = int(kernel.scan_csv(_as_array(data, start), ord(delimiter), n_columns, looks, fault))
    return looks.tolist(), n_rows, fault.tolist()


def _fault(path: str, data: bytes, fault: list[int], where: str = "", start: int = 0) -> TableError:
    """The error for a quote or a byte that cannot be; `where` says more about the place than its line."""
    from naysay.kernels.codes import csv as kernel

    what, position, line = fault[0], start + fault[1], _n_lines(data[:start]) + fault[2]
    place, text = f"{path}:{line}", _line_at(data, position)
    if what == kernel.UNCLOSED:
        return TableError(
            f"{place}: a quote {where}is opened and never closed: {text}; close it, or double it inside a value"
        )
    if what == kernel.AFTER_QUOTE:
        return TableError(
            f"{place}: text follows the closing quote of a value{where and ' '}{where.strip()}: {text}; double the "
            "quotes inside a value"
        )
    return TableError(
        f"{place}: byte {position + 1:,} is NUL; the file is damaged, or no text, or in another encoding such as "
        "UTF-16: then give --encoding utf-16"
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


def _n_lines(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


def _line_at(data: bytes, position: int, length: int = 60) -> str:
    """The line around a place, shortened, as a person may be shown it."""
    start = 1 + max(data.rfind(b"\n", 0, position), data.rfind(b"\r", 0, position))
    start = max(start, position - length)
    line = data[start : position + length].splitlines() or [b""]
    text = line[0].decode("utf-8", "replace")
    return repr(text if len(text) <= length else text[:length] + "…")
