"""The predicates of a rule while it is read, in terms of row names, which become left and right at the end."""

from __future__ import annotations

import re
from collections.abc import Sequence

from naysay.rule import messages
from naysay.rule.literal import read_constant
from naysay.rule.model import Between, Column, Constant, Domain, Missing, OneOf, Op, Pattern, Predicate, Row
from naysay.rule.pattern import PatternError, portable
from naysay.rule.scan import MAX_PREDICATES, Scanner, n_shared, shortened


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
    """Within a group, the spans from start to end never overlap, but may touch: `no_overlap(A, B by C)`."""
    return (
        *key(by),
        Predicate(Column(Row.LEFT, start), Op.LT, Column(Row.RIGHT, end)),
        Predicate(Column(Row.RIGHT, start), Op.LT, Column(Row.LEFT, end)),
    )


def pair(column: str, op: Op) -> Predicate:
    """The same column of both rows: `t.A op s.A`."""
    return Predicate(Column(Row.LEFT, column), op, Column(Row.RIGHT, column))


# Names that are left and right by convention, regardless of which one the text mentions first.
_ROW_PAIRS = frozenset(
    [
        *(("t", "s"), ("a", "b"), ("i", "j"), ("l", "r"), ("p", "q"), ("u", "v"), ("x", "y"), ("α", "β")),
        *(("left", "right"), ("first", "second"), ("old", "new")),
    ]
)


def assign_rows(names: Sequence[str]) -> dict[str, Row]:
    """Map one or two row names, in order of first mention, to LEFT and RIGHT; a convention beats the order."""
    if len(names) == 2 and _conventional(names[1], names[0]):
        names = (names[1], names[0])
    return dict(zip(names, (Row.LEFT, Row.RIGHT), strict=False))


def _conventional(left: str, right: str) -> bool:
    """By convention these two names have this order: t before s, t0 before t1, t before t', x before y."""
    if (left.lower(), right.lower()) in _ROW_PAIRS:
        return True
    shared = left[: n_shared(left, right)].rstrip("0123456789")
    one, two = left[len(shared) :], right[len(shared) :]
    if one.isdecimal() and two.isdecimal():
        return _number_key(one) < _number_key(two)
    if not shared:
        return False
    return (one.lower(), two.lower()) in _ROW_PAIRS or (not one and (two.isdecimal() or not two.strip("'")))


def _number_key(digits: str) -> tuple[int, str]:
    """Orders numbers that may be too long to convert."""
    significant = digits.lstrip("0")
    return len(significant), significant


# A column whose row is still only a name.
Reference = tuple[str, str]
Operand = Reference | Constant

OPS = {op.value: op for op in Op} | {"=": Op.EQ, "<>": Op.NE, "≠": Op.NE}
OPS |= {"≤": Op.LE, "⩽": Op.LE, "≥": Op.GE, "⩾": Op.GE}
ROW_NAME = r"[^\W\d]\w*['′’]*"
ROW = re.compile(rf"({ROW_NAME})\s*([.\[])")
_BARE = re.compile(r"\w+")
_OPERATOR = re.compile(r"[=!<>~:≠≤≥⩽⩾]+")
_PRIMES = str.maketrans("′’", "''")


class Draft:
    """Predicates as they are read. `declared` are the row names that a quantifier declared, if there was one."""

    __slots__ = ("_declared", "_names", "_predicates", "_scanner")

    def __init__(self, scanner: Scanner, declared: Sequence[str] = ()) -> None:
        self._scanner = scanner
        self._declared = tuple(name.translate(_PRIMES) for name in declared)
        self._names: list[str] = []
        self._predicates: list[tuple[Operand, Op, Operand | Domain]] = []

    def refer(self, row: str, column: str, position: int) -> Reference:
        """A column of a row; the third row name of a rule is an error."""
        row = row.translate(_PRIMES)
        if row not in self._names:
            if self._declared and row not in self._declared:
                known = shortened(", ".join(self._declared))
                self._scanner.fail(position, f"row {shortened(row)!r} is not declared; the declared rows are {known}")
            if len(self._names) == 2:
                messages.third_row(self._scanner, position, row, self._names)
            self._names.append(row)
        return row, column

    def add(self, left: Operand, op: Op, right: Operand | Domain, position: int) -> None:
        if len(self._predicates) == MAX_PREDICATES:
            self._scanner.fail(position, f"a rule has at most {MAX_PREDICATES} predicates")
        if isinstance(left, Constant) and isinstance(right, Constant | Domain):
            hint = "At least one side must be a column of a row, such as t.A."
            self._scanner.fail(position, "this compares two constants", hint)
        self._predicates.append((left, op, right))

    def predicates(self) -> tuple[Predicate, ...]:
        rows = assign_rows(sorted(self._names, key=self._declared.index) if self._declared else self._names)

        def placed(operand: Operand) -> Column | Constant:
            return operand if isinstance(operand, Constant) else Column(rows[operand[0]], operand[1])

        predicates = []
        for left, op, right in self._predicates:
            one, two = placed(left), right if isinstance(right, Domain) else placed(right)
            if isinstance(one, Constant) and isinstance(two, Column):
                one, op, two = two, op.flipped, one
            assert isinstance(one, Column)
            predicates.append(Predicate(one, op, two))
        return tuple(predicates)


