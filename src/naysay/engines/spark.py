"""The Spark engine: the verbs on a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from naysay.engines import spark_kernels as kernels
from naysay.engines.spark_aggregate import (
    collect_sums,
    filter_branch,
    groups_branch,
    products_branch,
)
from naysay.engines.spark_expressions import Meaning
from naysay.engines.spark_frame import Frame
from naysay.engines.spark_kernels import Sizes
from naysay.engines.spark_plan import MAX_GROUPED_DIFFERS, Route, RulePlan, plan
from naysay.engines.spark_tasks import TaskRule
from naysay.errors import CountOverflow
from naysay.rule.model import Nulls, Rule

_SIZES = Sizes()


def count(data: DataFrame, rules: Sequence[Rule], *, nulls: Nulls = Nulls.SQL, sizes: Sizes = _SIZES) -> list[int]:
    """Count the violations of each rule: one job for all that grouping answers, one for each key that needs kernels."""
    frame = Frame.of(data)
    meaning = Meaning(frame, nulls)
    plans = plan(frame, rules)
    if frame.data.count() <= sizes.rows_a_task:
        found = kernels.count(kernels.whole_table(meaning, plans), _task_rules(plans, nulls))
        counts = {number: sums.violations for number, sums in kernels.collect_task_sums(found).items()}
    else:
        counts = _count_large(meaning, plans, sizes)
    return [_within_64_bits(counts.get(number, 0), rule) for number, rule in enumerate(rules)]


def _count_large(meaning: Meaning, plans: Sequence[RulePlan], sizes: Sizes) -> dict[int, int]:
    by_grouping = [each for each in plans if not _needs_kernels(each)]
    key_sets = kernels.key_sets([each for each in plans if _needs_kernels(each)])
    branches = [_count_branch(meaning, each) for each in by_grouping]
    branches += [kernels.measure_branch(meaning, keys, -1 - i) for i, keys in enumerate(key_sets)]
    sums = collect_sums(branches)
    counts = {each.number: sums[each.number].violations(each) for each in by_grouping}
    for i, keys in enumerate(key_sets):
        records = kernels.dealt(kernels.keyed_records(meaning, keys), keys, sums[-1 - i].rows, sizes)
        found = kernels.collect_task_sums(kernels.count(records, kernels.task_rules(keys, meaning.nulls)))
        counts |= {number: sums.violations for number, sums in found.items()}
    return counts


def _task_rules(plans: Sequence[RulePlan], nulls: Nulls) -> tuple[TaskRule, ...]:
    return tuple(kernels.task_rule(each, nulls) for each in plans)


def _needs_kernels(plan: RulePlan) -> bool:
    """Whether counting needs kernels: orders do, and so many disequalities that grouping by all of them is no help."""
    by_grouping = not plan.join.order and len(plan.join.differs) <= MAX_GROUPED_DIFFERS
    return plan.route is Route.KERNELS and not by_grouping


def _count_branch(meaning: Meaning, plan: RulePlan) -> DataFrame:
    if plan.route is Route.FILTER:
        return filter_branch(meaning, plan, 0)
    if plan.route is Route.GROUPS:
        return groups_branch(meaning, plan, 0)
    return products_branch(meaning, plan)


def _within_64_bits(n_violations: int, rule: Rule) -> int:
    if n_violations >= 2**63:
        name = f"rule {rule.name!r}" if rule.name else "this rule"
        raise CountOverflow(f"{name} has {n_violations:,} violations, more than a 64-bit number holds")
    return n_violations
