"""The search by blocks of rows: compared with the oracle on random rules, and how much work it does."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import naive
import naysay
from cases import Case, rows_of
from naysay.arrays import Int64Array
from naysay.budget import Budget, use_budget
from naysay.detect import blocks, differing
from naysay.detect.blocks import NOBODY, BlockSearch
from naysay.plan.bind import BoundJoin, bind
from naysay.plan.join import join_of
from naysay.rule import Nulls, parse
from naysay.table import from_frame
from samples import PLAIN_FAMILIES
from strategies import random_rule, random_table


def _bound(table: pa.Table, rule: str) -> BoundJoin:
    return bind(from_frame(table), join_of(parse(rule)), Nulls.SQL)


@pytest.fixture
def by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rule that is hard is searched by blocks, whatever it costs; rules with one order or differs are hard."""
    monkeypatch.setattr(differing, "_FEW_PAIRS", -1)
    monkeypatch.setattr(differing, "build_seconds", lambda bound, group_rows: 0.0)
    monkeypatch.setattr(differing, "_WORTH_SEARCHING", 1e9)
    monkeypatch.setattr("naysay.detect.partners._MANY", 1)


@pytest.mark.usefixtures("by_blocks")
@pytest.mark.parametrize("seed", range(6))
def test_answers_are_those_of_the_oracle(seed: int) -> None:
    rng = random.Random(seed)
    n_judged = 0
    while n_judged < 40:
        table = random_table(rng, rng.choice([3, 20, 60]), PLAIN_FAMILIES)
        rule, nulls = random_rule(rng, table), rng.choice(list(Nulls))
        if rule.is_one_row:
            continue
        n_judged += 1
        rows, case = rows_of(table), Case(table, rule, nulls)
        expected = naive.violations(rows, rule, nulls)
        assert naysay.count(table, rule, nulls=nulls) == len(expected), case
        assert naysay.verify(table, rule, nulls=nulls).holds == (not expected), case
        report = naysay.check(table, rule, nulls=nulls)
        assert report[0].rows_in_conflict == len({row for pair in expected for row in pair}), case


def test_the_fixture_leaves_no_other_way(monkeypatch: pytest.MonkeyPatch, by_blocks: None) -> None:
    monkeypatch.setattr(differing.GroupComparison, "compare", lambda self: pytest.fail("groups were compared"))
    table = pa.table({"a": [1, 2, 3], "b": [3, 2, 1], "c": [1, 1, 2]})
    assert naysay.count(table, "not(t.a < s.a and t.b > s.b and t.c <= s.c)") == 3


@pytest.mark.parametrize("n_rows", [1, 15, 16, 17, 33, 500])
@pytest.mark.parametrize("keyed", [True, False])
def test_weights_and_every_size(n_rows: int, keyed: bool) -> None:
    rng = np.random.default_rng(n_rows)
    columns = {name: rng.integers(0, 9, n_rows) for name in "kabcd"}
    key = "t.k == s.k and " if keyed else ""
    bound = _bound(pa.table(columns), f"not({key}t.a < s.a and t.b > s.b and t.c <= s.c and t.d != s.d)")
    weights = rng.integers(1, 5, n_rows)
    meets = _meets(bound)
    assert BlockSearch(bound, weights).partners().tolist() == (meets @ weights).tolist()
    assert BlockSearch(bound).partners().tolist() == meets.sum(axis=1).tolist()


def test_one_tree_serves_both_sides_of_strict_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[object] = []

    def record(name: str) -> None:
        build = getattr(blocks, name)
        monkeypatch.setattr(blocks, name, lambda features: built.append(features.shape) or build(features))

    record("build_blocks")
    record("build_zones")
    rng = np.random.default_rng(3)
    table = pa.table({name: rng.integers(0, 40, 600) for name in "kabc"})
    for rule, n_built in (
        ("not(t.k == s.k and t.a < s.a and t.b > s.b and t.c < s.c)", 1),
        ("not(t.k == s.k and t.a < s.a and t.b > s.b and t.c <= s.c)", 2),
        ("not(t.k == s.k and t.a < s.a and t.b > s.b and t.c < s.a)", 2),
    ):
        bound = _bound(table, rule)
        built.clear()
        search = BlockSearch(bound)
        assert len(built) == n_built
        expected = _meets(bound).sum(axis=1)
        assert search.partners().tolist() == expected.tolist()
        place, _ = search.find(NOBODY, float("inf"))
        assert place is not None
        assert expected[place] > 0
        own = np.zeros(len(expected), np.int64)
        own[::3] = expected[::3]
        place, _ = search.find(own, float("inf"))
        assert place is not None
        assert expected[place] > own[place]
        assert BlockSearch(bound).find(expected, float("inf")) == (None, True)


