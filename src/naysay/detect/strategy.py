"""What every strategy offers on a bound join: the three verbs, on row numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from naysay.arrays import Int64Array
from naysay.errors import UsageError
from naysay.plan.bind import BoundJoin
from naysay.published import published


@dataclass(frozen=True, slots=True)
class PairBlock:
    """Violations as row numbers of the left and the right row; `complete` unless a limit cut the list short."""

    left: Int64Array
    right: Int64Array
    complete: bool


class Strategy(Protocol):
    """A named way to answer the three verbs. All strategies give the same answers."""

    def verify(self, bound: BoundJoin) -> tuple[int, int] | None:
        """Find one violation as (left row, right row), or None if the rule holds."""

    def count(self, bound: BoundJoin) -> int:
        """Count the ordered pairs of distinct rows that break the rule."""

    def violations(self, bound: BoundJoin, limit: int | None) -> PairBlock:
        """List violations, at most `limit` of them."""


# The papers' strategies, and the paper of each.
_PAPERS = {"rapidash-range-tree": "rapidash", "rapidash-kd-tree": "rapidash", "facet": "facet"}
NAMES = ("auto", *_PAPERS)


def strategy_named(name: str) -> Strategy:
    """The strategy of that name; the default has for each shape of rule the method that `plan.shape` names."""
    if name == "auto":
        from naysay.detect import violations

        return violations
    if name in _PAPERS:
        strategy: Strategy = published(_PAPERS[name]).strategy(name)
        return strategy
    raise UsageError(f"there is no strategy {name!r}; choose one of: {', '.join(NAMES)}")
