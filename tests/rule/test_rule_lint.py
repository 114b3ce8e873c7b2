"""What lint finds, and the command that reports it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from naysay.cli.lint import lint as command
from naysay.rule import Nulls, parse, parse_rules, render
from naysay.rule.lint import ProblemKind, fix_rules, lint
from naysay.rule.model import Severity, Status


def findings(*texts: str) -> list[tuple[ProblemKind, int, str]]:
    return [(found.kind, found.index, found.message) for found in lint([parse(text) for text in texts])]


def test_nothing_to_find() -> None:
    assert findings("A -> B", "B -> A", "key(C)", "ordered(A, B)", "not(t.A < 0)", "not(t.A > 9)") == []
    assert lint([]) == []


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["A -> B", "not(s.B != t.B and s.A = t.A)"], (ProblemKind.DUPLICATE, 1, "rule 2 says the same as rule 1")),
        (["x: key(A)", "y: key(A)"], (ProblemKind.DUPLICATE, 1, "'y' says the same as 'x'")),
        (["not(t.A > 5)", "not(t.A > 5.0)"], (ProblemKind.DUPLICATE, 1, "rule 2 says the same as rule 1")),
        (
            ["ordered(A, B)", "not(t.A < s.A and t.B > s.B)"],
            (ProblemKind.TWIN, 1, "rule 2 with its rows exchanged says the same as rule 1"),
        ),
        (
            ["never: not(t.A < s.A and t.A > s.A)"],
            (ProblemKind.NEVER, 0, "'never' can never be broken: t.A < s.A and t.A > s.A exclude each other"),
        ),
        (
            ["not(t.A < s.A and t.A != s.A)"],
            (ProblemKind.SUPERFLUOUS, 0, "rule 1 says no more than not(t.A < s.A): leave out t.A != s.A"),
        ),
        (["key(A)", "A, B -> C"], (ProblemKind.IMPLIED, 1, "rule 2 follows from rule 1: not(t.A == s.A)")),
        (
            ["A, B -> C", "A -> C"],
            (ProblemKind.IMPLIED, 0, "rule 1 follows from rule 2: not(t.A == s.A and t.C != s.C)"),
        ),
        (
            ["not(t.A > 3)", "not(s.A > 5 and t.B == s.B)"],
            (ProblemKind.IMPLIED, 1, "rule 2 follows from rule 1: not(t.A > 3)"),
        ),
        (
            ["not(t.A >= s.A and t.B < s.B)", "ordered(A, B)"],
            (ProblemKind.IMPLIED, 1, "rule 2 follows from rule 1: not(t.A >= s.A and t.B < s.B)"),
        ),
        (["x: key(A)", "x: key(B)"], (ProblemKind.SAME_NAME, 1, "rule 2 has the same name as rule 1: 'x'")),
    ],
)
def test_findings(texts: list[str], expected: tuple[ProblemKind, int, str]) -> None:
    assert findings(*texts) == [expected]


def test_a_tolerance_makes_another_rule() -> None:
    text = "- {name: strict, rule: A -> B}\n- {name: lax, rule: A -> B, max_violations: 9}\n"
    assert ProblemKind.DUPLICATE not in {found.kind for found in lint(parse_rules(text))}
    assert len(fix_rules(parse_rules(text))) == 2


def test_a_severity_makes_another_rule() -> None:
    rules = [replace(parse("A -> B"), severity=Severity.WARNING), parse("A -> B")]
    assert not any(finding.kind is ProblemKind.DUPLICATE for finding in lint(rules))
    assert fix_rules(rules) == rules


def test_nulls_matter() -> None:
    rules = [parse("not(t.A == s.A and t.A <= s.A)")]
    assert lint(rules, Nulls.SQL)
    assert not lint(rules, Nulls.EQUAL)


def test_fix_rules() -> None:
    rules = [parse(text) for text in ("not(t.A > 3 and t.A > 5)", "B -> C", "not(t.C != s.C and t.B == s.B)", "key(B)")]
    assert [render(rule, short=True) for rule in fix_rules(rules)] == ["not(t.A > 5)", "B -> C", "key(B)"]
    assert {found.kind for found in lint(fix_rules(rules))} <= {ProblemKind.IMPLIED, ProblemKind.NEVER}


def test_many_rules_are_compared_in_time() -> None:
    rules = [parse(f"A{i}, B{i % 7} -> C{i % 5}") for i in range(1000)]
    assert lint(rules) == []
    assert len(lint(rules * 2)) == 1000


def run(path: Path, *options: str, **more: object) -> Result:
    return CliRunner().invoke(command, [str(path), *options], **more)  # type: ignore[arg-type]


@pytest.fixture
def rules_file(tmp_path: Path) -> Path:
    path = tmp_path / "x.rules"
    path.write_text("zip: ZipCode -> City\nt1&t2&EQ(t1.ZipCode,t2.ZipCode)&IQ(t1.City,t2.City)\n", encoding="utf-8")
    return path


def test_command_converts(rules_file: Path) -> None:
    result = run(rules_file)
    assert result.exit_code == 0
    assert result.stdout == (
        "zip: not(t.ZipCode == s.ZipCode and t.City != s.City)\nnot(t.ZipCode == s.ZipCode and t.City != s.City)\n"
    )
    assert result.stderr == f"{rules_file}:2: duplicate: rule 2 says the same as 'zip'\n"
    assert run(rules_file, "--fix", "--short").stdout == "zip: ZipCode -> City\n"
    assert run(rules_file, "--quiet").stdout == ""
    assert run(rules_file, "--strict").exit_code == 1


def test_command_writes_a_file(rules_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.rules"
    result = run(rules_file, "--out", str(out), "--short")
    assert (result.exit_code, result.stdout) == (0, "")
    assert out.read_text(encoding="utf-8") == "zip: ZipCode -> City\nZipCode -> City\n"
    assert run(out, "--fix", "--short", "--out", str(out)).exit_code == 0
    assert out.read_text(encoding="utf-8") == "zip: ZipCode -> City\n"
    assert run(rules_file, "--quiet", "--out", str(out)).exit_code == 0
    assert len(out.read_text(encoding="utf-8").splitlines()) == 2
    assert run(rules_file, "--out", str(tmp_path / "no" / "such")).exit_code != 0


def test_command_reads_several_files(rules_file: Path, tmp_path: Path) -> None:
    other, bad = tmp_path / "other.rules", tmp_path / "bad.rules"
    other.write_text("ZipCode -> City\n", encoding="utf-8")
    bad.write_text("A ->\nA -> B\n", encoding="utf-8")
    result = run(rules_file, str(other), "--short")
    assert result.stdout == "zip: ZipCode -> City\nZipCode -> City\nZipCode -> City\n"
    # A problem belongs to one file: the same rule in another file is no duplicate.
    assert result.stderr == f"{rules_file}:2: duplicate: rule 2 says the same as 'zip'\n"
    assert (run(rules_file, str(other), "--strict").exit_code, run(other, str(other), "--strict").exit_code) == (1, 0)
    result = run(rules_file, str(bad), "--quiet")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"{bad}:1:5: expected a column name")
    assert result.stderr.endswith("1 rule cannot be read, 3 can.\n")


def test_command_refuses_with_every_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.rules"
    path.write_text("A ->\nA -> B\nkey(\n", encoding="utf-8")
    result = run(path)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert f"{path}:1:5: expected a column name, found the end" in result.stderr
    assert f"{path}:3:5: expected a column name, found the end" in result.stderr
    assert result.stderr.endswith("2 rules cannot be read, 1 can.\n")


def test_command_knows_columns(rules_file: Path) -> None:
    assert run(rules_file, "--columns", "ZipCode, City").exit_code == 0
    result = run(rules_file, "--columns", "Zip,City")
    assert result.exit_code == 2
    assert "Did you mean 'Zip'?" in result.stderr


def test_command_fails_on_what_nothing_can_break(tmp_path: Path) -> None:
    path = tmp_path / "never.rules"
    path.write_text("not(t.A < s.A and t.A > s.A)\n", encoding="utf-8")
    result = run(path)
    assert result.exit_code == 1
    assert "never broken" in result.stderr


def test_command_reads_its_input_and_column_files() -> None:
    text = b"Salary > Bonus\n"
    assert run(Path("-"), "--format", "columns", input=text).stdout == "not(t.Salary > s.Bonus)\n"
    assert run(Path("-"), input=text).exit_code == 2
    empty = run(Path("-"), input=b"")
    assert (empty.exit_code, empty.stderr) == (0, "-: no rules found\n")


def test_a_rejected_rule_that_follows_from_an_accepted_one_contradicts_it() -> None:
    accepted, rejected, pending = parse("A -> B"), parse("A, C -> B"), parse("A, D -> B")
    rules = [accepted, replace(rejected, status=Status.REJECTED), replace(pending, status=Status.PENDING)]
    assert [(problem.kind, problem.index) for problem in lint(rules)] == [
        (ProblemKind.CONTRADICTION, 1),
        (ProblemKind.IMPLIED, 2),
    ]
    assert lint(rules)[0].message.startswith("rule 2 is rejected, but follows from the accepted rule 1: not(")
    # What is not accepted is no premise.
    assert lint([replace(accepted, status=Status.REJECTED), *rules[1:]]) == []


def test_fixing_keeps_rules_of_another_status() -> None:
    rules = [parse("A -> B"), replace(parse("A -> B"), status=Status.REJECTED)]
    assert fix_rules(rules) == rules
