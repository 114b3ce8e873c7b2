"""Values of Arrow columns as Python's own, for the few that a person is shown: any value becomes something to show.

Python has no year 10,000, no nanoseconds without pandas, no zone that its database lacks, no text that is no UTF-8.
Such a value is shown as the text that Arrow makes of it, or as its number.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

_FAILURES = (OverflowError, ValueError, pa.ArrowException)


def plain_values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """The values of a column, None for null."""
    try:
        return list(column.to_pylist())
    except _FAILURES:
        return [_plain(value) for value in column]


def plain_records(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a table whose names differ, each by name."""
    columns = [plain_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except _FAILURES:
        pass
    if isinstance(value, pa.StringScalar | pa.LargeStringScalar):
        return value.as_buffer().to_pybytes().decode("utf-8", "backslashreplace")
    try:
        text: str = value.cast(pa.string()).as_py()
    except _FAILURES:
        return f"{value.value} {getattr(value.type, 'unit', '')} since 1970-01-01".replace("  ", " ")
    return text
