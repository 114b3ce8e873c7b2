"""Which violations a person is shown: few, and not the same row again and again."""

from __future__ import annotations

import numpy as np

from naysay.arrays import Int64Array

# To choose from: enough that a row with many partners does not crowd out all others.
CANDIDATES = 2_000


def varied(left: Int64Array, right: Int64Array, n_wanted: int, *, symmetric: bool) -> tuple[Int64Array, Int64Array]:
    """Choose pairs of rows not yet shown first, then the others, in the order given.

    Where the rule is symmetric a pair that stands there both ways round is taken once, the smaller row left.
    """
    if symmetric:
        left, right = np.minimum(left, right), np.maximum(left, right)
    pairs = dict.fromkeys(zip(left.tolist(), right.tolist(), strict=True))
    seen: set[int] = set()
    fresh: list[tuple[int, int]] = []
    for pair in pairs:
        if len(fresh) == n_wanted:
            break
        if seen.isdisjoint(pair):
            fresh.append(pair)
            seen.update(pair)
    chosen = set(fresh)
    rest = [pair for pair in pairs if pair not in chosen][: n_wanted - len(fresh)]
    taken = np.array([*fresh, *rest], np.int64).reshape(-1, 2)
    return taken[:, 0].copy(), taken[:, 1].copy()
