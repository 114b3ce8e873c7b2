"""Three orders in one sweep: the least z below each y, kept as a staircase."""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array
from naysay.kernels.compile import kernel

GAVE_UP = -2


@kernel
def find_three_orders(
    points: Int64Array, starts: Int64Array, n_y: int, strict: Int64Array, budget: int
) -> tuple[int, int]:
    """A pair (t, s) of places of one group with other labels, t less than s in x, y and z; at most where not strict.

    points is int64[4, n]: x, ascending within each group points[:, starts[g]:starts[g + 1]]; y in [0, n_y); z; label.
    strict has one place for each of x, y, z. For each y the least z at or below it, and the least of another label,
    are kept: a row that lowers them does so from its own y on, up to the first y that it does not lower. O(n) and the
    steps of that; (GAVE_UP, GAVE_UP) where these exceed the budget. (-1, -1) where there is no such pair.
    """
    x, y, z, label = points[0], points[1], points[2], points[3]
    best = np.full(n_y, -1, np.int64)
    other = np.full(n_y, -1, np.int64)
    for group in range(starts.size - 1):
        start, stop = starts[group], starts[group + 1]
        if stop - start < 2:
            continue
        k = start
        lowest = n_y
        while k < stop:
            end = k
            while end < stop and x[end] == x[k]:
                end += 1
            if strict[0] == 0:
                budget -= _lower(k, end, y, z, label, best, other)
            for row in range(k, end):
                lowest = min(lowest, y[row])
                below = y[row] - strict[1]
                if below < 0:
                    continue
                rival = best[below]
                if rival >= 0 and label[rival] == label[row]:
                    rival = other[below]
                if rival >= 0 and (z[rival] < z[row] or (strict[2] == 0 and z[rival] == z[row])):
                    return rival, row
            if strict[0]:
                budget -= _lower(k, end, y, z, label, best, other)
            if budget < 0:
                return GAVE_UP, GAVE_UP
            k = end
        best[lowest:] = -1
        other[lowest:] = -1
        budget -= (n_y - lowest) >> 3
    return -1, -1


@kernel
def _lower(
    start: int, stop: int, y: Int64Array, z: Int64Array, label: Int64Array, best: Int64Array, other: Int64Array
) -> int:
    """Put rows into the staircase; the steps that took.

    A row that changes nothing at one y changes nothing at a higher one: what stands there is at most what stands here.
    """
    n_steps = 0
    for row in range(start, stop):
        place = y[row]
        while place < best.size:
            first = best[place]
            if first < 0 or z[row] < z[first]:
                if first >= 0 and label[first] != label[row]:
                    other[place] = first
                best[place] = row
            elif label[row] != label[first] and (other[place] < 0 or z[row] < z[other[place]]):
                other[place] = row
            else:
                break
            place += 1
        n_steps += place - y[row]
    return n_steps
