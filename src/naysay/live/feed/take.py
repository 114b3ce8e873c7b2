"""When a change file is taken, and what happens if it changes later: for every follower of a folder.

A file is taken once it has kept its size, time and inode for a moment, and only if it still has them after it was read.
A file that changes after it was applied is reported, in words and in `output/aside`, and its new content is refused:
a row that was cut short looks like a whole one, so nobody can say which changes are new.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from naysay.errors import StateError
from naysay.live.feed.changes import Aside, no_changes
from naysay.live.feed.sink import Body, Step
from naysay.live.journal.seal import SealedLines
from naysay.live.journal.serial import digest_of

# Seconds for which a file must not have changed.
MOMENT = 1.0
_SLOW_SECONDS = 10.0
_ADVICE = "write files elsewhere and rename them into the folder when they are complete"
Place = TypeVar("Place")
_Place = TypeVar("_Place", contravariant=True)


class Files(Protocol[_Place]):
    """A file system; an answer is None if the file is gone."""

    def stamp(self, place: _Place) -> Stamp | None: ...
    def read(self, place: _Place) -> bytes | None: ...


class LocalFiles:
    """The files of this machine."""

    def stamp(self, place: Path) -> Stamp | None:
        try:
            found = place.stat()
        except FileNotFoundError:
            return None
        return Stamp(found.st_size, found.st_mtime_ns, found.st_ino)

    def read(self, place: Path) -> bytes | None:
        try:
            return place.read_bytes()
        except FileNotFoundError:
            return None


class Taker(Generic[Place]):
    """Takes files that are still. `clock` gives seconds; only differences between its answers matter."""

    def __init__(
        self, files: Files[Place], state: Path, moment: float = MOMENT, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.taken = Taken(state)
        self.moment = moment
        # Files that kept changing so far, and since when.
        self.changing: dict[str, float] = {}
        self._files = files
        self._clock = clock
        self._looks: dict[str, tuple[Stamp, float]] = {}

    def look(self, name: str, place: Place) -> Stamp | None:
        """The stamp of a file that has been still for a moment; None if it has not, or is gone: see `changing`."""
        stamp = self._files.stamp(place)
        if stamp is None:
            self._forget(name)
            return None
        now = self._clock()
        seen, since = self._looks.get(name, (stamp, now))
        since = since if seen == stamp else now
        self._looks[name] = (stamp, since)
        if now - since >= self.moment:
            return stamp
        self.changing.setdefault(name, now)
        return None

    def read(self, name: str, place: Place) -> tuple[bytes, Stamp] | None:
        """The content of a file that has been still for a moment, and is as still after it was read; None as above."""
        stamp = self.look(name, place)
        if stamp is None:
            return None
        data = self._files.read(place)
        if data is not None and self._files.stamp(place) == stamp and len(data) == stamp.size:
            self._forget(name)
            return data, stamp
        self.changing.setdefault(name, self._clock())
        return None

    def keep(self, names: Collection[str]) -> None:
        """Forget files that are gone."""
        for name in self._looks.keys() - set(names):
            self._forget(name)

    def slow(self) -> list[str]:
        """The files that have kept changing for long."""
        return [name for name, since in self.changing.items() if self._clock() - since > _SLOW_SECONDS]

    def recheck(self, body: Body, name: str, place: Place) -> Step | None:
        """Report a file that has changed since it was applied, once; None if it has not, or is still changing."""
        stamp, file = self._files.stamp(place), self.taken[name]
        if stamp is None or stamp == file.stamp:
            self._forget(name)
            return None
        found = self.read(name, place)
        if found is None:
            return None
        data, stamp = found
        step = None if file.is_of(data) else self._refused(body, name, file, data)
        self.taken.seen(name, stamp)
        return step

    def _refused(self, body: Body, name: str, file: TakenFile, data: bytes) -> Step | None:
        batch_id = f"{name}, changed to {digest_of(data).hex()[:16]}"
        if body.knows(batch_id):
            return None
        return body.apply(batch_id, no_changes(name, [Aside(None, _reason(name, file, data), source=name)]))

    def _forget(self, name: str) -> None:
        self._looks.pop(name, None)
        self.changing.pop(name, None)


def _reason(name: str, file: TakenFile, data: bytes) -> str:
    begin = data[: file.size]
    if len(data) > file.size and file.is_of(begin):
        cut = "" if begin.endswith(b"\n") else ", and its last row may have been applied cut short"
        sizes = f"from {file.size:,} to {len(data):,} bytes"
        what = f"has grown {sizes} since it was applied: the rest was not applied{cut}"
    else:
        what = f"has changed since it was applied: its new content, {len(data):,} bytes, was not applied"
    return f"{name}: this file {what}; send what is missing in a file of another name, and {_ADVICE}"


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
