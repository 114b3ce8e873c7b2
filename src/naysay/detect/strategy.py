"""What every way of working on a bound join offers: the three verbs, on row numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from naysay.arrays import Int64Array
from naysay.plan.bind import BoundJoin


@dataclass(frozen=True, slots=True)
class Pairs:
    """Violations as row numbers of the left and the right row; `complete` unless a limit cut the list."""

    left: Int64Array
    right: Int64Array
    complete: bool


class Strategy(Protocol):
    """A named way to answer the three verbs. All strategies give the same answers."""

    def verify(self, bound: BoundJoin) -> tuple[int, int] | None:
        """Find one violation as (left row, right row), or None where the rule holds."""

    def count(self, bound: BoundJoin) -> int:
        """Count the ordered pairs of distinct rows that break the rule."""

    def violations(self, bound: BoundJoin, limit: int | None) -> Pairs:
        """List violations, at most `limit` of them."""
