"""How a CSV file writes its values, where that differs from our default: null values, types, commas, date formats.

The functions here work on columns of text. Both engines use them, so that a file means the same on both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from naysay.arrays import BoolArray
from naysay.errors import UsageError
from naysay.io.csv import TOO_LARGE, TOO_SMALL, loss, suspects
from naysay.rule.formats.column_types import TYPE_NAMES, column_type

_ARROW_TYPES = {
    "text": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "time": pa.time32("s"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
_LONG = "is beyond 2^53, where 64-bit floats cannot tell whole numbers apart"
_COMMA_NUMBER = re.compile(r"[+-]?[0-9]*,[0-9]+")
_TIME = re.compile(r"[0-9]{2}:[0-9]{2}(:[0-9]{2})?")
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
_MOMENT = datetime(2001, 12, 30, 23, 58, 59, 654321, timezone.utc)


@dataclass(frozen=True, slots=True)
class Notation:
    """Null values, declared types by column, and how numbers, dates and timestamps are written.

    With a format, dates (or timestamps) are read only in this format.
    """

    null_values: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    decimal_comma: bool = False
    date_format: str | None = None
    timestamp_format: str | None = None

    def __bool__(self) -> bool:
        return bool(self.types) or self.changes_inference

    @property
    def changes_inference(self) -> bool:
        """Whether columns without a declared type are read differently, too."""
        return bool(self.null_values or self.decimal_comma or self.date_format or self.timestamp_format)

    @property
    def arrow_types(self) -> dict[str, pa.DataType]:
        """The declared types."""
        return {name: arrow_type_named(type_) for name, type_ in self.types.items()}


DEFAULT = Notation()


def notation(
    null_values: Sequence[str] | str = (),
    types: Mapping[str, str] | None = None,
    decimal_comma: bool = False,
    date_format: str | None = None,
    timestamp_format: str | None = None,
) -> Notation:
    """A notation from what a user wrote; UsageError if there is no such type, or a format describes nothing."""
    declared = {}
    for name, text in (types or {}).items():
        found = column_type(text) if isinstance(text, str) else None
        if found is None:
            raise UsageError(f"column {name!r}: there is no type {text!r}; use {TYPE_NAMES}")
        declared[name] = found
    if date_format is not None:
        _require_format(date_format, "date")
    if timestamp_format is not None:
        _require_format(timestamp_format, "timestamp")
    nulls = (null_values,) if isinstance(null_values, str) else tuple(null_values)
    return Notation(nulls, declared, decimal_comma, date_format, timestamp_format)


def _require_format(format: str, what: str) -> None:
    """Refuse a format that cannot be read back, or that leaves out part of the date, or the time of a timestamp."""
    example = "%d.%m.%Y" if what == "date" else "%d.%m.%Y %H:%M:%S"
    hint = f"write it as Python's strptime does, such as {example}"
    try:
        read = datetime.strptime(_MOMENT.strftime(format), format)
    except (ValueError, re.error) as error:
        raise UsageError(f"{format!r} is not a {what} format: {error}; {hint}") from None
    if read.date() != _MOMENT.date():
        raise UsageError(f"{format!r} is not a {what} format: it needs a day, a month and a year; {hint}")
    if what == "timestamp" and read.hour != _MOMENT.hour:
        raise UsageError(f"{format!r} is not a timestamp format: it has no time of day; use --date-format for dates")
    if what == "date" and (read.hour or read.minute or read.second or read.microsecond or read.tzinfo):
        raise UsageError(f"{format!r} is not a date format: it has a time of day; use --timestamp-format")


def arrow_type_named(name: str) -> pa.DataType:
    """The Arrow type of a canonical type name."""
    if name in _ARROW_TYPES:
        return _ARROW_TYPES[name]
    digits, scale = re.findall(r"\d+", name)
    return pa.decimal128(int(digits), int(scale))


def type_name(type_: pa.DataType) -> str:
    """What to call an Arrow type in a message: as users write it, if they can."""
    found = next((name for name, known in _ARROW_TYPES.items() if known == type_), None)
    if found is not None:
        return found
    return f"decimal({type_.precision},{type_.scale})" if types.is_decimal(type_) else str(type_)


def with_nulls(text: pa.ChunkedArray, notation: Notation) -> pa.ChunkedArray:
    """The column with null instead of each null value, quoted or not."""
    if not notation.null_values:
        return text
    is_null = pc.is_in(text, value_set=pa.array(notation.null_values, text.type), skip_nulls=True)
    return pc.if_else(is_null, pa.scalar(None, text.type), text) if pc.any(is_null).as_py() else text


def convert(
    text: pa.ChunkedArray, type_: pa.DataType, notation: Notation, *, keeps_zeros: bool = False
) -> tuple[pa.ChunkedArray, BoolArray]:
    """A column of text in a type, and which rows are bad: those that are null only because they cannot be converted.

    With `keeps_zeros`, numbers with leading zeros are bad.
    """
    if types.is_string(type_) or types.is_null(type_):
        return text, np.zeros(len(text), bool)
    trimmed = pc.utf8_trim(text, " \t")
    if types.is_boolean(type_):
        made = _booleans(trimmed)
    elif types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_):
        made = _numbers(trimmed, type_, notation, keeps_zeros=keeps_zeros)
    elif (format := _format_of(type_, notation)) is not None:
        made = _parse(trimmed, format, type_)
    elif types.is_time(type_):
        made = _each_distinct(trimmed, _time_of_day, type_)
    else:
        made = _cast(trimmed, type_)
    bad = pc.and_(text.is_valid(), made.is_null())
    return made, np.asarray(bad.to_numpy(), dtype=bool)


def _format_of(type_: pa.DataType, notation: Notation) -> str | None:
    if types.is_date(type_):
        return notation.date_format
    return notation.timestamp_format if types.is_timestamp(type_) else None


def complaint(text: str, type_: pa.DataType, notation: Notation) -> str:
    """Why a bad value is bad and what to do, after `'abc' in column 'x' `."""
    name = type_name(type_)
    what = f"is not {'an' if name.startswith('int') else 'a'} {name}"
    if types.is_floating(type_) and (lost := _lost(text, notation)) is not None:
        return f"{lost}; declare the column as text or decimal(38,0)" if lost == _LONG else lost
    if (format := _format_of(type_, notation)) is not None:
        return f"{what} in the format {format}; correct it, or declare it as a null value"
    if types.is_timestamp(type_):
        zone = "" if type_.tz is None else "+01:00"
        what = f"{what} such as 2024-01-31 10:30:00{zone}; give --timestamp-format (timestamp_format=)"
    elif types.is_date(type_):
        what = f"{what} such as 2024-01-31; give --date-format (date_format=)"
    elif (types.is_floating(type_) or types.is_decimal(type_)) and _COMMA_NUMBER.fullmatch(text.strip()):
        what = f"{what}; give --decimal-comma (decimal_comma=)"
    elif notation.decimal_comma and not types.is_integer(type_) and "." in text:
        return f"{what} with a decimal comma; correct it, or leave out --decimal-comma"
    else:
        return f"{what}; correct it, declare the column as text, or list it in --null-values (null_values=)"
    return f"{what}, or declare the column as text"


def _lost(text: str, notation: Notation) -> str | None:
    """What a float would lose of a number; None if this is not a number."""
    plain = text.strip(" \t").replace(",", ".") if notation.decimal_comma else text
    try:
        what = loss(plain, float(plain))
    except ValueError:
        return None
    return _LONG if what and what not in (TOO_LARGE, TOO_SMALL) else what or None


def _time_of_day(text: str) -> time:
    if _TIME.fullmatch(text) is None:
        raise ValueError(text)
    return time.fromisoformat(text)


def _booleans(text: pa.ChunkedArray) -> pa.ChunkedArray:
    lower = pc.utf8_lower(text)
    is_true = pc.is_in(lower, value_set=pa.array(_TRUE, lower.type))
    is_false = pc.is_in(lower, value_set=pa.array(_FALSE, lower.type))
    return pc.if_else(pc.or_(is_true, is_false), is_true, pa.scalar(None, pa.bool_()))


# Leading zeros and a plus, which mean nothing once a column is declared to hold numbers.
_ZEROS = r"^\+?(-?)0*([0-9])"
_HAS_ZEROS = r"^[+-]?0[0-9]"
_WHOLE = r"^[+-]?[0-9]+$"


def _number_pattern(notation: Notation, *, exact: bool) -> str:
    mark = "," if notation.decimal_comma else "[.]"
    digits = rf"([0-9]+{mark}?[0-9]*|{mark}[0-9]+)"
    return rf"^[+-]?{digits}$" if exact else rf"(?i)^[+-]?({digits}(e[+-]?[0-9]+)?|inf|infinity|nan)$"


def _numbers(text: pa.ChunkedArray, type_: pa.DataType, notation: Notation, *, keeps_zeros: bool) -> pa.ChunkedArray:
    is_float = types.is_floating(type_)
    pattern = _WHOLE if types.is_integer(type_) else _number_pattern(notation, exact=not is_float)
    good = pc.match_substring_regex(text, pattern)
    if keeps_zeros:
        good = pc.and_(good, pc.invert(pc.match_substring_regex(text, _HAS_ZEROS)))
    text = pc.if_else(good, text, pa.scalar(None, text.type))
    text = with_points(text) if notation.decimal_comma else text
    text = pc.replace_substring_regex(text, _ZEROS, r"\1\2")
    made = _cast(text, type_)
    return _without_lost(text, made) if is_float else made


def _without_lost(text: pa.ChunkedArray, made: pa.ChunkedArray) -> pa.ChunkedArray:
    """The floats with null instead of those that are not the number written."""
    # The zeros among them are few, so there is no need to look for tiny numbers in the whole text.
    suspect = suspects(made.cast(pa.float64()), b"e-")
    if suspect is None:
        return made
    lost = [value for value in pc.unique(text.filter(suspect)).to_pylist() if loss(value, float(value))]
    is_lost = pc.is_in(text, value_set=pa.array(lost, text.type))
    return pc.if_else(is_lost, pa.scalar(None, made.type), made)


_PARTS = {"%Y": "([0-9]{4})", **dict.fromkeys(("%d", "%m", "%H", "%M", "%S"), "([0-9]{1,2})")}
_ISO = ("%Y", "-0%m", "-0%d", " 0%H", ":0%M", ":0%S")


def _parse(text: pa.ChunkedArray, format: str, type_: pa.DataType) -> pa.ChunkedArray:
    """Dates or timestamps in a format; null if a value is not in it."""
    rewriting = _rewriting(format)
    if rewriting is None or getattr(type_, "tz", None) is not None:
        return _each_distinct(text, _parser(format, type_), type_)
    pattern, iso = rewriting
    text = pc.if_else(pc.match_substring_regex(text, pattern), text, pa.scalar(None, text.type))
    text = pc.replace_substring_regex(text, pattern, iso)
    # Parts of two digits have got a zero too many.
    return _cast(pc.replace_substring_regex(text, "([-: ])0([0-9]{2})", r"\1\2"), type_)


def _rewriting(format: str) -> tuple[str, str] | None:
    """A pattern and its replacement by ISO 8601, ten times faster than `strptime`, for formats of separate numbers."""
    pieces = re.split(r"(%.)", format)
    parts, between = pieces[1::2], pieces[::2]
    if any(part not in _PARTS for part in parts) or len(set(parts)) < len(parts) or not all(between[1:-1]):
        return None
    if any(re.search("[0-9]", text) for text in between):
        return None
    spaced = [re.sub(r"(\\\s|\s)+", r"\\s+", re.escape(text)) for text in between]
    pattern = "".join(one + other for one, other in zip(spaced, [*(_PARTS[part] for part in parts), ""], strict=True))
    wanted = [piece for piece in _ISO if piece[-2:] in parts]
    return f"^{pattern}$", "".join(piece[:-2] + f"\\{parts.index(piece[-2:]) + 1}" for piece in wanted)


def _parser(format: str, type_: pa.DataType) -> Callable[[str], Any]:
    def parse(value: str) -> Any:
        read = datetime.strptime(value, format)
        if types.is_date(type_):
            return read.date()
        if (read.tzinfo is None) != (type_.tz is None):
            raise ValueError("with a time zone, or without one")
        return read if read.tzinfo is None else read.astimezone(timezone.utc)

    return parse


def _each_distinct(text: pa.ChunkedArray, make: Callable[[str], Any], type_: pa.DataType) -> pa.ChunkedArray:
    """Convert each distinct value; null if `make` fails."""
    made = []
    for value in (distinct := pc.unique(text).drop_null()).to_pylist():
        try:
            found = make(value)
            made.append(found if isinstance(found, pa.Scalar) else pa.scalar(found, type_))
        except (ValueError, OverflowError, pa.ArrowException):
            made.append(pa.scalar(None, type_))
    values = pa.array(made, type_)
    places = pc.index_in(text, value_set=distinct)
    return pa.chunked_array([values.take(chunk) for chunk in places.chunks], type_)


def _cast(text: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Convert as Arrow does; null if that fails, value by value only if some fail."""
    try:
        return text.cast(type_)
    except pa.ArrowInvalid:
        return _each_distinct(text, lambda value: pa.scalar(value).cast(type_), type_)


