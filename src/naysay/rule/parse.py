"""Read the text of one rule. Nothing is ever evaluated: text becomes values or an error."""

from __future__ import annotations

import re
from collections.abc import Sequence

from naysay.rule import draft, messages
from naysay.rule.draft import ROW, ROW_NAME, Draft, read_predicate
from naysay.rule.formats import foreign
from naysay.rule.model import Predicate, Rule
from naysay.rule.scan import MAX_PREDICATES, QUOTED, Scanner, shortened

BARE_NAME = r"\w(?:[\w ./+-]*\w)?"
_NAME = re.compile(rf"(?:({BARE_NAME})|({QUOTED}))\s*:(?!=)")
_FORALL = re.compile(r"∀|forall(?=\s+[^\W\d])", re.IGNORECASE)
_ROW_NAME = re.compile(ROW_NAME)
_IN = re.compile(r"∈|in\b", re.IGNORECASE)
_OF = re.compile(r"\w+")
_STOP = re.compile(r"[,:.]")
_OTHER_QUANTIFIER = re.compile(r"(?:for all|exists)(?=\s+\w)", re.IGNORECASE)
_NOT = re.compile(r"(?:not\b|¬|!|~)\s*([({\[])", re.IGNORECASE)
_AND = re.compile(r"and\b|&&?|∧|,", re.IGNORECASE)
_CALL = re.compile(r"([^\W\d]\w*)\s*\(")
_ARROW = re.compile(r"->|→")
_NAME_BEGINS = re.compile(r"[\w'\"`]")
_BY = re.compile(r"by\b", re.IGNORECASE)
_CLOSING = {"(": ")", "{": "}", "[": "]"}


def parse(text: str, *, source: str = "", line: int = 1, columns: Sequence[str] | None = None) -> Rule:
    """Read one rule, in any of the accepted forms, with or without `name:` before it.

    Args:
        text: The rule, such as "ZipCode -> City" or "not(t.A == s.A and t.B != s.B)".
        source: The file that the text came from, for errors.
        line: The line of that file, for errors.
        columns: The columns of the table. Any other column in the rule is an error that suggests the nearest name.

    Returns:
        The rule. Text that is not a rule raises a RuleError, which shows the place and what to write.

    >>> parse("ZipCode -> City") == parse("not(t.ZipCode == s.ZipCode and t.City != s.City)")
    True
    """
    return read_rule(Scanner(text, source=source, line=line, columns=columns))


def read_rule(scanner: Scanner) -> Rule:
    """Read `name: rule`, or only a rule, that fills what is left of the scanner."""
    name = _read_name(scanner)
    if scanner.at_end():
        scanner.fail(scanner.position, f"no rule follows the name {shortened(name)!r}" if name else "the rule is empty")
    predicates = _choose(scanner)(scanner)
    if not scanner.at_end():
        messages.after_rule(scanner)
    return Rule(predicates=predicates, name=name)


def _read_name(scanner: Scanner) -> str:
    if scanner.peek(_FORALL):
        return ""
    position = scanner.skip()
    found = scanner.match(_NAME)
    if found is None:
        return ""
    if _OTHER_QUANTIFIER.match(found.group()):
        messages.quantifier(scanner, position, found.group())
    return found.group(1) or scanner.unescape(found.group(2), position)


def _choose(scanner: Scanner) -> foreign.Reader:
    """The reader for the form of rule that begins here."""
    if scanner.peek(_NOT) or scanner.peek(_FORALL):
        return _read_denial
    other = foreign.choose(scanner)
    if other is not None:
        return other
    call = scanner.peek(_CALL)
    if call is not None:
        reader = _SHORTHANDS.get(call.group(1).lower())
        if reader is None and call.group(1).lower() != "not":
            messages.no_function(scanner, call.start(), call.group(1))
        if reader is not None:
            scanner.position = call.end()
            return reader
    return _read_dependency


