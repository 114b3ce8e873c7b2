"""A thousand random tables and rules: the Spark engine compared with the oracle."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark_differential import (
    IN_ONE_TASK,
    IN_PARTS,
    IN_TASKS,
    KEY,
    draw,
    in_one_pass,
    judge_check,
    judge_counts,
    judge_joint,
    judge_lists,
    judge_suspects,
    judge_verify,
    with_strips,
)
from tables import to_spark

from naysay.detect.spark.key_groups import Sizes
from naysay.rule import Nulls, parse

_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.fixture
def batches_of_three(spark: Any) -> Iterator[None]:
    before = spark.conf.get(_BATCH)
    spark.conf.set(_BATCH, "3")
    yield
    spark.conf.set(_BATCH, before)


@pytest.mark.parametrize("seed", range(6))
def test_a_small_table_in_one_task(spark: Any, seed: int) -> None:
    case = draw(seed, 100)
    judge_counts(spark, *case, IN_ONE_TASK)
    judge_check(spark, *case, IN_ONE_TASK)


@pytest.mark.parametrize("seed", range(50, 53))
def test_batches_of_three_rows(spark: Any, batches_of_three: None, seed: int) -> None:
    judge_check(spark, *draw(seed, 100), IN_ONE_TASK)


@pytest.mark.parametrize("seed", range(100, 102))
def test_groups_in_tasks(spark: Any, seed: int) -> None:
    judge_counts(spark, *draw(seed, 24), IN_TASKS)


@pytest.mark.parametrize(("seed", "sizes"), [(600, IN_TASKS), (601, IN_PARTS), (602, IN_ONE_TASK)])
def test_verdicts(spark: Any, seed: int, sizes: Sizes) -> None:
    judge_verify(spark, *draw(seed, 10), sizes)


@pytest.mark.parametrize("seed", [610, 611])
def test_verdicts_on_a_table_in_many_files(spark: Any, tmp_path: Path, seed: int) -> None:
    """A row per file: one row is looked at first, then the shares of the files, then all."""
    table, rules, nulls = draw(seed, 6)
    data = to_spark(spark, table)
    data.coalesce(1).write.option("maxRecordsPerFile", 1).parquet(f"{tmp_path}/a table")
    read = spark.read.schema(data.schema).parquet(f"{tmp_path}/a table")
    assert len(read.inputFiles()) == max(1, table.num_rows)
    judge_verify(spark, table, rules, nulls, replace(IN_TASKS, first=1, growth=3), read)


@pytest.mark.parametrize("seed", range(110, 112))
def test_reports_of_groups_in_tasks(spark: Any, batches_of_three: None, seed: int) -> None:
    judge_check(spark, *draw(seed, 8), IN_TASKS)


@pytest.mark.parametrize("seed", [127, 129, 130, 136, 146, 171, 185, 219])
def test_reports_of_rules_that_share_a_key(spark: Any, seed: int) -> None:
    """A rule that needs kernels by itself, or with itself under another name: found in one pass."""
    table, rules, nulls = draw(seed, 60)
    for number, rule in enumerate(in_one_pass(rules)[:2]):
        judge_check(spark, table, [rule, replace(rule, name="again")][: number + 1], nulls, Sizes(rows_a_task=6))


@pytest.mark.parametrize("seed", range(200, 202))
def test_giant_groups_in_parts(spark: Any, seed: int) -> None:
    table, rules, nulls = draw(seed, 60)
    judge_counts(spark, table, with_strips(rules)[:6], nulls, IN_PARTS)


@pytest.mark.parametrize("seed", range(210, 212))
def test_reports_of_giant_groups_in_parts(spark: Any, seed: int) -> None:
    table, rules, nulls = draw(seed, 60)
    judge_check(spark, table, rules[:3] + with_strips(rules)[:2], nulls, IN_PARTS)


@pytest.mark.parametrize(("seed", "sizes"), [(300, IN_ONE_TASK), (301, IN_TASKS), (400, IN_PARTS)])
def test_lists(spark: Any, seed: int, sizes: Any) -> None:
    table, rules, nulls = draw(seed, 20)
    judge_lists(spark, table, rules[:2] + with_strips(rules)[:1], nulls, sizes)


@pytest.mark.parametrize(
    ("seed", "n_rules", "sizes"), [(310, 30, IN_ONE_TASK), (311, 6, IN_TASKS), (312, 6, IN_TASKS), (313, 3, IN_PARTS)]
)
def test_without_its_suspects_a_rule_holds(spark: Any, seed: int, n_rules: int, sizes: Any) -> None:
    judge_suspects(spark, *draw(seed, n_rules), sizes)


@pytest.mark.parametrize(("seed", "n_rules", "sizes"), [(320, 5, IN_ONE_TASK), (321, 3, IN_TASKS), (322, 4, IN_PARTS)])
def test_rows_to_remove_for_all_rules_together(spark: Any, seed: int, n_rules: int, sizes: Any) -> None:
    judge_joint(spark, *draw(seed, n_rules), sizes)


@pytest.fixture
def settings(spark: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in request.param}
    for name, value in request.param.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


_ZONE, _ANSI, _CASE = "spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive"


@pytest.mark.parametrize(
    ("settings", "seed"),
    [
        ({_ZONE: "America/New_York", _ANSI: "true"}, 500),
        ({_ZONE: "Asia/Kolkata", _ANSI: "false"}, 501),
        ({_ZONE: "UTC", _ANSI: "true", _CASE: "true"}, 502),
        ({_ZONE: "America/New_York", _ANSI: "false", _CASE: "true"}, 503),
    ],
    indirect=["settings"],
)
def test_the_session_settings_change_no_answer(spark: Any, settings: None, seed: int) -> None:
    case = draw(seed, 30)
    judge_check(spark, *case, IN_ONE_TASK)
    table, rules, nulls = draw(seed + 50, 30)
    judge_counts(spark, table, rules[:5], nulls, IN_TASKS)


# Half an hour before, in and after the gap of 10 March 2024 in New York and the hour that occurred twice on 3 November.
_CLOCK = [datetime.datetime(2024, 3, 10, hour, 30) for hour in (1, 2, 3)]
_CLOCK += [datetime.datetime(2024, 11, 3, hour, 30) for hour in (0, 1, 2)]
_CLOCK_RULES = (
    "not(t.local == timestamp '2024-03-10 02:30:00')",
    "not(t.local > timestamp '2024-03-10 01:30:00' and t.local < timestamp '2024-03-10 03:30:00')",
    "not(t.instant == timestamp '2024-11-03 05:30:00Z')",
    "not(t.instant > timestamp '2024-11-03 01:30:00-04:00' and t.instant <= timestamp '2024-11-03 01:30:00-05:00')",
    "not(t.local == s.local and t.instant != s.instant)",
    "not(t.local < s.local and t.instant > s.instant)",
    "not(t.day == s.day and t.local != s.local)",
    "not(t.day == date '2024-03-10')",
)


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        ({_ZONE: "America/New_York"}, IN_ONE_TASK),
        ({_ZONE: "America/New_York"}, IN_TASKS),
        ({_ZONE: "Asia/Kolkata"}, IN_TASKS),
        ({_ZONE: "UTC"}, IN_ONE_TASK),
    ],
    indirect=["settings"],
)
def test_hours_that_a_session_zone_lacks_or_has_twice(spark: Any, settings: None, sizes: Any) -> None:
    local = [*_CLOCK, *_CLOCK[:3], None]
    hours = pa.array([*(moment + datetime.timedelta(hours=5) for moment in _CLOCK), *_CLOCK[3:], None])
    columns = {
        "local": pa.array(local, pa.timestamp("us")),
        "instant": hours.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
        "day": pa.array([moment and moment.date() for moment in local], pa.date32()),
        KEY: pa.array(range(len(local)), pa.int64()),
    }
    judge_check(spark, pa.table(columns), [parse(rule) for rule in _CLOCK_RULES], Nulls.SQL, sizes)


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        ({_CASE: "true"}, IN_ONE_TASK),
        ({_CASE: "false"}, IN_ONE_TASK),
        ({_CASE: "true"}, IN_TASKS),
        ({_CASE: "false"}, IN_PARTS),
    ],
    indirect=["settings"],
)
def test_columns_that_differ_in_case_only(spark: Any, settings: None, sizes: Any) -> None:
    columns = {
        "Zip": pa.array([1, 1, 2, 2, None, 3] * 3),
        "zip": pa.array(["a", "b", "a", "a", "b", None] * 3),
        "ZIP": pa.array([1.0, 2.0, 3.0, 2.0, 1.0, 2.0] * 3),
        KEY: pa.array(range(18), pa.int64()),
    }
    texts = ("Zip -> zip", "zip -> Zip", "ordered(Zip, ZIP)", "not(t.Zip == s.ZIP and t.zip != s.zip)", "key(Zip, ZIP)")
    rules = [parse(text) for text in (*texts, "not(t.Zip == t.ZIP and t.zip == 'a')")]
    judge_check(spark, pa.table(columns), rules, Nulls.SQL, sizes)
    judge_lists(spark, pa.table(columns), rules[:2], Nulls.EQUAL, sizes)


def test_fractions_beside_32_bit_floats(spark: Any) -> None:
    singles = pa.array([0.1, 0.5, 1.2345678, 16777216.0, 16777218.0, 0.0, None], pa.float32())
    table = pa.table({"x": singles, "g": [1, 1, 2, 2, 3, 3, 3], KEY: pa.array(range(7), pa.int64())})
    constants = ("0.1", "0.1000000001", "decimal '0.1'", "1.2345678", "16777216.5", "16777217", "1e-300")
    rules = [parse(f"not(t.x {op} {value})") for value in constants for op in ("==", "<", ">=")]
    judge_check(spark, table, rules, Nulls.SQL, IN_ONE_TASK)
    pairs = [parse(f"not(t.g == s.g and t.x == {value} and s.x != {value})") for value in constants[:3]]
    judge_counts(spark, table, [*rules[:6], *pairs], Nulls.EQUAL, IN_TASKS)
