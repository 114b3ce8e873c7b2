"""All evidence of a table with its multiplicities, and the covers of it: the exact state for any error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay.arrays import Int64Array, UInt64Array
from naysay.budget import Budget
from naysay.discovery.cover import Brake, near_covers
from naysay.discovery.device import Device, choose_device
from naysay.discovery.evidence import Evidence, all_pairs, triangle
from naysay.discovery.fields import Fields, converted
from naysay.discovery.outcomes import CodeLayout as Layout
from naysay.discovery.outcomes import Outcomes
from naysay.discovery.problem import MOST_RULES, Problem, finish_rules
from naysay.discovery.request import DiscoverRequest
from naysay.discovery.result import Rules
from naysay.discovery.vertices import Vertices, edges_of, sorted_unique, vertices_of
from naysay.evolve.covers import Search, all_covers, check_brake, edge_of_each, places, updated
from naysay.evolve.delta import Seen, check, evidence_of, see, sorted_runs, together, turned
from naysay.evolve.relation import Batch, Relation

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a rule may go: pairs that may break it, and comparisons in it; and with what to look."""

    most: int
    max_predicates: int | None
    n_threads: int
    device: Device = Device.CPU


@dataclass(frozen=True, slots=True)
class Counted:
    """Evidence by code and by edge, both with counts, and the minimal covers of all but `most` pairs, all sorted.

    `layout` is that of the codes, `shape` the one that vertices and edges are read by (see `Fields.now`).
    """

    evidence: Evidence
    layout: Layout
    shape: Layout
    vertices: Vertices
    edges: UInt64Array
    counts: Int64Array
    covers: UInt64Array
    most: int

    @property
    def n_pairs(self) -> int:
        return self.evidence.n_pairs


def count_all(relation: Relation, limits: Limits) -> Counted:
    """Compare all pairs of the rows that stand. Quadratic."""
    budget = Budget(threads=limits.n_threads)
    outcomes = relation.outcomes()
    device = choose_device(limits.device, outcomes, limits.n_threads)
    if device is Device.CUDA:
        # A GPU is given whole arrays, without the room for rows to come.
        outcomes = outcomes.take(np.arange(outcomes.n_rows))
    evidence = all_pairs(outcomes, budget, device=device)
    check(budget)
    assert evidence is not None
    return covered(evidence, relation.fields, relation.fields.now(relation.with_null), limits)


def covered(evidence: Evidence, fields: Fields, shape: Layout, limits: Limits) -> Counted:
    """Evidence with its covers, searched from scratch."""
    vertices = vertices_of(fields.space, shape)
    edges, counts = edges_of(evidence, shape, vertices)
    covers = _covers(edges, counts, vertices, limits)
    return Counted(evidence, fields.layout, shape, vertices, edges, counts, covers, limits.most)


def advanced(before: Counted, relation: Relation, batch: Batch, limits: Limits) -> tuple[Counted, Seen]:
    """What a batch makes of it, and the evidence, with pairs, of the rows that come: as far as it can break rules."""
    layout = relation.fields.layout
    shape, _ = relation.layout_after(batch)
    n_after = batch.stay.n_rows + batch.fresh.n_rows
    if batch.n_pairs > n_after * (n_after - 1) // 2:
        came = _recount(batch, layout, limits.n_threads)
        evidence = came.evidence
    else:
        gone, came = evidence_of(batch, layout, limits.n_threads, limits.device)
        evidence = evidence_after(before, layout, gone, came)
    return changed(before, evidence, came, relation.fields, shape, n_after, limits)


def evidence_after(before: Counted, layout: Layout, gone: Seen, came: Seen) -> Evidence:
    """The evidence without the pairs that went and with those that came, in a layout that may be wider."""
    known = before.evidence
    if before.layout is not layout:
        known = Evidence(converted(known.codes, before.layout, layout), known.counts)
    return summed(known, [came.evidence, Evidence(gone.codes, -gone.counts)])


def changed(
    before: Counted, evidence: Evidence, came: Seen, fields: Fields, shape: Layout, n_after: int, limits: Limits
) -> tuple[Counted, Seen]:
    """The covers of the evidence of `n_after` rows, from those before; and what came, as far as it can break rules."""
    if evidence.n_pairs != n_after * (n_after - 1):
        raise AssertionError(f"{evidence.n_pairs} pairs counted where there are {n_after * (n_after - 1)}")
    vertices = vertices_of(fields.space, shape)
    if vertices != before.vertices:
        return covered(evidence, fields, shape, limits), came
    edges, counts = edges_of(evidence, shape, vertices)
    if limits.most or before.most:
        covers = _covers(edges, counts, vertices, limits)
    else:
        fresh = edges[places(edges, before.edges) < 0]
        # Only an edge that was not there can break a rule that held.
        came = came.take(np.flatnonzero(places(edge_of_each(came.codes, shape, vertices), fresh) >= 0))
        gone_edges = before.edges[places(before.edges, edges) < 0]
        covers = updated(before.covers, edges, fresh, gone_edges, _search(vertices, limits))
    return Counted(evidence, fields.layout, shape, vertices, edges, counts, covers, limits.most), came


