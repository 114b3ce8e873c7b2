"""One part of a partitioned watch, inside a task: its watch, kept warm between batches, and its replies.

The state of a part is closed after each task, so that the next task may run in another process; the watch stays in
memory and catches up with what others wrote. Output files are written before a batch is durable, and named by its
number: if a batch is sent again, its first results are found.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from naysay.errors import StateError
from naysay.live.feed.changes import ChangeRows, fold
from naysay.live.feed.output import FileList, events_table, list_events, write_bytes, write_table
from naysay.live.journal.journal import JournalBusy, journal_exists
from naysay.live.journal.serial import DIGEST_BYTES, digest_of
from naysay.watch.change import Change, violations_table
from naysay.watch.partition import Piece, RuleGroup, route
from naysay.watch.watch import Watch

# At most this many parts stay warm in a process.
_MOST_WARM = 16
_PATIENCE_SECONDS = 60.0
_warm: OrderedDict[str, Watch] = OrderedDict()
Reply = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PartPlan:
    """What every task needs: where the state is, how its watches are made, and the groups.

    A place is the number of a part over all groups, those of the whole rows first.
    """

    state: Path
    key: tuple[str, ...]
    nulls: str
    counting: bool
    index: str
    n_sentences: int
    rows: RuleGroup
    groups: tuple[RuleGroup, ...]

    @property
    def output(self) -> Path:
        return self.state / "output"

    @property
    def parts(self) -> list[Part]:
        """All parts, by place."""
        return [Part(self, group, number) for group in (self.rows, *self.groups) for number in range(group.n_parts)]

    def place(self, group: str, number: int) -> int:
        first = 0
        for each in (self.rows, *self.groups):
            if each.name == group:
                return first + number
            first += each.n_parts
        raise KeyError(group)


@dataclass(frozen=True, slots=True)
class Task:
    """A batch as a part sees it: its id, and its number in the output."""

    batch_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class Part:
    """One part of one group."""

    plan: PartPlan
    group: RuleGroup
    number: int

    @property
    def folder(self) -> Path:
        return self.plan.state / "parts" / self.group.name / f"{self.number:05}"

    @contextmanager
    def open(self) -> Iterator[Watch]:
        """The watch of this part, created if there is none yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        watch = _patiently(self._open)
        try:
            yield watch
        except BaseException:
            watch.close()
            raise
        watch.log.publisher = None
        watch.release()
        _warm[str(self.folder)] = watch
        while len(_warm) > _MOST_WARM:
            _warm.popitem(last=False)

    def apply_changes(self, changes: ChangeRows, task: Task) -> tuple[Reply, list[Piece]]:
        """Validate changes of whole rows, apply the good ones, and return what they mean to the other parts."""
        plan, kept = self.plan, self.folder / "routed.arrow"
        with self.open() as watch:
            if watch.has_applied(task.batch_id):
                pieces, rejected = _read_routed(kept, task)
                return self._reply(watch, task) | {"rejected": rejected}, pieces
            tables = fold(watch, changes)
            old = {what: _existing_rows(watch, tables[what]) for what in tables if what != "inserts"}
            pieces = list(route(plan.groups, plan.key, tables, old))
            rejected = [[bad.row, bad.reason, bad.content, bad.source] for bad in changes.rejected]

            def publish(seq: int, change: Change) -> None:
                self._write_events(change, task)
                write_bytes(_routed_bytes(pieces, rejected, task), kept, kept.parent)

            watch.log.publisher = publish
            change = watch.apply(**tables, batch_id=task.batch_id)
            return self._reply(watch, task, change) | {"rejected": rejected}, pieces

    def apply_pieces(self, pieces: Mapping[str, list[pa.Table]], task: Task) -> Reply:
        """Apply what a batch means to this part of a group."""
        with self.open() as watch:
            if watch.has_applied(task.batch_id):
                return self._reply(watch, task)
            tables = {what: pa.concat_tables(found, promote_options="default") for what, found in pieces.items()}
            watch.log.publisher = lambda seq, change: self._write_events(change, task)
            change = watch.apply(**tables, batch_id=task.batch_id)
            return self._reply(watch, task, change)

    def status(self, position: Sequence[Any] | None) -> Reply | None:
        """The state of this part; None if it never had one. StateError if it is not at the expected position."""
        if not journal_exists(self.folder / "state.duckdb"):
            if position is not None:
                raise StateError(f"{self.folder}: this part of the state is missing; restore a copy")
            return None
        with self.open() as watch:
            journal = watch.log.journal
            assert journal is not None
            if position is not None and not journal.has(int(position[0]), bytes.fromhex(position[1])):
                raise StateError(f"{journal.path}: this is an older copy, or another part; restore the right one")
            return self._reply(watch) | {"n_batches": len(journal.batch_ids), "last_batch": journal.last_batch()}

    def write_current(self, seq: int) -> FileList:
        """Write the current violations of this part."""
        with self.open() as watch:
            table = violations_table(watch.violations(), counting=self.plan.counting)
            return write_table(table, self._output("current", seq), self.plan.output) if table.num_rows else {}

    def _open(self) -> Watch:
        watch = _warm.pop(str(self.folder), None)
        if watch is not None and watch.resume():
            return watch
        plan = self.plan
        return Watch(
            list(self.group.rules.values()),
            plan.key,
            state=self.folder / "state.duckdb",
            nulls=plan.nulls,
            counting=plan.counting,
            index=plan.index,
        )

    def _output(self, kind: str, seq: int) -> Path:
        return self.plan.output / kind / f"{seq:010}-{self.group.name}-{self.number:05}.parquet"

    def _write_events(self, change: Change, task: Task) -> None:
        if self.group.rules:
            write_table(events_table(task.seq, change), self._output("events", task.seq), self.plan.output)

    def _reply(self, watch: Watch, task: Task | None = None, change: Change | None = None) -> Reply:
        assert watch.log.journal is not None
        position, n_sentences = watch.log.journal.position, self.plan.n_sentences
        files: FileList = {}
        if task is not None and self.group.rules:
            files = list_events(self._output("events", task.seq), self.plan.output, task.seq, task.batch_id)
        return {
            "group": self.group.name,
            "part": self.number,
            "n_rows": watch.n_rows,
            "counts": watch.counts,
            "position": [position.seq, position.chain.hex()],
            "files": files,
            "n_added": change.n_added if change else 0,
            "n_removed": change.n_removed if change else 0,
            "sentences": watch.explain(change, n_sentences) if change and n_sentences else [],
        }


