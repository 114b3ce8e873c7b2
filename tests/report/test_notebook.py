"""What a notebook cell and a plain console show."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hostile import hostile_report
from test_report_html import tags

import naysay
from naysay.detect.result import Report
from naysay.report.html import report_cell


@pytest.mark.parametrize(
    ("rule", "html", "text"),
    [
        ("zip -> city", "<code>zip -&gt; city</code>", "<zip -> city is broken: both have zip 10115, but city is"),
        ("id, name -> zip", "Holds:", "<id, name -> zip holds>"),
    ],
)
def test_verdict(people: pa.Table, rule: str, html: str, text: str) -> None:
    verdict = naysay.verify(people, rule)
    assert html in verdict._repr_html_()  # type: ignore[attr-defined]
    assert repr(verdict).startswith(text)


def test_report(report: Report) -> None:
    text = report._repr_html_()  # type: ignore[attr-defined]
    assert "2 of 5 rules are broken" in text
    assert "<td>broken</td><td>zip</td><td>4</td>" in text
    assert repr(report) == "<Report: 4 of 5 rules broken, 6 rows, local engine>"
    assert repr(report["zip"]) == "<zip: 4 violations, 1 rows to remove>"
    assert repr(report["whole"]) == "<whole: holds>"


def test_violations(people: pa.Table) -> None:
    found = naysay.violations(people, "zip -> city", limit=3)
    text = found._repr_html_()
    assert "4 violations, the first 3" in text
    assert text.count("<tr>") == 4
    assert repr(found) == "<Violations of zip -> city: 3 of 4 listed>"


def test_rule() -> None:
    rule = naysay.parse("zip: zip -> city")
    assert "For two rows with the same zip, city never differs." in rule._repr_html_()  # type: ignore[attr-defined]
    assert repr(rule) == "<Rule zip: zip -> city>"


def test_nothing_hostile_becomes_a_tag(payloads: list[str]) -> None:
    harmless = tags(report_cell(hostile_report(["text"] * len(payloads))))
    hostile = tags(report_cell(hostile_report(payloads)))
    assert {tag for tag, _ in hostile} <= {tag for tag, _ in harmless} | {"b"}
    assert not [name for _, attributes in hostile for name in attributes if name != "colspan"]
