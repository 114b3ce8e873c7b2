"""Damage to files of a store, and what a watch says to it.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from feeder import RULES, batches

from naysay.errors import StateError
from naysay.watch import Watch, store

PAGE = 4096
N_BATCHES = 12
SAME, DETECTED, WRONG = 0, 3, 1
KINDS = ("bit", "bit", "bits", "truncate", "zero page", "zero rest", "delete", "older", "swap", "garbage")


def answers(path: Path) -> tuple[Any, ...]:
    """Everything that a watch on a store answers, and what it does with one more batch."""
    with Watch(store=path) as watch:
        before = _shown(watch)
        change = watch.apply(**batches(7, N_BATCHES + 1)[-1], batch_id="one more")
        repeated = watch.apply(batch_id="3").repeated
        return before, _shown(watch), change.n_added, change.n_removed, repeated


def _shown(watch: Watch) -> tuple[Any, ...]:
    rows = watch.rows()
    assert rows is not None
    found = {tuple(row.values()) for row in watch.standing().table.to_pylist()}
    return watch.counts, rows.sort_by("id").to_pylist(), found


def make_stores(folder: Path) -> dict[str, Path]:
    """A store closed in order, one whose process was killed with changes in the log, and an older copy of each."""
    store._MIN_LOG_EVENTS = 5
    stores = {}
    for name in ("closed", "killed"):
        child = os.fork()
        if child == 0:
            _feed(folder, name)
        os.waitpid(child, 0)
        stores[name] = folder / name
    return stores


def _feed(folder: Path, name: str) -> None:
    home = folder / name
    home.mkdir()
    watch = Watch(RULES, "id", store=home / "state.duckdb")
    for number, batch in enumerate(batches(7, N_BATCHES + 1)[:-1]):
        watch.apply(**batch, batch_id=str(number))
        if number in (N_BATCHES // 2, N_BATCHES - 2):
            if name == "closed":
                watch.close()
            copy = folder / f"{name} older {int(number > N_BATCHES // 2)}"
            shutil.copytree(home, copy)
            if name == "closed":
                watch = Watch(store=home / "state.duckdb")
    if name == "closed":
        watch.close()
    os._exit(0)


def damage(rng: random.Random, folder: Path, older: list[Path]) -> str:
    """Damage one file of a store; says how."""
    file = folder / rng.choice(sorted(path.name for path in folder.iterdir()))
    size = file.stat().st_size
    kind = rng.choice(KINDS)
    if kind == "older":
        name = rng.choice(older) / file.name
        if name.exists():
            shutil.copy(name, file)
        else:
            file.unlink()
        return f"{file.name}: an older version"
    if kind == "delete" or size == 0:
        file.unlink()
        return f"{file.name}: deleted"
    with file.open("r+b") as opened:
        if kind in ("bit", "bits"):
            for _ in range(1 if kind == "bit" else rng.randint(2, 20)):
                place = rng.randrange(size)
                opened.seek(place)
                byte = opened.read(1)[0] ^ (1 << rng.randrange(8))
                opened.seek(place)
                opened.write(bytes([byte]))
        elif kind == "truncate":
            opened.truncate(rng.choice([0, rng.randrange(size), max(size - rng.randrange(1, 200), 0)]))
        elif kind == "swap" and size >= 2 * PAGE:
            one, other = (PAGE * rng.randrange(size // PAGE) for _ in range(2))
            pages = []
            for place in (one, other):
                opened.seek(place)
                pages.append(opened.read(PAGE))
            for place, page in zip((other, one), pages, strict=True):
                opened.seek(place)
                opened.write(page)
        else:
            place = PAGE * rng.randrange(max(size // PAGE, 1))
            n_bytes = size - place if kind == "zero rest" else min(PAGE, size - place)
            opened.seek(place)
            opened.write(rng.randbytes(n_bytes) if kind == "garbage" else bytes(n_bytes))
    return f"{file.name}: {kind}"


def judge(path: Path, expected: tuple[Any, ...]) -> int:
    """How a watch on a damaged store ends: the same answers, a StateError, or something else."""
    try:
        found = answers(path)
    except StateError as error:
        return DETECTED if path.name in str(error) else WRONG
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        return WRONG
    return SAME if found == expected else WRONG


class Gallery:
    """Stores to damage, each time from the same state, and what a watch on them answers while they are whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stores = make_stores(folder)
        self.expected = {}
        for name, home in self.stores.items():
            shutil.copytree(home, folder / "whole" / name)
            self.expected[name] = answers(folder / "whole" / name / "state.duckdb")

    def judged(self, seeds: Sequence[int]) -> list[tuple[str, str]]:
        """Damage a store for each seed; gives each verdict, and what was done.

        All are judged in one forked process, until one of them ends it; then the rest in another.
        """
        found: list[tuple[str, str]] = []
        while len(found) < len(seeds):
            rest = seeds[len(found) :]
            ended, verdicts = self._forked(rest)
            found += [self._told(seed, verdict) for seed, verdict in zip(rest, verdicts, strict=False)]
            if len(verdicts) < len(rest):
                found.append(self._told(rest[len(verdicts)], ended))
        return found

    def _forked(self, seeds: Sequence[int]) -> tuple[int, bytes]:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            for seed in seeds:
                os.write(writing, bytes([self._judge(seed)]))
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as pipe:
            verdicts = pipe.read()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), verdicts

    def _judge(self, seed: int) -> int:
        name, work, _ = self._damaged(seed)
        try:
            return judge(work / "state.duckdb", self.expected[name])
        finally:
            shutil.rmtree(work)

    def _damaged(self, seed: int) -> tuple[str, Path, str]:
        rng = random.Random(seed)
        name = rng.choice(sorted(self.stores))
        work = self.folder / f"work {seed}"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(self.stores[name], work)
        return name, work, damage(rng, work, sorted(self.folder.glob(f"{name} older *")))

    def _told(self, seed: int, ended: int) -> tuple[str, str]:
        verdict = {SAME: "same", DETECTED: "detected"}.get(ended)
        if verdict is not None:
            return verdict, ""
        name, work, how = self._damaged(seed)
        shutil.rmtree(work)
        return "wrong", f"damage of seed {seed}, {name}: {how}: ended with {ended}"
