"""`naysay evolve`: changes from files, output as text and JSON, exit codes for bad input."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from naysay.cli.group import naysay as command
from naysay.evolve.evolver import Evolver


@pytest.fixture
def state(tmp_path: Path) -> Path:
    people = pa.table({"id": [1, 2, 3], "zip": ["8", "8", "9"], "city": ["Ulm", "Ulm", "Bonn"]})
    Evolver(people, key="id", columns=["zip", "city"], state=tmp_path / "state").close()
    return tmp_path / "state"


def run(state: Path, *arguments: str) -> Result:
    return CliRunner().invoke(command, ["evolve", str(state), "--quiet", *arguments])


def answer(state: Path, *arguments: str) -> dict[str, Any]:
    done = run(state, "--format", "json", *arguments)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_files_in_and_rules_out(state: Path, tmp_path: Path) -> None:
    assert answer(state) == {"rows": 3, "rules": 2, "method": "all-pairs", "repeated": False}
    inserts = written(tmp_path, "new.csv", "city,zip,id\nUlm,9,4\n")
    found = answer(state, "--insert", inserts, "--batch-id", "one")
    assert (found["rows"], found["n_added"], found["n_removed"]) == (4, 0, 2)
    by_rule = {gone["rule"]: gone for gone in found["removed"]}
    assert by_rule["not(t.zip == s.zip and t.city != s.city)"]["pair"] == [4, 3]
    assert answer(state, "--insert", inserts, "--batch-id", "one")["repeated"]
    updates = written(tmp_path, "changed.jsonl", '{"id": 4, "zip": "8", "city": "Ulm"}\n')
    assert answer(state, "--update", updates)["n_added"] == 2
    deletes = written(tmp_path, "gone.csv", "id,why\n4,moved\n")
    assert answer(state, "--delete", deletes)["rows"] == 3


def test_what_does_not_fit_ends_with_its_code_and_changes_nothing(state: Path, tmp_path: Path) -> None:
    bad = {
        "missing": ("--insert", "id,zip\n4,9\n"),
        "new": ("--insert", "id,zip,city,street\n4,9,Bonn,Markt\n"),
        "already": ("--insert", "id,zip,city\n1,9,Bonn\n"),
        "no row with the key 7": ("--delete", "id\n7\n"),
        "no row with the key 8": ("--update", "id,zip,city\n8,9,Bonn\n"),
        "cannot convert a value with leading zeros to int64": ("--insert", "id,zip,city\n007,9,Bonn\n"),
        "column 'zip' has type int64": ("--insert", '{"id": 4, "zip": 9, "city": "Bonn"}\n'),
        "column 'id' has type string": ("--insert", '{"id": "4", "zip": "9", "city": "Bonn"}\n'),
    }
    for number, (words, (option, text)) in enumerate(bad.items()):
        done = run(state, option, written(tmp_path, f"{number}.{'jsonl' if text[0] == '{' else 'csv'}", text))
        assert (done.exit_code, words in done.stderr) == (2, True), done.output
    assert answer(state)["rows"] == 3
    assert run(tmp_path / "nowhere").exit_code == 2
    assert run(state, "--device", "tpu").exit_code == 2
    path = state / "evolve.duckdb"
    data = bytearray(path.read_bytes())
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    path.write_bytes(bytes(data))
    assert run(state).exit_code == 3


def test_a_state_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for missing in (tmp_path / "nowhere", tmp_path / "empty", tmp_path / "nowhere.duckdb"):
        done = run(missing)
        assert done.exit_code == 2
        assert "there is no evolver state here; create one with `naysay discover --state`" in done.stderr


def test_a_state_in_this_process_is_not_updated_on_spark(state: Path) -> None:
    for arguments in (("--engine", "spark"), ("--master", "local[1]")):
        done = run(state, *arguments)
        assert done.exit_code == 2
        assert "are kept in-process; leave out --engine spark and --master" in done.stderr
    assert run(state, "--engine", "local").exit_code == 0


def test_a_change_beyond_its_limits_is_refused_and_can_be_made_later(state: Path, tmp_path: Path) -> None:
    more = written(tmp_path, "more.csv", "id,zip,city\n4,9,Bonn\n")
    for limit, words in (("--max-seconds=0.00001", "nothing has changed"), ("--memory=1M", "allow more memory")):
        done = run(state, "--insert", more, limit)
        assert (done.exit_code, words in done.stderr) == (4, True), done.output
    assert answer(state, "--insert", more, "--max-seconds", "600", "--memory", "100G")["rows"] == 4


def test_a_folder_is_read_with_the_types_of_the_table(state: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    written(tmp_path / "new", "1.csv", "id,zip,city\n4,1.10,Ulm\n")
    written(tmp_path / "new", "2.csv", "id,zip,city\n5,1.1,Kiel\n")
    assert answer(state, "--insert", str(tmp_path / "new"))["rows"] == 5
    with Evolver.open(state) as evolver:
        assert sorted(evolver.rows()["zip"].to_pylist()) == ["1.1", "1.10", "8", "8", "9"]


def test_a_number_that_a_column_cannot_hold_is_not_rounded(tmp_path: Path) -> None:
    types = [("id", pa.int64()), ("p", pa.decimal128(10, 2)), ("x", pa.float32())]
    rows = pa.Table.from_pylist([{"id": 1, "p": Decimal("1.23"), "x": 2.0}], pa.schema(types))
    with Evolver(rows, "id", state=tmp_path / "numbers"):
        pass
    for bad in ('"p": 1.234, "x": 1', '"p": 1.5, "x": 2.00000000001'):
        done = run(tmp_path / "numbers", "--insert", written(tmp_path, "bad.jsonl", f'{{"id": 2, {bad}}}\n'))
        assert (done.exit_code, "has type double" in done.output) == (2, True), done.output
    good = written(tmp_path, "good.jsonl", '{"id": 2, "p": 1.5, "x": 0.1}\n')
    assert answer(tmp_path / "numbers", "--insert", good)["rows"] == 2


def test_rows_without_a_key_are_deleted_by_their_numbers(tmp_path: Path) -> None:
    people = pa.table({"zip": ["8", "8", "9"], "city": ["Ulm", "Ulm", "Bonn"]})
    Evolver(people, state=tmp_path / "state").close()
    refused = run(tmp_path / "state", "--delete", written(tmp_path, "gone.csv", "zip,city\n9,Bonn\n"))
    assert refused.exit_code == 2
    assert "rows are identified by their number because there is no key" in refused.stderr
    assert "add a column named '(row)'" in refused.stderr
    assert answer(tmp_path / "state", "--delete", written(tmp_path, "gone.csv", "(row)\n2\n"))["rows"] == 2
