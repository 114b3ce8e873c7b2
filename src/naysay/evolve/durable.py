"""Between an evolver and its state: what it holds written as events of a store, and made of them again.

The store is that of a watch: one transaction a batch, a chain of checksums, a seal beside the file. The first event and
every snapshot hold everything; a batch holds its rows, and what it did to the evidence and the covers.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from naysay.discovery.fields import Fields
from naysay.discovery.space import Space
from naysay.errors import NaysayError, StateError, UsageError
from naysay.evolve.method import Settings, fields_from_json, fields_to_json, space_from_json, space_to_json
from naysay.evolve.relation import Relation
from naysay.live.journal.journal import Event, Journal, Payload, journal_exists
from naysay.live.journal.serial import schema_from_bytes, schema_to_bytes, table_from_bytes, table_to_bytes
from naysay.live.layout import Layout

# The file in the folder of a state.
FILE = "evolve.duckdb"
_WHAT = "evolve"
_VERSION = 1
_PART_ROWS = 1 << 16

Arrays = dict[str, NDArray[Any]]


def store_at(state: str | os.PathLike[str], *, make: bool) -> Journal:
    """The store in a folder, or the file itself where the path ends in .duckdb."""
    path = Path(state)
    if path.suffix != ".duckdb":
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path}: this is a file, and the state of an evolver is a folder")
        if make:
            if not path.parent.is_dir():
                raise UsageError(f"there is no folder {path.parent} to make the state {path.name} in")
            path.mkdir(exist_ok=True)
        path = path / FILE
    if not make and not journal_exists(path):
        raise UsageError(f"{path}: there is no state of an evolver here; naysay discover --state makes one")
    return Journal(path)


def settings_parts(settings: Settings, space: Space) -> dict[str, Any]:
    """What a store says of itself."""
    return {"what": _WHAT, "evolve": _VERSION, "settings": settings.to_json(), "space": space_to_json(space)}


def whole_parts(relation: Relation, arrays: Arrays) -> dict[str, bytes]:
    """Everything, as the first event and snapshots hold it."""
    serials, rows = relation.rows()
    parts = {
        "schema": schema_to_bytes(rows.schema),
        "fields": _json(fields_to_json(relation.fields)),
        "serials": to_bytes(serials),
        "next": _json(relation.next_serial),
    }
    for number, start in enumerate(range(0, rows.num_rows, _PART_ROWS)):
        parts[f"rows {number:06}"] = table_to_bytes(rows.slice(start, _PART_ROWS), "zstd")
    return parts | {f"whole {name}": to_bytes(array) for name, array in arrays.items()}


def batch_parts(
    tables: Mapping[str, pa.Table], arrays: Arrays, fields: Fields | None, schema: pa.Schema | None
) -> Payload:
    """A batch: its frames, and arrays by name; fields and schema where they have changed."""
    parts = {what: table_to_bytes(table) for what, table in tables.items() if table.num_rows}
    parts |= {f"change {name}": to_bytes(array) for name, array in arrays.items()}
    if fields is not None:
        parts["fields"] = _json(fields_to_json(fields))
    if schema is not None:
        parts["schema"] = schema_to_bytes(schema)
    return parts


@dataclass(frozen=True, slots=True)
class Restored:
    """What a store held: the relation, and arrays of the last whole with all changes since, in order."""

    settings: Settings
    relation: Relation
    whole: Arrays
    changes: tuple[Arrays, ...]


def restored(store: Journal) -> Restored:
    """Read a state back; StateError where it is damaged, or another's."""
    events = list(store.load())
    try:
        if store.settings.get("what") != _WHAT:
            raise StateError(f"{store.path}: this is a store of naysay, but not of an evolver")
        if store.settings.get("evolve") != _VERSION:
            raise StateError(f"{store.path}: the state has version {store.settings.get('evolve')}, not {_VERSION}")
        settings = Settings.from_json(store.settings["settings"])
        space = space_from_json(store.settings["space"])
        return _replayed(events, settings, space)
    except StateError:
        raise
    except (NaysayError, pa.ArrowException, ValueError, KeyError, TypeError, AssertionError) as error:
        # Every byte fits its checksum: what does not make sense was written so.
        raise StateError(f"{store.path}: the state cannot be read back: {error}") from error


def _replayed(events: list[Event], settings: Settings, space: Space) -> Restored:
    first = events[0].parts
    schema = schema_from_bytes(first["schema"])
    names = sorted(name for name in first if name.startswith("rows "))
    tables = [table_from_bytes(first[name], schema, compressed=True) for name in names]
    rows = pa.concat_tables(tables) if tables else schema.empty_table()
    fields = fields_from_json(json.loads(first["fields"]), space, settings.nulls)
    relation = Relation(
        Layout(schema, settings.columns), space, settings.nulls, rows, from_bytes(first["serials"]), fields
    )
    relation.next_serial = json.loads(first["next"])
    changes = []
    for event in events[1:]:
        _replay(event.parts, relation, settings)
        changes.append(_arrays(event.parts, "change "))
        if "fields" in event.parts:
            fields = fields_from_json(json.loads(event.parts["fields"]), space, settings.nulls)
    relation.use(fields)
    return Restored(settings, relation, _arrays(first, "whole "), tuple(changes))


def _replay(parts: Payload, relation: Relation, settings: Settings) -> None:
    if "schema" in parts:
        relation.retype(Layout(schema_from_bytes(parts["schema"]), settings.columns))
    schema = relation.layout.schema
    keys = pa.schema([schema.field(name) for name in settings.columns])
    tables = {
        what: table_from_bytes(parts[what], keys if what == "deletes" else schema)
        for what in ("inserts", "updates", "deletes")
        if what in parts
    }
    if tables:
        relation.commit(relation.prepare(tables.get("inserts"), tables.get("updates"), tables.get("deletes")))


def _arrays(parts: Payload, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): from_bytes(data) for name, data in parts.items() if name.startswith(prefix)}


def to_bytes(array: NDArray[Any]) -> bytes:
    """An array with its type and shape, in numpy's own plain format."""
    out = io.BytesIO()
    np.lib.format.write_array(out, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return out.getvalue()


def from_bytes(data: bytes) -> NDArray[Any]:
    array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    return array


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
