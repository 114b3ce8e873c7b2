"""What is said of text that is no rule: each function raises a RuleError that tells a person what to write."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from naysay.rule.nearest import nearest_name
from naysay.rule.scan import Scanner, shortened

_WORD = re.compile(r"\w+")
_ODD_NAME = re.compile(r"[^\s=!<>~≠≤≥,&∧)\]}]+")
_NUMBERLIKE = re.compile(r"[+-]?\.?\d[\w.]*")
_ROWS = re.compile(r"[^\W\d]\w*['′’]*\s*[.\[]")
_OPERATORS = {
    "=<": "<=",
    "=>": ">=",
    "===": "==",
    "!==": "!=",
    "=!": "!=",
    "~=": "!=",
    "!": "!=",
    "~": "!=",
    "><": "<>",
    ":=": "==",
    "=:": "==",
    ":": "==",
    "<<": "<",
    ">>": ">",
    "<=>": "==",
    "=~": "==",
}
_NULLS = {"null", "none", "na", "nil", "missing", "nat"}
_COMPARING_WORDS = {
    "eq": "==",
    "is": "==",
    "equals": "==",
    "ne": "!=",
    "neq": "!=",
    "iq": "!=",
    "lt": "<",
    "gt": ">",
    "le": "<=",
    "lte": "<=",
    "ge": ">=",
    "gte": ">=",
}
_UNSUPPORTED_WORDS = {
    "in": "Write one rule for each value, or compare with < and > for a range.",
    "like": "A rule compares whole values; put the pattern into a column of its own.",
    "ilike": "A rule compares whole values; put the pattern into a column of its own.",
    "between": "Write two comparisons: t.A >= 1 and t.A <= 9.",
    "contains": "A rule compares whole values; put what it contains into a column of its own.",
    "matches": "A rule compares whole values; put the match into a column of its own.",
}
_FORMS = "A rule is not(t.A == s.A and t.B != s.B), key(A, B), A -> B, ordered(A, B by C) or no_overlap(A, B by C)."
_EXAMPLES = {
    "key": "key(A, B)",
    "ordered": "ordered(A, B by C)",
    "no_overlap": "no_overlap(Start, End by Room)",
    "->": "A, B -> C",
}
SHORTHANDS = ("key", "ordered", "no_overlap")
_ALSO_CALLED = {
    "unique": "key",
    "primary_key": "key",
    "pk": "key",
    "distinct": "key",
    "monotone": "ordered",
    "monotonic": "ordered",
    "increasing": "ordered",
    "order": "ordered",
    "overlap": "no_overlap",
    "disjoint": "no_overlap",
}


def no_operand(scanner: Scanner) -> NoReturn:
    """Neither a column nor a constant stands at the position."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end]
    if not rest:
        scanner.fail(position, "the rule ends where a column or a constant should follow", "Is a ) missing?")
    number = _NUMBERLIKE.match(rest)
    if number is not None:
        text = shortened(number.group())
        scanner.fail(position, f"{text!r} is not a number", f"As text it is '{text}'; numbers are 12, -1.5 or 2e9.")
    word = _WORD.match(rest)
    if word is not None:
        _word_as_operand(scanner, position, word.group())
    if rest[0] in "“”„‘«»":
        scanner.fail(position, f"{rest[0]} does not open a text", "Use straight quotes: 'text' or \"text\".")
    if rest[0] in "+-*/%":
        scanner.fail(position, "a rule does not calculate", "Put the result into a column of its own and compare that.")
    if rest[0] in "¬!":
        _inner_not(scanner, position)
    if rest[0] in "$?@{:":
        scanner.fail(position, f"{rest[0]!r} does not begin a column or a constant", "A rule has no parameters.")
    scanner.fail(position, f"a column such as t.A, or a constant, should stand before {rest[0]!r}")


