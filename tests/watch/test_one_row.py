"""Batches of one row: what is done for them without arrays is the same, and little."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pyarrow as pa
import pytest

import naysay
from naysay.arrays import NULL
from naysay.live.columns import Coded, Filter
from naysay.plan.join import join_of
from naysay.rule import Nulls, parse
from naysay.rule.model import Row
from naysay.watch.batch import GREATEST, CodedRows, columns_of


def test_one_row_asks_for_what_it_asks_for_among_many() -> None:
    schema = pa.schema([(name, pa.int64()) for name in "kabd"])
    codes = [NULL, NULL + 1, NULL + 2, -1, 0, 1, GREATEST - 1, GREATEST]
    rng = np.random.default_rng(5)
    for signs in (("<", ">="), (">", "<="), ("<=", "<"), (">=", ">")):
        orders = " and ".join(f"t.{name} {sign} s.{name}" for name, sign in zip("ab", signs, strict=True))
        columns = columns_of(schema, join_of(parse(f"not(t.k == s.k and {orders} and t.d != s.d and t.k > 0)")))
        values = {source: rng.choice(codes, 200) for source in columns.sources if isinstance(source, Coded)}
        values |= {source: rng.integers(0, 2, 200) for source in columns.sources if isinstance(source, Filter)}
        rows = CodedRows(np.arange(200), values)
        singles = [rows.take(np.array([place])) for place in range(200)]
        for nulls, side in itertools.product(Nulls, (columns.left, columns.right)):
            places = [place for place, single in enumerate(singles) if len(side.eligible(single, nulls))]
            assert places == side.eligible(rows, nulls).tolist()
        key = values[columns.left.key[0]]
        for row in Row:
            every = columns.boxes(rows, np.arange(200), row, key)
            boxes = [columns.boxes(one, np.array([0]), row, key[[at]]) for at, one in enumerate(singles)]
            assert np.array_equal(np.concatenate(boxes), every)


@pytest.mark.parametrize(("rule", "most"), [("a -> b", 210), ("not(t.a == s.a and t.b > s.b and t.c < s.c)", 245)])
def test_one_row_takes_few_calls(rule: str, most: int) -> None:
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(0, 50, 400) for name in "abc"}
    rows = pa.table({"id": np.arange(400), **columns})
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    with naysay.Watch([rule], "id") as watch:
        watch.apply(inserts=rows.slice(0, 300))
        batches = [rows.slice(300 + place, 1) for place in range(70)]
        # What is loaded and compiled for the first of them does not count.
        for batch in batches[:6]:
            watch.apply(inserts=batch)
        sys.setprofile(count)
        try:
            for batch in batches[6:]:
                watch.apply(inserts=batch)
        finally:
            sys.setprofile(None)
    assert calls / 64 < most