# What all values of a column look like, as bits: a column in several parts has the bits that all parts have.
_NO_VALUES, _COMMA_NUMBERS, _POINT_NUMBERS, _DATES, _MOMENTS, _ISO_DATES, _ISO_MOMENTS = (1 << bit for bit in range(7))
ALL_LOOKS = -1


def looks_of(text: pa.ChunkedArray, notation: Notation) -> int:
    """What all values of a column look like, as far as the notation needs to know."""
    if text.null_count == len(text):
        return ALL_LOOKS
    text = pc.utf8_trim(text, " \t").drop_null()
    looks = 0
    if notation.decimal_comma:
        has_zeros = bool(pc.any(pc.match_substring_regex(text, _HAS_ZEROS)).as_py())
        looks |= _COMMA_NUMBERS * (not has_zeros and _all_match(text, _number_pattern(notation, exact=False)))
        looks |= _POINT_NUMBERS * _all_match(text, _number_pattern(DEFAULT, exact=False))
    if notation.date_format is not None:
        looks |= _DATES * _all_parse(text, notation.date_format, pa.date32())
    if notation.timestamp_format is not None:
        looks |= _MOMENTS * _all_parse(text, notation.timestamp_format, _moment_type(notation))
        looks |= _ISO_MOMENTS * any(_is_castable(text, pa.timestamp("us", zone)) for zone in (None, "UTC"))
    if notation.date_format is not None or notation.timestamp_format is not None:
        looks |= _ISO_DATES * _is_castable(text, pa.date32())
    return looks


