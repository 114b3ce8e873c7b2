"""Rules that kernels answer: rows of equal keys go to one task, which binds and counts them as in-process.

Rules with the same key travel together: one shuffle, one encoding of each column in a task.
"""

from __future__ import annotations

from collections import Counter
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
from naysay.errors import ResourceError
from naysay.plan.join import Join
from naysay.rule.model import Row
from naysay.rule.render import render
from naysay.spark.expressions import HASH_OF_NOTHING, hash_of, hash_text, opaque
from naysay.spark.frame import from_arrow, map_in_arrow
from naysay.spark.versions import deal_out, to_arrow, union

Work = Callable[[DataFrame, tuple[TaskRule, ...]], DataFrame]

# The answers of more tasks than this do not go to the driver one by one.
_MANY_TASKS = 64


@dataclass(frozen=True, slots=True)
class Sizes:
    """How rows are dealt out to tasks. Answers do not depend on it, only time and memory do.

    `giant` is the number of rows from which a group of equal keys is not left to one task. If on average `rows_a_point`
    rows agree in all columns of the rules, they travel as one with their number; a group is then giant from four times
    as many rows on, since a task has them all as codes only. Giant groups are cut into at least `n_strips` strips.
    """

    rows_a_task: int = 250_000
    giant: int = 2_000_000
    rows_a_point: int = 8
    n_strips: int = 32
    # Where one violation is enough, this many rows are looked at first; then, of a table in many files, shares of them,
    # each so many times the one before. In-process it is the same: on a rule that holds, a thirtieth more work.
    first: int = 10_000
    growth: int = 32
    # A row of a giant group in blocks is copied twice for each block: beyond this many, the copies are too many.
    most_blocks: int = 128

    @property
    def large(self) -> int:
        """A group of more rows has a task of its own: hashing might put several such groups into one task."""
        return min(self.rows_a_task // 2, self.giant)

    @property
    def rows_a_part(self) -> int:
        """About how many rows a block or a strip of a giant group has: a task holds two blocks."""
        return max(1, self.giant // 2)

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
            keys.append(self.plans[0].comparisons.comparable(*pair, name))
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
            on_side = on_left | on_right
            on_side = opaque(on_side) if len(self.plans) > 1 else on_side
            rows = data.select(*self.keys(Row.LEFT), *self.columns, *itself, *extra, on_side.alias("on_side"))
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

    def measure_branch(self, number: int, n_large: int) -> DataFrame:
        """How many records the rules look at, how many are alone, and the size of the largest group (as `removed`).

        The `sample` is the hash and the size of each group of more than `n_large` records: at most one for every so
        many records.
        """
        of_large = f"if(n > {n_large}, array({hash_text(self.key_names)}, n), null)"
        sums = {
            "rows": "sum(n)",
            "removed": "max(n)",
            "alone": "count(if(n = 1, 1, null))",
            "sample": f"flatten(collect_list({of_large}))",
        }
        groups = self.records().groupBy(*self.key_names).agg(F.expr("count(1) as n"))
        return sums_branch(number, groups, sums)

    def points_branch(self, number: int) -> DataFrame:
        """About how many distinct records the rules look at (as `rows`)."""
        records = self.records()
        return sums_branch(number, records, {"rows": f"approx_count_distinct({hash_text(records.columns)})"})


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
class MeasuredKeys:
    """A key set whose groups have been measured.

    `giants` are the groups not left to one task: the hashes of their keys, and how many records they have; `large` are
    those that have a task each. About `n_points` of the records are distinct; `repeats`: most are like many others in
    all columns of the rules. The keys of `n_alone` records have no other record.
    """

    keys: KeySet
    sizes: Sizes
    n_records: int
    largest: int
    giants: Mapping[int, int] = field(default_factory=dict)
    large: Mapping[int, int] = field(default_factory=dict)
    repeats: bool = False
    n_points: int | None = None
    n_alone: int = 0

    @property
    def plan(self) -> RulePlan:
        """The only rule, after `only`."""
        (plan,) = self.keys.plans
        return plan

    @property
    def is_spread(self) -> bool:
        """Whether a row may be in several tasks, so that rows in conflict do not add up."""
        return self.keys.crossed or bool(self.giants)

    @property
    def n_tasks(self) -> int:
        """How many tasks the groups go to, giant ones in blocks."""
        return self._n_places + sum(self.n_blocks(n_records) ** 2 for n_records in self.giants.values())

    @property
    def _n_places(self) -> int:
        """The number of tasks for groups that fit a task."""
        if not self.keys.key_names:
            return 0 if self.giants else 1
        n_elsewhere = sum(self.giants.values()) + sum(self.large.values())
        return len(self.large) + self.sizes.n_tasks(max(0, self.n_records - n_elsewhere))

    def n_blocks(self, n_records: int) -> int:
        """Into how many blocks a giant group is cut; two of them meet in each task."""
        return max(2, -(-n_records // self.sizes.rows_a_part))

    def only(self, *plans: RulePlan) -> MeasuredKeys:
        """The same groups, for some of the rules."""
        return replace(self, keys=KeySet(plans))

    def giant_records(self, extra: Sequence[Expression] = ()) -> DataFrame:
        """The records of giant groups (and of the few whose hash is the same)."""
        return self.keys.records(extra, met=True).filter(self.keys.key_hash().isin(list(self.giants)))

    def giant_rows(self) -> DataFrame:
        """The rows of giant groups, whole; only if the key compares each column with itself."""
        keys = self.keys
        return keys.plans[0].data.filter(hash_of(keys.keys(Row.LEFT)).isin(list(self.giants)))

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
        dealt = self._deal_large(records) if self.large else records.repartition(self._n_places, *names)
        return [work(dealt.drop(*names), self.keys.task_rules())]

    def _deal_large(self, records: DataFrame) -> DataFrame:
        """The large groups on a task each, the first ones, and the others by the hash of their keys."""
        n_large = len(self.large)
        places = pa.table(
            [pa.array(list(self.large), pa.int64()), pa.array(range(n_large), pa.int32())], ["key_hash", "dealt_to"]
        )
        looked_up = F.broadcast(from_arrow(records.sparkSession, places))
        records = records.withColumn("key_hash", self.keys.key_hash()).join(looked_up, "key_hash", "left")
        by_hash = F.pmod(F.col("key_hash"), F.lit(self._n_places - n_large)) + n_large
        records = records.withColumn("dealt_to", F.coalesce(F.col("dealt_to"), by_hash.cast(T.IntegerType()))).drop(
            "key_hash"
        )
        return deal_out(records, self._n_places, F.col("dealt_to")).drop("dealt_to")

    def over_giant_groups(self, work: Work, extra: Sequence[Expression] = ()) -> list[DataFrame]:
        """Do the work on giant groups in blocks.

        The answers of the blocks of one group add up, but a row may be found in several of them.
        """
        if not self.giants:
            return []
        self._require_few_blocks()
        return [work(self._blocks(self.giant_records(extra)), self.keys.task_rules(sided=True))]

    def _require_few_blocks(self) -> None:
        largest = max(self.giants.values())
        if self.n_blocks(largest) > self.sizes.most_blocks:
            rules = ", ".join(render(plan.named, short=True) for plan in self.keys.plans)
            can_count = not self.keys.crossed and all(plan.counts_without_blocks for plan in self.keys.plans)
            instead = "count the violations instead (`count`), " if can_count else ""
            raise ResourceError(
                f"{rules}: {largest:,} rows have the same values in the columns that must be equal, and each would be "
                f"copied {2 * self.n_blocks(largest):,} times to compare them; {instead}compare one more column for "
                "equality, or filter the table first"
            )

    def _blocks(self, records: DataFrame) -> DataFrame:
        """Records of giant groups, each row once for each task in which it is on the left or on the right.

        The result is dealt out, with columns SIDE and TASK.
        """
        keys = self.keys
        blocks_of, first_of, n_tasks = {}, {}, 0
        for key, n_records in self.giants.items():
            blocks_of[key], first_of[key] = self.n_blocks(n_records), n_tasks
            n_tasks += blocks_of[key] ** 2
        n_blocks, first = (look_up(keys.key_hash(), of_key) for of_key in (blocks_of, first_of))
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


def look_up(key: Expression, values: Mapping[int, int]) -> Expression:
    """The value of a key among a few."""
    pairs = ((F.lit(each).cast(T.LongType()), F.lit(value)) for each, value in values.items())
    # Over Connect, Spark 3.5 does not take a column between brackets.
    return F.element_at(F.create_map(*(part for pair in pairs for part in pair)), key)


def _copy(side: int, task: Expression, at_home: Expression) -> Expression:
    """A record of a row in a task; it may meet itself only if its own block is on both sides."""
    return F.struct(F.lit(side).cast(T.ByteType()).alias("side"), task.alias("task"), at_home.alias("at_home"))


def measure(keys: KeySet, sizes: Sizes, n_rows: int) -> MeasuredKeys:
    """Measure the groups of a key set: a job, unless all rows fit one task."""
    if n_rows <= sizes.rows_a_task:
        return MeasuredKeys(keys, sizes, n_rows, n_rows)
    return _measure_from(keys, sizes, collect_sums([keys.measure_branch(0, sizes.large)])[0])


def measure_branches(sets: Sequence[KeySet], sizes: Sizes) -> list[DataFrame]:
    """Branches that measure key sets, under numbers that no rule has."""
    branches = [keys.measure_branch(-1 - 2 * i, sizes.large) for i, keys in enumerate(sets)]
    return branches + [keys.points_branch(-2 - 2 * i) for i, keys in enumerate(sets)]


def measure_all(sets: Sequence[KeySet], sizes: Sizes, sums: Mapping[int, Sums]) -> list[MeasuredKeys]:
    """The key sets with what `measure_branches` found."""
    return [_measure_from(keys, sizes, sums[-1 - 2 * i], sums[-2 - 2 * i].rows) for i, keys in enumerate(sets)]


def _measure_from(keys: KeySet, sizes: Sizes, sums: Sums, n_points: int | None = None) -> MeasuredKeys:
    repeats = n_points is not None and sums.rows > sizes.rows_a_task and n_points * sizes.rows_a_point <= sums.rows
    n_giant = 4 * sizes.giant if repeats else sizes.giant
    groups: Counter[int] = Counter()
    for hashed, n_records in zip(sums.sample[::2], sums.sample[1::2], strict=True):
        groups[hashed] += n_records
    if not keys.key_names:
        groups = Counter({HASH_OF_NOTHING: sums.rows})
    giants = {hashed: n for hashed, n in sorted(groups.items()) if n > n_giant}
    large = {hashed: n for hashed, n in sorted(groups.items()) if n <= n_giant and keys.key_names}
    return MeasuredKeys(keys, sizes, sums.rows, sums.removed, giants, large, repeats, n_points, sums.alone)


def count(records: DataFrame, rules: tuple[TaskRule, ...]) -> DataFrame:
    """The counts of each rule in each partition of dealt records."""
    work = partial(worker.answer_partition, rules=rules, answer=worker.count_rule)
    return map_in_arrow(records, work, worker.SUMMARY)


def count_whole(plans: Sequence[RulePlan]) -> DataFrame:
    """The counts of all rules from one task with all rows."""
    rows = plans[0].data.select(*KeySet(tuple(plans)).columns).repartition(1)
    return count(rows, tuple(map(task_rule, plans)))


def collect_summaries(summaries: Sequence[DataFrame], n_tasks: int = 1) -> dict[int, RuleSummary[pa.Table]]:
    """Run the tasks of all summaries as one job and merge what they found. A rule without violations may be absent.

    If many tasks answer, one more task merges the answers, so that the driver gets one for each rule.
    """
    if not summaries:
        return {}
    answers = union(summaries)
    if n_tasks > _MANY_TASKS:
        in_order = answers.withColumn(worker.TASK, F.spark_partition_id()).repartition(1)
        answers = map_in_arrow(in_order, worker.merge_summaries, worker.SUMMARY)
    return worker.read_summaries(to_arrow(answers).to_pylist())
