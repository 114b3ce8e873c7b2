"""A watch killed at every named point around its durable writes, the first, second or a later time it gets there."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "watch"))

from killing import kill_at_point

from naysay.live.journal.seal import POINTS
from soak.kills import nursery
from soak.row import Outcome


def trial(seed: int) -> Outcome:
    """All points one after the other, and again with the next turn."""
    turn, place = divmod(seed, len(POINTS))
    with tempfile.TemporaryDirectory() as folder:
        killed = kill_at_point(nursery(), Path(folder), seed, POINTS[place], turn % 10 + 1)
    return Outcome(notes=("killed at the point" if killed else "point not reached that often",))
