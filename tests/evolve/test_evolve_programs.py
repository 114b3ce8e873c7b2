"""Evolve equals discovery from scratch after every step of random sequences of changes, each with restarts.

CI runs 500 sequences; NAYSAY_SOAK multiplies that.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from evolve_machine import run_program

from naysay.evolve import batch_proof, selective

DOSE = max(int(os.environ.get("NAYSAY_SOAK", "0")), 1)


@pytest.mark.parametrize("part", range(6))
def test_programs_of_all_pairs(part: int) -> None:
    """Two in five of them with an error."""
    for seed in range(40 * DOSE):
        run_program(1_000_000 * part + seed)


@pytest.mark.parametrize("part", range(4))
def test_programs_of_the_selective_method(part: int) -> None:
    for seed in range(40 * DOSE):
        run_program(1_000_000 * part + seed, method="selective")


@pytest.mark.parametrize("part", range(2))
def test_programs_of_the_selective_method_that_proves_batches(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every batch, however small, only the pairs that agree on settled sets are compared."""
    monkeypatch.setattr(selective, "_ROWS_PER_SET", 0)
    monkeypatch.setattr(selective, "_ROWS_PER_RULE", 0)
    monkeypatch.setattr(batch_proof, "_FIRST_ROWS", part)
    for seed in range(60 * DOSE):
        run_program(2_000_000 + 1_000_000 * part + seed, method="selective")


@pytest.mark.parametrize("part", range(2))
def test_programs_of_incdc(part: int) -> None:
    for seed in range(42 * DOSE):
        run_program(1_000_000 * part + seed, method="incdc")


@pytest.mark.parametrize("method", ["all-pairs", "selective", "incdc"])
def test_programs_with_a_store(method: str, tmp_path: Path) -> None:
    for seed in range(6 * DOSE):
        run_program(seed + 500_000, tmp_path, method)


def test_a_pair_is_forgotten_with_its_mirror() -> None:
    """A row was deleted that represented one edge, and another its mirror: the search for rules never ended."""
    run_program(500_002, method="selective")
