"""Changes as they come from outside: rows with an `op` beside their columns, and what was set aside of them.

An op is insert, update or delete, or c, u, d as Debezium writes them (r, a row read at the start, is an insert).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import pyarrow as pa

from naysay.arrays import Int64Array
from naysay.errors import TableError
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
class Aside:
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
    aside: list[Aside] = field(default_factory=list)
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

    def set_aside(self, place: int, reason: str) -> None:
        content = json.dumps(self.table.slice(place, 1).to_pylist()[0], default=str, ensure_ascii=False)
        source = self.sources[0 if self.which is None else int(self.which[place])]
        self.aside.append(Aside(int(self.rows[place]), reason, content, source))


def no_changes(source: str, aside: Sequence[Aside]) -> ChangeRows:
    """Changes of which nothing is left but what was set aside."""
    nothing = np.empty(0, np.int64)
    return ChangeRows(pa.table({}), nothing, nothing, list(aside), (source,))


def split_ops(source: str, table: pa.Table, rows: Int64Array | None = None, aside: Sequence[Aside] = ()) -> ChangeRows:
    """Take the op out of a table; rows without a known one are set aside. TableError unless one column has it."""
    n_columns = table.column_names.count(OP_COLUMN)
    if n_columns != 1:
        found = f"there are {n_columns} columns" if n_columns else "there is no column"
        raise TableError(f"{source}: {found} {OP_COLUMN!r} with insert, update or delete")
    if pa.types.is_nested(table.schema.field(OP_COLUMN).type):
        raise TableError(f"{source}: the column {OP_COLUMN!r} is {table.schema.field(OP_COLUMN).type}, not text")
    # Arrow takes no rows from views, and rows that are set aside are taken out.
    table = pa.table([without_views(column) for column in table.columns], names=table.column_names)
    words, ops = _ops_of(table.column(OP_COLUMN))
    rows = np.arange(1, table.num_rows + 1) if rows is None else rows
    made = ChangeRows(table, ops, rows, list(aside), (source,))
    bad = np.flatnonzero(ops == _UNKNOWN)
    for place in bad.tolist():
        word = words[place].as_py()
        made.set_aside(place, "the op is missing" if word is None else f"unknown op {word!r}")
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
    aside = [bad for part in parts for bad in part.aside]
    if not full:
        return no_changes("", aside)
    return ChangeRows(
        pa.concat_tables([part.table for part in full], promote_options="default"),
        np.concatenate([part.ops for part in full]),
        np.concatenate([part.rows for part in full]),
        aside,
        tuple(part.sources[0] for part in full),
        np.repeat(np.arange(len(full)), [part.n_changes for part in full]),
    )
