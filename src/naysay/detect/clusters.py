"""Violations in short: sets of left rows and right rows that break the rule with each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from naysay.arrays import Int64Array
from naysay.detect.partners import partners
from naysay.detect.result import Cluster
from naysay.detect.violations import features_of, list_pairs
from naysay.plan.bind import BoundJoin, Side


def clusters(bound: BoundJoin, limit: int | None) -> list[Cluster]:
    """Rows that look alike to the rule form a class; list for each left class all the right rows it conflicts with.

    At most `limit` clusters. Every left row of a cluster breaks the rule with every right row of it but itself.
    """
    left_classes, left, members = _classes(bound.left)
    right_classes, right, _ = _classes(bound.right)
    # Classes are not rows: none of them is the same on both sides, whatever its number.
    right = replace(right, rows=right.rows + left.n_rows)
    classes = replace(bound, left=left, right=right, mirror=False, reflexive=False)
    counts = partners(classes)
    in_conflict = counts > 0
    if bound.reflexive:
        # A class of one row may conflict with itself alone, which is no violation: ask its rows, not the class.
        in_conflict = np.bincount(members[partners(bound) > 0], minlength=left.n_rows) > 0
    places = np.flatnonzero(in_conflict)[:limit]
    left_at, right_at = list_pairs(classes, places, int(counts[places].sum()))
    found: list[Cluster] = []
    by_left = np.argsort(left_at, kind="stable")
    left_numbers, starts = np.unique(left_at[by_left], return_index=True)
    for left_class, partner_classes in zip(left_numbers, np.split(right_at[by_left], starts[1:]), strict=False):
        right_rows = np.sort(np.concatenate([right_classes[which - left.n_rows] for which in partner_classes]))
        found.append(Cluster(left_classes[left_class], right_rows))
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
