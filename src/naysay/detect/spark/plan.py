"""How each rule runs on Spark: by filter, by grouping, or by kernels on groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from naysay.plan.join import Join, Match, Order, join_of
from naysay.rule.model import Row, Rule
from naysay.spark.frame import Frame

# Disequalities that Spark groups by in all combinations; beyond, kernels do it inside a task.
MAX_GROUPED_DIFFERS = 4


class Route(Enum):
    """FILTER: rows alone. GROUPS: two levels of group by say all. KERNELS: groups of rows go to Python tasks."""

    FILTER = "filter"
    GROUPS = "group by"
    KERNELS = "kernels"


@dataclass(frozen=True, slots=True)
class RulePlan:
    """One rule as the user wrote it and by position, its join, and how it runs; `number` is its place in the list."""

    number: int
    named: Rule
    rule: Rule
    join: Join
    route: Route

    @property
    def part(self) -> Match | Order | None:
        """The one difference or order of a rule that runs by grouping; None for a key."""
        return (*self.join.differs, *self.join.order, None)[0]

    @property
    def any_two_conflict(self) -> bool:
        """By grouping: any two rows of a key break the rule, whatever their values."""
        return self.part is None or (isinstance(self.part, Order) and not self.part.strict)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the rule, by position."""
        return self.rule.column_names


def plan(frame: Frame, rules: Sequence[Rule]) -> list[RulePlan]:
    """Check that the rules fit the table, and choose a route for each."""
    plans = []
    for number, rule in enumerate(rules):
        frame.require(rule)
        by_position = frame.by_position(rule)
        join = join_of(by_position)
        plans.append(RulePlan(number, rule, by_position, join, route_of(join)))
    return plans


def key_columns(join: Join, row: Row) -> tuple[tuple[str, str], ...]:
    """The key's columns on one side, each with the column it is compared with."""
    if row is Row.LEFT:
        return tuple((match.left, match.right) for match in join.key)
    return tuple((match.right, match.left) for match in join.key)


def route_of(join: Join) -> Route:
    """How a rule of this join runs, whatever the size of the table."""
    if join.one_row:
        return Route.FILTER
    if join.is_mirror and len(join.order) + len(join.differs) <= 1:
        return Route.GROUPS
    return Route.KERNELS
