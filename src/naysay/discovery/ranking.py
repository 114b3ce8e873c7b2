"""Which of many true rules a person should look at: how well each was tested by the data, and what it adds to others.

Most minimal rules are true by accident: no pair happens to satisfy all their predicates because few were expected to
(Martin et al., PVLDB 2025, find more than 95 %). The test, from the multiplicities of the evidence only:

For a predicate p of a rule, let m of the N ordered pairs that p can compare satisfy the rule's other predicates, and
let a fraction f of the N satisfy p. (A pair that is incomparable because of a null tests nothing.) If p's columns had
nothing to do with the others (shuffle them among the rows), m * f pairs would be expected to break the rule; v do.
Pairs that share a row are not independent, so only disjoint pairs are counted: m / 2 unordered pairs in which a row
meets at most d others can be dealt out to d + 1 sets of disjoint pairs (Vizing's theorem), so that k = m / 2 / (d +
1) are disjoint. The chance that none of them satisfies p is (1 - f)^k; if v pairs break the rule, the Chernoff bound
of the binomial tail. Shuffling p against the others is shuffling the others against p, so the same bound holds with
the roles exchanged (f * N pairs, each breaking the rule with probability m / N), and the better of the two is taken.
For keys and dependencies the rows themselves give a sharper test: see `support`.

A rule is as good as the predicate for which that chance is largest ("productive" in the sense of Webb, Discovering
Significant Patterns, Machine Learning 68, 2007), and is held against the number of rules of its length that the space
could have offered, layer by layer (Webb, Layered Critical Values, Machine Learning 71, 2008).

The short list holds the rules that pass, without those that follow from others in it (see `shortlist`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, exp, inf, log

import numpy as np

from naysay.arrays import BoolArray, Float64Array, Int32Array, Int64Array, UInt64Array
from naysay.budget import Budget
from naysay.discovery.outcomes import FieldKind, Outcomes
from naysay.discovery.problem import Answer, Problem
from naysay.discovery.result import Finding, Rules, Tested, untested_note
from naysay.discovery.shortlist import Candidates, Decisions, Implication, short_list
from naysay.discovery.space import comes_first
from naysay.discovery.support import Entities, Fact, Rows
from naysay.discovery.vertices import Vertices
from naysay.errors import UsageError
from naysay.rule import canonical, render, simplify
from naysay.rule.model import Nulls, Op, Rule, Status

# Says how many ordered pairs break a rule; None if there is no time for it.
CountPairs = Callable[[Rule], int | None]

SIGNIFICANCE = 0.05
# Rows whose values are counted at once.
_COUNTED_ROWS = 1 << 20
# A rule of one predicate has no others to be independent of: it is tested as if every second pair satisfied it.
_ALONE = 0.5
# Ranking looks at the shortest rules, as many as it can hold against the evidence in about a second.
_WORK = 400_000_000
# Once time is up: as many as take a tenth of that.
_WORK_WHEN_STOPPED = 40_000_000
_LEAST, _MOST = 160, 5_000
# A rule is not listed if more than this share of the rows must go, or of the pairs that tested it break it.
MOST_EXCEPTIONS = 0.05
# A column of which more than this share of the pairs are incomparable does not make other rules redundant.
_MOSTLY_NULL = 0.5
# Keys and dependencies that are tested on the rows: as many as make so many rows in all, within these numbers.
_ROW_WORK, _LEAST_FACTS, _MOST_FACTS = 3_000_000, 40, 400


@dataclass(frozen=True, slots=True)
class Ranker:
    """Tests rules on the evidence of a table: edges with counts, and how many rows share a value at most.

    `max_equal` holds for each group of vertices the most rows that one row may meet in an equality of it. Counts
    that come from a sample are multiplied by `scale`. With `rows`, keys and dependencies are tested on these. `same_as`
    names, for columns that equal another one in every row, the first such column. `nullable` are the comparisons that
    may be incomparable. `given` are rules that a person decided about, with their covers, if the space has them.
    """

    vertices: Vertices
    edges: UInt64Array
    counts: Int64Array
    n_rows: int
    max_equal: tuple[int, ...]
    scale: float = 1.0
    rows: Rows | None = None
    same_as: Mapping[str, str] = field(default_factory=dict)
    nullable: frozenset[int] = frozenset()
    given: tuple[tuple[Rule, UInt64Array | None], ...] = ()
    nulls: Nulls = Nulls.SQL
    # What was computed once: the comparable pairs of each comparison, and the pairs that satisfy some of its vertices.
    _known: dict[tuple[int, int], float] = field(default_factory=dict, repr=False, compare=False)

    def best(self, rules: Rules, n_wanted: int) -> tuple[Finding, ...]:
        """The best of the shortest rules, best first: the short list, then others. O(rules * evidence)."""
        return self.rank(rules, n_wanted, fill=True)[0]

    def rank(
        self, rules: Rules, n_wanted: int, budget: Budget | None = None, *, fill: bool = False
    ) -> tuple[tuple[Finding, ...], int]:
        """The short list of the shortest rules, best first, and of how many; `fill` adds others, as many as wanted."""
        if not len(rules):
            return (), 0
        n_edges = max(1, len(self.edges))
        n_ranked = max(_LEAST, 2 * n_wanted, min(_MOST, _WORK // n_edges))
        if budget is not None and budget.stopped():
            n_ranked = max(n_wanted, min(n_ranked, _WORK_WHEN_STOPPED // (n_edges * self.vertices.n_words)))
        results = self._test_in_time(rules.covers[:n_ranked], n_wanted, budget)
        covers = rules.covers[: len(results.surprise)]
        facts = self._facts(covers)
        behind: dict[int, tuple[int, ...]] = {}
        if self.rows is not None:
            results, behind = self._test_on_rows(results, facts, budget)
        chosen = short_list(self._candidates(covers, results, facts, behind), n_wanted, fill=fill)
        findings = tuple(
            replace(
                _finding(rules[entry.place], results, entry.place, self.n_rows),
                also=tuple(rules[place] for place in entry.also),
            )
            for entry in chosen
        )
        return findings, len(covers)

    def reasons(self, rule: Rule, given: Sequence[Rule]) -> list[int]:
        """The numbers of some rules from which a rule follows, as few as possible; none if it does not follow.

        In every table that has nulls only where this one has some.
        """
        implication = Implication(self.vertices, self.nullable)
        (cover,) = self.vertices.words([self.vertices.cover(rule)])
        covers = ((number, cover_of(each, self.vertices, self.nulls)) for number, each in enumerate(given))
        fitting = [(number, implication.boxes(each)) for number, each in covers if each is not None]
        found = implication.reasons(cover, [boxes for _, boxes in fitting]) or []
        return [fitting[place][0] for place in found]

    def _decisions(self, implication: Implication) -> Decisions:
        """What a person decided; a rejected rule that follows from accepted ones rejects nothing else."""
        accepted = tuple(box for cover in self._covers(Status.ACCEPTED) for box in implication.boxes(cover))
        rejected = self._covers(Status.REJECTED)
        return Decisions(accepted, tuple(cover for cover in rejected if not implication.follows(cover, accepted)))

    def _covers(self, status: Status) -> list[UInt64Array]:
        return [cover for rule, cover in self.given if rule.status is status and cover is not None]

    def with_pending(self, listed: Sequence[Finding], count: CountPairs) -> tuple[tuple[Finding, ...], list[str]]:
        """The list with pending rules first, whether they hold or not, and a note for each that could not be tested.

        Without those that follow from accepted ones. `count` says how many pairs break a rule if the evidence, which
        may be that of a sample, does not.
        """
        asked = {canonical(rule) for rule, _ in self.given if rule.status is Status.PENDING}
        known = [finding for finding in listed if canonical(finding.rule) in asked]
        others, notes = self._test_pending({canonical(finding.rule) for finding in known}, count)
        return (*known, *others, *(finding for finding in listed if finding not in known)), notes

    def _test_pending(self, known: set[Rule], count: CountPairs) -> tuple[list[Finding], list[str]]:
        """The pending rules that are not known, tested."""
        implication = Implication(self.vertices, self._often_null(_MOSTLY_NULL))
        accepted = self._decisions(implication).accepted
        chosen = [
            (rule, cover)
            for rule, cover in self.given
            if rule.status is Status.PENDING and cover is not None and canonical(rule) not in known
            if not implication.follows(cover, accepted)
        ]
        if not chosen:
            return [], []
        covers = np.array([cover for _, cover in chosen], np.uint64)
        facts, results, sees_all = self._facts(covers), self.test(covers), self._sees_all
        counts = [int(results.violations[place]) if sees_all else count(rule) for place, (rule, _) in enumerate(chosen)]
        results.violations[:] = [n_pairs or 0 for n_pairs in counts]
        if self.rows is not None:
            results, _ = self._test_on_rows(results, facts, None)
        often = results.often_broken([] if self.rows is None else facts)
        findings, notes = [], []
        for place, (rule, _) in enumerate(chosen):
            if counts[place] is None:
                notes.append(f"pending: {render(rule, short=True)} is not tested: there was no time; use naysay check")
            else:
                finding = _finding(rule, results, place, self.n_rows)
                findings.append(replace(finding, often_broken=bool(often[place])))
        return findings, notes

    @property
    def _sees_all(self) -> bool:
        """Whether the evidence is that of all pairs."""
        return int(self.counts.sum()) == self.n_rows * (self.n_rows - 1)

    def nearly_ordered(self) -> list[str]:
        """Notes on columns of one row whose names say which comes first, but a few rows do not."""
        notes = []
        for number, group in enumerate(self.vertices.groups):
            after = group.vertices_of(Op.GT) if group.comparison.within_row else None
            first, second = group.comparison.left.name, group.comparison.right.name
            if after is None or not self._sees_all or not comes_first(first, second):
                continue
            n_rows = round(self._pairs_with(number, after >> group.first) / max(1, self.n_rows - 1))
            if 0 < n_rows <= MOST_EXCEPTIONS * self.n_rows:
                rows = f"{n_rows:,} of {self.n_rows:,} rows"
                notes.append(f"{first} is after {second} in only {rows}; error='auto' (--error auto) finds such rules")
        return notes

    @property
    def decision_notes(self) -> list[str]:
        """What was done with the rules that a person decided about."""
        implication = Implication(self.vertices, self._often_null(_MOSTLY_NULL))
        accepted = self._decisions(implication).accepted
        count = Counter(rule.status for rule, _ in self.given)
        notes = []
        if count[Status.ACCEPTED]:
            notes.append(f"{_rules(count[Status.ACCEPTED], 'accepted')} taken as given: what follows is not listed")
        if count[Status.REJECTED]:
            rejected = _rules(count[Status.REJECTED], "rejected")
            notes.append(f"{rejected} not listed, nor is what would imply a rejected rule")
        for rule, cover in self.given:
            if cover is None and rule.status is Status.PENDING:
                notes.append(untested_note(rule))
            elif cover is None:
                continue
            elif rule.status is not Status.ACCEPTED and implication.follows(cover, accepted):
                remedy = "accept or remove it" if rule.status is Status.PENDING else "one of the decisions is wrong"
                notes.append(f"{rule.status.value}: {render(rule, short=True)} follows from accepted rules; {remedy}")
        return notes

    def _often_null(self, share: float) -> list[int]:
        """The comparisons of which more than a share of the pairs are incomparable."""
        total = max(1, int(self.counts.sum()))
        return [number for number, n_pairs in enumerate(self._comparable_pairs()) if total - n_pairs > share * total]

    def _candidates(
        self, covers: UInt64Array, results: Results, facts: dict[int, Fact], behind: dict[int, tuple[int, ...]]
    ) -> Candidates:
        vertices = self.vertices
        implication = Implication(vertices, self._often_null(_MOSTLY_NULL))
        return Candidates(
            covers=covers,
            vertices=vertices,
            n_predicates=vertices.n_predicates(covers),
            surprise=results.surprise,
            by_accident=results.by_accident,
            often_broken=results.often_broken([] if self.rows is None else facts),
            is_vacuous=results.is_vacuous,
            removed=results.removed,
            facts=facts,
            behind=behind,
            implication=implication,
            decisions=self._decisions(implication),
            same_as=self.same_as,
            n_values={} if self.rows is None else {column: self.rows.n_groups((column,)) for column in self.rows.codes},
        )

    def _facts(self, covers: UInt64Array) -> dict[int, Fact]:
        """The keys, dependencies and constants among some covers, by their places."""
        equal, differ = np.zeros((2, len(covers), len(self.vertices.groups)), np.bool_)
        plain = np.ones(len(covers), np.bool_)
        for number, group in enumerate(self.vertices.groups):
            chosen = self.vertices.chosen(covers, group)
            if group.comparison.across or group.comparison.within_row:
                plain &= chosen == 0
                continue
            for found, op in ((equal, Op.EQ), (differ, Op.NE)):
                wanted = group.vertices_of(op)
                assert wanted is not None
                found[:, number] = chosen == wanted >> group.first
            plain &= (chosen == 0) | equal[:, number] | differ[:, number]
        places = np.flatnonzero(plain & (differ.sum(axis=1) <= 1)).tolist()
        return {
            place: Fact(
                tuple(np.flatnonzero(equal[place]).tolist()), next(iter(np.flatnonzero(differ[place]).tolist()), None)
            )
            for place in places
        }

    def _test_on_rows(
        self, results: Results, facts: dict[int, Fact], budget: Budget | None
    ) -> tuple[Results, dict[int, tuple[int, ...]]]:
        """Test keys of several columns and dependencies on the rows; and all rules on the things that rows repeat.

        Also returns, for dependencies that only restate something about such a thing, the columns that identify it.
        """
        rows = self.rows
        assert rows is not None
        layers = np.array(_log_layers(self.vertices))[results.inside.sum(axis=1)]
        most = min(_MOST_FACTS, max(_LEAST_FACTS, _ROW_WORK // max(1, rows.n_rows)))
        tried = [
            place
            for place, fact in facts.items()
            if rows.knows(fact)
            and len(fact.columns) > 1
            and not (results.exact[place] and results.is_hopeless(place, fact, layers[place], rows.n_rows))
        ][:most]
        results = results.copy()
        for place, fact in facts.items():
            if results.violations[place] and rows.knows(fact) and not (budget is not None and budget.stopped()):
                results.removed[place] = rows.share_to_remove(fact)
        tested = []
        for place in tried:
            if budget is not None and budget.stopped():
                break
            tested.append(place)
            exact = bool(results.exact[place])
            found = rows.test(facts[place], int(results.violations[place]), count=not exact)
            results.surprise[place] = found.surprise - layers[place]
            if found.near is not None:
                results.near[place, results.inside[place]] = found.near
                results.exact[place] = True
        sure = [place for place in tested if not results.by_accident[place]]
        entities = Entities.of(rows, [facts[place] for place in sure if facts[place].right is not None])
        behind: dict[int, tuple[int, ...]] = {}
        for place in sure:
            entity = entities.behind(facts[place].columns, facts[place].left)
            if entity is not None and facts[place].right is not None:
                found = rows.test(facts[place], int(results.violations[place]), entity)
                results.surprise[place] = min(results.surprise[place], found.surprise - layers[place])
                if results.by_accident[place]:
                    behind[place] = entity
        self._count_things(results, set(tested), entities, layers, behind)
        return results, behind

    def _count_things(
        self,
        results: Results,
        tested: set[int],
        entities: Entities,
        layers: Float64Array,
        behind: dict[int, tuple[int, ...]],
    ) -> None:
        """For the other rules: as many independent pairs as there are different things in the rows."""
        known: dict[bytes, tuple[int, ...] | None] = {}
        for place in np.flatnonzero(~results.by_accident).tolist():
            if place in tested:
                continue
            key = results.inside[place].tobytes()
            if key not in known:
                known[key] = self._entity_of(results.inside[place], entities)
            entity = known[key]
            if entity is not None:
                share = entities.sizes[entity] / entities.rows.n_rows
                results.surprise[place] = (results.surprise[place] + layers[place]) * share - layers[place]
                if results.by_accident[place]:
                    behind[place] = entity

    def _entity_of(self, inside: BoolArray, entities: Entities) -> tuple[int, ...] | None:
        """The thing that the columns of a rule say something about."""
        pairs = [self.vertices.groups[number].comparison for number in np.flatnonzero(inside)]
        names = {name for pair in pairs for name in (pair.left.name, pair.right.name)}
        columns = [number for number in entities.rows.codes if self._name(number) in names]
        return entities.behind(columns) if len(columns) == len(names) > 1 else None

    def _name(self, number: int) -> str:
        return self.vertices.groups[number].comparison.left.name

    def _test_in_time(self, covers: UInt64Array, n_wanted: int, budget: Budget | None) -> Results:
        """Test the first of some rules: at least as many as wanted, the others as long as there is time."""
        size = max(n_wanted, _WORK_WHEN_STOPPED // max(1, self.edges.size))
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
        n_pairs = np.maximum(1.0, np.rint(self._comparable_pairs() * self.scale))
        turned = _log_chance(np.rint(fraction * n_pairs), violations[:, None], n_others / n_pairs, own_degree)
        chance = np.where((n_inside > 1)[:, None], np.minimum(chance, turned), chance)
        worst = np.where(inside, chance, -inf).max(axis=1, initial=-inf)
        surprise = -np.where(n_inside > 0, worst, 0.0) - np.array(_log_layers(self.vertices))[n_inside]
        exact = np.full(len(covers), self.scale == 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            bounds = np.where(n_others > 0, -np.log1p(-np.minimum(fraction, 1.0)) * n_others / 2, 0.0)
        return Results(near, violations, surprise, inside, exact, np.zeros(len(covers)), bounds)

    def _comparable_pairs(self) -> Float64Array:
        """For each comparison the pairs of the evidence that it can compare: neither value is null."""
        return np.array([self._pairs_with(number, 0) for number in range(len(self.vertices.groups))])

    def _pairs_with(self, number: int, choice: int) -> float:
        """The pairs that satisfy some vertices of a comparison; that it can compare, if none are named.

        What is incomparable fails each of its vertices.
        """
        if (number, choice) not in self._known:
            group = self.vertices.groups[number]
            every = np.uint64((1 << group.size) - 1)
            failed = (self.edges[:, group.first // 64] >> np.uint64(group.first % 64)) & every
            found = (failed & np.uint64(choice)) == 0 if choice else failed != every
            self._known[number, choice] = float(self.counts[found].sum())
        return self._known[number, choice]

    def _fractions(self, chosen: Int64Array) -> Float64Array:
        """For each rule and comparison the fraction of the comparable pairs that satisfy what the rule says of it."""
        totals = np.maximum(1.0, self._comparable_pairs())
        fractions = np.ones(chosen.shape)
        for number in range(len(self.vertices.groups)):
            known = np.ones(16)
            for choice in np.unique(chosen[chosen[:, number] > 0, number]).tolist():
                known[choice] = self._pairs_with(number, choice) / totals[number]
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
    """How the data tested rules: `Tested` for each, as arrays. `inside[k, g]`: rule k has a predicate in group g.

    `removed`: the share of the rows to remove such that the rule holds, as far as it is known. `bounds[k, g]`: the
    surprise that predicate g would be worth if all pairs were independent, without the number of such rules.
    """

    near: Int64Array
    violations: Int64Array
    surprise: Float64Array
    inside: BoolArray
    exact: BoolArray
    removed: Float64Array
    bounds: Float64Array

    @property
    def by_accident(self) -> BoolArray:
        accident: BoolArray = self.surprise < -log(SIGNIFICANCE)
        return accident

    @property
    def is_vacuous(self) -> BoolArray:
        """Rules that no pair tested: they hold only because values are null."""
        untested: BoolArray = (self.inside & (self.near == 0)).any(axis=1) & (self.violations == 0)
        return untested

    def often_broken(self, facts: Iterable[int]) -> BoolArray:
        """Rules with too many exceptions to be called rules: by rows to remove if these are known, else by pairs."""
        most = np.iinfo(np.int64).max
        tested = np.where(self.inside, self.near, most).min(axis=1, initial=most).astype(np.float64)
        shares = self.violations / np.maximum(1.0, tested + self.violations)
        shares[list(facts)] = self.removed[list(facts)]
        often: BoolArray = shares > MOST_EXCEPTIONS
        return often

    def is_hopeless(self, place: int, fact: Fact, layer: float, n_rows: int) -> bool:
        """Whether a key or dependency cannot pass a test on the rows: no such test is worth more than all its pairs."""
        needed = layer - log(SIGNIFICANCE)
        if fact.right is None:
            return float(self.bounds[place, self.inside[place]].min()) < needed
        if len(fact.left) == 1:
            return float(self.bounds[place, fact.right]) < needed
        return float(self.near[place, fact.right] + self.violations[place]) / 2 * log(max(2, n_rows)) < needed

    def at(self, place: int) -> Tested:
        near = tuple(int(count) for count in self.near[place, self.inside[place]])
        surprise = float(self.surprise[place])
        return Tested(
            near, int(self.violations[place]), surprise, surprise < -log(SIGNIFICANCE), bool(self.exact[place])
        )

    def copy(self) -> Results:
        return Results(*(getattr(self, name).copy() for name in self.__slots__))


def _joined(parts: list[Results]) -> Results:
    return Results(*(np.concatenate([getattr(part, name) for part in parts]) for name in Results.__slots__))


def _log_chance(
    n_others: Float64Array, violations: Int64Array, fraction: Float64Array, degree: Float64Array
) -> Float64Array:
    """The logarithm of the chance that at most that few of the disjoint pairs satisfy the predicate."""
    n_disjoint = n_others / 2 / np.where(degree > 1, degree + 1, 1)
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


def _finding(rule: Rule, results: Results, place: int, n_rows: int) -> Finding:
    """A tested rule; of a rule about single rows, rows are counted instead of their pairs with all others."""
    tested = results.at(place)
    if rule.is_one_row and n_rows > 1:
        near = tuple(round(count / (n_rows - 1)) for count in tested.near)
        tested = replace(tested, near=near, violations=ceil(tested.violations / (n_rows - 1)))
    return Finding(rule, tested) if tested.violations else Finding(rule, tested, 0, (0, 0))


def ranker_of(answer: Answer, problem: Problem) -> Ranker:
    """A ranker on the evidence of an answer and the rows of its problem."""
    return make_ranker(answer, problem, max_equal_of(problem.outcomes, problem.vertices), problem.outcomes)


def make_ranker(
    answer: Answer, problem: Problem, max_equal: tuple[int, ...], outcomes: Outcomes | None = None
) -> Ranker:
    """A ranker on the evidence of an answer; counts of a sample are scaled to those of all pairs.

    `outcomes` are the rows, or some of them, if they are known here.
    """
    n_rows, n_sampled, scale = problem.outcomes.n_table_rows, answer.n_sampled, 1.0
    if n_sampled is not None and n_sampled >= 2:
        scale = n_rows * (n_rows - 1) / (n_sampled * (n_sampled - 1))
    fields = problem.outcomes.layout.fields
    nullable = frozenset(
        each.place
        for each in fields
        if each.place is not None and each.missing and each.kind is not FieldKind.ORDER_OR_NULL
    )
    rows, same_as = None, {}
    if outcomes is not None:
        rows = Rows.of(outcomes, problem.vertices, n_rows)
        same_as = _same_columns(outcomes) if outcomes.n_table_rows == n_rows else {}
    given = tuple((rule, cover_of(rule, problem.vertices, problem.request.nulls)) for rule in problem.request.rules)
    evidence = problem.vertices, answer.edges, answer.counts, n_rows, max_equal, scale
    return Ranker(*evidence, rows, same_as, nullable, given, problem.request.nulls)


def cover_of(rule: Rule, vertices: Vertices, nulls: Nulls) -> UInt64Array | None:
    """The vertices that a rule asks for; None if the space does not have them, or nothing could break the rule."""
    simplified = simplify(rule, nulls)
    if rule.measure is not None or simplified.never:
        return None
    try:
        cover = vertices.cover(simplified.rule)
    except UsageError:
        return None
    is_one = all(group.has_choice(cover) for group in vertices.groups)
    return vertices.words([cover])[0] if is_one else None


def _rules(count: int, status: str) -> str:
    return f"{count:,} {status} {'rule is' if count == 1 else 'rules are'}"


def _same_columns(outcomes: Outcomes) -> dict[str, str]:
    """For each column that equals an earlier one in every row, nulls included, the first such column."""
    same: dict[str, str] = {}
    n_fields = len(outcomes.layout.fields)
    for number in np.argsort([-1 if each.place is None else each.place for each in outcomes.layout.fields]).tolist():
        column = outcomes.layout.fields[number]
        first, second = column.comparison.left.name, column.comparison.right.name
        if column.place is None or not column.comparison.across or column.comparison.within_row:
            continue
        if second in same or same.get(first) == second:
            continue
        sides = (outcomes.left, outcomes.right)
        null = [(side[n_fields + column.word] & column.missing) != 0 for side in sides]
        values = [np.where(is_null, 0, side[number]) for is_null, side in zip(null, sides, strict=True)]
        if np.array_equal(null[0], null[1]) and np.array_equal(values[0], values[1]):
            same[second] = same.get(first, first)
    return same


def max_equal_of(outcomes: Outcomes, vertices: Vertices) -> tuple[int, ...]:
    """For each group the most rows that one row can equal in it, as far as its columns tell."""
    n_rows = outcomes.n_table_rows
    most = [n_rows] * len(vertices.groups)
    for number, column in enumerate(outcomes.layout.fields):
        if column.place is not None and not column.comparison.within_row:
            left = _largest(outcomes.left, number, outcomes)
            right = _largest(outcomes.right, number, outcomes) if column.comparison.across else 0
            most[column.place] = left + right
    return tuple(most)


def _largest(side: Int32Array, number: int, outcomes: Outcomes) -> int:
    """The most rows that share a value of a field's column; null is a value if nulls equal each other."""
    field, n_fields = outcomes.layout.fields[number], len(outcomes.layout.fields)
    values, weights = side[number], outcomes.weights
    if field.missing and field.kind is not FieldKind.ORDER_OR_NULL:
        valid = (side[n_fields + field.word] & field.missing) == 0
        values, weights = values[valid], weights[valid]
    counts = np.zeros(int(values.max(initial=-1)) + 1)
    # Part by part: numpy makes wider copies of both.
    for start in range(0, values.size, _COUNTED_ROWS):
        part = slice(start, start + _COUNTED_ROWS)
        counts += np.bincount(values[part], weights=weights[part], minlength=counts.size)
    return int(counts.max(initial=0))
