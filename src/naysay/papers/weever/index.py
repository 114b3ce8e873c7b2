"""Weever's own method as an index: row by row, with compressed sets of candidates refined predicate by predicate.

Kaminsky, Pena, Naumann, Incremental Detection of Denial Constraint Violations, section 5. It is here for comparison:
the default index gives the same results and is faster. Constants, nulls and filters on single rows go beyond the paper:
the candidates are intersected with the rows that are eligible for their side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, repeat

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from naysay.arrays import Int64Array
from naysay.errors import ResourceError
from naysay.live.columns import Coded
from naysay.papers.weever.lt_tree import LTTree
from naysay.plan.join import Join
from naysay.rule.model import Nulls, Op, Row
from naysay.watch import tree_index
from naysay.watch.batch import (
    NO_PAIRS,
    CodedRows,
    JoinColumns,
    PairDelta,
    RowChange,
    SideColumns,
    SlotPairs,
    columns_of,
)


@dataclass(frozen=True, slots=True)
class PairPredicate:
    """A predicate between two rows: `left op right`."""

    left: Coded
    op: Op
    right: Coded

    @property
    def rank(self) -> int:
        """The six classes of section 5.2: equality, difference, inequality; of one column before two."""
        kind = 0 if self.op is Op.EQ else 2 if self.op is Op.NE else 4
        return kind + (self.left.column != self.right.column)


@dataclass(frozen=True, slots=True)
class Prefix:
    """The first predicates of one rule's schedule, which all of `rules` contain; the first rule owns them."""

    parts: tuple[PairPredicate, ...]
    rules: tuple[str, ...]

    @property
    def owner(self) -> str:
        return self.rules[0]

    @property
    def benefit(self) -> int:
        """The number of refinements that sharing saves."""
        return (len(self.parts) - 1) * (len(self.rules) - 1)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Rules in the order of execution, each with its predicates in order, and the shared prefixes.

    `order` is that of all predicates; it is valid until `slack` rows were added or removed.
    """

    rules: Mapping[str, tuple[PairPredicate, ...]]
    prefixes: tuple[Prefix, ...]
    order: tuple[PairPredicate, ...]
    slack: int


Cardinality = Callable[[Coded], int]


def make_schedule(rules: Mapping[str, Sequence[PairPredicate]], cardinality: Cardinality) -> Schedule:
    """Schedule each rule by itself, then all of them together (the four steps of section 5.3)."""
    every = list(dict.fromkeys(part for parts in rules.values() for part in parts))
    global_order = sort_parts(every, cardinality)
    place = {part: number for number, part in enumerate(global_order)}
    sorted_rules = {name: tuple(sorted(set(parts), key=place.__getitem__)) for name, parts in rules.items()}
    # Rules whose first predicate comes late go first: they may refine the others as well.
    order = sorted(rules, key=lambda name: -(place[sorted_rules[name][0]] if sorted_rules[name] else len(place)))
    ordered = {name: sorted_rules[name] for name in order}
    prefixes = sorted(common_prefixes(ordered), key=lambda prefix: place[prefix.parts[0]])
    return Schedule(ordered, choose_prefixes(prefixes), tuple(global_order), _slack(every, cardinality))


def update_schedule(
    schedule: Schedule, rules: Mapping[str, Sequence[PairPredicate]], cardinality: Cardinality
) -> Schedule:
    """The schedule after cardinalities have changed: the same one, unless the order of predicates has changed."""
    if sort_parts(schedule.order, cardinality) == list(schedule.order):
        return replace(schedule, slack=_slack(schedule.order, cardinality))
    return make_schedule(rules, cardinality)


def sort_parts(parts: Sequence[PairPredicate], cardinality: Cardinality) -> list[PairPredicate]:
    """The order of section 5.2: by class; equalities on many values first, all others on few values first."""

    def key(part: PairPredicate) -> tuple[int, int]:
        n_values = min(cardinality(part.left), cardinality(part.right))
        return part.rank, -n_values if part.op is Op.EQ else n_values

    return sorted(parts, key=key)


def common_prefixes(rules: Mapping[str, tuple[PairPredicate, ...]]) -> list[Prefix]:
    """For each rule its longest prefix, of two predicates or more, that some other rule contains."""
    found = []
    for name, parts in rules.items():
        for length in range(len(parts), 1, -1):
            wanted = set(parts[:length])
            sharing = [other for other in rules if other != name and wanted <= set(rules[other])]
            if sharing:
                found.append(Prefix(parts[:length], (name, *sharing)))
                break
    return found


def choose_prefixes(prefixes: Sequence[Prefix]) -> tuple[Prefix, ...]:
    """Take each prefix whose benefit is at least what its rule could gain from the prefixes of others.

    No rule takes part in two prefixes, so each choice changes the benefit of later ones.
    """
    chosen: list[Prefix] = []
    taken: set[str] = set()
    remaining = list(prefixes)
    while remaining:
        prefix, *remaining = remaining
        sharing = tuple(name for name in prefix.rules[1:] if name not in taken)
        if prefix.owner in taken or not sharing:
            continue
        prefix = replace(prefix, rules=(prefix.owner, *sharing))
        potential = max((len(other.parts) - 1 for other in remaining if prefix.owner in other.rules[1:]), default=0)
        if prefix.benefit >= potential:
            chosen.append(prefix)
            taken.update(prefix.rules)
    return tuple(chosen)


def _slack(parts: Sequence[PairPredicate], cardinality: Cardinality) -> int:
    """The number of rows that may come or go before the order of predicates can change."""
    by_rank: dict[int, list[int]] = {}
    for part in parts:
        by_rank.setdefault(part.rank, []).append(min(cardinality(part.left), cardinality(part.right)))
    gaps = []
    for numbers in by_rank.values():
        numbers.sort()
        gaps += [high - low for low, high in pairwise(numbers)]
    return max(min(gaps, default=1 << 30) // 2, 1)


_OP = {(False, True): Op.LT, (False, False): Op.LE, (True, True): Op.GT, (True, False): Op.GE}
Found = list[tuple[int, int]]


class HashIndex:
    """Rows by value, for columns that no inequality compares."""

    def __init__(self) -> None:
        self._rows: dict[int, BitMap] = {}

    @property
    def n_values(self) -> int:
        return len(self._rows)

    def equal(self, value: int) -> BitMap | None:
        return self._rows.get(value)

    def insert(self, value: int, row: int) -> None:
        self._rows.setdefault(value, BitMap()).add(row)

    def delete(self, value: int, row: int) -> None:
        found = self._rows[value]
        found.remove(row)
        if not found:
            del self._rows[value]

    def fill(self, values: list[int], rows: list[int]) -> None:
        for value, row in zip(values, rows, strict=True):
            self.insert(value, row)


def _bitmaps() -> dict[Row, BitMap]:
    return {row: BitMap() for row in Row}


@dataclass(slots=True)
class _WeeverRule:
    """A rule with its eligible rows and its violations, both by side."""

    sides: JoinColumns
    parts: tuple[PairPredicate, ...]
    eligible: dict[Row, BitMap] = field(default_factory=_bitmaps)
    violations: dict[Row, dict[int, BitMap]] = field(default_factory=lambda: {row: {} for row in Row})

    @property
    def reflexive(self) -> bool:
        """Both intermediates are always the same (section 3.2)."""
        return self.sides.symmetric and not self.sides.left.orders and self.sides.left == self.sides.right

    def side(self, row: Row) -> SideColumns:
        return self.sides.left if row is Row.LEFT else self.sides.right

    def note(self, pairs: Iterable[tuple[int, int]]) -> None:
        for left, right in pairs:
            self.violations[Row.LEFT].setdefault(left, BitMap()).add(right)
            self.violations[Row.RIGHT].setdefault(right, BitMap()).add(left)

    def forget(self, slot: int) -> Found:
        """The violations of a row, removed from the sets of both rows (section 5.6)."""
        gone = []
        for row in Row:
            for partner in self.violations[row].pop(slot, ()):
                others = self.violations[row.other][partner]
                others.remove(slot)
                if not others:
                    del self.violations[row.other][partner]
                gone.append((slot, partner) if row is Row.LEFT else (partner, slot))
        return gone


class Weever:
    """LT-trees and hash maps for every compared column, a schedule, and the violations of each row."""

    def __init__(self, schema: pa.Schema, nulls: Nulls) -> None:
        self.schema = schema
        self.nulls = nulls
        self.rules: dict[str, _WeeverRule] = {}
        self.indexes: dict[Coded, LTTree | HashIndex] = {}
        self.every = BitMap()
        self.schedule = Schedule({}, (), (), 0)
        self._n_changes = 0

    def add(self, name: str, join: Join, rows: CodedRows) -> None:
        # The default index finds the violations among existing rows: this method is for those that come later.
        default = tree_index.TreeIndex(self.schema, self.nulls)
        default.add(name, join, rows)
        found = default.violations(name, rows)
        sides = columns_of(self.schema, join)
        self.rules[name] = rule = _WeeverRule(sides, _predicates_of(sides))
        rule.note(zip(found.left.tolist(), found.right.tolist(), strict=True))
        self.every = BitMap(rows.slots)
        for column in {column for part in rule.parts for column in (part.left, part.right)}:
            self._require(column, rows)
        for row in Row:
            rule.eligible[row] = BitMap(rows.slots[rule.side(row).eligible(rows, self.nulls)])
        self._reschedule()

    def remove(self, name: str) -> None:
        del self.rules[name]
        used = {column for rule in self.rules.values() for part in rule.parts for column in (part.left, part.right)}
        self.indexes = {column: index for column, index in self.indexes.items() if column in used}
        self._reschedule()

    def violations(self, name: str, rows: CodedRows) -> SlotPairs:
        found = self.rules[name].violations[Row.LEFT]
        return _slot_pairs([(left, right) for left, rights in found.items() for right in rights])

    def change(self, edit: RowChange, stamps: Int64Array) -> dict[str, PairDelta]:
        removed = self._delete(edit.old)
        added: dict[str, Found] = {name: [] for name in self.rules}
        done: list[int] = []
        try:
            self._insert(edit.new, added, done)
        except ResourceError:
            self._delete(edit.new.take(np.array(done, np.int64)))
            self._restore(edit.old, removed)
            raise
        self._n_changes += edit.old.n_rows + edit.new.n_rows
        if self._n_changes >= self.schedule.slack:
            self.schedule = update_schedule(self.schedule, self._parts(), self._cardinality)
            self._n_changes = 0
        return {name: PairDelta(_slot_pairs(removed[name]), _slot_pairs(added[name])) for name in self.rules}

    def _require(self, column: Coded, rows: CodedRows) -> None:
        """An index for a column: an LT-tree if some inequality compares it, else a hash map (section 5.1)."""
        ordered = any(
            part.op.is_order and column in (part.left, part.right)
            for rule in self.rules.values()
            for part in rule.parts
        )
        index = self.indexes.get(column)
        if index is not None and (isinstance(index, LTTree) or not ordered):
            return
        values = rows.codes[column]
        order = np.argsort(values, kind="stable")
        self.indexes[column] = made = LTTree() if ordered else HashIndex()
        made.fill(values[order].tolist(), rows.slots[order].tolist())

    def _reschedule(self) -> None:
        self.schedule = make_schedule(self._parts(), self._cardinality)
        self._n_changes = 0

    def _parts(self) -> dict[str, tuple[PairPredicate, ...]]:
        return {name: rule.parts for name, rule in self.rules.items()}

    def _cardinality(self, column: Coded) -> int:
        return self.indexes[column].n_values

    def _delete(self, old: CodedRows) -> dict[str, Found]:
        """Algorithm 3: remove each row from the violations, the indexes and the set of all rows."""
        removed: dict[str, Found] = {name: [] for name in self.rules}
        for slot, values in self._each(old):
            for name, rule in self.rules.items():
                removed[name] += rule.forget(slot)
                for eligible in rule.eligible.values():
                    eligible.discard(slot)
            for column, index in self.indexes.items():
                index.delete(values[column], slot)
            self.every.discard(slot)
        return removed

    def _insert(self, new: CodedRows, added: dict[str, Found], done: list[int]) -> None:
        """Algorithm 2 for each row, in the order of the first inequality's column (section 5.5).

        `added` collects violations, `done` the places of inserted rows. ResourceError if there are too many violations.
        """
        cursor = self._cursor()
        order = range(new.n_rows) if cursor is None else np.argsort(new.codes[cursor.column], kind="stable").tolist()
        eligible = {
            (name, row): set(rule.side(row).eligible(new, self.nulls).tolist())
            for name, rule in self.rules.items()
            for row in Row
        }
        rows = list(self._each(new))
        for place in order:
            slot, values = rows[place]
            roles = {name: [row for row in Row if place in eligible[name, row]] for name in self.rules}
            results = _Insertion(self, values, roles, cursor).run()
            for name, _, partners in results:
                if len(added[name]) + len(partners) > tree_index.MAX_PAIRS:
                    raise tree_index.too_many_violations()
            for name, row, partners in results:
                found = [(slot, partner) if row is Row.LEFT else (partner, slot) for partner in partners]
                added[name] += found
                self.rules[name].note(found)
            self._enter(slot, values)
            done.append(place)
            for name, sides in roles.items():
                for row in sides:
                    self.rules[name].eligible[row].add(slot)

    def _restore(self, old: CodedRows, removed: dict[str, Found]) -> None:
        """Undo `_delete`."""
        for slot, values in self._each(old):
            self._enter(slot, values)
        for name, rule in self.rules.items():
            rule.note(removed[name])
            for row in Row:
                rule.eligible[row] |= BitMap(old.slots[rule.side(row).eligible(old, self.nulls)])

    def _each(self, rows: CodedRows) -> Iterator[tuple[int, dict[Coded, int]]]:
        """The slot of each row, and its codes in the indexed columns."""
        columns = list(self.indexes)
        codes = zip(*(rows.codes[column].tolist() for column in columns), strict=True) if columns else repeat(())
        for slot, values in zip(rows.slots.tolist(), codes, strict=bool(columns)):
            yield slot, dict(zip(columns, values, strict=True))

    def _enter(self, slot: int, values: dict[Coded, int]) -> None:
        for column, index in self.indexes.items():
            index.insert(values[column], slot)
        self.every.add(slot)

    def _cursor(self) -> _Cursor | None:
        """Where the first inequality of the schedule searches, if it compares a column with itself."""
        for parts in self.schedule.rules.values():
            for part in parts:
                if part.op.is_order and part.left == part.right:
                    return _Cursor(part.left)
        return None


@dataclass(slots=True)
class _Cursor:
    """The rows below the last searched value of one column, kept from one row of a batch to the next."""

    column: Coded
    below: BitMap = field(default_factory=BitMap)
    reached: int | None = None

    def smaller(self, tree: LTTree, value: int) -> BitMap:
        tree.extend(self.below, self.reached, value)
        self.reached = value
        return self.below


class _Insertion:
    """One row on its way through the schedule, with the remaining candidates of each rule and side."""

    def __init__(
        self, index: Weever, values: dict[Coded, int], roles: dict[str, list[Row]], cursor: _Cursor | None
    ) -> None:
        self._index = index
        self._values = values
        self._cursor = cursor
        self._operands: dict[tuple[Coded, Coded, str], BitMap] = {}
        # A rule that reads the same both ways needs only one intermediate.
        self._roles = {name: rows[:1] if index.rules[name].reflexive else rows for name, rows in roles.items()}
        self._left_over: dict[tuple[str, Row], BitMap | None] = {
            (name, row): None for name, rows in self._roles.items() for row in rows
        }
        self._applied: dict[str, set[PairPredicate]] = {name: set() for name in roles}

    def run(self) -> list[tuple[str, Row, BitMap]]:
        """The violations of the row: the rule, the side of the row, and its partners."""
        for prefix in self._index.schedule.prefixes:
            self._share(prefix.parts, prefix.rules)
        for name, parts in self._index.schedule.rules.items():
            for part in parts:
                if self._is_finished(name):
                    break
                if part not in self._applied[name]:
                    self._apply(part)
        return self._results()

    def _share(self, parts: tuple[PairPredicate, ...], rules: tuple[str, ...]) -> None:
        """Refine once for all rules that share a prefix, and give each a copy."""
        for row in Row:
            sharing = [name for name in rules if row in self._roles[name]]
            if not sharing:
                continue
            found: BitMap | None = None
            for part in parts:
                found = self._refined(found, part, row)
                if not found:
                    break
            for name in sharing:
                self._left_over[name, row] = None if found is None else found.copy()
        for name in rules:
            self._applied[name].update(parts)

    def _apply(self, part: PairPredicate) -> None:
        """Refine every rule that has this predicate and still has candidates: the operand is the same for all."""
        for name, parts in self._index.schedule.rules.items():
            if part not in parts or part in self._applied[name] or self._is_finished(name):
                continue
            self._applied[name].add(part)
            for row in self._roles[name]:
                found = self._left_over[name, row]
                if found is None or found:
                    self._left_over[name, row] = self._refined(found, part, row)

    def _is_finished(self, name: str) -> bool:
        intermediates = (self._left_over[name, row] for row in self._roles[name])
        return all(found is not None and not found for found in intermediates)

    def _refined(self, found: BitMap | None, part: PairPredicate, row: Row) -> BitMap:
        """The candidates that a predicate leaves, the new row being `row` (section 5.1)."""
        looked_at, own = (part.right, part.left) if row is Row.LEFT else (part.left, part.right)
        # Seen from the partner: `partner op new`.
        op = part.op.flipped if row is Row.LEFT else part.op
        if op in (Op.EQ, Op.NE):
            operand = self._operand(looked_at, own, "equal")
        else:
            operand = self._operand(looked_at, own, "smaller" if op in (Op.LT, Op.GE) else "smaller or equal")
        keeps = op in (Op.EQ, Op.LT, Op.LE)
        if found is None:
            return operand.copy() if keeps else self._index.every - operand
        return found & operand if keeps else found - operand

    def _operand(self, looked_at: Coded, own: Coded, kind: str) -> BitMap:
        key = (looked_at, own, kind)
        if key not in self._operands:
            self._operands[key] = self._ask(looked_at, own, kind)
        return self._operands[key]

    def _ask(self, looked_at: Coded, own: Coded, kind: str) -> BitMap:
        index, value = self._index.indexes[looked_at], self._values[own]
        if kind == "equal":
            return index.equal(value) or BitMap()
        assert isinstance(index, LTTree)
        if kind == "smaller or equal":
            return self._operand(looked_at, own, "smaller") | self._operand(looked_at, own, "equal")
        if self._cursor is not None and self._cursor.column == looked_at == own:
            return self._cursor.smaller(index, value)
        return index.smaller(value)

    def _results(self) -> list[tuple[str, Row, BitMap]]:
        found = []
        for (name, row), candidates in self._left_over.items():
            rule = self._index.rules[name]
            partners = self._index.every if candidates is None else candidates
            partners = partners & rule.eligible[row.other]
            if partners:
                found.append((name, row, partners))
                if rule.reflexive:
                    found.append((name, row.other, partners))
        return found


def _predicates_of(sides: JoinColumns) -> tuple[PairPredicate, ...]:
    left, right = sides.left, sides.right
    parts = [PairPredicate(one, Op.EQ, other) for one, other in zip(left.key, right.key, strict=True)]
    parts += [PairPredicate(one, Op.NE, other) for one, other in zip(left.differs, right.differs, strict=True)]
    orders = zip(left.orders, right.orders, sides.descending, sides.strict, strict=True)
    parts += [PairPredicate(one, _OP[descending, strict], other) for one, other, descending, strict in orders]
    return tuple(dict.fromkeys(parts))


def _slot_pairs(found: Found) -> SlotPairs:
    if not found:
        return NO_PAIRS
    array = np.array(found, np.int64)
    return SlotPairs(array[:, 0].copy(), array[:, 1].copy())
