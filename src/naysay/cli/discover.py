"""`naysay discover`: find the rules of a table, say the best in words, write them for `naysay check`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from naysay import api
from naysay.budget import Progress, interruptibly
from naysay.cli import options
from naysay.cli.failure import Exit, Session, say
from naysay.cli.screen import Waiting, console
from naysay.discovery.result import Discovery
from naysay.errors import UsageError
from naysay.io.files import read_table

if TYPE_CHECKING:
    from naysay.discovery.result import Discovery, Finding
    from naysay.rule.model import Rule


@dataclass(frozen=True, slots=True)
class Request:
    """The options of `naysay discover`, as given."""

    input: str
    error: float
    columns: str | None
    cross: bool
    space: str
    nulls: str
    about: tuple[str, ...]
    like: str | None
    top: int
    everything: bool
    out: Path | None
    report: Path | None
    state: Path | None
    key: tuple[str, ...]
    max_predicates: int | None
    max_rules: int | None
    max_seconds: float | None
    method: str
    device: str
    engine: str | None
    master: str | None
    memory: str | None
    threads: int
    input_format: str | None
    encoding: str | None
    delimiter: str | None
    format: str
    color: str
    quiet: bool

    @property
    def on_spark(self) -> bool:
        return self.state is None and self.engine != "local"

    @property
    def column_names(self) -> list[str] | None:
        return None if self.columns is None else [name.strip() for name in self.columns.split(",")]

    def require_sense(self) -> None:
        """Raise UsageError where options contradict each other."""
        if self.state is not None and self.engine == "spark":
            raise UsageError("--state keeps a table of this process; leave out --engine spark")
        if self.state is not None and (self.max_rules is not None or self.max_seconds is not None):
            raise UsageError("--state keeps the whole answer; leave out --max-rules and --max-seconds")
        if self.state is not None and self.memory is not None:
            raise UsageError("--memory cannot be combined with --state; leave out one of them")
        if self.state is None and self.method == "incdc":
            raise UsageError("the method incdc keeps indexes for rows that come and go: it needs --state DIR")
        if self.state is not None and self.method == "hydra":
            raise UsageError("the method hydra keeps nothing for --state; leave out one of them")
        if self.state is None and self.key:
            raise UsageError("--key names the rows for naysay evolve: it needs --state DIR")
        if self.master is not None and not self.on_spark:
            raise UsageError("--master names a Spark cluster; leave out --engine local and --state to use it")


def run(request: Request, waiting: Waiting, *, debug: bool) -> Discovery:
    if request.on_spark:
        return _on_spark(request, waiting, debug=debug)
    waiting.will_compile()
    waiting.stage(f"reading {request.input}")
    table = interruptibly(
        lambda: read_table(
            request.input, format=request.input_format, encoding=request.encoding, delimiter=request.delimiter
        )
    )
    waiting.stage("discovering")
    if request.state is not None:
        return _with_state(request, table)
    return api.discover(
        table, memory=request.memory, threads=request.threads, device=request.device, **_wanted(request, waiting)
    )


def _wanted(request: Request, waiting: Waiting) -> dict[str, Any]:
    return {
        "error": request.error,
        "columns": request.column_names,
        "cross": request.cross,
        "max_predicates": request.max_predicates,
        "max_rules": request.max_rules,
        "max_seconds": request.max_seconds,
        "nulls": request.nulls,
        "method": request.method,
        "space": request.space,
        "progress": _told(waiting),
    }


def _told(waiting: Waiting) -> Callable[[Progress], None]:
    def tell(progress: Progress) -> None:
        known = f", {progress.n_rules:,} rules so far" if progress.n_rules else ""
        waiting.update(f"{progress.phase}{known} (Ctrl-C: stop with what is known)", progress.done)

    return tell


def _with_state(request: Request, table: Any) -> Discovery:
    """Discover by an evolver, whose state `naysay evolve` goes on from."""
    from naysay.evolve.evolver import Evolver

    with Evolver(
        table,
        request.key,
        error=request.error,
        nulls=request.nulls,
        columns=request.column_names,
        cross=request.cross,
        space=request.space,
        max_predicates=request.max_predicates,
        method=request.method,
        state=request.state,
        threads=request.threads,
        device=request.device,
    ) as evolver:
        return evolver.discovery


def _on_spark(request: Request, waiting: Waiting, *, debug: bool) -> Discovery:
    from naysay.spark.session import session_for

    master = request.master or (f"local[{request.threads}]" if request.threads else "local[*]")
    waiting.stage(f"starting Spark on {master}")
    with session_for(master, memory=request.memory, debug=debug) as session:
        from naysay.cli.check_spark import located
        from naysay.spark.read import read
        from naysay.spark.session import plain_errors

        waiting.stage(f"reading {request.input} on Spark")
        data = read(
            session,
            located(request.input),
            format=request.input_format,
            encoding=request.encoding,
            delimiter=request.delimiter,
        )
        with plain_errors(request.input):
            waiting.stage("discovering on Spark")
            found = api.discover(data, device=request.device, **_wanted(request, waiting))
    return replace(found, engine="spark")


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
    "--max-seconds",
    type=click.FloatRange(0.0, min_open=True),
    metavar="SECONDS",
    help="Stop after SECONDS and return partial results.",
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
    by chance come last. Ctrl-C and --max-seconds end the search with what is known, marked as partial.

    \b
    naysay discover people.csv --out people.rules
    naysay check people.csv --rules people.rules
    naysay discover people.csv --error 0.01 --about ZipCode
    """
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
    rules = found.rules.about(*request.about)
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
    if not shown and len(found.rules):
        say("none of the rules is about that; leave out --about and --like to see all")
    if request.out is not None and not request.quiet and request.format == "text":
        n_rules = len(shown) if everything is None else len(everything)
        say(f"{n_rules:,} rules written to {request.out}")
