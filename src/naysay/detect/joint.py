"""The fewest rows to remove so that all rules hold together.

Rows are the vertices of a graph, violations its edges; what is sought is a smallest cover. From above: the suspects of
all rules together are a cover, from which rows return that conflict with no row that stays. From below: of rows any two
of which conflict (a clique) at most one can stay, so cliques without a common row prove how many have to go. Both work
on the groups of each rule, never on its pairs. If there are few pairs, what then is still open is solved as a graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from naysay.arrays import BoolArray, Int64Array
from naysay.budget import check_stop, on_threads
from naysay.detect.partners import small_keys
from naysay.detect.removal import (
    conflict_levels,
    is_monotone,
    match_rows,
    rows_to_remove,
    rows_with_partners,
    values_in_conflict,
)
from naysay.detect.result import Removal
from naysay.detect.summary import Conflicts
from naysay.detect.violations import both_ways, count, verify, violations
from naysay.kernels.joins.removal import connected_parts, first_apart, first_of_keys, half_cover
from naysay.kernels.sort import sorted_places
from naysay.plan.bind import BoundJoin, Memo, NoMemo, bind, singles
from naysay.plan.join import Join
from naysay.rule.model import Nulls
from naysay.table import Table

# With more violations than this no graph is made of them.
_FEW_VIOLATIONS = 1_000_000
# The steps of a search among the rows of one rule.
_RULE_STEPS = 20_000_000
# The vertices that the exact search may look at in total, and those of the largest part that it solves.
_SEARCH_STEPS = 2_000_000
_LARGEST_PART = 400
# How often cliques are sought anew after rows have returned, and in how many turns these do.
_ROUNDS = 3
_TURNS = 20


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A broken rule, and what a check found out about it."""

    join: Join
    found: Conflicts


def remove_jointly(
    table: Table, rules: Sequence[BrokenRule], nulls: Nulls, memo: Memo | None = None, n_threads: int = 1
) -> tuple[Removal, Int64Array]:
    """How many rows must go so that all rules hold, and rows, ascending, without which they do: `most` of them.

    Before it returns, each rule is checked once more, without these rows.
    """
    search = _CoverSearch(table, rules, nulls, memo)
    search.run()
    search.check(n_threads)
    gone = np.flatnonzero(search.gone)
    return Removal(search.least, int(gone.size)), gone


