"""A process that feeds a watch and may be killed: batches from a seed, each acknowledged in a file after `apply`.

    python feeder.py            reads jobs from standard input, one JSON object per line

See nursery.py.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from naysay.live.feed.changes import split_ops
from naysay.live.feed.follow import Follower
from naysay.live.journal import journal
from naysay.live.layout import named
from naysay.watch import Watch
from naysay.watch.feed import FeedOptions, open_feed
from nursery import serve

RULES = (
    "one: key(a, b)",
    "two: a -> c",
    "three: not(t.a == s.a and t.x < s.x and t.y > s.y)",
    "four: not(t.x > 90)",
    "five: not(t.x > s.x and t.y < s.y and t.a != s.a and t.c != s.c)",
)
SCHEMA = pa.schema(
    {"id": pa.int64(), "a": pa.int64(), "b": pa.string(), "c": pa.string(), "x": pa.int64(), "y": pa.float64()}
)


def batches(seed: int, n_batches: int) -> list[dict[str, Any]]:
    """Batches with inserts, updates and deletes, the same for the same seed."""
    rng = random.Random(seed)
    alive: set[int] = set()
    made: list[dict[str, Any]] = []
    next_id = 0
    for _ in range(n_batches):
        inserts = list(range(next_id, next_id + rng.randint(1, 12)))
        next_id += len(inserts)
        known = sorted(alive)
        deletes = rng.sample(known, min(len(known), rng.randint(0, 5)))
        rest = [key for key in known if key not in deletes]
        updates = rng.sample(rest, min(len(rest), rng.randint(0, 4)))
        alive = (alive | set(inserts)) - set(deletes)
        made.append({"inserts": rows(rng, inserts), "updates": rows(rng, updates), "deletes": deletes})
    return made


def rows(rng: random.Random, keys: list[int]) -> pa.Table:
    values = [
        {
            "id": key,
            "a": rng.randrange(5),
            "b": rng.choice("uvwxyz"),
            "c": rng.choice(["p", "q", None]),
            "x": rng.randrange(100),
            "y": rng.randrange(100) / 4,
        }
        for key in keys
    ]
    return pa.Table.from_pylist(values, SCHEMA)


def feed(job: dict[str, Any]) -> None:
    """Do a job, as far as it is not done yet."""
    journal._MIN_LOG_EVENTS = job["log_events"]
    folder = Path(job["folder"])
    {"apply": apply, "follow": follow, "parts": apply_in_parts}[job["kind"]](folder, job)


def apply(folder: Path, job: dict[str, Any]) -> None:
    """Apply all batches that are not acknowledged yet, and acknowledge each one after it was applied."""
    acknowledged = folder / "acknowledged"
    n_known = len(acknowledged.read_text().split()) if acknowledged.exists() else 0
    watch = Watch(RULES, "id", state=folder / "state.duckdb")
    for number, batch in enumerate(batches(job["seed"], job["n_batches"])):
        # The batch after the last acknowledged one may or may not have been applied: its id decides.
        if number < n_known and number % 7:
            continue
        change = watch.apply(**batch, batch_id=str(number))
        assert change.repeated or number >= n_known, f"batch {number} was acknowledged, and is gone"
        if number >= n_known:
            with acknowledged.open("a") as file:
                file.write(f"{number}\n")
    watch.close()


def follow(folder: Path, job: dict[str, Any]) -> None:
    """Apply a folder of change files as the command line does."""
    state = folder / "state"
    feed, _ = open_feed(state, named(RULES), ["id"], FeedOptions())
    with feed:
        for _ in Follower(folder / "changes", feed, state, moment=0).drain():
            pass
        feed.write_current()


def apply_in_parts(folder: Path, job: dict[str, Any]) -> None:
    """Apply all batches to a watch in parts, its stages run in this process."""
    from inline_parts import open_inline
    from outputs import change_table

    parts = open_inline(folder / "state", 2, RULES)
    for number, batch in enumerate(batches(job["seed"], job["n_batches"])):
        if not parts.has_applied(str(number)):
            parts.apply(str(number), split_ops(str(number), change_table(batch)))
    parts.write_current()


if __name__ == "__main__":
    # Compile or load every kernel before the first fork.
    warm = Watch(RULES, "id")
    for batch in batches(0, 20):
        warm.apply(**batch)
    serve(feed)
