"""Weever's own work: a new row passes through the predicates of all rules, and each leaves fewer candidates.

Kaminsky, Pena, Naumann, Incremental Detection of Denial Constraint Violations, section 5. Constants, nulls and filters
on single rows go beyond the paper: the last candidates are intersected with the rows that are eligible for their side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from naysay.errors import ResourceError
from naysay.live.columns import Coded
from naysay.papers import MethodLimits
from naysay.papers.weever.column import ColumnIndex
from naysay.papers.weever.schedule import PairPredicate, Schedule, Scheduler, schedule_rules
from naysay.plan.join import Join
from naysay.rule.model import Nulls, Op, Row
from naysay.watch.batch import CodedRows, JoinColumns, columns_of

_OP = {(False, True): Op.LT, (False, False): Op.LE, (True, True): Op.GT, (True, False): Op.GE}
# Sets of rows hold 32-bit integers.
_MAX_SLOTS = 1 << 32


@dataclass(slots=True)
class Work:
    """What has been done: accesses to an index, refinements of a set of candidates, and schedules made."""

    look_ups: int = 0
    refinements: int = 0
    schedules: int = 0


def _bitmaps() -> dict[Row, BitMap]:
    return {row: BitMap() for row in Row}


@dataclass(slots=True)
class DetectedRule:
    """A rule with the rows that are eligible for each of its sides."""

    sides: JoinColumns
    parts: tuple[PairPredicate, ...]
    eligible: dict[Row, BitMap] = field(default_factory=_bitmaps)

    @property
    def columns(self) -> set[Coded]:
        return {coded for part in self.parts for coded in (part.left, part.right)}

    @property
    def reflexive(self) -> bool:
        """Both intermediates are always the same (section 3.2)."""
        return self.sides.symmetric and not self.sides.left.orders

    def places(self, rows: CodedRows, nulls: Nulls) -> dict[Row, set[int]]:
        """The places of rows that are eligible for each side."""
        left, right = self.sides.left, self.sides.right
        found = set(left.eligible(rows, nulls).tolist())
        return {Row.LEFT: found, Row.RIGHT: found if left == right else set(right.eligible(rows, nulls).tolist())}

    def enter(self, rows: CodedRows, nulls: Nulls) -> None:
        """Make rows eligible for the sides that they may take."""
        for row, side in ((Row.LEFT, self.sides.left), (Row.RIGHT, self.sides.right)):
            self.eligible[row] |= BitMap(rows.slots[side.eligible(rows, nulls)])


# For each rule and side of a new row that has some, its partners. Those of a reflexive rule are the same on both sides,
# and only those of its left side are here.
Partners = dict[tuple[str, Row], BitMap]


class Detector:
    """The indexes of all compared columns, and the schedule of all rules."""

    def __init__(self, schema: pa.Schema, nulls: Nulls, scheduler: Scheduler = schedule_rules) -> None:
        self.schema = schema
        self.nulls = nulls
        self.rules: dict[str, DetectedRule] = {}
        self.indexes: dict[str, ColumnIndex] = {}
        self.every = BitMap()
        self.work = Work()
        self._scheduler = scheduler
        self._n_changes = 0
        self.schedule = scheduler({}, self._cardinality, None)

    def add(self, name: str, join: Join, rows: CodedRows) -> None:
        """Detect another rule; `rows` are all current rows."""
        _require_slots(rows)
        sides = columns_of(self.schema, join)
        # Equal predicates are one object, so that they are compared quickly.
        known = {part: part for part in self.schedule.order}
        self.rules[name] = rule = DetectedRule(sides, tuple(known.get(part, part) for part in _predicates_of(sides)))
        self.every = BitMap(rows.slots)
        for column in {coded.column for coded in rule.columns}:
            spaces, ordered = self._uses(column)
            if column not in self.indexes or not self.indexes[column].suits(spaces, ordered=ordered):
                self._index(column, rows)
        rule.enter(rows, self.nulls)
        self._reschedule(None)

    def remove(self, name: str) -> None:
        """Forget a rule, and the indexes that no other one needs."""
        del self.rules[name]
        for column, index in list(self.indexes.items()):
            spaces, ordered = self._uses(column)
            if not spaces:
                del self.indexes[column]
            elif not index.suits(spaces, ordered=ordered):
                self.indexes[column] = index.reduced(spaces, ordered=ordered)
        self._reschedule(None)

    def index_all(self, rows: CodedRows) -> None:
        """Build all indexes again; `rows` are all current rows."""
        for column in self.indexes:
            self._index(column, rows)

    def insert(self, new: CodedRows) -> Iterator[tuple[int, int, Partners]]:
        """Algorithm 2 for each row, in the order of the first inequality's column (section 5.5).

        The place and the slot of each row with its partners; it is entered afterwards, unless the caller stops.
        """
        _require_slots(new)
        limits = _limits()
        cursor = Cursor.of(self.schedule)
        eligible = {name: rule.places(new, self.nulls) for name, rule in self.rules.items()}
        rows = list(self._each(new))
        for place in range(new.n_rows) if cursor is None else cursor.order(new):
            limits.check()
            slot, codes = rows[place]
            roles = {
                name: [row for row, places in by_row.items() if place in places] for name, by_row in eligible.items()
            }
            yield place, slot, Insertion(self, self.schedule, codes, roles, cursor).run()
            self._enter(slot, codes)
            for name, sides in roles.items():
                for row in sides:
                    self.rules[name].eligible[row].add(slot)
            if cursor is not None:
                cursor.enter(slot, codes)
            self._changed(1)

    def delete(self, old: CodedRows) -> Iterator[Partners]:
        """Take rows out one by one; the partners of each among the rows that are left. `take_out` finds no partners."""
        limits = _limits()
        for slot, codes in self._each(old):
            limits.check()
            roles = {name: self._leave(slot, rule) for name, rule in self.rules.items()}
            self._take_out(slot, codes)
            yield Insertion(self, self.schedule, codes, roles, None).run()

    def take_out(self, old: CodedRows) -> None:
        """Algorithm 3, without the violations: remove each row from the indexes and the set of all rows."""
        for slot, codes in self._each(old):
            for rule in self.rules.values():
                self._leave(slot, rule)
            self._take_out(slot, codes)

    def put_back(self, old: CodedRows) -> None:
        """Enter rows without looking for partners."""
        for slot, codes in self._each(old):
            self._enter(slot, codes)
        for rule in self.rules.values():
            rule.enter(old, self.nulls)

    def load(self, name: str, rows: CodedRows) -> Iterator[tuple[int, BitMap]]:
        """The right partners of each row of a rule, all rows being in the indexes already.

        Each pair has one left row, so the other intermediate is not needed.
        """
        limits = _limits()
        rule = self.rules[name]
        schedule = self._scheduler({name: rule.parts}, self._cardinality, None)
        cursor = Cursor.of(schedule)
        each = list(self._each(rows))
        for place in range(rows.n_rows) if cursor is None else cursor.order(rows):
            limits.check()
            slot, codes = each[place]
            if slot in rule.eligible[Row.LEFT]:
                for partners in Insertion(self, schedule, codes, {name: [Row.LEFT]}, cursor).run().values():
                    partners.discard(slot)
                    if partners:
                        yield slot, partners

    def _index(self, column: str, rows: CodedRows) -> None:
        spaces, ordered = self._uses(column)
        self.indexes[column] = ColumnIndex(spaces, ordered=ordered).fill(rows)

    def _uses(self, column: str) -> tuple[set[Coded], bool]:
        """The codes that rules read of a column, and whether some inequality compares it."""
        parts = [
            (coded, part.op)
            for rule in self.rules.values()
            for part in rule.parts
            for coded in (part.left, part.right)
            if coded.column == column
        ]
        return {coded for coded, _ in parts}, any(op.is_order for _, op in parts)

    def _cardinality(self, coded: Coded) -> int:
        return self.indexes[coded.column].n_values

    def _changed(self, n_rows: int) -> None:
        """Plan the schedule again once enough rows have changed for another order to be better."""
        self._n_changes += n_rows
        if self._n_changes >= self.schedule.slack:
            self._reschedule(self.schedule)

    def _reschedule(self, last: Schedule | None) -> None:
        parts = {name: rule.parts for name, rule in self.rules.items()}
        self.schedule = made = self._scheduler(parts, self._cardinality, last)
        self.work.schedules += last is None or made.rules is not last.rules
        self._n_changes = 0

    def _each(self, rows: CodedRows) -> Iterator[tuple[int, dict[Coded, int]]]:
        """The slot of each row, and its codes."""
        columns = [coded for index in self.indexes.values() for coded in index.spaces]
        codes = zip(*(rows.codes[coded].tolist() for coded in columns), strict=True) if columns else repeat(())
        for slot, values in zip(rows.slots.tolist(), codes, strict=bool(columns)):
            yield slot, dict(zip(columns, values, strict=True))

    def _enter(self, slot: int, codes: dict[Coded, int]) -> None:
        for index in self.indexes.values():
            index.insert(codes, slot)
        self.every.add(slot)

    def _take_out(self, slot: int, codes: dict[Coded, int]) -> None:
        for index in self.indexes.values():
            index.delete(codes, slot)
        self.every.discard(slot)
        self._changed(1)

    def _leave(self, slot: int, rule: DetectedRule) -> list[Row]:
        """The sides that a row no longer belongs to."""
        sides = [row for row in Row if slot in rule.eligible[row]]
        for row in sides:
            rule.eligible[row].remove(slot)
        return sides


@dataclass(slots=True)
class Cursor:
    """The rows below the last searched value, kept from one row of a batch to the next (section 5.5).

    For the first inequality of the schedule, with the new row on its left.
    """

    looked_at: Coded
    own: Coded
    below: BitMap = field(default_factory=BitMap)
    reached: int | None = None

    @staticmethod
    def of(schedule: Schedule) -> Cursor | None:
        for part in schedule.order:
            if part.op.is_order:
                return Cursor(part.right, part.left)
        return None

    def order(self, rows: CodedRows) -> list[int]:
        """The places of rows as they must come."""
        order: list[int] = np.argsort(rows.codes[self.own], kind="stable").tolist()
        return order

    def smaller(self, index: ColumnIndex, value: int) -> BitMap:
        index.extend(self.below, self.reached, self.looked_at, value)
        self.reached = value
        return self.below

    def enter(self, slot: int, codes: dict[Coded, int]) -> None:
        """A row has come that may be below what was searched already, if two columns are compared."""
        if self.reached is not None and codes[self.looked_at] < self.reached:
            self.below.add(slot)


Intermediates = dict[Row, BitMap | None]


class Insertion:
    """One row on its way through the schedule, with the remaining candidates (the intermediates) of each rule and side.

    A refinement never changes a set in place: rules share sets, and sets of the indexes are used as they are.
    """

    def __init__(
        self,
        detector: Detector,
        schedule: Schedule,
        codes: dict[Coded, int],
        roles: dict[str, list[Row]],
        cursor: Cursor | None,
    ) -> None:
        self._detector = detector
        self._schedule = schedule
        self._codes = codes
        self._cursor = cursor
        self._operands: dict[tuple[str, str, str], BitMap] = {}
        # A rule that reads the same both ways needs only one intermediate. None: all rows.
        self._left_over: dict[str, Intermediates] = {
            name: dict.fromkeys(rows[:1] if detector.rules[name].reflexive else rows) for name, rows in roles.items()
        }
        self._applied: dict[str, set[PairPredicate]] = {name: set() for name in roles}

    def run(self) -> Partners:
        """The partners of the row in violations, as new sets."""
        for prefix in self._schedule.prefixes:
            self._share(prefix.parts, prefix.rules)
        for name, parts in self._schedule.rules.items():
            for part in parts:
                if _is_finished(self._left_over[name]):
                    break
                if part not in self._applied[name]:
                    self._apply(part)
        return self._results()

    def _share(self, parts: Sequence[PairPredicate], rules: Sequence[str]) -> None:
        """Refine once for all rules that share a prefix."""
        shared: Intermediates = dict.fromkeys(row for name in rules for row in self._left_over[name])
        for part in parts:
            if _is_finished(shared):
                break
            self._refine(shared, part)
        for name in rules:
            self._left_over[name] = {row: shared[row] for row in self._left_over[name]}
            self._applied[name].update(parts)

    def _apply(self, part: PairPredicate) -> None:
        """Refine every rule that has this predicate and still has candidates: the operand is the same for all."""
        for name in self._schedule.users[part]:
            if part not in self._applied[name] and not _is_finished(self._left_over[name]):
                self._applied[name].add(part)
                self._refine(self._left_over[name], part)

    def _refine(self, found: Intermediates, part: PairPredicate) -> None:
        if part.is_reflexive and _agree(found):
            row = next(iter(found))
            refined = self._refined(found[row], part, row)
            for row in found:
                found[row] = refined
            return
        for row, candidates in found.items():
            if candidates is None or candidates:
                found[row] = self._refined(candidates, part, row)

    def _refined(self, found: BitMap | None, part: PairPredicate, row: Row) -> BitMap:
        """The candidates that a predicate leaves, the new row being `row` (section 5.1)."""
        looked_at, own = (part.right, part.left) if row is Row.LEFT else (part.left, part.right)
        # Seen from the partner: `partner op new`.
        op = part.op.flipped if row is Row.LEFT else part.op
        if op in (Op.EQ, Op.NE):
            operand = self._operand(looked_at, own, "equal")
        else:
            operand = self._operand(looked_at, own, "smaller" if op in (Op.LT, Op.GE) else "smaller or equal")
        self._detector.work.refinements += 1
        keeps = op in (Op.EQ, Op.LT, Op.LE)
        if found is None:
            return operand if keeps else self._detector.every - operand
        return found & operand if keeps else found - operand

    def _operand(self, looked_at: Coded, own: Coded, kind: str) -> BitMap:
        key = (looked_at.column, own.column, kind)
        if key not in self._operands:
            self._operands[key] = self._look_up(looked_at, own, kind)
        return self._operands[key]

    def _look_up(self, looked_at: Coded, own: Coded, kind: str) -> BitMap:
        if kind == "smaller or equal":
            return self._operand(looked_at, own, "smaller") | self._operand(looked_at, own, "equal")
        self._detector.work.look_ups += 1
        index, value = self._detector.indexes[looked_at.column], self._codes[own]
        if kind == "equal":
            return index.equal(looked_at, value)
        if self._cursor is not None and self._cursor.looked_at == looked_at and self._cursor.own == own:
            return self._cursor.smaller(index, value)
        return index.smaller(looked_at, value)

    def _results(self) -> Partners:
        found: Partners = {}
        for name, intermediates in self._left_over.items():
            eligible = self._detector.rules[name].eligible
            for row, candidates in intermediates.items():
                partners = (self._detector.every if candidates is None else candidates) & eligible[row.other]
                if partners:
                    found[name, row] = partners
        return found


def _is_finished(found: Intermediates) -> bool:
    return all(candidates is not None and not candidates for candidates in found.values())


def _agree(found: Intermediates) -> bool:
    """Whether all intermediates are the same set, so that = and != on one column leave the same of them."""
    first, *others = found.values()
    return all(other is first for other in others)


def _predicates_of(sides: JoinColumns) -> tuple[PairPredicate, ...]:
    left, right = sides.left, sides.right
    parts = [PairPredicate(one, Op.EQ, other) for one, other in zip(left.key, right.key, strict=True)]
    parts += [PairPredicate(one, Op.NE, other) for one, other in zip(left.differs, right.differs, strict=True)]
    orders = zip(left.orders, right.orders, sides.descending, sides.strict, strict=True)
    parts += [PairPredicate(one, _OP[descending, strict], other) for one, other, descending, strict in orders]
    return tuple(dict.fromkeys(parts))


def _limits() -> MethodLimits:
    return MethodLimits("Weever", "the index auto")


def _require_slots(rows: CodedRows) -> None:
    if rows.n_rows and int(rows.slots.max()) >= _MAX_SLOTS:
        raise ResourceError(f"the index lt-tree holds at most {_MAX_SLOTS:,} rows; use the index auto")
