"""Finding every pair that breaks a preliminary rule (section 6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.discovery.evidence import Evidence, codes_of_pairs, count_blocks, merged
from naysay.discovery.outcomes import mirrored
from naysay.discovery.problem import Problem
from naysay.discovery.verify import Verifier
from naysay.discovery.vertices import Group, to_int
from naysay.rule.model import Op

Partition = tuple[Int64Array, Int64Array, Int64Array, Int64Array]

# A refinement is interrupted, and what it has so far goes on to the next predicate, once it wrote so many rows.
_LIMIT_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class Refiner:
    """One predicate, or two inequalities that are evaluated together; each by its vertices as bits of a cover."""

    bits: tuple[int, ...]


@dataclass(slots=True)
class Node:
    """A step of the evaluation: refiners shared by all rules below; `ends` where a rule ends here."""

    children: dict[Refiner, Node] = field(default_factory=dict)
    ends: bool = False


class Completion:
    """The evidence of all pairs that break rules, by refining pairs of clusters down a tree of predicates."""

    def __init__(self, problem: Problem, edges: UInt64Array, counts: Int64Array) -> None:
        self.problem = problem
        self.verifier = Verifier(problem.outcomes, problem.vertices)
        self.edges, self.counts = edges, counts
        self.groups = {group.mask: group for group in problem.vertices.groups}
        layout = problem.outcomes.layout
        self.evidence = Evidence(np.empty((0, layout.n_words), np.int32), np.empty(0, np.int64))

    def run(self, covers: UInt64Array) -> Evidence:
        """The evidence, mirrors included; incomplete where the clock stopped."""
        tree = self.tree(covers)
        n_rows = self.problem.outcomes.n_rows
        rows, starts = np.arange(n_rows), np.array([0, n_rows])
        self.walk(tree, (rows, starts, rows, starts))
        return self.evidence

    def tree(self, covers: UInt64Array) -> Node:
        """Rules that begin with the same refiners share them: frequent and selective ones come first (6.4)."""
        rules = [self.predicates(to_int(cover)) for cover in covers]
        weights = self._weights(rules)
        root = Node()
        for predicates in rules:
            node = root
            for refiner in sorted(self._paired(predicates, weights), key=lambda r: (-weights[r.bits], r.bits)):
                node = node.children.setdefault(refiner, Node())
            node.ends = True
        return root

    def predicates(self, cover: int) -> list[int]:
        """A cover's vertices, comparison by comparison."""
        return [cover & group.mask for group in self.problem.vertices.groups if cover & group.mask]

    def _weights(self, rules: list[list[int]]) -> dict[tuple[int, ...], float]:
        """Frequency among the rules over selectivity among the sampled pairs, for predicates and inequality pairs."""
        frequency: dict[tuple[int, ...], int] = {}
        for predicates in rules:
            orders = [bits for bits in predicates if self._is_order(bits)]
            pairs = [(one, two) for k, one in enumerate(orders) for two in orders[k + 1 :]]
            for key in [*((bits,) for bits in predicates), *pairs]:
                frequency[key] = frequency.get(key, 0) + 1
        total = max(1, int(self.counts.sum()))
        return {key: times / max(self._n_satisfying(sum(key)) / total, 1.0 / total) for key, times in frequency.items()}

    def _n_satisfying(self, cover: int) -> int:
        words = self.problem.vertices.words([cover])[0]
        return int(self.counts[~(self.edges & words).any(axis=1)].sum())

    def _paired(self, predicates: list[int], weights: dict[tuple[int, ...], float]) -> list[Refiner]:
        """Inequalities two by two, the best pair first; everything else alone."""
        orders = [bits for bits in predicates if self._is_order(bits)]
        refiners = [Refiner((bits,)) for bits in predicates if not self._is_order(bits)]
        while len(orders) > 1:
            pairs = [(one, two) for k, one in enumerate(orders) for two in orders[k + 1 :]]
            best = max(pairs, key=lambda pair: weights[pair])
            refiners.append(Refiner(best))
            orders = [bits for bits in orders if bits not in best]
        return refiners + [Refiner((bits,)) for bits in orders]

    def _group(self, bits: int) -> Group:
        return next(group for mask, group in self.groups.items() if bits & mask)

    def _is_order(self, bits: int) -> bool:
        ops = self._group(bits).ops(bits)
        return len(ops) == 1 and ops[0].is_order

    def walk(self, node: Node, partition: Partition) -> None:
        """Depth first: what a refinement gives goes on before the refinement does (pipelining, 6.2)."""
        if node.ends:
            self.see(partition)
            return
        for refiner, below in node.children.items():
            for refined in self.refine(refiner, partition):
                if self.problem.clock.stopped():
                    return
                self.walk(below, refined)

    def refine(self, refiner: Refiner, partition: Partition) -> Iterator[Partition]:
        from naysay.kernels.evidence.refine import refine, refine_two

        state = np.zeros(2, np.int64)
        sides = [self._values(bits) for bits in refiner.bits]
        kinds = [self._kind(bits) for bits in refiner.bits]
        while state[0] < partition[1].size - 1 and not self.problem.clock.stopped():
            if len(sides) == 1:
                refined = refine(partition, *sides[0], kinds[0], state, _LIMIT_ROWS)
            else:
                lefts, rights = (np.array([side[k] for side in sides]) for k in range(2))
                refined = refine_two(partition, lefts, rights, np.array(kinds), state, _LIMIT_ROWS)
            if refined[1].size > 1:
                yield refined

    def _kind(self, bits: int) -> int:
        from naysay.kernels.evidence.refine import AT_MOST, DIFFERS, EQUAL, LESS

        ops = self._group(bits).ops(bits)
        if len(ops) == 2 or ops[0] is Op.EQ:
            return EQUAL
        if ops[0] is Op.NE:
            return DIFFERS
        return LESS if ops[0].is_strict else AT_MOST

    def _values(self, bits: int) -> tuple[Int64Array, Int64Array]:
        """Both sides of a predicate, turned so that > is <; negative where a row satisfies nothing."""
        parts = self.verifier.parts(bits)
        number = parts.fields[0]
        sides = []
        for left in (True, False):
            values = self.verifier.values(number, left=left)
            valid = self.verifier.valid(parts.values_only, left=left)
            sides.append(values if valid is None else np.where(valid, values, -1))
        if parts.orders and parts.orders[0][1] in (Op.GT, Op.GE):
            highest = max(int(side.max(initial=0)) for side in sides)
            sides = [np.where(side < 0, side, highest - side) for side in sides]
        return sides[0], sides[1]

    def see(self, partition: Partition) -> None:
        """Add the evidence of all pairs of a partition, both ways round; a row never meets itself."""
        outcomes, layout = self.problem.outcomes, self.problem.outcomes.layout
        left_rows, left_starts, right_rows, right_starts = partition
        all_count = np.zeros(left_starts.size - 1, np.int64)
        blocks = np.stack([left_starts[:-1], left_starts[1:], right_starts[:-1], right_starts[1:], all_count], axis=1)
        found = count_blocks(outcomes.take(left_rows), outcomes.take(right_rows), blocks, n_threads=1)
        assert found is not None
        selves = _selves(partition, outcomes.n_rows)
        itself = Evidence(codes_of_pairs(outcomes, selves, selves), np.full(selves.size, -1, np.int64))
        found = merged([found, itself], layout)
        found = Evidence(found.codes[found.counts > 0], found.counts[found.counts > 0])
        other = Evidence(mirrored(found.codes, layout), found.counts)
        self.evidence = merged([self.evidence, found, other], layout)


def _selves(partition: Partition, n_rows: int) -> Int64Array:
    """The rows that stand on both sides of a cluster pair."""
    left_rows, left_starts, right_rows, right_starts = partition
    pairs = np.arange(left_starts.size - 1)
    left = np.repeat(pairs, np.diff(left_starts)) * n_rows + left_rows
    right = np.repeat(pairs, np.diff(right_starts)) * n_rows + right_rows
    return np.intersect1d(left, right, assume_unique=True) % n_rows
