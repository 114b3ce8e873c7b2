"""CSV files in other notations: null values, declared types, decimal commas, formats of dates and timestamps."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from naysay.errors import TableError, UsageError
from naysay.io.csv import open_csv
from naysay.io.csv_files import read_csv_files
from naysay.io.files import read
from naysay.io.notation import Notation, convert, notation
from soak import readers

GERMAN = {"decimal_comma": True, "date_format": "%d.%m.%Y", "timestamp_format": "%d.%m.%Y %H:%M:%S"}


def table(folder: Path, text: str, **options: Any) -> pa.Table:
    path = folder / "f.csv"
    path.write_text(text, encoding="utf-8")
    return read(path, **options)


def column(folder: Path, values: list[str], **options: Any) -> tuple[str, list[Any]]:
    """Type and values of a column `a` next to another one."""
    found = table(folder, "a;z\n" + "".join(f"{value};1\n" for value in values), **options)
    return str(found.schema.field("a").type), found["a"].to_pylist()


@pytest.mark.parametrize(
    ("values", "type_", "expected"),
    [
        (["1", "NA", "3"], "int64", [1, None, 3]),
        (["1", '"NA"', ""], "int64", [1, None, None]),
        (["x", "N/A", '""'], "string", ["x", None, ""]),
        (["NA", "N/A"], "null", [None, None]),
        (["1", " NA"], "string", ["1", " NA"]),
        (["na", "1"], "string", ["na", "1"]),
        (["007", "NA"], "string", ["007", None]),
        (["12345678901234567890", "NA"], "decimal128(38, 0)", [Decimal(12345678901234567890), None]),
    ],
)
def test_null_values(tmp_path: Path, values: list[str], type_: str, expected: list[Any]) -> None:
    assert column(tmp_path, values, null_values=["NA", "N/A"]) == (type_, expected)


def test_rows_of_one_null_are_rows(tmp_path: Path) -> None:
    assert table(tmp_path, "a\nNA\n1\nNA\n", null_values="NA")["a"].to_pylist() == [None, 1, None]
    assert table(tmp_path, 'a\n""\n', null_values="")["a"].to_pylist() == [None]
    assert table(tmp_path, "a,b\nNA,1\nNA,2\n", null_values="NA", columns=["a"])["a"].to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("values", "type_", "expected"),
    [
        (["1,5", "-,5", "2"], "double", [1.5, -0.5, 2.0]),
        (["1", "2"], "int64", [1, 2]),
        (["1,5", "inf"], "double", [1.5, float("inf")]),
        # The point is not the decimal mark, and thousands are not grouped.
        (["1.5", "2.5"], "string", ["1.5", "2.5"]),
        (["1.234,5", "1"], "string", ["1.234,5", "1"]),
        (["1,5", "x"], "string", ["1,5", "x"]),
        (["1,5,3", "1"], "string", ["1,5,3", "1"]),
        (["007,5", "1"], "string", ["007,5", "1"]),
        (["9007199254740993,5", "1"], "decimal128(38, 1)", [Decimal("9007199254740993.5"), Decimal(1)]),
        (["31.01.2024", "01.02.2024"], "date32[day]", [datetime.date(2024, 1, 31), datetime.date(2024, 2, 1)]),
        (["31.01.2024", "31.02.2024"], "string", ["31.01.2024", "31.02.2024"]),
        # Dates in another format than the one given stay text.
        (["2024-01-31", ""], "string", ["2024-01-31", None]),
        (["2024-01-31 10:00", "2024-01-31"], "string", ["2024-01-31 10:00", "2024-01-31"]),
        (["31.01.2024 10:30:00"], "timestamp[us]", [datetime.datetime(2024, 1, 31, 10, 30)]),
        (["10:30:00"], "time32[s]", [datetime.time(10, 30)]),
    ],
)
def test_german_files(tmp_path: Path, values: list[str], type_: str, expected: list[Any]) -> None:
    assert column(tmp_path, values, **GERMAN) == (type_, expected)


def test_only_what_was_asked_for_changes(tmp_path: Path) -> None:
    assert column(tmp_path, ["2024-01-31"], timestamp_format="%d.%m.%Y %H:%M")[0] == "date32[day]"
    assert column(tmp_path, ["2024-01-31 10:00"], date_format="%d.%m.%Y")[0] == "timestamp[s]"
    assert column(tmp_path, ["1.5"], date_format="%d.%m.%Y")[0] == "double"


def test_zones_and_names_of_months(tmp_path: Path) -> None:
    options = {"timestamp_format": "%d-%b-%Y %I:%M %p %z", "date_format": "%d-%b-%y"}
    assert column(tmp_path, ["31-Jan-2024 02:05 PM +0100"], **options) == (
        "timestamp[us, tz=UTC]",
        [datetime.datetime(2024, 1, 31, 13, 5, tzinfo=datetime.timezone.utc)],
    )
    assert column(tmp_path, ["31-JAN-24"], **options)[1] == [datetime.date(2024, 1, 31)]


@pytest.mark.parametrize(
    ("type_", "values", "expected"),
    [
        ("text", ["1", "007", ""], ["1", "007", None]),
        ("int", [" 007", "+5", "-0"], [7, 5, 0]),
        ("Integer", ["1"], [1]),
        ("float", ["1", "007.5", "1e3", "nan"], [1.0, 7.5, 1000.0, None]),
        ("decimal(5, 2)", ["1.5", "001.50", "-999.99"], [Decimal("1.50"), Decimal("1.50"), Decimal("-999.99")]),
        ("boolean", ["Yes", "0", "t", "FALSE"], [True, False, True, False]),
        ("date", ["2024-01-31"], [datetime.date(2024, 1, 31)]),
        ("time", ["09:30", "09:30:15"], [datetime.time(9, 30), datetime.time(9, 30, 15)]),
        ("timestamp", ["2024-01-31"], [datetime.datetime(2024, 1, 31)]),
        ("timestamptz", ["2024-01-31 10:00+01:00"], [datetime.datetime(2024, 1, 31, 9, tzinfo=datetime.timezone.utc)]),
    ],
)
def test_declared_types(tmp_path: Path, type_: str, values: list[str], expected: list[Any]) -> None:
    found = column(tmp_path, values, types={"a": type_})[1]
    assert [None if value != value else value for value in found] == expected


@pytest.mark.parametrize(
    ("type_", "value", "options", "parts"),
    [
        ("int", "1.5", {}, ["is not an int", "--null-values"]),
        ("int", "0x10", {}, ["is not an int"]),
        ("int", "9223372036854775808", {}, ["is not an int"]),
        ("float", "NA", {}, ["is not a float", "--null-values"]),
        ("float", "1,5", {}, ["is not a float", "--decimal-comma"]),
        ("float", "1.5", {"decimal_comma": True}, ["is not a float with a decimal comma"]),
        ("float", "1e400", {}, ["too large"]),
        ("float", "9007199254740993", {}, ["beyond 2^53", "decimal(38,0)"]),
        ("decimal(3,1)", "1.55", {}, ["is not a decimal(3,1)"]),
        ("decimal(3,1)", "100", {}, ["is not a decimal(3,1)"]),
        ("boolean", "maybe", {}, ["is not a boolean"]),
        ("date", "31.01.2024", {}, ["is not a date", "--date-format"]),
        ("date", "2024-02-31", {}, ["is not a date"]),
        ("date", "2024-01-31", {"date_format": "%d.%m.%Y"}, ["is not a date in the format %d.%m.%Y"]),
        ("time", "25:00", {}, ["is not a time"]),
        ("timestamp", "2024-01-31 10:00Z", {}, ["is not a timestamp"]),
        ("timestamptz", "2024-01-31 10:00", {}, ["is not a timestamptz", "+01:00"]),
    ],
)
def test_a_bad_value_is_named_with_its_line(
    tmp_path: Path, type_: str, value: str, options: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises(TableError) as told:
        # Line 4, because a value of the row before goes over two lines.
        table(tmp_path, f'a;z\n;"x\ny"\n{value};1\n', types={"a": type_}, **options)
    assert str(told.value).startswith(f"{tmp_path}/f.csv:4: {value!r} in column 'a' ")
    assert all(part in str(told.value) for part in parts), str(told.value)


@pytest.mark.parametrize("filling", ["1;1\n", '1;"two\nlines"\n', "1;1\r\n\r\n"])
@pytest.mark.parametrize("n_rows", [0, 1, 2_000, 40_000])
def test_a_late_bad_value_is_named_with_its_line(tmp_path: Path, filling: str, n_rows: int) -> None:
    text = "a;z\n" + filling * n_rows
    (tmp_path / "f.csv").write_bytes(f"{text}x;1\n2;2\n".encode())
    with pytest.raises(TableError, match=rf"f\.csv:{text.count(chr(10)) + 1}: 'x' in column 'a' is not an int"):
        read(tmp_path / "f.csv", types={"a": "int"})


def test_a_number_that_no_type_holds_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"f\.csv:4: 1e400 in column 'a' is too large"):
        table(tmp_path, 'a;z\nNA;"x\ny"\n1e400;1\n', null_values="NA")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"types": {"a": "money"}}, r"column 'a': there is no type 'money'; use text, int"),
        ({"types": {"a": "decimal"}}, r"no type 'decimal'.*decimal\(DIGITS,SCALE\)"),
        ({"types": {"a": "decimal(2,3)"}}, "no type"),
        ({"date_format": "dd.MM.yyyy"}, "'dd.MM.yyyy' is not a date format.*such as %d.%m.%Y"),
        ({"date_format": "%d.%m."}, "needs a day, a month and a year"),
        ({"date_format": "%d.%m.%Y %H:%M"}, "has a time of day; use --timestamp-format"),
        ({"timestamp_format": "%d.%m.%Y"}, "no time of day; use --date-format"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        notation(**options)


def test_declared_columns_that_are_not_asked_for(tmp_path: Path) -> None:
    assert table(tmp_path, "a,b\nx,1\n", types={"a": "int"}, columns=["b"]).to_pydict() == {"b": [1]}
    assert table(tmp_path, "a,b\nx,1\n", types={"a": "int"}, null_values="1", columns=[]).num_columns == 0


def test_a_file_without_rows_has_its_types(tmp_path: Path) -> None:
    types = {"a": "int", "b": "date", "c": "timestamptz", "d": "boolean", "e": "decimal(5,2)", "f": "time"}
    found = table(tmp_path, "a;b;c;d;e;f;g\n", types=types, null_values="NA", **GERMAN)
    assert [str(type_) for type_ in found.schema.types] == [
        *("int64", "date32[day]", "timestamp[us, tz=UTC]", "bool", "decimal128(5, 2)", "time32[s]", "null")
    ]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_types_of_an_existing_table(unit: str) -> None:
    text = pa.chunked_array([["2024-01-31 10:00:00", "x", None]], pa.string())
    found, bad = convert(text, pa.timestamp(unit), notation("NA"), keeps_zeros=True)
    assert found.cast(pa.timestamp("s")).to_pylist() == [datetime.datetime(2024, 1, 31, 10), None, None]
    assert bad.tolist() == [False, True, False]
    fine = pa.chunked_array([["2024-01-31 10:00:00.123456789", "x"]], pa.string())
    assert convert(fine, pa.timestamp("ns"), notation("NA"))[1].tolist() == [False, True]
    small = pa.chunked_array([["127", "128", "-0"]], pa.string())
    assert convert(small, pa.int8(), notation("NA"))[0].to_pylist() == [127, None, 0]


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"f.csv has no column 'amout'; did you mean 'amount'\?"):
        table(tmp_path, "amount\n1\n", types={"amout": "int"})


def test_other_formats_have_types_of_their_own(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"a": ["1"], "b": [1]}), tmp_path / "f.parquet")
    assert read(tmp_path / "f.parquet", types={"a": "text", "b": "float"}).num_rows == 1
    with pytest.raises(TableError, match="column 'a' is string, but its declared type is int"):
        read(tmp_path / "f.parquet", types={"a": "int"})
    with pytest.raises(TableError, match="has no column 'c'"):
        read(tmp_path / "f.parquet", types={"c": "int"})
    with pytest.raises(TableError, match=r"--null-values .* applies to CSV files, not to parquet files"):
        read(tmp_path / "f.parquet", null_values="NA")


def test_a_folder_is_read_as_one_file(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a;b\n1,5;31.01.2024\n")
    (tmp_path / "2.csv").write_text("a;b\nNA;x\n")
    found = read(tmp_path, null_values="NA", decimal_comma=True, date_format="%d.%m.%Y")
    assert found.to_pydict() == {"a": [1.5, None], "b": ["31.01.2024", "x"]}
    with pytest.raises(TableError, match=r"2\.csv:2: 'x' in column 'b' is not a date in the format %d\.%m\.%Y"):
        read(tmp_path, types={"b": "date"}, date_format="%d.%m.%Y")


def test_columns_of_the_same_name_count_as_one(tmp_path: Path) -> None:
    found = table(tmp_path, "a;a\n31.01.2024;NA\n01.02.2024;x\n", date_format="%d.%m.%Y", null_values="NA")
    assert [column.to_pylist() for column in found.columns] == [["31.01.2024", "01.02.2024"], [None, "x"]]


@pytest.mark.parametrize(
    "format",
    [
        *("%d.%m.%Y", "%m/%d/%Y", "%Y|%d|%m", "%Y%m%d", "%d. %m. %Y", "day %d of %m, %Y", "%d.%m.%y", "(%Y).%m*%d"),
        *("%H:%M %d.%m.%Y", "%d.%m.%Y %H.%M.%S", "%Y-%m-%dT%H", "%m/%d/%Y %I:%M %p", "%d.%m.%Y %H:%M:%S.%f"),
    ],
)
def test_formats_mean_what_python_means(tmp_path: Path, format: str) -> None:
    is_date = "H" not in format and "I" not in format
    written = [datetime.datetime(*when).strftime(format) for when in MOMENTS]
    values = [*written, *(value.replace("0", "") for value in written), *(value.replace("1", "3") for value in written)]
    values += [value + " " for value in written] + [value.replace(" ", "  ") for value in written] + ["x" + written[0]]

    def expected(value: str) -> datetime.datetime | None:
        try:
            return datetime.datetime.strptime(value.strip(" "), format)
        except ValueError:
            return None

    type_ = pa.date32() if is_date else pa.timestamp("us")
    spelled = notation(**{"date_format" if is_date else "timestamp_format": format})
    found, bad = convert(pa.chunked_array([values], pa.string()), type_, spelled)
    for value, made, is_bad in zip(values, found.to_pylist(), bad.tolist(), strict=True):
        wanted = expected(value)
        assert made == (wanted.date() if wanted is not None and is_date else wanted), value
        assert is_bad == (wanted is None)


MOMENTS = [(2024, 1, 31, 10, 30, 59), (1999, 12, 1, 0, 0, 0), (2000, 2, 29, 23, 59, 1), (1970, 10, 10, 1, 1, 1)]


@pytest.mark.parametrize("seed", range(60))
def test_a_notation_that_changes_nothing(seed: int) -> None:
    drawn = readers.draw(random.Random(seed))

    def outcome(spelled: Notation) -> Any:
        try:
            (found,) = read_csv_files([open_csv("f.csv", drawn.data)], spelled)
        except TableError as error:
            return str(error)
        return found.schema, str(found.to_pylist()) if len({*found.column_names}) == found.num_columns else found

    assert outcome(notation("never there")) == outcome(notation())


@pytest.mark.parametrize("seed", range(20))
def test_what_was_written_in_a_notation_is_read_back(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    n_rows = draw.choice([1, 3, 40])

    def maybe(value: Any) -> Any:
        return None if draw.random() < 0.2 else value

    day = datetime.datetime(1999, 12, 31)
    rows = {
        "n": [maybe(draw.randrange(-(10**6), 10**6)) for _ in range(n_rows)],
        "x": [maybe(draw.randrange(-(10**6), 10**6) / 64) for _ in range(n_rows)],
        "d": [maybe((day + datetime.timedelta(draw.randrange(20_000))).date()) for _ in range(n_rows)],
        "t": [maybe(day + datetime.timedelta(seconds=draw.randrange(10**9))) for _ in range(n_rows)],
        "s": [maybe(draw.choice(["a b", 'quo"te', "semi;colon", "new\nline", "1.5", "ä"])) for _ in range(n_rows)],
    }
    types = {"n": "int", "x": "float", "d": "date", "t": "timestamp", "s": "text"}
    # Nulls alone have no type, and neither do texts that may all be "1.5".
    unclear = {name for name, values in rows.items() if None in values} | {"s"}
    declared = {name: type_ for name, type_ in types.items() if draw.random() < 0.5 or name in unclear}
    text = ";".join(rows) + "\n"
    for values in zip(*rows.values(), strict=True):
        text += ";".join(
            draw.choice(["{}", '"{}"']).format(cell) if quote else cell for cell, quote in map(cell_of, values)
        )
        text += "\n"
    found = table(tmp_path, text, null_values=["NA"], types=declared, **GERMAN)
    assert found.to_pydict() == rows


def cell_of(value: Any) -> tuple[str, bool]:
    """A value as a German file has it, and whether it may be quoted as it is."""
    if value is None:
        return "NA", True
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"', False
    if isinstance(value, datetime.datetime):
        return value.strftime("%d.%m.%Y %H:%M:%S"), True
    if isinstance(value, datetime.date):
        return value.strftime("%d.%m.%Y"), True
    return str(value).replace(".", ","), True
