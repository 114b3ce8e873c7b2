"""What a check will cost: the time to find the partners of all rows, from how often rows agree, and the memory."""

from __future__ import annotations

import ctypes
import math
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from naysay.errors import ResourceError
from naysay.plan.join import Join
from naysay.table.column import Kind

# Arrays of fewer rows leave no gaps worth the time: at a million rows, a tenth of a discovery for hardly any memory.
_LARGE_ROWS = 2_000_000

# All costs are nanoseconds on one core, measured by benchmarks/cost.py; per row of both sides unless stated otherwise.
# To sort rows into groups, by a key of one more column.
_GROUP = 90.0
# To count the partners in no, one and two orders; in more, this times log2(rows)^(orders - 1).
_COUNT = (25.0, 120.0, 250.0)
_DIVIDE = (9.0, 1.45, 0.17, 0.0155)
# To compare all with all: for each right row and predicate; for each left row and block, for each of its orders and
# differs, and for the words of a predicate in a full block.
_FILL, _START, _LOOK_ORDER, _LOOK_DIFFERS, _WORDS = 20.0, 60.0, 45.0, 8.0, 22.0
_BLOCK_ROWS = 4096.0


@dataclass(frozen=True, slots=True)
class Agreement:
    """The rows on both sides, the pairs with equal keys, and how many values each of the differs seems to have.

    A column seems to have v values if one in v of the pairs with equal keys agrees in it: as many as it would have if
    all were equally frequent.
    """

    n_left: int
    n_right: int
    n_pairs: int
    values: tuple[float, ...]

    @property
    def n_rows(self) -> int:
        return self.n_left + self.n_right

    @property
    def group_rows(self) -> float:
        """The rows on each side of the group that a row is typically in."""
        return 2.0 * self.n_pairs / max(self.n_rows, 1)


def partners_seconds(shape: Agreement, n_orders: int) -> float:
    """The time for the partners of all rows, differs in ascending order of their values."""
    return 1e-9 * shape.n_rows * _Recurrence(shape.values, n_orders).cost(shape.group_rows, len(shape.values))


def compare_limit(shape: Agreement, n_differs: int, n_orders: int) -> float:
    """Groups of c left and d right rows are best compared all with all while c * d / (c + d) is at most this."""
    recurrence = _Recurrence(shape.values, n_orders)
    rows = 32.0
    while rows < 2.0**40 and recurrence.compared(2 * rows, n_differs) < recurrence.divided(2 * rows, n_differs):
        rows *= 2
    return rows / 2


class _Recurrence:
    """The cost of a group by its size and the number of columns still to differ in.

    A group is compared all with all, or it is counted whole and then once for each of its columns, in groups that are
    smaller by the number of values in the column. Sizes are rounded to half powers of two.
    """

    def __init__(self, values: tuple[float, ...], n_orders: int) -> None:
        self._values = values
        self._n_orders = n_orders
        self._known: dict[tuple[int, int], float] = {}

    def cost(self, rows: float, n_differs: int) -> float:
        """The cost of groups of `rows` rows on each side."""
        compared = self.compared(rows, n_differs)
        return _GROUP + (compared if rows <= 64 else min(compared, self.divided(rows, n_differs)))

    def compared(self, rows: float, n_differs: int) -> float:
        """The cost of a group compared all with all."""
        n_predicates = self._n_orders + n_differs
        full = min(rows / _BLOCK_ROWS, 1.0)
        per_block = _START + self._n_orders * _LOOK_ORDER + n_differs * _LOOK_DIFFERS + n_predicates * _WORDS * full
        return (n_predicates * _FILL + math.ceil(rows / _BLOCK_ROWS) * per_block) / 2

    def divided(self, rows: float, n_differs: int) -> float:
        """The cost of a group that is not compared all with all."""
        size = round(2 * math.log2(max(rows, 1.0)))
        if (size, n_differs) not in self._known:
            rows = 2.0 ** (size / 2)
            below = (self.cost(rows / self._values[which], which) for which in range(n_differs))
            self._known[size, n_differs] = _count(self._n_orders, rows) + sum(below)
        return self._known[size, n_differs]


def _count(n_orders: int, group_rows: float) -> float:
    """The cost of the partners in all orders, in groups of `group_rows` rows on each side."""
    if n_orders < len(_COUNT):
        return _COUNT[n_orders]
    last = len(_DIVIDE) - 1
    factor = _DIVIDE[min(n_orders - 3, last)] * 0.09 ** max(n_orders - 3 - last, 0)
    return _COUNT[-1] + factor * max(math.log2(max(group_rows, 2.0)), 1.0) ** (n_orders - 1)


# What is loaded only when work begins: libraries and compiled code that were not needed yet, or only the compiler.
_LOADING, _COMPILING = 180 << 20, 64 << 20
# A column in codes, per row: text has a dictionary, and the hash table that made it.
_COLUMN, _TEXT_COLUMN, _ENCODING_TEXT = 18, 40, 24
# What a check of a rule takes per row, and in addition for each column that its pairs are compared in.
_PER_FEATURE = 24
_PER_ROW = {"filter": 24, "key": 72, "dependency": 72, "one order": 112, "two orders": 240}
_PER_HARD_ROW = 192
# If a rule compares different columns, each side has its own rows.
_TWO_SIDES = 1.5
# What a rule keeps for others: its key, its sorted order.
_SHARED = 56


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """How to check rules within the memory: on how many threads, and whether rules share what they have in common."""

    n_threads: int
    shares: bool


