"""Rules as SQL queries that list or count their violations, for DuckDB, PostgreSQL and Spark.

A query means what naysay means, with the exceptions that `notes` gives for each dialect. Queries are self-joins, for
reading, auditing and small tables; naysay itself never forms the pairs.
"""

from __future__ import annotations

import datetime
import math
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from naysay.errors import UsageError
from naysay.plan.join import join_of
from naysay.rule import (
    Between,
    Column,
    Constant,
    Domain,
    Missing,
    Nulls,
    OneOf,
    Op,
    Pattern,
    Predicate,
    Row,
    Rule,
    render,
)
from naysay.rule.model import constants_of
from naysay.rule.pattern import portable


class Dialect(Enum):
    DUCKDB = "duckdb"
    POSTGRES = "postgres"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class Query:
    """What to query: the table, the columns that identify a row, what null means, and whether to count or to list."""

    table: str = "data"
    key: tuple[str, ...] = ()
    nulls: Nulls = Nulls.SQL
    count: bool = False


_OPS = {Op.EQ: "=", Op.NE: "<>", Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">="}
_NULL_SAFE = {Op.EQ: "is not distinct from", Op.NE: "is distinct from"}
_MOST_DIGITS = 38
# A model or source of dbt, which is used in a query unchanged.
_DBT_TABLE = re.compile(r"""\{\{ *(ref|source)\((('[\w. -]+'|"[\w. -]+")(, *)?)+\) *\}\}""")
_JINJA = ("{{", "{%", "{#")


def to_sql(rule: Rule, dialect: Dialect, query: Query) -> str:
    """Write one statement with a comment that names the rule; raise UsageError if the dialect cannot express it.

    A table such as `{{ ref('people') }}` makes a singular dbt test, without a semicolon because dbt wraps the query.

    >>> from naysay.rule import parse
    >>> print(to_sql(parse("zip -> city"), Dialect.DUCKDB, Query("people", count=True)))
    -- not(t.zip == s.zip and t.city != s.city)
    select count(*) as violations
    from "people" as t
    join "people" as s
      on t."zip" = s."zip"
     and t."city" <> s."city";
    """
    comment = "".join(f"-- {line}\n" for line in _comment(rule))
    text = comment + _statement(rule, dialect, query)
    if not _DBT_TABLE.fullmatch(query.table):
        return text + ";"
    if any(mark in text.replace(query.table, "") for mark in _JINJA):
        raise UsageError(f"{render(rule)} contains braces that dbt would interpret; rename the column or the constant")
    return text


def notes(rule: Rule, dialect: Dialect) -> Iterator[str]:
    """Say where the dialect may differ from naysay."""
    if dialect is Dialect.POSTGRES and any(predicate.op.is_order for predicate in rule.predicates):
        yield 'PostgreSQL orders text by its collation, naysay by bytes; give such columns the collation "C"'
    if any(
        isinstance(predicate.right, Column) and predicate.right.name != predicate.left.name
        for predicate in rule.predicates
    ):
        yield "decimals and integers beyond 2^53 are rounded when compared with a double; naysay compares them exactly"
    odd = [value for value in _numbers(rule) if not _is_single(value)]
    if any(value.is_integer() for value in odd):
        yield "an integer is rounded when compared with a float that cannot represent it; naysay compares it exactly"
    if dialect is not Dialect.DUCKDB and not all(value.is_integer() for value in odd):
        yield "a fraction such as 0.1 is a double and equals no 32-bit float; naysay reads it in 32 bits, so cast it"


def _numbers(rule: Rule) -> Iterator[float]:
    """The numeric constants that are finite as doubles."""
    for value in (constant.value for predicate in rule.predicates for constant in constants_of(predicate.right)):
        if isinstance(value, (int, float, Decimal)) and math.isfinite(nearest := _nearest(value)):
            yield nearest


