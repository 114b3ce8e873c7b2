"""Report: script injections in five places of a page that a real browser opens."""

from __future__ import annotations

import atexit
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "corpus"))

import pyarrow as pa
from payloads import payloads

import naysay
from browser import chromium
from naysay.detect.result import Report
from naysay.rule import parse
from naysay.rule.model import Column, Constant, Op, Predicate, Row, Rule
from soak.row import FINE, Outcome

PAYLOADS = payloads()
PLACES = ("value", "column", "rule", "file name", "key")
_PROVOKE = """() => {
  document.querySelectorAll('details').forEach((card) => { card.open = true; });
  document.querySelectorAll('*').forEach((node) => {
    for (const kind of ['mouseover', 'focus', 'click', 'load', 'error', 'toggle']) {
      if (!(node instanceof HTMLAnchorElement)) node.dispatchEvent(new Event(kind));
    }
  });
}"""


def trial(seed: int) -> Outcome:
    """One payload in one place."""
    payload, place = PAYLOADS[seed // len(PLACES) % len(PAYLOADS)], PLACES[seed % len(PLACES)]
    report = report_with(payload, place)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / (f"{_as_file_name(payload)}.html" if place == "file name" else "report.html")
        report.to_html(path)
        happened = _browser().happened_in(path)
    if happened:
        return Outcome(failure=f"{payload!r} as {place}: {happened}")
    return FINE


def report_with(payload: str, place: str) -> Report:
    """A real report with a broken rule and the payload in the given place."""
    column = payload if place == "column" else "city"
    values = [payload, payload + "2", "x"] if place == "value" else ["Ulm", "Bonn", "Kiel"]
    ids = [payload, payload + "2", "3"] if place == "key" else ["1", "2", "3"]
    table = pa.table({"zip": [1, 1, 2], column: values, "id": ids})
    rules = [parse("zip -> city"), parse("not(t.zip == 2)")]
    if place == "column":
        rules[0] = Rule((_equal("zip"), Predicate(Column(Row.LEFT, column), Op.NE, Column(Row.RIGHT, column))))
    if place == "rule":
        against = Predicate(Column(Row.LEFT, "city"), Op.NE, Constant(payload))
        rules = [Rule((*rules[0].predicates, against), name=payload, description=payload)]
    report = naysay.check(table, rules, key="id" if place == "key" else ())
    return replace(report, source=payload if place == "file name" else "data.csv")


def _equal(name: str) -> Predicate:
    return Predicate(Column(Row.LEFT, name), Op.EQ, Column(Row.RIGHT, name))


def _as_file_name(payload: str) -> str:
    return payload.replace("/", "∕").replace("\0", "")[:60]


class Browser:
    """A headless Chromium with one page, and everything in it that should not have happened."""

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._page = self._opened.enter_context(chromium()).new_context().new_page()
        self._happened: list[str] = []
        self._at = ""
        self._page.expose_function("naysayRan", lambda *_: self._happened.append("a script of the data ran"))
        self._page.on("console", lambda message: self._happened.append(f"console: {message.text}"))
        self._page.on("pageerror", lambda error: self._happened.append(f"error: {error}"))
        self._page.on("dialog", lambda dialog: self._happened.append("a dialog"))
        self._page.on("request", self._asked)

    def _asked(self, request: Any) -> None:
        if request.url != self._at:
            self._happened.append(f"a request for {request.url}")

    def happened_in(self, path: Path) -> list[str]:
        self._happened.clear()
        self._at = path.as_uri()
        self._page.goto(self._at)
        if not self._page.inner_text("h1"):
            return ["the page is empty"]
        self._page.evaluate(_PROVOKE)
        self._page.wait_for_timeout(20)
        return list(self._happened)

    def close(self) -> None:
        self._opened.close()


@cache
def _browser() -> Browser:
    browser = Browser()
    atexit.register(close_browser)
    return browser


def close_browser() -> None:
    """Close the browser, if one was started: a process can have only one at a time."""
    if _browser.cache_info().currsize:
        _browser().close()
        _browser.cache_clear()
