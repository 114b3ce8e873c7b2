"""Change files that grow, shrink, appear half-written, are renamed or replaced while they are followed.

A case has its own clock: what happens to files, when the follower looks, and what happens between two steps of one look
all follow from the seed. What the watch applied from a file must be a content that the file had, unchanged, at some
time; if it is not the last one, the file must be rejected by name.
"""

from __future__ import annotations

import csv
import io
import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from naysay.evolve.feed import EvolveFeed
from naysay.live.feed.follow import Follower, LocalFiles
from naysay.live.layout import named
from naysay.live.spark import folder as stream_folder
from naysay.watch.feed import FeedOptions, open_feed
from soak.row import Outcome

MOMENT = 10
_KINDS = ("watch", "stream", "watch", "evolve")
_NAMES = ("1.csv", "2.jsonl", "3.parquet", "4.csv")
_COLUMNS = ("op", "id", "src", "text")
_MEMORY = Path("/dev/shm")
Rows = frozenset[tuple[int, str | None]]


@dataclass
class Folder:
    """The folder, its clock, and every content that each file ever had, with its start and end time."""

    path: Path
    rng: random.Random
    now: int = 0
    next_id: int = 1
    n_deeds: int = 0
    kept: dict[str, list[tuple[int, bytes | None]]] = field(default_factory=dict)
    planned: dict[str, bytes] = field(default_factory=dict)

    def clock(self) -> float:
        return self.now

    def whole(self, name: str) -> bytes:
        """New, complete content of a file."""
        rows = []
        for _ in range(self.rng.randint(0, 6)):
            text = self.rng.choice(["ab", "word", "x,y", "two\nlines", ""]) if name.endswith(".csv") else "abc"
            rows.append(("insert", self.next_id, name, text))
            self.next_id += 1
        if name.endswith(".csv"):
            out = io.StringIO()
            csv.writer(out, lineterminator="\n").writerows([_COLUMNS, *rows])
            return out.getvalue().encode()
        objects = [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
        if name.endswith(".jsonl"):
            return "".join(f"{json.dumps(item)}\n" for item in objects).encode()
        sink = pa.BufferOutputStream()
        types = (pa.string(), pa.int64(), pa.string(), pa.string())
        pa.parquet.write_table(pa.Table.from_pylist(objects, pa.schema(list(zip(_COLUMNS, types, strict=True)))), sink)
        return bytes(sink.getvalue().to_pybytes())

    def content(self, name: str) -> bytes | None:
        return self.kept[name][-1][1] if name in self.kept else None

    def deed(self, name: str) -> str:
        """One action of a writer on a file."""
        plan = self.planned.setdefault(name, self.whole(name))
        now = self.content(name)
        how = self.rng.choice(["append", "append", "append", "finish", "shrink", "replace", "touch", "move", "delete"])
        if how == "append" or now is None:
            have = now if now is not None and plan.startswith(now) else b""
            self._put(name, plan[: len(have) + self.rng.randint(0, max(1, len(plan) // 2))])
        elif how == "finish":
            self._put(name, plan)
        elif how == "shrink":
            self._put(name, now[: self.rng.randint(0, len(now))])
        elif how == "replace":
            self.planned[name] = self.whole(name)
            self._put(name, self.planned[name], rename=True)
        elif how == "touch":
            self._put(name, now)
        elif how == "move":
            # Out of the folder and back, as some tools do it; the content is the same.
            self._put(name, now, rename=True)
        elif self.rng.random() < 0.3:
            (self.path / name).unlink()
            self._keep(name, None)
        return how

    def _put(self, name: str, data: bytes, *, rename: bool = False) -> None:
        path = self.path / name
        if rename:
            part = self.path / f".{name}.part"
            part.write_bytes(data)
            part.replace(path)
        else:
            path.write_bytes(data)
        # No two writes have the same time, no matter how fast this machine is.
        self.n_deeds += 1
        os.utime(path, ns=(self.n_deeds, self.n_deeds))
        self._keep(name, data)

    def _keep(self, name: str, data: bytes | None) -> None:
        self.kept.setdefault(name, []).append((self.now, data))

    def still(self, name: str) -> set[bytes]:
        """Every content that a file had at some time, touched or not."""
        found = set()
        times = [*(time for time, _ in self.kept[name][1:]), self.now]
        for (since, data), until in zip(self.kept[name], times, strict=True):
            if data is not None and until - since >= MOMENT:
                found.add(data)
        return found


class Meddling(LocalFiles):
    """Files to which something happens while they are listed and read."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def stamp(self, place: Any) -> Any:
        self._meddle(place, 0.06)
        return super().stamp(place)

    def read(self, place: Any) -> bytes | None:
        data = super().read(place)
        if self._meddle(place, 0.3):
            # The reader had read half of it.
            later = super().read(place) or b""
            data = (data or b"")[: len(later) // 2] + later[len(later) // 2 :]
        return data

    def _meddle(self, place: Any, chance: float) -> bool:
        if self._folder.rng.random() > chance or place.name not in _NAMES:
            return False
        self._folder.deed(place.name)
        return True


class Following:
    """A follower of one kind, which can be closed and reopened."""

    def __init__(self, kind: str, folder: Folder, state: Path) -> None:
        self.kind, self.folder, self.state = kind, folder, state
        self.handed: set[str] = set()
        self.pending: list[Path] = []
        self.files: LocalFiles = Meddling(folder)
        self.n_looks = 0
        self.open()

    def open(self) -> None:
        self.sink: Any
        if self.kind == "evolve":
            self.sink = EvolveFeed(self.state, ["id"])
        else:
            self.sink, _ = open_feed(self.state, named("one: not(t.id < 0)"), ["id"], FeedOptions())
        self.steps: Iterator[Any] = iter(())
        if self.kind == "stream":
            given: dict[str, Any] = {"moment": MOMENT, "clock": self.folder.clock}
            self.stream = stream_folder.FolderSource(None, str(self.folder.path), self.state, **given)  # type: ignore[arg-type]
            self.stream._files._local = self.files
        else:
            self.follower = Follower(
                self.folder.path, self.sink, self.state, moment=MOMENT, files=self.files, clock=self.folder.clock
            )

    def restart(self) -> None:
        self.sink.close()
        self.open()

    def look(self) -> int:
        """Whether more is to come: the number of files it is waiting for, and of steps made."""
        if self.kind != "stream":
            return sum(1 for _ in self.follower.drain()) + len(self.follower.taker.changing)
        return self._look_as_spark()

    def _look_as_spark(self) -> int:
        """Spark passes each path once, and an unfinished batch again after a restart."""
        self.n_looks += 1
        found = len(list(self.stream.changed(self.sink)))
        for step in self._batch_steps():
            found += 1
            if step is None:
                return found
        self.pending = []
        return found

    def _batch_steps(self) -> Iterator[Any]:
        if not self.pending:
            self.pending = [path for path in sorted(self.folder.path.glob("[0-9]*")) if path.name not in self.handed]
            self.handed |= {path.name for path in self.pending}
        yield from self.stream.steps(self.sink, _Batch(self.pending), self.n_looks)  # type: ignore[arg-type]

    def rows(self) -> list[dict[str, Any]]:
        table = self.sink.evolver.rows() if self.kind == "evolve" else self.sink.watch.rows()
        return table.to_pylist()  # type: ignore[no-any-return]


@dataclass
class _Batch:
    """Only as much of a DataFrame of paths as is needed."""

    paths: list[Path]

    def toArrow(self) -> pa.Table:
        return pa.table({"path": [path.as_uri() for path in self.paths]})


def rows_in(name: str, data: bytes) -> Rows:
    """The rows of a content, read by Python's own readers; a truncated row counts if it looks complete."""
    found: list[tuple[int, str | None]] = []
    if name.endswith(".parquet"):
        try:
            table = pa.parquet.read_table(pa.BufferReader(data))
        except (pa.ArrowException, OSError):
            return frozenset()
        found = [(row["id"], row["text"]) for row in table.to_pylist()]
    elif name.endswith(".jsonl"):
        for line in data.decode().splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            found.append((row["id"], row["text"]))
    else:
        try:
            lines = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
        except csv.Error:
            # A quote that is never closed: nobody can say where rows end, so the whole file is rejected.
            return frozenset()
        if not lines or tuple(lines[0]) != _COLUMNS:
            return frozenset()
        # An empty field is null.
        found = [(int(row[1]), row[3] or None) for row in lines[1:] if len(row) == 4]
    return frozenset(found)


def trial(seed: int) -> Outcome:
    rng = random.Random(seed)
    kind = _KINDS[seed % len(_KINDS)]
    with tempfile.TemporaryDirectory(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None) as home:
        folder = Folder(Path(home) / "changes", rng)
        folder.path.mkdir()
        # A complete first file determines the columns.
        folder._put("0.csv", b'op,id,src,text\ninsert,0,0.csv,"a word"\n')
        stream_folder._PAUSE_SECONDS = 0.0
        following = Following(kind, folder, Path(home) / "state")
        _settle(following)
        for _ in range(rng.randint(3, 25)):
            _step(following)
        following.files.__class__ = LocalFiles
        _settle(following)
        failure = _judged(following)
        following.restart()
        following.handed.clear()
        again = following.look()
        following.sink.close()
        if not failure and again:
            failure = f"a restart on files that had not changed made {again} steps"
        refused = {bad["file"] for bad in _asides(following.state) if _is_refusal(bad)}
        return Outcome(failure=failure, notes=(kind, *("files rejected",) * len(refused)))


def _step(following: Following) -> None:
    folder, rng = following.folder, following.folder.rng
    deeds: list[Callable[[], Any]] = [
        lambda: folder.deed(rng.choice(_NAMES)),
        lambda: folder.deed(rng.choice(_NAMES)),
        following.look,
        following.look,
        following.restart if rng.random() < 0.3 else following.look,
    ]
    rng.choice(deeds)()
    folder.now += rng.choice([0, 1, MOMENT // 2, MOMENT, MOMENT + 1])


def _settle(following: Following) -> None:
    """The files no longer change: look until nothing new is found."""
    for _ in range(40):
        following.folder.now += MOMENT
        if not following.look():
            return
    raise AssertionError("the follower does not come to rest")


def _judged(following: Following) -> str:
    folder = following.folder
    asides = _asides(following.state)
    twice = [bad for bad in asides if "already" in bad["reason"]]
    if twice:
        return f"read twice: {twice}"
    refused = {bad["file"] for bad in asides if _is_refusal(bad)}
    rows: dict[str, set[tuple[int, str | None]]] = {}
    for row in following.rows():
        rows.setdefault(row["src"], set()).add((row["id"], row["text"]))
    for name in folder.kept.keys() - {"0.csv"}:
        last, found = folder.content(name), frozenset(rows.pop(name, ()))
        said = {rows_in(name, data) for data in folder.still(name)}
        if last is None:
            said.add(frozenset())
        if last is not None and not following.sink.has_applied(name):
            return f"{name} was never applied"
        if found not in said:
            return f"{name}: {sorted(found)} stand, and it never said so for a moment: {said}"
        if last is not None and found != rows_in(name, last) and name not in refused:
            return f"{name}: {sorted(found)} stand, its last content is {last!r}, and no refusal names it"
    rows.pop("0.csv", None)
    return f"rows of nowhere: {rows}" if rows else ""


def _asides(state: Path) -> list[dict[str, Any]]:
    paths = sorted((state / "output" / "rejected").glob("*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def _is_refusal(bad: dict[str, Any]) -> bool:
    return bad["row"] is None and "since it was applied" in bad["reason"]
