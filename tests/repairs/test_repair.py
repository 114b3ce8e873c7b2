"""`naysay.repair`: votes against an oracle, exact counts, abstaining, and copies that keep their types."""

from __future__ import annotations

import datetime
import importlib
import json
import random
import sys
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import naive
import naysay
from naysay.errors import UsageError
from naysay.repairs.result import Repair
from naysay.rule.model import Nulls, Rule

Records = list[dict[str, Any]]
RULES = (
    "a -> b",
    "a -> c",
    "c -> b",
    "b, c -> a",
    "b -> c",
    "key(a, b, c, d)",
    "not(t.a == s.a and t.b != s.b and t.d == 'x' and s.d == 'x')",
    "not(t.c != s.c)",
    "not(t.a == s.a and t.n < s.n and t.b != s.b)",
    "not(t.b == s.b and t.n < s.n and t.a > s.a)",
    "not(t.n > 3)",
)


def drawn(seed: int) -> tuple[Records, list[Rule], Nulls, float]:
    rng = random.Random(seed)
    n_rows = rng.randrange(0, 40)
    sizes = {name: rng.randrange(1, 5) for name in "abc"}
    share = rng.choice([0.0, 0.0, 0.1, 0.3])

    def value(name: str) -> Any:
        # Mostly the first value, so that there is a majority.
        number = 0 if rng.random() < 0.6 else rng.randrange(sizes[name])
        return None if rng.random() < share else f"{name}{number}"

    rows = [
        {name: value(name) for name in "abc"} | {"d": rng.choice("xy"), "n": rng.randrange(5)} for _ in range(n_rows)
    ]
    rules = [naysay.parse(text) for text in rng.sample(RULES, rng.randrange(1, 5))]
    return rows, rules, rng.choice(list(Nulls)), rng.choice([0.0, 0.3, 0.5, 0.6, 0.6, 0.8])


def table_of(rows: Records) -> pa.Table:
    types = {**dict.fromkeys("abcd", pa.string()), "n": pa.int64()}
    return pa.table({name: pa.array([row[name] for row in rows], type_) for name, type_ in types.items()})


def parts(rule: Rule) -> tuple[set[str], set[str], set[str]]:
    """The columns that must be equal, those that must differ, and those of conditions; by the text of the rule."""
    text = naysay.render(rule)
    names: tuple[set[str], set[str], set[str]] = set(), set(), set()
    for predicate in rule.predicates:
        kind = 2 if len(predicate.rows) == 1 else {"==": 0, "!=": 1}.get(predicate.op.value, 3)
        if kind == 3:
            return set(), set(), {text}
        names[kind].add(predicate.left.name)
    return names


def is_plain(rule: Rule) -> bool:
    """Whether the rule is a key or a dependency, perhaps with conditions."""
    _, differs, conditions = parts(rule)
    return not rule.is_one_row and len(differs) <= 1 and conditions <= {"d"}


@pytest.mark.parametrize("seed", range(150))
def test_counts_are_exact_and_only_rows_in_conflict_change(seed: int) -> None:
    rows, rules, nulls, confidence = drawn(seed)
    table = table_of(rows)
    found = naysay.repair(table, rules, nulls=nulls, min_confidence=confidence)
    copy = found.apply()
    assert [entry.before for entry in found.rules] == [naive.count(rows, rule, nulls) for rule in rules]
    assert [entry.after for entry in found.rules] == [naive.count(copy.to_pylist(), rule, nulls) for rule in rules]
    changes = {
        (row, name): (old[name], new[name])
        for row, (old, new) in enumerate(zip(rows, copy.to_pylist(), strict=True))
        for name in old
        if old[name] != new[name]
    }
    assert changes == {(one.row, one.column): (one.old, one.new) for one in found}
    conflicting = set().union(*(naive.rows_in_conflict(rows, rule, nulls) for rule in rules))
    assert {one.row for one in found} <= conflicting
    assert all(one.new is not None and one.confidence >= confidence - 1e-9 for one in found)
    assert table.equals(table_of(rows))
    again = naysay.repair(table_of(rows), rules, nulls=nulls, min_confidence=confidence)
    assert again.suggestions == found.suggestions
    assert again.rules == found.rules


