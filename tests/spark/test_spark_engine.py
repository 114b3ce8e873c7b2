"""What the oracle does not cover: names, row identities, refusals, exact sums, the same reports as in-process."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tables import to_spark

import naysay
from naysay.detect.request import CheckOptions
from naysay.detect.spark.aggregate import from_limbs, product_limbs
from naysay.detect.spark.engine import SparkEngine, require_64_bits
from naysay.detect.spark.key_groups import Sizes
from naysay.detect.spark.strips import StripCells, Strips, cut
from naysay.detect.spark.worker import WEIGHT, read
from naysay.errors import CountOverflow, RuleError, TableError, UsageError
from naysay.rule import Rule, parse
from naysay.rule.model import Column, Op, Predicate, Row
from naysay.spark.frame import from_arrow
from naysay.spark.identity import with_file_rows
from naysay.spark.session import errors_of_tasks
from naysay.spark.versions import VERSION

PARTS = Sizes(rows_a_task=4, giant=3, n_strips=2)
ODD_NAMES = ("a.b", "`tick`", 'q"uote', "line\nbreak", "\U0001f600", "c0", "side", "task", "left", "")


def pair_rule(key: str, value: str) -> Rule:
    left, right = Row.LEFT, Row.RIGHT
    return Rule(
        (
            Predicate(Column(left, key), Op.EQ, Column(right, key)),
            Predicate(Column(left, value), Op.LT, Column(right, value)),
            Predicate(Column(left, "n"), Op.GT, Column(right, "n")),
        )
    )


@pytest.mark.parametrize("sizes", [Sizes(), PARTS])
def test_names_never_meet_a_parser(spark: Any, sizes: Sizes) -> None:
    columns: dict[str, list[int]] = {name: [1, 1, 2, 2, 1] for name in ODD_NAMES}
    table = pa.table({**columns, "n": [5, 3, 4, 1, 4]})
    data = to_spark(spark, table)
    for key, value in zip(ODD_NAMES, ODD_NAMES[1:] + ODD_NAMES[:1], strict=True):
        rule = pair_rule(key, "n") if value == "n" else Rule(pair_rule(key, value).predicates[::2])
        expected = naysay.count(table, rule)
        assert SparkEngine(data, sizes).count([rule], CheckOptions()) == [expected] != [0]
    found = SparkEngine(data, sizes).violations(Rule(pair_rule("a.b", "n").predicates[:2]), CheckOptions())
    assert found.columns == ["rule", "left", "right", "left_a.b", "left_n", "right_a.b", "right_n"]
    good, bad = SparkEngine(data, sizes).split([parse("key(n)")], CheckOptions())
    assert tuple(bad.columns) == tuple(good.columns) == (*ODD_NAMES, "n")
    assert sorted(row[-1] for row in bad.collect()) == [4, 4]


def test_repeated_names(spark: Any) -> None:
    data = spark.createDataFrame([(1, 2, 3), (1, 5, 6)], "a int, b int, x int").toDF("a", "b", "b")
    assert SparkEngine(data).count([parse("key(a)")], CheckOptions()) == [2]
    with pytest.raises(TableError, match="2 columns named 'b'"):
        SparkEngine(data).count([parse("a -> b")], CheckOptions())


def test_rows_are_known_by_their_values_in_every_run(spark: Any) -> None:
    rng = random.Random(1)
    rows = [(rng.randrange(3), rng.choice("xyz"), {"m": rng.randrange(2)}) for _ in range(30)]
    data = spark.createDataFrame(rows, "a int, b string, m map<string, int>")
    rule = parse("a -> b")
    lists = []
    orders = (data.repartition(1), data.repartition(5), data.orderBy(F.rand(3)))
    for again, sizes in zip(orders, (Sizes(), Sizes(rows_a_task=7), Sizes(rows_a_task=7, giant=9)), strict=True):
        found = SparkEngine(again, sizes).violations(rule, CheckOptions(), limit=400)
        lists.append([(row["left"], row["right"]) for row in found.collect()])
    assert all(pairs == lists[0] for pairs in lists)
    assert any("#2" in left for left, _ in lists[0])
    report = SparkEngine(data).check([rule], CheckOptions(sample=4))
    assert {len(pair.left["row"].split("#")[0]) for pair in report[0].sample} == {32}
    assert "hash" in report.identity


def test_rows_are_known_by_their_place_in_a_file(spark: Any, tmp_path: Path) -> None:
    to_spark(spark, pa.table({"a": [1, 2, 1], "b": ["x", "y", "z"]})).coalesce(1).write.parquet(str(tmp_path / "t"))
    data = with_file_rows(spark.read.parquet(str(tmp_path / "t")))
    report = SparkEngine(data).check([parse("a -> b")], CheckOptions())
    assert report.columns == ("a", "b")
    assert [(pair.left["row"], pair.right["row"]) for pair in report[0].sample if pair.right] == [(0, 2)]
    assert report[0].sample[0].left["file"].endswith(".parquet")
    found = SparkEngine(data).violations(parse("a -> b"), CheckOptions(), limit=1).collect()[0]
    assert (found["left"]["row"], found["right"]["row"], found["left_b"]) == (0, 2, "x")
    good, _ = SparkEngine(data).split([parse("a -> b")], CheckOptions())
    assert good.columns == ["a", "b"]


def test_refusals(spark: Any) -> None:
    times = "timestamp'2024-01-01' z, timestamp_ntz'2024-01-01' w"
    data = spark.sql(f"select 1 a, array(1) v, map('k', 1) m, 't' x, {times}")
    for text, error, words in (
        ("key(aa)", RuleError, "Did you mean 'a'"),
        ("key(v)", TableError, "column 'v' has type array<int>, which rules cannot compare"),
        ("not(t.z < s.w)", RuleError, "One has a time zone and the other does not"),
        ("not(t.a < s.x)", RuleError, "column 'a' .* cannot be compared with column 'x'"),
    ):
        with pytest.raises(error, match=words):
            SparkEngine(data).count([parse(text)], CheckOptions())
    with pytest.raises(UsageError, match="'id' is not in the table"):
        SparkEngine(data).check([parse("key(a)")], CheckOptions(key=("id",)))
    with pytest.raises(UsageError, match="which Spark cannot sort by"):
        SparkEngine(data).check([parse("key(a)")], CheckOptions(key=("m",)))
    with pytest.raises(UsageError, match="stream"):
        SparkEngine(spark.readStream.format("rate").load()).count([parse("key(value)")], CheckOptions())


@pytest.mark.skipif(VERSION < (4, 0), reason="Spark has collations since 4.0")
def test_a_collation_is_refused(spark: Any) -> None:
    data = spark.range(2).select(F.collate(F.lit("x"), "UNICODE_CI").alias("x"))
    with pytest.raises(TableError, match="column 'x' has the collation UNICODE_CI"):
        SparkEngine(data).count([parse("key(x)")], CheckOptions())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (CheckOptions(strategy="facet"), "strategy applies to frames in memory; on Spark each shape of rule"),
        (CheckOptions(threads=2), "threads applies to frames in memory; on Spark set the executors' cores"),
        (CheckOptions(memory=1 << 30), "memory applies to frames in memory; on Spark set spark.executor.memory"),
        (CheckOptions(max_seconds=60.0), "max_seconds applies to frames in memory"),
    ],
)
def test_options_that_spark_cannot_obey_are_refused_by_name(spark: Any, options: CheckOptions, words: str) -> None:
    engine, rule = SparkEngine(spark.range(3)), parse("key(id)")
    for ask in (
        lambda: engine.check([rule], options),
        lambda: engine.verify(rule, options),
        lambda: engine.count([rule], options),
        lambda: engine.violations(rule, options),
        lambda: engine.split([rule], options),
    ):
        with pytest.raises(UsageError, match=words):
            ask()
    with pytest.raises(UsageError, match="clusters applies to frames in memory"):
        engine.clusters(rule, CheckOptions())


def test_columns_of_nulls_alone(spark: Any) -> None:
    data = spark.sql("select id, null as v, cast(id % 2 as string) as k from range(6)")
    rules = [parse("key(v)"), parse("k -> v"), parse("not(t.v < s.id and t.k == s.k)")]
    for sizes in (Sizes(), PARTS):
        assert SparkEngine(data, sizes).count(rules, CheckOptions()) == [0, 0, 0]
        assert SparkEngine(data, sizes).count(rules[:1], CheckOptions(naysay.rule.Nulls.EQUAL)) == [30]
        assert SparkEngine(data, sizes).check(rules[:1], CheckOptions(naysay.rule.Nulls.EQUAL))[0].rows_in_conflict == 6


@pytest.mark.parametrize("n_rows", [0, 1])
def test_tables_of_next_to_nothing(spark: Any, n_rows: int) -> None:
    data = spark.range(n_rows).selectExpr("id a", "id b", "id c")
    rules = [parse(text) for text in ("key(a)", "a -> b", "not(t.a < s.a and t.b > s.b)", "not(t.a == 0)")]
    for sizes in (Sizes(), Sizes(rows_a_task=-1), Sizes(rows_a_task=0, giant=0)):
        sizes = sizes if sizes.rows_a_task > 0 else Sizes(rows_a_task=1, giant=sizes.giant)
        assert SparkEngine(data, sizes).count(rules, CheckOptions()) == [0, 0, 0, n_rows]
    report = SparkEngine(data).check(rules, CheckOptions())
    assert [result.rows_in_conflict for result in report] == [0, 0, 0, n_rows]
    assert SparkEngine(data).violations(rules[2], CheckOptions()).count() == 0
    good, bad = SparkEngine(data).split(rules, CheckOptions())
    assert (good.count(), bad.count()) == (0, n_rows)


def test_quick_checks_and_verdicts(spark: Any) -> None:
    data = spark.range(50).selectExpr("id", "id % 7 as a", "id % 5 as b", "id as c")
    for sizes in (Sizes(), Sizes(rows_a_task=10)):
        report = SparkEngine(data, sizes).check(
            [parse("a -> b"), parse("key(c)")], CheckOptions(key=("id",), quick=True)
        )
        broken, held = report
        assert (broken.holds, broken.violations, broken.rows_in_conflict, len(broken.sample)) == (False, None, None, 1)
        assert (held.holds, held.violations, held.sample) == (True, 0, ())
        verdict = SparkEngine(data, sizes).verify(parse("a -> b"), CheckOptions(key=("id",)))
        assert not verdict
        assert verdict.witness is not None
        assert verdict.witness.left["id"] % 7 == verdict.witness.right["id"] % 7
        assert SparkEngine(data, sizes).verify(parse("key(c)"), CheckOptions())


def test_a_quick_check_heeds_tolerances(spark: Any) -> None:
    data = spark.range(50).selectExpr("id", "id % 7 as a", "id % 5 as b")
    rule = parse("a -> b")
    n_violations = SparkEngine(data).check([rule], CheckOptions(key=("id",)))[0].violations
    assert n_violations is not None
    rules = [replace(rule, max_violations=n_violations), replace(rule, max_violations=n_violations - 1), rule]
    for sizes in (Sizes(), Sizes(rows_a_task=10)):
        report = SparkEngine(data, sizes).check(rules, CheckOptions(key=("id",), quick=True))
        assert [result.passes for result in report] == [True, False, False]


def test_sums_beyond_64_bits(spark: Any) -> None:
    sizes = [1, 2, 2**31 - 1, 2**31, 3_037_000_500, 2**40 + 12345]
    pairs = [(left, right) for left in sizes for right in sizes]
    rows = spark.createDataFrame(pairs, "a bigint, b bigint")
    sums = rows.agg(*(F.expr(f"sum({limb})") for limb in product_limbs("a", "b"))).collect()[0]
    assert from_limbs(list(sums)) == sum(left * right for left, right in pairs) > 2**63
    with pytest.raises(CountOverflow, match="rule 'big' has 9,223,372,036,854,775,808 violations"):
        require_64_bits(2**63, Rule(parse("key(a)").predicates, name="big"))


def test_errors_of_tasks_keep_their_words(spark: Any) -> None:
    def fail(batches: Any) -> Any:
        from naysay.errors import CountOverflow

        list(batches)
        raise CountOverflow("more than a 64-bit number holds")

    with pytest.raises(CountOverflow, match=r"^more than a 64-bit number holds$"), errors_of_tasks():
        spark.range(1).mapInArrow(fail, "id long").collect()


def test_strips_of_heavy_values() -> None:
    cuts = cut([1] * 50 + [2] * 3 + [3] * 47, 4)
    assert [(one.value, one.after) for one in cuts] == [(1, False), (1, True), (3, False), (3, True)]
    assert Strips((cuts,)).single == (False, True, False, True, False)
    assert Strips(((), cuts)).single == (False, False, True, False, True, False)
    assert cut([None, None], 4) == ()


def test_cells_against_all_pairs() -> None:
    import numpy as np

    rng = np.random.default_rng(3)
    for shape in ((5,), (4, 3), (3, 3, 2)):
        for _ in range(20):
            start = tuple(rng.integers(0, 3, len(shape)).tolist())
            cells = StripCells(rng.integers(0, 2, shape) * rng.integers(0, 5, shape), rng.integers(0, 3, shape), start)
            ties = [rng.integers(0, 2, first + size + 1).astype(bool) for first, size in zip(start, shape, strict=True)]
            mine = [tie[first : first + size] for tie, first, size in zip(ties, start, shape, strict=True)]
            pairs = {
                (left, right)
                for left in np.ndindex(shape)
                for right in np.ndindex(shape)
                if all(2 * a < 2 * b + tie[b] for a, b, tie in zip(left, right, mine, strict=True))
                and cells.left[left]
                and cells.right[right]
            }
            assert cells.count(ties) == sum(int(cells.left[a]) * int(cells.right[b]) for a, b in pairs)
            left, right = cells.left_partners(ties), cells.right_partners(ties)
            for cell in np.ndindex(shape):
                if cells.left[cell]:
                    assert left[cell] == sum(int(cells.right[b]) for a, b in pairs if a == cell)
                if cells.right[cell]:
                    assert right[cell] == sum(int(cells.left[a]) for a, b in pairs if b == cell)
            some = cells.some_pair(ties)
            found = None if some is None else tuple(tuple(np.subtract(cell, start).tolist()) for cell in some)
            assert (found in pairs) if pairs else some is None


def test_records_that_travel_as_one_are_many_again() -> None:
    from datetime import date
    from decimal import Decimal

    import numpy as np

    columns = {
        "duration": pa.array([1, 2, None], pa.duration("us")),
        "byte": pa.array([1, 2, None], pa.int8()),
        "day": pa.array([date(2020, 1, 1), None, date(2021, 1, 1)]),
        "local": pa.array([1, 2, None], pa.timestamp("us")),
        "instant": pa.array([1, 2, None], pa.timestamp("us", "UTC")),
        "time": pa.array([1, 2, None], pa.time64("ns")),
        "decimal": pa.array([Decimal("1.10"), Decimal("2.00"), None], pa.decimal128(38, 10)),
        "float": pa.array([1.5, float("nan"), None]),
        "text": pa.array(["a", "b", None]),
        "truth": pa.array([True, False, None]),
        "nothing": pa.nulls(3),
    }
    weights = [2, 3, 2]
    many = pa.table(columns).take(np.repeat(np.arange(3), weights))
    found = read(pa.table({**columns, WEIGHT: pa.array(weights, pa.int64())}).to_batches())
    assert found is not None
    for name in columns:
        for op in ("==", "!=") if name in ("nothing", "truth") else ("==", "!=", "<", "<="):
            rule = parse(f"not(t.{name} {op} s.{name})")
            assert naysay.count(found.arrow, rule) == naysay.count(many, rule), rule
            assert naysay.count(found.arrow, rule, nulls="equal") == naysay.count(many, rule, nulls="equal"), rule


def test_rows_behind_an_empty_batch_are_not_lost(spark: Any) -> None:
    # Spark stops at an empty batch of a partition.
    chunks = pa.chunked_array([[1, 1], pa.array([], pa.int64()), [2, 2, 3], pa.array([], pa.int64())], pa.int64())
    assert from_arrow(spark, pa.table({"a": chunks})).count() == 5
    assert from_arrow(spark, pa.table({"a": chunks.slice(2, 0)})).count() == 0
