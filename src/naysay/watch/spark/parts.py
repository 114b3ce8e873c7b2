"""A watch in parts, for tables beyond one process: each part has a store of its own and is worked on by a Spark task.

The changes of a batch pass through the driver, the state never does. A batch is one job of two stages: rows by their
key, where changes are checked, then the rows of each group of rules. Every part knows the batches that it has applied
and keeps what it answered, so that a batch that is sent again, after a kill or by a task that Spark repeats, is
finished and not done twice. The manifest of the output says which batches are done altogether.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from naysay.errors import NaysayError, ResourceError, RuleError, StateError, UsageError
from naysay.live.feed.changes import NO_ROW, Aside, ChangeOp, ChangeRows, conform, no_changes
from naysay.live.feed.output import Described, Manifest, drop_older_standing, make_folders, write_aside, write_bytes
from naysay.live.feed.sink import Step, Unfit, unfit
from naysay.live.journal.crash import passing
from naysay.live.journal.seal import read_sealed, sealed
from naysay.live.journal.serial import digest_of, rules_from_json, rules_to_json, schema_from_bytes, schema_to_bytes
from naysay.live.layout import Layout, layout_of, named
from naysay.live.spark.stream import StreamOptions
from naysay.rule.model import Nulls, Rule
from naysay.spark.frame import from_arrow, map_in_arrow
from naysay.spark.session import errors_of_tasks, plain_errors
from naysay.table.compatibility import check_rule
from naysay.watch.feed import FeedOptions
from naysay.watch.part import Answer, PartPlan, Task, aside_of
from naysay.watch.partition import groups_of, part_numbers, rows_group
from naysay.watch.spark.worker import SCHEMA, ApplyPieces, AskStatus, CheckChanges, Places, WriteStanding, changes_bytes

VERSION = 2
_SETTINGS = "settings.json"
_LAYOUT = "layout.arrow"


class Parts:
    """The driver's side of a watch in parts, as a body."""

    def __init__(self, session: SparkSession, rules: Mapping[str, Rule], plan: PartPlan) -> None:
        self.rules = rules
        self._session = session
        self._plan = plan
        self._places = Places(plan)
        self._folder = plan.state / "parts"
        make_folders(plan.output)
        self._manifest = Manifest(plan.output)
        self._layout = self._read_layout()
        self._known = {entry.batch_id for entry in self._manifest.entries if entry.kind == "rows"}
        self._answers: dict[int, Answer] = {}
        # The batch that some part knows and the manifest does not: a kill came in between, so it is sent again first.
        self._begun: str | None = None
        self._ask_status()

    @property
    def schema(self) -> pa.Schema | None:
        return None if self._layout is None else self._layout.schema

    @property
    def n_rows(self) -> int:
        return sum(answer["n_rows"] for answer in self._answers.values() if answer["group"] == self._plan.rows.name)

    @property
    def counts(self) -> Mapping[str, int]:
        total = Counter(dict.fromkeys(self.rules, 0))
        for answer in self._answers.values():
            total.update(answer["counts"])
        return dict(total)

    def knows(self, batch_id: str) -> bool:
        return batch_id in self._known

    def admit(self, changes: ChangeRows) -> ChangeRows:
        """Bring changes to the table's columns; TableError where they do not fit, Unfit where the first ones do not."""
        try:
            return self._fitted(changes)
        except (UsageError, RuleError) as error:
            if self._layout is None:
                raise unfit(changes.sources[0], error) from error
            raise

    def _fitted(self, changes: ChangeRows) -> ChangeRows:
        if self._layout is None and not (changes.ops == ChangeOp.INSERT).any():
            return _unknown(changes, self._plan.key)
        layout = conform(changes, self._layout, self._plan.key)
        if layout is not None and layout is not self._layout:
            for rule in self.rules.values():
                check_rule(layout.schema, rule)
            self._write_layout(layout)
        return changes

    def apply(self, batch_id: str, changes: ChangeRows) -> Step:
        start = time.perf_counter()
        if changes.n_changes and self._begun not in (None, batch_id):
            raise self._outdated()
        changes = self._admitted(changes)
        task = Task(batch_id, len(self._known) + 1)
        answers = self._run_batch(changes, task) if changes.n_changes else []
        aside = [*changes.aside, *(aside_of(item) for answer in answers for item in answer.get("aside", ()))]
        files: Described = {}
        for answer in answers:
            files |= answer["files"]
        if aside:
            files |= write_aside(aside, self._plan.output / "aside" / f"{task.seq:010}.jsonl", self._plan.output)
        marks = {str(self._place(answer)): answer["mark"] for answer in answers}
        passing("parts.answered")
        self._manifest.enter(task.seq, "rows", batch_id, files, {"marks": marks})
        passing("parts.manifest")
        self._known.add(batch_id)
        self._begun = None if self._begun == batch_id else self._begun
        self._answers |= {self._place(answer): answer for answer in answers}
        return self._step(batch_id, changes.n_changes, answers, aside, time.perf_counter() - start)

    def write_standing(self) -> None:
        """Write the files of all parts, then the manifest's line about them, then drop older files."""
        seq = len(self._known)
        last = self._manifest.last("standing")
        if last is not None and last.seq == seq:
            return
        records = [(place, "standing", b"") for place in self._answers]
        files: Described = {}
        for part in self._run(records, WriteStanding(self._places, seq)):
            files |= part
        self._manifest.enter(seq, "standing", None, files)
        drop_older_standing(self._plan.output, files)

    def close(self) -> None:
        """Nothing is open between batches."""

    def _admitted(self, changes: ChangeRows) -> ChangeRows:
        try:
            return self.admit(changes)
        except (ResourceError, StateError, Unfit):
            raise
        except NaysayError as error:
            source = changes.sources[0]
            return no_changes(source, [*changes.aside, Aside(None, str(error), source=source)])

    def _run_batch(self, changes: ChangeRows, task: Task) -> list[Answer]:
        parts = part_numbers(changes.table, self._plan.key, self._plan.rows.n_parts)
        records = [
            (part, "changes", changes_bytes(changes, np.flatnonzero(parts == part)))
            for part in np.unique(parts).tolist()
        ]
        check = CheckChanges(self._places, task, changes.sources)
        return self._run(records, check, ApplyPieces(self._places, task))

    def _run(self, records: Sequence[tuple[int, str, bytes]], *stages: Any) -> list[Any]:
        """Send records to their places, stage after stage; gives the answers."""
        if not records:
            return []
        columns = [pa.array(values, field.type) for values, field in zip(zip(*records), SCHEMA)]  # noqa: B905
        with plain_errors("the stream"), errors_of_tasks():
            frame = from_arrow(self._session, pa.table(columns, schema=SCHEMA))
            for stage in stages:
                frame = map_in_arrow(frame.repartitionById(self._places.total, F.col("place")), stage, SCHEMA)
            found = frame.select("content").toArrow()
        return [json.loads(content) for content in found["content"].to_pylist()]

    def _ask_status(self) -> None:
        """Open every part that there is: each must be as far as the manifest says."""
        marks: dict[int, Any] = {}
        n_batches: Counter[int] = Counter()
        for entry in self._manifest.entries:
            found_marks = {int(place): mark for place, mark in entry.notes.get("marks", {}).items()}
            marks |= found_marks
            n_batches.update(found_marks.keys())
        found = [place for place in range(self._places.total) if place in marks or self._exists(place)]
        records = [(place, "status", json.dumps(marks[place]).encode() if place in marks else b"") for place in found]
        for answer in self._run(records, AskStatus(self._places)):
            place = self._place(answer)
            self._answers[place] = answer
            n_ahead = answer["n_batches"] - n_batches[place]
            if n_ahead > 1 or (n_ahead == 1 and self._begun not in (None, answer["last_batch"])):
                raise self._outdated()
            self._begun = answer["last_batch"] if n_ahead else self._begun

    def _outdated(self) -> StateError:
        return StateError(
            f"{self._manifest.path}: the parts know batches that it does not: it is an older copy, or damaged; "
            "put back a copy of the whole folder"
        )

    def _exists(self, place: int) -> bool:
        group, part = self._places.part(place)
        return self._plan.folder(group.name, part).exists()

    def _place(self, answer: Answer) -> int:
        return self._places.place(answer["group"], answer["part"])

    def _step(
        self, batch_id: str, n_changes: int, answers: Sequence[Answer], aside: Sequence[Aside], seconds: float
    ) -> Step:
        added, removed = (sum(answer[name] for answer in answers) for name in ("n_added", "n_removed"))
        sentences = [sentence for answer in answers for sentence in answer["sentences"]][: self._plan.n_sentences]
        return Step(batch_id, n_changes, self.n_rows, added, removed, self.counts, aside, sentences, seconds)

    def _read_layout(self) -> Layout | None:
        path = self._folder / _LAYOUT
        if not path.exists():
            if self._known_rows():
                raise StateError(f"{path}: this file is missing; put back a copy of the folder")
            return None
        data = path.read_bytes()
        if digest_of(data[16:]) != data[:16]:
            raise StateError(f"{path}: this file is damaged; put back a copy of the folder")
        return Layout(schema_from_bytes(data[16:]), self._plan.key)

    def _known_rows(self) -> bool:
        return any(entry.kind == "rows" and entry.notes.get("marks") for entry in self._manifest.entries)

    def _write_layout(self, layout: Layout) -> None:
        data = schema_to_bytes(layout.schema)
        write_bytes(digest_of(data) + data, self._folder / _LAYOUT, self._folder)
        self._layout = layout