def _meets(bound: BoundJoin) -> Int64Array:
    meets = bound.left.key[:, None] == bound.right.key[None, :]
    for left, right in zip(bound.left.order, bound.right.order, strict=True):
        meets &= left[:, None] < right[None, :]
    for left, right in zip(bound.left.differs, bound.right.differs, strict=True):
        meets &= left[:, None] != right[None, :]
    return meets.astype(np.int64)


def _visited(table: pa.Table, rule: str) -> int:
    search = BlockSearch(_bound(table, rule))
    search.partners()
    return search.n_visited + search.n_compared


def _ascending(n_rows: int) -> pa.Table:
    values = np.random.default_rng(1).permutation(n_rows)
    return pa.table(dict.fromkeys("abcde", values))


FIVE = "not(t.a < s.a and t.b > s.b and t.c < s.c and t.d > s.d and t.e < s.e)"
PLANE = "not(t.a < s.a and t.b < s.b and t.c < s.c)"


def test_work_is_nearly_linear_if_the_orders_agree() -> None:
    small, large = (_visited(_ascending(n_rows), FIVE) for n_rows in (4_000, 32_000))
    assert large < 10 * small
    assert large < 100 * 32_000


def test_work_is_far_below_all_pairs_if_no_two_comparisons_are_empty() -> None:
    def plane(n_rows: int) -> pa.Table:
        rng = np.random.default_rng(2)
        a, b = rng.integers(0, n_rows, n_rows), rng.integers(0, n_rows, n_rows)
        return pa.table({"a": a, "b": b, "c": -a - b})

    small, large = (_visited(plane(n_rows), PLANE) for n_rows in (4_000, 32_000))
    assert large < 8 ** (5 / 3) * 1.5 * small


def test_a_search_for_one_violation_stops_early() -> None:
    rng = np.random.default_rng(3)
    table = pa.table({name: rng.integers(0, 30_000, 30_000) for name in "abc"})
    search = BlockSearch(_bound(table, PLANE))
    found, complete = search.find(NOBODY, float("inf"))
    assert found is not None
    assert not complete
    n_visited = search.n_visited
    search.partners()
    assert 100 * n_visited < search.n_visited


def test_the_estimate_follows_the_work_of_a_sample() -> None:
    rng = np.random.default_rng(4)
    table = pa.table({name: rng.integers(0, 20_000, 20_000) for name in "abcde"})
    easy = BlockSearch(_bound(_ascending(20_000), FIVE))
    hard = BlockSearch(_bound(table, FIVE))
    assert 10 * easy.seconds() < hard.seconds()
    assert hard.seconds(hard.seconds() / 100) == float("inf")
    assert easy.seconds(1e-12) == float("inf")


@pytest.mark.usefixtures("by_blocks")
def test_threads_share_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_BLOCKS_PER_THREAD", 1)
    rng = np.random.default_rng(5)
    table = pa.table({name: rng.integers(0, 1_000, 3_000) for name in "abc"})
    rule = "not(t.a < s.a and t.b > s.b and t.c < s.c)"
    search = BlockSearch(_bound(table, rule))
    alone = search.partners()
    work = search.n_visited, search.n_compared
    with use_budget(Budget(threads=3)):
        assert np.array_equal(search.partners(), alone)
        assert (search.n_visited, search.n_compared) == work
        place, _ = search.find(NOBODY, float("inf"))
        assert place is not None
        assert alone[place] > 0
        assert search.n_visited < work[0]
        assert search.find(alone, float("inf")) == (None, True)
        assert search.find(alone, 0.0) == (None, False)


def test_rows_that_look_alike_are_looked_for_in_a_sample_first(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    number = differing._number_classes
    monkeypatch.setattr(
        differing, "_number_classes", lambda side, most: sizes.append(side.n_rows) or number(side, most)
    )
    rng = np.random.default_rng(6)
    n_rows = 20_000
    alone = rng.permutation(n_rows)
    assert differing.classes_of(_bound(pa.table(dict.fromkeys("abc", alone)), PLANE).left) is None
    assert max(sizes) < n_rows // 8
    # Half of the rows are like another one.
    side = _bound(pa.table(dict.fromkeys("abc", alone // 2)), PLANE).left
    classes = differing.classes_of(side)
    assert classes is not None
    class_of, first, sizes_of = classes
    assert np.array_equal(side.order[0][first][class_of], side.order[0])
    assert sizes_of.tolist() == [2] * (n_rows // 2)
