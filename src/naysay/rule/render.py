"""Rules as text: `parse(render(rule))` is the same rule."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal

from naysay.errors import RuleError
from naysay.rule.literal import write_constant, write_quoted
from naysay.rule.model import (
    Between,
    Column,
    Constant,
    Domain,
    Freshness,
    Missing,
    OneOf,
    Op,
    Pattern,
    Predicate,
    Row,
    RowCount,
    Rule,
    RuleKind,
    Value,
    kind,
    spans,
    split_same,
    split_where,
)
from naysay.rule.scan import is_plain

_BARE = re.compile(r"[^\W\d]\w*")
_KEYWORDS = frozenset(["not", "by", "forall", "row_count"])
# Bare words that are read as a constant, not as a column.
_CONSTANTS = frozenset(["nan", "inf", "infinity", "true", "false"])
_DOUBLED = re.compile(r"\\\\(\\.|[^\\])", re.DOTALL)
_ESCAPES = frozenset([*"ntr0'`xuU", *(f"\\{character}" for character in 'ntr0\\"xuU')])
_UNITS = (("week", 604_800), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def render(rule: Rule, *, short: bool = False) -> str:
    """Write the predicates of a rule as text that `parse` reads back.

    Args:
        rule: The rule. Its name, severity, tolerance and description are not written: see `render_file`.
        short: Write a shorthand such as `A -> B` if one means the same; it may reorder the predicates.

    Returns:
        The text, such as "not(t.A == s.A and t.B != s.B)".

    >>> from naysay.rule import parse
    >>> render(parse("ZipCode -> City"))
    'not(t.ZipCode == s.ZipCode and t.City != s.City)'
    >>> render(parse("not(t.ZipCode == s.ZipCode and t.City != s.City)"), short=True)
    'ZipCode -> City'
    """
    if not rule.predicates and rule.measure is None:
        raise RuleError("a rule without predicates cannot be written")
    if short or rule.measure is not None:
        core, filters = split_where(rule)
        text = _shorthand(core)
        if text and all(_is_condition(condition) for condition in filters):
            return text + (f" where {' and '.join(map(_condition, filters))}" if filters else "")
    return f"not({' and '.join(render_predicate(predicate) for predicate in rule.predicates)})"


def render_predicate(predicate: Predicate) -> str:
    """Write one predicate, such as `t.A == s.A`."""
    return f"{render_operand(predicate.left)} {render_comparison(predicate)}"


def render_comparison(predicate: Predicate) -> str:
    """What follows the left column: the comparison and the other operand, or the domain."""
    if isinstance(predicate.right, Domain):
        return _render_domain(predicate.op, predicate.right)
    return f"{predicate.op.value} {render_operand(predicate.right)}"


def _render_domain(op: Op, domain: Domain) -> str:
    if isinstance(domain, Missing):
        return "is null" if op is Op.EQ else "is not null"
    negated = "" if op is Op.EQ else "not "
    if isinstance(domain, OneOf):
        return f"{negated}in ({', '.join(write_constant(constant.value) for constant in domain.values)})"
    if isinstance(domain, Between):
        return f"{negated}between {write_constant(domain.low.value)} and {write_constant(domain.high.value)}"
    assert isinstance(domain, Pattern)
    return f"{negated}matches {_write_pattern(domain.text)}"


def _write_pattern(text: str) -> str:
    """A pattern in quotes. A backslash is doubled only if one would be read as the escape of a text."""
    quoted = write_quoted(text)
    return _DOUBLED.sub(lambda found: found.group() if found.group(1) in _ESCAPES else f"\\{found.group(1)}", quoted)


def _render_measure(measure: RowCount | Freshness) -> str:
    if isinstance(measure, Freshness):
        return f"freshness({_names([measure.column])}) {measure.op.value} {render_age(measure.age)}"
    if measure.high is not None:
        return f"row_count between {measure.low} and {measure.high}"
    return f"row_count {measure.op.value} {measure.low}"


def render_age(age: datetime.timedelta) -> str:
    """An age in the largest unit of which it is a whole number: `1 day`, `90 minutes`."""
    for unit, seconds in _UNITS:
        number, rest = divmod(age, datetime.timedelta(seconds=seconds))
        if number and not rest:
            return f"{number} {unit}{'' if number == 1 else 's'}"
    return f"{age.total_seconds():f} seconds"


def _is_condition(predicate: Predicate) -> bool:
    """Whether it can be written without rows: a quoted name on the right would be a text."""
    right = predicate.right
    if not isinstance(right, Column):
        return True
    return _BARE.fullmatch(right.name) is not None and right.name.lower() not in _CONSTANTS


def _condition(predicate: Predicate) -> str:
    """A predicate of t without its row."""
    right, name = predicate.right, _names([predicate.left.name])
    if isinstance(right, Column):
        return f"{name} {predicate.op.value} {right.name}"
    return f"{name} {render_comparison(predicate)}"


def render_operand(operand: Column | Constant) -> str:
    if isinstance(operand, Constant):
        return write_constant(operand.value)
    if _BARE.fullmatch(operand.name):
        return f"{operand.row.value}.{operand.name}"
    return f"{operand.row.value}[{write_quoted(operand.name)}]"


def _shorthand(rule: Rule) -> str:
    """The shorthand that means the same, or an empty text."""
    if rule.measure is not None:
        return _render_measure(rule.measure)
    if rule.is_one_row:
        (first, *others) = rule.predicates
        is_short = isinstance(first.right, Domain) and not others
        return _condition(Predicate(first.left, first.op.negated, first.right)) if is_short else ""
    same, rest = split_same(rule)
    if not rest:
        return f"key({_names(same)})"
    found = spans(rest)
    if kind(rule) is RuleKind.DEPENDENCY and rest[0].left.name not in same:
        return f"{_names(same)} -> {_names([rest[0].left.name])}"
    if kind(rule) is RuleKind.ORDER and {predicate.op for predicate in rest} == {Op.GT, Op.LT}:
        first, second = rest if rest[0].op is Op.GT else reversed(rest)
        what, columns = "ordered", [first.left.name, second.left.name]
    elif found is not None and not found[2]:
        what, columns = "no_overlap", [found[0], found[1]]
    else:
        return ""
    by = f" by {_names(same)}" if same else ""
    return f"{what}({_names(columns)}{by})" if not set(columns) & set(same) else ""


def _names(columns: list[str]) -> str:
    return ", ".join(
        name if _BARE.fullmatch(name) and name.lower() not in _KEYWORDS else write_quoted(name) for name in columns
    )


_OPS = {op: place for place, op in enumerate(Op)}


def canonical(rule: Rule) -> Rule:
    """The rule or its twin, whichever sorts first, with its predicates normalized, distinct and sorted.

    Name, severity, tolerance and description are left out.

    >>> from naysay.rule import parse
    >>> canonical(parse("not(s.B != t.B and t.A == s.A)")) == canonical(parse("A -> B"))
    True
    """
    rules = (rule,) if rule.is_one_row else (rule, rule.swapped())
    forms = [{_sort_key(predicate): predicate for predicate in normal_form(one)} for one in rules]
    first = min(forms, key=sorted)
    return Rule(tuple(first[key] for key in sorted(first)), measure=rule.measure)


def is_symmetric(rule: Rule) -> bool:
    """Whether (t, s) breaks the rule exactly if (s, t) does, judging by its form. False for one-row rules."""
    return not rule.is_one_row and normal_form(rule) == normal_form(rule.swapped())


def normal_form(rule: Rule) -> frozenset[Predicate]:
    """The predicates of a rule as a set, each normalized: left before right, then by name."""
    return frozenset(normalize(predicate) for predicate in rule.predicates)


def normalize(predicate: Predicate) -> Predicate:
    """The predicate with its smaller column first, and a whole number as an int."""
    right = predicate.right
    if isinstance(right, Constant):
        plain = _plain(right.value)
        return predicate if plain is right.value else Predicate(predicate.left, predicate.op, Constant(plain))
    if isinstance(right, Domain):
        return predicate
    flipped = predicate.flipped()
    return flipped if _facing_key(flipped) < _facing_key(predicate) else predicate


def _plain(value: Value) -> Value:
    """1, 1.0 and decimal '1.00' as 1: a value that has several types as the first of int and float that holds it."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Decimal) and is_plain(value):
        nearest = float(value)
        return int(nearest) if nearest.is_integer() else nearest
    return value


def _facing_key(predicate: Predicate) -> tuple[bool, str, int]:
    return *_column_key(predicate.left), _OPS[predicate.op]


def _column_key(column: Column) -> tuple[bool, str]:
    return column.row is Row.RIGHT, column.name


def _sort_key(predicate: Predicate) -> tuple[int, bool, str, int, bool, str, str]:
    kind = int(len(predicate.rows) == 1)
    if isinstance(predicate.right, Constant):
        text = write_constant(predicate.right.value)
        return kind, *_column_key(predicate.left), _OPS[predicate.op], True, "", text
    if isinstance(predicate.right, Domain):
        return kind, *_column_key(predicate.left), _OPS[predicate.op], True, "", render_comparison(predicate)
    return kind, *_column_key(predicate.left), _OPS[predicate.op], *_column_key(predicate.right), ""
