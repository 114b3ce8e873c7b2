"""Rules as sets of vertices that hit every evidence.

A vertex is a weakest predicate of one comparison: `>=`, `!=`, `<=` if there is an order, else `==` and
`!=`. All other operators are conjunctions of these (`<` is `<=` and `!=`). A pair of rows keeps a rule exactly
when it fails one of its vertices, so a rule holds when its vertices hit, in each evidence, the set of vertices that
the evidence fails: the *edge*. Minimal hitting sets are the minimal rules, and that `<=` implies less than `<` comes
for free. If nulls equal each other, `==` is not a conjunction of the others and is a vertex of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import BoolArray, Int64Array, UInt64Array
from naysay.discovery.evidence import Evidence, add_up, is_first, word_order
from naysay.discovery.outcomes import CodeLayout, Field, FieldKind
from naysay.discovery.space import Comparison, Space
from naysay.errors import UsageError
from naysay.rule.model import Column, Op, Predicate, Rule
from naysay.rule.render import render_predicate

_BITS = np.array([byte.bit_count() for byte in range(256)], np.uint8)
_GE, _NE, _LE, _EQ = 1, 2, 4, 8
_SAME, _OTHER = 1, 2

# For each kind of field: what a set of its vertices means; sets that are not named never hold or say nothing new.
_MEANING: dict[FieldKind, dict[int, tuple[Op, ...]]] = {
    FieldKind.EQUALITY: {_SAME: (Op.EQ,), _OTHER: (Op.NE,)},
    FieldKind.ORDER: {
        _GE: (Op.GE,),
        _NE: (Op.NE,),
        _LE: (Op.LE,),
        _GE | _NE: (Op.GT,),
        _LE | _NE: (Op.LT,),
        _GE | _LE: (Op.EQ,),
    },
    FieldKind.ORDER_OR_NULL: {
        _GE: (Op.GE,),
        _NE: (Op.NE,),
        _LE: (Op.LE,),
        _EQ: (Op.EQ,),
        _GE | _NE: (Op.GT,),
        _LE | _NE: (Op.LT,),
        _GE | _LE: (Op.LE, Op.GE),
    },
}
# How many predicates a set of vertices means.
_LENGTHS = {
    kind: np.array([len(sets.get(chosen, ())) for chosen in range(16)], np.int64) for kind, sets in _MEANING.items()
}
# What each vertex says of its two operands, for `kernels.covers.possible`: left at most right, at least right, differs;
# neither is null, even if nulls equal each other.
_AT_MOST, _AT_LEAST, _DIFFERS, _VALUES = 1, 2, 4, 8
_SAYS = {
    FieldKind.EQUALITY: (_AT_MOST | _AT_LEAST, _DIFFERS),
    FieldKind.ORDER: (_AT_LEAST | _VALUES, _DIFFERS, _AT_MOST | _VALUES),
    FieldKind.ORDER_OR_NULL: (_AT_LEAST | _VALUES, _DIFFERS, _AT_MOST | _VALUES, _AT_MOST | _AT_LEAST),
}
_SIZE = {FieldKind.EQUALITY: 2, FieldKind.ORDER: 3, FieldKind.ORDER_OR_NULL: 4}
_FLIPPED = {FieldKind.EQUALITY: (0, 1), FieldKind.ORDER: (2, 1, 0), FieldKind.ORDER_OR_NULL: (2, 1, 0, 3)}


@dataclass(frozen=True, slots=True)
class VertexGroup:
    """The vertices of one comparison: bits first, first + 1, ... of 64-bit words; a group stays within one word."""

    comparison: Comparison
    kind: FieldKind
    first: int

    @property
    def size(self) -> int:
        return _SIZE[self.kind]

    @property
    def mask(self) -> int:
        return ((1 << self.size) - 1) << self.first

    def says_equal(self, chosen: int) -> bool:
        """Whether a choice of its vertices, its first as bit 0, asks for equality."""
        ops = _MEANING[self.kind].get(chosen, ())
        return Op.EQ in ops or len(ops) == 2

    def vertices_of(self, op: Op) -> int | None:
        """The vertices that together mean an operator; None if this comparison does not have it."""
        return next((chosen << self.first for chosen, ops in _MEANING[self.kind].items() if ops == (op,)), None)

    def has_choice(self, cover: int) -> bool:
        """Whether what a cover has of this group means something."""
        chosen = (cover & self.mask) >> self.first
        return not chosen or chosen in _MEANING[self.kind]

    def ops(self, cover: int) -> tuple[Op, ...]:
        """What a cover says about this comparison; nothing if it has none of its vertices."""
        chosen = (cover & self.mask) >> self.first
        return _MEANING[self.kind][chosen] if chosen else ()


@dataclass(frozen=True, slots=True)
class Vertices:
    """All vertices of a space over a table. A cover is an int or a row of 64-bit words, a bit a vertex."""

    groups: tuple[VertexGroup, ...]

    @property
    def n_words(self) -> int:
        return max((group.first // 64 + 1 for group in self.groups), default=1)

    def rule(self, cover: int) -> Rule:
        return Rule(
            tuple(
                Predicate(group.comparison.left, op, group.comparison.right)
                for group in self.groups
                for op in group.ops(cover)
            )
        )

    def cover(self, rule: Rule) -> int:
        """The vertices that a rule asks for; UsageError if it compares what the space does not."""
        cover = 0
        for predicate in rule.predicates:
            turned = [predicate.flipped()] if isinstance(predicate.right, Column) else []
            chosen = [
                group.vertices_of(given.op)
                for given in (predicate, *turned)
                for group in self.groups
                if (group.comparison.left, group.comparison.right) == (given.left, given.right)
            ]
            if not chosen or chosen[0] is None:
                raise UsageError(f"discovery does not compare {render_predicate(predicate)}, which is part of the rule")
            cover |= chosen[0]
        return cover

    def n_predicates(self, covers: UInt64Array) -> Int64Array:
        """How many predicates each cover's rule has."""
        total = np.zeros(len(covers), np.int64)
        for group in self.groups:
            total += _LENGTHS[group.kind][self.chosen(covers, group)]
        return total

    def n_groups(self, covers: UInt64Array) -> Int64Array:
        """How many comparisons each cover has vertices of."""
        total = np.zeros(len(covers), np.int64)
        for group in self.groups:
            total += self.chosen(covers, group) != 0
        return total

    def chosen(self, covers: UInt64Array, group: VertexGroup) -> Int64Array:
        """Each cover's vertices in a group, the group's first as bit 0."""
        words = covers[:, group.first // 64] >> np.uint64(group.first % 64)
        chosen: Int64Array = (words & np.uint64((1 << group.size) - 1)).astype(np.int64)
        return chosen

    def mirrored(self, covers: UInt64Array) -> tuple[UInt64Array, NDArray[np.bool_]]:
        """The covers of the twins, t and s exchanged; and which covers have one within the space."""
        places = {group.comparison: group for group in self.groups}
        twins = np.zeros_like(covers)
        exist = np.ones(len(covers), np.bool_)
        for group in self.groups:
            chosen = self.chosen(covers, group)
            target = places.get(group.comparison.mirrored())
            if target is None:
                exist &= chosen == 0
                continue
            for bit, flipped in enumerate(_FLIPPED[group.kind]):
                here = ((chosen >> bit) & 1).astype(np.uint64)
                twins[:, target.first // 64] |= here << np.uint64(target.first % 64 + flipped)
        return twins, exist

    def once(self, covers: UInt64Array) -> UInt64Array:
        """The covers sorted, one of each pair of twins."""
        return sorted_unique(self.one_way(covers))

    def one_way(self, covers: UInt64Array) -> UInt64Array:
        """Each cover or its twin: the same one for both."""
        twins, exist = self.mirrored(covers)
        smaller = exist & _less(twins, covers)
        found: UInt64Array = np.where(smaller[:, None], twins, covers)
        return found

    def tables(self) -> tuple[Int64Array, Int64Array]:
        """`group_of` and `groups` as `kernels.covers.minimal` wants them."""
        group_of = np.full(64 * self.n_words, -1, np.int64)
        groups = np.zeros((len(self.groups), 18), np.int64)
        for number, group in enumerate(self.groups):
            group_of[group.first : group.first + group.size] = number
            groups[number, 0] = group.first
            groups[number, 1] = (1 << group.size) - 1
            allowed = {0, *_MEANING[group.kind]}
            for chosen in range(1 << group.size):
                for bit in range(group.size):
                    if chosen | (1 << bit) not in allowed:
                        groups[number, 2 + chosen] |= 1 << bit
        return group_of, groups

    def means(self) -> Int64Array:
        """`means` as `kernels.covers.possible` wants it."""
        numbers = {operand: number for number, operand in enumerate(self.operands)}
        means = np.zeros((64 * self.n_words, 3), np.int64)
        for group in self.groups:
            left, right = numbers[group.comparison.left], numbers[group.comparison.right]
            for vertex, says in enumerate(_SAYS[group.kind], group.first):
                means[vertex] = left, right, says
        return means

    @property
    def operands(self) -> tuple[Column, ...]:
        """What the comparisons compare, in the order of the numbers that `means` gives them."""
        sides = (side for group in self.groups for side in (group.comparison.left, group.comparison.right))
        return tuple(dict.fromkeys(sides))

    def all(self) -> UInt64Array:
        """Every vertex, as a row of words."""
        every: UInt64Array = self.words([sum(group.mask for group in self.groups)])[0]
        return every

    def words(self, covers: Iterable[int]) -> UInt64Array:
        """Covers as ints to rows of words."""
        mask = (1 << 64) - 1
        rows = [[(cover >> (64 * word)) & mask for word in range(self.n_words)] for cover in covers]
        return np.array(rows, np.uint64).reshape(-1, self.n_words)


def to_int(cover: Any) -> int:
    """A row of words to an int."""
    return sum(int(word) << (64 * place) for place, word in enumerate(cover))


def vertices_of(space: Space, layout: CodeLayout) -> Vertices:
    """Number the vertices of all comparisons, in the order of the space."""
    kinds = {field.place: field.kind for field in layout.fields if field.place is not None}
    groups = []
    first = 0
    for place, comparison in enumerate(space.comparisons):
        size = _SIZE[kinds[place]]
        if first % 64 + size > 64:
            first += 64 - first % 64
        groups.append(VertexGroup(comparison, kinds[place], first))
        first += size
    return Vertices(tuple(groups))


def edges_of(evidence: Evidence, layout: CodeLayout, vertices: Vertices) -> tuple[UInt64Array, Int64Array]:
    """The vertices that the pairs of each evidence fail, distinct, and the number of ordered pairs behind each."""
    return add_up(edge_of_each(evidence.codes, layout, vertices), evidence.counts)


def edge_of_each(codes: NDArray[np.int32], layout: CodeLayout, vertices: Vertices) -> UInt64Array:
    """For each code the vertices that its pairs fail, in the order of the codes."""
    edges = np.zeros((len(codes), vertices.n_words), np.uint64)
    for field in layout.fields:
        if field.place is not None:
            group = vertices.groups[field.place]
            failed = _failed(codes[:, field.word], field).astype(np.uint64)
            edges[:, group.first // 64] |= failed << np.uint64(group.first % 64)
    return edges


def _failed(words: NDArray[np.int32], field: Field) -> Int64Array:
    """The vertices of a field that its outcome fails, by the bits of the outcome (see `outcomes`)."""
    less = ((words & field.less) != 0).astype(np.int64)
    equal = ((words & field.equal) != 0).astype(np.int64)
    null = ((words & (field.missing & ~(field.less | field.equal))) != 0).astype(np.int64)
    outcome: Int64Array = failed_by_outcome(field.kind)[less + 2 * equal + 4 * null]
    return outcome


def failed_by_outcome(kind: FieldKind) -> Int64Array:
    """The vertices that each outcome fails, the first of the group as bit 0: at less + 2 * equal + 4 * null."""
    failed = np.zeros(8, np.int64)
    if kind is FieldKind.EQUALITY:
        failed[:] = [_SAME, 0, _OTHER, 0, 0, 0, _SAME | _OTHER, 0]
    elif kind is FieldKind.ORDER:
        failed[:4] = [_LE, _GE, _NE, _GE | _NE | _LE]
    else:
        failed[:] = [_LE | _EQ, _GE | _EQ, _NE, 0, 0, _GE | _LE | _EQ, 0, _GE | _NE | _LE]
    return failed


def _less(left: UInt64Array, right: UInt64Array) -> NDArray[np.bool_]:
    """Row by row, whether left comes before right; the last word weighs most."""
    less = np.zeros(len(left), np.bool_)
    for word in range(left.shape[1]):
        less = (left[:, word] < right[:, word]) | ((left[:, word] == right[:, word]) & less)
    return less


def sorted_unique(covers: UInt64Array) -> UInt64Array:
    if len(covers) < 2:
        return covers
    covers = covers[word_order(covers)]
    return np.ascontiguousarray(covers[is_first(covers)])


def n_vertices(sets: UInt64Array) -> Int64Array:
    """The number of vertices in each set."""
    count: Int64Array = _BITS[np.ascontiguousarray(sets).view(np.uint8)].sum(axis=1, dtype=np.int64)
    return count


def is_among(covers: UInt64Array, known: UInt64Array) -> BoolArray:
    """For each cover whether it is one of the known ones."""
    both = np.concatenate([known, covers])
    order = word_order(both)
    first = is_first(both[order])
    # The order is stable, so that the first of equal covers is a known one if any of them is.
    found = np.zeros(len(both), np.bool_)
    found[order] = (order[first] < len(known))[np.cumsum(first) - 1]
    return found[len(known) :]


def missing_some(covers: UInt64Array, edges: UInt64Array) -> BoolArray:
    """For each cover whether it misses an edge."""
    from naysay.kernels.covers.minimal import count_missed

    missed: BoolArray = count_missed(edges, np.ones(len(edges), np.int64), np.ascontiguousarray(covers), 0) > 0
    return missed


def n_missed(cover: UInt64Array, edges: UInt64Array, counts: Int64Array) -> int:
    """The number of pairs behind the edges that a cover misses: those that break its rule."""
    from naysay.kernels.covers.minimal import count_missed

    return int(count_missed(edges, counts, np.ascontiguousarray(cover[None, :]), np.iinfo(np.int64).max)[0])
