"""Discovery on a table in memory: the space, a method chosen by cost, the ranking, and measures of the best rules."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import log

from naysay.budget import Budget, Stopped
from naysay.discovery import measured, selective
from naysay.discovery.evidence import (
    Device,
    Evidence,
    all_pairs,
    choose_device,
    cpu_seconds,
    cuda_seconds,
    device_named,
)
from naysay.discovery.measured import FEWEST_ROWS, percent, sweep
from naysay.discovery.outcomes import Outcomes, outcomes_of
from naysay.discovery.problem import Answer, MeasureTable, Problem, all_of, empty_answer
from naysay.discovery.ranking import MOST_EXCEPTIONS, SIGNIFICANCE, Ranker, ranker_of
from naysay.discovery.request import MAX_COMPARISONS, DiscoverRequest, ErrorMeasure, Sweep
from naysay.discovery.result import N_BEST, Discovery, Finding, Rules, Tested
from naysay.discovery.shortest import search_rules
from naysay.discovery.space import Space, build_space
from naysay.discovery.support import Conditional, Rows, find_conditional
from naysay.discovery.vertices import edges_of
from naysay.plan.cost import process_bytes, release_freed_memory, still_to_load
from naysay.published import published
from naysay.rule.describe import describe
from naysay.rule.model import Column, Constant, Op, Predicate, Row, Rule
from naysay.table import Kind, Table

# What measuring one finding, and all of them together, may take.
_SECONDS_PER_FINDING, _SECONDS = 2.0, 20.0
# If comparing all pairs takes no longer than this, nothing cleverer is worth trying.
_PATIENCE_SECONDS = 2.0
# If it takes longer than this share of them, a sample tells whether few candidates are left to prove.
_TRIED_SHARE = 1 / 8
# Comparing all pairs may take this many times its estimate, which ignores how many different outcomes there are.
_WORST_ESTIMATE = 40.0
# The share of the time left that comparing all pairs may take if there is another way to find rules.
_EVIDENCE_SHARE = 0.4
# Columns whose values people name in rules: of other types a value is rarely what it looks like.
_CONSTANT_KINDS = (Kind.TEXT, Kind.BOOL, Kind.INT, Kind.DATE)


class TooSlow(Exception):
    """Comparing all pairs takes too long for the time limit."""


def discover(table: Table, request: DiscoverRequest, measure: MeasureTable | None = None) -> Discovery:
    """Find every minimal rule that a table obeys, exactly or up to the error allowed.

    `measure` says of each finding how many rows are in conflict and how many must be removed.
    """
    budget = request.budget()
    device_named(request.device)
    with budget.stop_on_interrupt():
        with budget.phase("space"):
            space = build_space(table, request.columns, request.scope, budget.stopped)
            space = space.narrowed(MAX_COMPARISONS) if request.has_own_space else space
        request = request.fitted_to(space, table.n_rows)
        if budget.memory is not None:
            request.require_memory(space, table.n_rows, budget.memory - process_bytes() - still_to_load())
        try:
            with budget.phase("encode"):
                outcomes = _encode(table, space, request, budget)
        except Stopped:
            return _nothing_in_time(table, space, request, budget)
        problem, notes = _with_error(Problem.of(space, outcomes, request, budget))
        method, answer = solve(problem, measure)
        answer = replace(answer, notes=(*notes, *answer.notes))
        found = _with_conditional(conclude(problem, answer, method, measure=measure), table, problem)
    return found if measure is None else _measured(found, measure, min(_SECONDS, budget.left))


def _encode(table: Table, space: Space, request: DiscoverRequest, budget: Budget) -> Outcomes:
    """The table ready to be compared. Whoever made a large one, and encoding it, leave much memory that is free."""
    release_freed_memory(table.n_rows)
    outcomes = outcomes_of(table, space, request.nulls, budget=budget)
    release_freed_memory(table.n_rows)
    return outcomes


def _nothing_in_time(table: Table, space: Space, request: DiscoverRequest, budget: Budget) -> Discovery:
    """What there is to say of a table that could not be encoded before the work was stopped."""
    no_rows = outcomes_of(Table(table.arrow.slice(0, 0)), space, request.nulls)
    problem = Problem.of(space, no_rows, request, budget)
    found = conclude(problem, empty_answer(problem, partial=True), request.method)
    why = f"{budget.reason}: stopped before the {table.n_rows:,} rows were encoded, so nothing was compared"
    return replace(found, n_rows=table.n_rows, notes=(*space.notes, why))


def _with_error(problem: Problem) -> tuple[Problem, list[str]]:
    """The problem with the error that a look at the table suggests, if that is asked for, and what to say about it."""
    request, n_rows = problem.request, problem.outcomes.n_table_rows
    always = request.sweep is Sweep.ALWAYS
    if request.sweep is Sweep.NEVER or (not always and not request.may_be_approximate):
        return problem, []
    if n_rows < FEWEST_ROWS:
        few = f"choosing an error takes {FEWEST_ROWS} rows or more, so rules that hold exactly are shown"
        return problem, [few] if always else []
    with problem.budget.phase("sweep"):
        seen = sweep(problem)
    if seen is None:
        return problem, ["there was no time to choose an error, so rules that hold exactly are shown"] if always else []
    if not seen.broken or (not always and not seen.looks_dirty):
        hint = [f"{seen.words}; error='auto' (--error auto) finds these rules as well"] if seen.broken else []
        return problem, [seen.words] if always else hint
    reason = "" if always else "the table looks dirty: "
    exact = "" if always else "; error=0 (--error 0) finds only rules that hold for all rows"
    request = replace(request, error=seen.error, measure=ErrorMeasure.ROWS, sweep=Sweep.NEVER)
    request = request.fitted_to(problem.space, n_rows)
    note = f"{reason}{seen.words}; so the rules shown hold if at most {percent(seen.error)} of the rows are removed"
    return Problem.of(problem.space, problem.outcomes, request, problem.budget), [note + exact]


def _measured(found: Discovery, measure: MeasureTable, seconds: float) -> Discovery:
    """With rows in conflict (g2) and rows to remove (g3) of each finding, as far as these are quickly known."""
    end = time.monotonic() + seconds
    findings: list[Finding] = []
    for finding in found.findings:
        left = min(_SECONDS_PER_FINDING, end - time.monotonic())
        known = measure.rows(finding.rule, left) if finding.tested.violations and left > 0 else None
        if known is not None:
            too_many = known[1][0] > MOST_EXCEPTIONS * found.n_rows
            finding = replace(finding, rows_in_conflict=known[0], rows_to_remove=known[1], often_broken=too_many)
        findings.append(finding)
    return replace(found, findings=tuple(findings), table=measure)


def _with_conditional(found: Discovery, table: Table, problem: Problem) -> Discovery:
    """With the dependencies that hold among the rows with one value of a column, if these are asked for."""
    request, outcomes, budget = problem.request, problem.outcomes, problem.budget
    fewest, groups = request.scope.conditions, problem.vertices.groups
    if fewest is None or found.n_rows < 2:
        return found
    rows = Rows.of(outcomes, problem.vertices, found.n_rows, outcomes.n_rows)
    names = {number: groups[number].comparison.left.name for number in rows.codes}
    columns = [number for number, name in names.items() if table.kind(name) in _CONSTANT_KINDS]
    with budget.phase("conditions"):
        tested, complete = find_conditional(rows, columns, fewest, budget.stopped)
    # As many rules could have been found at most.
    tries = log(max(1, len(columns)) * (len(rows.codes) + 1) ** 2 * max(1, found.n_rows // fewest))
    findings = []
    # The best first, so that these are made rules of if time is short.
    for each in sorted(tested, key=lambda each: -each.surprise):
        if budget.late():
            complete = False
            break
        rule = _conditional_rule(each, table, names, outcomes.row_of(each.place))
        if rule is not None and (request.is_narrowed or len(rule.predicates) <= (request.max_predicates or 4)):
            surprise = each.surprise - tries
            near = (each.near if each.fact.left else each.n_rows,)
            how = Tested(near, 0, surprise, surprise < -log(SIGNIFICANCE))
            findings.append(Finding(rule, how, 0, (0, 0), applies_to=each.n_rows))
    notes = () if complete else (f"{budget.reason}: rules under conditions may be missing",)
    return found.with_conditional(findings, notes)


def _conditional_rule(found: Conditional, table: Table, names: Mapping[int, str], row: int) -> Rule | None:
    """`left -> right where column == value`, or "no row has this value and another one on the right side"."""

    def value_of(name: str) -> Constant | None:
        value = table.arrow.column(table.names.index(name))[row].as_py()
        return None if value is None else Constant(value)

    assert found.fact.right is not None
    column, right = names[found.column], names[found.fact.right]
    value, only = value_of(column), value_of(right)
    if value is None:
        return None
    condition = Predicate(Column(Row.LEFT, column), Op.EQ, value)
    if found.fact.left:
        left, other = (Column(row, names[found.fact.left[0]]) for row in Row)
        differ = Predicate(Column(Row.LEFT, right), Op.NE, Column(Row.RIGHT, right))
        rule = Rule((Predicate(left, Op.EQ, other), differ, condition, condition.swapped()))
    elif only is None or table.kind(right) not in _CONSTANT_KINDS:
        return None
    else:
        rule = Rule((condition, Predicate(Column(Row.LEFT, right), Op.NE, only)))
    return replace(rule, description=describe(rule))


def conclude(
    problem: Problem, answer: Answer, method: str, ranker: Ranker | None = None, measure: MeasureTable | None = None
) -> Discovery:
    """Make a discovery of an answer: ranked, and with everything there is to say about how it came about."""
    budget, space, request = problem.budget, problem.space, problem.request
    rules = rules_of(answer, problem)
    with budget.phase("ranking"):
        ranker = ranker or ranker_of(answer, problem)
        findings, n_ranked = ranker.rank(rules, N_BEST, budget)
        findings, untested = ranker.with_pending(findings, lambda rule: _count_pairs(rule, measure, problem))
    notes = (*space.notes, *_notes(problem, answer), *answer.notes, *_equal_columns(ranker))
    notes = (*notes, *([] if request.error else ranker.nearly_ordered()), *ranker.decision_notes, *untested)
    if budget.stopped() and n_ranked < len(rules):
        notes = (*notes, f"{budget.reason}: only the {n_ranked:,} shortest rules were ranked")
    reason, complete_up_to = "", request.max_predicates
    if answer.partial:
        reason, complete_up_to = budget.reason or "limit on rules", answer.complete_up_to
    elif request.leaves_out(space):
        reason = request.limit_reason
    return Discovery(
        findings,
        rules,
        bool(reason),
        reason,
        problem.outcomes.n_table_rows,
        request.error,
        space,
        request.nulls,
        method,
        budget.seconds,
        notes,
        device=answer.device.value,
        ranker=ranker,
        complete_up_to=complete_up_to if reason else None,
        measure=request.measure.value,
        given=request.rules,
    )


def _count_pairs(rule: Rule, measure: MeasureTable | None, problem: Problem) -> int | None:
    """The ordered pairs that break a rule, counted on the whole table; None if that takes too long."""
    if measure is None:
        return None
    count = measure.pairs(rule, min(_SECONDS_PER_FINDING, max(0.1, problem.budget.left)))
    others = problem.outcomes.n_table_rows - 1
    return count if count is None or not rule.is_one_row else count * others


def rules_of(answer: Answer, problem: Problem) -> Rules:
    """The rules of an answer, each with the fraction of all pairs that it tolerates."""
    request, n_rows = problem.request, problem.outcomes.n_table_rows
    if not request.error:
        return Rules(answer.covers, problem.vertices)
    is_exact = answer.n_sampled is None
    tolerance = request.error
    if request.is_measured and not is_exact:
        tolerance = measured.pairs_of_rows(request, n_rows)
    edges = answer.edges if is_exact else None
    return Rules(answer.covers, problem.vertices, tolerance, edges, answer.counts if request.is_measured else None)


def _equal_columns(ranker: Ranker) -> list[str]:
    """Columns that are equal in every row, and are one to the short list."""
    classes: dict[str, list[str]] = {}
    for name, first in ranker.same_as.items():
        classes.setdefault(first, [first]).append(name)
    return [
        f"{' = '.join(names)} in every row: the short list only mentions {first}" for first, names in classes.items()
    ]


def _notes(problem: Problem, answer: Answer) -> list[str]:
    if problem.outcomes.n_table_rows < 2:
        return ["fewer than two rows: there is no pair that could break a rule, so none is reported"]
    if len(answer.covers) or answer.partial:
        return []
    most, error = problem.request.max_predicates, problem.request.error
    rule = "no rule" if most is None else f"no rule of up to {most:,} predicate{'s' if most > 1 else ''}"
    if problem.most or problem.request.is_measured:
        return [f"{rule} was found within the error allowed"]
    if error:
        return [f"{rule} holds for all rows, and an error of {error:g} allows less than one pair"]
    return [f"{rule} holds for all rows; a few wrong rows are enough to break every rule: allow an error, such as 0.01"]


def solve(problem: Problem, measure: MeasureTable | None = None) -> tuple[str, Answer]:
    """Run the method asked for, or choose one by its cost."""
    method, outcomes, threads = problem.request.method, problem.outcomes, problem.budget.threads
    if outcomes.n_table_rows < 2:
        return "all-pairs", empty_answer(problem, partial=False)
    if problem.request.is_measured:
        return measured.find(problem, measure)
    if method == "hydra":
        answer: Answer = published("hydra").find(problem)
        return method, answer
    if method == "selective" and not problem.most:
        return _with_first(problem, math.inf, lambda: (method, selective.find(problem)))
    wanted = Device(problem.request.device)
    device = choose_device(wanted, outcomes, threads)
    if method == "all-pairs" or wanted is Device.CUDA:
        return "all-pairs", compare_all(problem, device)
    seconds = cuda_seconds(outcomes) if device is Device.CUDA else cpu_seconds(outcomes, threads)
    if problem.most:
        return _choose_near(problem, device, seconds, measure)
    return _with_first(problem, seconds, lambda: _choose(problem, device, seconds))


def compare_all(problem: Problem, device: Device = Device.CPU, *, may_leave: bool = False) -> Answer:
    """Find rules from the evidence of all pairs: exact counts, any error; quadratic in the rows.

    Raises TooSlow, if `may_leave`, when time runs short.
    """
    budget = problem.budget
    with budget.phase("evidence"):
        part = budget.part(_EVIDENCE_SHARE) if may_leave else budget
        evidence = all_pairs(problem.outcomes, part, device=device)
    if evidence is None:
        if may_leave and not budget.stopped():
            raise TooSlow
        return empty_answer(problem, partial=True)
    return answer_from(problem, evidence, device)


def answer_from(problem: Problem, evidence: Evidence, device: Device = Device.CPU) -> Answer:
    """The rules of the evidence of all pairs."""
    with problem.budget.phase("covers"):
        edges, counts = edges_of(evidence, problem.outcomes.layout, problem.vertices)
        found = search_rules(problem, edges, counts)
    return Answer(found.covers, found.partial, edges, counts, device=device, complete_up_to=found.complete_up_to)


def _with_first(problem: Problem, seconds: float, find: Callable[[], tuple[str, Answer]]) -> tuple[str, Answer]:
    """What `find` returns; if it may run into the time limit, and does, with some rules that were found before.

    `seconds`: what it takes by its estimate.
    """
    if not problem.budget.is_limited or seconds * _WORST_ESTIMATE < problem.budget.left:
        return find()
    first = selective.first_rules(problem)
    method, answer = find()
    if not answer.partial:
        return method, answer
    covers = all_of(answer.covers, first.covers, problem.vertices)
    evidence = answer if len(answer.edges) else first
    return method, replace(
        answer,
        covers=covers[: problem.request.max_rules],
        edges=evidence.edges,
        counts=evidence.counts,
        n_sampled=evidence.n_sampled,
    )


def _choose_near(problem: Problem, device: Device, seconds: float, measure: MeasureTable | None) -> tuple[str, Answer]:
    """All rules with an error by the method that looks cheaper: comparing all pairs takes `seconds`."""
    if measure is None:
        return "all-pairs", compare_all(problem, device)
    if problem.request.method != "selective" and seconds <= _PATIENCE_SECONDS:
        try:
            return "all-pairs", compare_all(problem, device, may_leave=problem.budget.is_limited)
        except TooSlow:
            # Some pairs say nearly as much about short rules.
            pass
    return "selective", selective.find_near(problem, measure)


def _choose(problem: Problem, device: Device, seconds: float) -> tuple[str, Answer]:
    """All exact rules by the method that looks cheaper: comparing all pairs takes `seconds`."""
    may_leave = problem.budget.is_limited
    patience = _PATIENCE_SECONDS if device is Device.CPU else 4 * _PATIENCE_SECONDS
    try:
        if seconds > patience:
            return "selective", selective.find(problem, may_leave=True)
        if seconds > patience * _TRIED_SHARE:
            return "selective", selective.find_if_few(problem)
    except selective.TooManyChecks:
        may_leave = False
    try:
        return "all-pairs", compare_all(problem, device, may_leave=may_leave)
    except TooSlow:
        # Every pair would have to be seen before the first rule is known; this way short ones are known soon.
        return "selective", selective.find(problem)
