"""verify: does the rule hold? One violation, or none."""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array
from naysay.detect.agreement import small_keys
from naysay.detect.partners import collapse_sides, partners
from naysay.kernels.group import table_bits
from naysay.kernels.joins.find import find_differing, find_repeated, find_two
from naysay.plan.bind import BoundJoin


def verify(bound: BoundJoin) -> tuple[int, int] | None:
    """Find a violation as (left row, right row), or None where the rule holds."""
    place = _left_in_conflict(bound)
    if place is None:
        return None
    right = partners_of(bound, place)[0]
    return int(bound.left.rows[place]), int(bound.right.rows[right])


def partners_of(bound: BoundJoin, place: int) -> Int64Array:
    """The places of all right rows that break the rule with the left row at `place`. O(n)."""
    left, right = bound.left, bound.right
    holds = (right.key == left.key[place]) & (right.rows != left.rows[place])
    for left_codes, right_codes in zip(left.order, right.order, strict=True):
        holds &= left_codes[place] < right_codes
    for left_codes, right_codes in zip(left.differs, right.differs, strict=True):
        holds &= left_codes[place] != right_codes
    return np.flatnonzero(holds)


def _left_in_conflict(bound: BoundJoin) -> int | None:
    """The place of some left row with a partner."""
    left, right = bound.left, bound.right
    if not left.n_rows or not right.n_rows:
        return None
    shape = (len(left.order), len(left.differs))
    if shape == (0, 0) and bound.mirror:
        return _found(find_repeated(left.key, table_bits(left.n_rows)))
    if bound.reflexive:
        return _first(partners(bound))
    if shape == (0, 1):
        left_key, right_key, n_keys = small_keys(left.key, right.key, bound.n_keys)
        return _found(find_differing(left_key, left.differs[0], right_key, right.differs[0], n_keys))
    if shape == (2, 0):
        left_side, right_side = collapse_sides(bound, left.key, right.key)
        point = find_two((left_side.key, left_side.x, left_side.y), (right_side.key, right_side.x, right_side.y))
        return None if point < 0 else int(left_side.places[left_side.starts[point]])
    return _first(partners(bound))


def _found(place: int) -> int | None:
    return None if place < 0 else int(place)


def _first(counts: Int64Array) -> int | None:
    places = np.flatnonzero(counts)
    return int(places[0]) if places.size else None
