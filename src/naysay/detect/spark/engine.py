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

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from naysay.detect.identify import compared_columns
from naysay.detect.result import Removal, Report, RuleResult, Verdict, within_tolerance
from naysay.detect.spark import key_groups as kernels
from naysay.detect.spark import pairs as listing
from naysay.detect.spark import strip_verbs as spark_strip_work
from naysay.detect.spark import strips as spark_strips
from naysay.detect.spark.aggregate import collect_sums, filter_branch, groups_branch, products_branch
from naysay.detect.spark.conflicts import marked
from naysay.detect.spark.key_groups import (
    Sizes,
    TaskSums,
    all_measured,
    measure_branches,
    only,
    over_giant_groups,
    over_small_groups,
)
from naysay.detect.spark.plan import MAX_GROUPED_DIFFERS, Route, RulePlan, plan
from naysay.detect.spark.results import find_all, wanted
from naysay.detect.spark.sample import first_violations, samples
from naysay.detect.spark.single_task import OfRule, Whole, check_whole
from naysay.errors import CountOverflow
from naysay.plan.shape import plan_of
from naysay.rule.model import Nulls, Row, Rule
from naysay.spark.expressions import Meaning
from naysay.spark.frame import Frame
from naysay.spark.identity import Identity, identity_of
from naysay.spark.session import errors_of_tasks

_SIZES = Sizes()
_FEW_RULES = 8


@errors_of_tasks()
def count(data: DataFrame, rules: Sequence[Rule], *, nulls: Nulls = Nulls.SQL, sizes: Sizes = _SIZES) -> list[int]:
    """Count the violations of each rule: one job for all that grouping answers, one for all that needs kernels."""
    frame = Frame.of(data)
    meaning = Meaning(frame, nulls)
    plans = plan(frame, rules)
    if not plans:
        return []
    # For a few rules the size of the table makes no difference that would pay for looking at it first.
    if len(plans) > _FEW_RULES and frame.data.count() <= sizes.rows_a_task:
        task_rules = tuple(kernels.task_rule(each, nulls) for each in plans)
        found = kernels.collect_task_sums([kernels.count(kernels.whole_table(meaning, plans), task_rules)])
        counts = {number: sums.violations for number, sums in found.items()}
    else:
        counts = _count_large(meaning, plans, sizes)
    return [_within_64_bits(counts.get(number, 0), rule) for number, rule in enumerate(rules)]


@errors_of_tasks()
def verify(
    data: DataFrame, rule: Rule, *, key: Sequence[str] = (), nulls: Nulls = Nulls.SQL, sizes: Sizes = _SIZES
) -> Verdict:
    """Look for one violation."""
    report = check(data, [rule], key=key, nulls=nulls, quick=True, sizes=sizes)
    return Verdict(rule, report[0].holds, next(iter(report[0].sample), None))


@errors_of_tasks()
def check(
    data: DataFrame,
    rules: Sequence[Rule],
    *,
    key: Sequence[str] = (),
    nulls: Nulls = Nulls.SQL,
    quick: bool = False,
    n_sample: int = 5,
    source: str = "",
    progress: Callable[[Rule], None] | None = None,
    sizes: Sizes = _SIZES,
) -> Report:
    """Check all rules, in as few passes over the data as their keys allow."""
    start = time.perf_counter()
    frame = Frame.of(data)
    meaning = Meaning(frame, nulls)
    plans = plan(frame, rules)
    identity = identity_of(frame, key)
    n_rows = int(frame.data.count())
    n_sample = 1 if quick else n_sample
    if plans and n_rows <= sizes.rows_a_task:
        whole = check_whole(meaning, identity, plans, rules, n_sample)
    else:
        whole = _check_large(meaning, identity, plans, rules, n_sample, sizes, quick=quick)
    # Rules share their passes over the data, so each has its share of the time.
    seconds = time.perf_counter() - start
    results = []
    for each, rule in zip(plans, rules, strict=True):
        results.append(_result(rule, each, whole.rules[each.number], n_rows, seconds / len(rules), quick=quick))
        if progress is not None:
            progress(rule)
    report = Report("spark", source, n_rows, frame.names, tuple(results), seconds, identity.description, nulls)
    if quick and not all(result.holds for result in results):
        return report
    return replace(report, rows_in_conflict=whole.rows_in_conflict, busiest=whole.busiest)


