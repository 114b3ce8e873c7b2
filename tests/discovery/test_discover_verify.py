"""Verification of candidates compared with the oracle: every shape of rule, nulls of both meanings, columns across."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import naive
from naysay.discovery import verify
from naysay.discovery.outcomes import outcomes_of
from naysay.discovery.space import Scope, build_space
from naysay.discovery.verify import Costs, TooLong, Verifier
from naysay.discovery.vertices import VertexGroup, to_int, vertices_of
from naysay.kernels.joins.find import GAVE_UP, find_three_orders
from naysay.rule.model import Nulls
from naysay.table import from_frame


def random_table(rng: random.Random, n_rows: int, n_columns: int) -> pa.Table:
    columns = {}
    for number in range(n_columns):
        n_values = rng.choice((1, 2, 3, 8, 100))
        values = [None if rng.random() < 0.1 * (number % 2) else rng.randrange(n_values) for _ in range(n_rows)]
        columns[f"c{number}"] = pa.array(values, pa.int64())
    return pa.table(columns)


def random_choice(rng: random.Random, group: VertexGroup) -> int:
    """Some vertices of a group that may stand together."""
    while True:
        mask = rng.randrange(1, 1 << group.size)
        try:
            group.ops(mask << group.first)
        except KeyError:
            continue
        return mask << group.first


@pytest.mark.parametrize("nulls", list(Nulls))
@pytest.mark.parametrize("cross", [False, True])
def test_finds_a_pair_exactly_where_there_is_one(nulls: Nulls, cross: bool) -> None:
    rng = random.Random(7)
    broken = kept = 0
    for _ in range(120):
        table = random_table(rng, rng.choice((2, 3, 8, 30, 60)), rng.randint(2, 6))
        space = build_space(from_frame(table), None, Scope(cross=cross, share=0.0, within_row=cross))
        outcomes = outcomes_of(from_frame(table), space, nulls, collapse=False)
        vertices = vertices_of(space, outcomes.layout)
        verifier = Verifier(outcomes, vertices)
        rows = table.to_pylist()
        for _ in range(6):
            groups = rng.sample(vertices.groups, min(len(vertices.groups), rng.randint(1, 6)))
            cover = sum(random_choice(rng, group) for group in groups)
            rule = vertices.rule(cover)
            pair = verifier.find(cover)
            expected = {
                (i, j)
                for i, t in enumerate(rows)
                for j, s in enumerate(rows)
                if i != j and naive.breaks(rule, t, s, nulls)
            }
            assert pair in expected if expected else pair is None, (rule, rows)
            broken += bool(expected)
            kept += not expected
    assert broken > 100
    assert kept > 100


def test_gives_up_when_told_to() -> None:
    rng = random.Random(1)
    table = pa.table({name: [rng.random() for _ in range(500)] for name in "abcde"})
    space = build_space(from_frame(table), None, Scope(cross=False))
    outcomes = outcomes_of(from_frame(table), space, Nulls.SQL)
    vertices = vertices_of(space, outcomes.layout)
    below = sum(0b110 << group.first for group in vertices.groups)
    assert Verifier(outcomes, vertices).find(below) is not None
    with pytest.raises(TooLong):
        Verifier(outcomes, vertices).find(below, budget=1)
    assert to_int(vertices.words([below])[0]) == below


@pytest.mark.parametrize("budget", [0, 12, 10**9])
def test_three_orders_by_brute_force(budget: int) -> None:
    rng = random.Random(budget)
    n_given_up = 0
    for _ in range(400):
        n_rows, n_values, n_labels = rng.randint(0, 12), rng.choice((1, 3, 8)), rng.choice((1, 2, 9))
        groups = sorted(rng.randrange(3) for _ in range(n_rows))
        rows = sorted(
            (group, *(rng.randrange(n_values) for _ in range(3)), rng.randrange(n_labels)) for group in groups
        )
        points = np.array([row[1:] for row in rows], np.int32).reshape(-1, 4).T.copy()
        starts = np.array([sum(group < g for group in groups) for g in range(4)], np.int32)
        strict = np.array([rng.randrange(2) for _ in range(3)], np.int64)
        found = find_three_orders(points, starts, n_values, strict, budget)
        expected = {
            (t, s)
            for t in range(n_rows)
            for s in range(n_rows)
            if groups[t] == groups[s]
            and rows[t][4] != rows[s][4]
            and all(rows[t][k + 1] + strict[k] <= rows[s][k + 1] for k in range(3))
        }
        if found[0] == GAVE_UP:
            n_given_up += 1
        else:
            assert tuple(found) in expected if expected else tuple(found) == (-1, -1)
    assert (n_given_up > 0) == (budget < 10**9)


def test_what_is_kept_between_candidates_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """And candidates are judged the same if hardly anything is kept."""
    rng = random.Random(2)
    table = pa.table({name: [rng.randrange(9) for _ in range(300)] for name in "abcdef"})
    space = build_space(from_frame(table), None, Scope(cross=False))
    outcomes = outcomes_of(from_frame(table), space, Nulls.SQL)
    vertices = vertices_of(space, outcomes.layout)
    covers = [
        sum(random_choice(rng, group) for group in rng.sample(vertices.groups, rng.randint(2, 5))) for _ in range(150)
    ]
    wanted = [Verifier(outcomes, vertices).find(cover) for cover in covers]
    monkeypatch.setattr(verify, "_FEWEST_KEPT_BYTES", 0)
    monkeypatch.setattr(verify, "_KEPT_BYTES_PER_ROW", 20)
    verifier = Verifier(outcomes, vertices)
    for cover, pair in zip(covers, wanted, strict=True):
        assert verifier.find(cover) == pair
        assert sum(array.nbytes for each in verifier._kept.values() for array in each) <= 20 * outcomes.n_rows
    assert verifier._kept


def test_many_rows_are_sized_by_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    columns = {"a": [rng.choice([*range(20), None]) for _ in range(4000)], "b": [rng.randrange(4) for _ in range(4000)]}
    table = from_frame(pa.table(columns))
    outcomes = outcomes_of(table, build_space(table), Nulls.SQL, collapse=False)
    verifier = Verifier(outcomes, vertices_of(build_space(table), outcomes.layout))
    exact = [Costs(verifier, 1).n_pairs(mask) for mask in (1, 2, 3)]
    rows = list(zip(columns["a"], columns["b"], strict=True))
    sizes = Counter(row for row in rows if row[0] is not None)
    assert exact[2] == sum(size * (size - 1) // 2 for size in sizes.values())
    monkeypatch.setattr(verify, "_SIZED_ROWS", 1000)
    about = [Costs(verifier, 1).n_pairs(mask) for mask in (1, 2, 3)]
    assert about != exact
    assert all(0.8 < one / other < 1.25 for one, other in zip(about, exact, strict=True))
