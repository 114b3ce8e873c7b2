"""What a followed watch writes: events and standing violations as Parquet, and a manifest that says which files count.

The files of an event are written before the event is durable in the store, and entered into the manifest after. So a
kill in between leaves files that the next start finds: of an event that the store knows they are entered then, of any
other they are written over. The manifest is a file of JSON lines, each with a checksum that chains it to the line
before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from naysay.errors import StateError
from naysay.watch.change import Change, Standing
from naysay.watch.changes import Aside
from naysay.watch.crash import passing
from naysay.watch.serial import digest_of

VERSION = 1
# Events of these kinds have files; the making of a store and snapshots change no violation.
_KINDS = ("rows", "rules")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the manifest: the event, its batch, and its files with length and checksum."""

    seq: int
    kind: str
    batch_id: str | None
    files: dict[str, list[Any]]


class Output:
    """The folder of a watch's output. StateError where a file that the manifest names is not as it was written."""

    def __init__(self, folder: Path, history: Sequence[tuple[int, str, str | None]]) -> None:
        self.folder = folder
        self.manifest = folder / "manifest.jsonl"
        for name in ("events", "aside", "standing"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._chain = digest_of("manifest", VERSION).hex()
        self._pending: dict[str, Path] = {}
        self._standing: Path | None = None
        self.entries = self._read()
        self._check_files()
        self._adopt(history)

    def event_files(self) -> list[Path]:
        """The files of all events, in order."""
        return [self.folder / name for entry in self.entries for name in entry.files if name.startswith("events/")]

    def prepare(self, seq: int, change: Change, aside: Sequence[Aside] = (), source: str = "") -> None:
        """Write the files of an event that is about to happen."""
        events = self.folder / "events" / f"{seq:010}.parquet"
        _write_table(_events_table(seq, change), events)
        self._pending = {"events": events}
        if aside:
            path = self.folder / "aside" / f"{seq:010}.jsonl"
            lines = [
                json.dumps({"file": source, "row": bad.row, "reason": bad.reason, "content": bad.content})
                for bad in aside
            ]
            _write_bytes("".join(f"{line}\n" for line in lines).encode(), path)
            self._pending["aside"] = path
        passing("output.events")

    def confirm(self, seq: int, kind: str, batch_id: str | None) -> None:
        """Enter the files of an event that is durable now."""
        self._enter(seq, kind, batch_id, list(self._pending.values()))
        self._pending = {}
        passing("output.manifest")

    def write_standing(self, seq: int, standing: Standing, *, counting: bool) -> None:
        """Write all violations that stand after an event, in place of those written before."""
        path = self.folder / "standing" / f"{seq:010}.parquet"
        if path == self._standing:
            return
        if counting:
            rules = list(standing.counts)
            table = pa.table({"rule": rules, "violations": pa.array([standing.counts[name] for name in rules])})
        else:
            table = standing.table
        _write_table(table, path)
        passing("output.standing")
        self._enter(seq, "standing", None, [path])
        self._drop_older(path)

    def _drop_older(self, newest: Path) -> None:
        for path in (self.folder / "standing").glob("*.parquet"):
            if path != newest:
                path.unlink(missing_ok=True)
        self._standing = newest

    def _enter(self, seq: int, kind: str, batch_id: str | None, files: Sequence[Path]) -> None:
        described = {}
        for path in files:
            data = path.read_bytes()
            described[path.relative_to(self.folder).as_posix()] = [len(data), digest_of(data).hex()]
        entry = Entry(seq, kind, batch_id, described)
        body = json.dumps({"version": VERSION, "seq": seq, "kind": kind, "batch": batch_id, "files": described})
        self._chain = digest_of(self._chain, body).hex()
        with self.manifest.open("ab") as file:
            file.write(f"{self._chain} {body}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        self.entries.append(entry)

    def _read(self) -> list[Entry]:
        """The entries of the manifest. A last line that was cut short is dropped, as if it had not been begun."""
        if not self.manifest.exists():
            return []
        data = self.manifest.read_bytes()
        entries: list[Entry] = []
        kept = 0
        for line in data.split(b"\n")[:-1]:
            check, _, body = line.partition(b" ")
            if digest_of(self._chain, body).hex().encode() != check:
                raise StateError(f"{self.manifest}: line {len(entries) + 1} is damaged; put back a copy of the folder")
            item = json.loads(body)
            if item["version"] != VERSION:
                raise StateError(f"{self.manifest}: version {item['version']}; this naysay reads version {VERSION}")
            entries.append(Entry(item["seq"], item["kind"], item["batch"], item["files"]))
            self._chain = check.decode()
            kept += len(line) + 1
        if kept < len(data):
            os.truncate(self.manifest, kept)
        return entries

    def _check_files(self) -> None:
        standing = [entry for entry in self.entries if entry.kind == "standing"]
        for entry in self.entries:
            if entry.kind == "standing" and entry is not standing[-1]:
                continue
            for name, (length, digest) in entry.files.items():
                path = self._inside(name)
                data = path.read_bytes() if path.exists() else b""
                if len(data) != length or digest_of(data).hex() != digest:
                    raise StateError(f"{path}: this file is missing or damaged; put back a copy of the folder")
                if entry.kind == "standing":
                    self._standing = path

    def _inside(self, name: str) -> Path:
        """A file that the manifest names, which lies in the folder itself."""
        path = self.folder / name
        if path.is_symlink() or self.folder.resolve() not in path.resolve().parents:
            raise StateError(f"{self.manifest}: it names {name!r}, which is not in its folder")
        return path

    def _adopt(self, history: Sequence[tuple[int, str, str | None]]) -> None:
        """Enter events that became durable right before a kill."""
        known = {entry.seq for entry in self.entries if entry.kind in _KINDS}
        if any(seq >= len(history) for seq in known):
            raise StateError(f"{self.manifest}: it knows events that the store does not: one of them is an older copy")
        for seq, kind, batch_id in history:
            if kind not in _KINDS or seq in known:
                continue
            files = [self.folder / "events" / f"{seq:010}.parquet"]
            if not files[0].exists() or _stored_batch(files[0]) != (seq, batch_id):
                raise StateError(f"{files[0]}: the events of batch {batch_id!r} are missing")
            aside = self.folder / "aside" / f"{seq:010}.jsonl"
            self._enter(seq, kind, batch_id, [*files, *([aside] if aside.exists() else [])])


def _events_table(seq: int, change: Change) -> pa.Table:
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


def _stored_batch(path: Path) -> tuple[int, str | None]:
    try:
        metadata = pa.parquet.read_schema(path).metadata or {}
        seq, batch_id = json.loads(metadata[b"naysay.batch"])
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise StateError(f"{path}: this file is damaged: {error}") from error
    return seq, batch_id


def _write_table(table: pa.Table, path: Path) -> None:
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(table, sink)
    _write_bytes(sink.getvalue().to_pybytes(), path)


def _write_bytes(data: bytes, path: Path) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
