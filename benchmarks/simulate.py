"""How long a measured run would take on another cluster and for more rows: its tasks, replayed on N executors.

    python benchmarks/simulate.py [--rows 1e9,1e10] [--executors 10,40,100,400] [--cores 4] [--routes strips,...]
                                  [--verbs count,...] [--stragglers 0.02] [--lost 1] [--json docs/figures/scale.json]
                                  [--save docs/figures/scale-forecast.json]
    python benchmarks/simulate.py --predict 60000000      # from the two smaller sizes, beside what was measured

The task graphs are those that `scale.py` measured at two sizes. For each stage, the seconds of all its tasks are taken
to be a + b * rows, the number of tasks that grew to grow with the rows, and the number that did not to follow from the
bytes, as adaptive execution would have it. The spread between the tasks of a stage is the measured one. Spark may plan
another size in other stages: those that read alike are matched, and one that only the larger run has grows with the
rows. A cluster adds what one machine does not have: the network between executors, a driver that starts a limited
number of tasks per second, stragglers, and executors that are lost with everything they have computed.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np

FIGURES = Path(__file__).parents[1] / "docs" / "figures" / "scale.json"
# Spark's defaults: adaptive execution wants partitions of this size, but no more of them than that.
_ADVISED_BYTES = 64 << 20
_PARTITIONS = 200


@dataclass(frozen=True, slots=True)
class Stage:
    """The seconds of each task, the stages that must end before, and the driver's `delay` after they have.

    `bytes` are received by shuffle, and `largest` is the most rows that a task receives. One that `reads_table` has a
    task for each part of the files.
    """

    seconds: tuple[float, ...]
    after: tuple[int, ...] = ()
    delay: float = 0.0
    bytes: float = 0.0
    largest: float = 0.0
    reads_table: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """`network` is in bytes per second for each executor, `dispatch` in tasks per second.

    A share of tasks, the `stragglers`, take `slowdown` times as long; with `speculation`, a copy starts when half as
    long again has passed. At each moment of `losses` an executor is lost, and replaced after `replacement` seconds.
    """

    executors: int
    cores: int
    network: float = math.inf
    dispatch: float = math.inf
    stragglers: float = 0.0
    slowdown: float = 5.0
    speculation: bool = False
    losses: tuple[float, ...] = ()
    replacement: float = 60.0
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds from the start to the end; the share of core seconds that tasks used; how many tasks ran again."""

    makespan: float
    utilisation: float
    n_tasks: int
    n_again: int
    longest: float


_Task = tuple[int, int]


