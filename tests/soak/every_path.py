"""Every path agrees: each strategy, one or two threads, with and without shared work, prefixes, compilation; Spark."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from cases import Case
from naysay.detect import differing, partners
from naysay.detect import engine as local
from naysay.detect.engine import LocalEngine
from naysay.detect.request import CheckOptions
from naysay.detect.strategy import NAMES
from naysay.plan.bind import Memo, NoMemo
from naysay.rule.model import Rule
from naysay.table import Table, from_frame
from soak.row import FINE, Outcome
from soak.shrunk import shrunk
from strategies import random_case, random_rule

_FIRST = 40_000_000
# Uncompiled kernels are a hundred times slower: one case in this many is also run uncompiled.
_UNCOMPILED_EVERY = 20
# Several rules at once take as long as all other paths of one rule: one case in this many.
_TOGETHER_EVERY = 8
# Spark takes a second for what takes a millisecond here: one table in this many, with several rules.
_SPARK_EVERY = 400
Answers = dict[str, Any]


def answers(case: Case, options: CheckOptions, table: Table | None = None) -> Answers:
    """What one path says of a case, in values that JSON keeps; from a table encoded before, where one is given."""
    table = from_frame(case.table) if table is None else table
    options = replace(options, nulls=case.nulls)
    pairs = LocalEngine(table).violations(case.rule, options).table
    return {
        "count": LocalEngine(table).count([case.rule], options)[0],
        "holds": LocalEngine(table).verify(case.rule, options).holds,
        "pairs": sorted(
            [left, -1 if right is None else right]
            for left, right in zip(pairs["left"].to_pylist(), pairs["right"].to_pylist(), strict=True)
        ),
        "rows": LocalEngine(table).conflict_rows([case.rule], options)[0].tolist(),
        "cut": LocalEngine(table).violations(case.rule, options, limit=2).table.num_rows,
    }


@contextmanager
def settings(
    *,
    growing: bool = False,
    memo: type[Memo] = NoMemo,
    limit: float | None = None,
    collapse: float = 0.7,
    blocks: bool = False,
) -> Iterator[None]:
    """Let verify begin with one row; share the work of several rules or not; divide groups above a limit; merge rows
    that look the same if they are at most a fraction of all; search rules by blocks whatever that costs."""
    chosen: list[tuple[Any, str, Any]] = [(local, "Memo", memo), (differing, "_WORTH_COLLAPSING", collapse)]
    if growing:
        chosen += [(local, "_FIRST_ROWS", 1), (local, "_GROWTH", 2)]
    if limit is not None:
        chosen += [(differing, "compare_limit", lambda *_: limit)]
    if limit is not None or blocks:
        chosen += [(differing, "_FEW_PAIRS", -1)]
    if blocks:
        chosen += [(differing, "_WORTH_SEARCHING", 1e9), (differing, "_WORTH_BUILDING", 1e9)]
        chosen += [(partners, "_MANY", 1)]
    kept = [(module, name, getattr(module, name)) for module, name, _ in chosen]
    try:
        for module, name, value in chosen:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in kept:
            setattr(module, name, value)


def disagreement(case: Case) -> str | None:
    """The first path whose answers differ from the plainest one's. All others share a table and its codes."""
    table = from_frame(case.table)
    with settings():
        plainest = answers(case, CheckOptions(threads=1))
        for strategy in NAMES:
            found = answers(case, CheckOptions(strategy=strategy, threads=1), table)
            if found != plainest:
                return f"{strategy} says {found}, auto {plainest}"
    with settings(growing=True, memo=Memo):
        found = answers(case, CheckOptions(threads=2), table)
    if found != plainest:
        return f"with prefixes, memo and two threads {found}, else {plainest}"
    with settings(blocks=True):
        found = answers(case, CheckOptions(threads=1), table)
    if found != plainest:
        return f"by blocks {found}, else {plainest}"
    for limit, collapse in ((0.0, 0.0), (1.0, 1.0)):
        with settings(limit=limit, collapse=collapse):
            found = answers(case, CheckOptions(threads=1), table)
        if found != plainest:
            return f"with groups divided above {limit}, classes at most {collapse}: {found}, else {plainest}"
    return None


