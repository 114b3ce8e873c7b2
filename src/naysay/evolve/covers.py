"""Minimal covers kept current: they grow with edges that appear, and are searched nearby where edges disappear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import UNLIMITED, BoolArray, Int64Array, UInt64Array
from naysay.budget import Budget, current
from naysay.discovery.cover import Brake, minimal_covers, near_covers
from naysay.discovery.problem import MOST_RULES
from naysay.discovery.vertices import Vertices, sorted_unique
from naysay.errors import ResourceError
from naysay.evolve.delta import raise_if_stopped, run_tasks

Made = TypeVar("Made")
_TASK = 64


@dataclass(frozen=True, slots=True)
class Search:
    """What covers consist of and how far to search: the most comparisons per rule, and pairs that may break it."""

    vertices: Vertices
    max_predicates: int | None
    n_threads: int
    most: int = 0

    @property
    def limits(self) -> Int64Array:
        return np.array([self.max_predicates or UNLIMITED, 2 * MOST_RULES], np.int64)


def all_covers(edges: UInt64Array, search: Search, counts: Int64Array | None = None) -> UInt64Array:
    """All minimal covers, including twins, sorted; `counts` of pairs per edge are needed if some may be missed.

    ResourceError if there are too many to keep.
    """
    brake, parent = Brake(2 * MOST_RULES), current()
    budget = Budget(threads=search.n_threads) if parent is None else parent.within(None, search.n_threads)
    limits: dict[str, Any] = {"max_groups": search.max_predicates, "brake": brake, "budget": budget}
    if search.most:
        assert counts is not None
        covers = near_covers(edges, counts, search.vertices, search.most, **limits)
    else:
        covers = minimal_covers(edges, search.vertices, **limits)
    raise_if_stopped(budget)
    # The search does not count the covers that its first levels find.
    if len(covers) > 2 * MOST_RULES:
        brake.stop()
    check_brake(brake)
    return sorted_unique(covers)


def update_covers(
    covers: UInt64Array, edges: UInt64Array, fresh: UInt64Array, gone: UInt64Array, search: Search
) -> UInt64Array:
    """The minimal covers of `edges`, given those of the edges before: without `fresh`, with `gone`. All sorted."""
    if not len(fresh) and not len(gone):
        return covers
    kept = np.ascontiguousarray(edges[~members(edges, fresh)])
    missed = find_missed(covers, fresh, search)
    if is_costly(len(covers), len(edges), int(np.count_nonzero(missed >= 0)), len(gone)):
        return all_covers(edges, search)
    if len(gone):
        return grow(shrink(covers, kept, gone, search), kept, fresh, search)
    return grow(covers, kept, fresh, search, missed)


def grow(
    covers: UInt64Array, edges: UInt64Array, fresh: UInt64Array, search: Search, missed: Int64Array | None = None
) -> UInt64Array:
    """The minimal covers of `edges` and `fresh` that contain one of these minimal covers of `edges`, sorted."""
    covers = np.ascontiguousarray(covers)
    if not len(fresh) or not len(covers):
        return covers
    missed = find_missed(covers, fresh, search) if missed is None else missed
    broken = np.ascontiguousarray(covers[missed >= 0])
    return sorted_unique(np.concatenate([covers[missed < 0], grow_broken(broken, edges, fresh, search)]))


def grow_broken(covers: UInt64Array, edges: UInt64Array, fresh: UInt64Array, search: Search) -> UInt64Array:
    """As `grow`, for covers that each miss an edge of `fresh`; each result once, in no order."""
    from naysay.kernels.covers.changing import grow_covers
    from naysay.kernels.covers.minimal import find_holders

    brake = Brake(2 * MOST_RULES)
    holders, every = find_holders(edges, 1), search.vertices.all()
    limits = (*search.vertices.tables(), search.limits, brake.control)
    covers, order = _sort_by_shared(covers, search.vertices)
    parts = _in_parts(
        covers, lambda part: grow_covers(edges, holders, fresh, part, order, every, limits), search.n_threads, brake
    )
    check_brake(brake)
    return np.concatenate(parts)


def shrink(covers: UInt64Array, edges: UInt64Array, gone: UInt64Array, search: Search) -> UInt64Array:
    """The minimal covers of `edges` from those of `edges` and `gone`.

    A new cover misses one of the edges that disappeared, or it would have been a cover before. A cover that was
    minimal only because of those edges is what a new one would grow to if they came back.
    """
    from naysay.kernels.covers.changing import are_minimal
    from naysay.kernels.covers.minimal import find_holders

    brake = Brake(2 * MOST_RULES)
    holders = find_holders(edges, 1)
    tasks = [
        partial(_covers_missing, edges, holders, gone[start : start + _TASK], search, brake)
        for start in range(0, len(gone), _TASK)
    ]
    new = sorted_unique(np.concatenate(run_tasks(tasks, search.n_threads, brake.stop)))
    check_brake(brake)
    if len(new) < len(covers):
        stale = sorted_unique(grow_broken(new, edges, gone, search))
        kept = covers[~members(covers, stale)]
    else:
        covers, order = _sort_by_shared(covers, search.vertices)
        minimal = _in_parts(covers, lambda part: are_minimal(edges, holders, part, order), search.n_threads)
        kept = covers[np.concatenate(minimal)]
    return sorted_unique(np.concatenate([kept, new]))


def _covers_missing(
    edges: UInt64Array, holders: UInt64Array, gone: UInt64Array, search: Search, brake: Brake
) -> UInt64Array:
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


def are_within(covers: UInt64Array, cover: UInt64Array) -> BoolArray:
    """Which of some covers are contained in one."""
    found: BoolArray = (covers & ~cover == 0).all(axis=1)
    return found


def find_missed(covers: UInt64Array, edges: UInt64Array, search: Search) -> Int64Array:
    """For each cover the place of an edge that it misses, -1 if it hits all."""
    from naysay.kernels.covers.changing import first_missed
    from naysay.kernels.covers.minimal import find_holders

    if not len(edges):
        return np.full(len(covers), -1, np.int64)
    holders = find_holders(edges, 1)
    return np.concatenate(_in_parts(covers, lambda part: first_missed(part, len(edges), holders), search.n_threads))


def missed_by_some(covers: UInt64Array, edges: UInt64Array) -> BoolArray:
    """Which edges some cover misses."""
    from naysay.kernels.covers import changing
    from naysay.kernels.covers.minimal import find_holders

    if not len(edges):
        return np.zeros(0, np.bool_)
    found: BoolArray = changing.missed_by_some(covers, len(edges), find_holders(edges, 1))
    return found


def _sort_by_shared(covers: UInt64Array, vertices: Vertices) -> tuple[UInt64Array, Int64Array]:
    """Covers sorted so that neighbours share their first vertices, and the order of vertices: common ones first."""
    numbers = np.array([vertex for group in vertices.groups for vertex in range(group.first, group.first + group.size)])
    held = [(covers[:, number // 64] >> np.uint64(number % 64)) & np.uint64(1) for number in numbers]
    by_count = np.argsort([-int(np.count_nonzero(each)) for each in held], kind="stable")
    keys = np.zeros_like(covers)
    for place, which in enumerate(by_count):
        keys[:, place // 64] |= held[which] << np.uint64(63 - place % 64)
    order = np.lexsort([keys[:, word] for word in range(keys.shape[1] - 1, -1, -1)])
    return np.ascontiguousarray(covers[order]), np.ascontiguousarray(numbers[by_count])


def _in_parts(
    covers: UInt64Array, work: Callable[[UInt64Array], Made], n_threads: int, brake: Brake | None = None
) -> list[Made]:
    size = max(_TASK, len(covers) // (8 * n_threads))
    parts = [np.ascontiguousarray(covers[start : start + size]) for start in range(0, max(1, len(covers)), size)]
    return run_tasks([partial(work, part) for part in parts], n_threads, (brake or Brake()).stop)


def is_costly(n_covers: int, n_edges: int, n_broken: int, n_gone: int) -> bool:
    """Whether searching from scratch would cost less than updating, in estimated seconds on one core."""
    scratch = 1e-3 + n_covers * (5e-6 + 0.35e-9 * n_edges)
    growing = n_broken * (2e-6 + 0.12e-9 * n_edges)
    shrinking = n_gone * (50e-6 + 5e-9 * n_edges)
    return growing + shrinking > scratch


def members(rows: UInt64Array, of: UInt64Array) -> BoolArray:
    """For each row of words whether it is in `of`, which is sorted and distinct."""
    return places(rows, of) >= 0


def places(rows: UInt64Array, of: UInt64Array) -> Int64Array:
    """For each row of words its place in `of`, which is sorted and distinct; -1 if it is not there."""
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
            f"more than {MOST_RULES:,} rules hold, too many to keep current; set max_predicates, or name fewer columns"
        )
