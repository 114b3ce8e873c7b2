"""Events a second of a watched stream on Spark, state in one process, once it is steady.

    python benchmarks/watch_stream.py [--seconds 20] [--partitions 0] [--json FILE]

`small keys`: 20,000 keys, 20,000 events a batch. `one key`: 100,000 rows of one key, 1,000 events a batch. Of the
events half are inserts, a quarter updates, a quarter deletes; the rule is State = & Salary > & Rate <, and a row in ten
thousand breaks it. A folder's files are batches, many a trigger of Spark; a frame's batches are triggers.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

RULE = "not(t.State == s.State and t.Salary > s.Salary and t.Rate < s.Rate)"
COLUMNS = "id LONG, State LONG, Salary LONG, Rate DOUBLE, op STRING"
WORKLOADS = {"small keys": (20_000, 40_000, 20_000), "one key": (1, 100_000, 1_000)}


class Feeder:
    """Change files over a table that keeps its size after the first one."""

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


def measure(session: Any, name: str, source: str, seconds: float, partitions: int) -> dict[str, Any]:
    import naysay
    from naysay.engines.stream import StreamOptions
    from naysay.engines.stream_watch import follow_folder, open_body
    from naysay.watch.feed import FeedOptions
    from naysay.watch.naming import named

    n_keys, n_standing, n_batch = WORKLOADS[name]
    folder = Path(tempfile.mkdtemp(prefix="naysay-stream-"))
    changes, state = folder / "changes", folder / "state"
    changes.mkdir()
    feeder = Feeder(changes, n_keys)
    feeder.write(n_standing, 0, 0)
    n_files = int(150_000 * seconds / n_batch)
    for _ in range(n_files):
        feeder.write(n_batch // 2, n_batch // 4, n_batch // 4)
    done: list[tuple[float, int]] = []
    try:
        if source == "frame":
            reader = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
            stream = naysay.watch_stream(
                reader.parquet(str(changes)), RULE, "id", state=state, partitions=partitions,
                on_step=lambda step: done.append((time.perf_counter(), step.n_changes)),
            )  # fmt: skip
        else:
            options = StreamOptions(state, partitions=partitions)
            body, _ = open_body(session, named(RULE), ["id"], options, FeedOptions(n_sentences=5))
            stream = follow_folder(
                session, str(changes), body, options, lambda step: done.append((time.perf_counter(), step.n_changes))
            )
        with stream:
            stream.wait(seconds + 15)
            while len(done) < 8:
                stream.wait(1)
        # The first batch is the table, the next ones warm up.
        steady = done[3:]
        n_events = sum(count for _, count in steady[1:])
        rate = n_events / (steady[-1][0] - steady[0][0])
        return {"workload": name, "source": source, "rows": n_standing, "batch": n_batch, "parts": partitions,
                "batches": len(steady) - 1, "events_a_second": round(rate)}  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure_all(seconds: float, partitions: int = 0) -> list[dict[str, Any]]:
    from naysay.engines.spark_session import STREAM_SETTINGS, session_for

    found = []
    with session_for("local[2]", settings=STREAM_SETTINGS) as session:
        for name in WORKLOADS:
            for source in ("folder", "frame"):
                row = measure(session, name, source, seconds, partitions)
                print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
                found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--partitions", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found = measure_all(args.seconds, args.partitions)
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
