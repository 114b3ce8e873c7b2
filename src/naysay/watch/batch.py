"""What indexes work with: coded rows, and the violations that come and go with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from naysay.arrays import NULL, BoolArray, Int64Array, as_rows
from naysay.live.columns import Coded, Codes, Filter, Source, coded, filter_of
from naysay.plan.join import Join
from naysay.rule.model import Nulls, Row


@dataclass(frozen=True, slots=True, eq=False)
class CodedRows:
    """Rows by slot, with the codes of everything that rules compare. `groups` caches combined keys."""

    slots: Int64Array
    codes: Codes
    groups: dict[tuple[Coded, ...], Int64Array] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        return len(self.slots)

    def take(self, places: Int64Array) -> CodedRows:
        return CodedRows(self.slots[places], {source: codes[places] for source, codes in self.codes.items()})


@dataclass(frozen=True, slots=True, eq=False)
class SlotPairs:
    """Violations as slots of the left and the right row; the same slot twice for a one-row rule."""

    left: Int64Array
    right: Int64Array

    def __len__(self) -> int:
        return len(self.left)

    def filter(self, mask: BoolArray) -> SlotPairs:
        return SlotPairs(self.left[mask], self.right[mask])


NO_PAIRS = SlotPairs(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class PairDelta:
    """The violations of one rule that a change removes and adds."""

    removed: SlotPairs
    added: SlotPairs


@dataclass(frozen=True, slots=True, eq=False)
class RowChange:
    """Old and new rows. The last `n_updates` old ones and the first `n_updates` new ones have the same slots."""

    old: CodedRows
    new: CodedRows
    n_updates: int
    _parts: dict[tuple[Source, ...], RowChange] = field(default_factory=dict)

    def touching(self, sources: Sequence[Source]) -> RowChange:
        """Without updates that change none of these sources."""
        if self.n_updates == 0:
            return self
        key = tuple(sources)
        if key not in self._parts:
            self._parts[key] = self._touching(key)
        return self._parts[key]

    def _touching(self, sources: tuple[Source, ...]) -> RowChange:
        n_deletes, n_new = self.old.n_rows - self.n_updates, self.new.n_rows
        changed = np.zeros(self.n_updates, np.bool_)
        for source in sources:
            changed |= self.old.codes[source][n_deletes:] != self.new.codes[source][: self.n_updates]
        if changed.all():
            return self
        places = np.flatnonzero(changed)
        old = self.old.take(np.concatenate((np.arange(n_deletes), n_deletes + places)))
        return RowChange(old, self.new.take(np.concatenate((places, np.arange(self.n_updates, n_new)))), len(places))


class Index(Protocol):
    """Finds the violations that a change adds and removes, for each of its rules.

    `keeps_violations`: it holds all of them anyway, so that nobody else needs to.
    """

    keeps_violations: bool

    def add(self, name: str, join: Join, rows: CodedRows) -> None:
        """Watch another two-row rule; `rows` are all current rows."""

    def remove(self, name: str) -> None:
        """Stop watching a rule."""

    def recode(self, rows: CodedRows) -> None:
        """The same rows have other codes now."""

    def violations(self, name: str, rows: CodedRows) -> SlotPairs:
        """All violations of a rule."""

    def change(self, edit: RowChange, stamps: Int64Array) -> dict[str, PairDelta]:
        """Remove old rows and add new ones, whose slots may be the same. If it raises, nothing has changed.

        `stamps` is zero for every slot before and after the call.
        """


@runtime_checkable
class CountingIndex(Protocol):
    """Counts the violations that a change adds and removes, for each of its rules, without listing them."""

    def add(self, name: str, join: Join, rows: CodedRows) -> int:
        """Watch another two-row rule; returns the number of its violations. `rows` are all current rows."""

    def remove(self, name: str) -> None:
        """Stop watching a rule."""

    def recode(self, rows: CodedRows) -> None:
        """The same rows have other codes now."""

    def change(self, edit: RowChange) -> dict[str, int]:
        """Remove old rows and add new ones; returns by how much each rule's violations grew."""

    def n_conflicting(self, name: str, rows: CodedRows) -> int:
        """The number of rows in violations."""


def concat_pairs(parts: Sequence[SlotPairs]) -> SlotPairs:
    parts = [part for part in parts if len(part.left)]
    if len(parts) < 2:
        return parts[0] if parts else NO_PAIRS
    return SlotPairs(np.concatenate([part.left for part in parts]), np.concatenate([part.right for part in parts]))


