"""FACET for one rule: plan a pipeline of refinements, push cluster pairs through it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from naysay.errors import ResourceError
from naysay.plan.bind import BoundJoin
from naysay.table.codes import Int64Array
from naysay.verbs.facet.planner import GreedyHLL
from naysay.verbs.facet.predicates import parts_of_bound
from naysay.verbs.facet.refinement import BATCH, MAX_WORDS, N_BINS, ClusterPairs, Stage, Work, refine
from naysay.verbs.facet.tries import check_many, start_of
from naysay.verbs.strategy import Pairs


@dataclass(frozen=True, slots=True)
class Facet:
    """The strategy "facet": refinement pipelines over cluster pairs (Pena et al., PVLDB 15(4), 2022).

    `max_words` bounds the intermediate cluster pairs, in row ids and words of bitmaps together; `max_pairs` a list of
    violations without limit; `batch` the row ids in memory at a time; `n_bins` is BHSM's (section 6.2).
    """

    max_words: int = MAX_WORDS
    max_pairs: int = 1 << 26
    batch: int = BATCH
    n_bins: int = N_BINS

    def work(self, *, stops_early: bool = False) -> Work:
        return Work(self.batch, self.max_words, self.n_bins, stops_early)

    def verify(self, bound: BoundJoin) -> tuple[int, int] | None:
        """Find one violation as (left row, right row), or None where the rule holds."""
        left, right = self._list(bound, 1, self.work(stops_early=True))
        return (int(left[0]), int(right[0])) if left.size else None

    def count(self, bound: BoundJoin) -> int:
        """Count the ordered pairs of distinct rows that break the rule."""
        (n_pairs,) = check_many([parts_of_bound(bound)], work=self.work())
        return n_pairs

    def violations(self, bound: BoundJoin, limit: int | None) -> Pairs:
        """List violations, at most `limit` of them."""
        # One more than asked for tells whether the list is complete.
        most = self.max_pairs if limit is None else limit
        left, right = self._list(bound, most + 1, self.work(stops_early=limit is not None))
        if limit is None and left.size > most:
            raise ResourceError(f"the rule has more than {most:,} violations: ask for a list with a limit")
        return Pairs(left[:most], right[:most], left.size <= most)

    def _list(self, bound: BoundJoin, most: int, work: Work) -> tuple[Int64Array, Int64Array]:
        from naysay.kernels.facet import list_pairs

        rule = parts_of_bound(bound)
        stages = GreedyHLL().plan(rule.predicates, mirror=rule.mirror)
        left, right = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        n_wanted = most
        for pairs in _push(stages, start_of(rule), work, prune=rule.prunes):
            found = list_pairs(
                pairs.left.places,
                pairs.left.bounds,
                pairs.right.places,
                pairs.right.bounds,
                rule.left_rows,
                rule.right_rows,
                min(int(np.dot(pairs.left.sizes, pairs.right.sizes)), n_wanted),
            )
            left.append(found[0])
            right.append(found[1])
            n_wanted -= found[0].size
            if n_wanted == 0:
                break
        return np.concatenate(left), np.concatenate(right)


def _push(stages: tuple[Stage, ...], pairs: ClusterPairs, work: Work, *, prune: bool) -> Iterator[ClusterPairs]:
    """Push cluster pairs through the stages, batch after batch, and yield what comes out of the last."""
    if not stages:
        yield pairs
        return
    for refined in refine(stages[0], pairs, work, prune=prune):
        yield from _push(stages[1:], refined, work, prune=prune)
