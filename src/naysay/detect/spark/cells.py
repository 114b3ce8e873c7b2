"""What cells of strips decide by themselves: how many pairs, and which cells have rows in conflict.

A cell is a strip of each order. `left` and `right` hold the rows of a group in each cell, standing on the left and on
the right. `ties` are, for each order, the strips that decide in favour where both rows are in them. All arrays ascend
so that less is left of more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from naysay.arrays import BoolArray, Int64Array

# Beyond all codes of strips, for cells that have nothing to meet.
NEVER = 1 << 30


@dataclass(frozen=True, slots=True)
class Cells:
    left: Int64Array
    right: Int64Array

    def count(self, ties: Sequence[BoolArray]) -> int:
        """Pairs of rows whose cells stand in every order, by prefix sums. O(cells)."""
        below = self.left
        for axis, tie in enumerate(ties):
            below = np.cumsum(below, axis=axis) - below * ~_along(tie, axis, below.ndim)
        some = np.flatnonzero(self.right)
        pairs = zip(below.ravel()[some].tolist(), self.right.ravel()[some].tolist(), strict=True)
        return sum(n_left * n_right for n_left, n_right in pairs)

    def left_reach(self, ties: Sequence[BoolArray]) -> Int64Array:
        """For the cells of all orders but the last: a left row is in conflict if 2 * its last strip is less."""
        codes = 2 * np.arange(ties[-1].size) + ties[-1]
        reach = np.where(self.right > 0, codes, -1).max(axis=-1)
        for axis, tie in enumerate(ties[:-1]):
            beyond = np.maximum.accumulate(_shifted(np.flip(reach, axis), axis, -1), axis=axis)
            reach = np.maximum(np.flip(beyond, axis), np.where(_along(tie, axis, reach.ndim), reach, -1))
        return np.asarray(reach, np.int64)

    def right_reach(self, ties: Sequence[BoolArray]) -> Int64Array:
        """The same for right rows: in conflict if their last strip's code is greater than this."""
        reach = np.where(self.left > 0, 2 * np.arange(ties[-1].size), NEVER).min(axis=-1)
        for axis, tie in enumerate(ties[:-1]):
            beyond = np.minimum.accumulate(_shifted(reach, axis, NEVER), axis=axis)
            reach = np.minimum(beyond, np.where(_along(tie, axis, reach.ndim), reach, NEVER))
        return np.asarray(reach, np.int64)

    def some_pair(self, ties: Sequence[BoolArray]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """A left and a right cell that are decided in every order, if there are any."""
        reach = self.left_reach(ties)
        for cell in np.argwhere(self.left):
            if 2 * cell[-1] < reach[tuple(cell[:-1])]:
                for other in np.argwhere(self.right):
                    codes = [2 * strip + ties[axis][strip] for axis, strip in enumerate(other)]
                    if all(2 * strip < code for strip, code in zip(cell, codes, strict=True)):
                        return tuple(cell.tolist()), tuple(other.tolist())
        return None


def _along(values: BoolArray, axis: int, n_axes: int) -> BoolArray:
    """One-dimensional values laid along an axis."""
    shape = [1] * n_axes
    shape[axis] = values.size
    return values.reshape(shape)


def _shifted(values: Int64Array, axis: int, fill: int) -> Int64Array:
    """Values moved one place up an axis, so that what is accumulated over them leaves out the place itself."""
    moved = np.roll(values, 1, axis=axis)
    first: list[slice | int] = [slice(None)] * values.ndim
    first[axis] = 0
    moved[tuple(first)] = fill
    return moved
