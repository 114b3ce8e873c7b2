"""Rows without which a rule holds, and the groups of a dependency, as DataFrames that nobody has run yet."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.detect.spark import worker
from naysay.detect.spark.aggregate import commonest_first, row_conflicts, value_groups
from naysay.detect.spark.conflicts import all_equal, looked_up
from naysay.detect.spark.key_groups import KeySet, Sizes, measure, task_rule
from naysay.detect.spark.plan import Route, RulePlan
from naysay.detect.spark.worker import PLACE, SUSPECT, TaskRule
from naysay.rule.model import Row
from naysay.spark.frame import map_in_arrow
from naysay.spark.identity import Identity, Naming, number_copies
from naysay.table.compatibility import free_name


def knows_suspects(plan: RulePlan, *, is_spread: bool) -> bool:
    """Whether the rows to remove can be named: not if groups were cut, nor if all rows but one are to go."""
    is_all_but_one = plan.route is Route.GROUPS and plan.any_two_conflict and not plan.join.key
    return not is_spread and not is_all_but_one


def suspects_of(plan: RulePlan, identity: Identity, sizes: Sizes, n_rows: int) -> DataFrame:
    """The rows to remove: row, and the columns of the rule. In a small table those that a task with all rows finds."""
    if n_rows <= sizes.rows_a_task:
        rows = _in_one_task(plan, identity)
    elif plan.route is Route.KERNELS:
        rows = number_copies(_by_kernels(plan, identity, sizes, n_rows), identity)
    else:
        named = plan.data.filter(plan.on_side(Row.LEFT))
        if plan.route is Route.GROUPS:
            named = _all_but_one(named, plan, identity) if plan.any_two_conflict else _all_but_commonest(named, plan)
        rows = number_copies(named.select(*identity.attached(), *plan.columns), identity)
    names = [plan.comparisons.frame.name_of(name) for name in plan.columns]
    return rows.select(identity.value(""), *plan.columns).toDF(free_name("row", names), *names)


def _schema(plan: RulePlan, identity: Identity) -> T.StructType:
    types = [*identity.types, *map(plan.comparisons.frame.type_of, plan.columns)]
    names = [*identity.positions, *plan.columns]
    return T.StructType([T.StructField(name, type_) for name, type_ in zip(names, types, strict=True)])


def _in_one_task(plan: RulePlan, identity: Identity) -> DataFrame:
    place = F.monotonically_increasing_id().alias(PLACE)
    records = plan.data.select(*plan.columns, *identity.attached(), place).repartition(1)
    find = partial(
        worker.suspects_of_table,
        rule=task_rule(plan),
        names=tuple(identity.positions),
        number_copies=identity.naming is Naming.CONTENT,
    )
    return map_in_arrow(records, find, _schema(plan, identity))


def _by_kernels(plan: RulePlan, identity: Identity, sizes: Sizes, n_rows: int) -> DataFrame:
    def work(records: DataFrame, rules: tuple[TaskRule, ...]) -> DataFrame:
        find = partial(worker.suspects_of_groups, rule=rules[0], names=tuple(identity.positions))
        return map_in_arrow(records, find, _schema(plan, identity))

    found = measure(KeySet((plan,)), sizes, n_rows)
    (rows,) = found.over_small_groups(work, identity.attached())
    return rows


def _all_but_one(rows: DataFrame, plan: RulePlan, identity: Identity) -> DataFrame:
    keys = [plan.comparable(match.left) for match in plan.join.key]
    nth = F.row_number().over(Window.partitionBy(*keys).orderBy(*identity.columns))
    return rows.withColumn("nth", nth).filter("nth > 1")


def _all_but_commonest(rows: DataFrame, plan: RulePlan) -> DataFrame:
    """The rows that do not have the commonest value of their key; of values equally common the least stays."""
    assert plan.part is not None
    keys = [f"k{i}" for i in range(len(plan.join.key))]
    sought = [plan.comparable(part.left) for part in (*plan.join.key, plan.part)]
    if not keys:
        kept = value_groups(plan).orderBy(*commonest_first()).limit(1).select("value")
        return rows.join(F.broadcast(kept), all_equal(sought, ["value"]), "left_anti")
    gone = row_conflicts(plan, 0, blame=True).filter(F.col(SUSPECT) > 0).select(*keys, "value")
    return rows.join(looked_up(gone), all_equal(sought, [*keys, "value"]), "left_semi")


def groups_of(plan: RulePlan) -> DataFrame:
    """The keys of a dependency that have several values: the key, rows, and values with their rows, as in-process."""
    frame = plan.comparisons.frame
    keys = list(dict.fromkeys(match.left for match in plan.join.key))
    (value,) = (match.left for match in plan.join.differs)
    names = [f"k{i}" for i in range(len(keys))]
    rows = plan.data.filter(plan.on_side(Row.LEFT))
    compared = [plan.comparable(name).alias(alias) for name, alias in zip(keys, names, strict=True)]
    raw = [F.col(name).alias(f"raw{i}") for i, name in enumerate([*keys, value])]
    counted = (
        rows.select(*compared, plan.comparable(value).alias("value"), *raw)
        .groupBy(*names, "value")
        .agg(F.count(F.lit(1)).alias("rows"), *(F.min(f"raw{i}").alias(f"raw{i}") for i in range(len(raw))))
    )
    each = F.struct((-F.col("rows")).alias("order"), F.col(f"raw{len(keys)}").alias("value"), F.col("rows"))
    groups = counted.groupBy(*names).agg(
        *(F.min(f"raw{i}").alias(f"raw{i}") for i in range(len(keys))),
        F.sum("rows").alias("rows"),
        F.max("rows").alias("most"),
        F.array_sort(F.collect_list(each)).alias("values"),
    )
    lopsided = 1 - F.col("most") / F.col("rows")
    ordered = groups.filter(F.size("values") > 1).orderBy(lopsided, F.col("rows").desc(), *names)
    values = F.transform("values", lambda one: F.struct(one["value"].alias("value"), one["rows"].alias("rows")))
    shown = [frame.name_of(name) for name in keys]
    ours = [free_name(name, shown) for name in ("rows", "values")]
    return ordered.select(*(f"raw{i}" for i in range(len(keys))), "rows", values).toDF(*shown, *ours)
