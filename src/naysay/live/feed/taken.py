"""Which bytes of each change file were applied: `taken.jsonl` in the folder of a state.

A line is written before the batch that holds the file is applied. So every file of a batch that a body knows has one,
and a file that has changed since can be told from one that has not, also after a restart.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from naysay.errors import StateError
from naysay.live.journal.sealed import SealedLines
from naysay.live.journal.serial import digest_of

VERSION = 2


@dataclass(frozen=True, slots=True)
class Stamp:
    """What shows that a file has changed without reading it."""

    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class TakenFile:
    """A file as it was applied: the batch it was part of, its length and checksum; and its stamp when last seen."""

    batch: str
    size: int
    digest: str
    stamp: Stamp

    def is_of(self, data: bytes) -> bool:
        return digest_of(data).hex() == self.digest


class Taken:
    """The record of a state folder."""

    def __init__(self, state: Path) -> None:
        self._lines = SealedLines(state / "taken.jsonl", "taken", VERSION)
        self._files = {
            item["file"]: TakenFile(item["batch"], item["size"], item["digest"], Stamp(**item["stamp"]))
            for item in self._lines.items
        }

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def __getitem__(self, name: str) -> TakenFile:
        try:
            return self._files[name]
        except KeyError:
            raise StateError(
                f"{self._lines.path}: {name} was applied, but this file does not list it; put back a copy of the folder"
            ) from None

    def add(self, name: str, batch_id: str, data: bytes, stamp: Stamp) -> None:
        """Note a file that is about to be applied as part of a batch; durable when this returns."""
        self._write(name, TakenFile(batch_id, len(data), digest_of(data).hex(), stamp))

    def seen(self, name: str, stamp: Stamp) -> None:
        """Note how an applied file looks now, so that the next change to it is noticed and this one is not again."""
        file = self[name]
        self._write(name, TakenFile(file.batch, file.size, file.digest, stamp))

    def _write(self, name: str, file: TakenFile) -> None:
        self._lines.append({"file": name, **asdict(file)})
        self._files[name] = file
