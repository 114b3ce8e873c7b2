"""Rules accepted by rows to remove, rows in conflict or violations per tested pair, against trying every rule."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from naive_discover import Accepts, either_way, minimal_rules, minimal_rules_by
from small_tables import comparisons_of, naive_rule, random_scope, random_table

import naive
import naysay
from naive import smallest_cover
from naysay.api import _RuleMeasures
from naysay.discovery import measured, selective
from naysay.discovery.cover import allowed_pairs
from naysay.discovery.engine import discover
from naysay.discovery.outcomes import outcomes_of
from naysay.discovery.problem import Problem
from naysay.discovery.request import DiscoverRequest, ErrorMeasure
from naysay.discovery.space import build_space
from naysay.kernels.covers.measured import UNDECIDED, count_conflicts, count_removed
from naysay.rule.model import Nulls
from naysay.table import from_frame

MEASURES = (ErrorMeasure.ROWS, ErrorMeasure.CONFLICTS, ErrorMeasure.TESTED)
N_TABLES = {"soak": 3_000, "mutation": 30}.get(os.environ.get("NAYSAY_PROFILE", ""), 240)


def accepts(measure: ErrorMeasure, error: float, n_rows: int) -> Accepts:
    most = Fraction(str(error)) * n_rows

    def by_rows(broken: list[tuple[int, int]], others: Any, is_one_row: bool) -> bool:
        return smallest_cover({frozenset(pair) for pair in broken}) <= most

    def by_conflicts(broken: list[tuple[int, int]], others: Any, is_one_row: bool) -> bool:
        if is_one_row:
            return by_rows(broken, others, is_one_row)
        return len({row for pair in broken for row in pair}) <= most

    def by_tested(broken: list[tuple[int, int]], others: list[list[tuple[int, int]]], is_one_row: bool) -> bool:
        if not broken:
            return True
        return len(others) > 1 and all(len(broken) <= Fraction(str(error)) * len(other) for other in others)

    return {ErrorMeasure.ROWS: by_rows, ErrorMeasure.CONFLICTS: by_conflicts, ErrorMeasure.TESTED: by_tested}[measure]


def compare(seed: int, measure: ErrorMeasure) -> None:
    rng = random.Random(seed)
    table = random_table(rng, large=False)
    table = table.select(table.column_names[:3])
    if table.num_rows < 2:
        return
    scope, nulls, error = random_scope(rng, table.num_columns), rng.choice(tuple(Nulls)), rng.choice((0.15, 0.3, 0.5))
    request = DiscoverRequest(
        space=scope, nulls=nulls, error=error, measure=measure, threads=1, max_predicates=8 if seed % 2 else None
    )
    local = from_frame(table)
    found = discover(local, request, _RuleMeasures(local, nulls, 1))
    rules = minimal_rules_by(
        table.to_pylist(),
        comparisons_of(found.space),
        accepts(measure, error, table.num_rows),
        nulls_equal=nulls is Nulls.EQUAL,
    )
    ours = list(map(naive_rule, found.rules))
    assert len(either_way(ours)) == len(ours), seed
    if any("could not be determined" in note for note in found.notes):
        # What could not be measured counts as broken: what is found must still be accepted.
        rows = table.to_pylist()
        assert all(naive.rows_to_remove(rows, rule, nulls) <= error * len(rows) for rule in found.rules), seed
        return
    assert either_way(ours) == either_way(rule for rule in rules if rule), seed


@pytest.mark.parametrize("measure", MEASURES)
def test_same_rules_as_trying_all(measure: ErrorMeasure) -> None:
    for seed in range(N_TABLES):
        compare(seed, measure)


@pytest.mark.parametrize("measure", [ErrorMeasure.CONFLICTS, ErrorMeasure.ROWS])
def test_same_rules_if_a_sample_is_measured_first(measure: ErrorMeasure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "SQUARE_ROWS", 3)
    monkeypatch.setattr(measured, "SAMPLE_ROWS", 3)
    monkeypatch.setattr(measured, "_STAGE_ROWS", (1,))
    # So that samples do reject.
    monkeypatch.setattr(measured, "most_in_sample", lambda most, n_rows, n_sampled: min(most, n_sampled))
    for seed in range(N_TABLES // 4):
        compare(seed, measure)


def test_fewest_rows_to_remove_of_random_graphs() -> None:
    rng = np.random.default_rng(1)
    for _ in range(400):
        n_rows = int(rng.integers(1, 12))
        joined = np.triu(rng.random((n_rows, n_rows)) < rng.random(), 1)
        joined = joined | (joined.T & (rng.random((n_rows, n_rows)) < 0.5))
        pairs = np.zeros((n_rows, 1), np.uint64)
        for i, j in zip(*np.nonzero(joined), strict=True):
            pairs[i, 0] |= np.uint64(1 << int(j))
        edges = {frozenset((int(i), int(j))) for i, j in zip(*np.nonzero(joined), strict=True)}
        fewest = smallest_cover(edges)
        assert count_conflicts(pairs) == len({row for edge in edges for row in edge})
        for most in (0, fewest - 1, fewest, n_rows):
            if most >= 0:
                assert count_removed(pairs, most, 10_000) == min(fewest, most + 1)


def test_a_search_that_takes_too_many_steps_is_undecided() -> None:
    rng = np.random.default_rng(2)
    n_rows = 128
    joined = np.triu(rng.random((n_rows, n_rows)) < 0.06, 1)
    pairs = np.zeros((n_rows, 2), np.uint64)
    for i, j in zip(*np.nonzero(joined), strict=True):
        pairs[i, int(j) >> 6] |= np.uint64(1 << (int(j) & 63))
    assert count_removed(pairs, n_rows, 3) == UNDECIDED


def test_a_sample_rejects_only_what_the_table_would_reject() -> None:
    rng = np.random.default_rng(3)
    for most, n_rows, n_sampled in ((10, 1_000, 100), (500, 10_000, 1_024), (0, 50, 10), (3_000, 5_000, 1_024)):
        bound = measured.most_in_sample(most, n_rows, n_sampled)
        assert bound >= most * n_sampled // n_rows
        drawn = rng.hypergeometric(most, n_rows - most, n_sampled, 20_000)
        assert drawn.max() <= bound
    assert measured.most_in_sample(500, 10_000, 1_024) < 150


def test_options_that_contradict_each_other_are_refused() -> None:
    table = pa.table({"a": [1, 2, 3]})
    for options, words in (
        ({"error": 0.1, "measure": "cells"}, "unknown measure 'cells'"),
        ({"measure": "rows"}, "set an error"),
        ({"error": "auto", "measure": "pairs"}, "leave out measure"),
        ({"error": "some"}, "'auto' or a fraction"),
        ({"error": 1.0}, "less than 1"),
        ({"error": 0.1, "measure": "rows", "method": "all-pairs"}, "all-pairs"),
        ({"error": 0.1, "measure": "tested", "method": "selective"}, "selective"),
        ({"error": 0.1, "method": "hydra"}, "hydra"),
        ({"error": "auto", "method": "hydra"}, "hydra"),
        ({"error": 0.1, "measure": "rows", "device": "cuda"}, "cuda"),
    ):
        with pytest.raises(naysay.UsageError, match=words):
            naysay.discover(table, **options)


def dirty_table(n_rows: int, n_wrong: int) -> pa.Table:
    rng = np.random.default_rng(4)
    zips = rng.integers(0, 30, n_rows)
    cities = zips // 3
    wrong = rng.choice(n_rows, n_wrong, replace=False)
    cities[wrong] = (cities[wrong] + 1 + rng.integers(0, 8, n_wrong)) % 10
    return pa.table({"zip": zips, "city": np.char.add("c", cities.astype(str)), "noise": rng.integers(0, 40, n_rows)})


@pytest.mark.parametrize("n_rows", [400, 6_000])
def test_rules_found_by_rows_pass_a_check_with_their_tolerance(n_rows: int) -> None:
    table = dirty_table(n_rows, n_rows // 50)
    found = naysay.discover(table, error=0.03, measure="rows", cross=False)
    assert found.method == ("all-pairs" if n_rows == 400 else "selective")
    assert "zip -> city" in {naysay.render(rule, short=True) for rule in found.rules}
    assert all(result.passes for result in naysay.check(table, list(found.rules)))
    assert any(rule.max_fraction for rule in found.rules)
    assert found.measure == "rows"
    assert not any(naysay.render(rule, short=True) == "zip -> city" for rule in naysay.discover(table, error=0).rules)


def test_a_stop_leaves_whole_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    table = pa.table({f"c{place}": rng.integers(0, 9, 300) for place in range(5)})
    table = table.append_column("half", pa.array(np.asarray(table["c0"]) // 2))
    whole = naysay.discover(table, error=0.2, measure="rows", cross=False, max_predicates=2)
    evaluate, n_groups = measured.RowCounter.evaluate, []

    def stop_at_three(counter: measured.RowCounter, covers: Any) -> Any:
        n_groups.append(int(counter.problem.vertices.n_groups(covers).max()))
        if n_groups[-1] == 3:
            counter.problem.budget.stop("time limit")
        return evaluate(counter, covers)

    monkeypatch.setattr(measured.RowCounter, "evaluate", stop_at_three)
    found = naysay.discover(table, error=0.2, measure="rows", cross=False, max_predicates=4)
    assert (found.partial, found.reason, found.complete_up_to) == (True, "time limit", 2)
    assert len(whole.rules)
    assert [rule for rule in found.rules if len(rule.predicates) <= 2] == list(whole.rules)


@pytest.mark.parametrize("measure", ["rows", "conflicts", "tested"])
def test_the_shortest_rules_are_kept_if_only_some_are_wanted(measure: str) -> None:
    table = dirty_table(300, 6)
    table = table.append_column("state", pa.array(np.asarray(table["zip"]) // 10))
    every = naysay.discover(table, error=0.1, measure=measure, cross=False)
    some = naysay.discover(table, error=0.1, measure=measure, cross=False, max_rules=1)
    assert len(every.rules) > 1
    assert list(some.rules) == list(every.rules[:1])
    assert some.partial


def test_pairs_drawn_at_random_and_counts_find_the_short_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(0, N_TABLES, 2):
        rng = random.Random(seed)
        table = random_table(rng, large=seed % 4 == 0)
        table = table.select(table.column_names[:3])
        n_pairs = table.num_rows * (table.num_rows - 1)
        if not n_pairs:
            continue
        scope, nulls, error = random_scope(rng, table.num_columns), rng.choice(tuple(Nulls)), rng.choice((0.05, 0.25))
        monkeypatch.setattr(selective, "_MET_PAIRS", rng.choice((3, 6, 100)) * table.num_rows)
        local = from_frame(table)
        request = DiscoverRequest(
            space=scope, nulls=nulls, error=error, method="selective", max_predicates=3, threads=1
        )
        found = discover(local, request, _RuleMeasures(local, nulls, 1))
        most = allowed_pairs(error, n_pairs)
        rules = minimal_rules(
            table.to_pylist(), comparisons_of(found.space), nulls_equal=nulls is Nulls.EQUAL, most=most
        )
        expected = either_way(rule for rule in rules if 0 < len(rule) <= 3)
        assert either_way(map(naive_rule, found.rules)) == expected, seed
        assert found.complete_up_to in (None, 3)


def test_random_pairs_and_all_pairs_agree_but_for_rules_at_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selective, "_MET_PAIRS", 500_000)
    table = dirty_table(3_000, 60)
    by_all = naysay.discover(table, error=0.01, method="all-pairs", cross=False)
    by_some = naysay.discover(table, error=0.01, method="selective", cross=False)
    assert by_some.method == "selective"
    assert any("drawn at random" in note for note in by_some.notes)
    assert {rule for rule in by_all.rules if len(rule.predicates) <= 3} == {
        replace(rule, max_fraction=other.max_fraction)
        for rule in by_some.rules
        for other in by_all.rules
        if rule.predicates == other.predicates and len(rule.predicates) <= 3
    }
    assert len(by_some.rules) > 1


def test_every_row_meets_as_many_others() -> None:
    table = from_frame(dirty_table(1_000, 10))
    request = DiscoverRequest(error=0.01)
    space = build_space(table, None, request.scope)
    problem = Problem.of(space, outcomes_of(table, space, Nulls.SQL), request)
    seen = selective._meet(problem)
    assert seen is not None
    assert seen.n_pairs == 1_000 * 999


def test_a_search_by_rows_keeps_within_memory() -> None:
    found = naysay.discover(dirty_table(300, 6), error=0.02, measure="rows", cross=False)
    assert not found.partial
    with pytest.raises(naysay.ResourceError, match="MiB"):
        naysay.discover(dirty_table(300, 6), error=0.02, measure="rows", cross=False, memory="1M")


def test_too_many_rules_to_measure_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    table = dirty_table(300, 6)
    monkeypatch.setattr(measured, "_MOST_CANDIDATES", 70)
    found = naysay.discover(table, error=0.01, measure="rows", cross=False)
    assert (found.partial, found.reason, found.complete_up_to) == (True, "too many rules to measure", 1)
