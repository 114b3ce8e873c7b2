"""What a report says of the table as a whole: where its conflicts lie, and which rows are in most of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from naysay.table import Table
from naysay.table.codes import Int64Array
from naysay.verbs.result import ColumnFacts, RowConflicts

_N_SLICES = 60
_N_BUSIEST = 20


def slices(rows: Int64Array, n_rows: int) -> tuple[int, ...]:
    """How many of the given rows lie in each of 60 equal slices of the table (fewer, where it has fewer rows)."""
    if not rows.size:
        return ()
    n_slices = min(_N_SLICES, n_rows)
    counts = np.bincount(rows * n_slices // n_rows, minlength=n_slices)
    return tuple(int(count) for count in counts)


@dataclass(frozen=True, slots=True)
class Conflicts:
    """The rows that break a rule, ascending, and with how many others each does so (1 for a one-row rule)."""

    rows: Int64Array
    counts: Int64Array


def busiest_rows(
    table: Table, key: Sequence[str], conflicts: Sequence[Conflicts]
) -> tuple[int, tuple[RowConflicts, ...]]:
    """How many rows are in conflict, and the twenty that are so most often over all rules."""
    if not any(found.rows.size for found in conflicts):
        return 0, ()
    totals = np.zeros(table.n_rows, np.int64)
    for found in conflicts:
        totals[found.rows] += found.counts
    n_conflict = int(np.count_nonzero(totals))
    # Of rows in as many conflicts the first: a stable sort of the negated numbers.
    busiest = np.argsort(-totals, kind="stable")[: min(_N_BUSIEST, n_conflict)]
    names = table.select(key).take(busiest).to_pylist() if key else [{"row": int(row)} for row in busiest]
    return n_conflict, tuple(
        RowConflicts(
            name,
            int(totals[row]),
            tuple(place for place, found in enumerate(conflicts) if _contains(found.rows, int(row))),
        )
        for name, row in zip(names, busiest, strict=True)
    )


def _contains(rows: Int64Array, row: int) -> bool:
    place = int(np.searchsorted(rows, row))
    return place < rows.size and int(rows[place]) == row


def facts(table: Table) -> tuple[ColumnFacts, ...]:
    """Name, type and number of nulls of each column."""
    return tuple(
        ColumnFacts(field.name, str(field.type), int(column.null_count))
        for field, column in zip(table.arrow.schema, table.arrow.columns, strict=True)
    )
