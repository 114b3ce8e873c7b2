"""Weever's own method as an index: row by row, with compressed sets of candidates refined predicate by predicate.

Kaminsky, Pena, Naumann, Incremental Detection of Denial Constraint Violations, section 5. It is here to be compared
with: the default index answers the same and is faster. Beyond the paper are constants, nulls and rules about one
column of each row: a set of the rows that may stand on a side is intersected at the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from naysay.arrays import Int64Array
from naysay.live.columns import Coded
from naysay.papers.weever.lt_tree import LTTree
from naysay.plan.join import Join
from naysay.rule.model import Nulls, Op, Row
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
class Part:
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
    """The beginning of one rule's schedule that all of `rules` contain; the first of them owns it."""

    parts: tuple[Part, ...]
    rules: tuple[str, ...]

    @property
    def owner(self) -> str:
        return self.rules[0]

    @property
    def benefit(self) -> int:
        """The refinements that sharing saves."""
        return (len(self.parts) - 1) * (len(self.rules) - 1)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Rules in the order of execution, each with its predicates in order, and the beginnings that are shared.

    `order` is that of all predicates; it stands while at most `slack` rows come and go.
    """

    rules: Mapping[str, tuple[Part, ...]]
    prefixes: tuple[Prefix, ...]
    order: tuple[Part, ...]
    slack: int


Cardinality = Callable[[Coded], int]


def make_schedule(rules: Mapping[str, Sequence[Part]], cardinality: Cardinality) -> Schedule:
    """Schedule each rule by itself, then all of them together (the four steps of section 5.3)."""
    every = list(dict.fromkeys(part for parts in rules.values() for part in parts))
    global_order = sort_parts(every, cardinality)
    place = {part: number for number, part in enumerate(global_order)}
    sorted_rules = {name: tuple(sorted(set(parts), key=place.__getitem__)) for name, parts in rules.items()}
    # Rules whose first predicate comes late go first: they may refine the others on the way.
    order = sorted(rules, key=lambda name: -(place[sorted_rules[name][0]] if sorted_rules[name] else len(place)))
    ordered = {name: sorted_rules[name] for name in order}
    prefixes = sorted(common_prefixes(ordered), key=lambda prefix: place[prefix.parts[0]])
    return Schedule(ordered, choose_prefixes(prefixes), tuple(global_order), _slack(every, cardinality))


def update_schedule(schedule: Schedule, rules: Mapping[str, Sequence[Part]], cardinality: Cardinality) -> Schedule:
    """The schedule for cardinalities that have changed: the same one, unless two predicates have changed places."""
    if sort_parts(schedule.order, cardinality) == list(schedule.order):
        return replace(schedule, slack=_slack(schedule.order, cardinality))
    return make_schedule(rules, cardinality)


def sort_parts(parts: Sequence[Part], cardinality: Cardinality) -> list[Part]:
    """The order of section 5.2: by class; equalities on many values first, all others on few values first."""

    def key(part: Part) -> tuple[int, int]:
        n_values = min(cardinality(part.left), cardinality(part.right))
        return part.rank, -n_values if part.op is Op.EQ else n_values

    return sorted(parts, key=key)


def common_prefixes(rules: Mapping[str, tuple[Part, ...]]) -> list[Prefix]:
    """For each rule the longest beginning, of two predicates or more, that is part of some other rule."""
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
    """Take each beginning whose benefit is at least what its rule could gain from the beginnings of others.

    A rule whose beginning is shared takes part in no other, and no rule takes two: so each choice changes what the
    later ones are worth.
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