def _word_as_operand(scanner: Scanner, position: int, word: str) -> NoReturn:
    lower = word.lower()
    if lower in _NULLS:
        scanner.fail(
            position,
            f"a rule cannot compare with {word}",
            "A comparison with null is false by default; nulls=equal makes null equal to null.",
        )
    if lower == "not":
        _inner_not(scanner, position)
    if lower in ("and", "or"):
        scanner.fail(position, f"a predicate is missing before {word!r}")
    if lower in ("date", "time", "timestamp", "datetime", "decimal", "interval"):
        scanner.fail(position, f"{word} is not followed by a quoted text", _example(lower))
    if scanner.text.startswith("(", position + len(word), scanner.end):
        scanner.fail(
            position,
            f"a rule has no function {shortened(word)!r}",
            "Put the result into a column of its own and compare that.",
        )
    scanner.fail(
        position,
        f"{shortened(word)!r} is neither a column of a row nor a constant",
        f"The column is t.{shortened(word)}; the text is '{shortened(word)}' in quotes.",
    )


def _example(word: str) -> str:
    examples = {"date": "'2024-01-31'", "time": "'13:45:00'", "decimal": "'0.10'"}
    kind = word if word in examples else "timestamp"
    return f"Write {kind} {examples.get(kind, repr('2024-01-31 13:45:00'))}."


def _inner_not(scanner: Scanner, position: int) -> NoReturn:
    scanner.fail(
        position,
        "not stands once, before the whole rule",
        "Turn the comparison round: not (a == b) is a != b, and not (a < b) is a >= b.",
    )


def no_operator(scanner: Scanner) -> NoReturn:
    """No comparison stands at the position."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end]
    if not rest or rest[0] in ")]}":
        scanner.fail(position, "a comparison is missing here", "A predicate is t.A == s.A, with = != < <= > >=.")
    word = _WORD.match(rest)
    if word is not None:
        lower = word.group().lower()
        if lower in _COMPARING_WORDS:
            _word_as_operator(scanner, position, rest, word.group())
        if lower in _UNSUPPORTED_WORDS:
            scanner.fail(position, f"a rule does not have {word.group()!r}", _UNSUPPORTED_WORDS[lower])
        if lower in ("and", "or"):
            scanner.fail(position, f"a comparison is missing before {word.group()!r}")
        scanner.fail(
            position,
            f"a comparison should stand before {shortened(word.group())!r}",
            'A name with a space is quoted: t["Phone No"].',
        )
    if rest[0] in "+-*/%^|":
        scanner.fail(position, "a rule does not calculate", "Put the result into a column of its own and compare that.")
    scanner.fail(position, f"a comparison should stand before {rest[0]!r}", "It is one of = != < <= > >=.")


def _word_as_operator(scanner: Scanner, position: int, rest: str, word: str) -> NoReturn:
    following = rest[len(word) :].split(None, 2)
    negated = following[:1] and following[0].lower() == "not"
    if word.lower() == "is" and any(part.lower() in _NULLS for part in following[: 2 if negated else 1]):
        scanner.fail(
            position,
            "a rule cannot ask whether a value is null",
            "A comparison with null is false by default, so t.A == t.A is true exactly where A is not null.",
        )
    meant = "!=" if negated else _COMPARING_WORDS[word.lower()]
    scanner.fail(position, f"{word!r} is not a comparison", f"Write {meant}.")


def wrong_operator(scanner: Scanner, position: int, text: str) -> NoReturn:
    meant = _OPERATORS.get(text)
    hint = f"Write {meant}." if meant else "It is one of = != < <= > >=."
    scanner.fail(position, f"{shortened(text)!r} is not a comparison", hint)


def chained(scanner: Scanner, position: int) -> NoReturn:
    scanner.fail(
        scanner.skip(), "a second comparison follows the first", "Write a < b and b < c in place of a < b < c."
    )


def odd_name(scanner: Scanner, position: int, row: str) -> NoReturn:
    """A bare name goes on with a character that only quoted names have."""
    found = _ODD_NAME.match(scanner.text, position, scanner.end)
    name = found.group().rstrip(".(") if found is not None else ""
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    scanner.fail(
        scanner.position,
        f"{scanner.text[scanner.position]!r} in the name of a column",
        f'Quote the name: {row}["{shortened(quoted)}"].',
    )


def no_column(scanner: Scanner, row: str, opening: str) -> NoReturn:
    where = "after the dot" if opening == "." else "in the brackets"
    scanner.fail(
        scanner.skip(),
        f"the name of a column should follow {where}, not {scanner.here()}",
        f'Write {row}.Name or {row}["Odd name"].',
    )


def third_row(scanner: Scanner, position: int, row: str, names: Sequence[str]) -> NoReturn:
    scanner.fail(
        position,
        f"a third row {shortened(row)!r} beside {names[0]!r} and {names[1]!r}",
        "A rule speaks of one row or of two.",
    )


def undeclared_row(scanner: Scanner, position: int, row: str, declared: Sequence[str]) -> NoReturn:
    scanner.fail(position, f"the row {shortened(row)!r} is not among the rows announced: {', '.join(declared)}")


def no_join(scanner: Scanner, opening: str) -> NoReturn:
    """Neither `and` nor the closing parenthesis follows a predicate."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end]
    if not rest:
        scanner.fail(position, f"the {opening} is never closed", "A rule in a rules file stands on one line.")
    word = _WORD.match(rest)
    if (word is not None and word.group().lower() in ("or", "xor")) or rest[0] in "|∨":
        scanner.fail(position, "a rule joins its predicates by 'and' alone", "Write one rule for each side of 'or'.")
    if rest.startswith(("->", "=>", "→", "⇒")) or (word is not None and word.group().lower() in ("implies", "then")):
        scanner.fail(
            position,
            "a rule does not imply, it denies",
            "if P then Q is not(P and the opposite of Q); for columns alone write A, B -> C.",
        )
    if rest[0] in "+-*/%":
        scanner.fail(position, "a rule does not calculate", "Put the result into a column of its own and compare that.")
    if rest[0] in ")]}":
        scanner.fail(position, f"{rest[0]} does not close {opening}")
    scanner.fail(position, f"'and' or a closing parenthesis should stand before {scanner.here()}")


