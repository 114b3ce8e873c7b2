"""The cover kernels compared with enumeration: vertices in two words, many edges, many covers, deep searches."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from naysay.arrays import UNLIMITED, UInt64Array
from naysay.discovery.cover import Brake, minimal_covers, near_covers
from naysay.discovery.outcomes import FieldKind
from naysay.discovery.space import Comparison
from naysay.discovery.vertices import VertexGroup, Vertices, to_int
from naysay.kernels.covers.changing import (
    _next_missed,
    are_minimal,
    first_missed,
    grow_covers,
    missed_by_some,
    reduce_edges,
)
from naysay.kernels.covers.few import search_few
from naysay.kernels.covers.inversion import covers_of, insert_cover, invert
from naysay.kernels.covers.minimal import count_missed, count_near_misses, find_holders, search_covers
from naysay.kernels.covers.near import search_near_covers
from naysay.rule.model import Column, Row

_KINDS = (FieldKind.EQUALITY, FieldKind.ORDER, FieldKind.ORDER_OR_NULL)
_SIZES = {FieldKind.EQUALITY: 2, FieldKind.ORDER: 3, FieldKind.ORDER_OR_NULL: 4}


def vertices_at(firsts: list[int], kinds: list[FieldKind]) -> Vertices:
    return Vertices(
        tuple(
            VertexGroup(Comparison(Column(Row.LEFT, f"c{at}"), Column(Row.RIGHT, f"c{at}"), True), kind, at)
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
    """All minimal covers, adding edges one by one."""
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
        assert as_set(minimal_covers(given, vertices, max_groups=most)) == expected
        for search in (search_covers, search_few):
            control = np.zeros(2, np.int64)
            limits = np.array([most or UNLIMITED, UNLIMITED], np.int64)
            start = np.zeros(vertices.n_words, np.uint64)
            found = search(given, start, vertices.all(), (*vertices.tables(), limits, control))
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
    limits = np.array([UNLIMITED, UNLIMITED], np.int64)
    assert as_set(search_covers(given, start, vertices.all(), (*tables, limits, control))) == expected
    for search in (search_covers, search_few):
        control = np.zeros(2, np.int64)
        limits = np.array([UNLIMITED, 10], np.int64)
        some = as_set(search(given, start, vertices.all(), (*tables, limits, control)))
        assert len(some) == 10
        assert some < expected
        assert control.tolist() == [1, 10]


def test_an_edge_of_more_vertices_than_a_word_has() -> None:
    firsts = [place for place in range(0, 124, 4) if place % 64 <= 60]
    vertices = vertices_at(firsts, [FieldKind.ORDER] * len(firsts))
    edges = [to_int(vertices.all())]
    expected = enumerated(edges, vertices, None)
    assert len(expected) > 70
    assert as_set(minimal_covers(vertices.words(edges), vertices)) == expected
    assert as_set(near_covers(vertices.words(edges), np.array([3]), vertices, 2)) == expected


def test_many_edges_of_which_each_member_owns_few() -> None:
    """More than 1,024 edges, and so many per vertex that the stored ones run out and others must be searched."""
    rng = random.Random(3)
    vertices = vertices_at([0, 4, 8, 62, 64, 68], [FieldKind.EQUALITY] * 6)
    places = [group.first + k for group in vertices.groups for k in range(2)]
    edges = set()
    while len(edges) < 150:
        edges.add(sum(1 << place for place in rng.sample(places, 6)))
    expected = enumerated(sorted(edges), vertices, None)
    assert len(expected) > 30
    # Edges that contain another one change nothing: a few hundred of them, and every edge ten times.
    for given in (sorted(edges), sorted(edges) * 8):
        rng.shuffle(given)
        found = search_covers(
            vertices.words(given),
            np.zeros(2, np.uint64),
            vertices.all(),
            (*vertices.tables(), np.array([UNLIMITED, UNLIMITED], np.int64), np.zeros(2, np.int64)),
        )
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
            expected = near_by_trying(edges, counts, vertices, most, max_groups)
            assert as_set(found) == expected
            # Small problems are expanded level by level to the end; this tests the search itself, from the beginning.
            heavy_first = sorted(range(len(edges)), key=lambda place: -counts[place])
            control = np.zeros(2, np.int64)
            found = search_near_covers(
                vertices.words([edges[place] for place in heavy_first]),
                np.array([counts[place] for place in heavy_first], np.int64),
                np.zeros(vertices.n_words, np.uint64),
                vertices.all(),
                (*vertices.tables(), np.array([max_groups or UNLIMITED, UNLIMITED, 64, most], np.int64), control),
            )
            assert as_set(found) == expected
            assert control.tolist() == [0, len(expected)]


def test_near_covers_deeper_than_there_was_room_for() -> None:
    """Twelve edges of which two may be missed: covers of ten vertices, more than the initial capacity."""
    vertices = vertices_at([8 * place + 2 * k for place in range(4) for k in range(3)], [FieldKind.EQUALITY] * 12)
    edges = vertices.words([1 << group.first for group in vertices.groups])
    limits = np.array([UNLIMITED, UNLIMITED, 64, 2], np.int64)
    given = np.zeros(1, np.uint64), vertices.all(), (*vertices.tables(), limits, np.zeros(2, np.int64))
    found = search_near_covers(edges, np.ones(12, np.int64), *given)
    assert len(as_set(found)) == 66
    assert {cover.bit_count() for cover in as_set(found)} == {10}
    edges = np.repeat(edges, 6, axis=0)
    found = search_near_covers(edges, np.ones(72, np.int64), *given)
    assert as_set(found) == {to_int(np.bitwise_or.reduce(edges))}
    vertices = vertices_at(list(range(0, 60, 4)), [FieldKind.EQUALITY] * 15)
    edges = vertices.words([1 << group.first for group in vertices.groups])
    limits = np.array([UNLIMITED, UNLIMITED, 64, 3], np.int64)
    given = np.zeros(1, np.uint64), vertices.all(), (*vertices.tables(), limits, np.zeros(2, np.int64))
    found = search_near_covers(edges, np.ones(15, np.int64), *given)
    assert len(as_set(found)) == 455


def test_a_limit_on_near_covers() -> None:
    firsts = list(range(0, 56, 8))
    vertices = vertices_at(firsts, [FieldKind.ORDER] * 7)
    edges = vertices.words([0b101 << first for first in firsts])
    brake = Brake(max_covers=10)
    found = near_covers(edges, np.full(7, 5, np.int64), vertices, 4, brake=brake)
    assert brake.stopped
    assert 10 <= len(as_set(found)) < 128


def trie_of(covers: list[int], vertices: Vertices, room: int) -> tuple[np.ndarray, int]:
    nodes, n_nodes = np.zeros((room, 4), np.int64), 1
    nodes[0] = (-1, -1, -1, 0)
    for cover in vertices.words(covers):
        nodes, n_nodes = insert_cover(nodes, n_nodes, cover)
    return nodes, n_nodes


@pytest.mark.parametrize("seed", range(8))
def test_inversion_equals_enumeration(seed: int) -> None:
    """Hydra's trie of covers, edge by edge, with a tiny initial capacity; their number is reported throughout."""
    rng = random.Random(seed)
    firsts = [0, 5, 60, 64, 70] if seed % 2 else [60, 64, 124]
    vertices = vertices_at(firsts, [rng.choice(_KINDS) for _ in firsts])
    for most in (None, 1, 2):
        edges = random_edges(rng, vertices, 12, (2, 3, 4))
        nodes, n_nodes = trie_of([1 << v for v in range(128) if edges[0] >> v & 1], vertices, 2)
        assert nodes[0, 3] == edges[0].bit_count()
        control, limits = np.zeros(2, np.int64), np.array([most or UNLIMITED, UNLIMITED], np.int64)
        for n_edges in range(2, 13):
            given = vertices.words(edges[n_edges - 1 : n_edges])
            nodes, n_nodes = invert(given, nodes, n_nodes, (*vertices.tables(), limits, control))
            expected = enumerated(edges[:n_edges], vertices, most)
            assert as_set(covers_of(nodes.copy(), vertices.n_words)) == expected
            assert control.tolist() == [0, len(expected)]
        assert covers_of(nodes, vertices.n_words).shape[0] == len(expected)
        assert nodes[0, 3] == 0


