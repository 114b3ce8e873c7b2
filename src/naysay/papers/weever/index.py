"""Weever's method as indexes of a watch: one that keeps violations as sets of rows, and one that counts them.

Both are here for comparison: the default indexes give the same results, and are faster for batches and large tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from naysay.arrays import Int64Array
from naysay.budget import Stopped
from naysay.errors import ResourceError, StateError
from naysay.papers.weever.detector import Detector, Partners
from naysay.papers.weever.schedule import Scheduler, schedule_rules
from naysay.plan.join import Join
from naysay.rule.model import Nulls, Row
from naysay.watch import tree_index
from naysay.watch.batch import NO_PAIRS, CodedRows, PairDelta, RowChange, SlotPairs


class PairSets:
    """Violations as rows with their partners."""

    def __init__(self, reflexive: bool) -> None:
        self.reflexive = reflexive
        self.found: list[tuple[int, Row, Int64Array]] = []
        self.n_pairs = 0

    def add(self, slot: int, row: Row, partners: BitMap) -> None:
        # The set itself will change with the violations of its row.
        self.found.append((slot, row, np.asarray(partners.to_array(), np.int64)))
        self.n_pairs += len(partners) * (2 if self.reflexive else 1)

    def pairs(self) -> SlotPairs:
        if not self.found:
            return NO_PAIRS
        own = np.repeat([slot for slot, _, _ in self.found], [len(partners) for _, _, partners in self.found])
        other = np.concatenate([partners for _, _, partners in self.found])
        if self.reflexive:
            return SlotPairs(np.concatenate((own, other)), np.concatenate((other, own)))
        is_left = np.repeat([row is Row.LEFT for _, row, _ in self.found], [len(part) for _, _, part in self.found])
        return SlotPairs(np.where(is_left, own, other), np.where(is_left, other, own))


class ViolationSets:
    """The violations of a rule: for each row and side, the set of its partners. The sides of a reflexive rule agree."""

    def __init__(self, reflexive: bool) -> None:
        self.reflexive = reflexive
        left: dict[int, BitMap] = {}
        self._partners: dict[Row, dict[int, BitMap]] = {Row.LEFT: left, Row.RIGHT: left if reflexive else {}}

    def load(self, slot: int, partners: BitMap) -> None:
        """Set the right partners of a row, one row after the other. Those of a reflexive rule come from both rows."""
        self._partners[Row.LEFT][slot] = partners
        if not self.reflexive:
            self._add_to(partners, slot, Row.RIGHT)

    def add(self, slot: int, row: Row, partners: BitMap) -> None:
        """Add the partners of a row, and the row to the sets of its partners. Keeps the set that it is given."""
        mine = self._partners[row]
        if slot in mine:
            mine[slot] |= partners
        else:
            mine[slot] = partners
        self._add_to(partners, slot, row.other)

    def remove(self, slot: int, removed: PairSets) -> None:
        """Remove the violations of a row from the sets of both rows (section 5.6)."""
        for row in (Row.LEFT,) if self.reflexive else Row:
            partners = self._partners[row].pop(slot, None)
            if partners is None:
                continue
            removed.add(slot, row, partners)
            others = self._partners[row.other]
            for partner in partners:
                found = others[partner]
                found.remove(slot)
                if not found:
                    del others[partner]

    def pairs(self) -> SlotPairs:
        # The sets of the left rows have all pairs, those of a reflexive rule in both directions.
        found = PairSets(reflexive=False)
        for slot, partners in self._partners[Row.LEFT].items():
            found.add(slot, Row.LEFT, partners)
        return found.pairs()

    def _add_to(self, rows: BitMap, slot: int, side: Row) -> None:
        sets = self._partners[side]
        for row in rows:
            found = sets.get(row)
            if found is None:
                sets[row] = BitMap((slot,))
            else:
                found.add(slot)


class _WeeverIndex:
    """What both indexes have: a detector, which a change that was interrupted leaves unusable."""

    def __init__(self, schema: pa.Schema, nulls: Nulls, scheduler: Scheduler = schedule_rules) -> None:
        self.detector = Detector(schema, nulls, scheduler)
        self._is_torn = False

    def recode(self, rows: CodedRows) -> None:
        self.detector.index_all(rows)

    @contextmanager
    def _changing(self, undo: Callable[[], None]) -> Iterator[None]:
        """Undo a change that is refused or called off; after anything else, such as Ctrl-C, refuse to go on."""
        if self._is_torn:
            raise StateError("a change of this watch was interrupted; open its state again, or make a new watch")
        self._is_torn = True
        try:
            yield
        except (ResourceError, Stopped):
            undo()
            self._is_torn = False
            raise
        self._is_torn = False


class Weever(_WeeverIndex):
    """An index that keeps all violations, so that deletes need no predicates."""

    keeps_violations = True

    def __init__(self, schema: pa.Schema, nulls: Nulls, scheduler: Scheduler = schedule_rules) -> None:
        super().__init__(schema, nulls, scheduler)
        self._found: dict[str, ViolationSets] = {}

    def add(self, name: str, join: Join, rows: CodedRows) -> None:
        self.detector.add(name, join, rows)
        found = ViolationSets(self.detector.rules[name].reflexive)
        n_pairs = 0
        try:
            for slot, partners in self.detector.load(name, rows):
                n_pairs += len(partners)
                _require_pairs(n_pairs)
                found.load(slot, partners)
        except BaseException:
            self.detector.remove(name)
            raise
        self._found[name] = found

    def remove(self, name: str) -> None:
        self.detector.remove(name)
        del self._found[name]

    def violations(self, name: str, rows: CodedRows) -> SlotPairs:
        return self._found[name].pairs()

    def change(self, edit: RowChange, stamps: Int64Array) -> dict[str, PairDelta]:
        removed, added = self._no_pairs(), self._no_pairs()
        done: list[int] = []
        with self._changing(lambda: self._undo(edit, done, removed)):
            self._forget(edit.old, removed)
            self.detector.take_out(edit.old)
            for place, slot, partners in self.detector.insert(edit.new):
                for (name, _), found in partners.items():
                    _require_pairs(added[name].n_pairs + len(found))
                for (name, row), found in partners.items():
                    added[name].add(slot, row, found)
                    self._found[name].add(slot, row, found)
                done.append(place)
        return {name: PairDelta(removed[name].pairs(), added[name].pairs()) for name in self._found}

    def _undo(self, edit: RowChange, done: list[int], removed: dict[str, PairSets]) -> None:
        new = edit.new.take(np.array(done, np.int64))
        self._forget(new, self._no_pairs())
        self.detector.take_out(new)
        self.detector.put_back(edit.old)
        for name, gone in removed.items():
            for slot, row, partners in gone.found:
                self._found[name].add(slot, row, BitMap(partners))

    def _no_pairs(self) -> dict[str, PairSets]:
        return {name: PairSets(found.reflexive) for name, found in self._found.items()}

    def _forget(self, rows: CodedRows, removed: dict[str, PairSets]) -> None:
        for slot in rows.slots.tolist():
            for name, found in self._found.items():
                found.remove(slot, removed[name])


class WeeverCounts(_WeeverIndex):
    """An index that only counts violations (section 6.2.1). A row to delete passes through the predicates once more."""

    def add(self, name: str, join: Join, rows: CodedRows) -> int:
        self.detector.add(name, join, rows)
        try:
            return sum(len(partners) for _, partners in self.detector.load(name, rows))
        except BaseException:
            self.detector.remove(name)
            raise

    def remove(self, name: str) -> None:
        self.detector.remove(name)

    def n_conflicting(self, name: str, rows: CodedRows) -> int:
        conflicting = BitMap()
        for slot, partners in self.detector.load(name, rows):
            conflicting |= partners
            conflicting.add(slot)
        return len(conflicting)

    def change(self, edit: RowChange) -> dict[str, int]:
        growth = dict.fromkeys(self.detector.rules, 0)
        n_gone = 0
        done: list[int] = []

        def undo() -> None:
            self.detector.take_out(edit.new.take(np.array(done, np.int64)))
            self.detector.put_back(edit.old.take(np.arange(n_gone)))

        with self._changing(undo):
            for partners in self.detector.delete(edit.old):
                self._count(growth, partners, -1)
                n_gone += 1
            for place, _, partners in self.detector.insert(edit.new):
                self._count(growth, partners, 1)
                done.append(place)
        return growth

    def _count(self, growth: dict[str, int], partners: Partners, sign: int) -> None:
        for (name, _), found in partners.items():
            growth[name] += sign * len(found) * (2 if self.detector.rules[name].reflexive else 1)


def _require_pairs(n_pairs: int) -> None:
    if n_pairs > tree_index.MAX_PAIRS:
        raise tree_index.too_many_violations()