def _slack(parts: Sequence[Part], cardinality: Cardinality) -> int:
    """So many rows may come or go before two predicates of a class can change places."""
    by_rank: dict[int, list[int]] = {}
    for part in parts:
        by_rank.setdefault(part.rank, []).append(min(cardinality(part.left), cardinality(part.right)))
    gaps = []
    for numbers in by_rank.values():
        numbers.sort()
        gaps += [high - low for low, high in itertools.pairwise(numbers)]
    return max(min(gaps, default=1 << 30) // 2, 1)


_OP = {(False, True): Op.LT, (False, False): Op.LE, (True, True): Op.GT, (True, False): Op.GE}


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
        found = self._rows.get(value)
        if found is None:
            self._rows[value] = BitMap([row])
        else:
            found.add(row)

    def delete(self, value: int, row: int) -> None:
        found = self._rows[value]
        found.remove(row)
        if not found:
            del self._rows[value]

    def fill(self, values: list[int], rows: list[int]) -> None:
        for value, row in zip(values, rows, strict=True):
            self.insert(value, row)


@dataclass(slots=True)
class _WeeverRule:
    """A rule with the rows that may stand on either side, and its violations from either side."""

    sides: JoinColumns
    parts: tuple[Part, ...]
    may_stand: dict[Row, BitMap] = field(default_factory=lambda: {Row.LEFT: BitMap(), Row.RIGHT: BitMap()})
    violations: dict[Row, dict[int, BitMap]] = field(default_factory=lambda: {Row.LEFT: {}, Row.RIGHT: {}})

    @property
    def reflexive(self) -> bool:
        """Both intermediates are always the same (section 3.2)."""
        return self.sides.symmetric and not self.sides.left.orders and self.sides.left == self.sides.right

    def note(self, left: int, right: int) -> None:
        self.violations[Row.LEFT].setdefault(left, BitMap()).add(right)
        self.violations[Row.RIGHT].setdefault(right, BitMap()).add(left)


class Weever:
    """LT-trees and hash maps for every compared column, a schedule, and the violations of each row."""

    def __init__(self, schema: pa.Schema, nulls: Nulls) -> None:
        self.schema = schema
        self.nulls = nulls
        self._rules: dict[str, _WeeverRule] = {}
        self._indexes: dict[Coded, LTTree | HashIndex] = {}
        self._every = BitMap()
        self._schedule = Schedule({}, (), (), 0)
        self._n_changes = 0

    def add(self, name: str, join: Join, rows: CodedRows) -> None:
        from naysay.watch.tree_index import TreeIndex

        sides = columns_of(self.schema, join)
        self._rules[name] = rule = _WeeverRule(sides, _parts_of(sides))
        self._every = BitMap(rows.slots)
        for column in {column for part in rule.parts for column in (part.left, part.right)}:
            self._require(column, rows)
        for row, side in ((Row.LEFT, sides.left), (Row.RIGHT, sides.right)):
            rule.may_stand[row] = BitMap(rows.slots[side.eligible(rows, self.nulls)])
        self._reschedule()
        # What stands when a rule is added is found by the default index: the method here is for what comes after.
        forest = TreeIndex(self.schema, self.nulls)
        forest.add(name, join, rows)
        found = forest.violations(name, rows)
        for left, right in zip(found.left.tolist(), found.right.tolist(), strict=True):
            rule.note(left, right)

    def remove(self, name: str) -> None:
        del self._rules[name]
        used = {column for rule in self._rules.values() for part in rule.parts for column in (part.left, part.right)}
        self._indexes = {column: index for column, index in self._indexes.items() if column in used}
        self._reschedule()

    def violations(self, name: str, rows: CodedRows) -> SlotPairs:
        found = self._rules[name].violations[Row.LEFT]
        return _pairs([(left, right) for left, rights in found.items() for right in rights])

    def change(self, edit: RowChange, stamps: Int64Array) -> dict[str, PairDelta]:
        removed = self._delete(edit.old)
        added = self._insert(edit.new)
        self._n_changes += edit.old.n_rows + edit.new.n_rows
        if self._n_changes >= self._schedule.slack:
            self._schedule = update_schedule(self._schedule, self._parts(), self._cardinality)
            self._n_changes = 0
        return {name: PairDelta(removed.get(name, NO_PAIRS), added.get(name, NO_PAIRS)) for name in self._rules}

    def _require(self, column: Coded, rows: CodedRows) -> None:
        """An index for a column: an LT-tree where some inequality compares it, else a hash map (section 5.1)."""
        ordered = any(
            part.op.is_order and column in (part.left, part.right)
            for rule in self._rules.values()
            for part in rule.parts
        )
        index = self._indexes.get(column)
        if index is not None and (isinstance(index, LTTree) or not ordered):
            return
        values = rows.codes[column]
        order = np.argsort(values, kind="stable")
        made: LTTree | HashIndex = LTTree() if ordered else HashIndex()
        made.fill(values[order].tolist(), rows.slots[order].tolist())
        self._indexes[column] = made

    def _reschedule(self) -> None:
        self._schedule = make_schedule(self._parts(), self._cardinality)
        self._n_changes = 0

    def _parts(self) -> dict[str, tuple[Part, ...]]:
        return {name: rule.parts for name, rule in self._rules.items()}

    def _cardinality(self, column: Coded) -> int:
        return self._indexes[column].n_values

    def _delete(self, old: CodedRows) -> dict[str, SlotPairs]:
        """Algorithm 3: take each row out of the violations, the indexes and the set of all rows."""
        removed: dict[str, list[tuple[int, int]]] = {name: [] for name in self._rules}
        codes = {column: old.codes[column].tolist() for column in self._indexes}
        for place, slot in enumerate(old.slots.tolist()):
            for name, rule in self._rules.items():
                removed[name] += _forget(rule, slot)
                for rows in rule.may_stand.values():
                    rows.discard(slot)
            for column, index in self._indexes.items():
                index.delete(codes[column][place], slot)
            self._every.discard(slot)
        return {name: _pairs(found) for name, found in removed.items()}

    def _insert(self, new: CodedRows) -> dict[str, SlotPairs]:
        """Algorithm 2 for each row, in the order of the first inequality's column (section 5.5)."""
        added: dict[str, list[tuple[int, int]]] = {name: [] for name in self._rules}
        codes = {column: new.codes[column].tolist() for column in self._indexes}
        stands = {
            name: {row: set(side.eligible(new, self.nulls).tolist()) for row, side in _both(rule.sides)}
            for name, rule in self._rules.items()
        }
        cursor = self._cursor()
        order = range(new.n_rows)
        if cursor is not None:
            order = np.argsort(new.codes[cursor.value], kind="stable").tolist()
        slots = new.slots.tolist()
        for place in order:
            values = {column: numbers[place] for column, numbers in codes.items()}
            roles = {name: [row for row in Row if place in stands[name][row]] for name in self._rules}
            for name, row, partners in _Insertion(self, values, roles, cursor).run():
                for partner in partners:
                    pair = (slots[place], partner) if row is Row.LEFT else (partner, slots[place])
                    added[name].append(pair)
                    self._rules[name].note(*pair)
            for column, index in self._indexes.items():
                index.insert(values[column], slots[place])
            for name, rule in self._rules.items():
                for row in roles[name]:
                    rule.may_stand[row].add(slots[place])
            self._every.add(slots[place])
        return {name: _pairs(found) for name, found in added.items()}

    def _cursor(self) -> _Cursor | None:
        """Where the first inequality of the schedule looks, if it looks at the column that it compares."""
        for parts in self._schedule.rules.values():
            for part in parts:
                if part.op.is_order and part.left == part.right:
                    return _Cursor(part.left)
        return None


@dataclass(slots=True)
class _Cursor:
    """The rows below the last value asked for in one column, kept from one row of a batch to the next."""

    value: Coded
    below: BitMap = field(default_factory=BitMap)
    reached: int | None = None

    def smaller(self, tree: LTTree, value: int) -> BitMap:
        tree.extend(self.below, self.reached, value)
        self.reached = value
        return self.below


class _Insertion:
    """One row on its way through the schedule: for each rule and side the candidates that are left."""

    def __init__(
        self, index: Weever, values: dict[Coded, int], roles: dict[str, list[Row]], cursor: _Cursor | None
    ) -> None:
        self._index = index
        self._values = values
        self._cursor = cursor
        self._operands: dict[tuple[Coded, Coded, str], BitMap] = {}
        # Of a rule that reads the same both ways one intermediate is enough.
        self._roles = {name: rows[:1] if index._rules[name].reflexive else rows for name, rows in roles.items()}
        self._left_over: dict[tuple[str, Row], BitMap | None] = {
            (name, row): None for name, rows in self._roles.items() for row in rows
        }
        self._applied: dict[str, set[Part]] = {name: set() for name in roles}

    def run(self) -> list[tuple[str, Row, BitMap]]:
        """The violations that the row takes part in: by rule, and the side that the row stands on."""
        for prefix in self._index._schedule.prefixes:
            self._share(prefix.parts, prefix.rules)
        for name, parts in self._index._schedule.rules.items():
            for part in parts:
                if self._is_finished(name):
                    break
                if part not in self._applied[name]:
                    self._apply(part)
        return list(self._results())

    def _share(self, parts: tuple[Part, ...], rules: tuple[str, ...]) -> None:
        """Refine once for all rules that begin alike, and give each a copy."""
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

    def _apply(self, part: Part) -> None:
        """Refine every rule that has this predicate and still has candidates: the operand is the same for all."""
        for name, parts in self._index._schedule.rules.items():
            if part not in parts or part in self._applied[name] or self._is_finished(name):
                continue
            self._applied[name].add(part)
            for row in self._roles[name]:
                found = self._left_over[name, row]
                if found is None or found:
                    self._left_over[name, row] = self._refined(found, part, row)

    def _is_finished(self, name: str) -> bool:
        return all(found is not None and not found for found in self._intermediates(name))

    def _intermediates(self, name: str) -> list[BitMap | None]:
        return [self._left_over[name, row] for row in self._roles[name]]

    def _refined(self, found: BitMap | None, part: Part, row: Row) -> BitMap:
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
            return operand.copy() if keeps else self._index._every - operand
        return found & operand if keeps else found - operand

    def _operand(self, looked_at: Coded, own: Coded, kind: str) -> BitMap:
        key = (looked_at, own, kind)
        if key not in self._operands:
            self._operands[key] = self._ask(looked_at, own, kind)
        return self._operands[key]

    def _ask(self, looked_at: Coded, own: Coded, kind: str) -> BitMap:
        index, value = self._index._indexes[looked_at], self._values[own]
        if kind == "equal":
            return index.equal(value) or BitMap()
        assert isinstance(index, LTTree)
        if kind == "smaller or equal":
            return self._operand(looked_at, own, "smaller") | self._operand(looked_at, own, "equal")
        if self._cursor is not None and self._cursor.value == looked_at == own:
            return self._cursor.smaller(index, value)
        return index.smaller(value)

    def _results(self) -> list[tuple[str, Row, BitMap]]:
        found = []
        for (name, row), candidates in self._left_over.items():
            rule = self._index._rules[name]
            partners = self._index._every if candidates is None else candidates
            partners = partners & rule.may_stand[row.other]
            if partners:
                found.append((name, row, partners))
                if rule.reflexive:
                    found.append((name, row.other, partners))
        return found


def _parts_of(sides: JoinColumns) -> tuple[Part, ...]:
    left, right = sides.left, sides.right
    parts = [Part(one, Op.EQ, other) for one, other in zip(left.key, right.key, strict=True)]
    parts += [Part(one, Op.NE, other) for one, other in zip(left.differs, right.differs, strict=True)]
    orders = zip(left.orders, right.orders, sides.descending, sides.strict, strict=True)
    parts += [Part(one, _OP[descending, strict], other) for one, other, descending, strict in orders]
    return tuple(dict.fromkeys(parts))


def _both(sides: JoinColumns) -> list[tuple[Row, SideColumns]]:
    return [(Row.LEFT, sides.left), (Row.RIGHT, sides.right)]


def _forget(rule: _WeeverRule, slot: int) -> list[tuple[int, int]]:
    """The violations of a row, taken out of the sets of both rows (section 5.6)."""
    gone = []
    for row in Row:
        for partner in rule.violations[row].pop(slot, ()):
            others = rule.violations[row.other][partner]
            others.remove(slot)
            if not others:
                del rule.violations[row.other][partner]
            gone.append((slot, partner) if row is Row.LEFT else (partner, slot))
    return gone


def _pairs(found: list[tuple[int, int]]) -> SlotPairs:
    if not found:
        return NO_PAIRS
    array = np.array(found, np.int64)
    return SlotPairs(array[:, 0].copy(), array[:, 1].copy())
