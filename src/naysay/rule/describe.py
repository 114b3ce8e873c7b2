"""Rules in words, and why a pair of rows breaks one, for people who do not read formulas."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Any

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
    is_pair,
    kind,
    spans,
    split_same,
    split_where,
)
from naysay.rule.render import render_age
from naysay.rule.scan import shortened

Values = Mapping[str, Any]
_NO_VALUES: Values = {}

_MOMENT = re.compile(r"(?:^|[^a-z])(?:start|begin|from|end|until|time|timestamp)(?:$|[^a-z])|(?:date|day)(?:$|[^a-z])")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LESS = {Op.LT: "less than", Op.LE: "less than or equal to", Op.GT: "greater than", Op.GE: "greater than or equal to"}
_BEFORE = {Op.LT: "before", Op.LE: "before or at", Op.GT: "after", Op.GE: "after or at"}
_LOWER = {Op.LT: "lower", Op.LE: "lower or equal", Op.GT: "higher", Op.GE: "higher or equal"}
_WHOSE = {Row.LEFT: "the one", Row.RIGHT: "the other"}
_NUMBER_OF_ROWS = {
    Op.EQ: "exactly",
    Op.NE: "any number but",
    Op.LT: "fewer than",
    Op.LE: "at most",
    Op.GT: "more than",
    Op.GE: "at least",
}
_MOST_VALUES = 5


def describe(rule: Rule) -> str:
    """Say what a rule forbids, in a clause without capital letter or full stop.

    >>> from naysay.rule import parse
    >>> describe(parse("ZipCode -> City"))
    'for two rows with the same ZipCode, City never differs'
    >>> describe(parse("key(AreaCode, Phone)"))
    'no two rows have the same AreaCode and Phone'
    >>> describe(parse("ordered(Salary, Rate by State)"))
    'for two rows with the same State, a higher Salary never comes with a lower Rate'
    >>> describe(parse("email is not null where status == 'active'"))
    "among rows with status 'active', email always has a value"
    """
    core, filters = split_where(rule)
    if filters:
        among = _listed([_describe_of_row(predicate) for predicate in filters])
        return f"among rows with {among}, {_describe_core(core)}"
    return _describe_core(rule)


def _describe_core(rule: Rule) -> str:
    if rule.measure is not None:
        return _describe_measure(rule.measure)
    if rule.is_one_row:
        return _describe_one_row(list(dict.fromkeys(rule.predicates)))
    same, rest = split_same(rule)
    if not rest:
        return f"no two rows have the same {_listed(same)}"
    span = spans(rest)
    if kind(rule) is RuleKind.ORDER:
        ops = _as_higher_first(rest)
        never = f"a {_LOWER[ops[0]]} {rest[0].left.name} never comes with a {_LOWER[ops[1]]} {rest[1].left.name}"
    elif all(is_pair(predicate) and predicate.op is Op.NE for predicate in rest):
        never = _describe_differs([predicate.left.name for predicate in rest]) + ("" if same else " between two rows")
    elif span is not None:
        never = f"the spans from {span[0]} to {span[1]} never overlap{' or touch' if span[2] else ''}"
    elif len(rest) == 1 and is_pair(rest[0]):
        never = f"{rest[0].left.name} is never {_LOWER[rest[0].op]} in one row than in the other"
    else:
        never = f"it never happens that {_listed([_describe_predicate(predicate) for predicate in rest])}"
    return f"for two rows with the same {_listed(same)}, {never}" if same else never


def explain_pair(rule: Rule, left_values: Values, right_values: Values = _NO_VALUES) -> str:
    """Say why two rows break a rule, or why one row breaks a one-row rule.

    The values are those of the columns that the rule names. That they do break the rule is not checked.

    >>> from naysay.rule import parse
    >>> rule = parse("ZipCode -> City")
    >>> explain_pair(rule, {"ZipCode": 35233, "City": "birmingham"}, {"ZipCode": 35233, "City": "bham"})
    "both have ZipCode 35233, but City is 'birmingham' in one and 'bham' in the other"
    """
    if rule.is_one_row:
        return _listed([_explain_one_row(predicate, left_values) for predicate in dict.fromkeys(rule.predicates)])
    rule, _ = split_where(rule)
    same, rest = split_same(rule)
    both = f"both have {_listed([f'{name} {_worded(left_values[name])}' for name in same])}" if same else ""
    if not rest:
        return both
    rows = {Row.LEFT: left_values, Row.RIGHT: right_values}
    span = spans(rest)
    if span is not None:
        one, other = (f"{_worded(row[span[0]])} to {_worded(row[span[1]])}" for row in rows.values())
        why = f"the spans {one} and {other} overlap{' or touch' if span[2] else ''}"
    elif kind(rule) is RuleKind.ORDER:
        why = _explain_order(rest, left_values, right_values)
    else:
        why = _listed([_explain_predicate(predicate, rows) for predicate in rest])
    return f"{both}, but {why}" if both else why


def explain_vote(values: Values, new: Any, n_for: int, n_votes: int, *, is_empty: bool = False) -> str:
    """Say why a cell should have another value: most rows that agree in some columns have it.

    `values` are those columns. If the cell `is_empty`, the votes are those of the rows that have a value.

    >>> explain_vote({"zip": "02139"}, "Cambridge", 41, 42)
    "41 of 42 rows with zip '02139' say 'Cambridge'"
    """
    group = _listed([f"{name} {_worded(value)}" for name, value in values.items()]) if values else ""
    whose = f" with {group}" if group else ""
    having = " that have a value" if is_empty else ""
    return f"{n_for:,} of {n_votes:,} rows{whose}{having} say {_worded(new)}"


def _listed(words: Sequence[str]) -> str:
    """`A`, `A and B`, `A, B and C`."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def _describe_measure(measure: RowCount | Freshness) -> str:
    if isinstance(measure, Freshness):
        sign = "less than" if measure.op is Op.LT else "at most"
        return f"the newest {measure.column} is {sign} {render_age(measure.age)} old"
    if measure.high is not None:
        return f"there are {measure.low:,} to {measure.high:,} rows"
    return f"there are {_NUMBER_OF_ROWS[measure.op]} {measure.low:,} rows"