def process_bytes() -> int:
    """The memory that this process uses now."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        # If the system does not say: the most that the process ever used.
        highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return highest if sys.platform == "darwin" else highest * 1024


def release_freed_memory(n_rows: int) -> None:
    """Give memory back to the system that was freed after work on many rows, if the C library can.

    It keeps much of it otherwise, in pieces that what comes next does not fit into. Takes about a millisecond.
    """
    if n_rows >= _LARGE_ROWS and _malloc_trim is not None:
        _malloc_trim(0)


_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None


def available_bytes(root: Path = Path("/")) -> int | None:
    """The memory that this process may still take: what the machine has left, or a control group of a container.

    None if the system does not say. `root` is where /proc and /sys are.
    """
    machine = _numbers_in(root / "proc" / "meminfo").get("MemAvailable:")
    left = [*_left_in_groups(root), *([] if machine is None else [machine << 10])]
    return max(min(left), 0) if left else None


# Where each version of control groups says what they may take, what they take, and what of that are files that can be
# dropped from the cache.
_GROUPS_V2 = ("", "memory.max", "memory.current", "inactive_file")
_GROUPS_V1 = ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _left_in_groups(root: Path) -> Iterator[int]:
    """What each control group that this process is in has left; the outer ones limit it, too."""
    for line in _text_of(root / "proc" / "self" / "cgroup").splitlines():
        _, kinds, path = [*line.split(":", 2), "", ""][:3]
        if kinds and "memory" not in kinds.split(","):
            continue
        folder, limit, usage, cache = _GROUPS_V1 if kinds else _GROUPS_V2
        top = root / "sys" / "fs" / "cgroup" / folder
        group = top / path.strip("/")
        # In a container the path may be that of the host, which is not there; the files are at the top.
        for place in (group, *group.parents):
            allowed, used = _text_of(place / limit).strip(), _text_of(place / usage).strip()
            if allowed.isdigit() and used.isdigit():
                yield int(allowed) - int(used) + _numbers_in(place / "memory.stat").get(cache, 0)
            if place == top:
                break


def _numbers_in(path: Path) -> dict[str, int]:
    """The lines of a file that are a name and a number."""
    words = (line.split() for line in _text_of(path).splitlines())
    return {parts[0]: int(parts[1]) for parts in words if len(parts) > 1 and parts[1].isdigit()}


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def plan_within(
    allowed: int, n_threads: int, joins: Sequence[Join], to_encode: Sequence[Kind], n_rows: int
) -> ExecutionPlan:
    """The fastest plan that fits into the memory allowed, given what the process already uses; or a ResourceError.

    `to_encode`: the kinds of the columns that have not been encoded yet.
    """
    # Memory that reading the table needed and has freed does not count.
    pa.default_memory_pool().release_unused()
    held, needed = process_bytes(), 0
    for plan in (ExecutionPlan(n_threads, True), ExecutionPlan(1, True), ExecutionPlan(1, False)):
        needed = held + still_to_load() + n_rows * bytes_per_row(joins, to_encode, plan)
        if needed <= allowed:
            return plan
    raise too_much(needed, allowed, f"the process holds {held >> 20:,} MiB already, the table among it")


def still_to_load() -> int:
    """The memory for libraries and compiled code that have not been loaded yet."""
    return _COMPILING if "numba" in sys.modules else _LOADING


def too_much(needed: int, allowed: int, because: str) -> ResourceError:
    return ResourceError(
        f"this needs about {needed >> 20:,} MiB in all ({because}), more than the {allowed >> 20:,} MiB allowed; "
        "allow more memory, check fewer rules at once, or use the Spark engine"
    )


def bytes_per_row(joins: Sequence[Join], to_encode: Sequence[Kind], plan: ExecutionPlan) -> int:
    """The memory per row to check rules: encoded columns, what is shared, and the rules checked at the same time."""
    encoded = sum(_TEXT_COLUMN if kind is Kind.TEXT else _COLUMN for kind in to_encode)
    at_work = sorted((rule_bytes_per_row(join) for join in joins), reverse=True)[: plan.n_threads]
    shared = _SHARED * len(joins) if plan.shares and len(joins) > 1 else 0
    return encoded + shared + max(sum(at_work), _ENCODING_TEXT)


def rule_bytes_per_row(join: Join) -> int:
    """The memory per row for one rule, in addition to its encoded columns."""
    n_orders, n_differs = len(join.order), len(join.differs)
    if join.one_row:
        name = "filter"
    elif n_differs:
        name = "dependency" if (n_differs, n_orders) == (1, 0) else "hard"
    else:
        name = ("key", "one order", "two orders")[n_orders] if n_orders < 3 else "hard"
    two_sides = not join.one_row and not join.is_mirror
    per_row = _PER_ROW.get(name, _PER_HARD_ROW) * (_TWO_SIDES if two_sides else 1)
    return int(per_row) + _PER_FEATURE * (1 + n_orders + n_differs)
