"""Rule sets of small random tables against trying every rule there is."""

from __future__ import annotations

import os
import random
from typing import Any

import pyarrow as pa
import pytest
from naive_discover import Comparison, NaiveRule, either_way, minimal_rules

from naysay.discovery.approximate import allowed_pairs
from naysay.discovery.cover import minimal_covers, near_covers
from naysay.discovery.evidence import all_pairs
from naysay.discovery.outcomes import outcomes_of
from naysay.discovery.space import Scope, Shared, Space, build_space
from naysay.discovery.trivial import possible, unrelaxed
from naysay.discovery.vertices import edges_of, to_int, vertices_of
from naysay.rule.model import Nulls, Rule
from naysay.table import from_frame

# 5,100 tables in all; ten times as many in the soak profile.
N_TABLES = 17_000 if os.environ.get("NAYSAY_PROFILE") == "soak" else 1_700


def random_small_table(rng: random.Random) -> pa.Table:
    n_rows = rng.choice((0, 1, 2, 2, 3, 4, 5, 6, 7))
    columns = {}
    for name in "abcd"[: rng.choice((1, 2, 2, 3, 3, 4))]:
        kind = rng.choice(("int", "int", "float", "text", "bool"))
        pool: list[Any] = {
            "int": [0, 1, 2, 3, -4],
            "float": [0.0, -0.0, 0.5, float("nan"), float("inf")],
            "text": ["", "a", "b", "é"],
            "bool": [True, False],
        }[kind]
        pool = pool[: rng.randint(1, len(pool))] + ([None] if rng.random() < 0.3 else [])
        type_ = {"int": pa.int64(), "float": pa.float64(), "text": pa.string(), "bool": pa.bool_()}[kind]
        columns[name] = pa.array([rng.choice(pool) for _ in range(n_rows)], type_)
    return pa.table(columns)


def random_scope(rng: random.Random, n_columns: int) -> Scope:
    cross = n_columns <= 2 and rng.random() < 0.6
    return Scope(
        cross=cross,
        share=rng.choice((0.0, 0.3)),
        shared=rng.choice(tuple(Shared)),
        both_ways=rng.random() < 0.6,
        within_row=n_columns == 2 and rng.random() < 0.3,
    )


def comparisons_of(space: Space) -> list[Comparison]:
    return [
        (pair.left.row.value, pair.left.name, pair.right.row.value, pair.right.name, pair.ordered)
        for pair in space.comparisons
    ]


def naive_rule(rule: Rule) -> NaiveRule:
    return frozenset(
        (p.left.row.value, p.left.name, p.op.value, p.right.row.value, p.right.name)  # type: ignore[union-attr]
        for p in rule.predicates
    )


def found_rules(table: pa.Table, space: Space, nulls: Nulls, most: int) -> list[NaiveRule]:
    outcomes = outcomes_of(from_frame(table), space, nulls)
    evidence = all_pairs(outcomes)
    assert evidence is not None
    assert evidence.n_pairs == table.num_rows * (table.num_rows - 1)
    vertices = vertices_of(space, outcomes.layout)
    edges, counts = edges_of(evidence, outcomes.layout, vertices)
    covers = near_covers(edges, counts, vertices, most) if most else minimal_covers(edges, vertices)
    covers = unrelaxed(possible(covers, vertices, nulls), vertices, edges, counts, most)
    return [naive_rule(vertices.rule(to_int(cover))) for cover in vertices.once(covers)]


@pytest.mark.parametrize("error", [0.0, 0.05, 0.25])
def test_same_rules_as_trying_all(error: float) -> None:
    for seed in range(N_TABLES):
        rng = random.Random(seed)
        table = random_small_table(rng)
        space = build_space(from_frame(table), None, random_scope(rng, table.num_columns))
        nulls = rng.choice(tuple(Nulls))
        n_pairs = table.num_rows * (table.num_rows - 1)
        most = allowed_pairs(error, n_pairs)
        expected = minimal_rules(
            table.to_pylist(), comparisons_of(space), nulls_equal=nulls is Nulls.EQUAL, most=most
        )
        found = found_rules(table, space, nulls, most)
        assert len(either_way(found)) == len(found), f"seed {seed}: twins kept twice"
        assert either_way(found) == either_way(expected), f"seed {seed}"