class _Replay:
    def __init__(self, stages: Sequence[Stage], cluster: Cluster) -> None:
        self.stages, self.cluster = stages, cluster
        self.rng = random.Random(cluster.seed)
        self.now, self.next_start = 0.0, 0.0
        self.events: list[tuple[float, int, str, Any]] = []
        self.n_events = 0
        # The tasks of each stage that are not done; which executor has the output of those that are.
        self.left = [set(range(len(stage.seconds))) for stage in stages]
        self.output: dict[_Task, int] = {}
        self.running: dict[_Task, tuple[int, float]] = {}
        self.queue: deque[_Task] = deque()
        self.submitted, self.enqueued = [False] * len(stages), [False] * len(stages)
        self.free = deque(core for core in range(cluster.executors) for _ in range(cluster.cores))
        self.alive = set(range(cluster.executors))
        self.busy, self.n_again, self.longest = 0.0, 0, 0.0

    def run(self) -> Outcome:
        for moment in self.cluster.losses:
            self._later(moment, "lose", None)
        self._submit_ready()
        while any(self.left) or not all(self.enqueued):
            if not self.events:
                raise ValueError("the stages wait for each other")
            self.now, _, kind, what = heapq.heappop(self.events)
            getattr(self, f"_{kind}")(what)
            self._start_tasks()
        cluster = self.cluster
        cores = cluster.executors * cluster.cores
        n_tasks = sum(len(stage.seconds) for stage in self.stages)
        share = self.busy / (self.now * cores) if self.now else 0.0
        return Outcome(self.now, share, n_tasks, self.n_again, self.longest)

    def _later(self, seconds: float, kind: str, what: Any) -> None:
        self.n_events += 1
        heapq.heappush(self.events, (self.now + seconds, self.n_events, kind, what))

    def _is_done(self, stage: int) -> bool:
        return self.enqueued[stage] and not self.left[stage]

    def _submit_ready(self) -> None:
        for number, stage in enumerate(self.stages):
            if not self.submitted[number] and all(map(self._is_done, stage.after)):
                self.submitted[number] = True
                self._later(stage.delay, "enqueue", number)

    def _enqueue(self, stage: int) -> None:
        self.enqueued[stage] = True
        self.queue.extend((stage, task) for task in sorted(self.left[stage]))
        if self._is_done(stage):
            self._submit_ready()

    def _start_tasks(self) -> None:
        held = []
        while self.queue and self.free:
            executor = self.free.popleft()
            if executor not in self.alive:
                continue
            task = self.queue.popleft()
            if not all(map(self._is_done, self.stages[task[0]].after)):
                # What it reads was lost, and is being computed again.
                held.append(task)
                self.free.appendleft(executor)
                continue
            start = max(self.now, self.next_start)
            self.next_start = start + 1 / self.cluster.dispatch
            seconds = self._seconds(task)
            self.longest = max(self.longest, seconds)
            self.running[task] = (executor, start)
            self._later(start + seconds - self.now, "finish", (task, executor, start))
        self.queue.extendleft(reversed(held))

    def _seconds(self, task: _Task) -> float:
        stage, cluster = self.stages[task[0]], self.cluster
        seconds = stage.seconds[task[1]]
        seconds += stage.bytes / len(stage.seconds) / (cluster.network / cluster.cores)
        if self.rng.random() < cluster.stragglers:
            seconds *= min(cluster.slowdown, 2.5) if cluster.speculation else cluster.slowdown
        return seconds

    def _finish(self, what: tuple[_Task, int, float]) -> None:
        task, executor, start = what
        if self.running.get(task) != (executor, start):
            # It was lost with its executor.
            return
        del self.running[task]
        self.busy += self.now - start
        self.free.append(executor)
        self.left[task[0]].discard(task[1])
        self.output[task] = executor
        if self._is_done(task[0]):
            self._submit_ready()

    def _lose(self, _: None) -> None:
        if len(self.alive) < 2:
            return
        lost = min(self.alive)
        self.alive.discard(lost)
        again = [task for task, (executor, _) in self.running.items() if executor == lost]
        for task in again:
            del self.running[task]
        needed = {before for number, stage in enumerate(self.stages) if self.left[number] for before in stage.after}
        for task, executor in list(self.output.items()):
            if executor == lost and task[0] in needed:
                del self.output[task]
                self.left[task[0]].add(task[1])
                again.append(task)
        self.n_again += len(again)
        self.queue.extendleft(sorted(again, reverse=True))
        self._later(self.cluster.replacement, "join", lost)

    def _join(self, executor: int) -> None:
        self.alive.add(executor)
        # Cores of its former life may still be listed as free.
        self.free = deque(core for core in self.free if core != executor)
        self.free.extend([executor] * self.cluster.cores)


def simulate(stages: Sequence[Stage], cluster: Cluster) -> Outcome:
    """Replay stages on a cluster, first come, first served."""
    return _Replay(stages, cluster).run()


def stages_of(line: Mapping[str, Any]) -> list[Stage]:
    """The stages of a measured run."""
    stages: list[Stage] = []
    finish: list[float] = []
    for each in line["graph"]:
        ready = max((finish[before] for before in each["after"]), default=0.0)
        delay = max(0.0, each["start"] - ready)
        reads_table = not each["bytes"] and each["rows"] >= line["rows"] / 2
        stages.append(
            Stage(tuple(each["seconds"]), tuple(each["after"]), delay, each["bytes"], each["largest"], reads_table)
        )
        finish.append(each["finish"])
    # What the driver does after the last stage.
    rest = max(0.0, line["seconds"] - max(finish, default=0.0))
    return [*stages, Stage((), tuple(range(len(stages))), rest)]


