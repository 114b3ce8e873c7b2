"""Rules that kernels answer: rows of equal keys go to one task, which binds and counts them as in-process.

Rules with the same key travel together: one shuffle, one encoding of each column in a task. A table that is small
enough for one task goes to one task with all its rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import or_

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.detect.spark import worker as tasks
from naysay.detect.spark.aggregate import sums_branch
from naysay.detect.spark.plan import RulePlan, key_columns
from naysay.detect.spark.worker import TaskRule
from naysay.plan.join import Join
from naysay.rule.model import Nulls, Row
from naysay.spark.arrow import map_in_arrow
from naysay.spark.expressions import HASH_OF_NOTHING, Meaning, hash_of


@dataclass(frozen=True, slots=True)
class Sizes:
    """How rows are dealt out to tasks. Answers do not depend on it, only time and memory do.

    `giant` is the number of rows from which a group of equal keys is not left to one task. Where there are on average
    `rows_a_point` rows that agree in all columns of the rules, they travel as one with their number; a group is then
    giant from four times as many rows on, since a task has them all as codes only.
    """

    rows_a_task: int = 250_000
    giant: int = 2_000_000
    rows_a_point: int = 8
    n_strips: int = 32


@dataclass(frozen=True, slots=True)
class KeySet:
    """Rules with the same key. `crossed`: the key compares different columns, so that a row has two places to go to."""

    plans: tuple[RulePlan, ...]

    @property
    def join(self) -> Join:
        return self.plans[0].join

    @property
    def crossed(self) -> bool:
        return any(match.left != match.right for match in self.join.key)

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for plan in self.plans for name in plan.columns))

    @property
    def key_names(self) -> list[str]:
        return [f"k{i}" for i in range(len(self.join.key))]

    def key_hash(self) -> Expression:
        """The hash of a record's key. Keys with equal hashes may differ: only what need not be exact goes by it."""
        return hash_of([F.col(name) for name in self.key_names])

    def keys(self, meaning: Meaning, row: Row) -> list[Expression]:
        """The key on one side, in comparable form, named by `key_names`."""
        pairs = key_columns(self.join, row)
        return [meaning.comparable(*pair).alias(name) for name, pair in zip(self.key_names, pairs, strict=True)]


@dataclass(frozen=True, slots=True)
class TaskSums:
    """What the tasks found about one rule, added up. `sample` holds values of rows in conflict."""

    violations: int = 0
    rows: int = 0
    least: int = 0
    most: int = 0
    sample: tuple[pa.Table, ...] = ()

    def plus(self, violations: int, rows: int, sample: Sequence[pa.Table]) -> TaskSums:
        return replace(
            self,
            violations=self.violations + violations,
            rows=self.rows + rows,
            sample=(*self.sample, *(table for table in sample if table.num_rows)),
        )


def key_sets(plans: Sequence[RulePlan]) -> list[KeySet]:
    """Rules that can share a shuffle, together."""
    found: dict[frozenset[object], list[RulePlan]] = {}
    for plan in plans:
        found.setdefault(frozenset(plan.join.key), []).append(plan)
    # The parts of the key must stand in one order too: that of the first rule.
    return [
        KeySet(tuple(replace(plan, join=replace(plan.join, key=group[0].join.key)) for plan in group))
        for group in found.values()
    ]


def keyed_records(meaning: Meaning, keys: KeySet, extra: Sequence[Expression] = (), *, met: bool = False) -> DataFrame:
    """The records of a key set: its key in comparable form, all columns of its rules, and sides where they matter.

    `extra` columns travel along; `met` asks for the columns that say whether a row would meet itself.
    """
    joins = [plan.join for plan in keys.plans]
    on_left = reduce(or_, [meaning.side(join, Row.LEFT) for join in joins])
    on_right = reduce(or_, [meaning.side(join, Row.RIGHT) for join in joins])
    data = meaning.frame.data
    itself = []
    if met or keys.crossed:
        plans = [plan for plan in keys.plans if not plan.join.irreflexive]
        itself = [meaning.meets_itself(plan.join).alias(itself_of(plan)) for plan in plans]
    if not keys.crossed:
        rows = data.filter(on_left | on_right)
        return rows.select(*keys.keys(meaning, Row.LEFT), *keys.columns, *itself, *extra)
    records = F.array(
        F.struct(*keys.keys(meaning, Row.LEFT), _side(tasks.LEFT), on_left.alias("stands")),
        F.struct(*keys.keys(meaning, Row.RIGHT), _side(tasks.RIGHT), on_right.alias("stands")),
    )
    rows = data.select(*keys.columns, *itself, *extra, F.explode(records).alias("record"))
    return rows.select("*", "record.*").drop("record").filter("stands").drop("stands")


