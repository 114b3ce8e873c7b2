"""How each rule runs on Spark: by filter, by grouping, or by kernels on groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame

from naysay.detect.spark.traps import why_text
from naysay.plan.join import Join, Match, Order, join_of
from naysay.rule.model import Row, Rule
from naysay.spark.expressions import Comparisons

# Disequalities that Spark groups by in all combinations; beyond, kernels do it inside a task.
_MAX_GROUPED_DIFFERS = 4


class Route(Enum):
    """FILTER: each row by itself. GROUPS: two levels of group by. KERNELS: groups of rows go to Python tasks."""

    FILTER = "filter"
    GROUPS = "group by"
    KERNELS = "kernels"


@dataclass(frozen=True, slots=True, eq=False)
class RulePlan:
    """One rule on one table, as the user wrote it and by position; `number` is its place in the list of rules."""

    comparisons: Comparisons
    number: int
    named: Rule
    rule: Rule
    join: Join
    route: Route

    @property
    def data(self) -> DataFrame:
        return self.comparisons.frame.data

    @property
    def part(self) -> Match | Order | None:
        """The one difference or order of a rule that runs by grouping; None for a key."""
        return (*self.join.differs, *self.join.order, None)[0]

    @property
    def any_two_conflict(self) -> bool:
        """By grouping: any two rows of a key break the rule, regardless of their values."""
        return self.part is None or (isinstance(self.part, Order) and not self.part.strict)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the rule, by position."""
        return self.rule.column_names

    @property
    def counts_by_grouping(self) -> bool:
        """Whether counting needs no kernels: no orders, and not so many disequalities that grouping is no help."""
        return self.route is not Route.KERNELS or (
            not self.join.order and len(self.join.differs) <= _MAX_GROUPED_DIFFERS
        )

    def comparable(self, name: str) -> Expression:
        """A column in the form in which it compares exactly with itself."""
        return self.comparisons.comparable(name, name)

    def on_side(self, row: Row) -> Expression:
        """Whether a row is on a side of the join."""
        return self.comparisons.side(self.join, row)


def plan_rules(comparisons: Comparisons, rules: Sequence[Rule]) -> list[RulePlan]:
    """Check that the rules fit the table, and choose a route for each."""
    plans = []
    for number, rule in enumerate(rules):
        comparisons.frame.require(rule, why_text(comparisons.frame))
        by_position = comparisons.frame.by_position(rule)
        join = join_of(by_position)
        plans.append(RulePlan(comparisons, number, rule, by_position, join, route_of(join)))
    return plans


def route_of(join: Join) -> Route:
    """How a rule of this join runs, regardless of the size of the table."""
    if join.one_row:
        return Route.FILTER
    if join.is_mirror and len(join.order) + len(join.differs) <= 1:
        return Route.GROUPS
    return Route.KERNELS
