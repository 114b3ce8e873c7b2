"""`naysay check`, `report`, `explain` and `sql` on a small table: golden outputs, formats, exit codes, results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
import pytest
from click.testing import Result
from command_line import golden, run_process, without_progress

from naysay.detect.strategy import NAMES
from naysay.papers.facet import RuleParts, tries

Run = Callable[..., Result]
CHECK = ("check", "people.csv", "--rules", "people.rules", "--engine", "local")


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("check.txt", ()),
        ("check-key.txt", ("--key", "id", "--key", "name", "--sample", "1")),
        ("check-quiet.txt", ("--quiet",)),
        ("check-quick.txt", ("--quick",)),
        ("check-joint.txt", ("--joint", "--quiet")),
        ("check.json", ("--format", "json")),
        ("check.xml", ("--format", "junit")),
        ("check.md", ("--format", "md")),
        ("check-nulls-equal.txt", ("--nulls", "equal", "--rule", "nulls: key(salary)", "--quiet")),
    ],
)
def test_golden_output(work: Path, naysay: Run, name: str, more: tuple[str, ...]) -> None:
    done = naysay(*CHECK, *more)
    assert done.exit_code == 1
    assert without_progress(done.stderr) == ""
    golden(name, done.stdout)


def test_a_process_prints_the_same(work: Path) -> None:
    done = run_process(*CHECK)
    assert done.returncode == 1
    assert without_progress(done.stderr) == ""
    golden("check.txt", done.stdout)


@pytest.mark.parametrize("strategy", NAMES)
def test_every_strategy_counts_the_same(
    work: Path, naysay: Run, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The published methods by name; FACET counts all two-row rules together, by its tries."""
    together: list[int] = []
    check_many = tries.check_many

    def watched(rules: Sequence[RuleParts], **options: Any) -> list[int]:
        together.append(len(rules))
        return check_many(rules, **options)

    monkeypatch.setattr(tries, "check_many", watched)

    def counts(*more: str) -> list[tuple[str, int, int]]:
        done = naysay(*CHECK, "--format", "json", *more)
        assert done.exit_code == 1
        rules = json.loads(done.stdout)["rules"]
        return [(each["rule"], each["violations"], each["rows_in_conflict"]) for each in rules]

    expected = counts()
    assert len(expected) > 3
    assert counts("--strategy", strategy) == expected
    assert (max(together, default=0) > 1) == strategy.startswith("facet")


def test_exit_code_0_when_all_hold(work: Path, naysay: Run) -> None:
    done = naysay("check", "people.csv", "--rule", "id, name -> zip", "--engine", "local")
    assert done.exit_code == 0
    assert done.stdout.startswith("✓ The rule holds.")


def test_tolerance_and_severity_decide_the_exit_code(work: Path, naysay: Run) -> None:
    (work / "soft.yaml").write_text(
        "- {rule: zip -> city, max_violations: 4}\n- {rule: key(id), severity: warning}\n", encoding="utf-8"
    )
    assert naysay("check", "people.csv", "--rules", "soft.yaml", "--engine", "local").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "environment", "colored"),
    [
        ((), {}, False),
        (("--color", "always"), {}, True),
        (("--color", "never"), {"FORCE_COLOR": "1"}, False),
        ((), {"NO_COLOR": "1"}, False),
    ],
)
def test_colours(
    work: Path, naysay: Run, arguments: tuple[str, ...], environment: dict[str, str], colored: bool
) -> None:
    assert ("\x1b[" in naysay(*CHECK, *arguments, env=environment).stdout) == colored


