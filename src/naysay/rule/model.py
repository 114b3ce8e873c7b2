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


class Status(Enum):
    """What a person decided about a rule: it is true, it is not, or nobody has decided yet."""

    ACCEPTED = "accepted"
    PENDING = "pending"
    REJECTED = "rejected"


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


class Domain:
    """Values that a column may have. `==` means that a value is one of them, `!=` that it is not.

    A null is neither, under every meaning of null; only `Missing` asks for nulls.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Missing(Domain):
    """No value: `is null`, and with `!=` `is not null`."""


@dataclass(frozen=True, slots=True)
class OneOf(Domain):
    """The values of a list: `in ('CA', 'NY')`."""

    values: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class Between(Domain):
    """A range with both its ends: `between 0 and 1`."""

    low: Constant
    high: Constant


@dataclass(frozen=True, slots=True)
class Pattern(Domain):
    """The texts that a regular expression matches as a whole: `matches '[0-9]{5}'`. See `naysay.rule.pattern`."""

    text: str


def constants_of(operand: Column | Constant | Domain) -> tuple[Constant, ...]:
    """The constants of the right side of a predicate."""
    if isinstance(operand, Constant):
        return (operand,)
    if isinstance(operand, Between):
        return operand.low, operand.high
    return operand.values if isinstance(operand, OneOf) else ()


@dataclass(frozen=True, slots=True)
class RowCount:
    """What a rule says about the number of rows: `row_count >= 1000`, `row_count between 10 and 20`."""

    op: Op
    low: int
    high: int | None = None

    def allows(self, n_rows: int) -> bool:
        return bool(self.op.compare(n_rows, self.low)) and (self.high is None or n_rows <= self.high)


@dataclass(frozen=True, slots=True)
class Freshness:
    """The greatest age of the newest value of a column: `freshness(updated_at) < 1 day`."""

    column: str
    op: Op
    age: datetime.timedelta

    def allows(self, age: datetime.timedelta) -> bool:
        return bool(self.op.compare(age, self.age))


@dataclass(frozen=True, slots=True)
class Predicate:
    """`left op right`. Left is always a column: the parser flips a constant on the left. A domain has == or !=."""

    left: Column
    op: Op
    right: Column | Constant | Domain

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
    """A set of predicates that must never all hold for a pair of rows, and how to judge and report violations.

    A broken rule still passes if one of its tolerances (the attributes that begin with `max_`) is met.

    Attributes:
        predicates: The comparisons. If they name only one row variable, it is a one-row rule, and all columns are LEFT.
        name: The name of the rule; may be empty.
        severity: Whether the broken rule fails a check (`error`), or is only reported (`warning`, `info`).
        max_violations: Tolerance: at most this many violations.
        max_fraction: Tolerance: at most this fraction of all ordered pairs; of all rows for a one-row rule.
        description: What the rule means, in your words.
        min_rows: On a table with fewer rows the rule does not pass.
        max_rows: Tolerance: at most this many rows are in conflict.
        max_rows_fraction: Tolerance: at most this fraction of all rows is in conflict.
        max_remove: Tolerance: the rule holds once at most this many rows are removed.
        tags: Shown in reports.
        owner: Shown in reports.
        measure: For a rule about the whole table: what it measures, in the rows that its predicates choose.
        status: What somebody decided about a discovered rule: accepted (the default), pending or rejected.
    """

    predicates: tuple[Predicate, ...]
    name: str = ""
    severity: Severity = Severity.ERROR
    max_violations: int | None = None
    max_fraction: float | None = None
    description: str = ""
    min_rows: int | None = None
    max_rows: int | None = None
    max_rows_fraction: float | None = None
    max_remove: int | None = None
    tags: tuple[str, ...] = ()
    owner: str = ""
    measure: RowCount | Freshness | None = None
    status: Status = Status.ACCEPTED

    def __repr__(self) -> str:
        from naysay.rule.render import render

        name = f"{self.name}: " if self.name else ""
        if not self.predicates and self.measure is None:
            return "<Rule without predicates>"
        return f"<Rule {name}{render(self, short=True)}>"

    def _repr_html_(self) -> str:
        return str(present(self, "cell"))

    @property
    def is_one_row(self) -> bool:
        return all(column.row is Row.LEFT for column in self.columns)

    @property
    def has_tolerance(self) -> bool:
        limits = (self.max_violations, self.max_fraction, self.max_rows, self.max_rows_fraction, self.max_remove)
        return any(limit is not None for limit in limits)

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(column for predicate in self.predicates for column in predicate.columns)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of all columns it mentions, each once, in order of appearance."""
        measured = (self.measure.column,) if isinstance(self.measure, Freshness) else ()
        return tuple(dict.fromkeys((*measured, *(column.name for column in self.columns))))

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


def split_where(rule: Rule) -> tuple[Rule, tuple[Predicate, ...]]:
    """A rule without its filter, and the filter as predicates of t: conditions that both rows of a pair must meet.

    Of a rule about single rows, the filter is what follows a first predicate that has a domain. Of a rule about the
    table, it is all predicates.
    """
    if rule.measure is not None:
        return replace(rule, predicates=()), rule.predicates
    first = rule.predicates[:1]
    if rule.is_one_row:
        has_domain = bool(first) and isinstance(first[0].right, Domain)
        return (replace(rule, predicates=first), rule.predicates[1:]) if has_domain else (rule, ())
    single = {predicate for predicate in rule.predicates if len(predicate.rows) == 1}
    both = {predicate for predicate in single if predicate.swapped() in single}
    core = tuple(predicate for predicate in rule.predicates if predicate not in both)
    if not any(len(predicate.rows) == 2 for predicate in core):
        return rule, ()
    filters = dict.fromkeys(
        predicate for predicate in rule.predicates if predicate in both and predicate.left.row is Row.LEFT
    )
    return replace(rule, predicates=core), tuple(filters)


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
