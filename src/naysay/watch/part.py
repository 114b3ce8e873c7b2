"""One part of a table in parts, inside a task: its watch, kept warm between batches, and what it answers to a batch.

A part's store is closed after each task, so that the next task may run in another process; the state stays in memory
and catches up with what others wrote. Files of output are written before a batch is durable, and named by its number:
a batch that is sent again finds what it did the first time.
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
from naysay.live.feed.changes import ChangeRows, RejectedChange, fold
from naysay.live.feed.output import Described, described, events_table, stored_batch, write_bytes, write_table
from naysay.live.journal.journal import JournalBusy, journal_exists
from naysay.live.journal.serial import DIGEST_BYTES, digest_of
from naysay.watch.change import Change, violations_table
from naysay.watch.partition import Piece, RuleGroup, routed
from naysay.watch.watch import Watch

# So many parts stay warm in a process.
_MOST_WARM = 16
_PATIENCE_SECONDS = 60.0
_warm: OrderedDict[str, Watch] = OrderedDict()
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PartPlan:
    """What every task knows: where the state is, how its watches are made, and the groups."""

    state: Path
    key: tuple[str, ...]
    nulls: str
    counting: bool
    index: str
    n_sentences: int
    rows: RuleGroup
    groups: tuple[RuleGroup, ...]

    def folder(self, group: str, part: int) -> Path:
        return self.state / "parts" / group / f"{part:05}"

    @property
    def output(self) -> Path:
        return self.state / "output"


@dataclass(frozen=True, slots=True)
class Task:
    """A batch as a part sees it: its id, and its number in the output."""

    batch_id: str
    seq: int


@contextmanager
def part_watch(plan: PartPlan, group: RuleGroup, part: int) -> Iterator[Watch]:
    """The watch of a part, made where there is none yet."""
    folder = plan.folder(group.name, part)
    folder.mkdir(parents=True, exist_ok=True)
    watch = _patiently(lambda: _opened(plan, group, folder))
    try:
        yield watch
    except BaseException:
        watch.close()
        raise
    watch.log.publisher = None
    watch.release()
    _warm[str(folder)] = watch
    while len(_warm) > _MOST_WARM:
        _warm.popitem(last=False)


def _opened(plan: PartPlan, group: RuleGroup, folder: Path) -> Watch:
    watch = _warm.pop(str(folder), None)
    if watch is not None and watch.resume():
        return watch
    rules = list(group.rules.values())
    state = folder / "state.duckdb"
    return Watch(rules, plan.key, state=state, nulls=plan.nulls, counting=plan.counting, index=plan.index)


def _patiently(make: Callable[[], Watch]) -> Watch:
    """A task that outlived its driver may still hold the store: it ends by itself."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return make()
        except JournalBusy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def exists(plan: PartPlan, group: RuleGroup, part: int) -> bool:
    return journal_exists(plan.folder(group.name, part) / "state.duckdb")


def apply_changes(plan: PartPlan, part: int, changes: ChangeRows, task: Task) -> tuple[Answer, list[Piece]]:
    """Check changes of whole rows, make those that make sense, and say what they mean to the other parts."""
    with part_watch(plan, plan.rows, part) as watch:
        kept = plan.folder(plan.rows.name, part) / "routed.arrow"
        if watch.has_applied(task.batch_id):
            pieces, rejected = _read_routed(kept, task)
            return {**_answer(plan, plan.rows, part, watch, task, None), "rejected": rejected}, pieces
        tables = fold(watch, changes)
        changed = [what for what in tables if what != "inserts"]
        old = {what: _known_rows(watch, tables[what]) for what in changed}
        pieces = list(routed(plan.groups, plan.key, tables, old))
        rejected = [[bad.row, bad.reason, bad.content, bad.source] for bad in changes.rejected]

        def publish(seq: int, change: Change) -> None:
            _write_events(plan, plan.rows, part, change, task)
            write_bytes(_routed_bytes(pieces, rejected, task), kept, kept.parent)

        watch.log.publisher = publish
        change = watch.apply(**tables, batch_id=task.batch_id)
        return {**_answer(plan, plan.rows, part, watch, task, change), "rejected": rejected}, pieces


def _known_rows(watch: Watch, keys: pa.Table) -> pa.Table:
    rows = watch.find(keys)
    assert rows is not None, "fold lets known keys through alone"
    return rows


