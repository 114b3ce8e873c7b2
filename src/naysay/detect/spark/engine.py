"""The Spark engine: the verbs on a Spark DataFrame.

Uses only the DataFrame API, so that it runs over Spark Connect too. The session is the caller's: nothing in it is
changed, cached or stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import or_
from typing import NoReturn

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from naysay.detect.request import CheckOptions
from naysay.detect.result import ColumnFacts, Report, RuleResult, Verdict
from naysay.detect.spark import key_groups
from naysay.detect.spark.aggregate import collect_sums, count_branch
from naysay.detect.spark.causes import spark_causes
from naysay.detect.spark.check import TableSummary, check_large, check_whole
from naysay.detect.spark.grid import grid_of, has_strips
from naysay.detect.spark.key_groups import Sizes, collect_summaries, key_sets, measure_all, measure_branches
from naysay.detect.spark.listing import list_violations, mark_conflicts
from naysay.detect.spark.plan import RulePlan, plan_rules
from naysay.detect.spark.suspects import groups_of, knows_suspects, suspects_of
from naysay.detect.spark.table import SparkListing
from naysay.detect.spark.traps import SparkSource
from naysay.detect.summary import compared_columns, rule_result
from naysay.detect.suspects import is_dependency
from naysay.detect.traps import NO_CAUTIONS, Cautions, find_traps
from naysay.errors import CountOverflow, UsageError
from naysay.plan.shape import plan_of
from naysay.rule.model import Row, Rule
from naysay.spark.expressions import Comparisons
from naysay.spark.frame import Frame
from naysay.spark.identity import Identity, identity_of
from naysay.spark.session import errors_of_tasks

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
        plans = self._plans(rules, options)
        identity = identity_of(frame, options.key)
        n_sample = 1 if quick else options.sample
        source = SparkSource(frame, options.nulls, identity)
        cautions = find_traps(rules, source) if options.warn else NO_CAUTIONS
        n_rows = source.n_rows
        if plans and n_rows <= self.sizes.rows_a_task:
            whole = check_whole(plans, identity, n_sample, causes=options.causes and not quick)
        else:
            whole = check_large(plans, identity, n_sample, self.sizes, quick=quick)
        # Rules share their passes over the data, so each has its share of the time.
        seconds = time.perf_counter() - start
        results = []
        for plan, rule in zip(plans, rules, strict=True):
            summary, strategy = whole.rules[plan.number], f"{plan_of(plan.join).name}, by {plan.route.value}"
            require_64_bits(summary.violations, rule)
            result = rule_result(rule, summary, n_rows, strategy, seconds / len(rules), quick=quick)
            result = replace(result, warnings=cautions.of_rule(plan.number))
            if result.violations:
                result = self._with_suspects(result, plan, whole, identity, n_rows)
                causes = whole.causes.get(plan.number, ())
                if n_rows > self.sizes.rows_a_task and options.causes and not quick and result.suspects is not None:
                    causes = spark_causes(plan, identity, self.sizes, n_rows)
                result = replace(result, causes=causes)
            results.append(result)
            if progress is not None:
                progress(rule)
        schema = tuple(map(ColumnFacts, frame.names, (type_.simpleString() for type_ in frame.types)))
        report = Report("spark", "", n_rows, frame.names, tuple(results), seconds, identity.description, options.nulls)
        report = replace(report, schema=schema, table_warnings=cautions.table)
        if quick and not all(result.holds for result in results):
            return report
        return replace(report, rows_in_conflict=whole.rows_in_conflict, busiest=whole.busiest)

    def _with_suspects(
        self, result: RuleResult, plan: RulePlan, whole: TableSummary, identity: Identity, n_rows: int
    ) -> RuleResult:
        """The result of a broken rule with its suspects and groups, of which nothing is computed yet but the first."""
        first_suspects, first_groups = whole.first.get(plan.number, ((), ()))
        result = replace(result, first_suspects=first_suspects, first_groups=first_groups)
        if knows_suspects(plan, is_spread=plan.number in whole.spread):
            make = partial(suspects_of, plan, identity, self.sizes, n_rows)
            removal = result.rows_to_remove
            # Within an interval, tasks that see their rows in another order may find another set that is enough.
            count = (lambda: removal.most) if removal is not None and removal.is_exact else None
            suspects = SparkListing("suspect", result.rule, make, count)
            result = replace(result, suspects=suspects)
        if is_dependency(plan.join):
            result = replace(result, groups=SparkListing("group", result.rule, partial(groups_of, plan)))
        return result

    def verify(self, rule: Rule, options: CheckOptions) -> Verdict:
        """Look for one violation."""
        (result,) = self.check([rule], replace(options, quick=True, warn=False))
        return Verdict(rule, result.holds, next(iter(result.sample), None))

    @errors_of_tasks()
    def count(self, rules: Sequence[Rule], options: CheckOptions) -> list[int]:
        """Count the violations of each rule: one job for all that grouping answers, one for all that needs kernels."""
        plans = self._plans(rules, options)
        if not plans:
            return []
        # For a few rules the size of the table makes no difference that would pay for looking at it first.
        if len(plans) > _FEW_RULES and self.frame.data.count() <= self.sizes.rows_a_task:
            found = collect_summaries([key_groups.count_whole(plans)])
            counts = {number: summary.violations for number, summary in found.items()}
        else:
            counts = _count_large(plans, self.sizes)
        return [require_64_bits(counts.get(number, 0), rule) for number, rule in enumerate(rules)]

    @errors_of_tasks()
    def violations(self, rule: Rule, options: CheckOptions, *, limit: int | None = None) -> SparkListing:
        """List violations: rule, left, right, then left_COLUMN and right_COLUMN for each compared column.

        With a limit, the first ones in the order of the identities of left and right row: the same in every run.
        """
        (plan,) = self._plans([rule], options)
        frame = self.frame
        identity = identity_of(frame, options.key)
        pairs = list_violations(plan, identity, limit, self.sizes)
        left, right = (compared_columns(plan.rule, row) for row in Row)
        first = identity.value("left_")
        # A one-row rule has no right row: null, of the type of a left one.
        second = F.when(F.lit(False), first) if plan.join.one_row else identity.value("right_")
        values = [f"left_{name}" for name in left] + [f"right_{name}" for name in right]
        names = [f"left_{frame.name_of(name)}" for name in left] + [f"right_{frame.name_of(name)}" for name in right]
        listed = pairs.select(F.lit(rule.name), first, second, *values).toDF("rule", "left", "right", *names)
        return SparkListing("violation", rule, lambda: listed, lambda: self.count([rule], options)[0], limit)

    def clusters(self, rule: Rule, options: CheckOptions, *, limit: int | None = None) -> NoReturn:
        raise UsageError("clusters applies to frames in memory; on Spark list the violations, with a limit")

    @errors_of_tasks()
    def split(self, rules: Sequence[Rule], options: CheckOptions) -> tuple[DataFrame, DataFrame]:
        """The rows in no conflict, and the rows in conflict with any rule."""
        names = self.frame.names
        rows, marks = mark_conflicts(self._plans(rules, options), self.frame.data, self.sizes)
        columns = rows.columns[: len(names)]
        rows = rows.select(*columns, reduce(or_, marks, F.lit(False)).alias("in_conflict"))
        good, bad = rows.filter(~F.col("in_conflict")), rows.filter("in_conflict")
        return good.select(*columns).toDF(*names), bad.select(*columns).toDF(*names)

    @errors_of_tasks()
    def cautions(self, rules: Sequence[Rule], options: CheckOptions) -> Cautions:
        """The traps of rules."""
        self._plans(rules, options)
        return find_traps(rules, SparkSource(self.frame, options.nulls, identity_of(self.frame, options.key)))

    def _plans(self, rules: Sequence[Rule], options: CheckOptions) -> list[RulePlan]:
        _refuse_options(options)
        return plan_rules(Comparisons(self.frame, options.nulls), rules)


def _refuse_options(options: CheckOptions) -> None:
    """Refuse the options that Spark cannot obey."""
    refused = {
        "strategy": (options.strategy != "auto", "each shape of rule has one method"),
        "threads": (options.threads != 0, "set the executors' cores"),
        "memory": (options.memory is not None, "set spark.executor.memory"),
        "max_seconds": (options.max_seconds is not None, "cancel the jobs in Spark's own interface"),
    }
    for name, (is_given, instead) in refused.items():
        if is_given:
            raise UsageError(f"{name} applies to frames in memory; on Spark {instead}")


def _count_large(plans: Sequence[RulePlan], sizes: Sizes) -> dict[int, int]:
    by_grouping = [plan for plan in plans if plan.counts_by_grouping]
    sets = key_sets([plan for plan in plans if not plan.counts_by_grouping])
    sums = collect_sums([count_branch(plan) for plan in by_grouping] + measure_branches(sets))
    counts = {plan.number: sums[plan.number].summary(plan).violations for plan in by_grouping}
    summaries = []
    for found in measure_all(sets, sizes, sums):
        summaries += found.over_small_groups(key_groups.count)
        if found.giants:
            in_blocks = [plan for plan in found.keys.plans if not has_strips(plan.join)]
            if in_blocks:
                summaries += found.only(*in_blocks).over_giant_groups(key_groups.count)
            for plan in found.keys.plans:
                if has_strips(plan.join):
                    counts[plan.number] = grid_of(found.only(plan)).count()
    for number, summary in collect_summaries(summaries).items():
        counts[number] = counts.get(number, 0) + summary.violations
    return counts


def require_64_bits(n_violations: int, rule: Rule) -> int:
    if n_violations >= 2**63:
        name = f"rule {rule.name!r}" if rule.name else "this rule"
        raise CountOverflow(f"{name} has {n_violations:,} violations, more than a 64-bit number holds")
    return n_violations
