"""What every method of discovery is given, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.budget import Budget
from naysay.discovery.cover import Brake, allowed_pairs, drop_impossible, drop_relaxed, minimal_covers, near_covers
from naysay.discovery.evidence import Device, word_order
from naysay.discovery.outcomes import Outcomes
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.space import Space
from naysay.discovery.vertices import Vertices, vertices_of

# If nobody set a limit: as many rules as a person can still do something with.
MOST_RULES = 2_000_000
# Once time is up, sorting more than these would take longer than anybody wants to wait then.
MOST_PARTIAL = 200_000
_BITS = np.array([byte.bit_count() for byte in range(256)], np.uint8)


@dataclass(frozen=True, slots=True)
class Problem:
    """A table encoded for a space, and what is asked of it. `most` is the number of ordered pairs that may break a
    rule."""

    space: Space
    outcomes: Outcomes
    vertices: Vertices
    request: DiscoverRequest = field(default_factory=DiscoverRequest)
    most: int = 0
    budget: Budget = field(default_factory=Budget)

    @classmethod
    def of(
        cls, space: Space, outcomes: Outcomes, request: DiscoverRequest | None = None, budget: Budget | None = None
    ) -> Problem:
        request = request or DiscoverRequest()
        most = allowed_pairs(request.error, outcomes.n_pairs)
        return cls(space, outcomes, vertices_of(space, outcomes.layout), request, most, budget or Budget())

    @property
    def limit(self) -> int:
        """The most rules to return."""
        return min(self.request.max_rules or MOST_RULES, MOST_RULES)

    @property
    def most_groups(self) -> int:
        """The most comparisons that a rule may have."""
        return self.request.max_predicates or len(self.vertices.groups)


@dataclass(frozen=True, slots=True)
class Answer:
    """Rules as covers, one of each pair of twins; whether some may be missing; and the evidence behind them.

    Every cover is a minimal rule of the whole table, whether or not all were found. `counts` are those of all pairs
    if `n_sampled` is None, else of all pairs of that many rows drawn at random.
    """

    covers: UInt64Array
    partial: bool
    edges: UInt64Array
    counts: Int64Array
    n_sampled: int | None = None
    device: Device = Device.CPU


def empty_answer(problem: Problem, *, partial: bool) -> Answer:
    nothing = np.empty((0, problem.vertices.n_words), np.uint64)
    return Answer(nothing, partial, nothing, np.empty(0, np.int64))


def search_rules(problem: Problem, edges: UInt64Array, counts: Int64Array) -> tuple[UInt64Array, bool]:
    """All minimal rules of complete evidence, and whether a limit or the clock left some out.

    If there are more rules than wanted, the shortest are found: by searching again with few predicates, then more.
    """
    limit, budget = problem.limit, problem.budget
    # Twins are found twice.
    brake = Brake(2 * limit + 2)
    first = _covers(problem, edges, counts, problem.most_groups, brake)
    if budget.stopped() or not brake.stopped:
        covers, complete = finish_rules(problem, first, edges, counts)
        if complete and not budget.stopped() and len(covers) <= limit:
            return covers, False
        if budget.stopped():
            return covers[:limit], True
    shortest: UInt64Array | None = None
    for n_groups in range(1, problem.most_groups):
        brake = Brake(2 * limit + 2)
        covers, _ = finish_rules(problem, _covers(problem, edges, counts, n_groups, brake), edges, counts)
        if budget.stopped():
            break
        shortest = covers
        if brake.stopped or len(covers) > limit:
            break
    if shortest is None:
        # Stopped before anything better was found.
        shortest, _ = finish_rules(problem, first, edges, counts)
    return shortest[:limit], True


def _covers(problem: Problem, edges: UInt64Array, counts: Int64Array, max_groups: int, brake: Brake) -> UInt64Array:
    vertices, most, budget = problem.vertices, problem.most, problem.budget
    if most:
        return near_covers(edges, counts, vertices, most, max_groups=max_groups, brake=brake, budget=budget)
    return minimal_covers(edges, vertices, max_groups=max_groups, brake=brake, budget=budget)


def finish_rules(
    problem: Problem, covers: UInt64Array, edges: UInt64Array, counts: Int64Array
) -> tuple[UInt64Array, bool]:
    """Covers to rules: without those that say nothing or say it too weakly, short ones first, twins once.

    And whether these are all. Once the budget has stopped, a few of the shortest are finished, and more while there is
    time.
    """
    vertices, budget, request = problem.vertices, problem.budget, problem.request
    covers = covers[covers.any(axis=1)]
    complete = not budget.stopped() or len(covers) <= MOST_PARTIAL
    if not complete:
        n_vertices = _BITS[np.ascontiguousarray(covers).view(np.uint8)].sum(axis=1)
        covers = covers[np.argpartition(n_vertices, MOST_PARTIAL)[:MOST_PARTIAL]]
    covers = in_order(vertices.once(covers), vertices)
    if request.max_predicates is not None:
        covers = covers[vertices.n_predicates(covers) <= request.max_predicates]
    covers, all_judged = drop_impossible(covers, vertices, budget)
    covers, all_tried = drop_relaxed(covers, vertices, edges, counts, problem.most, budget)
    return np.ascontiguousarray(covers), complete and all_judged and all_tried


def in_order(covers: UInt64Array, vertices: Vertices) -> UInt64Array:
    """The covers of rules with few predicates first, then by their vertices: one order, however they were found."""
    covers = covers[word_order(covers)]
    return covers[np.argsort(vertices.n_predicates(covers), kind="stable")]
