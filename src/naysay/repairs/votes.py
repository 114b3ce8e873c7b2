"""Votes inside the groups of dependencies: which value a group agrees on, and how sure that is.

The confidence of a value is the share of the votes for it, with one more vote against it, so that a small group counts
less: 41 of 42 rows make 41/43. If several dependencies have the same target, the votes for a value are added up, and so
are all votes; two dependencies with the same groups are as sure as one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from naysay.arrays import BoolArray, Float64Array, Int64Array
from naysay.kernels.sort import dense_groups, sorted_places
from naysay.repairs.cells import Cells, Dependency
from naysay.rule.model import Nulls

# A rule with a larger share of exceptions does not fit the data, and suggests nothing.
MAX_EXCEPTIONS = 0.5
# Nor does one if a larger share of its exceptions lies in groups with fewer rows than a vote needs: if these mostly
# disagree, a larger one that does says more about the rule than about its rows.
MAX_UNDECIDABLE = 0.5
ENOUGH_ROWS = 4
# Shares that equal the limit pass, also if they are rounded.
_ROUNDING = 1e-9
_NOTHING = -1


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a dependency fits the table.

    `n_tested` rows have a partner in their group, `n_exceptions` of them have another value than most of the group, and
    `n_undecidable` of these are in groups that are too small to vote.
    """

    n_tested: int
    n_exceptions: int
    n_undecidable: int

    @property
    def is_trusted(self) -> bool:
        return (
            self.n_exceptions <= MAX_EXCEPTIONS * self.n_tested
            and self.n_undecidable <= MAX_UNDECIDABLE * self.n_exceptions
        )


@dataclass(frozen=True, slots=True)
class Ballot:
    """The votes of one dependency, by group.

    `group` is the group of each row that takes part, -1 for the others. Of each group, `size` rows have a value,
    `n_for` of them the value `winner` (-1 if two values have equally many), which `origin` has in the table.
    `outvoted` are the rows in conflict that have another value, ascending; `in_conflict` marks all rows in conflict.
    """

    dependency: Dependency
    group: Int64Array
    size: Int64Array
    n_for: Int64Array
    winner: Int64Array
    origin: Int64Array
    outvoted: Int64Array
    in_conflict: BoolArray
    fit: Fit


def hold_vote(dependency: Dependency, cells: Cells) -> Ballot:
    """Let the groups of a dependency vote."""
    assert dependency.target is not None
    members = cells.members(dependency, voting=True)
    rows = np.arange(cells.table.n_rows) if members is None else np.flatnonzero(members)
    keys, _, _ = cells.key_codes(dependency.key, None if members is None else rows)
    groups, _, n_groups = dense_groups(keys, keys[:0])
    # One empty group if no row takes part, so that -1 is a place.
    n_groups = max(n_groups, 1)
    values = cells.values(dependency.target)[rows]
    has_value = cells.has_value(dependency.target)
    votes = np.ones(rows.size, np.bool_) if has_value is None else has_value[rows]
    size = np.bincount(groups[votes], minlength=n_groups)
    winner = np.full(n_groups, _NOTHING, np.int64)
    winner[groups[votes]] = values[votes]
    is_broken = np.zeros(n_groups, np.bool_)
    is_broken[groups[votes & (values != winner[groups])]] = True
    n_for, origin = size.copy(), np.full(n_groups, _NOTHING, np.int64)
    undecided = votes & is_broken[groups]
    _count(groups[undecided], values[undecided], rows[undecided], n_for, winner, origin)
    fit = _fit(size, n_for)
    if cells.nulls is Nulls.EQUAL:
        # A row without a value is in conflict also with a group that agrees. Backwards, to keep the first row of each.
        agreeing = np.flatnonzero(votes & ~is_broken[groups])[::-1]
        origin[groups[agreeing]] = rows[agreeing]
        empty = groups[~votes]
        is_broken[empty[size[empty] > 0]] = True
    of_row = np.full(cells.table.n_rows, _NOTHING, np.int64)
    of_row[rows] = groups
    in_conflict = np.zeros(cells.table.n_rows, np.bool_)
    in_conflict[rows] = is_broken[groups]
    is_outvoted = is_broken[groups] & (winner[groups] != _NOTHING) & (values != winner[groups])
    origins = np.where(origin >= 0, cells.origins(dependency.target, np.maximum(origin, 0)), _NOTHING)
    return Ballot(dependency, of_row, size, n_for, winner, origins, rows[is_outvoted], in_conflict, fit)


