"""Laws that hold for every table and rule, without an oracle."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import naysay
from naysay.detect.violations import count
from naysay.plan.bind import BoundJoin, bind
from naysay.plan.join import join_of
from naysay.table import from_frame
from strategies import Case, random_case

N_CASES = 150


def cases(first_seed: int) -> list[Case]:
    return [random_case(random.Random(first_seed + i)) for i in range(N_CASES)]


def count_of(case: Case) -> int:
    return naysay.count(case.table, case.rule, nulls=case.nulls)


def test_verify_is_count_is_zero_and_all_violations_are_counted() -> None:
    for case in cases(1_000):
        total = count_of(case)
        found = naysay.violations(case.table, case.rule, limit=None, nulls=case.nulls)
        assert bool(naysay.verify(case.table, case.rule, nulls=case.nulls)) == (total == 0)
        assert (len(found), found.total, found.complete) == (total, total, True)


def test_the_order_of_rows_does_not_matter() -> None:
    for seed, case in enumerate(cases(2_000)):
        order = np.random.default_rng(seed).permutation(case.table.num_rows)
        shuffled = pa.table([_taken(column, order) for column in case.table.columns], names=case.table.column_names)
        assert count_of(replace(case, table=shuffled)) == count_of(case)


def test_the_twin_counts_the_same() -> None:
    for case in cases(3_000):
        if not case.rule.is_one_row:
            assert count_of(replace(case, rule=case.rule.swapped())) == count_of(case)


def test_a_further_predicate_never_adds_violations() -> None:
    for case in cases(4_000):
        fewer = replace(case.rule, predicates=case.rule.predicates[:-1])
        if fewer.predicates and fewer.is_one_row == case.rule.is_one_row:
            assert count_of(replace(case, rule=fewer)) >= count_of(case)


def test_any_split_into_blocks_adds_up() -> None:
    for seed, case in enumerate(cases(5_000)):
        join = join_of(case.rule)
        if join.one_row:
            continue
        bound = bind(from_frame(case.table), join, case.nulls)
        rng = np.random.default_rng(seed)
        lefts = _blocks(bound.left.n_rows, rng)
        rights = _blocks(bound.right.n_rows, rng)
        total = sum(count(_block(bound, left, right)) for left in lefts for right in rights)
        assert total == count(bound)


def test_clusters_stand_for_the_very_pairs() -> None:
    for case in cases(6_000):
        if case.rule.is_one_row:
            continue
        found = naysay.violations(case.table, case.rule, limit=None, nulls=case.nulls).table
        listed = set(zip(found["left"].to_pylist(), found["right"].to_pylist(), strict=True))
        short = naysay.clusters(case.table, case.rule, limit=None, nulls=case.nulls).to_pylist()
        spelled = [(i, j) for cluster in short for i in cluster["left"] for j in cluster["right"] if i != j]
        assert len(spelled) == len(set(spelled))
        assert set(spelled) == listed


def test_a_limit_of_clusters_takes_the_first_that_are_violations() -> None:
    for case in cases(6_000):
        every = naysay.clusters(case.table, case.rule, limit=None, nulls=case.nulls).to_pylist()
        for limit in (0, 1, 3):
            few = naysay.clusters(case.table, case.rule, limit=limit, nulls=case.nulls).to_pylist()
            assert few == every[:limit]


def test_clusters_are_found_behind_many_rows_that_meet_only_themselves() -> None:
    table = pa.table({"a": [*range(200), 199]})
    assert naysay.clusters(table, "key(a)", limit=5).to_pylist() == [{"left": [199, 200], "right": [199, 200]}]


def test_a_one_row_rule_that_holds_has_no_cluster() -> None:
    table = pa.table({"a": [3, 1, 2]})
    assert naysay.clusters(table, "not(t.a < 0)").num_rows == 0
    assert naysay.clusters(table, "not(t.a < 3)").to_pylist() == [{"left": [1, 2], "right": []}]


@pytest.mark.parametrize("rule", ["no_overlap(a, b)", "not(t.a <= s.b and s.a <= t.b)", "not(t.b > 3 and s.b > 3)"])
def test_the_busiest_rows_of_a_symmetric_rule_count_each_other_row_once(rule: str) -> None:
    table = pa.table({"a": [1, 2, 10], "b": [5, 6, 11]})
    found = naysay.violations(table, rule, limit=None).table
    others = [set(found.filter(pc.equal(found["left"], row))["right"].to_pylist()) for row in range(3)]
    busiest = {row.identity["row"]: row.conflicts for row in naysay.check(table, rule).busiest}
    assert busiest == {row: len(found) for row, found in enumerate(others) if found}


def test_split_parts_the_rows_by_conflict() -> None:
    for case in cases(7_000):
        good, bad = naysay.split(case.table, case.rule, nulls=case.nulls)
        assert good.num_rows + bad.num_rows == case.table.num_rows
        assert count_of(replace(case, table=good)) == 0


def test_a_quick_check_knows_what_is_tolerated() -> None:
    table = pa.table({"a": [1, 1, 2, 3], "b": [1, 2, 3, 4]})
    rules = [
        replace(naysay.parse(text), **tolerance)
        for text in ("a -> b", "not(t.b > 3)")
        for tolerance in ({}, {"max_violations": 0}, {"max_violations": 2}, {"max_fraction": 0.25})
    ]
    slow, quick = (naysay.check(table, rules, quick=is_quick) for is_quick in (False, True))
    assert [result.passes for result in quick] == [result.passes for result in slow]
    assert (quick.rows_in_conflict, quick.busiest) == (None, ())


@pytest.mark.parametrize("threads", [1, 2])
def test_many_rules_at_once_are_as_one_by_one(threads: int) -> None:
    for seed in range(40):
        rng = random.Random(seed)
        from strategies import random_rule, random_table

        table = random_table(rng)
        rules = [rule for rule in (random_rule(rng, table) for _ in range(6)) if rule is not None]
        together = naysay.check(table, rules, threads=threads)
        assert [result.violations for result in together] == [naysay.count(table, rule) for rule in rules]
        for result in together:
            assert (result.violations == 0) == result.holds == (result.rows_in_conflict == 0)
            assert len(result.sample) > 0 or result.holds


def _taken(column: pa.ChunkedArray, order: np.ndarray) -> pa.Array:
    return pa.array([column[int(i)].as_py() for i in order], column.type) if _is_plain(column) else column.take(order)


def _is_plain(column: pa.ChunkedArray) -> bool:
    return pa.types.is_dictionary(column.type)


def _blocks(n_rows: int, rng: np.random.Generator) -> list[np.ndarray]:
    return np.split(np.arange(n_rows), np.sort(rng.integers(0, n_rows + 1, 2)))


def _block(bound: BoundJoin, left: np.ndarray, right: np.ndarray) -> BoundJoin:
    return replace(bound, left=bound.left.take(left), right=bound.right.take(right), mirror=False)
