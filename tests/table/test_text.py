"""The hash dictionary of text: lengths, layouts, growth, pieces on threads."""

from __future__ import annotations

import os
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naysay.table import Table
from naysay.table.column import Text
from naysay.table.text import encode_text

compiled = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="too large for uncompiled kernels")

# Lengths around the eight-byte words that the kernels compare, and texts that differ in one position.
ALPHABET = st.sampled_from(["", "a", "b", "\x00", "é", "\U0001f600", "x" * 7, "x" * 8, "y" * 15])
TEXTS = st.lists(ALPHABET, max_size=6).map("".join)


def first_appearance(values: list[str | None]) -> list[int]:
    numbers: dict[str, int] = {}
    return [-1 if value is None else numbers.setdefault(value, len(numbers)) for value in values]


def assert_same_partition(codes: list[int], values: list[str | None]) -> None:
    pairs = {(code, value) for code, value in zip(codes, values, strict=True) if value is not None}
    assert len(pairs) == len({code for code, _ in pairs}) == len({value for _, value in pairs})


@given(st.lists(st.none() | TEXTS, max_size=40), st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]))
def test_codes_of_text(values: list[str | None], type_: pa.DataType) -> None:
    table = Table(pa.table({"a": pa.array(values, type_)}))
    equality = table.codes("a", ordered=False)
    assert_same_partition(equality.values.tolist(), values)
    present = sorted({value.encode() for value in values if value is not None})
    order = table.ranks(["a"], ordered=True)[0]
    expected = [0 if value is None else present.index(value.encode()) for value in values]
    assert order.values.tolist() == expected


@given(st.lists(TEXTS, min_size=1, max_size=30), st.data())
def test_slices_and_chunks(values: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(values)))
    cut = data.draw(st.integers(start, len(values)))
    whole = pa.array(values)
    column = pa.chunked_array([whole.slice(start, cut - start), whole.slice(cut)])
    codes = Table(pa.table({"a": column})).codes("a", ordered=False)
    assert codes.values.tolist() == first_appearance(values[start:])


def test_no_nulls_leave_codes_by_first_appearance() -> None:
    rng = random.Random(5)
    values = ["k" * rng.randrange(20) + str(rng.randrange(3000)) for _ in range(20_000)]
    codes = Table(pa.table({"a": values})).codes("a", ordered=False)
    assert codes.values.tolist() == first_appearance(values)
    assert codes.n_values == len(set(values))


@compiled
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()])
def test_pieces_give_the_same_codes(ordered: bool, type_: pa.DataType) -> None:
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 5000, 300_000)
    values = pa.array([f"{'long ' * (number % 5)}{number}" for number in range(5000)], type_).take(pa.array(numbers))
    values = pa.concat_arrays([values.slice(0, 100_000), pa.nulls(10, type_), values.slice(100_000)])
    arrow = pa.table({"a": values, "b": values.take(pa.array(rng.permutation(len(values))))})
    alone, pieces = Table(arrow), Table(arrow)
    pieces.prepare([(("a",), ordered), (("a", "b"), ordered)], 4)
    for names in (("a",), ("a", "b")):
        for one, other in zip(alone.joint(names, ordered=ordered), pieces.joint(names, ordered=ordered), strict=True):
            assert np.array_equal(one.values, other.values)
            assert np.array_equal(one.valid, other.valid)
            assert one.n_values == other.n_values


@compiled
def test_all_texts_different() -> None:
    values = [f"text number {number}" for number in range(100_000)]
    codes = Table(pa.table({"a": values})).codes("a", ordered=True)
    order = sorted(range(len(values)), key=lambda i: values[i].encode())
    assert codes.values[order].tolist() == list(range(len(values)))


def test_bytes_that_are_not_aligned() -> None:
    """Buffers from other libraries may begin anywhere and end with their last byte."""
    text = "".join(f"{number:03d}" for number in range(50)).encode()
    for shift in range(8):
        memory = bytearray(b"." * shift + text)
        data = pa.py_buffer(memory).slice(shift)
        offsets = pa.py_buffer(np.arange(51, dtype=np.int32) * 3)
        array = pa.Array.from_buffers(pa.string(), 50, [None, offsets, data])
        (codes,) = encode_text([Text(array, None)], ordered=False)
        assert codes.values.tolist() == list(range(50))


def test_garbage_under_nulls_is_no_value() -> None:
    offsets = pa.py_buffer(np.array([0, 1, 2, 3], dtype=np.int32))
    valid = pa.py_buffer(bytes([0b101]))
    array = pa.Array.from_buffers(pa.string(), 3, [valid, offsets, pa.py_buffer(b"bab")])
    codes = Table(pa.table({"a": array})).ranks(["a"], ordered=True)[0]
    assert codes.n_values == 1
    assert codes.valid is not None
    assert codes.valid.tolist() == [True, False, True]
    assert codes.values.tolist() == [0, 0, 0]
