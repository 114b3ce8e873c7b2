"""What a check would cost on Spark, before it is paid: what is read, what travels, and to how many tasks."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from naysay.detect.spark import key_groups as kernels
from naysay.detect.spark.aggregate import collect_sums
from naysay.detect.spark.key_groups import KeySet, Measured, Sizes, all_measured, measure_branches
from naysay.detect.spark.plan import Route, RulePlan, plan
from naysay.detect.spark.strips import has_strips
from naysay.rule.model import Nulls, Row, Rule
from naysay.spark.expressions import Meaning, hash_of
from naysay.spark.frame import Frame

_SIZES = Sizes()


def costs(data: DataFrame, rules: Sequence[Rule], nulls: Nulls = Nulls.SQL) -> tuple[int, list[str]]:
    """The number of rows, and for each rule its cost in words. Looks at the data: sizes of groups, distinct values."""
    frame = Frame.of(data)
    meaning = Meaning(frame, nulls)
    plans = plan(frame, rules)
    n_rows = int(frame.data.count())
    if n_rows <= _SIZES.rows_a_task:
        return n_rows, [f"all {n_rows:,} rows go to one task, with all rules" for _ in rules]
    distinct = _distinct(meaning, [each for each in plans if each.route is Route.GROUPS])
    sets = kernels.key_sets([each for each in plans if each.route is Route.KERNELS])
    sums = collect_sums(measure_branches(meaning, sets))
    found = all_measured(meaning, sets, sums, _SIZES)
    said = {each.number: _by_spark_alone(each, n_rows, distinct.get(each.number, 0)) for each in plans}
    said |= {each.number: _by_kernels(each, of_set) for of_set in found for each in of_set.keys.plans}
    return n_rows, [said[number] for number in range(len(rules))]


def _distinct(meaning: Meaning, plans: Sequence[RulePlan]) -> dict[int, int]:
    """About how many distinct keys and values each rule groups by."""
    if not plans:
        return {}
    counts = []
    for each in plans:
        values = F.when(meaning.side(each.join, Row.LEFT), hash_of([F.col(name) for name in each.columns]))
        counts.append(F.approx_count_distinct(values).alias(str(each.number)))
    row = meaning.frame.data.agg(*counts).collect()[0]
    return {each.number: int(row[str(each.number)]) for each in plans}


def _by_spark_alone(plan: RulePlan, n_rows: int, n_distinct: int) -> str:
    if plan.route is Route.FILTER:
        return f"reads {n_rows:,} rows; nothing travels"
    return f"reads {n_rows:,} rows; about {n_distinct:,} sums travel, of distinct values, from each task that reads"


def _by_kernels(plan: RulePlan, found: Measured) -> str:
    keys: KeySet = found.keys
    n_tasks = max(1, -(-found.n_records // _SIZES.rows_a_task)) if keys.key_names else 1
    shared = f", with {len(keys.plans) - 1} other rules" if len(keys.plans) > 1 else ""
    if not found.giants:
        how = ", those that are alike as one" if found.repeats else ""
        largest = f"the largest group has {found.largest:,}"
        return f"{found.n_records:,} rows travel to {n_tasks:,} tasks{how}{shared}; {largest}"
    how = "strips" if has_strips(plan.join) else "blocks"
    times = len(plan.join.order) if has_strips(plan.join) else 2 * max(2, -(-2 * found.largest // _SIZES.giant))
    largest = f"the largest group has {found.largest:,} of {found.n_records:,} rows and is cut into {how}"
    return f"{largest}; its rows travel up to {times:,} times each{shared}"
