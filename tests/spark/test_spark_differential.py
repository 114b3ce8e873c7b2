"""Random tables and rules, more than 2,000 of them: the Spark engine against the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from spark_differential import (
    IN_ONE_TASK,
    IN_PARTS,
    IN_TASKS,
    draw,
    judge_check,
    judge_counts,
    judge_lists,
    with_strips,
)

_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.fixture
def batches_of_three(spark: Any) -> Iterator[None]:
    before = spark.conf.get(_BATCH)
    spark.conf.set(_BATCH, "3")
    yield
    spark.conf.set(_BATCH, before)


@pytest.mark.parametrize("seed", range(17))
def test_a_small_table_in_one_task(spark: Any, seed: int) -> None:
    case = draw(seed, 100)
    judge_counts(spark, *case, IN_ONE_TASK)
    judge_check(spark, *case, IN_ONE_TASK)


@pytest.mark.parametrize("seed", range(50, 54))
def test_batches_of_three_rows(spark: Any, batches_of_three: None, seed: int) -> None:
    case = draw(seed, 50)
    judge_check(spark, *case, IN_ONE_TASK)
    table, rules, nulls = case
    judge_counts(spark, table, rules[:8], nulls, IN_TASKS)


@pytest.mark.parametrize("seed", range(100, 106))
def test_groups_in_tasks(spark: Any, seed: int) -> None:
    table, rules, nulls = draw(seed, 24)
    judge_counts(spark, table, rules, nulls, IN_TASKS)
    judge_check(spark, table, rules[:8], nulls, IN_TASKS)


@pytest.mark.parametrize("seed", range(200, 206))
def test_giant_groups_in_parts(spark: Any, seed: int) -> None:
    table, rules, nulls = draw(seed, 60)
    judge_counts(spark, table, with_strips(rules)[:8], nulls, IN_PARTS)
    judge_check(spark, table, rules[:4] + with_strips(rules)[:3], nulls, IN_PARTS)


@pytest.mark.parametrize(("seed", "sizes"), [(300, IN_ONE_TASK), (301, IN_TASKS), (302, IN_TASKS), (400, IN_PARTS)])
def test_lists(spark: Any, seed: int, sizes: Any) -> None:
    table, rules, nulls = draw(seed, 20)
    judge_lists(spark, table, rules[:3] + with_strips(rules)[:1], nulls, sizes)
