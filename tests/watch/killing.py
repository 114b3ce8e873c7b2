"""Kills of a watch in another process, at random moments or at named points, and what must hold at the end."""

from __future__ import annotations

import random
import signal
from pathlib import Path
from typing import Any

from feeder import RULES, SCHEMA, batches
from outputs import asides, brute_force, events, rows_after, standing, write_changes

from naysay.live.journal.seal import POINTS
from naysay.live.layout import named
from naysay.watch import Watch
from nursery import Nursery

# Who reaches each point: any durable watch, a follower of a folder, a watch in parts.
STORE_POINTS = tuple(point for point in POINTS if point.split(".")[0] in ("create", "batch", "snapshot", "close"))
OUTPUT_POINTS = tuple(point for point in POINTS if point.startswith("output."))
PARTS_POINTS = tuple(point for point in POINTS if point.startswith("parts."))
N_BATCHES = 20
# A batch of a watch in parts takes many durable writes.
N_BATCHES_IN_PARTS = 12
FEEDER = Path(__file__).with_name("feeder.py")


def job_for(folder: Path, seed: int, kind: str) -> dict[str, Any]:
    """A job in its own folder: kind is apply (a watch and its state), follow (change files) or parts."""
    if kind == "follow":
        write_changes(folder / "changes", batches(seed, N_BATCHES))
    n_batches = N_BATCHES_IN_PARTS if kind == "parts" else N_BATCHES
    return {"kind": kind, "folder": str(folder), "seed": seed, "n_batches": n_batches, "log_events": 4}


def judge(folder: Path, job: dict[str, Any]) -> None:
    """All batches were applied once: rows, violations and output equal brute force."""
    made = batches(job["seed"], job["n_batches"])
    rows = rows_after(made)
    expected = brute_force(named(RULES), rows)
    if job["kind"] == "apply":
        assert (folder / "acknowledged").read_text().split() == [str(number) for number in range(len(made))]
    else:
        assert events(folder / "state") == expected
        assert standing(folder / "state") == expected
        assert asides(folder / "state") == []
    if job["kind"] == "parts":
        return
    store = folder / ("state.duckdb" if job["kind"] == "apply" else "state/state.duckdb")
    with Watch.open(store) as watch:
        table = watch.rows()
        assert table is not None
        found = table.select(list(SCHEMA.names)).sort_by("id").to_pylist()
        assert found == [rows[key] for key in sorted(rows)]
        assert {tuple(row.values()) for row in watch.violations().table.to_pylist()} == expected


def kill_at_random(nursery: Nursery, folder: Path, seed: int, kind: str, most_kills: int) -> int:
    """Kill a job at random moments until it finishes; return the number of kills."""
    rng = random.Random(seed)
    job = job_for(folder, seed, kind)
    n_killed, ended = 0, None
    while ended != 0:
        ended = nursery.run(job, kill_after=rng.random() * 0.4 if n_killed < most_kills else None)
        assert ended in (0, -signal.SIGKILL)
        n_killed += ended == -signal.SIGKILL
    judge(folder, job)
    return n_killed


def kill_at_point(nursery: Nursery, folder: Path, seed: int, point: str, turn: int) -> bool:
    """Kill a job the n-th time it reaches a point, and resume it; return whether it got there at all."""
    kind = "parts" if point in PARTS_POINTS else "follow" if point in OUTPUT_POINTS or seed % 2 else "apply"
    job = job_for(folder, seed, kind)
    ended = nursery.run(job, crash_at=f"{point}:{turn}")
    assert ended in (0, -signal.SIGKILL)
    assert nursery.run(job) == 0
    judge(folder, job)
    return ended != 0
