"""Evolvers in processes that are killed, and what must be there afterwards."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from evolve_machine import Setting, rules_from_scratch
from feed_evolver import batches

from naysay.evolve.evolver import Evolver
from naysay.rule import canonical
from naysay.rule.model import Nulls
from nursery import Nursery

FEEDER = Path(__file__).with_name("feed_evolver.py")


def job_in(folder: Path, seed: int, **more: Any) -> dict[str, Any]:
    return {
        "state": str(folder / "state"),
        "acknowledged": str(folder / "acknowledged"),
        "seed": seed,
        "n_batches": 10,
        "log_bytes": 1,
        "log_events": 3,
        "method": ("all-pairs", "selective")[seed % 2],
        **more,
    }


def judge(folder: Path, job: dict[str, Any]) -> None:
    """All batches were applied once: the rows are those of the model, and the rules those of the rows."""
    expected: dict[int, dict[str, Any]] = {}
    for batch in batches(job["seed"], job["n_batches"]):
        for key in batch.get("deletes", ()):
            del expected[key]
        for name in ("updates", "inserts"):
            if name in batch:
                expected.update({row["id"]: row for row in batch[name].to_pylist()})
    with Evolver.open(folder / "state") as evolver:
        assert {row["id"]: row for row in evolver.rows().to_pylist()} == expected
        setting = Setting(Nulls.SQL, 0.0, None, "")
        found = {canonical(rule) for rule in evolver.rules}
        assert found == rules_from_scratch(evolver.rows(), evolver.space, setting)


def kill_at_random(nursery: Nursery, folder: Path, seed: int) -> int:
    """Kill a feeder repeatedly, later each time, until it ends on its own; return the number of kills."""
    rng = random.Random(seed)
    job = job_in(folder, seed)
    patience, n_kills = 0.2 * rng.random(), 0
    while nursery.run(job, kill_after=patience) != 0:
        n_kills += 1
        patience = 1.5 * patience + 0.2 * rng.random()
    judge(folder, job)
    return n_kills
