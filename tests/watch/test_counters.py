"""Counters and dictionaries compared with plain Python."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from naysay.arrays import NULL
from naysay.live.codes import CodeSpace, OrderLabels, SortedBlocks, TextTable, TupleTable
from naysay.watch import counting as counters
from naysay.watch.batch import GREATEST
from naysay.watch.counting import GroupCounter, PointCounter, TreeCounter


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("buffer", [0, 3, 1024])
def test_points_are_counted_while_they_come_and_go(seed: int, buffer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "_BUFFER_ROWS", buffer)
    rng = np.random.default_rng(seed)
    points, tree = PointCounter(), TreeCounter(2, 2, nulls_differ=False)
    rows = np.empty((0, 4), np.int64)
    n_made = 0
    spread = int(rng.choice([2, 30, 10**6]))
    for _ in range(20):
        new = rng.integers(-spread, spread, (int(rng.choice([1, 7, 60, 200])), 4))
        new[:, 0] = rng.integers(0, 3, len(new))
        new[:, 3] = np.arange(n_made, n_made + len(new))
        n_made += len(new)
        gone = rng.random(len(rows)) < rng.choice([0.0, 0.1, 0.9])
        for counter in (points, tree):
            counter.delete(rows[gone])
            counter.insert(new)
        rows = np.concatenate((rows[~gone], new))
        boxes = np.stack(
            [
                rng.integers(0, 4, 30),
                rng.integers(-spread, spread, 30),
                np.full(30, NULL + 1),
                np.full(30, GREATEST),
                rng.integers(-spread, spread, 30),
            ],
            axis=1,
        )
        boxes[:5, 1], boxes[:5, 3] = GREATEST, NULL + 1
        expected = [
            int(((rows[:, 0] == key) & (rows[:, 1] >= low) & (rows[:, 1] <= high) & (rows[:, 2] <= top)).sum())
            for key, low, _, high, top in boxes.tolist()
        ]
        assert points.count(boxes).tolist() == expected
        assert tree.count(boxes).tolist() == expected


def test_groups_are_counted() -> None:
    counter = GroupCounter()
    counter.insert(np.array([[5, 0], [5, 1], [-7, 2]]))
    assert counter.count(np.array([[5], [-7], [6]])).tolist() == [2, 1, 0]
    counter.delete(np.array([[5, 0]]))
    assert counter.count(np.array([[5], [-7], [6]])).tolist() == [1, 1, 0]


def test_tuples_and_texts_keep_their_numbers() -> None:
    rng = random.Random(3)
    tuples, texts = TupleTable(2), TextTable()
    known_tuples: dict[tuple[int, int], int] = {}
    known_texts: dict[str, int] = {}
    for _ in range(40):
        batch = [(rng.choice([0, 1, -(2**63), 2**63 - 1]), rng.randrange(50)) for _ in range(rng.randrange(60))]
        codes = np.array(batch, np.int64).reshape(-1, 2)
        assert tuples.find(codes).tolist() == [known_tuples.get(row, -1) for row in batch]
        assert tuples.add(codes).tolist() == [known_tuples.setdefault(row, len(known_tuples)) for row in batch]
        words = ["".join(rng.choices(["a", "b", "é", "\0", "long" * 9], k=rng.randrange(4))) for _ in range(30)]
        array = pa.array(["first", *words], rng.choice([pa.string(), pa.large_string()]))[1:]
        assert texts.add(array).tolist() == [known_texts.setdefault(word, len(known_texts)) for word in words]


@pytest.mark.parametrize("pattern", ["random", "ascending", "descending", "nested", "two runs"])
def test_labels_keep_the_order(pattern: str) -> None:
    rng = random.Random(5)
    labels = OrderLabels()
    seen: dict[Fraction, int] = {}
    for step in range(300):
        if pattern == "nested":
            value = Fraction(1, 3) + Fraction((-1) ** step, 2 ** (step + 1))
        elif pattern == "two runs":
            value = Fraction(step // 2, 1000) + step % 2
        else:
            value = Fraction({"random": rng.randrange(100), "ascending": step, "descending": -step}[pattern])
        before = labels.version
        (label,) = labels.label([value])
        if labels.version != before:
            seen = dict(zip(seen, labels.label(list(seen)), strict=True))
        seen[value] = label
        ordered = [seen[value] for value in sorted(seen)]
        assert all(low < high for low, high in itertools.pairwise(ordered))
    if pattern != "nested":
        assert labels.version <= 1


def test_sorted_blocks_find_neighbours() -> None:
    rng = random.Random(1)
    blocks, values = SortedBlocks(), []
    for value in rng.sample(range(5000), 3000):
        values.sort()
        below = [other for other in values[-1:] if other < value] or [other for other in values if other < value]
        above = [other for other in values if other > value]
        assert blocks.neighbours(value) == (below[-1] if below else None, above[0] if above else None)
        blocks.add(value)
        values.append(value)
        if len(values) > 1200:
            break


def test_a_space_changes_its_codes_only_where_it_must() -> None:
    space = CodeSpace([pa.int64(), pa.decimal128(38, 2)], ordered=True)
    small = space.encode(pa.chunked_array([pa.array([1, None, -5], pa.int64())]))
    assert small.tolist() == [100, NULL, -500]
    assert space.version == 0
    space.encode(pa.chunked_array([pa.array([2**62], pa.int64())]))
    assert space.version == 1
    after = space.encode(pa.chunked_array([pa.array([1, None, -5, 2**62, 7], pa.int64())]))
    assert after[2] < after[0] < after[4] < after[3]
    assert after[1] == NULL