@pytest.mark.parametrize("seed", range(150, 250))
def test_what_one_change_removes_and_adds(seed: int) -> None:
    rows, rules, nulls, confidence = drawn(seed)
    found = naysay.repair(table_of(rows), rules, nulls=nulls, min_confidence=confidence)
    plain = [rule for rule in rules if is_plain(rule)]
    for one in found:
        if one.round > 1:
            continue
        changed = [row | {one.column: one.new} if place == one.row else row for place, row in enumerate(rows)]
        before, after = (
            {(number, pair) for number, rule in enumerate(plain) for pair in naive.violations(records, rule, nulls)}
            for records in (rows, changed)
        )
        assert (one.removed, one.added) == (len(before - after), len(after - before))


def voted(rows: Records, key: list[str], target: str, nulls: Nulls, confidence: float) -> dict[int, tuple[Any, float]]:
    """One dependency's suggestions, row by row and round by round."""
    current = [dict(row) for row in rows]
    suggested: dict[int, tuple[Any, float]] = {}
    fits = None
    while True:
        groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for place, row in enumerate(current):
            if all(row[name] is not None for name in key):
                groups[tuple(row[name] for name in key)].append(place)
        votes = {name: Counter(current[i][target] for i in places) for name, places in groups.items()}
        for counter in votes.values():
            counter.pop(None, None)
        if fits is None:
            sizes = {name: counter.total() for name, counter in votes.items()}
            exceptions = {name: sizes[name] - max(votes[name].values(), default=0) for name in groups}
            small = sum(exceptions[name] for name in groups if sizes[name] < 4)
            n_tested = sum(size for size in sizes.values() if size > 1)
            n_exceptions = sum(exceptions.values())
            fits = n_exceptions <= n_tested / 2 and small <= n_exceptions / 2
        changes = {}
        for name, places in groups.items() if fits else ():
            ranked = votes[name].most_common(2)
            if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
                continue
            value, n_for = ranked[0]
            for i in places:
                own = current[i][target]
                if own == value or i in suggested or (own is None and nulls is Nulls.SQL):
                    continue
                sure = n_for / (votes[name].total() + (own is None) + 1)
                if sure >= confidence - 1e-9:
                    changes[i] = (value, sure)
        if not changes:
            return suggested
        for i, (value, _) in changes.items():
            current[i][target] = value
        suggested |= changes


@pytest.mark.parametrize("seed", range(250, 400))
def test_one_dependency_votes_like_the_oracle(seed: int) -> None:
    rows, _, nulls, confidence = drawn(seed)
    key, target = random.Random(seed).choice([(["a"], "b"), (["b", "c"], "a"), (["c"], "a")])
    found = naysay.repair(table_of(rows), f"{', '.join(key)} -> {target}", nulls=nulls, min_confidence=confidence)
    assert {one.row: (one.new, pytest.approx(one.confidence)) for one in found} == voted(
        rows, key, target, nulls, confidence
    )


@pytest.mark.parametrize("seed", range(400, 430))
def test_the_order_of_rows_does_not_matter(seed: int) -> None:
    rows, rules, nulls, confidence = drawn(seed)
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)
    found = naysay.repair(table_of(rows), rules, nulls=nulls, min_confidence=confidence)
    other = naysay.repair(table_of([rows[i] for i in order]), rules, nulls=nulls, min_confidence=confidence)
    assert {(one.row, one.column, one.new, one.reason) for one in found} == {
        (order[one.row], one.column, one.new, one.reason) for one in other
    }


def cities(*names: str | None) -> pa.Table:
    return pa.table({"zip": ["02139"] * len(names), "city": pa.array(names, pa.string())})


def test_the_reason_names_the_vote() -> None:
    (one,) = naysay.repair(cities(*["Cambridge"] * 41, "Cambritge"), "zip -> city")
    assert one.reason == "41 of 42 rows with zip '02139' say 'Cambridge'"
    assert (one.row, one.old, one.new, one.removed, one.added) == (41, "Cambritge", "Cambridge", 82, 0)
    assert one.confidence == pytest.approx(41 / 43)
    assert one.identity == {"row": 41}


@pytest.mark.parametrize(
    "names", [("A", "B"), ("A", "A", "B"), ("A", "A", "B", "B"), ("A", "A", "A", "B", "B", "B"), ("A", "B", "C", "D")]
)
def test_ties_and_small_groups_abstain(names: tuple[str, ...]) -> None:
    found = naysay.repair(cities(*names), "zip -> city")
    assert len(found) == 0
    assert found.before == found.after > 0
    assert found.rules[0].abstains


