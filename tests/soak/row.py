"""A row of the reliability table, and how to run a range of its seeds."""

from __future__ import annotations

import math
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from importlib import import_module

# Only this many failures are printed in full; the rest are only counted.
MOST_SHOWN = 20
_PROGRESS_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one seed: nothing, a failure in words with its smallest case, or notes to be counted.

    `most` holds measurements of which a run keeps the largest, such as ("times the cap", 1.02).
    """

    failure: str = ""
    notes: tuple[str, ...] = ()
    most: tuple[tuple[str, float], ...] = ()


FINE = Outcome()


@dataclass(frozen=True, slots=True)
class Row:
    """One promise: what is tested, the number of trials of a long run, the expected result, and the trial itself.

    `module` has a function `trial(seed)`; it is loaded in the process that runs it. A row without a module is not
    implemented yet. `alone`: a trial measures time or memory, so trials never run in parallel.
    """

    name: str
    what: str
    large: int
    expected: str
    module: str = ""
    alone: bool = False


@dataclass(slots=True)
class Figures:
    """What a run of a row found."""

    n: int = 0
    n_failures: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    shown: list[str] = field(default_factory=list)
    most: dict[str, float] = field(default_factory=dict)

    def measured(self, name: str, value: float) -> None:
        self.most[name] = max(value, self.most.get(name, value))

    def add(self, other: Figures) -> None:
        self.n += other.n
        self.n_failures += other.n_failures
        self.notes.update(other.notes)
        self.shown += other.shown
        for name, value in other.most.items():
            self.measured(name, value)


def run_seeds(module: str, seeds: range) -> Figures:
    """Try each seed; an exception that the trial does not catch is a failure too."""
    trial: Callable[[int], Outcome] = import_module(module).trial
    found = Figures()
    for seed in seeds:
        try:
            outcome = trial(seed)
        except Exception:
            outcome = Outcome(failure=traceback.format_exc())
        found.n += 1
        found.notes.update(outcome.notes)
        for name, value in outcome.most:
            found.measured(name, value)
        if outcome.failure:
            found.n_failures += 1
            found.shown.append(f"seed {seed}: {outcome.failure}")
    return found


def run_row(row: Row, seeds: range, jobs: int = 1, max_seconds: float = math.inf) -> Figures:
    """Try all seeds, on several processes if allowed; progress and failures go to standard error.

    After `max_seconds` no further seeds are started, so that the seeds tried are the first of the range.
    """
    if not row.module:
        raise SystemExit(f"the row {row.name!r} is not implemented yet")
    total = Figures()
    start = last = time.monotonic()
    for part in _parts(row, seeds, 1 if row.alone else jobs):
        for text in part.shown[: max(0, MOST_SHOWN - total.n_failures)]:
            _say(f"FAILED {row.name}, {text}")
        total.add(part)
        if time.monotonic() - last > _PROGRESS_SECONDS:
            last = time.monotonic()
            done = f"{total.n:,} of {len(seeds):,}, {total.n_failures} failures, {last - start:,.0f} s"
            _say(f"{row.name}: {done}")
        if time.monotonic() - start > max_seconds and jobs == 1:
            break
    return total


def _parts(row: Row, seeds: range, jobs: int) -> Iterator[Figures]:
    size = max(1, min(500, len(seeds) // (20 * jobs)))
    parts = [seeds[at : at + size] for at in range(0, len(seeds), size)]
    if jobs == 1:
        yield from (run_seeds(row.module, part) for part in parts)
        return
    # A fresh interpreter for each worker: threads and compiled code do not survive a fork.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        waiting: set[Future[Figures]] = set()
        for part in parts:
            waiting.add(pool.submit(run_seeds, row.module, part))
            if len(waiting) > 2 * jobs:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        for future in waiting:
            yield future.result()


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
