"""Causes: the segment in which errors were planted comes first, and nothing is claimed where there is none."""

from __future__ import annotations

import datetime
import importlib
import json
import math
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import naysay
from naysay.detect.causes import _shared_blame, _surprise
from naysay.detect.result import Cause, Condition
from naysay.report.json_ import from_json

N_ROWS = 4_000


@cache
def benchmark() -> Any:
    """The module benchmarks/causes.py, which measures the figures of the docs."""
    folder = Path(__file__).resolve().parents[2] / "benchmarks"
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("causes")
    finally:
        sys.path.remove(str(folder))


def table_of(inside: Any, n_errors: int = 40, **columns: Any) -> pa.Table:
    """A table whose rule `zip -> city` is broken by rows `inside`, and columns that say nothing."""
    rng = np.random.default_rng(3)
    n_rows = len(inside)
    zips = rng.integers(0, n_rows // 20, n_rows)
    city = np.char.add("City ", zips.astype(str)).astype(object)
    for number, row in enumerate(rng.choice(np.flatnonzero(inside), n_errors, replace=False)):
        city[row] = f"typo {number}"
    noise = {
        "shift": rng.choice(["early", "late"], n_rows),
        "amount": rng.random(n_rows),
        "size": rng.integers(0, 9, n_rows),
    }
    return pa.table({"zip": zips, "city": city, **noise, **columns})


def causes_of(table: pa.Table, rule: str = "zip -> city", **options: Any) -> tuple[Cause, ...]:
    (result,) = naysay.check(table, rule, **options)
    return result.causes


def sources(n_rows: int = N_ROWS) -> Any:
    return np.random.default_rng(0).choice(["web", "app", "legacy"], n_rows, p=[0.7, 0.25, 0.05])


@pytest.mark.parametrize("seed", range(20))
def test_a_planted_segment_comes_first(seed: int) -> None:
    case = benchmark().planted(seed * 7 + 1000, n_rows=5_000)
    (result,) = naysay.check(case.table, case.rule)
    assert case.is_first(result), (case.kind, case.rule, result.causes)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_claimed_without_a_cause(seed: int) -> None:
    case = benchmark().planted(seed * 7 + 1000, cause=False, n_rows=5_000)
    assert causes_of(case.table, case.rule) == ()


def test_the_numbers_of_a_cause_are_those_of_the_table() -> None:
    source = sources()
    table = table_of(source == "legacy", source=source)
    (result,) = naysay.check(table, "zip -> city")
    (cause,) = result.causes
    assert cause.conditions == (Condition("value", "source", "legacy", "legacy"),)
    assert result.suspects is not None
    suspects = result.suspects.table.column("row").to_pylist()
    assert (cause.suspects, cause.of_suspects) == (sum(source[suspects] == "legacy"), len(suspects))
    assert (cause.rows, cause.of_rows) == (int((source == "legacy").sum()), N_ROWS)
    assert cause.lift == pytest.approx(cause.suspects / len(suspects) / (cause.rows / N_ROWS))
    assert 0 <= cause.p_value < 1e-20


def test_chance_is_at_least_the_binomial_tail_times_the_segments_tried() -> None:
    """The bound that is used is never below the tail that it bounds."""
    for n in (1, 5, 10, 33, 200):
        for share in (0.001, 0.04, 0.2, 0.5, 0.9):
            expected = 1.2 * share / (1 + 0.2 * share)
            terms = [math.comb(n, i) * expected**i * (1 - expected) ** (n - i) for i in range(n + 1)]
            for k in range(n + 1):
                bound = math.exp(-_surprise(k, n, share * 1000, 1000))
                # Smaller numbers have few digits.
                assert bound >= sum(terms[k:]) * (1 - 1e-9) or bound < 1e-200, (n, share, k)
    assert math.exp(-_surprise(20, 100, 100, 1000)) == pytest.approx(0.012, rel=0.1)


days = np.datetime64("2024-01-01") + np.random.default_rng(1).integers(0, 300, N_ROWS)
VALUES: dict[str, tuple[Any, Any, Any]] = {
    "boolean": (pa.array(np.arange(N_ROWS) % 20 == 0), True, True),
    "null": (pa.array(["x"] * N_ROWS, mask=np.arange(N_ROWS) % 20 == 0), None, None),
    "dictionary": (pa.array(np.where(np.arange(N_ROWS) % 20 == 0, "old", "new")).dictionary_encode(), "old", "old"),
    "zero": (pa.array(np.where(np.arange(N_ROWS) % 20 == 0, 0.0, np.nan)), 0.0, 0.0),
    "view": (pa.array(np.where(np.arange(N_ROWS) % 20 == 0, "old", "new")).cast(pa.string_view()), "old", "old"),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_of_any_type_are_found(name: str) -> None:
    column, low, high = VALUES[name]
    (cause,) = causes_of(table_of(np.arange(N_ROWS) % 20 == 0, column=column))
    assert cause.conditions == (Condition("value", "column", low, high),)


RANGES = {
    "date": days,
    "timestamp": days.astype("datetime64[ns]"),
    "instant": pa.array(days.astype("datetime64[us]")).cast(pa.timestamp("us", "Europe/Berlin")),
    "decimal": pa.array(days.astype(int)).cast(pa.decimal128(30, 3)),
    "large": pa.array(days.astype(np.uint64) + np.uint64(2**63)),
    "float32": days.astype(int).astype(np.float32),
    "duration": (days - np.datetime64("2024-01-01")).astype("timedelta64[ms]"),
    "time": pa.array(days.astype(int) % 1000, pa.int32()).cast(pa.time32("s")),
    "dictionary": pa.array(days.astype(int)).dictionary_encode(),
    "nulls": pa.array(days.astype(int), mask=np.arange(N_ROWS) % 9 == 0),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_of_any_type_are_found(name: str) -> None:
    inside = (days >= np.datetime64("2024-03-01")) & (days < np.datetime64("2024-04-01")) & (np.arange(N_ROWS) % 9 != 0)
    table = table_of(inside, 80, column=RANGES[name])
    (cause,) = causes_of(table)
    ((kind, column, low, high),) = [(one.kind, one.column, one.low, one.high) for one in cause.conditions]
    assert (kind, column) == ("range", "column")
    values = np.array([value is not None and low <= value <= high for value in table["column"].to_pylist()])
    assert not np.any(values & ~(days >= np.datetime64("2024-03-01")))
    assert np.count_nonzero(values & inside) > 0.9 * np.count_nonzero(inside)


def test_rows_of_a_range_are_named_by_their_numbers() -> None:
    rows = np.arange(N_ROWS)
    (cause,) = causes_of(table_of((rows >= 1_000) & (rows < 1_200)))
    (condition,) = cause.conditions
    assert (condition.kind, condition.column) == ("rows", None)
    assert 1_000 <= condition.low < 1_020
    assert 1_180 < condition.high < 1_200


def test_the_file_of_a_folder_is_named(tmp_path: Path) -> None:
    table = table_of(np.arange(N_ROWS) % 1_000 < 250).take(np.argsort(np.arange(N_ROWS) % 1_000, kind="stable"))
    for number in range(4):
        pa.csv.write_csv(table.slice(1_000 * number, 1_000), tmp_path / f"part {number}.csv")
    read = naysay.read(tmp_path)
    (result,) = naysay.check(read, "zip -> city")
    (condition,) = result.causes[0].conditions
    assert (condition.kind, condition.column, Path(condition.low).name) == ("file", None, "part 0.csv")
    assert "all 40 rows to fix are in part 0.csv (25.0% of the table, 4.0x)" in str(naysay.check(read, "zip -> city"))
    # Rows in another order are not those of the files any more.
    shuffled = read.take(np.random.default_rng(0).permutation(N_ROWS))
    assert causes_of(shuffled) == ()


def test_a_second_condition_is_named_if_it_is_much_better() -> None:
    rng = np.random.default_rng(5)
    source, day = sources(20_000), rng.integers(0, 30, 20_000)
    source[:8_000] = "legacy"
    both = (source == "legacy") & (day == 7)
    (cause,) = causes_of(table_of(both, 60, source=source, day=day))
    assert {(one.column, one.low) for one in cause.conditions} == {("source", "legacy"), ("day", 7)}
    assert cause.rows == int(both.sum())
    (cause,) = causes_of(table_of(source == "legacy", 60, source=source, day=day))
    assert [one.column for one in cause.conditions] == ["source"]


def test_a_second_cause_is_among_the_other_rows() -> None:
    source, store = sources(), np.random.default_rng(6).integers(0, 12, N_ROWS)
    (first, second) = causes_of(table_of((source == "legacy") | (store == 3), 120, source=source, store=store))
    assert [cause.conditions[0].column for cause in (first, second)] == ["store", "source"]
    assert second.of_suspects == first.of_suspects - first.suspects
    assert second.of_rows == first.of_rows - first.rows


def test_columns_that_the_rule_compares_are_no_cause() -> None:
    """That broken rows have the values that break the rule is no news; under which key they are may be."""
    n_rows = 2_000
    age = np.where(np.arange(n_rows) % 40 == 0, -1, 30)
    assert causes_of(pa.table({"age": age}), "not(t.age < 0)") == ()
    ids = np.where(np.arange(n_rows) % 40 == 0, 7, np.arange(n_rows))
    assert causes_of(pa.table({"id": ids, "note": ["x"] * n_rows}), "key(id)") == ()
    one_key = pa.table({"zip": ["0"] * 30 + ["1"] * n_rows, "city": ["a", "b"] * 15 + ["c"] * n_rows})
    assert causes_of(one_key, "zip -> city") == ()
    state = np.array(["AL", "NY", "TX", "WA"])[np.arange(n_rows) % 4]
    salary = np.arange(n_rows)
    rate = np.where((state == "NY") & (np.random.default_rng(0).random(n_rows) < 0.1), 0, salary)
    table = pa.table({"state": state, "salary": salary, "rate": rate})
    (cause,) = causes_of(table, "not(t.state == s.state and t.salary > s.salary and t.rate < s.rate)")
    assert cause.conditions == (Condition("value", "state", "NY", "NY"),)


def test_what_a_rule_applies_to_is_no_cause() -> None:
    """All broken rows are in New York, because the rule is only about New York, or only about pairs."""
    rng = np.random.default_rng(8)
    state = rng.choice(["NY", "AL", "TX"], 3_000, p=[0.1, 0.5, 0.4])
    table = pa.table(
        {"state": state, "capital": np.where(state == "NY", "Albany", "other"), "age": rng.integers(-1, 20, 3_000)}
    )
    for rule in ("not(t.state == 'NY' and t.age < 0)", "not(t.state == 'NY' and s.state == 'NY' and t.age != s.age)"):
        assert not any(one.column == "capital" for cause in causes_of(table, rule) for one in cause.conditions)
    customers = np.concatenate((np.repeat(np.arange(400), 5), np.arange(400, 1_500)))
    often = np.where(np.arange(customers.size) < 2_000, "often", "once")
    birth = np.where(rng.random(customers.size) < 0.04, rng.integers(0, 10**6, customers.size), customers)
    assert causes_of(pa.table({"customer": customers, "birth": birth, "visits": often}), "customer -> birth") == ()


@pytest.mark.parametrize("n_rows", [2_000, 30_000])
def test_rows_are_a_cause_also_without_other_columns(n_rows: int) -> None:
    rows = np.arange(n_rows)
    table = table_of((rows >= 500) & (rows < 800)).select(["zip", "city"])
    (condition,) = causes_of(table)[0].conditions
    assert condition.kind == "rows"
    assert causes_of(table, hide=["zip", "city"])[0].conditions == (condition,)


def test_hidden_columns_are_no_cause() -> None:
    source = sources()
    assert causes_of(table_of(source == "legacy", source=source), hide=["source"]) == ()


def test_which_of_two_duplicates_is_removed_is_no_cause() -> None:
    """The later row of each pair is removed, so that late rows would be to blame."""
    rng = np.random.default_rng(9)
    ids = np.arange(4_000)
    ids[rng.choice(4_000, 300, replace=False)] = rng.choice(4_000, 300, replace=False)
    table = pa.table({"id": ids, "at": np.arange(4_000), "half": np.arange(4_000) // 2_000})
    assert causes_of(table, "key(id)") == ()


@pytest.mark.parametrize("seed", range(20))
def test_blame_is_shared_as_it_says(seed: int) -> None:
    """One for each value but the one that stays; values as common as that one share it with its rows."""
    rng = np.random.default_rng(seed)
    keys, values = rng.integers(0, 5, 30), rng.integers(0, 3, 30)
    counts = Counter(zip(keys.tolist(), values.tolist(), strict=True))
    wanted, suspects = np.zeros(30), []
    for row, (key, value) in enumerate(zip(keys.tolist(), values.tolist(), strict=True)):
        of_key = {other: n for (its_key, other), n in counts.items() if its_key == key}
        most = max(of_key.values())
        tied = sorted(other for other, n in of_key.items() if n == most)
        of_value = (len(tied) - 1) / len(tied) if value in tied else 1
        wanted[row] = of_value / of_key[value]
        if value != tied[0]:
            suspects.append(row)
    np.testing.assert_allclose(_shared_blame(keys, values, np.array(suspects)), wanted)


def test_copies_of_one_mistake_count_once() -> None:
    """One key with twenty rows of another value is one mistake, and its region no cause."""
    zips = np.repeat(np.arange(100), 50)
    city = np.where((zips == 7) & (np.arange(5_000) % 2 == 0), "wrong", "right")
    table = pa.table({"zip": zips, "city": city, "region": zips // 10})
    assert causes_of(table) == ()


@pytest.mark.parametrize("n_errors", [0, 1, 4])
def test_too_few_rows_to_fix_claim_nothing(n_errors: int) -> None:
    source = sources()
    assert causes_of(table_of(source == "legacy", n_errors, source=source)) == ()


def test_odd_tables_have_no_causes() -> None:
    source = sources()
    legacy = table_of(source == "legacy", source=source)
    assert causes_of(legacy, quick=True) == ()
    lists = pa.array([[1]] * N_ROWS)
    for odd in (lists, pa.nulls(N_ROWS), pa.array([b"x"] * N_ROWS), pa.array([math.nan] * N_ROWS)):
        assert [cause.conditions[0].column for cause in causes_of(legacy.append_column("odd", odd))] == ["source"]
    long = pa.array(np.where(source == "legacy", "long " * 50, "short"))
    assert [cause.conditions[0].column for cause in causes_of(legacy.append_column("text", long))] == ["source"]
    assert causes_of(legacy.drop_columns(["source"]).append_column("text", long)) == ()
    twice = pa.table([*legacy.columns, legacy["source"]], names=[*legacy.column_names, "source"])
    assert causes_of(twice) == ()
    assert causes_of(legacy.select(["zip", "city"])) == ()


def test_causes_do_not_depend_on_chunks_or_threads() -> None:
    source = sources(150_000)
    table = table_of(source == "legacy", 300, source=source, day=np.datetime64("2024-01-01") + np.arange(150_000) % 90)
    chunked = pa.concat_tables([table.slice(0, 7), table.slice(7, 90_000), table.slice(90_007)])
    assert causes_of(table) == causes_of(chunked, threads=1) != ()


def test_the_report_shows_them_and_json_brings_them_back() -> None:
    source = sources()
    day = np.where(source == "legacy", np.datetime64("2024-02-29"), days)
    report = naysay.check(table_of(source == "legacy", source=source, day=day), "zip -> city")
    line = "all 40 rows to fix have source = legacy (4.9% of the table, 20x)"
    assert f"Likely cause: {line}." in " ".join(str(report).split())
    assert line[1:] in report.to_html()
    assert '<rect x="0" y="0" width="100.0" height="6">' in report.to_html()
    again = from_json(json.loads(report.to_json()))
    assert again[0].causes == report[0].causes
    assert again[0].causes[0].lift == report[0].causes[0].lift


def test_values_in_causes_cannot_hide_or_run() -> None:
    source = sources().astype(object)
    bad = "<script>alert(1)</script>\x1b[31m"
    source[source == "legacy"] = bad
    report = naysay.check(table_of(source == bad, **{"<b>": source}), "zip -> city")
    assert "<script>alert" not in report.to_html()
    assert "<b> =" not in report.to_html()
    assert "\x1b" not in str(report)
    assert "\\x1b[31m" in str(report)


def test_dates_in_causes_are_text_in_json() -> None:
    table = table_of(days == np.datetime64("2024-02-29"), 9, day=days)
    report = naysay.check(table, "zip -> city")
    assert report[0].causes[0].conditions == (
        Condition("value", "day", datetime.date(2024, 2, 29), datetime.date(2024, 2, 29)),
    )
    (cause,) = json.loads(report.to_json())["rules"][0]["causes"]
    assert cause["conditions"] == [{"kind": "value", "column": "day", "low": "2024-02-29", "high": "2024-02-29"}]
