"""Types and layouts beyond those of the sample pools, each compared with hand-written expectations."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naysay.detect.result import facts
from naysay.rule import parse
from naysay.rule.model import Column, Constant, Nulls, Op, Predicate, Row
from naysay.table import Codes, Kind, Table

HUGE = Decimal(10) ** 60
SECOND = datetime.timedelta(seconds=1)


def ranks(*columns: pa.Array) -> list[list[int | None]]:
    """Dense joint ranks, None for null."""
    names = [f"c{i}" for i in range(len(columns))]
    table = Table(pa.table(list(columns), names=names))
    return [cells(codes) for codes in table.ranks(names)]


def cells(codes: Codes) -> list[int | None]:
    valid = np.ones(len(codes.values), dtype=bool) if codes.valid is None else codes.valid
    return [value if is_valid else None for value, is_valid in zip(codes.values.tolist(), valid.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("type_", "values", "expected"),
    [
        (pa.int64(), [2**63 - 1, -(2**63), 0, None, 0], [2, 0, 1, None, 1]),
        (pa.uint64(), [2**64 - 1, 0, 2**63, None], [2, 0, 1, None]),
        (pa.uint64(), [7, 0, None, 9], [1, 0, None, 2]),
        (pa.uint16(), [65535, 0, 32768], [2, 0, 1]),
        (pa.bool_(), [True, None, False, True], [1, None, 0, 1]),
        (pa.float64(), [0.5, -0.0, 0.0, math.nan, math.inf, -math.inf, None], [2, 1, 1, 4, 3, 0, None]),
        (pa.float64(), [1e-300, 1e300, 0.0, -1e-300, 5e-324, -1e300], [4, 5, 2, 1, 3, 0]),
        (pa.float64(), [0.1 + 0.2, 0.3, 0.1], [2, 1, 0]),
        (pa.float64(), [1234.5678, 1234.567, 1e-7, None], [2, 1, 0, None]),
        (pa.float32(), [0.1, 0.25, None], [0, 1, None]),
        (pa.float16(), [np.float16(0.5), np.float16(-2), None], [1, 0, None]),
        (pa.decimal32(5, 2), [Decimal("1.50"), Decimal("-0.01"), None], [1, 0, None]),
        (pa.decimal64(12, 2), [Decimal("1.50"), Decimal("-0.01"), None], [1, 0, None]),
        (pa.decimal128(38, 0), [10**37, -(10**37), 0, None, 10**37], [2, 0, 1, None, 2]),
        (pa.decimal256(76, 10), [HUGE, -HUGE, Decimal("0.1"), None, HUGE], [2, 0, 1, None, 2]),
        (pa.decimal256(76, 10), [Decimal("1.5"), Decimal("0.1")], [1, 0]),
        (pa.date64(), [datetime.date(2024, 1, 2), datetime.date(1960, 1, 1), None], [1, 0, None]),
        (pa.duration("ms"), [SECOND, -SECOND, None, SECOND], [1, 0, None, 1]),
        (pa.timestamp("s"), [datetime.datetime(9999, 12, 31), datetime.datetime(1, 1, 1)], [1, 0]),
        (pa.null(), [None, None], [None, None]),
        (pa.string(), [None, None], [None, None]),
        (pa.int32(), [None, None], [None, None]),
        (pa.int32(), [], []),
        (pa.string(), [], []),
        (pa.decimal128(38, 2), [], []),
        (pa.string_view(), ["b", "a", None, "a longer text than fits a view"], [2, 0, None, 1]),
    ],
)
def test_one_column(type_: pa.DataType, values: list[Any], expected: list[int | None]) -> None:
    array = pa.array(values, type_)
    assert ranks(array) == [expected]
    padded = pa.concat_arrays([pa.nulls(3, type_), array, pa.nulls(2, type_)])
    assert ranks(padded.slice(3, len(values))) == [expected]
    # A dictionary with a null entry, an unused entry, and a null index.
    places = pa.array([*range(1, len(values) + 1), None], pa.int8())
    dictionary = pa.concat_arrays([pa.nulls(1, type_), array])
    assert ranks(pa.DictionaryArray.from_arrays(places, dictionary)) == [[*expected, None]]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (pa.array([2**53 + 1, 2**53]), pa.array([2.0**53, 0.5]), [[2, 1], [1, 0]]),
        (pa.array([2**53 + 1, 1]), pa.array([2.0**53, 1.0]), [[2, 0], [1, 0]]),
        (pa.array([2**64 - 1], pa.uint64()), pa.array([2.0**64]), [[0], [1]]),
        (pa.array([2**64 - 1, 0], pa.uint64()), pa.array([-1, 2**63 - 1]), [[3, 1], [0, 2]]),
        (pa.array([1, 2, 3]), pa.array([0.5, 2.0, 2.5]), [[1, 2, 4], [0, 2, 3]]),
        (pa.array([1, 10**17]), pa.array([0.1, math.nan]), [[1, 2], [0, 3]]),
        (pa.array([Decimal("0.1")]), pa.array([0.1]), [[0], [1]]),
        (pa.array([Decimal("0.5")]), pa.array([0.5]), [[0], [0]]),
        (pa.array([Decimal("1.10")]), pa.array([Decimal("1.1")]), [[0], [0]]),
        (pa.array([Decimal("2.00")]), pa.array([2]), [[0], [0]]),
        (pa.array([Decimal(10) ** 37]), pa.array([Decimal("1e-18")], pa.decimal128(38, 37)), [[1], [0]]),
        (pa.array([Decimal("1e-20")]), pa.array([-5e-324]), [[1], [0]]),
        (pa.array([Decimal("1e30")], pa.decimal128(38, 0)), pa.array([1e30]), [[0], [1]]),
        (pa.array([1], pa.timestamp("s")), pa.array([10**9], pa.timestamp("ns")), [[0], [0]]),
        (pa.array([2**62], pa.timestamp("s")), pa.array([2**62], pa.timestamp("ns")), [[1], [0]]),
        (pa.array([0], pa.timestamp("us", "UTC")), pa.array([0], pa.timestamp("s", "Asia/Tokyo")), [[0], [0]]),
        (pa.array([1], pa.time32("s")), pa.array([10**6 - 1], pa.time64("us")), [[1], [0]]),
        (pa.array([19000], pa.date32()), pa.array([19000 * 86_400_000], pa.date64()), [[0], [0]]),
        (pa.array([None, None], pa.null()), pa.array(["b", "a"]), [[None, None], [1, 0]]),
        (pa.array([None, None], pa.null()), pa.array([1.5, 2.0**70]), [[None, None], [0, 1]]),
        (pa.array(["b", "a"]).dictionary_encode(), pa.array(["a", "c"], pa.large_string()), [[1, 0], [0, 2]]),
    ],
)
def test_two_columns(left: pa.Array, right: pa.Array, expected: list[list[int | None]]) -> None:
    assert ranks(left, right) == expected
    assert ranks(right, left) == expected[::-1]


def test_run_ends_have_the_kind_of_their_values() -> None:
    values = pa.array(["b", "b", None, "a"])
    encoded = pc.run_end_encode(values)
    table = Table(pa.table({"a": encoded}))
    assert table.kind("a") is Kind.TEXT
    assert ranks(encoded) == ranks(values)


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["b", None, "a"]).dictionary_encode(),
        pa.array(["b", None, "a"], pa.string_view()),
        pa.DictionaryArray.from_arrays(pa.array([0, None, 1]), pa.array(["b", "a"], pa.string_view())),
    ],
)
def test_runs_of_dictionaries_and_views(values: pa.Array) -> None:
    """Arrow cannot decode these runs itself."""
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int32()), values)
    plain = ["b", "b", None, "a", "a"]
    for column, expected in ((runs, plain), (runs[1:4], plain[1:4]), (runs[3:], plain[3:]), (runs[:0], [])):
        assert ranks(column) == ranks(pa.array(expected, pa.string()))
        assert Table(pa.table({"a": column})).take(np.arange(len(expected)))["a"].to_pylist() == expected


def test_chunks_with_dictionaries_of_their_own() -> None:
    first = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), pa.array(["b", "a"]))
    second = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3], pa.int8()), pa.array(["a", None, "a", "c"]))
    column = pa.chunked_array([first, second.slice(1), first.slice(0, 0)])
    codes = Table(pa.table({"a": column})).ranks(["a"])[0]
    assert cells(codes) == [0, None, 1, None, 0, 2]
    assert codes.n_values == 3


@given(st.lists(st.integers(0, 2**64 - 1) | st.none(), max_size=20))
def test_unsigned(values: list[int | None]) -> None:
    order = sorted({value for value in values if value is not None})
    assert ranks(pa.array(values, pa.uint64())) == [[None if v is None else order.index(v) for v in values]]


@given(
    st.lists(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=9)),
    st.lists(st.floats(allow_nan=False)),
    st.lists(st.integers(-(2**63), 2**63 - 1)),
)
def test_decimals_beside_floats_and_integers(left: list[Decimal], middle: list[float], right: list[int]) -> None:
    middle += [float(value) for value in left]
    n_rows = max(len(left), len(middle), len(right))
    padded = [values + [None] * (n_rows - len(values)) for values in (left, middle, right)]
    types = (pa.decimal128(38, 9), pa.float64(), pa.int64())
    order: list[Any] = []
    for value in sorted(value for values in padded for value in values if value is not None):
        if not order or order[-1] != value:
            order.append(value)
    place = {value: rank for rank, value in enumerate(order)}
    expected = [[None if value is None else place[value] for value in values] for values in padded]
    assert ranks(*[pa.array(values, type_) for values, type_ in zip(padded, types, strict=True)]) == expected


def test_constants_of_wide_decimals() -> None:
    table = Table(pa.table({"a": pa.array([HUGE, -HUGE, Decimal("0.5"), None], pa.decimal256(76, 10))}))

    def holds(op: Op, value: Any) -> list[bool]:
        return table.holds(Predicate(Column(Row.LEFT, "a"), op, Constant(value)), Nulls.SQL).tolist()

    assert holds(Op.EQ, HUGE) == [True, False, False, False]
    assert holds(Op.LT, Decimal("0.50000000001")) == [False, True, True, False]
    assert holds(Op.GE, 0.5) == [True, False, True, False]
    assert holds(Op.GT, 10**100) == [False, False, False, False]
    assert holds(Op.LT, math.inf) == [True, True, True, False]
    assert holds(Op.LE, math.nan) == [True, True, True, False]
    assert holds(Op.GT, -math.inf) == [True, True, True, False]


@pytest.mark.parametrize("value", [0.1, Decimal("0.1")])
@pytest.mark.parametrize("array", [pa.array([0.1]), pa.array([Decimal("0.10")])])
def test_a_written_fraction_is_read_in_the_type_of_the_column(value: Any, array: pa.Array) -> None:
    table = Table(pa.table({"a": array}))
    assert table.holds(Predicate(Column(Row.LEFT, "a"), Op.EQ, Constant(value)), Nulls.SQL).tolist() == [True]


@pytest.mark.parametrize(
    ("values", "type_", "text", "expected"),
    [
        (["12345678901234567.88", "12345678901234567.90"], pa.decimal128(20, 2), "12345678901234567.89", [False, True]),
        (["99999999999999991611392", "100000000000000000000000"], pa.decimal128(38, 0), "1e22", [True, True]),
        (["99999999999999991611392", "100000000000000000000001"], pa.decimal128(38, 0), "1e23", [False, True]),
        (["9007199254740993", "9007199254740994"], pa.int64(), "9007199254740993.0", [False, True]),
        (["1e23", "1.1e23"], pa.float64(), "1e23", [False, True]),
    ],
)
def test_a_long_constant_is_the_number_that_was_written(
    values: list[str], type_: pa.DataType, text: str, expected: list[bool]
) -> None:
    read = {pa.int64(): int, pa.float64(): float}.get(type_, Decimal)
    table = Table(pa.table({"a": pa.array([read(value) for value in values], type_)}))
    predicate = parse(f"not(t.a > {text})").predicates[0]
    assert table.holds(predicate, Nulls.SQL).tolist() == expected


def test_rows_of_runs_are_plain_values() -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int32()), pa.array(["x", None, "y"]))
    taken = Table(pa.table({"runs": runs}).slice(1)).take(np.array([3, 1, 0]))
    assert (taken.schema.field("runs").type, taken["runs"].to_pylist()) == (pa.string(), ["y", None, "x"])


def test_nulls_inside_of_runs_and_dictionaries_are_counted() -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int32()), pa.array([1, None, 1]))
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None, 0]), pa.array(["a", None]))
    columns = facts(Table(pa.table({"runs": runs, "words": words})))
    assert [column.n_nulls for column in columns] == [1, 2]


def test_a_constant_that_is_no_text() -> None:
    table = Table(pa.table({"a": ["\uffff", "\ud7ff"]}))
    predicate = Predicate(Column(Row.LEFT, "a"), Op.LT, Constant("\ud800"))
    assert table.holds(predicate, Nulls.SQL).tolist() == [False, True]


def test_numbers_keep_small_ranges() -> None:
    """Amounts with few decimals get codes as close together as their values, so that grouping needs no hash table."""
    table = Table(pa.table({"rate": [0.0, 0.125, 7.5], "salary": [90_000, 5_000, 5_000]}))
    assert table.codes("rate", ordered=True).n_values == 7501
    assert table.codes("salary", ordered=True).n_values == 85_001


@pytest.mark.filterwarnings("error")
def test_the_greatest_floats_warn_of_nothing() -> None:
    assert ranks(pa.array([0.5, 1.7976931348623157e308, -1.7976931348623157e308])) == [[1, 2, 0]]


@pytest.mark.parametrize("n_rows", [0, 2])
@pytest.mark.parametrize("value", ["x", 1, 0.5, True, Decimal("0.1"), datetime.date(2024, 1, 31)])
@pytest.mark.parametrize("op", list(Op))
def test_nulls_of_no_type_compare_with_any_constant(value: Any, op: Op, n_rows: int) -> None:
    table = Table(pa.table({"a": pa.nulls(n_rows)}))
    predicate = Predicate(Column(Row.LEFT, "a"), op, Constant(value))
    for nulls in Nulls:
        assert table.holds(predicate, nulls).tolist() == [nulls is Nulls.EQUAL and op is Op.NE] * n_rows
