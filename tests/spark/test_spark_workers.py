"""Workers that lack something: one message that says what to do, exit code 2, and no Java stack trace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

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
