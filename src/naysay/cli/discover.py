"""`naysay discover`: find the rules of a table, say the best in words, write them for `naysay check`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from naysay.cli import options
from naysay.cli.discover_request import Request
from naysay.cli.failure import Exit, Session, say
from naysay.cli.screen import Waiting, console

if TYPE_CHECKING:
    from naysay.discovery.result import Discovery, Finding
    from naysay.rule.model import Rule


@click.command(short_help="Find the rules that a table obeys, the best first.")
@click.argument("input", metavar="INPUT")
@click.option(
    "--error",
    type=click.FloatRange(0.0, 1.0, max_open=True),
    default=0.0,
    show_default=True,
    metavar="E",
    help="Also rules that at most this fraction of all ordered pairs break.",
)
@click.option("--columns", metavar="A,B,...", help="Only rules about these columns.  [default: all]")
@click.option("--cross/--no-cross", default=True, help="Compare different columns of the same kind.  [default: cross]")
@click.option(
    "--space",
    type=click.Choice(["naysay", "incdc", "hydra"]),
    default="naysay",
    show_default=True,
    help="Which comparisons rules may use: ours, or those of a paper.",
)
@options.nulls
@click.option("--about", multiple=True, metavar="COLUMN", help="Show rules that mention this column. Repeatable.")
@click.option("--like", metavar="RULE", help="Show rules that RULE follows from, or that follow from RULE.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, metavar="N", help="Show so many rules.")
@click.option("--all", "everything", is_flag=True, help="Show and write every minimal rule, short ones first.")
@click.option(
    "--out",
    "--save",
    "out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the rules into a file that `naysay check --rules` reads.",
)
@click.option("--report", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write a page of HTML.")
@click.option("--state", type=click.Path(path_type=Path), metavar="DIR", help="Keep all for `naysay evolve`.")
@options.key
@click.option("--max-predicates", type=click.IntRange(1), metavar="N", help="Only rules of so few predicates.")
@click.option("--max-rules", type=click.IntRange(1), metavar="N", help="Stop at so many rules, short ones first.")
@click.option(
    "--timeout", type=click.FloatRange(0.0, min_open=True), metavar="SECONDS", help="Stop then, with what is known."
)
@click.option(
    "--method",
    type=click.Choice(["auto", "all-pairs", "selective", "hydra", "incdc"]),
    default="auto",
    show_default=True,
    help="How to look; auto: by estimated cost. incdc: with --state alone.",
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Where all pairs are compared.",
)
@click.option(
    "--engine",
    type=click.Choice(["spark", "local"]),
    help="Where the work runs: on Spark, or in this process.  [default: spark; local with --state]",
)
@click.option("--master", metavar="URL", help="The Spark cluster.  [default: local[*]]")
@click.option("--memory", metavar="SIZE", help="Refuse work that needs more, such as 512M or 4G.")
@click.option("--threads", type=click.IntRange(0), default=0, metavar="N", help="Threads.  [default: all cores]")
@options.input_format
@options.encoding
@options.delimiter
@options.output_format("text", "json")
@options.color
@options.quiet
@options.debug
@click.pass_context
def discover(context: click.Context, /, **given: Any) -> int:
    """Find the rules that the table INPUT obeys: exactly, or all but a few pairs of rows.

    Shows the rules that a person should look at, in words, with how many pairs of rows tested each; rules that may hold
    by chance come last. Ctrl-C and --timeout end the search with what is known, marked as partial.

    \b
    naysay discover people.csv --out people.rules
    naysay check people.csv --rules people.rules
    naysay discover people.csv --error 0.01 --about ZipCode
    """
    from naysay.cli.discover_run import run

    request = Request(**given)
    request.require_sense()
    debug = context.ensure_object(Session).debug
    with Waiting(watched=not request.quiet) as waiting, warnings.catch_warnings():
        if not debug:
            warnings.simplefilter("ignore")
        found = run(request, waiting, debug=debug)
        waiting.stage("ranking")
        shown = found.top(request.top, about=request.about, like=request.like)
        everything = _everything(request, found) if request.everything else None
        if request.out is not None:
            found.save(request.out, everything if everything is not None else [finding.rule for finding in shown])
        if request.report is not None:
            from naysay.report.discoveries import write_page

            write_page(found, shown, request.report, request.input)
    _print(request, found, shown, everything)
    return Exit.INTERRUPTED if found.partial and found.reason == "interrupted" else Exit.HOLDS


def _everything(request: Request, found: Discovery) -> list[Rule]:
    rules = found.all.about(*request.about)
    return list(rules if request.like is None else rules.like(request.like))


def _print(request: Request, found: Discovery, shown: list[Finding], everything: list[Rule] | None) -> None:
    from naysay.report.discoveries import dumps, print_discovery

    if request.format == "json":
        click.echo(dumps(found, shown, request.input, everything or ()))
    elif everything is not None:
        click.echo(found.text(everything), nl=False)
    elif request.quiet:
        click.echo(found.text([finding.rule for finding in shown]), nl=False)
    else:
        print_discovery(found, shown, console(request.color), source=request.input)
    if not shown and len(found.all):
        say("none of the rules is about that; leave out --about and --like to see all")
    if request.out is not None and not request.quiet and request.format == "text":
        n_rules = len(shown) if everything is None else len(everything)
        say(f"{n_rules:,} rules written to {request.out}")
