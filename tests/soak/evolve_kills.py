"""An evolver with a durable state, killed at random moments and at every named point of the journal."""

from __future__ import annotations

import atexit
import sys
import tempfile
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "evolve"))

from kill_evolver import FEEDER, Nursery, job_in, judge, kill_at_random

from naysay.live.journal.seal import POINTS
from soak.row import Outcome

_POINTS = [point for point in POINTS if point.split(".")[0] in ("create", "batch", "snapshot", "close")]


@cache
def _nursery() -> Nursery:
    nursery = Nursery(FEEDER)
    atexit.register(nursery.close)
    return nursery


def trial(seed: int) -> Outcome:
    """Odd seeds are killed at a named point, even ones at random moments until they finish."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if seed % 2 == 0:
            n_kills = kill_at_random(_nursery(), folder, seed)
            return Outcome(notes=("killed at random",) * n_kills)
        turn, place = divmod(seed // 2, len(_POINTS))
        job = job_in(folder, seed)
        killed = _nursery().run(job, crash_at=f"{_POINTS[place]}:{turn % 4 + 1}") != 0
        if _nursery().run(job) != 0:
            return Outcome(failure=f"what was killed at {_POINTS[place]} cannot go on")
        judge(folder, job)
        return Outcome(notes=("killed at a point",) if killed else ())
