"""Causes on Spark: the same as in-process, in one task and by aggregation over many."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import naysay
from naysay.detect import causes
from naysay.detect.request import CheckOptions
from naysay.detect.result import Cause, Condition
from naysay.detect.spark import worker
from naysay.detect.spark.engine import SparkEngine
from naysay.detect.spark.key_groups import Sizes
from naysay.plan.join import join_of
from naysay.rule.model import Nulls
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
def test_causes_are_those_of_the_engine_in_process(spark: Any, rows_a_task: int) -> None:
    data = table()
    rules = [naysay.parse(rule) for rule in RULES]
    local = naysay.check(data, rules)
    frame = from_arrow(spark, data).repartition(3)
    found = SparkEngine(frame, Sizes(rows_a_task=rows_a_task)).check(rules, CheckOptions())
    for rule, ours, theirs in zip(RULES, found, local, strict=True):
        assert segments(ours.causes) == segments(theirs.causes), rule
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
        found = worker.filter_segments(self.blamed.to_batches(), *sent(within, without))
        blamed = pa.Table.from_batches(list(found))
        if not causes.has_enough(np.count_nonzero(blamed[worker.SUSPECT].to_numpy())):
            return []
        return causes.propose(blamed.select(self.rows.column_names), blamed[worker.BLAME].to_numpy())

    def count(
        self, families: Sequence[causes.Family], within: Sequence[Condition], without: Sequence[Sequence[Condition]]
    ) -> causes.Counts:
        n_cells = [family.n_cells for family in families]
        total = np.zeros(3 + 3 * sum(n_cells))
        for part in (self.blamed, self.rows.slice(0, 400), self.rows.slice(400), self.rows.slice(0, 0)):
            for batch in worker.count_segments(part.to_batches(), tuple(families), *sent(within, without)):
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
    named = data.append_column("i0", pa.array(range(N_ROWS)))
    task_rule = worker.TaskRule(0, join, Nulls.SQL, data.column_names, symmetric=join.symmetric)
    blamed = pa.Table.from_batches(worker.blame_groups(named.to_batches(), task_rule, ("i0",), tuple(tried)))
    found = causes.shown_causes(causes.find_causes(TaskRows(blamed, data.select(tried))))
    (local,) = naysay.check(data, rule)
    assert segments(found) == segments(local.causes)


def test_conditions_of_far_years_travel() -> None:
    far = pa.array([10**9], pa.date32())[0]
    ((condition,), ()) = sent([Condition("value", "day", far, far)], [])
    assert condition.low[0].cast(pa.int32()) == pa.scalar(10**9, pa.int32())