def trial(seed: int) -> Outcome:
    """One case along every path; several rules of its table at once; occasionally uncompiled."""
    rng = random.Random(_FIRST + seed)
    case = random_case(rng)
    if disagreement(case) is not None:
        return Outcome(failure=shrunk(case, disagreement))
    if seed % _TOGETHER_EVERY == 0:
        rules = [case.rule, *(random_rule(rng, case.table) for _ in range(9))]
        fault = _many_rules(case, rules[:4]) or _many_counts(case, rules)
        if fault:
            return Outcome(failure=f"{fault}\n{rules}\n{case.script()}")
    if seed % _SPARK_EVERY == 0:
        return _on_spark(seed // _SPARK_EVERY)
    if seed % _UNCOMPILED_EVERY:
        return FINE
    compiled, uncompiled = answers(case, CheckOptions()), _uncompiled(_FIRST + seed)
    if uncompiled != compiled:
        return Outcome(failure=f"uncompiled {uncompiled}, compiled {compiled}\n{case.script()}")
    return Outcome(notes=("also uncompiled",))


def _many_rules(case: Case, rules: list[Rule]) -> str:
    """Rules checked together, on one and two threads, sharing work or not, compared with each rule by itself."""
    with settings():
        alone = [answers(replace(case, rule=rule), CheckOptions(threads=1))["count"] for rule in rules]
    for n_threads, memo in ((1, Memo), (2, Memo), (2, NoMemo)):
        with settings(growing=True, memo=memo):
            options = CheckOptions(nulls=case.nulls, threads=n_threads)
            report = LocalEngine(from_frame(case.table)).check(rules, options)
            together = [result.violations for result in report]
            if together != alone:
                return f"together {together}, each alone {alone}; {n_threads} threads, {memo.__name__}"
            quick = LocalEngine(from_frame(case.table)).check(rules, replace(options, quick=True))
            if [result.holds for result in quick] != [count == 0 for count in alone]:
                return f"quickly {[result.holds for result in quick]}, counts {alone}"
    return ""


def _many_counts(case: Case, rules: list[Rule]) -> str:
    """Rules counted together, which share the pairs of rows that agree, compared with each rule by itself."""
    with settings():
        alone = [answers(replace(case, rule=rule), CheckOptions(threads=1))["count"] for rule in rules]
    for n_threads in (1, 2):
        options = CheckOptions(nulls=case.nulls, threads=n_threads)
        counts = LocalEngine(from_frame(case.table)).count(rules, options)
        if counts != alone:
            return f"counted together {counts}, each alone {alone}; {n_threads} threads"
    return ""


def _on_spark(number: int) -> Outcome:
    """Another table with its rules on Spark: in one task, in several, in strips; in batches of three rows or not."""
    from soak.spark_session import session

    spark = session()
    import spark_differential as judge

    sizes = (judge.IN_ONE_TASK, judge.IN_TASKS, judge.IN_PARTS)[number % 3]
    batch = "3" if number // 3 % 2 else "10000"
    table, rules, nulls = judge.draw(_FIRST + number, 12 if sizes is judge.IN_ONE_TASK else 6)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", batch)
    try:
        judge.judge_check(spark, table, rules, nulls, sizes)
        judge.judge_counts(spark, table, rules, nulls, sizes)
        if number % 5 == 0:
            judge.judge_lists(spark, table, rules[:2], nulls, sizes)
    except AssertionError as error:
        return Outcome(failure=f"on Spark, {sizes}, batches of {batch}: {error}")
    note = "rules on Spark, in batches of three rows" if batch == "3" else "rules on Spark"
    return Outcome(notes=(note,) * len(rules))


@cache
def _server() -> subprocess.Popen[str]:
    """A separate process in which nothing is compiled: seeds in, answers out."""
    paths = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        # Unsigned numbers wrap around silently only in compiled code.
        [sys.executable, "-W", "ignore", "-m", "soak.every_path"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _uncompiled(seed: int) -> Answers:
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(f"{seed}\n")
    server.stdin.flush()
    found: Answers = json.loads(server.stdout.readline())
    return found


def _serve() -> None:
    for line in sys.stdin:
        found = answers(random_case(random.Random(int(line))), CheckOptions())
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
