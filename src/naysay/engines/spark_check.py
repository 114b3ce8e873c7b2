"""All that a report says of many rules: what grouping finds in one job, what kernels find in another, then a sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from naysay.engines import spark_kernels as kernels
from naysay.engines.spark_aggregate import collect_sums, filter_branch, groups_branch
from naysay.engines.spark_conflicts import conflict_rows_branch
from naysay.engines.spark_expressions import Meaning
from naysay.engines.spark_kernels import KeySet, Sizes, TaskSums
from naysay.engines.spark_plan import Route, RulePlan
from naysay.engines.spark_sample import Wanted, hashes_of_values
from naysay.engines.spark_tasks import TaskRule
from naysay.engines.spark_work import Measured, measured, over_groups
from naysay.verbs.result import Removal


@dataclass(frozen=True, slots=True)
class Found:
    """What was found out about one rule; `hashes` lead to rows to show."""

    violations: int
    rows: int
    removal: Removal
    hashes: tuple[int, ...]


def find_all(
    meaning: Meaning, plans: Sequence[RulePlan], n_rows: int, n_sample: int, sizes: Sizes
) -> dict[int, Found]:
    """What there is to know of each rule, by its number."""
    if n_rows <= sizes.rows_a_task:
        rules = tuple(kernels.task_rule(plan, meaning.nulls) for plan in plans)
        summary = kernels.summarise(kernels.whole_table(meaning, plans), rules, n_sample, removal=True)
        of_tasks = kernels.collect_task_sums([summary])
        return {plan.number: _from_tasks(meaning, plan, of_tasks.get(plan.number, TaskSums())) for plan in plans}
    by_grouping = [plan for plan in plans if plan.route is not Route.KERNELS]
    key_sets = kernels.key_sets([plan for plan in plans if plan.route is Route.KERNELS])
    branches = [_branch(meaning, plan, n_sample) for plan in by_grouping]
    branches += [kernels.measure_branch(meaning, keys, -1 - i) for i, keys in enumerate(key_sets)]
    sums = collect_sums(branches)
    found = {}
    for plan in by_grouping:
        of_plan = sums[plan.number]
        removal = Removal(of_plan.removed, of_plan.removed)
        found[plan.number] = Found(of_plan.violations(plan), of_plan.rows, removal, of_plan.sample)
    sets = [measured(meaning, keys, sums[-1 - i], sizes) for i, keys in enumerate(key_sets)]
    return found | _by_kernels(meaning, sets, n_sample, sizes)


def _by_kernels(meaning: Meaning, sets: Sequence[Measured], n_sample: int, sizes: Sizes) -> dict[int, Found]:
    summaries: list[DataFrame] = []
    for each in sets:
        removal = not _is_spread(each)

        def summarise(
            records: DataFrame, rules: tuple[TaskRule, ...], removal: bool = removal
        ) -> DataFrame:
            return kernels.summarise(records, rules, n_sample, removal=removal)

        summaries += over_groups(meaning, each, sizes, summarise)
    sums = kernels.collect_task_sums(summaries)
    found = {
        plan.number: _from_tasks(meaning, plan, sums.get(plan.number, TaskSums()))
        for each in sets
        for plan in each.keys.plans
    }
    spread = [(plan, each) for each in sets if _is_spread(each) for plan in each.keys.plans]
    broken = [(plan, each) for plan, each in spread if found[plan.number].violations]
    rows = collect_sums(
        [conflict_rows_branch(meaning, plan, _alone(plan, each), sizes) for plan, each in broken]
    )
    for plan, _ in broken:
        n_conflict = rows[plan.number].rows
        before = found[plan.number]
        # Something must go, and of rows in conflict all but one are always enough.
        found[plan.number] = Found(before.violations, n_conflict, Removal(1, n_conflict - 1), before.hashes)
    return found


def _alone(plan: RulePlan, each: Measured) -> Measured:
    return Measured(KeySet((plan,)), each.n_records, each.largest, each.giants)


def _is_spread(each: Measured) -> bool:
    """Whether a row may be in several tasks, so that rows in conflict do not add up."""
    return each.keys.crossed or bool(each.giants)


def _branch(meaning: Meaning, plan: RulePlan, n_sample: int) -> DataFrame:
    branch = filter_branch if plan.route is Route.FILTER else groups_branch
    return branch(meaning, plan, n_sample)


def _from_tasks(meaning: Meaning, plan: RulePlan, sums: TaskSums) -> Found:
    hashes: Sequence[int] = ()
    if sums.sample:
        hashes = hashes_of_values(meaning.frame.data.sparkSession, meaning, plan, sums.sample[:3])
    return Found(sums.violations, sums.rows, Removal(sums.least, sums.most), tuple(hashes))


def wanted(plans: Sequence[RulePlan], found: dict[int, Found]) -> list[Wanted]:
    return [Wanted(plan, found[plan.number].hashes) for plan in plans if found[plan.number].violations]
