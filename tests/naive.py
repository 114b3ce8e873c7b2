"""The oracle: the correct answer of every operation, written as double loops over Python rows.

It imports only `naysay.rule` and the standard library, so that it shares no code with what it judges. Rows are
dicts from column name to Python value, None for null. A violation is a tuple of row numbers: (left, right) for a
rule about two rows, (row,) for a one-row rule.
"""

from __future__ import annotations

import datetime
import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from naysay.rule.model import Between, Column, Domain, Missing, Nulls, OneOf, Op, Pattern, Predicate, Row, Rule

Record = Mapping[str, Any]
Violation = tuple[int, ...]

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.timezone.utc)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time that Python's datetime cannot hold exactly: nanoseconds since midnight or since 1970.

    `kind` is "time" (of day), "local" (a timestamp without zone) or "instant" (one with a zone).
    """

    kind: str
    nanoseconds: int


class Single(float):
    """A value of a column of 32-bit floats."""


class Half(float):
    """A value of a column of 16-bit floats."""


def compare(op: Op, left: Any, right: Any, nulls: Nulls = Nulls.SQL) -> bool:
    """Whether `left op right` is true, for two values or nulls."""
    if left is None or right is None:
        if nulls is Nulls.SQL:
            return False
        both = left is None and right is None
        return both if op is Op.EQ else (not both if op is Op.NE else False)
    sign = three_way(left, right)
    if op is Op.EQ:
        return sign == 0
    if op is Op.NE:
        return sign != 0
    if op is Op.LT:
        return sign < 0
    if op is Op.LE:
        return sign <= 0
    if op is Op.GT:
        return sign > 0
    return sign >= 0


def three_way(left: Any, right: Any) -> int:
    """-1, 0 or 1 as `left` is less than, equal to or greater than `right`; TypeError if they cannot be compared."""
    if kind_of(left) != kind_of(right):
        raise TypeError(f"{left!r} ({kind_of(left)}) and {right!r} ({kind_of(right)}) do not compare")
    if kind_of(left) == "number":
        # NaN equals NaN and is greater than every other number, infinity included.
        if is_nan(left) or is_nan(right):
            return int(is_nan(left)) - int(is_nan(right))
        # Python compares int, float and Decimal by their exact values, and -0.0 equals 0.0.
        return int(left > right) - int(left < right)
    left, right = comparable(left), comparable(right)
    return int(left > right) - int(left < right)


def kind_of(value: Any) -> str:
    """The family of values that a value can be compared with. A bool is not a number, and a timestamp is not a date."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float, Decimal)):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, datetime.datetime):
        return "local" if value.tzinfo is None else "instant"
    if isinstance(value, datetime.date):
        return "date"
    if isinstance(value, datetime.time):
        return "time"
    if isinstance(value, Moment):
        return value.kind
    raise TypeError(f"no meaning for {value!r} of type {type(value).__name__}")


def is_nan(value: int | float | Decimal) -> bool:
    return value.is_nan() if isinstance(value, Decimal) else isinstance(value, float) and math.isnan(value)


