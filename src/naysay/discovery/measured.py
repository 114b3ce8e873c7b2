"""The search for rules by any measure of how badly they are broken, not only by pairs: length by length, all of them.

A rule is *open* if it is not accepted and no weaker rule is (fewer vertices say less). Every rule that adds one vertex
to an open one and has only open weaker ones is measured: so each rule is measured before the longer ones that contain
it, and what is accepted is minimal: no weaker rule is accepted. That needs no monotone measure. It is exponential in
the length, so it suits short rules, the ones that people look for in dirty data.

`sweep` says how many wrong rows a table seems to have: the error to search for rules with, and why, in words.
All rules of two predicates are measured by the fewest rows to remove, once, on the table or a sample of its rows. A
rule is *clear* if that is at most half of what it would be if its two predicates had nothing to do with each other: at
least the product of what each needs alone, for a dependency the rows that repeat a value on the left times those that
do not have the commonest one on the right. Clear rules that hold need no error. Those that wrong
rows break appear one after the other as more rows may be removed, up to the share of wrong rows; beyond it come other
rules, if any, after a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil, floor, inf, log, log10, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import BoolArray, Int64Array, UInt64Array
from naysay.budget import Budget, run_all
from naysay.discovery.cover import as_fraction
from naysay.discovery.evidence import all_pairs, cpu_seconds, is_first, word_order
from naysay.discovery.outcomes import Field, FieldKind
from naysay.discovery.problem import Answer, MeasureTable, Problem, empty_answer, finish_accepted
from naysay.discovery.request import DiscoverRequest, ErrorMeasure
from naysay.discovery.vertices import VertexGroup, Vertices, edges_of, failed_by_outcome, to_int
from naysay.plan.cost import process_bytes
from naysay.rule.model import Row, Rule

# Up to this many rows all pairs are kept as bits if they fit in so many bytes; of more, a sample's are.
SQUARE_ROWS, _SQUARE_BYTES = 4096, 1 << 29
SAMPLE_ROWS = 1024
# Rows of the samples on which rules are measured before the whole table.
_STAGE_ROWS = (8_192, 65_536)
# A rule is rejected by a sample if the chance to be wrong is at most this.
_CHANCE = 1e-9
# The seconds for measuring a rule on a large table.
_SECONDS_PER_RULE = 20.0
# If comparing all pairs takes longer than this, rules are ranked by the pairs of so many rows.
_PATIENCE_SECONDS = 2.0
RANKING_ROWS, FEW_ROWS = 3000, 300
# The share of a time limit in which all pairs must be compared.
_RANKING_SHARE = 0.25
# The most rules of a length that are looked at, and the copies of each meanwhile.
_MOST_CANDIDATES, _COPIES = 50_000_000, 4
# Words of longer rules that are made, sorted and held against shorter ones in a second.
_EXTENDED_PER_SECOND = 5_000_000
# Covers times edges of a task.
_WORK_PER_TASK = 20_000_000
# Steps of the search for the fewest rows to remove for one rule: about a second.
_MAX_STEPS = 20_000
# Covers that a thread measures before it asks for more.
_COVERS_PER_TASK = 512

# With fewer rows there is nothing to tell wrong rows from chance by.
FEWEST_ROWS = 100
# The largest error that is chosen: nobody calls more rows than that exceptions.
_LARGEST = 0.1
# Rules are measured up to this share of the rows, so that the gap after the last one can be seen.
_MEASURED = 0.2
# For a clear rule at most this share of the rows must go that would have to go by chance, and chance must need at least
# this many.
_SHARE_OF_CHANCE, _FEWEST_BY_CHANCE = 0.5, 20
# A table looks dirty if this many times more clear rules are broken than hold, and at least this many are broken.
_TIMES_MORE, _FEWEST_BROKEN = 4, 5
# How many standard errors are added to a share that was measured on a sample.
_STANDARD_ERRORS = 2.0
_SHARE_OF_TIME = 0.2

# Measures covers: at most as many values as covers if it was stopped.
Evaluate = Callable[[UInt64Array], Int64Array]


@dataclass(frozen=True, slots=True)
class Square:
    """All pairs of some rows, as the bits that `kernels.covers.measured` wants."""

    satisfied: UInt64Array
    n_rows: int

    @classmethod
    def of(cls, problem: Problem, places: Int64Array, budget: Budget | None = None) -> Square | None:
        """All pairs of the rows at the given places, one of which may be given twice; None if it was stopped."""
        from naysay.kernels.covers.measured import fill_satisfied

        some, vertices, n_rows = problem.outcomes.take(places), problem.vertices, places.size
        fields = some.layout.fields
        satisfied = np.zeros((64 * vertices.n_words, n_rows, -(-n_rows // 64)), np.uint64)

        def fill(number: int, field: Field, group: VertexGroup) -> None:
            left, right = ((side[number], side[len(fields) + field.word]) for side in (some.left, some.right))
            bits = field.less, field.equal, field.missing
            fill_satisfied(left, right, bits, failed_by_outcome(field.kind), satisfied[group.first :][: group.size])

        tasks = [
            partial(fill, number, field, vertices.groups[field.place])
            for number, field in enumerate(fields)
            if field.place is not None
        ]
        return cls(satisfied, n_rows) if len(run_all(tasks, budget or problem.budget)) == len(tasks) else None

    def removed(self, covers: UInt64Array, most: int, budget: Budget) -> Int64Array:
        """The fewest rows to remove, `most` + 1 if more or not known; of the first covers only, if stopped."""
        from naysay.kernels.covers.measured import REMOVED, UNDECIDED

        values = self.measure(covers, REMOVED, most, budget)
        return np.where(values == UNDECIDED, most + 1, values)

    def measure(self, covers: UInt64Array, measure: int, most: int, budget: Budget) -> Int64Array:
        """Rows in conflict, or the fewest rows to remove, at most `most` + 1; of the first covers only, if stopped."""
        from naysay.kernels.covers.measured import measure_covers

        control = np.zeros(1, np.int64)

        def stop() -> None:
            control[0] = 1

        parts = [covers[start : start + _COVERS_PER_TASK] for start in range(0, len(covers), _COVERS_PER_TASK)]
        tasks = [partial(measure_covers, self.satisfied, part, measure, most, _MAX_STEPS, control) for part in parts]
        done: list[Int64Array] = []
        for part, values in zip(parts, run_all(tasks, budget, on_stop=stop), strict=False):
            done.append(values)
            if values.size < len(part):
                break
        return np.concatenate([np.empty(0, np.int64), *done])


@dataclass(frozen=True, slots=True)
class MeasuredCovers:
    """Covers with their values, and the least value of the rules that are weaker by one vertex."""

    covers: UInt64Array
    values: Int64Array
    weaker: Int64Array


@dataclass(slots=True)
class LevelSearch:
    """All rules whose value is at most `goal`, and no weaker rule's is; see the module."""

    problem: Problem
    evaluate: Evaluate
    goal: int
    measured: list[MeasuredCovers] = field(default_factory=list)
    # All rules of up to this many comparisons were measured.
    level: int = 0
    _open: dict[tuple[int, int], _OpenCovers] = field(default_factory=dict)

    def run(self, max_groups: int) -> bool:
        """Search for rules of up to so many comparisons; False if it was stopped."""
        vertices = self.problem.vertices
        nothing = np.zeros((1, vertices.n_words), np.uint64)
        value = self.evaluate(nothing)
        if not value.size:
            return False
        if value[0] <= self.goal:
            self.level = max_groups
            return True
        self._open = {(0, 0): _OpenCovers(nothing, value, np.full(1, -1, np.int64))}
        for n_groups in range(1, max_groups + 1):
            for size in range(n_groups, 2 * n_groups + 1):
                if not self._measure_stage(n_groups, size):
                    return False
            self.level = n_groups
            if not any(groups == n_groups for groups, _ in self._open):
                # Nothing is left to extend.
                self.level = max_groups
                return True
        return True

    def _measure_stage(self, n_groups: int, size: int) -> bool:
        """Measure the rules of so many comparisons and vertices."""
        budget = self.problem.budget
        before = [self._open.get(key) for key in ((n_groups - 1, size - 1), (n_groups, size - 1))]
        if not self._has_room(sum(len(pool.covers) for pool in before if pool is not None)):
            return False
        covers, tops = _extended(before, self.problem.vertices)
        covers, tops, weaker = _with_open_parts(covers, tops, before, self.problem.vertices)
        if not len(covers):
            return True
        budget.report("measuring rules", None, self.n_accepted)
        values, known = self._values(covers)
        covers, tops, weaker = covers[known], tops[known], weaker[known]
        self.measured.append(MeasuredCovers(covers, values, weaker))
        is_open = values > self.goal
        if is_open.any():
            self._open[n_groups, size] = _OpenCovers(covers[is_open], values[is_open], tops[is_open])
        return bool(known.all()) and not budget.stopped()

    def _has_room(self, n_open: int) -> bool:
        """Whether so many open covers can be extended; if not, the search stops and says why."""
        vertices, budget = self.problem.vertices, self.problem.budget
        n_candidates = n_open * sum(group.size for group in vertices.groups)
        if n_candidates * vertices.n_words > _EXTENDED_PER_SECOND * budget.left:
            budget.stop("time limit")
        elif n_candidates > _MOST_CANDIDATES:
            budget.stop("too many rules to measure")
        elif (
            budget.memory is not None
            and n_candidates * 8 * _COPIES * vertices.n_words > budget.memory - process_bytes()
        ):
            budget.stop("memory limit")
        return not budget.stopped()

    def _values(self, covers: UInt64Array) -> tuple[Int64Array, BoolArray]:
        """The values of covers, each pair of twins measured once, and of which covers they are: all, if not stopped."""
        one_way = self.problem.vertices.one_way(covers)
        order = word_order(one_way)
        first = is_first(one_way[order])
        number = np.empty(len(covers), np.int64)
        number[order] = np.cumsum(first) - 1
        values = self.evaluate(np.ascontiguousarray(one_way[order[first]]))
        known = number < values.size
        return values[number[known]], known

    @property
    def n_accepted(self) -> int:
        return sum(int((part.values <= self.goal).sum()) for part in self.measured)

    def accepted(self) -> UInt64Array:
        """The rules found, as covers."""
        found = [part.covers[part.values <= self.goal] for part in self.measured]
        return np.concatenate([np.empty((0, self.problem.vertices.n_words), np.uint64), *found])


