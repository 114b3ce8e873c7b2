"""Files and folders: the tables they become, and the messages for those that cannot be read."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.orc
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naysay.errors import INSTALL_GPU, INSTALL_SPARK, TableError
from naysay.io.csv import open_csv, read_csv
from naysay.io.files import read, read_table, source_shown
from naysay.table import Table
from samples import write_files_that_lack_columns

compiled = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="too large for uncompiled kernels")


def csv_table(text: str | bytes, **options: Any) -> pa.Table:
    return read_csv(open_csv("f.csv", text.encode() if isinstance(text, str) else text, **options))


def column(text: str) -> tuple[str, list[Any]]:
    """Type and values of column `a` of a file (a second column keeps blank lines from being skipped)."""
    table = csv_table("a,z\n" + "".join(f"{line},1\n" for line in text.split("\n")))
    return str(table.schema.field("a").type), table.column("a").to_pylist()


@pytest.mark.parametrize(
    ("text", "type_", "values"),
    [
        ("1\n\n3", "int64", [1, None, 3]),
        ("1\n2.5", "double", [1.0, 2.5]),
        ("1\nx", "string", ["1", "x"]),
        ("00123\n5", "string", ["00123", "5"]),
        ("-007\n5", "string", ["-007", "5"]),
        ('"00123"\n5', "string", ["00123", "5"]),
        ("0x10\n16", "string", ["0x10", "16"]),
        ("007.5\n1.5", "string", ["007.5", "1.5"]),
        ("0\n10\n-0", "int64", [0, 10, 0]),
        ("0.5\n0", "double", [0.5, 0.0]),
        ("9223372036854775807\n1", "int64", [2**63 - 1, 1]),
        ("12345678901234567890\n1", "decimal128(38, 0)", [Decimal(12345678901234567890), Decimal(1)]),
        ("12345678901234567890\n0.25", "decimal128(38, 2)", [Decimal(12345678901234567890), Decimal("0.25")]),
        ("9007199254740993.5\n+1", "decimal128(38, 1)", [Decimal("9007199254740993.5"), Decimal(1)]),
        ("9007199254740992\n0.5", "double", [2.0**53, 0.5]),
        ("1e20\n-Infinity\n0e-5", "double", [1e20, float("-inf"), 0.0]),
        ("1" * 50 + "\n-1", "string", ["1" * 50, "-1"]),
        ("\t007\n5", "string", ["\t007", "5"]),
        ("x\n\n", "string", ["x", None, None]),
        ('x\n""', "string", ["x", ""]),
        ("\n", "null", [None, None]),
        ("true\nFALSE", "bool", [True, False]),
        ("true\n0", "string", ["true", "0"]),
        ("NA\n1", "string", ["NA", "1"]),
        ("2024-01-31\n", "date32[day]", [datetime.date(2024, 1, 31), None]),
        ("01:30:00\n", "time32[s]", [datetime.time(1, 30), None]),
        ('"a,b\nc"\n"d ""e"""', "string", ["a,b\nc", 'd "e"']),
    ],
)
def test_types_of_csv_columns(text: str, type_: str, values: list[Any]) -> None:
    if '"a,b' in text:
        table = csv_table('a,z\n"a,b\nc",1\n"d ""e""",1\n')
        assert (str(table.schema.field("a").type), table.column("a").to_pylist()) == (type_, values)
    else:
        assert column(text) == (type_, values)


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        (("1", "1e400"), ("f.csv:6:", "1e400 in column 'a'", "too large", "inf")),
        (("-1e400", "1"), ("f.csv:5:", "-1e400", "too large")),
        (("1e-400", "0"), ("f.csv:5:", "1e-400", "too small")),
        (("0.5", "0." + "0" * 400 + "1"), ("f.csv:6:", "too small")),
        (("1e5", "12345678901234567890"), ("f.csv:6:", "12345678901234567890", "2^53", "38 digits")),
        (("9007199254740993", "inf"), ("f.csv:5:", "9007199254740993", "2^53")),
        (("0.5", "1" * 50), ("f.csv:6:", "1" * 50, "2^53")),
    ],
)
def test_numbers_that_no_type_holds_are_refused(tmp_path: Path, values: tuple[str, str], parts: list[str]) -> None:
    """In one file, after blank lines and a row that spans two lines; and across two files."""
    with pytest.raises(TableError) as caught:
        csv_table('a,z\n\n2,"x\ny"\n' + "".join(f"{value},1\n" for value in values))
    for part in parts:
        assert part in str(caught.value)
    for place, value in enumerate(values):
        (tmp_path / f"{place}.csv").write_text(f"a,z\n{value},1\n")
    with pytest.raises(TableError) as caught:
        read_table(str(tmp_path))
    for part in parts[1:]:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        (("0.5", "1e400"), ("f.jsonl:2:", "1e400 in 'a'", "too large")),
        (("0.5", "-1e400"), ("f.jsonl:2:", "-1e400", "too large")),
        (("1e-400", "0.5"), ("f.jsonl:1:", "1e-400", "too small")),
        (("9007199254740993", "0.5"), ("f.jsonl:1:", "9007199254740993", "2^53", "exponent")),
        (("9007199254740994", "0.5"), ()),
        (("9007199254740993", "1"), ()),
        (("1e22", "-0.5"), ()),
    ],
)
def test_numbers_of_json_that_a_float_does_not_hold_are_refused(
    tmp_path: Path, values: tuple[str, str], parts: tuple[str, ...]
) -> None:
    path = tmp_path / "f.jsonl"
    path.write_text("".join(f'{{"a": {value}}}\n' for value in values))
    if not parts:
        assert [Decimal(row["a"]) for row in read_table(str(path)).to_pylist()] == list(map(Decimal, values))
        return
    with pytest.raises(TableError) as caught:
        read_table(str(path))
    for part in parts:
        assert part in str(caught.value)


