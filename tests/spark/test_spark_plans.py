"""No plan contains a cartesian product or a nested-loop join, none collects data, and the session stays unchanged."""

from __future__ import annotations

import contextlib
import io
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tables import to_spark

from naysay.detect.request import CheckOptions
from naysay.detect.spark.conflicts import conflict_values
from naysay.detect.spark.engine import SparkEngine
from naysay.detect.spark.key_groups import MeasuredKeys, Sizes, key_sets
from naysay.detect.spark.plan import plan_rules
from naysay.detect.spark.sample import SampleRequest, samples
from naysay.rule import Nulls, parse
from naysay.spark.expressions import Comparisons
from naysay.spark.frame import Frame
from naysay.spark.identity import identity_of

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
    seen: list[str] = []
    note_runs(monkeypatch, lambda data: seen.append(plan_text(data)))
    return seen


def note_runs(monkeypatch: pytest.MonkeyPatch, note: Callable[[Any], None]) -> None:
    """Call `note` with each DataFrame before it is run."""
    from pyspark.sql.classic.dataframe import DataFrame

    def watched(name: str) -> Any:
        run = getattr(DataFrame, name)

        def note_and_run(self: Any, *args: Any) -> Any:
            note(self)
            return run(self, *args)

        return note_and_run

    for name in ("toArrow", "collect", "count"):
        monkeypatch.setattr(DataFrame, name, watched(name))


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
    before = dict(spark.conf.getAll)
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
    # The session stays as it is.
    assert dict(spark.conf.getAll) == before
    assert not data.is_cached
    assert spark.sparkContext._jsc.getPersistentRDDs().isEmpty()


@pytest.fixture
def java_calls(spark: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What PySpark sends to Java, with its notes on where columns come from, but without what the collector frees."""
    client = type(spark._jvm._gateway_client)
    send, seen = client.send_command, []

    def send_and_note(self: Any, command: str, *args: Any, **given: Any) -> Any:
        if not command.startswith("m\n"):
            seen.append(command)
        return send(self, command, *args, **given)

    monkeypatch.setattr("pyspark.errors.utils._enable_debugging_cache", True, raising=False)
    monkeypatch.setattr(client, "send_command", send_and_note)
    return seen


GROUPED = [
    ("key(a, b)", "select sum(c * (c - 1)) from (select count(*) c from {} group by a, b)", 95, "ab"),
    (
        "a, b -> c",
        "select sum(n * n - squares) from (select sum(c) n, sum(c * c) squares from "
        "(select a, b, c as v, count(*) c from {} group by a, b, c) group by a, b)",
        145,
        "abc",
    ),
]


@pytest.mark.parametrize(("rule", "sql", "most_calls", "columns"), GROUPED)
def test_counting_by_grouping_is_as_lean_as_sql(
    spark: Any, plans: list[str], java_calls: list[str], rule: str, sql: str, most_calls: int, columns: str
) -> None:
    """The same steps and shuffles as a query by hand, one job, and few calls of Java, which each take their time."""
    data = small_table(spark)
    java_calls.clear()
    found = SparkEngine(data).count([parse(rule)], CheckOptions())
    assert 10 < len(java_calls) <= most_calls
    (ours,) = plans
    data.createOrReplaceTempView("lean")
    present = " and ".join(f"{name} is not null" for name in columns)
    by_hand = spark.sql(sql.format(f"(select * from lean where {present})"))
    assert [row[0] for row in by_hand.collect()] == found
    spark.catalog.dropTempView("lean")
    assert steps(ours) == steps(plans[1])


def steps(plan: str) -> Counter[str]:
    """The operators of a plan, but for those that only select and rename columns."""
    return Counter(re.findall(r"^[ :+-]*([A-Z]\w+)", plan, re.MULTILINE)) - Counter({"Project": 100})


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


def test_spark_infers_little_from_the_conditions_of_many_rules(
    spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """From a condition about many columns it would infer one for each set of columns that have a second name."""
    n_columns = 10
    # Not a table in the memory of the driver, which Spark filters while it plans.
    columns = [F.expr(f"if(id = {place}, null, id * {place + 2} % 7) as x{place}") for place in range(n_columns)]
    spark.range(24).select(*columns).write.parquet(str(tmp_path / "wide"))
    frame = Frame.of(spark.read.parquet(str(tmp_path / "wide")))
    nexts = [(f"x{place}", f"x{place + 1}") for place in range(1, n_columns - 1)]

    def planned(texts: list[str]) -> Any:
        return plan_rules(Comparisons(frame, Nulls.SQL), [parse(text) for text in texts])

    of_samples: list[int] = []
    note_runs(monkeypatch, lambda data: of_samples.append(most_constraints(data._jdf.queryExecution().optimizedPlan())))
    dependencies = planned([f"{one} -> {other}" for one, other in nexts])
    samples(identity_of(frame, ["x0"]), [SampleRequest(plan, (1, 2)) for plan in dependencies], 2)
    orders = planned([f"not(t.x0 == s.x0 and t.{one} < s.{one} and t.{other} > s.{other})" for one, other in nexts])
    (keys,) = key_sets(orders)
    # With a group that has a task of its own, which takes a join.
    measured = MeasuredKeys(keys, Sizes(), 1_000_000, 150_000, large={5: 150_000}, n_points=900_000)
    values = conflict_values(measured, None, blame=True)
    assert 0 < max(of_samples) < 100
    assert 0 < most_constraints(values._jdf.queryExecution().optimizedPlan()) < 100


def most_constraints(plan: Any) -> int:
    """The number of constraints at the step of a plan of Java that has the most."""
    children = plan.children()
    below = [most_constraints(children.apply(place)) for place in range(children.size())]
    return max([plan.validConstraints().size(), *below])
