"""A small real report, script injections, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import naysay
from browser import NoBrowser, chromium
from naysay.detect.result import Report
from naysay.rule import parse_rules

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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium, closed after the last test of a file because the long run of reports starts its own."""
    with ExitStack() as opened:
        try:
            started = opened.enter_context(chromium())
        except NoBrowser as missing:
            pytest.skip(str(missing))
        yield started
