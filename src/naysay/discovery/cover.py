"""From evidence to rules: all minimal covers, on threads, with limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from math import floor

import numpy as np

from naysay.arrays import UNLIMITED, Int64Array, UInt64Array
from naysay.discovery.vertices import Vertices
from naysay.discovery.work import Clock, run_all
from naysay.errors import UsageError


def allowed_pairs(error: float, n_pairs: int) -> int:
    """The most ordered pairs that may break a rule: g1 of Kivinen and Mannila, pairs over n * (n - 1).

    `error` is read as it is written: 0.01 is one hundredth.
    """
    if not 0.0 <= error < 1.0:
        raise UsageError(f"error is a fraction of all pairs, at least 0 and less than 1; {error!r} is not")
    return floor(Fraction(repr(float(error))) * n_pairs)


# How many edges a search for near covers looks at, the heaviest first, for one with few candidates.
_NEAR_LOOKS = 64
_MIN_TASKS = 64

Branches = tuple[UInt64Array, UInt64Array, bool]
Expand = Callable[[UInt64Array, UInt64Array], Branches]
Search = Callable[[UInt64Array, UInt64Array], UInt64Array]


@dataclass(slots=True)
class Brake:
    """What stops a search: a limit on covers, or whoever calls `stop`. Shared by all threads of a search."""

    max_covers: int = UNLIMITED
    control: Int64Array = field(default_factory=lambda: np.zeros(2, np.int64))

    def stop(self) -> None:
        self.control[0] = 1

    @property
    def stopped(self) -> bool:
        return bool(self.control[0])

    @property
    def n_found(self) -> int:
        return int(self.control[1])


def minimal_covers(
    edges: UInt64Array,
    vertices: Vertices,
    *,
    max_groups: int | None = None,
    n_threads: int = 1,
    brake: Brake | None = None,
    clock: Clock | None = None,
) -> UInt64Array:
    """All minimal covers of the edges that may stand in a rule; those found so far where brake or clock stopped it."""
    from naysay.kernels.covers.minimal import expand, search_covers

    brake = brake or Brake()
    most = np.array([max_groups or UNLIMITED, brake.max_covers], np.int64)
    limits = (*vertices.tables(), most, brake.control)
    edges = np.random.default_rng(0).permutation(edges)
    return _search_all(
        lambda start, candidates: expand(edges, start, candidates, limits),
        lambda start, candidates: search_covers(edges, start, candidates, limits),
        vertices,
        n_threads,
        brake,
        clock,
    )


def near_covers(
    edges: UInt64Array,
    counts: Int64Array,
    vertices: Vertices,
    most: int,
    *,
    max_groups: int | None = None,
    n_threads: int = 1,
    brake: Brake | None = None,
    clock: Clock | None = None,
) -> UInt64Array:
    """All minimal sets of vertices that miss edges with at most `most` pairs in all."""
    from naysay.kernels.covers.near import expand_near, search_near_covers

    brake = brake or Brake()
    bounds = np.array([max_groups or UNLIMITED, brake.max_covers, _NEAR_LOOKS, most], np.int64)
    limits = (*vertices.tables(), bounds, brake.control)
    heavy_first = np.argsort(-counts, kind="stable")
    edges, counts = np.ascontiguousarray(edges[heavy_first]), counts[heavy_first]
    return _search_all(
        lambda start, candidates: expand_near(edges, counts, start, candidates, limits),
        lambda start, candidates: search_near_covers(edges, counts, start, candidates, limits),
        vertices,
        n_threads,
        brake,
        clock,
    )


def _search_all(
    expand: Expand, search: Search, vertices: Vertices, n_threads: int, brake: Brake, clock: Clock | None
) -> UInt64Array:
    """Open the first levels of the search, then share the branches between threads."""
    done: list[UInt64Array] = []
    tasks = [(np.zeros(vertices.n_words, np.uint64), vertices.all())]

    def open_level() -> list[tuple[UInt64Array, UInt64Array]]:
        below: list[tuple[UInt64Array, UInt64Array]] = []
        for start, candidates in tasks:
            if brake.stopped:
                break
            starts, allowed, complete = expand(start, candidates)
            if complete:
                done.append(start)
            below += zip(starts, allowed, strict=True)
        return below

    while tasks and len(tasks) < _MIN_TASKS and not brake.stopped:
        # On a thread, so that the clock is watched meanwhile.
        (tasks,) = run_all([open_level], 1, clock, on_stop=brake.stop) or ([],)
    np.random.default_rng(0).shuffle(tasks)

    def tick(clock: Clock) -> None:
        clock.report("covers", None, brake.n_found)

    parts = run_all([partial(search, *task) for task in tasks], n_threads, clock, on_stop=brake.stop, on_tick=tick)
    return np.concatenate([np.array(done, np.uint64).reshape(-1, vertices.n_words), *parts])
