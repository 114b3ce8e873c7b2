"""One summary of a rule: the same in-process, in one task, and merged from the tasks of its key groups."""

from __future__ import annotations

from dataclasses import replace
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
    WEIGHT,
    JointRequest,
    TaskRule,
    answer_partition,
    check_partition,
    conflicts_of_partition,
    count_rule,
    joint_summary,
    joint_suspects,
    read_summary,
    read_table,
    summarise_rule,
    suspects_of_groups,
    suspects_of_table,
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
    (batch,) = check_partition(batches, task_rules(), ("i0",), 5, number_copies=False, others=())
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


def conflicts_found(batches: list[pa.RecordBatch], names: list[str]) -> dict[tuple[object, ...], dict[int, list[int]]]:
    """The conflicts by values and place: those of each record there, for each rule."""
    found: dict[tuple[object, ...], dict[int, list[int]]] = {}
    for row in pa.Table.from_batches(batches).to_pylist():
        values = tuple(row[name] for name in names)
        found.setdefault(values, {})[row["place"]] = [row[name] for name in row if name.startswith("n")]
    return found


@pytest.mark.parametrize("sided", [False, True])
def test_tasks_count_the_conflicts_of_each_row_by_its_values(table: pa.Table, sided: bool) -> None:
    """Sent once or once per side, a row has as many conflicts as in-process, summed over the places where it is."""
    from naysay.detect.violations import conflict_counts
    from naysay.plan.bind import bind
    from naysay.table import from_frame

    rules = [rule for rule in RULES if not rule.is_one_row]
    names = ["a", "b", "c"]
    wanted = np.zeros((len(rules), 120), np.int64)
    for number, rule in enumerate(rules):
        rows, counts = conflict_counts(bind(from_frame(table), join_of(rule), Nulls.SQL))
        wanted[number, rows] = counts
    records, tasks = (
        table,
        [
            TaskRule(number, join_of(rule), Nulls.SQL, rule.column_names, symmetric=join_of(rule).symmetric)
            for number, rule in enumerate(rules)
        ],
    )
    if sided:
        itself = pa.array(table.column("b").to_numpy() <= table.column("c").to_numpy())
        both = table.append_column("itself3", itself).append_column("itself1", pa.array([True] * 120))
        records = pa.concat_tables(
            both.append_column(SIDE, pa.array(np.full(120, side, np.int8))) for side in (LEFT, RIGHT)
        )
        meets = {1: "itself1", 3: "itself3"}
        tasks = [replace(task, sided=True, itself=meets.get(task.number)) for task in tasks]
    found = conflicts_found(
        list(conflicts_of_partition(records.to_batches(), rules=tuple(tasks), columns=tuple(names))), names
    )
    for row, values in enumerate(zip(*(table.column(name).to_pylist() for name in names), strict=True)):
        sums = np.sum(list(found.get(values, {0: [0] * len(rules)}).values()), axis=0)
        assert sums.tolist() == wanted[:, row].tolist(), (row, values)


def test_suspects_of_groups_are_those_of_the_whole(table: pa.Table) -> None:
    is_odd = table.column("a").to_numpy() % 2 == 1
    for task, result in zip(task_rules(), LocalEngine(table).check(RULES, CheckOptions()), strict=True):
        if task.join.one_row:
            continue
        gone = [
            row
            for part in (table.filter(is_odd), table.filter(~is_odd))
            for batch in suspects_of_groups(part.to_batches(), rule=task, names=("i0",))
            for row in batch.column("i0").to_pylist()
        ]
        if result.rows_to_remove.is_exact:
            assert len(gone) == len(result.suspects)
        kept = table.filter(pa.array(~np.isin(np.arange(120), gone)))
        assert LocalEngine(kept).count([RULES[task.number]], CheckOptions()) == [0]
        ordered = table.append_column(PLACE, pa.array(np.arange(120)))
        (batch,) = suspects_of_table(ordered.to_batches(), rule=task, names=("i0",), number_copies=False)
        assert batch.column("i0").to_pylist() == result.suspects.table.column("row").to_pylist()


def test_a_task_removes_the_rows_for_all_rules_as_in_process(table: pa.Table) -> None:
    report = LocalEngine(table).check(RULES, CheckOptions(joint=True))
    wanted = report.suspects.table.column("row").to_pylist()
    shuffled = table.append_column(PLACE, pa.array(np.arange(120))).take(np.random.default_rng(2).permutation(120))
    in_conflict = sorted({row for rows in LocalEngine(table).conflict_rows(RULES, CheckOptions()) for row in rows})
    request = JointRequest(task_rules(), ("i0",), ("a", "c"), False)
    for records in (shuffled, shuffled.filter(pa.array(np.isin(shuffled.column("i0"), in_conflict)))):
        (summary,) = joint_summary(records.to_batches(max_chunksize=50), request, 3)
        (record,) = summary.to_pylist()
        assert (record["rule"], read_summary(record).removal) == (ALL_RULES, report.rows_to_remove)
        assert read_table(record["suspects"]).to_pylist() == table.select(["i0", "a", "c"]).take(wanted[:3]).to_pylist()
        (rows,) = joint_suspects(records.to_batches(), request)
        assert rows.column("i0").to_pylist() == wanted


def test_records_that_travel_as_one_say_once_what_is_in_conflict(table: pa.Table) -> None:
    counted = table.drop_columns(["i0"]).group_by(["a", "b", "c"]).aggregate([([], "count_all")])
    points = counted.rename_columns(["a", "b", "c", WEIGHT])
    rules = tuple(task for task in task_rules() if not task.join.one_row)
    found, wanted = (
        conflicts_found(list(conflicts_of_partition(records.to_batches(), rules, ("a", "b", "c"))), ["a", "b", "c"])
        for records in (points, table)
    )
    assert found == wanted
    assert points.num_rows < table.num_rows
    (batch,) = conflicts_of_partition(points.to_batches(), rules, ("a", "b", "c"))
    assert batch.num_rows == len(found)
