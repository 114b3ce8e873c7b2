"""Cutting the values of a column into strips: where to cut, from a sample; and which strip a value falls in.

A strip is a range of values, or one value alone where that value fills as much as a strip. Cuts are values of the
column itself, compared by Spark, so text, floats and decimals are cut as exactly as integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql import types as T


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
