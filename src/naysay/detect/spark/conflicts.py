"""Rows in conflict over all rules: how many there are, where they are, and which have the most conflicts.

With how many others a row breaks a rule depends on the values of the rule's columns only. So Spark finds the values in
conflict with each rule, and every row looks up its own: no pair is formed, no row needs a name, and copies of a row are
as many rows as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.detect.spark import worker
from naysay.detect.spark.aggregate import Sums, collect_sums, conflicts_among_all, row_conflicts, sums_branch
from naysay.detect.spark.grid import Grid, grid_of, has_strips
from naysay.detect.spark.key_groups import KeySet, MeasuredKeys
from naysay.detect.spark.plan import Route, RulePlan
from naysay.detect.spark.worker import BLAME, PLACE, PLACE_BITS, SUMMARY, SUSPECT, TaskRule, conflicts_name
from naysay.detect.summary import RuleSummary
from naysay.rule.model import Row
from naysay.spark.expressions import every, hash_of
from naysay.spark.frame import map_in_arrow
from naysay.spark.identity import Identity
from naysay.spark.versions import to_arrow, union

# At most this many values in conflict are sent to all tasks that read the table; more of them travel, with the rows.
FEW_VALUES = 100_000


@dataclass(frozen=True, slots=True)
class Findings:
    """What is known about each rule before its rows are counted; samples are hashes that lead to rows to show.

    `sums` are those of rules that run by filter or grouping; `sets` and `grids` were measured for the others.
    """

    summaries: dict[int, RuleSummary[int]]
    sums: Mapping[int, Sums]
    sets: Sequence[MeasuredKeys]
    grids: Mapping[int, Grid]

    @property
    def spread(self) -> set[int]:
        """The rules of which a row may have been in several tasks, which then cannot add up the rows in conflict."""
        return {plan.number for each in self.sets if each.is_spread for plan in each.keys.plans}


@dataclass(frozen=True, slots=True)
class LookUp:
    """Values in conflict with some rules, at most about `n_values`, to be found by `sought`.

    The first columns of `values` are those sought, then come the conflicts, and BLAME and SUSPECT if they are wanted.
    """

    rules: Set[int]
    sought: Sequence[Expression]
    values: DataFrame
    n_values: int

    @property
    def is_small(self) -> bool:
        return self.n_values <= FEW_VALUES

    @property
    def columns(self) -> list[str]:
        """The columns of `values` that are sought."""
        return list(self.values.columns[: len(self.sought)])

    def table(self, names: Sequence[str], numbers: Iterable[Expression]) -> DataFrame:
        """The values under some names, and some numbers behind them."""
        keys = (F.col(column).alias(name) for column, name in zip(self.columns, names, strict=True))
        return self.values.select(*keys, *numbers)


def conflict_grid(found: MeasuredKeys) -> Grid | None:
    """The strips of a rule's giant groups, if they show which rows are in conflict."""
    if not found.giants or found.keys.crossed or not has_strips(found.plan.join) or not found.plan.join.irreflexive:
        return None
    grid = grid_of(found)
    return grid if grid.knows_conflicts else None


def conflict_values(found: MeasuredKeys, grid: Grid | None, *, blame: bool = False) -> DataFrame:
    """The values of the columns of a key set in rows in conflict: v0, v1, ... in comparable form, once each.

    Behind them, for each rule, the number of others with which each such row conflicts. Giant groups go in blocks, or
    by the grid of the only rule if it has one. With `blame`, if no group is giant, then BLAME and SUSPECT of each rule.
    """
    keys, schema = found.keys, _conflict_schema(found.keys)
    if blame:
        fields = (T.StructField(name, T.DoubleType()) for name in _blame_names(keys.plans))
        schema = T.StructType([*schema.fields, *fields])

    def work(records: DataFrame, rules: tuple[TaskRule, ...]) -> DataFrame:
        find = partial(worker.conflicts_of_partition, rules=rules, columns=tuple(keys.columns), blame=blame)
        return map_in_arrow(records, find, schema)

    parts = found.over_small_groups(work)
    parts += found.over_giant_groups(work) if grid is None else grid.conflicts(schema)
    return _merge_places(found, parts, _blame_names(keys.plans) if blame else ())


def _blame_names(plans: Sequence[RulePlan]) -> list[str]:
    return [f"{name}{plan.number}" for plan in plans for name in (BLAME, SUSPECT)]


def left_values(found: MeasuredKeys, grid: Grid) -> DataFrame:
    """As `conflict_values`, for the left rows of violations in the giant groups of the only rule of a key set."""
    return _merge_places(found, grid.conflicts(_conflict_schema(found.keys), left_only=True))


