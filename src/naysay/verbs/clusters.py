"""Violations in short: sets of left rows and right rows that break the rule with each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from naysay.plan.bind import BoundJoin, Side
from naysay.table.codes import Int64Array
from naysay.verbs.partners import partners
from naysay.verbs.result import Cluster
from naysay.verbs.violations import features_of, list_pairs


def clusters(bound: BoundJoin, limit: int | None) -> list[Cluster]:
    """Rows that look alike to the rule form a class; list for each left class all the right rows it conflicts with.

    At most `limit` clusters. Every left row of a cluster breaks the rule with every right row of it but itself.
    """
    left_classes, left = _classes(bound.left)
    right_classes, right = _classes(bound.right)
    # Classes are not rows: none of them is the same on both sides, whatever its number.
    right = replace(right, rows=right.rows + left.n_rows)
    classes = replace(bound, left=left, right=right, mirror=False, reflexive=False)
    counts = partners(classes)
    # A class of one row may only conflict with itself, which is no violation: look at a few more than the limit.
    places = np.flatnonzero(counts)[: None if limit is None else 2 * limit + 16]
    left_at, right_at = list_pairs(classes, places, int(counts[places].sum()))
    found: list[Cluster] = []
    by_left = np.argsort(left_at, kind="stable")
    left_numbers, starts = np.unique(left_at[by_left], return_index=True)
    for left_class, partner_classes in zip(left_numbers, np.split(right_at[by_left], starts[1:]), strict=False):
        left_rows = left_classes[left_class]
        right_rows = np.sort(np.concatenate([right_classes[which - left.n_rows] for which in partner_classes]))
        if left_rows.size == 1 and right_rows.size == 1 and left_rows[0] == right_rows[0]:
            continue
        found.append(Cluster(left_rows, right_rows))
        if limit is not None and len(found) == limit:
            break
    return found


def _classes(side: Side) -> tuple[list[Int64Array], Side]:
    """The rows of each class, and a side with one row, numbered from 0, for each class."""
    if side.n_rows == 0:
        return [], side
    _, first, members = np.unique(features_of(side), axis=1, return_index=True, return_inverse=True)
    by_class = np.argsort(members, kind="stable")
    ends = np.cumsum(np.bincount(members.ravel()))[:-1]
    return np.split(side.rows[by_class], ends), replace(side.take(first), rows=np.arange(first.size))
