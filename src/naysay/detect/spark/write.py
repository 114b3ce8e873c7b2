"""Results of a check written by Spark: violations per rule and rows in conflict, wherever Spark can write."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.detect.spark.key_groups import Sizes
from naysay.detect.spark.listing import mark_conflicts
from naysay.detect.spark.plan import plan_rules
from naysay.rule.model import Nulls, Rule
from naysay.spark.expressions import Comparisons
from naysay.spark.frame import Frame
from naysay.table.compatibility import free_name

# A cell that begins so is a formula to a spreadsheet.
_FORMULA = r"^[=+\-@\t\r]"


def conflict_table(data: DataFrame, rules: Sequence[Rule], titles: Sequence[str], nulls: Nulls) -> DataFrame:
    """Every row in conflict, once, whole: the titles of the rules that it breaks as naysay_rules, and its columns."""
    frame = Frame.of(data)
    rows, marks = mark_conflicts(plan_rules(Comparisons(frame, nulls), rules), frame.data, Sizes())
    broken = [F.when(mark, F.lit(title)) for mark, title in zip(marks, titles, strict=True)]
    columns = rows.columns[: len(frame.names)]
    found = F.filter(F.array(*broken), lambda title: title.isNotNull())
    tagged = rows.select(found.alias("naysay_rules"), *columns).filter(F.size("naysay_rules") > 0)
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