def _read_denial(scanner: Scanner) -> tuple[Predicate, ...]:
    """Read `not(predicate and predicate ...)`. Parentheses around predicates change nothing and may nest."""
    draft = Draft(scanner, _read_quantifier(scanner))
    denial = scanner.match(_NOT)
    assert denial is not None
    opened = [denial.group(1)]
    while True:
        while scanner.take("("):
            opened.append("(")
            if len(opened) > MAX_PREDICATES:
                scanner.fail(scanner.position - 1, f"parentheses nest more than {MAX_PREDICATES} deep")
        read_predicate(scanner, draft)
        while scanner.take(_CLOSING[opened[-1]]):
            opened.pop()
            if not opened:
                return draft.predicates()
        if not scanner.match(_AND):
            messages.no_join(scanner, opened[-1])


def _read_quantifier(scanner: Scanner) -> list[str]:
    """Read `∀ t, s ∈ r:`, if it is here: it only declares which row is meant by which name."""
    position = scanner.skip()
    if not scanner.match(_FORALL):
        return []
    names = []
    while not scanner.peek(_NOT) and (name := scanner.match(_ROW_NAME)) is not None:
        names.append(name.group())
        if len(names) > 2 or not scanner.take(","):
            break
    if scanner.match(_IN):
        scanner.match(_OF)
    scanner.match(_STOP)
    if not names or len(names) > 2 or not scanner.peek(_NOT):
        messages.quantifier(scanner, position, "forall")
    return names


def _read_key(scanner: Scanner) -> tuple[Predicate, ...]:
    columns = _read_columns(scanner, "key")
    _close(scanner, "key")
    return draft.key(columns)


_SHORTHANDS: dict[str, foreign.Reader] = {
    "key": _read_key,
    "ordered": lambda scanner: draft.ordered(*_read_two_by(scanner, "ordered")),
    "no_overlap": lambda scanner: draft.no_overlap(*_read_two_by(scanner, "no_overlap")),
}


def _read_two_by(scanner: Scanner, what: str) -> tuple[str, str, list[str]]:
    """Read `A, B by C, D)`, of which `by C, D` may be missing."""
    position = scanner.skip()
    two = _read_columns(scanner, what)
    by = _read_columns(scanner, what, taken=two) if scanner.match(_BY) else []
    _close(scanner, what)
    if len(two) != 2:
        scanner.fail(position, f"{what} takes two columns, not {len(two)}", f"Write {what}(A, B) or {what}(A, B by C).")
    return two[0], two[1], by


def _read_dependency(scanner: Scanner) -> tuple[Predicate, ...]:
    """Read `A, B -> C`."""
    if scanner.peek(ROW) or not scanner.peek(_NAME_BEGINS):
        messages.not_a_rule(scanner)
    left = _read_columns(scanner, "->")
    if not scanner.match(_ARROW):
        messages.no_arrow(scanner, left)
    position = scanner.skip()
    right = _read_columns(scanner, "->", taken=left)
    if len(right) > 1:
        messages.two_on_the_right(scanner, position, left, right)
    return draft.dependency(left, right[0])


def _read_columns(scanner: Scanner, what: str, taken: Sequence[str] = ()) -> list[str]:
    """Read one or more names of columns, with commas between them and none twice."""
    names: list[str] = []
    while True:
        keyword = what != "->" and scanner.peek(_BY)
        found = scanner.column_name() if not keyword else None
        if found is None:
            messages.no_name(scanner, what)
        name, position = found
        if name in names or name in taken:
            where = "this rule" if what == "->" else what
            scanner.fail(position, f"{where} names {shortened(name)!r} twice", "Name each column once.")
        names.append(name)
        if len(names) > MAX_PREDICATES:
            scanner.fail(position, f"a rule has at most {MAX_PREDICATES} predicates")
        if not scanner.take(","):
            return names


def _close(scanner: Scanner, what: str) -> None:
    if not scanner.take(")"):
        messages.not_closed(scanner, what)
