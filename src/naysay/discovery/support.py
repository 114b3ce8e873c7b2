"""How well the rows of a table test its keys and dependencies: exact counts, by grouping rows.

The evidence of all pairs tells how many pairs tested a rule, but not how they hang together: ten rows that agree make
90 ordered pairs and only nine independent observations. Grouping the rows tells both, in linear time.

Dependency X -> Y, for each column A of X: rows that agree on the other columns of X share their values of Y in some
proportion. If A had nothing to do with Y, a group of g rows that agree on all of X would be g draws from these, and
would agree on Y with a chance of at most p^(g - 2) * s, where p is the share of the most frequent value and s the
chance that two draws agree. If some rows break the rule, the Chernoff bound for that many exceptions takes its place.

Key X, for each column A of X: if A had nothing to do with the other columns, a fraction f of the pairs in each of
their groups would agree on A. A group of g rows counts for g (g - 1) / 2 pairs, or fewer if a value of A is so
frequent that g rows hardly could all differ.

Rows that repeat one thing are one observation of it. If a set of columns Z determines all columns of a rule, and the
rule is not about Z itself (its left side does not determine Z, nor is part of it), then one row for each value of Z
is tested: that two phones of one hospital never differ in their city says nothing if a hospital has a single city.

A dependency may hold only among the rows with one value of a column: see `find_conditional`. It is tested on these
rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import log

import numpy as np

from naysay.arrays import BoolArray, Float64Array, Int64Array
from naysay.discovery.outcomes import FieldKind, Outcomes
from naysay.discovery.vertices import Vertices

# Of larger tables, this many rows drawn at random are tested, which never makes a rule look better.
MOST_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class Fact:
    """A key (no right side), a dependency, or a constant (no left side), by the numbers of its columns' comparisons."""

    left: tuple[int, ...]
    right: int | None = None

    @property
    def columns(self) -> tuple[int, ...]:
        return self.left if self.right is None else tuple(sorted((*self.left, self.right)))

    def without(self, column: int) -> tuple[int, ...]:
        """The other columns of the left side."""
        return tuple(other for other in self.left if other != column)


@dataclass(frozen=True, slots=True)
class Supported:
    """How rows tested a fact: the negative logarithm of the chance that it holds by accident, and the ordered pairs
    that satisfy all its predicates but one, in the order of its columns, if these are exact."""

    surprise: float
    near: tuple[int, ...] | None = None


