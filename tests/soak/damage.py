"""Damaged files of every kind of state: bits flipped, cut, zeroed, deleted, swapped, an older version restored."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "watch"))

from damage import Gallery

from soak.row import Outcome

_FIRST = 1_000_000


@cache
def _gallery() -> Gallery:
    folder = Path(tempfile.mkdtemp(prefix="naysay-damage-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Gallery(folder)


def trial(seed: int) -> Outcome:
    ((verdict, how),) = _gallery().judged([_FIRST + seed])
    return Outcome(notes=(verdict,)) if verdict != "wrong" else Outcome(failure=how)
