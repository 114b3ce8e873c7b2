"""Which files of an output folder count: a file of JSON lines, each with a checksum as its last field.

A file is written whole or not at all, and entered afterwards; what no line names was left by a kill, and is written
over or entered by whoever knows what it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from naysay.errors import StateError
from naysay.live.journal.sealed import SealedLines
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
        standing = self.last("standing")
        for entry in self.entries[-_N_CHECKED:]:
            if entry.kind == "standing" and entry is not standing:
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
