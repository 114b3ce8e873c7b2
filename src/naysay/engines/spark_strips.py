"""Giant groups of rules made of orders: counted without ever joining most of their rows.

Each ordered column is cut into strips at quantiles. For a pair of rows a column is decided where their strips differ,
or where both are in a strip of one value. Pairs decided in all columns are counted from the numbers of rows in each
cell (a strip of each column), by prefix sums on the driver. Of the others the first undecided column owns the pair:
it is counted in that strip, with the columns before it compared by strip and those after it by value. So every pair
is counted once, a row travels at most once for each column, and tasks are as even as the strips.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.engines import spark_tasks as tasks
from naysay.engines.spark_blocks import of_giants
from naysay.engines.spark_cuts import Strips, cut, plain
from naysay.engines.spark_expressions import Meaning
from naysay.engines.spark_kernels import KeySet, Sizes, itself_of, keyed_records, task_rules
from naysay.engines.spark_plan import RulePlan
from naysay.engines.spark_tasks import TaskRule
from naysay.engines.spark_work import Measured
from naysay.plan.join import Join, Match, Order
from naysay.rule.model import Row

_SAMPLE = 20_000
# Cells are numbers on the driver: this many at most.
_MAX_CELLS = 1 << 16


def has_strips(join: Join) -> bool:
    """Whether the rule is one of orders alone, beside its key and filters."""
    return bool(join.order) and not join.differs


@dataclass(frozen=True)
class Grid:
    """A rule over the giant groups of its key, cut into strips.

    `records` has k0 ..., the rule's columns, SIDE where a row is two records, and for each order its strip on the left
    and on the right, l0, r0, l1, ... (turned round for a descending order, so that less is always left of more).
    """

    meaning: Meaning
    plan: RulePlan
    found: Measured
    records: DataFrame
    strips: tuple[Strips, ...]
    cells: tuple[Cells, ...]
    n_itself: int

    @property
    def n_orders(self) -> int:
        return len(self.strips)

    @property
    def sided(self) -> bool:
        return is_sided(self.found.keys, self.plan.join)

    def singles(self, order: int) -> NDArray[np.bool_]:
        """Which strips of an order hold one value, in the order of l0, r0 ..."""
        single = np.array(self.strips[order].single)
        return single[::-1] if self.plan.join.order[order].descending else single

    def ties(self, order: int) -> NDArray[np.bool_]:
        """Strips that decide in favour where both rows are in them."""
        single = self.singles(order)
        return single if not self.plan.join.order[order].strict else np.zeros(single.size, np.bool_)

    def decided(self) -> int:
        """The number of pairs that strips alone decide, a row with itself among them."""
        return sum(_count_decided(cells, [self.ties(order) for order in range(self.n_orders)]) for cells in self.cells)


@dataclass(frozen=True, slots=True)
class Cells:
    """The rows of one giant group in each cell, standing on the left and on the right."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]


def is_sided(keys: KeySet, join: Join) -> bool:
    """Whether a row must travel as one record a side: its strips or its keys differ on the two sides."""
    return keys.crossed or any(order.left != order.right for order in join.order)


def grid_of(meaning: Meaning, plan: RulePlan, found: Measured, sizes: Sizes) -> Grid:
    """Sample the giant groups, cut, and count the rows of each cell: two jobs."""
    keys = found.keys
    records = of_giants(keyed_records(meaning, keys, met=True), keys, found.giants)
    if is_sided(keys, plan.join) and not keys.crossed:
        sides = F.array(*(F.lit(side).cast(T.ByteType()) for side in (tasks.LEFT, tasks.RIGHT)))
        stands = F.when(F.col(tasks.SIDE) == tasks.LEFT, meaning.side(plan.join, Row.LEFT))
        records = records.withColumn(tasks.SIDE, F.explode(sides))
        records = records.filter(stands.otherwise(meaning.side(plan.join, Row.RIGHT)))
    n_strips = _n_strips(len(plan.join.order), sizes)
    strips = _strips(meaning, plan, records, found.n_records, n_strips)
    columns = []
    for i, (order, cuts) in enumerate(zip(plan.join.order, strips, strict=True)):
        for side, name, other in (("l", order.left, order.right), ("r", order.right, order.left)):
            type_ = records.select(meaning.comparable(name, other).alias("value")).schema["value"].dataType
            strip = cuts.strip_of(meaning.comparable(name, other), type_)
            strip = F.lit(cuts.n - 1) - strip if order.descending else strip
            columns.append(strip.cast(T.IntegerType()).alias(f"{side}{i}"))
    placed = records.select("*", *columns)
    cells, n_itself = _cells(meaning, plan, keys, placed, strips)
    return Grid(meaning, plan, found, placed, strips, cells, n_itself)


