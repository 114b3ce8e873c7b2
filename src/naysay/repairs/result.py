"""What `repair` returns: suggestions for cells, what they do to each rule, and a copy of the table with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from naysay.arrays import Int64Array
from naysay.detect.result import within_tolerance
from naysay.errors import UsageError
from naysay.present import Result, present
from naysay.rule.model import Nulls, Rule, Severity
from naysay.table import Table
from naysay.table.compatibility import place
from naysay.table.frame import plain_values, to_arrow

# For each changed column, the changed rows and for each of them the row that has the new value in the table.
Origins = Mapping[str, tuple[Int64Array, Int64Array]]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A new value for one cell.

    Attributes:
        row: The row number, from 0.
        identity: The key columns of the row, or its row number.
        column: The column.
        old: The value now; None for null.
        new: The value that the rules agree on.
        reason: The vote that speaks for it, in words.
        confidence: The share of the votes for the new value, with one more vote against it; between 0 and 1.
        removed: The number of violations that the change removes, over all rules that are keys or dependencies, in the
            table as it was when the suggestion was made, with the suggestions of earlier rounds.
        added: The number of violations that the change adds, counted in the same way.
        rules: The places in `Repair.rules` of the rules that vote for the new value.
        round: 1, or more if the suggestion needs those of earlier rounds.
    """

    row: int
    identity: Mapping[str, Any]
    column: str
    old: Any
    new: Any
    reason: str
    confidence: float
    removed: int
    added: int
    rules: tuple[int, ...]
    round: int


@dataclass(frozen=True, slots=True)
class RuleRepair:
    """What the suggestions do to one rule.

    Attributes:
        rule: The rule.
        before: The number of violations in the table.
        after: The number of violations that remain if all suggestions are applied, counted anew.
        n_suggestions: The number of suggestions that the rule votes for.
        abstains: Why a broken rule suggests nothing; empty if it does.
    """

    rule: Rule
    before: int
    after: int
    n_suggestions: int
    abstains: str = ""


@dataclass(frozen=True, slots=True)
class Repair(Result):
    """Suggestions for the cells of a table. Iterate over it, or use `repair[0]`, for the suggestions.

    Attributes:
        suggestions: One `Suggestion` per cell, by row and then by column.
        rules: One `RuleRepair` per rule, in the order of the rules.
        source: The name of the table, if it is known.
        n_rows: The number of rows.
        min_confidence: Suggestions below this confidence were dropped.
        key: The columns that identify a row; none if the row number does.
        nulls: What a comparison with null meant.
        seconds: How long it took.
    """

    suggestions: tuple[Suggestion, ...]
    rules: tuple[RuleRepair, ...]
    source: str
    n_rows: int
    min_confidence: float
    key: tuple[str, ...]
    nulls: Nulls
    seconds: float
    data: Table = field(repr=False, compare=False)
    frame: Any = field(repr=False, compare=False)
    origins: Origins = field(repr=False, compare=False)

    def __repr__(self) -> str:
        return (
            f"<Repair: {len(self.suggestions):,} suggestions, {self.before:,} violations before, {self.after:,} after>"
        )

    def __len__(self) -> int:
        return len(self.suggestions)

    def __iter__(self) -> Iterator[Suggestion]:
        return iter(self.suggestions)

    def __getitem__(self, number: int) -> Suggestion:
        return self.suggestions[number]

    @property
    def before(self) -> int:
        """The number of violations in the table, over all rules."""
        return sum(rule.before for rule in self.rules)

    @property
    def after(self) -> int:
        """The number of violations that remain if all suggestions are applied, over all rules."""
        return sum(rule.after for rule in self.rules)

    @property
    def passes(self) -> bool:
        """Whether every rule of severity error holds, or stays within its tolerance, if all suggestions are applied."""
        return all(
            rule.rule.severity is not Severity.ERROR or within_tolerance(rule.rule, rule.after, self.n_rows)
            for rule in self.rules
        )

    @property
    def table(self) -> pa.Table:
        """The suggestions as an Arrow table: row (or the key), column, old, new, reason, confidence, removed, added."""
        table: pa.Table = present(self, "table")
        return table

    def to_json(self) -> str:
        """Return the result as the text of a JSON document, as `--format json` prints it.

        Returns:
            The text of the document, ASCII only.
        """
        return str(present(self, "json"))

    def apply(self, frame: Any = None) -> Any:
        """Return a copy of the table with all suggestions applied; the table itself is never changed.

        Args:
            frame: The table that the suggestions were made for, if the copy should be of another kind, such as a pandas
                DataFrame. Default: the frame given to `repair`.

        Returns:
            A pandas or Polars DataFrame if the frame is one, an Arrow table otherwise. Columns keep their types.

        Raises:
            UsageError: The frame is not the table that the suggestions were made for.
        """
        chosen = self.frame if frame is None else frame
        # A data frame may have been changed since then.
        if chosen is not self.data:
            _require_same(self.data.arrow, _arrow(chosen), self.origins)
        return changed_copy(chosen, self.origins)


