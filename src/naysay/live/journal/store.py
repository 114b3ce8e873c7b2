"""The durable store of a watch: a DuckDB file with one transaction a batch, and a seal beside it.

Everything that happens is an event with a number: the making, a batch of rows, a change of rules, a snapshot. `events`
keeps for each of them a checksum of what came with it and a chain, a checksum of that and of the chain before: so no
event can be changed, lost or moved without notice. `payloads` keeps what came with it, until a snapshot of all rows and
rules stands in its place.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from naysay.errors import StateError, UsageError
from naysay.live.journal.crash import passing
from naysay.live.journal.seal import Mark, Seal
from naysay.live.journal.serial import digest_of

VERSION = 1
_MAGIC = "naysay watch"
_TABLES = {"meta", "events", "payloads"}
# The log is folded into a snapshot when it has outgrown the snapshot before, and these.
_MIN_LOG_BYTES = 16 << 20
_MIN_LOG_EVENTS = 4096
# Extensions and files beside ours are none of the store's business.
_SETTINGS: dict[str, Any] = {
    "threads": 1,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
}

Parts = Mapping[str, bytes]


class StoreBusy(UsageError):
    """Another process has the store open."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, with what came with it; a snapshot stands for everything before."""

    seq: int
    kind: str
    batch_id: str | None
    parts: Parts


def has_store(path: Path) -> bool:
    """Whether there is a store, or was one: the seal of a lost file says so, and opening it says what is wrong."""
    return path.exists() or Seal(path).exists()


