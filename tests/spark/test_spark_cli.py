"""`naysay check` on Spark: the same numbers as in-process, results in a folder, understandable errors."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("pyspark")

import naysay
from naysay.budget import TaskProgress
from naysay.spark import read as spark_read

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
    """Run the command line with Spark as the default."""
    from naysay.cli.group import naysay

    return CliRunner().invoke(naysay, list(arguments), env={"NAYSAY_ENGINE": "spark"})


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
        "suspects",
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


def write_bad_files(folder: Path) -> None:
    (folder / "damaged.parquet").write_bytes(b"PAR1 this is no Parquet file PAR1")
    (folder / "damaged.orc").write_bytes(b"ORC nor is this")
    (folder / "short.csv").write_text("a,b\n1,2\n3\n", encoding="utf-8")
    (folder / "open.csv").write_text('a,b\n1,"2\n3,4\n', encoding="utf-8")
    (folder / "latin.csv").write_bytes("a,b\n1,M\xfcnchen\n".encode("latin-1"))
    (folder / "broken.json").write_text('{"a": 1}\n{"a": \n', encoding="utf-8")
    (folder / "empty.csv").write_text("", encoding="utf-8")
    (folder / "words.csv").write_text("a,b\n1,2\nn/a,4\n", encoding="utf-8")
    (folder / "nothing").mkdir()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("people.cvs", "--rule", "zip -> city"), "people.cvs"),
        (("missing.csv", "--rule", "zip -> city"), "there is no file or folder 'missing.csv'"),
        (("missing.parquet", "--rule", "zip -> city"), "there is no file or folder 'missing.parquet'"),
        (("no/*.json", "--rule", "zip -> city"), "there is no file or folder 'no/*.json'"),
        (("people", "--rule", "zip -> city"), "there is no file, folder or table 'people'"),
        (("-", "--rule", "zip -> city"), "there is no file, folder or table '-'"),
        (("my people", "--rule", "zip -> city"), "there is no file, folder or table 'my people'"),
        (("nothing", "--rule", "zip -> city"), "the folder holds no data files"),
        (("damaged.parquet", "--rule", "key(a)"), "a file is not a Parquet file, or is damaged"),
        (("damaged.orc", "--rule", "key(a)"), "damaged"),
        (("short.csv", "--rule", "key(a)"), "short.csv:3: the row has 1 field, but the header has 2"),
        (("open.csv", "--rule", "key(a)"), "open.csv:2: a quote is never closed"),
        (("latin.csv", "--rule", "key(a)"), "latin.csv"),
        (("broken.json", "--rule", "key(a)"), "a row cannot be read"),
        (("empty.csv", "--rule", "key(a)"), "the file is empty"),
        (("words.csv", "--rule", "not(t.a > 3)"), "column 'a'"),
        (("people.csv", "--rule", "zip -> City"), "Did you mean 'city'?"),
        (("people.csv", "--rule", "key(id)", "--engine", "spark", "--strategy", "facet"), "--strategy applies to"),
        (("people.csv", "--rule", "key(id)", "--master", "local[2]", "--max-seconds", "9"), "--max-seconds applies to"),
        (("people.csv", "--rule", "zip -> city", "--key", "nr"), "the key column 'nr'"),
        (("people.csv", "--rule", "zip -> city", "--input-format", "table"), "there is no file, folder or table"),
        (("-", "--rule", "zip -> city", "--input-format", "table"), "there is no file, folder or table '-'"),
    ],
)
def test_bad_input_is_one_message(spark: Any, work: Path, arguments: tuple[str, ...], said: str) -> None:
    write_bad_files(work)
    done = run("check", *arguments)
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert done.stdout == ""
    for noise in ("Traceback", "Exception", "org.apache", "\tat ", "SQLSTATE"):
        assert noise not in done.output
    assert done.stderr.startswith("naysay: ")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.csv", "there is no file or folder"),
        ("short.csv", "a row does not have the 2 fields of the header: '3'"),
        ("open.csv", "a line has a quote that is not closed in it"),
        ("latin.csv", "give the file's --encoding"),
        ("empty.csv", "the file is empty"),
    ],
)
def test_bad_csv_that_spark_reads(
    spark: Any, work: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    monkeypatch.setattr(spark_read, "_WHOLE_BYTES", -1)
    write_bad_files(work)
    done = run("check", name, "--rule", "key(a)")
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert "Exception" not in done.output


@pytest.mark.parametrize("delimiter", [",", "|", ";", "\t"])
def test_quotes_inside_of_values_are_characters(
    spark: Any, work: Path, monkeypatch: pytest.MonkeyPatch, delimiter: str
) -> None:
    lines = ["a,b", '5" pipe,1', '"6"" pipe, long",2', 'x"",3', ",4", 'y,7"']
    text = "".join(line.replace(", long", "~").replace(",", delimiter).replace("~", ", long") + "\n" for line in lines)
    (work / "pipes.csv").write_text(text, encoding="utf-8")
    (work / "open.csv").write_text(text + f'"7 pipe{delimiter}8\n', encoding="utf-8")
    expected = None
    for n_bytes in (-1, 1 << 20):
        monkeypatch.setattr(spark_read, "_WHOLE_BYTES", n_bytes)
        found = spark_read.read(spark, str(work / "pipes.csv"), delimiter=delimiter).collect()
        rows = sorted((tuple(row) for row in found), key=repr)
        assert expected in (None, rows)
        expected = rows
    assert ('5" pipe', "1") in rows
    monkeypatch.setattr(spark_read, "_WHOLE_BYTES", -1)
    done = run("check", "open.csv", "--rule", "key(a)", "--delimiter", delimiter)
    assert "a line has a quote that is not closed in it" in done.stderr


@pytest.mark.parametrize("n_bytes", [-1, 1 << 20])
def test_columns_are_what_all_their_values_are(
    spark: Any, work: Path, monkeypatch: pytest.MonkeyPatch, n_bytes: int
) -> None:
    monkeypatch.setattr(spark_read, "_WHOLE_BYTES", n_bytes)
    write_bad_files(work)
    (work / "zeros.csv").write_text("zip,n\n01234,1\n1234,12345678901234567890\n", encoding="utf-8")
    done = run("check", "latin.csv", "--rule", 'not(t.b == "M\xfcnchen")', "--encoding", "latin-1")
    assert done.exit_code == 1, done.output
    for name, rule in (("words.csv", 'not(t.a == "n/a")'), ("zeros.csv", "not(t.n > 12345678901234567889)")):
        assert run("check", name, "--rule", rule).exit_code == 1
    assert run("check", "zeros.csv", "--rule", "key(zip)").exit_code == 0


def test_without_pyspark(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if {"pyspark", "spark"} & set(name.split("."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    for command in ("check", "explain"):
        done = run(command, "people.csv", "--rule", "zip -> city", "--engine", "spark")
        assert done.exit_code == 2, done.output
        assert "the Spark engine needs the package pyspark: pip install 'pyspark[connect]>=3.5'" in done.stderr


def test_without_java_or_a_master(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("naysay.spark.session.running_session", lambda: None)
    monkeypatch.setenv("PATH", str(work))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    done = run("check", "people.csv", "--rule", "zip -> city")
    assert done.exit_code == 2, done.output
    assert "Spark needs a Java runtime (17 or newer) and none was found" in done.stderr
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        for master in (f"spark://127.0.0.1:{port}", f"sc://127.0.0.1:{port}/;user_id=me"):
            done = run("check", "people.csv", "--rule", "zip -> city", "--master", master)
            assert done.exit_code == 2, done.output
            assert f"cannot reach Spark at {master}" in done.stderr


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_rows_of_files_have_numbers(spark: Any, work: Path, name: str) -> None:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    table = pa.table({"a": [1, 2, 3, 1], "b": [1, 1, 1, 2]})
    pyarrow.parquet.write_table(table, work / "t.parquet")
    pyarrow.csv.write_csv(table, work / "t.csv")
    done = run("check", name, "--rule", "a -> b", "--format", "json")
    local = run("check", name, "--rule", "a -> b", "--format", "json", "--engine", "local")
    (rule,), (other,) = json.loads(done.stdout)["rules"], json.loads(local.stdout)["rules"]
    assert [pair["left"]["row"] for pair in rule["sample"]] == [pair["left"]["row"] for pair in other["sample"]] == [0]
    assert rule["sample"][0]["right"]["file"].endswith(name)
    page = run("check", name, "--rule", "a -> b", "--report", "page.html")
    assert page.exit_code == 1, page.output
    text = (work / "page.html").read_text(encoding="utf-8")
    assert "Where the rows in conflict are" in text
    assert "does not report" not in text


def test_explain_tells_the_cost(spark: Any, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from naysay.detect.spark import check as spark_cost
    from naysay.detect.spark.key_groups import Sizes

    command = ("explain", "people.csv", "--rules", "people.yaml", "--engine", "spark", "--format", "json")
    done = run(*command)
    assert done.exit_code == 0, done.output
    assert {rule["spark_cost"] for rule in json.loads(done.stdout)["rules"]} == {
        "all 6 rows go to one task, with all rules"
    }
    monkeypatch.setattr(spark_cost, "_SIZES", Sizes(rows_a_task=2, giant=3))
    costs = {rule["name"]: rule["spark_cost"] for rule in json.loads(run(*command).stdout)["rules"]}
    assert costs["zip"] == "reads 6 rows; about 4 sums travel, of distinct values, from each task that reads"
    assert costs["pay"].startswith("the largest group has 4 of 4 rows and is cut into strips")
    assert costs["../low"] == "reads 6 rows; nothing travels"


def test_what_is_interrupted_stops_its_own_jobs_and_no_others(spark: Any) -> None:
    from naysay.spark.versions import interrupt, tagged

    def sleep(seconds: float) -> Any:
        def work(batches: Any) -> Any:
            time.sleep(seconds)
            yield from batches

        return spark.range(0, 1, 1, 1).mapInArrow(work, "id bigint")

    ended: list[str] = []

    def run(name: str, seconds: float) -> None:
        try:
            with tagged(spark, name):
                sleep(seconds).collect()
            ended.append(f"{name} is done")
        except Exception as error:
            ended.append(f"{name} was stopped: {'cancel' in str(error).lower()}")

    tracker = spark.sparkContext.statusTracker()
    other = threading.Thread(target=run, args=("the other", 4))
    mine = threading.Thread(target=run, args=("mine", 120))
    other.start()
    mine.start()
    while len(tracker.getActiveStageIds()) < 2 and other.is_alive():
        time.sleep(0.05)
    interrupt(spark, "mine")
    mine.join(60)
    other.join(60)
    assert sorted(ended) == ["mine was stopped: True", "the other is done"]
    assert not tracker.getActiveJobsIds()


@pytest.mark.parametrize(
    "verb",
    [
        lambda data: naysay.check(data, "key(id)"),
        lambda data: naysay.verify(data, "key(id)"),
        lambda data: naysay.count(data, "key(id)"),
        lambda data: naysay.violations(data, "key(id)").to_arrow(),
        naysay.discover,
    ],
    ids=["check", "verify", "count", "violations", "discover"],
)
def test_an_interrupt_leaves_no_job_running(spark: Any, tmp_path: Path, verb: Callable[[Any], object]) -> None:
    """Tasks that would take ten minutes end with the verb that started them."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("interrupts come to the main thread")
    begun = tmp_path / "begun"

    def sleep(batches: Any) -> Any:
        begun.touch()
        time.sleep(600)
        yield from batches

    def interrupt() -> None:
        while not begun.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    data = spark.range(0, 100, 1, 2).mapInArrow(sleep, "id bigint")
    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        verb(data)
    tracker = spark.sparkContext.statusTracker()
    end = time.monotonic() + 120
    while tracker.getActiveJobsIds() and time.monotonic() < end:
        time.sleep(0.05)
    assert not tracker.getActiveJobsIds()
    assert spark.range(0, 100, 1, 2).mapInArrow(lambda batches: batches, "id bigint").count() == 100


