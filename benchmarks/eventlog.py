"""What Spark's event log says about the tasks of a run: rows, bytes, seconds and memory of each, stage by stage.

The log must be uncompressed JSON lines (`spark.eventLog.enabled`, `spark.eventLog.compress` false). Spark writes it as
tasks end, so it can be read while the application runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task that succeeded. Times are in seconds; `rows` and `bytes` are what it read, from files or by shuffle.

    `is_result`: what it returns goes to the driver.
    """

    stage: int
    start: float
    finish: float
    rows: int
    bytes: int
    rows_shuffled: int
    bytes_shuffled: int
    bytes_spilled: int
    bytes_returned: int
    peak_memory: int
    rows_written: int
    bytes_written: int
    is_result: bool

    @property
    def seconds(self) -> float:
        return self.finish - self.start


@dataclass(slots=True)
class StageRecord:
    """A stage that ran. `in_python`: its tasks hand rows to Python workers.

    `joins`: they join rows before. What comes out of a join is streamed through Python; whole groups of rows come
    straight from a shuffle.
    """

    number: int
    name: str
    in_python: bool = False
    joins: bool = False
    start: float = 0.0
    finish: float = 0.0
    tasks: list[TaskRecord] = field(default_factory=list)


def read_stages(log: Path, since: float = 0.0, until: float = float("inf")) -> list[StageRecord]:
    """The stages that were submitted between two moments, in seconds since 1970, with their tasks."""
    stages: dict[int, StageRecord] = {}
    for event in _events(log):
        kind = event["Event"]
        if kind == "SparkListenerStageCompleted":
            info = event["Stage Info"]
            stage = stages.setdefault(info["Stage ID"], StageRecord(info["Stage ID"], ""))
            stage.name = info["Stage Name"]
            scopes = [rdd.get("Scope", "") for rdd in info["RDD Info"]]
            stage.in_python = any("MapInArrow" in scope for scope in scopes)
            # Compiled by Spark, a join has no scope of its own, but its two inputs are zipped.
            names = [*scopes, *(rdd.get("Name", "") for rdd in info["RDD Info"])]
            stage.joins = any("Join" in name or "ZippedPartitions" in name for name in names)
            stage.start, stage.finish = info.get("Submission Time", 0) / 1e3, info.get("Completion Time", 0) / 1e3
        elif kind == "SparkListenerTaskEnd" and event["Task End Reason"]["Reason"] == "Success":
            stage = stages.setdefault(event["Stage ID"], StageRecord(event["Stage ID"], ""))
            stage.tasks.append(_task(event))
    ran = [stage for stage in stages.values() if stage.tasks and stage.name]
    return sorted((stage for stage in ran if since <= stage.start <= until), key=lambda stage: stage.start)


def _events(log: Path) -> Iterator[Mapping[str, Any]]:
    """The events of a log: a file, or a folder of files."""
    files = sorted(path for path in log.rglob("*") if path.is_file()) if log.is_dir() else [log]
    for path in files:
        if path.name.startswith((".", "appstatus")):
            continue
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                # The last line of a running application may be incomplete.
                if line.endswith("}\n") and (
                    '"SparkListenerStageCompleted"' in line or '"SparkListenerTaskEnd"' in line
                ):
                    yield json.loads(line)


def _task(event: Mapping[str, Any]) -> TaskRecord:
    info, metrics = event["Task Info"], event.get("Task Metrics") or {}
    read = metrics.get("Shuffle Read Metrics", {})
    written = metrics.get("Shuffle Write Metrics", {})
    source = metrics.get("Input Metrics", {})
    shuffled = read.get("Remote Bytes Read", 0) + read.get("Local Bytes Read", 0)
    return TaskRecord(
        event["Stage ID"],
        info["Launch Time"] / 1e3,
        info["Finish Time"] / 1e3,
        source.get("Records Read", 0) + read.get("Total Records Read", 0),
        source.get("Bytes Read", 0) + shuffled,
        read.get("Total Records Read", 0),
        shuffled,
        metrics.get("Memory Bytes Spilled", 0) + metrics.get("Disk Bytes Spilled", 0),
        metrics.get("Result Size", 0),
        metrics.get("Peak Execution Memory", 0),
        written.get("Shuffle Records Written", 0),
        written.get("Shuffle Bytes Written", 0),
        event["Task Type"] == "ResultTask",
    )


def all_tasks(stages: Iterable[StageRecord]) -> list[TaskRecord]:
    return [task for stage in stages for task in stage.tasks]
