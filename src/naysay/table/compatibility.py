"""Whether a table can have a rule: known columns, comparable types. Every refusal names the column and what to do."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from naysay.arrays import BoolArray, Float64Array, Int64Array
from naysay.errors import RuleError, TableError
from naysay.rule.literal import write_constant
from naysay.rule.model import (
    Column,
    Constant,
    Domain,
    Freshness,
    Nulls,
    Op,
    Pattern,
    Predicate,
    Row,
    Rule,
    Value,
    constants_of,
)
from naysay.rule.pattern import portable
from naysay.rule.render import render, render_operand, render_predicate
from naysay.rule.scan import nearest_name, read_as_float, shortened
from naysay.table.column import Codes, Floats, Indexed, Integers, Kind, Plain, Text, Wide, kind_of


def free_name(name: str, taken: Collection[str]) -> str:
    """A name for a new column that is not one of a table's.

    >>> free_name("naysay_row", ["a"]), free_name("naysay_row", ["a", "naysay_row"])
    ('naysay_row', 'naysay_row_2')
    """
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


def check_rule(schema: pa.Schema, rule: Rule, why_text: Callable[[str], str] = lambda name: "") -> None:
    """Raise RuleError, with a caret under the place, or TableError if the rule cannot be checked on this table.

    `why_text` says of a text column that is compared with numbers why it is not a number, if it knows.
    """
    if rule.measure is not None and rule.has_tolerance:
        hint = "Change the number in the rule itself, or give it the severity warning."
        raise RuleError(f"{render(rule)} is about the whole table, so it has no tolerance", hint=hint)
    if isinstance(rule.measure, Freshness):
        _check_freshness(schema, rule, rule.measure.column)
    for number, predicate in enumerate(rule.predicates):
        with _pointing_at(rule, number, right=False):
            comparable_type(schema, predicate.left.name)
        with _pointing_at(rule, number, right=True):
            try:
                check_predicate(schema, predicate)
            except RuleError as error:
                raise _explained(error, schema, predicate, why_text) from None


def _check_freshness(schema: pa.Schema, rule: Rule, name: str) -> None:
    type_ = comparable_type(schema, name)
    if kind_of(type_) not in (Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT, Kind.NULL):
        raise RuleError(
            f"freshness needs a date or a timestamp, and column {name!r} has type {type_}",
            text=render(rule),
            source=rule.name,
            hint=f"Declare the type of a CSV column with --types {name}=timestamp, or cast the column.",
        )


def _explained(error: RuleError, schema: pa.Schema, predicate: Predicate, why_text: Callable[[str], str]) -> RuleError:
    """The error with a better hint, if it is about a number beside text that could be numbers."""
    kinds = {column.name: kind_of(comparable_type(schema, column.name)) for column in predicate.columns}
    texts = [name for name, kind in kinds.items() if kind is Kind.TEXT]
    beside_number = any(kind.is_number for kind in kinds.values()) or any(
        constant_kind(constant.value).is_number for constant in constants_of(predicate.right)
    )
    hint = why_text(texts[0]) if texts and beside_number else ""
    return RuleError(error.message, hint=hint) if hint else error


@contextmanager
def _pointing_at(rule: Rule, number: int, *, right: bool) -> Iterator[None]:
    """Give a RuleError the text of the rule and the place of one operand of one predicate in it."""
    try:
        yield
    except RuleError as error:
        texts = [render_predicate(predicate) for predicate in rule.predicates]
        # The filter of a rule about the table has another place in its text.
        before = "not(" + "".join(text + " and " for text in texts[:number]) if rule.measure is None else ""
        if right and rule.measure is None:
            predicate = rule.predicates[number]
            op = "" if isinstance(predicate.right, Domain) else f"{predicate.op.value} "
            before += f"{render_operand(predicate.left)} {op}"
        text, hint = render(rule), error.hint
        raise RuleError(error.message, text=text, column=len(before) + 1, source=rule.name, hint=hint) from None


def check_predicate(schema: pa.Schema, predicate: Predicate) -> None:
    left = comparable_type(schema, predicate.left.name)
    if isinstance(predicate.right, Pattern):
        _check_pattern(left, predicate.left.name, predicate.right)
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
        for constant in constants_of(predicate.right):
            check_constant(kind_of(left), constant, name=f"column {predicate.left.name!r} ({left})")


def _check_pattern(type_: pa.DataType, name: str, pattern: Pattern) -> None:
    if kind_of(type_) not in (Kind.TEXT, Kind.NULL):
        hint = "Compare with = < >, in (...) or between, or read the column as text."
        raise RuleError(f"a pattern matches text, and column {name!r} has type {type_}", hint=hint)
    try:
        pc.match_substring_regex(pa.array([], pa.string()), portable(pattern.text))
    except pa.ArrowInvalid:
        raise RuleError(
            f"the pattern {shortened(pattern.text)!r} is too large", hint="Split it in two rules."
        ) from None


def check_joint(schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise if columns that are to share one code space cannot be compared with each other."""
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
            "cast it to text or a number, or extract the part that you mean"
        )
    return type_


