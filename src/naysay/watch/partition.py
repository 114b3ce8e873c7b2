"""A table in parts: which rows must stand together for which rules, and what a change means to each part.

Rows stand in parts of two kinds. Each row is whole in one of the parts called `rows`, chosen by its key: there a
change is checked, and rules about single rows are watched. Rules about two rows are in groups by the columns in which
both rows must be equal: for each group a row stands once more, with the columns that the group needs, in the part that
the values of those columns choose. So rows that could break a rule together are always in one part. A rule without such
columns has a group of one part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from naysay.arrays import NULL, BoolArray, Int64Array, UInt64Array
from naysay.live.columns import Coded, Filter, Source, coded, filter_of
from naysay.live.journal.serial import digest_of
from naysay.plan.join import Join, join_of
from naysay.rule.model import Nulls, Row, Rule
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


ROWS = "rows"


@dataclass(frozen=True, slots=True)
class Group:
    """Rules whose pairs are equal in `columns`, over `n_parts` parts."""

    name: str
    columns: tuple[str, ...]
    rules: Mapping[str, Rule]
    n_parts: int

    def needed(self, key: Sequence[str]) -> list[str]:
        """The columns that a row has in this group."""
        return list(dict.fromkeys([*key, *(name for rule in self.rules.values() for name in rule.column_names)]))


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows for one part: `what` is inserts, updates or deletes (keys alone)."""

    group: str
    part: int
    what: str
    table: pa.Table


def rows_group(rules: Mapping[str, Rule], key: Sequence[str], n_parts: int) -> Group:
    """Where rows stand whole, by their key."""
    singles = {name: rule for name, rule in rules.items() if rule.is_one_row}
    return Group(ROWS, tuple(key), singles, n_parts)


def groups_of(rules: Mapping[str, Rule], n_parts: int) -> list[Group]:
    """The groups of all rules about two rows."""
    found: dict[tuple[str, ...], dict[str, Rule]] = {}
    for name, rule in rules.items():
        if not rule.is_one_row:
            columns = sorted({match.left for match in join_of(rule).key if match.left == match.right})
            found.setdefault(tuple(columns), {})[name] = rule
    return [
        Group(f"group{number}", columns, members, n_parts if columns else 1)
        for number, (columns, members) in enumerate(found.items())
    ]


def part_numbers(table: pa.Table, columns: Sequence[str], n_parts: int) -> Int64Array:
    """The part of each row: the same for rows with equal values, in every process and at any time."""
    if n_parts == 1 or table.num_rows == 0:
        return np.zeros(table.num_rows, np.int64)
    mixed = np.zeros(table.num_rows, np.uint64)
    for name in columns:
        mixed = _mix(mixed ^ _hashes(table.column(name)))
    return np.asarray(mixed % np.uint64(n_parts), np.int64)


def _hashes(column: pa.ChunkedArray) -> UInt64Array:
    """A number for each value; equal values have equal numbers, and null has one of its own."""
    type_ = column.type
    if types.is_null(type_):
        return np.zeros(len(column), np.uint64)
    if types.is_boolean(type_):
        column = column.cast(pa.int64())
    elif types.is_date32(type_) or types.is_time32(type_):
        column = column.cast(pa.int32()).cast(pa.int64())
    elif types.is_temporal(type_):
        column = column.cast(pa.int64())
    elif types.is_floating(type_):
        column = column.cast(pa.float64())
    if types.is_integer(column.type) or types.is_floating(column.type):
        bits = _bits(column)
    else:
        encoded = column.combine_chunks().dictionary_encode()
        texts = [str(value) for value in encoded.dictionary.to_pylist()]
        known = [int.from_bytes(digest_of(text)[:8], "little") for text in texts]
        bits = np.array([*known, 0], np.uint64)[np.asarray(encoded.indices.fill_null(len(known)), np.int64)]
    null = np.asarray(column.is_null(), np.bool_)
    return np.asarray(np.where(null, np.uint64(0), _mix(bits) | np.uint64(1)), np.uint64)


def _bits(column: pa.ChunkedArray) -> UInt64Array:
    if types.is_floating(column.type):
        values = np.asarray(pc.fill_null(column, 0.0), np.float64) + 0.0
        return np.asarray(np.where(np.isnan(values), np.nan, values), np.float64).view(np.uint64)
    values = np.asarray(pc.fill_null(column, 0))
    return values.astype(np.uint64 if values.dtype == np.uint64 else np.int64).view(np.uint64)


def _mix(bits: UInt64Array) -> UInt64Array:
    """Spread bits over the whole number (the finisher of splitmix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)), np.uint64)


def routed(
    groups: Sequence[Group], key: Sequence[str], tables: Mapping[str, pa.Table], old: Mapping[str, pa.Table]
) -> Iterator[Piece]:
    """What a batch means to the parts of each group. `old` has the rows before, of updates and of deletes."""
    for group in groups:
        needed = group.needed(key)
        if "deletes" in tables:
            places = part_numbers(old["deletes"], group.columns, group.n_parts)
            yield from _pieces(group, "deletes", tables["deletes"], places)
        if "inserts" in tables:
            rows = tables["inserts"].select(needed)
            yield from _pieces(group, "inserts", rows, part_numbers(rows, group.columns, group.n_parts))
        if "updates" in tables:
            yield from _moves(group, tables["updates"].select(needed), old["updates"], key)


def _moves(group: Group, new: pa.Table, old: pa.Table, key: Sequence[str]) -> Iterator[Piece]:
    """An update that changes the part of a row takes it away here and puts it in there."""
    before = part_numbers(old, group.columns, group.n_parts)
    after = part_numbers(new, group.columns, group.n_parts)
    stays = np.flatnonzero(before == after)
    moves = np.flatnonzero(before != after)
    yield from _pieces(group, "updates", new.take(pa.array(stays)), after[stays])
    yield from _pieces(group, "deletes", new.select(list(key)).take(pa.array(moves)), before[moves])
    yield from _pieces(group, "inserts", new.take(pa.array(moves)), after[moves])


def _pieces(group: Group, what: str, table: pa.Table, parts: Int64Array) -> Iterator[Piece]:
    for part in np.unique(parts).tolist():
        yield Piece(group.name, part, what, table.take(pa.array(np.flatnonzero(parts == part))))
