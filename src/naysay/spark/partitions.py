"""Values in the names of folders, such as `zip=02139`, with the types that they would have as cells of a CSV file.

Spark would take 02139 and 2139 for the same number. So these columns are read as text and then cast.
"""

from __future__ import annotations

import os
from urllib.parse import unquote, urlparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.spark.types import looks_at, typed

_NULL = "__HIVE_DEFAULT_PARTITION__"


def partitions_of(rows: DataFrame, source: str) -> dict[str, set[str]]:
    """The columns of a table just read that come from the names of its folders, each with its values."""
    address = urlparse(source)
    base = os.path.normpath(address.path) if address.scheme else os.path.abspath(source)
    depth = len(base.rstrip("/").split("/"))
    known = {name.lower(): name for name in rows.columns}
    found: dict[str, set[str]] = {}
    for file in rows.inputFiles():
        # An address is escaped, and so is the name of a folder.
        for folder in unquote(urlparse(file).path).split("/")[depth:-1]:
            name, divided, value = folder.partition("=")
            column = known.get(unquote(name).lower())
            if divided and column is not None:
                found.setdefault(column, set()).add(unquote(value))
    return found


def with_text(schema: T.StructType, partitions: dict[str, set[str]]) -> T.StructType:
    """The schema with these columns as text."""
    fields = [
        T.StructField(field.name, T.StringType()) if field.name in partitions else field for field in schema.fields
    ]
    return T.StructType(fields)


def typed_partitions(session: SparkSession, rows: DataFrame, partitions: dict[str, set[str]], source: str) -> DataFrame:
    """The same rows, these columns with the types that all their values have."""
    for name, values in partitions.items():
        texts = [(value,) for value in sorted(values - {_NULL, ""})]
        looks = looks_at(session.createDataFrame(texts, "value string"), ["value"])
        column = F.col("`" + name.replace("`", "``") + "`")
        rows = rows.withColumn(name, typed(column, looks, "value", f"{source}: {{}} in the folder names of {name!r}"))
    return rows