def test_three_to_one_just_passes() -> None:
    assert [one.new for one in naysay.repair(cities("A", "A", "A", "B"), "zip -> city")] == ["A"]
    assert len(naysay.repair(cities("A", "A", "A", "B"), "zip -> city", min_confidence=0.61)) == 0


def test_a_tie_abstains_even_without_a_limit() -> None:
    assert len(naysay.repair(cities("A", "A", "B", "B", "C"), "zip -> city", min_confidence=0)) == 0


def test_nulls_are_filled_in_only_if_they_are_violations() -> None:
    table = cities("A", "A", "A", "A", None)
    assert len(naysay.repair(table, "zip -> city")) == 0
    (one,) = naysay.repair(table, "zip -> city", nulls="equal")
    assert (one.old, one.new) == (None, "A")
    assert one.reason == "4 of 4 rows with zip '02139' that have a value say 'A'"


def test_a_row_without_a_key_does_not_vote() -> None:
    table = pa.table({"zip": pa.array([None] * 5, pa.string()), "city": ["A", "A", "A", "A", "B"]})
    found = naysay.repair(table, "zip -> city", nulls="equal")
    assert found.before == 8
    assert len(found) == 0


def test_a_rule_that_does_not_fit_suggests_nothing() -> None:
    # Many pairs disagree, so that the one larger group says little.
    table = pa.table({"a": [1, 1, 2, 2, 3, 3, 4, 4, 4, 4], "b": [1, 2, 3, 4, 5, 6, 7, 7, 7, 8]})
    found = naysay.repair(table, "a -> b")
    assert len(found) == 0
    assert found.rules[0].abstains == (
        "3 of its 4 exceptions are in groups of fewer than 4 rows: the rule may not fit the data"
    )
    half = pa.table({"a": [1] * 5 + [2] * 5, "b": [0, 0, 0, 0, 1, 2, 3, 4, 5, 6]})
    assert [one.row for one in naysay.repair(half, "a -> b")] == [4]
    wild = pa.table({"a": [1] * 20 + [2] * 5, "b": [*range(20), 7, 7, 7, 7, 8]})
    assert naysay.repair(wild, "a -> b").rules[0].abstains == (
        "20 of 25 rows are exceptions: the rule does not fit the data"
    )


def test_rules_vote_together_and_against_each_other() -> None:
    # By zip the city of row 4 is A, by phone it is B: four rows say so each.
    table = pa.table(
        {
            "zip": [1, 1, 1, 1, 1, 2, 2, 2, 2],
            "phone": [3, 4, 5, 6, 9, 9, 9, 9, 9],
            "city": ["A", "A", "A", "A", "B", "B", "B", "B", "B"],
        }
    )
    assert [one.row for one in naysay.repair(table, "zip -> city")] == [4]
    assert len(naysay.repair(table, ["zip -> city", "phone -> city"])) == 0
    same = pa.table({"zip": [1] * 5, "phone": [2] * 5, "city": ["A", "A", "A", "A", "B"]})
    (one,) = naysay.repair(same, ["zip -> city", "phone -> city"])
    assert one.reason == "4 of 5 rows with zip 1 say 'A'; 1 more rule agrees"
    assert one.confidence == pytest.approx(4 / 6)
    assert one.rules == (0, 1)


def test_a_wrong_reason_is_repaired_first() -> None:
    # Row 0 has the wrong state, so that the exemption of that state does not apply to it.
    table = pa.table(
        {
            "zip": [1] * 6 + [2] * 6,
            "state": ["TX", "MA", "MA", "MA", "MA", "MA"] + ["TX"] * 6,
            "exemption": [10] * 6 + [20] * 6,
        }
    )
    found = naysay.repair(table, ["zip -> state", "state -> exemption"])
    assert [(one.row, one.column, one.new) for one in found] == [(0, "state", "MA")]
    assert found.after == 0


def test_later_rounds_follow_from_earlier_ones() -> None:
    table = pa.table(
        {"code": ["x"] * 6, "name": ["n", "n", "n", "n", "n", "typo"], "unit": ["kg", "kg", "kg", "kg", "kg", "lb"]}
    )
    found = naysay.repair(table, ["code -> name", "name -> unit"])
    assert [(one.column, one.new, one.round) for one in found] == [("name", "n", 1), ("unit", "kg", 2)]
    assert found[1].reason == "5 of 6 rows with name 'n' say 'kg'"
    assert found.after == 0


