"""Read comma-separated files into Arrow: every error names a line, and no value changes its meaning.

Types are inferred over the whole file, column by column: integer, boolean, date, time, timestamp, float, else text.
A column stays text if any value has leading zeros (00123 is not 123). It becomes decimal if whole numbers are too long
for 64 bits, or too long for a float next to fractions; text again if all are whole and one is beyond 38 digits. A
number that none of these can hold, such as 1e400, is refused. An empty cell is null; a quoted one is empty text.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from pyarrow import types

from naysay.arrays import FLOAT_EXACT
from naysay.errors import TableError

TOO_LARGE = "is too large for a 64-bit float; write inf if you mean infinity"
TOO_SMALL = "is too small for a 64-bit float and would become 0; write 0 if you mean that"
LONG = (
    "is beyond 2^53, where 64-bit floats cannot tell whole numbers apart, and the column is not all plain numbers of "
    "up to 38 digits; write all of them that way, without exponents, or write this one with an exponent"
)
LONG_IN_JSON = (
    "is beyond 2^53, where 64-bit floats cannot tell whole numbers apart, and the column has fractions; write it with "
    "an exponent if it need not be exact, or save the table as CSV or Parquet, which have decimals"
)
_PLAIN_NUMBER = re.compile(r"[+-]?([0-9]*)[.]?[0-9]*")
_NOT_ZERO = re.compile(r"[^eE]*[1-9]")
# A number below the least float has a negative exponent, or this many zeros.
_TINY = (b"e-", b"E-", b"0" * 300)


def suspects(column: pa.ChunkedArray, data: bytes) -> pa.ChunkedArray | None:
    """Which floats may differ from the number written in the text `data`; None if none do."""
    size = pc.abs(column)
    suspect = pc.greater_equal(size, float(FLOAT_EXACT))
    if pc.any(pc.equal(size, 0.0)).as_py() and any(part in data for part in _TINY):
        suspect = pc.or_(suspect, pc.equal(size, 0.0))
    return suspect if pc.any(suspect).as_py() else None


def loss(text: str, value: float) -> str:
    """What is lost when this text becomes this float, in words; empty if only its fraction is rounded."""
    text = text.strip(" \t")
    if math.isinf(value) and "inf" not in text.lower():
        return TOO_LARGE
    if value == 0 and _NOT_ZERO.match(text):
        return TOO_SMALL
    return LONG if is_long(text) and Decimal(value) != Decimal(text) else ""


def is_long(text: str) -> bool:
    """Whether there are more digits before the point than a float keeps; numbers with exponents are floats anyway."""
    found = _PLAIN_NUMBER.fullmatch(text.strip(" \t"))
    return found is not None and int(found[1] or "0") > FLOAT_EXACT


_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_BOMS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_MOST_DIGITS = 38
LONGEST_DECIMAL = pa.decimal128(_MOST_DIGITS, 0)
_WHOLE = r"^[ \t]*-?[0-9]+[ \t]*$"
_PLAIN = r"^[ \t]*[+-]?(?P<whole>[0-9]*)[.]?(?P<fraction>[0-9]*)[ \t]*$"
_NUMBER = r"(?i)^[ \t]*[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(e[+-]?[0-9]+)?|inf|infinity|nan)[ \t]*$"
_BLOCK_BYTES = 1 << 16
_NO_BYTES = np.frombuffer(b"", dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A file as UTF-8, the names of its columns, and the byte at which its rows begin.

    `original` is the file whose rows were rewritten here; errors name its lines.
    """

    path: str
    names: tuple[str, ...]
    delimiter: str
    data: bytes
    start: int
    original: CsvFile | None = None


