"""The Spark engine: the verbs on a Spark DataFrame.

DataFrame API alone, so that it runs over Spark Connect too. The session is the caller's: nothing of it is changed,
cached or stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import NoReturn

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from naysay.detect.identify import compared_columns
from naysay.detect.request import CheckOptions
from naysay.detect.result import ColumnFacts, Report, Verdict
from naysay.detect.spark import key_groups as kernels
from naysay.detect.spark import pairs as listing
from naysay.detect.spark import strip_verbs
from naysay.detect.spark import strips as spark_strips
from naysay.detect.spark.aggregate import collect_sums, filter_branch, groups_branch, products_branch
from naysay.detect.spark.check import check_large, check_whole
from naysay.detect.spark.conflicts import mark_conflicts
from naysay.detect.spark.key_groups import (
    Sizes,
    all_measured,
    measure_branches,
    only,
    over_giant_groups,
    over_small_groups,
)
from naysay.detect.spark.plan import MAX_GROUPED_DIFFERS, Route, RulePlan, plan
from naysay.detect.summary import RuleSummary, rule_result
from naysay.errors import CountOverflow, UsageError
from naysay.plan.shape import plan_of
from naysay.rule.model import Row, Rule
from naysay.spark.expressions import Meaning
from naysay.spark.frame import Frame
from naysay.spark.identity import identity_of
from naysay.spark.session import errors_of_tasks, limited_seconds

_FEW_RULES = 8


class SparkEngine:
    """The verbs on a Spark DataFrame. `sizes` decides how rows are dealt out to tasks, not what is found."""

    def __init__(self, data: DataFrame, sizes: Sizes = Sizes()) -> None:  # noqa: B008
        self.frame = Frame.of(data)
        self.sizes = sizes

    @property
    def columns(self) -> tuple[str, ...]:
        return self.frame.names

    @errors_of_tasks()
    def check(
        self, rules: Sequence[Rule], options: CheckOptions, *, progress: Callable[[Rule], None] | None = None
    ) -> Report:
        """Check all rules, in as few passes over the data as their keys allow."""
        start = time.perf_counter()
        frame, quick = self.frame, options.quick
        meaning = self._meaning(options)
        plans = plan(frame, rules)
        identity = identity_of(frame, options.key)
        n_sample = 1 if quick else options.sample
        with limited_seconds(frame.data.sparkSession, options.max_seconds):
            n_rows = int(frame.data.count())
            if plans and n_rows <= self.sizes.rows_a_task:
                whole = check_whole(meaning, identity, plans, n_sample)
            else:
                whole = check_large(meaning, identity, plans, n_sample, self.sizes, quick=quick)
        # Rules share their passes over the data, so each has its share of the time.
        seconds = time.perf_counter() - start
        results = []
        for each, rule in zip(plans, rules, strict=True):
            summary, strategy = whole.rules[each.number], f"{plan_of(each.join).name}, by {each.route.value}"
            require_64_bits(summary.violations, rule)
            results.append(rule_result(rule, summary, n_rows, strategy, seconds / len(rules), quick=quick))
            if progress is not None:
                progress(rule)
        schema = tuple(map(ColumnFacts, frame.names, (type_.simpleString() for type_ in frame.types)))
        report = Report("spark", "", n_rows, frame.names, tuple(results), seconds, identity.description, options.nulls)
        report = replace(report, schema=schema)
        if quick and not all(result.holds for result in results):
            return report
        return replace(report, rows_in_conflict=whole.rows_in_conflict, busiest=whole.busiest)

    def verify(self, rule: Rule, options: CheckOptions) -> Verdict:
        """Look for one violation."""
        (result,) = self.check([rule], replace(options, quick=True))
        return Verdict(rule, result.holds, next(iter(result.sample), None))

    @errors_of_tasks()
    def count(self, rules: Sequence[Rule], options: CheckOptions) -> list[int]:
        """Count the violations of each rule: one job for all that grouping answers, one for all that needs kernels."""
        meaning = self._meaning(options)
        plans = plan(self.frame, rules)
        if not plans:
            return []
        with limited_seconds(self.frame.data.sparkSession, options.max_seconds):
            # For a few rules the size of the table makes no difference that would pay for looking at it first.
            if len(plans) > _FEW_RULES and self.frame.data.count() <= self.sizes.rows_a_task:
                task_rules = tuple(kernels.task_rule(each, options.nulls) for each in plans)
                found = kernels.collect_summaries([kernels.count(kernels.whole_table(meaning, plans), task_rules)])
                counts = {number: sums.violations for number, sums in found.items()}
            else:
                counts = _count_large(meaning, plans, self.sizes)
        return [require_64_bits(counts.get(number, 0), rule) for number, rule in enumerate(rules)]

    @errors_of_tasks()
    def violations(self, rule: Rule, options: CheckOptions, *, limit: int | None = None) -> DataFrame:
        """List violations: rule, left, right, then left_COLUMN and right_COLUMN for each compared column.

        With a limit, the first ones in the order of the identities of left and right row: the same in every run.
        """
        meaning = self._meaning(options, lazy="violations")
        frame = self.frame
        (each,) = plan(frame, [rule])
        identity = identity_of(frame, options.key)
        left, right = (compared_columns(each.rule, row) for row in Row)
        if each.join.one_row:
            pairs = listing.singles(meaning, each, identity)
        else:
            pairs = listing.pairs(meaning, each, identity, limit, self.sizes)
        if limit is not None:
            sides = ("left_",) if each.join.one_row else ("left_", "right_")
            order = [F.col(side + name).asc_nulls_last() for side in sides for name in identity.positions]
            pairs = pairs.orderBy(*order).limit(limit)
        first = identity.value("left_")
        second = F.lit(None) if each.join.one_row else identity.value("right_")
        values = [f"left_{name}" for name in left] + [f"right_{name}" for name in right]
        names = [f"left_{frame.name_of(name)}" for name in left] + [f"right_{frame.name_of(name)}" for name in right]
        return pairs.select(F.lit(rule.name), first, second, *values).toDF("rule", "left", "right", *names)

    def clusters(self, rule: Rule, options: CheckOptions, *, limit: int | None = None) -> NoReturn:
        raise UsageError("clusters applies to frames in memory; on Spark list the violations, with a limit")

    @errors_of_tasks()
    def split(self, rules: Sequence[Rule], options: CheckOptions) -> tuple[DataFrame, DataFrame]:
        """The rows in no conflict, and the rows in conflict with any rule."""
        meaning = self._meaning(options, lazy="split")
        names = self.frame.names
        rows, marks = mark_conflicts(meaning, plan(self.frame, rules), self.sizes)
        columns = rows.columns[: len(names)]
        rows = rows.select(*columns, reduce(or_, marks, F.lit(False)).alias("in_conflict"))
        good, bad = rows.filter(~F.col("in_conflict")), rows.filter("in_conflict")
        return good.select(*columns).toDF(*names), bad.select(*columns).toDF(*names)

    def _meaning(self, options: CheckOptions, *, lazy: str = "") -> Meaning:
        _refuse_options(options, lazy)
        return Meaning(self.frame, options.nulls)


def _refuse_options(options: CheckOptions, lazy: str) -> None:
    """Refuse the options that Spark cannot obey; `lazy` is a verb whose jobs run when its answer is used."""
    if options.strategy != "auto":
        raise UsageError("strategy applies to frames in memory; on Spark each shape of rule has one method")
    if options.threads:
        raise UsageError("threads applies to frames in memory; on Spark set the executors' cores")
    if options.memory is not None:
        raise UsageError("memory applies to frames in memory; on Spark set spark.executor.memory")
    if lazy and options.max_seconds is not None:
        raise UsageError(
            f"max_seconds does not apply to {lazy} on Spark: the DataFrame is computed when you use it; "
            "cancel its job there, or use check, which obeys max_seconds"
        )


def _count_large(meaning: Meaning, plans: Sequence[RulePlan], sizes: Sizes) -> dict[int, int]:
    by_grouping = [each for each in plans if not _needs_kernels(each)]
    key_sets = kernels.key_sets([each for each in plans if _needs_kernels(each)])
    branches = [_count_branch(meaning, each) for each in by_grouping]
    branches += measure_branches(meaning, key_sets)
    sums = collect_sums(branches)
    counts = {each.number: sums[each.number].summary(each).violations for each in by_grouping}
    summaries = []
    in_strips: dict[int, int] = {}
    for found in all_measured(meaning, key_sets, sums, sizes):
        summaries += over_small_groups(meaning, found, sizes, kernels.count)
        if found.giants:
            by_strips = [each for each in found.keys.plans if spark_strips.has_strips(each.join)]
            in_blocks = [each for each in found.keys.plans if not spark_strips.has_strips(each.join)]
            if in_blocks:
                summaries += over_giant_groups(meaning, only(found, in_blocks), sizes, kernels.count)
            for each in by_strips:
                grid = spark_strips.grid_of(meaning, each, only(found, [each]), sizes)
                in_strips[each.number] = strip_verbs.count(grid, sizes)
    of_tasks = kernels.collect_summaries(summaries)
    for each in (each for keys in key_sets for each in keys.plans):
        counts[each.number] = of_tasks.get(each.number, RuleSummary()).violations + in_strips.get(each.number, 0)
    return counts


def _needs_kernels(plan: RulePlan) -> bool:
    """Whether counting needs kernels: orders do, and so many disequalities that grouping by all of them is no help."""
    by_grouping = not plan.join.order and len(plan.join.differs) <= MAX_GROUPED_DIFFERS
    return plan.route is Route.KERNELS and not by_grouping


def _count_branch(meaning: Meaning, plan: RulePlan) -> DataFrame:
    if plan.route is Route.FILTER:
        return filter_branch(meaning, plan, 0)
    if plan.route is Route.GROUPS:
        return groups_branch(meaning, plan, 0, count_only=True)
    return products_branch(meaning, plan)


def require_64_bits(n_violations: int, rule: Rule) -> int:
    if n_violations >= 2**63:
        name = f"rule {rule.name!r}" if rule.name else "this rule"
        raise CountOverflow(f"{name} has {n_violations:,} violations, more than a 64-bit number holds")
    return n_violations
