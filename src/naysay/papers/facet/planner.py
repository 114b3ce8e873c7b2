"""The order in which a rule's predicates are refined, and by which algorithm (FACET, section 6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from naysay.arrays import Int64Array
from naysay.papers.facet.stage import CodeComparison, Operator, Refinable, Stage

# The thresholds of section 6.2: BHSM instead of HSM from this many values; IEJoin if both columns have this many.
BINNING_FROM = 10_000
IEJOIN_FROM = 1 << 13

_SKETCH_BITS = 12
_SAMPLE_FRACTION = 0.01
_SMALLEST_SAMPLE = 1_000
_SEED = 15042022

_OPERATORS = {
    CodeComparison.KEEP: Operator.KEEP,
    CodeComparison.EQUAL: Operator.EQUAL,
    CodeComparison.LESS: Operator.HSM,
    CodeComparison.DIFFERS: Operator.DIFFERS,
}


class Cardinalities:
    """Estimated numbers of distinct values, of columns and of pairs of columns, each estimated once (section 6.1)."""

    def __init__(self) -> None:
        self._columns: dict[int, tuple[Int64Array, float]] = {}
        self._samples: dict[int, Int64Array] = {}
        self._pairs: dict[tuple[int, int], float] = {}

    def of(self, codes: Int64Array) -> float:
        """The distinct codes of a column, from its HyperLogLog sketch."""
        # The array is kept with its estimate, so that no other array can get its id.
        if id(codes) not in self._columns:
            from naysay.kernels.joins.facet import estimate, sketch

            self._columns[id(codes)] = codes, min(estimate(sketch(codes, _SKETCH_BITS)), float(codes.size))
        return self._columns[id(codes)][1]

    def of_pair(self, first: Int64Array, second: Int64Array) -> float:
        """The distinct combinations of two columns: from a sketch of each column, and a sample of how they go together.

        After Freitag and Neumann, CIDR 2019: independent columns would have the product of their cardinalities as
        combinations. The distinct ones in a sample show how far they are from that, and the column with more values
        shows how far the sample is from its sketch.
        """
        key = (min(id(first), id(second)), max(id(first), id(second)))
        if key not in self._pairs:
            self._pairs[key] = self._estimate_pair(first, second)
        return self._pairs[key]

    def least(self, predicate: Refinable) -> float:
        """The cardinality of the predicate's column with fewer values."""
        return min(self.of(predicate.left), self.of(predicate.right))

    def _estimate_pair(self, first: Int64Array, second: Int64Array) -> float:
        few, many = sorted((self.of(first), self.of(second)))
        if few == 0:
            return 0.0
        wider = first if self.of(first) == many else second
        sample = self._sample(first.size)
        combined = _guess_distinct(_distinct_pairs(first[sample], second[sample]), sample.size, first.size, few * many)
        alone = _guess_distinct(np.unique(wider[sample]).size, sample.size, first.size, float(first.size))
        corrected = combined * max(many / alone, 1.0)
        return min(max(corrected, many), few * many, float(first.size))

    def _sample(self, n_rows: int) -> Int64Array:
        if n_rows not in self._samples:
            size = min(n_rows, max(int(n_rows * _SAMPLE_FRACTION), _SMALLEST_SAMPLE))
            chosen = np.random.default_rng(_SEED).choice(n_rows, size, replace=False)
            self._samples[n_rows] = np.sort(chosen)
        return self._samples[n_rows]


def _distinct_pairs(first: Int64Array, second: Int64Array) -> int:
    order = np.lexsort((first, second))
    first, second = first[order], second[order]
    return 1 + int(np.count_nonzero((first[1:] != first[:-1]) | (second[1:] != second[:-1])))


def _guess_distinct(n_distinct: int, n_sample: int, n_rows: int, most: float) -> float:
    """How many distinct values n_rows draws show, if n_sample draws from the same urn showed n_distinct.

    The urn has at most `most` values, all equally likely; bisection finds how many.
    """

    def expected(n_values: float, n_draws: int) -> float:
        return -n_values * math.expm1(n_draws * math.log1p(-1 / n_values)) if n_values > 1 else 1.0

    low, high = float(n_distinct), max(most, float(n_distinct))
    for _ in range(64):
        middle = (low + high) / 2
        if expected(middle, n_sample) < n_distinct:
            low = middle
        else:
            high = middle
    return expected(high, n_rows)


