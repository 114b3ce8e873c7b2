"""A watch in parts whose stages run in this process instead of Spark tasks; it can be made to break off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from naysay.live.layout import named
from naysay.live.spark.stream import StreamOptions
from naysay.watch import part
from naysay.watch.feed import FeedOptions
from naysay.watch.spark import engine as stream_engine
from naysay.watch.spark import worker as stream_tasks

Record = tuple[int, str, bytes]


class Broken(Exception):
    """The process is gone, as far as the test is concerned."""


class Inline(stream_engine.PartitionedWatch):
    """Stages run one after the other, place by place; `fuse` is how many may pass until it breaks off."""

    fuse = -1

    def _run(self, records: Any, *stages: Any) -> list[Any]:
        for stage in stages:
            records = list(self._stage(stage, records))
        return [stream_tasks.json.loads(content) for _, _, content in records]

    def _stage(self, stage: Any, records: list[Record]) -> Iterator[Record]:
        for place in sorted({place for place, _, _ in records}):
            mine = [record for record in records if record[0] == place]
            yield from stream_tasks._records(stage(iter([stream_tasks._batch(mine)])))
            self._burn()

    def _burn(self) -> None:
        if Inline.fuse == 0:
            Inline.fuse = -1
            # Another process would not have this one's parts in memory.
            part._warm.clear()
            raise Broken
        Inline.fuse -= Inline.fuse > 0


def open_inline(
    state: Path, n_parts: int, rules: Any, key: Sequence[str] = ("id",), **options: Any
) -> stream_engine.PartitionedWatch:
    given = None if rules is None else named(rules)
    stream = StreamOptions(state, partitions=n_parts)
    with mock.patch.object(stream_engine, "PartitionedWatch", Inline):
        return stream_engine.open_partitioned(None, given, tuple(key), stream, FeedOptions(**options))
