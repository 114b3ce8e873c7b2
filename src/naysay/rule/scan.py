"""A cursor over the text of a rule: it skips space, reads quoted text, and turns a place into an error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from naysay.errors import RuleError
from naysay.rule.nearest import nearest_name

MAX_LENGTH = 65_536
MAX_PREDICATES = 64

QUOTED = r"""'[^'\\\n]*(?:(?:\\[^\n]|'')[^'\\\n]*)*'|"[^"\\\n]*(?:(?:\\[^\n]|"")[^"\\\n]*)*\""""
TICKED = r"`(?:[^`\n]|``)*`"

_SPACE = re.compile(r"(?:\s+|(?:(?<=\s)|^)#[^\n]*)*")
_QUOTED = re.compile(QUOTED)
_TICKED = re.compile(TICKED)
_WORD = re.compile(r"\w+")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))|(''|\"\")", re.DOTALL)
_PLAIN_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", "'": "'", '"': '"', "`": "`"}


class Scanner:
    """Text with a position in it.

    Only `text[position:end]` is read, but places are reported within the whole of `text`, whose first line has
    the number `line`. Where `columns` is given, a column that is not among them is an error.
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
                f"the rule has {self.end - start:,} characters; at most {MAX_LENGTH:,} are read",
                source=source,
                line=line,
                hint="One line holds one rule: was a data file given in place of a rules file?",
            )

        if not text.isascii():
            self._refuse_surrogates()

    def _refuse_surrogates(self) -> None:
        """Half a character cannot be a value of a column, nor be written to a file."""
        try:
            self.text.encode()
        except UnicodeEncodeError as error:
            self.fail(error.start, "this is half a character", "Text is UTF-8.")

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
        """Skip space, then look at what the pattern matches here without taking it."""
        return pattern.match(self.text, self.skip(), self.end)

    def take(self, character: str) -> bool:
        if self.text.startswith(character, self.skip(), self.end):
            self.position += len(character)
            return True
        return False

    def quoted(self) -> str | None:
        """Take a quoted text, if one begins here. One that never closes is an error."""
        position = self.skip()
        if position >= self.end or self.text[position] not in "'\"":
            return None
        found = self.match(_QUOTED)
        if found is None:
            self.fail(position, "this quoted text is never closed", "A newline inside quotes is written \\n.")
        return self.unescape(found.group(), position)

    def ticked(self) -> str | None:
        """Take a name in backticks, if one begins here."""
        position = self.skip()
        if not self.text.startswith("`", position, self.end):
            return None
        found = self.match(_TICKED)
        if found is None:
            self.fail(position, "this backtick is never closed")
        return found.group()[1:-1].replace("``", "`")

    def unescape(self, quoted: str, position: int) -> str:
        """The text that a quoted literal, which begins at a position, stands for."""
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
                return chr(point)
            if found.group(5) is not None:
                return quote if found.group(5)[0] == quote else found.group(5)
            plain = _PLAIN_ESCAPES.get(found.group(4))
            if plain is None:
                self.fail(
                    place,
                    f"\\{found.group(4)} is not an escape",
                    "Known are \\n \\t \\r \\0 \\\\ \\' \\\" \\xNN \\uNNNN \\UNNNNNNNN; a backslash itself is \\\\.",
                )
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
        """The name, if the table has such a column (or if nobody said which it has)."""
        if not name:
            self.fail(position, "the name of a column is empty")
        if self._known is not None and name not in self._known:
            nearest = nearest_name(name, self.columns or ())
            hint = f"Did you mean {nearest!r}?" if nearest else _listed(self.columns or ())
            self.fail(position, f"there is no column {shortened(name)!r}", hint)
        return name

    def here(self) -> str:
        """What stands at the position, in words for an error message."""
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
