"""What the verbs return, the same for every engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from naysay.rule.model import Nulls, Rule, Severity
from naysay.rule.render import render
from naysay.table import Table


@dataclass(frozen=True, slots=True)
class Removal:
    """The fewest rows to delete so that a rule holds: exact if `least == most`, otherwise an interval."""

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


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What a check found out about one rule.

    `violations` counts ordered pairs (rows, for a one-row rule). After a quick check it, `rows_in_conflict` and
    `rows_to_remove` are None if the rule is broken and tolerates nothing: the check stopped at the first violation.
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
    # How many of the rows in conflict lie in each of up to 60 equal slices of the table, first rows first.
    where: tuple[int, ...] = ()

    def __repr__(self) -> str:
        found = "holds" if self.holds else "is broken"
        if not self.holds and self.violations is not None:
            found = f"{self.violations:,} violations, {self.rows_to_remove} rows to remove"
        return f"<{self.rule.name or render(self.rule, short=True)}: {found}>"


@dataclass(frozen=True, slots=True)
class RowConflicts:
    """A row by its identity, as in a SamplePair; with how many others it conflicts, summed over the rules (twice for a
    pair that breaks a rule both ways round, unless the rule is symmetric); and the places in `Report.results` of the
    rules that it breaks."""

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
class Report:
    """What a check of many rules found out about a table.

    `rows_in_conflict` counts rows that break any of the rules, `busiest` are those most often in conflict;
    both are left out if the engine does not determine them.
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

    def __repr__(self) -> str:
        n_broken = sum(not result.holds for result in self.results)
        of = f" of {self.source}" if self.source else ""
        return f"<Report{of}: {n_broken} of {len(self)} rules broken, {self.n_rows:,} rows, {self.engine} engine>"

    @property
    def passes(self) -> bool:
        """No rule of severity `error` is broken beyond its tolerance."""
        return not any(not result.passes and result.rule.severity is Severity.ERROR for result in self.results)

    @property
    def exit_code(self) -> int:
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


def within_tolerance(rule: Rule, violations: int, n_rows: int) -> bool:
    """Whether a number of violations is one that the rule tolerates; the share is of ordered pairs, or of rows."""
    if violations == 0:
        return True
    if rule.max_violations is not None and violations <= rule.max_violations:
        return True
    n_possible = n_rows if rule.is_one_row else n_rows * (n_rows - 1)
    # As it is written: 0.29 of 100 is 29, which a product of floats misses.
    return rule.max_fraction is not None and violations <= Fraction(repr(float(rule.max_fraction))) * n_possible


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a rule holds, and one violation if it does not. True or false as the rule holds or not.

    `holds` is what was found out about all rows. It never follows from the lack of a witness.
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
class Violations:
    """The pairs that break a rule, as a table: rule, left, right, and the compared values of both rows.

    `left` and `right` are row numbers from 0, or the values of the key columns if a key was given. `total` is the
    number of all violations, even if a limit cut the table short. Any dataframe library reads it as it reads Arrow.
    """

    rule: Rule
    table: pa.Table
    total: int

    @property
    def complete(self) -> bool:
        """All violations are listed."""
        return len(self) == self.total

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        of = "" if self.complete else f" of {self.total:,}"
        return f"<Violations of {render(self.rule, short=True)}: {len(self):,}{of} listed>"

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        return self.table.to_pandas()


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
