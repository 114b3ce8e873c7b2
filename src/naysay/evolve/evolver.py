"""Evolver: the rules of a table, kept current as rows come and go."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from naysay.arrays import BoolArray
from naysay.discovery.device import device_named
from naysay.discovery.fields import Fields
from naysay.discovery.result import Discovery, Rules
from naysay.discovery.space import Scope, Space, build_space, scope_of
from naysay.errors import StateError, UsageError
from naysay.evolve.change import NO_REMOVALS, Change, change_between, no_rules
from naysay.evolve.method import ROW, Method, Settings, Step, choose_method, make_method, restored_method
from naysay.evolve.relation import Batch, Relation
from naysay.live.layout import Layout, layout_of
from naysay.rule.model import Nulls
from naysay.table import from_frame
from naysay.table.frame import to_arrow

if TYPE_CHECKING:
    from naysay.live.journal.journal import Journal

_CLOSED = "this evolver is closed; open its state again"


class Evolver:
    """The rules that a table obeys, kept current under inserts, deletes and updates.

    Always what `discover` would find on the rows that stand, in the space that the first frame made. `key` names the
    columns that identify a row; without one rows are known by their number, from 0 in the order they came. `error`
    is the fraction of pairs that may break a rule. With `state`, a path, every batch is durable before `apply`
    returns; `Evolver.open`, or the path in the place of a frame, goes on from there. `device` says where pairs are
    compared: "cpu", "cuda" or "auto", which takes a GPU where there is one and so many pairs that it is quicker.

    >>> import naysay, pyarrow as pa
    >>> evolver = naysay.Evolver(pa.table({"id": [1, 2], "zip": [8, 9], "city": ["Ulm", "Bonn"]}), key="id")
    >>> change = evolver.apply(inserts=pa.table({"id": [3], "zip": [9], "city": ["Kiel"]}))
    >>> for gone in change.removed:
    ...     if gone.rule.column_names == ("zip",):
    ...         print(naysay.render(gone.rule), gone.pair)
    not(t.zip == s.zip) (3, 2)
    """

    def __init__(
        self,
        frame: Any = None,
        key: str | Sequence[str] | None = None,
        *,
        error: float = 0.0,
        nulls: str | Nulls = Nulls.SQL,
        columns: Sequence[str] | None = None,
        space: str | Scope | Space = "naysay",
        max_predicates: int | None = None,
        method: str = "auto",
        state: str | os.PathLike[str] | None = None,
        threads: int = 0,
        device: str = "auto",
    ) -> None:
        if threads < 0:
            raise UsageError(f"threads is 0 (all cores) or more, not {threads}")
        self._device = device_named(device)
        self._n_threads = threads or os.cpu_count() or 1
        self._closed = ""
        self._method: Method
        self._batch_ids: set[str] = set()
        # Called with the number and the change of a batch right before it is durable.
        self.publisher: Callable[[int, Change], None] | None = None
        self._store: Journal | None = None
        self._kept_fields: Fields | None = None
        self._kept_schema: pa.Schema | None = None
        if isinstance(frame, (str, os.PathLike)):
            if state is not None:
                raise UsageError(f"{os.fspath(frame)} names a state to go on from, and so does {os.fspath(state)}")
            frame, state = None, frame
        if frame is None:
            if state is None:
                raise UsageError("an evolver needs a frame to begin with, or a state to go on from")
            self._load(state)
            return
        table = to_arrow(frame)
        chosen = choose_method(method, table.num_rows, error)
        settings = Settings(_key(key), float(error), _nulls(nulls), max_predicates, chosen)
        if not isinstance(space, Space):
            space = build_space(from_frame(table), columns, scope_of(space, cross=True))
        table = table if settings.key else numbered(table, 0)
        self._start(table, settings, space, may_change=method == "auto")
        if state is not None:
            self._save(state)

    @classmethod
    def open(cls, state: str | os.PathLike[str], *, threads: int = 0, device: str = "auto") -> Evolver:
        """Go on from a state that another evolver left."""
        return cls(state=state, threads=threads, device=device)

    @property
    def rules(self) -> Rules:
        """Every minimal rule that holds now, short ones first."""
        return self._method.rules

    @property
    def n_rows(self) -> int:
        return self._relation.n_rows

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a row; none where rows are known by their number."""
        return self._settings.key

    @property
    def space(self) -> Space:
        """What rules may compare: fixed by the first frame."""
        return self._relation.space

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns, as every frame must have them."""
        schema = self._relation.layout.schema
        return schema if self._settings.key else schema.remove(schema.get_field_index(ROW))

    @property
    def method(self) -> str:
        return self._method.name

    @property
    def store(self) -> Journal | None:
        """Where the state is; None where there is none."""
        return self._store

    @property
    def layout(self) -> Layout:
        """Names and types of the columns, and which of them are the key."""
        return self._relation.layout

    def knows(self, batch_id: str) -> bool:
        """Whether a batch of this id was applied."""
        return batch_id in self._batch_ids

    def contains(self, keys: Any) -> BoolArray:
        """For each key of a frame or list whether a row of it stands."""
        return self._relation.contains(self._relation.layout.conform_keys(keys, "keys"))

    def rows(self) -> pa.Table:
        """The rows that stand, in no particular order."""
        table = self._relation.table()
        return table if self._settings.key else table.drop_columns([ROW])

    @property
    def discovery(self) -> Discovery:
        """The rules as `discover` gives them: the best to look at first, and all of them. Ranked when asked for."""
        from naysay.evolve.known import ranked

        self._check_open()
        return ranked(self._relation, self._method, self._settings, self._n_threads)

    def apply(
        self, inserts: Any = None, updates: Any = None, deletes: Any = None, batch_id: str | None = None
    ) -> Change:
        """Change rows in one step, and say which rules that added and removed.

        `inserts` and `updates` are frames with all columns, `deletes` a frame with the key columns, or a list of
        values of a single one (of row numbers where there is no key). Deletes come first. A `batch_id` that was
        applied before is acknowledged, and nothing is done. Raises UsageError or TableError where keys or columns
        do not fit; nothing has changed then.
        """
        self._check_open()
        if batch_id is not None and not isinstance(batch_id, str):
            raise UsageError(f"a batch id is text, not {type(batch_id).__name__}")
        if batch_id is not None and batch_id in self._batch_ids:
            rules = self.rules
            return Change(no_rules(rules), NO_REMOVALS, self.n_rows, len(rules), batch_id, repeated=True)
        batch, tables = self._prepare(inserts, updates, deletes)
        step = self._method.advance(batch)
        n_after = batch.stay.n_rows + batch.fresh.n_rows
        change = change_between(self.rules, step, partial(self._relation.find, batch=batch), n_after, batch_id)
        with self._changing():
            if self.publisher is not None and self._store is not None:
                self.publisher(self._store.next_seq, change)
            self._keep(tables, step, batch_id)
            self._relation.commit(batch)
            self._method.adopt(step)
            if batch_id is not None:
                self._batch_ids.add(batch_id)
            self._fold()
        return change

    def close(self) -> None:
        """Close the state, where there is one. The evolver cannot be used afterwards."""
        if self._store is not None and self._closed != _CLOSED:
            self._store.close()
        self._closed = _CLOSED

    def __enter__(self) -> Evolver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Where a change is cut short, what is in memory may be neither the old nor the new: it must not be used."""
        try:
            yield
        except BaseException:
            self._closed = "the last batch was cut short: open the state again, or make the evolver anew"
            if self._store is not None:
                self._store.close()
            raise

    def _keep(self, tables: Mapping[str, pa.Table], step: Step, batch_id: str | None) -> None:
        """Make a batch durable."""
        if self._store is None:
            return
        from naysay.evolve.durable import batch_parts

        fields = self._relation.fields
        schema = self._relation.layout.schema
        parts = batch_parts(
            tables,
            step.arrays(),
            None if fields is self._kept_fields else fields,
            None if schema == self._kept_schema else schema,
        )
        self._store.append("rows", parts, batch_id)
        self._kept_fields, self._kept_schema = fields, schema

    def _fold(self) -> None:
        """Put everything in the place of a log that has grown long."""
        if self._store is not None and self._store.needs_snapshot(self.n_rows):
            from naysay.evolve.durable import whole_parts

            self._store.snapshot(whole_parts(self._relation, self._method.arrays()))
            self._kept_fields, self._kept_schema = self._relation.fields, self._relation.layout.schema

    def _start(self, table: pa.Table, settings: Settings, space: Space, *, may_change: bool) -> None:
        layout = layout_of(table, settings.columns)
        self._relation = Relation(layout, space, settings.nulls, layout.conform(table, "the table"))
        self._method = make_method(self._relation, settings, self._n_threads, self._device, may_change=may_change)
        self._settings = replace(settings, method=self._method.name)

    def _save(self, state: str | os.PathLike[str]) -> None:
        """Begin a state."""
        from naysay.evolve.durable import settings_parts, store_at, whole_parts

        store = store_at(state, make=True)
        try:
            if not store.is_new:
                raise UsageError(f"{store.path}: there is a state already; open it, or name another place")
            store.create(settings_parts(self._settings, self.space), whole_parts(self._relation, self._method.arrays()))
        except BaseException:
            store.close()
            raise
        self._store = store
        self._kept_fields, self._kept_schema = self._relation.fields, self._relation.layout.schema

    def _load(self, state: str | os.PathLike[str]) -> None:
        """Go on from a state."""
        from naysay.evolve.durable import restored, store_at

        store = store_at(state, make=False)
        try:
            if store.is_new:
                raise StateError(f"{store.path}: there is no state of an evolver here")
            found = restored(store)
            self._settings, self._relation = found.settings, found.relation
            try:
                self._method = restored_method(found, self._n_threads, self._device)
            except (AssertionError, KeyError, ValueError) as error:
                raise StateError(f"{store.path}: the state cannot be read back: {error}") from error
        except BaseException:
            store.close()
            raise
        self._store, self._batch_ids = store, set(store.batch_ids)
        self._kept_fields, self._kept_schema = self._relation.fields, self._relation.layout.schema

    def _prepare(self, inserts: Any, updates: Any, deletes: Any) -> tuple[Batch, dict[str, pa.Table]]:
        """A change, checked, and its frames as they are kept."""
        relation = self._relation
        given = {"inserts": inserts, "updates": updates}
        frames = {what: to_arrow(frame) for what, frame in given.items() if frame is not None}
        if not self._settings.key:
            if "updates" in frames:
                raise UsageError("updates need a key; rows known by their number can be deleted and inserted")
            if "inserts" in frames:
                frames["inserts"] = numbered(frames["inserts"], relation.next_serial)
        relation.grow(list(frames.values()))
        layout = relation.layout
        conformed = {what: layout.conform(frame, what) for what, frame in frames.items()}
        if deletes is not None:
            conformed["deletes"] = layout.conform_keys(deletes, "deletes")
        batch = relation.prepare(conformed.get("inserts"), conformed.get("updates"), conformed.get("deletes"))
        return batch, conformed

    def _check_open(self) -> None:
        if self._closed:
            raise StateError(self._closed)


def numbered(table: pa.Table, first: int) -> pa.Table:
    """A frame with the numbers of its rows as a column."""
    if ROW in table.column_names:
        raise UsageError(f"a column is named {ROW!r}, which stands for the number of a row; rename it, or name a key")
    numbers = pa.array(np.arange(first, first + table.num_rows), pa.int64())
    return table.append_column(ROW, numbers)


def _key(key: str | Sequence[str] | None) -> tuple[str, ...]:
    names = (key,) if isinstance(key, str) else tuple(key or ())
    if len(set(names)) < len(names):
        raise UsageError(f"a key column stands twice in {', '.join(names)}")
    return names


def _nulls(nulls: str | Nulls) -> Nulls:
    try:
        return Nulls(nulls)
    except ValueError:
        raise UsageError(f"nulls is 'sql' or 'equal', not {nulls!r}") from None
