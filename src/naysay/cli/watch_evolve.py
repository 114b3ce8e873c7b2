"""`naysay watch --evolve`: follow a folder of change files, and say which rules stop and start to hold."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from naysay.cli.failure import Exit
from naysay.errors import UsageError

if TYPE_CHECKING:
    from naysay.cli.watch import Request
    from naysay.cli.watch_view import View
    from naysay.evolve.feed import EvolveFeed


def watch_evolving(request: Request) -> int:
    """Run until interrupted, or until nothing is waiting with --once."""
    from naysay.cli.watch import N_SENTENCES, _follow
    from naysay.cli.watch_view import View
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
