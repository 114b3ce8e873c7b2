"""How often rows agree: in a join's key, and in each of its disequalities beside the key."""

from __future__ import annotations

from naysay.arrays import Int64Array
from naysay.kernels.group import count_equal_parts, count_equal_small, dense_groups, partition_keys
from naysay.plan.bind import BoundJoin, combine
from naysay.plan.cost import Agreement

# Leading hash bits by which keys are parted: 512 parts keep the tables of a million keys in the first cache.
_PART_BITS = 9


def small_keys(left: Int64Array, right: Int64Array, n_keys: int) -> tuple[Int64Array, Int64Array, int]:
    """The same keys in a range small enough for an array of counts."""
    if n_keys <= max(1 << 16, 4 * (left.size + right.size)):
        return left, right, n_keys
    if left is right:
        ids, _, n_groups = dense_groups(left, left[:0])
        return ids, ids, n_groups
    return dense_groups(left, right)


def count_equal(left: Int64Array, right: Int64Array, n_keys: int) -> int:
    """Count pairs of equal keys, rows with themselves included."""
    if n_keys <= max(1 << 12, left.size + right.size):
        return int(count_equal_small(left, right, n_keys))
    if left is not right:
        return int(count_equal_small(*small_keys(left, right, n_keys)))
    parted, starts = partition_keys(left, _PART_BITS)
    return int(count_equal_parts(parted, starts, 0, 1 << _PART_BITS))


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