def check_comparable(left_kind: Kind, right_kind: Kind, op: Op, *, left: str = "left", right: str = "right") -> None:
    """Raise RuleError if `left op right` compares kinds that cannot be compared."""
    if left_kind.compares_with(right_kind):
        return
    raise RuleError(f"{left} cannot be compared with {right} by {op.value}", hint=_hint(left_kind, right_kind))


def check_constant(kind: Kind, constant: Constant, *, name: str = "the column") -> None:
    """Raise RuleError if a constant is of another kind than the column it is compared with."""
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
    raise RuleError(f"rules cannot compare with a constant of type {type(value).__name__}")


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
        return "One has a time zone and the other does not: give both a zone, or neither."
    if Kind.DATE in kinds and kinds & {Kind.TIMESTAMP, Kind.INSTANT}:
        return "A date is not a timestamp: cast one of the two."
    if Kind.BOOL in kinds:
        return "A boolean compares only with booleans: cast one of the two."
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


_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)


def compare_codes(left: Codes, op: Op, right: Codes, nulls: Nulls) -> BoolArray:
    """`left op right` row by row, for two columns in one code space."""
    truth: BoolArray = op.compare(left.values, right.values)
    if left.valid is None and right.valid is None:
        return truth
    every = np.ones(len(truth), dtype=np.bool_)
    left_valid = every if left.valid is None else left.valid
    right_valid = every if right.valid is None else right.valid
    truth = truth & left_valid & right_valid
    if nulls is Nulls.EQUAL and op is Op.EQ:
        truth |= ~left_valid & ~right_valid
    if nulls is Nulls.EQUAL and op is Op.NE:
        truth |= left_valid != right_valid
    return truth


def compare_constant(column: Indexed, op: Op, value: Value, nulls: Nulls) -> BoolArray:
    """`column op value` row by row, exactly; the kinds must compare (see `check_constant`)."""
    valid = column.plain.valid
    if valid is not None and not valid.any():
        # Nulls of no type compare with constants of any.
        truth = np.zeros(len(valid), dtype=np.bool_)
    else:
        truth = _compare_plain(column.plain, op, value)
    if column.index is not None:
        truth = truth[column.index]
        valid = None if valid is None else valid[column.index]
        if column.index_valid is not None:
            valid = column.index_valid if valid is None else valid & column.index_valid
    if valid is not None:
        truth = np.where(valid, truth, nulls is Nulls.EQUAL and op is Op.NE)
    return truth


def _compare_plain(plain: Plain, op: Op, value: Value) -> BoolArray:
    if isinstance(plain, Text):
        if op in (Op.EQ, Op.NE):
            return _compare_text(plain.array, value, pc.equal if op is Op.EQ else pc.not_equal)
        less, equal = (_compare_text(plain.array, value, compare) for compare in (pc.less, pc.equal))
    else:
        number = exact_number(value, plain.bits if isinstance(plain, Floats) else None)
        if isinstance(plain, Floats):
            less, equal = _compare_floats(plain.values, number)
        elif isinstance(plain, Integers):
            less, equal = _compare_integers(plain.values, _scaled(number, plain.scale))
        else:
            less, equal = _compare_wide(plain, _scaled(number, plain.scale))
    if op in (Op.EQ, Op.NE):
        return equal if op is Op.EQ else ~equal
    if op in (Op.LT, Op.GE):
        return less if op is Op.LT else ~less
    return less | equal if op is Op.LE else ~(less | equal)


