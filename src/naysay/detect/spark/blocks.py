"""Giant groups cut into blocks: each task joins one block of left rows with one block of right rows.

This answers any rule, whatever its parts: with B blocks a side, B^2 tasks hold a 1/B part of each side; B follows from
the size of the group. Every pair of rows meets in exactly one task. For rules of orders alone `spark_strips` counts the
same with far less traffic.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.detect.spark import worker as tasks
from naysay.detect.spark.key_groups import KeySet, Sizes
from naysay.spark.expressions import hash_of


def of_giants(records: DataFrame, keys: KeySet, giants: Mapping[int, int]) -> DataFrame:
    """The records of giant groups (and of the few whose hash is the same)."""
    return records.filter(keys.key_hash().isin(list(giants)))


def of_others(records: DataFrame, keys: KeySet, giants: Mapping[int, int]) -> DataFrame:
    return records.filter(~keys.key_hash().isin(list(giants))) if giants else records


def blocked(records: DataFrame, keys: KeySet, giants: Mapping[int, int], sizes: Sizes) -> DataFrame:
    """Records of giant groups, each row once for each task in which it stands on the left or on the right.

    `records` come from `keyed_records(..., met=True)`; the result is dealt out, with columns SIDE and TASK.
    """
    blocks_of, first_of, n_tasks = {}, {}, 0
    for key, n_records in giants.items():
        blocks_of[key], first_of[key] = max(2, -(-2 * n_records // sizes.giant)), n_tasks
        n_tasks += blocks_of[key] ** 2
    n_blocks, first = (_looked_up(keys.key_hash(), of_key) for of_key in (blocks_of, first_of))
    block = F.pmod(hash_of([F.col(name) for name in keys.columns]), n_blocks).cast(T.IntegerType())
    others = F.sequence(F.lit(0), n_blocks - 1)
    left = F.transform(others, lambda other: _copy(tasks.LEFT, first + block * n_blocks + other, other == block))
    right = F.transform(others, lambda other: _copy(tasks.RIGHT, first + other * n_blocks + block, other == block))
    if keys.crossed:
        copies = F.when(F.col(tasks.SIDE) == tasks.LEFT, left).otherwise(right)
        records = records.withColumn("copy", F.explode(copies)).drop(tasks.SIDE)
    else:
        records = records.withColumn("copy", F.explode(F.concat(left, right)))
    kept = [
        (F.col(name) & F.col("copy.at_home")).alias(name) if name.startswith("itself") else F.col(name)
        for name in records.columns
        if name not in (*keys.key_names, "copy")
    ]
    parts = records.select(*kept, F.col("copy.side").alias(tasks.SIDE), F.col("copy.task").alias(tasks.TASK))
    return parts.repartitionById(n_tasks, F.col(tasks.TASK))


def _looked_up(key: Expression, values: Mapping[int, int]) -> Expression:
    pairs = ((F.lit(each).cast(T.LongType()), F.lit(value)) for each, value in values.items())
    return F.create_map(*(part for pair in pairs for part in pair))[key]


def _copy(side: int, task: Expression, at_home: Expression) -> Expression:
    """A record of a row in a task; it may meet itself only where its own block stands on both sides."""
    return F.struct(F.lit(side).cast(T.ByteType()).alias("side"), task.alias("task"), at_home.alias("at_home"))
