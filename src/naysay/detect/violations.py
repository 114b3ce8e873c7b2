"""violations: which pairs break the rule, and which rows take part."""

from __future__ import annotations

import numpy as np

from naysay.arrays import MAX_CODES, Int64Array
from naysay.detect.partners import (
    MAX_COUNT,
    add_partners,
    agreeing_keys,
    breaks,
    collapse_sides,
    count_equal,
    is_hard,
    partners,
    self_partners,
    small_keys,
    sorted_once,
    that_may_meet,
    total_of,
)
from naysay.detect.points import count_dependency, count_grouped, join_points
from naysay.detect.strategy import PairBlock, Strategy
from naysay.kernels.joins.find import (
    find_differing,
    find_ordered_by_key,
    find_ordered_differing,
    find_ordered_pair,
    find_repeated,
    find_second_value,
    find_two,
    find_two_differs,
    find_two_orders,
)
from naysay.kernels.joins.grouped import group_rows
from naysay.kernels.sort import sorted_places, split_dependency, table_bits
from naysay.kernels.trees.zones import build_zones, list_partners
from naysay.plan.bind import BoundJoin, NoMemo, Side, combine

# With more possible keys for each row, rows are sorted: an array of counts by key would be slow to reach into.
_MANY_KEYS = 2


def count(bound: BoundJoin) -> int:
    """Count the violations of a bound join; CountOverflow beyond 64 bits."""
    bound = that_may_meet(bound)
    n_left, n_right = bound.left.n_rows, bound.right.n_rows
    if not n_left or not n_right:
        return 0
    if is_hard(bound) or n_left * n_right > MAX_COUNT:
        return total_of(partners(bound))
    if bound.mirror and len(bound.n_differs) == 1 and not bound.left.order:
        return _count_dependency(bound)
    if len(bound.left.order) == 2 and not bound.n_differs and not bound.reflexive:
        counted = count_grouped(bound)
        if counted is not None:
            return counted
    total = 0
    for sign, left, right, n_keys in agreeing_keys(bound):
        total += sign * _count_under(bound, left, right, n_keys)
    return total - int(self_partners(bound).sum()) if bound.reflexive else total


def _count_under(bound: BoundJoin, left_key: Int64Array, right_key: Int64Array, n_keys: int) -> int:
    """Count the pairs of equal keys that satisfy all orders, at most two of them; rows with themselves included."""
    if not bound.left.order:
        return count_equal(left_key, right_key, n_keys)
    if len(bound.left.order) == 1 and left_key is right_key and bound.left.order[0] is bound.right.order[0]:
        return _count_either_way(bound.left.order[0], left_key, n_keys)
    points = join_points(bound, left_key, right_key, n_keys)
    total = None if points is None else points.count()
    if total is not None:
        return total
    counts = np.zeros(bound.left.n_rows, np.int64)
    add_partners(bound, left_key, right_key, n_keys, 1, counts)
    return total_of(counts)


def _count_either_way(codes: Int64Array, key: Int64Array, n_keys: int) -> int:
    """One order of one column: two rows of a key that differ in it satisfy the order one way round."""
    low = int(codes.min())
    values, n_values = codes - low, int(codes.max()) - low + 1
    with_values, _, n_both = combine([(key, key, n_keys), (values, values, n_values)], key.size, NoMemo())
    return (count_equal(key, key, n_keys) - count_equal(with_values, with_values, n_both)) // 2


def _count_dependency(bound: BoundJoin) -> int:
    """One key and one disequality over one table: all pairs of a key minus those that agree."""
    values, n_values = bound.left.differs[0], bound.n_differs[0]
    if bound.n_keys > _MANY_KEYS * bound.left.n_rows:
        total = count_dependency(bound.left.key, bound.n_keys, values, n_values)
        if total is not None:
            return total
    keys, _, n_keys = small_keys(bound.left.key, bound.right.key, bound.n_keys)
    if n_keys * n_values > MAX_CODES:
        values, _, n_values = small_keys(values, values, n_values)
    all_pairs, same_pairs, others = split_dependency(keys, values, n_keys, n_values)
    return int(all_pairs) - int(same_pairs) - count_equal(others, others, n_keys * n_values)


def verify(bound: BoundJoin) -> tuple[int, int] | None:
    """Find a violation as (left row, right row), or None if the rule holds.

    The rows are in table order if they violate the rule both ways.
    """
    bound = that_may_meet(bound)
    place = _left_in_conflict(bound)
    if place is None:
        return None
    right = partners_of(bound, place)[0]
    pair = int(bound.left.rows[place]), int(bound.right.rows[right])
    return (min(pair), max(pair)) if bound.symmetric else pair


def partners_of(bound: BoundJoin, place: int) -> Int64Array:
    """The places of all right rows that break the rule with the left row at `place`. O(n)."""
    left = bound.left.take(np.array([place]))
    return np.flatnonzero(breaks(left, bound.right) & (bound.right.rows != left.rows))