@dataclass(slots=True)
class Rows:
    """The rows of a table as codes, one line per column that is compared with itself; 0 is null.

    `skips_null[column]`: a null of this column satisfies no predicate. `is_all`: no row was left out.
    """

    codes: dict[int, Int64Array]
    skips_null: dict[int, bool]
    weights: Int64Array
    is_all: bool
    _ids: dict[tuple[int, ...], Int64Array] = field(default_factory=dict)
    _shares: dict[tuple[tuple[int, ...], int], tuple[Float64Array, Float64Array]] = field(default_factory=dict)
    _agreeing: dict[tuple[int, ...], int] = field(default_factory=dict)

    @classmethod
    def of(cls, outcomes: Outcomes, vertices: Vertices, n_table_rows: int, most_rows: int = MOST_ROWS) -> Rows:
        """The rows behind outcomes, which may be only some of the rows of a table."""
        places, n_fields = _sampled(outcomes.n_rows, most_rows), len(outcomes.layout.fields)
        codes, skips_null = {}, {}
        for number, column in enumerate(outcomes.layout.fields):
            if column.place is None or vertices.groups[column.place].comparison.across:
                continue
            if column.comparison.within_row:
                continue
            values = outcomes.left[number][places].astype(np.int64) + 1
            skips = bool(column.missing) and column.kind is not FieldKind.ORDER_OR_NULL
            if skips:
                values[(outcomes.left[n_fields + column.word][places] & column.missing) != 0] = 0
            codes[column.place], skips_null[column.place] = values, skips
        weights = outcomes.weights[places]
        return cls(codes, skips_null, weights, int(weights.sum()) == n_table_rows)

    @property
    def n_rows(self) -> int:
        return int(self.weights.size)

    def knows(self, fact: Fact) -> bool:
        return all(column in self.codes for column in fact.columns)

    def null_share(self, column: int) -> float:
        """The share of the rows whose value of a column is null, and satisfies no predicate."""
        if not self.skips_null.get(column):
            return 0.0
        return float(self.weights[self.codes[column] == 0].sum()) / float(self.weights.sum())

    def ids(self, columns: Sequence[int]) -> Int64Array:
        """For each row the number of its group: rows of a group agree on the columns."""
        from naysay.kernels.sort import dense_groups

        key = tuple(sorted(columns))
        if key not in self._ids:
            if not key:
                self._ids[key] = np.zeros(self.n_rows, np.int64)
            elif len(key) == 1:
                self._ids[key] = self.codes[key[0]]
            else:
                last = self.codes[key[-1]]
                joined = self.ids(key[:-1]) * (int(last.max(initial=0)) + 1) + last
                self._ids[key] = dense_groups(joined, np.empty(0, np.int64))[0]
        return self._ids[key]

    def n_groups(self, columns: Sequence[int]) -> int:
        """How many different values some columns have."""
        return int(np.count_nonzero(np.bincount(self.ids(columns))))

    def first_of_each(self, columns: Sequence[int]) -> Int64Array:
        """A row of each group."""
        ids = self.ids(columns)
        first = np.full(int(ids.max(initial=-1)) + 1, -1, np.int64)
        first[ids[::-1]] = np.arange(ids.size - 1, -1, -1)
        return first[first >= 0]

    def test(
        self, fact: Fact, violations: int, entity: Sequence[int] | None = None, *, count: bool = False
    ) -> Supported:
        """Test a dependency, or a key of several columns; on one row for each value of `entity` if it is given.

        `count` asks for the pairs that came near to breaking it.
        """
        sample = _Sample(self, self._chosen(fact, entity), entity is not None)
        if not sample.weights.size:
            return Supported(0.0, (0,) * len(fact.columns) if self.is_all else None)
        if fact.right is None:
            surprise = min(sample.key_surprise(fact, column, violations) for column in fact.left)
        else:
            surprise = sample.dependency_surprise(fact, sample.to_remove(fact) if violations else 0.0)
        # Rounded, so that the order of the rows does not matter.
        surprise = float(f"{max(0.0, surprise):.9g}")
        return Supported(surprise, sample.near(fact) if count and self.is_all else None)

    def share_to_remove(self, fact: Fact) -> float:
        """The share of the rows that must be removed at least such that a rule holds."""
        sample = _Sample(self, self._chosen(fact, None), False)
        return sample.to_remove(fact) / float(self.weights.sum()) if sample.weights.size else 0.0

    def _chosen(self, fact: Fact, entity: Sequence[int] | None) -> Int64Array | None:
        """The rows to test a rule on: one for each entity, and none that is null in a column of the rule; None: all."""
        chosen = None if entity is None else self.first_of_each(entity)
        for column in fact.columns:
            if self.skips_null[column]:
                chosen = np.arange(self.n_rows) if chosen is None else chosen
                chosen = chosen[self.codes[column][chosen] != 0]
        return chosen


