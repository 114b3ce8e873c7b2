"""The oracle's own tests: its semantics on examples worked out by hand, and agreement with DuckDB."""

from __future__ import annotations

import ast
import datetime
import random
import sys
import zoneinfo
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings

import naive
from cases import Case
from naysay.rule.model import Column, Constant, Nulls, Op, Predicate, Row, Rule
from samples import SORTS
from sql_oracle import sql_count, sql_violations, why_not
from strategies import (
    ALL_FAMILIES,
    FAMILIES,
    PLAIN_FAMILIES,
    cases,
    random_case,
    random_rule,
    random_table,
    rows_of,
    shrink,
)

NAN, INFINITY = float("nan"), float("inf")
UTC = datetime.timezone.utc
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def rule(*parts: str | tuple[str, Any]) -> Rule:
    """`"t.A < s.B"`, or `("t.A <", 3)` for a constant."""
    return Rule(tuple(_predicate(part) for part in parts))


def _predicate(part: str | tuple[str, Any]) -> Predicate:
    if isinstance(part, tuple):
        left, op = part[0].split()
        return Predicate(_operand(left), Op(op), Constant(part[1]))
    left, op, right = part.split()
    return Predicate(_operand(left), Op(op), _operand(right))


def _operand(text: str) -> Column:
    row, name = text.split(".")
    return Column(Row(row), name)


def rows(**columns: list[Any]) -> list[dict[str, Any]]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


ASCENDING: list[list[Any]] = [
    [False, True],
    [-INFINITY, -(2**63), -1, -5e-324, 0, 5e-324, 1, 2**53, 2**53 + 1, 2**64, 1e300, INFINITY, NAN],
    [float(2**53), 2**53 + 1, Decimal(2**53 + 2)],
    [0, Decimal("0.1"), 0.1, Decimal("0.2"), 1],
    [Decimal("-0.01"), -0.0, Decimal("1e-30"), Decimal("1e28"), Decimal(10**28 + 1), INFINITY, NAN],
    ["", "A", "Z", "a", "a\x00", "a\x00b", "ab", "b", "e\u0301", "z", "é", "\uff5e", "\U0001f600"],
    [datetime.date.min, datetime.date(2024, 2, 29), datetime.date(2024, 3, 1)],
    [datetime.time(0), datetime.time(0, 0, 0, 1), naive.Moment("time", 1001), datetime.time(23, 59, 59, 999999)],
    [
        naive.Moment("local", -(2**63)),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
        naive.Moment("local", -1),
        datetime.datetime(1970, 1, 1),
        naive.Moment("local", 1),
        datetime.datetime.max,
    ],
    # The clock in Berlin goes back from 3:00 to 2:00, so 2:30 occurs twice; the second 2:10 is after the first 2:30.
    [
        datetime.datetime(2023, 10, 29, 2, 30, tzinfo=BERLIN),
        datetime.datetime(2023, 10, 29, 0, 45, tzinfo=UTC),
        datetime.datetime(2023, 10, 29, 2, 10, tzinfo=BERLIN, fold=1),
        datetime.datetime(2023, 10, 29, 2, 30, tzinfo=BERLIN, fold=1),
        naive.Moment("instant", 1_698_543_000_000_000_001),
    ],
]


@pytest.mark.parametrize("values", ASCENDING, ids=lambda values: naive.kind_of(values[0]))
def test_values_in_ascending_order(values: list[Any]) -> None:
    for i, left in enumerate(values):
        for j, right in enumerate(values):
            for op in Op:
                assert naive.compare(op, left, right) == op.compare(i, j), (op, left, right)


EQUAL: list[list[Any]] = [
    [0, 0.0, -0.0, Decimal("0.00"), Decimal("-0")],
    [1, 1.0, Decimal("1"), Decimal("1.000")],
    [2**53, float(2**53), Decimal(2**53)],
    [2**63, 2.0**63],
    [0.1, Decimal.from_float(0.1)],
    [NAN, float("nan"), -NAN],
    [INFINITY, float("inf")],
    [datetime.datetime(2024, 1, 1, 12, tzinfo=UTC), datetime.datetime(2024, 1, 1, 13, tzinfo=BERLIN)],
    [datetime.datetime(1970, 1, 1, 0, 0, 1), naive.Moment("local", 10**9)],
    [datetime.time(1), naive.Moment("time", 3600 * 10**9)],
]


