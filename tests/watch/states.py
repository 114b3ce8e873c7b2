"""State folders of every kind, made to be damaged, and all answers after opening one.

Each kind has `make(home)`, which runs in its own process and may leave the state as a kill would, and `answers(home)`,
which resumes from the state: it applies one more batch, and reads the output.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feeder import RULES, batches
from outputs import asides, change_table, events, standing, write_changes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "evolve"))

import feed_evolver

from naysay.evolve.evolver import Evolver
from naysay.evolve.feed import EvolveFeed
from naysay.live.feed.changes import split_ops
from naysay.live.feed.follow import Follower
from naysay.live.journal import journal
from naysay.live.layout import named
from naysay.rule import render
from naysay.watch import Watch
from naysay.watch.feed import FeedOptions, open_feed

N_BATCHES = 12
_SEED = 7
_SHAPE = {"source": "folder", "partitions": 2}
# After these batches a copy of the state is saved, to be restored as an older version.
_COPIED = {N_BATCHES // 2: 0, N_BATCHES - 2: 1}
Answers = tuple[Any, ...]


@dataclass(frozen=True)
class Kind:
    """A kind of state."""

    name: str
    make: Callable[[Path], None]
    answers: Callable[[Path], Answers]


def older(home: Path) -> list[Path]:
    return sorted(home.parent.glob(f"{home.name} older *"))


def _copy(home: Path, number: int) -> None:
    if number in _COPIED:
        shutil.copytree(home, home.with_name(f"{home.name} older {_COPIED[number]}"))


def _rows(table: Any) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def _feed_watch(home: Path, *, closed: bool) -> None:
    path = home / "state.duckdb"
    watch = Watch(RULES, "id", state=path)
    for number, batch in enumerate(batches(_SEED, N_BATCHES + 1)[:-1]):
        watch.apply(**batch, batch_id=str(number))
        if closed and number in _COPIED:
            watch.close()
        _copy(home, number)
        if closed and number in _COPIED:
            watch = Watch.open(path)
    if closed:
        watch.close()


def _watch_answers(home: Path) -> Answers:
    with Watch.open(home / "state.duckdb") as watch:
        before = _shown(watch)
        change = watch.apply(**batches(_SEED, N_BATCHES + 1)[-1], batch_id="one more")
        repeated = watch.apply(batch_id="3").repeated
        return before, _shown(watch), change.n_added, change.n_removed, repeated


def _shown(watch: Watch) -> Answers:
    found = {tuple(row.values()) for row in watch.violations().table.to_pylist()}
    return watch.counts, _rows(watch.rows()), found


def _feed_evolver(home: Path, *, closed: bool) -> None:
    first, *rest = feed_evolver.batches(_SEED, N_BATCHES)
    evolver = Evolver(first["inserts"], "id", state=home)
    for number, batch in enumerate(rest):
        evolver.apply(**batch, batch_id=str(number))
        if closed and number in _COPIED:
            evolver.close()
        _copy(home, number)
        if closed and number in _COPIED:
            evolver = Evolver.open(home)
    if closed:
        evolver.close()


def _evolver_answers(home: Path) -> Answers:
    with Evolver.open(home) as evolver:
        before = _rules(evolver)
        change = evolver.apply(**feed_evolver.batches(_SEED, N_BATCHES + 1)[-1], batch_id="one more")
        added = sorted(render(rule) for rule in change.added)
        return before, added, _rules(evolver), evolver.has_applied("3"), evolver.has_applied("no such")


def _rules(evolver: Evolver) -> Answers:
    return sorted(render(rule) for rule in evolver.rules), _rows(evolver.rows())


def _changes(home: Path, n_files: int) -> Path:
    """The change files, next to the state: the same ones for its copies."""
    folder = home.parent / "changes"
    if len(list(folder.glob("*"))) < n_files:
        made = batches(_SEED, N_BATCHES + 1)
        # A few invalid changes: rejected changes are part of the output.
        write_changes(folder, [{**batch, "deletes": [*batch["deletes"], 999]} for batch in made[:n_files]])
    return folder


def _drain(home: Path, feed: Any, n_files: int) -> None:
    for step in Follower(_changes(home, n_files), feed, home, moment=0).drain():
        _copy(home, int(step.source.split(".")[0])) if n_files == N_BATCHES else None
    feed.write_current()


def _follow_watch(home: Path) -> None:
    with open_feed(home, named(RULES), ["id"], FeedOptions())[0] as feed:
        _drain(home, feed, N_BATCHES)


def _followed_answers(home: Path) -> Answers:
    with open_feed(home, None, (), FeedOptions())[0] as feed:
        _drain(home, feed, N_BATCHES + 1)
        found = _shown(feed.watch)
    return found, events(home), standing(home), asides(home)


def _follow_evolving(home: Path) -> None:
    with EvolveFeed(home, ["id"]) as feed:
        _drain(home, feed, N_BATCHES)


def _evolving_answers(home: Path) -> Answers:
    with EvolveFeed(home, ["id"]) as feed:
        _drain(home, feed, N_BATCHES + 1)
        assert feed.evolver is not None
        found = _rules(feed.evolver)
    return found, asides(home)


def _feed_parts(home: Path) -> None:
    from inline_parts import open_inline

    from naysay.live.spark.stream import StreamRecord

    StreamRecord(home, _SHAPE, {}, pinned=False)
    parts = open_inline(home, 2, RULES)
    for number, batch in enumerate(batches(_SEED, N_BATCHES)):
        parts.apply(str(number), split_ops(str(number), change_table({**batch, "deletes": [*batch["deletes"], 999]})))
        _copy(home, number)
    parts.write_current()


def _parts_answers(home: Path) -> Answers:
    from inline_parts import open_inline

    from naysay.live.spark.stream import StreamRecord
    from naysay.watch import part

    # Another process would not have opened these parts before.
    part._warm.clear()
    StreamRecord(home, _SHAPE, {}, pinned=False)
    # As the command line does: the rules may be given again.
    parts = open_inline(home, 2, RULES)
    parts.apply("one more", split_ops("one more", change_table(batches(_SEED, N_BATCHES + 1)[-1])))
    parts.write_current()
    return parts.n_rows, parts.counts, parts.has_applied("3"), events(home), standing(home), asides(home)


def _killed(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def made(home: Path) -> None:
        make(home)
        os._exit(0)

    return made


def kinds() -> list[Kind]:
    """Every kind of state that there is here."""
    # Snapshots come soon, so that stores hold one and a log after it.
    journal._MIN_LOG_EVENTS = 5
    found = [
        Kind("closed", lambda home: _feed_watch(home, closed=True), _watch_answers),
        Kind("killed", _killed(lambda home: _feed_watch(home, closed=False)), _watch_answers),
        Kind("evolve closed", lambda home: _feed_evolver(home, closed=True), _evolver_answers),
        Kind("evolve killed", _killed(lambda home: _feed_evolver(home, closed=False)), _evolver_answers),
        Kind("followed", _follow_watch, _followed_answers),
        Kind("evolving", _follow_evolving, _evolving_answers),
    ]
    if importlib.util.find_spec("pyspark") is not None:
        found.append(Kind("parts", _feed_parts, _parts_answers))
    return found
