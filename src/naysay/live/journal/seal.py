"""The seal: a small file beside the store that knows how far it had come.

A database file alone cannot tell that an older copy of it was put back, or that its log of late changes is gone. The
seal can: it is written after each batch, and a store that lags behind its seal has lost something. It has two places
that take turns, so that a write cut short leaves the one before. It need not reach the disk at once: a store ahead of
its seal is in order.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from naysay.errors import StateError
from naysay.live.journal.serial import DIGEST_BYTES, digest_of

_MAGIC = b"NAYSEAL1"
_FORMAT = struct.Struct(f"<8s16sq{DIGEST_BYTES}s{DIGEST_BYTES}s")
_PLACE_BYTES = 128


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a store had come: the number of its last event, and the chain of checksums up to it."""

    store_id: bytes
    seq: int
    chain: bytes


class Seal:
    """The file PATH.seal."""

    def __init__(self, store: Path) -> None:
        self.path = store.with_name(store.name + ".seal")

    def exists(self) -> bool:
        return self.path.exists()

    def write(self, mark: Mark) -> None:
        """Note how far the store has come. The file is never cut: one of its two places always stands."""
        body = _FORMAT.pack(_MAGIC, mark.store_id, mark.seq, mark.chain, b"")[:-DIGEST_BYTES]
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.pwrite(file, body + digest_of(body), mark.seq % 2 * _PLACE_BYTES)
        finally:
            os.close(file)

    def read(self) -> Mark:
        """The later of the two places that are whole; StateError where none is."""
        data = self.path.read_bytes()
        marks = [mark for start in (0, _PLACE_BYTES) if (mark := _read_place(data[start : start + _FORMAT.size]))]
        if not marks:
            raise StateError(f"{self.path}: the seal of the store is damaged: no part of it can be read")
        return max(marks, key=lambda mark: mark.seq)


def _read_place(data: bytes) -> Mark | None:
    if len(data) < _FORMAT.size:
        return None
    magic, store_id, seq, chain, check = _FORMAT.unpack(data)
    if magic != _MAGIC or check != digest_of(data[:-DIGEST_BYTES]):
        return None
    return Mark(store_id, seq, chain)