def test_inversion_stops_where_there_are_too_many_covers() -> None:
    vertices = vertices_at([0, 8, 16, 24], [FieldKind.ORDER] * 4)
    edges = [0b101 << 8 * place for place in range(4)]
    for most, n_covers in ((7, 8), (8, 16), (100, 16)):
        nodes, n_nodes = trie_of([1, 4], vertices, 64)
        control, limits = np.zeros(2, np.int64), np.array([UNLIMITED, most], np.int64)
        invert(vertices.words(edges[1:]), nodes, n_nodes, (*vertices.tables(), limits, control))
        assert control.tolist() == [int(n_covers > most), n_covers]


@pytest.mark.parametrize("seed", range(10))
def test_covers_that_grow_and_shrink(seed: int) -> None:
    """The kernels of `evolve`, one by one: what misses, what grows, what is still minimal, and what remains."""
    rng = random.Random(seed)
    firsts = [5, 60, 64, 70] if seed % 2 else [60, 64, 124]
    vertices = vertices_at(firsts, [rng.choice(_KINDS) for _ in firsts])
    tables, every = vertices.tables(), vertices.all()
    order = np.array([v for v in range(128) if to_int(every) >> v & 1], np.int64)
    for n_edges, n_fresh, most in product((0, 3, 70), (1, 4, 66), (None, 2)):
        sizes = (1, 2, 3) if n_edges < 70 else (3, 4, 5)
        edges, fresh = (sorted(set(random_edges(rng, vertices, n, sizes))) for n in (n_edges, n_fresh))
        fresh = [edge for edge in fresh if edge not in edges] or [0b11 << firsts[0]]
        limits = np.array([most or UNLIMITED, UNLIMITED], np.int64)
        words, fresh_words = vertices.words(edges), vertices.words(fresh)
        holders = find_holders(words, 1)
        before = sorted(enumerated(edges, vertices, most))
        after = enumerated(edges + fresh, vertices, most)
        covers = vertices.words(before)
        missed = first_missed(covers, len(fresh), find_holders(fresh_words, 1)).tolist()
        gaps = [[place for place, edge in enumerate(fresh) if not cover & edge] for cover in before]
        assert missed == [min(places, default=-1) for places in gaps]
        some = missed_by_some(covers, len(fresh), find_holders(fresh_words, 1))
        assert np.flatnonzero(some).tolist() == sorted({place for places in gaps for place in places})
        control = np.zeros(2, np.int64)
        grown = grow_covers(words, holders, fresh_words, covers, order, every, (*tables, limits, control))
        # A cover is grown from each of the old ones that it holds as the vertices that it still needs; but once.
        assert as_set(grown) == after
        assert control.tolist() == [0, len(after)]
        if len(after) > 2:
            control, fewer = np.zeros(2, np.int64), np.array([limits[0], 2], np.int64)
            grown = grow_covers(words, holders, fresh_words, covers, order, every, (*tables, fewer, control))
            assert as_set(grown) < after
            assert control.tolist() == [1, 2]
        asked = sorted(after)
        minimal = are_minimal(words, holders, vertices.words(asked), order)
        assert minimal.tolist() == [
            all(any(edge & cover == 1 << v for edge in edges) for v in range(128) if cover >> v & 1) for cover in asked
        ]
        for gone in fresh[:3]:
            parts, needed, allowed, possible = reduce_edges(
                words, holders, vertices.words([gone])[0], every, (*tables, limits, control)
            )
            assert possible or len(parts) == 0
            found = set()
            if possible:
                found = as_set(search_covers(parts, needed, allowed, (*tables, limits, np.zeros(2, np.int64))))
            assert found == {cover for cover in before if not cover & gone}


