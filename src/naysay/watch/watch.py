"""Watch: the violations of rules under inserts, updates and deletes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from naysay.errors import StateError, UsageError
from naysay.rule import parse, render
from naysay.rule.model import Nulls, Rule
from naysay.table.fit import check_rule
from naysay.table.frame import to_arrow
from naysay.watch.change import Change, Standing
from naysay.watch.layout import layout_of
from naysay.watch.state import Edit, Options, State, build_state

RuleLike = str | Rule
INDEXES = ("auto", "lt-tree")


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
        given = None if rules is None else _named(_rules(rules))
        self._broken: str = ""
        self._store = None
        self._state: State | None = None
        self._batch_ids: set[str] = set()
        if store is not None:
            raise NotImplementedError
        self._key = _key(key)
        self._options = Options(_nulls(nulls), counting, index)
        self._rules = given or {}

    @property
    def rules(self) -> dict[str, Rule]:
        """The rules by name; a rule without a name is called by its text."""
        return dict(self._rules)

    @property
    def key(self) -> tuple[str, ...]:
        return self._key

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
        state, edit = self._prepare(inserts, updates, deletes)
        if state is None:
            change = Change(dict.fromkeys(self._rules, 0), 0, batch_id=batch_id)
        else:
            deltas = state.apply(edit)
            change = Change(state.counts, state.n_rows, False, batch_id, deltas, state.rules, state.keys.values)
        if batch_id is not None:
            self._batch_ids.add(batch_id)
        self._state = state.rebuilt() if state is not None and state.is_sparse else state
        return change

    @property
    def counts(self) -> dict[str, int]:
        """The number of violations that stand, by rule."""
        return self._state.counts if self._state else dict.fromkeys(self._rules, 0)

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
        ((name, parsed),) = _named(_rules(rule)).items()
        if name in self._rules:
            raise UsageError(f"a rule named {name!r} is watched already")
        if self._state is None:
            self._rules[name] = parsed
            return Change(self.counts, 0)
        delta = self._state.add_rule(name, parsed)
        self._rules[name] = parsed
        keys = self._state.keys.values
        return Change(self.counts, self.n_rows, deltas={name: delta}, rules=self._state.rules, keys=keys)

    def remove_rule(self, rule: RuleLike) -> Change:
        """Stop watching a rule, given by its name, its text or itself; its violations are answered as removed."""
        self._check_open()
        name = self._name_of(rule)
        parsed = self._rules[name]
        if self._state is None:
            del self._rules[name]
            return Change(self.counts, 0)
        delta = self._state.remove_rule(name)
        del self._rules[name]
        keys = self._state.keys.values
        return Change(self.counts, self.n_rows, deltas={name: delta}, rules={name: parsed}, keys=keys)

    def _prepare(self, inserts: Any, updates: Any, deletes: Any) -> tuple[State | None, Edit]:
        """The state that a change is for, perhaps a new one, and the change, checked."""
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
        conformed = {what: layout.conform(table, what) for what, table in tables.items()}
        keys = None if deletes is None else layout.conform_keys(deletes, "deletes")
        if layout is not state.layout:
            for rule in self._rules.values():
                check_rule(layout.schema, rule)
            state = state.rebuilt(layout)
        return state, state.prepare(conformed.get("inserts"), conformed.get("updates"), keys)

    def _first_state(self, frame: pa.Table) -> State:
        layout = layout_of(frame, self._key)
        return build_state(layout, self._options, layout.schema.empty_table(), self._rules)

    def _name_of(self, rule: RuleLike) -> str:
        if isinstance(rule, str) and rule in self._rules:
            return rule
        for name, known in self._rules.items():
            if known == rule:
                return name
        if isinstance(rule, str):
            return self._name_of_text(rule)
        raise UsageError(f"the rule {_name(rule)!r} is not watched; watched are: {', '.join(map(repr, self._rules))}")

    def _name_of_text(self, text: str) -> str:
        try:
            name = _name(parse(text))
        except Exception:
            name = text
        if name not in self._rules:
            raise UsageError(f"the rule {name!r} is not watched; watched are: {', '.join(map(repr, self._rules))}")
        return name

    def _check_open(self) -> None:
        if self._broken:
            raise StateError(self._broken)


def _rules(rules: RuleLike | Sequence[RuleLike]) -> list[Rule]:
    given = [rules] if isinstance(rules, str | Rule) else rules
    return [parse(rule) if isinstance(rule, str) else rule for rule in given]


def _name(rule: Rule) -> str:
    return rule.name or render(rule)


def _named(rules: Sequence[Rule]) -> dict[str, Rule]:
    named: dict[str, Rule] = {}
    for rule in rules:
        if _name(rule) in named:
            raise UsageError(f"two rules are called {_name(rule)!r}; give each a name of its own")
        named[_name(rule)] = rule
    return named


def _key(key: str | Sequence[str] | None) -> tuple[str, ...]:
    names = (key,) if isinstance(key, str) else tuple(key or ())
    if not names:
        raise UsageError("a watch needs a key: the column or columns that identify a row")
    if len(set(names)) < len(names):
        raise UsageError(f"a key column stands twice in {', '.join(names)}")
    return names


def _nulls(nulls: str | Nulls | None) -> Nulls:
    try:
        return Nulls.SQL if nulls is None else Nulls(nulls)
    except ValueError:
        raise UsageError(f"nulls is 'sql' or 'equal', not {nulls!r}") from None
