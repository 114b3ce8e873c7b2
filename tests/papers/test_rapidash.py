"""Rapidash's strategies compared with a double loop, on random joins of every small shape."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
import naysay
from naysay.errors import CountOverflow, ResourceError
from naysay.kernels.joins.find import find_ordered_by_key
from naysay.papers import MethodLimits
from naysay.papers.rapidash import strategies as rapidash
from naysay.papers.rapidash.forest import Ranked, SearchForest, Tree
from naysay.papers.rapidash.strategies import Rapidash, RapidashKdTree, RapidashRangeTree, VanillaRangeTree
from naysay.plan.bind import BoundJoin, Side, bind
from naysay.plan.join import join_of
from naysay.rule.model import Nulls
from naysay.table import from_frame

BOTH = [RapidashRangeTree(), RapidashKdTree()]
ALL = [*BOTH, VanillaRangeTree(), Rapidash(Tree.KD, vanilla=True)]


def random_join(random: np.random.Generator, n_rows: int, n_orders: int, n_differs: int) -> BoundJoin:
    """One of the kinds of joins that binding produces: a mirror with some orders doubled, filtered sides, or blocks."""
    n_keys = int(random.choice([1, 2, 4, 1 << 40]))
    n_values = int(random.choice([2, 4, 12]))
    kind = random.choice(["mirror", "filtered", "apart"])
    left_rows = np.sort(random.choice(2 * n_rows + 1, n_rows, replace=False)).astype(np.int64)
    right_rows = left_rows
    if kind == "filtered":
        right_rows = np.sort(random.choice(2 * n_rows + 1, int(random.integers(0, n_rows + 1)), replace=False))
    elif kind == "apart":
        right_rows = 2 * n_rows + 1 + np.arange(random.integers(0, n_rows + 1))

    def side(rows: np.ndarray) -> Side:
        keys = random.integers(0, min(n_keys, 4), rows.size) * max(1, n_keys // 4)
        return Side(
            rows.astype(np.int64),
            keys.astype(np.int64),
            tuple(random.integers(-n_values, n_values, rows.size) for _ in range(n_orders)),
            tuple(random.integers(0, n_values, rows.size) for _ in range(n_differs)),
        )

    left = side(left_rows)
    right = side(right_rows)
    if kind == "mirror":
        doubled = random.integers(0, 2, n_orders)
        orders = list(zip(left.order, doubled, strict=True))
        right = replace(left, order=tuple(2 * codes + 1 if twice else codes for codes, twice in orders))
        left = replace(left, order=tuple(2 * codes if twice else codes for codes, twice in orders))
    reflexive = kind == "filtered" or (kind == "mirror" and n_differs == 0 and all(doubled))
    return BoundJoin(left, right, n_keys, (n_values,) * n_differs, reflexive, kind == "mirror", symmetric=False)


def brute_force(bound: BoundJoin) -> set[tuple[int, int]]:
    left, right = bound.left, bound.right
    return {
        (int(left.rows[i]), int(right.rows[j]))
        for i in range(left.n_rows)
        for j in range(right.n_rows)
        if left.rows[i] != right.rows[j]
        and left.key[i] == right.key[j]
        and all(a[i] < b[j] for a, b in zip(left.order, right.order, strict=True))
        and all(a[i] != b[j] for a, b in zip(left.differs, right.differs, strict=True))
    }


def brute_force_of_arrays(bound: BoundJoin) -> set[tuple[int, int]]:
    """The same with a matrix of all pairs, for more rows than a double loop can handle."""
    left, right = bound.left, bound.right
    holds = (left.rows[:, None] != right.rows) & (left.key[:, None] == right.key)
    for a, b in zip(left.order, right.order, strict=True):
        holds &= a[:, None] < b
    for a, b in zip(left.differs, right.differs, strict=True):
        holds &= a[:, None] != b
    i, j = np.nonzero(holds)
    return set(zip(left.rows[i].tolist(), right.rows[j].tolist(), strict=True))


def check_all_verbs(strategy: Rapidash, bound: BoundJoin) -> None:
    expected = brute_force(bound)
    witness = strategy.verify(bound)
    assert witness in expected if expected else witness is None
    assert strategy.count(bound) == len(expected)
    for limit in (None, 0, 1, len(expected) - 1, len(expected), len(expected) + 5):
        if limit is not None and limit < 0:
            continue
        pairs = strategy.violations(bound, limit)
        listed = list(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))
        assert len(set(listed)) == len(listed)
        assert set(listed) <= expected
        assert len(listed) == (len(expected) if limit is None else min(limit, len(expected)))
        assert pairs.complete == (len(listed) == len(expected))


def check_random_joins(seed: int, n_joins: int, most_rows: int, most_parts: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(n_joins):
        n_rows = int(random.integers(0, most_rows + 1))
        n_orders, n_differs = random.integers(0, most_parts + 1, 2)
        bound = random_join(random, n_rows, int(n_orders), int(n_differs))
        for strategy in ALL:
            check_all_verbs(strategy, bound)


def test_random_joins_of_common_shapes() -> None:
    check_random_joins(seed=1, n_joins=1500, most_rows=14, most_parts=2)


def test_random_joins_of_every_shape() -> None:
    check_random_joins(seed=2, n_joins=400, most_rows=8, most_parts=6)


def test_longer_joins() -> None:
    check_random_joins(seed=3, n_joins=60, most_rows=70, most_parts=3)


@given(seed=st.integers(0, 2**32), n_rows=st.integers(0, 12), n_orders=st.integers(0, 4), n_differs=st.integers(0, 3))
def test_any_join(seed: int, n_rows: int, n_orders: int, n_differs: int) -> None:
    bound = random_join(np.random.default_rng(seed), n_rows, n_orders, n_differs)
    for strategy in BOTH:
        check_all_verbs(strategy, bound)


@pytest.mark.parametrize("strategy", BOTH)
def test_stages_carry_rows_over(strategy: Rapidash, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tiny stages the trees are rebuilt often; pairs across stages must still be found."""
    monkeypatch.setattr(rapidash, "_FIRST_STAGE", 2)
    monkeypatch.setattr(rapidash, "_GROWTH", 2)
    random = np.random.default_rng(4)
    for _ in range(300):
        bound = random_join(random, int(random.integers(1, 25)), int(random.integers(0, 4)), int(random.integers(0, 3)))
        expected = brute_force(bound)
        witness = strategy.verify(bound)
        assert witness in expected if expected else witness is None