def after_rule(scanner: Scanner) -> NoReturn:
    """Text follows a whole rule."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end]
    word = _WORD.match(rest)
    if rest[0] in ")]}":
        scanner.fail(position, f"one {rest[0]} too many")
    if rest[0] in "&∧,;" or (word is not None and word.group().lower() in ("and", "or")):
        scanner.fail(
            position, "the rule ended before this", "One line holds one rule; all predicates go inside one not(...)."
        )
    scanner.fail(position, f"the rule ended before {scanner.here()}", "One line holds one rule.")


def not_a_rule(scanner: Scanner) -> NoReturn:
    """What stands here begins no form of rule."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end].strip()
    if _ROWS.match(rest):
        hint = f"Write not({rest})." if len(rest) <= 80 else "Put the predicates inside not(...)."
        if "->" in rest or "=>" in rest or "→" in rest:
            hint = "For columns alone write A, B -> C; otherwise not(P and the opposite of Q)."
        scanner.fail(position, "a rule says what must never be true: not(...)", hint)
    word = _WORD.match(rest)
    if word is not None and word.group().lower() == "not":
        scanner.fail(position + 3, "a ( should follow 'not'", "Write not(t.A == s.A and t.B != s.B).")
    if rest[:1] in ("¬", "!", "~"):
        scanner.fail(position + 1, f"a ( should follow {rest[0]}", "Write not(t.A == s.A and t.B != s.B).")
    if rest[:1] in ("(", "{"):
        scanner.fail(position, "a rule says what must never be true: not(...)", "Put 'not' before the parenthesis.")
    if rest.startswith(("->", "→")):
        scanner.fail(position, "no columns stand before the arrow", "Write A, B -> C.")
    scanner.fail(position, f"{scanner.here()} begins no rule", _FORMS)


