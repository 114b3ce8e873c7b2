"""The in-process engine compared with the brute-force oracle, on random tables and rules."""

from __future__ import annotations

import os

import pytest

import differential
from naysay.detect.strategy import NAMES

# Number of cases; the long run is `scripts/soak answers`.
N_CASES = int(os.environ.get("NAYSAY_CASES", "8000"))
N_PARTS = 4


@pytest.mark.parametrize("part", range(N_PARTS))
def test_every_answer_equals_the_oracle(part: int) -> None:
    seeds = iter(range(part * N_CASES // N_PARTS, (part + 1) * N_CASES // N_PARTS))
    assert next(differential.failures(seeds), None) is None


@pytest.mark.parametrize("strategy", [name for name in NAMES if name != "auto"])
def test_the_papers_strategies_equal_the_oracle(strategy: str) -> None:
    seeds = iter(range(10_000_000, 10_000_000 + N_CASES // 10))
    assert next(differential.failures(seeds, strategy), None) is None
