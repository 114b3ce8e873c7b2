"""Stable codes: one integer per value, the same in every batch, in the order of the values.

`table/` ranks the values of one table; a table that changes needs codes that do not depend on later values. Integers,
dates, times and short decimals are their own codes, floats the order-keeping form of their bits, texts compared only
for equality the number of their first appearance. Everything else (ordered text, decimals and integers beyond 64 bits,
floats next to big integers) gets order labels.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from naysay.arrays import FLOAT_EXACT, NULL, BoolArray, Int32Array, Int64Array, largest
from naysay.kernels.codes.intern import add_texts, add_tuples, find_tuples, rehash_texts, rehash_tuples
from naysay.kernels.codes.numbers import float_keys
from naysay.table.column import Floats, Indexed, Integers, Kind, Plain, Text, Wide, kind_of, read_column

Item = TypeVar("Item", np.int64, np.uint8, np.bool_)


class TupleTable:
    """Numbers tuples of codes 0, 1, ... in order of appearance."""

    def __init__(self, width: int) -> None:
        self.n_entries = 0
        self._tuples: Int64Array = np.empty((64, width), np.int64)
        self._slots = np.full(256, -1, np.int64)

    def find(self, codes: Int64Array) -> Int64Array:
        """The number of each row of codes [n, width], -1 if it was never added."""
        return find_tuples(codes, self._slots, self._tuples)

    def add(self, codes: Int64Array) -> Int64Array:
        """The number of each row of codes [n, width]; rows not seen before get new numbers."""
        self._make_room(len(codes))
        numbers = add_tuples(codes, self._slots, self._tuples, self.n_entries)
        if len(numbers):
            self.n_entries = max(self.n_entries, largest(numbers) + 1)
        return numbers

    def _make_room(self, n_new: int) -> None:
        n_needed = self.n_entries + n_new
        if n_needed > len(self._tuples):
            self._tuples = enlarge(self._tuples, max(n_needed, 2 * len(self._tuples)))
        if 2 * n_needed > len(self._slots):
            self._slots = np.full(_power_of_two(4 * n_needed), -1, np.int64)
            rehash_tuples(self._tuples, self.n_entries, self._slots)


class TextTable:
    """Numbers texts 0, 1, ... in order of appearance, without creating a Python object per text."""

    def __init__(self) -> None:
        self.n_entries = 0
        self._known: NDArray[np.uint8] = np.empty(1024, np.uint8)
        self._starts: Int64Array = np.zeros(65, np.int64)
        self._slots = np.full(256, -1, np.int64)

    def add(self, texts: pa.Array) -> Int64Array:
        """The number of each text of an Arrow array (string or large_string); nulls get any number."""
        data, offsets = _bytes_of(texts)
        n_needed = self.n_entries + len(offsets) - 1
        n_bytes = int(self._starts[self.n_entries]) + len(data)
        if n_bytes > len(self._known):
            self._known = enlarge(self._known, max(n_bytes, 2 * len(self._known)))
        if n_needed + 1 > len(self._starts):
            self._starts = enlarge(self._starts, max(n_needed + 1, 2 * len(self._starts)))
        if 2 * n_needed > len(self._slots):
            self._slots = np.full(_power_of_two(4 * n_needed), -1, np.int64)
            rehash_texts(self._known, self._starts, self.n_entries, self._slots)
        numbers = add_texts(data, offsets, self._slots, self._known, self._starts, self.n_entries)
        if len(numbers):
            self.n_entries = max(self.n_entries, largest(numbers) + 1)
        return numbers


def enlarge(array: NDArray[Item], n_items: int) -> NDArray[Item]:
    """A copy of the array with room for more items; the new ones are uninitialised."""
    bigger = np.empty((n_items, *array.shape[1:]), array.dtype)
    bigger[: len(array)] = array
    return bigger


_SHORT_OFFSETS, _LONG_OFFSETS = np.dtype(np.int32), np.dtype(np.int64)


def _bytes_of(texts: pa.Array) -> tuple[NDArray[np.uint8], Int64Array]:
    """The bytes of an array and the offset of each text, both newly allocated."""
    if len(texts) == 0:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    dtype = _LONG_OFFSETS if texts.type.id == pa.lib.Type_LARGE_STRING else _SHORT_OFFSETS
    _, offset_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, dtype, len(texts) + 1, texts.offset * dtype.itemsize).astype(np.int64)
    start, stop = int(offsets[0]), int(offsets[-1])
    offsets -= start
    if data_buffer is None or stop == start:
        return np.empty(0, np.uint8), offsets
    return np.frombuffer(data_buffer, np.uint8, stop - start, start).copy(), offsets


def _power_of_two(at_least: int) -> int:
    return 1 << (at_least - 1).bit_length()


_LOW, _HIGH = -(1 << 61), 1 << 61
_STEP_AT_END = 1 << 32
_STEP_BETWEEN = 1 << 20
_BLOCK = 512


class OrderLabels:
    """Comparable Python values, each with a label that keeps their order."""

    def __init__(self) -> None:
        self.version = 0
        self._labels: dict[Any, int] = {}
        self._ages: dict[Any, int] = {}
        self._order = SortedBlocks()

    def __len__(self) -> int:
        return len(self._labels)

    def label(self, values: Sequence[Any]) -> list[int]:
        """The label of each value. If the call changes `version`, earlier labels are void."""
        fresh = sorted({value for value in values if value not in self._labels})
        if len(fresh) > len(self._labels):
            self._relabel(fresh)
        else:
            for place, value in enumerate(fresh):
                label = self._between(value)
                if label is None:
                    self._relabel(fresh[place:])
                    break
                self._enter(value, label)
        return [self._labels[value] for value in values]

    def _enter(self, value: Any, label: int) -> None:
        self._labels[value] = label
        self._ages[value] = len(self._ages)
        self._order.add(value)

    def _between(self, value: Any) -> int | None:
        """A label for a new value, or None if there is no room."""
        before, after = self._order.neighbours(value)
        low = _LOW - 1 if before is None else self._labels[before]
        high = _HIGH + 1 if after is None else self._labels[after]
        gap = high - low
        if gap < 2:
            return None
        if before is None and after is None:
            return 0
        if before is None or after is None:
            step = min(_STEP_AT_END, gap // 2)
            return high - step if before is None else low + step
        step = min(_STEP_BETWEEN, gap // 2)
        return low + step if self._ages[before] > self._ages[after] else high - step

    def _relabel(self, fresh: Sequence[Any]) -> None:
        """Give all values new labels, evenly spread."""
        if self._labels:
            self.version += 1
        ordered = sorted([*self._labels, *fresh])
        for value in fresh:
            self._ages[value] = len(self._ages)
        gap = (_HIGH - _LOW) // (len(ordered) + 1)
        self._labels = {value: _LOW + gap * place for place, value in enumerate(ordered, start=1)}
        self._order = SortedBlocks(ordered)


class SortedBlocks:
    """Distinct values in ascending order, in blocks, so that adding one moves few others."""

    def __init__(self, ordered: Sequence[Any] = ()) -> None:
        half = _BLOCK // 2
        self._blocks = [list(ordered[start : start + half]) for start in range(0, len(ordered), half)]
        self._lasts = [block[-1] for block in self._blocks]

    def __iter__(self) -> Iterable[Any]:
        for block in self._blocks:
            yield from block

    def neighbours(self, value: Any) -> tuple[Any, Any]:
        """The values right before and after a value that is not in the set; None at either end."""
        at = bisect_left(self._lasts, value)
        if at == len(self._blocks):
            return (self._lasts[-1] if self._lasts else None), None
        block = self._blocks[at]
        place = bisect_left(block, value)
        if place > 0:
            return block[place - 1], block[place]
        return (self._lasts[at - 1] if at > 0 else None), block[0]

    def add(self, value: Any) -> None:
        """Add a value that is not in the set."""
        if not self._blocks:
            self._blocks, self._lasts = [[value]], [value]
            return
        at = min(bisect_left(self._lasts, value), len(self._blocks) - 1)
        block = self._blocks[at]
        block.insert(bisect_left(block, value), value)
        if len(block) > _BLOCK:
            half = len(block) // 2
            self._blocks.insert(at + 1, block[half:])
            self._lasts.insert(at + 1, block[-1])
            del block[half:]
        self._lasts[at] = block[-1]


# Narrow labels lie in [-_NARROW_END, _NARROW_END]; the first ones leave half of that free beyond either end.
NARROW_NULL = np.int32(-(1 << 31))
_NARROW_END = (1 << 31) - 2
_NARROW_MIDDLE = 1 << 30
_NARROW_STEP_AT_END = 1 << 10


class NarrowLabels:
    """int32 labels for int64 codes, in their order. `version` changes when earlier labels become void.

    Codes that lie close together are their own labels, minus a base. Others are kept sorted, and a new one gets a label
    between its neighbours; if there is no room left, all labels are replaced.
    """

    def __init__(self) -> None:
        self.version = 0
        self._base: int | None = None
        self._spread = False
        self._codes = np.empty(0, np.int64)
        self._labels = np.empty(0, np.int64)

    def label(self, codes: Int64Array) -> Int32Array:
        """The label of each code. O(n) for close codes, else a binary search per code and a copy of all codes."""
        if not codes.size:
            return np.empty(0, np.int32)
        if not self._spread:
            low, high = int(codes.min()), int(codes.max())
            if self._base is None and high - low < _NARROW_MIDDLE:
                self._base = low + (high - low) // 2
            if self._base is not None and low - self._base >= -_NARROW_END and high - self._base <= _NARROW_END:
                return (codes - self._base).astype(np.int32)
            self.version += self._base is not None
            self._spread = True
        fresh = np.unique(codes)
        if self._codes.size:
            at = np.minimum(np.searchsorted(self._codes, fresh), self._codes.size - 1)
            fresh = fresh[self._codes[at] != fresh]
        if fresh.size:
            self._enter(fresh)
        return self._labels[np.searchsorted(self._codes, codes)].astype(np.int32)

    def _enter(self, fresh: Int64Array) -> None:
        """Label new codes, which are sorted and distinct."""
        at = np.searchsorted(self._codes, fresh)
        is_first = not self._codes.size
        labels = None if is_first else self._between(at)
        self._codes = np.insert(self._codes, at, fresh)
        if labels is not None:
            self._labels = np.insert(self._labels, at, labels)
            return
        self.version += not is_first
        places = np.arange(1, self._codes.size + 1, dtype=np.int64)
        self._labels = -_NARROW_MIDDLE + places * (2 * _NARROW_MIDDLE // (self._codes.size + 1))

    def _between(self, at: Int64Array) -> Int64Array | None:
        """Ascending labels for codes inserted before positions `at`; None if some gap has no room."""
        _, first, n_here = np.unique(at, return_index=True, return_counts=True)
        start, count = np.repeat(first, n_here), np.repeat(n_here, n_here)
        number = np.arange(at.size) - start
        before, after = at == 0, at == self._labels.size
        low = np.where(before, -_NARROW_END, self._labels[np.maximum(at - 1, 0)])
        high = np.where(after, _NARROW_END, self._labels[np.minimum(at, self._labels.size - 1)])
        step = (high - low) // (count + 1)
        if (step < 1).any():
            return None
        step = np.where(before | after, np.minimum(step, _NARROW_STEP_AT_END), step)
        labels: Int64Array = np.where(before, high - step * (count - number), low + step * (number + 1))
        return labels


class CodeSpace:
    """Codes for columns that are compared with each other: int64 above NULL, or int32 above NARROW_NULL.

    `ordered=False` allows codes that only tell whether texts are equal. `version` changes when codes handed out before
    become void: encode everything again.
    """

    def __init__(self, column_types: Sequence[pa.DataType], *, ordered: bool) -> None:
        self.version = 0
        self._coder = _coder_for(column_types, ordered)
        self._narrow: NarrowLabels | None = None

    def encode(self, column: pa.ChunkedArray) -> Int64Array:
        """The codes of a column, newly allocated; NULL for null."""
        indexed = read_column(column)
        before = self._coder.version
        values = self._coder.encode(indexed.plain)
        if values is None:
            # From here on every value has a label.
            self._coder = LabelCoder(max(self._coder.scale, _scale_of(column.type)))
            self.version += 1
            before = 0
            values = self._coder.encode(indexed.plain)
            assert values is not None, "labels take every value"
        self.version += self._coder.version != before
        return _spread(values, indexed)

    def encode_narrow(self, columns: Sequence[pa.ChunkedArray]) -> list[Int32Array]:
        """The codes of some columns as int32; NARROW_NULL for null."""
        before = self.version
        wide = [self.encode(column) for column in columns]
        if self.version != before:
            # Some of them may have been encoded before the change.
            self._narrow = None
            wide = [self.encode(column) for column in columns]
        codes = np.concatenate(wide)
        valid = codes != NULL
        narrow = np.full(codes.size, NARROW_NULL, np.int32)
        if isinstance(self._coder, TextCoder):
            # Texts compared only for equality are numbered as they appear: small numbers already.
            narrow[valid] = codes[valid]
        else:
            self._narrow = labels = self._narrow or NarrowLabels()
            before = labels.version
            narrow[valid] = labels.label(codes[valid])
            self.version += labels.version != before
        return np.split(narrow, np.cumsum([part.size for part in wide])[:-1])


_UNIT_SCALE = {"s": 0, "ms": 3, "us": 6, "ns": 9}


class IntegerCoder:
    """Integers at one decimal scale as they are. A coder's `encode` gives None if a value does not fit its codes."""

    version = 0

    def __init__(self, scale: int) -> None:
        self.scale = scale

    def encode(self, plain: Plain) -> Int64Array | None:
        if not isinstance(plain, Integers) or plain.scale > self.scale:
            return None
        values = np.array(plain.values, np.int64)
        if plain.valid is not None:
            values[~plain.valid] = 0
        if not np.count_nonzero(values):
            # Zero at any scale, even one whose factor no 64-bit integer holds.
            return values
        factor = 10 ** (self.scale - plain.scale)
        low, high = (int(values[0]),) * 2 if len(values) == 1 else (int(values.min()), int(values.max()))
        if low * factor <= NULL or high * factor >= 2**63:
            return None
        return values if factor == 1 else values * np.int64(factor)


