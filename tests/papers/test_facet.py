"""FACET compared with a matrix of all pairs: the strategy on random joins, each operator, the planner, the tries."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

import naive
import naysay
from naysay.budget import Budget, Stopped, use_budget
from naysay.errors import CountOverflow, ResourceError, UsageError
from naysay.kernels.joins.facet import estimate, sketch
from naysay.papers.facet import (
    CodeComparison,
    Facet,
    Organisation,
    Refinable,
    RuleParts,
    check_many,
    list_many,
    parts_of_joins,
)
from naysay.papers.facet import refinement as inequalities
from naysay.papers.facet import stage as planner
from naysay.papers.facet import tries as listing
from naysay.papers.facet.refinement import GrowingTable, Refinement
from naysay.papers.facet.stage import (
    Cardinalities,
    Clusters,
    GreedyHLL,
    Operator,
    RefinementWork,
    RowSet,
    SetPair,
    Stage,
    all_pairs,
    array_of,
    bitmap_of,
)
from naysay.papers.facet.tries import Step, StepStack, TrieRun, build_tries
from naysay.plan.bind import BoundJoin, Side, bind
from naysay.plan.cost import process_bytes
from naysay.plan.join import join_of
from naysay.rule.model import Column, Constant, Nulls, Op, Predicate, Row, Rule
from naysay.table import from_frame

without_compiler = os.environ.get("NUMBA_DISABLE_JIT") == "1"


def random_join(random: np.random.Generator, n_rows: int, n_orders: int, n_differs: int) -> BoundJoin:
    """A self-join with some orders doubled, two filtered sides of one table, or two blocks without a common row."""
    n_keys = int(random.choice([1, 2, 5, 1 << 50]))
    n_values = int(random.choice([2, 5, 40]))
    kind = str(random.choice(["mirror", "filtered", "apart"]))

    def side(rows: np.ndarray) -> Side:
        return Side(
            rows.astype(np.int64),
            random.integers(0, min(n_keys, 5), rows.size) * (n_keys // min(n_keys, 5)),
            tuple(random.integers(-n_values, n_values, rows.size) for _ in range(n_orders)),
            tuple(random.integers(0, n_values, rows.size) for _ in range(n_differs)),
        )

    left = side(np.sort(random.choice(2 * n_rows + 1, n_rows, replace=False)))
    n_right = int(random.integers(0, n_rows + 2))
    if kind == "mirror":
        right = left
        for k in range(n_orders):
            if random.integers(0, 2):
                left = replace(left, order=(*left.order[:k], 2 * left.order[k], *left.order[k + 1 :]))
                right = replace(right, order=(*right.order[:k], 2 * right.order[k] + 1, *right.order[k + 1 :]))
    elif kind == "filtered":
        right = side(np.sort(random.choice(2 * n_rows + 1, min(n_right, n_rows), replace=False)))
    else:
        right = side(2 * n_rows + 1 + np.arange(n_right))
    bound = BoundJoin(left, right, n_keys, (n_values,) * n_differs, True, kind == "mirror", False)
    diagonal = matrix(bound) & (left.rows[:, None] == right.rows)
    return replace(bound, reflexive=bool(diagonal.any()) or bool(random.integers(0, 2)))


def matrix(bound: BoundJoin) -> np.ndarray:
    """Which pairs of positions satisfy all parts, including a row with itself."""
    left, right = bound.left, bound.right
    holds = left.key[:, None] == right.key
    for a, b in zip(left.order, right.order, strict=True):
        holds &= a[:, None] < b
    for a, b in zip(left.differs, right.differs, strict=True):
        holds &= a[:, None] != b
    return holds


def brute_force(bound: BoundJoin) -> set[tuple[int, int]]:
    left, right = bound.left.rows, bound.right.rows
    i, j = np.nonzero(matrix(bound) & (left[:, None] != right))
    return set(zip(left[i].tolist(), right[j].tolist(), strict=True))


def check_all_verbs(strategy: Facet, bound: BoundJoin) -> None:
    expected = brute_force(bound)
    witness = strategy.verify(bound)
    assert witness in expected if expected else witness is None
    assert strategy.count(bound) == len(expected)
    for limit in {None, 0, 1, max(len(expected) - 1, 0), len(expected), len(expected) + 3}:
        found = strategy.violations(bound, limit)
        listed = list(zip(found.left.tolist(), found.right.tolist(), strict=True))
        assert len(set(listed)) == len(listed)
        assert set(listed) <= expected
        assert len(listed) == (len(expected) if limit is None else min(limit, len(expected)))
        assert found.complete == (len(listed) == len(expected))


def check_random_joins(seed: int, n_joins: int, most_rows: int, most_parts: int, strategy: Facet) -> None:
    random = np.random.default_rng(seed)
    for _ in range(n_joins):
        n_orders, n_differs = random.integers(0, most_parts + 1, 2)
        bound = random_join(random, int(random.integers(0, most_rows + 1)), int(n_orders), int(n_differs))
        check_all_verbs(strategy, bound)


# Each method, forced on joins too small for the planner to choose it.
def force(way: str, patch: pytest.MonkeyPatch) -> Facet:
    if way == "iejoin":
        patch.setattr(planner, "IEJOIN_FROM", 0)
        patch.setattr(inequalities, "_FIRST_CHUNK", 1)
        patch.setattr(inequalities, "_LAST_CHUNK", 1)
        patch.setattr(inequalities, "_MOST_AT_ONCE", 4)
    elif way == "bins":
        patch.setattr(planner, "BINNING_FROM", 0)
    if way != "as planned":
        patch.setattr(listing, "_CHUNK", 5)
        patch.setattr(listing, "_PART_ROWS", 3)
    return Facet(n_bins=3)


WAYS = ["as planned", "iejoin", "bins"]


@pytest.mark.parametrize("way", WAYS)
def test_random_joins(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_random_joins(1, 150, 12, 2, force(way, monkeypatch))


@pytest.mark.parametrize("way", WAYS)
def test_joins_of_many_parts(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_random_joins(2, 40, 9, 5, force(way, monkeypatch))


@pytest.mark.parametrize("way", WAYS)
def test_larger_joins(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = force(way, monkeypatch)
    random = np.random.default_rng(3)
    for n_orders, n_differs in itertools.product(range(4), range(2)):
        bound = random_join(random, 150, n_orders, n_differs)
        expected = brute_force(bound)
        assert strategy.count(bound) == len(expected)
        found = strategy.violations(bound, None)
        assert set(zip(found.left.tolist(), found.right.tolist(), strict=True)) == expected


@given(st.integers(0, 2**32), st.integers(0, 12), st.integers(0, 3), st.integers(0, 3), st.integers(1, 5))
def test_any_join(seed: int, n_rows: int, n_orders: int, n_differs: int, n_bins: int) -> None:
    bound = random_join(np.random.default_rng(seed), n_rows, n_orders, n_differs)
    check_all_verbs(Facet(n_bins=n_bins), bound)


def random_sets(random: np.random.Generator, n_places: int) -> list[SetPair]:
    """Pairs of sets that contain no pair of positions twice: disjoint on the left; growing or not on the right."""
    n_sets = int(random.integers(0, 6))
    lefts = np.split(random.permutation(n_places), np.sort(random.integers(0, n_places + 1, n_sets)))
    rights = [random.permutation(n_places)[: random.integers(0, n_places + 1)] for _ in lefts]
    if random.integers(0, 2):
        rights = list(itertools.accumulate(rights, lambda before, new: np.union1d(before, new)))
    return [SetPair(either(random, left), either(random, right)) for left, right in zip(lefts, rights, strict=True)]


def either(random: np.random.Generator, places: np.ndarray) -> RowSet:
    return bitmap_of(places) if random.integers(0, 2) else places


def pairs_of(sets: SetPair) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i in array_of(sets.left) for j in array_of(sets.right) if not sets.reflexive or i != j]


@pytest.mark.parametrize("before", [None, Operator.HSM])
@pytest.mark.parametrize("operator", [operator for operator in Operator if operator is not Operator.KEEP])
def test_each_operator_alone(operator: Operator, before: Operator | None) -> None:
    comparison = {Operator.EQUAL: CodeComparison.EQUAL, Operator.DIFFERS: CodeComparison.DIFFERS}.get(
        operator, CodeComparison.LESS
    )
    random = np.random.default_rng(4)
    for turn in range(60):
        n_places = int(random.integers(1, 25))
        predicates = tuple(
            Refinable(comparison, random.integers(-9, 9, n_places), random.integers(-9, 9, n_places), k)
            for k in range(2 if operator is Operator.IEJOIN else 1)
        )
        stage = Stage(operator, predicates, build_right=turn % 2 == 1)
        earlier = Stage(before, ()) if before else None
        refining, counting = (Refinement(stage, RefinementWork(n_bins=3), prune=True, before=earlier) for _ in range(2))
        for sets in random_sets(random, n_places):
            expected = [
                (i, j)
                for i, j in pairs_of(sets)
                if all(bool(p.holds(np.array([i]), np.array([j]))[0]) for p in predicates)
            ]
            found = []
            for refined in refining.refine(sets):
                assert not refined.empty
                found += pairs_of(refined)
            assert sorted(found) == sorted(expected)
            assert counting.count(sets) == len(expected)


def random_clusters(random: np.random.Generator, n_places: int) -> Clusters:
    """Pairs of sets of which some are empty, disjoint on both sides; now and then reflexive."""
    n_sets = int(random.integers(1, 7))

    def side() -> tuple[np.ndarray, np.ndarray]:
        bounds = np.sort(random.integers(0, n_places + 1, n_sets + 1))
        return random.permutation(n_places)[bounds[0] : bounds[-1]], bounds - bounds[0]

    left = side()
    return Clusters(*left, *(left if random.integers(0, 2) else side()))


@pytest.mark.parametrize("operator", list(Operator))
def test_each_operator_on_many_pairs_of_sets(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many at once and one by one give the same; also with nulls, and with one column on both sides."""
    monkeypatch.setattr(inequalities, "_MOST_AT_ONCE", 4)
    comparison = {stage: comparison for comparison, stage in planner._OPERATORS.items()}.get(
        operator, CodeComparison.LESS
    )
    random = np.random.default_rng(21)
    for turn in range(80):
        n_places = int(random.integers(1, 25))
        predicates = []
        for k in range(2 if operator is Operator.IEJOIN else 1):
            left, right = random.integers(-3, 3, (2, n_places))
            left_valid, right_valid = random.random((2, n_places)) < 0.7 if turn % 4 > 1 else (None, None)
            if turn % 3 == 0:
                right, right_valid = left, left_valid
            predicates.append(Refinable(comparison, left, right, k, left_valid, right_valid))
        stage = Stage(operator, tuple(predicates), build_right=bool(random.integers(0, 2)))
        refinement = Refinement(stage, RefinementWork(n_bins=3), prune=True)
        clusters = random_clusters(random, n_places)
        # A row that satisfies two different columns with itself is subtracted at the end of a pipeline.
        keeps_diagonal = not clusters.reflexive or not all(
            p.left_valid is p.right_valid and (p.left is p.right or operator is Operator.KEEP) for p in predicates
        )
        expected = [
            (i, j)
            for sets in clusters.pairs()
            for i, j in itertools.product(sets.left.tolist(), sets.right.tolist())
            if keeps_diagonal or i != j
            if all(bool(p.holds(np.array([i]), np.array([j]))[0]) for p in predicates)
        ]
        assert refinement.count_all(clusters) == len(expected)
        assert sum(map(refinement.count, clusters.pairs())) == len(expected)
        parts = clusters.parts(int(random.integers(1, 30)))
        assert sum(refinement.count_all(part) for part in parts) == len(expected)
        if refinement.refines_all:
            refined = [pair for part in parts for pair in refinement.refine_all(part).pairs()]
            assert sorted(itertools.chain.from_iterable(map(pairs_of, refined))) == sorted(expected)
            assert sum(refinement.refine_all(part).n_pairs for part in parts) == len(expected)


