"""Discover the rules of a table: the one way in."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from naysay.discovery import dense, selective
from naysay.discovery.cover import allowed_pairs
from naysay.discovery.device import Device, choose_device, cpu_seconds, cuda_seconds, device_named
from naysay.discovery.outcomes import Outcomes, outcomes_of
from naysay.discovery.problem import Answer, Problem, empty_answer, in_order
from naysay.discovery.ranker import Ranker, ranker_of
from naysay.discovery.result import N_FINDINGS, Discovery, Finding, Rules
from naysay.discovery.space import Scope, Space, build_space, scope_of
from naysay.discovery.vertices import sorted_unique
from naysay.discovery.work import Clock, Limits, Progress
from naysay.errors import UsageError
from naysay.published import published
from naysay.rule.model import Nulls
from naysay.table import Table

METHODS = ("auto", "all-pairs", "selective", "hydra")
# Where all pairs take no longer than this, nothing cleverer is worth trying.
_PATIENCE_SECONDS = 2.0
# Comparing all pairs may take this many times its estimate, which ignores how many different outcomes there are.
_WORST_ESTIMATE = 40.0


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
    device: str = "auto",
    memory: int | None = None,
    n_threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Discovery:
    """Every minimal rule that a table obeys, exactly or up to `error` (a fraction of all ordered pairs).

    `columns` and `cross` narrow what rules may compare; `space` names the predicate space of a published program, or
    is a Scope. Limits on predicates, rules and seconds make the answer partial, never wrong. `memory` is the number
    of bytes that the work may take beside what the process holds.
    """
    limits = Limits(error, max_predicates, max_rules, timeout, memory)
    check_method(method, error)
    wanted = device_named(device)
    n_threads = n_threads or os.cpu_count() or 1
    clock = Clock(timeout, progress)
    with clock.heeding_interrupts():
        with clock.phase("space"):
            built = build_space(table, columns, scope_of(space, cross))
        limits = limits.for_space(built)
        limits.require_memory(built, table.n_rows, n_threads, selective=method in ("auto", "selective") and not error)
        with clock.phase("encode"):
            outcomes = outcomes_of(table, built, nulls)
        problem = Problem.of(
            built,
            nulls,
            outcomes,
            most=allowed_pairs(error, outcomes.n_pairs),
            max_predicates=limits.max_predicates,
            max_rules=max_rules,
            n_threads=n_threads,
            clock=clock,
            device=wanted,
        )
        chosen, answer = solve(problem, method)
        return concluded(problem, answer, chosen, limits)


def concluded(problem: Problem, answer: Answer, method: str, limits: Limits, ranker: Ranker | None = None) -> Discovery:
    """The discovery that an answer makes: ranked, and with all there is to say about how it came about."""
    clock, outcomes, space = problem.clock, problem.outcomes, problem.space
    rules = Rules(answer.covers, problem.vertices, limits.error, answer.edges if limits.error else None)
    with clock.phase("ranking"):
        ranker = ranker or ranker_of(answer, problem)
        findings, n_ranked = ranker.ranked(rules, N_FINDINGS, clock)
    partial = answer.partial or limits.leaves_out(space)
    notes = (*space.notes, *answer.notes, *_notes(outcomes, problem, answer, limits.error))
    if clock.stopped() and n_ranked < len(rules):
        notes = (*notes, f"{clock.reason}: only the {n_ranked:,} shortest rules were ranked")
    return Discovery(
        findings,
        rules,
        partial,
        _reason(answer, clock, limits, space),
        outcomes.n_table_rows,
        limits.error,
        space,
        problem.nulls,
        method,
        clock.seconds,
        notes,
        device=answer.device.value,
        ranker=ranker,
    )


def _reason(answer: Answer, clock: Clock, limits: Limits, space: Space) -> str:
    if answer.partial:
        return clock.reason or "limit on rules"
    return limits.reason if limits.leaves_out(space) else ""


def check_method(method: str, error: float) -> None:
    if method not in METHODS:
        raise UsageError(f"no method is called {method!r}; there are {', '.join(METHODS)}")
    if method in ("selective", "hydra") and error:
        raise UsageError(f"the method {method} finds exact rules alone; use all-pairs for rules with an error")


def solve(problem: Problem, method: str) -> tuple[str, Answer]:
    """Choose a method by its cost, and run it."""
    if problem.outcomes.n_table_rows < 2:
        return "all-pairs", empty_answer(problem, partial=False)
    if method == "hydra":
        answer: Answer = published("hydra").find(problem)
        return method, answer
    if method == "selective":
        return _with_first(problem, math.inf, lambda: (method, selective.find(problem)))
    device = choose_device(problem.device, problem.outcomes, problem.n_threads)
    seconds = (
        cuda_seconds(problem.outcomes) if device is Device.CUDA else cpu_seconds(problem.outcomes, problem.n_threads)
    )
    if method == "all-pairs" or problem.most or problem.device is Device.CUDA:
        return "all-pairs", dense.find(problem, device)
    return _with_first(problem, seconds, lambda: _chosen(problem, device, seconds))


def _with_first(problem: Problem, seconds: float, find: Callable[[], tuple[str, Answer]]) -> tuple[str, Answer]:
    """What `find` gives; if it may take longer than the time limit, and does, with some rules that were found before.

    `seconds`: what it takes by its estimate.
    """
    if not problem.clock.is_limited or seconds * _WORST_ESTIMATE < problem.clock.left:
        return find()
    first = selective.first_rules(problem)
    name, answer = find()
    if not answer.partial:
        return name, answer
    covers = in_order(sorted_unique(np.concatenate([answer.covers, first.covers])), problem.vertices)
    evidence = answer if len(answer.edges) else first
    found = replace(
        answer,
        covers=covers[: problem.max_rules],
        edges=evidence.edges,
        counts=evidence.counts,
        n_sampled=evidence.n_sampled,
    )
    return name, found


def _chosen(problem: Problem, device: Device, seconds: float) -> tuple[str, Answer]:
    """All exact rules by the method that looks cheaper: comparing all pairs takes `seconds`."""
    may_leave = problem.clock.is_limited
    if seconds > (_PATIENCE_SECONDS if device is Device.CPU else 4 * _PATIENCE_SECONDS):
        try:
            return "selective", selective.find(problem, may_leave=True)
        except selective.TooManyChecks:
            may_leave = False
    try:
        return "all-pairs", dense.find(problem, device, may_leave=may_leave)
    except dense.TooSlow:
        # Every pair would have to be seen before the first rule is known; by this way short ones are known soon.
        return "selective", selective.find(problem)


def _notes(outcomes: Outcomes, problem: Problem, answer: Answer, error: float) -> list[str]:
    if outcomes.n_table_rows < 2:
        return ["fewer than two rows: there is no pair that could break a rule, so none is reported"]
    if len(answer.covers) or answer.partial:
        return []
    most = problem.max_predicates
    rule = "no rule" if most is None else f"no rule of up to {most:,} predicate{'s' if most > 1 else ''}"
    if problem.most:
        return [f"{rule} was found within the error that is allowed"]
    if error:
        return [f"{rule} holds for all rows, and an error of {error:g} is less than one pair of so few"]
    return [f"{rule} holds for all rows; a few wrong ones are enough for that: allow an error, such as 0.01"]


def rank(answer: Answer, problem: Problem, rules: Rules) -> tuple[Finding, ...]:
    """The findings: the best of the shortest rules."""
    return ranker_of(answer, problem).best(rules, N_FINDINGS)


__all__ = ["METHODS", "Space", "concluded", "discover", "rank", "solve"]