def count(grid: Grid, sizes: Sizes) -> int:
    """Count the violations in the giant groups."""
    if not grid.cells:
        return 0
    summary = in_strips(grid, sizes).mapInArrow(partial(tasks.count_strips, dims=_dims(grid)), tasks.SUMMARY)
    within: list[int] = summary.select("violations").toArrow().column(0).to_pylist()
    return grid.decided() + sum(within) - grid.n_itself


def in_strips(grid: Grid, sizes: Sizes) -> DataFrame:
    """The records of all strips that leave something undecided, dealt out evenly, with the column DIM."""
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
    placement, n_tasks = _placement(grid, sizes)
    parts = records.select(
        *dict.fromkeys(names), *codes, F.col("copy.dim").alias(tasks.DIM), F.col("copy.strip").alias(tasks.TASK),
        placement.alias("placement"),
    )  # fmt: skip
    return parts.repartitionById(n_tasks, F.col("placement")).drop("placement")


def _codes(grid: Grid, order: int) -> list[Expression]:
    """The strips of an order as two columns whose comparison decides it: left < right exactly where it is satisfied."""
    left, right = F.col(f"l{order}"), F.col(f"r{order}")
    ties = np.flatnonzero(grid.ties(order)).tolist()
    above = 2 * right + F.when(right.isin(ties), 1).otherwise(0) if ties else 2 * right
    return [(2 * left).alias(f"left{order}"), above.alias(f"right{order}")]


def _dims(grid: Grid) -> tuple[TaskRule, ...]:
    """For each order the rule as it reads inside a strip of that order."""
    (rule,) = task_rules(grid.found.keys, grid.meaning.nulls)
    join = rule.join
    dims = []
    for dim in range(grid.n_orders):
        decided = tuple(Order(f"left{i}", f"right{i}", descending=False, strict=True) for i in range(dim))
        within = replace(join, key=(*join.key, Match(tasks.TASK, tasks.TASK)), order=decided + join.order[dim:])
        dims.append(replace(rule, join=within, sided=grid.sided, itself=None, mirror=False, meets_itself=True))
    return tuple(dims)


def _n_strips(n_orders: int, sizes: Sizes) -> int:
    # A heavy value takes two cuts: count on twice as many strips as asked for.
    return max(2, min(sizes.n_strips, int(_MAX_CELLS ** (1 / n_orders) / 2)))


def _strips(
    meaning: Meaning, plan: RulePlan, records: DataFrame, n_records: int, n_strips: int
) -> tuple[Strips, ...]:
    values = []
    for i, order in enumerate(plan.join.order):
        for side, name, other in (("l", order.left, order.right), ("r", order.right, order.left)):
            value = meaning.comparable(name, other)
            type_ = records.select(value.alias("value")).schema["value"].dataType
            values.append(plain(value, type_).alias(f"{side}{i}"))
    fraction = min(1.0, _SAMPLE / max(n_records, 1))
    sampled = records.select(*values)
    sample = [
        row.asDict(recursive=True)
        for row in (sampled.sample(fraction, seed=1) if fraction < 1 else sampled).collect()
    ]
    strips = []
    for i, order in enumerate(plan.join.order):
        both = [row[f"l{i}"] for row in sample]
        if order.left != order.right:
            both += [row[f"r{i}"] for row in sample]
        strips.append(cut(both, n_strips))
    return tuple(strips)


