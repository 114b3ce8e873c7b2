"""FACET as a strategy, and for many rules at once: pipelines that begin alike run that beginning once (section 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain
from threading import Condition
from typing import TypeAlias

import numpy as np

from naysay.arrays import Int64Array
from naysay.budget import in_turn_or_on_threads, threads_for
from naysay.detect.strategy import PairBlock
from naysay.errors import CountOverflow, ResourceError
from naysay.papers.facet.refinement import Refinement
from naysay.papers.facet.stage import (
    MAX_WORDS,
    N_BINS,
    Clusters,
    GreedyHLL,
    RefinementWork,
    RuleParts,
    SetPair,
    Stage,
    all_pairs,
    array_of,
    parts_of_bound,
    parts_of_joins,
)
from naysay.plan.bind import BoundJoin
from naysay.plan.join import Join
from naysay.rule.model import Nulls
from naysay.table import Table

_CHUNK = 1 << 16
# Rows that a thread takes through a stage at a time, unless a single pair of sets has more: they fit its cache, and the
# steps in Python between two stages cost little.
_PART_ROWS = 1 << 16
# What a stage holds at a time, for each row of both sides: a hash table, or IEJoin's sorted arrays. Measured.
_BYTES_PER_ROW = 96


class PairList:
    """The pairs of distinct rows in pairs of sets, until there are `most`."""

    def __init__(self, left_rows: Int64Array, right_rows: Int64Array, most: int) -> None:
        self._rows = left_rows, right_rows
        self._found = [np.zeros((2, 0), np.int64)]
        self._missing = most

    @property
    def full(self) -> bool:
        return self._missing == 0

    def add(self, pair: SetPair) -> None:
        left, right = self._rows[0][array_of(pair.left)], self._rows[1][array_of(pair.right)]
        step = max(_CHUNK // max(right.size, 1), 1)
        for begin in range(0, left.size, step):
            if self.full:
                return
            block = left[begin : begin + step]
            found = np.stack([np.repeat(block, right.size), np.tile(right, block.size)])
            found = found[:, found[0] != found[1]][:, : self._missing]
            self._found.append(found)
            self._missing -= found.shape[1]

    def pairs(self) -> tuple[Int64Array, Int64Array]:
        left, right = np.concatenate(self._found, axis=1)
        return left, right


class Organisation(Enum):
    """How a trie orders the predicates of a rule: by their cost in the rule, or by how many rules have them."""

    COST = "cost"
    FREQUENCY = "frequency"


@dataclass(slots=True, eq=False)
class TrieNode:
    """A stage that all `rules` below it share, by their numbers; `ends` are those whose last stage it is."""

    stage: Stage
    prune: bool = True
    rules: set[int] = field(default_factory=set)
    ends: list[int] = field(default_factory=list)
    children: dict[Hashable, TrieNode] = field(default_factory=dict)


def build_tries(
    rules: Sequence[RuleParts], organisation: Organisation, planner: GreedyHLL
) -> tuple[list[TrieNode], list[int]]:
    """The roots of the tries over the rules' pipelines, and the numbers of the rules without predicates."""
    plans = [planner.plan(rule.predicates, mirror=rule.mirror) for rule in rules]
    if organisation is Organisation.FREQUENCY:
        plans = _by_frequency(plans, planner)
    roots: dict[Hashable, TrieNode] = {}
    for number, (rule, stages) in enumerate(zip(rules, plans, strict=True)):
        level = roots
        for stage in stages:
            node = level.setdefault(_identity(stage), TrieNode(stage))
            node.rules.add(number)
            # A rule that a row satisfies with itself subtracts all such rows at the end: none may be lost on the way.
            node.prune = node.prune and rule.prunes
            level = node.children
        if stages:
            node.ends.append(number)
    return list(roots.values()), [number for number, stages in enumerate(plans) if not stages]


def _by_frequency(plans: list[tuple[Stage, ...]], planner: GreedyHLL) -> list[tuple[Stage, ...]]:
    """Order the stages of each plan by how many plans have them; those of the same number by cost.

    An IEJoin is taken apart if one of its inequalities is in more rules than the pair: that one can be shared.
    """
    frequencies: Counter[tuple[Hashable, ...]] = Counter()
    for stage in chain.from_iterable(plans):
        frequencies.update({_identity(stage), *((predicate.identity,) for predicate in stage.predicates)})

    def parts(stage: Stage) -> list[Stage]:
        n_rules = frequencies[_identity(stage)]
        if all(frequencies[(predicate.identity,)] == n_rules for predicate in stage.predicates):
            return [stage]
        return [planner.stage(predicate) for predicate in stage.predicates]

    def order(stage: Stage) -> tuple[int, tuple[int, float]]:
        return -frequencies[_identity(stage)], planner.cost(stage.predicates[0])

    return [tuple(sorted((part for stage in plan for part in parts(stage)), key=order)) for plan in plans]


