"""Order in 32 bits: codes of any range to labels that stay, with room between them for what comes later."""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int32Array, Int64Array

NULL = np.int32(-(1 << 31))

# Labels lie in [-_END, _END]; a first set of them leaves half of that free beyond either end.
_END = (1 << 31) - 2
_MIDDLE = 1 << 30
_STEP_AT_END = 1 << 10


class Labels:
    """Labels for 64-bit codes, in their order. `version` changes where labels given out before are void.

    Codes that lie close together are their own labels, less a base; others are kept in order, and a new one gets a
    label between its neighbours. Where there is no room left all labels are given out anew.
    """

    def __init__(self) -> None:
        self.version = 0
        self._base: int | None = None
        self._spread = False
        self._codes = np.empty(0, np.int64)
        self._labels = np.empty(0, np.int64)

    def label(self, codes: Int64Array) -> Int32Array:
        """The label of each code. O(n) for close codes, else a binary search for each and a copy of what is known."""
        if not codes.size:
            return np.empty(0, np.int32)
        if not self._spread:
            low, high = int(codes.min()), int(codes.max())
            if self._base is None and high - low < _MIDDLE:
                self._base = low + (high - low) // 2
            if self._base is not None and low - self._base >= -_END and high - self._base <= _END:
                return (codes - self._base).astype(np.int32)
            self.version += self._base is not None
            self._spread = True
        fresh = np.unique(codes)
        if self._codes.size:
            at = np.minimum(np.searchsorted(self._codes, fresh), self._codes.size - 1)
            fresh = fresh[self._codes[at] != fresh]
        if fresh.size:
            self._enter(fresh)
        return self._labels[np.searchsorted(self._codes, codes)].astype(np.int32)

    def _enter(self, fresh: Int64Array) -> None:
        """Give labels to new codes, ascending and distinct."""
        at = np.searchsorted(self._codes, fresh)
        labels = self._between(at) if self._codes.size else None
        known = self._codes.size > 0
        self._codes = np.insert(self._codes, at, fresh)
        if labels is not None:
            self._labels = np.insert(self._labels, at, labels)
            return
        self.version += known
        places = np.arange(1, self._codes.size + 1, dtype=np.int64)
        self._labels = -_MIDDLE + places * (2 * _MIDDLE // (self._codes.size + 1))

    def _between(self, at: Int64Array) -> Int64Array | None:
        """Labels for codes that go before the known ones at `at`, ascending; None where some gap has no room."""
        _, first, n_here = np.unique(at, return_index=True, return_counts=True)
        start, count = np.repeat(first, n_here), np.repeat(n_here, n_here)
        number = np.arange(at.size) - start
        before, after = at == 0, at == self._labels.size
        low = np.where(before, -_END, self._labels[np.maximum(at - 1, 0)])
        high = np.where(after, _END, self._labels[np.minimum(at, self._labels.size - 1)])
        step = (high - low) // (count + 1)
        if (step < 1).any():
            return None
        step = np.where(before | after, np.minimum(step, _STEP_AT_END), step)
        labels: Int64Array = np.where(before, high - step * (count - number), low + step * (number + 1))
        return labels
