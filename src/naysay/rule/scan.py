"""A cursor over the text of a rule: it skips space, reads quoted text, and turns a position into an error."""

from __future__ import annotations

import difflib
import heapq
import math
import re
import struct
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NoReturn

from naysay.errors import RuleError
from naysay.rule.model import Value

# difflib compares at some 20 microseconds a pair; the limits keep an error message below 50 ms.
_MAX_CANDIDATES = 500
_MAX_NAME = 80


def nearest_name(name: str, names: Iterable[str]) -> str:
    """Return the name among `names` that is nearest to `name`, or an empty text if none is near.

    >>> nearest_name("Zipcode", ["City", "ZipCode"])
    'ZipCode'
    """
    if len(name) > _MAX_NAME:
        return ""
    folded = _folded(name)
    near = {}
    begins = ""
    for candidate in names:
        other = _folded(candidate)
        if other == folded:
            return candidate
        if len(folded) > 2 and other.startswith(folded):
            begins = begins or candidate
        if abs(len(other) - len(folded)) <= 1 + len(folded) // 2:
            near[other] = candidate
    candidates: Iterable[str] = near
    if len(near) > _MAX_CANDIDATES:
        # A cheap guess at which candidates are worth a real comparison.
        candidates = heapq.nsmallest(_MAX_CANDIDATES, near, key=lambda other: -n_shared(folded, other))
    found = difflib.get_close_matches(folded, candidates, n=1, cutoff=0.6)
    return near[found[0]] if found else begins


def columns_hint(name: str, names: Iterable[str]) -> str:
    """What to say about an unknown column: the nearest name if one is near, otherwise all names."""
    known = list(names)
    meant = nearest_name(name, known)
    return f"did you mean {meant!r}?" if meant else f"its columns are {', '.join(map(repr, known))}"


def n_shared(one: str, two: str) -> int:
    """How many characters both texts begin with."""
    return next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


def _folded(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum()) or name.casefold()


_NARROW = {32: "<f", 16: "<e"}


def read_as_float(value: float, bits: int) -> float:
    """A finite float as a column of floats of `bits` bits holds it: of 0.1, the nearest such float.

    A whole number, and one that would become zero or infinity, stays as it is.
    """
    form = _NARROW.get(bits)
    if form is None or value == math.trunc(value):
        return value
    try:
        nearest: float = struct.unpack(form, struct.pack(form, value))[0]
    except OverflowError:
        return value
    return nearest or value


def readings(value: Value) -> list[int | float | Decimal]:
    """A number as it is read next to a column of ints, of decimals, and of floats of 64, 32 and 16 bits."""
    if isinstance(value, float) and math.isfinite(value):
        return [value, value if value == int(value) else Decimal(float.__repr__(value)), *_as_floats(value)]
    if isinstance(value, Decimal):
        nearest = float(value)
        return [value, value, *(_as_floats(nearest) if math.isfinite(nearest) else [value] * 3)]
    assert isinstance(value, (int, float))
    return [value] * 5


def _as_floats(value: float) -> list[float]:
    return [read_as_float(value, bits) for bits in (64, 32, 16)]


def is_plain(value: Value) -> bool:
    """Whether a number is the same next to columns of every type, as 1 and 0.5 are and 0.1 is not."""
    first, *others = readings(value)
    return all(other == first for other in others)


HALF_CHARACTER, VALID_UTF_8 = "half of a surrogate pair is not a character", "Text must be valid UTF-8."
MAX_LENGTH = 65_536
MAX_PREDICATES = 64

QUOTED = r"""'[^'\\\n]*(?:(?:\\[^\n]|'')[^'\\\n]*)*'|"[^"\\\n]*(?:(?:\\[^\n]|"")[^"\\\n]*)*\""""
TICKED = r"`(?:[^`\n]|``)*`"

_SPACE = re.compile(r"(?:\s+|(?:(?<=\s)|^)#[^\n]*)*")
_QUOTED = re.compile(QUOTED)
_TICKED = re.compile(TICKED)
_WORD = re.compile(r"\w+")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))|(''|\"\")", re.DOTALL)
_PATTERN_SIGNS = "\\.^$*+?()[]{}|-&"
_PLAIN_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", "'": "'", '"': '"', "`": "`"}


