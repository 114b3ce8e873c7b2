"""The rows of a live table as Arrow tables that grow and shrink batch by batch, and its keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from naysay.arrays import NULL, Int64Array, as_rows, largest
from naysay.errors import TableError
from naysay.live.codes import CodeSpace, TupleTable, enlarge
from naysay.live.layout import Layout

# This many chunks of a size are merged into one of the next size: few copies per row, and few chunks.
_TIER = 16
# The keys of slots are kept in up to this many parts, so that few batches merge any.
_MAX_PARTS = 48


@dataclass(slots=True)
class _Chunk:
    table: pa.Table
    slots: Int64Array
    n_live: int


class Rows:
    """Rows by slot. Chunks are merged by size, which drops rows that are gone."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._chunks: dict[int, _Chunk] = {}
        self._n_made = 0
        self._n_in_tier: Counter[int] = Counter()
        # For each slot the chunk that holds its row (-1: none), and the row's place there.
        self._chunk_of = np.full(64, -1, np.int64)
        self._place_of = np.empty(64, np.int64)

    def put(self, slots: Int64Array, table: pa.Table) -> None:
        """Add rows, replacing those of the same slots. Amortised O(log n) per row."""
        if len(slots) == 0:
            return
        self._make_room(largest(slots) + 1)
        self.drop(slots)
        self._enter(slots, table)
        self._merge_tiers()

    def drop(self, slots: Int64Array) -> None:
        """Remove the rows of these slots, if any."""
        if len(slots) == 0:
            return
        chunks = self._chunk_of[slots]
        if largest(chunks) < 0:
            return
        chunks = chunks[chunks >= 0]
        self._chunk_of[slots] = -1
        chunks.sort()
        starts = [0, *(np.flatnonzero(chunks[1:] != chunks[:-1]) + 1).tolist(), len(chunks)]
        for start, stop in pairwise(starts):
            number = int(chunks[start])
            chunk = self._chunks[number]
            chunk.n_live -= stop - start
            if 2 * chunk.n_live < len(chunk.slots):
                self._merge([number])

    def take(self, slots: Int64Array, names: Sequence[str]) -> pa.Table:
        """The given columns of the rows of these slots, in that order."""
        empty = pa.schema([self.schema.field(name) for name in names]).empty_table()
        return _gather(
            lambda number: self._chunks[number].table.select(list(names)),
            self._chunk_of[slots],
            self._place_of[slots],
            empty,
        )

    def all(self) -> tuple[Int64Array, pa.Table]:
        """All rows with their slots."""
        parts = [self._live(number) for number in self._chunks]
        if not parts:
            return np.empty(0, np.int64), self.schema.empty_table()
        return np.concatenate([slots for slots, _ in parts]), pa.concat_tables([table for _, table in parts])

    def _enter(self, slots: Int64Array, table: pa.Table) -> None:
        number = self._n_made
        self._n_made += 1
        self._chunks[number] = _Chunk(table, slots, len(slots))
        self._n_in_tier[_tier(slots)] += 1
        self._chunk_of[slots] = number
        self._place_of[slots] = 0 if len(slots) == 1 else np.arange(len(slots))

    def _live(self, number: int) -> tuple[Int64Array, pa.Table]:
        chunk = self._chunks[number]
        if chunk.n_live == len(chunk.slots):
            return chunk.slots, chunk.table
        here = self._chunk_of[chunk.slots] == number
        live = np.flatnonzero(here & (self._place_of[chunk.slots] == np.arange(len(chunk.slots))))
        return chunk.slots[live], chunk.table.take(pa.array(live))

    def _merge_tiers(self) -> None:
        while max(self._n_in_tier.values()) >= _TIER:
            full = next(tier for tier, n in self._n_in_tier.items() if n >= _TIER)
            self._merge([number for number, chunk in self._chunks.items() if _tier(chunk.slots) == full])

    def _merge(self, numbers: list[int]) -> None:
        parts = [self._live(number) for number in numbers]
        for number in numbers:
            self._n_in_tier[_tier(self._chunks.pop(number).slots)] -= 1
        slots = np.concatenate([slots for slots, _ in parts])
        if len(slots):
            self._enter(slots, pa.concat_tables([table for _, table in parts]).combine_chunks())

    def _make_room(self, n_slots: int) -> None:
        if n_slots > len(self._chunk_of):
            n_old, n_room = len(self._chunk_of), max(n_slots, 2 * len(self._chunk_of))
            self._chunk_of, self._place_of = enlarge(self._chunk_of, n_room), enlarge(self._place_of, n_room)
            self._chunk_of[n_old:] = -1


def _tier(slots: Int64Array) -> int:
    return len(slots).bit_length() // 3


