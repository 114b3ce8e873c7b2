"""Warnings in every form of a report, and what identifies a run."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from schema_check import faults

import naysay
from naysay.detect.result import Caution, Report
from naysay.report.ci import to_junit, to_markdown
from naysay.report.html import report_cell, to_html
from naysay.report.json_ import dumps, from_json, to_json
from naysay.report.view import headline
from naysay.rule import Rule, parse, parse_rules
from traps import TRAPS

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schema" / "check.schema.json").read_text(encoding="utf-8"))
MESSAGE = "The first that does not is 'N/A' (id 2): read it as null with --null-values N/A, or correct it."


@pytest.fixture(scope="module")
def warned() -> Report:
    rules = parse_rules("bitter: not(t.ibu == 'n/a' and t.abv > 9)\nalcohol: ordered(abv, ibu)\nid: key(id)")
    return naysay.check(TRAPS["numbers beside N/A"].table, rules, key="id")


@pytest.fixture(scope="module")
def empty() -> Report:
    return naysay.check(TRAPS["no rows"].table, ["key(id)", "key(a)"])


def test_terminal(warned: Report, empty: Report) -> None:
    text = " ".join(str(warned).split())
    assert headline(warned) == "1 of 3 rules is broken; 2 warnings."
    assert "warning: no row has the value 'n/a' in column 'ibu'" in text
    assert f"{MESSAGE} rule: alcohol" in text
    assert str(empty).splitlines()[0].endswith("All 2 rules hold; 1 warning.")
    assert headline(replace(empty, strict=True)) == "All 2 rules hold; 1 warning, so the strict check fails."
    assert "  warning: the table has no rows, so every rule holds and none was tested." in str(empty)


def test_json_as_the_schema_says(warned: Report, empty: Report) -> None:
    for report in (warned, empty):
        document = json.loads(dumps(report))
        assert faults(document, SCHEMA) == []
        again = from_json(document)
        assert to_json(again) == to_json(report)
        assert (again.warnings, again.run_id, again.time) == (
            report.warnings,
            report.run_id,
            report.time and report.time.replace(microsecond=0),
        )
    document = to_json(warned)
    assert [(entry["code"], entry["rules"]) for entry in document["warnings"]] == [
        ("unknown-constant", [0]),
        ("text-order", [1]),
    ]
    assert document["rules"][1]["warnings"][0]["row"] == {"id": 2}
    assert set(document["warnings"][0]) == set(SCHEMA["$defs"]["warning"]["properties"])


def test_a_report_of_an_earlier_version_is_read(warned: Report) -> None:
    document = to_json(warned)
    for name in ("strict", "run_id", "time", "rules_source", "warnings"):
        del document[name]
    for entry in document["rules"]:
        del entry["warnings"], entry["min_rows"]
    again = from_json(document)
    assert (again.warnings, again.run_id, again.time) == ((), "", None)
    assert str(again)
    assert to_html(again)
    assert to_junit(again)
    assert to_markdown(again)


def test_page_and_notebook(warned: Report) -> None:
    page = to_html(warned)
    message = MESSAGE.replace("'", "&#39;")
    assert page.count(message) == 2
    assert f"run {warned.run_id}" in page
    assert message in report_cell(warned)
    hostile = replace(warned, table_warnings=(Caution("untested", "<script>x</script>"),))
    assert "<script>x" not in to_html(hostile)
    assert "<script>x" not in report_cell(hostile)


def test_markdown(warned: Report) -> None:
    text = to_markdown(warned)
    assert "> **Warning** column 'ibu' is text" in text
    assert "or correct it. (rule: alcohol)" in text
    assert f"run {warned.run_id}" in text


def test_junit_fails_on_warnings_only_if_strict(warned: Report, empty: Report) -> None:
    (suite,) = ElementTree.fromstring(to_junit(warned))
    assert suite.attrib["failures"] == "1"
    bitter, alcohol, key = suite.findall("testcase")
    assert (bitter.findtext("system-out") or "").startswith("warning: no row has the value 'n/a'")
    assert MESSAGE in (alcohol.findtext("failure") or "")
    assert len(key) == 0
    assert [each.attrib["value"] for each in suite.findall("properties/property")] == [warned.run_id, ""]
    (suite,) = ElementTree.fromstring(to_junit(replace(warned, strict=True)))
    assert suite.attrib["failures"] == "2"
    (suite,) = ElementTree.fromstring(to_junit(replace(empty, strict=True)))
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("3", "1")
    assert suite.findall("testcase")[2].attrib["name"] == "the table"


def test_run_facts(warned: Report) -> None:
    assert len(warned.run_id) == 12
    assert warned.time is not None
    assert abs((datetime.now(timezone.utc) - warned.time).total_seconds()) < 3600
    named = replace(warned, source="beers.csv", rules_source="beers.rules")
    second, third = str(named).splitlines()[1:3]
    assert second.strip().startswith("beers.csv · 4 rows")
    assert third.strip() == f"rules from beers.rules · {warned.time:%Y-%m-%d %H:%M:%S} UTC · run {warned.run_id}"


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ("- {rule: key(a), min_rows: 3}", "The table has too few rows."),
        (
            "{min_rows: 3, rules: [key(a), {rule: a -> b, min_rows: 2}]}",
            "1 of 2 rules needs more rows than the table has.",
        ),
        ("- {rule: b -> a, min_rows: 3}", "The rule is broken."),
        ("- {rule: key(a), min_rows: 3, severity: warning}", "The rule fails, but only as a warning."),
    ],
)
def test_min_rows(rules: str, says: str) -> None:
    report = naysay.check(pa.table({"a": [1, 2], "b": [1, 1]}), parse_rules(rules))
    assert headline(report) == says
    assert report.passes == ("severity" in rules)
    text = " ".join(str(report).split())
    assert "It needs a table of at least 3 rows, and this one has 2." in text
    (suite,) = ElementTree.fromstring(to_junit(report))
    assert suite.attrib["failures"] == str(int(not report.passes))
    assert faults(json.loads(dumps(report)), SCHEMA) == []
    assert [result.rule for result in from_json(to_json(report))] == [result.rule for result in report]
    assert "rows needed" in to_html(report)


def test_a_rule_within_its_tolerance_on_too_few_rows_says_so() -> None:
    rule = Rule(parse("key(a)").predicates, max_violations=9, min_rows=3)
    text = " ".join(str(naysay.check(pa.table({"a": [1, 1]}), rule)).split())
    assert "Within its tolerance of 9. It needs a table of at least 3 rows, and this one has 2." in text


def test_of_very_many_warnings_the_first_are_shown() -> None:
    table = pa.table({f"c{number}": ["x"] for number in range(30)})
    report = naysay.check(table, [f"not(t.c{number} == 'y' and t.c0 == 'x')" for number in range(30)])
    assert len(report.warnings) == 29 + 1
    assert str(report).count("warning: ") == 21
    assert "warning: 10 more warnings; see them in the JSON report" in str(report)
    assert "10 more warnings" in to_markdown(report)
    assert "10 more warnings" in to_html(report)
