"""What Spark's tasks run for a partitioned watch: records of (place, what, content) in and out.

A place is the number of a part; content is a table in Arrow's bytes, or a reply as JSON, which later stages pass on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from naysay.arrays import Int64Array
from naysay.live.feed.changes import ChangeRows
from naysay.watch.part import PartPlan, Piece, Task, bytes_table, table_bytes
from naysay.watch.visits import VISITS

SCHEMA = pa.schema({"place": pa.int32(), "what": pa.string(), "content": pa.binary()})
_REPLY = "reply"
_CHANGE_COLUMNS = ["naysay op", "naysay row", "naysay source"]
Record = tuple[int, str, bytes]
Batches = Iterator[pa.RecordBatch]


def changes_bytes(changes: ChangeRows, places: Int64Array) -> bytes:
    """Some of the changes, for one part."""
    which = np.zeros(changes.n_changes, np.int64) if changes.which is None else changes.which
    table = changes.table.take(pa.array(places))
    for name, values in zip(_CHANGE_COLUMNS, (changes.ops, changes.rows, which), strict=True):
        table = table.append_column(name, pa.array(values[places], pa.int64()))
    return table_bytes(table)


def check_changes(plan: PartPlan, task: Task, sources: tuple[str, ...], batches: Batches) -> Batches:
    """The first stage: whole rows, by key."""
    for place, _, content in _records(batches):
        table = bytes_table(content)
        ops, rows, which = (np.array(table.column(name), np.int64) for name in _CHANGE_COLUMNS)
        changes = ChangeRows(table.drop_columns(_CHANGE_COLUMNS), ops, rows, [], sources, which)
        reply, pieces = plan.parts[place].apply_changes(changes, task)
        yield _batch([_reply(place, reply), *_sent(plan, pieces)])


def apply_pieces(plan: PartPlan, task: Task, batches: Batches) -> Batches:
    """The second stage: the rows of each group, by the values that its rules require to be equal."""
    found: dict[int, dict[str, list[pa.Table]]] = {}
    for place, what, content in _records(batches):
        if what == _REPLY:
            yield _batch([(place, what, content)])
        else:
            found.setdefault(place, {}).setdefault(what, []).append(bytes_table(content))
    for place in sorted(found):
        yield _batch([_reply(place, plan.parts[place].apply_pieces(found[place], task))])


def read_status(plan: PartPlan, batches: Batches) -> Batches:
    """The state of each part; the content of a record is the position that the part must have reached, or empty."""
    for place, _, content in _records(batches):
        reply = plan.parts[place].status(json.loads(content) if content else None)
        if reply is not None:
            yield _batch([_reply(place, reply)])


def send_rows(plan: PartPlan, batches: Batches) -> Batches:
    """Before the current violations are written: the rows of each part that visit others."""
    for place, what, content in _records(batches):
        yield _batch([(place, what, content)])
        part = plan.parts[place]
        for rows in part.visiting_rows() if part.group.visited else ():
            for record in _sent(plan, [Piece(part.group.name, part.number, VISITS, rows)]):
                yield _batch([record])


def write_current(plan: PartPlan, seq: int, batches: Batches) -> Batches:
    """The current violations of each part, as files; a record with content has the counts of a group."""
    found: dict[int, list[pa.Table]] = {}
    for place, what, content in _records(batches):
        if content and what != VISITS:
            yield _batch([_reply(place, plan.parts[place].write_counts(seq, json.loads(content)))])
            continue
        tables = found.setdefault(place, [])
        if what == VISITS:
            tables.append(plan.parts[place].violations_with(bytes_table(content)))
    for place in sorted(found):
        yield _batch([_reply(place, plan.parts[place].write_current(seq, found[place]))])


def _sent(plan: PartPlan, pieces: Iterable[Piece]) -> Iterator[Record]:
    for piece in pieces:
        content = table_bytes(piece.table)
        yield from ((place, piece.what, content) for place in plan.places(piece))


def _reply(place: int, content: Any) -> Record:
    return place, _REPLY, json.dumps(content).encode()


def _records(batches: Batches) -> Iterator[Record]:
    for batch in batches:
        yield from zip(*(batch.column(name).to_pylist() for name in SCHEMA.names), strict=True)


def _batch(records: Iterable[Record]) -> pa.RecordBatch:
    columns = [pa.array(values, field.type) for values, field in zip(zip(*records, strict=True), SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
