"""Compare the Spark engine with the oracle: one table, many rules, every operation."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tables import to_spark

import naive
from cases import Case, rows_of
from naysay.detect.engine import LocalEngine
from naysay.detect.request import CheckOptions
from naysay.detect.result import Removal, Report
from naysay.detect.spark.engine import SparkEngine
from naysay.detect.spark.grid import has_strips
from naysay.detect.spark.key_groups import Sizes
from naysay.detect.spark.plan import Route, route_of
from naysay.detect.spark.table import SparkListing
from naysay.plan.join import join_of
from naysay.rule.model import Nulls, Rule
from samples import PLAIN_FAMILIES
from strategies import random_rule, random_table

# Everything in one task; groups on several tasks; groups of more than four rows split into strips or blocks.
IN_ONE_TASK = Sizes()
IN_TASKS = Sizes(rows_a_task=6, rows_a_point=2, first=2)
IN_PARTS = Sizes(rows_a_task=6, giant=4, n_strips=3, first=2)
KEY = "its id"


def draw(seed: int, n_rules: int, max_rows: int = 40) -> tuple[pa.Table, list[Rule], Nulls]:
    """A table with a key, rules about its other columns, and what null means."""
    rng = random.Random(seed)
    table = random_table(rng, max_rows, PLAIN_FAMILIES)
    rules = [random_rule(rng, table) for _ in range(n_rules)]
    ids = list(range(100, 100 + table.num_rows))
    rng.shuffle(ids)
    return table.append_column(KEY, pa.array(ids, pa.int64())), rules, rng.choice(list(Nulls))


def with_strips(rules: Sequence[Rule]) -> list[Rule]:
    """The rules whose giant groups are split into strips."""
    return [rule for rule in rules if not rule.is_one_row and has_strips(join_of(rule))]


def in_one_pass(rules: Sequence[Rule]) -> list[Rule]:
    """The rules that need kernels and compare each column of their key with itself."""
    joins = {rule: join_of(rule) for rule in rules}
    return [
        rule
        for rule, join in joins.items()
        if route_of(join) is Route.KERNELS and all(match.left == match.right for match in join.key)
    ]


def judge_counts(spark: Any, table: pa.Table, rules: Sequence[Rule], nulls: Nulls, sizes: Sizes) -> None:
    rows = rows_of(table)
    for rule, found in zip(
        rules, SparkEngine(to_spark(spark, table), sizes).count(rules, CheckOptions(nulls)), strict=True
    ):
        assert found == naive.count(rows, rule, nulls), Case(table, rule, nulls)


def judge_check(
    spark: Any, table: pa.Table, rules: Sequence[Rule], nulls: Nulls, sizes: Sizes, *, causes: bool = False
) -> None:
    """Compare a check with the oracle. Looking for causes takes several jobs for each broken rule, so few tests do."""
    rows = rows_of(table)
    ids = table.column(KEY).to_pylist()
    options = CheckOptions(nulls, key=(KEY,), sample=3, causes=causes)
    report = SparkEngine(to_spark(spark, table), sizes).check(rules, options)
    assert report.n_rows == table.num_rows
    for rule, result in zip(rules, report, strict=True):
        case = Case(table, rule, nulls)
        expected = naive.violations(rows, rule, nulls)
        assert result.violations == len(expected), case
        assert result.holds == (not expected), case
        assert result.rows_in_conflict == len({row for violation in expected for row in violation}), case
        removal = result.rows_to_remove
        assert removal is not None
        if len(rows) <= 14:
            assert removal.least <= naive.rows_to_remove(rows, rule, nulls) <= removal.most, (removal, case)
        named = {tuple(ids[row] for row in violation) for violation in expected}
        shown = {tuple(side[KEY] for side in (pair.left, pair.right) if side is not None) for pair in result.sample}
        assert shown <= named, (shown, case)
        assert bool(shown) == bool(named), case
    judge_rows(report, table, nulls)


def judge_rows(report: Report, table: pa.Table, nulls: Nulls) -> None:
    """What the report says about rows over all rules: how many are in conflict, where, and which are the busiest."""
    rows, ids = rows_of(table), table.column(KEY).to_pylist()
    conflicts, broken = Counter[int](), dict[int, list[int]]()
    for number, result in enumerate(report):
        found = naive.violations(rows, result.rule, nulls)
        for row in {row for violation in found for row in violation}:
            broken.setdefault(row, []).append(number)
        # A pair that breaks a symmetric rule does so both ways round, and is one conflict.
        pairs = {frozenset(pair) for pair in found} if join_of(result.rule).symmetric else found
        conflicts.update(row for pair in pairs for row in pair)
        n_slices = min(60, len(rows))
        where = Counter(row * n_slices // len(rows) for row in {row for violation in found for row in violation})
        assert result.where == (tuple(where[place] for place in range(n_slices)) if where else ()), result.rule
    assert report.rows_in_conflict == len(broken)
    busiest = sorted(conflicts, key=lambda row: (-conflicts[row], row))[:20]
    assert [dict(row.identity) for row in report.busiest] == [{KEY: ids[row]} for row in busiest]
    assert [row.conflicts for row in report.busiest] == [conflicts[row] for row in busiest]
    assert [list(row.rules) for row in report.busiest] == [broken[row] for row in busiest]


def judge_suspects(spark: Any, table: pa.Table, rules: Sequence[Rule], nulls: Nulls, sizes: Sizes) -> int:
    """Without its suspects each rule holds, and there are as many as the report says; how many rules had some."""
    rows, ids = rows_of(table), table.column(KEY).to_pylist()
    options = CheckOptions(nulls, key=(KEY,), sample=3, causes=False)
    report = SparkEngine(to_spark(spark, table), sizes).check(rules, options)
    parts: list[DataFrame] = []
    for number, result in enumerate(report):
        if isinstance(result.suspects, SparkListing):
            parts.append(result.suspects.data.select(F.lit(number), result.suspects.data.columns[0]))
    found: dict[int, list[int]] = {}
    for number, row in reduce(lambda one, other: one.union(other), parts).collect() if parts else ():
        found.setdefault(number, []).append(row)
    for number, gone in found.items():
        result, case = report[number], Case(table, rules[number], nulls)
        assert result.rows_to_remove is not None
        assert result.suspects is not None
        assert len(set(gone)) == len(gone) == len(result.suspects) >= result.rows_to_remove.least, case
        if result.rows_to_remove.is_exact or sizes == IN_ONE_TASK:
            assert len(gone) == result.rows_to_remove.most, case
        kept = [row for row, name in zip(rows, ids, strict=True) if name not in set(gone)]
        assert not naive.violations(kept, result.rule, nulls), case
        assert {suspect.row[KEY] for suspect in result.first_suspects} <= set(gone), case
    return len(found)


def judge_joint(spark: Any, table: pa.Table, rules: Sequence[Rule], nulls: Nulls, sizes: Sizes) -> Removal:
    """The rows to remove for all rules together: as in-process if they are known, else bounds that enclose that."""
    options = CheckOptions(nulls, key=(KEY,), sample=3, joint=True, causes=False)
    there = SparkEngine(to_spark(spark, table), sizes).check(rules, options)
    here = LocalEngine(table).check(rules, options)
    known, case = there.rows_to_remove, [table, rules, nulls]
    assert known is not None
    assert here.rows_to_remove is not None
    if here.suspects is None:
        assert (known, there.suspects) == (here.rows_to_remove, None), case
    elif there.suspects is None:
        assert min(table.num_rows, there.rows_in_conflict or 0) > sizes.rows_a_task, case
        assert known.least <= here.rows_to_remove.least <= here.rows_to_remove.most <= known.most, case
    else:
        assert known == here.rows_to_remove, case
        assert there.first_suspects == here.first_suspects, case
        gone = set(there.suspects.table.column(0).to_pylist())
        assert len(gone) == len(there.suspects) == known.most, case
        rows = zip(rows_of(table), table.column(KEY).to_pylist(), strict=True)
        kept = [row for row, name in rows if name not in gone]
        assert not any(naive.violations(kept, rule, nulls) for rule in rules), case
    return known


def judge_verify(
    spark: Any, table: pa.Table, rules: Sequence[Rule], nulls: Nulls, sizes: Sizes, data: DataFrame | None = None
) -> None:
    """The verdict, and that its witness is a violation; with a key and without. `data` is the table on Spark."""
    data = to_spark(spark, table) if data is None else data
    rows = rows_of(table)
    ids = table.column(KEY).to_pylist()
    for rule in rules:
        expected = {tuple(ids[row] for row in violation) for violation in naive.violations(rows, rule, nulls)}
        case = Case(table, rule, nulls)
        verdict = SparkEngine(data, sizes).verify(rule, CheckOptions(nulls, key=(KEY,)))
        assert verdict.holds == (not expected), case
        if verdict.witness is not None:
            sides = (verdict.witness.left, verdict.witness.right)
            assert tuple(side[KEY] for side in sides if side is not None) in expected, case
        assert SparkEngine(data, sizes).verify(rule, CheckOptions(nulls)).holds == (not expected), case


def judge_lists(spark: Any, table: pa.Table, rules: Sequence[Rule], nulls: Nulls, sizes: Sizes) -> None:
    """All violations, the first five of them, and the rows in conflict, as sets."""
    data = to_spark(spark, table)
    ids = table.column(KEY).to_pylist()
    rows = rows_of(table)
    parts: list[DataFrame] = []
    for number, rule in enumerate(rules):
        for kind, limit in (("all", None), ("some", 5)):
            found = SparkEngine(data, sizes).violations(rule, CheckOptions(nulls, key=(KEY,)), limit=limit)
            parts.append(_tagged(found.select("left", F.col("right").cast("bigint")), number, kind))
        good, bad = SparkEngine(data, sizes).split([rule], CheckOptions(nulls))
        none = F.lit(None).cast("bigint")
        parts.append(_tagged(good.select(KEY, none), number, "good"))
        parts.append(_tagged(bad.select(KEY, none), number, "bad"))
    answers: dict[tuple[int, str], list[tuple[int, ...]]] = {}
    for row in reduce(lambda one, other: one.union(other), parts).collect():
        pair = (row["left"],) if row["right"] is None else (row["left"], row["right"])
        answers.setdefault((row["number"], row["kind"]), []).append(pair)
    for number, rule in enumerate(rules):
        case = Case(table, rule, nulls)
        expected = sorted(tuple(ids[row] for row in violation) for violation in naive.violations(rows, rule, nulls))
        assert sorted(answers.get((number, "all"), [])) == expected, case
        assert sorted(answers.get((number, "some"), [])) == expected[:5], case
        in_conflict = {row for violation in expected for row in violation}
        assert sorted(answers.get((number, "bad"), [])) == sorted((row,) for row in in_conflict), case
        assert sorted(answers.get((number, "good"), [])) == sorted((row,) for row in set(ids) - in_conflict), case


def _tagged(pairs: DataFrame, number: int, kind: str) -> DataFrame:
    return pairs.toDF("left", "right").select(F.lit(number).alias("number"), F.lit(kind).alias("kind"), "left", "right")
