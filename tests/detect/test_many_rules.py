"""Many rules over one table: what they share changes no answer and saves work."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest

import naive
import naysay
from cases import rows_of
from naysay.detect import points
from naysay.kernels import sort
from naysay.kernels.joins import grouped
from naysay.plan import agreeing, bind
from naysay.plan.agreeing import AgreeingPairs
from naysay.plan.bind import Memo
from naysay.plan.join import join_of
from naysay.rule import Nulls, parse
from naysay.table import from_frame
from samples import PLAIN_FAMILIES
from strategies import random_rule, random_table

# What each setting forces, by module and name of the constant.
SETTINGS = {
    "as it is": (),
    "keys that nearly determine": ((agreeing, "_FEW_CELLS", 40), (agreeing, "_CELLS_PER_ROW", 0)),
    "partitions": ((agreeing, "_FEW_CELLS", 0), (agreeing, "_CELLS_PER_ROW", 0), (agreeing, "_KERNEL_COLUMNS", 2)),
    "group by group": ((points, "_MANY_WORDS", 0),),
    "long codes": ((bind, "_FEW_VALUES", 0), (points, "_GROUP_ROWS", 0)),
}
SHAPES = (
    "key({0}, {1})",
    "{0} -> {1}",
    "{0}, {1} -> {2}",
    "not(t.{0} == s.{0} and t.{1} != s.{1} and t.{2} != s.{2})",
    "not(t.{0} < s.{0})",
    "not(t.{0} == s.{0} and t.{1} >= s.{1})",
    "not(t.{0} == s.{0} and t.{1} > s.{1} and t.{2} != s.{2})",
    "not(t.{0} == s.{0} and t.{1} >= s.{1} and t.{2} != s.{2})",
    "not(t.{0} == s.{0} and t.{1} > s.{1} and t.{2} < s.{2})",
    "not(t.{0} == s.{0} and t.{1} > s.{1} and t.{2} > s.{2})",
    "not(t.{0} == s.{0} and t.{1} > s.{1} and t.{2} <= s.{2})",
    "not(t.{0} == s.{0} and t.{1} != s.{1} and t.{2} > 2)",
    "not(t.{0} == s.{0} and t.{1} < s.{1} and t.{2} > 2 and s.{2} > 2)",
    "not(t.{0} == s.{1} and t.{2} < s.{2})",
)


def _table(rng: random.Random, n_rows: int) -> pa.Table:
    """Integers, some far apart, some null; floats with NaN; one column that another determines."""
    few = [rng.choice([0, 1, 2, 3, None]) for _ in range(n_rows)]
    return pa.table(
        {
            "a": pa.array(few, pa.int64()),
            "b": pa.array([value if value is None else 10 * (value // 2) for value in few], pa.int64()),
            "c": pa.array([rng.choice([-(1 << 40), 0, 7, 1 << 61]) for _ in range(n_rows)], pa.int64()),
            "d": pa.array([rng.choice([0.5, -0.0, 0.0, float("nan"), None, 4.0]) for _ in range(n_rows)]),
            "e": pa.array(rng.sample(range(3 * n_rows), n_rows), pa.int64()),
        }
    )


@pytest.mark.parametrize("setting", SETTINGS)
def test_rules_counted_together_get_the_answers_of_the_oracle(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    for module, name, value in SETTINGS[setting]:
        monkeypatch.setattr(module, name, value)
    rng = random.Random(setting)
    for n_rows in (0, 1, 12, 25):
        table = _table(rng, n_rows)
        names = [rng.sample(table.column_names, 3) for _ in SHAPES]
        rules = [parse(shape.format(*some)) for shape, some in zip(SHAPES, names, strict=True)]
        rules += [rule.swapped() for rule in rules]
        rng.shuffle(rules)
        for nulls in Nulls:
            expected = [naive.count(rows_of(table), rule, nulls) for rule in rules]
            for n_threads in (1, 3):
                assert naysay.count(table, rules, nulls=nulls, threads=n_threads) == expected


def test_random_rules_counted_together_get_the_answers_of_the_oracle() -> None:
    for seed in range(25):
        rng = random.Random(seed)
        table = random_table(rng, 30, PLAIN_FAMILIES)
        rules, nulls = [random_rule(rng, table) for _ in range(12)], rng.choice(list(Nulls))
        expected = [naive.count(rows_of(table), rule, nulls) for rule in rules]
        assert naysay.count(table, rules, nulls=nulls) == expected, seed


def test_rules_share_the_pairs_that_agree() -> None:
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(0, 20, 2_000) for name in "abcdef"}
    pairs = AgreeingPairs(from_frame(pa.table(columns)), Nulls.SQL, Memo())
    rules = [f"key({x}, {y})" for x, y in itertools.combinations("abcdef", 2)]
    rules += [f"{x} -> {y}" for x, y in itertools.permutations("abcdef", 2)]
    rules += [f"not(t.{x} == s.{x} and t.{y} > s.{y})" for x, y in itertools.permutations("abcdef", 2)]
    for rule in rules:
        assert pairs.count(join_of(parse(rule))) is not None
    # 75 rules, 15 pairs of columns and 6 columns.
    assert pairs.n_passes == 15 + 6


def test_what_a_key_or_a_dependency_implies_is_not_counted_again() -> None:
    rows = np.arange(2_000)
    table = pa.table({"id": rows, "zip": rows % 97, "city": rows % 97 % 10, "a": rows % 7, "b": rows % 5})
    pairs = AgreeingPairs(from_frame(table), Nulls.SQL, Memo())
    for rule in ("zip -> city", "key(zip, a)", "key(id, a)", "id -> b"):
        pairs.count(join_of(parse(rule)))
    n_passes = pairs.n_passes
    # id is a key, and zip determines city.
    for rule in ("id, a -> b", "id, b -> city", "key(id, zip, city)", "zip, a -> city", "key(zip, city, a)"):
        assert pairs.count(join_of(parse(rule))) == naysay.count(table, rule)
    assert pairs.n_passes == n_passes
    assert pairs.count(join_of(parse("not(t.zip == s.zip and t.city > s.city and t.a < s.a)"))) == 0


def test_a_column_that_is_a_key_is_gone_through_once() -> None:
    rng = np.random.default_rng(3)
    columns = {"id": rng.permutation(2_000)} | {name: rng.integers(0, 9, 2_000) for name in "abc"}
    pairs = AgreeingPairs(from_frame(pa.table(columns)), Nulls.SQL, Memo())
    for rule in ("key(a, id)", "id, b -> c", "not(t.id == s.id and t.a < s.a)", "not(t.id == s.id and t.c != s.c)"):
        assert pairs.count(join_of(parse(rule))) == 0
    assert pairs.n_passes == 1


def test_a_rule_and_its_twin_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    count_two = points.count_two
    monkeypatch.setattr(points, "count_two", lambda *given: counted.append(1) or count_two(*given))
    rng = np.random.default_rng(1)
    table = pa.table({name: rng.integers(0, 50, 3_000) for name in "abc"} | {"k": rng.integers(0, 2, 3_000)})
    rules = [f"not(t.k == s.k and t.{x} > s.{x} and t.{y} < s.{y})" for x, y in itertools.permutations("abc", 2)]
    counts = naysay.count(table, rules, threads=1)
    assert counts == [naysay.count(table, rule) for rule in rules]
    assert len(counted) == 3 + len(rules)


def test_rows_that_a_key_nearly_determines() -> None:
    rng = np.random.default_rng(2)
    key = rng.integers(0, 500, 20_000)
    for share in (0.0, 0.01, 0.05, 0.9):
        value = np.where(rng.random(key.size) < share, rng.integers(0, 90, key.size), key % 90)
        _, sizes = np.unique(key * 90 + value, return_counts=True)
        expected = int((sizes * sizes).sum())
        given = (key, key, value), (1, 0, 90)
        assert sort.count_agreeing_nearly(*given, 500, 4) == (-1 if share == 0.9 else expected)
        # Codes in so long a range are partitioned as they are.
        assert sort.count_agreeing_parts(*given, 1 << 40, 4) == expected
        assert sort.count_agreeing_parts(*given, 500 * 90, 4) == sort.count_agreeing_small(*given, 500 * 90) == expected


def test_pairs_within_groups_of_all_sizes() -> None:
    rng = np.random.default_rng(4)
    sizes = [0, 1, 2, 31, grouped.FEW_ROWS, grouped.FEW_ROWS + 1, 1_500, 0]
    key = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    places, starts = grouped.group_rows(key, len(sizes))
    assert np.diff(starts).tolist() == sizes
    for n_x, n_y in ((1, 1), (3, 700), (700, 3), (5_000, 5_000), (30, 70_000)):
        x, y = (rng.integers(0, n_values, key.size) for n_values in (n_x, n_y))
        expected = 0
        for group in range(len(sizes)):
            own_x, own_y = x[key == group], y[key == group]
            expected += int(((own_x[:, None] < own_x) & (own_y[:, None] < own_y)).sum())
        of_x, of_y = (grouped.in_groups(codes.astype(np.int32), places) for codes in (x, y))
        assert grouped.count_two_grouped(starts, of_x, of_y, n_x, n_y) == expected


def test_a_few_rules_on_small_groups_and_far_values() -> None:
    rng = np.random.default_rng(5)
    columns = {name: rng.integers(-(1 << 29), 1 << 29, 1_500) for name in "ab"} | {"c": rng.integers(0, 1 << 60, 1_500)}
    table = pa.table(columns | {"k": rng.integers(0, 300, 1_500)})
    rules = [f"not(t.k == s.k and t.{x} > s.{x} and t.{y} < s.{y})" for x, y in ("ab", "ac", "bc")]
    expected = [naive.count(rows_of(table), parse(rule), Nulls.SQL) for rule in rules]
    assert naysay.count(table, rules) == [naysay.count(table, rule) for rule in rules] == expected