@compiled
def test_types_are_inferred_over_the_whole_file() -> None:
    table = csv_table("a,b\n" + "1,x\n" * 999_999 + "oops,x\n")
    assert table.num_rows == 1_000_000
    assert table.column("a").type == pa.string()
    assert table.column("a")[-1].as_py() == "oops"
    assert table.column("a")[0].as_py() == "1"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_blank_lines_and_no_last_one(end: str) -> None:
    table = csv_table(end.join(["a,b", "1,x", "", "2,y"]))
    assert table.to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


@pytest.mark.parametrize("text", ["a,b\n", "a,b", "\ufeffa,b\n", "\n\na,b\n\n"])
def test_a_header_alone_is_a_table_without_rows(text: str) -> None:
    table = csv_table(text)
    assert table.column_names == ["a", "b"]
    assert table.num_rows == 0


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_quotes_inside_header_names_are_characters(end: str) -> None:
    """A quote that does not begin a name or a value is an ordinary character, and swallows no row."""
    lines = ['id,5" pipe,note', "1,x,y", '2,6" y,z', "3,x,y", "4,x,y"]
    table = csv_table(end.join(lines) + end)
    assert table.column_names == ["id", '5" pipe', "note"]
    assert table.column("id").to_pylist() == [1, 2, 3, 4]
    assert table.column('5" pipe').to_pylist() == ["x", '6" y', "x", "x"]
    assert csv_table(f'5" a;"b;|""c,,";d{end}1;2;3{end}').column_names == ['5" a', 'b;|"c,,', "d"]


def test_text_after_a_closing_quote_in_the_header_is_refused() -> None:
    with pytest.raises(TableError, match=r"f.csv:2: text follows the closing quote of a value in the header"):
        csv_table('"a\nb"c,d\n1,2\n')


@pytest.mark.parametrize("header", ["   ", "\t\t", " \t "])
def test_a_blank_header_is_refused(header: str) -> None:
    with pytest.raises(TableError, match=r"f.csv:2: the line of column names is blank"):
        csv_table(f"\n{header}\n1\t2\t3\n", delimiter="\t")


def test_names_of_every_sort() -> None:
    table = csv_table('"a.b","q""q","new\nline",`x`,é😀, s ,,a,a\n1,2,3,4,5,6,7,8,9\n')
    assert table.column_names == ["a.b", 'q"q', "new\nline", "`x`", "é😀", " s ", "", "a", "a"]
    assert Table(table).codes("a.b", ordered=True).n_values == 1
    with pytest.raises(TableError, match="2 columns named 'a'"):
        Table(table).codes("a", ordered=True)


