"""What every method of discovery is given, and what it gives back."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.budget import Budget
from naysay.discovery.cover import allowed_pairs, drop_impossible, drop_relaxed
from naysay.discovery.evidence import Device, word_order
from naysay.discovery.outcomes import Outcomes
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.space import Space
from naysay.discovery.vertices import Vertices, n_vertices, sorted_unique, vertices_of
from naysay.plan.cost import process_bytes
from naysay.rule.model import Rule

# If nobody set a limit: as many rules as a person can still do something with.
MOST_RULES = 2_000_000
# Once time is up, making rules of more words of covers would take longer than anybody wants to wait then.
_PARTIAL_WORDS = 200_000
# Words of covers that become rules in a second, copies of the covers meanwhile, and covers that always have room.
_FINISHED_PER_SECOND = 1_000_000
_COPIES = 10
_FEWEST_COVERS = 10_000
# With a time limit: pairs times comparisons to sample per second of it, and the fewest rows to sample.
SAMPLE_WORK_PER_SECOND = 4_000_000
_FEWEST_SAMPLE_ROWS = 40


class MeasureTable(Protocol):
    """Measures one rule on the whole table; None if it would take more than the seconds given."""

    def pairs(self, rule: Rule, seconds: float) -> int | None:
        """The ordered pairs that break it."""

    def rows(self, rule: Rule, seconds: float) -> tuple[int, tuple[int, int]] | None:
        """The rows in conflict, and the least and most rows to remove."""

    def examples(self, rule: Rule, limit: int) -> list[tuple[tuple[int, ...], str]]:
        """Some pairs of rows that break it, by their numbers, and why, each reason once."""

    def sample(self, rows: Int64Array) -> MeasureTable:
        """The same for some rows of the table."""


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
        most = 0 if request.is_measured else allowed_pairs(request.error, outcomes.n_pairs)
        return cls(space, outcomes, vertices_of(space, outcomes.layout), request, most, budget or Budget())

    @property
    def limit(self) -> int:
        """The most rules to return."""
        return min(self.request.max_rules or MOST_RULES, MOST_RULES)

    def rows_in_time(self, most: int) -> int:
        """How many rows to sample so that all their pairs can be compared in the time left, at most `most`."""
        most = min(most, self.outcomes.n_rows)
        if not self.budget.is_limited:
            return most
        n_pairs = SAMPLE_WORK_PER_SECOND * max(0.0, self.budget.left) / len(self.outcomes.layout.fields)
        return min(most, max(_FEWEST_SAMPLE_ROWS, math.isqrt(int(2 * n_pairs))))

    @property
    def most_covers(self) -> dict[str, int]:
        """The most covers that a search may find, by what limits them: more could not be made rules of.

        Twins are found twice.
        """
        most = {"limit on rules": 2 * self.limit + 2}
        n_words, budget = self.vertices.n_words, self.budget
        if budget.is_limited:
            most["time limit"] = int(max(_PARTIAL_WORDS, _FINISHED_PER_SECOND * budget.left) / n_words)
        if budget.memory is not None:
            room = (budget.memory - process_bytes()) // (8 * n_words * _COPIES)
            most["memory limit"] = max(_FEWEST_COVERS, room)
        return most

    def stop_at(self, most_covers: dict[str, int]) -> None:
        """Say what kept a search from finding more covers; a limit on rules needs no saying."""
        reason = min(most_covers, key=lambda each: most_covers[each])
        if reason != "limit on rules":
            self.budget.stop(reason)

    @property
    def most_groups(self) -> int:
        """The most comparisons that a rule may have."""
        return self.request.max_predicates or len(self.vertices.groups)


@dataclass(frozen=True, slots=True)
class Answer:
    """Rules as covers, one of each pair of twins; whether some may be missing; and the evidence behind them.

    Every cover is a minimal rule of the whole table, whether or not all were found. `counts` are those of all pairs
    if `n_sampled` is None, else of all pairs of that many rows drawn at random. If some rules may be missing, none of
    up to `complete_up_to` predicates is. `notes` are remarks for a person.
    """

    covers: UInt64Array
    partial: bool
    edges: UInt64Array
    counts: Int64Array
    n_sampled: int | None = None
    device: Device = Device.CPU
    complete_up_to: int = 0
    notes: tuple[str, ...] = ()


def empty_answer(problem: Problem, *, partial: bool) -> Answer:
    nothing = np.empty((0, problem.vertices.n_words), np.uint64)
    return Answer(nothing, partial, nothing, np.empty(0, np.int64))


def finish_rules(
    problem: Problem, covers: UInt64Array, edges: UInt64Array, counts: Int64Array
) -> tuple[UInt64Array, bool]:
    """Covers to rules: without those that say nothing or say it too weakly, short ones first, twins once.

    And whether these are all. Once the budget has stopped, a few of the shortest are finished, and more while there is
    time.
    """
    vertices, budget = problem.vertices, problem.budget
    covers = covers[covers.any(axis=1)]
    n_covers = len(covers)
    if budget.stopped():
        covers = some_of_the_shortest(covers)
    complete = len(covers) == n_covers
    covers, all_judged = finish_accepted(problem, covers)
    covers, all_tried = drop_relaxed(covers, vertices, edges, counts, problem.most, budget)
    return np.ascontiguousarray(covers), complete and all_judged and all_tried


def finish_accepted(problem: Problem, covers: UInt64Array) -> tuple[UInt64Array, bool]:
    """The same for covers of which none says too much."""
    vertices, most = problem.vertices, problem.request.max_predicates
    covers = in_order(vertices.once(covers), vertices)
    if most is not None:
        covers = covers[vertices.n_predicates(covers) <= most]
    return drop_impossible(covers, vertices, problem.budget)


def some_of_the_shortest(covers: UInt64Array) -> UInt64Array:
    """As many covers as can be handled once time is up, those with the fewest vertices."""
    most = _PARTIAL_WORDS // covers.shape[1]
    return covers if len(covers) <= most else covers[np.argpartition(n_vertices(covers), most)[:most]]


def all_of(one: UInt64Array, other: UInt64Array, vertices: Vertices) -> UInt64Array:
    """The rules in one or the other of two lists, in order."""
    return in_order(sorted_unique(np.concatenate([one, other])), vertices) if len(other) else one


def in_order(covers: UInt64Array, vertices: Vertices) -> UInt64Array:
    """The covers of rules with few predicates first, then by their vertices: one order, however they were found."""
    covers = covers[word_order(covers)]
    return covers[np.argsort(vertices.n_predicates(covers), kind="stable")]
