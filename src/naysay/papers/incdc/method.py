"""IncDC as a method of an evolver: indexes, fetched pairs, their evidence, and its inversion (section 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from naysay.arrays import BoolArray, Int64Array, UInt64Array
from naysay.discovery.evidence import codes_of_pairs
from naysay.discovery.outcomes import FieldKind
from naysay.discovery.problem import Answer
from naysay.discovery.result import Rules
from naysay.discovery.vertices import Vertices, edge_of_each, sorted_unique, vertices_of
from naysay.errors import UsageError
from naysay.evolve.counted import count_all
from naysay.evolve.covers import all_covers
from naysay.evolve.delta import PairEvidence, compare_all, merge_evidence
from naysay.evolve.method import Arrays, MethodStep, Settings, array_changes, pairs_breaking, to_rules
from naysay.evolve.relation import Relation, RelationChange
from naysay.papers.incdc.indexes import (
    ChainIndex,
    ColumnOp,
    EqualityIndex,
    EqualityUse,
    FullScan,
    InequalityUse,
    SingleUse,
    SortedIndex,
    Use,
    column_ops,
    names_of,
    select_indexes,
)
from naysay.rule.model import Row, Rule

_CHUNK = 1 << 22
_PAIRS_AT_ONCE = 1 << 20


def invert(covers: UInt64Array, edges: UInt64Array, vertices: Vertices, max_groups: int | None) -> UInt64Array:
    """The minimal covers once these edges are added, one by one; sorted. Covers and edges are rows of words."""
    tables = vertices.tables()
    for edge in edges:
        broken = ~(covers & edge).any(axis=1)
        if not broken.any():
            continue
        kept = covers[~broken]
        vertices_of_edge = (vertex for vertex in range(64 * edge.size) if int(edge[vertex >> 6]) >> (vertex & 63) & 1)
        extended = [_extend(covers[broken], kept, vertex, tables, max_groups) for vertex in vertices_of_edge]
        covers = np.concatenate([kept, *extended])
    return sorted_unique(covers)


def without_relaxed(covers: UInt64Array, vertices: Vertices) -> UInt64Array:
    """Without the covers that say `<=` and `>=` if another one shows that `==` is enough; see `discovery.trivial`."""
    for group in vertices.groups:
        if group.kind is not FieldKind.ORDER_OR_NULL:
            continue
        places = np.flatnonzero(vertices.chosen(covers, group) == 0b101)
        relaxed = covers[places]
        relaxed[:, group.first // 64] ^= np.uint64(0b1101 << (group.first % 64))
        covers = np.delete(covers, places[_contain_some(relaxed, covers)], axis=0)
    return covers


def _extend(
    broken: UInt64Array, kept: UInt64Array, vertex: int, tables: tuple[Int64Array, Int64Array], max_groups: int | None
) -> UInt64Array:
    """Lines 14 to 17: broken rules with one more predicate, if that is not trivial and no kept rule is stronger."""
    group_of, groups = tables
    word, bit = vertex >> 6, np.uint64(1) << np.uint64(vertex & 63)
    group = group_of[vertex]
    shift, mask = np.uint64(groups[group, 0] & 63), np.uint64(groups[group, 1])
    chosen = ((broken[:, word] >> shift) & mask).astype(np.int64)
    trivial = (groups[group, 2 + chosen] >> (vertex - groups[group, 0])) & 1
    candidates = broken[trivial == 0].copy()
    candidates[:, word] |= bit
    if max_groups is not None:
        candidates = candidates[_n_groups(candidates, groups) <= max_groups]
    rivals = kept[(kept[:, word] & bit) != 0]
    safe: UInt64Array = candidates[~_contain_some(candidates, rivals)]
    return safe


def _contain_some(candidates: UInt64Array, rivals: UInt64Array) -> BoolArray:
    """For each candidate whether it contains one of the rivals."""
    found = np.zeros(len(candidates), np.bool_)
    step = max(1, _CHUNK // max(1, len(rivals)))
    for start in range(0, len(candidates), step):
        beyond: UInt64Array = rivals[None, :, :] & ~candidates[start : start + step, None, :]
        inside = np.logical_not(np.any(beyond, axis=2))
        found[start : start + step] = np.any(inside, axis=1)
    return found


def _n_groups(covers: UInt64Array, groups: Int64Array) -> Int64Array:
    total = np.zeros(len(covers), np.int64)
    for first, mask in groups[:, :2]:
        total += ((covers[:, first >> 6] >> np.uint64(first & 63)) & np.uint64(mask)) != 0
    return total


class Indexes:
    """The indexes for a set of rules over the rows of a table; rows are identified by their places."""

    def __init__(self, rules: Sequence[Rule], values: Mapping[str, Int64Array]) -> None:
        self.uses = select_indexes(rules, values)
        self._lists = {name: column.tolist() for name, column in values.items()}
        self._equality: dict[str, EqualityIndex] = {}
        self.chains: dict[tuple[ColumnOp, ColumnOp], ChainIndex] = {}
        self._sorted: dict[str, SortedIndex] = {}
        for use in self.uses:
            self._build(use)

    def _build(self, use: Use) -> None:
        if isinstance(use, EqualityUse):
            for name in (use.left, use.right):
                self._equality.setdefault(name, EqualityIndex(self._lists[name]))
        elif isinstance(use, SingleUse):
            for name in names_of(use.predicate):
                self._sorted.setdefault(name, SortedIndex(self._lists[name]))
        elif isinstance(use, InequalityUse):
            for ops in self._index_ops(use):
                if ops not in self.chains:
                    one, two = (self._lists[each.name] for each in ops)
                    self.chains[ops] = ChainIndex(*ops, one, two)

    @staticmethod
    def _index_ops(use: InequalityUse) -> list[tuple[ColumnOp, ColumnOp]]:
        """What the indexes of a use are built for: one index if each column is compared with itself (5.2)."""
        found = [(one, two.reversed if use.turned else two) for one, two in column_ops(use)]
        (a, _), (b, _) = column_ops(use)
        same = a.name == b.name and found[0][1].name == found[1][1].name
        return found[:1] if same else found

    def add(self, row: int, values: Mapping[str, int]) -> list[int]:
        """Look a new row up in every index, then insert it (6.3); returns the rows that may break a rule with it."""
        found: set[int] = set()
        for use in self.uses:
            found.update(range(row) if isinstance(use, FullScan) else self._fetch(use, values))
        for name, index in self._equality.items():
            index.insert(row, values[name])
        for (one, two), chains in self.chains.items():
            chains.insert(row, values[one.name], values[two.name])
        for name, ordered in self._sorted.items():
            ordered.insert(row, values[name])
        return list(found)

    def _fetch(self, use: EqualityUse | InequalityUse | SingleUse, values: Mapping[str, int]) -> list[int]:
        if isinstance(use, EqualityUse):
            found = self._equality[use.right].fetch(values[use.left])
            return found if use.left == use.right else found + self._equality[use.left].fetch(values[use.right])
        if isinstance(use, SingleUse):
            left, right = names_of(use.predicate)
            op = use.predicate.op if use.predicate.left.row is Row.LEFT else use.predicate.op.flipped
            return self._sorted[left].fetch(values[right], op) + self._sorted[right].fetch(values[left], op.flipped)
        wanted, built = column_ops(use), self._index_ops(use)
        (a, c), (b, d) = wanted
        if len(built) == 1:
            after, before = self.chains[built[0]].fetch(values[a.name], values[c.name], wanted[0])
            return after + before
        # Fetch+: the rows t with t.A op1 s.B and t.C op2 s.D, then those with s.A op1 t.B and s.C op2 t.D.
        found = self.chains[built[0]].rows_after(values[b.name], values[d.name], wanted[0], before=False)
        return found + self.chains[built[1]].rows_after(values[a.name], values[c.name], wanted[1], before=False)


@dataclass(frozen=True, slots=True)
class RuleIndexes:
    """What the method holds: covers and, once they were needed, indexes."""

    vertices: Vertices
    covers: UInt64Array
    indexes: Indexes | None = None


class IncDC:
    """Keeps only rules and indexes, no evidence. Takes inserts."""

    name = "incdc"

    def __init__(self, relation: Relation, settings: Settings, kept: Arrays | None = None) -> None:
        self._relation = relation
        self._settings = settings
        vertices = vertices_of(relation.space, relation.shape())
        covers = count_all(relation, settings).covers if kept is None else kept["covers"]
        self._held = RuleIndexes(vertices, covers)
        self.rules = self._to_rules(covers, vertices)
        self._version = -1

    def advance(self, batch: RelationChange) -> MethodStep[RuleIndexes]:
        if batch.gone.n_rows:
            raise UsageError("the method 'incdc' takes inserts only; use 'all-pairs' or 'selective' for deletes")
        shape, before = self._relation.shape(batch), self._held
        vertices = vertices_of(self._relation.space, shape)
        if vertices != before.vertices:
            # The first null of an ordered column, if nulls are equal, brings predicates of a new kind: start over.
            came = compare_all(batch.after(), self._relation.fields.layout, self._settings.n_threads)
            edges = sorted_unique(edge_of_each(came.codes, shape, vertices))
            after = RuleIndexes(vertices, all_covers(edges, self._settings.search(vertices)))
        else:
            indexes = self._indexed()
            # Indexes that hold rows of this batch are useless until it is applied.
            self._held = RuleIndexes(vertices, before.covers)
            came = self._compare(batch, self._fetch(batch, indexes))
            edges = sorted_unique(edge_of_each(came.codes, shape, vertices))
            covers = invert(before.covers, edges, vertices, self._settings.request.max_predicates)
            after = RuleIndexes(vertices, covers, indexes)
        rules = self._to_rules(after.covers, vertices)
        find_broken = partial(pairs_breaking, seen=came, shape=shape, vertices=vertices)
        return MethodStep(rules, after.covers, after, find_broken, partial(_changed_arrays, before, after))

    def adopt(self, step: MethodStep[RuleIndexes]) -> None:
        held, self.rules = step.after, step.rules
        is_served = held.indexes is not None and FullScan() not in held.indexes.uses
        self._held = held if is_served else RuleIndexes(held.vertices, held.covers)
        self._version = self._relation.version

    def answer(self) -> Answer:
        counted = count_all(self._relation, self._settings)
        return Answer(self.rules.covers, False, counted.edges, counted.counts)

    def arrays(self) -> Arrays:
        return {"covers": self._held.covers}

    def _indexed(self) -> Indexes:
        """The indexes, built when first needed, and again when codes have changed."""
        held = self._held
        if held.indexes is not None and self._version == self._relation.version:
            return held.indexes
        # With fewer than two rows no rule can be broken: the empty rule represents all.
        rules = list(self.rules) if held.covers.any(axis=1).all() else [Rule(())]
        return Indexes(rules, self._relation.column_codes(self._relation.encoded()))

    def _fetch(self, batch: RelationChange, indexes: Indexes) -> list[tuple[int, list[int]]]:
        """Line 1: for each new row, in order, the rows that may break a rule with it. New rows have the next places."""
        values = {name: column.tolist() for name, column in self._relation.column_codes(batch.fresh).items()}
        first = batch.stay.n_rows
        return [
            (first + number, indexes.add(first + number, {name: column[number] for name, column in values.items()}))
            for number in range(batch.fresh.n_rows)
        ]

    def _compare(self, batch: RelationChange, fetched: list[tuple[int, list[int]]]) -> PairEvidence:
        """BuildEvidence (algorithm 6), both directions of each pair."""
        layout, rows = self._relation.fields.layout, batch.after()
        outcomes = rows.outcomes(layout)
        left = np.repeat([row for row, _ in fetched], [len(others) for _, others in fetched]).astype(np.int64)
        right = np.array([other for _, others in fetched for other in others], np.int64)
        parts = [PairEvidence.empty(layout)]
        for start in range(0, left.size, _PAIRS_AT_ONCE):
            one, other = left[start : start + _PAIRS_AT_ONCE], right[start : start + _PAIRS_AT_ONCE]
            codes = codes_of_pairs(outcomes, one, other)
            seen = PairEvidence(codes, np.ones(one.size, np.int64), rows.serials[one], rows.serials[other])
            parts.append(merge_evidence([seen]))
        return merge_evidence(parts).both_ways(layout)

    def _to_rules(self, covers: UInt64Array, vertices: Vertices) -> Rules:
        # There is no evidence to ask whether `==` is enough for `<=` and `>=`: the rules themselves say so.
        nothing_hits = np.zeros((1, vertices.n_words), np.uint64)
        covers = without_relaxed(covers, vertices)
        return to_rules(self._relation.fields, self._settings, vertices, covers, nothing_hits)


def _changed_arrays(before: RuleIndexes, after: RuleIndexes) -> Arrays:
    if after.indexes is None:
        return {"covers": after.covers}
    return array_changes({"covers": before.covers}, {"covers": after.covers})
