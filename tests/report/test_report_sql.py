"""Rules as SQL: on DuckDB the queries give the oracle's answers."""

from __future__ import annotations

import datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from cases import rows_of
from naysay.errors import RuleError, UsageError
from naysay.report.sql import Dialect, Query, notes, to_sql
from naysay.rule import Column, Constant, Nulls, Op, Predicate, Row, Rule, parse

# Several columns of each type, which can be compared; names that would break out of careless quoting.
NAMES = {"number": ["id", "n", 'n"2', "select"], "text": ["x y", "x'; drop table t; --"], "day": ["d"]}
VALUES: dict[str, list[Any]] = {
    "number": [None, -1, 0, 1, 2**53 + 1],
    "text": [None, "", "a", "b", "it's", "ä", "\\", '"'],
    "day": [None, datetime.date(2024, 1, 31), datetime.date(1969, 12, 31)],
}
TYPES = {"number": pa.int64(), "text": pa.string(), "day": pa.date32()}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    n_rows = draw(st.integers(0, 7))
    # `place` identifies rows for the comparison; `id` is a realistic key: it may repeat, or be null.
    identities = st.lists(st.sampled_from([None, 1, 2, 3]), min_size=n_rows, max_size=n_rows)
    columns = {"place": pa.array(range(n_rows), pa.int64()), "id": pa.array(draw(identities), pa.int64())}
    for kind, names in NAMES.items():
        for name in names:
            if name in columns:
                continue
            values = draw(st.lists(st.sampled_from(VALUES[kind]), min_size=n_rows, max_size=n_rows))
            columns[name] = pa.array(values, TYPES[kind])
    return pa.table(columns)


@st.composite
def predicates(draw: st.DrawFn) -> Predicate:
    kind = draw(st.sampled_from(sorted(NAMES)))
    left = Column(draw(st.sampled_from(Row)), draw(st.sampled_from(NAMES[kind])))
    if draw(st.booleans()) and draw(st.booleans()):
        values = [value for value in VALUES[kind] if value is not None]
        return Predicate(left, draw(st.sampled_from(Op)), Constant(draw(st.sampled_from(values))))
    right = Column(left.row.other, draw(st.sampled_from(NAMES[kind])))
    return Predicate(left, draw(st.sampled_from(Op)), right)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    rule = Rule(tuple(draw(st.lists(predicates(), min_size=1, max_size=3))))
    if all(column.row is Row.RIGHT for column in rule.columns):
        return Rule(tuple(predicate.swapped() for predicate in rule.predicates))
    return rule


def asked(table: pa.Table, text: str) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        connection.register("arrow_table", table)
        connection.execute('create schema "a.b"; create table "a.b"."my ""table" as select * from arrow_table')
        connection.execute('create view "my ""table" as select * from "a.b"."my ""table"')
        answer = connection.execute(text)
        names = [column[0] for column in answer.description]
        return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


@given(tables(), rules(), st.sampled_from(Nulls), st.booleans())
def test_duckdb_answers_as_the_oracle(table: pa.Table, rule: Rule, nulls: Nulls, with_key: bool) -> None:
    rows = table.to_pylist()
    expected = naive.violations(rows, rule, nulls)
    query = Query('my "table', ("id", "place") if with_key else (), nulls)
    found = asked(table, to_sql(rule, Dialect.DUCKDB, query))
    if rule.is_one_row:
        pairs = {(row["place"],) for row in found}
    else:
        name = "place" if with_key else "naysay_row"
        pairs = {(row[f"left_{name}"], row[f"right_{name}"]) for row in found}
    assert pairs == expected
    assert len(found) == len(expected)
    # A repeated key does not identify rows, but every pair is there.
    by_id = asked(table, to_sql(rule, Dialect.DUCKDB, Query('my "table', ("id",), nulls)))
    assert len(by_id) == len(expected)
    (counted,) = asked(table, to_sql(rule, Dialect.DUCKDB, Query('my "table', query.key, nulls, count=True)))
    assert counted["violations"] == len(expected)


@pytest.mark.parametrize(
    ("text", "dialect", "query", "expected"),
    [
        (
            "zip: ZipCode -> City",
            Dialect.SPARK,
            Query("lake.people"),
            "-- zip\n-- not(t.ZipCode == s.ZipCode and t.City != s.City)\n"
            "select t.`ZipCode` as `left_ZipCode`,\n       t.`City` as `left_City`,\n"
            "       s.`ZipCode` as `right_ZipCode`,\n       s.`City` as `right_City`\n"
            "from `lake`.`people` as t\njoin `lake`.`people` as s\n"
            "  on t.`ZipCode` = s.`ZipCode`\n and t.`City` <> s.`City`;",
        ),
        (
            "not(t.a == 'it\\'s' and t.b >= timestamp '2024-01-31 00:00:00+01:00')",
            Dialect.POSTGRES,
            Query(nulls=Nulls.EQUAL, count=True),
            "-- not(t.a == \"it's\" and t.b >= timestamp '2024-01-31 00:00:00+01:00')\n"
            'select count(*) as violations\nfrom "data" as t\n'
            "where t.\"a\" is not distinct from 'it''s' collate \"C\"\n"
            "  and t.\"b\" >= timestamptz '2024-01-31 00:00:00+01:00';",
        ),
        (
            "not(t.a == 'it\\'s \\\\ here' and t.b > 0.1)",
            Dialect.SPARK,
            Query(),
            '-- not(t.a == "it\'s \\\\ here" and t.b > 0.1)\n'
            "select t.*\nfrom `data` as t\nwhere t.`a` = 'it\\'s \\\\ here'\n  and t.`b` > 0.1;",
        ),
        (
            "key(a)",
            Dialect.POSTGRES,
            Query(key=("a",), count=True),
            "-- not(t.a == s.a)\n"
            'with naysay_rows as materialized (select row_number() over () - 1 as naysay_row, * from "data")\n'
            "select count(*) as violations\nfrom naysay_rows as t\njoin naysay_rows as s\n"
            '  on t."a" = s."a"\n and t.naysay_row <> s.naysay_row;',
        ),
    ],
)
def test_dialects(text: str, dialect: Dialect, query: Query, expected: str) -> None:
    assert to_sql(parse(text), dialect, query) == expected