def open_csv(path: str, data: bytes, *, encoding: str | None = None, delimiter: str | None = None) -> CsvFile:
    """Read the header. The default delimiter is the most frequent of comma, semicolon, tab and bar in it."""
    data = as_utf8(path, data, encoding)
    if not data.strip():
        raise TableError(f"{path}: the file is empty; a CSV file begins with a line of column names")
    if delimiter is None:
        headers = [(_scan_rows(data, 0, character), character) for character in _NAMES]
        header, delimiter = max(headers, key=lambda found: (found[0].n_fields, found[0].is_ragged))
    elif len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise TableError(f"{delimiter!r} cannot be a delimiter; it must be one ASCII character other than a quote")
    else:
        header = _scan_rows(data, 0, delimiter)
    # Asked for its first row, the kernel calls a good one ragged.
    if not header.is_ragged:
        raise header.error(path, data, "in the header ")
    try:
        text = data[header.position : header.end].decode("utf-8").strip("\r\n")
    except UnicodeDecodeError:
        raise _not_utf8(path, data) from None
    if not text.strip():
        raise TableError(f"{path}:{header.line}: the line of column names is blank; a CSV file begins with them")
    try:
        names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise TableError(f"{path}: cannot read the line of column names: {error}") from None
    return CsvFile(path, tuple(names), delimiter, data, header.end)


@dataclass(frozen=True, slots=True)
class _Scan:
    """What the kernel found in rows of text: what each column looks like, the whole rows, and the first fault.

    `line` counts from the `start` of the scan; the `position` of the fault and the `end` of a ragged row do not.
    """

    start: int
    has_leading_zero: list[bool]
    has_long_integer: list[bool]
    n_rows: int
    fault: int
    position: int
    line: int
    n_fields: int
    end: int

    @property
    def is_ragged(self) -> bool:
        from naysay.kernels.codes.csv import RAGGED

        return self.fault == RAGGED

    def line_in(self, data: bytes) -> int:
        return _n_lines(data[: self.start]) + self.line

    def error(self, path: str, data: bytes, where: str = "") -> TableError:
        """The error for a misplaced quote or a NUL byte; `where` describes the place."""
        from naysay.kernels.codes import csv as kernel

        place, text = f"{path}:{self.line_in(data)}", _line_at(data, self.position)
        if self.fault == kernel.UNCLOSED:
            return TableError(f"{place}: a quote {where}is never closed: {text}; close it, or double it inside a value")
        if self.fault == kernel.AFTER_QUOTE:
            return TableError(
                f"{place}: text follows the closing quote of a value{where and ' '}{where.strip()}: {text}; double the "
                "quotes inside a value"
            )
        return TableError(
            f"{place}: byte {self.position + 1:,} is NUL; the file is damaged, or not text, or in another encoding: "
            "for UTF-16 give --encoding utf-16"
        )


def _scan_rows(data: bytes, start: int, delimiter: str, n_columns: int | None = None) -> _Scan:
    """Scan the rows from a byte on; only the first row if the number of columns is not known."""
    from naysay.kernels.codes import csv as kernel

    looks = np.zeros(n_columns or 0, dtype=np.int64)
    fault = np.zeros(kernel.FAULT_SIZE, dtype=np.int64)
    rows = np.frombuffer(data, dtype=np.uint8, offset=start) if start < len(data) else _NO_BYTES
    wanted = kernel.FIRST_ROW if n_columns is None else n_columns
    n_rows = int(kernel.scan_csv(rows, ord(delimiter), wanted, looks, fault))
    what, position, line, n_fields, end = fault.tolist()
    return _Scan(
        start=start,
        has_leading_zero=[bool(look & kernel.LEADING_ZERO) for look in looks.tolist()],
        has_long_integer=[bool(look & kernel.LONG_INTEGER) for look in looks.tolist()],
        n_rows=n_rows,
        fault=what,
        position=start + position,
        line=line,
        n_fields=n_fields,
        end=start + end,
    )


def require_structure(file: CsvFile) -> int:
    """Refuse a file with a row whose structure is wrong; returns the number of rows."""
    return _scan_file(file).n_rows


