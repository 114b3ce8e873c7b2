"""A table whose columns turn into codes when first asked for, once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from naysay.arrays import BoolArray
from naysay.rule.model import Column, Nulls, Predicate, Rule
from naysay.table import fit
from naysay.table.column import Codes, Indexed, Kind, kind_of, read_column
from naysay.table.encode import densify, encode
from naysay.table.fit import compare_codes, compare_constant
from naysay.table.frame import decoded, to_arrow, without_views
from naysay.table.text import Spread

Made = TypeVar("Made")
_Key = tuple[str, tuple[str, ...], bool]


def from_frame(frame: Any) -> Table:
    """A table from anything that speaks Arrow: pandas, Polars, DuckDB, pyarrow.

    >>> import pyarrow as pa
    >>> from_frame(pa.table({"a": [3, 1, 3]})).codes("a", ordered=True).values.tolist()
    [2, 0, 2]
    """
    return frame if isinstance(frame, Table) else Table(to_arrow(frame))


class Table:
    """An Arrow table and the codes of its columns, encoded on demand and kept. Safe to use from several threads."""

    def __init__(self, arrow: pa.Table) -> None:
        self.arrow = arrow
        self._cache = _Cache()

    def __repr__(self) -> str:
        return f"Table({self.n_rows} rows, {len(self.names)} columns)"

    @property
    def n_rows(self) -> int:
        return int(self.arrow.num_rows)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.arrow.column_names)

    def kind(self, name: str) -> Kind:
        """The kind of a column, Kind.OTHER included; RuleError where there is no such column."""
        return kind_of(self.arrow.schema.field(fit.place(self.arrow.schema, name)).type)

    def require(self, rule: Rule) -> None:
        """Raise RuleError or TableError, naming column, type and remedy, where the rule does not fit the table."""
        fit.check_rule(self.arrow.schema, rule)

    def codes(self, name: str, *, ordered: bool) -> Codes:
        """The codes of one column. Codes that keep order serve equality too, so numbers are encoded once for both."""
        return self.joint((name,), ordered=ordered)[0]

    def joint(self, names: Sequence[str], *, ordered: bool) -> tuple[Codes, ...]:
        """The codes of columns that compare with each other, in one code space."""
        return self._joint(tuple(names), ordered, 1, map)

    def ranks(self, names: Sequence[str], *, ordered: bool = True) -> tuple[Codes, ...]:
        """As `joint`, but dense: each code in [0, n_values) stands at some valid row of some column.

        Where no row is valid n_values is 1 all the same.
        """
        names = tuple(names)
        return self._cache.get(("ranks", names, ordered), lambda: densify(self.joint(names, ordered=ordered)))

    def holds(self, predicate: Predicate, nulls: Nulls) -> BoolArray:
        """Whether a predicate about one row (`t.A op t.B`, `t.A op constant`) is true, for each row."""
        fit.check_predicate(self.arrow.schema, predicate)
        if isinstance(predicate.right, Column):
            names = (predicate.left.name, predicate.right.name)
            left, right = self.joint(names, ordered=predicate.op.is_order)
            return compare_codes(left, predicate.op, right, nulls)
        return compare_constant(self._column(predicate.left.name), predicate.op, predicate.right.value, nulls)

    def prepare(self, columns: Sequence[tuple[tuple[str, ...], bool]], n_threads: int) -> None:
        """Encode several groups of columns, each `(names, ordered)` as for `joint`, on threads.

        Where there are fewer groups than would keep the threads busy, long text columns are cut into pieces.
        """
        wanted = list(dict.fromkeys(columns))
        if n_threads <= 1 or not wanted:
            for names, ordered in wanted:
                self.joint(names, ordered=ordered)
            return
        n_pieces = n_threads if len(wanted) < 2 * n_threads else 1
        # Groups wait for their pieces, and pieces for nobody: with threads of their own neither can block the other.
        with ThreadPoolExecutor(n_threads) as of_pieces, ThreadPoolExecutor(min(n_threads, len(wanted))) as of_groups:
            list(of_groups.map(lambda group: self._joint(group[0], group[1], n_pieces, of_pieces.map), wanted))

    def is_encoded(self, names: Sequence[str], *, ordered: bool) -> bool:
        """Whether `joint` has these codes already."""
        return self._cache.has(self._joint_key(tuple(names), ordered))

    def prefix(self, n_rows: int) -> Table:
        """The first rows, without a copy, with codes of their own."""
        return Table(self.arrow.slice(0, n_rows))

    def take(self, rows: NDArray[np.int64]) -> pa.Table:
        """The given rows, in the given order, as an Arrow table."""
        places = pa.array(rows, type=pa.int64())
        columns = [_taken(_joinable(column), places) for column in self.arrow.columns]
        return pa.Table.from_arrays(columns, names=list(self.names))

    def take_parts(self, rows: NDArray[np.int64], n_part: int) -> Iterator[tuple[NDArray[np.int64], pa.Table]]:
        """Ascending rows as `take` gives them, so many at a time, that no copy of all is held; at least one part."""
        columns = [_joinable(column) for column in self.arrow.columns]
        for start in range(0, max(rows.size, 1), n_part):
            some = rows[start : start + n_part]
            first, end = (int(some[0]), int(some[-1]) + 1) if some.size else (0, 0)
            places = pa.array(some - first, type=pa.int64())
            taken = [_taken(column.slice(first, end - first), places) for column in columns]
            yield some, pa.Table.from_arrays(taken, names=list(self.names))

    def select(self, names: Sequence[str]) -> Table:
        """The named columns as a table of their own."""
        return Table(self.arrow.select([fit.place(self.arrow.schema, name) for name in names]))

    def _column(self, name: str) -> Indexed:
        def read() -> Indexed:
            fit.comparable_type(self.arrow.schema, name)
            return read_column(self.arrow.column(fit.place(self.arrow.schema, name)))

        return self._cache.get(("column", (name,), False), read)

    def _joint(self, names: tuple[str, ...], ordered: bool, n_pieces: int, spread: Spread) -> tuple[Codes, ...]:
        key = self._joint_key(names, ordered)
        _, _, ordered = key

        def make() -> tuple[Codes, ...]:
            distinct = list(dict.fromkeys(names))
            fit.check_joint(self.arrow.schema, distinct)
            columns = [self._column(name) for name in distinct]
            codes = encode(columns, ordered=ordered, n_pieces=n_pieces, spread=spread)
            of_name = dict(zip(distinct, codes, strict=True))
            return tuple(of_name[name] for name in names)

        return self._cache.get(key, make)

    def _joint_key(self, names: tuple[str, ...], ordered: bool) -> _Key:
        # Only text is cheaper without order; the rest has one encoding.
        return "joint", names, ordered or not any(self.kind(name) is Kind.TEXT for name in names)


def _joinable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that Arrow can take rows from: it cannot bring together dictionaries that hold a null, nor take views.

    Such a column goes without its dictionary, or as plain text; runs, which no file can hold, value by value.
    """
    if pa.types.is_run_end_encoded(column.type):
        column = decoded(column)
    column = without_views(column)
    if pa.types.is_dictionary(column.type) and any(chunk.dictionary.null_count for chunk in column.chunks):
        column = column.cast(column.type.value_type)
    return column


def _taken(column: pa.ChunkedArray, places: pa.Array) -> pa.ChunkedArray:
    try:
        return column.take(places)
    except pa.ArrowNotImplementedError:
        # A type that nobody compares, such as a list view: its rows one by one, each a slice.
        rows = [column.slice(place.as_py(), 1) for place in places]
        return pa.chunked_array([chunk for row in rows for chunk in row.chunks], column.type)


class _Cache:
    """Values by key, each made once even when several threads ask at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[Any, Any] = {}
        self._making: dict[Any, threading.Lock] = {}

    def has(self, key: _Key) -> bool:
        return key in self._made

    def get(self, key: _Key, make: Callable[[], Made]) -> Made:
        with self._lock:
            if key in self._made:
                found: Made = self._made[key]
                return found
            making = self._making.setdefault(key, threading.Lock())
        with making:
            if key not in self._made:
                self._made[key] = make()
            value: Made = self._made[key]
        return value
