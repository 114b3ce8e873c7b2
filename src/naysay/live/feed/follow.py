"""Follow a folder of change files in this process: each file is one batch, in the order of names.

A file is taken once its size, time and inode have not changed for a moment, and only if they are still the same after
it was read. A file that changes after it was applied is reported, in words and in `output/rejected`, and its new
content is refused: a row that was cut short looks like a whole one, so nobody can tell which changes are new.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from naysay.errors import StateError, UsageError
from naysay.io.notation import DEFAULT, Notation
from naysay.live.feed.change_files import endings, format_of, read_changes
from naysay.live.feed.changes import AppliedBatch, ChangeSink, read_or_reject, reject_whole
from naysay.live.journal.seal import SealedLines
from naysay.live.journal.serial import digest_of

# Seconds for which a file must not have changed.
MOMENT = 1.0
_SLOW_SECONDS = 10.0
_TAKEN_VERSION = 2
_ADVICE = "write files elsewhere and rename them into the folder when they are complete"
Place = TypeVar("Place")
_Place = TypeVar("_Place", contravariant=True)


@dataclass(frozen=True, slots=True)
class Stamp:
    """What shows that a file has changed without reading it."""

    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class TakenFile:
    """A file as it was applied: its batch, length and checksum, and its stamp when last seen."""

    batch: str
    size: int
    digest: str
    stamp: Stamp

    def has_content(self, data: bytes) -> bool:
        return digest_of(data).hex() == self.digest


class TakenFiles:
    """The record of applied files in a state folder."""

    def __init__(self, state: Path) -> None:
        self._lines = SealedLines(state / "taken.jsonl", "taken", _TAKEN_VERSION)
        self._files = {
            item["file"]: TakenFile(item["batch"], item["size"], item["digest"], Stamp(**item["stamp"]))
            for item in self._lines.items
        }

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def __getitem__(self, name: str) -> TakenFile:
        if name not in self._files:
            raise StateError(
                f"{self._lines.path}: {name} was applied, but this file does not list it; restore a copy of the folder"
            )
        return self._files[name]

    def add(self, name: str, batch_id: str, data: bytes, stamp: Stamp) -> None:
        """Record a file that is about to be applied as part of a batch; durable when this returns."""
        self._write(name, TakenFile(batch_id, len(data), digest_of(data).hex(), stamp))

    def update(self, name: str, stamp: Stamp) -> None:
        """Record how an applied file looks now, so that the same change is not reported again."""
        self._write(name, replace(self[name], stamp=stamp))

    def _write(self, name: str, file: TakenFile) -> None:
        self._lines.append({"file": name, **asdict(file)})
        self._files[name] = file


class Files(Protocol[_Place]):
    """A file system; None if the file is gone."""

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
    """Takes files that no longer change. Only differences between the seconds of `clock` matter."""

    def __init__(
        self, files: Files[Place], state: Path, moment: float = MOMENT, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.taken = TakenFiles(state)
        self.moment = moment
        # Files that are still changing, and since when.
        self.changing: dict[str, float] = {}
        self._files = files
        self._clock = clock
        self._looks: dict[str, tuple[Stamp, float]] = {}

    def look(self, name: str, place: Place) -> Stamp | None:
        """The stamp of a file that has not changed for a moment; None if it is gone or still `changing`."""
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
        """The content of a file that did not change for a moment before, nor while it was read; None as in `look`."""
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
        """The files that have been changing for a long time."""
        return [name for name, since in self.changing.items() if self._clock() - since > _SLOW_SECONDS]

    def recheck(self, sink: ChangeSink, name: str, place: Place) -> AppliedBatch | None:
        """Report, once, a file that has changed since it was applied; None if it has not, or is still changing."""
        stamp, file = self._files.stamp(place), self.taken[name]
        if stamp is None or stamp == file.stamp:
            self._forget(name)
            return None
        found = self.read(name, place)
        if found is None:
            return None
        data, stamp = found
        batch = None
        batch_id = f"{name}, changed to {digest_of(data).hex()[:16]}"
        if not file.has_content(data) and not sink.has_applied(batch_id):
            batch = sink.apply(batch_id, reject_whole(name, _explain_change(name, file, data)))
        self.taken.update(name, stamp)
        return batch

    def _forget(self, name: str) -> None:
        self._looks.pop(name, None)
        self.changing.pop(name, None)


def _explain_change(name: str, file: TakenFile, data: bytes) -> str:
    begin = data[: file.size]
    if len(data) > file.size and file.has_content(begin):
        cut = "" if begin.endswith(b"\n") else ", and its last row may have been applied cut short"
        sizes = f"from {file.size:,} to {len(data):,} bytes"
        what = f"has grown {sizes} since it was applied: the rest was not applied{cut}"
    else:
        what = f"has changed since it was applied: its new content, {len(data):,} bytes, was not applied"
    return f"{name}: this file {what}; send what is missing in a file of another name, and {_ADVICE}"


def folder_at(source: str) -> Path | None:
    """The local folder or change file that a source names; None if the source is not local.

    UsageError if it does not exist, or is a file of another format: Spark would skip it silently.
    """
    if urlsplit(source).scheme not in ("", "file"):
        return None
    folder = Path(source.removeprefix("file://")).absolute()
    if not folder.exists():
        raise UsageError(f"there is no folder {source} to read change files from")
    if folder.is_file() and format_of(folder.name) is None:
        raise UsageError(f"{source} is not a change file; those are Parquet, CSV or JSON lines: {', '.join(endings())}")
    return folder


class Follower:
    """A folder, or a single file, and the sink of its changes. The state folder is not part of the source.

    A file that is still being written holds back later ones, so that changes are applied in the order of names.
    """

    def __init__(
        self,
        source: Path,
        sink: ChangeSink,
        folder: Path,
        *,
        moment: float = MOMENT,
        files: LocalFiles | None = None,
        clock: Callable[[], float] = time.monotonic,
        notation: Notation = DEFAULT,
    ) -> None:
        folder_at(str(source))
        self.source = source
        self.notation = notation
        self.sink = sink
        self.taker = Taker(files or LocalFiles(), folder, moment, clock)
        self._folder = folder.resolve()

    def drain(self) -> Iterator[AppliedBatch]:
        """Apply the waiting files, up to the first that is still changing."""
        found = {self.batch_id(path): path for path in self._change_files()}
        yield from apply_files(self.sink, self.taker, found, self.notation)

    def batch_id(self, path: Path) -> str:
        return path.name if self.source.is_file() else path.relative_to(self.source).as_posix()

    def _change_files(self) -> list[Path]:
        if self.source.is_file():
            return [self.source]
        return sorted(path for path in self.source.rglob("*") if self._is_change_file(path))

    def _is_change_file(self, path: Path) -> bool:
        parts = path.relative_to(self.source).parts
        if any(part.startswith((".", "_")) for part in parts) or format_of(path.name) is None or not path.is_file():
            return False
        return self._folder not in path.resolve().parents


def apply_files(
    sink: ChangeSink, taker: Taker[Place], found: Mapping[str, Place], notation: Notation = DEFAULT
) -> Iterator[AppliedBatch]:
    """Apply new files, in the given order, up to the first that is still changing; report changes of applied ones."""
    taker.keep(found)
    waiting = [name for name in found if not sink.has_applied(name)]
    for name in waiting:
        taker.look(name, found[name])
    for name in sorted(found.keys() - set(waiting)):
        batch = taker.recheck(sink, name, found[name])
        if batch is not None:
            yield batch
    for number, name in enumerate(waiting, start=1):
        batch = _apply_file(sink, taker, name, found[name], notation)
        if batch is not None:
            yield replace(batch, n_waiting=len(waiting) - number)
        elif name in taker.changing:
            return


def _apply_file(
    sink: ChangeSink, taker: Taker[Place], name: str, place: Place, notation: Notation
) -> AppliedBatch | None:
    """Apply a change file as a batch; None if it is gone, or still being written."""
    start = time.perf_counter()
    found = taker.read(name, place)
    if found is None:
        return None
    data, stamp = found
    taker.taken.add(name, name, data, stamp)
    batch = sink.apply(name, read_or_reject(name, lambda: read_changes(name, data, sink.schema, notation)))
    lag = max(0.0, time.time() - stamp.mtime_ns / 1e9)
    return replace(batch, seconds=time.perf_counter() - start, lag=lag)
