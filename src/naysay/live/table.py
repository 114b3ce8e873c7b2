"""A keyed table that changes: what watch and evolve share. See `LiveTable`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from naysay.arrays import BoolArray, Int64Array
from naysay.errors import UsageError
from naysay.live.codes import TupleTable
from naysay.live.layout import Layout
from naysay.live.rows import Keys, KeyValues, Rows

# A table with more slots than twice its rows and this many is rebuilt, which drops keys and values that are gone.
_SPARE_SLOTS = 65_536


@dataclass(frozen=True, slots=True)
class TableChange:
    """A validated change, by slot. `rows` has the new rows of all updates, then of all inserts."""

    deletes: Int64Array
    updates: Int64Array
    inserts: Int64Array
    rows: pa.Table

    @property
    def old_slots(self) -> Int64Array:
        """The slots of rows that go, updated ones last."""
        return np.concatenate((self.deletes, self.updates)) if len(self.updates) else self.deletes

    @property
    def new_slots(self) -> Int64Array:
        """The slots of `rows`, in the same order."""
        return np.concatenate((self.updates, self.inserts)) if len(self.updates) else self.inserts


class LiveTable:
    """Rows found by key. Each key has a slot, a small integer that it keeps; codes and indexes are arrays by slot.

    `prepare` validates a change and resolves its keys; `commit` makes it. Between the two a caller works out what the
    change means to it, and may still give up: only a committed change is visible.
    """

    def __init__(self, layout: Layout, rows: pa.Table | None = None) -> None:
        self.layout = layout
        self.n_rows = 0
        # Zero for every slot between two calls: scratch space for whoever needs to mark slots.
        self.stamps = np.zeros(64, np.int64)
        self._keys = Keys(layout)
        self._rows = Rows(layout.schema)
        self._no_rows = layout.schema.empty_table()
        self._alive = np.zeros(64, np.bool_)
        if rows is not None:
            self.apply(inserts=layout.conform(rows, "the table"))

    @property
    def n_slots(self) -> int:
        return self._keys.n_slots

    @property
    def slots(self) -> Int64Array:
        """The slots that have a row, ascending."""
        return np.flatnonzero(self._alive)

    @property
    def key_values(self) -> KeyValues:
        """The key of each slot; stays valid when the table changes."""
        return self._keys.values

    @property
    def is_sparse(self) -> bool:
        """Whether so many keys are gone that `rebuild` pays off."""
        return self.n_slots > 2 * self.n_rows + _SPARE_SLOTS

    def prepare(
        self, inserts: pa.Table | None = None, updates: pa.Table | None = None, deletes: pa.Table | None = None
    ) -> TableChange:
        """Validate a change whose tables conform to the layout.

        Deletes come first, so a key may be deleted and inserted again. UsageError if a key is missing, exists already
        or is repeated; TableError if it is null.
        """
        delete_slots = self._existing(deletes, "deletes")
        update_slots = self._existing(updates, "updates")
        if updates is not None and len(update_slots) and len(delete_slots):
            gone = np.isin(update_slots, delete_slots)
            if gone.any():
                shown = self._keys.show(updates, int(np.argmax(gone)))
                raise UsageError(f"updates: the key {shown} is deleted in the same batch")
        insert_slots = self._new(inserts, delete_slots)
        tables = [table for table in (updates, inserts) if table is not None and table.num_rows]
        return TableChange(delete_slots, update_slots, insert_slots, self._joined(tables))

    def _joined(self, tables: list[pa.Table]) -> pa.Table:
        if not tables:
            return self._no_rows
        rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        # Quicker than to look at the chunks of each column.
        return rows.combine_chunks() if len(rows.to_batches()) > 1 else rows

    def commit(self, change: TableChange) -> None:
        """Make a change that `prepare` has just returned."""
        self._alive[change.deletes] = False
        self._alive[change.inserts] = True
        self.n_rows += len(change.inserts) - len(change.deletes)
        self._rows.drop(change.deletes)
        self._rows.put(change.new_slots, change.rows)

    def apply(self, **tables: pa.Table) -> None:
        """Prepare and commit a change at once."""
        self.commit(self.prepare(**tables))

    def contains(self, keys: pa.Table) -> BoolArray:
        """For each key, whether it has a row."""
        return self._has_row(self._keys.find(self._keys.codes(keys, "keys")))

    def find(self, keys: pa.Table, names: Sequence[str]) -> pa.Table | None:
        """Columns of the rows with these keys, in their order; None if one of them has no row."""
        slots = self._keys.find(self._keys.codes(keys, "keys"))
        return self.take(slots, names) if self._has_row(slots).all() else None

    def take(self, slots: Int64Array, names: Sequence[str]) -> pa.Table:
        """Columns of the rows at these slots, in their order."""
        return self._rows.take(slots, names)

    def all(self) -> tuple[Int64Array, pa.Table]:
        """All rows with their slots, in no particular order."""
        return self._rows.all()

    def rebuild(self, layout: Layout | None = None) -> LiveTable:
        """A new table with the same rows, in slots 0, 1, ... in the order of `all`; `layout` may have more types."""
        return LiveTable(layout or self.layout, self.all()[1])

    def _has_row(self, slots: Int64Array) -> BoolArray:
        # A slot of -1 reads some other place, which the first condition excludes.
        return (slots >= 0) & self._alive[slots]

    def _existing(self, table: pa.Table | None, what: str) -> Int64Array:
        """The slots of keys that must exist, each once."""
        if table is None or table.num_rows == 0:
            return np.empty(0, np.int64)
        slots = self._keys.find(self._keys.codes(table, what))
        missing = ~self._has_row(slots)
        if np.count_nonzero(missing):
            raise UsageError(f"{what}: there is no row with the key {self._keys.show(table, int(np.argmax(missing)))}")
        if len(slots) == 1:
            return slots
        numbers = np.arange(len(slots))
        self.stamps[slots] = numbers
        repeated = self.stamps[slots] != numbers
        self.stamps[slots] = 0
        if repeated.any():
            raise UsageError(f"{what}: duplicate key {self._keys.show(table, int(np.argmax(repeated)))}")
        return slots

    def _new(self, table: pa.Table | None, deletes: Int64Array) -> Int64Array:
        """Slots for keys that must not exist, each once; those deleted in the same batch may come back."""
        if table is None or table.num_rows == 0:
            return np.empty(0, np.int64)
        codes = self._keys.codes(table, "inserts")
        slots = self._keys.find(codes)
        exists = self._has_row(slots)
        if len(deletes) and np.count_nonzero(exists):
            exists &= ~np.isin(slots, deletes)
        if np.count_nonzero(exists):
            shown = self._keys.show(table, int(np.argmax(exists)))
            raise UsageError(f"inserts: there is a row with the key {shown} already; update it, or delete it first")
        if len(codes) > 1:
            self._require_distinct(codes, table)
        slots = self._keys.add(codes, slots, table)
        self._make_room()
        return slots

    def _require_distinct(self, codes: Int64Array, table: pa.Table) -> None:
        seen = TupleTable(codes.shape[1])
        numbers = seen.add(codes)
        if seen.n_entries < len(codes):
            _, first = np.unique(numbers, return_index=True)
            repeated = int(np.setdiff1d(np.arange(len(codes)), first)[0])
            raise UsageError(f"inserts: duplicate key {self._keys.show(table, repeated)}")

    def _make_room(self) -> None:
        if self.n_slots > len(self._alive):
            n_room = max(self.n_slots, 2 * len(self._alive))
            self._alive = np.pad(self._alive, (0, n_room - len(self._alive)))
            self.stamps = np.zeros(n_room, np.int64)