class _Sample:
    """Some of the rows, or all of them; `alike`: each counts once, whatever its weight."""

    def __init__(self, rows: Rows, chosen: Int64Array | None, alike: bool) -> None:
        self.rows, self.chosen = rows, chosen
        weights = rows.weights if chosen is None else rows.weights[chosen]
        self.weights: Float64Array = np.ones(weights.size) if alike else weights.astype(np.float64)
        # The ordered pairs of rows that agree on some columns, kept for all rows.
        self._known_agreeing = {} if alike or chosen is not None else rows._agreeing

    def _ids(self, columns: Sequence[int]) -> Int64Array:
        ids = self.rows.ids(columns)
        return ids if self.chosen is None else ids[self.chosen]

    def _sizes(self, ids: Int64Array) -> Float64Array:
        sizes: Float64Array = np.bincount(ids, weights=self.weights).astype(np.float64, copy=False)
        return sizes

    def dependency_surprise(self, fact: Fact, removed: float) -> float:
        assert fact.right is not None
        groups = self._ids(fact.left)
        sizes = self._sizes(groups)
        surprises = []
        for column in fact.left:
            others = fact.without(column)
            agreeing, most = self._known_shares(others, fact.right)
            outer = np.zeros(sizes.size, np.int64)
            outer[groups] = self._ids(others)
            several = sizes > 1
            size, outer = sizes[several], outer[several]
            if removed:
                surprises.append(_chernoff(size - 1, 1 - most[outer], removed))
            else:
                surprises.append(-float(((size - 2) * np.log(most[outer]) + np.log(agreeing[outer])).sum()))
        return min(surprises)

    def _known_shares(self, outer: tuple[int, ...], right: int) -> tuple[Float64Array, Float64Array]:
        if self.chosen is not None:
            return self._shares(outer, right)
        known = self.rows._shares
        if (outer, right) not in known:
            known[outer, right] = self._shares(outer, right)
        return known[outer, right]

    def _shares(self, outer: Sequence[int], right: int) -> tuple[Float64Array, Float64Array]:
        """For each group of some columns, the chance that two rows agree on another column, and the largest share of
        a value."""
        groups, both = self._ids(outer), self._ids((*outer, right))
        counts = self._sizes(both)
        group_of = np.zeros(counts.size, np.int64)
        group_of[both] = groups
        sizes = np.maximum(self._sizes(groups), 1.0)
        shares = counts / sizes[group_of]
        most = np.zeros(sizes.size)
        np.maximum.at(most, group_of, shares)
        agreeing: Float64Array = np.bincount(group_of, weights=shares * shares, minlength=sizes.size).astype(np.float64)
        return agreeing, most

    def to_remove(self, fact: Fact) -> float:
        """The fewest rows to remove such that a rule holds."""
        groups, both = self._ids(fact.left), self._ids(fact.columns)
        if fact.right is None:
            return float(self.weights.sum()) - float(np.count_nonzero(self._sizes(groups)))
        counts = self._sizes(both)
        group_of = np.zeros(counts.size, np.int64)
        group_of[both] = groups
        most = np.zeros(int(groups.max()) + 1)
        np.maximum.at(most, group_of, counts)
        return float(self.weights.sum() - most.sum())

    def key_surprise(self, key: Fact, column: int, violations: int) -> float:
        sizes = self._sizes(self._ids(key.without(column)))
        shares = self._sizes(self._ids((column,))) / self.weights.sum()
        agreeing = float((shares * shares).sum())
        pairs = sizes * (sizes - 1) / 2
        counted = float((pairs / np.maximum(1.0, sizes * shares.max())).sum())
        expected = agreeing * counted
        if not violations or not expected:
            return expected
        # As many as there would be among the pairs that are counted.
        found = violations / 2 * counted / float(pairs.sum())
        return expected - found + found * log(found / expected) if found < expected else 0.0

    def near(self, fact: Fact) -> tuple[int, ...]:
        """For each column the ordered pairs that satisfy all predicates of a rule but that one."""
        right = () if fact.right is None else (fact.right,)
        found = []
        for column in fact.columns:
            if column == fact.right:
                found.append(self._agreeing(fact.columns))
                continue
            others = fact.without(column)
            differing = self._agreeing(others) - self._agreeing(fact.left)
            if right:
                differing -= self._agreeing((*others, *right)) - self._agreeing(fact.columns)
            found.append(differing)
        return tuple(found)

    def _agreeing(self, columns: Sequence[int]) -> int:
        """The ordered pairs of rows that agree on some columns."""
        known, key = self._known_agreeing, tuple(sorted(columns))
        if key not in known:
            sizes = self._sizes(self._ids(key))
            known[key] = round(float((sizes * sizes).sum() - self.weights.sum()))
        return known[key]


def _chernoff(draws: Float64Array, chances: Float64Array, found: float) -> float:
    """The negative logarithm of a bound on the chance of so few exceptions, if each draw is one with its chance."""
    n_draws = float(draws.sum())
    if not n_draws:
        return 0.0
    expected, observed = float((draws * chances).sum()) / n_draws, found / n_draws
    if observed >= expected or expected >= 1.0:
        return 0.0
    divergence = (1 - observed) * log((1 - observed) / (1 - expected)) + observed * log(observed / expected)
    return n_draws * divergence


@dataclass(frozen=True, slots=True)
class Entities:
    """What determines what: finds the things that rows repeat."""

    rows: Rows
    dependencies: tuple[Fact, ...]
    closures: dict[tuple[int, ...], frozenset[int]]
    sizes: dict[tuple[int, ...], int]

    @classmethod
    def of(cls, rows: Rows, dependencies: Sequence[Fact]) -> Entities:
        lefts = {(column,) for column in rows.codes} | {fact.left for fact in dependencies}
        known = tuple(dependencies)
        return cls(
            rows, known, {left: closure(left, known) for left in lefts}, {left: rows.n_groups(left) for left in lefts}
        )

    def behind(self, columns: Sequence[int], left: Sequence[int] = ()) -> tuple[int, ...] | None:
        """The smallest set of columns that determines the given ones, of those that `left` does not determine.

        Such a set may not contain all of `left` either. None if there is none that fewer values than rows have.
        """
        wanted, about = frozenset(columns), frozenset(left)
        own = closure(left, self.dependencies) | (wanted if left else frozenset())
        best, fewest = None, self.rows.n_rows
        for candidate, determined in self.closures.items():
            if self.sizes[candidate] >= fewest or not wanted <= determined:
                continue
            if left and (own.issuperset(candidate) or about.issubset(candidate)):
                continue
            best, fewest = candidate, self.sizes[candidate]
        return best


def closure(columns: Sequence[int], dependencies: Sequence[Fact]) -> frozenset[int]:
    """All columns that some columns determine, by Armstrong's axioms."""
    known = set(columns)
    grew = True
    while grew:
        grew = False
        for fact in dependencies:
            if fact.right is not None and fact.right not in known and known.issuperset(fact.left):
                known.add(fact.right)
                grew = True
    return frozenset(known)


