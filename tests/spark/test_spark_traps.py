"""Warnings on Spark: the same as in-process, in one pass, on a table of any size."""

from __future__ import annotations

from typing import Any

import pytest

import naysay
from naysay.detect.request import CheckOptions
from naysay.detect.spark.engine import SparkEngine
from naysay.detect.spark.key_groups import Sizes
from naysay.rule import Nulls, parse
from naysay.spark.frame import from_arrow, spark_type
from traps import TRAPS


def frame(spark: Any, name: str) -> Any:
    from pyspark.sql import types as T

    table = TRAPS[name].table
    schema = T.StructType([T.StructField(field.name, spark_type(field.type)) for field in table.schema])
    return from_arrow(spark, table, schema)


@pytest.mark.parametrize("name", TRAPS)
def test_the_same_warnings_as_in_process(spark: Any, name: str) -> None:
    trap = TRAPS[name]
    expected = naysay.check(trap.table, trap.rule, key="id", nulls=trap.nulls)
    found = naysay.check(frame(spark, name), trap.rule, key="id", nulls=trap.nulls)
    assert found.warnings == expected.warnings
    assert found[0].warnings == expected[0].warnings


def test_all_at_once_on_a_large_table(spark: Any) -> None:
    """A table that no single task holds, checked by each rule's own route."""
    trap = TRAPS["numbers beside N/A"]
    rules = [parse(text) for text in (trap.rule, "not(t.ibu < '5')", "key(ibu)", "not(t.ibu == 'n/a' and t.abv > 9)")]
    options = CheckOptions(Nulls.SQL, ("id",))
    found = SparkEngine(frame(spark, "numbers beside N/A"), Sizes(rows_a_task=1)).check(rules, options)
    expected = naysay.check(trap.table, rules, key="id")
    assert [result.warnings for result in found] == [result.warnings for result in expected]
    assert [warning.code for warning in found.warnings] == ["text-order", "unknown-constant"]


def test_rows_without_a_key_have_their_hash(spark: Any) -> None:
    found = naysay.check(frame(spark, "numbers beside N/A"), "ordered(abv, ibu)")
    (warning,) = found.warnings
    assert warning.value == "N/A"
    assert warning.row is not None
    assert len(warning.row["row"]) == 32


def test_a_number_beside_text_names_the_first_value_that_is_not_a_number(spark: Any) -> None:
    data = frame(spark, "numbers beside N/A")
    for work in (naysay.check, naysay.count):
        with pytest.raises(naysay.RuleError, match="The first that is not a number is 'N/A'"):
            work(data, "not(t.ibu > 100)")
