"""Evolve equals discovery from scratch after every step of random programs.

CI runs 140 programs; NAYSAY_SOAK multiplies that (8 makes it more than 1,000).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from evolve_machine import run_program

from naysay.errors import UsageError

N_PROGRAMS = max(int(os.environ.get("NAYSAY_SOAK", "0")), 1)


@pytest.mark.parametrize("part", range(6))
def test_programs_in_memory(part: int) -> None:
    for seed in range(20 * N_PROGRAMS):
        run_program(1_000_000 * part + seed)


def test_programs_with_restarts(tmp_path: Path) -> None:
    for seed in range(20 * N_PROGRAMS):
        run_program(seed + 500_000, tmp_path, "all-pairs")


def test_the_selective_method_is_refused_until_it_always_ends() -> None:
    with pytest.raises(UsageError, match="not ready"):
        run_program(500_002, method="selective")
