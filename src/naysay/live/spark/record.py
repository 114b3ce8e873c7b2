"""What a state folder remembers of the stream that feeds it: set at the first start, and checked at each later one.

Spark numbers the batches of a query, and we know a batch by its number: so the query must stay the same one. Spark
keeps its id in the checkpoint. Settings of Spark's own state are remembered too, for streams that come with state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from naysay.errors import StateError, UsageError
from naysay.live.feed.output import write_bytes
from naysay.live.journal.seal import read_sealed, sealed

VERSION = 2
_RECORD = "stream.json"
_CHECKPOINT = "checkpoint"


class StreamRecord:
    """The record of a state folder. `pinned`: batches are known by Spark's numbers, so no other query may come."""

    def __init__(self, state: Path, shape: Mapping[str, Any], spark: Mapping[str, str | None], *, pinned: bool) -> None:
        self.checkpoint = state.resolve() / _CHECKPOINT
        self._folder = state
        self._path = state / _RECORD
        self._pinned = pinned
        self._drop_unfinished()
        wanted = {"version": VERSION, **shape, "spark": dict(spark), "query": None}
        if self._path.exists():
            self._content = read_sealed(self._path, VERSION)
            self._compare(wanted)
        else:
            self._content = wanted
            self._write()

    def _drop_unfinished(self) -> None:
        """What a kill left of the very first batch's entry: Spark would refuse to start beside it."""
        entries = list((self.checkpoint / "offsets").glob("*"))
        if not any(entry.name.isdigit() for entry in entries):
            for entry in entries:
                entry.unlink()

    def settle(self) -> None:
        """Called before the first batch of a start is applied: from now on this query, and no other."""
        found = self._query_id()
        known = self._content["query"]
        if found == known:
            return
        if known is not None and self._pinned:
            raise StateError(f"{self.checkpoint}: this checkpoint belongs to another stream; put back the right one")
        self._content["query"] = found
        self._write()

    def _compare(self, wanted: Mapping[str, Any]) -> None:
        for name in wanted.keys() - {"query", "spark"}:
            if wanted[name] != self._content.get(name):
                raise UsageError(
                    f"{self._folder}: this state was made with {name} {self._content.get(name)!r}, not "
                    f"{wanted[name]!r}; go on as it was begun, or name another folder"
                )
        for name, value in wanted["spark"].items():
            was = self._content["spark"].get(name)
            if was != value:
                raise UsageError(f"{self._folder}: this stream was begun with {name}={was}, not {value}; set it so")
        if self._pinned and self._content["query"] is not None and not (self.checkpoint / "metadata").exists():
            raise StateError(f"{self.checkpoint}: the checkpoint of this stream is missing; put back a copy of it")

    def _query_id(self) -> str:
        path = self.checkpoint / "metadata"
        try:
            return str(json.loads(path.read_text("utf-8"))["id"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StateError(f"{path}: the checkpoint of this stream cannot be read: {error}") from error

    def _write(self) -> None:
        line, _ = sealed(self._content)
        write_bytes(line + b"\n", self._path, self._folder)
