"""Discovery on Spark gives the same rules and counts as in-process, for any blocks."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from tables import to_spark

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "discovery"))

from naive_discover import either_way, minimal_rules
from small_tables import comparisons_of, naive_rule

import naysay
from naysay.api import _Witnesses
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.space import SCOPES, Scope, build_space
from naysay.discovery.spark.engine import Blocks, discover, space_of
from naysay.discovery.spark.prover import HASH, same_order
from naysay.discovery.spark.spread import MeasuredSet, SpreadSizes
from naysay.discovery.spark.worker import task_of
from naysay.errors import ResourceError, TableError, UsageError
from naysay.rule import canonical
from naysay.rule.model import Nulls
from naysay.spark.frame import Frame
from naysay.table import from_frame


class Tiny(Blocks):
    """Blocks of a few rows, also for small tables."""

    def count(self, n_rows: int) -> int:
        return -(-n_rows // 7)


def random_table(rng: random.Random, n_rows: int) -> pa.Table:
    def some(values: list[Any], share: float = 0.15) -> list[Any]:
        return [None if rng.random() < share else rng.choice(values) for _ in range(n_rows)]

    return pa.table(
        {
            "a.b": pa.array(some([1, 2, 3, 4]), pa.int32()),
            "c": pa.array(some([2, 3, 4, 5], 0.0), pa.int64()),
            "text": pa.array(some(["x", "y", "é", ""]), pa.string()),
            "float": pa.array(some([0.0, -0.0, float("nan"), 1.5]), pa.float64()),
            "flag": pa.array(some([True, False], 0.0), pa.bool_()),
        }
    )


@pytest.mark.parametrize(
    ("seed", "nulls", "error", "scope"),
    [
        (1, Nulls.SQL, 0.0, Scope()),
        (2, Nulls.EQUAL, 0.0, Scope(cross=False)),
        (3, Nulls.SQL, 0.03, Scope(within_row=True)),
    ],
)
def test_same_rules_as_in_process(spark: Any, seed: int, nulls: Nulls, error: float, scope: Scope) -> None:
    table = random_table(random.Random(seed), 40)
    # Equal rows become one with a weight.
    table = pa.concat_tables([table, table.slice(0, 6)])
    expected = naysay.discover(table, error=error, nulls=nulls, space=scope, max_predicates=4)
    found = discover(to_spark(spark, table), DiscoverRequest(error, nulls=nulls, space=scope, max_predicates=4), Tiny())
    assert found.engine == "spark"
    assert found.n_rows == 46
    assert found.space.comparisons == expected.space.comparisons
    assert [canonical(rule) for rule in found.rules] == [canonical(rule) for rule in expected.rules]
    near = {canonical(finding.rule): finding.tested.near for finding in expected.top(200)}
    for finding in found.findings:
        assert near.get(canonical(finding.rule), finding.tested.near) == finding.tested.near


@pytest.mark.parametrize(("seed", "nulls"), [(0, Nulls.SQL), (1, Nulls.SQL), (2, Nulls.EQUAL), (3, Nulls.EQUAL)])
def test_same_order_as_in_process(spark: Any, seed: int, nulls: Nulls) -> None:
    table = random_table(random.Random(seed), 60)
    error = 0.02 if seed % 2 else 0.0
    space = ("naysay", "hydra", "incdc", "naysay")[seed]
    expected = naysay.discover(table, error=error, nulls=nulls, space=space, max_predicates=3)
    found = discover(to_spark(spark, table), DiscoverRequest(error, nulls=nulls, space=space, max_predicates=3), Tiny())
    assert found.space.comparisons == expected.space.comparisons
    assert list(found.rules) == list(expected.rules)
    assert found.best == expected.best
    assert [finding.tested for finding in found.findings] == [finding.tested for finding in expected.findings]


@pytest.mark.parametrize("method", ["auto", "selective", "hydra"])
def test_methods_that_look_at_few_pairs(spark: Any, method: str) -> None:
    table = random_table(random.Random(7), 60)
    table = pa.concat_tables([table, table.slice(0, 6)])
    expected = naysay.discover(table, nulls="equal", max_predicates=4)
    found = discover(
        to_spark(spark, table),
        DiscoverRequest(nulls=Nulls.EQUAL, max_predicates=4, method=method),
        Blocks(quick_rows=5),
    )
    assert found.method == method or method == "auto"
    assert [canonical(rule) for rule in found.rules] == [canonical(rule) for rule in expected.rules]
    assert found.reason == expected.reason


@pytest.mark.parametrize("method", ["all-pairs", "hydra"])
def test_space_of_hydra(spark: Any, method: str) -> None:
    """Predicates on one row, orders between columns whose averages are alike, and only equality if they are not."""
    rng = random.Random(3)
    low = [rng.randrange(1, 9) for _ in range(30)]
    table = pa.table(
        {
            "low": low,
            "high.price": [value + rng.randrange(3) for value in low],
            "far": [rng.choice([rng.randrange(1, 9), 5000]) for _ in range(30)],
            "ticker": [rng.choice(["x", "y", None]) for _ in range(30)],
        }
    )
    expected = naysay.discover(table, space="hydra", method=method, max_predicates=3, error=0)
    found = naysay.discover(to_spark(spark, table), space="hydra", method=method, max_predicates=3, error=0)
    assert found.engine == "spark"
    assert found.method == method
    assert found.space.comparisons == expected.space.comparisons
    across = [pair for pair in found.space.comparisons if pair.across]
    assert {pair.within_row for pair in across} == {True, False}
    assert {pair.ordered for pair in across if not pair.within_row} == {True, False}
    assert list(found.rules) == list(expected.rules)
    assert any(p.left.row is p.right.row for rule in found.rules for p in rule.predicates)


TINY = SpreadSizes(sample=12, rows_a_task=20, giant=24)


def typed_table(rng: random.Random, n_rows: int) -> pa.Table:
    """Text, decimals, dates and times, with nulls, and two columns of which one comes first."""
    days = [date(2024, 1, 1) + timedelta(days=rng.randrange(6)) for _ in range(n_rows)]
    return pa.table(
        {
            "name": pa.array([rng.choice(["x", "y ", "é", "", None]) for _ in range(n_rows)], pa.string()),
            "price": pa.array(
                [rng.choice([Decimal("1.10"), Decimal("2.00"), None]) for _ in days], pa.decimal128(9, 2)
            ),
            "start": pa.array(days, pa.date32()),
            "end": pa.array([day + timedelta(days=rng.randrange(4)) for day in days], pa.date32()),
            "a.b": pa.array([rng.randrange(9) for _ in days], pa.int16()),
        }
    )


def at_once(table: pa.Table, sizes: SpreadSizes, spark: Any, **options: Any) -> Any:
    request = DiscoverRequest(method="selective", **options)
    return discover(to_spark(spark, table), request, Blocks(spread=sizes))


@pytest.mark.parametrize(
    ("seed", "nulls", "space", "make"),
    [
        (1, Nulls.SQL, Scope(), random_table),
        (3, Nulls.EQUAL, Scope(within_row=True), random_table),
        (4, Nulls.SQL, Scope(both_ways=False), typed_table),
    ],
)
def test_rows_that_could_break_a_rule_meet(spark: Any, seed: int, nulls: Nulls, space: Scope, make: Any) -> None:
    """Exact rules from tasks none of which has all rows: groups by hash, groups of their own, and groups in blocks."""
    table = make(random.Random(seed), 45)
    table = pa.concat_tables([table, table.slice(0, 6)])
    expected = naysay.discover(table, nulls=nulls, space=space, max_predicates=3, error=0)
    found = at_once(table, TINY, spark, nulls=nulls, space=space, max_predicates=3)
    assert (found.method, found.partial, found.reason) == ("selective", expected.partial, expected.reason)
    assert [canonical(rule) for rule in found.rules] == [canonical(rule) for rule in expected.rules]
    assert len(found.rules)


def test_tables_in_which_little_or_everything_holds(spark: Any) -> None:
    """All rows equal, two rows, a constant and an empty column, columns that ascend together, and no rule at all."""
    tables = [
        (Nulls.SQL, pa.table({"a": [1] * 30, "b": ["x"] * 30})),
        (Nulls.EQUAL, pa.table({"a": [1, 2], "b": [None, 3]})),
        (Nulls.EQUAL, pa.table({"a": list(range(30)), "b": [None] * 29 + [1], "c": [0] * 30})),
        (
            Nulls.SQL,
            pa.table({"x": list(range(30)), "y": [x + x % 2 for x in range(30)], "z": [-x for x in range(30)]}),
        ),
        (Nulls.SQL, pa.Table.from_pylist([{"a": a, "b": b} for a in range(6) for b in range(6)] * 2)),
    ]
    for nulls, table in tables:
        found = at_once(table, TINY, spark, nulls=nulls, cross=False)
        comparisons = comparisons_of(found.space)
        expected = minimal_rules(table.to_pylist(), comparisons, nulls_equal=nulls is Nulls.EQUAL)
        assert either_way(map(naive_rule, found.rules)) == either_way(expected), table
    assert not len(found.rules)


@pytest.mark.parametrize("nulls", list(Nulls))
def test_rules_without_equality_are_verified_by_counting_if_blocks_are_many(spark: Any, nulls: Nulls) -> None:
    """Rules that the sample suggests and one pair, or one row, of the table breaks."""
    low = list(range(40))
    table = pa.table(
        {
            "low": low,
            "high": [place - 1 if place == 37 else place + 1 for place in low],
            "odd.name": [None if place == 33 else -place // 2 for place in low],
        }
    )
    options: dict[str, Any] = {"nulls": nulls, "space": Scope(cross=False, within_row=True, share=0.0)}
    options["max_predicates"] = 2
    expected = naysay.discover(table, error=0, **options)
    data, sizes = to_spark(spark, table), replace(TINY, most_blocks=1)
    asked = []

    def witnesses(rules: Any, *given: Any) -> Any:
        asked.extend(rules)
        return _Witnesses(data, nulls)(rules, *given)

    request = DiscoverRequest(method="selective", **options)
    found = discover(data, request, Blocks(spread=sizes), witnesses=witnesses)
    assert [canonical(rule) for rule in found.rules] == [canonical(rule) for rule in expected.rules]
    assert {naysay.count(table, rule, nulls=nulls) > 0 for rule in asked} == {True, False}
    assert {rule.is_one_row for rule in asked} == {True, False}


def test_a_time_limit_returns_rules_that_hold(spark: Any) -> None:
    table = random_table(random.Random(5), 60)
    found = at_once(table, TINY, spark, max_seconds=1.0)
    assert all(naysay.count(table, rule) == 0 for rule in found.rules)
    shorter = naysay.discover(table, max_predicates=max(1, found.complete_up_to), error=0)
    if found.complete_up_to:
        assert {canonical(rule) for rule in shorter.rules} <= {canonical(rule) for rule in found.rules}


def test_groups_have_tasks_by_their_size() -> None:
    """Forty rows are five blocks, every two of which meet; six have a task of their own; the others share two."""
    measured = MeasuredSet(1, SpreadSizes(rows_a_task=10, giant=16), 60, {7: 40, 9: 6})
    assert measured.places(100) == ({7: (100, 5), 9: (110, 1)}, 111)
    assert (measured.n_hashed, measured.n_tasks, measured.n_records) == (2, 13, 60 + 3 * 40)


def test_more_tasks_than_spark_can_run_are_refused(spark: Any) -> None:
    table = pa.table({"x": range(300), "y": [-x for x in range(300)]})
    with pytest.raises(ResourceError, match=r"no column for equality .* 300 distinct rows.* on a sample"):
        at_once(table, SpreadSizes(sample=12, rows_a_task=10, giant=16, most_tasks=500), spark)


def test_hydra_is_refused_where_one_task_could_not_hold_the_rows(spark: Any) -> None:
    table = pa.table({"x": range(30)})
    with pytest.raises(ResourceError, match="hydra needs all 30 distinct rows in one task, which takes up to 24"):
        discover(to_spark(spark, table), DiscoverRequest(method="hydra"), Blocks(spread=TINY))


def test_a_row_that_no_task_has_seen_is_an_error(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MeasuredSet, "n_records", 7)
    with pytest.raises(TableError, match="make 7: the DataFrame is not the same"):
        at_once(random_table(random.Random(5), 60), TINY, spark, max_predicates=2)


def test_order_of_rows_does_not_depend_on_how_they_came() -> None:
    rows = [{HASH: hashed, "a": a} for hashed, a in ((3, "x"), (1, "y"), (3, "w"), (2, None), (3, None))]
    orders = []
    for shuffled in ([0, 1, 2, 3, 4], [4, 2, 0, 1, 3], [2, 4, 3, 1, 0]):
        table = pa.Table.from_pylist([rows[place] for place in shuffled])
        orders.append(table.take(same_order(table)).to_pylist())
    assert orders[0] == orders[1] == orders[2]
    assert [row[HASH] for row in orders[0]] == [1, 2, 3, 3, 3]


def test_by_name_and_with_limits(spark: Any) -> None:
    table = pa.table({"zip": [1, 1, 2, 2, 3], "city": ["Ulm", "Ulm", "Bonn", "Bonn", "Kiel"], "n": [1, 2, 3, 4, 5]})
    data = to_spark(spark, table)
    found = naysay.discover(data, columns=["zip", "city"])
    assert sorted(naysay.render(rule, short=True) for rule in found.best) == ["city -> zip", "zip -> city"]
    assert naysay.discover(data, max_rules=1, cross=False).partial
    for option, value in {"device": "cuda", "threads": 2, "memory": "4G"}.items():
        with pytest.raises(UsageError, match=f"{option}.*on Spark"):
            naysay.discover(data, **{option: value})
    with pytest.raises(naysay.NaysayError, match="nope"):
        naysay.discover(data, columns=["nope"])


def test_time_that_is_up_stops_the_tasks(spark: Any) -> None:
    table = random_table(random.Random(5), 60)
    late = discover(to_spark(spark, table), DiscoverRequest(max_seconds=1e-9))
    assert late.partial
    assert late.reason == "time limit"
    # Whatever was known by then holds.
    assert all(naysay.count(table, rule) == 0 for rule in late.rules)
    # Nothing of it lingers in the session.
    assert naysay.discover(to_spark(spark, table), max_predicates=2).reason == "limit on predicates"


def test_tables_with_little_in_them(spark: Any) -> None:
    nothing = spark.createDataFrame([], "a int, b string")
    assert len(naysay.discover(nothing).rules) == 0
    assert "fewer than two rows" in naysay.discover(nothing).notes[0]
    maps = spark.createDataFrame([({"x": 1}, 1), ({"x": 2}, 1)], "m map<string,int>, a int")
    found = naysay.discover(maps)
    assert found.space.names == ("a",)
    assert found.notes
    with pytest.raises(TableError, match="'m'"):
        naysay.discover(maps, columns=["m"])


def test_pairs_of_blocks_have_numbers_of_their_own() -> None:
    for n_blocks in (1, 2, 5, 9):
        numbers = [task_of(low, high, n_blocks) for low in range(n_blocks) for high in range(low, n_blocks)]
        assert numbers == list(range(n_blocks * (n_blocks + 1) // 2))


def test_blocks_follow_rows_and_tasks() -> None:
    assert Blocks().count(100) == 1
    assert Blocks(rows=1000, tasks=1).count(100_000) == 100
    assert Blocks(rows=10**6, tasks=16).count(100_000) == 6


def test_command_on_spark(spark: Any, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from naysay.cli.group import naysay as command

    # Enough rows that the rule does not hold by chance: otherwise it would be written as a comment.
    table = pa.table({"zip": [1, 2, 3, 4, 5] * 40, "city": ["Ulm", "Bonn", "Kiel", "Jena", "Hof"] * 40})
    path, rules = tmp_path / "people.csv", tmp_path / "people.rules"
    pyarrow.csv.write_csv(table, path)
    done = CliRunner().invoke(command, ["discover", str(path), "--engine", "spark", "--out", str(rules)])
    assert done.exit_code == 0, done.output
    assert "spark engine" in " ".join(done.output.split())
    assert "zip -> city" in rules.read_text(encoding="utf-8")
    checked = CliRunner().invoke(command, ["check", str(path), "--engine", "spark", "--rules", str(rules), "-q"])
    assert checked.exit_code == 0


def test_the_space_of_incdc_is_that_of_its_paper(spark: Any, shared: Path) -> None:
    """60 predicates for Adult, 6 of them between two columns (table 10), as in-process."""
    table = pyarrow.csv.read_csv(shared / "data" / "adult" / "adult.csv").slice(0, 2000)
    found = space_of(Frame.of(to_spark(spark, table)), None, SCOPES["incdc"])
    assert found.n_predicates == 60
    assert sum(len(pair.ops) for pair in found.comparisons if pair.across) == 6
    assert found.comparisons == build_space(from_frame(table), None, SCOPES["incdc"]).comparisons


def test_the_method_incdc_is_refused_on_spark(spark: Any, tmp_path: Path) -> None:
    frame = to_spark(spark, pa.table({"id": [1, 2], "a": [1, 1]}))
    with pytest.raises(UsageError, match="method 'incdc' applies to frames in memory; on Spark it is 'all-pairs'"):
        naysay.Evolver(frame, key="id", method="incdc", space="incdc", state=tmp_path / "state")
