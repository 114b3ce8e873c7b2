"""What a report says of the table as a whole: where its conflicts lie, and which rows are in most of them."""

from __future__ import annotations

from collections.abc import Sequence

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


def busiest_rows(
    table: Table, key: Sequence[str], conflicts: Sequence[Int64Array]
) -> tuple[int, tuple[RowConflicts, ...]]:
    """How many rows conflict with any rule, and the twenty that conflict with the most rules, two at the least.

    `conflicts` holds for each rule the rows in conflict, ascending.
    """
    if not any(rows.size for rows in conflicts):
        return 0, ()
    n_rules = np.zeros(table.n_rows, np.int32)
    for rows in conflicts:
        n_rules[rows] += 1
    n_busiest = min(_N_BUSIEST, int(np.count_nonzero(n_rules > 1)))
    # Of rows with as many rules the first: a stable sort of the negated numbers.
    busiest = np.argsort(-n_rules, kind="stable")[:n_busiest]
    names = table.select(key).take(busiest).to_pylist() if key else [{"row": int(row)} for row in busiest]
    found = [
        RowConflicts(name, tuple(place for place, rows in enumerate(conflicts) if _contains(rows, int(row))))
        for name, row in zip(names, busiest, strict=True)
    ]
    return int(np.count_nonzero(n_rules)), tuple(found)


def _contains(rows: Int64Array, row: int) -> bool:
    place = int(np.searchsorted(rows, row))
    return place < rows.size and int(rows[place]) == row


def facts(table: Table) -> tuple[ColumnFacts, ...]:
    """Name, type and number of nulls of each column."""
    return tuple(
        ColumnFacts(field.name, str(field.type), int(column.null_count))
        for field, column in zip(table.arrow.schema, table.arrow.columns, strict=True)
    )
