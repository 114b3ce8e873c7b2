"""A small table with known errors, its rules, and the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

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
    """A working folder with only people.csv and people.rules."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "FORCE_COLOR", "NAYSAY_ENGINE"):
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


@pytest.fixture(scope="session")
def payloads() -> list[str]:
    text = (Path(__file__).parents[1] / "corpus" / "payloads.txt").read_text(encoding="utf-8")
    return [line for line in text.split("\n") if line]
