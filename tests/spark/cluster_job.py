"""Run in its own process, on a cluster: something is lost in the middle of the work, and the answers stay the same.

python cluster_job.py              # one of two executors is killed while rules are counted
python cluster_job.py SEED ROUNDS  # every verb, with speculation and dynamic allocation, on `bash scripts/cluster`
                                   # with four workers: in each round one of them is killed at a random moment and
                                   # started again, or, in every fifth round, all shuffle files are deleted
"""

from __future__ import annotations

import atexit
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import SparkSession

import naysay
from naysay.detect.request import CheckOptions
from naysay.detect.spark.engine import SparkEngine
from naysay.detect.spark.key_groups import Sizes
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.spark.engine import Blocks, discover
from naysay.rule import canonical
from naysay.spark.frame import from_arrow

RULES = [
    naysay.parse("not(t.k == s.k and t.x < s.x and t.y > s.y)"),
    naysay.parse("not(t.x < s.x and t.y > s.y)"),
    naysay.parse("not(t.k == s.k and t.x < s.x and t.y > s.y and t.z != s.z)"),
    naysay.parse("k -> z"),
]
SIZES = Sizes(rows_a_task=500, giant=3000, n_strips=4)
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
COLUMNS = "id LONG, k LONG, x LONG, y LONG, z LONG, op STRING"


