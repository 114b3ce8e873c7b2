"""One part of a partitioned watch, inside a task: its watch, kept warm between batches, and its replies.

The state of a part is closed after each task, so that the next task may run in another process; the watch stays in
memory and catches up with what others wrote. Output files are written before a batch is durable, and named by its
number: if a batch is sent again, its first results are found.
"""

from __future__ import annotations

import json
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from naysay.arrays import Int64Array, UInt64Array
from naysay.errors import StateError
from naysay.live.feed.changes import ChangeRows, fold
from naysay.live.feed.output import FileList, events_table, list_events, write_bytes, write_table
from naysay.live.journal.journal import JournalBusy, journal_exists
from naysay.live.journal.serial import DIGEST_BYTES, digest_of
from naysay.plan.join import join_of
from naysay.rule.model import Rule
from naysay.watch.change import Change, counts_table, violations_table
from naysay.watch.visits import VISITS, visits_table
from naysay.watch.watch import VisitedWatch, Watch

ROWS = "rows"


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules over `n_parts` parts; the values of `columns` decide the part of a row.

    The pairs of the rules are equal in them, or else each row visits all other parts, and they are the key.
    """

    name: str
    columns: tuple[str, ...]
    rules: Mapping[str, Rule]
    n_parts: int
    visited: bool = False

    def needed(self, key: Sequence[str]) -> list[str]:
        """The columns of a row in this group."""
        return list(dict.fromkeys([*key, *(name for rule in self.rules.values() for name in rule.column_names)]))


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows for one part: `what` is inserts, updates or deletes (only keys), or visits, to all parts but this one."""

    group: str
    part: int
    what: str
    table: pa.Table


def rows_group(rules: Mapping[str, Rule], key: Sequence[str], n_parts: int) -> RuleGroup:
    """The group that holds whole rows, by key, with the one-row rules."""
    singles = {name: rule for name, rule in rules.items() if rule.is_one_row}
    return RuleGroup(ROWS, tuple(key), singles, n_parts)


def groups_of(rules: Mapping[str, Rule], key: Sequence[str], n_parts: int, *, visits: bool) -> list[RuleGroup]:
    """The groups of all two-row rules. Without `visits`, those without equal columns have a single part."""
    found: dict[tuple[str, ...], dict[str, Rule]] = {}
    for name, rule in rules.items():
        if not rule.is_one_row:
            equal = {match.left for match in join_of(rule).key if match.left == match.right}
            found.setdefault(tuple(sorted(equal)), {})[name] = rule
    groups = []
    for number, (columns, members) in enumerate(found.items()):
        visited = visits and not columns and n_parts > 1
        n_own = n_parts if columns or visited else 1
        groups.append(RuleGroup(f"group{number}", tuple(key) if visited else columns, members, n_own, visited))
    return groups


def part_numbers(table: pa.Table, columns: Sequence[str], n_parts: int) -> Int64Array:
    """The part of each row: the same for equal values, in every process and at any time."""
    if n_parts == 1 or table.num_rows == 0:
        return np.zeros(table.num_rows, np.int64)
    mixed = np.zeros(table.num_rows, np.uint64)
    for name in columns:
        mixed = _mix(mixed ^ _hashes(table.column(name)))
    return np.asarray(mixed % np.uint64(n_parts), np.int64)


def _hashes(column: pa.ChunkedArray) -> UInt64Array:
    """A number for each value, the same for equal values; null has its own."""
    type_ = column.type
    if types.is_null(type_):
        return np.zeros(len(column), np.uint64)
    if types.is_boolean(type_):
        column = column.cast(pa.int64())
    elif types.is_date32(type_) or types.is_time32(type_):
        column = column.cast(pa.int32()).cast(pa.int64())
    elif types.is_temporal(type_):
        column = column.cast(pa.int64())
    elif types.is_floating(type_):
        column = column.cast(pa.float64())
    if types.is_integer(column.type) or types.is_floating(column.type):
        bits = _bits(column)
    else:
        encoded = column.combine_chunks().dictionary_encode()
        texts = [str(value) for value in encoded.dictionary.to_pylist()]
        hashes = [int.from_bytes(digest_of(text)[:8], "little") for text in texts]
        bits = np.array([*hashes, 0], np.uint64)[np.asarray(encoded.indices.fill_null(len(hashes)), np.int64)]
    null = np.asarray(column.is_null(), np.bool_)
    return np.asarray(np.where(null, np.uint64(0), _mix(bits) | np.uint64(1)), np.uint64)


