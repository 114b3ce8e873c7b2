"""The measure of the short list: what counts as following from experts' rules, and nothing to measure without them."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

import naysay

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import golden

COLUMNS = frozenset("ABCDE")


@pytest.mark.parametrize(
    ("rule", "given", "follows"),
    [
        ("A -> C", ["A -> B", "B -> C"], True),
        ("A -> C", ["B -> C", "A -> B"], True),
        ("A, D -> C", ["A -> B", "B -> C"], True),
        ("C -> A", ["A -> B", "B -> C"], False),
        ("key(A, D)", ["A -> B", "key(D, B)"], True),
        ("A -> E", ["key(A)"], True),
        ("A -> B", ["not(t.B != s.B)"], True),
        ("not(t.B != s.B)", ["A -> B"], False),
        ("not(t.A < s.A and t.B > s.B)", ["not(s.B < t.B and s.A > t.A)"], True),
        ("A -> B", ["not(t.A <= s.A and t.B > s.B)"], False),
    ],
)
def test_what_follows(rule: str, given: list[str], follows: bool) -> None:
    rules = [naysay.parse(rule)]
    assert golden.that_follow(rules, [naysay.parse(text) for text in given], COLUMNS) == (rules if follows else [])


def test_a_table_with_experts_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zips = [k % 40 for k in range(600)]
    table = pa.table({"zip": zips, "city": [f"c{zip // 3}" for zip in zips], "age": [k * k % 71 for k in range(600)]})
    pyarrow.csv.write_csv(table, tmp_path / "people.csv")
    (tmp_path / "people.rules").write_text("zip -> city\nkey(age)\n")
    assert golden.main([str(tmp_path / "people.csv"), str(tmp_path / "people.rules")]) == 0
    text = capsys.readouterr().out
    assert "coverage  0.50: 1 of 2 experts' rules follow" in text
    assert "not covered:      key(age)" in text


def test_nothing_to_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(golden, "GOLDEN", tmp_path / "missing")
    assert golden.main([]) == 0
    assert capsys.readouterr().out.startswith("skipped: there are no tables")
