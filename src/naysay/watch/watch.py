"""Watch: the violations of rules under inserts, updates and deletes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from naysay.arrays import BoolArray
from naysay.errors import StateError, UsageError
from naysay.live.layout import Layout, RuleLike, find_rule, layout_of, named
from naysay.rule.model import Nulls, Rule
from naysay.table.compatibility import check_rule
from naysay.table.frame import to_arrow
from naysay.watch.batch import Delta
from naysay.watch.change import Change, Standing, explained
from naysay.watch.state import Options, State, build_state

if TYPE_CHECKING:
    from naysay.live.journal.store import Store

INDEXES = ("auto", "lt-tree")
_CLOSED = "this watch is closed; make it again on the same store"
_RELEASED = "this watch has released its store; resume it first"


class Watch:
    """A table that changes, and the violations of rules that come and go with it.

    `key` names the column or columns that identify a row. With `store`, a path, every batch is durable before `apply`
    returns, and a watch made again on the same path goes on where the last one stopped; `rules` and `key` may then be
    left out. `counting` keeps the number of violations alone: for rules that very many pairs break.

    >>> import naysay, pyarrow as pa
    >>> watch = naysay.Watch("zip -> city", key="id")
    >>> change = watch.apply(inserts=pa.table({"id": [1, 2], "zip": [9, 9], "city": ["Ulm", "Bonn"]}))
    >>> change.added.select(["left", "right"]).to_pylist()
    [{'left': 1, 'right': 2}, {'left': 2, 'right': 1}]
    >>> watch.apply(deletes=[2]).n_removed
    2
    """

    def __init__(
        self,
        rules: RuleLike | Sequence[RuleLike] | None = None,
        key: str | Sequence[str] | None = None,
        *,
        store: str | os.PathLike[str] | None = None,
        nulls: str | Nulls | None = None,
        counting: bool = False,
        index: str = "auto",
    ) -> None:
        if index not in INDEXES:
            raise UsageError(f"there is no index {index!r}; choose one of: {', '.join(INDEXES)}")
        if counting and index != "auto":
            raise UsageError(f"the index {index!r} keeps pairs; leave out counting, or the index")
        self._rules = {} if rules is None else named(rules)
        self._key = _key(key)
        self._options = Options(_nulls(nulls), counting, index)
        self._state: State | None = None
        self._store: Store | None = None
        self._stored_schema: pa.Schema | None = None
        self._batch_ids: set[str] = set()
        self._closed = ""
        # Called with the number of the event and the change before an event is made durable.
        self.publisher: Callable[[int, Change], None] | None = None
        if store is None and not self._key:
            raise UsageError("a watch needs a key: the column or columns that identify a row")
        if store is not None:
            self._open(store, given_rules=rules is not None, given_nulls=nulls is not None)

    def _open(self, path: str | os.PathLike[str], *, given_rules: bool, given_nulls: bool) -> None:
        """Make a new store, or go on with the one that is there."""
        from naysay.live.journal.store import Store
        from naysay.watch.durable import Restored, rules_part, settings_of

        self._store = store = Store(path)
        try:
            if store.is_new:
                if not self._key:
                    raise UsageError("a watch needs a key: the column or columns that identify a row")
                store.create(settings_of(self._key, self._options), rules_part(self._rules))
                return
            given, options = self._rules, self._options
            events = store.load()
            self._key, self._options = _settled(store, self._key, options, given_nulls)
            restored = Restored(store.path, events, self._key, self._options)
            self._rules, self._stored_schema = restored.rules, restored.schema
            if given_rules and given != self._rules:
                raise UsageError(_other_rules(store.path, given, self._rules))
            self._batch_ids = store.batch_ids
            self._state = restored.watching()
        except BaseException:
            store.close()
            raise

    @property
    def rules(self) -> dict[str, Rule]:
        """The rules by name; a rule without a name is called by its text."""
        return dict(self._rules)

    @property
    def key(self) -> tuple[str, ...]:
        return self._key

    @property
    def layout(self) -> Layout | None:
        """The columns of the table; None before the first frame."""
        return self._state.layout if self._state else None

    @property
    def store(self) -> Store | None:
        """The store, where the watch is durable."""
        return self._store

    @property
    def counting(self) -> bool:
        return self._options.counting

    @property
    def batch_ids(self) -> Set[str]:
        """The ids of all batches that were applied."""
        return self._batch_ids

    @property
    def n_rows(self) -> int:
        """How many rows stand."""
        return self._state.n_rows if self._state else 0

    def apply(
        self, inserts: Any = None, updates: Any = None, deletes: Any = None, batch_id: str | None = None
    ) -> Change:
        """Change rows in one step, and say which violations that added and removed.

        `inserts` and `updates` are frames with all columns, `deletes` a frame with the key columns (or a list of
        values of a single key column). Deletes come first: a key may be deleted and inserted again in one batch. A
        `batch_id` that was applied before is acknowledged, and nothing is done. Raises UsageError or TableError where
        a key is unknown, repeated or null, or a column is missing, new or of another type; nothing has changed then.
        """
        self._check_open()
        if batch_id is not None and not isinstance(batch_id, str):
            raise UsageError(f"a batch id is text, not {type(batch_id).__name__}")
        if batch_id is not None and batch_id in self._batch_ids:
            return Change(self.counts, self.n_rows, repeated=True, batch_id=batch_id)
        if self._state is None and inserts is None and updates is None and deletes is None:
            return self._apply_nothing(batch_id)
        state, tables = self._read(inserts, updates, deletes)
        edit = state.prepare(tables.get("inserts"), tables.get("updates"), tables.get("deletes"))
        deltas = state.apply(edit)
        change = Change(state.counts, state.n_rows, False, batch_id, deltas, state.rules, state.keys.values)
        self._state = state
        if self._store is not None:
            self._keep(tables, change, state)
        if batch_id is not None:
            self._batch_ids.add(batch_id)
        if state.is_sparse:
            self._state = state.rebuilt()
        return change

    def _apply_nothing(self, batch_id: str | None) -> Change:
        """A batch before the first frame, without one: its id alone is remembered."""
        change = Change(self.counts, 0, batch_id=batch_id)
        if self._store is not None:
            with self._writing():
                self._publish(change)
                self._store.append("rows", {}, batch_id)
        if batch_id is not None:
            self._batch_ids.add(batch_id)
        return change

    def _publish(self, change: Change) -> None:
        if self.publisher is not None and self._store is not None:
            self.publisher(self._store.next_seq, change)

    def _keep(self, tables: Mapping[str, pa.Table], change: Change, state: State) -> None:
        """Make a batch durable. Where that fails the state in memory is ahead of the store: it must not be used."""
        from naysay.watch.durable import batch_parts, snapshot_parts

        assert self._store is not None
        with self._writing():
            self._publish(change)
            self._store.append("rows", batch_parts(tables, state.layout, self._stored_schema), change.batch_id)
            self._stored_schema = state.layout.schema
            if self._store.needs_snapshot(state.n_rows):
                self._store.snapshot(snapshot_parts(state, self._rules))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._closed = "the last change could not be written to the store: make the watch again on the same path"
            raise

    @property
    def counts(self) -> dict[str, int]:
        """The number of violations that stand, by rule."""
        return self._state.counts if self._state else dict.fromkeys(self._rules, 0)

    def contains(self, keys: Any) -> BoolArray:
        """For each key, given as for `deletes`, whether it has a row."""
        self._check_open()
        if self._state is None:
            return np.zeros(len(keys), np.bool_)
        return self._state.contains(self._state.layout.conform_keys(keys, "keys"))

    def explain(self, change: Change, limit: int = 5) -> list[str]:
        """Say of some violations that a change added why they are violations, in words, while their rows stand."""
        self._check_open()
        return [] if self._state is None else explained(self._state, change, limit)

    def standing(self) -> Standing:
        """All violations that stand."""
        self._check_open()
        state = self._state
        if state is None:
            zeros = dict.fromkeys(self._rules, 0)
            return Standing(zeros, zeros, 0, {}, self._rules, None)
        pairs = None if self._options.counting else state.pairs()
        return Standing(state.counts, state.conflicts(), state.n_rows, pairs, state.rules, state.keys.values)

    def rows(self) -> pa.Table | None:
        """The rows that stand, in no particular order; None before the first frame."""
        return self._state.rows.all()[1] if self._state else None

    def add_rule(self, rule: RuleLike) -> Change:
        """Watch one more rule; its violations among the standing rows are answered as added."""
        self._check_open()
        ((name, parsed),) = named(rule).items()
        if name in self._rules:
            raise UsageError(f"a rule named {name!r} is watched already")
        deltas = {} if self._state is None else {name: self._state.add_rule(name, parsed)}
        self._rules[name] = parsed
        return self._keep_rules(deltas, {name: parsed})

    def remove_rule(self, rule: RuleLike) -> Change:
        """Stop watching a rule, given by its name, its text or itself; its violations are answered as removed."""
        self._check_open()
        name = find_rule(self._rules, rule)
        deltas = {} if self._state is None else {name: self._state.remove_rule(name)}
        removed = self._rules.pop(name)
        return self._keep_rules(deltas, {name: removed})

    def close(self) -> None:
        """Close the store, where there is one. The watch cannot be used afterwards."""
        if self._store is not None and self._closed not in (_CLOSED, _RELEASED):
            self._store.close()
        self._closed = _CLOSED

    def release(self) -> None:
        """Close the store for others to open, and keep the state in memory; see `resume`."""
        assert self._store is not None, "a watch without a store has nothing to release"
        self._check_open()
        self._store.close()
        self._closed = _RELEASED

    def resume(self) -> bool:
        """Go on after `release`, with what others wrote to the store since; false where it must be made again."""
        from naysay.watch.durable import Restored

        assert self._store is not None, "a watch without a store has nothing to resume"
        if self._closed != _RELEASED:
            return False
        events = self._store.reopen()
        if events is None:
            return False
        self._closed = ""
        restored = Restored(self._store.path, events, self._key, self._options, self._state)
        if self._state is None:
            restored.rules = self._rules
            self._state = restored.watching()
        else:
            self._state = restored.state
        self._stored_schema = restored.schema
        self._batch_ids |= self._store.batch_ids
        return True

    def find(self, keys: Any, columns: Sequence[str] | None = None) -> pa.Table | None:
        """The rows with these keys, given as for `deletes`, in their order; None where one of them has none."""
        self._check_open()
        if self._state is None:
            return None
        layout = self._state.layout
        return self._state.find_rows(layout.conform_keys(keys, "keys"), list(columns or layout.names))

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _keep_rules(self, deltas: Mapping[str, Delta], rules: Mapping[str, Rule]) -> Change:
        """After a change of rules: make it durable."""
        keys = self._state.keys.values if self._state else None
        change = Change(self.counts, self.n_rows, deltas=deltas, rules=rules, keys=keys)
        if self._store is not None:
            from naysay.watch.durable import rules_part

            with self._writing():
                self._publish(change)
                self._store.append("rules", rules_part(self._rules))
        return change

    def _read(self, inserts: Any, updates: Any, deletes: Any) -> tuple[State, dict[str, pa.Table]]:
        """The frames of a change with the table's columns, and the state that they are for, perhaps a new one."""
        frames = {"inserts": inserts, "updates": updates}
        tables = {what: to_arrow(frame) for what, frame in frames.items() if frame is not None}
        state = self._state
        if state is None:
            first = next(iter(tables.values()), None)
            if first is None:
                raise UsageError("the first batch must have inserts: the table has no rows and no columns yet")
            state = self._first_state(first)
        layout = state.layout
        for table in tables.values():
            layout = layout.grown(table)
        tables = {what: layout.conform(table, what) for what, table in tables.items()}
        if deletes is not None:
            tables["deletes"] = layout.conform_keys(deletes, "deletes")
        if layout is not state.layout:
            for rule in self._rules.values():
                check_rule(layout.schema, rule)
            state = state.rebuilt(layout)
        return state, tables

    def _first_state(self, frame: pa.Table) -> State:
        layout = layout_of(frame, self._key)
        return build_state(layout, self._options, layout.schema.empty_table(), self._rules)

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError(self._closed)