def _scan_file(file: CsvFile) -> _Scan:
    """Scan all rows, and refuse the first whose structure is wrong."""
    scan = _scan_rows(file.data, file.start, file.delimiter, len(file.names))
    if scan.is_ragged:
        fields = "1 field" if scan.n_fields == 1 else f"{scan.n_fields} fields"
        by = "" if file.delimiter == "," else f", separated by {_NAMES.get(file.delimiter, repr(file.delimiter))}"
        raise TableError(
            f"{file.path}:{scan.line_in(file.data)}: the row has {fields}, but the header has {len(file.names)}{by}: "
            f"{_line_at(file.data, scan.position)}; complete the row, or quote a value that contains the delimiter"
        )
    if scan.fault:
        raise scan.error(file.path, file.data)
    return scan


def read_csv(
    file: CsvFile, given: Mapping[str, pa.DataType] | None = None, places: Sequence[int] | None = None
) -> pa.Table:
    """Read the rows. The types of columns in `given` are not inferred. TableError names the line and the value.

    With `places`, only the columns at these positions are converted; the structure of all rows is checked.
    """
    given = given or {}
    scan = _scan_file(file)
    places = range(len(file.names)) if places is None else places
    for name, has_leading_zero in zip(file.names, scan.has_leading_zero, strict=True):
        if name in given and has_leading_zero and _is_number(given[name]):
            raise TableError(
                f"{file.path}: column {name!r}: cannot convert a value with leading zeros to {given[name]}"
            )
    names = [file.names[place] for place in places]
    if scan.n_rows == 0:
        return pa.schema([pa.field(name, given.get(name, pa.null())) for name in names]).empty_table()
    if not names:
        return read_csv(file, given, [0]).select([])
    wanted = {f"{place}": given[name] for place, name in zip(places, names, strict=True) if name in given}
    table = _convert(file, wanted, [f"{place}" for place in places])
    for i, place in enumerate(places):
        name, type_, exact = f"{place}", table.schema.types[i], None
        if name not in wanted and _is_number(type_) and scan.has_leading_zero[place]:
            exact = pa.string()
        elif name not in wanted and types.is_floating(type_) and scan.has_long_integer[place]:
            exact = exact_type([file], place)
        if exact is not None:
            table = table.set_column(i, name, _convert(file, {name: exact}, [name]).column(0))
        elif types.is_floating(type_):
            _require_kept(file, place, table.column(i))
    return table.rename_columns(names)


def exact_type(files: Sequence[CsvFile], place: int) -> pa.DataType:
    """The type that keeps all digits of a column of numbers in all files: a decimal, or text for longer whole ones.

    If no type does: a TableError for the first number with too many digits for a float.
    """
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
                raise value_error(file, place, row, value, LONG)
    raise AssertionError("the column has no long numbers")


def holds_long_numbers(file: CsvFile, place: int) -> bool:
    """Whether a column has only numbers, some with more digits before the point than a float keeps."""
    scan = _scan_file(file)
    # Such a column may still be text: whole numbers too long for decimals.
    if scan.has_leading_zero[place] or not scan.has_long_integer[place]:
        return False
    return bool(pc.all(pc.match_substring_regex(_text(file, place), _NUMBER)).as_py())


def _require_kept(file: CsvFile, place: int, column: pa.ChunkedArray) -> None:
    """Refuse a column of floats in which a number changed."""
    suspect = suspects(column, file.data)
    if suspect is None:
        return
    text = _text(file, place)
    lost = {value: loss(value, float(value)) for value in pc.unique(text.filter(suspect)).to_pylist()}
    if not any(lost.values()):
        return
    row, value = next((row, value) for row, value in enumerate(text.to_pylist()) if lost.get(value))
    raise value_error(file, place, row, value, lost[value])


def _text(file: CsvFile, place: int) -> pa.ChunkedArray:
    return read_text(file, [place]).column(0)


def read_text(file: CsvFile, places: Sequence[int]) -> pa.Table:
    """The columns at these positions as text, named by position. The structure of the rows is not checked."""
    names = [f"{place}" for place in places]
    if not names or not file.data[file.start :].strip(b"\r\n"):
        return pa.schema([(name, pa.string()) for name in names]).empty_table()
    return _convert(file, dict.fromkeys(names, pa.string()), names)


