"""The fewest rows to remove so that all rules hold together.

Rows are the vertices of a graph, violations its edges; what is sought is a smallest cover. From above: the suspects of
all rules together are a cover, from which rows return that conflict with no row that stays. From below: of rows any two
of which conflict (a clique) at most one can stay, so cliques without a common row prove how many have to go. Both work
on the groups of each rule, never on its pairs. If there are few pairs, what then is still open is solved exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from naysay.arrays import BoolArray, Int64Array
from naysay.budget import check_stop, on_threads
from naysay.detect.partners import partners, small_keys
from naysay.detect.removal import conflict_levels, is_monotone, match_rows, rows_to_remove, values_in_conflict
from naysay.detect.result import Removal
from naysay.detect.summary import Conflicts
from naysay.detect.violations import both_ways, verify, violations
from naysay.kernels.joins.removal import connected_parts, first_of_keys
from naysay.kernels.sort import sorted_places
from naysay.plan.bind import BoundJoin, Memo, NoMemo, bind, singles
from naysay.plan.join import Join
from naysay.rule.model import Nulls
from naysay.table import Table

# With more violations than this no graph is made of them.
_FEW_VIOLATIONS = 1_000_000
# The steps of a matching, and the vertices that the exact search may look at in total; a larger part is left open.
_MATCHING_STEPS = 20_000_000
_SEARCH_STEPS = 2_000_000
_LARGEST_PART = 400
# How often cliques are sought anew after rows have returned.
_ROUNDS = 3


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
    search = _Search(table, rules, nulls, memo)
    search.run()
    search.check(n_threads)
    gone = np.flatnonzero(search.gone)
    return Removal(search.least, int(gone.size)), gone


class _Search:
    """A cover, `gone`, and cliques that bound it from below.

    `clique` is the number of each row's clique, or -1; `n_more` is what the exact search adds to what cliques prove.
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
        self.n_more = 0

    @property
    def least(self) -> int:
        """Fewer rows are not enough."""
        in_cliques = int(np.count_nonzero(self.clique >= 0)) - int(self.clique.max(initial=-1)) - 1
        proven = int(np.count_nonzero(self.forced)) + in_cliques + self.n_more
        return max([proven, *(rule.found.removal.least for rule in self.rules)])

    @property
    def is_exact(self) -> bool:
        return self.least == np.count_nonzero(self.gone)

    def run(self) -> None:
        best = self.clique
        for _ in range(_ROUNDS):
            if self.is_exact:
                return
            self.clique = np.full(self.gone.size, -1, np.int64)
            self._find_cliques()
            if _n_proven(best) > _n_proven(self.clique):
                self.clique = best
            best = self.clique
            if self.is_exact or not self._put_back():
                break
        if not self.is_exact and sum(rule.found.violations for rule in self.rules) <= _FEW_VIOLATIONS:
            self._solve_parts()

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

    def _put_back(self) -> bool:
        """Let rows return that conflict with no row that stays; whether there were any."""
        stays_in = np.zeros(int(self.clique.max(initial=-1)) + 2, np.bool_)
        stays_in[self.clique[~self.gone]] = True
        stays_in[-1] = False
        candidates = self.gone & ~self.forced & ~stays_in[self.clique]
        staying = ~self.gone
        n_returned = 0
        while candidates.any():
            candidates &= ~self._blocked(candidates, staying)
            if not candidates.any():
                break
            removed = self._remove_in_turn(candidates)
            staying = candidates & ~removed
            self.gone[staying] = False
            n_returned += int(np.count_nonzero(staying))
            candidates = removed
        return n_returned > 0

    def _blocked(self, candidates: BoolArray, staying: BoolArray) -> BoolArray:
        """Which candidates conflict with a row that stays."""
        blocked = np.zeros_like(candidates)
        for rule in self.rules:
            check_stop()
            if not candidates[rule.found.rows].any():
                continue
            bound = self.bind(rule.join)
            in_conflict = _mask(staying.size, rule.found.rows)
            for one_way in (bound,) if both_ways(bound) else (bound, bound.swapped()):
                between = _between(one_way, candidates & ~blocked, staying & in_conflict)
                blocked[between.left.rows[partners(between) > 0]] = True
        return blocked

    def _remove_in_turn(self, rows: BoolArray) -> BoolArray:
        """Rows of a table without which all rules hold, rule by rule; never all of them."""
        removed = np.zeros_like(rows)
        for rule in self.rules:
            removed[rows_to_remove(self.bind(rule.join).among(rows & ~removed))[1]] = True
        return removed

    def _solve_parts(self) -> None:
        """Solve the connected parts of the graph in which cover and cliques do not meet, within a limit."""
        n_steps = _SEARCH_STEPS
        for part, neighbours in self._open_parts():
            proven = self.clique[part]
            proven = proven[proven >= 0]
            n_proven = proven.size - np.unique(proven).size
            search = _ExactCover(neighbours, n_steps)
            cover = search.smallest(int(np.count_nonzero(self.gone[part])))
            n_steps = search.n_steps
            if cover is None:
                break
            self.gone[part] = [cover >> place & 1 for place in range(part.size)]
            self.n_more += cover.bit_count() - n_proven

    def _open_parts(self) -> Iterator[tuple[Int64Array, list[int]]]:
        """Small connected parts where more rows go than cliques prove: the rows, and the neighbours of each as bits."""
        first, second = self._pairs()
        rows, places = np.unique(np.concatenate((first, second)), return_inverse=True)
        first, second = places.reshape(2, -1)
        part_of = connected_parts(rows.size, first, second)
        n_gone = np.bincount(part_of, self.gone[rows], rows.size)
        in_clique = self.clique[rows] >= 0
        n_proven = np.bincount(part_of, in_clique, rows.size)
        cliques = np.unique(np.stack((self.clique[rows], part_of))[:, in_clique], axis=1)
        n_proven -= np.bincount(cliques[1], minlength=rows.size)
        sizes = np.bincount(part_of, minlength=rows.size)
        is_open = (n_gone > n_proven) & (sizes <= _LARGEST_PART)
        by_part = np.argsort(part_of, kind="stable")
        starts = np.searchsorted(part_of[by_part], np.arange(rows.size + 1))
        chosen = is_open[part_of[first]]
        first, second = first[chosen], second[chosen]
        of_pair = np.argsort(part_of[first], kind="stable")
        first, second = first[of_pair], second[of_pair]
        pair_starts = np.searchsorted(part_of[first], np.arange(rows.size + 1))
        for part in np.flatnonzero(is_open):
            members = by_part[starts[part] : starts[part + 1]]
            pairs = slice(pair_starts[part], pair_starts[part + 1])
            neighbours = [0] * members.size
            ends = (np.searchsorted(members, side[pairs]).tolist() for side in (first, second))
            for one, other in zip(*ends, strict=True):
                neighbours[one] |= 1 << other
                neighbours[other] |= 1 << one
            yield rows[members], neighbours

    def _pairs(self) -> tuple[Int64Array, Int64Array]:
        """All pairs of rows in conflict that no one-row rule removes, once each."""
        n_rows = self.gone.size
        found = []
        for rule in self.rules:
            pairs = violations(self.bind(rule.join).among(_mask(n_rows, rule.found.rows) & ~self.forced), None)
            found.append(np.minimum(pairs.left, pairs.right) * n_rows + np.maximum(pairs.left, pairs.right))
        codes = np.unique(np.concatenate(found))
        return codes // n_rows, codes % n_rows


def _mask(n_rows: int, rows: Int64Array) -> BoolArray:
    mask = np.zeros(n_rows, np.bool_)
    mask[rows] = True
    return mask


def _n_proven(clique: Int64Array) -> int:
    """How many rows cliques prove that must go: all but one of each."""
    return int(np.count_nonzero(clique >= 0)) - int(clique.max(initial=-1)) - 1


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
            pairs, _ = match_rows(between.left, between.right, _MATCHING_STEPS)
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
