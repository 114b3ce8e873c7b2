"""One inequality between two sides, row after row, with the least and the greatest value seen so far."""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array
from naysay.kernels.compile import kernel


@kernel
def find_ordered_pair(
    left_group: Int64Array,
    left: Int64Array,
    left_time: Int64Array,
    right_group: Int64Array,
    right: Int64Array,
    right_time: Int64Array,
    n_groups: int,
    either_way: bool,
) -> tuple[int, int]:
    """Find places (i, j) of one group with left[i] < right[j], or (-1, -1); with `either_way`, left[i] != right[j].

    Rows arrive in the order of the times, which ascend on each side; rows of equal time are one row and never meet.
    Stops at the first arrival that completes a pair. O(n + n_groups). Rapidash 4.6, Algorithm 4.
    """
    least_left = np.full(n_groups, -1, np.int64)
    greatest_left = np.full(n_groups, -1, np.int64)
    least_right = np.full(n_groups, -1, np.int64)
    greatest_right = np.full(n_groups, -1, np.int64)
    i = np.int64(0)
    j = np.int64(0)
    while i < left.size or j < right.size:
        has_left = i < left.size and (j == right.size or left_time[i] <= right_time[j])
        has_right = j < right.size and (i == left.size or right_time[j] <= left_time[i])
        if has_left:
            group = left_group[i]
            other = greatest_right[group]
            if other >= 0 and left[i] < right[other]:
                return i, other
            other = least_right[group]
            if either_way and other >= 0 and left[i] > right[other]:
                return i, other
        if has_right:
            group = right_group[j]
            other = least_left[group]
            if other >= 0 and left[other] < right[j]:
                return other, j
            other = greatest_left[group]
            if either_way and other >= 0 and left[other] > right[j]:
                return other, j
        if has_left:
            _keep(left, i, left_group[i], least_left, greatest_left)
            i += 1
        if has_right:
            _keep(right, j, right_group[j], least_right, greatest_right)
            j += 1
    return -1, -1


@kernel
def _keep(values: Int64Array, place: int, group: int, least: Int64Array, greatest: Int64Array) -> None:
    if least[group] < 0 or values[place] < values[least[group]]:
        least[group] = place
    if greatest[group] < 0 or values[place] > values[greatest[group]]:
        greatest[group] = place