@pytest.mark.parametrize("values", EQUAL, ids=repr)
def test_equal_values(values: list[Any]) -> None:
    for left in values:
        for right in values:
            assert [naive.compare(op, left, right) for op in Op] == [True, False, False, True, False, True]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (True, 1),
        ("1", 1),
        (datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1)),
        (datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, tzinfo=UTC)),
        (datetime.time(0), datetime.datetime(2024, 1, 1)),
        (b"a", b"a"),
    ],
)
def test_values_that_do_not_compare(left: Any, right: Any) -> None:
    with pytest.raises(TypeError):
        naive.compare(Op.EQ, left, right)


def test_null_is_never_true_in_sql() -> None:
    for op in Op:
        for left, right in ((None, None), (None, 1), (1, None), (None, NAN)):
            assert not naive.compare(op, left, right, Nulls.SQL)


def test_null_as_a_value_equals_itself_and_has_no_order() -> None:
    both = {op: naive.compare(op, None, None, Nulls.EQUAL) for op in Op}
    assert both == {Op.EQ: True, Op.NE: False, Op.LT: False, Op.LE: False, Op.GT: False, Op.GE: False}
    for left, right in ((None, 1), ("", None), (None, NAN)):
        one = {op: naive.compare(op, left, right, Nulls.EQUAL) for op in Op}
        assert one == {Op.EQ: False, Op.NE: True, Op.LT: False, Op.LE: False, Op.GT: False, Op.GE: False}


# State, Salary, Rate: row 3 earns more than row 1 at a lower rate, rows 0 and 2 are equal, row 4 is in another state.
TAX = rows(
    state=["NY", "NY", "NY", "NY", "WI", None],
    salary=[100, 200, 100, 300, 500, 900],
    rate=[1.0, 2.0, 1.0, 1.5, 0.5, 0.1],
)


def test_orders_within_a_key() -> None:
    higher_salary_lower_rate = rule("t.state == s.state", "t.salary > s.salary", "t.rate < s.rate")
    assert naive.pairs(TAX, higher_salary_lower_rate) == {(3, 1)}
    assert naive.pairs(TAX, higher_salary_lower_rate.swapped()) == {(1, 3)}
    assert naive.pairs(TAX, rule("t.salary > s.salary", "t.rate < s.rate")) == {
        *((3, 1), (4, 0), (4, 1), (4, 2), (4, 3)),
        *((5, 0), (5, 1), (5, 2), (5, 3), (5, 4)),
    }


def test_equal_rows_are_distinct_and_both_directions_count() -> None:
    same = rule("t.state == s.state", "t.salary == s.salary", "t.rate == s.rate")
    assert naive.pairs(TAX, same) == {(0, 2), (2, 0)}
    assert naive.count(TAX, same) == 2
    assert not naive.verify(TAX, same)
    assert naive.rows_to_remove(TAX, same) == 1


def test_weak_orders_meet_ties_but_never_a_row_itself() -> None:
    table = rows(a=[1, 1, 2])
    assert naive.pairs(table, rule("t.a <= s.a")) == {(0, 1), (1, 0), (0, 2), (1, 2)}
    assert naive.pairs(table[:1], rule("t.a <= s.a")) == set()


def test_functional_dependency() -> None:
    table = rows(zip=[1, 1, 1, 2, 2, None], city=["x", "x", "y", "z", None, "z"])
    broken = rule("t.zip == s.zip", "t.city != s.city")
    assert naive.pairs(table, broken) == {(0, 2), (2, 0), (1, 2), (2, 1)}
    assert naive.pairs(table, broken, Nulls.EQUAL) == {(0, 2), (2, 0), (1, 2), (2, 1), (3, 4), (4, 3)}
    assert naive.rows_in_conflict(table, broken) == {0, 1, 2}
    assert naive.rows_to_remove(table, broken) == 1
    assert naive.rows_to_remove(table, broken, Nulls.EQUAL) == 2


def test_nulls_equal_join_in_a_key_but_not_in_an_order() -> None:
    table = rows(a=[None, None, 1], b=[1, 2, None])
    assert naive.pairs(table, rule("t.a == s.a"), Nulls.EQUAL) == {(0, 1), (1, 0)}
    assert naive.pairs(table, rule("t.a == s.a", "t.b < s.b"), Nulls.EQUAL) == {(0, 1)}
    assert naive.pairs(table, rule("t.a != s.a", "t.b <= s.b"), Nulls.EQUAL) == set()


def test_columns_of_different_names_and_rows() -> None:
    table = rows(boss=[None, 0, 0, 1], id=[0, 1, 2, 3], pay=[9, 10, 5, 5])
    assert naive.pairs(table, rule("t.boss == s.id", "t.pay > s.pay")) == {(1, 0)}
    assert naive.pairs(table, rule("s.id == t.boss", "s.pay < t.pay")) == {(1, 0)}


