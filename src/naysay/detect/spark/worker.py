"""What runs inside Spark's Python tasks: the rows of a partition become a table, a bound join, and an answer.

A partition holds whole groups of equal keys, or the whole of a small table. Codes come from `naysay.table`, joins from
`naysay.plan`, answers from `naysay.detect`. Functions here take and return Arrow batches and know nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from naysay.arrays import Int64Array
from naysay.detect.result import Removal
from naysay.detect.summary import (
    Conflicts,
    RuleSummary,
    Tally,
    busiest_rows,
    check_rule,
    find_conflicts,
    single_conflicts,
)
from naysay.plan.bind import BoundJoin, Memo, bind, singles
from naysay.plan.join import Join
from naysay.rule.model import Column, Constant, Nulls, Op, Predicate, Row
from naysay.spark.identity import number_repeats, sorted_by
from naysay.table import Table

# The column that holds the side of a record, if a row is sent as one record per side.
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

# The column that keeps the order in which Spark read the rows.
PLACE = "place"
# Takes the place of a rule's number for what is said of all rules together.
ALL_RULES = -1

SUMMARY = pa.schema(
    [
        ("rule", pa.int32()),
        ("violations", pa.int64()),
        ("rows", pa.int64()),
        ("least", pa.int64()),
        ("most", pa.int64()),
        ("sample", pa.binary()),
        ("where", pa.list_(pa.int64())),
    ]
)


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

        return count(self.join) - (0 if self.itself is None else int(self.met_itself(self.join).sum()))

    def conflicts(self, n_sample: int, *, removal: bool) -> Conflicts:
        met = None if self.itself is None else self.met_itself
        return find_conflicts(self.join, lambda counts: (self.shown(counts, n_sample), None), met=met, removal=removal)

    def shown(self, counts: Int64Array, n_sample: int) -> Int64Array:
        """A few left records with partners, and two partners of each, since one may be the record's own row."""
        from naysay.detect.violations import partners_of

        places = np.flatnonzero(counts)[:n_sample]
        right = [self.join.right.rows[partners_of(self.join, int(place))[:2]] for place in places]
        return np.unique(np.concatenate((self.join.left.rows[places], *right)))

    def met_itself(self, join: BoundJoin) -> Int64Array:
        """For each left record whether its row meets itself in this task."""
        assert self.itself is not None
        return numbers(self.table, self.itself)[join.left.rows]

    def _partners(self, join: BoundJoin) -> Int64Array:
        from naysay.detect.partners import partners

        return partners(join) if self.itself is None else partners(join) - self.met_itself(join)


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
        yield _summaries((rule.number, RuleSummary(_count(table, rule))) for rule in rules)


def count_strips(batches: Iterable[pa.RecordBatch], dims: tuple[TaskRule, ...]) -> Iterator[pa.RecordBatch]:
    """Count the violations within strips: a record belongs to a strip of the order DIM, for which there is a rule."""
    for _, rule, table in _by_dim(batches, dims):
        yield _summaries([(rule.number, RuleSummary(bind_rule(table, rule).count()))])


def summarise_partition(
    batches: Iterable[pa.RecordBatch], rules: tuple[TaskRule, ...], n_sample: int, removal: bool
) -> Iterator[pa.RecordBatch]:
    """Violations, rows in conflict, rows to remove and a sample, for each rule, of one partition."""
    table = read(batches)
    if table is not None:
        yield _summaries((rule.number, _summarise(table, rule, n_sample, removal)) for rule in rules)


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
        sample = _packed(table, rule.columns, bound.shown(counts, n_sample))
        yield _summaries([(rule.number, RuleSummary(int(counts.sum()), sample=sample))])


def check_partition(
    batches: Iterable[pa.RecordBatch],
    rules: tuple[TaskRule, ...],
    names: tuple[str, ...],
    n_sample: int,
    number_copies: bool,
) -> Iterator[pa.RecordBatch]:
    """Everything a report says about a whole table: a record for each rule, and one for ALL_RULES.

    The sample of a rule is first all left rows and then all right rows, with the columns `names` of their identity and
    those of the rule. That of ALL_RULES is the rows most often in conflict: their identity, how many `conflicts` they
    have, and which `rules` they break.
    """
    table = read(batches)
    if table is None:
        return
    table = _in_order(table, names[0] if number_copies else None)
    tally = Tally(table.n_rows)
    memo = Memo()
    found: list[tuple[int, RuleSummary[bytes]]] = []
    for rule in rules:
        conflicts = check_rule(table, rule.join, rule.nulls, n_sample, memo=memo)
        tally.add(rule, conflicts)
        right = () if conflicts.right is None else (conflicts.right,)
        sample = _packed(table, (*names, *rule.columns), np.concatenate((conflicts.left, *right)))
        found.append((rule.number, RuleSummary.of(conflicts, sample, table.n_rows)))
    n_rows, busiest = busiest_rows(table, (), rules, tally)
    named = table.select(names).take(np.array([row.identity["row"] for row in busiest], np.int64))
    named = named.append_column("conflicts", pa.array([row.conflicts for row in busiest], pa.int64()))
    numbers = [[rules[place].number for place in row.rules] for row in busiest]
    named = named.append_column("rules", pa.array(numbers, pa.list_(pa.int32())))
    yield _summaries([*found, (ALL_RULES, RuleSummary(rows_in_conflict=n_rows, sample=(_stream(named),)))])


def _in_order(table: Table, copies: str | None) -> Table:
    arrow = sorted_by(table.arrow, [PLACE]).drop_columns([PLACE]).combine_chunks()
    if copies is not None:
        names = number_repeats(arrow.column(copies).combine_chunks())
        arrow = arrow.set_column(arrow.schema.get_field_index(copies), copies, names)
    return Table(arrow)


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


def _summarise(table: Table, rule: TaskRule, n_sample: int, removal: bool) -> RuleSummary[bytes]:
    if rule.join.one_row:
        found = single_conflicts(singles(table, rule.join, rule.nulls), n_sample)
    else:
        found = bind_rule(table, rule).conflicts(n_sample, removal=removal)
    sample = _packed(table, rule.columns, found.left)
    return RuleSummary(found.violations, int(found.rows.size), found.removal, sample)


def _summaries(found: Iterable[tuple[int, RuleSummary[bytes]]]) -> pa.RecordBatch:
    records = [
        {
            "rule": number,
            "violations": summary.violations,
            "rows": summary.rows_in_conflict,
            "least": summary.removal.least,
            "most": summary.removal.most,
            "sample": b"".join(summary.sample),
            "where": summary.where,
        }
        for number, summary in found
    ]
    return pa.RecordBatch.from_pylist(records, SUMMARY)


def read_summary(record: dict[str, Any]) -> RuleSummary[pa.Table]:
    """A record of SUMMARY; its sample is a table of rows."""
    sample = (pa.ipc.open_stream(record["sample"]).read_all(),) if record["sample"] else ()
    removal = Removal(record["least"], record["most"])
    return RuleSummary(record["violations"], record["rows"], removal, sample, tuple(record["where"]))


def _packed(table: Table, names: Sequence[str], rows: Int64Array) -> tuple[bytes, ...]:
    """The values of some columns in some rows, as an Arrow stream; nothing for no rows."""
    return (_stream(table.select(names).take(rows)),) if rows.size else ()


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
