"""Follow a folder of change files in this process: each is one batch, in the order of names."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from naysay.engines.local_changes import endings, format_of, read_changes
from naysay.errors import UsageError
from naysay.watch.feed import Body, Step, read_or_aside


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
    """A folder, or a single file, and what its changes are fed to. The state's own folder is no part of it."""

    def __init__(self, source: Path, body: Body, folder: Path) -> None:
        folder_at(str(source))
        self.source = source
        self.body = body
        self._folder = folder.resolve()

    def waiting(self) -> list[Path]:
        """The change files that were not applied yet, in the order of their names."""
        if self.source.is_file():
            found = [self.source]
        else:
            found = [path for path in self.source.rglob("*") if self._is_change_file(path)]
        return sorted(path for path in found if not self.body.knows(self.batch_id(path)))

    def drain(self) -> Iterator[Step]:
        """Apply every file that is waiting."""
        paths = self.waiting()
        for place, path in enumerate(paths, start=1):
            step = apply_file(self.body, self.batch_id(path), path)
            if step is not None:
                yield replace(step, n_waiting=len(paths) - place)

    def batch_id(self, path: Path) -> str:
        return path.name if self.source.is_file() else path.relative_to(self.source).as_posix()

    def _is_change_file(self, path: Path) -> bool:
        parts = path.relative_to(self.source).parts
        if any(part.startswith((".", "_")) for part in parts) or format_of(path.name) is None or not path.is_file():
            return False
        return self._folder not in path.resolve().parents


def apply_file(body: Body, batch_id: str, path: Path) -> Step | None:
    """Apply a change file as a batch; None where it is gone again."""
    start = time.perf_counter()
    try:
        data, written = path.read_bytes(), path.stat().st_mtime
    except FileNotFoundError:
        return None
    changes = read_or_aside(batch_id, lambda: read_changes(batch_id, data, body.schema))
    step = body.apply(batch_id, changes)
    return replace(step, seconds=time.perf_counter() - start, lag=max(0.0, time.time() - written))
