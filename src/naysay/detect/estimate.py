"""What counting and checking a bound join will take on one core, before it is done."""

from __future__ import annotations

from naysay.detect.partners import is_hard
from naysay.plan.bind import BoundJoin

# Nanoseconds a row, measured by benchmarks/cost.py: to count in no, one and two orders for each set of disequalities;
# to list a sample, to find the rows in conflict and those to remove, by the number of orders.
_COUNT = (50.0, 120.0, 260.0)
_CHECK = (300.0, 350.0, 700.0)
# Where the rows to remove are only bounded, from a matching: by row, and at most in all.
_MATCHING, _LONGEST_MATCHING = 1800.0, 4e9


def count_seconds(bound: BoundJoin) -> float:
    """The time for an exact count. Looks at the data where there are many orders or disequalities. O(n)."""
    if is_hard(bound):
        from naysay.detect.differing import prepare

        return prepare(bound).seconds
    n_rows = bound.left.n_rows if bound.mirror else bound.left.n_rows + bound.right.n_rows
    n_terms = 1 << len(bound.n_differs)
    return 1e-9 * n_rows * n_terms * _COUNT[len(bound.left.order)]


def check_seconds(bound: BoundJoin) -> float:
    """The time for all that a check says about a rule that is broken."""
    n_rows = bound.left.n_rows + (0 if bound.mirror else bound.right.n_rows)
    n_orders, n_differs = len(bound.left.order), len(bound.n_differs)
    partners = count_seconds(bound) * (1 if bound.symmetric and bound.mirror else 2)
    rest = n_rows * _CHECK[min(n_orders, len(_CHECK) - 1)]
    if not bound.mirror or (n_orders, n_differs) not in ((0, 0), (0, 1), (1, 0), (2, 0)):
        rest += min(n_rows * _MATCHING, _LONGEST_MATCHING)
    return partners + 1e-9 * rest
