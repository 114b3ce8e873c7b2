"""What Spark does for each verb and route, and how it grows: tasks, rows, bytes and memory, from Spark's event log.

    python benchmarks/scale.py [--rows 1000000,10000000,60000000] [--routes strips,...] [--verbs count,...]
                               [--runs 1] [--cores 2] [--data FOLDER] [--json docs/figures/scale.json]
    python benchmarks/scale.py --show docs/figures/scale.json          # the tables of a finished run
    python benchmarks/scale.py --plot docs/images/scale.svg            # from the same file

Tables are generated: Tax with one row in 10,000 spoilt, and the columns of TPC-H's lineitem that rules compare, with
one more, l_bin, that is the same in half of all rows. The largest task is the one that receives most rows for a Python
worker, which holds them all; other tasks stream theirs, and Spark spills them. `collected` is what tasks send to the
driver. The peak of a Python worker is the kernel's own (VmHWM, reset before each run). The best SQL is what an expert
would write; where no aggregation answers, it is a sort of the rows by the rule's key and first order. A run replaces
only its own lines in the --json file, so that it can be done in pieces.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import naysay
from eventlog import StageRecord, all_tasks, read_stages
from scale_page import FIGURES, growth_text, load, measured_text, plot
from spark import consume, dependency
from tax import tax_table
from workloads import DATA

CHUNK = 2_000_000
LIMIT = 100
# Each verb runs on so many rows first, or the fewest that take its route, unmeasured: Java and the Python workers
# compile what they use.
WARM_UP = 1_000_000


@dataclass(frozen=True, slots=True)
class Route:
    """A way to check a rule, and a rule that takes it on a table of `least` rows or more."""

    table: str
    rule: str
    columns: tuple[str, ...]
    best: str = ""
    sort: tuple[str, ...] = ()
    least: int = 0
    most: int | None = None


_MONOTONE = "t.l_extendedprice > s.l_extendedprice and t.l_discount < s.l_discount"
ROUTES = {
    "grouping": Route("tax", "ZipCode -> City", ("ZipCode", "City"), dependency("ZipCode", "City")),
    "key groups": Route(
        "lineitem",
        f"not(t.l_quantity == s.l_quantity and t.l_tax == s.l_tax and {_MONOTONE})",
        ("l_quantity", "l_tax", "l_extendedprice", "l_discount"),
        sort=("l_quantity", "l_tax", "l_extendedprice"),
    ),
    "giant groups": Route(
        "lineitem",
        f"not(t.l_bin == s.l_bin and {_MONOTONE})",
        ("l_bin", "l_extendedprice", "l_discount"),
        sort=("l_bin", "l_extendedprice"),
        least=5_000_000,
    ),
    "giant groups with !=": Route(
        "lineitem",
        f"not(t.l_bin == s.l_bin and {_MONOTONE} and t.l_tax != s.l_tax)",
        ("l_bin", "l_extendedprice", "l_discount", "l_tax"),
        sort=("l_bin", "l_extendedprice"),
        least=5_000_000,
    ),
    "strips": Route(
        "lineitem",
        f"not({_MONOTONE})",
        ("l_extendedprice", "l_discount"),
        sort=("l_extendedprice", "l_discount"),
        least=3_000_000,
    ),
    "single task": Route("tax", "ZipCode -> City", ("ZipCode", "City"), dependency("ZipCode", "City"), most=200_000),
}
DISCOVERED = ("State", "ZipCode", "City")


def tax_chunk(n_rows: int, number: int) -> pa.Table:
    table = tax_table(n_rows, dirty=1e-4, seed=7 + number)
    phone = table.schema.get_field_index("Phone")
    return table.set_column(phone, "Phone", pa.array(table.column("Phone").to_numpy() + number * CHUNK))


def lineitem_chunk(n_rows: int, number: int) -> pa.Table:
    """The columns of TPC-H's lineitem that rules compare, distributed as there, and a skewed one."""
    rng = np.random.default_rng(number)
    quantity = rng.integers(1, 51, n_rows)
    part = rng.integers(1, 2_000_001, n_rows)
    cents = 90_000 + (part // 10) % 20_001 + 100 * (part % 1_000)
    bins = np.where(rng.random(n_rows) < 0.5, 0, rng.integers(1, 1_001, n_rows))
    return pa.table(
        {
            "l_orderkey": number * CHUNK + np.arange(n_rows),
            "l_quantity": quantity,
            "l_extendedprice": quantity * cents / 100,
            "l_discount": rng.integers(0, 11, n_rows) / 100,
            "l_tax": rng.integers(0, 9, n_rows) / 100,
            "l_bin": bins,
        }
    )


CHUNKS = {"tax": tax_chunk, "lineitem": lineitem_chunk}


def table_of(session: SparkSession, folder: Path, name: str, n_rows: int) -> DataFrame:
    """A generated table as Parquet files of at most 2,000,000 rows."""
    path = folder / f"scale-{name}-{n_rows}"
    if not (path / "done").exists():
        path.mkdir(parents=True, exist_ok=True)
        for number, start in enumerate(range(0, n_rows, CHUNK)):
            pq.write_table(CHUNKS[name](min(CHUNK, n_rows - start), number), path / f"part-{number:05}.parquet")
        (path / "done").touch()
    return session.read.parquet(str(path / "*.parquet"))


def verbs_of(route: Route, data: DataFrame, state: Path) -> dict[str, Callable[[], Any]]:
    """What is measured on a route."""
    session = data.sparkSession

    def best() -> None:
        if route.best:
            data.createOrReplaceTempView("r")
            session.sql(route.best).collect()
        else:
            consume(data.select(*route.columns).sort(*route.sort))

    key = ("l_orderkey",) if route.table == "lineitem" else ()
    verbs: dict[str, Callable[[], Any]] = {
        "count": lambda: naysay.count(data, route.rule),
        "check": lambda: naysay.check(data, route.rule, key=key),
        "violations": lambda: naysay.violations(data, route.rule, limit=LIMIT, key=key).to_arrow(),
        "split": lambda: [consume(part) for part in naysay.split(data, route.rule)],
        "best SQL": best,
    }
    if route is ROUTES["grouping"]:
        verbs["discover"] = lambda: naysay.discover(data, columns=list(DISCOVERED))
    if route is ROUTES["key groups"]:
        verbs["watch_stream"] = lambda: watch(session, data, state)
    return verbs


def watch(session: SparkSession, data: DataFrame, state: Path) -> None:
    """A tenth of the rows as inserts, in 4 parts, in files of 100,000 rows that are a batch each."""
    from naysay.live.layout import named
    from naysay.live.spark.stream import StreamOptions
    from naysay.watch.feed import FeedOptions
    from naysay.watch.spark.engine import follow_folder, open_sink

    state.mkdir(parents=True, exist_ok=True)
    state = Path(tempfile.mkdtemp(dir=state))
    changes = state / "changes"
    changes.mkdir()
    n_rows = data.count() // 10
    rows = pa.concat_tables([lineitem_chunk(min(CHUNK, n_rows), number) for number in range(-(-n_rows // CHUNK))])
    for number, start in enumerate(range(0, n_rows, 100_000)):
        part = rows.slice(start, 100_000)
        pq.write_table(part.append_column("op", pa.array(["i"] * part.num_rows)), changes / f"{number:05}.parquet")
    options = StreamOptions(state / "state", once=True, partitions=4)
    rule = "not(t.l_orderkey == s.l_orderkey and t.l_tax != s.l_tax)"
    sink, _ = open_sink(session, named([naysay.parse(rule)]), ["l_orderkey"], options, FeedOptions(n_sentences=0))
    with follow_folder(session, str(changes), sink, options, None) as stream:
        stream.wait()


class PythonWorkers:
    """The Python workers below this process, and the peak of their memory since it was reset."""

    def reset(self) -> None:
        for process in self._processes():
            with suppress(OSError):
                Path(f"/proc/{process}/clear_refs").write_text("5")

    def peak(self) -> int:
        peaks = [0]
        for process in self._processes():
            with suppress(OSError):
                lines = Path(f"/proc/{process}/status").read_text().splitlines()
                peaks += [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")]
        return max(peaks)

    def _processes(self) -> list[int]:
        children: dict[int, list[int]] = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                with suppress(OSError):
                    text = (folder / "stat").read_text()
                    children.setdefault(int(text[text.rindex(")") + 2 :].split()[1]), []).append(int(folder.name))
        found, todo = [], [os.getpid()]
        while todo:
            for child in children.get(todo.pop(), []):
                todo.append(child)
                with suppress(OSError):
                    if b"pyspark.daemon" in Path(f"/proc/{child}/cmdline").read_bytes():
                        found.append(child)
        return found


def figures_of(stages: list[StageRecord]) -> dict[str, Any]:
    """What the stages of a run add up to, and the largest task."""
    tasks = all_tasks(stages)
    held = all_tasks(stage for stage in stages if stage.in_python and not stage.joins)
    largest = max(held or tasks, key=lambda task: (task.rows_shuffled, task.rows))
    streamed = [task.rows_shuffled for stage in stages if not stage.in_python or stage.joins for task in stage.tasks]
    return {
        "stages": len(stages),
        "tasks": len(tasks),
        "bytes read": sum(task.bytes - task.bytes_shuffled for task in tasks),
        "rows shuffled": sum(task.rows_shuffled for task in tasks),
        "bytes shuffled": sum(task.bytes_shuffled for task in tasks),
        "bytes spilled": sum(task.bytes_spilled for task in tasks),
        "task seconds": round(sum(task.seconds for task in tasks), 3),
        "rows of the largest task": largest.rows_shuffled,
        "bytes of the largest task": largest.bytes_shuffled,
        "rows streamed by a task": max(streamed, default=0),
        "rows read by a task": max(task.rows - task.rows_shuffled for task in tasks),
        "seconds of the longest task": round(max(task.seconds for task in tasks), 3),
        "memory of a task": max(task.peak_memory for task in tasks),
        "collected": sum(task.bytes_returned for task in tasks if task.is_result),
    }


def graph_of(stages: list[StageRecord], begin: float) -> list[dict[str, Any]]:
    """The stages for `simulate.py`. A stage waits for those that had ended when it was submitted."""
    graph = []
    for place, stage in enumerate(stages):
        tasks = stage.tasks
        graph.append(
            {
                "start": round(stage.start - begin, 3),
                "finish": round(stage.finish - begin, 3),
                "after": [other for other, before in enumerate(stages[:place]) if before.finish <= stage.start],
                "rows": sum(task.rows for task in tasks),
                "bytes": sum(task.bytes_shuffled for task in tasks),
                "largest": max(task.rows_shuffled for task in tasks),
                "seconds": [round(task.seconds, 3) for task in tasks],
            }
        )
    return graph


@contextmanager
def make_session(cores: int, memory: str, log: Path) -> Iterator[SparkSession]:
    # Workers use the same Python as this process.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(log.with_name("local")),
        # Asynchronous reads are not counted as bytes read.
        "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": log.as_uri(),
    }
    builder = SparkSession.builder.master(f"local[{cores}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        session.range(1000).groupBy("id").count().collect()
        yield session
    finally:
        session.stop()


def measure(args: argparse.Namespace) -> None:
    folder = Path(tempfile.mkdtemp(prefix="naysay-scale-", dir=args.data))
    log = folder / "log"
    log.mkdir()
    workers = PythonWorkers()
    warm = set()
    try:
        with make_session(args.cores, args.driver_memory, log) as session:
            for n_rows in map(int, args.rows.split(",")):
                for name in args.routes.split(",") if args.routes else ROUTES:
                    route = ROUTES[name]
                    if n_rows < route.least:
                        continue
                    data = table_of(session, args.data, route.table, min(n_rows, route.most or n_rows))
                    few = table_of(session, args.data, route.table, route.most or max(WARM_UP, route.least))
                    verbs = verbs_of(route, data, folder / f"{name}-{n_rows}")
                    for verb, run in verbs.items():
                        if args.verbs and verb not in args.verbs.split(","):
                            continue
                        if (name, verb) not in warm:
                            verbs_of(route, few, folder / f"{name}-warm")[verb]()
                            warm.add((name, verb))
                        line = measure_best(args.runs, log, workers, name, verb, n_rows, run)
                        keep(args.json, {"cores": args.cores, **line})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure_best(n_runs: int, *what: Any) -> dict[str, Any]:
    """The fastest of some runs."""
    return min((measure_one(*what) for _ in range(n_runs)), key=lambda line: float(line["seconds"]))


def measure_one(
    log: Path, workers: PythonWorkers, route: str, verb: str, n_rows: int, run: Callable[[], Any]
) -> dict[str, Any]:
    workers.reset()
    begin = time.time()
    run()
    end = time.time()
    # The log is written by another thread of Spark, a moment later.
    time.sleep(1.0)
    stages = read_stages(log, begin, end)
    line = {"route": route, "verb": verb, "rows": n_rows, "seconds": round(end - begin, 3)}
    line |= figures_of(stages) | {"python worker": workers.peak(), "graph": graph_of(stages, begin)}
    print({name: value for name, value in line.items() if name != "graph"}, flush=True)
    return line


def keep(path: Path, line: dict[str, Any]) -> None:
    """Write a line to a file of figures, replacing that of the same cores, route, verb and number of rows."""
    before = json.loads(path.read_text())["measured"] if path.exists() else []
    lines = {(row["cores"], row["route"], row["verb"], row["rows"]): row for row in (*before, line)}
    ordered = sorted(lines, key=lambda key: (-key[0], list(ROUTES).index(key[1]), *key[2:]))
    texts = [json.dumps(lines[key]) for key in ordered]
    path.write_text('{"measured": [\n' + ",\n".join(texts) + "\n]}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000000,10000000", help="comma-separated sizes")
    parser.add_argument("--routes", default="", help="comma-separated routes; default: all")
    parser.add_argument("--verbs", default="", help="comma-separated verbs; default: all")
    parser.add_argument("--runs", type=int, default=1, help="of so many runs of each the fastest is kept")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--driver-memory", default="8g", help="of Java, in which tasks run, too")
    parser.add_argument("--data", type=Path, default=DATA, help="folder for the generated tables")
    parser.add_argument("--json", type=Path, default=FIGURES, help="file of figures")
    parser.add_argument("--show", type=Path, help="print the tables of a file of figures, and measure nothing")
    parser.add_argument("--plot", type=Path, help="draw the file of figures as an SVG, and measure nothing")
    args = parser.parse_args()
    if args.show or args.plot:
        if args.show:
            print(measured_text(load(args.show)), growth_text(load(args.show)), sep="\n\n")
        if args.plot:
            plot(load(args.json), args.plot)
        return
    args.data.mkdir(parents=True, exist_ok=True)
    measure(args)
    print(measured_text(load(args.json)))


if __name__ == "__main__":
    main()