@pytest.mark.parametrize("strategy", BOTH)
@pytest.mark.parametrize("shape", [(2, 0), (3, 0), (1, 1), (0, 2)])
def test_few_violations_among_many_rows(strategy: Rapidash, shape: tuple[int, int]) -> None:
    """Groups of a thousand rows that satisfy the rule, until two rows far apart are changed."""
    n_orders, n_differs = shape
    random = np.random.default_rng(5)
    values = random.permutation(3000)
    # Orders that contradict each other, or a disequality on a constant column.
    order = tuple((values, -values, values)[at].copy() for at in range(n_orders))
    differs = tuple(np.zeros(3000, np.int64) for _ in range(n_differs))
    side = Side(np.arange(3000), random.integers(0, 3, 3000), order, differs)
    bound = BoundJoin(side, side, 3, (2,) * n_differs, reflexive=False, mirror=True, symmetric=False)
    assert strategy.verify(bound) is None
    assert strategy.count(bound) == 0
    first, last = np.flatnonzero(side.key == 0)[[2, -1]]
    for codes in order:
        codes[first], codes[last] = codes.min() + 3, codes.max() - 3
    for codes in differs:
        codes[last] = 1
    expected = brute_force_of_arrays(bound)
    assert 0 < len(expected) < 3000
    assert strategy.verify(bound) in expected
    assert strategy.count(bound) == len(expected)
    pairs = strategy.violations(bound, None)
    assert sorted(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)) == sorted(expected)


@pytest.mark.parametrize("strategy", BOTH)
@pytest.mark.parametrize("shape", [(1, 0), (2, 0), (3, 0), (4, 0), (2, 1), (0, 2)])
def test_random_joins_of_hundreds_of_rows(strategy: Rapidash, shape: tuple[int, int]) -> None:
    random = np.random.default_rng(9)
    for _ in range(4):
        bound = random_join(random, int(random.integers(200, 700)), *shape)
        expected = brute_force_of_arrays(bound)
        assert strategy.count(bound) == len(expected)
        pairs = strategy.violations(bound, None)
        assert sorted(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)) == sorted(expected)


@pytest.mark.parametrize("strategy", BOTH)
def test_extreme_codes(strategy: Rapidash) -> None:
    """Codes as far apart as doubling and negation can make them."""
    big = (1 << 62) - 1
    values = np.array([-big, big, 0, big, -big], np.int64)
    side = Side(np.arange(5), np.zeros(5, np.int64), (values, values[::-1].copy(), values), ())
    check_all_verbs(strategy, BoundJoin(side, side, 1, (), reflexive=False, mirror=True, symmetric=False))


