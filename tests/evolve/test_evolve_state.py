"""The durable state: killed at every named point and at random moments, damaged in every file, foreign, shared.

NAYSAY_SOAK multiplies the number of random cases.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from feed_evolver import batches
from kill_evolver import FEEDER, Nursery, job_in, judge, kill_at_random

from naysay.errors import StateError, UsageError
from naysay.evolve.evolver import Evolver
from naysay.live.journal.seal import POINTS
from naysay.watch import Watch

DOSE = max(int(os.environ.get("NAYSAY_SOAK", "0")), 1)
STORE_POINTS = [point for point in POINTS if point.split(".")[0] in ("create", "batch", "snapshot", "close")]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery(FEEDER)
    yield made
    made.close()


@pytest.mark.parametrize("point", STORE_POINTS)
def test_killed_at_a_point(point: str, nursery: Nursery, tmp_path: Path) -> None:
    for turn in (1, 2):
        folder = tmp_path / str(turn)
        folder.mkdir()
        job = job_in(folder, STORE_POINTS.index(point) + turn)
        nursery.run(job, crash_at=f"{point}:{turn}")
        assert nursery.run(job) == 0
        judge(folder, job)


def test_killed_at_random_moments(nursery: Nursery, tmp_path: Path) -> None:
    for number in range(6 * DOSE):
        folder = tmp_path / str(number)
        folder.mkdir()
        kill_at_random(nursery, folder, 100 + number)


def make_state(folder: Path, method: str) -> list[str]:
    """A state with a few batches in its log; returns its rules."""
    first, *rest = batches(5, 4)
    with Evolver(first["inserts"], key="id", method=method, state=folder) as evolver:
        for number, batch in enumerate(rest):
            evolver.apply(**batch, batch_id=str(number))
        return sorted(map(str, evolver.rules))


def test_damage_is_named_or_without_effect(tmp_path: Path) -> None:
    rng = random.Random(2)
    for method in ("all-pairs", "selective"):
        whole = tmp_path / method
        rules = make_state(whole, method)
        files = sorted(path.name for path in whole.iterdir())
        assert files
        n_named = 0
        for number in range(30 * DOSE):
            folder = tmp_path / f"{method}-{number}"
            shutil.copytree(whole, folder)
            path = folder / rng.choice(files)
            damage(path, rng)
            before = {each.name: each.read_bytes() for each in folder.iterdir()}
            try:
                with Evolver.open(folder) as evolver:
                    assert sorted(map(str, evolver.rules)) == rules
            except StateError:
                n_named += 1
                if path.exists():
                    assert path.read_bytes() == before[path.name], "a damaged state is left as it is"
            shutil.rmtree(folder)
        assert n_named > 5


def damage(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    how = rng.choice(("flip", "cut", "zero", "delete"))
    if how == "delete":
        path.unlink()
        return
    place = rng.randrange(len(data))
    if how == "flip":
        data[place] ^= 1 << rng.randrange(8)
    elif how == "cut":
        del data[place:]
    else:
        start = place // 4096 * 4096
        data[start : start + 4096] = bytes(len(data[start : start + 4096]))
    path.write_bytes(bytes(data))


def test_foreign_places_are_refused(tmp_path: Path) -> None:
    frame = pa.table({"id": [1], "a": [1]})
    with pytest.raises(StateError, match="no evolver state"):
        Evolver.open(tmp_path / "nowhere")
    (tmp_path / "file").write_text("hello")
    with pytest.raises(UsageError, match="folder"):
        Evolver.open(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StateError, match="no evolver state"):
        Evolver.open(tmp_path / "empty")
    Watch("key(a)", key="id", state=tmp_path / "watch.duckdb").close()
    with pytest.raises(StateError, match="not that of an evolver"):
        Evolver.open(tmp_path / "watch.duckdb")
    with pytest.raises(UsageError, match="no folder"):
        Evolver(frame, key="id", state=tmp_path / "far" / "away")
    Evolver(frame, key="id", state=tmp_path / "mine").close()
    with pytest.raises(StateError, match="already exists here; use Evolver"):
        Evolver(frame, key="id", state=tmp_path / "mine")


def test_a_restart_keeps_what_was_asked_for(tmp_path: Path) -> None:
    frame = pa.table({"id": [1, 2, 3], "a": pa.array([1, None, 2]), "b": pa.array([None, None, None], pa.null())})
    made = Evolver(frame, key="id", error=0.2, nulls="equal", max_predicates=2, state=tmp_path / "state")
    rules = list(made.rules)
    made.close()
    with Evolver.open(tmp_path / "state") as again:
        assert list(again.rules) == rules
        assert (again.key, again.method) == (("id",), "all-pairs")
        assert again.space == made.space
        # A column of only nulls takes the type of its first values.
        again.apply(inserts=pa.table({"id": [4], "a": [5], "b": ["x"]}), batch_id="one")
        rules = list(again.rules)
    with Evolver.open(tmp_path / "state") as again:
        assert list(again.rules) == rules
        assert pa.types.is_string(again.schema.field("b").type)
        assert again.apply(deletes=[1], batch_id="one").repeated
        assert again.n_rows == 4


def test_rows_without_a_key_go_on_counting(tmp_path: Path) -> None:
    with Evolver(pa.table({"a": [1, 2, 5]}), state=tmp_path / "state") as evolver:
        evolver.apply(inserts=pa.table({"a": [3]}), deletes=[0])
        evolver.apply(deletes=[3])
    with Evolver.open(tmp_path / "state") as evolver:
        change = evolver.apply(inserts=pa.table({"a": [2]}))
        assert next(gone.pair for gone in change.removed if len(gone.rule.predicates) == 1) == (4, 1)
        with pytest.raises(UsageError, match="no row with the key 3"):
            evolver.apply(deletes=[3])