def comparable(value: Any) -> Any:
    """A value whose Python order is the intended one: UTF-8 bytes for text, nanoseconds for times."""
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, Moment):
        return value.nanoseconds
    if isinstance(value, datetime.datetime):
        # Python orders two datetimes in the same zone by local time; instants need the distance to an epoch.
        since = value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)
        return (since // datetime.timedelta(microseconds=1)) * 1000
    if isinstance(value, datetime.time):
        return (((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond) * 1000
    return value


def holds(predicate: Predicate, left: Record, right: Record, nulls: Nulls = Nulls.SQL) -> bool:
    """Whether one predicate is true of the pair (left, right)."""

    def value_of(column: Column) -> Any:
        return left[column.name] if column.row is Row.LEFT else right[column.name]

    value = value_of(predicate.left)
    if isinstance(predicate.right, Column):
        return compare(predicate.op, value, value_of(predicate.right), nulls)
    if isinstance(predicate.right, Domain):
        return belongs(value, predicate.right) is (predicate.op is Op.EQ)
    return compare(predicate.op, value, read_beside(predicate.right.value, value), nulls)


def belongs(value: Any, domain: Domain) -> bool | None:
    """Whether a value is in a list, a range or a pattern, or is missing; None if a null is asked for its value."""
    if isinstance(domain, Missing):
        return value is None
    if value is None:
        return None
    if isinstance(domain, Pattern):
        return re.fullmatch(domain.text, value, re.ASCII) is not None
    if isinstance(domain, Between):
        low, high = (read_beside(constant.value, value) for constant in (domain.low, domain.high))
        return three_way(low, value) <= 0 <= three_way(high, value)
    assert isinstance(domain, OneOf)
    return any(three_way(read_beside(constant.value, value), value) == 0 for constant in domain.values)


def read_beside(constant: Any, value: Any) -> Any:
    """A constant with a fraction, read in the type of the column: for decimals 0.1 is one tenth, however it is written.
    For floats it is the nearest 64-bit float, and in a column of 32-bit or 16-bit floats the narrow float nearest to
    that."""
    if isinstance(value, Decimal) and isinstance(constant, float) and math.isfinite(constant):
        return constant if constant == int(constant) else Decimal(repr(constant))
    if isinstance(value, float) and isinstance(constant, Decimal) and constant.is_finite():
        constant = float(constant) if math.isfinite(float(constant)) else constant
    if isinstance(value, (Single, Half)) and isinstance(constant, float):
        return narrowed(constant, "<f" if isinstance(value, Single) else "<e")
    return constant


def narrowed(constant: float, form: str) -> float:
    """The narrow float nearest to a fraction; integers, and numbers that would become zero or infinity, unchanged."""
    if not math.isfinite(constant) or constant == int(constant):
        return constant
    try:
        (nearest,) = struct.unpack(form, struct.pack(form, constant))
    except OverflowError:
        return constant
    return nearest or constant


def breaks(rule: Rule, left: Record, right: Record, nulls: Nulls = Nulls.SQL) -> bool:
    """Whether all predicates are true of the pair (left, right) at once."""
    return all(holds(predicate, left, right, nulls) for predicate in rule.predicates)


def left_right(
    left: Sequence[Record],
    right: Sequence[Record],
    rule: Rule,
    nulls: Nulls = Nulls.SQL,
    left_ids: Sequence[int] | None = None,
    right_ids: Sequence[int] | None = None,
) -> set[tuple[int, int]]:
    """The pairs of identities (left, right) that break the rule, between two lists of rows.

    A row is never paired with itself: pairs with equal identities are left out. Without identities, the two lists have
    no row in common, and the answer consists of positions.
    """
    assert (left_ids is None) == (right_ids is None), "give the identities of both sides or of neither"
    found = set()
    for i, t in enumerate(left):
        for j, s in enumerate(right):
            pair = (i, j) if left_ids is None or right_ids is None else (left_ids[i], right_ids[j])
            if left_ids is not None and pair[0] == pair[1]:
                continue
            if breaks(rule, t, s, nulls):
                found.add(pair)
    return found


def pairs(rows: Sequence[Record], rule: Rule, nulls: Nulls = Nulls.SQL) -> set[tuple[int, int]]:
    """The ordered pairs of distinct rows that break a rule about two rows."""
    assert not rule.is_one_row, "a one-row rule is broken by rows: use singles or violations"
    names = range(len(rows))
    return left_right(rows, rows, rule, nulls, names, names)


def singles(rows: Sequence[Record], rule: Rule, nulls: Nulls = Nulls.SQL) -> set[int]:
    """The rows that break a one-row rule."""
    assert rule.is_one_row, "a rule about two rows is broken by pairs: use pairs or violations"
    return {i for i, row in enumerate(rows) if breaks(rule, row, row, nulls)}


def violations(rows: Sequence[Record], rule: Rule, nulls: Nulls = Nulls.SQL) -> set[Violation]:
    """Everything that breaks the rule: (left, right) tuples, or (row,) tuples for a one-row rule."""
    if rule.is_one_row:
        return {(i,) for i in singles(rows, rule, nulls)}
    return set(pairs(rows, rule, nulls))


def verify(rows: Sequence[Record], rule: Rule, nulls: Nulls = Nulls.SQL) -> bool:
    """Whether the rule holds: nothing breaks it."""
    return not violations(rows, rule, nulls)


def count(rows: Sequence[Record], rule: Rule, nulls: Nulls = Nulls.SQL) -> int:
    """How many ordered pairs (rows, for a one-row rule) break it."""
    return len(violations(rows, rule, nulls))


def rows_in_conflict(rows: Sequence[Record], rule: Rule, nulls: Nulls = Nulls.SQL) -> set[int]:
    """The rows that are part of any violation, on either side."""
    return {i for violation in violations(rows, rule, nulls) for i in violation}


def rows_to_remove(rows: Sequence[Record], rule: Rule, nulls: Nulls = Nulls.SQL) -> int:
    """The smallest number of rows to remove so that the rule holds. Exponential: for up to about sixteen rows."""
    if rule.is_one_row:
        return len(singles(rows, rule, nulls))
    return smallest_cover({frozenset(pair) for pair in pairs(rows, rule, nulls)})


def smallest_cover(edges: set[frozenset[int]]) -> int:
    """The size of a smallest vertex cover: the busiest vertex is in it, or all its neighbours are."""
    if not edges:
        return 0
    degree: dict[int, int] = {}
    for edge in edges:
        for vertex in edge:
            degree[vertex] = degree.get(vertex, 0) + 1
    busiest = max(sorted(degree), key=lambda vertex: degree[vertex])
    if degree[busiest] == 1:
        return len(edges)
    with_it = 1 + smallest_cover({edge for edge in edges if busiest not in edge})
    neighbours = {vertex for edge in edges if busiest in edge for vertex in edge} - {busiest}
    if len(neighbours) >= with_it:
        return with_it
    without_it = len(neighbours) + smallest_cover({edge for edge in edges if not edge & neighbours})
    return min(with_it, without_it)
