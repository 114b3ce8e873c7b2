"""The strategy table: for each shape of join, how each verb is answered and what it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from naysay.plan.join import Join, Match, Order


@dataclass(frozen=True, slots=True)
class Plan:
    """How a shape is handled. `cost` is a formula for people; n rows, m disequalities, k orders."""

    name: str
    shape: str
    verify: str
    count: str
    violations: str
    remove: str
    cost: str
    bytes_a_row: int


_LIST = "tree of zones over the right rows, output-sensitive"
_INTERVAL = "interval from a greedy matching"

PLANS = (
    Plan("filter", "one row", "filter", "filter", "filter", "exact: the rows themselves", "O(n)", 16),
    Plan("key", "key only", "first repeated key", "sum of group products", "groups", "exact: all but one of a key",
         "O(n)", 64),
    Plan("dependency", "key, one differs", "least against greatest value of each key",
         "group products minus equal products", "groups by value", "exact: all but the commonest value", "O(n)", 96),
    Plan("differs", "key, m differs", "as count", "inclusion and exclusion over the 2^m sets of equalities", _LIST,
         _INTERVAL, "O(2^m n)", 128),
    Plan("one order", "key, one order", "as count", "sort, then merge", _LIST,
         "exact: all but the commonest value", "O(n log n)", 128),
    Plan("two orders", "key, two orders", "sort, then a sweep with the running extremum",
         "sort, then a sweep with a Fenwick tree", _LIST, "exact: all but the longest monotone subsequence",
         "O(n log n)", 160),
    Plan("many orders", "key, k orders", "as count", "divide and conquer over one order after the other", _LIST,
         _INTERVAL, "O(n log^(k-1) n)", 192),
    Plan("mixed", "key, k orders, m differs", "as count",
         "inclusion and exclusion over the disequalities, each term as for its orders", _LIST, _INTERVAL,
         "O(2^m n log^(k-1) n)", 192),
)  # fmt: skip
_BY_NAME = {plan.name: plan for plan in PLANS}


def plan_of(join: Join) -> Plan:
    """The row of the table that a join falls under."""
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
    if not join.one_row and not _is_mirror(join):
        # Where the two rows are compared in different columns, rows fall into no groups of which one could stay.
        return replace(plan, remove=_INTERVAL)
    return plan


def _is_mirror(join: Join) -> bool:
    """Both rows are filtered alike, and compared in the same columns."""
    parts: tuple[Match | Order, ...] = join.key + join.differs + join.order
    filters = {predicate.swapped() for predicate in join.left_filter}
    return all(part.left == part.right for part in parts) and filters == set(join.right_filter)


def estimated_seconds(join: Join, n_rows: int) -> float:
    """A rough time for an exact count in memory on one core, encoding included."""
    n_columns = 1 + len(join.key) + len(join.order) + len(join.differs)
    encoding = 15e-9 * n_columns * n_rows
    levels = max(math.log2(max(n_rows, 2)), 1.0)
    n_orders = len(join.order)
    a_row = (10e-9, 60e-9, 60e-9 + 4e-9 * levels)[n_orders] if n_orders < 3 else 3e-9 * levels ** (n_orders - 1)
    return encoding + 2.0 ** len(join.differs) * a_row * n_rows
