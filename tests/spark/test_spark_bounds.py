"""What grows with the rows, counted: rows of the largest task, rows that travel, bytes that reach the driver.

The numbers are Spark's own, from an event log of what runs inside `measured`. Sizes are small, so that a few thousand
rows take every route; `BOUND` is to `SIZES` what 2,500,000 rows are to the default sizes.
"""

from __future__ import annotations

import datetime
import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T
from tables import to_spark

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import naysay
from eventlog import StageRecord, all_tasks, read_stages
from naysay.detect.request import CheckOptions
from naysay.detect.spark import conflicts, grid, key_groups, worker
from naysay.detect.spark.engine import SparkEngine
from naysay.detect.spark.key_groups import Sizes
from naysay.detect.spark.strips import Cut, Strips, find_strips, plain
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.spark.engine import Blocks, discover
from naysay.discovery.spark.spread import SpreadSizes
from naysay.errors import ResourceError
from naysay.rule import canonical
from naysay.spark.identity import with_file_rows

SIZES = Sizes(rows_a_task=100, giant=800, n_strips=4)
BOUND = 1000
MONOTONE = "t.x > s.x and t.y < s.y"

Measure = Callable[[], AbstractContextManager[list[StageRecord]]]


def test_the_default_sizes_are_those_that_the_docs_state() -> None:
    assert Sizes().giant * BOUND // SIZES.giant == 2_500_000
    assert Sizes().large < Sizes().giant
    assert (SpreadSizes().giant, SpreadSizes().rows_a_task) == (Sizes().giant, Sizes().rows_a_task)


@pytest.fixture
def measured(spark: Any, tmp_path: Path) -> Measure:
    """A context whose value has, once it has ended, the stages that ran in it."""

    @contextmanager
    def measure() -> Iterator[list[StageRecord]]:
        java, jvm = spark.sparkContext._jsc.sc(), spark.sparkContext._jvm
        settings = java.conf().clone().set("spark.eventLog.compress", "false")
        settings = settings.set("spark.eventLog.rolling.enabled", "false")
        name = f"log-{len(list(tmp_path.iterdir()))}"
        where = jvm.java.net.URI(tmp_path.as_uri())
        nothing = jvm.scala.Option.apply(None)
        listener = jvm.org.apache.spark.scheduler.EventLoggingListener(
            name, nothing, where, settings, java.hadoopConfiguration()
        )
        java.listenerBus().waitUntilEmpty()
        listener.start()
        java.addSparkListener(listener)
        stages: list[StageRecord] = []
        try:
            yield stages
        finally:
            java.listenerBus().waitUntilEmpty()
            java.removeSparkListener(listener)
            listener.stop()
        stages += read_stages(tmp_path / name)

    return measure


def largest(stages: list[StageRecord]) -> int:
    """The most rows that a Python worker was sent by a shuffle."""
    return max(task.rows_shuffled for task in all_tasks(stage for stage in stages if stage.in_python))


def travelled(stages: list[StageRecord]) -> int:
    """The rows that were sent to Python workers by shuffles."""
    return sum(task.rows_shuffled for task in all_tasks(stage for stage in stages if stage.in_python))


def shuffled(stages: list[StageRecord]) -> int:
    """The rows that were sent by any shuffle."""
    return sum(task.rows_shuffled for task in all_tasks(stages))


def collected(stages: list[StageRecord]) -> int:
    return sum(task.bytes_returned for task in all_tasks(stages) if task.is_result)


def numbers(n_rows: int, keys: Any) -> pa.Table:
    """A table with a key, two ordered columns that mostly agree, and a few others."""
    rng = np.random.default_rng(n_rows)
    x = rng.permutation(n_rows)
    y = x + rng.integers(-3, 4, n_rows)
    z = rng.integers(0, 4, n_rows)
    return pa.table({"id": np.arange(n_rows), "k": keys, "x": x, "y": y, "z": z})


