"""The output of a state folder, and the brute-force answer for the same changes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import naive
from naysay.live.feed.output import Manifest
from naysay.rule.model import Nulls, Rule

FORMATS = ("parquet", "jsonl", "csv", "parquet")
Found = set[tuple[Any, ...]]


def asides(state: Path) -> list[dict[str, Any]]:
    """Everything that was set aside."""
    paths = sorted((state / "output" / "rejected").glob("*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def events(state: Path) -> Found:
    """The violations that the events of a folder add up to; each is added once, before it is removed."""
    found: Found = set()
    manifest = Manifest(state / "output")
    seen: set[str] = set()
    for entry in manifest.entries:
        names = [name for name in entry.files if name.startswith("events/")]
        assert not seen & set(names)
        seen |= set(names)
        rows = [row for name in sorted(names) for row in pa.parquet.read_table(state / "output" / name).to_pylist()]
        # A violation may move from one part to another in one batch.
        for row in sorted(rows, key=lambda row: row["event"], reverse=True):
            violation = (row["rule"], row["left"], row["right"])
            if row["event"] == "added":
                assert violation not in found
                found.add(violation)
            else:
                found.remove(violation)
    batches = [entry.batch_id for entry in manifest.entries if entry.kind == "rows"]
    assert len(set(batches)) == len(batches)
    return found


def standing(state: Path) -> Found:
    """The violations that the table of standing violations holds."""
    last = Manifest(state / "output").last("current")
    assert last is not None
    found = [
        tuple(row.values()) for name in last.files for row in pa.parquet.read_table(state / "output" / name).to_pylist()
    ]
    assert len(set(found)) == len(found)
    return set(found)


def rows_after(batches: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The rows after batches of inserts, updates and deletes, by their id."""
    rows: dict[int, dict[str, Any]] = {}
    for batch in batches:
        for key in batch["deletes"]:
            del rows[key]
        for row in [*batch["updates"].to_pylist(), *batch["inserts"].to_pylist()]:
            rows[row["id"]] = row
    return rows


def brute_force(rules: Mapping[str, Rule], rows: dict[int, dict[str, Any]]) -> Found:
    """All violations, by the oracle."""
    found: Found = set()
    for name, rule in rules.items():
        for left, one in rows.items():
            if rule.is_one_row:
                found |= {(name, left, None)} if naive.breaks(rule, one, one, Nulls.SQL) else set()
                continue
            found |= {
                (name, left, right)
                for right, other in rows.items()
                if left != right and naive.breaks(rule, one, other, Nulls.SQL)
            }
    return found


def change_table(batch: dict[str, Any]) -> pa.Table:
    """A batch as changes: rows with their op, deletes with only the key."""
    inserts, updates, deletes = batch["inserts"], batch["updates"], batch["deletes"]
    gone = pa.table(
        {
            name: pa.nulls(len(deletes), type_)
            for name, type_ in zip(inserts.column_names, inserts.schema.types, strict=True)
        }
    )
    gone = gone.set_column(0, "id", pa.array(deletes, pa.int64()))
    parts = (("insert", inserts), ("u", updates), ("delete", gone))
    return pa.concat_tables(
        [table.append_column("op", pa.array([op] * len(table), pa.string())) for op, table in parts]
    )


def write_changes(folder: Path, batches: list[dict[str, Any]], formats: Sequence[str] = FORMATS) -> None:
    """A folder of change files, one per batch, in alternating formats; the column `at` numbers all changes."""
    folder.mkdir(exist_ok=True)
    for number, batch in enumerate(batches):
        table = change_table(batch)
        table = table.append_column("at", pa.array(range(1000 * number, 1000 * number + len(table)), pa.int64()))
        format_ = formats[number % len(formats)]
        name = f"{number:05}.{format_}"
        # Beside the folder: a stream that follows it must see a file only when it is whole and has its time.
        path = folder.with_name(f"{folder.name}-{name}")
        if format_ == "jsonl":
            path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
        elif format_ == "csv":
            pa.csv.write_csv(table, path)
        else:
            pa.parquet.write_table(table, path)
        # Spark's own file stream orders files by modification time, and forgets those much older than the latest.
        os.utime(path, (10**9 + number, 10**9 + number))
        path.replace(folder / name)
