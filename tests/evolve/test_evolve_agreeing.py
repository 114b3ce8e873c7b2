"""The pairs of a batch that agree on sets of columns, and the rows that repeat no other: compared with every pair."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from naysay.discovery.evidence import codes_of_pairs
from naysay.discovery.space import Scope, build_space
from naysay.evolve import batch_proof
from naysay.evolve.agreeing import compare_agreeing
from naysay.evolve.evolver import Evolver
from naysay.evolve.relation import Relation
from naysay.kernels.evidence.agree import are_new, match_rows
from naysay.live.layout import layout_of
from naysay.rule.model import Nulls
from naysay.table import from_frame


def test_rows_that_agree_with_a_few() -> None:
    rng = np.random.default_rng(4)
    for n_few, n_many, n_lines, n_values in (
        (0, 5, 1, 2),
        (7, 0, 2, 2),
        (9, 40, 1, 5),
        (9, 40, 1, 5000),
        (30, 200, 3, 4),
        (40, 90, 2, 9),
    ):
        few = rng.integers(-n_values, n_values, (n_lines, n_few)).astype(np.int32)
        many = rng.integers(-n_values, n_values, (n_lines, n_many)).astype(np.int32)
        rows, others = list(map(tuple, few.T)), list(map(tuple, many.T))
        first, matched = match_rows(few, many)
        assert first.tolist() == [rows.index(row) for row in rows]
        assert matched.tolist() == [rows.index(row) if row in rows else -1 for row in others]
        assert are_new(few, many).tolist() == [row not in others for row in rows]


@pytest.mark.parametrize("nulls", list(Nulls))
@pytest.mark.parametrize("cross", [False, True])
def test_pairs_that_agree_on_sets(nulls: Nulls, cross: bool) -> None:
    rng = random.Random(f"{nulls} {cross}")
    for n_values in (2, 3, 40):
        drawn = {
            name: [rng.choice([None, *range(n_values)]) if rng.random() < 0.5 else 1 for _ in range(120)]
            for name in "abc"
        }
        table = pa.table({"id": range(120), **drawn, "d": [rng.choice("xyz") for _ in range(120)]})
        space = build_space(from_frame(table), ["a", "b", "c", "d"], Scope(cross=cross))
        relation = Relation(layout_of(table, ("id",)), space, nulls, table)
        deletes = rng.sample(range(120), rng.choice((1, 30, 119)))
        _, tables = relation.layout.conform_change(None, None, deletes)
        batch = relation.prepare(**tables)
        shape = relation.shape()
        same = [place for place, pair in enumerate(space.comparisons) if not pair.across]
        masks = [
            sum(1 << place for place in rng.sample(same, rng.choice((1, 1, 2)))) for _ in range(rng.choice((1, 3)))
        ]
        seen = compare_agreeing(batch.gone, batch.stay, masks, shape, rng.choice((1, 2)))
        serials, table = relation.rows()
        values = dict(zip(serials.tolist(), table.to_pylist(), strict=True))
        rows = {serial: place for place, serial in enumerate(relation.encoded().serials.tolist())}
        outcomes = relation.encoded().outcomes(shape)
        expected: Counter[tuple[int, ...]] = Counter()
        for one, other in itertools.permutations(values, 2):
            if values[one]["id"] not in deletes and values[other]["id"] not in deletes:
                continue
            if any(_agree(values[one], values[other], mask, space.comparisons, nulls) for mask in masks):
                at = np.array([rows[one]]), np.array([rows[other]])
                expected[tuple(codes_of_pairs(outcomes, *at)[0].tolist())] += 1
        assert dict(zip(map(tuple, seen.codes.tolist()), seen.counts.tolist(), strict=True)) == expected
        for code, left, right in zip(seen.codes.tolist(), seen.left.tolist(), seen.right.tolist(), strict=True):
            at = np.array([rows[left]]), np.array([rows[right]])
            assert codes_of_pairs(outcomes, *at)[0].tolist() == code


def _agree(one: dict, other: dict, mask: int, comparisons: tuple, nulls: Nulls) -> bool:
    names = [pair.left.name for place, pair in enumerate(comparisons) if mask >> place & 1]
    return all(one[name] == other[name] and (one[name] is not None or nulls is Nulls.EQUAL) for name in names)


def test_a_batch_that_repeats_what_is_known_verifies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """New rows with known values in all columns but the key break only keys; rows with new values are compared."""
    from naysay.discovery.verify import Verifier
    from naysay.evolve import selective

    monkeypatch.setattr(selective, "_ROWS_PER_SET", 0)
    monkeypatch.setattr(selective, "_ROWS_PER_RULE", 0)
    monkeypatch.setattr(batch_proof, "_FIRST_ROWS", 0)
    rng = np.random.default_rng(2)
    n_rows = 4000
    zip_ = rng.integers(0, 300, n_rows)
    frame = pa.table({"zip": zip_, "city": zip_ // 3, "state": zip_ // 30, "rate": (zip_ // 30) * 2})
    evolver = Evolver(frame, method="selective", cross=False)
    before = set(map(str, evolver.rules))
    verified: list[int] = []
    find = Verifier.find
    monkeypatch.setattr(Verifier, "find", lambda self, cover, *rest: verified.append(cover) or find(self, cover, *rest))
    change = evolver.apply(inserts=frame.slice(0, 500))
    assert not change
    assert not verified
    change = evolver.apply(inserts=pa.table({"zip": [5], "city": [99], "state": [0], "rate": [0]}))
    assert change.removed
    assert set(map(str, evolver.rules)) != before
    assert all(4500 in gone.pair for gone in change.removed)
