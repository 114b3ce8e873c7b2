"""Updated covers equal covers from scratch: edges added, removed, or both, in one word and in two."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from naysay.arrays import UInt64Array
from naysay.discovery.outcomes import FieldKind
from naysay.discovery.space import Comparison
from naysay.discovery.vertices import VertexGroup, Vertices, sorted_unique
from naysay.evolve.covers import (
    Search,
    all_covers,
    find_missed,
    grow_broken,
    is_costly,
    members,
    places,
    shrink,
    update_covers,
)
from naysay.rule.model import Column, Row

# Fewer if kernels are not compiled.
N_PROBLEMS = 6 if os.environ.get("NAYSAY_PROFILE") == "mutation" else 60
# What an outcome fails, by kind of field: see `discovery.vertices`.
FAILED = {
    FieldKind.EQUALITY: (0b01, 0b10, 0b11),
    FieldKind.ORDER: (0b001, 0b010, 0b100, 0b111),
    FieldKind.ORDER_OR_NULL: (0b1001, 0b0010, 0b1100, 0b0111, 0b1101),
}


def random_vertices(rng: random.Random, n_groups: int) -> Vertices:
    groups = []
    first = 0
    for number in range(n_groups):
        kind = rng.choice(tuple(FieldKind))
        size = {FieldKind.EQUALITY: 2, FieldKind.ORDER: 3, FieldKind.ORDER_OR_NULL: 4}[kind]
        if first % 64 + size > 64:
            first += 64 - first % 64
        name = f"c{number}"
        groups.append(VertexGroup(Comparison(Column(Row.LEFT, name), Column(Row.RIGHT, name), True), kind, first))
        first += size
    return Vertices(tuple(groups))


def random_edges(rng: random.Random, vertices: Vertices, n_edges: int) -> UInt64Array:
    edges = [
        sum(rng.choice(FAILED[group.kind][:2]) << group.first for group in vertices.groups)
        if rng.random() < 0.7
        else sum(rng.choice(FAILED[group.kind]) << group.first for group in vertices.groups)
        for _ in range(n_edges)
    ]
    return sorted_unique(vertices.words(edges))


@pytest.mark.parametrize("n_groups", [2, 5, 8, 26])
def test_covers_of_a_change_equal_covers_from_scratch(n_groups: int) -> None:
    rng = random.Random(n_groups)
    for _ in range(N_PROBLEMS):
        vertices = random_vertices(rng, n_groups)
        max_predicates = rng.choice((None, 2, 3)) if n_groups < 20 else 2
        search = Search(vertices, max_predicates, rng.choice((1, 2)))
        n_edges = rng.choice((0, 1, 5, 30, 130)) if n_groups < 20 else 12
        edges = random_edges(rng, vertices, n_edges)
        covers = all_covers(edges, search)
        for _ in range(3):
            gone = edges[[place for place in range(len(edges)) if rng.random() < 0.2]]
            kept = edges[~members(edges, gone)]
            fresh = random_edges(rng, vertices, rng.choice((0, 1, 3, 20)))
            fresh = fresh[~members(fresh, edges)]
            after = sorted_unique(np.concatenate([kept, fresh]))
            expected = all_covers(after, search)
            assert np.array_equal(update_covers(covers, after, fresh, gone, search), expected)
            small = shrink(covers, kept, gone, search) if len(gone) else covers
            assert np.array_equal(small, all_covers(kept, search))
            missed = find_missed(small, fresh, search)
            new = (
                grow_broken(np.ascontiguousarray(small[missed >= 0]), kept, fresh, search) if len(fresh) else small[:0]
            )
            assert len(new) == len(sorted_unique(new)), "each cover is grown once"
            assert np.array_equal(sorted_unique(np.concatenate([small[missed < 0], new])), expected)
            edges, covers = after, expected


def test_places_of_rows_of_words() -> None:
    rng = np.random.default_rng(1)
    for n_words in (1, 2, 3):
        known = sorted_unique(rng.integers(0, 4, (50, n_words)).astype(np.uint64) << np.uint64(61))
        asked = rng.integers(0, 4, (30, n_words)).astype(np.uint64) << np.uint64(61)
        found = places(asked, known)
        for row, place in zip(asked, found, strict=True):
            here = np.flatnonzero((known == row).all(axis=1))
            assert place == (here[0] if here.size else -1)


def test_a_large_change_is_searched_from_scratch() -> None:
    assert is_costly(n_covers=1000, n_edges=10_000, n_broken=1_000_000, n_gone=0)
    assert is_costly(n_covers=1000, n_edges=10_000, n_broken=0, n_gone=100_000)
    assert not is_costly(n_covers=100_000, n_edges=100_000, n_broken=1000, n_gone=10)


def test_covers_of_many_vertices() -> None:
    """A search that starts from sixteen or more vertices had no space for what it knows about them, and lost covers."""
    rng = random.Random(3)
    names = [f"c{number}" for number in range(32)]
    vertices = Vertices(
        tuple(
            VertexGroup(
                Comparison(Column(Row.LEFT, name), Column(Row.RIGHT, name), False), FieldKind.EQUALITY, 2 * number
            )
            for number, name in enumerate(names)
        )
    )
    search = Search(vertices, None, 1)
    for n_needed in (15, 16, 20, 24):
        # In addition to the removed edge: some vertices on their own, which each cover needs, and edges of the others.
        needed = [1 << (2 * group) for group in range(n_needed)]
        others = [2 * group for group in range(n_needed, 31)]
        for _ in range(N_PROBLEMS // 2):
            edges = needed + [sum(1 << vertex for vertex in rng.sample(others, 3)) for _ in range(12)]
            kept = sorted_unique(vertices.words(edges))
            gone = sorted_unique(vertices.words([1 << 62, sum(1 << vertex for vertex in rng.sample(others, 2))]))
            gone = np.ascontiguousarray(gone[~members(gone, kept)])
            before = all_covers(sorted_unique(np.concatenate([kept, gone])), search)
            assert np.array_equal(shrink(before, kept, gone, search), all_covers(kept, search))