def _left_in_conflict(bound: BoundJoin) -> int | None:
    """The place of some left row with a partner."""
    left, right = bound.left, bound.right
    if not left.n_rows or not right.n_rows:
        return None
    shape = (len(left.order), len(left.differs))
    if shape == (0, 0) and bound.mirror:
        # Counting partitions the keys first, so that it beats one large hash table on a key that holds.
        if count_equal(left.key, left.key, bound.n_keys) == left.n_rows:
            return None
        return _found(find_repeated(left.key, table_bits(left.n_rows)))
    if shape == (0, 0):
        if not count(bound):
            return None
        values = np.zeros(left.n_rows, np.int64), np.ones(right.n_rows, np.int64)
        return _found(
            find_ordered_by_key((left.key, values[0], left.rows), (right.key, values[1], right.rows), False)[0]
        )
    if is_hard(bound):
        from naysay.detect.differing import find_differing_left

        return find_differing_left(bound)
    if shape == (1, 0):
        left_key, right_key, n_keys = small_keys(left.key, right.key, bound.n_keys)
        sides = (left_key, left.order[0], left.rows), (right_key, right.order[0], right.rows)
        return _found(find_ordered_pair(*sides, n_keys, False)[0])
    if shape == (0, 1) and bound.mirror:
        # As above: counting sorts the rows if there are many keys.
        if bound.n_keys > _MANY_KEYS * left.n_rows and not count(bound):
            return None
        key, _, n_keys = small_keys(left.key, left.key, bound.n_keys)
        return _found(find_second_value(key, left.differs[0], n_keys))
    if shape == (0, 1) and not bound.reflexive:
        left_key, right_key, n_keys = small_keys(left.key, right.key, bound.n_keys)
        return _found(find_differing(left_key, left.differs[0], right_key, right.differs[0], n_keys))
    if shape == (1, 1) and not bound.reflexive:
        left_key, right_key, n_keys = small_keys(left.key, right.key, bound.n_keys)
        sides = (left_key, left.order[0], left.differs[0]), (right_key, right.order[0], right.differs[0])
        return _found(find_ordered_differing(*sides, n_keys))
    if shape == (0, 2) and bound.mirror:
        key, _, n_keys = small_keys(left.key, left.key, bound.n_keys)
        return _found(find_two_differs(*group_rows(key, n_keys), *left.differs)[0])
    if shape == (2, 0) and not bound.reflexive:
        points = join_points(bound, left.key, right.key, bound.n_keys)
        if points is not None:
            return points.find()
        left_side, right_side = collapse_sides(bound, left.key, right.key)
        point = find_two((left_side.key, left_side.x, left_side.y), (right_side.key, right_side.x, right_side.y))
        return None if point < 0 else int(left_side.places[left_side.starts[point]])
    if shape == (2, 1) and bound.has_same_sides:
        x, y = left.order
        places = sorted_once(left.key, x, bound.memo)
        starts = np.flatnonzero(np.diff(left.key[places], prepend=-1, append=-1))
        return _found(find_two_orders(places, starts, (x, -y, left.differs[0]), True, True)[0])
    # Cheaper than the partners of each row, which a rule that holds never needs.
    return _first(partners(bound)) if count(bound) else None


def _found(place: int) -> int | None:
    return None if place < 0 else int(place)


def _first(counts: Int64Array) -> int | None:
    places = np.flatnonzero(counts)
    return int(places[0]) if places.size else None


def violations(bound: BoundJoin, limit: int | None, counts: Int64Array | None = None) -> PairBlock:
    """List violations, ascending by left row; with a limit, those of the first left rows.

    `counts` are the left rows' partners, if already known.
    """
    counts = partners(bound) if counts is None else counts
    total = total_of(counts)
    n_wanted = total if limit is None else min(limit, total)
    if n_wanted == 0:
        return PairBlock(np.empty(0, np.int64), np.empty(0, np.int64), total == 0)
    # Only the first left rows whose partners reach the limit are needed.
    places = np.flatnonzero(counts)
    n_left = int(np.searchsorted(np.cumsum(counts[places]), n_wanted)) + 1
    left, right = list_pairs(bound, places[:n_left], n_wanted)
    order = np.lexsort((right, left))
    return PairBlock(left[order], right[order], n_wanted == total)


def list_pairs(bound: BoundJoin, places: Int64Array, limit: int) -> tuple[Int64Array, Int64Array]:
    """Row numbers of the pairs that the given left rows form, at most `limit`, in no particular order."""
    if is_hard(bound):
        from naysay.detect.differing import list_compared

        return list_compared(bound, places, limit)
    right = bound.right
    order = tree_places(right)
    features = np.ascontiguousarray(features_of(right)[:, order])
    rows = np.ascontiguousarray(features_of(bound.left)[:, places].T)
    given = (rows, bound.left.rows[places]), (features, right.rows[order])
    left_at, right_at, _ = list_partners(*given, build_zones(features), len(right.order), limit)
    return bound.left.rows[places][left_at], right.rows[order][right_at]


