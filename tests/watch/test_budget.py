"""A watch says before it begins that work would take too long or too much memory, and stays as it was."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import naysay
from naysay.errors import ResourceError, UsageError
from naysay.watch import tree_index

N_ROWS = 20_000
# A key, an order within a key, three orders: a tree of groups, of slabs, along a curve.
RULES = ("key(a)", "not(t.a == s.a and t.b < s.b)", "not(t.a < s.a and t.b < s.b and t.c < s.c)")


def _table(n_rows: int = N_ROWS) -> pa.Table:
    rng = np.random.default_rng(0)
    columns = {"a": rng.integers(0, 40, n_rows), "b": rng.integers(0, 1_000, n_rows), "c": rng.integers(0, 9, n_rows)}
    return pa.table({"id": np.arange(n_rows)} | columns)


@pytest.mark.parametrize("counting", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_work_that_takes_too_long_is_refused(rule: str, counting: bool) -> None:
    if counting and rule != RULES[2]:
        pytest.skip("counters of up to two orders are quick")
    watched = naysay.Watch(rule, "id", counting=counting, max_seconds=1e-9)
    with pytest.raises(ResourceError, match=r"this would take about .* more than .* allowed; allow it"):
        watched.apply(inserts=_table())
    assert watched.n_rows == 0
    few = _table(300)
    watched.apply(inserts=few)
    assert watched.counts == {next(iter(watched.rules)): naysay.count(few, rule)}
    later = naysay.Watch([], "id", counting=counting, max_seconds=1e-9)
    later.apply(inserts=_table())
    with pytest.raises(ResourceError, match="this would take about"):
        later.add_rule(rule)
    assert (later.n_rows, later.rules) == (N_ROWS, {})


def test_a_list_that_needs_too_much_memory_is_refused() -> None:
    watched = naysay.Watch("key(a)", "id", memory="100M")
    with pytest.raises(ResourceError, match=r"a rule has about .* violations, and listing them needs about .* MiB"):
        watched.apply(inserts=_table())
    assert watched.n_rows == 0
    counting = naysay.Watch("key(a)", "id", memory="100M", counting=True)
    counting.apply(inserts=_table())
    assert list(counting.counts.values()) == [naysay.count(_table(), "key(a)")]


def test_a_flood_is_refused_before_it_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_index, "MAX_PAIRS", 1_000)
    monkeypatch.setattr(tree_index, "list_boxes", lambda *given: pytest.fail("the pairs were listed"))
    with pytest.raises(ResourceError, match="more than 1,000 violations in one change"):
        naysay.Watch("key(a)", "id").apply(inserts=_table())


def test_the_limits_of_a_state_are_those_of_whoever_opens_it(tmp_path: Path) -> None:
    table = _table(5_000)
    with naysay.Watch("key(a)", "id", state=tmp_path / "state", max_seconds=math.inf) as watched:
        n_pairs = watched.apply(inserts=table).n_added
    with pytest.raises(ResourceError, match="this would take about"):
        naysay.Watch.open(tmp_path / "state", max_seconds=1e-9)
    with naysay.Watch.open(tmp_path / "state") as watched:
        assert watched.violations().total == n_pairs


def test_limits_must_make_sense() -> None:
    with pytest.raises(UsageError, match="max_seconds must be a number of seconds above 0"):
        naysay.Watch("key(a)", "id", max_seconds=0)
    with pytest.raises(UsageError, match="memory must be a number of bytes"):
        naysay.Watch("key(a)", "id", memory="much")
