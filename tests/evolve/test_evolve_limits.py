"""Limits of an evolver: what is stopped or refused changes nothing, and can be applied again."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from evolve_machine import Setting, rules_from_scratch

import naysay
from naysay.errors import ResourceError, UsageError
from naysay.evolve import delta, relation
from naysay.evolve.evolver import Evolver
from naysay.rule import canonical
from naysay.rule.model import Nulls


def frame(first: int, n_rows: int) -> pa.Table:
    rng = np.random.default_rng(first)
    return pa.table(
        {
            "id": np.arange(first, first + n_rows),
            "zip": rng.integers(0, 9, n_rows),
            "rate": rng.integers(0, 9, n_rows),
            "sum": rng.integers(0, 99, n_rows),
        }
    )


def rules_of(evolver: Evolver) -> set[naysay.Rule]:
    return set(map(canonical, evolver.rules))


def expect_rules(evolver: Evolver) -> None:
    setting = Setting(Nulls.SQL, evolver._engine.settings.request.error, None, "")
    assert rules_of(evolver) == rules_from_scratch(evolver.rows(), evolver.space, setting)


@pytest.mark.parametrize(
    ("method", "error"), [("all-pairs", 0.0), ("all-pairs", 0.1), ("selective", 0.0), ("incdc", 0.0)]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_batch_that_runs_out_of_time_changes_nothing(
    method: str, error: float, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time is up at the n-th look at the clock, for n of every size; then the batch goes through."""
    state = tmp_path / "state"
    with Evolver(
        frame(0, 150), key="id", error=error, method=method, threads=threads, state=state, max_seconds=600
    ) as made:
        before = rules_of(made)
    evolver = Evolver.open(state, threads=threads, max_seconds=600)
    real, looks, stop_at = delta.Budget.left.fget, 0, 0

    def left(budget: object) -> float:
        nonlocal looks
        if getattr(budget, "max_seconds", None) is None:
            return real(budget)
        looks += 1
        return -1.0 if looks >= stop_at else 600.0

    monkeypatch.setattr(delta.Budget, "left", property(left))
    batch = {"inserts": frame(1000, 60)} if method == "incdc" else {"inserts": frame(1000, 60), "deletes": [3, 4]}
    n_stopped, is_done = 0, False
    while not is_done:
        looks, stop_at = 0, 2 * stop_at + 1
        with suppress(ResourceError):
            evolver.apply(**batch, batch_id="one")
            is_done = True
        if not is_done:
            n_stopped += 1
            assert rules_of(evolver) == before
            assert evolver.n_rows == 150
            assert not evolver.has_applied("one")
    monkeypatch.undo()
    assert n_stopped
    expect_rules(evolver)
    after = rules_of(evolver)
    evolver.close()
    again = Evolver.open(state)
    assert rules_of(again) == after
    assert again.has_applied("one")


def test_ctrl_c_in_the_middle_of_a_batch_leaves_the_old_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes while rows are moved; it is raised where the batch can be left, and the batch applied again."""
    evolver = Evolver(frame(0, 100), key="id")
    before, handler = rules_of(evolver), signal.getsignal(signal.SIGINT)
    assert threading.current_thread() is threading.main_thread()
    move = relation.Relation._move_last

    def interrupted(self: relation.Relation, last: np.ndarray) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        return move(self, last)

    monkeypatch.setattr(relation.Relation, "_move_last", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evolver.apply(inserts=frame(1000, 50), deletes=[1, 2, 3])
    monkeypatch.undo()
    assert signal.getsignal(signal.SIGINT) is handler
    assert rules_of(evolver) == before
    assert evolver.n_rows == 100
    evolver.apply(inserts=frame(1000, 50), deletes=[1, 2, 3])
    expect_rules(evolver)


def test_a_start_that_runs_out_of_time_leaves_no_state(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = pa.table({name: rng.random(300) for name in "abcdefgh"})
    with pytest.raises(ResourceError, match=r"not finished after 0\.001 seconds"):
        Evolver(table, max_seconds=0.001, state=tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_a_batch_that_needs_too_much_memory_is_refused() -> None:
    evolver = Evolver(frame(0, 50), key="id", memory="100T")
    before = rules_of(evolver)
    object.__setattr__(evolver._engine.settings.request, "memory", 1 << 20)
    with pytest.raises(ResourceError, match="allow more memory"):
        evolver.apply(inserts=frame(1000, 20))
    assert rules_of(evolver) == before
    object.__setattr__(evolver._engine.settings.request, "memory", None)
    evolver.apply(inserts=frame(1000, 20))
    expect_rules(evolver)


def test_limits_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="max_seconds"):
        Evolver(frame(0, 5), max_seconds=0)
    with pytest.raises(UsageError, match="memory"):
        Evolver(frame(0, 5), memory="much")
    with pytest.raises(ResourceError, match="allow more memory"):
        Evolver(frame(0, 5), memory=1000, state=tmp_path / "state")
    assert not (tmp_path / "state").exists()
