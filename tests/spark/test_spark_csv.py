"""CSV files that Spark reads itself give the same table as with our own reader."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest

import naysay
from naysay.errors import TableError
from naysay.io.files import read_table
from naysay.spark import read as spark_read
from samples import write_files_that_lack_columns
from soak import readers

COLUMNS = {
    "spaced": (" 10", "9 "),
    "tabbed zeros": ("\t007", "7"),
    "plus": ("+1", "-.5"),
    "names": ("NAN", "-Infinity"),
    "signed": ("-nan", "1e5"),
    "zones": ("2024-01-31 10:00+01:00", "2024-01-31T10:00:00.5Z"),
    "offsets": ("2024-01-31 10-0130", "2024-01-31T10:00:00+01"),
    "hours": ("2024-01-31 10", "2024-01-31"),
    "clock": (" 09:30", "10:00:30"),
    "day": (" 2024-01-31", "2024-02-01"),
    "wide": ("-" + "9" * 38, "1"),
    "wider": ("9" * 39, "1"),
    "empty": ('""', ""),
    "no number": ('""', "5"),
    "words": ("true", " false"),
    "seven digits": ("2024-01-31 10:00:00.1234567", "2024-01-31"),
    "seven digits and zones": ("2024-01-31 10:00:00.123456789+23:59", "2024-01-31T10:00Z"),
    "zeros in nine digits": ("2024-01-31 10:00:00.123456000", "2024-01-31 10"),
    "ten digits": ("2024-01-31 10:00:00.1234567891", "2024-01-31"),
    "far offsets": ("2024-01-31 10:00+18:30", "2024-01-31T10:00:00.5-2359"),
    "no offset": ("2024-01-31 10:00+24:00", "2024-01-31T10:00Z"),
    "beyond nanoseconds": ("9999-12-31 23:59:59.5", "2024-01-31"),
    "whole beyond nanoseconds": ("9999-12-31 23:59:59", "2024-01-31"),
    "line separator": ("5\u2028", "6"),
    "next line": ("7\u0085", "2024-01-31\u0085"),
    "day and separator": ("2024-01-31\u2029", "2024-01-31"),
    "long and fraction": ("9007199254740993", "-12345678901234567890.25"),
    "long and plus": (" +9007199254740993 ", ".5"),
    "exact and fraction": ("9007199254740992", "0.5"),
    "large float": ("1e300", "0e-400"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names, (first, second) = list(COLUMNS), zip(*COLUMNS.values(), strict=True)
    text = "".join(",".join(line) + "\n" for line in (names, first, second))
    (tmp_path / "all.csv").write_text(text, encoding="utf-8")
    (tmp_path / "all.csv.gz").write_bytes(gzip.compress(text.encode()))
    return tmp_path


def test_values_are_what_our_reader_makes_of_them(spark: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = _texts(spark_read.read(spark, str(folder / "all.csv")))
    packed = _texts(spark_read.read(spark, str(folder / "all.csv.gz")))
    monkeypatch.setattr(spark_read, "_WHOLE_BYTES", -1)
    assert _texts(spark_read.read(spark, str(folder / "all.csv"))) == packed == small
    assert read_table(str(folder / "all.csv")).column_names == list(small)


def _texts(frame: Any) -> dict[str, tuple[str, set[str]]]:
    rows = frame.collect()
    return {
        field.name: (field.dataType.simpleString(), {str(row[place]) for row in rows})
        for place, field in enumerate(frame.schema.fields)
    }


@pytest.mark.parametrize("values", [("1", "1e400"), ("1e-400", "0"), ("1e5", "9007199254740993"), ("1" * 50, "0.5")])
def test_numbers_that_no_type_holds_are_refused(spark: Any, tmp_path: Path, values: tuple[str, str]) -> None:
    text = "b,a\n" + "".join(f"1,{value}\n" for value in values)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    said = []
    for read in (read_table, lambda path: spark_read.read(spark, path)):
        with pytest.raises(TableError) as caught:
            read(str(tmp_path / "a.csv.gz"))
        said.append(str(caught.value).partition(": ")[2])
    assert said[0] == said[1]
    assert "in column 'a' is " in said[0]


@pytest.mark.parametrize(
    ("name", "lines", "n_rows"),
    [
        ("a.tsv", ["a\tb", "1\tx", "\t", "2\ty", "\t"], 4),
        ("a.csv", ["a", "x", "  ", "", "y", "\t"], 4),
        ("a.csv", ["a,b", "\x0b,1", '"",'], 2),
        ("a.csv", ['id,5" pipe,note', "1,x,y", '2,6" y,z', "3,x,y"], 3),
    ],
)
def test_rows_are_those_of_our_reader(spark: Any, tmp_path: Path, name: str, lines: list[str], n_rows: int) -> None:
    """Compressed, and as one of two files of a folder."""
    text = "\n".join(lines) + "\n"
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(text.encode()))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / f"1{name}").write_text(text)
    (folder / f"2{name}").write_text(text)
    for source, n_copies in ((path, 1), (folder, 2)):
        ours = read_table(str(source))
        assert ours.num_rows == n_copies * n_rows
        rows = [tuple(row) for row in spark_read.read(spark, str(source)).collect()]
        expected = zip(*(column.to_pylist() for column in ours.columns), strict=True)
        assert sorted(rows, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "a,b\n1,2\n  \n"),
        ("a.tsv", "a\tb\n1\t2\n\t\t\n"),
        ("a.csv", 'a,b\n1,"x"y\n'),
        ("a.csv", '"a"b,c\n1,2\n'),
        ("a.csv", "a,b\n1,\0\n"),
        ("a.tsv", "\t\n1\t2\n"),
        ("a.csv", 'a,b\n1,2\n "3",4,5\n'),
    ],
)
def test_what_our_reader_refuses_is_refused(spark: Any, tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(text.encode()))
    for read in (read_table, lambda path: spark_read.read(spark, path)):
        with pytest.raises(TableError, match=r"a\.[ct]sv\.gz"):
            read(str(path))


def test_a_line_of_many_quoted_columns(spark: Any, tmp_path: Path) -> None:
    names = ",".join(f"c{place}" for place in range(60))
    line = ",".join(['"x"" ,"', '6" y', ""] * 20)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(f"{names}\n{line}\n".encode()))
    (row,) = spark_read.read(spark, str(tmp_path / "a.csv.gz")).collect()
    assert tuple(row) == ('x" ,', '6" y', None) * 20


def test_files_with_other_columns_are_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    for header in ("b,a", "a,c", "A,b", "a,b,c"):
        (tmp_path / "2.csv").write_text(f"{header}\n2,1\n")
        with pytest.raises(TableError, match="the files have different columns"):
            spark_read.read(spark, str(tmp_path))
    (tmp_path / "2.csv").write_bytes(b"\xef\xbb\xbfa,b\n2,1\n")
    assert spark_read.read(spark, str(tmp_path)).count() == 2


def test_repeated_and_missing_names_stay(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_read, "_WHOLE_BYTES", -1)
    (tmp_path / "a.csv").write_text("a,a,\n1,2,3\n")
    frame = spark_read.read(spark, str(tmp_path / "a.csv"))
    assert (frame.columns, tuple(frame.collect()[0])) == (["a", "a", ""], (1, 2, 3))


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["02139", "2139"], "string"),
        (["2139", "7"], "bigint"),
        (["2024-01-31", "__HIVE_DEFAULT_PARTITION__"], "date"),
        (["12345678901234567890", "1"], "decimal(38,0)"),
        (["a%2Fb", "x y"], "string"),
    ],
)
@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_values_of_folders_are_typed_as_cells(
    spark: Any, tmp_path: Path, values: list[str], type_: str, ending: str
) -> None:
    for place, value in enumerate(values):
        folder = tmp_path / "t" / f"zip={value}"
        folder.mkdir(parents=True)
        if ending == "parquet":
            pyarrow.parquet.write_table(pa.table({"city": [place]}), folder / "f.parquet")
        else:
            (folder / "f.jsonl").write_text(f'{{"city": {place}}}\n')
    frame = spark_read.read(spark, str(tmp_path / "t"), numbered=True)
    assert frame.schema["zip"].dataType.simpleString() == type_
    cells = "zip\n" + "".join(f'"{unquote(value)}"\n' for value in values if not value.startswith("__"))
    (tmp_path / "cells.csv").write_text(cells)
    expected = spark_read.read(spark, str(tmp_path / "cells.csv"))
    assert expected.schema["zip"].dataType.simpleString() == type_
    found = {row["zip"] for row in frame.collect()} - {None}
    assert found == {row["zip"] for row in expected.collect()}


def test_leading_zeros_of_folders_keep_cities_apart(spark: Any, tmp_path: Path) -> None:
    for value, city in (("02139", "Cambridge"), ("2139", "Sydney")):
        (tmp_path / f"zip={value}").mkdir()
        pyarrow.parquet.write_table(pa.table({"city": [city]}), tmp_path / f"zip={value}" / "f.parquet")
    for source in (f"{tmp_path}/", f"{tmp_path}/../{tmp_path.name}", f"file://{tmp_path}", f"file:{tmp_path}/zip=*"):
        frame = spark_read.read(spark, source, format="parquet")
        if "zip" in frame.columns:
            assert naysay.count(frame, "zip -> city") == 0
        assert ("zip" in frame.columns) == ("*" not in source)


@pytest.mark.parametrize("value", ["1e400", "-1e400", "1e-400", "9007199254740993"])
def test_numbers_of_json_that_a_double_does_not_hold_are_refused(spark: Any, tmp_path: Path, value: str) -> None:
    """As in-process (tests/io/test_local_files.py); for large files, without a line number."""
    (tmp_path / "f.jsonl").write_text('{"a": 0.5, "b": "9007199254740993"}\n{"a": 9007199254740994}\n')
    assert spark_read.read(spark, str(tmp_path)).count() == 2
    (tmp_path / "g.jsonl").write_text(f'{{"a": {value}}}\n')
    with pytest.raises(TableError, match=f"{value} in 'a' is"):
        spark_read.read(spark, str(tmp_path))


@pytest.mark.parametrize("ending", ["parquet", "orc", "jsonl"])
def test_a_column_that_a_file_lacks_is_null_there(spark: Any, tmp_path: Path, ending: str) -> None:
    """As in-process (tests/io/test_local_files.py), no matter which file is read first."""
    write_files_that_lack_columns(tmp_path, ending)
    rows = spark_read.read(spark, str(tmp_path)).select("a", "b", "c").collect()
    ours = read_table(str(tmp_path)).select(["a", "b", "c"])
    assert sorted(map(tuple, rows), key=repr) == sorted(map(tuple, map(dict.values, ours.to_pylist())), key=repr)


def test_a_column_of_two_types_is_refused(spark: Any, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pyarrow.parquet.write_table(pa.table({"a": ["x"]}), tmp_path / "2.parquet")
    for read in (read_table, lambda path: spark_read.read(spark, path)):
        with pytest.raises(TableError, match=r"column"):
            read(str(tmp_path))


@pytest.mark.parametrize("seed", range(9))
def test_generated_files_are_read_as_in_process(spark: Any, seed: int) -> None:
    fault, _ = readers.spark_difference(readers.draw(random.Random(seed)), readers.ROUTES[seed % 3])
    assert fault == ""