def _conflict_schema(keys: KeySet) -> T.StructType:
    type_of = keys.plans[0].comparisons.frame.type_of
    fields = [T.StructField(name, type_of(name)) for name in keys.columns]
    counts = (conflicts_name(plan.number) for plan in keys.plans)
    return T.StructType([*fields, *(T.StructField(name, T.LongType()) for name in (PLACE, *counts))])


def _merge_places(found: MeasuredKeys, parts: Sequence[DataFrame], more: Sequence[str] = ()) -> DataFrame:
    keys = found.keys
    counts = [conflicts_name(plan.number) for plan in keys.plans]
    values = [keys.plans[0].comparable(name).alias(f"v{i}") for i, name in enumerate(keys.columns)]
    names = [f"v{i}" for i in range(len(values))]
    rows = union(parts).select(*values, PLACE, *counts, *more)
    # Rows with the same values have the same conflicts in each place, and whole groups are in one place.
    by = [*names, PLACE] if found.is_spread else names
    merged = rows.groupBy(*by).agg(*(F.max(name).alias(name) for name in (*counts, *more)))
    if found.is_spread:
        sums = (F.sum(name).alias(name) for name in counts)
        merged = merged.groupBy(*names).agg(*sums, *(F.max(name).alias(name) for name in more))
    return shared(merged, [*counts, *more]) if more else merged


def shared(values: DataFrame, numbers: Sequence[str]) -> DataFrame:
    """The same values, whose numbers are never negative, with nothing left out below.

    They are looked up twice, each time for some of the numbers. If Spark left the others out, it would find the values
    twice, too, as the plans would differ.
    """
    return values.filter(every(F.col(name) >= 0 for name in numbers))


def looked_up(values: DataFrame) -> DataFrame:
    """Values for rows to look up. Spark overestimates them and would move the rows, so a job counts them first."""
    return F.broadcast(values) if values.count() <= FEW_VALUES else values


def all_equal(values: Sequence[Expression], names: Sequence[str]) -> Expression:
    """Whether values are those of some columns, where null is equal to null."""
    return every(value.eqNullSafe(F.col(name)) for value, name in zip(values, names, strict=True))


class Beside(Protocol):
    """Rows that come in the same job as a tally, under BLAMED: some of those in conflict, and some others."""

    @property
    def numbers(self) -> Set[int]:
        """The rules of which it needs BLAME and SUSPECT, under the names that `conflict_values` gives them."""

    def rows(self, look_ups: Sequence[LookUp]) -> DataFrame:
        """The rows as SUMMARY."""


def tally_rows(
    plans: Sequence[RulePlan], findings: Findings, identity: Identity, beside: Beside | None = None
) -> dict[int, RuleSummary[pa.Table]]:
    """For each broken rule how many rows are in conflict and where; for ALL_RULES how many, and the busiest rows.

    Rows `beside` come in the same job, but in a pass of their own: here nearly all rows may be in conflict, and all
    columns of all of them would travel.
    """
    look_ups = find_look_ups(plans, findings, frozenset() if beside is None else beside.numbers)
    is_small = all(each.is_small for each in look_ups)
    data = plans[0].data
    rows = data.withColumn(PLACE, F.monotonically_increasing_id())
    if not is_small:
        # Rows that travel to where the values are take only what is needed along.
        columns = dict.fromkeys(name for plan in plans for name in plan.columns)
        rows = rows.select(*columns, *identity.attached(), PLACE)
    for number, each in enumerate(look_ups):
        names = [f"v{number}_{i}" for i in range(len(each.sought))]
        values = each.table(names, [F.col(conflicts_name(rule)) for rule in sorted(each.rules)])
        values = F.broadcast(values) if each.is_small else values
        rows = rows.join(values, all_equal(each.sought, names), "left")
    counts = {conflicts_name(plan.number): _conflicts_of(plan, findings) for plan in plans}
    rows = rows.filter(reduce(or_, map(_in_conflict, plans)))
    named = identity.attached() if is_small else identity.positions
    rows = rows.select(*named, PLACE, *(count.alias(name) for name, count in counts.items()))
    read = [value for each in look_ups for value in each.sought]
    read += [plan.on_side(Row.LEFT) for plan in plans if plan.route is not Route.KERNELS]
    tally = partial(
        worker.tally_partition,
        numbers=tuple(plan.number for plan in plans),
        names=tuple(identity.positions),
        sizes=partition_sizes(collect_sums([sizes_branch(0, data, read)])[0]),
    )
    tallies = map_in_arrow(rows, tally, SUMMARY).repartition(1)
    merged = map_in_arrow(tallies, worker.merge_tallies, SUMMARY)
    more = [] if beside is None else [beside.rows(look_ups)]
    return worker.read_summaries(to_arrow(union([merged, *more])).to_pylist())


