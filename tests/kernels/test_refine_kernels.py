"""Refining pairs of clusters, as Hydra does, compared with looking at every pair; for any limit per call."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from naysay.kernels.evidence.refine import AT_MOST, DIFFERS, EQUAL, LESS, refine, refine_two

Pairs = set[tuple[int, int]]
_HOLDS = {EQUAL: int.__eq__, DIFFERS: int.__ne__, LESS: int.__lt__, AT_MOST: int.__le__}


def random_clusters(rng: random.Random, n_rows: int) -> tuple[np.ndarray, ...]:
    """Cluster pairs that share no row on either side: rows and starts on the left, then on the right."""
    n_pairs = rng.choice((1, 3))
    sides = []
    for _ in range(2):
        rows = rng.sample(range(n_rows), rng.randint(0, n_rows))
        cuts = sorted(rng.randint(0, len(rows)) for _ in range(n_pairs - 1))
        sides += [np.array(rows, np.int64), np.array([0, *cuts, len(rows)], np.int64)]
    return tuple(sides)


def pairs_of(
    rows: np.ndarray, starts: np.ndarray, others: np.ndarray, other_starts: np.ndarray
) -> list[tuple[int, int]]:
    assert len(starts) == len(other_starts)
    found = []
    for c in range(len(starts) - 1):
        left, right = rows[starts[c] : starts[c + 1]], others[other_starts[c] : other_starts[c + 1]]
        assert len(left) > 0
        assert len(right) > 0
        found += [(t, s) for t, s in product(left.tolist(), right.tolist()) if t != s]
    return found


def judge(clusters: tuple[np.ndarray, ...], refined: list[tuple[np.ndarray, ...]], expected: Pairs, limit: int) -> None:
    """Each pair once; a call ends when it has written as many rows as allowed, plus what one row or run adds."""
    found = [pair for part in refined for pair in pairs_of(*part)]
    assert len(found) == len(set(found))
    assert set(found) == expected
    longest = max(len(clusters[0]), len(clusters[2]))
    for left, _, right, _ in refined:
        assert len(left) + len(right) < limit + 2 * longest
    for left, _, right, _ in refined[:-1]:
        assert len(left) + len(right) >= limit


def clustered(clusters: tuple[np.ndarray, ...]) -> Pairs:
    rows, starts, others, other_starts = clusters
    return {
        (t, s)
        for c in range(len(starts) - 1)
        for t in rows[starts[c] : starts[c + 1]].tolist()
        for s in others[other_starts[c] : other_starts[c + 1]].tolist()
        if t != s
    }


@pytest.mark.parametrize("kind", [EQUAL, DIFFERS, LESS, AT_MOST])
@pytest.mark.parametrize("limit", [1, 7, 1 << 40])
def test_one_comparison(kind: int, limit: int) -> None:
    rng = random.Random(f"{kind} {limit}")
    for _ in range(25):
        n_rows = rng.choice((3, 12, 40))
        clusters = random_clusters(rng, n_rows)
        n_values = rng.choice((1, 3, 30))
        left, right = (np.array([rng.randrange(-1, n_values) for _ in range(n_rows)], np.int64) for _ in range(2))
        state, refined = np.zeros(2, np.int64), []
        while state[0] < len(clusters[1]) - 1:
            refined.append(refine(clusters, left, right, kind, state, limit))
        expected = {
            (t, s)
            for t, s in clustered(clusters)
            if left[t] >= 0 and right[s] >= 0 and _HOLDS[kind](int(left[t]), int(right[s]))
        }
        judge(clusters, refined, expected, limit)


@pytest.mark.parametrize("kinds", list(product((LESS, AT_MOST), repeat=2)))
@pytest.mark.parametrize("limit", [1, 7, 1 << 40])
def test_two_comparisons(kinds: tuple[int, int], limit: int) -> None:
    rng = random.Random(f"{kinds} {limit}")
    for _ in range(25):
        n_rows = rng.choice((3, 12, 90))
        clusters = random_clusters(rng, n_rows)
        n_values = rng.choice((1, 3, 30))
        left, right = (
            np.array([[rng.randrange(-1, n_values) for _ in range(n_rows)] for _ in range(2)], np.int64)
            for _ in range(2)
        )
        state, refined = np.zeros(2, np.int64), []
        while state[0] < len(clusters[1]) - 1:
            refined.append(refine_two(clusters, left, right, np.array(kinds), state, limit))
        expected = {
            (t, s)
            for t, s in clustered(clusters)
            if all(
                left[k, t] >= 0 and right[k, s] >= 0 and _HOLDS[kinds[k]](int(left[k, t]), int(right[k, s]))
                for k in range(2)
            )
        }
        judge(clusters, refined, expected, limit)
