"""A pytest plugin that runs the collected tests on mutants: each in a forked process, the tests collected once.

First, every test runs once in the unchanged program to see how long it takes and which kernels it calls. For a mutant,
the tests that call its kernel run, shortest first, until one fails or takes many times as long as in the unchanged
program, so that endless loops are noticed too. Times are CPU times, so that a busy machine does not change the verdict.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from mutation.mutants import KERNELS, Mutant, code_of, module_of, modules

# A test that takes longer than the first limit in the unchanged program is left out. A mutant has survived when its
# tests have taken the second limit in total and none of them failed.
_LONGEST_TEST = 6.0
_LONGEST_MUTANT = 40.0
# A test is considered endless if it takes this many times as long as in the unchanged program, plus this many seconds.
_TIMES, _SECONDS_MORE = 4, 4
# A process that waits for something uses no CPU time; this is its limit in wall-clock seconds.
_LONGEST_WAIT = 900.0
_SURVIVED, _KILLED, _OUT_OF_TIME = 0, 1, -signal.SIGXCPU


class Judge:
    """Judges the mutants one after the other until the time is up; results are appended to a file as they come."""

    def __init__(self, mutants: list[Mutant], folder: Path, seconds: float) -> None:
        self._mutants = mutants
        self._baseline = folder / "baseline.jsonl"
        self._verdicts = folder / "verdicts.jsonl"
        self._end = time.monotonic() + seconds

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        # Here, so that not every child repeats it.
        for module in modules():
            importlib.import_module(f"naysay.kernels.{module}")
        known = {line["test"]: line for line in read_lines(self._baseline)}
        for item in session.items:
            if item.nodeid not in known and time.monotonic() < self._end:
                known[item.nodeid] = self._tried(item)
                append_line(self._baseline, known[item.nodeid])
        sound = sorted((line for line in known.values() if line["passed"]), key=lambda line: line["seconds"])
        items = {item.nodeid: item for item in session.items}
        done = {line["mutant"] for line in read_lines(self._verdicts)}
        if not all(item.nodeid in known for item in session.items):
            return True
        for mutant in self._mutants:
            if mutant.name in done or time.monotonic() > self._end:
                continue
            called = f"{mutant.module}:{mutant.function}"
            relevant = [
                (items[line["test"]], line["seconds"])
                for line in sound
                if called in line["kernels"] and line["test"] in items
            ]
            append_line(self._verdicts, {"mutant": mutant.name, **_judged(mutant, relevant)})
        return True

    def _tried(self, item: pytest.Item) -> dict[str, Any]:
        status, said, seconds = _in_a_child(lambda write: _run_traced(item, write))
        return {
            "test": item.nodeid,
            "passed": status == _SURVIVED,
            "seconds": seconds,
            "kernels": json.loads(said) if status == _SURVIVED else [],
        }


def _judged(mutant: Mutant, items: list[tuple[pytest.Item, float]]) -> dict[str, Any]:
    if not items:
        return {"verdict": "survived", "by": "no test calls it", "seconds": 0.0}
    status, said, seconds = _in_a_child(lambda write: _run_on(mutant, items, write))
    verdict = {_SURVIVED: "survived", _KILLED: "killed", _OUT_OF_TIME: "out of time"}.get(status, "crashed")
    tests = said.splitlines()
    by = f"{len(tests)} of {len(items)} tests passed" if verdict == "survived" else tests[-1] if tests else ""
    return {"verdict": verdict, "by": by, "seconds": seconds}


def _run_traced(item: pytest.Item, write: Callable[[str], None]) -> int:
    """Run a test and record the kernels that it calls, on any thread."""
    _allow(_LONGEST_TEST)
    folder = str(KERNELS)
    called: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            called.add(f"{module_of(Path(frame.f_code.co_filename))}:{frame.f_code.co_name}")

    threading.setprofile(note)
    sys.setprofile(note)
    reports = runtestprotocol(item, nextitem=None, log=False)
    sys.setprofile(None)
    write(json.dumps(sorted(called)))
    return _SURVIVED if all(report.passed for report in reports) else _KILLED


def _run_on(mutant: Mutant, items: list[tuple[pytest.Item, float]], write: Callable[[str], None]) -> int:
    """Run the tests on a mutant, printing the name of each when it starts."""
    function = getattr(importlib.import_module(f"naysay.kernels.{mutant.module}"), mutant.function)
    function.__code__ = code_of(mutant)
    for item, seconds in items:
        if time.process_time() > _LONGEST_MUTANT:
            break
        write(f"{item.nodeid}\n")
        _allow(_TIMES * seconds + _SECONDS_MORE)
        if any(report.failed for report in runtestprotocol(item, nextitem=None, log=False)):
            return _KILLED
    return _SURVIVED


def _allow(seconds: float) -> None:
    """Limit this process to this many more CPU seconds; then the system kills it."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds), hard))


def _in_a_child(work: Callable[[Callable[[str], None]], int]) -> tuple[int, str, float]:
    """Do the work in a forked process; return its exit code or minus the signal, its output, and its seconds."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _become_a_child(work, writer)
    os.close(writer)
    end, said = time.monotonic() + _LONGEST_WAIT, b""
    while part := os.read(reader, 1 << 16) if select.select([reader], [], [], _LONGEST_WAIT)[0] else b"":
        said += part
    if time.monotonic() >= end:
        os.kill(child, signal.SIGKILL)
    os.close(reader)
    _, status, used = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), said.decode(), round(used.ru_utime + used.ru_stime, 2)


def _become_a_child(work: Callable[[Callable[[str], None]], int], writer: int) -> None:
    """Never returns; silent."""
    status = 2
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        status = work(lambda text: _write(writer, text))
    finally:
        os._exit(status)


def _write(writer: int, text: str) -> None:
    data = text.encode()
    while data:
        data = data[os.write(writer, data) :]


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def append_line(path: Path, line: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
