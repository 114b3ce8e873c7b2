"""Rows in conflict: found by the values of a rule's columns, on which alone it depends whether a row is in conflict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.detect.spark import strip_verbs as spark_strip_work
from naysay.detect.spark import worker as tasks
from naysay.detect.spark.aggregate import collect_sums, conflict_groups, groups_branch, sums_branch
from naysay.detect.spark.key_groups import KeySet, Measured, Sizes, measure, over_groups, over_small_groups
from naysay.detect.spark.plan import Route, RulePlan
from naysay.detect.spark.strips import Grid, grid_of, has_strips
from naysay.detect.spark.worker import TaskRule
from naysay.rule.model import Row
from naysay.spark.expressions import Meaning, every
from naysay.spark.frame import Frame, map_in_arrow


def mark_conflicts(meaning: Meaning, plans: Sequence[RulePlan], sizes: Sizes) -> tuple[DataFrame, list[Expression]]:
    """All rows, with what it takes to tell for each rule which of them are in conflict, and the truth of it."""
    rows, marks = meaning.frame.data, []
    n_rows = int(rows.count())
    for plan in plans:
        rows, mark = _marked(meaning, plan, rows, sizes, n_rows)
        marks.append(mark)
    return rows, marks


def _marked(
    meaning: Meaning, plan: RulePlan, rows: DataFrame, sizes: Sizes, n_rows: int
) -> tuple[DataFrame, Expression]:
    """The rows with what it takes to see which of them are in conflict with a rule, and the truth of it.

    `n_rows` is the number of rows of the table.
    """
    stands = meaning.side(plan.join, Row.LEFT)
    if plan.route is Route.FILTER:
        return rows, stands
    if plan.route is Route.GROUPS and not plan.join.key:
        # One group of all rows: it is in conflict or not, and there is nothing to join by.
        sums = collect_sums([groups_branch(meaning, plan, 0)])[plan.number]
        return rows, stands & F.lit(sums.rows > 0)
    if plan.route is Route.GROUPS:
        values, sought = _conflict_keys(meaning, plan)
    else:
        found = measure(meaning, KeySet((plan,)), sizes, n_rows)
        values = conflict_values(meaning, plan, found, sizes).drop("n")
        sought = [meaning.comparable(name, name) for name in plan.columns]
        stands = F.lit(True)
    names = [f"r{plan.number}_{i}" for i in range(len(sought))]
    mark = f"r{plan.number}"
    values = values.toDF(*names).withColumn(mark, F.lit(True))
    joined = rows.join(values, _equal(sought, names), "left").drop(*names)
    return joined, stands & F.col(mark).isNotNull()


def in_conflict(meaning: Meaning, plan: RulePlan) -> Frame:
    """The frame with the rows alone whose key is in conflict, for a rule that runs by grouping and has a key."""
    values, sought = _conflict_keys(meaning, plan)
    names = [f"r_{i}" for i in range(len(sought))]
    rows = meaning.frame.data.join(values.toDF(*names), _equal(sought, names), "left_semi")
    return replace(meaning.frame, data=rows)


def _conflict_keys(meaning: Meaning, plan: RulePlan) -> tuple[DataFrame, list[Expression]]:
    keys = conflict_groups(meaning, plan).select(*(f"k{i}" for i in range(len(plan.join.key))))
    return keys, [meaning.comparable(match.left, match.right) for match in plan.join.key]


def _equal(values: Sequence[Expression], names: Sequence[str]) -> Expression:
    return every(value.eqNullSafe(F.col(name)) for value, name in zip(values, names, strict=True))


def conflict_values(meaning: Meaning, plan: RulePlan, found: Measured, sizes: Sizes) -> DataFrame:
    """The values of a rule's columns in rows in conflict: v0, v1, ... in comparable form, once each, and n, their rows.

    Whether a row is in conflict depends on these values alone: rows that agree in them are in conflict together.
    """
    return _counted(meaning, plan, _conflicting_rows(meaning, plan, found, sizes))


def _conflicting_rows(meaning: Meaning, plan: RulePlan, found: Measured, sizes: Sizes) -> DataFrame:
    fields = [T.StructField(name, meaning.frame.type_of(name)) for name in plan.columns]
    schema = T.StructType([*fields, T.StructField("place", T.LongType())])

    def work(records: DataFrame, rules: tuple[TaskRule, ...]) -> DataFrame:
        return map_in_arrow(records, partial(tasks.conflicts_of_partition, rule=rules[0]), schema)

    grid = conflict_grid(meaning, plan, found, sizes)
    if grid is None:
        return reduce(DataFrame.union, over_groups(meaning, found, sizes, work))
    small = over_small_groups(meaning, found, sizes, work)
    return reduce(DataFrame.union, [*small, spark_strip_work.conflicts(grid, sizes)])


def conflict_grid(meaning: Meaning, plan: RulePlan, found: Measured, sizes: Sizes) -> Grid | None:
    """The strips of a rule's giant groups, if rows in conflict can be told by them."""
    if not found.giants or not has_strips(plan.join) or not plan.join.irreflexive:
        return None
    grid = grid_of(meaning, plan, found, sizes)
    return grid if grid.knows_conflicts else None


def count_in_strips(grid: Grid, sizes: Sizes) -> int:
    """The rows in conflict of the giant groups of a grid."""
    if not grid.cells:
        return 0
    if grid.sided:
        # Known by one of its records, a row may be found by the other: only values bring the two together.
        rows = _counted(grid.meaning, grid.plan, spark_strip_work.conflicts(grid, sizes))
        return int(rows.agg(F.sum("n")).collect()[0][0] or 0)
    known = int(spark_strip_work.known_conflicts(grid).count())
    within = _counted(grid.meaning, grid.plan, spark_strip_work.conflicts_within(grid, sizes))
    return known + int(within.agg(F.sum("n")).collect()[0][0] or 0)


def _counted(meaning: Meaning, plan: RulePlan, rows: DataFrame) -> DataFrame:
    values = [meaning.comparable(name, name).alias(f"v{i}") for i, name in enumerate(plan.columns)]
    names = [f"v{i}" for i in range(len(values))]
    places = rows.select(*values, "place").groupBy(*names, "place").agg(F.count(F.lit(1)).alias("n"))
    # A row is found on each side and in each part of the work where it has a partner: any one of them counts it.
    return places.groupBy(*names).agg(F.max("n").alias("n"))


def conflict_rows_branch(meaning: Meaning, plan: RulePlan, found: Measured, sizes: Sizes) -> DataFrame:
    """A branch that counts the rows in conflict, where tasks cannot add them up."""
    values = conflict_values(meaning, plan, found, sizes)
    return sums_branch(plan.number, values.agg(F.sum("n").alias("rows")))