def _settled(
    store: Store, key: tuple[str, ...], options: Options, given_nulls: bool
) -> tuple[tuple[str, ...], Options]:
    """Key and options of a store that is there; UsageError where others were given."""
    try:
        stored_key, stored_nulls = tuple(map(str, store.settings["key"])), Nulls(store.settings["nulls"])
    except (KeyError, ValueError, TypeError) as error:
        raise StateError(f"{store.path}: the store is damaged: its settings cannot be read") from error
    if key and key != stored_key:
        raise UsageError(
            f"{store.path}: the store has the key {', '.join(stored_key)}, not {', '.join(key)}; leave the key out, or "
            "name another store"
        )
    if given_nulls and options.nulls is not stored_nulls:
        raise UsageError(f"{store.path}: the store was made with nulls={stored_nulls.value!r}")
    return stored_key, replace(options, nulls=stored_nulls)


def _other_rules(path: Path, given: Mapping[str, Rule], stored: Mapping[str, Rule]) -> str:
    changed = [name for name in {**given, **stored} if given.get(name) != stored.get(name)]
    return (
        f"{path}: the store watches other rules than those given (see {changed[0]!r}); "
        "leave the rules out, and use add_rule and remove_rule"
    )


def _key(key: str | Sequence[str] | None) -> tuple[str, ...]:
    names = (key,) if isinstance(key, str) else tuple(key or ())
    if len(set(names)) < len(names):
        raise UsageError(f"a key column stands twice in {', '.join(names)}")
    return names


def _nulls(nulls: str | Nulls | None) -> Nulls:
    try:
        return Nulls.SQL if nulls is None else Nulls(nulls)
    except ValueError:
        raise UsageError(f"nulls is 'sql' or 'equal', not {nulls!r}") from None
