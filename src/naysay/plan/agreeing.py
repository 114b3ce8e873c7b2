"""Counts by agreement: rules over one table whose counts follow from how many pairs of rows agree in some columns.

Two rows that agree in a key and differ in an ordered column break an order one way round: so `key and x <` is half of
the pairs that agree in the key and not in x, and `key and !=` is all of them. Rules of a check share these numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from math import prod

from naysay.arrays import MAX_CODES, Int64Array
from naysay.plan.bind import Matched, Memo, NoMemo, combine, matched_codes, selected_rows
from naysay.plan.join import Join
from naysay.rule.model import Nulls, Predicate
from naysay.table import Table
from naysay.table.column import Codes
from naysay.table.table import OnceCache

Names = frozenset[str]
# Which rows take part: those that pass these filters and have a value in these columns.
Selection = tuple[tuple[Predicate, ...], Names]

# More orders or differs are left to the kernels for them.
_MAX_ORDERS, _MAX_DIFFERS = 1, 2
# The square of more rows does not fit into 64 bits.
_MAX_ROWS = 3_000_000_000
# A kernel takes this many columns; more are combined before.
_KERNEL_COLUMNS = 3
# Up to this many values for each row, an array of counts by value is quicker than a partition.
_CELLS_PER_ROW = 2.0
_FEW_CELLS = 1 << 16
# Leading hash bits by which rows are partitioned.
_PART_BITS = 9


def agreeing_pairs(table: Table, nulls: Nulls, memo: Memo) -> AgreeingPairs:
    """The numbers that all rules with this memo share."""
    return memo.get(("agreeing pairs", nulls), (), partial(AgreeingPairs, table, nulls, memo))


class AgreeingPairs:
    """Pairs of rows that agree in some columns, each row with itself included; every number is made once."""

    def __init__(self, table: Table, nulls: Nulls, memo: Memo) -> None:
        self._table = table
        self._nulls = nulls
        self._memo = memo
        self._cache = OnceCache()
        # Every rule asks for its columns several times.
        self._columns: dict[str, Codes] = {}
        # How often rows were gone through, for tests.
        self.n_passes = 0

    def count(self, join: Join) -> int | None:
        """The violations of a rule, if they follow from the pairs that agree; else None."""
        if not join.is_mirror or self._table.n_rows > _MAX_ROWS:
            return None
        selection = self._selection(join)
        key = frozenset(match.left for match in join.key)
        if any(order.strict and self._is_known_determined(key, order.left, selection) for order in join.order):
            return 0
        if len(join.order) > _MAX_ORDERS or len(join.differs) > _MAX_DIFFERS:
            return None
        differs = [match.left for match in join.differs]
        total = 0
        for some in _subsets(differs):
            pairs = self._in_order(key.union(some), join, selection)
            total += pairs if len(some) % 2 == 0 else -pairs
        # A row meets itself only if nothing differs and no order is strict: then every row does.
        return total if join.irreflexive else total - self._n_rows(selection)

    def _in_order(self, names: Names, join: Join, selection: Selection) -> int:
        """The pairs that agree in some columns and satisfy the order, if there is one."""
        pairs = self.pairs(names, selection)
        if not join.order:
            return pairs
        equal = self.pairs(names | {join.order[0].left}, selection)
        return (pairs - equal) // 2 if join.order[0].strict else (pairs + equal) // 2

    def _is_known_determined(self, key: Names, name: str, selection: Selection) -> bool:
        """Whether rows that agree in the key are known to agree in another column."""
        known = all(self._is_known(names, selection) for names in (key, key | {name}))
        return known and self.pairs(key, selection) == self.pairs(key | {name}, selection)

    def pairs(self, names: Names, selection: Selection) -> int:
        """How many pairs of rows agree in all of these columns."""
        return self._cache.get((names, selection), lambda: self._pairs(names, selection))

    def _pairs(self, names: Names, selection: Selection) -> int:
        n_rows = self._n_rows(selection)
        if not names or not n_rows:
            return n_rows * n_rows
        if len(names) > 1 and any(self._is_key(name, selection) for name in names):
            return n_rows
        for fewer in map(frozenset, _subsets(sorted(names), len(names) - 1)):
            if self._is_known(fewer, selection) and self.pairs(fewer, selection) == n_rows:
                # These columns are a key already.
                return n_rows
            for name in names - fewer:
                if fewer | {name} != names and self._is_known_determined(fewer, name, selection):
                    return self.pairs(names - {name}, selection)
        self.n_passes += 1
        return _count_agreeing([self._codes(name, selection) for name in sorted(names)], n_rows)

    def _is_key(self, name: str, selection: Selection) -> bool:
        """Whether no two rows agree in a column; columns with fewer values than rows are not looked at."""
        n_rows = self._n_rows(selection)
        return self._codes(name, selection)[2] >= n_rows and self.pairs(frozenset({name}), selection) == n_rows

    def _is_known(self, names: Names, selection: Selection) -> bool:
        return self._cache.has((names, selection))

    def _selection(self, join: Join) -> Selection:
        """As `bind` selects the rows of a join whose sides are the same."""
        names = {order.left for order in join.order}
        if self._nulls is Nulls.SQL:
            names |= {match.left for match in (*join.key, *join.differs)}
        has_null = (name for name in names if self._encoded(name).valid is not None)
        return join.row_filter, frozenset(has_null)

    def _n_rows(self, selection: Selection) -> int:
        rows = self._rows(selection)
        return self._table.n_rows if rows is None else int(rows.size)

    def _rows(self, selection: Selection) -> Int64Array | None:
        filters, names = selection
        if not filters and not names:
            return None
        columns = [self._encoded(name) for name in sorted(names)]
        return self._cache.get(("rows", selection), lambda: selected_rows(self._table, filters, columns, self._nulls))

    def _encoded(self, name: str) -> Codes:
        """A column as some rule has it already: with its order, if any rule needs that."""
        found = self._columns.get(name)
        if found is None:
            ordered = self._table.is_encoded((name,), ordered=True)
            found = self._columns[name] = self._memo.renumbered(self._table.joint((name,), ordered=ordered))[0]
        return found

    def _codes(self, name: str, selection: Selection) -> Matched:
        """The codes of a column in the rows that take part, and their range."""
        codes, rows = self._encoded(name), self._rows(selection)

        def pick() -> Matched:
            values, _, n_values = matched_codes(codes, codes, self._nulls, self._memo)
            if rows is not None:
                values = values[rows]
            return values, values, n_values

        return self._cache.get(("codes", name, selection), pick)


def _subsets(names: list[str], most: int | None = None) -> Iterator[tuple[str, ...]]:
    """All subsets of at most `most` names, the smallest first."""
    for size in range((len(names) if most is None else most) + 1):
        yield from combinations(names, size)


def _count_agreeing(parts: list[Matched], n_rows: int) -> int:
    """Sum c * c over the distinct combinations of codes, c the number of rows that have it."""
    from naysay.kernels.sort import count_agreeing_nearly, count_agreeing_parts, count_agreeing_small

    # The column with the fewest values last: it is the one that others may determine.
    parts = sorted(parts, key=lambda part: -part[2])
    while len(parts) > _KERNEL_COLUMNS or (len(parts) > 1 and prod(n for _, _, n in parts) > MAX_CODES):
        parts = [combine(parts[:2], n_rows, NoMemo()), *parts[2:]]
    *key, (last, _, n_last) = parts
    n_keys = prod(n for _, _, n in key)
    # Columns that are not there are multiplied by 0.
    first, second = ([values for values, _, _ in key] + [last, last])[:2]
    factors = (0, 0, 0) if not key else (1, 0, n_last) if len(key) == 1 else (key[1][2], 1, n_last)
    columns = first, second, last
    if n_keys * n_last <= max(_FEW_CELLS, _CELLS_PER_ROW * n_rows):
        return int(count_agreeing_small(columns, factors, n_keys * n_last))
    if key and n_keys <= max(_FEW_CELLS, n_rows):
        total = int(count_agreeing_nearly(columns, factors, n_keys, _PART_BITS))
        if total >= 0:
            return total
    return int(count_agreeing_parts(columns, factors, n_keys * n_last, _PART_BITS))