@dataclass(frozen=True, slots=True)
class _OpenCovers:
    """Open covers with their values and highest vertices."""

    covers: UInt64Array
    values: Int64Array
    tops: Int64Array


def _extended(pools: list[_OpenCovers | None], vertices: Vertices) -> tuple[UInt64Array, Int64Array]:
    """The covers with one vertex more, of a new group in the first pool, of one of their own in the second.

    It is above their highest, so that each is made once. Also their highest vertices.
    """
    covers: list[UInt64Array] = [np.empty((0, vertices.n_words), np.uint64)]
    tops: list[Int64Array] = [np.empty(0, np.int64)]
    _, tables = vertices.tables()
    for group, forbidden in zip(vertices.groups, tables[:, 2:], strict=True):
        for bit in range(group.size):
            for pool, in_group in zip(pools, (False, True), strict=True):
                if pool is None:
                    continue
                chosen = vertices.chosen(pool.covers, group)
                fits = (chosen != 0) == in_group
                fits &= (pool.tops < group.first + bit) & ((forbidden[chosen] >> bit) & 1 == 0)
                longer = pool.covers[fits]
                longer[:, group.first // 64] |= np.uint64(1 << (group.first % 64 + bit))
                covers.append(longer)
                tops.append(np.full(len(longer), group.first + bit, np.int64))
    return np.concatenate(covers), np.concatenate(tops)


def _with_open_parts(
    covers: UInt64Array, tops: Int64Array, pools: list[_OpenCovers | None], vertices: Vertices
) -> tuple[UInt64Array, Int64Array, Int64Array]:
    """The covers of which all rules that are weaker by one vertex are open, and the least value of these."""
    there = [pool for pool in pools if pool is not None]
    if not there or not len(covers):
        return covers[:0], tops[:0], tops[:0]
    keys = _keys(np.concatenate([pool.covers for pool in there]))
    order = np.argsort(keys)
    keys, values = keys[order], np.concatenate([pool.values for pool in there])[order]
    weaker = np.full(len(covers), np.iinfo(np.int64).max)
    is_candidate = np.ones(len(covers), np.bool_)
    for places, parts in _weaker(covers, vertices):
        sought = _keys(parts)
        at = np.minimum(np.searchsorted(keys, sought), keys.size - 1)
        is_candidate[places] &= keys[at] == sought
        weaker[places] = np.minimum(weaker[places], values[at])
    return covers[is_candidate], tops[is_candidate], weaker[is_candidate]


def _weaker(covers: UInt64Array, vertices: Vertices) -> Iterator[tuple[Int64Array, UInt64Array]]:
    """The places of covers, and what they are without one of their vertices, vertex by vertex.

    If nulls equal each other, `<=` and `>=` together are stronger than `==`, too.
    """
    for group in vertices.groups:
        word, shift = group.first // 64, group.first % 64
        chosen = vertices.chosen(covers, group)
        for bit in range(group.size):
            yield _changed(covers, (chosen >> bit) & 1 != 0, word, 1 << (shift + bit))
        if group.kind is FieldKind.ORDER_OR_NULL:
            # Bits 0, 2 and 3 are >=, <= and ==.
            yield _changed(covers, chosen == 0b0101, word, 0b1101 << shift)


def _changed(covers: UInt64Array, which: BoolArray, word: int, bits: int) -> tuple[Int64Array, UInt64Array]:
    places = np.flatnonzero(which)
    changed = covers[places]
    changed[:, word] ^= np.uint64(bits)
    return places, changed


def _keys(covers: UInt64Array) -> NDArray[Any]:
    """Covers as single values that can be sorted and looked up."""
    if covers.shape[1] == 1:
        return covers[:, 0]
    return np.ascontiguousarray(covers.astype(">u8")).view(f"S{8 * covers.shape[1]}")[:, 0]


@dataclass(slots=True)
class RowCounter:
    """Rows in conflict with rules, or the fewest rows to remove: exact for a table that fits in a square.

    Of a larger table a sample is measured first. If k rows were enough for the table, then those of them that are in
    the sample would be enough for the sample: if many more are needed there, the rule is rejected. The others are
    measured on the whole table.
    """

    problem: Problem
    most: int
    square: Square
    most_in_square: int
    # Samples of the table and the table itself, each with the number of rows beyond which a rule is rejected.
    stages: list[tuple[MeasureTable, int]]
    n_undecided: int = 0

    @classmethod
    def of(cls, problem: Problem, measure: MeasureTable | None = None) -> RowCounter | None:
        """None if it was stopped."""
        outcomes, n_rows = problem.outcomes, problem.outcomes.n_table_rows
        most = floor(as_fraction(problem.request.error) * n_rows)
        places = np.repeat(np.arange(outcomes.n_rows), outcomes.weights)
        most_in_square = most
        if n_rows > SQUARE_ROWS or 8 * problem.vertices.n_words * n_rows**2 > _SQUARE_BYTES:
            n_drawn = min(n_rows, SAMPLE_ROWS)
            places = places[draw(n_rows, n_drawn)]
            most_in_square = most_in_sample(most, n_rows, n_drawn)
        square = Square.of(problem, places)
        if square is None:
            return None
        stages = [] if measure is None else _stages(measure, most, n_rows)
        return cls(problem, most, square, most_in_square, stages)

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.n_undecided:
            return ()
        rules = f"{self.n_undecided:,} rules" if self.n_undecided > 1 else "1 rule"
        return (f"the fewest rows to remove could not be determined for {rules}, taken as too many",)

    @property
    def is_whole(self) -> bool:
        """Whether the square holds all rows of the table."""
        return self.square.n_rows == self.problem.outcomes.n_table_rows

    def evaluate(self, covers: UInt64Array) -> Int64Array:
        """The number of rows for each cover, `most` + 1 if it is more; of the first ones only, if stopped."""
        values = self._in_square(covers)
        if self.is_whole:
            return self._decided(values)
        too_many = values > self.most_in_square
        values[too_many] = self.most + 1
        return self._on_table(covers, values, np.flatnonzero(~too_many))

    def _in_square(self, covers: UInt64Array) -> Int64Array:
        from naysay.kernels.covers.measured import CONFLICTS, REMOVED

        most, budget = self.most_in_square, self.problem.budget
        if self.problem.request.measure is ErrorMeasure.ROWS:
            return self.square.measure(covers, REMOVED, most, budget)
        values = self.square.measure(covers, CONFLICTS, most, budget)
        # A rule about single rows is broken by these, not by those that they are compared with.
        alone = np.flatnonzero(_are_one_row(covers[: values.size], self.problem.vertices))
        known = self.square.measure(covers[alone], REMOVED, most, budget)
        values[alone[: known.size]] = known
        return values if known.size == alone.size else values[: alone[known.size]]

    def _decided(self, values: Int64Array) -> Int64Array:
        from naysay.kernels.covers.measured import UNDECIDED

        self.n_undecided += int((values == UNDECIDED).sum())
        values[values == UNDECIDED] = self.most + 1
        return values

    def _on_table(self, covers: UInt64Array, values: Int64Array, places: Int64Array) -> Int64Array:
        """Measure the covers at some places on the whole table."""
        budget, vertices = self.problem.budget, self.problem.vertices
        tasks = [partial(self._measure_one, vertices.rule(to_int(covers[place]))) for place in places]
        found = run_all(tasks, budget, on_tick=lambda budget: budget.report("counting rows", None))
        values[places[: len(found)]] = found
        return self._decided(values if len(found) == len(places) else values[: places[len(found)]])

    def _measure_one(self, rule: Rule) -> int:
        from naysay.kernels.covers.measured import UNDECIDED

        by_conflicts, value = self.problem.request.measure is ErrorMeasure.CONFLICTS, UNDECIDED
        for measure, allowed in self.stages:
            known = measure.rows(rule, min(_SECONDS_PER_RULE, self.problem.budget.left))
            if known is None:
                return UNDECIDED
            in_conflict, (least, most) = known
            if (in_conflict if by_conflicts else least) > allowed:
                return self.most + 1
            value = in_conflict if by_conflicts else most
        return value if value <= self.most else UNDECIDED


def _stages(measure: MeasureTable, most: int, n_rows: int) -> list[tuple[MeasureTable, int]]:
    """Growing samples, which reject most rules sooner than the whole table, and the table."""
    sizes = [size for size in _STAGE_ROWS if 4 * size <= n_rows]
    samples = [(measure.sample(draw(n_rows, size)), most_in_sample(most, n_rows, size)) for size in sizes]
    return [*samples, (measure, most)]


def _are_one_row(covers: UInt64Array, vertices: Vertices) -> BoolArray:
    """Which covers compare columns of one row only, the same one everywhere."""
    found = np.zeros(len(covers), np.bool_)
    for row in Row:
        groups = [
            group for group in vertices.groups if {group.comparison.left.row, group.comparison.right.row} == {row}
        ]
        if groups:
            within = vertices.words([sum(group.mask for group in groups)])[0]
            found |= ((covers & ~within) == 0).all(axis=1) & covers.any(axis=1)
    return found


@dataclass(frozen=True, slots=True)
class MissCounter:
    """The pairs that break a rule, from evidence: more than `most` if it is more than that."""

    edges: UInt64Array
    counts: Int64Array
    most: int
    budget: Budget

    def evaluate(self, covers: UInt64Array) -> Int64Array:
        """The number for each cover; of the first ones only, if stopped."""
        from naysay.kernels.covers.minimal import count_missed

        # The edges with most pairs decide soonest.
        order = np.argsort(-self.counts, kind="stable")
        edges, counts = np.ascontiguousarray(self.edges[order]), self.counts[order]
        parts = _in_parts(covers, len(edges))
        found = run_all([partial(count_missed, edges, counts, part, self.most) for part in parts], self.budget)
        return np.concatenate([np.empty(0, np.int64), *found])


def _in_parts(covers: UInt64Array, n_edges: int) -> list[UInt64Array]:
    """Covers for a task each."""
    size = max(1, _WORK_PER_TASK // max(1, n_edges))
    return [np.ascontiguousarray(covers[start : start + size]) for start in range(0, len(covers), size)]


@dataclass(frozen=True, slots=True)
class PairCounter:
    """Violations per tested pair, from the evidence of all pairs: 0 if a rule is accepted, else 1."""

    problem: Problem
    edges: UInt64Array
    counts: Int64Array

    def evaluate(self, covers: UInt64Array) -> Int64Array:
        parts = _in_parts(covers, len(self.edges))
        found = run_all([partial(self._judge, part) for part in parts], self.problem.budget)
        return np.concatenate([np.empty(0, np.int64), *found])

    def _judge(self, covers: UInt64Array) -> Int64Array:
        from naysay.kernels.covers.minimal import count_near_misses

        vertices, error = self.problem.vertices, as_fraction(self.problem.request.error)
        near = count_near_misses(self.edges, self.counts, covers, *vertices.tables())
        violations = near[:, -1]
        inside = np.stack([vertices.chosen(covers, group) != 0 for group in vertices.groups], axis=1)
        fewest = np.where(inside, near[:, :-1], np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
        # A single predicate has no others that a pair could satisfy: nothing but the pairs that break it tests it.
        fewest = np.where(inside.sum(axis=1) > 1, fewest, 0)
        accepted = [
            broken * error.denominator <= error.numerator * (broken + tested)
            for broken, tested in zip(violations.tolist(), fewest.tolist(), strict=True)
        ]
        return np.where(accepted, 0, 1)


def most_in_sample(most: int, n_rows: int, n_sampled: int) -> int:
    """More than this many of `most` rows of a table are in a sample with a probability of at most _CHANCE.

    By the bound of Hoeffding (1963), which holds for drawing without replacement, too.
    """
    share = most / n_rows
    for count in range(int(share * n_sampled), min(most, n_sampled)):
        seen = (count + 1) / n_sampled
        divergence = (seen * log(seen / share) if share else inf) + (
            (1 - seen) * log((1 - seen) / (1 - share)) if seen < 1 else 0.0
        )
        if n_sampled * divergence >= -log(_CHANCE):
            return count
    return min(most, n_sampled)


def find(problem: Problem, measure: MeasureTable | None = None) -> tuple[str, Answer]:
    """All minimal rules by rows to remove, rows in conflict or violations per tested pair; and how they were found."""
    budget = problem.budget
    with budget.phase("evidence"):
        seen = _see_pairs(problem)
    if seen is None:
        return "all-pairs", empty_answer(problem, partial=True)
    if problem.request.measure is ErrorMeasure.TESTED:
        search = LevelSearch(problem, PairCounter(problem, seen.edges, seen.counts).evaluate, 0)
        return "all-pairs", _answer(problem, search, seen)
    with budget.phase("encode"):
        counter = RowCounter.of(problem, measure)
    if counter is None:
        return "all-pairs", empty_answer(problem, partial=True)
    answer = _answer(problem, LevelSearch(problem, counter.evaluate, counter.most), seen)
    return "all-pairs" if counter.is_whole else "selective", replace(answer, notes=counter.notes)


def _see_pairs(problem: Problem) -> Answer | None:
    """The evidence that the rules are ranked by, without rules: of all pairs, or if that takes long, of a sample's."""
    outcomes, budget, n_sampled = problem.outcomes, problem.budget, None
    if problem.request.measure is ErrorMeasure.TESTED:
        evidence = all_pairs(outcomes, budget)
    else:
        seconds = cpu_seconds(outcomes, budget.threads)
        evidence = all_pairs(outcomes, budget.part(_RANKING_SHARE)) if seconds <= _PATIENCE_SECONDS else None
        if evidence is None:
            n_sampled = problem.rows_in_time(FEW_ROWS if budget.is_limited else RANKING_ROWS)
            outcomes = outcomes.take(draw(outcomes.n_rows, n_sampled))
            evidence = all_pairs(outcomes, budget)
    if evidence is None:
        return None
    edges, counts = edges_of(evidence, outcomes.layout, problem.vertices)
    return replace(empty_answer(problem, partial=True), edges=edges, counts=counts, n_sampled=n_sampled)


def _answer(problem: Problem, search: LevelSearch, seen: Answer) -> Answer:
    with problem.budget.phase("covers"):
        complete = search.run(problem.most_groups)
        rules, are_all = finish_accepted(problem, search.accepted())
    limit, level = problem.limit, search.level if are_all else 0
    if len(rules) > limit:
        level = min(level, int(problem.vertices.n_predicates(rules[limit : limit + 1])[0]) - 1)
    is_partial = not (complete and are_all) or len(rules) > limit
    return replace(seen, covers=rules[:limit], partial=is_partial, complete_up_to=level)


def draw(n_rows: int, n_drawn: int) -> Int64Array:
    """Rows drawn at random, ascending; always the same ones."""
    return np.sort(np.random.default_rng(0).choice(n_rows, n_drawn, replace=False))


def pairs_of_rows(request: DiscoverRequest, n_rows: int) -> float:
    """The largest fraction of all pairs that can break a rule which is accepted by rows."""
    most = floor(as_fraction(request.error) * n_rows)
    n_pairs = most * (most - 1) if request.measure is ErrorMeasure.CONFLICTS else most * (2 * n_rows - most - 1)
    return min(1.0, n_pairs / max(1, n_rows * (n_rows - 1)))


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What a look at a table says about its wrong rows.

    `broken` are the shares of rows that break clear rules, ascending, up to the elbow; `following` is the next one
    after the gap, None if none was seen.
    """

    n_rows: int
    n_holding: int
    broken: tuple[float, ...]
    following: float | None
    error: float

    @property
    def looks_dirty(self) -> bool:
        return len(self.broken) >= max(_FEWEST_BROKEN, _TIMES_MORE * self.n_holding)

    @property
    def words(self) -> str:
        """Why this error was chosen."""
        if not self.broken:
            return "no rule of two predicates is broken by only a few rows, so rules that hold exactly are shown"
        then = "and there are no others up to" if self.following is None else "then the next one is broken by"
        return (
            "of the rules of two predicates that are unlikely to be coincidences, "
            f"{_verb(self.n_holding, 'holds', 'hold')} for all rows and {_verb(len(self.broken), 'is', 'are')} "
            f"broken by a few: such rules appear steadily up to {percent(self.broken[-1])} of the rows, {then} "
            f"{percent(self.following or _MEASURED)}"
        )


def sweep(problem: Problem) -> SweepResult | None:
    """Look at a table, or a sample of it; None if there was no time."""
    outcomes = problem.outcomes
    places = np.repeat(np.arange(outcomes.n_rows), outcomes.weights)
    if places.size > SAMPLE_ROWS:
        places = places[draw(places.size, SAMPLE_ROWS)]
    budget = problem.budget.part(_SHARE_OF_TIME)
    square = Square.of(problem, places, budget)
    if square is None:
        return None
    n_rows, most = square.n_rows, int(_MEASURED * square.n_rows)

    def evaluate(covers: UInt64Array) -> Int64Array:
        is_short = len(covers) and problem.vertices.n_groups(covers).max() <= 1
        return square.removed(covers, n_rows if is_short else most, budget)

    # Only the look is over if there are too many rules to measure.
    search = LevelSearch(replace(problem, budget=budget), evaluate, 0)
    if not search.run(2) and budget.stopped():
        return None
    return _of_values(_clear_values(problem, search, n_rows, most), n_rows, outcomes.n_table_rows)


def _clear_values(problem: Problem, search: LevelSearch, n_rows: int, most: int) -> Int64Array:
    """The rows to remove for each clear rule, ascending."""
    vertices = problem.vertices
    covers = np.concatenate([part.covers for part in search.measured])
    values = np.concatenate([part.values for part in search.measured])
    weaker = np.concatenate([part.weaker for part in search.measured])
    n_groups = vertices.n_groups(covers)
    # What each rule of one comparison needs, by group and choice of its vertices.
    alone = np.full((len(vertices.groups), 16), n_rows, np.int64)
    chance = np.ones(len(covers))
    for number, group in enumerate(vertices.groups):
        chosen = vertices.chosen(covers, group)
        single = (n_groups == 1) & (chosen != 0)
        alone[number, chosen[single]] = np.minimum(values[single], n_rows)
        chance *= np.where(chosen != 0, alone[number, chosen] / n_rows, 1.0)
    is_clear = (n_groups == 2) & (values <= most) & (values < weaker)
    is_clear &= (chance * n_rows >= _FEWEST_BY_CHANCE) & (values <= _SHARE_OF_CHANCE * chance * n_rows)
    one_way = vertices.one_way(covers[is_clear])
    _, first = np.unique(one_way, axis=0, return_index=True)
    return np.sort(values[is_clear][first])


def _of_values(values: Int64Array, n_rows: int, n_table_rows: int) -> SweepResult:
    """Find the elbow: after it comes the largest gap, as a ratio, for the number of rules before it."""
    n_holding = int((values == 0).sum())
    shares = values[n_holding:] / n_rows
    n_small = int((shares <= _LARGEST).sum())
    if not n_small:
        return SweepResult(n_table_rows, n_holding, (), None, 0.0)
    ends = np.append(shares, _MEASURED)
    elbow = int(np.argmax(np.log(ends[1:] / ends[:-1])[:n_small] * np.arange(1, n_small + 1)))
    largest = float(shares[elbow])
    following = float(shares[elbow + 1]) if elbow + 1 < shares.size else None
    margin = _STANDARD_ERRORS * sqrt(largest / n_rows) if n_rows < n_table_rows else 0.0
    error = _round_between(largest + margin, max(largest + margin, (largest + float(ends[elbow + 1])) / 2))
    return SweepResult(n_table_rows, n_holding, tuple(shares[: elbow + 1].tolist()), following, error)


def _round_between(least: float, most: float) -> float:
    """A number with few digits from `least` up, not above `most` if two digits will do."""
    for n_digits in (1, 2):
        unit = 10.0 ** (floor(log10(least)) + 1 - n_digits)
        rounded = round(ceil(round(least / unit, 9)) * unit, 12)
        if rounded <= most or n_digits == 2:
            break
    return min(rounded, 0.5)


def _verb(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def percent(share: float) -> str:
    return f"{100 * share:.2g}%"
