"""Run by test_spark_elsewhere in its own process: one of two executors is killed in the middle of a job."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import naysay
from naysay.detect.request import CheckOptions
from naysay.detect.spark.engine import SparkEngine
from naysay.detect.spark.key_groups import Sizes
from naysay.spark.frame import from_arrow

RULES = [
    naysay.parse("not(t.k == s.k and t.x < s.x and t.y > s.y)"),
    naysay.parse("not(t.x < s.x and t.y > s.y)"),
    naysay.parse("not(t.k == s.k and t.x < s.x and t.y > s.y and t.z != s.z)"),
    naysay.parse("k -> z"),
]
SIZES = Sizes(rows_a_task=500, giant=3000, n_strips=4)


def executors() -> list[int]:
    """The executors' processes: descendants of this process, or of the script that started the cluster."""
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
    return [child for child in mine if b"CoarseGrainedExecutorBackend" in _command(child)]


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


if __name__ == "__main__":
    session = (
        SparkSession.builder.master(os.environ.get("NAYSAY_MASTER", "local-cluster[2,1,1024]"))
        .config("spark.executor.memory", "512m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    numbers = range(4000)
    table = pa.table(
        {
            "k": [n % 7 for n in numbers],
            "x": [n * 7919 % 1009 for n in numbers],
            "y": [n * 104729 % 997 for n in numbers],
            "z": [n * 31 % 5 for n in numbers],
        }
    )
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
    sys.stdout.write("the same after the kill\n")
