"""Refinements by = and !=: build a hash table on one side, probe it with the other (FACET, sections 5.1 and 5.2)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from naysay.arrays import Int64Array
from naysay.kernels.joins.facet import build, probe
from naysay.papers.facet.hash_tables import GrowingTable, split
from naysay.papers.facet.predicates import Refinable
from naysay.papers.facet.rowsets import RowSet, SetPair, array_of, bitmap_of


class Equality:
    """Section 5.1: each value of the build side, with the rows of the probe side that have it; arrays of integers.

    On a reflexive pair and a single column nothing is probed, and the sets are reflexive again; with `prune` those of
    one row, which stand for no pair, are dropped.
    """

    def __init__(self, predicate: Refinable, *, build_right: bool, prune: bool) -> None:
        self._predicate = predicate
        self._build_right = build_right
        self._prune = prune

    def refine(self, pair: SetPair) -> Iterator[SetPair]:
        _, built, built_bounds, probed, probed_bounds = _build_and_probe(self._predicate, pair, self._build_right)
        if built is probed:
            least = 2 if self._prune else 1
            yield from (SetPair(rows, rows) for rows in split(built, built_bounds) if rows.size >= least)
            return
        for rows, others in zip(split(built, built_bounds), split(probed, probed_bounds), strict=True):
            if others.size:
                yield SetPair(others, rows) if self._build_right else SetPair(rows, others)

    def count(self, pair: SetPair) -> int:
        """Count the pairs without making any set: sizes are enough."""
        _, built, built_bounds, probed, probed_bounds = _build_and_probe(self._predicate, pair, self._build_right)
        sizes = np.diff(built_bounds)
        return int(np.dot(sizes, sizes - 1 if built is probed else np.diff(probed_bounds)))


class NonEquality:
    """Section 5.2: each value of the build side, with the set difference of the probe side and the rows that have it.

    The differences are bitmaps; the sets of the values are only read from here on, and stay arrays. Where right sets
    grow, their table is kept from pair to pair, and looked up instead of probed (section 5.3, optimizations).
    """

    def __init__(self, predicate: Refinable, *, build_right: bool, grows: bool) -> None:
        self._predicate = predicate
        self._build_right = build_right and not grows
        self._right = GrowingTable(predicate.right) if grows else None

    def refine(self, pair: SetPair) -> Iterator[SetPair]:
        entries = self._probe(pair) if self._right is None else self._look_up(pair, self._right)
        if entries is None:
            return
        everyone = bitmap_of(pair.left if self._build_right else pair.right)
        for rows, equal in entries:
            others = everyone - bitmap_of(equal) if len(equal) else everyone
            if others:
                yield SetPair(others, rows) if self._build_right else SetPair(rows, others)

    def _probe(self, pair: SetPair) -> Iterator[tuple[RowSet, RowSet]] | None:
        """The rows of each value on the build side, and those on the probe side; None where all are equal."""
        values, built, built_bounds, probed, probed_bounds = _build_and_probe(self._predicate, pair, self._build_right)
        if built is probed and values.size == 1:
            return None
        return zip(split(built, built_bounds), split(probed, probed_bounds), strict=True)

    def _look_up(self, pair: SetPair, right: GrowingTable) -> Iterator[tuple[RowSet, RowSet]]:
        values, grouped, bounds, _ = build(array_of(pair.left), self._predicate.left)
        table = right.of(bitmap_of(pair.right))
        return zip(split(grouped, bounds), map(table.get, values.tolist()), strict=True)


def _build_and_probe(
    predicate: Refinable, pair: SetPair, build_right: bool
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array, Int64Array]:
    """The distinct values of the build side, and for both sides the rows value by value with their bounds.

    Where both sides are the same, so are the arrays.
    """
    sides = (pair.left, predicate.left), (pair.right, predicate.right)
    (build_rows, build_codes), (probe_rows, probe_codes) = reversed(sides) if build_right else sides
    values, built, built_bounds, slots = build(array_of(build_rows), build_codes)
    if pair.reflexive and predicate.left is predicate.right:
        return values, built, built_bounds, built, built_bounds
    probed, probed_bounds = probe(array_of(probe_rows), probe_codes, values, slots)
    return values, built, built_bounds, probed, probed_bounds
