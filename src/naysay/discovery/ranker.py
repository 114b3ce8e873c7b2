"""The best of some rules, found when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from naysay.discovery.outcomes import Outcomes
from naysay.discovery.problem import Answer, Problem
from naysay.discovery.ranking import Multiplicities, Tested, best_first, short_list, tested
from naysay.discovery.result import Finding, Rules
from naysay.discovery.vertices import Vertices
from naysay.rule.model import Rule

# Ranking looks at the shortest rules, as many as it can hold against the evidence in about a second.
_WORK = 400_000_000
_LEAST, _MOST = 160, 5_000


@dataclass(frozen=True, slots=True)
class Ranker:
    """Holds rules against the evidence of a table."""

    multiplicities: Multiplicities

    def best(self, rules: Rules, n_wanted: int) -> tuple[Finding, ...]:
        """The best of the shortest rules, best first. O(rules * evidence), for about a second."""
        if not len(rules):
            return ()
        n_ranked = max(_LEAST, 2 * n_wanted, min(_MOST, _WORK // max(1, len(self.multiplicities.edges))))
        candidates = np.ascontiguousarray(rules.covers[:n_ranked])
        results = tested(candidates, self.multiplicities)
        order = best_first(candidates, results, rules.vertices)
        chosen = short_list(order, candidates, rules.vertices, n_wanted)
        return tuple(_finding(rules[place], results.at(place)) for place in chosen)


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
    """For each group the most rows that one row can equal in it."""
    most = [1] * len(vertices.groups)
    for number, field in enumerate(outcomes.layout.fields):
        if field.place is None:
            continue
        left = _largest(outcomes.left[number], outcomes)
        right = left if outcomes.right is outcomes.left else _largest(outcomes.right[number], outcomes)
        most[field.place] = left if not field.comparison.across else left + right
    return tuple(most)


def _largest(values: np.ndarray, outcomes: Outcomes) -> int:
    return int(np.bincount(values, weights=outcomes.weights).max()) if values.size else 1
