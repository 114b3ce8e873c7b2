"""Random tables and rules: the Spark engine against the oracle."""

from __future__ import annotations

from typing import Any

import pytest

from differential import IN_BLOCKS, IN_ONE_TASK, IN_TASKS, draw, judge_check, judge_counts, judge_lists


@pytest.mark.parametrize("seed", range(4))
def test_a_small_table_in_one_task(spark: Any, seed: int) -> None:
    case = draw(seed, 50)
    judge_counts(spark, *case, IN_ONE_TASK)
    judge_check(spark, *case, IN_ONE_TASK)


@pytest.mark.parametrize("seed", range(2))
def test_groups_in_tasks(spark: Any, seed: int) -> None:
    case = draw(100 + seed, 16)
    judge_counts(spark, *case, IN_TASKS)
    judge_check(spark, *case, IN_TASKS)


@pytest.mark.parametrize("seed", range(2))
def test_giant_groups_in_blocks(spark: Any, seed: int) -> None:
    case = draw(200 + seed, 12)
    judge_counts(spark, *case, IN_BLOCKS)
    judge_check(spark, *case, IN_BLOCKS)


@pytest.mark.parametrize("seed", range(2))
def test_lists(spark: Any, seed: int) -> None:
    judge_lists(spark, *draw(300 + seed, 5), IN_TASKS)
    judge_lists(spark, *draw(400 + seed, 5), IN_BLOCKS)
