"""The verbs on a grid of strips: what cells decide by themselves, and what tasks find within strips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.detect.spark import worker as tasks
from naysay.detect.spark.key_groups import Sizes, collect_summaries, task_rules
from naysay.detect.spark.strips import Grid
from naysay.detect.spark.worker import TaskRule
from naysay.detect.summary import RuleSummary
from naysay.plan.join import Match, Order
from naysay.rule.model import Row
from naysay.spark.frame import map_in_arrow


def count(grid: Grid, sizes: Sizes) -> int:
    """Count the violations in the giant groups."""
    work = partial(tasks.count_strips, dims=_dims(grid))
    within = _within_strips(grid, sizes, work)
    return grid.decided() + within.violations - grid.n_itself


def summarise(grid: Grid, sizes: Sizes, n_sample: int) -> RuleSummary[pa.Table]:
    """Violations in the giant groups, and values of rows that are in some of them; rows in conflict are not counted."""
    within = _within_strips(grid, sizes, partial(tasks.summarise_strips, dims=_dims(grid), n_sample=n_sample))
    decided = grid.decided()
    if decided and n_sample and not grid.more_cells:
        return RuleSummary(decided, sample=(_rows_of_cells(grid, n_sample),)).merge(within)
    return RuleSummary(decided).merge(within)


def _within_strips(grid: Grid, sizes: Sizes, work: Callable[..., Any]) -> RuleSummary[pa.Table]:
    if not grid.cells:
        return RuleSummary()
    summaries = collect_summaries([_over_strips(grid, sizes, work, tasks.SUMMARY)])
    return summaries.get(grid.plan.number, RuleSummary())


def conflicts(grid: Grid, sizes: Sizes) -> DataFrame:
    """The rows in conflict, as `conflicts_of_partition` gives them: those that cells decide and those within strips."""
    return known_conflicts(grid).union(conflicts_within(grid, sizes))


def conflicts_within(grid: Grid, sizes: Sizes) -> DataFrame:
    """The rows in conflict that are found within strips and that cells do not decide."""
    fields = [T.StructField(name, grid.meaning.frame.type_of(name)) for name in grid.plan.columns]
    schema = T.StructType([*fields, T.StructField("place", T.LongType())])
    return _over_strips(grid, sizes, partial(tasks.conflicts_of_strips, dims=_dims(grid)), schema)


def known_conflicts(grid: Grid) -> DataFrame:
    """The rows in conflict that cells decide."""
    place = F.col(tasks.SIDE).cast(T.LongType()) if grid.sided else F.lit(0).cast(T.LongType())
    return grid.records.filter(_is_known(grid)).select(*grid.plan.columns, place.alias("place"))


def _over_strips(grid: Grid, sizes: Sizes, work: Callable[..., Any], schema: pa.Schema | T.StructType) -> DataFrame:
    """Do work on the records of all strips that leave something undecided, dealt out evenly."""
    copies = []
    for order in range(grid.n_orders):
        open_strips = np.flatnonzero(~grid.singles(order)).tolist()
        strip = F.col(f"l{order}")
        if grid.sided:
            strip = F.when(F.col(tasks.SIDE) == tasks.LEFT, strip).otherwise(F.col(f"r{order}"))
        copy = F.struct(F.lit(order).cast(T.ByteType()).alias("dim"), strip.alias("strip"))
        copies.append(F.when(strip.isin(open_strips), copy))
    records = grid.records.withColumn("copy", F.explode(F.array_compact(F.array(*copies))))
    names = [*grid.plan.columns, *([tasks.SIDE] if grid.sided else [])]
    codes = [code for order in range(grid.n_orders - 1) for code in _codes(grid, order)]
    known = [_is_known(grid).alias(tasks.KNOWN)] if isinstance(schema, T.StructType) else []
    placement, n_tasks = _placement(grid, sizes)
    parts = records.select(
        *names,
        *codes,
        *known,
        F.col("copy.dim").alias(tasks.DIM),
        F.col("copy.strip").alias(tasks.TASK),
        placement.alias("placement"),
    )
    return map_in_arrow(parts.repartitionById(n_tasks, F.col("placement")).drop("placement"), work, schema)


def _codes(grid: Grid, order: int) -> list[Expression]:
    """The strips of an order as two columns whose comparison decides it: left < right exactly where it is satisfied."""
    return [(2 * F.col(f"l{order}")).alias(f"left{order}"), _right_code(grid, order).alias(f"right{order}")]


def _right_code(grid: Grid, order: int) -> Expression:
    right = F.col(f"r{order}")
    ties = np.flatnonzero(grid.ties[order]).tolist()
    return 2 * right + F.when(right.isin(ties), 1).otherwise(0) if ties else 2 * right


def _is_known(grid: Grid) -> Expression:
    """Whether cells alone show that a record is in conflict."""
    ties = grid.ties
    hashes = sorted(grid.cells)
    group = F.array_position(F.array(*map(F.lit, hashes)), grid.found.keys.key_hash()).cast(T.IntegerType()) - 1
    last = grid.n_orders - 1
    known = []
    for side, code in (("l", 2 * F.col(f"l{last}")), ("r", _right_code(grid, last))):
        reaches = [
            grid.cells[hashed].left_reach(ties) if side == "l" else grid.cells[hashed].right_reach(ties)
            for hashed in hashes
        ]
        place = group
        for order in range(last):
            place = place * grid.strips[order].n + F.col(f"{side}{order}")
        numbers = np.concatenate([reach.ravel() for reach in reaches]).tolist()
        reach = F.get(F.array(*map(F.lit, numbers)), place)
        row = Row.LEFT if side == "l" else Row.RIGHT
        stands = grid.meaning.side(grid.plan.join, row)
        if grid.sided:
            stands = stands & (F.col(tasks.SIDE) == (tasks.LEFT if row is Row.LEFT else tasks.RIGHT))
        known.append(stands & (code < reach if side == "l" else code > reach))
    return known[0] | known[1]


def _rows_of_cells(grid: Grid, n_sample: int) -> pa.Table:
    """Values of a few rows of two cells that conflict with each other."""
    pairs = ((hashed, cells.some_pair(grid.ties)) for hashed, cells in grid.cells.items())
    hashed, pair = next((hashed, pair) for hashed, pair in pairs if pair is not None)
    rows = grid.records.filter(grid.found.keys.key_hash() == hashed)
    parts = []
    for prefix, row, cell in (("l", Row.LEFT, pair[0]), ("r", Row.RIGHT, pair[1])):
        inside = grid.meaning.side(grid.plan.join, row)
        for order, strip in enumerate(cell):
            inside = inside & (F.col(f"{prefix}{order}") == strip)
        parts.append(rows.filter(inside).select(*grid.plan.columns).limit(n_sample))
    return parts[0].union(parts[1]).toArrow()


def _dims(grid: Grid) -> tuple[TaskRule, ...]:
    """For each order the rule as it reads inside a strip of that order."""
    (rule,) = task_rules(grid.found.keys, grid.meaning.nulls)
    join = rule.join
    dims = []
    for dim in range(grid.n_orders):
        decided = tuple(Order(f"left{i}", f"right{i}", descending=False, strict=True) for i in range(dim))
        within = replace(join, key=(*join.key, Match(tasks.TASK, tasks.TASK)), order=decided + join.order[dim:])
        dims.append(replace(rule, join=within, sided=grid.sided, itself=None, meets_itself=True))
    return tuple(dims)


def _placement(grid: Grid, sizes: Sizes) -> tuple[Expression, int]:
    """The partition of each strip's records: the largest strips first, each to the emptiest partition so far.

    Hashing a few strips onto a few partitions would leave some with several and some with none.
    """
    width = max(cuts.n for cuts in grid.strips)
    total = sum(cells.left + cells.right for cells in (*grid.cells.values(), *grid.more_cells))
    loads: dict[int, int] = {}
    for order in range(grid.n_orders):
        others = tuple(axis for axis in range(grid.n_orders) if axis != order)
        rows = np.asarray(total).sum(axis=others) if grid.cells else np.zeros(width, np.int64)
        for strip in np.flatnonzero(~grid.singles(order)).tolist():
            loads[order * width + strip] = int(rows[strip])
    n_tasks = max(1, min(len(loads), -(-sum(loads.values()) // sizes.rows_a_task)))
    filled = [0] * n_tasks
    chosen = [0] * (grid.n_orders * width)
    for strip, load in sorted(loads.items(), key=lambda item: -item[1]):
        emptiest = min(range(n_tasks), key=filled.__getitem__)
        filled[emptiest] += load
        chosen[strip] = emptiest
    places = F.array(*(F.lit(place) for place in chosen))
    return F.get(places, F.col("copy.dim").cast(T.IntegerType()) * width + F.col("copy.strip")), n_tasks
