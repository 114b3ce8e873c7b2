"""Suspects: rows without which a rule holds, and as few as the report says; groups of dependencies."""

from __future__ import annotations

import json
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import naive
import naysay
from cases import Case, rows_of
from naysay.report.json_ import from_json
from naysay.rule.model import Nulls
from strategies import random_rule, random_table

SHAPES = (
    "not(t.b > 2)",
    "key(a, b)",
    "a -> b",
    "a, b -> c",
    "not(t.a == s.a and t.b < s.b)",
    "not(t.a == s.a and t.b <= s.b)",
    "not(t.a == s.a and t.b > s.b and t.c < s.c)",
    "not(t.a == s.a and t.b >= s.b and t.c < s.c)",
    "not(t.a == s.a and t.b >= s.b and t.c <= s.c)",
    "not(t.a == s.c and t.b != s.b)",
    "not(t.a == s.a and t.b != s.b and t.c != s.c)",
    "not(t.a < s.a and t.b < s.b and t.c < s.c)",
    "not(t.a == 1 and s.b == 2)",
)


def judge(table: pa.Table, rules: list[naysay.Rule], nulls: Nulls) -> int:
    """Remove the suspects of each rule, by number and by key, and look for violations by brute force."""
    rows = rows_of(table)
    n_judged = 0
    for result in naysay.check(table, rules, nulls=nulls, sample=3):
        case = Case(table, result.rule, nulls)
        if result.holds:
            assert (result.suspects, result.groups, result.first_suspects) == (None, None, ()), case
            continue
        n_judged += 1
        assert result.suspects is not None
        gone = result.suspects.table.column(0).to_pylist()
        assert len(result.suspects) == len(set(gone)) == result.rows_to_remove.most, case
        assert gone == sorted(gone), case
        kept = [row for place, row in enumerate(rows) if place not in set(gone)]
        assert not naive.violations(kept, result.rule, nulls), case
        assert [suspect.row for suspect in result.first_suspects] == [{"row": row} for row in gone[:3]], case
        assert result.suspects.table.column_names[1:] == list(result.rule.column_names), case
        assert repr(result.suspects.head(2).to_pylist()) == repr(list(result.suspects)[:2]), case
    return n_judged


@pytest.mark.parametrize("seed", range(40))
def test_without_its_suspects_a_rule_holds(seed: int) -> None:
    rng = random.Random(seed)
    table = random_table(rng, 30)
    judge(table, [random_rule(rng, table) for _ in range(12)], rng.choice(list(Nulls)))


@pytest.mark.parametrize("nulls", list(Nulls))
def test_every_shape_has_suspects(nulls: Nulls) -> None:
    rng = random.Random(7)
    columns = {name: [rng.choice([*range(4), None]) for _ in range(40)] for name in "abc"}
    assert judge(pa.table(columns), [naysay.parse(rule) for rule in SHAPES], nulls) == len(SHAPES)


def test_suspects_are_named_by_the_key() -> None:
    table = pa.table({"row": [5, 6, 7], "a": [1, 1, 1], "b": ["x", "y", "x"]})
    (result,) = naysay.check(table, "a -> b", key="row")
    assert result.suspects.table.to_pylist() == [{"row": 6, "a": 1, "b": "y"}]
    (result,) = naysay.check(table, "a, row -> b", key=("row", "b"))
    assert result.suspects is None
    (result,) = naysay.check(table, "not(t.row == 6 and t.b == 'y')", key=("row", "b"))
    assert result.suspects.table.to_pylist() == [{"row_2": {"row": 6, "b": "y"}, "row": 6, "b": "y"}]


@pytest.mark.parametrize("nulls", list(Nulls))
@pytest.mark.parametrize("seed", range(10))
def test_groups_are_the_values_of_each_key_that_has_several(seed: int, nulls: Nulls) -> None:
    rng = np.random.default_rng(seed)
    n_rows = int(rng.integers(1, 60))
    keys, values = (rng.integers(0, n, n_rows).astype(object) for n in (6, 4))
    keys[rng.random(n_rows) < 0.1] = None
    values[rng.random(n_rows) < 0.1] = None
    table = pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.int64())})
    wanted: dict[object, Counter[object]] = {}
    for key, value in zip(keys, values, strict=True):
        if nulls is Nulls.EQUAL or (key is not None and value is not None):
            wanted.setdefault(key, Counter())[value] += 1
    several = {key: counts for key, counts in wanted.items() if len(counts) > 1}
    (result,) = naysay.check(table, "k -> v", nulls=nulls, sample=100)
    if not several:
        assert result.groups is None
        return
    groups = result.groups.table.to_pylist()
    assert {row["k"]: {each["value"]: each["rows"] for each in row["values"]} for row in groups} == several
    assert all(row["rows"] == sum(each["rows"] for each in row["values"]) for row in groups)
    assert all(row["values"] == sorted(row["values"], key=lambda each: -each["rows"]) for row in groups)
    order = [(1 - row["values"][0]["rows"] / row["rows"], -row["rows"]) for row in groups]
    assert order == sorted(order)
    assert [(group.key, group.values) for group in result.first_groups] == [
        ({"k": row["k"]}, tuple((each["value"], each["rows"]) for each in row["values"])) for row in groups
    ]


def test_the_report_shows_them_and_json_brings_them_back() -> None:
    zips, cities = ["35957"] * 23 + ["1"] * 3, ["boaz"] * 22 + ["boxz"] + ["Ulm", "Bonn", "Kiel"]
    report = naysay.check(pa.table({"zip": zips, "city": cities}), "zip -> city")
    assert "Suspects: row 22, row 24, row 25." in str(report)
    assert "35957: boaz 22, boxz 1\n" in str(report)
    assert "<li>35957: boaz 22, boxz 1</li>" in report.to_html()
    again = from_json(json.loads(report.to_json()))
    assert again[0].first_suspects == report[0].first_suspects
    assert again[0].first_groups == report[0].first_groups
    assert "35957: boaz 22, boxz 1\n" in str(again)
    old = json.loads(report.to_json())
    del old["rules"][0]["suspects"], old["rules"][0]["groups"]
    assert from_json(old)[0].first_suspects == ()
