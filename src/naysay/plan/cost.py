"""What the partners of all rows cost, from how often rows agree: the time before it is spent, and the cheaper way."""

from __future__ import annotations

import math
from dataclasses import dataclass

# All costs are nanoseconds on one core, measured by benchmarks/cost.py; per row of both sides where nothing is said.
# To sort rows into groups, under a key of one column more.
_GROUP = 90.0
# To count the partners in no, one and two orders; in more, this times log2(rows)^(orders - 1).
_COUNT = (25.0, 120.0, 250.0)
_DIVIDE = (9.0, 1.45, 0.17, 0.0155)
# To compare all with all: for each right row and predicate, for each left row and block, for each of its orders and
# differs, and for the words of a predicate in a full block.
_FILL, _START, _LOOK_ORDER, _LOOK_DIFFERS, _WORDS = 20.0, 60.0, 45.0, 8.0, 22.0
_BLOCK_ROWS = 4096.0


@dataclass(frozen=True, slots=True)
class Agreement:
    """The rows on both sides, the pairs with equal keys, and how many values each of the differs seems to have.

    A column seems to have v values where one in v of the pairs with equal keys agrees in it: as many as it would have
    if all were equally frequent.
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
        """The rows on each side of the group that a row typically finds itself in."""
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

    A group is compared all with all, or it is counted whole and asked again for each of its columns, in groups that
    are smaller by the number of values in the column. Sizes are taken to the next half power of two.
    """

    def __init__(self, values: tuple[float, ...], n_orders: int) -> None:
        self._values = values
        self._n_orders = n_orders
        self._known: dict[tuple[int, int], float] = {}

    def cost(self, rows: float, n_differs: int) -> float:
        """The cost of groups of so many rows on each side."""
        compared = self.compared(rows, n_differs)
        return _GROUP + (compared if rows <= 64 else min(compared, self.divided(rows, n_differs)))

    def compared(self, rows: float, n_differs: int) -> float:
        """The cost of a group compared all with all."""
        n_predicates = self._n_orders + n_differs
        full = min(rows / _BLOCK_ROWS, 1.0)
        a_block = _START + self._n_orders * _LOOK_ORDER + n_differs * _LOOK_DIFFERS + n_predicates * _WORDS * full
        return (n_predicates * _FILL + math.ceil(rows / _BLOCK_ROWS) * a_block) / 2

    def divided(self, rows: float, n_differs: int) -> float:
        """The cost of a group that is not compared all with all."""
        size = round(2 * math.log2(max(rows, 1.0)))
        if (size, n_differs) not in self._known:
            rows = 2.0 ** (size / 2)
            below = (self.cost(rows / self._values[which], which) for which in range(n_differs))
            self._known[size, n_differs] = _count(self._n_orders, rows) + sum(below)
        return self._known[size, n_differs]


def _count(n_orders: int, group_rows: float) -> float:
    """The cost of the partners in all orders, in groups of so many rows on a side."""
    if n_orders < len(_COUNT):
        return _COUNT[n_orders]
    last = len(_DIVIDE) - 1
    factor = _DIVIDE[min(n_orders - 3, last)] * 0.09 ** max(n_orders - 3 - last, 0)
    return _COUNT[-1] + factor * max(math.log2(max(group_rows, 2.0)), 1.0) ** (n_orders - 1)
