"""Rules with many predicates: the time they take, compared with the estimate of `naysay.plan.cost`; and the time to
build the trees of a search by blocks, compared with its estimate.

python benchmarks/cost.py [NAME ...]
"""

from __future__ import annotations

import itertools
import sys
import time

import numpy as np

from naysay.detect.blocks import BlockSearch, build_seconds
from naysay.detect.differing import prepare
from naysay.detect.partners import partners
from naysay.plan.bind import BoundJoin, Side

MIXED = (2, 2, 2, 50, 300, 5_000, 8_000, 20_000, 100, 30, 200_000, 1_000)
WIDE = 100_000
KEYS = (1, 50, 2_000)

# Rows, keys, distinct values of each order, distinct values of each column that must differ.
CASES: dict[str, tuple[int, int, tuple[int, ...], tuple[int, ...]]] = {
    "12 differs, mixed, keys": (200_000, 50, (), MIXED),
    "12 differs, mixed": (200_000, 1, (), MIXED),
    "12 differs, mixed, keys, 1M": (1_000_000, 50, (), MIXED),
    "12 differs, mixed, 1M": (1_000_000, 1, (), MIXED),
    "12 differs of 2": (200_000, 1, (), (2,) * 12),
    "12 differs of 4": (200_000, 1, (), (4,) * 12),
    "12 differs of 30": (200_000, 1, (), (30,) * 12),
    "32 differs of 4": (200_000, 1, (), (4,) * 32),
    "1 order, 6 differs": (200_000, 50, (WIDE,), MIXED[1:7]),
    "2 orders, 6 differs": (200_000, 50, (WIDE,) * 2, MIXED[1:7]),
    "3 orders, 4 differs": (100_000, 50, (WIDE,) * 3, MIXED[1:5]),
    "6 orders, 20 differs of 4": (200_000, 1, (1_000,) * 6, (4,) * 20),
    "3 orders": (100_000, 1, (WIDE,) * 3, ()),
    "4 orders": (50_000, 1, (WIDE,) * 4, ()),
    "6 orders": (300_000, 1, (WIDE,) * 6, ()),
}


def bound_of(n_rows: int, n_keys: int, orders: tuple[int, ...], differs: tuple[int, ...]) -> BoundJoin:
    rng = np.random.default_rng(n_rows)
    side = Side(
        np.arange(n_rows),
        rng.integers(0, n_keys, n_rows),
        tuple(rng.integers(0, n, n_rows) for n in orders),
        tuple(rng.integers(0, n, n_rows) for n in differs),
    )
    return BoundJoin(side, side, n_keys, differs, False, True, False)


def main() -> None:
    for n_orders in (0, 3):
        partners(bound_of(2_000, 3, (9,) * n_orders, (3,) * 4))
        partners(bound_of(100_000, 1, (90_000,) * n_orders, (3,)))
    for name, case in CASES.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        bound = bound_of(*case)
        expected = prepare(bound).seconds
        start = time.process_time()
        partners(bound)
        seconds = time.process_time() - start
        report(name, seconds, expected)
    for n_rows, n_keys, n_orders in (
        () if sys.argv[1:] else itertools.product((20_000, 100_000, 1_000_000), KEYS, (3, 5))
    ):
        report(f"build, {n_rows} rows, {n_keys} keys, {n_orders} orders", *building(n_rows, n_keys, n_orders))


def building(n_rows: int, n_keys: int, n_orders: int) -> tuple[float, float]:
    """The time to build the trees of a search by blocks, and the estimate."""
    bound = bound_of(n_rows, n_keys, (n_rows,) * n_orders, ())
    times = []
    for _ in range(3):
        start = time.process_time()
        BlockSearch(bound)
        times.append(time.process_time() - start)
    return min(times), build_seconds(bound, n_rows / n_keys)


def report(name: str, seconds: float, expected: float) -> None:
    print(f"{name:45} {seconds:8.4f} s, expected {expected:8.4f} s, {seconds / expected:5.2f}", flush=True)


if __name__ == "__main__":
    main()
