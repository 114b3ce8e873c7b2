"""Spark's smallest number of rows to remove: exact whenever it is exact in-process, on every route."""

from __future__ import annotations

from typing import Any

import pytest
from spark_differential import IN_ONE_TASK, IN_TASKS
from tables import to_spark

import mirrors
import naive
import naysay
from cases import rows_of
from naysay.detect.request import CheckOptions
from naysay.detect.spark.engine import SparkEngine
from naysay.detect.spark.key_groups import Sizes
from naysay.plan.join import join_of
from naysay.plan.shape import plan_of
from naysay.rule import Nulls, parse


@pytest.mark.parametrize("sizes", [IN_ONE_TASK, IN_TASKS], ids=["one task", "tasks"])
@pytest.mark.parametrize("nulls", list(Nulls))
def test_exact_where_explain_says_so(spark: Any, sizes: Sizes, nulls: Nulls) -> None:
    table, rules = mirrors.table(3), [parse(text) for text in mirrors.rules().values()]
    if sizes == IN_TASKS:
        # Every other rule with each meaning of null: they take many jobs.
        rules = rules[list(Nulls).index(nulls) :: 2]
    found = SparkEngine(to_spark(spark, table), sizes).check(rules, CheckOptions(nulls, causes=False))
    for rule, result, here in zip(rules, found, naysay.check(table, rules, nulls=nulls.value), strict=True):
        fewest = naive.rows_to_remove(rows_of(table), rule, nulls)
        removal = result.rows_to_remove
        assert (result.violations, result.rows_in_conflict) == (here.violations, here.rows_in_conflict), rule
        assert removal.least <= fewest <= removal.most, rule
        if plan_of(join_of(rule)).remove.startswith("exact"):
            assert removal.is_exact, rule
            assert here.rows_to_remove.is_exact, rule
