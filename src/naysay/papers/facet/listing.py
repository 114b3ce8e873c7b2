"""From pairs of row sets to pairs of rows."""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array
from naysay.papers.facet.rowsets import SetPair, array_of

_CHUNK = 1 << 16


class Listing:
    """The pairs of distinct rows that pairs of sets stand for, until there are `most`."""

    def __init__(self, left_rows: Int64Array, right_rows: Int64Array, most: int) -> None:
        self._rows = left_rows, right_rows
        self._found = [np.zeros((2, 0), np.int64)]
        self._missing = most

    @property
    def full(self) -> bool:
        return self._missing == 0

    def add(self, pair: SetPair) -> None:
        left, right = self._rows[0][array_of(pair.left)], self._rows[1][array_of(pair.right)]
        step = max(_CHUNK // max(right.size, 1), 1)
        for begin in range(0, left.size, step):
            if self.full:
                return
            block = left[begin : begin + step]
            found = np.stack([np.repeat(block, right.size), np.tile(right, block.size)])
            found = found[:, found[0] != found[1]][:, : self._missing]
            self._found.append(found)
            self._missing -= found.shape[1]

    def pairs(self) -> tuple[Int64Array, Int64Array]:
        left, right = np.concatenate(self._found, axis=1)
        return left, right
