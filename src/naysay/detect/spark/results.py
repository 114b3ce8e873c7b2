"""Results of a check written by Spark: violations a rule and rows in conflict, wherever Spark can write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.detect.result import Removal
from naysay.detect.spark import key_groups as kernels
from naysay.detect.spark import strip_verbs as spark_strip_work
from naysay.detect.spark.aggregate import collect_sums, filter_branch, groups_branch
from naysay.detect.spark.conflicts import conflict_grid, conflict_rows_branch, count_in_strips, marked
from naysay.detect.spark.key_groups import (
    Measured,
    Sizes,
    TaskSums,
    all_measured,
    measure_branches,
    only,
    over_giant_groups,
    over_small_groups,
)
from naysay.detect.spark.plan import Route, RulePlan
from naysay.detect.spark.plan import plan as plan_rules
from naysay.detect.spark.sample import Wanted, hashes_of_values
from naysay.rule.model import Nulls, Rule
from naysay.spark.expressions import Meaning
from naysay.spark.frame import Frame
from naysay.table.compatibility import free_name

# A cell that begins so is a formula to a spreadsheet.
_FORMULA = r"^[=+\-@\t\r]"


def conflict_table(data: DataFrame, rules: Sequence[Rule], titles: Sequence[str], nulls: Nulls) -> DataFrame:
    """Every row in conflict, once, whole: the titles of the rules that it breaks as naysay_rules, and its columns."""
    frame = Frame.of(data)
    meaning = Meaning(frame, nulls)
    rows = frame.data
    n_rows = int(frame.data.count())
    broken = []
    for each, title in zip(plan_rules(frame, rules), titles, strict=True):
        rows, mark = marked(meaning, each, rows, Sizes(), n_rows)
        broken.append(F.when(mark, F.lit(title)))
    columns = rows.columns[: len(frame.names)]
    found = F.filter(F.array(*broken), lambda title: title.isNotNull())
    tagged = rows.select(found.alias("naysay_rules"), *columns).filter(F.size("naysay_rules") > 0)
    return tagged.toDF(free_name("naysay_rules", frame.names), *frame.names)


def write(data: DataFrame, path: str, format: str, *, neutral: bool = True) -> None:
    """Write a folder of Parquet, CSV or JSON files; where something stands already, raise.

    CSV has no nested values: structs become a column a field, lists one text. Where `neutral`, text in it that a
    spreadsheet would take for a formula gets an apostrophe.
    """
    data = _typed(data)
    if format == "csv":
        data = _flat(data)
        if neutral:
            data = _neutral(data)
        data.write.mode("error").option("header", True).option("escape", '"').csv(path)
    else:
        data.write.mode("error").format(format).save(path)


def write_text(data: DataFrame, path: str, text: str) -> None:
    """Write one text where Spark can write, by the session of a DataFrame."""
    lines = data.sparkSession.createDataFrame([(text,)], T.StructType([T.StructField("value", T.StringType())]))
    lines.coalesce(1).write.mode("error").text(path)


def _by_position(data: DataFrame) -> DataFrame:
    """The columns as c0, c1, ..., so that no name meets a parser."""
    return data.toDF(*(f"c{place}" for place in range(len(data.columns))))


def _typed(data: DataFrame) -> DataFrame:
    """A column of nulls alone, such as the right row of a one-row rule, has no type that a file could have."""
    columns = [
        F.col(f"c{place}").cast("string") if isinstance(field.dataType, T.NullType) else F.col(f"c{place}")
        for place, field in enumerate(data.schema.fields)
    ]
    return _by_position(data).select(*columns).toDF(*data.columns)


def _flat(data: DataFrame) -> DataFrame:
    names, columns = [], []
    for place, field in enumerate(data.schema.fields):
        column = F.col(f"c{place}")
        if isinstance(field.dataType, T.StructType):
            for inner in field.dataType.fields:
                names.append(f"{field.name}.{inner.name}")
                columns.append(column.getField(inner.name))
        else:
            names.append(field.name)
            columns.append(F.array_join(column, "; ") if isinstance(field.dataType, T.ArrayType) else column)
    return _by_position(data).select(*columns).toDF(*names)


def _neutral(data: DataFrame) -> DataFrame:
    columns = []
    for place, field in enumerate(data.schema.fields):
        column = F.col(f"c{place}")
        if isinstance(field.dataType, T.StringType):
            column = F.when(column.rlike(_FORMULA), F.concat(F.lit("'"), column)).otherwise(column)
        columns.append(column)
    names = [f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name for name in data.columns]
    return _by_position(data).select(*columns).toDF(*names)


@dataclass(frozen=True, slots=True)
class Found:
    """What was found out about one rule; `hashes` lead to rows to show."""

    violations: int
    rows: int
    removal: Removal
    hashes: tuple[int, ...]


def find_all(meaning: Meaning, plans: Sequence[RulePlan], n_sample: int, sizes: Sizes) -> dict[int, Found]:
    """What there is to know of each rule, by its number."""
    by_grouping = [plan for plan in plans if plan.route is not Route.KERNELS]
    key_sets = kernels.key_sets([plan for plan in plans if plan.route is Route.KERNELS])
    branches = [_branch(meaning, plan, n_sample) for plan in by_grouping]
    branches += measure_branches(meaning, key_sets)
    sums = collect_sums(branches)
    found = {}
    for plan in by_grouping:
        of_plan = sums[plan.number]
        removal = Removal(of_plan.removed, of_plan.removed)
        found[plan.number] = Found(of_plan.violations(plan), of_plan.rows, removal, of_plan.sample)
    return found | _by_kernels(meaning, all_measured(meaning, key_sets, sums, sizes), n_sample, sizes)


def _by_kernels(meaning: Meaning, sets: Sequence[Measured], n_sample: int, sizes: Sizes) -> dict[int, Found]:
    grids = {
        plan.number: conflict_grid(meaning, plan, only(each, [plan]), sizes)
        for each in sets
        if not each.keys.crossed
        for plan in each.keys.plans
    }
    summaries: list[DataFrame] = []
    for each in sets:
        summarise = partial(kernels.summarise, n_sample=n_sample, removal=not _is_spread(each))
        summaries += over_small_groups(meaning, each, sizes, summarise)
        in_blocks = [plan for plan in each.keys.plans if grids.get(plan.number) is None]
        if in_blocks:
            summaries += over_giant_groups(meaning, only(each, in_blocks), sizes, summarise)
    sums = kernels.collect_task_sums(summaries)
    for number, grid in grids.items():
        if grid is not None:
            n_pairs, shown = spark_strip_work.summarise(grid, sizes, n_sample)
            n_rows = count_in_strips(grid, sizes) if n_pairs else 0
            sums[number] = sums.get(number, TaskSums()).plus(n_pairs, n_rows, shown)
    plans = [plan for each in sets for plan in each.keys.plans]
    shown_of = {number: of_rule.sample[:3] for number, of_rule in sums.items()}
    hashes = hashes_of_values(meaning.frame.data.sparkSession, meaning, plans, shown_of)
    found = {}
    for each in sets:
        for plan in each.keys.plans:
            of_tasks = sums.get(plan.number, TaskSums())
            removal = Removal(of_tasks.least, of_tasks.most)
            if _is_spread(each) and of_tasks.violations:
                # Something must go, and of rows in conflict all but one are always enough.
                removal = Removal(1, of_tasks.rows - 1)
            shown_by = hashes.get(plan.number, ())
            found[plan.number] = Found(of_tasks.violations, of_tasks.rows, removal, shown_by)
    spread = [(plan, each) for each in sets if _is_spread(each) for plan in each.keys.plans]
    broken = [(plan, each) for plan, each in spread if found[plan.number].violations and grids.get(plan.number) is None]
    rows = collect_sums([conflict_rows_branch(meaning, plan, only(each, [plan]), sizes) for plan, each in broken])
    for plan, _ in broken:
        n_rows = rows[plan.number].rows
        found[plan.number] = replace(found[plan.number], rows=n_rows, removal=Removal(1, n_rows - 1))
    return found


def _is_spread(each: Measured) -> bool:
    """Whether a row may be in several tasks, so that rows in conflict do not add up."""
    return each.keys.crossed or bool(each.giants)


def _branch(meaning: Meaning, plan: RulePlan, n_sample: int) -> DataFrame:
    branch = filter_branch if plan.route is Route.FILTER else groups_branch
    return branch(meaning, plan, n_sample)


def wanted(plans: Sequence[RulePlan], found: dict[int, Found]) -> list[Wanted]:
    return [Wanted(plan, found[plan.number].hashes) for plan in plans if found[plan.number].violations]