def apply_pieces(
    plan: PartPlan, group: RuleGroup, part: int, pieces: Mapping[str, list[pa.Table]], task: Task
) -> Answer:
    """Make the changes that a batch means to a part of a group."""
    with part_watch(plan, group, part) as watch:
        if watch.has_applied(task.batch_id):
            return _answer(plan, group, part, watch, task, None)
        tables = {what: pa.concat_tables(found, promote_options="default") for what, found in pieces.items()}
        watch.log.publisher = lambda seq, change: _write_events(plan, group, part, change, task)
        change = watch.apply(**tables, batch_id=task.batch_id)
        return _answer(plan, group, part, watch, task, change)


def part_status(plan: PartPlan, group: RuleGroup, part: int, mark: Sequence[Any] | None) -> Answer | None:
    """What stands in a part; None where nothing was ever there. StateError where it is not as far as it was."""
    if not exists(plan, group, part):
        if mark is not None:
            raise StateError(f"{plan.folder(group.name, part)}: this part of the state is missing; put back a copy")
        return None
    with part_watch(plan, group, part) as watch:
        journal = watch.log.journal
        assert journal is not None
        if mark is not None and not journal.has(int(mark[0]), bytes.fromhex(mark[1])):
            raise StateError(f"{journal.path}: this is an older copy, or another part; restore the right one")
        batches = {"n_batches": len(journal.batch_ids), "last_batch": journal.last_batch()}
        return {**_answer(plan, group, part, watch, None, None), **batches}


def write_part_violations(plan: PartPlan, group: RuleGroup, part: int, seq: int) -> Described:
    """Write what stands in a part."""
    with part_watch(plan, group, part) as watch:
        table = violations_table(watch.violations(), counting=plan.counting)
        if table.num_rows == 0:
            return {}
        path = plan.output / "current" / f"{seq:010}-{group.name}-{part:05}.parquet"
        return write_table(table, path, plan.output)


def _events_path(plan: PartPlan, group: RuleGroup, part: int, task: Task) -> Path:
    return plan.output / "events" / f"{task.seq:010}-{group.name}-{part:05}.parquet"


def _write_events(plan: PartPlan, group: RuleGroup, part: int, change: Change, task: Task) -> None:
    if group.rules:
        write_table(events_table(task.seq, change), _events_path(plan, group, part, task), plan.output)


def _answer(
    plan: PartPlan, group: RuleGroup, part: int, watch: Watch, task: Task | None, change: Change | None
) -> Answer:
    assert watch.log.journal is not None
    mark = watch.log.journal.position
    answer: Answer = {
        "group": group.name,
        "part": part,
        "n_rows": watch.n_rows,
        "counts": watch.counts,
        "mark": [mark.seq, mark.chain.hex()],
        "files": {},
        "n_added": 0,
        "n_removed": 0,
        "sentences": [],
    }
    if task is not None and group.rules:
        path = _events_path(plan, group, part, task)
        if not path.exists() or stored_batch(path) != (task.seq, task.batch_id):
            raise StateError(f"{path}: the events of batch {task.batch_id!r} are missing")
        answer["files"] = described(path, plan.output)
    if change is not None:
        answer |= {"n_added": change.n_added, "n_removed": change.n_removed}
        answer["sentences"] = watch.explain(change, plan.n_sentences) if plan.n_sentences else []
    return answer


def _routed_bytes(pieces: Sequence[Piece], rejected: list[list[Any]], task: Task) -> bytes:
    head = {"batch": task.batch_id, "seq": task.seq, "rejected": rejected}
    heads = [[piece.group, piece.part, piece.what] for piece in pieces]
    parts = [json.dumps({**head, "pieces": heads}).encode(), *(table_bytes(piece.table) for piece in pieces)]
    sink = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    return digest_of(sink) + sink


def _read_routed(path: Path, task: Task) -> tuple[list[Piece], list[list[Any]]]:
    data = path.read_bytes() if path.exists() else b""
    check, sink = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
    if digest_of(sink) != check:
        raise StateError(f"{path}: this file is missing or damaged; put back a copy of the folder")
    parts = []
    place = 0
    while place < len(sink):
        length = int.from_bytes(sink[place : place + 8], "little")
        parts.append(sink[place + 8 : place + 8 + length])
        place += 8 + length
    head = json.loads(parts[0])
    if (head["batch"], head["seq"]) != (task.batch_id, task.seq):
        raise StateError(f"{path}: this is what another batch left, not {task.batch_id!r}; put back the right copy")
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


def rejected_change(item: Sequence[Any]) -> RejectedChange:
    return RejectedChange(*item)
