"""Many disequalities: every way to divide them gives the same partners as comparing all pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from naysay.budget import Budget, use_budget
from naysay.detect import differing
from naysay.detect.partners import partners
from naysay.detect.violations import count
from naysay.plan.bind import BoundJoin, Side


def bound_of(rng: np.random.Generator, n_rows: int, n_orders: int, n_values: list[int], *, mirror: bool) -> BoundJoin:
    def side(first: int) -> Side:
        return Side(
            np.arange(first, first + n_rows),
            rng.integers(0, 3, n_rows),
            tuple(rng.integers(-4, 5, n_rows) for _ in range(n_orders)),
            tuple(rng.integers(0, n, n_rows) for n in n_values),
        )

    left = side(0)
    right = Side(left.rows, left.key, tuple(2 * codes + 1 for codes in left.order), left.differs)
    if mirror and n_orders:
        left = Side(left.rows, left.key, tuple(2 * codes for codes in left.order), left.differs)
    return BoundJoin(left, right if mirror else side(n_rows), 3, tuple(n_values), mirror, mirror, False)


def brute_force(bound: BoundJoin) -> np.ndarray:
    left, right = bound.left, bound.right
    holds = left.key[:, None] == right.key[None, :]
    for one, other in zip(left.order, right.order, strict=True):
        holds &= one[:, None] < other[None, :]
    for one, other in zip(left.differs, right.differs, strict=True):
        holds &= one[:, None] != other[None, :]
    return (holds & (left.rows[:, None] != right.rows[None, :])).sum(axis=1)


@pytest.mark.parametrize("limit", [None, 0.0, 1.0, 3.0])
@pytest.mark.parametrize("collapsing", [0.0, 1.0])
def test_however_divided(monkeypatch: pytest.MonkeyPatch, limit: float | None, collapsing: float) -> None:
    if limit is not None:
        monkeypatch.setattr(differing, "compare_limit", lambda *_: limit)
        monkeypatch.setattr(differing, "_FEW_PAIRS", 0)
    monkeypatch.setattr(differing, "_WORTH_COLLAPSING", collapsing)
    rng = np.random.default_rng(7)
    for n_orders in (0, 1, 2, 3):
        for n_values in ([2, 2, 2], [5, 2, 9, 3], [50, 2, 3, 4, 40]):
            for mirror in (False, True):
                bound = bound_of(rng, 60, n_orders, n_values, mirror=mirror)
                wanted = brute_force(bound)
                assert partners(bound).tolist() == wanted.tolist()
                assert count(bound) == wanted.sum()


@pytest.mark.parametrize("limit", [None, 0.0, 2.0])
def test_threads_share_the_groups(monkeypatch: pytest.MonkeyPatch, limit: float | None) -> None:
    if limit is not None:
        monkeypatch.setattr(differing, "compare_limit", lambda *_: limit)
    monkeypatch.setattr(differing, "_FEW_PAIRS", 0)
    monkeypatch.setattr(differing, "_ROWS_PER_THREAD", 1)
    rng = np.random.default_rng(8)
    for n_keys in (1, 2, 40):
        for mirror in (False, True):
            bound = bound_of(rng, 80, 3, [3, 4], mirror=mirror)
            sides = [replace(side, key=side.rows * 7 % n_keys) for side in (bound.left, bound.right)]
            bound = replace(bound, left=sides[0], right=sides[1], n_keys=n_keys)
            if mirror:
                bound = replace(bound, right=replace(bound.right, key=bound.left.key))
            with use_budget(Budget(threads=3)):
                assert partners(bound).tolist() == brute_force(bound).tolist()


def test_no_rows_on_a_side() -> None:
    bound = bound_of(np.random.default_rng(1), 5, 1, [2, 2, 2], mirror=False)
    none = bound.left.take(np.empty(0, np.int64))
    assert partners(BoundJoin(none, bound.right, 3, (2, 2, 2), False, False, False)).size == 0
    assert partners(BoundJoin(bound.left, none, 3, (2, 2, 2), False, False, False)).tolist() == [0] * 5


def test_twelve_of_a_large_table_that_no_key_divides() -> None:
    """Compared with hand-written inclusion and exclusion over the two columns that are not almost unique."""
    rng = np.random.default_rng(5)
    n_rows = 20_000
    wide = [rng.integers(0, 4_000, n_rows) for _ in range(10)]
    narrow = [rng.integers(0, 2, n_rows) for _ in range(2)]
    side = Side(np.arange(n_rows), np.zeros(n_rows, np.int64), (), (*wide, *narrow))
    found = partners(BoundJoin(side, side, 1, (4_000,) * 10 + (2, 2), False, True, True))
    for place in range(0, n_rows, 1_999):
        differs = np.ones(n_rows, bool)
        for codes in (*wide, *narrow):
            differs &= codes != codes[place]
        assert found[place] == differs.sum()


def test_no_pair_with_equal_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differing, "_FEW_PAIRS", 0)
    bound = bound_of(np.random.default_rng(1), 5, 1, [2, 2, 2], mirror=False)
    elsewhere = Side(bound.right.rows, bound.right.key + 3, bound.right.order, bound.right.differs)
    assert partners(BoundJoin(bound.left, elsewhere, 6, (2, 2, 2), False, False, False)).tolist() == [0] * 5
