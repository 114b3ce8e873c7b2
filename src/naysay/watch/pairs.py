"""The standing violations of a rule: what was added and removed since, brought together when somebody asks."""

from __future__ import annotations

import numpy as np

from naysay.arrays import BoolArray
from naysay.watch.batch import NO_PAIRS, Pairs, joined


class PairLog:
    """A set of pairs under additions of pairs not in it and removals of pairs in it.

    Both only append; the set is made up when it is asked for, and now and then, so that the log stays in proportion.
    Amortised O(log n) a pair.
    """

    def __init__(self) -> None:
        self.count = 0
        self._settled = NO_PAIRS
        self._added: list[Pairs] = []
        self._removed: list[Pairs] = []
        self._n_logged = 0

    def apply(self, removed: Pairs, added: Pairs) -> None:
        if len(removed):
            self._removed.append(removed)
        if len(added):
            self._added.append(added)
        self.count += len(added) - len(removed)
        self._n_logged += len(removed) + len(added)
        if len(self._added) + len(self._removed) > 1024 or self._n_logged > 1_000_000 + len(self._settled):
            self.pairs()

    def shift(self, by: int) -> None:
        """Where pairs are counted and not kept: the number has grown by so many."""
        self.count += by

    def pairs(self) -> Pairs:
        """The set, ascending by left and right."""
        if self._added or self._removed:
            every, gone = joined((self._settled, *self._added)), joined(self._removed)
            self._settled = _net(every, gone)
            self._added, self._removed, self._n_logged = [], [], 0
        return self._settled


def net_change(removed: Pairs, added: Pairs) -> tuple[Pairs, Pairs]:
    """Both without what stands in both: a violation that goes and comes back did not change."""
    if not len(removed) or not len(added):
        return removed, added
    first, second = in_both(removed, added)
    return Pairs(removed.left[~first], removed.right[~first]), Pairs(added.left[~second], added.right[~second])


def in_both(first: Pairs, second: Pairs) -> tuple[BoolArray, BoolArray]:
    """Which pairs of either set are in the other one. No pair stands twice in one of them."""
    every = joined((first, second))
    order = np.lexsort((every.right, every.left))
    left, right = every.left[order], every.right[order]
    twice = np.zeros(len(order), np.bool_)
    same = (left[1:] == left[:-1]) & (right[1:] == right[:-1])
    twice[1:] |= same
    twice[:-1] |= same
    found = np.empty(len(order), np.bool_)
    found[order] = twice
    return found[: len(first)], found[len(first) :]


def _net(every: Pairs, gone: Pairs) -> Pairs:
    """Pairs that were added once more than removed, in order."""
    left, right = np.concatenate((every.left, gone.left)), np.concatenate((every.right, gone.right))
    sign = np.concatenate((np.ones(len(every), np.int64), np.full(len(gone), -1, np.int64)))
    order = np.lexsort((right, left))
    left, right, sign = left[order], right[order], sign[order]
    if len(left) == 0:
        return NO_PAIRS
    starts = np.flatnonzero(np.concatenate(([True], (left[1:] != left[:-1]) | (right[1:] != right[:-1]))))
    kept = starts[np.add.reduceat(sign, starts) > 0]
    return Pairs(left[kept], right[kept])
