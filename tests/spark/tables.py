"""Arrow tables as Spark DataFrames with the same column types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from naysay.spark.frame import from_arrow, spark_type


def to_spark(spark: Any, table: pa.Table) -> DataFrame:
    """The table as a DataFrame. By default, Spark reads a timestamp without zone as one with a zone."""
    schema = T.StructType([T.StructField(field.name, spark_type(field.type)) for field in table.schema])
    return from_arrow(spark, table, schema)
