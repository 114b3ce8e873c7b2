"""Beyond one session: Spark Connect, other versions of Spark, a killed executor, a standalone cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
import pytest
import verbs_job

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def run(*command: str, **settings: str) -> str:
    paths = os.pathsep.join(map(str, (ROOT / "src", HERE, HERE.parent)))
    environment = {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, env=environment | settings, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    return done.stdout


@pytest.mark.parametrize("judge", verbs_job.JUDGES)
def test_every_verb_without_what_serverless_spark_refuses(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge: Callable[[Any, int, Path], None]
) -> None:
    if judge is verbs_job.judge_interrupt and threading.current_thread() is not threading.main_thread():
        pytest.skip("interrupts come to the main thread")
    batch = spark.conf.get(verbs_job._BATCH)
    verbs_job.forbid(spark, partial(monkeypatch.setattr, raising=False))
    try:
        judge(spark, 7, tmp_path)
    finally:
        spark.conf.set(verbs_job._BATCH, batch)


def test_every_verb_over_connect() -> None:
    pytest.importorskip("grpc")
    if pyspark.__version__.startswith("3.5"):
        pytest.skip("pyspark 3.5 has no Connect server: run bash scripts/test-spark --verbs 3.5 connect")
    said = run(sys.executable, str(HERE / "verbs_job.py"), "connect", "7", "1")
    assert f"the same on Spark {pyspark.__version__}, connect: 1 seeds" in said


@pytest.mark.parametrize("version", ["3.5", "4.0"])
def test_every_verb_on_an_older_spark(version: str) -> None:
    place = ROOT / ".cache" / f"spark-{version}"
    python = place / "bin" / "python"
    if not (place / "naysay-installed").exists():
        pytest.skip(
            f"there is no environment with Spark {version}; bash scripts/test-spark --prepare {version} makes it"
        )
    said = run(str(python), str(HERE / "verbs_job.py"), "classic", "7", "1", PYSPARK_PYTHON=str(python))
    assert f"the same on Spark {version}." in said


def test_an_executor_killed_during_a_job() -> None:
    assert "the same after the kill" in run(sys.executable, str(HERE / "cluster_job.py"))


@pytest.mark.slow
@pytest.mark.skipif("NAYSAY_SLOW" not in os.environ, reason="starts three Java processes; set NAYSAY_SLOW to run it")
def test_a_standalone_cluster() -> None:
    script = ROOT / "scripts" / "cluster"
    assert "the same" in run("bash", str(script), sys.executable, str(HERE / "cluster_job.py"))
