"""From evidence that may not be all to rules that are proven: the selective method, with pairs for what it learns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.discovery.evidence import Block, Evidence, codes_of_pairs, group_blocks, triangle
from naysay.discovery.outcomes import CodeLayout as Layout
from naysay.discovery.outcomes import mirrored
from naysay.discovery.plan_pairs import Costs
from naysay.discovery.problem import MOST_RULES, Problem
from naysay.discovery.selective import SAMPLE_ROWS, SelectiveSearch
from naysay.discovery.verify import Pair, Verifier
from naysay.discovery.vertices import edges_of, sorted_unique, to_int
from naysay.evolve.counted import summed
from naysay.evolve.covers import Search, all_covers, members, updated
from naysay.evolve.delta import Seen, check, see, together, turned
from naysay.evolve.known import Known, agreeing, both_ways, no_edges
from naysay.evolve.relation import Sides

# Together the single columns whose agreeing pairs are counted at the start may have so many, or so many a row.
_FIRST_PAIRS = 20_000_000
_FIRST_PAIRS_A_ROW = 600


class RankedVerifier(Verifier):
    """A verifier over codes that leave room between values: it ranks what it looks at."""

    def values(self, field: int, *, left: bool = True) -> Int64Array:
        """A side of a field as ranks."""
        from naysay.kernels.sort import dense_ranks

        outcomes = self.outcomes
        across = outcomes.layout.fields[field].comparison.across
        if not across:
            return self._keep(("values", field), lambda: dense_ranks(outcomes.left[field].astype(np.int64))[0])
        both = self._keep(
            ("values", field),
            lambda: dense_ranks(np.concatenate((outcomes.left[field], outcomes.right[field])).astype(np.int64))[0],
        )
        n_rows = outcomes.n_rows
        return both[:n_rows] if left else both[n_rows:]


class Prover(SelectiveSearch):
    """Proves the covers of a table, given what is known of it.

    The rows are all that stand; `problem.outcomes` are the same rows.
    """

    def __init__(self, problem: Problem, rows: Sides, known: Known, proven: UInt64Array) -> None:
        super().__init__(problem)
        self.verifier = RankedVerifier(problem.outcomes, problem.vertices)
        self.costs = Costs(self.verifier, problem.budget.threads)
        self._rows = rows
        self._search = Search(problem.vertices, problem.request.max_predicates, problem.budget.threads)
        self._evidence, self._open = known.settled, known.open
        self._layout, self._shape = known.layout, known.shape
        self.edges, self.covers = known.edges, known.covers
        # The edges that the covers are those of.
        self._covered = self.edges
        self.settled = list(known.masks)
        self.verified = {to_int(cover) for cover in problem.vertices.once(proven)}

    def begin(self, masks: Sequence[int] = ()) -> None:
        """Evidence to start from: random rows, so often that common edges have several pairs, and selective sets.

        The sets are those given, else single columns.
        """
        rng = np.random.default_rng(0)
        n_sample = min(self._rows.n_rows, SAMPLE_ROWS)
        for _ in range(3):
            places = np.sort(rng.choice(self._rows.n_rows, n_sample, replace=False))
            self._learn_seen(self._see(places, list(triangle(n_sample))))
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

    def prove(self, *, may_leave: bool = False) -> Known:
        """Go on until every cover is proven."""
        complete = self.run(self.problem.most_groups, MOST_RULES, may_leave=may_leave)
        check(self.problem.budget)
        assert complete, "nothing but an interrupt ends the search"
        return Known(
            self._layout,
            self._shape,
            self.problem.vertices,
            tuple(self.settled),
            self._evidence,
            self._open,
            self.covers,
        )

    def enumerate(self, mask: int) -> None:
        """Count all pairs that agree on a set of columns."""
        order, starts = self.costs.grouped(mask)
        sizes = np.diff(starts)
        inside = order[np.repeat(sizes > 1, sizes)]
        seen = self._see(inside, [tuple(block) for block in group_blocks(sizes[sizes > 1]).tolist()])
        known = agreeing(seen.codes, self._shape, tuple(self.settled))
        fresh = seen.take(np.flatnonzero(~known))
        self._evidence = summed(self._evidence, [fresh.evidence])
        self.settle(mask)
        edges, _ = edges_of(fresh.evidence, self._shape, self.problem.vertices)
        self.edges = sorted_unique(np.concatenate([self.edges, edges]))

    def update(self, max_groups: int, limit: int) -> bool:
        """Bring the covers up to date with what has become known."""
        fresh = np.ascontiguousarray(self.edges[~members(self.edges, self._covered)])
        self.covers = updated(self.covers, self.edges, fresh, fresh[:0], self._search)
        self._covered = self.edges
        return True

    def _learn(self, pairs: list[Pair]) -> UInt64Array:
        """The edges of some pairs of places and of their mirrors become known; gives them."""
        at = np.array(pairs, np.int64)
        codes = codes_of_pairs(self.problem.outcomes, at[:, 0], at[:, 1])
        left, right = self._rows.serials[at[:, 0]], self._rows.serials[at[:, 1]]
        half = Seen(codes, np.ones(len(codes), np.int64), left, right)
        both = Seen(
            np.concatenate([half.codes, mirrored(half.codes, self._layout)]),
            np.tile(half.counts, 2),
            np.concatenate([left, right]),
            np.concatenate([right, left]),
        )
        return self._learn_seen(both)

    def _learn_seen(self, seen: Seen) -> UInt64Array:
        both = both_ways(seen.codes, self._shape, self.problem.vertices)
        self._open = self._open.put(both, seen.left, seen.right)
        self.edges = sorted_unique(np.concatenate([self.edges, both.edges]))
        return both.edges

    def _see(self, at: Int64Array, blocks: list[Block]) -> Seen:
        """All pairs in blocks of the rows at some places, both ways."""
        left = np.ascontiguousarray(self._rows.left[:, at])
        right = left if self._rows.right is self._rows.left else np.ascontiguousarray(self._rows.right[:, at])
        rows = Sides(left, right, self._rows.serials[at])
        half = see(rows, rows, blocks, self._layout, self.problem.budget.threads)
        return together([half, turned(half, self._layout)], self._layout)


def nothing_known(problem: Problem, layout: Layout, shape: Layout) -> Known:
    """Before anything was looked at."""
    vertices = problem.vertices
    nothing = Evidence(np.empty((0, layout.n_words), np.int32), np.empty(0, np.int64))
    return Known(layout, shape, vertices, (), nothing, no_edges(vertices), np.zeros((1, vertices.n_words), np.uint64))
