"""The second oracle: the same questions as a self-join on DuckDB.

It shares nothing with the first: DuckDB decides what null, NaN, text and time mean. Cases in which DuckDB is known to
differ from us are skipped, and `why_not` names the difference:

- "inexact double": DuckDB compares a float with an integer or decimal as two doubles, we compare exactly; it matters
  if a value has no exact double.
- "wide decimal": DuckDB converts two numbers to one decimal type of at most 38 digits, and these do not fit.
- "type": DuckDB has no such type, or cannot read it from Arrow.
- "too small": DuckDB rounds a fraction that is too small for a 32-bit float to zero; we keep it as it is.
- "range": DuckDB converts two timestamps to one 64-bit unit, and these do not fit.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from naysay.rule.model import Between, Column, Constant, Domain, Missing, Nulls, OneOf, Op, Pattern, Predicate, Rule

_SQL = {Op.EQ: "=", Op.NE: "<>", Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">="}
_SQL_EQUAL = {**_SQL, Op.EQ: "is not distinct from", Op.NE: "is distinct from"}
_MAX_DIGITS = 38
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_FINEST_FIRST = ("time_ns", "timestamp_ns", "timestamptz_ns", "timestamp", "timestamptz")


class _Differs(Exception):
    """A comparison that DuckDB and naysay are known to treat differently."""


@dataclass(frozen=True, slots=True)
class _Operand:
    """One side of a comparison: its SQL, the class of its type, and its values if exactness depends on them."""

    sql: str
    kind: str
    values: tuple[Any, ...] = ()
    parameter: tuple[Any, ...] = ()


def sql_count(con: duckdb.DuckDBPyConnection, table: pa.Table, rule: Rule, nulls: Nulls = Nulls.SQL) -> int | None:
    """How many ordered pairs (rows, for a one-row rule) break the rule; None if `why_not` has a reason."""
    answer = _ask(con, table, rule, nulls, "count(*)")
    return None if answer is None else int(answer[0][0])


def sql_violations(
    con: duckdb.DuckDBPyConnection, table: pa.Table, rule: Rule, nulls: Nulls = Nulls.SQL
) -> set[tuple[int, ...]] | None:
    """The violations as tuples of row numbers; None if `why_not` has a reason."""
    answer = _ask(con, table, rule, nulls, "t.row" if rule.is_one_row else "t.row, s.row")
    return None if answer is None else set(answer)


def conditions(table: pa.Table, rule: Rule, nulls: Nulls) -> list[tuple[str, tuple[Any, ...]]] | None:
    """The predicates as SQL about t.c0, s.c1 and so on, with their parameters; None if `why_not` has a reason."""
    try:
        return [_condition(table, predicate, nulls) for predicate in rule.predicates]
    except _Differs:
        return None


def why_not(table: pa.Table, rule: Rule) -> str:
    """The named difference for which a case is skipped, or an empty text."""
    try:
        for predicate in rule.predicates:
            _condition(table, predicate, Nulls.SQL)
    except _Differs as difference:
        return str(difference)
    return ""


def _ask(
    con: duckdb.DuckDBPyConnection, table: pa.Table, rule: Rule, nulls: Nulls, wanted: str
) -> list[tuple[Any, ...]] | None:
    found = conditions(table, rule, nulls)
    if found is None:
        return None
    # Columns get numbered names: DuckDB ignores case in names, and no name ever reaches a parser.
    numbered = table.rename_columns([f"c{i}" for i in range(table.num_columns)])
    numbered = numbered.select(sorted({table.column_names.index(name) for name in rule.column_names}))
    numbered = numbered.append_column("row", pa.array(range(table.num_rows), pa.int64()))
    source = "r t" if rule.is_one_row else "r t join r s on t.row <> s.row"
    where = " and ".join(text for text, _ in found)
    con.register("r", numbered)
    try:
        parameters = [value for _, values in found for value in values]
        answer = con.execute(f"select {wanted} from {source} where {where}", parameters).fetchall()
        return list(answer)
    finally:
        con.unregister("r")


def _condition(table: pa.Table, predicate: Predicate, nulls: Nulls) -> tuple[str, tuple[Any, ...]]:
    """A predicate as SQL, and the values of its parameters."""
    left = _column(table, predicate.left)
    right = predicate.right
    if isinstance(right, Domain):
        return _in_domain(table, predicate, right)
    other = _column(table, right) if isinstance(right, Column) else _constant(right)
    type = "float" if _is_read_in_32_bits(table, predicate) else _common_type(left, other)
    op = (_SQL_EQUAL if nulls is Nulls.EQUAL else _SQL)[predicate.op]
    text = f"(cast({left.sql} as {type}) {op} cast({other.sql} as {type}))"
    return text, left.parameter + other.parameter


def _in_domain(table: pa.Table, predicate: Predicate, domain: Domain) -> tuple[str, tuple[Any, ...]]:
    """A list as several equalities, a range as two comparisons. SQL finds that a null is neither in nor out."""
    sql = _column(table, predicate.left).sql
    if isinstance(domain, Missing):
        return f"({sql} is {'' if predicate.op is Op.EQ else 'not '}null)", ()
    if isinstance(domain, Pattern):
        text, values = f"regexp_full_match({sql}, ?)", (domain.text,)
    else:
        ends = (domain.low, domain.high) if isinstance(domain, Between) else ()
        parts = [*zip((Op.GE, Op.LE), ends, strict=False)]
        if isinstance(domain, OneOf):
            parts = [(Op.EQ, constant) for constant in domain.values]
        found = [_condition(table, Predicate(predicate.left, op, constant), Nulls.SQL) for op, constant in parts]
        text = (" and " if ends else " or ").join(part for part, _ in found)
        values = tuple(value for _, some in found for value in some)
    return f"({text})" if predicate.op is Op.EQ else f"(not ({text}))", values


def _is_read_in_32_bits(table: pa.Table, predicate: Predicate) -> bool:
    """A fraction compared with 32-bit floats, converted to that type by DuckDB's own cast."""
    value = predicate.right.value if isinstance(predicate.right, Constant) else None
    if not isinstance(value, float) or not pa.types.is_float32(table.column(predicate.left.name).type):
        return False
    if 0 < abs(value) < 1e-44:
        raise _Differs("too small")
    return value % 1 != 0


