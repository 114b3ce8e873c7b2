"""The columns of a live table: fixed by the first frame; every later one is checked before anything changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from naysay.errors import RuleError, TableError, UsageError
from naysay.rule import parse, render
from naysay.rule.model import Nulls, Rule
from naysay.rule.scan import columns_hint
from naysay.table.column import Kind, kind_of
from naysay.table.frame import decoded, to_arrow

RuleLike = str | Rule
# The column with the row numbers of a table without a key.
ROW = "(row)"


def key_names(key: str | Sequence[str] | None) -> tuple[str, ...]:
    """The key columns as given to Watch or Evolver; UsageError if one is repeated."""
    names = (key,) if isinstance(key, str) else tuple(key or ())
    if repeated := _repeated(names):
        raise UsageError(f"duplicate key column {repeated[0]!r}")
    return names


def nulls_named(nulls: str | Nulls | None) -> Nulls:
    try:
        return Nulls.SQL if nulls is None else Nulls(nulls)
    except ValueError:
        raise UsageError(f"nulls must be 'sql' or 'equal', not {nulls!r}") from None


def name_of(rule: Rule) -> str:
    """Its name, or its text if it has none."""
    return rule.name or render(rule)


def named(rules: RuleLike | Sequence[RuleLike]) -> dict[str, Rule]:
    """Rules by name; UsageError if two have the same name."""
    given = [rules] if isinstance(rules, str | Rule) else rules
    found: dict[str, Rule] = {}
    for rule in given:
        parsed = parse(rule) if isinstance(rule, str) else rule
        if parsed.measure is not None:
            raise UsageError(f"{render(parsed)} is about the whole table; watch follows rows: use naysay check")
        if name_of(parsed) in found:
            raise UsageError(f"two rules are named {name_of(parsed)!r}; give them different names")
        found[name_of(parsed)] = parsed
    return found


def find_rule(rules: dict[str, Rule], wanted: RuleLike) -> str:
    """The name of a rule given by name, by text or as a Rule; UsageError if it is not among the rules."""
    if isinstance(wanted, str) and wanted in rules:
        return wanted
    try:
        name = name_of(parse(wanted) if isinstance(wanted, str) else wanted)
    except RuleError:
        name = str(wanted)
    if name not in rules:
        raise UsageError(f"the rule {name!r} is not watched; watched are: {', '.join(map(repr, rules)) or 'none'}")
    return name


@dataclass(frozen=True, slots=True)
class Layout:
    """Names and types of the columns, and which of them are the key.

    A column that has held only nulls may have no type yet: the first frame with values gives it one.
    """

    schema: pa.Schema
    key: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    def extend(self, *frames: pa.Table) -> Layout:
        """The same layout, with the types of these frames for columns that had none; itself if nothing changes."""
        if all(frame.schema.equals(self.schema) for frame in frames):
            return self
        fields = {field.name: field for field in self.schema}
        for frame in frames:
            for given in frame.schema:
                if given.name in fields and types.is_null(fields[given.name].type):
                    fields[given.name] = pa.field(given.name, canonical_type(given.type))
        schema = pa.schema(list(fields.values()))
        return self if schema.equals(self.schema) else Layout(schema, self.key)

    def conform_change(self, inserts: Any, updates: Any, deletes: Any) -> tuple[Layout, dict[str, pa.Table]]:
        """The frames of a change as tables of exactly these columns, and the layout extended by their types.

        `deletes` is a frame with the key columns, or a list or array of the values of a single key column. None is left
        out. TableError if a frame lacks a column, or has an unknown one or one of another type.
        """
        frames = {"inserts": inserts, "updates": updates}
        tables = {what: frame for what, frame in frames.items() if frame is not None}
        layout = self
        if not all(isinstance(frame, pa.Table) and frame.schema.equals(self.schema) for frame in tables.values()):
            tables = {what: to_arrow(frame) for what, frame in tables.items()}
            layout = self.extend(*tables.values())
            tables = {what: layout.conform(table, what) for what, table in tables.items()}
        if deletes is not None:
            tables["deletes"] = layout.conform_keys(deletes, "deletes")
        return layout, tables

    def conform(self, frame: pa.Table, what: str) -> pa.Table:
        """The frame with exactly these columns; TableError if one is missing, unknown or of another type."""
        if frame.schema.equals(self.schema):
            return frame
        repeated = _repeated(frame.column_names)
        if repeated:
            raise TableError(f"{what}: more than one column is named {repeated[0]!r}")
        self._check_names(frame, what)
        columns = [_cast(frame.column(field.name), field, what) for field in self.schema]
        return pa.table(columns, schema=self.schema)

    def conform_keys(self, keys: Any, what: str) -> pa.Table:
        """The key columns of a frame, or a list or array of the values of a single key column."""
        fields = [self.schema.field(name) for name in self.key]
        if _is_frame(keys):
            frame = to_arrow(keys)
            missing = [name for name in self.key if name not in frame.column_names]
            if missing:
                raise TableError(_without_key(what, missing[0]))
            columns = [_cast(frame.column(field.name), field, what) for field in fields]
        elif len(fields) == 1:
            columns = [_key_values(keys, fields[0], what)]
        else:
            raise UsageError(f"{what}: give a frame with the key columns {', '.join(map(repr, self.key))}")
        return pa.table(columns, schema=pa.schema(fields))

    def _check_names(self, frame: pa.Table, what: str) -> None:
        missing = [name for name in self.names if name not in frame.column_names]
        if missing:
            raise TableError(f"{what}: the column {missing[0]!r} is missing; the first frame had it")
        unknown = [name for name in frame.column_names if name not in self.names]
        if unknown:
            raise TableError(f"{what}: the column {unknown[0]!r} is new; {columns_hint(unknown[0], self.names)}")


def _without_key(what: str, name: str) -> str:
    if name != ROW:
        return f"{what}: the key column {name!r} is missing"
    return (
        f"{what}: rows are identified by their number because there is no key; add a column named {ROW!r} with the "
        "numbers, from 0 in the order of insertion, or start again with a key"
    )


def layout_of(frame: pa.Table, key: Sequence[str]) -> Layout:
    """The layout of a first frame."""
    repeated = _repeated(frame.column_names)
    if repeated:
        raise TableError(f"more than one column is named {repeated[0]!r}; rename all but one")
    fields = [pa.field(field.name, canonical_type(field.type)) for field in frame.schema]
    schema = pa.schema(fields)
    for name in key:
        if name not in schema.names:
            raise UsageError(f"the key column {name!r} is not in the table; {columns_hint(name, schema.names)}")
        if kind_of(schema.field(name).type) is Kind.OTHER:
            raise TableError(
                f"the key column {name!r} has type {schema.field(name).type}, which cannot be compared for equality"
            )
    return Layout(schema, tuple(key))


def canonical_type(type_: pa.DataType) -> pa.DataType:
    """The type in which values are kept: plain, and text as string or large_string."""
    if types.is_dictionary(type_) or types.is_run_end_encoded(type_):
        return canonical_type(type_.value_type)
    return pa.large_string() if types.is_string_view(type_) else type_


def _repeated(names: Sequence[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]


def _cast(column: pa.ChunkedArray, field: pa.Field, what: str) -> pa.ChunkedArray:
    given = column.type
    if given.equals(field.type):
        return column
    if types.is_null(given):
        return pa.chunked_array([pa.nulls(len(column), field.type)])
    if not canonical_type(given).equals(field.type) and not (_is_text(given) and _is_text(field.type)):
        raise TableError(
            f"{what}: column {field.name!r} has type {given}, but the first frame had {field.type}; cast it"
        )
    try:
        return decoded(column).cast(field.type)
    except pa.ArrowException as error:
        raise TableError(f"{what}: column {field.name!r} cannot be read: {error}") from error


def _is_text(type_: pa.DataType) -> bool:
    return kind_of(type_) is Kind.TEXT


def _is_frame(keys: Any) -> bool:
    if isinstance(keys, (pa.Array, pa.ChunkedArray, list, tuple, np.ndarray)):
        return False
    # A pandas or Polars series has Arrow's interface too, but no columns.
    return hasattr(keys, "columns") or hasattr(keys, "schema") or hasattr(keys, "column_names")


def _key_values(keys: Any, field: pa.Field, what: str) -> pa.ChunkedArray:
    try:
        if isinstance(keys, pa.ChunkedArray):
            return _cast(keys, field, what)
        if isinstance(keys, (list, tuple)):
            return pa.chunked_array([pa.array(keys, field.type)])
        array = keys if isinstance(keys, pa.Array) else pa.array(keys)
        return _cast(pa.chunked_array([array]), field, what)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise TableError(f"{what}: cannot convert to the key column {field.name!r} ({field.type}): {error}") from None
