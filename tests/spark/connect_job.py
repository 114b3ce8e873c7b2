"""Run by test_spark_connect in a process of its own: every verb over Spark Connect, against the oracle."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
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

if __name__ == "__main__":
    session = (
        SparkSession.builder.remote("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    assert "connect" in type(session).__module__, type(session)
    table, rules, nulls = draw(7, 40, 20)
    some = rules[:4] + with_strips(rules)[:1]
    judge_check(session, table, rules, nulls, IN_ONE_TASK)
    judge_check(session, table, some, nulls, IN_TASKS)
    judge_counts(session, table, some, nulls, IN_PARTS)
    judge_lists(session, table, some[:1], nulls, IN_TASKS)
    session.stop()
    sys.stdout.write("the same over Connect\n")
