"""Watch as users call it: frames of every kind, keys of every shape, answers and refusals."""

from __future__ import annotations

import doctest
import random
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import naysay
from naysay.errors import ResourceError, RuleError, TableError, UsageError
from naysay.watch import tree_index, watch

ROWS = pa.table({"id": [1, 2, 3], "zip": [9, 9, 8], "city": ["Ulm", "Bonn", "Kiel"]})


def pairs(table: pa.Table) -> set[tuple[Any, Any]]:
    return set(zip(table["left"].to_pylist(), table["right"].to_pylist(), strict=True))


def test_the_example_in_the_docstring() -> None:
    assert doctest.testmod(watch).failed == 0


@pytest.mark.parametrize(
    "frame",
    [
        ROWS,
        ROWS.to_batches()[0],
        ROWS.to_pandas(),
        pl.from_arrow(ROWS),
        duckdb.from_arrow(ROWS),
        pa.table({**dict(zip(ROWS.column_names, ROWS.columns, strict=True)), "city": ROWS["city"].dictionary_encode()}),
    ],
    ids=lambda frame: type(frame).__module__,
)
def test_any_frame(frame: Any) -> None:
    watched = naysay.Watch("zip -> city", "id")
    assert pairs(watched.apply(inserts=frame).added) == {(1, 2), (2, 1)}
    assert watched.violations().rows_in_conflict == {"not(t.zip == s.zip and t.city != s.city)": 2}


@pytest.mark.parametrize(
    "keys",
    [
        [2],
        (2,),
        np.array([2]),
        pa.array([2]),
        pd.Series([2]),
        pl.Series([2]),
        pa.table({"id": [2]}),
        pd.DataFrame({"id": [2], "zip": [0]}),
        pa.chunked_array([[2]]),
    ],
)
def test_deletes_by_any_list_of_keys(keys: Any) -> None:
    watched = naysay.Watch("zip -> city", "id")
    watched.apply(inserts=ROWS)
    assert pairs(watched.apply(deletes=keys).removed) == {(1, 2), (2, 1)}


def test_several_key_columns_come_as_a_struct() -> None:
    watched = naysay.Watch("key(city)", ["id", "zip"])
    rows = pa.table({"id": [1, 1], "zip": [8, 9], "city": ["Ulm", "Ulm"]})
    added = watched.apply(inserts=rows).added
    assert added["left"].to_pylist() == [{"id": 1, "zip": 8}, {"id": 1, "zip": 9}]
    assert watched.apply(deletes=rows.slice(1).select(["zip", "id"])).n_removed == 2
    with pytest.raises(UsageError, match="give a frame with the key columns 'id', 'zip'"):
        watched.apply(deletes=[1])


def test_a_violation_that_stays_is_no_change() -> None:
    watched = naysay.Watch("zip -> city", "id")
    watched.apply(inserts=ROWS)
    again = pa.table({"id": [1, 2], "zip": [7, 7], "city": ["Ulm", "Bonn"]})
    change = watched.apply(updates=again)
    assert (change.n_added, change.n_removed, change.counts) == (0, 0, watched.counts)
    change = watched.apply(deletes=[1], inserts=again.slice(0, 1))
    assert (change.n_added, change.n_removed) == (0, 0)
    assert repr(change) == "Change(0 added, 0 removed, 2 current)"


def test_a_watch_that_only_counts_does_not_claim_that_nothing_was_added() -> None:
    watched = naysay.Watch("zip -> city", "id", counting=True)
    assert repr(watched.apply()) == "Change(only counted, 0 current)"
    assert repr(watched.apply(inserts=ROWS)) == "Change(only counted, 2 current)"


def test_one_row_rules_have_no_right_row() -> None:
    watched = naysay.Watch("small: not(t.zip < 9)", "id")
    assert watched.apply(inserts=ROWS).added.to_pylist() == [{"rule": "small", "left": 3, "right": None}]


