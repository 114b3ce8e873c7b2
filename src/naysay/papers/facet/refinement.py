"""Refinements at work: from pairs of row sets to those that also satisfy a predicate (FACET, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pyroaring import BitMap

from naysay.arrays import BoolArray
from naysay.papers.facet.inequalities import BHSM, HSM, IEJoin
from naysay.papers.facet.matches import Equality, NonEquality
from naysay.papers.facet.predicates import Refinable
from naysay.papers.facet.rowsets import RowSet, SetPair, bitmap_of
from naysay.papers.facet.stage import Operator, Stage, Work


class Refinement:
    """A stage at work on the pairs of sets that the stage before it makes, or on the first pair.

    With `prune` a set of one row that meets only itself may be dropped (section 5.1).
    """

    def __init__(self, stage: Stage, work: Work, *, prune: bool, before: Stage | None = None) -> None:
        self._operator = _operator(stage, work, prune, before)
        self._filters = [_Filter(predicate) for predicate in stage.predicates if predicate.can_fail_alone]
        self._work = work

    def refine(self, pair: SetPair) -> Iterator[SetPair]:
        """The pairs of sets that stand for those pairs that satisfy the stage, too; none of them empty."""
        pair = self._restrict(pair)
        if pair.empty:
            return
        for refined in self._operator.refine(pair) if self._operator else (pair,):
            self._work.spend(refined.n_words)
            yield refined

    def count(self, pair: SetPair) -> int:
        """Count the pairs that satisfy the stage, too."""
        if not isinstance(self._operator, Equality | IEJoin):
            return sum(refined.n_pairs for refined in self.refine(pair))
        pair = self._restrict(pair)
        self._work.spend(pair.n_words)
        return 0 if pair.empty else self._operator.count(pair)

    def _restrict(self, pair: SetPair) -> SetPair:
        for restriction in self._filters:
            pair = restriction.apply(pair)
        return pair


def _operator(
    stage: Stage, work: Work, prune: bool, before: Stage | None
) -> Equality | NonEquality | HSM | BHSM | IEJoin | None:
    if stage.operator is Operator.KEEP:
        return None
    if stage.operator is Operator.IEJOIN:
        first, second = stage.predicates
        return IEJoin(first, second, work)
    (predicate,) = stage.predicates
    if stage.operator is Operator.EQUAL:
        return Equality(predicate, build_right=stage.build_right, prune=prune)
    # The right sets of these two contain each the one before: what is built for them is kept (5.3, optimizations).
    grows = before is not None and before.operator in (Operator.HSM, Operator.BHSM)
    if stage.operator is Operator.DIFFERS:
        return NonEquality(predicate, build_right=stage.build_right, grows=grows)
    if stage.operator is Operator.HSM:
        return HSM(predicate.left, predicate.right, grows=grows)
    return BHSM(predicate, work.n_bins, grows=grows)


class _Filter:
    """Drops the places for which a predicate can never hold: its value is null, or fails a filter."""

    def __init__(self, predicate: Refinable) -> None:
        self._left = _bits(predicate.left_valid)
        self._right = self._left if predicate.left_valid is predicate.right_valid else _bits(predicate.right_valid)

    def apply(self, pair: SetPair) -> SetPair:
        left = _kept(pair.left, self._left)
        return SetPair(left, left if pair.reflexive and self._left is self._right else _kept(pair.right, self._right))


Mask = tuple[BoolArray, BitMap]


def _bits(valid: BoolArray | None) -> Mask | None:
    return None if valid is None else (valid, bitmap_of(np.flatnonzero(valid)))


def _kept(rows: RowSet, mask: Mask | None) -> RowSet:
    if mask is None:
        return rows
    valid, bits = mask
    return rows & bits if isinstance(rows, BitMap) else rows[valid[rows]]