@errors_of_tasks()
def violations(
    data: DataFrame,
    rule: Rule,
    *,
    limit: int | None = None,
    key: Sequence[str] = (),
    nulls: Nulls = Nulls.SQL,
    sizes: Sizes = _SIZES,
) -> DataFrame:
    """List violations: rule, left, right, then left_COLUMN and right_COLUMN for each compared column.

    With a limit, the first ones in the order of the identities of left and right row: the same in every run.
    """
    frame = Frame.of(data)
    meaning = Meaning(frame, nulls)
    (each,) = plan(frame, [rule])
    identity = identity_of(frame, key)
    left, right = (compared_columns(each.rule, row) for row in Row)
    if each.join.one_row:
        pairs = listing.singles(meaning, each, identity)
    else:
        pairs = listing.pairs(meaning, each, identity, limit, sizes)
    if limit is not None:
        sides = ("left_",) if each.join.one_row else ("left_", "right_")
        order = [F.col(side + name).asc_nulls_last() for side in sides for name in identity.positions]
        pairs = pairs.orderBy(*order).limit(limit)
    first = identity.value("left_")
    second = F.lit(None) if each.join.one_row else identity.value("right_")
    named = pairs.select(
        F.lit(rule.name),
        first,
        second,
        *(F.col(f"left_{name}") for name in left),
        *(F.col(f"right_{name}") for name in right),
    )
    names = [*(f"left_{frame.name_of(name)}" for name in left), *(f"right_{frame.name_of(name)}" for name in right)]
    return named.toDF("rule", "left", "right", *names)


@errors_of_tasks()
def conflict_rows(
    data: DataFrame, rules: Sequence[Rule], *, nulls: Nulls = Nulls.SQL, sizes: Sizes = _SIZES
) -> DataFrame:
    """The rows that take part in a violation of any rule."""
    return split(data, rules, nulls=nulls, sizes=sizes)[1]


@errors_of_tasks()
def split(
    data: DataFrame, rules: Sequence[Rule], *, nulls: Nulls = Nulls.SQL, sizes: Sizes = _SIZES
) -> tuple[DataFrame, DataFrame]:
    """The rows in no conflict, and the rows in conflict with any rule."""
    frame = Frame.of(data)
    meaning = Meaning(frame, nulls)
    rows = frame.data
    n_rows = int(frame.data.count())
    marks = [F.lit(False)]
    for each in plan(frame, rules):
        rows, mark = marked(meaning, each, rows, sizes, n_rows)
        marks.append(mark)
    columns = rows.columns[: len(frame.names)]
    rows = rows.select(*columns, reduce(or_, marks).alias("in_conflict"))
    good, bad = rows.filter(~F.col("in_conflict")), rows.filter("in_conflict")
    return good.select(*columns).toDF(*frame.names), bad.select(*columns).toDF(*frame.names)


def _check_large(
    meaning: Meaning,
    identity: Identity,
    plans: Sequence[RulePlan],
    rules: Sequence[Rule],
    n_sample: int,
    sizes: Sizes,
    *,
    quick: bool,
) -> Whole:
    """Each rule by its own route. Where rows lie and which of them are in most conflicts is not found out."""
    # One violation does not say whether there are more of them than a rule tolerates.
    strict = [each for each in plans if not rules[each.number].has_tolerance]
    early = first_violations(meaning, identity, strict, rules) if quick and strict else {}
    rest = [each for each in plans if each.number not in early]
    found = find_all(meaning, rest, n_sample, sizes) if rest else {}
    shown = samples(meaning, identity, wanted(rest, found), rules, n_sample)
    answers = {number: OfRule(1, 2, Removal(1, 1), (pair,), ()) for number, pair in early.items()}
    for number, each in found.items():
        answers[number] = OfRule(each.violations, each.rows, each.removal, shown.get(number, ()), ())
    holds = not any(answer.violations for answer in answers.values())
    return Whole(answers, 0 if holds else None, ())


def _count_large(meaning: Meaning, plans: Sequence[RulePlan], sizes: Sizes) -> dict[int, int]:
    by_grouping = [each for each in plans if not _needs_kernels(each)]
    key_sets = kernels.key_sets([each for each in plans if _needs_kernels(each)])
    branches = [_count_branch(meaning, each) for each in by_grouping]
    branches += measure_branches(meaning, key_sets)
    sums = collect_sums(branches)
    counts = {each.number: sums[each.number].violations(each) for each in by_grouping}
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
                in_strips[each.number] = spark_strip_work.count(grid, sizes)
    of_tasks = kernels.collect_task_sums(summaries)
    for each in (each for keys in key_sets for each in keys.plans):
        counts[each.number] = of_tasks.get(each.number, TaskSums()).violations + in_strips.get(each.number, 0)
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


def _result(rule: Rule, plan: RulePlan, found: OfRule, n_rows: int, seconds: float, *, quick: bool) -> RuleResult:
    n_violations = _within_64_bits(found.violations, rule)
    holds = n_violations == 0
    if quick and not holds and not rule.has_tolerance:
        return RuleResult(rule, False, False, None, None, None, found.sample, _strategy(plan), seconds)
    removal = Removal(0, 0) if holds else found.removal
    passes = within_tolerance(rule, n_violations, n_rows)
    numbers = (n_violations, found.rows, removal)
    return RuleResult(rule, holds, passes, *numbers, found.sample, _strategy(plan), seconds, found.where)


def _strategy(plan: RulePlan) -> str:
    return f"{plan_of(plan.join).name}, by {plan.route.value}"


def _within_64_bits(n_violations: int, rule: Rule) -> int:
    if n_violations >= 2**63:
        name = f"rule {rule.name!r}" if rule.name else "this rule"
        raise CountOverflow(f"{name} has {n_violations:,} violations, more than a 64-bit number holds")
    return n_violations
