"""Hash tables from the distinct values of a column to the row sets that have them (FACET, section 5.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from pyroaring import BitMap

from naysay.arrays import Int64Array
from naysay.kernels.joins.facet import build
from naysay.papers.facet.rowsets import RowSet, array_of, bitmap_of


def split(grouped: Int64Array, bounds: Int64Array) -> Iterator[Int64Array]:
    """The row sets that `build` and `probe` give, one by one."""
    return (grouped[begin:end] for begin, end in pairwise(bounds.tolist()))


class HashTable:
    """The row sets of the distinct values; `values` are in order, the sentinels of HSM's scans.

    An entry is an array until it is first asked for, and a bitmap from then on.
    """

    def __init__(self, codes: Int64Array, rows: RowSet) -> None:
        self._codes = codes
        self._entries: dict[int, RowSet] = {}
        self.values: list[int] = []
        self.add(rows)

    def add(self, rows: RowSet) -> None:
        """Add rows that are not in it."""
        values, grouped, bounds, _ = build(array_of(rows), self._codes)
        for value, places in zip(values.tolist(), split(grouped, bounds), strict=True):
            if value in self._entries:
                entry = self[value]
                entry |= bitmap_of(places)
            else:
                self._entries[value] = places
                self.values.append(value)
        # What was there is in order: sorting is a merge.
        self.values.sort()

    def get(self, value: int) -> BitMap:
        """The rows that have the value, if there are any."""
        return self[value] if value in self._entries else BitMap()

    def __getitem__(self, value: int) -> BitMap:
        entry = self._entries[value]
        if not isinstance(entry, BitMap):
            entry = self._entries[value] = bitmap_of(entry)
        return entry

    def union(self, values: Sequence[int]) -> BitMap:
        """The rows that have one of the values, of which there is at least one."""
        if len(values) == 1:
            return self[values[0]]
        return BitMap.union(*(self[value] for value in values))


class GrowingTable:
    """The hash table of right sets that come one after the other, each of which may contain the one before.

    HSM and BHSM make such sets; only what is new is added then (section 5.3, optimizations).
    """

    def __init__(self, codes: Int64Array) -> None:
        self._codes = codes
        self._table = HashTable(codes, BitMap())
        self._rows = BitMap()

    def of(self, rows: BitMap) -> HashTable:
        fresh = rows - self._rows
        if len(self._rows) + len(fresh) != len(rows):
            self._table = HashTable(self._codes, rows)
            self._rows = rows.copy()
        elif fresh:
            self._table.add(fresh)
            self._rows |= fresh
        return self._table
