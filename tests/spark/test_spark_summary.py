"""One summary of a rule: the same in-process, in one task, and merged from the tasks of its key groups."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from naysay.detect.engine import LocalEngine
from naysay.detect.request import CheckOptions
from naysay.detect.result import Removal
from naysay.detect.spark.worker import (
    ALL_RULES,
    LEFT,
    PLACE,
    RIGHT,
    SIDE,
    TaskRule,
    answer_partition,
    check_partition,
    count_rule,
    read_summary,
    summarise_rule,
)
from naysay.detect.summary import RuleSummary
from naysay.plan.join import join_of
from naysay.rule import Nulls, parse

RULES = [
    parse(text)
    for text in (
        "a -> b",
        "key(a, c)",
        "not(t.a == s.a and t.b < s.b and t.c > s.c)",
        "not(t.a == s.a and t.b <= s.c)",
        "not(t.a == s.a and t.b != s.b and t.c != s.c)",
        "not(t.a == 3 and t.b > t.c)",
    )
]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(5)
    columns = {name: rng.integers(0, n, 120) for name, n in (("a", 6), ("b", 5), ("c", 7))}
    return pa.table({"i0": np.arange(120), **columns})


def task_rules() -> tuple[TaskRule, ...]:
    return tuple(TaskRule(number, join_of(rule), Nulls.SQL, rule.column_names) for number, rule in enumerate(RULES))


def summaries(batch: pa.RecordBatch) -> dict[int, RuleSummary[pa.Table]]:
    return {record["rule"]: read_summary(record) for record in batch.to_pylist()}


def test_one_task_says_what_the_engine_in_memory_says(table: pa.Table) -> None:
    report = LocalEngine(table).check(RULES, CheckOptions())
    batches = table.append_column(PLACE, pa.array(np.arange(120))).to_batches()
    (batch,) = check_partition(batches, task_rules(), ("i0",), 5, number_copies=False)
    found = summaries(batch)
    assert found[ALL_RULES].rows_in_conflict == report.rows_in_conflict
    (busiest,) = found[ALL_RULES].sample
    assert busiest.column("conflicts").to_pylist() == [row.conflicts for row in report.busiest]
    assert busiest.column("i0").to_pylist() == [row.identity["row"] for row in report.busiest]
    for number, result in enumerate(report):
        summary = found[number]
        numbers = (summary.violations, summary.rows_in_conflict, summary.removal, summary.where)
        assert numbers == (result.violations, result.rows_in_conflict, result.rows_to_remove, result.where)
        rows = [pair.left["row"] for pair in result.sample] + [
            pair.right["row"] for pair in result.sample if pair.right
        ]
        assert [row for shown in summary.sample for row in shown.column("i0").to_pylist()] == rows


def test_tasks_of_key_groups_merge_to_the_whole(table: pa.Table) -> None:
    """Every rule but the last has its key in `a`, so that two parts by `a` hold whole groups."""
    report = LocalEngine(table).check(RULES, CheckOptions())
    merged: dict[int, RuleSummary[pa.Table]] = {number: RuleSummary() for number in range(len(RULES))}
    is_odd = table.column("a").to_numpy() % 2 == 1
    for part in (table.filter(is_odd), table.filter(~is_odd)):
        work = partial(answer_partition, rules=task_rules(), answer=partial(summarise_rule, n_sample=2, removal=True))
        (batch,) = work(part.to_batches())
        merged = {number: merged[number].merge(found) for number, found in summaries(batch).items()}
        (counted,) = answer_partition(part.to_batches(), task_rules(), count_rule)
        assert counted.column("violations").equals(batch.column("violations"))
    for number, result in enumerate(report):
        summary = merged[number]
        assert (summary.violations, summary.rows_in_conflict) == (result.violations, result.rows_in_conflict)
        assert summary.removal.least <= result.rows_to_remove.least
        assert summary.removal.most >= result.rows_to_remove.most
        if result.rows_to_remove.is_exact:
            assert summary.removal == result.rows_to_remove
        assert all(shown.num_rows for shown in summary.sample)


def test_a_row_sent_once_per_side_does_not_meet_itself(table: pa.Table) -> None:
    rule = parse("not(t.a == s.a and t.b <= s.c)")
    (result,) = LocalEngine(table).check([rule], CheckOptions())
    itself = pa.array(table.column("b").to_numpy() <= table.column("c").to_numpy())
    sides = [
        table.append_column("itself0", itself).append_column(SIDE, pa.array(np.full(120, side, np.int8)))
        for side in (LEFT, RIGHT)
    ]
    task = TaskRule(0, join_of(rule), Nulls.SQL, rule.column_names, sided=True, itself="itself0")
    answer = partial(summarise_rule, n_sample=3, removal=False)
    (batch,) = answer_partition(pa.concat_tables(sides).to_batches(), (task,), answer)
    found = summaries(batch)[0]
    assert (found.violations, found.removal) == (result.violations, Removal(0, 0))
    (counted,) = answer_partition(pa.concat_tables(sides).to_batches(), (task,), count_rule)
    assert counted.column("violations").to_pylist() == [result.violations]