@pytest.mark.parametrize("strategy", BOTH)
def test_many_violations_come_in_chunks(strategy: Rapidash) -> None:
    values = np.arange(300)
    for order in ((values,), (values, values), (values, values, values)):
        side = Side(np.arange(300), np.zeros(300, np.int64), order, ())
        bound = BoundJoin(side, side, 1, (), reflexive=False, mirror=True, symmetric=False)
        pairs = strategy.violations(bound, None)
        assert pairs.complete
        assert set(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)) == {
            (i, j) for j in range(300) for i in range(j)
        }
        assert strategy.violations(bound, 5000).left.size == 5000


def test_range_tree_refuses_what_would_not_fit() -> None:
    random = np.random.default_rng(6)
    values = np.arange(2500)
    order = tuple(random.permutation(values) for _ in range(13))
    side = Side(np.arange(2500), np.zeros(2500, np.int64), order, ())
    bound = BoundJoin(side, side, 1, (), reflexive=False, mirror=True, symmetric=False)
    with pytest.raises(ResourceError, match="GiB"):
        RapidashRangeTree().count(bound)
    assert RapidashKdTree().count(bound) >= 0
    with pytest.raises(ResourceError):
        Rapidash(Tree.KD, memory=1000).count(bound)


def test_unlimited_list_is_refused_by_memory() -> None:
    side = Side(np.arange(300), np.zeros(300, np.int64), (), ())
    bound = BoundJoin(side, side, 1, (), reflexive=True, mirror=True, symmetric=True)
    with pytest.raises(ResourceError, match="limit"):
        Rapidash(Tree.RANGE, memory=1000).violations(bound, None)
    assert Rapidash(Tree.RANGE, memory=1000).violations(bound, 10).left.size == 10


def test_too_many_pairs_to_count() -> None:
    rows = np.broadcast_to(np.int64(0), (1 << 33,))
    side = Side(rows, rows, (), ())
    with pytest.raises(CountOverflow):
        RapidashKdTree().count(BoundJoin(side, side, 1, (), reflexive=True, mirror=True, symmetric=True))


def run_apart(call: str, settings: dict[str, str]) -> None:
    """Run a function of this file in another process with other settings."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])} | settings
    script = f"import test_rapidash; test_rapidash.{call}"
    subprocess.run([sys.executable, "-c", script], check=True, env=environment, timeout=600)


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="already without the compiler")
def test_without_the_compiler() -> None:
    run_apart("check_random_joins(7, 60, 7, 3)", {"NUMBA_DISABLE_JIT": "1"})


def check_signatures() -> None:
    from naysay.kernels.joins import find
    from naysay.kernels.trees import kd_tree, range_tree

    check_random_joins(seed=8, n_joins=40, most_rows=8, most_parts=3)
    compiled = 0
    own = ("find_ordered_by_key", "_meet_rows", "_number_keys")
    for module in (kd_tree, range_tree, find):
        for name, function in vars(module).items():
            if (
                hasattr(function, "signatures")
                and function.__module__ == module.__name__
                and (module is not find or name in own)
            ):
                assert len(function.signatures) == 1, name
                compiled += 1
    assert compiled > 10


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
def test_each_kernel_compiles_once() -> None:
    """In a process without a cache: cached kernels that are called by other kernels show no signature."""
    run_apart("check_signatures()", {"NAYSAY_NO_CACHE": "1"})


def trees_of(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The points and dimensions of each forest that is grown from now on."""
    grown: list[tuple[int, int]] = []
    grow = rapidash.grow_forest

    def noted(tree: Tree, points: Ranked, memory: int, limits: MethodLimits) -> SearchForest:
        grown.append((points.n_points, len(points.columns)))
        return grow(tree, points, memory, limits)

    monkeypatch.setattr(rapidash, "grow_forest", noted)
    return grown


OVERLAP = (
    "not(t.ship_city == t.receipt_city and s.ship_city == s.receipt_city and t.ship_city == s.ship_city "
    "and t.receipt_date >= s.ship_date and t.ship_date <= s.receipt_date)"
)


@pytest.mark.parametrize("strategy", BOTH)
def test_one_structure_serves_equal_filters_on_both_rows(strategy: Rapidash, monkeypatch: pytest.MonkeyPatch) -> None:
    """Example 14, and the same rows with intervals that overlap."""
    grown = trees_of(monkeypatch)
    join = join_of(naysay.parse(OVERLAP))
    cities = {"ship_city": ["Paris", "Paris", "Paris"], "receipt_city": ["Paris", "Paris", "Rome"]}
    for second_ship, broken in ((27, False), (26, True)):
        dates = {"ship_date": [24, second_ship, 24], "receipt_date": [26, 28, 28]}
        bound = bind(from_frame(pa.table(cities | dates)), join, Nulls.SQL)
        witness = strategy.verify(bound)
        assert (witness in {(0, 1), (1, 0)}) if broken else (witness is None)
    assert grown == [(2, 2)] * 2


