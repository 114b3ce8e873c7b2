"""Columns and constants that look like SQL or code, on Spark; `scripts/soak names` tests all of them."""

from __future__ import annotations

from typing import Any

import pytest

from soak.names import pair_of_names, spark_fault


@pytest.mark.parametrize("seed", [32, 87, 121, 190])
def test_names_mean_themselves(spark: Any, seed: int) -> None:
    assert spark_fault(spark, *pair_of_names(seed), plans=True) == ""
