"""`--hide COLUMN`: a secret that is planted in the hidden columns is in no output of any command."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

import naysay
from naysay.cli.group import naysay as command
from naysay.errors import RuleError, UsageError

SECRET = "Xyzzy"
ROWS = [
    # zip, name, amount, at: every value of the last three columns is a secret.
    (f"{SECRET}-1", "02139", f"{SECRET}ann", f"{SECRET}", "2024-01-31 10:00:00"),
    (f"{SECRET}-2", "02139", f"{SECRET}bob", "10", "2024-01-31 11:00:00"),
    (f"{SECRET}-3", "02139", f"{SECRET}bob", "9", "2024-01-31 12:34:56"),
    (f"{SECRET}-4", "02139", f"{SECRET}bob", "8", ""),
    (f"{SECRET}-5", "02139", f"{SECRET}bob", "7", ""),
    (f"{SECRET}-6", "04101", "", "7", ""),
]
HIDE = ("--hide", "id", "--hide", "name", "--hide", "amount", "--hide", "at")
RULES = """\
- zip -> name
- key(name)
- name -> zip
- ordered(name, amount)
- name is not null
- name in ('x', 'y')
- name between 'a' and 'b'
- name matches '[0-9]+'
- not(t.name == 'xyzzyann')
- not(t.zip == s.zip and t.name != s.name and t.amount != s.amount)
- freshness(at) < 1 minute
- id is null
- key(id) where name is null
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NAYSAY_ENGINE", "local")
    lines = ["id,zip,name,amount,at", *(",".join(row) for row in ROWS)]
    Path("people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    Path("people.yaml").write_text(RULES, encoding="utf-8")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def all_texts(folder: Path) -> str:
    """Everything that was written to a folder, values of Parquet files included."""
    texts = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            table = pyarrow.parquet.read_table(path).to_pylist() if path.suffix == ".parquet" else None
            texts.append(path.read_bytes().decode("utf-8", "replace") if table is None else str(table))
            texts.append(path.name)
    return "\n".join(texts)


CHECK = ("check", "people.csv", "--rules", "people.yaml", "--types", "zip=text", "--joint", *HIDE)
# "12:34:56" is the newest value, of a column that is hidden too.
SECRETS = (SECRET, "12:34:56", "T12:34", "11:00:00")


def assert_no_secret(text: str) -> None:
    assert text
    assert not [secret for secret in SECRETS if secret in text], text


@pytest.mark.parametrize("key", [(), ("--key", "id"), ("--key", "id", "--key", "zip")])
@pytest.mark.parametrize("format", ["text", "json", "md", "junit"])
def test_check(work: Path, format: str, key: tuple[str, ...]) -> None:
    out = (
        "--out",
        "out",
        "--report",
        "page.html",
        "--out-format",
        {"text": "parquet", "md": "json"}.get(format, "csv"),
    )
    # Without --hide the secret is everywhere, so that its absence means something.
    for hide in (False, True):
        arguments = [one for one in CHECK if hide or (one != "--hide" and one not in HIDE)]
        done = run(*arguments, *key, "--format", format, "--sample", "9", "--joint", *out)
        assert done.exit_code == 1, done.stderr
        outputs = (done.stdout, Path("page.html").read_text("utf-8"), all_texts(Path("out")))
        if hide:
            for output in (*outputs, done.stderr):
                assert_no_secret(output or "nothing")
            assert all("(hidden)" in output for output in outputs)
        else:
            assert all(SECRET in output for output in outputs)
        for path in sorted(Path("out").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        Path("out").rmdir()


def test_the_constant_of_a_rule_stays(work: Path) -> None:
    done = run("check", "people.csv", "--rule", f"name in ('{SECRET}ann')", "--hide", "name")
    assert f'name in ("{SECRET}ann")' in done.stdout
    assert f"{SECRET}bob" not in done.output


EXPLAIN = ("explain", "people.csv", "--rules", "people.yaml")
LINT = ("lint", "--data", "people.csv", "people.yaml")


@pytest.mark.parametrize("arguments", [EXPLAIN, LINT])
def test_explain_and_lint(work: Path, arguments: tuple[str, ...]) -> None:
    shown, hidden = run(*arguments), run(*arguments, *HIDE)
    assert SECRET in shown.output
    assert_no_secret(hidden.output)
    assert "(hidden)" in hidden.output


@pytest.mark.parametrize("format", ["text", "json"])
def test_repair(work: Path, format: str) -> None:
    arguments = ("repair", "people.csv", "--rule", "zip -> name", "--format", format, "--key", "id")
    shown = run(*arguments)
    assert f"{SECRET}bob" in shown.output
    hidden = run(*arguments, *HIDE, "--out", "out")
    assert_no_secret(hidden.output + all_texts(Path("out")))
    assert "(hidden)" in hidden.output
    refused = run(*arguments, *HIDE, "--apply", "copy.csv")
    assert refused.exit_code == 2
    assert "--apply writes a copy of the table with all its values" in refused.stderr


def test_errors(work: Path) -> None:
    # A number beside text names the first value that is not a number.
    shown, hidden = (run("check", "people.csv", "--rule", "amount > 5", *more) for more in ((), HIDE))
    assert SECRET in shown.stderr
    assert_no_secret(hidden.stderr)
    assert "cannot be compared with 5" in hidden.stderr
    # A value that does not fit its type, and a broken line.
    shown, hidden = (
        run("check", "people.csv", "--rule", "key(zip)", "--types", "name=int", *more) for more in ((), HIDE)
    )
    assert SECRET in shown.stderr
    assert_no_secret(hidden.stderr)
    assert "run without --hide to see why" in hidden.stderr
    Path("people.csv").write_text(f"id,zip,name,amount,at\n1,2,{SECRET},4,5,6\n", encoding="utf-8")
    shown, hidden = (run("check", "people.csv", "--rule", "key(zip)", *more) for more in ((), HIDE))
    assert SECRET in shown.stderr
    assert_no_secret(hidden.stderr)
    assert "people.csv:2:" in hidden.stderr
    assert "there is no file" in run("check", "peeple.csv", "--rule", "key(zip)", *HIDE).stderr


def test_a_misspelled_column_is_refused(work: Path) -> None:
    done = run("check", "people.csv", "--rule", "key(name)", "--hide", "Name")
    assert done.exit_code == 2
    assert "cannot hide column 'Name', which is not in the table; did you mean 'name'?" in done.stderr


def test_in_python() -> None:
    table = pa.table({"id": [SECRET, SECRET, "c"], "a": [1, 1, 1], "b": [f"{SECRET}1", f"{SECRET}2", f"{SECRET}2"]})
    report = naysay.check(table, ["a -> b", "key(id)"], key="id", hide=["id", "b"], joint=True)
    assert_no_secret(report.to_json() + report.to_html() + str(report) + repr(report))
    assert report.to_pandas() is not None
    for listing in (report[0].suspects, report[0].groups, report[1].suspects, report.suspects):
        assert listing is not None
        assert_no_secret(
            f"{listing} {listing!r} {listing.to_arrow().to_pylist()} {listing.head(1).to_pylist()} {list(listing)}"
        )
    found = naysay.violations(table, "a -> b", key=["id", "a"], hide=["id", "b"])
    assert_no_secret(f"{found} {found.table.to_pylist()}")
    assert (len(found), found.total, found.table["left"][0].as_py()["a"]) == (4, 4, 1)
    verdict = naysay.verify(table, "a -> b", hide="b")
    assert_no_secret(f"{verdict} {verdict.witness}")
    repair = naysay.repair(table, "a -> b", hide="b", min_confidence=0)
    assert_no_secret(f"{list(repair)} {repair.to_json()} {repair.table.to_pylist()}")
    with pytest.raises(UsageError, match="cannot hide column 'B'"):
        naysay.check(table, "a -> b", hide="B")
    with pytest.raises(RuleError) as caught:
        naysay.check(pa.table({"b": ["1", "2", SECRET]}), "b > 5", hide="b")
    assert_no_secret(str(caught.value))


def test_without_a_key_the_row_number_stays_even_if_a_hidden_column_is_called_row() -> None:
    report = naysay.check(pa.table({"row": [SECRET, SECRET]}), "key(row)", hide="row")
    document = json.loads(report.to_json())
    assert document["rules"][0]["sample"][0]["left"] == {"row": 0}
    assert document["rules"][0]["sample"][0]["left_values"] == {"row": "(hidden)"}


def test_a_hidden_column_is_no_cause_of_a_dependency() -> None:
    """All errors are in one segment of a column; hidden, it is neither named as a cause nor shown in one."""
    rows = [{"zip": place % 40, "city": place % 40, "source": "shop", "n": place % 7} for place in range(800)]
    for row in rows[::17]:
        row |= {"city": 99, "source": SECRET}
    frame = pa.Table.from_pylist(rows)
    (result,) = naysay.check(frame, ["zip -> city"])
    assert [condition.column for condition in result.causes[0].conditions] == ["source"]
    report = naysay.check(frame, ["zip -> city"], hide="source")
    assert all(condition.column != "source" for cause in report[0].causes for condition in cause.conditions)
    assert_no_secret(report.to_json() + str(report))