def test_refusals_name_the_cause_and_change_nothing() -> None:
    watched = naysay.Watch(["zip -> city"], "id")
    watched.apply(inserts=ROWS)
    before = watched.violations().table
    new = pa.table({"id": [4], "zip": [9], "city": ["Kiel"]})
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"deletes": [7]}, UsageError, "deletes: there is no row with the key 7"),
        ({"deletes": ["x"]}, TableError, "cannot convert to the key column 'id'"),
        ({"updates": new}, UsageError, "updates: there is no row with the key 4"),
        ({"inserts": ROWS}, UsageError, "inserts: there is a row with the key 1 already"),
        ({"inserts": pa.concat_tables([new, new])}, UsageError, "inserts: duplicate key 4"),
        ({"deletes": [1, 1]}, UsageError, "deletes: duplicate key 1"),
        ({"inserts": new.drop_columns(["city"])}, TableError, "inserts: the column 'city' is missing"),
        ({"inserts": new.append_column("citi", new["city"])}, TableError, "'citi' is new; did you mean 'city'"),
        (
            {"inserts": new.set_column(1, "zip", pa.array([9.0]))},
            TableError,
            "'zip' has type double, but the first frame",
        ),
        ({"inserts": new.set_column(0, "id", pa.array([None], pa.int64()))}, TableError, "the key is null in row 0"),
        ({"inserts": 5}, TableError, "int is not a table that naysay can read"),
        ({"inserts": new, "batch_id": 5}, UsageError, "a batch ID must be text"),
        ({"inserts": new.rename_columns(["id", "zip", "zip"])}, TableError, "more than one column is named 'zip'"),
    ]
    for given, kind, message in cases:
        with pytest.raises(kind, match=message):
            watched.apply(**given)
        assert watched.n_rows == 3
        assert watched.violations().table.equals(before)
    assert watched.apply(inserts=new).n_added == 4


def test_rules_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="a watch needs a key"):
        naysay.Watch("zip -> city")
    with pytest.raises(UsageError, match="unknown index 'best'"):
        naysay.Watch("zip -> city", "id", index="best")
    with pytest.raises(UsageError, match="two rules are named 'a'"):
        naysay.Watch(["a: key(zip)", "a: key(city)"], "id")
    with pytest.raises(UsageError, match="the key column 'ident' is not in the table"):
        naysay.Watch("zip -> city", "ident").apply(inserts=ROWS)
    with pytest.raises(RuleError, match="no column 'town'"):
        naysay.Watch("zip -> town", "id").apply(inserts=ROWS)
    watched = naysay.Watch("zip -> city", "id")
    watched.apply(inserts=ROWS)
    with pytest.raises(RuleError, match="no column 'town'"):
        watched.add_rule("key(town)")
    with pytest.raises(UsageError, match="is already watched"):
        watched.add_rule("zip -> city")
    with pytest.raises(UsageError, match="'key' is not watched"):
        watched.remove_rule("key")
    assert watched.remove_rule("zip -> city").n_removed == 2
    assert watched.apply(deletes=[1]).counts == {}


def test_a_column_of_nulls_takes_the_first_type_that_comes() -> None:
    watched = naysay.Watch("city: zip -> city", "id")
    nothing = pa.table({"id": [1], "zip": [9], "city": pa.nulls(1)})
    watched.apply(inserts=nothing)
    with pytest.raises(UsageError, match="there is a row with the key 1 already"):
        watched.apply(inserts=pa.table({"id": [1], "zip": [9], "city": [5]}))
    watched.apply(inserts=ROWS.slice(1))
    assert watched.rows().schema.field("city").type == pa.string()
    assert watched.apply(updates=ROWS.slice(0, 1)).n_added == 2
    watched.apply(updates=nothing)
    assert watched.counts == {"city": 0}


@pytest.mark.parametrize("index", ["auto", "lt-tree"])
def test_a_flood_is_refused_whole_or_counted(monkeypatch: pytest.MonkeyPatch, index: str) -> None:
    monkeypatch.setattr(tree_index, "MAX_PAIRS", 50)
    rows = pa.table({"id": list(range(20)), "a": [1] * 20})
    watched = naysay.Watch("key(a)", "id", index=index)
    watched.apply(inserts=rows.slice(0, 5))
    with pytest.raises(ResourceError, match="more than 50 violations in one change"):
        watched.apply(inserts=rows.slice(5), deletes=[0])
    assert (watched.n_rows, watched.violations().total) == (5, 20)
    assert watched.apply(deletes=[0]).n_removed == 8
    assert watched.apply(inserts=rows.slice(0, 1)).n_added == 8
    counting = naysay.Watch("key(a)", "id", counting=True, index=index)
    assert counting.apply(inserts=rows).counts == {"not(t.a == s.a)": 380}
    assert counting.violations().rows_in_conflict == {"not(t.a == s.a)": 20}
    with pytest.raises(UsageError, match="only counts violations"):
        _ = counting.violations().table


