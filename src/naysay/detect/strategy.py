"""What every way of working on a bound join offers: the three verbs, on row numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from naysay.arrays import Int64Array
from naysay.errors import UsageError
from naysay.plan.bind import BoundJoin
from naysay.published import published


@dataclass(frozen=True, slots=True)
class PairBlock:
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

    def violations(self, bound: BoundJoin, limit: int | None) -> PairBlock:
        """List violations, at most `limit` of them."""


# The papers' strategies, and the paper of each.
_PAPERS = {"rapidash-range-tree": "rapidash", "rapidash-kd-tree": "rapidash", "facet": "facet"}
NAMES = ("auto", *_PAPERS)


class ByShape:
    """The default: for each shape of rule the method that `plan.shape` names."""

    def verify(self, bound: BoundJoin) -> tuple[int, int] | None:
        from naysay.detect.violations import verify

        return verify(bound)

    def count(self, bound: BoundJoin) -> int:
        from naysay.detect.violations import count

        return count(bound)

    def violations(self, bound: BoundJoin, limit: int | None) -> PairBlock:
        from naysay.detect.violations import violations

        return violations(bound, limit)


def strategy_named(name: str) -> Strategy:
    """The strategy of that name; UsageError lists the names."""
    if name == "auto":
        return ByShape()
    if name in _PAPERS:
        strategy: Strategy = published(_PAPERS[name]).strategy(name)
        return strategy
    raise UsageError(f"there is no strategy {name!r}; choose one of: {', '.join(NAMES)}")
