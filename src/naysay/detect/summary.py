"""Everything a report says about one rule: computed by one function, merged by one method, on every engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from naysay.arrays import Int64Array
from naysay.detect.result import NOTHING_TO_REMOVE, Removal, RowConflicts, RuleResult, SamplePair, within_tolerance
from naysay.detect.strategy import Strategy
from naysay.errors import UsageError
from naysay.plan.bind import BoundJoin, Memo, bind, singles
from naysay.plan.join import Join
from naysay.rule import explain_pair
from naysay.rule.model import Nulls, Row, Rule
from naysay.rule.scan import columns_hint
from naysay.table import Table
from naysay.table.frame import plain_records

Shown = TypeVar("Shown")
Other = TypeVar("Other")
Rows = tuple[Int64Array, "Int64Array | None"]

_N_SLICES = 60
N_BUSIEST = 20


def _no_rows() -> Int64Array:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Conflicts:
    """What one rule finds in one table, by row numbers.

    `rows` are in conflict, ascending, each with `counts` others (1 for a one-row rule). `left` and `right` are the rows
    of violations to show; `right` is None for a one-row rule. Without the rows `suspects` the rule holds.
    """

    violations: int = 0
    removal: Removal = NOTHING_TO_REMOVE
    rows: Int64Array = field(default_factory=_no_rows)
    counts: Int64Array = field(default_factory=_no_rows)
    left: Int64Array = field(default_factory=_no_rows)
    right: Int64Array | None = field(default_factory=_no_rows)
    suspects: Int64Array = field(default_factory=_no_rows)


@dataclass(frozen=True, slots=True)
class RuleSummary(Generic[Shown]):
    """What a report says about one rule, for a whole table or for a part of it.

    `sample` holds violations to show, or what leads to them: rows of a task, or hashes. `where` counts the rows in
    conflict in equal slices of the table, first rows first.
    """

    violations: int = 0
    rows_in_conflict: int = 0
    removal: Removal = NOTHING_TO_REMOVE
    sample: tuple[Shown, ...] = ()
    where: tuple[int, ...] = ()

    @classmethod
    def of(cls, found: Conflicts, sample: tuple[Shown, ...], n_rows: int) -> RuleSummary[Shown]:
        """The summary of what was found in a table of `n_rows` rows."""
        return cls(found.violations, int(found.rows.size), found.removal, sample, slices(found.rows, n_rows))

    def with_sample(self, sample: tuple[Other, ...]) -> RuleSummary[Other]:
        """The same with another sample."""
        return RuleSummary(self.violations, self.rows_in_conflict, self.removal, sample, self.where)

    def merge(self, other: RuleSummary[Shown]) -> RuleSummary[Shown]:
        """The summary of both parts, if no row and no violation is in both."""
        removal = Removal(self.removal.least + other.removal.least, self.removal.most + other.removal.most)
        n_rows = self.rows_in_conflict + other.rows_in_conflict
        where = self._where_with(other)
        return RuleSummary(self.violations + other.violations, n_rows, removal, self.sample + other.sample, where)

    def _where_with(self, other: RuleSummary[Shown]) -> tuple[int, ...]:
        """Where the rows of both parts lie, if both know."""
        if not self.rows_in_conflict:
            return other.where
        if not other.rows_in_conflict:
            return self.where
        return tuple(map(add, self.where, other.where)) if len(self.where) == len(other.where) else ()


def rule_result(
    rule: Rule, summary: RuleSummary[SamplePair], n_rows: int, strategy: str, seconds: float, *, quick: bool
) -> RuleResult:
    """The summary of a whole table as a result. A quick check knows the numbers only of a rule with a tolerance."""
    holds = summary.violations == 0
    if quick and not holds and not rule.has_tolerance:
        return RuleResult(rule, False, False, None, None, None, summary.sample, strategy, seconds)
    has_enough_rows = rule.min_rows is None or n_rows >= rule.min_rows
    numbers = (summary.violations, summary.rows_in_conflict, summary.removal)
    passes = has_enough_rows and within_tolerance(rule, summary.violations, n_rows, *numbers[1:])
    return RuleResult(rule, holds, passes, *numbers, summary.sample, strategy, seconds, summary.where)


def check_rule(
    table: Table,
    join: Join,
    nulls: Nulls,
    n_sample: int,
    *,
    memo: Memo | None = None,
    strategy: Strategy | None = None,
    removal: bool = True,
) -> Conflicts:
    """Check one rule on a whole table; `strategy` counts and lists, if it is not the default."""
    from naysay.detect.violations import varied_pairs

    if join.one_row:
        return single_conflicts(singles(table, join, nulls), n_sample)
    bound = bind(table, join, nulls, memo)
    return find_conflicts(
        bound, lambda counts: varied_pairs(bound, counts, n_sample, strategy), strategy=strategy, removal=removal
    )


def single_conflicts(rows: Int64Array, n_sample: int) -> Conflicts:
    """The conflicts of a one-row rule that these rows break."""
    return Conflicts(rows.size, Removal(rows.size, rows.size), rows, np.ones_like(rows), rows[:n_sample], None, rows)


def find_conflicts(
    bound: BoundJoin,
    choose: Callable[[Int64Array], Rows],
    met: Callable[[BoundJoin], Int64Array] | None = None,
    *,
    strategy: Strategy | None = None,
    removal: bool = True,
) -> Conflicts:
    """Everything there is to know about a bound join.

    `choose` picks rows to show, given the number of partners of each left row. `strategy` counts, if it is not the
    default. `met` says for each left row how many of its partners are the row itself, sent twice.
    """
    from naysay.detect.partners import is_hard, partners, total_of
    from naysay.detect.removal import rows_to_remove
    from naysay.detect.violations import both_ways, conflict_counts, count

    n_violations = None
    if strategy is not None:
        n_violations = strategy.count(bound)
    elif met is None and not is_hard(bound):
        # Cheaper than the partners of each row, which most rules that hold never need.
        n_violations = count(bound)
    if n_violations == 0:
        return Conflicts()

    def partners_in(join: BoundJoin) -> Int64Array:
        return partners(join) if met is None else partners(join) - met(join)

    counts = partners_in(bound)
    n_violations = total_of(counts) if n_violations is None else n_violations
    if n_violations == 0:
        return Conflicts()
    right_counts = counts if both_ways(bound) else partners_in(bound.swapped())
    n_removed, suspects = rows_to_remove(bound, counts, right_counts) if removal else (NOTHING_TO_REMOVE, _no_rows())
    in_conflict = conflict_counts(bound, counts, right_counts)
    return Conflicts(n_violations, n_removed, *in_conflict, *choose(counts), suspects)


def slices(rows: Int64Array, n_rows: int) -> tuple[int, ...]:
    """How many of the rows lie in each of 60 equal slices of the table (fewer if it has fewer rows)."""
    if not rows.size:
        return ()
    n_slices = min(_N_SLICES, n_rows)
    return tuple(np.bincount(rows * n_slices // n_rows, minlength=n_slices).tolist())


class Tally:
    """The conflicts of all rows over the rules of a check, one bit per row and rule. Threads may add rules at once."""

    def __init__(self, n_rows: int) -> None:
        self.totals = np.zeros(n_rows, np.int64)
        self._bits: dict[int, NDArray[np.uint8]] = {}
        self._lock = threading.Lock()

    def add(self, rule: object, conflicts: Conflicts) -> None:
        broken = np.zeros(self.totals.size, np.bool_)
        broken[conflicts.rows] = True
        with self._lock:
            self.totals[conflicts.rows] += conflicts.counts
            self._bits[id(rule)] = np.packbits(broken)

    def breaks(self, row: int, rule: object) -> bool:
        """Whether a row is in conflict with a rule that was added."""
        return bool(self._bits[id(rule)][row >> 3] >> (7 - (row & 7)) & 1)


def busiest_rows(
    table: Table, key: Sequence[str], rules: Sequence[object], tally: Tally
) -> tuple[int, tuple[RowConflicts, ...]]:
    """How many rows are in conflict, and the twenty with the most conflicts over all rules."""
    in_conflict = np.flatnonzero(tally.totals)
    if not in_conflict.size:
        return 0, ()
    # A stable sort of the negated numbers: of rows in equally many conflicts the first.
    order = np.argsort(-tally.totals[in_conflict], kind="stable")[:N_BUSIEST]
    busiest = in_conflict[order]
    found = []
    for identity, row in zip(row_identities(table, key, busiest), busiest.tolist(), strict=True):
        broken = tuple(place for place, rule in enumerate(rules) if tally.breaks(row, rule))
        found.append(RowConflicts(identity, int(tally.totals[row]), broken))
    return int(in_conflict.size), tuple(found)


def compared_columns(rule: Rule, row: Row) -> list[str]:
    """The columns that the rule looks at in one of its rows, each once."""
    return list(dict.fromkeys(column.name for column in rule.columns if column.row is row))


def identities(table: Table, key: Sequence[str], rows: Int64Array) -> pa.Array:
    """The rows by their key: one key column as it is, several as a struct; without a key the row numbers."""
    if not key:
        return pa.array(rows, pa.int64())
    taken = [column.combine_chunks() for column in table.select(key).take(rows).columns]
    return taken[0] if len(key) == 1 else pa.StructArray.from_arrays(taken, names=list(key))


def check_key(table: Table, key: Sequence[str]) -> None:
    missing = [name for name in key if name not in table.names]
    if missing:
        raise UsageError(f"the key column {missing[0]!r} is not in the table; {columns_hint(missing[0], table.names)}")


def pairs_table(table: Table, rule: Rule, key: Sequence[str], left: Int64Array, right: Int64Array | None) -> pa.Table:
    """Violations as a table: rule, left, right, then left_COLUMN and right_COLUMN for each compared column."""
    n_pairs = len(left)
    left_identities = identities(table, key, left)
    columns: dict[str, Any] = {
        "rule": pa.array([rule.name] * n_pairs, pa.string()),
        "left": left_identities,
        "right": pa.nulls(n_pairs, left_identities.type) if right is None else identities(table, key, right),
    }
    for prefix, row, rows in (("left", Row.LEFT, left), ("right", Row.RIGHT, right)):
        if rows is None:
            continue
        names = compared_columns(rule, row)
        for name, column in zip(names, table.select(names).take(rows).columns, strict=True):
            columns[f"{prefix}_{name}"] = column
    return pa.table(columns)


def sample_pairs(
    table: Table, rule: Rule, key: Sequence[str], left: Int64Array, right: Int64Array | None
) -> tuple[SamplePair, ...]:
    """A few violations for a person, each with its reason in words."""
    lefts = _records(table, rule, key, left, Row.LEFT)
    if right is None:
        return tuple(SamplePair(name, None, values, None, explain_pair(rule, values, values)) for name, values in lefts)
    rights = _records(table, rule, key, right, Row.RIGHT)
    return tuple(
        SamplePair(name, other_name, values, others, explain_pair(rule, values, others))
        for (name, values), (other_name, others) in zip(lefts, rights, strict=True)
    )


def _records(
    table: Table, rule: Rule, key: Sequence[str], rows: Int64Array, row: Row
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    values = plain_records(table.select(compared_columns(rule, row)).take(rows))
    return list(zip(row_identities(table, key, rows), values, strict=True))


def row_identities(table: Table, key: Sequence[str], rows: Int64Array) -> list[dict[str, Any]]:
    """Each row by its key, as in a `SamplePair`; without a key by its number."""
    return plain_records(table.select(key).take(rows)) if key else [{"row": int(row)} for row in rows]
