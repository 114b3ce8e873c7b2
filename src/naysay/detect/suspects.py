"""Which rows to look at first: those without which a rule holds, and the values that disagree under one key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from naysay.arrays import Int64Array
from naysay.detect.result import Listing, RuleResult, Suspect, ValueGroup
from naysay.detect.summary import identities, row_identities
from naysay.kernels.sort import sorted_places
from naysay.plan.bind import BoundJoin
from naysay.plan.join import Join
from naysay.rule.model import Rule
from naysay.table import Table
from naysay.table.compatibility import free_name
from naysay.table.frame import plain_records


@dataclass(frozen=True, slots=True)
class LocalSuspects(Listing):
    """The rows to remove for a rule, or for all rules together, by their numbers in the table that was checked."""

    noun = "suspect"
    rule: Rule | None
    names: tuple[str, ...]
    source: Table
    key: tuple[str, ...]
    rows: Int64Array

    @property
    def table(self) -> pa.Table:
        return self.head(self.total)

    @property
    def total(self) -> int:
        return int(self.rows.size)

    def __len__(self) -> int:
        return self.total

    def head(self, n: int) -> pa.Table:
        names, rows = list(self.names), self.rows[:n]
        values = self.source.select(names).take(rows)
        row = identities(self.source, self.key, rows)
        return pa.table([row, *values.columns], names=[free_name("row", names), *names])

    def first(self, n: int) -> tuple[Suspect, ...]:
        """The first of them as values."""
        rows = self.rows[:n]
        values = plain_records(self.source.select(self.names).take(rows))
        return tuple(map(Suspect, row_identities(self.source, self.key, rows), values))

    def __repr__(self) -> str:
        return f"<Suspects: {self.total:,} rows>"


@dataclass(frozen=True, slots=True)
class Groups:
    """The keys of a dependency that have several values, the most lopsided first.

    Group g has the values from `starts[g]` to `starts[g + 1]`, the commonest first: `counts` are their rows, and `rows`
    a row that has each of them.
    """

    source: Table
    join: Join
    starts: Int64Array
    rows: Int64Array
    counts: Int64Array

    @property
    def n(self) -> int:
        return int(self.starts.size - 1)

    def head(self, n: int) -> pa.Table:
        """The first groups as a table: the key, rows, and values, a list of value and rows."""
        starts = self.starts[: n + 1]
        rows, counts = self.rows[: starts[-1]], self.counts[: starts[-1]]
        names = list(dict.fromkeys(match.left for match in self.join.key))
        keys = self.source.select(names).take(rows[starts[:-1]])
        (value,) = self.source.select([self.join.differs[0].left]).take(rows).columns
        pairs = pa.StructArray.from_arrays([value.combine_chunks(), pa.array(counts)], names=["value", "rows"])
        sums = np.add.reduceat(counts, starts[:-1]) if starts.size > 1 else counts[:0]
        values = pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pairs)
        ours = [free_name(name, names) for name in ("rows", "values")]
        return pa.table([*keys.columns, pa.array(sums), values], names=[*names, *ours])


@dataclass(frozen=True, slots=True)
class LocalGroups(Listing):
    """The groups of a dependency in the table that was checked."""

    noun = "group"
    rule: Rule
    groups: Groups

    @property
    def table(self) -> pa.Table:
        return self.groups.head(self.total)

    @property
    def total(self) -> int:
        return self.groups.n

    def __len__(self) -> int:
        return self.total

    def head(self, n: int) -> pa.Table:
        return self.groups.head(n)

    def __repr__(self) -> str:
        return f"<Groups: {self.total:,} keys with several values>"


def is_dependency(join: Join) -> bool:
    """Whether a rule says that rows of one key have one value."""
    return join.is_mirror and bool(join.key) and len(join.differs) == 1 and not join.order


def value_groups(table: Table, join: Join, bound: BoundJoin, in_conflict: Int64Array) -> Groups:
    """The groups of a dependency, from its rows in conflict: those of all keys that have several values. O(n log n)."""
    side = bound.left.take(bound.left.places_of(in_conflict))
    keys, values = side.key, side.differs[0]
    order = sorted_places(keys, values)
    keys, values = keys[order], values[order]
    new_key = np.ones(order.size, np.bool_)
    new_key[1:] = keys[1:] != keys[:-1]
    new_value = new_key.copy()
    new_value[1:] |= values[1:] != values[:-1]
    first = np.flatnonzero(new_value)
    counts = np.diff(np.append(first, order.size))
    group = np.cumsum(new_key)[first] - 1
    n_rows = np.bincount(group, weights=counts).astype(np.int64)
    most = np.zeros_like(n_rows)
    np.maximum.at(most, group, counts)
    # The smaller the share of rows that differ from the commonest value, the more lopsided; of equals the larger first.
    rank = np.empty_like(n_rows)
    rank[np.lexsort((np.arange(n_rows.size), -n_rows, 1 - most / n_rows))] = np.arange(n_rows.size)
    rows = side.rows[order][first]
    places = np.lexsort((rows, -counts, rank[group]))
    sizes = np.bincount(rank[group], minlength=n_rows.size)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    return Groups(table, join, starts, rows[places], counts[places])


def with_suspects(result: RuleResult, suspects: LocalSuspects, groups: LocalGroups | None, n_first: int) -> RuleResult:
    """The result of a broken rule with its suspects and groups, the first of them as values."""
    result = replace(result, suspects=suspects, first_suspects=suspects.first(n_first))
    if groups is None:
        return result
    return replace(result, groups=groups, first_groups=first_groups(groups.head(n_first)))


def columns_of_broken(results: Iterable[RuleResult]) -> tuple[str, ...]:
    """The columns of all broken rules, each once."""
    return tuple(dict.fromkeys(name for result in results if not result.holds for name in result.rule.column_names))


def first_groups(table: pa.Table) -> tuple[ValueGroup, ...]:
    """Groups of a table of groups as values."""
    *names, _, values = table.column_names
    return tuple(
        ValueGroup(
            {name: record[name] for name in names}, tuple((each["value"], each["rows"]) for each in record[values])
        )
        for record in plain_records(table)
    )
