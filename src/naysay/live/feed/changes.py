"""Changes from outside: rows with an `op` column, the ones that are rejected, and what the rest is fed to.

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
NO_ROW = "there is no row with this key"
_EXISTS = "there is a row with this key already"


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
    """A change that was not applied: its row, from 1 (None: the whole source), the reason, its content and source."""

    row: int | None
    reason: str
    content: str = ""
    source: str = ""


@dataclass(slots=True)
class ChangeRows:
    """Changes in order: the columns without the op, the ops, and the row of each change in its source, from 1.

    If several sources are combined, `which` tells the source of each change.
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

    def reject(self, places: Int64Array, reason: Callable[[int], str]) -> None:
        """Note changes as rejected; they stay in the table."""
        for place in places.tolist():
            content = json.dumps(self.table.slice(place, 1).to_pylist()[0], default=str, ensure_ascii=False)
            source = self.sources[0 if self.which is None else int(self.which[place])]
            self.rejected.append(RejectedChange(int(self.rows[place]), reason(place), content, source))

    def drop(self, mask: BoolArray, reason: Callable[[int], str]) -> None:
        """Reject some changes, and keep only the others."""
        if not mask.any():
            return
        self.reject(np.flatnonzero(mask), reason)
        kept = np.flatnonzero(~mask)
        self.table = self.table.take(pa.array(kept))
        self.ops, self.rows = self.ops[kept], self.rows[kept]
        self.which = None if self.which is None else self.which[kept]


def no_changes(source: str, rejected: Sequence[RejectedChange]) -> ChangeRows:
    """Only rejected changes."""
    nothing = np.empty(0, np.int64)
    return ChangeRows(pa.table({}), nothing, nothing, list(rejected), (source,))


def reject_whole(source: str, error: object, others: Sequence[RejectedChange] = ()) -> ChangeRows:
    """A source of which nothing can be applied."""
    return no_changes(source, [*others, RejectedChange(None, str(error), source=source)])


def split_ops(
    source: str, table: pa.Table, rows: Int64Array | None = None, rejected: Sequence[RejectedChange] = ()
) -> ChangeRows:
    """Take the op out of a table; rows without a valid one are rejected. TableError unless there is one op column."""
    n_columns = table.column_names.count(OP_COLUMN)
    if n_columns != 1:
        found = f"there are {n_columns} columns" if n_columns else "there is no column"
        raise TableError(f"{source}: {found} {OP_COLUMN!r} with insert, update or delete")
    if pa.types.is_nested(table.schema.field(OP_COLUMN).type):
        raise TableError(f"{source}: the column {OP_COLUMN!r} is {table.schema.field(OP_COLUMN).type}, not text")
    # Arrow cannot take rows from views.
    table = pa.table([without_views(column) for column in table.columns], names=table.column_names)
    words, ops = _ops_of(table.column(OP_COLUMN))
    rows = np.arange(1, table.num_rows + 1) if rows is None else rows
    changes = ChangeRows(table, ops, rows, list(rejected), (source,))
    changes.drop(ops == _UNKNOWN, lambda place: _bad_op(words[place].as_py()))
    changes.table = changes.table.drop_columns([OP_COLUMN])
    return changes


def _bad_op(word: Any) -> str:
    return "the op is missing" if word is None else f"unknown op {word!r}"


def _ops_of(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Int64Array]:
    """The op of each row; each distinct word is looked up once."""
    column = decoded(column)
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    words = encoded.dictionary.to_pylist()
    ops = [_OPS.get(word.strip().lower(), _UNKNOWN) if isinstance(word, str) else _UNKNOWN for word in words]
    places = np.asarray(encoded.indices.fill_null(len(ops)), np.int64)
    return column, np.array([*ops, _UNKNOWN], np.int64)[places]


def merge_changes(parts: Sequence[ChangeRows]) -> ChangeRows:
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


class KeyedTable(Protocol):
    """What `fold` needs of a live table, such as a Watch."""

    @property
    def layout(self) -> Layout | None: ...
    @property
    def key(self) -> tuple[str, ...]: ...
    def contains(self, keys: Any) -> BoolArray: ...


