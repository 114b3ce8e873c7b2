"""Hydra from end to end (section 3): evidence is inverted to rules, which lead to what is missing in the evidence."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cache

import numpy as np

from naysay.arrays import UNLIMITED, Int64Array, UInt64Array
from naysay.budget import Budget, run_all
from naysay.discovery.cover import Brake, drop_impossible
from naysay.discovery.evidence import Evidence, codes_of_pairs, count_blocks, equal_rows, merge, mirror_of
from naysay.discovery.outcomes import FieldKind, Outcomes
from naysay.discovery.problem import MOST_RULES, Answer, Problem, empty_answer, finish_rules
from naysay.discovery.verify import Verifier
from naysay.discovery.vertices import edges_of, n_vertices, sorted_unique, to_int
from naysay.rule.model import Nulls, Op, Row

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
    """Evidence of sampled pairs of the distinct rows of a table, and how often each was drawn."""

    def __init__(self, outcomes: Outcomes, budget: Budget) -> None:
        self.outcomes = outcomes
        self.budget = budget
        self.rng = np.random.default_rng(0)
        self.evidence = Evidence(np.empty((0, outcomes.layout.n_words), np.int32), np.empty(0, np.int64))
        # Some bits are there only for the mirrors of others: no predicate of the space depends on them.
        self._own_bits = np.zeros(outcomes.layout.n_words, np.int32)
        for compared in outcomes.layout.fields:
            if compared.place is not None:
                self._own_bits[compared.word] |= compared.less | compared.equal | compared.missing

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
        before = self.n_distinct
        self.see(lefts, rights)
        return (self.n_distinct - before) / max(1, lefts.size)

    @property
    def n_distinct(self) -> int:
        """The number of sets of predicates that pairs seen so far satisfy."""
        return len(merge([Evidence(self.evidence.codes & self._own_bits, self.evidence.counts)]))

    def see(self, lefts: Int64Array, rights: Int64Array) -> None:
        from naysay.kernels.evidence.pairs import pair_codes

        outcomes, layout = self.outcomes, self.outcomes.layout
        for start in range(0, lefts.size, _CHUNK_PAIRS):
            stop = start + _CHUNK_PAIRS
            fields = (outcomes.left, outcomes.right, layout.masks, layout.spans)
            codes = pair_codes(fields, lefts[start:stop], rights[start:stop])
            self.evidence = merge([self.evidence, Evidence(codes, np.ones(len(codes), np.int64))])

    def both_ways(self) -> Evidence:
        """What is seen, and the same pairs with their rows exchanged."""
        return merge([self.evidence, mirror_of(self.evidence, self.outcomes.layout)])


def foci_of(outcomes: Outcomes) -> list[Focus]:
    """All foci: each column compared with itself, WITHIN and OTHER, and BACK and FORTH if it has an order."""
    from naysay.kernels.sort import group_starts, sorted_places

    foci = []
    for number, compared in enumerate(outcomes.layout.fields):
        if compared.comparison.across or compared.place is None:
            continue
        values = outcomes.left[number].astype(np.int64)
        rows = np.arange(values.size)
        if compared.missing and compared.kind is not FieldKind.ORDER_OR_NULL:
            rows = np.flatnonzero((outcomes.left[len(outcomes.layout.fields) + compared.word] & compared.missing) == 0)
        order = rows[sorted_places(values[rows], np.zeros(rows.size, np.int64))]
        starts = group_starts(values[order])
        choices = list(PartnerChoice)[: 2 if compared.kind is FieldKind.EQUALITY else 4]
        foci += [Focus(choice, order, starts) for choice in choices]
    return foci


Partition = tuple[Int64Array, Int64Array, Int64Array, Int64Array]
# One predicate, or two inequalities that are evaluated together; each by its vertices as bits of a cover.
Refiner = tuple[int, ...]

# A refinement is interrupted, and what it has so far goes on to the next predicate, once it wrote this many rows.
_LIMIT_ROWS = 1 << 20
# Of more inequalities in a rule the best pair is taken first: there are too many ways to pair all of them.
_MAX_PAIRED = 6


@dataclass(slots=True)
class RefinementNode:
    """A step of the evaluation: refiners shared by all rules below; `ends` if a rule ends here."""

    children: dict[Refiner, RefinementNode] = field(default_factory=dict)
    ends: bool = False


class Completion:
    """The evidence of all pairs that break rules, by refining pairs of clusters down a tree of predicates."""

    def __init__(self, problem: Problem, edges: UInt64Array, counts: Int64Array) -> None:
        self.problem = problem
        self._conditions = cache(Verifier(problem.outcomes, problem.vertices).conditions_of)
        self._predicate = cache(self._predicate_of)
        self._selectivity = cache(self._selectivity_of)
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
        frequency: Counter[Refiner] = Counter()
        for predicates in rules:
            frequency.update(itertools.combinations(filter(self._is_order, predicates), 2))
        refined = [self._refiners(rule, frequency) for rule in rules if not self.problem.budget.stopped()]
        # What is frequent as a pair of predicates may be rare as a refiner, if they are mostly in other pairs.
        frequency = Counter(refiner for refiners in refined for refiner in refiners)
        root = RefinementNode()
        for refiners in refined:
            node = root
            for refiner in sorted(refiners, key=lambda each: (-frequency[each] / self._selectivity(each), each)):
                node = node.children.setdefault(refiner, RefinementNode())
            node.ends = True
        return root

    def _selectivity_of(self, refiner: Refiner) -> float:
        """The share of the sampled pairs that satisfy a predicate, or both of two."""
        words = self.problem.vertices.words([sum(refiner)])[0]
        n_satisfying = int(self.counts[~(self.edges & words).any(axis=1)].sum())
        return max(1, n_satisfying) / max(1, int(self.counts.sum()))

    def _refiners(self, predicates: list[int], frequency: Counter[Refiner]) -> list[Refiner]:
        """Inequalities two by two, everything else one by one.

        Of all ways to pair the inequalities the one with the greatest total frequency over total selectivity.
        """
        orders = [bits for bits in predicates if self._is_order(bits)]
        refiners: list[Refiner] = [(bits,) for bits in predicates if bits not in orders]

        def weight(pairs: tuple[Refiner, ...]) -> float:
            return sum(frequency[pair] for pair in pairs) / sum(self._selectivity(pair) for pair in pairs)

        while len(orders) > 1:
            pairs = max(_pairings(orders) if len(orders) <= _MAX_PAIRED else _single_pairs(orders), key=weight)
            refiners += pairs
            orders = [bits for bits in orders if not any(bits in pair for pair in pairs)]
        return refiners + [(bits,) for bits in orders]

    def _is_order(self, bits: int) -> bool:
        """Whether it is an inequality of two rows; within one row it is a filter."""
        orders = self._conditions(bits).orders
        return bool(orders) and not self.problem.outcomes.layout.fields[orders[0][0]].comparison.within_row

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
        from naysay.kernels.evidence.refine import refine

        state = np.zeros(2, np.int64)
        predicates = np.array([self._predicate(bits) for bits in refiner], np.int64)
        sides = (self.problem.outcomes.left, self.problem.outcomes.right)
        while state[0] < partition[1].size - 1 and not self.problem.budget.stopped():
            refined = refine(partition, sides, predicates, state, _LIMIT_ROWS)
            if refined[1].size > 1:
                yield refined

    def _predicate_of(self, bits: int) -> tuple[int, ...]:
        """A predicate as `kernels.evidence.refine` wants it."""
        from naysay.kernels.evidence.refine import AT_MOST, BOTH, DIFFERS, EQUAL, LEFT, LESS, RIGHT

        conditions, layout = self._conditions(bits), self.problem.outcomes.layout
        number = conditions.fields[0]
        compared = layout.fields[number]
        kind, sign = EQUAL if conditions.keys else DIFFERS, 1
        if conditions.orders:
            op = conditions.orders[0][1]
            kind, sign = LESS if op.is_strict else AT_MOST, -1 if op in (Op.GT, Op.GE) else 1
        about = BOTH
        if compared.comparison.within_row:
            about = LEFT if compared.comparison.left.row is Row.LEFT else RIGHT
        missing = compared.missing if conditions.values_only else 0
        return number, kind, sign, len(layout.fields) + compared.word, missing, about

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


def _pairings(predicates: list[int]) -> Iterator[tuple[Refiner, ...]]:
    """All ways to make pairs of some predicates; one is left over if their number is odd."""
    if len(predicates) < 2:
        yield ()
    elif len(predicates) % 2:
        for alone in predicates:
            yield from _pairings([bits for bits in predicates if bits != alone])
    else:
        for other in predicates[1:]:
            rest = [bits for bits in predicates[1:] if bits != other]
            yield from (((predicates[0], other), *pairs) for pairs in _pairings(rest))


def _single_pairs(predicates: list[int]) -> Iterator[tuple[Refiner, ...]]:
    return ((pair,) for pair in itertools.combinations(predicates, 2))


def _selves(partition: Partition, n_rows: int) -> Int64Array:
    """The rows on both sides of a cluster pair."""
    left_rows, left_starts, right_rows, right_starts = partition
    pairs = np.arange(left_starts.size - 1)
    left = np.repeat(pairs, np.diff(left_starts)) * n_rows + left_rows
    right = np.repeat(pairs, np.diff(right_starts)) * n_rows + right_rows
    return np.intersect1d(left, right, assume_unique=True) % n_rows


def find(problem: Problem) -> Answer:
    """All minimal exact rules, or none if it was stopped before the last inversion."""
    outcomes, vertices, budget = problem.outcomes, problem.vertices, problem.budget
    sampler = Sampler(outcomes, budget)
    with budget.phase("random sampling"):
        sampler.random()
    edges, counts = edges_of(sampler.both_ways(), outcomes.layout, vertices)
    with budget.phase("focused sampling"):
        sampler.focused()
    known = merge([sampler.both_ways(), equal_rows(outcomes)])
    preliminary = _invert(problem, edges_of(known, outcomes.layout, vertices)[0])
    if preliminary is None:
        return empty_answer(problem, partial=True)
    with budget.phase("minimisation"):
        candidates, _ = drop_impossible(vertices.once(preliminary), vertices)
        candidates = drop_redundant(candidates, problem)
    with budget.phase("completion"):
        delta = Completion(problem, edges, counts).run(candidates)
    if budget.stopped():
        return empty_answer(problem, partial=True)
    every = edges_of(merge([known, delta]), outcomes.layout, vertices)[0]
    covers = _invert(problem, every)
    if covers is None:
        return empty_answer(problem, partial=True)
    covers, complete = finish_rules(problem, covers, every, np.ones(len(every), np.int64))
    n_sampled = round((1 + np.sqrt(1 + 4.0 * counts.sum())) / 2)
    return Answer(
        covers[: problem.limit], not complete or len(covers) > problem.limit, edges, counts, n_sampled=n_sampled
    )


def _invert(problem: Problem, edges: UInt64Array) -> UInt64Array | None:
    """All minimal covers of the edges, by updating those of the first edges with each further one; None if stopped."""
    from naysay.kernels.covers.inversion import covers_of, insert_cover, invert

    vertices, budget, brake = problem.vertices, problem.budget, Brake(4 * MOST_RULES)
    # The rule without predicates, the empty cover, cannot be in the trie: the first edge is its one successor.
    if not len(edges):
        return np.zeros((1, vertices.n_words), np.uint64)
    # Sorted, an edge is much like the last one, and few covers miss it: ten times faster than in a random order.
    edges = sorted_unique(edges)
    nodes, n_nodes = np.zeros((1024, 4), np.int64), 1
    nodes[0] = (-1, -1, -1, 0)
    for vertex in range(64 * vertices.n_words):
        if int(edges[0, vertex >> 6]) >> (vertex & 63) & 1:
            nodes, n_nodes = insert_cover(nodes, n_nodes, vertices.words([1 << vertex])[0])
    most = np.array([problem.request.max_predicates or UNLIMITED, brake.max_covers], np.int64)
    limits = (*vertices.tables(), most, brake.control)

    def work() -> UInt64Array:
        made, _ = invert(np.ascontiguousarray(edges[1:]), nodes, n_nodes, limits)
        found: UInt64Array = covers_of(made, vertices.n_words)
        return found

    def tick(budget: Budget) -> None:
        budget.report("inversion", None, brake.n_found)

    with budget.phase("inversion"):
        parts = run_all([work], budget, on_stop=brake.stop, on_tick=tick)
    return None if brake.stopped or budget.stopped() else parts[0]


def drop_redundant(covers: UInt64Array, problem: Problem) -> UInt64Array:
    """Drop the rules that only pairs break that break another one, too, perhaps with their rows exchanged (6.4).

    Of rules that imply each other the shortest stays. Within one comparison no cover implies another, except that
    `<=` and `>=` imply `==` if nulls equal each other.
    """
    from naysay.kernels.covers.implied import not_implied_before
    from naysay.kernels.covers.possible import VALUES

    vertices, brake = problem.vertices, Brake()
    operands, means = vertices.operands, vertices.means()
    if problem.request.nulls is Nulls.SQL:
        means[means[:, 2] != 0, 2] |= VALUES
    numbers = {operand: number for number, operand in enumerate(operands)}
    swapped = np.array([numbers.get(operand.swapped(), -1) for operand in operands], np.int64)

    def work() -> UInt64Array:
        kept = covers[np.lexsort((n_vertices(covers), vertices.n_predicates(covers)))]
        # First with the shorter ones in front, then with the longer ones: a rule may be implied by either.
        for _ in range(2):
            kept = kept[not_implied_before(np.ascontiguousarray(kept), means, swapped, brake.control)][::-1]
        return kept

    found = run_all([work], problem.budget, on_stop=brake.stop)
    return found[0] if found else covers
