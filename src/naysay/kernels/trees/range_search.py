"""What both trees for orthogonal range search share: points as ranks, queries as boxes, and a tape of both.

A *forest* holds one tree for each group. Its points are known beforehand but switched off; inserting one switches
it on. A *tape* says in which order points are inserted and queries asked: each entry is 4 * item + act.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from naysay.arrays import Int64Array
from naysay.kernels.compile import kernel

INSERT = 0
BELOW = 1
ABOVE = 2


class Queries(NamedTuple):
    """For each query and dimension, how many points of its group lie below it, and how many do not lie above it.

    The first `n_orders` dimensions are inequalities, all facing one way; the others are disequalities.
    """

    group: Int64Array
    below: Int64Array
    upto: Int64Array
    n_orders: int


@kernel
def rank_queries(
    values: Int64Array,
    starts: Int64Array,
    order: Int64Array,
    groups: Int64Array,
    queries: Int64Array,
    column: int,
    below: Int64Array,
    upto: Int64Array,
) -> None:
    """Write to one column how many values of a query's group are less than it, and how many are not greater.

    `values[starts[g]:starts[g + 1]]` ascend for each group g, and `order` sorts the queries by (group, query): one
    merge, O(values + queries).
    """
    group = -1
    less = 0
    not_greater = 0
    for query in order:
        if groups[query] != group:
            group = groups[query]
            less = starts[group]
            not_greater = less
        end = starts[group + 1]
        while less < end and values[less] < queries[query]:
            less += 1
        not_greater = max(less, not_greater)
        while not_greater < end and values[not_greater] == queries[query]:
            not_greater += 1
        below[query, column] = less - starts[group]
        upto[query, column] = not_greater - starts[group]


@kernel
def interleave(order: Int64Array, slots: Int64Array) -> Int64Array:
    """Make the tape that inserts points in `order` and asks each query BELOW after its first `slots[query]` points.

    O(points + queries).
    """
    n_points = order.size
    ends = np.zeros(n_points + 1, np.int64)
    for slot in slots:
        ends[slot] += 1
    for slot in range(1, n_points + 1):
        ends[slot] += ends[slot - 1] + 1
    tape = np.empty(n_points + slots.size, np.int64)
    for query in range(slots.size - 1, -1, -1):
        slot = slots[query]
        ends[slot] -= 1
        tape[ends[slot]] = 4 * query + BELOW
    # Each end has come down to the first query of its slot, just after the point that the slot waits for.
    for slot in range(1, n_points + 1):
        tape[ends[slot] - 1] = 4 * order[slot - 1] + INSERT
    return tape


@kernel
def fill_box(
    queries: Queries, query: int, above: bool, signs: int, n_points: int, low: Int64Array, high: Int64Array
) -> bool:
    """Write the box low <= rank < high that a query searches; false where it is empty.

    Inequalities look at the points above the query, or below it; bit i of `signs` says the same for disequality i,
    so that the boxes of all `signs` cover each point that differs exactly once. Rapidash, Algorithm 3 and 4.5.
    """
    for column in range(low.size):
        up = above
        if column >= queries.n_orders:
            up = (signs >> (column - queries.n_orders)) & 1 == 1
        low[column] = queries.upto[query, column] if up else 0
        high[column] = n_points if up else queries.below[query, column]
        if low[column] >= high[column]:
            return False
    return True
