"""`naysay evolve`: change the rows of a discovered table, and print which rules came and went, and why."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from naysay.cli import options
from naysay.cli.screen import Waiting

if TYPE_CHECKING:
    import pyarrow as pa

    from naysay.evolve.change import RemovedRule, RuleChange
    from naysay.evolve.evolver import Evolver
    from naysay.rule.model import Rule


@dataclass(frozen=True, slots=True)
class Request:
    """The options of `naysay evolve`, as given."""

    state: Path
    insert: str | None
    update: str | None
    delete: str | None
    batch_id: str | None
    limit: int
    threads: int
    device: str
    input_format: str | None
    encoding: str | None
    delimiter: str | None
    format: str
    quiet: bool


@click.command(short_help="Change the rows of a discovered table; which rules came and went.")
@click.argument("state", metavar="STATE", type=click.Path(path_type=Path))
@click.option("--insert", metavar="FILE", help="Rows to insert, with all columns of the table.")
@click.option("--update", metavar="FILE", help="Rows to put in the place of those with the same key.")
@click.option("--delete", metavar="FILE", help="The keys of rows to delete; other columns are not looked at.")
@click.option("--batch-id", metavar="TEXT", help="A name for this change: a second one of that name does nothing.")
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    metavar="N",
    help="Print at most so many rules of each sort; 0 for all.",
)
@click.option("--threads", type=click.IntRange(0), default=0, metavar="N", help="Threads.  [default: all cores]")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Where pairs of rows are compared; auto takes a GPU where there is one and it is quicker.",
)
@options.input_format
@options.encoding
@options.delimiter
@options.output_format("text", "json")
@options.quiet
@options.debug
def evolve(**given: Any) -> int:
    """Bring the rules of STATE up to date with rows that come and go.

    STATE is the folder that `naysay discover --state` made. The rules are always those that discovery would find on the
    rows that stand. With no change to make, it says what stands.

    \b
    naysay discover people.csv --key id --state people.rules
    naysay evolve people.rules --insert monday.csv --delete gone.csv
    """
    from naysay.evolve.evolver import Evolver

    request = Request(**given)
    with Waiting(watched=not request.quiet) as waiting:
        waiting.stage(f"opening {request.state}")
        with Evolver.open(request.state, threads=request.threads, device=request.device) as evolver:
            change = _apply(request, evolver, waiting)
            _print(request, evolver, change)
    return 0


def _apply(request: Request, evolver: Evolver, waiting: Waiting) -> RuleChange | None:
    files = {"inserts": request.insert, "updates": request.update, "deletes": request.delete}
    frames = {}
    for what, path in files.items():
        if path is not None:
            waiting.stage(f"reading {path}")
            frames[what] = read_like(path, evolver.schema, request)
    if not frames:
        return None
    waiting.stage("comparing")
    return evolver.apply(**frames, batch_id=request.batch_id)


def read_like(path: str, schema: pa.Schema, request: Request) -> pa.Table:
    """Read a file with the types that the columns of a table have: a CSV file of a few rows says little of its own."""
    import pyarrow as pa

    from naysay.io.files import read_table

    types = {field.name: field.type for field in schema if not pa.types.is_null(field.type)}
    table = read_table(
        path, format=request.input_format, encoding=request.encoding, delimiter=request.delimiter, given=types
    )
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
    """Whether floats are the same in another type: Arrow rounds them to decimals and to narrower floats.

    0.1 is the same in 32 bits as far as anybody writes it.
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
    """Whether values keep their meaning: a number is no text, nor a text a number; dates and times may be in text."""
    from naysay.table.column import Kind, kind_of

    one, other = kind_of(given), kind_of(wanted)
    if one is Kind.TEXT:
        return other in (Kind.TEXT, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.INSTANT)
    return one is other or (one.is_number and other.is_number)


def _print(request: Request, evolver: Evolver, change: RuleChange | None) -> None:
    if request.format == "json":
        click.echo(json.dumps(_document(request, evolver, change), default=str, ensure_ascii=False, indent=2))
        return
    stands = f"{evolver.n_rows:,} rows, {_counted(len(evolver.rules), 'rule')}"
    if change is None:
        click.echo(f"{stands} ({evolver.method})")
    elif change.repeated:
        click.echo(f"{stands}; batch {change.batch_id!r} was applied before, nothing done")
    else:
        click.echo(f"{stands}; {len(change.added):,} added, {len(change.removed):,} removed")
        if not request.quiet:
            _print_rules(request, change)


def _print_rules(request: Request, change: RuleChange) -> None:
    from naysay.rule import describe, render

    limit = request.limit or None
    for gone in change.removed[:limit]:
        click.echo(f"- {render(gone.rule, short=True)}\n    {gone.reason}")
    _print_rest(len(change.removed), limit, "removed")
    for rule in change.added[:limit]:
        click.echo(f"+ {render(rule, short=True)}\n    {describe(rule)}")
    _print_rest(len(change.added), limit, "added")


def _print_rest(n_rules: int, limit: int | None, what: str) -> None:
    if limit is not None and n_rules > limit:
        click.echo(f"  and {n_rules - limit:,} more {what}; --limit 0 prints all")


def _document(request: Request, evolver: Evolver, change: RuleChange | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "rows": evolver.n_rows,
        "rules": len(evolver.rules),
        "method": evolver.method,
        "repeated": change is not None and change.repeated,
    }
    if change is not None:
        limit = request.limit or None
        document["n_added"], document["n_removed"] = len(change.added), len(change.removed)
        document["added"] = [_rule(rule) for rule in change.added[:limit]]
        document["removed"] = [_removed(gone) for gone in change.removed[:limit]]
    return document


def _rule(rule: Rule) -> dict[str, Any]:
    from naysay.rule import describe, render

    return {"rule": render(rule), "description": describe(rule)}


def _removed(gone: RemovedRule) -> dict[str, Any]:
    from naysay.rule import render

    return {
        **_rule(gone.rule),
        "reason": gone.reason,
        "pair": None if gone.pair is None else [gone.left, gone.right],
        "by": None if gone.by is None else render(gone.by),
    }


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