def _identity(stage: Stage) -> tuple[Hashable, ...]:
    return tuple(predicate.identity for predicate in stage.predicates)


class TrieRun:
    """A trie at work: each stage keeps what it caches from one pair of sets to the next; threads may share it."""

    def __init__(self, node: TrieNode, work: RefinementWork, before: Stage | None = None) -> None:
        self._node = node
        self._work = work
        self._refinement = Refinement(node.stage, work, prune=node.prune, before=before)
        self._children = [TrieRun(child, work, node.stage) for child in node.children.values()]

    @property
    def refines_all(self) -> bool:
        return self._refinement.refines_all

    def advance(self, clusters: Clusters, totals: Counter[int]) -> list[Step]:
        """Take pairs of sets through this stage; what comes out is for the children, part by part."""
        self._work.limits.check()
        if not self._children:
            n_pairs = self._refinement.count_all(clusters)
            totals.update(dict.fromkeys(self._node.ends, n_pairs))
            return []
        if not self.refines_all:
            for pair in clusters.pairs():
                self.add_counts(pair, totals)
            return []
        refined = self._refinement.refine_all(clusters)
        totals.update(dict.fromkeys(self._node.ends, refined.n_pairs))
        return [(child, part) for part in refined.parts(_PART_ROWS) for child in self._children]

    def add_counts(self, pair: SetPair, totals: Counter[int]) -> None:
        """Push a pair of sets through, and add what comes out to the totals of the rules; last stages only count."""
        if not self._children:
            n_pairs = self._refinement.count(pair)
            for rule in self._node.ends:
                totals[rule] += n_pairs
            return
        for refined in self._refinement.refine(pair):
            for rule in self._node.ends:
                totals[rule] += refined.n_pairs
            for child in self._children:
                child.add_counts(refined, totals)

    def add_pairs(self, pair: SetPair, listings: Sequence[PairList]) -> None:
        """Push a pair of sets through, and list what comes out for each rule, until all their lists are full."""
        if self._is_done(listings):
            return
        for refined in self._refinement.refine(pair):
            for rule in self._node.ends:
                listings[rule].add(refined)
            for child in self._children:
                child.add_pairs(refined, listings)
            if self._is_done(listings):
                return

    def _is_done(self, listings: Sequence[PairList]) -> bool:
        return all(listings[rule].full for rule in self._node.rules)


Step: TypeAlias = tuple[TrieRun, Clusters]


class StepStack:
    """Steps through tries that wait for a thread. The last comes first, so that few sets are held at a time."""

    def __init__(self, steps: list[Step]) -> None:
        self.totals: Counter[int] = Counter()
        self._steps = steps
        self._n_running = 0
        self._has_failed = False
        self._changed = Condition()

    def work(self) -> None:
        """Take steps until all are done, on one of several threads."""
        while (step := self._take()) is not None:
            totals: Counter[int] = Counter()
            next_steps = None
            try:
                run, clusters = step
                next_steps = run.advance(clusters, totals)
            finally:
                self._finish(next_steps, totals)

    def _take(self) -> Step | None:
        with self._changed:
            while not self._steps and self._n_running:
                self._changed.wait()
            if not self._steps or self._has_failed:
                return None
            self._n_running += 1
            return self._steps.pop()

    def _finish(self, next_steps: list[Step] | None, totals: Counter[int]) -> None:
        """Add what a step found, and what follows it; None if it failed, after which no other step is begun."""
        with self._changed:
            self._n_running -= 1
            self.totals.update(totals)
            self._has_failed |= next_steps is None
            self._steps += reversed(next_steps or ())
            self._changed.notify_all()