@pytest.mark.parametrize("delimiter", [";", "\t", "|", ","])
def test_the_delimiter_is_seen_in_the_header(delimiter: str) -> None:
    table = csv_table(delimiter.join(["a", '"b,;|"', "c"]) + "\n" + delimiter.join("123") + "\n")
    assert table.column_names == ["a", "b,;|", "c"]
    assert csv_table("a;b,c\n1;2\n", delimiter=";").column_names == ["a", "b,c"]


@compiled
def test_a_long_row_needs_no_setting() -> None:
    table = csv_table("a,b\n1," + "x" * 9_000_000 + "\n2,y\n")
    assert table.column("a").to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["f.csv", "empty"]),
        (" \n\n", ["f.csv", "empty"]),
        ("a,b\n1,2\n3\n", ["f.csv:3:", "has 1 field,", "header has 2", "'3'"]),
        ("a,b\n1,2\n\n3,4,5\n", ["f.csv:4:", "3 fields", "'3,4,5'"]),
        ('a,b\n"x\ny",2\n3,4,\n', ["f.csv:4:", "3 fields"]),
        ("a;b\n1;2\n3\n", ["f.csv:3:", "semicolon"]),
        ('a,b\n1,x\n2,"y\n3,z\n', ["f.csv:3:", "never closed", "2,"]),
        ('a,b\n1,"x\n2,y\n3,"z\n', ["f.csv:4:", "follows the closing quote"]),
        ('a,b\n1,"x"y\n', ["f.csv:2:", "follows the closing quote"]),
        ('a,"b\n1,2\n', ["f.csv:1:", "never closed"]),
        ("a,b\n1,x\n2,y\x00\n", ["f.csv:3:", "NUL", "byte 12"]),
        ('a,b\n1,"x\n\x00"\n', ["f.csv:3:", "NUL"]),
        ("a\x00,b\n", ["byte 2 is NUL"]),
        ("a,b\n1,2\n".encode("utf-16"), ["UTF-16", "--encoding utf-16"]),
        ("a,b\n1,2\n".encode("utf-16-le"), ["NUL", "--encoding utf-16"]),
        ("a,b\n1,x\n2,né\n".encode("latin-1"), ["f.csv:3:", "byte 4", "0xe9", "--encoding", "latin-1"]),
        ("é,b\n1,x\n".encode("latin-1"), ["f.csv:1:", "byte 1", "0xe9"]),
    ],
)
def test_csv_files_that_cannot_be_read(text: str | bytes, parts: list[str]) -> None:
    with pytest.raises(TableError) as caught:
        csv_table(text)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1", "cp1252", "utf-8", "UTF8", "utf-32"])
def test_encodings_that_are_given(encoding: str) -> None:
    table = csv_table("a,b\n1,né\n".encode(encoding), encoding=encoding)
    assert table.to_pylist() == [{"a": 1, "b": "né"}]


def test_encodings_that_do_not_exist_or_do_not_fit() -> None:
    with pytest.raises(TableError, match="no encoding 'klingon'"):
        csv_table("a\n1\n", encoding="klingon")
    with pytest.raises(TableError, match=r"byte 7 \(line 2\) is not ascii"):
        csv_table("a,b\n1,é\n", encoding="ascii")
    with pytest.raises(TableError, match="one ASCII character"):
        csv_table("a\n1\n", delimiter="::")


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=6)


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_what_python_writes_is_read_back(rows: list[list[str]], end: str) -> None:
    """Text that must not become numbers, with line breaks and quotes inside, quoted as Python's csv does."""
    out = io.StringIO()
    # Before Python 3.13, a carriage return next to a plain line feed is not quoted: it becomes part of the line break.
    has_return = any("\r" in cell for row in rows for cell in row)
    writer = csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL if has_return else csv.QUOTE_MINIMAL)
    writer.writerows([["a", "b"], *[["t" + cell for cell in row] for row in rows]])
    table = csv_table(out.getvalue())
    expected = [{"a": "t" + left, "b": "t" + right} for left, right in rows]
    assert table.to_pylist() == expected


ARROW = pa.table({"a": [1, None, 3], "b": ["x", "y", None]})


