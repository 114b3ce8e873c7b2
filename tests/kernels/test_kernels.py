"""Kernels on sizes and ranges that random small tables do not reach."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from naysay.detect.violations import count, verify, violations
from naysay.kernels.sort import count_equal_parts, dense_groups, partition_keys, sorted_places, split_dependency
from naysay.kernels.trees.zones import LEAF_ROWS
from naysay.plan.bind import BoundJoin, Side


def bound_of(
    rng: np.random.Generator, n_left: int, n_right: int, n_orders: int, n_differs: int, n_keys: int
) -> BoundJoin:
    def side(n_rows: int, first: int) -> Side:
        return Side(
            np.arange(first, first + n_rows),
            rng.integers(0, n_keys, n_rows),
            tuple(rng.integers(0, 50, n_rows) for _ in range(n_orders)),
            tuple(rng.integers(0, 4, n_rows) for _ in range(n_differs)),
        )

    return BoundJoin(side(n_left, 0), side(n_right, n_left), n_keys, (4,) * n_differs, False, False, False)


def brute_force(bound: BoundJoin) -> np.ndarray:
    left, right = bound.left, bound.right
    holds = left.key[:, None] == right.key[None, :]
    for left_codes, right_codes in zip(left.order, right.order, strict=True):
        holds &= left_codes[:, None] < right_codes[None, :]
    for left_codes, right_codes in zip(left.differs, right.differs, strict=True):
        holds &= left_codes[:, None] != right_codes[None, :]
    return holds


@pytest.mark.parametrize("n_orders", range(6))
@pytest.mark.parametrize("n_differs", range(3))
def test_two_sides_of_hundreds_of_rows(n_orders: int, n_differs: int) -> None:
    rng = np.random.default_rng(n_orders * 10 + n_differs)
    for n_keys in (1, 3, 200):
        bound = bound_of(rng, 300, 700, n_orders, n_differs, n_keys)
        holds = brute_force(bound)
        assert count(bound) == holds.sum()
        witness = verify(bound)
        assert (witness is None) == (not holds.any())
        assert witness is None or holds[witness[0], witness[1] - 300]
        listed = violations(bound, None)
        assert sorted(zip(listed.left, listed.right - 300, strict=True)) == list(zip(*np.nonzero(holds), strict=True))


@pytest.mark.parametrize("n_rows", [LEAF_ROWS - 1, LEAF_ROWS, LEAF_ROWS + 1, 2 * LEAF_ROWS, 2 * LEAF_ROWS + 1])
def test_block_edges_of_the_tree_of_zones(n_rows: int) -> None:
    rng = np.random.default_rng(n_rows)
    bound = bound_of(rng, n_rows, n_rows, 2, 1, 2)
    listed = violations(bound, None)
    assert len(listed.left) == brute_force(bound).sum()


@pytest.mark.parametrize("bits", [1, 10, 11, 12, 31, 32, 33, 61, 62, 63])
def test_sort_over_ranges_of_all_widths(bits: int) -> None:
    rng = np.random.default_rng(bits)
    minor = rng.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1, 3_000, endpoint=True)
    for major in (np.zeros(3_000, np.int64), rng.integers(0, 7, 3_000), rng.integers(0, 1 << 40, 3_000)):
        assert np.array_equal(sorted_places(major, minor), np.lexsort((minor, major)))


def test_sort_of_none_and_one() -> None:
    assert sorted_places(np.empty(0, np.int64), np.empty(0, np.int64)).size == 0
    assert sorted_places(np.array([5]), np.array([7])).tolist() == [0]


@pytest.mark.parametrize("n_distinct", [1, 5, 5_000, 1 << 60])
def test_equal_keys_are_counted_whatever_their_number(n_distinct: int) -> None:
    keys = np.random.default_rng(1).integers(0, n_distinct, 20_000)
    _, counts = np.unique(keys, return_counts=True)
    parted, starts = partition_keys(keys, 9)
    assert count_equal_parts(parted, starts, 0, 512) == (counts**2).sum()
    groups, _, n_groups = dense_groups(keys, keys[:0])
    assert n_groups == counts.size
    assert len(np.unique(np.stack((groups, keys)), axis=1)[0]) == n_groups


def test_a_dependency_that_is_no_dependency() -> None:
    rng = np.random.default_rng(2)
    keys, values = rng.integers(0, 30, 5_000), rng.integers(0, 9, 5_000)
    all_pairs, same_pairs, others = split_dependency(keys, values, 30, 9)
    parted, starts = partition_keys(others, 1)
    agreeing = same_pairs + count_equal_parts(parted, starts, 0, 2)
    assert all_pairs == (np.bincount(keys) ** 2).sum()
    assert agreeing == (np.unique(keys * 9 + values, return_counts=True)[1] ** 2).sum()


def test_a_rule_that_every_pair_breaks_is_counted_beyond_32_bits() -> None:
    n_rows = 200_000
    side = Side(np.arange(n_rows), np.zeros(n_rows, np.int64), (), ())
    bound = BoundJoin(side, side, 1, (), True, True, True)
    assert count(bound) == n_rows * (n_rows - 1)
    listed = violations(bound, 10)
    assert (len(listed.left), listed.complete) == (10, False)


def test_orders_of_a_whole_table_without_a_key() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.permutation(100_000), rng.permutation(100_000)
    side = Side(np.arange(100_000), np.zeros(100_000, np.int64), (x, y), ())
    total = count(BoundJoin(side, side, 1, (), False, True, False))
    # In the order of x, the pairs that ascend in y: all pairs minus the inversions, counted by a merge sort.
    assert total == 100_000 * 99_999 // 2 - _inversions(y[np.argsort(x)])


def _inversions(values: np.ndarray) -> int:
    if values.size < 2:
        return 0
    left, right = np.sort(values[: values.size // 2]), np.sort(values[values.size // 2 :])
    across = int((left.size - np.searchsorted(left, right, side="right")).sum())
    return _inversions(values[: values.size // 2]) + _inversions(values[values.size // 2 :]) + across


def test_kernels_give_the_same_uncompiled() -> None:
    program = "import differential; print(next(differential.failures(iter(range(77_000, 77_060))), 'no failure'))"
    folder = Path(__file__).resolve().parents[1]
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.stdout.strip() == "no failure", answer.stdout + answer.stderr
