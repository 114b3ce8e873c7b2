"""Warnings on the command line: `check`, `lint --data`, `explain` and `--strict`; what `--report` and `--out` wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]

BEERS = "id,abv,ibu,style\n1,0.05,60,Ale\n2,0.06,N/A,Stout\n3,0.07,9,Ale\n"
RULES = """\
- {name: bitter, rule: "ordered(abv, ibu)", severity: info}
- {name: strong, rule: "not(t.style == 'stout' and t.abv > 0.1)"}
- {name: id, rule: key(id)}
"""
TEXT_ORDER = (
    "column 'ibu' is text, and text is ordered character by character ('10' < '9'), but 2 of its 3 values look like "
    "numbers. The first that does not is 'N/A' (row 1): read it as null with --null-values N/A, or correct it."
)
CONSTANT = (
    "no row has the value 'stout' in column 'style'; the nearest value is 'Stout' (row 1). Text must match exactly, "
    "including case."
)
CHECK = ("check", "beers.csv", "--rules", "beers.yaml", "--engine", "local")


@pytest.fixture
def beers(work: Path) -> Path:
    (work / "beers.csv").write_text(BEERS, encoding="utf-8")
    (work / "empty.csv").write_text(BEERS.splitlines()[0] + "\n", encoding="utf-8")
    (work / "beers.yaml").write_text(RULES, encoding="utf-8")
    return work


def in_one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("more", [(), ("--quiet",), ("--quick",)])
def test_check(beers: Path, naysay: Run, more: tuple[str, ...]) -> None:
    done = naysay(*CHECK, *more)
    assert done.exit_code == 0
    assert in_one_line(done.stdout).startswith("! All 3 rules pass; 3 warnings.")
    assert f"warning: {TEXT_ORDER} rule: bitter" in in_one_line(done.stdout)
    assert f"warning: {CONSTANT} rule: strong" in in_one_line(done.stdout)


def test_strict(beers: Path, naysay: Run) -> None:
    done = naysay(*CHECK, "--strict")
    assert done.exit_code == 1
    assert done.stdout.startswith("✗ All 3 rules pass; 3 warnings, so the strict check fails.")
    assert not json.loads(naysay(*CHECK, "--strict", "--format", "json").stdout)["passes"]
    assert naysay("check", "beers.csv", "--rule", "key(id)", "--engine", "local", "--strict").exit_code == 0


def test_a_csv_with_only_a_header(beers: Path, naysay: Run) -> None:
    check = ("check", "empty.csv", "--rules", "beers.yaml", "--engine", "local")
    done = naysay(*check)
    assert done.exit_code == 0
    assert "warning: the table has no rows, so every rule holds and none was tested." in in_one_line(done.stdout)
    assert naysay(*check, "--strict").exit_code == 1
    (beers / "some.yaml").write_text("min_rows: 1\nrules: [key(id)]\n", encoding="utf-8")
    done = naysay("check", "empty.csv", "--rules", "some.yaml", "--engine", "local")
    assert done.exit_code == 1
    assert done.stdout.startswith("✗ The table has too few rows; 1 warning.")
    assert "It holds. It needs a table of at least 1 row, and this one has 0." in done.stdout


def test_lint_with_data(beers: Path, naysay: Run) -> None:
    lint = ("lint", "beers.yaml", "--data", "beers.csv", "--engine", "local")
    done = naysay(*lint)
    assert done.exit_code == 0
    assert done.stderr.splitlines() == [f"beers.yaml:1: warning: {TEXT_ORDER}", f"beers.yaml:2: warning: {CONSTANT}"]
    assert "ordered" in naysay(*lint, "--short").stdout
    assert naysay(*lint, "--strict").exit_code == 1
    done = naysay("lint", "beers.yaml", "--data", "empty.csv", "--engine", "local")
    assert done.stderr.startswith("empty.csv: warning: the table has no rows")
    (beers / "bad.rules").write_text("key(Id)\nordered(abv, ibu)\n", encoding="utf-8")
    done = naysay("lint", "bad.rules", "--data", "beers.csv", "--engine", "local")
    assert done.exit_code == 2
    assert "there is no column 'Id'" in done.stderr


def test_explain(beers: Path, naysay: Run) -> None:
    explain = ("explain", "beers.csv", "--rules", "beers.yaml", "--engine", "local")
    assert f"warning: {TEXT_ORDER}" in in_one_line(naysay(*explain).stdout)
    document = json.loads(naysay(*explain, "--format", "json").stdout)
    assert [[warning["code"] for warning in rule["warnings"]] for rule in document["rules"]] == [
        ["text-order"],
        ["unknown-constant"],
        [],
    ]
    empty = naysay("explain", "empty.csv", "--rules", "beers.yaml", "--engine", "local")
    assert empty.stdout.startswith("warning: the table has no rows")


def test_what_was_written_is_said(work: Path, naysay: Run) -> None:
    check = ("check", "people.csv", "--rules", "people.rules", "--engine", "local")
    done = naysay(*check, "--report", "people.html", "--out", "results")
    assert done.stderr.splitlines() == [
        "naysay: results written to results: cells.csv, conflict_rows.parquet, report.json, suspects of 3 rules, "
        "violations of 3 rules",
        "naysay: report written to people.html",
    ]
    assert naysay(*check, "--report", "people.html", "--out", "results", "--quiet").stderr == ""
    done = naysay("lint", "people.rules", "--out", "again.rules")
    assert done.stderr.splitlines()[-1] == "naysay: rules written to again.rules"
    discover = ("discover", "people.csv", "--engine", "local", "--columns", "zip,city")
    done = naysay(*discover, "--out", "found.rules", "--report", "found.html")
    assert "naysay: report written to found.html" in done.stderr
    assert "written to found.rules" in done.stderr


def test_a_report_names_its_run_its_rules_and_its_data(work: Path, naysay: Run) -> None:
    check = ("check", "people.csv", "--rules", "people.rules", "--engine", "local")
    documents = [json.loads(naysay(*check, "--format", "json").stdout) for _ in range(2)]
    assert all((each["source"], each["rules_source"]) == ("people.csv", "people.rules") for each in documents)
    assert documents[0]["run_id"] != documents[1]["run_id"]
    assert documents[0]["time"].endswith("+00:00")
