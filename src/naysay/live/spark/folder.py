"""A folder of change files as a stream: Spark finds the files; each is one batch, identified by its name.

Every trigger applies all waiting files in the order of their names, as the local follower does: both give the same
results, one can continue where the other stopped, and all files share the time that Spark needs per trigger.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from naysay.errors import StateError, TableError
from naysay.io.notation import DEFAULT, Notation
from naysay.live.feed.change_files import format_of, read_changes
from naysay.live.feed.changes import AppliedBatch, ChangeRows, ChangeSink, merge_changes, read_or_reject, reject_whole
from naysay.live.feed.follow import MOMENT, LocalFiles, Stamp, Taker, apply_files, folder_at
from naysay.live.journal.serial import digest_of
from naysay.spark.session import NOT_FOUND, SPARK_ERRORS
from naysay.spark.versions import to_arrow

Admit = Callable[[ChangeRows], ChangeRows]
_SCHEMA = "path STRING, modificationTime TIMESTAMP, length LONG, content BINARY"
_PAUSE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class _File:
    """A change file as Spark names it, and its name in the folder."""

    path: str
    name: str
    local: Path | None


class _Files:
    """Files of this machine, and of any file system that Spark can read."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._local = LocalFiles()
        # The stamps that the last listing brought along. Each is used once: to look at a file is a job.
        self._listed: dict[str, Stamp] = {}

    def stamp(self, place: _File) -> Stamp | None:
        if place.local is not None:
            return self._local.stamp(place.local)
        listed = self._listed.pop(place.path, None)
        return listed or next(iter(self._stamps(place.path).values()), None)

    def read(self, place: _File) -> bytes | None:
        if place.local is not None:
            return self._local.read(place.local)
        content = self._look(place.path, "content")
        return bytes(content["content"][0].as_py()) if content.num_rows else None

    def list_paths(self, base: str) -> list[str]:
        """The paths of all files in a folder that is not local."""
        self._listed = self._stamps(base)
        return list(self._listed)

    def forget_listing(self) -> None:
        self._listed = {}

    def _stamps(self, path: str) -> dict[str, Stamp]:
        found = self._look(path, "path", "length", "modificationTime")
        times = found["modificationTime"].cast(pa.int64())
        columns = (column.to_pylist() for column in (found["path"], found["length"], times))
        return {name: Stamp(size, 1000 * microseconds, 0) for name, size, microseconds in zip(*columns, strict=True)}

    def _look(self, path: str, *columns: str) -> pa.Table:
        """What Spark knows of the file, or of all files in the folder, at a path; no rows if there is none."""
        reader = self._session.read.format("binaryFile").option("recursiveFileLookup", True)
        # A path to read is a pattern; this one is a name.
        pattern = re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
        try:
            return to_arrow(reader.load(pattern).select(*columns))
        except SPARK_ERRORS as error:
            if re.search(NOT_FOUND, str(error)):
                return pa.table({name: [] for name in columns})
            raise


