"""Results of a check written by Spark: violations per rule and rows in conflict, wherever Spark can write."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.detect.spark.key_groups import Sizes
from naysay.detect.spark.listing import mark_conflicts
from naysay.detect.spark.plan import plan_rules
from naysay.rule.model import Nulls, Rule
from naysay.spark.expressions import Comparisons
from naysay.spark.frame import Frame
from naysay.table.fit import free_name

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
    data = _give_types(data)
    if format == "csv":
        data = _flatten(data)
        if neutral:
            data = _neutralise(data)
        data.write.mode("error").option("header", True).option("escape", '"').csv(path)
    else:
        data.write.mode("error").format(format).save(path)


def write_text(data: DataFrame, path: str, text: str) -> None:
    """Write one text by way of Spark, through the session of a DataFrame."""
    lines = data.sparkSession.createDataFrame([(text,)], T.StructType([T.StructField("value", T.StringType())]))
    lines.coalesce(1).write.mode("error").text(path)


def _by_position(data: DataFrame) -> DataFrame:
    """The columns as c0, c1, ..., so that no name meets a parser."""
    return data.toDF(*(f"c{place}" for place in range(len(data.columns))))


def _give_types(data: DataFrame) -> DataFrame:
    """A column of nothing but nulls, such as the right row of a one-row rule, gets a type that files have."""
    columns = [
        F.col(f"c{place}").cast("string") if isinstance(field.dataType, T.NullType) else F.col(f"c{place}")
        for place, field in enumerate(data.schema.fields)
    ]
    return _by_position(data).select(*columns).toDF(*data.columns)


def _flatten(data: DataFrame) -> DataFrame:
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


def _neutralise(data: DataFrame) -> DataFrame:
    columns = []
    for place, field in enumerate(data.schema.fields):
        column = F.col(f"c{place}")
        if isinstance(field.dataType, T.StringType):
            column = F.when(column.rlike(_FORMULA), F.concat(F.lit("'"), column)).otherwise(column)
        columns.append(column)
    names = [f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name for name in data.columns]
    return _by_position(data).select(*columns).toDF(*names)
