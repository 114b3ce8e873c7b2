"""A growing tree of zones as an object: it makes room, and rebuilds itself where that is cheaper."""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array
from naysay.kernels.sort import sorted_places
from naysay.kernels.trees.zone_search import count_boxes, list_boxes
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
    delete_rows,
    insert_rows,
)
from naysay.live.intern import grown

# Inserting one by one costs some ten times what rebuilding costs a row.
_REBUILD_SHARE = 8


class ZoneTree:
    """Rows [key, features ..., owner] to be searched by box: see `kernels.zone_tree` and `kernels.zone_search`."""

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
        """Delete rows [n, width], all of which are there."""
        if len(rows) == 0:
            return
        n_missing = delete_rows(self._tree, in_tree_order(rows))
        assert n_missing == 0, f"{n_missing} rows to delete are not in the tree"
        # Leaves are freed when empty alone: with few rows in each of them, build anew.
        state = self._tree[-1]
        if state[N_LEAVES] > 64 and state[N_ROWS] * 8 < state[N_LEAVES] * LEAF_ROWS:
            self._rebuild(all_rows(self._tree))

    def list(
        self,
        boxes: Int64Array,
        features: Int64Array,
        n_orders: int,
        nulls_differ: bool,
        owners: Int64Array,
        stamps: Int64Array,
        skipped: int,
        limit: int,
    ) -> tuple[Int64Array, Int64Array, bool]:
        return list_boxes(self._tree, boxes, features, n_orders, nulls_differ, owners, stamps, skipped, limit)

    def count(self, boxes: Int64Array, features: Int64Array, n_orders: int, nulls_differ: bool) -> Int64Array:
        return count_boxes(self._tree, boxes, features, n_orders, nulls_differ)

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
            rows, sizes = grown(rows, n_leaves), grown(sizes, n_leaves)
        n_needed = n_new + 16
        if state[N_NODES] + n_needed > len(fan_outs):
            n_nodes = max(2 * len(fan_outs), int(state[N_NODES]) + n_needed)
            children, fan_outs = grown(children, n_nodes), grown(fan_outs, n_nodes)
            begins, zones = grown(begins, n_nodes), grown(zones, n_nodes)
        self._tree = (rows, sizes, children, fan_outs, begins, zones, state)


def in_tree_order(rows: Int64Array) -> Int64Array:
    """Rows in ascending order of (key, first feature, owner)."""
    if len(rows) < 2:
        return rows
    by_owner = rows[np.argsort(rows[:, -1], kind="stable")]
    places = sorted_places(np.ascontiguousarray(by_owner[:, 0]), np.ascontiguousarray(by_owner[:, 1]))
    return by_owner[places]
