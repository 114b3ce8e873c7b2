"""What a followed watch writes: events and standing violations as Parquet, what was rejected, and a manifest.

The files of an event are written before the event is durable in the store, and entered into the manifest after. So a
kill in between leaves files that the next start finds: of an event that the store knows they are entered then, of any
other they are written over.
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
from naysay.live.journal.crash import crash_point
from naysay.live.journal.seal import SealedLines
from naysay.live.journal.serial import digest_of

VERSION = 2
# So many of the last entries have their files looked at when a folder is opened: a start must not read all that was
# ever written.
_N_CHECKED = 256
Described = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the manifest: the event, its batch, its files with length and checksum, and what else is noted."""

    seq: int
    kind: str
    batch_id: str | None
    files: Described
    notes: Mapping[str, Any]


class Manifest:
    """The manifest of a folder. StateError where a file that it names is not as it was written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "manifest.jsonl"
        self._lines = SealedLines(self.path, "manifest", VERSION)
        self.entries = [_entry(item) for item in self._lines.items]
        self._check_files()

    def last(self, kind: str) -> Entry | None:
        return next((entry for entry in reversed(self.entries) if entry.kind == kind), None)

    def enter(
        self, seq: int, kind: str, batch_id: str | None, files: Described, notes: Mapping[str, Any] | None = None
    ) -> None:
        """Add a line; durable when this returns."""
        entry = Entry(seq, kind, batch_id, files, notes or {})
        self._lines.append({"seq": seq, "kind": kind, "batch": batch_id, "files": files, **entry.notes})
        self.entries.append(entry)

    def _check_files(self) -> None:
        """Of standing violations the last ones alone are kept. Older files are left to whoever reads them."""
        standing = self.last("current")
        for entry in self.entries[-_N_CHECKED:]:
            if entry.kind == "current" and entry is not standing:
                continue
            for name, (length, digest) in entry.files.items():
                path = self._inside(name)
                data = path.read_bytes() if path.exists() else b""
                if len(data) != length or digest_of(data).hex() != digest:
                    raise StateError(f"{path}: this file is missing or damaged; put back a copy of the folder")

    def _inside(self, name: str) -> Path:
        """A file that the manifest names, which lies in the folder itself."""
        path = self.folder / name
        if path.is_symlink() or self.folder.resolve() not in path.resolve().parents:
            raise StateError(f"{self.path}: it names {name!r}, which is not in its folder")
        return path


def _entry(item: Mapping[str, Any]) -> Entry:
    notes = {name: value for name, value in item.items() if name not in ("seq", "kind", "batch", "files")}
    return Entry(item["seq"], item["kind"], item["batch"], item["files"], notes)


def write_bytes(data: bytes, path: Path, folder: Path) -> Described:
    """Write a file whole or not at all; says how the manifest of a folder names it."""
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    return {path.relative_to(folder).as_posix(): [len(data), digest_of(data).hex()]}


def write_table(table: pa.Table, path: Path, folder: Path) -> Described:
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(table, sink)
    return write_bytes(sink.getvalue().to_pybytes(), path, folder)


def described(path: Path, folder: Path) -> Described:
    """How a manifest names a file that is there."""
    data = path.read_bytes()
    return {path.relative_to(folder).as_posix(): [len(data), digest_of(data).hex()]}


# Events of these kinds have files; the making of a store and snapshots change no violation.
_KINDS = ("rows", "rules")
_FOLDERS = ("events", "rejected", "current")


class Published(Protocol):
    """What a batch did: tables of what came and of what went."""

    @property
    def added(self) -> pa.Table: ...
    @property
    def removed(self) -> pa.Table: ...
    @property
    def batch_id(self) -> str | None: ...


class Output:
    """The folder of a watch's output."""

    def __init__(self, folder: Path, history: Sequence[tuple[int, str, str | None]]) -> None:
        self.folder = folder
        make_folders(folder)
        self._pending: Described = {}
        self.manifest = Manifest(folder)
        self._adopt(history)

    def prepare(self, seq: int, change: Published, rejected: Sequence[RejectedChange] = ()) -> None:
        """Write the files of an event that is about to happen."""
        files = write_table(events_table(seq, change), self.folder / "events" / f"{seq:010}.parquet", self.folder)
        if rejected:
            files |= write_rejected(rejected, self.folder / "rejected" / f"{seq:010}.jsonl", self.folder)
        self._pending = files
        crash_point("output.events")

    def confirm(self, seq: int, kind: str, batch_id: str | None) -> None:
        """Enter the files of an event that is durable now."""
        self.manifest.enter(seq, kind, batch_id, self._pending)
        self._pending = {}
        crash_point("output.manifest")

    def write_current(self, seq: int, make_table: Callable[[], pa.Table]) -> None:
        """Write what stands after an event, in place of what was written before; nothing if it was written already."""
        last = self.manifest.last("current")
        if last is not None and last.seq == seq:
            return
        path = self.folder / "current" / f"{seq:010}.parquet"
        files = write_table(make_table(), path, self.folder)
        crash_point("output.current")
        self.manifest.enter(seq, "current", None, files)
        drop_older_current(self.folder, files)

    def _adopt(self, history: Sequence[tuple[int, str, str | None]]) -> None:
        """Enter events that became durable right before a kill."""
        known = {entry.seq for entry in self.manifest.entries if entry.kind in _KINDS}
        if any(seq >= len(history) for seq in known):
            raise StateError(
                f"{self.manifest.path}: it knows events that the store does not: one of them is an older copy"
            )
        for seq, kind, batch_id in history:
            if kind not in _KINDS or seq in known:
                continue
            events = self.folder / "events" / f"{seq:010}.parquet"
            if not events.exists() or stored_batch(events) != (seq, batch_id):
                raise StateError(f"{events}: the events of batch {batch_id!r} are missing")
            files = described(events, self.folder)
            rejected = self.folder / "rejected" / f"{seq:010}.jsonl"
            if rejected.exists():
                files |= described(rejected, self.folder)
            self.manifest.enter(seq, kind, batch_id, files)


