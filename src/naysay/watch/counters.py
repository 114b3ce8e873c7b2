"""Structures that count: how many rows lie in a box, while rows come and go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from naysay.arrays import Int64Array
from naysay.kernels.joins.wavelet import Wavelet, add_points, add_points_one_by_one, build_wavelet
from naysay.kernels.sort import dense_ranks, sorted_places
from naysay.live.intern import TupleTable, grown
from naysay.watch.tree import ZoneTree

# So many rows are looked at one by one before they become a run.
_BUFFER_ROWS = 1024
_RUN_GROWTH = 4


class Counter(Protocol):
    """Rows [key, features ..., owner]; boxes as in `kernels.zone_search`."""

    def insert(self, rows: Int64Array) -> None: ...

    def delete(self, rows: Int64Array) -> None: ...

    def count(self, boxes: Int64Array) -> Int64Array: ...


class GroupCounter:
    """Rows of a key, counted. O(1) a row."""

    def __init__(self) -> None:
        self._table = TupleTable(1)
        self._counts: Int64Array = np.zeros(64, np.int64)

    def insert(self, rows: Int64Array) -> None:
        numbers = self._table.add(np.ascontiguousarray(rows[:, :1]))
        if self._table.n_known > len(self._counts):
            n_counts = len(self._counts)
            self._counts = grown(self._counts, 2 * self._table.n_known)
            self._counts[n_counts:] = 0
        np.add.at(self._counts, numbers, 1)

    def delete(self, rows: Int64Array) -> None:
        np.subtract.at(self._counts, self._table.find(np.ascontiguousarray(rows[:, :1])), 1)

    def count(self, boxes: Int64Array) -> Int64Array:
        numbers = self._table.find(np.ascontiguousarray(boxes[:, :1]))
        return np.where(numbers >= 0, self._counts[numbers], 0)


class TreeCounter:
    """A tree of zones that counts whole zones at once: O(log n) a box with one order, more with more."""

    def __init__(self, n_features: int, n_orders: int, nulls_differ: bool) -> None:
        self._tree = ZoneTree(n_features)
        self._features = np.arange(1, n_features + 1)
        self._n_orders = n_orders
        self._nulls_differ = nulls_differ

    def insert(self, rows: Int64Array) -> None:
        self._tree.insert(rows)

    def delete(self, rows: Int64Array) -> None:
        self._tree.delete(rows)

    def count(self, boxes: Int64Array) -> Int64Array:
        return self._tree.count(boxes, self._features, self._n_orders, self._nulls_differ)


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """Points that never change: sorted, and ready to be counted."""

    points: Int64Array
    keys: Int64Array
    firsts: Int64Array
    seconds: Int64Array
    wavelet: Wavelet
    sign: int


class PointCounter:
    """A key and two orders: runs of points, merged by size; a deleted point is a point of the other sign.

    O(log^2 n) a box, O(log^2 n) amortised a row (Bentley and Saxe, Decomposable searching problems, 1980).
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
            add_points(run.keys, run.firsts, run.seconds, run.wavelet, boxes, run.sign, counts)
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
        # Take in every run that is not much greater than what has been gathered, so that few runs remain.
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
    """Without points that were added and deleted: of one point, the signs sum to 1, 0 or -1."""
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