def _recount(batch: Batch, layout: Layout, n_threads: int) -> Seen:
    """The evidence of all rows after a batch that changes most of them."""
    rows = batch.after()
    half = see(rows, rows, list(triangle(rows.n_rows)), layout, n_threads)
    return together([half, turned(half, layout)], layout)


def summed(known: Evidence, changes: list[Evidence], *, may_be_negative: bool = False) -> Evidence:
    """Evidence after changes, whose counts may be negative; the sum only where it is asked for as a difference."""
    evidence = _merged([known, *changes])
    if not may_be_negative and evidence.counts.size and int(evidence.counts.min()) < 0:
        raise AssertionError("more pairs went than there were")
    return evidence


def difference(before: Counted, after: Counted) -> Evidence | None:
    """What evidence must be added to what was before; None where the codes or the covers are of another kind."""
    if before.layout is not after.layout or before.vertices != after.vertices:
        return None
    negative = Evidence(before.evidence.codes, -before.evidence.counts)
    return summed(after.evidence, [negative], may_be_negative=True)


def _merged(parts: list[Evidence]) -> Evidence:
    """Add up the counts of equal codes, and leave out those that come to nothing."""
    codes = np.concatenate([part.codes for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    if counts.size:
        order, starts = sorted_runs(codes)
        codes, counts = codes[order[starts]], np.add.reduceat(counts[order], starts)
    left = np.flatnonzero(counts)
    return Evidence(codes[left], counts[left])


def whole_arrays(counted: Counted) -> Arrays:
    """Everything that cannot be worked out from the rows alone."""
    return {"codes": counted.evidence.codes, "counts": counted.evidence.counts, "covers": counted.covers}


def of_evidence(
    evidence: Evidence, covers: UInt64Array, fields: Fields, with_null: frozenset[str], n_rows: int, most: int
) -> Counted:
    """Evidence and its covers as they were kept."""
    if evidence.n_pairs != n_rows * (n_rows - 1):
        raise AssertionError(f"evidence of {evidence.n_pairs} pairs beside {n_rows} rows")
    shape = fields.now(with_null)
    vertices = vertices_of(fields.space, shape)
    edges, counts = edges_of(evidence, shape, vertices)
    return Counted(evidence, fields.layout, shape, vertices, edges, counts, covers, most)


def kept_after(whole: Arrays, changes: Sequence[Arrays]) -> tuple[Evidence, UInt64Array]:
    """The evidence and the covers that a store kept: everything, then what batches changed of it."""
    evidence, covers = Evidence(whole["codes"], whole["counts"]), whole["covers"]
    for change in changes:
        codes, counts = change["codes"], change["counts"]
        if "covers" in change:
            evidence, covers = Evidence(codes, counts), change["covers"]
        else:
            evidence = summed(evidence, [Evidence(codes, counts)])
            kept = covers[places(covers, change["removed"]) < 0]
            covers = sorted_unique(np.concatenate([kept, change["added"]]))
    return evidence, covers


def change_arrays(before: Counted, after: Counted) -> Arrays:
    """The evidence that changed, with the difference of its counts, and the covers that came and went."""
    changes = difference(before, after)
    if changes is None:
        return whole_arrays(after)
    return {
        "codes": changes.codes,
        "counts": changes.counts,
        "added": after.covers[places(after.covers, before.covers) < 0],
        "removed": before.covers[places(before.covers, after.covers) < 0],
    }


def shown_rules(counted: Counted, fields: Fields, max_predicates: int | None, error: float) -> Rules:
    """The covers that are rules, short ones first."""
    request = DiscoverRequest(max_predicates=max_predicates, nulls=fields.nulls)
    problem = Problem(fields.space, _no_rows(fields), counted.vertices, request, counted.most)
    covers, _ = finish_rules(problem, counted.covers, counted.edges, counted.counts)
    return Rules(covers, counted.vertices, error, counted.edges)


def _no_rows(fields: Fields) -> Outcomes:
    nothing = np.zeros((fields.n_lines, 0), np.int32)
    return Outcomes(fields.layout, nothing, nothing, np.empty(0, np.int64), np.empty(0, np.int64))


def _covers(edges: UInt64Array, counts: Int64Array, vertices: Vertices, limits: Limits) -> UInt64Array:
    if not limits.most:
        return all_covers(edges, _search(vertices, limits))
    brake, budget = Brake(2 * MOST_RULES), Budget(threads=limits.n_threads)
    covers = near_covers(
        edges, counts, vertices, limits.most, max_groups=limits.max_predicates, brake=brake, budget=budget
    )
    check(budget)
    check_brake(brake)
    return sorted_unique(covers)


def _search(vertices: Vertices, limits: Limits) -> Search:
    return Search(vertices, limits.max_predicates, limits.n_threads)
