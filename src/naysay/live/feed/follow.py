"""Follow a folder of change files in this process: each is one batch, in the order of names."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from naysay.errors import UsageError
from naysay.live.feed.change_files import endings, format_of, read_changes
from naysay.live.feed.sink import Body, Step, read_or_aside
from naysay.live.feed.take import MOMENT, LocalFiles, Place, Taker


def folder_at(source: str) -> Path | None:
    """The folder or change file of this machine that a source names; None of a source elsewhere.

    UsageError if there is no such folder, or if the file has another format: Spark would skip it without a word.
    """
    if urlsplit(source).scheme not in ("", "file"):
        return None
    folder = Path(source.removeprefix("file://")).absolute()
    if not folder.exists():
        raise _not_there(source)
    if folder.is_file() and format_of(folder.name) is None:
        raise UsageError(f"{source} is not a change file; those are Parquet, CSV or JSON lines: {', '.join(endings())}")
    return folder


def _not_there(source: str) -> UsageError:
    return UsageError(f"there is no folder {source} to follow")


class Follower:
    """A folder, or a single file, and what its changes are fed to. The state's own folder is not part of it.

    A file that is still being written holds back those after it, so that changes are made in the order of names.
    """

    def __init__(
        self,
        source: Path,
        body: Body,
        folder: Path,
        *,
        moment: float = MOMENT,
        files: LocalFiles | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        folder_at(str(source))
        self.source = source
        self.body = body
        self.taker = Taker(files or LocalFiles(), folder, moment, clock)
        self._folder = folder.resolve()

    def drain(self) -> Iterator[Step]:
        """Apply the files that are waiting, up to the first that has not been still for a moment."""
        yield from apply_files(self.body, self.taker, {self.batch_id(path): path for path in self._found()})

    def batch_id(self, path: Path) -> str:
        return path.name if self.source.is_file() else path.relative_to(self.source).as_posix()

    def _found(self) -> list[Path]:
        if self.source.is_file():
            return [self.source]
        return sorted(path for path in self.source.rglob("*") if self._is_change_file(path))

    def _is_change_file(self, path: Path) -> bool:
        parts = path.relative_to(self.source).parts
        if any(part.startswith((".", "_")) for part in parts) or format_of(path.name) is None or not path.is_file():
            return False
        return self._folder not in path.resolve().parents


def apply_files(body: Body, taker: Taker[Place], found: Mapping[str, Place]) -> Iterator[Step]:
    """Apply the files of a folder, given in order, that are not known, up to the first that has not been still for a
    moment; report those that have changed since they were applied.
    """
    taker.keep(found)
    waiting = [name for name in found if not body.knows(name)]
    for name in waiting:
        taker.look(name, found[name])
    for name in sorted(found.keys() - set(waiting)):
        step = taker.recheck(body, name, found[name])
        if step is not None:
            yield step
    for place, name in enumerate(waiting, start=1):
        step = _apply_file(body, taker, name, found[name])
        if step is not None:
            yield replace(step, n_waiting=len(waiting) - place)
        elif name in taker.changing:
            return


def _apply_file(body: Body, taker: Taker[Place], name: str, place: Place) -> Step | None:
    """Apply a change file as a batch; None if it is gone, or still being written."""
    start = time.perf_counter()
    found = taker.read(name, place)
    if found is None:
        return None
    data, stamp = found
    taker.taken.add(name, name, data, stamp)
    changes = read_or_aside(name, lambda: read_changes(name, data, body.schema))
    step = body.apply(name, changes)
    lag = max(0.0, time.time() - stamp.mtime_ns / 1e9)
    return replace(step, seconds=time.perf_counter() - start, lag=lag)
