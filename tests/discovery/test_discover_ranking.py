"""The test for accidental rules: compared with its definition, rule by rule, and on tables with known true rules."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from test_discover_evidence import random_table

import naysay
from naysay.discovery.engine import compare_all
from naysay.discovery.evidence import all_pairs
from naysay.discovery.outcomes import outcomes_of
from naysay.discovery.problem import Problem
from naysay.discovery.ranking import ranker_of
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.shortest import search_rules
from naysay.discovery.space import build_space
from naysay.discovery.vertices import VertexGroup, to_int
from naysay.rule.model import Nulls
from naysay.table import from_frame


def log_chance(n_others: float, violations: int, fraction: float, degree: float) -> float:
    """The Chernoff bound for at most this many hits among the disjoint pairs."""
    n_disjoint = n_others / 2 / (degree + 1 if degree > 1 else 1)
    if fraction >= 1.0:
        return -math.inf if n_disjoint and not violations else 0.0
    observed = violations / n_others if n_others else 0.0
    if observed >= fraction:
        return 0.0
    divergence = (1 - observed) * math.log((1 - observed) / (1 - fraction))
    if observed > 0.0:
        divergence += observed * math.log(observed / fraction)
    return -n_disjoint * divergence


def is_incomparable(edge: int, group: VertexGroup) -> bool:
    return edge & group.mask == group.mask


def asks_equal(group: VertexGroup, cover: int) -> bool:
    return group.says_equal((cover & group.mask) >> group.first)


@pytest.mark.parametrize("nulls", list(Nulls))
@pytest.mark.parametrize("error", [0, 40])
def test_as_it_is_defined(nulls: Nulls, error: int) -> None:
    table = from_frame(random_table(random.Random(4), 5, 60))
    space = build_space(table)
    outcomes = outcomes_of(table, space, nulls)
    problem = replace(Problem.of(space, outcomes, DiscoverRequest(nulls=nulls)), most=error)
    answer = compare_all(problem)
    ranker = ranker_of(answer, problem)
    covers = answer.covers[:200]
    assert len(covers) > 20
    results = ranker.test(np.ascontiguousarray(covers))
    edges = [to_int(edge) for edge in answer.edges]
    counts = answer.counts.tolist()
    n_rows = outcomes.n_table_rows
    layers = layers_of([len(pair.ops) for pair in space.comparisons])
    for place, cover in enumerate(map(to_int, covers)):
        groups = [group for group in problem.vertices.groups if cover & group.mask]
        numbers = [number for number, group in enumerate(problem.vertices.groups) if cover & group.mask]
        violations = sum(count for edge, count in zip(edges, counts, strict=True) if not edge & cover)
        chances, nears = [], []
        for group, number in zip(groups, numbers, strict=True):
            rest, own = cover & ~group.mask, cover & group.mask
            known = [(e, count) for e, count in zip(edges, counts, strict=True) if not is_incomparable(e, group)]
            n_pairs = max(1, sum(count for _, count in known))
            n_others = sum(count for edge, count in known if not edge & rest)
            fraction = sum(count for edge, count in known if not edge & own) / n_pairs
            degrees = [
                ranker.max_equal[n] if asks_equal(g, cover) else n_rows - 1
                for g, n in zip(groups, numbers, strict=True)
                if n != number
            ]
            degree = max(1, min([n_rows - 1, *degrees]))
            own_degree = ranker.max_equal[number] if asks_equal(group, cover) else n_rows - 1
            if len(groups) == 1:
                chances.append(log_chance(n_others, violations, 0.5, degree))
            else:
                one = log_chance(n_others, violations, fraction, degree)
                other = log_chance(
                    round(fraction * n_pairs), violations, n_others / n_pairs, max(1, min(own_degree, n_rows - 1))
                )
                chances.append(min(one, other))
            nears.append(n_others - violations)
        found = results.at(place)
        assert found.near == tuple(nears)
        assert found.violations == violations
        assert found.surprise == pytest.approx(-max(chances) - layers[len(groups)])


def layers_of(n_ops: list[int]) -> list[float]:
    n_of_length = [1.0] + [0.0] * len(n_ops)
    for n in n_ops:
        for length in range(len(n_of_length) - 1, 0, -1):
            n_of_length[length] += n * n_of_length[length - 1]
    return [math.log(max(1.0, n)) + math.log(max(1, len(n_ops))) for n in n_of_length]


def test_what_is_true_comes_before_what_happens_to_be() -> None:
    rng = np.random.default_rng(0)
    zips = rng.integers(0, 50, 2000)
    table = pa.table(
        {
            "zip": zips,
            "city": zips // 3,
            "state": zips // 12,
            **{f"noise{k}": rng.integers(0, 30, 2000) for k in range(4)},
        }
    )
    found = naysay.discover(table, cross=False)
    sure = [naysay.render(f.rule, short=True) for f in found.findings if not f.tested.by_accident]
    assert {"zip -> city", "city -> state"} <= set(sure)
    assert not any("noise" in text and "->" in text for text in sure)
    assert [naysay.render(rule, short=True) for rule in found.because("zip -> state")] == [
        "zip -> city",
        "city -> state",
    ]
    assert found.because("state -> city") == []


def test_noise_has_no_rule_that_is_sure() -> None:
    rng = np.random.default_rng(7)
    table = pa.table({f"c{k}": rng.integers(0, 2 + 3 * k, 150) for k in range(9)})
    found = naysay.discover(table, cross=False)
    assert len(found.rules) > 20
    assert sum(not finding.tested.by_accident for finding in found.top(100)) == 0


def test_partial_evidence_is_all_there_is() -> None:
    """Rules found from complete evidence come with exact counts."""
    table = from_frame(random_table(random.Random(9), 4, 30))
    space = build_space(table)
    outcomes = outcomes_of(table, space, Nulls.SQL)
    problem = Problem.of(space, outcomes)
    evidence = all_pairs(outcomes)
    assert evidence is not None
    answer = compare_all(problem)
    found = search_rules(problem, answer.edges, answer.counts)
    assert not found.partial
    assert np.array_equal(found.covers, answer.covers)
    assert int(answer.counts.sum()) == outcomes.n_pairs == evidence.n_pairs
