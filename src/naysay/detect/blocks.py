"""Partners by blocks of left rows in a tree over the right rows: cheap wherever few pairs come close to a violation."""

from __future__ import annotations

import math
import threading

import numpy as np

from naysay.arrays import UNLIMITED, Int64Array
from naysay.budget import check_stop, in_turn_or_on_threads, stop_flag, threads_for
from naysay.kernels.trees.blocks import Blocks, build_blocks, count_blocks
from naysay.kernels.trees.zones import LEAF_ROWS, build_zones
from naysay.plan.bind import BoundJoin, Side

# Nanoseconds, measured by benchmarks/cost.py. To build the tree, for each row and feature: at least, more for each
# time that the rows double once they are too many for the caches, and for each time that a group is split.
_BUILD, _BUILD_LARGE, _BUILD_LEVEL = 8.0, 9.0, 2.7
_CACHED_ROWS = 1 << 16
# To visit a node, for each feature; to compare a pair.
_VISIT, _PAIR = 8.0, 2.3
# Blocks that are searched to estimate the work of all.
_SAMPLE = 192
# Fewer blocks are not worth a thread; each thread takes its blocks in this many shares, as some take longer.
_BLOCKS_PER_THREAD, _SHARES_PER_THREAD = 1_000, 8

NOBODY = np.empty(0, np.int64)


def build_seconds(bound: BoundJoin, group_rows: float) -> float:
    """The time to build the trees of a join whose rows are typically in groups of `group_rows` rows."""
    n_rows = bound.right.n_rows + (0 if bound.mirror else bound.left.n_rows)
    n_features = 1 + len(bound.left.order) + len(bound.left.differs)
    each = _BUILD + _BUILD_LARGE * _log2(n_rows / _CACHED_ROWS) + _BUILD_LEVEL * _log2(group_rows / LEAF_ROWS)
    return 1e-9 * each * n_rows * n_features


def _log2(ratio: float) -> float:
    return math.log2(max(ratio, 1.0))


class BlockSearch:
    """The trees over both sides of a join. `weights`: how many rows each right row represents, one if not given."""

    def __init__(self, bound: BoundJoin, weights: Int64Array | None = None) -> None:
        self._n_orders = len(bound.left.order)
        self._right, right_places = build_blocks(_features(bound.right))
        if bound.mirror:
            # The same rows: what is close on one side is close on the other.
            self._places = right_places
            self._left = self._right if bound.has_same_sides else _along(bound.left, right_places)
        else:
            self._left, self._places = build_blocks(_features(bound.left))
        self._sums = np.arange(bound.right.n_rows + 1)
        if weights is not None:
            np.cumsum(weights[right_places], out=self._sums[1:])
        self.n_visited = self.n_compared = 0
        # The nodes and pairs of all blocks, once they were estimated.
        self._n_expected = 0.0

    @property
    def n_blocks(self) -> int:
        return -(-len(self._places) // LEAF_ROWS)

    def seconds(self, most: float = float("inf")) -> float:
        """About the time to find all partners, from a sample of the blocks; infinite if it is more than `most`."""
        chosen = np.unique(np.linspace(0, self.n_blocks - 1, min(_SAMPLE, self.n_blocks)).astype(np.int64))
        scale = self.n_blocks / len(chosen)
        cost_of_visit = _VISIT * len(self._left[0])
        # The sum of both kinds of work is limited as if all of it were of the cheaper kind.
        limit = min(most * 1e9 / scale / _PAIR, UNLIMITED)
        work = np.array([0, 0, int(limit), -1], np.int64)
        n_done = self._run(chosen, work, np.zeros(len(self._places), np.int64), NOBODY)
        if n_done < len(chosen):
            return float("inf")
        self._n_expected = scale * float(work[0] + work[1])
        return 1e-9 * scale * (float(work[0]) * cost_of_visit + float(work[1]) * _PAIR)

    def partners(self) -> Int64Array:
        """For each left row, the weight of its partners; a row that meets itself counts."""
        found = np.zeros(len(self._places), np.int64)
        self._search(found, NOBODY)
        out = np.empty_like(found)
        out[self._places] = found
        return out

    def find(self, own: Int64Array, most: float) -> tuple[int | None, bool]:
        """The place of some left row that has more partners than `own` says that it has in itself, if there is one.

        Without `own` any partner will do. Gives up after about `most` seconds, or twice the work that `seconds` has
        found to be less than that. The flag is True if the search went through all rows.
        """
        found = np.zeros(own.size, np.int64)
        if own.size:
            own = own[self._places]
        n_done, place = self._search(found, own, most)
        at = np.flatnonzero(found > own)
        if at.size:
            place = int(at[0])
        return (int(self._places[place]) if place >= 0 else None), n_done == self.n_blocks

    def _search(self, found: Int64Array, own: Int64Array, most: float = float("inf")) -> tuple[int, int]:
        """Search all blocks, on threads; how many were done before the search stopped, and the place where it did.

        The place is that of a left row with a partner, -1 if none was found or `found` says how many each has.
        """
        limit = int(min(max(most * 1e9 / _VISIT, 2 * self._n_expected), UNLIMITED))
        n_threads = threads_for(self.n_blocks // _BLOCKS_PER_THREAD)
        shares = np.array_split(np.arange(self.n_blocks), 1 if n_threads == 1 else _SHARES_PER_THREAD * n_threads)
        works: list[Int64Array] = []
        is_over = threading.Event()

        def search(share: Int64Array) -> int:
            if is_over.is_set():
                return 0
            n_used = sum(int(work[0] + work[1]) for work in works)
            work = np.array([0, 0, max(limit - n_used, 0), -1], np.int64)
            works.append(work)
            n_done = self._run(share, work, found, own)
            if n_done < len(share):
                is_over.set()
            return n_done

        n_done = sum(in_turn_or_on_threads(shares, search, n_threads))
        self.n_visited, self.n_compared = (sum(int(work[kind]) for work in works) for kind in (0, 1))
        check_stop()
        return n_done, max(int(work[3]) for work in works)

    def _run(self, chosen: Int64Array, work: Int64Array, found: Int64Array, own: Int64Array) -> int:
        return count_blocks(self._left, self._right, self._sums, self._n_orders, chosen, work, found, own, stop_flag())


def _along(side: Side, places: Int64Array) -> Blocks:
    """The rows of a side at these places, in this order."""
    features = np.ascontiguousarray(_features(side)[:, places])
    return features, build_zones(features)


def _features(side: Side) -> Int64Array:
    return np.stack((side.key, *side.order, *side.differs))
