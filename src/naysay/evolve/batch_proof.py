"""Proof that a batch breaks no rule beyond those that are known to break, without comparing its rows with all others.

A rule that held before can only be broken by a pair with a new row. If an old row has the same values in the columns
of the rule, the new one adds nothing to it: the two are exchangeable, and the pairs of the old one break nothing. So
a rule is proven if each new row repeats an old one in its columns, or was compared with all rows, which is worth while
if those are few. What is left is verified on the whole table.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from naysay.arrays import BoolArray, Int32Array, Int64Array, UInt64Array
from naysay.discovery.problem import Problem
from naysay.discovery.verify import _PAIRS_PER_SECOND
from naysay.discovery.vertices import to_int
from naysay.evolve.covers import are_within
from naysay.evolve.delta import compare_blocks, run_tasks
from naysay.evolve.proof import ProvenCovers, Prover
from naysay.evolve.relation import EncodedRows

# The new rows that are compared with all rows first: what many of them break is learnt at once.
_FIRST_ROWS = 32
# New rows are looked for in this part of the old ones first, to see how many will be left.
_FIRST_PART = 8
# The most covers that comparing a few rows may be expected to prove.
_MOST_PROVEN = 12


class BatchProver(Prover):
    """Proves the covers of all rows, of which the last are new; `held` are covers that no pair of the others breaks."""

    def __init__(self, problem: Problem, rows: EncodedRows, known: ProvenCovers, held: UInt64Array, n_new: int) -> None:
        super().__init__(problem, rows, known, held[:0])
        self._held, self._n_old, self._n_new = held, rows.n_rows - n_new, n_new
        # Which new rows were compared with all rows.
        self._met = np.zeros(n_new, np.bool_)
        # For some fields, which new rows are not known to repeat an old row in them.
        self._fresh_in: dict[tuple[int, ...], BoolArray] = {}

    def update(self, max_groups: int, limit: int) -> bool:
        """Bring the covers up to date with the edges, and prove what the new rows cannot break."""
        self._meet(np.arange(min(_FIRST_ROWS, self._n_new)))
        while super().update(max_groups, limit):
            places = self._worth_meeting()
            if not places.size:
                return True
            self._meet(places)
        return False

    def _meet(self, places: Int64Array) -> None:
        """Compare some new rows with all rows, and learn what breaks a cover."""
        places = places[~self._met[places]]
        if not places.size:
            return
        self._met[places] = True
        at, n_rows = places + self._n_old, self._rows.n_rows
        zeros = np.zeros_like(at)
        before = np.stack([at, at + 1, zeros, at, zeros], axis=1)
        behind = np.stack([at, at + 1, at + 1, np.full_like(at, n_rows), zeros], axis=1)
        layout, n_threads = self._proof.layout, self.problem.budget.threads
        seen = compare_blocks(self._rows, self._rows, np.concatenate([before, behind]), layout, n_threads)
        self.learn_breaking(seen.both_ways(layout))

    def _worth_meeting(self) -> Int64Array:
        """New rows that are worth comparing with all rows: few that keep many covers from being proven.

        Covers that no new row can break are noted as verified.
        """
        covers = [to_int(cover) for cover in self.open_covers() if are_within(self._held, cover).any()]
        fields = {cover: self._fields_to_repeat(cover) for cover in covers}
        self._look_up({names for names in fields.values() if names is not None})
        left: list[BoolArray] = []
        for cover, names in fields.items():
            if names is not None:
                may_break = self._fresh_in[names] & ~self._met
                if may_break.any():
                    left.append(may_break)
                else:
                    self.verified.add(cover)
        return self._choose_rows(left)

    def _fields_to_repeat(self, cover: int) -> tuple[int, ...] | None:
        """The fields in which a new row must repeat an old one so that it breaks nothing; None if that is not enough.

        It is not if two equal rows break the rule, or if it compares different columns.
        """
        conditions = self.verifier.conditions_of(cover)
        fields = self.problem.outcomes.layout.fields
        if conditions.reflexive or any(fields[number].comparison.across for number in conditions.fields):
            return None
        return tuple(sorted(conditions.fields))

    def _look_up(self, wanted: set[tuple[int, ...]]) -> None:
        """Find out which new rows repeat an old row in some fields; where that would be few, not of all old rows."""
        from naysay.kernels.evidence.agree import are_new

        n_old, first = self._n_old, self._n_old // _FIRST_PART
        missing = sorted(wanted - self._fresh_in.keys())

        def lines(fields: tuple[int, ...], start: int, stop: int) -> Int32Array:
            return np.ascontiguousarray(self._rows.left[:, start:stop][list(fields)])

        def look_up(fields: tuple[int, ...]) -> BoolArray:
            few = lines(fields, n_old, self._rows.n_rows)
            found: BoolArray = are_new(few, lines(fields, 0, first))
            places = np.flatnonzero(found)
            # As many will be left as if each part of the old rows repeated the same share.
            if places.size and self._n_new * (places.size / self._n_new) ** _FIRST_PART <= self._most_rows():
                found[places] = are_new(np.ascontiguousarray(few[:, places]), lines(fields, first, n_old))
            return found

        found = run_tasks([partial(look_up, fields) for fields in missing], self.problem.budget.threads)
        self._fresh_in.update(zip(missing, found, strict=True))

    def _choose_rows(self, left: list[BoolArray]) -> Int64Array:
        """The rows to compare with all rows, given those that each cover needs: as long as that is cheaper than
        verifying the covers."""
        left.sort(key=np.count_nonzero)
        row_seconds = self._row_seconds()
        chosen = wanted = np.zeros(self._n_new, np.bool_)
        most = 0.0
        for n_covers, rows in enumerate(left, 1):
            wanted = wanted | rows
            saved = n_covers * self.costs.check_seconds() - int(np.count_nonzero(wanted)) * row_seconds
            if saved > most:
                chosen, most = wanted, saved
        return np.flatnonzero(chosen)

    def _row_seconds(self) -> float:
        """The seconds for comparing a row with all others."""
        return self.costs.n_rows / _PAIRS_PER_SECOND / self.problem.budget.threads

    def _most_rows(self) -> float:
        """The most rows that it may be worth comparing with all rows."""
        return _MOST_PROVEN * self.costs.check_seconds() / self._row_seconds()
