"""Suggest new values for cells: dependencies vote, round by round, until none of them has more to say."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from naysay.arrays import BoolArray, Int64Array
from naysay.detect.engine import LocalEngine
from naysay.detect.request import CheckOptions
from naysay.detect.summary import check_key
from naysay.repairs.cells import Cells, dependency_of
from naysay.repairs.result import Origins, Repair, RuleRepair, Suggestion, changed_table, is_data_frame
from naysay.repairs.votes import (
    ENOUGH_ROWS,
    MAX_EXCEPTIONS,
    Ballot,
    Fit,
    Votes,
    candidates,
    effects,
    hold_vote,
    without_doubtful,
)
from naysay.rule import explain_vote
from naysay.rule.describe import HIDDEN
from naysay.rule.model import Rule
from naysay.table import Table
from naysay.table.frame import plain_records, plain_values

# Suggestions that follow from others come in later rounds; real tables need two or three.
_MOST_ROUNDS = 10
_NO_VOTE = "only dependencies such as zip -> city suggest values"


def repair(table: Table, rules: Sequence[Rule], options: CheckOptions, min_confidence: float, frame: Any) -> Repair:
    """Suggest values for the cells of a table, and count what remains of the violations.

    `frame` is what the table was read from, which decides what a changed copy is.
    """
    started = time.perf_counter()
    engine = LocalEngine(table)
    check_key(table, options.key)
    before = engine.count(rules, options)
    session = _Session(table, rules, options, min_confidence)
    session.run()
    origins = session.origins()
    changed = LocalEngine(changed_table(table.arrow, origins)) if origins else engine
    after = changed.count(rules, replace(options, has_fitted=True)) if origins else before
    suggestions = tuple(sorted(session.suggestions, key=lambda one: (one.row, table.names.index(one.column))))
    n_of_rule = np.bincount([number for one in suggestions for number in one.rules], minlength=len(rules))
    return Repair(
        suggestions,
        tuple(
            RuleRepair(rule, before[number], after[number], int(n_of_rule[number]), session.abstains(number))
            if before[number] and not n_of_rule[number]
            else RuleRepair(rule, before[number], after[number], int(n_of_rule[number]))
            for number, rule in enumerate(rules)
        ),
        source="",
        n_rows=table.n_rows,
        min_confidence=min_confidence,
        key=options.key,
        nulls=options.nulls,
        seconds=time.perf_counter() - started,
        data=table,
        # Read again, a query or a reader might return other rows, or the same ones in another order.
        frame=frame if is_data_frame(frame) else table,
        origins=origins,
    )


class _Session:
    """The cells of a table between rounds, and the suggestions so far."""

    def __init__(self, table: Table, rules: Sequence[Rule], options: CheckOptions, min_confidence: float) -> None:
        found = (dependency_of(number, rule) for number, rule in enumerate(rules))
        self.dependencies = [dependency for dependency in found if dependency is not None]
        self.voters = [dependency for dependency in self.dependencies if dependency.target is not None]
        names = dict.fromkeys(name for dependency in self.dependencies for name in sorted(dependency.columns))
        self.table = table
        self.options = options
        self.min_confidence = min_confidence
        self.cells = Cells(table, list(names), options.nulls)
        self.fits: dict[int, Fit] = {}
        self.suggestions: list[Suggestion] = []
        # Where a cell may still change: in rows that were in conflict, and once.
        self.may_change: dict[str, BoolArray] = {}
        self._ballots: dict[int, Ballot] = {}
        self._changed: dict[str, list[tuple[Int64Array, Int64Array]]] = {}

    def run(self) -> None:
        stale = self.voters
        for number in range(1, _MOST_ROUNDS + 1):
            for dependency in stale:
                self._ballots[dependency.place] = hold_vote(dependency, self.cells)
            if number == 1:
                self._begin()
            changed = self._round(number)
            stale = [dependency for dependency in self.voters if dependency.columns & changed]
            if not changed:
                return

    def _begin(self) -> None:
        """After the first vote: which rules fit the table, and which rows are in conflict."""
        in_conflict = np.zeros(self.table.n_rows, np.bool_)
        for ballot in self._ballots.values():
            self.fits[ballot.dependency.place] = ballot.fit
            in_conflict |= ballot.in_conflict
        self.voters = [dependency for dependency in self.voters if self.fits[dependency.place].is_trusted]
        targets = {dependency.target for dependency in self.voters}
        self.may_change = {target: in_conflict.copy() for target in targets if target is not None}

    def _round(self, number: int) -> set[str]:
        """Make the suggestions of a round; return the columns that they change."""
        found = []
        for name in sorted(self.may_change):
            ballots = [self._ballots[voter.place] for voter in self.voters if voter.target == name]
            found.append(candidates(name, ballots, self.cells, self.may_change[name], self.min_confidence))
        found = [one for one in without_doubtful([one for one in found if one.rows.size]) if one.rows.size]
        # All of a round have the same table before them.
        for one in found:
            self.suggestions += self._described(one, number)
        for one in found:
            self.cells.change(one.name, one.rows, one.origins)
            self.may_change[one.name][one.rows] = False
            self._changed.setdefault(one.name, []).append((one.rows, one.origins))
        return {one.name for one in found}

    def _described(self, found: Votes, number: int) -> list[Suggestion]:
        removed, added = effects(found, self.dependencies, self.cells)
        old = plain_values(_taken(self.table, found.name, found.rows))
        new = plain_values(_taken(self.table, found.name, found.origins))
        key, hide = self.options.key, self.options.hide
        if found.name in hide:
            old, new = [HIDDEN] * len(old), [HIDDEN] * len(new)
        rows = found.rows.tolist()
        identities = plain_records(self.table.select(key).take(found.rows)) if key else [{"row": row} for row in rows]
        hidden = dict.fromkeys((name for name in key if name in hide), HIDDEN)
        identities = [identity | hidden for identity in identities]
        places = np.array([ballot.dependency.place for ballot in found.ballots])
        return [
            Suggestion(
                row,
                identities[i],
                found.name,
                old[i],
                new[i],
                reason,
                float(found.confidence[i]),
                int(removed[i]),
                int(added[i]),
                tuple(places[found.supports[:, i]].tolist()),
                number,
            )
            for i, (row, reason) in enumerate(zip(rows, self._reasons(found, new), strict=True))
        ]

    def _reasons(self, found: Votes, new: Sequence[Any]) -> list[str]:
        reasons = [""] * found.rows.size
        n_more = found.supports.sum(axis=0) - 1
        for number, ballot in enumerate(found.ballots):
            led = np.flatnonzero(found.lead == number)
            names = ballot.dependency.key
            rows = found.rows[led]
            columns = [plain_values(_taken(self.table, name, self.cells.origins(name, rows))) for name in names]
            for i, *values in zip(led.tolist(), *columns, strict=True):
                is_empty = bool(found.is_empty[i])
                n_votes = int(found.n_votes[i]) - is_empty
                group = dict(zip(names, values, strict=True))
                group |= dict.fromkeys((name for name in names if name in self.options.hide), HIDDEN)
                reasons[i] = explain_vote(group, new[i], int(found.n_for[i]), n_votes, is_empty=is_empty)
                if n_more[i]:
                    reasons[i] += f"; {n_more[i]} more {'rule agrees' if n_more[i] == 1 else 'rules agree'}"
        return reasons

    def origins(self) -> Origins:
        """The changes of all rounds, by column."""
        return {
            name: (np.concatenate([rows for rows, _ in parts]), np.concatenate([origins for _, origins in parts]))
            for name, parts in sorted(self._changed.items())
        }

    def abstains(self, number: int) -> str:
        """Why a broken rule suggests nothing."""
        fit = self.fits.get(number)
        if fit is None:
            return _NO_VOTE
        if fit.n_exceptions > MAX_EXCEPTIONS * fit.n_tested:
            return f"{fit.n_exceptions:,} of {fit.n_tested:,} rows are exceptions: the rule does not fit the data"
        if not fit.is_trusted:
            return (
                f"{fit.n_undecidable:,} of its {fit.n_exceptions:,} exceptions are in groups of fewer than "
                f"{ENOUGH_ROWS} rows: the rule may not fit the data"
            )
        return f"no vote reaches the confidence of {self.min_confidence:g}"


def _taken(table: Table, name: str, rows: Int64Array) -> pa.ChunkedArray:
    return table.select([name]).take(rows).column(0)
