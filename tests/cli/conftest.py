"""A small table with known faults, its rules, and the command line in this process and as a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

GOLDEN = Path(__file__).parent / "golden"
PEOPLE = """\
id,name,zip,city,salary,rate
1,Ada,10115,Berlin,100,0.1
2,Ben,10115,Berlin,200,0.2
3,Cem,10115,Bonn,300,0.15
4,Dia,20095,Hamburg,400,0.4
5,Eve,20095,Hamburg,,0.3
5,Eve,20095,Hamburg,,0.3
"""
RULES = """\
# What must never be true of people.
zip: zip -> city
id: key(id)
pay: ordered(salary, rate)
whole: id, name -> zip
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with people.csv and people.rules."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "people.csv").write_text(PEOPLE, encoding="utf-8")
    (tmp_path / "people.rules").write_text(RULES, encoding="utf-8")
    return tmp_path


@pytest.fixture
def naysay() -> Callable[..., Result]:
    """Run the command line in this process."""
    from naysay.cli.group import naysay as command

    def run(*arguments: str, **options: Any) -> Result:
        return CliRunner().invoke(command, list(arguments), **options)

    return run


def run_process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process of its own."""
    command = [sys.executable, "-m", "naysay", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)


def golden(name: str, text: str) -> None:
    """Compare with the file of that name; NAYSAY_GOLDEN=write writes it. Times are left out of the comparison."""
    text = re.sub(r"(?<= · )(under )?[\d.,]+ (ms|s|min)(?=$|\n)", "TIME", text)
    text = re.sub(r"(time|seconds)(=\"|\": )[\d.e-]+", r"\1\2TIME", text)
    text = re.sub(r"(?<=local engine, )[\w. ]+", "TIME", text)
    path = GOLDEN / name
    if os.environ.get("NAYSAY_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def payloads() -> list[str]:
    text = (Path(__file__).parents[1] / "corpus" / "payloads.txt").read_text(encoding="utf-8")
    return [line for line in text.split("\n") if line]
