"""Does some pair break a rule? Each kernel returns one such pair, or its left row, in one pass; -1 if there is none.

Kernels that search one table for a pair take its rows in groups, those that agree on the rule's equalities: `order`
lists places group by group, group g being order[starts[g]:starts[g + 1]].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from naysay.arrays import Int32Array, Int64Array
from naysay.kernels.bits import GOLDEN
from naysay.kernels.compile import kernel
from naysay.kernels.sort import bounds

Points = tuple[Int64Array, Int64Array, Int64Array]
Codes = Int32Array | Int64Array
ShortPoints = tuple[Int32Array, Int32Array, Int32Array]

GAVE_UP = -2
# Rows whose keys are hashed together.
_ARRIVING = 1 << 8


@kernel
def find_second_value(keys: Codes, values: Codes, n_keys: int) -> int:
    """A row whose value is not that of an earlier row of its key. Keys in a small range [0, n_keys). O(n + n_keys)."""
    first = np.full(n_keys, -1, np.int64)
    for i in range(keys.size):
        key = keys[i]
        if first[key] == -1:
            first[key] = values[i]
        elif first[key] != values[i]:
            return i
    return -1


@kernel
def find_differing(left_key: Codes, left_value: Codes, right_key: Codes, right_value: Codes, n_keys: int) -> int:
    """A left row with a right row of the same key and another value. Keys in a small range [0, n_keys). O(n + n_keys).

    The right rows of a key all have the left row's value exactly when their least and greatest do.
    """
    least, greatest = np.full((2, n_keys), -1, np.int64)
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
def find_ordered_differing(left: Points, right: Points, n_keys: int) -> int:
    """A left row with a right row of the same key, a greater value and another label. O(n + n_keys).

    A side is (key, value, label), with keys in a small range [0, n_keys). For each key the left row with the least
    value is kept, and the one with the least value among those of another label than its own.
    """
    left_key, left_value, left_label = left
    right_key, right_value, right_label = right
    best, other = np.full((2, n_keys), -1, np.int64)
    for i in range(left_key.size):
        key = left_key[i]
        best[key], other[key] = _keep_two(i, best[key], other[key], left_value, left_label)
    for j in range(right_key.size):
        rival = best[right_key[j]]
        if rival >= 0 and left_label[rival] == right_label[j]:
            rival = other[right_key[j]]
        if rival >= 0 and left_value[rival] < right_value[j]:
            return rival
    return -1


@kernel
def find_two(left: Points, right: Points) -> int:
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
def find_repeated(keys: Codes, n_bits: int) -> int:
    """A row that repeats the key of an earlier row, for keys that are not negative; a table of 2**n_bits slots. O(n).

    Stops at the first one, so that a broken key is found after a few rows.
    """
    slots = np.full(1 << n_bits, -1, np.int64)
    shift = np.uint64(64 - n_bits)
    last = slots.size - 1
    for i in range(keys.size):
        # `slot_of` written out: calling it for each row makes this loop about a fifth slower.
        key = keys[i]
        slot = np.int64((np.uint64(key) * GOLDEN) >> shift)
        while slots[slot] != -1:
            if slots[slot] == key:
                return i
            slot = slot + 1 if slot < last else 0
        slots[slot] = key
    return -1


@kernel
def find_ordered_pair(left_rows: Points, right_rows: Points, n_groups: int, either_way: bool) -> tuple[int, int]:
    """Find places (i, j) of one group with left[i] < right[j], or (-1, -1); with `either_way`, left[i] != right[j].

    A side is (group, value, time). Rows arrive in the order of the times, which ascend on each side; rows of equal time
    are the same row and never meet. Stops at the first arrival that completes a pair. O(n + n_groups).
    """
    left_group, left, left_time = left_rows
    right_group, right, right_time = right_rows
    extremes = np.full((n_groups, 4), -1, np.int64)
    first = np.int64(0)
    return _meet_rows(left_group, left, left_time, first, right_group, right, right_time, first, extremes, either_way)


@kernel
def find_ordered_by_key(left_rows: Points, right_rows: Points, either_way: bool) -> tuple[int, int]:
    """The same as `find_ordered_pair` for sides of (key, value, time), with keys that are not negative.

    Keys are hashed as rows arrive, some hundred at a time: one pass, which reads no more after those that complete a
    pair. O(n). Rapidash, Algorithms 1 and 4.
    """
    left_key, left, left_time = left_rows
    right_key, right, right_time = right_rows
    keys = np.empty(4 * _ARRIVING, np.int64)
    slots = np.full(2 * keys.size, -1, np.int64)
    extremes = np.full((keys.size, 4), -1, np.int64)
    left_group, right_group = np.empty(_ARRIVING, np.int64), np.empty(_ARRIVING, np.int64)
    # Typed, or what is called would be compiled once more for a literal 0.
    none = n_groups = i = j = np.int64(0)
    while i < left.size or j < right.size:
        if n_groups + 2 * _ARRIVING > keys.size:
            more = np.empty(2 * keys.size, np.int64)
            more[: keys.size] = keys
            wider = np.full((more.size, 4), -1, np.int64)
            wider[: keys.size] = extremes
            keys, extremes = more, wider
            slots = np.full(2 * more.size, -1, np.int64)
            _number_keys(keys, none, n_groups, slots, keys, none, np.empty(n_groups, np.int64))
        begin = min(left_time[i] if i < left.size else right_time[j], right_time[j] if j < right.size else left_time[i])
        left_end, right_end = i, j
        while left_end < left.size and left_time[left_end] - begin < _ARRIVING:
            left_end += 1
        while right_end < right.size and right_time[right_end] - begin < _ARRIVING:
            right_end += 1
        n_groups = _number_keys(left_key, i, left_end, slots, keys, n_groups, left_group)
        n_groups = _number_keys(right_key, j, right_end, slots, keys, n_groups, right_group)
        lefts, rights = left_group[: left_end - i], right_group[: right_end - j]
        first, second = _meet_rows(lefts, left, left_time, i, rights, right, right_time, j, extremes, either_way)
        if first >= 0:
            return first, second
        i, j = left_end, right_end
    return -1, -1


@kernel
def _number_keys(
    given: Int64Array, begin: int, end: int, slots: Int64Array, keys: Int64Array, n_groups: int, groups: Int64Array
) -> int:
    """The group of each key from `begin` to `end`, by a hash table; `keys` has that of each group. Returns how many."""
    last = slots.size - 1
    for i in range(begin, end):
        key = given[i]
        slot = np.int64((np.uint64(key) * GOLDEN) >> np.uint64(32)) & last
        while slots[slot] >= 0 and keys[slots[slot]] != key:
            slot = (slot + 1) & last
        if slots[slot] < 0:
            slots[slot] = n_groups
            keys[n_groups] = key
            n_groups += 1
        groups[i - begin] = slots[slot]
    return n_groups


@kernel
def _meet_rows(
    left_group: Int64Array,
    left: Int64Array,
    left_time: Int64Array,
    left_begin: int,
    right_group: Int64Array,
    right: Int64Array,
    right_time: Int64Array,
    right_begin: int,
    extremes: Int64Array,
    either_way: bool,
) -> tuple[int, int]:
    """The pair that the next rows complete, as many as there are groups, or (-1, -1) once all of them are kept.

    `extremes` has for each group the places of the least and the greatest left value so far, and of the least and the
    greatest right value. All in one loop: a call for each row would take ten times as long.
    """
    i, j = np.int64(left_begin), np.int64(right_begin)
    left_end, right_end = i + left_group.size, j + right_group.size
    while i < left_end or j < right_end:
        has_left = i < left_end and (j == right_end or left_time[i] <= right_time[j])
        has_right = j < right_end and (i == left_end or right_time[j] <= left_time[i])
        if has_left:
            group = left_group[i - left_begin]
            other = extremes[group, 3]
            if other >= 0 and left[i] < right[other]:
                return i, other
            other = extremes[group, 2]
            if either_way and other >= 0 and left[i] > right[other]:
                return i, other
        if has_right:
            group = right_group[j - right_begin]
            other = extremes[group, 0]
            if other >= 0 and left[other] < right[j]:
                return other, j
            other = extremes[group, 1]
            if either_way and other >= 0 and left[other] > right[j]:
                return other, j
        if has_left:
            group = left_group[i - left_begin]
            if extremes[group, 0] < 0 or left[i] < left[extremes[group, 0]]:
                extremes[group, 0] = i
            if extremes[group, 1] < 0 or left[i] > left[extremes[group, 1]]:
                extremes[group, 1] = i
            i += 1
        if has_right:
            group = right_group[j - right_begin]
            if extremes[group, 2] < 0 or right[j] < right[extremes[group, 2]]:
                extremes[group, 2] = j
            if extremes[group, 3] < 0 or right[j] > right[extremes[group, 3]]:
                extremes[group, 3] = j
            j += 1
    return -1, -1


@kernel
def find_two_differs(order: Int32Array, starts: Codes, first: Codes, second: Codes) -> tuple[int, int]:
    """A pair of one group that differs in both columns. O(n).

    If no row differs from the group's first row in both, but one differs from it only in the first column and one only
    in the second, then those two differ in both; otherwise one of the columns is constant in the group.
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
    order: Codes, starts: Codes, points: Points | ShortPoints, strict_x: bool, strict_y: bool
) -> tuple[int, int]:
    """A pair (t, s) of one group with x[t] < x[s], y[t] > y[s] and label[t] != label[s]; <= and >= unless strict.

    Points are (x, y, label). Within a group `order` ascends in x. Sweeps with the greatest y so far, and the greatest
    of another label. O(n).
    """
    x, y, label = points
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
def _take(order: Codes, start: int, stop: int, y: Codes, label: Codes, best: int, other: int) -> tuple[int, int]:
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
def _keep_two(row: int, best: int, other: int, values: Any, label: Any) -> tuple[int, int]:
    """The row with the least value so far, and the least of another label than its own, once `row` has come."""
    if best < 0 or values[row] < values[best]:
        return row, best if best >= 0 and label[best] != label[row] else other
    if label[row] != label[best] and (other < 0 or values[row] < values[other]):
        return best, row
    return best, other