def write(path: Path) -> None:
    """Write ARROW in the format of the file name's suffix."""
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(ARROW, path)
    elif path.suffix == ".orc":
        pyarrow.orc.write_table(ARROW, path)
    elif path.suffix == ".feather":
        pyarrow.feather.write_feather(ARROW, str(path))
    elif path.suffix == ".arrow":
        with pyarrow.ipc.new_file(str(path), ARROW.schema) as writer:
            writer.write_table(ARROW)
    elif path.suffix == ".arrows":
        with pyarrow.ipc.new_stream(str(path), ARROW.schema) as writer:
            writer.write_table(ARROW)
    else:
        text = {
            ".csv": "a,b\n1,x\n,y\n3,\n",
            ".tsv": "a\tb\n1\tx\n\ty\n3\t\n",
            ".jsonl": '{"a": 1, "b": "x"}\n{"a": null, "b": "y"}\n\n{"a": 3}\n',
        }[path.suffix if path.suffix != ".gz" else path.suffixes[0]].encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


@pytest.mark.parametrize(
    "name",
    ["f.csv", "f.tsv", "f.csv.gz", "f.jsonl", "f.jsonl.gz", "f.parquet", "f.orc", "f.feather", "f.arrow", "f.arrows"],
)
def test_every_format_gives_the_same_table(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path)
    assert read_table(str(path)).to_pydict() == ARROW.to_pydict()
    if path.suffix in (".parquet", ".arrow", ".orc"):
        bare = path.rename(tmp_path / "bare")
        assert read_table(str(bare)).to_pydict() == ARROW.to_pydict()


