"""Which indexes serve a set of rules (section 7): SelectIndex and its scores."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from naysay.arrays import Int64Array
from naysay.papers.incdc.chains import ColumnOp
from naysay.rule.model import Column, Op, Predicate, Row, Rule

# The paper's thresholds: l for equality indexes, l' for columns of inequality indexes, alpha to reverse an operator.
_SELECTIVE = 0.6
_DISTINCT = 0.1
_CORRELATED = 0.3
_SAMPLE = 10_000


@dataclass(frozen=True, slots=True)
class EqualityUse:
    """A use of equality indexes: t.A = s.B. The same column twice is one index."""

    left: str
    right: str


@dataclass(frozen=True, slots=True)
class InequalityUse:
    """A use of inequality indexes: t.A op1 s.B and t.C op2 s.D, by Index(A^op1, C^op2) and its mirror on B and D.

    `turned`: the indexes have their second operator reversed, and are used in reverse (6.2).
    """

    one: Predicate
    two: Predicate
    turned: bool = False


@dataclass(frozen=True, slots=True)
class SingleUse:
    """A use of an index over one column: t.A op s.B, for rules that have nothing else."""

    predicate: Predicate


@dataclass(frozen=True, slots=True)
class FullScan:
    """No index serves: for rules that compare nothing between two rows, which the paper does not have."""


Use = EqualityUse | InequalityUse | SingleUse | FullScan


def select_indexes(rules: Iterable[Rule], values: Mapping[str, Int64Array]) -> list[Use]:
    """Algorithm SelectIndex: uses of indexes such that each rule is served by one of them.

    `values` are the columns; scores are estimated on a sample of them.
    """
    sample = {name: _sample(column) for name, column in values.items()}
    scores = {name: 1.0 - len(np.unique(column)) / max(1, column.size) for name, column in sample.items()}
    todo = [rule for given in rules for rule in _without_differences(given)]
    chosen: list[Use] = []
    # Lines 1 to 8: equality on one column, then between two, if it is selective.
    todo = _cover_by_equality(todo, scores, chosen, _SELECTIVE, across=False)
    todo = _cover_by_equality(todo, scores, chosen, _SELECTIVE, across=True)
    # Lines 9 to 19: pairs of inequalities over columns with many values.
    many = {name for name, score in scores.items() if 1.0 - score >= _DISTINCT}
    todo = _cover_by_inequality(todo, sample, chosen, many)
    # Lines 20 and 21: the remaining rules, without thresholds.
    todo = _cover_by_equality(todo, scores, chosen, np.inf, across=False)
    todo = _cover_by_equality(todo, scores, chosen, np.inf, across=True)
    todo = _cover_by_inequality(todo, sample, chosen, set(scores))
    singles = {_inequalities(rule)[0] for rule in todo if _inequalities(rule)}
    chosen += [SingleUse(predicate) for predicate in sorted(singles, key=str)]
    return [*chosen, FullScan()] if any(not _inequalities(rule) for rule in todo) else chosen


def _sample(column: Int64Array) -> Int64Array:
    if column.size <= _SAMPLE:
        return column
    return column[np.random.default_rng(0).choice(column.size, _SAMPLE, replace=False)]


def _without_differences(rule: Rule) -> list[Rule]:
    """A rule with != as rules with > and with <; a rule that has an equality needs no such split."""
    if _equalities(rule):
        return [rule]
    choices = [
        [Predicate(predicate.left, op, predicate.right) for op in (Op.LT, Op.GT)]
        if predicate.op is Op.NE
        else [predicate]
        for predicate in rule.predicates
    ]
    return [Rule(predicates) for predicates in itertools.product(*choices)]


def _equalities(rule: Rule) -> list[EqualityUse]:
    return [
        EqualityUse(*names_of(predicate))
        for predicate in rule.predicates
        if predicate.op is Op.EQ and len(predicate.rows) == 2
    ]


def _inequalities(rule: Rule) -> list[Predicate]:
    """The predicates about two rows that are inequalities, written with the left row on the left.

    != is not one of them: it is split, or the rule is served by its equality.
    """
    return [
        predicate if predicate.left.row is Row.LEFT else predicate.flipped()
        for predicate in rule.predicates
        if predicate.op.is_order and len(predicate.rows) == 2
    ]


def names_of(predicate: Predicate) -> tuple[str, str]:
    """The columns of the left and of the right row."""
    assert isinstance(predicate.right, Column)
    names = predicate.left.name, predicate.right.name
    return names if predicate.left.row is Row.LEFT else (names[1], names[0])


def column_ops(use: InequalityUse) -> tuple[tuple[ColumnOp, ColumnOp], tuple[ColumnOp, ColumnOp]]:
    """What is asked of the two indexes of a use, over the columns (A, C) and (B, D)."""
    (a, b), (c, d) = names_of(use.one), names_of(use.two)
    one, two = use.one.op, use.two.op
    return (ColumnOp(a, one), ColumnOp(c, two)), (ColumnOp(b, one.flipped), ColumnOp(d, two.flipped))


def _cover_by_equality(
    rules: Sequence[Rule], scores: Mapping[str, float], chosen: list[Use], below: float, *, across: bool
) -> list[Rule]:
    """Choose equality indexes whose score is below a threshold, the best first; returns the rules not served."""
    left = []
    for rule in rules:
        options = [
            use
            for use in _equalities(rule)
            if (use.left != use.right) is across and max(scores[use.left], scores[use.right]) < below
        ]
        served = [use for use in options if use in chosen]
        if options and not served:
            chosen.append(min(options, key=lambda use: max(scores[use.left], scores[use.right])))
        elif not options:
            left.append(rule)
    return left


def _cover_by_inequality(
    rules: Sequence[Rule], sample: Mapping[str, Int64Array], chosen: list[Use], names: set[str]
) -> list[Rule]:
    """Choose pairs of inequalities by (1 - |r|) / coverage, the least first, as long as they serve a rule."""
    serves: dict[InequalityUse, set[int]] = {}
    for number, rule in enumerate(rules):
        for one, two in itertools.combinations(_inequalities(rule), 2):
            if {*names_of(one), *names_of(two)} <= names:
                serves.setdefault(InequalityUse(one, two), set()).add(number)
    left = set(range(len(rules)))
    correlations = {use: _correlation(use, sample) for use in serves}
    while left:
        open_ = {use: len(numbers & left) for use, numbers in serves.items() if numbers & left}
        if not open_:
            break
        best = min(open_, key=lambda use: (1.0 - abs(correlations[use])) / open_[use])
        # Columns that rise together have few chains if both operators have the same direction.
        together = (best.one.op in (Op.GT, Op.GE)) == (best.two.op in (Op.GT, Op.GE))
        r = correlations[best]
        chosen.append(InequalityUse(best.one, best.two, r < -_CORRELATED if together else r > _CORRELATED))
        left -= serves[best]
    return [rules[number] for number in sorted(left)]


def _correlation(use: InequalityUse, sample: Mapping[str, Int64Array]) -> float:
    one, two = (sample[names_of(predicate)[0]].astype(np.float64) for predicate in (use.one, use.two))
    if one.size < 2 or np.ptp(one) == 0 or np.ptp(two) == 0:
        return 0.0
    return float(np.corrcoef(one, two)[0, 1])