def find_look_ups(plans: Sequence[RulePlan], findings: Findings, blamed: Set[int] = frozenset()) -> list[LookUp]:
    """Where to look up the conflicts of rows; with BLAME and SUSPECT of the rules `blamed`."""
    found = []
    for plan in plans:
        if plan.route is Route.GROUPS and (plan.join.key or plan.part is not None):
            parts = [*plan.join.key, *([] if plan.part is None else [plan.part])]
            sums = findings.sums[plan.number]
            values = _values_of_groups(plan, sums.rows, blame=plan.number in blamed)
            sought = [plan.comparable(part.left) for part in parts]
            found.append(LookUp({plan.number}, sought, values, sums.distinct))
    numbers = {plan.number for plan in plans}
    for each in findings.sets:
        broken = [plan for plan in each.keys.plans if plan.number in numbers]
        # The giant groups of each rule are cut in another way.
        for together in [[plan] for plan in broken] if each.giants else [broken] if broken else []:
            part = each.only(*together)
            sought = [together[0].comparable(name) for name in part.keys.columns]
            n_values = each.n_records if each.n_points is None else each.n_points
            if not each.is_spread:
                n_values = min(n_values, sum(findings.summaries[plan.number].rows_in_conflict for plan in together))
            rules = {plan.number for plan in together}
            grid = findings.grids.get(together[0].number)
            values = conflict_values(part, grid, blame=not blamed.isdisjoint(rules))
            found.append(LookUp(rules, sought, values, n_values))
    return found


def _values_of_groups(plan: RulePlan, n_rows: int, *, blame: bool) -> DataFrame:
    number = plan.number
    values = row_conflicts(plan, n_rows, blame=blame)
    names = {"n": conflicts_name(number), BLAME: f"{BLAME}{number}", SUSPECT: f"{SUSPECT}{number}"}
    if blame:
        values = shared(values, list(names))
    return values.toDF(*(names.get(name, name) for name in values.columns))


def _conflicts_of(plan: RulePlan, findings: Findings) -> Expression:
    """With how many others a row breaks a rule, once its values have been looked up; never null."""
    if plan.route is Route.FILTER:
        count = F.lit(1)
    elif plan.route is Route.GROUPS and not plan.join.key and plan.part is None:
        count = F.lit(conflicts_among_all(plan, findings.sums[plan.number].rows))
    else:
        count = F.coalesce(F.col(conflicts_name(plan.number)), F.lit(0))
    # The values of a rule that runs by kernels include those that decide on which side a row is.
    on_side = F.lit(True) if plan.route is Route.KERNELS else plan.on_side(Row.LEFT)
    return F.when(on_side, count).otherwise(F.lit(0)).cast(T.LongType())


def _in_conflict(plan: RulePlan) -> Expression:
    """Whether a row breaks a rule, once its values have been looked up; never null.

    Of `_conflicts_of` it has no part in common: for each number that a filter contains and that the rows get as a
    column, Spark would infer all conditions twice, once with the number and once with the column.
    """
    on_side = F.lit(True) if plan.route is Route.KERNELS else plan.on_side(Row.LEFT)
    if plan.route is Route.FILTER or (plan.route is Route.GROUPS and not plan.join.key and plan.part is None):
        return on_side
    return on_side & F.coalesce(F.col(conflicts_name(plan.number)) > 0, F.lit(False))


def sizes_branch(number: int, data: DataFrame, read: Sequence[Expression]) -> DataFrame:
    """A branch for `partition_sizes`. What is `read` of each row may change the partitions, so it is read here too."""
    partition = F.shiftright(F.monotonically_increasing_id(), PLACE_BITS).alias("partition")
    rows = data.select(partition, hash_of(read).alias("read"))
    counts = rows.groupBy("partition").agg(F.expr("count(1) as n"), F.expr("bit_xor(`read`) as `read`"))
    packed = f"collect_list(shiftleft(`partition`, {PLACE_BITS}) + n)"
    return sums_branch(number, counts, {"sample": packed, "itself": "bit_xor(`read`)"})


def partition_sizes(sums: Sums) -> tuple[int, ...]:
    """The number of rows in each partition, in the order in which Spark reads them."""
    sizes = {packed >> PLACE_BITS: packed & ((1 << PLACE_BITS) - 1) for packed in sums.sample}
    return tuple(sizes.get(place, 0) for place in range(max(sizes, default=-1) + 1))