class _CoverSearch:
    """A cover, `gone`, and what bounds it from below.

    `forced` are the rows that break a one-row rule; of the others at least `n_proven` must go. `clique` is the number
    of each row's clique, or -1.
    """

    def __init__(self, table: Table, rules: Sequence[BrokenRule], nulls: Nulls, memo: Memo | None) -> None:
        self.forced = np.zeros(table.n_rows, np.bool_)
        self.gone = np.zeros(table.n_rows, np.bool_)
        for rule in rules:
            self.gone[rule.found.suspects] = True
            if rule.join.one_row:
                self.forced[rule.found.suspects] = True
        # First the rules whose suspects have the fewest partners to form cliques with.
        self.rules = sorted(
            (rule for rule in rules if not rule.join.one_row),
            key=lambda rule: rule.found.rows.size / rule.found.suspects.size,
        )
        self.singles = [rule for rule in rules if rule.join.one_row]
        self.find_singles = partial(singles, table, nulls=nulls)
        self.bind = partial(bind, table, nulls=nulls, memo=memo)
        self.clique = np.full(table.n_rows, -1, np.int64)
        self.n_proven = 0

    @property
    def least(self) -> int:
        """Fewer rows are not enough."""
        proven = int(np.count_nonzero(self.forced)) + self.n_proven
        return max([proven, *(rule.found.removal.least for rule in self.rules)])

    @property
    def is_exact(self) -> bool:
        return self.least == np.count_nonzero(self.gone)

    def run(self) -> None:
        for _ in range(_ROUNDS):
            if self.is_exact:
                return
            self._find_cliques()
            if self.is_exact or not self._put_back():
                break
        if not self.is_exact and sum(rule.found.violations for rule in self.rules) <= _FEW_VIOLATIONS:
            self._solve_pairs()

    def check(self, n_threads: int) -> None:
        """Look for violations among the rows that stay; whatever is found has to go, too."""
        for rule in self.singles:
            self.gone[self.find_singles(rule.join)] = True

        def is_broken(rule: BrokenRule) -> bool:
            return verify(self.bind(rule.join).among(~self.gone)) is not None

        for rule, broken in zip(self.rules, on_threads(self.rules, is_broken, n_threads), strict=True):
            if broken:
                self.gone[rows_to_remove(self.bind(rule.join).among(~self.gone))[1]] = True

    def _find_cliques(self) -> None:
        """Find cliques for each rule, first with its own suspects, then with all rows to remove that are in none."""
        self.clique[:] = -1
        for own in (True, False):
            for rule in self.rules:
                check_stop()
                rows = rule.found.suspects if own else rule.found.rows
                is_open = self.gone & ~self.forced & (self.clique < 0) & _mask(self.gone.size, rows)
                if not is_open.any():
                    continue
                may_stay = ~self.gone & (self.clique < 0) & _mask(self.gone.size, rule.found.rows)
                found, numbers = _cliques(self.bind(rule.join), is_open, may_stay)
                self.clique[found] = numbers + self.clique.max(initial=-1) + 1
        # All but one row of each.
        n_proven = int(np.count_nonzero(self.clique >= 0)) - int(self.clique.max(initial=-1)) - 1
        self.n_proven = max(self.n_proven, n_proven)

    def _put_back(self) -> bool:
        """Let rows return that conflict with no row that stays; whether there were any."""
        stays_in = np.zeros(int(self.clique.max(initial=-1)) + 2, np.bool_)
        stays_in[self.clique[~self.gone]] = True
        stays_in[-1] = False
        candidates = self.gone & ~self.forced & ~stays_in[self.clique]
        staying = ~self.gone
        joins = (self._in_conflict(rule, candidates | staying) for rule in self.rules)
        candidates &= ~_blocked(joins, candidates, staying)
        small = [self._in_conflict(rule, candidates) for rule in self.rules]
        if sum(map(count, small)) <= _FEW_VIOLATIONS:
            graph = _Graph.of(*_pairs(small, self.gone.size))
            candidates[graph.rows] = graph.apart()
            self.gone[candidates] = False
            return bool(candidates.any())
        n_returned = 0
        for _ in range(_TURNS):
            if not candidates.any():
                break
            removed = _remove_in_turn(small, candidates)
            staying = candidates & ~removed
            self.gone[staying] = False
            n_returned += int(np.count_nonzero(staying))
            candidates = removed & ~_blocked(small, removed, staying)
        return n_returned > 0

    def _in_conflict(self, rule: BrokenRule, rows: BoolArray) -> BoundJoin:
        """The join of a rule among those of its rows in conflict that a mask has."""
        return self.bind(rule.join).among(rows & _mask(rows.size, rule.found.rows))

    def _solve_pairs(self) -> None:
        """Fix the rows that a smallest cover by halves has or lacks whole, and search the rest, part by part."""
        graph = _Graph.of(*_pairs((self._in_conflict(rule, ~self.forced) for rule in self.rules), self.gone.size))
        halves = half_cover(*graph.neighbours())
        self.gone[graph.rows[halves == 2]] = True
        self.gone[graph.rows[halves == 0]] = False
        graph = graph.among(halves == 1)
        n_gone, least = self._parts_between(graph)
        n_steps = _SEARCH_STEPS
        for number, part in graph.parts(least < n_gone):
            if part.rows.size > _LARGEST_PART or n_steps < 0:
                continue
            search = _ExactCover(part.bits(), n_steps)
            cover = search.smallest(int(n_gone[number]))
            n_steps = search.n_steps
            if cover is not None:
                self.gone[part.rows] = [cover >> place & 1 for place in range(part.rows.size)]
                least[number] = cover.bit_count()
        self.n_proven = max(self.n_proven, int(np.count_nonzero(halves == 2) + least.sum()))

    def _parts_between(self, graph: _Graph) -> tuple[Int64Array, Int64Array]:
        """For each connected part how many rows are gone, and how many must go.

        That is half of its rows, as the smallest cover by halves says, or all but one of each clique.
        """
        n_parts = graph.part.max(initial=-1) + 1
        n_gone = np.bincount(graph.part[self.gone[graph.rows]], minlength=n_parts)
        n_half = (np.bincount(graph.part, minlength=n_parts) + 1) // 2
        in_clique = self.clique[graph.rows] >= 0
        cliques = np.unique(np.stack((graph.part, self.clique[graph.rows]))[:, in_clique], axis=1)
        n_in_cliques = np.bincount(graph.part[in_clique], minlength=n_parts)
        return n_gone, np.maximum(n_half, n_in_cliques - np.bincount(cliques[0], minlength=n_parts))


