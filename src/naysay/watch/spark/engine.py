"""Watches on Spark: from a folder of change files or a streaming DataFrame, in this process or in parts.

A partitioned watch is for tables beyond one process: each part has a state of its own and is updated by a Spark task.
The changes of a batch pass through the driver, the state never does. A batch is one job of two stages: whole rows by
key, where changes are validated, then the rows of each group of rules. Every part remembers the batches that it has
applied and its replies, so a batch that is sent again, after a kill or by a task that Spark repeats, is completed and
not applied twice. The manifest of the output lists the batches that all parts have applied.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from naysay.errors import NaysayError, ResourceError, RuleError, StateError, UsageError
from naysay.live.feed.changes import (
    NO_ROW,
    AppliedBatch,
    ChangeOp,
    ChangeRows,
    FirstBatchError,
    RejectedChange,
    conform,
    first_batch_error,
    no_changes,
    reject_whole,
)
from naysay.live.feed.output import FileList, Manifest, write_bytes, write_rejected
from naysay.live.journal.journal import journal_exists
from naysay.live.journal.seal import crash_point, read_sealed, sealed
from naysay.live.journal.serial import (
    DIGEST_BYTES,
    digest_of,
    rules_from_json,
    rules_to_json,
    schema_from_bytes,
    schema_to_bytes,
)
from naysay.live.layout import Layout, layout_of, named
from naysay.live.spark.folder import FolderSource
from naysay.live.spark.stream import FrameSource, Stream, StreamOptions
from naysay.rule.model import Nulls, Rule
from naysay.spark.frame import from_arrow, map_in_arrow
from naysay.spark.session import cancelled_if_interrupted, plain_errors
from naysay.spark.versions import deal_out, to_arrow
from naysay.table.compatibility import check_rule
from naysay.watch.feed import Feed, FeedOptions, open_feed
from naysay.watch.part import PartPlan, Reply, Task, groups_of, part_numbers, rows_group
from naysay.watch.spark.worker import SCHEMA, Record, apply_pieces, changes_bytes, check_changes, read_status, send_rows
from naysay.watch.spark.worker import write_current as write_current_files

# In states of version 3, rules without equal columns have a single part.
VERSION, _VERSION_WITHOUT_VISITS = 4, 3
_SETTINGS = "settings.json"
_LAYOUT = "layout.arrow"
Show = Callable[[AppliedBatch], None] | None


class PartitionedWatch:
    """The driver's side of a partitioned watch, as a change sink."""

    def __init__(self, session: SparkSession, rules: Mapping[str, Rule], plan: PartPlan) -> None:
        self.rules = rules
        self._session = session
        self._plan = plan
        self._n_places = len(plan.parts)
        self._folder = plan.state / "parts"
        self._manifest = Manifest(plan.output)
        self._layout = self._read_layout()
        self._applied = {entry.batch_id for entry in self._manifest.entries if entry.kind == "rows"}
        self._replies: dict[int, Reply] = {}
        # A batch that some part has and the manifest has not: after a kill in between, it is sent again first.
        self._unfinished: str | None = None
        self._check_parts()

    @property
    def schema(self) -> pa.Schema | None:
        return None if self._layout is None else self._layout.schema

    @property
    def n_rows(self) -> int:
        return sum(reply["n_rows"] for reply in self._replies.values() if reply["group"] == self._plan.rows.name)

    @property
    def counts(self) -> Mapping[str, int]:
        total = Counter(dict.fromkeys(self.rules, 0))
        for reply in self._replies.values():
            total.update(reply["counts"])
        return dict(total)

    def has_applied(self, batch_id: str) -> bool:
        return batch_id in self._applied

    def admit(self, changes: ChangeRows) -> ChangeRows:
        """Give changes the table's columns; TableError if they do not fit, FirstBatchError if the first do not."""
        try:
            if self._layout is None and not (changes.ops == ChangeOp.INSERT).any():
                return _reject_all(changes, self._plan.key)
            layout = conform(changes, self._layout, self._plan.key)
            if layout is not None and layout is not self._layout:
                for rule in self.rules.values():
                    check_rule(layout.schema, rule)
                self._write_layout(layout)
            return changes
        except (UsageError, RuleError) as error:
            if self._layout is None:
                raise first_batch_error(changes.sources[0], error) from error
            raise

    def apply(self, batch_id: str, changes: ChangeRows) -> AppliedBatch:
        start = time.perf_counter()
        if changes.n_changes and self._unfinished not in (None, batch_id):
            raise self._outdated()
        try:
            changes = self.admit(changes)
        except (ResourceError, StateError, FirstBatchError):
            raise
        except NaysayError as error:
            changes = reject_whole(changes.sources[0], error, changes.rejected)
        task = Task(batch_id, len(self._applied) + 1)
        replies = self._run_batch(changes, task) if changes.n_changes else []
        by_place = {self._place(reply): reply for reply in replies}
        found = (RejectedChange(*item) for reply in replies for item in reply.get("rejected", ()))
        rejected = [*changes.rejected, *found]
        files = _merge_files(reply["files"] for reply in replies)
        files |= write_rejected(rejected, task.seq, self._plan.output)
        crash_point("parts.answered")
        positions = {str(place): reply["position"] for place, reply in by_place.items()}
        self._manifest.enter(task.seq, "rows", batch_id, files, positions=positions)
        crash_point("parts.manifest")
        self._applied.add(batch_id)
        self._unfinished = None if self._unfinished == batch_id else self._unfinished
        self._replies |= by_place
        return AppliedBatch(
            batch_id,
            changes.n_changes,
            self.n_rows,
            None if self._plan.counting else sum(reply["n_added"] for reply in replies),
            None if self._plan.counting else sum(reply["n_removed"] for reply in replies),
            self.counts,
            rejected,
            [sentence for reply in replies for sentence in reply["sentences"]][: self._plan.n_sentences],
            time.perf_counter() - start,
        )

    def write_current(self) -> None:
        seq, plan = len(self._applied), self._plan
        stages = [partial(write_current_files, plan, seq)]
        if not plan.counting and any(group.visited for group in plan.groups):
            stages.insert(0, partial(send_rows, plan))
        self._manifest.enter_current(seq, lambda: _merge_files(self._run(self._current_records(), *stages)))

    def _current_records(self) -> list[Record]:
        """Who writes the current violations: all parts, but only the first of a group if only all together count."""
        records = []
        for place in self._replies:
            part = self._plan.parts[place]
            if not (self._plan.counting and part.group.visited):
                records.append((place, "current", b""))
            elif part.number == 0:
                counts = {name: self.counts[name] for name in part.group.rules}
                records.append((place, "current", json.dumps(counts).encode()))
        return records

    def close(self) -> None:
        """Nothing is open between batches."""

    def _run_batch(self, changes: ChangeRows, task: Task) -> list[Reply]:
        parts = part_numbers(changes.table, self._plan.key, self._plan.rows.n_parts)
        records = [
            (part, "changes", changes_bytes(changes, np.flatnonzero(parts == part)))
            for part in np.unique(parts).tolist()
        ]
        check = partial(check_changes, self._plan, task, changes.sources)
        return self._run(records, check, partial(apply_pieces, self._plan, task))

    def _run(self, records: Sequence[Record], *stages: Any) -> list[Any]:
        """Send records to their places, stage after stage, and return the replies."""
        if not records:
            return []
        columns = [pa.array(values, field.type) for values, field in zip(zip(*records), SCHEMA)]  # noqa: B905
        with plain_errors("the stream"), cancelled_if_interrupted(self._session):
            frame = from_arrow(self._session, pa.table(columns, schema=SCHEMA))
            for stage in stages:
                frame = map_in_arrow(deal_out(frame, self._n_places, F.col("place")), stage, SCHEMA)
            found = to_arrow(frame.select("content"))
        return [json.loads(content) for content in found["content"].to_pylist()]

    def _check_parts(self) -> None:
        """Open every existing part: each must have reached the position in the manifest."""
        positions: dict[int, Any] = {}
        n_batches: Counter[int] = Counter()
        for entry in self._manifest.entries:
            entered = {int(place): position for place, position in entry.notes.get("positions", {}).items()}
            positions |= entered
            n_batches.update(entered.keys())
        records = [
            (place, "status", json.dumps(positions[place]).encode() if place in positions else b"")
            for place, part in enumerate(self._plan.parts)
            if place in positions or part.folder.exists()
        ]
        for reply in self._run(records, partial(read_status, self._plan)):
            place = self._place(reply)
            self._replies[place] = reply
            n_ahead = reply["n_batches"] - n_batches[place]
            if n_ahead > 1 or (n_ahead == 1 and self._unfinished not in (None, reply["last_batch"])):
                raise self._outdated()
            self._unfinished = reply["last_batch"] if n_ahead else self._unfinished

    def _outdated(self) -> StateError:
        return StateError(
            f"{self._manifest.path}: the parts have batches that it does not list: it is an older copy, or damaged; "
            "restore a copy of the whole folder"
        )

    def _place(self, reply: Reply) -> int:
        return self._plan.place(reply["group"], reply["part"])

    def _read_layout(self) -> Layout | None:
        path = self._folder / _LAYOUT
        if not path.exists():
            if any(entry.notes.get("positions") for entry in self._manifest.entries):
                raise StateError(f"{path}: this file is missing; restore a copy of the folder")
            return None
        data = path.read_bytes()
        check, schema = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
        if digest_of(schema) != check:
            raise StateError(f"{path}: this file is damaged; restore a copy of the folder")
        return Layout(schema_from_bytes(schema), self._plan.key)

    def _write_layout(self, layout: Layout) -> None:
        data = schema_to_bytes(layout.schema)
        write_bytes(digest_of(data) + data, self._folder / _LAYOUT, self._folder)
        self._layout = layout


