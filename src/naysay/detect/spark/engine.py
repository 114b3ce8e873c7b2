"""The Spark engine: the verbs on a Spark DataFrame.

Uses only the DataFrame API, so that it runs over Spark Connect too. The session is the caller's: nothing in it is
changed, cached or stopped.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce, wraps
from operator import or_
from typing import Concatenate, NoReturn, ParamSpec, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from naysay.detect.hiding import Hiding
from naysay.detect.measures import TableFacts, check_all, count_all, newest_of
from naysay.detect.request import CheckOptions
from naysay.detect.result import ColumnFacts, Report, RuleResult, Verdict
from naysay.detect.spark import key_groups
from naysay.detect.spark.aggregate import collect_sums, count_branch
from naysay.detect.spark.check import CausesWanted, TableSummary, check_large, check_whole
from naysay.detect.spark.grid import grid_of, has_strips
from naysay.detect.spark.joint import with_joint_removal
from naysay.detect.spark.key_groups import (
    MeasuredKeys,
    Sizes,
    collect_summaries,
    key_sets,
    measure_all,
    measure_branches,
)
from naysay.detect.spark.listing import list_violations, mark_conflicts
from naysay.detect.spark.plan import RulePlan, exclusion_terms, plan_rules
from naysay.detect.spark.suspects import groups_of, knows_suspects, suspects_of
from naysay.detect.spark.table import SparkListing
from naysay.detect.spark.traps import SparkSource
from naysay.detect.spark.verify import verdict_of
from naysay.detect.summary import compared_columns, rule_result
from naysay.detect.suspects import is_dependency
from naysay.detect.traps import NO_CAUTIONS, Cautions, find_traps
from naysay.errors import CountOverflow, UsageError
from naysay.plan.shape import plan_of
from naysay.rule.model import Freshness, Row, Rule
from naysay.spark.csv import names_of_files
from naysay.spark.expressions import Comparisons, every
from naysay.spark.frame import Frame, position
from naysay.spark.identity import Identity, Naming, identity_of
from naysay.spark.session import cancelled_if_interrupted, errors_of_tasks
from naysay.spark.versions import to_arrow

_FEW_RULES = 8


Parameters = ParamSpec("Parameters")
Found = TypeVar("Found")


def _on_spark(
    verb: Callable[Concatenate[SparkEngine, Parameters], Found],
) -> Callable[Concatenate[SparkEngine, Parameters], Found]:
    """A verb that raises errors of tasks as ours, and leaves no job running if it is interrupted."""

    @wraps(verb)
    def run(engine: SparkEngine, /, *args: Parameters.args, **given: Parameters.kwargs) -> Found:
        with errors_of_tasks(), cancelled_if_interrupted(engine.frame.data.sparkSession):
            return verb(engine, *args, **given)

    return run


class SparkEngine:
    """The verbs on a Spark DataFrame. `sizes` decides how rows are dealt out to tasks, not what is found."""

    def __init__(self, data: DataFrame, sizes: Sizes = Sizes()) -> None:  # noqa: B008
        self.frame = Frame.of(data)
        self.sizes = sizes

    @property
    def columns(self) -> tuple[str, ...]:
        return self.frame.names

    @_on_spark
    def check(
        self, rules: Sequence[Rule], options: CheckOptions, *, progress: Callable[[Rule], None] | None = None
    ) -> Report:
        """Check all rules, in as few passes over the data as their keys allow."""
        return check_all(
            rules,
            options,
            lambda about_rows: self._check_rows(about_rows, options, progress),
            lambda about_table: self._table_facts(about_table, options),
        )

    def _check_rows(
        self, rules: Sequence[Rule], options: CheckOptions, progress: Callable[[Rule], None] | None
    ) -> Report:
        start = time.perf_counter()
        frame, quick = self.frame, options.quick
        plans = self._plans(rules, options)
        identity = self._identity(options)
        n_sample = 1 if quick else options.sample
        source = SparkSource(frame, options.nulls, identity)
        hiding = Hiding(options.hide, options.key)
        cautions = find_traps(rules, source, (), hiding) if options.warn else NO_CAUTIONS
        n_rows = source.n_rows
        if plans and n_rows <= self.sizes.rows_a_task:
            whole = check_whole(plans, identity, n_sample, causes=options.causes and not quick, hide=options.hide)
        else:
            causes = CausesWanted(n_rows, options.hide) if options.causes and not quick else None
            whole = check_large(plans, identity, n_sample, self.sizes, quick=quick, causes=causes)
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
                result = replace(result, causes=whole.causes.get(plan.number, ()))
            results.append(result)
            if progress is not None:
                progress(rule)
        schema = tuple(map(ColumnFacts, frame.names, (type_.simpleString() for type_ in frame.types)))
        report = Report("spark", "", n_rows, frame.names, tuple(results), seconds, identity.description, options.nulls)
        report = replace(report, schema=schema, table_warnings=cautions.table)
        if quick and not all(result.holds for result in results):
            return report
        report = replace(report, rows_in_conflict=whole.rows_in_conflict, busiest=whole.busiest)
        if not options.joint:
            return report
        report = with_joint_removal(report, plans, identity, self.sizes, options.sample)
        return replace(report, seconds=time.perf_counter() - start)

    def _with_suspects(
        self, result: RuleResult, plan: RulePlan, whole: TableSummary, identity: Identity, n_rows: int
    ) -> RuleResult:
        """The result of a broken rule with its suspects and groups, of which nothing is computed yet but the first."""
        first_suspects, first_groups = whole.first.get(plan.number, ((), ()))
        result = replace(result, first_suspects=first_suspects, first_groups=first_groups)
        if knows_suspects(plan, is_spread=plan.number in whole.spread):
            make = partial(self._listed, partial(suspects_of, plan, identity, self.sizes, n_rows))
            removal = result.rows_to_remove
            # Within an interval, tasks that see their rows in another order may find another set that is enough.
            count = (lambda: removal.most) if removal is not None and removal.is_exact else None
            suspects = SparkListing("suspect", result.rule, make, count)
            result = replace(result, suspects=suspects)
        if is_dependency(plan.join):
            result = replace(result, groups=SparkListing("group", result.rule, partial(groups_of, plan)))
        return result

    @_on_spark
    def _listed(self, make: Callable[[], DataFrame]) -> DataFrame:
        """What takes jobs to make, later than the verb that promised it."""
        return make()

    def _table_facts(self, rules: Sequence[Rule], options: CheckOptions) -> list[TableFacts]:
        """What rules about the table need to know, in one pass over the data."""
        comparisons = Comparisons(self.frame, options.nulls)
        sums = []
        for rule in rules:
            self.frame.require(rule)
            passes = every(map(comparisons.holds, self.frame.by_position(rule).predicates))
            sums.append(F.count(F.when(passes, 1)))
            if isinstance(rule.measure, Freshness):
                sums.append(F.max(F.when(passes, F.col(position(self.frame.place(rule.measure.column))))))
        found = iter(to_arrow(self.frame.data.agg(*(sum_.alias(f"m{n}") for n, sum_ in enumerate(sums)))).columns)
        facts = []
        for rule in rules:
            n_rows = int(next(found)[0].as_py())
            facts.append(TableFacts(n_rows, newest_of(next(found)) if isinstance(rule.measure, Freshness) else None))
        return facts

    @_on_spark
    def verify(self, rule: Rule, options: CheckOptions) -> Verdict:
        """Look for one violation, in the first rows first, and read no more than it takes."""
        if rule.measure is not None:
            return Verdict(rule, not self.count([rule], options)[0])
        (plan,) = self._plans([rule], options)
        found = verdict_of(plan, self._identity(options), self.sizes)
        return Hiding(options.hide, options.key).verdict(found)

    @_on_spark
    def count(self, rules: Sequence[Rule], options: CheckOptions) -> list[int]:
        """Count the violations of each rule: one job for all that grouping answers, one for all that needs kernels."""
        return count_all(
            rules,
            options,
            lambda about_rows: self._count_rows(about_rows, options),
            lambda about_table: self._table_facts(about_table, options),
        )

    def _count_rows(self, rules: Sequence[Rule], options: CheckOptions) -> list[int]:
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

    @_on_spark
    def violations(self, rule: Rule, options: CheckOptions, *, limit: int | None = None) -> SparkListing:
        """List violations: rule, left, right, then left_COLUMN and right_COLUMN for each compared column.

        With a limit, the first ones in the order of the identities of left and right row: the same in every run.
        """
        (plan,) = self._plans([rule], options)
        frame = self.frame
        identity = self._identity(options)
        pairs = list_violations(plan, identity, limit, self.sizes)
        left, right = (compared_columns(plan.rule, row) for row in Row)
        first = identity.value("left_")
        # A one-row rule has no right row: null, of the type of a left one.
        second = F.when(F.lit(False), first) if plan.join.one_row else identity.value("right_")
        values = [f"left_{name}" for name in left] + [f"right_{name}" for name in right]
        names = [f"left_{frame.name_of(name)}" for name in left] + [f"right_{frame.name_of(name)}" for name in right]
        listed = pairs.select(F.lit(rule.name), first, second, *values).toDF("rule", "left", "right", *names)
        found = SparkListing("violation", rule, lambda: listed, lambda: self.count([rule], options)[0], limit)
        return found.masked(Hiding(options.hide, options.key))

    def clusters(self, rule: Rule, options: CheckOptions, *, limit: int | None = None) -> NoReturn:
        raise UsageError("clusters applies to frames in memory; on Spark list the violations, with a limit")

    @_on_spark
    def split(self, rules: Sequence[Rule], options: CheckOptions) -> tuple[DataFrame, DataFrame]:
        """The rows in no conflict, and the rows in conflict with any rule."""
        names = self.frame.names
        rows, marks = mark_conflicts(self._plans(rules, options), self.frame.data, self.sizes)
        columns = rows.columns[: len(names)]
        rows = rows.select(*columns, reduce(or_, marks, F.lit(False)).alias("in_conflict"))
        good, bad = rows.filter(~F.col("in_conflict")), rows.filter("in_conflict")
        return good.select(*columns).toDF(*names), bad.select(*columns).toDF(*names)

    @_on_spark
    def cautions(self, rules: Sequence[Rule], options: CheckOptions) -> Cautions:
        """The traps of rules."""
        self._plans([rule for rule in rules if rule.measure is None], options)
        source = SparkSource(self.frame, options.nulls, self._identity(options))
        return find_traps(rules, source, (), Hiding(options.hide, options.key))

    def _identity(self, options: CheckOptions) -> Identity:
        """How rows are identified; UsageError if that would show a column that is hidden."""
        identity = identity_of(self.frame, options.key)
        if options.hide and identity.naming is Naming.FILE:
            paths = names_of_files(self.frame.data)
            for name in options.hide:
                if any(f"/{name}=" in path for path in paths):
                    raise UsageError(
                        f"column {name!r} is part of the file names by which rows are identified; give a key"
                    )
        return identity

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
    sums = collect_sums([count_branch(plan) for plan in by_grouping] + measure_branches(sets, sizes))
    counts = {plan.number: sums[plan.number].summary(plan).violations for plan in by_grouping}
    summaries = []
    measured = measure_all(sets, sizes, sums)
    for found in measured:
        summaries += found.over_small_groups(key_groups.count)
        if found.giants:
            strips = [plan for plan in found.keys.plans if has_strips(plan.join)]
            excluded = [plan for plan in found.keys.plans if plan.counts_by_exclusion and not found.keys.crossed]
            in_blocks = [plan for plan in found.keys.plans if plan not in strips and plan not in excluded]
            if in_blocks:
                summaries += found.only(*in_blocks).over_giant_groups(key_groups.count)
            counts |= {plan.number: grid_of(found.only(plan)).count() for plan in strips}
            counts |= _count_by_exclusion(excluded, found, sizes)
    for number, summary in collect_summaries(summaries, sum(found.n_tasks for found in measured)).items():
        counts[number] = counts.get(number, 0) + summary.violations
    return counts


def _count_by_exclusion(plans: Sequence[RulePlan], found: MeasuredKeys, sizes: Sizes) -> dict[int, int]:
    """The counts of rules with orders and disequalities in giant groups, each from rules that strips answer."""
    rows = found.giant_rows()
    terms = [(plan.number, sign, term.on(rows)) for plan in plans for sign, term in exclusion_terms(plan)]
    found_of = _count_large([replace(term, number=place) for place, (_, _, term) in enumerate(terms)], sizes)
    counts: Counter[int] = Counter()
    for place, (number, sign, _) in enumerate(terms):
        counts[number] += sign * found_of.get(place, 0)
    return dict(counts)


def require_64_bits(n_violations: int, rule: Rule) -> int:
    if n_violations >= 2**63:
        name = f"rule {rule.name!r}" if rule.name else "this rule"
        raise CountOverflow(f"{name} has {n_violations:,} violations, more than a 64-bit number holds")
    return n_violations
