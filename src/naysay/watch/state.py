"""The state of a watched table in memory: rows, their codes, an index, and the violations that stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from naysay.arrays import BoolArray, Int64Array
from naysay.errors import UsageError
from naysay.live.codes import TupleTable
from naysay.live.columns import Codes, Columns, Source, filter_of, sources_of
from naysay.live.layout import Layout
from naysay.live.rows import Keys, Rows
from naysay.plan.join import Join, join_of
from naysay.published import published
from naysay.rule.model import Nulls, Rule
from naysay.table.compatibility import check_rule
from naysay.watch.batch import Batch, Delta, Index, PairLog, Pairs, RowChange, net_change

if TYPE_CHECKING:
    from naysay.watch.counting import CountingIndex

# A state with more than this many slots beside twice its rows is made anew: keys and values that are gone go then.
_SPARE_SLOTS = 65_536


@dataclass(frozen=True, slots=True)
class Options:
    """What a state is asked to be. `index` is "auto" or "lt-tree"."""

    nulls: Nulls = Nulls.SQL
    counting: bool = False
    index: str = "auto"


@dataclass(frozen=True, slots=True)
class Edit:
    """A checked change: slots to delete, slots to update, keys to insert (with the slots they had, or -1), new rows."""

    deletes: Int64Array
    updates: Int64Array
    insert_codes: Int64Array
    insert_slots: Int64Array
    rows: pa.Table
    codes: Codes


@dataclass(frozen=True, slots=True)
class _Watched:
    rule: Rule
    join: Join
    sources: list[Source]
    log: PairLog


class State:
    """Everything in memory. Methods that raise have changed nothing that an answer shows."""

    def __init__(self, layout: Layout, options: Options) -> None:
        self.layout = layout
        self.options = options
        self.keys = Keys(layout)
        self.rows = Rows(layout.schema)
        self.columns = Columns(layout.schema, options.nulls)
        self.index = _make_index(layout.schema, options)
        self.counter = _make_counter(layout.schema, options)
        self.n_rows = 0
        self._no_rows = layout.schema.empty_table()
        self._alive = np.zeros(64, np.bool_)
        self._stamps = np.zeros(64, np.int64)
        self._watched: dict[str, _Watched] = {}

    @property
    def counts(self) -> dict[str, int]:
        return {name: watched.log.count for name, watched in self._watched.items()}

    @property
    def rules(self) -> dict[str, Rule]:
        return {name: watched.rule for name, watched in self._watched.items()}

    @property
    def is_sparse(self) -> bool:
        """So many keys are gone that the state had better be made anew."""
        return self.keys.n_slots > 2 * self.n_rows + _SPARE_SLOTS

    def pairs(self) -> dict[str, Pairs]:
        """The violations that stand; none where they are only counted."""
        return {name: watched.log.pairs() for name, watched in self._watched.items()}

    def conflicts(self) -> dict[str, int]:
        """How many rows take part in violations of each rule. Where these are only counted, this looks at all rows."""
        if self.counter is None:
            return {name: conflicting([found]) for name, found in self.pairs().items()}
        standing = self.standing()
        return {
            name: watched.log.count if watched.join.one_row else self.counter.n_conflicting(name, standing)
            for name, watched in self._watched.items()
        }

    def add_rule(self, name: str, rule: Rule) -> Delta:
        """Watch one more rule; gives its violations as added."""
        check_rule(self.layout.schema, rule)
        join = join_of(rule)
        sources = sources_of(self.layout.schema, join)
        fresh = self.columns.use(sources)
        try:
            if fresh:
                self._fill(fresh)
            found = self._start(name, join) if self.counter is None else self._start_counting(name, join)
        except BaseException:
            self.columns.release(sources)
            raise
        self._watched[name] = watched = _Watched(rule, join, sources, PairLog())
        if isinstance(found, int):
            watched.log.shift(found)
            return Delta(_none(), _none())
        watched.log.apply(_none(), found)
        return Delta(_none(), found)

    def remove_rule(self, name: str) -> Delta:
        """Stop watching a rule; gives its violations as removed."""
        watched = self._watched.pop(name)
        if not watched.join.one_row:
            (self.counter or self.index).remove(name)
        self.columns.release(watched.sources)
        return Delta(watched.log.pairs(), _none())

    def prepare(self, inserts: pa.Table | None, updates: pa.Table | None, deletes: pa.Table | None) -> Edit:
        """Check a change against the state: every key known or new as it must be, and none twice."""
        delete_slots = self._known(deletes, "deletes")
        update_slots = self._known(updates, "updates")
        if updates is not None and len(update_slots) and len(delete_slots):
            gone = np.isin(update_slots, delete_slots)
            if gone.any():
                shown = self.keys.show(updates, int(np.argmax(gone)))
                raise UsageError(f"updates: the key {shown} is deleted in the same batch")
        insert_codes, insert_slots = self._new(inserts, delete_slots)
        rows = self._together(updates, inserts)
        codes, void = self.columns.encode(rows)
        while void:
            self._recode()
            codes, void = self.columns.encode(rows)
        return Edit(delete_slots, update_slots, insert_codes, insert_slots, rows, codes)

    def apply(self, edit: Edit) -> dict[str, Delta]:
        """Make a change that `prepare` gave just now; answers the net change of each rule's violations."""
        n_updates = len(edit.updates)
        insert_slots = self.keys.add(edit.insert_codes, edit.insert_slots, edit.rows.slice(n_updates))
        self._make_room(self.keys.n_slots)
        old_slots = np.concatenate((edit.deletes, edit.updates))
        new_slots = np.concatenate((edit.updates, insert_slots))
        old, new = Batch(old_slots, self.columns.read(old_slots)), Batch(new_slots, edit.codes)
        rows = RowChange(old, new, n_updates)
        changed = self._count(rows) if self.counter else self._list(rows)
        self._alive[edit.deletes] = False
        self._alive[insert_slots] = True
        self.n_rows += len(insert_slots) - len(edit.deletes)
        self.rows.drop(edit.deletes)
        self.rows.put(new_slots, edit.rows)
        self.columns.write(new_slots, edit.codes)
        return changed

    def _list(self, rows: RowChange) -> dict[str, Delta]:
        deltas = self.index.change(rows, self._stamps)
        changed = {}
        for name, watched in self._watched.items():
            delta = _singles(watched.join, rows) if watched.join.one_row else deltas[name]
            if rows.old.n_rows and rows.new.n_rows:
                delta = Delta(*net_change(delta.removed, delta.added))
            watched.log.apply(delta.removed, delta.added)
            changed[name] = delta
        return changed

    def _count(self, rows: RowChange) -> dict[str, Delta]:
        assert self.counter is not None
        grown = self.counter.change(rows)
        for name, watched in self._watched.items():
            if watched.join.one_row:
                delta = _singles(watched.join, rows)
                watched.log.shift(len(delta.added) - len(delta.removed))
            else:
                watched.log.shift(grown[name])
        return {}

    def contains(self, keys: pa.Table) -> BoolArray:
        """Which of these keys have a row."""
        slots = self.keys.find(self.keys.codes(keys, "keys"))
        stands = slots >= 0
        stands[stands] = self._alive[slots[stands]]
        return stands

    def find_rows(self, keys: pa.Table, names: Sequence[str]) -> pa.Table | None:
        """Columns of the rows with these keys; None where one has no row."""
        if not self.contains(keys).all():
            return None
        return self.rows.take(self.keys.find(self.keys.codes(keys, "keys")), names)

    def rebuilt(self, layout: Layout | None = None) -> State:
        """The same rows and rules in a state made anew, perhaps with types for columns that had none."""
        _, rows = self.rows.all()
        return build_state(layout or self.layout, self.options, rows, self.rules)

    def standing(self) -> Batch:
        """All rows that stand."""
        slots = np.flatnonzero(self._alive)
        return Batch(slots, self.columns.read(slots))

    def _start(self, name: str, join: Join) -> Pairs:
        standing = self.standing()
        if join.one_row:
            return _breaking(join, standing)
        self.index.add(name, join, standing)
        try:
            return self.index.violations(name, standing)
        except BaseException:
            self.index.remove(name)
            raise

    def _start_counting(self, name: str, join: Join) -> int:
        assert self.counter is not None
        standing = self.standing()
        return len(_breaking(join, standing)) if join.one_row else self.counter.add(name, join, standing)

    def _together(self, updates: pa.Table | None, inserts: pa.Table | None) -> pa.Table:
        parts = [part for part in (updates, inserts) if part is not None and part.num_rows]
        rows = pa.concat_tables(parts) if parts else self._no_rows
        return rows.combine_chunks() if any(column.num_chunks > 1 for column in rows.columns) else rows

    def _known(self, table: pa.Table | None, what: str) -> Int64Array:
        """The slots of keys that must stand, each once."""
        if table is None or table.num_rows == 0:
            return np.empty(0, np.int64)
        slots = self.keys.find(self.keys.codes(table, what))
        unknown = slots == -1
        unknown[~unknown] = ~self._alive[slots[~unknown]]
        if unknown.any():
            raise UsageError(f"{what}: there is no row with the key {self.keys.show(table, int(np.argmax(unknown)))}")
        numbers = np.arange(len(slots))
        self._stamps[slots] = numbers
        again = self._stamps[slots] != numbers
        self._stamps[slots] = 0
        if again.any():
            raise UsageError(f"{what}: the key {self.keys.show(table, int(np.argmax(again)))} stands twice")
        return slots

    def _new(self, table: pa.Table | None, deletes: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Codes and slots of keys that must not stand, each once; those deleted in the same batch may come back."""
        if table is None or table.num_rows == 0:
            return np.empty((0, len(self.layout.key)), np.int64), np.empty(0, np.int64)
        codes = self.keys.codes(table, "inserts")
        slots = self.keys.find(codes)
        stands = slots >= 0
        stands[stands] = self._alive[slots[stands]]
        if stands.any() and len(deletes):
            stands &= ~np.isin(slots, deletes)
        if stands.any():
            shown = self.keys.show(table, int(np.argmax(stands)))
            raise UsageError(f"inserts: there is a row with the key {shown} already; update it, or delete it first")
        seen = TupleTable(codes.shape[1])
        numbers = seen.add(codes)
        if seen.n_known < len(codes):
            _, first = np.unique(numbers, return_index=True)
            again = int(np.setdiff1d(np.arange(len(codes)), first)[0])
            raise UsageError(f"inserts: the key {self.keys.show(table, again)} stands twice")
        return codes, slots

    def _fill(self, fresh: list[Source]) -> None:
        """Code new sources for the standing rows; where that voids codes, all of them."""
        slots, rows = self.rows.all()
        codes, void = self.columns.encode(rows, fresh)
        if void:
            self._recode()
        else:
            self.columns.write(slots, codes)

    def _recode(self) -> None:
        """Code all standing rows again, and make the index anew from them."""
        slots, rows = self.rows.all()
        void = True
        while void:
            codes, void = self.columns.encode(rows)
        self.columns.write(slots, codes)
        self.index = _make_index(self.layout.schema, self.options)
        self.counter = _make_counter(self.layout.schema, self.options)
        standing = self.standing()
        for name, watched in self._watched.items():
            if not watched.join.one_row:
                (self.counter or self.index).add(name, watched.join, standing)

    def _make_room(self, n_slots: int) -> None:
        if n_slots > len(self._alive):
            n_room = max(n_slots, 2 * len(self._alive))
            alive = np.zeros(n_room, np.bool_)
            alive[: len(self._alive)] = self._alive
            self._alive, self._stamps = alive, np.zeros(n_room, np.int64)


def build_state(layout: Layout, options: Options, rows: pa.Table, rules: Mapping[str, Rule]) -> State:
    """A state with these rows and rules, made in one go."""
    state = State(layout, options)
    table = layout.conform(rows, "the table")
    state.apply(state.prepare(table, None, None))
    for name, rule in rules.items():
        state.add_rule(name, rule)
    return state


def _make_index(schema: pa.Schema, options: Options) -> Index:
    if options.index == "lt-tree":
        index: Index = published("weever").index(schema, options.nulls)
        return index
    from naysay.watch.forest import Forest

    return Forest(schema, options.nulls)


def _make_counter(schema: pa.Schema, options: Options) -> CountingIndex | None:
    if not options.counting:
        return None
    from naysay.watch.counting import CountingIndex

    return CountingIndex(schema, options.nulls)


def _singles(join: Join, rows: RowChange) -> Delta:
    return Delta(_breaking(join, rows.old), _breaking(join, rows.new))


def _breaking(join: Join, batch: Batch) -> Pairs:
    filter_ = filter_of(join.left_filter)
    assert filter_ is not None, "a one-row rule has predicates"
    slots = batch.slots[batch.codes[filter_] == 1]
    return Pairs(slots, slots)


def _none() -> Pairs:
    return Pairs(np.empty(0, np.int64), np.empty(0, np.int64))


def conflicting(pairs: Iterable[Pairs]) -> int:
    """How many rows take part in these violations."""
    slots = [part for found in pairs for part in (found.left, found.right)]
    return len(np.unique(np.concatenate(slots))) if slots else 0
