"""A table whose columns are encoded once, when their codes are first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from naysay.arrays import BoolArray, Int64Array
from naysay.rule.model import Column, Domain, Nulls, Predicate, Rule
from naysay.table import compatibility
from naysay.table.column import Codes, Indexed, Kind, Text, kind_of, read_column
from naysay.table.compatibility import compare_codes, compare_constant
from naysay.table.domains import compare_domain
from naysay.table.frame import decoded, to_arrow, without_views
from naysay.table.looks import Look, Seen, TextColumn, number_hint
from naysay.table.numbers import clear_nulls, encode_numbers, rank_together
from naysay.table.text import Spread, encode_text

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
        self._cache = OnceCache()

    def __repr__(self) -> str:
        return f"Table({self.n_rows} rows, {len(self.names)} columns)"

    @property
    def n_rows(self) -> int:
        return int(self.arrow.num_rows)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.arrow.column_names)

    def kind(self, name: str) -> Kind:
        """The kind of a column, Kind.OTHER included; RuleError if there is no such column."""
        return kind_of(self.arrow.schema.field(compatibility.place(self.arrow.schema, name)).type)

    def require(self, rule: Rule) -> None:
        """Raise RuleError or TableError, naming column, type and remedy, if the table cannot have the rule."""
        compatibility.check_rule(self.arrow.schema, rule, self._why_text)

    def _why_text(self, name: str) -> str:
        """Why a text column is not a number, if most of its values look like numbers."""
        text = TextColumn(self.column(name))
        facts = text.facts()
        if facts.look is not Look.NUMBER or not facts.is_mostly:
            return ""
        row = text.first_unlike(Look.NUMBER)
        (value,) = self.select([name]).take(np.array([row])).column(0).to_pylist()
        return number_hint(name, facts, Seen(value, {"row": row}))

    def column(self, name: str) -> Indexed:
        """A column of a comparable kind in its plain form."""

        def read() -> Indexed:
            compatibility.comparable_type(self.arrow.schema, name)
            return read_column(self.arrow.column(compatibility.place(self.arrow.schema, name)))

        return self._cache.get(("column", (name,), False), read)

    def codes(self, name: str, *, ordered: bool) -> Codes:
        """The codes of one column. Codes that keep order serve equality too, so numbers are encoded once for both."""
        return self.joint((name,), ordered=ordered)[0]

    def joint(self, names: Sequence[str], *, ordered: bool) -> tuple[Codes, ...]:
        """The codes of columns that compare with each other, in one code space."""
        return self._joint(tuple(names), ordered, 1, map)

    def ranks(self, names: Sequence[str], *, ordered: bool = True) -> tuple[Codes, ...]:
        """Like `joint`, but dense: each code in [0, n_values) is in some valid row of some column.

        If no row is valid, n_values is 1.
        """
        names = tuple(names)
        return self._cache.get(("ranks", names, ordered), lambda: densify(self.joint(names, ordered=ordered)))

    def holds(self, predicate: Predicate, nulls: Nulls) -> BoolArray:
        """Whether a predicate about one row (`t.A op t.B`, `t.A op constant`) is true, for each row."""
        compatibility.check_predicate(self.arrow.schema, predicate)
        if isinstance(predicate.right, Column):
            names = (predicate.left.name, predicate.right.name)
            left, right = self.joint(names, ordered=predicate.op.is_order)
            return compare_codes(left, predicate.op, right, nulls)
        if isinstance(predicate.right, Domain):
            return compare_domain(self.column(predicate.left.name), predicate.op, predicate.right, self.n_rows)
        return compare_constant(self.column(predicate.left.name), predicate.op, predicate.right.value, nulls)

    def prepare(self, columns: Sequence[tuple[tuple[str, ...], bool]], n_threads: int) -> None:
        """Encode several groups of columns, each `(names, ordered)` as for `joint`, on threads.

        If there are too few groups to keep the threads busy, long text columns are cut into pieces.
        """
        wanted = list(dict.fromkeys(columns))
        if n_threads <= 1 or not wanted:
            for names, ordered in wanted:
                self.joint(names, ordered=ordered)
            return
        n_pieces = n_threads if len(wanted) < 2 * n_threads else 1
        # Groups wait for their pieces, pieces for nobody: as each have their own threads, neither can block the other.
        with ThreadPoolExecutor(n_threads) as of_pieces, ThreadPoolExecutor(min(n_threads, len(wanted))) as of_groups:
            list(of_groups.map(lambda group: self._joint(group[0], group[1], n_pieces, of_pieces.map), wanted))

    def is_encoded(self, names: Sequence[str], *, ordered: bool) -> bool:
        """Whether `joint` has already made these codes."""
        return self._cache.has(self._joint_key(tuple(names), ordered))

    def prefix(self, n_rows: int) -> Table:
        """The first rows, without a copy, with their own codes."""
        return Table(self.arrow.slice(0, n_rows))

    def take(self, rows: Int64Array) -> pa.Table:
        """The given rows, in the given order, as an Arrow table."""
        places = pa.array(rows, type=pa.int64())
        columns = [_taken(_joinable(column), places) for column in self.arrow.columns]
        return pa.Table.from_arrays(columns, names=list(self.names))

    def take_parts(self, rows: Int64Array, n_part: int) -> Iterator[tuple[Int64Array, pa.Table]]:
        """Ascending rows as from `take`, n_part at a time, so that there is never a copy of all; at least one part."""
        columns = [_joinable(column) for column in self.arrow.columns]
        for start in range(0, max(rows.size, 1), n_part):
            some = rows[start : start + n_part]
            first, end = (int(some[0]), int(some[-1]) + 1) if some.size else (0, 0)
            places = pa.array(some - first, type=pa.int64())
            taken = [_taken(column.slice(first, end - first), places) for column in columns]
            yield some, pa.Table.from_arrays(taken, names=list(self.names))

    def select(self, names: Sequence[str]) -> Table:
        """The named columns as a table of their own."""
        return Table(self.arrow.select([compatibility.place(self.arrow.schema, name) for name in names]))

    def _joint(self, names: tuple[str, ...], ordered: bool, n_pieces: int, spread: Spread) -> tuple[Codes, ...]:
        key = self._joint_key(names, ordered)
        _, _, ordered = key

        def make() -> tuple[Codes, ...]:
            distinct = list(dict.fromkeys(names))
            compatibility.check_joint(self.arrow.schema, distinct)
            columns = [self.column(name) for name in distinct]
            codes = encode(columns, ordered=ordered, n_pieces=n_pieces, spread=spread)
            of_name = dict(zip(distinct, codes, strict=True))
            return tuple(of_name[name] for name in names)

        return self._cache.get(key, make)

    def _joint_key(self, names: tuple[str, ...], ordered: bool) -> _Key:
        # Only text is cheaper without order; the rest has one encoding.
        return "joint", names, ordered or not any(self.kind(name) is Kind.TEXT for name in names)


def _joinable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that Arrow can take rows from: it can neither merge dictionaries with a null nor take from views.

    Such a column loses its dictionary, or becomes plain text; runs, which no file format has, are expanded.
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
        # A type that rules cannot compare, such as a list view: its rows one by one, each a slice.
        rows = [column.slice(place.as_py(), 1) for place in places]
        return pa.chunked_array([chunk for row in rows for chunk in row.chunks], column.type)


def encode(columns: Sequence[Indexed], *, ordered: bool, n_pieces: int = 1, spread: Spread = map) -> tuple[Codes, ...]:
    """Codes of columns that compare with each other, in one space; `n_pieces` and `spread` do not change them.

    A column of only nulls may come with columns of any kind. See `encode_text` for pieces.
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
    """The same codes renumbered so that each of [0, n_values) is in some valid row (n_values is 1 if no row is valid).

    O(n + n_values) if the codes have a small range, else a radix sort.
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


class OnceCache:
    """Values by key, each made once even if several threads ask at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[Hashable, Any] = {}
        self._making: dict[Hashable, threading.Lock] = {}

    def has(self, key: Hashable) -> bool:
        return key in self._made

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            if key not in self._made:
                self._made[key] = make()
            value: Made = self._made[key]
        return value