@dataclass(frozen=True, slots=True)
class _Graph:
    """Rows, ascending, the number of the connected part of each, and pairs of their places."""

    rows: Int64Array
    part: Int64Array
    first: Int64Array
    second: Int64Array

    @classmethod
    def of(cls, first: Int64Array, second: Int64Array) -> _Graph:
        """The graph of pairs of rows."""
        rows, places = np.unique(np.concatenate((first, second)), return_inverse=True)
        first, second = places.reshape(2, -1)
        _, part = np.unique(connected_parts(rows.size, first, second), return_inverse=True)
        return cls(rows, part, first, second)

    def among(self, chosen: BoolArray) -> _Graph:
        """The graph of the pairs of which both rows are chosen."""
        both = chosen[self.first] & chosen[self.second]
        return _Graph.of(self.rows[self.first[both]], self.rows[self.second[both]])

    def neighbours(self) -> tuple[Int64Array, Int64Array]:
        """Where the neighbours of each row start, and the end; and all neighbours."""
        one, other = np.concatenate((self.first, self.second)), np.concatenate((self.second, self.first))
        starts = np.concatenate(([0], np.cumsum(np.bincount(one, minlength=self.rows.size))))
        return starts, other[sorted_places(one, other)]

    def parts(self, chosen: BoolArray) -> Iterator[tuple[int, _Graph]]:
        """The connected parts that are chosen, with their numbers."""
        pairs = np.flatnonzero(chosen[self.part[self.first]])
        pairs = pairs[np.argsort(self.part[self.first[pairs]], kind="stable")]
        of_part = self.part[self.first[pairs]]
        for some in np.split(pairs, np.flatnonzero(np.diff(of_part)) + 1) if pairs.size else ():
            part = _Graph.of(self.rows[self.first[some]], self.rows[self.second[some]])
            yield int(self.part[self.first[some[0]]]), part

    def apart(self) -> BoolArray:
        """Which rows can stay together if those with the fewest neighbours come first."""
        starts, neighbours = self.neighbours()
        return first_apart(starts, neighbours, np.argsort(np.diff(starts), kind="stable"))

    def bits(self) -> list[int]:
        """The neighbours of each row as bits."""
        found = [0] * self.rows.size
        for one, other in zip(self.first.tolist(), self.second.tolist(), strict=True):
            found[one] |= 1 << other
            found[other] |= 1 << one
        return found


def _mask(n_rows: int, rows: Int64Array) -> BoolArray:
    mask = np.zeros(n_rows, np.bool_)
    mask[rows] = True
    return mask


def _blocked(joins: Iterable[BoundJoin], candidates: BoolArray, staying: BoolArray) -> BoolArray:
    """Which candidates conflict with a row that stays, or are not known to conflict with none."""
    blocked = np.zeros_like(candidates)
    for bound in joins:
        check_stop()
        for one_way in (bound,) if both_ways(bound) else (bound, bound.swapped()):
            between = _between(one_way, candidates & ~blocked, staying)
            if between.left.n_rows and between.right.n_rows:
                has_partner = rows_with_partners(between.left, between.right, _RULE_STEPS)
                blocked[between.left.rows[has_partner]] = True
    return blocked


def _pairs(joins: Iterable[BoundJoin], n_rows: int) -> tuple[Int64Array, Int64Array]:
    """All pairs of rows that break any of the rules, once each."""
    found = [np.empty(0, np.int64)]
    for bound in joins:
        pairs = violations(bound, None)
        found.append(np.minimum(pairs.left, pairs.right) * n_rows + np.maximum(pairs.left, pairs.right))
    codes = np.unique(np.concatenate(found))
    return codes // n_rows, codes % n_rows


def _remove_in_turn(joins: Iterable[BoundJoin], rows: BoolArray) -> BoolArray:
    """Rows without which all rules hold among some rows, rule by rule; never all of them."""
    removed = np.zeros_like(rows)
    for bound in joins:
        removed[rows_to_remove(bound.among(rows & ~removed))[1]] = True
    return removed


def _between(bound: BoundJoin, left: BoolArray, right: BoolArray) -> BoundJoin:
    """The same join between some left rows and some right rows."""
    on_left = bound.left.take(np.flatnonzero(left[bound.left.rows]))
    places = np.flatnonzero(right[bound.right.rows])
    places = places[np.isin(bound.right.key[places], on_left.key)]
    return replace(
        bound,
        left=on_left,
        right=bound.right.take(places),
        mirror=False,
        reflexive=False,
        symmetric=False,
        memo=NoMemo(),
    )


def _cliques(bound: BoundJoin, is_open: BoolArray, may_stay: BoolArray) -> tuple[Int64Array, Int64Array]:
    """Rows of disjoint cliques, and the number of the clique of each; of rows that may stay as few as necessary."""
    if bound.mirror and (values := values_in_conflict(bound)) is not None:
        side = bound.left
        opened, staying = np.flatnonzero(is_open[side.rows]), np.flatnonzero(may_stay[side.rows])
        open_keys, keys, n_keys = small_keys(side.key[opened], side.key[staying], bound.n_keys)
        # All rows of a key that stay have one value, so no more of them are needed than there are open rows.
        staying = staying[first_of_keys(keys, np.bincount(open_keys, minlength=n_keys))]
        places = np.concatenate((staying, opened))
        keys = side.key[places]
        return _grouped(side.rows[places], keys, _ranks(keys, values[places]))
    if bound.mirror and is_monotone(bound):
        bound = bound.among(is_open | may_stay)
        return _grouped(bound.left.rows, bound.left.key, conflict_levels(bound))
    return _matched(bound, is_open, may_stay)