def test_filters_on_either_row() -> None:
    table = rows(a=[1, 2, 3], b=[1, 1, 1], c=[3, 2, 1])
    assert naive.pairs(table, rule("t.b == s.b", ("t.a >", 1), ("s.a <", 3))) == {(1, 0), (2, 0), (2, 1)}
    assert naive.pairs(table, rule("t.b == s.b", "t.a == t.c")) == {(1, 0), (1, 2)}
    assert naive.pairs(table, rule(("t.a ==", 1), ("s.a ==", 1))) == set()
    assert naive.pairs(table, rule(("t.a ==", 1), ("s.a >=", 1))) == {(0, 1), (0, 2)}


def test_a_written_fraction_is_read_in_the_type_of_its_column() -> None:
    table = rows(f=[0.1], d=[Decimal("0.10")], i=[1])
    for tenth in (0.1, Decimal("0.1")):
        assert naive.singles(table, rule(("t.f ==", tenth))) == {0}
        assert naive.singles(table, rule(("t.d ==", tenth))) == {0}
        assert naive.singles(table, rule(("t.i >", tenth))) == {0}
    assert naive.singles(table, rule("t.f > t.d")) == {0}
    assert naive.singles(rows(f=[float(2**53)]), rule(("t.f ==", 2**53 + 1))) == set()
    assert naive.singles(rows(d=[Decimal(2**53 + 1)]), rule(("t.d ==", float(2**53)))) == set()


def test_one_row_rules() -> None:
    table = rows(a=[1, 2, None, 4], b=[2, 2, 2, None])
    assert naive.violations(table, rule("t.a >= t.b")) == {(1,)}
    assert naive.singles(table, rule("t.a != t.b"), Nulls.EQUAL) == {0, 2, 3}
    assert naive.count(table, rule(("t.a <=", 2))) == 2
    assert naive.rows_in_conflict(table, rule(("t.a <=", 2))) == {0, 1}
    assert naive.rows_to_remove(table, rule(("t.a <=", 2))) == 2
    assert naive.verify(table, rule(("t.a >", 2**60)))


def test_two_sides_with_identities() -> None:
    equal = rule("t.a == s.a")
    old, new = rows(a=[1, 2, 3]), rows(a=[2, 2, 5])
    assert naive.left_right(new, old, equal) == {(0, 1), (1, 1)}
    assert naive.left_right(new, old, equal, Nulls.SQL, [10, 11, 12], [0, 1, 2]) == {(10, 1), (11, 1)}
    assert naive.left_right(old, old, equal, Nulls.SQL, [0, 1, 2], [0, 1, 2]) == set()


def test_blocks_add_up_to_the_whole() -> None:
    rng = random.Random(5)
    for _ in range(100):
        case = random_case(rng)
        if case.rule.is_one_row:
            continue
        table, found = case.rows, set()
        blocks = [list(range(start, len(table), 3)) for start in range(3)]
        for left in blocks:
            for right in blocks:
                found |= naive.left_right(
                    [table[i] for i in left], [table[j] for j in right], case.rule, case.nulls, left, right
                )
        assert found == naive.pairs(table, case.rule, case.nulls), case


def test_smallest_cover_by_trying_all_subsets() -> None:
    rng = random.Random(6)
    for _ in range(300):
        n = rng.randint(1, 7)
        edges = {frozenset(rng.sample(range(n), 2)) for _ in range(rng.randint(0, 12))} if n > 1 else set()
        subsets = (frozenset(i for i in range(n) if bits >> i & 1) for bits in range(1 << n))
        assert naive.smallest_cover(edges) == min(len(part) for part in subsets if all(edge & part for edge in edges))


def test_smallest_cover_of_known_graphs() -> None:
    ring = {frozenset((i, (i + 1) % 7)) for i in range(7)}
    whole = {frozenset((i, j)) for i in range(16) for j in range(i)}
    star = {frozenset((0, i)) for i in range(1, 9)}
    assert [naive.smallest_cover(edges) for edges in (set(), ring, whole, star)] == [0, 4, 15, 1]


def test_the_oracle_imports_the_rules_alone() -> None:
    tree = ast.parse((Path(__file__).parent / "naive.py").read_text(encoding="utf-8"))
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    ours = {module for module in modules if module.split(".")[0] == "naysay"}
    assert ours == {"naysay.rule.model"}
    assert {module.split(".")[0] for module in modules - ours} <= sys.stdlib_module_names


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    # A zone other than UTC, so that treating a timestamp without zone as an instant would be noticed.
    connection.execute("set threads = 1")
    connection.execute("set timezone = 'America/New_York'")
    return connection


