"""Watch: the violations of rules under inserts, updates and deletes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from naysay.arrays import BoolArray
from naysay.budget import DEFAULT_SECONDS, Budget, memory_bytes, require_positive, use_budget
from naysay.errors import NaysayError, StateError, UsageError
from naysay.live.journal.journal import BatchLog
from naysay.live.layout import Layout, RuleLike, find_rule, key_names, layout_of, named, nulls_named
from naysay.live.table import LiveTable
from naysay.rule.model import Nulls, Rule
from naysay.table.compatibility import check_rule
from naysay.table.frame import to_arrow
from naysay.watch.batch import PairDelta
from naysay.watch.change import Change, CurrentViolations, explain_added, pairs_table
from naysay.watch.state import WatchOptions, WatchState
from naysay.watch.visits import Visits, all_visiting, read_visits, without_roles

if TYPE_CHECKING:
    from naysay.live.journal.journal import Event, Journal

INDEXES = ("auto", "lt-tree")


class Watch:
    """Keep the violations of rules up to date while a table changes.

    Args:
        rules: One rule or several, as text or as `Rule` values.
        key: The column or columns that identify a row.
        state: Path of a file. Every batch is durable before `apply` returns, and a Watch on an existing state continues
            where the last one stopped; `rules` and `key` may then be left out. Without it, everything is in memory.
        nulls: What a comparison with null means, as in `check`; `"sql"` by default.
        counting: Only count violations, without keeping pairs; for rules with very many violations.
        index: `"auto"`, or `"lt-tree"` for the method of the Weever paper, which handles one row after the other. Its
            time cannot be estimated, so it is stopped after `max_seconds`.
        max_seconds: Refuse a rule or a batch if finding its violations would take longer, by an estimate; 600 by
            default, `math.inf` for no limit.
        memory: Refuse a rule or a batch if listing its violations needs more memory, such as `"4G"`.

    >>> import naysay, pyarrow as pa
    >>> watch = naysay.Watch("zip -> city", key="id")
    >>> change = watch.apply(inserts=pa.table({"id": [1, 2], "zip": [9, 9], "city": ["Ulm", "Bonn"]}))
    >>> change.added.select(["left", "right"]).to_pylist()
    [{'left': 1, 'right': 2}, {'left': 2, 'right': 1}]
    >>> watch.apply(deletes=[2]).n_removed
    2
    """

    # Whether rows of other parts visit: then only this watch knows how many violations it has found.
    _is_visited = False

    def __init__(
        self,
        rules: RuleLike | Sequence[RuleLike] | None = None,
        key: str | Sequence[str] | None = None,
        *,
        state: str | os.PathLike[str] | None = None,
        nulls: str | Nulls | None = None,
        counting: bool = False,
        index: str = "auto",
        max_seconds: float | None = None,
        memory: int | str | None = None,
    ) -> None:
        if index not in INDEXES:
            raise UsageError(f"unknown index {index!r}; choose one of: {', '.join(INDEXES)}")
        self._rules = {} if rules is None else named(rules)
        self._key = key_names(key)
        self._options = WatchOptions(nulls_named(nulls), counting, index, self._is_visited)
        seconds = DEFAULT_SECONDS if require_positive(max_seconds) is None else max_seconds
        self._budget = Budget(seconds, memory=memory_bytes(memory))
        self._state: WatchState | None = None
        # The schema that the journal has already recorded.
        self._stored_schema: pa.Schema | None = None
        self._log = BatchLog("Watch")
        if state is None:
            self._require_key()
        else:
            with use_budget(self._budget):
                self._open(Path(state), given_rules=rules is not None, given_nulls=nulls is not None)

    @classmethod
    def open(
        cls,
        state: str | os.PathLike[str],
        *,
        counting: bool = False,
        index: str = "auto",
        max_seconds: float | None = None,
        memory: int | str | None = None,
    ) -> Watch:
        """Continue from an existing state.

        Args:
            state: The path that was given as `state` before.
            counting: As for a new Watch.
            index: As for a new Watch.
            max_seconds: As for a new Watch.
            memory: As for a new Watch.

        Returns:
            The Watch, as it was after its last batch.

        Raises:
            StateError: There is no state, or it is damaged.
        """
        from naysay.live.journal.journal import journal_exists

        if not journal_exists(Path(state)):
            where = os.fspath(state)
            raise StateError(f"{where}: there is no state here; create one with Watch(rules, key, state=...)")
        return cls(state=state, counting=counting, index=index, max_seconds=max_seconds, memory=memory)

    @property
    def rules(self) -> dict[str, Rule]:
        """The rules by name; the name of an unnamed rule is its text."""
        return dict(self._rules)

    @property
    def key(self) -> tuple[str, ...]:
        return self._key

    @property
    def layout(self) -> Layout | None:
        """The columns of the table; None before the first frame."""
        return self._state.layout if self._state else None

    @property
    def log(self) -> BatchLog:
        """The batches that were applied, and the journal if the watch is durable."""
        return self._log

    @property
    def counting(self) -> bool:
        return self._options.counting

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self._state.table.n_rows if self._state else 0

    @property
    def counts(self) -> dict[str, int]:
        """The number of current violations, by rule."""
        return self._state.counts if self._state else dict.fromkeys(self._rules, 0)

    def has_applied(self, batch_id: str) -> bool:
        """Whether a batch with this id was applied."""
        self._log.check_open()
        return self._log.has_applied(batch_id)

    def apply(
        self, inserts: Any = None, updates: Any = None, deletes: Any = None, batch_id: str | None = None
    ) -> Change:
        """Change rows in one step, and return which violations that added and removed.

        Args:
            inserts: A frame of new rows with all columns.
            updates: A frame of rows that replace those with the same key, with all columns.
            deletes: A frame with the key columns, or a list of values of a single key column. Deletes come first, so a
                key may be deleted and inserted again in one batch.
            batch_id: A batch whose ID was already applied is skipped.

        Returns:
            A `Change`.

        Raises:
            UsageError: A key is unknown, repeated or null. Nothing has changed then.
            TableError: A column is missing, new or of another type. Nothing has changed then.
            ResourceError: Finding or listing the violations would take more than is allowed. Nothing has changed then.
            StateError: The Watch is closed.
        """
        return self._apply(inserts, updates, deletes, batch_id)

    def _apply(
        self, inserts: Any, updates: Any, deletes: Any, batch_id: str | None, visiting: pa.Table | None = None
    ) -> Change:
        self._log.check_open()
        if self._log.has_applied(batch_id):
            return Change(self.counts, self.n_rows, repeated=True, batch_id=batch_id)
        if self._state is None and inserts is None and updates is None and deletes is None:
            # Only the id is worth remembering.
            change = Change(self.counts, 0, batch_id=batch_id, counting=self.counting)
            self._log.append("rows", dict, change, batch_id)
            return change
        state, tables = self._read(inserts, updates, deletes, visiting)
        visits = None if visiting is None else read_visits(visiting, state.layout)
        with use_budget(self._budget):
            deltas = state.apply(visits, **tables)
        self._state = state
        change = self._change(deltas, state.rules, batch_id, visits)
        self._log.append("rows", lambda: self._batch_parts(state.layout, tables), change, batch_id)
        self._log.snapshot(self.n_rows, self._snapshot_parts)
        if state.is_sparse:
            self._state = state.rebuild()
        return change

    def contains(self, keys: Any) -> BoolArray:
        """For each key, given as for `deletes`, whether it has a row."""
        self._log.check_open()
        if self._state is None:
            return np.zeros(len(keys), np.bool_)
        return self._state.table.contains(self._state.layout.conform_keys(keys, "keys"))

    def find(self, keys: Any, columns: Sequence[str] | None = None) -> pa.Table | None:
        """The rows with these keys, given as for `deletes`, in their order; None if one of them has no row."""
        self._log.check_open()
        if self._state is None:
            return None
        layout = self._state.layout
        return self._state.table.find(layout.conform_keys(keys, "keys"), list(columns or layout.names))

    def rows(self) -> pa.Table | None:
        """All rows, in no particular order; None before the first frame."""
        self._log.check_open()
        return self._state.table.all()[1] if self._state else None

    def violations(self) -> CurrentViolations:
        """All current violations."""
        self._log.check_open()
        state = self._state
        if state is None:
            zeros = dict.fromkeys(self._rules, 0)
            return CurrentViolations(zeros, zeros, 0, {}, self._rules, None)
        pairs = None if self._options.counting else state.pairs()
        keys = state.table.key_values
        return CurrentViolations(state.counts, state.rows_in_conflict(), self.n_rows, pairs, state.rules, keys)

    def explain(self, change: Change, limit: int = 5) -> list[str]:
        """Explain in words some violations that a change added, if their rows still exist.

        Args:
            change: What `apply` or `add_rule` returned.
            limit: The largest number of violations to explain.

        Returns:
            One sentence per violation.
        """
        self._log.check_open()
        return [] if self._state is None else explain_added([self._state.table], change, limit)

    def add_rule(self, rule: RuleLike) -> Change:
        """Watch another rule as well.

        Args:
            rule: The rule, as text or as a `Rule`.

        Returns:
            A `Change` with all violations of the rule among the current rows as added.
        """
        self._log.check_open()
        ((name, parsed),) = named(rule).items()
        if name in self._rules:
            raise UsageError(f"a rule named {name!r} is already watched")
        with use_budget(self._budget):
            deltas = {} if self._state is None else {name: self._state.add_rule(name, parsed)}
        self._rules[name] = parsed
        return self._record_rules(deltas, {name: parsed})

    def remove_rule(self, rule: RuleLike) -> Change:
        """Stop watching a rule.

        Args:
            rule: The rule: its name, its text, or a `Rule`.

        Returns:
            A `Change` with the violations of the rule as removed.
        """
        self._log.check_open()
        name = find_rule(self._rules, rule)
        deltas = {} if self._state is None else {name: self._state.remove_rule(name)}
        removed = self._rules.pop(name)
        return self._record_rules(deltas, {name: removed})

    def close(self) -> None:
        """Close the state. Every later call raises StateError."""
        self._log.close()

    def release(self) -> None:
        """Close the state so that another process may open it, but keep it in memory; see `resume`."""
        self._log.release()

    def resume(self) -> bool:
        """Continue after `release`, with what other processes wrote since; False if the state must be opened again."""
        events = self._log.resume()
        if events is None or self._log.journal is None:
            return False
        self._replay(events, self._log.journal.path)
        return True

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _require_key(self) -> None:
        if not self._key:
            raise UsageError("a watch needs a key: the column or columns that identify a row (key=, --key)")

    def _open(self, path: Path, *, given_rules: bool, given_nulls: bool) -> None:
        """Create a state, or continue from an existing one."""
        from naysay.live.journal.journal import Journal

        journal = Journal(path)
        try:
            if journal.is_new:
                self._require_key()
                settings = {"key": list(self._key), "nulls": self._options.nulls.value}
                journal.create(settings, self._rules_part())
            else:
                given = self._rules
                events = journal.load()
                self._use_settings(journal, given_nulls)
                self._rules = {}
                self._replay(events, path)
                if given_rules and given != self._rules:
                    raise UsageError(_other_rules(path, given, self._rules))
        except BaseException:
            journal.close()
            raise
        self._log = BatchLog("Watch", journal)

    def _use_settings(self, journal: Journal, given_nulls: bool) -> None:
        """Take key and nulls from an existing state; UsageError if others were given."""
        try:
            key, nulls = tuple(map(str, journal.settings["key"])), Nulls(journal.settings["nulls"])
        except (KeyError, ValueError, TypeError) as error:
            raise StateError(f"{journal.path}: the state is damaged: its settings cannot be read") from error
        if self._key and self._key != key:
            raise UsageError(
                f"{journal.path}: the state has the key {', '.join(key)}, not {', '.join(self._key)}; leave the key "
                "out, or choose another path"
            )
        if given_nulls and self._options.nulls is not nulls:
            raise UsageError(f"{journal.path}: the state was created with nulls={nulls.value!r}")
        self._key = key
        self._options = replace(self._options, nulls=nulls)

    def _replay(self, events: Iterable[Event], path: Path) -> None:
        """Apply the events of a journal, those from the last snapshot on or those written since `release`."""
        from naysay.live.journal.serial import change_from_parts, rules_from_json, schema_from_bytes

        # Rules that are not watched yet are watched at the end, all rows at once.
        live: WatchState | LiveTable | None = self._state
        counts = None
        try:
            for parts in (event.parts for event in events):
                if "rules" in parts:
                    self._rules = named(rules_from_json(parts["rules"]))
                if "schema" in parts:
                    layout = Layout(schema_from_bytes(parts["schema"]), self._key)
                    live = LiveTable(layout) if live is None else live.rebuild(layout)
                if live is not None:
                    live.apply(**change_from_parts(parts, live.layout.schema, self._key))
                counts = json.loads(parts["counts"]) if "counts" in parts else counts
        except (NaysayError, pa.ArrowException, ValueError, KeyError, AssertionError) as error:
            # Every byte matches its checksum: what makes no sense was written that way.
            raise StateError(f"{path}: the state cannot be read: {error}") from error
        self._state = WatchState(live, self._options, self._rules) if isinstance(live, LiveTable) else live
        if self._state is not None and counts is not None:
            self._state.set_counts(counts)
        self._stored_schema = None if live is None else live.layout.schema

    def _read(
        self, inserts: Any, updates: Any, deletes: Any, visiting: pa.Table | None
    ) -> tuple[WatchState, dict[str, pa.Table]]:
        """The frames of a change with the table's columns, and the state they are for, which may be a new one."""
        state = self._state
        if state is None:
            first = updates if inserts is None else inserts
            if first is None:
                raise UsageError("the first batch must have inserts: the table has no rows and no columns yet")
            layout = layout_of(to_arrow(first), self._key)
            state = WatchState(LiveTable(layout), self._options, self._rules)
        layout = state.layout if visiting is None else state.layout.extend(visiting)
        layout, tables = layout.conform_change(inserts, updates, deletes)
        if layout is not state.layout:
            for rule in self._rules.values():
                check_rule(layout.schema, rule)
            state = state.rebuild(layout)
        return state, tables

    def _change(
        self,
        deltas: Mapping[str, PairDelta],
        rules: Mapping[str, Rule],
        batch_id: str | None = None,
        visits: Visits | None = None,
    ) -> Change:
        keys = self._state.table.key_values if self._state else None
        if visits is not None and keys is not None:
            keys = visits.appended_to(keys)
        return Change(self.counts, self.n_rows, False, batch_id, deltas, rules, keys, self.counting)

    def _record_rules(self, deltas: Mapping[str, PairDelta], rules: Mapping[str, Rule]) -> Change:
        change = self._change(deltas, rules)
        self._log.append("rules", self._rules_part, change, None)
        return change

    def _rules_part(self) -> dict[str, bytes]:
        from naysay.live.journal.serial import rules_to_json

        return {"rules": rules_to_json(self._rules)}

    def _batch_parts(self, layout: Layout, tables: Mapping[str, pa.Table]) -> dict[str, bytes]:
        from naysay.live.journal.serial import change_to_parts, schema_to_bytes

        parts = change_to_parts(tables)
        if self._stored_schema is None or not self._stored_schema.equals(layout.schema):
            parts["schema"] = schema_to_bytes(layout.schema)
            self._stored_schema = layout.schema
        return parts | self._counts_part()

    def _snapshot_parts(self) -> dict[str, bytes]:
        from naysay.live.journal.serial import rows_to_parts, schema_to_bytes

        assert self._state is not None, "a snapshot comes after a batch of rows"
        schema = {"schema": schema_to_bytes(self._state.layout.schema)}
        rows = rows_to_parts("rows", self._state.table.all()[1], "zstd")
        return self._rules_part() | schema | rows | self._counts_part()

    def _counts_part(self) -> dict[str, bytes]:
        return {"counts": json.dumps(self.counts).encode()} if self._is_visited else {}