VALUES = {
    "date": ([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)], pa.date32()),
    "date64": ([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)], pa.date64()),
    "instant": ([datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2)], pa.timestamp("ns", "Europe/Berlin")),
    "decimal": ([Decimal("1.10"), Decimal("2.20")], pa.decimal128(30, 2)),
    "boolean": ([True, False], pa.bool_()),
    "float": ([0.5, float("nan")], pa.float32()),
    "integer": ([200, 7], pa.uint8()),
    "dictionary": (["x", "y"], pa.dictionary(pa.int8(), pa.string())),
    "view": (["x", "y"], pa.string_view()),
    "large": (["x", "y"], pa.large_string()),
    "time": ([datetime.time(1), datetime.time(2)], pa.time32("s")),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("wrong", [0, 1])
def test_the_copy_keeps_types(name: str, wrong: int) -> None:
    values, type_ = VALUES[name]
    column = pa.array([values[1 - wrong]] * 5 + [values[wrong], None], type_)
    table = pa.table({"key": [1] * 6 + [2], "value": pa.chunked_array([column.slice(0, 3), column.slice(3)])})
    table = table.replace_schema_metadata({"made": "by hand"})
    found = naysay.repair(table, "key -> value")
    copy = found.apply()
    expected = pa.array([values[1 - wrong]] * 6 + [None], type_)
    assert copy.schema.equals(table.schema, check_metadata=True)
    assert str(copy["value"].to_pylist()) == str(expected.to_pylist())
    assert [one.row for one in found] == [5]
    json.loads(found.to_json())
    assert found.table.num_rows == 1


def test_a_dictionary_with_a_null_in_it_stays_one() -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 0, 0, 0, 1, 2], pa.int32()), pa.array(["x", "y", None]))
    table = pa.table({"key": [1] * 6, "value": values})
    copy = naysay.repair(table, "key -> value").apply()
    assert copy.schema == table.schema
    assert copy["value"].to_pylist() == ["x"] * 5 + [None]


def test_copies_are_frames_of_the_same_kind() -> None:
    pd = pytest.importorskip("pandas")
    columns = {"zip": [1] * 5, "city": ["A", "A", "A", "A", "B"], "n": [1.5, None, 2.5, 3.5, 4.5]}
    pandas = pd.DataFrame(columns, index=[5, 5, 7, 8, 9]).astype({"city": "category"})
    found = naysay.repair(pandas, "zip -> city")
    copy = found.apply()
    assert list(copy["city"]) == ["A"] * 5
    assert list(pandas["city"]) == ["A", "A", "A", "A", "B"]
    assert copy.dtypes.equals(pandas.dtypes)
    assert copy.index.equals(pandas.index)
    assert copy.drop(columns="city").equals(pandas.drop(columns="city"))
    polars = pl.DataFrame(columns, schema_overrides={"city": pl.Categorical})
    changed = naysay.repair(polars, "zip -> city").apply()
    assert changed.schema == polars.schema
    assert changed["city"].to_list() == ["A"] * 5
    assert isinstance(found.apply(pl.DataFrame(columns)), pl.DataFrame)
    numbers = pl.DataFrame({"zip": [1] * 5, "n": [1.0, 1.0, 1.0, 1.0, float("nan")]})
    assert naysay.repair(numbers, "zip -> n").apply()["n"].to_list() == [1.0] * 5
    reader = pa.table(columns).to_reader()
    assert naysay.repair(reader, "zip -> city").apply()["city"].to_pylist() == ["A"] * 5


def test_apply_refuses_another_table() -> None:
    found = naysay.repair(cities("A", "A", "A", "A", "B"), "zip -> city")
    assert found.apply(cities("A", "A", "A", "A", "B"))["city"].to_pylist() == ["A"] * 5
    with pytest.raises(UsageError, match="for a table of 5 rows"):
        found.apply(cities("A", "A", "A", "A"))
    with pytest.raises(UsageError, match="column 'city' has changed"):
        found.apply(cities("A", "A", "A", "A", "C"))
    frame = cities("A", "A", "A", "A", "B").to_pandas()
    found = naysay.repair(frame, "zip -> city")
    frame.loc[4, "city"] = "C"
    with pytest.raises(UsageError, match="column 'city' has changed"):
        found.apply()


