"""Named points around every durable write, where a test can have the process killed."""

from __future__ import annotations

import os
import signal
from collections import Counter

# Every point, in the order in which a journal that is created, appended to and compacted passes them.
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
    """If NAYSAY_CRASH_AT is `point:k`, die by SIGKILL the k-th time this point is passed; otherwise do nothing."""
    wanted = os.environ.get("NAYSAY_CRASH_AT")
    if wanted is None:
        return
    name, _, turn = wanted.partition(":")
    if name == point:
        _passed[point] += 1
        if _passed[point] == int(turn or 1):
            os.kill(os.getpid(), signal.SIGKILL)
