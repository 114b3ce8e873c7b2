"""Evidence compared with a double loop over rows: every width of code, both meanings of null, two sides, equal rows."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from naysay.budget import Budget
from naysay.discovery.evidence import Evidence, agreeing_pairs, all_pairs, between, merge
from naysay.discovery.outcomes import Outcomes, mirrored, outcomes_of
from naysay.discovery.space import Scope, Space, build_space
from naysay.discovery.vertices import edges_of, to_int, vertices_of
from naysay.rule.model import Nulls, Op, Row
from naysay.table import from_frame


def random_table(rng: random.Random, n_columns: int, n_rows: int) -> pa.Table:
    columns = {}
    for number in range(n_columns):
        pool: list[Any] = list(range(rng.randint(1, 4))) + ([None] if rng.random() < 0.4 else [])
        values = [rng.choice(pool) for _ in range(n_rows)]
        text = rng.random() < 0.4
        columns[f"c{number}"] = pa.array(
            [value if value is None or not text else str(value) for value in values],
            pa.string() if text else pa.int64(),
        )
    return pa.table(columns)


def satisfied(left: Any, right: Any, nulls: Nulls) -> frozenset[Op]:
    if left is None or right is None:
        if nulls is Nulls.SQL:
            return frozenset()
        return frozenset([Op.EQ if left is right else Op.NE])
    return frozenset(op for op in Op if op.compare(left, right))


def outcome_of(t: dict[str, Any], s: dict[str, Any], space: Space, nulls: Nulls) -> tuple[frozenset[Op], ...]:
    """Which operators are true of a pair, comparison by comparison."""
    values = []
    for pair in space.comparisons:
        left = (t if pair.left.row is Row.LEFT else s)[pair.left.name]
        right = (t if pair.right.row is Row.LEFT else s)[pair.right.name]
        values.append(satisfied(left, right, nulls) & frozenset(pair.ops))
    return tuple(values)


def counted(evidence: Evidence, outcomes: Outcomes, space: Space) -> Counter[tuple[frozenset[Op], ...]]:
    """Evidence as the operators that are true, derived from the edges: a vertex that is not in the edge is true."""
    vertices = vertices_of(space, outcomes.layout)
    edges, counts = edges_of(evidence, outcomes.layout, vertices)
    found: Counter[tuple[frozenset[Op], ...]] = Counter()
    for edge, count in zip(edges, counts, strict=True):
        missed = ~to_int(edge)
        true = []
        for group in vertices.groups:
            masks = range(1, 1 << group.size)
            ops = [group.ops(mask << group.first) for mask in masks if mask_is_known(group, mask)]
            kept = [mask for mask in masks if mask_is_known(group, mask) and mask << group.first & ~missed == 0]
            true.append(frozenset(op for mask in kept for op in group.ops(mask << group.first)))
            assert ops
        found[tuple(true)] += int(count)
    return found


def mask_is_known(group: Any, mask: int) -> bool:
    try:
        group.ops(mask << group.first)
    except KeyError:
        return False
    return True


@pytest.mark.parametrize("nulls", list(Nulls))
@pytest.mark.parametrize("n_columns", [1, 5, 14, 24, 50])
def test_all_pairs_counts_every_outcome(n_columns: int, nulls: Nulls) -> None:
    rng = random.Random(n_columns)
    for n_rows in (0, 1, 2, 9, 70):
        table = random_table(rng, n_columns, n_rows)
        space = build_space(from_frame(table), None, Scope(cross=n_columns == 5, within_row=n_columns == 5))
        outcomes = outcomes_of(from_frame(table), space, nulls)
        evidence = all_pairs(outcomes, Budget(threads=2))
        assert evidence is not None
        rows = table.to_pylist()
        expected = Counter(
            outcome_of(t, s, space, nulls) for i, t in enumerate(rows) for j, s in enumerate(rows) if i != j
        )
        assert counted(evidence, outcomes, space) == expected


def test_between_two_blocks_and_its_mirror() -> None:
    rng = random.Random(3)
    table = random_table(rng, 6, 40)
    space = build_space(from_frame(table), None, Scope(share=0.0))
    outcomes = outcomes_of(from_frame(table), space, Nulls.SQL, collapse=False)
    old, new = outcomes.take(np.arange(25)), outcomes.take(np.arange(25, 40))
    evidence = between(new, old)
    assert evidence is not None
    rows = table.to_pylist()
    pairs = [(t, s) for t in rows[25:] for s in rows[:25]]
    assert counted(evidence, outcomes, space) == Counter(outcome_of(t, s, space, Nulls.SQL) for t, s in pairs)
    other = Evidence(mirrored(evidence.codes, outcomes.layout), evidence.counts)
    assert counted(other, outcomes, space) == Counter(outcome_of(s, t, space, Nulls.SQL) for t, s in pairs)


def test_parts_add_up_to_the_whole() -> None:
    """What evolve and Spark rely on: old x old, new x new, new x old and its mirror are all pairs."""
    rng = random.Random(5)
    table = random_table(rng, 9, 50)
    space = build_space(from_frame(table))
    outcomes = outcomes_of(from_frame(table), space, Nulls.EQUAL, collapse=False)
    old, new = outcomes.take(np.arange(30)), outcomes.take(np.arange(30, 50))
    across = between(new, old)
    parts = [all_pairs(old), all_pairs(new), across]
    assert across is not None
    parts.append(Evidence(mirrored(across.codes, outcomes.layout), across.counts))
    whole = merge([part for part in parts if part is not None])
    expected = all_pairs(outcomes)
    assert expected is not None
    assert np.array_equal(whole.codes, expected.codes)
    assert np.array_equal(whole.counts, expected.counts)


def test_a_stopped_budget_gives_no_evidence() -> None:
    table = random_table(random.Random(1), 3, 300)
    outcomes = outcomes_of(from_frame(table), build_space(from_frame(table)), Nulls.SQL, collapse=False)
    budget = Budget(0.0)
    assert all_pairs(outcomes, budget) is None
    assert budget.reason == "time limit"


def test_agreeing_pairs_are_the_same_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Portions of a few rows, some of them one group of more rows; uncounted codes are those and some of the table."""
    rng = np.random.default_rng(4)
    table = random_table(random.Random(8), 5, 200)
    outcomes = outcomes_of(from_frame(table), build_space(from_frame(table)), Nulls.SQL, collapse=False)
    evidence = all_pairs(outcomes)
    assert evidence is not None
    every = {tuple(code) for code in evidence.codes.tolist()}
    for n_groups in (1, 7, 90):
        groups = rng.integers(0, n_groups, outcomes.n_rows)
        order = np.argsort(groups, kind="stable")
        starts = np.append(np.flatnonzero(np.diff(groups[order], prepend=-1)), groups.size)
        whole = agreeing_pairs(outcomes, order, starts)
        assert whole is not None
        assert whole.n_pairs == sum(int(size) * (int(size) - 1) for size in np.diff(starts))
        with monkeypatch.context() as patch:
            patch.setattr("naysay.discovery.evidence._PORTION_ROWS", 16)
            in_portions = agreeing_pairs(outcomes, order, starts)
            uncounted = agreeing_pairs(outcomes, order, starts, counted=False)
        assert in_portions is not None
        assert np.array_equal(in_portions.codes, whole.codes)
        assert np.array_equal(in_portions.counts, whole.counts)
        assert uncounted is not None
        seen = {tuple(code) for code in uncounted.codes.tolist()}
        assert {tuple(code) for code in whole.codes.tolist()} <= seen <= every


def test_encoding_a_table_keeps_no_codes_but_its_own() -> None:
    table = from_frame(random_table(random.Random(2), 6, 50))
    space = build_space(table)
    outcomes = outcomes_of(table, space, Nulls.SQL)
    assert not any(table.is_encoded((name,), ordered=ordered) for name in space.names for ordered in (False, True))
    assert outcomes.left.dtype == np.int32
