"""What the verbs return, the same for every engine."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from naysay.present import Document, Result
from naysay.rule.model import Nulls, Rule, Severity
from naysay.rule.render import render
from naysay.table import Table
from naysay.table.frame import plain_records


@dataclass(frozen=True, slots=True)
class Removal:
    """The fewest rows to delete so that a rule, or all rules, hold: exact if `least == most`, otherwise an interval."""

    least: int
    most: int

    @property
    def is_exact(self) -> bool:
        return self.least == self.most

    def __str__(self) -> str:
        return f"{self.least:,}" if self.is_exact else f"{self.least:,} to {self.most:,}"


NOTHING_TO_REMOVE = Removal(0, 0)


@dataclass(frozen=True, slots=True)
class SamplePair:
    """One violation to show a person: which rows, what the rule compared in them, and why it breaks the rule.

    `left` and `right` identify the rows (the user's key columns, or `row`, the row number from 0); for a one-row rule
    `right` is None. `left_values` and `right_values` hold the compared columns.
    """

    left: Mapping[str, Any]
    right: Mapping[str, Any] | None
    left_values: Mapping[str, Any]
    right_values: Mapping[str, Any] | None
    reason: str


class Listing(Result):
    """What a rule found, as a table: the same columns, length, iteration, Arrow and pandas on every engine."""

    __slots__ = ()
    noun: ClassVar[str] = "violation"

    if TYPE_CHECKING:
        # For readers only: a dataclass would take a property of its base for the default of its field.
        @property
        def rule(self) -> Rule | None: ...
        @property
        def table(self) -> pa.Table: ...
        @property
        def total(self) -> int: ...
        def __len__(self) -> int: ...

    def head(self, n: int) -> pa.Table:
        """Return the first `n` rows of what is listed as an Arrow table."""
        return self.table.slice(0, n)

    @property
    def complete(self) -> bool:
        """Whether everything that was found is listed."""
        return len(self) == self.total

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(plain_records(self.table))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """Return what is listed as an Arrow table."""
        return self.table

    def to_pandas(self) -> Any:
        """Return what is listed as a pandas DataFrame."""
        return self.table.to_pandas()


@dataclass(frozen=True, slots=True)
class Suspect:
    """A row to look at first: its identity, as in a SamplePair, and the values of the rule's columns in it."""

    row: Mapping[str, Any]
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ValueGroup:
    """Rows that agree in the key of a dependency but not in its value: each value and its rows, the commonest first."""

    key: Mapping[str, Any]
    values: tuple[tuple[Any, int], ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """A part of a segment: rows with a value in a column, or with one from `low` to `high`, both included.

    Attributes:
        kind: `"value"` (`low` and `high` are the value), `"range"`, `"rows"` (row numbers from 0; `column` is None), or
            `"file"` (the name of one of the files that were read).
        column: The column.
        low: The least value.
        high: The greatest value.
    """

    kind: str
    column: str | None
    low: Any
    high: Any


@dataclass(frozen=True, slots=True)
class Cause:
    """A segment of the table that holds many more of the rows to fix than chance explains.

    Attributes:
        conditions: What the rows of the segment have in common.
        suspects: How many of the suspects are in it. If `rows_to_remove` is an interval, innocent rows are among the
            suspects; then it is the rows with the most conflicts that count, as many as must go at least.
        of_suspects: The number of suspects: all of them for the first cause, then those in no earlier one.
        rows: How many rows are in it, of those that the rule could find broken.
        of_rows: The number of those rows: all of them for the first cause, then those in no earlier one.
        p_value: How likely it is, at most, that chance puts so many of the suspects into one segment, corrected for
            the number of segments tried.
    """

    conditions: tuple[Condition, ...]
    suspects: int
    of_suspects: int
    rows: int
    of_rows: int
    p_value: float

    @property
    def lift(self) -> float:
        """How many times as many suspects it has as its share of the rows."""
        return (self.suspects / self.of_suspects) / (self.rows / self.of_rows)


@dataclass(frozen=True, slots=True)
class Caution:
    """A warning that the answer is right but may mislead because of what is in the data.

    Attributes:
        code: The kind of trap: `"empty-table"`, `"text-order"`, `"unknown-constant"`, `"untested"` or `"future-value"`.
        message: What is wrong and what to do.
        column: The column that it is about, if there is one.
        value: The value that reveals it: the first that is not a number, or the one nearest to a constant.
        row: The first row that has the value, identified as in the sample of a rule.
    """

    code: str
    message: str
    column: str | None = None
    value: Any = None
    row: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What a rule about the whole table measured: the number of rows, or the newest value of a column; and in words."""

    value: Any
    text: str


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What a check found out about one rule.

    Attributes:
        rule: The rule.
        holds: Whether no pair of rows breaks it.
        passes: Whether it holds or is broken within its tolerance, on a table with the rows that it needs.
        violations: The number of ordered pairs that break it (of rows, for a rule about single rows; 0 or 1, for a rule
            about the whole table). This and the next two are None if a quick check stopped at the first violation.
        rows_in_conflict: The number of rows that take part in a violation.
        rows_to_remove: The fewest rows to delete so that it holds, as `least` and `most`.
        sample: Some violations, each with both rows and the reason.
        strategy: How it was checked.
        seconds: How long that took.
        where: The number of rows in conflict in each of up to 60 equal slices of the table, first rows first.
        warnings: The traps in the data that concern it, each a `Caution`.
        first_suspects: The first of the `suspects`.
        first_groups: The first of the `groups`.
        causes: Segments of the table that hold most of the suspects, each a `Cause`; empty if nothing stands out.
        suspects: Rows without which the rule holds: `rows_to_remove.most` of them. A table of row (as `left` in
            violations) and the columns of the rule. None if the rule holds, after a quick check, in a report that was
            read from a file, and on Spark for rules whose groups were cut into parts.
        measured: For a rule about the whole table: what was measured, as `value` and as `text`.
        groups: For a dependency such as `zip -> city`: each key with several values, the most lopsided first. A table
            of the key, rows, and values (a list of value and rows). None as for `suspects`, and for other rules.
    """

    rule: Rule
    holds: bool
    passes: bool
    violations: int | None
    rows_in_conflict: int | None
    rows_to_remove: Removal | None
    sample: tuple[SamplePair, ...]
    strategy: str
    seconds: float
    where: tuple[int, ...] = ()
    warnings: tuple[Caution, ...] = ()
    first_suspects: tuple[Suspect, ...] = ()
    first_groups: tuple[ValueGroup, ...] = ()
    causes: tuple[Cause, ...] = ()
    suspects: Listing | None = field(default=None, compare=False)
    groups: Listing | None = field(default=None, compare=False)
    measured: Measured | None = None

    @property
    def is_undecided(self) -> bool:
        """Whether it fails only because `rows_to_remove` is an interval that `max_remove` lies in."""
        removal, limit = self.rows_to_remove, self.rule.max_remove
        return not self.passes and removal is not None and limit is not None and removal.least <= limit < removal.most

    def shortened(self, n_shown: int) -> RuleResult:
        """The same with at most `n_shown` pairs, suspects and groups to show."""
        first = (self.sample[:n_shown], self.first_suspects[:n_shown], self.first_groups[:n_shown])
        return replace(self, sample=first[0], first_suspects=first[1], first_groups=first[2])

    def __repr__(self) -> str:
        found = "holds" if self.holds else "is broken"
        if not self.holds and self.violations is not None:
            found = f"{self.violations:,} violations, {self.rows_to_remove} rows to remove"
        return f"<{self.rule.name or render(self.rule, short=True)}: {found}>"


@dataclass(frozen=True, slots=True)
class RowConflicts:
    """A row in conflict, and with how many others.

    Attributes:
        identity: The key of the row, or its number, as in a SamplePair.
        conflicts: The number of rows it conflicts with, summed over the rules. A pair that breaks a rule in both
            directions counts twice, unless the rule is symmetric.
        rules: The places in `Report.results` of the rules that it breaks.
    """

    identity: Mapping[str, Any]
    conflicts: int
    rules: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A column of the table: its type in words of the engine, and how many of its values are null."""

    name: str
    type: str
    n_nulls: int | None = None


@dataclass(frozen=True, slots=True)
class Report(Document):
    """What a check found out about a table. Iterate over it, or use `report[0]` or `report["name"]`, for the results.

    Attributes:
        engine: `"local"` or `"spark"`.
        source: The name of the table, if it is known.
        n_rows: The number of rows.
        columns: The names of all columns.
        results: One `RuleResult` per rule, in the order of the rules.
        seconds: How long the check took.
        identity: How rows are identified: the key columns, or the row number.
        nulls: What a comparison with null meant.
        rows_in_conflict: The number of rows that break any rule; None if the engine does not determine it.
        busiest: The rows most often in conflict; empty if the engine does not determine them.
        schema: Name, type and number of nulls of each column.
        table_warnings: The warnings about the table itself, such as that it is empty.
        strict: Whether warnings fail the check.
        rules_source: The names of the rules files, if they are known.
        left_out: How many rules of these files were not checked because they are not accepted, by their status.
        run_id: A random ID of this check; empty in a report of an earlier version.
        time: When the check ended, in UTC; None in a report of an earlier version.
        rows_to_remove: The fewest rows to delete so that all rules hold together, as `least` and `most`; None unless
            the check was asked for it (`joint`).
        first_suspects: The first of the `suspects`.
        suspects: Rows without which all rules hold: `rows_to_remove.most` of them. A table of row and the columns of
            the broken rules. None if they all hold, without `joint`, in a report that was read from a file, and on
            Spark if more rows are in conflict than fit in a task.

    >>> from naysay import check
    >>> report = check(pa.table({"zip": [1, 1], "city": ["Ulm", "Bonn"]}), "zip -> city")
    >>> report.passes, report[0].violations
    (False, 2)
    """

    engine: str
    source: str
    n_rows: int
    columns: tuple[str, ...]
    results: tuple[RuleResult, ...]
    seconds: float
    identity: str
    nulls: Nulls = Nulls.SQL
    rows_in_conflict: int | None = None
    busiest: tuple[RowConflicts, ...] = ()
    schema: tuple[ColumnFacts, ...] = ()
    table_warnings: tuple[Caution, ...] = ()
    strict: bool = False
    rules_source: str = ""
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12], compare=False)
    time: datetime | None = field(default_factory=lambda: datetime.now(timezone.utc), compare=False)
    rows_to_remove: Removal | None = None
    first_suspects: tuple[Suspect, ...] = ()
    suspects: Listing | None = field(default=None, compare=False)
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        n_broken = sum(not result.holds for result in self.results)
        of = f" of {self.source}" if self.source else ""
        rules = f"{len(self)} rule{'' if len(self) == 1 else 's'}"
        return f"<Report{of}: {n_broken} of {rules} broken, {self.n_rows:,} rows, {self.engine} engine>"

    @property
    def warnings(self) -> tuple[Caution, ...]:
        """All warnings, each once: first those about the table, then those about rules, in their order."""
        found = list(self.table_warnings)
        for result in self.results:
            found += [caution for caution in result.warnings if caution not in found]
        return tuple(found)

    @property
    def passes(self) -> bool:
        """Whether all rules of severity `error` pass; if strict, also those of severity `warning`, without warnings."""
        failing = (Severity.ERROR, Severity.WARNING) if self.strict else (Severity.ERROR,)
        if self.strict and self.warnings:
            return False
        return not any(not result.passes and result.rule.severity in failing for result in self.results)

    @property
    def exit_code(self) -> int:
        """The exit code of `naysay check`: 0 if the report passes, else 1."""
        return 0 if self.passes else 1

    def __iter__(self) -> Iterator[RuleResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, which: int | str) -> RuleResult:
        if isinstance(which, int):
            return self.results[which]
        for result in self.results:
            if result.rule.name == which:
                return result
        raise KeyError(which)


def within_tolerance(
    rule: Rule, violations: int, n_rows: int, in_conflict: int | None = None, removal: Removal | None = None
) -> bool:
    """Whether the rule tolerates what was found: one tolerance that is met is enough.

    The share of violations is of ordered pairs, or of rows. A tolerance for rows whose number is not known is not met,
    nor is one for rows to remove that lies inside of their interval.
    """
    if violations == 0:
        return True
    n_possible = n_rows if rule.is_one_row else n_rows * (n_rows - 1)
    limits = (
        (violations, rule.max_violations),
        (violations, _share_of(rule.max_fraction, n_possible)),
        (in_conflict, rule.max_rows),
        (in_conflict, _share_of(rule.max_rows_fraction, n_rows)),
        (None if removal is None else removal.most, rule.max_remove),
    )
    return any(found is not None and limit is not None and found <= limit for found, limit in limits)


def _share_of(fraction: float | None, number: int) -> Fraction | None:
    # As it is written: 0.29 of 100 is 29, which a product of floats misses.
    return None if fraction is None else Fraction(repr(float(fraction))) * number


@dataclass(frozen=True, slots=True)
class Verdict(Result):
    """Whether a rule holds. A verdict is true if it does, and false otherwise.

    Attributes:
        rule: The rule.
        holds: Whether no pair of rows breaks it.
        witness: One violation if it does not hold.

    >>> from naysay import verify
    >>> bool(verify(pa.table({"a": [1, 2]}), "key(a)"))
    True
    """

    rule: Rule
    holds: bool
    witness: SamplePair | None = None

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        text = render(self.rule, short=True)
        if self.holds:
            return f"<{text} holds>"
        return f"<{text} is broken>" if self.witness is None else f"<{text} is broken: {self.witness.reason}>"


@dataclass(frozen=True, slots=True)
class Violations(Listing):
    """The pairs of rows that break a rule. Dataframe libraries read it as they read Arrow data.

    Iterate over it for one dict per violation. On Spark there is also `data`, a DataFrame of the same columns.

    Attributes:
        rule: The rule.
        table: One row per pair: rule, left, right, left_COLUMN... and right_COLUMN... `left` and `right` are row
            numbers from 0, or the values of the key.
        total: The number of all violations, even if a limit cut the table short.

    >>> from naysay import violations
    >>> found = violations(pa.table({"a": [1, 1, 1]}), "key(a)", limit=2)
    >>> len(found), found.total, found.complete
    (2, 6, False)
    >>> [(pair["left"], pair["right"]) for pair in found]
    [(0, 1), (0, 2)]
    """

    rule: Rule
    table: pa.Table
    total: int

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        of = "" if self.complete else f" of {self.total:,}"
        return f"<Violations of {render(self.rule, short=True)}: {len(self):,}{of} listed>"


def facts(table: Table) -> tuple[ColumnFacts, ...]:
    """Name, type and number of nulls of each column."""
    return tuple(
        ColumnFacts(field.name, str(field.type), _n_nulls(column))
        for field, column in zip(table.arrow.schema, table.arrow.columns, strict=True)
    )


def _n_nulls(column: pa.ChunkedArray) -> int:
    """How many values are null, also if a dictionary or a run holds the null."""
    if pa.types.is_run_end_encoded(column.type) or (
        pa.types.is_dictionary(column.type) and any(chunk.dictionary.null_count for chunk in column.chunks)
    ):
        return int(pc.sum(pc.is_null(column)).as_py() or 0)
    return int(column.null_count)