@kernel
def find_four_orders(
    order: Int64Array, starts: Int64Array, points: Int64Array, label: Int64Array, n_y: int, n_w: int, strict: Int64Array
) -> tuple[int, int]:
    """A pair (t, s) of one group with different labels, t less than s in all of x, y, w, z, or at most if not strict.

    points is int64[4, n_rows]: x, by which `order` ascends within a group, y in [0, n_y), w in [0, n_w), z. strict
    has one place for each. Sweeps in x with a Fenwick tree over (y, w) of the row with the least z, and the least of
    another label. O(n log n_y log n_w) and n_y * n_w memory: y and w should have few values. With n_w = 1 and w not
    strict, three orders.
    """
    x, z = points[0], points[3]
    best, other = np.full((2, n_y + 1, n_w + 1), -1, np.int64)
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
    """Of the planted rows with less y and w and another label the one with the least z; -1 if there is none."""
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
                best[y, w], other[y, w] = _keep_two(row, best[y, w], other[y, w], z, label)
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


@kernel
def points_in_order(columns: tuple[Int32Array, ...], order: Int32Array, turned: Int64Array) -> Int32Array:
    """x, y, z and label of rows in some order, for `find_three_orders`: columns that are turned change their sign.

    y starts at zero. An empty label stands for the rows themselves.
    """
    points = np.empty((4, order.size), np.int32)
    for line in range(3):
        column, sign, into = columns[line], np.int32(-1 if turned[line] else 1), points[line]
        for k in range(order.size):
            into[k] = sign * column[order[k]]
    low, _ = bounds(points[1])
    points[1] -= low
    label = columns[3]
    for k in range(order.size):
        points[3, k] = label[order[k]] if label.size else order[k]
    return points


