"""The parts of a pipeline, and what its run may spend."""

from __future__ import annotations

import math
from array import array
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import combinations, pairwise
from threading import Lock
from typing import TypeAlias

import numpy as np
from pyroaring import BitMap

from naysay.arrays import BoolArray, Int64Array
from naysay.budget import on_threads
from naysay.errors import ResourceError, UsageError
from naysay.papers import MethodLimits
from naysay.plan.bind import BoundJoin, Side, bind
from naysay.plan.join import Join
from naysay.rule.model import Nulls
from naysay.table import Table

# The paper's tids, as places of a side. Equalities and IEJoin only store and read them, and make arrays of integers;
# non-equalities, HSM and BHSM compute unions and differences, and make compressed bitmaps. Each refinement reads both
# and converts them to what it computes with (section 4, "hybrid").
RowSet: TypeAlias = Int64Array | BitMap

# A compressed bitmap holds 32-bit numbers.
_MOST_PLACES = 1 << 32


def bitmap_of(rows: RowSet) -> BitMap:
    if isinstance(rows, BitMap):
        return rows
    return BitMap(array("I", rows.astype(np.uint32).tobytes()))


def array_of(rows: RowSet) -> Int64Array:
    if isinstance(rows, BitMap):
        return np.asarray(rows.to_array()).astype(np.int64)
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class SetPair:
    """All pairs of a place of the left set with one of the right set; the paper's (tids, tids').

    If `left is right` it is reflexive, and a place does not meet itself. It is valid until the refinement that made it
    is asked for the next one, since that may continue to build on these sets.
    """

    left: RowSet
    right: RowSet

    @property
    def reflexive(self) -> bool:
        return self.left is self.right

    @property
    def empty(self) -> bool:
        return len(self.left) == 0 or len(self.right) == 0

    @property
    def n_pairs(self) -> int:
        return len(self.left) * (len(self.right) - self.reflexive)

    @property
    def n_words(self) -> int:
        """About how much memory the sets take, in words of 64 bits."""
        return _n_words(self.left) + (0 if self.reflexive else _n_words(self.right))


