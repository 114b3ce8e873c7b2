"""A table in parts: which rows must be in the same part for which rules, and what a change means to each part.

There are two kinds of parts. Each whole row is in one of the parts called `rows`, chosen by its key: there a change is
validated, and one-row rules are watched. Two-row rules are grouped by the columns in which both rows must be equal: for
each group a row is stored once more, with the columns that the group needs, in the part chosen by the values of those
columns. So rows that could break a rule together are always in the same part. A rule without such columns has a group
with a single part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from naysay.arrays import Int64Array, UInt64Array
from naysay.live.journal.serial import digest_of
from naysay.plan.join import join_of
from naysay.rule.model import Rule

ROWS = "rows"


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules whose pairs are equal in `columns`, over `n_parts` parts."""

    name: str
    columns: tuple[str, ...]
    rules: Mapping[str, Rule]
    n_parts: int

    def needed(self, key: Sequence[str]) -> list[str]:
        """The columns of a row in this group."""
        return list(dict.fromkeys([*key, *(name for rule in self.rules.values() for name in rule.column_names)]))


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows for one part: `what` is inserts, updates or deletes (only keys)."""

    group: str
    part: int
    what: str
    table: pa.Table


def rows_group(rules: Mapping[str, Rule], key: Sequence[str], n_parts: int) -> RuleGroup:
    """The group that holds whole rows, by key, with the one-row rules."""
    singles = {name: rule for name, rule in rules.items() if rule.is_one_row}
    return RuleGroup(ROWS, tuple(key), singles, n_parts)


def groups_of(rules: Mapping[str, Rule], n_parts: int) -> list[RuleGroup]:
    """The groups of all two-row rules."""
    found: dict[tuple[str, ...], dict[str, Rule]] = {}
    for name, rule in rules.items():
        if not rule.is_one_row:
            columns = sorted({match.left for match in join_of(rule).key if match.left == match.right})
            found.setdefault(tuple(columns), {})[name] = rule
    return [
        RuleGroup(f"group{number}", columns, members, n_parts if columns else 1)
        for number, (columns, members) in enumerate(found.items())
    ]


def part_numbers(table: pa.Table, columns: Sequence[str], n_parts: int) -> Int64Array:
    """The part of each row: the same for equal values, in every process and at any time."""
    if n_parts == 1 or table.num_rows == 0:
        return np.zeros(table.num_rows, np.int64)
    mixed = np.zeros(table.num_rows, np.uint64)
    for name in columns:
        mixed = _mix(mixed ^ _hashes(table.column(name)))
    return np.asarray(mixed % np.uint64(n_parts), np.int64)


def _hashes(column: pa.ChunkedArray) -> UInt64Array:
    """A number for each value, the same for equal values; null has its own."""
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
        hashes = [int.from_bytes(digest_of(text)[:8], "little") for text in texts]
        bits = np.array([*hashes, 0], np.uint64)[np.asarray(encoded.indices.fill_null(len(hashes)), np.int64)]
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


def route(
    groups: Sequence[RuleGroup], key: Sequence[str], tables: Mapping[str, pa.Table], old: Mapping[str, pa.Table]
) -> Iterator[Piece]:
    """What a batch means to the parts of each group. `old` has the previous rows of updates and deletes."""
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


def _moves(group: RuleGroup, new: pa.Table, old: pa.Table, key: Sequence[str]) -> Iterator[Piece]:
    """An update that changes the part of a row deletes it in one part and inserts it in another."""
    before = part_numbers(old, group.columns, group.n_parts)
    after = part_numbers(new, group.columns, group.n_parts)
    stays = np.flatnonzero(before == after)
    moves = np.flatnonzero(before != after)
    yield from _pieces(group, "updates", new.take(pa.array(stays)), after[stays])
    yield from _pieces(group, "deletes", new.select(list(key)).take(pa.array(moves)), before[moves])
    yield from _pieces(group, "inserts", new.take(pa.array(moves)), after[moves])


def _pieces(group: RuleGroup, what: str, table: pa.Table, parts: Int64Array) -> Iterator[Piece]:
    for part in np.unique(parts).tolist():
        yield Piece(group.name, part, what, table.take(pa.array(np.flatnonzero(parts == part))))
