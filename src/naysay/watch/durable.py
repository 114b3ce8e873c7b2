"""Between a watch and its store: events are written as bytes, and a state is made of them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from naysay.errors import NaysayError, StateError
from naysay.live.journal.serial import (
    rules_from_json,
    rules_to_json,
    schema_from_bytes,
    schema_to_bytes,
    table_from_bytes,
    table_to_bytes,
)
from naysay.live.journal.store import Event, Parts
from naysay.live.layout import Layout, named
from naysay.rule.model import Rule
from naysay.watch.state import Options, State, build_state

# A part of a snapshot holds at most so many rows: blobs of a few megabytes.
_PART_ROWS = 1 << 16


def rules_part(rules: Mapping[str, Rule]) -> dict[str, bytes]:
    return {"rules": rules_to_json(rules)}


def batch_parts(tables: Mapping[str, pa.Table], layout: Layout | None, known: pa.Schema | None) -> dict[str, bytes]:
    """A batch as parts of an event; with the schema, where the store does not know it yet."""
    parts: dict[str, bytes] = {}
    for what, table in tables.items():
        parts |= _table_parts(what, table, None)
    if layout is not None and (known is None or not known.equals(layout.schema)):
        parts["schema"] = schema_to_bytes(layout.schema)
    return parts


def snapshot_parts(state: State | None, rules: Mapping[str, Rule]) -> dict[str, bytes]:
    """All rows and rules as parts of a snapshot."""
    parts = rules_part(rules)
    if state is not None:
        parts["schema"] = schema_to_bytes(state.layout.schema)
        parts |= _table_parts("rows", state.rows.all()[1], "zstd")
    return parts


def _table_parts(what: str, table: pa.Table, compression: str | None) -> dict[str, bytes]:
    return {
        f"{what} {number:06}": table_to_bytes(table.slice(start, _PART_ROWS), compression)
        for number, start in enumerate(range(0, table.num_rows, _PART_ROWS))
    }


class Restored:
    """What a store held: rules, and a state with its rows, in which the rules are not watched yet."""

    def __init__(
        self, path: Path, events: Iterable[Event], key: tuple[str, ...], options: Options, state: State | None = None
    ) -> None:
        """With a state, which watches its rules already, go on from it."""
        self.rules: dict[str, Rule] = {}
        self.schema: pa.Schema | None = None if state is None else state.layout.schema
        self.state: State | None = state
        self._key = key
        self._options = options
        try:
            for event in events:
                self._replay(event)
        except (NaysayError, pa.ArrowException, ValueError, KeyError, AssertionError) as error:
            # Every byte fits its checksum: what does not make sense was written so.
            raise StateError(f"{path}: the store cannot be read back: {error}") from error

    def watching(self) -> State | None:
        """The state, with its rules watched."""
        if self.state is not None:
            for name, rule in self.rules.items():
                self.state.add_rule(name, rule)
        return self.state

    def _replay(self, event: Event) -> None:
        parts = event.parts
        if "rules" in parts:
            self.rules = named(rules_from_json(parts["rules"]))
        if "schema" in parts:
            self._use_schema(schema_from_bytes(parts["schema"]))
        if event.kind == "snapshot":
            self._apply(self._table(parts, "rows", compressed=True), None, None)
        elif event.kind == "rows":
            self._apply(self._table(parts, "inserts"), self._table(parts, "updates"), self._table(parts, "deletes"))

    @property
    def _known(self) -> pa.Schema:
        assert self.schema is not None, "rows come after a schema"
        return self.schema

    def _use_schema(self, schema: pa.Schema) -> None:
        layout = Layout(schema, self._key)
        self.schema = schema
        empty = schema.empty_table()
        self.state = build_state(layout, self._options, empty, {}) if self.state is None else self.state.rebuilt(layout)

    def _table(self, parts: Parts, what: str, *, compressed: bool = False) -> pa.Table | None:
        names = sorted(name for name in parts if name.startswith(f"{what} "))
        if not names:
            return None
        schema = self._known
        if what == "deletes":
            schema = pa.schema([schema.field(name) for name in self._key])
        return pa.concat_tables([table_from_bytes(parts[name], schema, compressed=compressed) for name in names])

    def _apply(self, inserts: pa.Table | None, updates: pa.Table | None, deletes: pa.Table | None) -> None:
        if self.state is not None:
            self.state.apply(self.state.prepare(inserts, updates, deletes))


def settings_of(key: tuple[str, ...], options: Options) -> dict[str, Any]:
    """What a store keeps of how its watch was made; the rest may change from one opening to the next."""
    return {"key": list(key), "nulls": options.nulls.value}
