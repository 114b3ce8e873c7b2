"""Rules kept current without the evidence of all pairs: for large tables, exact rules.

Rows that come are compared with all others: what their pairs tell is all that can break a rule, so the covers grow from
there and need no proof. Rows that go take evidence away: settled evidence goes when its count comes to nothing, open
evidence when its last known pair goes. Covers that this lets shrink are settled, or verified on the rows that stand; a
pair that breaks one is learnt, and so on, as in `discover.selective`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from naysay.arrays import BoolArray, UInt64Array
from naysay.discovery.device import Device
from naysay.discovery.evidence import Evidence, codes_of_pairs
from naysay.discovery.fields import converted
from naysay.discovery.outcomes import Layout, Outcomes
from naysay.discovery.problem import Answer, Problem, finished
from naysay.discovery.result import Rules
from naysay.discovery.vertices import edges_of, sorted_unique, to_int, vertices_of
from naysay.discovery.work import Clock
from naysay.evolve.counted import Arrays, summed
from naysay.evolve.covers import Search, edge_of_each, grown, inside, members, missing, places, shrunk
from naysay.evolve.delta import NOBODY, Seen, device_for, evidence_of
from naysay.evolve.known import Known, Open, agreeing, both_ways
from naysay.evolve.method import Broken, Settings, Step, pairs_breaking
from naysay.evolve.prover import Prover, RankedVerifier, nothing_known
from naysay.evolve.relation import Batch, Relation, Sides

# A batch of more rows than this, of a table for which that matters, costs more by its pairs than rules from scratch.
_RESTART_ROWS = 9_000
_MIN_PAIRS = 1 << 28
# A pair that is known to exist is sought for as long as it takes.
_LONG = 1 << 60


@dataclass(frozen=True, slots=True)
class SelectiveStep:
    rules: Rules
    before: Known
    known: Known
    came: Seen | None
    find: Callable[[UInt64Array], Broken] | None = None

    @property
    def covers(self) -> UInt64Array:
        return self.known.covers

    def broken(self, covers: UInt64Array) -> Broken:
        if self.came is None:
            assert self.find is not None
            return self.find(covers)
        return pairs_breaking(covers, self.came, self.known.shape, self.known.vertices)

    def arrays(self) -> Arrays:
        before, after = self.before, self.known
        if before.layout is not after.layout or before.vertices != after.vertices or before.masks != after.masks:
            return whole_arrays(after)
        changed = summed(after.settled, [Evidence(before.settled.codes, -before.settled.counts)], may_be_negative=True)
        at = places(after.open.lines, before.open.lines)
        same = at >= 0
        for one, other in ((after.open.left, before.open.left), (after.open.right, before.open.right)):
            same[same] = (one[same] == other[at[same]]).all(axis=1)
        return {
            "codes": changed.codes,
            "counts": changed.counts,
            "added": after.covers[~members(after.covers, before.covers)],
            "removed": before.covers[~members(before.covers, after.covers)],
            "lines": after.open.lines[~same],
            "left": after.open.left[~same],
            "right": after.open.right[~same],
            "forgotten": before.open.lines[~members(before.open.lines, after.open.lines)],
        }


class Selective:
    """Evidence of chosen pairs, and proof."""

    name = "selective"

    def __init__(
        self,
        relation: Relation,
        settings: Settings,
        n_threads: int,
        known: Known | None = None,
        *,
        may_leave: bool = False,
        device: Device = Device.CPU,
    ) -> None:
        self._relation = relation
        self._settings = settings
        self._n_threads = n_threads
        self._device = device
        if known is None:
            known = self._begin(relation.sides(), relation.fields.now(relation.with_null), may_leave=may_leave)
        self.known = known
        self._rules = self._shown(known)

    @property
    def rules(self) -> Rules:
        return self._rules

    def advance(self, batch: Batch) -> SelectiveStep:
        layout = self._relation.fields.layout
        shape, _ = self._relation.layout_after(batch)
        before = self._laid_out(layout)
        same = vertices_of(self._relation.space, shape) == before.vertices
        n_after = batch.stay.n_rows + batch.fresh.n_rows
        if not same or self._is_dear(batch.n_pairs, n_after, layout):
            seed = replace(before, open=before.open.without_rows(batch.gone.serials)) if same else None
            rows = batch.after()
            known = self._begin(rows, shape, seed)
            return SelectiveStep(self._shown(known), self.known, known, None, partial(self._find, known, rows))
        gone, came = evidence_of(batch, layout, self._n_threads, self._device)
        known, fresh = self._advanced(replace(before, shape=shape), batch, gone, came)
        return SelectiveStep(self._shown(known), self.known, known, came.take(np.flatnonzero(fresh)))

    def _is_dear(self, n_pairs: int, n_after: int, layout: Layout) -> bool:
        """Whether rules from scratch cost less than so many pairs. A GPU compares them in no time."""
        if n_pairs <= max(_MIN_PAIRS, _RESTART_ROWS * n_after):
            return False
        return device_for(self._device, n_pairs, layout, self._n_threads) is not Device.CUDA

    def _find(self, known: Known, rows: Sides, covers: UInt64Array) -> Broken:
        """For each cover a pair of rows that breaks its rule: one that is known, else by way of the verifier.

        A cover that contains one that stands is broken by none. A pair that is found settles all others that it breaks.
        """
        search = self._search(known)
        edges, left_of, right_of = known.open.pairs()
        missed = missing(covers, edges, search)
        left, right = np.full(len(covers), NOBODY, np.int64), np.full(len(covers), NOBODY, np.int64)
        left[missed >= 0], right[missed >= 0] = left_of[missed[missed >= 0]], right_of[missed[missed >= 0]]
        todo = np.flatnonzero(missed < 0)
        todo = np.array([place for place in todo if not inside(covers[place], known.covers).any()], np.int64)
        outcomes = self._problem(rows, known.shape).outcomes
        verifier = RankedVerifier(outcomes, known.vertices)
        while todo.size:
            pair = verifier.find(to_int(covers[todo[0]]), _LONG)
            if pair is None:
                todo = todo[1:]
                continue
            ways = np.array([pair, pair[::-1]])
            codes = codes_of_pairs(outcomes, ways[:, 0], ways[:, 1])
            missed = missing(covers[todo], edge_of_each(codes, known.shape, known.vertices), search)
            hit = missed >= 0
            assert hit[0], "the pair that was found breaks the rule"
            left[todo[hit]], right[todo[hit]] = rows.serials[ways[missed[hit]]].T
            todo = todo[~hit]
        return Broken(left, right)

    def adopt(self, step: Step) -> None:
        assert isinstance(step, SelectiveStep)
        self.known, self._rules = step.known, step.rules

    def answer(self) -> Answer:
        """The rules with the evidence of a sample of rows, for ranking."""
        from naysay.discovery.evidence import all_pairs
        from naysay.discovery.selective import SAMPLE_ROWS

        outcomes = self._relation.outcomes()
        n_rows = min(outcomes.n_rows, SAMPLE_ROWS)
        chosen = np.sort(np.random.default_rng(0).choice(outcomes.n_rows, n_rows, replace=False))
        sample = all_pairs(outcomes.take(chosen), n_threads=self._n_threads)
        assert sample is not None
        edges, counts = edges_of(sample, self.known.shape, self.known.vertices)
        return Answer(self._rules.covers, False, edges, counts, n_sampled=n_rows)

    def arrays(self) -> Arrays:
        return whole_arrays(self.known)

    @classmethod
    def restored(
        cls,
        relation: Relation,
        settings: Settings,
        n_threads: int,
        whole: Arrays,
        changes: Sequence[Arrays],
        *,
        device: Device = Device.CPU,
    ) -> Selective:
        """From what a store kept."""
        for change in changes:
            whole = change if "masks" in change else _changed(whole, change)
        shape = relation.fields.now(relation.with_null)
        known = Known(
            relation.fields.layout,
            shape,
            vertices_of(relation.space, shape),
            tuple(int(mask) for mask in whole["masks"]),
            Evidence(whole["codes"], whole["counts"]),
            Open(whole["lines"], whole["left"], whole["right"]),
            whole["covers"],
        )
        return cls(relation, settings, n_threads, known, device=device)

    def _advanced(self, before: Known, batch: Batch, gone: Seen, came: Seen) -> tuple[Known, BoolArray]:
        """What is known after a batch, and which of the codes that came nobody knew and some rule minded."""
        search = self._search(before)
        settled = self._count(before, gone, came)
        opened = before.open.without_rows(batch.gone.serials)
        both = both_ways(came.codes, before.shape, before.vertices)
        again = members(both.lines, opened.lines) & (came.left != NOBODY)
        opened = opened.put(both.take(again), came.left[again], came.right[again])
        opened = opened.take(opened.witnessed)
        after = replace(before, settled=settled, open=opened)
        known, edges = before.edges, after.edges
        lost = np.ascontiguousarray(known[~members(known, edges)])
        kept = np.ascontiguousarray(edges[members(edges, known)])
        covers = shrunk(before.covers, kept, lost, search) if len(lost) else before.covers
        minded = _minded(covers, both.edges, search)
        fresh = sorted_unique(both.edges[minded])
        after = replace(after, open=opened.put(both.take(minded), *came.pairs(np.flatnonzero(minded))))
        # What holds an old cover holds for the rows that stay, and takes in all that came.
        sure = members(covers, before.covers)
        sure_covers = _grown(covers[sure], kept, fresh, search)
        other_covers = _grown(covers[~sure], kept, fresh, search)
        after = replace(after, covers=sorted_unique(np.concatenate([sure_covers, other_covers])))
        if len(other_covers):
            after = self._proven(after, batch.after(), sure_covers)
        return after, minded

    def _count(self, before: Known, gone: Seen, came: Seen) -> Evidence:
        """The counts of settled evidence after what went and came."""
        changes = []
        for seen, sign in ((came, 1), (gone, -1)):
            here = seen.take(np.flatnonzero(agreeing(seen.codes, before.shape, before.masks)))
            changes.append(Evidence(here.codes, sign * here.counts))
        return summed(before.settled, changes)

    def _begin(self, rows: Sides, shape: Layout, seed: Known | None = None, *, may_leave: bool = False) -> Known:
        """Find all rules of some rows; a seed knows edges of some of them, and which sets were worth counting."""
        problem = self._problem(rows, shape)
        known = nothing_known(problem, self._relation.fields.layout, shape)
        if seed is not None:
            known = replace(known, open=seed.open.take(seed.open.witnessed))
        prover = Prover(problem, rows, known, known.covers[:0])
        if rows.n_rows:
            prover.begin(seed.masks if seed is not None else ())
        return prover.prove(may_leave=may_leave)

    def _proven(self, known: Known, rows: Sides, proven: UInt64Array) -> Known:
        """Prove the covers that are not; learn from those that do not hold."""
        return Prover(self._problem(rows, known.shape), rows, known, proven).prove()

    def _laid_out(self, layout: Layout) -> Known:
        known = self.known
        if known.layout is layout:
            return known
        codes = converted(known.settled.codes, known.layout, layout)
        settled = summed(Evidence(codes[:0], known.settled.counts[:0]), [Evidence(codes, known.settled.counts)])
        return replace(known, layout=layout, settled=settled)

    def _problem(self, rows: Sides, shape: Layout) -> Problem:
        n_rows = rows.n_rows
        left = rows.left[:, :n_rows]
        right = left if rows.right is rows.left else rows.right[:, :n_rows]
        outcomes = Outcomes(shape, left, right, np.ones(n_rows, np.int64), np.arange(n_rows, dtype=np.int64))
        return Problem.of(
            self._relation.space,
            self._settings.nulls,
            outcomes,
            max_predicates=self._settings.max_predicates,
            n_threads=self._n_threads,
        )

    def _search(self, known: Known) -> Search:
        return Search(known.vertices, self._settings.max_predicates, self._n_threads)

    def _shown(self, known: Known) -> Rules:
        problem = Problem(
            self._relation.space,
            self._settings.nulls,
            self._relation.outcomes(),
            known.vertices,
            0,
            self._settings.max_predicates,
            None,
            self._n_threads,
            Clock(),
        )
        edges = known.edges
        covers, _ = finished(problem, known.covers, edges, np.ones(len(edges), np.int64))
        return Rules(covers, known.vertices, 0.0)


def _grown(covers: UInt64Array, edges: UInt64Array, fresh: UInt64Array, search: Search) -> UInt64Array:
    """The minimal covers of `edges` and `fresh` that hold one of these minimal covers of `edges`, sorted."""
    covers = np.ascontiguousarray(covers)
    if not len(fresh) or not len(covers):
        return covers
    missed = missing(covers, fresh, search)
    return sorted_unique(np.concatenate([covers[missed < 0], grown(covers[missed >= 0], edges, fresh, search)]))


def _minded(covers: UInt64Array, edges: UInt64Array, search: Search) -> BoolArray:
    """Which edges some cover misses."""
    from naysay.kernels.covers.changing import missed_by_some
    from naysay.kernels.covers.minimal import find_holders

    if not len(edges):
        return np.zeros(0, np.bool_)
    found: BoolArray = missed_by_some(covers, len(edges), find_holders(edges, 1))
    return found


def whole_arrays(known: Known) -> Arrays:
    return {
        "masks": np.array(known.masks, np.int64),
        "codes": known.settled.codes,
        "counts": known.settled.counts,
        "lines": known.open.lines,
        "left": known.open.left,
        "right": known.open.right,
        "covers": known.covers,
    }


def _changed(whole: Arrays, change: Arrays) -> Arrays:
    settled = summed(Evidence(whole["codes"], whole["counts"]), [Evidence(change["codes"], change["counts"])])
    covers = whole["covers"][~members(whole["covers"], sorted_unique(change["removed"]))]
    replaced = sorted_unique(np.concatenate([change["lines"], change["forgotten"]]))
    kept = ~members(whole["lines"], replaced)
    opened = {name: np.concatenate([whole[name][kept], change[name]]) for name in ("lines", "left", "right")}
    order = np.lexsort([opened["lines"][:, word] for word in range(opened["lines"].shape[1])])
    return {
        "masks": whole["masks"],
        "codes": settled.codes,
        "counts": settled.counts,
        "covers": sorted_unique(np.concatenate([covers, change["added"]])),
        **{name: np.ascontiguousarray(array[order]) for name, array in opened.items()},
    }