# A place of a staircase: the row with the least z at or below it, its z and label, and the row and z of another label.
_ROW, _Z, _LABEL, _OTHER_ROW, _OTHER_Z = range(5)
# More than any z, and no label.
_NOTHING = 1 << 40


@kernel
def find_three_orders(
    points: Int32Array, starts: Int32Array, n_y: int, strict: Int64Array, budget: int
) -> tuple[int, int]:
    """A pair (t, s) of one group with different labels, t less than s in x, y and z, or at most if not strict.

    points is int32[4, n]: x, ascending within each group points[:, starts[g]:starts[g + 1]]; y in [0, n_y); z; label.
    strict has one entry for each of x, y, z. For each y of a group a staircase keeps the least z at or below it, and
    the least of another label: a row that lowers them does so from its own y on, up to the first y that it does not
    lower. O(n) and these steps; (GAVE_UP, GAVE_UP) if they exceed the budget.
    """
    x, y, z, label = points[0], points[1], points[2], points[3]
    stairs = np.empty((n_y, 5), np.int64)
    for group in range(starts.size - 1):
        start, stop = starts[group], starts[group + 1]
        if stop - start < 2 or _all_equal(label, start, stop):
            continue
        low, high = bounds(y[start:stop])
        used = stairs[low : high + 1]
        for place in range(used.shape[0]):
            used[place, _ROW] = used[place, _OTHER_ROW] = -1
            used[place, _Z] = used[place, _OTHER_Z] = used[place, _LABEL] = _NOTHING
        budget -= used.shape[0] >> 3
        k = start
        while k < stop:
            end = k
            while end < stop and x[end] == x[k]:
                end += 1
            if strict[0] == 0:
                budget -= _lower(k, end, low, points, used)
            for row in range(k, end):
                below = y[row] - low - strict[1]
                if below < 0:
                    continue
                own = np.int64(used[below, _LABEL] == label[row]) * (_OTHER_ROW - _ROW)
                if used[below, _Z + own] < z[row] + 1 - strict[2]:
                    return used[below, _ROW + own], row
            if strict[0]:
                budget -= _lower(k, end, low, points, used)
            if budget < 0:
                return GAVE_UP, GAVE_UP
            k = end
    return -1, -1


@kernel
def _all_equal(values: Int32Array, start: int, stop: int) -> bool:
    k = start + 1
    while k < stop and values[k] == values[start]:
        k += 1
    return k == stop


@kernel
def _lower(start: int, stop: int, low: int, points: Int32Array, stairs: Int64Array) -> int:
    """Put rows into the staircase, whose first place is for y == low; returns the number of steps.

    A row that changes nothing at one y changes nothing at a higher one, where the values are at most those here.
    """
    n_steps = 0
    for row in range(start, stop):
        first = np.int64(points[1, row]) - low
        z, label = np.int64(points[2, row]), np.int64(points[3, row])
        place = first
        while place < stairs.shape[0]:
            if z < stairs[place, _Z]:
                if label != stairs[place, _LABEL]:
                    stairs[place, _OTHER_ROW], stairs[place, _OTHER_Z] = stairs[place, _ROW], stairs[place, _Z]
                stairs[place, _ROW], stairs[place, _Z], stairs[place, _LABEL] = row, z, label
            elif label != stairs[place, _LABEL] and z < stairs[place, _OTHER_Z]:
                stairs[place, _OTHER_ROW], stairs[place, _OTHER_Z] = row, z
            else:
                break
            place += 1
        n_steps += place - first
    return n_steps
