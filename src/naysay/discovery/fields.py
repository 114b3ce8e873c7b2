"""Outcomes of rows that come and go: a layout that grows with the first null, and the sides of a batch in it.

`discover.outcomes` looks at a whole table to decide what a field must be able to say. Here a table is never seen
whole: a field has room for null from the first null on that its columns ever held, and what its vertices are is decided
by whether they hold one now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from naysay.arrays import BoolArray, Int32Array
from naysay.discovery.outcomes import CodeLayout, Field, FieldKind, _lay_out, _Line
from naysay.discovery.space import Comparison, Space
from naysay.live.codes import NARROW_NULL, CodeSpace
from naysay.rule.model import Nulls, Row
from naysay.table.column import Kind, kind_of

NULL = NARROW_NULL
Codes = dict[str, Int32Array]


class Coding:
    """The codes of all columns that a space compares; columns that are compared with each other share theirs."""

    def __init__(self, schema: pa.Schema, space: Space) -> None:
        self.names = space.names
        self._spaces = {tuple(names): _code_space(schema, names, space) for names in _families(space)}

    def encode(self, table: pa.Table) -> tuple[Codes, bool]:
        """The codes of a batch, NULL for null. The flag is True if codes given out before are void."""
        before = self._version()
        codes: Codes = {}
        for names, space in self._spaces.items():
            codes |= zip(names, space.encode_narrow([table.column(name) for name in names]), strict=True)
        return codes, self._version() != before

    def _version(self) -> int:
        return sum(space.version for space in self._spaces.values())


def _code_space(schema: pa.Schema, names: Sequence[str], space: Space) -> CodeSpace:
    types = [schema.field(name).type for name in names]
    ordered = any(pair.ordered for pair in space.comparisons if pair.left.name in names)
    return CodeSpace(types, ordered=ordered or not any(kind_of(type_) is Kind.TEXT for type_ in types))


def _families(space: Space) -> list[list[str]]:
    """The columns of a space, those together that some comparison sets beside each other."""
    family = {name: [name] for name in space.names}
    for pair in space.comparisons:
        one, other = family[pair.left.name], family[pair.right.name]
        if one is not other:
            one += other
            for name in other:
                family[name] = one
    return list({id(names): names for names in family.values()}.values())


_NOTHING = np.empty(0, np.int32)
_NO_NULL = np.empty(0, np.bool_)


@dataclass(frozen=True, slots=True)
class Fields:
    """A space laid out: `layout` for kernels, over columns of which `nullable` have held a null."""

    space: Space
    nulls: Nulls
    nullable: frozenset[str]
    chances: Mapping[Comparison, float]
    layout: CodeLayout

    @property
    def n_lines(self) -> int:
        """Lines of a side, as `kernels.evidence.pairs` wants them."""
        return len(self.layout.fields) + self.layout.n_words

    @property
    def two_sided(self) -> bool:
        return any(pair.across for pair in self.space.comparisons)

    def widened(self, nullable: frozenset[str]) -> Fields:
        """The same with room for null in more columns."""
        return fields_of(self.space, self.nulls, nullable, self.chances)

    def now(self, with_null: frozenset[str]) -> CodeLayout:
        """The layout as discovery would have it of a table with nulls in these columns: for vertices and edges."""
        fields = tuple(
            replace(field, kind=FieldKind.ORDER)
            if field.kind is FieldKind.ORDER_OR_NULL and not _names(field.comparison) & with_null
            else field
            for field in self.layout.fields
        )
        return replace(self.layout, fields=fields)

    def fill(self, codes: Codes, left: Int32Array, right: Int32Array, start: int) -> None:
        """Write the sides of a batch from a place on; `right` may be the same array as `left`."""
        for number, field in enumerate(self.layout.fields):
            stop = start + codes[field.comparison.left.name].size
            self._fill_line(field, codes, left[:, start:stop], number, Row.LEFT)
            if right is not left:
                self._fill_line(field, codes, right[:, start:stop], number, Row.RIGHT)

    def _fill_line(self, field: Field, codes: Codes, side: Int32Array, number: int, row: Row) -> None:
        comparison = field.comparison
        null: BoolArray | None
        if comparison.within_row:
            values, null = self._within_row(comparison, codes, row)
        else:
            name = (comparison.left if row is Row.LEFT else comparison.right).name
            values, null = codes[name], codes[name] == NULL
        side[number] = values
        word = len(self.layout.fields) + field.word
        if number == self.layout.spans[field.word, 0]:
            side[word] = 0
        if field.missing and null is not None:
            side[word][null] |= field.missing

    def _within_row(self, comparison: Comparison, codes: Codes, row: Row) -> tuple[Int32Array, BoolArray | None]:
        """Two columns of one row: 0, 1 or 2 as the left one is less, equal or greater; against 1 on the other side."""
        one, other = codes[comparison.left.name], codes[comparison.right.name]
        if comparison.left.row is not row:
            return np.ones(one.size, np.int32), None
        own = np.where(one < other, 0, np.where(one == other, 1, 2)).astype(np.int32)
        null_one, null_other = one == NULL, other == NULL
        null = null_one | null_other
        if self.nulls is Nulls.EQUAL:
            own[null] = np.where(null_one & null_other, 1, 2)[null]
        return (own if row is Row.LEFT else (2 - own).astype(np.int32)), null


def fields_of(space: Space, nulls: Nulls, nullable: frozenset[str], chances: Mapping[Comparison, float]) -> Fields:
    """Lay out a space. `chances` are how often the two values of a comparison are equal: what varies lies together."""
    comparisons = dict.fromkeys(space.comparisons + tuple(pair.mirrored() for pair in space.comparisons))
    lines = [_line(pair, nulls, bool(_names(pair) & nullable), chances.get(pair, 0.0)) for pair in comparisons]
    layout, _ = _lay_out(lines, space)
    return Fields(space, nulls, nullable, chances, layout)


def _line(comparison: Comparison, nulls: Nulls, nullable: bool, chance: float) -> _Line:
    kind = FieldKind.ORDER if comparison.ordered else FieldKind.EQUALITY
    if nullable and nulls is Nulls.EQUAL:
        if comparison.ordered:
            kind = FieldKind.ORDER_OR_NULL
        else:
            nullable = False
    null = _NO_NULL if nullable else None
    return _Line(comparison, kind, _NOTHING, _NOTHING, null, null, chance)


def converted(codes: Int32Array, old: CodeLayout, new: CodeLayout) -> Int32Array:
    """Codes of one layout in another of the same comparisons, with room for null in more of them."""
    same = np.zeros((len(codes), new.n_words), np.int32)
    sources = {field.comparison: field for field in old.fields}
    for field in new.fields:
        source = sources[field.comparison]
        word = codes[:, source.word]
        for bit, new_bit in _bits(source, field):
            same[:, field.word] |= np.where(word & bit != 0, new_bit, 0).astype(np.int32)
    return same


def _bits(source: Field, field: Field) -> list[tuple[int, int]]:
    own, new_own = (each.missing & ~(each.less | each.equal) for each in (source, field))
    pairs = [(source.less, field.less), (source.equal, field.equal), (own, new_own)]
    return [(bit, new_bit) for bit, new_bit in pairs if bit]


def chances_of(codes: Codes, space: Space) -> dict[Comparison, float]:
    """How often two rows of a batch agree, comparison by comparison; a few thousand rows tell enough."""
    chances = {}
    for pair in space.comparisons + tuple(pair.mirrored() for pair in space.comparisons):
        left, right = codes[pair.left.name][:4096], codes[pair.right.name][:4096]
        if pair.within_row:
            chances[pair] = float(np.mean(left == right)) if left.size else 0.0
            continue
        values, n_left = np.unique(left, return_counts=True)
        others, n_right = np.unique(right, return_counts=True)
        _, at, other_at = np.intersect1d(values, others, assume_unique=True, return_indices=True)
        n_equal = int(np.sum(n_left[at] * n_right[other_at], dtype=np.int64))
        chances[pair] = n_equal / max(1, left.size * right.size)
    return chances


def n_nulls(codes: Codes) -> dict[str, int]:
    """How many rows of a batch are null, column by column."""
    return {name: int(np.count_nonzero(values == NULL)) for name, values in codes.items()}


def _names(comparison: Comparison) -> frozenset[str]:
    return frozenset((comparison.left.name, comparison.right.name))
