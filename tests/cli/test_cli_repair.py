"""`naysay repair` on a small table: golden outputs, exit codes, the folder of suggestions, changed copies."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result
from command_line import golden, without_progress

import naysay
from naysay.cli.group import naysay as command

STOPS = """\
id,zip,city,fare,note
s1,02139,Cambridge,1.10,"a, b"
s2,02139,Cambridge,2.00,
s3,02139,Cambritge,3.0,""
s4,02139,Cambridge,4,"say ""hi"" now"
s5,02139,Cambridge,5.50,=1+2
s6,04101,Portland,6,x
s7,04101,Bangor,7, y
s7,05401,Burlington,8,z
"""
RULES = "city: zip -> city\nid: key(id)\n"
REPAIR = ("repair", "stops.csv", "--rules", "stops.rules")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "FORCE_COLOR", "NAYSAY_ENGINE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "stops.csv").write_text(STOPS, encoding="utf-8")
    (tmp_path / "stops.rules").write_text(RULES, encoding="utf-8")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("repair.txt", ()),
        ("repair-key.txt", ("--key", "id", "--rule", "zip, fare -> city")),
        ("repair-quiet.txt", ("--quiet",)),
        ("repair-sure.txt", ("--min-confidence", "0.9")),
        ("repair.json", ("--format", "json")),
    ],
)
def test_golden_output(work: Path, name: str, more: tuple[str, ...]) -> None:
    done = run(*REPAIR, *more)
    assert done.exit_code == 1
    assert without_progress(done.stderr) == ""
    golden(name, done.stdout)
    assert (work / "stops.csv").read_text(encoding="utf-8") == STOPS


def test_exit_code_0_if_nothing_remains(work: Path) -> None:
    (work / "fixed.csv").write_text(STOPS.replace("Bangor", "Portland"), encoding="utf-8")
    done = run("repair", "fixed.csv", "--rule", "zip -> city")
    assert done.exit_code == 0
    assert done.stdout.startswith("1 suggestion; with all of them applied, 0 of 8 violations remain.")
    done = run("repair", "fixed.csv", "--rule", "zip -> id", "--rule", "key(fare)")
    assert done.exit_code == 1
    (work / "soft.yaml").write_text("- {rule: key(id), severity: warning}\n", encoding="utf-8")
    assert run("repair", "stops.csv", "--rules", "soft.yaml").exit_code == 0


def test_the_copy_of_a_csv_file_changes_nothing_else(work: Path) -> None:
    done = run(*REPAIR, "--apply", "copy.csv")
    assert "naysay: wrote a copy with 1 changed cell to copy.csv" in done.stderr
    expected = STOPS.replace("Cambritge", "Cambridge").replace("7, y", '7," y"')
    assert (work / "copy.csv").read_text(encoding="utf-8") == expected
    assert (work / "stops.csv").read_text(encoding="utf-8") == STOPS
    one, other = naysay.read("stops.csv"), naysay.read("copy.csv")
    assert one.drop_columns(["city"]).equals(other.drop_columns(["city"]))
    assert sorted(path.name for path in work.iterdir()) == ["copy.csv", "stops.csv", "stops.rules"]


@pytest.mark.parametrize("name", ["copy.parquet", "copy.jsonl"])
def test_copies_in_other_formats(work: Path, name: str) -> None:
    run(*REPAIR, "--apply", name)
    expected = naysay.repair(naysay.read("stops.csv"), "zip -> city").apply()
    assert naysay.read(name).to_pylist() == expected.to_pylist()
    assert run("check", name, "--rule", "zip, id -> city", "--engine", "local").exit_code == 0


def test_the_folder_of_suggestions(work: Path) -> None:
    for _ in range(2):
        done = run(*REPAIR, "--out", "found")
        assert "naysay: wrote 1 suggestion to found" in done.stderr
    found = pyarrow.csv.read_csv("found/suggestions.csv").to_pylist()
    assert [(row["row"], row["column"], row["old"], row["new"]) for row in found] == [
        (2, "city", "Cambritge", "Cambridge")
    ]
    assert json.loads((work / "found" / "repair.json").read_text("utf-8"))["violations_after"] == 4
    run(*REPAIR, "--out", "found", "--out-format", "parquet")
    assert pyarrow.parquet.read_table("found/suggestions.parquet").num_rows == 1
    assert not (work / "found" / "suggestions.csv").exists()


def test_formulas_in_suggestions_are_escaped(work: Path) -> None:
    (work / "f.csv").write_text("a,b\n" + "1,=cmd\n" * 4 + "1,x\n", encoding="utf-8")
    run("repair", "f.csv", "--rule", "a -> b", "--out", "safe", "--apply", "copy.csv")
    assert pyarrow.csv.read_csv("safe/suggestions.csv")["new"].to_pylist() == ["'=cmd"]
    assert (work / "copy.csv").read_text("utf-8") == "a,b\n" + "1,=cmd\n" * 5
    run("repair", "f.csv", "--rule", "a -> b", "--out", "raw", "--raw-csv")
    assert pyarrow.csv.read_csv("raw/suggestions.csv")["new"].to_pylist() == ["=cmd"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--apply", "stops.csv"), "--apply stops.csv is the table itself, which is never changed; name another file"),
        (("--apply", "copy.xlsx"), "--apply copy.xlsx: the file name must end in .csv, .parquet, .jsonl"),
        (("--out", "."), "--out . is not empty and not from naysay; use a new folder, or empty this one"),
        (("--min-confidence", "1"), "1.0 is not in the range 0<=x<1"),
        (("--key", "nope"), "the key column 'nope' is not in the table"),
    ],
)
def test_refusals(work: Path, more: tuple[str, ...], message: str) -> None:
    done = run(*REPAIR, *more)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
    assert (work / "stops.csv").read_text(encoding="utf-8") == STOPS


def test_only_local_files(work: Path) -> None:
    done = run("repair", "s3://bucket/stops.csv", "--rule", "zip -> city")
    assert done.exit_code == 2
    assert "repair reads local files only" in done.stderr
    done = run("repair", "stop.csv", "--rule", "zip -> city")
    assert done.exit_code == 2
    assert "there is no file 'stop.csv'; did you mean 'stops.csv'?" in done.stderr
    assert "no rules: name a file with --rules FILE" in run("repair", "stops.csv").stderr
