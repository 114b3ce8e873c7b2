"""What naysay does itself on older versions of Spark, tried on the one that is installed."""

from __future__ import annotations

import datetime
import subprocess
import sys
import types
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql import functions as F
from tables import to_spark

from naysay.cli.group import naysay as cli
from naysay.errors import TableError, UsageError
from naysay.spark import require_supported, versions
from naysay.spark.frame import spark_type
from naysay.spark.versions import deal_out, to_arrow, try_cast


@pytest.fixture(params=["installed", "3.5"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "3.5":
        monkeypatch.setattr(versions, "VERSION", (3, 5))
    return request.param


def test_a_version_that_is_too_old_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for old in ("3.4.4", "2.4.8", "3.0.0.dev0", "unknown"):
        with pytest.raises(
            UsageError, match=f"^pyspark {old} is not supported; naysay needs Spark 3.5, 4.0, 4.1 or newer$"
        ):
            require_supported(old, "pyspark")
    assert [require_supported(new, "pyspark") for new in ("3.5.0", "4.1.0.dev3", "10.2")] == [(3, 5), (4, 1), (10, 2)]
    for name in [name for name in sys.modules if {"pyspark", "spark"} & set(name.split("."))]:
        monkeypatch.delitem(sys.modules, name)
    old_pyspark = types.ModuleType("pyspark")
    old_pyspark.__version__ = "3.4.4"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark", old_pyspark)
    done = CliRunner().invoke(cli, ["check", "a_table", "--rule", "key(a)", "--engine", "spark"])
    assert done.exit_code == 2, done.output
    assert "pyspark 3.4.4 is not supported" in done.stderr


def test_tables_there_and_back(spark: Any, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "_MESSAGE_BYTES", 100)
    day = datetime.datetime(2024, 10, 27, 0, 30)
    table = pa.table(
        {
            "a.b `c`": pa.array([1, None, 3] * 5, pa.int64()),
            "text": ["x", None, "é"] * 5,
            "float": [float("inf"), None, -0.0] * 5,
            "decimal": pa.array([Decimal("1.50"), None, Decimal("-2.00")] * 5, pa.decimal128(20, 2)),
            "day": pa.array([day.date(), None, day.date()] * 5),
            "wall": pa.array([day, None, day] * 5, pa.timestamp("us")),
            "instant": pa.array([day, None, day] * 5, pa.timestamp("us", "UTC")),
            "span": pa.array([datetime.timedelta(days=1), None, datetime.timedelta(0)] * 5, pa.duration("us")),
            "bytes": pa.array([b"\0", None, b""] * 5),
            "flag": [True, None, False] * 5,
        }
    )
    data = to_spark(spark, table)
    assert to_arrow(data.orderBy(F.monotonically_increasing_id())).cast(table.schema).equals(table)
    nothing = to_arrow(data.filter("flag is null and flag"))
    assert (nothing.num_rows, nothing.column_names) == (0, table.column_names)
    assert to_arrow(to_spark(spark, table.slice(0, 0))).cast(table.schema).equals(table.slice(0, 0))


def test_a_cast_that_may_fail(spark: Any, version: str) -> None:
    data = spark.createDataFrame([("12",), ("x",), (None,), ("9" * 30,)], "v string")
    kept = spark.conf.get("spark.sql.ansi.enabled")
    try:
        for ansi in ("true", "false"):
            spark.conf.set("spark.sql.ansi.enabled", ansi)
            found = data.select(try_cast(F.col("v"), "bigint").alias("w")).collect()
            assert [row["w"] for row in found] == [12, None, None, None]
    finally:
        spark.conf.set("spark.sql.ansi.enabled", kept)


@pytest.mark.parametrize("n_parts", [1, 2, 7, 250])
def test_every_row_in_the_partition_of_its_number(spark: Any, n_parts: int) -> None:
    data = spark.range(2 * n_parts).select((F.col("id") % n_parts).alias("place"))
    dealt = deal_out(data, n_parts, F.col("place")).select("place", F.spark_partition_id().alias("found"))
    assert dealt.filter("place != found").count() == 0
    assert dealt.distinct().count() == n_parts


def test_a_type_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("naysay.spark.frame.TimeType", versions.MissingType)
    with pytest.raises(TableError, match="has no type for the time of day; cast the column to text"):
        spark_type(pa.time64("us"))
    assert spark_type(pa.int64()).simpleString() == "bigint"


@pytest.mark.skipif(versions.VERSION < (4, 0), reason="pyspark-client begins with Spark 4.0")
def test_with_the_client_of_connect_only() -> None:
    """The package pyspark-client has no py4j and no classes of a driver."""
    script = """
import subprocess
import sys
sys.modules["py4j"] = sys.modules["pyspark.core"] = None
import naysay.detect.spark.engine, naysay.discovery.spark.engine, naysay.evolve.spark.engine
import naysay.watch.spark.engine, naysay.spark.read
from naysay.spark.session import SPARK_ERRORS, plain_errors
with plain_errors():
    print([error.__name__ for error in SPARK_ERRORS])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "['PySparkException']\n", done.stderr
