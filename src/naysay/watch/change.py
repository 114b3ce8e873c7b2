"""What a watch reports: what changed, and what is violated now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from naysay.errors import UsageError
from naysay.live.rows import KeyValues, shown_key
from naysay.live.table import LiveTable
from naysay.plan.join import join_of
from naysay.present import Result
from naysay.rule.describe import explain_pair
from naysay.rule.model import Rule
from naysay.watch.batch import PairDelta, SlotPairs


@dataclass(frozen=True, slots=True)
class Change(Result):
    """What a batch did to the violations of each rule.

    A violation that is removed and added again in one batch is in neither `added` nor `removed`.

    Attributes:
        counts: The number of current violations, by rule.
        n_rows: The number of rows.
        repeated: Whether the batch ID was already applied, so that nothing was done.
        batch_id: The ID of the batch, if it had one.
        counting: Whether violations are only counted, so that `added` and `removed` are empty.
    """

    counts: Mapping[str, int]
    n_rows: int
    repeated: bool = False
    batch_id: str | None = None
    deltas: Mapping[str, PairDelta] = field(default_factory=dict, repr=False)
    rules: Mapping[str, Rule] = field(default_factory=dict, repr=False)
    keys: KeyValues | None = field(default=None, repr=False)
    counting: bool = False

    @property
    def added(self) -> pa.Table:
        """The new violations: the name of the rule (or its text) and the keys of the left and the right row."""
        return self._table({name: delta.added for name, delta in self.deltas.items()})

    @property
    def removed(self) -> pa.Table:
        """The violations that are gone, with the columns of `added`."""
        return self._table({name: delta.removed for name, delta in self.deltas.items()})

    @property
    def n_added(self) -> int:
        """The number of new violations."""
        return sum(len(delta.added) for delta in self.deltas.values())

    @property
    def n_removed(self) -> int:
        """The number of violations that are gone."""
        return sum(len(delta.removed) for delta in self.deltas.values())

    def _table(self, pairs: Mapping[str, SlotPairs]) -> pa.Table:
        return pairs_table(pairs, self.rules, self.keys)

    def __repr__(self) -> str:
        if self.repeated:
            return f"Change(batch {self.batch_id!r} was already applied)"
        if self.counting:
            return f"Change(only counted, {sum(self.counts.values()):,} current)"
        return f"Change({self.n_added:,} added, {self.n_removed:,} removed, {sum(self.counts.values()):,} current)"


@dataclass(frozen=True, slots=True)
class CurrentViolations:
    """All current violations: their number, and that of rows in conflict, by rule; and the pairs."""

    counts: Mapping[str, int]
    rows_in_conflict: Mapping[str, int]
    n_rows: int
    _pairs: Mapping[str, SlotPairs] | None = field(repr=False)
    _rules: Mapping[str, Rule] = field(repr=False)
    _keys: KeyValues | None = field(repr=False)

    @property
    def total(self) -> int:
        """The number of violations of all rules."""
        return sum(self.counts.values())

    @property
    def table(self) -> pa.Table:
        """All violations: rule, left, right, as in `Change.added`."""
        if self._pairs is None:
            raise UsageError("this watch only counts violations; create it with counting=False to keep the pairs")
        return pairs_table(self._pairs, self._rules, self._keys)

    def __len__(self) -> int:
        return self.total

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        return self.table.to_pandas()


def pairs_table(pairs: Mapping[str, SlotPairs], rules: Mapping[str, Rule], keys: KeyValues | None) -> pa.Table:
    """Violations of several rules as one table: rule, left, right."""
    names = [name for name, found in pairs.items() if len(found)]
    if keys is None:
        return pa.table({"rule": pa.array([], pa.string()), "left": pa.array([]), "right": pa.array([])})
    numbers = np.repeat(np.arange(len(names)), [len(pairs[name]) for name in names])
    rule = pa.array(names, pa.string()).take(pa.array(numbers))
    empty = np.empty(0, np.int64)
    left = keys.take(np.concatenate([empty, *(pairs[name].left for name in names)]))
    rights = []
    for name in names:
        right = keys.take(pairs[name].right)
        rights.append(pa.nulls(len(right), right.type) if rules[name].is_one_row else right)
    right = pa.concat_arrays(rights) if rights else left
    return pa.table({"rule": rule, "left": left, "right": right})


def violations_table(found: CurrentViolations, *, counting: bool) -> pa.Table:
    """The current violations: rule, left, right; if they are only counted: rule, violations."""
    if not counting:
        return found.table
    return counts_table(found.counts)


def counts_table(counts: Mapping[str, int]) -> pa.Table:
    """Numbers of violations: rule, violations."""
    return pa.table({"rule": list(counts), "violations": pa.array(list(counts.values()), pa.int64())})


def explain_added(tables: Sequence[LiveTable], change: Change, limit: int) -> list[str]:
    """A sentence for each of the first violations that a change added, if their rows still exist."""
    sentences: list[str] = []
    for name, delta in change.deltas.items():
        rule = change.rules[name]
        # A pair that breaks the rule both ways round is shown once, so twice as many may have to be looked at.
        symmetric = join_of(rule).symmetric
        shown: set[tuple[int, int]] = set()
        added = zip(delta.added.left[: 2 * limit].tolist(), delta.added.right[: 2 * limit].tolist(), strict=True)
        for left, right in added:
            if len(sentences) == limit:
                return sentences
            if symmetric and (right, left) in shown:
                continue
            shown.add((left, right))
            assert change.keys is not None
            keys = change.keys.table(np.array([left, right], np.int64))
            found = [_find_one(tables, keys.slice(place, 1), rule.column_names) for place in range(2)]
            if None in found:
                continue
            one, other = (row.to_pylist()[0] for row in found if row is not None)
            shown_keys = [shown_key(list(key.values())) for key in keys.to_pylist()]
            who = shown_keys[0] if rule.is_one_row else " and ".join(shown_keys)
            sentences.append(f"{name}: {who}: {explain_pair(rule, one, other)}")
    return sentences


def _find_one(tables: Sequence[LiveTable], key: pa.Table, names: Sequence[str]) -> pa.Table | None:
    """The row with a key, in the first table that has one."""
    return next((row for table in tables if (row := table.find(key, names)) is not None), None)
