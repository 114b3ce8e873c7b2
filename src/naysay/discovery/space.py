"""The predicate space: which values of two rows a discovered rule may compare, and how.

As in the papers (Hydra, section 7.1; Chu et al., PVLDB 6(13), 2013): text and booleans compare for = and != only,
everything with an order by all six operators; two different columns compare only if they hold the same kind of
thing and enough of the same values. Of one row, two columns are ordered if their names say which comes first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from naysay.arrays import Int64Array, UInt8Array
from naysay.errors import UsageError
from naysay.rule.model import Column, Op, Predicate, Row
from naysay.table import Kind, Table
from naysay.table.column import read_column
from naysay.table.frame import decoded
from naysay.table.table import densify, encode

EQUALITY = (Op.EQ, Op.NE)
ALL = tuple(Op)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two values that the space compares: `t.A` with `s.B` of a pair, or `t.A` with `t.B` of one row."""

    left: Column
    right: Column
    ordered: bool

    @property
    def ops(self) -> tuple[Op, ...]:
        return ALL if self.ordered else EQUALITY

    @property
    def within_row(self) -> bool:
        return self.left.row is self.right.row

    @property
    def across(self) -> bool:
        """Whether it compares two different columns."""
        return self.left.name != self.right.name

    def mirrored(self) -> Comparison:
        """The comparison that says of (s, t) what this says of (t, s), with its operators flipped."""
        return Comparison(self.right.swapped(), self.left.swapped(), self.ordered)