def test_odd_column_names() -> None:
    names = ["row", "a b", "new", "Größe, cm"]
    table = pa.table([[1, 2, 3, 4, 5], ["x"] * 5, list("abcde"), ["1", "1", "1", "1", "7"]], names=names)
    found = naysay.repair(table, '"a b" -> "Größe, cm"', key=["row", "new"])
    assert found[0].identity == {"row": 5, "new": "e"}
    assert found.table.column_names[:5] == ["row", "row_2", "new_2", "column", "old"]
    assert found.table.select(["row", "row_2", "new_2"]).to_pylist() == [{"row": 4, "row_2": 5, "new_2": "e"}]
    assert "Größe, cm: 7 -> 1" in str(found)
    assert found.to_pandas().shape == (1, 12)


def test_it_shows_itself() -> None:
    found = naysay.repair(cities("<b>A</b>", "<b>A</b>", "<b>A</b>", "<b>A</b>", "\x1b[31mB"), "zip -> city")
    assert repr(found) == "<Repair: 1 suggestions, 8 violations before, 0 after>"
    assert "1 suggestion; with all of them applied, 0 of 8 violations remain." in str(found)
    assert "\x1b" not in str(found)
    assert "<b>" not in found._repr_html_()
    document = json.loads(found.to_json())
    assert document["violations_after"] == 0
    assert document["suggestions"][0]["new"] == "<b>A</b>"
    assert isinstance(found, Repair)
    assert [one.row for one in found] == [found[0].row] == [4]
    empty = naysay.repair(cities("A", "A"), "zip -> city")
    assert str(empty).startswith("All rules hold: there is nothing to repair.")
    assert empty._repr_html_()
    assert empty.table.num_rows == 0


@pytest.mark.parametrize("rows", [0, 1])
def test_tables_with_nothing_to_compare(rows: int) -> None:
    found = naysay.repair(cities(*["A"] * rows), ["zip -> city", "key(zip)"])
    assert (len(found), found.before, found.after) == (0, 0, 0)
    assert found.apply().num_rows == rows


@pytest.mark.parametrize("confidence", [-0.1, 1, 1.5, float("nan")])
def test_a_bad_confidence_is_refused(confidence: float) -> None:
    with pytest.raises(UsageError, match="min_confidence must be at least 0 and less than 1"):
        naysay.repair(cities("A"), "zip -> city", min_confidence=confidence)


def test_refusals() -> None:
    with pytest.raises(UsageError, match="no rules to repair with"):
        naysay.repair(cities("A"), [])
    with pytest.raises(UsageError, match="key column 'id' is not in the table"):
        naysay.repair(cities("A"), "zip -> city", key="id")
    on_spark = type("DataFrame", (), {"__module__": "pyspark.sql.dataframe"})()
    with pytest.raises(UsageError, match="repair works on frames in memory, not on a Spark DataFrame"):
        naysay.repair(on_spark, "zip -> city")


def test_calling_it_twice_finds_the_function() -> None:
    for _ in range(2):
        assert callable(naysay.repair)
        naysay.repair(cities("A"), "zip -> city")


def test_quality_on_hospital(shared: Path) -> None:
    found, right, n_errors = _measured(shared, "hospital", nulls="sql")
    precision, recall = right / found, right / n_errors
    assert precision >= 0.95
    assert 2 * precision * recall / (precision + recall) >= 0.90


def test_quality_on_flights_and_rayyan(shared: Path) -> None:
    found, right, n_errors = _measured(shared, "flights", nulls="equal")
    assert right / found >= 0.95
    assert right / n_errors >= 0.35
    for nulls in ("sql", "equal"):
        found, right, _ = _measured(shared, "rayyan", nulls=nulls)
        assert right >= 0.9 * found


def repair_benchmark() -> Any:
    """The module benchmarks/repair.py, which measures the figures of the docs."""
    folder = Path(__file__).resolve().parents[2] / "benchmarks"
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("repair")
    finally:
        sys.path.remove(str(folder))


def _measured(shared: Path, name: str, nulls: str) -> tuple[int, int, int]:
    measured = repair_benchmark().measure(shared / "data", name, nulls)
    assert measured.n_errors == {"hospital": 509, "flights": 4920, "rayyan": 948}[name]
    return measured.n_suggestions, measured.n_right, measured.n_errors


def test_large_groups_stay_within_the_codes() -> None:
    rng = np.random.default_rng(5)
    n_rows = 30_000
    key = rng.integers(0, 300, n_rows)
    value = key * 3
    wrong = rng.choice(n_rows, 60, replace=False)
    value[wrong] += 1
    found = naysay.repair(pa.table({"key": key, "value": value}), "key -> value")
    assert sorted(wrong.tolist()) == [one.row for one in found]
    assert found.after == 0