def test_an_interrupt_is_raised_whatever_pyspark_ends_its_call_with(spark: Any) -> None:
    from naysay.spark.session import cancelled_if_interrupted

    def interrupted() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise ValueError("as PySpark does")

    with pytest.raises(KeyboardInterrupt), cancelled_if_interrupted(spark):
        interrupted()
    with pytest.raises(ValueError, match="not an interrupt"), cancelled_if_interrupted(spark):
        raise ValueError("not an interrupt")


def test_progress_follows_the_tasks(spark: Any, tmp_path: Path) -> None:
    from naysay.spark.session import follow_progress, place_of

    seen = tmp_path / "seen"

    def until_seen(batches: Any) -> Any:
        """The last task ends after progress has shown the rows of the others."""
        from pyspark import TaskContext

        yield from batches
        end = time.monotonic() + 120
        while TaskContext.get().partitionId() == 2 and not seen.exists() and time.monotonic() < end:
            time.sleep(0.05)

    told: list[TaskProgress] = []

    def tell(progress: TaskProgress) -> None:
        told.append(progress)
        if progress.rows:
            seen.touch()

    with follow_progress(spark, tell):
        spark.range(0, 8_000, 1, 8).repartition(3).mapInArrow(until_seen, "id bigint").collect()
    assert told
    assert all(0 <= each.tasks <= each.all_tasks <= 11 for each in told)
    assert all(0 <= each.stages <= each.all_stages <= 2 for each in told)
    assert any(each.rows for each in told), told
    assert place_of(spark, "local[2]").startswith("Spark 4")


