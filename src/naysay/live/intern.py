"""Growing dictionaries as objects: tuples of codes, and texts, to numbers that never change."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from naysay.arrays import Int64Array
from naysay.kernels.codes.intern import add_texts, add_tuples, find_tuples, rehash_texts, rehash_tuples

Item = TypeVar("Item", np.int64, np.uint8, np.bool_)


class TupleTable:
    """Numbers tuples of codes 0, 1, ... in order of appearance."""

    def __init__(self, width: int) -> None:
        self.n_known = 0
        self._tuples: Int64Array = np.empty((64, width), np.int64)
        self._slots = np.full(256, -1, np.int64)

    def find(self, codes: Int64Array) -> Int64Array:
        """The number of each row of codes [n, width], -1 for one that is not known."""
        return find_tuples(codes, self._slots, self._tuples)

    def add(self, codes: Int64Array) -> Int64Array:
        """The number of each row of codes [n, width], a new one where it was not known."""
        self._make_room(len(codes))
        numbers = add_tuples(codes, self._slots, self._tuples, self.n_known)
        if len(numbers):
            self.n_known = max(self.n_known, int(numbers.max()) + 1)
        return numbers

    def _make_room(self, n_new: int) -> None:
        n_needed = self.n_known + n_new
        if n_needed > len(self._tuples):
            self._tuples = grown(self._tuples, max(n_needed, 2 * len(self._tuples)))
        if 2 * n_needed > len(self._slots):
            self._slots = np.full(_power_of_two(4 * n_needed), -1, np.int64)
            rehash_tuples(self._tuples, self.n_known, self._slots)


class TextTable:
    """Numbers texts 0, 1, ... in order of appearance, without a Python object a text."""

    def __init__(self) -> None:
        self.n_known = 0
        self._known: NDArray[np.uint8] = np.empty(1024, np.uint8)
        self._starts: Int64Array = np.zeros(65, np.int64)
        self._slots = np.full(256, -1, np.int64)

    def add(self, texts: pa.Array) -> Int64Array:
        """The number of each text of an Arrow array (string or large_string); null counts as some text."""
        data, offsets = _bytes_of(texts)
        n_needed = self.n_known + len(offsets) - 1
        n_bytes = int(self._starts[self.n_known]) + len(data)
        if n_bytes > len(self._known):
            self._known = grown(self._known, max(n_bytes, 2 * len(self._known)))
        if n_needed + 1 > len(self._starts):
            self._starts = grown(self._starts, max(n_needed + 1, 2 * len(self._starts)))
        if 2 * n_needed > len(self._slots):
            self._slots = np.full(_power_of_two(4 * n_needed), -1, np.int64)
            rehash_texts(self._known, self._starts, self.n_known, self._slots)
        numbers = add_texts(data, offsets, self._slots, self._known, self._starts, self.n_known)
        if len(numbers):
            self.n_known = max(self.n_known, int(numbers.max()) + 1)
        return numbers


def grown(array: NDArray[Item], n_items: int) -> NDArray[Item]:
    """The same array with room for more items; what stands in the new ones means nothing."""
    bigger = np.empty((n_items, *array.shape[1:]), array.dtype)
    bigger[: len(array)] = array
    return bigger


def _bytes_of(texts: pa.Array) -> tuple[NDArray[np.uint8], Int64Array]:
    """The bytes of an array and where each text begins in them, both fresh."""
    if len(texts) == 0:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    dtype = np.dtype(np.int64 if pa.types.is_large_string(texts.type) else np.int32)
    _, offset_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, dtype, len(texts) + 1, texts.offset * dtype.itemsize).astype(np.int64)
    start, stop = int(offsets[0]), int(offsets[-1])
    offsets -= start
    if data_buffer is None or stop == start:
        return np.empty(0, np.uint8), offsets
    return np.frombuffer(data_buffer, np.uint8, stop - start, start).copy(), offsets


def _power_of_two(at_least: int) -> int:
    return 1 << (at_least - 1).bit_length()
