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
