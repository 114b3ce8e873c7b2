"""Violations and rows in conflict, listed by Spark.

Pairs are listed by the identities of their rows, in order, a piece at a time. Rows in conflict are found by the values
of a rule's columns, which decide whether a row is in conflict.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.detect.request import CheckOptions
from naysay.detect.spark import worker
from naysay.detect.spark.aggregate import collect_sums, conflict_groups, rule_branch
from naysay.detect.spark.conflicts import all_equal, conflict_grid, conflict_values, left_values, looked_up
from naysay.detect.spark.grid import Grid
from naysay.detect.spark.key_groups import KeySet, MeasuredKeys, Sizes, measure, side_column
from naysay.detect.spark.plan import Route, RulePlan, plan_rules
from naysay.detect.spark.worker import LEFT, RIGHT, SIDE, RowNames, TaskRule
from naysay.detect.summary import compared_columns
from naysay.rule.describe import HIDDEN
from naysay.rule.model import Row, Rule
from naysay.spark.expressions import Comparisons
from naysay.spark.frame import Frame, map_in_arrow
from naysay.spark.identity import CONTENT, Identity, Naming, number_copies, number_equal
from naysay.spark.versions import to_arrow, union
from naysay.table.compatibility import free_name

# Up to so many violations, their left rows are looked up first, and sent to all tasks that have right ones.
_FEW_PAIRS = 10_000
# Of the first left rows so many, and so many for each violation wanted, may turn out to have none.
_MORE_ROWS = 1_000
_ROWS_A_PAIR = 2


def mark_conflicts(plans: Sequence[RulePlan], data: DataFrame, sizes: Sizes) -> tuple[DataFrame, list[Expression]]:
    """All rows, with the columns that the marks need, and for each rule a mark: whether a row is in conflict."""
    rows, marks = data, []
    n_rows = int(data.count())
    for plan in plans:
        rows, mark = _mark(plan, rows, sizes, n_rows)
        marks.append(mark)
    return rows, marks


def _mark(plan: RulePlan, rows: DataFrame, sizes: Sizes, n_rows: int) -> tuple[DataFrame, Expression]:
    on_side = plan.on_side(Row.LEFT)
    if plan.route is Route.FILTER:
        return rows, on_side
    if plan.route is Route.GROUPS and not plan.join.key:
        # One group of all rows: it is in conflict or not, and there is nothing to join by.
        sums = collect_sums([rule_branch(plan, 0)])[plan.number]
        return rows, on_side & F.lit(sums.rows > 0)
    if plan.route is Route.GROUPS:
        values, sought = _conflict_keys(plan)
    else:
        found = measure(KeySet((plan,)), sizes, n_rows)
        values = conflict_values(found, conflict_grid(found)).drop(worker.conflicts_name(plan.number))
        sought = [plan.comparable(name) for name in plan.columns]
        on_side = F.lit(True)
    names = [f"r{plan.number}_{i}" for i in range(len(sought))]
    mark = f"r{plan.number}"
    values = values.toDF(*names).withColumn(mark, F.lit(True))
    joined = rows.join(values, all_equal(sought, names), "left").drop(*names)
    return joined, on_side & F.col(mark).isNotNull()


def only_conflicts(plan: RulePlan) -> RulePlan:
    """The same rule on the rows whose key is in conflict, for a rule that runs by grouping and has a key."""
    values, sought = _conflict_keys(plan)
    names = [f"r_{i}" for i in range(len(sought))]
    rows = plan.data.join(values.toDF(*names), all_equal(sought, names), "left_semi")
    return plan.on(rows)


def _conflict_keys(plan: RulePlan) -> tuple[DataFrame, list[Expression]]:
    keys = conflict_groups(plan).select(*(f"k{i}" for i in range(len(plan.join.key))))
    return looked_up(keys), [plan.comparable(match.left) for match in plan.join.key]


def list_violations(plan: RulePlan, identity: Identity, limit: int | None, sizes: Sizes) -> DataFrame:
    """Violations as left_i0 ..., right_i0 ... (nothing right for a one-row rule), and the compared columns of both.

    With a limit, the first ones in the order of the identities of left and right row.
    """
    pairs = _singles(plan, identity) if plan.join.one_row else _pairs(plan, identity, limit, sizes)
    if limit is None:
        return pairs
    sides = ("left_",) if plan.join.one_row else ("left_", "right_")
    order = [F.col(side + name).asc_nulls_last() for side in sides for name in identity.positions]
    return pairs.orderBy(*order).limit(limit)


def _singles(plan: RulePlan, identity: Identity) -> DataFrame:
    rows = plan.data.filter(plan.on_side(Row.LEFT)).select(*plan.columns, *identity.attached())
    rows = number_copies(rows, identity)
    return rows.toDF(*(f"left_{name}" for name in rows.columns))


def _pairs(plan: RulePlan, identity: Identity, limit: int | None, sizes: Sizes) -> DataFrame:
    n_rows = int(plan.data.count())
    if plan.route is Route.GROUPS and plan.join.key and n_rows > sizes.rows_a_task:
        plan = only_conflicts(plan)
    found = measure(KeySet((plan,)), sizes, n_rows)
    left, right = (compared_columns(plan.rule, row) for row in Row)
    type_of = plan.comparisons.frame.type_of
    named = list(zip(identity.positions, identity.types, strict=True))
    fields = [
        T.StructField(side + name, type_)
        for side, names in (("left_", left), ("right_", right))
        for name, type_ in (*named, *((name, type_of(name)) for name in names))
    ]

    columns = (*identity.positions, *left), (*identity.positions, *right)

    def work(records: DataFrame, rules: tuple[TaskRule, ...]) -> DataFrame:
        naming = _naming(identity, plan, sided=rules[0].sided)
        listed = partial(worker.pairs_of_partition, rule=rules[0], naming=naming, columns=columns, limit=limit)
        return map_in_arrow(records, listed, T.StructType(fields))

    extra = identity.attached(sided=found.is_spread and not plan.join.irreflexive)
    parts = found.over_small_groups(work, extra)
    grid = conflict_grid(found) if limit is not None and limit <= _FEW_PAIRS else None
    if grid is None or limit is None:
        return union(parts + found.over_giant_groups(work, extra))
    (rule,) = found.keys.task_rules(sided=True)
    # All copies of a row are in one task, and have their numbers before it is sent anywhere.
    naming = replace(_naming(identity, plan, sided=True), copies=None)
    records = _giant_rows(found, extra, identity)
    first = _first_left(found, grid, records, identity, limit)
    listed = partial(worker.pairs_with_first, first=first, rule=rule, naming=naming, columns=columns, limit=limit)
    right = _on_side(found, records, Row.RIGHT).drop(*found.keys.key_names)
    if identity.naming is not Naming.CONTENT:
        right = _dealt_evenly(found, right, identity.positions)
    return union([*parts, map_in_arrow(right, listed, T.StructType(fields))])


def _giant_rows(found: MeasuredKeys, extra: Sequence[Expression], identity: Identity) -> DataFrame:
    """The records of giant groups; if they are named by their values, in tasks of even size, and copies numbered."""
    records = found.giant_records(extra)
    if identity.naming is not Naming.CONTENT:
        return records
    (name,) = identity.positions
    return number_equal(_dealt_evenly(found, records, [name]), name)


def _dealt_evenly(found: MeasuredKeys, records: DataFrame, names: Sequence[str]) -> DataFrame:
    return records.repartition(found.sizes.n_tasks(sum(found.giants.values())), *names)


def _first_left(found: MeasuredKeys, grid: Grid, records: DataFrame, identity: Identity, limit: int) -> pa.Table:
    """The first left records, among which are those of the first violations.

    Of many records strips decide that they have violations. If these are dense, as many as wanted are among the first
    records. Otherwise the values of all left rows of violations are looked up.
    """
    left = _on_side(found, records, Row.LEFT)
    by_name = [F.col(name).asc_nulls_last() for name in identity.positions]
    if grid.cells:
        some = to_arrow(grid.with_sure(left).orderBy(*by_name).limit(_MORE_ROWS + _ROWS_A_PAIR * limit))
        sure = np.flatnonzero(some.column("sure").to_numpy())
        if sure.size >= limit > 0:
            return some.slice(0, int(sure[limit - 1]) + 1).drop_columns(["sure"])
    sought = [found.plan.comparable(name) for name in found.plan.columns]
    names = [f"v{i}" for i in range(len(sought))]
    values = left_values(found, grid).select(*names)
    left = left.join(values, all_equal(sought, names), "left_semi")
    return to_arrow(left.orderBy(*by_name).limit(limit))


def _on_side(found: MeasuredKeys, records: DataFrame, row: Row) -> DataFrame:
    side = side_column(LEFT if row is Row.LEFT else RIGHT)
    return records.filter(found.plan.on_side(row)).withColumn(SIDE, side)


def _naming(identity: Identity, plan: RulePlan, *, sided: bool) -> RowNames:
    names = tuple(identity.positions)
    if identity.naming is Naming.KEY and sided and not plan.join.irreflexive:
        return RowNames(names, (CONTENT,), CONTENT)
    if identity.naming is Naming.CONTENT:
        return RowNames(names, names, names[0])
    return RowNames(names, names, None)


# A cell that begins so is a formula to a spreadsheet.
_FORMULA = r"^[=+\-@\t\r]"


def conflict_table(data: DataFrame, rules: Sequence[Rule], titles: Sequence[str], options: CheckOptions) -> DataFrame:
    """Every row in conflict, once, whole: the titles of the rules that it breaks as naysay_rules, and its columns."""
    frame = Frame.of(data)
    rows, marks = mark_conflicts(plan_rules(Comparisons(frame, options.nulls), rules), frame.data, Sizes())
    broken = [F.when(mark, F.lit(title)) for mark, title in zip(marks, titles, strict=True)]
    columns = rows.columns[: len(frame.names)]
    found = F.filter(F.array(*broken), lambda title: title.isNotNull())
    shown = [
        F.lit(HIDDEN) if name in options.hide else F.col(column)
        for name, column in zip(frame.names, columns, strict=True)
    ]
    tagged = rows.select(found.alias("naysay_rules"), *shown).filter(F.size("naysay_rules") > 0)
    return tagged.toDF(free_name("naysay_rules", frame.names), *frame.names)


def write(data: DataFrame, path: str, format: str, *, neutral: bool = True) -> None:
    """Write a folder of Parquet, CSV or JSON files; raises if the folder exists.

    CSV has no nested values: structs become a column per field, lists one text. If `neutral`, text in CSV that a
    spreadsheet would take for a formula gets an apostrophe.
    """
    fields = [(field.name, F.col(f"c{place}"), field.dataType) for place, field in enumerate(data.schema.fields)]
    # A column of nothing but nulls, such as the right row of a one-row rule, has no type that files have.
    fields = [_as_text(*field) if isinstance(field[2], T.NullType) else field for field in fields]
    if format == "csv":
        fields = [flat for field in fields for flat in _flatten(*field)]
        fields = [_neutralise(*field) for field in fields] if neutral else fields
    # By position, so that no name meets a parser.
    rows = data.toDF(*(f"c{place}" for place in range(len(data.columns))))
    rows = rows.select(*(column for _, column, _ in fields)).toDF(*(name for name, _, _ in fields))
    options = {"header": True, "escape": '"'} if format == "csv" else {}
    rows.write.mode("error").options(**options).format(format).save(path)


def write_text(data: DataFrame, path: str, text: str) -> None:
    """Write one text by way of Spark, through the session of a DataFrame."""
    lines = data.sparkSession.createDataFrame([(text,)], T.StructType([T.StructField("value", T.StringType())]))
    lines.coalesce(1).write.mode("error").text(path)


_Field = tuple[str, Expression, T.DataType]


def _as_text(name: str, column: Expression, _: T.DataType) -> _Field:
    return name, column.cast("string"), T.StringType()


def _flatten(name: str, column: Expression, type_: T.DataType) -> list[_Field]:
    if isinstance(type_, T.StructType):
        return [(f"{name}.{inner.name}", column.getField(inner.name), inner.dataType) for inner in type_.fields]
    if isinstance(type_, T.ArrayType):
        return [(name, F.array_join(column, "; "), T.StringType())]
    return [(name, column, type_)]


def _neutralise(name: str, column: Expression, type_: T.DataType) -> _Field:
    if isinstance(type_, T.StringType):
        column = F.when(column.rlike(_FORMULA), F.concat(F.lit("'"), column)).otherwise(column)
    return f"'{name}" if re.match(_FORMULA, name) else name, column, type_