def test_the_oracle_agrees_with_duckdb(con: duckdb.DuckDBPyConnection) -> None:
    reasons: Counter[str] = Counter()
    n_cases, n_broken = 2000, 0
    for seed in range(n_cases):
        case = random_case(random.Random(seed))
        reason = why_not(case.table, case.rule)
        if reason:
            reasons[reason] += 1
            continue
        expected = naive.violations(case.rows, case.rule, case.nulls)
        n_broken += bool(expected)
        assert sql_violations(con, case.table, case.rule, case.nulls) == expected, case
        if seed % 10 == 0:
            assert sql_count(con, case.table, case.rule, case.nulls) == len(expected), case
    # Enough cases must be compared, and broken, for agreement to mean something.
    assert set(reasons) <= {"inexact double", "wide decimal", "range", "too small"}
    assert reasons.total() < 0.1 * n_cases, reasons
    assert n_broken > 0.3 * n_cases


@settings(max_examples=40)
@given(cases(max_rows=12, max_columns=5))
def test_the_oracle_agrees_with_duckdb_on_drawn_cases(case: Case) -> None:
    with duckdb.connect() as connection:
        answer = sql_count(connection, case.table, case.rule, case.nulls)
    assert answer is None or answer == naive.count(case.rows, case.rule, case.nulls)


def test_duckdb_is_not_asked_where_it_differs(con: duckdb.DuckDBPyConnection) -> None:
    table = pa.table({"i": pa.array([2**53 + 1]), "f": pa.array([2.0**53]), "d": pa.array([Decimal("0.1")])})
    for text in ("t.i == s.f", "t.d == s.f"):
        assert why_not(table, rule(text)) == "inexact double"
        assert sql_count(con, table, rule(text)) is None
    assert why_not(table, rule("t.i == s.i")) == ""
    wide = pa.table({"a": pa.array([10**18]), "b": pa.array([Decimal("1e-30")], pa.decimal128(38, 30))})
    assert why_not(wide, rule("t.a == s.b")) == "wide decimal"
    far = pa.table({"a": pa.array([2**40], pa.timestamp("s")), "b": pa.array([0], pa.timestamp("ns"))})
    assert why_not(far, rule("t.a == s.b")) == "range"
    assert why_not(pa.table({"a": pa.array([1.0], pa.float16())}), rule("t.a == s.a")) == "type"


def test_random_cases_repeat_and_print_themselves() -> None:
    for seed in range(300):
        families = (FAMILIES, ALL_FAMILIES, PLAIN_FAMILIES)[seed % 3]
        case, again = (random_case(random.Random(seed), families=families) for _ in range(2))
        assert case.script() == again.script()
        case.table.validate(full=True)
        built: dict[str, Any] = {}
        exec(case.script(), built)  # noqa: S102  (our own text, to see that it runs)
        assert repr(rows_of(built["table"])) == repr(case.rows)
        assert built["table"].schema == case.table.schema
        assert (built["rule"], built["nulls"]) == (case.rule, case.nulls)


def test_random_cases_show_every_type_operator_and_form() -> None:
    rng = random.Random(7)
    drawn = [random_case(rng) for _ in range(1500)]
    assert {sort.type for sort in SORTS} == {field.type for case in drawn for field in case.table.schema}
    predicates = [predicate for case in drawn for predicate in case.rule.predicates]
    forms = Counter((p.op, p.left.row, len(p.rows), isinstance(p.right, Constant)) for p in predicates)
    assert {(op, row, 2, False) for op in Op for row in Row} <= set(forms)
    assert {(op, row, 1, constant) for op in Op for row in Row for constant in (False, True)} <= set(forms)
    assert any(p.left.name != p.columns[-1].name and len(p.rows) == 2 for p in predicates)
    assert {case.table.num_rows for case in drawn} >= set(range(25))
    assert any(case.rule.is_one_row for case in drawn)
    assert all(any(column.row is Row.LEFT for column in case.rule.columns) for case in drawn)


def test_rules_for_a_given_table_are_well_typed() -> None:
    rng = random.Random(8)
    for _ in range(200):
        table = random_table(rng, max_rows=6)
        naive.violations(rows_of(table), random_rule(rng, table))


def test_shrinking_keeps_the_failure_and_little_else() -> None:
    def has_an_equal_pair(case: Case) -> bool:
        return not case.rule.is_one_row and naive.count(case.rows, case.rule, case.nulls) >= 2

    rng = random.Random(9)
    failing = [case for case in (random_case(rng) for _ in range(60)) if has_an_equal_pair(case)]
    assert len(failing) > 10
    for case in failing:
        small = shrink(case, has_an_equal_pair)
        assert has_an_equal_pair(small)
        assert small.table.num_rows <= 3
        assert len(small.rule.predicates) <= 2
        assert set(small.table.column_names) == set(small.rule.column_names)
