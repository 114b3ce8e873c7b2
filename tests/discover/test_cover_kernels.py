"""The kernels of covers beside enumeration: vertices in two words, many edges, many covers, deep searches."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from naysay.discovery.cover import Brake, minimal_covers, near_covers
from naysay.discovery.outcomes import FieldKind
from naysay.discovery.space import Comparison
from naysay.discovery.vertices import Group, UInt64Array, Vertices, to_int
from naysay.kernels.cover import search_covers
from naysay.rule.model import Column, Row

_KINDS = (FieldKind.EQUALITY, FieldKind.ORDER, FieldKind.ORDER_OR_NULL)
_SIZES = {FieldKind.EQUALITY: 2, FieldKind.ORDER: 3, FieldKind.ORDER_OR_NULL: 4}
_UNLIMITED = 1 << 62


def vertices_at(firsts: list[int], kinds: list[FieldKind]) -> Vertices:
    return Vertices(
        tuple(
            Group(Comparison(Column(Row.LEFT, f"c{at}"), Column(Row.RIGHT, f"c{at}"), True), kind, at)
            for at, kind in zip(firsts, kinds, strict=True)
        )
    )


def may_stand(vertices: Vertices, cover: int) -> bool:
    """By the tables that the kernels are given: no vertex is forbidden by the others of its group."""
    _, tables = vertices.tables()
    for group, line in zip(vertices.groups, tables.tolist(), strict=True):
        chosen = cover >> group.first & line[1]
        for place in range(group.size):
            if chosen >> place & 1 and line[2 + (chosen & ~(1 << place))] >> place & 1:
                return False
    return True


def n_groups(vertices: Vertices, cover: int) -> int:
    return sum(cover & group.mask != 0 for group in vertices.groups)


def enumerated(edges: list[int], vertices: Vertices, most: int | None) -> set[int]:
    """All minimal covers by multiplying edges in one by one."""
    covers = {0}
    for edge in edges:
        wider = {cover for cover in covers if cover & edge}
        for cover in covers - wider:
            wider |= {cover | 1 << vertex for vertex in range(edge.bit_length()) if edge >> vertex & 1}
        covers = {cover for cover in wider if not any(part != cover and part & cover == part for part in wider)}
    return {
        cover for cover in covers if may_stand(vertices, cover) and (most is None or n_groups(vertices, cover) <= most)
    }


def random_edges(rng: random.Random, vertices: Vertices, n_edges: int, sizes: tuple[int, ...]) -> list[int]:
    places = [group.first + k for group in vertices.groups for k in range(group.size)]
    return [sum(1 << place for place in rng.sample(places, rng.choice(sizes))) for _ in range(n_edges)]


def as_set(covers: UInt64Array) -> set[int]:
    found = [to_int(cover) for cover in covers]
    assert len(found) == len(set(found)), "each cover once"
    return set(found)


@pytest.mark.parametrize("seed", range(12))
def test_covers_equal_enumeration(seed: int) -> None:
    rng = random.Random(seed)
    firsts = [0, 5, 60, 64, 70] if seed % 2 else [60, 64, 124]
    vertices = vertices_at(firsts, [rng.choice(_KINDS) for _ in firsts])
    for n_edges, most in product((0, 1, 6, 20), (None, 1, 2)):
        edges = random_edges(rng, vertices, n_edges, (1, 2, 3, 4) if n_edges < 20 else (2, 3, 4))
        expected = enumerated(edges, vertices, most)
        given = vertices.words(edges)
        assert as_set(minimal_covers(given, vertices, max_groups=most, n_threads=1)) == expected
        control = np.zeros(2, np.int64)
        limits = np.array([most or _UNLIMITED, _UNLIMITED], np.int64)
        start = np.zeros(vertices.n_words, np.uint64)
        found = search_covers(given, start, vertices.all(), *vertices.tables(), limits, control)
        assert as_set(found) == expected
        assert control.tolist() == [0, len(expected)]


def test_more_covers_than_there_was_room_for() -> None:
    """Seven pairs of vertices: 128 covers, as deep as there are groups; and a limit on their number."""
    firsts = list(range(0, 56, 8))
    vertices = vertices_at(firsts, [FieldKind.ORDER] * 7)
    edges = [0b101 << first for first in firsts]
    expected = enumerated(edges, vertices, None)
    assert len(expected) == 128
    given, tables, start = vertices.words(edges), vertices.tables(), np.zeros(1, np.uint64)
    control = np.zeros(2, np.int64)
    limits = np.array([_UNLIMITED, _UNLIMITED], np.int64)
    assert as_set(search_covers(given, start, vertices.all(), *tables, limits, control)) == expected
    control = np.zeros(2, np.int64)
    limits = np.array([_UNLIMITED, 10], np.int64)
    some = as_set(search_covers(given, start, vertices.all(), *tables, limits, control))
    assert len(some) == 10
    assert some < expected
    assert control.tolist() == [1, 10]


def test_many_edges_of_which_each_member_owns_few() -> None:
    """Beyond 1,024 edges, and so many to each vertex that those remembered are used up and others are looked for."""
    rng = random.Random(3)
    vertices = vertices_at([0, 4, 8, 62, 64, 68], [FieldKind.EQUALITY] * 6)
    places = [group.first + k for group in vertices.groups for k in range(2)]
    edges = set()
    while len(edges) < 150:
        edges.add(sum(1 << place for place in rng.sample(places, 6)))
    expected = enumerated(sorted(edges), vertices, None)
    assert len(expected) > 30
    # Edges that hold another one change nothing: a few hundred of them, and every edge ten times.
    for given in (sorted(edges), sorted(edges) * 8):
        rng.shuffle(given)
        found = search_covers(
            vertices.words(given), np.zeros(2, np.uint64), vertices.all(), *vertices.tables(),
            np.array([_UNLIMITED, _UNLIMITED], np.int64), np.zeros(2, np.int64),
        )  # fmt: skip
        assert as_set(found) == expected


def near_by_trying(
    edges: list[int], counts: list[int], vertices: Vertices, most: int, max_groups: int | None
) -> set[int]:
    places = [group.first + k for group in vertices.groups for k in range(group.size)]
    sets = [
        sum(1 << place for place, taken in zip(places, choice, strict=True) if taken)
        for choice in product((0, 1), repeat=len(places))
    ]
    near = {
        cover
        for cover in sets
        if sum(count for edge, count in zip(edges, counts, strict=True) if not edge & cover) <= most
    }
    minimal = {
        cover for cover in near if not any(cover & ~(1 << place) in near for place in places if cover >> place & 1)
    }
    return {
        cover
        for cover in minimal
        if may_stand(vertices, cover) and (max_groups is None or n_groups(vertices, cover) <= max_groups)
    }


@pytest.mark.parametrize("seed", range(10))
def test_near_covers_equal_trying_all(seed: int) -> None:
    rng = random.Random(seed)
    firsts = [0, 60, 64] if seed % 2 else [3, 8, 61]
    vertices = vertices_at(firsts, [rng.choice(_KINDS[:2]) for _ in firsts])
    for n_edges, max_groups in product((0, 1, 5, 70), (None, 1, 2)):
        edges = random_edges(rng, vertices, n_edges, (1, 2, 3))
        counts = [rng.choice((1, 1, 2, 5, 40)) for _ in edges]
        for most in (0, 1, 4, sum(counts) // 3, sum(counts)):
            found = near_covers(
                vertices.words(edges), np.array(counts, np.int64), vertices, most, max_groups=max_groups
            )
            assert as_set(found) == near_by_trying(edges, counts, vertices, most, max_groups)


def test_a_limit_on_near_covers() -> None:
    firsts = list(range(0, 56, 8))
    vertices = vertices_at(firsts, [FieldKind.ORDER] * 7)
    edges = vertices.words([0b101 << first for first in firsts])
    brake = Brake(max_covers=10)
    found = near_covers(edges, np.full(7, 5, np.int64), vertices, 4, brake=brake)
    assert brake.stopped
    assert 10 <= len(as_set(found)) < 128
