"""Rules in words, for people who do not read formulas."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence

from naysay.rule.model import (
    Column,
    Constant,
    Op,
    Predicate,
    Row,
    Rule,
    RuleKind,
    Value,
    is_pair,
    kind,
    spans,
    split_same,
)
from naysay.rule.scan import shortened

_MOMENT = re.compile(r"(?:^|[^a-z])(?:start|begin|from|end|until|time|timestamp)(?:$|[^a-z])|(?:date|day)(?:$|[^a-z])")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_THAN = {
    Op.EQ: "equal to",
    Op.NE: "different from",
    Op.LT: "less than",
    Op.LE: "less than or equal to",
    Op.GT: "greater than",
    Op.GE: "greater than or equal to",
}
_THAN_MOMENT = {Op.LT: "before", Op.LE: "before or at", Op.GT: "after", Op.GE: "after or at"}
_HIGHER = {Op.LT: "lower", Op.LE: "lower or equal", Op.GT: "higher", Op.GE: "higher or equal"}


def describe(rule: Rule) -> str:
    """Say what a rule forbids, in a clause without capital letter or full stop.

    >>> from naysay.rule import parse
    >>> describe(parse("ZipCode -> City"))
    'for two rows with the same ZipCode, City never differs'
    >>> describe(parse("key(AreaCode, Phone)"))
    'no two rows have the same AreaCode and Phone'
    >>> describe(parse("ordered(Salary, Rate by State)"))
    'for two rows with the same State, a higher Salary never comes with a lower Rate'
    """
    if rule.is_one_row:
        return _describe_one_row(rule.predicates)
    same, rest = split_same(rule)
    if not rest:
        return f"no two rows have the same {listed(same)}"
    if kind(rule) is RuleKind.ORDER:
        never = _describe_order(rest)
    elif all(is_pair(predicate) and predicate.op is Op.NE for predicate in rest):
        never = _describe_differs([predicate.left.name for predicate in rest]) + ("" if same else " between two rows")
    else:
        never = _describe_overlap(rest) or _describe_single_order(rest) or _describe_pair(rest)
    return f"for two rows with the same {listed(same)}, {never}" if same else never


def listed(words: Sequence[str], joint: str = "and") -> str:
    """`A`, `A and B`, `A, B and C`."""
    return f"{', '.join(words[:-1])} {joint} {words[-1]}" if len(words) > 1 else words[0]


def worded(value: Value | None) -> str:
    """A value as a person writes it: text in quotes, the rest plain, long ones shortened."""
    if value is None:
        return "no value"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return repr(shortened(value, 60))
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    return shortened(str(value), 60)


def stands(op: Op, left: Column, right: Column | Constant) -> str:
    """How the left operand stands to the right one, with a verb: `equals`, `differs from`, `is greater than`."""
    return {Op.EQ: "equals", Op.NE: "differs from"}.get(op) or f"is {relation(op, left, right)}"


def relation(op: Op, left: Column, right: Column | Constant) -> str:
    """`greater than`, or `after` where the operands are times, as far as values and names tell."""
    if op in _THAN_MOMENT and (
        _is_moment(right) if isinstance(right, Constant) else (_names_moment(left) and _names_moment(right))
    ):
        return _THAN_MOMENT[op]
    return _THAN[op]


def _is_moment(constant: Constant) -> bool:
    return isinstance(constant.value, (datetime.date, datetime.time))


def _names_moment(column: Column) -> bool:
    return _MOMENT.search(_CAMEL.sub("_", column.name).lower()) is not None


def _describe_order(rest: Sequence[Predicate]) -> str:
    first, second = rest
    # Said of the pair the other way round where that begins with "higher".
    turn_round = first.op in (Op.LT, Op.LE)
    ops = [predicate.op.flipped if turn_round else predicate.op for predicate in (first, second)]
    return f"a {_HIGHER[ops[0]]} {first.left.name} never comes with a {_HIGHER[ops[1]]} {second.left.name}"


def _describe_differs(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} never differs"
    return f"{listed(names)} never {'both' if len(names) == 2 else 'all'} differ"


def _describe_single_order(rest: Sequence[Predicate]) -> str:
    if len(rest) != 1 or not is_pair(rest[0]):
        return ""
    word = {Op.LT: "lower", Op.GT: "higher", Op.LE: "lower or equal", Op.GE: "higher or equal"}[rest[0].op]
    return f"{rest[0].left.name} is never {word} in one row than in the other"


def _describe_overlap(rest: Sequence[Predicate]) -> str:
    found = spans(rest)
    if found is None:
        return ""
    start, end, touching = found
    return f"the spans from {start} to {end} never overlap{' or touch' if touching else ''}"


def _describe_pair(rest: Sequence[Predicate]) -> str:
    return f"it never happens that {listed([_clause(predicate) for predicate in rest])}"


def _clause(predicate: Predicate) -> str:
    """One predicate of a pair of rows, as a clause."""
    right = predicate.right
    if is_pair(predicate) and predicate.op is Op.NE:
        return f"{predicate.left.name} differs"
    if predicate.left == right and predicate.op is Op.EQ:
        return f"{_whose(predicate.left)} has a value"
    if isinstance(right, Constant):
        other = "not " if predicate.op is Op.NE else ""
        if not predicate.op.is_order:
            return f"{_whose(predicate.left)} is {other}{worded(right.value)}"
        return f"{_whose(predicate.left)} {stands(predicate.op, predicate.left, right)} {worded(right.value)}"
    return f"{_whose(predicate.left)} {stands(predicate.op, predicate.left, right)} {_whose(right)}"


def _whose(column: Column) -> str:
    return f"{column.name} of {'the one' if column.row is Row.LEFT else 'the other'}"


def _describe_one_row(predicates: Sequence[Predicate]) -> str:
    distinct = list(dict.fromkeys(predicates))
    if len(distinct) > 1:
        return f"no row has {listed([_one_row_clause(predicate) for predicate in distinct])}"
    left, op, right = distinct[0].left, distinct[0].op, distinct[0].right
    if left == right and not op.is_strict:
        return f"{left.name} never has a value"
    if op is Op.EQ:
        return f"{left.name} {'is never' if isinstance(right, Constant) else 'never equals'} {_plain(right)}"
    if op is Op.NE:
        never = "is never other than" if isinstance(right, Constant) else "never differs from"
        return f"{left.name} {never} {_plain(right)}"
    return f"{left.name} is never {relation(op, left, right)} {_plain(right)}"


def _one_row_clause(predicate: Predicate) -> str:
    left, op, right = predicate.left, predicate.op, predicate.right
    if left == right and not op.is_strict:
        return f"a value in {left.name}"
    if isinstance(right, Constant) and not op.is_order:
        return f"{left.name} {'other than ' if op is Op.NE else ''}{_plain(right)}"
    return f"{left.name} {relation(op, left, right)} {_plain(right)}"


def _plain(operand: Column | Constant) -> str:
    return worded(operand.value) if isinstance(operand, Constant) else operand.name