def _arrow(frame: Any) -> pa.Table:
    return frame.arrow if isinstance(frame, Table) else to_arrow(frame)


def _require_same(ours: pa.Table, theirs: pa.Table, origins: Origins) -> None:
    """Refuse a frame with other rows or columns, or with other values in the cells that suggestions are about."""
    if ours.num_rows != theirs.num_rows or ours.column_names != theirs.column_names:
        raise UsageError(
            f"the suggestions are for a table of {ours.num_rows:,} rows with the columns "
            f"{', '.join(ours.column_names)}; run repair on this frame first"
        )
    for name, parts in origins.items():
        asked = np.concatenate(parts)
        values = (plain_values(Table(table.select([name])).take(asked).column(0)) for table in (ours, theirs))
        # NaN differs from itself.
        if any(one != other and (one == one or other == other) for one, other in zip(*values, strict=True)):
            raise UsageError(f"column {name!r} has changed since the suggestions were made; run repair on it again")


def _places(n_rows: int, parts: tuple[Int64Array, Int64Array]) -> Int64Array:
    rows, origins = parts
    places = np.arange(n_rows)
    places[rows] = origins
    return places


def is_data_frame(frame: Any) -> bool:
    """Whether a frame is a DataFrame of pandas or Polars."""
    return hasattr(frame, "iloc") or (type(frame).__module__.startswith("polars") and hasattr(frame, "height"))


def changed_copy(frame: Any, origins: Origins) -> Any:
    """A frame of the same kind in which cells have the values of other rows."""
    if hasattr(frame, "iloc"):
        return _changed_pandas(frame, origins)
    if is_data_frame(frame):
        columns = [frame[name].gather(_places(frame.height, parts)) for name, parts in origins.items()]
        return frame.with_columns(columns)
    return changed_table(_arrow(frame), origins)


def changed_table(table: pa.Table, origins: Origins) -> pa.Table:
    """An Arrow table in which cells have the values of other rows; the types stay."""
    for name, parts in origins.items():
        number = place(table.schema, name)
        field_ = table.schema.field(number)
        taken = Table(table.select([number])).take(_places(table.num_rows, parts)).column(0)
        column = taken if taken.type == field_.type else _cast(taken, field_.type)
        table = table.set_column(number, field_, column)
    return table


def _cast(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Back to a type that rows could not be taken from."""
    if pa.types.is_dictionary(type_):
        column = column.dictionary_encode()
    elif pa.types.is_run_end_encoded(type_):
        return pa.chunked_array([pa.compute.run_end_encode(column.combine_chunks(), type_.run_end_type)])
    return column.cast(type_)


def _changed_pandas(frame: Any, origins: Origins) -> Any:
    copy = frame.copy()
    names = [str(name) for name in frame.columns]
    for name, parts in origins.items():
        if name not in names:
            raise UsageError(f"column {name!r} is the index of the frame; call reset_index() and run repair on that")
        number = names.index(name)
        copy.isetitem(number, frame.iloc[:, number].array.take(_places(len(frame), parts)))
    return copy
