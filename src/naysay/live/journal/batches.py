"""The batches that were applied to a live table, and the journal that makes them durable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from naysay.errors import StateError, UsageError

if TYPE_CHECKING:
    from naysay.live.journal.journal import Event, Journal


class BatchLog:
    """What Watch and Evolver share: batch ids, publishing, appending to a journal, and being closed.

    A batch is advanced in memory, published, appended and then committed. Without a journal only the ids are kept.
    """

    def __init__(self, owner: str, journal: Journal | None = None) -> None:
        self.journal = journal
        # Called with the number of the event and the change, right before the event becomes durable.
        self.publisher: Callable[[int, Any], None] | None = None
        self._owner = owner
        self._batch_ids: set[str] = set() if journal is None else set(journal.batch_ids)
        self._closed = ""
        self._is_released = False

    def has_applied(self, batch_id: str | None) -> bool:
        """Whether a batch with this id was applied; UsageError if the id is not text."""
        if batch_id is not None and not isinstance(batch_id, str):
            raise UsageError(f"a batch id must be text, not {type(batch_id).__name__}")
        return batch_id in self._batch_ids

    def check_open(self) -> None:
        if self._closed:
            raise StateError(self._closed)

    def append(self, kind: str, parts: Callable[[], Mapping[str, bytes]], change: Any, batch_id: str | None) -> None:
        """Publish a change, then append it to the journal, if there is one; durable when this returns."""
        if self.journal is not None:
            with self.writing():
                if self.publisher is not None:
                    self.publisher(self.journal.next_seq, change)
                self.journal.append(kind, parts(), batch_id)
        if batch_id is not None:
            self._batch_ids.add(batch_id)

    def snapshot(self, n_rows: int, parts: Callable[[], Mapping[str, bytes]]) -> None:
        """Replace the journal by a snapshot if it has grown long."""
        if self.journal is not None and self.journal.needs_snapshot(n_rows):
            with self.writing():
                self.journal.snapshot(parts())

    @contextmanager
    def writing(self) -> Iterator[None]:
        """If this fails, memory and journal may disagree: refuse every later call."""
        try:
            yield
        except BaseException:
            with suppress(StateError):
                self.close()
            self._closed = f"the last change of this {self._owner} could not be completed; open its state again"
            raise

    def close(self) -> None:
        """Close the journal. Every later call is refused."""
        if self.journal is not None:
            self.journal.close()
        self._closed = f"this {self._owner} is closed"

    def release(self) -> None:
        """Close the journal so that another process may open it; see `resume`."""
        self.check_open()
        self.close()
        self._is_released = True

    def resume(self) -> list[Event] | None:
        """Open a released journal again. Returns the events that others wrote since; None if it must be read anew."""
        if self.journal is None or not self._is_released:
            return None
        events = self.journal.reopen()
        if events is not None:
            self._closed, self._is_released = "", False
            self._batch_ids |= self.journal.batch_ids
        return events
