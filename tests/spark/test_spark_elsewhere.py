"""Beyond one process: Spark Connect, a killed executor, a standalone cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def run(*command: str, **settings: str) -> str:
    paths = os.pathsep.join(map(str, (HERE, HERE.parent)))
    environment = {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, env=environment | settings, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    return done.stdout


def test_every_verb_over_connect() -> None:
    pytest.importorskip("grpc")
    assert "the same over Connect: 1 seeds" in run(sys.executable, str(HERE / "connect_job.py"), "7", "1")


def test_an_executor_killed_during_a_job() -> None:
    assert "the same after the kill" in run(sys.executable, str(HERE / "cluster_job.py"))


@pytest.mark.slow
@pytest.mark.skipif("NAYSAY_SLOW" not in os.environ, reason="starts three Java processes; set NAYSAY_SLOW to run it")
def test_a_standalone_cluster() -> None:
    script = HERE.parents[1] / "scripts" / "cluster"
    assert "the same" in run("bash", str(script), sys.executable, str(HERE / "cluster_job.py"))
