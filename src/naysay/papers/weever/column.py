"""One index for each compared column: an LT-tree if some inequality compares it, else a hash map (section 5.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from pyroaring import BitMap

from naysay.live.columns import Coded
from naysay.papers.weever.lt_tree import LTTree, Value
from naysay.watch.batch import CodedRows

_NO_ROWS = BitMap()


class ColumnIndex:
    """All rows by their value in one column, for every rule that compares it.

    The column may have several codes: its own, and those that it shares with columns that it is compared with. They are
    all codes of the same values, so they share one tree and the sets of rows. Codes without order are looked up in a
    hash map beside the tree.
    """

    def __init__(self, spaces: Iterable[Coded], *, ordered: bool) -> None:
        self.spaces = tuple(sorted(spaces, key=lambda coded: not coded.space.ordered))
        self.tree = LTTree() if ordered else None
        self._place = {coded: place for place, coded in enumerate(self.spaces)}
        self._maps: dict[int, dict[int, BitMap]] = {
            place: {} for place, coded in enumerate(self.spaces) if not (ordered and coded.space.ordered)
        }

    @property
    def n_values(self) -> int:
        return len(self._maps[0]) if self.tree is None else self.tree.n_values

    def suits(self, spaces: Iterable[Coded], *, ordered: bool) -> bool:
        """Whether the index is the one that these uses of the column need."""
        return {*self.spaces} == {*spaces} and (self.tree is not None) == ordered

    def equal(self, looked_at: Coded, value: int) -> BitMap:
        """The rows with a value, given by its code in the space of `looked_at`."""
        place = self._place[looked_at]
        found = self._maps[place].get(value) if place in self._maps else self._tree.equal(value, place)
        return _NO_ROWS if found is None else found

    def smaller(self, looked_at: Coded, value: int) -> BitMap:
        """The rows with a smaller value."""
        return self._tree.smaller(value, self._place[looked_at])

    def extend(self, found: BitMap, start: int | None, looked_at: Coded, value: int) -> None:
        """Add the rows from `start` to below `value` to those below `start`; see `LTTree.extend`."""
        self._tree.extend(found, start, value, self._place[looked_at])

    def insert(self, codes: Mapping[Coded, int], row: int) -> None:
        value = tuple([codes[coded] for coded in self.spaces])
        if self.tree is not None:
            rows = self.tree.insert(value, row)
        else:
            rows = self._maps[0].setdefault(value[0], BitMap())
            rows.add(row)
        if len(rows) == 1:
            for place, found in self._maps.items():
                found[value[place]] = rows

    def delete(self, codes: Mapping[Coded, int], row: int) -> None:
        value = tuple([codes[coded] for coded in self.spaces])
        if self.tree is not None:
            rows = self.tree.delete(value, row)
        else:
            rows = self._maps[0][value[0]]
            rows.remove(row)
        if not rows:
            for place, found in self._maps.items():
                del found[value[place]]

    def fill(self, rows: CodedRows) -> ColumnIndex:
        """Enter all rows into an empty index."""
        codes = np.stack([rows.codes[coded] for coded in self.spaces])
        order = np.argsort(codes[0], kind="stable")
        slots, first = rows.slots[order], codes[0][order]
        starts = np.flatnonzero(np.concatenate(([True], first[1:] != first[:-1]))) if len(first) else order
        values = zip(*codes[:, order[starts]].tolist(), strict=True)
        sets = (BitMap(part) for part in np.split(slots.astype(np.uint32), starts[1:]))
        self._enter(list(zip(values, sets, strict=False)))
        return self

    def reduced(self, spaces: Iterable[Coded], *, ordered: bool) -> ColumnIndex:
        """The index for fewer uses of the column."""
        index = ColumnIndex(spaces, ordered=ordered)
        places = [self._place[coded] for coded in index.spaces]
        entries = list(self.tree) if self.tree is not None else self._hashed()
        index._enter([(tuple([value[place] for place in places]), rows) for value, rows in entries])
        return index

    @property
    def _tree(self) -> LTTree:
        assert self.tree is not None, "only a column that an inequality compares is searched by order"
        return self.tree

    def _hashed(self) -> list[tuple[Value, BitMap]]:
        # Values enter and leave all maps together, so these have the same order.
        return list(zip(zip(*self._maps.values(), strict=True), self._maps[0].values(), strict=True))

    def _enter(self, entries: Sequence[tuple[Value, BitMap]]) -> None:
        if self.tree is not None:
            self.tree.fill(entries)
        for value, rows in entries:
            for place, found in self._maps.items():
                found[value[place]] = rows
