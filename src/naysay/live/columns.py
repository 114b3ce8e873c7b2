"""The codes of every compared column by slot: the input of indexes, which also find an old row by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pyarrow as pa

from naysay.arrays import Int64Array, largest
from naysay.live.codes import CodeSpace, enlarge
from naysay.plan.join import Join, Match, Order
from naysay.rule.model import Nulls, Predicate, Row
from naysay.table import Table
from naysay.table.column import Kind, kind_of


@dataclass(frozen=True, slots=True)
class SpaceName:
    """Columns that share codes, and whether the codes must keep their order."""

    columns: tuple[str, ...]
    ordered: bool


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """One column in one code space. There is one object for each, see `coded`: every batch looks several up."""

    space: SpaceName
    column: str


@dataclass(frozen=True, slots=True)
class Filter:
    """Predicates about one row, all written for the left row; its code is 1 if all hold, else 0."""

    predicates: tuple[Predicate, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.predicates))

    def __hash__(self) -> int:
        return self._hash


Source = Coded | Filter
Codes = dict[Source, Int64Array]


def filter_of(predicates: Sequence[Predicate]) -> Filter | None:
    """The predicates of one side as a filter; None if there are none."""
    if not predicates:
        return None
    written = [predicate if predicate.left.row is Row.LEFT else predicate.swapped() for predicate in predicates]
    return Filter(tuple(dict.fromkeys(written)))


def coded(schema: pa.Schema, part: Match | Order) -> tuple[Coded, Coded]:
    """The left and the right column of a part of a join, in their common space."""
    names = tuple(sorted({part.left, part.right}))
    is_text = any(kind_of(schema.field(name).type) is Kind.TEXT for name in names)
    # Only text is cheaper without order; the rest has one encoding.
    space = SpaceName(names, isinstance(part, Order) or not is_text)
    return coded_column(space, part.left), coded_column(space, part.right)


@cache
def coded_column(space: SpaceName, column: str) -> Coded:
    """The same object whenever it is asked for."""
    return Coded(space, column)


def sources_of(schema: pa.Schema, join: Join) -> list[Source]:
    """Everything that is read of a row to watch a join."""
    sources: list[Source] = []
    parts: tuple[Match | Order, ...] = (*join.key, *join.order, *join.differs)
    for part in parts:
        sources += coded(schema, part)
    sources += [found for found in (filter_of(join.left_filter), filter_of(join.right_filter)) if found is not None]
    return list(dict.fromkeys(sources))


class Columns:
    """Codes of the sources that rules need, for each slot."""

    def __init__(self, schema: pa.Schema, nulls: Nulls) -> None:
        self.schema = schema
        self.nulls = nulls
        self._spaces: dict[SpaceName, CodeSpace] = {}
        # Looked up by every batch, and quicker to hash than its name.
        self._space_of: dict[Coded, CodeSpace] = {}
        self._codes: Codes = {}
        self._users: dict[Source, int] = {}
        self._n_room = 64

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(self._users)

    def use(self, sources: Sequence[Source]) -> list[Source]:
        """Keep these sources from now on; returns the new ones, whose codes the caller must `write` for all rows."""
        fresh = [source for source in sources if source not in self._users]
        for source in sources:
            self._users[source] = self._users.get(source, 0) + 1
        for source in fresh:
            self._codes[source] = np.empty(self._n_room, np.int64)
            if isinstance(source, Coded):
                self._space_of[source] = self._space(source.space)
        return fresh

    def release(self, sources: Sequence[Source]) -> None:
        """Undo one `use`; unused sources are dropped."""
        for source in sources:
            self._users[source] -= 1
            if not self._users[source]:
                del self._users[source], self._codes[source]
        self._space_of = {source: space for source, space in self._space_of.items() if source in self._users}
        self._spaces = {source.space: space for source, space in self._space_of.items()}

    def encode(self, table: pa.Table, sources: Sequence[Source] | None = None) -> tuple[Codes, bool]:
        """The codes of a batch. The flag is True if earlier codes have become void: encode all rows again."""
        wanted = self._users if sources is None else sources
        if table.num_rows == 0:
            return {source: np.empty(0, np.int64) for source in wanted}, False
        rows = None
        before = self._version()
        codes: Codes = {}
        for source in wanted:
            if isinstance(source, Coded):
                codes[source] = self._space_of[source].encode(table.column(source.column))
            else:
                rows = rows or Table(table)
                codes[source] = self._pass(rows, source)
        return codes, self._version() != before

    def write(self, slots: Int64Array, codes: Codes) -> None:
        """Keep the codes of a batch at its slots."""
        if len(slots) == 0:
            return
        self._make_room(largest(slots) + 1)
        for source, values in codes.items():
            self._codes[source][slots] = values

    def read(self, slots: Int64Array) -> Codes:
        """The codes kept at slots."""
        return {source: values[slots] for source, values in self._codes.items()}

    def _space(self, name: SpaceName) -> CodeSpace:
        if name not in self._spaces:
            types = [self.schema.field(column).type for column in name.columns]
            self._spaces[name] = CodeSpace(types, ordered=name.ordered)
        return self._spaces[name]

    def _version(self) -> int:
        version = 0
        for space in self._spaces.values():
            version += space.version
        return version

    def _pass(self, rows: Table, source: Filter) -> Int64Array:
        mask = np.ones(rows.n_rows, np.bool_)
        for predicate in source.predicates:
            mask &= rows.holds(predicate, self.nulls)
        return mask.astype(np.int64)

    def _make_room(self, n_slots: int) -> None:
        if n_slots <= self._n_room:
            return
        self._n_room = max(n_slots, 2 * self._n_room)
        self._codes = {source: enlarge(values, self._n_room) for source, values in self._codes.items()}
