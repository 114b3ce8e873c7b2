"""Does any left row have a partner? Each kernel gives the place of one that has, or -1, in one pass."""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array
from naysay.kernels.compile import kernel


@kernel
def find_differing(
    left_key: Int64Array, left_value: Int64Array, right_key: Int64Array, right_value: Int64Array, n_keys: int
) -> int:
    """A left row with a right row of the same key and another value. Keys in a small range [0, n_keys). O(n + n_keys).

    The right rows of a key all carry the left row's value exactly when their least and greatest do.
    """
    least = np.full(n_keys, -1, np.int64)
    greatest = np.full(n_keys, -1, np.int64)
    for j in range(right_key.size):
        key = right_key[j]
        value = right_value[j]
        if least[key] == -1 or value < least[key]:
            least[key] = value
        greatest[key] = max(greatest[key], value)
    for i in range(left_key.size):
        key = left_key[i]
        if least[key] != -1 and (least[key] != left_value[i] or greatest[key] != left_value[i]):
            return i
    return -1


@kernel
def find_two(left: tuple[Int64Array, Int64Array, Int64Array], right: tuple[Int64Array, Int64Array, Int64Array]) -> int:
    """A left point with a right point of the same key, left.x < right.x and left.y < right.y.

    A side is (key, x, y), ascending by (key, x). Sweeps down x with the greatest y so far. O(n).
    """
    left_key, left_x, left_y = left
    right_key, right_x, right_y = right
    j = right_key.size - 1
    last_key = np.int64(-1)
    greatest = np.int64(0)
    some = False
    for i in range(left_key.size - 1, -1, -1):
        key = left_key[i]
        if key != last_key:
            while j >= 0 and right_key[j] > key:
                j -= 1
            last_key = key
            some = False
        while j >= 0 and right_key[j] == key and right_x[j] > left_x[i]:
            greatest = max(greatest, right_y[j]) if some else right_y[j]
            some = True
            j -= 1
        if some and greatest > left_y[i]:
            return i
    return -1


@kernel
def find_repeated(keys: Int64Array, n_bits: int) -> int:
    """A row whose key stood in an earlier row, for keys that are not negative; n_bits sizes the hash table. O(n).

    Stops at the first one, so that a broken key answers after a few rows.
    """
    slots = np.full(1 << n_bits, -1, np.int64)
    shift = np.uint64(64 - n_bits)
    last = slots.size - 1
    for i in range(keys.size):
        key = keys[i]
        slot = np.int64((np.uint64(key) * np.uint64(11400714819323198485)) >> shift)
        while slots[slot] != -1:
            if slots[slot] == key:
                return i
            slot = slot + 1 if slot < last else 0
        slots[slot] = key
    return -1


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
