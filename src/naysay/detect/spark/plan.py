"""How each rule runs on Spark: by filter, by grouping, or by kernels on groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import combinations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame

from naysay.detect.spark.traps import why_text
from naysay.plan.join import Join, Match, Order, join_of
from naysay.rule.model import Column, Op, Predicate, Row, Rule
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

    @property
    def counts_by_exclusion(self) -> bool:
        """Whether `exclusion_terms` counts it: it has orders, and not many disequalities."""
        return bool(self.join.order) and 0 < len(self.join.differs) <= _MAX_GROUPED_DIFFERS

    @property
    def counts_without_blocks(self) -> bool:
        """Whether counting never compares blocks of a giant group, unless its key compares different columns."""
        only_orders = bool(self.join.order) and not self.join.differs
        return self.counts_by_grouping or self.counts_by_exclusion or only_orders

    def on(self, data: DataFrame) -> RulePlan:
        """The same rule on some rows of the same table."""
        frame = replace(self.comparisons.frame, data=data)
        return replace(self, comparisons=replace(self.comparisons, frame=frame))

    def comparable(self, name: str, alias: str = "") -> Expression:
        """A column in the form in which it compares exactly with itself, perhaps under an alias."""
        return self.comparisons.comparable(name, name, alias)

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


def exclusion_terms(plan: RulePlan) -> list[tuple[int, RulePlan]]:
    """Rules without disequalities whose counts, with their signs, add up to the count of a rule that has some.

    Inclusion and exclusion: of the pairs that satisfy all else, those that agree where they should differ are taken
    away. Both rows must have the values all the same, which a filter of each term says.
    """
    differs = plan.join.differs
    terms = []
    for size in range(len(differs) + 1):
        for equal in combinations(differs, size):
            join = replace(
                plan.join,
                key=tuple(dict.fromkeys((*plan.join.key, *equal))),
                differs=(),
                left_filter=plan.join.left_filter + tuple(_has_value(Row.LEFT, match.left) for match in differs),
                right_filter=plan.join.right_filter + tuple(_has_value(Row.RIGHT, match.right) for match in differs),
            )
            terms.append(((-1) ** size, replace(plan, join=join, route=route_of(join))))
    return terms


def _has_value(row: Row, name: str) -> Predicate:
    """What only a missing value does not satisfy; if nulls equal each other, none is missing."""
    column = Column(row, name)
    return Predicate(column, Op.EQ, column)


def route_of(join: Join) -> Route:
    """How a rule of this join runs, regardless of the size of the table."""
    if join.one_row:
        return Route.FILTER
    if join.is_mirror and len(join.order) + len(join.differs) <= 1:
        return Route.GROUPS
    return Route.KERNELS
