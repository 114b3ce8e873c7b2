"""`naysay discover`: what it prints and writes, and that `naysay check` passes with the rules it wrote."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import Result
from command_line import without_progress

Run = Callable[..., Result]
DISCOVER = ("discover", "people.csv", "--engine", "local")


@pytest.mark.parametrize(
    "more",
    [(), ("--all",), ("--error", "0.05"), ("--nulls", "equal"), ("--error", "0.05", "--all", "--nulls", "equal")],
    ids=" ".join,
)
def test_check_passes_on_what_was_written(work: Path, naysay: Run, more: tuple[str, ...]) -> None:
    # In a table this large some rules do not hold by chance.
    rows = (f"{row},{row % 20},{row % 20 // 4}\n" for row in range(200))
    (work / "people.csv").write_text("id,zip,city\n" + "".join(rows), encoding="utf-8")
    done = naysay(*DISCOVER, "--max-predicates", "3", "--out", "found.rules", *more)
    assert done.exit_code == 0, done.output
    nulls = ("--nulls", "equal") if "equal" in more else ()
    checked = naysay("check", "people.csv", "--rules", "found.rules", "--engine", "local", "--quiet", *nulls)
    assert checked.exit_code == 0, checked.output


def test_says_rules_in_words_with_figures(work: Path, naysay: Run) -> None:
    done = naysay(*DISCOVER)
    lines = done.stdout.splitlines()
    assert "minimal rules hold" in lines[0]
    assert "ordered pairs" in lines[1]
    # Six rows prove nothing.
    assert "Reject unless you know better: these may hold by chance, or too many rows break them" in lines
    assert "tested by" in done.stdout
    assert "--all shows every rule" in lines[-1] + lines[-2]
    assert without_progress(done.stderr) == ""


def test_rules_by_kind(work: Path, naysay: Run) -> None:
    rng = np.random.default_rng(0)
    zips = rng.integers(0, 40, 600)
    table = pa.table({"zip": zips, "city": zips // 3, "number": rng.permutation(600), "noise": rng.integers(0, 9, 600)})
    pyarrow.parquet.write_table(table, work / "people.parquet")
    lines = naysay("discover", "people.parquet", "--engine", "local", "--no-cross").stdout.splitlines()
    assert lines.index("Keep: keys") < lines.index("  key(number)") < lines.index("Keep: dependencies")
    assert lines.index("Keep: dependencies") < lines.index("  zip -> city")


def test_rules_that_nothing_tested(work: Path, naysay: Run) -> None:
    (work / "people.csv").write_text("zip,city\n1,\n1,\n,2\n,2\n", encoding="utf-8")
    done = naysay(*DISCOVER, "--columns", "city,zip", "--max-predicates", "2", "--no-cross")
    assert "not(t.zip == s.zip and t.city" not in done.stdout
    (work / "people.csv").write_text("zip,city\n,\n,\n", encoding="utf-8")
    done = naysay(*DISCOVER)
    assert "no pair of rows tested any rule" in done.stderr


def test_because(work: Path, naysay: Run) -> None:
    rows = (f"{row},{row % 40},{row % 40 // 3},{row % 40 // 12}\n" for row in range(600))
    (work / "people.csv").write_text("id,zip,city,state\n" + "".join(rows), encoding="utf-8")
    done = naysay(*DISCOVER, "--no-cross", "--because", "zip -> state")
    assert done.stdout.splitlines() == ["zip -> city", "city -> state"]
    done = naysay(*DISCOVER, "--no-cross", "--because", "state -> zip")
    assert done.stdout == ""
    assert "state -> zip does not follow from the rules of the short list" in done.stderr


def test_json_filters_and_page(work: Path, naysay: Run) -> None:
    done = naysay(*DISCOVER, "--format", "json", "--about", "city", "--top", "3", "--report", "found.html")
    found = json.loads(done.stdout)
    assert found["pairs"] == found["rows"] * (found["rows"] - 1)
    assert 0 < len(found["rules"]) <= 3
    assert all(".city" in entry["rule"] for entry in found["rules"])
    assert {"rule", "description", "kind", "advice", "also", "support", "g1", "g2", "g3"} <= set(found["rules"][0])
    page = (work / "found.html").read_text(encoding="utf-8")
    assert "Content-Security-Policy" in page
    assert "<script" not in page
    everything = json.loads(naysay(*DISCOVER, "--format", "json", "--all").stdout)
    assert len(everything["all"]) == everything["n_rules"]


def test_a_state_goes_on_with_evolve(work: Path, naysay: Run) -> None:
    done = naysay("discover", "people.csv", "--state", "kept")
    assert done.exit_code == 0, done.output
    assert naysay("evolve", "kept").exit_code == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--device", "cuda"), "pip install 'cupy-cuda12x>=13.4'"),
        (("--method", "incdc"), "--state DIR"),
        (("--key", "id"), "--state DIR"),
        (("--state", "s", "--max-rules", "3"), "complete result"),
        (("--state", "s", "--memory", "1M"), "fewer columns"),
        (("--state", "s", "--max-seconds", "0.0001"), "not finished after 0.0001 seconds"),
        (("--state", "s", "--key", "id", "--engine", "spark", "--max-seconds", "3"), "--state on Spark"),
        (("--state", "s", "--conditions", "3"), "leave out --conditions"),
        (("--state", "s", "--near-misses", "3"), "with --state"),
        (("--engine", "spark", "--conditions", "3"), "leave it out on Spark, or use --engine local"),
        (("--state", "s", "--rules", "people.rules"), "--rules does not apply to --state"),
        (("--columns", "id,nope"), "nope"),
        (("--no-cross", "--within-row", "all"), "leave out --within-row"),
        (("--rules", "nowhere.yaml"), "cannot read the rules in nowhere.yaml"),
        (("--like", "not(t.city < s.city)"), "does not compare"),
        (("--like", "zip -> citty"), "there is no column 'citty'"),
        (("--because", "zip -> citty"), "Did you mean 'city'?"),
        (("--about", "citty"), "--about: there is no column 'citty'; did you mean 'city'?"),
        (("--memory", "1M"), "fewer columns"),
    ],
)
def test_refusals_say_what_to_do(
    work: Path, naysay: Run, more: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All of them come before a Spark session would be started.
    monkeypatch.setattr("naysay.cli.options.Place.session", None)
    done = naysay(*DISCOVER, *more)
    assert done.exit_code in (2, 4)
    assert message in done.stderr


def test_an_interrupt_prints_what_is_known(work: Path, naysay: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({f"c{k}": rng.integers(0, 8, 400) for k in range(13)})
    pyarrow.parquet.write_table(table, work / "wide.parquet")
    sent: list[bool] = []

    def interrupt(progress: Any) -> None:
        if progress.phase == "covers" and progress.n_rules and not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("naysay.cli.discover._show_progress", lambda waiting: interrupt)
    # As in a process of the command's own; a Spark session in this one leaves a handler behind.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        done = naysay("discover", "wide.parquet", "--engine", "local", "--no-cross")
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.exit_code == 130
    assert "partial (interrupted): complete up to " in done.stdout


@pytest.mark.parametrize("error", ["0", "0.2"])
def test_rules_that_may_hold_by_chance_are_commented_out(work: Path, naysay: Run, error: str) -> None:
    discover = (*DISCOVER, "--max-predicates", "2", "--error", error)
    done = naysay(*discover, "--out", "found.rules")
    assert "naysay: 0 rules written to found.rules; " in done.stderr
    assert " more are commented out because they are doubtful" in done.stderr
    text = (work / "found.rules").read_text(encoding="utf-8")
    assert all(line.startswith("#") for line in text.splitlines())
    written = "# key(salary)  # no two rows have the same salary" if error == "0" else "# - rule: "
    assert " of rows tested it, too few to rule out chance:\n# " in text
    assert written in text
    found = json.loads(naysay(*discover, "--format", "json").stdout)
    assert text.count(" of rows tested it") == sum(rule["by_accident"] for rule in found["rules"])
    naysay(*discover, "--all", "--out", "every.rules")
    assert "tested it" not in (work / "every.rules").read_text(encoding="utf-8")


def test_an_error_is_a_number_or_auto(work: Path, naysay: Run) -> None:
    found = naysay(*DISCOVER, "--error", "auto", "--max-predicates", "2")
    assert found.exit_code == 0, found.stderr
    for arguments, words in (
        (("--error", "much"), "'much' is neither a number nor 'auto'"),
        (("--error", "1"), "not in the range 0<=x<1"),
        (("--error", "0.1", "--measure", "cells"), "'cells' is not one of"),
        (("--measure", "rows"), "set an error"),
        (("--error", "auto", "--measure", "pairs"), "leave out measure"),
        (("--error", "auto", "--state", "kept"), "--state keeps rules by pairs"),
        (("--error", "0.1", "--measure", "rows", "--state", "kept"), "--state keeps rules by pairs"),
    ):
        refused = naysay(*DISCOVER, *arguments)
        assert refused.exit_code == 2
        assert words in " ".join(refused.stderr.split())


def test_rules_found_by_rows_pass_a_check(work: Path, naysay: Run) -> None:
    found = naysay(*DISCOVER, "--error", "0.1", "--measure", "rows", "--all", "--out", "found.yaml")
    assert found.exit_code == 0, found.stderr
    assert "10% of the rows" in " ".join(found.stdout.split())
    assert naysay("check", DISCOVER[1], "--rules", "found.yaml").exit_code == 0


def test_a_person_decides_about_rules(work: Path, naysay: Run) -> None:
    rows = (f"{row},{row % 20},{row % 20 // 4},{row % 20 // 10}\n" for row in range(400))
    (work / "people.csv").write_text("id,zip,city,state\n" + "".join(rows), encoding="utf-8")
    done = naysay(*DISCOVER, "--out", "people.yaml", "--review", "--no-cross")
    assert "people.yaml has 3 pending rules; set each status to accepted or rejected" in done.stderr
    text = (work / "people.yaml").read_text(encoding="utf-8")
    decided = text.replace("status: pending", "status: accepted", 1) + "# mine\n- {rule: zip -> id, status: pending}\n"
    (work / "people.yaml").write_text(decided, encoding="utf-8")
    done = naysay(*DISCOVER, "--rules", "people.yaml", "--out", "people.yaml", "--no-cross")
    assert done.exit_code == 0, done.output
    assert "note: 1 accepted rule is taken as given" in done.stdout
    assert "near miss: rows" in done.stdout
    assert "broken by rows" in done.stdout
    # Nothing is new, and what a person wrote stays.
    assert (work / "people.yaml").read_text(encoding="utf-8") == decided
    document = json.loads(naysay(*DISCOVER, "--rules", "people.yaml", "--no-cross", "--format", "json").stdout)
    assert document["given"] == {"accepted": 1, "pending": 3, "rejected": 0}
    assert all(rule["examples"] for rule in document["rules"])
    checked = naysay("check", "people.csv", "--rules", "people.yaml", "--engine", "local")
    assert checked.exit_code == 0, checked.output
    careless = naysay(*DISCOVER, "--out", "people.yaml")
    assert careless.exit_code == 2
    assert "people.yaml has rules that you decided about; add --rules people.yaml to keep them" in careless.stderr
    naysay(*DISCOVER, "--rules", "people.yaml", "--no-cross", "--report", "people.html")
    assert "near miss: rows" in (work / "people.html").read_text(encoding="utf-8")


def test_a_file_that_cannot_be_added_to_is_not_overwritten(work: Path, naysay: Run) -> None:
    rules = "rules: [zip -> city]\n"
    (work / "mine.yaml").write_text(rules, encoding="utf-8")
    done = naysay(*DISCOVER, "--rules", "mine.yaml", "--out", "mine.yaml", "--all")
    assert done.exit_code == 2
    assert "cannot add rules to mine.yaml" in done.stderr
    assert (work / "mine.yaml").read_text(encoding="utf-8") == rules
    (work / "mine.rules").write_text("zip -> city\n", encoding="utf-8")
    done = naysay(*DISCOVER, "--rules", "mine.rules", "--out", "mine.rules")
    assert done.exit_code == 2
    assert "use --out FILE.yaml" in done.stderr


def test_the_options_of_a_scope(work: Path, naysay: Run) -> None:
    document = json.loads(naysay(*DISCOVER, "--format", "json", "--share", "1", "--order-text").stdout)
    plain = json.loads(naysay(*DISCOVER, "--format", "json", "--share", "1").stdout)
    assert document["predicates"] > plain["predicates"]
    done = naysay(*DISCOVER, "--space", "hydra", "--within-row", "all")
    assert done.exit_code == 2
    assert "--within-row changes naysay's own predicates; leave out --space hydra" in done.stderr
    within = json.loads(naysay(*DISCOVER, "--format", "json", "--share", "0", "--within-row", "all").stdout)
    none = json.loads(naysay(*DISCOVER, "--format", "json", "--share", "0", "--within-row", "none").stdout)
    assert within["predicates"] > none["predicates"]
    assert json.loads(naysay(*DISCOVER, "--format", "json", "--conditions", "2").stdout)["n_conditional"] > 0
