"""Columns of outcomes: how two rows compare in each comparison of the space, as bits of a code.

Three outcomes (less, equal, greater) tell everything that six operators can say; a null adds one or two. A row that
is null in a field's column sets the field's `missing` bits, no matter what the other row holds:

| field            | bits | outcomes                                                        |
|------------------|------|-----------------------------------------------------------------|
| EQUALITY         | 1    | 1 equal, 0 not; with `missing` a second bit: 11 incomparable     |
| ORDER            | 2    | 10 equal, 01 less, 00 greater; 11 incomparable                   |
| ORDER_OR_NULL    | 3    | as ORDER; with the third bit: 111 both null, 101 one of them     |

(bits written missing, equal, less). ORDER_OR_NULL is for nulls that equal each other and have no order; if nulls
are as in SQL, "incomparable" satisfies no predicate at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from mmap import ACCESS_COPY, mmap

import numpy as np

from naysay.arrays import BoolArray, Int32Array, Int64Array
from naysay.budget import Budget, Stopped
from naysay.discovery.space import Comparison, Space
from naysay.rule.model import Nulls, Row
from naysay.table import Table

BITS_PER_WORD = 31
# The rows that tell how often two values of a comparison are equal.
_CHANCE_ROWS = 1 << 16
# A column of so many bytes gets memory of its own.
_OWN_BYTES = 1 << 22


class FieldKind(Enum):
    EQUALITY = "equality"
    ORDER = "order"
    ORDER_OR_NULL = "order or null"


@dataclass(frozen=True, slots=True)
class Field:
    """One comparison and its bits in a word of the code.

    `mirror` is the number of the field that holds this one's outcome, flipped, when the two rows change places;
    `place` the number of its comparison in the space, None if only the mirror of another field needs it.
    """

    comparison: Comparison
    kind: FieldKind
    word: int
    less: int
    equal: int
    missing: int
    mirror: int
    place: int | None


@dataclass(frozen=True, slots=True)
class CodeLayout:
    """How outcomes lie in a code, as the kernels of `kernels.evidence` want to know it."""

    fields: tuple[Field, ...]
    masks: Int32Array
    spans: Int64Array
    n_bits: int

    @property
    def n_words(self) -> int:
        return int(self.spans.shape[0])


@dataclass(frozen=True, slots=True)
class Outcomes:
    """A table ready to be compared with itself, row with row.

    `left` and `right` are the sides that `kernels.evidence` describes (the same array if no comparison needs
    two), `weights` the number of equal rows behind each place, `rows` the number of the first of them; None if each
    place is that of its row.
    """

    layout: CodeLayout
    left: Int32Array
    right: Int32Array
    weights: Int64Array
    rows: Int64Array | None = None

    @property
    def n_rows(self) -> int:
        """Distinct rows, as opposed to `n_table_rows`."""
        return int(self.weights.size)

    @property
    def n_table_rows(self) -> int:
        return int(self.weights.sum())

    @property
    def n_pairs(self) -> int:
        """Ordered pairs of distinct rows of the table."""
        return self.n_table_rows * (self.n_table_rows - 1)

    def take(self, places: Int64Array) -> Outcomes:
        """Some of the rows, each with a weight of one."""
        left = _taken(self.left, places)
        right = left if self.right is self.left else _taken(self.right, places)
        return Outcomes(self.layout, left, right, ones(places.size), places if self.rows is None else self.rows[places])

    def row_of(self, place: int) -> int:
        """The number of the first row at a place."""
        return place if self.rows is None else int(self.rows[place])


def ones(n_rows: int) -> Int64Array:
    """A weight of one for each row, which takes no memory; read-only."""
    return np.broadcast_to(np.int64(1), n_rows)


def _taken(side: Int32Array, places: Int64Array) -> Int32Array:
    """Some places of a side. Line by line, so that each line is read while it is in the cache."""
    taken = np.empty((side.shape[0], places.size), np.int32)
    for line, into in zip(side, taken, strict=True):
        # Places are known to be within: anything but "raise" spares numpy a copy.
        np.take(line, places, out=into, mode="clip")
    return taken


@dataclass(frozen=True, slots=True)
class _Line:
    """A field before it has bits: the codes of both sides and where they are null."""

    comparison: Comparison
    kind: FieldKind
    left: Int32Array
    right: Int32Array
    left_null: BoolArray | None
    right_null: BoolArray | None
    p_equal: float

    @property
    def variation(self) -> tuple[float, float]:
        """Of the bits for equal and less: 0 if it never varies, greatest if it is as often set as not."""
        p_less = (1 - self.p_equal) / 2
        return min(self.p_equal, 1 - self.p_equal), min(p_less, 1 - p_less)

    @property
    def has_missing(self) -> bool:
        return self.left_null is not None or self.right_null is not None

    @property
    def n_bits(self) -> int:
        order = 1 if self.kind is FieldKind.EQUALITY else 2
        own_bit = self.kind is not FieldKind.ORDER and self.has_missing
        return order + own_bit


def outcomes_of(
    table: Table,
    space: Space,
    nulls: Nulls,
    *,
    collapse: bool = True,
    nullable: Collection[str] = (),
    budget: Budget | None = None,
) -> Outcomes:
    """Encode a table for the comparisons of a space; equal rows become one with a weight.

    If these are only some rows of a table, `nullable` are the columns in which any of its rows has a null: parts that
    are encoded apart have the same vertices then. Raises Stopped if the budget stops before the end.
    """
    budget = budget or Budget()
    comparisons = list(dict.fromkeys(space.comparisons + tuple(pair.mirrored() for pair in space.comparisons)))
    columns = _columns(table, space, nullable, budget)
    lines = [_line(columns, comparison, nulls) for comparison in comparisons]
    del columns
    layout, order = _lay_out(lines, space)
    lines = [lines[i] for i in order]
    _go_on(budget)
    distinct = _distinct_rows(lines, table.n_rows) if collapse else None
    _go_on(budget)
    chosen = slice(table.n_rows) if distinct is None else distinct[0]
    left, right = _sides(lines, layout, chosen, two_sided=any(pair.across for pair in space.comparisons))
    if distinct is None:
        return Outcomes(layout, left, right, ones(table.n_rows))
    return Outcomes(layout, left, right, distinct[1], distinct[0])


def _go_on(budget: Budget) -> None:
    if budget.stopped():
        raise Stopped


@dataclass(frozen=True, slots=True)
class _Column:
    """A column in codes of 32 bits, those that it is compared with in the same code space; and where it is not null."""

    values: Int32Array
    valid: BoolArray | None

    @property
    def null(self) -> BoolArray | None:
        return None if self.valid is None else ~self.valid

    def above_null(self) -> Int32Array:
        """Codes from 1, and 0 for null."""
        above: Int32Array = self.values + np.int32(1)
        if self.valid is not None:
            above[~self.valid] = 0
        return above


def _columns(table: Table, space: Space, nullable: Collection[str], budget: Budget) -> dict[str, _Column]:
    """Every column, encoded once. Each family from a table of its own: its codes of 64 bits are not kept."""
    columns = {}
    for names, ordered in families(space):
        _go_on(budget)
        for name, codes in zip(names, Table(table.arrow).ranks(names, ordered=ordered), strict=True):
            valid = np.ones(table.n_rows, np.bool_) if codes.valid is None and name in nullable else codes.valid
            columns[name] = _Column(_own_pages(codes.values), valid)
    return columns


def _own_pages(values: Int64Array) -> Int32Array:
    """A narrow copy of codes, in memory that goes back to the system once it is freed: the heap may keep it."""
    n_bytes = 4 * values.size
    if n_bytes < _OWN_BYTES:
        return values.astype(np.int32)
    narrow = np.frombuffer(mmap(-1, n_bytes, access=ACCESS_COPY), np.int32)
    narrow[:] = values
    return narrow


def families(space: Space) -> list[tuple[tuple[str, ...], bool]]:
    """Columns that are compared with each other, directly or by way of others; and whether by order."""
    family = {name: {name} for name in space.names}
    for pair in space.comparisons:
        together = family[pair.left.name] | family[pair.right.name]
        family.update(dict.fromkeys(together, together))
    found = dict.fromkeys(tuple(name for name in space.names if name in names) for names in family.values())
    return [(names, any(pair.ordered for pair in space.comparisons if pair.left.name in names)) for names in found]


def _line(columns: Mapping[str, _Column], comparison: Comparison, nulls: Nulls) -> _Line:
    left, right = columns[comparison.left.name], columns[comparison.right.name]
    if comparison.within_row:
        return _within_row(comparison, left, right, nulls)
    kind = FieldKind.ORDER if comparison.ordered else FieldKind.EQUALITY
    left_null, right_null = left.null, right.null
    left_values, right_values = left.values, right.values
    if nulls is Nulls.EQUAL and (left_null is not None or right_null is not None):
        left_values = left.above_null()
        right_values = left_values if left is right else right.above_null()
        if comparison.ordered:
            kind = FieldKind.ORDER_OR_NULL
        else:
            left_null = right_null = None
    return _Line(
        comparison, kind, left_values, right_values, left_null, right_null, _chance_equal(left_values, right_values)
    )


def _within_row(comparison: Comparison, left: _Column, right: _Column, nulls: Nulls) -> _Line:
    """Two columns of one row: the outcome is the row's own, so it meets a constant on the other side.

    The row's value is 0, 1 or 2 as its left column is less than, equal to or greater than its right one, against 1.
    """
    own = 1 + np.sign(left.values - right.values)
    one, other = (np.zeros(own.size, np.bool_) if column.valid is None else ~column.valid for column in (left, right))
    either = one | other
    null = either if left.valid is not None or right.valid is not None else None
    kind = FieldKind.ORDER if comparison.ordered else FieldKind.EQUALITY
    if null is not None and nulls is Nulls.EQUAL:
        own = np.where(either, np.where(one & other, 1, 2), own).astype(np.int32)
        if comparison.ordered:
            kind = FieldKind.ORDER_OR_NULL
        else:
            null = None
    p_equal = float(np.mean(own == 1)) if own.size else 0.0
    constant = np.ones(own.size, np.int32)
    if comparison.left.row is Row.LEFT:
        return _Line(comparison, kind, own, constant, null, None, p_equal)
    return _Line(comparison, kind, constant, 2 - own, None, null, p_equal)


def _chance_equal(left: Int32Array, right: Int32Array) -> float:
    """About the fraction of pairs whose codes are equal: it only says which bits lie together."""
    if not left.size:
        return 0.0
    step = max(1, left.size // _CHANCE_ROWS)
    left, right = left[::step], right[::step]
    n_values = int(max(left.max(), right.max())) + 1
    left_counts = np.bincount(left, minlength=n_values) / left.size
    right_counts = left_counts if right is left else np.bincount(right, minlength=n_values) / right.size
    # Not a product of vectors, for which BLAS wakes threads that cost more than the work.
    return float((left_counts * right_counts).sum())


def _lay_out(lines: list[_Line], space: Space) -> tuple[CodeLayout, list[int]]:
    """Give every field its bits, those that vary most lowest, and fields with order first within each word."""
    words: list[list[int]] = [[]]
    used = 0
    for i in sorted(range(len(lines)), key=lambda i: -max(lines[i].variation)):
        if used + lines[i].n_bits > BITS_PER_WORD:
            words.append([])
            used = 0
        words[-1].append(i)
        used += lines[i].n_bits
    for word in words:
        word.sort(key=lambda i: lines[i].kind is FieldKind.EQUALITY)
    order = [i for word in words for i in word]
    numbers = {lines[i].comparison: number for number, i in enumerate(order)}
    places = {comparison: place for place, comparison in enumerate(space.comparisons)}
    fields: list[Field] = []
    spans = []
    for number, word in enumerate(words):
        n_ordered = sum(lines[i].kind is not FieldKind.EQUALITY for i in word)
        spans.append((len(fields), len(fields) + n_ordered, len(fields) + len(word)))
        bits = _assign_bits(lines, word)
        for i in word:
            pair = lines[i].comparison
            less, equal, missing = _masks(lines[i], bits[i])
            mirror, place = numbers[pair.mirrored()], places.get(pair)
            fields.append(Field(pair, lines[i].kind, number, less, equal, missing, mirror, place))
    masks = np.array([[field.less for field in fields], [field.equal for field in fields]], np.int32)
    n_bits = sum(line.n_bits for line in lines)
    return CodeLayout(tuple(fields), masks.reshape(2, len(fields)), np.array(spans, np.int64), n_bits), order


def _assign_bits(lines: list[_Line], word: list[int]) -> dict[int, dict[str, int]]:
    wanted: list[tuple[float, int, str]] = []
    for i in word:
        line = lines[i]
        wanted.append((line.variation[0], i, "equal"))
        if line.kind is not FieldKind.EQUALITY:
            wanted.append((line.variation[1], i, "less"))
        if line.has_missing and line.kind is not FieldKind.ORDER:
            wanted.append((0.0, i, "missing"))
    bits: dict[int, dict[str, int]] = {i: {} for i in word}
    for place, (_, i, name) in enumerate(sorted(wanted, key=lambda bit: -bit[0])):
        bits[i][name] = 1 << place
    return bits


def _masks(line: _Line, bits: dict[str, int]) -> tuple[int, int, int]:
    """Bits for less, equal and missing. What else a code would say next to a null means nothing: `missing` sets it too,
    so that it always says the same."""
    less, equal, own = bits.get("less", 0), bits["equal"], bits.get("missing", 0)
    if not line.has_missing:
        return less, equal, 0
    also = {FieldKind.EQUALITY: equal, FieldKind.ORDER: less | equal, FieldKind.ORDER_OR_NULL: less}
    return less, equal, own | also[line.kind]


def _sides(
    lines: list[_Line], layout: CodeLayout, some: Int64Array | slice, *, two_sided: bool
) -> tuple[Int32Array, Int32Array]:
    """Both sides, the same array if there are not two. Takes the lines from the list one by one, to free them."""
    n_lines = len(lines)
    n_rows = some.stop if isinstance(some, slice) else some.size
    left = np.zeros((n_lines + layout.n_words, n_rows), np.int32)
    right = np.zeros_like(left) if two_sided else left
    for number, field in reversed(list(enumerate(layout.fields))):
        line = lines.pop()
        sides = [(left, line.left, line.left_null), (right, line.right, line.right_null)]
        for side, values, null in sides[: 1 + two_sided]:
            side[number] = values[some]
            if null is not None:
                side[n_lines + field.word][null[some]] |= field.missing
    return left, right


def _distinct_rows(lines: list[_Line], n_rows: int) -> tuple[Int64Array, Int64Array] | None:
    """The first of each set of equal rows, ascending, and how many there are; None if all rows are distinct.

    Two nulls are equal rows' nulls.
    """
    from naysay.kernels.sort import dense_groups

    # Every column of a space is compared with itself.
    columns = [line for line in lines if line.comparison.left.name == line.comparison.right.name]
    n_values = {id(line): int(line.left.max(initial=0)) + 2 for line in columns}
    ids = np.zeros(n_rows, np.int64)
    n_ids = min(1, n_rows)
    nothing = np.empty(0, np.int64)
    for line in sorted(columns, key=lambda line: -n_values[id(line)]):
        if n_ids == n_rows:
            return None
        keys = line.left + np.int64(1)
        if line.left_null is not None:
            keys[line.left_null] = 0
        keys += ids * n_values[id(line)]
        ids, _, n_ids = dense_groups(keys, nothing)
    if n_ids == n_rows:
        return None
    first = np.full(n_ids, n_rows, np.int64)
    np.minimum.at(first, ids, np.arange(n_rows))
    return first, np.bincount(ids, minlength=n_ids)


def mirrored(codes: Int32Array, layout: CodeLayout) -> Int32Array:
    """The codes of the same pairs with their rows exchanged; codes is int32[n, n_words]."""
    swapped = np.zeros_like(codes)
    for field in layout.fields:
        source = layout.fields[field.mirror]
        word = codes[:, source.word]
        less, equal = (word & source.less) != 0, (word & source.equal) != 0
        own_bit = source.missing & ~(source.less | source.equal)
        null = (word & own_bit) != 0
        if source.less:
            # less and greater change places; "incomparable" (both bits) stays.
            swapped[:, field.word] |= np.where(np.where(null, less, less == equal), field.less, 0).astype(np.int32)
        swapped[:, field.word] |= np.where(equal, field.equal, 0).astype(np.int32)
        swapped[:, field.word] |= np.where(null, field.missing, 0).astype(np.int32)
    return swapped
