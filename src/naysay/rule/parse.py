"""Read the text of one rule. Nothing is ever evaluated: text becomes values or an error."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import replace

from naysay.rule import draft, messages
from naysay.rule.draft import OPS, ROW, ROW_NAME, Draft, read_domain, read_operator, read_predicate
from naysay.rule.formats import foreign
from naysay.rule.literal import read_constant
from naysay.rule.model import Between, Column, Freshness, Op, Predicate, Row, RowCount, Rule
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
_WHERE = re.compile(r"where\b", re.IGNORECASE)
_FILTER_AND = re.compile(r"and\b|&&?|∧", re.IGNORECASE)
_COMPARISON = re.compile(r"[=!<>≠≤≥⩽⩾]+")
_ROW_COUNT = re.compile(r"row_count\b(?=\s*(?:[=!<>≠≤≥⩽⩾]|(?:not\s+)?between\b))", re.IGNORECASE)
_FRESHNESS = re.compile(r"freshness\s*\(", re.IGNORECASE)
_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(second|minute|hour|day|week)s?\b", re.IGNORECASE)
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
    rule = _read_measure(scanner) or Rule(_choose(scanner)(scanner))
    if scanner.match(_WHERE):
        rule = _filtered(scanner, rule, _read_filter(scanner))
    if not scanner.at_end():
        messages.after_rule(scanner)
    return replace(rule, name=name)


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


def _read_measure(scanner: Scanner) -> Rule | None:
    """Read a rule about the whole table, such as `row_count >= 1000`, if one begins here."""
    if scanner.match(_ROW_COUNT):
        return Rule((), measure=_read_row_count(scanner))
    if scanner.match(_FRESHNESS):
        columns = _read_columns(scanner, "freshness")
        _close(scanner, "freshness")
        if len(columns) > 1:
            scanner.fail(scanner.position, f"freshness takes one column, not {len(columns)}", _FRESHNESS_HINT)
        return Rule((), measure=_read_freshness(scanner, columns[0]))
    return None


_FRESHNESS_HINT = "Write freshness(updated_at) < 1 day; units are second, minute, hour, day and week."


def _read_row_count(scanner: Scanner) -> RowCount:
    position = scanner.skip()
    found = read_domain(scanner)
    if found is None:
        op, constant = read_operator(scanner), read_constant(scanner)
        low, high = None if constant is None else constant.value, None
    else:
        assert isinstance(found[1], Between)
        op, low, high = Op.GE, found[1].low.value, found[1].high.value
    is_whole = all(type(end) is int for end in (low, high) if end is not None)
    if not isinstance(low, int) or not is_whole or (found is not None and found[0] is Op.NE):
        hint = "Write row_count >= 1000, or row_count between 1000 and 2000."
        scanner.fail(position, "row_count compares with a whole number", hint)
    return RowCount(op, low, high if isinstance(high, int) else None)


def _read_freshness(scanner: Scanner, column: str) -> Freshness:
    position = scanner.skip()
    op = read_operator(scanner) if scanner.peek(_COMPARISON) else None
    age = scanner.match(_AGE) if op in (Op.LT, Op.LE) else None
    if op is None or age is None:
        scanner.fail(position, "expected < and an age after freshness(...)", _FRESHNESS_HINT)
    unit = f"{age.group(2).lower()}s"
    return Freshness(column, op, datetime.timedelta(**{unit: float(age.group(1))}))


def _read_filter(scanner: Scanner) -> list[Predicate]:
    """Read the conditions after `where`, about columns without rows, as predicates of t."""
    conditions = []
    while True:
        if scanner.peek(ROW):
            messages.row_in_filter(scanner)
        found = scanner.column_name()
        if found is None:
            messages.no_name(scanner, "where")
        conditions.append(_read_condition(scanner, Column(Row.LEFT, found[0])))
        if not scanner.match(_FILTER_AND):
            return conditions


def _read_condition(scanner: Scanner, column: Column) -> Predicate:
    domain = read_domain(scanner)
    if domain is not None:
        return Predicate(column, *domain)
    op, constant = read_operator(scanner), read_constant(scanner)
    if constant is not None:
        return Predicate(column, op, constant)
    other = scanner.column_name()
    if other is None:
        messages.no_operand(scanner)
    return Predicate(column, op, Column(Row.LEFT, other[0]))


def _filtered(scanner: Scanner, rule: Rule, conditions: Sequence[Predicate]) -> Rule:
    """The rule about only those rows that meet the conditions: both rows of a pair."""
    both = rule.measure is None and not rule.is_one_row
    added = [each for condition in conditions for each in (condition, *([condition.swapped()] if both else ()))]
    if len(rule.predicates) + len(added) > MAX_PREDICATES:
        scanner.fail(scanner.position, f"a rule has at most {MAX_PREDICATES} predicates, and a filter counts per row")
    return replace(rule, predicates=(*rule.predicates, *added))


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


def _read_key(scanner: Scanner, what: str = "key") -> tuple[Predicate, ...]:
    columns = _read_columns(scanner, what)
    _close(scanner, what)
    return draft.key(columns)


_SHORTHANDS: dict[str, foreign.Reader] = {
    "key": _read_key,
    "unique": lambda scanner: _read_key(scanner, "unique"),
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
    """Read `A, B -> C`, or what must be true of each value of one column: `A is not null`, `A >= 0`."""
    if scanner.peek(ROW) or not scanner.peek(_NAME_BEGINS):
        messages.not_a_rule(scanner)
    left = _read_columns(scanner, "->")
    required = _read_requirement(scanner, left[0]) if len(left) == 1 else None
    if required is not None:
        return (required,)
    if not scanner.match(_ARROW):
        messages.no_arrow(scanner, left)
    position = scanner.skip()
    right = _read_columns(scanner, "->", taken=left)
    if len(right) > 1:
        messages.two_on_the_right(scanner, position, left, right)
    return draft.dependency(left, right[0])


def _read_requirement(scanner: Scanner, name: str) -> Predicate | None:
    """What no row may have, if a condition on the column follows: the opposite of the condition."""
    column = Column(Row.LEFT, name)
    domain = read_domain(scanner)
    if domain is not None:
        return Predicate(column, domain[0].negated, domain[1])
    position, found = scanner.skip(), scanner.match(_COMPARISON)
    constant = read_constant(scanner) if found is not None and found.group() in OPS else None
    if found is None or constant is None or scanner.peek(_ARROW):
        # Two columns may belong to one row or to two.
        scanner.position = position
        return None
    return Predicate(column, OPS[found.group()].negated, constant)


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