def conflict_rows(bound: BoundJoin) -> Int64Array:
    """The rows that take part in any violation, on either side, ascending."""
    return conflict_counts(bound)[0]


def both_ways(bound: BoundJoin) -> bool:
    """Whether every violation occurs both ways round: the rule is symmetric, and the same rows are on both sides."""
    return bound.symmetric and (bound.mirror or np.array_equal(bound.left.rows, bound.right.rows))


def conflict_counts(
    bound: BoundJoin, counts: Int64Array | None = None, right_counts: Int64Array | None = None
) -> tuple[Int64Array, Int64Array]:
    """The rows in any violation, ascending, and for each the rows with which it breaks the rule, either way round.

    Two rows that break a symmetric rule do so once; any other rule that they break both ways round, twice.
    `counts` and `right_counts` are the left and the right rows' partners, if already known.
    """
    left, right = bound.left, bound.right
    counts = partners(bound) if counts is None else counts
    n_rows = 1 + max(left.rows.max(initial=-1), right.rows.max(initial=-1))
    sums = np.zeros(n_rows, np.int64)
    sums[left.rows] = counts
    if not both_ways(bound):
        sums[right.rows] += partners(bound.swapped()) if right_counts is None else right_counts
    rows = np.flatnonzero(sums)
    return rows, sums[rows]


def tree_places(side: Side) -> Int64Array:
    """The order of a side's rows in a tree of zones: by key, then by its first other part."""
    return sorted_places(side.key, (*side.order, *side.differs, side.key)[0])


def features_of(side: Side) -> Int64Array:
    """The codes of a side as the kernels of zones want them: [key, orders, differs] by row."""
    return np.stack((side.key, *side.order, *side.differs))


# To choose from: enough that a row with many partners does not crowd out all others.
_CANDIDATES = 2_000


def varied_pairs(
    bound: BoundJoin, counts: Int64Array, n_wanted: int, strategy: Strategy | None = None
) -> tuple[Int64Array, Int64Array]:
    """Choose violations to show: first pairs of rows not yet shown, then others. `counts`: the left rows' partners."""
    limit = max(_CANDIDATES, 2 * n_wanted) if n_wanted else 0
    found = violations(bound, limit, counts) if strategy is None else strategy.violations(bound, limit)
    left, right = found.left, found.right
    if bound.symmetric:
        # A pair that occurs both ways round is shown once, the smaller row left.
        left, right = np.minimum(left, right), np.maximum(left, right)
    pairs = dict.fromkeys(zip(left.tolist(), right.tolist(), strict=True))
    seen: set[int] = set()
    fresh: list[tuple[int, int]] = []
    for pair in pairs:
        if len(fresh) == n_wanted:
            break
        if seen.isdisjoint(pair):
            fresh.append(pair)
            seen.update(pair)
    chosen = set(fresh)
    rest = [pair for pair in pairs if pair not in chosen][: n_wanted - len(fresh)]
    taken = np.array([*fresh, *rest], np.int64).reshape(-1, 2)
    return taken[:, 0].copy(), taken[:, 1].copy()


# Nanoseconds per row, measured by benchmarks/cost.py: to count in no, one and two orders for each set of disequalities;
# to list a sample, to find the rows in conflict and those to remove, by the number of orders.
_COUNT = (50.0, 120.0, 260.0)
_CHECK = (300.0, 350.0, 700.0)
# If the rows to remove are only bounded, by a matching: per row and comparison from the third on, and at most in total.
_MATCHING, _LONGEST_MATCHING = 1800.0, 4e9


def count_seconds(bound: BoundJoin) -> float:
    """The time for an exact count. Looks at the data if there are many orders or disequalities. O(n)."""
    if is_hard(bound):
        from naysay.detect.differing import count_seconds as hard_seconds

        return hard_seconds(bound)
    n_rows = bound.left.n_rows if bound.mirror else bound.left.n_rows + bound.right.n_rows
    n_terms = 1 << len(bound.n_differs)
    return 1e-9 * n_rows * n_terms * _COUNT[len(bound.left.order)]


def check_seconds(bound: BoundJoin) -> float:
    """The time for everything a check says about a broken rule."""
    n_rows = bound.left.n_rows + (0 if bound.mirror else bound.right.n_rows)
    n_orders, n_differs = len(bound.left.order), len(bound.n_differs)
    partners = count_seconds(bound) * (1 if bound.symmetric and bound.mirror else 2)
    rest = n_rows * _CHECK[min(n_orders, len(_CHECK) - 1)]
    if not bound.mirror or (n_orders, n_differs) not in ((0, 0), (0, 1), (1, 0), (2, 0)):
        rest += min(n_rows * _MATCHING * max(1, n_orders + n_differs - 2), _LONGEST_MATCHING)
    return partners + 1e-9 * rest