def test_clusters_are_cut_into_parts_of_whole_pairs() -> None:
    bounds = np.array([0, 1, 1, 5, 6, 7, 30, 31])
    places = np.arange(31)
    clusters = Clusters(places, bounds, places, bounds)
    for n_rows in range(1, 35):
        parts = clusters.parts(n_rows)
        assert all(part.reflexive for part in parts)
        assert [pair.left.tolist() for part in parts for pair in part.pairs()] == [
            pair.left.tolist() for pair in clusters.pairs()
        ]
        # A part is closed by the pair that fills it.
        assert all(part.n_rows - part.sizes[-1] <= n_rows for part in parts)
    assert len(clusters.parts(31)) == 1
    assert Clusters.of(all_pairs(0, 0, mirror=True)).slice(0, 0).parts(5) == []


EMPLOYEES = 4


def refined_sets(stage: Stage, n_bins: int = 500) -> list[tuple[set[int], set[int]]]:
    """What a stage makes of the four employees of the paper's Table 1."""
    refinement = Refinement(stage, RefinementWork(n_bins=n_bins), prune=True)
    start = all_pairs(EMPLOYEES, EMPLOYEES, mirror=True)
    return [(set(map(int, pair.left)), set(map(int, pair.right))) for pair in refinement.refine(start)]


