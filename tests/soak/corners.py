"""Corner cases of kernels: block boundaries, codes of all widths, counts beyond 32 bits, equal or distinct keys.

A case is a bound join with a known answer: by brute force for small ones, by arithmetic for large ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from naysay.arrays import MAX_CODES
from naysay.detect import partners as partners_module
from naysay.detect import violations as violations_module
from naysay.detect.partners import partners, total_of
from naysay.detect.violations import conflict_rows, count, verify, violations
from naysay.errors import CountOverflow
from naysay.kernels.joins.compare import BLOCK_ROWS
from naysay.kernels.sort import sorted_places
from naysay.kernels.trees.zones import LEAF_ROWS
from naysay.plan.bind import BoundJoin, NoMemo, Side, combine
from soak.row import FINE, Outcome

_EDGES = (1, LEAF_ROWS, 2 * LEAF_ROWS, 31, 63, 64, 127, 128, 1023, 1024, 2047, 2048)
_BITS = (1, 10, 11, 12, 21, 22, 23, 31, 32, 33, 59, 60, 61)


def trial(seed: int) -> Outcome:
    """One corner, chosen by the seed."""
    rng = np.random.default_rng(seed)
    fault = CORNERS[seed % len(CORNERS)](rng)
    return Outcome(failure=f"{CORNERS[seed % len(CORNERS)].__name__}: {fault}") if fault else FINE


def block_edges(rng: np.random.Generator) -> str:
    """One row fewer than, exactly as many as, and one more than fit in a block, a leaf, a digit or a word."""
    n_rows = int(rng.choice(_EDGES)) + int(rng.integers(-1, 2))
    return _small(rng, n_rows, int(rng.choice((2, 50, 10**9))))


def code_widths(rng: np.random.Generator) -> str:
    """Codes of 1 to 61 bits, at both ends of their range."""
    return _small(rng, int(rng.integers(2, 300)), 1 << int(rng.choice(_BITS)))


def key_widths(rng: np.random.Generator) -> str:
    """Composite keys whose ranges together need 63, 64, 65 bits and more."""
    n_rows, n_columns = 200, int(rng.integers(2, 6))
    ranges = [1 << int(rng.choice((12, 13, 20, 31, 32, 33, 60, 61))) for _ in range(n_columns)]
    values = [rng.choice([0, 1, n - 1, n // 2], n_rows) for n in ranges]
    values = [np.minimum(column, n - 1).astype(np.int64) for column, n in zip(values, ranges, strict=True)]
    parts = [(column, column, n) for column, n in zip(values, ranges, strict=True)]
    left, right, n_keys = combine(parts, n_rows, NoMemo())
    same = np.ones((n_rows, n_rows), np.bool_)
    for column in values:
        same &= column[:, None] == column[None, :]
    if left is not right or n_keys > MAX_CODES or left.max(initial=0) >= n_keys or left.min(initial=0) < 0:
        return f"keys beyond their range {n_keys}"
    return "" if np.array_equal(left[:, None] == left[None, :], same) else f"keys of ranges {ranges} collide"


def all_equal(rng: np.random.Generator) -> str:
    """Every pair breaks the rule: counts beyond 32 bits by arithmetic."""
    n_rows = int(rng.integers(66_000, 200_000))
    side = Side(np.arange(n_rows), np.full(n_rows, 5), (), ())
    bound = BoundJoin(side, side, 6, (), True, True, True)
    listed = violations(bound, 7)
    answers = count(bound), int(partners(bound).sum()), len(listed.left), listed.complete
    wanted = n_rows * (n_rows - 1), n_rows * (n_rows - 1), 7, False
    return "" if answers == wanted else f"{answers}, not {wanted}"


def all_distinct(rng: np.random.Generator) -> str:
    """No two rows agree."""
    n_rows = int(rng.integers(2, 100_000))
    key = rng.permutation(n_rows) * int(rng.integers(1, MAX_CODES // n_rows))
    side = Side(np.arange(n_rows), key, (), ())
    bound = BoundJoin(side, side, int(key.max()) + 1, (), True, True, True)
    answers = count(bound), verify(bound), len(violations(bound, None).left), conflict_rows(bound).size
    return "" if answers == (0, None, 0, 0) else f"{answers}"


def ordered_whole(rng: np.random.Generator) -> str:
    """One group in which all orders ascend together: n (n - 1) / 2 pairs, beyond 32 bits, in one to five orders."""
    n_rows, n_orders = int(rng.integers(93_000, 140_000)), int(rng.integers(1, 6))
    places = rng.permutation(n_rows)
    side = Side(np.arange(n_rows), np.zeros(n_rows, np.int64), tuple(places * k for k in range(1, n_orders + 1)), ())
    total = count(BoundJoin(side, side, 1, (), False, True, False))
    wanted = n_rows * (n_rows - 1) // 2
    return "" if total == wanted else f"{n_orders} orders: {total}, not {wanted}"


def sort_widths(rng: np.random.Generator) -> str:
    """Sorting by two columns whose ranges together need 31, 32, 33, 63, 64, 65 bits and more."""
    n_rows = int(rng.integers(0, 3_000))
    columns = []
    for _ in range(2):
        bits = int(rng.choice((0, 1, 10, 11, 12, 30, 31, 32, 33, 53, 62, 63)))
        low, high = (0, 0) if bits == 0 else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        columns.append(rng.integers(low, high, n_rows, endpoint=True))
    return "" if np.array_equal(sorted_places(*columns), np.lexsort(columns[::-1])) else "not sorted, or not stably"


def beyond_64_bits(rng: np.random.Generator) -> str:
    """Sums of partners around 2^63: exact below it, CountOverflow from there on."""
    n_rows = int(rng.integers(2, 50))
    counts = rng.integers(0, 1 << 62, n_rows)
    wanted = sum(int(number) for number in counts)
    try:
        found: int | str = total_of(counts)
    except CountOverflow:
        found = "overflow"
    if found != (wanted if wanted < 1 << 63 else "overflow"):
        return f"{found}, not {wanted}"
    # The same through a complete count, with a lower limit than 64 bits.
    kept = partners_module.MAX_COUNT
    side = Side(np.arange(n_rows), np.zeros(n_rows, np.int64), (np.arange(n_rows),), ())
    bound = BoundJoin(side, side, 1, (), False, True, False)
    total, missing = n_rows * (n_rows - 1) // 2, int(rng.integers(0, 2))
    partners_module.MAX_COUNT = violations_module.MAX_COUNT = total - missing
    try:
        found = count(bound)
    except CountOverflow:
        found = "overflow"
    finally:
        partners_module.MAX_COUNT = violations_module.MAX_COUNT = kept
    return "" if found == ("overflow" if missing else total) else f"{found} of {n_rows} rows, {missing} too few"


def bit_blocks(rng: np.random.Generator) -> str:
    """Groups at the boundary of a block of bits, with many predicates."""
    n_rows = BLOCK_ROWS + int(rng.integers(-1, 2)) if rng.random() < 0.3 else int(rng.integers(1, 200))
    n_orders, n_differs = int(rng.integers(0, 5)), int(rng.integers(3, 8))
    side = Side(
        np.arange(n_rows),
        np.zeros(n_rows, np.int64),
        tuple(rng.integers(-5, int(rng.choice((6, 1_000))), n_rows) for _ in range(n_orders)),
        tuple(rng.integers(0, int(rng.choice((2, 3, 7, 500))), n_rows) for _ in range(n_differs)),
    )
    bound = BoundJoin(side, side, 1, (500,) * n_differs, False, True, False)
    found = partners(bound)
    for place in rng.integers(0, n_rows, 40):
        holds = np.ones(n_rows, np.bool_)
        for codes in side.order:
            holds &= codes[place] < codes
        for codes in side.differs:
            holds &= codes[place] != codes
        if found[place] != holds.sum():
            return f"{n_rows} rows: {found[place]} partners of {place}, not {holds.sum()}"
    return ""


CORNERS: tuple[Callable[[np.random.Generator], str], ...] = (
    block_edges,
    code_widths,
    key_widths,
    all_equal,
    all_distinct,
    ordered_whole,
    sort_widths,
    beyond_64_bits,
    bit_blocks,
)


def _small(rng: np.random.Generator, n_rows: int, n_codes: int) -> str:
    """Two random sides of any shape, compared with brute force."""
    n_orders, n_differs = int(rng.integers(0, 5)), int(rng.integers(0, 4))
    n_keys = int(rng.choice((1, 3, max(n_rows, 1))))
    few = rng.integers(0, n_codes, 1 + int(rng.integers(1, 30)))

    def codes(n: int) -> np.ndarray:
        return rng.choice(np.concatenate((few, [0, n_codes - 1])), n)

    def side(first: int, n: int) -> Side:
        rows = np.arange(first, first + n)
        orders = tuple(codes(n) * int(rng.choice((-1, 1))) for _ in range(n_orders))
        return Side(rows, rng.integers(0, n_keys, n), orders, tuple(codes(n) for _ in range(n_differs)))

    left = side(0, max(n_rows, 0))
    right = side(left.n_rows, int(rng.choice((1, 17, max(n_rows, 0)))))
    return _compared(BoundJoin(left, right, n_keys, (n_codes,) * n_differs, False, False, False))


def _compared(bound: BoundJoin) -> str:
    left, right = bound.left, bound.right
    holds = left.key[:, None] == right.key[None, :]
    for one, other in zip(left.order, right.order, strict=True):
        holds &= one[:, None] < other[None, :]
    for one, other in zip(left.differs, right.differs, strict=True):
        holds &= one[:, None] != other[None, :]
    if not np.array_equal(partners(bound), holds.sum(axis=1)):
        return f"partners of {left.n_rows} and {right.n_rows} rows"
    if count(bound) != holds.sum():
        return f"count of {left.n_rows} and {right.n_rows} rows"
    if not np.array_equal(partners(bound.swapped()), holds.sum(axis=0)):
        return f"partners of the right rows, {left.n_rows} and {right.n_rows}"
    witness = verify(bound)
    if (witness is None) == bool(holds.any()) or (witness and not holds[witness[0], witness[1] - left.n_rows]):
        return f"witness {witness}"
    if holds.sum() < 20_000:
        listed = violations(replace(bound), None)
        pairs = sorted(zip(listed.left.tolist(), (listed.right - left.n_rows).tolist(), strict=True))
        if pairs != [tuple(pair) for pair in np.argwhere(holds).tolist()]:
            return "pairs"
    return ""
