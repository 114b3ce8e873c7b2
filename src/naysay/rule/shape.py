"""The shape of a rule: what its predicates compare, and which well-known kind of rule they make."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from naysay.rule.model import Column, Op, Predicate, Row, Rule


class RuleKind(Enum):
    """The well-known kinds of rule. ORDER is equalities and two columns whose orders must not contradict each other."""

    KEY = "key"
    DEPENDENCY = "dependency"
    ORDER = "order"
    ONE_ROW = "one row"
    OTHER = "other"


def kind(rule: Rule) -> RuleKind:
    """Which of the well-known kinds a rule is.

    >>> from naysay.rule import parse
    >>> kind(parse("not(t.A == s.A and t.B != s.B)"))
    <RuleKind.DEPENDENCY: 'dependency'>
    """
    if rule.is_one_row:
        return RuleKind.ONE_ROW
    same, rest = split_same(rule)
    if not rest:
        return RuleKind.KEY
    if not all(is_pair(predicate) for predicate in rest):
        return RuleKind.OTHER
    ops = [predicate.op for predicate in rest]
    if same and ops == [Op.NE]:
        return RuleKind.DEPENDENCY
    if len(ops) == 2 and all(op.is_order for op in ops) and rest[0].left.name != rest[1].left.name:
        return RuleKind.ORDER
    return RuleKind.OTHER


def split_same(rule: Rule) -> tuple[list[str], list[Predicate]]:
    """The columns on which the two rows must agree, and the other predicates, each turned left before right."""
    same: dict[str, None] = {}
    rest: dict[Predicate, None] = {}
    for predicate in rule.predicates:
        predicate = facing(predicate)
        if is_pair(predicate) and predicate.op is Op.EQ:
            same[predicate.left.name] = None
        else:
            rest[predicate] = None
    return list(same), list(rest)


def facing(predicate: Predicate) -> Predicate:
    """The predicate with the left row's column first, where it compares the two rows."""
    right = predicate.right
    turned = isinstance(right, Column) and right.row is Row.LEFT and predicate.left.row is Row.RIGHT
    return predicate.flipped() if turned else predicate


def is_pair(predicate: Predicate) -> bool:
    """It compares one column of both rows."""
    right = predicate.right
    return isinstance(right, Column) and right.row is not predicate.left.row and right.name == predicate.left.name


def spans(rest: Sequence[Predicate]) -> tuple[str, str, bool] | None:
    """Start, end and whether touching counts, for `t.Start < s.End and t.End > s.Start`; None of anything else."""
    if len(rest) != 2 or rest[1] != facing(rest[0].swapped()) or not rest[0].op.is_order:
        return None
    if is_pair(rest[0]) or len(rest[0].rows) == 1:
        return None
    low, high = rest if rest[0].op in (Op.LT, Op.LE) else (rest[1], rest[0])
    return low.left.name, high.left.name, low.op is Op.LE
