"""A folder of change files as a stream: Spark finds the files, each is one batch, known by its name.

Every trigger takes all files that are waiting and applies them in the order of their names, as the local follower does:
so both give the same answers, one can go on where the other stopped, and Spark's time a trigger is shared by all files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from pyspark.sql import DataFrame, SparkSession

from naysay.engines.local_changes import format_of, read_changes
from naysay.engines.local_follow import folder_at
from naysay.errors import TableError
from naysay.watch.changes import ChangeRows, merged
from naysay.watch.feed import Body, Step, read_or_aside
from naysay.watch.serial import digest_of

Admit = Callable[[ChangeRows], ChangeRows]
_SCHEMA = "path STRING, modificationTime TIMESTAMP, length LONG, content BINARY"


@dataclass(frozen=True, slots=True)
class _File:
    """A change file as Spark names it, and the name that it is known by."""

    path: str
    name: str
    local: Path | None


class FolderSource:
    """A folder that this process or Spark can read. The state's own folder is no part of it.

    With `admit`, which brings changes to the table's columns, all files of a trigger are one batch: for a body to which
    a batch is dear. Spark's checkpoint is part of the state then.
    """

    kind = "folder"

    def __init__(self, session: SparkSession, source: str, state: Path, admit: Admit | None = None) -> None:
        self._session = session
        self._admit = admit
        self.pinned = admit is not None
        self._state = state.resolve()
        self._local = folder_at(source)
        self._base = source.rstrip("/") if self._local is None else self._local.as_posix()

    def frame(self) -> DataFrame:
        reader = self._session.readStream.format("binaryFile").schema(_SCHEMA)
        options = {
            "recursiveFileLookup": True,
            # Files that are gone again never came; old ones that come late do come.
            "ignoreMissingFiles": True,
            "maxFileAge": "36500d",
        }
        return reader.options(**options).load(self._base).select("path")

    def steps(self, body: Body, batch: DataFrame, number: int) -> Iterator[Step]:
        found = [self._file(str(path)) for path in batch.toArrow()["path"].to_pylist()]
        files = sorted((file for file in found if self._is_change_file(file)), key=lambda file: file.name.split("/"))
        if self._admit is not None:
            yield from self._apply_together(body, files, number)
            return
        files = [file for file in files if not body.knows(file.name)]
        for place, file in enumerate(files, start=1):
            start = time.perf_counter()
            read = self._read(file, body)
            if read is not None:
                changes, written = read
                step = body.apply(file.name, changes)
                lag = None if written is None else max(0.0, time.time() - written)
                seconds = time.perf_counter() - start
                yield replace(step, seconds=seconds, n_waiting=len(files) - place, lag=lag)

    def _apply_together(self, body: Body, files: Sequence[_File], number: int) -> Iterator[Step]:
        names = digest_of(*(file.name for file in files)).hex()[:8]
        batch_id = f"batch {number}, {len(files)} files, {names}"
        if not files or body.knows(batch_id):
            return
        read = [found for file in files if (found := self._read(file, body)) is not None]
        yield body.apply(batch_id, merged([changes for changes, _ in read]))

    def _read(self, file: _File, body: Body) -> tuple[ChangeRows, float | None] | None:
        """The changes of a file and when it was written; None where it is gone again."""
        written = None
        if file.local is None:
            content = self._session.read.format("binaryFile").load(file.path).select("content").toArrow()["content"]
            data = content[0].as_py() if len(content) else None
        else:
            try:
                data, written = file.local.read_bytes(), file.local.stat().st_mtime
            except FileNotFoundError:
                data = None
        if data is None:
            return None
        admit = self._admit or (lambda changes: changes)
        return read_or_aside(file.name, lambda: admit(read_changes(file.name, data, body.schema))), written

    def _file(self, path: str) -> _File:
        if self._local is None:
            place = path.find(self._base.split("://", 1)[1]) + len(self._base.split("://", 1)[1])
            return _File(path, path[place:].lstrip("/") or PurePosixPath(path).name, None)
        local = Path(path.removeprefix("file:").replace("///", "/", 1))
        if local == self._local:
            return _File(path, local.name, local)
        try:
            return _File(path, local.relative_to(self._local).as_posix(), local)
        except ValueError:
            raise TableError(f"{path}: this file is not in the folder {self._local}") from None

    def _is_change_file(self, file: _File) -> bool:
        if format_of(file.name) is None or any(part.startswith((".", "_")) for part in file.name.split("/")):
            return False
        return file.local is None or self._state not in file.local.resolve().parents
