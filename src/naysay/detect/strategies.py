"""The strategies by name: ours, chosen by the shape of the rule, and the papers' own."""

from __future__ import annotations

from naysay.detect.strategy import Pairs, Strategy
from naysay.errors import UsageError
from naysay.plan.bind import BoundJoin
from naysay.published import published

# The papers' strategies, and the paper of each.
_PAPERS = {"rapidash-range-tree": "rapidash", "rapidash-kd-tree": "rapidash", "facet": "facet"}
NAMES = ("auto", *_PAPERS)


class ByShape:
    """The default: for each shape of rule the method that `plan.shape` names."""

    def verify(self, bound: BoundJoin) -> tuple[int, int] | None:
        from naysay.detect.verify import verify

        return verify(bound)

    def count(self, bound: BoundJoin) -> int:
        from naysay.detect.count import count

        return count(bound)

    def violations(self, bound: BoundJoin, limit: int | None) -> Pairs:
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
