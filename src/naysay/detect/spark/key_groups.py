"""Rules that kernels answer: rows of equal keys go to one task, which binds and counts them as in-process.

Rules with the same key travel together: one shuffle, one encoding of each column in a task. A table that is small
enough for one task goes to one task with all its rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import or_

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.detect.spark import worker as tasks
from naysay.detect.spark.aggregate import Sums, collect_sums, sums_branch
from naysay.detect.spark.plan import RulePlan, key_columns
from naysay.detect.spark.worker import TaskRule
from naysay.detect.summary import RuleSummary
from naysay.plan.join import Join
from naysay.rule.model import Nulls, Row
from naysay.spark.expressions import HASH_OF_NOTHING, Meaning, hash_of
from naysay.spark.frame import map_in_arrow


def of_giants(records: DataFrame, keys: KeySet, giants: Mapping[int, int]) -> DataFrame:
    """The records of giant groups (and of the few whose hash is the same)."""
    return records.filter(keys.key_hash().isin(list(giants)))


def of_others(records: DataFrame, keys: KeySet, giants: Mapping[int, int]) -> DataFrame:
    return records.filter(~keys.key_hash().isin(list(giants))) if giants else records


def blocked(records: DataFrame, keys: KeySet, giants: Mapping[int, int], sizes: Sizes) -> DataFrame:
    """Records of giant groups, each row once for each task in which it stands on the left or on the right.

    `records` come from `keyed_records(..., met=True)`; the result is dealt out, with columns SIDE and TASK.
    """
    blocks_of, first_of, n_tasks = {}, {}, 0
    for key, n_records in giants.items():
        blocks_of[key], first_of[key] = max(2, -(-2 * n_records // sizes.giant)), n_tasks
        n_tasks += blocks_of[key] ** 2
    n_blocks, first = (_looked_up(keys.key_hash(), of_key) for of_key in (blocks_of, first_of))
    block = F.pmod(hash_of([F.col(name) for name in keys.columns]), n_blocks).cast(T.IntegerType())
    others = F.sequence(F.lit(0), n_blocks - 1)
    left = F.transform(others, lambda other: _copy(tasks.LEFT, first + block * n_blocks + other, other == block))
    right = F.transform(others, lambda other: _copy(tasks.RIGHT, first + other * n_blocks + block, other == block))
    if keys.crossed:
        copies = F.when(F.col(tasks.SIDE) == tasks.LEFT, left).otherwise(right)
        records = records.withColumn("copy", F.explode(copies)).drop(tasks.SIDE)
    else:
        records = records.withColumn("copy", F.explode(F.concat(left, right)))
    kept = [
        (F.col(name) & F.col("copy.at_home")).alias(name) if name.startswith("itself") else F.col(name)
        for name in records.columns
        if name not in (*keys.key_names, "copy")
    ]
    parts = records.select(*kept, F.col("copy.side").alias(tasks.SIDE), F.col("copy.task").alias(tasks.TASK))
    return parts.repartitionById(n_tasks, F.col(tasks.TASK))


def _looked_up(key: Expression, values: Mapping[int, int]) -> Expression:
    pairs = ((F.lit(each).cast(T.LongType()), F.lit(value)) for each, value in values.items())
    return F.create_map(*(part for pair in pairs for part in pair))[key]


def _copy(side: int, task: Expression, at_home: Expression) -> Expression:
    """A record of a row in a task; it may meet itself only where its own block stands on both sides."""
    return F.struct(F.lit(side).cast(T.ByteType()).alias("side"), task.alias("task"), at_home.alias("at_home"))


@dataclass(frozen=True, slots=True)
class Measured:
    """A key set whose groups have been measured. `giants` are those not left to one task: the hashes of their keys, and
    how many records they have.

    `repeats`: most records are like many others in all columns of the rules.
    """

    keys: KeySet
    n_records: int
    largest: int
    giants: Mapping[int, int]
    repeats: bool = False

    @property
    def is_spread(self) -> bool:
        """Whether a row may be in several tasks, so that rows in conflict do not add up."""
        return self.keys.crossed or bool(self.giants)


Work = Callable[[DataFrame, tuple[TaskRule, ...]], DataFrame]


def measured(meaning: Meaning, keys: KeySet, sums: Sums, sizes: Sizes, n_points: int | None = None) -> Measured:
    """What `measure_branch` found, and which groups are giant: a job of its own, only where there are any.

    `n_points` is what `points_branch` found, where it was asked.
    """
    repeats = n_points is not None and sums.rows > sizes.rows_a_task and n_points * sizes.rows_a_point <= sums.rows
    n_giant = 4 * sizes.giant if repeats else sizes.giant
    giants = giant_keys(meaning, keys, n_giant, sums.rows) if sums.removed > n_giant else {}
    return Measured(keys, sums.rows, sums.removed, giants, repeats)


def measure_branches(meaning: Meaning, key_sets: Sequence[KeySet]) -> list[DataFrame]:
    """Branches that measure key sets, under numbers that no rule has."""
    sizes = [measure_branch(meaning, keys, -1 - 2 * i) for i, keys in enumerate(key_sets)]
    return sizes + [points_branch(meaning, keys, -2 - 2 * i) for i, keys in enumerate(key_sets)]


def all_measured(meaning: Meaning, key_sets: Sequence[KeySet], sums: dict[int, Sums], sizes: Sizes) -> list[Measured]:
    """The key sets with what `measure_branches` found."""
    return [measured(meaning, keys, sums[-1 - 2 * i], sizes, sums[-2 - 2 * i].rows) for i, keys in enumerate(key_sets)]


def only(found: Measured, plans: Sequence[RulePlan]) -> Measured:
    """The same groups, for some of the rules."""
    return replace(found, keys=KeySet(tuple(plans)))


def measure(meaning: Meaning, keys: KeySet, sizes: Sizes, n_rows: int) -> Measured:
    """Measure the groups of a key set: a job, unless all rows fit one task."""
    if n_rows <= sizes.rows_a_task:
        return Measured(keys, n_rows, n_rows, {})
    return measured(meaning, keys, collect_sums([measure_branch(meaning, keys, 0)])[0], sizes)


def over_groups(
    meaning: Meaning, found: Measured, sizes: Sizes, work: Work, extra: Sequence[Expression] = ()
) -> list[DataFrame]:
    """Do the work on all groups: those that fit a task there, the giant ones in blocks.

    The answers of the blocks of one group add up, but a row may be found in several of them.
    """
    return [
        *over_small_groups(meaning, found, sizes, work, extra),
        *over_giant_groups(meaning, found, sizes, work, extra),
    ]


def over_small_groups(
    meaning: Meaning, found: Measured, sizes: Sizes, work: Work, extra: Sequence[Expression] = ()
) -> list[DataFrame]:
    """Do the work on the groups that fit a task."""
    if found.giants and not found.keys.key_names:
        return []
    records = of_others(keyed_records(meaning, found.keys, extra), found.keys, found.giants)
    if found.repeats and not extra:
        records = as_points(records)
    return [work(dealt(records, found.keys, found.n_records, sizes), task_rules(found.keys, meaning.nulls))]


def over_giant_groups(
    meaning: Meaning, found: Measured, sizes: Sizes, work: Work, extra: Sequence[Expression] = ()
) -> list[DataFrame]:
    """Do the work on giant groups in blocks."""
    if not found.giants:
        return []
    giant = of_giants(keyed_records(meaning, found.keys, extra, met=True), found.keys, found.giants)
    cut = blocked(giant, found.keys, found.giants, sizes)
    return [work(cut, task_rules(found.keys, meaning.nulls, sided=True))]


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


def collect_summaries(summaries: Sequence[DataFrame]) -> dict[int, RuleSummary[pa.Table]]:
    """Run the tasks of all summaries as one job and merge what they found. A rule without violations may be absent."""
    found: dict[int, RuleSummary[pa.Table]] = {}
    if summaries:
        for row in reduce(DataFrame.union, summaries).toArrow().to_pylist():
            found[row["rule"]] = found.get(row["rule"], RuleSummary()).merge(tasks.read_summary(row))
    return found


def _side(side: int) -> Expression:
    return F.lit(side).cast(T.ByteType()).alias(tasks.SIDE)


def itself_of(plan: RulePlan) -> str:
    """The column that says whether a row would meet itself under a rule."""
    return f"itself{plan.number}"
