"""Rules as values: what must never be true of two rows (or of one).

The text of a rule may call its rows anything; here they are always LEFT and RIGHT, which render as `t` and `s`.
"""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from typing import Any

from naysay.present import present

Value = bool | int | float | Decimal | str | datetime.date | datetime.time | datetime.datetime


class Row(Enum):
    """Which of the two rows of a pair a column belongs to."""

    LEFT = "t"
    RIGHT = "s"

    @property
    def other(self) -> Row:
        return Row.RIGHT if self is Row.LEFT else Row.LEFT


class Op(Enum):
    """A comparison. `flipped` swaps its operands; `negated` is true exactly if it is false, except for nulls."""

    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def flipped(self) -> Op:
        return _FLIPPED.get(self, self)

    @property
    def negated(self) -> Op:
        return _NEGATED[self]

    @property
    def is_order(self) -> bool:
        return self not in (Op.EQ, Op.NE)

    @property
    def is_strict(self) -> bool:
        """No value has this relation to itself."""
        return self in (Op.NE, Op.LT, Op.GT)

    @property
    def compare(self) -> Callable[[Any, Any], Any]:
        compare: Callable[[Any, Any], Any] = getattr(operator, self.name.lower())
        return compare


_FLIPPED = {Op.LT: Op.GT, Op.GT: Op.LT, Op.LE: Op.GE, Op.GE: Op.LE}
_NEGATED = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.GT: Op.LE, Op.LE: Op.GT}


class Nulls(Enum):
    """What a comparison with null means: always false (SQL), or null is a value without order (EQUAL)."""

    SQL = "sql"
    EQUAL = "equal"


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Column:
    row: Row
    name: str

    def swapped(self) -> Column:
        return Column(self.row.other, self.name)


@dataclass(frozen=True, slots=True)
class Constant:
    """A value in a rule. NaN equals NaN, and true is not 1, as in a column; a zone is kept as its offset from UTC."""

    value: Value

    def __post_init__(self) -> None:
        value = self.value
        if isinstance(value, datetime.datetime):
            offset = value.utcoffset()
            if offset is not None and type(value.tzinfo) is not datetime.timezone:
                object.__setattr__(self, "value", value.replace(tzinfo=datetime.timezone(offset), fold=0))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[bool, Value | None]:
        return isinstance(self.value, bool), self.value if self.value == self.value else None


@dataclass(frozen=True, slots=True)
class Predicate:
    """`left op right`. Left is always a column: the parser flips a constant on the left."""

    left: Column
    op: Op
    right: Column | Constant

    @property
    def columns(self) -> tuple[Column, ...]:
        return (self.left, self.right) if isinstance(self.right, Column) else (self.left,)

    @property
    def rows(self) -> frozenset[Row]:
        return frozenset(column.row for column in self.columns)

    def swapped(self) -> Predicate:
        """The same predicate with the roles of the two rows exchanged."""
        right = self.right.swapped() if isinstance(self.right, Column) else self.right
        return Predicate(self.left.swapped(), self.op, right)

    def flipped(self) -> Predicate:
        """The same meaning with the two columns exchanged."""
        assert isinstance(self.right, Column)
        return Predicate(self.right, self.op.flipped, self.left)


@dataclass(frozen=True, slots=True)
class Rule:
    """A set of predicates that must never hold together, and what a person says about it.

    A rule that names a single row variable is a one-row rule; its columns are all LEFT.
    `max_violations` and `max_fraction` are tolerances: the rule passes while violations (or their share of all
    ordered pairs; of all rows for a one-row rule) stay at or below them. On a table of fewer than `min_rows` rows it
    does not pass.
    """

    predicates: tuple[Predicate, ...]
    name: str = ""
    severity: Severity = Severity.ERROR
    max_violations: int | None = None
    max_fraction: float | None = None
    description: str = ""
    min_rows: int | None = None

    def __repr__(self) -> str:
        from naysay.rule.render import render

        name = f"{self.name}: " if self.name else ""
        return f"<Rule {name}{render(self, short=True)}>" if self.predicates else "<Rule without predicates>"

    def _repr_html_(self) -> str:
        return str(present(self, "cell"))

    @property
    def is_one_row(self) -> bool:
        return all(column.row is Row.LEFT for column in self.columns)

    @property
    def has_tolerance(self) -> bool:
        return self.max_violations is not None or self.max_fraction is not None

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(column for predicate in self.predicates for column in predicate.columns)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of all columns it mentions, each once, in order of appearance."""
        return tuple(dict.fromkeys(column.name for column in self.columns))

    def swapped(self) -> Rule:
        """The twin with t and s exchanged: (s, t) breaks it exactly if (t, s) breaks this rule."""
        if self.is_one_row:
            return self
        return replace(self, predicates=tuple(predicate.swapped() for predicate in self.predicates))


class RuleKind(Enum):
    """The well-known kinds of rule. ORDER is equalities and two columns whose orders must not contradict each other."""

    KEY = "key"
    DEPENDENCY = "dependency"
    ORDER = "order"
    ONE_ROW = "one row"
    OTHER = "other"


def kind(rule: Rule) -> RuleKind:
    """Which of the well-known kinds a rule is.

    >>> from naysay.rule import parse
    >>> kind(parse("not(t.A == s.A and t.B != s.B)"))
    <RuleKind.DEPENDENCY: 'dependency'>
    """
    if rule.is_one_row:
        return RuleKind.ONE_ROW
    same, rest = split_same(rule)
    if not rest:
        return RuleKind.KEY
    if not all(is_pair(predicate) for predicate in rest):
        return RuleKind.OTHER
    ops = [predicate.op for predicate in rest]
    if same and ops == [Op.NE]:
        return RuleKind.DEPENDENCY
    if len(ops) == 2 and all(op.is_order for op in ops) and rest[0].left.name != rest[1].left.name:
        return RuleKind.ORDER
    return RuleKind.OTHER


def split_same(rule: Rule) -> tuple[list[str], list[Predicate]]:
    """The columns on which the two rows must agree, and the other predicates, each with the left row first."""
    same: dict[str, None] = {}
    rest: dict[Predicate, None] = {}
    for predicate in rule.predicates:
        predicate = facing(predicate)
        if is_pair(predicate) and predicate.op is Op.EQ:
            same[predicate.left.name] = None
        else:
            rest[predicate] = None
    return list(same), list(rest)


def facing(predicate: Predicate) -> Predicate:
    """The predicate with the left row's column first, if it compares the two rows."""
    right = predicate.right
    is_reversed = isinstance(right, Column) and right.row is Row.LEFT and predicate.left.row is Row.RIGHT
    return predicate.flipped() if is_reversed else predicate


def is_pair(predicate: Predicate) -> bool:
    """It compares one column of both rows."""
    right = predicate.right
    return isinstance(right, Column) and right.row is not predicate.left.row and right.name == predicate.left.name


def spans(rest: Sequence[Predicate]) -> tuple[str, str, bool] | None:
    """Start, end and whether touching counts, for `t.Start < s.End and t.End > s.Start`; else None."""
    if len(rest) != 2 or rest[1] != facing(rest[0].swapped()) or not rest[0].op.is_order:
        return None
    if is_pair(rest[0]) or len(rest[0].rows) == 1:
        return None
    low, high = rest if rest[0].op in (Op.LT, Op.LE) else (rest[1], rest[0])
    return low.left.name, high.left.name, low.op is Op.LE
