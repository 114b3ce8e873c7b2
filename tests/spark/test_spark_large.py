"""Tables with more rows than one task takes, at Spark's and naysay's default sizes, and colliding hashes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from spark_differential import IN_PARTS, IN_TASKS, KEY, draw, judge_check
from tables import to_spark

import naive
import naysay
from cases import Case, rows_of
from naysay.detect.request import CheckOptions
from naysay.detect.spark import aggregate as spark_aggregate
from naysay.detect.spark import causes as spark_causes
from naysay.detect.spark import check as spark_check
from naysay.detect.spark import key_groups as spark_blocks
from naysay.detect.spark import key_groups as spark_kernels
from naysay.detect.spark import sample as spark_sample
from naysay.detect.spark import verify as spark_verify
from naysay.detect.spark.engine import SparkEngine
from naysay.discovery.spark import engine as spark_discover
from naysay.rule.model import Column, Op, Predicate, Row, Rule
from naysay.spark import identity as spark_identity
from naysay.spark.expressions import HASH_OF_NOTHING, hash_of
from naysay.spark.versions import to_arrow
from soak.row import run_seeds

N_ROWS = 260_000
# For each of the column types below: how to convert a bigint to it.
TYPES = {
    "tinyint": "cast({} as tinyint)",
    "smallint": "cast({} as smallint)",
    "int": "cast({} as int)",
    "bigint": "cast({} as bigint)",
    "float": "cast({} as float)",
    "double": "cast({} as double)",
    "decimal": "cast({} as decimal(12,2))",
    "wide decimal": "cast({} as decimal(38,6))",
    "string": "cast({} as string)",
    "boolean": "{} % 2 = 0",
    "date": "date_from_unix_date(cast({} as int))",
    "timestamp": "timestamp_seconds({})",
    "timestamp_ntz": "cast(date_from_unix_date(cast({} as int)) as timestamp_ntz)",
}


@pytest.fixture(scope="module")
def ledger(spark: Any) -> DataFrame:
    """Values swapped with a null, in rows that no sample of the first rows finds."""
    late = spark.createDataFrame([(-1, 7, None)] * 3 + [(-1, None, 7)] * 2, "acct bigint, debit bigint, credit bigint")
    plain = spark.range(N_ROWS).selectExpr("id acct", "id + 10 debit", "-id - 10 credit")
    return plain.union(late)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    ("nulls", "expected"),
    [
        (
            "sql",
            {
                "not(t.acct == s.acct and t.debit == s.credit)": 6,
                "not(t.acct == s.acct and t.debit == s.credit and t.debit >= s.credit)": 6,
            },
        ),
        (
            "equal",
            {
                "key(debit, credit)": 8,
                "not(t.debit != 7 and t.credit == 7)": 2,
                "not(t.debit == 7 and t.credit != 7)": 3,
                "acct -> debit": 12,
            },
        ),
    ],
)
def test_verdicts_do_not_hang_on_a_sample(
    ledger: DataFrame, monkeypatch: pytest.MonkeyPatch, nulls: str, expected: dict[str, int]
) -> None:
    rules = list(expected)
    assert naysay.count(ledger, rules, nulls=nulls) == list(expected.values())
    for rule in rules:
        verdict = naysay.verify(ledger, rule, nulls=nulls)
        assert not verdict.holds
        assert verdict.witness is not None
    assert not any(result.holds for result in naysay.check(ledger, rules, nulls=nulls, quick=True))
    for module in (spark_check, spark_verify):
        monkeypatch.setattr(module, "samples", lambda *_: {})
    without = naysay.check(ledger, rules, nulls=nulls, quick=True)
    assert [(result.holds, len(result.sample)) for result in without] == [(False, 0)] * len(rules)
    for rule in rules:
        verdict = naysay.verify(ledger, rule, nulls=nulls)
        assert (verdict.holds, bool(verdict), verdict.witness) == (False, False, None)
        assert "is broken" in repr(verdict)


@pytest.mark.parametrize("key", [(), ("id",)])
def test_rows_that_differ_in_the_place_of_a_null_are_listed(spark: Any, key: tuple[str, ...]) -> None:
    rows = spark.createDataFrame([(1, 1, None), (1, None, 1), (1, 1, None)], "id int, a int, b int")
    assert naysay.count(rows, "not(t.a == s.b)") == 2
    assert len(naysay.violations(rows, "not(t.a == s.b)", key=key).collect()) == 2


def test_names_of_rows_tell_nulls_and_nested_values_apart(spark: Any) -> None:
    rows = spark.sql(
        "select * from values (1, null, array(1), array(2, 3)), (null, 1, array(1), array(2, 3)), "
        "(1, null, array(1, 2), array(3)), (1, null, array(1), array(2, null, 3)), (1, null, null, array(1, 2, 3)) "
        "as t(a, b, c, d)"
    )
    names = {row["left"] for row in naysay.violations(rows, "key(a)", nulls="equal").collect()}
    alone = naysay.violations(rows, "not(t.b == 1)").collect()[0]["left"]
    assert len(names) == 4
    assert not any("#" in name for name in (*names, alone))
    assert alone not in names


@pytest.mark.parametrize("type_", list(TYPES))
def test_rows_in_conflict_of_every_type(spark: Any, request: pytest.FixtureRequest, type_: str) -> None:
    """At the default sizes for two types, and at a tenth of them for the others."""
    n_rows, sizes = N_ROWS // 10, spark_kernels.Sizes(25_000, 200_000, first=1_000)
    if type_ in ("bigint", "string"):
        request.getfixturevalue("compiled")
        n_rows, sizes = N_ROWS, spark_kernels.Sizes()
    rule = f"not(t.g == s.h and t.f {'!=' if type_ == 'boolean' else '>'} s.f)"
    of = TYPES[type_].format
    columns = [of("(id * 7919) % 37") + " g", of("(id % 41) + 9") + " h", of("id % 3") + " f"]
    data = spark.range(n_rows).selectExpr(*columns)
    (found,) = SparkEngine(data, sizes).check([naysay.parse(rule)], CheckOptions(causes=False))
    (expected,) = naysay.check(to_arrow(data), rule, causes=False)
    assert found.violations == expected.violations > 0
    assert found.rows_in_conflict == expected.rows_in_conflict
    assert found.rows_to_remove.least <= expected.rows_to_remove.least
    assert expected.rows_to_remove.most <= found.rows_to_remove.most
    assert found.sample


@pytest.mark.parametrize("sizes", [IN_TASKS, IN_PARTS])
@pytest.mark.parametrize("seed", range(2))
def test_answers_do_not_depend_on_hashes(
    spark: Any, monkeypatch: pytest.MonkeyPatch, sizes: spark_kernels.Sizes, seed: int
) -> None:
    """All hashes collide: grouping, samples, giant groups and row identities that relied only on hashes would fail."""
    for module in (spark_aggregate, spark_blocks, spark_causes, spark_discover, spark_kernels, spark_sample):
        monkeypatch.setattr(module, "hash_of", lambda columns: F.lit(HASH_OF_NOTHING).cast("bigint"))
    for module in (spark_aggregate, spark_kernels):
        monkeypatch.setattr(module, "hash_text", lambda names: f"{HASH_OF_NOTHING}L")
    monkeypatch.setattr(spark_identity, "_content", lambda frame: F.lit("same"))
    table, rules, nulls = draw(9_000 + seed, 4)
    judge_check(spark, table, rules, nulls, sizes, causes=True)
    rows = rows_of(table)
    data, ids = to_spark(spark, table), table.column(KEY).to_pylist()
    for rule in [*rules[:2], *_crossed(table)]:
        listed = SparkEngine(data, sizes).violations(rule, CheckOptions(nulls)).count()
        assert listed == naive.count(rows, rule, nulls), Case(table, rule, nulls)
    for rule in _crossed(table):
        named = (
            SparkEngine(data, sizes).violations(rule, CheckOptions(nulls, key=(KEY,))).select("left", "right").collect()
        )
        expected = sorted(tuple(ids[row] for row in pair) for pair in naive.pairs(rows, rule, nulls))
        assert sorted(map(tuple, named)) == expected, Case(table, rule, nulls)


def _crossed(table: pa.Table) -> list[Rule]:
    """Every pair of columns of one type, as a key across columns."""
    fields = list(table.schema)
    pairs = [(a.name, b.name) for a in fields for b in fields if a.name != b.name and a.type == b.type]
    sides = [(Column(Row.LEFT, left), Column(Row.RIGHT, right)) for left, right in pairs[:2]]
    return [Rule((Predicate(left, Op.EQ, right),)) for left, right in sides]


@pytest.mark.usefixtures("spark", "compiled")
def test_a_small_dose_of_the_soak() -> None:
    """Few rows per combination; `scripts/soak spark-sizes` runs more, and many rows per combination."""
    assert run_seeds("soak.spark_sizes", range(10, 11)).shown == []


def test_the_hash_marks_nulls(spark: Any) -> None:
    rows = spark.createDataFrame([(7, None), (None, 7), (None, None), (7, 7)], "a int, b int")
    hashes = {row[0] for row in rows.select(hash_of([F.col("a"), F.col("b")])).collect()}
    assert len(hashes) == 4


def test_char_columns_compare_by_their_bytes(spark: Any, tmp_path: Path) -> None:
    name = "naysay_test_chars"
    columns = "id int, c5 char(5), c3 char(3), v varchar(5)"
    spark.sql(f"create table {name} ({columns}) using parquet location '{tmp_path / name}'")
    try:
        spark.sql(f"insert into {name} values (1, 'a', 'b', 'a'), (2, 'b', 'a', 'b'), (3, 'c', 'zz', 'c    ')")
        data = spark.table(name)
        table = to_arrow(data)
        rules = [
            "not(t.c5 == s.c3)",
            "not(t.c5 != s.c3)",
            "not(t.c5 < s.c3)",
            "not(t.c5 == 'a')",
            "not(t.c5 == 'a    ')",
            "not(t.c5 > 'a')",
            "not(t.c5 == s.v)",
            "not(t.c5 == t.v)",
            "not(t.c5 == s.c5)",
            "not(t.c5 == s.c3 and t.v < s.v)",
        ]
        expected = naysay.count(table, rules)
        assert naysay.count(data, rules) == expected
        # A few rules are counted in another way than many.
        assert naysay.count(data, rules[:5]) + naysay.count(data, rules[5:]) == expected
        assert [result.violations for result in naysay.check(data, rules)] == expected
        in_tasks = SparkEngine(data, IN_TASKS).check([naysay.parse(rule) for rule in rules], CheckOptions())
        assert [result.violations for result in in_tasks] == expected
    finally:
        spark.sql(f"drop table {name}")


def test_large_text_types_of_arrow(spark: Any) -> None:
    setting = "spark.sql.execution.arrow.useLargeVarTypes"
    table = pa.table({"id": [1, 2, 3, 4], "a": ["x", "y", "x", None], "b": ["y", "x", "z", "x"]})
    rule = "not(t.a == s.b)"
    data = to_spark(spark, table)
    spark.conf.set(setting, "true")
    try:
        assert naysay.count(data, rule) == naysay.count(table, rule)
        for sizes, key in ((spark_kernels.Sizes(), ("a",)), (spark_kernels.Sizes(rows_a_task=2), ())):
            report = SparkEngine(data, sizes).check([naysay.parse(rule)], CheckOptions(key=key))
            assert report[0].violations == naysay.count(table, rule)
            listed = SparkEngine(data, sizes).violations(naysay.parse(rule), CheckOptions(key=key)).toPandas()
            assert sorted(listed["left_a"]) == ["x", "x", "x", "x", "y"]
        good, bad = naysay.split(data, rule)
        assert (good.count(), bad.count()) == (0, 4)
        on_spark, in_process = ({str(rule) for rule in naysay.discover(each).best} for each in (data, table))
        assert on_spark == in_process
    finally:
        spark.conf.unset(setting)


@pytest.mark.parametrize("type_", ["date", "timestamp", "timestamp_ntz"])
def test_times_outside_of_pythons_years_in_strips(spark: Any, type_: str) -> None:
    of = {"date": "{}", "timestamp": "cast({} as timestamp)", "timestamp_ntz": "cast({} as timestamp_ntz)"}[type_]
    day = of.format("date_add(date'1970-01-01', cast({} as int))")
    data = spark.range(200).selectExpr(
        day.format("(id * 31 % 97 - 40) * 100000") + " a",
        day.format("(id * 17 % 89 - 40) * 100000") + " b",
        day.format("(id % 2 - 2) * 3000000") + " k",
        "id % 5 n",
    )
    table = to_arrow(data)
    rules = ["not(t.a < s.a and t.b > s.b)", "not(t.k == s.k and t.a < s.b and t.n > s.n)"]
    sizes = spark_kernels.Sizes(rows_a_task=100, giant=60, n_strips=3)
    report = SparkEngine(data, sizes).check([naysay.parse(rule) for rule in rules], CheckOptions())
    for found, expected in zip(report, naysay.check(table, rules), strict=True):
        assert found.violations == expected.violations > 0
        assert found.rows_in_conflict == expected.rows_in_conflict