def make_folders(folder: Path) -> None:
    for name in _FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)


def events_table(seq: int, change: Published) -> pa.Table:
    """added and removed as one table: seq, batch, event, rule, left, right."""
    parts = [(event, table) for event, table in (("added", change.added), ("removed", change.removed)) if len(table)]
    tables = []
    for event, table in parts or [("added", change.added)]:
        n_rows = table.num_rows
        table = table.add_column(0, "event", pa.array([event] * n_rows, pa.string()))
        table = table.add_column(0, "batch", pa.array([change.batch_id] * n_rows, pa.string()))
        tables.append(table.add_column(0, "seq", pa.array([seq] * n_rows, pa.int64())))
    batch = json.dumps([seq, change.batch_id])
    return pa.concat_tables(tables).replace_schema_metadata({"naysay.batch": batch})


def stored_batch(path: Path) -> tuple[int, str | None]:
    """The event and the batch that a file of events belongs to."""
    try:
        metadata = pa.parquet.read_schema(path).metadata or {}
        seq, batch_id = json.loads(metadata[b"naysay.batch"])
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise StateError(f"{path}: this file is damaged: {error}") from error
    return seq, batch_id


def drop_older_current(folder: Path, newest: Described) -> None:
    for path in (folder / "current").glob("*.parquet"):
        if path.relative_to(folder).as_posix() not in newest:
            path.unlink(missing_ok=True)


def write_rejected(rejected: Sequence[RejectedChange], path: Path, folder: Path) -> Described:
    lines = [
        json.dumps({"file": bad.source, "row": bad.row, "reason": bad.reason, "content": bad.content}) for bad in rejected
    ]
    return write_bytes("".join(f"{line}\n" for line in lines).encode(), path, folder)
