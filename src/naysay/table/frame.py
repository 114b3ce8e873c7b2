"""Frames of any library, read as Arrow tables; Arrow values as plain Python values."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from naysay.errors import NaysayError, TableError
from naysay.rule.scan import nearest_name

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


# The files of tables that were read, by the identity of the table: a copy may have other rows, or in another order.
_FILES: dict[int, tuple[weakref.ref[pa.Table], Sequence[str], Sequence[int]]] = {}


def note_files(table: pa.Table, files: Sequence[str], sizes: Sequence[int]) -> None:
    """Remember that a table is made of the rows of several files in turn."""
    place = id(table)
    _FILES[place] = weakref.ref(table, lambda _: _FILES.pop(place, None)), files, sizes


def files_of(table: pa.Table) -> pa.Array | None:
    """The file of each row, if it was noted."""
    table_of, files, sizes = _FILES.get(id(table), (None, (), ()))
    if table_of is None or table_of() is not table:
        return None
    places = np.repeat(np.arange(len(files), dtype=np.int32), sizes)
    return pa.DictionaryArray.from_arrays(pa.array(places), pa.array(files))


# A reader can be read only once.
_SPENT: weakref.WeakSet[pa.RecordBatchReader] = weakref.WeakSet()
# What Arrow raises for a column that it has no type for; OverflowError for whole numbers beyond 64 bits.
_NO_ARROW = (pa.ArrowException, TypeError, ValueError, OverflowError)
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def to_arrow(frame: Any) -> pa.Table:
    """Read any object with Arrow's C interface: pandas, Polars, DuckDB, pyarrow.

    A pandas NaN is a null, as pandas means it. The unnamed index that pandas adds after filtering is left out.
    """
    table = _read(frame)
    names = tuple(table.column_names)
    keep = _without_index(names)
    return table if len(keep) == len(names) else table.select(list(keep))


@lru_cache
def _without_index(names: tuple[str, ...]) -> tuple[int, ...]:
    """The places of the columns that are not an index of pandas; kept, as small batches ask again and again."""
    return tuple(i for i, name in enumerate(names) if not _PANDAS_INDEX.fullmatch(name))


def without_views(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column with its text in one buffer: most of Arrow's functions take neither views nor dictionaries of views.

    >>> without_views(pa.chunked_array([["a"]], pa.string_view())).type
    DataType(large_string)
    """
    if pa.types.is_dictionary(column.type):
        plain = _of_view(column.type.value_type)
        if plain is None:
            return column
        parts = ((chunk.indices, chunk.dictionary.cast(plain)) for chunk in column.chunks)
        chunks = [pa.DictionaryArray.from_arrays(*part) for part in parts]
        return pa.chunked_array(chunks, pa.dictionary(column.type.index_type, plain))
    plain = _of_view(column.type)
    return column if plain is None else column.cast(plain)


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without dictionaries, run ends and views, chunk by chunk: dictionaries may differ and hold nulls."""
    column = without_views(column)
    if pa.types.is_dictionary(column.type):
        chunks = [chunk.dictionary.take(chunk.indices) for chunk in column.chunks]
        return decoded(pa.chunked_array(chunks, column.type.value_type))
    if pa.types.is_run_end_encoded(column.type):
        return _runs_decoded(column)
    return column


def _runs_decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decode the values of the runs, then repeat them: Arrow itself cannot decode runs of dictionaries or views."""
    chunks = []
    for chunk in column.chunks:
        values = decoded(pa.chunked_array([chunk.values]))
        # Run ends count from the start of the array that was sliced.
        rows = np.arange(chunk.offset, chunk.offset + len(chunk))
        runs = np.searchsorted(chunk.run_ends.to_numpy(), rows, side="right")
        chunks += values.take(pa.array(runs)).chunks
    return pa.chunked_array(chunks, decoded(pa.chunked_array([], column.type.value_type)).type)


def _of_view(type_: pa.DataType) -> pa.DataType | None:
    if pa.types.is_string_view(type_):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(type_) else None


def is_lazy(frame: Any) -> bool:
    """Whether this is a LazyFrame of Polars: a query that has not run yet."""
    return any(cls.__module__.startswith("polars.") and cls.__name__ == "LazyFrame" for cls in type(frame).__mro__)


def lazy_columns(frame: Any) -> list[str]:
    """The columns of a LazyFrame, without running its query."""
    return list(_run_lazy(lambda: frame.collect_schema().names()))


def collect(frame: Any, columns: Sequence[str] | None = None) -> Any:
    """Run the query of a LazyFrame for some of its columns; None for all."""
    if columns is not None:
        known = lazy_columns(frame)
        for name in columns:
            if name not in known:
                meant = nearest_name(name, known)
                hint = f"did you mean {meant!r}?" if meant else f"its columns are {', '.join(map(repr, known[:8]))}"
                raise TableError(f"this LazyFrame has no column {name!r}; {hint}")
    return _run_lazy(lambda: frame.collect() if columns is None else frame.select(columns).collect())


def _run_lazy(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except Exception as error:
        # A query runs anybody's code, so that it may raise anything.
        if isinstance(error, (MemoryError, NaysayError)):
            raise
        raise TableError(f"this LazyFrame cannot be collected: {_first_line(error)}") from error


def _read(frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if is_lazy(frame):
        frame = collect(frame)
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if isinstance(frame, pa.RecordBatchReader):
        # Read a second time it would be empty, and every rule would hold.
        if frame in _SPENT:
            raise TableError("this reader has already been read; keep the table that reader.read_all() returns")
        _SPENT.add(frame)
        return frame.read_all()
    if not hasattr(frame, "__arrow_c_stream__") and not hasattr(frame, "__arrow_c_array__"):
        is_path = isinstance(frame, str | os.PathLike)
        remedy = "a pandas, Polars, DuckDB or Arrow table (anything with __arrow_c_stream__)"
        raise TableError(
            f"{type(frame).__name__} is not a table that naysay can read; "
            f"give {'what naysay.read(path) returns' if is_path else remedy}"
        )
    try:
        return pa.table(frame)
    except _NO_ARROW as error:
        columns = ", ".join(map(repr, _unreadable(frame)))
        remedy = f"; cast or leave out {columns}" if columns else ""
        raise TableError(
            f"this {type(frame).__name__} cannot be read as a table: {_first_line(error)}{remedy}"
        ) from error


def _unreadable(frame: Any) -> list[str]:
    """The columns of a frame that Arrow has no type for, if they can be tried one by one."""
    found = []
    for name in getattr(frame, "columns", ()):
        try:
            pa.table(frame[[name]])
        except _NO_ARROW:
            found.append(str(name))
        except LookupError:
            return []
    return found


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
