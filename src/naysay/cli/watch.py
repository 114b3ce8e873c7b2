"""`naysay watch`: follow a folder of change files, and show which violations appear and disappear."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from naysay.cli import options
from naysay.cli.engine import Choice, choose_for_changes, require_pyspark
from naysay.cli.failure import Exit, say
from naysay.cli.options import FileFormat, Place, RuleSource
from naysay.cli.screen import View, Waiting
from naysay.errors import NaysayError, UsageError
from naysay.live.feed.follow import folder_at
from naysay.live.layout import named
from naysay.rule.model import Rule

if TYPE_CHECKING:
    from naysay.io.notation import Notation
    from naysay.live.feed.changes import ChangeSink
    from naysay.watch.feed import FeedOptions

# While nothing arrives, the current violations are written at most this often.
_WRITE_SECONDS = 10.0
# The number of the newest violations to describe in words.
_N_SENTENCES = 6


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """The options of `naysay watch` that are not shared with other commands."""

    key: tuple[str, ...]
    state: Path
    partitions: int
    once: bool
    interval: float
    nulls: str | None
    counting: bool
    index: str
    max_seconds: float | None
    evolve: bool
    error: float
    quiet: bool

    @property
    def n_sentences(self) -> int:
        return 0 if self.quiet else _N_SENTENCES

    @property
    def feed_options(self) -> FeedOptions:
        from naysay.watch.feed import FeedOptions

        return FeedOptions(self.nulls, self.counting, self.index, self.n_sentences, self.max_seconds)


@click.command()
@click.argument("source", metavar="SOURCE")
@options.rules
@options.packed("place", Place, options.engine, options.master, options.packages, options.conf)
@options.packed(
    "request",
    WatchRequest,
    options.key("[required, unless --state already exists]"),
    click.option(
        "--state",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False),
        required=True,
        help="Folder for the state and the output of the watch. A restart resumes from it.",
    ),
    click.option(
        "--partitions",
        type=click.IntRange(0),
        default=0,
        metavar="N",
        help="On Spark, spread the state over N parts, for tables larger than one process.  [default: keep it in the "
        "driver]",
    ),
    click.option("--once", is_flag=True, help="Apply the files that are there, then stop."),
    click.option(
        "--interval",
        type=click.FloatRange(0.05),
        default=1.0,
        show_default=True,
        metavar="SECONDS",
        help="How often to look for new files.",
    ),
    click.option(
        "--nulls",
        type=click.Choice(["sql", "equal"]),
        help=f"{options.NULLS}  [default: sql, or that of an existing state]",
    ),
    click.option("--counting", is_flag=True, help="Count violations without keeping pairs, for rules with very many."),
    options.choice(
        "--index",
        ("auto", "lt-tree"),
        "Method to find violations: naysay's own, or that of the Weever paper, for comparison.",
    ),
    options.max_seconds("Refuse a rule or a file of changes whose estimated time is longer.  [default: 600]"),
    click.option(
        "--evolve", is_flag=True, help="Discover rules instead of watching given ones, and show how they change."
    ),
    options.error("With --evolve, the fraction of pairs that may break a rule."),
    options.quiet("progress and violations"),
)
@options.packed("files", FileFormat, *options.notation)
@options.color
@options.debug
def watch(source: str, rules: RuleSource, place: Place, request: WatchRequest, files: FileFormat, color: str) -> int:
    """Follow SOURCE, a folder of change files, and keep the violations of rules up to date.

    A change file is Parquet, CSV or JSON lines with the columns of the table and a column op: insert, update or delete
    (or c, u, d). Each file is applied exactly once, in the order of file names, even if the process is killed. Write
    files elsewhere and move them into the folder; a file that is still growing is not read yet. DIR/output has the
    events, the current violations, the rejected changes with reasons, and a manifest.

    \b
    naysay watch changes/ --rules people.rules --key id --state people.watch
    naysay watch changes/ --rules people.rules --key id --state people.watch --once
    naysay watch changes/ --evolve --key id --state people.evolve
    """
    notation = rules.declare(files).notation
    if request.evolve:
        _refuse_with_evolve(rules, request)
        loaded = None
    else:
        if request.error:
            raise UsageError("--error needs --evolve; given rules have max_violations and max_fraction")
        if request.partitions and request.max_seconds is not None:
            raise UsageError("--max-seconds applies to a state in one process; leave it out with --partitions")
        if request.partitions and place.engine == "local":
            raise UsageError("--partitions needs --engine spark; --engine local keeps the state in this process")
        loaded = _load(rules, request)
    # Before Spark is started and a folder is made.
    folder = folder_at(source)
    forced = Choice("spark", f"--partitions is {request.partitions}") if request.partitions else None
    place = place.decided(lambda _: choose_for_changes(source, request.state), forced=forced, quiet=request.quiet)
    if folder is None and place.engine == "local":
        raise UsageError(f"{source} is not a local folder; use --engine spark for remote URLs")
    if request.evolve:
        return _watch_rules(source, folder, place, request, notation, color)
    if folder is None or place.engine == "spark":
        return _watch_on_spark(source, loaded, place, request, notation, color)
    return _watch_in_process(folder, loaded, request, notation, color)


def _refuse_with_evolve(rules: RuleSource, request: WatchRequest) -> None:
    if rules:
        raise UsageError("--evolve discovers the rules itself; leave out --rules and --rule")
    if request.partitions or request.counting:
        raise UsageError("--evolve keeps its state in one process; leave out --partitions and --counting")
    if request.max_seconds is not None:
        raise UsageError("--max-seconds limits the violations of given rules; leave it out with --evolve")
    if request.index != "auto":
        raise UsageError("--index finds the violations of given rules; leave it out with --evolve")


def _watch_in_process(
    source: Path, rules: dict[str, Rule] | None, request: WatchRequest, notation: Notation, color: str
) -> int:
    from naysay.live.feed.follow import Follower
    from naysay.watch.feed import open_feed

    with Waiting(watched=not request.quiet) as waiting:
        waiting.stage(f"opening {request.state}")
        feed, notes = open_feed(request.state, rules, request.key, request.feed_options)
    with feed, View(feed, color=color, quiet=request.quiet) as view:
        for note in notes:
            say(note)
        try:
            _follow(Follower(source, feed, request.state, notation=notation), view, request)
        except KeyboardInterrupt:
            # If it was closed in the middle of a change, the files stay as they are.
            with suppress(NaysayError):
                feed.write_current()
            raise
        return _verdict(feed.rules, feed)


@contextmanager
def _stream_session(place: Place, request: WatchRequest) -> Iterator[Any]:
    """Open a Spark session for a stream, and say so while it starts: afterwards the view of the watch is shown."""
    require_pyspark()
    from naysay.spark.session import STREAM_SETTINGS

    with ExitStack() as stack:
        with Waiting(watched=not request.quiet) as waiting:
            session = place.session(waiting, follow=False, settings=STREAM_SETTINGS, app="naysay watch")
            opened = stack.enter_context(session)
        yield opened


def _watch_on_spark(
    source: str, rules: dict[str, Rule] | None, place: Place, request: WatchRequest, notation: Notation, color: str
) -> int:
    with _stream_session(place, request) as session:
        from naysay.live.spark.stream import StreamOptions
        from naysay.watch.spark.engine import follow_folder, open_sink

        stream_options = StreamOptions(request.state, request.once, request.interval, request.partitions, notation)
        with Waiting(watched=not request.quiet) as waiting:
            waiting.stage(f"opening {request.state}")
            sink, notes = open_sink(session, rules, request.key, stream_options, request.feed_options)
        for note in notes:
            say(note)
        with closing(sink), View(sink, color=color, quiet=request.quiet) as view:
            with closing(follow_folder(session, source, sink, stream_options, view.show)) as stream:
                stream.wait()
            return _verdict(sink.rules, sink)


def _watch_rules(
    source: str, folder: Path | None, place: Place, request: WatchRequest, notation: Notation, color: str
) -> int:
    """Follow changes, and show which discovered rules stop and start to hold."""
    from naysay.evolve.feed import EvolveFeed

    with Waiting(watched=not request.quiet) as waiting:
        waiting.stage(f"opening {request.state}")
        feed = EvolveFeed(
            request.state, request.key, nulls=request.nulls, error=request.error, n_sentences=request.n_sentences
        )
    if place.engine == "local":
        from naysay.live.feed.follow import Follower

        assert folder is not None
        with feed, View(feed, color=color, quiet=request.quiet, noun="rules") as view:
            _follow(Follower(folder, feed, request.state, notation=notation), view, request)
        return Exit.HOLDS
    with feed, _stream_session(place, request) as session:
        from naysay.live.spark.folder import FolderSource
        from naysay.live.spark.stream import Stream, StreamOptions

        files = FolderSource(session, source, request.state, notation=notation)
        stream_options = StreamOptions(request.state, request.once, request.interval)
        view = View(feed, color=color, quiet=request.quiet, noun="rules")
        with view, closing(Stream(files, feed, stream_options, view.show)) as stream:
            stream.wait()
    return Exit.HOLDS


def _load(rules: RuleSource, request: WatchRequest) -> dict[str, Rule] | None:
    """The rules by name; None to continue with those of an existing state."""
    from naysay.live.journal.journal import journal_exists

    if not rules and (journal_exists(request.state / "state.duckdb") or (request.state / "parts").exists()):
        return None
    loaded = named(rules.load())
    rules.say_left_out()
    for name, rule in loaded.items():
        limits = ("max_rows", "max_rows_fraction", "max_remove")
        unknown = next((limit for limit in limits if getattr(rule, limit) is not None), None)
        if unknown is not None:
            raise UsageError(
                f"rule {name!r} has {unknown}, which needs the rows in conflict; watch only counts violations: use "
                "max_violations or max_fraction, or naysay check"
            )
    return loaded


def _follow(follower: Any, view: View, request: WatchRequest) -> None:
    written = 0.0
    stale = True
    reported: set[str] = set()
    while True:
        with view.applying():
            for step in follower.drain():
                view.show(step)
                stale = True
        done = request.once and not follower.taker.changing
        if stale and (done or time.monotonic() - written > _WRITE_SECONDS):
            follower.sink.write_current()
            written, stale = time.monotonic(), False
        if done:
            return
        for name in set(follower.taker.slow()) - reported:
            say(f"{name}: waiting for this file, which is still growing")
            reported.add(name)
        view.idle()
        time.sleep(request.interval)


def _verdict(rules: Mapping[str, Rule], sink: ChangeSink) -> int:
    """The exit code: 0 if all rules of severity error hold within their tolerance."""
    from naysay.detect.result import within_tolerance
    from naysay.rule.model import Severity

    for name, rule in rules.items():
        if rule.severity is Severity.ERROR and not within_tolerance(rule, sink.counts[name], sink.n_rows):
            return Exit.BROKEN
    return Exit.HOLDS
