"""The smallest number of rows to remove is exact whenever `explain` says so, with any filters on the two rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

import mirrors
import naive
import naysay
from cases import rows_of
from naysay.plan.join import join_of
from naysay.plan.shape import plan_of
from naysay.rule import Nulls, parse


def promises_exact(rule: str) -> bool:
    return plan_of(join_of(parse(rule))).remove.startswith("exact")


@pytest.mark.parametrize(("case", "text"), mirrors.rules().items(), ids=map(" / ".join, mirrors.rules()))
def test_explain_promises_what_check_finds(case: tuple[str, str], text: str) -> None:
    rule = parse(text)
    for seed in range(12):
        table = mirrors.table(seed)
        for nulls in Nulls:
            (result,) = naysay.check(table, text, nulls=nulls.value)
            fewest = naive.rows_to_remove(rows_of(table), rule, nulls)
            removal = result.rows_to_remove
            assert result.violations == naive.count(rows_of(table), rule, nulls)
            assert removal.least <= fewest <= removal.most, (seed, nulls)
            if promises_exact(text):
                assert removal.is_exact, (seed, nulls, removal)


@pytest.mark.parametrize(("case", "text"), mirrors.rules().items(), ids=map(" / ".join, mirrors.rules()))
def test_rules_whose_rows_are_interchangeable_are_exact(case: tuple[str, str], text: str) -> None:
    exact_shape = plan_of(join_of(parse(text))).name in ("key", "dependency", "one order", "two orders")
    assert join_of(parse(text)).is_mirror == mirrors.is_mirror(*case)
    assert promises_exact(text) == (mirrors.is_mirror(*case) and exact_shape)


def test_the_case_that_three_definitions_answered_in_three_ways() -> None:
    text = "not(t.a == s.a and t.b != s.b and t.s == 'x' and s.s == 'x')"
    table = pa.table({"a": [1] * 6, "b": [1, 1, 1, 2, 3, 4], "s": ["x", "x", "x", "x", "x", "y"]})
    (result,) = naysay.check(table, text)
    assert promises_exact(text)
    assert str(result.rows_to_remove) == "2"
