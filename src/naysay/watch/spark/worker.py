"""What Spark's tasks run for a watch in parts: Arrow batches of parts and their pieces in, and answers out.

Every stage reads and writes rows of (place, what, content): a place is a part, numbered over all groups; content is a
table in Arrow's bytes, or an answer as JSON, which later stages hand on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from naysay.live.feed.changes import ChangeRows
from naysay.watch.part import (
    PartPlan,
    Task,
    apply_changes,
    apply_pieces,
    bytes_table,
    part_status,
    table_bytes,
    write_part_violations,
)
from naysay.watch.partition import RuleGroup

SCHEMA = pa.schema({"place": pa.int32(), "what": pa.string(), "content": pa.binary()})
ANSWER = "answer"
_OP, _ROW, _WHICH = "naysay op", "naysay row", "naysay source"


@dataclass(frozen=True, slots=True)
class Places:
    """All parts of all groups, numbered: those of the rows first."""

    plan: PartPlan

    @property
    def groups(self) -> tuple[RuleGroup, ...]:
        return (self.plan.rows, *self.plan.groups)

    @property
    def total(self) -> int:
        return sum(group.n_parts for group in self.groups)

    def place(self, group: str, part: int) -> int:
        first = 0
        for known in self.groups:
            if known.name == group:
                return first + part
            first += known.n_parts
        raise KeyError(group)

    def part(self, place: int) -> tuple[RuleGroup, int]:
        for group in self.groups:
            if place < group.n_parts:
                return group, place
            place -= group.n_parts
        raise IndexError(place)


def changes_bytes(changes: ChangeRows, places: np.ndarray[Any, np.dtype[np.int64]]) -> bytes:
    """Some of the changes, for one part."""
    table = changes.table.take(pa.array(places))
    columns = {
        _OP: changes.ops[places],
        _ROW: changes.rows[places],
        _WHICH: np.zeros(len(places), np.int64) if changes.which is None else changes.which[places],
    }
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values, pa.int64()))
    return table_bytes(table)


def _changes(data: bytes, sources: tuple[str, ...]) -> ChangeRows:
    table = bytes_table(data)
    ops, rows, which = (np.array(table.column(name), np.int64) for name in (_OP, _ROW, _WHICH))
    return ChangeRows(table.drop_columns([_OP, _ROW, _WHICH]), ops, rows, [], sources, which)


@dataclass(frozen=True, slots=True)
class CheckChanges:
    """The first stage: whole rows, by their key."""

    places: Places
    task: Task
    sources: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place, _, content in _records(batches):
            changes = _changes(content, self.sources)
            answer, pieces = apply_changes(self.places.plan, place, changes, self.task)
            records = [
                (self.places.place(piece.group, piece.part), piece.what, table_bytes(piece.table)) for piece in pieces
            ]
            yield _batch([(place, ANSWER, json.dumps(answer).encode()), *records])


@dataclass(frozen=True, slots=True)
class ApplyPieces:
    """The second stage: the rows of each group, by the values that its rules want equal."""

    places: Places
    task: Task

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[int, dict[str, list[pa.Table]]] = {}
        for place, what, content in _records(batches):
            if what == ANSWER:
                yield _batch([(place, what, content)])
            else:
                found.setdefault(place, {}).setdefault(what, []).append(bytes_table(content))
        for place in sorted(found):
            group, part = self.places.part(place)
            answer = apply_pieces(self.places.plan, group, part, found[place], self.task)
            yield _batch([(place, ANSWER, json.dumps(answer).encode())])


@dataclass(frozen=True, slots=True)
class AskStatus:
    """What stands in each part; the content of a record is the mark that the part must have, or nothing."""

    places: Places

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place, _, content in _records(batches):
            group, part = self.places.part(place)
            answer = part_status(self.places.plan, group, part, json.loads(content) if content else None)
            if answer is not None:
                yield _batch([(place, ANSWER, json.dumps(answer).encode())])


@dataclass(frozen=True, slots=True)
class WriteViolations:
    """The standing violations of each part, as files."""

    places: Places
    seq: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place, _, _ in _records(batches):
            group, part = self.places.part(place)
            files = write_part_violations(self.places.plan, group, part, self.seq)
            yield _batch([(place, ANSWER, json.dumps(files).encode())])


def _records(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, str, bytes]]:
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in SCHEMA.names]
        yield from zip(*columns, strict=True)


def _batch(records: Sequence[tuple[int, str, bytes]]) -> pa.RecordBatch:
    columns = [pa.array(values, field.type) for values, field in zip(zip(*records, strict=True), SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
