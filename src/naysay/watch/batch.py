"""What indexes take and give: batches of coded rows, and the violations that come and go with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from naysay.arrays import Int64Array
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
