"""Refining pairs of clusters, as Hydra does, compared with looking at every pair; for any limit per call."""

from __future__ import annotations

import random
from itertools import pairwise, product

import numpy as np
import pytest

from naysay.kernels.evidence.refine import AT_MOST, BOTH, DIFFERS, EQUAL, LEFT, LESS, RIGHT, refine

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


def sides_of(rng: random.Random, n_rows: int, n_values: int, n_predicates: int) -> tuple[np.ndarray, np.ndarray]:
    """Lines of values and a last one whose bit k says that line k is null."""
    left, right = (
        np.array([[rng.randrange(n_values) for _ in range(n_rows)] for _ in range(n_predicates + 1)], np.int32)
        for _ in range(2)
    )
    for side in (left, right):
        side[-1] = [sum((rng.random() < 0.2) << k for k in range(n_predicates)) for _ in range(n_rows)]
    return left, right


def refined_by(
    clusters: tuple[np.ndarray, ...], sides: tuple[np.ndarray, np.ndarray], predicates: list[list[int]], limit: int
) -> list[tuple[np.ndarray, ...]]:
    state, refined = np.zeros(2, np.int64), []
    while state[0] < len(clusters[1]) - 1:
        refined.append(refine(clusters, sides, np.array(predicates, np.int64), state, limit))
    return refined


def expected_pairs(
    clusters: tuple[np.ndarray, ...], sides: tuple[np.ndarray, np.ndarray], predicates: list[list[int]]
) -> Pairs:
    left, right = sides
    return {
        (t, s)
        for t, s in clustered(clusters)
        if all(
            not (left[nulls, t] | right[nulls, s]) & bits
            and _HOLDS[kind](sign * int(left[line, t]), sign * int(right[line, s]))
            for line, kind, sign, nulls, bits, _ in predicates
        )
    }


@pytest.mark.parametrize("kinds", [(kind,) for kind in _HOLDS] + list(product((LESS, AT_MOST), repeat=2)))
@pytest.mark.parametrize("limit", [1, 7, 1 << 40])
def test_predicates(kinds: tuple[int, ...], limit: int) -> None:
    rng = random.Random(f"{kinds} {limit}")
    for _ in range(25):
        n_rows = rng.choice((3, 12, 40, 90))
        clusters = random_clusters(rng, n_rows)
        sides = sides_of(rng, n_rows, rng.choice((1, 3, 30)), len(kinds))
        bits = [rng.choice((0, 1 << line)) for line in range(len(kinds))]
        predicates = [
            [line, kind, rng.choice((1, -1)), len(kinds), bits[line], BOTH] for line, kind in enumerate(kinds)
        ]
        refined = refined_by(clusters, sides, predicates, limit)
        judge(clusters, refined, expected_pairs(clusters, sides, predicates), limit)


@pytest.mark.parametrize("kind", _HOLDS)
@pytest.mark.parametrize("about", [LEFT, RIGHT])
def test_filters_keep_the_other_cluster(kind: int, about: int) -> None:
    rng = random.Random(f"{kind} {about}")
    for _ in range(25):
        n_rows = rng.choice((3, 12, 40))
        clusters = random_clusters(rng, n_rows)
        sides = sides_of(rng, n_rows, 3, 1)
        constant = sides[1] if about == LEFT else sides[0]
        constant[0], constant[1] = 1, 0
        predicates = [[0, kind, 1, 1, 1, about]]
        refined = refined_by(clusters, sides, predicates, 1 << 40)
        judge(clusters, refined, expected_pairs(clusters, sides, predicates), 1 << 40)
        kept = {tuple(cluster) for cluster in split(*clusters[2:] if about == LEFT else clusters[:2])}
        for part in refined:
            assert {tuple(cluster) for cluster in split(*part[2:] if about == LEFT else part[:2])} <= kept


def split(rows: np.ndarray, starts: np.ndarray) -> list[list[int]]:
    return [rows[start:stop].tolist() for start, stop in pairwise(starts)]