def _sampled(n_rows: int, most_rows: int) -> Int64Array:
    if n_rows <= most_rows:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, most_rows, replace=False))


@dataclass(frozen=True, slots=True)
class Conditional:
    """A dependency that holds among the rows with one value of a column, but not among all rows.

    `fact` has one column on the left, or none if the right side has a single value there. `place` is a row that has the
    value, and one on the right side; `n_rows` how many rows have both, weights included. `near` counts the ordered
    pairs of them that agree on both sides.
    """

    column: int
    fact: Fact
    place: int
    n_rows: int
    near: int
    surprise: float


def find_conditional(
    rows: Rows, columns: Sequence[int], fewest: int, is_stopped: Callable[[], bool]
) -> tuple[list[Conditional], bool]:
    """Every minimal dependency among the rows with one value of one of `columns`; and whether none is missing.

    At least `fewest` rows have the value, and at least two of them a value on both sides. Left out is what follows from
    a dependency on the column: if `column, left -> right` holds among all rows, no condition is needed.
    """
    found: list[Conditional] = []
    for column in columns:
        frequent = np.bincount(rows.codes[column], weights=rows.weights) >= fewest
        # Zero is null, which no condition asks for.
        frequent[0] = False
        single: dict[int, BoolArray] = {}
        for left in (None, *(other for other in rows.codes if other != column)):
            if not frequent.any() or is_stopped():
                break
            groups = _Groups.of(rows, column, left)
            for right in [other for other in rows.codes if other not in (column, left)]:
                broken = groups.broken(right, frequent.size)
                holds = frequent & ~broken & ~single.get(right, np.zeros(frequent.size, np.bool_))
                if left is None:
                    single[right] = frequent & ~broken
                if broken.any():
                    fact = Fact(() if left is None else (left,), right)
                    found += _tested(rows, column, fact, np.flatnonzero(holds))
    return found, not is_stopped()


@dataclass(frozen=True, slots=True)
class _Groups:
    """Rows that agree on a column and perhaps a second one, group by group; rows with a null there are in none."""

    rows: Rows
    order: Int64Array
    starts: Int64Array
    values: Int64Array

    @classmethod
    def of(cls, rows: Rows, column: int, left: int | None) -> _Groups:
        columns = (column,) if left is None else (column, left)
        # Not `rows.ids`, which keeps what it finds: there are many pairs of columns.
        ids = rows.codes[column]
        if left is not None:
            ids = ids * (int(rows.codes[left].max(initial=0)) + 1) + rows.codes[left]
        order = np.argsort(ids, kind="stable")
        for each in columns:
            order = order[rows.codes[each][order] != 0] if rows.skips_null[each] else order
        starts = np.flatnonzero(np.append(True, np.diff(ids[order]) != 0)) if order.size else order
        return cls(rows, order, starts, rows.codes[column][order[starts]])

    def broken(self, right: int, n_values: int) -> BoolArray:
        """For each value of the column whether two rows of a group differ on the right side."""
        broken = np.zeros(n_values, np.bool_)
        if self.starts.size:
            greatest = self.rows.codes[right][self.order]
            is_null = (greatest == 0) if self.rows.skips_null[right] else False
            least = np.where(is_null, np.iinfo(np.int64).max, greatest)
            differs = np.minimum.reduceat(least, self.starts) < np.maximum.reduceat(greatest, self.starts)
            broken[self.values[differs]] = True
        return broken


def _tested(rows: Rows, column: int, fact: Fact, values: Int64Array) -> Iterator[Conditional]:
    """A dependency for each value of a column among whose rows it holds."""
    assert fact.right is not None
    comparable = rows._chosen(fact, None)
    places = np.arange(rows.n_rows) if comparable is None else comparable
    shares = _Sample(rows, comparable, False)._shares((), fact.right)[1] if places.size else np.ones(1)
    for value in values.tolist():
        chosen = places[rows.codes[column][places] == value]
        codes = {each: np.unique(rows.codes[each][chosen], return_inverse=True)[1] for each in fact.columns}
        sample = _Sample(Rows(codes, rows.skips_null, rows.weights[chosen], True), None, False)
        n_rows = int(sample.weights.sum())
        if n_rows < 2:
            continue
        if fact.left:
            near, surprise = sample.near(fact)[fact.columns.index(fact.right)], sample.dependency_surprise(fact, 0.0)
        else:
            near, surprise = n_rows * (n_rows - 1), -(n_rows - 1) * log(shares[0])
        yield Conditional(column, fact, int(chosen[0]), n_rows, near, max(0.0, surprise))