def no_function(scanner: Scanner, position: int, name: str) -> NoReturn:
    meant = _ALSO_CALLED.get(name.lower()) or nearest_name(name, SHORTHANDS)
    hint = f"Did you mean {meant}(...)?" if meant else _FORMS
    scanner.fail(position, f"there is no shorthand {shortened(name)!r}", hint)


def no_arrow(scanner: Scanner, names: Sequence[str]) -> NoReturn:
    """A list of columns is not followed by an arrow."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end]
    listed, last = shortened(", ".join(names), 60), shortened(names[-1])
    if not rest:
        scanner.fail(position, "an arrow and a column should follow", f"Write {listed} -> C, or key({listed}).")
    if rest.startswith(("=>", "⇒", "-->", "–>", "—>", "=>>", "-", "–", "—")):
        scanner.fail(position, f"{shortened(rest.split(None, 1)[0], 4)!r} is not an arrow", f"Write {listed} -> C.")
    if rest[0] in "=!<>≠≤≥⩽⩾":
        hint = f"Name the rows: not(t.{last} {_comparison(rest)} ...)."
        scanner.fail(position, "a comparison stands outside not(...)", hint)
    if rest[0] == ".":
        scanner.fail(position, f"'.' after {last!r}", f'A name with a dot is quoted: "{last}.…".')
    if _WORD.match(rest):
        scanner.fail(
            position,
            f"a comma or -> should stand before {scanner.here()}",
            f'A name with a space is quoted: "{last} …".',
        )
    scanner.fail(position, f"a comma or -> should stand before {scanner.here()}", _FORMS)


def _comparison(rest: str) -> str:
    return rest[: 1 + (rest[1:2] in ("=", ">"))]


def two_on_the_right(scanner: Scanner, position: int, left: Sequence[str], right: Sequence[str]) -> NoReturn:
    determinant = ", ".join(left)
    rules = " and ".join(f"{determinant} -> {name}" for name in right)
    scanner.fail(
        position,
        "one column stands on the right of ->",
        f"Write {len(right)} rules: {rules}." if len(rules) <= 100 else "Write one rule for each column on the right.",
    )


def no_name(scanner: Scanner, what: str) -> NoReturn:
    """A list of columns lacks a name."""
    scanner.fail(
        scanner.skip(), f"the name of a column should stand before {scanner.here()}", f"Write {_EXAMPLES[what]}."
    )


def name_twice(scanner: Scanner, position: int, what: str, name: str) -> NoReturn:
    where = "this rule" if what == "->" else what
    scanner.fail(position, f"{where} names {shortened(name)!r} twice", "Each column is named once.")


def not_closed(scanner: Scanner, what: str) -> NoReturn:
    """Neither a comma nor the closing parenthesis follows a name in a shorthand."""
    position = scanner.skip()
    if position >= scanner.end:
        scanner.fail(position, f"the ( of {what} is never closed", f"Write {_EXAMPLES[what]}.")
    if scanner.text[position] in ".[":
        scanner.fail(
            position,
            f"{what} takes names of columns, without a row before them",
            f"Write {_EXAMPLES[what]}; a name with a dot is quoted.",
        )
    scanner.fail(position, f"a comma or ) should stand before {scanner.here()}", f"Write {_EXAMPLES[what]}.")


def no_raw_operand(scanner: Scanner, position: int, raw: str) -> NoReturn:
    """An operand of a foreign rule is neither a column of a row nor a constant."""
    if not raw:
        scanner.fail(position, "a column such as t1.A, or a constant, is missing here")
    scanner.fail(
        position,
        f"{shortened(raw)!r} is neither a column of a row nor a constant",
        "A column is t1.A, a text stands in quotes.",
    )
