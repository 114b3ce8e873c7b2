"""Comparisons within a row and rules under a condition, compared with trying every such rule."""

from __future__ import annotations

import datetime
import itertools
import random
from typing import Any

import pyarrow as pa
import pytest
from naive_discover import either_way, minimal_rules
from small_tables import METHODS, comparisons_of, naive_rule

import naysay
from naive import count as naive_count
from naysay.budget import Budget
from naysay.discovery.space import SCOPES, build_space, comes_first
from naysay.rule.model import Column, Constant, Nulls, Op, Predicate, Row, Rule
from naysay.rule.render import canonical
from naysay.table import from_frame


def spans(rng: random.Random, n_rows: int) -> pa.Table:
    """Starts that are rarely after their ends, with nulls, and a column next to them."""
    starts = [rng.choice([*range(4), None]) if rng.random() < 0.9 else 9 for _ in range(n_rows)]
    late = rng.choice((0, 1))
    ends = [rng.choice([(start or 0) + rng.randrange(late, 3), None]) for start in starts]
    kinds = [rng.randrange(3) for _ in range(n_rows)]
    columns = {"end_day": ends, "startDay": starts, "kind": kinds}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("nulls", list(Nulls))
def test_columns_whose_names_say_which_comes_first_are_compared_within_a_row(method: str, nulls: Nulls) -> None:
    for seed in range(8):
        table = spans(random.Random(seed), 2 + seed)
        scope = naysay.Scope(cross=False)
        found = naysay.discover(table, 0.0, space=scope, nulls=nulls, method=method, threads=1)
        comparisons = [("t", name, "s", name, True) for name in table.column_names]
        comparisons.append(("t", "startDay", "t", "end_day", True))
        assert comparisons_of(found.space) == comparisons
        expected = minimal_rules(table.to_pylist(), comparisons, nulls_equal=nulls is Nulls.EQUAL)
        assert either_way(map(naive_rule, found.rules)) == either_way(rule for rule in expected if rule)


def test_an_evolver_keeps_comparisons_within_a_row() -> None:
    table = spans(random.Random(3), 12)
    for method in ("all-pairs", "selective"):
        evolver = naysay.Evolver(table.slice(0, 4), method=method)
        for start in range(4, 12, 2):
            evolver.apply(inserts=table.slice(start, 2))
            expected = naysay.discover(table.slice(0, start + 2), 0.0, space=naysay.Scope(share=1.0))
            rows = table.slice(0, start + 2)
            assert all(naive_count(rows.to_pylist(), rule) == 0 for rule in evolver.rules)
            own = {canonical(rule) for rule in evolver.rules if rule.is_one_row}
            assert own == {canonical(rule) for rule in expected.rules if rule.is_one_row}


def test_names_that_say_which_comes_first() -> None:
    pairs = [("start", "end"), ("dep_time", "arr_time"), ("MinAge", "MaxAge"), ("valid from", "valid to")]
    assert all(comes_first(*pair) and not comes_first(*reversed(pair)) for pair in pairs)
    assert not comes_first("start", "start")
    assert not comes_first("starter", "end")
    assert not comes_first("", "")


def test_only_ordered_columns_of_one_kind_are_compared_within_a_row() -> None:
    table = pa.table({"start": ["a"], "end": ["b"], "min": [1], "max": [2.0], "low": [1], "high": [2]})
    within = [pair for pair in build_space(from_frame(table)).comparisons if pair.within_row]
    assert [(pair.left.name, pair.right.name) for pair in within] == [("low", "high")]
    assert not any(pair.within_row for pair in build_space(from_frame(table), None, SCOPES["incdc"]).comparisons)
    assert not any(pair.within_row for pair in naysay.discover(table, cross=False).space.comparisons)


def test_a_comparison_within_a_row_is_shown_and_counted_by_rows() -> None:
    rng = random.Random(5)
    starts = [rng.randrange(1000) for _ in range(400)]
    ends = [start + rng.randrange(1, 60) for start in starts]
    ends[7] = starts[7] - 1
    table = pa.table({"start": starts, "end": ends, "x": [rng.randrange(3) for _ in starts]})
    exact = naysay.discover(table, error=0)
    assert any("start is after end in only 1 of 400 rows" in note for note in exact.notes)
    found = naysay.discover(table, error=0.01, measure="rows")
    assert not any("is after end" in note for note in found.notes)
    (finding,) = [finding for finding in found.findings if finding.rule.is_one_row]
    assert naysay.render(finding.rule) == "not(t.start >= t.end)"
    assert (finding.tested.violations, finding.tested.support) == (1, 399)
    assert finding.advice.value == "look"
    assert "tested by 399 rows; broken by 1 row" in str(found)
    assert naysay.check(table, finding.rule).passes


def test_that_two_columns_are_never_equal_is_not_shown() -> None:
    rng = random.Random(6)
    starts = [rng.randrange(100) for _ in range(400)]
    ends = [start + rng.choice((-3, 2)) for start in starts]
    table = pa.table({"start": starts, "end": ends, "x": [start % 10 for start in starts]})
    found = naysay.discover(table, 0.0)
    assert "not(t.start == t.end)" in [naysay.render(rule) for rule in found.rules]
    assert not any(rule.is_one_row for rule in found.best)