def _merge_files(lists: Any) -> FileList:
    return {name: entry for files in lists for name, entry in files.items()}


def _reject_all(changes: ChangeRows, key: tuple[str, ...]) -> ChangeRows:
    """Before the first insert there is no row to update or delete."""
    if changes.n_changes:
        layout_of(changes.table, key)
    changes.reject(np.arange(changes.n_changes), lambda place: NO_ROW)
    return no_changes(changes.sources[0], changes.rejected)


def open_partitioned(
    session: SparkSession,
    rules: Mapping[str, Rule] | None,
    key: tuple[str, ...],
    stream: StreamOptions,
    options: FeedOptions,
) -> PartitionedWatch:
    """The partitioned watch of a state folder, created if there is none. Its rules and options never change."""
    folder = stream.state / "parts"
    path = folder / _SETTINGS
    given: dict[str, Any] = {
        "key": list(key),
        "nulls": options.nulls,
        "counting": options.counting,
        "index": options.index,
        "rules": None if rules is None else json.loads(rules_to_json(rules)),
        "partitions": stream.partitions,
    }
    if path.exists():
        settings = _read_settings(path, given)
    else:
        settings = _new_settings(stream.state, given)
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(sealed(settings)[0] + b"\n", path, folder)
    kept = named(rules_from_json(json.dumps(settings["rules"]).encode()))
    n_parts, kept_key = settings["partitions"], tuple(settings["key"])
    # The method of the Weever paper only knows rows that it stores.
    visits = settings["version"] != _VERSION_WITHOUT_VISITS and settings["index"] == "auto"
    plan = PartPlan(
        stream.state.resolve(),
        kept_key,
        settings["nulls"],
        settings["counting"],
        settings["index"],
        options.n_sentences,
        rows_group(kept, kept_key, n_parts),
        tuple(groups_of(kept, kept_key, n_parts, visits=visits)),
    )
    return PartitionedWatch(session, kept, plan)


