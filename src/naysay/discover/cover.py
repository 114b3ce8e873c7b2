"""From evidence to rules: all minimal covers, on threads, with limits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from naysay.discover.vertices import UInt64Array, Vertices
from naysay.table.codes import Int64Array

_UNLIMITED = 1 << 62
_LOOKS = 4096
_MIN_TASKS = 64


@dataclass(slots=True)
class Brake:
    """What stops a search: a limit on covers, or somebody who calls `stop`. Shared by all threads of a search."""

    max_covers: int = _UNLIMITED
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
) -> UInt64Array:
    """All minimal covers of the edges that may stand in a rule; those found so far where the brake was pulled."""
    from naysay.kernels.cover import search_covers

    brake = brake or Brake()
    limits = np.array([max_groups or _UNLIMITED, brake.max_covers, _LOOKS], np.int64)
    group_of, groups = vertices.tables()
    edges = np.random.default_rng(0).permutation(edges)
    done, tasks = _tasks(edges, vertices, group_of, groups, limits)

    def search(task: tuple[UInt64Array, UInt64Array]) -> UInt64Array:
        return search_covers(edges, *task, group_of, groups, limits, brake.control)

    if n_threads == 1 or len(tasks) < 2:
        parts = [search(task) for task in tasks]
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            try:
                parts = list(pool.map(search, tasks))
            except BaseException:
                brake.stop()
                raise
    return np.concatenate([done, *parts])


def _tasks(
    edges: UInt64Array, vertices: Vertices, group_of: Int64Array, groups: Int64Array, limits: Int64Array
) -> tuple[UInt64Array, list[tuple[UInt64Array, UInt64Array]]]:
    """Branches of the search to be shared between threads, and the covers that are complete before they begin."""
    from naysay.kernels.cover import expand

    done: list[UInt64Array] = []
    tasks = [(np.zeros(vertices.n_words, np.uint64), vertices.all())]
    while tasks and len(tasks) < _MIN_TASKS:
        below: list[tuple[UInt64Array, UInt64Array]] = []
        for start, candidates in tasks:
            starts, allowed, complete = expand(edges, start, candidates, group_of, groups, limits)
            if complete:
                done.append(start)
            below += zip(starts, allowed, strict=True)
        tasks = below
    np.random.default_rng(0).shuffle(tasks)
    return np.array(done, np.uint64).reshape(-1, vertices.n_words), tasks


