"""Random and focused sampling of pairs (section 4)."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import Enum

import numpy as np

from naysay.arrays import Int64Array
from naysay.budget import Budget
from naysay.discovery.evidence import Evidence, merge, mirror_of
from naysay.discovery.outcomes import FieldKind, Outcomes

SAMPLES_A_ROW = 20
EFFICIENCY = 0.005
_CHUNK_PAIRS = 1 << 20


class PartnerChoice(Enum):
    """What a focus asks of a row's partner, in its column: the same value, another, a smaller or a greater one."""

    WITHIN = "within"
    OTHER = "other"
    BACK = "back"
    FORTH = "forth"


@dataclass(frozen=True, slots=True)
class Focus:
    """A column and which partners to choose by it. `order` is its rows by value, `starts` where each value begins."""

    choice: PartnerChoice
    order: Int64Array
    starts: Int64Array

    def partners(self, rng: np.random.Generator) -> tuple[Int64Array, Int64Array]:
        """A random partner for each row that has one."""
        low, high = (np.repeat(ends, np.diff(self.starts)) for ends in (self.starts[:-1], self.starts[1:]))
        n_rows, uniform = self.order.size, rng.random(self.order.size)
        if self.choice is PartnerChoice.WITHIN:
            size = high - low - 1
            chosen = low + (uniform * size).astype(np.int64)
            chosen += chosen >= np.arange(n_rows)
        elif self.choice is PartnerChoice.OTHER:
            size = n_rows - (high - low)
            chosen = (uniform * size).astype(np.int64)
            chosen += np.where(chosen >= low, high - low, 0)
        elif self.choice is PartnerChoice.BACK:
            size = low
            chosen = (uniform * size).astype(np.int64)
        else:
            size = n_rows - high
            chosen = high + (uniform * size).astype(np.int64)
        has_one = size > 0
        return self.order[has_one], self.order[chosen[has_one]]


class Sampler:
    """Evidence of sampled pairs of the distinct rows of a table, and how often each was drawn at random."""

    def __init__(self, outcomes: Outcomes, budget: Budget) -> None:
        self.outcomes = outcomes
        self.budget = budget
        self.rng = np.random.default_rng(0)
        self.evidence = Evidence(np.empty((0, outcomes.layout.n_words), np.int32), np.empty(0, np.int64))

    def random(self) -> None:
        """Choose partners for each row at random; the counts tell how selective predicates are (section 4.2)."""
        n_rows = self.outcomes.n_rows
        for _ in range(SAMPLES_A_ROW):
            if self.budget.stopped() or n_rows < 2:
                return
            shift = self.rng.integers(1, n_rows, n_rows)
            rows = np.arange(n_rows)
            self.see(rows, (rows + shift) % n_rows)

    def focused(self) -> None:
        """Apply the most fruitful focus again and again, until none is fruitful (section 4.3)."""
        queue: list[tuple[float, int, Focus]] = []
        for number, focus in enumerate(foci_of(self.outcomes)):
            if self.budget.stopped():
                return
            heapq.heappush(queue, (-self.apply(focus), number, focus))
        while queue and not self.budget.stopped():
            _, number, focus = heapq.heappop(queue)
            efficiency = self.apply(focus)
            if efficiency >= EFFICIENCY:
                heapq.heappush(queue, (-efficiency, number, focus))

    def apply(self, focus: Focus) -> float:
        """The number of evidences first seen by a focus, as a share of those computed."""
        lefts, rights = focus.partners(self.rng)
        before = len(self.evidence)
        self.see(lefts, rights)
        return (len(self.evidence) - before) / max(1, lefts.size)

    def see(self, lefts: Int64Array, rights: Int64Array) -> None:
        """Add pairs and their mirrors."""
        from naysay.kernels.evidence.pairs import pair_codes

        outcomes, layout = self.outcomes, self.outcomes.layout
        for start in range(0, lefts.size, _CHUNK_PAIRS):
            stop = start + _CHUNK_PAIRS
            fields = (outcomes.left, outcomes.right, layout.masks, layout.spans)
            codes = pair_codes(fields, lefts[start:stop], rights[start:stop])
            once = merge([Evidence(codes, np.ones(len(codes), np.int64))])
            self.evidence = merge([self.evidence, once, mirror_of(once, layout)])


def foci_of(outcomes: Outcomes) -> list[Focus]:
    """All foci: each column compared with itself, WITHIN and OTHER, and BACK and FORTH if it has an order."""
    from naysay.kernels.sort import group_starts, sorted_places

    foci = []
    for number, field in enumerate(outcomes.layout.fields):
        if field.comparison.across or field.place is None:
            continue
        values = outcomes.left[number].astype(np.int64)
        rows = np.arange(values.size)
        if field.missing and field.kind is not FieldKind.ORDER_OR_NULL:
            rows = np.flatnonzero((outcomes.left[len(outcomes.layout.fields) + field.word] & field.missing) == 0)
        order = rows[sorted_places(values[rows], np.zeros(rows.size, np.int64))]
        starts = group_starts(values[order])
        choices = list(PartnerChoice)[: 2 if field.kind is FieldKind.EQUALITY else 4]
        foci += [Focus(choice, order, starts) for choice in choices]
    return foci
