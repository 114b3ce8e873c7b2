"""Text columns to codes in one space: a hash dictionary, and a sort of the distinct values if order is needed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from naysay.arrays import Int32Array, Int64Array, UInt8Array, UInt64Array
from naysay.table.column import Codes, Text
from naysay.table.numbers import clear_nulls

# See `kernels.codes.text`.
Dictionary = tuple[Int32Array, UInt64Array, Int64Array]
Spread = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

# A piece smaller than this is not worth a dictionary of its own.
_MIN_PIECE = 1 << 16
_MAX_BYTES = (1 << 31) - 1


def encode_text(
    columns: Sequence[Text], *, ordered: bool, n_pieces: int = 1, spread: Spread = map
) -> tuple[Codes, ...]:
    """Codes in one space: by first appearance, or in byte order if `ordered`.

    Each column is cut into about `n_pieces`, which `spread` may encode at the same time, each with its own dictionary;
    the dictionaries are then merged.
    """
    made = [Codes(np.empty(len(column.array), dtype=np.int64), 1, column.valid, ordered) for column in columns]
    pieces = [
        piece
        for column, codes in zip(columns, made, strict=True)
        for piece in _cut(_without_nulls(column.array), codes.values, n_pieces)
    ]
    firsts = list(spread(_encode_piece, pieces))
    distinct = [
        piece.array.take(pa.array(first)).cast(pa.large_string()) for piece, first in zip(pieces, firsts, strict=True)
    ]
    n_values, recodings = _merge(distinct, ordered)
    list(spread(_recode_piece, zip(pieces, recodings, strict=True)))
    for codes in made:
        clear_nulls(codes.values, codes.valid)
    return tuple(Codes(codes.values, max(1, n_values), codes.valid, ordered) for codes in made)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A run of rows and the place of their codes."""

    array: pa.Array
    codes: Int64Array


def _without_nulls(array: pa.Array) -> pa.Array:
    """The same bytes, with any value at null rows, so that kernels need not check."""
    if array.null_count == 0:
        return array
    return pa.Array.from_buffers(array.type, len(array), [None, *array.buffers()[1:]], 0, array.offset)


def _cut(array: pa.Array, codes: Int64Array, n_pieces: int) -> list[_Piece]:
    n_pieces = min(n_pieces, len(array) // _MIN_PIECE)
    n_pieces = max(n_pieces, 1, -(-_n_bytes(array) // _MAX_BYTES))
    bounds = np.linspace(0, len(array), n_pieces + 1).astype(int).tolist()
    pieces = []
    for start, stop in itertools.pairwise(bounds):
        part = array.slice(start, stop - start)
        if _n_bytes(part) > _MAX_BYTES and stop - start > 1:
            pieces += _cut(part, codes[start:stop], 2)
        else:
            pieces.append(_Piece(part, codes[start:stop]))
    return pieces


def _merge(distinct: list[pa.Array], ordered: bool) -> tuple[int, list[Int64Array | None]]:
    """How each piece's codes become codes of the whole; None if they stay as they are."""
    if len(distinct) == 1:
        together, recodings = distinct[0], [np.arange(len(distinct[0]))]
    else:
        every = pa.concat_arrays(distinct)
        codes = np.empty(len(every), dtype=np.int64)
        together = every.take(pa.array(_encode_piece(_Piece(every, codes))))
        recodings = np.split(codes, np.cumsum([len(part) for part in distinct])[:-1])
    if ordered:
        rank = _byte_ranks(together)
        return len(together), [rank[codes] for codes in recodings]
    return len(together), [None, *recodings[1:]]


def _byte_ranks(distinct: pa.Array) -> Int64Array:
    """The place of each distinct text in the order of their bytes."""
    order = pc.array_sort_indices(distinct.cast(pa.large_binary())).to_numpy()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank


def _recode_piece(job: tuple[_Piece, Int64Array | None]) -> None:
    from naysay.kernels.codes.text import recode

    piece, recoding = job
    if recoding is not None and len(recoding):
        recode(piece.codes, recoding)


def _encode_piece(piece: _Piece) -> Int64Array:
    """Write the codes of a piece, numbered by first appearance; returns the row where each appears first."""
    from naysay.kernels.codes.text import add_short_texts, add_texts

    offsets, words, data = _buffers(piece.array)
    n_rows = len(piece.codes)
    n_safe = int(np.searchsorted(offsets[:-1], 8 * len(words) - 24)) if n_rows else 0
    book = _new_book(1 << 9)
    state = np.zeros(2, dtype=np.int64)
    stride = 256
    while state[0] < n_rows:
        if state[1] == len(book[2]):
            book = _enlarge(book)
        before = int(state[0])
        add_short_texts(offsets, words, piece.codes, n_safe, book, state)
        if state[0] < n_rows and state[1] < len(book[2]):
            # Long texts, or the last few: continue for a while before trying short ones again.
            stride = min(2 * stride, 1 << 20) if state[0] - before < stride else 256
            stop = min(n_rows, int(state[0]) + stride)
            add_texts(offsets, words, data, piece.codes, book, state, stop)
    return np.array(book[2][: int(state[1])])


def _new_book(room: int) -> Dictionary:
    """An empty dictionary with room for that many codes; see `kernels.codes.text`."""
    # Nearly empty hash tables save collisions as long as they fit a cache.
    n_slots = room * (8 if room <= 1 << 16 else 4)
    return np.zeros(n_slots, np.int32), np.empty(2 * room, np.uint64), np.empty(room, np.int64)


def _enlarge(book: Dictionary) -> Dictionary:
    from naysay.kernels.codes.text import fill_slots

    _, known, first = book
    slots, more_known, more_first = _new_book(4 * len(first))
    more_known[: len(known)], more_first[: len(first)] = known, first
    fill_slots(slots, more_known, len(first))
    return slots, more_known, more_first


def _n_bytes(array: pa.Array) -> int:
    offsets = offsets_of(array)
    return int(offsets[-1]) - int(offsets[0])


def offsets_of(array: pa.Array) -> NDArray[np.signedinteger[Any]]:
    """Where each text begins and ends in the bytes of the array."""
    dtype = np.dtype(np.int64 if pa.types.is_large_string(array.type) else np.int32)
    buffer = array.buffers()[1]
    if buffer is None or buffer.size == 0:
        return np.zeros(1, dtype)
    return np.frombuffer(buffer, dtype, len(array) + 1, array.offset * dtype.itemsize)


def _buffers(array: pa.Array) -> tuple[Int32Array, UInt64Array, UInt8Array]:
    """Offsets, the bytes as whole words, and the bytes: all read-only, so that kernels have one signature."""
    offsets = offsets_of(array)
    buffer = array.buffers()[2]
    data = np.frombuffer(buffer if buffer is not None else b"", np.uint8)
    start = 0
    if offsets.dtype != np.int32:
        # The bytes of one piece fit 32 bits; begin at a whole word.
        start = int(offsets[0]) & ~7
        offsets = (offsets - start).astype(np.int32)
    data = data[start : start + int(offsets[-1])]
    if data.ctypes.data % 8:
        data = data.copy()
    words = data[: len(data) // 8 * 8].view(np.uint64)
    for array_ in (offsets, data, words):
        array_.flags.writeable = False
    return offsets, words, data
