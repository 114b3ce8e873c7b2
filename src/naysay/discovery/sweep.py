"""How many wrong rows a table seems to have: the error to search for rules with, and why, in words.

All rules of two predicates are measured by the fewest rows to remove, once, on the table or a sample of its rows. A
rule is *clear* if that is at most half of what it would be if its two predicates had nothing to do with each other: at
least the product of what each needs alone, for a dependency the rows that repeat a value on the left times those that
do not have the commonest one on the right. Clear rules that hold need no error. Those that wrong
rows break appear one after the other as more rows may be removed, up to the share of wrong rows; beyond it come other
rules, if any, after a gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10, sqrt

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.discovery.measured import SAMPLE_ROWS, LevelSearch, Square, draw
from naysay.discovery.problem import Problem

# With fewer rows there is nothing to tell wrong rows from chance by.
FEWEST_ROWS = 100
# The largest error that is chosen: nobody calls more rows than that exceptions.
_LARGEST = 0.1
# Rules are measured up to this share of the rows, so that the gap after the last one can be seen.
_MEASURED = 0.2
# A clear rule needs at most this share of the rows that chance would, which must be at least so many.
_SHARE_OF_CHANCE, _FEWEST_BY_CHANCE = 0.5, 20
# A table looks dirty if so many times more clear rules are broken than hold, and at least so many.
_TIMES_MORE, _FEWEST_BROKEN = 4, 5
# How many standard errors are added to a share that was measured on a sample.
_STANDARD_ERRORS = 2.0
_SHARE_OF_TIME = 0.2


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
        then = "none follows up to" if self.following is None else "the next one is broken by"
        return (
            f"of the rules of two predicates that are hardly a coincidence, {_verb(self.n_holding, 'holds', 'hold')} "
            f"for all rows and {_verb(len(self.broken), 'is', 'are')} broken by a few: such rules appear steadily up "
            f"to {percent(self.broken[-1])} of the rows, then {then} {percent(self.following or _MEASURED)}"
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

    search = LevelSearch(problem, evaluate, 0)
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
