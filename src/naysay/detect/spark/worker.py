"""What runs inside Spark's Python tasks: the rows of a partition become a table, a bound join, and an answer.

A partition holds whole groups of equal keys, or the whole of a small table. Meaning exists once: codes come from
`naysay.table`, joins from `naysay.plan`, answers from `naysay.verbs`. Functions here take and give Arrow batches and
know nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from naysay.arrays import Int64Array
from naysay.detect.result import Removal
from naysay.plan.bind import BoundJoin, bind, singles
from naysay.plan.join import Join
from naysay.rule.model import Column, Constant, Nulls, Op, Predicate, Row
from naysay.table import Table

# The column that says on which side a record stands, where a row is sent as one record a side.
SIDE = "side"
LEFT, RIGHT = 0, 1
# The column that names the part of the work to which a record belongs, where a group is cut into parts; and the
# column for the order along which a part was cut.
TASK = "task"
DIM = "dim"
# The column that is true where a record is known to be in conflict already.
KNOWN = "known"
# The column that says for how many records alike one stands.
WEIGHT = "weight"

SUMMARY = pa.schema(
    [
        ("rule", pa.int32()),
        ("violations", pa.int64()),
        ("rows", pa.int64()),
        ("least", pa.int64()),
        ("most", pa.int64()),
        ("sample", pa.binary()),
    ]
)
_Summary = tuple[int, int, int, int, bytes]


@dataclass(frozen=True, slots=True)
class TaskRule:
    """A rule as tasks see it: its join, and the columns that it looks at.

    `sided`: a row is sent as one record for each side, and SIDE says which. `itself` then names a column that is true
    where the row would meet itself in this task. `meets_itself`: pairs of a row with itself are left in, and taken out
    elsewhere.
    """

    number: int
    join: Join
    nulls: Nulls
    columns: tuple[str, ...]
    sided: bool = False
    itself: str | None = None
    meets_itself: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """A rule bound to the records of a partition."""

    table: Table
    join: BoundJoin
    itself: str | None

    @property
    def is_symmetric(self) -> bool:
        return self.join.symmetric and self.join.mirror

    def partners(self) -> Int64Array:
        """For each left record the number of right records with which it breaks the rule."""
        return self._partners(self.join)

    def partners_of_right(self) -> Int64Array:
        """The same for the right records."""
        return self._partners(self.join.swapped())

    def count(self) -> int:
        from naysay.detect.violations import count

        return count(self.join) - int(self._met_itself(self.join).sum())

    def _partners(self, join: BoundJoin) -> Int64Array:
        from naysay.detect.partners import partners

        return partners(join) - self._met_itself(join)

    def _met_itself(self, join: BoundJoin) -> Int64Array:
        rows = join.left.rows
        return np.zeros(rows.size, np.int64) if self.itself is None else numbers(self.table, self.itself)[rows]


def bind_rule(table: Table, rule: TaskRule) -> Bound:
    """Bind a rule about two rows to the records of a partition."""
    join = rule.join
    if rule.sided:
        join = replace(
            join,
            left_filter=(*join.left_filter, _stands_on(Row.LEFT, LEFT)),
            right_filter=(*join.right_filter, _stands_on(Row.RIGHT, RIGHT)),
        )
    bound = bind(table, join, rule.nulls)
    if rule.meets_itself:
        bound = replace(bound, reflexive=False)
    return Bound(table, bound, rule.itself)


def count_partition(batches: Iterable[pa.RecordBatch], rules: tuple[TaskRule, ...]) -> Iterator[pa.RecordBatch]:
    """Count the violations of each rule among the rows of one partition."""
    table = read(batches)
    if table is not None:
        yield _summary(rules, [(_count(table, rule), 0, 0, 0, b"") for rule in rules])


def count_strips(batches: Iterable[pa.RecordBatch], dims: tuple[TaskRule, ...]) -> Iterator[pa.RecordBatch]:
    """Count the violations within strips: a record belongs to a strip of the order DIM, for which there is a rule."""
    for _, rule, table in _by_dim(batches, dims):
        yield _summary((rule,), [(bind_rule(table, rule).count(), 0, 0, 0, b"")])


def summarise_partition(
    batches: Iterable[pa.RecordBatch], rules: tuple[TaskRule, ...], n_sample: int, removal: bool
) -> Iterator[pa.RecordBatch]:
    """Violations, rows in conflict, rows to remove and a sample, for each rule, of one partition."""
    table = read(batches)
    if table is not None:
        yield _summary(rules, [_summarise(table, rule, n_sample, removal) for rule in rules])


def conflicts_of_partition(batches: Iterable[pa.RecordBatch], rule: TaskRule) -> Iterator[pa.RecordBatch]:
    """The records in conflict, as the values of the rule's columns.

    `place` tells apart the sides and tasks on which one row may be found, so that the rows of each set of values can
    be counted.
    """
    table = read(batches)
    if table is not None:
        yield from _conflicts(table, rule, 0)


def conflicts_of_strips(batches: Iterable[pa.RecordBatch], dims: tuple[TaskRule, ...]) -> Iterator[pa.RecordBatch]:
    """The same within strips, of the records that are not KNOWN to be in conflict."""
    for dim, rule, table in _by_dim(batches, dims):
        yield from _conflicts(table, rule, 1 + dim)


def summarise_strips(
    batches: Iterable[pa.RecordBatch], dims: tuple[TaskRule, ...], n_sample: int
) -> Iterator[pa.RecordBatch]:
    """Violations and a sample within strips."""
    for _, rule, table in _by_dim(batches, dims):
        bound = bind_rule(table, rule)
        counts = bound.partners()
        shown = _shown(bound, np.flatnonzero(counts)[:n_sample])
        yield _summary((rule,), [(int(counts.sum()), 0, 0, 0, _packed(table, rule, shown) if shown.size else b"")])


def read(batches: Iterable[pa.RecordBatch]) -> Table | None:
    """The rows of a partition; None for an empty one, which may deliver no batch at all."""
    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return None
    table = pa.Table.from_batches(held)
    return Table(_expanded(table) if WEIGHT in table.column_names else table)


def _expanded(table: pa.Table) -> pa.Table:
    """Each record as often as its WEIGHT says; values stand once, in dictionaries."""
    weights = np.asarray(table.column(WEIGHT).to_numpy(), np.int64)
    places = pa.array(np.repeat(np.arange(weights.size), weights))
    columns = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if name == WEIGHT:
            continue
        if name in (SIDE, TASK, DIM, KNOWN) or pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
            columns[name] = column.take(places)
            continue
        coded = column.dictionary_encode()
        columns[name] = pa.DictionaryArray.from_arrays(coded.indices.take(places), coded.dictionary)
    return pa.table(columns)


def numbers(table: Table, name: str) -> Int64Array:
    """A column of integers or truths as an array."""
    return np.asarray(pc.cast(table.arrow.column(name), pa.int64()).to_numpy(), np.int64)


def _by_dim(batches: Iterable[pa.RecordBatch], dims: tuple[TaskRule, ...]) -> Iterator[tuple[int, TaskRule, Table]]:
    table = read(batches)
    if table is not None:
        of_dim = numbers(table, DIM)
        for dim in np.unique(of_dim).tolist():
            yield dim, dims[dim], Table(table.take(np.flatnonzero(of_dim == dim)))


def _conflicts(table: Table, rule: TaskRule, part: int) -> Iterator[pa.RecordBatch]:
    bound = bind_rule(table, rule)
    left = bound.join.left.rows[bound.partners() > 0]
    right = left if bound.is_symmetric else bound.join.right.rows[bound.partners_of_right() > 0]
    if not rule.sided:
        left, right = np.union1d(left, right), right[:0]
    unknown = numbers(bound.table, KNOWN) == 0 if KNOWN in bound.table.names else None
    for side, rows in ((LEFT, left), (RIGHT, right)):
        if unknown is not None:
            rows = rows[unknown[rows]]
        task = numbers(bound.table, TASK)[rows] if TASK in bound.table.names else np.zeros(rows.size, np.int64)
        place = pa.array((part << 40) + 2 * task + side, pa.int64())
        found = bound.table.select(rule.columns).take(rows).append_column("place", place)
        yield from found.combine_chunks().to_batches()


def _stands_on(row: Row, side: int) -> Predicate:
    return Predicate(Column(row, SIDE), Op.EQ, Constant(side))


def _count(table: Table, rule: TaskRule) -> int:
    if rule.join.one_row:
        return int(singles(table, rule.join, rule.nulls).size)
    return bind_rule(table, rule).count()


def _summarise(table: Table, rule: TaskRule, n_sample: int, removal: bool) -> _Summary:
    from naysay.detect.removal import rows_to_remove

    if rule.join.one_row:
        rows = singles(table, rule.join, rule.nulls)
        return rows.size, rows.size, rows.size, rows.size, _packed(table, rule, rows[:n_sample])
    bound = bind_rule(table, rule)
    counts = bound.partners()
    n_pairs = int(counts.sum())
    if n_pairs == 0:
        return 0, 0, 0, 0, b""
    places = np.flatnonzero(counts)
    rows = bound.join.left.rows[places]
    if not bound.is_symmetric:
        rows = np.union1d(rows, bound.join.right.rows[bound.partners_of_right() > 0])
    removed = rows_to_remove(bound.join) if removal else Removal(0, 0)
    sample = _packed(bound.table, rule, _shown(bound, places[:n_sample])) if n_sample else b""
    return n_pairs, rows.size, removed.least, removed.most, sample


def _shown(bound: Bound, places: Int64Array) -> Int64Array:
    """The records of some left rows and of partners of theirs: two for each, since one may be the row itself."""
    from naysay.detect.violations import partners_of

    right = [bound.join.right.rows[partners_of(bound.join, int(place))[:2]] for place in places]
    return np.unique(np.concatenate((bound.join.left.rows[places], *right)))


def _summary(rules: tuple[TaskRule, ...], found: list[_Summary]) -> pa.RecordBatch:
    rows = [(rule.number, *numbers) for rule, numbers in zip(rules, found, strict=True)]
    columns = [list(column) for column in zip(*rows, strict=True)]
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, SUMMARY, strict=True)], schema=SUMMARY
    )


def _packed(table: Table, rule: TaskRule, rows: Int64Array) -> bytes:
    """The values of the rule's columns in some rows, as an Arrow stream."""
    taken = table.select(rule.columns).take(rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, taken.schema) as stream:
        stream.write_table(taken)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
