"""A local watch with a durable state, killed at random moments: on its own, following a folder, or in parts."""

from __future__ import annotations

import atexit
import sys
import tempfile
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "watch"))

from killing import FEEDER, Nursery, kill_at_random

from soak.row import Outcome

_KINDS = ("apply", "follow", "apply", "follow", "parts")
# The seeds that the tests use are below.
_FIRST = 1_000_000


@cache
def nursery() -> Nursery:
    made = Nursery(FEEDER)
    atexit.register(made.close)
    return made


def trial(seed: int) -> Outcome:
    """Killed up to ten times on the way, then compared with brute force over all batches."""
    with tempfile.TemporaryDirectory() as folder:
        n_killed = kill_at_random(nursery(), Path(folder), _FIRST + seed, _KINDS[seed % len(_KINDS)], 10)
    return Outcome(notes=("kills",) * n_killed)