def test_json_and_report_tell_the_same(work: Path, naysay: Run) -> None:
    (work / "results.json").write_text(naysay(*CHECK, "--format", "json").stdout, encoding="utf-8")
    done = naysay("report", "results.json")
    assert done.exit_code == 0
    assert (work / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    golden("check.txt", naysay("report", "results.json", "--format", "text").stdout)
    assert naysay("report", "results.json", "--out", "page.html").stdout.strip() == "page.html"
    ElementTree.fromstring(naysay("report", "results.json", "--format", "junit").stdout)


def test_a_page_on_the_way(work: Path, naysay: Run) -> None:
    assert naysay(*CHECK, "--report", "people.html", "--quiet").exit_code == 1
    assert "3 of 4 rules are broken" in (work / "people.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_results_in_a_folder(work: Path, naysay: Run, format: str) -> None:
    assert naysay(*CHECK, "--out", "results", "--out-format", format).exit_code == 1
    found = sorted(path.relative_to(work / "results").as_posix() for path in (work / "results").rglob("*.*"))
    assert found == [
        ".naysay-results",
        "cells.csv",
        f"conflict_rows.{format}",
        "report.json",
        f"suspects/01-zip.{format}",
        f"suspects/02-id.{format}",
        f"suspects/03-pay.{format}",
        f"violations/01-zip.{format}",
        f"violations/02-id.{format}",
        f"violations/03-pay.{format}",
    ]
    suspects = _read(work / "results" / "suspects" / f"01-zip.{format}")
    assert [(row["row"], row["city"]) for row in suspects] == [(2, "Bonn")]
    violations = _read(work / "results" / "violations" / f"01-zip.{format}")
    assert [(row["left"], row["right"], row["left_city"], row["right_city"]) for row in violations] == [
        (0, 2, "Berlin", "Bonn"),
        (1, 2, "Berlin", "Bonn"),
        (2, 0, "Bonn", "Berlin"),
        (2, 1, "Bonn", "Berlin"),
    ]
    rows = _read(work / "results" / f"conflict_rows.{format}")
    assert [row["naysay_row"] for row in rows] == [0, 1, 2, 4, 5]
    assert rows[2]["naysay_rules"] == ("zip; pay" if format == "csv" else ["zip", "pay"])
    assert rows[2]["city"] == "Bonn"
    cells = _read(work / "results" / "cells.csv")
    assert {(cell["_tid_"], cell["attribute"]) for cell in cells if cell["_tid_"] == 1} == {
        (1, "zip"),
        (1, "city"),
        (1, "salary"),
        (1, "rate"),
    }
    assert json.loads((work / "results" / "report.json").read_text(encoding="utf-8"))["rows_in_conflict"] == 5


def test_the_rows_to_remove_for_all_rules_are_written_beside_those_of_each(work: Path, naysay: Run) -> None:
    done = naysay(*CHECK, "--joint", "--out", "results", "--out-format", "csv", "--format", "json", "--sample", "1")
    assert "suspects of 3 rules, suspects/all-rules.csv, violations of 3 rules" in done.stderr
    report = json.loads(done.stdout)
    rows = _read(work / "results" / "suspects" / "all-rules.csv")
    assert len(rows) == report["rows_to_remove"] == report["rows_to_remove_at_least"]
    assert [suspect["row"] for suspect in report["suspects"]] == [{"row": rows[0]["row"]}]
    assert list(rows[0]) == ["row", "zip", "city", "id", "salary", "rate"]
    # The next run replaces them.
    naysay(*CHECK, "--out", "results")
    assert not list(work.glob("results/suspects/all-rules.*"))


def test_quick_and_joint_exclude_each_other(work: Path, naysay: Run) -> None:
    done = naysay(*CHECK, "--quick", "--joint")
    assert done.exit_code == 2
    assert "--quick stops at the first violation, so it cannot find the rows to remove" in done.stderr


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_results_of_a_table_with_columns_of_that_name(work: Path, naysay: Run, format: str) -> None:
    """Like the rows in conflict of an earlier run; and with text as Polars writes it, as views and categories."""
    zips = pl.Series(["1", "1", None], dtype=pl.Categorical)
    pl.DataFrame({"naysay_row": [5, 6, 7], "zip": zips, "city": ["U", "V", "W"]}).write_ipc(work / "odd.arrow")
    given = ("check", "odd.arrow", "--engine", "local", "--rule", "zip -> city")
    assert naysay(*given, "--out", "results", "--out-format", format).exit_code == 1
    rows = _read(work / "results" / f"conflict_rows.{format}")
    assert [(row["naysay_row_2"], row["naysay_row"], row["city"]) for row in rows] == [(0, 5, "U"), (1, 6, "V")]


def _read(path: Path) -> list[dict[str, object]]:
    if path.suffix == ".parquet":
        return list(pyarrow.parquet.read_table(path).to_pylist())
    if path.suffix == ".csv":
        return list(pyarrow.csv.read_csv(path).to_pylist())
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_results_are_written_again_over_our_own(work: Path, naysay: Run) -> None:
    naysay(*CHECK, "--out", "results")
    assert naysay("check", "people.csv", "--rule", "a: key(id)", "--engine", "local", "--out", "results").exit_code == 1
    assert [path.name for path in (work / "results" / "violations").iterdir()] == ["01-a.parquet"]


@pytest.mark.parametrize("marked", [False, True])
def test_a_folder_with_anything_else_is_refused(work: Path, naysay: Run, marked: bool) -> None:
    folder = work / "results"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work", encoding="utf-8")
    if marked:
        (folder / ".naysay-results").touch()
    assert naysay(*CHECK, "--out", "results").exit_code == 2
    assert [path.name for path in folder.iterdir() if path.name != ".naysay-results"] == ["thesis.tex"]


def test_a_link_is_neither_followed_nor_emptied(work: Path, naysay: Run) -> None:
    (work / "elsewhere").mkdir()
    (work / "elsewhere" / "precious").touch()
    (work / "link").symlink_to("elsewhere")
    assert naysay(*CHECK, "--out", "link").exit_code == 2
    naysay(*CHECK, "--out", "results")
    for path in (work / "results" / "violations").iterdir():
        path.unlink()
    (work / "results" / "violations").rmdir()
    (work / "results" / "violations").symlink_to(work / "elsewhere")
    assert naysay(*CHECK, "--out", "results").exit_code == 1
    assert [path.name for path in (work / "elsewhere").iterdir()] == ["precious"]
    assert not (work / "results" / "violations").is_symlink()


def test_names_of_rules_cannot_leave_the_folder(work: Path, naysay: Run, payloads: list[str]) -> None:
    names = [*payloads, "..", ".", "/", "\\", "a/b", "x" * 400, "ä", ""]
    lines = [f"{json.dumps(name)}: key(id)" for name in names if "\\" not in name]
    (work / "odd.rules").write_text("\n".join(lines), encoding="utf-8")
    before = set(work.rglob("*"))
    done = naysay("check", "people.csv", "--rules", "odd.rules", "--engine", "local", "--out", "results", "--quiet")
    assert done.exit_code == 1
    made = set(work.rglob("*")) - before
    assert all(path == work / "results" or (work / "results") in path.parents for path in made)
    assert len([path for path in made if path.parent.name == "violations"]) == len(lines)


def test_a_limit_is_told(work: Path, naysay: Run) -> None:
    done = naysay(*CHECK, "--out", "results", "--limit", "2")
    assert "results has only 2 violations of: zip (4)" in done.stderr
    assert "use --limit N to write more" in naysay(*CHECK, "--out", "results", "--limit", "2", "--quiet").stderr
    assert len(_read(work / "results" / "violations" / "01-zip.parquet")) == 2


@pytest.mark.parametrize("raw", [False, True])
def test_formulas_in_csv_are_neutralised(work: Path, naysay: Run, raw: bool) -> None:
    risky = ["=1+2", "+1", "-x", "@SUM(A1)", "\tx", "\rx", "plain"]
    table = pyarrow.table({"=id": [-1] * len(risky), "value": risky})
    pyarrow.parquet.write_table(table, work / "risky.parquet")
    arguments = ["check", "risky.parquet", "--rule", '"=id" -> value', "--engine", "local", "--out", "results"]
    assert naysay(*arguments, "--out-format", "csv", *(["--raw-csv"] if raw else [])).exit_code == 1
    text = (work / "results" / "conflict_rows.csv").read_text(encoding="utf-8")
    cells = [cell.strip('"') for line in text.replace("\r", "<CR>").split("\n") for cell in line.split('","')]
    begins = {cell.split(",")[-1].strip('"')[:1] for cell in cells if cell}
    assert bool(begins & {"=", "+", "@", "\t"}) == raw
    assert ",-1," in text


def test_other_files(work: Path, naysay: Run) -> None:
    table = pyarrow.csv.read_csv("people.csv")
    pyarrow.parquet.write_table(table, "people.parquet")
    expected = json.loads(naysay(*CHECK, "--format", "json").stdout)["rules"]
    found = naysay("check", "people.parquet", "--rules", "people.rules", "--engine", "local", "--format", "json")
    again = json.loads(found.stdout)["rules"]
    assert [rule["violations"] for rule in again] == [rule["violations"] for rule in expected]


def test_explain(work: Path, naysay: Run) -> None:
    done = naysay("explain", "--rules", "people.rules", "--engine", "local")
    assert done.exit_code == 0
    golden("explain.txt", done.stdout)
    entry = json.loads(
        naysay("explain", "people.csv", "--rules", "people.rules", "--engine", "local", "--format", "json").stdout
    )
    assert entry["rows"] == 6
    assert [rule["plan"] for rule in entry["rules"]] == ["dependency", "key", "two orders", "dependency"]
    assert all(rule["seconds"] > 0 and rule["bytes"] > 0 for rule in entry["rules"])


def test_explain_for_spark(work: Path, naysay: Run) -> None:
    pytest.importorskip("pyspark")
    done = naysay("explain", "--rules", "people.rules", "--engine", "spark")
    assert done.exit_code == 0
    assert "by kernels in tasks, the rest by Spark itself" in done.stdout
    entry = json.loads(naysay("explain", "--rules", "people.rules", "--engine", "spark", "--format", "json").stdout)
    assert [rule["spark"] for rule in entry["rules"]] == ["group by", "group by", "kernels", "group by"]
    done = naysay("explain", "--rules", "people.rules", "--engine", "local", "--master", "local[1]")
    assert done.exit_code == 2
    assert "--engine spark" in done.stderr


def test_sql(work: Path, naysay: Run) -> None:
    done = naysay("sql", "--rules", "people.rules", "--table", "people", "--key", "id")
    assert done.exit_code == 0
    golden("people.sql", done.stdout)
    assert naysay("sql", "--rule", "zip -> city").stdout == naysay("sql", "zip -> city").stdout != ""


def test_the_width_of_a_terminal_is_respected(work: Path, naysay: Run) -> None:
    done = naysay(*CHECK, env={"COLUMNS": "60"})
    assert max(len(line) for line in done.stdout.splitlines()) <= 60


@pytest.mark.parametrize("out_format", ["parquet", "csv", "json"])
def test_columns_that_no_rule_looks_at_are_written_whatever_they_hold(work: Path, naysay: Run, out_format: str) -> None:
    runs = pyarrow.RunEndEncodedArray.from_arrays(pyarrow.array([1, 2], pyarrow.int32()), pyarrow.array([7, None]))
    odd = {"runs": runs, "lists": [[1, 2], None], "words": [["x"], ["y", "z"]], "bytes": [b"a", None]}
    table = pyarrow.table({"a": [1, 1], **odd})
    with pyarrow.OSFile("odd.arrow", "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    arguments = ("check", "odd.arrow", "--engine", "local", "--rule", "key(a)", "--out", "results")
    done = naysay(*arguments, "--out-format", out_format)
    assert done.exit_code == 1, done.output
    if out_format == "csv":
        assert "[1, 2]" in (work / "results" / "conflict_rows.csv").read_text(encoding="utf-8")


def test_the_report_is_printed_before_the_table_is_closed(
    work: Path, naysay: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Spark, closing stops the session, which takes a while."""
    from naysay.cli import check

    happened = []
    original_open, original_print = check.open_table, check.print_report_as

    @contextmanager
    def open_table(*arguments: Any, **named: Any) -> Iterator[Any]:
        with original_open(*arguments, **named) as frame:
            yield frame
        happened.append("closed")

    def print_report(*arguments: Any, **named: Any) -> None:
        happened.append("printed")
        original_print(*arguments, **named)

    monkeypatch.setattr(check, "open_table", open_table)
    monkeypatch.setattr(check, "print_report_as", print_report)
    assert naysay(*CHECK).exit_code == 1
    assert happened == ["printed", "closed"]


DECIDED = """\
- {rule: "id, name -> zip"}
- {rule: zip -> city, status: pending}
- {rule: key(zip), status: rejected}
"""


def test_only_accepted_rules_are_checked_and_the_others_are_counted(work: Path, naysay: Run) -> None:
    (work / "people.yaml").write_text(DECIDED, encoding="utf-8")
    command = ("check", "people.csv", "--rules", "people.yaml", "--engine", "local")
    done = naysay(*command, "--report", "people.html")
    assert done.exit_code == 0
    assert done.stdout.startswith("✓ The rule holds.")
    assert "not checked: 1 pending rule, 1 rejected rule" in " ".join(done.stdout.split())
    assert "1 pending rule, 1 rejected rule" in (work / "people.html").read_text(encoding="utf-8")
    document = json.loads(naysay(*command, "--format", "json").stdout)
    assert document["left_out"] == {"pending": 1, "rejected": 1}
    assert len(document["rules"]) == 1
    for other in (("explain", "people.csv"), ("repair", "people.csv"), ("sql",)):
        said = naysay(*other, "--rules", "people.yaml").stderr
        assert said.count("left out of people.yaml: 1 pending rule, 1 rejected rule") == 1


def test_a_file_without_accepted_rules_says_what_to_do(work: Path, naysay: Run) -> None:
    (work / "people.yaml").write_text("- {rule: zip -> city, status: pending}\n", encoding="utf-8")
    done = naysay("check", "people.csv", "--rules", "people.yaml", "--engine", "local")
    assert done.exit_code == 2
    assert "people.yaml has no accepted rules, only 1 pending rule; set 'status: accepted'" in done.stderr
