"""Does a candidate rule hold on the whole table? One pair that breaks it, or none; nearly linear in the rows.

Candidates come by the dozen and share columns, so groups and sort orders are kept. All of it works on the columns of
outcomes: equal codes for equal values, in order, both sides of a comparison in one code space.

Enumerating the pairs that agree on a set of columns settles many candidates at once, at a price: `choose_sets` says
which sets are worth it. A set is a mask: bit k means group k of the vertices, a column compared with itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import BoolArray, Int32Array, Int64Array, UInt64Array
from naysay.discovery.outcomes import FieldKind, Outcomes
from naysay.discovery.vertices import Vertices
from naysay.rule.model import Op

Pair = tuple[int, int]
Values = TypeVar("Values", Int32Array, Int64Array)

# After this many node pairs a search gives up, and the caller enumerates the pairs instead.
BUDGET = 40_000_000
# The most steps per row for a sweep through three orders; beyond that a tree is searched.
_STEPS_PER_ROW = 48
_GAVE_UP: Pair = (-2, -2)
# What is kept between candidates, per row and at least.
_KEPT_BYTES_PER_ROW = 8
_FEWEST_KEPT_BYTES = 32 << 20
# A tree over two columns has a cell for each pair of their values: the most of these.
_TREE_CELLS = 1 << 20

# Measured on one core of a server: pairs compared, rows verified, node pairs looked at.
_PAIRS_PER_SECOND = 3e8
_SECONDS_PER_CHECK = 3e-4
_SECONDS_PER_ROW = 1.2e-7
_SECONDS_PER_NODE = 2e-8
_SECONDS_PER_SET = 2e-3
_SECONDS_PER_ROW_OF_SET = 1e-7
_MAX_COLUMNS = 63
# The rows of a larger table that tell how many pairs agree on a set.
_SIZED_ROWS = 1 << 18
# The most sets that are compared with each other, those of the most candidates.
_MOST_SETS = 4000


class TooLong(Exception):
    """A search that would cost more than enumerating the pairs that agree on the rule's equalities."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a cover asks of a pair, by field number: equalities, orders, differences.

    `values_only` are the fields in which a null satisfies nothing.
    """

    keys: tuple[int, ...]
    orders: tuple[tuple[int, Op], ...]
    differs: tuple[int, ...]
    values_only: tuple[int, ...]

    @property
    def fields(self) -> tuple[int, ...]:
        return (*self.keys, *(field for field, _ in self.orders), *self.differs)

    @property
    def reflexive(self) -> bool:
        """Whether a pair of rows that are equal in all of its fields satisfies all of it."""
        return not self.differs and not any(op.is_strict for _, op in self.orders)


class Verifier:
    """Verifies covers over one table. May be used by several threads at once."""

    def __init__(self, outcomes: Outcomes, vertices: Vertices) -> None:
        self.outcomes = outcomes
        self.vertices = vertices
        self._fields = {field.place: n for n, field in enumerate(outcomes.layout.fields) if field.place is not None}
        self._kept: dict[Any, tuple[Int32Array, ...]] = {}
        self._lock = threading.Lock()

    def conditions_of(self, cover: int) -> Conditions:
        keys, orders, differs, values_only = [], [], [], []
        for place, group in enumerate(self.vertices.groups):
            ops = group.ops(cover)
            if not ops:
                continue
            field = self._fields[place]
            if len(ops) == 2 or ops[0] is Op.EQ:
                keys.append(field)
            elif ops[0] is Op.NE:
                differs.append(field)
            else:
                orders.append((field, ops[0]))
            if group.kind is not FieldKind.ORDER_OR_NULL or len(ops) == 2 or ops[0].is_order:
                values_only.append(field)
        return Conditions(tuple(keys), tuple(orders), tuple(differs), tuple(values_only))

    def find(self, cover: int, budget: int = BUDGET) -> Pair | None:
        """A pair of places (t, s) that breaks the rule, or None; TooLong if the search exceeds the budget."""
        conditions = self.conditions_of(cover)
        if any(self.outcomes.layout.fields[field].comparison.across for field in conditions.fields):
            return self._find_across(conditions, budget)
        rows = self._rows(conditions.values_only, left=True)
        if not conditions.orders and len(conditions.differs) <= 1:
            return self._find_agreeing(conditions, rows)
        if not conditions.orders and len(conditions.differs) == 2:
            return self._find_two_differs(conditions, rows)
        if len(conditions.orders) == 2 and len(conditions.differs) <= 1:
            return self._find_two_orders(conditions, rows)
        if len(conditions.orders) == 3 and len(conditions.differs) <= 1:
            found = self._find_three_orders(conditions, rows)
            if found != _GAVE_UP:
                return found
        return self._find_any(conditions, rows, budget)

    def _keep(self, key: Any, make: Callable[[], tuple[Int32Array, ...]]) -> tuple[Int32Array, ...]:
        """Arrays that were made before, or are made now; those that were not used for longest are forgotten."""
        with self._lock:
            kept = self._kept.pop(key, None)
            if kept is not None:
                self._kept[key] = kept
        if kept is not None:
            return kept
        made = make()
        with self._lock:
            self._kept[key] = made
            most = max(_FEWEST_KEPT_BYTES, _KEPT_BYTES_PER_ROW * self.outcomes.n_rows)
            while len(self._kept) > 1 and sum(array.nbytes for each in self._kept.values() for array in each) > most:
                self._kept.pop(next(iter(self._kept)))
        return made

    def codes(self, field: int, *, left: bool = True) -> Int32Array:
        """A side of a field."""
        side = self.outcomes.left if left or self.outcomes.right is self.outcomes.left else self.outcomes.right
        codes: Int32Array = side[field]
        return codes

    def values(self, field: int, *, left: bool = True) -> Int64Array:
        """A side of a field as int64."""
        return self.codes(field, left=left).astype(np.int64)

    def _n_rows(self, rows: Int64Array | None) -> int:
        return self.outcomes.n_rows if rows is None else rows.size

    def _codes_at(self, field: int, rows: Int64Array | None) -> Int32Array:
        return self.codes(field) if rows is None else self.codes(field)[rows]

    def _rows(self, fields: tuple[int, ...], *, left: bool) -> Int64Array | None:
        """The places that are not null in any of the fields, on one side; None for all."""
        mask = self.valid(fields, left=left)
        return None if mask is None or bool(mask.all()) else np.flatnonzero(mask)

    def valid(self, fields: tuple[int, ...], *, left: bool) -> BoolArray | None:
        layout = self.outcomes.layout
        side: Int32Array = self.outcomes.left if left else self.outcomes.right
        mask: BoolArray | None = None
        for number in fields:
            field = layout.fields[number]
            if field.missing:
                here = (side[len(layout.fields) + field.word] & field.missing) == 0
                mask = here if mask is None else mask & here
        return mask

    def groups(self, fields: tuple[int, ...], rows: Int64Array | None) -> tuple[Int32Array, int]:
        """For each of the rows the number of its set of rows that agree on the fields, and how many sets there are."""
        fields = tuple(sorted(fields))
        if rows is None:
            ids, n_ids = self._keep(("groups", fields), lambda: self._group_all(fields))
            return ids, int(n_ids[0])
        return self._group(fields, rows)

    def keys(self, fields: tuple[int, ...], rows: Int64Array | None) -> Int32Array:
        """For each of the rows a code that is the same where rows agree on the fields."""
        return self._codes_at(fields[0], rows) if len(fields) == 1 else self.groups(fields, rows)[0]

    def _group_all(self, fields: tuple[int, ...]) -> tuple[Int32Array, ...]:
        ids, n_ids = self._group(fields, None)
        return ids, np.array([n_ids], np.int32)

    def _group(self, fields: tuple[int, ...], rows: Int64Array | None) -> tuple[Int32Array, int]:
        from naysay.kernels.sort import number_pairs

        n_rows = self._n_rows(rows)
        ids, n_ids = np.zeros(n_rows, np.int32), min(1, n_rows)
        if rows is None and len(fields) > 1:
            # Candidates share fields, and so what is kept of all but the last.
            ids, n_ids = self.groups(fields[:-1], None)
            if n_ids == n_rows:
                return ids, n_ids
            fields = fields[-1:]
        for field in fields:
            ids, n_ids = number_pairs(ids, self._codes_at(field, rows))
        return ids, n_ids

    def _sorted_groups(
        self, fields: tuple[int, ...], rows: Int64Array | None, minor: tuple[int, Op] | None = None
    ) -> tuple[Int32Array, Int32Array]:
        """Places group by group, within each ascending in a field as its operator turns it, and where each starts."""
        from naysay.kernels.sort import sorted_runs

        def sort() -> tuple[Int32Array, ...]:
            if minor is None:
                return sorted_runs(self.keys(fields, rows), np.empty(0, np.int32))
            values = _turn(self._codes_at(minor[0], rows), minor[1])
            return sorted_runs(self.keys(fields, rows) if fields else values[:0], values)

        name = None if minor is None else (minor[0], _is_turned(minor[1]))
        order, starts = self._keep(("sorted", fields, name), sort) if rows is None else sort()
        return order, starts

    def _find_agreeing(self, conditions: Conditions, rows: Int64Array | None) -> Pair | None:
        """Rows that agree on the keys and, if there is a difference, differ in it."""
        from naysay.kernels.joins.find import find_repeated, find_second_value
        from naysay.kernels.sort import table_bits

        ids, n_ids = self.groups(conditions.keys, rows)
        if n_ids == ids.size:
            return None
        if not conditions.differs:
            place = int(find_repeated(ids, table_bits(ids.size)))
            partners = np.flatnonzero(ids == ids[place])
        else:
            values = self._codes_at(conditions.differs[0], rows)
            place = int(find_second_value(ids, values, n_ids))
            if place < 0:
                return None
            partners = np.flatnonzero((ids == ids[place]) & (values != values[place]))
        return _pair((place, int(partners[partners != place][0])), rows)

    def _find_two_differs(self, conditions: Conditions, rows: Int64Array | None) -> Pair | None:
        from naysay.kernels.joins.find import find_two_differs

        order, starts = self._sorted_groups(conditions.keys, rows)
        first, second = (self._codes_at(field, rows) for field in conditions.differs)
        return _pair(find_two_differs(order, starts, first, second), rows)

    def _find_two_orders(self, conditions: Conditions, rows: Int64Array | None) -> Pair | None:
        """Two orders, at most one difference: a sweep."""
        from naysay.kernels.joins.find import find_two_orders

        (first, first_op), (second, second_op) = conditions.orders
        swapped = first_op in (Op.GT, Op.GE)
        if swapped:
            first_op, second_op = first_op.flipped, second_op.flipped
        x, y = self._codes_at(first, rows), self._codes_at(second, rows)
        if second_op in (Op.LT, Op.LE):
            y = -y
        order, starts = self._sorted_groups(conditions.keys, rows, (first, first_op))
        label = self._label(conditions, rows)
        found = _pair(find_two_orders(order, starts, (x, y, label), first_op.is_strict, second_op.is_strict), rows)
        return None if found is None else (found[::-1] if swapped else found)

    def _find_three_orders(self, conditions: Conditions, rows: Int64Array | None) -> Pair | None:
        """Three orders, at most one difference: a sweep in the column with most values; _GAVE_UP if that is slow."""
        from naysay.kernels.joins.find import find_three_orders, points_in_order

        n_rows = self._n_rows(rows)
        if n_rows < 2:
            return None
        columns = [self._codes_at(number, rows) for number, _ in conditions.orders]
        few = sorted(range(3), key=lambda k: int(np.ptp(columns[k])))
        order, starts = self._sorted_groups(conditions.keys, rows, conditions.orders[few[2]])
        chosen = [few[2], few[0], few[1]]
        turned = np.array([_is_turned(conditions.orders[k][1]) for k in chosen], np.int64)
        label = self._codes_at(conditions.differs[0], rows) if conditions.differs else order[:0]
        points = points_in_order((*(columns[k] for k in chosen), label), order, turned)
        strict = np.array([conditions.orders[k][1].is_strict for k in chosen], np.int64)
        found = find_three_orders(points, starts, int(points[1].max()) + 1, strict, _STEPS_PER_ROW * n_rows)
        if found[0] < 0:
            return _GAVE_UP if found[0] == _GAVE_UP[0] else None
        return _pair((int(order[found[0]]), int(order[found[1]])), rows)

    def _find_any(self, conditions: Conditions, rows: Int64Array | None, budget: int) -> Pair | None:
        """Any number of orders and differences, on rows that are distinct in the fields of the rule."""
        ids, n_ids = self.groups(conditions.fields, rows)
        if n_ids < ids.size:
            if conditions.reflexive:
                return self._find_agreeing(Conditions(conditions.fields, (), (), ()), rows)
            # Sets are numbered as they appear, so the first row of one has a greater number than all before it.
            first = np.flatnonzero(np.diff(np.maximum.accumulate(ids), prepend=np.int32(-1)))
            rows = first if rows is None else rows[first]
        places = np.arange(self.outcomes.n_rows) if rows is None else rows
        key, n_keys = self.groups(conditions.keys, rows)
        side = _Side(self._features(conditions, places, left=True), key.astype(np.int64), places)
        plan = _sweep_plan(side.features, conditions)
        if plan is not None:
            return _pair(_sweep(side.features, side.key, conditions, plan), places)
        return _search(side, side, conditions, n_keys, budget)

    def _find_across(self, conditions: Conditions, budget: int) -> Pair | None:
        """Comparisons between different columns: the two sides are different points."""
        from naysay.kernels.sort import dense_groups

        rows = [self._rows(conditions.values_only, left=left) for left in (True, False)]
        left_rows, right_rows = (np.arange(self.outcomes.n_rows) if some is None else some for some in rows)
        left_key, right_key, n_keys = np.zeros(left_rows.size, np.int64), np.zeros(right_rows.size, np.int64), 1
        for field in conditions.keys:
            left, right = self.values(field)[left_rows], self.values(field, left=False)[right_rows]
            width = int(max(left.max(initial=0), right.max(initial=0))) + 1
            left_key, right_key, n_keys = dense_groups(left_key * width + left, right_key * width + right)
        left_side = _Side(self._features(conditions, left_rows, left=True), left_key, left_rows)
        right_side = _Side(self._features(conditions, right_rows, left=False), right_key, right_rows)
        return _search(left_side, right_side, conditions, n_keys, budget)

    def _features(self, conditions: Conditions, rows: Int64Array, *, left: bool) -> Int64Array:
        """Orders turned into less or at most, then differences."""
        lines = [_turn(self.values(field, left=left)[rows], op) for field, op in conditions.orders]
        lines += [self.values(field, left=left)[rows] for field in conditions.differs]
        return np.array(lines, np.int64).reshape(len(lines), rows.size)

    def _label(self, conditions: Conditions, rows: Int64Array | None) -> Int32Array:
        """What the two rows must differ in: the values of the one difference, or the rows themselves."""
        if conditions.differs:
            return self._codes_at(conditions.differs[0], rows)
        return np.arange(self._n_rows(rows), dtype=np.int32)


def _turn(values: Values, op: Op) -> Values:
    """A column turned so that the operator is less or at most."""
    return -values if _is_turned(op) else values


def _is_turned(op: Op) -> bool:
    return op in (Op.GT, Op.GE)


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a search: its features, keys and places."""

    features: Int64Array
    key: Int64Array
    rows: Int64Array


