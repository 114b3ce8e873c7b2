"""The rows that stand, as Arrow tables that grow and shrink batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from naysay.arrays import Int64Array

# So many chunks of a size are merged into one of the next size: few copies a row, and few chunks.
_TIER = 8


@dataclass(slots=True)
class _Chunk:
    table: pa.Table
    slots: Int64Array
    n_live: int


class Rows:
    """The standing rows, found by slot. Chunks are merged by size, and rows that are gone are left out then."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._chunks: dict[int, _Chunk] = {}
        self._n_made = 0
        # For each slot the chunk that holds its row (-1: none), and the row's place there.
        self._chunk_of = np.full(64, -1, np.int64)
        self._place_of = np.empty(64, np.int64)

    def put(self, slots: Int64Array, table: pa.Table) -> None:
        """Add rows, in place of those that their slots had. Amortised O(log n) a row."""
        if len(slots) == 0:
            return
        self._make_room(int(slots.max()) + 1)
        self.drop(slots)
        self._enter(slots, table)
        self._merge_tiers()

    def drop(self, slots: Int64Array) -> None:
        """Take away the rows of these slots, where they have one."""
        chunks = self._chunk_of[slots]
        chunks = chunks[chunks >= 0]
        if len(chunks) == 0:
            return
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
        schema = pa.schema([self.schema.field(name) for name in names])
        chunks = self._chunk_of[slots]
        order = np.argsort(chunks, kind="stable")
        numbers, starts = np.unique(chunks[order], return_index=True)
        parts = []
        for number, places in zip(numbers, np.split(order, starts[1:]), strict=False):
            table = self._chunks[int(number)].table.select(list(names))
            parts.append(table.take(pa.array(self._place_of[slots[places]])))
        if len(parts) <= 1:
            return parts[0] if parts else schema.empty_table()
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_tables(parts).take(pa.array(back))

    def all(self) -> tuple[Int64Array, pa.Table]:
        """All standing rows with their slots."""
        parts = [self._live(number) for number in self._chunks]
        if not parts:
            return np.empty(0, np.int64), self.schema.empty_table()
        return np.concatenate([slots for slots, _ in parts]), pa.concat_tables([table for _, table in parts])

    def _enter(self, slots: Int64Array, table: pa.Table) -> None:
        number = self._n_made
        self._n_made += 1
        self._chunks[number] = _Chunk(table, slots, len(slots))
        self._chunk_of[slots] = number
        self._place_of[slots] = np.arange(len(slots))

    def _live(self, number: int) -> tuple[Int64Array, pa.Table]:
        chunk = self._chunks[number]
        if chunk.n_live == len(chunk.slots):
            return chunk.slots, chunk.table
        here = self._chunk_of[chunk.slots] == number
        live = np.flatnonzero(here & (self._place_of[chunk.slots] == np.arange(len(chunk.slots))))
        return chunk.slots[live], chunk.table.take(pa.array(live))

    def _merge_tiers(self) -> None:
        while True:
            tiers: dict[int, list[int]] = {}
            for number, chunk in self._chunks.items():
                tiers.setdefault(len(chunk.slots).bit_length() // 3, []).append(number)
            full = [numbers for numbers in tiers.values() if len(numbers) >= _TIER]
            if not full:
                return
            self._merge(full[0])

    def _merge(self, numbers: list[int]) -> None:
        parts = [self._live(number) for number in numbers]
        for number in numbers:
            del self._chunks[number]
        slots = np.concatenate([slots for slots, _ in parts])
        if len(slots):
            self._enter(slots, pa.concat_tables([table for _, table in parts]).combine_chunks())

    def _make_room(self, n_slots: int) -> None:
        if n_slots > len(self._chunk_of):
            n_room = max(n_slots, 2 * len(self._chunk_of))
            chunk_of = np.full(n_room, -1, np.int64)
            chunk_of[: len(self._chunk_of)] = self._chunk_of
            place_of = np.empty(n_room, np.int64)
            place_of[: len(self._place_of)] = self._place_of
            self._chunk_of, self._place_of = chunk_of, place_of
