"""What a check would cost on Spark before it runs: what is read, what travels, and to how many tasks."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from naysay.detect.spark.aggregate import collect_sums
from naysay.detect.spark.grid import has_strips
from naysay.detect.spark.key_groups import Measured, Sizes, all_measured, key_sets, measure_branches
from naysay.detect.spark.plan import Route, RulePlan, plan_rules
from naysay.rule.model import Nulls, Row, Rule
from naysay.spark.expressions import Comparisons, hash_of
from naysay.spark.frame import Frame

_SIZES = Sizes()


def costs(data: DataFrame, rules: Sequence[Rule], nulls: Nulls = Nulls.SQL) -> tuple[int, list[str]]:
    """The number of rows, and for each rule its cost in words. Looks at the data: sizes of groups, distinct values."""
    plans = plan_rules(Comparisons(Frame.of(data), nulls), rules)
    n_rows = int(data.count())
    if n_rows <= _SIZES.rows_a_task:
        return n_rows, [f"all {n_rows:,} rows go to one task, with all rules" for _ in rules]
    distinct = _distinct([plan for plan in plans if plan.route is Route.GROUPS])
    sets = key_sets([plan for plan in plans if plan.route is Route.KERNELS])
    found = all_measured(sets, _SIZES, collect_sums(measure_branches(sets)))
    said = {plan.number: _by_spark_alone(plan, n_rows, distinct.get(plan.number, 0)) for plan in plans}
    said |= {plan.number: _by_kernels(plan, of_set) for of_set in found for plan in of_set.keys.plans}
    return n_rows, [said[number] for number in range(len(rules))]


def _distinct(plans: Sequence[RulePlan]) -> dict[int, int]:
    """About how many distinct keys and values each rule groups by."""
    if not plans:
        return {}
    counts = []
    for plan in plans:
        values = F.when(plan.on_side(Row.LEFT), hash_of([F.col(name) for name in plan.columns]))
        counts.append(F.approx_count_distinct(values).alias(str(plan.number)))
    row = plans[0].data.agg(*counts).collect()[0]
    return {plan.number: int(row[str(plan.number)]) for plan in plans}


def _by_spark_alone(plan: RulePlan, n_rows: int, n_distinct: int) -> str:
    if plan.route is Route.FILTER:
        return f"reads {n_rows:,} rows; nothing travels"
    return f"reads {n_rows:,} rows; about {n_distinct:,} sums travel, of distinct values, from each task that reads"


def _by_kernels(plan: RulePlan, found: Measured) -> str:
    keys = found.keys
    n_tasks = _SIZES.n_tasks(found.n_records) if keys.key_names else 1
    shared = f", with {len(keys.plans) - 1} other rules" if len(keys.plans) > 1 else ""
    if not found.giants:
        how = ", those that are alike as one" if found.repeats else ""
        largest = f"the largest group has {found.largest:,}"
        return f"{found.n_records:,} rows travel to {n_tasks:,} tasks{how}{shared}; {largest}"
    how = "strips" if has_strips(plan.join) else "blocks"
    times = len(plan.join.order) if has_strips(plan.join) else 2 * max(2, -(-2 * found.largest // _SIZES.giant))
    largest = f"the largest group has {found.largest:,} of {found.n_records:,} rows and is cut into {how}"
    return f"{largest}; its rows travel up to {times:,} times each{shared}"
