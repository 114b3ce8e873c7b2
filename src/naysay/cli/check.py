"""`naysay check`: read a table, check the rules, print what was found."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from naysay.cli import options
from naysay.cli.failure import Session
from naysay.cli.options import load
from naysay.cli.request import Request
from naysay.cli.screen import Waiting, console
from naysay.errors import UsageError

if TYPE_CHECKING:
    from naysay.detect.result import Report

_STRATEGIES = ("auto", "rapidash-range-tree", "rapidash-kd-tree", "facet")


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
    "--out", metavar="DIR", help="Write violations, rows and cells in conflict, and the report into this folder."
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
@options.max_seconds
@click.option("--threads", type=click.IntRange(0), default=0, metavar="N", help="Threads.  [default: all cores]")
@options.input_format
@options.encoding
@options.delimiter
@options.output_format("text", "json", "junit", "md")
@options.color
@options.quiet
@options.debug
@click.pass_context
def check(context: click.Context, /, **given: Any) -> int:
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
    debug = context.ensure_object(Session).debug
    with Waiting(watched=not request.quiet) as waiting, warnings.catch_warnings():
        if not debug:
            # What libraries announce for their next versions is not for the people who run this one.
            warnings.simplefilter("ignore")
        if request.engine == "spark":
            from naysay.cli.check_spark import check_on_spark

            report = check_on_spark(request, waiting, debug=debug)
        else:
            from naysay.cli.check_local import check_locally

            report = check_locally(request, waiting)
        if request.report is not None:
            from naysay.report.html import write_page

            waiting.stage(f"writing {request.report}")
            write_page(report, request.report)
    _print(request, report)
    return report.exit_code


def _print(request: Request, report: Report) -> None:
    if request.format == "text":
        from naysay.report.terminal import Detail, print_report

        print_report(report, console(request.color), Detail(request.sample, request.quiet))
        return
    shown = (replace(result, sample=result.sample[: request.n_shown]) for result in report.results)
    report = replace(report, results=tuple(shown))
    if request.format == "json":
        from naysay.report.json_ import dumps

        click.echo(dumps(report))
    elif request.format == "junit":
        from naysay.report.junit import to_junit

        click.echo(to_junit(report))
    else:
        from naysay.report.markdown import to_markdown

        click.echo(to_markdown(report))
