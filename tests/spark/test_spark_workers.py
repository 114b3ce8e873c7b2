"""Workers that lack something get a message that says what to do; others lose no time between tasks."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from naysay.spark.frame import map_in_arrow

# Found first by the workers' Python, and never by the driver's.
HIDE = """
import sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "naysay":
            raise ModuleNotFoundError("No module named 'naysay'", name="naysay")

sys.meta_path.insert(0, Hide())
"""


def fake_python(folder: Path) -> Path:
    (folder / "hide").mkdir()
    (folder / "hide" / "sitecustomize.py").write_text(HIDE, encoding="utf-8")
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{folder}/hide:$PYTHONPATH" exec "{sys.executable}" "$@"\n', encoding="utf-8"
    )
    python.chmod(0o755)
    return python


@pytest.mark.skipif(os.name == "nt", reason="a shell script stands for Python")
def test_workers_without_naysay(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,zip,city\n1,1,Ulm\n2,1,Bonn\n", encoding="utf-8")
    environment = {**os.environ, "PYSPARK_PYTHON": str(fake_python(tmp_path)), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-m", "naysay", "check", "people.csv", "--rule", "zip -> city", "--master", "local[1]"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    lines = done.stderr.strip().splitlines()
    assert lines[-1].startswith("naysay: Spark's workers have no naysay: ")
    assert "pip install PATH" in lines[-1]
    assert "--archives" in lines[-1]
    assert "PYSPARK_PYTHON" in lines[-1]
    for sign in ("Traceback", "org.apache.spark", "Py4J", "ModuleNotFoundError"):
        assert sign not in done.stdout + done.stderr


def test_modules_are_not_searched_for_garbage_after_every_task(spark: Any) -> None:
    def live_objects(batches: Any) -> Any:
        """How many objects the collector would look at, in a task of a worker that has numba in memory."""
        import naysay.kernels.sort  # noqa: F401

        for _ in batches:
            pass
        yield pa.record_batch({"live": pa.array([len(gc.get_objects())])})

    found = map_in_arrow(spark.range(0, 40, 1, 40), live_objects, pa.schema([("live", pa.int64())])).collect()
    # Only the first tasks of the two workers see what they load.
    numbers = sorted(row["live"] for row in found)
    assert numbers[-3] < 20_000, numbers