def test_a_state_on_spark_is_created_by_discover_and_updated_by_evolve(spark: Any, work: Path) -> None:
    """The rules are those of the same changes in this process."""
    (work / "table.csv").write_text("id,zip,city\n1,8,Ulm\n2,8,Ulm\n3,9,Bonn\n", encoding="utf-8")
    (work / "new.csv").write_text("id,zip,city\n4,8,Kiel\n", encoding="utf-8")
    (work / "gone.csv").write_text("id\n3\n", encoding="utf-8")
    found = []
    for engine in ("spark", "local"):
        first = ("discover", "table.csv", "--columns", "zip,city", "--state", engine, "--key", "id", "--all")
        change = ("evolve", engine, "--insert", "new.csv", "--delete", "gone.csv", "--batch-id", "one", "--quiet")
        done = [run(*command, "--engine", engine, "--format", "json") for command in (first, change, change)]
        assert [each.exit_code for each in done] == [0, 0, 0], [each.output for each in done]
        discovered, changed, repeated = (json.loads(each.stdout) for each in done)
        rules = [sorted(each["rule"] for each in changed[name]) for name in ("added", "removed")]
        found.append((sorted(discovered["all"]), changed["rows"], changed["rules"], rules, repeated["repeated"]))
    assert found[0] == found[1]
    assert found[0][1] == 3
    assert found[0][3][1], "a rule was removed"
    refused = run("evolve", "spark", "--engine", "local")
    assert (refused.exit_code, "are on Spark; leave out --engine local" in refused.stderr) == (2, True)
    refused = run("discover", "table.csv", "--engine", "spark", "--state", "other")
    assert (refused.exit_code, "--state on Spark needs --key" in refused.stderr) == (2, True)
