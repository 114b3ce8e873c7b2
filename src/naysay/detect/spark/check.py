"""A check on Spark: a small table in one task with all rules, each rule of a large one by its own route."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from naysay.detect.result import Removal, RowConflicts, SamplePair
from naysay.detect.spark import key_groups as kernels
from naysay.detect.spark import strip_verbs
from naysay.detect.spark.aggregate import collect_sums, filter_branch, groups_branch
from naysay.detect.spark.conflicts import conflict_grid, conflict_rows_branch, count_in_strips
from naysay.detect.spark.key_groups import (
    KeySet,
    Measured,
    Sizes,
    all_measured,
    measure_branches,
    only,
    over_giant_groups,
    over_small_groups,
    task_rule,
)
from naysay.detect.spark.plan import Route, RulePlan
from naysay.detect.spark.sample import (
    SampleRequest,
    first_violations,
    in_outer_types,
    named_pairs,
    samples,
    with_hashes,
)
from naysay.detect.spark.strips import Grid
from naysay.detect.spark.worker import ALL_RULES, PLACE, SUMMARY, check_partition, read_summary
from naysay.detect.summary import RuleSummary
from naysay.spark.expressions import Meaning
from naysay.spark.frame import map_in_arrow
from naysay.spark.identity import Identity, Naming
from naysay.table.frame import plain_records


@dataclass(frozen=True, slots=True)
class TableSummary:
    """The summary of each rule by its number, and what is known about all rows over all rules."""

    rules: dict[int, RuleSummary[SamplePair]]
    rows_in_conflict: int | None
    busiest: tuple[RowConflicts, ...] = ()


def check_whole(meaning: Meaning, identity: Identity, plans: Sequence[RulePlan], n_sample: int) -> TableSummary:
    """Check all rules in one task, on the rows in the order in which Spark reads them."""
    # The number serves to put the rows of this one job in order, not to name them: it would not be the same in another.
    place = F.monotonically_increasing_id().alias(PLACE)
    columns = KeySet(tuple(plans)).columns
    records = meaning.frame.data.select(*columns, *identity.attached(), place).repartition(1)
    work = partial(
        check_partition,
        rules=tuple(task_rule(plan, meaning.nulls) for plan in plans),
        names=tuple(identity.positions),
        n_sample=n_sample,
        number_copies=identity.naming is Naming.CONTENT,
    )
    found = {row["rule"]: read_summary(row) for row in map_in_arrow(records, work, SUMMARY).toArrow().to_pylist()}
    if not found:
        return TableSummary({plan.number: RuleSummary() for plan in plans}, rows_in_conflict=0)
    of_all = found[ALL_RULES]
    of_rules = {}
    for plan in plans:
        summary = found[plan.number]
        pairs = [named_pairs(meaning, identity, plan, shown) for shown in summary.sample]
        of_rules[plan.number] = summary.with_sample(sum(pairs, ()))
    return TableSummary(of_rules, of_all.rows_in_conflict, _busiest(identity, of_all.sample[0]))


def _busiest(identity: Identity, rows: pa.Table) -> tuple[RowConflicts, ...]:
    named = in_outer_types(rows, identity.positions, identity.types).rename_columns(list(identity.names))
    numbers = zip(rows.column("conflicts").to_pylist(), rows.column("rules").to_pylist(), strict=True)
    return tuple(
        RowConflicts(name, conflicts, tuple(broken))
        for name, (conflicts, broken) in zip(plain_records(named), numbers, strict=True)
    )


def check_large(
    meaning: Meaning, identity: Identity, plans: Sequence[RulePlan], n_sample: int, sizes: Sizes, *, quick: bool
) -> TableSummary:
    """Each rule by its own route. Where rows lie and which of them are in most conflicts is not found out."""
    # One violation does not say whether there are more of them than a rule tolerates.
    strict = [each for each in plans if not each.named.has_tolerance]
    early = first_violations(meaning, identity, strict) if quick and strict else {}
    rest = [each for each in plans if each.number not in early]
    found = _find_all(meaning, rest, n_sample, sizes) if rest else {}
    requests = [SampleRequest(each, found[each.number].sample) for each in rest if found[each.number].violations]
    shown = samples(meaning, identity, requests, n_sample)
    answers = {number: RuleSummary(1, sample=(pair,)) for number, pair in early.items()}
    answers |= {number: summary.with_sample(shown.get(number, ())) for number, summary in found.items()}
    holds = not any(answer.violations for answer in answers.values())
    return TableSummary(answers, 0 if holds else None)


def _find_all(meaning: Meaning, plans: Sequence[RulePlan], n_sample: int, sizes: Sizes) -> dict[int, RuleSummary[int]]:
    """The summary of each rule, by its number; samples are hashes that lead to rows to show."""
    by_grouping = [plan for plan in plans if plan.route is not Route.KERNELS]
    key_sets = kernels.key_sets([plan for plan in plans if plan.route is Route.KERNELS])
    branches = [_branch(meaning, plan, n_sample) for plan in by_grouping]
    sums = collect_sums(branches + measure_branches(meaning, key_sets))
    found = {plan.number: sums[plan.number].summary(plan) for plan in by_grouping}
    return found | _by_kernels(meaning, all_measured(meaning, key_sets, sums, sizes), n_sample, sizes)


def _by_kernels(meaning: Meaning, sets: Sequence[Measured], n_sample: int, sizes: Sizes) -> dict[int, RuleSummary[int]]:
    summaries: list[DataFrame] = []
    grids: dict[int, Grid] = {}
    in_blocks: list[tuple[RulePlan, Measured]] = []
    for each in sets:
        summarise = partial(kernels.summarise, n_sample=n_sample, removal=not each.is_spread)
        summaries += over_small_groups(meaning, each, sizes, summarise)
        blocks = []
        for plan in each.keys.plans:
            grid = None if each.keys.crossed else conflict_grid(meaning, plan, only(each, [plan]), sizes)
            if grid is None:
                blocks.append(plan)
            else:
                grids[plan.number] = grid
        in_blocks += [(plan, only(each, [plan])) for plan in blocks if each.is_spread]
        if blocks:
            summaries += over_giant_groups(meaning, only(each, blocks), sizes, summarise)
    found = {plan.number: RuleSummary[pa.Table]() for each in sets for plan in each.keys.plans}
    found |= kernels.collect_summaries(summaries)
    for number, grid in grids.items():
        summary = strip_verbs.summarise(grid, sizes, n_sample)
        n_rows = count_in_strips(grid, sizes) if summary.violations else 0
        found[number] = _spread(found[number].merge(replace(summary, rows_in_conflict=n_rows)))
    broken = [(plan, measured) for plan, measured in in_blocks if found[plan.number].violations]
    rows = collect_sums([conflict_rows_branch(meaning, plan, measured, sizes) for plan, measured in broken])
    for plan, _ in broken:
        found[plan.number] = _spread(replace(found[plan.number], rows_in_conflict=rows[plan.number].rows))
    return with_hashes(meaning, [plan for each in sets for plan in each.keys.plans], found)


def _spread(summary: RuleSummary[pa.Table]) -> RuleSummary[pa.Table]:
    """The bounds where tasks cannot tell: something must go, and of rows in conflict all but one are always enough."""
    return replace(summary, removal=Removal(1, summary.rows_in_conflict - 1)) if summary.violations else summary


def _branch(meaning: Meaning, plan: RulePlan, n_sample: int) -> DataFrame:
    branch = filter_branch if plan.route is Route.FILTER else groups_branch
    return branch(meaning, plan, n_sample)
