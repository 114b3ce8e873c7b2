"""Discover the rules of a table: the one way in."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from naysay.discovery import dense, hydra, selective
from naysay.discovery.approximate import allowed_pairs
from naysay.discovery.outcomes import Outcomes, outcomes_of
from naysay.discovery.problem import Answer, Problem, empty_answer
from naysay.discovery.ranking import Multiplicities, best_first, short_list, tested
from naysay.discovery.result import Discovery, Finding, Rules
from naysay.discovery.space import Scope, Space, build_space, scope_of
from naysay.discovery.vertices import Vertices
from naysay.discovery.work import Clock, Progress
from naysay.errors import UsageError
from naysay.rule.model import Nulls
from naysay.table import Table

METHODS = ("auto", "all-pairs", "selective", "hydra")
N_FINDINGS = 20
# Ranking looks at the shortest rules, as many as it can hold against the evidence in about a second.
_RANKING_WORK = 400_000_000
# Where all pairs take no longer than this, nothing cleverer is worth trying.
_PATIENCE_SECONDS = 2.0


def discover(
    table: Table,
    *,
    error: float = 0.0,
    columns: Sequence[str] | None = None,
    cross: bool = True,
    max_predicates: int | None = None,
    max_rules: int | None = None,
    timeout: float | None = None,
    nulls: Nulls = Nulls.SQL,
    method: str = "auto",
    space: str | Scope = "naysay",
    n_threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Discovery:
    """Every minimal rule that a table obeys, exactly or up to `error` (a fraction of all ordered pairs).

    `columns` and `cross` narrow what rules may compare; `space` names the predicate space of a published program, or
    is a Scope. Limits on predicates, rules and seconds make the answer partial, never wrong.
    """
    _check(max_predicates, max_rules, timeout, method)
    clock = Clock(timeout, progress)
    with clock.phase("space"):
        built = build_space(table, columns, scope_of(space, cross))
    with clock.phase("encode"):
        outcomes = outcomes_of(table, built, nulls)
    problem = Problem.of(
        built, nulls, outcomes,
        most=allowed_pairs(error, outcomes.n_pairs), max_predicates=max_predicates, max_rules=max_rules,
        n_threads=n_threads or os.cpu_count() or 1, clock=clock,
    )
    chosen, answer = _solve(problem, method)
    with clock.phase("ranking"):
        findings = rank(answer, problem, Rules(answer.covers, problem.vertices, error))
    notes = (*built.notes, *answer.notes, *_notes(outcomes, problem, answer))
    return Discovery(
        findings, Rules(answer.covers, problem.vertices, error), answer.partial, clock.reason if answer.partial else "",
        outcomes.n_table_rows, error, built, nulls, chosen, clock.seconds, notes,
    )


def _check(max_predicates: int | None, max_rules: int | None, timeout: float | None, method: str) -> None:
    for name, value in (("max_predicates", max_predicates), ("max_rules", max_rules)):
        if value is not None and value < 1:
            raise UsageError(f"{name} is at least 1; {value!r} is not")
    if timeout is not None and not timeout > 0:
        raise UsageError(f"timeout is a number of seconds above 0; {timeout!r} is not")
    if method not in METHODS:
        raise UsageError(f"no method is called {method!r}; there are {', '.join(METHODS)}")


def _solve(problem: Problem, method: str) -> tuple[str, Answer]:
    """Choose a method by its cost, and run it."""
    if method in ("selective", "hydra") and problem.most:
        raise UsageError(f"the method {method} finds exact rules alone; use all-pairs for rules with an error")
    if problem.outcomes.n_table_rows < 2:
        return "all-pairs", empty_answer(problem, partial=False)
    if method == "selective":
        return method, selective.find(problem)
    if method == "hydra":
        return method, hydra.find(problem)
    if method == "auto" and not problem.most and all_pairs_seconds(problem) > _PATIENCE_SECONDS:
        try:
            return "selective", selective.find(problem, may_leave=True)
        except selective.TooManyChecks:
            pass
    return "all-pairs", dense.find(problem)


def all_pairs_seconds(problem: Problem) -> float:
    """What looking at all pairs will cost, roughly."""
    n_rows, n_fields = problem.outcomes.n_rows, len(problem.outcomes.layout.fields)
    return n_rows * (n_rows - 1) / 2 / (4e9 / max(8, n_fields)) / problem.n_threads


def _notes(outcomes: Outcomes, problem: Problem, answer: Answer) -> list[str]:
    notes = []
    if outcomes.n_table_rows < 2:
        notes.append("fewer than two rows: there is no pair that could break a rule, so none is reported")
    if problem.most and not len(answer.covers) and outcomes.n_table_rows > 1 and not answer.partial:
        notes.append("no rule was found within the error that is allowed")
    return notes


def rank(answer: Answer, problem: Problem, rules: Rules) -> tuple[Finding, ...]:
    """The findings: the best of the shortest rules."""
    covers = answer.covers
    if not len(covers):
        return ()
    n_ranked = max(8 * N_FINDINGS, _RANKING_WORK // max(1, len(answer.edges)))
    candidates = covers[:n_ranked]
    results = tested(candidates, multiplicities_of(answer, problem))
    order = best_first(candidates, results, problem.vertices)
    chosen = short_list(order, candidates, problem.vertices, N_FINDINGS)
    return tuple(Finding(rules[place], results[place]) for place in chosen)


def multiplicities_of(answer: Answer, problem: Problem) -> Multiplicities:
    n_rows = problem.outcomes.n_table_rows
    scale = 1.0
    if answer.n_sampled is not None and answer.n_sampled > 1:
        scale = n_rows * (n_rows - 1) / (answer.n_sampled * (answer.n_sampled - 1))
    max_equal = _max_equal(problem.outcomes, problem.vertices)
    return Multiplicities(problem.vertices, answer.edges, answer.counts, n_rows, max_equal, scale)


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


__all__ = ["METHODS", "Space", "discover", "rank"]
