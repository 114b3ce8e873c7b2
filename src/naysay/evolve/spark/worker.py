"""What runs inside the tasks of an evolver: the rows of a partition are compared with those of a batch.

Functions here take and return Arrow batches, and do not use Spark.
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
from naysay.discovery.outcomes import CodeLayout
from naysay.discovery.spark.worker import outcomes_in, word
from naysay.evolve.delta import PairEvidence, compare_blocks, merge_evidence
from naysay.evolve.relation import EncodedRows
from naysay.table import Table

SERIAL, GROUP, COUNT, LEFT, RIGHT = "serial", "part", "pairs", "left", "right"
# Rows to compare at a time: enough that encoding the changed rows with them costs little.
_ROWS_AT_ONCE = 1 << 16

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Deleted rows, then inserted rows, as an Arrow stream of the compared columns; `dead` rows are to be ignored."""

    rows: bytes
    n_gone: int
    dead: Int64Array

    @classmethod
    def of(cls, gone: pa.Table, fresh: pa.Table, dead: Int64Array) -> ChangedRows:
        sink = pa.BufferOutputStream()
        table = pa.concat_tables([gone, fresh]).combine_chunks()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        return cls(sink.getvalue().to_pybytes(), gone.num_rows, np.sort(dead))

    def table(self) -> pa.Table:
        return pa.ipc.open_stream(self.rows).read_all()


def schema_of(layout: CodeLayout) -> pa.Schema:
    """The columns of what tasks return."""
    words = [(word(number), pa.int32()) for number in range(layout.n_words)]
    return pa.schema([(GROUP, pa.int32()), *words, *((name, pa.int64()) for name in (COUNT, LEFT, RIGHT))])


def compare_partition(fields: Fields, changed: ChangedRows) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """The work of a task: rows with their serial numbers in; distinct codes with counts and a pair out."""
    return partial(_compare, fields, changed)


def _compare(fields: Fields, changed: ChangedRows, batches: Batches) -> Iterator[pa.RecordBatch]:
    rows = changed.table()
    parts = [PairEvidence.empty(fields.layout), PairEvidence.empty(fields.layout)]
    for chunk in _gather(batches):
        serials = chunk.column(SERIAL).to_numpy().astype(np.int64)
        alive = ~np.isin(serials, changed.dead)
        others = chunk.drop_columns([SERIAL]).filter(pa.array(alive))
        if not others.num_rows:
            continue
        others = others.rename_columns(rows.column_names)
        both = Table(pa.concat_tables([rows.cast(others.schema), others]).combine_chunks())
        outcomes = outcomes_in(both, fields, np.ones(both.n_rows, np.int64))
        numbers = np.concatenate([np.arange(rows.num_rows), serials[alive]])
        encoded = EncodedRows(outcomes.left, outcomes.right, numbers)
        stay = encoded.cut(rows.num_rows, both.n_rows)
        for number, (start, stop) in enumerate(((0, changed.n_gone), (changed.n_gone, rows.num_rows))):
            own = encoded.cut(start, stop)
            seen = compare_blocks(own, stay, list(rectangle(own.n_rows, stay.n_rows)), fields.layout)
            parts[number] = merge_evidence([parts[number], seen])
    for number, found in enumerate(parts):
        if len(found):
            yield _batch(number, found)


def _gather(batches: Batches) -> Iterator[pa.Table]:
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


def _batch(number: int, seen: PairEvidence) -> pa.RecordBatch:
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


def read_evidence(found: pa.Table, number: int, serials: Int64Array, layout: CodeLayout) -> PairEvidence:
    """What tasks found for deleted (0) or inserted (1) rows; `serials` are those of the changed rows."""
    mine = found.filter(pa.compute.equal(found.column(GROUP), number))
    codes = np.stack([mine.column(word(place)).to_numpy() for place in range(layout.n_words)], axis=1)
    return PairEvidence(
        np.ascontiguousarray(codes.astype(np.int32)),
        mine.column(COUNT).to_numpy().astype(np.int64),
        serials[mine.column(LEFT).to_numpy().astype(np.int64)],
        mine.column(RIGHT).to_numpy().astype(np.int64),
    )
