"""Ordered columns cut into strips at quantiles, and what the numbers of rows in cells decide by themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate, groupby, pairwise
from operator import mul
from typing import Any

import numpy as np
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.arrays import BoolArray, Int64Array
from naysay.spark.versions import TimeType, numbers

# The number of a record's group, while its strips are searched.
_GROUP = "strip_group"


@dataclass(frozen=True, slots=True)
class Cut:
    """Between the values below `value` and the others; or, if `after`, between it and those above it."""

    value: Any
    after: bool


@dataclass(frozen=True, slots=True)
class Strips:
    """The strips of an order, numbered: those of the first group in ascending order of values, those of the next, ...

    `groups` has the cuts of each group; `single` are the strips of one value.
    """

    groups: tuple[tuple[Cut, ...], ...]

    @property
    def n(self) -> int:
        return sum(len(cuts) + 1 for cuts in self.groups)

    @property
    def single(self) -> tuple[bool, ...]:
        found: list[bool] = []
        for cuts in self.groups:
            pairs = pairwise(cuts)
            inner = [not low.after and high.after and low.value == high.value for low, high in pairs]
            found += (False, *inner, False) if cuts else (False,)
        return tuple(found)


def find_strips(
    records: DataFrame, group: Expression, values: Mapping[str, tuple[Expression, T.DataType, Strips]]
) -> DataFrame:
    """The records and the strip of each value, under its name; `group` is the number of a record's group.

    By a binary search in an array. As one expression, all comparisons would be so large from about 60 cuts on that
    Java does not compile the method that Spark makes of it.
    """
    columns = {_GROUP: group} | {f"{name}_value": value for name, (value, _, _) in values.items()}
    found = records.withColumns(columns)
    searched = {name: _Search.of(type_, strips) for name, (_, type_, strips) in values.items()}
    found = found.withColumns({name: search.n_reached(F.col(f"{name}_value")) for name, search in searched.items()})
    found = found.withColumns(
        {name: search.strip(F.col(name), F.col(f"{name}_value")) for name, search in searched.items()}
    )
    return found.drop(*columns)


@dataclass(frozen=True, slots=True)
class _Search:
    """Arrays of the groups: the values of their cuts, each once, after which of these there is a cut, and the first
    strip that is above all of 0, 1, ... of these. And how far to step from value to value, first."""

    limits: Expression
    after: Expression
    above: Expression
    steps: Expression

    @classmethod
    def of(cls, type_: T.DataType, strips: Strips) -> _Search:
        limits, after, above, n_strips, most = [], [], [], 0, 1
        for cuts in strips.groups:
            alike = [list(each) for _, each in groupby(cuts, key=lambda each: sort_key(each.value))]
            limits.append(_literals([each[0].value for each in alike], type_))
            after.append(numbers([0, *(int(each[-1].after) for each in alike)]))
            above.append(numbers(accumulate(map(len, alike), initial=n_strips)))
            n_strips += len(cuts) + 1
            most = max(most, len(alike))
        steps = numbers(1 << bit for bit in reversed(range(most.bit_length())))
        of_group = [F.get(F.array(*each), F.col(_GROUP)) for each in (limits, after, above)]
        return cls(of_group[0], of_group[1], of_group[2], steps)

    def n_reached(self, value: Expression) -> Expression:
        """How many of the values of a record's group are not above its own. None lies behind the end of an array."""

        def after_step(n_reached: Expression, step: Expression) -> Expression:
            is_reached = F.get(self.limits, n_reached + step - 1) <= value
            return n_reached + F.when(is_reached, step).otherwise(0)

        return F.aggregate(self.steps, F.lit(0), after_step)

    def strip(self, n_reached: Expression, value: Expression) -> Expression:
        is_last = F.get(self.limits, n_reached - 1) == value
        return F.get(self.above, n_reached) - F.when(is_last, F.get(self.after, n_reached)).otherwise(0)