def _unknown(changes: ChangeRows, key: tuple[str, ...]) -> ChangeRows:
    """Changes of rows that cannot be there, before the first insert."""
    if changes.n_changes:
        layout_of(changes.table, key)
    for place in range(changes.n_changes):
        changes.set_aside(place, NO_ROW)
    return no_changes(changes.sources[0], changes.aside)


def open_parts(
    session: SparkSession,
    rules: Mapping[str, Rule] | None,
    key: tuple[str, ...],
    stream: StreamOptions,
    options: FeedOptions,
) -> Parts:
    """The watch in parts of a state folder, made where there is none. Its rules and options stay as they were made."""
    folder = stream.state / "parts"
    path = folder / _SETTINGS
    given: dict[str, Any] = {
        "version": VERSION,
        "key": list(key),
        "nulls": options.nulls,
        "counting": options.counting,
        "index": options.index,
        "rules": None if rules is None else json.loads(rules_to_json(rules)),
        "partitions": stream.partitions,
    }
    settings = _read_settings(path, given) if path.exists() else _new_settings(stream.state, given)
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        line, _ = sealed(settings)
        write_bytes(line + b"\n", path, folder)
    kept = named(rules_from_json(json.dumps(settings["rules"]).encode()))
    n_parts, kept_key = settings["partitions"], tuple(settings["key"])
    plan = PartPlan(
        stream.state.resolve(),
        kept_key,
        settings["nulls"],
        settings["counting"],
        settings["index"],
        options.n_sentences,
        rows_group(kept, kept_key, n_parts),
        tuple(groups_of(kept, n_parts)),
    )
    return Parts(session, kept, plan)


def _new_settings(state: Path, given: dict[str, Any]) -> dict[str, Any]:
    if (state / "state.duckdb").exists():
        raise UsageError(f"{state}: this state is in one process; name another folder for one in parts")
    lost = state / "parts" / _SETTINGS
    if lost.parent.exists() and any(not path.name.startswith(".") for path in lost.parent.iterdir()):
        raise StateError(f"{lost}: this file is missing; put back a copy of the folder")
    if given["rules"] is None:
        raise UsageError(f"{state}: there is no state here yet; give the rules to watch")
    if not given["key"]:
        raise UsageError("a watch needs a key: the column or columns that identify a row")
    return {**given, "nulls": given["nulls"] or Nulls.SQL.value}


def _read_settings(path: Path, given: dict[str, Any]) -> dict[str, Any]:
    kept = read_sealed(path, VERSION)
    for name, value in given.items():
        if value not in (None, [], kept.get(name)):
            raise UsageError(
                f"{path.parent.parent}: this state was made with other {name}; a watch in parts keeps them: leave them "
                "out, or name another folder"
            )
    return kept
