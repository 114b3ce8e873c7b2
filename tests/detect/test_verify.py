"""verify stops early: it does not look at the whole table if the first rows break the rule."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import naive
import naysay
from naysay.detect import engine, partners, violations
from naysay.detect.engine import _prefixes
from naysay.plan.bind import bind
from naysay.plan.join import join_of
from naysay.rule.model import Nulls
from naysay.rule.parse import parse
from naysay.table import from_frame

N_ROWS = 300_000
# A shape each, and the columns in which row 6,000 differs from what the rule wants.
RULES = {
    "key(a)": {"a": 5_000},
    "a -> b": {"a": 5_000},
    "ordered(a, b)": {"b": -5},
    "not(t.g == s.g and t.a < s.b and t.b > s.a)": {"b": 6_100, "a": 5_000},
    "not(t.g == s.g and t.a < s.z)": {"z": N_ROWS},
    "not(t.a < s.a and t.b > s.b and t.c > s.c)": {"b": -5, "c": -5},
    "not(t.a < s.a and t.b > s.b and t.c > s.c and t.d > s.d and t.e > s.e)": dict.fromkeys("bcde", -5),
    "not(t.g != s.g and t.b != s.b and t.c != s.c and t.d == s.d)": {"d": 5_000},
}


def _table(changes: dict[str, int]) -> pa.Table:
    columns = {name: np.arange(N_ROWS) for name in "abcde"} | {"z": np.full(N_ROWS, -1), "g": np.arange(N_ROWS) % 7}
    for name, value in changes.items():
        columns[name][6_000] = value
    return pa.table(columns)


@pytest.mark.parametrize("rule", RULES)
def test_a_violation_among_the_first_rows_is_found_without_the_rest(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    sizes: list[int] = []
    bind = engine.bind
    monkeypatch.setattr(engine, "bind", lambda table, *rest: sizes.append(table.n_rows) or bind(table, *rest))
    assert naysay.verify(_table({}), rule).holds
    assert max(sizes) == N_ROWS
    assert sum(sizes) < 1.04 * N_ROWS
    sizes.clear()
    verdict = naysay.verify(_table(RULES[rule]), rule)
    assert not verdict.holds
    assert max(sizes) == N_ROWS // 32


@pytest.mark.parametrize("rule", RULES)
def test_prefixes_reach_from_a_thousand_rows_to_all(rule: str) -> None:
    join = join_of(parse(rule))
    assert _prefixes(0, join) == [0]
    assert _prefixes(31_999, join) == [31_999]
    # What is searched in linear time is not worth a look at a thousand rows, and a fixed cost.
    is_linear = rule in ("key(a)", "a -> b", "not(t.g == s.g and t.a < s.z)")
    for n_rows in (32_000, 255_999):
        assert _prefixes(n_rows, join) == ([n_rows] if is_linear else [1_000, n_rows])
    assert _prefixes(256_000, join) == [8_000, 256_000]
    # A violation at row 300,000 of ten million is among the first thirty-second.
    assert _prefixes(10_000_000, join) == [9_765, 312_500, 10_000_000]


# One search each instead of a count: two disequalities, an order and a disequality, two orders and a disequality.
SEARCHED = (
    "not(t.a != s.a and t.b != s.b)",
    "not(t.g == s.g and t.a != s.a and t.b != s.b)",
    "not(t.a < s.a and t.b != s.b)",
    "not(t.g == s.g and t.a >= s.a and t.b != s.b)",
    "not(t.g == s.g and t.a < s.c and t.b != s.b)",
    "not(t.a > 1 and t.g == s.g and t.a < s.a and t.b != s.b)",
    "not(t.g == s.g and t.a < s.a and t.b != s.c and t.c is not null)",
    "not(t.a < s.a and t.b > s.b and t.c != s.c)",
    "not(t.g == s.g and t.a > s.a and t.b > s.b and t.c != s.c)",
)


@pytest.mark.parametrize("nulls", ["sql", "equal"])
@pytest.mark.parametrize("rule", SEARCHED)
def test_searches_agree_with_the_oracle(monkeypatch: pytest.MonkeyPatch, rule: str, nulls: str) -> None:
    def refuse(_: object) -> int:
        raise AssertionError("a search is enough")

    monkeypatch.setattr(violations, "count", refuse)
    rng = np.random.default_rng(3)
    parsed = parse(rule)
    outcomes = set()
    for _ in range(200):
        n_rows, n_values = int(rng.integers(1, 12)), int(rng.integers(1, 5))
        values = {name: rng.integers(0, n_values, n_rows).tolist() for name in "abcg"}
        if rng.random() < 0.5:
            values["b"][0] = None
        table = pa.table({name: pa.array(column, pa.int64()) for name, column in values.items()})
        rows = table.to_pylist()
        verdict = naysay.verify(table, rule, nulls=nulls)
        assert verdict.holds == naive.verify(rows, parsed, Nulls(nulls))
        if verdict.witness is not None:
            pair = (verdict.witness.left["row"], verdict.witness.right["row"])
            assert pair in naive.pairs(rows, parsed, Nulls(nulls))
        outcomes.add(verdict.holds)
    assert outcomes == {True, False}


@pytest.mark.parametrize("rule", ["key(a)", "a -> b", "not(t.a == s.a and t.b != s.b and t.c != s.c)"])
def test_the_rows_of_a_violation_both_ways_are_in_table_order(rule: str) -> None:
    table = pa.table({"a": [3, 1, 2, 1], "b": [0, 5, 0, 4], "c": [0, 2, 0, 1]})
    witness = naysay.verify(table, rule).witness
    assert witness is not None
    assert (witness.left, witness.right) == ({"row": 1}, {"row": 3})


@pytest.mark.parametrize("n_values", [30, 1 << 40])
def test_only_rows_that_may_meet_are_joined(n_values: int) -> None:
    """Each equality leaves out the rows outside the range of the other side; the answers stay what they are."""
    rng = np.random.default_rng(8)
    wide, narrow = rng.integers(0, n_values, 900), rng.integers(0, n_values // 10, 900)
    wide[:300], narrow[:300] = rng.integers(0, 3, (2, 300))
    table = pa.table({"a": wide, "b": narrow})
    join = join_of(parse("not(t.a == s.b and t.b == s.a)"))
    bound = bind(from_frame(table), join, Nulls.SQL)
    meeting = partners.that_may_meet(bound)
    assert 300 <= meeting.left.n_rows < 450
    meets = (wide[:, None] == narrow) & (narrow[:, None] == wide)
    np.fill_diagonal(meets, False)
    assert partners.partners(bound).tolist() == meets.sum(axis=1).tolist()
    assert violations.count(bound) == meets.sum()
    witness = violations.verify(bound)
    assert witness is not None
    assert meets[witness]
    # Where most rows may meet, they stay as they are.
    same = bind(from_frame(table), join_of(parse("not(t.a == s.a and t.a < s.b)")), Nulls.SQL)
    assert partners.that_may_meet(same) is same


def test_sides_that_meet_are_counted_part_by_part() -> None:
    rng = np.random.default_rng(9)
    for n_left, n_right in ((0, 50), (50, 0), (1, 1), (700, 900), (900, 700)):
        left, right = rng.integers(0, 1 << 40, n_left) % 300 << 30, rng.integers(0, 300, n_right) << 30
        expected = int((left[:, None] == right).sum())
        assert partners.count_equal(left, right, 1 << 40) == expected