def _search(left: _Side, right: _Side, conditions: Conditions, n_keys: int, budget: int) -> Pair | None:
    """Walk two trees."""
    from naysay.kernels.trees.dual_tree import AT_MOST, DIFFERS, LESS, build_tree, find_pair

    kinds = [LESS if op.is_strict else AT_MOST for _, op in conditions.orders] + [DIFFERS] * len(conditions.differs)
    left_order, left_starts = _by_key(left.key, n_keys)
    left_tree = build_tree(left.features, left_order, left_starts)
    right_order, right_tree = left_order, left_tree
    if right is not left:
        right_order, right_starts = _by_key(right.key, n_keys)
        right_tree = build_tree(right.features, right_order, right_starts)
    found = find_pair(
        (left.features, right.features),
        (left_order, right_order),
        (left.rows, right.rows),
        left_tree,
        right_tree,
        np.array(kinds, np.int64),
        budget,
    )
    if found[0] == -2:
        raise TooLong
    return None if found[0] < 0 else (int(left.rows[found[0]]), int(right.rows[found[1]]))


def _sweep_plan(features: Int64Array, conditions: Conditions) -> list[int] | None:
    """Which of three or four orders to sweep in, keep a tree over and compare; None if too many values are left."""
    n_orders = len(conditions.orders)
    if not 3 <= n_orders <= 4 or len(conditions.differs) > 1 or not features.shape[1]:
        return None
    ranges = np.ptp(features[:n_orders], axis=1) + 1
    few = np.argsort(ranges, kind="stable").tolist()
    if n_orders == 4 and int(ranges[few[0]]) * int(ranges[few[1]]) > _TREE_CELLS:
        return None
    # x, y, w, z; without w for three.
    return [few[3], few[1], few[0], few[2]] if n_orders == 4 else [few[2], few[0], few[1]]


