"""Rapidash's search structures over arrays: points and queries in groups, and a forest of either tree over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from naysay.arrays import Int64Array
from naysay.errors import ResourceError
from naysay.kernels.sort import sorted_places
from naysay.kernels.trees.kd_tree import LEAF, KdForest, build_kd_forest, run_kd_forest
from naysay.kernels.trees.range_tree import (
    BYTES_OF_ENTRY,
    Queries,
    RangeForest,
    build_range_forest,
    entries,
    lay_out,
    rank_queries,
    run_range_forest,
)
from naysay.papers import MethodLimits

Columns = tuple[Int64Array, ...]

# Violations are handed on in chunks that grow from few, so that a small limit stops early.
_FIRST_CHUNK = 1 << 10
_LAST_CHUNK = 1 << 20
# Entries of a tape that are run between two looks at the limits.
_SLICE = 1 << 14


class Tree(Enum):
    """The structures of Rapidash's Table 2."""

    RANGE = "range tree"
    KD = "kd-tree"


@dataclass(frozen=True, slots=True)
class Ranked:
    """Points in groups: for each column the places sorted by (group, value), and each point's rank in its group."""

    groups: Int64Array
    starts: Int64Array
    columns: Columns
    orders: Columns
    ranks: Columns

    @classmethod
    def of(cls, groups: Int64Array, n_groups: int, columns: Columns) -> Ranked:
        starts = np.zeros(n_groups + 1, np.int64)
        np.cumsum(np.bincount(groups, minlength=n_groups), out=starts[1:])
        orders = tuple(sorted_places(groups, column) for column in columns)
        return cls(groups, starts, columns, orders, tuple(_ranks(order, groups, starts) for order in orders))

    @property
    def n_points(self) -> int:
        return int(self.groups.size)

    @property
    def n_groups(self) -> int:
        return int(self.starts.size) - 1

    @property
    def sizes(self) -> Int64Array:
        return np.diff(self.starts)

    def queries(self, groups: Int64Array, columns: Columns, n_orders: int, n_equal: int = 0) -> Queries:
        """Bring queries to the ranks of the points of their groups; see `Queries` for the kinds of columns."""
        below = np.empty((groups.size, len(columns)), np.int64)
        upto = np.empty_like(below)
        for at, values in enumerate(columns):
            order = self.orders[at]
            ascending = self.columns[at][order]
            if values is not self.columns[at] or groups is not self.groups:
                order = sorted_places(groups, values)
            rank_queries(ascending, self.starts, order, groups, values, at, below, upto)
        return Queries(groups, below, upto, n_orders, n_equal)


def _ranks(order: Int64Array, groups: Int64Array, starts: Int64Array) -> Int64Array:
    ranks = np.empty(order.size, np.int64)
    ranks[order] = np.arange(order.size) - starts[groups[order]]
    return ranks


@dataclass(frozen=True, slots=True)
class SearchForest:
    """Trees of either kind over points, which a tape inserts and searches for boxes: see their kernels."""

    trees: RangeForest | KdForest
    points: Int64Array
    kernel: Callable[..., tuple[int, int]]
    limits: MethodLimits

    def count(self, queries: Queries, tape: Int64Array) -> int:
        """How many points all queries of a tape find."""
        found, total, at = np.empty((0, 2), np.int64), 0, 0
        while at < tape.size:
            n_found, at = self._run(queries, tape, at, found, 0)
            total += n_found
        return total

    def first_pair(self, queries: Queries, tape: Int64Array) -> tuple[int, int] | None:
        """The first entry of a tape that finds a point, and that point."""
        found, at = np.empty((1, 2), np.int64), 0
        while at < tape.size:
            n_found, at = self._run(queries, tape, at, found, 1)
            if n_found:
                return int(found[0, 0]), int(found[0, 1])
        return None

    def all_pairs(self, queries: Queries, tape: Int64Array) -> Iterator[tuple[Int64Array, Int64Array]]:
        """The pairs (entries, points) of a tape, in chunks; the tape runs only as far as chunks are asked for."""
        at, most = 0, _FIRST_CHUNK
        while at < tape.size:
            # One query finds at most all points, so that these rows never fill up in the middle of one.
            found = np.empty((most + len(self.points), 2), np.int64)
            n_found, at = self._run(queries, tape, at, found, most)
            if n_found:
                yield found[:n_found, 0], found[:n_found, 1]
            most = min(8 * most, _LAST_CHUNK)

    def _run(self, queries: Queries, tape: Int64Array, begin: int, found: Int64Array, most: int) -> tuple[int, int]:
        """Run a slice of the tape from an entry on: how many pairs it found, and the entry to go on from."""
        self.limits.check()
        return self.kernel(self.trees, self.points, queries, tape[: begin + _SLICE], begin, found, most)