def _new_settings(state: Path, given: dict[str, Any]) -> dict[str, Any]:
    if journal_exists(state / "state.duckdb"):
        raise UsageError(f"{state}: this state is not in parts; choose another folder")
    lost = state / "parts" / _SETTINGS
    if lost.parent.exists() and any(not path.name.startswith(".") for path in lost.parent.iterdir()):
        raise StateError(f"{lost}: this file is missing; restore a copy of the folder")
    if given["rules"] is None:
        raise UsageError(f"{state}: there is no state here yet; give the rules to watch")
    if not given["key"]:
        raise UsageError("a watch needs a key: the column or columns that identify a row (key=, --key)")
    return {"version": VERSION, **given, "nulls": given["nulls"] or Nulls.SQL.value}


def _read_settings(path: Path, given: dict[str, Any]) -> dict[str, Any]:
    kept = read_sealed(path, VERSION, _VERSION_WITHOUT_VISITS)
    for name, value in given.items():
        if value not in (None, [], kept.get(name)):
            raise UsageError(
                f"{path.parent.parent}: this state was created with other {name}, and a watch in parts keeps them; "
                "leave them out, or choose another folder"
            )
    return kept


def open_sink(
    session: SparkSession,
    rules: Mapping[str, Rule] | None,
    key: Sequence[str],
    stream: StreamOptions,
    options: FeedOptions,
) -> tuple[Feed | PartitionedWatch, list[str]]:
    """What the changes are fed to, in this process or in parts; also says which rules have changed."""
    if stream.partitions < 0:
        raise UsageError(f"partitions must be 0 (everything in this process) or more, not {stream.partitions}")
    if not stream.partitions:
        return open_feed(stream.state, rules, key, options)
    return open_partitioned(session, rules, tuple(key), stream, options), []


def follow_folder(
    session: SparkSession, source: str, sink: Feed | PartitionedWatch, options: StreamOptions, show: Show
) -> Stream:
    """Feed a folder's change files to a sink."""
    admit = sink.admit if isinstance(sink, PartitionedWatch) else None
    folder = FolderSource(session, source, options.state, admit, notation=options.notation)
    return Stream(folder, sink, options, show)


def watch_frame(
    frame: Any,
    rules: Sequence[Rule] | None,
    key: Sequence[str],
    *,
    order: Sequence[str],
    stream: StreamOptions,
    options: FeedOptions,
    show: Show,
) -> Stream:
    """Watch a streaming DataFrame; see `api.watch_stream`."""
    source = FrameSource(frame, order)
    sink, _ = open_sink(frame.sparkSession, None if rules is None else named(rules), key, stream, options)
    try:
        return Stream(source, sink, stream, show)
    except BaseException:
        sink.close()
        raise
