"""A watch is killed at random moments and at every named point: nothing is lost, and nothing applied twice.

CI kills 20 times at random moments; NAYSAY_SOAK multiplies that (10 gives 200).
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from feeder import RULES, batches

from naysay.watch import Watch
from naysay.watch.crash import POINTS

N_KILLS = 20 * max(int(os.environ.get("NAYSAY_SOAK", "0")), 1)
STORE_POINTS = [point for point in POINTS if not point.startswith("output.")]


class Nursery:
    """The process that forks feeders."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("feeder.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def run(self, job: dict[str, Any], **more: Any) -> int:
        """How a feeder ended: 0, or minus the signal that killed it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({**job, **more}) + "\n")
        return int(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


def job_for(folder: Path, seed: int, n_batches: int, **more: Any) -> dict[str, Any]:
    names = {"store": str(folder / "state.duckdb"), "acknowledged": str(folder / "acknowledged")}
    return {**names, "seed": seed, "n_batches": n_batches, **more}


def check_end(folder: Path, seed: int, n_batches: int) -> None:
    """The store holds what a watch without interruption holds."""
    acknowledged = (folder / "acknowledged").read_text().split()
    assert acknowledged == [str(number) for number in range(n_batches)]
    expected = Watch(RULES, "id")
    for batch in batches(seed, n_batches):
        expected.apply(**batch)
    with Watch(store=folder / "state.duckdb") as watch:
        assert watch.counts == expected.counts
        assert sorted_rows(watch.rows()) == sorted_rows(expected.rows())
        assert violations(watch) == violations(expected)


def sorted_rows(table: pa.Table | None) -> list[dict[str, Any]]:
    assert table is not None
    return table.sort_by("id").to_pylist()


def violations(watch: Watch) -> set[tuple[Any, ...]]:
    return {tuple(row.values()) for row in watch.standing().table.to_pylist()}


def test_random_kills(nursery: Nursery, tmp_path: Path) -> None:
    rng = random.Random(N_KILLS)
    n_killed = case = 0
    while n_killed < N_KILLS:
        folder = tmp_path / str(case)
        folder.mkdir()
        seed, n_batches = case, 40
        job = job_for(folder, seed, n_batches, log_events=rng.choice([5, 4096]))
        ended = None
        while ended != 0:
            ended = nursery.run(job, kill_after=rng.random() * 0.4 if n_killed < N_KILLS else None)
            assert ended in (0, -signal.SIGKILL)
            n_killed += ended == -signal.SIGKILL
        check_end(folder, seed, n_batches)
        case += 1


@pytest.mark.parametrize("point", STORE_POINTS)
def test_kills_at_named_points(nursery: Nursery, tmp_path: Path, point: str) -> None:
    for turn in (1, 3):
        folder = tmp_path / str(turn)
        folder.mkdir()
        job = job_for(folder, turn, 20, log_events=4)
        ended = nursery.run(job, crash_at=f"{point}:{turn}")
        passes_once = point.startswith(("create", "close"))
        assert ended == (0 if passes_once and turn > 1 else -signal.SIGKILL)
        assert nursery.run(job) == 0
        check_end(folder, turn, 20)
