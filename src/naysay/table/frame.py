"""The door: whatever a person holds becomes an Arrow table, once."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from naysay.errors import TableError

_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def to_arrow(frame: Any) -> pa.Table:
    """Read any object that speaks Arrow's C interface: pandas, Polars, DuckDB, pyarrow.

    A pandas NaN is a null, as pandas means it. The unnamed index that pandas adds after filtering is left out.
    """
    table = _read(frame)
    if any(_PANDAS_INDEX.fullmatch(name) for name in table.column_names):
        keep = [i for i, name in enumerate(table.column_names) if not _PANDAS_INDEX.fullmatch(name)]
        table = table.select(keep)
    return table


def _read(frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if isinstance(frame, pa.RecordBatchReader):
        return frame.read_all()
    if not hasattr(frame, "__arrow_c_stream__") and not hasattr(frame, "__arrow_c_array__"):
        raise TableError(
            f"{type(frame).__name__} is not a table that naysay can read; "
            "give a pandas, Polars, DuckDB or Arrow table (anything with __arrow_c_stream__)"
        )
    try:
        return pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise TableError(f"this {type(frame).__name__} cannot be read as a table: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
