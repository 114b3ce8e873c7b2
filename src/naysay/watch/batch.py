"""What indexes take and give: batches of coded rows, and the violations that come and go with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from naysay.arrays import BoolArray, Int64Array
from naysay.live.columns import Coded, Codes, Source
from naysay.plan.join import Join


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Rows by slot with the codes of everything that rules compare. `groups` keeps what indexes share."""

    slots: Int64Array
    codes: Codes
    groups: dict[tuple[Coded, ...], Int64Array] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        return len(self.slots)

    def take(self, places: Int64Array) -> Batch:
        return Batch(self.slots[places], {source: codes[places] for source, codes in self.codes.items()})


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Violations as slots of the left and the right row; the same slot twice for a one-row rule."""

    left: Int64Array
    right: Int64Array

    def __len__(self) -> int:
        return len(self.left)


NO_PAIRS = Pairs(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Delta:
    """What a change does to the violations of one rule."""

    removed: Pairs
    added: Pairs


@dataclass(frozen=True, slots=True, eq=False)
class RowChange:
    """Rows that go and rows that come. The last `n_updates` old ones and as many first new ones have the same slots."""

    old: Batch
    new: Batch
    n_updates: int
    _parts: dict[tuple[Source, ...], RowChange] = field(default_factory=dict)

    def touching(self, sources: Sequence[Source]) -> RowChange:
        """Without updates that change none of these sources: whoever reads nothing else does not notice them."""
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
    """Answers, for the rules given to it, which violations go with old rows and come with new ones."""

    def add(self, name: str, join: Join, standing: Batch) -> None:
        """Watch one more rule, about two rows, over the standing rows."""

    def remove(self, name: str) -> None:
        """Forget a rule."""

    def violations(self, name: str, standing: Batch) -> Pairs:
        """The violations of a rule among the standing rows, from scratch."""

    def change(self, edit: RowChange, stamps: Int64Array) -> dict[str, Delta]:
        """Take old rows away and put new ones in; slots of both may be the same. Where it raises, nothing changed.

        `stamps` is zero for every slot, and is so again after the call.
        """


def joined(parts: Sequence[Pairs]) -> Pairs:
    if not parts:
        return NO_PAIRS
    return Pairs(np.concatenate([part.left for part in parts]), np.concatenate([part.right for part in parts]))


class PairLog:
    """A set of pairs under additions of pairs not in it and removals of pairs in it.

    Both only append; the set is made up when it is asked for, and now and then, so that the log stays in proportion.
    Amortised O(log n) a pair.
    """

    def __init__(self) -> None:
        self.count = 0
        self._settled = NO_PAIRS
        self._added: list[Pairs] = []
        self._removed: list[Pairs] = []
        self._n_logged = 0

    def apply(self, removed: Pairs, added: Pairs) -> None:
        if len(removed):
            self._removed.append(removed)
        if len(added):
            self._added.append(added)
        self.count += len(added) - len(removed)
        self._n_logged += len(removed) + len(added)
        if len(self._added) + len(self._removed) > 1024 or self._n_logged > 1_000_000 + len(self._settled):
            self.pairs()

    def shift(self, by: int) -> None:
        """Where pairs are counted and not kept: the number has grown by so many."""
        self.count += by

    def pairs(self) -> Pairs:
        """The set, ascending by left and right."""
        if self._added or self._removed:
            every, gone = joined((self._settled, *self._added)), joined(self._removed)
            self._settled = _net(every, gone)
            self._added, self._removed, self._n_logged = [], [], 0
        return self._settled


def net_change(removed: Pairs, added: Pairs) -> tuple[Pairs, Pairs]:
    """Both without what stands in both: a violation that goes and comes back did not change."""
    if not len(removed) or not len(added):
        return removed, added
    first, second = in_both(removed, added)
    return Pairs(removed.left[~first], removed.right[~first]), Pairs(added.left[~second], added.right[~second])


def in_both(first: Pairs, second: Pairs) -> tuple[BoolArray, BoolArray]:
    """Which pairs of either set are in the other one. No pair stands twice in one of them."""
    every = joined((first, second))
    order = np.lexsort((every.right, every.left))
    left, right = every.left[order], every.right[order]
    twice = np.zeros(len(order), np.bool_)
    same = (left[1:] == left[:-1]) & (right[1:] == right[:-1])
    twice[1:] |= same
    twice[:-1] |= same
    found = np.empty(len(order), np.bool_)
    found[order] = twice
    return found[: len(first)], found[len(first) :]


def _net(every: Pairs, gone: Pairs) -> Pairs:
    """Pairs that were added once more than removed, in order."""
    left, right = np.concatenate((every.left, gone.left)), np.concatenate((every.right, gone.right))
    sign = np.concatenate((np.ones(len(every), np.int64), np.full(len(gone), -1, np.int64)))
    order = np.lexsort((right, left))
    left, right, sign = left[order], right[order], sign[order]
    if len(left) == 0:
        return NO_PAIRS
    starts = np.flatnonzero(np.concatenate(([True], (left[1:] != left[:-1]) | (right[1:] != right[:-1]))))
    kept = starts[np.add.reduceat(sign, starts) > 0]
    return Pairs(left[kept], right[kept])
