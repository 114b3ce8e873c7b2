"""How much memory work in this process takes, and the refusal of what would not fit.

The memory allowed is that of the whole process, as whoever watches it sees it: libraries, compiled code, the table and
the work. The numbers are bytes, measured by `scripts/soak memory`, and rather too high than too low.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from naysay.errors import ResourceError
from naysay.plan.join import Join
from naysay.table.kind import Kind

# What is still to come when work begins: libraries and compiled code that were not needed yet, or the compiler alone.
_LOADING, _COMPILING = 180 << 20, 64 << 20
# A column in codes, by row: text has a dictionary, and the hash table that made it.
_COLUMN, _TEXT_COLUMN, _ENCODING_TEXT = 18, 40, 24
# What a check of a rule takes by row, beside 24 bytes for each column that its pairs are compared in.
_A_FEATURE = 24
_A_ROW = {"filter": 24, "key": 72, "dependency": 72, "one order": 112, "two orders": 240}
_A_HARD_ROW = 192
# Of a rule that compares different columns both sides have their own rows.
_TWO_SIDES = 1.5
# What a rule leaves behind for others: its key, its sorted order.
_SHARED = 56


@dataclass(frozen=True, slots=True)
class Way:
    """How to work so that it fits: on how many threads, and whether rules share what they have in common."""

    n_threads: int
    shares: bool


def process_bytes() -> int:
    """The memory that this process holds now."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        # Where the system does not tell: the most that the process ever held.
        highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return highest if sys.platform == "darwin" else highest * 1024


def fitting_way(allowed: int, n_threads: int, joins: Sequence[Join], to_encode: Sequence[Kind], n_rows: int) -> Way:
    """The fastest way that fits into the memory allowed beside what the process holds already; or a refusal.

    `to_encode`: the kinds of the columns that still are to be encoded.
    """
    # What reading the table needed and gave back is not ours to count.
    pa.default_memory_pool().release_unused()
    held, needed = process_bytes(), 0
    for way in (Way(n_threads, True), Way(1, True), Way(1, False)):
        needed = held + still_to_load() + n_rows * bytes_a_row(joins, to_encode, way)
        if needed <= allowed:
            return way
    raise too_much(needed, allowed, f"the process holds {held >> 20:,} MiB already, the table among it")


def still_to_load() -> int:
    """The memory for libraries and compiled code that were not needed so far."""
    return _COMPILING if "numba" in sys.modules else _LOADING


def too_much(needed: int, allowed: int, because: str) -> ResourceError:
    return ResourceError(
        f"this needs about {needed >> 20:,} MiB in all ({because}), more than the {allowed >> 20:,} MiB allowed; "
        "allow more memory, check fewer rules at once, or use the Spark engine"
    )


def bytes_a_row(joins: Sequence[Join], to_encode: Sequence[Kind], way: Way) -> int:
    """The memory by row for checking rules: encoded columns, what is shared, and the rules at work at the same time."""
    encoded = sum(_TEXT_COLUMN if kind is Kind.TEXT else _COLUMN for kind in to_encode)
    at_work = sorted((rule_bytes_a_row(join) for join in joins), reverse=True)[: way.n_threads]
    shared = _SHARED * len(joins) if way.shares and len(joins) > 1 else 0
    return encoded + shared + max(sum(at_work), _ENCODING_TEXT)


def rule_bytes_a_row(join: Join) -> int:
    """The memory by row for one rule, beside its encoded columns."""
    n_orders, n_differs = len(join.order), len(join.differs)
    if join.one_row:
        name = "filter"
    elif n_differs:
        name = "dependency" if (n_differs, n_orders) == (1, 0) else "hard"
    else:
        name = ("key", "one order", "two orders")[n_orders] if n_orders < 3 else "hard"
    two_sides = not join.one_row and not join.is_mirror
    a_row = _A_ROW.get(name, _A_HARD_ROW) * (_TWO_SIDES if two_sides else 1)
    return int(a_row) + _A_FEATURE * (1 + n_orders + n_differs)
