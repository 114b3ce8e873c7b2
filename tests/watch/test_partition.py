"""A watch in parts, its stages run in this process: the same answers as one watch, even if batches break off."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from feeder import RULES, batches
from outputs import asides, brute_force, change_table, events, rows_after, standing

pytest.importorskip("pyspark")

from inline_parts import Broken, Inline, open_inline

from naysay.errors import StateError, UsageError
from naysay.live.feed.changes import split_ops
from naysay.live.layout import named
from naysay.watch import part
from naysay.watch.part import groups_of, part_numbers
from naysay.watch.spark import engine as stream_engine
from naysay.watch.spark.engine import PartitionedWatch

MORE_RULES = (
    *RULES,
    "no key: not(t.x < s.x and t.y > s.y and t.a != s.a and t.c != s.c)",
    "crossed: not(t.x == s.a and t.b != s.b)",
    "filtered: not(t.a == s.a and t.b == s.b and t.x > 50 and s.y < 4)",
)


@pytest.fixture(autouse=True)
def _cold() -> None:
    part._warm.clear()


def open_parts(state: Path, n_parts: int, rules: Any = MORE_RULES, **options: Any) -> PartitionedWatch:
    return open_inline(state, n_parts, rules, **options)


@pytest.mark.parametrize("seed", [0, 1, 5, 7])
def test_parts_agree_with_brute_force(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    made = batches(seed, 10)
    parts = open_parts(tmp_path, rng.choice([1, 2, 5]))
    n_broken = number = 0
    while number < len(made):
        if Inline.fuse < 0 and n_broken < 6 and seed:
            Inline.fuse = rng.randrange(20)
        try:
            if not parts.has_applied(f"batch {number}"):
                parts.apply(f"batch {number}", split_ops("", change_table(made[number])))
            number += 1
            if rng.random() < 0.3:
                parts.write_current()
        except Broken:
            n_broken += 1
            parts = None
        if parts is None or rng.random() < 0.2:
            Inline.fuse = -1
            parts = open_parts(tmp_path, _n_parts(tmp_path), None)
        if seed == 0:
            expected = brute_force(named(MORE_RULES), rows_after(made[:number]))
            assert parts.counts == {name: sum(found[0] == name for found in expected) for name in named(MORE_RULES)}
    Inline.fuse = -1
    parts.write_current()
    rows = rows_after(made)
    expected = brute_force(named(MORE_RULES), rows)
    assert parts.n_rows == len(rows)
    assert standing(tmp_path) == expected
    assert events(tmp_path) == expected
    assert asides(tmp_path) == []
    assert n_broken or not seed


def _n_parts(state: Path) -> int:
    return int(json.loads((state / "parts" / "settings.json").read_text())["partitions"])


def test_bad_changes_are_set_aside(tmp_path: Path) -> None:
    parts = open_parts(tmp_path, 3, ["zip: zip -> city"])
    rows = pa.table(
        {
            "op": ["d", "i", "i", "i", "u", "d", None, "x"],
            "id": [8, 1, 2, 1, 5, 9, 3, 3],
            "zip": [1] * 8,
            "city": ["Ulm", "Ulm", "Bonn", "Kiel", "Ulm", "Ulm", "Ulm", "Ulm"],
        }
    )
    step = parts.apply("first", split_ops("1.csv", rows))
    assert (step.n_added, step.counts, step.n_rows) == (2, {"zip": 2}, 2)
    other = rows.slice(1, 1).set_column(2, "zip", pa.array(["a"]))
    (bad,) = parts.apply("second", split_ops("2.csv", other)).rejected
    assert bad.reason.startswith("2.csv: column 'zip' has type")
    reasons = sorted((bad["file"], bad["row"], bad["reason"]) for bad in asides(tmp_path) if bad["file"] == "1.csv")
    assert reasons == [
        ("1.csv", 1, "there is no row with this key"),
        ("1.csv", 4, "there is a row with this key already"),
        ("1.csv", 5, "there is no row with this key"),
        ("1.csv", 6, "there is no row with this key"),
        ("1.csv", 7, "the op is missing"),
        ("1.csv", 8, "unknown op 'x'"),
    ]
    assert parts.counts == {"zip": 2}


def test_changes_before_the_first_insert(tmp_path: Path) -> None:
    parts = open_parts(tmp_path, 2, ["zip: zip -> city"])
    parts.apply("first", split_ops("1.csv", pa.table({"op": ["d"], "id": [1]})))
    assert [bad["reason"] for bad in asides(tmp_path)] == ["there is no row with this key"]
    assert parts.schema is None
    parts.apply("second", split_ops("2.csv", pa.table({"op": ["i"], "id": [1], "zip": [2], "city": ["Ulm"]})))
    assert (parts.n_rows, open_parts(tmp_path, 2, None).n_rows) == (1, 1)


def test_counting_in_parts(tmp_path: Path) -> None:
    made = batches(3, 6)
    parts = open_parts(tmp_path, 3, RULES, counting=True)
    for number, batch in enumerate(made):
        parts.apply(str(number), split_ops("", change_table(batch)))
    expected = brute_force(named(RULES), rows_after(made))
    assert parts.counts == {name: sum(found[0] == name for found in expected) for name in named(RULES)}


def test_a_state_in_parts_stays_as_it_was_made(tmp_path: Path) -> None:
    made = batches(3, 4)
    parts = open_parts(tmp_path, 2, RULES)
    for number, batch in enumerate(made):
        parts.apply(str(number), split_ops("", change_table(batch)))
    with pytest.raises(UsageError, match="created with other rules"):
        open_parts(tmp_path, 2, ["key(a)"])
    with pytest.raises(UsageError, match="created with other partitions"):
        open_parts(tmp_path, 3, None)
    with pytest.raises(UsageError, match="give the rules"):
        open_parts(tmp_path / "new", 3, None)
    part._warm.clear()
    store = next((tmp_path / "parts").glob("group0/*/state.duckdb"))
    data = store.read_bytes()
    store.unlink()
    with pytest.raises(StateError, match="damaged"):
        open_parts(tmp_path, 2, None)
    store.with_name("state.duckdb.seal").unlink()
    with pytest.raises(StateError, match="this part of the state is missing"):
        open_parts(tmp_path, 2, None)
    store.write_bytes(data)
    (tmp_path / "parts" / "layout.arrow").write_bytes(b"x" * 40)
    with pytest.raises(StateError, match=r"layout\.arrow: this file is damaged"):
        open_parts(tmp_path, 2, None)


def test_equal_values_have_one_part() -> None:
    nan = float("nan")
    values = {
        "float": pa.array([0.0, -0.0, nan, -nan, 1.5, 1.5, None, None]),
        "text": pa.array(["", "", "ä", "ä", "b", "b", None, None]),
        "decimal": pa.array([Decimal(1), Decimal(1), Decimal("2.5"), Decimal("2.5"), *[None] * 4], pa.decimal128(9, 3)),
        "int": pa.array([-1, -1, 2**62, 2**62, 0, 0, None, None]),
        "bool": pa.array([True, True, False, False, True, True, None, None]),
        "unsigned": pa.array([2**64 - 1, 2**64 - 1, 0, 0, 1, 1, None, None], pa.uint64()),
        "date": pa.array([1, 1, 2, 2, 3, 3, None, None], pa.int32()).cast(pa.date32()),
        "time": pa.array([1, 1, 2, 2, 3, 3, None, None], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "nothing": pa.nulls(8),
    }
    table = pa.table(values)
    for name in values:
        numbers = part_numbers(table, [name], 1000)
        assert np.array_equal(numbers[::2], numbers[1::2])
        if name != "nothing":
            assert len(set(numbers.tolist())) > 1
    assert part_numbers(table, ["int", "text"], 7).max() < 7


def test_rules_are_grouped_by_the_columns_that_must_be_equal() -> None:
    for n_parts, visits, last in ((4, True, (("id",), 4, True)), (4, False, ((), 1, False)), (1, True, ((), 1, False))):
        groups = groups_of(named(MORE_RULES), ["id"], n_parts, visits=visits)
        assert [(group.columns, group.n_parts, group.visited) for group in groups] == [
            (("a", "b"), n_parts, False),
            (("a",), n_parts, False),
            last,
        ]
        members = [["one", "filtered"], ["two", "three"], ["five", "no key", "crossed"]]
        assert [list(group.rules) for group in groups] == members


def test_a_state_of_the_version_before_keeps_its_parts(tmp_path: Path) -> None:
    made = batches(4, 8)
    for version, some in ((3, made[:4]), (stream_engine.VERSION, made[4:])):
        with mock.patch.object(stream_engine, "VERSION", version):
            parts = open_parts(tmp_path, 3)
        for batch in some:
            number = len(parts._applied)
            parts.apply(str(number), split_ops("", change_table(batch)))
        part._warm.clear()
    parts.write_current()
    assert standing(tmp_path) == events(tmp_path) == brute_force(named(MORE_RULES), rows_after(made))
    assert [path.name for path in (tmp_path / "parts" / "group2").iterdir()] == ["00000"]
    with mock.patch.object(stream_engine, "VERSION", 5):
        open_parts(tmp_path / "later", 3)
    with pytest.raises(StateError, match="version 5, but this naysay reads version 4"):
        open_parts(tmp_path / "later", 3)


def test_each_part_holds_its_share_of_the_rows(tmp_path: Path) -> None:
    """Also the rows of rules without equal columns: what visits is not kept."""
    n_rows, n_parts = 1200, 4
    parts = open_parts(tmp_path, n_parts, ["no key: not(t.x < s.x and t.y > s.y)"])
    for first in range(0, n_rows, 300):
        ids = range(first, first + 300)
        rows = pa.table({"op": ["i"] * 300, "id": ids, "x": ids, "y": ids})
        parts.apply(str(first), split_ops("", rows))
    assert parts.counts == {"no key": 0}
    sizes = [reply["n_rows"] for reply in parts._replies.values() if reply["group"] == "group0"]
    assert sum(sizes) == n_rows
    assert max(sizes) < 1.2 * n_rows / n_parts
    for number, size in enumerate(sizes):
        with part.Part(parts._plan, parts._plan.groups[0], number).open() as watch:
            assert watch._state is not None
            index = watch._state._index
            assert watch._state.table.n_slots == size
            assert [shared.tree.n_rows for shared in index._trees] == [size]


@pytest.mark.parametrize("index", ["auto", "lt-tree"])
def test_both_methods_without_a_key(tmp_path: Path, index: str) -> None:
    made = batches(5, 5)
    parts = open_parts(tmp_path, 3, index=index, n_sentences=3)
    for number, batch in enumerate(made):
        step = parts.apply(str(number), split_ops("", change_table(batch)))
    expected = brute_force(named(MORE_RULES), rows_after(made))
    parts.write_current()
    assert standing(tmp_path) == events(tmp_path) == expected
    assert len(step.sentences) == 3
    assert len(list((tmp_path / "parts" / "group2").iterdir())) == (3 if index == "auto" else 1)


def test_sentences_name_visitors(tmp_path: Path) -> None:
    parts = open_parts(tmp_path, 7, ["up: not(t.x < s.x and t.y > s.y)"], n_sentences=9)
    rows = pa.table({"op": ["i"] * 6, "id": range(6), "x": range(6), "y": [0, 1, 2, 3, 4, -1]})
    parts.apply("first", split_ops("", rows.slice(0, 5)))
    step = parts.apply("second", split_ops("", rows.slice(5)))
    assert (step.n_added, len(step.sentences)) == (5, 5)
    assert all(" and 5: " in sentence for sentence in step.sentences)
