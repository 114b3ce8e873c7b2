"""Comparisons as Spark Columns, with the same meaning as those of arrays in `naysay.table`.

Spark converts a bigint to double to compare it with one, and decimals of different scale to a type that may lose
digits. So two columns that compare are first brought to one type in which Spark's own comparison, grouping and hashing
are exact: `comparable`. It is null exactly if the value is null.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.plan.join import Join, Match, Order
from naysay.rule.model import (
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
    Value,
)
from naysay.rule.pattern import portable
from naysay.spark.frame import Frame
from naysay.spark.versions import TimeType
from naysay.table.column import Kind
from naysay.table.compatibility import exact_number

_MAX_DIGITS = 38
_LEAST_LONG, _GREATEST_LONG = -(2**63), 2**63 - 1
HASH_OF_NOTHING = 0


@dataclass(frozen=True)
class Comparisons:
    """The predicates and parts of rules by position as Spark Columns, under one meaning of null; never null."""

    frame: Frame
    nulls: Nulls

    def comparable(self, name: str, other: str, alias: str = "") -> Expression:
        """A column in the form in which it compares exactly with another, perhaps under an alias."""
        type_, wanted = self.frame.type_of(name), self.frame.type_of(other)
        if _is_comparable(type_, wanted):
            # As text, because PySpark calls Java ten times for a column and for each of its methods.
            return F.expr(own(f"{name} as {alias}" if alias else name))
        found = comparable(F.col(name), type_, wanted)
        return found.alias(alias) if alias else found

    def holds(self, predicate: Predicate) -> Expression:
        """Whether a predicate is true of one row on both sides."""
        left = predicate.left.name
        if isinstance(predicate.right, Constant):
            return self._against_constant(left, predicate.op, predicate.right.value)
        if isinstance(predicate.right, Domain):
            return self._in_domain(left, predicate.op, predicate.right)
        right = predicate.right.name
        truth: Expression = predicate.op.compare(self.comparable(left, right), self.comparable(right, left))
        if self.nulls is Nulls.EQUAL and predicate.op in (Op.EQ, Op.NE):
            some_null = F.col(left).isNull() | F.col(right).isNull()
            both_null = F.col(left).isNull() & F.col(right).isNull()
            return F.when(some_null, both_null if predicate.op is Op.EQ else ~both_null).otherwise(truth)
        return F.coalesce(truth, F.lit(False))

    def side(self, join: Join, row: Row) -> Expression:
        """Whether a row is on a side of the join: its filters hold and no compared value is missing."""
        left = row is Row.LEFT
        filters = join.row_filter if join.is_mirror else join.left_filter if left else join.right_filter
        must_have_value: tuple[Match | Order, ...] = join.order
        if self.nulls is Nulls.SQL:
            must_have_value += join.key + join.differs
        names = dict.fromkeys(part.left if left else part.right for part in must_have_value)
        has_values = [F.expr(own(" and ".join(f"{name} is not null" for name in names)))] if names else []
        return every([*map(self.holds, filters), *has_values])

    def meets_itself(self, join: Join) -> Expression:
        """Whether a row breaks the rule with itself, which is not a violation and must be left out."""
        if join.irreflexive:
            return F.lit(False)
        parts = [_predicate(match, Op.EQ) for match in join.key]
        parts += [_predicate(match, Op.NE) for match in join.differs]
        parts += [_predicate(order, order.op) for order in join.order]
        return every(map(self.holds, (*parts, *join.left_filter, *join.right_filter)))

    def _in_domain(self, name: str, op: Op, domain: Domain) -> Expression:
        """Whether a value is in a domain, or not; a null is neither."""
        column = F.col(name)
        if isinstance(domain, Missing):
            return column.isNull() if op is Op.EQ else column.isNotNull()
        if self.frame.kind_of(name) is Kind.NULL:
            return F.lit(False)
        members = self._members(name, domain)
        return F.when(column.isNull(), F.lit(False)).otherwise(members if op is Op.EQ else ~members)

    def _members(self, name: str, domain: Domain) -> Expression:
        column, kind, type_ = F.col(name), self.frame.kind_of(name), self.frame.type_of(name)
        if isinstance(domain, Pattern):
            return column.rlike(portable(domain.text))
        if isinstance(domain, Between):
            below, _ = _against(column, kind, type_, domain.low.value)
            less, equal = _against(column, kind, type_, domain.high.value)
            return ~below & (less | equal)
        assert isinstance(domain, OneOf)
        values = [constant.value for constant in domain.values]
        if kind is Kind.TEXT:
            return column.isin(values)
        return reduce(or_, (_against(column, kind, type_, value)[1] for value in values))

    def _against_constant(self, name: str, op: Op, value: Value) -> Expression:
        kind = self.frame.kind_of(name)
        if kind is Kind.NULL:
            return F.lit(self.nulls is Nulls.EQUAL and op is Op.NE)
        less, equal = _against(F.col(name), kind, self.frame.type_of(name), value)
        at_most = less | equal
        truth = {Op.EQ: equal, Op.NE: ~equal, Op.LT: less, Op.GE: ~less, Op.LE: at_most, Op.GT: ~at_most}[op]
        at_null = self.nulls is Nulls.EQUAL and op is Op.NE
        return F.when(F.col(name).isNull(), F.lit(at_null)).otherwise(truth)


def every(truths: Iterable[Expression]) -> Expression:
    found = list(truths)
    return reduce(and_, found) if found else F.lit(True)


def _is_comparable(type_: T.DataType, other: T.DataType) -> bool:
    """Whether `comparable` would leave a value of this type as it is."""
    changed = (T.NullType, T.DoubleType, T.FloatType, T.DayTimeIntervalType)
    return bool(type_ == other) and not isinstance(type_, changed)


def opaque(truth: Expression) -> Expression:
    """The same truth, from which Spark infers nothing, as it need not be the same each time it is computed.

    From a condition of a filter Spark infers another for each column in it that has a second name above the filter, in
    all combinations. For the conditions of all rules at once, about a dozen columns, that takes minutes.
    """
    return truth | (F.spark_partition_id() < 0)


def comparable(value: Expression, type_: T.DataType, other: T.DataType) -> Expression:
    """Bring a value to the form in which it compares exactly with values of the other type in their form."""
    if isinstance(type_, T.NullType):
        known = T.ByteType() if isinstance(other, T.NullType) else other
        return comparable(value.cast(known), known, known)
    if isinstance(other, T.NullType):
        other = type_
    if _is_float(type_) and _is_float(other):
        return _plain_float(value)
    if _is_float(type_) or _is_float(other):
        return _against_float(value, type_, other)
    if isinstance(type_, T.DecimalType) or isinstance(other, T.DecimalType):
        return _decimal(value, *_digits(type_), *_digits(other))
    if isinstance(type_, T.IntegralType):
        return value if type_ == other else value.cast(T.LongType())
    if isinstance(type_, T.DayTimeIntervalType):
        return value.cast(T.DayTimeIntervalType(T.DayTimeIntervalType.DAY, T.DayTimeIntervalType.SECOND))
    if isinstance(type_, TimeType) and isinstance(other, TimeType) and type_ != other:
        return value.cast(TimeType(max(type_.precision, other.precision)))
    return value


def _predicate(part: Match | Order, op: Op) -> Predicate:
    return Predicate(Column(Row.LEFT, part.left), op, Column(Row.LEFT, part.right))


def _is_float(type_: T.DataType) -> bool:
    return isinstance(type_, T.DoubleType | T.FloatType)


def _plain_float(value: Expression) -> Expression:
    """A double with one zero and one NaN, so that hashes and sorts agree with comparisons."""
    number = value.cast(T.DoubleType())
    return F.when(number == 0.0, F.lit(0.0)).when(F.isnan(number), F.lit(math.nan)).otherwise(number)


def _digits(type_: T.DataType) -> tuple[int, int]:
    """Digits before and after the point that hold every value of the type."""
    if isinstance(type_, T.DecimalType):
        return type_.precision - type_.scale, type_.scale
    return {T.ByteType: 3, T.ShortType: 5, T.IntegerType: 10}.get(type(type_), 19), 0


def _decimal(value: Expression, whole: int, scale: int, other_whole: int, other_scale: int) -> Expression:
    common_whole, common_scale = max(whole, other_whole), max(scale, other_scale)
    if common_whole + common_scale <= _MAX_DIGITS:
        return value.cast(T.DecimalType(max(common_whole + common_scale, 1), common_scale))
    return _whole_and_fraction(value, scale)


def _whole_and_fraction(value: Expression, scale: int) -> Expression:
    """A decimal as a struct that compares as it does: its floor, and what lies above the floor."""
    floor = value if scale == 0 else F.floor(value)
    fraction = F.lit(Decimal(0)) if scale == 0 else F.pmod(value, F.lit(Decimal(1)))
    parts = F.struct(
        floor.cast(T.DecimalType(_MAX_DIGITS, 0)).alias("whole"),
        fraction.cast(T.DecimalType(_MAX_DIGITS, _MAX_DIGITS)).alias("fraction"),
    )
    return F.when(value.isNotNull(), parts)


def _against_float(value: Expression, type_: T.DataType, other: T.DataType) -> Expression:
    """A number of any type as the nearest double, and then by how much it lies above or below that double.

    Rounding to the nearest keeps order, so this pair compares exactly as the numbers do.
    """
    exact = other if _is_float(type_) else type_
    nearest = _plain_float(value)
    if isinstance(exact, T.DecimalType):
        beyond = _beyond_of_decimal(value, type_, exact)
    elif isinstance(exact, T.LongType):
        beyond = F.lit(0).cast(T.LongType()) if _is_float(type_) else _beyond_of_long(value, nearest)
    else:
        return nearest
    return F.when(value.isNotNull(), F.struct(nearest.alias("nearest"), beyond.alias("beyond")))


def _beyond_of_long(value: Expression, nearest: Expression) -> Expression:
    # The doubles next to 2**63 lie 1024 apart, so no difference comes near overflow; only 2**63 itself is not a bigint.
    is_bound = nearest >= F.lit(2.0**63)
    return F.when(is_bound, (value - F.lit(_GREATEST_LONG)) - F.lit(1)).otherwise(value - nearest.cast(T.LongType()))


def _beyond_of_decimal(value: Expression, type_: T.DataType, exact: T.DecimalType) -> Expression:
    """On which side of its nearest double a decimal lies, and then the decimal itself; zeros for a double."""
    zero = _whole_and_fraction(F.lit(Decimal(0)), 0)
    if _is_float(type_):
        return F.struct(F.lit(0).alias("sign"), zero.alias("value"))
    # A lambda has no type hints, from which Spark would try to guess what kind of function it is.
    sign_of = F.udf(lambda value, nearest: _sign_beyond_nearest(value, nearest), T.IntegerType())
    sign = sign_of(value, value.cast(T.DoubleType()))
    whole = _whole_and_fraction(value, exact.scale)
    return F.struct(sign.alias("sign"), F.when(sign == 0, zero).otherwise(whole).alias("value"))


def _sign_beyond_nearest(value: Decimal | None, nearest: float | None) -> int | None:
    """Python compares a Decimal with a float exactly; Spark has no exact way from a double to a decimal."""
    if value is None or nearest is None:
        return None
    return int(value > nearest) - int(value < nearest)


def _against(column: Expression, kind: Kind, type_: T.DataType, value: Value) -> tuple[Expression, Expression]:
    """Whether a column that is not null is less than a constant, and whether it equals it, exactly."""
    if kind in (Kind.TEXT, Kind.BOOL):
        constant = F.lit(value)
        return column < constant, column == constant
    bits = 32 if isinstance(type_, T.FloatType) else 64
    number = exact_number(value, bits if kind is Kind.FLOAT else None)
    if kind is Kind.FLOAT:
        return _against_floats(_plain_float(column), number)
    if kind is Kind.DECIMAL:
        assert isinstance(type_, T.DecimalType)
        return _against_decimals(column, type_, number)
    if kind is Kind.INT:
        return _against_longs(column.cast(T.LongType()), number)
    if kind is Kind.DATE:
        return _against_longs(F.unix_date(column).cast(T.LongType()), number)
    microseconds = number * 10**6
    if kind is Kind.INSTANT:
        return _against_longs(F.unix_micros(column), microseconds)
    # Spark makes a literal of a time without zone only from text.
    literal = F.lit(str(value)).cast(type_ if kind is Kind.TIMESTAMP else TimeType(6))
    return column < literal, column == literal


def _against_longs(column: Expression, number: Fraction | float) -> tuple[Expression, Expression]:
    floor = math.inf if number == math.inf or number != number else math.floor(number) if number > -math.inf else number
    if not _LEAST_LONG <= floor <= _GREATEST_LONG:
        return F.lit(floor > 0), F.lit(False)
    constant = F.lit(int(floor)).cast(T.LongType())
    if floor == number:
        return column < constant, column == constant
    return column <= constant, F.lit(False)


def _against_decimals(
    column: Expression, type_: T.DecimalType, number: Fraction | float
) -> tuple[Expression, Expression]:
    if isinstance(number, float):
        return F.lit(number != -math.inf), F.lit(False)
    floor = math.floor(number * 10**type_.scale)
    if not -(10**type_.precision) < floor < 10**type_.precision:
        return F.lit(floor > 0), F.lit(False)
    # By way of text: a Decimal keeps only as many digits as Python's context says.
    constant = F.lit(f"{floor}E-{type_.scale}").cast(type_)
    if Fraction(floor, 10**type_.scale) == number:
        return column < constant, column == constant
    return column <= constant, F.lit(False)


def _against_floats(column: Expression, number: Fraction | float) -> tuple[Expression, Expression]:
    if isinstance(number, float):
        return column < F.lit(number), column == F.lit(number)
    try:
        nearest = float(number)
    except OverflowError:
        nearest = math.inf if number > 0 else -math.inf
    if math.isfinite(nearest) and Fraction(nearest) == number:
        return column < F.lit(nearest), column == F.lit(nearest)
    below = nearest < number
    return (column <= F.lit(nearest) if below else column < F.lit(nearest)), F.lit(False)


# Names of columns in naysay's plans, numbers, functions and operators. No comments, and no text constants.
_OWN = re.compile(r"(?:\w|`\w+`(?!`)|[ (),*+<>=&]|-(?!-))*", re.ASCII)


def own(text: str) -> str:
    """An expression as text that is put together for Spark to parse; any other text that Spark parses is a constant.

    In naysay's plans the columns of a table are called c0, c1, ..., so the text never needs a name or value of the
    user's. Characters that only those would bring along are refused.
    """
    if _OWN.fullmatch(text) is None:
        raise AssertionError(f"an expression of our own must not contain this: {text}")
    return text


def hash_text(names: Sequence[str]) -> str:
    """`hash_of` columns of ours, as text."""
    if not names:
        return f"{HASH_OF_NOTHING}L"
    return f"xxhash64({', '.join((*(f'{name} is null' for name in names), *names))})"


def hash_of(columns: Sequence[Expression]) -> Expression:
    """A 64-bit hash that is equal for equal comparables; used to find rows again, never to say that they are equal.

    xxhash64 skips nulls, so (7, null) and (null, 7) would meet: which values are null is hashed as well.
    """
    if not columns:
        return F.lit(HASH_OF_NOTHING).cast(T.LongType())
    return F.xxhash64(*(column.isNull() for column in columns), *columns)
