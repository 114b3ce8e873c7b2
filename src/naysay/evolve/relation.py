"""The rows of an evolver: found by key, kept as Arrow, and encoded to be compared with others."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from naysay.arrays import BoolArray, Int32Array, Int64Array
from naysay.discovery.fields import Codes, Coding, Fields, chances_of, fields_of, n_nulls
from naysay.discovery.outcomes import CodeLayout, Outcomes, ones
from naysay.discovery.space import Space
from naysay.live.layout import Layout
from naysay.live.table import LiveTable, TableChange
from naysay.rule.model import Nulls


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Rows as `kernels.evidence` wants them: the first `n_rows` places of both sides, and the rows' serial numbers."""

    left: Int32Array
    right: Int32Array
    serials: Int64Array

    @property
    def n_rows(self) -> int:
        return int(self.serials.size)

    def take(self, places: Int64Array) -> EncodedRows:
        # Places are known to be within: anything but "raise" spares numpy a copy.
        left = np.take(self.left, places, axis=1, mode="clip")
        right = left if self.right is self.left else np.take(self.right, places, axis=1, mode="clip")
        return EncodedRows(left, right, self.serials[places])

    def cut(self, start: int, stop: int) -> EncodedRows:
        left = np.ascontiguousarray(self.left[:, start:stop])
        right = left if self.right is self.left else np.ascontiguousarray(self.right[:, start:stop])
        return EncodedRows(left, right, self.serials[start:stop])

    def outcomes(self, layout: CodeLayout) -> Outcomes:
        """The same rows as discovery wants them."""
        n_rows = self.n_rows
        left = self.left[:, :n_rows]
        right = left if self.right is self.left else self.right[:, :n_rows]
        return Outcomes(layout, left, right, ones(n_rows))


@dataclass(frozen=True, slots=True)
class RelationChange:
    """A checked change: `gone` rows as they were encoded, `fresh` rows, and `stay`, all others."""

    change: TableChange
    gone: EncodedRows
    stay: EncodedRows
    fresh: EncodedRows
    codes: Codes

    @property
    def n_after(self) -> int:
        return self.stay.n_rows + self.fresh.n_rows

    @property
    def n_pairs(self) -> int:
        """Pairs to compare, each once, for the evidence that disappears and appears."""
        n_gone, n_fresh, n_stay = self.gone.n_rows, self.fresh.n_rows, self.stay.n_rows
        return (n_gone + n_fresh) * n_stay + n_gone * (n_gone - 1) // 2 + n_fresh * (n_fresh - 1) // 2

    def after(self) -> EncodedRows:
        """All rows of the table once the change is made."""
        n_stay = self.stay.n_rows
        left = np.concatenate((self.stay.left[:, :n_stay], self.fresh.left), axis=1)
        right = left
        if self.fresh.right is not self.fresh.left:
            right = np.concatenate((self.stay.right[:, :n_stay], self.fresh.right), axis=1)
        return EncodedRows(left, right, np.concatenate((self.stay.serials, self.fresh.serials)))


