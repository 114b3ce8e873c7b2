"""What every strategy offers on a bound join: the three verbs, on row numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from naysay.arrays import Int64Array
from naysay.errors import UsageError
from naysay.plan.bind import BoundJoin
from naysay.plan.join import Join
from naysay.published import published
from naysay.rule.model import Nulls
from naysay.table import Table


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


@runtime_checkable
class CountsTogether(Protocol):
    """A strategy that shares work between rules of one table."""

    def count_many(self, table: Table, joins: Sequence[Join], nulls: Nulls, n_threads: int) -> list[int]:
        """Count the violations of each two-row rule."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A strategy for a rule whose violations it has counted already, together with those of other rules."""

    strategy: Strategy
    n_violations: int

    def verify(self, bound: BoundJoin) -> tuple[int, int] | None:
        return self.strategy.verify(bound)

    def count(self, bound: BoundJoin) -> int:
        return self.n_violations

    def violations(self, bound: BoundJoin, limit: int | None) -> PairBlock:
        return self.strategy.violations(bound, limit)


# The papers' strategies, and the paper of each.
_PAPERS = {
    "rapidash-range-tree": "rapidash",
    "rapidash-kd-tree": "rapidash",
    "rapidash-vanilla": "rapidash",
    "facet": "facet",
    "facet-by-frequency": "facet",
}
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
