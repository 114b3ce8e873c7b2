"""The predicate space of a Spark DataFrame: what its columns share is counted by Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.discovery.space import Scope, Shared, Space, columns_of, space_over
from naysay.errors import UsageError
from naysay.rule.model import Column, Op, Predicate, Row, Rule
from naysay.spark.frame import Frame, position
from naysay.table.column import Kind

# For columns of one kind a type in which equal values of different types are equal.
_COMMON = {Kind.INT: T.LongType(), Kind.FLOAT: T.DoubleType(), Kind.TEXT: T.StringType()}


def space_of(frame: Frame, columns: Sequence[str] | None, scope: Scope) -> Space:
    """As `discovery.space.build_space`; shared values are counted by distinct values only."""
    if scope.cross and scope.shared is not Shared.DISTINCT:
        raise UsageError("on Spark columns are compared by the distinct values that they share, not by occurrences")
    every = {name: frame.kind_of(position(place)) for place, name in enumerate(frame.names)}
    names, notes = columns_of(every, columns)
    for name in names:
        _require(frame, name)
    kinds = {name: every[name] for name in names}
    shared = _shared(frame, kinds) if scope.cross or scope.within_row else Counter()

    def share_enough(first: str, second: str) -> bool:
        larger = max(shared[first, first], shared[second, second])
        smaller = min(shared[first, first], shared[second, second])
        return smaller > 0 and shared[first, second] >= scope.share * larger

    averages = _averages(frame, kinds) if scope.cross and scope.average_factor is not None else {}
    return space_over(kinds, scope, share_enough, averages, notes)


def _averages(frame: Frame, kinds: Mapping[str, Kind]) -> dict[str, float]:
    """The averages of the columns of numbers."""
    names = [name for name, kind in kinds.items() if kind.is_number]
    wanted = [F.avg(F.col(position(frame.place(name))).cast(T.DoubleType())) for name in names]
    found = frame.data.agg(*wanted).collect()[0] if names else ()
    return {name: float(average or 0.0) for name, average in zip(names, found, strict=True)}


def _require(frame: Frame, name: str) -> None:
    frame.require(Rule((Predicate(Column(Row.LEFT, name), Op.EQ, Column(Row.RIGHT, name)),)))


def _shared(frame: Frame, kinds: Mapping[str, Kind]) -> Counter[tuple[str, str]]:
    """How many distinct values each two columns of one kind have in common; a column with itself: how many it has."""
    found: Counter[tuple[str, str]] = Counter()
    for kind in dict.fromkeys(kinds.values()):
        names = [name for name, other in kinds.items() if other is kind]
        if len(names) < 2 or kind in (Kind.NULL, Kind.OTHER):
            continue
        for row in _holders(frame, kind, names).collect():
            for first in row["holders"]:
                for second in row["holders"]:
                    found[names[first], names[second]] += int(row["values"])
    return found


def _holders(frame: Frame, kind: Kind, names: Sequence[str]) -> DataFrame:
    """For each set of columns that hold a value in common, the number of such values."""
    parts = [
        frame.data.select(F.lit(number).alias("holder"), _common(frame, kind, name, names).alias("value")).distinct()
        for number, name in enumerate(names)
    ]
    together = reduce(DataFrame.unionAll, parts).filter(F.col("value").isNotNull())
    sets = together.groupBy("value").agg(F.sort_array(F.collect_set("holder")).alias("holders"))
    return sets.groupBy("holders").agg(F.count(F.lit(1)).alias("values"))


def _common(frame: Frame, kind: Kind, name: str, names: Sequence[str]) -> Expression:
    value = F.col(position(frame.place(name)))
    types = [frame.types[frame.place(other)] for other in names]
    if kind is Kind.DECIMAL:
        scale = max(type_.scale for type_ in types if isinstance(type_, T.DecimalType))
        return value.cast(T.DecimalType(38, scale))
    if kind is Kind.FLOAT:
        # Minus zero is zero.
        return value.cast(T.DoubleType()) + F.lit(0.0)
    return value.cast(_COMMON[kind]) if kind in _COMMON else value.cast(types[0])
