"""Every error that naysay raises on purpose, each with its exit code on the command line."""

from __future__ import annotations

# naysay itself is not in a package index, so advice names the packages that its extras need.
INSTALL_SPARK = "pip install 'pyspark[connect]>=3.5'"
INSTALL_GPU = "pip install 'cupy-cuda12x>=13.4'"


class NaysayError(Exception):
    """An error that you can fix; the message says what is wrong, where, and what to do."""

    exit_code = 2


class RuleError(NaysayError):
    """A rule that cannot be read or does not fit the table.

    `line` and `column` count from 1; `source` is the name of the file, or empty. The text of the error shows the line
    with a caret under the position.
    """

    def __init__(
        self, message: str, *, text: str = "", line: int = 1, column: int = 1, source: str = "", hint: str = ""
    ) -> None:
        self.message = message
        self.text = text
        self.line = line
        self.column = column
        self.source = source
        self.hint = hint
        super().__init__(self._render())

    def _render(self) -> str:
        # Without a text or a file there is nothing that a line could be of.
        place = f"{self.source or 'rule'}:{self.line}:{self.column}: " if self.text or self.source else ""
        lines = [f"{place}{self.message}"]
        if self.text:
            shown, caret = _window(self.text, self.column - 1)
            lines += [f"    {shown}", "    " + " " * caret + "^"]
        if self.hint:
            lines.append(self.hint)
        return "\n".join(lines)


def _window(text: str, caret: int, width: int = 110) -> tuple[str, int]:
    """The part of a line around a position, with every character printable, and the position in that part."""
    start = max(0, caret - width * 2 // 3) if len(text) > width else 0
    part = text[start : start + width]
    shown = "".join(character if character.isprintable() else " " for character in part)
    before, after = "…" if start else "", "…" if start + width < len(text) else ""
    return before + shown + after, caret - start + len(before)


class TableError(NaysayError):
    """A frame or file that cannot be read as a table, or a column of a type that rules cannot compare."""


class UsageError(NaysayError):
    """Arguments that contradict each other or ask for something that does not exist."""


class StateError(NaysayError):
    """Saved state that is damaged, not from naysay, or of an unknown version."""

    exit_code = 3


class ResourceError(NaysayError):
    """Work that exceeds a limit; raised before the work starts if its cost can be estimated."""

    exit_code = 4


class CountOverflow(ResourceError):
    """A count beyond 64 bits."""