def _nearest(value: int | float | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _is_single(value: float) -> bool:
    """Whether a 32-bit float can represent it."""
    try:
        return bool(struct.unpack("<f", struct.pack("<f", value))[0] == value)
    except OverflowError:
        return False


def _comment(rule: Rule) -> Iterator[str]:
    for text in (rule.name, render(rule)):
        if text:
            # A line break in a name must not end the comment.
            yield "".join(character if character.isprintable() else " " for character in text)


def _statement(rule: Rule, dialect: Dialect, query: Query) -> str:
    join = join_of(rule)
    table = query.table
    if not _DBT_TABLE.fullmatch(table):
        table = ".".join(quoted(part, dialect) for part in _parts(table))
    conditions = [_condition(predicate, dialect, query.nulls) for predicate in rule.predicates]
    if rule.is_one_row:
        wanted = "count(*) as violations" if query.count else "t.*"
        return f"select {wanted}\nfrom {table} as t\nwhere " + "\n  and ".join(conditions)
    head, identity = "", list(query.key)
    if not join.irreflexive:
        # Rows are distinguished by number: a duplicate key, which may be the very error, would hide its own pairs.
        head, table = _numbered(rule, table, dialect)
        conditions.append("t.naysay_row <> s.naysay_row")
    elif not query.key and not query.count and dialect is not Dialect.SPARK:
        head, table = _numbered(rule, table, dialect)
    if head and not identity:
        identity = ["naysay_row"]
    wanted = "count(*) as violations" if query.count else _pair_columns(rule, dialect, identity)
    return f"{head}select {wanted}\nfrom {table} as t\njoin {table} as s\n  on " + "\n and ".join(conditions)


def _numbered(rule: Rule, table: str, dialect: Dialect) -> tuple[str, str]:
    """Number the rows, so that equal rows stay distinct and no row is compared with itself."""
    if dialect is Dialect.SPARK:
        raise UsageError(
            f"Spark SQL has no stable row number, so a query for {render(rule)} cannot tell a row from itself; "
            "naysay check does check it on Spark"
        )
    numbered = f"select row_number() over () - 1 as naysay_row, * from {table}"
    return f"with naysay_rows as materialized ({numbered})\n", "naysay_rows"


def _pair_columns(rule: Rule, dialect: Dialect, identity: Sequence[str]) -> str:
    """Both rows' identity and compared columns, the left row's first."""
    wanted = []
    for row, side in ((Row.LEFT, "left"), (Row.RIGHT, "right")):
        names = dict.fromkeys([*identity, *(column.name for column in rule.columns if column.row is row)])
        wanted += [f"{_column(Column(row, name), dialect)} as {quoted(f'{side}_{name}', dialect)}" for name in names]
    return ",\n       ".join(wanted)


def _condition(predicate: Predicate, dialect: Dialect, nulls: Nulls) -> str:
    left = _column(predicate.left, dialect)
    right = predicate.right
    if isinstance(right, Domain):
        return _domain(left, predicate.op, right, dialect)
    other = _column(right, dialect) if isinstance(right, Column) else _constant(right, dialect)
    if dialect is Dialect.POSTGRES and isinstance(right, Constant) and isinstance(right.value, str):
        other += ' collate "C"'
    if nulls is Nulls.EQUAL and predicate.op in _NULL_SAFE:
        return f"{left} {_NULL_SAFE[predicate.op]} {other}"
    return f"{left} {_OPS[predicate.op]} {other}"


def _domain(left: str, op: Op, domain: Domain, dialect: Dialect) -> str:
    negated = "" if op is Op.EQ else "not "
    if isinstance(domain, Missing):
        return f"{left} is {'null' if op is Op.EQ else 'not null'}"
    if isinstance(domain, Pattern):
        pattern = _text(portable(domain.text), dialect)
        if dialect is Dialect.POSTGRES:
            raise UsageError("PostgreSQL has other regular expressions; naysay check does match patterns")
        match = f"regexp_matches({left}, {pattern})" if dialect is Dialect.DUCKDB else f"{left} rlike {pattern}"
        return negated + match
    values = [_constant(constant, dialect) for constant in constants_of(domain)]
    if isinstance(domain, OneOf):
        return f"{left} {negated}in ({', '.join(values)})"
    assert isinstance(domain, Between)
    if dialect is Dialect.POSTGRES and isinstance(domain.low.value, str):
        left += ' collate "C"'
    # The parentheses keep the range apart from the conditions that follow.
    return f"({left} {negated}between {values[0]} and {values[1]})"


def _column(column: Column, dialect: Dialect) -> str:
    return f"{column.row.value}.{quoted(column.name, dialect)}"


def quoted(name: str, dialect: Dialect) -> str:
    """Quote a name for the dialect."""
    if not name or "\0" in name:
        raise UsageError(f"{name!r} cannot be a name in SQL")
    mark = "`" if dialect is Dialect.SPARK else '"'
    return mark + name.replace(mark, mark * 2) + mark


def _parts(table: str) -> list[str]:
    """The parts of `schema.table`; a name that contains a dot is given in double quotes."""
    if len(table) > 1 and table.startswith('"') and table.endswith('"'):
        return [table[1:-1].replace('""', '"')]
    return table.split(".")


def _constant(constant: Constant, dialect: Dialect) -> str:
    value = constant.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _text(value, dialect)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, float):
        return _float(value, dialect)
    return _time(value, dialect)


def _text(value: str, dialect: Dialect) -> str:
    if "\0" in value and dialect is not Dialect.SPARK:
        raise UsageError(f"{dialect.value} cannot represent text with a NUL character")
    if dialect is Dialect.SPARK:
        value = value.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\u0000")
        return f"'{value}'"
    return "'" + value.replace("'", "''") + "'"


def _decimal(value: Decimal) -> str:
    if not value.is_finite() or len(value.as_tuple().digits) > _MOST_DIGITS:
        raise UsageError(f"SQL cannot represent the decimal {value} exactly")
    # Beyond the range of SQL decimals there are only doubles.
    plain, nearest = format(value, "f"), float(value)
    return plain if _n_digits(plain) <= _MOST_DIGITS or not math.isfinite(nearest) else repr(nearest)


def _float(value: float, dialect: Dialect) -> str:
    if not math.isfinite(value):
        name = "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        return f"cast('{name}' as {'double precision' if dialect is Dialect.POSTGRES else 'double'})"
    # Without an exponent a fraction is a decimal, which SQL converts to the type of the other column, as naysay does.
    plain = format(Decimal(repr(value)), "f")
    return plain if _n_digits(plain) <= _MOST_DIGITS else repr(value)


def _n_digits(plain: str) -> int:
    return sum(character.isdigit() for character in plain)


def _time(value: datetime.date | datetime.time, dialect: Dialect) -> str:
    if isinstance(value, datetime.datetime):
        if dialect is Dialect.SPARK:
            kind = "timestamp_ltz" if value.tzinfo is not None else "timestamp_ntz"
        else:
            kind = "timestamptz" if value.tzinfo is not None else "timestamp"
        return f"{kind} '{value.isoformat(' ')}'"
    return f"{'date' if isinstance(value, datetime.date) else 'time'} '{value.isoformat()}'"