class FloatCoder:
    """Floats, and integers that floats hold exactly, as the order-keeping form of their bits."""

    version = 0
    scale = 0

    def encode(self, plain: Plain) -> Int64Array | None:
        if isinstance(plain, Floats):
            floats = plain.values
        elif isinstance(plain, Integers) and plain.scale == 0:
            integers = plain.values if plain.valid is None else np.where(plain.valid, plain.values, 0)
            if len(integers) and (integers.min() < -FLOAT_EXACT or integers.max() > FLOAT_EXACT):
                return None
            floats = integers.astype(np.float64)
        else:
            return None
        keys = np.array(floats, np.float64).view(np.int64)
        float_keys(keys, keys)
        return keys


class TextCoder:
    """Texts that are compared only for equality."""

    version = 0
    scale = 0

    def __init__(self) -> None:
        self._table = TextTable()

    def encode(self, plain: Plain) -> Int64Array | None:
        if isinstance(plain, Text):
            return self._table.add(plain.array)
        # A column with only nulls, compared with one of text.
        return np.zeros(_length(plain), np.int64) if _all_null(plain) else None


class LabelCoder:
    """Any comparable values, by order labels."""

    def __init__(self, scale: int) -> None:
        self.scale = scale
        self._labels = OrderLabels()

    @property
    def version(self) -> int:
        return self._labels.version

    def encode(self, plain: Plain) -> Int64Array | None:
        values = exact_values(plain, self.scale)
        codes = np.zeros(len(values), np.int64)
        valid = np.flatnonzero([value is not None for value in values])
        codes[valid] = self._labels.label([values[place] for place in valid])
        return codes