_NULL = re.compile(r"is\s+(not\s+)?null\b", re.IGNORECASE)
_DOMAIN = re.compile(r"(not\s+)?(in\b(?=\s*\()|(?:between|matches)\b)", re.IGNORECASE)
_THEN = re.compile(r"and\b", re.IGNORECASE)


def read_domain(scanner: Scanner) -> tuple[Op, Domain] | None:
    """Read `is null`, `in (...)`, `between ... and ...` or `matches '...'`, or their opposite, if one begins here."""
    null = scanner.match(_NULL)
    if null is not None:
        return (Op.NE if null.group(1) else Op.EQ), Missing()
    found = scanner.match(_DOMAIN)
    if found is None:
        return None
    word = found.group(2).lower()
    domain = {"in": _read_list, "between": _read_range, "matches": _read_pattern}[word](scanner)
    return (Op.NE if found.group(1) else Op.EQ), domain


def _read_list(scanner: Scanner) -> OneOf:
    scanner.take("(")
    values = [_read_value(scanner)]
    while scanner.take(","):
        values.append(_read_value(scanner))
    if not scanner.take(")"):
        scanner.fail(scanner.skip(), f"expected a comma or ), found {scanner.here()}", "Write in ('CA', 'NY').")
    return OneOf(tuple(dict.fromkeys(values)))


def _read_range(scanner: Scanner) -> Between:
    position = scanner.skip()
    low = _read_value(scanner)
    if not scanner.match(_THEN):
        scanner.fail(scanner.skip(), f"expected 'and', found {scanner.here()}", "Write between 0 and 1.")
    high = _read_value(scanner)
    try:
        # NaN is the greatest number.
        is_empty = high.value == high.value and (low.value != low.value or low.value > high.value)  # type: ignore[operator]
    except TypeError:
        scanner.fail(position, "the two ends of the range are of different types")
    if is_empty:
        scanner.fail(position, "no value lies in this range", "Write the lower end first.")
    return Between(low, high)


def _read_pattern(scanner: Scanner) -> Pattern:
    position = scanner.skip()
    text = scanner.quoted(is_pattern=True)
    if text is None:
        scanner.fail(position, f"expected a quoted pattern, found {scanner.here()}", "Write matches '[0-9]{5}'.")
    try:
        portable(text)
    except PatternError as error:
        scanner.fail(position, *error.args)
    return Pattern(text)


def _read_value(scanner: Scanner) -> Constant:
    constant = read_constant(scanner)
    if constant is None:
        messages.no_value(scanner)
    return constant


def read_predicate(scanner: Scanner, draft: Draft) -> None:
    """Read `operand operator operand` into the draft."""
    position = scanner.skip()
    left = read_operand(scanner, draft)
    found = read_domain(scanner)
    if found is not None:
        draft.add(left, *found, position)
        return
    op = read_operator(scanner)
    right = read_operand(scanner, draft)
    again = scanner.peek(_OPERATOR)
    if again is not None and again.group() in OPS:
        hint = "Write a < b and b < c instead of a < b < c."
        scanner.fail(scanner.skip(), "a second comparison follows the first", hint)
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
        where = "after the dot" if opening == "." else "in the brackets"
        hint = f'Write {row}.Name or {row}["Odd name"].'
        scanner.fail(scanner.skip(), f"expected a column name {where}, found {scanner.here()}", hint)
    if opening == "[" and not scanner.take("]"):
        scanner.fail(scanner.skip(), f"expected ] after the name {shortened(name)!r}")
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
