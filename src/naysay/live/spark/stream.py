"""Structured Streaming as a source of changes: Spark finds what is new and remembers its progress, a sink applies it.

The sink runs in the driver's process, in foreachBatch, which is called at least once for each batch; the sink remembers
the batches that it has applied. So each change is applied once, even after kill -9.
"""

from __future__ import annotations

import atexit
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from naysay.errors import NaysayError, StateError, TableError, UsageError
from naysay.io.notation import DEFAULT, Notation
from naysay.live.feed.changes import OP_COLUMN, AppliedBatch, ChangeSink, read_or_reject, split_ops
from naysay.live.feed.output import write_bytes
from naysay.live.journal.seal import read_sealed, sealed
from naysay.live.spark.folder import FolderSource
from naysay.spark.session import STREAM_SETTINGS, plain_errors
from naysay.spark.versions import is_connect, to_arrow

# Current violations are written at most this often, and in at most this share of the time, while batches arrive; and
# once they have stopped.
_CURRENT_SECONDS, _CURRENT_SHARE = 10.0, 0.1
_POLL_SECONDS = 0.25
_LOOK_SECONDS = 1.0
_RECORD_VERSION = 2


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Where the state is, when to stop, and how often to look: every `interval` seconds, 0 for as fast as possible.

    `partitions` is 0 if the state is in this process. `notation` is that of CSV change files.
    """

    state: Path
    once: bool = False
    interval: float = 0.0
    partitions: int = 0
    notation: Notation = DEFAULT


class FrameSource:
    """Any streaming DataFrame: the columns of the table, and the op. `order` sorts the changes of a batch.

    Its methods are those of `FolderSource`. `pinned`: batches are identified only by Spark's numbers.
    """

    kind = "frame"
    pinned = True

    def __init__(self, frame: DataFrame, order: Sequence[str] = ()) -> None:
        if not getattr(frame, "isStreaming", False):
            raise UsageError(
                "watch_stream needs a streaming DataFrame, as from spark.readStream; for other frames use Watch"
            )
        missing = [name for name in (OP_COLUMN, *order) if name not in frame.columns]
        if missing:
            raise TableError(f"the stream has no column {missing[0]!r}; its columns are {', '.join(frame.columns)}")
        self._frame = frame
        self._order = [(name, "ascending") for name in order]

    def frame(self) -> DataFrame:
        return self._frame

    def steps(self, sink: ChangeSink, batch: DataFrame, number: int) -> Iterator[AppliedBatch | None]:
        batch_id = f"batch {number}"
        if sink.has_applied(batch_id):
            return
        table = to_arrow(batch)
        if table.num_rows == 0:
            return
        if self._order:
            table = table.sort_by(self._order)
        yield sink.apply(batch_id, read_or_reject(batch_id, lambda: split_ops(batch_id, table)))

    def changed(self, sink: ChangeSink) -> Iterator[AppliedBatch | None]:
        return iter(())


Source = FrameSource | FolderSource


class StreamRecord:
    """What a state folder remembers about its stream: set at the first start, and checked at each later one.

    Spark numbers the batches of a query. If batches are identified only by these numbers (`pinned`), the query must
    stay the same; Spark keeps its id in the checkpoint. Settings of Spark's own state are recorded too.
    """

    def __init__(self, state: Path, shape: Mapping[str, Any], spark: Mapping[str, str | None], *, pinned: bool) -> None:
        self.checkpoint = state.resolve() / "checkpoint"
        self._folder = state
        self._path = state / "stream.json"
        self._pinned = pinned
        self._drop_unfinished()
        wanted = {"version": _RECORD_VERSION, **shape, "spark": dict(spark), "query": None}
        if self._path.exists():
            self._content = read_sealed(self._path, _RECORD_VERSION)
            self._compare(wanted)
        else:
            self._content = wanted
            self._write()

    def _drop_unfinished(self) -> None:
        """Remove what a kill left of the very first batch's entry: Spark would refuse to start."""
        entries = list((self.checkpoint / "offsets").glob("*"))
        if not any(entry.name.isdigit() for entry in entries):
            for entry in entries:
                entry.unlink()

    def settle(self) -> None:
        """Called before the first batch of a start is applied: from now on only this query."""
        path = self.checkpoint / "metadata"
        try:
            found = str(json.loads(path.read_text("utf-8"))["id"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StateError(f"{path}: the checkpoint of this stream cannot be read: {error}") from error
        recorded = self._content["query"]
        if found == recorded:
            return
        if recorded is not None and self._pinned:
            raise StateError(f"{self.checkpoint}: this checkpoint belongs to another stream; restore the right one")
        self._content["query"] = found
        self._write()

    def _compare(self, wanted: Mapping[str, Any]) -> None:
        for name in wanted.keys() - {"query", "spark"}:
            if wanted[name] != self._content.get(name):
                raise UsageError(
                    f"{self._folder}: this state was created with {name} {self._content.get(name)!r}, not "
                    f"{wanted[name]!r}; keep it, or choose another folder"
                )
        for name, value in wanted["spark"].items():
            was = self._content["spark"].get(name)
            if was != value:
                raise UsageError(f"{self._folder}: this stream was started with {name}={was}, not {value}; set it so")
        if self._pinned and self._content["query"] is not None and not (self.checkpoint / "metadata").exists():
            raise StateError(f"{self.checkpoint}: the checkpoint of this stream is missing; restore a copy of it")

    def _write(self) -> None:
        write_bytes(sealed(self._content)[0] + b"\n", self._path, self._folder)


_running: dict[int, Stream] = {}


@atexit.register
def _close_running() -> None:
    """Close the states of streams that nobody closed, while everything needed for that still exists."""
    for stream in list(_running.values()):
        with suppress(Exception):
            stream.close()


def _take(number: int, batch: DataFrame, batch_id: int) -> None:
    """What Spark calls. Its gateway keeps this function, and any error with its traceback, until the process ends:
    neither may refer to the stream, or its state would be kept too.
    """
    failure = _running[number]._apply(batch, batch_id) if number in _running else "the stream is closed"
    if failure:
        raise RuntimeError(failure)


class Stream:
    """A running stream: `wait` for it or `stop` it. An error in a batch is raised by `wait`."""

    def __init__(
        self,
        source: Source,
        sink: ChangeSink,
        options: StreamOptions,
        show: Callable[[AppliedBatch], None] | None = None,
    ) -> None:
        self.sink = sink
        self._source = source
        self._show = show
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._stopping = False
        self._settled = False
        self._stale = True
        self._due = time.monotonic() + _CURRENT_SECONDS
        frame = source.frame()
        session = frame.sparkSession
        _refuse_connect(session)
        shape = {"source": source.kind, "partitions": options.partitions}
        spark = {name: session.conf.get(name, None) for name in STREAM_SETTINGS}
        self._record = StreamRecord(options.state, shape, spark, pinned=source.pinned)
        number = id(self)
        _running[number] = self
        writer = frame.writeStream.foreachBatch(lambda batch, batch_id: _take(number, batch, batch_id))
        # Not as_uri(): Spark takes the path as it is, and an escaped blank would be part of another name.
        writer = writer.option("checkpointLocation", f"file://{self._record.checkpoint}")
        trigger: dict[str, Any] = (
            {"availableNow": True} if options.once else {"processingTime": f"{options.interval} seconds"}
        )
        try:
            with plain_errors("the stream"):
                self._query = writer.trigger(**trigger).start()
        except BaseException:
            del _running[number]
            raise
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._keep_current, name="naysay-current", daemon=True)
        self._keeper.start()

    @property
    def is_running(self) -> bool:
        return bool(self._query.isActive)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the stream; True if it has ended. The current violations are then written."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._ended():
            if deadline is not None and time.monotonic() > deadline:
                return False
        with self._lock:
            if self._error is not None:
                raise self._error
            while self._report_changed() and not self._stopping:
                time.sleep(_POLL_SECONDS)
            self.sink.write_current()
            self._stale = False
        return True

    def stop(self) -> None:
        """Stop after the changes that are being applied, and write the current violations."""
        self._stopping = True
        # Not with the lock: here Spark waits for the batch that it has handed to us.
        self._query.stop()
        with self._lock:
            if self._error is None:
                self.sink.write_current()
            self._stale = False

    def close(self) -> None:
        """Stop, and close the state."""
        try:
            if self.is_running:
                self.stop()
        finally:
            self._stale, self._stopping = False, True
            _running.pop(id(self), None)
            self._over.set()
            self._keeper.join()
            self.sink.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _ended(self) -> bool:
        try:
            with plain_errors("the stream"):
                return bool(self._query.awaitTermination(_POLL_SECONDS))
        except NaysayError:
            if self._stopping:
                return True
            if self._error is not None:
                raise self._error from None
            raise

    def _apply(self, batch: DataFrame, number: int) -> str:
        """Apply a batch; returns why it could not be completed, or nothing."""
        with self._lock:
            try:
                if not self._stopping:
                    self._apply_steps(batch, number)
            except BaseException as error:
                # Spark gives up the jobs of a stream that is stopped: that is not an error of the batch.
                if not self._stopping or isinstance(error, NaysayError):
                    self._error = error
                return f"{type(error).__name__}: {error}"
            return "the stream is being stopped" if self._stopping else ""

    def _apply_steps(self, batch: DataFrame, number: int) -> None:
        if not self._settled:
            self._record.settle()
            self._settled = True
        for applied in self._source.steps(self.sink, batch, number):
            self._report(applied)
            if self._stopping:
                return

    def _report_changed(self) -> bool:
        """Report what has changed since it was applied; True if something is still changing."""
        found = list(self._source.changed(self.sink))
        for applied in found:
            self._report(applied)
        return None in found

    def _report(self, applied: AppliedBatch | None) -> None:
        if applied is not None:
            self._stale = True
            if self._show is not None:
                self._show(applied)

    def _keep_current(self) -> None:
        """While the stream runs, look for changed files and write the current violations from time to time."""
        looked = time.monotonic()
        while not self._stopping and self._error is None and not self._over.wait(_POLL_SECONDS):
            if time.monotonic() - looked < _LOOK_SECONDS:
                continue
            with self._lock:
                try:
                    if self._error is None and not self._stopping:
                        self._report_changed()
                        looked = time.monotonic()
                        if self._stale and looked >= self._due:
                            self.sink.write_current()
                            written = time.monotonic()
                            self._stale = False
                            self._due = written + max(_CURRENT_SECONDS, (written - looked) / _CURRENT_SHARE)
                except Exception as error:
                    self._error = error
            if self._error is not None:
                self._query.stop()


def _refuse_connect(session: SparkSession) -> None:
    if is_connect(session):
        raise UsageError(
            "a watch on Spark keeps its state next to the driver, which is elsewhere with Spark Connect; "
            "run it there, or with --engine local"
        )