def scaled(small: Mapping[str, Any], large: Mapping[str, Any], rows: float) -> list[Stage]:
    """The stages for a number of rows, from runs at two sizes: those of the larger one, grown."""
    sizes = (small["rows"], large["rows"])
    before, after = stages_of(small), stages_of(large)
    matched = matches(small, large)
    stages = [
        _scaled_stage(before[matched[place]], stage, sizes, rows)
        if place in matched
        else _in_proportion(stage, rows / sizes[1])
        for place, stage in enumerate(after[:-1])
    ]
    return [*stages, _scaled_stage(before[-1], after[-1], sizes, rows)]


def matches(small: Mapping[str, Any], large: Mapping[str, Any]) -> dict[int, int]:
    """Which stage of the smaller run does what a stage of the larger one does, by their places.

    Spark may plan another size in other stages, such as a join without a shuffle. So stages are compared by what they
    read, in order: files or a shuffle, and how many rows for each row of the table.
    """
    kinds = [[_kind(stage, run["rows"]) for stage in run["graph"]] for run in (small, large)]
    blocks = SequenceMatcher(None, *kinds, autojunk=False).get_matching_blocks()
    return {block.b + i: block.a + i for block in blocks for i in range(block.size)}


def _kind(stage: Mapping[str, Any], rows: int) -> tuple[bool, int]:
    times = stage["rows"] / rows
    # Sums of groups may be some of the rows in a small table.
    return stage["bytes"] > 0, round(times) if times > 0.5 else 0


def _scaled_stage(small: Stage, large: Stage, sizes: tuple[int, int], rows: float) -> Stage:
    if not large.seconds:
        return replace(large, delay=max(small.delay, large.delay))
    total = _on_line((sum(small.seconds), sum(large.seconds)), sizes, rows)
    n_bytes = _on_line((small.bytes, large.bytes), sizes, rows)
    # The driver plans the same jobs, whatever the rows: the mean of two looks at it.
    delay = (small.delay + large.delay) / 2
    grows = large.reads_table or len(large.seconds) > len(small.seconds)
    return _grown(replace(large, delay=delay), rows / sizes[1], total, n_bytes, n_tasks_grow=grows)


def _in_proportion(stage: Stage, times: float) -> Stage:
    total, n_bytes = times * sum(stage.seconds), times * stage.bytes
    return _grown(stage, times, total, n_bytes, n_tasks_grow=stage.reads_table or len(stage.seconds) > 1)


def _grown(stage: Stage, times: float, total: float, n_bytes: float, *, n_tasks_grow: bool) -> Stage:
    """A stage on so many times the rows, with so many seconds of all tasks and so many bytes."""
    n_before = len(stage.seconds)
    if n_tasks_grow:
        n_tasks, largest = max(1, round(n_before * times)), stage.largest
    else:
        n_tasks = max(n_before, min(_PARTITIONS, math.ceil(n_bytes / _ADVISED_BYTES)))
        largest = stage.largest * times * n_before / n_tasks
    spread = np.quantile(np.array(stage.seconds), (np.arange(n_tasks) + 0.5) / n_tasks)
    seconds = spread * total / spread.sum() if spread.sum() else spread
    return replace(stage, seconds=tuple(seconds.tolist()), bytes=n_bytes, largest=largest)


def _on_line(values: tuple[float, float], sizes: tuple[int, int], at: float) -> float:
    """The value at a size, on the line through two; proportional if the line would start below zero."""
    slope = (values[1] - values[0]) / (sizes[1] - sizes[0])
    start = values[0] - slope * sizes[0]
    if slope < 0:
        return max(values)
    return values[1] * at / sizes[1] if start < 0 else start + slope * at


Name = tuple[int, str, str]


def runs_by_name(path: Path) -> dict[Name, dict[int, dict[str, Any]]]:
    """What was measured by the cores, route and verb, and then by the number of rows."""
    found: dict[Name, dict[int, dict[str, Any]]] = {}
    for line in json.loads(path.read_text())["measured"]:
        found.setdefault((line["cores"], line["route"], line["verb"]), {})[line["rows"]] = line
    return found