def _count(
    groups: Int64Array, values: Int64Array, rows: Int64Array, n_for: Int64Array, winner: Int64Array, origin: Int64Array
) -> None:
    """Find the most frequent value of groups with several; fills the last three arrays at these groups."""
    if not groups.size:
        return
    places = sorted_places(groups, values)
    groups, values, rows = groups[places], values[places], rows[places]
    starts = np.flatnonzero(np.concatenate(([True], (groups[1:] != groups[:-1]) | (values[1:] != values[:-1]))))
    counts = np.diff(np.append(starts, groups.size))
    of_run = groups[starts]
    first_runs = np.flatnonzero(np.concatenate(([True], of_run[1:] != of_run[:-1])))
    broken = of_run[first_runs]
    n_for[broken] = np.maximum.reduceat(counts, first_runs)
    is_most = counts == n_for[of_run]
    n_most = np.add.reduceat(is_most.astype(np.int64), first_runs)
    winner[of_run[is_most]] = values[starts[is_most]]
    origin[of_run[is_most]] = rows[starts[is_most]]
    winner[broken[n_most > 1]] = _NOTHING


def _fit(size: Int64Array, n_for: Int64Array) -> Fit:
    exceptions = size - n_for
    return Fit(int(size[size > 1].sum()), int(exceptions.sum()), int(exceptions[size < ENOUGH_ROWS].sum()))


@dataclass(frozen=True, slots=True)
class Votes:
    """New values for cells of one column: rows ascending, the code and the origin of the value, and how sure it is.

    `supports` says for each ballot and row whether it votes for the value. `lead` is the ballot that explains it best,
    in which `n_for` of `n_votes` rows have the value; `is_empty` if the row itself has none.
    """

    name: str
    ballots: tuple[Ballot, ...]
    rows: Int64Array
    values: Int64Array
    origins: Int64Array
    confidence: Float64Array
    supports: BoolArray
    lead: Int64Array
    n_for: Int64Array
    n_votes: Int64Array
    is_empty: BoolArray

    def take(self, kept: BoolArray) -> Votes:
        return Votes(
            self.name,
            self.ballots,
            self.rows[kept],
            self.values[kept],
            self.origins[kept],
            self.confidence[kept],
            self.supports[:, kept],
            self.lead[kept],
            self.n_for[kept],
            self.n_votes[kept],
            self.is_empty[kept],
        )


def candidates(
    name: str, ballots: Sequence[Ballot], cells: Cells, may_change: BoolArray, min_confidence: float
) -> Votes:
    """What the ballots about one column agree on for the rows that at least one of them outvotes."""
    rows = reduce(np.union1d, (ballot.outvoted for ballot in ballots))
    rows = rows[may_change[rows]]
    has_value = cells.has_value(name)
    is_empty = np.zeros(rows.size, np.bool_) if has_value is None else ~has_value[rows]
    own = cells.values(name)[rows]
    values, n_for, n_votes, origins = (np.zeros((len(ballots), rows.size), np.int64) for _ in range(4))
    for number, ballot in enumerate(ballots):
        group = ballot.group[rows]
        n_all = np.where(group >= 0, ballot.size[group] + is_empty, 0)
        takes_part = n_all > 1
        values[number] = np.where(takes_part, ballot.winner[group], _NOTHING)
        n_for[number] = np.where(takes_part & (ballot.winner[group] != _NOTHING), ballot.n_for[group], 0)
        n_votes[number] = np.where(takes_part, n_all, 0)
        origins[number] = np.where(takes_part, ballot.origin[group], _NOTHING)
    # Votes for the value of each ballot, over all ballots; none for the value that the row has.
    is_new = (values != own) & (values != _NOTHING)
    totals = np.zeros_like(values)
    for number in range(len(ballots)):
        totals[number] = np.where(is_new[number], np.where(values == values[number], n_for, 0).sum(axis=0), 0)
    most = totals.max(axis=0)
    best = np.argmax(totals, axis=0)
    columns = np.arange(rows.size)
    chosen = values[best, columns]
    is_tied = ((totals == most) & is_new & (values != chosen)).any(axis=0)
    supports = is_new & (values == chosen)
    # One more vote against it in each ballot: groups that are the same in two ballots then count once.
    confidence = most / np.maximum((n_votes + (n_votes > 0)).sum(axis=0), 1)
    lead = np.argmax(np.where(supports, n_for / np.maximum(n_votes, 1), -1.0), axis=0)
    found = Votes(
        name,
        tuple(ballots),
        rows,
        chosen,
        origins[lead, columns],
        confidence,
        supports,
        lead,
        n_for[lead, columns],
        n_votes[lead, columns],
        is_empty,
    )
    return found.take((most > 0) & ~is_tied & (confidence >= min_confidence - _ROUNDING))


