"""Changes as they come from outside: rows with an `op` beside their columns, and what was rejected of them.

An op is insert, update or delete, or c, u, d as Debezium writes them (r, a row read at the start, is an insert).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from naysay.arrays import BoolArray, Int64Array
from naysay.errors import NaysayError, ResourceError, StateError, TableError, UsageError
from naysay.live.codes import TupleTable
from naysay.live.layout import Layout, layout_of
from naysay.live.rows import Keys
from naysay.table.frame import decoded, without_views

OP_COLUMN = "op"


class ChangeOp(IntEnum):
    INSERT = 0
    UPDATE = 1
    DELETE = 2


_OPS = {
    **dict.fromkeys(("insert", "i", "create", "c", "read", "r"), ChangeOp.INSERT),
    **dict.fromkeys(("update", "u"), ChangeOp.UPDATE),
    **dict.fromkeys(("delete", "d"), ChangeOp.DELETE),
}
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class RejectedChange:
    """A change that was not made: its row, from 1 (None: all of it), why, what it said, and the file it came in."""

    row: int | None
    reason: str
    content: str = ""
    source: str = ""


@dataclass(slots=True)
class ChangeRows:
    """Changes in order: the columns without the op, the ops, and where each one stood.

    `rows` counts from 1 in the source; of several sources, put together, `which` says which one.
    """

    table: pa.Table
    ops: Int64Array
    rows: Int64Array
    rejected: list[RejectedChange] = field(default_factory=list)
    sources: tuple[str, ...] = ("",)
    which: Int64Array | None = None

    @property
    def n_changes(self) -> int:
        return len(self.ops)

    def keep(self, places: Int64Array) -> None:
        """Drop all changes but those at these places."""
        self.table = self.table.take(pa.array(places))
        self.ops = self.ops[places]
        self.rows = self.rows[places]
        self.which = None if self.which is None else self.which[places]

    def reject(self, place: int, reason: str) -> None:
        content = json.dumps(self.table.slice(place, 1).to_pylist()[0], default=str, ensure_ascii=False)
        source = self.sources[0 if self.which is None else int(self.which[place])]
        self.rejected.append(RejectedChange(int(self.rows[place]), reason, content, source))


def no_changes(source: str, rejected: Sequence[RejectedChange]) -> ChangeRows:
    """Changes of which nothing is left but what was rejected."""
    nothing = np.empty(0, np.int64)
    return ChangeRows(pa.table({}), nothing, nothing, list(rejected), (source,))


def split_ops(source: str, table: pa.Table, rows: Int64Array | None = None, rejected: Sequence[RejectedChange] = ()) -> ChangeRows:
    """Take the op out of a table; rows without a known one are rejected. TableError unless one column has it."""
    n_columns = table.column_names.count(OP_COLUMN)
    if n_columns != 1:
        found = f"there are {n_columns} columns" if n_columns else "there is no column"
        raise TableError(f"{source}: {found} {OP_COLUMN!r} with insert, update or delete")
    if pa.types.is_nested(table.schema.field(OP_COLUMN).type):
        raise TableError(f"{source}: the column {OP_COLUMN!r} is {table.schema.field(OP_COLUMN).type}, not text")
    # Arrow takes no rows from views, and rows that are rejected are taken out.
    table = pa.table([without_views(column) for column in table.columns], names=table.column_names)
    words, ops = _ops_of(table.column(OP_COLUMN))
    rows = np.arange(1, table.num_rows + 1) if rows is None else rows
    made = ChangeRows(table, ops, rows, list(rejected), (source,))
    bad = np.flatnonzero(ops == _UNKNOWN)
    for place in bad.tolist():
        word = words[place].as_py()
        made.reject(place, "the op is missing" if word is None else f"unknown op {word!r}")
    if len(bad):
        made.keep(np.flatnonzero(ops != _UNKNOWN))
    made.table = made.table.drop_columns([OP_COLUMN])
    return made


def _ops_of(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Int64Array]:
    """The op of each row, each distinct word looked up once."""
    column = decoded(column)
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    words = encoded.dictionary.to_pylist()
    known = [_OPS.get(word.strip().lower()) if isinstance(word, str) else None for word in words]
    codes = np.array([_UNKNOWN if op is None else int(op) for op in known] + [_UNKNOWN], np.int64)
    places = np.asarray(encoded.indices.fill_null(len(known)), np.int64)
    return column, codes[places]


def merged(parts: Sequence[ChangeRows]) -> ChangeRows:
    """Changes of several sources, one after the other; their tables have the same columns, or none."""
    full = [part for part in parts if part.n_changes]
    rejected = [bad for part in parts for bad in part.rejected]
    if not full:
        return no_changes("", rejected)
    return ChangeRows(
        pa.concat_tables([part.table for part in full], promote_options="default"),
        np.concatenate([part.ops for part in full]),
        np.concatenate([part.rows for part in full]),
        rejected,
        tuple(part.sources[0] for part in full),
        np.repeat(np.arange(len(full)), [part.n_changes for part in full]),
    )


NO_ROW = "there is no row with this key"
_ALREADY = "there is a row with this key already"
_Net = dict[str, Int64Array]


class Keyed(Protocol):
    """A table under change, as far as folding looks at it: a watch, or whatever else keeps rows by key."""

    @property
    def layout(self) -> Layout | None: ...
    @property
    def key(self) -> tuple[str, ...]: ...
    def contains(self, keys: Any) -> BoolArray: ...


def fold(watch: Keyed, changes: ChangeRows) -> dict[str, pa.Table]:
    """The arguments of `Watch.apply` that do what the changes do one after the other; bad ones are rejected.

    TableError where the columns do not fit the table: then none of the changes can be made.
    """
    layout = conform(changes, watch.layout, watch.key)
    if layout is None or not changes.n_changes:
        return {}
    _drop_null_keys(changes, layout)
    keys = changes.table.select(list(layout.key))
    parts = _net(changes, _numbers(keys, layout), watch.contains(keys))
    tables = {
        what: changes.table if len(places) == changes.n_changes else changes.table.take(pa.array(places))
        for what, places in parts.items()
        if len(places)
    }
    if "deletes" in tables:
        tables["deletes"] = tables["deletes"].select(list(layout.key))
    return tables


def conform(changes: ChangeRows, layout: Layout | None, key: tuple[str, ...]) -> Layout | None:
    """Bring changes to the table's columns, and give its layout; those that only delete need the key alone.

    None where there is neither a table yet nor a change.
    """
    if layout is None:
        if changes.table.num_columns == 0:
            return None
        layout = layout_of(changes.table, key)
    elif changes.n_changes == 0:
        return layout
    only_deletes = bool((changes.ops == ChangeOp.DELETE).all())
    if only_deletes and set(layout.key) <= set(changes.table.column_names):
        columns = {name: pa.nulls(changes.table.num_rows, layout.schema.field(name).type) for name in layout.names}
        for name in layout.key:
            columns[name] = changes.table.column(name)
        changes.table = pa.table(columns)
    layout = layout.extend(changes.table)
    changes.table = layout.conform(changes.table, changes.sources[0] or "the changes").combine_chunks()
    return layout


def _drop_null_keys(changes: ChangeRows, layout: Layout) -> None:
    null = np.zeros(changes.table.num_rows, np.bool_)
    for name in layout.key:
        if changes.table.column(name).null_count:
            null |= np.array(changes.table.column(name).is_null(), np.bool_)
    if not null.any():
        return
    for place in np.flatnonzero(null).tolist():
        changes.reject(place, "the key is null")
    changes.keep(np.flatnonzero(~null))


def _numbers(keys: pa.Table, layout: Layout) -> Int64Array:
    """The same number for rows of the same key, from 0 on."""
    codes = Keys(layout).codes(keys, "the changes")
    return TupleTable(codes.shape[1]).add(codes)


def _net(changes: ChangeRows, numbers: Int64Array, stands: BoolArray) -> _Net:
    """The places of changes that a key's changes come to together; those that make no sense are rejected."""
    n_changes = changes.n_changes
    if n_changes and int(numbers.max()) + 1 == n_changes:
        return _net_of_single(changes, stands)
    return _net_in_order(changes, numbers.tolist(), stands.tolist())


