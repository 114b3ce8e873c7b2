"""The types that rules compare, with small pools of values that collide, tie or are at the limits of the type."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

UTC = datetime.timezone.utc
INDIA = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
NAN, INFINITY = float("nan"), float("inf")
EXACT = 2**53  # up to here float64 represents every integer
SINGLE = 2**24  # and up to here float32


@dataclass(frozen=True, slots=True)
class Sort:
    """One Arrow type: values often shared with its family, values at its limits, and an ascending series.

    `nth(k)` is strictly increasing for k in [0, 127].
    """

    type: pa.DataType
    family: str
    common: tuple[Any, ...]
    edges: tuple[Any, ...]
    nth: Callable[[int], Any]

    @property
    def pool(self) -> tuple[Any, ...]:
        return self.common + self.edges


def _integer(type: pa.DataType, *edges: int) -> Sort:
    common = (0, 1, 2, 3) if str(type).startswith("u") else (0, 1, 2, 3, -1)
    return Sort(type, "number", common, edges, lambda k: k)


def _decimal(precision: int, scale: int, *edges: str) -> Sort:
    type = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    step = Decimal(1).scaleb(-scale)
    common = tuple(k * max(step, Decimal(1)) for k in (0, 1, 2, 3, -1))
    return Sort(type, "number", common, tuple(map(Decimal, edges)), lambda k: k * step)


def _text(type: pa.DataType) -> Sort:
    # U+FF5E sorts below U+1F600 in UTF-8 but above it in UTF-16; é occurs composed and decomposed.
    common = ("a", "b", "ab", "B", "")
    edges = ("é", "e\u0301", "\uff5e", "\U0001f600", "a\x00", "a\x00b", " a", "z" * 20, "null", "10", "9", 'it\'s "x"')
    return Sort(type, "text", common, edges, lambda k: f"{k:03d}")


def _moment(type: pa.DataType, family: str, *edges: int) -> Sort:
    # Counted in the type's own unit; a second, a millisecond and a microsecond are the same time in every unit.
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[type.unit]
    common = (0, per_second, 2 * per_second, 3600 * per_second, 86399 * per_second)
    return Sort(type, family, common, edges, lambda k: k)


def _float(type: pa.DataType, *edges: float) -> Sort:
    common = (0.0, -0.0, 1.0, 2.0, 3.0, -1.0, NAN)
    return Sort(type, "number", common, (INFINITY, -INFINITY, 0.5, *edges), lambda k: k / 2)


def _date(type: pa.DataType) -> Sort:
    start = datetime.date(2024, 2, 28)
    common = tuple(start + datetime.timedelta(days=k) for k in range(4))
    edges = (datetime.date.min, datetime.date.max, datetime.date(1969, 12, 31), datetime.date(1970, 1, 1))
    return Sort(type, "date", common, edges, lambda k: start + datetime.timedelta(days=k))


SORTS: tuple[Sort, ...] = (
    _integer(pa.int8(), 127, -128),
    _integer(pa.int16(), 2**15 - 1, -(2**15)),
    _integer(pa.int32(), 2**31 - 1, -(2**31), SINGLE, SINGLE + 1),
    _integer(pa.int64(), EXACT - 1, EXACT, EXACT + 1, 2**63 - 1, -(2**63), SINGLE, SINGLE + 1),
    _integer(pa.int64(), EXACT - 1, EXACT, EXACT + 1, 2**63 - 1, -(2**63), -EXACT - 1, -EXACT),
    _integer(pa.uint8(), 255, 127),
    _integer(pa.uint32(), 2**32 - 1, 2**31),
    _integer(pa.uint64(), EXACT, EXACT + 1, 2**63 - 1, 2**63, 2**64 - 1),
    _float(pa.float32(), float(SINGLE), 0.10000000149011612, float(EXACT), 2.0**63),
    _float(pa.float64(), float(EXACT - 1), float(EXACT), float(EXACT + 2), 2.0**63, -(2.0**63), 2.0**64, 0.1, 5e-324),
    _float(pa.float64(), float(SINGLE), 0.10000000149011612, -float(EXACT), 1.7976931348623157e308, -5e-324),
    _decimal(10, 2, "0.50", "0.10", "0.01", "-0.01", "99999999.99"),
    _decimal(20, 0, str(EXACT), str(EXACT + 1), str(2**63), str(2**64 - 1), str(10**20 - 1)),
    _decimal(38, 10, "0.5", "0.1", "0.0000000001", str(EXACT + 1), "9999999999999999999999999999.9999999999"),
    _text(pa.string()),
    _text(pa.large_string()),
    _text(pa.dictionary(pa.int32(), pa.string())),
    _text(pa.dictionary(pa.int8(), pa.string())),
    Sort(pa.bool_(), "bool", (False, True), (), lambda k: k > 63),
    _date(pa.date32()),
    _moment(pa.time32("ms"), "time", 1, 86_399_999),
    _moment(pa.time64("us"), "time", 1, 1000, 86_399_999_999),
    _moment(pa.time64("ns"), "time", 1, 1000, 1_000_000, 86_399_999_999_999),
    _moment(pa.timestamp("s"), "local", -1, 253_402_300_799),
    _moment(pa.timestamp("us"), "local", 1, -1, 1000, 253_402_300_799_999_999),
    _moment(pa.timestamp("ns"), "local", 1, -1, 1000, 2**63 - 1, -(2**63) + 1),
    _moment(pa.timestamp("ms", "UTC"), "instant", 1, -1),
    _moment(pa.timestamp("us", "UTC"), "instant", 1, -1, 1000, 1_698_541_200_000_000),
    _moment(pa.timestamp("us", "Europe/Berlin"), "instant", 1, 1_698_541_200_000_000, 1_698_537_600_000_000),
    _moment(pa.timestamp("ns", "America/New_York"), "instant", 1, -1, 1000, 2**63 - 1),
)

# Types that Arrow has and few sources produce; cases contain them only if a test asks for them.
EXOTIC: tuple[Sort, ...] = (
    _integer(pa.uint16(), 2**16 - 1),
    _integer(pa.dictionary(pa.int16(), pa.int64()), EXACT, EXACT + 1, 2**63 - 1, -(2**63)),
    _float(pa.float16(), 65504.0, 2048.0, 0.0999755859375),
    _float(pa.dictionary(pa.int8(), pa.float64()), float(EXACT), 0.1),
    _decimal(5, -2, "100", "-100", "9999900"),
    _decimal(60, 20, str(EXACT + 1), "1e-20", "1e35", "0.1", "0.5"),
    _text(pa.string_view()),
    _text(pa.dictionary(pa.uint16(), pa.large_string())),
    _date(pa.date64()),
    Sort(pa.dictionary(pa.int32(), pa.date32()), "date", _date(pa.date32()).common, (), _date(pa.date32()).nth),
    _moment(pa.time32("s"), "time", 1),
    _moment(pa.timestamp("ms"), "local", 1, -1),
    _moment(pa.timestamp("ns", "+05:30"), "instant", 1, -1),
    Sort(pa.null(), "number", (None,), (), lambda k: None),
)

# Types that every engine and file format supports unchanged: no unsigned, no dictionary, no time of day, microseconds.
_PLAIN = {"int8", "int16", "int32", "int64", "float", "double", "string", "bool", "date32[day]", "timestamp[us]"}
PLAIN: tuple[Sort, ...] = tuple(
    sort for sort in SORTS if str(sort.type) in _PLAIN | {"timestamp[us, tz=UTC]"} or pa.types.is_decimal128(sort.type)
)


def families_of(sorts: Iterable[Sort]) -> dict[str, tuple[Sort, ...]]:
    """The sorts by family: sorts of one family can be compared."""
    families: dict[str, tuple[Sort, ...]] = {}
    for sort in sorts:
        families[sort.family] = (*families.get(sort.family, ()), sort)
    return families


FAMILIES = families_of(SORTS)
PLAIN_FAMILIES = families_of(PLAIN)
ALL_FAMILIES = families_of(SORTS + EXOTIC)

# Constants that a rule's text can compare with a column of each family: finite numbers, and times to the microsecond.
CONSTANTS: dict[str, tuple[Any, ...]] = {
    "number": (
        *(0, 1, 2, 3, -1, 300, EXACT, EXACT + 1, SINGLE + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**30),
        *(0.0, -0.0, 1.0, 0.5, 1.5, 0.1, 0.10000000149011612, SINGLE + 0.5, float(EXACT), 2.0**63, 1e300, 1e-300),
        *(Decimal("1"), Decimal("1.00"), Decimal("0.1"), Decimal("0.5"), Decimal("1e-20"), Decimal(EXACT + 1)),
    ),
    "text": ("a", "b", "ab", "", "é", "e\u0301", "\uff5e", "\U0001f600", "it's", "zz"),
    "bool": (False, True),
    "date": (*_date(pa.date32()).common, datetime.date.min, datetime.date(2023, 1, 1)),
    "time": (datetime.time(0), datetime.time(0, 0, 1), datetime.time(1), datetime.time(23, 59, 59, 999999)),
    "local": (
        *(datetime.datetime(1970, 1, 1), datetime.datetime(1970, 1, 1, 0, 0, 1), datetime.datetime(1970, 1, 1, 1)),
        *(datetime.datetime(1970, 1, 1, 0, 0, 0, 1), datetime.datetime(1969, 12, 31), datetime.datetime.max),
    ),
    "instant": (
        *(datetime.datetime(1970, 1, 1, tzinfo=UTC), datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        *(datetime.datetime(1970, 1, 1, 5, 30, tzinfo=INDIA), datetime.datetime(2023, 10, 29, 1, tzinfo=UTC)),
    ),
}


def array_of(sort: Sort, values: list[Any], rng: random.Random | None = None) -> pa.Array:
    """An Arrow array of the sort's type.

    With an rng, dictionaries are as messy as Arrow allows: unused, repeated and null entries, in random order.
    """
    if not pa.types.is_dictionary(sort.type):
        return pa.array(values, sort.type)
    index_type, value_type = sort.type.index_type, sort.type.value_type
    if rng is None or rng.random() < 0.5:
        tidy = pa.array(values, value_type).dictionary_encode()
        return pa.DictionaryArray.from_arrays(tidy.indices.cast(index_type), tidy.dictionary)
    entries: list[Any] = [*dict.fromkeys(values), sort.common[0], *values[:2]]
    rng.shuffle(entries)
    places: dict[Any, list[int]] = {}
    for place, entry in enumerate(entries):
        places.setdefault(entry, []).append(place)
    indices = [None if value is None and rng.random() < 0.5 else rng.choice(places[value]) for value in values]
    return pa.DictionaryArray.from_arrays(pa.array(indices, index_type), pa.array(entries, value_type))


def write_files_that_lack_columns(folder: Path, ending: str) -> None:
    """Three files, each with two of the columns a, b and c, in different orders."""
    tables = [pa.table({"a": [1], "b": ["x"]}), pa.table({"b": ["y"], "c": [0.5]}), pa.table({"c": [1.5], "a": [3]})]
    for place, table in enumerate(tables):
        path = folder / f"{place}.{ending}"
        if ending == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        else:
            (pyarrow.parquet if ending == "parquet" else pyarrow.orc).write_table(table, path)
