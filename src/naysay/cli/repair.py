"""`naysay repair`: read a table, suggest new values for cells, write the suggestions or a changed copy."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import click
import pyarrow as pa

from naysay import api
from naysay.cli import options
from naysay.cli.failure import Exit, say
from naysay.cli.options import FileFormat, Place, RuleSource, decide_for_table, open_table, without_values
from naysay.cli.screen import Waiting, console, library_warnings
from naysay.errors import UsageError
from naysay.io.files import format_of, read_table, refuse_address, require_file
from naysay.io.size import require_room
from naysay.plan.join import joins_of
from naysay.repairs.result import Repair, changed_table
from naysay.report.words import counted


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """The options of `naysay repair` that are not shared with other commands."""

    min_confidence: float
    key: tuple[str, ...]
    nulls: str
    out: Path | None
    out_format: str
    raw_csv: bool
    apply: Path | None
    hide: tuple[str, ...]
    show: int


@click.command()
@click.argument("input", metavar="INPUT")
@options.rules
@options.packed(
    "request",
    RepairRequest,
    click.option(
        "--min-confidence",
        type=click.FloatRange(0, 1, max_open=True),
        default=api.MIN_CONFIDENCE,
        show_default=True,
        metavar="C",
        help="Drop suggestions that are less sure: C is the share of the votes for the new value, with one more vote "
        "against it.",
    ),
    options.key("[default: row number]"),
    options.nulls,
    click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Write all suggestions to this folder."),
    options.choice("--out-format", ("csv", "parquet", "json"), "Format of the table in --out."),
    click.option("--raw-csv", is_flag=True, help="Do not escape cells in --out that a spreadsheet reads as formulas."),
    click.option(
        "--apply",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write a copy of the table with all suggestions applied (.csv, .parquet or .jsonl).",
    ),
    options.hide,
    options.number("--show", 0, "Number of suggestions to show.", 10),
)
@options.memory
@options.threads
@options.files
@options.output_format("text", "json")
@options.color
@options.quiet("progress and suggestions")
@options.debug
def repair(
    input: str,
    rules: RuleSource,
    request: RepairRequest,
    memory: str | None,
    threads: int,
    files: FileFormat,
    format: str,
    color: str,
    quiet: bool,
) -> int:
    """Suggest new values for the cells of the table INPUT that break dependencies such as zip -> city.

    Rows with the same zip vote on their city; a close vote, or a rule that does not fit the data, suggests nothing.
    INPUT is never changed: --out writes the suggestions, --apply a changed copy. Runs in this process.

    Exit codes: 0 all rules hold once the suggestions are applied, 1 violations remain, others as for naysay.

    \b
    naysay repair people.csv --rule 'zip -> city'
    naysay repair people.csv --rules people.rules --out suggestions --apply repaired.csv
    """
    _require_local(input)
    joins = joins_of(rules.load())
    rules.say_left_out()
    if request.apply is not None:
        if request.hide:
            raise UsageError("--apply writes a copy of the table with all its values, and --hide hides some; drop one")
        _require_copy(input, request.apply)
    with Waiting(watched=not quiet) as waiting, library_warnings(), without_values(input, request.hide):
        waiting.stage(f"reading {input}")
        place = decide_for_table(input, files, Place("local", None, memory, threads))
        require_room(input, joins, api.memory_bytes(place.memory), writes=True, **files.arguments)
        with open_table(input, files, place, waiting) as frame:
            loaded = rules.load(frame.names)
            waiting.stage(f"voting by {counted(len(loaded), 'rule')}")
            found = api.repair(
                frame,
                loaded,
                min_confidence=request.min_confidence,
                key=request.key,
                nulls=request.nulls,
                hide=request.hide,
                memory=place.memory,
                threads=place.threads,
            )
        found = replace(found, source=input)
        _write(found, request, files, waiting)
    _print(found, request, format, color, quiet=quiet)
    return Exit.HOLDS if found.passes else Exit.BROKEN


def _require_local(source: str) -> None:
    if "://" in source and not os.path.exists(source):
        refuse_address(source)
        raise UsageError(f"{source} is not a local path; repair reads local files only: copy the table to this machine")
    require_file(source)


def _require_copy(source: str, copy: Path) -> None:
    from naysay.report.results import copy_format

    copy_format(copy)
    if copy.exists() and os.path.exists(source) and copy.samefile(source):
        raise UsageError(f"--apply {copy} is the table itself, which is never changed; name another file")


def _write(found: Repair, request: RepairRequest, files: FileFormat, waiting: Waiting) -> None:
    from naysay.report.results import ResultsFolder, write_repair

    if request.out is not None:
        waiting.stage(f"writing {request.out}")
        write_repair(found, ResultsFolder(str(request.out), request.out_format, neutral=not request.raw_csv))
    if request.apply is not None:
        waiting.stage(f"writing {request.apply}")
        _write_copy(found, request.apply, files)


def _write_copy(found: Repair, target: Path, files: FileFormat) -> None:
    """Write the changed table. From CSV to CSV all other values stay as they are written, such as 1.10."""
    from naysay.report.results import copy_format, write_copy, write_text_copy

    source = found.source
    is_csv = os.path.isfile(source) and (files.input_format or format_of(source)) == "csv"
    if is_csv and copy_format(target) == "csv":
        types = dict.fromkeys(found.data.names, pa.string())
        texts = read_table(source, given=types, **files.arguments)
        write_text_copy(changed_table(texts, found.origins), target, files.delimiter or ",")
    else:
        write_copy(changed_table(found.data.arrow, found.origins), target)


def _print(found: Repair, request: RepairRequest, format: str, color: str, *, quiet: bool) -> None:
    if format == "json":
        click.echo(found.to_json())
        return
    from naysay.report.repairs import print_repair

    print_repair(found, console(color), request.show, quiet=quiet)
    if request.out is not None and not quiet:
        say(f"wrote {counted(len(found), 'suggestion')} to {request.out}")
    if request.apply is not None and not quiet:
        say(f"wrote a copy with {counted(len(found), 'changed cell')} to {request.apply}")
