"""Text to codes: a hash dictionary over Arrow's buffers, without a Python object for each value.

A text of up to 15 bytes is identified by two words, its bytes and its length: no comparison beyond them is needed. A
longer one is identified by a hash and its length, then compared with the first text of its code.

A dictionary is a tuple of three arrays, as large as the codes it has room for: `slots`, a hash table of codes plus one
(zero is empty; a power of two, several times the room); `known`, the two words of each code; `first`, the row where
each code appeared first. `state` is the next row to encode and the number of codes so far.
"""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int32Array, Int64Array, UInt8Array, UInt64Array
from naysay.kernels.bits import GOLDEN, ONE
from naysay.kernels.compile import kernel

_SECOND = np.uint64(0xC2B2AE3D27D4EB4F)
_TWO = np.uint64(2)
_LENGTH = np.uint64(56)
_LONG = np.uint64(255) << _LENGTH
Dictionary = tuple[Int32Array, UInt64Array, Int64Array]
# _MASKS[k] keeps the lowest k bytes of a word.
_MASKS = np.array([(1 << 8 * k) - 1 for k in range(9)], dtype=np.uint64)


@kernel
def _mix(low: np.uint64, high: np.uint64) -> np.uint64:
    mixed = (low * GOLDEN) ^ (high * _SECOND)
    mixed ^= mixed >> np.uint64(32)
    return (mixed * GOLDEN) >> np.uint64(20)


@kernel
def _join(first: np.uint64, second: np.uint64, shift: np.uint64) -> np.uint64:
    """Eight bytes that begin `shift` bits into the first of two words."""
    return (first >> shift) | ((second << ONE) << (np.uint64(63) - shift))


@kernel
def _bytes_at(words: UInt64Array, data: UInt8Array, at: int, n_bytes: int) -> np.uint64:
    """Up to eight bytes from a place of `data`, which `words` views as whole words; zeros above them."""
    if at + 16 <= data.size:
        place = np.uint64(at >> 3)
        word = _join(words[place], words[place + ONE], np.uint64((at & 7) << 3))
        return word & _MASKS[np.uint64(min(n_bytes, 8))]
    word = np.uint64(0)
    for k in range(min(n_bytes, 8)):
        word |= np.uint64(data[at + k]) << np.uint64(8 * k)
    return word


@kernel
def _hash_long(words: UInt64Array, data: UInt8Array, start: int, length: int) -> np.uint64:
    mixed = np.uint64(length)
    for at in range(0, length, 8):
        mixed = _mix(mixed ^ (mixed << np.uint64(23)), _bytes_at(words, data, start + at, length - at))
    return mixed


@kernel
def _same_bytes(words: UInt64Array, data: UInt8Array, left: int, right: int, length: int) -> bool:
    for at in range(0, length, 8):
        if _bytes_at(words, data, left + at, length - at) != _bytes_at(words, data, right + at, length - at):
            return False
    return True


@kernel
def add_short_texts(
    offsets: Int32Array, words: UInt64Array, codes: Int64Array, n_safe: int, book: Dictionary, state: Int64Array
) -> None:
    """Write the codes of rows from state[0] on, numbered by first appearance.

    Stops before row n_safe, a text of 16 bytes or more, or a new text when the dictionary is full. Rows before n_safe
    start at least 24 bytes before the end of `words`. O(n) expected.
    """
    slots, known, first = book
    mask = np.uint64(slots.size - 1)
    row, n_codes, room = state[0], state[1], first.size
    while row < n_safe:
        start = np.int64(offsets[row])
        length = np.int64(offsets[row + 1]) - start
        if length > 15:
            break
        place = np.uint64(start >> 3)
        shift = np.uint64((start & 7) << 3)
        middle = words[place + ONE]
        low = _join(words[place], middle, shift) & _MASKS[np.uint64(min(length, 8))]
        high = _join(middle, words[place + _TWO], shift) & _MASKS[np.uint64(max(length - 8, 0))]
        high |= np.uint64(length) << _LENGTH
        slot = _mix(low, high) & mask
        code = slots[slot]
        while code != 0 and not (
            known[_TWO * np.uint64(code) - _TWO] == low and known[_TWO * np.uint64(code) - ONE] == high
        ):
            slot = (slot + ONE) & mask
            code = slots[slot]
        if code == 0:
            if n_codes == room:
                break
            known[2 * n_codes], known[2 * n_codes + 1], first[n_codes] = low, high, row
            n_codes += 1
            code = np.int32(n_codes)
            slots[slot] = code
        codes[row] = np.int64(code) - 1
        row += 1
    state[0], state[1] = row, n_codes


@kernel
def add_texts(
    offsets: Int32Array,
    words: UInt64Array,
    data: UInt8Array,
    codes: Int64Array,
    book: Dictionary,
    state: Int64Array,
    stop: int,
) -> None:
    """Like `add_short_texts`, for texts of any length anywhere, up to row `stop`. O(bytes) expected."""
    slots, known, first = book
    mask = np.uint64(slots.size - 1)
    row, n_codes = state[0], state[1]
    while row < stop:
        start = np.int64(offsets[row])
        length = np.int64(offsets[row + 1]) - start
        if length <= 15:
            low = _bytes_at(words, data, start, length)
            high = np.uint64(length) << _LENGTH
            if length > 8:
                high |= _bytes_at(words, data, start + 8, length - 8)
        else:
            low = _hash_long(words, data, start, length)
            high = _LONG | np.uint64(length)
        slot = _mix(low, high) & mask
        while slots[slot] != 0:
            code = np.int64(slots[slot]) - 1
            if (
                known[2 * code] == low
                and known[2 * code + 1] == high
                and (length <= 15 or _same_bytes(words, data, np.int64(offsets[first[code]]), start, length))
            ):
                break
            slot = (slot + ONE) & mask
        if slots[slot] == 0:
            if n_codes == first.size:
                break
            known[2 * n_codes], known[2 * n_codes + 1], first[n_codes] = low, high, row
            n_codes += 1
            slots[slot] = n_codes
        codes[row] = np.int64(slots[slot]) - 1
        row += 1
    state[0], state[1] = row, n_codes


@kernel
def fill_slots(slots: Int32Array, known: UInt64Array, n_codes: int) -> None:
    """Enter the codes of a dictionary into an empty hash table. O(n_codes) expected."""
    mask = np.uint64(slots.size - 1)
    for code in range(n_codes):
        slot = _mix(known[2 * code], known[2 * code + 1]) & mask
        while slots[slot] != 0:
            slot = (slot + ONE) & mask
        slots[slot] = code + 1


@kernel
def recode(codes: Int64Array, new: Int64Array) -> None:
    """Replace each code c by new[c], in place. O(n)."""
    for i in range(codes.size):
        codes[i] = new[codes[i]]
