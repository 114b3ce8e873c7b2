"""What an evolver returns: the rules that a batch added and removed, and why each was removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import pyarrow as pa

from naysay.arrays import Int64Array, UInt64Array
from naysay.discovery.result import Rules
from naysay.discovery.vertices import sorted_unique, to_int
from naysay.evolve.covers import are_within, members
from naysay.evolve.method import MethodStep
from naysay.present import Result
from naysay.rule import canonical, explain_pair, render
from naysay.rule.model import Rule

# The keys and the values of the rows with these serial numbers.
FindRows = Callable[[Int64Array], tuple[pa.Array, pa.Table]]


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """A checked batch and what it would do; nothing has changed yet.

    `n_rows`: the rows after it. `parts`: what a state keeps of it. `commit`: makes the change in memory.
    """

    n_rows: int
    step: MethodStep[Any]
    find_rows: FindRows
    parts: Callable[[], Mapping[str, bytes]]
    commit: Callable[[], None]


def change_between(
    before: Rules, step: MethodStep[Any], find_rows: FindRows, n_rows: int, batch_id: str | None
) -> RuleChange:
    """The change of the rules from before a step to after it."""
    after = step.rules
    added, removed = _difference(before, after)
    covers = removed.covers
    if before.vertices != after.vertices:
        covers = after.vertices.words([after.vertices.cover(rule) for rule in removed])
    removals = _removals(removed, covers, step, find_rows) if len(removed) else ()
    return RuleChange(added, removals, n_rows, len(after), batch_id)


def no_change(rules: Rules, n_rows: int, batch_id: str | None) -> RuleChange:
    """The answer to a batch that was applied before."""
    return RuleChange(rules.some(rules.covers[:0]), (), n_rows, len(rules), batch_id, repeated=True)


def _removals(removed: Rules, covers: UInt64Array, step: MethodStep[Any], find_rows: FindRows) -> Removals:
    broken = step.find_broken(covers)
    serials, at = _distinct(np.stack((broken.left, broken.right)))
    keys, rows = find_rows(serials)
    current, vertices = step.covers, step.rules.vertices

    def find_stronger(place: int) -> Rule | None:
        smaller = are_within(current, covers[place]) & (current != covers[place]).any(axis=1) & current.any(axis=1)
        return vertices.rule(to_int(current[np.argmax(smaller)])) if smaller.any() else None

    return Removals(removed, keys, rows, at[0], at[1], broken.counts, find_stronger)


def _distinct(serials: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Distinct serial numbers without -1, and the place of each among them, -1 for -1."""
    distinct, at = np.unique(serials, return_inverse=True)
    n_missing = int(distinct.size and distinct[0] == -1)
    return distinct[n_missing:], at.reshape(serials.shape) - n_missing


def _difference(before: Rules, after: Rules) -> tuple[Rules, Rules]:
    """The rules of `after` that are not in `before`, and the other way round."""
    if before.vertices == after.vertices:
        new = ~members(after.covers, sorted_unique(before.covers))
        old = ~members(before.covers, sorted_unique(after.covers))
    else:
        were, are = set(map(canonical, before)), set(map(canonical, after))
        new = np.array([canonical(rule) not in were for rule in after], np.bool_)
        old = np.array([canonical(rule) not in are for rule in before], np.bool_)
    return (after.some(np.ascontiguousarray(after.covers[new])), before.some(np.ascontiguousarray(before.covers[old])))


@dataclass(frozen=True, slots=True)
class RemovedRule:
    """A rule that was removed: either two rows break it, or another rule that now holds is stronger.

    `left` and `right` are the keys of the two rows (`right` is None for a one-row rule), with the values of all
    compared columns; `by` is the stronger rule. If an error is allowed, `n_pairs` is how many pairs break it now.
    """

    rule: Rule
    left: Any = None
    right: Any = None
    left_values: Mapping[str, Any] | None = None
    right_values: Mapping[str, Any] | None = None
    by: Rule | None = None
    n_pairs: int | None = None

    @property
    def pair(self) -> tuple[Any, Any] | None:
        """The keys of two rows that break the rule; None if no rows do."""
        return None if self.left_values is None else (self.left, self.right)

    @property
    def reason(self) -> str:
        """Why it was removed, in words."""
        if self.left_values is not None:
            why = explain_pair(self.rule, self.left_values, self.right_values or {})
            rows = f"rows {self.left!r} and {self.right!r}" if self.right_values is not None else f"row {self.left!r}"
            often = "" if self.n_pairs is None else f"{self.n_pairs:,} pairs break it, such as "
            return f"{often}{rows}: {why}"
        if self.by is not None:
            return f"a stronger rule holds now: {render(self.by)}"
        return "no pair of rows is left that distinguishes it from a weaker rule"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Removals(Sequence[RemovedRule]):
    """The removed rules, each built when it is asked for.

    `left` and `right` are for each rule the places of two rows that break it, among `keys` and `rows`, or -1.
    """

    rules: Sequence[Rule]
    keys: pa.Array
    rows: pa.Table
    left: Int64Array
    right: Int64Array
    counts: Int64Array | None
    find_stronger: Callable[[int], Rule | None]

    def __len__(self) -> int:
        return len(self.rules)

    @overload
    def __getitem__(self, place: int) -> RemovedRule: ...
    @overload
    def __getitem__(self, place: slice) -> list[RemovedRule]: ...
    def __getitem__(self, place: int | slice) -> RemovedRule | list[RemovedRule]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        rule, left, right = self.rules[place], int(self.left[place]), int(self.right[place])
        if left < 0:
            return RemovedRule(rule, by=self.find_stronger(place))
        n_pairs = None if self.counts is None else int(self.counts[place])
        key, values = self.keys[left].as_py(), self._values(left)
        if rule.is_one_row:
            return RemovedRule(rule, key, None, values, None, n_pairs=n_pairs)
        return RemovedRule(rule, key, self.keys[right].as_py(), values, self._values(right), n_pairs=n_pairs)

    def _values(self, place: int) -> dict[str, Any]:
        record: dict[str, Any] = self.rows.slice(place, 1).to_pylist()[0]
        return record

    def __repr__(self) -> str:
        return f"<{len(self):,} rules removed>"


@dataclass(frozen=True, slots=True)
class RuleChange(Result):
    """What a batch did to the rules of a table.

    Attributes:
        added: The rules that hold now and did not before.
        removed: The rules that are gone, each with two rows that break it or with the stronger rule.
        n_rows: The number of rows now.
        n_rules: The number of rules now.
        batch_id: The ID of the batch, if it had one.
        repeated: Whether the batch ID was already applied, so that nothing was done.
    """

    added: Rules
    removed: Sequence[RemovedRule]
    n_rows: int
    n_rules: int
    batch_id: str | None = None
    repeated: bool = False

    def __repr__(self) -> str:
        if self.repeated:
            return f"RuleChange(batch {self.batch_id!r} was applied before)"
        return f"RuleChange({len(self.added):,} rules added, {len(self.removed):,} removed, {self.n_rules:,} current)"

    def __bool__(self) -> bool:
        return bool(len(self.added) or len(self.removed))
