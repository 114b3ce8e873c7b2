"""The default index: for each key a tree of zones, shared by the rules that it serves."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from naysay.arrays import NULL, UNLIMITED, Int64Array, as_rows
from naysay.budget import current, require_seconds
from naysay.errors import ResourceError
from naysay.kernels.sort import sorted_places
from naysay.kernels.trees.blocks import build_blocks, count_blocks
from naysay.kernels.trees.curve import curve_places
from naysay.kernels.trees.zone_tree import (
    FAN_OUT,
    FREE_LEAF,
    FREE_NODE,
    HEIGHT,
    LEAF_ROWS,
    N_LEAVES,
    N_NODES,
    N_ROWS,
    N_STATE,
    Tree,
    all_rows,
    build_tree,
    count_boxes,
    delete_rows,
    insert_rows,
    list_boxes,
)
from naysay.kernels.trees.zones import LEAF_ROWS as BLOCK_ROWS
from naysay.live.codes import TupleTable, enlarge
from naysay.live.columns import Coded, Source, SpaceName
from naysay.plan.cost import process_bytes
from naysay.plan.join import Join
from naysay.rule.model import Nulls, Row
from naysay.watch.batch import (
    GREATEST,
    NO_PAIRS,
    CodedRows,
    JoinColumns,
    PairDelta,
    RowChange,
    SideColumns,
    SlotPairs,
    columns_of,
    concat_pairs,
)

# Inserting a row costs about ten times as much as rebuilding does per row.
_REBUILD_SHARE = 8


@dataclass(frozen=True, slots=True)
class BoxSearch:
    """Boxes to search a tree for: [key, lows, highs, values to differ from], and the features that these refer to."""

    boxes: Int64Array
    features: Int64Array
    n_orders: int
    nulls_differ: bool
    # Whether boxes without rows inside were sorted out already.
    is_near: bool = False

    @property
    def kernel(self) -> tuple[Int64Array, Int64Array, int, bool]:
        """What the kernels take."""
        return self.boxes, self.features, self.n_orders, self.nulls_differ

    def some(self, places: Int64Array) -> BoxSearch:
        """The same for some of the boxes."""
        return replace(self, boxes=self.boxes[places])

    def along_curve(self, places: Int64Array) -> BoxSearch:
        """The same for some of the boxes, in a tree whose rows have their place on a curve before all features."""
        return replace(self, boxes=self.boxes[places], features=self.features + 1)


@dataclass(frozen=True, slots=True)
class ListRequest:
    """Who asks for the rows in boxes: the owner of each box, and the stamp of owners not to list, and the most
    rows to list."""

    owners: Int64Array
    stamps: Int64Array
    skipped: int
    limit: int


# Given estimates of the pairs and the seconds, raises ResourceError if that is more than is allowed.
Require = Callable[[float, float], None]


class ZoneTree:
    """Rows [key, features ..., owner], searched by box: see `kernels.trees.zone_tree`."""

    def __init__(self, n_features: int) -> None:
        self.width = n_features + 2
        self._tree = self._empty(0)

    @property
    def n_rows(self) -> int:
        return int(self._tree[-1][N_ROWS])

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in self._tree)

    def insert(self, rows: Int64Array) -> None:
        """Insert rows [n, width]."""
        n_new = len(rows)
        if n_new == 0:
            return
        if n_new * _REBUILD_SHARE > self.n_rows + 256:
            self._rebuild(np.concatenate((all_rows(self._tree), rows)) if self.n_rows else rows)
            return
        self._make_room(n_new)
        insert_rows(self._tree, in_tree_order(rows))

    def delete(self, rows: Int64Array) -> None:
        """Delete rows [n, width], which must all be in the tree."""
        if len(rows) == 0:
            return
        n_missing = delete_rows(self._tree, in_tree_order(rows))
        assert n_missing == 0, f"{n_missing} rows to delete are not in the tree"
        # Only empty leaves are freed; if leaves have few rows, rebuild.
        state = self._tree[-1]
        if state[N_LEAVES] > 64 and state[N_ROWS] * 8 < state[N_LEAVES] * LEAF_ROWS:
            self._rebuild(all_rows(self._tree))

    def list(self, search: BoxSearch, request: ListRequest) -> tuple[Int64Array, Int64Array, bool]:
        """The places of boxes and the owners of rows inside them, and whether that is all of them."""
        if len(search.boxes) >= _BULK_ROWS:
            self._require(search, require_pairs)
        return list_boxes(self._tree, search.kernel, request.owners, request.stamps, request.skipped, request.limit)

    def count(self, search: BoxSearch) -> Int64Array:
        """The number of rows in each box."""
        if len(search.boxes) >= _BULK_ROWS:
            self._require(search, _require_counting)
        return count_boxes(self._tree, search.kernel)

    def _require(self, search: BoxSearch, require: Require) -> None:
        """Refuse to search for many boxes if that would take too long or find too many rows."""
        _estimate(
            lambda sample: int(count_boxes(self._tree, search.some(sample).kernel).sum()), len(search.boxes), require
        )

    def rows(self) -> Int64Array:
        """All rows in ascending order."""
        return all_rows(self._tree)

    def _rebuild(self, rows: Int64Array) -> None:
        ordered = in_tree_order(rows)
        self._tree = self._empty(len(ordered))
        if len(ordered):
            build_tree(self._tree, ordered)

    def _empty(self, n_rows: int) -> Tree:
        n_leaves = n_rows // 20 + 16
        n_nodes = n_leaves // 8 + 32
        tree = (
            np.empty((n_leaves, LEAF_ROWS, self.width), np.int64),
            np.empty(n_leaves, np.int64),
            np.empty((n_nodes, FAN_OUT), np.int64),
            np.zeros(n_nodes, np.int64),
            np.empty((n_nodes, FAN_OUT, 3), np.int64),
            np.empty((n_nodes, FAN_OUT, 2 * self.width - 1), np.int64),
            np.zeros(N_STATE, np.int64),
        )
        state = tree[-1]
        state[FREE_LEAF] = state[FREE_NODE] = -1
        if n_rows == 0:
            state[HEIGHT] = state[N_NODES] = 1
        return tree

    def _make_room(self, n_new: int) -> None:
        rows, sizes, children, fan_outs, begins, zones, state = self._tree
        if state[N_LEAVES] + n_new > len(sizes):
            n_leaves = max(2 * len(sizes), int(state[N_LEAVES]) + n_new)
            rows, sizes = enlarge(rows, n_leaves), enlarge(sizes, n_leaves)
        n_needed = n_new + 16
        if state[N_NODES] + n_needed > len(fan_outs):
            n_nodes = max(2 * len(fan_outs), int(state[N_NODES]) + n_needed)
            children, fan_outs = enlarge(children, n_nodes), enlarge(fan_outs, n_nodes)
            begins, zones = enlarge(begins, n_nodes), enlarge(zones, n_nodes)
        self._tree = (rows, sizes, children, fan_outs, begins, zones, state)


class CurveTree:
    """Like `ZoneTree`, for rows searched by three and more orders at once.

    Its rows are in the order of a curve through the features of these orders (the first of all features), so that a
    node of the tree is a small box in each of them; in the order of a single feature it would be a slab, and a search
    would visit a part of all nodes that grows with the rows.
    """

    def __init__(self, n_features: int, n_curve: int) -> None:
        self.width = n_features + 2
        self._bounds = np.empty((n_curve, 0), np.int64)
        self._tree = ZoneTree(n_features + 1)
        self._n_built = 0

    @property
    def n_rows(self) -> int:
        return self._tree.n_rows

    @property
    def n_bytes(self) -> int:
        return self._tree.n_bytes + self._bounds.nbytes

    def insert(self, rows: Int64Array) -> None:
        """Insert rows [n, width]."""
        if self.n_rows + len(rows) <= 2 * self._n_built + 256:
            self._tree.insert(self._along(rows))
            return
        # The curve follows the distribution of the rows: find it anew when there are twice as many.
        every = np.concatenate((self.rows(), rows)) if self.n_rows else rows
        self._bounds = _curve_bounds(every, len(self._bounds))
        self._tree = ZoneTree(self.width - 1)
        self._tree.insert(self._along(every))
        self._n_built = len(every)

    def delete(self, rows: Int64Array) -> None:
        """Delete rows [n, width], which must all be in the tree."""
        self._tree.delete(self._along(rows))

    def list(self, search: BoxSearch, request: ListRequest) -> tuple[Int64Array, Int64Array, bool]:
        """As `ZoneTree.list`."""
        near = self._near(search, require_pairs)
        at, found, complete = self._tree.list(search.along_curve(near), replace(request, owners=request.owners[near]))
        return near[at], found, complete

    def count(self, search: BoxSearch) -> Int64Array:
        """As `ZoneTree.count`."""
        near = self._near(search, _require_counting)
        counts = np.zeros(len(search.boxes), np.int64)
        counts[near] = self._tree.count(search.along_curve(near))
        return counts

    def _near(self, search: BoxSearch, require: Require) -> Int64Array:
        """The boxes that are worth a search: if there are many, those without rows inside are sorted out together."""
        if search.is_near or len(search.boxes) < max(_BULK_ROWS, self.n_rows // _BULK_SHARE):
            return np.arange(len(search.boxes))
        return _near_partners(search, self.rows(), require)

    def rows(self) -> Int64Array:
        """All rows."""
        return np.delete(self._tree.rows(), 1, axis=1)

    def _along(self, rows: Int64Array) -> Int64Array:
        return np.insert(rows, 1, curve_places(rows, self._bounds), axis=1)


# From this many rows on, and this part of the tree's rows, those without partners are sorted out together.
_BULK_ROWS, _BULK_SHARE = 4096, 8
# The work of many is estimated from this many.
_SAMPLE = 256
# With more orders than this, a tree in the order of one of them would visit too much.
_MAX_SLAB_ORDERS = 2
# The bits of all cells of a curve together, and of the cells of one feature.
_CURVE_BITS, _CELL_BITS = 60, 11


def tree_for(n_features: int, n_orders: int) -> ZoneTree | CurveTree:
    """An empty tree for searches by the first n_orders of these features at once."""
    if n_orders > _MAX_SLAB_ORDERS:
        return CurveTree(n_features, min(n_orders, _CURVE_BITS))
    return ZoneTree(max(n_features, 1))


def _curve_bounds(rows: Int64Array, n_curve: int) -> Int64Array:
    """Values that divide the rows into cells of about equally many, by a sample, for each feature of a curve."""
    n_bounds = (1 << min(_CELL_BITS, _CURVE_BITS // n_curve, max(len(rows).bit_length(), 1))) - 1
    some = rows[:: max(len(rows) >> _CELL_BITS + 4, 1)]
    places = np.linspace(0, len(some) - 1, n_bounds + 2)[1:-1].astype(np.int64)
    return np.stack([np.sort(some[:, 1 + feature])[places] for feature in range(n_curve)])


def _near_partners(search: BoxSearch, rows: Int64Array, require: Require) -> Int64Array:
    """The boxes that may have a row inside, and all that have one: many boxes searched together, block by block.

    In each order only one bound of the boxes counts, the one that most of them have. Nulls count as values.
    """
    boxes, features, n_orders, _ = search.kernel
    left, right = [boxes[:, 0]], [rows[:, 0]]
    for order in range(n_orders):
        low, high, values = boxes[:, 1 + order], boxes[:, 1 + n_orders + order], rows[:, features[order]]
        is_above = 2 * np.count_nonzero(high == GREATEST) > len(boxes)
        # Read from above, values and bounds are inverted bit by bit, with room for the - 1 below the least.
        left.append((low if is_above else np.maximum(~high, NULL + 1)) - 1)
        right.append(values if is_above else np.maximum(~values, NULL + 1))
    left += [boxes[:, 1 + 2 * n_orders + at] for at in range(len(features) - n_orders)]
    right += [rows[:, column] for column in features[n_orders:]]
    return _with_partners(np.stack(left), np.stack(right), n_orders, require)


def _with_partners(left: Int64Array, right: Int64Array, n_orders: int, require: Require) -> Int64Array:
    """The places of left rows [key, orders, differs] by feature with a greater right row, found block by block."""
    blocks, places = build_blocks(left)
    others = blocks if right is left else build_blocks(right)[0]
    sums, nobody, never = np.arange(right.shape[1] + 1), np.empty(0, np.int64), np.zeros(1, np.int64)

    def count(chosen: Int64Array) -> Int64Array:
        counts = np.zeros(len(places), np.int64)
        work = np.array([0, 0, UNLIMITED, -1])
        count_blocks(blocks, others, sums, n_orders, chosen, work, counts, nobody, never)
        return counts

    n_blocks = -(-len(places) // BLOCK_ROWS)
    _estimate(lambda sample: int(count(sample).sum()), n_blocks, require)
    return np.sort(places[count(np.arange(n_blocks)) > 0])


def _estimate(count: Callable[[Int64Array], int], n_items: int, require: Require) -> None:
    """Estimate the pairs and the seconds of work on many items from a sample of them, and refuse what is too much."""
    if n_items == 0:
        return
    sample = np.unique(np.linspace(0, n_items - 1, min(n_items, _SAMPLE)).astype(np.int64))
    # Kernels are loaded before time is taken.
    count(sample[:1])
    begin = time.perf_counter()
    n_pairs = count(sample)
    scale = n_items / len(sample)
    require(n_pairs * scale, (time.perf_counter() - begin) * scale)


def in_tree_order(rows: Int64Array) -> Int64Array:
    """Rows in ascending order of (key, first feature, owner)."""
    if len(rows) < 2:
        return rows
    owners = rows[:, -1]
    # `take` copies whole rows, in a third of the time of an index.
    by_owner = rows if (owners[1:] >= owners[:-1]).all() else rows.take(np.argsort(owners, kind="stable"), axis=0)
    places = sorted_places(np.ascontiguousarray(by_owner[:, 0]), np.ascontiguousarray(by_owner[:, 1]))
    return by_owner.take(places, axis=0)


# For more violations than this in one change, counting is the better choice.
MAX_PAIRS = 100_000_000
# A pair takes two slots while it is found, sorted and returned; nanoseconds to list one.
_BYTES_PER_PAIR, _LISTING = 64, 20.0


def too_many_violations() -> ResourceError:
    return ResourceError(
        f"a rule has more than {MAX_PAIRS:,} violations in one change; "
        "count them instead of keeping them (counting=True, --counting), or leave the rule out"
    )


def _require_counting(n_pairs: float, seconds: float) -> None:
    """Refuse to count pairs if that would take longer than is allowed, however many there are."""
    require_seconds(seconds)


def require_pairs(n_pairs: float, seconds: float) -> None:
    """Refuse to search and list pairs if the estimates of their number and the time are more than is allowed."""
    if n_pairs > 2 * MAX_PAIRS:
        raise too_many_violations()
    require_seconds(seconds + 1e-9 * _LISTING * n_pairs)
    budget = current()
    if budget is None or budget.memory is None:
        return
    needed, held = int(n_pairs) * _BYTES_PER_PAIR, process_bytes()
    if held + needed > budget.memory:
        raise ResourceError(
            f"a rule has about {int(n_pairs):,} violations, and listing them needs about {needed >> 20:,} MiB on top "
            f"of the {held >> 20:,} MiB already in use, more than the {budget.memory >> 20:,} MiB allowed; "
            "allow more memory, count them instead of keeping them (counting=True, --counting), or leave the rule out"
        )


# With more features the rows of a shared tree get too wide.
_MAX_FEATURES = 6


@dataclass(slots=True, eq=False)
class SharedTree:
    """The rows with one key that pass one filter, with the features of all rules that search them."""

    side: SideColumns
    features: list[Coded]
    tree: ZoneTree | CurveTree
    rules: set[str] = field(default_factory=set)
    _places: dict[tuple[Coded, ...], Int64Array] = field(default_factory=dict)

    @property
    def n_curve(self) -> int:
        """How many of the features, the first ones, the order of the rows depends on if it is not one alone."""
        n_orders = len({*self.side.orders})
        return n_orders if n_orders > _MAX_SLAB_ORDERS else 0

    def empty(self) -> ZoneTree | CurveTree:
        """A tree for these features."""
        self._places.clear()
        return tree_for(len(self.features), self.n_curve)

    @property
    def sources(self) -> list[Source]:
        """Everything that the tree reads of a row."""
        return [*self.side.key, *self.features, *([self.side.filter] if self.side.filter else [])]

    def rows(self, batch: CodedRows, groups: KeyNumbers, nulls: Nulls) -> Int64Array:
        """The rows of a batch as the tree holds them."""
        if batch.n_rows == 0:
            return np.empty((0, self.tree.width), np.int64)
        rows = groups.rows(batch, self.side.key, self.features, self.side.partners(batch, nulls))
        if self.features:
            return rows
        # A tree has at least one feature.
        padded = np.zeros((len(rows), 3), np.int64)
        padded[:, ::2] = rows
        return padded

    def places_of(self, features: tuple[Coded, ...]) -> Int64Array:
        """The places of a rule's features in the tree's rows."""
        if features not in self._places:
            self._places[features] = np.array([1 + self.features.index(column) for column in features], np.int64)
        return self._places[features]

    def serves(self, side: SideColumns) -> bool:
        """Whether the tree suits a rule: for orders, its first feature must be one of them."""
        if self.side.key != side.key or self.side.filter != side.filter:
            return False
        if self.n_curve or len({*side.orders}) > _MAX_SLAB_ORDERS:
            if {*self.features[: self.n_curve]} != {*side.orders}:
                return False
        elif side.orders and (not self.features or self.features[0] not in side.orders):
            return False
        return len({*self.features, *side.features}) <= max(_MAX_FEATURES, len(side.features))


class KeyNumbers:
    """A number for each combination of key values; the codes of a single key column are used as they are."""

    def __init__(self) -> None:
        self._tables: dict[tuple[SpaceName, ...], TupleTable] = {}

    def of(self, batch: CodedRows, key: tuple[Coded, ...]) -> Int64Array:
        """The key of each row of a batch."""
        if len(key) == 1:
            return batch.codes[key[0]]
        if key not in batch.groups:
            batch.groups[key] = self._combine(batch, key)
        return batch.groups[key]

    def rows(
        self, batch: CodedRows, key: tuple[Coded, ...], features: Sequence[Coded], places: Int64Array
    ) -> Int64Array:
        """Some rows of a batch as [key, features ..., slot]."""
        columns = [self.of(batch, key), *[batch.codes[column] for column in features], batch.slots]
        if len(places) == batch.n_rows:
            return as_rows(columns)
        return as_rows([column[places] for column in columns])

    def _combine(self, batch: CodedRows, key: tuple[Coded, ...]) -> Int64Array:
        if not key:
            return np.zeros(batch.n_rows, np.int64)
        table = self._tables.setdefault(tuple(column.space for column in key), TupleTable(len(key)))
        return table.add(as_rows([batch.codes[column] for column in key]))


@dataclass(frozen=True, slots=True)
class _IndexedRule:
    sides: JoinColumns
    sources: list[Source]
    left: SharedTree
    right: SharedTree


class TreeIndex:
    """Trees of zones for two-row rules. A change costs O(log n) per row and rule, and O(log n) per violation."""

    keeps_violations = False

    def __init__(self, schema: pa.Schema, nulls: Nulls) -> None:
        self.schema = schema
        self.nulls = nulls
        self._rules: dict[str, _IndexedRule] = {}
        self._trees: list[SharedTree] = []
        self._groups = KeyNumbers()

    @property
    def n_bytes(self) -> int:
        return sum(shared.tree.n_bytes for shared in self._trees)

    def add(self, name: str, join: Join, rows: CodedRows) -> None:
        sides = columns_of(self.schema, join)
        left = self._tree_for(sides.left, rows)
        right = left if sides.right == sides.left else self._tree_for(sides.right, rows)
        self._rules[name] = _IndexedRule(sides, sides.sources, left, right)
        left.rules.add(name)
        right.rules.add(name)

    def remove(self, name: str) -> None:
        rule = self._rules.pop(name)
        for shared in {id(shared): shared for shared in (rule.left, rule.right)}.values():
            shared.rules.discard(name)
            self._prune(shared)
        self._trees = [shared for shared in self._trees if shared.rules]

    def recode(self, rows: CodedRows) -> None:
        self._groups = KeyNumbers()
        for shared in self._trees:
            self._fill(shared, rows)

    def violations(self, name: str, rows: CodedRows) -> SlotPairs:
        rule, n_slots = self._rules[name], int(rows.slots.max()) + 1 if rows.n_rows else 1
        near = self._near(rule.sides, rows) if rule.right.n_curve and rows.n_rows >= _BULK_ROWS else None
        return self._search(rule, rows, Row.LEFT, np.zeros(n_slots, np.int64), -1, near)

    def _near(self, sides: JoinColumns, rows: CodedRows) -> Int64Array:
        """The places of all rows that may have a partner on their right, and all that have one."""
        left = self._features(sides, rows, Row.LEFT)
        right = left if sides.left == sides.right and all(sides.strict) else self._features(sides, rows, Row.RIGHT)
        near = _with_partners(left, right, len(sides.strict), require_pairs)
        return sides.left.eligible(rows, self.nulls)[near]

    def _features(self, sides: JoinColumns, rows: CodedRows, row: Row) -> Int64Array:
        """The codes of one side's eligible rows, by feature, such that an order holds if left < right."""
        side = sides.left if row is Row.LEFT else sides.right
        places = side.eligible(rows, self.nulls)
        columns = [self._groups.of(rows, side.key)]
        for column, descending, strict in zip(side.orders, sides.descending, sides.strict, strict=True):
            codes = ~rows.codes[column] if descending else rows.codes[column]
            # No code is the least one. Its complement is the greatest, so one of the two sides has room to move.
            if not strict and descending == (row is Row.RIGHT):
                codes = codes + 1 if descending else codes - 1
            columns.append(codes)
        columns += [rows.codes[column] for column in side.differs]
        every = np.stack(columns)
        return every if len(places) == rows.n_rows else np.ascontiguousarray(every[:, places])

    def change(self, edit: RowChange, stamps: Int64Array) -> dict[str, PairDelta]:
        edits = {name: edit.touching(rule.sources) for name, rule in self._rules.items()}
        removed = {name: self._touching(rule, edits[name].old, stamps) for name, rule in self._rules.items()}
        rows = [(shared, *self._tree_rows(shared, edit)) for shared in self._trees]
        for shared, gone, come in rows:
            shared.tree.delete(gone)
            shared.tree.insert(come)
        try:
            added = {name: self._touching(rule, edits[name].new, stamps) for name, rule in self._rules.items()}
        except ResourceError:
            for shared, gone, come in rows:
                shared.tree.delete(come)
                shared.tree.insert(gone)
            raise
        return {name: PairDelta(removed[name], added[name]) for name in self._rules}

    def meet(self, name: str, visitors: CodedRows, row: Row, without: Int64Array, stamps: Int64Array) -> SlotPairs:
        """Violations of rows outside of the trees, on one side, with rows in them, but for the slots `without`."""
        stamps[without] = 1
        try:
            return self._search(self._rules[name], visitors, row, stamps, 1)
        finally:
            stamps[without] = 0

    def _tree_rows(self, shared: SharedTree, edit: RowChange) -> tuple[Int64Array, Int64Array]:
        if edit.n_updates:
            edit = edit.touching(shared.sources)
        return shared.rows(edit.old, self._groups, self.nulls), shared.rows(edit.new, self._groups, self.nulls)

    def _touching(self, rule: _IndexedRule, batch: CodedRows, stamps: Int64Array) -> SlotPairs:
        """All violations with some row of a batch, whose rows are in the trees."""
        if batch.n_rows == 0:
            return NO_PAIRS
        stamps[batch.slots] = 1
        try:
            as_left = self._search(rule, batch, Row.LEFT, stamps, -1)
            if rule.sides.symmetric:
                if len(as_left) == 0:
                    return as_left
                left, right = as_left.left, as_left.right
                outside = stamps[right] != 1
                if np.count_nonzero(outside) == len(right):
                    return SlotPairs(np.concatenate((left, right)), np.concatenate((right, left)))
                return concat_pairs((as_left, SlotPairs(right, left).filter(outside)))
            return concat_pairs((as_left, self._search(rule, batch, Row.RIGHT, stamps, 1)))
        finally:
            stamps[batch.slots] = 0

    def _search(
        self,
        rule: _IndexedRule,
        batch: CodedRows,
        row: Row,
        stamps: Int64Array,
        skipped: int,
        near: Int64Array | None = None,
    ) -> SlotPairs:
        """Violations with rows of the batch on one side, without partners whose stamp is `skipped`.

        `near` are the places of the rows to search for, if those without partners were sorted out already.
        """
        sides = rule.sides
        own, other, shared = (
            (sides.left, sides.right, rule.right) if row is Row.LEFT else (sides.right, sides.left, rule.left)
        )
        places = own.eligible(batch, self.nulls) if near is None else near
        if len(places) == 0:
            return NO_PAIRS
        group = self._groups.of(batch, own.key)[places]
        if len(places) > 1:
            # Searching in the order of the tree keeps its nodes in the cache.
            order = sorted_places(group, batch.codes[own.orders[0]][places] if own.orders else group)
            places, group = places[order], group[order]
        boxes, features = sides.boxes(batch, places, row, group), shared.places_of(other.features)
        search = BoxSearch(boxes, features, len(other.orders), self.nulls is Nulls.EQUAL, near is not None)
        owners = batch.slots[places]
        at, partners, complete = shared.tree.list(search, ListRequest(owners, stamps, skipped, MAX_PAIRS))
        if not complete:
            raise too_many_violations()
        found = owners[at]
        return SlotPairs(found, partners) if row is Row.LEFT else SlotPairs(partners, found)

    def _tree_for(self, side: SideColumns, rows: CodedRows) -> SharedTree:
        """A tree that serves the side: an existing one, with more features if needed, or a new one."""
        for shared in self._trees:
            if shared.serves(side):
                missing = [column for column in dict.fromkeys(side.features) if column not in shared.features]
                if missing:
                    shared.features += missing
                    self._fill(shared, rows)
                return shared
        shared = SharedTree(side, list(dict.fromkeys(side.features)), ZoneTree(0))
        self._fill(shared, rows)
        self._trees.append(shared)
        return shared

    def _prune(self, shared: SharedTree) -> None:
        """Drop features that no rule of the tree needs any more."""
        used: set[Coded] = set()
        for name in shared.rules:
            rule = self._rules[name]
            used.update(rule.sides.left.features if rule.left is shared else ())
            used.update(rule.sides.right.features if rule.right is shared else ())
        kept = [column for column in shared.features if column in used]
        if not shared.rules or len(kept) == len(shared.features):
            return
        rows = shared.tree.rows()
        features = [rows[:, [1 + shared.features.index(column)]] for column in kept] or [np.zeros_like(rows[:, :1])]
        shared.features = kept
        shared.tree = shared.empty()
        shared.tree.insert(np.ascontiguousarray(np.concatenate([rows[:, :1], *features, rows[:, -1:]], axis=1)))

    def _fill(self, shared: SharedTree, rows: CodedRows) -> None:
        shared.tree = shared.empty()
        shared.tree.insert(shared.rows(rows, self._groups, self.nulls))
