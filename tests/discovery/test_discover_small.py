"""Rule sets of small random tables compared with trying every possible rule."""

from __future__ import annotations

import os

import pytest
from small_tables import METHODS, check, check_method

# Each for three errors; ten times as many in the soak profile, and any number with `scripts/soak discovery`; only a few
# if kernels are not compiled.
N_TABLES = {"soak": 50_000, "mutation": 500}.get(os.environ.get("NAYSAY_PROFILE", ""), 2_000)


@pytest.mark.parametrize("part", range(10))
def test_same_rules_as_trying_all(part: int) -> None:
    for seed in range(part, N_TABLES, 10):
        assert check(seed) == ""


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_the_rules_of_trying_all(method: str) -> None:
    for seed in range(0, N_TABLES, 25):
        assert check_method(seed, method) == ""


@pytest.mark.parametrize("method", METHODS)
def test_larger_tables(method: str) -> None:
    for seed in range(METHODS.index(method), N_TABLES // 50, len(METHODS)):
        assert check(seed, large=True) == ""
        assert check_method(seed, method, large=True) == ""
