"""Rules as text: `parse(render(rule))` is the same rule."""

from __future__ import annotations

import re

from naysay.errors import RuleError
from naysay.rule import shorthand
from naysay.rule.literal import write_constant, write_quoted
from naysay.rule.model import Column, Constant, Op, Predicate, Row, Rule

_BARE = re.compile(r"[^\W\d]\w*")
_KEYWORDS = frozenset(["not", "by", "forall"])


def render(rule: Rule, *, short: bool = False) -> str:
    """Write the predicates of a rule as `not(...)`; where `short`, as a shorthand if one means exactly the same.

    The name, severity and tolerance are not part of it: see `render_file`.

    >>> from naysay.rule import parse
    >>> render(parse("ZipCode -> City"))
    'not(t.ZipCode == s.ZipCode and t.City != s.City)'
    >>> render(parse("not(t.ZipCode == s.ZipCode and t.City != s.City)"), short=True)
    'ZipCode -> City'
    """
    if not rule.predicates:
        raise RuleError("a rule without predicates cannot be written")
    if short:
        text = _shorthand(rule.predicates)
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


def _shorthand(predicates: tuple[Predicate, ...]) -> str:
    """The shorthand that stands for exactly these predicates, or an empty text."""
    n_equal = 0
    while n_equal < len(predicates) and _is_pair(predicates[n_equal], Op.EQ):
        n_equal += 1
    columns = [predicate.left.name for predicate in predicates[:n_equal]]
    if len(set(columns)) < n_equal:
        return ""
    rest = predicates[n_equal:]
    if not rest:
        return f"key({_names(columns)})"
    return _dependency(columns, rest) or _two_by(columns, rest)


def _dependency(columns: list[str], rest: tuple[Predicate, ...]) -> str:
    if len(rest) != 1 or not columns or not _is_pair(rest[0], Op.NE) or rest[0].left.name in columns:
        return ""
    return f"{_names(columns)} -> {_names([rest[0].left.name])}"


def _two_by(columns: list[str], rest: tuple[Predicate, ...]) -> str:
    if len(rest) != 2 or not all(isinstance(predicate.right, Column) for predicate in rest):
        return ""
    first, second = (predicate.left.name for predicate in rest)
    end = rest[0].right.name if isinstance(rest[0].right, Column) else ""
    for what, one, two, expected in (
        ("ordered", first, second, shorthand.ordered(first, second)),
        ("no_overlap", first, end, shorthand.no_overlap(first, end)),
    ):
        if rest == expected and one != two and one not in columns and two not in columns:
            by = f" by {_names(columns)}" if columns else ""
            return f"{what}({_names([one, two])}{by})"
    return ""


def _is_pair(predicate: Predicate, op: Op) -> bool:
    return predicate == shorthand.pair(predicate.left.name, op) and predicate.left.row is Row.LEFT


def _names(columns: list[str]) -> str:
    return ", ".join(
        name if _BARE.fullmatch(name) and name.lower() not in _KEYWORDS else write_quoted(name) for name in columns
    )
