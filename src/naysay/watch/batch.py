"""What indexes take and give: batches of coded rows, and the violations that come and go with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from naysay.plan.join import Join
from naysay.table.codes import Int64Array
from naysay.watch.columns import Coded, Codes


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Rows by slot with the codes of everything that rules compare. `groups` keeps what indexes share."""

    slots: Int64Array
    codes: Codes
    groups: dict[tuple[Coded, ...], Int64Array] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        return len(self.slots)


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


class Index(Protocol):
    """Answers, for the rules given to it, which violations go with old rows and come with new ones."""

    def add(self, name: str, join: Join, standing: Batch) -> None:
        """Watch one more rule, about two rows, over the standing rows."""

    def remove(self, name: str) -> None:
        """Forget a rule."""

    def violations(self, name: str, standing: Batch) -> Pairs:
        """The violations of a rule among the standing rows, from scratch."""

    def change(self, old: Batch, new: Batch, stamps: Int64Array) -> dict[str, Delta]:
        """Take old rows away and put new ones in; slots of both may be the same. Where it raises, nothing changed.

        `stamps` has room for every slot; what stands there after the call means nothing.
        """


def joined(parts: Sequence[Pairs]) -> Pairs:
    if not parts:
        return NO_PAIRS
    return Pairs(np.concatenate([part.left for part in parts]), np.concatenate([part.right for part in parts]))