def conditional_by_trying(table: pa.Table, fewest: int, nulls: Nulls) -> set[Rule]:
    """Every rule with a condition on one column: `y -> z where x == a`, and `not(t.x == a and t.z != b)`."""
    rows = table.to_pylist()

    def predicate(row: Row, name: str, op: Op, right: Any = None) -> Predicate:
        """The same column of the other row, unless there is a value."""
        return Predicate(Column(row, name), op, Column(row.other, name) if right is None else Constant(right))

    def holds(rule: Rule) -> bool:
        return naive_count(rows, rule, nulls) == 0

    found = set()
    for x, z in itertools.permutations(table.column_names, 2):
        differ = predicate(Row.LEFT, z, Op.NE)
        for value in {row[x] for row in rows if row[x] is not None}:
            chosen = [row for row in rows if row[x] == value]
            known = [row for row in chosen if nulls is Nulls.EQUAL or row[z] is not None]
            if len(chosen) < fewest:
                continue
            condition = tuple(predicate(row, x, Op.EQ, value) for row in Row)
            is_single = len({row[z] for row in known}) <= 1
            # A rule without a condition must not say it: two rows of another value differ.
            everywhere = Rule((predicate(Row.LEFT, x, Op.EQ), differ))
            if is_single and len(known) > 1 and known[0][z] is not None and not holds(everywhere):
                found.add(Rule((condition[0], predicate(Row.LEFT, z, Op.NE, known[0][z]))))
            for y in set(table.column_names) - {x, z}:
                same = predicate(Row.LEFT, y, Op.EQ)
                both = [row for row in known if nulls is Nulls.EQUAL or row[y] is not None]
                everywhere = Rule((predicate(Row.LEFT, x, Op.EQ), same, differ))
                rule = Rule((*condition, same, differ))
                if not is_single and len(both) > 1 and holds(rule) and not holds(everywhere):
                    found.add(rule)
    return {canonical(rule) for rule in found}


@pytest.mark.parametrize("nulls", list(Nulls))
def test_rules_under_a_condition_are_those_of_trying_all(nulls: Nulls) -> None:
    n_found = 0
    for seed in range(20):
        rng = random.Random(seed)
        n_rows = rng.randrange(2, 30)
        days = [datetime.date(2020, 1, day) for day in (1, 2, 3)]
        pools: list[list[Any]] = [["a", "b", None], [1, 2, 3, None], [*days, None], [True, False]]
        columns = {
            name: [rng.choice(pool[: rng.randint(1, len(pool))]) for _ in range(n_rows)]
            for name, pool in zip("abcd", pools, strict=True)
        }
        types = {"a": pa.string(), "b": pa.int64(), "c": pa.date32(), "d": pa.bool_()}
        table = pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})
        fewest = rng.randint(2, 6)
        found = naysay.discover(table, 0.0, space=naysay.Scope(conditions=fewest, cross=False), nulls=nulls, threads=1)
        rules = [canonical(finding.rule) for finding in found.conditional]
        assert len(rules) == len(set(rules))
        assert set(rules) == conditional_by_trying(table, fewest, nulls), seed
        n_found += len(rules)
        for finding in found.conditional:
            assert finding.applies_to is not None
            assert finding.applies_to >= 2
    assert n_found > 30


def countries(n_rows: int = 1500) -> pa.Table:
    """In the UK a zip has one street; the other countries have one currency or two."""
    rng = random.Random(1)
    rows = []
    for _ in range(n_rows):
        country, zip_code = rng.choice(["UK", "UK", "US", "DE"]), rng.randrange(60)
        street = zip_code // 2 if country == "UK" else rng.randrange(40)
        rows.append((country, zip_code, f"street {street}", rng.randrange(100)))
    return pa.table(dict(zip(("country", "zip", "street", "noise"), map(list, zip(*rows, strict=True)), strict=True)))


def test_the_list_ends_with_rules_under_a_condition_and_the_rows_they_apply_to() -> None:
    table = countries()
    found = naysay.discover(table, 0.0, space=naysay.Scope(conditions=100))
    finding = found.findings[-1]
    assert naysay.render(finding.rule, short=True) == 'zip -> street where country == "UK"'
    assert finding.applies_to == sum(country == "UK" for country in table["country"].to_pylist())
    assert finding.advice.value == "keep"
    assert naysay.check(table, finding.rule).passes
    assert f"applies to {finding.applies_to:,} rows" in str(found)
    assert finding.rule in [each.rule for each in found.top(5, about="country")]
    assert not naysay.discover(table, 0.0).conditional


def test_rules_under_conditions_are_made_while_there_is_time_the_best_first(monkeypatch: pytest.MonkeyPatch) -> None:
    table, looks = countries(), []
    scope = naysay.Scope(conditions=5)
    everything = naysay.discover(table, 0.0, space=scope).conditional

    def late(budget: Budget) -> bool:
        looks.append(1)
        if len(looks) == 3:
            budget.stop("time limit")
        return len(looks) > 2

    with monkeypatch.context() as patch:
        patch.setattr(Budget, "late", late)
        found = naysay.discover(table, 0.0, space=scope)
    assert [each.rule for each in found.conditional] == [each.rule for each in everything[:2]]
    assert len(everything) > 2
    assert "time limit: rules under conditions may be missing" in found.notes


def test_what_cannot_have_conditions_says_so() -> None:
    scope = naysay.Scope(conditions=10)
    with pytest.raises(naysay.UsageError, match="leave out conditions"):
        naysay.Evolver(countries(20), space=scope)
    with pytest.raises(naysay.UsageError, match="at least 2"):
        naysay.Scope(conditions=1)
    with pytest.raises(naysay.UsageError, match="within_row"):
        naysay.Scope(within_row="some")  # type: ignore[arg-type]
    with pytest.raises(naysay.UsageError, match="share"):
        naysay.Scope(share=2.0)
    with pytest.raises(naysay.UsageError, match="distinct, occurrences"):
        naysay.Scope(shared="all")
