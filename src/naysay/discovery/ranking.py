"""Which of many true rules a person should look at: how well each was tested by the data that obeys it.

Most minimal rules are true by accident: no pair happens to satisfy all their predicates because few were expected
to (Martin et al., PVLDB 2025, find more than 95 %). The test, from the multiplicities of the evidence only:

For a predicate p of a rule, let m of all N ordered pairs satisfy its other predicates, and let a fraction f satisfy
p. If p's columns had nothing to do with the others (shuffle them among the rows), m * f pairs would be expected to
break the rule; v do. Pairs that share a row are not independent, so only disjoint pairs are counted: m / 2
unordered pairs in which a row meets at most d others hold at least k = m / 2 / (2 d - 1) that are disjoint. The
chance that none of them satisfies p is (1 - f)^k; if v pairs break the rule, the Chernoff bound of the binomial
tail. Shuffling p against the others is shuffling the others against p, so the same bound holds with the roles
exchanged (f * N pairs, each breaking the rule with probability m / N), and the better of the two is taken.

A rule is as good as the predicate for which that chance is largest ("productive" in the sense of Webb, Discovering
Significant Patterns, Machine Learning 68, 2007), and is held against the number of rules of its length that the
space could have offered, layer by layer (Webb, Layered Critical Values, Machine Learning 71, 2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log

import numpy as np

from naysay.arrays import BoolArray, Float64Array, Int32Array, Int64Array, UInt64Array
from naysay.budget import Budget
from naysay.discovery.outcomes import FieldKind, Outcomes
from naysay.discovery.problem import Answer, Problem
from naysay.discovery.result import Finding, Rules, Tested
from naysay.discovery.vertices import Vertices, to_int
from naysay.rule import RuleKind, kind

SIGNIFICANCE = 0.05
# A rule of one predicate has no others to be independent of: it is tested as if every second pair satisfied it.
_ALONE = 0.5
# Ranking looks at the shortest rules, as many as it can hold against the evidence in about a second.
_WORK = 400_000_000
# Once time is up: as many as take a tenth of that.
_WORK_WHEN_STOPPED = 40_000_000
_LEAST, _MOST = 160, 5_000
# The short list has room for each kind of rule.
_ROOM = {RuleKind.KEY: 6, RuleKind.DEPENDENCY: 8, RuleKind.ORDER: 8, RuleKind.ONE_ROW: 4, RuleKind.OTHER: 6}


@dataclass(frozen=True, slots=True)
class Ranker:
    """Tests rules on the evidence of a table: edges with counts, and how many rows share a value at most.

    `max_equal` holds for each group of vertices the most rows that one row may meet in an equality of it. Counts
    that come from a sample are multiplied by `scale`.
    """

    vertices: Vertices
    edges: UInt64Array
    counts: Int64Array
    n_rows: int
    max_equal: tuple[int, ...]
    scale: float = 1.0

    def best(self, rules: Rules, n_wanted: int) -> tuple[Finding, ...]:
        """The best of the shortest rules, best first. O(rules * evidence), for about a second."""
        return self.rank(rules, n_wanted)[0]

    def rank(self, rules: Rules, n_wanted: int, budget: Budget | None = None) -> tuple[tuple[Finding, ...], int]:
        """The best of the shortest rules, best first, and of how many; as many as wanted even after a stop."""
        if not len(rules):
            return (), 0
        n_edges = max(1, len(self.edges))
        n_ranked = max(_LEAST, 2 * n_wanted, min(_MOST, _WORK // n_edges))
        if budget is not None and budget.stopped():
            n_ranked = max(n_wanted, min(n_ranked, _WORK_WHEN_STOPPED // n_edges))
        results = self._test_in_time(rules.covers[:n_ranked], n_wanted, budget)
        candidates = rules.covers[: len(results.surprise)]
        # True by accident last, then short ones, then surprising ones.
        order = np.lexsort((-results.surprise, self.vertices.n_predicates(candidates), results.by_accident)).tolist()
        chosen = _short_list(order, candidates, self.vertices, n_wanted)
        return tuple(_finding(rules, results, place) for place in chosen), len(candidates)

    def _test_in_time(self, covers: UInt64Array, n_wanted: int, budget: Budget | None) -> Results:
        """Test the first of some rules: at least as many as wanted, the others as long as there is time."""
        size = max(n_wanted, _WORK_WHEN_STOPPED // max(1, len(self.edges)))
        parts: list[Results] = []
        for start in range(0, len(covers), size):
            if start and budget is not None:
                budget.report("ranking", start / len(covers), len(covers))
                if budget.stopped():
                    break
            parts.append(self.test(np.ascontiguousarray(covers[start : start + size])))
        return _joined(parts)

    def test(self, covers: UInt64Array) -> Results:
        """Test rules on the evidence. O(covers * edges)."""
        from naysay.kernels.covers.minimal import count_near_misses

        counts = count_near_misses(self.edges, self.counts, covers, *self.vertices.tables())
        if self.scale != 1.0:
            counts = np.rint(counts * self.scale).astype(np.int64)
        near, violations = counts[:, :-1], counts[:, -1]
        chosen = np.stack([self.vertices.chosen(covers, group) for group in self.vertices.groups], axis=1)
        inside = chosen != 0
        n_inside = inside.sum(axis=1)
        fraction = np.where((n_inside > 1)[:, None], self._fractions(chosen), _ALONE)
        n_others = (near + violations[:, None]).astype(np.float64)
        own_degree, other_degree = self._degrees(chosen)
        chance = _log_chance(n_others, violations[:, None], fraction, other_degree)
        n_pairs = max(1, self.n_rows * (self.n_rows - 1))
        turned = _log_chance(np.rint(fraction * n_pairs), violations[:, None], n_others / n_pairs, own_degree)
        chance = np.where((n_inside > 1)[:, None], np.minimum(chance, turned), chance)
        worst = np.where(inside, chance, -inf).max(axis=1, initial=-inf)
        surprise = -np.where(n_inside > 0, worst, 0.0) - np.array(_log_layers(self.vertices))[n_inside]
        return Results(near, violations, surprise, inside, exact=self.scale == 1.0)

    def _fractions(self, chosen: Int64Array) -> Float64Array:
        """For each rule and comparison the fraction of all pairs that satisfy what the rule says of it."""
        total = max(1, int(self.counts.sum()))
        fractions = np.ones(chosen.shape)
        for number, group in enumerate(self.vertices.groups):
            if not chosen[:, number].any():
                continue
            failed = self.edges[:, group.first // 64] >> np.uint64(group.first % 64)
            known = np.ones(16)
            for choice in np.unique(chosen[chosen[:, number] > 0, number]).tolist():
                satisfied = (failed & np.uint64(choice)) == 0
                known[choice] = float(self.counts[satisfied].sum()) / total
            fractions[:, number] = known[chosen[:, number]]
        return fractions

    def _degrees(self, chosen: Int64Array) -> tuple[Float64Array, Float64Array]:
        """The most rows that one row can meet: in pairs that satisfy one predicate of a rule, and all its others."""
        groups = self.vertices.groups
        any_number = float(max(1, self.n_rows - 1))
        own = np.full(chosen.shape, any_number)
        for number, group in enumerate(groups):
            equal = [choice for choice in range(1, 1 << group.size) if group.says_equal(choice)]
            own[np.isin(chosen[:, number], equal), number] = max(1, self.max_equal[number])
        own = np.minimum(own, any_number)
        least, second = np.sort(np.concatenate([own, np.full((len(own), 2), any_number)], axis=1), axis=1)[:, :2].T
        # The least of all others is the least of all, unless that is one's own.
        others = np.where(own == least[:, None], second[:, None], least[:, None])
        return own, others


@dataclass(frozen=True, slots=True)
class Results:
    """How the data tested rules: `Tested` for each, as arrays. `inside[k, g]`: rule k has a predicate in group g."""

    near: Int64Array
    violations: Int64Array
    surprise: Float64Array
    inside: BoolArray
    exact: bool

    @property
    def by_accident(self) -> BoolArray:
        accident: BoolArray = self.surprise < -log(SIGNIFICANCE)
        return accident

    def at(self, place: int) -> Tested:
        near = tuple(int(count) for count in self.near[place, self.inside[place]])
        surprise = float(self.surprise[place])
        return Tested(near, int(self.violations[place]), surprise, surprise < -log(SIGNIFICANCE), self.exact)


def _joined(parts: list[Results]) -> Results:
    near, violations, surprise, inside = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("near", "violations", "surprise", "inside")
    )
    return Results(near, violations, surprise, inside, parts[0].exact)


def _log_chance(
    n_others: Float64Array, violations: Int64Array, fraction: Float64Array, degree: Float64Array
) -> Float64Array:
    """The logarithm of the chance that at most that few of the disjoint pairs satisfy the predicate."""
    n_disjoint = n_others / 2 / (2 * degree - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = np.where(n_others > 0, violations / np.maximum(n_others, 1), 0.0)
        divergence = (1 - observed) * np.log((1 - observed) / (1 - fraction))
        divergence += np.where(observed > 0, observed * np.log(observed / fraction), 0.0)
        chance = np.where(observed >= fraction, 0.0, -n_disjoint * divergence)
    certain = np.where((n_disjoint > 0) & (violations == 0), -inf, 0.0)
    found: Float64Array = np.where(fraction >= 1.0, certain, chance)
    return found


def _log_layers(vertices: Vertices) -> list[float]:
    """For each number of predicates the logarithm of how many rules of that length the space has, times all lengths."""
    n_of_length = [1.0] + [0.0] * len(vertices.groups)
    for group in vertices.groups:
        n_ops = len(group.comparison.ops)
        for length in range(len(n_of_length) - 1, 0, -1):
            n_of_length[length] = min(n_of_length[length] + n_ops * n_of_length[length - 1], exp(600))
    n_lengths = max(1, len(vertices.groups))
    return [log(max(1.0, n_rules)) + log(n_lengths) for n_rules in n_of_length]


def _short_list(order: list[int], covers: UInt64Array, vertices: Vertices, n_wanted: int) -> list[int]:
    """The first of a ranking, with room for each kind of rule; what room is left goes to the next best."""
    room = dict(_ROOM)
    taken: list[int] = []
    passed: list[int] = []
    for place in order:
        if len(taken) == n_wanted or len(passed) >= 16 * n_wanted:
            break
        of_kind = kind(vertices.rule(to_int(covers[place])))
        if room[of_kind] > 0:
            room[of_kind] -= 1
            taken.append(place)
        else:
            passed.append(place)
    taken += passed[: n_wanted - len(taken)]
    position = {place: number for number, place in enumerate(order)}
    return sorted(taken, key=lambda place: position[place])


def _finding(rules: Rules, results: Results, place: int) -> Finding:
    tested = results.at(place)
    return Finding(rules[place], tested) if tested.violations else Finding(rules[place], tested, 0, (0, 0))


def ranker_of(answer: Answer, problem: Problem) -> Ranker:
    return make_ranker(answer, problem, _max_equal(problem.outcomes, problem.vertices))


def make_ranker(answer: Answer, problem: Problem, max_equal: tuple[int, ...]) -> Ranker:
    """A ranker on the evidence of an answer; counts of a sample are scaled to those of all pairs."""
    n_rows, n_sampled, scale = problem.outcomes.n_table_rows, answer.n_sampled, 1.0
    if n_sampled is not None and n_sampled >= 2:
        scale = n_rows * (n_rows - 1) / (n_sampled * (n_sampled - 1))
    return Ranker(problem.vertices, answer.edges, answer.counts, n_rows, max_equal, scale)


def _max_equal(outcomes: Outcomes, vertices: Vertices) -> tuple[int, ...]:
    """For each group the most rows that one row can equal in it, as far as its columns tell."""
    n_rows = outcomes.n_table_rows
    most = [n_rows] * len(vertices.groups)
    for number, field in enumerate(outcomes.layout.fields):
        if field.place is not None and not field.comparison.within_row:
            left = _largest(outcomes.left, number, outcomes)
            right = _largest(outcomes.right, number, outcomes) if field.comparison.across else 0
            most[field.place] = left + right
    return tuple(most)


def _largest(side: Int32Array, number: int, outcomes: Outcomes) -> int:
    """The most rows that share a value of a field's column; null is a value if nulls equal each other."""
    field, n_fields = outcomes.layout.fields[number], len(outcomes.layout.fields)
    values, weights = side[number], outcomes.weights
    if field.missing and field.kind is not FieldKind.ORDER_OR_NULL:
        valid = (side[n_fields + field.word] & field.missing) == 0
        values, weights = values[valid], weights[valid]
    return int(np.bincount(values, weights=weights).max()) if values.size else 0
