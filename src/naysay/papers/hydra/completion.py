"""Finding every pair that breaks a preliminary rule (section 6)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.discovery.evidence import Evidence, codes_of_pairs, count_blocks, merge, mirror_of
from naysay.discovery.problem import Problem
from naysay.discovery.verify import Verifier
from naysay.discovery.vertices import to_int
from naysay.rule.model import Op

Partition = tuple[Int64Array, Int64Array, Int64Array, Int64Array]
# One predicate, or two inequalities that are evaluated together; each by its vertices as bits of a cover.
Refiner = tuple[int, ...]

# A refinement is interrupted, and what it has so far goes on to the next predicate, once it wrote this many rows.
_LIMIT_ROWS = 1 << 20


@dataclass(slots=True)
class RefinementNode:
    """A step of the evaluation: refiners shared by all rules below; `ends` if a rule ends here."""

    children: dict[Refiner, RefinementNode] = field(default_factory=dict)
    ends: bool = False


class Completion:
    """The evidence of all pairs that break rules, by refining pairs of clusters down a tree of predicates."""

    def __init__(self, problem: Problem, edges: UInt64Array, counts: Int64Array) -> None:
        self.problem = problem
        self.verifier = Verifier(problem.outcomes, problem.vertices)
        self._conditions = cache(self.verifier.conditions_of)
        self.edges, self.counts = edges, counts
        n_words = problem.outcomes.layout.n_words
        self.evidence = Evidence(np.empty((0, n_words), np.int32), np.empty(0, np.int64))

    def run(self, covers: UInt64Array) -> Evidence:
        """The evidence, mirrors included; incomplete if the budget stopped."""
        n_rows = self.problem.outcomes.n_rows
        rows, starts = np.arange(n_rows), np.array([0, n_rows])
        self.walk(self.tree(covers), (rows, starts, rows, starts))
        return self.evidence

    def tree(self, covers: UInt64Array) -> RefinementNode:
        """Rules that begin with the same refiners share them: frequent and selective ones come first (6.4)."""
        groups = self.problem.vertices.groups
        rules = [[cover & group.mask for group in groups if cover & group.mask] for cover in map(to_int, covers)]
        weights = self._weights(rules)
        root = RefinementNode()
        for predicates in rules:
            node = root
            for refiner in sorted(self._paired(predicates, weights), key=lambda refiner: (-weights[refiner], refiner)):
                node = node.children.setdefault(refiner, RefinementNode())
            node.ends = True
        return root

    def _weights(self, rules: list[list[int]]) -> dict[Refiner, float]:
        """Frequency among the rules over selectivity among the sampled pairs, for predicates and inequality pairs."""
        frequency: Counter[Refiner] = Counter()
        for predicates in rules:
            frequency.update((bits,) for bits in predicates)
            frequency.update(itertools.combinations(filter(self._is_order, predicates), 2))
        total = max(1, int(self.counts.sum()))
        return {key: times / max(self._n_satisfying(sum(key)) / total, 1.0 / total) for key, times in frequency.items()}

    def _n_satisfying(self, cover: int) -> int:
        words = self.problem.vertices.words([cover])[0]
        return int(self.counts[~(self.edges & words).any(axis=1)].sum())

    def _paired(self, predicates: list[int], weights: dict[Refiner, float]) -> list[Refiner]:
        """Inequalities two by two, the best pair first; everything else one by one."""
        orders = [bits for bits in predicates if self._is_order(bits)]
        refiners: list[Refiner] = [(bits,) for bits in predicates if not self._is_order(bits)]
        while len(orders) > 1:
            best = max(itertools.combinations(orders, 2), key=lambda pair: weights[pair])
            refiners.append(best)
            orders = [bits for bits in orders if bits not in best]
        return refiners + [(bits,) for bits in orders]

    def _is_order(self, bits: int) -> bool:
        return bool(self._conditions(bits).orders)

    def walk(self, node: RefinementNode, partition: Partition) -> None:
        """Depth first: what a refinement yields goes on before the refinement does (pipelining, 6.2)."""
        if node.ends:
            self.see(partition)
            return
        for refiner, below in node.children.items():
            for refined in self.refine(refiner, partition):
                if self.problem.budget.stopped():
                    return
                self.walk(below, refined)

    def refine(self, refiner: Refiner, partition: Partition) -> Iterator[Partition]:
        from naysay.kernels.evidence.refine import refine, refine_two

        state = np.zeros(2, np.int64)
        operands = [self._operands(bits) for bits in refiner]
        while state[0] < partition[1].size - 1 and not self.problem.budget.stopped():
            if len(operands) == 1:
                refined = refine(partition, *operands[0], state, _LIMIT_ROWS)
            else:
                lefts, rights, kinds = (np.array(parts) for parts in zip(*operands, strict=True))
                refined = refine_two(partition, lefts, rights, kinds, state, _LIMIT_ROWS)
            if refined[1].size > 1:
                yield refined

    def _operands(self, bits: int) -> tuple[Int64Array, Int64Array, int]:
        """Both sides of a predicate, turned so that > is <, negative if a row satisfies nothing; and the comparison."""
        from naysay.kernels.evidence.refine import AT_MOST, DIFFERS, EQUAL, LESS

        conditions = self._conditions(bits)
        number = conditions.fields[0]
        sides = []
        for left in (True, False):
            values = self.verifier.values(number, left=left)
            valid = self.verifier.valid(conditions.values_only, left=left)
            sides.append(values if valid is None else np.where(valid, values, -1))
        if not conditions.orders:
            return sides[0], sides[1], EQUAL if conditions.keys else DIFFERS
        op = conditions.orders[0][1]
        if op in (Op.GT, Op.GE):
            highest = max(int(side.max(initial=0)) for side in sides)
            sides = [np.where(side < 0, side, highest - side) for side in sides]
        return sides[0], sides[1], LESS if op.is_strict else AT_MOST

    def see(self, partition: Partition) -> None:
        """Add the evidence of all pairs of a partition, both ways round; a row never meets itself."""
        outcomes = self.problem.outcomes
        left_rows, left_starts, right_rows, right_starts = partition
        all_count = np.zeros(left_starts.size - 1, np.int64)
        blocks = np.stack([left_starts[:-1], left_starts[1:], right_starts[:-1], right_starts[1:], all_count], axis=1)
        found = count_blocks(outcomes.take(left_rows), outcomes.take(right_rows), blocks)
        assert found is not None
        selves = _selves(partition, outcomes.n_rows)
        itself = Evidence(codes_of_pairs(outcomes, selves, selves), np.full(selves.size, -1, np.int64))
        found = merge([found, itself])
        found = Evidence(found.codes[found.counts > 0], found.counts[found.counts > 0])
        self.evidence = merge([self.evidence, found, mirror_of(found, outcomes.layout)])


def _selves(partition: Partition, n_rows: int) -> Int64Array:
    """The rows on both sides of a cluster pair."""
    left_rows, left_starts, right_rows, right_starts = partition
    pairs = np.arange(left_starts.size - 1)
    left = np.repeat(pairs, np.diff(left_starts)) * n_rows + left_rows
    right = np.repeat(pairs, np.diff(right_starts)) * n_rows + right_rows
    return np.intersect1d(left, right, assume_unique=True) % n_rows