@pytest.mark.parametrize("name", ["f.csv.gz", "f.jsonl", "f.parquet", "f.orc", "f.feather", "f.arrow", "f.arrows"])
@pytest.mark.parametrize("damage", ["empty", "cut", "other"])
def test_damaged_files_are_refused_by_name(tmp_path: Path, name: str, damage: str) -> None:
    path = tmp_path / name
    write(path)
    data = path.read_bytes()
    path.write_bytes({"empty": b"", "cut": data[: len(data) // 2 - 1], "other": b"no such thing " * 9}[damage])
    with pytest.raises(TableError, match=name):
        read_table(str(path))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("a\n1\n")
    with pytest.raises(TableError, match=r"no file .*peple.csv.*did you mean .*people.csv"):
        read_table(str(tmp_path / "peple.csv"))
    with pytest.raises(TableError, match="no folder"):
        read_table(str(tmp_path / "no" / "people.csv"))
    with pytest.raises(TableError, match="use --engine spark for other addresses"):
        read_table("hdfs://host/people.csv")
    (tmp_path / "people.dat").write_text("a\n1\n")
    with pytest.raises(TableError, match="does not show its format"):
        read_table(str(tmp_path / "people.dat"))
    assert read_table(str(tmp_path / "people.dat"), format="csv").num_rows == 1
    for text in ("postgres://me:secret@host/db", "postgresql+psycopg2://host/db", "jdbc:mysql://me:secret@host/db"):
        with pytest.raises(TableError, match="does not read databases") as told:
            read_table(text)
        assert "secret" not in str(told.value)
        assert "Spark" not in str(told.value)
    with pytest.raises(TableError, match="download it"):
        read_table("https://host/people.csv")
    (tmp_path / "people.xlsx").write_bytes(b"PK\x03\x04 a workbook")
    with pytest.raises(TableError, match=r"people.xlsx is a spreadsheet.*save the sheet as CSV.*pandas.read_excel"):
        read_table(str(tmp_path / "people.xlsx"))
    (tmp_path / "people.bin").write_bytes(b"PK\x03\x04 an archive")
    with pytest.raises(TableError, match="not a format that naysay reads; export the table as CSV"):
        read_table(str(tmp_path / "people.bin"))


@pytest.mark.parametrize("name", ["f.csv", "f.jsonl", "f.parquet"])
def test_read_takes_paths_and_columns(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path)
    assert read(path).to_pydict() == ARROW.to_pydict()
    assert read(path, columns=["b", "a"]).column_names == ["b", "a"]
    assert read(path, columns=[]).num_columns == 0
    with pytest.raises(TableError, match=r"has no column 'A'; did you mean 'a'\?"):
        read(path, columns=["A"])
    with pytest.raises(TableError, match=r"has no column 'other'; its columns are 'a', 'b'"):
        read(path, columns=["other"])


def test_other_columns_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("a,b\n1,1e400\n2,x\n3,9007199254740993\n")
    assert read(tmp_path / "f.csv", columns=["a"]).to_pydict() == {"a": [1, 2, 3]}
    path = tmp_path / "f.parquet"
    table = pa.table({"a": [1, 2], "b": ["x", "y"], "a.b": [3, 4]})
    pyarrow.parquet.write_table(table, path, compression="none", use_dictionary=False)
    chunk = pyarrow.parquet.ParquetFile(path).metadata.row_group(0).column(1)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset : chunk.data_page_offset + chunk.total_compressed_size] = (
        b"\xff" * chunk.total_compressed_size
    )
    path.write_bytes(data)
    assert read(path, columns=["a"]).to_pydict() == {"a": [1, 2]}
    assert read(path, columns=["a.b"]).to_pydict() == {"a.b": [3, 4]}
    with pytest.raises(TableError, match="cannot read"):
        read(path)


def test_a_folder_of_files_that_lack_columns_by_columns(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "1.parquet")
    pyarrow.parquet.write_table(pa.table({"a": [2], "c": [0.5]}), tmp_path / "2.parquet")
    assert read(tmp_path, columns=["c", "a"]).to_pydict() == {"c": [None, 0.5], "a": [1, 2]}
    with pytest.raises(TableError, match=r"has no column 'd'; its columns are 'a', 'b', 'c'"):
        read(tmp_path, columns=["d"])


def test_read_refuses_a_name_of_two_columns(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("a,a,b\n1,2,3\n")
    assert read(tmp_path / "f.csv", columns=["b"]).num_columns == 1
    with pytest.raises(TableError, match="has 2 columns named 'a'"):
        read(tmp_path / "f.csv", columns=["a"])


def test_options_of_text_files_are_obeyed_or_refused(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_bytes('{"a": "né"}\n'.encode("latin-1"))
    assert read(tmp_path / "f.jsonl", encoding="latin-1").to_pylist() == [{"a": "né"}]
    write(tmp_path / "f.parquet")
    with pytest.raises(TableError, match=r"--encoding .* applies to CSV and JSON files, not to parquet files"):
        read(tmp_path / "f.parquet", encoding="latin-1")
    with pytest.raises(TableError, match=r"--delimiter .* applies to CSV files, not to json files"):
        read(tmp_path / "f.jsonl", delimiter=";")


def test_sources_are_shown_without_secrets() -> None:
    assert source_shown("jdbc:mysql://me:secret@host/db?password=x") == "jdbc:mysql://host/db"
    assert source_shown("jdbc:derby:memory:db;password=x") == "jdbc:derby:memory:db"
    for source in ("s3://bucket/a@b;c?.csv", "a;b.csv", "abfss://c@a.dfs.core.windows.net/f"):
        assert source_shown(source) == source


def test_packages_that_messages_name_are_those_of_the_extras() -> None:
    extras = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    for advice in (INSTALL_SPARK, INSTALL_GPU):
        assert f'"{advice.split(chr(39))[1]}"' in extras


def test_files_by_their_format(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("a\n1\n")
    with pytest.raises(TableError, match="unknown format 'xlsx'"):
        read_table(str(tmp_path / "people.csv"), format="xlsx")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('[{"a": 1}]', [":1:", "list", "one object per line"]),
        ('{"a": 1}\n{"a": "x"}\n', [":2:", "'a' is a text", '"x"', "number"]),
        ('{"a": 1}\n{"a": \n', [":2:", "column"]),
        ('{"a": 1}\n\nfoo\n', [":3:"]),
    ],
)
def test_json_that_cannot_be_read(tmp_path: Path, text: str, parts: list[str]) -> None:
    path = tmp_path / "f.jsonl"
    path.write_text(text)
    with pytest.raises(TableError) as caught:
        read_table(str(path))
    for part in ["f.jsonl", *parts]:
        assert part in str(caught.value)


def test_json_keeps_text_and_long_numbers(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_text('{"day": "2024-01-31", "id": 12345678901234567890}\n{"day": "2024-02-01", "id": 1}\n')
    table = read_table(str(path))
    assert table.column("day").to_pylist() == ["2024-01-31", "2024-02-01"]
    assert table.column("id").to_pylist() == [12345678901234567890, 1]


def test_large_floats_in_json_are_floats_and_longer_integers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1e300}\n{"a": 2}\n')
    assert read_table(str(path)).column("a").to_pylist() == [1e300, 2.0]
    path.write_text('{"a": 1}\n{"a": ' + "1" * 42 + "}\n")
    with pytest.raises(TableError, match=r"a.jsonl:2: 'a' is a whole number of 42 digits"):
        read_table(str(path))


def test_a_folder_is_one_table(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b,c\n1,1,\n")
    (tmp_path / "2.csv").write_text("a,b,c\nx,2.5,3\n")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".hidden").write_text("")
    table = read_table(str(tmp_path))
    assert table.to_pydict() == {"a": ["1", "x"], "b": [1.0, 2.5], "c": [None, 3]}


@pytest.mark.parametrize(
    ("first", "second", "type_"),
    [
        ("9", "12345678901234567890", "decimal128(38, 0)"),
        ("0.5", "12345678901234567890", "decimal128(38, 1)"),
        ("9007199254740993", "0.25", "decimal128(38, 2)"),
        ("0.5", "9007199254740993.25", "decimal128(38, 2)"),
        ("9", "0.5", "double"),
        ("2024-01-31", "2024-01-31 00:00:00", "timestamp[s]"),
        ("2024-01-31T00:00", "2024-01-31 00:00:00.5", "timestamp[ns]"),
        ("2024-01-31T00:00Z", "2024-01-31 00:00:00.5+01:00", "timestamp[ns, tz=UTC]"),
        ("2024-01-31", "2024-01-31 00:00Z", "string"),
        ("9", "2024-01-31", "string"),
        ("9", "1" * 50, "string"),
        ("x", "12345678901234567890", "string"),
        ("0.5", "x", "string"),
        ("007", "12345678901234567890", "string"),
    ],
)
def test_a_column_over_files_has_the_type_that_it_has_in_one_file(
    tmp_path: Path, first: str, second: str, type_: str
) -> None:
    (tmp_path / "1.csv").write_text(f"a,b\n{first},1\n")
    (tmp_path / "2.csv").write_text(f"a,b\n{second},1\n")
    folder = read_table(str(tmp_path))
    together = csv_table(f"a,b\n{first},1\n{second},1\n")
    assert (str(folder.schema.field("a").type), folder.column("a")) == (type_, together.column("a"))


@pytest.mark.parametrize("ending", ["parquet", "orc", "jsonl"])
def test_a_column_that_a_file_lacks_is_null_there(tmp_path: Path, ending: str) -> None:
    write_files_that_lack_columns(tmp_path, ending)
    found = read_table(str(tmp_path))
    assert found.to_pydict() == {"a": [1, None, 3], "b": ["x", "y", None], "c": [None, 0.5, 1.5]}


def test_columns_of_a_folder_whose_names_differ_in_case_are_refused(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"zip": [1], "Zip": [1]}), tmp_path / "1.parquet")
    assert read_table(str(tmp_path)).num_columns == 2
    pyarrow.parquet.write_table(pa.table({"ZIP": [1]}), tmp_path / "2.parquet")
    with pytest.raises(TableError, match=r"2.parquet: column 'ZIP' is spelled '[zZ]ip' in .*1.parquet"):
        read_table(str(tmp_path))


def test_folders_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="no files"):
        read_table(str(tmp_path))
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("a,c\n1,2\n")
    with pytest.raises(TableError, match=r"2.csv: the columns are 'a', 'c'"):
        read_table(str(tmp_path))
    (tmp_path / "2.csv").unlink()
    write(tmp_path / "2.parquet")
    with pytest.raises(TableError, match="mixes csv and parquet"):
        read_table(str(tmp_path))
    (tmp_path / "1.csv").unlink()
    pyarrow.parquet.write_table(pa.table({"a": ["x"], "b": ["y"]}), tmp_path / "3.parquet")
    with pytest.raises(TableError, match=r"3.parquet: column 'a' is string, but int64 in"):
        read_table(str(tmp_path))
    (tmp_path / "year=2024").mkdir()
    with pytest.raises(TableError, match="contains subfolders"):
        read_table(str(tmp_path))


def test_an_orc_timestamp_beyond_nanoseconds_is_named(tmp_path: Path) -> None:
    """9999-12-31 often means "no end"; Arrow reads ORC in nanoseconds, which end in 2262."""
    path = tmp_path / "f.orc"
    pyarrow.orc.write_table(pa.table({"ends": pa.array([253_402_300_799], pa.timestamp("s"))}), path)
    with pytest.raises(TableError, match=r"outside the years 1677 to 2262.*--engine spark.*Parquet"):
        read_table(str(path))
