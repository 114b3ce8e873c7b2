"""How many partners each left row has: the one primitive behind counting and rows in conflict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from naysay.arrays import BoolArray, Int64Array
from naysay.errors import CountOverflow
from naysay.kernels.joins.partners import (
    add_partners_equal,
    add_to_rows,
    collapse_two,
    partners_many,
    partners_one,
    partners_two,
    ranks_within,
)
from naysay.kernels.sort import (
    count_equal_parts,
    count_equal_small,
    count_meeting_parts,
    dense_groups,
    partition_keys,
    sorted_places,
)
from naysay.plan.bind import BoundJoin, Memo, NoMemo, Side, combine
from naysay.plan.cost import Agreement

# Leading hash bits by which keys are partitioned: 512 parts keep the tables of a million keys in the first cache.
_PART_BITS = 9
# From this many orders or disequalities on, groups are compared all with all if that is cheaper.
_MANY = 3
MAX_COUNT = (1 << 63) - 1


def small_keys(left: Int64Array, right: Int64Array, n_keys: int) -> tuple[Int64Array, Int64Array, int]:
    """The same keys in a range small enough for an array of counts."""
    if n_keys <= max(1 << 16, 4 * (left.size + right.size)):
        return left, right, n_keys
    left_ids, right_ids, n_groups = dense_groups(left, left[:0] if left is right else right)
    return left_ids, left_ids if left is right else right_ids, n_groups


def count_equal(left: Int64Array, right: Int64Array, n_keys: int) -> int:
    """Count pairs of equal keys, rows with themselves included."""
    if n_keys <= max(1 << 12, left.size + right.size):
        return int(count_equal_small(left, right, n_keys))
    parted = partition_keys(left, _PART_BITS)
    if left is right:
        return int(count_equal_parts(*parted, 0, 1 << _PART_BITS))
    return int(count_meeting_parts(*parted, *partition_keys(right, _PART_BITS)))


def agreement(bound: BoundJoin) -> Agreement:
    """Count the pairs that agree in the key, and of these those that agree in each of the differs."""
    left, right = bound.left, bound.right
    key = (left.key, right.key, bound.n_keys)
    n_pairs = count_equal(*key)
    values = []
    for which, n_codes in enumerate(bound.n_differs):
        longer = combine([key, (left.differs[which], right.differs[which], n_codes)], left.n_rows, bound.memo)
        values.append(n_pairs / max(count_equal(*longer), 1))
    return Agreement(left.n_rows, right.n_rows, n_pairs, tuple(values))


def partners(bound: BoundJoin) -> Int64Array:
    """For each left row, the number of right rows with which it breaks the rule.

    A disequality never adds a dimension: pairs that differ are all pairs minus those that agree, over the subsets of
    the disequalities (inclusion and exclusion); see `differing` for many of them.
    """
    out = np.zeros(bound.left.n_rows, np.int64)
    meeting = that_may_meet(bound)
    if meeting is not bound:
        out[bound.left.places_of(meeting.left.rows)] = partners(meeting)
        return out
    if bound.left.n_rows and bound.right.n_rows and is_hard(bound):
        from naysay.detect.differing import partners_differing

        out = partners_differing(bound)
    elif bound.left.n_rows and bound.right.n_rows:
        for sign, left_key, right_key, n_keys in agreeing_keys(bound):
            add_partners(bound, left_key, right_key, n_keys, sign, out)
    if bound.reflexive:
        out[self_partners(bound)] -= 1
    return out


def that_may_meet(bound: BoundJoin) -> BoundJoin:
    """The join without rows that lie outside the range of the other side in some equality, if those are most. O(n)."""
    left, right = bound.left, bound.right
    if bound.mirror or not bound.equalities or not left.n_rows or not right.n_rows:
        return bound
    keep = [np.ones(side.n_rows, np.bool_) for side in (left, right)]
    for equal in bound.equalities:
        sides = zip(equal, (left, right), strict=True)
        codes = [codes if codes.size == side.n_rows else codes[side.rows] for codes, side in sides]
        ranges = [(mine.min(), mine.max()) for mine in codes]
        for kept, mine, own, (low, high) in zip(keep, codes, ranges, reversed(ranges), strict=True):
            if own[0] < low:
                kept &= mine >= low
            if own[1] > high:
                kept &= mine <= high
    if 2 * sum(map(np.count_nonzero, keep)) > left.n_rows + right.n_rows:
        return bound
    left, right = (side.take(np.flatnonzero(kept)) for side, kept in zip((left, right), keep, strict=True))
    return replace(bound, left=left, right=right, equalities=(), memo=NoMemo())


def total_of(counts: Int64Array) -> int:
    """The sum of the rows' partners, exactly; CountOverflow if 64 bits do not hold it."""
    highest = int(counts.max(initial=0))
    if highest * counts.size <= MAX_COUNT:
        return int(counts.sum())
    total = (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())
    if total > MAX_COUNT:
        raise CountOverflow(f"there are {total:,} violations, more than a 64-bit number holds")
    return total


