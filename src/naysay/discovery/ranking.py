"""Which of many true rules a person should look at: how well each was tested by the data that obeys it.

Most minimal rules are true by accident: no pair happens to satisfy all their predicates because few were expected
to (Martin et al., PVLDB 2025, find more than 95 %). The test, from the multiplicities of the evidence alone:

For a predicate p of a rule, let m of all N ordered pairs satisfy its other predicates, and let a fraction f satisfy
p. If p's columns had nothing to do with the others (shuffle them among the rows), m * f pairs would be expected to
break the rule, where v do. Pairs that share a row are not independent, so only disjoint pairs are counted: m / 2
unordered pairs in which a row meets at most d others hold at least k = m / 2 / (2 d - 1) that are disjoint. The
chance that none of them satisfies p is (1 - f)^k; where v pairs break the rule, the Chernoff bound of the binomial
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

from naysay.discovery.vertices import Group, UInt64Array, Vertices, to_int
from naysay.rule import RuleKind, kind
from naysay.table.codes import Int64Array

SIGNIFICANCE = 0.05
# A rule of one predicate has no others to be independent of: could so many pairs all miss what every second would hit?
_ALONE = 0.5


@dataclass(frozen=True, slots=True)
class Tested:
    """How the data tested one rule.

    `near` counts, for each of its comparisons, the ordered pairs that satisfy all its other predicates and not this
    one: the pairs that came within one predicate of breaking it. `violations` break it. `surprise` is the negative
    logarithm of the chance that it holds by accident, less that of the number of such rules; `by_accident` where
    that chance is not small. `exact` is False where counts were extrapolated from a sample of rows.
    """

    near: tuple[int, ...]
    violations: int
    surprise: float
    by_accident: bool
    exact: bool = True

    @property
    def support(self) -> int:
        """The pairs that tested the rule, for the predicate that was tested least."""
        return min(self.near, default=0)


@dataclass(frozen=True, slots=True)
class Multiplicities:
    """What the test needs to know of a table: edges with counts, and how many rows share a value at most.

    `max_equal` holds for each group of vertices the most rows that one row may meet in an equality of it. Counts
    are multiplied by `scale` where they come from a sample.
    """

    vertices: Vertices
    edges: UInt64Array
    counts: Int64Array
    n_rows: int
    max_equal: tuple[int, ...]
    scale: float = 1.0

    @property
    def n_pairs(self) -> int:
        return self.n_rows * (self.n_rows - 1)


def tested(covers: UInt64Array, multiplicities: Multiplicities) -> list[Tested]:
    """Test rules on the evidence. O(covers * edges)."""
    from naysay.kernels.missed import count_near_misses

    vertices = multiplicities.vertices
    near = count_near_misses(multiplicities.edges, multiplicities.counts, covers, *vertices.tables())
    near = np.rint(near * multiplicities.scale).astype(np.int64) if multiplicities.scale != 1.0 else near
    rarity = _Rarity(multiplicities)
    layers = _log_layers(vertices)
    return [
        _tested(to_int(cover), counts, multiplicities, rarity, layers)
        for cover, counts in zip(covers, near, strict=True)
    ]


def _tested(
    cover: int, near: Int64Array, multiplicities: Multiplicities, rarity: _Rarity, layers: list[float]
) -> Tested:
    vertices = multiplicities.vertices
    numbers = [number for number, group in enumerate(vertices.groups) if cover & group.mask]
    violations = int(near[-1])
    chances = []
    for number in numbers:
        others = [other for other in numbers if other != number]
        n_others = int(near[number]) + violations
        fraction = rarity.fraction(vertices.groups[number], cover) if others else _ALONE
        chance = _log_chance(n_others, violations, fraction, _degree(cover, others, multiplicities))
        if others:
            n_own = round(fraction * multiplicities.n_pairs)
            degree = _degree(cover, [number], multiplicities)
            chance = min(chance, _log_chance(n_own, violations, n_others / multiplicities.n_pairs, degree))
        chances.append(chance)
    surprise = -max(chances, default=0.0) - layers[len(numbers)]
    return Tested(
        tuple(int(near[number]) for number in numbers), violations, surprise,
        by_accident=surprise < -log(SIGNIFICANCE), exact=multiplicities.scale == 1.0,
    )


def _degree(cover: int, others: list[int], multiplicities: Multiplicities) -> int:
    """The most rows that one row can meet in pairs that satisfy the other predicates."""
    degree = multiplicities.n_rows - 1
    for number in others:
        group = multiplicities.vertices.groups[number]
        if group.is_equality(cover):
            degree = min(degree, multiplicities.max_equal[number])
    return max(1, degree)


def _log_chance(n_others: int, violations: int, fraction: float, degree: int) -> float:
    """The logarithm of the chance that at most so few of the disjoint pairs satisfy the predicate."""
    n_disjoint = n_others / 2 / (2 * degree - 1)
    if fraction >= 1.0:
        return -inf if n_disjoint and not violations else 0.0
    observed = violations / n_others if n_others else 0.0
    if observed >= fraction:
        return 0.0
    divergence = (1 - observed) * log((1 - observed) / (1 - fraction))
    if observed > 0.0:
        divergence += observed * log(observed / fraction)
    return -n_disjoint * divergence


class _Rarity:
    """The fraction of all pairs that satisfy what a cover says of one comparison, each looked up once."""

    def __init__(self, multiplicities: Multiplicities) -> None:
        self._of = multiplicities
        self._total = max(1, int(multiplicities.counts.sum()))
        self._known: dict[int, float] = {}

    def fraction(self, group: Group, cover: int) -> float:
        chosen = cover & group.mask
        if chosen not in self._known:
            word, bits = group.first // 64, np.uint64(chosen >> (64 * (group.first // 64)))
            satisfied = (self._of.edges[:, word] & bits) == 0
            self._known[chosen] = float(self._of.counts[satisfied].sum()) / self._total
        return self._known[chosen]


def _log_layers(vertices: Vertices) -> list[float]:
    """For each number of predicates the logarithm of how many rules of that length the space has, times all lengths."""
    n_of_length = [1.0] + [0.0] * len(vertices.groups)
    for group in vertices.groups:
        n_ops = len(group.comparison.ops)
        for length in range(len(n_of_length) - 1, 0, -1):
            n_of_length[length] = min(n_of_length[length] + n_ops * n_of_length[length - 1], exp(600))
    n_lengths = max(1, len(vertices.groups))
    return [log(max(1.0, n_rules)) + log(n_lengths) for n_rules in n_of_length]


# The short list has room for each kind of rule.
_ROOM = {
    RuleKind.KEY: 6, RuleKind.DEPENDENCY: 8, RuleKind.ORDER: 8, RuleKind.ONE_ROW: 4, RuleKind.OTHER: 6,
}


def best_first(covers: UInt64Array, results: list[Tested], vertices: Vertices) -> list[int]:
    """The places of rules in the order to show them: true by accident last, then short ones, then surprising ones."""
    lengths = vertices.n_predicates(covers)
    return sorted(
        range(len(results)),
        key=lambda place: (results[place].by_accident, int(lengths[place]), -results[place].surprise, place),
    )


def short_list(order: list[int], covers: UInt64Array, vertices: Vertices, n_wanted: int) -> list[int]:
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