def skews() -> dict[str, pa.Table]:
    """Tables whose rows are distributed over the keys in unkind ways."""
    n_rows = 3_000
    rows = np.arange(n_rows)
    almost_giant = numbers(n_rows, rows % 4)
    disjoint = numbers(n_rows, rows // 1_500)
    disjoint = disjoint.set_column(2, "x", pa.array(np.sort(disjoint.column("x").to_numpy())))
    return {
        # Four groups of 750 rows: by hash, several would meet in a task.
        "almost giant groups": almost_giant,
        "half in one group": numbers(n_rows, np.where(rows % 2 == 0, -1, rows % 500)),
        # Two giant groups, neither of which has a value within the range of another.
        "ranges apart": disjoint,
        "all in one group": numbers(n_rows, np.zeros(n_rows, np.int64)),
        "one value in most rows": numbers(n_rows, np.zeros(n_rows, np.int64)).set_column(
            2, "x", pa.array(np.where(rows % 10 < 8, 7, rows))
        ),
    }


def first_pairs(table: pa.Table, limit: int) -> list[tuple[int, int]]:
    """The first violations of the rule with a key, by brute force."""
    k, x, y = (table.column(name).to_numpy() for name in "kxy")
    found: list[tuple[int, int]] = []
    for row in range(table.num_rows):
        partners = np.flatnonzero((k == k[row]) & (x[row] > x) & (y[row] < y))
        found += [(row, int(partner)) for partner in partners]
        if len(found) >= limit:
            break
    return found[:limit]


@pytest.mark.parametrize("skew", skews())
def test_no_task_gets_more_rows_than_stated(spark: Any, measured: Measure, skew: str) -> None:
    table = skews()[skew]
    rule = naysay.parse(f"not(t.k == s.k and {MONOTONE})")
    engine = SparkEngine(to_spark(spark, table), SIZES)
    with measured() as counting:
        found = engine.count([rule], CheckOptions())
    assert found == [naysay.count(table, rule)]
    with measured() as checking:
        report = engine.check([rule], CheckOptions(key=("id",), warn=False, causes=False))
    assert report[0].rows_in_conflict == naysay.check(table, rule)[0].rows_in_conflict
    with measured() as listing:
        listed = engine.violations(rule, CheckOptions(key=("id",)), limit=20).to_arrow()
    with measured() as splitting:
        _, bad = engine.split([rule], CheckOptions())
        assert bad.count() == report[0].rows_in_conflict
    assert list(zip(listed["left"].to_pylist(), listed["right"].to_pylist(), strict=True)) == first_pairs(table, 20)
    sizes = {name: largest(stages) for name, stages in locals().items() if name.endswith("ing")}
    assert max(sizes.values()) <= BOUND, sizes


def test_copies_of_rows_keep_their_names_if_their_group_is_giant(spark: Any) -> None:
    """Without a key, equal rows are numbered: more than nine of them, since names are sorted as text."""
    one = numbers(300, np.zeros(300, np.int64)).drop_columns(["id"])
    table = pa.concat_tables([one.slice(0, 200)] + [one.slice(200, 100)] * 12)
    rule = naysay.parse(f"not({MONOTONE})")
    frame = to_spark(spark, table)
    for limit in (5, 40):
        lists = [
            SparkEngine(frame, sizes).violations(rule, CheckOptions(), limit=limit).to_arrow()
            for sizes in (Sizes(), Sizes(rows_a_task=100, giant=400, n_strips=3))
        ]
        assert lists[0].equals(lists[1])


def few_broken_keys(n_rows: int) -> pa.Table:
    """A dependency k -> v of 50 keys that three of them break, with 20 rows each at any size."""
    rows = np.arange(n_rows)
    keys = np.where(rows < 60, rows % 3, 3 + rows % 47)
    return pa.table({"id": rows, "k": keys, "v": keys + (rows < 6), "x": rows // 2})


def test_the_rows_of_a_dependency_stay_where_they_are(spark: Any, measured: Measure) -> None:
    """Sums, values in conflict and the rows that are in conflict travel in any stage; the others never do."""
    rule = naysay.parse("k -> v")
    moved: dict[int, dict[str, int]] = {}
    for n_rows in (1_000, 8_000):
        table = few_broken_keys(n_rows)
        engine = SparkEngine(to_spark(spark, table), SIZES)
        options = CheckOptions(key=("id",), warn=False)
        with measured() as checking:
            (result,) = engine.check([rule], options)
        with measured() as listing:
            listed = engine.violations(rule, options, limit=20).to_arrow()
        with measured() as naming:
            assert result.suspects is not None
            suspects = result.suspects.to_arrow()
        with measured() as splitting:
            good, bad = (part.count() for part in engine.split([rule], CheckOptions()))
        assert (listed.num_rows, suspects.num_rows, good, bad) == (20, 6, n_rows - 60, 60)
        verbs = {"check": checking, "violations": listing, "suspects": naming, "split": splitting}
        moved[n_rows] = {name: shuffled(stages) for name, stages in verbs.items()}
        # Partial sums of 53 values from each task that reads, twice, and the 60 rows.
        assert max(moved[n_rows].values()) < 1_500, moved
    assert moved[8_000] == pytest.approx(moved[1_000], rel=0.1, abs=20)


@pytest.mark.parametrize("key", [("id",), ()])
def test_the_first_of_many_violations_in_giant_groups_send_each_row_once(
    spark: Any, measured: Measure, key: tuple[str, ...]
) -> None:
    """Strips decide that enough of the first rows have some. Rows that are named by their values travel twice.

    Besides, a task sends at most as many violations as are wanted, and one that looks for the first rows a thousand and
    two for each violation; of the cells only their numbers of rows travel.
    """
    rule = naysay.parse(f"not(t.k == s.k and {MONOTONE})")
    for n_rows in (3_000, 6_000):
        table = numbers(n_rows, np.arange(n_rows) % 2)
        table = table.set_column(3, "y", pa.array(np.random.default_rng(1).permutation(n_rows)))
        data, options = to_spark(spark, table), CheckOptions(key=key)
        with measured() as stages:
            listed = SparkEngine(data, SIZES).violations(rule, options, limit=30).to_arrow()
        if key:
            pairs = list(zip(listed["left"].to_pylist(), listed["right"].to_pylist(), strict=True))
            assert pairs == first_pairs(table, 30)
        assert listed.equals(SparkEngine(data).violations(rule, options, limit=30).to_arrow())
        assert largest(stages) <= BOUND
        n_tasks = SIZES.n_tasks(n_rows)
        n_first = (data.rdd.getNumPartitions() if key else n_tasks) * (1_000 + 2 * 30)
        assert shuffled(stages) <= (1 if key else 2) * n_rows + n_tasks * 30 + min(n_first, n_rows) + 1_000


@pytest.mark.parametrize("where", ["t.k == s.k and ", ""])
def test_strips_send_a_row_once_for_each_order_at_any_size(spark: Any, measured: Measure, where: str) -> None:
    rule = naysay.parse(f"not({where}{MONOTONE})")
    for n_rows in (2_000, 8_000):
        engine = SparkEngine(to_spark(spark, numbers(n_rows, np.arange(n_rows) // (n_rows // 2))), SIZES)
        with measured() as stages:
            engine.count([rule], CheckOptions())
        # The answers of the tasks travel, too.
        assert n_rows < travelled(stages) <= 2.05 * n_rows
        assert largest(stages) <= BOUND


def test_each_of_many_giant_groups_has_strips_of_its_frequent_values(spark: Any, measured: Measure) -> None:
    """These decide the second order by themselves, so that a row travels once: for the first one."""
    rng, n_rows = np.random.default_rng(4), 9_000
    table = pa.table({"k": np.arange(n_rows) % 9, "x": rng.permutation(n_rows), "y": rng.integers(0, 3, n_rows)})
    table = table.append_column("z", table.column("k"))
    for rule in (f"not(t.k == s.k and {MONOTONE})", f"not({MONOTONE} and t.z != s.z)"):
        with measured() as stages:
            found = SparkEngine(to_spark(spark, table), replace(SIZES, n_strips=16)).count(
                [naysay.parse(rule)], CheckOptions()
            )
        assert found == [naysay.count(table, rule)]
        n_terms = rule.count("!=") + 1
        assert n_rows <= travelled(stages) <= 1.1 * n_terms * n_rows
        assert largest(stages) <= BOUND


def test_disequalities_in_a_giant_group_are_counted_without_copying_its_rows(spark: Any, measured: Measure) -> None:
    rule = naysay.parse(f"not({MONOTONE} and t.z != s.z)")
    for n_rows in (3_000, 6_000):
        table = numbers(n_rows, np.zeros(n_rows, np.int64))
        with measured() as stages:
            found = SparkEngine(to_spark(spark, table), SIZES).count([rule], CheckOptions())
        assert found == [naysay.count(table, rule)]
        # Two rules without the disequality, each of two orders.
        assert travelled(stages) <= 4.1 * n_rows
        assert largest(stages) <= BOUND


def test_blocks_of_a_giant_group_are_bounded(spark: Any, measured: Measure) -> None:
    """Each row is in a task once for each block, on either side, and two blocks meet in a task."""
    table = numbers(3_000, np.where(np.arange(3_000) % 2 == 0, -1, np.arange(3_000) % 40))
    rule = naysay.parse(f"not(t.k == s.k and {MONOTONE} and t.z != s.z)")
    with measured() as stages:
        (result,) = SparkEngine(to_spark(spark, table), SIZES).check([rule], CheckOptions(warn=False, causes=False))
    assert result.violations == naysay.count(table, rule)
    assert largest(stages) <= BOUND
    n_blocks = -(-1_500 // SIZES.rows_a_part)
    # Once to count, and once to find the rows in conflict; what is found travels, too.
    assert travelled(stages) <= 2 * (2 * n_blocks * 1_500 + 1_500) + 2_000


def test_a_tally_holds_one_batch_at_a_time() -> None:
    """Its task has as many rows as a partition of a join has, so it must not keep them."""
    held: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 100_000, 1_000):
            rows = np.arange(start, start + 1_000)
            yield pa.record_batch({"i0": rows, worker.PLACE: rows, "n0": np.full(1_000, 2)})
            held.append(pa.total_allocated_bytes())

    found = worker.tally_partition(batches(), (0,), ("i0",), (100_000,))
    summaries = worker.read_summaries(row for batch in found for row in batch.to_pylist())
    assert summaries[0].rows_in_conflict == 100_000
    # A batch is 24 kB, and all of them 2.4 MB.
    assert max(held) - min(held) < 200_000


def test_a_group_that_would_be_copied_too_often_is_refused(spark: Any) -> None:
    table = numbers(3_000, np.zeros(3_000, np.int64))
    engine = SparkEngine(to_spark(spark, table), Sizes(100, 200, most_blocks=20))
    rule = naysay.parse(f"not({MONOTONE} and t.z != s.z)")
    with pytest.raises(ResourceError, match=r"3,000 rows have the same values .* copied 60 times .*\(`count`\)"):
        engine.check([rule], CheckOptions(warn=False, causes=False))
    assert engine.count([rule], CheckOptions()) == [naysay.count(table, rule)]


VERDICTS = [
    "key(u)",
    "g -> v",
    "not(t.v < 0)",
    "not(t.g == s.g and t.id < s.id and t.v > s.v)",
    "not(t.g == s.g and t.v != s.v and t.w != s.w)",
]


@pytest.mark.parametrize("rule", VERDICTS)
def test_a_verdict_reads_no_more_files_than_it_takes(spark: Any, measured: Measure, tmp_path: Path, rule: str) -> None:
    """64 files: one row, then two files, then all. What is broken in two files is not looked for in the others."""
    n_rows, parsed, read = 100, naysay.parse(rule), {}
    for broken_in in (1, None):
        folder = tmp_path / f"broken in {broken_in}"
        write_files(folder, 64, n_rows, broken_in)
        engine = SparkEngine(spark.read.parquet(str(folder)).filter("id >= 0"), replace(SIZES, first=1))
        with measured() as stages:
            verdict = engine.verify(parsed, CheckOptions(key=("id",)))
        read[broken_in] = rows_read(stages)
        assert verdict.holds == (broken_in is None)
        if broken_in is not None:
            assert verdict.witness is not None
            sides = [side for side in (verdict.witness.left, verdict.witness.right) if side is not None]
            assert broken_in * n_rows + 1 in [side["id"] for side in sides]
    with measured() as stages:
        engine.count([parsed], CheckOptions())
    assert rows_read(stages) <= read[None] <= rows_read(stages) * (1 + 1 / 32) + n_rows
    assert read[1] <= rows_read(stages) / 4


def test_a_verdict_on_files_that_naysay_reads(spark: Any, measured: Measure, tmp_path: Path) -> None:
    """Broken only in the last file, whose rows are known by their files."""
    write_files(tmp_path / "a table", 64, 100, 63)
    engine = SparkEngine(with_file_rows(spark.read.parquet(f"{tmp_path}/a table")), replace(SIZES, first=1))
    with measured() as stages:
        verdict = engine.verify(naysay.parse("key(u)"), CheckOptions())
    assert verdict.witness is not None
    assert verdict.witness.right is not None
    rows = [Path(side["file"]).name + str(side["row"]) for side in (verdict.witness.left, verdict.witness.right)]
    assert sorted(rows) == ["063.parquet0", "063.parquet1"]
    # One file for its first row, two files, all of them, and all of them again for the rows to show.
    assert 1 + 200 + 2 * 6_400 <= rows_read(stages) <= 100 + 200 + 2 * 6_400


def write_files(folder: Path, n_files: int, n_rows: int, broken_in: int | None) -> None:
    """A table in files of so many rows; the second row of one of them breaks rules."""
    folder.mkdir()
    ids = np.arange(n_files * n_rows)
    columns = {"id": ids, "u": ids.copy(), "g": ids // 2, "v": 7 * (ids // 2), "w": 3 * (ids // 2)}
    if broken_in is not None:
        row = broken_in * n_rows + 1
        columns["u"][row] = row - 1
        columns["v"][row] = columns["w"][row] = -1
    table = pa.table(columns)
    for number in range(n_files):
        pq.write_table(table.slice(number * n_rows, n_rows), folder / f"{number:03}.parquet")


def rows_read(stages: list[StageRecord]) -> int:
    """The rows that tasks read from files."""
    return sum(task.rows - task.rows_shuffled for task in all_tasks(stages))


def test_what_reaches_the_driver_does_not_grow_with_the_rows(
    spark: Any, measured: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does what is sent to all tasks, which goes through the driver: Spark sends a small side of a join to all."""
    rules = [naysay.parse(f"not(t.k == s.k and {MONOTONE})"), naysay.parse("key(id)"), naysay.parse("k -> z")]
    monkeypatch.setattr(conflicts, "FEW_VALUES", 50)
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "4096")
    try:
        sizes = {n_rows: what_is_collected(spark, measured, rules, n_rows) for n_rows in (1_000, 10_000)}
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)
    # Spark's own numbers about a task are part of what it returns; of those that reach the driver there are few.
    for small, large in zip(*sizes.values(), strict=True):
        assert large <= 1.25 * small + 20_000, sizes


def what_is_collected(spark: Any, measured: Measure, rules: list[Any], n_rows: int) -> list[int]:
    """The bytes that reach the driver from each verb."""
    engine = SparkEngine(to_spark(spark, numbers(n_rows, np.arange(n_rows) // 40)), SIZES)
    # Causes sample up to 20,000 rows, which is more than these tables have.
    options = CheckOptions(key=("id",), warn=False, causes=False)
    with measured() as counting:
        engine.count(rules, CheckOptions())
    with measured() as checking:
        engine.check(rules, options)
    with measured() as listing:
        engine.violations(rules[0], options, limit=20).to_arrow()
    with measured() as splitting:
        assert sum(part.count() for part in engine.split(rules, CheckOptions())) == n_rows
    return [collected(stages) for stages in (counting, checking, listing, splitting)]


def test_merged_answers_of_many_tasks_are_the_same(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = numbers(3_000, np.arange(3_000) // 30)
    rules = [
        naysay.parse(f"not(t.k == s.k and {MONOTONE})"),
        naysay.parse(f"not(t.k == s.k and {MONOTONE} and t.z != s.z)"),
    ]
    reports = []
    for many in (0, 1_000_000):
        monkeypatch.setattr(key_groups, "_MANY_TASKS", many)
        reports.append(
            SparkEngine(to_spark(spark, table), SIZES).check(rules, CheckOptions(key=("id",), warn=False, causes=False))
        )
    assert [(r.violations, r.rows_in_conflict, r.rows_to_remove) for r in reports[0]] == [
        (r.violations, r.rows_in_conflict, r.rows_to_remove) for r in reports[1]
    ]
    assert all(result.sample for result in reports[0])


def test_counts_beyond_64_bits_survive_the_merge() -> None:
    most = 2**63 - 1
    rows = [
        {"rule": 0, "violations": most, "rows": 1, "least": 1, "most": 1, "sample": b"", "where": []} for _ in range(3)
    ]
    batch = pa.RecordBatch.from_pylist(rows, worker.SUMMARY)
    batch = batch.append_column(worker.TASK, pa.array([0, 1, 2]))
    (merged,) = worker.merge_summaries([batch])
    assert worker.read_summaries(merged.to_pylist())[0].violations == 3 * most


def test_cells_on_the_driver_are_bounded(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are, strips are larger, and the answer is the same."""
    table = numbers(4_000, np.zeros(4_000, np.int64))
    rule = naysay.parse(f"not({MONOTONE} and t.z <= s.z)")
    expected = naysay.count(table, rule)
    for n_cells in (64, 1 << 20):
        monkeypatch.setattr(grid, "_MAX_CELLS", n_cells)
        found = SparkEngine(to_spark(spark, table), Sizes(100, 200, n_strips=8))
        assert found.count([rule], CheckOptions()) == [expected]


def test_no_task_of_an_exact_discovery_has_many_rows(spark: Any, measured: Measure) -> None:
    """Whatever the keys: two large groups, one giant group and rows that no key separates; nor does the driver."""
    sizes = SpreadSizes(sample=100, rows_a_task=SIZES.rows_a_task, giant=SIZES.giant)
    request = DiscoverRequest(cross=False, max_predicates=2, method="selective")
    returned = []
    for n_rows in (1_500, 4_500):
        rows = np.arange(n_rows)
        table = pa.table(
            {
                "k": np.where(rows % 3 == 0, rows, rows % 3),
                "half": np.where(rows % 2 == 0, -1, rows % 7),
                "x": rows,
                "y": rows // 2,
            }
        )
        with measured() as stages:
            found = discover(to_spark(spark, table), request, Blocks(spread=sizes))
        expected = naysay.discover(table, cross=False, max_predicates=2, error=0)
        assert set(map(canonical, found.rules)) == set(map(canonical, expected.rules))
        assert largest(stages) <= BOUND
        returned.append(collected([stage for stage in stages if stage.in_python]))
    assert returned[1] < 1.5 * returned[0] + 10_000, returned


def test_discovery_refuses_to_compare_more_pairs_than_spark_can_run(spark: Any) -> None:
    rng = np.random.default_rng(3)
    table = pa.table({name: rng.integers(0, 40, 3_000) for name in "abc"})
    with pytest.raises(ResourceError, match=r"distinct rows would compare all pairs .* name fewer columns"):
        discover(to_spark(spark, table), DiscoverRequest(method="all-pairs"), Blocks(rows=100, most_tasks=50))


# Values of each type in their order: Spark's, not Python's, for NaN, the two zeros and text.
SORTED = {
    "double": [-math.inf, -1.5, 0.0, 0.1, 1e300, math.inf, math.nan],
    "string": ["", "B", "a", "b", "\u00e9", "\uffee", "\U0001f600"],
    "decimal(38,10)": [Decimal(x) for x in ("-1234567890123456789012345678.0000000001", "-1", "0", "1E-10", "7", "8")],
    "date": [datetime.date(year, 1, 1) for year in (1, 1500, 1969, 1970, 2024, 9999)],
    "timestamp_ntz": [datetime.datetime(year, 1, 1, 0, 0, 0, year) for year in (1, 1900, 1970, 2024, 9999)],
    "bigint": [-(2**63), -1, 0, 1, 2**63 - 1],
    "struct<a:double,b:bigint>": [{"a": a, "b": b} for a in (-1.0, 2.0, math.nan) for b in (-(2**63), 5)],
}


@pytest.mark.parametrize("type_", SORTED)
def test_a_row_finds_its_strip_by_the_cuts_of_its_group(spark: Any, type_: str) -> None:
    """By any cuts, of groups that have many, few or none; a null is in the first strip of its group."""
    values, rng = SORTED[type_], np.random.default_rng(5)
    twice = [Cut(at, after) for at in range(len(values)) for after in (False, True)]
    groups = [tuple(cut for cut in twice if rng.random() < share) for share in (0.5, 0, 1, 0.2)]
    strips = Strips(tuple(tuple(replace(cut, value=values[cut.value]) for cut in cuts) for cuts in groups))
    cases = [(group, at) for group in range(4) for at in range(len(values))]
    first = [sum(len(cuts) + 1 for cuts in groups[:group]) for group in range(4)]
    expected = [
        first[group] + sum(at > cut.value if cut.after else at >= cut.value for cut in groups[group])
        for group, at in cases
    ]
    rows = [(group, values[at], place) for (group, at), place in zip(cases, expected, strict=True)]
    rows += [(group, None, place) for group, place in enumerate(first)]
    data = spark.createDataFrame(rows, f"number int, value {type_}, expected int")
    value = data.schema["value"].dataType
    sampled = data.select(plain(F.col("value"), value).alias("value")).filter("value is not null").collect()
    # What cuts get from a sample is not the value itself for all types.
    plain_of = dict(zip(map(repr, values * 4), (row.asDict(recursive=True)["value"] for row in sampled), strict=True))
    strips = Strips(
        tuple(tuple(replace(cut, value=plain_of[repr(cut.value)]) for cut in cuts) for cuts in strips.groups)
    )
    found = find_strips(data, F.col("number"), {"l0": (F.col("value"), value, strips)})
    assert found.columns == ["number", "value", "expected", "l0"]
    assert [row["l0"] for row in found.collect()] == [row["expected"] for row in found.collect()]
    assert strips.n == first[-1] + len(groups[-1]) + 1
    assert [strip for strip, is_single in enumerate(strips.single) if is_single] == sorted(
        {
            first[group] + place + 1
            for group, cuts in enumerate(groups)
            for place, (low, high) in enumerate(pairwise(cuts))
            if low.value == high.value and values[low.value] == values[low.value]
        }
    )


@pytest.mark.usefixtures("compiled")
def test_code_that_finds_strips_does_not_grow_with_them(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Java does not compile a method of more than 8,000 bytes."""
    data = spark.range(10).select(F.col("id").cast("double").alias("a"), (F.col("id") * 2).cast("double").alias("b"))
    sizes = []
    adaptive = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        for n_cuts in (15, 511):
            cuts = tuple(Cut(float(number), number % 3 == 0) for number in range(n_cuts))
            sought = {name: (F.col(name[1:]), T.DoubleType(), Strips((cuts, cuts[:3]))) for name in ("la", "lb")}
            placed = find_strips(data, F.pmod(F.col("a").cast("int"), F.lit(2)), sought)
            placed.groupBy("la", "lb").count().explain("codegen")
            found = re.findall(r"maxMethodCodeSize:(\d+)", capsys.readouterr().out)
            sizes.append(max(map(int, found)))
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    assert sizes[1] <= 1.1 * sizes[0] + 50 < 8_000
