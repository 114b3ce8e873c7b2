"""violations: which pairs break the rule, and which rows take part."""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array
from naysay.detect.partners import is_hard, partners, total_of
from naysay.detect.strategy import Pairs
from naysay.kernels.sort import sorted_places
from naysay.kernels.trees.zones import build_zones, list_partners
from naysay.plan.bind import BoundJoin, Side


def violations(bound: BoundJoin, limit: int | None, counts: Int64Array | None = None) -> Pairs:
    """List violations, ascending by left row; with a limit, those of the first left rows.

    `counts` are the left rows' partners, where they are known already.
    """
    counts = partners(bound) if counts is None else counts
    total = total_of(counts)
    n_wanted = total if limit is None else min(limit, total)
    if n_wanted == 0:
        return Pairs(np.empty(0, np.int64), np.empty(0, np.int64), total == 0)
    # The first left rows whose partners reach the limit are all that need be looked at.
    places = np.flatnonzero(counts)
    n_left = int(np.searchsorted(np.cumsum(counts[places]), n_wanted)) + 1
    left, right = list_pairs(bound, places[:n_left], n_wanted)
    order = np.lexsort((right, left))
    return Pairs(left[order], right[order], n_wanted == total)


def list_pairs(bound: BoundJoin, places: Int64Array, limit: int) -> tuple[Int64Array, Int64Array]:
    """Row numbers of the pairs that the given left rows form, at most `limit`, in no particular order."""
    if is_hard(bound):
        from naysay.detect.differing import list_compared

        return list_compared(bound, places, limit)
    right = bound.right
    order = tree_places(right)
    features = np.ascontiguousarray(features_of(right)[:, order])
    rows = np.ascontiguousarray(features_of(bound.left)[:, places].T)
    left_at, right_at, _ = list_partners(
        rows, bound.left.rows[places], features, right.rows[order], build_zones(features), len(right.order), limit
    )
    return bound.left.rows[places][left_at], right.rows[order][right_at]


def conflict_rows(bound: BoundJoin) -> Int64Array:
    """The rows that take part in any violation, on either side, ascending."""
    return conflict_counts(bound)[0]


def partners_of_right(bound: BoundJoin, counts: Int64Array) -> Int64Array:
    """The partners of the right rows, where `counts` are those of the left rows."""
    return counts if _both_ways(bound) else partners(bound.swapped())


def _both_ways(bound: BoundJoin) -> bool:
    """Every violation is there both ways round: the rule is symmetric, and the same rows stand on both sides."""
    return bound.symmetric and (bound.mirror or np.array_equal(bound.left.rows, bound.right.rows))


def conflict_counts(
    bound: BoundJoin, counts: Int64Array | None = None, right_counts: Int64Array | None = None
) -> tuple[Int64Array, Int64Array]:
    """The rows in any violation, ascending, and for each the rows with which it breaks the rule, either way round.

    Two rows that break a symmetric rule do so once; any other rule that they break both ways round, twice.
    `counts` and `right_counts` are the left and the right rows' partners, where they are known already.
    """
    left, right = bound.left, bound.right
    counts = partners(bound) if counts is None else counts
    n_rows = 1 + max(left.rows.max(initial=-1), right.rows.max(initial=-1))
    sums = np.zeros(n_rows, np.int64)
    sums[left.rows] = counts
    if not _both_ways(bound):
        sums[right.rows] += partners(bound.swapped()) if right_counts is None else right_counts
    rows = np.flatnonzero(sums)
    return rows, sums[rows]


def tree_places(side: Side) -> Int64Array:
    """The order in which a side's rows stand in a tree of zones: by key, then by its first other part."""
    return sorted_places(side.key, (*side.order, *side.differs, side.key)[0])


def features_of(side: Side) -> Int64Array:
    """The codes of a side as kernels.zones wants them: [key, orders, differs] by row."""
    return np.stack((side.key, *side.order, *side.differs))
