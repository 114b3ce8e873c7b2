"""The counting index: how many violations a change adds and removes, without listing them.

Disequalities add no dimension: pairs that differ are all pairs minus those that agree (inclusion-exclusion over the
subsets of disequalities). Each subset is a term: the key extended by equality on the subset, and the rule's orders.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pyarrow as pa

from naysay.arrays import BoolArray, Int64Array
from naysay.kernels.joins.wavelet import Wavelet, add_points, add_points_one_by_one, build_wavelet
from naysay.kernels.sort import dense_ranks, sorted_places
from naysay.live.codes import TupleTable, enlarge
from naysay.plan.join import Join
from naysay.rule.model import Nulls, Row
from naysay.watch.batch import CodedRows, JoinColumns, RowChange, SideColumns, columns_of
from naysay.watch.tree_index import BoxSearch, KeyNumbers, tree_for

# Up to this many rows are scanned one by one before they become a run.
_BUFFER_ROWS = 1024
_RUN_GROWTH = 4


class GroupCounter:
    """The number of rows per key, O(1) per row. Rows are [key, features ..., owner], boxes as in `zone_tree`."""

    def __init__(self) -> None:
        self._table = TupleTable(1)
        self._counts: Int64Array = np.zeros(64, np.int64)

    def insert(self, rows: Int64Array) -> None:
        numbers = self._table.add(np.ascontiguousarray(rows[:, :1]))
        if self._table.n_entries > len(self._counts):
            n_counts = len(self._counts)
            self._counts = enlarge(self._counts, 2 * self._table.n_entries)
            self._counts[n_counts:] = 0
        np.add.at(self._counts, numbers, 1)

    def delete(self, rows: Int64Array) -> None:
        np.subtract.at(self._counts, self._table.find(np.ascontiguousarray(rows[:, :1])), 1)

    def count(self, boxes: Int64Array) -> Int64Array:
        numbers = self._table.find(np.ascontiguousarray(boxes[:, :1]))
        return np.where(numbers >= 0, self._counts[numbers], 0)


class TreeCounter:
    """A tree of zones that counts whole zones at once: O(log n) per box with one order, more with more orders."""

    def __init__(self, n_features: int, n_orders: int, nulls_differ: bool) -> None:
        self._tree = tree_for(n_features, n_orders)
        self._features = np.arange(1, n_features + 1)
        self._n_orders = n_orders
        self._nulls_differ = nulls_differ
        self.insert, self.delete = self._tree.insert, self._tree.delete

    def count(self, boxes: Int64Array) -> Int64Array:
        return self._tree.count(BoxSearch(boxes, self._features, self._n_orders, self._nulls_differ))


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """Immutable points: sorted, and ready to be counted."""

    points: Int64Array
    keys: Int64Array
    firsts: Int64Array
    seconds: Int64Array
    wavelet: Wavelet
    sign: int


class PointCounter:
    """A key and two orders: runs of points, merged by size; a deleted point is a point of the opposite sign.

    O(log^2 n) per box, O(log^2 n) amortised per row (Bentley and Saxe, Decomposable searching problems, 1980).
    """

    def __init__(self) -> None:
        self._buffer = np.empty((0, 5), np.int64)
        self._runs: list[_Run] = []

    def insert(self, rows: Int64Array) -> None:
        self._add(rows, 1)

    def delete(self, rows: Int64Array) -> None:
        self._add(rows, -1)

    def count(self, boxes: Int64Array) -> Int64Array:
        counts = np.zeros(len(boxes), np.int64)
        for run in self._runs:
            add_points((run.keys, run.firsts, run.seconds), run.wavelet, boxes, run.sign, counts)
        if len(self._buffer):
            points = np.ascontiguousarray(self._buffer[:, [0, 1, 2, 4]])
            add_points_one_by_one(points, boxes, counts)
        return counts

    def _add(self, rows: Int64Array, sign: int) -> None:
        if len(rows) == 0:
            return
        signed = np.concatenate((rows, np.full((len(rows), 1), sign, np.int64)), axis=1)
        self._buffer = np.concatenate((self._buffer, signed))
        if len(self._buffer) <= _BUFFER_ROWS:
            return
        points, self._buffer = self._buffer, np.empty((0, 5), np.int64)
        # Merge every run that is not much larger than the new points, so that few runs remain.
        for run in sorted(self._runs, key=lambda run: len(run.points)):
            if len(run.points) > _RUN_GROWTH * len(points):
                break
            points = np.concatenate((points, _signed(run)))
            self._runs.remove(run)
        self._enter(points)
        n_gone = sum(len(run.points) for run in self._runs if run.sign < 0)
        if 2 * n_gone > sum(len(run.points) for run in self._runs if run.sign > 0):
            points, self._runs = np.concatenate([_signed(run) for run in self._runs]), []
            self._enter(points)

    def _enter(self, points: Int64Array) -> None:
        points = _cancelled(points)
        for sign in (1, -1):
            chosen = points[points[:, 4] == sign, :4]
            if len(chosen):
                self._runs.append(_run(chosen, sign))


def _signed(run: _Run) -> Int64Array:
    return np.concatenate((run.points, np.full((len(run.points), 1), run.sign, np.int64)), axis=1)


def _cancelled(points: Int64Array) -> Int64Array:
    """Without points that were both added and deleted: the signs of a point add up to 1, 0 or -1."""
    order = np.lexsort(points[:, :4].T)
    points = points[order]
    starts = np.flatnonzero(np.concatenate(([True], np.any(points[1:, :4] != points[:-1, :4], axis=1))))
    signs = np.add.reduceat(points[:, 4], starts)
    points = points[starts]
    points[:, 4] = signs
    kept: Int64Array = points[signs != 0]
    return kept


def _run(points: Int64Array, sign: int) -> _Run:
    keys, firsts = np.ascontiguousarray(points[:, 0]), np.ascontiguousarray(points[:, 1])
    places = sorted_places(keys, firsts)
    points = points[places]
    second = np.ascontiguousarray(points[:, 2])
    ranks, n_ranks = dense_ranks(second)
    n_bits = max(int(n_ranks - 1).bit_length(), 1)
    return _Run(points, keys[places], firsts[places], np.unique(second), build_wavelet(ranks, n_bits), sign)


Counter = GroupCounter | TreeCounter | PointCounter
# With more disequalities or orders one tree checks all of them: 2^m terms would cost more.
_MAX_DIFFERS = 4
_MAX_ORDERS = 2


@dataclass(frozen=True, slots=True)
class Term:
    """One subset of the disequalities: its sign, the sides with its key, and a counter per side."""

    sign: int
    sides: JoinColumns
    left: Counter
    right: Counter


@dataclass(frozen=True, slots=True)
class _CountedRule:
    sides: JoinColumns
    terms: tuple[Term, ...]


class TreeCountingIndex:
    """Counters for two-row rules. With up to two orders a change costs O(log^2 n) per row and rule."""

    def __init__(self, schema: pa.Schema, nulls: Nulls) -> None:
        self.schema = schema
        self.nulls = nulls
        self._rules: dict[str, _CountedRule] = {}
        self._groups = KeyNumbers()

    def add(self, name: str, join: Join, rows: CodedRows) -> int:
        """Watch another rule; returns the number of its violations."""
        rule = self._fill(name, columns_of(self.schema, join), rows)
        return int(self._counts(rule, rows, Row.LEFT).sum()) - int(self._meets_itself(rule, rows).sum())

    def remove(self, name: str) -> None:
        """Stop watching a rule."""
        del self._rules[name]

    def recode(self, rows: CodedRows) -> None:
        """The same rows have other codes now."""
        self._groups = KeyNumbers()
        for name, rule in list(self._rules.items()):
            self._fill(name, rule.sides, rows)

    def change(self, edit: RowChange, visits: RowChange | None = None) -> dict[str, int]:
        """Remove old rows and add new ones; returns by how much each rule's violations grew.

        `visits` are rows that change elsewhere: see `watch.visits`.
        """
        growth = {}
        for name, rule in self._rules.items():
            sources = rule.sides.sources
            growth[name] = self._change(rule, edit.touching(sources), visits and visits.touching(sources))
        return growth

    def n_conflicting(self, name: str, rows: CodedRows) -> int:
        """The number of rows in violations."""
        rule = self._rules[name]
        itself = self._meets_itself(rule, rows)
        left = self._counts(rule, rows, Row.LEFT) > itself
        return int((left | (self._counts(rule, rows, Row.RIGHT) > itself)).sum())

    def _fill(self, name: str, sides: JoinColumns, rows: CodedRows) -> _CountedRule:
        self._rules[name] = rule = _CountedRule(sides, tuple(_terms(sides, self.nulls)))
        self._each(rule, rows, insert=True)
        return rule

    def _change(self, rule: _CountedRule, edit: RowChange, visits: RowChange | None) -> int:
        growth = -self._met(rule, visits.old, Row.RIGHT) if visits else 0
        self._each(rule, edit.old, insert=False)
        growth += self._touching(rule, edit.new) - self._touching(rule, edit.old)
        if visits:
            # The counters hold only rows that stay as they are.
            growth += self._met(rule, visits.new, Row.LEFT) - self._met(rule, visits.old, Row.LEFT)
        self._each(rule, edit.new, insert=True)
        return growth + (self._met(rule, visits.new, Row.RIGHT) if visits else 0)

    def _met(self, rule: _CountedRule, visitors: CodedRows, row: Row) -> int:
        return int(self._counts(rule, visitors, row).sum())

    def _touching(self, rule: _CountedRule, batch: CodedRows) -> int:
        """Violations between a batch and the rows in the counters, and within the batch."""
        if batch.n_rows == 0:
            return 0
        total = int(self._counts(rule, batch, Row.LEFT).sum()) + int(self._counts(rule, batch, Row.RIGHT).sum())
        inside = _CountedRule(rule.sides, tuple(_terms(rule.sides, self.nulls)))
        self._each(inside, batch, insert=True)
        total += int(self._counts(inside, batch, Row.LEFT).sum())
        return total - int(self._meets_itself(rule, batch).sum())

    def _each(self, rule: _CountedRule, batch: CodedRows, *, insert: bool) -> None:
        if batch.n_rows == 0:
            return
        for term in rule.terms:
            sides = [(term.left, term.sides.left, rule.sides.left)]
            if term.right is not term.left:
                sides.append((term.right, term.sides.right, rule.sides.right))
            for counter, side, whole in sides:
                rows = self._groups.rows(batch, side.key, side.features, whole.eligible(batch, self.nulls))
                counter.insert(rows) if insert else counter.delete(rows)

    def _counts(self, rule: _CountedRule, batch: CodedRows, row: Row) -> Int64Array:
        """For each row of a batch, on one side, the number of its partners in the counters, itself included."""
        counts = np.zeros(batch.n_rows, np.int64)
        whole = rule.sides.left if row is Row.LEFT else rule.sides.right
        places = whole.eligible(batch, self.nulls)
        if len(places) == 0:
            return counts
        for term in rule.terms:
            own, counter = (term.sides.left, term.right) if row is Row.LEFT else (term.sides.right, term.left)
            group = self._groups.of(batch, own.key)[places]
            counts[places] += term.sign * counter.count(term.sides.boxes(batch, places, row, group))
        return counts

    def _meets_itself(self, rule: _CountedRule, batch: CodedRows) -> BoolArray:
        """Which rows are eligible for both sides and satisfy all predicates with themselves."""
        left, right = rule.sides.left, rule.sides.right
        met = np.zeros(batch.n_rows, np.bool_)
        both = np.intersect1d(left.eligible(batch, self.nulls), right.eligible(batch, self.nulls))
        met[both] = True
        for one, other in zip(left.key, right.key, strict=True):
            met &= batch.codes[one] == batch.codes[other]
        for one, other in zip(left.differs, right.differs, strict=True):
            met &= batch.codes[one] != batch.codes[other]
        orders = zip(left.orders, right.orders, rule.sides.descending, rule.sides.strict, strict=True)
        for one, other, descending, strict in orders:
            low, high = (other, one) if descending else (one, other)
            less, greater = batch.codes[low], batch.codes[high]
            met &= (less < greater) if strict else (less <= greater)
        return met


def _terms(sides: JoinColumns, nulls: Nulls) -> list[Term]:
    n_orders, n_differs = len(sides.left.orders), len(sides.left.differs)
    alike = sides.left == sides.right
    if n_orders > _MAX_ORDERS or n_differs > _MAX_DIFFERS:
        return [_term(1, sides, alike, nulls)]
    terms = []
    for size in range(n_differs + 1):
        for subset in combinations(range(n_differs), size):
            left, right = (_agreeing(side, subset) for side in (sides.left, sides.right))
            terms.append(_term((-1) ** size, replace(sides, left=left, right=right), alike, nulls))
    return terms


def _agreeing(side: SideColumns, subset: tuple[int, ...]) -> SideColumns:
    """A side whose key includes a subset of its disequalities as equalities, without the others."""
    return replace(side, key=side.key + tuple(side.differs[which] for which in subset), differs=())


def _term(sign: int, sides: JoinColumns, alike: bool, nulls: Nulls) -> Term:
    """`alike`: both sides of the rule have the same rows, so one counter serves both."""
    left = _counter(sides.left, nulls)
    return Term(sign, sides, left, left if alike else _counter(sides.right, nulls))


def _counter(side: SideColumns, nulls: Nulls) -> Counter:
    if not side.features:
        return GroupCounter()
    if len(side.orders) == 2 and not side.differs:
        return PointCounter()
    return TreeCounter(len(side.features), len(side.orders), nulls is Nulls.EQUAL)
