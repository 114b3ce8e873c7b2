"""Giant groups of rules made of orders, cut into strips: answered without ever joining most of their rows.

Each ordered column is cut into strips at quantiles. For a pair of rows a column is decided where their strips differ,
or where both are in a strip of one value. Pairs decided in all columns are counted from the numbers of rows in each
cell (a strip of each column), by prefix sums on the driver. Of the others the first undecided column owns the pair:
it is counted in that strip, with the columns before it compared by strip and those after it by value. So every pair
is counted once, a row travels at most once for each column, and tasks are as even as the strips.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Any

import numpy as np
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.arrays import BoolArray, Int64Array
from naysay.detect.spark import worker as tasks
from naysay.detect.spark.aggregate import Cells
from naysay.detect.spark.key_groups import KeySet, Measured, Sizes, itself_of, keyed_records, of_giants
from naysay.detect.spark.plan import RulePlan
from naysay.plan.join import Join
from naysay.rule.model import Row
from naysay.spark.expressions import Meaning


@dataclass(frozen=True, slots=True)
class Cut:
    """Between the values below `value` and the others; or, where `after`, between it and those above it."""

    value: Any
    after: bool


@dataclass(frozen=True, slots=True)
class Strips:
    """Strips 0 .. n - 1 in ascending order of values; `single` are those of one value."""

    cuts: tuple[Cut, ...]

    @property
    def n(self) -> int:
        return len(self.cuts) + 1

    @property
    def single(self) -> tuple[bool, ...]:
        pairs = zip(self.cuts[:-1], self.cuts[1:], strict=True)
        inner = [not low.after and high.after and low.value == high.value for low, high in pairs]
        return (False, *inner, False) if self.cuts else (False,)

    def strip_of(self, value: Expression, type_: T.DataType) -> Expression:
        """The strip of a value: a tree of comparisons, as deep as the logarithm of the number of cuts."""
        return self._search(value, [literal(cut.value, type_) for cut in self.cuts], 0, len(self.cuts))

    def _search(self, value: Expression, at: Sequence[Expression], low: int, high: int) -> Expression:
        if low == high:
            return F.lit(low)
        middle = (low + high) // 2
        is_above = value > at[middle] if self.cuts[middle].after else value >= at[middle]
        above, below = self._search(value, at, middle + 1, high), self._search(value, at, low, middle)
        return F.when(is_above, above).otherwise(below)


def cut(sample: Sequence[Any], n_strips: int) -> Strips:
    """Strips of about equal weight in the sample; a value that fills one or more is a strip of its own.

    At most twice as many cuts as strips were asked for.
    """
    values = sorted((value for value in sample if value is not None), key=sort_key)
    cuts: list[Cut] = []
    n_light, n_inside = 0, 0
    for _, group in groupby(values, key=sort_key):
        alike = list(group)
        if len(alike) * n_strips >= len(values):
            cuts += [Cut(alike[0], False), Cut(alike[0], True)]
            n_inside = 0
            continue
        n_before, n_light = n_light, n_light + len(alike)
        if n_inside and n_before * n_strips // len(values) != n_light * n_strips // len(values):
            cuts.append(Cut(alike[0], False))
            n_inside = 0
        n_inside += len(alike)
    return Strips(tuple(cuts))


def sort_key(value: Any) -> Any:
    """A key by which Python sorts as Spark compares: NaN greatest, text by its bytes, structs field by field."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, dict):
        return tuple(sort_key(field) for field in value.values())
    return value


def plain(column: Expression, type_: T.DataType) -> Expression:
    """A column in a form that comes to Python exactly: times by their distance from 1970, whatever the zone of the
    session. Python has no dates outside of years 1 to 9999; Spark has."""
    if isinstance(type_, T.TimestampType):
        return F.unix_micros(column)
    if isinstance(type_, T.DateType):
        return F.unix_date(column)
    return column - _epoch() if isinstance(type_, T.TimestampNTZType) else column


