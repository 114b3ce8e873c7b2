"""Discovery without looking at all pairs: some pairs, then proof.

The pairs of a random sample of rows, and all pairs that agree on sets of columns which few pairs agree on, give
evidence; its covers are candidates. A candidate that asks for agreement on such a set has been held against every
pair that could break it: it is settled. The others are verified one by one in nearly linear time (`verify`); a pair
that breaks one is new evidence, the covers are brought up to date, and so on until every candidate is settled or
verified. Then the evidence at hand has the same minimal covers as that of all pairs: each is a rule, and a minimal
rule of the table is a cover of any part of its evidence, so it contains a minimal one, which holds, so it is that.

With an error, pairs that are drawn at random tell how often nearly every rule is broken; the few that are close to the
error are counted (`find_near`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from naysay.arrays import BoolArray, Int64Array, UInt64Array
from naysay.budget import run_all
from naysay.discovery.cover import Brake, minimal_covers
from naysay.discovery.evidence import (
    Evidence,
    agreeing_pairs,
    all_pairs,
    codes_of_pairs,
    equal_rows,
    in_time,
    is_first,
    merge,
    mirror_of,
    word_order,
)
from naysay.discovery.measured import LevelSearch, MissCounter
from naysay.discovery.outcomes import FieldKind
from naysay.discovery.problem import (
    SAMPLE_WORK_PER_SECOND,
    Answer,
    MeasureTable,
    Problem,
    all_of,
    empty_answer,
    finish_accepted,
    finish_rules,
    some_of_the_shortest,
)
from naysay.discovery.shortest import search_rules
from naysay.discovery.verify import BUDGET, Costs, Pair, TooLong, Verifier, choose_sets, equality_masks, settled_by
from naysay.discovery.vertices import edges_of, is_among, missing_some, sorted_unique, to_int
from naysay.plan.cost import release_freed_memory
from naysay.rule.model import Rule

SAMPLE_ROWS = 3000
# The most comparisons of the rules that are proven first if time is limited.
_SHORT = 3
# The first rules: their share of the time limit, the rows to sample, and the most comparisons of a rule.
_FIRST_SHARE, _FIRST_SAMPLE_ROWS, _FIRST_LEVELS = 0.4, 150, 2
# The most agreeing pairs, in all or per row, of the single columns that are enumerated at the start.
_FIRST_PAIRS = 20_000_000
_FIRST_PAIRS_A_ROW = 600
# However few rules are wanted: candidates may be broken, or say what no table could break.
_FEWEST_CANDIDATES = 200
# Covers times edges between two looks at the clock.
_MISSED_WORK = 50_000_000
ENUMERATE: Pair = (-2, -2)
# With an error: the ordered pairs to see, the standard errors within which a rule is counted on the whole table, the
# seconds that this may take, and the share of a time limit for all short rules.
_MET_PAIRS = 1_000_000_000
# If there is no time for so many pairs, this many times fewer are met.
_FEWER = 16
_STANDARD_ERRORS = 6.0
_COUNT_SECONDS = 60.0
_NEAR_SHARE = 0.6
# The share of the time left in which the pairs that agree on a set of columns must be seen.
_AGREEING_SHARE = 0.5


# With at most this many candidates, proving them is worth a try even where all pairs are compared in a second or two.
# A sample must show that there are no more within this share of the time limit.
_FEW_COVERS, _FEW_SHARE = 2_000, 0.1


class TooManyChecks(Exception):
    """All pairs would cost less than what is left to verify."""


def find_if_few(problem: Problem) -> Answer:
    """As `find`. Raises TooManyChecks if a sample leaves many candidates, or all pairs look cheaper."""
    search = SelectiveSearch(problem)
    search.begin()
    search.problem = replace(problem, budget=problem.budget.part(_FEW_SHARE))
    are_few = search.update(problem.most_groups, _FEW_COVERS)
    search.problem = problem
    if not are_few and not problem.budget.stopped():
        raise TooManyChecks
    return _find_all(problem, search, may_leave=True)


def find(problem: Problem, *, may_leave: bool = False, search: SelectiveSearch | None = None) -> Answer:
    """All minimal exact rules. Raises TooManyChecks, if `may_leave`, when all pairs look cheaper.

    If more rules hold than wanted, those with the fewest predicates are found. `search` is another way to look at
    the rows.
    """
    search = search or SelectiveSearch(problem)
    search.begin()
    return _find_all(problem, search, may_leave=may_leave)


def _find_all(problem: Problem, search: SelectiveSearch, *, may_leave: bool) -> Answer:
    limit, most_groups = problem.limit, problem.most_groups
    if problem.budget.is_limited:
        # The search for all of them may not end in time: have the short ones by then.
        search.run_levels(min(_SHORT, most_groups - 1), limit, may_leave=may_leave)
    complete = search.run(most_groups, limit, may_leave=may_leave)
    if not complete and not problem.budget.stopped():
        # Too many: those with few predicates first, for as long as there is room.
        search.run_levels(most_groups - 1, limit)
    return search.answer(complete=complete)


def first_rules(problem: Problem) -> Answer:
    """Some of the shortest rules, found in a share of the time limit: what there is to return if nothing else is found.

    Few rows are sampled, so that candidates are few and known soon; each is then verified on the whole table.
    """
    search = SelectiveSearch(replace(problem, budget=problem.budget.part(_FIRST_SHARE)), _FIRST_SAMPLE_ROWS)
    with problem.budget.phase("sample"):
        search.sample()
    for n_groups in range(1, min(_FIRST_LEVELS, problem.request.max_predicates or _FIRST_LEVELS) + 1):
        search.prove_some(n_groups, problem.limit)
    return search.answer(complete=False)


def find_near(problem: Problem, measure: MeasureTable) -> Answer:
    """All minimal rules that are broken by at most the pairs allowed, without looking at all pairs.

    Every row meets some others, drawn at random. That tells the share of pairs that break a rule, up to a small margin.
    Short rules that are closer to the error than that are counted on the whole table; of longer ones, for which
    counting takes long and which crowd around any error, what the pairs seen say is taken.
    """
    budget = problem.budget
    with budget.phase("sample"):
        seen = _meet(problem)
    if seen is None:
        return empty_answer(problem, partial=True)
    edges, counts = edges_of(seen, problem.outcomes.layout, problem.vertices)
    search = _NearSearch(replace(problem, budget=budget.part(_NEAR_SHARE)), measure, edges, counts)
    with budget.phase("verify"):
        level = search.find_short()
    with budget.phase("covers"):
        found = search_rules(replace(problem, most=search.most), edges, counts)
        longer = found.covers[problem.vertices.n_groups(found.covers) > _SHORT]
        longer = longer[~search.follow(longer)]
        rules, are_all = finish_accepted(problem, np.concatenate([search.accepted, longer]))
    if level >= min(_SHORT, problem.most_groups):
        level = max(level, found.complete_up_to)
    if len(rules) > problem.limit:
        level = min(level, int(problem.vertices.n_predicates(rules[problem.limit :][:1])[0]) - 1)
    return Answer(
        rules[: problem.limit],
        found.partial or search.is_stopped or not are_all or len(rules) > problem.limit,
        edges,
        counts,
        # As many rows as would have that many pairs.
        n_sampled=None if search.has_all_pairs else math.isqrt(seen.n_pairs) + 1,
        complete_up_to=level if are_all else 0,
        notes=search.notes,
    )


def _meet(problem: Problem) -> Evidence | None:
    """The evidence of all pairs within blocks of rows that are put together at random; None if it was stopped.

    All rows are in as many pairs, so that what differs between rows adds nothing to the variance of a count: only what
    differs between the pairs of a row does.
    """
    outcomes, budget = problem.outcomes, problem.budget
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(outcomes.n_rows), outcomes.weights))
    n_pairs = _MET_PAIRS
    while True:
        if budget.is_limited:
            n_fields = len(outcomes.layout.fields)
            n_pairs = min(n_pairs, int(SAMPLE_WORK_PER_SECOND * 20 * max(0.0, budget.left) / n_fields))
        n_blocks = max(1, round(order.size / max(2, n_pairs / order.size)))
        starts = np.linspace(0, order.size, n_blocks + 1).astype(np.int64)
        met = agreeing_pairs(outcomes, order, starts, budget)
        if met is not None or budget.stopped() or n_blocks >= order.size // 2:
            return met
        # No two pairs are alike: there is time to put fewer in order.
        n_pairs //= _FEWER


class _NearSearch:
    """Finds short rules from a sample of pairs, and counts those that it leaves open on the whole table."""

    def __init__(self, problem: Problem, measure: MeasureTable, edges: UInt64Array, counts: Int64Array) -> None:
        self.problem, self.measure = problem, measure
        self.edges, self.counts = edges, counts
        n_seen, n_pairs = int(counts.sum()), problem.outcomes.n_pairs
        self.has_all_pairs = n_seen == n_pairs
        # The pairs seen that may break a rule.
        self.most = problem.most * n_seen // n_pairs
        # The variance of a mean over m unordered pairs is at most 1 / m times the mean, if no row is preferred.
        self.margin = 0 if self.has_all_pairs else math.ceil(_STANDARD_ERRORS * math.sqrt(2 * max(1, self.most)))
        self.accepted = edges[:0]
        self.is_stopped = False
        self._n_undecided = 0

    @property
    def notes(self) -> tuple[str, ...]:
        if self.has_all_pairs:
            return ()
        n_seen = int(self.counts.sum())
        notes = [
            f"{n_seen:,} of all pairs were compared, every row with others drawn at random: they tell the share that "
            f"breaks a rule up to {self.margin / n_seen:.1g}; rules of more than {_SHORT} predicates that are so close "
            "to the error may be missing, or broken a little more"
        ]
        if self._n_undecided:
            notes.append(f"{self._n_undecided:,} rules took too long to count; they are taken as broken too often")
        return tuple(notes)

    def find_short(self) -> int:
        """Find all short rules; returns the length up to which none is missing."""
        search = LevelSearch(self.problem, self._judge, 0)
        self.is_stopped = not search.run(min(_SHORT, self.problem.most_groups))
        self.accepted = search.accepted()
        return search.level

    def _judge(self, covers: UInt64Array) -> Int64Array:
        """0 for rules of the table, 1 for others; of the first covers only, if stopped."""
        budget, vertices, high = self.problem.budget, self.problem.vertices, self.most + self.margin
        missed = MissCounter(self.edges, self.counts, high, budget).evaluate(covers)
        values = np.where(missed <= self.most - self.margin, 0, 1)
        # Without predicates a rule is broken by every pair.
        unsure = np.flatnonzero((values == 1) & (missed <= high) & covers[: missed.size].any(axis=1))
        tasks = [partial(self._is_rule, vertices.rule(to_int(covers[place]))) for place in unsure]
        done = run_all(tasks, budget, on_tick=lambda budget: budget.report("verify", None))
        values[unsure[: len(done)]] = np.where(done, 0, 1)
        return values if len(done) == len(tasks) else values[: unsure[len(done)]]

    def _is_rule(self, rule: Rule) -> bool:
        n_pairs = self.measure.pairs(rule, min(_COUNT_SECONDS, self.problem.budget.left))
        if n_pairs is None:
            self._n_undecided += 1
            return False
        if rule.is_one_row:
            n_pairs *= self.problem.outcomes.n_table_rows - 1
        return n_pairs <= self.problem.most

    def follow(self, covers: UInt64Array) -> BoolArray:
        """Whether a cover contains an accepted one, so that it says less."""
        follows = np.zeros(len(covers), np.bool_)
        whole = covers.copy()
        for group in self.problem.vertices.groups:
            if group.kind is FieldKind.ORDER_OR_NULL:
                # Bits 0, 2 and 3 are >=, <= and ==, which both together imply.
                both = (self.problem.vertices.chosen(covers, group) & 0b0101) == 0b0101
                whole[both, group.first // 64] |= np.uint64(0b1000 << (group.first % 64))
        for known in self.accepted:
            follows |= ((whole & known) == known).all(axis=1)
        return follows


class SelectiveSearch:
    """Evidence, covers of it, and what is known of them."""

    def __init__(self, problem: Problem, most_sampled: int | None = None) -> None:
        """`most_sampled`: the most rows to sample."""
        self.problem = problem
        self._most_sampled = most_sampled
        self.verifier = Verifier(problem.outcomes, problem.vertices)
        self.costs = Costs(self.verifier, problem.budget.threads)
        self.edges = np.empty((0, problem.vertices.n_words), np.uint64)
        self.covers = self.edges
        # The edges that the covers were found for, and of how many comparisons at most, if all of them were.
        self._covered = self.edges
        self._searched: int | None = None
        # Proven covers of earlier runs: minimal rules of the table for good.
        self._proven = self.edges
        self.n_sampled = 0
        self.sample_edges, self.sample_counts = self.edges, np.empty(0, np.int64)
        self.settled: list[int] = []
        self.verified: set[int] = set()
        # All rules of up to this many comparisons are proven.
        self._level = 0
        # The limits on covers that the last search ran into.
        self._limits: dict[str, int] = {}

    def begin(self) -> None:
        """The evidence to start from: a sample of rows, equal rows, and the most selective columns."""
        budget = self.problem.budget
        with budget.phase("sample"):
            self.sample()
        if budget.stopped():
            return
        left = max(_FIRST_PAIRS, _FIRST_PAIRS_A_ROW * self.costs.n_rows)
        masks = self.costs.single_masks()
        self.costs.look_up(masks)
        for n_pairs, mask in sorted((self.costs.n_pairs(mask), mask) for mask in masks):
            if n_pairs > left or budget.stopped() or not self.enumerate(mask):
                break
            left -= n_pairs

    def sample(self) -> None:
        """See all pairs of some rows drawn at random, and the equal rows."""
        outcomes = self.problem.outcomes
        n_rows = self.problem.rows_in_time(self._most_sampled or SAMPLE_ROWS)
        places = np.sort(np.random.default_rng(0).choice(outcomes.n_rows, n_rows, replace=False))
        sample = all_pairs(outcomes.take(places), self.problem.budget)
        if sample is None:
            return
        self.n_sampled = n_rows
        self.sample_edges, self.sample_counts = edges_of(sample, outcomes.layout, self.problem.vertices)
        self.add(merge([sample, equal_rows(outcomes)]))

    def add(self, evidence: Evidence) -> UInt64Array:
        """Learn the edges of some evidence, and give them."""
        edges, _ = edges_of(evidence, self.problem.outcomes.layout, self.problem.vertices)
        return self.add_edges(edges)

    def add_edges(self, edges: UInt64Array) -> UInt64Array:
        self.edges = sorted_unique(np.concatenate([self.edges, edges]))
        return edges

    def enumerate(self, mask: int) -> bool:
        """See all pairs that agree on a set of columns; every rule that asks for that agreement is settled then.

        False if there is no time for it, or for looking through all evidence afterwards.
        """
        problem = self.problem
        with problem.budget.phase("agreeing pairs"):
            order, starts = self.costs.grouped(mask)
            # The edges are put in order twice: when they are added, and before candidates are held against them.
            part = problem.budget.part(_AGREEING_SHARE)
            evidence = agreeing_pairs(problem.outcomes, order, starts, part, counted=False)
            if evidence is None or not in_time(len(evidence) + len(self.edges), problem.outcomes.layout, part):
                return False
            self.add(evidence)
            self.settle(mask)
        return True

    def settle(self, mask: int) -> None:
        """Every pair that agrees on a set of columns is known, and so on any that contains it."""
        self.settled = [other for other in self.settled if other & mask != mask] + [mask]

    def run_levels(self, last: int, limit: int, *, may_leave: bool = False) -> None:
        """Prove all covers of one comparison, then of one more, up to `last`, while there is time and room."""
        for n_groups in range(1, last + 1):
            if not self.run(n_groups, limit, may_leave=may_leave):
                break
            self._proven = self.covers[self._is_proven(self.covers)]
            if self.problem.budget.late():
                # Then some of them were not even looked at.
                break
            self._level = n_groups

    def prove_some(self, max_groups: int, limit: int) -> None:
        """Verify the covers of the evidence at hand, once, and keep those that hold as proven.

        A minimal cover of any evidence is a minimal rule if it holds. What breaks is not extended.
        """
        budget = self.problem.budget
        if budget.stopped():
            return
        with budget.phase("covers"):
            self.update(max_groups, limit)
        with budget.phase("verify"):
            self.verify(self.open_covers())
        proven = self.covers[self._is_proven(self.covers)]
        self._proven = sorted_unique(np.concatenate([self._proven, proven]))

    def run(self, max_groups: int, limit: int, *, may_leave: bool = False) -> bool:
        """Prove all covers of at most `max_groups` comparisons. False if there are too many, or time ran out."""
        problem, budget = self.problem, self.problem.budget
        before = None
        while not budget.stopped():
            known = self._known()
            if known == before:
                raise AssertionError(
                    "selective discovery makes no progress: some rules are open, and nothing was learnt"
                )
            before = known
            with budget.phase("covers"):
                if not self.update(max_groups, limit):
                    return False
            todo = self.open_covers()
            if not len(todo):
                return True
            with budget.phase("planning"):
                masks = equality_masks(todo, problem.vertices)
                chosen, seconds = self.choose(masks)
            if may_leave and seconds > self.costs.all_pairs_seconds() < budget.left:
                raise TooManyChecks
            may_leave = False
            for mask in chosen:
                if not budget.stopped():
                    self.enumerate(mask)
            todo = todo[~settled_by(masks, self.settled)]
            with budget.phase("verify"):
                self.verify(todo[~missing_some(todo, self.fresh())])
        return False

    def choose(self, masks: UInt64Array) -> tuple[list[int], float]:
        """The sets that are worth enumerating for candidates with these equality sets, and the seconds for all."""
        return choose_sets(masks, self.costs)

    def _known(self) -> tuple[int, int, tuple[int, ...]]:
        """How much is known. Each round adds to it, and there is an end to what can be known: so `run` ends."""
        return len(self.edges), len(self.verified), tuple(sorted(self.settled))

    def update(self, max_groups: int, limit: int) -> bool:
        """Bring the covers up to date with the edges; False if there are more than wanted, or time ran out."""
        problem = self.problem
        most_covers = {**problem.most_covers, "limit on rules": max(_FEWEST_CANDIDATES, 2 * limit + 2)}
        # Edges are only ever added: as many as before are the same.
        is_same = self._searched == max_groups and len(self.edges) == len(self._covered)
        if is_same and len(self.covers) < min(most_covers.values()):
            return not problem.budget.stopped()
        brake = Brake(min(most_covers.values()))
        self._covered = self.edges
        self.covers = minimal_covers(
            self.edges, problem.vertices, max_groups=max_groups, brake=brake, budget=problem.budget
        )
        self._limits = most_covers if brake.n_found >= brake.max_covers else {}
        complete = not brake.stopped and not problem.budget.stopped()
        self._searched = max_groups if complete else None
        return complete

    def fresh(self) -> UInt64Array:
        """The edges that were learnt since the covers were found: all that these may miss."""
        both = np.concatenate([self.edges, self._covered])
        both = both[word_order(both)]
        differs = np.concatenate([is_first(both), [True]])
        return np.ascontiguousarray(both[differs[1:] & differs[:-1]])

    def open_covers(self) -> UInt64Array:
        """The covers, one of each pair of twins, that are neither settled nor verified."""
        vertices = self.problem.vertices
        covers = vertices.once(self.covers[~settled_by(equality_masks(self.covers, vertices), self.settled)])
        return covers[~self._is_verified(covers)]

    def _is_verified(self, covers: UInt64Array) -> BoolArray:
        return is_among(covers, self.problem.vertices.words(self.verified))

    def verify(self, todo: UInt64Array) -> None:
        """Verify candidates, short ones first; a pair that breaks one spares all others that it breaks."""
        problem = self.problem
        # Candidates that compare the same columns for equality, one after the other: they share groups and orders.
        todo = todo[np.lexsort((equality_masks(todo, problem.vertices), problem.vertices.n_predicates(todo)))]
        size, n_done = 4 * problem.budget.threads, 0
        while len(todo) and not problem.budget.stopped():
            batch, todo = todo[:size], todo[size:]
            pairs = run_all([partial(self.verify_one, to_int(cover)) for cover in batch], problem.budget)
            n_done += len(pairs)
            for cover, pair in zip(batch, pairs, strict=False):
                mask = int(equality_masks(cover[None, :], problem.vertices)[0])
                if pair == ENUMERATE and not self.enumerate(mask):
                    problem.budget.stop("time limit")
            broken = [pair for pair in pairs if pair is not None and pair != ENUMERATE]
            if broken:
                todo = todo[~missing_some(todo, self.learn(broken))]
            problem.budget.report("verify", n_done / (n_done + len(todo)), len(self.verified))

    def verify_one(self, cover: int) -> Pair | None:
        """A pair that breaks the rule, or ENUMERATE if that is cheaper than going on; else it is noted as verified."""
        mask = int(equality_masks(self.problem.vertices.words([cover]), self.problem.vertices)[0])
        budget = BUDGET
        while True:
            try:
                pair = self.verifier.find(cover, budget)
                release_freed_memory(self.costs.n_rows)
            except TooLong:
                budget *= 8
                if self.costs.seconds_of(mask) < self.costs.search_seconds(budget):
                    return ENUMERATE
                continue
            if pair is None:
                self.verified.add(cover)
            return pair

    def learn(self, pairs: list[Pair]) -> UInt64Array:
        """Learn the edges of some pairs and of their mirrors, and give them."""
        outcomes = self.problem.outcomes
        places = np.array(pairs, np.int64)
        codes = codes_of_pairs(outcomes, places[:, 0], places[:, 1])
        seen = Evidence(codes, np.ones(len(codes), np.int64))
        return self.add(merge([seen, mirror_of(seen, outcomes.layout)]))

    def answer(self, *, complete: bool) -> Answer:
        """The rules that are known to hold: settled or verified, and no evidence against them."""
        problem, ones = self.problem, np.ones(len(self.edges), np.int64)
        rules, are_all = finish_rules(problem, self._proven, self.edges, ones)
        level = self._level if are_all else 0
        if complete or not problem.budget.late() or not len(rules):
            covers = some_of_the_shortest(self.covers) if problem.budget.stopped() else self.covers
            more, more_are_all = finish_rules(problem, covers[self._is_proven(covers)], self.edges, ones)
            rules, are_all = all_of(rules, more, problem.vertices), are_all and more_are_all
        if self._limits:
            problem.stop_at(self._limits)
        limit = problem.limit
        if len(rules) > limit:
            level = min(level, int(problem.vertices.n_predicates(rules[limit : limit + 1])[0]) - 1)
        return Answer(
            rules[:limit],
            not complete or not are_all or len(rules) > limit,
            self.sample_edges,
            self.sample_counts,
            n_sampled=self.n_sampled,
            complete_up_to=level,
        )

    def _is_proven(self, covers: UInt64Array) -> BoolArray:
        proven = settled_by(equality_masks(covers, self.problem.vertices), self.settled)
        proven[~proven] = self._is_verified(covers[~proven])
        places, fresh = np.flatnonzero(proven), self.fresh()
        size = max(1, _MISSED_WORK // max(1, len(fresh)))
        for start in range(0, len(places), size):
            some = places[start : start + size]
            # What there is no time to hold against the newest evidence is not known to hold.
            in_time = not start or not self.problem.budget.late()
            proven[some] = ~missing_some(covers[some], fresh) if in_time else False
        return proven
