"""Which engine a command runs on: chosen by us, or by an option, the environment or a settings file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import Result
from command_line import without_progress

from naysay.cli.engine import Choice, choose_for_changes, choose_for_table
from naysay.cli.options import Place
from naysay.cli.settings import ENGINES, Settings, load_settings
from naysay.errors import TableError, UsageError
from naysay.plan import cost
from naysay.plan.cost import available_bytes
from naysay.plan.join import join_of
from naysay.rule import parse

Run = Callable[..., Result]
GIB = 1 << 30


@pytest.fixture(autouse=True)
def plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine has 64 GiB left and this process uses 1 GiB, whatever else runs here and ran before."""
    monkeypatch.setattr(cost, "available_bytes", lambda: 64 * GIB)
    monkeypatch.setattr(cost, "process_bytes", lambda: GIB)


@pytest.mark.parametrize(
    ("source", "format", "reason"),
    [
        ("folder", None, "folder is a folder"),
        ("folder/*.csv", None, "folder/*.csv may match several files"),
        ("part-{0,1}.parquet", None, "may match several files"),
        ("s3://lake/people.csv", None, "s3://lake/people.csv is a remote address"),
        ("hdfs://host/people.parquet", None, "is a remote address"),
        ("abfss://lake@account.dfs.core.windows.net/people", None, "is a remote address"),
        ("dbfs:/people.csv", None, "is a remote address"),
        ("people", None, "there is no file 'people', so it may be a table"),
        ("lake.sales.people", None, "so it may be a table"),
        ("people.csv", "table", "people.csv is a table"),
        ("people.csv", "delta", "only Spark reads the format delta"),
    ],
)
def test_what_only_spark_reads(work: Path, source: str, format: str | None, reason: str) -> None:
    (work / "folder").mkdir()
    (work / "folder" / "part.csv").write_text("a\n1\n", encoding="utf-8")
    choice = choose_for_table(source, format=format)
    assert choice.engine == "spark"
    assert reason in choice.reason
    assert str(choice).startswith("running on Spark: ")


@pytest.mark.parametrize(
    "name", ["people.csv", "people.txt", "people.csv.gz", "C:people.csv", "a [1].csv", "people", "é.jsonl"]
)
def test_a_local_file_is_read_in_process(work: Path, name: str) -> None:
    (work / name).write_text("zip,city\n1,Ulm\n", encoding="utf-8")
    choice = choose_for_table(name)
    assert choice == Choice("local", f"{name} is a local file of {len('zip,city') + len('1,Ulm') + 2} bytes")
    assert str(choice).startswith("running in-process: ")


@pytest.mark.parametrize("source", ["peple.csv", "none/people.csv", "none/people", "postgres://me:secret@host/people"])
def test_what_nobody_reads_is_refused_before_spark_starts(work: Path, source: str) -> None:
    with pytest.raises(TableError) as found:
        choose_for_table(source)
    assert "secret" not in str(found.value)


def sparse(path: Path, n_bytes: int) -> Path:
    """A file of that size that takes no room."""
    with path.open("wb") as file:
        file.truncate(n_bytes)
    return path


@pytest.mark.parametrize("name", ["people.csv", "people.jsonl", "people.parquet", "people.arrow", "people.orc"])
def test_a_file_beyond_the_memory_goes_to_spark(work: Path, name: str) -> None:
    small, large = sparse(work / f"small-{name}", 1 << 20), sparse(work / f"large-{name}", 1 << 40)
    assert choose_for_table(str(small)).engine == "local"
    choice = choose_for_table(str(large))
    assert choice.engine == "spark"
    assert "TiB of memory in-process, and 52.2 GiB" in choice.reason
    assert choice.reason.endswith(" GiB are available")
    choice = choose_for_table(str(large), memory=GIB)
    assert choice.engine == "spark"
    assert choice.reason.endswith(", and --memory allows 1.0 GiB")
    # Spark does not start with that little, and the refusal says how much is needed.
    choice = choose_for_table(str(small), memory=1 << 20)
    assert choice == Choice("local", "--memory allows 1.0 MiB, which is too little for Spark")


def test_too_little_memory_for_either_engine_is_refused(work: Path, naysay: Run) -> None:
    done = naysay("check", "people.csv", "--rule", "zip -> city", "--memory", "1M")
    assert done.exit_code == 4
    assert "this needs about" in done.stderr


