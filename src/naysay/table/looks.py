"""Text that looks like numbers, dates or times: patterns that Arrow and Spark read alike, and what to do about it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from naysay.arrays import BoolArray
from naysay.rule.describe import HIDDEN
from naysay.rule.scan import nearest_name, shortened
from naysay.table.column import Indexed, Text
from naysay.table.text import offsets_of

# A text column is taken for numbers, dates or times if more than this share of its values look like them.
MOST = 0.5

_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[ap]\.?m\.?)?(?: ?(?:Z|UTC|[-+]\d{2}:?\d{2}))?"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY = (
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/]\d{1,2}[-/](?:\d{4}|\d{2})|\d{1,2}\.\d{1,2}\.\d{4}"
    rf"|\d{{1,2}}[ -]?{_MONTH}[ ,-]*(?:\d{{4}}|\d{{2}})|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}})"
)


class Look(Enum):
    """What most values of a text column look like."""

    NUMBER = "number"
    DATE = "date"
    TIME = "time"

    @property
    def pattern(self) -> str:
        """A regular expression for all values that look so."""
        return _PATTERNS[self]

    @property
    def sorted_pattern(self) -> str:
        """Values of this form are in the same order as text; numbers only if all have the same layout."""
        return _SORTED[self]


def _whole(pattern: str) -> str:
    return rf"(?i)\A\s*(?:{pattern})\s*\z"


_PATTERNS = {
    Look.NUMBER: _whole(r"[-+]?[$€£]? ?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+)(?:e[-+]?\d{1,3})? ?%?"),
    Look.DATE: _whole(rf"{_DAY}(?:(?: +|T){_CLOCK})?"),
    Look.TIME: _whole(_CLOCK),
}
_SORTED = {
    Look.NUMBER: r"\A\d+(?:\.\d+)?\z",
    Look.DATE: r"\A\d{4}[-/.]\d{2}[-/.]\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?Z?)?\z",
    Look.TIME: r"\A\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?\z",
}
_TYPES = {Look.NUMBER: "float", Look.DATE: "date", Look.TIME: "time"}
_PLAIN_NUMBER = r"(?i)\A[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d{1,3})?\z"
_FORMS = {Look.DATE: "ISO dates such as 2024-01-31", Look.TIME: "24-hour times such as 19:45:00"}
_EXAMPLES = {Look.NUMBER: "'10' < '9'", Look.DATE: "'10/1/23' < '9/1/22'", Look.TIME: "'10:00 p.m.' < '9:00 a.m.'"}


@dataclass(frozen=True, slots=True)
class TextFacts:
    """How many values a text column has and how many look like what most of them look like.

    `n_sorted` of them are in the order of text (see `Look.sorted_pattern`). `widths` are the least and the greatest
    length, `points` the least and the greatest place of the decimal point.
    """

    n_values: int
    look: Look
    n_like: int
    n_sorted: int
    widths: tuple[int, int] = (0, 0)
    points: tuple[int, int] = (0, 0)

    @property
    def is_mostly(self) -> bool:
        """Whether most values look so."""
        return self.n_like > MOST * self.n_values

    @property
    def is_misordered(self) -> bool:
        """Whether the order as text is not what the values look like."""
        if not self.is_mostly:
            return False
        same_layout = self.widths[0] == self.widths[1] and self.points[0] == self.points[1]
        return self.n_sorted < self.n_values or (self.look is Look.NUMBER and not same_layout)


@dataclass(frozen=True, slots=True)
class Seen:
    """A text of the data, and the row that has it by its identity."""

    value: str
    row: Mapping[str, Any]
    is_hidden: bool = False

    def __str__(self) -> str:
        return f"{HIDDEN if self.is_hidden else quoted(self.value)} ({self._row_in_words})"

    @property
    def shown(self) -> str:
        """The value, unless it must not be shown."""
        return HIDDEN if self.is_hidden else self.value

    @property
    def _row_in_words(self) -> str:
        if tuple(self.row) == ("file", "row"):
            return f"row {self.row['row']} of {PurePath(str(self.row['file'])).name}"
        return ", ".join(f"{name} {shortened(str(value))}" for name, value in self.row.items())


def order_message(name: str, facts: TextFacts, seen: Seen) -> str:
    """What is wrong with ordering this text; `seen` is the first value that looks different, or else the first."""
    look = facts.look
    start = f"column {name!r} is text, and text is ordered character by character ({_EXAMPLES[look]}), but "
    if facts.n_like == facts.n_values:
        return f"{start}its values look like {look.value}s, such as {seen}. {_advice(name, look, seen.value)}"
    likes = f"{facts.n_like:,} of its {facts.n_values:,} values look like {look.value}s"
    others = f" Convert the others to {_FORMS[look]}." if look in _FORMS and facts.n_sorted < facts.n_like else ""
    return f"{start}{likes}. The first that does not is {seen}: {_odd_advice(seen)}{others}"


def number_hint(name: str, facts: TextFacts, seen: Seen) -> str:
    """Why a column that looks like numbers is text, for an error about a comparison with a number."""
    if facts.n_like == facts.n_values:
        return f"The values of {name!r} look like numbers, such as {seen}. {_advice(name, Look.NUMBER, seen.value)}"
    likes = f"{facts.n_like:,} of the {facts.n_values:,} values of {name!r} look like numbers"
    return f"{likes}. The first that is not a number is {seen}: {_odd_advice(seen)}"


def _odd_advice(seen: Seen) -> str:
    value = seen.value
    # A value with digits is rather a slip than a word for null; the option takes a list with commas.
    if seen.is_hidden or "," in value or any(character.isdigit() for character in value):
        return "correct it."
    return f"read it as null with --null-values {_shell(value)}, or correct it."


def _advice(name: str, look: Look, value: str) -> str:
    if look is Look.NUMBER and not _match(pa.array([value]), _PLAIN_NUMBER)[0]:
        return "Write them as plain numbers, such as 1234.5."
    if look in _FORMS and not _match(pa.array([value]), look.sorted_pattern)[0]:
        return f"Convert them to {_FORMS[look]}."
    type_ = "timestamp" if look is Look.DATE and ":" in value else _TYPES[look]
    return f"Read them as {look.value}s with --types {_shell(f'{name}={type_}')}."


def _shell(text: str) -> str:
    return shlex.quote(shortened(text))


def quoted(text: str) -> str:
    """A text of the data in a message."""
    return repr(shortened(text))


# More rows than this are looked at only if a sample of this many looks like numbers, dates or times.
_SAMPLE = 2_000
_SUSPICIOUS = 0.3
# The nearest of more distinct values than this is looked for only among the first of them.
_MAX_DISTINCT = 10_000
# Numbers, dates and times are no longer than this.
_WIDEST = 40
_AT_ONCE = 64


class TextColumn:
    """A text column in memory, matched against patterns; a dictionary is matched once per entry."""

    def __init__(self, column: Indexed) -> None:
        assert isinstance(column.plain, Text)
        self._array, self._index = column.plain.array, column.index
        self._valid = valid_rows(column)
        self._found: dict[Look, BoolArray] = {}
        self.n_rows = len(self._array) if self._index is None else self._index.size
        self.n_values = self.n_rows if self._valid is None else int(np.count_nonzero(self._valid))

    def facts(self) -> TextFacts:
        """What most values look like, and how many of them do."""
        some = self._sample()
        shares = {look: float(_match(some, look.pattern).mean()) if len(some) else 0.0 for look in Look}
        look = max(shares, key=lambda each: shares[each])
        if shares[look] < _SUSPICIOUS:
            return TextFacts(self.n_values, look, 0, 0)
        if self._index is None and _has_one_layout(self._array):
            # Patterns tell digits from other characters and nothing more, so that one value speaks for all.
            is_sorted = bool(_match(self._array.slice(0, 1), look.sorted_pattern)[0])
            n_like = self.n_values if _match(self._array.slice(0, 1), look.pattern)[0] else 0
            return TextFacts(self.n_values, look, n_like, n_like if is_sorted else 0)
        if self._index is None and 2 * len(pc.unique(some)) < len(some):
            self._encode()
        if look is Look.NUMBER:
            return self._number_facts()
        n_sorted = int(np.count_nonzero(self.matches(look.sorted_pattern)))
        n_like = n_sorted if n_sorted == self.n_values else int(np.count_nonzero(self._likes(look)))
        return TextFacts(self.n_values, look, n_like, n_sorted)

    def _number_facts(self) -> TextFacts:
        n_like = int(np.count_nonzero(self._likes(Look.NUMBER)))
        widths = self._bounds(pc.binary_length(self._array))
        points = self._bounds(pc.find_substring(self._array, "."))
        n_sorted = 0
        if n_like == self.n_values and widths[0] == widths[1] and points[0] == points[1]:
            n_sorted = int(np.count_nonzero(self.matches(Look.NUMBER.sorted_pattern)))
        return TextFacts(self.n_values, Look.NUMBER, n_like, n_sorted, widths, points)

    def _likes(self, look: Look) -> BoolArray:
        if look not in self._found:
            is_plain = look is Look.NUMBER and self._index is None and _is_digits(self._array, self._valid)
            self._found[look] = self.present if is_plain else self.matches(look.pattern)
        return self._found[look]

    def matches(self, pattern: str) -> BoolArray:
        """Which rows have a value that matches."""
        matched: BoolArray = self._spread(_match(self._array, pattern)) & self.present
        return matched

    @property
    def present(self) -> BoolArray:
        return np.ones(self.n_rows, np.bool_) if self._valid is None else self._valid

    def first_unlike(self, look: Look) -> int:
        """The first row whose value does not look so; the first row with a value if all do."""
        odd = self.present & ~self._likes(look)
        return int(np.argmax(odd if odd.any() else self.present))

    def nearest(self, text: str) -> int:
        """The first row whose value is nearest to a text: the same but for case and blanks, else similar, else any."""
        used = self._array if self._index is None else self._array.take(pa.array(np.unique(self._index[self.present])))
        distinct = pc.drop_null(pc.unique(used))
        folded = pc.utf8_lower(pc.utf8_trim_whitespace(distinct))
        # A constant may have half a surrogate pair, which no text in a column can.
        wanted = text.strip().lower().encode("utf-8", "replace").decode()
        same = distinct.filter(pc.equal(folded, pa.scalar(wanted, folded.type)))
        some = same if len(same) else distinct.slice(0, _MAX_DISTINCT)
        near = nearest_name(text, some.to_pylist()) or (some[0].as_py() if len(same) else None)
        if near is None:
            return int(np.argmax(self.present))
        wanted_value = pa.scalar(near, self._array.type)
        # The first row that has it is mostly among the first rows.
        if self._index is None and (place := pc.index(self._array.slice(0, _SAMPLE), wanted_value).as_py()) >= 0:
            return int(place)
        equal = pc.fill_null(pc.equal(self._array, wanted_value), False)
        return int(np.argmax(self._spread(np.asarray(equal.to_numpy(zero_copy_only=False))) & self.present))

    def _sample(self) -> pa.Array:
        rows = np.flatnonzero(self.present)
        if rows.size > _SAMPLE:
            rows = rows[np.random.default_rng(0).integers(0, rows.size, _SAMPLE)]
        return self._array.take(pa.array(rows if self._index is None else self._index[rows]))

    def _encode(self) -> None:
        """From here on match each distinct value once."""
        encoded = self._array.dictionary_encode()
        self._array = encoded.dictionary
        self._index = np.asarray(pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False), np.int64)

    def _bounds(self, numbers: pa.Array) -> tuple[int, int]:
        values = self._spread(np.asarray(pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False), np.int64))
        values = values if self._valid is None else values[self._valid]
        return int(values.min()), int(values.max())

    def _spread(self, of_array: Any) -> Any:
        return of_array if self._index is None else of_array[self._index]


def _has_one_layout(array: pa.Array) -> bool:
    """Whether all values have digits in the same places, and the same characters in all others."""
    offsets = offsets_of(array)
    width = int(offsets[1] - offsets[0]) if len(array) else 0
    if not width or width > _WIDEST or not (np.diff(offsets) == width).all():
        return False
    data = np.frombuffer(array.buffers()[2], np.uint8, len(array) * width, int(offsets[0]))
    first = data[:width]
    is_digit = (first >= ord("0")) & (first <= ord("9"))
    # A byte less the least allowed, unsigned, is at most the room above it; many values at once are faster.
    least = np.tile(np.where(is_digit, ord("0"), first).astype(np.uint8), _AT_ONCE)
    room = np.tile(np.where(is_digit, 9, 0).astype(np.uint8), _AT_ONCE)
    n_whole = len(array) // _AT_ONCE * _AT_ONCE
    whole, rest = data[: n_whole * width].reshape(-1, _AT_ONCE * width), data[n_whole * width :]
    return bool(((whole - least) <= room).all() and ((rest - least[: rest.size]) <= room[: rest.size]).all())


def _is_digits(array: pa.Array, valid: BoolArray | None) -> bool:
    """Whether all values are digits only: they are numbers, and found so much faster than by a pattern."""
    offsets = offsets_of(array)
    widths = np.diff(offsets)
    if not len(array) or not (widths if valid is None else widths[valid]).all():
        return False
    data = np.frombuffer(array.buffers()[2], np.uint8, int(offsets[-1] - offsets[0]), int(offsets[0]))
    return bool(((data - ord("0")) <= 9).all())


def _match(array: pa.Array, pattern: str) -> BoolArray:
    matched = pc.fill_null(pc.match_substring_regex(array, pattern), False)
    return np.array(matched.to_numpy(zero_copy_only=False), np.bool_)


def valid_rows(column: Indexed) -> BoolArray | None:
    """The rows that have a value; None if all have one."""
    valid, index, index_valid = column.plain.valid, column.index, column.index_valid
    if index is not None and valid is not None:
        valid = valid[index]
    if valid is None or index_valid is None:
        return index_valid if valid is None else valid
    return valid & index_valid