def _sweep(features: Int64Array, key: Int64Array, conditions: Conditions, plan: list[int]) -> Pair:
    """Three or four orders, at most one difference."""
    from naysay.kernels.joins.find import find_four_orders
    from naysay.kernels.sort import group_starts, sorted_places

    lines = [features[k] - features[k].min() for k in plan]
    strict = [int(conditions.orders[k][1].is_strict) for k in plan]
    if len(plan) == 3:
        lines.insert(2, np.zeros(key.size, np.int64))
        strict.insert(2, 0)
    order = sorted_places(key, lines[0])
    label = features[-1] if conditions.differs else np.arange(key.size)
    found: Pair = find_four_orders(
        order,
        group_starts(key[order]),
        np.array(lines),
        np.ascontiguousarray(label),
        int(lines[1].max()) + 1,
        int(lines[2].max()) + 1,
        np.array(strict, np.int64),
    )
    return found


def _by_key(keys: Int64Array, n_keys: int) -> tuple[Int64Array, Int64Array]:
    from naysay.kernels.sort import sorted_places

    order = sorted_places(keys, np.zeros(keys.size, np.int64))
    return order, np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=n_keys))]).astype(np.int64)


def _pair(found: Pair, rows: Int64Array | None) -> Pair | None:
    t, s = int(found[0]), int(found[1])
    if t < 0:
        return None
    return (t, s) if rows is None else (int(rows[t]), int(rows[s]))


