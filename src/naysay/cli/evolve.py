"""`naysay evolve`: change the rows of a discovered table, and show which rules were added and removed, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from naysay.cli import options
from naysay.cli.options import FileFormat, Place
from naysay.cli.screen import Waiting
from naysay.errors import UsageError
from naysay.report.words import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from naysay.evolve.change import RuleChange
    from naysay.evolve.evolver import Evolver


@click.command()
@click.argument("state", metavar="STATE", type=click.Path(path_type=Path))
@click.option("--insert", metavar="FILE", help="Rows to insert, with all columns of the table.")
@click.option("--update", metavar="FILE", help="Rows that replace those with the same key.")
@click.option("--delete", metavar="FILE", help="Keys of rows to delete; other columns are ignored.")
@click.option("--batch-id", metavar="TEXT", help="Batch ID; a batch whose ID was already applied is skipped.")
@options.number("--limit", 0, "Maximum number of added and of removed rules to show; 0 for all.", 20)
@options.packed(
    "place", Place, options.engine, options.master, options.memory, options.threads, options.packages, options.conf
)
@options.device
@options.max_seconds("Refuse a change that takes longer than SECONDS; nothing has changed then.")
@options.files
@options.output_format("text", "json")
@options.quiet("progress and the changed rules")
@options.debug
def evolve(
    state: Path,
    insert: str | None,
    update: str | None,
    delete: str | None,
    batch_id: str | None,
    limit: int,
    place: Place,
    device: str,
    max_seconds: float | None,
    files: FileFormat,
    format: str,
    quiet: bool,
) -> int:
    """Update the rules of STATE after rows were inserted, updated or deleted.

    STATE is the folder that `naysay discover --state` wrote. The rules are always those that discovery would find in
    the current rows. Without a change, shows the numbers of rows and rules. A state that was written on Spark is
    updated there; files with changes are read in this process.

    \b
    naysay discover people.csv --key id --state people.state
    naysay evolve people.state --insert monday.csv --delete gone.csv
    """
    paths = {"inserts": insert, "updates": update, "deletes": delete}
    with Waiting(watched=not quiet) as waiting:
        waiting.stage(f"opening {state}")
        with _open(state, place, device, max_seconds, waiting) as evolver:
            frames = {}
            for what, path in paths.items():
                if path is not None:
                    waiting.stage(f"reading {path}")
                    frames[what] = read_like(path, evolver.schema, files)
            waiting.stage("comparing")
            change = evolver.apply(**frames, batch_id=batch_id) if frames else None
            text = _json(evolver, change, limit or None) if format == "json" else _text(evolver, change, limit, quiet)
    click.echo(text)
    return 0


@contextmanager
def _open(state: Path, place: Place, device: str, max_seconds: float | None, waiting: Waiting) -> Iterator[Evolver]:
    """The evolver of a state, where its rows are."""
    from naysay.evolve.durable import is_on_spark
    from naysay.evolve.evolver import Evolver

    if not is_on_spark(state):
        if place.asks_for_spark:
            raise UsageError(f"the rows of {state} are kept in-process; leave out --engine spark and --master")
        limits: dict[str, Any] = {"max_seconds": max_seconds, "memory": place.memory}
        with Evolver.open(state, threads=place.threads, device=device, **limits) as evolver:
            yield evolver
        return
    if place.engine == "local":
        raise UsageError(f"the rows of {state} are on Spark; leave out --engine local")
    if device == "cuda":
        raise UsageError("device 'cuda' applies to frames in memory; on Spark the executors' cores do the work")
    if max_seconds is not None:
        raise UsageError(f"--max-seconds does not apply to {state}, whose rows are on Spark; leave it out")
    with place.session(waiting, app="naysay evolve"), Evolver.open(state) as evolver:
        yield evolver


def _text(evolver: Evolver, change: RuleChange | None, limit: int, quiet: bool) -> str:
    from naysay.report.discoveries import rule_change_text

    if change is None:
        return f"{counted(evolver.n_rows, 'row')}, {counted(len(evolver.rules), 'rule')} ({evolver.method})"
    text = rule_change_text(change, limit or None)
    return text.splitlines()[0] if quiet else text


def _json(evolver: Evolver, change: RuleChange | None, limit: int | None) -> str:
    from naysay.report.discoveries import rule_record
    from naysay.rule import render

    document: dict[str, Any] = {
        "rows": evolver.n_rows,
        "rules": len(evolver.rules),
        "method": evolver.method,
        "repeated": change is not None and change.repeated,
    }
    if change is not None:
        document["n_added"], document["n_removed"] = len(change.added), len(change.removed)
        document["added"] = [rule_record(rule) for rule in change.added[:limit]]
        document["removed"] = [
            {
                **rule_record(gone.rule),
                "reason": gone.reason,
                "pair": None if gone.pair is None else [gone.left, gone.right],
                "by": None if gone.by is None else render(gone.by),
            }
            for gone in change.removed[:limit]
        ]
    return json.dumps(document, default=str, ensure_ascii=False, indent=2)


def read_like(path: str, schema: pa.Schema, files: FileFormat) -> pa.Table:
    """Read a file with the column types of a table, because a CSV file of a few rows may suggest other types."""
    import pyarrow as pa

    from naysay.io.files import read_table

    types = {field.name: field.type for field in schema if not pa.types.is_null(field.type)}
    table = read_table(path, **files.local_arguments, given=types)
    for place, field in enumerate(table.schema):
        wanted = types.get(field.name)
        if wanted is not None and not field.type.equals(wanted) and _may_become(field.type, wanted):
            try:
                cast = table.column(place).cast(wanted)
            except pa.ArrowException:
                continue
            if _is_kept(table.column(place), cast):
                table = table.set_column(place, field.name, cast)
    return table


def _is_kept(given: pa.ChunkedArray, cast: pa.ChunkedArray) -> bool:
    """Whether floats survive the conversion: Arrow rounds them to decimals and to narrower floats.

    0.1 counts as the same in 32 bits, because that is how people write it.
    """
    import pyarrow as pa

    if not pa.types.is_floating(given.type):
        return True
    narrow = cast.type.to_pandas_dtype() if pa.types.is_floating(cast.type) else None
    for before, after in zip(given.to_pylist(), cast.cast(given.type).to_pylist(), strict=True):
        if before == after or before is None or before != before:
            continue
        if narrow is None or str(narrow(before)) != repr(before):
            return False
    return True


def _may_become(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values keep their meaning: numbers stay numbers, and text stays text or becomes dates and times."""
    from naysay.table.column import Kind, kind_of

    one, other = kind_of(given), kind_of(wanted)
    if one is Kind.TEXT:
        return other in (Kind.TEXT, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.INSTANT)
    return one is other or (one.is_number and other.is_number)