def test_the_rows_of_a_table_count_not_the_size_of_its_file(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten million rows of one value take a few kB as Parquet, and hundreds of MB when they are checked."""
    part = pa.table({"a": pa.array([1], pa.int64()).take(pa.array([0] * 1_000_000)), "b": ["Ulm"] * 1_000_000})
    with pyarrow.parquet.ParquetWriter(work / "people.parquet", part.schema) as writer:
        for _ in range(10):
            writer.write_table(part)
    assert (work / "people.parquet").stat().st_size < 1 << 20
    joins = [join_of(parse("a -> b"))]
    assert choose_for_table("people.parquet", joins=joins).engine == "local"
    monkeypatch.setattr(cost, "available_bytes", lambda: GIB // 2)
    assert choose_for_table("people.parquet", joins=joins).engine == "spark"
    assert choose_for_table("people.parquet").engine == "spark"
    # Without an answer of the system, a file is read here.
    monkeypatch.setattr(cost, "available_bytes", lambda: None)
    assert choose_for_table("people.parquet", joins=joins).engine == "local"


def test_more_rules_and_results_need_more_memory(work: Path) -> None:
    from naysay.io.size import expect_table, needed_bytes

    found = expect_table("people.csv")
    assert found is not None
    found = replace(found, n_rows=10_000_000, table_bytes=8 * 10_000_000)
    few, many = ([join_of(parse(rule)) for rule in rules] for rules in (["key(id)"], ["key(id)", "zip -> city"]))
    needs = [needed_bytes(found, few), needed_bytes(found, many), needed_bytes(found, many, writes=True)]
    assert needs == sorted(needs)
    assert needs[0] < needs[-1]
    assert needed_bytes(found, None) > needed_bytes(found, [])


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


MEMINFO = {"proc/meminfo": "MemTotal:  8192 kB\nMemAvailable:    4096 kB\nHugePages_Total:  0\n"}
V2, V1 = "sys/fs/cgroup", "sys/fs/cgroup/memory"


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({}, None),
        (MEMINFO, 4096 << 10),
        ({"proc/meminfo": "nonsense\nMemAvailable: much kB\n"}, None),
        # No limit; a limit here; a limit above; what the cache of files holds can be had.
        (MEMINFO | {"proc/self/cgroup": "0::/a/b\n", f"{V2}/a/b/memory.max": "max\n"}, 4096 << 10),
        (
            MEMINFO
            | {"proc/self/cgroup": "0::/a/b\n", f"{V2}/a/b/memory.max": "1000\n", f"{V2}/a/b/memory.current": "300\n"},
            700,
        ),
        (
            MEMINFO
            | {
                "proc/self/cgroup": "0::/a/b\n",
                f"{V2}/a/b/memory.max": "1000\n",
                f"{V2}/a/b/memory.current": "300\n",
                f"{V2}/a/memory.max": "600\n",
                f"{V2}/a/memory.current": "500\n",
                f"{V2}/a/memory.stat": "anon 450\ninactive_file 50\n",
            },
            150,
        ),
        # A container that is told the path on its host.
        ({"proc/self/cgroup": "0::/docker/77\n", f"{V2}/memory.max": "1000\n", f"{V2}/memory.current": "1\n"}, 999),
        # The first version of control groups, one of several kinds.
        (
            MEMINFO
            | {
                "proc/self/cgroup": "12:cpu,cpuacct:/x\n9:memory:/x\n",
                f"{V1}/x/memory.limit_in_bytes": "2000\n",
                f"{V1}/x/memory.usage_in_bytes": "500\n",
                f"{V1}/x/memory.stat": "total_inactive_file 100\n",
                f"{V1}/memory.limit_in_bytes": "9223372036854771712\n",
                f"{V1}/memory.usage_in_bytes": "1\n",
            },
            1600,
        ),
        # More than allowed is used already.
        ({"proc/self/cgroup": "0::/\n", f"{V2}/memory.max": "10\n", f"{V2}/memory.current": "20\n"}, 0),
        (MEMINFO | {"proc/self/cgroup": "odd\n\n::::\n"}, 4096 << 10),
    ],
)
def test_the_memory_that_is_left(tmp_path: Path, files: dict[str, str], left: int | None) -> None:
    assert available_bytes(machine(tmp_path, files)) == left


def test_the_memory_of_this_machine() -> None:
    left = available_bytes()
    assert left is None or left >= 0


@pytest.mark.parametrize("source", ["changes", "file://{here}/changes"])
def test_change_files_are_followed_in_process_unless_their_state_is_in_parts(work: Path, source: str) -> None:
    (work / "changes").mkdir()
    source = source.format(here=work)
    assert choose_for_changes(source, work / "state").engine == "local"
    assert choose_for_changes("s3://lake/changes", work / "state").engine == "spark"
    (work / "state" / "parts").mkdir(parents=True)
    assert choose_for_changes(source, work / "state").engine == "spark"


@pytest.mark.parametrize("option", [None, *ENGINES])
@pytest.mark.parametrize("variable", [None, "", *ENGINES])
@pytest.mark.parametrize("file", [None, *ENGINES])
@pytest.mark.parametrize("forced", [None, "local"])
def test_an_option_outweighs_the_environment_and_that_a_file(
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: str | None,
    variable: str | None,
    file: str | None,
    forced: str | None,
) -> None:
    if variable is not None:
        monkeypatch.setenv("NAYSAY_ENGINE", variable)
    if file is not None:
        (work / "naysay.toml").write_text(f'engine = "{file}"\n', encoding="utf-8")
    choice = None if forced is None else Choice(forced, "--strategy is facet")
    place = Place(option, None).decided(lambda memory: Choice("spark", "it is large"), forced=choice)
    said = capsys.readouterr().err
    wanted = option or ("auto" if forced else variable or file or "auto")
    assert place.engine == (wanted if wanted != "auto" else forced or "spark")
    reason = "in-process: --strategy is facet" if forced else "on Spark: it is large"
    assert said == (f"naysay: running {reason}\n" if wanted == "auto" else "")


def test_a_master_means_spark(work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("NAYSAY_ENGINE", "local")
    (work / "naysay.toml").write_text('memory = "2G"\n', encoding="utf-8")

    def choose(memory: int | None) -> Choice:
        raise AssertionError

    place = Place(None, "sc://host").decided(choose)
    assert (place.engine, place.memory) == ("spark", None)
    assert capsys.readouterr().err == "naysay: running on Spark: --master is sc://host\n"
    assert Place(None, "local[2]", quiet_memory := "1G").decided(choose, quiet=True).memory == quiet_memory
    assert capsys.readouterr().err == ""


def test_the_memory_of_a_file_is_a_default(work: Path) -> None:
    (work / "naysay.toml").write_text('memory = "2G"\n', encoding="utf-8")
    allowed = []

    def choose(memory: int | None) -> Choice:
        allowed.append(memory)
        return Choice("local", "")

    assert Place("auto", None).decided(choose).memory == "2G"
    assert Place("auto", None, "1G").decided(choose).memory == "1G"
    assert allowed == [2 * GIB, GIB]


def test_the_nearest_settings_count(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = work / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    (work / "pyproject.toml").write_text('[tool.naysay]\nengine = "spark"\n', encoding="utf-8")
    (work / "a" / "pyproject.toml").write_text("[tool.other]\nengine = 1\n", encoding="utf-8")
    assert load_settings() == Settings("spark")
    (work / "naysay.toml").write_text('engine = "local"\nmemory = 4096\n', encoding="utf-8")
    assert load_settings() == Settings("local", "4096")
    (inner / "pyproject.toml").write_text("[tool.naysay]\n", encoding="utf-8")
    assert load_settings() == Settings()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "naysay.toml",
            'engine = "sparc"',
            "naysay.toml: there is no engine 'sparc'; choose one of auto, spark, local",
        ),
        ("naysay.toml", "engine = 3", "naysay.toml: there is no engine 3; choose one of"),
        ("naysay.toml", "engine = ['local']", "naysay.toml: there is no engine ['local']; choose one of"),
        ("naysay.toml", 'engin = "local"', "naysay.toml: there is no setting 'engin'; did you mean 'engine'?"),
        ("naysay.toml", "[tool.naysay]", "naysay.toml: there is no setting 'tool'; the keys are engine, memory"),
        ("naysay.toml", 'memory = "much"', "naysay.toml: memory must be a number of bytes"),
        ("naysay.toml", "engine", "naysay.toml, which is not valid TOML: "),
        ("naysay.toml", b"engine = '\xff'", "naysay.toml, which is not valid TOML: "),
        ("pyproject.toml", "[tool", "pyproject.toml, which is not valid TOML: "),
        ("pyproject.toml", "[tool.naysay]\nx = 1", "pyproject.toml, [tool.naysay]: there is no setting 'x'"),
        ("pyproject.toml", "[tool]\nnaysay = 'x'", "pyproject.toml, [tool.naysay]: expected settings such as"),
    ],
)
@pytest.mark.parametrize("verb", ["check", "discover", "explain", "watch"])
def test_bad_settings_are_one_sentence(
    work: Path, naysay: Run, verb: str, name: str, text: str | bytes, said: str
) -> None:
    (work / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    (work / "changes").mkdir()
    arguments = {
        "watch": ("changes", "--rule", "zip -> city", "--key", "id", "--state", "state", "--once"),
        "discover": ("people.csv",),
    }.get(verb, ("people.csv", "--rule", "zip -> city"))
    done = naysay(verb, *arguments)
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert len(without_progress(done.stderr).splitlines()) == 1
    assert not (work / "state").exists()


def test_a_bad_variable_is_named(work: Path, naysay: Run) -> None:
    done = naysay("check", "people.csv", "--rule", "zip -> city", env={"NAYSAY_ENGINE": "sparc"})
    assert done.exit_code == 2
    said = "naysay: NAYSAY_ENGINE: there is no engine 'sparc'; choose one of auto, spark, local\n"
    assert without_progress(done.stderr) == said


def test_settings_that_cannot_be_read(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, **_: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(UsageError, match=r"cannot read the settings in .*naysay.toml: Permission denied"):
        load_settings()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("check", "people.csv", "--rules", "people.rules"), 1),
        (("discover", "people.csv"), 0),
        (("explain", "people.csv", "--rules", "people.rules"), 0),
        (("watch", "people.csv", "--rule", "zip -> city", "--key", "id", "--state", "state", "--once"), 0),
    ],
)
def test_the_choice_is_one_line(work: Path, naysay: Run, command: tuple[str, ...], code: int) -> None:
    done = naysay(*command)
    assert done.exit_code == code, done.output
    (line,) = without_progress(done.stderr).splitlines()
    assert line.startswith("naysay: running in-process: people.csv ")
    assert "running in-process" not in done.stdout
    assert without_progress(naysay(*command, "--engine", "local").stderr) == ""
    if command[0] != "explain":
        assert without_progress(naysay(*command, "--quiet").stderr) == ""
    if command[0] != "watch":
        json.loads(naysay(*command, "--format", "json").stdout)


def test_an_option_of_one_engine_decides(work: Path, naysay: Run) -> None:
    rule = ("check", "people.csv", "--rule", "zip -> city")
    for more, reason in (
        (("--strategy", "facet"), "--strategy is facet"),
        (("--max-seconds", "60"), "--max-seconds is given"),
    ):
        done = naysay(*rule, *more, env={"NAYSAY_ENGINE": "spark"})
        assert done.exit_code == 1, done.output
        assert without_progress(done.stderr) == f"naysay: running in-process: {reason}\n"
    done = naysay("discover", "people.csv", "--state", "kept", env={"NAYSAY_ENGINE": "spark"})
    assert done.exit_code == 0, done.output
    assert "running in-process: --state keeps the table in this process" in done.stderr


def run_without_pyspark(command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    script = (
        "import sys\nsys.modules['pyspark'] = None\n"
        f"sys.argv = ['naysay', *{command!r}]\nfrom naysay.cli import main\nmain()"
    )
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("check", "folder", "--rule", "zip -> city"), "folder is a folder"),
        (("check", "s3://lake/people.csv", "--rule", "zip -> city"), "is a remote address"),
        (("discover", "lake.people"), "so it may be a table"),
        (("check", "people.csv", "--rule", "zip -> city", "--master", "local[1]"), "--master is local[1]"),
        (("explain", "folder", "--rule", "zip -> city"), "folder is a folder"),
        (
            ("check", "people.csv", "--rule", "zip -> city", "--out", "s3a://lake/out"),
            "only Spark writes to s3a://lake/out",
        ),
        (("watch", "s3://lake/x", "--rule", "zip -> city", "--key", "id", "--state", "s"), "is a remote address"),
    ],
)
def test_without_pyspark(work: Path, command: tuple[str, ...], reason: str) -> None:
    (work / "folder").mkdir()
    done = run_without_pyspark(command)
    assert done.returncode == 2, done.stderr
    chosen, refused = without_progress(done.stderr).splitlines()
    assert chosen.startswith("naysay: running on Spark: ")
    assert reason in chosen
    assert refused.startswith("naysay: the Spark engine needs the package pyspark: pip install ")


def test_without_pyspark_a_file_needs_none(work: Path) -> None:
    done = run_without_pyspark(("check", "people.csv", "--rule", "id, name -> zip"))
    assert done.returncode == 0, done.stderr


def test_without_java(work: Path, naysay: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setattr("naysay.spark.session.running_session", lambda: None)
    monkeypatch.setenv("PATH", str(work))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (work / "folder").mkdir()
    done = naysay("check", "folder", "--rule", "zip -> city")
    assert done.exit_code == 2
    chosen, refused = without_progress(done.stderr).splitlines()
    assert chosen == "naysay: running on Spark: folder is a folder"
    assert refused.startswith("naysay: Spark needs a Java runtime (17 or newer) and none was found; install one ")
