"""Visits: the rows of a batch that other parts of a watch store.

Any two rows might break a rule without equal columns, so no value says which part they share. Each row is stored in one
part and visits all others whenever it changes. If two rows both change in a batch, in columns of the rule, the part of
the left one finds what that does to their violations; otherwise the part of the row that stays as it is does.

Nothing needs to be remembered: whether two rows broke the rule before follows from their old values, which visit, too.
So a violation may be added in one part and removed in another, and only the counts of all parts together mean anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from naysay.arrays import Int64Array
from naysay.live.layout import Layout
from naysay.live.rows import Keys, KeyValues

VISITS = "visits"
_ROLE = "naysay role"
_DELETED, _BEFORE, _AFTER, _INSERTED = range(4)


@dataclass(frozen=True, slots=True)
class Visits:
    """Visiting rows: the old ones, updated ones last, and the new ones, updated ones first.

    Their keys are numbered from 0; the places of these in `keys`.
    """

    old: pa.Table
    new: pa.Table
    n_updates: int
    old_numbers: Int64Array
    new_numbers: Int64Array
    keys: tuple[pa.Table, ...]

    def appended_to(self, keys: KeyValues) -> KeyValues:
        """The keys of slots, and after them those of the visitors."""
        return KeyValues((*keys.parts, *(part for part in self.keys if part.num_rows)))


def visits_table(tables: Mapping[str, pa.Table], old: Mapping[str, pa.Table], names: list[str]) -> pa.Table:
    """A batch for other parts; `old` has the previous rows of updates and deletes."""
    roles = (
        (_DELETED, old.get("deletes")),
        (_BEFORE, old.get("updates")),
        (_AFTER, tables.get("updates")),
        (_INSERTED, tables.get("inserts")),
    )
    given = [
        rows.select(names).append_column(_ROLE, pa.array(np.full(rows.num_rows, role)))
        for role, rows in roles
        if rows is not None
    ]
    return pa.concat_tables(given, promote_options="default")


def without_roles(table: pa.Table) -> pa.Table:
    """Only the rows of a table of `visits_table`."""
    return table.drop_columns([_ROLE])


def read_visits(table: pa.Table, layout: Layout) -> Visits:
    """The rows of tables of `visits_table`, one after the other."""
    roles = np.asarray(table.column(_ROLE))
    rows = layout.conform(without_roles(table), "visits")
    deleted, before, after, inserted = (np.flatnonzero(roles == role) for role in range(4))
    old = rows.take(pa.array(np.concatenate((deleted, before))))
    return _visits(old, rows.take(pa.array(np.concatenate((after, inserted)))), len(before), layout)


def all_visiting(rows: pa.Table, layout: Layout) -> Visits:
    """Rows that visit without having changed, as new ones."""
    return _visits(layout.schema.empty_table(), layout.conform(rows, "visits"), 0, layout)


def _visits(old: pa.Table, new: pa.Table, n_updates: int, layout: Layout) -> Visits:
    keys = Keys(layout)
    numbers = []
    for table in (old, new):
        codes = keys.codes(table, "visits")
        numbers.append(keys.add(codes, keys.find(codes), table))
    return Visits(old, new, n_updates, numbers[0], numbers[1], keys.values.parts)