def test_equality_of_the_paper() -> None:
    """The example of section 5.1: t.SID = t'.ID; the first employee is his own supervisor."""
    own, supervisor = np.array([100, 101, 102, 103]), np.array([100, 102, 101, 101])
    predicate = Refinable(CodeComparison.EQUAL, supervisor, own, "supervisor")
    expected = [({0}, {0}), ({1}, {2}), ({2, 3}, {1})]
    for build_right in (False, True):
        assert sorted(refined_sets(Stage(Operator.EQUAL, (predicate,), build_right)), key=str) == expected


def test_hybrid_sets_of_the_paper() -> None:
    """The example of section 5.2, StartDate -> Salary: arrays from the equality, differences of bitmaps after it."""
    start, salary = np.array([2012, 2014, 2014, 2015]), np.array([3000, 8000, 6000, 8000])
    same = Refinement(
        Stage(Operator.EQUAL, (Refinable(CodeComparison.EQUAL, start, start, 0),)), RefinementWork(), prune=True
    )
    other = Refinement(
        Stage(Operator.DIFFERS, (Refinable(CodeComparison.DIFFERS, salary, salary, 1),)), RefinementWork(), prune=True
    )
    (pair,) = same.refine(all_pairs(EMPLOYEES, EMPLOYEES, mirror=True))
    assert pair.reflexive
    assert isinstance(pair.left, np.ndarray)
    found = list(other.refine(pair))
    assert all(isinstance(pair.right, BitMap) for pair in found)
    assert [(list(pair.left), list(pair.right)) for pair in found] == [([1], [2]), ([2], [1])]


