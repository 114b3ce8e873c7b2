"""Kernels called directly, on small inputs that reach what random small tables do not, beside brute force."""

from __future__ import annotations

import numpy as np
import pytest

from naysay.kernels.dual_tree import AT_MOST, DIFFERS, LESS, build_tree, find_pair
from naysay.kernels.partners import partners_many


@pytest.mark.parametrize("n_orders", [1, 2, 3, 4])
@pytest.mark.parametrize("n_values", [2, 9, 1000])
def test_partners_in_many_orders(n_orders: int, n_values: int) -> None:
    """More pairs than are compared one by one, so that they are divided; over few values, so that there are ties."""
    rng = np.random.default_rng(n_orders * 10 + n_values)
    for n_keys, n_left, n_right in ((1, 70, 90), (2, 120, 80), (3, 4, 700)):
        sides = []
        for n_rows in (n_left, n_right):
            key, orders = rng.integers(0, n_keys, n_rows), rng.integers(0, n_values, (n_orders, n_rows))
            by = np.lexsort((orders[0], key))
            sides.append((key[by], np.ascontiguousarray(orders[:, by])))
        (left_key, left), (right_key, right) = sides
        holds = left_key[:, None] == right_key[None, :]
        for order in range(n_orders):
            holds &= left[order][:, None] < right[order][None, :]
        found = partners_many(left_key, left, right_key, right)
        assert found.tolist() == holds.sum(axis=1).tolist()


def test_pairs_of_two_trees() -> None:
    """Every kind of comparison, groups that stand on one side alone, and the least budget that is enough."""
    rng = np.random.default_rng(7)
    kept = broken = 0
    for turn in range(60):
        n_features, n_groups = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        kinds = rng.choice([LESS, AT_MOST, DIFFERS], n_features)
        n_values = int(rng.choice([1, 2, 5, 60]))
        sides = []
        for n_rows in rng.choice([0, 1, 5, 20, 45], 2):
            features = rng.integers(0, n_values, (n_features, n_rows))
            # Most of the left values are the greater ones, so that there is not always a pair.
            if not sides and turn % 2:
                features += n_values - 1
            groups = np.sort(rng.integers(0, n_groups, n_rows))
            order = rng.permutation(n_rows)
            order = order[np.argsort(groups, kind="stable")] if n_rows else order
            starts = np.searchsorted(groups, np.arange(n_groups + 1))
            group_of = np.empty(n_rows, np.int64)
            group_of[order] = groups
            sides.append((features, order, rng.integers(0, 30, n_rows), build_tree(features, order, starts), group_of))
        (left, left_order, left_id, left_tree, left_group), (right, right_order, right_id, right_tree, right_group) = (
            sides
        )
        holds = (left_group[:, None] == right_group[None, :]) & (left_id[:, None] != right_id[None, :])
        for f, kind in enumerate(kinds):
            t, s = left[f][:, None], right[f][None, :]
            holds &= (t < s, t <= s, t != s)[kind]
        given = (left, right), (left_order, right_order), (left_id, right_id), left_tree, right_tree, kinds
        found = find_pair(*given, 1 << 40)
        assert found == (-1, -1) if not holds.any() else holds[found]
        kept += not holds.any()
        broken += bool(holds.any())
        enough = next(budget for budget in range(1 << 20) if find_pair(*given, budget) != (-2, -2))
        assert find_pair(*given, enough) == found
        assert left.shape[1] * right.shape[1] == 0 or enough > 0
    assert min(kept, broken) > 10


def test_one_look_is_enough_for_two_rows() -> None:
    one, places, starts = np.array([[3]]), np.array([0]), np.array([0, 1])
    tree = build_tree(one, places, starts)
    given = (one, one + 1), (places, places), (np.array([0]), np.array([1])), tree, build_tree(one + 1, places, starts)
    assert find_pair(*given, np.array([LESS]), 1) == (0, 0)
    assert find_pair(*given, np.array([LESS]), 0) == (-2, -2)
