"""What every way of keeping rules current does, and the one that keeps all evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from naysay.arrays import Int64Array, UInt64Array
from naysay.discovery.approximate import allowed_pairs
from naysay.discovery.device import Device
from naysay.discovery.outcomes import Layout
from naysay.discovery.problem import Answer
from naysay.discovery.result import Rules
from naysay.discovery.vertices import Vertices
from naysay.evolve.counted import (
    Arrays,
    Counted,
    Limits,
    advanced,
    change_arrays,
    count_all,
    kept_after,
    of_evidence,
    shown_rules,
    whole_arrays,
)
from naysay.evolve.covers import Search, missing
from naysay.evolve.delta import NOBODY, Seen, see, together, turned
from naysay.evolve.edges import edge_of_each
from naysay.evolve.relation import Batch, Relation, Sides
from naysay.evolve.settings import Settings


@dataclass(frozen=True, slots=True)
class Broken:
    """For each of some covers: two rows that break its rule, by serial number, or -1; and how many pairs do."""

    left: Int64Array
    right: Int64Array
    counts: Int64Array | None = None


class Step(Protocol):
    """What a batch would do. Nothing has changed yet. `arrays` is what a store keeps of it."""

    @property
    def rules(self) -> Rules: ...
    @property
    def covers(self) -> UInt64Array: ...
    def broken(self, covers: UInt64Array) -> Broken: ...
    def arrays(self) -> Arrays: ...


class Method(Protocol):
    """Keeps the rules of a relation current. `arrays` is everything that a store keeps of it."""

    name: str

    @property
    def rules(self) -> Rules: ...
    def advance(self, batch: Batch) -> Step: ...
    def adopt(self, step: Step) -> None: ...
    def answer(self) -> Answer: ...
    def arrays(self) -> Arrays: ...


@dataclass(frozen=True, slots=True)
class CountedStep:
    rules: Rules
    before: Counted
    counted: Counted
    came: Seen
    # For each of some covers a pair of rows that breaks its rule; such pairs there are.
    find: Callable[[UInt64Array], tuple[Int64Array, Int64Array]]

    @property
    def covers(self) -> UInt64Array:
        return self.counted.covers

    def arrays(self) -> Arrays:
        return change_arrays(self.before, self.counted)

    def broken(self, covers: UInt64Array) -> Broken:
        found = pairs_breaking(covers, self.came, self.counted.shape, self.counted.vertices)
        if not self.counted.most and not self.before.most:
            return found
        from naysay.kernels.covers.missed import count_missed

        counts = count_missed(self.counted.edges, self.counted.counts, covers, np.iinfo(np.int64).max)
        over = counts > self.counted.most
        unknown = over & (found.left == NOBODY)
        if unknown.any():
            found.left[unknown], found.right[unknown] = self.find(covers[unknown])
        found.left[~over] = found.right[~over] = NOBODY
        return Broken(found.left, found.right, counts)


def pairs_among(rows: Sides, counted: Counted, n_threads: int, covers: UInt64Array) -> tuple[Int64Array, Int64Array]:
    """Look among all rows, a few at a time, for pairs that break rules; until there is one for each."""
    left, right = np.full(len(covers), NOBODY, np.int64), np.full(len(covers), NOBODY, np.int64)
    for start in range(0, rows.n_rows, 256):
        stop = min(rows.n_rows, start + 256)
        blocks = [(start, stop, start, stop, 1), (start, stop, stop, rows.n_rows, 0)]
        half = see(rows, rows, blocks, counted.layout, n_threads)
        both = together([half, turned(half, counted.layout)], counted.layout)
        todo = np.flatnonzero(left == NOBODY)
        here = pairs_breaking(np.ascontiguousarray(covers[todo]), both, counted.shape, counted.vertices)
        left[todo], right[todo] = here.left, here.right
        if (left != NOBODY).all():
            break
    return left, right


def pairs_breaking(covers: UInt64Array, seen: Seen, shape: Layout, vertices: Vertices) -> Broken:
    """For each cover a pair among those seen that breaks its rule."""
    left, right = np.full(len(covers), NOBODY, np.int64), np.full(len(covers), NOBODY, np.int64)
    if len(covers) and len(seen):
        edges = edge_of_each(seen.codes, shape, vertices)
        missed = missing(covers, edges, Search(vertices, None, 1))
        hit = missed >= 0
        left[hit], right[hit] = seen.pairs(missed[hit])
    return Broken(left, right)


class Counting:
    """All pairs with their multiplicities."""

    name = "all-pairs"

    def __init__(
        self,
        relation: Relation,
        settings: Settings,
        n_threads: int,
        counted: Counted | None = None,
        *,
        device: Device = Device.CPU,
    ) -> None:
        self._relation = relation
        self._settings = settings
        self._n_threads = n_threads
        self._device = device
        self.counted = counted or count_all(relation, self._limits(relation.n_rows))
        self._rules = self._shown(self.counted)

    @property
    def rules(self) -> Rules:
        return self._rules

    def advance(self, batch: Batch) -> CountedStep:
        n_after = batch.stay.n_rows + batch.fresh.n_rows
        counted, came = advanced(self.counted, self._relation, batch, self._limits(n_after))

        def find(covers: UInt64Array) -> tuple[Int64Array, Int64Array]:
            return pairs_among(batch.after(), counted, self._n_threads, covers)

        return CountedStep(self._shown(counted), self.counted, counted, came, find)

    def adopt(self, step: Step) -> None:
        assert isinstance(step, CountedStep)
        self.counted, self._rules = step.counted, step.rules

    def answer(self) -> Answer:
        counted = self.counted
        return Answer(self._rules.covers, False, counted.edges, counted.counts)

    def arrays(self) -> Arrays:
        return whole_arrays(self.counted)

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
    ) -> Counting:
        """From what a store kept."""
        evidence, covers = kept_after(whole, changes)
        most = allowed_pairs(settings.error, evidence.n_pairs)
        counted = of_evidence(evidence, covers, relation.fields, relation.with_null, relation.n_rows, most)
        return cls(relation, settings, n_threads, counted, device=device)

    def _limits(self, n_rows: int) -> Limits:
        most = allowed_pairs(self._settings.error, n_rows * (n_rows - 1))
        return Limits(most, self._settings.max_predicates, self._n_threads, self._device)

    def _shown(self, counted: Counted) -> Rules:
        return shown_rules(counted, self._relation.fields, self._settings.max_predicates, self._settings.error)
