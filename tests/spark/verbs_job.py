"""Run in its own process: every verb, compared with the oracle, on whatever version of Spark is installed.

    python verbs_job.py classic|connect|connect=PYTHON|sc://HOST:PORT FIRST_SEED N_SEEDS [MOST_SECONDS]
    python verbs_job.py serve

With connect=PYTHON the server runs under another interpreter, which may have another version of Spark: `serve` there
prints the address and lasts until its input ends.

What serverless Spark refuses raises an error here: RDDs, the SparkContext, the JVM, persist, cache and checkpoint.
Every other seed uses Arrow batches of three rows; the sizes of tasks alternate.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pyspark
import pytest
from pyspark.sql import SparkSession
from spark_differential import (
    IN_ONE_TASK,
    IN_PARTS,
    IN_TASKS,
    draw,
    judge_check,
    judge_counts,
    judge_lists,
    judge_verify,
    with_strips,
)
from tables import to_spark

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "watch"))

from feeder import RULES, SCHEMA, batches, rows
from outputs import brute_force, rows_after, standing, write_changes

import naive
import naysay
from cases import rows_of
from naysay.detect.spark.key_groups import Sizes
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.spark.engine import Blocks, discover
from naysay.discovery.spark.spread import SpreadSizes
from naysay.errors import UsageError
from naysay.live.layout import named
from naysay.rule import canonical, parse
from naysay.rule.model import Rule
from naysay.spark import read as spark_read
from soak.spark_session import settings

_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_COLUMNS = "id LONG, a LONG, b STRING, c STRING, x LONG, y DOUBLE, op STRING, at LONG"


def open_session(place: str, **more: str) -> Any:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    for name, value in {} if place.startswith("sc://") else (settings() | more).items():
        builder = builder.config(name, value)
    if place in ("classic", "serve"):
        return builder.master("local[2]").getOrCreate()
    session = builder.remote("local[2]" if place == "connect" else place).getOrCreate()
    assert "connect" in type(session).__module__, type(session)
    return session


def serve() -> None:
    """A Connect server inside a classic session."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    connect = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    session = open_session("serve", **connect)
    sys.stdout.write(f"sc://127.0.0.1:{port} {session.version}\n")
    sys.stdout.flush()
    sys.stdin.read()
    session.stop()


