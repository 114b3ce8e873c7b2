"""Random small tables, and whether discovery finds the same rules as trying every rule."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
from naive_discover import Comparison, NaiveRule, either_way, minimal_rules, minimal_rules_each

from naysay.discovery.cover import allowed_pairs, drop_impossible, drop_relaxed, minimal_covers, near_covers
from naysay.discovery.engine import discover
from naysay.discovery.evidence import all_pairs
from naysay.discovery.outcomes import outcomes_of
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.space import Scope, Shared, Space, build_space
from naysay.discovery.vertices import edges_of, to_int, vertices_of
from naysay.rule.model import Nulls, Rule
from naysay.table import from_frame

ERRORS = (0.0, 0.05, 0.25)
METHODS = ("auto", "all-pairs", "selective", "hydra")


# A larger table has at most this many columns with an order: each makes trying every rule seven times slower, any other
# column three times.
MOST_ORDERED = 4


def random_table(rng: random.Random, large: bool) -> pa.Table:
    """A table of up to 7 rows and 4 columns, or of up to 40 and 6."""
    n_rows = rng.randint(8, 40) if large else rng.choice((0, 1, 2, 2, 3, 4, 5, 6, 7))
    names = "abcdef"[: rng.choice((3, 4, 5, 6))] if large else "abcd"[: rng.choice((1, 2, 2, 3, 3, 4))]
    n_ordered = 0
    columns = {}
    for name in names:
        kind = rng.choice(("int", "int", "float", "text", "bool"))
        if large and kind in ("int", "float"):
            kind = kind if n_ordered < MOST_ORDERED else "text"
            n_ordered += 1
        pool: list[Any] = {
            "int": [0, 1, 2, 3, -4, *range(5, 40 if large else 5)],
            "float": [0.0, -0.0, 0.5, float("nan"), float("inf"), *(k / 8 for k in range(5, 30 if large else 5))],
            "text": ["", "a", "b", "é", *map(str, range(12 if large else 0))],
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
        order_within_row=rng.random() < 0.5,
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


def found_rules(table: pa.Table, space: Space, nulls: Nulls, mosts: list[int]) -> list[list[NaiveRule]]:
    """The rules for each number of pairs that may break one, all from the same evidence."""
    outcomes = outcomes_of(from_frame(table), space, nulls)
    evidence = all_pairs(outcomes)
    assert evidence is not None
    assert evidence.n_pairs == table.num_rows * (table.num_rows - 1)
    vertices = vertices_of(space, outcomes.layout)
    edges, counts = edges_of(evidence, outcomes.layout, vertices)
    found = []
    for most in mosts:
        covers = near_covers(edges, counts, vertices, most) if most else minimal_covers(edges, vertices)
        covers, _ = drop_relaxed(drop_impossible(covers, vertices)[0], vertices, edges, counts, most)
        found.append([naive_rule(vertices.rule(to_int(cover))) for cover in vertices.once(covers)])
    return found


def check(seed: int, *, large: bool = False) -> str:
    """What is wrong with the rules of a random table, for three errors; empty if nothing is."""
    rng = random.Random(seed)
    table = random_table(rng, large)
    space = build_space(from_frame(table), None, random_scope(rng, table.num_columns))
    nulls = rng.choice(tuple(Nulls))
    mosts = [allowed_pairs(error, table.num_rows * (table.num_rows - 1)) for error in ERRORS]
    expected = minimal_rules_each(table.to_pylist(), comparisons_of(space), mosts, nulls_equal=nulls is Nulls.EQUAL)
    for error, rules, found in zip(ERRORS, expected, found_rules(table, space, nulls, mosts), strict=True):
        if len(either_way(found)) != len(found):
            return f"seed {seed}, error {error}: twins kept twice"
        if either_way(found) != either_way(rules):
            return f"seed {seed}, error {error}: {either_way(found) ^ either_way(rules)}"
    return ""


def check_method(seed: int, method: str, *, large: bool = False) -> str:
    """The same with one method, from end to end, for error 0."""
    rng = random.Random(seed)
    table = random_table(rng, large)
    scope = random_scope(rng, table.num_columns)
    nulls = rng.choice(tuple(Nulls))
    if table.num_rows < 2:
        return ""
    found = discover(from_frame(table), DiscoverRequest(space=scope, nulls=nulls, method=method, threads=1))
    expected = minimal_rules(table.to_pylist(), comparisons_of(found.space), nulls_equal=nulls is Nulls.EQUAL)
    rules = either_way(rule for rule in expected if rule)
    if found.partial or either_way(map(naive_rule, found.rules)) != rules:
        return f"seed {seed}, method {method}: {either_way(map(naive_rule, found.rules)) ^ rules}"
    return ""