def test_merged_sets_grow() -> None:
    """The example of section 5.3: t.Salary > t'.Salary."""
    salary = np.array([3000, 8000, 6000, 8000])
    predicate = Refinable(CodeComparison.LESS, -salary, -salary, "salary")
    assert refined_sets(Stage(Operator.HSM, (predicate,))) == [({2}, {0}), ({1, 3}, {0, 2})]


def test_bins_of_the_paper() -> None:
    """The example of section 5.3: t.StartDate < t'.StartDate with two bins."""
    start = np.array([2012, 2014, 2014, 2015])
    predicate = Refinable(CodeComparison.LESS, start, start, "start")
    assert refined_sets(Stage(Operator.BHSM, (predicate,)), 2) == [({0}, {1, 2, 3}), ({1, 2}, {3})]


def test_tables_of_growing_sets_are_kept() -> None:
    growing = GrowingTable(np.array([7, 5, 7, 3]))
    table = growing.of(BitMap([0]))
    assert growing.of(BitMap([0, 2, 3])) is table
    assert table.values == [3, 7]
    assert list(table[7]) == [0, 2]
    other = growing.of(BitMap([1, 2, 3]))
    assert other is not table
    assert other.values == [3, 5, 7]
    assert list(other[7]) == [2]
    assert not other.get(4)


def columns(*cardinalities: int, n_rows: int = 20_000) -> list[Refinable]:
    random = np.random.default_rng(5)
    found = []
    for k, cardinality in enumerate(cardinalities):
        codes = random.integers(0, cardinality, n_rows)
        found.append(Refinable(CodeComparison.EQUAL, codes, codes, k))
    return found


def plan_of(predicates: list[Refinable]) -> list[tuple[Operator, tuple[object, ...]]]:
    stages = GreedyHLL().plan(predicates, mirror=True)
    return [(stage.operator, tuple(p.identity for p in stage.predicates)) for stage in stages]


def test_classes_come_in_order_and_columns_by_cardinality() -> None:
    equal = columns(900, 30)
    ordered = [replace_comparison(p, CodeComparison.LESS) for p in columns(500, 20, 60)]
    differs = [replace_comparison(p, CodeComparison.DIFFERS) for p in columns(3000, 2)]
    assert plan_of(differs + ordered + equal) == [
        (Operator.EQUAL, (1,)),
        (Operator.EQUAL, (0,)),
        (Operator.HSM, (1,)),
        (Operator.HSM, (2,)),
        (Operator.HSM, (0,)),
        (Operator.DIFFERS, (1,)),
        (Operator.DIFFERS, (0,)),
    ]


def replace_comparison(predicate: Refinable, comparison: CodeComparison) -> Refinable:
    return replace(predicate, comparison=comparison)


def test_greedy_takes_the_pair_of_lowest_rank_first() -> None:
    """Columns 1 and 3 together nearly identify a row: few rows remain after them, so they come before 0 and 2."""
    codes = np.arange(20_000)
    wide, narrow = codes % 200, codes // 200
    predicates = [Refinable(CodeComparison.EQUAL, c, c, k) for k, c in enumerate([codes % 3, wide, codes % 7, narrow])]
    order = [identity for _, (identity,) in plan_of(predicates)]
    assert set(order[:2]) == {1, 3}
    assert order[0] == 3


def test_the_plan_is_the_same_each_time() -> None:
    predicates = columns(40, 40, 40, 3, 3000, 7)
    assert len({tuple(plan_of(predicates)) for _ in range(5)}) == 1


@pytest.mark.parametrize(
    ("cardinalities", "operators"),
    [
        ((100,), [Operator.HSM]),
        ((1 << 17,), [Operator.BHSM]),
        ((100, 1 << 17), [Operator.HSM, Operator.BHSM]),
        ((1 << 17, 1 << 17), [Operator.IEJOIN]),
        ((1 << 17, 1 << 17, 100), [Operator.HSM, Operator.BHSM, Operator.BHSM]),
    ],
)
def test_inequalities_get_the_algorithm_of_their_cardinality(
    cardinalities: tuple[int, ...], operators: list[Operator]
) -> None:
    ordered = [replace_comparison(p, CodeComparison.LESS) for p in columns(*cardinalities)]
    assert [operator for operator, _ in plan_of(ordered)] == operators


