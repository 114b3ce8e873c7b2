"""Rules kept current without the evidence of all pairs: exact rules of large tables.

A few new rows are compared with all others: their pairs are all that can break a rule, so the covers grow from there
and need no proof. Of many, only the pairs that agree on a settled set are compared; `batch_proof` proves the rules.
Deleted rows take evidence away: settled evidence disappears when its count reaches zero, open evidence with its last
known pair. Covers that may shrink because of that are settled, or verified on the remaining rows; a pair that breaks
one is learnt, and so on, as in `discovery.selective`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from naysay.arrays import UInt64Array
from naysay.budget import Budget
from naysay.discovery.evidence import Device, Evidence, all_pairs, codes_of_pairs
from naysay.discovery.fields import converted
from naysay.discovery.outcomes import CodeLayout
from naysay.discovery.problem import Answer, Problem
from naysay.discovery.result import Rules
from naysay.discovery.selective import SAMPLE_ROWS
from naysay.discovery.verify import equality_masks, settled_by
from naysay.discovery.vertices import edge_of_each, edges_of, sorted_unique, to_int, vertices_of
from naysay.evolve.agreeing import compare_agreeing
from naysay.evolve.batch_proof import BatchProver
from naysay.evolve.covers import are_within, find_missed, grow, members, missed_by_some, shrink
from naysay.evolve.delta import NO_ROW, PairEvidence, compare_change, compare_rows, device_for
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
from naysay.evolve.proof import ProvenCovers, Prover, RankedVerifier, TwoWayEdges
from naysay.evolve.relation import EncodedRows, Relation, RelationChange

# If more than this share of the rows changed, starting over costs less, unless the table is small.
_RESTART_SHARE = 0.3
_MIN_PAIRS = 1 << 28
# Comparing so many rows with all others takes as long as looking for pairs that agree on a set, or verifying a rule.
_ROWS_PER_SET, _ROWS_PER_RULE = 30, 30
# The budget of a search for a pair that is known to exist.
_LONG = 1 << 60


class Selective:
    """Keeps the evidence of chosen pairs, and proves that no other pair breaks a rule."""

    name = "selective"

    def __init__(
        self, relation: Relation, settings: EvolveSettings, kept: Arrays | None = None, *, may_leave: bool = False
    ) -> None:
        self._relation = relation
        self._settings = settings
        layout, shape = relation.fields.layout, relation.shape()
        if kept is None:
            self._known = self._start(relation.encoded(), shape, may_leave=may_leave)
        else:
            self._known = ProvenCovers.of_arrays(kept, vertices_of(relation.space, shape), layout, shape)
        self.rules = self._to_rules(self._known)

    def advance(self, batch: RelationChange) -> MethodStep[ProvenCovers]:
        layout, shape = self._relation.fields.layout, self._relation.shape(batch)
        before = self._converted_to(layout)
        same = vertices_of(self._relation.space, shape) == before.vertices
        if not same or self._is_costly(batch, layout):
            seed = replace(before, open=before.open.without_rows(batch.gone.serials)) if same else None
            rows = batch.after()
            after = self._start(rows, shape, seed)
            find_broken = partial(self._find_broken, after, rows)
        else:
            after, came = self._advance(replace(before, shape=shape), batch)
            find_broken = partial(self._find_broken_by, came, after, batch)
        changed_arrays = partial(_changed_arrays, self._known, after)
        return MethodStep(self._to_rules(after), after.covers, after, find_broken, changed_arrays)

    def adopt(self, step: MethodStep[ProvenCovers]) -> None:
        self._known, self.rules = step.after, step.rules

    def answer(self) -> Answer:
        """The rules with the evidence of a sample of rows, for ranking."""
        outcomes = self._relation.outcomes()
        n_rows = min(outcomes.n_rows, SAMPLE_ROWS)
        chosen = np.sort(np.random.default_rng(0).choice(outcomes.n_rows, n_rows, replace=False))
        sample = all_pairs(outcomes.take(chosen), Budget(threads=self._settings.n_threads))
        assert sample is not None
        edges, counts = edges_of(sample, self._known.shape, self._known.vertices)
        return Answer(self.rules.covers, False, edges, counts, n_sampled=n_rows)

    def arrays(self) -> Arrays:
        return self._known.arrays()

    def _is_costly(self, batch: RelationChange, layout: CodeLayout) -> bool:
        """Whether starting over costs less than an update. A GPU compares pairs in no time."""
        n_changed = batch.gone.n_rows + batch.fresh.n_rows
        if batch.n_pairs <= _MIN_PAIRS or n_changed <= _RESTART_SHARE * batch.n_after:
            return False
        return not self._is_on_gpu(batch.n_pairs, layout)

    def _is_on_gpu(self, n_pairs: int, layout: CodeLayout) -> bool:
        return device_for(self._settings.device, n_pairs, layout, self._settings.n_threads) is Device.CUDA

    def _find_broken_by(
        self, came: PairEvidence, known: ProvenCovers, batch: RelationChange, covers: UInt64Array
    ) -> Broken:
        """For each cover a pair that breaks its rule: one of those that came, or one that was learnt."""
        broken = pairs_breaking(covers, came, known.shape, known.vertices)
        rest = np.flatnonzero(broken.left == NO_ROW)
        if rest.size:
            others = self._find_broken(known, batch.after(), np.ascontiguousarray(covers[rest]))
            broken.left[rest], broken.right[rest] = others.left, others.right
        return broken

    def _find_broken(self, known: ProvenCovers, rows: EncodedRows, covers: UInt64Array) -> Broken:
        """For each cover a pair of rows that breaks its rule: a known pair, or one that the verifier finds.

        No pair breaks a cover that contains a current one. A pair that is found serves all covers that it breaks.
        """
        search = self._settings.search(known.vertices)
        edges, left_of, right_of = known.open.pairs()
        missed = find_missed(covers, edges, search)
        broken, hit = Broken.by_none(len(covers)), missed >= 0
        broken.left[hit], broken.right[hit] = left_of[missed[hit]], right_of[missed[hit]]
        open_places = [place for place in np.flatnonzero(~hit) if not are_within(known.covers, covers[place]).any()]
        todo = np.array(open_places, np.int64)
        outcomes = rows.outcomes(known.shape)
        verifier = RankedVerifier(outcomes, known.vertices)
        while todo.size:
            pair = verifier.find(to_int(covers[todo[0]]), _LONG)
            if pair is None:
                todo = todo[1:]
                continue
            ways = np.array([pair, pair[::-1]])
            codes = codes_of_pairs(outcomes, ways[:, 0], ways[:, 1])
            missed = find_missed(covers[todo], edge_of_each(codes, known.shape, known.vertices), search)
            hit = missed >= 0
            assert hit[0], "the pair that was found breaks the rule"
            broken.left[todo[hit]], broken.right[todo[hit]] = rows.serials[ways[missed[hit]]].T
            todo = todo[~hit]
        return broken

    def _compare(self, before: ProvenCovers, batch: RelationChange) -> tuple[PairEvidence, PairEvidence, bool]:
        """The pairs that disappear and appear, and whether those that appear are all.

        Of many rows only the pairs that agree on a settled set are compared: what must be counted.
        """
        settings, layout, n_masks = self._settings, before.layout, len(before.masks)
        if self._is_on_gpu(batch.n_pairs, layout):
            return *compare_change(batch, layout, settings.n_threads, Device.CUDA), True
        n_open = np.count_nonzero(~settled_by(equality_masks(before.covers, before.vertices), list(before.masks)))
        bounds = (_ROWS_PER_SET * n_masks, _ROWS_PER_SET * n_masks + _ROWS_PER_RULE * int(n_open) // 2)
        seen = [
            compare_rows(rows, batch.stay, layout, settings.n_threads)
            if rows.n_rows <= bound
            else compare_agreeing(rows, batch.stay, before.masks, before.shape, settings.n_threads)
            for rows, bound in zip((batch.gone, batch.fresh), bounds, strict=True)
        ]
        return seen[0], seen[1], batch.fresh.n_rows <= bounds[1]

    def _advance(self, before: ProvenCovers, batch: RelationChange) -> tuple[ProvenCovers, PairEvidence]:
        """What is known after a batch, and which of the pairs that came are new and break some rule."""
        search = self._settings.search(before.vertices)
        gone, came, has_all = self._compare(before, batch)
        changes = []
        for seen, sign in ((came, 1), (gone, -1)):
            here = before.are_settled(seen.codes)
            changes.append(Evidence(seen.codes[here], sign * seen.counts[here]))
        settled = add_evidence(before.settled, *changes)
        opened = before.open.without_rows(batch.gone.serials)
        both = TwoWayEdges.of(came.codes, before.shape, before.vertices)
        again = members(both.lines, opened.lines) & (came.left != NO_ROW)
        opened = opened.put(both.take(again), came.left[again], came.right[again])
        opened = opened.take(opened.witnessed)
        after = replace(before, settled=settled, open=opened)
        known, edges = before.edges, after.edges
        lost = np.ascontiguousarray(known[~members(known, edges)])
        kept = np.ascontiguousarray(edges[members(edges, known)])
        covers = shrink(before.covers, kept, lost, search) if len(lost) else before.covers
        breaking = missed_by_some(covers, both.edges)
        fresh = sorted_unique(both.edges[breaking])
        after = replace(after, open=opened.put(both.take(breaking), *came.pairs(np.flatnonzero(breaking))))
        # What contains an old cover holds for the rows that stay, and covers everything that came.
        sure = members(covers, before.covers)
        sure_covers = grow(covers[sure], kept, fresh, search)
        other_covers = grow(covers[~sure], kept, fresh, search)
        after = replace(after, covers=sorted_unique(np.concatenate([sure_covers, other_covers])))
        if not has_all:
            rows = batch.after()
            after = BatchProver(
                self._problem(rows, before.shape), rows, after, covers[sure], batch.fresh.n_rows
            ).prove()
        elif len(other_covers):
            after = self._prove(after, batch.after(), sure_covers)
        return after, came.take(np.flatnonzero(breaking))

    def _start(
        self, rows: EncodedRows, shape: CodeLayout, seed: ProvenCovers | None = None, *, may_leave: bool = False
    ) -> ProvenCovers:
        """Find all rules of some rows; a seed knows edges of some of them, and which sets were worth counting."""
        problem = self._problem(rows, shape)
        known = ProvenCovers.unknown(problem.vertices, self._relation.fields.layout, shape)
        if seed is not None:
            known = replace(known, open=seed.open.take(seed.open.witnessed))
        prover = Prover(problem, rows, known, known.covers[:0])
        if rows.n_rows:
            prover.begin(seed.masks if seed is not None else ())
        return prover.prove(may_leave=may_leave)

    def _prove(self, known: ProvenCovers, rows: EncodedRows, proven: UInt64Array) -> ProvenCovers:
        """Prove the covers that are not proven; learn from those that do not hold."""
        return Prover(self._problem(rows, known.shape), rows, known, proven).prove()

    def _converted_to(self, layout: CodeLayout) -> ProvenCovers:
        known = self._known
        if known.layout is layout:
            return known
        codes = converted(known.settled.codes, known.layout, layout)
        settled = add_evidence(Evidence(codes, known.settled.counts))
        return replace(known, layout=layout, settled=settled)

    def _problem(self, rows: EncodedRows, shape: CodeLayout) -> Problem:
        settings = self._settings
        return Problem.of(self._relation.space, rows.outcomes(shape), settings.request, settings.budget())

    def _to_rules(self, known: ProvenCovers) -> Rules:
        return to_rules(self._relation.fields, self._settings, known.vertices, known.covers, known.edges)


def _changed_arrays(before: ProvenCovers, after: ProvenCovers) -> Arrays:
    if before.layout is not after.layout or before.vertices != after.vertices or before.masks != after.masks:
        return after.arrays()
    return array_changes(before.arrays(), after.arrays())
