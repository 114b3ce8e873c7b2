"""The strategy table: for each shape of join, how each verb is answered and what it costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from naysay.plan.join import Join, join_of
from naysay.rule.model import Rule


@dataclass(frozen=True, slots=True)
class Plan:
    """How a shape is handled. `cost` is a formula for people: n rows, m disequalities, k orders."""

    name: str
    shape: str
    verify: str
    count: str
    violations: str
    remove: str
    cost: str


_LIST = "tree of zones over the right rows, output-sensitive"
_INTERVAL = "interval from a greedy matching"

PLANS = (
    Plan("filter", "one row", "filter", "filter", "filter", "exact: the rows themselves", "O(n)"),
    Plan(
        "key",
        "key only",
        "first repeated key",
        "sum of group products",
        "groups",
        "exact: all but one of a key",
        "O(n)",
    ),
    Plan(
        "dependency",
        "key, one differs",
        "least against greatest value of each key",
        "group products minus equal products",
        "groups by value",
        "exact: all but the commonest value",
        "O(n)",
    ),
    Plan(
        "differs",
        "key, m differs",
        "as count",
        "all pairs minus those that agree, column by column; small groups compared as bits",
        _LIST,
        _INTERVAL,
        "a row of a group of g: at most O(2^m), at most O(g m / 64)",
    ),
    Plan(
        "one order",
        "key, one order",
        "least against greatest value of each key",
        "half of group products minus equal products; between different columns sort, then merge",
        _LIST,
        "exact: all but the commonest value",
        "O(n log n)",
    ),
    Plan(
        "two orders",
        "key, two orders",
        "sort, then a sweep with the running extremum",
        "sort, then a sweep with a Fenwick tree",
        _LIST,
        "exact: all but the longest monotone subsequence",
        "O(n log n)",
    ),
    Plan(
        "many orders",
        "key, k orders",
        "as count",
        "divide and conquer over one order after the other; small groups compared as bits",
        _LIST,
        _INTERVAL,
        "a row of a group of g: at most O(log^(k-1) g), at most O(g k / 64)",
    ),
    Plan(
        "mixed",
        "key, k orders, m differs",
        "as count",
        "all pairs in order minus those that agree, column by column; small groups compared as bits",
        _LIST,
        _INTERVAL,
        "a row of a group of g: at most O(2^m log^(k-1) g), at most O(g (k + m) / 64)",
    ),
)
_NONE = "none: the rule is about the whole table"
MEASURE = Plan("measure", "whole table", "one pass", "one pass", _NONE, _NONE, "O(n)")
_BY_NAME = {plan.name: plan for plan in PLANS}


def plan_for(rule: Rule) -> Plan:
    """The row of the table for a rule, which may be about the whole table."""
    return plan_of(join_of(rule)) if rule.measure is None else MEASURE


def plan_of(join: Join) -> Plan:
    """The row of the table for a join."""
    n_orders, n_differs = len(join.order), len(join.differs)
    if join.one_row:
        name = "filter"
    elif n_orders and n_differs:
        name = "mixed"
    elif n_differs:
        name = "dependency" if n_differs == 1 else "differs"
    else:
        name = ("key", "one order", "two orders")[n_orders] if n_orders < 3 else "many orders"
    plan = _BY_NAME[name]
    if not join.one_row and not join.is_mirror:
        # If the two rows are compared in different columns, there are no groups of rows of which one could stay.
        return replace(plan, remove=_INTERVAL)
    return plan
