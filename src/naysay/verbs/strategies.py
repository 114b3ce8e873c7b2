"""The strategies by name: ours, chosen by the shape of the rule, and the papers' own."""

from __future__ import annotations

from naysay.errors import UsageError
from naysay.plan.bind import BoundJoin
from naysay.verbs.strategy import Pairs, Strategy

NAMES = ("auto", "rapidash-range-tree", "rapidash-kd-tree", "facet")


class ByShape:
    """The default: for each shape of rule the method that `plan.shape` names."""

    def verify(self, bound: BoundJoin) -> tuple[int, int] | None:
        from naysay.verbs.verify import verify

        return verify(bound)

    def count(self, bound: BoundJoin) -> int:
        from naysay.verbs.count import count

        return count(bound)

    def violations(self, bound: BoundJoin, limit: int | None) -> Pairs:
        from naysay.verbs.violations import violations

        return violations(bound, limit)


def strategy_named(name: str) -> Strategy:
    """The strategy of that name; UsageError lists the names."""
    if name == "auto":
        return ByShape()
    if name in ("rapidash-range-tree", "rapidash-kd-tree"):
        from naysay.verbs.rapidash import RapidashKdTree, RapidashRangeTree

        return RapidashRangeTree() if name == "rapidash-range-tree" else RapidashKdTree()
    if name == "facet":
        from naysay.verbs.facet import Facet

        return Facet()
    raise UsageError(f"there is no strategy {name!r}; choose one of: {', '.join(NAMES)}")
