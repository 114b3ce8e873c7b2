"""Rules as text: `parse(render(rule))` is the same rule."""

from __future__ import annotations

import re
from decimal import Decimal

from naysay.errors import RuleError
from naysay.rule.literal import write_constant, write_quoted
from naysay.rule.model import Column, Constant, Op, Predicate, Row, Rule, RuleKind, Value, kind, spans, split_same
from naysay.rule.scan import is_plain

_BARE = re.compile(r"[^\W\d]\w*")
_KEYWORDS = frozenset(["not", "by", "forall"])


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
    if not rule.predicates:
        raise RuleError("a rule without predicates cannot be written")
    if short and not rule.is_one_row:
        text = _shorthand(rule)
        if text:
            return text
    return f"not({' and '.join(render_predicate(predicate) for predicate in rule.predicates)})"


def render_predicate(predicate: Predicate) -> str:
    """Write one predicate, such as `t.A == s.A`."""
    return f"{render_operand(predicate.left)} {predicate.op.value} {render_operand(predicate.right)}"


def render_operand(operand: Column | Constant) -> str:
    if isinstance(operand, Constant):
        return write_constant(operand.value)
    if _BARE.fullmatch(operand.name):
        return f"{operand.row.value}.{operand.name}"
    return f"{operand.row.value}[{write_quoted(operand.name)}]"


def _shorthand(rule: Rule) -> str:
    """The shorthand that means the same, or an empty text."""
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
    return Rule(tuple(first[key] for key in sorted(first)))


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
    return kind, *_column_key(predicate.left), _OPS[predicate.op], *_column_key(predicate.right), ""
