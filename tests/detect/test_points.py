"""Rows as sorted words: answers of the oracle in every setting, on any number of threads."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest

import naive
import naysay
from cases import Case, rows_of
from naysay.budget import Budget, threads_for, use_budget
from naysay.detect import points, violations
from naysay.detect.partners import partners
from naysay.kernels.words import group_buckets, split_part
from naysay.plan.bind import BoundJoin, bind
from naysay.plan.join import join_of
from naysay.rule import Nulls, parse
from naysay.table import from_frame
from samples import PLAIN_FAMILIES
from strategies import random_rule, random_table

# What each setting forces, by name of the constant in `points`.
SORTED = {"_FEW_WORDS": 0, "_WORDS_PER_ROW": 0}
SETTINGS = {
    "one thread": {},
    "threads": {"_ROWS_PER_THREAD": 1, **SORTED},
    "ranks": {"_FEW_RANKS": -1 << 40, **SORTED},
    "ranks on threads": {"_FEW_RANKS": -1 << 40, "_ROWS_PER_THREAD": 1, **SORTED},
    "rows that do not fit": {"_WORD_BITS": 3},
}
RULES = (
    "a -> b",
    "k, a -> d",
    "not(t.k == s.k and t.a < s.a)",
    "not(t.a <= s.b)",
    "not(t.k == s.k and t.a < s.a and t.b > s.b)",
    "not(t.a < s.a and t.b > s.b)",
    "not(t.k == s.k and t.a <= s.a and t.b >= s.b)",
    "not(t.k == s.k and t.a < s.b and t.b > s.a)",
    "not(t.k == s.k and t.a < s.a and t.b > s.b and t.d != s.d)",
    "not(t.k == s.d and t.a < s.a and t.k != s.k)",
)


def _bound(table: pa.Table, rule: str) -> BoundJoin:
    return bind(from_frame(table), join_of(parse(rule)), Nulls.SQL)


def _table(rng: np.random.Generator, n_rows: int, n_values: int, n_keys: int) -> pa.Table:
    columns = {name: rng.integers(-n_values, n_values, n_rows) for name in "ab"}
    return pa.table(columns | {"k": rng.integers(0, n_keys, n_rows), "d": rng.integers(0, 3, n_rows)})


@pytest.mark.parametrize("setting", SETTINGS)
def test_random_rules_get_the_answers_of_the_oracle(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    for name, value in SETTINGS[setting].items():
        monkeypatch.setattr(points, name, value)
    rng = random.Random(setting)
    n_judged = 0
    while n_judged < 40:
        table = random_table(rng, rng.choice([3, 20, 60]), PLAIN_FAMILIES)
        rule, nulls = random_rule(rng, table), rng.choice(list(Nulls))
        if rule.is_one_row or not join_of(rule).order:
            continue
        n_judged += 1
        expected = naive.violations(rows_of(table), rule, nulls)
        case = Case(table, rule, nulls)
        assert naysay.count(table, rule, nulls=nulls, threads=3) == len(expected), case
        verdict = naysay.verify(table, rule, nulls=nulls, threads=3)
        assert verdict.holds == (not expected), case
        if verdict.witness is not None:
            pair = tuple(side["row"] for side in (verdict.witness.left, verdict.witness.right))
            assert pair in expected, case


# Three rows of each key; a large key; no key; few values, so that most rows are equal; values far apart.
TABLES = [(20_000, 1_000, 7_000), (20_000, 50, 3), (20_000, 1 << 40, 1), (5_000, 3, 2), (3_000, 1 << 61, 500)]


@pytest.mark.parametrize("shape", TABLES)
@pytest.mark.parametrize("rule", RULES)
def test_counts_are_the_sum_of_the_partners_of_all_rows(
    monkeypatch: pytest.MonkeyPatch, rule: str, shape: tuple[int, int, int]
) -> None:
    bound = _bound(_table(np.random.default_rng(shape[0] + len(rule)), *shape), rule)
    expected = int(partners(bound).sum())
    assert violations.count(bound) == expected
    monkeypatch.setattr(points, "_ROWS_PER_THREAD", 1)
    for name, value in {"_LARGE_PART": 200, **SORTED}.items():
        monkeypatch.setattr(points, name, value)
    for n_threads in (2, 5):
        with use_budget(Budget(threads=n_threads)):
            assert violations.count(bound) == expected


@pytest.mark.parametrize("outlier", [1 << 20, 1 << 40])
def test_rows_of_one_large_key_are_sorted_in_parts_of_their_own(outlier: int) -> None:
    values = np.random.default_rng(2).integers(0, 1 << 19, 300_000)
    values[7] = outlier
    table = pa.table({"a": values, "b": values // 3, "k": np.zeros(len(values), np.int64)})
    rule = "not(t.k == s.k and t.a < s.a and t.b > s.b)"
    assert naysay.count(table, rule, threads=2) == naysay.count(table, rule, threads=1) == 0
    less = "not(t.k == s.k and t.a < s.a and t.b < s.b)"
    assert naysay.count(table, less, threads=2) == int(partners(_bound(table, less)).sum())


def test_an_outlier_does_not_leave_one_thread_with_all_rows() -> None:
    words = np.append(np.random.default_rng(0).permutation(200_000), 1 << 60).astype(np.uint64)
    expected = np.sort(words)
    scratch = np.empty_like(words)
    starts = group_buckets(split_part(words, scratch, 0, words.size))
    assert starts.tolist() == [0, 200_000, 200_001]
    starts = group_buckets(split_part(words, scratch, 0, 200_000))
    assert int(np.diff(starts).max()) < 50_000
    given = [words[begin:end] for begin, end in itertools.pairwise(starts)]
    assert np.array_equal(np.concatenate([np.sort(part) for part in given]), expected[:-1])


def test_rules_that_share_the_threads_use_one_each(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(points, "threads_for", lambda n_shares: seen.append(threads_for(1000)) or 1)
    table = _table(np.random.default_rng(1), 1_000, 100, 2)
    rules = RULES[4:8]
    for n_rules, n_threads in ((1, 4), (2, 4), (4, 4), (1, 1)):
        naysay.count(table, rules[:n_rules], threads=n_threads)
    assert seen == [4, 2, 2, 1, 1, 1, 1, 1]
