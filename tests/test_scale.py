"""The simulator of clusters on task graphs whose schedules can be worked out by hand."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from simulate import Cluster, Stage, matches, predictions, scaled, simulate, stages_of

ONE_CORE = Cluster(1, 1)


def test_tasks_share_the_cores() -> None:
    stages = [Stage((1.0,) * 6)]
    assert simulate(stages, ONE_CORE).makespan == 6
    assert simulate(stages, Cluster(1, 2)).makespan == simulate(stages, Cluster(2, 1)).makespan == 3
    found = simulate(stages, Cluster(2, 2))
    assert (found.makespan, found.utilisation) == (2, 6 / 8)


def test_stages_wait_for_those_before_and_for_the_driver() -> None:
    stages = [Stage((2.0, 1.0), delay=0.5), Stage((1.0,)), Stage((3.0,), after=(0, 1), delay=0.25)]
    # The second stage fills the core that the first leaves free; the third starts at 2.5 + 0.25.
    assert simulate(stages, Cluster(1, 2)).makespan == 5.75


def test_a_long_task_bounds_the_makespan_from_below() -> None:
    stages = [Stage((1.0,) * 99 + (50.0,))]
    found = simulate(stages, Cluster(100, 4))
    assert (found.makespan, found.longest) == (50, 50)


def test_the_driver_starts_a_limited_number_of_tasks_per_second() -> None:
    found = simulate([Stage((1.0,) * 100)], Cluster(100, 1, dispatch=10.0))
    assert found.makespan == pytest.approx(9.9 + 1.0)


def test_the_network_is_shared_by_the_cores_of_an_executor() -> None:
    # 800 bytes for 8 tasks, and 100 bytes per second for two cores: two seconds for each task.
    found = simulate([Stage((1.0,) * 8, bytes=800.0)], Cluster(4, 2, network=100.0))
    assert found.makespan == 3


def test_stragglers_and_their_copies() -> None:
    stages = [Stage((1.0,) * 50)]
    every_task = Cluster(50, 1, stragglers=1.0, slowdown=5.0)
    assert simulate(stages, every_task).makespan == 5
    assert simulate(stages, replace(every_task, speculation=True)).makespan == 2.5


def test_a_lost_executor_takes_what_it_computed_with_it() -> None:
    first, second = Stage((1.0, 1.0)), Stage((4.0, 4.0), after=(0,))
    two = Cluster(2, 1)
    assert simulate([first, second], two).makespan == 5
    # At 2 one of two executors is lost: its output of the first stage, and its task of the second. The other goes on
    # with its own task until 5, then computes both again, one after the other.
    found = simulate([first, second], replace(two, losses=(2.0,), replacement=100.0))
    assert (found.makespan, found.n_again) == (5 + 1 + 4, 2)
    # A replacement at 3 does that meanwhile: until 4, and until 8.
    found = simulate([first, second], replace(two, losses=(2.0,), replacement=1.0))
    assert (found.makespan, found.n_again) == (8, 2)


def test_output_that_nobody_needs_any_more_is_not_computed_again() -> None:
    stages = [Stage((1.0, 1.0)), Stage((1.0,), after=(0,)), Stage((5.0,), after=(1,))]
    found = simulate(stages, Cluster(2, 1, losses=(3.0,), replacement=100.0))
    # The last stage needs only the second one; at 3 one executor has one of these two, or neither.
    assert found.n_again <= 2
    assert found.makespan <= 2 + 1 + 1 + 5


def test_the_last_executor_stays() -> None:
    assert simulate([Stage((1.0,))], Cluster(1, 1, losses=(0.5,))).makespan == 1


def test_stages_that_wait_for_each_other_are_an_error() -> None:
    with pytest.raises(ValueError, match="wait for each other"):
        simulate([Stage((1.0,), after=(1,)), Stage((1.0,), after=(0,))], ONE_CORE)


def run(rows: int, n_tasks: int, seconds: float, shuffled: int = 0) -> dict[str, Any]:
    """A run of two stages, of which the second always has one task."""
    graph = [
        stage(rows, 0, *[seconds] * n_tasks) | {"start": 0.5, "finish": 0.5 + seconds},
        stage(10, shuffled, 1.0) | {"start": 1 + seconds, "finish": 2 + seconds, "after": [0], "largest": 10},
    ]
    return {"cores": 2, "route": "r", "verb": "v", "rows": rows, "seconds": seconds + 2.25, "graph": graph}


def test_the_stages_of_a_run_take_as_long_as_the_run() -> None:
    assert simulate(stages_of(run(100, 1, 4.0)), ONE_CORE).makespan == 6.25


def test_a_run_is_scaled_by_its_growth_between_two_sizes(tmp_path: Path) -> None:
    small, large = run(100, 1, 2.0), run(200, 2, 1.5)
    stages = scaled(small, large, 600)
    # 2 and 3 seconds of work at 100 and 200 rows are 1 + rows / 100; one task for every 100 rows.
    assert len(stages[0].seconds) == 6
    assert sum(stages[0].seconds) == pytest.approx(7)
    assert stages[1].seconds == (1.0,)
    path = tmp_path / "scale.json"
    path.write_text(json.dumps({"measured": [small, large, run(600, 6, 3.5)]}))
    (found,) = predictions(path, 600)
    # 7 seconds on two cores, 1 second, and 1.25 of the driver; measured were 5.75.
    assert found["predicted"] == pytest.approx(3.5 + 1 + 1.25)
    assert found["off"] == pytest.approx(0, abs=0.01)


def test_stages_with_a_fixed_number_of_tasks_follow_the_bytes() -> None:
    stages = scaled(run(100, 1, 1.0, 1 << 20), run(1000, 1, 1.0, 10 << 20), 1e6)
    # 10 GB in partitions of 64 MB are 157 tasks; so the largest has a 157th of what one had.
    assert len(stages[1].seconds) == 157
    assert stages[1].largest == pytest.approx(10 * 1000 / 157)


def test_parts_of_files_have_as_many_rows_in_larger_tables() -> None:
    """Spark divides small files among the cores: as many tasks at two sizes, but not in a table of a billion rows."""
    small, large = (
        {"rows": rows, "seconds": 2.0, "graph": [stage(rows, 0, 0.5, 0.5), stage(4, 0, 0.1, 0.1)]}
        for rows in (100, 200)
    )
    read, few, _ = scaled(small, large, 2_000)
    assert (len(read.seconds), sum(read.seconds)) == (20, pytest.approx(1.0))
    assert len(few.seconds) == 2


def stage(rows: int, shuffled: int, *seconds: float) -> dict[str, Any]:
    """A stage that starts when all before it have ended."""
    return {"start": 0.0, "finish": 0.0, "after": [], "rows": rows, "bytes": shuffled, "largest": 0, "seconds": seconds}


def test_stages_are_matched_by_what_they_read() -> None:
    """The larger table is joined by a shuffle, which takes a stage more than sending one side to all tasks."""
    small = {"rows": 100, "seconds": 3.0, "graph": [stage(100, 0, 1.0), stage(8, 64, 0.5), stage(100, 0, 1.0)]}
    graph = [stage(1000, 0, 5.5), stage(80, 640, 0.5), stage(1000, 8000, 4.0, 4.0), stage(1000, 0, 10.0)]
    large = {"rows": 1000, "seconds": 24.0, "graph": graph}
    assert matches(small, large) == {0: 0, 1: 1, 3: 2}
    read, sums, joined, again, _ = scaled(small, large, 10_000)
    # From 1 second to 5.5, and from 1 to 10: 0.5 + rows / 200 and rows / 100; sums do not grow.
    assert sum(read.seconds) == pytest.approx(50.5)
    assert sum(again.seconds) == pytest.approx(100)
    assert sum(sums.seconds) == pytest.approx(0.5)
    # What the smaller run does not have grows with the rows.
    assert (len(joined.seconds), sum(joined.seconds), joined.bytes) == (20, pytest.approx(80), 80_000)
