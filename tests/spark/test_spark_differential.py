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


@pytest.mark.parametrize("seed", range(12))
def test_a_small_table_in_one_task(spark: Any, seed: int) -> None:
    case = draw(seed, 100)
    judge_counts(spark, *case, IN_ONE_TASK)
    judge_check(spark, *case, IN_ONE_TASK)


@pytest.mark.parametrize("seed", range(50, 57))
def test_batches_of_three_rows(spark: Any, batches_of_three: None, seed: int) -> None:
    judge_check(spark, *draw(seed, 100), IN_ONE_TASK)


@pytest.mark.parametrize("seed", range(100, 104))
def test_groups_in_tasks(spark: Any, seed: int) -> None:
    judge_counts(spark, *draw(seed, 24), IN_TASKS)


@pytest.mark.parametrize("seed", range(110, 113))
def test_reports_of_groups_in_tasks(spark: Any, batches_of_three: None, seed: int) -> None:
    judge_check(spark, *draw(seed, 8), IN_TASKS)


@pytest.mark.parametrize("seed", range(200, 204))
def test_giant_groups_in_parts(spark: Any, seed: int) -> None:
    table, rules, nulls = draw(seed, 60)
    judge_counts(spark, table, with_strips(rules)[:6], nulls, IN_PARTS)


@pytest.mark.parametrize("seed", range(210, 213))
def test_reports_of_giant_groups_in_parts(spark: Any, seed: int) -> None:
    table, rules, nulls = draw(seed, 60)
    judge_check(spark, table, rules[:3] + with_strips(rules)[:2], nulls, IN_PARTS)


@pytest.mark.parametrize(("seed", "sizes"), [(300, IN_ONE_TASK), (301, IN_TASKS), (400, IN_PARTS)])
def test_lists(spark: Any, seed: int, sizes: Any) -> None:
    table, rules, nulls = draw(seed, 20)
    judge_lists(spark, table, rules[:2] + with_strips(rules)[:1], nulls, sizes)
