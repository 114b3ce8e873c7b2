"""Partial evidence that has the same minimal covers as the evidence of all pairs, and the proof that it has.

There are two sorts of evidence. *Settled*: every pair that agrees on certain sets of columns is counted, so that its
evidence appears and disappears exactly. *Open*: an edge is known from a few pairs of rows that have it; once they are
all gone it is forgotten, and the rules that this may let through are verified.

A pair and the same pair with its rows exchanged are known or forgotten together: the evidence then breaks both or
neither of two twin rules (t and s exchanged), so that it is enough to prove one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

import numpy as np

from naysay.arrays import BoolArray, Int32Array, Int64Array, UInt64Array
from naysay.discovery.evidence import Block, Evidence, codes_of_pairs, group_blocks, triangle, word_order
from naysay.discovery.outcomes import CodeLayout, Field, FieldKind, Outcomes, mirrored
from naysay.discovery.problem import MOST_RULES, Problem
from naysay.discovery.selective import _FIRST_PAIRS, _FIRST_PAIRS_A_ROW, SAMPLE_ROWS, SelectiveSearch
from naysay.discovery.verify import Costs, Pair, Verifier
from naysay.discovery.vertices import Vertices, edge_of_each, edges_of, sorted_unique, to_int
from naysay.discovery.vertices import _less as is_less
from naysay.evolve.covers import Search, all_covers, members, missed_by_some, places, update_covers
from naysay.evolve.delta import NO_ROW, PairEvidence, compare_blocks, raise_if_stopped
from naysay.evolve.method import Arrays, add_evidence
from naysay.evolve.relation import EncodedRows

# Pairs to keep per edge. If a thousandth of all rows is deleted, hardly any common edge loses all three.
WITNESSES = 3


@dataclass(frozen=True, slots=True)
class TwoWayEdges:
    """For each of some codes its edge, its line in `OpenEvidence`, and whether the line has its pairs exchanged."""

    edges: UInt64Array
    lines: UInt64Array
    turned: BoolArray

    @classmethod
    def of(cls, codes: Int32Array, shape: CodeLayout, vertices: Vertices) -> TwoWayEdges:
        edges = edge_of_each(codes, shape, vertices)
        others = edge_of_each(mirrored(codes, shape), shape, vertices)
        turned = is_less(others, edges)
        first, second = np.where(turned[:, None], (others, edges), (edges, others))
        return cls(edges, np.concatenate([first, second], axis=1), turned)

    def take(self, which: BoolArray) -> TwoWayEdges:
        return TwoWayEdges(self.edges[which], self.lines[which], self.turned[which])


@dataclass(frozen=True, slots=True)
class OpenEvidence:
    """What some pairs of rows showed: in a line the edge of a pair, then that of the pair with its rows exchanged.

    Of the two ways to write a line the lesser is used. Lines are sorted and distinct, with up to WITNESSES pairs of
    serial numbers each, int64[n, WITNESSES].
    """

    lines: UInt64Array
    left: Int64Array
    right: Int64Array

    @classmethod
    def empty(cls, vertices: Vertices) -> OpenEvidence:
        nobody = np.empty((0, WITNESSES), np.int64)
        return cls(np.empty((0, 2 * vertices.n_words), np.uint64), nobody, nobody)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def edges(self) -> UInt64Array:
        """All edges, both ways, sorted and distinct."""
        return sorted_unique(np.concatenate(np.split(self.lines, 2, axis=1)))

    def put(self, both: TwoWayEdges, left: Int64Array, right: Int64Array) -> OpenEvidence:
        """With one more pair for each of some lines, if there is room for it."""
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
        free = np.argmax(lefts[known[old]] == NO_ROW, axis=1)
        room = lefts[known[old], free] == NO_ROW
        lefts[known[old][room], free[room]] = left[old][room]
        rights[known[old][room], free[room]] = right[old][room]
        new = np.flatnonzero(known < 0)
        lines = np.concatenate([self.lines, lines[new]])
        order = word_order(lines)
        lefts = np.concatenate([lefts, _padded(left[new])])
        rights = np.concatenate([rights, _padded(right[new])])
        return OpenEvidence(np.ascontiguousarray(lines[order]), lefts[order], rights[order])

    def without_rows(self, serials: Int64Array) -> OpenEvidence:
        """Without the pairs of rows that are gone; lines may be left without any pair."""
        if not serials.size or not len(self):
            return self
        gone = np.isin(self.left, serials) | np.isin(self.right, serials)
        if not gone.any():
            return self
        return OpenEvidence(self.lines, np.where(gone, NO_ROW, self.left), np.where(gone, NO_ROW, self.right))

    @property
    def witnessed(self) -> BoolArray:
        """Which lines still have a pair."""
        found: BoolArray = (self.left != NO_ROW).any(axis=1)
        return found

    def pairs(self) -> tuple[UInt64Array, Int64Array, Int64Array]:
        """The edges that still have a pair, both ways, and for each the serial numbers of one such pair."""
        known = self.take(self.witnessed)
        edges = np.concatenate(np.split(known.lines, 2, axis=1))
        every = np.arange(len(known))
        first = np.argmax(known.left != NO_ROW, axis=1)
        left, right = known.left[every, first], known.right[every, first]
        return np.ascontiguousarray(edges), np.concatenate([left, right]), np.concatenate([right, left])

    def take(self, which: BoolArray) -> OpenEvidence:
        return OpenEvidence(np.ascontiguousarray(self.lines[which]), self.left[which], self.right[which])


def _padded(serials: Int64Array) -> Int64Array:
    return np.pad(serials[:, None], ((0, 0), (0, WITNESSES - 1)), constant_values=NO_ROW)


@dataclass(frozen=True, slots=True)
class ProvenCovers:
    """Evidence, and its minimal covers, which are the minimal rules of the table. `masks` are the settled sets.

    Bit k of a mask is the k-th comparison of the space: a column with itself.
    """

    layout: CodeLayout
    shape: CodeLayout
    vertices: Vertices
    masks: tuple[int, ...]
    settled: Evidence
    open: OpenEvidence
    covers: UInt64Array

    @classmethod
    def unknown(cls, vertices: Vertices, layout: CodeLayout, shape: CodeLayout) -> ProvenCovers:
        """Before any pair was compared."""
        nothing = Evidence(np.empty((0, layout.n_words), np.int32), np.empty(0, np.int64))
        no_cover = np.zeros((1, vertices.n_words), np.uint64)
        return cls(layout, shape, vertices, (), nothing, OpenEvidence.empty(vertices), no_cover)

    @classmethod
    def of_arrays(cls, kept: Arrays, vertices: Vertices, layout: CodeLayout, shape: CodeLayout) -> ProvenCovers:
        masks = tuple(int(mask) for mask in kept["masks"])
        settled = Evidence(kept["codes"], kept["counts"])
        opened = OpenEvidence(kept["lines"], kept["left"], kept["right"])
        return cls(layout, shape, vertices, masks, settled, opened, kept["covers"])

    def arrays(self) -> Arrays:
        return {
            "masks": np.array(self.masks, np.int64),
            "codes": self.settled.codes,
            "counts": self.settled.counts,
            "lines": self.open.lines,
            "left": self.open.left,
            "right": self.open.right,
            "covers": self.covers,
        }

    @property
    def edges(self) -> UInt64Array:
        """All known edges, sorted and distinct."""
        edges, _ = edges_of(self.settled, self.shape, self.vertices)
        return sorted_unique(np.concatenate([edges, self.open.edges]))

    def are_settled(self, codes: Int32Array) -> BoolArray:
        """For each code whether its pairs agree on all columns of a settled set."""
        return agree_on(codes, self.shape, self.masks)


def agree_on(codes: Int32Array, layout: CodeLayout, masks: Sequence[int]) -> BoolArray:
    """For each code whether its pairs agree on all columns of one of the sets."""
    used = reduce(or_, masks, 0)
    agreed = {
        field.place: _agrees(codes[:, field.word], field)
        for field in layout.fields
        if field.place is not None and used >> field.place & 1
    }
    found = np.zeros(len(codes), np.bool_)
    for mask in masks:
        found |= np.logical_and.reduce([here for place, here in agreed.items() if mask >> place & 1])
    return found


def _agrees(words: Int32Array, field: Field) -> BoolArray:
    equal: BoolArray = (words & field.equal) != 0
    if field.kind is FieldKind.ORDER:
        equal &= (words & field.less) == 0
    if field.kind is FieldKind.EQUALITY:
        equal &= (words & (field.missing & ~field.equal)) == 0
    return equal


class RankedVerifier(Verifier):
    """A verifier over codes with gaps between values: it works with their ranks."""

    def __init__(self, outcomes: Outcomes, vertices: Vertices) -> None:
        super().__init__(outcomes, vertices)
        self._ranks: dict[int, Int32Array] = {}

    def codes(self, field: int, *, left: bool = True) -> Int32Array:
        """A side of a field as ranks."""
        from naysay.kernels.sort import dense_ranks

        outcomes = self.outcomes
        across = outcomes.layout.fields[field].comparison.across
        sides = (outcomes.left[field], outcomes.right[field]) if across else (outcomes.left[field],)
        both = self._ranks.get(field)
        if both is None:
            # Two threads may do this at once; both get the same.
            both = self._ranks[field] = dense_ranks(np.concatenate(sides).astype(np.int64))[0].astype(np.int32)
        return both[: outcomes.n_rows] if left or not across else both[outcomes.n_rows :]


class Prover(SelectiveSearch):
    """Proves the covers of all rows, given what is known of them. `problem.outcomes` are the same rows."""

    def __init__(self, problem: Problem, rows: EncodedRows, known: ProvenCovers, proven: UInt64Array) -> None:
        super().__init__(problem)
        self.verifier = RankedVerifier(problem.outcomes, problem.vertices)
        self.costs = Costs(self.verifier, problem.budget.threads)
        self._rows = rows
        self._search = Search(problem.vertices, problem.request.max_predicates, problem.budget.threads)
        self._proof = known
        self.edges, self.covers = known.edges, known.covers
        # The edges that the covers cover.
        self._covered = self.edges
        self.settled = list(known.masks)
        self.verified = {to_int(cover) for cover in problem.vertices.once(proven)}

    def begin(self, masks: Sequence[int] = ()) -> None:
        """Collect evidence to start from: several samples, so that common edges have several pairs, and selective sets.

        The sets are the given ones, or single columns by default.
        """
        rng = np.random.default_rng(0)
        n_sample = min(self._rows.n_rows, SAMPLE_ROWS)
        for _ in range(3):
            places = np.sort(rng.choice(self._rows.n_rows, n_sample, replace=False))
            seen = self._compare(places, list(triangle(n_sample)))
            self._learn_codes(seen.codes, seen.left, seen.right)
        left = max(_FIRST_PAIRS, _FIRST_PAIRS_A_ROW * self._rows.n_rows)
        for mask in masks:
            self.enumerate(mask)
            left = -1
        for n_pairs, mask in sorted((self.costs.n_pairs(mask), mask) for mask in self.costs.single_masks()):
            if n_pairs > left:
                break
            left -= n_pairs
            self.enumerate(mask)
        self._covered = self.edges
        self.covers = all_covers(self.edges, self._search)

    def prove(self, *, may_leave: bool = False) -> ProvenCovers:
        """Continue until every cover is proven."""
        complete = self.run(self.problem.most_groups, MOST_RULES, may_leave=may_leave)
        raise_if_stopped(self.problem.budget)
        assert complete, "nothing but an interrupt ends the search"
        return replace(self._proof, masks=tuple(self.settled), covers=self.covers)

    def enumerate(self, mask: int) -> bool:
        """Count all pairs that agree on a set of columns; there is no limit on time."""
        order, starts = self.costs.grouped(mask)
        sizes = np.diff(starts).astype(np.int64)
        inside = order[np.repeat(sizes > 1, sizes)].astype(np.int64)
        seen = self._compare(inside, [tuple(block) for block in group_blocks(sizes[sizes > 1]).tolist()])
        counted = agree_on(seen.codes, self._proof.shape, self.settled)
        fresh = seen.take(np.flatnonzero(~counted)).evidence
        self._proof = replace(self._proof, settled=add_evidence(self._proof.settled, fresh))
        self.settle(mask)
        self.add_edges(edges_of(fresh, self._proof.shape, self.problem.vertices)[0])
        return True

    def update(self, max_groups: int, limit: int) -> bool:
        """Bring the covers up to date with the edges."""
        fresh = np.ascontiguousarray(self.edges[~members(self.edges, self._covered)])
        self.covers = update_covers(self.covers, self.edges, fresh, fresh[:0], self._search)
        self._covered = self.edges
        return True

    def learn(self, pairs: list[Pair]) -> UInt64Array:
        """Add the edges of some pairs of places and of their mirrors; returns them."""
        at = np.array(pairs, np.int64)
        codes = codes_of_pairs(self.problem.outcomes, at[:, 0], at[:, 1])
        codes = np.concatenate([codes, mirrored(codes, self._proof.layout)])
        left, right = self._rows.serials[at.T]
        return self._learn_codes(codes, np.concatenate([left, right]), np.concatenate([right, left]))

    def learn_breaking(self, seen: PairEvidence) -> None:
        """Learn those of some pairs that break a cover."""
        edges = edge_of_each(seen.codes, self._proof.shape, self.problem.vertices)
        seen = seen.take(np.flatnonzero(missed_by_some(self.covers, edges)))
        self._learn_codes(seen.codes, seen.left, seen.right)

    def _learn_codes(self, codes: Int32Array, left: Int64Array, right: Int64Array) -> UInt64Array:
        both = TwoWayEdges.of(codes, self._proof.shape, self.problem.vertices)
        self._proof = replace(self._proof, open=self._proof.open.put(both, left, right))
        return self.add_edges(both.edges)

    def _compare(self, places: Int64Array, blocks: list[Block]) -> PairEvidence:
        """All pairs in blocks of the rows at some places, both ways."""
        rows, layout = self._rows.take(places), self._proof.layout
        return compare_blocks(rows, rows, blocks, layout, self.problem.budget.threads).both_ways(layout)
