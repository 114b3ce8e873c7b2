"""What is said of text that has no form of a rule: each function raises a RuleError that tells what to write."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from naysay.rule.complain import implication
from naysay.rule.nearest import nearest_name
from naysay.rule.scan import Scanner, shortened

_WORD = r"\w+"
_ROWS = r"[^\W\d]\w*['′’]*\s*[.\[]"
_COMPARED = r"(==?|!=|<>|<=?|>=?|≠|≤|≥)\s*(?:([^\W\d]\w*)|(\S+))\s*\Z"
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


def after_rule(scanner: Scanner) -> NoReturn:
    """Text follows a whole rule."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end]
    word = re.match(_WORD, rest)
    if rest[0] in ")]}":
        scanner.fail(position, f"one {rest[0]} too many")
    if rest[0] in "&∧,;" or (word is not None and word.group().lower() in ("and", "or")):
        scanner.fail(
            position, "the rule ended before this", "One line holds one rule; all predicates go inside one not(...)."
        )
    hint = "One line holds one rule."
    if rest[0] == ".":
        hint += " A shorthand names columns without rows, and a name with a dot is quoted."
    elif word is not None:
        hint += " A name with a space is quoted."
    scanner.fail(position, f"the rule ended before {scanner.here()}", hint)


def not_a_rule(scanner: Scanner) -> NoReturn:
    """What stands here begins no form of rule."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end].strip()
    if re.match(_ROWS, rest):
        _bare_predicates(scanner, position, rest)
    if rest[:1] == "[" and re.match(_ROWS, rest[1:].lstrip()):
        hint = "Write [DC: t0.A == t1.A  t0.B <> t1.B ]."
        scanner.fail(position, "a list of predicates begins with [DC:", hint)
    for beginning, at, message, hint in _NO_RULE:
        if rest.startswith(beginning):
            scanner.fail(position + at, message.format(rest[0]), hint)
    scanner.fail(position, f"{scanner.here()} begins no rule", _FORMS)


_NO_RULE = (
    (("¬", "!", "~"), 1, "a ( should follow {}", "Write not(t.A == s.A and t.B != s.B)."),
    (("∃", "∄"), 0, "a rule speaks of all rows, not of some", "Such as ∀ t, s: ¬(t.A = s.A ∧ t.B ≠ s.B)."),
    (("(", "{"), 0, "a rule says what must never be true: not(...)", "Put 'not' before the parenthesis."),
    (("->", "→"), 0, "no columns stand before the arrow", "Write A, B -> C."),
)


def _bare_predicates(scanner: Scanner, position: int, rest: str) -> NoReturn:
    message = "a rule says what must never be true: not(...)"
    word = re.match(_WORD, rest)
    if word is not None:
        _lone_word(scanner, position + word.end(), word.group().lower(), rest[word.end() :])
    compares = re.search(r"[=<>≠≤≥]", rest.replace("->", "").replace("=>", "")) is not None
    if not compares and ("->" in rest or "→" in rest):
        hint = 'Write A, B -> C; a name with a dot is quoted: "A.B" -> C.'
        scanner.fail(position, "the arrow stands between names of columns, without rows", hint)
    if "->" in rest or "=>" in rest or "→" in rest:
        implication(scanner, position)
    if not compares:
        scanner.fail(position, message, _FORMS)
    scanner.fail(position, message, f"Write not({rest})." if len(rest) <= 80 else "Put the predicates inside not(...).")


def quantifier(scanner: Scanner, position: int, word: str) -> NoReturn:
    """A quantifier that is not complete, or is another than `forall`."""
    hint = "Such as forall t, s: not(t.A == s.A and t.B != s.B)."
    if word.lower().startswith("for"):
        scanner.fail(position, "one or two row names and not(...) should follow 'forall'", hint)
    scanner.fail(position, "a rule speaks of all rows, not of some", hint)


def no_function(scanner: Scanner, position: int, name: str) -> NoReturn:
    meant = _ALSO_CALLED.get(name.lower()) or nearest_name(name, SHORTHANDS)
    hint = f"Did you mean {meant}(...)?" if meant else _FORMS
    scanner.fail(position, f"there is no shorthand {shortened(name)!r}", hint)


def no_arrow(scanner: Scanner, names: Sequence[str]) -> NoReturn:
    """A list of columns is not followed by an arrow."""
    position = scanner.skip()
    rest = scanner.text[position : scanner.end]
    listed, last = shortened(", ".join(names), 60), shortened(names[-1])
    if len(names) == 1:
        _lone_word(scanner, position, names[0].lower(), rest)
    if not rest:
        scanner.fail(position, "an arrow and a column should follow", f"Write {listed} -> C, or key({listed}).")
    if rest.startswith(("=>", "⇒", "-", "–", "—", "<-", "↔")):
        hint = f'A name with a - is quoted: "{last}-…".' if re.match(r"-\w", rest) else f"Write {listed} -> C."
        scanner.fail(position, f"{shortened(rest.split(None, 1)[0], 4)!r} is not an arrow", hint)
    if rest[0] in "=!<>≠≤≥⩽⩾":
        scanner.fail(position, "a comparison stands outside not(...)", _named_rows(last, rest))
    if rest[0] == ".":
        scanner.fail(position, f"'.' after {last!r}", f'A name with a dot is quoted: "{last}.…".')
    if rest[0] == ":":
        scanner.fail(position, f"a second name {last!r}", "One name stands before a rule: name: A -> B.")
    hint = f'A name with a space is quoted: "{last} …".' if re.match(_WORD, rest) else _FORMS
    scanner.fail(position, f"a comma or -> should stand before {scanner.here()}", hint)


def _lone_word(scanner: Scanner, position: int, word: str, rest: str) -> None:
    """A single word that is no column, most likely: `not t.A == s.A`, `if ... then`, `key A`."""
    if word == "not":
        scanner.fail(position, "a ( should follow 'not'", "Write not(t.A == s.A and t.B != s.B).")
    if word == "if":
        implication(scanner, position)
    if word in ("forall", "exists"):
        quantifier(scanner, position, word)
    if word in SHORTHANDS and rest[:1] not in (",", "-"):
        scanner.fail(position, f"a ( should follow {word!r}", f"Write {_EXAMPLES[word]}.")


def _named_rows(column: str, rest: str) -> str:
    """How `column` and the comparison after it would look as a rule."""
    found = re.fullmatch(_COMPARED, rest)
    if found is None:
        return f"Name the rows: not(t.{column} …)."
    op, other, value = found.groups()
    if other is None:
        return f"Name the row: not(t.{column} {op} {shortened(value)})."
    other = shortened(other)
    return f"Name the rows: not(t.{column} {op} t.{other}) is of one row, not(t.{column} {op} s.{other}) of two."


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
