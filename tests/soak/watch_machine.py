"""Sequences of inserts, updates, deletes, refusals, restarts and rule changes of a watch; each step is checked."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "watch"))

from machine import run_program

from naysay.live.journal import journal
from naysay.watch import counting as counters
from naysay.watch import tree_index as tree
from soak.row import Outcome

# The seeds that the tests use are below.
_FIRST = 100_000_000


def trial(seed: int) -> Outcome:
    """With all indexes and with only counts; every 20th sequence keeps its state in files."""
    tree._REBUILD_SHARE = 0 if seed % 2 else 8
    counters._BUFFER_ROWS = 3 if seed % 2 else 1024
    journal._MIN_LOG_EVENTS = 5 if seed % 3 else 4096
    how = ("auto", "auto", "lt-tree", "auto", "counting")[seed % 5]
    try:
        if seed % 20 == 0:
            with tempfile.TemporaryDirectory() as folder:
                run_program(_FIRST + seed, n_steps=50, folder=Path(folder))
            return Outcome(notes=("with durable state",))
        counting = how == "counting"
        run_program(_FIRST + seed, n_steps=50, index="auto" if counting else how, counting=counting)
    except AssertionError as error:
        return Outcome(failure=str(error))
    return Outcome(notes=(how,))
