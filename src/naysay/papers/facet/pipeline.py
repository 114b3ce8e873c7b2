"""FACET as a strategy: a rule's pipeline is a trie of one rule."""

from __future__ import annotations

from dataclasses import dataclass

from naysay.arrays import Int64Array
from naysay.detect.strategy import PairBlock
from naysay.errors import ResourceError
from naysay.papers.facet.stage import MAX_WORDS, N_BINS, Work, parts_of_bound
from naysay.papers.facet.tries import check_many, list_many
from naysay.plan.bind import BoundJoin


@dataclass(frozen=True, slots=True)
class Facet:
    """The strategy "facet": refinement pipelines over pairs of row sets (Pena et al., PVLDB 15(4), 2022).

    `max_words` bounds the intermediate row sets, in words of 64 bits; `max_pairs` a list of violations without limit;
    `n_bins` is BHSM's (section 6.2).
    """

    max_words: int = MAX_WORDS
    max_pairs: int = 1 << 26
    n_bins: int = N_BINS

    @property
    def work(self) -> Work:
        return Work(self.max_words, self.n_bins)

    def verify(self, bound: BoundJoin) -> tuple[int, int] | None:
        """Find one violation as (left row, right row), or None where the rule holds."""
        left, right = self._list(bound, 1)
        return (int(left[0]), int(right[0])) if left.size else None

    def count(self, bound: BoundJoin) -> int:
        """Count the ordered pairs of distinct rows that break the rule."""
        (n_pairs,) = check_many([parts_of_bound(bound)], work=self.work)
        return n_pairs

    def violations(self, bound: BoundJoin, limit: int | None) -> PairBlock:
        """List violations, at most `limit` of them."""
        most = self.max_pairs if limit is None else limit
        # One more than asked for tells whether the list is complete.
        left, right = self._list(bound, most + 1)
        if limit is None and left.size > most:
            raise ResourceError(f"the rule has more than {most:,} violations: ask for a list with a limit")
        return PairBlock(left[:most], right[:most], left.size <= most)

    def _list(self, bound: BoundJoin, most: int) -> tuple[Int64Array, Int64Array]:
        (pairs,) = list_many([parts_of_bound(bound)], most, work=self.work)
        return pairs
