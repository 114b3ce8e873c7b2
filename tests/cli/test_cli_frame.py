"""The outer part of the command line: what is loaded when, what errors look like, and their exit codes."""

from __future__ import annotations

import errno
import os
import pty
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result
from command_line import run_process, without_progress
from rich.progress import Progress

from naysay.budget import TaskProgress
from naysay.cli.failure import Exit, Session, guarded
from naysay.cli.group import COMMANDS
from naysay.cli.screen import Waiting, _Pace
from naysay.errors import CountOverflow, NaysayError, ResourceError, RuleError, StateError, TableError, UsageError

HEAVY = ("pyspark", "numba", "numpy", "pyarrow", "pandas", "polars", "duckdb", "jinja2", "rich")


def test_help_lists_the_commands_and_loads_nothing_heavy() -> None:
    script = (
        "import sys\nfrom naysay.cli.group import naysay\n"
        "try:\n    naysay.main(['--help'])\n"
        f"finally:\n    print(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True)
    assert done.stderr.split() == []
    for name, summary in COMMANDS.items():
        assert f"\n  {name} " in done.stdout
        assert summary.split(".")[0].split(",")[0][:20] in done.stdout


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_has_help(naysay: Callable[..., Result], name: str) -> None:
    done = naysay(name, "--help")
    assert done.exit_code == 0
    assert done.stdout.startswith(f"Usage: naysay {name}")


def test_version() -> None:
    done = run_process("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("naysay 0.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "No such command 'nope'"),
        (["check"], "Missing argument 'INPUT'"),
        (["check", "people.csv", "--nope"], "No such option"),
        (["check", "people.csv", "--format", "pdf"], "'pdf' is not one of"),
        (["check", "people.csv", "--engine", "local"], "no rules: name a file with --rules FILE"),
        (["check", "people.csv", "--engine", "local", "--rules", "none.rules"], "cannot read the rules in none.rules"),
        (["check", "people.cvs", "--engine", "local", "--rule", "a -> b"], "did you mean 'people.csv'?"),
        (["check", "people.csv", "--engine", "local", "--rule", "zip -> City"], "Did you mean 'city'?"),
        (["check", "people.csv", "--engine", "local", "--rule", "zip -> city", "--key", "nr"], "the key column 'nr'"),
        (["check", "people.csv", "--engine", "local", "--rule", "a -> b", "--quick", "--out", "x"], "--quick stops"),
        (["check", "people.csv", "--engine", "local", "--rule", "zip -> city", "--memory", "much"], "such as 512M"),
        (["check", "people.csv", "--rule", "zip -> city", "--memory", "x"], "such as 512M"),
        (["check", "people.csv", "--rule", "zip -> city", "--max-seconds", "nan"], "seconds above 0"),
        (
            ["check", "people.csv", "--rule", "zip -> city", "--engine", "duckdb"],
            "is not one of 'auto', 'spark', 'local'",
        ),
        (
            ["check", "people.csv", "--rule", "zip -> city", "--engine", "spark", "--strategy", "facet"],
            "--strategy applies",
        ),
        (["check", "peple.csv", "--rule", "zip -> city"], "did you mean 'people.csv'?"),
        (["check", "mysql://me@host/people", "--rule", "zip -> city"], "naysay does not read databases"),
        (
            ["check", "people.csv", "--rule", "zip -> city", "--threads", "2", "--master", "local[1]"],
            "--threads applies",
        ),
        (
            ["check", "people.csv", "--rule", "zip -> city", "--memory", "1G", "--master", "sc://x"],
            "--memory applies to",
        ),
        (["discover", "people.csv", "--engine", "local", "--master", "local[1]"], "--master names a Spark cluster"),
        (["discover", "people.csv", "--max-seconds", "0"], "--max-seconds"),
        (["watch", ".", "--evolve", "--state", "s", "--partitions", "2"], "leave out --partitions"),
        (
            ["watch", ".", "--evolve", "--state", "s", "--index", "lt-tree"],
            "--index finds the violations of given rules",
        ),
        (["discover", "people.csv", "--state", "s", "--master", "local[1]"], "--state on Spark needs --key"),
        (["watch", "s3://x/y", "--rule", "a -> b", "--state", "s", "--engine", "local"], "is not a local folder"),
        (["report", "none.json"], "cannot read results in none.json"),
        (["report", "people.csv"], "is not JSON"),
        (["sql", "key(a)", "--dialect", "spark"], "tell a row from itself"),
        (["explain"], "no rules"),
        (["lint", "none.rules"], "none.rules"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(
    work: Path, naysay: Callable[..., Result], arguments: list[str], said: str
) -> None:
    done = naysay(*arguments)
    assert done.exit_code == Exit.BAD_INPUT
    assert said in done.stderr
    assert "Traceback" not in done.output
    assert done.stdout == ""


def test_all_bad_rules_are_named(work: Path, naysay: Callable[..., Result]) -> None:
    (work / "bad.rules").write_text("a: zip -> city\nb: zip --> city\n\nc: key(\n", encoding="utf-8")
    done = naysay("check", "people.csv", "--engine", "local", "--rules", "bad.rules", "--rule", "nope")
    assert done.exit_code == 2
    assert "3 bad rules" in done.stderr
    assert "bad.rules:2:8" in done.stderr
    assert "bad.rules:4:" in done.stderr
    assert "--rule:1:" in done.stderr


def test_a_file_without_rules_is_an_error(work: Path, naysay: Callable[..., Result]) -> None:
    (work / "empty.rules").write_text("# nothing\n", encoding="utf-8")
    done = naysay("check", "people.csv", "--engine", "local", "--rules", "empty.rules")
    assert done.exit_code == 2
    assert "there are no rules in empty.rules" in done.stderr


def _raises(error: BaseException) -> Callable[[], object]:
    def work() -> object:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NaysayError("x"), 2),
        (RuleError("x"), 2),
        (TableError("x"), 2),
        (UsageError("x"), 2),
        (StateError("x"), 3),
        (ResourceError("x"), 4),
        (CountOverflow("x"), 4),
        (MemoryError(), 4),
        (OSError(errno.ENOSPC, "No space left on device", "out"), 4),
        (PermissionError(errno.EACCES, "Permission denied", "out"), 2),
        (click.UsageError("x"), 2),
        (click.FileError("x"), 2),
        (click.Abort(), 130),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("x"), 5),
        (RecursionError("x"), 5),
    ],
)
def test_each_error_has_its_code(error: BaseException, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(_raises(error), Session()) == code
    assert "Traceback" not in capsys.readouterr().err


def test_an_internal_error_says_how_to_report_it(capsys: pytest.CaptureFixture[str]) -> None:
    guarded(_raises(ZeroDivisionError("by zero")), Session())
    said = capsys.readouterr().err
    assert said.startswith("naysay: internal error: ZeroDivisionError: by zero (test_cli_frame.py:")
    assert "--debug" in said
    assert "issue tracker" in said


def test_debug_shows_the_traceback(work: Path, naysay: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("naysay.api.check", explode)
    command = ["check", "people.csv", "--engine", "local", "--rule", "zip -> city"]
    assert "Traceback" not in naysay(*command).stderr
    for done in (naysay(*command, "--debug"), naysay("--debug", *command)):
        assert done.exit_code == 5
        assert "Traceback" in done.stderr


def test_control_c_is_quiet(work: Path) -> None:
    script = (
        "import time, naysay.api\n"
        "def check(*_, **__):\n    print('started', flush=True)\n    time.sleep(60)\n"
        "naysay.api.check = check\n"
        "import sys\nsys.argv = ['naysay', 'check', 'people.csv', '--engine', 'local', '--rule', 'zip -> city']\n"
        "from naysay.cli import main\nmain()\n"
    )
    command = [sys.executable, "-c", script]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130
    assert without_progress(errors).strip() == ""


def test_a_closed_pipe_is_quiet(work: Path) -> None:
    command = [sys.executable, "-m", "naysay", "sql", *(["key(a)"] * 2000)]
    # Unbuffered, Python's text layer ignores a short write, so that a closed pipe would cause no error.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=buffered)
    assert process.stdout is not None
    assert process.stderr is not None
    os.read(process.stdout.fileno(), 10)
    process.stdout.close()
    assert process.wait(600) == Exit.CLOSED_PIPE
    assert process.stderr.read() == b""
    process.stderr.close()


SLOW = (
    "import sys, time, naysay.api\n"
    "real = naysay.api.check\n"
    "def check(*given, **named):\n    time.sleep(1.8)\n    return real(*given, **named)\n"
    "naysay.api.check = check\n"
    "sys.argv = ['naysay', 'check', 'people.csv', '--engine', 'local', '--rule', 'zip -> city', *sys.argv[1:]]\n"
    "from naysay.cli import main\nmain()\n"
)


def _errors_on_a_terminal(*arguments: str) -> str:
    """What a slow check writes to standard error if that is a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", SLOW, *arguments]
    terminal = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=terminal) as done:
        os.close(theirs)
        written = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:
                break
            if not part:
                break
            written += part
    os.close(ours)
    assert done.returncode == 1
    return written.decode("utf-8")


def test_slow_work_shows_its_progress_on_a_terminal(work: Path) -> None:
    assert "checking" in _errors_on_a_terminal()


def test_the_first_run_says_that_it_compiles(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "compiling the kernels"
    monkeypatch.setenv("NAYSAY_CACHE_DIR", str(tmp_path))
    assert said in _errors_on_a_terminal()
    assert said not in _errors_on_a_terminal()


def test_a_long_stage_tells_its_pace() -> None:
    pace = _Pace()
    clock = iter(range(1000))
    progress = Progress(get_time=lambda: float(next(clock)))
    number = progress.add_task("checking", total=100)
    assert str(pace.render(progress.tasks[0])) == ""
    for _ in range(5):
        progress.update(number, advance=10)
    told = str(pace.render(progress.tasks[0]))
    assert told.endswith(" left")
    assert "/s, " in told


def test_no_progress_in_quiet(work: Path) -> None:
    assert _errors_on_a_terminal("--quiet") == ""


def test_a_line_of_progress_in_a_pipe(work: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SLOW], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 1
    assert done.stderr
    assert without_progress(done.stderr) == ""


class Pauses:
    """Stands for the time that a Waiting waits: the test lets it go on, as often as it likes."""

    def __init__(self) -> None:
        self._asked, self._answers = queue.Queue[float](), queue.Queue[bool]()

    def __call__(self, seconds: float) -> bool:
        self._asked.put(seconds)
        return self._answers.get(timeout=60)

    def until_asked(self) -> float:
        return self._asked.get(timeout=60)

    def over(self, is_over: bool) -> None:
        self._answers.put(is_over)


def test_the_lines_of_a_long_stage_in_a_pipe(capfd: pytest.CaptureFixture[str]) -> None:
    now = [100.0]
    pauses = Pauses()
    with Waiting(pause=pauses, clock=lambda: now[0]) as waiting:
        assert pauses.until_asked() == 1.0
        waiting.stage("starting Spark at local[2]")
        said = []
        for seconds, change in (
            (1, lambda: None),
            (10, lambda: waiting.reach(TaskProgress(4, 16, 1, 3, 1_200_000))),
            (10, lambda: waiting.update("evidence", 0.25)),
            (10, lambda: waiting.stage("checking 2 rules", 2)),
            (1000, waiting.advance),
        ):
            now[0] += seconds
            change()
            pauses.over(False)
            assert pauses.until_asked() == 10.0
            said.append(capfd.readouterr().err)
        pauses.over(True)
    assert said == [
        "naysay: starting Spark at local[2], 1 s\n",
        "naysay: starting Spark at local[2], stage 2 of 3, 4 of 16 tasks done, 1,200,000 rows read, about 33 s left, "
        "11 s\n",
        "naysay: evidence, 25% done, 21 s\n",
        "naysay: checking 2 rules, 31 s\n",
        "naysay: checking 2 rules, 1 done, 1,031 s\n",
    ]
    assert capfd.readouterr().err == ""


def test_quiet_work_starts_no_clock(capfd: pytest.CaptureFixture[str]) -> None:
    def pause(seconds: float) -> bool:
        raise AssertionError

    with Waiting(watched=False, pause=pause) as waiting:
        waiting.stage("reading")
    assert capfd.readouterr().err == ""


def test_progress_is_shown_while_the_messages_of_java_are_hidden(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark")
    from naysay.spark.session import _quiet_start

    pauses = Pauses()
    with Waiting(pause=pauses) as waiting:
        waiting.stage("starting Spark")
        pauses.until_asked()
        with _quiet_start(debug=False):
            os.write(2, b"WARN NativeCodeLoader\n")
            pauses.over(False)
            pauses.until_asked()
        pauses.over(True)
    said = capfd.readouterr().err
    assert said.startswith("naysay: starting Spark, ")
    assert "WARN" not in said


def test_progress_on_a_terminal_leaves_the_output_in_its_file(work: Path) -> None:
    """A live display of rich takes what is printed to the terminal, unless it is told not to."""
    script = (
        "import time\nfrom naysay.cli.screen import Waiting\n"
        "with Waiting(pause=lambda seconds: time.sleep(0.01) or False) as waiting:\n"
        "    waiting.stage('reading')\n"
        "    while not waiting._progress.live.is_started:\n        time.sleep(0.01)\n"
        "    print('the result')\n"
    )
    ours, theirs = pty.openpty()
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=theirs, text=True, check=True)
    os.close(theirs)
    os.close(ours)
    assert done.stdout == "the result\n"


def test_the_nearest_command_is_suggested(naysay: Callable[..., Result]) -> None:
    done = naysay("chekc")
    assert done.exit_code == 2
    assert "Did you mean 'check'?" in done.stderr
