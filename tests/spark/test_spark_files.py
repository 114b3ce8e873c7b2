"""Files that Spark reads: ORC, Parquet and CSV, whole and in partitioned folders, against the oracle and in-process."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet
import pytest

import naive
from cases import Case, rows_of
from naysay.engines import local, spark, spark_read
from naysay.engines.local_files import read_table
from naysay.rule.model import Nulls, Rule
from naysay.table import from_frame
from samples import PLAIN_FAMILIES
from strategies import random_rule, random_table

_WRITERS = {"orc": pyarrow.orc.write_table, "parquet": pyarrow.parquet.write_table}


def judge(data: Any, table: pa.Table, rules: list[Rule], nulls: Nulls) -> None:
    """A check and counts on Spark, and a check in-process, against the oracle."""
    rows = rows_of(table)
    report = spark.check(data, rules, nulls=nulls)
    assert report.n_rows == len(rows)
    within = local.check(from_frame(table), rules, local.Options(nulls=nulls, n_threads=1))
    for rule, result, here in zip(rules, report, within, strict=True):
        expected = naive.violations(rows, rule, nulls)
        n_rows = len({row for violation in expected for row in violation})
        case = Case(table, rule, nulls)
        assert (here.violations, here.rows_in_conflict) == (len(expected), n_rows), case
        assert (result.violations, result.rows_in_conflict) == (len(expected), n_rows), case
    assert spark.count(data, rules, nulls=nulls) == [len(naive.violations(rows, rule, nulls)) for rule in rules]


@pytest.mark.parametrize("format", ["orc", "parquet"])
@pytest.mark.parametrize("seed", range(4))
def test_a_folder_of_two_files(spark: Any, tmp_path: Path, format: str, seed: int) -> None:
    rng = random.Random(9_000 + seed)
    table = random_table(rng, 40, PLAIN_FAMILIES)
    rules = [random_rule(rng, table) for _ in range(30)]
    half = table.num_rows // 2
    for number, part in enumerate((table[:half], table[half:])):
        _WRITERS[format](part, str(tmp_path / f"part-{number}.{format}"))
    read = read_table(str(tmp_path))
    assert rows_of(read) == pytest.approx(rows_of(table), nan_ok=True) or repr(rows_of(read)) == repr(rows_of(table))
    judge(spark_read.read(spark, str(tmp_path)), read, rules, rng.choice(list(Nulls)))
