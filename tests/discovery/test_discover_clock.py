"""A discovery that is stopped soon returns what it knows, and never says that no rule holds.

No test measures time: clocks stop after a number of calls, and work after the stop is counted.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import naysay
from naysay.budget import Budget, Stopped
from naysay.discovery import cover, engine, evidence, measured, selective, shortest
from naysay.discovery import problem as problems
from naysay.discovery.cover import minimal_covers
from naysay.discovery.engine import compare_all, conclude, solve
from naysay.discovery.evidence import Device, all_pairs
from naysay.discovery.outcomes import outcomes_of
from naysay.discovery.problem import Problem, empty_answer, finish_rules
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.result import Discovery
from naysay.discovery.selective import SelectiveSearch
from naysay.discovery.shortest import search_rules
from naysay.discovery.space import Scope, build_space
from naysay.discovery.vertices import Vertices, edges_of, is_among
from naysay.errors import UsageError
from naysay.kernels.covers import possible
from naysay.kernels.evidence import gpu
from naysay.report.discoveries import headline
from naysay.rule import render
from naysay.rule.model import Nulls
from naysay.table import from_frame


class Looks(Budget):
    """Stops at the k-th look; with it, or so many looks after it, the time to finish is over too."""

    def __init__(self, n_looks: int, n_finishing: int = 0) -> None:
        super().__init__(1e9)
        self.n_left = n_looks
        self.n_finishing = n_finishing

    def stopped(self) -> bool:
        self.n_left -= 1
        if self.n_left < 0:
            self.stop("time limit")
        return bool(self.reason)

    def late(self) -> bool:
        self.n_finishing -= bool(self.reason)
        return bool(self.reason) and self.n_finishing < 0


def numbers(n_rows: int, n_columns: int, n_values: int) -> pa.Table:
    rng = random.Random(1)
    return pa.table({f"c{k}": [rng.randrange(n_values) for _ in range(n_rows)] for k in range(n_columns)})


def run(table: pa.Table, budget: Budget, method: str, error: float = 0.0) -> Discovery:
    data = from_frame(table)
    space = build_space(data, None, Scope())
    outcomes = outcomes_of(data, space, Nulls.SQL)
    problem = Problem.of(space, outcomes, DiscoverRequest(error, method=method), budget)
    chosen, answer = solve(problem)
    return conclude(problem, answer, chosen)


@pytest.mark.parametrize(("method", "error"), [("auto", 0.0), ("all-pairs", 0.02), ("selective", 0.0), ("hydra", 0.0)])
def test_whenever_it_stops_what_is_given_is_right_and_marked_partial(method: str, error: float) -> None:
    # With an error, three columns have 80,000 rules.
    table = numbers(40, 2 if error else 3, 5)
    everything = set(run(table, Budget(), method, error).rules)
    sizes = set()
    for n_looks in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 1_000_000):
        found = run(table, Looks(n_looks), method, error)
        rules = set(found.rules)
        sizes.add(len(rules))
        assert rules <= everything
        assert found.partial or rules == everything
        assert not any("no rule" in note for note in found.notes)
        assert found.findings or not rules
        if found.partial and not rules:
            assert "hold;" not in headline(found)
            assert "before the search stopped (time limit)" in headline(found)
    assert 0 in sizes
    assert len(everything) in sizes


def wide(n_rows: int = 60, n_columns: int = 6) -> tuple[Problem, np.ndarray, np.ndarray]:
    """A table of numbers with many covers, all columns compared with each other."""
    data = from_frame(numbers(n_rows, n_columns, 30))
    space = build_space(data, None, Scope(share=0.0))
    outcomes = outcomes_of(data, space, Nulls.SQL)
    problem = Problem.of(space, outcomes, budget=Looks(0))
    evidence = all_pairs(outcomes)
    return problem, *edges_of(evidence, outcomes.layout, problem.vertices)


def test_covers_that_were_found_are_given_back_though_no_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, edges, counts = wide()
    judged = []
    monkeypatch.setattr(cover, "_JUDGED_AT_ONCE", 200)
    monkeypatch.setattr(
        possible, "are_possible", lambda covers, means: judged.append(len(covers)) or np.ones(len(covers), bool)
    )
    found = minimal_covers(edges, problem.vertices, max_groups=4)
    assert len(found) > 5000
    rules, complete = finish_rules(problem, found, edges, counts)
    assert not complete
    # What is looked at after the stop is bounded, and the shortest come first.
    assert judged == [200]
    assert len(rules) == 200
    assert problem.vertices.n_predicates(rules).max() <= np.sort(problem.vertices.n_predicates(found))[len(found) // 2]


@pytest.mark.parametrize("n_columns", [12, 200])
def test_what_is_made_of_covers_after_a_stop_is_bounded_by_their_words(
    monkeypatch: pytest.MonkeyPatch, n_columns: int
) -> None:
    data = from_frame(numbers(30, n_columns, 20))
    space = build_space(data, None, Scope(cross=False))
    outcomes = outcomes_of(data, space, Nulls.SQL)
    made, vertices = [], Problem.of(space, outcomes).vertices
    mirrored = Vertices.mirrored
    monkeypatch.setattr(Vertices, "mirrored", lambda self, covers: made.append(covers.size) or mirrored(self, covers))
    monkeypatch.setattr(problems, "_PARTIAL_WORDS", 1000)
    rng = random.Random(2)
    firsts = [group.first for group in vertices.groups]
    chosen = [[1 << (first + rng.randrange(3)) for first in rng.sample(firsts, 3)] for _ in range(5000)]
    covers, short = vertices.words(map(sum, chosen)), vertices.words([1 << firsts[-1]])
    covers = np.concatenate([covers, short])
    problem = Problem.of(space, outcomes, budget=Looks(0))
    rules, complete = finish_rules(problem, covers, short, np.ones(1, np.int64))
    assert not complete
    assert 1000 - vertices.n_words < made[0] <= 1000
    assert is_among(short, rules).all()
    # Without a stop all are made rules of.
    everything, complete = finish_rules(Problem.of(space, outcomes), covers, short, np.ones(1, np.int64))
    assert complete
    assert len(everything) > len(rules)


def test_a_stop_inside_the_search_keeps_its_covers() -> None:
    problem, edges, counts = wide()

    class WhenFound(Looks):
        """Stops once the search has found some."""

        def stopped(self) -> bool:
            return bool(self.reason)

        def report(self, phase: str, done: float | None = None, n_rules: int = 0) -> None:
            if n_rules:
                self.stop("time limit")

    problem = Problem.of(problem.space, problem.outcomes, budget=WhenFound(0, n_finishing=10))
    found = search_rules(problem, edges, counts)
    assert found.partial
    assert len(found.covers)


def test_short_rules_are_proven_before_the_search_for_all_ends() -> None:
    data = from_frame(numbers(400, 4, 300))
    space = build_space(data, None, Scope(cross=False))
    problem = Problem.of(space, outcomes_of(data, space, Nulls.SQL), budget=Budget(1e9))
    search = SelectiveSearch(problem)
    search.begin()
    search.run_levels(2, 1000)
    levels = search.answer(complete=True).covers
    assert len(levels)
    # A later search that is stopped at once does not lose them.
    search.covers = search.covers[:0]
    assert search.answer(complete=True).covers.tolist() == levels.tolist()


@pytest.mark.parametrize("seed", range(6))
def test_rules_found_first_are_minimal_and_outlast_a_search_that_finds_none(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    table = pa.table({f"c{k}": [rng.randrange(4 + 40 * (k % 2)) for _ in range(90)] for k in range(4)})
    table = table.append_column("same", pa.array([value // 3 for value in table["c1"].to_pylist()]))
    everything = {render(rule) for rule in run(table, Budget(), "auto").rules}
    # As if comparing all pairs would not end in time.
    monkeypatch.setattr("naysay.discovery.engine._WORST_ESTIMATE", float("inf"))
    monkeypatch.setattr("naysay.discovery.selective._FIRST_SAMPLE_ROWS", 12)
    with monkeypatch.context() as patch:
        patch.setattr(
            "naysay.discovery.engine._choose", lambda problem, *_: ("none", empty_answer(problem, partial=True))
        )
        found = run(table, Budget(1e6), "auto")
    assert found.partial
    assert {render(rule) for rule in found.rules} <= everything
    assert found.findings
    # With all found in time, nothing is there twice.
    whole = run(table, Budget(1e6), "auto")
    assert sorted(render(rule) for rule in whole.rules) == sorted(everything)


def test_a_part_of_the_time_ends_without_ending_the_whole() -> None:
    budget = Budget(1e6)
    part = budget.part(0.0)
    assert part.stopped()
    assert not budget.stopped()
    budget.stop("interrupted")
    assert budget.part(0.5).stopped()


def test_comparing_pairs_stops_between_strips() -> None:
    outcomes = outcomes_of(
        from_frame(numbers(3000, 4, 2000)), build_space(from_frame(numbers(3000, 4, 2000))), Nulls.SQL
    )
    assert all_pairs(outcomes, Looks(1)) is None


def test_a_sample_that_does_not_show_soon_that_candidates_are_few_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    table = numbers(8, 3, 5)
    expected = set(run(table, Budget(), "auto").rules)
    # As if comparing all pairs took as long as a sample is worth.
    monkeypatch.setattr(engine, "cpu_seconds", lambda *_: 1.0)
    monkeypatch.setattr(selective.Costs, "all_pairs_seconds", lambda _: 1e5)
    monkeypatch.setattr(selective, "_FEW_SHARE", 0.0)
    found = run(table, Budget(1e6), "auto")
    assert (found.method, found.partial, set(found.rules)) == ("all-pairs", False, expected)
    monkeypatch.setattr(selective, "_FEW_SHARE", 1.0)
    found = run(table, Budget(1e6), "auto")
    assert (found.method, found.partial, set(found.rules)) == ("selective", False, expected)


@pytest.mark.parametrize("reason", ["time limit", "interrupted"])
def test_a_count_on_a_gpu_is_left_at_a_stop(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    problem, _, _ = wide()
    problem = replace(problem, budget=Looks(3) if reason == "time limit" else Budget())
    looks = []

    def count(*arguments: object, once: bool, is_stopped: Callable[[], bool]) -> None:
        """As the GPU: a look after each block."""
        for n_blocks in range(100):
            looks.append(n_blocks)
            if reason == "interrupted" and n_blocks == 5:
                problem.budget.interrupt()
            if is_stopped():
                raise gpu.CountStopped

    monkeypatch.setattr(gpu, "count_pairs", count)
    answer = compare_all(problem, Device.CUDA)
    assert len(looks) < 10
    assert answer.partial
    assert not len(answer.covers)
    assert problem.budget.reason == reason


def test_finishing_has_its_own_time() -> None:
    budget = Budget(0.0)
    assert budget.stopped()
    assert not budget.late()
    budget._stopped_at = time.monotonic() - 3600
    assert budget.late()


class StopsInside(Looks):
    """Stops at the k-th report of a phase whose name starts like this; there is time for what follows."""

    def __init__(self, phase: str, n_reports: int) -> None:
        super().__init__(0, n_finishing=10**6)
        self.phase_name, self.n_reports = phase, n_reports

    def stopped(self) -> bool:
        return bool(self.reason)

    def report(self, phase: str, done: float | None = None, n_rules: int = 0) -> None:
        self.n_reports -= phase.startswith(self.phase_name)
        if self.n_reports < 0:
            self.stop("time limit")


def of_length(discovery: Discovery, most: int) -> set[bytes]:
    """The covers of the rules of up to so many predicates."""
    covers = discovery.rules.covers
    return {cover.tobytes() for cover in covers[discovery.rules.vertices.n_predicates(covers) <= most]}


@pytest.mark.parametrize(("method", "error"), [("all-pairs", 0.0), ("all-pairs", 0.01), ("selective", 0.0)])
def test_what_is_said_to_be_complete_is_complete(monkeypatch: pytest.MonkeyPatch, method: str, error: float) -> None:
    """As if the search for all rules took longer than its share of the time; stopped at every length."""
    table = numbers(24, 3, 5)
    everything = run(table, Budget(), method, error)
    assert everything.complete_up_to is None
    monkeypatch.setattr(shortest, "_SHARE_OF_ALL", 0.0)
    seen = set()
    for n_looks in (*range(0, 30, 2), 40, 60, 100):
        found = run(table, Looks(n_looks, n_finishing=10**6), method, error)
        assert found.partial == (found.complete_up_to is not None)
        assert of_length(found, 99) <= of_length(everything, 99)
        if found.complete_up_to is not None:
            seen.add(found.complete_up_to)
            assert of_length(found, found.complete_up_to) == of_length(everything, found.complete_up_to)
    assert len(seen) > 2


@pytest.mark.parametrize("error", [0.0, 0.005])
def test_short_rules_are_found_although_the_search_for_all_is_stopped(
    monkeypatch: pytest.MonkeyPatch, error: float
) -> None:
    """Rules of all lengths are found depth first; the stop comes while these are sought, with no time limit."""
    table = numbers(24, 3, 6)
    everything = run(table, Budget(), "all-pairs", error)
    monkeypatch.setattr(shortest, "_SECONDS_AFTER_STOP", 1e9)
    budget = StopsInside("covers", 0)
    budget.max_seconds = None
    found = run(table, budget, "all-pairs", error)
    assert found.partial
    assert found.complete_up_to
    assert of_length(found, found.complete_up_to) == of_length(everything, found.complete_up_to)
    assert f"complete up to {found.complete_up_to} predicate" in headline(found)
    assert f"complete up to {found.complete_up_to} predicate" in found.text()
    assert found.missing in headline(found)


def test_short_rules_are_sought_while_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, edges, counts = wide(n_rows=30, n_columns=3)
    problem = Problem.of(problem.space, problem.outcomes, budget=Budget())
    search = shortest._ShortestFirst(problem, edges, counts)
    search._look()
    assert search.level == 0, "not before the first second is over"
    search._next_look = 0.0
    monkeypatch.setattr(shortest, "_SHARE_OF_LOOK", 1e9)
    search._look()
    assert search.level
    known = problem.vertices.n_predicates(search_rules(problem, edges, counts).covers)
    assert len(search.rules) == (known <= search.level).sum()


def test_a_limit_on_rules_says_up_to_which_length_they_are_complete() -> None:
    table = numbers(24, 3, 5)
    everything = run(table, Budget(), "all-pairs")
    lengths = everything.rules.vertices.n_predicates(everything.rules.covers).tolist()
    for method in ("all-pairs", "selective"):
        data = from_frame(table)
        space = build_space(data, None, Scope())
        outcomes = outcomes_of(data, space, Nulls.SQL)
        for limit in (1, 3, lengths.count(lengths[0]), len(lengths) - 1):
            problem = Problem.of(space, outcomes, DiscoverRequest(method=method, max_rules=limit))
            found = conclude(problem, solve(problem)[1], method)
            # Selective discovery proves whole lengths, and returns fewer if the next one has too many.
            assert len(found.rules) == limit or (method == "selective" and 0 < len(found.rules) < limit)
            assert found.reason == "limit on rules"
            assert found.complete_up_to is not None
            assert found.complete_up_to < lengths[limit]
            assert of_length(found, found.complete_up_to) == of_length(everything, found.complete_up_to)


def test_a_search_finds_no_more_covers_than_memory_or_time_are_enough_for(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = run(numbers(24, 3, 5), Budget(), "all-pairs")
    monkeypatch.setattr("naysay.discovery.problem._FEWEST_COVERS", 300)
    found = run(numbers(24, 3, 5), Budget(memory=1), "all-pairs")
    assert found.reason == "memory limit"
    assert of_length(found, 99) < of_length(everything, 99)
    assert found.complete_up_to is not None
    assert of_length(found, found.complete_up_to) == of_length(everything, found.complete_up_to)


def test_ranking_stops_between_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    table = numbers(24, 3, 5)
    monkeypatch.setattr("naysay.discovery.ranking._WORK_WHEN_STOPPED", 1)
    assert len(run(table, Budget(), "all-pairs").rules) > 100
    found = run(table, StopsInside("ranking", 2), "all-pairs")
    assert not found.partial
    assert found.notes == ("time limit: only the 40 shortest rules were ranked",)
    assert found.findings


def test_an_interrupt_of_a_part_ends_the_whole() -> None:
    budget = Budget(1e6)
    budget.part(0.5).part(0.5).interrupt()
    assert budget.reason == "interrupted"


def test_known_covers_are_recognised() -> None:
    rng = np.random.default_rng(4)
    covers = rng.integers(0, 4, (200, 3)).astype(np.uint64)
    known = rng.integers(0, 4, (30, 3)).astype(np.uint64)
    expected = [row.tolist() in known.tolist() for row in covers]
    assert is_among(covers, known).tolist() == expected
    assert any(expected)
    assert not is_among(covers, known[:0]).any()


@pytest.mark.parametrize("rate", [0.0, 1.0, 1e2, 1e9])
@pytest.mark.parametrize("method", ["auto", "all-pairs", "selective"])
def test_evidence_that_there_is_no_time_to_put_in_order_leaves_right_rules(
    monkeypatch: pytest.MonkeyPatch, method: str, rate: float
) -> None:
    table = numbers(24, 3, 5)
    everything = set(run(table, Budget(), method).rules)
    monkeypatch.setattr("naysay.discovery.evidence._ORDERED_PER_SECOND", rate)
    found = run(table, Budget(1e3), method)
    assert set(found.rules) <= everything
    assert found.partial == (set(found.rules) != everything)
    assert not found.partial or found.reason == "time limit"
    assert found.partial or rate >= 1e2
    assert not found.partial or rate < 1e9


def test_a_part_that_cannot_order_its_evidence_does_not_end_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = outcomes_of(from_frame(numbers(40, 3, 5)), build_space(from_frame(numbers(40, 3, 5))), Nulls.SQL)
    monkeypatch.setattr("naysay.discovery.evidence._ORDERED_PER_SECOND", 0.0)
    budget = Budget(1e3)
    part = budget.part(0.5)
    assert all_pairs(outcomes, part) is None
    assert part.reason == "time limit"
    assert not budget.stopped()
    # Without a limit there is always time.
    assert all_pairs(outcomes, Budget()) is not None


def test_fewer_pairs_are_met_if_there_is_no_time_to_order_many(monkeypatch: pytest.MonkeyPatch) -> None:
    table = numbers(400, 4, 1000)
    # As many codes as pairs, and time for some 2,000 of them.
    monkeypatch.setattr("naysay.discovery.evidence._ORDERED_PER_SECOND", 10.0)
    found = naysay.discover(table, 0.3, cross=False, max_seconds=1e3, max_predicates=2, method="selective")
    exact = naysay.discover(table, 0.3, cross=False, max_predicates=2)
    assert len(found.rules) > 0
    assert {render(rule) for rule in found.rules} == {render(rule) for rule in exact.rules}


def test_a_table_that_cannot_be_encoded_in_time_says_so() -> None:
    table = numbers(50, 3, 5)
    data = from_frame(table)
    with pytest.raises(Stopped):
        outcomes_of(data, build_space(data), Nulls.SQL, budget=Looks(1))
    assert not any(pair.across for pair in build_space(data, is_stopped=lambda: True).comparisons)
    for options in ({}, {"error": 0.01}, {"error": "auto"}, {"rules": ["c0 -> c1"]}, {"cross": False}):
        found = naysay.discover(table, max_seconds=1e-9, **options)
        assert found.partial
        assert found.reason == "time limit"
        assert (len(found.rules), found.findings, found.n_rows, found.complete_up_to) == (0, (), 50, 0)
        assert "time limit: stopped before the 50 rows were encoded, so nothing was compared" in found.notes
        assert "before the search stopped (time limit)" in headline(found)


def test_longer_rules_are_not_made_if_there_is_no_time_to_measure_them(monkeypatch: pytest.MonkeyPatch) -> None:
    table = numbers(60, 4, 6)
    everything = {render(rule) for rule in naysay.discover(table, 0.1, measure="rows", max_predicates=2).rules}
    monkeypatch.setattr("naysay.discovery.measured._EXTENDED_PER_SECOND", 1e-6)
    found = naysay.discover(table, 0.1, measure="rows", max_predicates=2, max_seconds=1e3)
    assert found.partial
    assert found.reason == "time limit"
    assert found.complete_up_to == 0
    assert {render(rule) for rule in found.rules} <= everything


def test_so_many_columns_are_not_compared_with_each_other() -> None:
    table = numbers(8, 40, 3)
    found = naysay.discover(table, max_predicates=1)
    assert not any(pair.across for pair in found.space.comparisons)
    assert "40 columns make 1,600 comparisons, so each column is only compared with itself" in found.notes[0]
    alone = naysay.discover(table, max_predicates=1, cross=False)
    assert list(found.rules) == list(alone.rules)
    # The space of a paper stays what it is.
    with pytest.raises(UsageError, match="more than the 1,000 that discovery can handle"):
        naysay.discover(numbers(8, 60, 3), space="incdc", max_predicates=1)


@pytest.mark.parametrize(("name", "value"), [("_EXTENDED_PER_SECOND", 0), ("_MOST_CANDIDATES", 0)])
def test_too_many_rules_to_choose_an_error_do_not_end_the_search(
    monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    table = numbers(200, 3, 20)
    expected = naysay.discover(table, error=0).rules
    monkeypatch.setattr(measured, name, value)
    found = naysay.discover(table, error="auto", max_seconds=1e6)
    assert not found.partial
    assert set(found.rules) == set(expected)
    assert found.notes == ("there was no time to choose an error, so rules that hold exactly are shown",)


def test_outcomes_of_threads_are_not_put_in_order_if_there_is_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    data = from_frame(numbers(300, 3, 50))
    outcomes = outcomes_of(data, build_space(data, None, Scope()), Nulls.SQL)
    monkeypatch.setattr(evidence, "_ORDERED_PER_SECOND", 0)
    monkeypatch.setattr(evidence, "merge", lambda _: pytest.fail("put in order"))
    budget = Budget(1e6, threads=2)
    assert all_pairs(outcomes, budget) is None
    assert budget.reason == "time limit"
