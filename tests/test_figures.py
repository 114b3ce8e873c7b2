"""The benchmarks page matches the files of figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import figures  # noqa: E402
import scale_page  # noqa: E402


def test_the_page_is_up_to_date() -> None:
    page = figures.PAGE.read_text(encoding="utf-8")
    assert page == figures.page_with(page, figures.rendered(figures.FIGURES)), "run: bash scripts/figures"


def test_the_page_about_scale_is_up_to_date() -> None:
    page = scale_page.PAGE.read_text(encoding="utf-8")
    assert page == figures.page_with(page, scale_page.rendered()), "run: bash scripts/figures"


def test_without_figures_there_is_no_table(tmp_path: Path) -> None:
    assert figures.rendered(tmp_path) == ""


def test_records_lists_and_facts(tmp_path: Path) -> None:
    document = {
        "rows": 1000000,
        "dirty": 0.01,
        "workloads": [{"name": "a|b", "violations": 12345, "naysay": 0.0021}, {"name": "c", "duckdb": "over 20 s"}],
    }
    (tmp_path / "detect-dirty.json").write_text(json.dumps(document))
    (tmp_path / "encode.json").write_text(json.dumps({"best_seconds": {"naysay": 0.25, "duckdb": 1.5}, "ratio": 0.5}))
    (tmp_path / "another.json").write_text(json.dumps({"times": []}))
    text = figures.rendered(tmp_path)
    assert "## Counting violations in-process (dirty)" in text
    assert "rows 1,000,000, dirty 0.01." in text
    assert "| name | violations | naysay | duckdb |" in text
    assert "| a\\|b | 12,345 | 2.1 ms |  |" in text
    assert "| c |  |  | over 20 s |" in text
    assert "| best seconds | 250 ms | 1.5 s |" in text
    assert text.index("detect-dirty.json") < text.index("encode.json") < text.index("another.json")


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(SystemExit):
        figures.page_with("no markers", "")