def literal(value: Any, type_: T.DataType) -> Expression:
    """A value that came by way of `plain` as a Column of its type again."""
    if isinstance(type_, T.TimestampType):
        return F.timestamp_micros(F.lit(value).cast(T.LongType()))
    if isinstance(type_, T.DateType):
        return F.date_from_unix_date(F.lit(value).cast(T.IntegerType()))
    if isinstance(type_, T.TimestampNTZType):
        return _epoch() + F.lit(value)
    if isinstance(type_, T.StructType):
        return F.struct(*(literal(value[field.name], field.dataType).alias(field.name) for field in type_.fields))
    if isinstance(type_, T.DecimalType):
        return F.lit(f"{value:f}" if isinstance(value, Decimal) else str(value)).cast(type_)
    if isinstance(type_, T.TimeType):
        # Spark makes no literal of a time of day but from text.
        return F.lit(str(value)).cast(type_)
    if isinstance(type_, T.DayTimeIntervalType):
        return F.lit(value)
    return F.lit(value).cast(type_)


def _epoch() -> Expression:
    return F.lit("1970-01-01").cast(T.TimestampNTZType())


_SAMPLE = 20_000
# Cells are numbers on the driver, and some of them literals in a plan: so many at most.
_MAX_CELLS = 1 << 16
_MAX_LITERALS = 1 << 12


def has_strips(join: Join) -> bool:
    """Whether the rule is one of orders alone, beside its key and filters."""
    return bool(join.order) and not join.differs


@dataclass(frozen=True)
class Grid:
    """A rule over the giant groups of its key, cut into strips.

    `records` has k0 ..., the rule's columns, SIDE where a row is two records, and for each order its strip on the left
    and on the right, l0, r0, l1, ... (turned round for a descending order, so that less is always left of more).
    `cells` are by the hash of the key; `exact` unless two keys have the same one.
    """

    meaning: Meaning
    plan: RulePlan
    found: Measured
    records: DataFrame
    strips: tuple[Strips, ...]
    cells: dict[int, Cells]
    more_cells: tuple[Cells, ...]
    n_itself: int

    @property
    def n_orders(self) -> int:
        return len(self.strips)

    @property
    def sided(self) -> bool:
        return is_sided(self.found.keys, self.plan.join)

    @property
    def knows_conflicts(self) -> bool:
        """Whether rows in conflict can be told from it: no row may meet itself, and no key be taken for another."""
        n_literals = len(self.cells) * int(np.prod([cuts.n for cuts in self.strips[:-1]]))
        return self.plan.join.irreflexive and not self.more_cells and n_literals <= _MAX_LITERALS

    @property
    def ties(self) -> list[BoolArray]:
        """For each order the strips that decide in favour where both rows are in them."""
        orders = enumerate(self.plan.join.order)
        return [self.singles(place) & (not order.strict) for place, order in orders]

    def singles(self, order: int) -> BoolArray:
        """Which strips of an order hold one value, in the order of l0, r0 ..."""
        single = np.array(self.strips[order].single)
        return single[::-1] if self.plan.join.order[order].descending else single

    def decided(self) -> int:
        """The number of pairs that strips alone decide, a row with itself among them."""
        return sum(cells.count(self.ties) for cells in (*self.cells.values(), *self.more_cells))


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
    values = _values(meaning, plan.join)
    schema = records.select(*(value.alias(name) for name, value in values.items())).schema
    types = {field.name: field.dataType for field in schema.fields}
    strips = _strips(plan.join, records, values, types, found.n_records, _n_strips(len(plan.join.order), sizes))
    placed = records.select("*", *_strip_columns(plan.join, strips, values, types))
    cells, more, n_itself = _cells(meaning, plan, keys, placed, strips)
    return Grid(meaning, plan, found, placed, strips, cells, more, n_itself)


def _n_strips(n_orders: int, sizes: Sizes) -> int:
    # A heavy value takes two cuts: count on twice as many strips as asked for.
    return max(2, min(sizes.n_strips, int(_MAX_CELLS ** (1 / n_orders) / 2)))


