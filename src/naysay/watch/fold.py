"""Many changes in order to one batch: what each key comes to, and which changes made no sense."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from naysay.table.codes import Int64Array
from naysay.watch.changes import ChangeOp, ChangeRows
from naysay.watch.keys import Keys
from naysay.watch.layout import Layout, layout_of
from naysay.watch.watch import Watch

_NO_ROW = "there is no row with this key"
_ALREADY = "there is a row with this key already"


def fold(watch: Watch, changes: ChangeRows) -> dict[str, Any]:
    """The arguments of `Watch.apply` that do what the changes do one after the other; bad ones are set aside.

    TableError where the columns do not fit the table: then none of the changes can be made.
    """
    layout = _conform(watch, changes)
    if layout is None or not changes.ops:
        return {}
    _drop_null_keys(changes, layout)
    keys = changes.table.select(list(layout.key))
    numbers = _numbers(keys, layout)
    stands = watch.contains(keys)
    parts = _net(changes, numbers.tolist(), stands.tolist())
    tables = {what: changes.table.take(pa.array(places)) for what, places in parts.items() if len(places)}
    if "deletes" in tables:
        tables["deletes"] = tables["deletes"].select(list(layout.key))
    return tables


def _conform(watch: Watch, changes: ChangeRows) -> Layout | None:
    """Bring the changes to the table's columns; those that only delete need the key alone."""
    layout = watch.layout
    if layout is None:
        if changes.table.num_columns == 0:
            return None
        layout = layout_of(changes.table, watch.key)
    only_deletes = all(op is ChangeOp.DELETE for op in changes.ops)
    if only_deletes and set(layout.key) <= set(changes.table.column_names):
        columns = {name: pa.nulls(changes.table.num_rows, layout.schema.field(name).type) for name in layout.names}
        for name in layout.key:
            columns[name] = changes.table.column(name)
        changes.table = pa.table(columns)
    layout = layout.grown(changes.table)
    changes.table = layout.conform(changes.table, "the file").combine_chunks()
    return layout


def _drop_null_keys(changes: ChangeRows, layout: Layout) -> None:
    null = np.zeros(changes.table.num_rows, np.bool_)
    for name in layout.key:
        null |= np.array(changes.table.column(name).is_null(), np.bool_)
    for place in np.flatnonzero(null).tolist():
        changes.set_aside(place, "the key is null")
    if null.any():
        changes.keep(np.flatnonzero(~null))


def _numbers(keys: pa.Table, layout: Layout) -> Int64Array:
    """The same number for rows of the same key."""
    made = Keys(layout)
    codes = made.codes(keys, "the file")
    _, numbers = np.unique(codes, axis=0, return_inverse=True)
    return np.asarray(numbers, np.int64).ravel()


def _net(changes: ChangeRows, numbers: list[int], stands: list[bool]) -> dict[str, list[int]]:
    """The places of changes that a key's changes come to together; those that make no sense are set aside."""
    before: dict[int, bool] = {}
    now: dict[int, bool] = {}
    last: dict[int, int] = {}
    for place, (number, op) in enumerate(zip(numbers, changes.ops, strict=True)):
        has_row = now.setdefault(number, before.setdefault(number, stands[place]))
        if has_row == (op is ChangeOp.INSERT):
            changes.set_aside(place, _ALREADY if has_row else _NO_ROW)
            continue
        now[number] = op is not ChangeOp.DELETE
        last[number] = place
    net: dict[str, list[int]] = {"inserts": [], "updates": [], "deletes": []}
    for number, place in last.items():
        if now[number]:
            net["updates" if before[number] else "inserts"].append(place)
        elif before[number]:
            net["deletes"].append(place)
    return net
