"""Rules as text: `parse(render(rule))` is the same rule."""

from __future__ import annotations

import re

from naysay.errors import RuleError
from naysay.rule.literal import write_constant, write_quoted
from naysay.rule.model import Column, Constant, Op, Predicate, Rule
from naysay.rule.shape import RuleKind, kind, spans, split_same

_BARE = re.compile(r"[^\W\d]\w*")
_KEYWORDS = frozenset(["not", "by", "forall"])


def render(rule: Rule, *, short: bool = False) -> str:
    """Write the predicates of a rule as `not(...)`; where `short`, as a shorthand if one means the same.

    A shorthand puts the predicates into an order of its own; without it, `parse` gives back the very same rule.
    Name, severity, tolerance and description are not written here: see `render_file`.

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