class Costs:
    """What enumerating and verifying cost, in seconds; group sizes are looked up once."""

    def __init__(self, verifier: Verifier, n_threads: int) -> None:
        self._verifier = verifier
        self._n_threads = n_threads
        self._n_pairs: dict[int, int] = {}
        # Groups are sized on these rows; None for all.
        n_rows = verifier.outcomes.n_rows
        is_large = n_rows > 2 * _SIZED_ROWS
        self._some = np.random.default_rng(0).choice(n_rows, _SIZED_ROWS, replace=False) if is_large else None
        self._fields = {
            field.place: number
            for number, field in enumerate(verifier.outcomes.layout.fields)
            if field.place is not None and not field.comparison.across
        }

    @property
    def n_rows(self) -> int:
        return self._verifier.outcomes.n_rows

    def single_masks(self) -> list[int]:
        return [1 << place for place in self._fields if place < _MAX_COLUMNS]

    def _rows(self, mask: int) -> tuple[tuple[int, ...], Int64Array | None]:
        """The fields of a set, and the rows that can agree with another on them: a null that equals nothing cannot."""
        fields = tuple(number for place, number in self._fields.items() if mask >> place & 1)
        layout = self._verifier.outcomes.layout
        strict = tuple(n for n in fields if layout.fields[n].kind is not FieldKind.ORDER_OR_NULL)
        valid = self._verifier.valid(strict, left=True)
        return fields, None if valid is None or bool(valid.all()) else np.flatnonzero(valid)

    def grouped(self, mask: int) -> tuple[Int32Array, Int32Array]:
        """Places set by set of rows that agree, and where each starts."""
        from naysay.kernels.sort import sorted_runs

        fields, rows = self._rows(mask)
        order, starts = sorted_runs(self._verifier.keys(fields, rows), np.empty(0, np.int32))
        return (order if rows is None else rows[order].astype(np.int32)), starts

    def look_up(self, masks: Iterable[int]) -> None:
        """Announce which sets will be asked about next, so that a search far from the rows can ask once for all."""

    def n_pairs(self, mask: int) -> int:
        """How many unordered pairs of rows agree on a set; an estimate from a sample if there are many rows."""
        if mask not in self._n_pairs:
            fields, rows = self._rows(mask)
            share = 1.0
            if self._some is not None:
                share = self._some.size / self.n_rows
                rows = self._some if rows is None else np.intersect1d(rows, self._some, assume_unique=True)
            ids, n_ids = self._verifier.groups(fields, rows)
            sizes = np.bincount(ids, minlength=max(1, n_ids))
            self._n_pairs[mask] = int(int((sizes * (sizes - 1) // 2).sum()) / share**2)
        return self._n_pairs[mask]

    def seconds_of(self, mask: int) -> float:
        """The seconds for enumerating the pairs that agree on a set."""
        n_pairs = self.n_pairs(mask)
        gather = self.n_rows * len(self._fields) * _SECONDS_PER_ROW_OF_SET / 4 * min(1.0, 2 * n_pairs / self.n_rows)
        return _SECONDS_PER_SET + gather + n_pairs / (_PAIRS_PER_SECOND * self._n_threads)

    def least_seconds(self) -> float:
        """The seconds for grouping rows by a set."""
        return _SECONDS_PER_SET + self.n_rows * _SECONDS_PER_ROW_OF_SET

    def check_seconds(self) -> float:
        """The seconds for verifying one candidate."""
        return (_SECONDS_PER_CHECK + self.n_rows * _SECONDS_PER_ROW) / self._n_threads

    def search_seconds(self, budget: int) -> float:
        return budget * _SECONDS_PER_NODE

    def all_pairs_seconds(self) -> float:
        return self.n_rows * (self.n_rows - 1) / 2 / (_PAIRS_PER_SECOND * self._n_threads)


def equality_masks(covers: UInt64Array, vertices: Vertices) -> NDArray[np.uint64]:
    """For each cover the set of columns that it asks two rows to agree on."""
    masks = np.zeros(len(covers), np.uint64)
    for place, group in enumerate(vertices.groups[:_MAX_COLUMNS]):
        if group.comparison.across:
            continue
        chosen = vertices.chosen(covers, group)
        agrees = np.isin(chosen, [0b1] if group.kind is FieldKind.EQUALITY else [0b101, 0b1000])
        masks |= agrees.astype(np.uint64) << np.uint64(place)
    return masks


def settled_by(masks: NDArray[np.uint64], settled: list[int]) -> NDArray[np.bool_]:
    """For each set whether it contains one of those enumerated."""
    found = np.zeros(len(masks), np.bool_)
    for mask in settled:
        found |= (masks & np.uint64(mask)) == np.uint64(mask)
    return found


def choose_sets(masks: NDArray[np.uint64], costs: Costs) -> tuple[list[int], float]:
    """Sets to enumerate so that candidates with these equality sets cost least; and the seconds that all will take.

    Greedy: the set that saves most for its price, as long as one saves more than it costs.
    """
    distinct, counts = np.unique(masks, return_counts=True)
    rest = 0
    if len(distinct) > _MOST_SETS:
        common = np.sort(np.argsort(-counts, kind="stable")[:_MOST_SETS])
        rest = int(counts.sum() - counts[common].sum())
        distinct, counts = distinct[common], counts[common]
    left = counts.astype(np.float64)
    within = (distinct[None, :] & distinct[:, None]) == distinct[:, None]
    check, least = costs.check_seconds(), costs.least_seconds()
    prices = np.full(len(distinct), np.inf)
    worth = np.flatnonzero(((within @ left) * check > least) & (distinct != 0))
    costs.look_up(int(mask) for mask in distinct[worth])
    for place in worth:
        prices[place] = costs.seconds_of(int(distinct[place]))
    chosen: list[int] = []
    seconds = 0.0
    while len(distinct):
        gains = np.where(np.isfinite(prices), (within @ left) * check / prices, 0.0)
        best = int(np.argmax(gains))
        if gains[best] <= 1.0:
            break
        chosen.append(int(distinct[best]))
        seconds += float(prices[best])
        left[within[best]] = 0.0
    minimal = [mask for mask in chosen if not any(other != mask and other & mask == other for other in chosen)]
    return minimal, seconds + float(left.sum() + rest) * check
