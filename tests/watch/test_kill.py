"""A watch is killed at random moments and at every named point: nothing is lost or applied twice.

CI kills 10 times at random moments, and twice at each point; scripts/soak watch-kills and crash-points do more.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from killing import FEEDER, PARTS_POINTS, Nursery, kill_at_point, kill_at_random

from naysay.live.journal.seal import POINTS

N_KILLS = 10


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery(FEEDER)
    yield made
    made.close()


def test_random_kills(nursery: Nursery, tmp_path: Path) -> None:
    n_killed = seed = 0
    while n_killed < N_KILLS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        n_killed += kill_at_random(nursery, folder, seed, "follow" if seed % 2 else "apply", 5)
        seed += 1


@pytest.mark.parametrize("point", POINTS)
def test_kills_at_named_points(nursery: Nursery, tmp_path: Path, point: str) -> None:
    if point in PARTS_POINTS and importlib.util.find_spec("pyspark") is None:
        pytest.skip("a watch in parts needs pyspark")
    for turn in (1, 3):
        folder = tmp_path / str(turn)
        folder.mkdir()
        killed = kill_at_point(nursery, folder, turn // 2, point, turn)
        passes_once = point.startswith(("create", "close", "output.current"))
        assert killed == (turn == 1 or not passes_once)
