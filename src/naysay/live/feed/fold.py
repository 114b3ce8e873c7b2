"""Many changes in order to one batch: what each key comes to, and which changes made no sense."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from naysay.arrays import BoolArray, Int64Array
from naysay.live.feed.changes import ChangeOp, ChangeRows
from naysay.live.intern import TupleTable
from naysay.live.keys import Keys
from naysay.live.layout import Layout, layout_of

NO_ROW = "there is no row with this key"
_ALREADY = "there is a row with this key already"
_Net = dict[str, Int64Array]


class Keyed(Protocol):
    """A table under change, as far as folding looks at it: a watch, or whatever else keeps rows by key."""

    @property
    def layout(self) -> Layout | None: ...
    @property
    def key(self) -> tuple[str, ...]: ...
    def contains(self, keys: Any) -> BoolArray: ...


def fold(watch: Keyed, changes: ChangeRows) -> dict[str, pa.Table]:
    """The arguments of `Watch.apply` that do what the changes do one after the other; bad ones are set aside.

    TableError where the columns do not fit the table: then none of the changes can be made.
    """
    layout = conform(changes, watch.layout, watch.key)
    if layout is None or not changes.n_changes:
        return {}
    _drop_null_keys(changes, layout)
    keys = changes.table.select(list(layout.key))
    parts = _net(changes, _numbers(keys, layout), watch.contains(keys))
    tables = {
        what: changes.table if len(places) == changes.n_changes else changes.table.take(pa.array(places))
        for what, places in parts.items()
        if len(places)
    }
    if "deletes" in tables:
        tables["deletes"] = tables["deletes"].select(list(layout.key))
    return tables


def conform(changes: ChangeRows, layout: Layout | None, key: tuple[str, ...]) -> Layout | None:
    """Bring changes to the table's columns, and give its layout; those that only delete need the key alone.

    None where there is neither a table yet nor a change.
    """
    if layout is None:
        if changes.table.num_columns == 0:
            return None
        layout = layout_of(changes.table, key)
    elif changes.n_changes == 0:
        return layout
    only_deletes = bool((changes.ops == ChangeOp.DELETE).all())
    if only_deletes and set(layout.key) <= set(changes.table.column_names):
        columns = {name: pa.nulls(changes.table.num_rows, layout.schema.field(name).type) for name in layout.names}
        for name in layout.key:
            columns[name] = changes.table.column(name)
        changes.table = pa.table(columns)
    layout = layout.grown(changes.table)
    changes.table = layout.conform(changes.table, changes.sources[0] or "the changes").combine_chunks()
    return layout


def _drop_null_keys(changes: ChangeRows, layout: Layout) -> None:
    null = np.zeros(changes.table.num_rows, np.bool_)
    for name in layout.key:
        if changes.table.column(name).null_count:
            null |= np.array(changes.table.column(name).is_null(), np.bool_)
    if not null.any():
        return
    for place in np.flatnonzero(null).tolist():
        changes.set_aside(place, "the key is null")
    changes.keep(np.flatnonzero(~null))


def _numbers(keys: pa.Table, layout: Layout) -> Int64Array:
    """The same number for rows of the same key, from 0 on."""
    codes = Keys(layout).codes(keys, "the changes")
    return TupleTable(codes.shape[1]).add(codes)


def _net(changes: ChangeRows, numbers: Int64Array, stands: BoolArray) -> _Net:
    """The places of changes that a key's changes come to together; those that make no sense are set aside."""
    n_changes = changes.n_changes
    if n_changes and int(numbers.max()) + 1 == n_changes:
        return _net_of_single(changes, stands)
    return _net_in_order(changes, numbers.tolist(), stands.tolist())


def _net_of_single(changes: ChangeRows, stands: BoolArray) -> _Net:
    """Every key has one change."""
    ops = changes.ops
    bad = stands == (ops == ChangeOp.INSERT)
    for place in np.flatnonzero(bad).tolist():
        changes.set_aside(place, _ALREADY if stands[place] else NO_ROW)
    return {f"{op.name.lower()}s": np.flatnonzero(~bad & (ops == op)) for op in ChangeOp}


def _net_in_order(changes: ChangeRows, numbers: list[int], stands: list[bool]) -> _Net:
    before: dict[int, bool] = {}
    now: dict[int, bool] = {}
    last: dict[int, int] = {}
    for place, (number, op) in enumerate(zip(numbers, changes.ops.tolist(), strict=True)):
        has_row = now.setdefault(number, before.setdefault(number, stands[place]))
        if has_row == (op == ChangeOp.INSERT):
            changes.set_aside(place, _ALREADY if has_row else NO_ROW)
            continue
        now[number] = op != ChangeOp.DELETE
        last[number] = place
    net: dict[str, list[int]] = {"inserts": [], "updates": [], "deletes": []}
    for number, place in last.items():
        if now[number]:
            net["updates" if before[number] else "inserts"].append(place)
        elif before[number]:
            net["deletes"].append(place)
    return {what: np.array(places, np.int64) for what, places in net.items()}