def is_hard(bound: BoundJoin) -> bool:
    """Whether there are many orders or disequalities."""
    return max(len(bound.left.order), len(bound.n_differs)) >= _MANY


def agreeing_keys(bound: BoundJoin) -> Iterator[tuple[int, Int64Array, Int64Array, int]]:
    """For each subset of the disequalities: its sign, and the key joined with equality on that subset."""
    left, right = bound.left, bound.right
    n_differs = len(left.differs)
    for size in range(n_differs + 1):
        for subset in combinations(range(n_differs), size):
            differs = [(left.differs[which], right.differs[which], bound.n_differs[which]) for which in subset]
            key = (left.key, right.key, bound.n_keys)
            yield (-1) ** size, *combine([key, *differs], left.n_rows, bound.memo)


def self_partners(bound: BoundJoin) -> BoolArray:
    """Which left rows satisfy the whole rule with themselves, in a join that lets a row meet itself."""
    left, right = bound.left, bound.right
    if bound.mirror:
        return breaks(left, right)
    met = np.zeros(left.n_rows, np.bool_)
    _, at_left, at_right = np.intersect1d(left.rows, right.rows, assume_unique=True, return_indices=True)
    met[at_left] = breaks(left.take(at_left), right.take(at_right))
    return met


def breaks(left: Side, right: Side) -> BoolArray:
    """Whether the rows of the two sides break the rule, pair by pair; a side of one row is paired with every row."""
    holds: BoolArray = left.key == right.key
    for left_codes, right_codes in zip(left.order, right.order, strict=True):
        holds &= left_codes < right_codes
    for left_codes, right_codes in zip(left.differs, right.differs, strict=True):
        holds &= left_codes != right_codes
    return holds


@dataclass(frozen=True, slots=True)
class Collapsed:
    """One side of a join sorted by its key and first order, with equal neighbours collapsed into one point.

    `places` are the rows in that order; point i is places[starts[i]:starts[i + 1]] and has the code key[i] and x[i],
    y[i] in the first and the second order (y is x if there is no second).
    """

    key: Int64Array
    x: Int64Array
    y: Int64Array
    starts: Int64Array
    places: Int64Array


def collapse_sides(bound: BoundJoin, left_key: Int64Array, right_key: Int64Array) -> tuple[Collapsed, Collapsed]:
    """Sort and collapse both sides of a join with one or two orders; once, if they are the same arrays."""
    left = _collapse(left_key, bound.left.order, bound.memo)
    orders = zip(bound.left.order, bound.right.order, strict=True)
    if left_key is right_key and all(left_codes is right_codes for left_codes, right_codes in orders):
        return left, left
    return left, _collapse(right_key, bound.right.order, bound.memo)


def _collapse(key: Int64Array, order: tuple[Int64Array, ...], memo: Memo) -> Collapsed:
    places = sorted_once(key, order[0], memo)
    return Collapsed(*collapse_two(key, order[0], order[-1], places), places)


def sorted_once(key: Int64Array, codes: Int64Array, memo: Memo) -> Int64Array:
    """Sort by (key, codes), unless another rule of the same check has."""
    return memo.get("sorted", (key, codes), lambda: sorted_places(key, codes))


def add_partners(
    bound: BoundJoin, left_key: Int64Array, right_key: Int64Array, n_keys: int, sign: int, out: Int64Array
) -> None:
    """Add `sign` times the partners under the given key to each left row, by the number of orders."""
    n_orders = len(bound.left.order)
    if n_orders == 0:
        left_key, right_key, n_keys = small_keys(left_key, right_key, n_keys)
        add_partners_equal(left_key, right_key, n_keys, sign, out)
    elif n_orders <= 2:
        left, right = collapse_sides(bound, left_key, right_key)
        if n_orders == 1:
            counts = partners_one(left.key, left.x, right.key, right.x, right.starts)
        else:
            counts = _partners_two(left, right)
        add_to_rows(counts, left.starts, left.places, sign, out)
    else:
        left_places = sorted_once(left_key, bound.left.order[0], bound.memo)
        same = left_key is right_key and bound.left.order[0] is bound.right.order[0]
        right_places = left_places if same else sorted_once(right_key, bound.right.order[0], bound.memo)
        left_orders = np.stack([codes[left_places] for codes in bound.left.order])
        right_orders = np.stack([codes[right_places] for codes in bound.right.order])
        out[left_places] += sign * partners_many(
            left_key[left_places], left_orders, right_key[right_places], right_orders
        )


def _partners_two(left: Collapsed, right: Collapsed) -> Int64Array:
    if left is right:
        none = left.key[:0]
        left_ranks, _, n_ranks = ranks_within(left.key, none, sorted_places(left.key, left.y), left.y, none)
        right_ranks = left_ranks
    else:
        places = sorted_places(np.concatenate((left.key, right.key)), np.concatenate((left.y, right.y)))
        left_ranks, right_ranks, n_ranks = ranks_within(left.key, right.key, places, left.y, right.y)
    return partners_two((left.key, left.x, left_ranks), (right.key, right.x, right_ranks), right.starts, n_ranks)