def _n_words(rows: RowSet) -> int:
    size = len(rows)
    if isinstance(rows, BitMap) and size > 1:
        size = min(size, (rows.max() - rows.min()) // 64 + 1)
    return size


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """Many pairs of sets as arrays, side by side: a refinement that takes them at once runs compiled, without the GIL.

    The places of set k are left[left_bounds[k] : left_bounds[k + 1]]. If `left is right` all pairs are reflexive.
    """

    left: Int64Array
    left_bounds: Int64Array
    right: Int64Array
    right_bounds: Int64Array

    @staticmethod
    def of(pair: SetPair) -> Clusters:
        left, left_bounds = _one_set(pair.left)
        return Clusters(left, left_bounds, *((left, left_bounds) if pair.reflexive else _one_set(pair.right)))

    def __len__(self) -> int:
        return self.left_bounds.size - 1

    @property
    def reflexive(self) -> bool:
        return self.left is self.right

    @property
    def n_rows(self) -> int:
        """About how much memory the sets take, in words of 64 bits."""
        return self.left.size + (0 if self.reflexive else self.right.size)

    @property
    def sizes(self) -> Int64Array:
        """The rows of the larger set of each pair."""
        return np.maximum(np.diff(self.left_bounds), np.diff(self.right_bounds))

    @property
    def n_pairs(self) -> int:
        return int(np.dot(np.diff(self.left_bounds), np.diff(self.right_bounds) - self.reflexive))

    def pairs(self) -> Iterator[SetPair]:
        """The pairs one by one, those without rows left out."""
        lefts = split_at(self.left, self.left_bounds)
        if self.reflexive:
            yield from (SetPair(rows, rows) for rows in lefts if rows.size)
            return
        for left, right in zip(lefts, split_at(self.right, self.right_bounds), strict=True):
            if left.size and right.size:
                yield SetPair(left, right)

    def slice(self, begin: int, end: int) -> Clusters:
        """The pairs from number `begin` to before `end`."""
        left, left_bounds = _some_sets(self.left, self.left_bounds[begin : end + 1])
        if self.reflexive:
            return Clusters(left, left_bounds, left, left_bounds)
        return Clusters(left, left_bounds, *_some_sets(self.right, self.right_bounds[begin : end + 1]))

    def parts(self, n_rows: int) -> list[Clusters]:
        """Cut into parts of about this many rows; a pair stays whole."""
        ends = np.cumsum(self.sizes)
        if not ends.size or ends[-1] <= n_rows:
            return [self] if ends.size else []
        cuts = np.unique(np.searchsorted(ends, np.arange(n_rows, int(ends[-1]), n_rows))) + 1
        bounds = [0, *(cut for cut in cuts.tolist() if cut < ends.size), int(ends.size)]
        return [self.slice(begin, end) for begin, end in pairwise(bounds)]


def _one_set(rows: RowSet) -> tuple[Int64Array, Int64Array]:
    return array_of(rows), np.array([0, len(rows)], np.int64)


def _some_sets(places: Int64Array, bounds: Int64Array) -> tuple[Int64Array, Int64Array]:
    return places[bounds[0] : bounds[-1]], bounds - bounds[0]


def split_at(grouped: Int64Array, bounds: Int64Array) -> Iterator[Int64Array]:
    """The row sets between the bounds, one by one."""
    return (grouped[begin:end] for begin, end in pairwise(bounds.tolist()))


def all_pairs(n_left: int, n_right: int, *, mirror: bool) -> SetPair:
    """The pair of sets with every pair, at the start of a pipeline."""
    if max(n_left, n_right) > _MOST_PLACES:
        raise ResourceError(f"FACET's bitmaps hold at most {_MOST_PLACES:,} rows per side: use the strategy auto")
    left = np.arange(n_left, dtype=np.int64)
    return SetPair(left, left if mirror else np.arange(n_right, dtype=np.int64))


class CodeComparison(Enum):
    """How left and right codes must compare; KEEP only requires that each row passes a filter."""

    KEEP = 0
    EQUAL = 1
    LESS = 2
    DIFFERS = 3


_COMPARE = {CodeComparison.EQUAL: np.equal, CodeComparison.LESS: np.less, CodeComparison.DIFFERS: np.not_equal}


@dataclass(frozen=True, slots=True, eq=False)
class Refinable:
    """One predicate over the places of a left and a right side. Two with the same identity are the same predicate.

    Codes of EQUAL and DIFFERS are not negative. If `left_valid` (`right_valid`) is False at a place, the predicate
    holds for no pair with that place on the left (on the right).
    """

    comparison: CodeComparison
    left: Int64Array
    right: Int64Array
    identity: Hashable
    left_valid: BoolArray | None = None
    right_valid: BoolArray | None = None

    @property
    def single_column(self) -> bool:
        """Both sides are the same column, so that a reflexive cluster needs to be read only once."""
        return self.left is self.right and self.left_valid is self.right_valid

    @property
    def keeps_reflexive(self) -> bool:
        """Refining reflexive clusters gives reflexive clusters."""
        if self.comparison is CodeComparison.KEEP:
            return self.left_valid is self.right_valid
        return self.comparison is CodeComparison.EQUAL and self.single_column

    @property
    def can_fail_alone(self) -> bool:
        """Some place satisfies it with no other."""
        return self.left_valid is not None or self.right_valid is not None

    def holds(self, left: Int64Array, right: Int64Array) -> BoolArray:
        """Whether it holds for each pair of a left and a right place."""
        held = np.ones(left.size, np.bool_)
        if self.comparison is not CodeComparison.KEEP:
            held = _COMPARE[self.comparison](self.left[left], self.right[right])
        if self.left_valid is not None:
            held = held & self.left_valid[left]
        if self.right_valid is not None:
            held = held & self.right_valid[right]
        return held


@dataclass(frozen=True, slots=True, eq=False)
class RuleParts:
    """A rule as FACET sees it: its predicates, and the row number of each place on both sides.

    `reflexive`: a row may satisfy all predicates with itself. `mirror`: both sides have the same rows.
    """

    predicates: tuple[Refinable, ...]
    left_rows: Int64Array
    right_rows: Int64Array
    reflexive: bool
    mirror: bool

    @property
    def ends_reflexive(self) -> bool:
        """All its clusters are reflexive to the end: the rule is a key."""
        return self.mirror and all(predicate.keeps_reflexive for predicate in self.predicates)

    @property
    def prunes(self) -> bool:
        """Clusters of a single row may be dropped early: the rule does not subtract them at the end."""
        return self.ends_reflexive or not self.reflexive

    @property
    def n_diagonal(self) -> int:
        """How many rows satisfy all predicates with themselves."""
        if not self.reflexive:
            return 0
        if self.mirror:
            left = right = np.arange(self.left_rows.size)
        else:
            _, left, right = np.intersect1d(self.left_rows, self.right_rows, assume_unique=True, return_indices=True)
        held = np.ones(left.size, np.bool_)
        for predicate in self.predicates:
            held &= predicate.holds(left, right)
        return int(np.count_nonzero(held))


def parts_of_bound(bound: BoundJoin) -> RuleParts:
    """Take a bound join apart: each equality, each order, each difference."""
    left, right = bound.left, bound.right
    codes = []
    for left_codes, right_codes in bound.equalities:
        picked = left_codes[left.rows]
        same = bound.mirror and left_codes is right_codes
        codes.append((CodeComparison.EQUAL, picked, picked if same else right_codes[right.rows]))
    if not codes and bound.n_keys > 1:
        codes.append((CodeComparison.EQUAL, left.key, right.key))
    codes += [(CodeComparison.LESS, *both) for both in zip(left.order, right.order, strict=True)]
    codes += [(CodeComparison.DIFFERS, *both) for both in zip(left.differs, right.differs, strict=True)]
    predicates = [_refinable(*part, identity, bound.mirror) for identity, part in enumerate(codes)]
    return RuleParts(tuple(predicates), left.rows, right.rows, bound.reflexive, bound.mirror)


def parts_of_joins(table: Table, joins: Sequence[Join], nulls: Nulls) -> list[RuleParts]:
    """Prepare two-row rules over one table for `check_many`; a predicate that several rules use is encoded once."""
    known: dict[Hashable, Refinable] = {}
    rows = np.arange(table.n_rows, dtype=np.int64)
    rules = []
    for join in joins:
        if join.one_row:
            raise UsageError("a one-row rule has no pairs to refine: its filters find the rows that break it")
        predicates = []
        for single in _singles(join):
            if single not in known:
                known[single] = _bind_single(table, single, nulls)
            predicates.append(known[single])
        rules.append(RuleParts(tuple(predicates), rows, rows, not join.irreflexive, True))
    return rules


def _singles(join: Join) -> list[Join]:
    """The join cut into joins of one part each, which also identify the parts. All filters are one part."""
    nothing = Join((), (), (), (), (), one_row=False)
    parts = [replace(nothing, key=(match,)) for match in join.key]
    parts += [replace(nothing, order=(order,)) for order in join.order]
    parts += [replace(nothing, differs=(match,)) for match in join.differs]
    if join.left_filter or join.right_filter:
        parts.append(replace(nothing, left_filter=join.left_filter, right_filter=join.right_filter))
    return parts


def _bind_single(table: Table, single: Join, nulls: Nulls) -> Refinable:
    """Bind a join of one part, and spread its codes over all rows of the table."""
    bound = bind(table, single, nulls)
    comparison = CodeComparison.EQUAL if single.key else CodeComparison.KEEP
    left, right = bound.left.key, bound.right.key
    if single.order:
        comparison, left, right = CodeComparison.LESS, bound.left.order[0], bound.right.order[0]
    elif single.differs:
        comparison, left, right = CodeComparison.DIFFERS, bound.left.differs[0], bound.right.differs[0]
    left_codes, left_valid = _spread(bound.left, left, table.n_rows)
    if bound.mirror and left is right:
        return Refinable(comparison, left_codes, left_codes, single, left_valid, left_valid)
    right_codes, right_valid = _spread(bound.right, right, table.n_rows)
    return Refinable(comparison, left_codes, right_codes, single, left_valid, right_valid)


def _spread(side: Side, codes: Int64Array, n_rows: int) -> tuple[Int64Array, BoolArray | None]:
    if side.n_rows == n_rows:
        return codes, None
    spread = np.zeros(n_rows, np.int64)
    spread[side.rows] = codes
    valid = np.zeros(n_rows, np.bool_)
    valid[side.rows] = True
    return spread, valid


def _refinable(
    comparison: CodeComparison, left: Int64Array, right: Int64Array, identity: Hashable, mirror: bool
) -> Refinable:
    """Equal arrays on both sides become one, so that the predicate counts as one on a single column."""
    if mirror and left is not right and np.array_equal(left, right):
        right = left
    return Refinable(comparison, left, right, identity)


MAX_WORDS = 1 << 34
_CALLS_BETWEEN_LOOKS, _MANY_WORDS = 256, 1 << 16
# BHSM is stable between 100 and 1,000 bins (section 6.2).
N_BINS = 500


class Operator(Enum):
    """The refinement algorithms of section 5; KEEP applies the filters of single rows."""

    KEEP = "keep"
    EQUAL = "equality"
    DIFFERS = "non-equality"
    HSM = "HSM"
    BHSM = "BHSM"
    IEJOIN = "IEJoin"


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """One step of a pipeline: an operator and its predicate; IEJoin has two."""

    operator: Operator
    predicates: tuple[Refinable, ...]
    build_right: bool = False


@dataclass(slots=True)
class RefinementWork:
    """What a run may spend: 64-bit words of intermediate row sets in all, and what the budget allows.

    A pipeline takes one pair of sets at a time through all its stages, so that it never holds more than a few times
    the table; the limit bounds how much it makes in all, which is quadratic if sets overlap.
    """

    limit: int = MAX_WORDS
    n_bins: int = N_BINS
    spent: int = 0
    limits: MethodLimits = field(default_factory=lambda: MethodLimits("FACET"))
    n_calls: int = 0
    _lock: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    @property
    def left(self) -> int:
        return self.limit - self.spent

    def spend(self, n_words: int) -> None:
        """Count words that were made, and look at the limits now and then."""
        if self.n_calls % _CALLS_BETWEEN_LOOKS == 0 or n_words >= _MANY_WORDS:
            self.limits.check()
        with self._lock:
            self.n_calls += 1
            self.spent += n_words
        if self.spent > self.limit:
            raise ResourceError(
                f"FACET would need more than {self.spent:,} words for intermediate row sets, and the limit is "
                f"{self.limit:,}: use the strategy auto, which makes none, or raise the limit"
            )


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
        self._sampled: dict[int, float] = {}
        self._pairs: dict[tuple[int, int], float] = {}

    def of(self, codes: Int64Array) -> float:
        """The distinct codes of a column, from its HyperLogLog sketch."""
        # The array is kept with its estimate, so that no other array can get its id.
        if id(codes) not in self._columns:
            from naysay.kernels.joins.facet import estimate, sketch

            self._columns[id(codes)] = codes, min(estimate(sketch(codes, _SKETCH_BITS)), float(codes.size))
        return self._columns[id(codes)][1]

    def prepare(self, rules: Sequence[RuleParts], n_threads: int) -> None:
        """Sketch all columns of several rules, on threads."""
        columns = [
            codes for rule in rules for predicate in rule.predicates for codes in (predicate.left, predicate.right)
        ]
        on_threads(list({id(codes): codes for codes in columns}.values()), self.of, n_threads)

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
        corrected = combined * max(many / self._of_sample(wider, sample), 1.0)
        return min(max(corrected, many), few * many, float(first.size))

    def _of_sample(self, codes: Int64Array, sample: Int64Array) -> float:
        """The distinct codes of a column, from the sample."""
        if id(codes) not in self._sampled:
            n_distinct = np.unique(codes[sample]).size
            self._sampled[id(codes)] = _guess_distinct(n_distinct, sample.size, codes.size, float(codes.size))
        return self._sampled[id(codes)]

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
