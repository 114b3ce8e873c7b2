"""Does some pair of rows of one table break a rule? Each kernel gives one such pair of places, or (-1, -1).

Rows are given in groups, those that agree on the rule's equalities: `order` lists places group by group, group g
being order[starts[g]:starts[g + 1]].
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array
from naysay.kernels.compile import kernel


@kernel
def find_two_differs(order: Int64Array, starts: Int64Array, first: Int64Array, second: Int64Array) -> tuple[int, int]:
    """A pair of one group that differs in both columns. O(n).

    If no row differs from the group's first row in both, and one differs from it in the first column alone and one
    in the second alone, then those two differ in both; else one of the columns is constant in the group.
    """
    for group in range(starts.size - 1):
        head = order[starts[group]]
        in_first = -1
        in_second = -1
        for k in range(starts[group] + 1, starts[group + 1]):
            row = order[k]
            differs_first = first[row] != first[head]
            differs_second = second[row] != second[head]
            if differs_first and differs_second:
                return head, row
            if differs_first:
                in_first = row
            elif differs_second:
                in_second = row
            if in_first >= 0 and in_second >= 0:
                return in_first, in_second
    return -1, -1


@kernel
def find_two_orders(
    order: Int64Array,
    starts: Int64Array,
    x: Int64Array,
    y: Int64Array,
    label: Int64Array,
    strict_x: bool,
    strict_y: bool,
) -> tuple[int, int]:
    """A pair (t, s) of one group with x[t] < x[s], y[t] > y[s] and label[t] != label[s]; <= and >= unless strict.

    Within a group `order` ascends in x. Sweeps with the greatest y so far, and the greatest of another label. O(n).
    """
    for group in range(starts.size - 1):
        stop = starts[group + 1]
        best = -1
        other = -1
        k = starts[group]
        while k < stop:
            end = k
            while end < stop and x[order[end]] == x[order[k]]:
                end += 1
            if not strict_x:
                best, other = _take(order, k, end, y, label, best, other)
            for j in range(k, end):
                row = order[j]
                rival = best
                if best >= 0 and label[best] == label[row]:
                    rival = other
                if rival >= 0 and (y[rival] > y[row] or (not strict_y and y[rival] == y[row])):
                    return rival, row
            if strict_x:
                best, other = _take(order, k, end, y, label, best, other)
            k = end
    return -1, -1


@kernel
def _take(
    order: Int64Array, start: int, stop: int, y: Int64Array, label: Int64Array, best: int, other: int
) -> tuple[int, int]:
    """Keep the row with the greatest y, and the one with the greatest y among those of another label than its own."""
    for k in range(start, stop):
        row = order[k]
        if best < 0 or y[row] > y[best]:
            if best >= 0 and label[best] != label[row]:
                other = best
            best = row
        elif label[row] != label[best] and (other < 0 or y[row] > y[other]):
            other = row
    return best, other


@kernel
def find_four_orders(
    order: Int64Array, starts: Int64Array, points: Int64Array, label: Int64Array, n_y: int, n_w: int, strict: Int64Array
) -> tuple[int, int]:
    """A pair (t, s) of one group with other labels, t less than s in all of x, y, w, z; at most where not strict.

    points is int64[4, n_rows]: x, by which `order` ascends within a group, y in [0, n_y), w in [0, n_w), z. strict
    has one place for each. Sweeps in x with a Fenwick tree over (y, w) of the row with the least z, and the least of
    another label. O(n log n_y log n_w) and n_y * n_w memory: y and w should have few values. With n_w = 1 and w not
    strict, three orders.
    """
    x, z = points[0], points[3]
    best = np.full((n_y + 1, n_w + 1), -1, np.int64)
    other = np.full((n_y + 1, n_w + 1), -1, np.int64)
    for group in range(starts.size - 1):
        stop = starts[group + 1]
        if stop - starts[group] < 2:
            continue
        k = starts[group]
        while k < stop:
            end = k
            while end < stop and x[order[end]] == x[order[k]]:
                end += 1
            if strict[0] == 0:
                _plant(order, k, end, points, label, best, other)
            for j in range(k, end):
                row = order[j]
                rival = _below(points, label, row, strict, best, other)
                if rival >= 0 and (z[rival] < z[row] or (strict[3] == 0 and z[rival] == z[row])):
                    return rival, row
            if strict[0]:
                _plant(order, k, end, points, label, best, other)
            k = end
        _clear(order, starts[group], stop, points, best, other)
    return -1, -1


@kernel
def _below(
    points: Int64Array, label: Int64Array, row: int, strict: Int64Array, best: Int64Array, other: Int64Array
) -> int:
    """Of the planted rows with less y and w and another label the one with the least z; -1 where there is none."""
    z = points[3]
    least = -1
    y = points[1, row] + 1 - strict[1]
    while y > 0:
        w = points[2, row] + 1 - strict[2]
        while w > 0:
            rival = best[y, w]
            if rival >= 0 and label[rival] == label[row]:
                rival = other[y, w]
            if rival >= 0 and (least < 0 or z[rival] < z[least]):
                least = rival
            w -= w & -w
        y -= y & -y
    return least


@kernel
def _plant(
    order: Int64Array, start: int, stop: int, points: Int64Array, label: Int64Array, best: Int64Array, other: Int64Array
) -> None:
    """Put rows into the tree of `find_four_orders`."""
    z = points[3]
    for k in range(start, stop):
        row = order[k]
        y = points[1, row] + 1
        while y < best.shape[0]:
            w = points[2, row] + 1
            while w < best.shape[1]:
                first = best[y, w]
                if first < 0 or z[row] < z[first]:
                    if first >= 0 and label[first] != label[row]:
                        other[y, w] = first
                    best[y, w] = row
                elif label[row] != label[first] and (other[y, w] < 0 or z[row] < z[other[y, w]]):
                    other[y, w] = row
                w += w & -w
            y += y & -y


@kernel
def _clear(order: Int64Array, start: int, stop: int, points: Int64Array, best: Int64Array, other: Int64Array) -> None:
    """Take rows out of the tree of `find_four_orders`."""
    if stop - start > best.size:
        best[:] = -1
        other[:] = -1
        return
    for k in range(start, stop):
        y = points[1, order[k]] + 1
        while y < best.shape[0]:
            w = points[2, order[k]] + 1
            while w < best.shape[1]:
                best[y, w] = -1
                other[y, w] = -1
                w += w & -w
            y += y & -y
