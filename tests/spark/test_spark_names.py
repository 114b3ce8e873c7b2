"""Columns and constants that look like SQL or code, on Spark; `scripts/soak names` tests all of them."""

from __future__ import annotations

from typing import Any

import pytest

from naysay.spark.expressions import own
from soak.names import pair_of_names, spark_fault


@pytest.mark.parametrize("seed", [32, 87, 121, 190])
def test_names_mean_themselves(spark: Any, seed: int) -> None:
    assert spark_fault(spark, *pair_of_names(seed), plans=True) == ""


@pytest.mark.parametrize(
    "text", ["a'b'", 'a"b"', "`a b`", "`a``b`", "a.b", "a;b", "a --b", "a /* b */", "a\nb", "a\\b", "ä", "a[0]", "{a}"]
)
def test_an_expression_of_our_own_refuses_what_a_name_or_value_of_the_user_might_bring(text: str) -> None:
    with pytest.raises(AssertionError, match="must not contain"):
        own(text)


def test_an_expression_of_our_own_may_have_names_numbers_and_functions() -> None:
    text = "sum(if(c0 >= -1, shiftright(c1, 16) * (c2 & 65535) - `values`, null)) as `left`"
    assert own(text) == text
