"""The stream on Spark, killed at random moments: a folder, a frame, and a state in parts, one after the other."""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "watch"))

from streamer import MODES, check_kills

from soak.row import Outcome


def trial(seed: int) -> Outcome:
    """Killed up to twice, only the driver or all processes, then run to the end and compared with brute force."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        n_killed = check_kills(Path(folder), random.Random(1_000_000 + seed), MODES[seed % len(MODES)], 2)
    return Outcome(notes=("kills",) * n_killed)
