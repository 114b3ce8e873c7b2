"""Rules with three and more orders under watch, with rows added in bulk and one by one: compared with the oracle."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import naive
from cases import rows_of
from naysay import Watch
from naysay.live.layout import name_of
from naysay.rule import Nulls, Rule, parse
from naysay.watch import tree_index

COLUMNS = "abcd"
OPS = ("<", "<=", ">", ">=")
RULE = "not(t.a < s.a and t.b > s.b and t.c < s.c)"


def _draw_rule(rng: random.Random) -> Rule:
    parts = ["t.k == s.k"] if rng.random() < 0.5 else []
    for _ in range(rng.choice([3, 3, 4, 5])):
        left = rng.choice(COLUMNS)
        right = left if rng.random() < 0.7 else rng.choice(COLUMNS)
        parts.append(f"t.{left} {rng.choice(OPS)} s.{right}")
    if rng.random() < 0.4:
        parts.append("t.e != s.e")
    return parse(f"not({' and '.join(parts)})")


def _draw_rows(rng: random.Random, ids: list[int]) -> pa.Table:
    top = rng.choice([3, 30])
    columns: dict[str, Any] = {"id": pa.array(ids, pa.int64())}
    for name in (*COLUMNS, "e", "k"):
        values = [None if rng.random() < 0.08 else rng.randint(0, 2 if name in "ek" else top) for _ in ids]
        columns[name] = pa.array(values, pa.int64())
    return pa.table(columns)


def _expected(rows: dict[int, dict[str, Any]], rule: Rule, nulls: Nulls) -> set[tuple[int, ...]]:
    ids = list(rows)
    table = pa.Table.from_pylist([rows[row] for row in ids], schema=_draw_rows(random.Random(0), [0]).schema)
    return {tuple(ids[row] for row in pair) for pair in naive.violations(rows_of(table), rule, nulls)}


@pytest.mark.parametrize("seed", range(16))
def test_violations_are_those_of_the_oracle(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    if seed % 2:
        monkeypatch.setattr(tree_index, "_BULK_ROWS", 0)
    rules, nulls = {name_of(rule): rule for rule in (_draw_rule(rng) for _ in range(3))}, rng.choice(list(Nulls))
    *_, last = rules
    given = {name: rule for name, rule in rules.items() if name != last}
    watch, counting = (Watch(list(given.values()), "id", nulls=nulls, counting=counts) for counts in (False, True))
    current: dict[int, dict[str, Any]] = {}
    n_ids = 0
    for step in range(6):
        if step == 3:
            for each in (watch, counting):
                each.add_rule(rules[last])
            given = rules
        inserts = _draw_rows(rng, list(range(n_ids, n_ids + rng.choice([1, 5, 40]))))
        n_ids += len(inserts)
        some = rng.sample(list(current), len(current) // 3)
        updates, deletes = _draw_rows(rng, some[::2]), some[1::2]
        for each in (watch, counting):
            each.apply(inserts=inserts, updates=updates if len(updates) else None, deletes=deletes or None)
        for key in deletes:
            del current[key]
        current |= {row["id"]: row for table in (updates, inserts) for row in table.to_pylist()}
        found = {name: set() for name in given}
        for row in watch.violations().table.to_pylist():
            found[row["rule"]].add((row["left"], row["right"]))
        for name, rule in given.items():
            expected = _expected(current, rule, nulls)
            assert found[name] == expected, (name, step)
            assert counting.counts[name] == len(expected), (name, step)


@pytest.mark.parametrize("nulls", list(Nulls))
@pytest.mark.parametrize("signs", ["< > <", "<= > <=", ">= <= >", "<= >= >="])
def test_rows_added_in_bulk_at_both_ends_of_all_integers(
    signs: str, nulls: Nulls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_index, "_BULK_ROWS", 0)
    rng = random.Random(signs)
    # The least integer is what stands for null, so this column would get other codes.
    ends = [1 - 2**63, 2 - 2**63, -1, 0, 1, 2**63 - 2, 2**63 - 1, None]
    columns = {name: pa.array([rng.choice(ends) for _ in range(60)], pa.int64()) for name in (*COLUMNS, "e", "k")}
    table = pa.table({"id": pa.array(range(60), pa.int64()), **columns})
    orders = " and ".join(f"t.{name} {sign} s.{name}" for name, sign in zip("abc", signs.split(), strict=True))
    rule = parse(f"not({orders} and t.d != s.d and s.e > 0)")
    with Watch([], "id", nulls=nulls) as watch:
        watch.apply(inserts=table)
        change = watch.add_rule(rule)
    found = set(zip(change.added["left"].to_pylist(), change.added["right"].to_pylist(), strict=True))
    current = {row["id"]: row for row in table.to_pylist()}
    assert found
    assert found == _expected(current, rule, nulls)


@pytest.mark.parametrize(("rule", "n_trees"), [(RULE, 1), (RULE.replace("t.c <", "t.c <="), 2)])
def test_a_new_rule_sorts_out_rows_without_partners_once(
    rule: str, n_trees: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(1).permutation(5_000)
    table = pa.table({"id": np.arange(5_000), **dict.fromkeys("abc", values)})
    shapes: list[tuple[int, ...]] = []
    build = tree_index.build_blocks
    monkeypatch.setattr(tree_index, "build_blocks", lambda features: shapes.append(features.shape) or build(features))
    asked: list[int] = []
    search = tree_index.list_boxes
    monkeypatch.setattr(
        tree_index, "list_boxes", lambda tree, boxes, *rest: asked.append(len(boxes[0])) or search(tree, boxes, *rest)
    )
    with Watch([], "id") as watch:
        watch.apply(inserts=table)
        assert watch.add_rule(rule).n_added == 0
    # One tree for both sides of strict orders; and no box is made for a row without partners.
    assert shapes == [(4, 5_000)] * n_trees
    assert sum(asked) == 0
