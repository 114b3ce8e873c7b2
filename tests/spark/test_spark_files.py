"""Files that Spark writes and reads, single and in partitioned folders, compared with the oracle and in-process."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tables import to_spark

import naive
import naysay
from cases import Case, rows_of
from naysay.detect.request import CheckOptions
from naysay.detect.spark.engine import SparkEngine
from naysay.io.files import read_table
from naysay.rule.model import Nulls, Rule
from naysay.spark import read as spark_read
from naysay.spark.versions import to_arrow
from samples import PLAIN_FAMILIES
from strategies import random_rule, random_table

_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
ID = "its id"


def draw(seed: int, n_rules: int) -> tuple[pa.Table, list[Rule], Nulls, str]:
    """A table with an id and a partition column, rules about all columns, and what null means."""
    rng = random.Random(seed)
    table = random_table(rng, 30, PLAIN_FAMILIES)
    while table.num_rows < 4:
        table = random_table(rng, 30, PLAIN_FAMILIES)
    # One file per combination of values: few of them, one of them null.
    folders = pa.array([rng.choice((-3, 20, 100, None)) for _ in range(table.num_rows)], pa.int32())
    table = table.append_column("folder", folders)
    rules = [random_rule(rng, table) for _ in range(n_rules)]
    ids = pa.array(range(100, 100 + table.num_rows), pa.int64())
    return table.append_column(ID, ids), rules, rng.choice(list(Nulls)), "folder"


def judge(data: Any, table: pa.Table, rules: list[Rule], nulls: Nulls) -> None:
    """All operations on what Spark read, compared with the oracle on what was written."""
    rows, ids = rows_of(table), table.column(ID).to_pylist()
    expected = [naive.violations(rows, rule, nulls) for rule in rules]
    assert SparkEngine(data).count(rules, CheckOptions(nulls)) == [len(each) for each in expected]
    report = SparkEngine(data).check(rules, CheckOptions(nulls, key=(ID,)))
    for rule, result, violations in zip(rules, report, expected, strict=True):
        in_conflict = {row for violation in violations for row in violation}
        found = (result.holds, result.violations, result.rows_in_conflict)
        assert found == (not violations, len(violations), len(in_conflict)), Case(table, rule, nulls)
    listed = SparkEngine(data).violations(rules[0], CheckOptions(nulls, key=(ID,))).select("left", "right").collect()
    named = sorted(tuple(ids[row] for row in violation) for violation in expected[0])
    assert sorted(tuple(value for value in pair if value is not None) for pair in listed) == named
    _, bad = SparkEngine(data).split(rules[:2], CheckOptions(nulls))
    in_conflict = {ids[row] for violations in expected[:2] for violation in violations for row in violation}
    assert {row[0] for row in bad.select(f"`{ID}`").collect()} == in_conflict


def _as_written(spark: Any, table: pa.Table, folder: Path, format: str) -> pa.Table:
    """What the files contain: ORC shifts fractions of a second before 1970 by one second."""
    if format != "orc":
        return table
    written = spark.read.orc(str(folder / "data")).select(*(f"`{name}`" for name in table.column_names))
    return to_arrow(written.orderBy(f"`{ID}`"))


@pytest.mark.parametrize("format", ["orc", "parquet"])
@pytest.mark.parametrize("seed", [9_000, 9_001])
def test_partitioned_folders(spark: Any, tmp_path: Path, format: str, seed: int) -> None:
    table, rules, nulls, folder = draw(seed, 12)
    before = spark.conf.get(_BATCH)
    spark.conf.set(_BATCH, "3")
    try:
        to_spark(spark, table).write.format(format).partitionBy(folder).save(str(tmp_path / "data"))
        judge(spark_read.read(spark, str(tmp_path / "data")), _as_written(spark, table, tmp_path, format), rules, nulls)
    finally:
        spark.conf.set(_BATCH, before)


@pytest.mark.parametrize("format", ["orc", "parquet"])
def test_a_folder_that_both_engines_read(spark: Any, tmp_path: Path, format: str) -> None:
    table, rules, nulls, _ = draw(9_100, 12)
    path = str(tmp_path / "data")
    to_spark(spark, table).write.format(format).save(path)
    table = _as_written(spark, table, tmp_path, format)
    judge(spark_read.read(spark, path), table, rules, nulls)
    rows = rows_of(table)
    wanted = [naive.count(rows, rule, nulls) for rule in rules]
    assert naysay.count(read_table(path), rules, nulls=nulls) == wanted