# Takes the place of a value that must not be shown.
HIDDEN = "(hidden)"


def _worded(value: Value | None) -> str:
    """A value as a person writes it: text in quotes, long values shortened."""
    if value is None:
        return "no value"
    if value is HIDDEN:
        return HIDDEN
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return repr(shortened(value, 60))
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    return shortened(str(value), 60)


def _relation(predicate: Predicate) -> str:
    """`equals`, `differs from`, `is greater than`; `is after` if the operands are times, judging by value or name."""
    op, left, right = predicate.op, predicate.left, predicate.right
    if not op.is_order:
        return "equals" if op is Op.EQ else "differs from"
    if isinstance(right, Constant):
        are_moments = isinstance(right.value, (datetime.date, datetime.time))
    else:
        columns = (left, right) if isinstance(right, Column) else (left,)
        are_moments = all(_MOMENT.search(_CAMEL.sub("_", column.name).lower()) for column in columns)
    return f"is {(_BEFORE if are_moments else _LESS)[op]}"


def _as_higher_first(rest: Sequence[Predicate]) -> list[Op]:
    """The two comparisons of an order, with the rows exchanged if the first one would begin with "lower"."""
    turn_round = rest[0].op in (Op.LT, Op.LE)
    return [predicate.op.flipped if turn_round else predicate.op for predicate in rest]


def _describe_differs(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} never differs"
    return f"{_listed(names)} never {'both' if len(names) == 2 else 'all'} differ"


def _describe_predicate(predicate: Predicate) -> str:
    """One predicate of a pair of rows, as a clause."""
    right, whose = predicate.right, _of_row(predicate.left)
    if isinstance(right, Domain):
        return f"{whose} {_within(predicate.op, right)}"
    if is_pair(predicate) and predicate.op is Op.NE:
        return f"{predicate.left.name} differs"
    if predicate.left == right and predicate.op is Op.EQ:
        return f"{whose} has a value"
    if isinstance(right, Column):
        return f"{whose} {_relation(predicate)} {_of_row(right)}"
    if predicate.op.is_order:
        return f"{whose} {_relation(predicate)} {_worded(right.value)}"
    return f"{whose} is {'not ' if predicate.op is Op.NE else ''}{_worded(right.value)}"


def _of_row(column: Column) -> str:
    return f"{column.name} of {_WHOSE[column.row]}"


def _describe_one_row(predicates: Sequence[Predicate]) -> str:
    if len(predicates) > 1:
        return f"no row has {_listed([_describe_of_row(predicate) for predicate in predicates])}"
    left, op, right = predicates[0].left, predicates[0].op, predicates[0].right
    if isinstance(right, Domain):
        return f"{left.name} {_required(op.negated, right)}"
    if left == right and not op.is_strict:
        return f"{left.name} never has a value"
    if op.is_order:
        never = f"is never {_relation(predicates[0]).removeprefix('is ')}"
    elif isinstance(right, Constant):
        never = "is never" if op is Op.EQ else "is never other than"
    else:
        never = f"never {_relation(predicates[0])}"
    return f"{left.name} {never} {_plain(right)}"


