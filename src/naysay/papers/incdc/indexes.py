"""Indexes for two inequality comparisons (sections 5 and 6), for equality, and for one inequality (section 7).

A row is an integer; values are integers in the order of the column. What the paper writes A^op is a ColumnOp: a column
and an operator, A^op(t, s) meaning t.A op s.A. The paper keeps each sorted structure in a skip list (6.4); here it is
an array with binary search: the same comparisons, without the pointers.
"""

from __future__ import annotations

import itertools
import operator
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from naysay.arrays import Int64Array
from naysay.rule.model import Column, Op, Predicate, Row, Rule


@dataclass(frozen=True, slots=True)
class ColumnOp:
    """A column with one of < <= > >=."""

    name: str
    op: Op

    @property
    def sign(self) -> int:
        """1 if the column ascends along a sorted structure (> and >=), -1 if it descends (< and <=)."""
        return 1 if self.op in (Op.GT, Op.GE) else -1

    @property
    def reversed(self) -> ColumnOp:
        """The opposite direction, as strict as this one."""
        return ColumnOp(self.name, self.op.flipped)


@dataclass(slots=True)
class Chain:
    """A sorted structure: rows that ascend in both keys (values times the signs of their operators)."""

    first: list[int] = field(default_factory=list)
    second: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.first)

    def insert(self, place: int, first: int, second: int) -> None:
        self.first.insert(place, first)
        self.second.insert(place, second)


class ChainIndex:
    """Index(A^op1, B^op2) of section 5.2: chains in which a later row satisfies both operators with an earlier one.

    Rows equal in both columns share one entry. `rank` is the number of chains.
    """

    def __init__(self, one: ColumnOp, two: ColumnOp, value_one: Sequence[int], value_two: Sequence[int]) -> None:
        """Algorithm OptIndex (6.1): as few chains as possible, from the values of all rows. O(n log n)."""
        self.ops = (one, two)
        self.chains: list[Chain] = []
        self._equal: dict[tuple[int, int], list[int]] = {}
        for row, key in enumerate(zip(value_one, value_two, strict=True)):
            self._equal.setdefault((one.sign * key[0], two.sign * key[1]), []).append(row)
        # If A must differ, rows with the same A come in descending B, so that no two of them join one chain.
        tie = -1 if one.op.is_strict else 1
        lasts: list[tuple[int, int]] = []
        for first, second in sorted(self._equal, key=lambda key: (key[0], tie * key[1])):
            place = (bisect_left if two.op.is_strict else bisect_right)(lasts, second, key=lambda last: last[0]) - 1
            number = lasts.pop(place)[1] if place >= 0 else len(self.chains)
            if place < 0:
                self.chains.append(Chain())
            chain = self.chains[number]
            chain.insert(len(chain), first, second)
            insort(lasts, (second, number))

    @property
    def rank(self) -> int:
        return len(self.chains)

    def fetch(self, one: int, two: int, wanted: tuple[ColumnOp, ColumnOp]) -> tuple[list[int], list[int]]:
        """Algorithm Fetch: for a row s with these values, the rows t with s op t in both columns, and with t op s.

        `wanted` are the index's own operators, stricter ones, or with the second one reversed (6.2).
        """
        return self.rows_after(one, two, wanted, before=True), self.rows_after(one, two, wanted, before=False)

    def rows_after(self, one: int, two: int, wanted: tuple[ColumnOp, ColumnOp], *, before: bool) -> list[int]:
        """The rows t with wanted(t, s) in both columns, for a row s with these values; with wanted(s, t) if `before`.

        Algorithm Fetch+ (5.3) calls this with values of other columns.
        """
        key_one, key_two = self.ops[0].sign * one, self.ops[1].sign * two
        is_reversed = wanted[1].sign != self.ops[1].sign
        found: list[int] = []
        for chain in self.chains:
            # Positions up to which the chain stays at or below the row's keys, first with, then without equal ones.
            low_one, high_one = bisect_left(chain.first, key_one), bisect_right(chain.first, key_one)
            low_two, high_two = bisect_left(chain.second, key_two), bisect_right(chain.second, key_two)
            above_one, below_one = (high_one, low_one) if wanted[0].op.is_strict else (low_one, high_one)
            above_two, below_two = (high_two, low_two) if wanted[1].op.is_strict else (low_two, high_two)
            if before:
                start, stop = (above_two, below_one) if is_reversed else (0, min(below_one, below_two))
            else:
                start, stop = (above_one, below_two) if is_reversed else (max(above_one, above_two), len(chain))
            for place in range(start, stop):
                found += self._equal[chain.first[place], chain.second[place]]
        return found

    def insert(self, row: int, one: int, two: int) -> None:
        """Section 6.3: put a row into the longest chain that has a place for it, or into a new one."""
        first, second = self.ops[0].sign * one, self.ops[1].sign * two
        equal = self._equal.setdefault((first, second), [])
        equal.append(row)
        if len(equal) > 1:
            return
        best: tuple[int, int, Chain] | None = None
        for chain in self.chains:
            place = self._place(chain, first, second)
            if place is not None and (best is None or len(chain) > best[0]):
                best = len(chain), place, chain
        if best is None:
            best = 0, 0, Chain()
            self.chains.append(best[2])
        best[2].insert(best[1], first, second)

    def _place(self, chain: Chain, first: int, second: int) -> int | None:
        """The place of new keys in a chain; None if the two columns disagree about it."""
        place = bisect_left(chain.first, first)
        if self.ops[0].op.is_strict:
            if place < len(chain.first) and chain.first[place] == first:
                return None
        else:
            # Among rows with the same A, B decides the place.
            place = bisect_left(chain.second, second, place, bisect_right(chain.first, first))
        before = operator.lt if self.ops[1].op.is_strict else operator.le
        if place > 0 and not before(chain.second[place - 1], second):
            return None
        return place if place == len(chain) or before(second, chain.second[place]) else None


class EqualityIndex:
    """Index(A^=): rows by value."""

    def __init__(self, values: Iterable[int]) -> None:
        self._rows: dict[int, list[int]] = {}
        for row, value in enumerate(values):
            self.insert(row, value)

    def fetch(self, value: int) -> list[int]:
        return self._rows.get(value, [])

    def insert(self, row: int, value: int) -> None:
        self._rows.setdefault(value, []).append(row)


class SortedIndex:
    """Rows in the order of one column, for rules of a single inequality."""

    def __init__(self, values: Sequence[int]) -> None:
        order = sorted(range(len(values)), key=lambda row: values[row])
        self._values = [values[row] for row in order]
        self._rows = order

    def fetch(self, value: int, op: Op) -> list[int]:
        """The rows t with t.A op value."""
        if op in (Op.LT, Op.LE):
            return self._rows[: (bisect_left if op is Op.LT else bisect_right)(self._values, value)]
        return self._rows[(bisect_right if op is Op.GT else bisect_left)(self._values, value) :]

    def insert(self, row: int, value: int) -> None:
        place = bisect_right(self._values, value)
        self._values.insert(place, value)
        self._rows.insert(place, row)


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
