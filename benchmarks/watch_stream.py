"""Events per second of a watched stream on Spark, state in one process, once the rate is steady.

    python benchmarks/watch_stream.py [--seconds 8] [--partitions 0] [--sources folder,frame,collect,nothing]
                                      [--workloads 'small keys,one key'] [--json FILE]

`small keys`: 20,000 keys, 20,000 events per batch. `one key`: 100,000 rows of one key, 1,000 events per batch. Half of
the events are inserts, a quarter updates, a quarter deletes; the rule is State = & Salary > & Rate <, and one row in
ten thousand breaks it. The files of a folder are batches, many per Spark trigger; for a frame each trigger is one
batch. For comparison, the cost of a trigger without a watch: `collect` is a foreachBatch that brings its events to the
driver, `nothing` one that does not even look at them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

RULE = "not(t.State == s.State and t.Salary > s.Salary and t.Rate < s.Rate)"
COLUMNS = "id LONG, State LONG, Salary LONG, Rate DOUBLE, op STRING"
WORKLOADS = {"small keys": (20_000, 40_000, 20_000), "one key": (1, 100_000, 1_000)}


class Feeder:
    """Change files; after the first one the table keeps its size."""

    def __init__(self, folder: Path, n_keys: int) -> None:
        self.folder = folder
        self.rng = np.random.default_rng(n_keys)
        self.n_keys = n_keys
        self.alive = np.empty(0, np.int64)
        self.n_made = self.n_files = 0

    def write(self, n_inserts: int, n_updates: int, n_deletes: int) -> None:
        chosen = self.rng.permutation(len(self.alive))
        updated, gone = self.alive[chosen[:n_updates]], self.alive[chosen[n_updates : n_updates + n_deletes]]
        new = np.arange(self.n_made, self.n_made + n_inserts)
        self.n_made += n_inserts
        self.alive = np.concatenate((self.alive[chosen[n_updates + n_deletes :]], updated, new))
        ids = np.concatenate((updated, gone, new))
        ops = ["u"] * len(updated) + ["d"] * len(gone) + ["i"] * n_inserts
        salary = self.rng.integers(0, 10_000_000, len(ids))
        rate = salary / 1e6
        odd = self.rng.random(len(ids)) < 1e-4
        rate[odd] -= 0.01
        table = {"id": ids, "State": ids % self.n_keys, "Salary": salary, "Rate": rate, "op": ops}
        path = self.folder / f"{self.n_files:06}.parquet"
        pa.parquet.write_table(pa.table(table), path.with_suffix(".part"))
        path.with_suffix(".part").rename(path)
        self.n_files += 1


# The steps of a stream as they end: the time, and the number of events.
Done = list[tuple[float, int]]
# The first step is the table, the next ones load what it needs. Spark itself takes much longer to become fast: a stream
# runs this long before anything is measured.
N_WARM = 8
WARM_SECONDS = 20.0
# More than any source needs: files are written before the clock starts, and a stream without files ends the
# measurement.
MOST_EVENTS = {"folder": 300_000, "frame": 150_000, "collect": 250_000, "nothing": 300_000}
MOST_TRIGGERS = 25


def measure(session: Any, name: str, source: str, seconds: float, partitions: int) -> dict[str, Any]:
    n_keys, n_standing, n_batch = WORKLOADS[name]
    folder = Path(tempfile.mkdtemp(prefix="naysay-stream-"))
    changes = folder / "changes"
    changes.mkdir()
    feeder = Feeder(changes, n_keys)
    feeder.write(n_standing, 0, 0)
    n_files = int(MOST_EVENTS[source] * seconds / n_batch)
    if source != "folder":
        n_files = min(n_files, int(MOST_TRIGGERS * seconds))
    for _ in range(n_files + N_WARM):
        feeder.write(n_batch // 2, n_batch // 4, n_batch // 4)
    done: Done = []
    try:
        options = {"partitions": partitions, "n_batch": n_batch, "done": done}
        with running(session, source, changes, folder / "state", **options) as stream:
            await_steps(stream, done, feeder.n_files, seconds)
        steady = done[N_WARM:]
        n_events = sum(count for _, count in steady[1:])
        rate = n_events / (steady[-1][0] - steady[0][0])
        times = [after[0] - before[0] for before, after in pairwise(steady)]
        return {
            "workload": name,
            "source": source,
            "rows": n_standing,
            "batch": n_batch,
            "parts": partitions,
            "batches": len(steady) - 1,
            "seconds": round(statistics.median(times), 5),
            "events_per_second": round(rate),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def await_steps(stream: Any, done: Done, n_files: int, seconds: float) -> None:
    """Wait until the stream has run for this many seconds after warming up, or has no files left."""
    while len(done) <= N_WARM + 1 or (len(done) < n_files and time.perf_counter() - done[N_WARM][0] < seconds):
        if stream.wait(0.1):
            raise SystemExit("the stream ended")


def running(session: Any, source: str, changes: Path, state: Path, *, partitions: int, n_batch: int, done: Done) -> Any:
    """A stream over the files of a folder that records its steps."""
    import naysay
    from naysay.live.layout import named
    from naysay.live.spark.stream import StreamOptions
    from naysay.watch.feed import FeedOptions
    from naysay.watch.spark.engine import follow_folder, open_sink

    def note(step: Any) -> None:
        done.append((time.perf_counter(), step.n_changes))

    if source == "folder":
        options = StreamOptions(state, partitions=partitions)
        body, _ = open_sink(session, named(RULE), ["id"], options, FeedOptions(n_sentences=5))
        return follow_folder(session, str(changes), body, options, note)
    frame = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(changes))
    if source == "frame":
        return naysay.watch_stream(frame, RULE, "id", state=state, partitions=partitions, on_step=note)
    return Bare(frame, state, done, n_batch, collects=source == "collect")


class Bare:
    """A Spark foreachBatch without a watch."""

    def __init__(self, frame: Any, state: Path, done: Done, n_batch: int, *, collects: bool) -> None:
        def take(batch: Any, number: int) -> None:
            if collects:
                batch.toArrow()
            done.append((time.perf_counter(), n_batch))

        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", (state / "checkpoint").as_uri())
        self._query = writer.trigger(processingTime="0 seconds").start()

    def wait(self, timeout: float) -> bool:
        return bool(self._query.awaitTermination(timeout))

    def __enter__(self) -> Bare:
        return self

    def __exit__(self, *exception: object) -> None:
        self._query.stop()


def measure_all(
    seconds: float,
    partitions: int = 0,
    sources: Sequence[str] = tuple(MOST_EVENTS),
    workloads: Sequence[str] = tuple(WORKLOADS),
) -> list[dict[str, Any]]:
    from naysay.spark.session import STREAM_SETTINGS, session_for

    found = []
    with session_for("local[2]", settings=STREAM_SETTINGS) as session:
        measure(session, workloads[-1], "frame", WARM_SECONDS, partitions)
        for name in workloads:
            for source in sources:
                row = measure(session, name, source, seconds, partitions)
                print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
                found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--partitions", type=int, default=0)
    parser.add_argument("--sources", default=",".join(MOST_EVENTS))
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found = measure_all(args.seconds, args.partitions, args.sources.split(","), args.workloads.split(","))
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