# More pairs than this are not kept: the index lists them again when they are asked for.
_MAX_KEPT = 1_000_000


class PairLog:
    """A set of pairs, and its size: `apply` adds pairs that are not in it and removes pairs that are.

    Both only append; the set is computed when it is asked for, and when the log gets long. Amortised O(log n) per pair.
    A set that has become large is forgotten, and `pairs` is None: memory and changes follow the rows, not the pairs.
    If violations are only counted, only `count` is used; `keep=False` forgets every set.
    """

    def __init__(self, *, keep: bool = True) -> None:
        self.count = 0
        self._keeps = keep
        self._settled: SlotPairs | None = NO_PAIRS if keep else None
        self._added: list[SlotPairs] = []
        self._removed: list[SlotPairs] = []
        self._n_logged = 0

    def apply(self, delta: PairDelta) -> None:
        self.count += len(delta.added) - len(delta.removed)
        if self.count > _MAX_KEPT:
            self._settled, self._added, self._removed = None, [], []
        if self._settled is None:
            return
        if len(delta.removed):
            self._removed.append(delta.removed)
        if len(delta.added):
            self._added.append(delta.added)
        self._n_logged += len(delta.removed) + len(delta.added)
        if len(self._added) + len(self._removed) > 1024 or self._n_logged > 1_000_000 + len(self._settled):
            self.pairs()

    def pairs(self) -> SlotPairs | None:
        """The set, ascending by left and right; None if it was forgotten."""
        if self._settled is not None and (self._added or self._removed):
            every, gone = concat_pairs((self._settled, *self._added)), concat_pairs(self._removed)
            self._settled = _net(every, gone)
            self._added, self._removed, self._n_logged = [], [], 0
        return self._settled

    def keep(self, listed: SlotPairs) -> SlotPairs:
        """The whole set as the index lists it, in order; kept from now on if it has become small enough."""
        order = np.lexsort((listed.right, listed.left))
        pairs = SlotPairs(listed.left[order], listed.right[order])
        if self._keeps and 2 * len(pairs) <= _MAX_KEPT:
            self._settled, self._n_logged = pairs, 0
        return pairs


def net_change(delta: PairDelta) -> PairDelta:
    """Without the pairs that are both removed and added: they did not change."""
    if not len(delta.removed) or not len(delta.added):
        return delta
    every = concat_pairs((delta.removed, delta.added))
    order = np.lexsort((every.right, every.left))
    left, right = every.left[order], every.right[order]
    same = np.flatnonzero((left[1:] == left[:-1]) & (right[1:] == right[:-1]))
    kept = np.ones(len(order), np.bool_)
    kept[order[same]] = kept[order[same + 1]] = False
    n_removed = len(delta.removed)
    return PairDelta(delta.removed.filter(kept[:n_removed]), delta.added.filter(kept[n_removed:]))


def _net(every: SlotPairs, gone: SlotPairs) -> SlotPairs:
    """Pairs that were added more often than removed, in order."""
    left, right = np.concatenate((every.left, gone.left)), np.concatenate((every.right, gone.right))
    sign = np.concatenate((np.ones(len(every), np.int64), np.full(len(gone), -1, np.int64)))
    order = np.lexsort((right, left))
    left, right, sign = left[order], right[order], sign[order]
    if len(left) == 0:
        return NO_PAIRS
    starts = np.flatnonzero(np.concatenate(([True], (left[1:] != left[:-1]) | (right[1:] != right[:-1]))))
    kept = starts[np.add.reduceat(sign, starts) > 0]
    return SlotPairs(left[kept], right[kept])


GREATEST: int = np.iinfo(np.int64).max
_LEAST = NULL + 1


@dataclass(frozen=True, slots=True)
class SideColumns:
    """The coded columns of one side of a join, in the order of its parts."""

    key: tuple[Coded, ...]
    orders: tuple[Coded, ...]
    differs: tuple[Coded, ...]
    filter: Filter | None

    @property
    def sources(self) -> list[Source]:
        """Everything that is read of a row on this side."""
        return [*self.key, *self.features, *([self.filter] if self.filter else [])]

    @property
    def features(self) -> tuple[Coded, ...]:
        return self.orders + self.differs

    def eligible(self, rows: CodedRows, nulls: Nulls) -> Int64Array:
        """The places of rows that pass the filter and have a value in every compared column."""
        needed = self.orders if nulls is Nulls.EQUAL else self.key + self.features
        return _passing(rows, self.filter, needed)

    def partners(self, rows: CodedRows, nulls: Nulls) -> Int64Array:
        """The places of rows that may take part in some rule with this key and filter, for any features."""
        return _passing(rows, self.filter, () if nulls is Nulls.EQUAL else self.key)


