"""Why one pair of rows breaks a rule, in a sentence with its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from naysay.rule.describe import listed, relation, stands, worded
from naysay.rule.model import Column, Constant, Op, Predicate, Row, Rule, RuleKind, is_pair, kind, spans, split_same

Values = Mapping[str, Any]
_NONE: Values = {}
_HIGHER = {Op.GT: "higher", Op.GE: "higher or equal", Op.LT: "lower", Op.LE: "lower or equal"}


def explain_pair(rule: Rule, left_values: Values, right_values: Values = _NONE) -> str:
    """Say why two rows break a rule; of a one-row rule, why one row does.

    The values are those of the columns that the rule names. That they do break the rule is taken for granted.

    >>> from naysay.rule import parse
    >>> rule = parse("ZipCode -> City")
    >>> explain_pair(rule, {"ZipCode": 35233, "City": "birmingham"}, {"ZipCode": 35233, "City": "bham"})
    "both have ZipCode 35233, but City is 'birmingham' in one and 'bham' in the other"
    """
    if rule.is_one_row:
        return listed([_one_row_clause(predicate, left_values) for predicate in dict.fromkeys(rule.predicates)])
    same, rest = split_same(rule)
    both = f"both have {listed([f'{name} {worded(left_values[name])}' for name in same])}" if same else ""
    if not rest:
        return both
    span = spans(rest)
    if span is not None:
        start, end, touching = span
        one, other = (f"{worded(row[start])} to {worded(row[end])}" for row in (left_values, right_values))
        why = f"the spans {one} and {other} overlap{' or touch' if touching else ''}"
    elif kind(rule) is RuleKind.ORDER:
        why = _order(rest, left_values, right_values)
    else:
        why = listed([_clause(predicate, left_values, right_values) for predicate in rest])
    return f"{both}, but {why}" if both else why


def _order(rest: Sequence[Predicate], left_values: Values, right_values: Values) -> str:
    """The one with the higher A has the lower B."""
    turn_round = rest[0].op in (Op.LT, Op.LE)
    one, other = (right_values, left_values) if turn_round else (left_values, right_values)
    parts = []
    for predicate in rest:
        op = predicate.op.flipped if turn_round else predicate.op
        name = predicate.left.name
        parts.append(f"the {_HIGHER[op]} {name} ({worded(one[name])} against {worded(other[name])})")
    return f"the one with {parts[0]} has {parts[1]}"


def _clause(predicate: Predicate, left_values: Values, right_values: Values) -> str:
    name, right = predicate.left.name, predicate.right
    if is_pair(predicate):
        if predicate.op is Op.NE:
            return f"{name} is {worded(left_values[name])} in one and {worded(right_values[name])} in the other"
        than = relation(predicate.op, predicate.left, predicate.left)
        return f"{name} is {worded(left_values[name])} in one, {than} {worded(right_values[name])} in the other"
    sides = {Row.LEFT: left_values, Row.RIGHT: right_values}
    whose = {Row.LEFT: "the one", Row.RIGHT: "the other"}

    def said(column: Column) -> str:
        return f"{column.name} {worded(sides[column.row][column.name])} of {whose[column.row]}"

    if isinstance(right, Constant):
        if predicate.op is Op.EQ:
            return f"{name} of {whose[predicate.left.row]} is {worded(sides[predicate.left.row][name])}"
        return f"{said(predicate.left)} {stands(predicate.op, predicate.left, right)} {worded(right.value)}"
    return f"{said(predicate.left)} {stands(predicate.op, predicate.left, right)} {said(right)}"


def _one_row_clause(predicate: Predicate, values: Values) -> str:
    name, op, right = predicate.left.name, predicate.op, predicate.right
    if op is Op.EQ and (isinstance(right, Constant) or right == predicate.left):
        return f"{name} is {worded(values[name])}"
    other = worded(right.value) if isinstance(right, Constant) else f"{right.name} {worded(values[right.name])}"
    return f"{name} {worded(values[name])} {stands(op, predicate.left, right)} {other}"
