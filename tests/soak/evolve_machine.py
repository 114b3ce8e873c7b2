"""Sequences of inserts, deletes, updates, restarts and refusals; each step compared with discovery from scratch."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "evolve"))

from evolve_machine import run_program

from soak.row import Outcome

# The seeds that the tests use are below.
_FIRST = 100_000_000
_METHODS = ("all-pairs", "selective", "all-pairs", "incdc")


def trial(seed: int) -> Outcome:
    """Every 25th sequence keeps its state in files; every tenth is long."""
    method = _METHODS[seed % len(_METHODS)]
    n_steps = 25 if seed % 10 == 0 else 6
    try:
        if seed % 25 == 0:
            with tempfile.TemporaryDirectory() as folder:
                run_program(_FIRST + seed, Path(folder), method, n_steps=n_steps)
        else:
            run_program(_FIRST + seed, method=method, n_steps=n_steps)
    except AssertionError as error:
        return Outcome(failure=f"{method}\n{error}")
    return Outcome(notes=(method,))