@contextmanager
def server_of(python: str) -> Iterator[str]:
    """The address of a server that runs under another interpreter."""
    environment = os.environ | {"PYSPARK_PYTHON": python}
    command = [python, __file__, "serve"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            address, version = server.stdout.readline().split()
            sys.stderr.write(f"the client of Spark {pyspark.__version__} on a server of Spark {version}\n")
            yield address
        finally:
            server.stdin.close()


def forbid(session: Any, put: Callable[[type, str, Any], None] = setattr) -> None:
    """Make everything that serverless Spark refuses raise an error, as it does there."""
    frame = type(session.range(1))
    for name in ("persist", "cache", "unpersist", "checkpoint", "localCheckpoint"):
        put(frame, name, _refusal(name))
    if is_classic(session):
        # Over Connect there are no such things.
        put(frame, "rdd", _refused_property(frame, "rdd"))
        for name in ("sparkContext", "_jvm", "_jsc"):
            put(type(session), name, _refused_property(type(session), name))


def is_classic(session: Any) -> bool:
    return "connect" not in type(session).__module__


def _refusal(name: str) -> Any:
    def refuse(*given: Any, **named: Any) -> None:
        raise AssertionError(f"{name} is refused on serverless Spark")

    return refuse


def _refused_property(owner: Any, name: str) -> property:
    """PySpark itself may use it, naysay may not."""
    original = getattr(owner, name, None)
    store: dict[int, Any] = {}

    def read(self: Any) -> Any:
        if str(sys._getframe(1).f_globals.get("__name__", "")).startswith("naysay"):
            raise AssertionError(f"{name} is refused on serverless Spark")
        if isinstance(original, property):
            return original.fget(self)  # type: ignore[misc]
        return store[id(self)] if id(self) in store else self.__dict__[name]

    def write(self: Any, value: Any) -> None:
        store[id(self)] = value

    return property(read, write)


def judge_seed(session: Any, seed: int, folder: Path) -> None:
    session.conf.set(_BATCH, "3" if seed % 2 else "10000")
    table, rules, nulls = draw(seed, 4, 20)
    sizes = (IN_TASKS, IN_PARTS, IN_ONE_TASK)[seed % 3]
    some = rules[:2] + with_strips(rules)[:1]
    judge_check(session, table, rules, nulls, IN_ONE_TASK)
    judge_check(session, table, some, nulls, sizes)
    judge_check(session, table, some[-1:], nulls, Sizes(rows_a_task=6))
    judge_counts(session, table, some, nulls, sizes)
    judge_lists(session, table, some[:1], nulls, sizes)
    judge_verify(session, table, some[1:2], nulls, sizes)


def judge_files(session: Any, seed: int, folder: Path) -> None:
    """Files that Spark reads: CSV with types from all values, and Parquet with numbered rows."""
    table = rows(random.Random(seed), list(range(40)))
    table = table.append_column("day", pa.array([f"2024-02-{1 + k % 29:02}" for k in range(40)]))
    table = table.append_column("at", pa.array([f"2024-02-{1 + k % 29:02} 10:00:{k % 3:02}.5" for k in range(40)]))
    pa.csv.write_csv(table, folder / "rows.csv")
    pa.parquet.write_table(table, folder / "rows.parquet")
    rules = [parse(text) for text in (*RULES, "key(day, at)", "day -> at", "not(t.at < s.at and t.day > s.day)")]
    kept, spark_read._WHOLE_BYTES = spark_read._WHOLE_BYTES, -1
    try:
        for name in ("rows.csv", "rows.parquet"):
            data = spark_read.read(session, str(folder / name), numbered=True)
            found = [result.violations for result in naysay.check(data, rules)]
            assert found == [naive.count(rows_of(table), rule) for rule in rules], (name, found)
    finally:
        spark_read._WHOLE_BYTES = kept


def judge_rules(table: pa.Table, rules: list[Rule]) -> None:
    """Rules that hold, of which no predicate can be left out, and all that the in-process engine finds."""
    records = rows_of(table)
    for rule in rules:
        assert naive.verify(records, rule), rule
        for left_out in range(len(rule.predicates)):
            rest = tuple(part for place, part in enumerate(rule.predicates) if place != left_out)
            assert not rest or not naive.verify(records, Rule(rest)), rule
    expected = naysay.discover(table, method="all-pairs").rules
    assert {canonical(rule) for rule in rules} == {canonical(rule) for rule in expected}


def judge_discover(session: Any, seed: int, folder: Path) -> None:
    table = rows(random.Random(seed), list(range(30))).select(["a", "b", "c", "x"])
    blocks = Blocks(spread=SpreadSizes(sample=10, rows_a_task=8, giant=12))
    for method in ("all-pairs", "selective"):
        found = discover(to_spark(session, table), DiscoverRequest(method=method, max_seconds=300), blocks)
        judge_rules(table, list(found.rules))


def judge_evolve(session: Any, seed: int, folder: Path) -> None:
    made = batches(seed, 3)
    columns = ["a", "b", "c", "x"]
    first = to_spark(session, made[0]["inserts"])
    with naysay.Evolver(first, "id", state=folder / "evolve", columns=columns) as evolver:
        for batch in made[1:]:
            evolver.apply(**batch)
        now = pa.Table.from_pylist(list(rows_after(made).values()), SCHEMA)
        assert evolver.n_rows == now.num_rows
        judge_rules(now.select(columns), list(evolver.rules))


def judge_watch(session: Any, seed: int, folder: Path) -> None:
    """A streaming DataFrame, in this process and in parts; over Connect a refusal."""
    made = batches(seed, 4)
    write_changes(folder / "changes", made, formats=("parquet",))
    for partitions in (0, 2):
        state = folder / f"watch {partitions}"
        frame = session.readStream.schema(_COLUMNS).option("maxFilesPerTrigger", 2).parquet(str(folder / "changes"))
        options: dict[str, Any] = {"state": state, "once": True, "order": "at", "partitions": partitions}
        if not is_classic(session):
            with pytest.raises(UsageError, match="which is elsewhere with Spark Connect"):
                naysay.watch_stream(frame, list(RULES), "id", **options)
            return
        with naysay.watch_stream(frame, list(RULES), "id", **options) as stream:
            assert stream.wait()
        assert standing(state) == brute_force(named(RULES), rows_after(made))


def judge_interrupt(session: Any, seed: int, folder: Path) -> None:
    """After Ctrl-C nothing is left running: tasks that would occupy both cores for ten minutes give way to others."""
    if pyspark.__version__.startswith("3.5"):
        # There PySpark's own handler of Ctrl-C fails while it waits for an answer, before ours has its turn.
        return
    begun = folder / "begun"

    def sleep(batches: Any) -> Any:
        begun.touch()
        time.sleep(600)
        yield from batches

    def interrupt() -> None:
        while not begun.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    data = session.range(0, 100, 1, 2).mapInArrow(sleep, "id bigint")
    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        naysay.count(data, "not(t.id > 200)")
    start = time.monotonic()
    assert session.range(0, 100, 1, 2).mapInArrow(lambda batches: batches, "id bigint").count() == 100
    assert time.monotonic() - start < 300


JUDGES = (judge_seed, judge_files, judge_discover, judge_evolve, judge_watch, judge_interrupt)


def main(place: str, first: int, n_seeds: int, most_seconds: float) -> None:
    kind, _, python = place.partition("=")
    if python:
        with server_of(python) as address:
            run(address, kind, first, n_seeds, most_seconds)
    else:
        run(place, place, first, n_seeds, most_seconds)


def run(place: str, kind: str, first: int, n_seeds: int, most_seconds: float) -> None:
    session = open_session(place)
    forbid(session)
    start = time.monotonic()
    done = 0
    for seed in range(first, first + n_seeds):
        if time.monotonic() - start > most_seconds:
            break
        with tempfile.TemporaryDirectory() as folder:
            for judge in JUDGES:
                judge(session, seed, Path(folder))
                sys.stderr.write(f"{judge.__name__}: {time.monotonic() - start:.0f} s\n")
        done += 1
    found = f"the same on Spark {pyspark.__version__}, {kind}: {done} seeds"
    server = session.version
    session.stop()
    sys.stdout.write(f"{found}\n" if server == pyspark.__version__ else f"{found}, on a server of Spark {server}\n")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
        sys.exit()
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]) if len(sys.argv) > 4 else float("inf"))
