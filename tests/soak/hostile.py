"""Hostile rules: many predicates, disequalities and orders over one giant group; estimated, then kept or refused."""

from __future__ import annotations

import math
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc

import naysay
from naysay.detect.violations import count_seconds
from naysay.errors import ResourceError
from naysay.plan.bind import bind
from naysay.plan.join import join_of
from naysay.report.plans import explained
from naysay.rule import Nulls, parse
from naysay.table import from_frame
from soak.row import Outcome

_ALLOWED_SECONDS = 10.0
# Work may take twice its estimate, plus the cost of starting anything.
_TIMES, _SLACK_SECONDS = 2.0, 0.3
_SIGNAL_SECONDS = 1.0
_REFUSED = re.compile(r"this would take about .* more than the .* allowed; allow it \(--max-seconds N")


def trial(seed: int) -> Outcome:
    """The count and the check of one rule compared with their estimates; a signal in the middle if they take long."""
    table, text = drawn(np.random.default_rng(seed), seed)
    found, seconds = judged(table, text)
    if found.failure or seconds < 4:
        return found
    # What Ctrl-C sends, and what `timeout` sends.
    waited = interrupted(table, text, signal.SIGINT if seed % 2 else signal.SIGTERM)
    if waited is None:
        return replace(found, notes=(*found.notes, "done before the signal"))
    if waited > _SIGNAL_SECONDS:
        return Outcome(failure=f"{text[:200]}: ended {waited:.1f} s after the signal")
    measured = (*found.most, ("seconds from the signal to the end", waited))
    return replace(found, notes=(*found.notes, "ended by a signal"), most=measured)


def judged(table: pa.Table, text: str) -> tuple[Outcome, float]:
    """The outcome of a count and a check, and the estimate of the check."""
    naysay.check(table[:200], text)
    prepared = from_frame(table)
    rule = parse(text)
    estimates = {
        "count": count_seconds(bind(prepared, join_of(rule), Nulls.SQL)),
        "check": explained([rule], prepared)[0].seconds or 0.0,
    }
    notes, most = [], []
    for verb, estimate in estimates.items():
        try:
            seconds = _seconds(verb, table, text, _TIMES * estimate + _SLACK_SECONDS)
        except ResourceError as error:
            if not _REFUSED.search(str(error)) or estimate < _ALLOWED_SECONDS / 2:
                said = f"{verb} refused at an estimate of {estimate:.1f} s: {error}"
                return Outcome(failure=f"{text[:200]}: {said}"), estimate
            notes.append(f"{verb} refused")
            continue
        if seconds > _TIMES * estimate + _SLACK_SECONDS:
            said = f"{verb} took {seconds:.1f} s, estimated {estimate:.1f} s"
            return Outcome(failure=f"{text[:200]}: {said}"), estimate
        notes.append(f"{verb} within its estimate")
        if seconds > 1:
            most.append((f"times the estimate of a {verb}", seconds / estimate))
    return Outcome(notes=tuple(notes), most=tuple(most)), estimates["check"]


def _seconds(verb: str, table: pa.Table, text: str, limit: float) -> float:
    """The CPU seconds of a verb, divided by how slow the machine is; best of three if the first is over the limit."""
    best = math.inf
    for _ in range(3):
        start = time.process_time()
        getattr(naysay, verb)(table, text, max_seconds=_ALLOWED_SECONDS, threads=1)
        best = min(best, (time.process_time() - start) / slowness())
        if best <= limit:
            break
    return best


def slowness() -> float:
    """How many times longer than estimated a plain rule takes at this moment, at least 1.

    Other processes slow down CPU time as well: they take the caches, and their threads share the cores.
    """
    table = pa.table({name: np.arange(300_000) * factor % 1009 for name, factor in (("a", 7), ("b", 31), ("c", 127))})
    rule = parse("not(t.a == s.a and t.b < s.b and t.c > s.c)")
    estimate = count_seconds(bind(from_frame(table), join_of(rule), Nulls.SQL))
    best = math.inf
    for _ in range(2):  # The first may have to compile.
        start = time.process_time()
        naysay.count(table, rule, threads=1)
        best = min(best, time.process_time() - start)
    return max(1.0, best / estimate)


def drawn(rng: np.random.Generator, seed: int, n_rows: int | None = None) -> tuple[pa.Table, str]:
    """A table with one giant group, and a rule of one of five kinds."""
    kind = seed % 5
    n_rows = int(rng.choice((20_000, 100_000, 300_000))) if n_rows is None else n_rows
    n_differs, n_orders = ((32, 0), (12, 0), (0, 6), (6, 3), (int(rng.integers(0, 20)), int(rng.integers(0, 12))))[kind]
    if n_differs + n_orders == 0:
        n_differs = 3
    columns = {"g": np.where(rng.random(n_rows) < 0.9, 0, rng.integers(0, n_rows, n_rows))}
    columns |= {f"d{i}": rng.integers(0, int(rng.choice((2, 3, 50, n_rows))), n_rows) for i in range(n_differs)}
    columns |= {f"o{i}": rng.integers(0, int(rng.choice((50, n_rows))), n_rows) for i in range(n_orders)}
    predicates = [f"t.d{i} != s.d{i}" for i in range(n_differs)]
    predicates += [f"t.o{i} {rng.choice(('<', '>', '<=', '>='))} s.o{i}" for i in range(n_orders)]
    if rng.random() < 0.7:
        predicates.append("t.g == s.g")
    random.Random(seed).shuffle(predicates)
    return pa.table(columns), f"not({' and '.join(predicates)})"


def interrupted(table: pa.Table, text: str, signal_number: int) -> float | None:
    """The seconds that `naysay check` keeps running after a signal in the middle of its work; None if it was done."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.arrow"
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
        command = [sys.executable, "-m", "naysay", "check", str(path), "--engine", "local", "--rule", text]
        running = subprocess.Popen(
            [*command, "--max-seconds", "1000000000", "--quiet"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        try:
            running.wait(timeout=3.5)
            return None
        except subprocess.TimeoutExpired:
            start = time.monotonic()
            running.send_signal(signal_number)
            running.communicate(timeout=60)
            return time.monotonic() - start
        finally:
            running.kill()
            running.wait()
