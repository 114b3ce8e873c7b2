"""The two ways into a watched stream: a folder of change files from the command line, a DataFrame from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from naysay.errors import UsageError
from naysay.live.feed.sink import Step
from naysay.live.layout import named
from naysay.live.spark.folder import FolderSource
from naysay.live.spark.stream import FrameSource, Source, Stream, StreamOptions
from naysay.rule.model import Rule
from naysay.watch.feed import Feed, FeedOptions, open_feed
from naysay.watch.spark.parts import Parts, open_parts

Show = Callable[[Step], None] | None


def open_body(
    session: SparkSession,
    rules: Mapping[str, Rule] | None,
    key: Sequence[str],
    stream: StreamOptions,
    options: FeedOptions,
) -> tuple[Feed | Parts, list[str]]:
    """What the changes are fed to: a watch in this process, or one in parts; also says which rules changed."""
    if stream.partitions < 0:
        raise UsageError(f"partitions is 0 (all in this process) or more, not {stream.partitions}")
    if not stream.partitions:
        return open_feed(stream.state, rules, key, options)
    return open_parts(session, rules, tuple(key), stream, options), []


def follow_folder(session: SparkSession, source: str, body: Feed | Parts, options: StreamOptions, show: Show) -> Stream:
    """Feed a folder's change files to a body."""
    admit = body.admit if isinstance(body, Parts) else None
    return Stream(FolderSource(session, source, options.state, admit), body, options, show)


def watch_frame(
    frame: Any,
    rules: Sequence[Rule] | None,
    key: Sequence[str],
    *,
    state: Path,
    once: bool,
    order: Sequence[str],
    partitions: int,
    options: FeedOptions,
    show: Show,
) -> Stream:
    """Watch a streaming DataFrame; see `api.watch_stream`."""
    source: Source = FrameSource(frame, order)
    stream = StreamOptions(state, once, 0.0, partitions)
    body, _ = open_body(frame.sparkSession, None if rules is None else named(rules), key, stream, options)
    try:
        return Stream(source, body, stream, show)
    except BaseException:
        body.close()
        raise
