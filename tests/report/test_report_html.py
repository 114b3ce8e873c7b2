"""The page: self-contained, small, strict; and in a real browser it renders, filters, sorts, and runs nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hostile import hostile_report

import naysay
from naysay.detect.result import Report
from naysay.report import html
from naysay.report.html import to_html
from naysay.rule import load_rules, parse


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def tags(text: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = _Tags()
    parser.feed(text)
    return parser.found


def test_nothing_is_fetched_and_nothing_runs_but_its_own(report: Report) -> None:
    found = tags(to_html(report))
    names = [tag for tag, _ in found]
    assert names.count("script") == names.count("style") == 1
    assert not {"link", "img", "iframe", "object", "embed", "form", "base"} & set(names)
    for _, attributes in found:
        assert not [name for name in attributes if name.startswith("on") or name in ("style", "src", "action")]
        assert attributes.get("href", "#").startswith("#")


def test_what_an_engine_cannot_tell_is_said(report: Report) -> None:
    assert "does not report" not in to_html(report)
    results = tuple(replace(result, where=()) for result in report.results)
    poor = replace(report, engine="spark", results=results, busiest=(), rows_in_conflict=None)
    told = "spark engine does not report where in the table the rows in conflict are, which rows are in conflict"
    assert told in to_html(poor)
    held = replace(poor, results=tuple(result for result in results if result.holds))
    assert "does not report" not in to_html(held)


def test_the_policy_allows_exactly_what_the_page_holds(report: Report) -> None:
    text = to_html(report)
    policy = next(found["content"] for tag, found in tags(text) if tag == "meta" and "http-equiv" in found)
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        (inner,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_hostile_texts_make_no_tags(payloads: list[str]) -> None:
    """As many tags as with harmless texts, for any texts."""
    harmless = ["text"] * len(payloads)
    plain, hostile = tags(to_html(hostile_report(harmless))), tags(to_html(hostile_report(payloads)))
    assert {tag for tag, _ in hostile} <= {tag for tag, _ in plain} | {"mark", "code"}
    names = {name for _, attributes in hostile for name in attributes}
    assert names <= {name for _, attributes in plain for name in attributes}


def test_a_large_report_stays_small() -> None:
    n_rows = 3_000
    words = ["some rather long text that goes on and on " * 8 + str(i) for i in range(n_rows)]
    table = pa.table({f"c{i}": words if i % 2 else [i] * n_rows for i in range(40)})
    rules = [f"c{i} -> c{i + 1}" for i in range(0, 40, 2)] * 3
    assert len(to_html(naysay.check(table, rules, sample=50)).encode()) < 500_000


def test_a_report_without_rules_or_rows() -> None:
    assert "There are no rules" in to_html(replace(naysay.check(pa.table({"a": [1]}), "key(a)"), results=()))
    assert "holds" in to_html(naysay.check(pa.table({"a": pa.array([], pa.int64())}), ["key(a)"]))


@dataclass
class Opened:
    """A page in a browser, and everything in it that should not have happened."""

    page: Any
    happened: list[str] = field(default_factory=list)


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    contexts = []

    def open_page(text: str, name: str = "report.html", **options: Any) -> Opened:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        context = browser.new_context(**options)
        contexts.append(context)
        found = Opened(context.new_page())
        found.page.expose_function("naysayRan", lambda *_: found.happened.append("a script of the data ran"))
        found.page.on("console", lambda message: found.happened.append(f"console: {message.text}"))
        found.page.on("pageerror", lambda error: found.happened.append(f"error: {error}"))
        found.page.on("dialog", lambda dialog: found.happened.append("a dialog"))
        found.page.on("request", lambda asked: found.happened.append(asked.url) if asked.url != path.as_uri() else None)
        found.page.goto(path.as_uri())
        return found

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_it_renders(opened: Any, report: Report, scheme: str, width: int) -> None:
    found = opened(to_html(report), color_scheme=scheme, viewport={"width": width, "height": 800})
    assert found.page.inner_text("h1").startswith("2 of 5 rules are broken")
    assert found.page.locator(".card").count() == 5
    assert found.page.locator(".card[open]").count() == 4
    assert found.page.locator(".card.broken svg rect").count() >= 2
    assert found.page.evaluate("document.documentElement.scrollWidth") <= width
    assert found.happened == []


def test_light_and_dark_differ(opened: Any, report: Report) -> None:
    grounds = {
        opened(to_html(report), f"{scheme}.html", color_scheme=scheme).page.evaluate(
            "getComputedStyle(document.body).backgroundColor"
        )
        for scheme in ("light", "dark")
    }
    assert len(grounds) == 2


def _cities(n: int) -> Report:
    rows = range(n)
    table = pa.table({"zip": [1] * n, "city": [f"c{i * 7 % n}" for i in rows], "x": list(rows)})
    return naysay.check(table, ["zip -> city"], key="x", sample=40)


def test_it_filters(opened: Any) -> None:
    found = opened(to_html(_cities(12)))
    rows = found.page.locator(".pairs tbody tr:visible")
    whole = rows.count()
    found.page.fill(".filter", "c7")
    assert 0 < rows.count() < whole
    assert all("c7" in text for text in rows.all_inner_texts())
    assert found.page.inner_text("output") == f"{rows.count()} of {whole} shown"
    found.page.fill(".filter", "no such text")
    assert rows.count() == 0
    found.page.fill(".filter", "")
    assert rows.count() == whole
    assert found.happened == []


def test_it_sorts(opened: Any) -> None:
    found = opened(to_html(_cities(12)))
    button = found.page.locator(".pairs th button").first

    def numbers() -> list[int]:
        return [int(text) for text in found.page.locator(".pairs tbody tr td:first-child").all_inner_texts()]

    button.click()
    assert numbers() == sorted(numbers())
    button.click()
    assert numbers() == sorted(numbers(), reverse=True)
    assert found.page.locator("th[aria-sort=descending]").count() == 1
    found.page.locator(".pairs th button").last.click()
    cities = found.page.locator(".pairs tbody tr td:nth-child(4)").all_inner_texts()
    assert cities == sorted(cities)
    assert found.happened == []


def test_a_link_opens_its_card(opened: Any, report: Report) -> None:
    found = opened(to_html(report))
    assert not found.page.locator("#rule-5").evaluate("card => card.open")
    found.page.locator("a[href='#rule-5']").first.click()
    assert found.page.locator("#rule-5").evaluate("card => card.open")


def test_it_prints(opened: Any, report: Report) -> None:
    assert len(opened(to_html(report)).page.pdf()) > 5_000


def test_no_payload_runs(opened: Any, payloads: list[str]) -> None:
    found = opened(to_html(hostile_report(payloads)), "x<script>naysayRan()<script>.html")
    # Trigger everything that waits for the mouse, the keyboard or a timer.
    found.page.evaluate("document.querySelectorAll('details').forEach((card) => { card.open = true; })")
    found.page.evaluate(
        "document.querySelectorAll('*').forEach((node) => ['mouseover', 'focus', 'click', 'load', 'error', 'toggle']"
        ".forEach((kind) => node instanceof HTMLAnchorElement || node.dispatchEvent(new Event(kind))))"
    )
    found.page.wait_for_timeout(300)
    assert found.happened == []
    text = found.page.inner_text("main")
    for payload in payloads:
        if payload.isascii() and payload.isprintable() and "  " not in payload:
            assert payload in text


def test_the_hospital_rules(opened: Any, shared: Path) -> None:
    from naysay.io.files import read_table

    table = read_table(str(shared / "data" / "hospital" / "hospital.csv"))
    rules = load_rules(shared / "data" / "hospital" / "hospital_constraints.txt")
    text = to_html(naysay.check(table, rules, sample=50))
    assert len(text.encode()) < 500_000
    found = opened(text, viewport={"width": 390, "height": 844})
    assert found.page.locator(".card.broken").count() == 15
    assert found.happened == []


def test_a_page_of_many_rules_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of rules do not fit on a page of the usual size: the smallest page is used without trying others."""
    table = pa.table({f"c{place}": [1, 1, 1 + place // 29] for place in range(30)})
    rules = [parse(f"c{one}, c{two} -> c29") for one in range(29) for two in range(one)]
    report = naysay.check(table, rules)
    rooms: list[object] = []
    rendered = html._render
    monkeypatch.setattr(html, "_render", lambda report, room: rooms.append(room) or rendered(report, room))
    assert len(html.to_html(report).encode()) > html._LARGEST
    assert rooms == [html._ROOM[-1]]