def test_violations_in_words() -> None:
    watched = naysay.Watch(["city: zip -> city", "small: not(t.zip < 9)"], "id")
    change = watched.apply(inserts=ROWS)
    assert watched.explain(change) == [
        "city: 1 and 2: both have zip 9, but city is 'Ulm' in one and 'Bonn' in the other",
        "small: 3: zip 8 is less than 9",
    ]
    watched.apply(deletes=[1])
    assert watched.explain(change) == ["small: 3: zip 8 is less than 9"]


RULES = (
    "key(a, b)",
    "a -> t",
    "not(t.a == s.a and t.x < s.x and t.y > s.y)",
    "not(t.x < s.x and t.y > s.y and t.z > s.z and t.b != s.b)",
    "not(t.b == s.b and t.t < s.t and t.x >= s.y)",
    "not(t.a != s.a and t.t != s.t and t.x == s.x)",
    "not(t.x == 7 and t.y > s.y and s.b == 3)",
    "not(t.b < t.a and t.z >= 6)",
)


def sized_rows(rng: np.random.Generator, keys: np.ndarray) -> pa.Table:
    n_rows = len(keys)
    x = rng.integers(0, 60, n_rows)
    table = {
        "id": keys,
        "a": rng.integers(0, 30, n_rows),
        "b": rng.integers(0, 5, n_rows),
        "x": x,
        "y": np.where(rng.random(n_rows) < 0.05, rng.integers(0, 60, n_rows), x) / 2,
        "z": rng.integers(0, 8, n_rows),
        "t": pa.array([f"t{number:02}" for number in rng.integers(0, 12, n_rows)]),
    }
    return pa.table(table)


@pytest.mark.parametrize("index", ["auto", "lt-tree"])
@pytest.mark.parametrize("seed", range(3))
def test_tables_of_some_size_against_a_check_from_scratch(seed: int, index: str) -> None:
    rng, choice = np.random.default_rng(seed), random.Random(seed)
    watched = naysay.Watch([f"r{number}: {rule}" for number, rule in enumerate(RULES)], "id", index=index)
    counting = naysay.Watch(list(watched.rules.values()), "id", counting=True, index=index)
    alive: list[int] = []
    n_made = 0
    for _ in range(6):
        n_new = choice.choice([1, 20, 150])
        new = np.arange(n_made, n_made + n_new)
        n_made += n_new
        gone = choice.sample(alive, len(alive) // choice.choice([2, 9]))
        rest = [key for key in alive if key not in set(gone)]
        changed = np.array(choice.sample(rest, min(len(rest), 40)), np.int64)
        given = {"inserts": sized_rows(rng, new), "updates": sized_rows(rng, changed), "deletes": gone}
        watched.apply(**given)
        counting.apply(**given)
        alive = [*rest, *new.tolist()]
        rows = watched.rows()
        assert sorted(rows["id"].to_pylist()) == sorted(alive)
        assert watched.counts == counting.counts
        standing = watched.violations().table
        for name, rule in watched.rules.items():
            listed = naysay.violations(rows, rule, limit=None, key="id")
            assert watched.counts[name] == listed.total
            mask = pa.compute.equal(standing["rule"], name)
            assert pairs(standing.filter(mask)) == pairs(listed.table)


@pytest.mark.parametrize("index", ["auto", "lt-tree"])
@pytest.mark.parametrize("counting", [False, True])
def test_rows_that_get_other_codes_are_not_searched_again(
    index: str, counting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many new texts change the codes of all; the violations of the rows stay what they are."""
    rule = "r: not(t.a == s.a and t.t < s.t and t.x > s.x)"
    watched = naysay.Watch(rule, "id", index=index, counting=counting)
    rows = sized_rows(np.random.default_rng(2), np.arange(60))
    texts = pa.array([f"{number * 37 % 60:02}" for number in range(60)])
    rows = rows.set_column(rows.column_names.index("t"), "t", texts)
    watched.apply(inserts=rows.slice(0, 10))
    assert watched._state is not None

    def fail(*_: object) -> None:
        raise AssertionError("the rule was added again")

    monkeypatch.setattr(type(watched._state._index), "add", fail)
    before = watched._state._columns._version()
    watched.apply(inserts=rows.slice(10))
    assert watched._state._columns._version() > before
    watched.apply(deletes=[0, 1, 30])
    left = watched.rows()
    assert watched.counts == {"r": naysay.count(left, rule)} != {"r": 0}