def _values(meaning: Meaning, join: Join) -> dict[str, Expression]:
    """What each order compares on the left and on the right, in comparable form."""
    values = {}
    for i, order in enumerate(join.order):
        values[f"l{i}"] = meaning.comparable(order.left, order.right)
        values[f"r{i}"] = meaning.comparable(order.right, order.left)
    return values


def _strips(
    join: Join,
    records: DataFrame,
    values: dict[str, Expression],
    types: dict[str, T.DataType],
    n_records: int,
    n_strips: int,
) -> tuple[Strips, ...]:
    sampled = records.select(*(plain(value, types[name]).alias(name) for name, value in values.items()))
    fraction = min(1.0, _SAMPLE / max(n_records, 1))
    rows = (sampled.sample(fraction, seed=1) if fraction < 1 else sampled).collect()
    sample = [row.asDict(recursive=True) for row in rows]
    strips = []
    for i, order in enumerate(join.order):
        both = [row[f"l{i}"] for row in sample]
        if order.left != order.right:
            both += [row[f"r{i}"] for row in sample]
        strips.append(cut(both, n_strips))
    return tuple(strips)


def _strip_columns(
    join: Join, strips: Sequence[Strips], values: dict[str, Expression], types: dict[str, T.DataType]
) -> list[Expression]:
    columns = []
    for name, value in values.items():
        order, cuts = join.order[int(name[1:])], strips[int(name[1:])]
        strip = cuts.strip_of(value, types[name])
        strip = F.lit(cuts.n - 1) - strip if order.descending else strip
        columns.append(strip.cast(T.IntegerType()).alias(name))
    return columns


def _cells(
    meaning: Meaning, plan: RulePlan, keys: KeySet, placed: DataFrame, strips: Sequence[Strips]
) -> tuple[dict[int, Cells], tuple[Cells, ...], int]:
    """The cells of each giant group by the hash of its key, those of keys with a hash already taken, and how many rows
    meet themselves."""
    left, right = meaning.side(plan.join, Row.LEFT), meaning.side(plan.join, Row.RIGHT)
    if is_sided(keys, plan.join):
        left = left & (F.col(tasks.SIDE) == tasks.LEFT)
        right = right & (F.col(tasks.SIDE) == tasks.RIGHT)
    met = F.col(itself_of(plan)) & left if not plan.join.irreflexive else F.lit(False)
    numbers = {"left": left, "right": right, "met": met}
    # A record that stands on one side alone has no cell on the other.
    cells_of = {
        f"{side}{i}": F.when(stands, F.col(f"{side}{i}"))
        for side, stands in (("l", left), ("r", right))
        for i in range(len(strips))
    }
    types = {name: placed.schema[name].dataType for name in keys.key_names}
    rows = placed.select(
        *(plain(F.col(name), type_).alias(name) for name, type_ in types.items()),
        keys.key_hash().alias("hash"),
        *(cell.alias(name) for name, cell in cells_of.items()),
        *(truth.cast(T.LongType()).alias(name) for name, truth in numbers.items()),
    )
    counted = rows.groupBy(*keys.key_names, "hash", *cells_of).agg(*(F.sum(name).alias(name) for name in numbers))
    groups: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for row in counted.collect():
        group = (row["hash"], repr([row[name] for name in keys.key_names]))
        groups.setdefault(group, []).append(row.asDict())
    cells: dict[int, Cells] = {}
    more = []
    shape = tuple(cuts.n for cuts in strips)
    for (hashed, _), found in groups.items():
        of_group = Cells(_tensor(found, "l", "left", shape), _tensor(found, "r", "right", shape))
        if hashed in cells:
            more.append(of_group)
        else:
            cells[hashed] = of_group
    return cells, tuple(more), sum(row["met"] for found in groups.values() for row in found)


def _tensor(rows: Sequence[dict[str, Any]], side: str, weight: str, shape: tuple[int, ...]) -> Int64Array:
    cells = np.zeros(shape, np.int64)
    for row in rows:
        if row[weight]:
            cells[tuple(row[f"{side}{i}"] for i in range(len(shape)))] += row[weight]
    return cells