def _ranks(keys: Int64Array, values: Int64Array) -> Int64Array:
    """The place of each row among those with its key and value: rows of a key with the same rank differ in value."""
    order = sorted_places(keys, values)
    keys, values = keys[order], values[order]
    new = np.ones(order.size, np.bool_)
    new[1:] = (keys[1:] != keys[:-1]) | (values[1:] != values[:-1])
    starts = np.flatnonzero(new)
    ranks = np.empty(order.size, np.int64)
    ranks[order] = np.arange(order.size) - starts[np.cumsum(new) - 1]
    return ranks


def _grouped(rows: Int64Array, keys: Int64Array, levels: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The rows that share key and level with another, and a number from 0 for each key and level."""
    order = sorted_places(keys, levels)
    keys, levels = keys[order], levels[order]
    new = np.ones(order.size, np.bool_)
    new[1:] = (keys[1:] != keys[:-1]) | (levels[1:] != levels[:-1])
    numbers = np.cumsum(new) - 1
    several = np.bincount(numbers, minlength=1)[numbers] > 1
    return rows[order][several], np.cumsum(new[several]) - 1


def _matched(bound: BoundJoin, is_open: BoolArray, may_stay: BoolArray) -> tuple[Int64Array, Int64Array]:
    """Pairs: open rows with rows that may stay, either way round, then with each other."""
    found: list[Int64Array] = []
    is_open = is_open.copy()
    may_stay = may_stay.copy()
    for one_way, others in ((bound, may_stay), (bound.swapped(), may_stay), (bound, is_open)):
        between = _between(one_way, is_open, others)
        if between.left.n_rows and between.right.n_rows:
            pairs, _ = match_rows(between.left, between.right, _RULE_STEPS)
            is_open[pairs] = False
            may_stay[pairs] = False
            found.append(pairs)
    rows = np.concatenate(found) if found else np.empty(0, np.int64)
    return rows, np.arange(rows.size) // 2


class _ExactCover:
    """A smallest cover of a small graph by branching: a vertex is in it, or all its neighbours are.

    Vertices are the bits of integers. `n_steps` is how many vertices may still be looked at.
    """

    def __init__(self, neighbours: list[int], n_steps: int) -> None:
        self.neighbours = neighbours
        self.n_steps = n_steps
        self._best: int | None = None
        self._size = 0

    def smallest(self, n_most: int) -> int | None:
        """A smallest cover, which is known to have at most `n_most` vertices; None if that takes too many steps."""
        self._size = n_most + 1
        self._branch((1 << len(self.neighbours)) - 1, 0, 0)
        return self._best if self.n_steps >= 0 else None

    def _branch(self, left: int, cover: int, size: int) -> None:
        left, taken = self._reduce(left)
        cover |= taken
        size += taken.bit_count()
        if self.n_steps < 0 or size + self._at_least(left) >= self._size:
            return
        if not left:
            self._best, self._size = cover, size
            return
        busiest = max(_bits(left), key=lambda vertex: (self.neighbours[vertex] & left).bit_count())
        beside = self.neighbours[busiest] & left
        self._branch(left & ~(1 << busiest), cover | 1 << busiest, size + 1)
        self._branch(left & ~beside, cover | beside, size + beside.bit_count())

    def _reduce(self, left: int) -> tuple[int, int]:
        """Drop vertices without neighbours; of a vertex with only one take that one."""
        taken = 0
        changed = True
        while changed:
            changed = False
            self.n_steps -= left.bit_count()
            for vertex in _bits(left):
                beside = self.neighbours[vertex] & left
                if not left >> vertex & 1 or beside.bit_count() > 1:
                    continue
                left &= ~(beside | 1 << vertex)
                taken |= beside
                changed = changed or beside > 0
        return left, taken

    def _at_least(self, left: int) -> int:
        """What disjoint cliques prove."""
        n_proven = 0
        while left:
            vertex = left & -left
            left ^= vertex
            among = self.neighbours[vertex.bit_length() - 1] & left
            while among:
                other = among & -among
                left ^= other
                n_proven += 1
                among &= self.neighbours[other.bit_length() - 1]
        return n_proven


def _bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
