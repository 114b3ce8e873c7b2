"""One side of a watched rule: which rows may stand there, and what a row there asks of its partner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from naysay.arrays import BoolArray, Int64Array
from naysay.kernels.trees.zone_tree import NULL
from naysay.live.columns import Coded, Filter, Source, coded, filter_of
from naysay.plan.join import Join
from naysay.rule.model import Nulls, Row
from naysay.watch.batch import Batch

GREATEST = np.iinfo(np.int64).max
_LEAST = NULL + 1


@dataclass(frozen=True, slots=True)
class Side:
    """The columns of one side of a join, in the order of its parts."""

    key: tuple[Coded, ...]
    orders: tuple[Coded, ...]
    differs: tuple[Coded, ...]
    filter: Filter | None

    @property
    def sources(self) -> list[Source]:
        """Everything that is read of a row here."""
        return [*self.key, *self.features, *([self.filter] if self.filter else [])]

    @property
    def features(self) -> tuple[Coded, ...]:
        return self.orders + self.differs

    def eligible(self, batch: Batch, nulls: Nulls) -> Int64Array:
        """The places of rows that pass the filter and have a value wherever one is compared."""
        needed = self.orders if nulls is Nulls.EQUAL else self.key + self.features
        return np.flatnonzero(_passing(batch, self.filter, needed))

    def standing(self, batch: Batch, nulls: Nulls) -> Int64Array:
        """The places of rows that may be partners of some rule with this key and filter, whatever its features."""
        return np.flatnonzero(_passing(batch, self.filter, () if nulls is Nulls.EQUAL else self.key))


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides of a join, and how its orders read from the left."""

    left: Side
    right: Side
    descending: tuple[bool, ...]
    strict: tuple[bool, ...]
    symmetric: bool

    @property
    def sources(self) -> list[Source]:
        """Everything that the rule reads of a row."""
        return list(dict.fromkeys((*self.left.sources, *self.right.sources)))

    def boxes(self, batch: Batch, places: Int64Array, row: Row, group: Int64Array) -> Int64Array:
        """What rows on one side ask of the other: [key, lows, highs, values to differ from]."""
        own = self.left if row is Row.LEFT else self.right
        lows, highs = [], []
        for column, descending, strict in zip(own.orders, self.descending, self.strict, strict=True):
            low, high = _bounds(batch.codes[column][places], descending == (row is Row.RIGHT), strict)
            lows.append(low)
            highs.append(high)
        differs = [batch.codes[column][places] for column in own.differs]
        return np.ascontiguousarray(np.stack([group, *lows, *highs, *differs], axis=1))


def sides_of(schema: pa.Schema, join: Join) -> Sides:
    """The two sides of a join about two rows."""
    keys, orders, differs = ([coded(schema, part) for part in parts] for parts in (join.key, join.order, join.differs))
    left, right = (
        Side(
            tuple(pair[which] for pair in keys),
            tuple(pair[which] for pair in orders),
            tuple(pair[which] for pair in differs),
            filter_of(filters),
        )
        for which, filters in enumerate((join.left_filter, join.right_filter))
    )
    return Sides(
        left,
        right,
        tuple(order.descending for order in join.order),
        tuple(order.strict for order in join.order),
        join.symmetric and left == right,
    )


def _passing(batch: Batch, filter_: Filter | None, needed: tuple[Coded, ...]) -> BoolArray:
    mask = np.ones(batch.n_rows, np.bool_) if filter_ is None else batch.codes[filter_] == 1
    for column in dict.fromkeys(needed):
        mask &= batch.codes[column] != NULL
    return mask


def _bounds(codes: Int64Array, above: bool, strict: bool) -> tuple[Int64Array, Int64Array]:
    """The codes from low to high that lie above (or below) each code; none of them where low > high."""
    n_rows = len(codes)
    if above:
        if not strict:
            return codes, np.full(n_rows, GREATEST)
        last = codes == GREATEST
        return np.where(last, GREATEST, codes + ~last), np.where(last, _LEAST, GREATEST)
    if not strict:
        return np.full(n_rows, _LEAST), codes
    first = codes <= _LEAST
    return np.where(first, GREATEST, _LEAST), np.where(first, _LEAST, codes - ~first)
