"""Filters, rules about the whole table, tolerances by rows, and what null and NaN mean to conditions on one column."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

import naive
import naysay
from cases import rows_of
from naysay.detect.result import Removal, within_tolerance
from naysay.errors import RuleError, UsageError
from naysay.report.json_ import dumps, from_json, to_json
from naysay.rule import parse, parse_rules, render_file
from naysay.rule.literal import write_quoted
from naysay.rule.model import Nulls
from strategies import random_table

NAN = float("nan")
NOON = datetime(2024, 1, 31, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize("nulls", list(Nulls))
def test_a_null_is_in_no_list_range_or_pattern_and_not_outside_of_them(nulls: Nulls) -> None:
    table = pa.table({"x": [None, "a", "b"], "n": [None, 1.0, 5.0]})
    rules = ["x in ('a')", "x not in ('a')", "n between 0 and 2", "x matches 'a'", "x is not null", "x is null"]
    assert naysay.count(table, rules, nulls=nulls) == [1, 1, 1, 1, 1, 2]


def test_nan_is_greater_than_every_number() -> None:
    table = pa.table({"x": [NAN, 0.5, None]})
    rules = [
        "x between 0 and 1",
        "x between 0 and inf",
        "x in (nan)",
        "x in (0.5)",
        "x is not null",
        "x >= 0",
        "x <= 1",
    ]
    assert naysay.count(table, rules) == [1, 1, 1, 1, 1, 0, 1]


def test_columns_without_type_dictionaries_and_empty_tables() -> None:
    rules = ["x in ('a')", "x between 'a' and 'b'", "x matches '[a]'", "x is not null"]
    assert naysay.count(pa.table({"x": pa.nulls(2)}), rules) == [0, 0, 0, 2]
    assert naysay.count(pa.table({"x": pa.array([], pa.string())}), rules) == [0, 0, 0, 0]
    encoded = pa.array(["a", None, "é", "a"]).dictionary_encode()
    assert naysay.count(pa.table({"x": encoded}), rules) == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("n matches '1'", "a pattern matches text, and column 'n' has type int64"),
        ("n in (1, 'a')", "column 'n' (int64) cannot be compared with \"a\""),
        ("x between 1 and 2", "column 'x' (string) cannot be compared with 1"),
        ("freshness(n) < 1 day", "freshness needs a date or a timestamp, and column 'n' has type int64"),
    ],
)
def test_a_condition_of_another_type_is_refused(rule: str, says: str) -> None:
    with pytest.raises(RuleError) as caught:
        naysay.check(pa.table({"n": [1], "x": ["a"]}), rule)
    assert caught.value.message == says


CORES = ["key(A)", "A -> B", "A, B -> C", "ordered(A, B)", "ordered(A, B by C)", "no_overlap(A, B)", "not(t.A > s.B)"]
CORES += ["not(t.A == s.A and t.B != s.B and t.C != s.C)", "A is not null", "not(t.A > t.B)", "A in (1, 2)"]
FILTERS = {
    "C == 2": lambda row: row["C"] == 2,
    "C in (1, 3)": lambda row: row["C"] in (1, 3),
    "A <= B": lambda row: None not in (row["A"], row["B"]) and row["A"] <= row["B"],
    "B is not null and C != 1": lambda row: row["B"] is not None and row["C"] not in (None, 1),
}


@pytest.mark.parametrize("core", CORES)
def test_a_filter_means_the_rule_on_the_rows_that_pass(core: str) -> None:
    draw = random.Random(core)
    for _ in range(40):
        rows = [{name: draw.choice((None, 1, 2, 3)) for name in "ABC"} for _ in range(draw.randint(0, 9))]
        table = pa.Table.from_pylist(rows, pa.schema([(name, pa.int64()) for name in "ABC"]))
        condition, passes = draw.choice(list(FILTERS.items()))
        kept = [row for row in rows if passes(row)]
        rule = parse(f"{core} where {condition}")
        (result,) = naysay.check(table, rule)
        assert result.violations == naive.count(kept, parse(core))
        assert result.rows_in_conflict == len(naive.rows_in_conflict(kept, parse(core)))
        removal = result.rows_to_remove
        assert removal is not None
        assert removal.least <= naive.rows_to_remove(kept, parse(core)) <= removal.most
        # The groups of a filtered dependency are those of the rows that pass.
        assert sum(group["rows"] for group in result.groups or ()) == (result.rows_in_conflict if result.groups else 0)


def table_of_times(values: list[Any], type: pa.DataType) -> pa.Table:
    return pa.table({"at": pa.array(values, type), "state": ["CA", "NY", "CA"][: len(values)]})


@pytest.mark.parametrize(
    ("values", "type", "holds"),
    [
        ([NOON - timedelta(hours=23)], pa.timestamp("us", "UTC"), True),
        ([NOON - timedelta(hours=24)], pa.timestamp("us", "UTC"), False),
        ([NOON - timedelta(hours=23), NOON - timedelta(days=9), None], pa.timestamp("ns", "Asia/Tokyo"), True),
        ([datetime(2024, 1, 30, 12, 0, 1)], pa.timestamp("ms"), True),
        ([datetime(2024, 1, 30, 12)], pa.timestamp("s"), False),
        ([date(2024, 1, 31)], pa.date32(), True),
        ([date(2024, 1, 30)], pa.date64(), False),
        ([None], pa.timestamp("us"), False),
        ([], pa.date32(), False),
    ],
)
def test_freshness(values: list[Any], type: pa.DataType, holds: bool) -> None:
    table = table_of_times(values, type)
    report = naysay.check(table, ["freshness(at) < 1 day", "key(state)"], now=NOON)
    assert (report[0].holds, report[0].violations) == (holds, int(not holds))
    assert naysay.count(table, "freshness(at) < 1 day", now=NOON) == int(not holds)
    assert bool(naysay.verify(table, "freshness(at) < 1 day", now=NOON)) is holds


def test_what_was_measured_is_said() -> None:
    table = table_of_times([NOON - timedelta(hours=30), NOON - timedelta(days=9), None], pa.timestamp("us", "UTC"))
    rules = ["row_count >= 5", "zip: key(state)", "freshness(at) < 1 day", "freshness(at) < 1 week where state == 'NY'"]
    report = naysay.check(table, rules, now=NOON)
    texts = [None if result.measured is None else result.measured.text for result in report]
    assert texts == [
        "there are 3 rows",
        None,
        "the newest at is 2024-01-30 06:00:00 UTC, 30 hours before 2024-01-31 12:00:00 UTC",
        "the newest at is 2024-01-22 12:00:00 UTC, 9 days before 2024-01-31 12:00:00 UTC",
    ]
    assert "It is broken: there are 3 rows." in str(report)
    # Rows name the rules that they break by their place among all rules.
    assert {row.rules for row in report.busiest} == {(1,)}
    assert "there are 3 rows" in report.to_html()
    assert from_json(to_json(report))[0].measured == report[0].measured


def test_a_value_in_the_future_says_nothing_about_freshness() -> None:
    report = naysay.check(
        table_of_times([NOON + timedelta(days=1)], pa.timestamp("us", "UTC")), "freshness(at) < 1 day", now=NOON
    )
    assert report[0].holds
    assert [warning.code for warning in report.warnings] == ["future-value"]
    with pytest.raises(UsageError, match="time zone"):
        naysay.check(pa.table({"a": [1]}), "row_count > 0", now=datetime(2024, 1, 1))


@pytest.mark.parametrize(
    ("rule", "n_rows", "holds"),
    [
        ("row_count >= 3", 3, True),
        ("row_count > 3", 3, False),
        ("row_count == 0", 0, True),
        ("row_count between 1 and 2", 3, False),
        ("row_count <= 1 where a == 1", 3, True),
        ("row_count != 3", 3, False),
    ],
)
def test_row_count(rule: str, n_rows: int, holds: bool) -> None:
    report = naysay.check(pa.table({"a": pa.array(range(n_rows), pa.int64())}), rule)
    assert (report[0].holds, report.passes) == (holds, holds)


def test_an_empty_table_breaks_a_rule_about_its_rows_and_the_warning_does_not_deny_it() -> None:
    report = naysay.check(pa.table({"a": pa.array([], pa.int64())}), ["row_count > 0", "key(a)"])
    assert [result.holds for result in report] == [False, True]
    assert "every rule about rows holds" in report.warnings[0].message


def test_a_rule_about_the_table_has_no_rows() -> None:
    table = pa.table({"a": [1, 1], "b": [1, 2]})
    for verb in (naysay.violations, naysay.clusters, naysay.split):
        with pytest.raises(RuleError, match="is about the whole table"):
            verb(table, "row_count > 5")
    with pytest.raises(UsageError, match="is about the whole table"):
        naysay.Watch("row_count > 5", "a")
    with pytest.raises(RuleError, match="has no tolerance"):
        naysay.check(table, replace(parse("row_count > 5"), max_violations=1))
    # A repair leaves it out.
    assert len(naysay.repair(table, ["row_count > 5", "a -> b"]).rules) == 1


def test_a_joint_removal_is_about_the_rules_about_rows() -> None:
    table = pa.table({"a": [1, 1, 2], "b": [1, 2, None]})
    report = naysay.check(table, ["row_count > 5", "a -> b", "b is not null where a == 2"], joint=True)
    assert str(report.rows_to_remove) == "2"
    assert "Remove 2 rows and all 2 rules about rows hold." in str(report)


@pytest.mark.parametrize("limit", ["max_rows", "max_rows_fraction", "max_remove"])
def test_tolerances_by_rows_equal_the_oracle(limit: str) -> None:
    draw = random.Random(limit)
    seen = set()
    for _ in range(300):
        table = random_table(draw, 9)
        name, other = (write_quoted(column) for column in draw.choices(table.column_names, k=2))
        rule = parse(draw.choice((f"key({name})", f"{name} is not null")))
        if name != other:
            rule = draw.choice((rule, parse(f"{name} -> {other}")))
        rows = rows_of(table)
        allowed: float = draw.randint(0, 4) if limit != "max_rows_fraction" else draw.choice((0.0, 0.25, 0.5, 1.0))
        n_rows, n_removed = len(naive.rows_in_conflict(rows, rule)), naive.rows_to_remove(rows, rule)
        number = n_removed if limit == "max_remove" else n_rows
        wanted = number <= (allowed * len(rows) if limit == "max_rows_fraction" else allowed)
        (result,) = report = naysay.check(table, replace(rule, **{limit: allowed}), quick=draw.random() < 0.3)
        assert (result.passes, report.passes) == (wanted, wanted)
        seen.add((wanted, result.holds))
    assert len(seen) == 3


def test_a_tolerance_inside_an_interval_is_undecided_and_fails() -> None:
    rule = replace(parse("A -> B"), max_remove=5)
    assert within_tolerance(rule, 9, 100, 9, Removal(3, 5))
    assert not within_tolerance(rule, 9, 100, 9, Removal(3, 6))
    (result,) = naysay.check(pa.table({"A": [1, 1], "B": [1, 2]}), rule)
    undecided = replace(result, passes=False, rows_to_remove=Removal(3, 6))
    assert undecided.is_undecided
    assert not replace(undecided, rows_to_remove=Removal(6, 7)).is_undecided
    report = replace(naysay.check(pa.table({"A": [1, 1], "B": [1, 2]}), rule), results=(undecided,))
    assert "its tolerance of 5 rows to remove is undecided" in " ".join(str(report).split())
    assert to_json(report)["rules"][0]["undecided"] is True


def test_one_tolerance_that_is_met_is_enough() -> None:
    table = pa.table({"a": [1, 1, 1]})
    assert naysay.check(table, replace(parse("key(a)"), max_violations=0, max_remove=2)).passes
    report = naysay.check(table, replace(parse("key(a)"), max_rows=2, max_remove=1))
    assert not report.passes
    assert "Beyond its tolerance of 2 rows in conflict or 1 row to remove." in " ".join(str(report).split())


def test_owner_and_tags_are_passed_through() -> None:
    text = "- name: zip\n  rule: zip -> city\n  tags: [address, monthly]\n  owner: data-team@example.org\n"
    (rule,) = parse_rules(text)
    assert (rule.tags, rule.owner) == (("address", "monthly"), "data-team@example.org")
    assert parse_rules(render_file([rule])) == [rule]
    assert parse_rules("- rule: key(a)\n  tags: one\n")[0].tags == ("one",)
    report = naysay.check(pa.table({"zip": [1, 1], "city": ["a", "b"]}), [rule])
    assert "owner data-team@example.org · tags address, monthly" in str(report)
    for output in (report.to_html(), dumps(report), dumps(from_json(to_json(report)))):
        assert "data-team@example.org" in output
        assert "monthly" in output
    with pytest.raises(RuleError, match="'tags' is a list of texts"):
        parse_rules("- rule: key(a)\n  tags: {a: b}\n")
