"""Verification of candidates against the oracle: every shape of rule, nulls of both meanings, columns across."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import naive
from naysay.discovery.outcomes import outcomes_of
from naysay.discovery.space import Scope, build_space
from naysay.discovery.verify import TooLong, Verifier
from naysay.discovery.vertices import Group, to_int, vertices_of
from naysay.rule.model import Nulls
from naysay.table import from_frame


def random_table(rng: random.Random, n_rows: int, n_columns: int) -> pa.Table:
    columns = {}
    for number in range(n_columns):
        n_values = rng.choice((1, 2, 3, 8, 100))
        values = [None if rng.random() < 0.1 * (number % 2) else rng.randrange(n_values) for _ in range(n_rows)]
        columns[f"c{number}"] = pa.array(values, pa.int64())
    return pa.table(columns)


def random_choice(rng: random.Random, group: Group) -> int:
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
