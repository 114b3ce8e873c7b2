"""Giant groups of rules made of orders, cut into strips: answered without ever joining most of their rows.

Each ordered column is cut into strips at quantiles. For a pair of rows a column is decided if their strips differ, or
if both are in a strip of one value. Pairs decided in all columns are counted from the numbers of rows in each cell (a
strip of each column), by prefix sums on the driver. Of the others the first undecided column owns the pair: it is
counted in that strip, with the columns before it compared by strip and those after it by value. So every pair is
counted once, a row travels at most once for each column, and tasks are as even as the strips. There are as many strips
as it takes for each to fit a task, for each giant group its own, and as long as the driver has room for the cells.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from naysay.arrays import BoolArray, Int64Array
from naysay.detect.spark import worker
from naysay.detect.spark.key_groups import KeySet, MeasuredKeys, collect_summaries, itself_of, look_up
from naysay.detect.spark.plan import RulePlan
from naysay.detect.spark.strips import StripCells, Strips, cut, find_strips, plain
from naysay.detect.spark.worker import DIM, LEFT, RIGHT, SIDE, TASK, TaskRule
from naysay.detect.summary import RuleSummary
from naysay.plan.join import Join, Match, Order
from naysay.rule.model import Row
from naysay.spark.frame import from_arrow, map_in_arrow
from naysay.spark.versions import deal_out, numbers, to_arrow

# Rows to look at before strips are cut: so many in all, or for each strip.
_SAMPLE = 20_000
_SAMPLE_A_STRIP = 64
# Cells are numbers on the driver: at most this many.
_MAX_CELLS = 1 << 20

_SIDES = (("l", Row.LEFT, LEFT), ("r", Row.RIGHT, RIGHT))


def has_strips(join: Join) -> bool:
    """Whether the rule has only orders, apart from its key and filters."""
    return bool(join.order) and not join.differs


def _is_sided(keys: KeySet, join: Join) -> bool:
    """Whether a row must travel as one record per side: its strips or its keys differ on the two sides."""
    return keys.crossed or any(order.left != order.right for order in join.order)


@dataclass(frozen=True)
class Grid:
    """A rule over the giant groups of its key, cut into strips.

    `records` has k0 ..., the rule's columns, SIDE if a row is two records, and for each order its strip on the left and
    on the right, l0, r0, l1, ... (turned round for a descending order, so that less is always left of more). `cells`
    are by the hash of the key; `more_cells` have the hashes and cells of keys whose hash was taken. `n_itself` rows
    meet themselves. `place` adds the columns l0, r0, l1, ... to any records of these groups.
    """

    found: MeasuredKeys
    place: Callable[[DataFrame], DataFrame]
    records: DataFrame
    strips: tuple[Strips, ...]
    cells: dict[int, StripCells]
    more_cells: tuple[tuple[int, StripCells], ...]
    n_itself: int

    @property
    def plan(self) -> RulePlan:
        return self.found.plan

    @property
    def n_orders(self) -> int:
        return len(self.strips)

    @property
    def sided(self) -> bool:
        return _is_sided(self.found.keys, self.plan.join)

    @property
    def knows_conflicts(self) -> bool:
        """Whether it shows which rows are in conflict: no row may meet itself, and no key be taken for another."""
        return self.plan.join.irreflexive and not self.more_cells

    @property
    def ties(self) -> list[BoolArray]:
        """For each order the strips that decide in favour if both rows are in them."""
        orders = enumerate(self.plan.join.order)
        return [self.singles(place) & (not order.strict) for place, order in orders]

    def singles(self, order: int) -> BoolArray:
        """Which strips of an order hold one value, in the order of l0, r0 ..."""
        single = np.array(self.strips[order].single)
        return single[::-1] if self.plan.join.order[order].descending else single

    def decided(self) -> int:
        """The number of pairs that strips decide by themselves, including a row with itself."""
        return sum(cells.count(self.ties) for _, cells in (*self.cells.items(), *self.more_cells))

    def count(self) -> int:
        """Count the violations in the giant groups."""
        within = self._within_strips(worker.count_rule)
        return self.decided() + within.violations - self.n_itself

    def summarise(self, n_sample: int) -> RuleSummary[pa.Table]:
        """Violations in the giant groups, and values of rows in some of them; rows in conflict are not counted."""
        within = self._within_strips(partial(worker.sample_rule, n_sample=n_sample))
        decided = self.decided()
        shows = decided and n_sample and not self.more_cells
        return RuleSummary(decided, sample=(self._rows_of_cells(n_sample),) if shows else ()).merge(within)

    def conflicts(self, schema: T.StructType, *, left_only: bool = False) -> list[DataFrame]:
        """The records in conflict, as `worker.conflicts_of_partition` gives them: by cells, and within strips.

        Only for a grid that `knows_conflicts`. `left_only`: the left rows of violations, and with how many right ones.
        """
        if not self.cells:
            return []
        # A symmetric rule is counted one way round only.
        one_way = left_only or self.plan.join.symmetric
        work = partial(worker.conflicts_of_strips, dims=tuple(replace(dim, symmetric=one_way) for dim in self._dims()))
        sides = _SIDES[:1] if one_way else _SIDES
        return [self._over_strips(work, schema)[0], *(self._decided_conflicts(*side, schema) for side in sides)]

    def with_sure(self, records: DataFrame) -> DataFrame:
        """Left records with one more column `sure`: whether strips decide that they break the rule with some rows.

        Only for a grid that `knows_conflicts`.
        """
        names, decided = self._decided_cells("l", Row.LEFT, "n")
        placed = self.place(records).withColumn("hash", self.found.keys.key_hash())
        sure = F.col("n").isNotNull().alias("sure")
        return placed.join(F.broadcast(decided), names, "left").select(*records.columns, sure)

    def _decided_cells(self, side: str, row: Row, count: str) -> tuple[list[str], DataFrame]:
        """The cells whose records on one side strips decide to be in conflict, and the `count` of rows with which.

        A cell is the hash of a key and a strip of each order, under the names given first.
        """
        names = ["hash", *(f"{side}{order}" for order in range(self.n_orders))]
        cells, partners = [], []
        for hashed, of_key in self.cells.items():
            counts = of_key.left_partners(self.ties) if row is Row.LEFT else of_key.right_partners(self.ties)
            places = np.argwhere((counts > 0) & ((of_key.left if row is Row.LEFT else of_key.right) > 0))
            cells.append(np.column_stack((np.full(len(places), hashed), places + np.array(of_key.start))))
            partners.append(counts[tuple(places.T)])
        columns = [*np.concatenate(cells).T, np.concatenate(partners)]
        # At most as many cells as the driver has anyway.
        return names, from_arrow(self.plan.data.sparkSession, pa.table(columns, names=[*names, count]))

    def _decided_conflicts(self, side: str, row: Row, number: int, schema: T.StructType) -> DataFrame:
        """The records on one side that strips decide to be in conflict, with how many rows."""
        names, decided = self._decided_cells(side, row, schema.names[-1])
        on_side = self.plan.on_side(row)
        if self.sided:
            on_side = on_side & (F.col(SIDE) == number)
        records = self.records.filter(on_side).withColumn("hash", self.found.keys.key_hash())
        place = F.lit(worker.place_of(worker.DECIDED, number)).alias("place")
        return records.join(F.broadcast(decided), names).select(*schema.names[:-2], place, schema.names[-1])

    def _within_strips(self, answer: worker.Answer) -> RuleSummary[pa.Table]:
        if not self.cells:
            return RuleSummary()
        work = partial(worker.answer_strips, dims=self._dims(), answer=answer)
        within, n_tasks = self._over_strips(work, worker.SUMMARY)
        summaries = collect_summaries([within], n_tasks)
        return summaries.get(self.plan.number, RuleSummary())

    def _over_strips(self, work: Callable[..., Any], schema: pa.Schema | T.StructType) -> tuple[DataFrame, int]:
        """Do work on the records of all strips that leave something undecided, dealt out evenly to so many tasks."""
        placements, n_tasks = self._placements()
        copies = []
        for order, placement in enumerate(placements):
            strip = F.col(f"l{order}")
            if self.sided:
                strip = F.when(F.col(SIDE) == LEFT, strip).otherwise(F.col(f"r{order}"))
            place = F.get(numbers(placement), strip)
            copy = F.struct(F.lit(order).cast(T.ByteType()).alias(DIM), strip.alias(TASK), place.alias("placement"))
            copies.append(F.when(place >= 0, copy))
        records = self.records.withColumn("copy", F.explode(F.array(*copies))).filter(F.col("copy").isNotNull())
        names = [*self.plan.columns, *([SIDE] if self.sided else [])]
        # The strips of an order as two columns whose comparison decides it: left < right exactly if it is satisfied.
        codes = []
        for order in range(self.n_orders - 1):
            codes += [(2 * F.col(f"l{order}")).alias(f"left{order}"), self._right_code(order).alias(f"right{order}")]
        parts = records.select(*names, *codes, "copy.*")
        return map_in_arrow(deal_out(parts, n_tasks, F.col("placement")).drop("placement"), work, schema), n_tasks

    def _right_code(self, order: int) -> Expression:
        right = F.col(f"r{order}")
        return 2 * right + F.get(numbers(self.ties[order].astype(int)), right)

    def _rows_of_cells(self, n_sample: int) -> pa.Table:
        """Values of a few rows of two cells that conflict with each other."""
        pairs = ((hashed, cells.some_pair(self.ties)) for hashed, cells in self.cells.items())
        hashed, pair = next((hashed, pair) for hashed, pair in pairs if pair is not None)
        rows = self.records.filter(self.found.keys.key_hash() == hashed)
        parts = []
        for (side, row, _), cell in zip(_SIDES, pair, strict=True):
            inside = self.plan.on_side(row)
            for order, strip in enumerate(cell):
                inside = inside & (F.col(f"{side}{order}") == strip)
            parts.append(rows.filter(inside).select(*self.plan.columns).limit(n_sample))
        return to_arrow(parts[0].union(parts[1]))

    def _dims(self) -> tuple[TaskRule, ...]:
        """For each order the rule as it reads inside a strip of that order."""
        (rule,) = self.found.keys.task_rules()
        join = rule.join
        dims = []
        for dim in range(self.n_orders):
            decided = tuple(Order(f"left{i}", f"right{i}", descending=False, strict=True) for i in range(dim))
            within = replace(join, key=(*join.key, Match(TASK, TASK)), order=decided + join.order[dim:])
            dims.append(replace(rule, join=within, sided=self.sided, itself=None, meets_itself=True))
        return tuple(dims)

    def _placements(self) -> tuple[list[Int64Array], int]:
        """For each order the partition of each strip: the largest first, each to the emptiest partition so far.

        Hashing a few strips onto a few partitions would leave some with several and some with none. Strips that leave
        nothing undecided have no partition: -1.
        """
        placements = [np.where(self.singles(order), -1, 0) for order in range(self.n_orders)]
        loads: Counter[tuple[int, int]] = Counter()
        for _, cells in (*self.cells.items(), *self.more_cells):
            for order, chosen in enumerate(placements):
                loads.update({(order, strip): n for strip, n in cells.rows_of(order).items() if chosen[strip] == 0})
        n_tasks = max(1, min(len(loads), self.found.sizes.n_tasks(sum(loads.values()))))
        filled = [(0, place) for place in range(n_tasks)]
        for (order, strip), load in loads.most_common():
            n_rows, emptiest = heapq.heappop(filled)
            heapq.heappush(filled, (n_rows + load, emptiest))
            placements[order][strip] = emptiest
        return placements, n_tasks


def grid_of(found: MeasuredKeys) -> Grid:
    """Sample the giant groups, cut, and count the rows of each cell: two jobs."""
    plan, join = found.plan, found.plan.join
    records = found.giant_records()
    if _is_sided(found.keys, join) and not found.keys.crossed:
        sides = F.array(*(F.lit(side).cast(T.ByteType()) for side in (LEFT, RIGHT)))
        on_side = F.when(F.col(SIDE) == LEFT, plan.on_side(Row.LEFT)).otherwise(plan.on_side(Row.RIGHT))
        records = records.withColumn(SIDE, F.explode(sides)).filter(on_side)
    values = {}
    for i, order in enumerate(join.order):
        values[f"l{i}"] = plan.comparisons.comparable(order.left, order.right)
        values[f"r{i}"] = plan.comparisons.comparable(order.right, order.left)
    schema = records.select(*(value.alias(name) for name, value in values.items())).schema
    types = {field.name: field.dataType for field in schema.fields}
    sampled = records.select(
        found.keys.key_hash().alias("hash"), *(plain(value, types[name]).alias(name) for name, value in values.items())
    )
    strips = _strips(join, sampled, found)
    place = partial(_placed, found=found, strips=strips, values=values, types=types)
    placed = place(records)
    return Grid(found, place, placed, strips, *_cells(found, placed, strips))


def _placed(
    records: DataFrame,
    *,
    found: MeasuredKeys,
    strips: Sequence[Strips],
    values: Mapping[str, Expression],
    types: Mapping[str, T.DataType],
) -> DataFrame:
    """The records and their strips, in columns l0, r0, l1, ..."""
    orders = found.plan.join.order
    sought = {
        name: (value, types[name], strips[int(name[1:])])
        for name, value in values.items()
        if name.startswith("l") or orders[int(name[1:])].left != orders[int(name[1:])].right
    }
    number_of = {hashed: number for number, hashed in enumerate(found.giants)}
    group = look_up(found.keys.key_hash(), number_of) if len(number_of) > 1 else F.lit(0)
    records = find_strips(records, group, sought)
    columns = {}
    for name in values:
        number = int(name[1:])
        strip = F.col(name if name in sought else f"l{number}")
        columns[name] = F.lit(strips[number].n - 1) - strip if orders[number].descending else strip
    return records.withColumns(columns)


def _n_strips(found: MeasuredKeys, n_orders: int) -> dict[int, int]:
    """The number of strips per group: enough for each to fit in a task, unless that makes too many cells."""

    def n_strips() -> dict[int, int]:
        return {group: max(least, -(-n_rows // rows_a_strip)) for group, n_rows in found.giants.items()}

    def n_cells() -> int:
        return sum((2 + 2 * n) ** n_orders for n in n_strips().values())

    least, rows_a_strip = max(2, found.sizes.n_strips), found.sizes.rows_a_part
    # Each map task has a partial count for each cell that it sees: strips that need not be so small must not add many.
    while least > 2 and n_cells() > _MAX_CELLS // 4:
        least -= 1
    while n_cells() > _MAX_CELLS and max(n_strips().values()) > least:
        rows_a_strip += 1 + rows_a_strip // 16
    return n_strips()


def _strips(join: Join, sampled: DataFrame, found: MeasuredKeys) -> tuple[Strips, ...]:
    """The strips of each order: those of a group are cut by its own values."""
    n_strips = _n_strips(found, len(join.order))
    n_rows = sum(found.giants.values())
    n_sample = max(_SAMPLE, _SAMPLE_A_STRIP * (n_rows // found.sizes.rows_a_part))
    fraction = min(1.0, n_sample / max(n_rows, 1))
    sample: dict[int, list[Any]] = {group: [] for group in found.giants}
    for row in (sampled.sample(fraction, seed=1) if fraction < 1 else sampled).collect():
        sample[row["hash"]].append(row.asDict(recursive=True))
    return tuple(
        Strips(
            tuple(
                cut([row[name] for name in dict.fromkeys(sides) for row in rows], n_strips[group])
                for group, rows in sample.items()
            )
        )
        for sides in (
            (f"l{i}", f"l{i}" if order.left == order.right else f"r{i}") for i, order in enumerate(join.order)
        )
    )


def _cells(
    found: MeasuredKeys, placed: DataFrame, strips: Sequence[Strips]
) -> tuple[dict[int, StripCells], tuple[tuple[int, StripCells], ...], int]:
    """The cells of each giant group by the hash of its key, those of keys with a hash already taken, and how many rows
    meet themselves."""
    plan, keys = found.plan, found.keys
    on_side = {side: plan.on_side(row) for side, row, _ in _SIDES}
    if _is_sided(keys, plan.join):
        on_side = {side: on_side[side] & (F.col(SIDE) == number) for side, _, number in _SIDES}
    met = F.lit(False) if plan.join.irreflexive else F.col(itself_of(plan)) & on_side["l"]
    numbers = {"left": on_side["l"], "right": on_side["r"], "met": met}
    # A record that is on one side only has no cell on the other.
    cells_of = {
        f"{side}{i}": F.when(is_there, F.col(f"{side}{i}"))
        for side, is_there in on_side.items()
        for i in range(len(strips))
    }
    rows = placed.select(
        *(plain(F.col(name), placed.schema[name].dataType).alias(name) for name in keys.key_names),
        keys.key_hash().alias("hash"),
        *(cell.alias(name) for name, cell in cells_of.items()),
        *(truth.cast(T.LongType()).alias(name) for name, truth in numbers.items()),
    )
    counted = rows.groupBy(*keys.key_names, "hash", *cells_of).agg(*(F.sum(name).alias(name) for name in numbers))
    table = to_arrow(counted)
    first_of: dict[str, int] = {}
    named = map(repr, zip(*(table.column(name).to_pylist() for name in ("hash", *keys.key_names)), strict=True))
    group_of = np.array([first_of.setdefault(name, place) for place, name in enumerate(named)], np.int64)
    weights = {name: np.asarray(table.column(name).to_numpy(), np.int64) for name in numbers}
    cells: dict[int, StripCells] = {}
    more = []
    for first in first_of.values():
        hashed = table.column("hash")[first].as_py()
        sides = []
        for side, name in (("l", "left"), ("r", "right")):
            some = np.flatnonzero((group_of == first) & (weights[name] > 0))
            columns = [table.column(f"{side}{i}").take(some).to_numpy() for i in range(len(strips))]
            sides.append((np.column_stack(columns).astype(np.int64), weights[name][some]))
        if not any(weight.size for _, weight in sides):
            continue
        found_cells = StripCells.of(*sides)
        if hashed in cells:
            more.append((hashed, found_cells))
        else:
            cells[hashed] = found_cells
    return cells, tuple(more), int(weights["met"].sum())