def _column(table: pa.Table, column: Column) -> _Operand:
    place = table.column_names.index(column.name)
    values = table.column(place)
    sql, type = f"{column.row.value}.c{place}", values.type
    if pa.types.is_dictionary(type):
        type = type.value_type
    if _is_unknown(type):
        raise _Differs("type")
    if pa.types.is_integer(type):
        return _Operand(sql, "int", _distinct(values))
    if pa.types.is_decimal(type):
        return _Operand(sql, "decimal", _distinct(values))
    if pa.types.is_floating(type):
        return _Operand(sql, "double")
    if pa.types.is_boolean(type):
        return _Operand(sql, "boolean")
    if pa.types.is_date(type):
        return _Operand(sql, "date")
    if pa.types.is_time(type):
        return _Operand(sql, "time_ns" if type.unit == "ns" else "time")
    if pa.types.is_timestamp(type):
        return _Operand(sql, _timestamp(type.unit, type.tz), _nanoseconds(values))
    return _Operand(sql, "varchar")


def _is_unknown(type: pa.DataType) -> bool:
    wide = pa.types.is_decimal256(type) or (pa.types.is_decimal(type) and type.scale < 0)
    return wide or pa.types.is_float16(type) or pa.types.is_null(type)


def _constant(constant: Constant) -> _Operand:
    value = constant.value
    if isinstance(value, bool):
        return _Operand("?", "boolean", (), (value,))
    if isinstance(value, int):
        return _Operand("?", "int", (value,), (str(value),))
    if isinstance(value, Decimal):
        return _Operand("?", "decimal", (value,), (format(value, "f"),))
    if isinstance(value, float):
        return _Operand("?", "double", (), (value,))
    if isinstance(value, str):
        return _Operand("?", "varchar", (), (value,))
    if isinstance(value, datetime.datetime):
        epoch = datetime.datetime(1970, 1, 1, tzinfo=value.tzinfo and datetime.timezone.utc)
        since = (value - epoch) // datetime.timedelta(microseconds=1) * 1000
        kind = _timestamp("us", None if value.tzinfo is None else "UTC")
        return _Operand("?", kind, (since,), (value.isoformat(),))
    return _Operand("?", "date" if isinstance(value, datetime.date) else "time", (), (value.isoformat(),))


def _common_type(left: _Operand, right: _Operand) -> str:
    """The DuckDB type in which both sides can be compared without loss."""
    kinds = {left.kind, right.kind}
    values = left.values + right.values
    if kinds <= {"int", "decimal", "double"}:
        if "double" in kinds:
            if any(Decimal(float(value)) != value for value in values):
                raise _Differs("inexact double")
            return "double"
        return _decimal(values) if "decimal" in kinds else "hugeint"
    if len(kinds) == 1:
        return left.kind
    finest = next(kind for kind in _FINEST_FIRST if kind in kinds)
    if finest in ("timestamp_ns", "timestamptz_ns") and any(not -(2**63) < value < 2**63 for value in values):
        raise _Differs("range")
    return finest


def _decimal(values: tuple[Any, ...]) -> str:
    scale, whole = 0, 1
    for value in map(Decimal, values):
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        scale = max(scale, -exponent)
        whole = max(whole, len(digits) + exponent)
    if scale + whole > _MAX_DIGITS:
        raise _Differs("wide decimal")
    return f"decimal({_MAX_DIGITS}, {scale})"


def _timestamp(unit: str, zone: str | None) -> str:
    return ("timestamp" if zone is None else "timestamptz") + ("_ns" if unit == "ns" else "")


def _nanoseconds(column: pa.ChunkedArray) -> tuple[int, ...]:
    scale = _NANOSECONDS[column.type.unit]
    return tuple(value * scale for value in _distinct(column.cast(pa.int64())))


def _distinct(column: pa.ChunkedArray) -> tuple[Any, ...]:
    return tuple(value for value in dict.fromkeys(column.to_pylist()) if value is not None)
