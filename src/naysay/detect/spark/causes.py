"""Causes on Spark: rows are counted in tasks, and only sums and a bounded sample of the rows to blame come back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.arrays import Float64Array
from naysay.detect.causes import (
    FILE,
    LONGEST_TEXT,
    MOST_BLAMED,
    MOST_COLUMNS,
    Counts,
    Family,
    are_rarely_alone,
    columns_to_try,
    find_causes,
    has_enough,
    propose,
    scope_of,
    shown_causes,
)
from naysay.detect.result import Cause, Condition
from naysay.detect.spark import worker
from naysay.detect.spark.aggregate import conflict_groups, value_groups
from naysay.detect.spark.conflicts import all_equal
from naysay.detect.spark.key_groups import KeySet, Sizes, measure
from naysay.detect.spark.plan import Route, RulePlan
from naysay.detect.spark.worker import BLAME, SUSPECT, TaskRule
from naysay.rule.model import Row
from naysay.spark.expressions import every, hash_of
from naysay.spark.frame import Frame, arrow_type, map_in_arrow, position
from naysay.spark.identity import Identity
from naysay.spark.versions import to_arrow, union
from naysay.table.column import Kind


def other_columns(frame: Frame, hide: Collection[str]) -> dict[str, Expression]:
    """The columns in which causes are sought: those that can be compared, by position, and the file of a row."""
    names = [position(place) for place in range(len(frame.types)) if frame.names[place] not in hide]
    comparable = [name for name in names if frame.kind_of(name) not in (Kind.OTHER, Kind.NULL)]
    found = {name: _bounded(F.col(name), frame.kind_of(name)) for name in comparable[:MOST_COLUMNS]}
    return found if frame.file_row is None else found | {FILE: F.col(frame.file_row[0])}


def _bounded(column: Expression, kind: Kind) -> Expression:
    """The same values, but of a long text, which is never a cause, only as much as tells it from others."""
    if kind is not Kind.TEXT:
        return column
    shortened = F.concat(F.sha2(column, 512), F.substring(column, 1, LONGEST_TEXT))
    return F.when(F.octet_length(column) <= LONGEST_TEXT, column).otherwise(shortened)


def named_causes(frame: Frame, causes: Sequence[Cause]) -> tuple[Cause, ...]:
    """Causes with the names and values that people know."""
    return shown_causes(
        replace(cause, conditions=tuple(_named(frame, condition) for condition in cause.conditions)) for cause in causes
    )


def _named(frame: Frame, condition: Condition) -> Condition:
    if condition.column is None or condition.column == FILE:
        return condition
    outside = arrow_type(frame.type_of(condition.column))
    low, high = (bound.cast(outside) for bound in (condition.low, condition.high))
    return Condition(condition.kind, frame.name_of(condition.column), low, high)


def spark_causes(
    plan: RulePlan, identity: Identity, sizes: Sizes, n_rows: int, hide: Collection[str] = ()
) -> tuple[Cause, ...]:
    """The causes of a broken rule in a table too large for one task, if its suspects are known."""
    frame = plan.comparisons.frame
    others = other_columns(frame, hide)
    types = [(name, pa.string() if name == FILE else arrow_type(frame.type_of(name))) for name in others]
    tried = {name: others[name] for name in columns_to_try(plan.join, pa.schema(types))}
    blamed = _blamed(plan, identity, sizes, n_rows, tried) if tried else None
    if blamed is None:
        return ()
    return named_causes(frame, find_causes(SparkRows(blamed, *_population(plan, tried), tuple(tried))))


@dataclass(frozen=True, eq=False)
class SparkRows:
    """The rows to blame, with BLAME and SUSPECT; those of the rule; and of these the ones alone with their key."""

    blamed: DataFrame
    rows: DataFrame
    alone: DataFrame | None
    columns: tuple[str, ...]

    def families(self, within: Sequence[Condition], without: Sequence[Sequence[Condition]]) -> list[Family]:
        blamed = self.blamed
        if within or without:
            keep = partial(worker.filter_segments, **_segments(within, without))
            blamed = map_in_arrow(blamed, keep, blamed.schema)
        # In the order of hashes, which is as good as by chance.
        some = to_arrow(blamed.orderBy(hash_of([F.col(name) for name in self.columns])).limit(MOST_BLAMED))
        weights, is_suspect = (some.column(name).to_numpy() for name in (BLAME, SUSPECT))
        if not has_enough(np.count_nonzero(is_suspect)):
            return []
        return propose(some.select(self.columns), np.asarray(weights, np.float64))

    def count(
        self, families: Sequence[Family], within: Sequence[Condition], without: Sequence[Sequence[Condition]]
    ) -> Counts:
        work = partial(worker.count_segments, families=tuple(families), **_segments(within, without))
        parts = [self.blamed, self.rows, *([] if self.alone is None else [self.alone])]
        branches = [
            map_in_arrow(part, work, worker.FLAT)
            .groupBy("place")
            .agg(F.sum("number").alias("number"))
            .select(F.lit(number).alias("part"), "place", "number")
            for number, part in enumerate(parts)
        ]
        n_cells = [family.n_cells for family in families]
        sums = np.zeros((len(parts), 3 + 3 * sum(n_cells)))
        found = to_arrow(union(branches))
        places = tuple(np.asarray(found.column(name).to_numpy(), np.int64) for name in ("part", "place"))
        sums[places] = found.column("number").to_numpy()
        return Counts.of(sums[0] + _tested(*sums[1:]), n_cells)


def _segments(within: Sequence[Condition], without: Sequence[Sequence[Condition]]) -> dict[str, Any]:
    send = worker.send_conditions
    return {"within": send(within), "without": tuple(map(send, without))}


def _tested(rows: Float64Array, alone: Float64Array | None = None) -> Float64Array:
    """The rows that the rule could find broken: without those that are alone with their key, if these are few."""
    if alone is None or not are_rarely_alone(rows[0] - alone[0], rows[0]):
        return rows
    return rows - alone


def _population(plan: RulePlan, tried: dict[str, Expression]) -> tuple[DataFrame, DataFrame | None]:
    """The rows that a rule applies to, and those of them that are alone with their key."""
    columns = [column.alias(name) for name, column in tried.items()]
    if plan.join.one_row:
        return plan.data.filter(every(map(plan.comparisons.holds, scope_of(plan.join)))).select(*columns), None
    left, right = (plan.on_side(row) for row in Row)
    rows = plan.data.filter(left | right)
    if not plan.join.is_mirror or not plan.join.key:
        return rows.select(*columns), None
    keys = [plan.comparable(match.left).alias(f"k{i}") for i, match in enumerate(plan.join.key)]
    row = F.struct(*columns).alias("row")
    groups = rows.select(*keys, row).groupBy(*(f"k{i}" for i in range(len(keys))))
    first = groups.agg(F.count(F.lit(1)).alias("n"), F.first("row").alias("row"))
    return rows.select(*columns), first.filter("n = 1").select("row.*")


def _blamed(
    plan: RulePlan, identity: Identity, sizes: Sizes, n_rows: int, tried: dict[str, Expression]
) -> DataFrame | None:
    """The rows to blame with the columns to try, BLAME and SUSPECT; None if Spark does not know them."""
    columns = [column.alias(name) for name, column in tried.items()]
    one, yes = F.lit(1.0).alias(BLAME), F.lit(True).alias(SUSPECT)
    if plan.route is Route.FILTER:
        return plan.data.filter(plan.on_side(Row.LEFT)).select(*columns, one, yes)
    if plan.route is Route.KERNELS:
        return _by_kernels(plan, identity, sizes, n_rows, tried)
    if not plan.join.key:
        # One task would have to hold all values.
        return None
    rows = plan.data.filter(plan.on_side(Row.LEFT))
    keys = [f"k{i}" for i in range(len(plan.join.key))]
    sought = [plan.comparable(match.left) for match in plan.join.key]
    if plan.any_two_conflict:
        groups = conflict_groups(plan).select(*keys, F.col("n").alias("size"))
        found = rows.join(groups, all_equal(sought, keys))
        nth = F.row_number().over(Window.partitionBy(*keys).orderBy(*identity.columns))
        return found.select(*columns, (1 - 1 / F.col("size")).alias(BLAME), (nth > 1).alias(SUSPECT))
    assert plan.part is not None
    values = _shared_blame(value_groups(plan), keys)
    found = rows.join(values, all_equal([*sought, plan.comparable(plan.part.left)], [*keys, "value"]))
    return found.select(*columns, BLAME, SUSPECT)


def _shared_blame(values: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The values to blame under each key: see `Blame`. Of values equally common the least stays."""
    by_key = Window.partitionBy(*keys)
    size, most, n_most = F.col("c"), F.col("most"), F.col("n_most")
    nth = F.row_number().over(by_key.orderBy(size.desc(), F.col("value").asc_nulls_first()))
    values = values.withColumn("most", F.max("c").over(by_key)).withColumn("nth", nth)
    values = values.withColumn("n_most", F.sum((size == most).cast(T.LongType())).over(by_key))
    blame = F.when(size < most, F.lit(1.0)).otherwise((n_most - 1) / n_most) / size
    values = values.select(*keys, "value", blame.alias(BLAME), (F.col("nth") > 1).alias(SUSPECT))
    return values.filter((F.col(BLAME) > 0) | F.col(SUSPECT))


def _by_kernels(
    plan: RulePlan, identity: Identity, sizes: Sizes, n_rows: int, tried: dict[str, Expression]
) -> DataFrame | None:
    found = measure(KeySet((plan,)), sizes, n_rows)
    if found.giants:
        # Rows of one group are in several tasks, and none of them knows whom to blame.
        return None
    types = [(name, plan.comparisons.frame) for name in tried]
    fields = [T.StructField(name, T.StringType() if name == FILE else frame.type_of(name)) for name, frame in types]
    schema = T.StructType([*fields, T.StructField(BLAME, T.DoubleType()), T.StructField(SUSPECT, T.BooleanType())])

    def work(records: DataFrame, rules: tuple[TaskRule, ...]) -> DataFrame:
        find = partial(worker.blame_groups, rule=rules[0], names=tuple(identity.positions), others=tuple(tried))
        return map_in_arrow(records, find, schema)

    extra = [column.alias(name) for name, column in tried.items() if name not in plan.columns]
    (rows,) = found.over_small_groups(work, [*identity.attached(), *extra])
    return rows
