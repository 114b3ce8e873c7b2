"""Regular expressions that mean the same to RE2 (in-process) and to Java (on Spark).

`portable` reads the common subset and writes it so that nothing is left to differ: every character that is not a letter
or a digit by its number, and `.`, `\\d`, `\\w` and `\\s` as the characters that they stand for. What only one of them
knows, or what they read differently (`\\b`, `(?i)`, `\\p{L}`, lookahead, back references), is refused by name.
"""

from __future__ import annotations

import re

_MAX_REPEAT = 1_000
_MAX_DEPTH = 50
_DIGIT, _WORD, _SPACE = "0-9", "0-9A-Za-z_", r"\x{9}-\x{d}\x{20}"
_CLASSES = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_COUNT = re.compile(r"\{(\d+)(?:(,)(\d*))?\}", re.ASCII)
_HEX = re.compile(r"x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})")
_GROUPS = {
    **dict.fromkeys("=!", "a lookahead"),
    "<": "a lookbehind or a group name",
    "P": "a group name",
    ">": "an atomic group",
}
_ESCAPES = {
    **dict.fromkeys("bB", ("a word boundary", "Say which characters stand there, such as [^a-z].")),
    **dict.fromkeys("pP", ("a Unicode class", "Write the characters, such as [A-Za-zÀ-ÿ].")),
    **dict.fromkeys("AzZG", ("an anchor", "A pattern always matches the whole value.")),
    **dict.fromkeys("QE", ("quoting", "Write a backslash before each special character.")),
    **dict.fromkeys("123456789gk", ("a back reference", "")),
    **dict.fromkeys("0acehvNRX", ("a special character", r"Write it by its number, such as \x0b.")),
}


class PatternError(ValueError):
    """A pattern that RE2 and Java do not read alike; the arguments are the message and the hint."""


def portable(text: str) -> str:
    r"""A pattern that matches whole values, as both engines read it; PatternError if there is none.

    >>> portable(r"\d{5}|none")
    '\\A(?:[0-9]{5}|none)\\z'
    """
    return rf"\A(?:{_PatternReader(text).read()})\z"


