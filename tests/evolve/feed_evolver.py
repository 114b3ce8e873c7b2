"""A process that feeds an evolver and may be killed: batches from a seed, each acknowledged in a file after `apply`.

    python feed_evolver.py      reads jobs from standard input, one JSON object per line

See nursery.py.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from naysay.evolve.evolver import Evolver
from naysay.live.journal import journal
from nursery import serve

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])


def rows(rng: random.Random, keys: list[int]) -> pa.Table:
    values = [
        {"id": key, "a": rng.randrange(6), "b": rng.choice("uvw"), "c": rng.choice((None, 0.5, 1.5, 2.5))}
        for key in keys
    ]
    return pa.Table.from_pylist(values, SCHEMA)


def batches(seed: int, n_batches: int) -> list[dict[str, Any]]:
    """Batches with inserts, updates and deletes, the same for the same seed; the first is the initial frame."""
    rng = random.Random(seed)
    made: list[dict[str, Any]] = [{"inserts": rows(rng, list(range(12)))}]
    alive, next_id = set(range(12)), 12
    for _ in range(n_batches):
        inserts = list(range(next_id, next_id + rng.randint(1, 6)))
        next_id += len(inserts)
        known = sorted(alive)
        deletes = rng.sample(known, min(len(known), rng.randint(0, 5)))
        rest = [key for key in known if key not in deletes]
        updates = rng.sample(rest, min(len(rest), rng.randint(0, 2)))
        alive = (alive | set(inserts)) - set(deletes)
        made.append({"inserts": rows(rng, inserts), "updates": rows(rng, updates), "deletes": deletes})
    return made


def feed(job: dict[str, Any]) -> None:
    """Apply all batches that are not acknowledged yet, and note each one after it was applied."""
    journal._MIN_LOG_BYTES, journal._MIN_LOG_EVENTS = job.get("log_bytes", 1 << 24), job.get("log_events", 4096)
    acknowledged = Path(job["acknowledged"])
    n_known = len(acknowledged.read_text().split()) if acknowledged.exists() else 0
    first, *rest = batches(job["seed"], job["n_batches"])
    if (Path(job["state"]) / "made").exists():
        evolver = Evolver.open(job["state"])
    else:
        try:
            evolver = Evolver.open(job["state"])
        except Exception:
            evolver = Evolver(first["inserts"], key="id", method=job["method"], state=job["state"])
        (Path(job["state"]) / "made").touch()
    for number, batch in enumerate(rest):
        # The batch after the last acknowledged one may or may not have been applied: its id decides.
        if number < n_known and number % 3:
            continue
        change = evolver.apply(**batch, batch_id=str(number))
        assert change.repeated or number >= n_known, f"batch {number} was acknowledged, and is gone"
        if number >= n_known:
            with acknowledged.open("a") as file:
                file.write(f"{number}\n")
    evolver.close()


if __name__ == "__main__":
    # Compile or load every kernel before the first fork; no threads survive it.
    for method in ("all-pairs", "selective"):
        first, *rest = batches(0, 12)
        warm = Evolver(first["inserts"], key="id", method=method, threads=1)
        for batch in rest:
            warm.apply(**batch)
    serve(feed)
