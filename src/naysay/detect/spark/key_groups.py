"""Rules that kernels answer: rows of equal keys go to one task, which binds and counts them as in-process.

Rules with the same key travel together: one shuffle, one encoding of each column in a task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import or_

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.detect.spark import worker
from naysay.detect.spark.aggregate import Sums, collect_sums, sums_branch
from naysay.detect.spark.plan import RulePlan
from naysay.detect.spark.worker import LEFT, RIGHT, SIDE, TASK, TaskRule
from naysay.detect.summary import RuleSummary
from naysay.plan.join import Join
from naysay.rule.model import Row
from naysay.spark.expressions import HASH_OF_NOTHING, hash_of
from naysay.spark.frame import map_in_arrow
from naysay.spark.versions import deal_out, to_arrow, union

Work = Callable[[DataFrame, tuple[TaskRule, ...]], DataFrame]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How rows are dealt out to tasks. Answers do not depend on it, only time and memory do.

    `giant` is the number of rows from which a group of equal keys is not left to one task. If on average `rows_a_point`
    rows agree in all columns of the rules, they travel as one with their number; a group is then giant from four times
    as many rows on, since a task has them all as codes only.
    """

    rows_a_task: int = 250_000
    giant: int = 2_000_000
    rows_a_point: int = 8
    n_strips: int = 32

    def n_tasks(self, n_records: int) -> int:
        return max(1, -(-n_records // self.rows_a_task))


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

    def keys(self, row: Row) -> list[Expression]:
        """The key on one side, in comparable form, named by `key_names`."""
        keys = []
        for name, match in zip(self.key_names, self.join.key, strict=True):
            pair = (match.left, match.right) if row is Row.LEFT else (match.right, match.left)
            keys.append(self.plans[0].comparisons.comparable(*pair).alias(name))
        return keys

    def records(self, extra: Sequence[Expression] = (), *, met: bool = False) -> DataFrame:
        """The key in comparable form, all columns of the rules, and sides if they matter.

        `extra` columns travel along; `met` asks for the columns that say whether a row would meet itself.
        """
        on_left, on_right = (reduce(or_, [plan.on_side(row) for plan in self.plans]) for row in Row)
        data = self.plans[0].data
        itself = []
        if met or self.crossed:
            plans = [plan for plan in self.plans if not plan.join.irreflexive]
            itself = [plan.comparisons.meets_itself(plan.join).alias(itself_of(plan)) for plan in plans]
        if not self.crossed:
            # Filtered last: Spark may put a filter earlier, but not before it has numbered the rows.
            rows = data.select(
                *self.keys(Row.LEFT), *self.columns, *itself, *extra, (on_left | on_right).alias("on_side")
            )
            return rows.filter("on_side").drop("on_side")
        records = F.array(
            F.struct(*self.keys(Row.LEFT), side_column(LEFT), on_left.alias("on_side")),
            F.struct(*self.keys(Row.RIGHT), side_column(RIGHT), on_right.alias("on_side")),
        )
        rows = data.select(*self.columns, *itself, *extra, F.explode(records).alias("record"))
        return rows.select("*", "record.*").drop("record").filter("on_side").drop("on_side")

    def task_rules(self, *, sided: bool = False) -> tuple[TaskRule, ...]:
        """The rules as tasks see them on `records`; `sided` if all of them were also cut into sides."""
        sided = sided or self.crossed
        return tuple(
            replace(
                task_rule(plan), sided=sided, itself=itself_of(plan) if sided and not plan.join.irreflexive else None
            )
            for plan in self.plans
        )

    def _groups(self) -> DataFrame:
        return self.records().groupBy(*self.key_names).agg(F.count(F.lit(1)).alias("n"))

    def measure_branch(self, number: int) -> DataFrame:
        """How many records the rules look at, and how many the largest group has (as `removed`)."""
        return sums_branch(number, self._groups().agg(F.sum("n").alias("rows"), F.max("n").alias("removed")))

    def points_branch(self, number: int) -> DataFrame:
        """About how many distinct records the rules look at (as `rows`)."""
        records = self.records()
        points = F.approx_count_distinct(hash_of([F.col(name) for name in records.columns]))
        return sums_branch(number, records.agg(points.alias("rows")))

    def giant_keys(self, n_giant: int, n_records: int) -> dict[int, int]:
        """Hashes of the keys of groups too large for one task, and how many records these have."""
        if not self.key_names:
            return {HASH_OF_NOTHING: n_records}
        groups = self._groups().filter(F.col("n") > n_giant).select(self.key_hash().alias("hash"), "n")
        found: dict[int, int] = {}
        for row in to_arrow(groups).to_pylist():
            found[row["hash"]] = found.get(row["hash"], 0) + row["n"]
        return dict(sorted(found.items()))


def key_sets(plans: Sequence[RulePlan]) -> list[KeySet]:
    """Rules that can share a shuffle, together."""
    found: dict[frozenset[object], list[RulePlan]] = {}
    for plan in plans:
        found.setdefault(frozenset(plan.join.key), []).append(plan)
    # The parts of the key must be in one order too: that of the first rule.
    return [
        KeySet(tuple(replace(plan, join=replace(plan.join, key=group[0].join.key)) for plan in group))
        for group in found.values()
    ]


def task_rule(plan: RulePlan) -> TaskRule:
    """The rule as a task sees it that has whole rows."""
    return TaskRule(plan.number, plan.join, plan.comparisons.nulls, plan.columns, symmetric=plan.join.symmetric)


def itself_of(plan: RulePlan) -> str:
    """The column that says whether a row would meet itself under a rule."""
    return f"itself{plan.number}"


def side_column(side: int) -> Expression:
    return F.lit(side).cast(T.ByteType()).alias(SIDE)


@dataclass(frozen=True, slots=True)
class Measured:
    """A key set whose groups have been measured.

    `giants` are the groups not left to one task: the hashes of their keys, and how many records they have. About
    `n_points` of the records are distinct; `repeats`: most are like many others in all columns of the rules.
    """

    keys: KeySet
    sizes: Sizes
    n_records: int
    largest: int
    giants: Mapping[int, int] = field(default_factory=dict)
    repeats: bool = False
    n_points: int | None = None

    @property
    def plan(self) -> RulePlan:
        """The only rule, after `only`."""
        (plan,) = self.keys.plans
        return plan

    @property
    def is_spread(self) -> bool:
        """Whether a row may be in several tasks, so that rows in conflict do not add up."""
        return self.keys.crossed or bool(self.giants)

    def only(self, *plans: RulePlan) -> Measured:
        """The same groups, for some of the rules."""
        return replace(self, keys=KeySet(plans))

    def giant_records(self, extra: Sequence[Expression] = ()) -> DataFrame:
        """The records of giant groups (and of the few whose hash is the same)."""
        return self.keys.records(extra, met=True).filter(self.keys.key_hash().isin(list(self.giants)))

    def over_groups(self, work: Work, extra: Sequence[Expression] = ()) -> list[DataFrame]:
        """Do the work on all groups: those that fit a task there, the giant ones in blocks.

        The answers of the blocks of one group add up, but a row may be found in several of them.
        """
        return self.over_small_groups(work, extra) + self.over_giant_groups(work, extra)

    def over_small_groups(self, work: Work, extra: Sequence[Expression] = ()) -> list[DataFrame]:
        """Do the work on the groups that fit a task."""
        names = self.keys.key_names
        if self.giants and not names:
            return []
        records = self.keys.records(extra)
        if self.giants:
            records = records.filter(~self.keys.key_hash().isin(list(self.giants)))
        if self.repeats and not extra:
            # Records that are all alike as one, with their number: `worker.read` makes them many again.
            records = records.groupBy(*records.columns).agg(F.count(F.lit(1)).alias(worker.WEIGHT))
        if not names:
            return [work(records.repartition(1), self.keys.task_rules())]
        # The number is always given: left to choose, adaptive execution puts what is small into very few tasks.
        n_tasks = self.sizes.n_tasks(self.n_records)
        return [work(records.repartition(n_tasks, *names).drop(*names), self.keys.task_rules())]

    def over_giant_groups(self, work: Work, extra: Sequence[Expression] = ()) -> list[DataFrame]:
        """Do the work on giant groups in blocks."""
        if not self.giants:
            return []
        return [work(self._blocks(self.giant_records(extra)), self.keys.task_rules(sided=True))]

    def _blocks(self, records: DataFrame) -> DataFrame:
        """Records of giant groups, each row once for each task in which it is on the left or on the right.

        The result is dealt out, with columns SIDE and TASK.
        """
        keys = self.keys
        blocks_of, first_of, n_tasks = {}, {}, 0
        for key, n_records in self.giants.items():
            blocks_of[key], first_of[key] = max(2, -(-2 * n_records // self.sizes.giant)), n_tasks
            n_tasks += blocks_of[key] ** 2
        n_blocks, first = (_look_up(keys.key_hash(), of_key) for of_key in (blocks_of, first_of))
        block = F.pmod(hash_of([F.col(name) for name in keys.columns]), n_blocks).cast(T.IntegerType())
        others = F.sequence(F.lit(0), n_blocks - 1)
        left = F.transform(others, lambda other: _copy(LEFT, first + block * n_blocks + other, other == block))
        right = F.transform(others, lambda other: _copy(RIGHT, first + other * n_blocks + block, other == block))
        if keys.crossed:
            copies = F.when(F.col(SIDE) == LEFT, left).otherwise(right)
            records = records.withColumn("copy", F.explode(copies)).drop(SIDE)
        else:
            records = records.withColumn("copy", F.explode(F.concat(left, right)))
        kept = [
            (F.col(name) & F.col("copy.at_home")).alias(name) if name.startswith("itself") else F.col(name)
            for name in records.columns
            if name not in (*keys.key_names, "copy")
        ]
        parts = records.select(*kept, F.col("copy.side").alias(SIDE), F.col("copy.task").alias(TASK))
        return deal_out(parts, n_tasks, F.col(TASK))


def _look_up(key: Expression, values: Mapping[int, int]) -> Expression:
    pairs = ((F.lit(each).cast(T.LongType()), F.lit(value)) for each, value in values.items())
    # Over Connect, Spark 3.5 does not take a column between brackets.
    return F.element_at(F.create_map(*(part for pair in pairs for part in pair)), key)


def _copy(side: int, task: Expression, at_home: Expression) -> Expression:
    """A record of a row in a task; it may meet itself only if its own block is on both sides."""
    return F.struct(F.lit(side).cast(T.ByteType()).alias("side"), task.alias("task"), at_home.alias("at_home"))


def measure(keys: KeySet, sizes: Sizes, n_rows: int) -> Measured:
    """Measure the groups of a key set: a job, unless all rows fit one task."""
    if n_rows <= sizes.rows_a_task:
        return Measured(keys, sizes, n_rows, n_rows)
    return _measure_from(keys, sizes, collect_sums([keys.measure_branch(0)])[0])


def measure_branches(sets: Sequence[KeySet]) -> list[DataFrame]:
    """Branches that measure key sets, under numbers that no rule has."""
    branches = [keys.measure_branch(-1 - 2 * i) for i, keys in enumerate(sets)]
    return branches + [keys.points_branch(-2 - 2 * i) for i, keys in enumerate(sets)]


def measure_all(sets: Sequence[KeySet], sizes: Sizes, sums: Mapping[int, Sums]) -> list[Measured]:
    """The key sets with what `measure_branches` found."""
    return [_measure_from(keys, sizes, sums[-1 - 2 * i], sums[-2 - 2 * i].rows) for i, keys in enumerate(sets)]


def _measure_from(keys: KeySet, sizes: Sizes, sums: Sums, n_points: int | None = None) -> Measured:
    """Which groups are giant takes a job of its own, only if there are any."""
    repeats = n_points is not None and sums.rows > sizes.rows_a_task and n_points * sizes.rows_a_point <= sums.rows
    n_giant = 4 * sizes.giant if repeats else sizes.giant
    giants = keys.giant_keys(n_giant, sums.rows) if sums.removed > n_giant else {}
    return Measured(keys, sizes, sums.rows, sums.removed, giants, repeats, n_points)


def count(records: DataFrame, rules: tuple[TaskRule, ...]) -> DataFrame:
    """The counts of each rule in each partition of dealt records."""
    work = partial(worker.answer_partition, rules=rules, answer=worker.count_rule)
    return map_in_arrow(records, work, worker.SUMMARY)


def count_whole(plans: Sequence[RulePlan]) -> DataFrame:
    """The counts of all rules from one task with all rows."""
    rows = plans[0].data.select(*KeySet(tuple(plans)).columns).repartition(1)
    return count(rows, tuple(map(task_rule, plans)))


def collect_summaries(summaries: Sequence[DataFrame]) -> dict[int, RuleSummary[pa.Table]]:
    """Run the tasks of all summaries as one job and merge what they found. A rule without violations may be absent."""
    found: dict[int, RuleSummary[pa.Table]] = {}
    if summaries:
        for row in to_arrow(union(summaries)).to_pylist():
            found[row["rule"]] = found.get(row["rule"], RuleSummary()).merge(worker.read_summary(row))
    return found
