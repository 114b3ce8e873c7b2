"""IncDC as a method of an evolver: indexes, fetched pairs, their evidence, and its inversion (section 8)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from naysay.arrays import BoolArray, UInt64Array
from naysay.discovery.cover import Brake
from naysay.discovery.outcomes import CodeLayout, FieldKind
from naysay.discovery.problem import Answer
from naysay.discovery.result import Rules
from naysay.discovery.space import Space
from naysay.discovery.vertices import Vertices, edge_of_each, sorted_unique, vertices_of
from naysay.errors import UsageError
from naysay.evolve.counted import count_all
from naysay.evolve.covers import Search, all_covers, check_brake, members
from naysay.evolve.delta import PairEvidence, compare_all, compare_change, merge_evidence, run_tasks
from naysay.evolve.method import Arrays, EvolveSettings, MethodStep, array_changes, pairs_breaking, to_rules
from naysay.evolve.relation import EncodedRows, Relation, RelationChange
from naysay.papers.incdc.indexes import (
    ALL_PAIRS,
    ChainIndex,
    Columns,
    IndexOps,
    Use,
    Wanted,
    choose_directions,
    plan_indexes,
    select_indexes,
)
from naysay.rule.model import Column, Op, Predicate

if TYPE_CHECKING:
    from naysay.kernels.covers.breaking import Trie

# New rows are looked up together while their marks, a bit per pair, take at most this many words per thread.
_MARKS = 1 << 22
# Edges that are looked at together: their bits stay in the nearest cache.
_EDGES = 1 << 12
_OPS = tuple(Op)


class Indexes:
    """The indexes that serve a set of rules over the rows of a table; rows are identified by their places."""

    def __init__(
        self, uses: list[Use], directions: dict[tuple[str, str], Op], chains: dict[IndexOps, ChainIndex]
    ) -> None:
        self.uses = uses
        self.chains = chains
        self._directions = directions
        self._wanted = plan_indexes(uses, directions)

    @classmethod
    def select(cls, rules: UInt64Array, vertices: Vertices, columns: Columns) -> Indexes | None:
        """Indexes for these rules; None if a rule can be broken by pairs that no index fetches."""
        uses = select_indexes(rules, vertices, columns)
        if ALL_PAIRS in uses:
            return None
        directions = choose_directions(uses, columns)
        return cls(uses, directions, {ops: ChainIndex(ops, columns) for ops in plan_indexes(uses, directions)})

    def add(self, columns: Columns, first: int, n_threads: int = 1) -> UInt64Array:
        """Look new rows up, from number `first` on, and insert them (6.3); each thread visits indexes of its own.

        Returns a line for each new row: the bits of the earlier rows that may break a rule with it.
        """
        n_new = next(iter(columns.values())).size
        wanted = list(self._wanted.items())

        def work(mine: list[tuple[IndexOps, list[Wanted]]]) -> UInt64Array:
            marks = np.zeros((n_new, (first + n_new + 63) // 64), np.uint64)
            for ops, each in mine:
                self.chains[ops].add(columns, first, each, marks)
            return marks

        n_workers = max(1, min(n_threads, len(wanted)))
        parts = run_tasks([partial(work, wanted[worker::n_workers]) for worker in range(n_workers)], n_workers)
        marks: UInt64Array = np.bitwise_or.reduce(parts)
        return marks

    def encoded_again(self, columns: Columns, space: Space) -> Indexes:
        """The same indexes over other codes. Chains of ordered columns stay as they are."""
        kept = _keepable(self.chains, space)
        chains = {
            ops: ChainIndex(ops, columns, index.rows() if ops in kept else None) for ops, index in self.chains.items()
        }
        return Indexes(self.uses, self._directions, chains)

    def arrays(self, space: Space, n_rows: int) -> Arrays:
        """What a state keeps: the uses, and the rows of each index chain by chain."""
        names = list(space.names)
        places = {(pair.left, pair.right): place for place, pair in enumerate(space.comparisons)}
        uses = np.full((len(self.uses), 4), -1, np.int64)
        for line, use in zip(uses, self.uses, strict=True):
            for number, each in enumerate(use.predicates):
                assert isinstance(each.right, Column)
                line[2 * number : 2 * number + 2] = places[each.left, each.right], _OPS.index(each.op)
        directions = [
            (names.index(one), names.index(two), _OPS.index(op)) for (one, two), op in self._directions.items()
        ]
        rows = [self.chains[ops].rows() for ops in _keepable(self.chains, space)]
        return {
            "uses": uses,
            "directions": np.array(directions, np.int64).reshape(-1, 3),
            "chains": np.array(rows, np.int64).reshape(len(rows), n_rows),
            "sizes": np.array([n_rows], np.int64),
        }

    @classmethod
    def of_arrays(cls, kept: Arrays, space: Space, columns: Columns) -> Indexes:
        """The indexes from a state, with the rows of later batches added; `sizes` has the rows after each batch."""
        pairs, names = space.comparisons, space.names
        uses = [
            Use(
                tuple(
                    Predicate(pairs[place].left, _OPS[op], pairs[place].right)
                    for place, op in (line[:2], line[2:])
                    if place >= 0
                )
            )
            for line in kept["uses"].tolist()
        ]
        directions = {(names[one], names[two]): _OPS[op] for one, two, op in kept["directions"].tolist()}
        planned = plan_indexes(uses, directions)
        rows = dict(zip(_keepable(planned, space), kept["chains"], strict=True))
        chains = {ops: ChainIndex(ops, columns, rows.get(ops)) for ops in planned}
        for ops in rows:
            for start, stop in itertools.pairwise(kept["sizes"].tolist()):
                for part in slices(start, stop):
                    chains[ops].add({name: column[part] for name, column in columns.items()}, part.start)
        return cls(uses, directions, chains)


def _keepable(ops: Iterable[IndexOps], space: Space) -> list[IndexOps]:
    """The indexes that a state keeps: over columns whose codes have an order, which outlasts the codes."""
    ordered = {column.name for pair in space.comparisons if pair.ordered for column in (pair.left, pair.right)}
    return [each for each in ops if {each[0].name, each[1].name} <= ordered]


def slices(start: int, stop: int) -> Iterator[slice]:
    """The new rows from start to stop in slices whose marks fit into memory."""
    step = max(1, _MARKS // (stop // 64 + 1))
    for begin in range(start, stop, step):
        yield slice(begin, min(stop, begin + step))


def see_marked_pairs(
    rows: EncodedRows, marks: UInt64Array, first: int, layout: CodeLayout, n_threads: int
) -> PairEvidence:
    """BuildEvidence (algorithm 6): the evidence of the pairs that are marked, later row on the left."""
    from naysay.kernels.evidence.pairs import see_marked

    sides = (rows.left, rows.right, layout.masks, layout.spans)

    def work(part: slice) -> PairEvidence:
        table = (
            np.empty((1 << 12, layout.n_words), np.int32),
            np.zeros((1 << 12) + 1, np.int64),
            np.empty(1 << 12, np.int64),
        )
        keys, counts, pairs = see_marked(sides, marks, first, part.start, part.stop, table)
        used = np.flatnonzero(counts[:-1])
        left, right = rows.serials[pairs[used] >> 32], rows.serials[pairs[used] & 0xFFFFFFFF]
        return PairEvidence(keys[used], counts[used], left, right)

    return merge_evidence(run_tasks([partial(work, part) for part in _parts(len(marks), n_threads)], n_threads))


def _parts(n_items: int, n_threads: int) -> list[slice]:
    """Items in parts for threads: a few for each, as some take longer."""
    step = max(1, -(-n_items // (4 * n_threads))) if n_threads > 1 else max(1, n_items)
    return [slice(start, min(n_items, start + step)) for start in range(0, max(1, n_items), step)]


def find_broken(covers: UInt64Array, edges: UInt64Array, n_threads: int) -> tuple[Trie, BoolArray, BoolArray]:
    """A trie of the covers, which are sorted; which of them miss an edge; and which edges are missed."""
    from naysay.kernels.covers import breaking
    from naysay.kernels.covers.minimal import find_holders

    trie = breaking.build_trie(np.ascontiguousarray(covers))
    is_missed = np.zeros(len(edges), np.bool_)
    starts = range(0, len(edges), _EDGES)

    def work(mine: range) -> BoolArray:
        is_broken = np.zeros(len(covers), np.bool_)
        for start in mine:
            block = edges[start : start + _EDGES]
            missed = breaking.find_broken(trie, len(block), find_holders(block, 1), is_broken)
            bits = np.unpackbits(missed.view(np.uint8), bitorder="little")
            is_missed[start : start + len(block)] = bits[: len(block)]
        return is_broken

    n_workers = max(1, min(n_threads, len(starts)))
    parts = run_tasks([partial(work, starts[worker::n_workers]) for worker in range(n_workers)], n_workers)
    return trie, np.logical_or.reduce(parts), is_missed


def invert(covers: UInt64Array, edges: UInt64Array, search: Search) -> tuple[UInt64Array, UInt64Array]:
    """The minimal covers once these edges are added (lines 3 to 18 of algorithm 5), and the edges that broke some.

    Both are sorted, as are the covers given.
    """
    from naysay.kernels.covers.breaking import free_vertices, grow_broken_covers
    from naysay.kernels.covers.changing import first_missed
    from naysay.kernels.covers.minimal import find_holders

    if not len(covers) or not len(edges):
        return covers, edges[:0]
    trie, is_broken, is_missed = find_broken(covers, edges, search.n_threads)
    # Sorted, an edge is much like the last one, and few covers miss it: far faster than in a random order.
    missed = sorted_unique(edges[is_missed])
    start, rest = covers[is_broken], missed
    if len(start) and not start[0].any():
        # The rule without predicates, which is not in a trie: each vertex of the first edge is a successor.
        bits = np.unpackbits(missed[0].view(np.uint8), bitorder="little")
        start, rest = search.vertices.words([1 << int(vertex) for vertex in np.flatnonzero(bits)]), missed[1:]
    brake = Brake(int(search.limits[1]))
    limits = (*search.vertices.tables(), search.limits, brake.control)
    first, rest = first_missed(start, len(rest), find_holders(rest, 1)), np.ascontiguousarray(rest)

    def work(part: slice) -> UInt64Array:
        return free_vertices(start[part], rest, first[part], trie, is_broken, limits)

    free = np.concatenate(
        run_tasks([partial(work, part) for part in _parts(len(start), search.n_threads)], search.n_threads)
    )
    grown = grow_broken_covers(start, rest, free, trie, is_broken, limits)
    check_brake(brake)
    return sorted_unique(np.concatenate([covers[~is_broken], grown])), missed


def without_relaxed(covers: UInt64Array, vertices: Vertices) -> UInt64Array:
    """Without the covers that say `<=` and `>=` if another one shows that `==` is enough; covers are sorted."""
    from naysay.kernels.covers.breaking import build_trie, have_part

    every, kept = covers, np.ones(len(covers), np.bool_)
    for group in vertices.groups:
        if group.kind is FieldKind.ORDER_OR_NULL:
            places = np.flatnonzero(vertices.chosen(covers, group) == 0b101)
            relaxed = covers[places]
            relaxed[:, group.first // 64] ^= np.uint64(0b1101 << (group.first % 64))
            kept[places[have_part(build_trie(every), relaxed, group.first + 3)]] = False
    return covers[kept]


@dataclass(frozen=True, slots=True)
class RuleIndexes:
    """What the method holds: covers, and indexes that serve their rules; none if some rule needs all pairs."""

    space: Space
    vertices: Vertices
    covers: UInt64Array
    indexes: Indexes | None
    n_rows: int

    def arrays(self) -> Arrays:
        kept = {} if self.indexes is None else self.indexes.arrays(self.space, self.n_rows)
        return {"covers": self.covers, **kept}


class IncDC:
    """Keeps only rules and indexes, no evidence. Takes inserts."""

    name = "incdc"

    def __init__(self, relation: Relation, settings: EvolveSettings, kept: Arrays | None = None) -> None:
        self._relation = relation
        self._settings = settings
        vertices, rows = vertices_of(relation.space, relation.shape()), relation.encoded()
        covers = count_all(relation, settings).covers if kept is None else kept["covers"]
        self.rules = self._to_rules(covers, vertices)
        indexes = None
        if kept is None:
            indexes = self._select(covers, self.rules, rows)
        elif "uses" in kept:
            indexes = Indexes.of_arrays(kept, relation.space, relation.column_codes(rows))
        self._held = RuleIndexes(relation.space, vertices, covers, indexes, relation.n_rows)
        self._version = relation.version

    def advance(self, batch: RelationChange) -> MethodStep[RuleIndexes]:
        if batch.gone.n_rows:
            raise UsageError("the method 'incdc' takes inserts only; use 'all-pairs' or 'selective' for deletes")
        shape, before = self._relation.shape(batch), self._held
        vertices = vertices_of(self._relation.space, shape)
        search = self._settings.search(vertices)
        if vertices != before.vertices:
            # The first null of an ordered column, if nulls are equal, brings predicates of a new kind: start over.
            came = compare_all(batch.after(), self._relation.fields.layout, self._settings.n_threads)
            covers = all_covers(sorted_unique(edge_of_each(came.codes, shape, vertices)), search)
            rules = self._to_rules(covers, vertices)
            indexes = self._select(covers, rules, batch.after())
        else:
            indexes = self._indexes_before(batch)
            # Indexes that hold rows of this batch are useless until it is applied.
            self._held = replace(before, indexes=None)
            came = self._fetch(batch, indexes)
            each = edge_of_each(came.codes, shape, vertices)
            covers, missed = invert(before.covers, sorted_unique(each), search)
            came = came.take(np.flatnonzero(members(each, missed)))
            rules = self._to_rules(covers, vertices)
        after = RuleIndexes(self._relation.space, vertices, covers, indexes, batch.n_after)
        find_broken = partial(pairs_breaking, seen=came, shape=shape, vertices=vertices)
        return MethodStep(rules, covers, after, find_broken, partial(_changed_arrays, before, after))

    def adopt(self, step: MethodStep[RuleIndexes]) -> None:
        self._held, self.rules = step.after, step.rules
        self._version = self._relation.version

    def answer(self) -> Answer:
        counted = count_all(self._relation, self._settings)
        return Answer(self.rules.covers, False, counted.edges, counted.counts)

    def arrays(self) -> Arrays:
        return self._held.arrays()

    def _select(self, covers: UInt64Array, rules: Rules, rows: EncodedRows) -> Indexes | None:
        """Indexes for the rules of some rows."""
        # With fewer than two rows the rule without predicates holds: any pair may break it.
        if not covers.any(axis=1).all():
            return None
        return Indexes.select(rules.covers, rules.vertices, self._relation.column_codes(rows))

    def _indexes_before(self, batch: RelationChange) -> Indexes | None:
        """The indexes over the rows before a batch, in the codes that they have now."""
        held = self._held
        if held.indexes is None:
            return self._select(held.covers, self.rules, batch.stay)
        if self._version == self._relation.version:
            return held.indexes
        return held.indexes.encoded_again(self._relation.column_codes(batch.stay), held.space)

    def _fetch(self, batch: RelationChange, indexes: Indexes | None) -> PairEvidence:
        """Lines 1 and 2: the evidence, in both directions, of the pairs that may break a rule."""
        layout, n_threads = self._relation.fields.layout, self._settings.n_threads
        if indexes is None:
            return compare_change(batch, layout, n_threads)[1]
        rows, columns = batch.after(), self._relation.column_codes(batch.fresh)
        parts, first = [PairEvidence.empty(layout)], batch.stay.n_rows
        for part in slices(first, batch.n_after):
            fresh = {name: column[part.start - first : part.stop - first] for name, column in columns.items()}
            marks = indexes.add(fresh, part.start, n_threads)
            parts.append(see_marked_pairs(rows, marks, part.start, layout, n_threads))
        return merge_evidence(parts).both_ways(layout)

    def _to_rules(self, covers: UInt64Array, vertices: Vertices) -> Rules:
        # There is no evidence to ask whether `==` is enough for `<=` and `>=`: the rules themselves say so.
        nothing_hits = np.zeros((1, vertices.n_words), np.uint64)
        covers = without_relaxed(covers, vertices)
        return to_rules(self._relation.fields, self._settings, vertices, covers, nothing_hits)


def _changed_arrays(before: RuleIndexes, after: RuleIndexes) -> Arrays:
    if before.indexes is None or after.indexes is None or before.vertices != after.vertices:
        return after.arrays()
    changes = array_changes({"covers": before.covers}, {"covers": after.covers})
    return {**changes, "sizes": np.array([after.n_rows], np.int64)}
