"""An evolver's store in memory, from which tests restart hundreds of times per second."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from naysay.evolve import durable
from naysay.live.journal.journal import Event, Payload

# So short a log that a few steps are enough to fold it.
_LONGEST_LOG = 3


class MemoryStore:
    """Does what `watch.store.Store` does but for files: settings as JSON, parts as bytes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_new = True
        self.batch_ids: set[str] = set()
        self._settings = ""
        self._events: list[Event] = []

    @property
    def settings(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._settings)
        return found

    def create(self, settings: Mapping[str, Any], parts: Payload) -> None:
        assert self.is_new
        self._settings, self.is_new = json.dumps(settings), False
        self._events = [Event(0, "create", None, parts)]

    def append(self, kind: str, parts: Payload, batch_id: str | None = None) -> int:
        self._events.append(Event(len(self._events), kind, batch_id, parts))
        if batch_id is not None:
            self.batch_ids.add(batch_id)
        return len(self._events)

    def needs_snapshot(self, n_rows: int) -> bool:
        return len(self._events) > _LONGEST_LOG

    def snapshot(self, parts: Payload) -> None:
        self._events = [Event(len(self._events), "snapshot", None, parts)]

    def load(self) -> list[Event]:
        for event in self._events:
            assert all(type(data) is bytes for data in event.parts.values())
        return list(self._events)

    def close(self) -> None:
        pass


@contextmanager
def stores_in_memory() -> Iterator[None]:
    """Everything that evolvers store stays in memory, under the path that they were given."""
    stores: dict[Path, MemoryStore] = {}

    def open_journal(state: str | os.PathLike[str], *, make: bool) -> MemoryStore:
        path = Path(state)
        return stores.setdefault(path, MemoryStore(path)) if make else stores[path]

    with patch.object(durable, "open_journal", open_journal):
        yield