def test_iejoin_looks_at_values_together_with_the_key() -> None:
    key, first, second = columns(200, 300, 400)
    orders = [replace_comparison(first, CodeComparison.LESS), replace_comparison(second, CodeComparison.LESS)]
    assert [operator for operator, _ in plan_of(orders)] == [Operator.HSM, Operator.HSM]
    assert [operator for operator, _ in plan_of([key, *orders])] == [Operator.EQUAL, Operator.IEJOIN]


@pytest.mark.parametrize("comparison", [CodeComparison.EQUAL, CodeComparison.DIFFERS])
def test_hash_tables_are_built_on_the_side_with_fewer_values(comparison: CodeComparison) -> None:
    few, many = (predicate.left for predicate in columns(10, 5000))
    for left, right in ((few, many), (many, few)):
        (stage,) = GreedyHLL().plan([Refinable(comparison, left, right, 0)], mirror=True)
        assert stage.build_right == (right is few)


@pytest.mark.skipif(without_compiler, reason="too slow without the compiler")
@pytest.mark.parametrize("n_distinct", [1, 10, 1000, 9000, 12_000, 100_000, 1_000_000])
def test_sketches_err_little(n_distinct: int) -> None:
    """Within five standard errors of 1.6 %, and within 5 % between the two regimes, for any codes."""
    for scale, offset in ((1, 0), (1 << 40, 0), (-3, 17)):
        codes = np.arange(n_distinct) * scale + offset
        found = estimate(sketch(np.concatenate([codes, codes[: n_distinct // 2]]), 12))
        assert abs(found - n_distinct) <= 0.08 * n_distinct + 0.5


def test_an_empty_column_has_no_values() -> None:
    assert Cardinalities().of(np.zeros(0, np.int64)) == 0.0


@pytest.mark.skipif(without_compiler, reason="too slow without the compiler")
def test_pairs_of_columns_are_estimated_within_a_factor_of_two() -> None:
    random = np.random.default_rng(6)
    n_rows = 200_000
    for first, second in [(50, 100), (50, 100_000), (3, 1 << 30), (1000, 1000)]:
        a, b = random.integers(0, first, n_rows), random.integers(0, second, n_rows)
        exact = np.unique(np.stack([a, b]), axis=1).shape[1]
        found = Cardinalities().of_pair(a, b)
        assert exact / 2 <= found <= 2 * exact
        assert found == Cardinalities().of_pair(a, b)


@pytest.mark.skipif(without_compiler, reason="too slow without the compiler")
def test_pairs_of_skewed_and_of_correlated_columns_are_estimated_within_a_factor_of_three() -> None:
    """Columns that determine each other, that nearly do, that repeat a few values, and all of that at once."""
    random = np.random.default_rng(7)
    n_rows = 200_000
    skewed = np.minimum(random.zipf(1.3, n_rows), 1 << 20).astype(np.int64)
    uniform = random.integers(0, 5_000, n_rows)
    noise = np.where(random.random(n_rows) < 0.05, random.integers(0, 100, n_rows), 0)
    pairs = {
        "the same": (uniform, uniform),
        "coarser": (uniform, uniform // 10),
        "nearly determined": (uniform, uniform * 100 + noise),
        "skewed and uniform": (skewed, uniform % 50),
        "skewed twice": (skewed, np.minimum(random.zipf(1.3, n_rows), 1 << 20).astype(np.int64)),
        "skewed and determined": (skewed, skewed % 1_000),
        "one value and many": (np.zeros(n_rows, np.int64), uniform),
    }
    for name, (first, second) in pairs.items():
        exact = np.unique(np.stack([first, second]), axis=1).shape[1]
        for found in (Cardinalities().of_pair(first, second), Cardinalities().of_pair(second, first)):
            assert exact / 3 <= found <= 3 * exact, (name, exact, found)


def rule(*predicates: tuple[str, Op, str] | tuple[str, Op, int]) -> Rule:
    """(t.name, op, s.name), or a constant for a filter on t."""
    return Rule(
        tuple(
            Predicate(
                Column(Row.LEFT, left), op, Column(Row.RIGHT, right) if isinstance(right, str) else Constant(right)
            )
            for left, op, right in predicates
        )
    )


def random_rules(random: np.random.Generator, n_rules: int) -> list[Rule]:
    found = []
    for _ in range(n_rules):
        chosen = []
        for _ in range(int(random.integers(1, 5))):
            left, right = (str(name) for name in random.choice(list("abcd"), 2))
            op = Op(random.choice(["==", "==", "!=", "<", "<=", ">", ">="]))
            chosen.append((left, op, left if random.integers(0, 3) else right))
        if random.integers(0, 4) == 0:
            chosen.append(("a", Op.GT, 1))
        found.append(rule(*dict.fromkeys(chosen)))
    return found


@pytest.mark.parametrize("organisation", list(Organisation))
@pytest.mark.parametrize("nulls", list(Nulls))
def test_tries_find_what_single_rules_find(organisation: Organisation, nulls: Nulls) -> None:
    random = np.random.default_rng(8)
    for turn in range(12):
        values = {name: [None if v == 4 else int(v) for v in random.integers(0, 5, 12)] for name in "abcd"}
        table = from_frame(pa.table({name: pa.array(column, pa.int64()) for name, column in values.items()}))
        rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
        rules = random_rules(random, 8)
        parts = parts_of_joins(table, [join_of(rule) for rule in rules], nulls)
        expected = [naive.pairs(rows, rule, nulls) for rule in rules]
        options = {"organisation": organisation, "work": RefinementWork(n_bins=2)}
        counts = [len(pairs) for pairs in expected]
        assert check_many(parts, **options, n_threads=1 + turn % 2) == counts
        assert [Facet().count(bind(table, join_of(rule), nulls)) for rule in rules] == counts
        for most in (1, 5, 1000):
            for (left, right), pairs in zip(list_many(parts, most, **options), expected, strict=True):
                listed = set(zip(left.tolist(), right.tolist(), strict=True))
                assert listed <= pairs
                assert left.size == len(listed) == min(most, len(pairs))


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_threads_share_the_tries(n_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same counts on any number of threads, and never more of them at work than allowed."""
    monkeypatch.setattr(listing, "_PART_ROWS", 4)
    random = np.random.default_rng(22)
    values = {name: [None if v == 4 else int(v) for v in random.integers(0, 5, 60)] for name in "abcd"}
    table = from_frame(pa.table({name: pa.array(column, pa.int64()) for name, column in values.items()}))
    rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    rules = [*random_rules(random, 20), naysay.parse("not(t.a == s.a and t.b == s.b and t.c < s.c)")]
    parts = parts_of_joins(table, [join_of(rule) for rule in rules], Nulls.SQL)
    expected = [len(naive.pairs(rows, rule, Nulls.SQL)) for rule in rules]
    running, most, lock = set(), [0], threading.Lock()
    original = TrieRun.advance

    def watched(self: TrieRun, clusters: Clusters, totals: Counter[int]) -> list[Step]:
        with lock:
            running.add(threading.get_ident())
            most[0] = max(most[0], len(running))
        try:
            return original(self, clusters, totals)
        finally:
            with lock:
                running.discard(threading.get_ident())

    monkeypatch.setattr(TrieRun, "advance", watched)
    for organisation in Organisation:
        for _ in range(3):
            assert check_many(parts, organisation=organisation, n_threads=n_threads) == expected
    assert most[0] <= n_threads


def test_pairs_of_sets_do_not_pass_through_python_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads help because a step is a call of a kernel for many pairs of sets; here there are 20,000."""
    random = np.random.default_rng(23)
    codes = random.integers(0, 20_000, 200_000)
    frame = pa.table({"a": codes, "b": codes % 1_000, "c": random.integers(0, 50, codes.size), "d": codes // 2})
    texts = ["key(a, c)", "a -> b", "not(t.a == s.a and t.c < s.c)", "not(t.a == s.a and t.c < s.c and t.d > s.d)"]
    parts = parts_of_joins(from_frame(frame), [join_of(naysay.parse(text)) for text in texts], Nulls.SQL)
    calls = []
    original = TrieRun.advance
    monkeypatch.setattr(TrieRun, "advance", lambda *given: calls.append(1) or original(*given))
    monkeypatch.setattr(TrieRun, "add_counts", lambda *given: pytest.fail("one pair of sets"))
    # An algorithm for each of two inequalities would make sets between them.
    monkeypatch.setattr(planner, "IEJOIN_FROM", 0)
    counts = check_many(parts, n_threads=2)
    assert counts == naysay.count(frame, texts)
    assert len(calls) < 50
    # One rule uses all threads, too.
    assert naysay.count(frame, texts[-1], strategy="facet", threads=2) == counts[-1]


def test_a_step_that_fails_ends_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_PART_ROWS", 2)
    rules = [naysay.parse(text) for text in ("not(t.a == s.a and t.b == s.b)", "not(t.b == s.b and t.c < s.c)")]
    frame = pa.table({name: np.arange(60) // k for name, k in (("a", 2), ("b", 3), ("c", 5))})
    parts = parts_of_joins(from_frame(frame), [join_of(rule) for rule in rules], Nulls.SQL)
    original, n_calls = TrieRun.advance, itertools.count()

    def failing(self: TrieRun, clusters: Clusters, totals: Counter[int]) -> list[Step]:
        if next(n_calls) == 9:
            raise ResourceError("the tenth step")
        return original(self, clusters, totals)

    monkeypatch.setattr(TrieRun, "advance", failing)
    with pytest.raises(ResourceError, match="the tenth step"):
        check_many(parts, n_threads=3)
    assert next(n_calls) < 15


def test_threads_heed_the_limits() -> None:
    frame = pa.table({name: np.arange(300_000) // k for name, k in (("a", 2), ("b", 3), ("c", 5))})
    texts = ["key(a, b)", "key(b, c)", "not(t.c == s.c and t.b < s.b)"]
    parts = parts_of_joins(from_frame(frame), [join_of(naysay.parse(text)) for text in texts], Nulls.SQL)
    with use_budget(Budget(1e-9)), pytest.raises(ResourceError, match="longer than the 1e-09 seconds allowed"):
        check_many(parts, n_threads=2)
    stopped = Budget()
    stopped.stop()
    with use_budget(stopped), pytest.raises(Stopped):
        check_many(parts, n_threads=2)
    with pytest.raises(ResourceError, match="limit is 400,000"):
        check_many(parts, work=RefinementWork(400_000), n_threads=2)
    # Memory for one thread, not for two.
    room = listing._BYTES_PER_ROW * 2 * frame.num_rows
    with use_budget(Budget(memory=process_bytes() + room * 3 // 2)):
        began = []
        with pytest.MonkeyPatch.context() as patch:
            original = StepStack.work
            patch.setattr(StepStack, "work", lambda self: began.append(1) or original(self))
            assert check_many(parts, n_threads=2) == naysay.count(frame, texts)
        assert len(began) == 1


@pytest.mark.parametrize("name", ["facet", "facet-by-frequency"])
def test_the_verbs_run_the_tries(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check and count of several rules go through one call of the tries, one rule by its own pipeline."""
    random = np.random.default_rng(9)
    values = {column: [None if v == 4 else int(v) for v in random.integers(0, 5, 40)] for column in "abcd"}
    frame = pa.table({column: pa.array(cells, pa.int64()) for column, cells in values.items()})
    rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    rules = [*random_rules(random, 10), naysay.parse("not(t.a > 2)")]
    calls = []
    original = listing.check_many

    def counted(parts: list[RuleParts], **options: object) -> list[int]:
        calls.append((len(parts), options.get("organisation", Organisation.COST)))
        return original(parts, **options)

    monkeypatch.setattr(listing, "check_many", counted)
    expected = [len(naive.pairs(rows, rule, Nulls.SQL)) for rule in rules[:-1]]
    expected.append(sum(row["a"] is not None and row["a"] > 2 for row in rows))
    assert naysay.count(frame, rules, strategy=name) == expected
    assert [result.violations for result in naysay.check(frame, rules, strategy=name)] == expected
    organisation = Organisation.FREQUENCY if name == "facet-by-frequency" else Organisation.COST
    assert calls == [(10, organisation)] * 2
    assert naysay.count(frame, rules[0], strategy=name) == expected[0]
    assert calls[2:] == [(1, Organisation.COST)]


def test_one_rule_is_refined_by_one_equality_after_the_other() -> None:
    frame = pa.table({"a": [1, 1, 1, 2, None], "b": [1, 1, 2, 2, 2], "c": [5, 5, 5, 5, 5], "d": [1, 2, 3, 4, 5]})
    join = join_of(naysay.parse("not(t.a == s.a and t.b == s.b and t.c == s.c and t.d < s.d)"))
    for nulls in Nulls:
        bound = bind(from_frame(frame), join, nulls)
        for side in (bound, bound.swapped()):
            parts = planner.parts_of_bound(side)
            assert [predicate.comparison for predicate in parts.predicates] == [
                *[CodeComparison.EQUAL] * 3,
                CodeComparison.LESS,
            ]
            assert all(predicate.single_column for predicate in parts.predicates[:3])
            assert Facet().count(side) == 1


def test_tries_share_what_rules_have_in_common() -> None:
    """Figure 1: the rules p1p3 p1p4 p2p3 p2p4 p3p4 p3p5, with ascending costs of p1 to p5."""
    p1, p2, p3, p4, p5 = columns(2, 10, 50, 300, 5000)
    pairs = [(p1, p3), (p1, p4), (p2, p3), (p2, p4), (p3, p4), (p3, p5)]
    everyone = np.arange(p1.left.size)
    rules = [RuleParts(pair, everyone, everyone, reflexive=True, mirror=True) for pair in pairs]

    def shape(organisation: Organisation) -> dict[int, set[int]]:
        roots, _ = build_tries(rules, organisation, GreedyHLL())
        return {node.stage.predicates[0].identity: {k[0] for k in node.children} for node in roots}

    assert shape(Organisation.COST) == {0: {2, 3}, 1: {2, 3}, 2: {3, 4}}
    assert shape(Organisation.FREQUENCY) == {2: {0, 1, 3, 4}, 3: {0, 1}}


def test_tries_by_frequency_join_two_inequalities_that_no_other_rule_shares() -> None:
    first, second, third = (replace(p, comparison=CodeComparison.LESS) for p in columns(1 << 17, 1 << 17, 1 << 17))
    everyone = np.arange(first.left.size)

    def operators(*pairs: tuple[Refinable, ...]) -> set[Operator]:
        rules = [RuleParts(pair, everyone, everyone, reflexive=False, mirror=True) for pair in pairs]
        roots, _ = build_tries(rules, Organisation.FREQUENCY, GreedyHLL())
        return {node.stage.operator for node in roots}

    assert operators((first, second), (first, second)) == {Operator.IEJOIN}
    assert operators((first, second), (first, third)) == {Operator.BHSM}


def test_a_rule_may_be_the_beginning_of_another() -> None:
    table = from_frame(pa.table({"a": [1, 1, 2, 2, 2], "b": [1, 1, 1, 2, 3]}))
    same = ("a", Op.EQ, "a")
    rules = [rule(same), rule(same, ("b", Op.NE, "b")), rule(same, ("b", Op.LE, "b"))]
    parts = parts_of_joins(table, [join_of(rule) for rule in rules], Nulls.SQL)
    assert check_many(parts) == [8, 6, 5]
    assert [left.size for left, _ in list_many(parts, 6)] == [6, 6, 5]
    assert check_many([]) == []
    assert list_many([], 1) == []


def test_the_same_filter_on_both_rows() -> None:
    """A row does not meet itself among the rows that pass the filter; it was subtracted once more."""
    values = {"a": [3, 2, 2, 1, None, 3], "b": [1, 1, 2, 1, 1, None]}
    rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    both = "t.a > 1 and s.a > 1"
    texts = [f"not({both}{rest})" for rest in ("", *(f" and t.b {op} s.b" for op in ("==", "!=", "<=", "<")))]
    texts += ["not(t.a > 0 and s.a > 0 and t.b == s.b)", "not(t.a > 1 and s.a > 2 and t.b == s.b)"]
    rules = [naysay.parse(text) for text in texts]
    expected = [len(naive.pairs(rows, rule, Nulls.SQL)) for rule in rules]
    for name in ("facet", "facet-by-frequency"):
        assert naysay.count(pa.table(values), rules, strategy=name) == expected
    # A filter that all rows pass.
    full = pa.table({"a": [3, 2, 2], "b": [1, 1, 2]})
    assert naysay.count(full, texts, strategy="facet") == naysay.count(full, texts)


def test_one_row_rules_are_refused() -> None:
    table = from_frame(pa.table({"a": [1]}))
    with pytest.raises(UsageError, match="one-row"):
        parts_of_joins(table, [join_of(rule(("a", Op.GT, 1)))], Nulls.SQL)


def orders_of_random_rows(n_rows: int, n_orders: int) -> BoundJoin:
    random = np.random.default_rng(9)
    orders = tuple(random.permutation(n_rows) for _ in range(n_orders))
    side = Side(np.arange(n_rows), np.zeros(n_rows, np.int64), orders, ())
    return BoundJoin(side, side, 1, (), reflexive=False, mirror=True, symmetric=False)


@pytest.mark.parametrize("n_orders", [2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_too_large_intermediates_are_refused(n_orders: int, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = force(way, monkeypatch)
    bound = orders_of_random_rows(400, n_orders)
    for run in (strategy.count, lambda bound: strategy.violations(bound, None)):
        assert run(bound)
    limited = replace(strategy, max_words=800)
    for run in (limited.count, lambda bound: limited.violations(bound, None)):
        with pytest.raises(ResourceError, match=r"limit is 800: use the strategy auto"):
            run(bound)


def test_too_long_lists_are_refused() -> None:
    bound = orders_of_random_rows(50, 1)
    with pytest.raises(ResourceError, match="limit"):
        Facet(max_pairs=100).violations(bound, None)
    assert Facet(max_pairs=100).violations(bound, 200).left.size == 200


def test_too_many_pairs_to_count() -> None:
    rows = np.broadcast_to(np.int64(0), (1 << 33,))
    side = Side(rows, rows, (), ())
    with pytest.raises(CountOverflow):
        Facet().count(BoundJoin(side, side, 1, (), reflexive=True, mirror=True, symmetric=True))


@pytest.mark.skipif(without_compiler, reason="already without the compiler")
def test_without_the_compiler() -> None:
    script = """
from test_facet import *
with pytest.MonkeyPatch.context() as patch:
    check_random_joins(7, 12, 6, 3, force("iejoin", patch))
with pytest.MonkeyPatch.context() as patch:
    check_random_joins(8, 12, 6, 3, force("bins", patch))
"""
    folders = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": folders}
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, env=environment, timeout=600)


@pytest.mark.skipif(without_compiler, reason="nothing is compiled")
def test_each_kernel_compiles_once() -> None:
    from naysay.kernels.joins import facet

    check_random_joins(10, 20, 8, 3, Facet())
    for name, function in vars(facet).items():
        if hasattr(function, "signatures") and function.__module__ == facet.__name__:
            assert len(function.signatures) <= 1, name
