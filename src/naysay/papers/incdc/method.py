"""IncDC as a method of an evolver: indexes, fetched pairs, their evidence, and the inversion of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import Int64Array, UInt64Array
from naysay.discovery.evidence import codes_of_pairs, triangle
from naysay.discovery.outcomes import CodeLayout as Layout
from naysay.discovery.outcomes import FieldKind, Outcomes
from naysay.discovery.problem import Answer, Problem, finish_rules
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.result import Rules
from naysay.discovery.vertices import Vertices, sorted_unique, vertices_of
from naysay.errors import UsageError
from naysay.evolve.counted import Arrays, Limits, count_all
from naysay.evolve.covers import Search, all_covers, edge_of_each, members
from naysay.evolve.delta import Seen, see, together, turned
from naysay.evolve.method import Broken, Settings, Step, pairs_breaking
from naysay.evolve.relation import Batch, Relation
from naysay.papers.incdc.chains import ChainIndex, EqualityIndex, Mark, SortedIndex
from naysay.papers.incdc.select import Equality, Everything, Inequality, Single, Use, marks_of, select_indexes
from naysay.rule.model import Column, Row, Rule

_CHUNK = 1 << 22


def inverted(covers: UInt64Array, edges: UInt64Array, vertices: Vertices, max_groups: int | None) -> UInt64Array:
    """The minimal covers after these edges, one by one; sorted. Covers and edges are rows of words."""
    group_of, groups = vertices.tables()
    for edge in edges:
        broken = ~(covers & edge).any(axis=1)
        if not broken.any():
            continue
        kept = covers[~broken]
        extended = [
            _extended(covers[broken], kept, vertex, group_of, groups, max_groups) for vertex in _vertices_of(edge)
        ]
        covers = np.concatenate([kept, *extended])
    return sorted_unique(covers)


def unrelaxed_among(covers: UInt64Array, vertices: Vertices) -> UInt64Array:
    """Without the covers that say `<=` and `>=` where another of them shows that `==` would do; see `trivial`."""
    for group in vertices.groups:
        if group.kind is not FieldKind.ORDER_OR_NULL:
            continue
        places = np.flatnonzero(vertices.chosen(covers, group) == 0b101)
        relaxed = covers[places]
        relaxed[:, group.first // 64] ^= np.uint64(0b1101 << (group.first % 64))
        covers = np.delete(covers, places[_contain_some(relaxed, covers)], axis=0)
    return covers


def _vertices_of(edge: UInt64Array) -> list[int]:
    return [64 * word + bit for word in range(edge.size) for bit in range(64) if int(edge[word]) >> bit & 1]


def _extended(
    broken: UInt64Array,
    kept: UInt64Array,
    vertex: int,
    group_of: Int64Array,
    groups: Int64Array,
    max_groups: int | None,
) -> UInt64Array:
    """Lines 14 to 17: broken rules with one more predicate, where that says something and no kept rule says it all."""
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


def _contain_some(candidates: UInt64Array, rivals: UInt64Array) -> NDArray[np.bool_]:
    """For each candidate whether one of the rivals is a part of it."""
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


_PAIRS_AT_ONCE = 1 << 20


class Indexes:
    """The indexes for a set of rules over the rows of a table; rows are known by their places."""

    def __init__(self, rules: Sequence[Rule], values: Mapping[str, Int64Array]) -> None:
        self.uses = select_indexes(rules, values)
        self._lists = {name: column.tolist() for name, column in values.items()}
        self._equality: dict[str, EqualityIndex] = {}
        self._chains: dict[tuple[Mark, Mark], ChainIndex] = {}
        self._sorted: dict[str, SortedIndex] = {}
        for use in self.uses:
            self._build(use)

    @property
    def chains(self) -> Mapping[tuple[Mark, Mark], ChainIndex]:
        return self._chains

    def _build(self, use: Use) -> None:
        if isinstance(use, Equality):
            for name in (use.left, use.right):
                self._equality.setdefault(name, EqualityIndex(name, self._lists[name]))
        elif isinstance(use, Everything):
            return
        elif isinstance(use, Single):
            for name in _columns(use):
                self._sorted.setdefault(name, SortedIndex(name, self._lists[name]))
        else:
            for marks in self._index_marks(use):
                if marks not in self._chains:
                    one, two = (self._lists[mark.name] for mark in marks)
                    self._chains[marks] = ChainIndex(*marks, one, two)

    @staticmethod
    def _index_marks(use: Inequality) -> list[tuple[Mark, Mark]]:
        """The marks that the indexes of a use are built for: one index where each column meets itself (5.2)."""
        found = [(one, two.reversed if use.turned else two) for one, two in marks_of(use)]
        (a, _), (b, _) = marks_of(use)
        same = a.name == b.name and found[0][1].name == found[1][1].name
        return found[:1] if same else found

    def add(self, row: int, values: Mapping[str, int]) -> list[int]:
        """Visit every index with a new row, then put it in (6.3); gives the rows that may break a rule with it."""
        found: set[int] = set()
        for use in self.uses:
            found.update(range(row) if isinstance(use, Everything) else self._visit(use, values))
        for name, index in self._equality.items():
            index.insert(row, values[name])
        for marks, chains in self._chains.items():
            chains.insert(row, values[marks[0].name], values[marks[1].name])
        for name, ordered in self._sorted.items():
            ordered.insert(row, values[name])
        return list(found)

    def _visit(self, use: Equality | Inequality | Single, values: Mapping[str, int]) -> list[int]:
        if isinstance(use, Equality):
            found = self._equality[use.right].fetch(values[use.left])
            return found if use.left == use.right else found + self._equality[use.left].fetch(values[use.right])
        if isinstance(use, Single):
            left, right = _columns(use)
            op = use.predicate.op if use.predicate.left.row is Row.LEFT else use.predicate.op.flipped
            return self._sorted[left].fetch(values[right], op) + self._sorted[right].fetch(values[left], op.flipped)
        wanted = marks_of(use)
        built = self._index_marks(use)
        (a, c), (b, d) = wanted
        if len(built) == 1:
            after, before = self._chains[built[0]].fetch(values[a.name], values[c.name], wanted[0])
            return after + before
        # Fetch+: the rows t with t.A op1 s.B and t.C op2 s.D, then those with s.A op1 t.B and s.C op2 t.D.
        found = self._chains[built[0]].rows_after(values[b.name], values[d.name], wanted[0], before=False)
        return found + self._chains[built[1]].rows_after(values[a.name], values[c.name], wanted[1], before=False)


def _columns(use: Single) -> tuple[str, str]:
    predicate = use.predicate
    assert isinstance(predicate.right, Column)
    names = predicate.left.name, predicate.right.name
    return names if predicate.left.row is Row.LEFT else (names[1], names[0])


@dataclass(frozen=True, slots=True)
class IncDCStep:
    rules: Rules
    before: UInt64Array
    covers: UInt64Array
    vertices: Vertices
    shape: Layout
    came: Seen
    indexes: Indexes | None

    def broken(self, covers: UInt64Array) -> Broken:
        return pairs_breaking(covers, self.came, self.shape, self.vertices)

    def arrays(self) -> Arrays:
        if self.indexes is None:
            return {"covers": self.covers}
        return {
            "added": self.covers[~members(self.covers, self.before)],
            "removed": self.before[~members(self.before, self.covers)],
        }


class IncDC:
    """Rules and indexes alone: no evidence is kept. Takes inserts."""

    name = "incdc"

    def __init__(
        self, relation: Relation, settings: Settings, n_threads: int, covers: UInt64Array | None = None
    ) -> None:
        self._relation = relation
        self._settings = settings
        self._n_threads = n_threads
        shape = relation.fields.now(relation.with_null)
        self._vertices = vertices_of(relation.space, shape)
        self._covers = self._discovered() if covers is None else covers
        self._rules = self._shown(self._covers, self._vertices)
        self._indexes: Indexes | None = None
        self._version = -1

    @property
    def rules(self) -> Rules:
        return self._rules

    def advance(self, batch: Batch) -> IncDCStep:
        if batch.gone.n_rows:
            raise UsageError("the method 'incdc' takes inserts alone; use 'all-pairs' or 'selective' for deletes")
        shape, _ = self._relation.layout_after(batch)
        vertices = vertices_of(self._relation.space, shape)
        if vertices != self._vertices:
            return self._from_scratch(batch, shape, vertices)
        indexes = self._indexed()
        # Whatever happens, indexes that hold rows of this batch are of no use before it is in.
        self._indexes = None
        came = self._evidence(batch, self._fetch(batch, indexes))
        edges = edge_of_each(came.codes, shape, vertices)
        covers = inverted(self._covers, sorted_unique(edges), vertices, self._settings.max_predicates)
        return IncDCStep(self._shown(covers, vertices), self._covers, covers, vertices, shape, came, indexes)

    def _from_scratch(self, batch: Batch, shape: Layout, vertices: Vertices) -> IncDCStep:
        """The first null of an ordered column, where nulls equal each other, brings predicates of a new kind."""
        rows, layout = batch.after(), self._relation.fields.layout
        half = see(rows, rows, list(triangle(rows.n_rows)), layout, self._n_threads)
        seen = together([half, turned(half, layout)], layout)
        edges = sorted_unique(edge_of_each(seen.codes, shape, vertices))
        covers = all_covers(edges, Search(vertices, self._settings.max_predicates, self._n_threads))
        return IncDCStep(self._shown(covers, vertices), self._covers, covers, vertices, shape, seen, None)

    def adopt(self, step: Step) -> None:
        assert isinstance(step, IncDCStep)
        self._covers, self._rules, self._vertices = step.covers, step.rules, step.vertices
        self._indexes, self._version = step.indexes, self._relation.version
        if self._indexes is not None and Everything() in self._indexes.uses:
            self._indexes = None

    def answer(self) -> Answer:
        counted = count_all(self._relation, Limits(0, self._settings.max_predicates, self._n_threads))
        return Answer(self._rules.covers, False, counted.edges, counted.counts)

    def arrays(self) -> Arrays:
        return {"covers": self._covers}

    @classmethod
    def restored(
        cls, relation: Relation, settings: Settings, n_threads: int, whole: Arrays, changes: Sequence[Arrays]
    ) -> IncDC:
        """From what a store kept: the rules; indexes are built anew."""
        covers = whole["covers"]
        for change in changes:
            if "covers" in change:
                covers = change["covers"]
                continue
            kept = covers[~members(covers, sorted_unique(change["removed"]))]
            covers = sorted_unique(np.concatenate([kept, change["added"]]))
        return cls(relation, settings, n_threads, covers)

    def _discovered(self) -> UInt64Array:
        return count_all(self._relation, Limits(0, self._settings.max_predicates, self._n_threads)).covers

    def _indexed(self) -> Indexes:
        """The indexes, built when first needed, and again when codes have changed."""
        if self._indexes is None or self._version != self._relation.version:
            rows = self._relation.sides()
            # Before there were two rows there was nothing to break: the rule that says nothing stands for all.
            rules = list(self._rules) if self._covers.any(axis=1).all() else [Rule(())]
            self._indexes = Indexes(rules, self._relation.column_codes(rows))
            self._version = self._relation.version
        return self._indexes

    def _fetch(self, batch: Batch, indexes: Indexes) -> list[tuple[int, list[int]]]:
        """Line 1: for each new row, in order, the rows that may break a rule with it. New rows have the next places."""
        values = {name: column.tolist() for name, column in self._relation.column_codes(batch.fresh).items()}
        first = batch.stay.n_rows
        return [
            (first + number, indexes.add(first + number, {name: column[number] for name, column in values.items()}))
            for number in range(batch.fresh.n_rows)
        ]

    def _evidence(self, batch: Batch, fetched: list[tuple[int, list[int]]]) -> Seen:
        """BuildEvidence (algorithm 6), both directions of each pair."""
        layout = self._relation.fields.layout
        rows = batch.after()
        outcomes = Outcomes(layout, rows.left, rows.right, np.ones(rows.n_rows, np.int64), np.arange(rows.n_rows))
        left = np.repeat([row for row, _ in fetched], [len(others) for _, others in fetched]).astype(np.int64)
        right = np.array([other for _, others in fetched for other in others], np.int64)
        parts = [_nothing(layout)]
        for start in range(0, left.size, _PAIRS_AT_ONCE):
            one, other = left[start : start + _PAIRS_AT_ONCE], right[start : start + _PAIRS_AT_ONCE]
            codes = codes_of_pairs(outcomes, one, other)
            seen = Seen(codes, np.ones(one.size, np.int64), rows.serials[one], rows.serials[other])
            parts.append(together([seen], layout))
        half = together(parts, layout)
        return together([half, turned(half, layout)], layout)

    def _shown(self, covers: UInt64Array, vertices: Vertices) -> Rules:
        request = DiscoverRequest(max_predicates=self._settings.max_predicates, nulls=self._settings.nulls)
        problem = Problem(self._relation.space, self._relation.outcomes(), vertices, request)
        # There is no evidence to ask whether `==` would do for `<=` and `>=`: the rules themselves say so.
        nothing_hits = np.zeros((1, vertices.n_words), np.uint64)
        shown, _ = finish_rules(problem, unrelaxed_among(covers, vertices), nothing_hits, np.ones(1, np.int64))
        return Rules(shown, vertices, 0.0)


def _nothing(layout: Layout) -> Seen:
    empty = np.empty(0, np.int64)
    return Seen(np.empty((0, layout.n_words), np.int32), empty, empty, empty)
