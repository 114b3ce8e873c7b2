"""Random sequences of inserts, updates, deletes, refusals, restarts and changes of rules, checked after each step.

CI runs 260 sequences of 30 steps; scripts/soak watch runs more.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from machine import run_program

from naysay.live.journal import journal
from naysay.watch import batch
from naysay.watch import counting as counters
from naysay.watch import tree_index as tree

# Sequences run in batches, so that several processes share them evenly.
N_LOTS = 20


def seeds(lot: int, n_programs: int) -> range:
    n_programs //= N_LOTS
    return range(lot * n_programs, (lot + 1) * n_programs)


@pytest.mark.parametrize("lot", range(N_LOTS))
def test_programs(lot: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds(lot, 160):
        # Small tables would always be rebuilt; every other sequence inserts row by row.
        monkeypatch.setattr(tree, "_REBUILD_SHARE", 0 if seed % 2 else 8)
        # Few violations would always be kept.
        monkeypatch.setattr(batch, "_MAX_KEPT", 3 if seed % 3 == 0 else 1_000_000)
        # Small batches would never be searched as in bulk.
        monkeypatch.setattr(tree, "_BULK_ROWS", 0 if seed % 4 < 2 else 4096)
        run_program(seed)


@pytest.mark.parametrize("lot", range(N_LOTS))
def test_programs_of_the_lt_tree(lot: int) -> None:
    for seed in seeds(lot, 60):
        run_program(seed, index="lt-tree", counting=seed % 4 == 3)


@pytest.mark.parametrize("lot", range(N_LOTS))
def test_programs_that_count(lot: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds(lot, 20):
        monkeypatch.setattr(counters, "_BUFFER_ROWS", 3 if seed % 2 else 1024)
        run_program(seed, counting=True)


@pytest.mark.parametrize("lot", range(N_LOTS))
def test_programs_with_a_store(lot: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds(lot, 20):
        monkeypatch.setattr(journal, "_MIN_LOG_EVENTS", 5 if seed % 2 else 4096)
        run_program(seed, folder=tmp_path)
