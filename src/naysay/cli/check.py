"""`naysay check`: read a table, check the rules, print what was found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from naysay.cli import options
from naysay.cli.failure import say
from naysay.cli.rules import load
from naysay.cli.screen import Waiting, console
from naysay.errors import UsageError

if TYPE_CHECKING:
    from naysay.table import Table
    from naysay.verbs.result import Report

_STRATEGIES = ("auto", "rapidash-range-tree", "rapidash-kd-tree", "facet")
_PAIRS_IN_A_PAGE = 50


@dataclass(frozen=True, slots=True)
class Request:
    """The options of `naysay check`, as given."""

    input: str
    rules_files: tuple[Path, ...]
    rule_texts: tuple[str, ...]
    engine: str
    master: str | None
    key: tuple[str, ...]
    nulls: str
    strategy: str
    memory: str | None
    threads: int
    quick: bool
    input_format: str | None
    encoding: str | None
    delimiter: str | None
    sample: int | None
    limit: int
    out: Path | None
    out_format: str
    raw_csv: bool
    report: Path | None
    format: str
    color: str
    quiet: bool

    @property
    def n_sample(self) -> int:
        """So many pairs a rule are looked for: a page and a results folder have room for more than a terminal."""
        wanted = 5 if self.sample is None else self.sample
        return max(wanted, _PAIRS_IN_A_PAGE) if self.report is not None or self.out is not None else wanted


@click.command(short_help="Check a table against rules.")
@click.argument("input", metavar="INPUT")
@options.rules
@options.rule
@click.option(
    "--engine",
    type=click.Choice(["spark", "local"]),
    default="spark",
    show_default=True,
    help="Where the work runs: on Spark, or in this process.",
)
@click.option("--master", metavar="URL", help="The Spark cluster.  [default: local[*]]")
@options.key
@options.nulls
@click.option("--quick", is_flag=True, help="Stop each rule at its first violation: verdicts, no counts.")
@click.option("--sample", type=click.IntRange(0, 10_000), metavar="N", help="Show so many violations a rule.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write violations, rows and cells in conflict, and the report into this folder.",
)
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Write at most so many violations a rule to --out.",
)
@click.option("--out-format", type=click.Choice(["parquet", "csv", "json"]), default="parquet", show_default=True)
@click.option("--raw-csv", is_flag=True, help="Leave cells that a spreadsheet takes for formulas as they are.")
@click.option("--report", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write a page of HTML.")
@click.option("--strategy", type=click.Choice(_STRATEGIES), default="auto", show_default=True, help="How to count.")
@click.option("--memory", metavar="SIZE", help="Refuse work that needs more, such as 512M or 4G.")
@click.option("--threads", type=click.IntRange(0), default=0, metavar="N", help="Threads.  [default: all cores]")
@options.input_format
@options.encoding
@options.delimiter
@options.output_format("text", "json", "junit", "md")
@options.color
@options.quiet
@options.debug
def check(**given: Any) -> int:
    """Check the table INPUT against rules: which hold, how often the others are broken, by which rows.

    INPUT is a file (CSV, Parquet, JSON lines, Arrow), or with Spark whatever path or table it reads.

    \b
    naysay check people.csv --rule 'ZipCode -> City' --rule 'key(AreaCode, Phone)'
    naysay check people.parquet --rules people.rules --key id --report people.html
    """
    request = Request(**given)
    if request.quick and request.out is not None:
        raise UsageError("--quick stops at the first violation and lists none for --out; leave out one of them")
    load(request.rules_files, request.rule_texts)
    with Waiting(watched=not request.quiet) as waiting:
        report = _check_locally(request, waiting)
        if request.report is not None:
            from naysay.report.html import write_page

            waiting.stage(f"writing {request.report}")
            write_page(report, request.report)
    _print(request, report)
    return report.exit_code


def _check_locally(request: Request, waiting: Waiting) -> Report:
    from naysay import api
    from naysay.engines.local_files import read_table
    from naysay.table import from_frame

    waiting.stage(f"reading {request.input}")
    table = from_frame(
        read_table(
            request.input, format=request.input_format, encoding=request.encoding, delimiter=request.delimiter
        )
    )
    rules = load(request.rules_files, request.rule_texts, table.names)
    waiting.stage("checking", len(rules))
    report = api.check(
        table,
        rules,
        key=request.key,
        nulls=request.nulls,
        strategy=request.strategy,
        quick=request.quick,
        sample=request.n_sample,
        memory=request.memory,
        threads=request.threads,
        progress=lambda rule: waiting.advance(),
    )
    report = replace(report, source=request.input)
    if request.out is not None:
        waiting.stage(f"writing {request.out}")
        _write(request, table, report)
    return report


def _write(request: Request, table: Table, report: Report) -> None:
    from naysay import api
    from naysay.engines.local import Options
    from naysay.report.results import Wanted, write_results
    from naysay.rule import Nulls

    assert request.out is not None
    options = Options(
        Nulls(request.nulls), request.key, request.strategy, request.threads, api.memory_bytes(request.memory)
    )
    wanted = Wanted(request.out, request.out_format, request.limit, neutral=not request.raw_csv)
    cut = write_results(table, report, options, wanted)
    if cut and not request.quiet:
        say(f"the first {request.limit:,} violations were written of: {', '.join(cut)}; --limit N writes more")


def _print(request: Request, report: Report) -> None:
    if request.format == "text":
        from naysay.report.terminal import Detail, print_report

        print_report(report, console(request.color), Detail(request.sample, request.quiet))
        return
    if request.sample is None and request.n_sample > 5:
        report = replace(report, results=tuple(replace(result, sample=result.sample[:5]) for result in report.results))
    if request.format == "json":
        from naysay.report.json_ import dumps

        click.echo(dumps(report))
    elif request.format == "junit":
        from naysay.report.junit import to_junit

        click.echo(to_junit(report))
    else:
        from naysay.report.markdown import to_markdown

        click.echo(to_markdown(report))