def task_rules(keys: KeySet, nulls: Nulls, *, sided: bool = False) -> tuple[TaskRule, ...]:
    """The rules as tasks see them on `keyed_records`; `sided` where all its rows were cut into sides besides."""
    sided = sided or keys.crossed
    return tuple(
        replace(
            task_rule(plan, nulls), sided=sided, itself=itself_of(plan) if sided and not plan.join.irreflexive else None
        )
        for plan in keys.plans
    )


def task_rule(plan: RulePlan, nulls: Nulls) -> TaskRule:
    """The rule as a task sees it that has whole rows."""
    return TaskRule(plan.number, plan.join, nulls, plan.columns)


def measure_branch(meaning: Meaning, keys: KeySet, number: int) -> DataFrame:
    """How many records the rules of a key set look at, and how many the largest group has (as `removed`)."""
    groups = keyed_records(meaning, keys).groupBy(*keys.key_names).agg(F.count(F.lit(1)).alias("n"))
    return sums_branch(number, groups.agg(F.sum("n").alias("rows"), F.max("n").alias("removed")))


def points_branch(meaning: Meaning, keys: KeySet, number: int) -> DataFrame:
    """About how many distinct records the rules of a key set look at (as `rows`)."""
    records = keyed_records(meaning, keys)
    points = F.approx_count_distinct(hash_of([F.col(name) for name in records.columns]))
    return sums_branch(number, records.agg(points.alias("rows")))


def as_points(records: DataFrame) -> DataFrame:
    """Records that are all alike as one, with their number: `tasks.read` makes them many again."""
    return records.groupBy(*records.columns).agg(F.count(F.lit(1)).alias(tasks.WEIGHT))


def giant_keys(meaning: Meaning, keys: KeySet, n_giant: int, n_records: int) -> dict[int, int]:
    """Hashes of the keys of groups too large for one task, and how many records these have."""
    if not keys.key_names:
        return {HASH_OF_NOTHING: n_records}
    groups = keyed_records(meaning, keys).groupBy(*keys.key_names).agg(F.count(F.lit(1)).alias("n"))
    found: dict[int, int] = {}
    for row in groups.filter(F.col("n") > n_giant).select(keys.key_hash().alias("hash"), "n").toArrow().to_pylist():
        found[row["hash"]] = found.get(row["hash"], 0) + row["n"]
    return dict(sorted(found.items()))


def dealt(records: DataFrame, keys: KeySet, n_records: int, sizes: Sizes) -> DataFrame:
    """Records of equal keys in one partition, without the key's comparable form."""
    if not keys.key_names:
        return records.repartition(1)
    # The number is always given: left to choose, adaptive execution puts what is small into very few tasks.
    n_tasks = max(1, -(-n_records // sizes.rows_a_task))
    return records.repartition(n_tasks, *keys.key_names).drop(*keys.key_names)


def whole_table(meaning: Meaning, plans: Sequence[RulePlan]) -> DataFrame:
    """All rows in one partition, with the columns of all rules."""
    return meaning.frame.data.select(*KeySet(tuple(plans)).columns).repartition(1)


def count(records: DataFrame, rules: tuple[TaskRule, ...]) -> DataFrame:
    """The counts of each rule in each partition of dealt records."""
    return map_in_arrow(records, partial(tasks.count_partition, rules=rules), tasks.SUMMARY)


def summarise(records: DataFrame, rules: tuple[TaskRule, ...], n_sample: int, *, removal: bool) -> DataFrame:
    """All that a report says of each rule, in each partition of dealt records."""
    work = partial(tasks.summarise_partition, rules=rules, n_sample=n_sample, removal=removal)
    return map_in_arrow(records, work, tasks.SUMMARY)


def collect_task_sums(summaries: Sequence[DataFrame]) -> dict[int, TaskSums]:
    """Run the tasks of all summaries as one job and add up what they found. A rule without violations may be absent."""
    found: dict[int, TaskSums] = {}
    if not summaries:
        return found
    for row in reduce(DataFrame.union, summaries).toArrow().to_pylist():
        before = found.get(row["rule"], TaskSums())
        sample = (pa.ipc.open_stream(row["sample"]).read_all(),) if row["sample"] else ()
        found[row["rule"]] = TaskSums(
            before.violations + row["violations"],
            before.rows + row["rows"],
            before.least + row["least"],
            before.most + row["most"],
            before.sample + sample,
        )
    return found


def _side(side: int) -> Expression:
    return F.lit(side).cast(T.ByteType()).alias(tasks.SIDE)


def itself_of(plan: RulePlan) -> str:
    """The column that says whether a row would meet itself under a rule."""
    return f"itself{plan.number}"
