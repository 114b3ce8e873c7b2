"""A whole table in one of Spark's Python tasks: every rule checked as in-process, and what a report says of all rows.

Functions here take and give Arrow batches and know nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from naysay.arrays import Int64Array
from naysay.detect.result import Removal
from naysay.detect.spark.pairs import numbered, sorted_by
from naysay.detect.spark.worker import TaskRule, read
from naysay.plan.bind import Memo, bind, singles
from naysay.rule.model import Rule
from naysay.table import Table

# The column by which the rows stand in the order in which Spark read them.
PLACE = "place"
# The number that stands in the place of a rule's for what is said of all rules together.
ALL_RULES = -1

SCHEMA = pa.schema(
    [
        ("rule", pa.int32()),
        ("violations", pa.int64()),
        ("rows", pa.int64()),
        ("least", pa.int64()),
        ("most", pa.int64()),
        ("where", pa.list_(pa.int64())),
        ("shown", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class WholeRule:
    """A rule by position, as a task sees it that has the whole table."""

    rule: Rule
    task: TaskRule


@dataclass(frozen=True, slots=True)
class _Answer:
    """What was found about a rule. `rows` are in conflict, each with `partners` others; left and right are shown."""

    violations: int
    removal: Removal
    rows: Int64Array
    partners: Int64Array
    left: Int64Array
    right: Int64Array | None


def check_partition(
    batches: Iterable[pa.RecordBatch],
    rules: tuple[WholeRule, ...],
    names: tuple[str, ...],
    n_sample: int,
    number_copies: bool,
) -> Iterator[pa.RecordBatch]:
    """All that a report says: a record for each rule, and one for ALL_RULES.

    `shown` of a rule are its sample, first all left rows and then all right rows, with the columns `names` of their
    identity and those of the rule. `shown` of ALL_RULES are the rows most often in conflict: their identity, with how
    many `conflicts`, and which `rules` they break.
    """
    from naysay.detect.result import Conflicts, Tally, busiest_rows, slices

    table = read(batches)
    if table is None:
        return
    table = _in_order(table, names[0] if number_copies else None)
    tally = Tally(table.n_rows)
    memo = Memo()
    found = []
    for each in rules:
        answer = _checked(table, each.task, n_sample, memo)
        tally.add(each.rule, Conflicts(answer.rows, answer.partners))
        shown = answer.left if answer.right is None else np.concatenate((answer.left, answer.right))
        packed = _packed(table.select([*names, *each.task.columns]).take(shown)) if shown.size else b""
        removal = (answer.removal.least, answer.removal.most)
        where = slices(answer.rows, table.n_rows)
        found.append((each.task.number, answer.violations, answer.rows.size, *removal, where, packed))
    n_rows, busiest = busiest_rows(table, (), [each.rule for each in rules], tally)
    rows = np.array([row.identity["row"] for row in busiest], np.int64)
    named = table.select(names).take(rows)
    named = named.append_column("conflicts", pa.array([row.conflicts for row in busiest], pa.int64()))
    numbers = [[rules[place].task.number for place in row.rules] for row in busiest]
    named = named.append_column("rules", pa.array(numbers, pa.list_(pa.int32())))
    found.append((ALL_RULES, 0, n_rows, 0, 0, (), _packed(named)))
    yield pa.record_batch(
        [pa.array(list(column), field.type) for column, field in zip(zip(*found, strict=True), SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def _in_order(table: Table, copies: str | None) -> Table:
    arrow = sorted_by(table.arrow, [PLACE]).drop_columns([PLACE]).combine_chunks()
    if copies is not None:
        names = numbered(arrow.column(copies).combine_chunks())
        arrow = arrow.set_column(arrow.schema.get_field_index(copies), copies, names)
    return Table(arrow)


def _checked(table: Table, rule: TaskRule, n_sample: int, memo: Memo) -> _Answer:
    from naysay.detect.partners import partners, total_of
    from naysay.detect.removal import rows_to_remove
    from naysay.detect.violations import CANDIDATES, conflict_counts, partners_of_right, varied, violations

    if rule.join.one_row:
        rows = singles(table, rule.join, rule.nulls)
        return _Answer(rows.size, Removal(rows.size, rows.size), rows, np.ones_like(rows), rows[:n_sample], None)
    bound = bind(table, rule.join, rule.nulls, memo)
    counts = partners(bound)
    n_violations = total_of(counts)
    if n_violations == 0:
        none = np.empty(0, np.int64)
        return _Answer(0, Removal(0, 0), none, none, none, none)
    right_counts = partners_of_right(bound, counts)
    rows, of_rows = conflict_counts(bound, counts, right_counts)
    listed = violations(bound, max(CANDIDATES, 2 * n_sample) if n_sample else 0, counts)
    left, right = varied(listed.left, listed.right, n_sample, symmetric=rule.join.symmetric)
    return _Answer(n_violations, rows_to_remove(bound, counts, right_counts), rows, of_rows, left, right)


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpacked(packed: bytes, names: Sequence[str], types: Sequence[pa.DataType | None]) -> pa.Table:
    """What `_packed` packed, the named columns in the types that they are known by outside of tasks."""
    table: pa.Table = pa.ipc.open_stream(packed).read_all()
    for name, type_ in zip(names, types, strict=True):
        place = table.schema.get_field_index(name)
        if type_ is not None:
            # Tasks see instants in the zone of the session.
            table = table.set_column(place, name, table.column(place).cast(type_))
    return table
