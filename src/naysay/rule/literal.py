"""Constants as text, both ways: numbers, quoted text, true and false, dates, times, timestamps, decimals."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from decimal import Decimal

from naysay.errors import RuleError
from naysay.rule.model import Constant, Value
from naysay.rule.scan import Scanner, shortened

_MAX_DIGITS = 1_000
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])", re.ASCII)
_SPECIAL = re.compile(r"[+-]?(?:nan|inf|infinity|true|false)\b(?!\s*[.\[(])", re.IGNORECASE)
_TYPED = re.compile(r"(date|time|timestamp|datetime|decimal)\s*(?=['\"])", re.IGNORECASE)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?", re.ASCII)
_ZONE = re.compile(r"\s*(?:(Z|UTC)|([+-])(\d\d):?(\d\d)?(?::?(\d\d)(?:\.(\d{1,6}))?)?)", re.ASCII | re.IGNORECASE)
_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
_WORDS = {"nan": math.nan, "inf": math.inf, "infinity": math.inf, "true": True, "false": False}
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0", "\\": "\\\\", '"': '\\"'}
_NOT_PLAIN = re.compile(r'[\\"\x00-\x1f\x7f-\xa0\xad\u2028\u2029\u200b-\u200f\u202a-\u202e\ufeff\ud800-\udfff]')


def read_constant(scanner: Scanner) -> Constant | None:
    """Take a constant, if one begins here."""
    position = scanner.skip()
    number = scanner.match(_NUMBER)
    if number is not None:
        return Constant(_number(scanner, number.group(), position))
    quoted = scanner.quoted()
    if quoted is not None:
        return Constant(quoted)
    special = scanner.match(_SPECIAL)
    if special is not None:
        return Constant(_special(scanner, special.group(), position))
    typed = scanner.match(_TYPED)
    if typed is None:
        return None
    inner = scanner.position
    text = scanner.quoted() or ""
    return Constant(_READERS[typed.group(1).lower()](scanner, text.strip(), inner))


def _number(scanner: Scanner, text: str, position: int) -> int | float | Decimal:
    """A whole number as int, another as float, or as Decimal if a float would not tell which number was written."""
    if len(text) > _MAX_DIGITS:
        scanner.fail(position, f"a number of {len(text):,} characters; at most {_MAX_DIGITS:,} are allowed")
    if not any(character in text for character in ".eE"):
        return int(text)
    value = float(text)
    mantissa = text.lower().partition("e")[0]
    if math.isinf(value) or (value == 0 and any(digit in mantissa for digit in "123456789")):
        size = "large" if math.isinf(value) else "small"
        hint = f"Write decimal '{shortened(text)}' for exactly this number."
        scanner.fail(position, f"{shortened(text)} is too {size} for a float", hint)
    return value if _tells(value, text) else Decimal(text)


def _tells(value: float, text: str) -> bool:
    """Whether a float tells which number was written, as it is read next to integers and decimals: `table.filter`."""
    if value == 0:
        return True
    return (Decimal(value) if value.is_integer() else Decimal(repr(value))) == Decimal(text)


def _special(scanner: Scanner, text: str, position: int) -> bool | float:
    value = _WORDS[text.lstrip("+-").lower()]
    if text[0] in "+-":
        if isinstance(value, bool) or math.isnan(value):
            scanner.fail(position, f"{text[1:]} has no sign")
        return -value if text[0] == "-" else value
    return value


def _date(scanner: Scanner, text: str, position: int) -> datetime.date:
    found = _DATE.fullmatch(text)
    if found is None:
        scanner.fail(position, f"{shortened(text)!r} is not a date", "Write date '2024-01-31'.")
    return _date_of(scanner, found, position)


def _time(scanner: Scanner, text: str, position: int) -> datetime.time:
    found = _TIME.match(text)
    if found is not None and found.end() == len(text):
        return _time_of(scanner, found, position)
    if found is not None and _ZONE.fullmatch(text, found.end()):
        hint = "Write timestamp '2024-01-31 13:45:00+01:00' for a moment with a zone."
        scanner.fail(position, "a time of day has no zone", hint)
    hint = "Write time '13:45:00' or time '13:45:00.5'."
    raise scanner.error(position, f"{shortened(text)!r} is not a time of day", hint)


def _timestamp(scanner: Scanner, text: str, position: int) -> datetime.datetime:
    hint = "Write timestamp '2024-01-31 13:45:00', and +01:00 or Z after it for a zone."
    day = _DATE.match(text)
    if day is None:
        scanner.fail(position, f"{shortened(text)!r} is not a timestamp", hint)
    date = _date_of(scanner, day, position)
    rest = text[day.end() :]
    time = datetime.time()
    if rest:
        clock = _TIME.match(rest, 1)
        if rest[0] not in " Tt" or clock is None:
            scanner.fail(position, f"{shortened(text)!r} is not a timestamp", hint)
        time = _time_of(scanner, clock, position)
        rest = rest[clock.end() :]
    if not rest:
        return datetime.datetime.combine(date, time)
    found = _ZONE.fullmatch(rest)
    if found is None:
        scanner.fail(position, f"{shortened(rest.strip())!r} is not a zone", "A zone is Z or an offset such as +01:00.")
    return datetime.datetime.combine(date, time, _zone_of(scanner, found, position))


def _date_of(scanner: Scanner, found: re.Match[str], position: int) -> datetime.date:
    try:
        return datetime.date(int(found.group(1)), int(found.group(2)), int(found.group(3)))
    except ValueError:
        scanner.fail(position, f"{found.group()} is not a valid date")


def _time_of(scanner: Scanner, found: re.Match[str], position: int) -> datetime.time:
    fraction = (found.group(4) or "").rstrip("0")
    if len(fraction) > 6:
        scanner.fail(
            position,
            f"{shortened(found.group())} is finer than a microsecond",
            "Write at most six decimals of a second.",
        )
    try:
        hours, minutes, seconds = (int(found.group(part) or 0) for part in (1, 2, 3))
        return datetime.time(hours, minutes, seconds, int(fraction.ljust(6, "0")))
    except ValueError:
        scanner.fail(position, f"{shortened(found.group())} is not a valid time")


def _zone_of(scanner: Scanner, found: re.Match[str], position: int) -> datetime.timezone:
    if found.group(1):
        return datetime.timezone.utc
    hours, minutes, seconds = (int(found.group(part) or 0) for part in (3, 4, 5))
    if hours > 23 or minutes > 59 or seconds > 59:
        scanner.fail(position, f"{found.group().strip()} is not an offset from UTC")
    fraction = int((found.group(6) or "").ljust(6, "0"))
    offset = datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds, microseconds=fraction)
    return datetime.timezone(-offset if found.group(2) == "-" else offset)


def _decimal(scanner: Scanner, text: str, position: int) -> Decimal:
    if len(text) > _MAX_DIGITS:
        scanner.fail(position, f"a number of {len(text):,} characters; at most {_MAX_DIGITS:,} are allowed")
    if _DECIMAL.fullmatch(text) is None:
        hint = "Write decimal '0.10'; an exponent has at most four digits."
        scanner.fail(position, f"{shortened(text)!r} is not a decimal number", hint)
    return Decimal(text)


_READERS: dict[str, Callable[[Scanner, str, int], Value]] = {
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "datetime": _timestamp,
    "decimal": _decimal,
}


def write_constant(value: Value) -> str:
    """The text that `read_constant` reads as this value, of this type.

    >>> write_constant("it's"), write_constant(datetime.date(2024, 1, 31))
    ('"it\\'s"', "date '2024-01-31'")
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return _write_float(value)
    if isinstance(value, str):
        return write_quoted(value)
    if isinstance(value, datetime.datetime):
        return f"timestamp '{value.isoformat(' ')}'"
    if isinstance(value, datetime.date):
        return f"date '{value.isoformat()}'"
    if isinstance(value, datetime.time) and value.tzinfo is None:
        return f"time '{value.isoformat()}'"
    if isinstance(value, Decimal) and value.is_finite():
        return _write_decimal(value)
    raise RuleError(f"the constant {value!r} of type {type(value).__name__} cannot be written in a rule")


def _write_float(value: float) -> str:
    """The shortest text of a float; all digits of a large one whose shortest text is another whole number."""
    text = float.__repr__(value)
    return text if not math.isfinite(value) or _tells(value, text) else f"{float(value):.1f}"


def _write_decimal(value: Decimal) -> str:
    """Without the word `decimal` if the digits are read as a decimal anyway."""
    text = str(value)
    nearest = float(value)
    is_number = any(character in text for character in ".E") and math.isfinite(nearest)
    return text if is_number and not _tells(nearest, text) else f"decimal '{text}'"


def write_quoted(text: str) -> str:
    """Text in double quotes, on one line, with everything invisible escaped."""
    return '"' + _NOT_PLAIN.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    plain = _ESCAPES.get(character)
    return plain if plain is not None else f"\\u{ord(character):04x}"
