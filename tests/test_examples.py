"""Every example runs as its docstring says, from any folder, and prints what the docs promise."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

# Exit code and parts of the output.
SAID = {
    "gate.py": (1, ["error      zip_city: 3,924 violations, 8 rows", "tolerated  city_clinic"]),
    "suspects.py": (0, ["3 of 3,924 violations of zip -> city", "V11526 Poreland: in conflict with 262 rows"]),
    "good_and_bad.py": (0, ["1,988 rows are good, 12 in quarantine"]),
    "watch_changes.py": (0, ["396 added, 0 removed", "was already applied", "violations; 0 added, 396 removed"]),
    "spark_job.py": (1, ["visit: 4 violations in 4 rows", "city: 3,924 violations"]),
}


def test_every_example_is_tried() -> None:
    scripts = {path.name for path in EXAMPLES.glob("*.py") if "__main__" in path.read_text(encoding="utf-8")}
    assert scripts - {"make_clinics.py"} == set(SAID)


@pytest.mark.parametrize("name", SAID)
def test_example(name: str, tmp_path: Path) -> None:
    if "spark" in name:
        pytest.importorskip("pyspark")
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            pytest.skip("no Java runtime")
    code, words = SAID[name]
    # To a file: a pipe would stay open as long as any process that Spark started.
    said = tmp_path / "said.txt"
    with said.open("w") as output:
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / name)],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=500,
            check=False,
        )
    text = said.read_text(encoding="utf-8")
    assert done.returncode == code, text
    assert [part for part in words if part not in text] == []
