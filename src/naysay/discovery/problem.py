"""What every method of discovery is given, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from naysay.discovery.cover import Brake, minimal_covers, near_covers
from naysay.discovery.device import Device
from naysay.discovery.outcomes import Outcomes
from naysay.discovery.space import Space
from naysay.discovery.trivial import possible, unrelaxed
from naysay.discovery.vertices import UInt64Array, Vertices, vertices_of
from naysay.discovery.work import Clock
from naysay.rule.model import Nulls
from naysay.table.codes import Int64Array

# Where nobody set a limit: as many rules as a person can still do something with.
MOST_RULES = 2_000_000
# Where time is up, sorting more than so many would take longer than anybody wants to wait then.
MOST_PARTIAL = 200_000


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
        cls, space: Space, nulls: Nulls, outcomes: Outcomes, *, most: int = 0, max_predicates: int | None = None,
        max_rules: int | None = None, n_threads: int = 1, clock: Clock | None = None,
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
    found = _covers(problem, edges, counts, most_groups, brake)
    if problem.clock.stopped():
        return finished(problem, found[:MOST_PARTIAL], edges, counts)[:limit], True
    covers = finished(problem, found, edges, counts)
    if not brake.stopped and len(covers) <= limit:
        return covers, False
    for n_groups in range(1, most_groups):
        brake = Brake(2 * limit + 2)
        found = finished(problem, _covers(problem, edges, counts, n_groups, brake), edges, counts)
        if problem.clock.stopped():
            break
        covers = found
        if brake.stopped or len(covers) > limit:
            break
    return covers[:limit], True


def _covers(
    problem: Problem, edges: UInt64Array, counts: Int64Array, max_groups: int, brake: Brake
) -> UInt64Array:
    if problem.most:
        return near_covers(
            edges, counts, problem.vertices, problem.most,
            max_groups=max_groups, n_threads=problem.n_threads, brake=brake, clock=problem.clock,
        )
    return minimal_covers(
        edges, problem.vertices,
        max_groups=max_groups, n_threads=problem.n_threads, brake=brake, clock=problem.clock,
    )


def finished(problem: Problem, covers: UInt64Array, edges: UInt64Array, counts: Int64Array) -> UInt64Array:
    """Covers to rules: without those that say nothing or say it too weakly, short ones first, twins once."""
    vertices = problem.vertices
    covers = covers[covers.any(axis=1)]
    covers = unrelaxed(covers, vertices, edges, counts, problem.most)
    covers = possible(vertices.once(covers), vertices, problem.nulls)
    lengths = vertices.n_predicates(covers)
    if problem.max_predicates is not None:
        covers, lengths = covers[lengths <= problem.max_predicates], lengths[lengths <= problem.max_predicates]
    return np.ascontiguousarray(covers[np.argsort(lengths, kind="stable")])
