"""`naysay check`: read a table, check rules, print and write the results."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from naysay import api
from naysay.cli import options
from naysay.cli.engine import Choice
from naysay.cli.failure import say
from naysay.cli.options import FileFormat, Place, RuleSource, decide_for_table, open_table, without_values
from naysay.cli.screen import Waiting, console, library_warnings
from naysay.detect.result import Report
from naysay.detect.strategy import NAMES as STRATEGIES
from naysay.errors import UsageError
from naysay.io.results import ALL_RULES
from naysay.io.size import require_room
from naysay.plan.join import joins_of
from naysay.report.words import counted, title

_PAIRS_IN_A_TEXT = 5
_PAIRS_IN_A_PAGE = 50
_RULES_IN_A_MESSAGE = 10


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """The options of `naysay check` that are not shared with other commands."""

    key: tuple[str, ...]
    nulls: str
    strategy: str
    max_seconds: float | None
    quick: bool
    sample: int | None
    limit: int
    out: str | None
    out_format: str
    raw_csv: bool
    report: Path | None
    strict: bool
    hide: tuple[str, ...]
    now: datetime.datetime | None
    joint: bool
    no_causes: bool

    @property
    def n_sample(self) -> int:
        """The number of pairs per rule to find: a page and a results folder have room for more than a terminal."""
        n_shown = _PAIRS_IN_A_TEXT if self.sample is None else self.sample
        return n_shown if self.report is None and self.out is None else max(n_shown, _PAIRS_IN_A_PAGE)

    @property
    def forced(self) -> Choice | None:
        """The engine that options ask for which only one engine has."""
        if self.out is not None and "://" in self.out:
            return Choice("spark", f"only Spark writes to {self.out}")
        if self.strategy != "auto":
            return Choice("local", f"--strategy is {self.strategy}")
        return None if self.max_seconds is None else Choice("local", "--max-seconds is given")


@click.command()
@click.argument("input", metavar="INPUT")
@options.rules
@options.packed(
    "place", Place, options.engine, options.master, options.memory, options.threads, options.packages, options.conf
)
@options.packed(
    "request",
    CheckRequest,
    options.key("[default: row number; on Spark, position in the file, or a hash]"),
    options.nulls,
    click.option("--quick", is_flag=True, help="Stop each rule at its first violation: verdicts without counts."),
    click.option(
        "--sample",
        type=click.IntRange(0, 10_000),
        metavar="N",
        help="Number of violations to show per rule.  [default: 1 to 3 in text, 5 in other formats]",
    ),
    click.option(
        "--out",
        metavar="DIR",
        help="Write violations, suspects, rows and cells in conflict, and the report to this folder.",
    ),
    options.number("--limit", 0, "Maximum number of violations per rule to write to --out.", 10_000),
    options.choice("--out-format", ("parquet", "csv", "json"), "Format of the tables in --out."),
    click.option("--raw-csv", is_flag=True, help="Do not escape cells that a spreadsheet would read as formulas."),
    options.page,
    click.option(
        "--strict",
        is_flag=True,
        help="Exit with code 1 if there are warnings: traps in the data, or broken rules of severity warning.",
    ),
    options.hide,
    options.now,
    click.option("--joint", is_flag=True, help="Also find the fewest rows to remove so that all rules hold together."),
    click.option("--no-causes", is_flag=True, help="Do not look for the causes of broken rules."),
    options.choice("--strategy", STRATEGIES, "How to find violations in-process: auto, or the method of a paper."),
    options.max_seconds("In-process, refuse a rule whose estimated time is longer.  [default: 600]"),
)
@options.files
@options.output_format("text", "json", "junit", "md")
@options.color
@options.quiet("progress and pairs of rows")
@options.debug
def check(
    input: str,
    rules: RuleSource,
    place: Place,
    request: CheckRequest,
    files: FileFormat,
    format: str,
    color: str,
    quiet: bool,
) -> int:
    """Check the table INPUT against rules: which hold, how often the others are broken, and by which rows.

    INPUT is a file or folder (CSV, Parquet, JSON lines, ORC, Arrow), also in s3://, gs:// or abfss://, or a DuckDB or
    SQLite file; on Spark, any path, table or JDBC source that Spark can read.

    \b
    naysay check people.csv --rule 'ZipCode -> City' --rule 'key(AreaCode, Phone)'
    naysay check people.parquet --rules people.rules --key id --report people.html
    """
    if request.quick and request.out is not None:
        raise UsageError("--quick stops at the first violation, so there is nothing to list in --out; drop one of them")
    if request.quick and request.joint:
        raise UsageError("--quick stops at the first violation, so it cannot find the rows to remove; drop one of them")
    # Bad rules are reported before Spark starts or a large file is read.
    joins = joins_of(rules.load())
    files = rules.declare(files)
    # The report is printed before Spark is stopped, which takes a while.
    with library_warnings(), without_values(input, request.hide), ExitStack() as opened:
        with Waiting(watched=not quiet) as waiting:
            waiting.stage(f"reading {input}")
            writes = request.out is not None
            place = decide_for_table(
                input, files, place, joins=joins, writes=writes, forced=request.forced, quiet=quiet
            )
            if place.engine == "local":
                require_room(input, joins, api.memory_bytes(place.memory), writes=writes, **files.arguments)
            else:
                _refuse_on_spark(request)
            frame = opened.enter_context(open_table(input, files, place, waiting, numbered=True))
            report = _check(input, frame, rules, place, request, waiting)
            if request.report is not None:
                waiting.stage(f"writing {request.report}")
                report.to_html(request.report)
        if not quiet:
            _say_what_was_written(request)
        print_report_as(format, report, color, request.sample, quiet=quiet)
    return report.exit_code


def _refuse_on_spark(request: CheckRequest) -> None:
    if request.strategy != "auto":
        raise UsageError("--strategy applies to --engine local; on Spark each shape of rule has one method")
    if request.max_seconds is not None:
        raise UsageError("--max-seconds applies to --engine local; on Spark cancel the jobs in Spark's own interface")


def _check(source: str, frame: Any, rules: RuleSource, place: Place, request: CheckRequest, waiting: Waiting) -> Report:
    from naysay.io.files import source_shown

    is_local = place.engine == "local"
    loaded = rules.load(api.engine_for(frame).columns)
    waiting.stage(f"checking {counted(len(loaded), 'rule')}", len(loaded) if is_local else None)
    # On Spark, memory and threads are those of the session, whose own progress is shown.
    limits: dict[str, Any] = {}
    if is_local:
        limits = {"memory": place.memory, "threads": place.threads, "progress": lambda rule: waiting.advance()}
    report = api.check(
        frame,
        loaded,
        key=request.key,
        nulls=request.nulls,
        strategy=request.strategy,
        quick=request.quick,
        sample=request.n_sample,
        strict=request.strict,
        hide=request.hide,
        now=request.now,
        joint=request.joint,
        causes=not request.no_causes,
        max_seconds=request.max_seconds,
        **limits,
    )
    report = replace(report, source=source_shown(source), rules_source=rules.name)
    if request.out is not None:
        waiting.stage(f"writing {request.out}")
        _write(frame, report, place, request, request.out)
    return report


def _write(frame: Any, report: Report, place: Place, request: CheckRequest, out: str) -> None:
    from naysay.detect.request import CheckOptions
    from naysay.report.results import ResultsFolder, write_results
    from naysay.rule import Nulls

    options = CheckOptions(Nulls(request.nulls), request.key, hide=request.hide)
    if place.engine == "local":
        memory = api.memory_bytes(place.memory)
        options = replace(options, strategy=request.strategy, threads=place.threads, memory=memory, has_fitted=True)
        options = replace(options, max_seconds=request.max_seconds)
    folder = ResultsFolder(out, request.out_format, request.limit, neutral=not request.raw_csv)
    cut = write_results(frame, report, options, folder)
    if cut:
        # Also if quiet, because part of what was asked for is missing.
        names = [f"{title(result.rule)} ({result.violations:,})" for result in cut[:_RULES_IN_A_MESSAGE]]
        if len(cut) > _RULES_IN_A_MESSAGE:
            names.append(f"{len(cut) - _RULES_IN_A_MESSAGE:,} more rules")
        say(f"{out} has only {request.limit:,} violations of: {', '.join(names)}; use --limit N to write more")


def _say_what_was_written(request: CheckRequest) -> None:
    if request.out is not None:
        folder = Path(request.out)
        found = f": {', '.join(sorted(_file_names(folder)))}" if folder.is_dir() else ""
        say(f"results written to {request.out}{found}")
    if request.report is not None:
        say(f"report written to {request.report}")


def _file_names(folder: Path) -> Iterator[str]:
    """What a results folder holds; of violations and suspects only how many rules have some."""
    for path in folder.iterdir():
        if path.name in ("violations", "suspects"):
            names = [inner.name for inner in path.iterdir()]
            together = [name for name in names if name.split(".")[0] == ALL_RULES]
            yield f"{path.name} of {counted(len(names) - len(together), 'rule')}"
            yield from (f"{path.name}/{name}" for name in together)
        elif not path.name.startswith("."):
            yield path.name


def print_report_as(
    format: str, report: Report, color: str, n_pairs: int | None = None, *, quiet: bool = False
) -> None:
    """Print a report as text, JSON, JUnit XML or Markdown, with at most `n_pairs` pairs per rule."""
    if format == "text":
        from naysay.report.terminal import Detail, print_report

        print_report(report, console(color), Detail(n_pairs, quiet))
        return
    from naysay.report.ci import to_junit, to_markdown

    n_shown = _PAIRS_IN_A_TEXT if n_pairs is None else n_pairs
    results = tuple(result.shortened(n_shown) for result in report)
    report = replace(report, results=results, first_suspects=report.first_suspects[:n_shown])
    forms: dict[str, Callable[[Report], str]] = {"json": Report.to_json, "junit": to_junit, "md": to_markdown}
    click.echo(forms[format](report))
