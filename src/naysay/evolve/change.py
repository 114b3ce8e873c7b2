"""What an evolver answers: the rules that came and went with a batch, and why each that went did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import pyarrow as pa

from naysay.arrays import Int64Array, UInt64Array
from naysay.discovery.result import Rules
from naysay.discovery.vertices import sorted_unique, to_int
from naysay.evolve.covers import cover_of, inside, members
from naysay.evolve.method import Step
from naysay.rule import canonical, explain_pair, render
from naysay.rule.model import Rule

# The keys and the values of rows, known by their serial numbers.
Find = Callable[[Int64Array], tuple[pa.Array, pa.Table]]


def change_between(before: Rules, step: Step, find: Find, n_rows: int, batch_id: str | None) -> Change:
    """The change of the rules from before a step to after it."""
    after = step.rules
    added, removed = _difference(before, after)
    covers = removed.covers
    if before.vertices != after.vertices:
        covers = after.vertices.words([cover_of(rule, after.vertices) for rule in removed])
    return Change(added, _removals(removed, covers, step, find), n_rows, len(after), batch_id)


def _removals(removed: Rules, covers: UInt64Array, step: Step, find: Find) -> Removals:
    if not len(removed):
        return NO_REMOVALS
    broken = step.broken(covers)
    serials, at = distinct_places(np.stack((broken.left, broken.right)))
    keys, rows = find(serials)
    witnesses = Witnesses(keys, rows, at[0], at[1])
    standing, vertices = step.covers, step.rules.vertices

    def by(place: int) -> Rule | None:
        smaller_ones = inside(covers[place], standing) & (standing != covers[place]).any(axis=1)
        for smaller in np.flatnonzero(smaller_ones & standing.any(axis=1)):
            return vertices.rule(to_int(standing[smaller]))
        return None

    return Removals(removed, witnesses, by, broken.counts)


def _difference(before: Rules, after: Rules) -> tuple[Rules, Rules]:
    """The rules of `after` that are not in `before`, and the other way round."""
    if before.vertices == after.vertices:
        new = ~members(after.covers, sorted_unique(before.covers))
        old = ~members(before.covers, sorted_unique(after.covers))
    else:
        known, standing = {canonical(rule) for rule in before}, {canonical(rule) for rule in after}
        new = np.array([canonical(rule) not in known for rule in after], np.bool_)
        old = np.array([canonical(rule) not in standing for rule in before], np.bool_)
    return (after.some(np.ascontiguousarray(after.covers[new])), before.some(np.ascontiguousarray(before.covers[old])))


@dataclass(frozen=True, slots=True)
class Removed:
    """A rule that went. Either two rows break it, or another rule that now holds says more.

    `left` and `right` are the keys of the two rows, `right` None for a one-row rule, and the values are those of all
    columns; `by` is the other rule. Where some pairs may break a rule, `n_pairs` do now, more than may.
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
        """The keys of two rows that break the rule; None where none do."""
        return None if self.left_values is None else (self.left, self.right)

    @property
    def reason(self) -> str:
        """Why, in words."""
        if self.left_values is not None:
            why = explain_pair(self.rule, self.left_values, self.right_values or {})
            rows = f"rows {self.left!r} and {self.right!r}" if self.right_values is not None else f"row {self.left!r}"
            often = "" if self.n_pairs is None else f"{self.n_pairs:,} pairs break it, such as "
            return f"{often}{rows}: {why}"
        if self.by is not None:
            return f"a rule that holds now says more: {render(self.by)}"
        return "no pair of rows is left that tells it from a weaker rule"


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Rows that break rules: their keys and values, and for each rule that went the places of its two rows, or -1."""

    keys: pa.Array
    rows: pa.Table
    left: Int64Array
    right: Int64Array


class Removals(Sequence[Removed]):
    """The rules that went, each built when it is asked for."""

    def __init__(
        self,
        rules: Sequence[Rule],
        witnesses: Witnesses | None = None,
        by: Callable[[int], Rule | None] = lambda place: None,
        counts: Int64Array | None = None,
    ) -> None:
        self._rules = rules
        self._witnesses = witnesses
        self._by = by
        self._counts = counts

    def __len__(self) -> int:
        return len(self._rules)

    @overload
    def __getitem__(self, place: int) -> Removed: ...
    @overload
    def __getitem__(self, place: slice) -> list[Removed]: ...
    def __getitem__(self, place: int | slice) -> Removed | list[Removed]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        rule, seen = self._rules[place], self._witnesses
        n_pairs = None if self._counts is None else int(self._counts[place])
        if seen is None or seen.left[place] < 0:
            return Removed(rule, by=self._by(place))
        left, right = int(seen.left[place]), int(seen.right[place])
        key, values = seen.keys[left].as_py(), _record(seen.rows, left)
        if rule.is_one_row:
            return Removed(rule, key, None, values, None, n_pairs=n_pairs)
        return Removed(rule, key, seen.keys[right].as_py(), values, _record(seen.rows, right), n_pairs=n_pairs)

    def __iter__(self) -> Iterator[Removed]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        return f"<{len(self):,} rules removed>"


def _record(rows: pa.Table, place: int) -> dict[str, Any]:
    record: dict[str, Any] = rows.slice(place, 1).to_pylist()[0]
    return record


NO_REMOVALS = Removals([])


@dataclass(frozen=True, slots=True)
class Change:
    """What a batch did to the rules of a table.

    `added` hold now and did not; `removed` are gone, each with two rows that break it or with the rule that says more.
    `repeated`: a batch of this id was applied before, and nothing was done.
    """

    added: Rules
    removed: Sequence[Removed]
    n_rows: int
    n_rules: int
    batch_id: str | None = None
    repeated: bool = False

    def __repr__(self) -> str:
        if self.repeated:
            return f"Change(batch {self.batch_id!r} was applied before)"
        return f"Change({len(self.added):,} rules added, {len(self.removed):,} removed, {self.n_rules:,} standing)"

    def __bool__(self) -> bool:
        return bool(len(self.added) or len(self.removed))


def no_rules(like: Rules) -> Rules:
    return like.some(like.covers[:0])


def distinct_places(serials: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Distinct serial numbers but -1, and the place of each among them, -1 for -1."""
    distinct, at = np.unique(serials, return_inverse=True)
    if distinct.size and distinct[0] == -1:
        return distinct[1:], at.reshape(serials.shape) - 1
    return distinct, at.reshape(serials.shape)