def _cells(
    meaning: Meaning, plan: RulePlan, keys: KeySet, placed: DataFrame, strips: Sequence[Strips]
) -> tuple[tuple[Cells, ...], int]:
    """The cells of each giant group, and how many rows meet themselves."""
    left, right = meaning.side(plan.join, Row.LEFT), meaning.side(plan.join, Row.RIGHT)
    if is_sided(keys, plan.join):
        left = left & (F.col(tasks.SIDE) == tasks.LEFT)
        right = right & (F.col(tasks.SIDE) == tasks.RIGHT)
    # A record that stands on one side alone has no cell on the other.
    sides = [(F.when(left, F.col(f"l{i}")).alias(f"l{i}"), F.when(right, F.col(f"r{i}")).alias(f"r{i}"))
             for i in range(len(strips))]  # fmt: skip
    names = [f"{side}{i}" for side in "lr" for i in range(len(strips))]
    met = F.col(itself_of(plan)) & left if not plan.join.irreflexive else F.lit(False)
    numbers = [(left, "left"), (right, "right"), (met, "met")]
    rows = placed.select(
        *keys.key_names, *(column for pair in sides for column in pair),
        *(truth.cast(T.LongType()).alias(name) for truth, name in numbers),
    )  # fmt: skip
    counted = rows.groupBy(*keys.key_names, *names).agg(*(F.sum(name).alias(name) for _, name in numbers))
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in counted.collect():
        group = repr([row[name] for name in keys.key_names])
        groups.setdefault(group, []).append(row.asDict())
    shape = tuple(cuts.n for cuts in strips)
    cells = [Cells(_tensor(rows, "l", "left", shape), _tensor(rows, "r", "right", shape)) for rows in groups.values()]
    return tuple(cells), sum(row["met"] for rows in groups.values() for row in rows)


def _tensor(rows: Sequence[dict[str, Any]], side: str, weight: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
    cells = np.zeros(shape, np.int64)
    for row in rows:
        if row[weight]:
            cells[tuple(row[f"{side}{i}"] for i in range(len(shape)))] += row[weight]
    return cells


def _count_decided(cells: Cells, ties: Iterable[NDArray[np.bool_]]) -> int:
    """Sum over right cells of the left rows in cells that lie below in every order, by prefix sums. O(cells)."""
    below = cells.left
    for axis, tie in enumerate(ties):
        shape = [1] * below.ndim
        shape[axis] = tie.size
        below = np.cumsum(below, axis=axis) - below * ~tie.reshape(shape)
    some = np.flatnonzero(cells.right)
    pairs = zip(below.ravel()[some].tolist(), cells.right.ravel()[some].tolist(), strict=True)
    return sum(n_left * n_right for n_left, n_right in pairs)


def _placement(grid: Grid, sizes: Sizes) -> tuple[Expression, int]:
    """The partition of each strip's records: the largest strips first, each to the emptiest partition so far.

    Hashing a few strips onto a few partitions would leave some with several and some with none.
    """
    loads: dict[tuple[int, int], int] = {}
    for order in range(grid.n_orders):
        others = tuple(axis for axis in range(grid.n_orders) if axis != order)
        rows = sum((cells.left + cells.right).sum(axis=others) for cells in grid.cells)
        for strip in np.flatnonzero(~grid.singles(order)).tolist():
            loads[order, strip] = int(np.asarray(rows)[strip])
    n_tasks = max(1, min(len(loads), -(-sum(loads.values()) // sizes.rows_a_task)))
    filled = [0] * n_tasks
    width = max(cuts.n for cuts in grid.strips)
    chosen = [0] * (grid.n_orders * width)
    for (order, strip), load in sorted(loads.items(), key=lambda item: -item[1]):
        emptiest = min(range(n_tasks), key=filled.__getitem__)
        filled[emptiest] += load
        chosen[order * width + strip] = emptiest
    places = F.array(*(F.lit(place) for place in chosen))
    return F.get(places, F.col("copy.dim").cast(T.IntegerType()) * width + F.col("copy.strip")), n_tasks
