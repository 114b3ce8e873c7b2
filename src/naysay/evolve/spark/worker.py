"""What runs inside the tasks of an evolver: the rows of a partition meet those that come and go.

Functions here take and give Arrow batches and know nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from naysay.arrays import Int64Array
from naysay.discovery.evidence import rectangle
from naysay.discovery.fields import Fields
from naysay.discovery.outcomes import CodeLayout as Layout
from naysay.discovery.outcomes import Outcomes
from naysay.discovery.spark.worker import outcomes_in, word
from naysay.evolve.delta import Seen, see, together
from naysay.evolve.relation import Sides
from naysay.table import Table

SERIAL, GROUP, COUNT, LEFT, RIGHT = "serial", "part", "pairs", "left", "right"
# Rows that are compared at a time: enough that encoding the delta beside them costs little.
_ROWS_AT_ONCE = 1 << 16

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Delta:
    """Rows that go, then rows that come, as an Arrow stream of the compared columns; and who is not there any more."""

    rows: bytes
    n_gone: int
    dead: Int64Array

    @classmethod
    def of(cls, gone: pa.Table, fresh: pa.Table, dead: Int64Array) -> Delta:
        sink = pa.BufferOutputStream()
        table = pa.concat_tables([gone, fresh]).combine_chunks()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        return cls(sink.getvalue().to_pybytes(), gone.num_rows, np.sort(dead))

    def table(self) -> pa.Table:
        return pa.ipc.open_stream(self.rows).read_all()


def schema_of(layout: Layout) -> pa.Schema:
    """The columns of what tasks give back."""
    words = [(word(number), pa.int32()) for number in range(layout.n_words)]
    return pa.schema([(GROUP, pa.int32()), *words, *((name, pa.int64()) for name in (COUNT, LEFT, RIGHT))])


def evidence_of_delta(fields: Fields, delta: Delta) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """The work of a task: standing rows in, with their serial numbers; distinct codes with counts and a pair out."""
    return partial(_counted, fields, delta)


def _counted(fields: Fields, delta: Delta, batches: Batches) -> Iterator[pa.RecordBatch]:
    rows = delta.table()
    parts: list[list[Seen]] = [[], []]
    for chunk in _gathered(batches):
        serials = chunk.column(SERIAL).to_numpy().astype(np.int64)
        alive = ~np.isin(serials, delta.dead)
        standing = chunk.drop_columns([SERIAL]).filter(pa.array(alive))
        if not standing.num_rows:
            continue
        standing = standing.rename_columns(rows.column_names)
        both = Table(pa.concat_tables([rows.cast(standing.schema), standing]).combine_chunks())
        outcomes = outcomes_in(both, fields, np.ones(both.n_rows, np.int64))
        others = _sides(outcomes, rows.num_rows, both.n_rows, serials[alive])
        for number, (start, stop) in enumerate(((0, delta.n_gone), (delta.n_gone, rows.num_rows))):
            own = _sides(outcomes, start, stop, np.arange(start, stop))
            seen = see(own, others, list(rectangle(own.n_rows, others.n_rows)), fields.layout)
            parts[number] = [together([*parts[number], seen], fields.layout)]
    for number, found in enumerate(parts):
        if found and len(found[0]):
            yield _batch(number, found[0])


def _gathered(batches: Batches) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    n_rows = 0
    for batch in batches:
        waiting.append(batch)
        n_rows += batch.num_rows
        if n_rows >= _ROWS_AT_ONCE:
            yield pa.Table.from_batches(waiting)
            waiting, n_rows = [], 0
    if n_rows:
        yield pa.Table.from_batches(waiting)


def _sides(outcomes: Outcomes, start: int, stop: int, serials: Int64Array) -> Sides:
    left = np.ascontiguousarray(outcomes.left[:, start:stop])
    right = left if outcomes.right is outcomes.left else np.ascontiguousarray(outcomes.right[:, start:stop])
    return Sides(left, right, serials)


def _batch(number: int, seen: Seen) -> pa.RecordBatch:
    words = {word(place): pa.array(seen.codes[:, place]) for place in range(seen.codes.shape[1])}
    return pa.RecordBatch.from_pydict(
        {
            GROUP: pa.array(np.full(len(seen), number, np.int32)),
            **words,
            COUNT: pa.array(seen.counts),
            LEFT: pa.array(seen.left),
            RIGHT: pa.array(seen.right),
        }
    )


def seen_in(found: pa.Table, number: int, serials: Int64Array, layout: Layout) -> Seen:
    """What tasks found of the rows that go (0) or come (1); `serials` are those of the delta's rows."""
    mine = found.filter(pa.compute.equal(found.column(GROUP), number))
    codes = np.stack([mine.column(word(place)).to_numpy() for place in range(layout.n_words)], axis=1)
    return Seen(
        np.ascontiguousarray(codes.astype(np.int32)),
        mine.column(COUNT).to_numpy().astype(np.int64),
        serials[mine.column(LEFT).to_numpy().astype(np.int64)],
        mine.column(RIGHT).to_numpy().astype(np.int64),
    )
