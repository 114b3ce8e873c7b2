"""Columns to codes: the one door to `numbers.py` and `text.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from naysay.arrays import BoolArray, Int64Array
from naysay.table.column import Codes, Indexed, Text
from naysay.table.numbers import clear_nulls, encode_numbers, rank_together
from naysay.table.text import Spread, encode_text


def encode(columns: Sequence[Indexed], *, ordered: bool, n_pieces: int = 1, spread: Spread = map) -> tuple[Codes, ...]:
    """Codes of columns that compare with each other, in one space; the same whatever `n_pieces` and `spread` are.

    A column of nulls alone may stand beside columns of any kind. See `encode_text` for pieces.
    """
    if not columns:
        return ()
    plains = [column.plain for column in columns]
    texts = [plain for plain in plains if isinstance(plain, Text)]
    numbers = [plain for plain in plains if not isinstance(plain, Text)]
    of_text = iter(encode_text(texts, ordered=ordered, n_pieces=n_pieces, spread=spread) if texts else ())
    of_numbers = iter(encode_numbers(numbers) if numbers else ())
    codes = [next(of_text if isinstance(plain, Text) else of_numbers) for plain in plains]
    n_values = max(code.n_values for code in codes)
    return tuple(_spread(replace(code, n_values=n_values), column) for code, column in zip(codes, columns, strict=True))


def densify(codes: Sequence[Codes]) -> tuple[Codes, ...]:
    """The same codes renumbered so that each of [0, n_values) stands at some valid row (n_values is 1 if none does).

    O(n + n_values) where the codes have a small range, else a radix sort.
    """
    if not codes:
        return ()
    valid = [code.valid for code in codes]
    n_rows = sum(len(code.values) for code in codes)
    if max(code.n_values for code in codes) > 4 * n_rows + (1 << 16):
        dense, n_values = rank_together([code.values for code in codes], valid)
    else:
        dense, n_values = _renumber(codes)
    return tuple(replace(code, values=values, n_values=n_values) for code, values in zip(codes, dense, strict=True))


def _renumber(codes: Sequence[Codes]) -> tuple[list[Int64Array], int]:
    present = np.zeros(max(code.n_values for code in codes), dtype=np.bool_)
    for code in codes:
        present[code.values if code.valid is None else code.values[code.valid]] = True
    number = np.cumsum(present) - 1
    dense = [number[code.values] for code in codes]
    for values, code in zip(dense, codes, strict=True):
        clear_nulls(values, code.valid)
    return dense, max(1, int(number[-1]) + 1)


def _spread(codes: Codes, column: Indexed) -> Codes:
    """Codes of a dictionary to codes of the rows that point into it."""
    if column.index is None:
        return codes
    values = codes.values[column.index]
    valid = _both(column.index_valid, None if codes.valid is None else codes.valid[column.index])
    clear_nulls(values, valid)
    return replace(codes, values=values, valid=valid)


def _both(left: BoolArray | None, right: BoolArray | None) -> BoolArray | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right