def check_many(
    rules: Sequence[RuleParts],
    *,
    organisation: Organisation = Organisation.COST,
    work: RefinementWork | None = None,
    n_threads: int = 1,
) -> list[int]:
    """Count the violations of each rule; all rules are over the same rows.

    The threads share the tries, and the parts of large refinements. Every trie may spend the whole limit of words.
    """
    if not rules:
        return []
    work = work or RefinementWork()
    start = start_of(rules[0])
    runs, empty = _runs(rules, organisation, work, start, n_threads)
    # A stage that refines many pairs at once is cut into parts for all threads; the others are not, and begin first.
    stack = StepStack([(run, Clusters.of(start)) for run in sorted(runs, key=lambda run: not run.refines_all)])
    n_bytes = _n_bytes(start)
    n_fitting = work.limits.bytes_left(n_threads * n_bytes) // max(n_bytes, 1)
    n_threads = max(1, min(n_threads, n_fitting, len(runs) + len(start.left) // _PART_ROWS))
    in_turn_or_on_threads(range(n_threads), lambda _: stack.work(), n_threads)
    totals = stack.totals
    for number in empty:
        totals[number] = start.n_pairs
    return [
        totals[number] if rule.ends_reflexive else totals[number] - rule.n_diagonal for number, rule in enumerate(rules)
    ]


def list_many(
    rules: Sequence[RuleParts],
    most: int,
    *,
    organisation: Organisation = Organisation.COST,
    work: RefinementWork | None = None,
) -> list[tuple[Int64Array, Int64Array]]:
    """List at most `most` violations of each rule as (left rows, right rows); see `check_many`."""
    if not rules:
        return []
    listings = [PairList(rule.left_rows, rule.right_rows, most) for rule in rules]
    start = start_of(rules[0])
    runs, empty = _runs(rules, organisation, work or RefinementWork(), start)
    for run in runs:
        run.add_pairs(start, listings)
    for number in empty:
        listings[number].add(start)
    return [listing.pairs() for listing in listings]


def _runs(
    rules: Sequence[RuleParts], organisation: Organisation, work: RefinementWork, start: SetPair, n_threads: int = 1
) -> tuple[list[TrieRun], list[int]]:
    """Every trie, ready to run, and the numbers of the rules that have no predicate."""
    work.limits.check()
    work.limits.require_bytes(_n_bytes(start))
    planner = GreedyHLL()
    if n_threads > 1:
        planner.cardinalities.prepare(rules, n_threads)
    roots, empty = build_tries(rules, organisation, planner)
    return [TrieRun(root, replace(work)) for root in roots], empty


def _n_bytes(start: SetPair) -> int:
    """What one thread holds."""
    return _BYTES_PER_ROW * (len(start.left) + len(start.right))


def start_of(rule: RuleParts) -> SetPair:
    """The pair of sets of all pairs; CountOverflow if 64 bits cannot count them."""
    n_left, n_right = rule.left_rows.size, rule.right_rows.size
    if n_left * n_right > np.iinfo(np.int64).max:
        raise CountOverflow(f"{n_left:,} rows against {n_right:,} are more pairs than 64 bits can count")
    return all_pairs(n_left, n_right, mirror=rule.mirror)


@dataclass(frozen=True, slots=True)
class Facet:
    """The strategy "facet": the pipeline of a rule is a trie of one rule (Pena et al., PVLDB 15(4), 2022).

    `max_words` bounds the intermediate row sets, in words of 64 bits; `max_pairs` a list of violations without a
    limit; `n_bins` is BHSM's (section 6.2); `organisation` orders the predicates of several rules.
    """

    max_words: int = MAX_WORDS
    max_pairs: int = 1 << 26
    n_bins: int = N_BINS
    organisation: Organisation = Organisation.COST

    def verify(self, bound: BoundJoin) -> tuple[int, int] | None:
        """Find one violation as (left row, right row), or None if the rule holds."""
        left, right = self._list(bound, 1)
        return (int(left[0]), int(right[0])) if left.size else None

    def count(self, bound: BoundJoin) -> int:
        """Count the ordered pairs of distinct rows that break the rule."""
        n_threads = threads_for(bound.left.n_rows // _PART_ROWS)
        (n_pairs,) = check_many([parts_of_bound(bound)], work=self._work(), n_threads=n_threads)
        return n_pairs

    def count_many(self, table: Table, joins: Sequence[Join], nulls: Nulls, n_threads: int) -> list[int]:
        """Count the violations of each two-row rule, by tries."""
        parts = parts_of_joins(table, joins, nulls)
        return check_many(parts, organisation=self.organisation, work=self._work(), n_threads=n_threads)

    def violations(self, bound: BoundJoin, limit: int | None) -> PairBlock:
        """List violations, at most `limit` of them."""
        most = self.max_pairs if limit is None else limit
        # One more than asked for shows whether the list is complete.
        left, right = self._list(bound, most + 1)
        if limit is None and left.size > most:
            raise ResourceError(f"the rule has more than {most:,} violations: set a limit, or count them")
        return PairBlock(left[:most], right[:most], left.size <= most)

    def _list(self, bound: BoundJoin, most: int) -> tuple[Int64Array, Int64Array]:
        (pairs,) = list_many([parts_of_bound(bound)], most, work=self._work())
        return pairs

    def _work(self) -> RefinementWork:
        return RefinementWork(self.max_words, self.n_bins)