def _patiently(make: Callable[[], Watch]) -> Watch:
    """A task that outlived its driver may still have the state open; it ends by itself."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return make()
        except JournalBusy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _existing_rows(watch: Watch, keys: pa.Table) -> pa.Table:
    rows = watch.find(keys)
    assert rows is not None, "fold rejects changes of unknown keys"
    return rows


def _routed_bytes(pieces: Sequence[Piece], rejected: list[list[Any]], task: Task) -> bytes:
    heads = [[piece.group, piece.part, piece.what] for piece in pieces]
    head = {"batch": task.batch_id, "seq": task.seq, "rejected": rejected, "pieces": heads}
    parts = [json.dumps(head).encode(), *(table_bytes(piece.table) for piece in pieces)]
    body = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    return digest_of(body) + body


def _read_routed(path: Path, task: Task) -> tuple[list[Piece], list[list[Any]]]:
    data = path.read_bytes() if path.exists() else b""
    check, body = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
    if digest_of(body) != check:
        raise StateError(f"{path}: this file is missing or damaged; restore a copy of the folder")
    parts = []
    start = 0
    while start < len(body):
        stop = start + 8 + int.from_bytes(body[start : start + 8], "little")
        parts.append(body[start + 8 : stop])
        start = stop
    head = json.loads(parts[0])
    if (head["batch"], head["seq"]) != (task.batch_id, task.seq):
        raise StateError(f"{path}: this file belongs to another batch, not {task.batch_id!r}; restore the right copy")
    named = zip(head["pieces"], parts[1:], strict=True)
    pieces = [Piece(group, part, what, bytes_table(content)) for (group, part, what), content in named]
    return pieces, head["rejected"]


def table_bytes(table: pa.Table) -> bytes:
    """A table with its schema, as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def bytes_table(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()