class FolderSource:
    """A folder that this process or Spark can read. The state folder is not part of it.

    With `admit`, which gives changes the table's columns, all files of a trigger are one batch: for a sink with
    expensive batches. Spark's checkpoint is then part of the state.
    """

    kind = "folder"

    def __init__(
        self,
        session: SparkSession,
        source: str,
        state: Path,
        admit: Admit | None = None,
        *,
        moment: float = MOMENT,
        clock: Callable[[], float] = time.monotonic,
        notation: Notation = DEFAULT,
    ) -> None:
        self._session = session
        self._notation = notation
        self._admit = admit
        self.pinned = admit is not None
        self._state = state.resolve()
        self._local = folder_at(source)
        self._base = source.rstrip("/") if self._local is None else self._local.as_posix()
        self._files = _Files(session)
        self._taker = Taker(self._files, state, moment, clock)

    def frame(self) -> DataFrame:
        """The streaming DataFrame."""
        reader = self._session.readStream.format("binaryFile").schema(_SCHEMA)
        options = {
            "recursiveFileLookup": True,
            # Ignore files that are gone again, but not old ones that arrive late.
            "ignoreMissingFiles": True,
            "maxFileAge": "36500d",
        }
        return reader.options(**options).load(self._base).select("path")

    def steps(self, sink: ChangeSink, batch: DataFrame, number: int) -> Iterator[AppliedBatch | None]:
        """Apply one of its batches; yields None from time to time while waiting, so that it can be stopped."""
        files = self._change_files([str(path) for path in to_arrow(batch)["path"].to_pylist()])
        if self._admit is not None:
            yield from self._apply_together(sink, files, number)
            return
        yield from self.changed(sink)
        while any(not sink.has_applied(file.name) and self._files.stamp(file) is not None for file in files):
            time.sleep(_PAUSE_SECONDS)
            yield from self.changed(sink)

    def changed(self, sink: ChangeSink) -> Iterator[AppliedBatch | None]:
        """Apply waiting files in order, and report changes of applied ones; None if some are still changing.

        Spark names each path only once; a file that was gone then and exists now is found here. If all files of a
        trigger are one batch, they are only reported.
        """
        files = {file.name: file for file in self._list_files()}
        if self._admit is not None:
            taken = self._taker.taken
            files = {
                name: file for name, file in files.items() if name in taken and sink.has_applied(taken[name].batch)
            }
            self._taker.keep(files)
            for name, file in files.items():
                step = self._taker.recheck(sink, name, file)
                if step is not None:
                    yield step
        else:
            yield from apply_files(sink, self._taker, files, self._notation)
        if self._taker.changing:
            yield None

    def _apply_together(self, sink: ChangeSink, files: Sequence[_File], number: int) -> Iterator[AppliedBatch | None]:
        names = digest_of(*(file.name for file in files)).hex()[:8]
        batch_id = f"batch {number}, {len(files)} files, {names}"
        if not files or sink.has_applied(batch_id):
            return
        self._files.forget_listing()
        for file in files:
            self._taker.look(file.name, file)
        changes = []
        for file in files:
            while (found := self._taker.read(file.name, file)) is None and file.name in self._taker.changing:
                time.sleep(_PAUSE_SECONDS)
                yield None
            self._refuse_another(file, batch_id, found)
            if found is None:
                gone = (
                    f"{file.name}: this file was removed before it was read; if you send it again, give it another name"
                )
                changes.append(reject_whole(file.name, gone))
                continue
            data, stamp = found
            self._taker.taken.add(file.name, batch_id, data, stamp)
            changes.append(self._admit_file(file.name, data, sink))
        yield sink.apply(batch_id, merge_changes(changes))

    def _refuse_another(self, file: _File, batch_id: str, found: tuple[bytes, Stamp] | None) -> None:
        """A batch that is sent again must have the same content: some parts may have applied it already."""
        taken = self._taker.taken
        if file.name not in taken or taken[file.name].batch != batch_id:
            return
        if found is None or not taken[file.name].has_content(found[0]):
            raise StateError(
                f"{file.path}: this file was changed or removed while {batch_id!r} was being applied; "
                "restore it as it was and start again"
            )

    def _admit_file(self, name: str, data: bytes, sink: ChangeSink) -> ChangeRows:
        assert self._admit is not None
        admit = self._admit
        return read_or_reject(name, lambda: admit(read_changes(name, data, sink.schema, self._notation)))

    def _list_files(self) -> list[_File]:
        """The change files in the folder, in order."""
        if self._local is None:
            paths = self._files.list_paths(self._base)
        elif self._local.is_file():
            paths = [str(self._local)]
        else:
            paths = [str(path) for path in self._local.rglob("*") if path.is_file()]
        return self._change_files(paths)

    def _change_files(self, paths: Sequence[str]) -> list[_File]:
        files = [self._file(path) for path in paths]
        return sorted(filter(self._is_change_file, files), key=lambda file: file.name.split("/"))

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
