"""Pairs of row sets, which stand for many pairs of rows, and the two ways to store a set (FACET, 3.2 and 4)."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from pyroaring import BitMap

from naysay.arrays import Int64Array
from naysay.errors import ResourceError

# The paper's tids, as places of a side. Equalities and IEJoin only store and read them, and make arrays of integers;
# non-equalities, HSM and BHSM compute unions and differences, and make compressed bitmaps. Each refinement reads both
# and turns what it gets into what it computes with (section 4, "hybrid").
RowSet: TypeAlias = Int64Array | BitMap

# A compressed bitmap holds 32-bit numbers.
_MOST_PLACES = 1 << 32


def bitmap_of(rows: RowSet) -> BitMap:
    if isinstance(rows, BitMap):
        return rows
    return BitMap(array("I", rows.astype(np.uint32).tobytes()))


def array_of(rows: RowSet) -> Int64Array:
    if isinstance(rows, BitMap):
        return np.asarray(rows.to_array()).astype(np.int64)
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class SetPair:
    """All pairs of a place of the left set with one of the right set; the paper's (tids, tids').

    Where `left is right` it is reflexive, and a place does not meet itself. It holds until the next one is asked of
    the refinement that made it, which may go on building on these sets.
    """

    left: RowSet
    right: RowSet

    @property
    def reflexive(self) -> bool:
        return self.left is self.right

    @property
    def empty(self) -> bool:
        return len(self.left) == 0 or len(self.right) == 0

    @property
    def n_pairs(self) -> int:
        return len(self.left) * (len(self.right) - self.reflexive)

    @property
    def n_words(self) -> int:
        """About how much memory the sets take, in words of 64 bits."""
        return _n_words(self.left) + (0 if self.reflexive else _n_words(self.right))


def _n_words(rows: RowSet) -> int:
    size = len(rows)
    if isinstance(rows, BitMap) and size > 1:
        size = min(size, (rows.max() - rows.min()) // 64 + 1)
    return size


def all_pairs(n_left: int, n_right: int, *, mirror: bool) -> SetPair:
    """The pair of sets that stands for every pair, where a pipeline begins."""
    if max(n_left, n_right) > _MOST_PLACES:
        raise ResourceError(f"FACET's bitmaps number at most {_MOST_PLACES:,} rows a side: use strategy 'auto'")
    left = np.arange(n_left, dtype=np.int64)
    return SetPair(left, left if mirror else np.arange(n_right, dtype=np.int64))
