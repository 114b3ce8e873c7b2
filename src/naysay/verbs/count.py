"""count: how many ordered pairs of distinct rows break the rule, without forming them."""

from __future__ import annotations

from naysay.kernels.group import count_equal_parts, count_equal_small, partition_keys, split_dependency
from naysay.plan.bind import BoundJoin
from naysay.table.codes import MAX_CODES, Int64Array
from naysay.verbs.partners import agreeing_keys, partners, self_partners, small_keys

# Leading hash bits by which keys are parted: 512 parts keep the tables of a million keys in the first cache.
_PART_BITS = 9


def count(bound: BoundJoin) -> int:
    """Count the violations of a bound join."""
    if not bound.left.n_rows or not bound.right.n_rows:
        return 0
    if bound.left.order:
        return int(partners(bound).sum())
    if bound.mirror and len(bound.n_differs) == 1:
        return _count_dependency(bound)
    total = sum(sign * _count_equal(left, right, n_keys) for sign, left, right, n_keys in agreeing_keys(bound))
    return total - int(self_partners(bound).sum()) if bound.reflexive else total


def _count_dependency(bound: BoundJoin) -> int:
    """One key and one disequality over one table: all pairs of a key minus those that agree."""
    keys, _, n_keys = small_keys(bound.left.key, bound.right.key, bound.n_keys)
    values, n_values = bound.left.differs[0], bound.n_differs[0]
    if n_keys * n_values > MAX_CODES:
        values, _, n_values = small_keys(values, values, n_values)
    all_pairs, same_pairs, others = split_dependency(keys, values, n_keys, n_values)
    return all_pairs - same_pairs - _count_equal(others, others, n_keys * n_values)


def _count_equal(left: Int64Array, right: Int64Array, n_keys: int) -> int:
    """Count pairs of equal keys, rows with themselves included."""
    if n_keys <= max(1 << 12, left.size + right.size):
        return int(count_equal_small(left, right, n_keys))
    if left is not right:
        return int(count_equal_small(*small_keys(left, right, n_keys)))
    parted, starts = partition_keys(left, _PART_BITS)
    return int(count_equal_parts(parted, starts, 0, 1 << _PART_BITS))
