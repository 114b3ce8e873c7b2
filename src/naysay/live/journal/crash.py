"""Named points around every durable write, where a test can have the process killed."""

from __future__ import annotations

import os
import signal
from collections import Counter

# Every point, in the order in which a store that is made, fed and folded passes them.
POINTS = (
    "create.begin",
    "create.written",
    "create.committed",
    "create.sealed",
    "batch.begin",
    "batch.written",
    "batch.committed",
    "batch.sealed",
    "snapshot.begin",
    "snapshot.written",
    "snapshot.committed",
    "snapshot.sealed",
    "close.begin",
    "close.closed",
    "output.events",
    "output.manifest",
    "output.current",
    "parts.answered",
    "parts.manifest",
)

_passed: Counter[str] = Counter()


def crash_point(point: str) -> None:
    """Die by SIGKILL at the k-th passing of a point, where NAYSAY_CRASH_AT is `point:k`; otherwise do nothing."""
    wanted = os.environ.get("NAYSAY_CRASH_AT")
    if wanted is None:
        return
    name, _, turn = wanted.partition(":")
    if name == point:
        _passed[point] += 1
        if _passed[point] == int(turn or 1):
            os.kill(os.getpid(), signal.SIGKILL)
