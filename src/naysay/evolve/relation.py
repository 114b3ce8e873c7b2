"""The rows that stand: found by key, kept as Arrow, and laid out to be compared with others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from naysay.arrays import BoolArray, Int32Array, Int64Array
from naysay.discovery.fields import Codes, Coding, Fields, chances_of, fields_of, n_nulls
from naysay.discovery.outcomes import Layout as CodeLayout
from naysay.discovery.outcomes import Outcomes
from naysay.discovery.space import Space
from naysay.live.layout import Layout
from naysay.rule.model import Nulls
from naysay.watch.state import Edit, Options, State, build_state


@dataclass(frozen=True, slots=True)
class Sides:
    """Some rows as `evidence.pairs` wants them: the first `n_rows` places, and the serial numbers of the rows."""

    left: Int32Array
    right: Int32Array
    serials: Int64Array

    @property
    def n_rows(self) -> int:
        return int(self.serials.size)


@dataclass(frozen=True, slots=True)
class Batch:
    """A checked change: rows that go, laid out as they were, and rows that come. `stay` are all others."""

    edit: Edit
    gone: Sides
    stay: Sides
    fresh: Sides
    codes: Codes

    @property
    def n_pairs(self) -> int:
        """Pairs to compare, each once, for the evidence of what goes and comes."""
        n_gone, n_fresh, n_stay = self.gone.n_rows, self.fresh.n_rows, self.stay.n_rows
        return (n_gone + n_fresh) * n_stay + n_gone * (n_gone - 1) // 2 + n_fresh * (n_fresh - 1) // 2

    def after(self) -> Sides:
        """All rows that stand once the batch is in, side by side."""
        n_stay = self.stay.n_rows
        left = np.concatenate((self.stay.left[:, :n_stay], self.fresh.left), axis=1)
        right = left
        if self.fresh.right is not self.fresh.left:
            right = np.concatenate((self.stay.right[:, :n_stay], self.fresh.right), axis=1)
        return Sides(left, right, np.concatenate((self.stay.serials, self.fresh.serials)))


class Relation:
    """A table under change. A row has a key, a slot that goes with the key, a place among the sides, and a serial
    number of its own, which no other row ever gets: an update is another row.

    `fields` may change with any batch, see `Fields`, and `version` where codes or places of rows do. Nothing an answer
    shows changes before `commit`.
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
        self.nulls = nulls
        self._state: State = build_state(layout, Options(nulls), rows, {})
        self._coding = Coding(layout.schema, space)
        slots, rows = self._state.rows.all()
        codes = self._encode_all(rows)
        self.fields = fields or fields_of(space, nulls, _with_null(n_nulls(codes)), chances_of(codes, space))
        self.next_serial = 0
        self.version = 0
        self._n_rows = 0
        self._place(slots, codes, np.arange(slots.size) if serials is None else serials)
        self._nulls = n_nulls(codes)

    @property
    def layout(self) -> Layout:
        return self._state.layout

    @property
    def n_rows(self) -> int:
        return self._n_rows

    @property
    def with_null(self) -> frozenset[str]:
        """The columns that hold a null now."""
        return _with_null(self._nulls)

    def table(self) -> pa.Table:
        """The rows that stand, in no particular order."""
        table: pa.Table = self._state.rows.all()[1]
        return table

    def rows(self) -> tuple[Int64Array, pa.Table]:
        """The serial numbers and the rows that stand."""
        slots, table = self._state.rows.all()
        return self._serials[self._places[slots]], table

    def outcomes(self) -> Outcomes:
        """All rows, as discovery wants them."""
        n_rows = self._n_rows
        return Outcomes(
            self.fields.layout, self._left, self._right, np.ones(n_rows, np.int64), np.arange(n_rows, dtype=np.int64)
        )

    def sides(self) -> Sides:
        """All rows that stand."""
        return Sides(self._left, self._right, self._serials[: self._n_rows])

    def column_codes(self, rows: Sides) -> dict[str, Int64Array]:
        """The codes of some rows by column; they mean nothing once `version` has changed."""
        found: dict[str, Int64Array] = {}
        for number, field in enumerate(self.fields.layout.fields):
            comparison = field.comparison
            if not comparison.within_row:
                found[comparison.left.name] = rows.left[number, : rows.n_rows].astype(np.int64)
                found[comparison.right.name] = rows.right[number, : rows.n_rows].astype(np.int64)
        return found

    def layout_after(self, batch: Batch) -> tuple[CodeLayout, frozenset[str]]:
        """The layout for edges once a batch is in, and the columns that hold a null then."""
        with_null = _with_null(self._nulls_after(batch))
        return self.fields.now(with_null), with_null

    def prepare(self, inserts: pa.Table | None, updates: pa.Table | None, deletes: pa.Table | None) -> Batch:
        """Check a change; UsageError or TableError where it does not fit the table."""
        edit = self._state.prepare(inserts, updates, deletes)
        codes, void = self._coding.encode(edit.rows)
        fresh_null = _with_null(n_nulls(codes)) - self.fields.nullable
        if void or fresh_null:
            self._lay_out_again(self.fields.widened(self.fields.nullable | fresh_null))
            codes, _ = self._coding.encode(edit.rows)
        n_stay = self._arrange(self._places[np.concatenate((edit.deletes, edit.updates))])
        n_fresh = edit.rows.num_rows
        left = np.empty((self.fields.n_lines, n_fresh), np.int32)
        right = np.empty_like(left) if self.fields.two_sided else left
        self.fields.fill(codes, left, right, 0)
        return Batch(
            edit,
            self._cut(n_stay, self._n_rows),
            Sides(self._left, self._right, self._serials[:n_stay]),
            Sides(left, right, self.next_serial + np.arange(n_fresh, dtype=np.int64)),
            codes,
        )

    def commit(self, batch: Batch) -> None:
        """Make a change that `prepare` gave just now."""
        edit, fresh = batch.edit, batch.fresh
        self._nulls = self._nulls_after(batch)
        self._state.apply(edit)
        insert_slots = self._state.keys.find(edit.insert_codes)
        slots = np.concatenate((edit.updates, insert_slots))
        start = self._n_rows - batch.gone.n_rows
        stop = start + fresh.n_rows
        self._make_room(stop, self._state.keys.n_slots)
        for side, rows in ((self._left, fresh.left), (self._right, fresh.right)):
            side[:, start:stop] = rows
        self._slots[start:stop], self._serials[start:stop] = slots, fresh.serials
        self._places[slots] = np.arange(start, stop)
        self._n_rows = stop
        self.next_serial += fresh.n_rows
        if self._state.is_sparse:
            self._renew(self._state.layout)

    def find(self, serials: Int64Array, batch: Batch | None = None) -> tuple[pa.Array, pa.Table]:
        """The keys and the compared values of rows that stand, or that come with a batch, known by serial numbers."""
        names = list(self.space.names)
        standing = self._serials[: self._n_rows]
        old = serials < self.next_serial
        wanted = np.flatnonzero(np.isin(standing, serials[old]))
        order = np.argsort(standing[wanted])
        slots = self._slots[wanted[order][np.searchsorted(standing[wanted[order]], serials[old])]]
        keys, rows = self._state.keys.values.table(slots), self._state.rows.take(slots, names)
        if batch is not None and not old.all():
            fresh = batch.edit.rows.take(pa.array(serials[~old] - self.next_serial))
            back = pa.array(np.argsort(np.argsort(~old, kind="stable")))
            keys = pa.concat_tables([keys, fresh.select(list(self.layout.key))]).take(back)
            rows = pa.concat_tables([rows, fresh.select(names)]).take(back)
        columns = [column.combine_chunks() for column in keys.columns]
        columns = [pa.concat_arrays(each.chunks) if isinstance(each, pa.ChunkedArray) else each for each in columns]
        one = columns[0] if len(columns) == 1 else pa.StructArray.from_arrays(columns, names=list(self.layout.key))
        return one, rows

    def contains(self, keys: pa.Table) -> BoolArray:
        """For each key whether a row of it stands."""
        return self._state.contains(keys)

    def grow(self, frames: Sequence[pa.Table]) -> None:
        """Take types from frames for columns that have held nothing but nulls."""
        layout = self.layout
        for frame in frames:
            layout = layout.grown(frame)
        self.retype(layout)

    def retype(self, layout: Layout) -> None:
        """Use other types, for columns that have held nothing but nulls."""
        if layout.schema != self.layout.schema:
            self._renew(layout)

    def use(self, fields: Fields) -> None:
        """Lay rows out as they were before."""
        if fields.layout.fields != self.fields.layout.fields:
            self._lay_out_again(fields)
        self.fields = fields

    def _renew(self, layout: Layout) -> None:
        """Make the state anew: keys and values that are gone go, and columns may have got a type."""
        slots, _ = self._state.rows.all()
        places = self._places[slots]
        self._state = self._state.rebuilt(layout)
        if layout.schema != self._coding_schema:
            self._coding = Coding(layout.schema, self.space)
        new_slots, rows = self._state.rows.all()
        serials = self._serials[places]
        assert np.array_equal(new_slots, np.arange(new_slots.size)), "a state made anew numbers its rows in order"
        self._place(new_slots, self._encode_all(rows), serials)

    def _encode_all(self, rows: pa.Table) -> Codes:
        codes, void = self._coding.encode(rows)
        while void:
            codes, void = self._coding.encode(rows)
        self._coding_schema = self._state.layout.schema
        return codes

    def _lay_out_again(self, fields: Fields) -> None:
        """Other codes, or another layout: lay out all rows, in the places that they have."""
        self.fields = fields
        slots, rows = self._state.rows.all()
        order = np.argsort(self._places[slots])
        codes = self._encode_all(rows)
        self._place(
            slots[order], {name: values[order] for name, values in codes.items()}, self._serials[: self._n_rows].copy()
        )

    def _place(self, slots: Int64Array, codes: Codes, serials: Int64Array) -> None:
        """Lay out rows in places from 0 on, with a little room beyond."""
        self.version += 1
        n_rows = slots.size
        room = n_rows + n_rows // 8 + 64
        self._left = np.zeros((self.fields.n_lines, room), np.int32)
        self._right = np.zeros_like(self._left) if self.fields.two_sided else self._left
        self.fields.fill(codes, self._left, self._right, 0)
        self._slots, self._serials = np.zeros(room, np.int64), np.zeros(room, np.int64)
        self._slots[:n_rows], self._serials[:n_rows] = slots, serials
        self._places = np.zeros(self._state.keys.n_slots + 64, np.int64)
        self._places[slots] = np.arange(n_rows)
        self._n_rows = n_rows
        self.next_serial = max(self.next_serial, int(serials.max(initial=-1)) + 1)

    def _arrange(self, last: Int64Array) -> int:
        """Exchange rows so that those at the given places come last; gives the number of the others."""
        n_stay = self._n_rows - last.size
        holes = last[last < n_stay]
        tail = np.setdiff1d(np.arange(n_stay, self._n_rows), last)
        for side in (self._left, self._right) if self._right is not self._left else (self._left,):
            kept = side[:, holes]
            side[:, holes] = side[:, tail]
            side[:, tail] = kept
        for line in (self._slots, self._serials):
            line[holes], line[tail] = line[tail], line[holes]
        self._places[self._slots[holes]], self._places[self._slots[tail]] = holes, tail
        return n_stay

    def _cut(self, start: int, stop: int) -> Sides:
        left = np.ascontiguousarray(self._left[:, start:stop])
        right = left if self._right is self._left else np.ascontiguousarray(self._right[:, start:stop])
        return Sides(left, right, self._serials[start:stop].copy())

    def _nulls_after(self, batch: Batch) -> dict[str, int]:
        edit = batch.edit
        slots = np.concatenate((edit.deletes, edit.updates))
        gone = self._state.rows.take(slots, list(self.space.names)) if slots.size else None
        fresh = n_nulls(batch.codes)
        return {
            name: count + fresh[name] - (gone.column(name).null_count if gone is not None else 0)
            for name, count in self._nulls.items()
        }

    def _make_room(self, n_rows: int, n_slots: int) -> None:
        room = self._slots.size
        if n_rows > room:
            more = n_rows + n_rows // 4 + 64 - room
            same = self._right is self._left
            self._left = np.pad(self._left, ((0, 0), (0, more)))
            self._right = self._left if same else np.pad(self._right, ((0, 0), (0, more)))
            self._slots, self._serials = np.pad(self._slots, (0, more)), np.pad(self._serials, (0, more))
        if n_slots > self._places.size:
            self._places = np.pad(self._places, (0, n_slots + n_slots // 4 + 64 - self._places.size))


def _with_null(counts: dict[str, int]) -> frozenset[str]:
    return frozenset(name for name, count in counts.items() if count)