def _bits(column: pa.ChunkedArray) -> UInt64Array:
    if types.is_floating(column.type):
        values = np.asarray(pc.fill_null(column, 0.0), np.float64) + 0.0
        return np.asarray(np.where(np.isnan(values), np.nan, values), np.float64).view(np.uint64)
    values = np.asarray(pc.fill_null(column, 0))
    return values.astype(np.uint64 if values.dtype == np.uint64 else np.int64).view(np.uint64)


def _mix(bits: UInt64Array) -> UInt64Array:
    """Spread bits over the whole number (the finisher of splitmix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)), np.uint64)


def route(
    groups: Sequence[RuleGroup], key: Sequence[str], tables: Mapping[str, pa.Table], old: Mapping[str, pa.Table]
) -> Iterator[Piece]:
    """What a batch means to the parts of each group. `old` has the previous rows of updates and deletes."""
    for group in groups:
        needed = group.needed(key)
        if group.visited and tables:
            visits = visits_table(tables, old, needed)
            yield from _pieces(group, VISITS, visits, part_numbers(visits, key, group.n_parts))
        if "deletes" in tables:
            places = part_numbers(old["deletes"], group.columns, group.n_parts)
            yield from _pieces(group, "deletes", tables["deletes"], places)
        if "inserts" in tables:
            rows = tables["inserts"].select(needed)
            yield from _pieces(group, "inserts", rows, part_numbers(rows, group.columns, group.n_parts))
        if "updates" in tables:
            yield from _moves(group, tables["updates"].select(needed), old["updates"], key)


def _moves(group: RuleGroup, new: pa.Table, old: pa.Table, key: Sequence[str]) -> Iterator[Piece]:
    """An update that changes the part of a row deletes it in one part and inserts it in another."""
    before = part_numbers(old, group.columns, group.n_parts)
    after = part_numbers(new, group.columns, group.n_parts)
    stays = np.flatnonzero(before == after)
    moves = np.flatnonzero(before != after)
    yield from _pieces(group, "updates", new.take(pa.array(stays)), after[stays])
    yield from _pieces(group, "deletes", new.select(list(key)).take(pa.array(moves)), before[moves])
    yield from _pieces(group, "inserts", new.take(pa.array(moves)), after[moves])


def _pieces(group: RuleGroup, what: str, table: pa.Table, parts: Int64Array) -> Iterator[Piece]:
    for part in np.unique(parts).tolist():
        yield Piece(group.name, part, what, table.take(pa.array(np.flatnonzero(parts == part))))


# At most this many parts stay warm in a process.
_MOST_WARM = 16
_PATIENCE_SECONDS = 60.0
_ROWS_PER_VISIT = 1 << 16
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

    def places(self, piece: Piece) -> list[int]:
        """The places that a piece goes to."""
        if piece.what != VISITS:
            return [self.place(piece.group, piece.part)]
        (n_parts,) = (group.n_parts for group in self.groups if group.name == piece.group)
        return [self.place(piece.group, number) for number in range(n_parts) if number != piece.part]


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
            if isinstance(watch, VisitedWatch):
                change = watch.apply_visited(tables.pop(VISITS, None), task.batch_id, **tables)
            else:
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

    def visiting_rows(self) -> Iterator[pa.Table]:
        """All rows of this part, as they visit the others."""
        with self.open() as watch:
            rows = watch.rows()
        if rows is not None:
            for start in range(0, rows.num_rows, _ROWS_PER_VISIT):
                yield rows.slice(start, _ROWS_PER_VISIT)

    def violations_with(self, rows: pa.Table) -> pa.Table:
        """The current violations of rows of this part, on the left, with rows of others."""
        with self.open() as watch:
            assert isinstance(watch, VisitedWatch)
            return watch.violations_with(rows)

    def write_current(self, seq: int, visited: Sequence[pa.Table] = ()) -> FileList:
        """Write the current violations of this part, with those of `violations_with`."""
        with self.open() as watch:
            own = violations_table(watch.violations(), counting=self.plan.counting)
        return self._write_table(pa.concat_tables([own, *visited], promote_options="default"), seq)

    def write_counts(self, seq: int, counts: Mapping[str, int]) -> FileList:
        """Write the numbers of violations that all parts of this group have found together."""
        return self._write_table(counts_table(counts), seq)

    def _write_table(self, table: pa.Table, seq: int) -> FileList:
        return write_table(table, self._output("current", seq), self.plan.output) if table.num_rows else {}

    def _open(self) -> Watch:
        watch = _warm.pop(str(self.folder), None)
        if watch is not None and watch.resume():
            return watch
        plan = self.plan
        return (VisitedWatch if self.group.visited else Watch)(
            list(self.group.rules.values()),
            plan.key,
            state=self.folder / "state.duckdb",
            nulls=plan.nulls,
            counting=plan.counting,
            index=plan.index,
            max_seconds=math.inf,
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