@pytest.mark.parametrize("strategy", BOTH)
def test_one_tree_serves_both_searches(strategy: Rapidash, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = trees_of(monkeypatch)
    table = from_frame(pa.table({"a": [1, 1, 2, 3, 3], "b": [5, 4, 3, 2, 1], "c": [1, 1, 1, 1, 2]}))
    for rule, broken in {
        "not(t.a <= s.a and t.b < s.b)": True,
        "not(t.a < s.a and t.b <= s.b)": False,
        "not(t.c == s.c and t.a <= s.a and t.b <= s.b)": True,
        "not(t.c == s.c and t.a < s.a and t.b < s.b)": False,
    }.items():
        assert (strategy.verify(bind(table, join_of(naysay.parse(rule)), Nulls.SQL)) is not None) == broken
    assert grown == [(5, 2)] * 4
    # Columns that differ need a tree for each side.
    strategy.verify(bind(table, join_of(naysay.parse("not(t.a < s.b and t.c < s.c)")), Nulls.SQL))
    assert grown[4:] == [(10, 2)]


@pytest.mark.parametrize("strategy", ALL)
def test_verify_grows_no_tree_beyond_the_first_violation(strategy: Rapidash, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proposition 1: trees hold a few rows more than were looked at until a pair was found."""
    n_rows = 30_000
    rising, join = np.arange(n_rows), join_of(naysay.parse("not(t.a < s.a and t.b < s.b)"))
    for place, most in ((5, 1 << 10), (3_000, 1 << 13), (n_rows - 5, n_rows)):
        falling = -rising
        falling[place] = 1
        table = from_frame(pa.table({"a": rising, "b": falling}))
        grown = trees_of(monkeypatch)
        assert strategy.verify(bind(table, join, Nulls.SQL)) is not None
        assert max(n_points for n_points, _ in grown) == most


def test_vanilla_search_has_a_dimension_for_each_predicate(monkeypatch: pytest.MonkeyPatch) -> None:
    grown = trees_of(monkeypatch)
    random = np.random.default_rng(3)
    for _ in range(30):
        values = {name: [None if v == 4 else int(v) for v in random.integers(0, 5, 14)] for name in "abcd"}
        frame = pa.table({name: pa.array(column, pa.int64()) for name, column in values.items()})
        rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
        for text, n_dimensions in {
            "key(a, b)": 2,
            "a, b -> c": 3,
            "not(t.a == s.a and t.b == s.c and t.c <= s.c and t.d > s.d)": 4,
            "not(t.a > 1 and s.b < 2)": 1,
        }.items():
            rule = naysay.parse(text)
            expected = naive.pairs(rows, rule, Nulls.SQL)
            grown.clear()
            assert naysay.count(frame, rule, strategy="rapidash-vanilla") == len(expected)
            found = naysay.violations(frame, rule, strategy="rapidash-vanilla")
            assert found.total == len(expected)
            assert naysay.verify(frame, rule, strategy="rapidash-vanilla").holds == (not expected)
            assert {dimensions for _, dimensions in grown} <= {n_dimensions}


@pytest.mark.parametrize("either_way", [False, True])
def test_keys_are_hashed_as_rows_arrive(either_way: bool) -> None:
    """More groups than the hash table begins with, and keys far apart, with and without a pair."""
    random = np.random.default_rng(4)
    for n_keys, n_values in ((3, 1), (5_000, 1), (5_000, 2), (1 << 60, 2)):
        n_rows = 6_000
        keys = random.integers(0, n_keys, n_rows)
        values = random.integers(0, n_values, n_rows)
        time = np.arange(n_rows)
        i, j = find_ordered_by_key((keys, values, time), (keys, values, time), either_way)
        order = np.lexsort((values, keys))
        same = keys[order][1:] == keys[order][:-1]
        broken = bool((same & (values[order][1:] != values[order][:-1])).any())
        assert (i >= 0) == broken
        if broken:
            assert keys[i] == keys[j]
            assert values[i] != values[j] if either_way else values[i] < values[j]
            # No earlier row would have completed a pair.
            last = max(i, j)
            assert find_ordered_by_key(
                (keys[:last], values[:last], time[:last]), (keys[:last], values[:last], time[:last]), either_way
            ) == (-1, -1)
