"""A rule while it is read: predicates in terms of row names, which become left and right at the end."""

from __future__ import annotations

import re
from collections.abc import Sequence

from naysay.rule import messages
from naysay.rule.literal import read_constant
from naysay.rule.model import Column, Constant, Op, Predicate, Row
from naysay.rule.rows import assign_rows
from naysay.rule.scan import MAX_PREDICATES, Scanner, shortened


def key(columns: Sequence[str]) -> tuple[Predicate, ...]:
    """No two rows agree on all the columns: `key(A, B)`."""
    return tuple(pair(column, Op.EQ) for column in columns)


def dependency(columns: Sequence[str], dependent: str) -> tuple[Predicate, ...]:
    """Rows that agree on the columns agree on the dependent one: `A, B -> C`."""
    return (*key(columns), pair(dependent, Op.NE))


def ordered(first: str, second: str, by: Sequence[str] = ()) -> tuple[Predicate, ...]:
    """Within a group, a higher first never comes with a lower second: `ordered(A, B by C)`."""
    return (*key(by), pair(first, Op.GT), pair(second, Op.LT))


def no_overlap(start: str, end: str, by: Sequence[str] = ()) -> tuple[Predicate, ...]:
    """Within a group, the spans from start to end never overlap; to touch is no overlap: `no_overlap(A, B by C)`."""
    return (
        *key(by),
        Predicate(Column(Row.LEFT, start), Op.LT, Column(Row.RIGHT, end)),
        Predicate(Column(Row.RIGHT, start), Op.LT, Column(Row.LEFT, end)),
    )


def pair(column: str, op: Op) -> Predicate:
    """The same column of both rows: `t.A op s.A`."""
    return Predicate(Column(Row.LEFT, column), op, Column(Row.RIGHT, column))


# A column whose row is still only a name.
Reference = tuple[str, str]
Operand = Reference | Constant

OPS = {
    "=": Op.EQ,
    "==": Op.EQ,
    "!=": Op.NE,
    "<>": Op.NE,
    "≠": Op.NE,
    "<": Op.LT,
    "<=": Op.LE,
    "≤": Op.LE,
    "⩽": Op.LE,
    ">": Op.GT,
    ">=": Op.GE,
    "≥": Op.GE,
    "⩾": Op.GE,
}
ROW_NAME = r"[^\W\d]\w*['′’]*"
ROW = re.compile(rf"({ROW_NAME})\s*([.\[])")
_BARE = re.compile(r"\w+")
_OPERATOR = re.compile(r"[=!<>~:≠≤≥⩽⩾]+")
_PRIMES = str.maketrans("′’", "''")


class Draft:
    """Predicates as they are read. `declared` are the row names that a quantifier announced, if there was one."""

    __slots__ = ("_declared", "_names", "_predicates", "_scanner")

    def __init__(self, scanner: Scanner, declared: Sequence[str] = ()) -> None:
        self._scanner = scanner
        self._declared = tuple(name.translate(_PRIMES) for name in declared)
        self._names: list[str] = []
        self._predicates: list[tuple[Operand, Op, Operand]] = []

    def refer(self, row: str, column: str, position: int) -> Reference:
        """A column of a row; the third row name of a rule is an error."""
        row = row.translate(_PRIMES)
        if row not in self._names:
            if self._declared and row not in self._declared:
                messages.undeclared_row(self._scanner, position, row, self._declared)
            if len(self._names) == 2:
                messages.third_row(self._scanner, position, row, self._names)
            self._names.append(row)
        return row, column

    def add(self, left: Operand, op: Op, right: Operand, position: int) -> None:
        if len(self._predicates) == MAX_PREDICATES:
            self._scanner.fail(position, f"a rule has at most {MAX_PREDICATES} predicates")
        if isinstance(left, Constant) and isinstance(right, Constant):
            self._scanner.fail(
                position, "this compares two constants", "At least one side is a column of a row, such as t.A."
            )
        self._predicates.append((left, op, right))

    def predicates(self) -> tuple[Predicate, ...]:
        names = self._names
        if self._declared:
            names = sorted(names, key=self._declared.index)
        rows = assign_rows(names)

        def placed(operand: Operand) -> Column | Constant:
            return operand if isinstance(operand, Constant) else Column(rows[operand[0]], operand[1])

        predicates = []
        for left, op, right in self._predicates:
            one, two = placed(left), placed(right)
            if isinstance(one, Constant):
                one, op, two = two, op.flipped, one
            assert isinstance(one, Column)
            predicates.append(Predicate(one, op, two))
        return tuple(predicates)


def read_predicate(scanner: Scanner, draft: Draft) -> None:
    """Read `operand operator operand` into the draft."""
    position = scanner.skip()
    left = read_operand(scanner, draft)
    op = read_operator(scanner)
    right = read_operand(scanner, draft)
    again = scanner.peek(_OPERATOR)
    if again is not None and again.group() in OPS:
        messages.chained(scanner)
    draft.add(left, op, right, position)


def read_operand(scanner: Scanner, draft: Draft) -> Operand:
    position = scanner.skip()
    row = scanner.match(ROW)
    if row is not None:
        return draft.refer(row.group(1), _read_column(scanner, row.group(2), row.group(1)), position)
    constant = read_constant(scanner)
    if constant is None:
        messages.no_operand(scanner)
    return constant


def _read_column(scanner: Scanner, opening: str, row: str) -> str:
    """Read what follows the row: `.Name`, `."Odd name"`, `` .`Odd name` `` or `["Odd name"]`."""
    position = scanner.skip()
    bare = scanner.match(_BARE) if opening == "." else None
    if bare is not None:
        if scanner.text.startswith((".", "-", "(", "$", "@", "/", "#"), scanner.position, scanner.end):
            messages.odd_name(scanner, position, row)
        return scanner.known(bare.group(), position)
    name = scanner.quoted()
    if name is None:
        name = scanner.ticked()
    if name is None:
        messages.no_column(scanner, row, opening)
    if opening == "[" and not scanner.take("]"):
        scanner.fail(scanner.skip(), f"a ] should follow the name {shortened(name)!r}")
    return scanner.known(name, position)


def read_operator(scanner: Scanner) -> Op:
    position = scanner.skip()
    found = scanner.match(_OPERATOR)
    if found is None:
        messages.no_operator(scanner)
    op = OPS.get(found.group())
    if op is None:
        messages.wrong_operator(scanner, position, found.group())
    return op