@pytest.mark.parametrize("seed", range(4))
def test_edges_that_are_missed_and_nearly_missed(seed: int) -> None:
    rng = random.Random(seed)
    firsts = [0, 5, 60, 64, 70]
    vertices = vertices_at(firsts, [rng.choice(_KINDS) for _ in firsts])
    edges, covers = random_edges(rng, vertices, 40, (1, 2, 3, 5)), random_edges(rng, vertices, 30, (1, 2, 3, 5))
    counts = [rng.randint(1, 9) for _ in edges]
    given = vertices.words(edges), np.array(counts, np.int64), vertices.words(covers)
    weights = [[count for edge, count in zip(edges, counts, strict=True) if not edge & cover] for cover in covers]
    assert count_missed(*given, UNLIMITED).tolist() == [sum(weight) for weight in weights]
    for enough in (0, 5, 50):
        for found, weight in zip(count_missed(*given, enough).tolist(), weights, strict=True):
            assert found == sum(weight) if sum(weight) <= enough else enough < found <= sum(weight)
    near = count_near_misses(*given, *vertices.tables())
    for cover, line, weight in zip(covers, near.tolist(), weights, strict=True):
        only = [
            sum(
                c
                for edge, c in zip(edges, counts, strict=True)
                if edge & cover and not edge & cover & ~group.mask and edge & group.mask != group.mask
            )
            for group in vertices.groups
        ]
        assert line == [*only, sum(weight)]


def test_the_next_missed_edge_among_many() -> None:
    """Over several words: from any position to the next edge that nothing hits, with those hit once on the way."""
    rng = np.random.default_rng(6)
    for n_edges in (1, 64, 65, 150):
        fresh = rng.integers(1, 1 << 40, (n_edges, 1)).astype(np.uint64)
        for share in (0.5, 0.99, 1.0):
            hits = np.where(rng.random(n_edges) < share, rng.integers(1, 3, n_edges), 0)
            padded = np.zeros(-(-n_edges // 64) * 64, np.int64)
            padded[:n_edges] = hits
            once, twice = (np.packbits(padded >= k, bitorder="little").view(np.uint64) for k in (1, 2))
            for place in {0, n_edges // 2, n_edges - 1}:
                stop = next((k for k in range(place, n_edges) if not hits[k]), n_edges)
                own = np.zeros((n_edges + 1, 1), np.uint64)
                found, end = _next_missed(fresh, once, twice, place, own, 1)
                assert found == stop
                assert own[1:end, 0].tolist() == [int(fresh[k, 0]) for k in range(place, stop) if hits[k] == 1]