def predictions(path: Path, rows: int) -> Iterator[dict[str, Any]]:
    """Each run of that many rows as predicted from the two largest smaller ones on the same cores, and as measured."""
    for (cores, route, verb), runs in runs_by_name(path).items():
        smaller = sorted(size for size in runs if size < rows)[-2:]
        if rows not in runs or len(smaller) < 2:
            continue
        stages = scaled(runs[smaller[0]], runs[smaller[1]], rows)
        measured = runs[rows]["seconds"]
        predicted = simulate(stages, Cluster(1, cores)).makespan
        yield {
            "cores": cores,
            "route": route,
            "verb": verb,
            "from": smaller,
            "measured": measured,
            "predicted": predicted,
            "off": predicted / measured - 1,
        }


def prediction_text(path: Path, rows: int) -> str:
    """The predictions as a table."""
    lines = []
    for line in predictions(path, rows):
        sizes = " and ".join(f"{size:,}" for size in line["from"])
        numbers = (f"{line['measured']:.1f}", f"{line['predicted']:.1f}", f"{line['off']:+.0%}")
        lines.append([line["route"], line["verb"], str(line["cores"]), sizes, *numbers])
    return table_text(["route", "verb", "cores", "from rows", "measured, s", "predicted, s", "off by"], lines)


def forecasts(path: Path, args: argparse.Namespace) -> Iterator[list[str]]:
    """What larger tables would take on clusters, from the runs on most cores."""
    by_name = runs_by_name(path)
    most_cores = max(cores for cores, _, _ in by_name)
    for (cores, route, verb), runs in by_name.items():
        wanted = (not args.routes or route in args.routes.split(",")) and (
            not args.verbs or verb in args.verbs.split(",")
        )
        if not wanted or cores < most_cores or len(runs) < 2:
            continue
        small, large = (runs[size] for size in sorted(runs)[-2:])
        for rows in map(float, args.rows.split(",")):
            stages = scaled(small, large, rows)
            cells = [route, verb, f"{rows:.0e}", f"{sum(len(stage.seconds) for stage in stages):,}"]
            cells.append(f"{max(stage.largest for stage in stages):,.0f}")
            for executors in map(int, args.executors.split(",")):
                cluster = Cluster(
                    executors, args.cores, args.network, args.dispatch, args.stragglers, speculation=args.speculation
                )
                quiet = simulate(stages, cluster)
                moments = tuple(quiet.makespan * (place + 1) / (args.lost + 1) for place in range(args.lost))
                found = simulate(stages, replace(cluster, losses=moments)) if args.lost else quiet
                cells.append(f"{_duration(found.makespan)}, {found.utilisation:.0%}")
            yield cells


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def table_text(names: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    texts = ["| " + " | ".join(names) + " |", "|---|---" + "|---:" * (len(names) - 2) + "|"]
    return "\n".join([*texts, *("| " + " | ".join(cells) + " |" for cells in lines)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=FIGURES, help="file of figures that scale.py wrote")
    parser.add_argument("--predict", type=int, help="predict the measured runs of this many rows")
    parser.add_argument("--rows", default="1e9,1e10")
    parser.add_argument("--executors", default="10,40,100,400")
    parser.add_argument("--cores", type=int, default=4, help="cores of an executor")
    parser.add_argument("--routes", default="")
    parser.add_argument("--verbs", default="")
    parser.add_argument("--network", type=float, default=1.25e9, help="bytes per second of an executor")
    parser.add_argument("--dispatch", type=float, default=1000.0, help="tasks that the driver starts per second")
    parser.add_argument("--stragglers", type=float, default=0.02, help="share of tasks that take five times as long")
    parser.add_argument("--speculation", action="store_true")
    parser.add_argument("--lost", type=int, default=1, help="executors lost, at even distances")
    parser.add_argument("--save", type=Path, help="keep the table for docs/scale.md in this file")
    args = parser.parse_args()
    if args.predict:
        print(prediction_text(args.json, args.predict))
        return
    executors = [f"{number} x {args.cores} cores" for number in args.executors.split(",")]
    names = ["route", "verb", "rows", "tasks", "largest task, rows", *executors]
    lines = list(forecasts(args.json, args))
    print(table_text(names, lines))
    if args.save:
        args.save.write_text(json.dumps({"columns": names, "lines": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
