"""One Spark session for all tests, started on first use, with a reason for each setting."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pyspark = pytest.importorskip("pyspark")

SETTINGS = {
    # Listen only on this machine, and without the web page, which nobody uses.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Test tables are small: two hundred shuffle partitions would be two hundred empty tasks.
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "1g",
    # Most objects of a test are garbage at its end: room for more of them means fewer collections.
    "spark.driver.extraJavaOptions": "-Xms1g -Xmn384m",
    # A zone with clock changes, so that confusing local times with instants is noticed.
    "spark.sql.session.timeZone": "Europe/Berlin",
    # Each plan of a test is used once: compiling it to bytecode costs more than interpreting it.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    # To note the line of Python that each column came from, PySpark would call Java several times per column.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Spark's checks of its own optimiser, and the plan as text for a page that nobody opens.
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.ui.explainMode": "simple",
    # Spark keeps its type for the time of day behind this until it is complete.
    "spark.sql.timeType.enabled": "true",
    "spark.log.level": "ERROR",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("naysay tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def compiled(spark: Any) -> Iterator[None]:
    """For tables of many rows, where compiling a plan costs less than interpreting it."""
    usual = {name: SETTINGS[name] for name in ("spark.sql.codegen.factoryMode", "spark.sql.codegen.wholeStage")}
    for name, value in zip(usual, ("FALLBACK", "true"), strict=True):
        spark.conf.set(name, value)
    yield
    for name, value in usual.items():
        spark.conf.set(name, value)
