"""Counts on Spark against the oracle: many random rules a table, so that one job judges many cases."""

from __future__ import annotations

import random
from typing import Any

import naive
import pytest
from cases import Case
from samples import PLAIN_FAMILIES
from strategies import random_rule, random_table
from tables import to_spark

from naysay.engines import spark as engine
from naysay.engines.spark_kernels import Sizes
from naysay.rule.model import Nulls

SMALL = Sizes(rows_a_task=7, giant=10**9)


@pytest.mark.parametrize("seed", range(4))
def test_counts_equal_the_oracle(spark: Any, seed: int) -> None:
    rng = random.Random(seed)
    table = random_table(rng, max_rows=40, families=PLAIN_FAMILIES)
    rules = [random_rule(rng, table) for _ in range(40)]
    nulls = rng.choice(list(Nulls))
    rows = Case(table, rules[0]).rows
    data = to_spark(spark, table)
    in_one_task = engine.count(data, rules, nulls=nulls)
    in_many = engine.count(data, rules, nulls=nulls, sizes=SMALL)
    for rule, one, many in zip(rules, in_one_task, in_many, strict=True):
        expected = naive.count(rows, rule, nulls)
        assert (one, many) == (expected, expected), Case(table, rule, nulls)
