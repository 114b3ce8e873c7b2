"""Row numbers into what a person knows a row by, and the values that a rule compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from naysay.arrays import Int64Array
from naysay.detect.result import SamplePair
from naysay.errors import UsageError
from naysay.rule import explain_pair
from naysay.rule.model import Row, Rule
from naysay.table import Table
from naysay.table.frame import plain_records


def compared_columns(rule: Rule, row: Row) -> list[str]:
    """The columns that the rule looks at in one of its rows, each once."""
    return list(dict.fromkeys(column.name for column in rule.columns if column.row is row))


def identities(table: Table, key: Sequence[str], rows: Int64Array) -> pa.Array:
    """The rows by their key: one key column as it is, several as a struct; without a key the row numbers."""
    if not key:
        return pa.array(rows, pa.int64())
    taken = table.select(key).take(rows).combine_chunks()
    if len(key) == 1:
        return _one_array(taken.column(0))
    return pa.StructArray.from_arrays([_one_array(column) for column in taken.columns], names=list(key))


def check_key(table: Table, key: Sequence[str]) -> None:
    missing = [name for name in key if name not in table.names]
    if missing:
        raise UsageError(f"the key column {missing[0]!r} is not in the table; its columns: {', '.join(table.names)}")


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
        return tuple(
            SamplePair(identity, None, values, None, explain_pair(rule, values, values)) for identity, values in lefts
        )
    rights = _records(table, rule, key, right, Row.RIGHT)
    return tuple(
        SamplePair(left_name, right_name, left_values, right_values, explain_pair(rule, left_values, right_values))
        for (left_name, left_values), (right_name, right_values) in zip(lefts, rights, strict=True)
    )


def _records(
    table: Table, rule: Rule, key: Sequence[str], rows: Int64Array, row: Row
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    values = _rows(table, compared_columns(rule, row), rows)
    names = _rows(table, key, rows) if key else [{"row": int(number)} for number in rows]
    return list(zip(names, values, strict=True))


def _rows(table: Table, names: Sequence[str], rows: Int64Array) -> list[dict[str, Any]]:
    return plain_records(table.select(names).take(rows))


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
