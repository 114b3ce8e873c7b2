"""Cluster pairs and the operators that refine them (FACET, sections 3.2 and 5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from naysay.errors import ResourceError
from naysay.table.codes import BoolArray, Int64Array
from naysay.verbs.facet.predicates import Comparison, Refinable

BATCH = 1 << 20
MAX_WORDS = 1 << 34
# BHSM is stable between 100 and 1,000 bins (section 6.2).
N_BINS = 500

# A row id costs about as much to sort into place as this many words of a bitmap cost to read.
_WORDS_PER_PLACE = 64
_FIRST_BATCH = 1 << 12

Arrays = tuple[Int64Array, Int64Array, Int64Array, Int64Array]


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Sets of places as runs of one buffer: set k is places[bounds[k, 0] : bounds[k, 1]]. Runs may overlap.

    This is the array half of FACET's hybrid sets (section 4). In sorted order the unions of HSM and the differences
    of non-equalities are runs as well and share one buffer; sets without such an order live in the bitmaps of
    `kernels.facet_bitmap`, inside one refinement.
    """

    places: Int64Array
    bounds: Int64Array

    @property
    def sizes(self) -> Int64Array:
        sizes: Int64Array = self.bounds[:, 1] - self.bounds[:, 0]
        return sizes


@dataclass(frozen=True, slots=True, eq=False)
class ClusterPairs:
    """A batch of cluster pairs: pair k stands for all pairs of a place of left set k with one of right set k.

    Where `left is right` they are reflexive, and a place does not meet itself. No pair of places is in two of them.
    """

    left: Runs
    right: Runs

    @property
    def reflexive(self) -> bool:
        return self.left is self.right

    @property
    def n_clusters(self) -> int:
        return int(self.left.bounds.shape[0])

    @property
    def n_pairs(self) -> int:
        """How many pairs of places they stand for."""
        sizes = self.left.sizes
        return int(np.dot(sizes, sizes - 1 if self.reflexive else self.right.sizes))

    def part(self, begin: int, end: int) -> ClusterPairs:
        left = Runs(self.left.places, self.left.bounds[begin:end])
        return ClusterPairs(left, left if self.reflexive else Runs(self.right.places, self.right.bounds[begin:end]))


def whole(n_left: int, n_right: int, *, mirror: bool) -> ClusterPairs:
    """The one cluster pair that stands for every pair, where a pipeline begins."""
    left = Runs(np.arange(n_left, dtype=np.int64), np.array([[0, n_left]], np.int64))
    if mirror:
        return ClusterPairs(left, left)
    return ClusterPairs(left, Runs(np.arange(n_right, dtype=np.int64), np.array([[0, n_right]], np.int64)))


class Operator(Enum):
    """The refinement algorithms."""

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
class Work:
    """What a run may spend: row ids in one batch, and 64-bit words of intermediates over all.

    Batches bound the memory; the limit bounds the time, which is quadratic where clusters overlap.
    """

    batch: int = BATCH
    limit: int = MAX_WORDS
    n_bins: int = N_BINS
    stops_early: bool = False
    spent: int = 0

    @property
    def first_batch(self) -> int:
        """Batches grow up to their full size where the first results may be all that is wanted."""
        return min(_FIRST_BATCH, self.batch) if self.stops_early else self.batch

    def spend(self, n_words: int) -> None:
        self.spent += n_words
        self.foresee(0)

    def foresee(self, n_words: int) -> None:
        """Refuse work that is sure to exceed the limit before it is done."""
        if self.spent + n_words > self.limit:
            raise ResourceError(
                f"FACET would need {self.spent + n_words:,} words and more for intermediate cluster pairs, "
                f"and the limit is {self.limit:,}: use strategy 'auto', which forms none, or raise the limit"
            )


def refine(stage: Stage, pairs: ClusterPairs, work: Work, *, prune: bool) -> Iterator[ClusterPairs]:
    """The cluster pairs that stand for those pairs that satisfy the stage, too; in batches, none of them empty.

    With `prune` a reflexive cluster of one place, which stands for no pair, is dropped at once (section 5.1).
    """
    pairs = restrict(pairs, stage.predicates)
    if stage.operator is Operator.KEEP:
        refined: Iterator[ClusterPairs] = iter((pairs,))
    elif stage.operator is Operator.IEJOIN or _should_move(stage, pairs):
        refined = _refine_with_bitmaps(stage, pairs, work)
    else:
        refined = _refine_runs(stage, pairs, work, prune)
    return (batch for batch in refined if batch.n_clusters > 0)