def without_doubtful(found: Sequence[Votes]) -> list[Votes]:
    """Leave out values whose reason is itself in doubt: a cell that led to the row's group has a new value, too.

    They may come back in a later round, when that cell has its new value. If two cells are each the reason to change
    the other, the surer one is kept, or neither.
    """
    of_name = {one.name: one for one in found}
    kept = []
    for one in found:
        doubtful = np.zeros(one.rows.size, np.bool_)
        for number, ballot in enumerate(one.ballots):
            for reason in ballot.dependency.evidence & of_name.keys():
                doubtful |= one.supports[number] & _doubts(one, of_name[reason])
        kept.append(one.take(~doubtful))
    return kept


def _doubts(one: Votes, other: Votes) -> BoolArray:
    """For each row of `one`, whether the row is also in `other`, and should be changed there rather than here."""
    if not other.rows.size:
        return np.zeros(one.rows.size, np.bool_)
    places = np.minimum(np.searchsorted(other.rows, one.rows), other.rows.size - 1)
    is_both = other.rows[places] == one.rows
    depends = np.zeros(other.rows.size, np.bool_)
    for number, ballot in enumerate(other.ballots):
        if one.name in ballot.dependency.evidence:
            depends |= other.supports[number]
    is_surer = one.confidence > other.confidence[places] + _ROUNDING
    doubts: BoolArray = is_both & ~(depends[places] & is_surer)
    return doubts


def effects(found: Votes, dependencies: Sequence[Dependency], cells: Cells) -> tuple[Int64Array, Int64Array]:
    """How many violations of keys and dependencies each change removes and adds, if it is the only one of its round."""
    removed, added = np.zeros((2, found.rows.size), np.int64)
    for dependency in dependencies:
        if found.name in dependency.columns and found.name not in dependency.conditions:
            less, more = _effect(found, dependency, cells)
            removed += less
            added += more
    return removed, added


def _effect(found: Votes, dependency: Dependency, cells: Cells) -> tuple[Int64Array, Int64Array]:
    mask = cells.members(dependency, voting=False)
    rows = None if mask is None else np.flatnonzero(mask)
    is_member = np.ones(found.rows.size, np.bool_) if mask is None else mask[found.rows]
    target = dependency.target

    def sizes(names: Sequence[str], *, changed: bool) -> Int64Array:
        """How many rows agree with each candidate in these columns, with its value now or with the new one."""
        asked = {name: cells.values(name)[found.rows] for name in names}
        if changed and found.name in asked:
            asked[found.name] = found.values
        keys, wanted, _ = cells.key_codes(names, rows, asked or {"": found.rows})
        groups, of_wanted, n_groups = dense_groups(keys, wanted)
        return np.bincount(groups, minlength=n_groups)[of_wanted]

    key = dependency.key
    if target is None:
        # The row itself is among those that agree with it now.
        less, more = sizes(key, changed=False) - 1, sizes(key, changed=True)
    elif found.name == target:
        less, more = sizes((*key, target), changed=True), sizes((*key, target), changed=False) - 1
    else:
        less = sizes(key, changed=False) - sizes((*key, target), changed=False)
        more = sizes(key, changed=True) - sizes((*key, target), changed=True)
    # Each pair counts in both directions.
    return np.where(is_member, 2 * less, 0), np.where(is_member, 2 * more, 0)
