"""count: how many ordered pairs of distinct rows break the rule, without forming them."""

from __future__ import annotations

from naysay.detect.agreement import count_equal, small_keys
from naysay.detect.partners import MAX_COUNT, agreeing_keys, is_hard, partners, self_partners, total_of
from naysay.kernels.group import split_dependency
from naysay.plan.bind import BoundJoin
from naysay.table.codes import MAX_CODES


def count(bound: BoundJoin) -> int:
    """Count the violations of a bound join; CountOverflow beyond 64 bits."""
    n_left, n_right = bound.left.n_rows, bound.right.n_rows
    if not n_left or not n_right:
        return 0
    if bound.left.order or is_hard(bound) or n_left * n_right > MAX_COUNT:
        return total_of(partners(bound))
    if bound.mirror and len(bound.n_differs) == 1:
        return _count_dependency(bound)
    total = sum(sign * count_equal(left, right, n_keys) for sign, left, right, n_keys in agreeing_keys(bound))
    return total - int(self_partners(bound).sum()) if bound.reflexive else total


def _count_dependency(bound: BoundJoin) -> int:
    """One key and one disequality over one table: all pairs of a key minus those that agree."""
    keys, _, n_keys = small_keys(bound.left.key, bound.right.key, bound.n_keys)
    values, n_values = bound.left.differs[0], bound.n_differs[0]
    if n_keys * n_values > MAX_CODES:
        values, _, n_values = small_keys(values, values, n_values)
    all_pairs, same_pairs, others = split_dependency(keys, values, n_keys, n_values)
    return int(all_pairs) - int(same_pairs) - count_equal(others, others, n_keys * n_values)