def count(stage: Stage, pairs: ClusterPairs, work: Work) -> int:
    """Count the pairs that satisfy the stage, too: sizes are multiplied, bitmaps counted, and no pair is formed."""
    pairs = restrict(pairs, stage.predicates)
    if stage.operator is Operator.IEJOIN or _should_move(stage, pairs):
        return _BitmapRefinement(stage, pairs, work).count()
    if stage.operator is Operator.KEEP:
        return pairs.n_pairs
    return sum(batch.n_pairs for batch in _refine_runs(stage, pairs, work, True))


def restrict(pairs: ClusterPairs, predicates: tuple[Refinable, ...]) -> ClusterPairs:
    """Drop the places for which a predicate can never hold: its value is null, or fails a filter."""
    for predicate in predicates:
        if predicate.left_valid is None and predicate.right_valid is None:
            continue
        left = _kept(pairs.left, predicate.left_valid)
        if pairs.reflexive and predicate.left_valid is predicate.right_valid:
            pairs = ClusterPairs(left, left)
        else:
            pairs = ClusterPairs(left, _kept(pairs.right, predicate.right_valid))
    return pairs


def _kept(runs: Runs, valid: BoolArray | None) -> Runs:
    if valid is None:
        return runs
    keep = valid[runs.places]
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(keep)])
    return Runs(runs.places[keep], before[runs.bounds])


def _refine_runs(stage: Stage, pairs: ClusterPairs, work: Work, prune: bool) -> Iterator[ClusterPairs]:
    """Refine with one kernel call a batch; a batch of output takes at most three times the places of its input."""
    sizes = pairs.left.sizes + pairs.right.sizes
    if not work.stops_early:
        work.foresee(int(sizes.sum()))
    ends = np.cumsum(sizes)
    begin, taken, batch = 0, 0, work.first_batch
    while begin < sizes.size:
        end = max(int(np.searchsorted(ends, taken + batch, side="right")), begin + 1)
        work.spend(int(ends[end - 1]) - taken)
        yield _refine_batch(stage, pairs.part(begin, end), work.n_bins, prune)
        begin, taken, batch = end, int(ends[end - 1]), min(2 * batch, work.batch)


def _refine_batch(stage: Stage, pairs: ClusterPairs, n_bins: int, prune: bool) -> ClusterPairs:
    from naysay.kernels.facet import refine_matched, refine_ordered

    (predicate,) = stage.predicates
    left, right = pairs.left, pairs.right
    same = pairs.reflexive and predicate.left is predicate.right
    if predicate.comparison is Comparison.LESS:
        bins = n_bins if stage.operator is Operator.BHSM else 0
        out = refine_ordered(
            left.places, left.bounds, right.places, right.bounds, predicate.left, predicate.right, bins, same
        )
        return ClusterPairs(Runs(out[0], out[1]), Runs(out[2], out[3]))
    left_codes, right_codes = predicate.left, predicate.right
    if stage.build_right:
        left, right, left_codes, right_codes = right, left, right_codes, left_codes
    differs = predicate.comparison is Comparison.DIFFERS
    prune = prune and same and not differs
    out = refine_matched(
        left.places, left.bounds, right.places, right.bounds, left_codes, right_codes, differs, same, prune
    )
    built = Runs(out[0], out[1])
    probed = built if same and not differs else Runs(out[2], out[3])
    return ClusterPairs(probed, built) if stage.build_right else ClusterPairs(built, probed)


