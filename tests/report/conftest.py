"""A small real report, texts that would be code if they could, and a browser."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import naysay
from naysay.rule import parse_rules
from naysay.verbs.result import Report

CHROMIUM_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
RULES = """
- {name: zip, rule: "zip -> city", description: A post code lies in one city.}
- {name: id, rule: key(id)}
- {name: pay, rule: "ordered(salary, rate)", severity: warning}
- {name: rich, rule: "not(t.salary >= 400)", max_violations: 1}
- {name: whole, rule: "id, name -> zip"}
"""


@pytest.fixture(scope="session")
def people() -> pa.Table:
    return pa.table(
        {
            "id": [1, 2, 3, 4, 5, 5],
            "name": ["Ada", "Ben", "Cem", "Dia", "Eve", "Eve"],
            "zip": [10115, 10115, 10115, 20095, 20095, 20095],
            "city": ["Berlin", "Berlin", "Bonn", "Hamburg", "Hamburg", "Hamburg"],
            "salary": [100, 200, 300, 400, None, None],
            "rate": [0.1, 0.2, 0.15, 0.4, 0.3, 0.3],
        }
    )


@pytest.fixture(scope="session")
def report(people: pa.Table) -> Report:
    return naysay.check(people, parse_rules(RULES), key="name", sample=50)


@pytest.fixture(scope="session")
def payloads() -> list[str]:
    text = (Path(__file__).parents[1] / "corpus" / "payloads.txt").read_text(encoding="utf-8")
    return [line for line in text.split("\n") if line]


def _find_chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


def _install_chromium() -> None:
    """Debian's own package; without root or apt-get there is nothing to try."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "chromium", "fonts-dejavu-core"]
    for step in (["apt-get", "update", "-q"], command):
        subprocess.run(step, capture_output=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium; tests that need it are skipped where there is none and none can be installed.

    Closed with the last test of a file: a process can have one alone, and the soak of reports has its own.
    """
    playwright = pytest.importorskip("playwright.sync_api")
    if _find_chromium() is None:
        _install_chromium()
    path = _find_chromium()
    if path is None:
        pytest.skip("there is no Chromium, and without root and apt-get none can be installed")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS))
        yield started
        started.close()
