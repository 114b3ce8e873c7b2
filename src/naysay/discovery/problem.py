"""What every method of discovery is given, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.discovery.cover import Brake, minimal_covers, near_covers
from naysay.discovery.device import Device
from naysay.discovery.outcomes import Outcomes
from naysay.discovery.space import Space
from naysay.discovery.trivial import possible, unrelaxed
from naysay.discovery.vertices import Vertices, vertices_of
from naysay.discovery.work import Clock
from naysay.rule.model import Nulls

# Where nobody set a limit: as many rules as a person can still do something with.
MOST_RULES = 2_000_000
# Where time is up, sorting more than so many would take longer than anybody wants to wait then.
MOST_PARTIAL = 200_000
_BITS = np.array([byte.bit_count() for byte in range(256)], np.uint8)


@dataclass(frozen=True, slots=True)
class Problem:
    """A table encoded for a space, and how far to search.

    `most` is the number of ordered pairs that may break a rule. `max_predicates` and `max_rules` None: no limit but
    MOST_RULES.
    """

    space: Space
    nulls: Nulls
    outcomes: Outcomes
    vertices: Vertices
    most: int
    max_predicates: int | None
    max_rules: int | None
    n_threads: int
    clock: Clock
    device: Device = Device.CPU

    @classmethod
    def of(
        cls,
        space: Space,
        nulls: Nulls,
        outcomes: Outcomes,
        *,
        most: int = 0,
        max_predicates: int | None = None,
        max_rules: int | None = None,
        n_threads: int = 1,
        clock: Clock | None = None,
        device: Device = Device.CPU,
    ) -> Problem:
        vertices = vertices_of(space, outcomes.layout)
        return cls(
            space, nulls, outcomes, vertices, most, max_predicates, max_rules, n_threads, clock or Clock(), device
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """Rules as covers, one of each pair of twins; whether these are all; and the evidence behind them.

    Every cover is a minimal rule of the whole table, whether or not all were found. `counts` are those of all pairs
    where `n_sampled` is None, else of all pairs of so many rows drawn at random.
    """

    covers: UInt64Array
    partial: bool
    edges: UInt64Array
    counts: Int64Array
    n_sampled: int | None = None
    notes: tuple[str, ...] = ()
    figures: dict[str, float] = field(default_factory=dict)
    device: Device = Device.CPU


def empty_answer(problem: Problem, *, partial: bool) -> Answer:
    nothing = np.empty((0, problem.vertices.n_words), np.uint64)
    return Answer(nothing, partial, nothing, np.empty(0, np.int64))


def search_rules(problem: Problem, edges: UInt64Array, counts: Int64Array) -> tuple[UInt64Array, bool]:
    """All minimal rules of complete evidence, and whether a limit or the clock left some out.

    Where there are more rules than wanted, the shortest are found: by searching again with few predicates, then more.
    """
    limit = min(problem.max_rules or MOST_RULES, MOST_RULES)
    most_groups = problem.max_predicates or len(problem.vertices.groups)
    # Twins are found twice.
    brake = Brake(2 * limit + 2)
    first = _covers(problem, edges, counts, most_groups, brake)
    if problem.clock.stopped() or not brake.stopped:
        covers, complete = finished(problem, first, edges, counts)
        if complete and not problem.clock.stopped() and len(covers) <= limit:
            return covers, False
        if problem.clock.stopped():
            return covers[:limit], True
    shortest: UInt64Array | None = None
    for n_groups in range(1, most_groups):
        brake = Brake(2 * limit + 2)
        covers, _ = finished(problem, _covers(problem, edges, counts, n_groups, brake), edges, counts)
        if problem.clock.stopped():
            break
        shortest = covers
        if brake.stopped or len(covers) > limit:
            break
    if shortest is None:
        # Stopped before anything better was found.
        shortest, _ = finished(problem, first, edges, counts)
    return shortest[:limit], True


def _covers(problem: Problem, edges: UInt64Array, counts: Int64Array, max_groups: int, brake: Brake) -> UInt64Array:
    if problem.most:
        return near_covers(
            edges,
            counts,
            problem.vertices,
            problem.most,
            max_groups=max_groups,
            n_threads=problem.n_threads,
            brake=brake,
            clock=problem.clock,
        )
    return minimal_covers(
        edges, problem.vertices, max_groups=max_groups, n_threads=problem.n_threads, brake=brake, clock=problem.clock
    )


def finished(problem: Problem, covers: UInt64Array, edges: UInt64Array, counts: Int64Array) -> tuple[UInt64Array, bool]:
    """Covers to rules: without those that say nothing or say it too weakly, short ones first, twins once.

    And whether these are all. Once the clock has stopped, a few of the shortest are finished, and more while there is
    time.
    """
    vertices, clock = problem.vertices, problem.clock
    covers = covers[covers.any(axis=1)]
    complete = not clock.stopped() or len(covers) <= MOST_PARTIAL
    if not complete:
        n_vertices = _BITS[np.ascontiguousarray(covers).view(np.uint8)].sum(axis=1)
        covers = covers[np.argpartition(n_vertices, MOST_PARTIAL)[:MOST_PARTIAL]]
    covers = in_order(vertices.once(covers), vertices)
    if problem.max_predicates is not None:
        covers = covers[vertices.n_predicates(covers) <= problem.max_predicates]
    covers, all_judged = possible(covers, vertices, problem.nulls, clock)
    covers, all_tried = unrelaxed(covers, vertices, edges, counts, problem.most, clock)
    return np.ascontiguousarray(covers), complete and all_judged and all_tried


def in_order(covers: UInt64Array, vertices: Vertices) -> UInt64Array:
    """The covers of rules with few predicates first, then by their vertices: one order, however they were found."""
    covers = covers[np.lexsort([covers[:, word] for word in range(covers.shape[1])])]
    return covers[np.argsort(vertices.n_predicates(covers), kind="stable")]