def processes(command: bytes) -> list[int]:
    """Processes that run something: descendants of this process, or of the script that started the cluster."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "stat").read_text()
                parents[int(folder.name)] = int(text[text.rindex(")") + 2 :].split()[1])
            except OSError:
                continue
    mine = {os.getppid() if "NAYSAY_MASTER" in os.environ else os.getpid()}
    while True:
        more = {child for child, parent in parents.items() if parent in mine} - mine
        if not more:
            break
        mine |= more
    return sorted(child for child in mine if command in _command(child))


def executors() -> list[int]:
    return processes(b"CoarseGrainedExecutorBackend")


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def session_with(**settings: str) -> SparkSession:
    builder = (
        SparkSession.builder.master(os.environ.get("NAYSAY_MASTER", "local-cluster[2,1,1024]"))
        .config("spark.executor.memory", "512m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.log.level", "OFF")
        # The plans are many and their rows few: interpreting costs less than compiling, in Spark and in Java.
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.executor.extraJavaOptions", QUICK_JAVA)
    )
    for name, value in settings.items():
        builder = builder.config(f"spark.{name.replace('_', '.')}", value)
    return builder.getOrCreate()


def numbers() -> pa.Table:
    ids = range(4000)
    columns = {
        "id": list(ids),
        "k": [n % 7 for n in ids],
        "x": [n * 7919 % 1009 for n in ids],
        "y": [n * 104729 % 997 for n in ids],
        "z": [n * 31 % 5 for n in ids],
    }
    return pa.table(columns)


def lose_an_executor() -> None:
    session = session_with()
    table = numbers()
    expected = naysay.count(table, RULES)
    data = from_arrow(session, table)
    found: list[list[int]] = [SparkEngine(data, SIZES).count(RULES, CheckOptions())]
    before = executors()
    assert len(before) == 2, before
    work = threading.Thread(target=lambda: found.append(SparkEngine(data, SIZES).count(RULES, CheckOptions())))
    work.start()
    while not session.sparkContext.statusTracker().getActiveStageIds():
        time.sleep(0.01)
    assert work.is_alive(), "the job was over before the kill"
    os.kill(before[0], signal.SIGKILL)
    work.join()
    assert before[0] not in executors()
    assert found == [expected, expected], (expected, found)
    session.stop()
    say("the same after the kill")


def answers(session: SparkSession, table: pa.Table, folder: Path) -> dict[str, Any]:
    """What every verb says about a table on Spark, as plain values."""
    data = from_arrow(session, table)
    engine, options = SparkEngine(data, SIZES), CheckOptions(key=("id",))
    report = engine.check(RULES, options)
    listed = engine.violations(RULES[1], options, limit=50).to_arrow()
    _, bad = engine.split([RULES[3]], CheckOptions())
    request = DiscoverRequest(columns=["k", "z", "x"], cross=False, max_predicates=3)
    found = discover(data, request, Blocks(rows=1_000))
    return {
        "count": engine.count(RULES, CheckOptions()),
        "check": [(result.violations, result.rows_in_conflict) for result in report],
        "violations": list(zip(listed["left"].to_pylist(), listed["right"].to_pylist(), strict=True)),
        "split": sorted(row["id"] for row in bad.select("id").collect()),
        "discover": sorted(str(canonical(rule)) for rule in found.rules),
        "watch": watched(session, table.slice(0, 500), folder),
    }


def watched(session: SparkSession, table: pa.Table, folder: Path) -> dict[str, int]:
    """How many violations stand after a stream in parts has read a table in five files."""
    changes = folder / "changes"
    changes.mkdir(parents=True)
    for number in range(5):
        part = table.slice(100 * number, 100)
        part = part.append_column("op", pa.array(["i"] * part.num_rows))
        pyarrow.parquet.write_table(part, changes / f"{number}.parquet")
    frame = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 2).parquet(str(changes))
    options: dict[str, Any] = {"state": folder / "state", "once": True, "partitions": 2}
    with naysay.watch_stream(frame, RULES, "id", **options) as stream:
        assert stream.wait()
        return dict(stream.sink.counts)


def here(table: pa.Table) -> dict[str, Any]:
    """The same in this process."""
    report = naysay.check(table, RULES, key="id")
    listed = naysay.violations(table, RULES[1], limit=None, key="id").to_arrow()
    _, bad = naysay.split(table, RULES[3])
    found = naysay.discover(table, columns=["k", "z", "x"], cross=False, max_predicates=3)
    return {
        "count": naysay.count(table, RULES),
        "check": [(result.violations, result.rows_in_conflict) for result in report],
        "violations": sorted(zip(listed["left"].to_pylist(), listed["right"].to_pylist(), strict=True))[:50],
        "split": sorted(bad["id"].to_pylist()),
        "discover": sorted(str(canonical(rule)) for rule in found.rules),
    }


def lose_something(seed: int, n_rounds: int) -> None:
    session = session_with(
        speculation="true",
        dynamicAllocation_enabled="true",
        dynamicAllocation_shuffleTracking_enabled="true",
        dynamicAllocation_minExecutors="1",
        dynamicAllocation_maxExecutors="4",
        executor_cores="1",
    )
    table = numbers()
    expected = here(table)
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        start = time.monotonic()
        judge(expected, answers(session, table, Path(name) / "before"))
        seconds = time.monotonic() - start
        lost: list[str] = []
        for number in range(n_rounds):
            lose = delete_shuffle_files if number % 5 == 4 else replace_a_worker
            timer = threading.Timer(seconds * rng.random(), lambda lose=lose: lost.append(lose(rng)))
            timer.start()
            start = time.monotonic()
            judge(expected, answers(session, table, Path(name) / str(number)))
            seconds = min(seconds, time.monotonic() - start)
            timer.join()
            assert len(lost) == number + 1, "nothing was lost"
        # What the last round lost late may be missed only now.
        judge(expected, answers(session, table, Path(name) / "after"))
    session.stop()
    say("\n".join([*lost, "the same"]))


def judge(expected: dict[str, Any], found: dict[str, Any]) -> None:
    for verb, answer in expected.items():
        assert found[verb] == answer, (verb, answer, found[verb])
    assert sum(found["watch"].values()) == sum(naysay.count(numbers().slice(0, 500), RULES)), found["watch"]


def replace_a_worker(rng: random.Random) -> str:
    """Kill a worker, whose executors then end too, and start another by its command, as a cluster's manager would."""
    workers = processes(b"org.apache.spark.deploy.worker.Worker")
    assert len(workers) == int(os.environ.get("WORKERS", "2")), workers
    chosen = rng.choice(workers)
    command = os.fsdecode(_command(chosen)).split("\0")[:-1]
    environment = Path(f"/proc/{chosen}/environ").read_bytes().split(b"\0")[:-1]
    os.kill(chosen, signal.SIGKILL)
    another = subprocess.Popen(
        command,
        env=dict(os.fsdecode(pair).split("=", 1) for pair in environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    atexit.register(another.kill)
    return "worker killed"


def delete_shuffle_files(_: random.Random) -> str:
    files = [path for path in Path(os.environ["NAYSAY_LOCAL_DIRS"]).rglob("shuffle_*") if path.is_file()]
    for path in files:
        path.unlink(missing_ok=True)
    assert files, "there were no shuffle files"
    return "shuffle files deleted"


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        lose_an_executor()
    else:
        lose_something(int(sys.argv[1]), int(sys.argv[2]))