def exact_number(value: Value, float_bits: int | None) -> Fraction | float:
    """A constant as an exact number (times: seconds; dates: days); a float only if it is infinite or NaN.

    A written fraction is read in the type of the column: 0.1 is the nearest float for floats of `float_bits`, and
    one tenth for decimals (None), regardless of its Python type.
    """
    if isinstance(value, Decimal):
        if not value.is_finite():
            return float(value)
        nearest = math.inf if float_bits is None else float(value)
        return Fraction(value) if math.isinf(nearest) else Fraction(read_as_float(nearest, float_bits or 64))
    if isinstance(value, float):
        if not math.isfinite(value):
            return value
        if float_bits is not None:
            return Fraction(read_as_float(value, float_bits))
        return Fraction(value) if value == math.trunc(value) else Fraction(repr(value))
    if isinstance(value, int):
        return Fraction(value)
    if isinstance(value, datetime.datetime):
        return Fraction((value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND, 10**6)
    if isinstance(value, datetime.date):
        return Fraction((value - _EPOCH.date()).days)
    assert isinstance(value, datetime.time)
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return Fraction(seconds * 10**6 + value.microsecond, 10**6)


def _scaled(number: Fraction | float, scale: int) -> Fraction | float:
    return number * Fraction(10) ** scale if isinstance(number, Fraction) else number


def _compare_text(array: pa.Array, value: Value, compare: Callable[[pa.Array, pa.Scalar], pa.Array]) -> BoolArray:
    """Which values have that relation to the constant."""
    assert isinstance(value, str)
    # As bytes: a constant may hold half a surrogate pair, which no text in a column can.
    scalar = pa.scalar(value.encode("utf-8", "surrogatepass"), pa.large_binary())
    truth = pc.fill_null(compare(array.cast(pa.large_binary()), scalar), False)
    return np.array(truth.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _compare_floats(values: Float64Array, number: Fraction | float) -> tuple[BoolArray, BoolArray]:
    """Which values are less than the constant, and which are equal; likewise below."""
    if isinstance(number, float):
        if math.isnan(number):
            return ~np.isnan(values), np.isnan(values)
        return values < number, values == number
    try:
        nearest = float(number)
    except OverflowError:
        nearest = math.inf if number > 0 else -math.inf
    never = np.zeros(len(values), dtype=np.bool_)
    if math.isfinite(nearest) and nearest == number:
        return values < nearest, values == nearest
    return (values <= nearest if nearest < number else values < nearest), never


def _compare_integers(values: Int64Array, number: Fraction | float) -> tuple[BoolArray, BoolArray]:
    never = np.zeros(len(values), dtype=np.bool_)
    if isinstance(number, float):
        return (never if number == -math.inf else ~never), never
    floor = math.floor(number)
    if not -(2**63) <= floor < 2**63:
        return (never if floor < 0 else ~never), never
    if floor == number:
        return values < floor, values == floor
    return values <= floor, never


def _compare_wide(plain: Wide, number: Fraction | float) -> tuple[BoolArray, BoolArray]:
    n_rows, n_limbs = plain.limbs.shape
    less, equal = np.zeros(n_rows, dtype=np.bool_), np.ones(n_rows, dtype=np.bool_)
    if isinstance(number, float) or not -(2 ** (32 * n_limbs - 1)) <= math.floor(number) < 2 ** (32 * n_limbs - 1):
        return (less if number < 0 else ~less), ~equal
    floor = math.floor(number)
    for k in range(n_limbs - 1, -1, -1):
        limb = floor >> (32 * k)
        if k < n_limbs - 1:
            limb &= 0xFFFFFFFF
        less |= equal & (plain.limbs[:, k] < limb)
        equal &= plain.limbs[:, k] == limb
    if floor != number:
        return less | equal, np.zeros(n_rows, dtype=np.bool_)
    return less, equal