@pytest.mark.parametrize(
    ("constant", "expected"),
    [
        ("1e300", "1e+300"),
        ("1e23", "100000000000000000000000"),
        ("12345678901234567.89", "12345678901234567.89"),
        ("0.1", "0.1"),
    ],
)
def test_long_numbers_are_what_sql_can_hold(constant: str, expected: str) -> None:
    text = to_sql(parse(f"not(t.a > {constant})"), Dialect.DUCKDB, Query())
    assert text.endswith(f'where t."a" > {expected};')


def test_a_name_cannot_leave_its_comment() -> None:
    rule = Rule(parse("key(a)").predicates, name="x\ndrop table data; --\r\u2028y")
    first, *rest = to_sql(rule, Dialect.DUCKDB, Query()).split("\n")
    assert first == "-- x drop table data; --  y"
    assert rest[0] == "-- not(t.a == s.a)"


def test_a_nul_before_digits_stays_one() -> None:
    # For Spark, a backslash followed by 0 and digits would be another character.
    assert "'a\\u000012'" in to_sql(parse("not(t.a == 'a\\u000012')"), Dialect.SPARK, Query())


def test_what_sql_cannot_say_is_refused() -> None:
    for key in ((), ("a",), ("id",)):
        with pytest.raises(UsageError, match="tell a row from itself"):
            to_sql(parse("key(a)"), Dialect.SPARK, Query(key=key))
    with pytest.raises(UsageError, match="NUL"):
        to_sql(parse('not(t.a == "\\0")'), Dialect.POSTGRES, Query())


def test_differences_are_named() -> None:
    assert not list(notes(parse("a -> b"), Dialect.DUCKDB))
    assert "collation" in next(notes(parse("ordered(a, b)"), Dialect.POSTGRES))
    assert "2^53" in next(notes(parse("not(t.a == s.b)"), Dialect.DUCKDB))
    for dialect in Dialect:
        assert not list(notes(parse("not(t.a == 0.5 and t.b == 16777216 and t.c == nan and t.d == 'x')"), dialect))
        assert "an integer is rounded" in next(notes(parse("not(t.a == 16777217)"), dialect))
        assert bool(list(notes(parse("not(t.a == 0.1)"), dialect))) == (dialect is not Dialect.DUCKDB)


@pytest.mark.parametrize("op", list(Op))
@pytest.mark.parametrize("constant", ["0.1", "0.1000000001", "decimal '0.1'", "16777216.5", "1.2345678", "1e-300"])
def test_duckdb_reads_fractions_in_32_bits_as_the_oracle(constant: str, op: Op) -> None:
    values = pa.array([0.1, 0.5, 16777216.0, 16777218.0, 1.2345678, 0.0, None], pa.float32())
    table = pa.table({"x": values, "place": range(len(values))})
    rule = parse(f"not(t.x {op.value} {constant})")
    found = asked(table, to_sql(rule, Dialect.DUCKDB, Query('my "table')))
    assert {(row["place"],) for row in found} == naive.violations(rows_of(table), rule)


def test_a_test_for_dbt_has_its_model_as_it_is_and_no_semicolon() -> None:
    query = Query("{{ ref('people') }}", key=("id",))
    text = to_sql(parse("key(zip)"), Dialect.DUCKDB, query)
    assert text.count("{{ ref('people') }}") == 1
    assert not text.rstrip().endswith(";")
    assert '"{{ evil }}"' in to_sql(parse("zip -> city"), Dialect.DUCKDB, Query("{{ evil }}"))
    with pytest.raises(UsageError, match="braces"):
        to_sql(parse("not(t.a == '{{ evil }}')"), Dialect.DUCKDB, query)


def test_conditions_on_one_column() -> None:
    rule = parse(r"zip matches '\d{5}' where state in ('CA', 'NY') and rate not between 0 and 1 and city is null")
    assert to_sql(rule, Dialect.DUCKDB, Query("people", count=True)).split("\n")[1:] == [
        "select count(*) as violations",
        'from "people" as t',
        r"""where not regexp_matches(t."zip", '\A(?:[0-9]{5})\z')""",
        """  and t."state" in ('CA', 'NY')""",
        '  and (t."rate" not between 0 and 1)',
        '  and t."city" is null;',
    ]
    with pytest.raises(UsageError, match="PostgreSQL has other regular expressions"):
        to_sql(rule, Dialect.POSTGRES, Query("people"))
    with pytest.raises(RuleError, match="row_count > 5 is about the whole table"):
        to_sql(parse("row_count > 5"), Dialect.DUCKDB, Query("people"))