def _gather(table_of: Callable[[int], pa.Table], which: Int64Array, places: Int64Array, empty: pa.Table) -> pa.Table:
    """Row i from place places[i] of table which[i]."""
    order = np.argsort(which, kind="stable")
    numbers, starts = np.unique(which[order], return_index=True)
    parts = [
        table_of(int(number)).take(pa.array(places[chosen]))
        for number, chosen in zip(numbers, np.split(order, starts[1:]), strict=False)
    ]
    if len(parts) <= 1:
        return parts[0] if parts else empty
    return pa.concat_tables(parts).take(pa.array(np.argsort(order)))


@dataclass(frozen=True, slots=True)
class KeyValues:
    """The key of each slot, as consecutive tables. Immutable: `append` returns a new one."""

    parts: tuple[pa.Table, ...]

    def append(self, table: pa.Table) -> KeyValues:
        """With more slots at the end; if there are many parts, the small last ones are merged.

        Amortised O(log n) per row.
        """
        parts = [*self.parts, table]
        if len(parts) > _MAX_PARTS:
            n_rows = parts[-1].num_rows
            last = len(parts) - 1
            while last > 0 and (parts[last - 1].num_rows <= 2 * n_rows or last >= _MAX_PARTS // 2):
                last -= 1
                n_rows += parts[last].num_rows
            parts[last:] = [pa.concat_tables(parts[last:]).combine_chunks()]
        return KeyValues(tuple(parts))

    def take(self, slots: Int64Array) -> pa.Array:
        """The keys of slots: a single key column as it is, several as a struct."""
        table = self.table(slots)
        columns = [_one_array(column) for column in table.columns]
        if len(columns) == 1:
            return columns[0]
        return pa.StructArray.from_arrays(columns, names=table.column_names)

    def table(self, slots: Int64Array) -> pa.Table:
        """The keys of slots as a table of the key columns."""
        starts = np.array(list(accumulate((part.num_rows for part in self.parts[:-1]), initial=0)), np.int64)
        which = np.searchsorted(starts, slots, side="right") - 1
        return _gather(self.parts.__getitem__, which, slots - starts[which], self.parts[0].slice(0, 0))


class Keys:
    """The slots of all keys ever seen; `LiveTable` keeps which of them have a row."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        fields = [layout.schema.field(name) for name in layout.key]
        self._spaces = [CodeSpace([field.type], ordered=False) for field in fields]
        # The version of the codes by which the keys are numbered.
        self._numbered = 0
        self._table = TupleTable(len(fields))
        self.values = KeyValues((pa.schema(fields).empty_table(),))

    @property
    def n_slots(self) -> int:
        return self._table.n_entries

    def codes(self, keys: pa.Table, what: str) -> Int64Array:
        """Codes [n, width] of a table's key columns; TableError if one is null."""
        codes = self._encode(keys)
        null = codes == NULL
        if np.count_nonzero(null):
            raise TableError(f"{what}: the key is null in row {int(np.argmax(null.any(axis=1)))} (from 0)")
        return codes

    def find(self, codes: Int64Array) -> Int64Array:
        """The slot of each key, -1 if it was never seen."""
        return self._table.find(codes)

    def add(self, codes: Int64Array, slots: Int64Array, keys: pa.Table) -> Int64Array:
        """The slot of each key, new where `slots`, as `find` returned them, are -1. The keys are distinct."""
        fresh = (slots == -1).nonzero()[0]
        if len(fresh) == 0:
            return slots
        columns = keys.select(list(self.layout.key))
        if len(fresh) == len(codes):
            self.values = self.values.append(columns)
            return self._table.add(codes)
        self.values = self.values.append(columns.take(pa.array(fresh)))
        slots = slots.copy()
        slots[fresh] = self._table.add(codes[fresh])
        return slots

    def show(self, keys: pa.Table, row: int) -> str:
        """One key, for a message."""
        values = [keys.column(name)[row].as_py() for name in self.layout.key]
        return shown_key(values)

    def _encode(self, keys: pa.Table) -> Int64Array:
        codes = self._encode_columns(keys)
        if self._version() != self._numbered:
            self._renumber()
            codes = self._encode_columns(keys)
        return codes

    def _version(self) -> int:
        version = 0
        for space in self._spaces:
            version += space.version
        return version

    def _encode_columns(self, keys: pa.Table) -> Int64Array:
        columns = [keys.column(name) for name in self.layout.key]
        return as_rows([space.encode(column) for space, column in zip(self._spaces, columns, strict=True)])

    def _renumber(self) -> None:
        """After codes have changed: add all keys again, in their order, so that each keeps its slot."""
        table = TupleTable(len(self._spaces))
        self._numbered = self._version()
        for part in self.values.parts:
            table.add(self._encode_columns(part))
            if self._version() != self._numbered:
                self._renumber()
                return
        assert table.n_entries == self._table.n_entries
        self._table = table


def shown_key(values: list[Any]) -> str:
    return repr(values[0]) if len(values) == 1 else "(" + ", ".join(map(repr, values)) + ")"


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
