"""`naysay.discover` and its results: findings, filters, text that check can read, limits, bad input."""

from __future__ import annotations

import builtins
import os
import random
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import naysay
from naysay.discovery.evidence import Device, choose_device
from naysay.discovery.outcomes import outcomes_of
from naysay.discovery.result import Discovery
from naysay.discovery.space import build_space
from naysay.errors import INSTALL_GPU, ResourceError, UsageError
from naysay.rule import RuleKind, canonical
from naysay.rule.model import Nulls
from naysay.table import from_frame


def people(n_rows: int = 300, dirty: int = 0) -> pa.Table:
    """zip -> city and ordered(salary, rate by state) hold, except in a few dirty rows."""
    rng = random.Random(1)
    zips = [rng.randrange(40) for _ in range(n_rows)]
    salary = [rng.randrange(1000, 9000) for _ in range(n_rows)]
    city = [f"city {zip // 2}" for zip in zips]
    for place in range(dirty):
        city[place] = "nowhere"
    return pa.table(
        {
            "zip": zips,
            "city": city,
            "state": [f"S{zip // 8}" for zip in zips],
            "salary": salary,
            "rate": [amount * (1 + zip // 8) // 100 for amount, zip in zip_pairs(salary, zips)],
            "grade": [rng.randrange(5) for _ in range(n_rows)],
            "room": [rng.randrange(60) for _ in range(n_rows)],
            "child": [rng.random() < 0.5 for _ in range(n_rows)],
        }
    )


def zip_pairs(left: list[int], right: list[int]) -> list[tuple[int, int]]:
    return list(zip(left, right, strict=True))


@pytest.fixture(scope="module")
def found() -> Discovery:
    return naysay.discover(people(), threads=2)


def test_the_planted_rules_come_first(found: Discovery) -> None:
    first = [canonical(rule) for rule in found.best[:8]]
    assert canonical(naysay.parse("zip -> city")) in first
    assert found.top(1, like="ordered(salary, rate by state)")
    assert not found.findings[0].tested.by_accident
    assert not any(finding.tested.by_accident for finding in found.findings)
    assert found.n_pairs == 300 * 299


def test_top_filters_and_groups(found: Discovery) -> None:
    assert found.top(2) == list(found.findings[:2])
    assert found.top(20) == list(found.findings)
    longer = found.top(50)
    assert len(longer) == 50
    assert [finding.rule for finding in longer[: len(found.findings)]] == found.best
    assert all("rate" in finding.rule.column_names for finding in found.top(10, about="rate"))
    like = found.top(10, like="zip -> city")
    assert canonical(naysay.parse("zip -> city")) in [canonical(finding.rule) for finding in like]
    assert all(set(finding.rule.column_names) >= {"zip", "city"} for finding in like)
    kinds = list(found.groups())
    assert kinds == [kind for kind in RuleKind if kind in kinds]
    with pytest.raises(UsageError, match="did you mean 'city'"):
        found.top(3, about="citi")
    with pytest.raises(UsageError, match="does not compare"):
        found.top(3, like="not(t.city < s.city)")


def test_shows_itself(found: Discovery) -> None:
    assert repr(found) == f"<Discovery: {len(found.rules):,} rules of 300 rows>"
    assert "zip -&gt; city" in found._repr_html_()  # type: ignore[attr-defined]


@pytest.mark.parametrize("error", [0.0, 0.0005, 0.29 / 100])
@pytest.mark.parametrize("nulls", ["sql", "equal"])
def test_what_was_discovered_checks(error: float, nulls: str, tmp_path: Path) -> None:
    table = people(120, dirty=2).append_column("odd \n# name", pa.array([None, 1, 2] * 40))
    found = naysay.discover(table, error=error, nulls=nulls, max_predicates=3)
    path = tmp_path / "found.rules"
    found.save(path, list(found.rules)[:150])
    rules = naysay.parse_rules(path.read_text(encoding="utf-8"), columns=table.column_names)
    assert len(rules) == min(150, len(found.rules))
    assert naysay.check(table, rules, nulls=nulls).exit_code == 0


@pytest.mark.parametrize("error", [0.0005, 0.01])
def test_only_rules_that_some_pairs_break_tolerate_any(error: float, tmp_path: Path) -> None:
    table = people(120, dirty=2).append_column("id", pa.array(range(120)))
    found = naysay.discover(table, error=error, max_predicates=3)
    path = tmp_path / "found.yaml"
    found.save(path, found.rules)
    rules = naysay.parse_rules(path.read_text(encoding="utf-8"), columns=table.column_names)
    violations = [naysay.count(table, rule) for rule in rules]
    assert [rule.max_fraction for rule in rules] == [error if broken else None for broken in violations]
    assert 0 in violations
    assert any(violations)
    for of_list in (found.best, found.rules.about("id"), found.rules[:50]):
        assert all((rule.max_fraction is None) == (naysay.count(table, rule) == 0) for rule in of_list)


def test_a_repeated_key_does_not_pass_what_was_discovered_with_an_error(tmp_path: Path) -> None:
    zips = [row % 20 for row in range(200)]
    table = pa.table({"id": list(range(200)), "zip": zips, "city": [zip // 4 for zip in zips]})
    found = naysay.discover(table, error=0.01, cross=False)
    path = tmp_path / "found.rules"
    found.save(path)
    rules = naysay.parse_rules(path.read_text(encoding="utf-8"))
    assert canonical(naysay.parse("key(id)")) in map(canonical, rules)
    twice = pa.concat_tables([table, table.slice(0, 1)])
    assert naysay.check(table, rules).exit_code == 0
    assert naysay.check(twice, rules).exit_code != 0


def test_measures_of_a_rule_that_is_broken_a_little() -> None:
    table = people(300, dirty=2)
    found = naysay.discover(table, error=0.001, threads=2)
    planted = next(f for f in found.findings if canonical(f.rule) == canonical(naysay.parse("zip -> city")))
    assert planted.tested.violations == naysay.count(table, "zip -> city") > 0
    result = naysay.check(table, "zip -> city")[0]
    assert planted.rows_in_conflict == result.rows_in_conflict
    assert result.rows_to_remove is not None
    assert planted.rows_to_remove == (result.rows_to_remove.least, result.rows_to_remove.most)


def test_limits_make_a_partial_answer_of_rules_that_hold() -> None:
    table = people(200)
    everything = {canonical(rule) for rule in naysay.discover(table).rules}
    few = naysay.discover(table, max_rules=7)
    assert few.partial
    assert few.reason == "limit on rules"
    assert len(few.rules) == 7
    assert {canonical(rule) for rule in few.rules} <= everything
    short = naysay.discover(table, max_predicates=2)
    assert {canonical(rule) for rule in short.rules} == {
        canonical(rule) for rule in naysay.discover(table).rules if len(rule.predicates) <= 2
    }
    assert (short.partial, short.reason) == (True, "limit on predicates")
    late = naysay.discover(table, max_seconds=1e-9)
    assert late.partial
    assert late.reason == "time limit"


def test_what_was_not_looked_for_is_not_denied() -> None:
    table = pa.table({"a": [1, 1, 2, 2, 3], "b": ["x", "x", "y", "y", "x"]})
    assert naysay.discover(table, max_predicates=1).notes[-1].startswith("no rule of up to 1 predicate holds")
    assert "less than one pair" in naysay.discover(table, max_predicates=1, error=0.01).notes[-1]


def test_one_zero() -> None:
    """Whether columns share values does not depend on the sign of a zero."""
    spaces = {
        tuple(naysay.discover(pa.table({"f": [1.0] * 4, "g": [1.0, 0.0, zero, 2.0]})).space.comparisons)
        for zero in (0.0, -0.0)
    }
    assert len(spaces) == 1


def test_progress_names_phases() -> None:
    phases: list[str] = []
    naysay.discover(people(100), progress=lambda progress: phases.append(progress.phase))
    assert {"space", "encode", "evidence", "covers", "ranking"} <= set(phases)


@pytest.mark.parametrize("handler", [signal.default_int_handler, lambda number, frame: pytest.fail("not stopped")])
def test_an_interrupt_ends_with_what_is_known(handler: Any) -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("interrupts come to the main thread")
    before = signal.signal(signal.SIGINT, handler)
    try:
        found = _interrupted()
        assert found.partial
        assert found.reason == "interrupted"
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupted() -> Discovery:
    """A discovery that is interrupted while it searches for covers."""
    rng = np.random.default_rng(0)
    table = pa.table({f"c{k}": rng.integers(0, 8, 400) for k in range(13)})
    sent = []

    def interrupt(progress: Any) -> None:
        if progress.phase == "covers" and not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGINT)

    return naysay.discover(table, cross=False, progress=interrupt)


@pytest.mark.parametrize(
    ("table", "n_rules"),
    [
        (pa.table({"a": pa.array([], pa.int64())}), 0),
        (pa.table({"a": [1], "b": ["x"]}), 0),
        (pa.table({"a": [1, 1, 1], "b": ["x", "x", "x"]}), 2),
        (pa.table({"a": pa.array([None, None], pa.int64())}), 2),
        (pa.table({"a": pa.nulls(3)}), 2),
    ],
    ids=["no rows", "one row", "constant columns", "all null", "no type"],
)
def test_tables_with_little_in_them(table: pa.Table, n_rules: int) -> None:
    for method in ("auto", "all-pairs", "selective", "hydra"):
        found = naysay.discover(table, method=method)
        assert not found.partial
        assert len(found.rules) == n_rules, (method, list(found.rules))
        assert "pair" in found.notes[0] if table.num_rows < 2 else not found.notes


def test_no_columns_is_refused() -> None:
    with pytest.raises(UsageError, match="no column that rules can compare"):
        naysay.discover(pa.table({}))
    with pytest.raises(UsageError, match="columns is empty"):
        naysay.discover(people(), columns=[])
    with pytest.raises(naysay.NaysayError, match="zap"):
        naysay.discover(people(), columns=["zap"])


@pytest.mark.timeout(600)  # All rules of these columns would take days.
def test_two_hundred_columns_end_soon() -> None:
    rng = np.random.default_rng(1)
    table = pa.table({f"c{k}": rng.integers(0, 2 + k % 50, 60) for k in range(200)})
    found = naysay.discover(table, cross=False)
    assert found.partial
    assert "name fewer columns" in found.reason
    assert len(found.rules) > 0
    assert max(len(rule.predicates) for rule in found.rules) <= 2
    assert naysay.discover(table, cross=False, max_seconds=0.5).partial
    across = naysay.discover(table, max_seconds=0.5)
    assert across.partial
    assert any("only compared with itself" in note for note in across.notes)
    with pytest.raises(UsageError, match="name fewer columns"):
        naysay.discover(table, space="hydra")


def test_memory_is_refused_before_the_work() -> None:
    with pytest.raises(ResourceError, match="name fewer columns"):
        naysay.discover(people(), memory="1M")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"error": 1.0}, "less than 1"),
        ({"error": -0.1}, "at least 0"),
        ({"max_rules": 0}, "at least 1"),
        ({"max_seconds": 0}, "above 0"),
        ({"method": "magic"}, "unknown method"),
        ({"nulls": "maybe"}, "nulls must be"),
        ({"device": "tpu"}, "device must be"),
        ({"space": "outer"}, "unknown predicate space"),
        ({"method": "hydra", "error": 0.1}, "exact rules only"),
        ({"threads": -1}, "threads must be"),
    ],
)
def test_bad_arguments(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        naysay.discover(people(5), **given)


def test_cuda_that_is_missing_is_said_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    known = builtins.__import__

    def no_cupy(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".")[0] == "cupy":
            raise ImportError(name)
        return known(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", no_cupy)
    with pytest.raises(UsageError, match=re.escape(INSTALL_GPU)):
        naysay.discover(people(), device="cuda")


def test_auto_looks_for_a_device_only_where_it_would_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("naysay.discovery.evidence._missing", lambda: asked.append(True))
    table = from_frame(people())
    outcomes = outcomes_of(table, build_space(table), Nulls.SQL)
    assert choose_device(Device.AUTO, outcomes, 2) is Device.CPU
    assert not asked
    monkeypatch.setattr("naysay.discovery.evidence._n_pairs", lambda outcomes: 5e11)
    assert choose_device(Device.AUTO, outcomes, 2) is Device.CUDA
    monkeypatch.setattr("naysay.discovery.evidence._missing", lambda: "no device")
    assert choose_device(Device.AUTO, outcomes, 2) is Device.CPU


def test_the_cpu_path_never_loads_cupy() -> None:
    script = (
        "import sys, naysay, pyarrow as pa\n"
        "found = naysay.discover(pa.table({'a': [1, 2, 2], 'b': [1, 1, 2]}), device='cpu')\n"
        "found = naysay.discover(pa.table({'a': [1, 2, 2], 'b': [1, 1, 2]}))\n"
        "assert found.device == 'cpu'\n"
        "print('cupy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.strip() == "False"


def test_cuda_counts_through_the_kernel_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wiring, with the CPU's kernel in place of the device's: same arguments, same contract."""
    from naysay.discovery.evidence import count_blocks, triangle
    from naysay.kernels.evidence import gpu as gpu_evidence

    table = from_frame(people(80))
    outcomes = outcomes_of(table, build_space(table), Nulls.SQL)
    calls = []

    def count_pairs(left: Any, right: Any, *rest: Any, once: bool, is_stopped: Any) -> Any:
        assert not is_stopped()
        assert np.array_equal(left, outcomes.left)
        assert np.array_equal(right, outcomes.right)
        assert once
        calls.append(True)
        half = count_blocks(outcomes, outcomes, list(triangle(outcomes.n_rows)))
        assert half is not None
        return half.codes, half.counts

    monkeypatch.setattr(gpu_evidence, "is_available", lambda: None)
    monkeypatch.setattr(gpu_evidence, "count_pairs", count_pairs)
    found = naysay.discover(people(80), device="cuda", method="all-pairs")
    assert calls
    assert found.device == "cuda"
    assert [canonical(rule) for rule in found.rules] == [canonical(rule) for rule in naysay.discover(people(80)).rules]


def test_a_stop_on_the_gpu_makes_a_partial_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    from naysay.kernels.evidence import gpu as gpu_evidence

    def count_pairs(*rest: Any, once: bool, is_stopped: Any) -> Any:
        while not is_stopped():
            pass
        raise gpu_evidence.CountStopped

    monkeypatch.setattr(gpu_evidence, "is_available", lambda: None)
    monkeypatch.setattr(gpu_evidence, "count_pairs", count_pairs)
    found = naysay.discover(people(80), 0.0, device="cuda", method="all-pairs", max_seconds=0.05)
    assert (found.partial, found.reason) == (True, "time limit")


def test_where_no_rule_holds_the_answer_says_what_to_try() -> None:
    rows = [(a, b) for a in "xyz" for b in "xyz"] * 2
    found = naysay.discover(pa.table({"a": [a for a, _ in rows], "b": [b for _, b in rows]}), cross=False)
    assert len(found.rules) == 0
    assert any("allow an error" in note for note in found.notes)
