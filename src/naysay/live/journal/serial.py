"""Rules and rows as bytes, for the journal. Nothing here executes what it reads."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from naysay.rule.model import (
    Between,
    Column,
    Constant,
    Domain,
    Missing,
    OneOf,
    Op,
    Pattern,
    Predicate,
    Row,
    Rule,
    Severity,
    Value,
    constants_of,
)

DIGEST_BYTES = 16


def digest_of(*parts: bytes | str | int) -> bytes:
    """One checksum of several values, each with its length, so that no two sequences of values look alike."""
    hashed = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        hashed.update(len(data).to_bytes(8, "little"))
        hashed.update(data)
    return hashed.digest()


def rules_to_json(rules: Mapping[str, Rule]) -> bytes:
    return json.dumps([_rule_to_json(rule) for rule in rules.values()]).encode()


def rules_from_json(data: bytes) -> list[Rule]:
    return [_rule_from_json(item) for item in json.loads(data)]


def schema_to_bytes(schema: pa.Schema) -> bytes:
    return bytes(schema.serialize().to_pybytes())


def schema_from_bytes(data: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))


def table_to_bytes(table: pa.Table, compression: str | None = None) -> bytes:
    """A table without its schema, as one record batch."""
    batches = table.combine_chunks().to_batches()
    batch = batches[0] if len(batches) == 1 else _one_batch(table)
    return bytes(batch.serialize().to_pybytes()) if compression is None else _compressed(batch, compression)


def table_from_bytes(data: bytes, schema: pa.Schema, *, compressed: bool = False) -> pa.Table:
    buffer = pa.py_buffer(data)
    if compressed:
        with pa.ipc.open_stream(buffer) as reader:
            return reader.read_all()
    return pa.Table.from_batches([pa.ipc.read_record_batch(buffer, schema)])


# A part holds at most this many rows: blobs of a few megabytes.
_PART_ROWS = 1 << 16


def rows_to_parts(what: str, table: pa.Table, compression: str | None = None) -> dict[str, bytes]:
    """A table as parts of an event, named `what 000000`, `what 000001` and so on."""
    return {
        f"{what} {number:06}": table_to_bytes(table.slice(start, _PART_ROWS), compression)
        for number, start in enumerate(range(0, table.num_rows, _PART_ROWS))
    }


def rows_from_parts(
    parts: Mapping[str, bytes], what: str, schema: pa.Schema, *, compressed: bool = False
) -> pa.Table | None:
    """The table that `rows_to_parts` wrote; None if there is none."""
    names = sorted(name for name in parts if name.startswith(f"{what} "))
    tables = [table_from_bytes(parts[name], schema, compressed=compressed) for name in names]
    return pa.concat_tables(tables) if tables else None


def change_to_parts(tables: Mapping[str, pa.Table]) -> dict[str, bytes]:
    """Inserts, updates and deletes as parts of an event."""
    parts: dict[str, bytes] = {}
    for what, table in tables.items():
        parts |= rows_to_parts(what, table)
    return parts


def change_from_parts(parts: Mapping[str, bytes], schema: pa.Schema, key: Sequence[str]) -> dict[str, pa.Table]:
    """The tables of `change_to_parts`; the rows of a snapshot, written as `rows`, are inserts."""
    keys = pa.schema([schema.field(name) for name in key])
    found = {
        "inserts": rows_from_parts(parts, "inserts", schema),
        "updates": rows_from_parts(parts, "updates", schema),
        "deletes": rows_from_parts(parts, "deletes", keys),
    }
    snapshot = rows_from_parts(parts, "rows", schema, compressed=True)
    if snapshot is not None:
        found["inserts"] = snapshot
    return {what: table for what, table in found.items() if table is not None}


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    if table.num_rows == 0:
        return pa.RecordBatch.from_pylist([], schema=table.schema)
    columns = [pa.concat_arrays(column.chunks) for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def _compressed(batch: pa.RecordBatch, compression: str) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


_LATER = ("min_rows", "max_rows", "max_rows_fraction", "max_remove", "tags", "owner")


def _rule_to_json(rule: Rule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "severity": rule.severity.value,
        "max_violations": rule.max_violations,
        "max_fraction": rule.max_fraction,
        "description": rule.description,
        # States of earlier versions do not have it.
        **{name: value for name in _LATER if (value := getattr(rule, name)) not in (None, (), "")},
        "predicates": [
            [_operand_to_json(predicate.left), predicate.op.value, _operand_to_json(predicate.right)]
            for predicate in rule.predicates
        ],
    }


def _rule_from_json(item: dict[str, Any]) -> Rule:
    predicates = []
    for left, op, right in item["predicates"]:
        column = _operand_from_json(left)
        assert isinstance(column, Column)
        predicates.append(Predicate(column, Op(op), _operand_from_json(right)))
    return Rule(
        tuple(predicates),
        item["name"],
        Severity(item["severity"]),
        item["max_violations"],
        item["max_fraction"],
        item["description"],
        tags=tuple(item.get("tags", ())),
        **{name: item[name] for name in _LATER if name in item and name != "tags"},
    )


def _operand_to_json(operand: Column | Constant | Domain) -> list[Any]:
    if isinstance(operand, Column):
        return [operand.row.value, operand.name]
    if isinstance(operand, Pattern):
        return ["matches", operand.text]
    if isinstance(operand, Domain):
        word = {OneOf: "in", Between: "between", Missing: "null"}[type(operand)]
        return [word, [_constant_to_json(constant.value) for constant in constants_of(operand)]]
    return list(_constant_to_json(operand.value))


def _constant_to_json(value: Value) -> tuple[str, str]:
    if isinstance(value, bool):
        return "bool", str(int(value))
    if isinstance(value, int):
        return "int", str(value)
    if isinstance(value, float):
        return "float", value.hex()
    if isinstance(value, str):
        return "text", value
    if isinstance(value, Decimal):
        return "decimal", str(value)
    kind = "datetime" if isinstance(value, datetime.datetime) else type(value).__name__
    return kind, value.isoformat()


_READ_CONSTANT: dict[str, Callable[[str], Value]] = {
    "bool": lambda text: text == "1",
    "int": int,
    "float": float.fromhex,
    "text": str,
    "decimal": Decimal,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
}


def _operand_from_json(item: list[Any]) -> Column | Constant | Domain:
    kind, text = item
    if kind in ("t", "s"):
        return Column(Row(kind), text)
    if kind == "matches":
        return Pattern(text)
    if kind in ("in", "between", "null"):
        values = tuple(Constant(_READ_CONSTANT[inner](value)) for inner, value in text)
        return OneOf(values) if kind == "in" else Between(*values) if kind == "between" else Missing()
    return Constant(_READ_CONSTANT[kind](text))
