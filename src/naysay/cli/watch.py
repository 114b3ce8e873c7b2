"""`naysay watch`: follow a folder of change files, and say which violations come and go."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from naysay.cli import options
from naysay.cli.failure import Exit, say
from naysay.cli.options import load
from naysay.errors import NaysayError, UsageError
from naysay.live.layout import named
from naysay.rule.model import Rule

if TYPE_CHECKING:
    from naysay.cli.screen import View
    from naysay.evolve.feed import EvolveFeed
    from naysay.live.feed.changes import ChangeSink
    from naysay.watch.feed import Feed, FeedOptions


def watch_evolving(request: Request) -> int:
    """Run until interrupted, or until nothing is waiting with --once."""
    from naysay.cli.screen import View
    from naysay.evolve.feed import EvolveFeed

    if request.rules_files or request.rule_texts:
        raise UsageError("--evolve finds the rules itself; leave out --rules and --rule")
    if request.partitions or request.counting:
        raise UsageError("--evolve keeps its state in one process, and counts no violations of given rules")
    n_sentences = 0 if request.quiet else N_SENTENCES
    feed = EvolveFeed(request.state, request.key, nulls=request.nulls, error=request.error, n_sentences=n_sentences)
    with feed, View(feed, color=request.color, quiet=request.quiet, noun="rules") as view:
        if request.engine == "spark":
            _on_spark(request, feed, view)
        else:
            from naysay.live.feed.follow import Follower

            _follow(Follower(Path(request.source), feed, request.state), view, request)
    return Exit.HOLDS


def _on_spark(request: Request, feed: EvolveFeed, view: View) -> None:
    from naysay.spark.session import STREAM_SETTINGS, session_for

    with session_for(request.master, settings=STREAM_SETTINGS, app="naysay watch") as session:
        from naysay.live.spark.folder import FolderSource
        from naysay.live.spark.stream import Stream, StreamOptions

        stream_options = StreamOptions(request.state, request.once, request.interval)
        source = FolderSource(session, request.source, request.state)
        with closing(Stream(source, feed, stream_options, view.show)) as stream:
            stream.wait()


# While nothing comes, the current violations are written this often at most.
_CURRENT_SECONDS = 10.0
# So many of the newest violations are shown in words.
N_SENTENCES = 6


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for."""

    source: str
    rules_files: tuple[Path, ...]
    rule_texts: tuple[str, ...]
    key: tuple[str, ...]
    state: Path
    engine: str
    master: str | None
    partitions: int
    once: bool
    interval: float
    nulls: str | None
    counting: bool
    index: str
    evolve: bool
    error: float
    color: str
    quiet: bool