def _all_match(text: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(text, pattern)).as_py())


def _all_parse(text: pa.ChunkedArray, format: str, type_: pa.DataType) -> bool:
    # One value shows what most columns are not.
    return not _parse(text.slice(0, 1), format, type_).null_count and not _parse(text, format, type_).null_count


def _moment_type(notation: Notation) -> pa.DataType:
    return pa.timestamp("us", "UTC" if "%z" in (notation.timestamp_format or "") else None)


def _is_castable(text: pa.ChunkedArray, type_: pa.DataType) -> bool:
    try:
        text.cast(type_)
    except pa.ArrowInvalid:
        return False
    return True


def type_by_looks(looks: int, notation: Notation) -> pa.DataType | None:
    """The type of a column that looks like this; None to infer it as usual.

    A number with a point is text if the decimal mark is a comma, and so is an ISO date if dates have another format.
    """
    if looks & _NO_VALUES:
        return None
    if looks & _DATES:
        return pa.date32()
    if looks & _MOMENTS:
        return _moment_type(notation)
    is_text = (
        (looks & _POINT_NUMBERS and not looks & _COMMA_NUMBERS)
        or (looks & _ISO_DATES and notation.date_format is not None)
        or (looks & _ISO_MOMENTS and not looks & _ISO_DATES)
    )
    return pa.string() if is_text else None


def has_comma_numbers(looks: int) -> bool:
    """Whether all values of a column are numbers with a decimal comma, or whole numbers; none with leading zeros."""
    return bool(looks & _COMMA_NUMBERS) and not looks & _NO_VALUES


def with_points(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers with a decimal comma as numbers with a decimal point."""
    return pc.replace_substring(text, ",", ".")