class Store:
    """An open store. Any damage found is a StateError that names the file and the cause."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._seal = Seal(self.path)
        self._connection = self._connect()
        self._store_id = b""
        self._chain = b""
        self._seq = -1
        self._log_bytes = self._log_events = self._snapshot_bytes = 0
        self.settings: dict[str, Any] = {}
        self.batch_ids: set[str] = set()
        # The number of the last event that was not a snapshot.
        self.last_event = -1
        # Number, kind and batch id of every event, as they were when the store was opened.
        self.history: list[tuple[int, str, str | None]] = []
        try:
            self.is_new = self._is_new()
        except BaseException:
            self._connection.close()
            raise

    def create(self, settings: Mapping[str, Any], parts: Parts) -> None:
        """Make the tables of a new store, with its settings and its first event."""
        passing("create.begin")
        self._store_id = uuid.uuid4().bytes
        self.settings = dict(settings)
        meta = {"magic": _MAGIC, "version": VERSION, "id": self._store_id.hex(), "settings": self.settings}
        text = json.dumps(meta, sort_keys=True)
        self._chain = digest_of("meta", text)
        run = self._connection.execute
        run("BEGIN")
        run("CREATE TABLE meta (content VARCHAR)")
        run("CREATE TABLE events (seq BIGINT, kind VARCHAR, batch_id VARCHAR, digest BLOB, chain BLOB)")
        run("CREATE TABLE payloads (seq BIGINT, part VARCHAR, content BLOB)")
        run("INSERT INTO meta VALUES (?)", [text])
        chain = self._write("create", parts, None)
        passing("create.written")
        run("COMMIT")
        passing("create.committed")
        self._done(chain, parts)
        passing("create.sealed")
        self.is_new = False

    def append(self, kind: str, parts: Parts, batch_id: str | None = None) -> int:
        """Write one event; durable when this returns its number."""
        passing("batch.begin")
        try:
            self._connection.execute("BEGIN")
            chain = self._write(kind, parts, batch_id)
            passing("batch.written")
            self._connection.execute("COMMIT")
        except duckdb.Error as error:
            raise self._failed("cannot be written", error) from error
        passing("batch.committed")
        self._done(chain, parts)
        self.last_event = self._seq
        if batch_id is not None:
            self.batch_ids.add(batch_id)
        passing("batch.sealed")
        return self._seq

    @property
    def next_seq(self) -> int:
        """The number that the next event will have."""
        return self._seq + 1

    def needs_snapshot(self, n_rows: int) -> bool:
        """Whether the log has grown beyond what a snapshot of so many rows saves."""
        return self._log_bytes > max(_MIN_LOG_BYTES, self._snapshot_bytes) or self._log_events > max(
            _MIN_LOG_EVENTS, n_rows // 128
        )

    def snapshot(self, parts: Parts) -> None:
        """Put all rows and rules in the place of everything written before."""
        passing("snapshot.begin")
        try:
            self._connection.execute("BEGIN")
            self._connection.execute("DELETE FROM payloads")
            chain = self._write("snapshot", parts, None)
            passing("snapshot.written")
            self._connection.execute("COMMIT")
            passing("snapshot.committed")
            self._done(chain, parts)
            self._log_bytes = self._log_events = 0
            self._snapshot_bytes = sum(map(len, parts.values()))
            passing("snapshot.sealed")
            self._connection.execute("CHECKPOINT")
        except duckdb.Error as error:
            raise self._failed("cannot be written", error) from error

    def load(self) -> Iterable[Event]:
        """Check the store from end to end; gives the events since, and with, the last snapshot, in order."""
        try:
            return self._load()
        except duckdb.Error as error:
            raise self._damaged(str(error)) from error

    def reopen(self) -> list[Event] | None:
        """Open again what was closed; gives what others wrote since. None where that can only be read from the start.

        Nothing is read again that was read or written here before.
        """
        self._connection = self._connect()
        try:
            events = self._events_since()
        except (duckdb.Error, StateError):
            events = None
        if events is None:
            self._connection.close()
        return events

    @property
    def mark(self) -> Mark:
        """How far the store has come."""
        return Mark(self._store_id, self._seq, self._chain)

    def has(self, seq: int, chain: bytes) -> bool:
        """Whether an event has this chain: then it and all before it are the ones that were meant."""
        found = self._connection.execute("SELECT chain FROM events WHERE seq = ?", [seq]).fetchall()
        return [bytes(row[0]) for row in found] == [chain]

    def last_batch(self) -> str | None:
        """The id of the last batch that has one."""
        found = self._connection.execute(
            "SELECT batch_id FROM events WHERE batch_id IS NOT NULL ORDER BY seq DESC LIMIT 1"
        ).fetchall()
        return str(found[0][0]) if found else None

    def close(self) -> None:
        passing("close.begin")
        try:
            self._connection.close()
        except duckdb.Error as error:
            raise self._failed("cannot be closed", error) from error
        passing("close.closed")

    def _write(self, kind: str, parts: Parts, batch_id: str | None) -> bytes:
        seq = self._seq + 1
        digest = _digest_of_parts(parts)
        chain = _next_chain(self._chain, seq, kind, batch_id, digest)
        for part, content in parts.items():
            self._connection.execute("INSERT INTO payloads VALUES (?, ?, ?)", [seq, part, content])
        self._connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", [seq, kind, batch_id, digest, chain])
        return chain

    def _done(self, chain: bytes, parts: Parts) -> None:
        """After the commit: go on from here, and seal."""
        self._seq += 1
        self._chain = chain
        self._log_bytes += sum(map(len, parts.values()))
        self._log_events += 1
        self._seal.write(Mark(self._store_id, self._seq, chain))

    def _connect(self) -> duckdb.DuckDBPyConnection:
        if not self.path.exists():
            if self._seal.exists():
                raise self._damaged("the file is missing, though its seal is there")
            if not self.path.parent.is_dir():
                raise UsageError(f"there is no folder {self.path.parent} to make the store {self.path.name} in")
        try:
            return duckdb.connect(str(self.path), config=_SETTINGS)
        except duckdb.Error as error:
            text = _first_line(error)
            if "lock" in text.lower() and "conflicting" in text.lower():
                raise StoreBusy(f"{self.path}: another process has this store open; close it there first") from error
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
            raise self._damaged("the tables of the store are missing, though its seal is there")
        raise StateError(f"{self.path}: this is a database, but no store of naysay; name another file")

    def _load(self) -> list[Event]:
        meta = self._read_meta()
        events = self._connection.execute(
            "SELECT seq, kind, batch_id, digest, chain FROM events ORDER BY seq"
        ).fetchall()
        if not events:
            raise self._damaged("no event is left of it")
        chain = digest_of("meta", meta)
        chains = []
        for place, (seq, kind, batch_id, digest, given) in enumerate(events):
            if seq != place:
                raise self._damaged(f"event {place} is missing, or stands twice")
            chain = _next_chain(chain, seq, kind, batch_id, bytes(digest or b""))
            if chain != given:
                raise self._damaged(f"event {seq} does not fit its checksum")
            chains.append(chain)
        self._check_seal(chains)
        self._seq, self._chain = len(events) - 1, chain
        self.history = [(seq, kind, batch_id) for seq, kind, batch_id, _, _ in events]
        self.batch_ids = {batch_id for _, _, batch_id, _, _ in events if batch_id is not None}
        return self._read_payloads(events)

    def _events_since(self) -> list[Event] | None:
        if not self.has(self._seq, self._chain):
            return None
        found = self._connection.execute(
            "SELECT seq, kind, batch_id, digest, chain FROM events WHERE seq > ? ORDER BY seq", [self._seq]
        ).fetchall()
        rows = self._connection.execute("SELECT seq, part, content FROM payloads WHERE seq > ?", [self._seq]).fetchall()
        seq, chain = self._seq, self._chain
        chains = {seq: chain}
        events = []
        for number, kind, batch_id, digest, given in found:
            parts = {part: bytes(content) for owner, part, content in rows if owner == number}
            chain = _next_chain(chain, seq + 1, kind, batch_id, bytes(digest))
            if kind != "rows" or number != seq + 1 or chain != given or _digest_of_parts(parts) != bytes(digest):
                return None
            seq = number
            chains[seq] = chain
            events.append(Event(seq, kind, batch_id, parts))
        mark = self._seal.read()
        if mark.store_id != self._store_id or chains.get(mark.seq) != mark.chain:
            return None
        for event in events:
            self._log_bytes += sum(map(len, event.parts.values()))
            self._log_events += 1
            if event.batch_id is not None:
                self.batch_ids.add(event.batch_id)
        self._seq, self._chain = seq, chain
        return events

    def _read_meta(self) -> str:
        """What the store says of itself: ours, and of a version that we read."""
        rows = self._connection.execute("SELECT content FROM meta").fetchall()
        try:
            ((text,),) = rows
            meta = json.loads(text)
            magic, version, store_id = meta["magic"], meta["version"], bytes.fromhex(meta["id"])
            self.settings = meta["settings"]
        except (ValueError, TypeError, KeyError) as error:
            raise self._damaged("what it says of itself cannot be read") from error
        if magic != _MAGIC:
            raise StateError(f"{self.path}: this is no store of a naysay watch")
        if version != VERSION:
            raise StateError(
                f"{self.path}: the store has version {version}, and this naysay reads version {VERSION}; "
                "open it with the naysay that wrote it"
            )
        self._store_id = store_id
        return str(text)

    def _check_seal(self, chains: list[bytes]) -> None:
        last = len(chains) - 1
        if not self._seal.exists():
            if last > 0:
                raise self._damaged(f"its seal {self._seal.path.name} is missing")
            self._seal.write(Mark(self._store_id, last, chains[last]))
        mark = self._seal.read()
        if mark.store_id != self._store_id:
            raise self._damaged(f"its seal {self._seal.path.name} belongs to another store")
        if mark.seq > last:
            raise self._damaged(
                f"it ends with event {last}, but event {mark.seq} was acknowledged: an older copy was put back, or "
                f"{self.path.name}.wal is gone or damaged"
            )
        if mark.seq < 0 or chains[mark.seq] != mark.chain:
            raise self._damaged(f"event {mark.seq} is not the one that was sealed")
        if mark.seq < last:
            self._seal.write(Mark(self._store_id, last, chains[last]))

    def _read_payloads(self, events: list[tuple[Any, ...]]) -> list[Event]:
        rows = self._connection.execute("SELECT seq, part, content FROM payloads").fetchall()
        parts: dict[int, dict[str, bytes]] = {}
        for seq, part, content in rows:
            if part in parts.setdefault(seq, {}):
                raise self._damaged(f"part {part!r} of event {seq} stands twice")
            parts[seq][part] = bytes(content)
        snapshots = [seq for seq, kind, *_ in events if kind == "snapshot"]
        first = max(snapshots, default=0)
        if any(seq < first or seq >= len(events) for seq in parts):
            raise self._damaged("there is content that belongs to no event")
        loaded = []
        for seq, kind, batch_id, digest, _ in events[first:]:
            content = parts.get(seq, {})
            if _digest_of_parts(content) != bytes(digest):
                raise self._damaged(f"the content of event {seq} does not fit its checksum")
            loaded.append(Event(seq, kind, batch_id, content))
            n_bytes = sum(map(len, content.values()))
            if kind == "snapshot":
                self._snapshot_bytes = n_bytes
            else:
                self._log_bytes += n_bytes
                self._log_events += 1
        return loaded

    def _damaged(self, cause: str) -> StateError:
        return StateError(
            f"{self.path}: the store is damaged: {_first_line(cause)}; put back a copy of the store and its seal, or "
            "start a new one"
        )

    def _failed(self, what: str, error: Exception) -> StateError:
        return StateError(f"{self.path}: the store {what}: {_first_line(error)}")


def _digest_of_parts(parts: Parts) -> bytes:
    return digest_of(*(value for name in sorted(parts) for value in (name, parts[name])))


def _next_chain(chain: bytes, seq: int, kind: str, batch_id: str | None, digest: bytes) -> bytes:
    return digest_of(chain, seq, kind, "-" if batch_id is None else f"+{batch_id}", digest)


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