def cut(sample: Sequence[Any], n_strips: int) -> tuple[Cut, ...]:
    """Cuts into strips of about equal weight in the sample; a value that fills one or more is a strip of its own.

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
    return tuple(cuts)


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
    """A column in a form that reaches Python exactly: times by their distance from 1970, in any zone of the session.

    Python has no dates outside of years 1 to 9999; Spark has.
    """
    if isinstance(type_, T.TimestampType):
        return F.unix_micros(column)
    if isinstance(type_, T.DateType):
        return F.unix_date(column)
    return column - _epoch() if isinstance(type_, T.TimestampNTZType) else column


def _literals(values: Sequence[Any], type_: T.DataType) -> Expression:
    """An array of values that came by way of `plain`."""
    if values and isinstance(type_, T.NumericType):
        return numbers((f"{value:f}" if isinstance(value, Decimal) else value for value in values), type_)
    return F.array(*(literal(value, type_) for value in values)).cast(T.ArrayType(type_))


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
    if isinstance(type_, TimeType):
        # Spark makes no literal of a time of day but from text.
        return F.lit(str(value)).cast(type_)
    if isinstance(type_, T.DayTimeIntervalType):
        return F.lit(value)
    return F.lit(value).cast(type_)


def _epoch() -> Expression:
    return F.lit("1970-01-01").cast(T.TimestampNTZType())


@dataclass(frozen=True, slots=True)
class StripCells:
    """How many left and how many right rows of a group are in each cell, a strip of each order.

    Only the strips in which the group has rows: those from `start` on. Methods take the ties of all strips.
    """

    left: Int64Array
    right: Int64Array
    start: tuple[int, ...]

    @classmethod
    def of(cls, left: tuple[Int64Array, Int64Array], right: tuple[Int64Array, Int64Array]) -> StripCells:
        """From the cells of the left and of the right rows, a line each, and the numbers of rows in them."""
        places = np.concatenate((left[0], right[0]))
        start = places.min(axis=0)
        shape = tuple((places.max(axis=0) - start + 1).tolist())

        def tensor(cells: Int64Array, weights: Int64Array) -> Int64Array:
            side = np.zeros(shape, np.int64)
            np.add.at(side, tuple((cells - start).T), weights)
            return side

        return cls(tensor(*left), tensor(*right), tuple(start.tolist()))

    def count(self, ties: Sequence[BoolArray]) -> int:
        """Pairs of rows whose cells satisfy every order. O(cells)."""
        some = np.flatnonzero(self.right)
        n_left = self.right_partners(ties).ravel()[some].tolist()
        return sum(map(mul, n_left, self.right.ravel()[some].tolist()))

    def left_partners(self, ties: Sequence[BoolArray]) -> Int64Array:
        """For each cell, with how many right rows a left row in it satisfies every order by strips alone."""
        above = self.right
        for axis, tie in enumerate(self._mine(ties)):
            from_here = np.flip(np.cumsum(np.flip(above, axis), axis=axis), axis)
            above = from_here - above * ~_along(tie, axis, above.ndim)
        return above

    def right_partners(self, ties: Sequence[BoolArray]) -> Int64Array:
        """The same for a right row and the left rows, by prefix sums."""
        below = self.left
        for axis, tie in enumerate(self._mine(ties)):
            below = np.cumsum(below, axis=axis) - below * ~_along(tie, axis, below.ndim)
        return below

    def some_pair(self, ties: Sequence[BoolArray]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """A left and a right cell that are decided in every order, if there are any."""
        mine, start = self._mine(ties), np.array(self.start)
        for cell in np.argwhere((self.left > 0) & (self.left_partners(ties) > 0)):
            for other in np.argwhere(self.right):
                codes = [2 * strip + mine[axis][strip] for axis, strip in enumerate(other)]
                if all(2 * strip < code for strip, code in zip(cell, codes, strict=True)):
                    return tuple((cell + start).tolist()), tuple((other + start).tolist())
        return None

    def rows_of(self, order: int) -> dict[int, int]:
        """The rows in each strip of an order, left and right."""
        others = tuple(axis for axis in range(self.left.ndim) if axis != order)
        rows = (self.left + self.right).sum(axis=others).tolist()
        return {self.start[order] + place: n_rows for place, n_rows in enumerate(rows) if n_rows}

    def _mine(self, ties: Sequence[BoolArray]) -> list[BoolArray]:
        sizes = zip(ties, self.start, self.left.shape, strict=True)
        return [tie[start : start + size] for tie, start, size in sizes]


def _along(values: BoolArray, axis: int, n_axes: int) -> BoolArray:
    """One-dimensional values laid along an axis."""
    shape = [1] * n_axes
    shape[axis] = values.size
    return values.reshape(shape)
