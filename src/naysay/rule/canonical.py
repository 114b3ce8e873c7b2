"""One form for rules that say the same: equal rules, and a rule and its symmetric twin, become equal values."""

from __future__ import annotations

from decimal import Decimal

from naysay.rule.literal import write_constant
from naysay.rule.model import Column, Constant, Op, Predicate, Row, Rule, Value
from naysay.rule.reading import is_plain

_OPS = {op: place for place, op in enumerate(Op)}


def canonical(rule: Rule) -> Rule:
    """The predicates of a rule, each turned one way, each once, sorted, of the rule or its twin whichever sorts first.

    Name, severity, tolerance and description are left out.

    >>> from naysay.rule import parse
    >>> canonical(parse("not(s.B != t.B and t.A == s.A)")) == canonical(parse("A -> B"))
    True
    """
    rules = (rule,) if rule.is_one_row else (rule, rule.swapped())
    forms = [{_sort_key(predicate): predicate for predicate in turned(one)} for one in rules]
    first = min(forms, key=sorted)
    return Rule(tuple(first[key] for key in sorted(first)))


def is_symmetric(rule: Rule) -> bool:
    """(t, s) breaks the rule exactly when (s, t) does, as far as its form shows. False of one-row rules."""
    return not rule.is_one_row and turned(rule) == turned(rule.swapped())


def turned(rule: Rule) -> frozenset[Predicate]:
    """The predicates of a rule as a set, each turned one way: left before right, then by name."""
    return frozenset(turn(predicate) for predicate in rule.predicates)


def turn(predicate: Predicate) -> Predicate:
    """The predicate with its smaller column first, and a number that is whole as an int."""
    right = predicate.right
    if isinstance(right, Constant):
        plain = _plain(right.value)
        return predicate if plain is right.value else Predicate(predicate.left, predicate.op, Constant(plain))
    flipped = predicate.flipped()
    return flipped if _facing_key(flipped) < _facing_key(predicate) else predicate


def _plain(value: Value) -> Value:
    """1, 1.0 and decimal '1.00' as 1: where one value has several types, the first of int and float that holds it."""
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
    return kind, *_column_key(predicate.left), _OPS[predicate.op], *_column_key(predicate.right), ""
