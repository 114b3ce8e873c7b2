"""The best of some rules, found when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from naysay.arrays import Int32Array
from naysay.discovery.outcomes import FieldKind, Outcomes
from naysay.discovery.problem import Answer, Problem
from naysay.discovery.ranking import Multiplicities, Tested, best_first, short_list, tested
from naysay.discovery.result import Finding, Rules
from naysay.discovery.vertices import Vertices
from naysay.discovery.work import Clock
from naysay.rule.model import Rule

# Ranking looks at the shortest rules, as many as it can hold against the evidence in about a second.
_WORK = 400_000_000
# Once time is up: as many as take a tenth of that.
_WORK_WHEN_STOPPED = 40_000_000
_LEAST, _MOST = 160, 5_000


@dataclass(frozen=True, slots=True)
class Ranker:
    """Holds rules against the evidence of a table."""

    multiplicities: Multiplicities

    def best(self, rules: Rules, n_wanted: int) -> tuple[Finding, ...]:
        """The best of the shortest rules, best first. O(rules * evidence), for about a second."""
        return self.ranked(rules, n_wanted)[0]

    def ranked(self, rules: Rules, n_wanted: int, clock: Clock | None = None) -> tuple[tuple[Finding, ...], int]:
        """The best of the shortest rules, best first, and of how many; as many as wanted even if the clock stopped."""
        if not len(rules):
            return (), 0
        n_edges = max(1, len(self.multiplicities.edges))
        n_ranked = max(_LEAST, 2 * n_wanted, min(_MOST, _WORK // n_edges))
        if clock is not None and clock.stopped():
            n_ranked = max(n_wanted, min(n_ranked, _WORK_WHEN_STOPPED // n_edges))
        candidates = np.ascontiguousarray(rules.covers[:n_ranked])
        results = tested(candidates, self.multiplicities)
        order = best_first(candidates, results, rules.vertices)
        chosen = short_list(order, candidates, rules.vertices, n_wanted)
        return tuple(_finding(rules[place], results.at(place)) for place in chosen), len(candidates)


def _finding(rule: Rule, result: Tested) -> Finding:
    return Finding(rule, result) if result.violations else Finding(rule, result, 0, (0, 0))


def ranker_of(answer: Answer, problem: Problem) -> Ranker:
    n_rows = problem.outcomes.n_table_rows
    max_equal = _max_equal(problem.outcomes, problem.vertices)
    scale = scale_of(answer, n_rows)
    return Ranker(Multiplicities(problem.vertices, answer.edges, answer.counts, n_rows, max_equal, scale))


def scale_of(answer: Answer, n_rows: int) -> float:
    """By how much counts must be multiplied to be those of all pairs."""
    if answer.n_sampled is None or answer.n_sampled < 2:
        return 1.0
    return n_rows * (n_rows - 1) / (answer.n_sampled * (answer.n_sampled - 1))


def _max_equal(outcomes: Outcomes, vertices: Vertices) -> tuple[int, ...]:
    """For each group the most rows that one row can equal in it, as far as its columns tell."""
    n_rows = outcomes.n_table_rows
    most = [n_rows] * len(vertices.groups)
    for number, field in enumerate(outcomes.layout.fields):
        if field.place is not None and not field.comparison.within_row:
            left = _largest(outcomes.left, number, outcomes)
            right = _largest(outcomes.right, number, outcomes) if field.comparison.across else 0
            most[field.place] = left + right
    return tuple(most)


def _largest(side: Int32Array, number: int, outcomes: Outcomes) -> int:
    """The most rows that share a value of a field's column; null is a value where nulls equal each other."""
    field, n_fields = outcomes.layout.fields[number], len(outcomes.layout.fields)
    values, weights = side[number], outcomes.weights
    if field.missing and field.kind is not FieldKind.ORDER_OR_NULL:
        valid = (side[n_fields + field.word] & field.missing) == 0
        values, weights = values[valid], weights[valid]
    return int(np.bincount(values, weights=weights).max()) if values.size else 0