def _describe_of_row(predicate: Predicate) -> str:
    left, op, right = predicate.left, predicate.op, predicate.right
    if isinstance(right, Missing):
        return f"{'no' if op is Op.EQ else 'a'} value in {left.name}"
    if isinstance(right, Domain):
        return f"{left.name} that {_within(op, right)}"
    if left == right and not op.is_strict:
        return f"a value in {left.name}"
    if isinstance(right, Constant) and not op.is_order:
        return f"{left.name} {'other than ' if op is Op.NE else ''}{_plain(right)}"
    relations = {Op.EQ: "equal to", Op.NE: "different from"}
    return f"{left.name} {relations.get(op) or _relation(predicate).removeprefix('is ')} {_plain(right)}"


def _within(op: Op, domain: Domain) -> str:
    """What is true of a value, as a clause without subject: `is one of 'CA' and 'NY'`, `does not match '[0-9]+'`."""
    if isinstance(domain, Missing):
        return "has no value" if op is Op.EQ else "has a value"
    if isinstance(domain, Pattern):
        return f"{'matches' if op is Op.EQ else 'does not match'} {_domain(domain)}"
    return f"is {'' if op is Op.EQ else 'not '}{_domain(domain)}"


def _required(op: Op, domain: Domain) -> str:
    """What is true of every value: `is always between 0 and 1`, `never has a value`."""
    often = "always" if op is Op.EQ else "never"
    if isinstance(domain, Missing):
        return "never has a value" if op is Op.EQ else "always has a value"
    return f"{often} matches {_domain(domain)}" if isinstance(domain, Pattern) else f"is {often} {_domain(domain)}"


def _domain(domain: Domain) -> str:
    if isinstance(domain, Between):
        return f"between {_worded(domain.low.value)} and {_worded(domain.high.value)}"
    if isinstance(domain, Pattern):
        return f"'{shortened(domain.text, 60)}'"
    assert isinstance(domain, OneOf)
    values = [_worded(constant.value) for constant in domain.values]
    if len(values) == 1:
        return values[0]
    more = len(values) - _MOST_VALUES
    shown = [*values[:_MOST_VALUES], *([f"{more:,} more"] if more > 0 else [])]
    return f"one of {_listed(shown)}"


def _plain(operand: Column | Constant) -> str:
    return _worded(operand.value) if isinstance(operand, Constant) else operand.name


def _explain_order(rest: Sequence[Predicate], left_values: Values, right_values: Values) -> str:
    """The one with the higher A has the lower B."""
    is_turned = rest[0].op in (Op.LT, Op.LE)
    one, other = (right_values, left_values) if is_turned else (left_values, right_values)
    first, second = (
        f"the {_LOWER[op]} {name} ({_worded(one[name])} against {_worded(other[name])})"
        for op, name in zip(_as_higher_first(rest), [predicate.left.name for predicate in rest], strict=True)
    )
    return f"the one with {first} has {second}"


def _explain_predicate(predicate: Predicate, rows: Mapping[Row, Values]) -> str:
    name, op, right = predicate.left.name, predicate.op, predicate.right
    if is_pair(predicate):
        one, other = (_worded(row[name]) for row in rows.values())
        joint = " in one and" if op is Op.NE else f" in one, {_relation(predicate).removeprefix('is ')}"
        return f"{name} is {one}{joint} {other} in the other"

    def value_of_row(column: Column) -> str:
        return f"{column.name} {_worded(rows[column.row][column.name])} of {_WHOSE[column.row]}"

    if isinstance(right, Domain):
        value = value_of_row(predicate.left) if not isinstance(right, Missing) else _of_row(predicate.left)
        return f"{value} {_within(op, right)}"
    if isinstance(right, Column):
        return f"{value_of_row(predicate.left)} {_relation(predicate)} {value_of_row(right)}"
    if op is Op.EQ:
        return f"{_of_row(predicate.left)} is {_worded(rows[predicate.left.row][name])}"
    return f"{value_of_row(predicate.left)} {_relation(predicate)} {_worded(right.value)}"


def _explain_one_row(predicate: Predicate, values: Values) -> str:
    name, op, right = predicate.left.name, predicate.op, predicate.right
    if isinstance(right, Domain):
        value = "" if isinstance(right, Missing) and op is Op.EQ else f" {_worded(values[name])}"
        return f"{name}{value} {_within(op, right)}"
    if op is Op.EQ and (isinstance(right, Constant) or right == predicate.left):
        return f"{name} is {_worded(values[name])}"
    other = _worded(right.value) if isinstance(right, Constant) else f"{right.name} {_worded(values[right.name])}"
    return f"{name} {_worded(values[name])} {_relation(predicate)} {other}"