class Relation:
    """The rows of a live table, encoded. A row has a key, the slot of its key, a place among the encoded rows, and a
    serial number that no other row ever gets: an update is another row.

    `fields` may change with any batch, see `Fields`, and `version` changes with the codes or the places of rows.
    Nothing that an answer shows changes before `commit`.
    """

    def __init__(
        self,
        layout: Layout,
        space: Space,
        nulls: Nulls,
        rows: pa.Table,
        serials: Int64Array | None = None,
        fields: Fields | None = None,
    ) -> None:
        self.space = space
        self.next_serial = 0
        self.version = 0
        self._table = LiveTable(layout, rows)
        self._coding = Coding(layout.schema, space)
        slots, rows = self._table.all()
        codes = self._encode_all(rows)
        self._nulls = n_nulls(codes)
        self.fields = fields or fields_of(space, nulls, _with_null(self._nulls), chances_of(codes, space))
        self._place(slots, codes, np.arange(slots.size) if serials is None else serials)

    @property
    def layout(self) -> Layout:
        return self._table.layout

    @property
    def n_rows(self) -> int:
        return self._table.n_rows

    def rows(self) -> tuple[Int64Array, pa.Table]:
        """All rows with their serial numbers, in no particular order."""
        slots, table = self._table.all()
        return self._serials[self._places[slots]], table

    def encoded(self) -> EncodedRows:
        return EncodedRows(self._left, self._right, self._serials[: self.n_rows])

    def outcomes(self) -> Outcomes:
        """All rows as discovery wants them, with room beyond them."""
        return Outcomes(self.fields.layout, self._left, self._right, ones(self.n_rows))

    def column_codes(self, rows: EncodedRows) -> dict[str, Int64Array]:
        """The codes of some rows by column; they are void once `version` has changed."""
        found: dict[str, Int64Array] = {}
        for number, field in enumerate(self.fields.layout.fields):
            comparison = field.comparison
            if not comparison.within_row:
                found[comparison.left.name] = rows.left[number, : rows.n_rows].astype(np.int64)
                found[comparison.right.name] = rows.right[number, : rows.n_rows].astype(np.int64)
        return found

    def shape(self, batch: RelationChange | None = None) -> CodeLayout:
        """The layout that edges are read by (see `Fields.now`): now, or once a batch is applied."""
        return self.fields.now(_with_null(self._nulls if batch is None else self._nulls_after(batch)))

    def prepare(self, **tables: pa.Table) -> RelationChange:
        """Check inserts, updates and deletes; UsageError or TableError if they do not fit the table."""
        change = self._table.prepare(**tables)
        codes, is_void = self._coding.encode(change.rows)
        fresh_null = _with_null(n_nulls(codes)) - self.fields.nullable
        if is_void or fresh_null:
            self._encode_again(self.fields.widened(self.fields.nullable | fresh_null))
            codes, _ = self._coding.encode(change.rows)
        n_stay = self._move_last(self._places[change.old_slots])
        n_fresh = change.rows.num_rows
        left, right = self._sides(codes, n_fresh)
        everything = self.encoded()
        gone = everything.cut(n_stay, self.n_rows)
        return RelationChange(
            change,
            replace(gone, serials=gone.serials.copy()),
            replace(everything, serials=everything.serials[:n_stay]),
            EncodedRows(left, right, self.next_serial + np.arange(n_fresh, dtype=np.int64)),
            codes,
        )

    def commit(self, batch: RelationChange) -> None:
        """Make the change that `prepare` returned last."""
        self._nulls = self._nulls_after(batch)
        self._table.commit(batch.change)
        fresh, slots = batch.fresh, batch.change.new_slots
        start, stop = batch.stay.n_rows, batch.n_after
        self._make_room(stop)
        for side, rows in ((self._left, fresh.left), (self._right, fresh.right)):
            side[:, start:stop] = rows
        self._slots[start:stop], self._serials[start:stop] = slots, fresh.serials
        self._places[slots] = np.arange(start, stop)
        self.next_serial += fresh.n_rows
        if self._table.is_sparse:
            self.retype(self.layout, rebuild=True)

    def find(self, serials: Int64Array, batch: RelationChange | None = None) -> tuple[pa.Array, pa.Table]:
        """The keys and the compared values of the rows, present or fresh, with these serial numbers."""
        key, names = list(self.layout.key), list(self.space.names)
        present = self.encoded().serials
        old = serials < self.next_serial
        wanted = np.flatnonzero(np.isin(present, serials[old]))
        order = np.argsort(present[wanted])
        slots = self._slots[wanted[order][np.searchsorted(present[wanted[order]], serials[old])]]
        keys, rows = self._table.key_values.table(slots), self._table.take(slots, names)
        if batch is not None and not old.all():
            fresh = batch.change.rows.take(pa.array(serials[~old] - self.next_serial))
            back = pa.array(np.argsort(np.argsort(~old, kind="stable")))
            keys = pa.concat_tables([keys, fresh.select(key)]).take(back)
            rows = pa.concat_tables([rows, fresh.select(names)]).take(back)
        return one_column(keys, key), rows

    def contains(self, keys: pa.Table) -> BoolArray:
        return self._table.contains(keys)

    def retype(self, layout: Layout, *, rebuild: bool = False) -> None:
        """Use other types for columns that have held only nulls; if `rebuild`, drop keys and values that are gone."""
        if layout.schema == self.layout.schema and not rebuild:
            return
        serials, _ = self.rows()
        if layout.schema != self.layout.schema:
            self._coding = Coding(layout.schema, self.space)
        self._table = self._table.rebuild(layout)
        slots, rows = self._table.all()
        assert np.array_equal(slots, np.arange(slots.size)), "a rebuilt table numbers its rows in order"
        self._place(slots, self._encode_all(rows), serials)

    def use(self, fields: Fields) -> None:
        """Encode rows as they were encoded before."""
        if fields.layout.fields != self.fields.layout.fields:
            self._encode_again(fields)
        self.fields = fields

    def _encode_all(self, rows: pa.Table) -> Codes:
        codes, is_void = self._coding.encode(rows)
        while is_void:
            codes, is_void = self._coding.encode(rows)
        return codes

    def _encode_again(self, fields: Fields) -> None:
        """Encode all rows again, in their places: codes are void, or the layout is another."""
        self.fields = fields
        slots, rows = self._table.all()
        order = np.argsort(self._places[slots])
        codes = {name: values[order] for name, values in self._encode_all(rows).items()}
        self._place(slots[order], codes, self.encoded().serials.copy())

    def _place(self, slots: Int64Array, codes: Codes, serials: Int64Array) -> None:
        """Encode rows into places from 0 on, with a little room beyond."""
        self.version += 1
        n_rows = slots.size
        room = n_rows + n_rows // 8 + 64
        self._left, self._right = self._sides(codes, room)
        self._slots, self._serials = np.zeros(room, np.int64), np.zeros(room, np.int64)
        self._slots[:n_rows], self._serials[:n_rows] = slots, serials
        self._places = np.zeros(self._table.n_slots + 64, np.int64)
        self._places[slots] = np.arange(n_rows)
        self.next_serial = max(self.next_serial, int(serials.max(initial=-1)) + 1)

    def _sides(self, codes: Codes, room: int) -> tuple[Int32Array, Int32Array]:
        left = np.zeros((self.fields.n_lines, room), np.int32)
        right = np.zeros_like(left) if self.fields.two_sided else left
        self.fields.fill(codes, left, right, 0)
        return left, right

    def _move_last(self, last: Int64Array) -> int:
        """Swap rows so that those at the given places come last; returns the number of the others."""
        n_stay = self.n_rows - last.size
        holes = last[last < n_stay]
        tail = np.setdiff1d(np.arange(n_stay, self.n_rows), last)
        for side in (self._left, self._right) if self._right is not self._left else (self._left,):
            kept = side[:, holes]
            side[:, holes] = side[:, tail]
            side[:, tail] = kept
        for line in (self._slots, self._serials):
            line[holes], line[tail] = line[tail], line[holes]
        self._places[self._slots[holes]], self._places[self._slots[tail]] = holes, tail
        return n_stay

    def _nulls_after(self, batch: RelationChange) -> dict[str, int]:
        gone = self._table.take(batch.change.old_slots, list(self.space.names))
        fresh = n_nulls(batch.codes)
        return {name: count + fresh[name] - gone.column(name).null_count for name, count in self._nulls.items()}

    def _make_room(self, n_rows: int) -> None:
        if n_rows > self._slots.size:
            more = n_rows + n_rows // 4 + 64 - self._slots.size
            is_same = self._right is self._left
            self._left = np.pad(self._left, ((0, 0), (0, more)))
            self._right = self._left if is_same else np.pad(self._right, ((0, 0), (0, more)))
            self._slots, self._serials = np.pad(self._slots, (0, more)), np.pad(self._serials, (0, more))
        if (n_slots := self._table.n_slots) > self._places.size:
            self._places = np.pad(self._places, (0, n_slots + n_slots // 4 + 64 - self._places.size))


def one_column(keys: pa.Table, names: list[str]) -> pa.Array:
    """Keys as one array: a struct if they have several columns."""
    columns = [column.combine_chunks() for column in keys.select(names).columns]
    columns = [pa.concat_arrays(each.chunks) if isinstance(each, pa.ChunkedArray) else each for each in columns]
    return columns[0] if len(columns) == 1 else pa.StructArray.from_arrays(columns, names=names)


def _with_null(counts: dict[str, int]) -> frozenset[str]:
    return frozenset(name for name, count in counts.items() if count)
