"""The journal of a live table: a DuckDB file with one transaction per event, and a seal next to it.

Creation, batches of rows, changes of rules and snapshots are numbered events. `events` keeps for each a checksum of its
parts and a chain, a checksum of that and of the previous chain: no event can be changed, lost or moved unnoticed.
`payloads` keeps the parts, until a snapshot replaces them.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from naysay.errors import StateError, UsageError
from naysay.live.journal.seal import JournalPosition, Seal, crash_point
from naysay.live.journal.serial import digest_of

VERSION = 1
_MAGIC = "naysay watch"
_TABLES = {"meta", "events", "payloads"}
# A snapshot is due when the log has outgrown the last snapshot and these limits.
_MIN_LOG_BYTES = 16 << 20
_MIN_LOG_EVENTS = 4096
# A journal needs no extensions.
_SETTINGS: dict[str, Any] = {
    "threads": 1,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
}

Payload = Mapping[str, bytes]


class JournalBusy(UsageError):
    """Another process has the journal open."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event with its parts; a snapshot replaces all events before it."""

    seq: int
    kind: str
    batch_id: str | None
    parts: Payload
    digest: bytes = b""


def journal_exists(path: Path) -> bool:
    """Whether there is a journal, or was one: then its seal is left, and opening it explains the damage."""
    return path.exists() or Seal(path).exists()