def fold(table: KeyedTable, changes: ChangeRows) -> dict[str, pa.Table]:
    """The inserts, updates and deletes that equal the changes made one after the other; bad ones are rejected.

    TableError if the columns do not match the table: then no change can be made.
    """
    layout = conform(changes, table.layout, table.key)
    if layout is None or not changes.n_changes:
        return {}
    null = np.zeros(changes.n_changes, np.bool_)
    for name in layout.key:
        null |= np.array(changes.table.column(name).is_null(), np.bool_)
    changes.drop(null, lambda place: "the key is null")
    keys = changes.table.select(list(layout.key))
    net = _net_changes(changes, _key_numbers(keys, layout), table.contains(keys))
    tables = {
        what: changes.table if len(places) == changes.n_changes else changes.table.take(pa.array(places))
        for what, places in net.items()
        if len(places)
    }
    if "deletes" in tables:
        tables["deletes"] = tables["deletes"].select(list(layout.key))
    return tables


def conform(changes: ChangeRows, layout: Layout | None, key: tuple[str, ...]) -> Layout | None:
    """Give changes the table's columns, and return its layout; deletes need only the key columns.

    None if there is neither a table yet nor a change.
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
        changes.table = pa.table(columns | {name: changes.table.column(name) for name in layout.key})
    layout = layout.extend(changes.table)
    changes.table = layout.conform(changes.table, changes.sources[0] or "the changes").combine_chunks()
    return layout


def _key_numbers(keys: pa.Table, layout: Layout) -> Int64Array:
    """The same number for rows with the same key, from 0."""
    codes = Keys(layout).codes(keys, "the changes")
    return TupleTable(codes.shape[1]).add(codes)


def _net_changes(changes: ChangeRows, numbers: Int64Array, exists: BoolArray) -> dict[str, Int64Array]:
    """The change that each key's changes amount to, as places by kind; impossible ones are rejected."""
    ops = changes.ops
    if len(ops) and int(numbers.max()) + 1 == len(ops):
        # One change per key.
        bad = exists == (ops == ChangeOp.INSERT)
        changes.reject(np.flatnonzero(bad), lambda place: _EXISTS if exists[place] else NO_ROW)
        return {f"{op.name.lower()}s": np.flatnonzero(~bad & (ops == op)) for op in ChangeOp}
    before: dict[int, bool] = {}
    now: dict[int, bool] = {}
    last: dict[int, int] = {}
    for place, (number, op, has_row) in enumerate(zip(numbers.tolist(), ops.tolist(), exists.tolist(), strict=True)):
        has_row = now.setdefault(number, before.setdefault(number, has_row))
        if has_row == (op == ChangeOp.INSERT):
            reason = _EXISTS if has_row else NO_ROW
            changes.reject(np.array([place]), {place: reason}.__getitem__)
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
    """The result of a batch. `lag`: how old its changes were when they became durable, in seconds, if that is known.

    `n_added` and `n_removed` are None if violations are only counted.
    """

    source: str
    n_changes: int
    n_rows: int
    n_added: int | None
    n_removed: int | None
    counts: Mapping[str, int]
    rejected: Sequence[RejectedChange]
    sentences: Sequence[str] = ()
    seconds: float = 0.0
    n_waiting: int = 0
    lag: float | None = None


class ChangeSink(Protocol):
    """What batches of changes are fed to. When `apply` returns, the batch is durable, and was applied once."""

    @property
    def schema(self) -> pa.Schema | None:
        """The types that text is converted to; None before the first rows."""

    @property
    def n_rows(self) -> int: ...

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of current violations, by rule."""

    def has_applied(self, batch_id: str) -> bool: ...

    def apply(self, batch_id: str, changes: ChangeRows) -> AppliedBatch:
        """Apply a new batch; bad changes are rejected, and part of the result."""

    def write_current(self) -> None:
        """Write the current violations, unless they are written already."""

    def close(self) -> None: ...


class FirstBatchError(UsageError):
    """The first rows do not fit the key or the rules: the rows are not to blame."""


def first_batch_error(source: str, error: NaysayError) -> FirstBatchError:
    return FirstBatchError(
        f"{source}: {error}\n"
        "Nothing was applied. Correct the key or the rules; a state created with another key must be removed."
    )


def read_or_reject(source: str, read: Callable[[], ChangeRows]) -> ChangeRows:
    """The changes of a source; if it cannot be read at all, the whole source is rejected."""
    try:
        return read()
    except (ResourceError, StateError, FirstBatchError):
        raise
    except NaysayError as error:
        return reject_whole(source, error)
