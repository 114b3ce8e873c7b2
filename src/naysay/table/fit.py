"""Whether a rule fits a table: known columns, comparable types. Every refusal names the column and what to do."""

from __future__ import annotations

import datetime
import difflib
import itertools
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from naysay.errors import RuleError, TableError
from naysay.rule.model import Column, Constant, Op, Predicate, Row, Rule, Value
from naysay.table.kind import Kind, kind_of


def check_rule(schema: pa.Schema, rule: Rule) -> None:
    """Raise RuleError or TableError where a predicate of the rule has no meaning on this table."""
    for predicate in rule.predicates:
        check_predicate(schema, predicate)


def check_predicate(schema: pa.Schema, predicate: Predicate) -> None:
    left = comparable_type(schema, predicate.left.name)
    if isinstance(predicate.right, Column):
        right = comparable_type(schema, predicate.right.name)
        check_comparable(
            kind_of(left),
            kind_of(right),
            predicate.op,
            left=f"column {predicate.left.name!r} ({left})",
            right=f"column {predicate.right.name!r} ({right})",
        )
    else:
        check_constant(kind_of(left), predicate.right, name=f"column {predicate.left.name!r} ({left})")


def check_joint(schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise where columns that are to share one code space do not compare with each other."""
    for left, right in itertools.combinations(names, 2):
        check_predicate(schema, Predicate(Column(Row.LEFT, left), Op.EQ, Column(Row.LEFT, right)))


def place(schema: pa.Schema, name: str) -> int:
    """The position of a column; RuleError with the nearest name for an unknown one, TableError for a repeated one."""
    places = schema.get_all_field_indices(name)
    if len(places) == 1:
        return int(places[0])
    if places:
        raise TableError(f"the table has {len(places)} columns named {name!r}; rename all but one to use it in a rule")
    raise RuleError(f"unknown column {name!r}", hint=nearest(name, schema.names))


def nearest(name: str, names: Sequence[str]) -> str:
    """A hint: the most similar names, or all there are when they are few."""
    folded = {other.casefold(): other for other in reversed(names)}
    close = [folded[match] for match in difflib.get_close_matches(name.casefold(), list(folded), n=2, cutoff=0.6)]
    if close:
        return "did you mean " + " or ".join(repr(other) for other in close) + "?"
    if not names:
        return "the table has no columns"
    shown = ", ".join(repr(other) for other in names[:12])
    return f"the columns are {shown}" + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def comparable_type(schema: pa.Schema, name: str) -> pa.DataType:
    """The type of a column that rules may compare; TableError for any other."""
    type_ = schema.field(place(schema, name)).type
    if kind_of(type_) is Kind.OTHER:
        raise TableError(
            f"column {name!r} has type {type_}, which rules cannot compare; "
            "cast it to text or a number, or take out the part that you mean"
        )
    return type_


def check_comparable(left_kind: Kind, right_kind: Kind, op: Op, *, left: str = "left", right: str = "right") -> None:
    """Raise RuleError where `left op right` compares kinds that have no common meaning."""
    if left_kind.compares_with(right_kind):
        return
    raise RuleError(f"{left} cannot be compared with {right} by {op.value}", hint=_hint(left_kind, right_kind))


def check_constant(kind: Kind, constant: Constant, *, name: str = "the column") -> None:
    """Raise RuleError where a constant is of another kind than the column it is compared with."""
    other = constant_kind(constant.value)
    if not kind.compares_with(other):
        hint = _constant_hint(kind, other, constant.value) or _hint(kind, other)
        raise RuleError(f"{name} cannot be compared with the {other.value} {constant.value!s:.60}", hint=hint)


def constant_kind(value: Value) -> Kind:
    if isinstance(value, datetime.datetime):
        return Kind.TIMESTAMP if value.tzinfo is None else Kind.INSTANT
    for type_, kind in _CONSTANT_KINDS:
        if isinstance(value, type_):
            return kind
    raise RuleError(f"no meaning for a constant of type {type(value).__name__}")


_CONSTANT_KINDS: tuple[tuple[type, Kind], ...] = (
    (bool, Kind.BOOL),
    (int, Kind.INT),
    (float, Kind.FLOAT),
    (Decimal, Kind.DECIMAL),
    (str, Kind.TEXT),
    (datetime.date, Kind.DATE),
    (datetime.time, Kind.TIME),
)


def _hint(left: Kind, right: Kind) -> str:
    kinds = {left, right}
    if kinds == {Kind.TIMESTAMP, Kind.INSTANT}:
        return "one has a time zone and the other has none: give both a zone, or neither"
    if Kind.TEXT in kinds:
        other = next(iter(kinds - {Kind.TEXT}))
        return f"text and {other.value} do not compare: cast one of them, so that both have one type"
    if Kind.BOOL in kinds:
        return "a boolean compares with booleans alone: cast one of them"
    if Kind.DATE in kinds and kinds & {Kind.TIMESTAMP, Kind.INSTANT}:
        return "a date is no timestamp: cast one of them"
    return f"{left.value} and {right.value} do not compare: cast one of them, so that both have one type"


def _constant_hint(kind: Kind, other: Kind, value: Value) -> str:
    if kind is Kind.TEXT:
        return f'write "{value}" in quotes to compare it as text'
    if kind is Kind.DATE:
        return "write date '2024-01-31' to compare with a date"
    if kind is Kind.TIMESTAMP and other is not Kind.INSTANT:
        return "write timestamp '2024-01-31 00:00:00' to compare with a timestamp"
    if kind is Kind.INSTANT:
        return "write timestamp '2024-01-31 00:00:00+00:00', with its zone, to compare with a timestamp with zone"
    if kind is Kind.BOOL:
        return "write true or false to compare with a boolean"
    if kind.is_number and other is Kind.TEXT:
        return "write the number without quotes, or cast the column to text"
    return ""


def repeated_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names that more than one column has."""
    return tuple(name for name, times in Counter(names).items() if times > 1)
