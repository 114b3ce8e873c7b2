"""JSON that carries its own checksum: one object per line, with the checksum as its last field, `check`.

Any JSON reader can read such a line. The checksum covers every byte before it, and whatever else the writer names, such
as the checksum of the line before: so no line can be changed, lost or moved without notice.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from naysay.errors import StateError
from naysay.live.journal.serial import DIGEST_BYTES, digest_of

_CHECK = re.compile(rb', "check": "([0-9a-f]{%d})"\}' % (2 * DIGEST_BYTES))
_CHECK_BYTES = len(b', "check": ""}') + 2 * DIGEST_BYTES
# Before version 2 the checksum stood in front of the object.
_OLD = re.compile(rb"[0-9a-f]{%d} \{" % (2 * DIGEST_BYTES))


def sealed(item: Mapping[str, Any], before: str = "") -> tuple[bytes, str]:
    """A line without its line end, and its checksum."""
    body = json.dumps(item).encode()[:-1]
    check = digest_of(before, body).hex()
    return body + f', "check": "{check}"}}'.encode(), check


def unsealed(line: bytes, before: str = "") -> tuple[dict[str, Any], str] | None:
    """The object of a line, and its checksum; None if the line is damaged."""
    body, found = line[:-_CHECK_BYTES], _CHECK.fullmatch(line[-_CHECK_BYTES:])
    if found is None or digest_of(before, body).hex().encode() != found[1]:
        return None
    item: dict[str, Any] = json.loads(body + b"}")
    return item, found[1].decode()


def is_old(data: bytes) -> bool:
    """Whether a file was written before version 2."""
    return _OLD.match(data) is not None


def version_error(path: Path, found: object, version: int) -> StateError:
    return StateError(
        f"{path}: version {found}, but this naysay reads version {version}; "
        "open the folder with the naysay that wrote it, or start a new one"
    )


def read_sealed(path: Path, version: int) -> dict[str, Any]:
    """The object of a file that holds one line."""
    data = path.read_bytes()
    if is_old(data):
        raise version_error(path, 1, version)
    found = unsealed(data.removesuffix(b"\n"))
    if found is None:
        raise StateError(f"{path}: this file is damaged; put back a copy of the folder")
    item, _ = found
    if item.get("version") != version:
        raise version_error(path, item.get("version"), version)
    return item


class SealedLines:
    """A file of sealed lines that grows, each chained to the one before. `what` tells files of different use apart."""

    def __init__(self, path: Path, what: str, version: int) -> None:
        self.path = path
        self._version = version
        self._chain = digest_of(what, version).hex()
        self.items = self._read()

    def append(self, item: Mapping[str, Any]) -> None:
        """Add a line; durable when this returns."""
        line, self._chain = sealed({"version": self._version, **item}, self._chain)
        with self.path.open("ab") as file:
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _read(self) -> list[dict[str, Any]]:
        """The objects. A last line that was cut short is dropped, as if it had not been begun."""
        data = self.path.read_bytes() if self.path.exists() else b""
        if is_old(data):
            raise version_error(self.path, 1, self._version)
        items: list[dict[str, Any]] = []
        kept = 0
        for line in data.split(b"\n")[:-1]:
            found = unsealed(line, self._chain)
            if found is None:
                raise StateError(f"{self.path}: line {len(items) + 1} is damaged; put back a copy of the folder")
            item, self._chain = found
            version = item.pop("version")
            if version != self._version:
                raise version_error(self.path, version, self._version)
            items.append(item)
            kept += len(line) + 1
        if kept < len(data):
            os.truncate(self.path, kept)
        return items