def _net_of_single(changes: ChangeRows, stands: BoolArray) -> _Net:
    """Every key has one change."""
    ops = changes.ops
    bad = stands == (ops == ChangeOp.INSERT)
    for place in np.flatnonzero(bad).tolist():
        changes.reject(place, _ALREADY if stands[place] else NO_ROW)
    return {f"{op.name.lower()}s": np.flatnonzero(~bad & (ops == op)) for op in ChangeOp}


def _net_in_order(changes: ChangeRows, numbers: list[int], stands: list[bool]) -> _Net:
    before: dict[int, bool] = {}
    now: dict[int, bool] = {}
    last: dict[int, int] = {}
    for place, (number, op) in enumerate(zip(numbers, changes.ops.tolist(), strict=True)):
        has_row = now.setdefault(number, before.setdefault(number, stands[place]))
        if has_row == (op == ChangeOp.INSERT):
            changes.reject(place, _ALREADY if has_row else NO_ROW)
            continue
        now[number] = op != ChangeOp.DELETE
        last[number] = place
    net: dict[str, list[int]] = {"inserts": [], "updates": [], "deletes": []}
    for number, place in last.items():
        if now[number]:
            net["updates" if before[number] else "inserts"].append(place)
        elif before[number]:
            net["deletes"].append(place)
    return {what: np.array(places, np.int64) for what, places in net.items()}


@dataclass(frozen=True, slots=True)
class AppliedBatch:
    """What one batch came to. `lag` is how old its changes were when they were durable, in seconds, where known."""

    source: str
    n_changes: int
    n_rows: int
    n_added: int
    n_removed: int
    counts: Mapping[str, int]
    rejected: Sequence[RejectedChange]
    sentences: Sequence[str] = ()
    seconds: float = 0.0
    n_waiting: int = 0
    lag: float | None = None


class ChangeSink(Protocol):
    """What is done with batches of changes. Whatever `apply` answers is durable, and was done once."""

    @property
    def schema(self) -> pa.Schema | None:
        """The types that text is read as; None before the first rows."""

    @property
    def n_rows(self) -> int:
        """How many rows stand."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many violations stand, by rule."""

    def has_applied(self, batch_id: str) -> bool:
        """Whether a batch was applied."""

    def apply(self, batch_id: str, changes: ChangeRows) -> AppliedBatch:
        """Apply a batch that is not known; bad changes are rejected, and part of the answer."""

    def write_current(self) -> None:
        """Write what stands now, where it is not written yet."""

    def close(self) -> None: ...


class FirstBatchError(UsageError):
    """The first rows do not fit the key or the rules that were asked for: that is no fault of the rows."""


def first_batch_error(source: str, error: NaysayError) -> FirstBatchError:
    return FirstBatchError(
        f"{source}: {error}\n"
        "Nothing was applied. Correct the key or the rules; a state that was begun with another key must be removed."
    )


def read_or_reject(source: str, read: Callable[[], ChangeRows]) -> ChangeRows:
    """The changes of a source; where it cannot be read at all, that alone, set rejected."""
    try:
        return read()
    except (ResourceError, StateError, FirstBatchError):
        raise
    except NaysayError as error:
        return no_changes(source, [RejectedChange(None, str(error), source=source)])
