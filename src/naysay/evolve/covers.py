"""Covers kept current: they grow on edges that come and are sought again, close by, where edges went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import UNLIMITED, BoolArray, Int32Array, Int64Array, UInt64Array
from naysay.discovery.cover import Brake, minimal_covers
from naysay.discovery.outcomes import FieldKind, Layout
from naysay.discovery.problem import MOST_RULES
from naysay.discovery.vertices import Group, Vertices, _failed, sorted_unique
from naysay.discovery.work import Clock
from naysay.errors import ResourceError
from naysay.evolve.delta import check, run
from naysay.rule.model import Op, Predicate, Rule


def edge_of_each(codes: Int32Array, shape: Layout, vertices: Vertices) -> UInt64Array:
    """For each code the vertices that its pairs fail, in the order of the codes."""
    edges = np.zeros((len(codes), vertices.n_words), np.uint64)
    for field in shape.fields:
        if field.place is not None:
            group = vertices.groups[field.place]
            failed = _failed(codes[:, field.word], field).astype(np.uint64)
            edges[:, group.first // 64] |= failed << np.uint64(group.first % 64)
    return edges


def cover_of(rule: Rule, vertices: Vertices) -> int:
    """The vertices that a rule of the same space asks for: broken by just the pairs whose edges have none of them."""
    groups = {(group.comparison.left, group.comparison.right): group for group in vertices.groups}
    cover = 0
    for predicate in rule.predicates:
        cover |= _vertices_of(predicate, groups[predicate.left, predicate.right])  # type: ignore[index]
    return cover


def _vertices_of(predicate: Predicate, group: Group) -> int:
    for chosen in range(1, 1 << group.size):
        cover = chosen << group.first
        try:
            ops = group.ops(cover)
        except KeyError:
            continue
        if ops == (predicate.op,):
            return cover
    # Where nulls equal each other, `<=` and `>=` are two predicates of one comparison; each has a vertex.
    assert predicate.op is not Op.EQ or group.kind is not FieldKind.EQUALITY
    raise AssertionError(f"{predicate.op} says nothing of {group.comparison}")


Made = TypeVar("Made")
_TASK = 64


@dataclass(frozen=True, slots=True)
class Search:
    """What covers are made of, and how far to look: at most so many comparisons in a rule."""

    vertices: Vertices
    max_predicates: int | None
    n_threads: int

    @property
    def limits(self) -> Int64Array:
        return np.array([self.max_predicates or UNLIMITED, 2 * MOST_RULES], np.int64)


def all_covers(edges: UInt64Array, search: Search) -> UInt64Array:
    """All minimal covers, twins too, sorted. ResourceError where there are more than anybody could keep."""
    brake, clock = Brake(2 * MOST_RULES), Clock()
    covers = minimal_covers(
        edges, search.vertices, max_groups=search.max_predicates, n_threads=search.n_threads, brake=brake, clock=clock
    )
    check(clock)
    # Covers of the first levels of the search are not counted on the way.
    if len(covers) > 2 * MOST_RULES:
        brake.stop()
    check_brake(brake)
    return sorted_unique(covers)


def updated(
    covers: UInt64Array, edges: UInt64Array, fresh: UInt64Array, gone: UInt64Array, search: Search
) -> UInt64Array:
    """The minimal covers of `edges`, given those of the edges before: without `fresh`, with `gone`. All sorted."""
    if not len(fresh) and not len(gone):
        return covers
    kept = np.ascontiguousarray(edges[~members(edges, fresh)])
    missed = missing(covers, fresh, search)
    if is_dear(len(covers), len(edges), int(np.count_nonzero(missed >= 0)), len(gone)):
        return all_covers(edges, search)
    if len(gone):
        covers = shrunk(covers, kept, gone, search)
        missed = missing(covers, fresh, search)
    if not len(fresh):
        return covers
    broken = np.ascontiguousarray(covers[missed >= 0])
    return sorted_unique(np.concatenate([covers[missed < 0], grown(broken, kept, fresh, search)]))


def grown(covers: UInt64Array, edges: UInt64Array, fresh: UInt64Array, search: Search) -> UInt64Array:
    """The minimal covers of `edges` and `fresh` that hold one of these minimal covers of `edges`, in no order."""
    from naysay.kernels.covers.changing import grow_covers
    from naysay.kernels.covers.minimal import find_holders

    brake = Brake(2 * MOST_RULES)
    holders, every = find_holders(edges, 1), search.vertices.all()
    limits = (*search.vertices.tables(), search.limits, brake.control)
    covers, order = _akin(covers, search.vertices)
    parts = _in_parts(
        covers, lambda part: grow_covers(edges, holders, fresh, part, order, every, limits), search.n_threads
    )
    check_brake(brake)
    return np.concatenate(parts)


def shrunk(covers: UInt64Array, edges: UInt64Array, gone: UInt64Array, search: Search) -> UInt64Array:
    """The minimal covers of `edges` from those of these and `gone`.

    A cover that is new misses one of the edges that went, else it was a cover before; one that was minimal only for
    the edges that went is what a new one would grow to if they came back.
    """
    from naysay.kernels.covers.changing import are_minimal
    from naysay.kernels.covers.minimal import find_holders

    brake = Brake(2 * MOST_RULES)
    holders = find_holders(edges, 1)
    tasks = [
        partial(_beside, edges, holders, gone[start : start + _TASK], search, brake)
        for start in range(0, len(gone), _TASK)
    ]
    new = sorted_unique(np.concatenate(run(tasks, search.n_threads)))
    check_brake(brake)
    if len(new) < len(covers):
        stale = sorted_unique(grown(new, edges, gone, search))
        kept = covers[~members(covers, stale)]
    else:
        covers, order = _akin(covers, search.vertices)
        minimal = _in_parts(covers, lambda part: are_minimal(edges, holders, part, order), search.n_threads)
        kept = covers[np.concatenate(minimal)]
    return sorted_unique(np.concatenate([kept, new]))


def _beside(edges: UInt64Array, holders: UInt64Array, gone: UInt64Array, search: Search, brake: Brake) -> UInt64Array:
    """The minimal covers of `edges` that have no vertex of one of `gone`."""
    from naysay.kernels.covers.changing import reduce_edges
    from naysay.kernels.covers.minimal import search_covers

    every = search.vertices.all()
    limits = (*search.vertices.tables(), search.limits, brake.control)
    found = [np.empty((0, search.vertices.n_words), np.uint64)]
    for edge in gone:
        parts, needed, allowed, possible = reduce_edges(edges, holders, edge, every, limits)
        if possible:
            found.append(search_covers(parts, needed, allowed, limits))
    return np.concatenate(found)


def inside(cover: UInt64Array, others: UInt64Array) -> BoolArray:
    """Which of some covers the cover contains."""
    found: BoolArray = (others & ~cover == 0).all(axis=1)
    return found


def missing(covers: UInt64Array, edges: UInt64Array, search: Search) -> Int64Array:
    """For each cover the place of an edge that it misses, -1 where it hits all."""
    from naysay.kernels.covers.changing import first_missed
    from naysay.kernels.covers.minimal import find_holders

    if not len(edges):
        return np.full(len(covers), -1, np.int64)
    holders = find_holders(edges, 1)
    return np.concatenate(_in_parts(covers, lambda part: first_missed(part, len(edges), holders), search.n_threads))


def _akin(covers: UInt64Array, vertices: Vertices) -> tuple[UInt64Array, Int64Array]:
    """Covers such that neighbours share their first vertices, and the order of vertices: common ones come first."""
    numbers = np.array([vertex for group in vertices.groups for vertex in range(group.first, group.first + group.size)])
    held = [(covers[:, number // 64] >> np.uint64(number % 64)) & np.uint64(1) for number in numbers]
    by_count = np.argsort([-int(np.count_nonzero(each)) for each in held], kind="stable")
    keys = np.zeros_like(covers)
    for place, which in enumerate(by_count):
        keys[:, place // 64] |= held[which] << np.uint64(63 - place % 64)
    akin = np.lexsort([keys[:, word] for word in range(keys.shape[1] - 1, -1, -1)])
    return np.ascontiguousarray(covers[akin]), np.ascontiguousarray(numbers[by_count])


def _in_parts(covers: UInt64Array, work: Callable[[UInt64Array], Made], n_threads: int) -> list[Made]:
    size = max(_TASK, len(covers) // (8 * n_threads))
    parts = [np.ascontiguousarray(covers[start : start + size]) for start in range(0, max(1, len(covers)), size)]
    return run([partial(work, part) for part in parts], n_threads)


def is_dear(n_covers: int, n_edges: int, n_broken: int, n_gone: int) -> bool:
    """Whether covers from scratch would cost less than those from the change, in seconds estimated on one core."""
    scratch = 1e-3 + n_covers * (5e-6 + 0.35e-9 * n_edges)
    growing = n_broken * (2e-6 + 0.12e-9 * n_edges)
    shrinking = n_gone * (50e-6 + 5e-9 * n_edges)
    return growing + shrinking > scratch


def members(rows: UInt64Array, of: UInt64Array) -> NDArray[np.bool_]:
    """For each row of words whether it is one of `of`; those are sorted and distinct."""
    return places(rows, of) >= 0


def places(rows: UInt64Array, of: UInt64Array) -> Int64Array:
    """For each row of words its place in `of`, which is sorted and distinct, -1 where it is not there."""
    if not len(of) or not len(rows):
        return np.full(len(rows), -1, np.int64)
    keys, known = _keys(rows), _keys(of)
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[at] == keys, at, -1)


def _keys(rows: UInt64Array) -> NDArray[np.void] | UInt64Array:
    """Rows of words as values that sort as `sorted_unique` does: the last word weighs most."""
    if rows.shape[1] == 1:
        return rows[:, 0]
    big_endian = np.ascontiguousarray(rows[:, ::-1].astype(">u8"))
    keys: NDArray[np.void] = big_endian.view(f"S{8 * rows.shape[1]}").ravel()
    return keys


def check_brake(brake: Brake) -> None:
    if brake.stopped:
        raise ResourceError(
            f"more than {MOST_RULES:,} rules hold: too many to keep current; set max_predicates, or name fewer columns"
        )
