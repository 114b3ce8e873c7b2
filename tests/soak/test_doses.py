"""Short runs of the rows of docs/reliability.md; `scripts/soak` has the long ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numba
import numpy as np
import pytest

from browser import NoBrowser
from soak import hostile, memory, names, paths, report
from soak.record import FIGURES, load, table, table_on_page
from soak.row import run_seeds
from soak.rows import ROWS

# Seeds for each row, in parts so that each test is short. There are more tests of the first two rows in tests/detect,
# of rules in tests/rule, and of names on Spark in tests/spark.
DOSES = {
    "answers": [range(start, start + 40) for start in range(500_000_000, 500_000_080, 40)],
    "second-oracle": [range(5_000_000, 5_000_100)],
    "every-path": [range(1, 17), range(20, 21)],
    "laws": [range(start, start + 30) for start in range(0, 60, 30)],
    "corners": [range(start, start + 1) for start in range(18)],
    "large-tables": [range(4)],
    "bad-rules": [range(600, 605)],
    "bad-tables": [range(250), range(250, 300)],
    # None of those that are also read on Spark; tests/spark has a few.
    "readers": [range(start + 1, start + 80) for start in range(2080, 2480, 80)],
    "csv-out": [range(48)],
    "explosion": [range(1)],
    "growing-files": [range(2000, 2024)],
    "paths": [range(70), range(70, len(paths.CASES) - len(paths._FOLDERS))],
}
_MODULES = {row.name: row.module for row in ROWS}
_IS_COMPILED = not numba.config.DISABLE_JIT


@pytest.mark.parametrize(("row", "seeds"), [(row, seeds) for row, parts in DOSES.items() for seeds in parts])
def test_a_small_dose(row: str, seeds: range) -> None:
    slow = {"growing-files", "explosion", "large-tables", "bad-tables", "bad-rules", "paths", "csv-out"}
    if not _IS_COMPILED and row in slow:
        pytest.skip("takes minutes where kernels are not compiled, or calls none")
    found = run_seeds(_MODULES[row], seeds)
    assert found.shown == []
    assert found.n == len(seeds)


@pytest.mark.skipif(not _IS_COMPILED, reason="takes minutes where kernels are not compiled")
@pytest.mark.parametrize("seed", range(5))
def test_hostile_rules_keep_to_their_estimates(seed: int) -> None:
    table, text = hostile.drawn(np.random.default_rng(seed), seed, n_rows=8_000)
    assert hostile.judged(table, text)[0].failure == ""


def test_every_third_name_in_process_and_as_sql() -> None:
    for seed in range(0, len(names.NAMES), 3):
        name, other = names.pair_of_names(seed)
        assert names.local_fault(name, other) == ""
        assert names.duckdb_fault(name, other) == ""


@pytest.fixture(scope="module")
def browser() -> Iterator[None]:
    yield
    report.close_browser()


@pytest.mark.usefixtures("browser")
@pytest.mark.parametrize("seed", range(0, 2500, 113))
def test_payloads_in_a_browser(seed: int) -> None:
    try:
        outcome = report.trial(seed)
    except NoBrowser as missing:
        pytest.skip(str(missing))
    assert outcome.failure == ""


@pytest.mark.parametrize(
    ("size", "note"), [(20 << 20, "finished within 512 MiB"), (700 << 20, "refused before reading")]
)
def test_memory_is_kept_to(tmp_path: Path, size: int, note: str) -> None:
    if not _IS_COMPILED:
        pytest.skip("takes minutes where kernels are not compiled")
    path = tmp_path / "data.arrow"
    memory.write(path, size, seed=1)
    found = memory.judged(path, size, ["--rule", "b -> c"])
    assert (found.failure, found.notes) == ("", (note,))


def test_the_page_shows_the_figures_on_record() -> None:
    assert table_on_page() == table(), "run: bash scripts/soak --table"


def test_every_figure_is_of_a_row_and_without_failures() -> None:
    for path in FIGURES.glob("*.json"):
        figures = load(path.stem)
        assert figures is not None
        assert path.stem in _MODULES
        assert figures["failures"] == 0
        assert figures["last_seed"] == figures["first_seed"] + figures["n"] - 1


def test_every_row_that_is_written_has_its_trial() -> None:
    root = Path(__file__).parent
    for row in ROWS:
        assert not row.module or (root / f"{row.module.split('.')[-1]}.py").exists()
