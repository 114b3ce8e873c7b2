"""What a report says of the table as a whole: where its conflicts lie, and which rows are in most of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from naysay.arrays import Int64Array
from naysay.detect.result import ColumnFacts, RowConflicts
from naysay.rule.model import Rule
from naysay.table import Table
from naysay.table.plain import plain_records

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


class Tally:
    """The conflicts of all rows over the rules of a check, a bit a row and rule. Threads may add rules at once."""

    def __init__(self, n_rows: int) -> None:
        self.totals = np.zeros(n_rows, np.int64)
        self._bits: dict[int, NDArray[np.uint8]] = {}
        self._lock = threading.Lock()

    def add(self, rule: Rule, conflicts: Conflicts) -> None:
        broken = np.zeros(self.totals.size, np.bool_)
        broken[conflicts.rows] = True
        with self._lock:
            self.totals[conflicts.rows] += conflicts.counts
            self._bits[id(rule)] = np.packbits(broken)

    def breaks(self, row: int, rule: Rule) -> bool:
        """Whether a row is in conflict with a rule that was added."""
        return bool(self._bits[id(rule)][row >> 3] >> (7 - (row & 7)) & 1)


def busiest_rows(
    table: Table, key: Sequence[str], rules: Sequence[Rule], tally: Tally
) -> tuple[int, tuple[RowConflicts, ...]]:
    """How many rows are in conflict, and the twenty that are so most often over all rules."""
    in_conflict = np.flatnonzero(tally.totals)
    if not in_conflict.size:
        return 0, ()
    # Of rows in as many conflicts the first: a stable sort of the negated numbers.
    order = np.argsort(-tally.totals[in_conflict], kind="stable")[:_N_BUSIEST]
    busiest = in_conflict[order]
    names = plain_records(table.select(key).take(busiest)) if key else [{"row": int(row)} for row in busiest]
    return int(in_conflict.size), tuple(
        RowConflicts(
            name,
            int(tally.totals[row]),
            tuple(place for place, rule in enumerate(rules) if tally.breaks(int(row), rule)),
        )
        for name, row in zip(names, busiest, strict=True)
    )


def facts(table: Table) -> tuple[ColumnFacts, ...]:
    """Name, type and number of nulls of each column."""
    return tuple(
        ColumnFacts(field.name, str(field.type), _n_nulls(column))
        for field, column in zip(table.arrow.schema, table.arrow.columns, strict=True)
    )


def _n_nulls(column: pa.ChunkedArray) -> int:
    """How many values are null, where a dictionary or a run may hold the null."""
    if pa.types.is_run_end_encoded(column.type) or (
        pa.types.is_dictionary(column.type) and any(chunk.dictionary.null_count for chunk in column.chunks)
    ):
        return int(pc.sum(pc.is_null(column)).as_py() or 0)
    return int(column.null_count)
