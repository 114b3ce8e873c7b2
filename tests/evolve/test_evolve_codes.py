"""Stable codes: in order, equal for equal values, whatever is added later; and the layout that grows with nulls."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from naysay.discovery.fields import NULL, Coding
from naysay.discovery.space import Scope, build_space
from naysay.live.codes import NarrowLabels
from naysay.table import from_frame


def check_order(codes: np.ndarray, labels: np.ndarray) -> None:
    order = np.argsort(codes, kind="stable")
    same = np.diff(codes[order]) == 0
    rise = np.diff(labels[order].astype(np.int64))
    assert (rise[same] == 0).all()
    assert (rise[~same] > 0).all()
    assert (labels != NULL).all()


@pytest.mark.parametrize("spread", [10, 2**33, 2**63 - 1])
def test_labels_keep_order(spread: int) -> None:
    rng = np.random.default_rng(spread % 97)
    labels = NarrowLabels()
    seen: list[np.ndarray] = []
    given: list[np.ndarray] = []
    for _ in range(30):
        codes = rng.integers(-spread, spread, rng.integers(0, 40), dtype=np.int64)
        before = labels.version
        made = labels.label(codes)
        seen.append(codes)
        if labels.version != before:
            given = [labels.label(old) for old in seen[:-1]]
        given.append(made)
        check_order(np.concatenate(seen), np.concatenate(given))


def test_labels_at_the_ends_and_in_one_gap_last_long() -> None:
    labels = NarrowLabels()
    labels.label(np.array([0, 2**40]))
    for number in range(2000):
        labels.label(np.array([2**40 + number, -number]))
    assert labels.version == 0
    # Always into the same gap: space runs out, and all labels are assigned again.
    low, high = 0, 2**39
    for _ in range(40):
        high = (low + high) // 2
        labels.label(np.array([high]))
    assert labels.version > 0


def test_codes_of_columns_that_meet() -> None:
    rng = random.Random(4)
    schema = pa.schema([("a", pa.int32()), ("b", pa.int64()), ("c", pa.float64()), ("d", pa.string())])

    def frame(n_rows: int) -> pa.Table:
        return pa.table(
            [
                [rng.choice((None, 1, 5, -(2**31))) for _ in range(n_rows)],
                [rng.choice((1, 5, 2**62, -(2**62))) for _ in range(n_rows)],
                [rng.choice((0.0, -0.0, float("nan"), 1e300, None)) for _ in range(n_rows)],
                [rng.choice(("", "x", "y", None)) for _ in range(n_rows)],
            ],
            schema=schema,
        )

    space = build_space(from_frame(frame(40)), None, Scope(share=0.0))
    coding = Coding(schema, space)
    tables = [frame(rng.randrange(1, 12)) for _ in range(12)]
    for n_tables in range(1, len(tables) + 1):
        codes, void = coding.encode(tables[n_tables - 1])
        if void:
            continue
        whole, _ = coding.encode(pa.concat_tables(tables[:n_tables]))
        start = sum(table.num_rows for table in tables[: n_tables - 1])
        for name in schema.names:
            assert (whole[name][start:] == codes[name]).all()
    rows = pa.concat_tables(tables)
    whole, _ = coding.encode(rows)
    values = rows.to_pydict()
    for left, right in (("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")):
        for i, one in enumerate(values[left]):
            for j, two in enumerate(values[right]):
                if one is not None and two is not None:
                    assert (one < two) == (whole[left][i] < whole[right][j])
                    assert (one == two) == (whole[left][i] == whole[right][j])
                assert (one is None) == (whole[left][i] == NULL)