Coder = IntegerCoder | FloatCoder | TextCoder | LabelCoder


def exact_values(plain: Plain, scale: int) -> list[Any]:
    """Values that Python compares exactly, multiplied by 10**scale; None for null. NaN is greater than infinity."""
    valid = plain.valid
    if isinstance(plain, Text):
        # Python orders text by code point, which is the order of its UTF-8 bytes.
        texts: list[Any] = plain.array.to_pylist()
        return texts if valid is None else [text if kept else None for text, kept in zip(texts, valid, strict=True)]
    if isinstance(plain, Floats):
        exact = [_exact_float(value, scale) for value in plain.values.tolist()]
    elif isinstance(plain, Integers):
        exact = [(0, value * _power(scale - plain.scale)) for value in plain.values.tolist()]
    else:
        weights = [1 << (32 * place) for place in range(plain.limbs.shape[1])]
        factor = _power(scale - plain.scale)
        exact = [
            (0, factor * sum(limb * weight for limb, weight in zip(limbs, weights, strict=True)))
            for limbs in plain.limbs.tolist()
        ]
    if valid is None:
        return exact
    return [value if kept else None for value, kept in zip(exact, valid.tolist(), strict=True)]


def _exact_float(value: float, scale: int) -> tuple[int, Any]:
    if math.isnan(value):
        return 1, 0
    if math.isinf(value):
        return 0, value
    return 0, int(value) * 10**scale if value == math.trunc(value) else Fraction(value) * 10**scale


