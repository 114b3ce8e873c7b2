"""The seal: a small file next to a journal that records its last event; files of lines with checksums; crash points.

A database file cannot tell that an older copy of it was restored, or that its write-ahead log is gone. The seal can: it
is written after each event, and a journal behind its seal has lost something. It has two places that are written in
turn, so that an interrupted write leaves the previous one. It need not reach the disk at once: a journal ahead of its
seal is fine.
"""

from __future__ import annotations

import json
import os
import re
import signal
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naysay.errors import StateError
from naysay.live.journal.serial import DIGEST_BYTES, digest_of

# Every point, in the order in which a journal that is created, appended to and compacted passes them.
POINTS = (
    "create.begin",
    "create.written",
    "create.committed",
    "create.sealed",
    "batch.begin",
    "batch.written",
    "batch.committed",
    "batch.sealed",
    "snapshot.begin",
    "snapshot.written",
    "snapshot.committed",
    "snapshot.sealed",
    "close.begin",
    "close.closed",
    "output.events",
    "output.manifest",
    "output.current",
    "parts.answered",
    "parts.manifest",
)

_passed: Counter[str] = Counter()


def crash_point(point: str) -> None:
    """If NAYSAY_CRASH_AT is `point:k`, die by SIGKILL the k-th time this point is passed; otherwise do nothing."""
    wanted = os.environ.get("NAYSAY_CRASH_AT")
    if wanted is None:
        return
    name, _, turn = wanted.partition(":")
    if name == point:
        _passed[point] += 1
        if _passed[point] == int(turn or 1):
            os.kill(os.getpid(), signal.SIGKILL)


_MAGIC = b"NAYSEAL1"
_FORMAT = struct.Struct(f"<8s16sq{DIGEST_BYTES}s{DIGEST_BYTES}s")
_PLACE_BYTES = 128


@dataclass(frozen=True, slots=True)
class JournalPosition:
    """The number of an event, and the chain of checksums up to it."""

    journal_id: bytes
    seq: int
    chain: bytes


class Seal:
    """The file PATH.seal."""

    def __init__(self, journal: Path) -> None:
        self.path = journal.with_name(journal.name + ".seal")

    def exists(self) -> bool:
        return self.path.exists()

    def write(self, position: JournalPosition) -> None:
        """Record the last event. The file is never truncated: one of its two places is always valid."""
        sink = _FORMAT.pack(_MAGIC, position.journal_id, position.seq, position.chain, b"")[:-DIGEST_BYTES]
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.pwrite(file, sink + digest_of(sink), position.seq % 2 * _PLACE_BYTES)
        finally:
            os.close(file)

    def read(self) -> JournalPosition:
        """The later valid place; StateError if there is none."""
        data = self.path.read_bytes()
        places = (_read_place(data[start : start + _FORMAT.size]) for start in (0, _PLACE_BYTES))
        found = [position for position in places if position is not None]
        if not found:
            raise StateError(f"{self.path}: the seal of the state is damaged: no part of it can be read")
        return max(found, key=lambda position: position.seq)


def _read_place(data: bytes) -> JournalPosition | None:
    if len(data) < _FORMAT.size:
        return None
    magic, journal_id, seq, chain, check = _FORMAT.unpack(data)
    if magic != _MAGIC or check != digest_of(data[:-DIGEST_BYTES]):
        return None
    return JournalPosition(journal_id, seq, chain)


_CHECK = re.compile(rb', "check": "([0-9a-f]{%d})"\}' % (2 * DIGEST_BYTES))
_CHECK_BYTES = len(b', "check": ""}') + 2 * DIGEST_BYTES
# Before version 2 the checksum came before the object.
_OLD = re.compile(rb"[0-9a-f]{%d} \{" % (2 * DIGEST_BYTES))


def sealed(item: Mapping[str, Any], before: str = "") -> tuple[bytes, str]:
    """A line without its newline, and its checksum."""
    sink = json.dumps(item).encode()[:-1]
    check = digest_of(before, sink).hex()
    return sink + f', "check": "{check}"}}'.encode(), check


def unsealed(line: bytes, before: str = "") -> tuple[dict[str, Any], str] | None:
    """The object of a line, and its checksum; None if the line is damaged."""
    sink, found = line[:-_CHECK_BYTES], _CHECK.fullmatch(line[-_CHECK_BYTES:])
    if found is None or digest_of(before, sink).hex().encode() != found[1]:
        return None
    item: dict[str, Any] = json.loads(sink + b"}")
    return item, found[1].decode()


def is_old(data: bytes) -> bool:
    """Whether a file was written before version 2."""
    return _OLD.match(data) is not None


def version_error(path: Path, found: object, version: int) -> StateError:
    return StateError(
        f"{path}: version {found}, but this naysay reads version {version}; "
        "open the folder with the naysay that wrote it, or start a new one"
    )


def read_sealed(path: Path, version: int, *older: int) -> dict[str, Any]:
    """The object of a file with a single line, of this version or an older one that can be read."""
    data = path.read_bytes()
    if is_old(data):
        raise version_error(path, 1, version)
    found = unsealed(data.removesuffix(b"\n"))
    if found is None:
        raise StateError(f"{path}: this file is damaged; restore a copy of the folder")
    item, _ = found
    if item.get("version") not in (version, *older):
        raise version_error(path, item.get("version"), version)
    return item


class SealedLines:
    """A growing file of sealed lines, each chained to the previous one; `what` distinguishes kinds of files."""

    def __init__(self, path: Path, what: str, version: int) -> None:
        self.path = path
        self._version = version
        self._chain = digest_of(what, version).hex()
        self.items = self._read()

    def append(self, item: Mapping[str, Any]) -> None:
        """Add a line; durable when this returns."""
        line, self._chain = sealed({"version": self._version, **item}, self._chain)
        with self.path.open("ab") as file:
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _read(self) -> list[dict[str, Any]]:
        """The objects. A last line that was cut short is dropped."""
        data = self.path.read_bytes() if self.path.exists() else b""
        if is_old(data):
            raise version_error(self.path, 1, self._version)
        items: list[dict[str, Any]] = []
        kept = 0
        for line in data.split(b"\n")[:-1]:
            found = unsealed(line, self._chain)
            if found is None:
                raise StateError(f"{self.path}: line {len(items) + 1} is damaged; restore a copy of the folder")
            item, self._chain = found
            version = item.pop("version")
            if version != self._version:
                raise version_error(self.path, version, self._version)
            items.append(item)
            kept += len(line) + 1
        if kept < len(data):
            os.truncate(self.path, kept)
        return items