def grow_forest(tree: Tree, points: Ranked, memory: int, limits: MethodLimits) -> SearchForest:
    """Build trees in which no point is switched on yet; ResourceError if they need more bytes than `memory`."""
    grow = _grow_range if tree is Tree.RANGE else _grow_kd
    return grow(points, limits.bytes_left(memory), limits)


def _grow_range(points: Ranked, memory: int, limits: MethodLimits) -> SearchForest:
    n_columns = len(points.columns)
    heights = _height(points.sizes)
    needed = range_tree_bytes(n_columns, heights)
    if needed > memory:
        raise ResourceError(
            f"a range tree over {n_columns} dimensions of {points.n_points:,} rows needs about {_size(needed)}, more "
            f"than the {_size(memory)} allowed; the strategies rapidash-kd-tree and auto need far less"
        )
    blocks = lay_out(n_columns, int(heights.max(initial=0)))
    slots, n_slots = _offsets(1 << heights)
    roots, n_entries = _offsets(blocks.sizes[n_columns][heights])
    # Slots that fill a group up have the same rank, and name, in every dimension.
    filler = np.arange(n_slots) - np.repeat(slots, 1 << heights)
    rank_of = np.tile(filler.astype(np.int32), (n_columns, 1))
    name_of = rank_of.copy()
    ids = np.full(n_slots, -1, np.int64)
    slot = slots[points.groups]
    names = points.ranks[0]
    ids[slot + names] = np.arange(points.n_points)
    for at, ranks in enumerate(points.ranks):
        rank_of[at, slot + names] = ranks
        name_of[at, slot + ranks] = names
    forest = RangeForest(
        ranks=np.empty(n_entries, np.int32),
        counts=np.zeros(n_entries, np.int32),
        rank_of=rank_of,
        name_of=name_of,
        ids=ids,
        n_points=points.sizes,
        slots=slots,
        roots=roots,
        heights=heights,
        sizes=blocks.sizes,
        levels=blocks.levels,
    )
    build_range_forest(forest)
    return SearchForest(forest, np.column_stack((points.groups, names)), run_range_forest, limits)


def _grow_kd(points: Ranked, memory: int, limits: MethodLimits) -> SearchForest:
    n_columns = len(points.columns)
    depths = _height((points.sizes + LEAF - 1) // LEAF)
    nodes, n_nodes = _offsets(2 << depths)
    needed = 8 * (points.n_points * (n_columns + 4) + n_nodes * (2 * n_columns + 1))
    if needed > memory:
        raise ResourceError(
            f"a kd-tree over {n_columns} dimensions of {points.n_points:,} rows needs about {_size(needed)}, more "
            f"than the {_size(memory)} allowed; the strategy auto needs less"
        )
    order = points.orders[0]
    forest = KdForest(
        ranks=np.column_stack([ranks[order] for ranks in points.ranks]),
        ids=order.copy(),
        on=np.zeros(points.n_points, np.int8),
        starts=points.starts,
        nodes=nodes,
        depths=depths,
        counts=np.zeros(n_nodes, np.int64),
        boxes=np.empty((n_nodes, 2 * n_columns), np.int64),
    )
    build_kd_forest(forest)
    places = np.empty(points.n_points, np.int64)
    places[forest.ids] = np.arange(points.n_points)
    return SearchForest(forest, np.column_stack((points.groups, places)), run_kd_forest, limits)


def range_tree_bytes(n_dimensions: int, heights: Int64Array) -> int:
    """Bytes of range trees of these heights, in whole numbers that cannot wrap."""
    values, counts = np.unique(heights, return_counts=True)
    slot_bytes = 8 + 8 * n_dimensions
    return sum(
        int(count) * (BYTES_OF_ENTRY * entries(n_dimensions, int(height)) + (slot_bytes << int(height)))
        for height, count in zip(values, counts, strict=True)
    )


def _height(sizes: Int64Array) -> Int64Array:
    """The least h with 2**h >= size, for each size."""
    heights = np.zeros(sizes.size, np.int64)
    while bool((short := (np.int64(1) << heights) < sizes).any()):
        heights += short
    return heights


def _offsets(sizes: Int64Array) -> tuple[Int64Array, int]:
    ends = np.cumsum(sizes)
    return ends - sizes, int(ends[-1]) if ends.size else 0


def _size(n_bytes: int) -> str:
    return f"{n_bytes / (1 << 30):,.1f} GiB"
