"""The terminal, JUnit and Markdown: contents, well-formedness, and no value escapes its place."""

from __future__ import annotations

import io
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from hostile import hostile_report
from rich.console import Console

import naysay
from naysay.detect.result import Report
from naysay.report.ci import to_junit, to_markdown
from naysay.report.terminal import Detail, print_report
from naysay.report.view import named


def printed(report: Report, width: int = 80, detail: Detail | None = None, color: bool = False) -> str:
    stream = io.StringIO()
    plain = {"markup": False, "emoji": False, "highlight": False}
    colors = "standard" if color else None
    console = Console(file=stream, width=width, force_terminal=color, color_system=colors, **plain)
    print_report(report, console, detail)
    return stream.getvalue()


def test_the_answer_stands_first(report: Report) -> None:
    first = printed(report).splitlines()[0]
    assert first.endswith("2 of 5 rules are broken; 1 warning, 1 within tolerance.")


def test_what_matters_most_stands_first(report: Report) -> None:
    lines = [line.split() for line in printed(report, detail=Detail(quiet=True)).splitlines()[3:]]
    assert [line[:2] for line in lines if line][1:] == [["✗", "zip"], ["✗", "id"], ["!", "pay"], ["~", "rich"]]


def test_a_row_of_a_file_is_told_by_its_number_first() -> None:
    assert named({"file": "file:/a/very/long/way/people.csv", "row": 17}) == "row 17 of people.csv"
    assert named({"file": "s3a://b/year=2020/month=1/p.parquet", "row": 3}) == "row 3 of year=2020/month=1/p.parquet"
    assert named({"file": "ledger", "row": 3}) == "file ledger, row 3"


def test_both_rows_stand_side_by_side(report: Report) -> None:
    text = printed(report)
    assert (
        "          name Ada     name Cem\n    zip   10115     =  10115\n    city  Berlin    ≠  Bonn      <-\n"
    ) in text
    assert "both have zip 10115, but city is 'Berlin' in one and 'Bonn' in the other" in text


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_the_width_is_respected(report: Report, width: int) -> None:
    assert max(len(line) for line in printed(report, width).splitlines()) <= width


@pytest.mark.parametrize("width", [50, 80, 120])
def test_long_values_are_cut_where_they_differ(width: int) -> None:
    start = "the same words again and again " * 10
    table = pa.table({"a": ["k" * 300] * 2, "b": [start + "one end", start + "other end"]})
    text = printed(naysay.check(table, "a -> b"), width)
    assert max(len(line) for line in text.splitlines()) <= width
    shown = next(line for line in text.splitlines() if line.strip().startswith("b "))
    assert "one" in shown
    assert "other" in shown
    assert shown.rstrip().endswith("<-")


def test_no_line_ends_in_blanks_and_no_colour_without_a_terminal(report: Report) -> None:
    text = printed(report)
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_colours_on_request(report: Report) -> None:
    assert "\x1b[" in printed(report, color=True)


def test_a_table_without_violations_is_quiet(people: pa.Table) -> None:
    text = printed(naysay.check(people, ["id, name -> zip"]))
    assert text.startswith("✓ The rule holds.\n")
    assert "row 0" not in text


def test_no_value_steers_the_terminal() -> None:
    table = pa.table({"a": [1, 1], "b": ["\x1b[2J\x07", "a\nb\u202e\u2028"]})
    text = printed(naysay.check(table, "a -> b"))
    assert not set("\x1b\x07\u202e\u2028") & set(text)
    assert r"\x1b[2J\x07" in text
    assert r"a\nb\u202e\u2028" in text


def test_rich_markup_is_text() -> None:
    table = pa.table({"a": [1, 1], "b": ["[bold red]x[/]", ":smile:"]})
    text = printed(naysay.check(table, "a -> b"))
    assert "[bold red]x[/]" in text
    assert ":smile:" in text


def test_hostile_texts_on_a_terminal(payloads: list[str]) -> None:
    assert printed(hostile_report(payloads), 100)


def test_junit(report: Report) -> None:
    root = ElementTree.fromstring(to_junit(report))
    (suite,) = root
    assert suite.attrib["tests"] == "5"
    assert suite.attrib["failures"] == "2"
    cases = {case.attrib["name"]: case for case in suite.findall("testcase")}
    assert [name for name, case in cases.items() if case.find("failure") is not None] == ["zip", "id"]
    assert "name Ada and name Cem" in (cases["zip"].findtext("failure") or "")
    assert (cases["pay"].findtext("system-out") or "").startswith("warning: ")
    assert (cases["rich"].findtext("system-out") or "").startswith("tolerated: ")
    assert len(cases["whole"]) == 0


def test_junit_of_what_xml_cannot_say(payloads: list[str]) -> None:
    texts = [*payloads, "\x00\x01\x0b\x1f\ufffe", "]]>", "&amp;<"]
    root = ElementTree.fromstring(to_junit(hostile_report(texts)))
    assert len(root[0].findall("testcase")) == len(texts)


def test_markdown(report: Report) -> None:
    text = to_markdown(report)
    assert text.startswith("### 2 of 5 rules are broken")
    assert "| ❌ | zip: `zip -> city` | 4 | 3 | 1 |" in text
    assert "- name Ada and name Cem: both have zip 10115, but city is 'Berlin'" in text


def test_markdown_holds_no_html_but_its_own(payloads: list[str]) -> None:
    text = to_markdown(hostile_report(payloads))
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(table) == len(payloads) + 1
    for line in text.splitlines():
        outside = line.replace("<details><summary>", "").replace("</summary>", "").replace("</details>", "")
        in_code = outside.split("`")[1::2] if line.startswith("| ") else []
        for code in in_code:
            outside = outside.replace(f"`{code}`", "")
        assert "<" not in outside.replace("\\<", ""), line
