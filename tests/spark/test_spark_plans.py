"""No plan contains a cartesian product or a nested-loop join, none collects data, and the session stays unchanged."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pyarrow as pa
import pytest
from tables import to_spark

from naysay.detect.request import CheckOptions
from naysay.detect.spark.engine import SparkEngine
from naysay.detect.spark.key_groups import Sizes
from naysay.rule import parse

RULES = [
    "key(a, b)",
    "a -> b",
    "not(t.a != s.a)",
    "not(t.a < 3 and t.b > 2)",
    "not(t.a == s.a and t.b != s.b and t.c != s.c)",
    "not(t.a == s.a and t.b < s.b)",
    "not(t.a == s.b and t.c != s.c)",
    "not(t.a == s.a and t.b < s.b and t.c > s.c)",
    "not(t.a < s.a and t.b > s.b)",
    "not(t.a < s.b and t.b > s.a)",
    "not(t.a <= s.a and t.b > s.b and t.c <= s.c)",
    "not(t.a == s.a and t.b < s.b and t.c != s.c)",
    "not(t.a == 1 and s.b == 2 and t.c < s.c)",
]
# In the last, groups of more than seven rows are giant: those of eight rows with the same a, and the one of all rows.
SIZES = (Sizes(), Sizes(rows_a_task=6), Sizes(rows_a_task=6, giant=7, n_strips=3))


@pytest.fixture
def plans(spark: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The plans of everything that is run, as text."""
    from pyspark.sql.classic.dataframe import DataFrame

    seen: list[str] = []

    def watched(name: str) -> Any:
        run = getattr(DataFrame, name)

        def run_and_note(self: Any, *args: Any) -> Any:
            seen.append(plan_text(self))
            return run(self, *args)

        return run_and_note

    for name in ("toArrow", "collect", "count"):
        monkeypatch.setattr(DataFrame, name, watched(name))
    return seen


def plan_text(data: Any) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as text:
        data.explain("simple")
    return text.getvalue()


def small_table(spark: Any) -> Any:
    numbers = list(range(24))
    columns = {"a": [n % 3 for n in numbers], "b": [n % 5 for n in numbers], "c": [n * 7 % 11 for n in numbers]}
    return to_spark(spark, pa.table(columns))


@pytest.mark.parametrize("sizes", SIZES)
def test_no_pair_of_rows_is_formed_by_spark(spark: Any, plans: list[str], sizes: Sizes) -> None:
    data = small_table(spark)
    rules = [parse(text) for text in RULES]
    SparkEngine(data, sizes).count(rules, CheckOptions())
    SparkEngine(data, sizes).check(rules, CheckOptions(sample=2))
    for rule in rules[:: 2 if sizes is SIZES[1] else 5]:
        lists = [
            SparkEngine(data, sizes).violations(rule, CheckOptions(), limit=3),
            SparkEngine(data, sizes).split([rule], CheckOptions())[1],
        ]
        plans.extend(map(plan_text, lists))
    assert len(plans) > 10
    for text in plans:
        assert "CartesianProduct" not in text, text
        assert "NestedLoopJoin" not in text, text


def test_the_session_stays_as_it_is(spark: Any) -> None:
    data = small_table(spark)
    before = dict(spark.conf.getAll)
    SparkEngine(data, SIZES[2]).check([parse(text) for text in RULES], CheckOptions())
    assert dict(spark.conf.getAll) == before
    assert not data.is_cached
    assert spark.sparkContext._jsc.getPersistentRDDs().isEmpty()
    assert spark.range(3).count() == 3


def test_one_job_for_rules_that_grouping_answers(spark: Any, plans: list[str]) -> None:
    data = small_table(spark)
    SparkEngine(data, SIZES[1]).count([parse(text) for text in RULES[:7]], CheckOptions())
    assert len(plans) == 1
    assert "MapInArrow" not in plans[0]


def test_rules_with_one_key_share_a_shuffle(spark: Any, plans: list[str]) -> None:
    data = small_table(spark)
    rules = [parse(f"not(t.a == s.a and t.b {one} s.b and t.c {two} s.c)") for one in "<>" for two in "<>"]
    SparkEngine(data, SIZES[1]).count(rules, CheckOptions())
    # The sizes of the groups, and the counts in them.
    assert len(plans) == 2
    assert plans[1].count("REPARTITION_BY_NUM") == 1
