"""The output of a feed: events and current violations as Parquet, rejected changes, and a manifest.

The files of an event are written before the event is durable in the journal, and entered into the manifest afterwards.
After a kill in between, the next start enters the files of events that the journal has, and overwrites all others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet

from naysay.errors import StateError
from naysay.live.feed.changes import RejectedChange
from naysay.live.journal.seal import SealedLines, crash_point
from naysay.live.journal.serial import digest_of

VERSION = 2
# Only the files of this many last entries are checked when a folder is opened: a start must not read everything.
_N_CHECKED = 256
# Events of these kinds have files; creating a state, and snapshots, change no violation.
_KINDS = ("rows", "rules")
_FOLDERS = ("events", "rejected", "current")
# Length and checksum of files, by name.
FileList = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One line of the manifest: an event, its batch, its files, and further notes."""

    seq: int
    kind: str
    batch_id: str | None
    files: FileList
    notes: Mapping[str, Any]


class Manifest:
    """The manifest of an output folder. StateError if a file that it lists is missing or damaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "manifest.jsonl"
        for name in _FOLDERS:
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._lines = SealedLines(self.path, "manifest", VERSION)
        self.entries = [_entry(**item) for item in self._lines.items]
        self._check_files()

    def last(self, kind: str) -> ManifestEntry | None:
        return next((entry for entry in reversed(self.entries) if entry.kind == kind), None)

    def enter(self, seq: int, kind: str, batch_id: str | None, files: FileList, **notes: Any) -> None:
        """Add a line; durable when this returns."""
        self._lines.append({"seq": seq, "kind": kind, "batch": batch_id, "files": files, **notes})
        self.entries.append(ManifestEntry(seq, kind, batch_id, files, notes))

    def enter_current(self, seq: int, write: Callable[[], FileList]) -> None:
        """Write the current violations after an event, and remove older ones; nothing if that was done already."""
        last = self.last("current")
        if last is not None and last.seq == seq:
            return
        files = write()
        crash_point("output.current")
        self.enter(seq, "current", None, files)
        for path in (self.folder / "current").glob("*.parquet"):
            if path.relative_to(self.folder).as_posix() not in files:
                path.unlink(missing_ok=True)

    def _check_files(self) -> None:
        """Only the last current violations still exist. Older entries are left to whoever reads them."""
        current = self.last("current")
        for entry in self.entries[-_N_CHECKED:]:
            if entry.kind == "current" and entry is not current:
                continue
            for name, (length, digest) in entry.files.items():
                path = self.folder / name
                if path.is_symlink() or self.folder.resolve() not in path.resolve().parents:
                    raise StateError(f"{self.path}: it lists {name!r}, which is not in its folder")
                data = path.read_bytes() if path.exists() else b""
                if len(data) != length or digest_of(data).hex() != digest:
                    raise StateError(f"{path}: this file is missing or damaged; restore a copy of the folder")


def _entry(seq: int, kind: str, batch: str | None, files: FileList, **notes: Any) -> ManifestEntry:
    return ManifestEntry(seq, kind, batch, files, notes)


def write_bytes(data: bytes, path: Path, folder: Path) -> FileList:
    """Write a file atomically; returns its entry for the manifest of a folder."""
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    return {path.relative_to(folder).as_posix(): [len(data), digest_of(data).hex()]}


def write_table(table: pa.Table, path: Path, folder: Path) -> FileList:
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(table, sink)
    return write_bytes(sink.getvalue().to_pybytes(), path, folder)


def write_rejected(rejected: Sequence[RejectedChange], seq: int, folder: Path) -> FileList:
    if not rejected:
        return {}
    items = ({"file": bad.source, "row": bad.row, "reason": bad.reason, "content": bad.content} for bad in rejected)
    data = "".join(f"{json.dumps(item)}\n" for item in items).encode()
    return write_bytes(data, folder / "rejected" / f"{seq:010}.jsonl", folder)


def list_file(path: Path, folder: Path) -> FileList:
    """The manifest entry of an existing file."""
    data = path.read_bytes()
    return {path.relative_to(folder).as_posix(): [len(data), digest_of(data).hex()]}


def list_events(path: Path, folder: Path, seq: int, batch_id: str | None) -> FileList:
    """The manifest entry of the events of a batch; StateError if they are missing or belong to another batch."""
    if not path.exists() or _batch_of(path) != (seq, batch_id):
        raise StateError(f"{path}: the events of batch {batch_id!r} are missing")
    return list_file(path, folder)


class Published(Protocol):
    """What a batch did, as tables of what was added and removed."""

    @property
    def added(self) -> pa.Table: ...
    @property
    def removed(self) -> pa.Table: ...
    @property
    def batch_id(self) -> str | None: ...


class Output:
    """The output folder of a feed. `history` lists the events of its journal: number, kind, batch id."""

    def __init__(self, folder: Path, history: Sequence[tuple[int, str, str | None]]) -> None:
        self.folder = folder
        self.manifest = Manifest(folder)
        self._pending: FileList = {}
        self._adopt(history)

    def prepare(self, seq: int, change: Published, rejected: Sequence[RejectedChange] = ()) -> None:
        """Write the files of an event that is about to become durable."""
        events = write_table(events_table(seq, change), self.folder / "events" / f"{seq:010}.parquet", self.folder)
        self._pending = events | write_rejected(rejected, seq, self.folder)
        crash_point("output.events")

    def confirm(self, seq: int, kind: str, batch_id: str | None) -> None:
        """Enter the files of an event that has become durable."""
        self.manifest.enter(seq, kind, batch_id, self._pending)
        self._pending = {}
        crash_point("output.manifest")

    def write_current(self, seq: int, make_table: Callable[[], pa.Table]) -> None:
        """Write the current violations after an event, unless that was done already."""
        path = self.folder / "current" / f"{seq:010}.parquet"
        self.manifest.enter_current(seq, lambda: write_table(make_table(), path, self.folder))

    def _adopt(self, history: Sequence[tuple[int, str, str | None]]) -> None:
        """Enter events that became durable right before a kill."""
        entered = {entry.seq for entry in self.manifest.entries if entry.kind in _KINDS}
        if any(seq >= len(history) for seq in entered):
            raise StateError(
                f"{self.manifest.path}: it lists events that the state does not have: one of them is an older copy"
            )
        for seq, kind, batch_id in history:
            if kind in _KINDS and seq not in entered:
                files = list_events(self.folder / "events" / f"{seq:010}.parquet", self.folder, seq, batch_id)
                rejected = self.folder / "rejected" / f"{seq:010}.jsonl"
                if rejected.exists():
                    files |= list_file(rejected, self.folder)
                self.manifest.enter(seq, kind, batch_id, files)


def events_table(seq: int, change: Published) -> pa.Table:
    """Added and removed violations as one table: seq, batch, event, rule, left, right."""
    parts = [(event, table) for event, table in (("added", change.added), ("removed", change.removed)) if len(table)]
    tables = []
    for event, table in parts or [("added", change.added)]:
        new = (("event", event, pa.string()), ("batch", change.batch_id, pa.string()), ("seq", seq, pa.int64()))
        for name, value, type_ in new:
            table = table.add_column(0, name, pa.array([value] * len(table), type_))
        tables.append(table)
    batch = json.dumps([seq, change.batch_id])
    return pa.concat_tables(tables).replace_schema_metadata({"naysay.batch": batch})


def _batch_of(path: Path) -> tuple[int, str | None]:
    """The event and the batch that a file of events belongs to."""
    try:
        metadata = pa.parquet.read_schema(path).metadata or {}
        seq, batch_id = json.loads(metadata[b"naysay.batch"])
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise StateError(f"{path}: this file is damaged: {error}") from error
    return seq, batch_id
