"""The methods must agree on the rules, for any sample; and the rules must hold according to the oracle."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pyarrow as pa
import pytest

import naive
from naysay.discovery import engine, selective
from naysay.discovery.engine import discover
from naysay.discovery.outcomes import outcomes_of
from naysay.discovery.problem import Problem
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.space import Scope, build_space
from naysay.discovery.verify import Costs
from naysay.discovery.vertices import to_int
from naysay.papers.hydra import method as completion
from naysay.papers.hydra import method as sampling
from naysay.rule.model import Nulls
from naysay.table import from_frame

# Smaller tables if kernels are not compiled.
N_ROWS = (3, 5, 20) if os.environ.get("NAYSAY_PROFILE") == "mutation" else (3, 5, 20, 60, 150)


def correlated_table(rng: random.Random, n_rows: int) -> pa.Table:
    """Columns that sometimes depend on each other, so that rules of all kinds hold."""
    base = [rng.randrange(max(2, n_rows // 3)) for _ in range(n_rows)]
    columns = {"base": base, "down": [-(value // 2) for value in base]}
    for number in range(rng.randint(1, 4)):
        n_values = rng.choice((2, 3, 10, n_rows))
        dirty = rng.choice((0.0, 0.05))
        columns[f"c{number}"] = [
            rng.randrange(n_values) if number % 2 or rng.random() < dirty else (value * 7) % n_values for value in base
        ]
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    if rng.random() < 0.5:
        name = rng.choice(table.column_names)
        values = [None if rng.random() < 0.1 else value for value in table[name].to_pylist()]
        table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.int64()))
    if rng.random() < 0.3:
        table = pa.concat_tables([table, table.slice(0, n_rows // 4)])
    return table


@pytest.mark.parametrize("seed", range(40))
def test_selective_finds_the_rules_of_all_pairs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    table = from_frame(correlated_table(rng, rng.choice(N_ROWS[1:])))
    nulls = rng.choice(tuple(Nulls))
    scope = Scope(cross=seed % 4 == 0, both_ways=seed % 8 == 0, within_row=seed % 16 == 0)
    monkeypatch.setattr(selective, "SAMPLE_ROWS", rng.choice((2, 5, 20)))
    monkeypatch.setattr(selective, "_FIRST_PAIRS", rng.choice((0, 30)))
    monkeypatch.setattr(selective, "_FIRST_PAIRS_A_ROW", 0)
    request = DiscoverRequest(nulls=nulls, space=scope, threads=2, max_predicates=2 if scope.cross else None)
    expected = discover(table, replace(request, method="all-pairs"))
    found = discover(table, replace(request, method="selective"))
    assert found.reason == expected.reason
    assert set(map(to_int, found.rules.covers)) == set(map(to_int, expected.rules.covers))


@pytest.mark.parametrize("seed", range(30))
def test_hydra_finds_the_rules_of_all_pairs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    table = from_frame(correlated_table(rng, rng.choice((N_ROWS[0], *N_ROWS[2:]))))
    nulls = rng.choice(tuple(Nulls))
    scope = Scope(cross=seed % 4 == 0, both_ways=seed % 8 == 0, within_row=seed % 16 == 0)
    # With hardly any samples the completion has to find what is missing.
    monkeypatch.setattr(sampling, "SAMPLES_A_ROW", rng.choice((0, 1, 20)))
    monkeypatch.setattr(sampling, "EFFICIENCY", rng.choice((0.005, 2.0)))
    monkeypatch.setattr(completion, "_LIMIT_ROWS", rng.choice((1, 50, 1 << 20)))
    request = DiscoverRequest(nulls=nulls, space=scope, threads=2, max_predicates=2 if scope.cross else None)
    expected = discover(table, replace(request, method="all-pairs"))
    found = discover(table, replace(request, method="hydra"))
    assert found.reason == expected.reason
    assert set(map(to_int, found.rules.covers)) == set(map(to_int, expected.rules.covers))


@pytest.mark.parametrize(("few", "method"), [(2_000, "selective"), (0, "all-pairs")])
def test_auto_proves_few_candidates_where_all_pairs_take_a_second(
    few: int, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(0)
    values = [rng.randrange(9) for _ in range(150)]
    table = from_frame(
        pa.table({"id": range(150), "a": values, "b": [value // 3 for value in values], "c": values[::-1]})
    )
    monkeypatch.setattr(engine, "cpu_seconds", lambda *_: 0.8 * engine._PATIENCE_SECONDS)
    monkeypatch.setattr(selective, "_FEW_COVERS", few)
    monkeypatch.setattr(selective, "_FEWEST_CANDIDATES", 0)
    monkeypatch.setattr(Costs, "all_pairs_seconds", lambda _: 3_600.0)
    searched: list[int] = []
    minimal_covers = selective.minimal_covers
    monkeypatch.setattr(
        selective,
        "minimal_covers",
        lambda edges, *args, **more: searched.append(len(edges)) or minimal_covers(edges, *args, **more),
    )
    found = discover(table, DiscoverRequest(device="cpu"))
    assert found.method == method
    # Covers are searched for again only if something was learnt.
    assert len(searched) == len(set(searched)) > 0
    assert set(found.all) == set(discover(table, DiscoverRequest(method="all-pairs")).all)


def test_rules_hold_and_break_without_any_predicate() -> None:
    table = correlated_table(random.Random(5), 25)
    rows = table.to_pylist()
    found = discover(from_frame(table), DiscoverRequest(method="all-pairs"))
    assert len(found.rules) > 10
    for rule in list(found.rules)[::7]:
        assert naive.verify(rows, rule)
        for left_out in rule.predicates:
            rest = tuple(predicate for predicate in rule.predicates if predicate is not left_out)
            assert not rest or not naive.verify(rows, type(rule)(rest))


def test_a_stop_in_the_middle_gives_rules_that_hold() -> None:
    """Everything that was proven when time ran out is a minimal rule of the whole table."""
    table = from_frame(correlated_table(random.Random(11), 150))
    expected = set(map(to_int, discover(table, DiscoverRequest(method="all-pairs")).rules.covers))
    space = build_space(table)
    for rounds in (1, 3, 8, 20, 60):
        problem = Problem.of(space, outcomes_of(table, space, Nulls.SQL))
        budget, calls = problem.budget, iter(range(rounds))
        stopped = budget.stopped
        budget.stopped = lambda calls=calls, stopped=stopped, budget=budget: (  # type: ignore[method-assign]
            stopped() or (next(calls, None) is None and (budget.stop("test") or True))
        )
        answer = selective.find(problem)
        assert answer.partial
        assert set(map(to_int, answer.covers)) <= expected
