"""The method that keeps all evidence of a table with its multiplicities: exact for any error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.discovery.evidence import Device, Evidence, all_pairs, choose_device
from naysay.discovery.fields import Fields, converted
from naysay.discovery.outcomes import CodeLayout
from naysay.discovery.problem import Answer
from naysay.discovery.result import Rules
from naysay.discovery.vertices import Vertices, edge_of_each, edges_of, vertices_of
from naysay.evolve.covers import all_covers, places, update_covers
from naysay.evolve.delta import NO_ROW, PairEvidence, compare_all, compare_blocks, compare_change, raise_if_stopped
from naysay.evolve.method import (
    Arrays,
    Broken,
    EvolveSettings,
    MethodStep,
    add_evidence,
    array_changes,
    pairs_breaking,
    to_rules,
)
from naysay.evolve.relation import EncodedRows, Relation, RelationChange

# For each of some covers a pair of rows that breaks its rule; the caller knows that there is one.
FindPairs = Callable[[UInt64Array], tuple[Int64Array, Int64Array]]


@dataclass(frozen=True, slots=True)
class CountedEvidence:
    """Evidence by code and by edge, both with counts, and the minimal covers of all but `most` pairs, all sorted.

    `layout` is that of the codes; `shape` is the one that vertices and edges are read by (see `Fields.now`).
    """

    evidence: Evidence
    layout: CodeLayout
    shape: CodeLayout
    vertices: Vertices
    edges: UInt64Array
    counts: Int64Array
    covers: UInt64Array
    most: int

    @classmethod
    def of(
        cls,
        evidence: Evidence,
        fields: Fields,
        shape: CodeLayout,
        settings: EvolveSettings,
        covers: UInt64Array | None = None,
    ) -> CountedEvidence:
        """Evidence with its covers, which are searched from scratch unless they are given."""
        vertices = vertices_of(fields.space, shape)
        edges, counts = edges_of(evidence, shape, vertices)
        search = settings.search(vertices, evidence.n_pairs)
        found = all_covers(edges, search, counts) if covers is None else covers
        return cls(evidence, fields.layout, shape, vertices, edges, counts, found, search.most)

    def arrays(self) -> Arrays:
        """Everything that cannot be computed from the rows."""
        return {"codes": self.evidence.codes, "counts": self.evidence.counts, "covers": self.covers}

    def rules(self, fields: Fields, settings: EvolveSettings) -> Rules:
        return to_rules(fields, settings, self.vertices, self.covers, self.edges, self.counts, self.most)

    def evidence_after(self, layout: CodeLayout, gone: PairEvidence, came: PairEvidence) -> Evidence:
        """The evidence without the pairs that disappear and with those that appear, in a layout that may be wider."""
        known = self.evidence
        if self.layout is not layout:
            known = Evidence(converted(known.codes, self.layout, layout), known.counts)
        return add_evidence(known, came.evidence, Evidence(gone.codes, -gone.counts))

    def advance(
        self, evidence: Evidence, came: PairEvidence, fields: Fields, shape: CodeLayout, settings: EvolveSettings
    ) -> tuple[CountedEvidence, PairEvidence]:
        """The covers of new evidence, from those before; and what came, as far as it can break rules."""
        vertices = vertices_of(fields.space, shape)
        search = settings.search(vertices, evidence.n_pairs)
        if vertices != self.vertices or search.most or self.most:
            return CountedEvidence.of(evidence, fields, shape, settings), came
        edges, counts = edges_of(evidence, shape, vertices)
        fresh = edges[places(edges, self.edges) < 0]
        # Only an edge that was not there can break a rule that held.
        came = came.take(np.flatnonzero(places(edge_of_each(came.codes, shape, vertices), fresh) >= 0))
        gone = self.edges[places(self.edges, edges) < 0]
        covers = update_covers(self.covers, edges, fresh, gone, search)
        return CountedEvidence(evidence, fields.layout, shape, vertices, edges, counts, covers, 0), came


def count_all(relation: Relation, settings: EvolveSettings) -> CountedEvidence:
    """Compare all pairs of rows. Quadratic."""
    budget = settings.budget()
    outcomes = relation.outcomes()
    device = choose_device(settings.device, outcomes, settings.n_threads)
    if device is Device.CUDA:
        # A GPU is given whole arrays, without the room for rows to come.
        outcomes = outcomes.take(np.arange(outcomes.n_rows))
    evidence = all_pairs(outcomes, budget, device=device)
    raise_if_stopped(budget)
    assert evidence is not None
    return CountedEvidence.of(evidence, relation.fields, relation.shape(), settings)


def make_step(
    before: CountedEvidence, after: CountedEvidence, came: PairEvidence, rules: Rules, find_pairs: FindPairs
) -> MethodStep[CountedEvidence]:
    def changed_arrays() -> Arrays:
        if before.layout is not after.layout or before.vertices != after.vertices:
            return after.arrays()
        return array_changes(before.arrays(), after.arrays())

    return MethodStep(
        rules, after.covers, after, partial(_find_broken, before, after, came, find_pairs), changed_arrays
    )


def _find_broken(
    before: CountedEvidence, after: CountedEvidence, came: PairEvidence, find_pairs: FindPairs, covers: UInt64Array
) -> Broken:
    found = pairs_breaking(covers, came, after.shape, after.vertices)
    if not after.most and not before.most:
        return found
    from naysay.kernels.covers.minimal import count_missed

    counts = count_missed(after.edges, after.counts, covers, np.iinfo(np.int64).max)
    over = counts > after.most
    unknown = over & (found.left == NO_ROW)
    if unknown.any():
        found.left[unknown], found.right[unknown] = find_pairs(covers[unknown])
    found.left[~over] = found.right[~over] = NO_ROW
    return Broken(found.left, found.right, counts)


def _pairs_among(
    rows: EncodedRows, counted: CountedEvidence, n_threads: int, covers: UInt64Array
) -> tuple[Int64Array, Int64Array]:
    """Search all rows, a few at a time, for pairs that break rules, until there is one for each."""
    left, right = np.full(len(covers), NO_ROW, np.int64), np.full(len(covers), NO_ROW, np.int64)
    for start in range(0, rows.n_rows, 256):
        stop = min(rows.n_rows, start + 256)
        blocks = [(start, stop, start, stop, 1), (start, stop, stop, rows.n_rows, 0)]
        both = compare_blocks(rows, rows, blocks, counted.layout, n_threads).both_ways(counted.layout)
        todo = np.flatnonzero(left == NO_ROW)
        here = pairs_breaking(np.ascontiguousarray(covers[todo]), both, counted.shape, counted.vertices)
        left[todo], right[todo] = here.left, here.right
        if (left != NO_ROW).all():
            break
    return left, right


class Counting:
    """Counts all pairs by their outcome."""

    name = "all-pairs"

    def __init__(self, relation: Relation, settings: EvolveSettings, kept: Arrays | None = None) -> None:
        self._relation = relation
        self._settings = settings
        if kept is None:
            self._counted = count_all(relation, settings)
        else:
            evidence = Evidence(kept["codes"], kept["counts"])
            require_pairs(evidence, relation.n_rows)
            self._counted = CountedEvidence.of(evidence, relation.fields, relation.shape(), settings, kept["covers"])
        self.rules = self._counted.rules(relation.fields, settings)

    def advance(self, batch: RelationChange) -> MethodStep[CountedEvidence]:
        fields, settings, before = self._relation.fields, self._settings, self._counted
        layout, n_after = fields.layout, batch.n_after
        if batch.n_pairs > n_after * (n_after - 1) // 2:
            came = compare_all(batch.after(), layout, settings.n_threads)
            evidence = came.evidence
        else:
            gone, came = compare_change(batch, layout, settings.n_threads, settings.device)
            evidence = before.evidence_after(layout, gone, came)
        require_pairs(evidence, n_after)
        after, came = before.advance(evidence, came, fields, self._relation.shape(batch), settings)

        def find_pairs(covers: UInt64Array) -> tuple[Int64Array, Int64Array]:
            return _pairs_among(batch.after(), after, settings.n_threads, covers)

        return make_step(before, after, came, after.rules(fields, settings), find_pairs)

    def adopt(self, step: MethodStep[CountedEvidence]) -> None:
        self._counted, self.rules = step.after, step.rules

    def answer(self) -> Answer:
        return Answer(self.rules.covers, False, self._counted.edges, self._counted.counts)

    def arrays(self) -> Arrays:
        return self._counted.arrays()


def require_pairs(evidence: Evidence, n_rows: int) -> None:
    if evidence.n_pairs != n_rows * (n_rows - 1):
        raise AssertionError(f"evidence of {evidence.n_pairs} pairs for {n_rows} rows")
