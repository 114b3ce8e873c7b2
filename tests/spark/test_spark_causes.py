"""Causes on Spark: the same as in-process, in one task and by aggregation over many."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import naysay
from naysay.detect import causes
from naysay.detect.request import CheckOptions
from naysay.detect.result import Cause, Condition
from naysay.detect.spark import causes as spark_side
from naysay.detect.spark import conflicts, worker
from naysay.detect.spark.engine import SparkEngine
from naysay.detect.spark.key_groups import Sizes
from naysay.plan.join import join_of
from naysay.rule.model import Nulls
from naysay.spark import read as spark_read
from naysay.spark.frame import from_arrow

N_ROWS = 1_500
RULES = (
    "zip -> city",
    "key(ticket)",
    "not(t.end < t.start)",
    "not(t.state == s.state and t.salary > s.salary and t.rate < s.rate)",
    "not(t.shift == s.shift and t.badge <= s.badge)",
)


def table() -> pa.Table:
    """Errors of all rules in a day of one source, in a null, or in a range of instants."""
    rng = np.random.default_rng(2)
    rows = np.arange(N_ROWS)
    source = rng.choice(["web", "app", "legacy"], N_ROWS, p=[0.6, 0.3, 0.1])
    at = np.datetime64("2024-03-30T00:00:00") + rng.integers(0, 3 * 86_400, N_ROWS)
    amount = rng.integers(0, 1_000, N_ROWS)
    unknown = rng.random(N_ROWS) < 0.1
    zips, ticket, start, salary = rng.integers(0, 100, N_ROWS), rows.copy(), rng.integers(0, 99, N_ROWS), rows * 7
    city = np.char.add("City ", zips.astype(str)).astype(object)
    rate, end, badge = salary.copy(), start + 5, rows.copy()
    legacy = np.flatnonzero(source == "legacy")
    for row in legacy[::3]:
        city[row] = f"typo {row}"
    late = np.flatnonzero(at > np.datetime64("2024-04-01T12:00:00"))
    end[late[::4]] = -1
    ticket[np.flatnonzero(unknown)[::2]] = rng.choice(np.flatnonzero(~unknown), np.flatnonzero(unknown)[::2].size)
    rate[np.flatnonzero(amount < 100)[::3]] = -1
    return pa.table(
        {
            "source": source,
            "at": pa.array(at.astype("datetime64[us]")).cast(pa.timestamp("us", "UTC")),
            "amount": pa.array(amount).cast(pa.decimal128(24, 2)),
            "agent": pa.array(["ann"] * N_ROWS, mask=unknown),
            "zip": zips,
            "city": city,
            "ticket": ticket,
            "start": start,
            "end": end,
            "state": rng.integers(0, 4, N_ROWS),
            "salary": salary,
            "rate": rate,
            "shift": rows // 2,
            "badge": badge,
        }
    )


def segments(found: tuple[Cause, ...]) -> list[Any]:
    """What does not depend on which of several equal rows is removed. In-process, ranges of rows are tried, too."""
    return [
        (cause.conditions, cause.rows, cause.of_rows, pytest.approx(math.log(cause.p_value), rel=0.01))
        for cause in found
    ]


@pytest.mark.parametrize("rows_a_task", [10_000, 100])
def test_causes_are_those_of_the_engine_in_process(
    spark: Any, monkeypatch: pytest.MonkeyPatch, rows_a_task: int
) -> None:
    """Also if all hashes collide."""
    monkeypatch.setattr(spark_side, "hash_of", lambda columns: F.lit(0).cast("bigint"))
    data = table()
    rules = [naysay.parse(rule) for rule in RULES]
    local = naysay.check(data, rules)
    frame = from_arrow(spark, data).repartition(3)
    found = SparkEngine(frame, Sizes(rows_a_task=rows_a_task)).check(rules, CheckOptions())
    for rule, ours, theirs in zip(RULES, found, local, strict=True):
        assert segments(ours.causes) == segments(theirs.causes), rule
        assert [cause.of_suspects for cause in ours.causes[:1]] == [cause.of_suspects for cause in theirs.causes[:1]]
    assert [[one.column for one in result.causes[0].conditions] for result in local.results[:4]] == [
        ["source"],
        ["agent"],
        ["at"],
        ["amount"],
    ]
    assert local[4].causes == ()
    # Without ties the suspects are the same, too.
    for place in (0, 2, 3):
        assert [cause.suspects for cause in found[place].causes] == [cause.suspects for cause in local[place].causes]


MORE_RULES = (
    # Of a filter only the rows that pass count; two filters on one key.
    "not(t.source != 'app' and t.end < t.start)",
    "not(t.state == s.state and t.salary > s.salary and t.rate < s.rate and t.source != 'app' and s.source != 'app')",
    # Equal rows break it, too.
    "not(t.zip == s.zip and t.copy <= s.copy and t.twin >= s.twin)",
    # A third of the rows is alone with its key; a part of the others is wrong.
    "pair -> word",
    # Dirty anywhere, hardly, not at all; without a key.
    "zip -> noise",
    "zip -> rarely",
    "zip -> zip2",
    "not(t.state != s.state and t.rarely != s.rarely)",
)


def wide_table() -> pa.Table:
    """The table with columns for MORE_RULES, with nulls in all of its text and in some keys."""
    rng = np.random.default_rng(5)
    data = table()
    rows, late = np.arange(N_ROWS), data["source"].to_numpy(zero_copy_only=False) == "legacy"
    pair = np.where(rows < 500, rows, 500 + (rows - 500) // 4)
    word = np.char.add("word ", pair.astype(str)).astype(object)
    wrong = np.flatnonzero(late & (rows >= 500))[::2]
    word[wrong] = [f"wrong {row}" for row in wrong]
    zips = data["zip"].to_numpy()
    noise, rarely = (np.char.add("noise ", zips.astype(str)).astype(object) for _ in range(2))
    for row in rng.choice(N_ROWS, 60, replace=False):
        noise[row] = f"noise {row}"
    rarely[3:6] = "rare"
    unknown = rng.random(N_ROWS) < 0.05
    columns = {
        "pair": pa.array(pair, mask=unknown),
        "word": pa.array(word, mask=np.roll(unknown, 7)),
        "noise": noise,
        "rarely": rarely,
        "zip2": zips,
        "copy": rng.integers(0, 3, N_ROWS),
        "twin": rng.integers(0, 3, N_ROWS),
    }
    for name, column in columns.items():
        data = data.append_column(name, pa.array(column))
    return data


def spark_causes(frame: Any, rules: Sequence[str], rows_a_task: int, **options: Any) -> list[Any]:
    parsed = [naysay.parse(rule) for rule in rules]
    report = SparkEngine(frame, Sizes(rows_a_task=rows_a_task)).check(parsed, CheckOptions(warn=False, **options))
    return [(rule, segments(result.causes)) for rule, result in zip(rules, report, strict=True)]


@pytest.mark.parametrize(
    ("rules", "has_causes"), [(MORE_RULES[:4], [True, True, False, True]), (MORE_RULES[4:], [False] * 4)]
)
def test_causes_of_many_rules_are_those_of_one_task(spark: Any, rules: Sequence[str], has_causes: list[bool]) -> None:
    """A task with all rows does what is done in-process, but for ranges of rows."""
    frame = from_arrow(spark, wide_table()).repartition(3)
    found = spark_causes(frame, rules, 100)
    assert found == spark_causes(frame, rules, 10_000)
    assert [bool(of_rule) for _, of_rule in found] == has_causes


@pytest.mark.parametrize("few", [30, 100_000])
def test_many_rows_to_blame_are_sampled_and_all_of_them_counted(
    spark: Any, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    frame = from_arrow(spark, table()).repartition(3)
    # Rules whose cause is a value: ranges begin and end at values of the sample.
    rules = (*RULES[:2], "not(t.source == 'legacy')")
    whole = spark_causes(frame, rules, 10_000)
    monkeypatch.setattr(spark_side, "MOST_BLAMED", 40)
    # With few values to look up, rows to blame come along with those in conflict, else in a pass of their own.
    monkeypatch.setattr(conflicts, "FEW_VALUES", few)
    monkeypatch.setattr(spark_side, "FEW_VALUES", few)
    monkeypatch.setattr(spark_side, "_SAMPLE", 500)
    found = spark_causes(frame, rules, 100)
    for (rule, ours), (_, theirs) in zip(found, whole, strict=True):
        # What chance is corrected for are the values in the sample.
        assert [each[:3] for each in ours[:1]] == [each[:3] for each in theirs[:1]], rule
    assert [bool(of_rule) for _, of_rule in whole] == [True, True, False]


def test_nothing_is_counted_if_a_sample_shows_that_there_is_no_cause(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = from_arrow(spark, wide_table())
    monkeypatch.setattr(spark_side.CauseSearch, "_count", None)
    assert spark_causes(frame, ["zip -> noise", "zip -> rarely"], 100) == [("zip -> noise", []), ("zip -> rarely", [])]
    with pytest.raises(TypeError):
        spark_causes(frame, ["zip -> city"], 100)


def test_a_file_is_a_cause(spark: Any, tmp_path: Path) -> None:
    data = table().select(["zip", "city"])
    typos = np.char.startswith(data["city"].to_numpy(zero_copy_only=False).astype(str), "typo")
    for number, part in enumerate((data.filter(~typos).slice(0, 700), data.filter(~typos).slice(700))):
        pq.write_table(part, tmp_path / f"clean {number}.parquet")
    pq.write_table(data.filter(typos), tmp_path / "typos.parquet")
    frame = spark_read.read(spark, str(tmp_path), numbered=True)
    (found,) = SparkEngine(frame, Sizes(rows_a_task=100)).check([naysay.parse("zip -> city")], CheckOptions())
    (condition,) = found.causes[0].conditions
    assert (condition.kind, condition.column) == ("file", None)
    assert condition.low.endswith("typos.parquet")
    assert found.causes[0].suspects == found.causes[0].rows == np.count_nonzero(typos)


def test_causes_can_be_left_out(spark: Any) -> None:
    frame = from_arrow(spark, table())
    for sizes in (Sizes(), Sizes(rows_a_task=100)):
        (result,) = SparkEngine(frame, sizes).check([naysay.parse(RULES[0])], CheckOptions(causes=False))
        assert result.suspects is not None
        assert result.causes == ()


class TaskRows:
    """The rows of a table as tasks see them, in two partitions: a source of counts without Spark."""

    def __init__(self, blamed: pa.Table, rows: pa.Table) -> None:
        self.blamed, self.rows = blamed, rows

    def families(self, within: Sequence[Condition], without: Sequence[Sequence[Condition]]) -> list[causes.Family]:
        mask = causes.in_segment(self.blamed, within)
        for conditions in without:
            mask &= ~causes.in_segment(self.blamed, conditions)
        blamed = self.blamed.filter(pa.array(mask))
        if not causes.has_enough(blamed[worker.SUSPECT].to_numpy().sum()):
            return []
        return causes.propose(blamed.select(self.rows.column_names), blamed[worker.BLAME].to_numpy())

    def count(self, question: causes.Question) -> causes.Counts:
        n_cells = [family.n_cells for family in question.families]
        total = np.zeros(3 + 3 * sum(n_cells))
        wanted = pickle.loads(pickle.dumps([worker.Segments.of(7, question)]))  # noqa: S301 - our own
        for part in (self.blamed, self.rows.slice(0, 400), self.rows.slice(400), self.rows.slice(0, 0)):
            for batch in worker.count_segments(part.to_batches(), wanted):
                assert set(batch["part"].to_pylist()) <= {7}
                total[batch["place"].to_numpy()] += batch["number"].to_numpy()
        return causes.Counts.of(total, n_cells)


def sent(within: Sequence[Condition], without: Sequence[Sequence[Condition]]) -> Any:
    """Conditions as they travel to tasks."""
    ours = worker.send_conditions(within), tuple(map(worker.send_conditions, without))
    return pickle.loads(pickle.dumps(ours))  # noqa: S301 - our own


@pytest.mark.parametrize("rule", [rule for rule in RULES if "end" not in rule])
def test_tasks_count_what_the_engine_in_process_counts(rule: str) -> None:
    data = table()
    join = join_of(naysay.parse(rule))
    tried = causes.columns_to_try(join, data.schema)
    task_rule = worker.TaskRule(0, join, Nulls.SQL, data.column_names, symmetric=join.symmetric)
    # The columns of the rule are all columns here, so that the values to blame are the rows.
    names = tuple(data.column_names)
    found = pa.Table.from_batches(worker.conflicts_of_partition(data.to_batches(), (task_rule,), names, blame=True))
    blamed = found.rename_columns([name.removesuffix("0") for name in found.column_names])
    blamed = blamed.filter(pc.greater(blamed[worker.BLAME], 0))
    source = TaskRows(blamed, data.select(tried))
    (of_tasks,) = causes.find_causes([source], lambda asked: [each.count(question) for each, question in asked])
    (local,) = naysay.check(data, rule)
    assert segments(causes.shown_causes(of_tasks)) == segments(local.causes)


def test_conditions_of_far_years_travel() -> None:
    far = pa.array([10**9], pa.date32())[0]
    ((condition,), ()) = sent([Condition("value", "day", far, far)], [])
    assert condition.low[0].cast(pa.int32()) == pa.scalar(10**9, pa.int32())