def _power(exponent: int) -> Any:
    return 10**exponent if exponent >= 0 else Fraction(1, 10**-exponent)


def _coder_for(column_types: Sequence[pa.DataType], ordered: bool) -> Coder:
    kinds = {kind_of(type_) for type_ in column_types} - {Kind.NULL}
    scale = max(_scale_of(type_) for type_ in column_types)
    if kinds == {Kind.TEXT}:
        return LabelCoder(0) if ordered else TextCoder()
    if Kind.FLOAT in kinds:
        return FloatCoder() if kinds <= {Kind.FLOAT, Kind.INT} else LabelCoder(scale)
    return IntegerCoder(scale)


def _scale_of(type_: pa.DataType) -> int:
    if types.is_dictionary(type_) or types.is_run_end_encoded(type_):
        return _scale_of(type_.value_type)
    if types.is_decimal(type_):
        return max(int(type_.scale), 0)
    if types.is_time(type_) or types.is_timestamp(type_) or types.is_duration(type_):
        return _UNIT_SCALE[type_.unit]
    return 0


def _spread(values: Int64Array, column: Indexed) -> Int64Array:
    """Codes of the rows, NULL for null."""
    valid = column.plain.valid
    if valid is not None:
        values[~valid] = NULL
    if column.index is None:
        return values
    if len(values) == 0:
        return np.full(len(column.index), NULL, np.int64)
    values = values[column.index]
    if column.index_valid is not None:
        values[~column.index_valid] = NULL
    return values


def _length(plain: Plain) -> int:
    if isinstance(plain, Text):
        return len(plain.array)
    return len(plain.limbs) if isinstance(plain, Wide) else len(plain.values)


def _all_null(plain: Plain) -> bool:
    valid: BoolArray | None = plain.valid
    return _length(plain) == 0 if valid is None else not bool(valid.any())
