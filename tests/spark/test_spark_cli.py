"""`naysay check` on Spark: the numbers that the in-process engine finds, results in a folder, errors in plain words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("pyspark")

RULES = """
- {name: zip, rule: zip -> city}
- {name: id, rule: key(id)}
- {name: pay, rule: "ordered(salary, rate)"}
- {name: "../low", rule: not(t.salary < 150)}
- {name: whole, rule: "id, name -> zip"}
"""
PEOPLE = """id,name,zip,city,salary,rate
1,Ada,10115,Berlin,100,0.1
2,Ben,10115,=Berlin,200,0.2
3,Cem,10115,Bonn,300,0.15
4,Dia,20095,Hamburg,400,0.4
5,Eve,20095,Hamburg,,0.3
5,Eve,20095,Hamburg,,0.3
"""


def run(*arguments: str) -> Result:
    from naysay.cli.group import naysay

    return CliRunner().invoke(naysay, list(arguments))


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(PEOPLE, encoding="utf-8")
    (tmp_path / "people.yaml").write_text(RULES, encoding="utf-8")
    return tmp_path


def _numbers(done: Result) -> list[dict[str, Any]]:
    assert done.exit_code == 1, done.output
    wanted = ("name", "holds", "passes", "violations", "rows_in_conflict", "rows_to_remove", "rows_to_remove_at_least")
    return [{name: rule[name] for name in wanted} for rule in json.loads(done.stdout)["rules"]]


def test_spark_finds_what_is_found_in_process(spark: Any, work: Path) -> None:
    command = ("check", "people.csv", "--rules", "people.yaml", "--key", "name", "--format", "json")
    results = ("--out", "results", "--out-format", "csv", "--report", "people.html")
    assert _numbers(run(*command, *results)) == _numbers(run(*command, "--engine", "local"))
    assert "4 of 5 rules are broken" in (work / "people.html").read_text(encoding="utf-8")
    assert sorted(path.name for path in (work / "results").iterdir()) == [
        ".naysay-results",
        "conflict_rows.csv",
        "report.json",
        "violations",
    ]
    folders = sorted((work / "results" / "violations").iterdir())
    assert [folder.name for folder in folders] == ["01-zip.csv", "02-id.csv", "03-pay.csv", "04-low.csv"]
    zips = _lines(folders[0])
    assert zips[0] == "rule,left,right,left_zip,left_city,right_zip,right_city"
    assert len(zips) == 1 + 6
    assert "zip,Ada,Ben,10115,Berlin,10115,'=Berlin" in zips
    rows = _lines(work / "results" / "conflict_rows.csv")
    assert rows[0] == "naysay_rules,id,name,zip,city,salary,rate"
    assert "zip; pay,3,Cem,10115,Bonn,300,0.15" in rows
    assert len(rows) == 1 + 5
    assert spark.range(1).count() == 1, "the session that was there is left running"


def _lines(folder: Path) -> list[str]:
    texts = [path.read_text(encoding="utf-8").splitlines() for path in sorted(folder.glob("part-*"))]
    return texts[0][:1] + [line for text in texts for line in text[1:]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("people.cvs", "--rule", "zip -> city"), "people.cvs"),
        (("people.csv", "--rule", "zip -> City"), "Did you mean 'city'?"),
        (("people.csv", "--rule", "zip -> city", "--strategy", "facet"), "--strategy is for --engine local"),
        (("people.csv", "--rule", "zip -> city", "--key", "nr"), "the key column 'nr'"),
    ],
)
def test_bad_input_is_one_message(spark: Any, work: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run("check", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.output
    assert "Exception" not in done.output
