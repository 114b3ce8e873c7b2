"""The predicate spaces of the papers, by the sizes that the papers give, and the rules found in them."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from naive_discover import either_way, minimal_rules
from small_tables import comparisons_of, naive_rule

from naysay.discovery.engine import discover
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.space import SCOPES, Scope, build_space
from naysay.rule.model import Nulls, Op, Row
from naysay.table import from_frame


def stock(n_rows: int = 400) -> pa.Table:
    """Seven columns as Hydra's Stock has them: a day, a ticker, four prices and a volume."""
    rng = random.Random(5)
    prices = [[rng.randrange(1000, 1400) / 100 for _ in range(n_rows)] for _ in range(4)]
    return pa.table(
        {
            "Date": [f"2010-01-{row % 28 + 1:02}" for row in range(n_rows)],
            "Ticker": [rng.choice(["AAPL", "IBM", "MSFT"]) for _ in range(n_rows)],
            **dict(zip(("Open", "High", "Low", "Close"), prices, strict=True)),
            "Volume": [rng.randrange(10**6) / 4 + 2000 for _ in range(n_rows)],
        }
    )


def predicates_across(table: pa.Table, space: str) -> list[tuple[Op, bool]]:
    built = build_space(from_frame(table), None, SCOPES[space])
    return [
        (predicate.op, predicate.left.row is predicate.right.row)
        for predicate in built.predicates
        if predicate.left.name != predicate.right.name
    ]


def test_hydra_has_82_predicates_for_stock() -> None:
    built = build_space(from_frame(stock()), None, SCOPES["hydra"])
    assert built.n_predicates == 82
    across = predicates_across(stock(), "hydra")
    # Any two prices: = and != within a row, all six operators between two rows.
    assert len(across) == 6 * 8
    assert {op for op, within_row in across if within_row} == {Op.EQ, Op.NE}
    assert all(pair.left.row is Row.LEFT for pair in built.comparisons)


def test_hydra_orders_columns_whose_averages_are_alike_and_equates_any_that_share_values() -> None:
    near, far = list(range(100)), [value * 50 for value in range(80)] + list(range(20))
    across = predicates_across(pa.table({"near": near, "far": far}), "hydra")
    assert sorted(op.value for op, _ in across) == sorted(["==", "!="] * 2)


def test_papers_count_common_values() -> None:
    few = pa.table({"a": list(range(100)), "b": list(range(75, 175))})
    assert predicates_across(few, "incdc") == []
    assert predicates_across(few, "hydra") != []


@pytest.mark.parametrize(
    ("name", "n_predicates", "n_across"), [("adult/adult.csv", 60, 6), ("airport/airport_original.csv", 32, 6)]
)
def test_incdc_has_as_many_predicates_as_its_table_10_says(
    shared: Path, name: str, n_predicates: int, n_across: int
) -> None:
    options = pyarrow.csv.ReadOptions(encoding="latin-1")
    table = pyarrow.csv.read_csv(shared / "data" / name, read_options=options)
    assert build_space(from_frame(table), None, SCOPES["incdc"]).n_predicates == n_predicates
    assert len(predicates_across(table, "incdc")) == n_across


def test_hydra_adds_the_predicates_of_one_row_to_those_that_incdc_counts_for_adult(shared: Path) -> None:
    """Hydra's paper has no Adult; IncDC's has 60 predicates, 6 of them between the two columns that share values."""
    table = pyarrow.csv.read_csv(shared / "data" / "adult" / "adult.csv")
    assert build_space(from_frame(table), None, SCOPES["hydra"]).n_predicates == 60 + 2
    assert [op for op, within_row in predicates_across(table, "hydra") if within_row] == [Op.EQ, Op.NE]


@pytest.mark.parametrize("method", ["all-pairs", "selective", "hydra"])
@pytest.mark.parametrize("nulls", list(Nulls))
def test_rules_with_predicates_on_one_row(method: str, nulls: Nulls) -> None:
    for seed in range(6):
        rng = random.Random(seed)
        values = [1, 2, 3, None] if seed % 2 else [1, 2, 3]
        columns = {name: pa.array([rng.choice(values) for _ in range(8)], pa.int64()) for name in ("a", "b c")}
        # The third column and the equal rows are there for seeds of their own.
        if seed % 3 == 0:
            columns["text"] = pa.array([rng.choice(["x", "y", None]) for _ in range(8)])
        table = pa.table(columns)
        table = pa.concat_tables([table, table.slice(0, seed % 2)])
        built = build_space(from_frame(table), None, SCOPES["hydra"])
        assert any(pair.within_row for pair in built.comparisons)
        found = discover(from_frame(table), DiscoverRequest(space="hydra", nulls=nulls, method=method, threads=1))
        expected = minimal_rules(table.to_pylist(), comparisons_of(built), nulls_equal=nulls is Nulls.EQUAL)
        assert either_way(map(naive_rule, found.rules)) == either_way(rule for rule in expected if rule), seed


def test_columns_share_values_of_any_type_as_tried_one_by_one() -> None:
    """Whole columns of a kind are encoded together; which pairs share enough must not depend on the others."""
    rng = random.Random(4)
    for _ in range(60):
        pools = [rng.sample(range(12), rng.randint(0, 8)) for _ in range(5)]
        lists = [[rng.choice([*pool, None]) for _ in range(20)] for pool in pools]
        types = [rng.choice([pa.int64(), pa.int8(), pa.uint64()]) for _ in lists]
        if rng.random() < 0.5:
            types = [rng.choice([pa.string(), pa.dictionary(pa.int32(), pa.string())]) for _ in lists]
            lists = [[None if value is None else f"v{value}" for value in values] for values in lists]
        table = pa.table({f"c{k}": pa.array(lists[k], types[k]) for k in range(5)})
        share = rng.choice([0.0, 0.3, 0.5, 1.0])
        space = build_space(from_frame(table), None, Scope(share=share, within_row=False))
        found = {(pair.left.name, pair.right.name) for pair in space.comparisons if pair.across}
        sets = [set(values) - {None} for values in lists]
        expected = {
            (f"c{one}", f"c{other}")
            for one in range(5)
            for other in range(5)
            if one != other and sets[one] and sets[other]
            if len(sets[one] & sets[other]) >= share * max(len(sets[one]), len(sets[other]))
        }
        assert found == expected