@click.command(short_help="Follow changes of a table, and the violations that come and go.")
@click.argument("source", metavar="SOURCE")
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
@click.option(
    "--partitions",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Spread the state over N parts, for tables beyond one process.  [default: all in the driver's process]",
)
@click.option("--once", is_flag=True, help="Apply what is there, and stop.")
@click.option(
    "--interval",
    type=click.FloatRange(0.05),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look for new files.",
)
@click.option("--nulls", type=click.Choice(["sql", "equal"]), default=None, help="What a null means.  [default: sql]")
@click.option("--counting", is_flag=True, help="Count violations and keep no pairs: for rules that very many break.")
@click.option("--index", type=click.Choice(["auto", "lt-tree"]), default="auto", show_default=True)
@click.option("--evolve", is_flag=True, help="No rules are given: say which rules of the table stop and start to hold.")
@click.option(
    "--error",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    metavar="E",
    help="With --evolve: the fraction of pairs that may break a rule.  [default: 0]",
)
@options.color
@options.quiet
@options.debug
def watch(**given: Any) -> int:
    """Follow SOURCE, a folder of change files, and keep the violations of rules up to date.

    A change file is Parquet, CSV or JSON lines: the columns of the table, and a column op with insert, update or
    delete (or c, u, d). Each file is applied once, in the order of names, also when the process is killed in between.
    Write files elsewhere and rename them into the folder: one that is still being written is waited for.
    DIR/output has the events, the current violations, rejected changes with the reason, and a manifest.

    \b
    naysay watch changes/ --rules people.rules --key id --state people.watch
    naysay watch changes/ --rules people.rules --key id --state people.watch --engine local --once
    naysay watch changes/ --evolve --key id --state people.evolve
    """
    request = Request(**given)
    if request.evolve:
        return watch_evolving(request)
    if request.error:
        raise UsageError("--error is for --evolve; rules have max_violations and max_fraction")
    from naysay.live.feed.follow import folder_at

    # Before Spark is started and a folder is made.
    rules = _rules(request)
    folder_at(request.source)
    if request.engine == "spark":
        return _watch_on_spark(request, rules)
    if request.partitions:
        raise UsageError("--partitions is for the Spark engine; --engine local keeps the state in this process")
    return _watch_locally(request, rules)


def _watch_locally(request: Request, rules: dict[str, Rule] | None) -> int:
    from naysay.cli.screen import View
    from naysay.live.feed.follow import Follower

    with _open_feed(request, rules) as feed:
        follower = Follower(Path(request.source), feed, request.state)
        with View(feed, color=request.color, quiet=request.quiet) as view:
            try:
                _follow(follower, view, request)
            except KeyboardInterrupt:
                # What is closed in the middle of a change stays as it is on disk.
                with suppress(NaysayError):
                    feed.write_current()
                raise
        return _verdict(feed.rules, feed)


def _watch_on_spark(request: Request, rules: dict[str, Rule] | None) -> int:
    from naysay.cli.screen import View
    from naysay.spark.session import STREAM_SETTINGS, session_for

    with session_for(request.master, settings=STREAM_SETTINGS, app="naysay watch") as session:
        from naysay.live.spark.stream import StreamOptions
        from naysay.watch.spark.engine import follow_folder, open_sink

        stream_options = StreamOptions(request.state, request.once, request.interval, request.partitions)
        body, said = open_sink(session, rules, request.key, stream_options, _options(request))
        for line in said:
            say(line)
        with closing(body), View(body, color=request.color, quiet=request.quiet) as view:
            with closing(follow_folder(session, request.source, body, stream_options, view.show)) as stream:
                stream.wait()
            return _verdict(body.rules, body)


def _rules(request: Request) -> dict[str, Rule] | None:
    if not request.rules_files and not request.rule_texts:
        from naysay.live.journal.journal import journal_exists

        if journal_exists(request.state / "state.duckdb") or (request.state / "parts").exists():
            return None
        load((), ())
    return named(load(request.rules_files, request.rule_texts))


def _open_feed(request: Request, rules: dict[str, Rule] | None) -> Feed:
    from naysay.watch.feed import open_feed

    feed, said = open_feed(request.state, rules, request.key, _options(request))
    for line in said:
        say(line)
    return feed


def _options(request: Request) -> FeedOptions:
    from naysay.watch.feed import FeedOptions

    return FeedOptions(request.nulls, request.counting, request.index, 0 if request.quiet else N_SENTENCES)


def _follow(follower: Any, view: Any, request: Request) -> None:
    written = 0.0
    stale = True
    reported: set[str] = set()
    while True:
        for step in follower.drain():
            view.show(step)
            stale = True
        done = request.once and not follower.taker.changing
        if stale and (done or time.monotonic() - written > _CURRENT_SECONDS):
            follower.sink.write_current()
            written, stale = time.monotonic(), False
        if done:
            return
        for name in set(follower.taker.slow()) - reported:
            say(f"{name}: waiting for this file, which is still being written")
            reported.add(name)
        view.idle()
        time.sleep(request.interval)


def _verdict(rules: Mapping[str, Rule], body: ChangeSink) -> int:
    """0 where all rules of severity error hold within their tolerance."""
    from naysay.detect.result import within_tolerance
    from naysay.rule.model import Severity

    for name, rule in rules.items():
        if rule.severity is Severity.ERROR and not within_tolerance(rule, body.counts[name], body.n_rows):
            return Exit.BROKEN
    return Exit.HOLDS