def _should_move(stage: Stage, pairs: ClusterPairs) -> bool:
    """Whether right runs overlap so much that a bitmap that moves over them is cheaper than reading each of them."""
    if pairs.reflexive or stage.operator is Operator.KEEP or pairs.n_clusters < 2:
        return False
    left, right = pairs.left.sizes, pairs.right.sizes
    segments, distinct = _segments(pairs.right.bounds)
    words = 2 * left
    if stage.operator in (Operator.HSM, Operator.BHSM):
        words = left * ((segments[:, 1] - segments[:, 0]) // 64 + 1)
    n_sorted = int((distinct[:, 1] - distinct[:, 0]).sum()) + int(left.sum())
    moving = _WORDS_PER_PLACE * n_sorted + int(words.sum())
    return moving < _WORDS_PER_PLACE * (int(left.sum()) + int(right.sum()))


def _segments(bounds: Int64Array) -> tuple[Int64Array, Int64Array]:
    """For each run the stretch of the buffer that it shares with runs it overlaps, and each stretch once."""
    furthest = np.maximum.accumulate(bounds[:, 1])
    nearest = np.minimum.accumulate(bounds[::-1, 0])[::-1]
    starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(nearest[1:] >= furthest[:-1]) + 1])
    ends = np.append(starts[1:], bounds.shape[0])
    distinct = np.stack([nearest[starts], furthest[ends - 1]], axis=1)
    return np.repeat(distinct, ends - starts, axis=0), distinct


def _refine_with_bitmaps(stage: Stage, pairs: ClusterPairs, work: Work) -> Iterator[ClusterPairs]:
    refinement = _BitmapRefinement(stage, pairs, work)
    while not refinement.done:
        yield refinement.step()


class _BitmapRefinement:
    """IEJoin, or a refinement of moving runs, that goes on from batch to batch."""

    def __init__(self, stage: Stage, pairs: ClusterPairs, work: Work) -> None:
        from naysay.kernels import facet_bitmap

        self._kernels = facet_bitmap
        self._stage = stage
        self._pairs = pairs
        self._work = work
        self._state = np.zeros(facet_bitmap.N_STATE, np.int64)
        longest = max(int(pairs.left.sizes.max(initial=0)), int(pairs.right.sizes.max(initial=0)))
        self._capacity = max(work.first_batch, longest)
        self._segments = self._ranked = pairs.right.bounds
        if stage.operator is Operator.IEJOIN:
            work.spend(int(pairs.left.sizes.sum()) + int(pairs.right.sizes.sum()))
        else:
            (predicate,) = stage.predicates
            self._segments, distinct = _segments(pairs.right.bounds)
            self._ranked = facet_bitmap.rank_segments(pairs.right.places, predicate.right, distinct)
            work.spend(int(self._ranked.shape[1]))

    @property
    def done(self) -> bool:
        return bool(self._state[self._kernels.CLUSTER] == self._pairs.n_clusters)

    def count(self) -> int:
        self._run(0)
        return int(self._state[self._kernels.N_PAIRS])

    def step(self) -> ClusterPairs:
        out = self._run(self._capacity)
        self._capacity = max(self._capacity, min(2 * self._capacity, self._work.batch))
        return ClusterPairs(Runs(out[0], out[1]), Runs(out[2], out[3]))

    def _run(self, capacity: int) -> Arrays:
        kernels, state, left, right = self._kernels, self._state, self._pairs.left, self._pairs.right
        state[kernels.CAPACITY], state[kernels.WRITES] = capacity, capacity > 0
        state[kernels.WORDS_READ], state[kernels.WORDS_ALLOWED] = 0, self._work.limit - self._work.spent
        if self._stage.operator is Operator.IEJOIN:
            first, second = self._stage.predicates
            out: Arrays = kernels.refine_two_orders(
                left.places,
                left.bounds,
                right.places,
                right.bounds,
                first.left,
                first.right,
                second.left,
                second.right,
                state,
            )
        else:
            (predicate,) = self._stage.predicates
            comparison = {
                Comparison.EQUAL: kernels.EQUAL,
                Comparison.DIFFERS: kernels.DIFFERS,
                Comparison.LESS: kernels.LESS,
            }[predicate.comparison]
            out = kernels.refine_moving(
                left.places,
                left.bounds,
                predicate.left,
                right.bounds,
                self._segments,
                self._ranked,
                comparison,
                state,
            )
        self._work.spend(int(state[kernels.WORDS_READ]))
        return out
