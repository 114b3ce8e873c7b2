"""Evolve equals discovery from scratch after every step of random programs.

CI runs 180 programs; NAYSAY_SOAK multiplies that (6 makes it more than 1,000).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from evolve_machine import run_program

N_PROGRAMS = max(int(os.environ.get("NAYSAY_SOAK", "0")), 1)


@pytest.mark.parametrize("part", range(6))
def test_programs_in_memory(part: int) -> None:
    for seed in range(20 * N_PROGRAMS):
        run_program(1_000_000 * part + seed)


@pytest.mark.parametrize("method", ["all-pairs", "selective"])
def test_programs_with_restarts(method: str, tmp_path: Path) -> None:
    for seed in range(10 * N_PROGRAMS):
        run_program(seed + 500_000, tmp_path, method)


@pytest.mark.parametrize("part", range(2))
def test_programs_of_the_selective_method(part: int) -> None:
    for seed in range(20 * N_PROGRAMS):
        run_program(1_000_000 * part + seed, method="selective")
