"""From evidence to rules: all minimal covers, on threads, with limits; then without those that are not rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from math import floor

import numpy as np

from naysay.arrays import UNLIMITED, Int64Array, UInt64Array
from naysay.budget import Budget, run_all
from naysay.discovery.outcomes import FieldKind
from naysay.discovery.vertices import VertexGroup, Vertices, n_vertices, to_int
from naysay.errors import UsageError

# How many edges a search for near covers looks at, the heaviest first, for one with few candidates.
_NEAR_LOOKS = 64
_MIN_TASKS = 64
# Covers of up to this many groups are found by a search without preparation.
_FEW_GROUPS = 3
# Covers times edges between two looks at the clock.
_RELAXED_WORK = 20_000_000
# Covers that are held against impossible ones between two looks at the clock.
_JUDGED_AT_ONCE = 10_000
# This many covers are looked at even after a stop, so that some rules are left.
_AT_LEAST = 200

# Where a search starts: a cover so far, and the vertices that may join it.
Branch = tuple[UInt64Array, UInt64Array]
Expand = Callable[[UInt64Array, UInt64Array], tuple[UInt64Array, UInt64Array, bool]]
Search = Callable[[UInt64Array, UInt64Array], UInt64Array]
# Told the share of a search that is done, and the number of covers found.
OnTick = Callable[[float, int], None]


def ignore_tick(done: float, n_found: int) -> None:
    """Nobody wants to know how far a search is."""


def allowed_pairs(error: float, n_pairs: int) -> int:
    """The most ordered pairs that may break a rule: g1 of Kivinen and Mannila, pairs over n * (n - 1).

    `error` is read as it is written: 0.01 is one hundredth.
    """
    if not 0.0 <= error < 1.0:
        raise UsageError(f"error must be a fraction of all pairs, at least 0 and less than 1, not {error!r}")
    return floor(as_fraction(error) * n_pairs)


def as_fraction(error: float) -> Fraction:
    """An error as it is written: 0.01 is one hundredth."""
    return Fraction(repr(float(error)))


@dataclass(slots=True)
class Brake:
    """What stops a search: a limit on covers, or a call of `stop`. Shared by all threads of a search."""

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
    brake: Brake | None = None,
    budget: Budget | None = None,
    on_tick: OnTick = ignore_tick,
) -> UInt64Array:
    """All minimal covers of the edges that can be rules; those found so far if brake or budget stopped the search.

    `on_tick` is called from time to time with the fraction of the search's branches that is done.
    """
    from naysay.kernels.covers.few import search_few
    from naysay.kernels.covers.minimal import expand, search_covers

    brake = brake or Brake()
    limits = (*vertices.tables(), np.array([max_groups or UNLIMITED, brake.max_covers], np.int64), brake.control)
    if max_groups is not None and max_groups <= _FEW_GROUPS:
        small_first = np.ascontiguousarray(edges[np.argsort(n_vertices(edges), kind="stable")])
        branches = _first_branches(small_first, vertices)
        return _search_branches(
            lambda start, candidates: search_few(small_first, start, candidates, limits),
            branches,
            brake,
            budget,
            on_tick,
            vertices.n_words,
        )
    edges = np.random.default_rng(0).permutation(edges)
    return _search_all(
        lambda start, candidates: expand(edges, start, candidates, limits),
        lambda start, candidates: search_covers(edges, start, candidates, limits),
        vertices,
        brake,
        budget,
        on_tick,
    )


def _first_branches(edges: UInt64Array, vertices: Vertices) -> list[Branch]:
    """A branch for each vertex of the first edge, which a cover must hit: each may take the vertices before it."""
    every = to_int(vertices.all())
    if not len(edges):
        return [(vertices.words([0])[0], vertices.words([every])[0])]
    within = to_int(edges[0]) & every
    candidates, branches = every & ~within, []
    while within:
        vertex = within & -within
        branches.append((vertices.words([vertex])[0], vertices.words([candidates])[0]))
        candidates |= vertex
        within ^= vertex
    return branches


def near_covers(
    edges: UInt64Array,
    counts: Int64Array,
    vertices: Vertices,
    most: int,
    *,
    max_groups: int | None = None,
    brake: Brake | None = None,
    budget: Budget | None = None,
    on_tick: OnTick = ignore_tick,
) -> UInt64Array:
    """All minimal sets of vertices that miss edges with at most `most` pairs in all."""
    from naysay.kernels.covers.near import expand_near, search_near_covers

    brake = brake or Brake()
    heavy_first = np.argsort(-counts, kind="stable")
    edges, counts = np.ascontiguousarray(edges[heavy_first]), counts[heavy_first]
    bounds = np.array([max_groups or UNLIMITED, brake.max_covers, _NEAR_LOOKS, most], np.int64)
    limits = (*vertices.tables(), bounds, brake.control)
    return _search_all(
        lambda start, candidates: expand_near(edges, counts, start, candidates, limits),
        lambda start, candidates: search_near_covers(edges, counts, start, candidates, limits),
        vertices,
        brake,
        budget,
        on_tick,
    )


def _search_all(
    expand: Expand, search: Search, vertices: Vertices, brake: Brake, budget: Budget | None, on_tick: OnTick
) -> UInt64Array:
    """Open the first levels of the search, then share the branches between threads."""
    done: list[UInt64Array] = []
    branches: list[Branch] = [(np.zeros(vertices.n_words, np.uint64), vertices.all())]

    def open_level() -> list[Branch]:
        below: list[Branch] = []
        for start, candidates in branches:
            if brake.stopped:
                break
            starts, allowed, complete = expand(start, candidates)
            if complete:
                done.append(start)
            below += zip(starts, allowed, strict=True)
        return below

    while branches and len(branches) < _MIN_TASKS and not brake.stopped:
        # On a thread, so that the clock is watched meanwhile.
        (branches,) = run_all([open_level], budget, on_stop=brake.stop) or ([],)
    np.random.default_rng(0).shuffle(branches)
    parts = _search_branches(search, branches, brake, budget, on_tick, vertices.n_words)
    return np.concatenate([np.array(done, np.uint64).reshape(-1, vertices.n_words), parts])


def _search_branches(
    search: Search, branches: list[Branch], brake: Brake, budget: Budget | None, on_tick: OnTick, n_words: int
) -> UInt64Array:
    """Search branches on threads."""
    n_done = 0

    def search_branch(branch: Branch) -> UInt64Array:
        nonlocal n_done
        found = search(*branch)
        n_done += 1
        return found

    parts = run_all(
        [partial(search_branch, branch) for branch in branches],
        budget,
        on_stop=brake.stop,
        on_tick=lambda budget: on_tick(n_done / max(1, len(branches)), brake.n_found),
    )
    return np.concatenate([np.empty((0, n_words), np.uint64), *parts])


def drop_impossible(covers: UInt64Array, vertices: Vertices, budget: Budget | None = None) -> tuple[UInt64Array, bool]:
    """Drop the covers whose predicates exclude each other in every table; and say whether all were looked at.

    Within one comparison the search never builds such a cover; between comparisons (t.A == s.A, t.A == s.B,
    t.B == s.A, t.B != s.B) it does, if different columns are compared. Covers that there was no time for are dropped
    too: the last ones.
    """
    from naysay.kernels.covers.possible import are_possible

    if not len(covers) or not any(group.comparison.across for group in vertices.groups):
        return covers, True
    means = vertices.means()
    kept: list[UInt64Array] = []
    for start in range(0, len(covers), _JUDGED_AT_ONCE):
        if start and budget is not None:
            budget.report("checking rules", start / len(covers), len(covers))
            if budget.late():
                return np.concatenate(kept), False
        some = np.ascontiguousarray(covers[start : start + _JUDGED_AT_ONCE])
        kept.append(some[are_possible(some, means)])
    return np.concatenate(kept), True


def drop_relaxed(
    covers: UInt64Array,
    vertices: Vertices,
    edges: UInt64Array,
    counts: Int64Array,
    most: int,
    budget: Budget | None = None,
) -> tuple[UInt64Array, bool]:
    """Drop the covers that say `<=` and `>=` of a comparison if `==` would do; and say whether all were tried.

    If nulls equal each other, `<=` and `>=` together mean equal and not null, which is less than `==`; the search
    takes the vertices one by one and cannot see it. `most` is the number of pairs that may break a rule. Covers that
    there was no time for are dropped too.
    """
    groups = [group for group in vertices.groups if group.kind is FieldKind.ORDER_OR_NULL]
    if not groups or not len(covers):
        return covers, True
    size = max(_AT_LEAST, _RELAXED_WORK // max(1, len(edges)))
    kept: list[UInt64Array] = []
    for start in range(0, len(covers), size):
        if start and budget is not None and budget.late():
            return np.concatenate(kept), False
        kept.append(_drop_relaxed(covers[start : start + size], groups, edges, counts, most))
    return np.concatenate(kept), True


def _drop_relaxed(
    covers: UInt64Array, groups: list[VertexGroup], edges: UInt64Array, counts: Int64Array, most: int
) -> UInt64Array:
    from naysay.kernels.covers.minimal import count_missed

    for group in groups:
        word = group.first // 64
        chosen = (covers[:, word] >> np.uint64(group.first % 64)) & np.uint64(0b1111)
        places = np.flatnonzero(chosen == 0b101)
        if not places.size:
            continue
        relaxed = covers[places]
        relaxed[:, word] ^= np.uint64(0b1101 << (group.first % 64))
        missed = count_missed(edges, counts, relaxed, most)
        covers = np.delete(covers, places[missed <= most], axis=0)
    return covers
