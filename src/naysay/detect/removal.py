"""The fewest rows to remove so that a rule holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from naysay.arrays import BoolArray, Int64Array
from naysay.detect.partners import partners
from naysay.detect.result import Removal
from naysay.detect.violations import both_ways, features_of, list_pairs, tree_places
from naysay.kernels.joins.removal import (
    match_greedily,
    may_have_partner,
    monotone_levels,
    removed_commonest,
    removed_monotone,
)
from naysay.kernels.sort import sorted_places
from naysay.kernels.trees.zones import Rows, Zones, build_zones
from naysay.plan.bind import BoundJoin, Side

# After this many steps the greedy matching stops, and its lower bound is taken as it is.
_MATCHING_STEPS = 200_000_000


def rows_to_remove(
    bound: BoundJoin, counts: Int64Array | None = None, right_counts: Int64Array | None = None
) -> tuple[Removal, Int64Array]:
    """How many rows must go so that a rule holds, and rows, ascending, without which it does: `most` of them.

    Exact for keys, dependencies, and one or two orders of a column with itself; otherwise an interval.
    `counts` and `right_counts` are the left and the right rows' partners, if already known.
    """
    if bound.mirror:
        removed = _removed(bound)
        if removed is not None:
            rows = bound.left.rows[removed]
            return Removal(rows.size, rows.size), rows
    counts = partners(bound) if counts is None else counts
    if right_counts is None:
        right_counts = counts if both_ways(bound) else partners(bound.swapped())
    return _interval(bound, counts, right_counts)


def _removed(bound: BoundJoin) -> BoolArray | None:
    """Which rows of one table must go so that the most can stay, if there is a direct way to know."""
    side = bound.left
    values = values_in_conflict(bound)
    if values is not None:
        return removed_commonest(side.key, values, sorted_places(side.key, values))
    if is_monotone(bound):
        return removed_monotone(side.key, *_by_x(bound))
    return None


def values_in_conflict(bound: BoundJoin) -> Int64Array | None:
    """For a mirror: values such that two rows of a key break the rule exactly if theirs differ; None if there are none.

    Rows with a value of their own conflict with all others.
    """
    side = bound.left
    shape = (len(side.order), len(side.differs))
    if shape == (0, 1):
        return side.differs[0]
    if shape == (1, 0) and side.order[0] is bound.right.order[0]:
        # Two rows with different values always break a strict order one way round; any two break <=.
        return side.order[0]
    return side.rows if sum(shape) == 0 or shape == (1, 0) else None


def is_monotone(bound: BoundJoin) -> bool:
    """Whether a mirror says that one column never rises with another."""
    return len(bound.left.order) == 2 and not bound.left.differs


def conflict_levels(bound: BoundJoin) -> Int64Array:
    """For a monotone mirror: a level for each row, such that any two rows of a key with the same level conflict."""
    return monotone_levels(bound.left.key, *_by_x(bound))


def _by_x(bound: BoundJoin) -> tuple[Int64Array, Int64Array]:
    """The values and the order of rows in which a pair of a key is in conflict exactly if it rises.

    Rows ascend in x. Rows that tie in x descend in y if ties in x are not a violation (x strict), so that they may all
    stay, and ascend in y if they are. If ties in y are a violation, y carries x (or, if that too may tie, the place)
    behind it, so that such a tie counts as a rise.
    """
    keys, (x, y) = bound.left.key, bound.left.order
    x_strict, y_strict = (left is right for left, right in zip(bound.left.order, bound.right.order, strict=True))
    by_y = sorted_places(np.zeros(y.size, np.int64), -y if x_strict else y)
    places = by_y[sorted_places(keys[by_y], x[by_y])]
    if not y_strict:
        place_of = np.empty_like(places)
        place_of[places] = np.arange(places.size)
        y = _rank_pairs(y, x if x_strict else place_of)
    return y, places


def _rank_pairs(first: Int64Array, second: Int64Array) -> Int64Array:
    """Ranks of (first, second); equal pairs have the same rank."""
    order = sorted_places(first, second)
    first, second = first[order], second[order]
    new = np.ones(order.size, np.int64)
    new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    ranks = np.empty(order.size, np.int64)
    ranks[order] = np.cumsum(new)
    return ranks


def _interval(bound: BoundJoin, counts: Int64Array, right_counts: Int64Array) -> tuple[Removal, Int64Array]:
    """Between a matching of violations, each of which needs a removal, and a set of rows that touches them all."""
    left_places = np.flatnonzero(counts)
    if not left_places.size:
        return Removal(0, 0), left_places
    left, right = bound.left.rows[left_places], bound.right.rows[right_counts > 0]
    matched, maximal = match_rows(bound.left.take(left_places), bound.right)
    # No pair is left without all its left rows, all its right rows, all but one row, or all rows of a maximal matching.
    enough = [left, right, np.union1d(left, right)[1:], *([np.sort(matched)] if maximal else [])]
    fewest = min(enough, key=len)
    return Removal(matched.size // 2, fewest.size), fewest


def match_rows(left: Side, right: Side, max_steps: int = _MATCHING_STEPS) -> tuple[Int64Array, bool]:
    """Violations that share no row, as the rows of each pair in turn; and whether no other could be added."""
    return match_greedily(*_zoned(left, right), len(right.order), max_steps)


def rows_with_partners(left: Side, right: Side, max_steps: int) -> BoolArray:
    """Which left rows break the rule with a right row; those that more steps would have to decide count as if."""
    return may_have_partner(*_zoned(left, right), len(right.order), max_steps)


def _zoned(left: Side, right: Side) -> tuple[Rows, Rows, Zones]:
    """Left rows, right rows in the order of a tree of zones, and its zones."""
    order = tree_places(right)
    features = np.ascontiguousarray(features_of(right)[:, order])
    left_features = np.ascontiguousarray(features_of(left).T)
    return (left_features, left.rows), (features, right.rows[order]), build_zones(features)


def list_clusters(bound: BoundJoin, limit: int | None) -> list[tuple[Int64Array, Int64Array]]:
    """Rows that look alike to the rule form a class; list for each left class all the right rows it conflicts with.

    At most `limit` clusters, as rows on the left and on the right: every left row breaks the rule with every right row
    except itself.
    """
    left_classes, left, members = _classes(bound.left)
    right_classes, right, _ = _classes(bound.right)
    # Classes are not rows: none is the same on both sides, even with the same number.
    right = replace(right, rows=right.rows + left.n_rows)
    classes = replace(bound, left=left, right=right, mirror=False, reflexive=False, equalities=())
    counts = partners(classes)
    in_conflict = counts > 0
    if bound.reflexive:
        # A class of one row may conflict only with itself, which is not a violation: ask its rows, not the class.
        in_conflict = np.bincount(members[partners(bound) > 0], minlength=left.n_rows) > 0
    places = np.flatnonzero(in_conflict)[:limit]
    left_at, right_at = list_pairs(classes, places, int(counts[places].sum()))
    found = []
    by_left = np.argsort(left_at, kind="stable")
    left_numbers, starts = np.unique(left_at[by_left], return_index=True)
    for left_class, partner_classes in zip(left_numbers, np.split(right_at[by_left], starts[1:]), strict=False):
        right_rows = np.sort(np.concatenate([right_classes[which - left.n_rows] for which in partner_classes]))
        found.append((left_classes[left_class], right_rows))
    return found


def _classes(side: Side) -> tuple[list[Int64Array], Side, Int64Array]:
    """The rows of each class, a side with one row, numbered from 0, for each class, and the class of each row."""
    if side.n_rows == 0:
        return [], side, side.rows
    _, first, inverse = np.unique(features_of(side), axis=1, return_index=True, return_inverse=True)
    members = inverse.ravel()
    by_class = np.argsort(members, kind="stable")
    ends = np.cumsum(np.bincount(members))[:-1]
    return np.split(side.rows[by_class], ends), replace(side.take(first), rows=np.arange(first.size)), members