class _PatternReader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.depth = 0

    def read(self) -> str:
        written, _ = self._alternatives()
        if self.place < len(self.text):
            raise PatternError("one ) too many in the pattern", r"Write \) for a parenthesis.")
        return written

    def _here(self) -> str:
        return self.text[self.place : self.place + 1]

    def _take(self, start: str) -> bool:
        if self.text.startswith(start, self.place):
            self.place += len(start)
            return True
        return False

    def _alternatives(self) -> tuple[str, int]:
        """Everything up to a closing parenthesis or the end, and how often a part of it repeats at most."""
        written, most = [], 1
        while True:
            part, repeats = self._sequence()
            written.append(part)
            most = max(most, repeats)
            if not self._take("|"):
                return "|".join(written), most

    def _sequence(self) -> tuple[str, int]:
        written, most = [], 1
        if not self.depth:
            self._take("^")
        while (here := self._here()) and here not in "|)":
            if here == "$" and not self.depth and self.text[self.place + 1 : self.place + 2] in ("", "|"):
                self.place += 1
                break
            atom, inner = self._atom()
            count, times = self._quantifier()
            if inner * times > _MAX_REPEAT:
                raise PatternError(f"the pattern repeats a part more than {_MAX_REPEAT:,} times")
            written.append(atom + count)
            most = max(most, inner * times)
        return "".join(written), most

    def _atom(self) -> tuple[str, int]:
        if self._take("("):
            return self._group()
        if self._take("["):
            return self._class(), 1
        if self._take("."):
            return r"[^\x{a}]", 1
        if self._take("\\"):
            if (found := self._shorthand()) is not None:
                return f"[{found}]", 1
            return _literal(self._escaped()), 1
        here = self._here()
        if here in "*+?{":
            raise PatternError(f"{here!r} in the pattern has nothing to repeat", rf"Write \{here} for the character.")
        if here in "^$":
            raise PatternError(f"{here!r} inside the pattern", "A pattern always matches the whole value.")
        self.place += 1
        return _literal(here), 1

    def _group(self) -> tuple[str, int]:
        if self._take("?") and not self._take(":"):
            what = _GROUPS.get(self._here(), "a flag")
            hint = "Write both cases, such as [Aa]." if what == "a flag" else ""
            raise PatternError(f"(?{self._here()} in the pattern is {what}, which not every engine has", hint)
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise PatternError(f"the pattern nests more than {_MAX_DEPTH} deep")
        inner, most = self._alternatives()
        self.depth -= 1
        if not self._take(")"):
            raise PatternError("a ( of the pattern is never closed", r"Write \( for a parenthesis.")
        return f"(?:{inner})", most

    def _quantifier(self) -> tuple[str, int]:
        """How often the last part repeats, and how often it is copied for that at most."""
        counted = _COUNT.match(self.text, self.place)
        found, times = "", 1
        if counted is not None:
            self.place = counted.end()
            least = int(counted[1])
            most = int(counted[3]) if counted[3] else least
            if most < least or max(least, most) > _MAX_REPEAT:
                raise PatternError(f"{counted[0]} in the pattern is not a number of repetitions up to {_MAX_REPEAT:,}")
            found, times = counted[0], max(least, most, 1)
        elif self._here() and self._here() in "*+?":
            found = self._here()
            self.place += 1
        if found:
            # Whether it takes as few as possible makes no difference to a match of the whole value.
            self._take("?")
            if self._here() and self._here() in "*+?{":
                raise PatternError(f"{found}{self._here()} in the pattern: two quantifiers", "Put the first in (...).")
        return found, times

    def _class(self) -> str:
        negated = "^" if self._take("^") else ""
        written: list[str] = []
        while not (self._here() == "]" and written):
            if not self._here():
                raise PatternError("a [ of the pattern is never closed", r"Write \[ for a bracket.")
            written.append(self._range())
        self.place += 1
        return f"[{negated}{''.join(written)}]"

    def _range(self) -> str:
        """A character, a range or a class such as \\d, inside of brackets."""
        if self.text.startswith(("[:", "[.", "[="), self.place):
            raise PatternError("[: :] in the pattern, which not every engine has", "Write the characters, such as a-z.")
        if self.text.startswith("&&", self.place):
            message = "&& in the pattern, which some engines read as an intersection"
            raise PatternError(message, r"Write & once for the character.")
        if self._take("\\"):
            shorthand = self._shorthand()
            if shorthand is not None and shorthand.startswith("^"):
                raise PatternError("a negated class inside of [...] in the pattern", "Negate the whole: [^...].")
            if shorthand is not None:
                return shorthand
            low = self._escaped()
        else:
            low = self._character()
        if self._here() != "-" or self.text[self.place + 1 : self.place + 2] in ("]", ""):
            return _literal(low)
        self.place += 1
        if self._take("\\"):
            if self._shorthand() is not None:
                raise PatternError("a range in the pattern ends with a class", r"Write \- for a hyphen.")
            high = self._escaped()
        else:
            high = self._character()
        if low > high:
            raise PatternError(f"the range {low}-{high} in the pattern is empty")
        return f"{_literal(low)}-{_literal(high)}"

    def _character(self) -> str:
        self.place += 1
        return self.text[self.place - 1]

    def _shorthand(self) -> str | None:
        r"""The characters that a class such as \d stands for, if one follows the backslash; negated after ^."""
        here = self._here()
        characters = _CLASSES.get(here.lower()) if here else None
        if characters is None:
            return None
        self.place += 1
        return characters if here.islower() else f"^{characters}"

    def _escaped(self) -> str:
        """The character that is meant by what follows the backslash."""
        number = _HEX.match(self.text, self.place)
        if number is not None:
            self.place = number.end()
            point = int(number[1] or number[2] or number[3], 16)
            if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
                raise PatternError(rf"\{number[0]} in the pattern is not a character")
            return chr(point)
        if not self._here():
            raise PatternError("the pattern ends with a backslash", r"Write \\ for a backslash.")
        here = self._character()
        if here in _CONTROL:
            return _CONTROL[here]
        if here.isalnum():
            what, hint = _ESCAPES.get(here, ("an unknown escape", ""))
            raise PatternError(rf"\{here} in the pattern is {what}, which not every engine reads alike", hint)
        return here


def _literal(character: str) -> str:
    is_plain = character.isascii() and character.isalnum()
    return character if is_plain else rf"\x{{{ord(character):x}}}"