class Journal:
    """An open journal. Damage raises a StateError that names the file and the cause."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._seal = Seal(self.path)
        self._connection = self._connect()
        self._is_open = True
        self._has_stray_parts = False
        self._journal_id = b""
        self._chain = b""
        self._seq = -1
        self._log_bytes = self._log_events = self._snapshot_bytes = 0
        self.settings: dict[str, Any] = {}
        self.batch_ids: set[str] = set()
        # The number of the last event that was not a snapshot.
        self.last_event = -1
        # Number, kind and batch id of every event when the journal was loaded.
        self.history: list[tuple[int, str, str | None]] = []
        try:
            self.is_new = self._is_new()
        except BaseException:
            self._connection.close()
            raise

    def create(self, settings: Mapping[str, Any], parts: Payload) -> None:
        """Create the tables of a new journal, with its settings and its first event."""
        self._journal_id = uuid.uuid4().bytes
        self.settings = dict(settings)
        meta = {"magic": _MAGIC, "version": VERSION, "id": self._journal_id.hex(), "settings": self.settings}
        text = json.dumps(meta, sort_keys=True)
        self._chain = digest_of("meta", text)
        tables = (
            "CREATE TABLE meta (content VARCHAR)",
            "CREATE TABLE events (seq BIGINT, kind VARCHAR, batch_id VARCHAR, digest BLOB, chain BLOB)",
            "CREATE TABLE payloads (seq BIGINT, part VARCHAR, content BLOB)",
        )
        self._write("create", "create", parts, None, *tables, meta=text)
        self.is_new = False

    def append(self, kind: str, parts: Payload, batch_id: str | None = None) -> int:
        """Write an event; durable when this returns its number."""
        self._write("batch", kind, parts, batch_id)
        self.last_event = self._seq
        return self._seq

    @property
    def next_seq(self) -> int:
        """The number of the next event."""
        return self._seq + 1

    def needs_snapshot(self, n_rows: int) -> bool:
        """Whether the log has grown long enough for a snapshot of `n_rows` rows to pay off."""
        too_many = self._log_events > max(_MIN_LOG_EVENTS, n_rows // 128)
        return too_many or self._log_bytes > max(_MIN_LOG_BYTES, self._snapshot_bytes)

    def snapshot(self, parts: Payload) -> None:
        """Replace everything written before by these parts, which hold the whole state."""
        self._write("snapshot", "snapshot", parts, None, "DELETE FROM payloads")
        try:
            self._connection.execute("CHECKPOINT")
        except duckdb.Error as error:
            raise self._failed("cannot be written", error) from error

    def load(self) -> list[Event]:
        """Check the whole journal, and return the events from the last snapshot on."""
        try:
            self._chain = digest_of("meta", self._read_meta())
            events, chains = self._read_events()
        except duckdb.Error as error:
            raise self._damaged(str(error)) from error
        self._check_seal(chains)
        self.history = [(event.seq, event.kind, event.batch_id) for event in events]
        first = max((event.seq for event in events if event.kind == "snapshot"), default=0)
        self._check_payloads(events[:first], events[first:])
        return events[first:]

    def read_settings(self) -> dict[str, Any]:
        """The settings that the journal was created with; its events are neither read nor checked."""
        try:
            self._read_meta()
        except duckdb.Error as error:
            raise self._damaged(str(error)) from error
        return self.settings

    def reopen(self) -> list[Event] | None:
        """Open a closed journal again, and return only what others wrote since; None if it must be loaded anew."""
        self._connection = self._connect()
        self._is_open = True
        before = self.position
        try:
            if self.has(before.seq, before.chain):
                events, chains = self._read_events()
                self._check_payloads([], events)
                sealed = self._seal.read()
                chains = {before.seq: before.chain, **chains}
                is_ours = sealed.journal_id == self._journal_id and chains.get(sealed.seq) == sealed.chain
                if is_ours and all(event.kind == "rows" for event in events):
                    return events
        except (duckdb.Error, StateError):
            pass
        self._is_open = False
        self._connection.close()
        return None

    @property
    def position(self) -> JournalPosition:
        """The last event, with the chain up to it."""
        return JournalPosition(self._journal_id, self._seq, self._chain)

    def has(self, seq: int, chain: bytes) -> bool:
        """Whether an event has this chain: then it and all events before it are the expected ones."""
        found = self._connection.execute("SELECT chain FROM events WHERE seq = ?", [seq]).fetchall()
        return [bytes(row[0]) for row in found] == [chain]

    def last_batch(self) -> str | None:
        """The id of the last batch that has one."""
        found = self._connection.execute(
            "SELECT batch_id FROM events WHERE batch_id IS NOT NULL ORDER BY seq DESC LIMIT 1"
        ).fetchall()
        return str(found[0][0]) if found else None

    def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        crash_point("close.begin")
        try:
            self._connection.close()
        except duckdb.Error as error:
            raise self._failed("cannot be closed", error) from error
        crash_point("close.closed")

    def _write(
        self, point: str, kind: str, parts: Payload, batch_id: str | None, *before: str, meta: str | None = None
    ) -> None:
        """Write an event in one transaction, after the statements `before`, then seal it."""
        crash_point(f"{point}.begin")
        seq, digest, run = self.next_seq, _digest_of_parts(parts), self._connection.execute
        chain = _next_chain(self._chain, seq, kind, batch_id, digest)
        try:
            run("BEGIN")
            for statement in before:
                run(statement)
            if meta is not None:
                run("INSERT INTO meta VALUES (?)", [meta])
            for part, content in parts.items():
                run("INSERT INTO payloads VALUES (?, ?, ?)", [seq, part, content])
            run("INSERT INTO events VALUES (?, ?, ?, ?, ?)", [seq, kind, batch_id, digest, chain])
            crash_point(f"{point}.written")
            run("COMMIT")
        except duckdb.Error as error:
            raise self._failed("cannot be written", error) from error
        crash_point(f"{point}.committed")
        self._advance(Event(seq, kind, batch_id, parts, digest), chain)
        self._seal.write(self.position)
        crash_point(f"{point}.sealed")

    def _advance(self, event: Event, chain: bytes) -> None:
        """Count an event that was written or read."""
        self._seq, self._chain = event.seq, chain
        n_bytes = sum(map(len, event.parts.values()))
        if event.kind == "snapshot":
            self._log_bytes = self._log_events = 0
            self._snapshot_bytes = n_bytes
        else:
            self._log_bytes += n_bytes
            self._log_events += 1
        if event.batch_id is not None:
            self.batch_ids.add(event.batch_id)

    def _connect(self) -> duckdb.DuckDBPyConnection:
        if not self.path.exists():
            if self._seal.exists():
                raise self._damaged("the file is missing, but its seal exists")
            if not self.path.parent.is_dir():
                raise UsageError(f"there is no folder {self.path.parent} to create the state {self.path.name} in")
        try:
            return duckdb.connect(str(self.path), config=_SETTINGS)
        except duckdb.Error as error:
            text = _first_line(error)
            if "lock" in text.lower() and "conflicting" in text.lower():
                raise JournalBusy(f"{self.path}: another process has this state open; close it there first") from error
            raise self._damaged(text) from error
        except (RuntimeError, ValueError, MemoryError, UnicodeError) as error:
            raise self._damaged(_first_line(error)) from error

    def _is_new(self) -> bool:
        try:
            found = self._connection.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
        except duckdb.Error as error:
            raise self._damaged(_first_line(error)) from error
        tables = {name for (name,) in found}
        if not tables and not self._seal.exists():
            return True
        if tables >= _TABLES:
            return False
        if self._seal.exists():
            raise self._damaged("its tables are missing, but its seal exists")
        raise StateError(f"{self.path}: not a naysay state file, but another database; choose another path")

    def _read_events(self) -> tuple[list[Event], dict[int, bytes]]:
        """The events after the current one, whose chains are checked, and these chains."""
        run, after = self._connection.execute, [self._seq]
        rows = run("SELECT seq, kind, batch_id, digest, chain FROM events WHERE seq > ? ORDER BY seq", after).fetchall()
        parts: dict[int, dict[str, bytes]] = {}
        for seq, part, content in run("SELECT seq, part, content FROM payloads WHERE seq > ?", after).fetchall():
            if part in parts.setdefault(seq, {}):
                raise self._damaged(f"part {part!r} of event {seq} is repeated")
            parts[seq][part] = bytes(content)
        events, chains = [], {}
        for seq, kind, batch_id, digest, chain in rows:
            if seq != self.next_seq:
                raise self._damaged(f"event {self.next_seq} is missing or repeated")
            event = Event(seq, kind, batch_id, parts.pop(seq, {}), bytes(digest or b""))
            chains[seq] = _next_chain(self._chain, seq, kind, batch_id, event.digest)
            if chains[seq] != chain:
                raise self._damaged(f"event {seq} does not match its checksum")
            self._advance(event, chains[seq])
            events.append(event)
        # Reported later: a lost event is the better explanation.
        self._has_stray_parts = bool(parts)
        return events, chains

    def _check_payloads(self, replaced: list[Event], kept: list[Event]) -> None:
        if self._has_stray_parts or any(event.parts for event in replaced):
            raise self._damaged("some content belongs to no event")
        for event in kept:
            if _digest_of_parts(event.parts) != event.digest:
                raise self._damaged(f"the content of event {event.seq} does not match its checksum")

    def _read_meta(self) -> str:
        """Read and check the description of the journal: ours, and of a version that we can read."""
        rows = self._connection.execute("SELECT content FROM meta").fetchall()
        try:
            ((text,),) = rows
            meta = json.loads(text)
            magic, version, journal_id = meta["magic"], meta["version"], bytes.fromhex(meta["id"])
            self.settings = meta["settings"]
        except (ValueError, TypeError, KeyError) as error:
            raise self._damaged("its description cannot be read") from error
        if magic != _MAGIC:
            raise StateError(f"{self.path}: not a naysay state file")
        if version != VERSION:
            raise StateError(
                f"{self.path}: the state has version {version}, but this naysay reads version {VERSION}; "
                "open it with the naysay that wrote it"
            )
        self._journal_id = journal_id
        return str(text)

    def _check_seal(self, chains: Mapping[int, bytes]) -> None:
        last = len(chains) - 1
        if last < 0:
            raise self._damaged("it has no events")
        if not self._seal.exists():
            if last > 0:
                raise self._damaged(f"its seal {self._seal.path.name} is missing")
            self._seal.write(self.position)
        sealed = self._seal.read()
        if sealed.journal_id != self._journal_id:
            raise self._damaged(f"its seal {self._seal.path.name} belongs to another state")
        if sealed.seq > last:
            raise self._damaged(
                f"it ends with event {last}, but event {sealed.seq} was acknowledged: an older copy was restored, or "
                f"{self.path.name}.wal is gone or damaged"
            )
        if chains.get(sealed.seq) != sealed.chain:
            raise self._damaged(f"event {sealed.seq} is not the one that was sealed")
        if sealed.seq < last:
            self._seal.write(self.position)

    def _damaged(self, cause: str) -> StateError:
        return StateError(
            f"{self.path}: the state is damaged: {_first_line(cause)}; restore a copy of the file and its seal, or "
            "start a new one"
        )

    def _failed(self, what: str, error: Exception) -> StateError:
        return StateError(f"{self.path}: the state {what}: {_first_line(error)}")


def _digest_of_parts(parts: Payload) -> bytes:
    return digest_of(*(value for name in sorted(parts) for value in (name, parts[name])))


def _next_chain(chain: bytes, seq: int, kind: str, batch_id: str | None, digest: bytes) -> bytes:
    return digest_of(chain, seq, kind, "-" if batch_id is None else f"+{batch_id}", digest)


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


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
            raise UsageError(f"a batch ID must be text, not {type(batch_id).__name__}")
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