class VisitedWatch(Watch):
    """A part of a watch for rules that any two rows might break: it stores some rows, and the others visit."""

    _is_visited = True
    _visiting: pa.Table | None = None

    def apply_visited(self, visiting: pa.Table | None, batch_id: str, **tables: pa.Table) -> Change:
        """As `apply`, with what the batch means to other parts, a table of `visits_table`.

        If it raises, the state must be opened again.
        """
        inserts, updates, deletes = (tables.get(what) for what in ("inserts", "updates", "deletes"))
        self._visiting = visiting
        if self._state is None and inserts is None and visiting is not None:
            # Events have the types of the key even where no row is stored.
            inserts = without_roles(visiting.slice(0, 0))
        return self._apply(inserts, updates, deletes, batch_id, visiting)

    def explain(self, change: Change, limit: int = 5) -> list[str]:
        """As for a Watch, with the visitors of the last batch."""
        self._log.check_open()
        if self._state is None:
            return []
        tables = [self._state.table]
        if self._visiting is not None:
            layout = self._state.layout
            tables.append(LiveTable(layout, read_visits(self._visiting, layout).new))
        return explain_added(tables, change, limit)

    def violations_with(self, rows: pa.Table) -> pa.Table:
        """The violations of rows of this part, on the left, with rows of others, as in `Change.added`."""
        self._log.check_open()
        state = self._state
        if state is None:
            return pairs_table({}, self._rules, None)
        layout = state.layout.extend(rows)
        # After a kill, some parts may have a batch that this one does not have yet, with the type of a column.
        searched = state if layout is state.layout else state.rebuild(layout)
        visits = all_visiting(rows, layout)
        with use_budget(self._budget):
            found = searched.meet(visits)
        if state.is_sparse:
            self._state = state.rebuild()
        return pairs_table(found, searched.rules, visits.appended_to(searched.table.key_values))

    def release(self) -> None:
        self._visiting = None
        super().release()


def _other_rules(path: Path, given: Mapping[str, Rule], stored: Mapping[str, Rule]) -> str:
    changed = [name for name in {**given, **stored} if given.get(name) != stored.get(name)]
    return (
        f"{path}: the state watches other rules than those given (see {changed[0]!r}); "
        "leave the rules out, and use add_rule and remove_rule"
    )
