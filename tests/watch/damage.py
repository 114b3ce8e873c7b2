"""Damage to every file of every kind of state, and what happens when it is opened."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from states import Answers, Kind, kinds, older

from naysay.errors import StateError

PAGE = 4096
EDGE = 64
SAME, DETECTED, WRONG, UNPICKLED = 0, 3, 1, 42
DAMAGES = ("bit", "bit", "bits", "truncate", "zero page", "zero rest", "zero few", "delete", "older", "swap", "garbage")


def files_of(home: Path) -> list[Path]:
    return sorted(path.relative_to(home) for path in home.rglob("*") if path.is_file())


def damage(rng: random.Random, home: Path, copies: list[Path]) -> str:
    """Damage one file of a state and say how. Each kind of file is equally likely, no matter how many there are."""
    sorts: dict[str, list[Path]] = {}
    for path in files_of(home):
        sorts.setdefault(f"{path.parent.parts[:2]} {path.suffixes}", []).append(path)
    name = rng.choice(sorts[rng.choice(sorted(sorts))])
    file, kind = home / name, rng.choice(DAMAGES)
    size = file.stat().st_size
    if kind == "older":
        copy = rng.choice(copies) / name
        if copy.exists():
            shutil.copy(copy, file)
        else:
            file.unlink()
        return f"{name}: an older version"
    if kind == "delete" or size == 0:
        file.unlink()
        return f"{name}: deleted"
    data = bytearray(file.read_bytes())
    file.write_bytes(damaged(rng, kind, data))
    return f"{name}: {kind}"


def damaged(rng: random.Random, kind: str, data: bytearray) -> bytes:
    size = len(data)
    page = PAGE * rng.randrange(max(size // PAGE, 1))
    if kind in ("bit", "bits"):
        for _ in range(1 if kind == "bit" else rng.randint(2, 20)):
            data[place_in(rng, size)] ^= 1 << rng.randrange(8)
    elif kind == "truncate":
        del data[rng.choice([0, place_in(rng, size), max(size - rng.randrange(1, 200), 0)]) :]
    elif kind == "swap" and size >= 2 * PAGE:
        other = PAGE * rng.randrange(size // PAGE)
        data[page : page + PAGE], data[other : other + PAGE] = data[other : other + PAGE], data[page : page + PAGE]
    elif kind == "zero few":
        place = place_in(rng, size)
        end = min(size, place + rng.randint(1, 32))
        data[place:end] = bytes(end - place)
    else:
        end = size if kind == "zero rest" else min(size, page + PAGE)
        data[page:end] = rng.randbytes(end - page) if kind == "garbage" else bytes(end - page)
    return bytes(data)


def place_in(rng: random.Random, size: int) -> int:
    """A byte of the header, of the end, next to a page boundary, or anywhere."""
    region = rng.choice(("header", "tail", "edge", "anywhere"))
    if region == "header":
        return rng.randrange(min(EDGE, size))
    if region == "tail":
        return size - 1 - rng.randrange(min(EDGE, size))
    if region == "edge" and size > PAGE:
        return min(size - 1, PAGE * rng.randint(1, size // PAGE) - rng.randint(0, 1))
    return rng.randrange(size)


def judge(kind: Kind, home: Path, expected: Answers) -> int:
    """The outcome on a damaged state: the same answers, a StateError that names one of its files, or something else."""
    try:
        found = kind.answers(home)
    except StateError as error:
        return DETECTED if str(home) in str(error) else _said(error)
    except BaseException as error:
        return _said(error)
    return SAME if found == expected else WRONG


def _said(error: BaseException) -> int:
    sys.stderr.write(f"{type(error).__name__}: {error}\n")
    sys.stderr.flush()
    return WRONG


class Gallery:
    """States to damage, always from the same copy, and their answers while they are intact."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kinds = {kind.name: kind for kind in kinds()}
        self.expected = {}
        for name, kind in self.kinds.items():
            self._make(kind)
            whole = folder / name / "whole"
            shutil.copytree(folder / name / "state", whole)
            self.expected[name] = kind.answers(whole)
            shutil.rmtree(whole)

    def judged(self, seeds: Sequence[int]) -> list[tuple[str, str]]:
        """Damage a state for each seed; return each verdict, and what was done.

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

    def _make(self, kind: Kind) -> None:
        home = self.folder / kind.name / "state"
        home.mkdir(parents=True)
        child = os.fork()
        if child == 0:
            try:
                kind.make(home)
            except BaseException as error:
                _said(error)
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, f"no state of the kind {kind.name!r}"

    def _forked(self, seeds: Sequence[int]) -> tuple[int, bytes]:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            sys.addaudithook(_unpickles)
            for seed in seeds:
                os.write(writing, bytes([self._judge(seed)]))
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as pipe:
            verdicts = pipe.read()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), verdicts

    def _judge(self, seed: int) -> int:
        kind, home, _ = self._damaged(seed)
        try:
            return judge(kind, home, self.expected[kind.name])
        finally:
            shutil.rmtree(home)

    def _damaged(self, seed: int) -> tuple[Kind, Path, str]:
        rng = random.Random(seed)
        kind = self.kinds[rng.choice(sorted(self.kinds))]
        state = self.folder / kind.name / "state"
        home = state.with_name(f"work {seed}")
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(state, home)
        return kind, home, damage(rng, home, older(state))

    def _told(self, seed: int, ended: int) -> tuple[str, str]:
        verdict = {SAME: "same", DETECTED: "detected"}.get(ended)
        if verdict is not None:
            return verdict, ""
        kind, home, how = self._damaged(seed)
        shutil.rmtree(home)
        return "wrong", f"damage of seed {seed}, {kind.name}: {how}: ended with {ended}"


def _unpickles(event: str, _given: object) -> None:
    if event == "pickle.find_class":
        os._exit(UNPICKLED)
