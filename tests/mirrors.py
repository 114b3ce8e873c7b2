"""Rules that compare the same columns of two rows, with all kinds of filters, and small tables to break them."""

from __future__ import annotations

import itertools
import random

import pyarrow as pa

SHAPES = {
    "key": "t.a == s.a",
    "no key": "",
    "dependency": "t.a == s.a and t.b != s.b",
    "differs": "t.b != s.b",
    "order": "t.a == s.a and t.b < s.b",
    "weak order": "t.a == s.a and t.b >= s.b",
    "two orders": "t.a == s.a and t.b < s.b and t.c > s.c",
    "weak orders": "t.b <= s.b and t.c >= s.c",
}
# Filters, and whether each row of a violation always passes both of them (None: it depends on the shape).
FILTERS = {
    "equal": ("t.f == 'x' and s.f == 'x'", True),
    "equal numbers": ("t.c == 1 and s.c == 1.0", True),
    "redundant": ("t.c > 0 and t.c >= 0 and s.c > 0", True),
    "turned": ("t.b < t.c and s.c > s.b", True),
    "by equality": ("t.f == s.f and t.f == 'x'", True),
    "by order": ("t.b >= 1 and t.b <= s.b", True),
    "one row": ("t.f == 'x'", False),
    "different": ("t.f == 'x' and s.f == 'y'", False),
    "weaker": ("t.c > 0 and s.c >= 0", False),
    "by a key": ("t.a != 1", None),
}


def rules() -> dict[tuple[str, str], str]:
    """Each shape with each filter, as text."""
    return {
        (shape, name): f"not({' and '.join(part for part in (compared, filters) if part)})"
        for (shape, compared), (name, (filters, _)) in itertools.product(SHAPES.items(), FILTERS.items())
        if compared or "s." in filters
    }


def is_mirror(shape: str, name: str) -> bool:
    """Whether the two rows are interchangeable, according to the names above."""
    known = FILTERS[name][1]
    return "t.a == s.a" in SHAPES[shape] if known is None else known


def table(seed: int, n_rows: int = 11) -> pa.Table:
    rng = random.Random(seed)

    def values(choices: list[object]) -> list[object]:
        return [rng.choice(choices) for _ in range(n_rows)]

    return pa.table(
        {
            "a": pa.array(values([1, 2, 2, None]), pa.int64()),
            "b": pa.array(values([0, 1, 2, 3, None]), pa.int64()),
            "c": pa.array(values([-1, 0, 1, 2]), pa.int64()),
            "f": pa.array(values(["x", "x", "y", None]), pa.string()),
        }
    )
