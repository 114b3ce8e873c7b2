"""The same on both engines: what violations offer, and what reports of many tasks say about rows."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from spark_differential import IN_PARTS, IN_TASKS, KEY, judge_joint, judge_suspects
from tables import to_spark

import naive
import naysay
from cases import rows_of
from naysay import Report
from naysay.detect.request import CheckOptions
from naysay.detect.result import Listing, Removal
from naysay.detect.spark import check, conflicts
from naysay.detect.spark.engine import SparkEngine
from naysay.detect.spark.key_groups import Sizes
from naysay.detect.spark.worker import ALL_RULES, PLACE, PLACE_BITS, merge_tallies, read_summary, tally_partition
from naysay.rule import Nulls

SHAPES = (
    "not(t.b > 2)",
    "not(t.a == t.c)",
    "key(a, b)",
    "a -> b",
    "not(t.a == s.a and t.b < s.b)",
    "not(t.a == s.a and t.b <= s.b)",
    "not(t.a == s.a and t.b > s.b and t.c < s.c)",
    "not(t.a == s.c and t.b != s.b)",
    "not(t.a == s.a and t.b != s.b and t.c != s.c)",
    "not(t.a < s.a and t.b < s.b and t.c < s.c)",
    "not(t.a == s.a and t.b < s.b and t.c != s.c)",
    "not(t.a == 1 and s.b == 2)",
    "'=named': a -> c",
)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = random.Random(3)
    columns = {name: [rng.choice([*range(5), None]) for _ in range(24)] for name in "abc"}
    moments = pa.array([1_700_000_000_000_000 + 7 * place for place in range(24)], pa.timestamp("us", "UTC"))
    return pa.table({**columns, "id": [f"row {place:02d}" for place in range(24)], "at": moments})


def types(table: pa.Table) -> list[tuple[str, pa.DataType]]:
    """Names and types; Spark also notes which columns cannot be null."""
    return [(field.name, _type(field.type)) for field in table.schema]


def _type(type_: pa.DataType) -> pa.DataType:
    return pa.struct([(field.name, field.type) for field in type_]) if pa.types.is_struct(type_) else type_


@pytest.mark.parametrize("key", [("id",), ("id", "at")])
def test_both_engines_list_the_same_columns_and_values(spark: Any, table: pa.Table, key: tuple[str, ...]) -> None:
    data = to_spark(spark, table)
    n_broken = 0
    for rule in SHAPES if len(key) == 1 else SHAPES[::4]:
        here = naysay.violations(table, rule, key=key, limit=None)
        there = naysay.violations(data, rule, key=key, limit=None)
        n_broken += here.total > 0
        assert types(there.table) == types(here.table), rule
        assert sorted(map(repr, there)) == sorted(map(repr, here)), rule
        assert (len(there), there.total, there.complete) == (len(here), here.total, here.complete)
        assert list(there.to_pandas().dtypes) == list(here.to_pandas().dtypes)
        assert there.to_arrow().equals(there.table)
        assert pa.table(there).equals(there.table)
    assert n_broken > 3


@pytest.mark.parametrize("rule", [SHAPES[0], "a -> b"])
@pytest.mark.parametrize("limit", [0, 3, 1000])
def test_a_limit_cuts_both_short_and_says_so(spark: Any, table: pa.Table, rule: str, limit: int) -> None:
    here = naysay.violations(table, rule, key="id", limit=limit)
    there = naysay.violations(to_spark(spark, table), rule, key="id", limit=limit)
    assert (len(there), there.total, there.complete) == (len(here), here.total, here.complete)
    assert len(list(there)) == len(there) == there.table.num_rows
    assert there.head(2).num_rows == here.head(2).num_rows == min(2, limit)
    assert types(there.table) == types(here.table)


def test_on_spark_they_are_a_data_frame_too(spark: Any, table: pa.Table) -> None:
    found = naysay.violations(to_spark(spark, table), "a -> b", key="id", limit=2)
    assert isinstance(found.data, DataFrame)
    assert found.select("left").count() == 2
    assert found.columns == ["rule", "left", "right", "left_a", "left_b", "right_a", "right_b"]
    assert repr(found) == "<Violations of a -> b: a Spark DataFrame of the first 2>"
    assert str(found).startswith(f"a -> b: {found.total:,} violations, the first 2\n")
    assert f"{found.total:,} violations, the first 2" in found._repr_html_()
    assert not hasattr(found, "no_such_thing")


def test_a_clean_table_has_empty_violations_on_both(spark: Any, table: pa.Table) -> None:
    data = to_spark(spark, table)
    for rule in ("key(id)", "not(t.b > 100)"):
        here, there = naysay.violations(table, rule), naysay.violations(data, rule, key="id")
        assert (
            (len(there), there.total, there.complete, list(there))
            == (0, 0, True, [])
            == ((len(here), here.total, here.complete, list(here)))
        )


def facts(report: Report) -> list[Any]:
    """What a report says, except for times and methods."""
    results = [(result.violations, result.rows_in_conflict, result.where, result.passes) for result in report]
    return [report.n_rows, report.rows_in_conflict, report.busiest, *results]


@pytest.mark.usefixtures("compiled")
def test_a_report_beyond_one_task_says_what_it_says_in_process(spark: Any) -> None:
    """At the default sizes: a column with errors for each shape, some of them far apart."""
    data = spark.range(260_000).selectExpr(
        "id",
        "id % 50000 as a",
        "if(id in (77, 200077), -1, id % 50000) as b",
        "id % 997 as c",
        "id % 997 + if(id % 86000 = 5, 400, 0) as d",
        "if(id > 259000, id % 500, null) as e",
    )
    rules = [
        "a -> b",
        "not(t.b < 0)",
        "not(t.a == s.a and t.c <= s.c and t.d > s.d)",
        "not(t.e == s.c and t.d != s.d and t.b != s.b)",
    ]
    report = naysay.check(data, rules, key="id")
    assert facts(report) == facts(naysay.check(data.toArrow(), rules, key="id"))
    assert len(report.busiest) == 20
    assert all(len(result.where) == 60 for result in report)


ALONE = Sizes(rows_a_task=6)
# Rules that share one key and need kernels: everything is found in the pass that counts.
AT_ONCE = (
    ("not(t.a == s.a and t.b > s.b and t.c < s.c)",),
    ("not(t.a == s.a and t.b <= s.b and t.c <= s.c)", "not(t.a == s.a and t.b != s.b and t.c != s.c)"),
    ("not(t.a == s.a and t.b < s.b and t.c != s.c and t.b > 1)",),
    ("not(t.a == s.a and t.f > s.f and t.c < s.c)",),
    ("not(t.a < s.a and t.b < s.b and t.c < s.c)",),
    ("not(t.a == s.a and t.b == s.b and t.id < s.id and t.id > s.id)",),
)


def drawn(seed: int, n_rows: int) -> pa.Table:
    rng = random.Random(seed)
    columns = {name: [rng.choice([*range(5), None]) for _ in range(n_rows)] for name in "abc"}
    floats = [rng.choice([0.0, -0.0, 1.5, float("nan"), None]) for _ in range(n_rows)]
    rows = pa.table({**columns, "f": pa.array(floats, pa.float64(), from_pandas=False)})
    return pa.concat_tables([rows, rows.slice(0, n_rows // 4)])


@pytest.mark.parametrize("rules", AT_ONCE)
@pytest.mark.parametrize("nulls", list(Nulls))
def test_one_pass_finds_what_two_do(
    spark: Any, monkeypatch: pytest.MonkeyPatch, rules: tuple[str, ...], nulls: Nulls
) -> None:
    table = drawn(len(rules[0]), 40)
    table = table.append_column("id", pa.array(range(table.num_rows), pa.int64()))
    parsed = [naysay.parse(rule) for rule in rules]
    for options in (CheckOptions(nulls, ("id",)), CheckOptions(nulls, ("id",), sample=0)):
        with monkeypatch.context() as patch:
            patch.setattr(check, "tally_rows", None)
            report = SparkEngine(to_spark(spark, table), ALONE).check(parsed, options)
        here = naysay.check(table, parsed, key="id", nulls=nulls.value, sample=options.sample)
        assert facts(report) == facts(here)
        for one, other in zip(report, here, strict=True):
            assert one.rows_to_remove is not None
            assert other.rows_to_remove is not None
            # Which rows a task sees first may change an interval, but not where the answer lies.
            assert one.rows_to_remove.is_exact == other.rows_to_remove.is_exact
            assert one.rows_to_remove.least == other.rows_to_remove.least
            assert one.rows_to_remove == other.rows_to_remove or not one.rows_to_remove.is_exact
        for rule, result in zip(parsed, report, strict=True):
            pairs = {(pair.left["id"], pair.right["id"]) for pair in result.sample if pair.right is not None}
            assert len(pairs) == min(options.sample, result.violations)
            assert pairs <= set(naive.violations(rows_of(table), rule, nulls))


@pytest.mark.parametrize("rule", [AT_ONCE[0][0], AT_ONCE[3][0]])
def test_rows_that_do_not_stay_where_they_were_read(spark: Any, monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    """Every job reads them in another order, so those to show are found by their values."""
    tallied = []

    def tally_rows(*given: Any) -> Any:
        tallied.append(given)
        return conflicts.tally_rows(*given)

    monkeypatch.setattr(check, "tally_rows", tally_rows)
    table = drawn(5, 40)
    anywhere = F.udf(lambda: int.from_bytes(os.urandom(7), "big"), "long").asNondeterministic()
    moving, still = (
        SparkEngine(data, ALONE).check([naysay.parse(rule)], CheckOptions())
        for data in (to_spark(spark, table).orderBy(anywhere()), to_spark(spark, table))
    )
    assert len(tallied) == 1
    assert (moving[0].violations, moving.rows_in_conflict) == (still[0].violations, still.rows_in_conflict)
    assert [row.conflicts for row in moving.busiest] == [row.conflicts for row in still.busiest]


@pytest.mark.parametrize("sizes", [IN_TASKS, IN_PARTS])
def test_copies_of_a_row_are_named_as_in_one_task(spark: Any, table: pa.Table, sizes: Sizes) -> None:
    data = to_spark(spark, pa.concat_tables([table, table.slice(3, 9), table]).select(["a", "b", "c"]))
    rules = [naysay.parse(rule) for rule in SHAPES[1 :: 1 if sizes == IN_TASKS else 5]]
    options = CheckOptions(sample=0)
    whole, parts = (SparkEngine(data, size).check(rules, options) for size in (Sizes(), sizes))
    assert parts.rows_in_conflict == whole.rows_in_conflict
    assert parts.busiest == whole.busiest
    assert any("#" in row.identity["row"] for row in parts.busiest)
    assert [result.where for result in parts] == [result.where for result in whole]
    alone = [rule for rule in rules if str(rule) == SHAPES[6]]
    whole, parts = (SparkEngine(data, size).check(alone or rules[-1:], options) for size in (Sizes(), sizes))
    assert parts.busiest == whole.busiest


@pytest.mark.parametrize("few", [0, 10**9])
def test_values_sent_to_all_tasks_or_met_by_rows_are_the_same(
    spark: Any, table: pa.Table, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(conflicts, "FEW_VALUES", few)
    rules = [naysay.parse(rule) for rule in SHAPES]
    options = CheckOptions(key=("id",), nulls=Nulls.EQUAL)
    report = SparkEngine(to_spark(spark, table), IN_TASKS).check(rules, options)
    here = naysay.check(table, rules, key="id", nulls="equal")
    assert (report.rows_in_conflict, report.busiest) == (here.rows_in_conflict, here.busiest)
    assert [result.where for result in report] == [result.where for result in here]


def test_a_quick_check_counts_rows_only_for_tolerances(spark: Any, table: pa.Table) -> None:
    rules = [naysay.parse("a -> b"), replace(naysay.parse("a -> c"), max_violations=1000)]
    report = SparkEngine(to_spark(spark, table), IN_TASKS).check(rules, CheckOptions(key=("id",), quick=True))
    here = naysay.check(table, rules, key="id", quick=True)
    assert facts(report) == facts(here)
    assert (report.rows_in_conflict, report[0].where, bool(report[1].where)) == (None, (), True)


def test_rows_read_otherwise_than_measured_lie_nowhere() -> None:
    """The result of a join may have other partitions in another job."""
    rows = pa.table({"i0": ["x", "y"], PLACE: [0, (1 << PLACE_BITS) + 2], "n0": [3, 4]})

    def where(sizes: tuple[int, ...]) -> tuple[int, ...]:
        batches = rows.to_batches()
        (batch,) = merge_tallies(tally_partition(batches, numbers=(0,), names=("i0",), sizes=sizes))
        found = {record["rule"]: read_summary(record) for record in batch.to_pylist()}
        assert (found[0].rows_in_conflict, found[ALL_RULES].rows_in_conflict) == (2, 2)
        (busiest,) = found[ALL_RULES].sample
        assert busiest.column("i0").to_pylist() == ["y", "x"]
        return found[0].where

    assert where((2, 3)) == (1, 0, 0, 0, 1)
    assert where((2, 2)) == ()
    assert where((5,)) == ()


@pytest.mark.parametrize(("sizes", "n_known"), [(Sizes(), 13), (IN_TASKS, 12)])
def test_every_shape_has_suspects(spark: Any, table: pa.Table, sizes: Sizes, n_known: int) -> None:
    """Beyond one task, those of rules whose rows go to several tasks are not known."""
    named = table.append_column(KEY, pa.array(range(100, 124), pa.int64()))
    rules = [naysay.parse(rule) for rule in SHAPES]
    assert judge_suspects(spark, named, rules, Nulls.SQL, sizes) == n_known


@pytest.mark.parametrize("sizes", [Sizes(), IN_TASKS])
def test_groups_and_suspects_have_the_columns_of_those_in_process(spark: Any, table: pa.Table, sizes: Sizes) -> None:
    rules = [naysay.parse(rule) for rule in SHAPES]
    report = SparkEngine(to_spark(spark, table), sizes).check(rules, CheckOptions(key=("id", "at"), sample=100))
    for result, here in zip(report, naysay.check(table, rules, key=("id", "at"), sample=100), strict=True):
        assert (result.groups is None) == (here.groups is None)
        if result.groups is not None and here.groups is not None:
            assert result.groups.table.schema.names == here.groups.table.schema.names
            assert _groups(result.groups) == _groups(here.groups)
            assert (len(result.groups), result.groups.total) == (len(here.groups), here.groups.total)
        if result.suspects is not None and here.suspects is not None:
            assert types(result.suspects.head(0)) == types(here.suspects.table)
        if sizes == Sizes():
            assert result.first_suspects == here.first_suspects
            assert result.first_groups == here.first_groups


def _groups(listing: Listing) -> list[Any]:
    """The groups in an order that does not hang on ties."""
    found = [
        (row["a"], row["rows"], sorted((each["rows"], each["value"]) for each in row["values"])) for row in listing
    ]
    shares = [max(values)[0] / n_rows for _, n_rows, values in found]
    assert shares == sorted(shares, reverse=True)
    return sorted(found)


@pytest.mark.parametrize(
    ("sizes", "is_known"), [(Sizes(), True), (Sizes(rows_a_task=30), True), (Sizes(rows_a_task=9), False)]
)
def test_rows_to_remove_for_all_rules_are_known_if_those_in_conflict_fit_in_a_task(
    spark: Any, sizes: Sizes, is_known: bool
) -> None:
    rng = random.Random(8)
    zips = [place // 4 for place in range(60)]
    columns = {"zip": zips, "city": [f"c{zip}" for zip in zips], "age": [rng.randrange(90) for _ in zips]}
    columns["city"][7:30:8] = ["Ulm", "Bonn", "Kiel"]
    columns["age"][7] = columns["age"][8] = -1
    table = pa.table({**columns, KEY: [f"row {place:02d}" for place in range(60)]})
    rules = [
        "zip -> city",
        "not(t.age < 0)",
        "not(t.zip == s.zip and t.city > s.city and t.age < s.age)",
        f"key({KEY!r})",
    ]
    removal = judge_joint(spark, table, [naysay.parse(rule) for rule in rules], Nulls.SQL, sizes)
    assert removal == (Removal(4, 4) if is_known else Removal(3, 7))


def test_copies_among_rows_to_remove_for_all_rules_are_numbered(spark: Any) -> None:
    data = spark.createDataFrame([(1, "x")] * 3 + [(1, "y")] * 2 + [(2, "z")] * 4, "a int, b string")
    for sizes in (Sizes(), Sizes(rows_a_task=8)):
        rules = [naysay.parse(rule) for rule in ("a -> b", "not(t.a == 1 and t.b == 'y')")]
        report = SparkEngine(data, sizes).check(rules, CheckOptions(joint=True))
        assert report.rows_to_remove == Removal(2, 2)
        rows = report.suspects.table.to_pylist()
        assert [(row["a"], row["b"]) for row in rows] == [(1, "y")] * 2
        assert sorted(row["row"][32:] for row in rows) == ["", "#2"]
        assert repr(report.suspects) == "<Suspects of all rules: a Spark DataFrame>"


def test_copies_among_suspects_are_numbered(spark: Any) -> None:
    data = spark.createDataFrame([(1, "x")] * 3 + [(1, "y")] * 2 + [(2, "z")], "a int, b string")
    for sizes in (Sizes(), Sizes(rows_a_task=2)):
        (result,) = SparkEngine(data, sizes).check([naysay.parse("a -> b")], CheckOptions())
        rows = result.suspects.table.to_pylist()
        assert [(row["a"], row["b"]) for row in rows] == [(1, "y")] * 2
        assert sorted(row["row"][32:] for row in rows) == ["", "#2"]
