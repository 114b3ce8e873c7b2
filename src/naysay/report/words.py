"""Numbers and values as people read them."""

from __future__ import annotations

import datetime
import math
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from naysay.rule.describe import describe
from naysay.rule.model import Rule
from naysay.rule.render import render

# Categories of characters that change how the text around them is shown, even if they count as printable.
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def title(rule: Rule) -> str:
    """The name of a rule, or its text if it has none."""
    return printable(rule.name) if rule.name else rule_text(rule)


def listing_title(rule: Rule | None) -> str:
    """The title of what is listed for a rule, or for all rules together."""
    return "All rules together" if rule is None else title(rule)


def rule_text(rule: Rule) -> str:
    return printable(render(rule, short=True))


def printable(text: str) -> str:
    r"""Escape invisible characters, so that a value can neither hide nor control the terminal.

    >>> print(printable("red\x1b[31m alert"))
    red\x1b[31m alert
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    if character.isprintable() and unicodedata.category(character) not in _INVISIBLE:
        return character
    if character in (" ", "\u00a0", "\u3000"):
        return " "
    return character.encode("unicode_escape").decode("ascii")


def shown(value: Any) -> str:
    """A value of the data on one line. Text is quoted only if it would be invisible or ambiguous."""
    if value is None:
        return "null"
    if isinstance(value, str):
        text = printable(value)
        return text if value and value == value.strip() and value != "null" else f"'{text}'"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    return printable(str(value))


def meaning(rule: Rule) -> str:
    """A sentence that says what a rule forbids: its description, or one made from its predicates.

    >>> from naysay.rule import parse
    >>> meaning(parse("key(id)")), meaning(parse("not(t.age < 0)"))
    ('No two rows have the same id.', 'age is never less than 0.')
    """
    clause = printable(rule.description or describe(rule)).strip().rstrip(".")
    begins_with_column = any(clause.startswith(printable(name)) for name in rule.column_names)
    return (clause if begins_with_column else clause[:1].upper() + clause[1:]) + "."


def shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def windows(left: str, right: str, width: int) -> tuple[str, str]:
    """Cut two long texts to a width around the first place where they differ.

    >>> windows("a" * 40 + "bcd", "a" * 40 + "xyz", 12)
    ('…aaabcd', '…aaaxyz')
    """
    if max(len(left), len(right)) <= width:
        return left, right
    place = common_prefix(left, right)
    start = 0 if place < width * 2 // 3 else place - width // 4
    return _window(left, start, width), _window(right, start, width)


def _window(text: str, start: int, width: int) -> str:
    cut = "…" + text[start:] if start else text
    return shortened(cut, width)


def split_difference(left: str, right: str, width: int) -> list[tuple[str, str, str]]:
    """Cut two texts to a width around their difference; each becomes the text before, inside and after it.

    >>> split_difference("Cambridge", "Cambritge", 20)
    [('Cambri', 'd', 'ge'), ('Cambri', 't', 'ge')]
    """
    left, right = windows(left, right, width)
    start = common_prefix(left, right)
    end = common_suffix(left, right, start)
    return [(text[:start], text[start : len(text) - end], text[len(text) - end :]) for text in (left, right)]


def common_prefix(left: str, right: str) -> int:
    """The number of characters that two texts have in common at their start."""
    length = min(len(left), len(right))
    return next((i for i in range(length) if left[i] != right[i]), length)


def common_suffix(left: str, right: str, after: int) -> int:
    """The number of characters that two texts have in common at their end, ignoring the first `after`."""
    length = min(len(left), len(right)) - after
    return next((i for i in range(length) if left[-1 - i] != right[-1 - i]), length)


def statuses(left_out: Mapping[str, int]) -> str:
    """Rules by their status, in words.

    >>> statuses({"pending": 2, "rejected": 1})
    '2 pending rules, 1 rejected rule'
    """
    return ", ".join(counted(count, f"{status} rule") for status, count in left_out.items())


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "row"), counted(1204, "row")
    ('1 row', '1,204 rows')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def share(part: int, whole: int) -> str:
    """
    >>> share(83, 1000), share(1, 100000), share(1000, 1000)
    ('8.3%', 'under 0.1%', '100%')
    """
    if part == whole or not part:
        return "100%" if part else "0%"
    percent = 100 * part / whole
    if percent < 0.1:
        return "under 0.1%"
    return "over 99.9%" if percent > 99.9 else f"{percent:.1f}%"


def duration(seconds: float) -> str:
    """
    >>> duration(0.0004), duration(0.21), duration(75), duration(7500)
    ('under 1 ms', '0.21 s', '1 min 15 s', '2 h 5 min')
    """
    if seconds < 0.001:
        return "under 1 ms"
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.2f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


def size(n_bytes: int) -> str:
    """
    >>> size(900), size(5_000_000), size(3 << 30)
    ('900 bytes', '4.8 MiB', '3.0 GiB')
    """
    amount = float(n_bytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} TiB"