@dataclass(frozen=True, slots=True)
class Space:
    """Everything a rule may be built from: at most one condition on each comparison."""

    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it compares, each once."""
        return tuple(dict.fromkeys(column.name for pair in self.comparisons for column in (pair.left, pair.right)))

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        return tuple(Predicate(pair.left, op, pair.right) for pair in self.comparisons for op in pair.ops)

    @property
    def n_predicates(self) -> int:
        return sum(len(pair.ops) for pair in self.comparisons)

    def narrowed(self, most: int) -> Space:
        """Without comparisons of different columns of two rows if there are more than so many comparisons."""
        kept = tuple(pair for pair in self.comparisons if not pair.across or pair.within_row)
        if len(self.comparisons) <= most or len(kept) == len(self.comparisons):
            return self
        note = (
            f"{len(self.names):,} columns make {len(self.comparisons):,} comparisons, so each column is only compared "
            "with itself; to compare different columns, name fewer (columns, --columns)"
        )
        return Space(kept, (*self.notes, note))


class Shared(Enum):
    """How the values that two columns share are measured.

    DISTINCT: common distinct values as a fraction of the distinct values of the column that has more.
    OCCURRENCES: as Hydra, FastADC and IncDC do: over the distinct values of the earlier column, the sum of the
    smaller over the sum of the larger number of occurrences in the two columns.
    """

    DISTINCT = "distinct"
    OCCURRENCES = "occurrences"


# Words of two column names of which the first comes first, or is less: start_date and end_date.
_FIRST_AND_SECOND = (
    *(("start", "end"), ("begin", "end"), ("start", "stop"), ("start", "finish"), ("from", "to"), ("from", "until")),
    *(("since", "until"), ("min", "max"), ("minimum", "maximum"), ("low", "high"), ("lower", "upper")),
    *(("first", "last"), ("dep", "arr"), ("departure", "arrival"), ("in", "out"), ("opened", "closed")),
    *(("opening", "closing"), ("created", "updated"), ("created", "modified"), ("created", "closed")),
    *(("ordered", "shipped"), ("order", "ship"), ("order", "delivery"), ("shipped", "delivered")),
    *(("birth", "death"), ("born", "died"), ("admission", "discharge"), ("pickup", "dropoff"), ("net", "gross")),
    *(("issued", "expires"), ("issue", "expiry"), ("hire", "termination")),
)


@dataclass(frozen=True, slots=True)
class Scope:
    """What rules may compare besides each column with itself.

    Args:
        cross: Whether two rows are compared in different columns of the same kind that share enough values.
        share: The smallest share of common values for which two columns are compared.
        shared: How common values are counted: `"distinct"`, as a fraction of the distinct values of the column that has
            more; `"occurrences"`, by how often they occur, as the programs published with the papers do.
        both_ways: Compare `t.A` with `s.B` and `t.B` with `s.A`; otherwise only the earlier column on the left.
        average_factor: Order different columns only if their averages lie within this factor; None for no limit.
        within_row: Which columns of one row are compared with each other: `"named"`, those whose names say which comes
            first, such as `start` and `end`; `True`, those that share enough values; `False`, none.
        order_within_row: Whether `within_row=True` compares by all six operators, or only for equality.
        order_text: Whether text and booleans are also compared by order.
        conditions: Also find dependencies that hold only among the rows with one value of a column, if at least this
            many rows have the value; None for none. In-process only.

    >>> import naysay, pyarrow as pa
    >>> stays = pa.table({"arrival": [1, 3, 5] * 20, "departure": [2, 4, 9] * 20})
    >>> found = naysay.discover(stays, space=naysay.Scope(within_row=True, share=0.0), max_predicates=1)
    >>> [naysay.render(rule) for rule in found.best]
    ['not(t.arrival >= t.departure)']
    """

    cross: bool = True
    share: float = 0.30
    shared: Shared | str = Shared.DISTINCT
    both_ways: bool = True
    average_factor: float | None = None
    within_row: bool | Literal["named"] = "named"
    order_within_row: bool = True
    order_text: bool = False
    conditions: int | None = None

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "shared", Shared(self.shared))
        except ValueError:
            names = ", ".join(each.value for each in Shared)
            raise UsageError(f"shared must be one of {names}, not {self.shared!r}") from None
        if not 0.0 <= self.share <= 1.0:
            raise UsageError(f"share must be a fraction from 0 to 1, not {self.share!r}")
        if self.within_row not in (True, False, "named"):
            raise UsageError(f"within_row must be True, False or 'named', not {self.within_row!r}")
        if self.conditions is not None and self.conditions < 2:
            raise UsageError(f"conditions must be a number of rows, at least 2, not {self.conditions!r}")

    @property
    def compares_values(self) -> bool:
        """Whether common values decide about comparisons."""
        return self.cross or self.within_row is True


# The predicate spaces of the papers, so that their answers can be reproduced. IncDC, section 3; Hydra, section 7.1.
SCOPES = {
    "naysay": Scope(),
    "incdc": Scope(share=0.30, both_ways=False, within_row=False),
    "hydra": Scope(share=0.20, both_ways=False, average_factor=10.0, within_row=True, order_within_row=False),
}


def scope_of(space: str | Scope, cross: bool) -> Scope:
    """A scope by name; `cross=False` takes the comparisons of different columns out of any."""
    if isinstance(space, str):
        if space not in SCOPES:
            raise UsageError(f"unknown predicate space {space!r}; choose one of {', '.join(SCOPES)}, or pass a Scope")
        space = SCOPES[space]
    return space if cross else replace(space, cross=False, within_row=False)


def build_space(
    table: Table,
    columns: Sequence[str] | None = None,
    scope: Scope = SCOPES["naysay"],
    is_stopped: Callable[[], bool] = lambda: False,
) -> Space:
    """The predicate space of a table, or of the named columns of it.

    If it is stopped, different columns are not compared.
    """
    kinds = {name: table.kind(name) for name in table.names}
    for name in columns or ():
        # Raises TableError if rules cannot compare the column.
        table.column(name)
    names, notes = columns_of(kinds, columns)
    kinds = {name: kinds[name] for name in names}
    averages = _averages(table, names) if scope.average_factor is not None else {}
    if not scope.compares_values:
        return space_over(kinds, scope, lambda first, second: False, averages, notes)
    values = {name: _value_counts(table, name) for name in names if not is_stopped()}
    if is_stopped():
        return space_over(kinds, scope, lambda first, second: False, averages, notes)
    if scope.shared is not Shared.DISTINCT:
        return space_over(
            kinds,
            scope,
            lambda first, second: _share_occurrences(values[first], values[second], scope),
            averages,
            notes,
        )
    sets = _distinct_values(values, kinds)
    sizes = {name: _size(bits) for name, bits in sets.items()}

    def share_enough(first: str, second: str) -> bool:
        least, most = sorted((sizes[first], sizes[second]))
        return least > 0 and _size(sets[first] & sets[second]) >= scope.share * most

    return space_over(kinds, scope, share_enough, averages, notes)


def space_over(
    kinds: Mapping[str, Kind],
    scope: Scope,
    share_enough: Callable[[str, str], bool],
    averages: Mapping[str, float],
    notes: tuple[str, ...] = (),
) -> Space:
    """The space of columns of given kinds. `share_enough` says whether two columns share enough values to be compared,
    `averages` are those of the columns of numbers."""
    same = [
        Comparison(Column(Row.LEFT, name), Column(Row.RIGHT, name), _has_order(kind, scope))
        for name, kind in kinds.items()
    ]
    across: list[Comparison] = []
    for first, second in itertools.combinations(kinds, 2) if scope.cross or scope.within_row else ():
        kind = kinds[first]
        if kind is not kinds[second] or kind in (Kind.NULL, Kind.OTHER):
            continue
        if scope.compares_values and share_enough(first, second):
            ordered = _has_order(kind, scope) and _averages_allow(averages, first, second, scope)
            across += _comparisons(first, second, ordered, scope)
        if scope.within_row == "named" and kind.has_order:
            across += _named(first, second)
    return Space((*same, *across), notes)


def columns_of(kinds: Mapping[str, Kind], columns: Sequence[str] | None) -> tuple[list[str], tuple[str, ...]]:
    """The columns to compare: those named, or all that rules can compare; and a note for each that is left out."""
    if columns is not None:
        names = list(dict.fromkeys(columns))
        if not names:
            raise UsageError("columns is empty: name at least one column, or leave it out to take all of them")
        return names, ()
    names = [name for name, kind in kinds.items() if kind is not Kind.OTHER]
    if not names:
        raise UsageError("the table has no column that rules can compare")
    return names, tuple(
        f"column {name!r} left out: rules cannot compare its type" for name in kinds if name not in names
    )


def _has_order(kind: Kind, scope: Scope) -> bool:
    return kind.has_order or (scope.order_text and kind in (Kind.TEXT, Kind.BOOL))


def _comparisons(first: str, second: str, ordered: bool, scope: Scope) -> list[Comparison]:
    found = []
    if scope.cross:
        found.append(Comparison(Column(Row.LEFT, first), Column(Row.RIGHT, second), ordered))
        if scope.both_ways:
            found.append(found[0].mirrored())
    if scope.within_row is True:
        ordered = ordered and scope.order_within_row
        pair = Comparison(Column(Row.LEFT, first), Column(Row.LEFT, second), ordered)
        found += [pair, pair.mirrored()] if scope.both_ways else [pair]
    return found


def _named(first: str, second: str) -> list[Comparison]:
    """The comparison of two columns of one row if their names say which comes first."""
    for lower, higher in ((first, second), (second, first)):
        if comes_first(lower, higher):
            return [Comparison(Column(Row.LEFT, lower), Column(Row.LEFT, higher), True)]
    return []


def comes_first(lower: str, higher: str) -> bool:
    """Whether the names of two columns differ only in words of which the first comes first.

    >>> comes_first("StartDate", "end date"), comes_first("min_age", "max_price"), comes_first("end", "start")
    (True, False, False)
    """
    return _letters(higher) in _names_after(lower)


@lru_cache(1 << 12)
def _letters(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


@lru_cache(1 << 12)
def _names_after(lower: str) -> frozenset[str]:
    """The letters of all names that come after one."""
    low = _letters(lower)
    return frozenset(
        low[:place] + two + low[place + len(one) :]
        for one, two in _FIRST_AND_SECOND
        for place in range(len(low) - len(one) + 1)
        if low.startswith(one, place)
    )


_Counts = tuple[pa.ChunkedArray, Int64Array]


def _value_counts(table: Table, name: str) -> _Counts:
    """The distinct values of a column that are not null, and how often each occurs."""
    counts = pc.value_counts(_plain(table, name).drop_null())
    return pa.chunked_array([counts.field("values")]), counts.field("counts").to_numpy(zero_copy_only=False)


def _plain(table: Table, name: str) -> pa.ChunkedArray:
    """A column as types that Arrow can count and add up."""
    column = decoded(table.arrow.column(table.names.index(name)))
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    if pa.types.is_floating(column.type):
        # Two values to Arrow, -0.0 and 0.0 are one.
        return pc.add(column, pa.scalar(0.0, column.type))
    if pa.types.is_decimal(column.type) and column.type.bit_width < 128:
        return column.cast(pa.decimal128(column.type.precision, column.type.scale))
    return column


def _distinct_values(values: Mapping[str, _Counts], kinds: Mapping[str, Kind]) -> dict[str, UInt8Array]:
    """The values of each column as a set of bits, in one code space for all columns of a kind: each is encoded once."""
    sets = {}
    for kind in set(kinds.values()) - {Kind.NULL, Kind.OTHER}:
        names = [name for name in values if kinds[name] is kind]
        codes = densify(encode([read_column(values[name][0]) for name in names], ordered=False))
        for name, code in zip(names, codes, strict=True):
            has = np.zeros(code.n_values, np.bool_)
            has[code.values] = True
            sets[name] = np.packbits(has)
    return sets


def _size(bits: UInt8Array) -> int:
    return int(np.count_nonzero(np.unpackbits(bits)))


def _share_occurrences(first: _Counts, second: _Counts, scope: Scope) -> bool:
    """Whether two columns share enough values, counted as often as they occur."""
    if not len(first[0]) or not len(second[0]):
        return False
    codes = densify(encode([read_column(first[0]), read_column(second[0])], ordered=False))
    n_values = max(code.n_values for code in codes)
    own, other = (
        np.bincount(code.values, weights=counts, minlength=n_values)
        for code, (_, counts) in zip(codes, (first, second), strict=True)
    )
    own, other = own[own > 0], other[own > 0]
    return float(np.minimum(own, other).sum()) > scope.share * float(np.maximum(own, other).sum())


def _averages_allow(averages: Mapping[str, float], first: str, second: str, scope: Scope) -> bool:
    """Whether two columns may be ordered against each other."""
    if scope.average_factor is None:
        return True
    if first not in averages or second not in averages:
        return False
    low, high = sorted(abs(averages[name]) for name in (first, second))
    return averages[first] * averages[second] > 0 and low * scope.average_factor > high


def _averages(table: Table, names: Sequence[str]) -> dict[str, float]:
    numbers = [name for name in names if table.kind(name).is_number]
    return {name: float(pc.mean(_plain(table, name)).as_py() or 0.0) for name in numbers}