class Scanner:
    """Text with a position in it.

    Only `text[position:end]` is read, but errors show positions in the whole of `text`, whose first line has the
    number `line`. If `columns` are given, any other column is an error.
    """

    __slots__ = ("_known", "columns", "end", "line", "position", "source", "text")

    def __init__(
        self,
        text: str,
        *,
        source: str = "",
        line: int = 1,
        columns: Sequence[str] | None = None,
        start: int = 0,
        end: int | None = None,
    ) -> None:
        self.text = text
        self.source = source
        self.line = line
        self.columns = columns
        self._known = None if columns is None else frozenset(columns)
        self.position = start
        self.end = len(text) if end is None else end
        if self.end - start > MAX_LENGTH:
            raise RuleError(
                f"the rule has {self.end - start:,} characters; at most {MAX_LENGTH:,} are allowed",
                source=source,
                line=line,
                hint="One line holds one rule; is this a data file instead of a rules file?",
            )
        try:
            text.encode()
        except UnicodeEncodeError as error:
            # It cannot be a value of a column, nor be written to a file.
            self.fail(error.start, HALF_CHARACTER, VALID_UTF_8)

    def fail(self, position: int, message: str, hint: str = "") -> NoReturn:
        """Raise a RuleError at a position of the text."""
        raise self.error(position, message, hint)

    def error(self, position: int, message: str, hint: str = "") -> RuleError:
        start = self.text.rfind("\n", 0, position) + 1
        stop = self.text.find("\n", position)
        return RuleError(
            message,
            text=self.text[start : len(self.text) if stop < 0 else stop],
            line=self.line + self.text.count("\n", 0, position),
            column=position - start + 1,
            source=self.source,
            hint=hint,
        )

    def skip(self) -> int:
        """Skip space and comments; return the new position."""
        found = _SPACE.match(self.text, self.position, self.end)
        if found is not None:
            self.position = found.end()
        return self.position

    def at_end(self) -> bool:
        return self.skip() >= self.end

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Skip space, then take what the pattern matches here."""
        found = pattern.match(self.text, self.skip(), self.end)
        if found is not None:
            self.position = found.end()
        return found

    def peek(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Skip space, then match the pattern here without taking anything."""
        return pattern.match(self.text, self.skip(), self.end)

    def take(self, character: str) -> bool:
        if self.text.startswith(character, self.skip(), self.end):
            self.position += len(character)
            return True
        return False

    def quoted(self, *, is_pattern: bool = False) -> str | None:
        """Take a quoted text, if one begins here. One that never closes is an error."""
        position = self.skip()
        if position >= self.end or self.text[position] not in "'\"":
            return None
        found = self.match(_QUOTED)
        if found is None:
            self.fail(position, "this quoted text is never closed", "A newline inside quotes is written \\n.")
        return self.unescape(found.group(), position, is_pattern=is_pattern)

    def ticked(self) -> str | None:
        """Take a name in backticks, if one begins here."""
        position = self.skip()
        if not self.text.startswith("`", position, self.end):
            return None
        found = self.match(_TICKED)
        if found is None:
            self.fail(position, "this backtick is never closed")
        return found.group()[1:-1].replace("``", "`")

    def unescape(self, quoted: str, position: int, *, is_pattern: bool = False) -> str:
        r"""The text that a quoted literal means; it begins at a position.

        In a pattern a backslash that begins no escape stays, so that '\d' and '\\d' are the same, and a character
        that is written as a number means itself.
        """
        inner = quoted[1:-1]
        quote = quoted[0]
        if "\\" not in inner:
            return inner.replace(quote * 2, quote)

        def replacement(found: re.Match[str]) -> str:
            code = found.group(1) or found.group(2) or found.group(3)
            place = position + 1 + found.start()
            if code is not None:
                point = int(code, 16)
                if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
                    self.fail(place, f"\\{found.group()[1:]} is not a character")
                return f"\\{chr(point)}" if is_pattern and chr(point) in _PATTERN_SIGNS else chr(point)
            if found.group(5) is not None:
                return quote if found.group(5)[0] == quote else found.group(5)
            plain = _PLAIN_ESCAPES.get(found.group(4))
            if plain is None and is_pattern:
                return found.group()
            if plain is None:
                escapes = (
                    "Escapes are \\n \\t \\r \\0 \\\\ \\' \\\" \\xNN \\uNNNN \\UNNNNNNNN; write \\\\ for a backslash."
                )
                self.fail(place, f"\\{found.group(4)} is not an escape", escapes)
            return plain

        return _ESCAPE.sub(replacement, inner)

    def column_name(self) -> tuple[str, int] | None:
        """Take the bare or quoted name of a column, if one begins here, with its position."""
        position = self.skip()
        found = self.match(_WORD)
        name = found.group() if found is not None else self.quoted()
        if name is None:
            name = self.ticked()
        if name is None:
            return None
        return self.known(name, position), position

    def known(self, name: str, position: int) -> str:
        """Return the name if the table has such a column, or if its columns are not known."""
        if not name:
            self.fail(position, "the column name is empty")
        if self._known is not None and name not in self._known:
            nearest = nearest_name(name, self.columns or ())
            hint = f"Did you mean {nearest!r}?" if nearest else _listed(self.columns or ())
            self.fail(position, f"there is no column {shortened(name)!r}", hint)
        return name

    def here(self) -> str:
        """What is at the position, for an error message."""
        position = self.skip()
        if position >= self.end:
            return "the end"
        found = _WORD.match(self.text, position, self.end)
        return repr(shortened(found.group())) if found is not None else repr(self.text[position])


def shortened(text: str, length: int = 40) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _listed(columns: Sequence[str]) -> str:
    if not columns:
        return "The table has no columns."
    names = ", ".join(shortened(name) for name in columns[:8])
    return f"The columns are: {names}{', …' if len(columns) > 8 else ''}."