class GreedyHLL:
    """Plan a pipeline: filters, then equalities, inequalities, non-equalities, each class ordered by cardinality."""

    def __init__(self, cardinalities: Cardinalities | None = None) -> None:
        self.cardinalities = cardinalities or Cardinalities()

    def plan(self, predicates: Sequence[Refinable], *, mirror: bool) -> tuple[Stage, ...]:
        """The stages of a rule's pipeline. The same predicates give the same plan."""
        by_class = {comparison: [p for p in predicates if p.comparison is comparison] for comparison in CodeComparison}
        equalities = self._order_equalities(by_class[CodeComparison.EQUAL], mirror)
        still_reflexive = mirror and all(p.keeps_reflexive for p in equalities) and not by_class[CodeComparison.KEEP]
        differs = self._by_cardinality(by_class[CodeComparison.DIFFERS], single_first=still_reflexive)
        return (
            *(self.stage(p) for p in by_class[CodeComparison.KEEP]),
            *(self.stage(p) for p in equalities),
            *self._plan_inequalities(by_class[CodeComparison.LESS], equalities, still_reflexive),
            *(self.stage(p) for p in differs),
        )

    def stage(self, predicate: Refinable) -> Stage:
        """A predicate and the algorithm for its cardinality; a hash table is built on the side with fewer values."""
        operator = _OPERATORS[predicate.comparison]
        if operator is Operator.HSM and self.cardinalities.least(predicate) >= BINNING_FROM:
            operator = Operator.BHSM
        build_right = (
            operator in (Operator.EQUAL, Operator.DIFFERS)
            and predicate.left is not predicate.right
            and self.cardinalities.of(predicate.right) < self.cardinalities.of(predicate.left)
        )
        return Stage(operator, (predicate,), build_right)

    def cost(self, predicate: Refinable) -> tuple[int, float]:
        """Orders predicates by class, then by cardinality."""
        if predicate.comparison is CodeComparison.KEEP:
            return 0, 0.0
        return predicate.comparison.value, self.cardinalities.least(predicate)

    def _order_equalities(self, equalities: list[Refinable], mirror: bool) -> list[Refinable]:
        singles = [p for p in equalities if p.single_column]
        if not mirror or len(singles) < 3:
            return self._by_cardinality(equalities, single_first=mirror)
        others = self._by_cardinality([p for p in equalities if not p.single_column], single_first=False)
        return [*self._greedy(singles), *others]

    def _greedy(self, singles: list[Refinable]) -> list[Refinable]:
        """GreedyHLL: take pairs of predicates by rising rank = share of rows that remain * expected cost."""
        by_cardinality = self._by_cardinality(singles, single_first=False)
        ranked = sorted(combinations(by_cardinality, 2), key=lambda pair: self._rank(*pair))
        chosen: dict[int, Refinable] = {}
        for pair in ranked:
            for predicate in pair:
                chosen.setdefault(id(predicate), predicate)
        return list(chosen.values())

    def _rank(self, first: Refinable, second: Refinable) -> float:
        n_rows = max(first.left.size, 1)
        both = self.cardinalities.of_pair(first.left, second.left)
        cost: float = (self.cardinalities.of(first.left) + both) ** 0.1
        return (n_rows - both) / n_rows * cost

    def _plan_inequalities(
        self, inequalities: list[Refinable], equalities: list[Refinable], reflexive: bool
    ) -> tuple[Stage, ...]:
        ordered = self._by_cardinality(inequalities, single_first=reflexive)
        if len(ordered) == 2 and all(self._perceived(p, equalities) >= IEJOIN_FROM for p in ordered):
            return (Stage(Operator.IEJOIN, tuple(ordered)),)
        return tuple(self.stage(p) for p in ordered)

    def _perceived(self, inequality: Refinable, equalities: list[Refinable]) -> float:
        """How many values its refinement sees: those of its column, or of its pair with the column of an equality."""
        cardinality = self.cardinalities.least(inequality)
        for equality in equalities:
            if cardinality >= IEJOIN_FROM:
                break
            cardinality = max(cardinality, self.cardinalities.of_pair(equality.left, inequality.left))
        return cardinality

    def _by_cardinality(self, predicates: list[Refinable], *, single_first: bool) -> list[Refinable]:
        if len(predicates) < 2:
            return predicates
        return sorted(predicates, key=lambda p: (single_first and not p.single_column, self.cardinalities.least(p)))
