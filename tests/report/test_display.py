"""Results show, export and convert themselves, without any verb being called first."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import naysay
from naysay.detect.result import Report
from naysay.report.json_ import from_json


def test_a_report_prints_what_the_terminal_shows(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    lines = str(report).splitlines()
    assert lines[0].endswith("2 of 5 rules are broken; 1 warning, 1 within tolerance.")
    assert "\x1b" not in str(report)
    assert "    city  Berlin    ≠  Bonn      <-" in lines


def test_a_report_becomes_json_html_and_a_frame(report: Report, tmp_path: Path) -> None:
    assert json.loads(report.to_json())["rows"] == 6
    page = report.to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page == report.to_html()
    frame = report.to_pandas()
    assert list(frame["name"]) == [result.rule.name for result in report]
    assert list(frame["violations"]) == [result.violations for result in report]


def test_a_loaded_report_shows_itself_in_a_fresh_process(report: Report, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(report.to_json(), encoding="utf-8")
    script = (
        "import json, sys\nfrom naysay.report.json_ import from_json\n"
        "report = from_json(json.load(open(sys.argv[1])))\nprint(report)\nprint(report._repr_html_())\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "report.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert "2 of 5 rules are broken" in done.stdout
    assert "<table>" in done.stdout
    assert str(from_json(json.loads(report.to_json()))) == str(report)


def test_a_verdict(people: pa.Table) -> None:
    verdict = naysay.verify(people, "zip -> city")
    assert str(verdict).startswith("The rule is broken: zip -> city\nFor example row 0 and row 2: both have zip 10115")
    assert str(naysay.verify(people, "id, name -> zip")) == "The rule holds: id, name -> zip"
    assert list(verdict.to_pandas()["holds"]) == [False]


def test_violations(people: pa.Table) -> None:
    found = naysay.violations(people, "zip -> city", limit=3)
    assert str(found).startswith("zip -> city: 4 violations, the first 3\n")
    assert len(found.to_pandas()) == 3


def test_a_discovery(people: pa.Table, tmp_path: Path) -> None:
    found = naysay.discover(people, max_predicates=2)
    assert "minimal rules hold" in str(found).splitlines()[0]
    assert json.loads(found.to_json())["n_rules"] == len(found.rules)
    assert "Content-Security-Policy" in found.to_html(tmp_path / "found.html")
    assert list(found.to_pandas()["rule"]) == [naysay.render(rule) for rule in found.best]
    assert "<th>tested by</th>" in found._repr_html_()


def test_a_change_of_violations() -> None:
    rows = pa.table({"id": [1, 2, 3], "zip": [1, 1, 2], "city": ["Ulm", "Bonn", "Kiel"]})
    with naysay.Watch(rules=["zip: zip -> city"], key="id") as watch:
        change = watch.apply(inserts=rows)
        assert str(change) == "3 rows, 2 violations; 2 added, 0 removed\n  zip: 2"
        frame = change.to_pandas()
        assert [tuple(row) for row in frame[["change", "rule", "left", "right"]].itertuples(index=False)] == [
            ("added", "zip", 1, 2),
            ("added", "zip", 2, 1),
        ]
        assert change._repr_html_().count("<tr>") == 3
        repaired = watch.apply(deletes=rows.slice(1, 1).select(["id"])).to_pandas()
        assert list(repaired["change"]) == ["removed", "removed"]


def test_a_change_of_rules() -> None:
    rows = pa.table({"id": [1, 2, 3], "zip": [1, 1, 2], "city": ["Ulm", "Ulm", "Kiel"]})
    with naysay.Evolver(rows, key="id", columns=["zip", "city"]) as evolver:
        change = evolver.apply(inserts=pa.table({"id": [4], "zip": [1], "city": ["Bonn"]}))
        lines = str(change).splitlines()
        assert lines[0].startswith("4 rows, ")
        assert "- zip -> city" in lines
        frame = change.to_pandas()
        assert set(frame["change"]) == {"removed"}
        assert frame["reason"].str.contains("both have zip 1").any()
        assert len(frame) == len(change.added) + len(change.removed)
        assert "<td>removed</td>" in change._repr_html_()


def test_a_frame_needs_pandas() -> None:
    """In a process of its own, because pyarrow remembers whether it found pandas."""
    script = (
        "import sys\n"
        "class NoPandas:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'pandas':\n            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, NoPandas())\nimport naysay, pyarrow as pa\n"
        "naysay.check(pa.table({'a': [1, 1]}), 'key(a)').to_pandas()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False)
    assert "UsageError: to_pandas needs the package pandas: pip install pandas" in done.stderr
