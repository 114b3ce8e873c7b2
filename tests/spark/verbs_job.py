"""Run by test_spark_elsewhere in its own process: every operation over Spark Connect, compared with the oracle.

    python connect_job.py FIRST_SEED N_SEEDS [MOST_SECONDS]

Every other seed uses Arrow batches of three rows; the sizes of tasks alternate.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from pyspark.sql import SparkSession
from spark_differential import (
    IN_ONE_TASK,
    IN_PARTS,
    IN_TASKS,
    draw,
    judge_check,
    judge_counts,
    judge_lists,
    judge_verify,
    with_strips,
)

_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


def judge_seed(session: Any, seed: int) -> None:
    session.conf.set(_BATCH, "3" if seed % 2 else "10000")
    table, rules, nulls = draw(seed, 40, 20)
    sizes = (IN_TASKS, IN_PARTS, IN_ONE_TASK)[seed % 3]
    some = rules[:4] + with_strips(rules)[:1]
    judge_check(session, table, rules, nulls, IN_ONE_TASK)
    judge_check(session, table, some, nulls, sizes)
    judge_counts(session, table, some, nulls, sizes)
    judge_lists(session, table, some[:1], nulls, sizes)
    judge_verify(session, table, some[1:2], nulls, sizes)


if __name__ == "__main__":
    first, n_seeds = int(sys.argv[1]), int(sys.argv[2])
    most_seconds = float(sys.argv[3]) if len(sys.argv) > 3 else float("inf")
    session = (
        SparkSession.builder.remote("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    assert "connect" in type(session).__module__, type(session)
    start = time.monotonic()
    done = 0
    for seed in range(first, first + n_seeds):
        if time.monotonic() - start > most_seconds:
            break
        judge_seed(session, seed)
        done += 1
    session.stop()
    sys.stdout.write(f"the same over Connect: {done} seeds\n")
