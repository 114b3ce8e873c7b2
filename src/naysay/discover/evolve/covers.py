"""Covers kept current: they grow on edges that come and are sought again, close by, where edges went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from naysay.discover.cover import Brake, minimal_covers
from naysay.discover.evolve.threads import check, run
from naysay.discover.problem import MOST_RULES
from naysay.discover.vertices import UInt64Array, Vertices, sorted_unique
from naysay.discover.work import Clock
from naysay.errors import ResourceError
from naysay.table.codes import Int64Array

Made = TypeVar("Made")
_UNLIMITED = 1 << 62
_TASK = 256


@dataclass(frozen=True, slots=True)
class Search:
    """What covers are made of, and how far to look: at most so many comparisons in a rule."""

    vertices: Vertices
    max_predicates: int | None
    n_threads: int

    @property
    def limits(self) -> Int64Array:
        return np.array([self.max_predicates or _UNLIMITED, 2 * MOST_RULES], np.int64)


def all_covers(edges: UInt64Array, search: Search) -> UInt64Array:
    """All minimal covers, twins too, sorted. ResourceError where there are more than anybody could keep."""
    brake, clock = Brake(2 * MOST_RULES), Clock()
    covers = minimal_covers(
        edges, search.vertices, max_groups=search.max_predicates, n_threads=search.n_threads, brake=brake, clock=clock
    )
    check(clock)
    check_brake(brake)
    return sorted_unique(covers)


def updated(
    covers: UInt64Array, edges: UInt64Array, fresh: UInt64Array, gone: UInt64Array, search: Search
) -> UInt64Array:
    """The minimal covers of `edges`, given those of the edges before: without `fresh`, with `gone`. All sorted."""
    if not len(fresh) and not len(gone):
        return covers
    kept = _without(edges, fresh)
    broken = int(np.count_nonzero(missing(covers, fresh, search) >= 0)) if len(fresh) else 0
    if _is_dear(len(covers), len(edges), broken, len(gone)):
        return all_covers(edges, search)
    if len(gone):
        covers = shrunk(covers, kept, gone, search)
    return grown(covers, edges, fresh, search) if len(fresh) else covers


def grown(covers: UInt64Array, edges: UInt64Array, fresh: UInt64Array, search: Search) -> UInt64Array:
    """The minimal covers of `edges` from those of the edges without `fresh`."""
    from naysay.kernels.evolve_cover import grow_covers, transposed

    missed = missing(covers, fresh, search)
    broken = np.ascontiguousarray(covers[missed >= 0])
    if not len(broken):
        return covers
    # Those that broke on one edge tend to break on others; spread over tasks they take about the same time.
    broken = broken[np.random.default_rng(0).permutation(len(broken))]
    brake = Brake(2 * MOST_RULES)
    # Edges mixed, so that the first words of the sets mostly tell.
    mixed = np.ascontiguousarray(edges[np.random.default_rng(1).permutation(len(edges))])
    holders = transposed(mixed)
    tables, limits = search.vertices.tables(), search.limits
    parts = _in_parts(
        broken,
        lambda part: grow_covers(mixed, holders, fresh, part, *tables, limits, brake.control),
        search.n_threads,
    )
    check_brake(brake)
    return sorted_unique(np.concatenate([covers[missed < 0], *parts]))


def shrunk(covers: UInt64Array, edges: UInt64Array, gone: UInt64Array, search: Search) -> UInt64Array:
    """The minimal covers of `edges` from those of these and `gone`.

    A cover that is new misses one of the edges that went, else it was a cover before; and a cover from before that is
    no longer minimal holds a new one.
    """
    brake = Brake(2 * MOST_RULES)
    tasks = [partial(_covers_beside, edges, edge, search, brake) for edge in gone]
    new = np.concatenate(run(tasks, search.n_threads))
    check_brake(brake)
    new = sorted_unique(new)
    inside = within(covers, new, search)
    return sorted_unique(np.concatenate([covers[inside < 0], new]))


def _covers_beside(edges: UInt64Array, gone: UInt64Array, search: Search, brake: Brake) -> UInt64Array:
    """The minimal covers of `edges` that have no vertex of `gone`."""
    from naysay.kernels.cover import search_covers
    from naysay.kernels.evolve_cover import avoid_edge, may_stand

    every = search.vertices.all()
    tables, limits = search.vertices.tables(), search.limits
    parts, needed, possible = avoid_edge(edges, gone, every)
    if not possible or not may_stand(needed, *tables) or _n_groups(needed, search.vertices) > limits[0]:
        return np.empty((0, search.vertices.n_words), np.uint64)
    found: UInt64Array = search_covers(
        sorted_unique(parts), needed, every & ~gone, *tables, limits, brake.control
    )
    return found


def missing(covers: UInt64Array, edges: UInt64Array, search: Search) -> Int64Array:
    """For each cover the place of an edge that it misses, -1 where it hits all."""
    from naysay.kernels.evolve_cover import first_missed

    if not len(edges):
        return np.full(len(covers), -1, np.int64)
    return np.concatenate(_in_parts(covers, lambda part: first_missed(part, edges), search.n_threads))


def within(covers: UInt64Array, smaller: UInt64Array, search: Search) -> Int64Array:
    """For each cover the place of another that is a proper part of it, -1 where there is none."""
    from naysay.kernels.evolve_cover import first_within

    if not len(smaller):
        return np.full(len(covers), -1, np.int64)
    return np.concatenate(_in_parts(covers, lambda part: first_within(part, smaller), search.n_threads))


def _in_parts(covers: UInt64Array, work: Callable[[UInt64Array], Made], n_threads: int) -> list[Made]:
    size = max(_TASK, len(covers) // (16 * n_threads))
    parts = [np.ascontiguousarray(covers[start : start + size]) for start in range(0, max(1, len(covers)), size)]
    return run([partial(work, part) for part in parts], n_threads)


def _is_dear(n_covers: int, n_edges: int, n_broken: int, n_gone: int) -> bool:
    """Whether covers from scratch would cost less than those from the change, in seconds estimated on one core."""
    scratch = 1e-3 + n_covers * (5e-6 + 0.6e-9 * n_edges)
    growing = n_broken * (2e-6 + 0.25e-9 * n_edges)
    shrinking = n_gone * (20e-6 + 3e-9 * n_edges)
    return growing + shrinking > scratch


def _n_groups(cover: UInt64Array, vertices: Vertices) -> int:
    return sum(bool(vertices.chosen(cover[None, :], group)[0]) for group in vertices.groups)


def _without(edges: UInt64Array, others: UInt64Array) -> UInt64Array:
    """The edges that are not among others; both sorted and distinct."""
    return np.ascontiguousarray(edges[~members(edges, others)])


def members(rows: UInt64Array, of: UInt64Array) -> NDArray[np.bool_]:
    """For each row of words whether it is one of `of`; those are sorted and distinct."""
    at = places(rows, of)
    return at >= 0


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
