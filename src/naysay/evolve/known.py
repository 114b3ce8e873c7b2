"""What the selective method knows of a table: enough evidence to have the covers of all, and what vouches for it.

Evidence of two sorts. *Settled*: of the pairs that agree on certain sets of columns every one is counted, so that their
evidence appears and vanishes exactly. *Open*: an edge is known by a few pairs of rows that have it; where all of them
are gone it is forgotten, and what that may let through is verified.

A pair and the same pair with its rows exchanged are known or forgotten together: of two rules that are twins, t and s
exchanged, the evidence at hand then breaks both or neither, and whoever proves rules may look at one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import BoolArray, Int32Array, Int64Array, UInt64Array
from naysay.budget import Budget
from naysay.discovery.evidence import Evidence
from naysay.discovery.outcomes import CodeLayout as Layout
from naysay.discovery.outcomes import Field, FieldKind, mirrored, outcomes_of
from naysay.discovery.problem import Problem
from naysay.discovery.ranking import ranker_of
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.result import N_BEST, Discovery
from naysay.discovery.vertices import Vertices, edges_of, sorted_unique
from naysay.discovery.vertices import _less as is_less
from naysay.evolve.covers import edge_of_each, places
from naysay.evolve.delta import NOBODY
from naysay.evolve.method import Method, Settings
from naysay.evolve.relation import Relation
from naysay.table import Table

# Pairs that are kept for an edge. Where a thousandth of all rows goes, hardly one that is common loses all three.
WITNESSES = 3


@dataclass(frozen=True, slots=True)
class BothWays:
    """For each of some codes its edge, the line it makes in `Open`, and whether its pairs are turned round there."""

    edges: UInt64Array
    lines: UInt64Array
    turned: BoolArray

    def take(self, which: BoolArray) -> BothWays:
        return BothWays(self.edges[which], self.lines[which], self.turned[which])


def both_ways(codes: Int32Array, shape: Layout, vertices: Vertices) -> BothWays:
    """Codes as edges, and with those of the pairs that are the other way round."""
    edges = edge_of_each(codes, shape, vertices)
    others = edge_of_each(mirrored(codes, shape), shape, vertices)
    turned = is_less(others, edges)
    lines = np.concatenate([np.where(turned[:, None], others, edges), np.where(turned[:, None], edges, others)], axis=1)
    return BothWays(edges, lines, turned)


@dataclass(frozen=True, slots=True)
class Open:
    """What pairs of rows were found to say: in a line the edge of a pair, then that with its rows exchanged.

    Of the two ways to write a line the lesser stands. Lines are sorted and distinct, and have up to WITNESSES pairs of
    serial numbers each, int64[n, WITNESSES].
    """

    lines: UInt64Array
    left: Int64Array
    right: Int64Array

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def edges(self) -> UInt64Array:
        """All edges, both ways, sorted and distinct."""
        n_words = self.lines.shape[1] // 2
        return sorted_unique(np.concatenate([self.lines[:, :n_words], self.lines[:, n_words:]]))

    def put(self, both: BothWays, left: Int64Array, right: Int64Array) -> Open:
        """With one more pair for each of some lines, wherever there is room."""
        if not len(both.lines):
            return self
        left, right = np.where(both.turned, right, left), np.where(both.turned, left, right)
        lines = sorted_unique(both.lines)
        at = places(both.lines, lines)
        first = np.zeros(len(lines), np.int64)
        first[at[::-1]] = np.arange(len(at))[::-1]
        left, right = left[first], right[first]
        known = places(lines, self.lines)
        lefts, rights = self.left.copy(), self.right.copy()
        old = np.flatnonzero(known >= 0)
        free = np.argmax(lefts[known[old]] == NOBODY, axis=1)
        room = lefts[known[old], free] == NOBODY
        lefts[known[old][room], free[room]] = left[old][room]
        rights[known[old][room], free[room]] = right[old][room]
        new = np.flatnonzero(known < 0)
        return _sorted(
            np.concatenate([self.lines, lines[new]]),
            np.concatenate([lefts, _padded(left[new])]),
            np.concatenate([rights, _padded(right[new])]),
        )

    def without_rows(self, serials: Int64Array) -> Open:
        """Without the pairs of rows that are gone; lines may be left with none."""
        if not serials.size or not len(self):
            return self
        gone = np.isin(self.left, serials) | np.isin(self.right, serials)
        if not gone.any():
            return self
        return Open(self.lines, np.where(gone, NOBODY, self.left), np.where(gone, NOBODY, self.right))

    @property
    def witnessed(self) -> BoolArray:
        """Which lines some pair vouches for."""
        found: BoolArray = (self.left != NOBODY).any(axis=1)
        return found

    def pairs(self) -> tuple[UInt64Array, Int64Array, Int64Array]:
        """Edges that pairs vouch for, both ways, and for each the serial numbers of one such pair."""
        known = self.take(self.witnessed)
        n_words = known.lines.shape[1] // 2
        edges = np.concatenate([known.lines[:, :n_words], known.lines[:, n_words:]])
        every = np.arange(len(known))
        first = np.argmax(known.left != NOBODY, axis=1)
        left, right = known.left[every, first], known.right[every, first]
        return np.ascontiguousarray(edges), np.concatenate([left, right]), np.concatenate([right, left])

    def take(self, which: BoolArray) -> Open:
        return Open(np.ascontiguousarray(self.lines[which]), self.left[which], self.right[which])


def no_edges(vertices: Vertices) -> Open:
    nobody = np.empty((0, WITNESSES), np.int64)
    return Open(np.empty((0, 2 * vertices.n_words), np.uint64), nobody, nobody)


def _padded(serials: Int64Array) -> Int64Array:
    pairs = np.full((serials.size, WITNESSES), NOBODY, np.int64)
    pairs[:, 0] = serials
    return pairs


def _sorted(lines: UInt64Array, left: Int64Array, right: Int64Array) -> Open:
    order = np.lexsort([lines[:, word] for word in range(lines.shape[1])])
    return Open(np.ascontiguousarray(lines[order]), left[order], right[order])


@dataclass(frozen=True, slots=True)
class Known:
    """Evidence, and the minimal covers of it, which are the minimal rules of the table. `masks` are the settled sets.

    Bit k of a mask is the k-th comparison of the space: a column with itself.
    """

    layout: Layout
    shape: Layout
    vertices: Vertices
    masks: tuple[int, ...]
    settled: Evidence
    open: Open
    covers: UInt64Array

    @property
    def edges(self) -> UInt64Array:
        """All edges that are known, sorted and distinct."""
        edges, _ = edges_of(self.settled, self.shape, self.vertices)
        return sorted_unique(np.concatenate([edges, self.open.edges]))


def agreeing(codes: Int32Array, layout: Layout, masks: tuple[int, ...]) -> NDArray[np.bool_]:
    """For each code whether its pairs agree on all columns of one of the sets."""
    found = np.zeros(len(codes), np.bool_)
    fields = {field.place: field for field in layout.fields if field.place is not None}
    agreed: dict[int, BoolArray] = {}
    for mask in masks:
        here = np.ones(len(codes), np.bool_)
        for place, field in fields.items():
            if mask >> place & 1:
                if place not in agreed:
                    agreed[place] = _agrees(codes[:, field.word], field)
                here &= agreed[place]
        found |= here
    return found


def _agrees(words: Int32Array, field: Field) -> BoolArray:
    equal: BoolArray = (words & field.equal) != 0
    if field.kind is FieldKind.ORDER:
        equal &= (words & field.less) == 0
    if field.kind is FieldKind.EQUALITY:
        equal &= (words & (field.missing & ~field.equal)) == 0
    return equal


def ranked(relation: Relation, method: Method, settings: Settings, n_threads: int) -> Discovery:
    """What `discover` would say of the rows that stand. O(n) for the rows, beside the ranking."""
    budget = Budget(threads=n_threads)
    with budget.phase("encode"):
        outcomes = outcomes_of(Table(relation.table()), relation.space, settings.nulls)
    request = DiscoverRequest(settings.error, max_predicates=settings.max_predicates, nulls=settings.nulls)
    problem = Problem.of(relation.space, outcomes, request, budget)
    with budget.phase("ranking"):
        findings = ranker_of(method.answer(), problem).best(method.rules, N_BEST)
    return Discovery(
        findings,
        method.rules,
        False,
        "",
        relation.n_rows,
        settings.error,
        relation.space,
        settings.nulls,
        method.name,
        budget.seconds,
        relation.space.notes,
    )
