"""`naysay watch`: follow a folder of change files, and say which violations come and go."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from naysay.cli import options
from naysay.cli.failure import Exit, say
from naysay.cli.rules import load
from naysay.errors import UsageError

# While nothing comes, the standing violations are written this often at most.
_STANDING_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for."""

    source: Path
    rules_files: tuple[Path, ...]
    rule_texts: tuple[str, ...]
    key: tuple[str, ...]
    state: Path
    engine: str
    master: str | None
    once: bool
    interval: float
    nulls: str | None
    counting: bool
    index: str
    color: str
    quiet: bool


@click.command(short_help="Follow changes of a table, and the violations that come and go.")
@click.argument("source", metavar="SOURCE", type=click.Path(path_type=Path))
@options.rules
@options.rule
@options.key
@click.option(
    "--state",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The folder of the watch: its state, and its output. The next start goes on from there.",
)
@click.option(
    "--engine",
    type=click.Choice(["spark", "local"]),
    default="spark",
    show_default=True,
    help="Where the work runs: Spark Structured Streaming, or this process.",
)
@click.option("--master", metavar="URL", help="The Spark cluster.  [default: local[*]]")
@click.option("--once", is_flag=True, help="Apply what is there, and stop.")
@click.option(
    "--interval", type=click.FloatRange(0.05), default=1.0, show_default=True, metavar="SECONDS",
    help="How often to look for new files.",
)  # fmt: skip
@click.option("--nulls", type=click.Choice(["sql", "equal"]), default=None, help="What a null means.  [default: sql]")
@click.option("--counting", is_flag=True, help="Count violations and keep no pairs: for rules that very many break.")
@click.option("--index", type=click.Choice(["auto", "lt-tree"]), default="auto", show_default=True)
@options.color
@options.quiet
@options.debug
def watch(**given: Any) -> int:
    """Follow SOURCE, a folder of change files, and keep the violations of rules up to date.

    A change file is Parquet, CSV or JSON lines: the columns of the table, and a column op with insert, update or
    delete (or c, u, d). Each file is applied once, in the order of names, also when the process is killed in between.
    DIR/output has the events, the standing violations, what was set aside with the reason, and a manifest.

    \b
    naysay watch changes/ --rules people.rules --key id --state people.watch --engine local
    naysay watch changes/ --rules people.rules --key id --state people.watch --engine local --once
    """
    request = Request(**given)
    if request.engine == "spark":
        if find_spec("naysay.engines.stream") is None:
            raise UsageError("this naysay cannot watch on Spark yet; use --engine local")
        return int(import_module("naysay.engines.stream").watch_folder(request))
    return _watch_locally(request)


def _watch_locally(request: Request) -> int:
    from naysay.cli.watch_view import View
    from naysay.watch import Watch
    from naysay.watch.follow import Follower
    from naysay.watch.naming import named

    rules = None
    if request.rules_files or request.rule_texts:
        rules = named(load(request.rules_files, request.rule_texts))
    store = request.state / "state.duckdb"
    is_new = not store.exists()
    if is_new and rules is None:
        load((), ())
    request.state.mkdir(parents=True, exist_ok=True)
    with Watch(
        list(rules.values()) if is_new and rules else None,
        request.key,
        store=store,
        nulls=request.nulls,
        counting=request.counting,
        index=request.index,
    ) as watch:
        follower = Follower(request.source, watch, request.state)
        if rules is not None:
            for line in follower.use_rules(rules):
                say(line)
        with View(watch, color=request.color, quiet=request.quiet) as view:
            _follow(follower, view, request)
        return _verdict(watch)


def _follow(follower: Any, view: Any, request: Request) -> None:
    written = 0.0
    stale = True
    while True:
        for step in follower.drain():
            view.show(step)
            stale = True
        if stale and (request.once or time.monotonic() - written > _STANDING_SECONDS):
            follower.write_standing()
            written, stale = time.monotonic(), False
        if request.once:
            return
        view.idle()
        time.sleep(request.interval)


def _verdict(watch: Any) -> int:
    """0 where all rules of severity error hold within their tolerance."""
    from naysay.rule.model import Severity
    from naysay.verbs.result import within_tolerance

    for name, rule in watch.rules.items():
        if rule.severity is Severity.ERROR and not within_tolerance(rule, watch.counts[name], watch.n_rows):
            return Exit.BROKEN
    return Exit.HOLDS