def value_error(file: CsvFile, place: int, row: int, value: str, what: str) -> TableError:
    shown = value if len(value) <= 60 else value[:60] + "…"
    return TableError(f"{file.path}:{_line_of_row(file, row)}: {shown} in column {file.names[place]!r} {what}")


def _line_of_row(file: CsvFile, row: int) -> int:
    """The line on which a row begins; rows count from 0."""
    file = file.original or file
    start = file.start
    # Skip whole blocks of rows first: row by row, a late row would take seconds.
    while (end := 1 + file.data.rfind(b"\n", start, start + _BLOCK_BYTES)) > start:
        block = _scan_rows(file.data[start:end], 0, file.delimiter, len(file.names))
        if block.fault or block.n_rows > row:
            break
        start, row = end, row - block.n_rows
    scan = _scan_rows(file.data, start, file.delimiter)
    for _ in range(row):
        scan = _scan_rows(file.data, scan.end, file.delimiter)
    return scan.line_in(file.data)


def _is_number(type_: pa.DataType) -> bool:
    return bool(types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_))


@dataclass(frozen=True, slots=True)
class RaggedRow:
    """A row with more or fewer fields than the header: its number from 1, how many fields it has, and its text."""

    row: int
    n_fields: int
    text: str


def without_ragged(file: CsvFile) -> tuple[CsvFile, list[RaggedRow]]:
    """The file without its ragged rows, and those rows. Other faults of its structure are left to `read_csv`."""
    ragged: list[RaggedRow] = []
    kept = [file.data[: file.start]]
    n_before = 0
    scan = _scan_rows(file.data, file.start, file.delimiter, len(file.names))
    while scan.is_ragged:
        n_before += scan.n_rows + 1
        text = file.data[scan.position : scan.end].decode("utf-8", "replace").rstrip("\r\n")
        ragged.append(RaggedRow(n_before, scan.n_fields, text))
        kept.append(file.data[scan.start : scan.position])
        scan = _scan_rows(file.data, scan.end, file.delimiter, len(file.names))
    if not ragged:
        return file, []
    return replace(file, data=b"".join([*kept, file.data[scan.start :]])), ragged


def has_leading_zero(file: CsvFile, names: Sequence[str]) -> bool:
    """Whether a value in one of these columns has leading zeros."""
    found = zip(file.names, _scan_file(file).has_leading_zero, strict=True)
    return any(has_zero for name, has_zero in found if name in names)


def as_utf8(path: str, data: bytes, encoding: str | None) -> bytes:
    """Convert text to UTF-8 without a byte order mark."""
    if encoding is not None and codecs_name(encoding) not in ("utf-8", "utf-8-sig"):
        try:
            return data.decode(encoding).removeprefix("\ufeff").encode("utf-8")
        except UnicodeDecodeError as error:
            place = f"byte {error.start + 1:,} (line {1 + _n_lines(data[: error.start]):,})"
            raise TableError(f"{path}: {place} is not {encoding}: {error.reason}; try another --encoding") from None
    for mark, name in _BOMS:
        if data.startswith(mark):
            raise TableError(f"{path}: the file is {name.upper()}, judging by its first bytes; give --encoding {name}")
    return data.removeprefix(codecs.BOM_UTF8)


def codecs_name(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        raise TableError(f"there is no encoding {encoding!r}; common ones are utf-8, utf-16, latin-1, cp1252") from None


def _convert(file: CsvFile, wanted: Mapping[str, pa.DataType], only: Sequence[str]) -> pa.Table:
    """Let Arrow parse rows whose structure was checked, only some columns. Columns are named by position."""
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
                    include_columns=only,
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
    return TableError(f"{path}: a column contains bytes that are not text")


def _n_lines(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


def _line_at(data: bytes, position: int, length: int = 60) -> str:
    """The line around a position, shortened, in quotes."""
    start = 1 + max(data.rfind(b"\n", 0, position), data.rfind(b"\r", 0, position))
    start = max(start, position - length)
    line = data[start : position + length].splitlines() or [b""]
    text = line[0].decode("utf-8", "replace")
    return repr(text if len(text) <= length else text[:length] + "…")
