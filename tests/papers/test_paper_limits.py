"""The papers' methods obey the limits of time, memory and threads, and everything else works without them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import naysay
from naysay.budget import Budget, Stopped, use_budget
from naysay.detect.strategy import NAMES, strategy_named
from naysay.errors import ResourceError
from naysay.plan.bind import bind
from naysay.plan.cost import process_bytes
from naysay.plan.join import join_of
from naysay.rule import Nulls, parse
from naysay.table import from_frame

PAPERS = [name for name in NAMES if name != "auto"]
RULES = ["not(t.a == s.a and t.b < s.b and t.c > s.c)", "not(t.a == s.a and t.b < s.b and t.c != s.c)"]
RANDOM = np.random.default_rng(11)
FRAME = pa.table({name: RANDOM.integers(0, most, 400) for name, most in (("a", 5), ("b", 60), ("c", 60))})


@pytest.mark.parametrize("strategy", PAPERS)
@pytest.mark.parametrize("rule", RULES)
def test_limits_that_suffice_change_nothing(strategy: str, rule: str) -> None:
    expected = naysay.count(FRAME, rule)
    assert naysay.count(FRAME, rule, strategy=strategy, max_seconds=600, memory="64GB", threads=1) == expected
    assert naysay.count(FRAME, RULES, strategy=strategy, threads=2) == naysay.count(FRAME, RULES)


@pytest.mark.parametrize("strategy", PAPERS)
@pytest.mark.parametrize("rule", RULES)
def test_a_method_that_takes_too_long_is_stopped(strategy: str, rule: str) -> None:
    bound = bind(from_frame(FRAME), join_of(parse(rule)), Nulls.SQL)
    method = strategy_named(strategy)
    for work in (method.verify, method.count, lambda bound: method.violations(bound, None)):
        with use_budget(Budget(1e-9)), pytest.raises(ResourceError, match="longer than the 1e-09 seconds allowed"):
            work(bound)
    with pytest.raises(ResourceError, match=r"took longer than .*--max-seconds N"):
        naysay.count(FRAME, rule, strategy=strategy, max_seconds=1e-9)


@pytest.mark.parametrize("strategy", PAPERS)
@pytest.mark.parametrize("rule", RULES)
def test_a_method_that_needs_too_much_memory_is_refused(strategy: str, rule: str) -> None:
    bound = bind(from_frame(FRAME), join_of(parse(rule)), Nulls.SQL)
    method = strategy_named(strategy)
    for work in (method.verify, method.count, lambda bound: method.violations(bound, None)):
        with use_budget(Budget(memory=process_bytes() // 2)), pytest.raises(ResourceError, match="allowed"):
            work(bound)


@pytest.mark.parametrize("strategy", PAPERS)
@pytest.mark.parametrize("rule", RULES)
def test_a_method_that_was_called_off_stops(strategy: str, rule: str) -> None:
    bound = bind(from_frame(FRAME), join_of(parse(rule)), Nulls.SQL)
    method = strategy_named(strategy)
    budget = Budget()
    budget.stop()
    for work in (method.verify, method.count, lambda bound: method.violations(bound, None)):
        with use_budget(budget), pytest.raises(Stopped):
            work(bound)


WITHOUT_PAPERS = """
import pyarrow as pa
import naysay

assert naysay.__file__.startswith(FOLDER), naysay.__file__
people = pa.table({"id": [1, 2, 3], "zip": [1, 1, 2], "city": ["a", "b", "c"]})
assert naysay.check(people, ["zip -> city"]).results[0].violations == 2
assert naysay.discover(people).findings
watch = naysay.Watch(rules=["zip -> city"], key="id")
watch.apply(inserts=people)
assert watch.n_rows == 3
evolver = naysay.Evolver(people, key="id")
evolver.apply(deletes=[2])
assert evolver.n_rows == 2


def other_watch():
    watch = naysay.Watch(rules=["zip -> city"], key="id", index="lt-tree")
    watch.apply(inserts=people)


for paper, ask in {
    "facet": lambda: naysay.count(people, "zip -> city", strategy="facet"),
    "rapidash": lambda: naysay.count(people, "zip -> city", strategy="rapidash-kd-tree"),
    "hydra": lambda: naysay.discover(people, method="hydra").findings,
    "incdc": lambda: naysay.Evolver(people, key="id", method="incdc"),
    "weever": other_watch,
}.items():
    try:
        ask()
    except naysay.UsageError as error:
        assert str(error).startswith(f"the method of {paper} is not installed"), error
    else:
        raise AssertionError(f"{paper} answered")
"""


def test_everything_else_works_without_the_papers(tmp_path: Path) -> None:
    source = Path(naysay.__file__).parent
    shutil.copytree(source, tmp_path / "naysay", ignore=shutil.ignore_patterns("papers", "__pycache__"))
    script = WITHOUT_PAPERS.replace("FOLDER", repr(str(tmp_path)))
    # Uncompiled kernels are quick enough for three rows, and compiling them in a new folder is not.
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
