"""Whether a rule fits a table: known columns, comparable types. Every refusal names the column and what to do."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal

import pyarrow as pa

from naysay.errors import RuleError, TableError
from naysay.rule.literal import write_constant
from naysay.rule.model import Column, Constant, Op, Predicate, Row, Rule, Value
from naysay.rule.nearest import nearest_name
from naysay.rule.render import render, render_operand, render_predicate
from naysay.rule.scan import shortened
from naysay.table.kind import Kind, kind_of


def free_name(name: str, taken: Collection[str]) -> str:
    """A name for a column of ours beside those of a table.

    >>> free_name("naysay_row", ["a"]), free_name("naysay_row", ["a", "naysay_row"])
    ('naysay_row', 'naysay_row_2')
    """
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


def check_rule(schema: pa.Schema, rule: Rule) -> None:
    """Raise RuleError, with a caret under the place, or TableError where the rule has no meaning on this table."""
    for number, predicate in enumerate(rule.predicates):
        with _pointing_at(rule, number, right=False):
            comparable_type(schema, predicate.left.name)
        with _pointing_at(rule, number, right=True):
            check_predicate(schema, predicate)


@contextmanager
def _pointing_at(rule: Rule, number: int, *, right: bool) -> Iterator[None]:
    """Give a RuleError the text of the rule and the place of one operand of one predicate in it."""
    try:
        yield
    except RuleError as error:
        texts = [render_predicate(predicate) for predicate in rule.predicates]
        before = "not(" + "".join(text + " and " for text in texts[:number])
        if right:
            predicate = rule.predicates[number]
            before += f"{render_operand(predicate.left)} {predicate.op.value} "
        text, hint = render(rule), error.hint
        raise RuleError(error.message, text=text, column=len(before) + 1, source=rule.name, hint=hint) from None


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
    raise RuleError(f"there is no column {name!r}", hint=_name_hint(name, schema.names))


def _name_hint(name: str, names: Sequence[str]) -> str:
    meant = nearest_name(name, names)
    if meant:
        return f"Did you mean {meant!r}?"
    if not names:
        return "The table has no columns."
    shown = ", ".join(repr(other) for other in names[:12])
    return f"The columns are {shown}" + (f" and {len(names) - 12} more." if len(names) > 12 else ".")


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
        raise RuleError(f"{name} cannot be compared with {shortened(write_constant(constant.value))}", hint=hint)


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
        return "One has a time zone and the other has none: give both a zone, or neither."
    if Kind.DATE in kinds and kinds & {Kind.TIMESTAMP, Kind.INSTANT}:
        return "A date is no timestamp: cast one of the two."
    if Kind.BOOL in kinds:
        return "A boolean compares with booleans alone: cast one of the two."
    return f"A value that is {left.value} and one that is {right.value} do not compare: cast one of the two."


def _constant_hint(kind: Kind, other: Kind, value: Value) -> str:
    if kind is Kind.TEXT and other in (Kind.INT, Kind.FLOAT, Kind.BOOL):
        return f"As text it is '{value}', in quotes."
    if kind is Kind.DATE:
        return "Write date '2024-01-31' to compare with a date."
    if kind is Kind.TIME:
        return "Write time '13:45:00' to compare with a time of day."
    if kind is Kind.TIMESTAMP and other is not Kind.INSTANT:
        return "Write timestamp '2024-01-31 13:45:00' to compare with a timestamp."
    if kind is Kind.INSTANT:
        return "Write timestamp '2024-01-31 13:45:00+00:00', with a zone, to compare with a timestamp with zone."
    if kind is Kind.BOOL:
        return "Write true or false to compare with a boolean."
    if kind.is_number and other is Kind.TEXT:
        return "Write the number without quotes, or cast the column to text."
    return ""
