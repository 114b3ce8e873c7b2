"""Results without the values of some columns: each becomes `(hidden)`, and reasons are written anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from naysay.detect.result import Listing, Report, RuleResult, SamplePair, Suspect, ValueGroup, Verdict
from naysay.rule import explain_pair
from naysay.rule.describe import HIDDEN
from naysay.rule.model import Op, Rule, is_pair
from naysay.table.looks import Seen

Values = TypeVar("Values", bound="Mapping[str, Any] | None")


class Mask(Enum):
    """What is hidden of a column of a listing: all of it, or the value of each entry of a list."""

    ALL = "all"
    ENTRIES = "entries"


# What is hidden of each column of a listing; of an identity of several columns the fields.
Masks = Mapping[str, Mask | tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Hiding:
    """The columns to hide, and the columns that identify a row."""

    columns: tuple[str, ...]
    key: tuple[str, ...] = ()

    def report(self, report: Report) -> Report:
        if not self.columns:
            return report
        busiest = tuple(replace(row, identity=self._identity(row.identity)) for row in report.busiest)
        return replace(
            report,
            results=tuple(map(self._result, report.results)),
            busiest=busiest,
            first_suspects=self._suspects(report.first_suspects),
            suspects=None if report.suspects is None else self.listing(report.suspects),
        )

    def verdict(self, verdict: Verdict) -> Verdict:
        if not self.columns or verdict.witness is None:
            return verdict
        return replace(verdict, witness=self._pair(verdict.rule, verdict.witness))

    def listing(self, listing: Listing) -> Listing:
        """The listing with its hidden columns masked; one on Spark stays there."""
        masked = getattr(type(listing), "masked", None)
        if not self.columns:
            return listing
        return HiddenListing(listing, self) if masked is None else masked(listing, self)

    def seen(self, column: str, seen: Seen) -> Seen:
        """A value that a warning is about."""
        return replace(seen, row=self._identity(seen.row), is_hidden=column in self.columns)

    def _result(self, result: RuleResult) -> RuleResult:
        rule = result.rule
        return replace(
            result,
            sample=tuple(self._pair(rule, pair) for pair in result.sample),
            first_suspects=self._suspects(result.first_suspects),
            first_groups=tuple(self._group(rule, group) for group in result.first_groups),
            suspects=None if result.suspects is None else self.listing(result.suspects),
            groups=None if result.groups is None else self.listing(result.groups),
        )

    def _suspects(self, suspects: Sequence[Suspect]) -> tuple[Suspect, ...]:
        return tuple(Suspect(self._identity(one.row), self._values(one.values)) for one in suspects)

    def _pair(self, rule: Rule, pair: SamplePair) -> SamplePair:
        left, right = self._values(pair.left_values), self._values(pair.right_values)
        reason = explain_pair(rule, left, left if right is None else right)
        return SamplePair(self._identity(pair.left), self._identity(pair.right), left, right, reason)

    def _group(self, rule: Rule, group: ValueGroup) -> ValueGroup:
        values = group.values
        if _dependent(rule) in self.columns:
            values = tuple((HIDDEN, n_rows) for _, n_rows in values)
        return ValueGroup(self._values(group.key), values)

    def _identity(self, row: Values) -> Values:
        # Without a key, `row` is the number of a row, even if a column has that name.
        return self._values(row) if self.key else row

    def _values(self, values: Values) -> Values:
        if values is None:
            return values
        return {name: HIDDEN if name in self.columns else value for name, value in values.items()}  # type: ignore[return-value]

    def masks(self, listing: Listing, names: Sequence[str]) -> Masks:
        """What to hide of a listing with columns of these names."""
        if listing.noun == "group":
            *keys, _, values = names
            found: dict[str, Mask | tuple[str, ...]] = {name: Mask.ALL for name in keys if name in self.columns}
            return found | ({values: Mask.ENTRIES} if _dependent(listing.rule) in self.columns else {})
        identities = names[:1] if listing.noun == "suspect" else ("left", "right")
        prefixes = ("",) if listing.noun == "suspect" else ("left_", "right_")
        hidden = {f"{prefix}{column}" for prefix in prefixes for column in self.columns}
        found = {name: Mask.ALL for name in names if name in hidden and name not in identities}
        fields = tuple(name for name in self.key if name in self.columns)
        if fields:
            found |= dict.fromkeys(identities, Mask.ALL if len(self.key) == 1 else fields)
        return found


def _dependent(rule: Rule | None) -> str:
    """The column on the right of a dependency; empty for other rules."""
    predicates = () if rule is None else rule.predicates
    differs = (predicate.left.name for predicate in predicates if is_pair(predicate) and predicate.op is Op.NE)
    return next(differs, "")


@dataclass(frozen=True, slots=True)
class HiddenListing(Listing):
    """A listing in memory without the values of hidden columns."""

    inner: Listing
    hiding: Hiding

    @property
    def noun(self) -> str:  # type: ignore[override]
        return self.inner.noun

    @property
    def rule(self) -> Rule | None:
        return self.inner.rule

    @property
    def table(self) -> pa.Table:
        return self._masked(self.inner.table)

    @property
    def total(self) -> int:
        return self.inner.total

    def __len__(self) -> int:
        return len(self.inner)

    def head(self, n: int) -> pa.Table:
        return self._masked(self.inner.head(n))

    def __repr__(self) -> str:
        return repr(self.inner)

    def _masked(self, table: pa.Table) -> pa.Table:
        masks = self.hiding.masks(self.inner, table.column_names)
        return _masked(table, masks)


def hide_columns(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The table with `(hidden)` in these columns."""
    return _masked(table, dict.fromkeys(names, Mask.ALL))


def _masked(table: pa.Table, masks: Masks) -> pa.Table:
    named = zip(table.column_names, table.columns, strict=True)
    return pa.table([_mask(column, masks.get(name)) for name, column in named], names=table.column_names)


def _mask(column: pa.ChunkedArray, mask: Mask | tuple[str, ...] | None) -> pa.ChunkedArray | pa.Array:
    if mask is None:
        return column
    if mask is Mask.ALL:
        return pa.repeat(pa.scalar(HIDDEN), len(column))
    array = column.combine_chunks()
    if isinstance(mask, tuple):
        return _with_fields(array, mask)
    ends = pc.cumulative_sum(pc.list_value_length(array)).to_pylist()
    return pa.ListArray.from_arrays(pa.array([0, *ends], pa.int32()), _with_fields(array.flatten(), ("value",)))


def _with_fields(array: pa.StructArray, names: Sequence[str]) -> pa.StructArray:
    fields = [array.type.field(place).name for place in range(array.type.num_fields)]
    parts = [pa.repeat(pa.scalar(HIDDEN), len(array)) if name in names else array.field(name) for name in fields]
    return pa.StructArray.from_arrays(parts, names=fields)