@dataclass(frozen=True, slots=True)
class JoinColumns:
    """The coded columns of both sides of a join, and how its orders read from the left."""

    left: SideColumns
    right: SideColumns
    descending: tuple[bool, ...]
    strict: tuple[bool, ...]
    symmetric: bool

    @property
    def sources(self) -> list[Source]:
        """Everything that the rule reads of a row."""
        return list(dict.fromkeys((*self.left.sources, *self.right.sources)))

    def boxes(self, rows: CodedRows, places: Int64Array, row: Row, group: Int64Array) -> Int64Array:
        """What rows on one side require of the other: [key, lows, highs, values to differ from]."""
        own = self.left if row is Row.LEFT else self.right
        if len(places) == 1:
            return self._box(rows, int(places[0]), row, group)
        lows, highs = [], []
        for column, descending, strict in zip(own.orders, self.descending, self.strict, strict=True):
            low, high = _bounds(rows.codes[column][places], descending == (row is Row.RIGHT), strict)
            lows.append(low)
            highs.append(high)
        differs = [rows.codes[column][places] for column in own.differs]
        return as_rows([group, *lows, *highs, *differs])

    def _box(self, rows: CodedRows, place: int, row: Row, group: Int64Array) -> Int64Array:
        """The same for one row, which needs no arrays in between."""
        own = self.left if row is Row.LEFT else self.right
        lows, highs = [], []
        for column, descending, strict in zip(own.orders, self.descending, self.strict, strict=True):
            low, high = _bounds_of_one(int(rows.codes[column][place]), descending == (row is Row.RIGHT), strict)
            lows.append(low)
            highs.append(high)
        differs = [rows.codes[column][place] for column in own.differs]
        return np.array([[group[0], *lows, *highs, *differs]], np.int64)


def columns_of(schema: pa.Schema, join: Join) -> JoinColumns:
    """The columns of a two-row join."""
    keys, orders, differs = ([coded(schema, part) for part in parts] for parts in (join.key, join.order, join.differs))
    left, right = (
        SideColumns(
            tuple(pair[which] for pair in keys),
            tuple(pair[which] for pair in orders),
            tuple(pair[which] for pair in differs),
            filter_of(filters),
        )
        for which, filters in enumerate((join.left_filter, join.right_filter))
    )
    return JoinColumns(
        left,
        right,
        tuple(order.descending for order in join.order),
        tuple(order.strict for order in join.order),
        join.symmetric and left == right,
    )


# The places of a single row, and of none.
_FIRST, _NOWHERE = np.zeros(1, np.int64), np.empty(0, np.int64)


def _passing(rows: CodedRows, filter_: Filter | None, needed: tuple[Coded, ...]) -> Int64Array:
    """The places of rows that pass a filter and have a value in the columns needed."""
    if rows.n_rows == 1:
        passes = filter_ is None or rows.codes[filter_][0] == 1
        return _FIRST if passes and NULL not in [rows.codes[column][0] for column in needed] else _NOWHERE
    mask = None if filter_ is None else rows.codes[filter_] == 1
    for column in needed:
        has_value = rows.codes[column] != NULL
        mask = has_value if mask is None else mask & has_value
    return np.arange(rows.n_rows) if mask is None else mask.nonzero()[0]


def _bounds(codes: Int64Array, above: bool, strict: bool) -> tuple[Int64Array, Int64Array]:
    """The range of codes above (or below) each code; empty if low > high."""
    n_rows = len(codes)
    if above:
        if not strict:
            return codes, np.full(n_rows, GREATEST)
        last = codes == GREATEST
        return np.where(last, GREATEST, codes + ~last), np.where(last, _LEAST, GREATEST)
    if not strict:
        return np.full(n_rows, _LEAST), codes
    first = codes <= _LEAST
    return np.where(first, GREATEST, _LEAST), np.where(first, _LEAST, codes - ~first)


def _bounds_of_one(code: int, above: bool, strict: bool) -> tuple[int, int]:
    """As `_bounds`, for one code."""
    if above:
        if not strict:
            return code, GREATEST
        return (GREATEST, _LEAST) if code == GREATEST else (code + 1, GREATEST)
    if not strict:
        return _LEAST, code
    return (GREATEST, _LEAST) if code <= _LEAST else (_LEAST, code - 1)
