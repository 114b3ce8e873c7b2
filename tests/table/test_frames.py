"""Every kind of frame gives the same codes; anything that is not a table is refused with its type."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import naysay
from naysay.errors import RuleError, TableError
from naysay.table import Kind, Table, from_frame

ARROW = pa.table(
    {
        "number": pa.array([3, None, 1, 3], pa.int64()),
        "part": [0.5, 2.0, None, 0.5],
        "text": ["b", "a", "b", None],
        "flag": [True, False, None, True],
        "day": [datetime.date(2024, 1, 2), None, datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)],
        "at": pa.array([1, 2, None, 1], pa.timestamp("us")),
        "price": pa.array([Decimal("1.50"), None, Decimal("0.10"), Decimal("1.50")]),
    }
)
RANKS = {
    "number": [1, None, 0, 1],
    "part": [0, 1, None, 0],
    "text": [1, 0, 1, None],
    "flag": [1, 0, None, 1],
    "day": [1, None, 0, 1],
    "at": [0, 1, None, 0],
    "price": [1, None, 0, 1],
}


def _batches() -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(ARROW.schema, ARROW.to_batches(max_chunksize=3))


FRAMES: dict[str, Callable[[], Any]] = {
    "arrow": lambda: ARROW,
    "batch": lambda: ARROW.to_batches()[0],
    "reader": _batches,
    "pandas": lambda: ARROW.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda: pl.from_arrow(ARROW),
    "duckdb": lambda: duckdb.connect().from_arrow(ARROW),
    "table": lambda: Table(ARROW),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_every_frame_gives_the_same_ranks(make: Callable[[], Any]) -> None:
    table = from_frame(make())
    assert table.n_rows == 4
    assert table.names == tuple(ARROW.column_names)
    for name, expected in RANKS.items():
        codes = table.ranks([name])[0]
        assert codes.valid is not None
        found = [
            code if valid else None for code, valid in zip(codes.values.tolist(), codes.valid.tolist(), strict=True)
        ]
        assert found == expected, name
        assert table.kind(name) is Table(ARROW).kind(name)


def test_pandas_means_null_by_nan_and_keeps_its_own_index_out() -> None:
    frame = pd.DataFrame({"a": [1.5, np.nan, 0.5], "c": pd.Categorical(["x", "y", None])})
    table = from_frame(frame[frame.index != 0])
    assert table.names == ("a", "c")
    codes = table.codes("a", ordered=True)
    assert codes.valid is not None
    assert codes.valid.tolist() == [False, True]
    assert table.kind("c") is Kind.TEXT


@pytest.mark.parametrize("frame", [[1, 2], {"a": [1]}, None, "file.csv", pl.Series([1, 2]), 7])
def test_what_is_no_table_is_refused_by_name(frame: Any) -> None:
    with pytest.raises(TableError, match=type(frame).__name__):
        from_frame(frame)


def test_pandas_with_mixed_objects_is_refused() -> None:
    with pytest.raises(TableError, match="DataFrame cannot be read"):
        from_frame(pd.DataFrame({"a": pd.Series([1, "x", object()], dtype=object)}))


def test_a_name_used_twice_is_refused_when_used() -> None:
    table = Table(pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "b"]))
    assert table.codes("b", ordered=True).n_values == 1
    with pytest.raises(TableError, match="2 columns named 'a'"):
        table.codes("a", ordered=True)


def test_prefix_take_and_select() -> None:
    table = Table(ARROW)
    assert table.prefix(2).n_rows == 2
    assert table.prefix(9).n_rows == 4
    assert table.prefix(2).codes("text", ordered=False).values.tolist() == [0, 1]
    assert table.take(np.array([3, 0])).column("number").to_pylist() == [3, 3]
    assert table.select(["text"]).names == ("text",)
    with pytest.raises(RuleError, match="no column 'texts'"):
        table.select(["texts"])


def test_columns_that_do_not_compare_share_no_codes() -> None:
    with pytest.raises(RuleError, match="cannot be compared"):
        Table(ARROW).joint(["number", "text"], ordered=False)


def test_no_columns_and_no_rows() -> None:
    assert Table(pa.table({})).joint((), ordered=True) == ()
    assert Table(pa.table({})).ranks(()) == ()
    empty = Table(ARROW.slice(0, 0))
    for name in empty.names:
        assert empty.ranks([name])[0].values.tolist() == []


def test_codes_are_made_once_by_many_threads() -> None:
    table = Table(ARROW)
    found: list[Any] = []
    barrier = threading.Barrier(8)

    def ask() -> None:
        barrier.wait()
        found.append(table.joint(("number", "part"), ordered=True))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(codes is found[0] for codes in found)


def test_prepare_fills_the_cache() -> None:
    table = Table(ARROW)
    table.prepare([((name,), True) for name in table.names], 2)
    assert table.codes("text", ordered=True) is table.codes("text", ordered=True)
    with pytest.raises(RuleError):
        table.prepare([(("number",), True), (("nope",), True)], 2)


def test_rows_of_every_text_layout_can_be_taken() -> None:
    """Polars exports string views, on which Arrow does not support `take`."""
    views = pa.table({"a": pa.array(["x", "x"], pa.string_view()), "b": pa.array([b"1", b"2"], pa.binary_view())})
    assert Table(views).take(np.array([1, 0])).to_pylist() == [{"a": "x", "b": b"2"}, {"a": "x", "b": b"1"}]
    lists = pa.table({"a": pa.array([[1], [2, 3]], pa.list_view(pa.int64()))})
    assert Table(lists).take(np.array([1, 0])).to_pylist() == [{"a": [2, 3]}, {"a": [1]}]


def test_polars_text_of_every_kind_in_every_verb() -> None:
    """Polars exports text as string views, and categories as dictionaries of string views."""
    zips, cities = ["1", "1", "2", None], ["U", "V", "B", "B"]
    plain = pa.table({"id": range(4), "zip": zips, "city": cities})
    expected = naysay.discover(plain)
    for kind in (pl.String, pl.Categorical, pl.Enum(["1", "2"])):
        frame = pl.DataFrame({"id": range(4), "zip": pl.Series(zips, dtype=kind), "city": cities})
        assert set(naysay.discover(frame).rules) == set(expected.rules)
        watch = naysay.Watch("zip -> city", key="id")
        assert watch.apply(inserts=frame).n_added == 2
        _, bad = naysay.split(frame, "zip -> city")
        assert pa.table(bad).column("city").to_pylist() == ["U", "V"]


def test_narrow_numbers_are_counted_in_every_space() -> None:
    columns = {
        "a": pa.array([1, 1, 2, None]).dictionary_encode(),
        "b": pa.array([1.5, 1.5, 2.0, None], pa.float16()),
        "c": pa.array([Decimal("1.5"), Decimal("2"), None, None]).cast(pa.decimal128(9, 2)).cast(pa.decimal64(9, 2)),
    }
    wide = {"a": columns["a"].dictionary_decode(), "b": columns["b"].cast(pa.float32())}
    for space in ("naysay", "hydra"):
        found = naysay.discover(pa.table(columns), space=space)
        assert found.n_rows == 4
        both = naysay.discover(pa.table({"a": columns["a"], "b": columns["b"]}), space=space)
        assert set(both.rules) == set(naysay.discover(pa.table(wide), space=space).rules)


def test_a_reader_is_read_once() -> None:
    reader = _batches()
    assert from_frame(reader).n_rows == 4
    with pytest.raises(TableError, match="this reader has already been read"):
        from_frame(reader)


def test_a_column_that_arrow_cannot_have_is_named() -> None:
    frame = pl.DataFrame({"a": pl.Series([1, 2], dtype=pl.Int128), "b": [1, 1]})
    with pytest.raises(TableError, match=r"cast or leave out 'a'$"):
        from_frame(frame)
    with pytest.raises(TableError, match=r"cast or leave out 'mixed'$"):
        from_frame(pd.DataFrame({"mixed": [1, "x"], "b": [1, 1]}))
    with pytest.raises(TableError, match=r"cast or leave out 'long'$"):
        from_frame(pd.DataFrame({"long": [2**70, 1], "b": [1, 1]}))
