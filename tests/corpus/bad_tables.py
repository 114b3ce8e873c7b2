"""Files that are hard to read as tables, each with the expected result: a table, or an error with place and reason.

A case writes its file to an empty folder. The expected result is either `Reads`, or `Refuses` with parts of the error
message; the name of the file is always one of them.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.orc
import pyarrow.parquet

Make = Callable[[Path], None]


@dataclass(frozen=True)
class Reads:
    """The file is a table with this many rows and columns, and this many violations of the rule."""

    n_rows: int
    n_columns: int
    rule: str = ""
    count: int = 0
    types: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Refuses:
    """Reading the file, or checking the rule on it, is refused; the message contains all of these."""

    parts: tuple[str, ...]
    rule: str = ""


@dataclass(frozen=True)
class Case:
    name: str
    file: str
    make: Make
    wanted: Reads | Refuses
    options: dict[str, Any] = field(default_factory=dict)


def _text(text: str | bytes, encoding: str = "utf-8") -> Make:
    data = text if isinstance(text, bytes) else text.encode(encoding)

    def make(path: Path) -> None:
        path.write_bytes(data)

    return make


def _csv(name: str, text: str | bytes, wanted: Reads | Refuses, **options: Any) -> Case:
    return Case(f"csv: {name}", "f.csv", _text(text), wanted, options)


def _json(name: str, text: str | bytes, wanted: Reads | Refuses) -> Case:
    return Case(f"json: {name}", "f.jsonl", _text(text), wanted)


def _table(name: str, file: str, table: pa.Table, wanted: Reads | Refuses) -> Case:
    return Case(name, file, lambda path: write(table, path), wanted)


def write(table: pa.Table, path: Path) -> None:
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    elif path.suffix == ".arrow":
        with pa.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        pyarrow.orc.write_table(table, path)


def _bytes(table: pa.Table, suffix: str, folder: Path) -> bytes:
    path = folder / f"whole{suffix}"
    write(table, path)
    data = path.read_bytes()
    path.unlink()
    return data


def cases() -> list[Case]:
    """All cases, always in the same order."""
    makers = (_sizes, _names, _ragged, _quotes, _encodings, _nul_bytes, _line_ends, _values, _foreign, _json_lines)
    makers += (_binary, _types, _no_text, _folders, _paths)
    return [case for maker in makers for case in maker()]


def _sizes() -> Iterator[Case]:
    empty = Refuses(("empty",))
    for name, text in (
        ("nothing", ""),
        ("a newline", "\n"),
        ("blank lines", "\n\r\n\n"),
        ("spaces", "   \n  "),
        ("a byte order mark alone", "\ufeff"),
        ("a byte order mark and newlines", "\ufeff\n\n"),
    ):
        yield _csv(f"{name}", text, empty)
    for name, text in (
        ("header alone", "a,b\n"),
        ("header without a line end", "a,b"),
        ("header with carriage return", "a,b\r\n"),
        ("header with byte order mark", "\ufeffa,b\n"),
        ("header between blank lines", "\n\na,b\n\n\n"),
        ("quoted header", '"a","b"\n'),
    ):
        yield _csv(name, text, Reads(0, 2, "a -> b", 0))
    yield _csv("one row", "a,b\n1,2\n", Reads(1, 2, "a -> b", 0))
    yield _csv("one row without a line end", "a,b\n1,2", Reads(1, 2, "key(a)", 0))
    yield _csv("one column", "a\n1\n1\n2\n", Reads(3, 1, "key(a)", 2))
    yield _csv("all null", "a,b\n,\n,\n,\n", Reads(3, 2, "key(a)", 0, {"a": "null"}))
    yield _csv("one column null", "a,b\n,1\n,1\n", Reads(2, 2, "b -> a", 0, {"a": "null", "b": "int64"}))
    yield _csv("all equal", "a,b\n" + "1,x\n" * 100, Reads(100, 2, "key(a, b)", 9900))
    yield _csv("quoted empty is text, not null", 'a,b\n"",1\n"",1\n,1\n', Reads(3, 2, "key(a)", 2, {"a": "string"}))
    wide = ",".join(f"c{i}" for i in range(3000))
    yield _csv("3,000 columns", wide + "\n" + ",".join(["1"] * 3000) + "\n" + ",".join(["2"] * 3000), Reads(2, 3000))
    yield _csv("3,000 columns, one field too few", f"{wide}\n" + ",".join(["1"] * 2999), Refuses(("f.csv:2", "2999")))
    yield _csv("a value of 5 MB", "a,b\n1," + "x" * 5_000_000 + "\n1,y\n", Reads(2, 2, "a -> b", 2))
    long = "1,x\n" * 99_999
    yield _csv("text in the last of 100,000 rows", f"a,b\n{long}oops,x\n", Reads(100_000, 2, types={"a": "string"}))
    yield _csv("fraction in the last of 100,000 rows", f"a,b\n{long}1.5,x\n", Reads(100_000, 2, types={"a": "double"}))


def _names() -> Iterator[Case]:
    odd = ("a.b", "a b", "`a`", "'a'", "a\nb", "é😀", " a ", "t", "s", "and", "not", "select", "a->b", "a,b", "A-1")
    odd += ("x;drop table r", "a[0]", "a:b", "#a", "-- ", "(a)", "=1+1", "$a", "%s", "{x}", "\\n", "a\tb", "null")
    for name in odd:
        header = '"' + name.replace('"', '""') + '"'
        rule = f"key({json.dumps(name, ensure_ascii=False)})"
        yield _csv(f"a column named {name!r}", f"{header},z\n1,1\n1,2\n2,3\n", Reads(3, 2, rule, 2))
    yield _csv("a column named by a quote", '"q""q",z\n1,1\n1,2\n', Reads(2, 2, 'key("q\\"q")', 2))
    yield _csv("a column without a name", ",b\n1,2\n1,2\n", Reads(2, 2, "key(b)", 2))
    yield _csv("a column without a name, used", ",b\n1,2\n", Refuses(("column name is empty",), 'key("")'))
    yield _csv("names that differ in case", "a,A\n1,2\n1,3\n", Reads(2, 2, "a -> A", 2))
    yield _csv("a long name", "x" * 10_000 + ",b\n1,2\n", Reads(1, 2))
    twice = Refuses(("2 columns named 'a'",), "key(a)")
    yield _csv("two columns of a name, used", "a,a\n1,2\n", twice)
    yield _csv("two columns of a name, not used", "a,a,b\n1,2,3\n1,2,3\n", Reads(2, 3, "key(b)", 2))
    yield _csv("three columns of a name", "a,a,a\n1,2,3\n", Refuses(("3 columns named 'a'",), "key(a)"))
    yield _csv("no such column", "zip,city\n1,2\n", Refuses(("Zip", "zip"), "key(Zip)"))
    yield _csv("a name that only looks the same", "é,b\n1,2\n", Refuses(("e\u0301",), "key(e\u0301)"))


def _ragged() -> Iterator[Case]:
    for delimiter, word in ((",", ""), (";", "semicolon"), ("\t", "tab"), ("|", "bar")):
        head = delimiter.join("abc")
        row = delimiter.join("123")
        short, long = delimiter.join("12"), delimiter.join("1234")
        said = (word,) if word else ()
        for what, bad, n_fields in (("few", short, 2), ("many", long, 4)):
            wanted = Refuses(("f.csv:2", f"{n_fields} fields", "has 3", *said))
            yield _csv(f"{delimiter!r}: {what} in row 1", f"{head}\n{bad}\n", wanted)
        text = f"{head}\n" + f"{row}\n" * 1000 + f"{short}\n"
        yield _csv(f"{delimiter!r}: few in row 1,001", text, Refuses(("f.csv:1002", "2 fields", *said)))
        text = f"{head}\n" + f"{row}\n" * 1000 + long
        yield _csv(f"{delimiter!r}: many in the last row", text, Refuses(("f.csv:1002", "4 fields", *said)))
    yield _csv("a trailing delimiter", "a,b\n1,2,\n", Refuses(("f.csv:2", "3 fields")))
    yield _csv("a trailing delimiter in the header too", "a,b,\n1,2,\n", Reads(1, 3))
    yield _csv("ragged after a value of two lines", 'a,b\n"x\ny",1\n2\n', Refuses(("f.csv:4", "1 field")))
    yield _csv("ragged after blank lines", "a,b\n\n\n1\n", Refuses(("f.csv:4", "1 field")))
    far = "a,b\n" + "1,2\n" * 999_999 + "1\n"
    yield _csv("ragged in row 1,000,000", far, Refuses(("f.csv:1000001", "1 field")))


def _quotes() -> Iterator[Case]:
    never, follows = "never closed", "follows the closing quote"
    yield _csv("unclosed in the header", 'a,"b\n1,2\n', Refuses(("f.csv:1", never)))
    yield _csv("unclosed in row 1", 'a,b\n1,"x\n2,y\n', Refuses(("f.csv:2", never)))
    yield _csv("unclosed in the last row", 'a,b\n1,x\n2,"y', Refuses(("f.csv:3", never)))
    yield _csv("unclosed after 1,000 rows", "a,b\n" + "1,x\n" * 1000 + '2,"y\n3,z\n', Refuses(("f.csv:1002", never)))
    yield _csv("closed by a later quote", 'a,b\n1,"x\n2,y\n3,"z\n', Refuses(("f.csv:4", follows)))
    yield _csv("text after a quote", 'a,b\n1,"x"y\n', Refuses(("f.csv:2", follows)))
    yield _csv("a space after a quote", 'a,b\n1,"x" \n', Refuses(("f.csv:2", follows)))
    yield _csv("a quote inside a plain value", 'a,b\n1,x"y\n1,x"z\n', Reads(2, 2, "a -> b", 2))
    yield _csv("doubled quotes", 'a,b\n1,"x""y"\n1,"x""y"\n', Reads(2, 2, "a -> b", 0))
    yield _csv("a delimiter inside quotes", 'a,b\n1,"x,y"\n1,"x,z"\n', Reads(2, 2, "a -> b", 2))
    yield _csv("a line end inside quotes", 'a,b\n1,"x\ny"\n1,"x\r\ny"\n', Reads(2, 2, "a -> b", 2))
    yield _csv("nothing but quotes", '"""\n', Refuses(("f.csv:1", never)))
    yield _csv("single quotes are letters", "a,b\n'1,2'\n", Reads(1, 2))


def _encodings() -> Iterator[Case]:
    text = "name,city\nJosé,Köln\nJosé,Bonn\n"
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        data = text.encode(encoding)
        yield _csv(f"{encoding}, not said", data, Refuses(("--encoding",)))
        yield _csv(f"{encoding}, said", data, Reads(2, 2, "name -> city", 2), encoding=encoding)
    for encoding in ("latin-1", "cp1252", "cp850", "mac-roman"):
        data = text.encode(encoding)
        yield _csv(f"{encoding}, not said", data, Refuses(("f.csv:2", "byte 4", "not UTF-8", "--encoding")))
        yield _csv(f"{encoding}, said", data, Reads(2, 2, "name -> city", 2), encoding=encoding)
    japanese = "名,市\n山,東\n山,京\n".encode("shift-jis")
    yield _csv("shift-jis, said", japanese, Reads(2, 2, "名 -> 市", 2), encoding="shift-jis")
    yield _csv("latin-1 in the header", "é,b\n1,2\n".encode("latin-1"), Refuses(("f.csv:1", "0xe9")))
    late = b"a,b\n" + b"1,x\n" * 5000 + b"2,\xe9\n"
    yield _csv("latin-1 in row 5,001", late, Refuses(("f.csv:5002", "0xe9", "latin-1")))
    for name, bad in (
        ("a lone continuation byte", b"\x80"),
        ("an overlong form", b"\xc0\xaf"),
        ("a surrogate", b"\xed\xa0\x80"),
        ("beyond Unicode", b"\xf5\x80\x80\x80"),
        ("a cut sequence", b"\xe2\x82"),
    ):
        yield _csv(name, b"a,b\n1,x" + bad + b"\n", Refuses(("f.csv:2", "not UTF-8")))
    yield _csv("ascii said of what is none", text, Refuses(("not ascii", "line 2")), encoding="ascii")
    yield _csv("an encoding that does not exist", text, Refuses(("no encoding 'klingon'",)), encoding="klingon")
    yield _csv("utf-8 with its mark", "\ufeff" + text, Reads(2, 2, "name -> city", 2))


def _nul_bytes() -> Iterator[Case]:
    yield _csv("NUL in the header", "a\0,b\n1,2\n", Refuses(("NUL", "byte 2")))
    yield _csv("NUL in a row", "a,b\n1,x\n2,\0y\n", Refuses(("f.csv:3", "NUL")))
    yield _csv("NUL inside quotes", 'a,b\n1,"x\0"\n', Refuses(("f.csv:2", "NUL")))
    yield _csv("NULs at the end", "a,b\n1,2\n" + "\0" * 100, Refuses(("f.csv:3", "NUL")))
    yield _csv("nothing but NULs", "\0" * 1000, Refuses(("NUL",)))


def _line_ends() -> Iterator[Case]:
    for name, end in (("LF", "\n"), ("CRLF", "\r\n"), ("CR", "\r")):
        rows = ["a,b", "1,x", "1,y", "2,z"]
        yield _csv(f"{name}", end.join(rows) + end, Reads(3, 2, "a -> b", 2))
        yield _csv(f"{name}, none at the end", end.join(rows), Reads(3, 2, "a -> b", 2))
        yield _csv(f"{name}, blank lines", (end * 3).join(rows), Reads(3, 2, "a -> b", 2))
    yield _csv("mixed line ends", "a,b\r\n1,x\n1,y\r2,z\n", Reads(3, 2, "a -> b", 2))


def _values() -> Iterator[Case]:
    for name, values, type_ in (
        ("leading zeros", ("007", "7"), "string"),
        ("a plus sign", ("+7", "7"), "double"),
        ("an exponent", ("1e3", "1000"), "double"),
        ("NaN", ("NaN", "1.5"), "double"),
        ("infinity", ("inf", "1.5"), "double"),
        ("minus zero", ("-0.0", "0.0"), "double"),
        ("hexadecimal", ("0x10", "16"), "string"),
        ("thousands", ('"1,000"', "1000"), "string"),
        ("an underscore", ("1_000", "1000"), "string"),
        ("a decimal comma", ('"1,5"', "1"), "string"),
        ("a space before a number", (" 7", "7"), None),
        ("2^63 - 1", ("9223372036854775807", "1"), "int64"),
        ("2^63", ("9223372036854775808", "1"), "decimal128(38, 0)"),
        ("40 digits", ("1" * 40, "1"), "string"),
        ("booleans", ("true", "FALSE"), "bool"),
        ("booleans and numbers", ("true", "1"), "string"),
        ("a day that does not exist", ("2024-02-30", "2024-02-28"), "string"),
        ("dates", ("2024-02-29", "1900-01-01"), "date32[day]"),
        ("the year 0", ("0000-01-01", "2024-01-01"), None),
        ("NA", ("NA", "1"), "string"),
        ("NULL", ("NULL", "1"), "string"),
        ("a letter in a number", ("12o", "120"), "string"),
        ("text with numbers in it", ("x", "5"), "string"),
    ):
        types = {} if type_ is None else {"a": type_}
        yield _csv(f"values: {name}", "a,b\n" + "".join(f"{value},1\n" for value in values), Reads(2, 2, types=types))
    for name, values, part in (
        ("too large for a double", ("1", "1e400"), "too large"),
        ("too small for a double", ("1", "1e-400"), "too small"),
        ("too long for a double", ("1e5", "9007199254740993"), "2^53"),
    ):
        text = "a,b\n" + "".join(f"{value},1\n" for value in values)
        yield _csv(f"values: {name}", text, Refuses(("f.csv:3", values[1], "'a'", part)))
    compared = Refuses(("'a'", "'b'", "text", "integer"), "not(t.a < s.b)")
    yield _csv("a text column against numbers", "a,b\nx,1\ny,2\n", compared)
    constant = Refuses(("'a'", "text"), "not(t.a < 5)")
    yield _csv("a text column against a number", "a,b\nx,1\ny,2\n", constant)


def _foreign() -> Iterator[Case]:
    zipped = gzip.compress(b"a,b\n1,2\n1,3\n", mtime=0)
    png = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
    yield Case("a PNG named .csv", "f.csv", _text(png), Refuses(("f.csv",)))
    yield Case("gzip named .csv", "f.csv", _text(zipped), Refuses(("f.csv",)))
    yield Case("gzip", "f.csv.gz", _text(zipped), Reads(2, 2, "a -> b", 2))
    yield Case("half a gzip file", "f.csv.gz", _text(zipped[: len(zipped) // 2]), Refuses(("f.csv.gz", "gzip")))
    yield Case("no gzip named .gz", "f.csv.gz", _text("a,b\n1,2\n"), Refuses(("f.csv.gz", "gzip")))
    yield Case("an empty gzip file", "f.csv.gz", _text(b""), Refuses(("f.csv.gz",)))
    yield Case("random bytes", "f.csv", _text(bytes((i * 7919) % 256 for i in range(5000))), Refuses(("f.csv",)))
    yield Case("HTML named .csv", "f.csv", _text("<html>\n<body>a, b</body>\n</html>\n"), Refuses(("f.csv:2",)))


def _json_lines() -> Iterator[Case]:
    good = '{"a": 1, "b": "x"}\n{"a": 1, "b": "y"}\n'
    yield _json("two objects", good, Reads(2, 2, "a -> b", 2))
    yield _json("with a byte order mark", "\ufeff" + good, Reads(2, 2, "a -> b", 2))
    yield _json("with blank lines", "\n\n" + good.replace("\n", "\n\n"), Reads(2, 2, "a -> b", 2))
    yield _json("without a line end", good.rstrip(), Reads(2, 2, "a -> b", 2))
    yield _json("a missing key is null", '{"a": 1}\n{"b": 2}\n', Reads(2, 2, "key(a)", 0))
    yield _json("nothing", "", Refuses(("empty",)))
    yield _json("blank", "\n \n", Refuses(("empty",)))
    for name, text, line in (
        ("a broken object", good + '{"a": 1,\n', 3),
        ("an array", "[1, 2]\n", 1),
        ("a number", "5\n", 1),
        ("text", "hello\n", 1),
        ("a trailing comma", '{"a": 1,}\n', 1),
        ("single quotes", "{'a': 1}\n", 1),
        ("a type that changes", good + '{"a": "one", "b": "x"}\n', 3),
        ("Latin-1", b'{"a": "x\xe9y"}\n', 1),
    ):
        yield _json(name, text, Refuses((f"f.jsonl:{line}",)))
    yield _json("two lines for an object", '{"a": 1,\n "b": 2}\n', Reads(1, 2, "a -> b", 0))
    yield _json("UTF-16", good.encode("utf-16"), Refuses(("f.jsonl", "UTF-16")))
    yield _json("a list, not used", '{"a": 1, "b": [1]}\n{"a": 1, "b": [2]}\n', Reads(2, 2, "key(a)", 2))
    yield _json("a list, used", '{"a": [1]}\n', Refuses(("'a'", "list"), "key(a)"))
    yield _json("an object in an object, used", '{"a": {"b": 1}}\n', Refuses(("'a'", "struct"), "key(a)"))
    long = "".join(f'{{"a": {2**64 + i}}}\n' for i in range(2))
    yield _json("numbers beyond 64 bits", long, Reads(2, 1, "key(a)", 0))


def _binary() -> Iterator[Case]:
    table = pa.table({"a": list(range(2000)), "b": [f"v{i % 7}" for i in range(2000)]})
    for suffix, what in ((".parquet", "Parquet"), (".arrow", "Arrow"), (".orc", "ORC")):
        file = f"f{suffix}"

        def broken(change: Callable[[bytes], bytes], suffix: str = suffix) -> Make:
            return lambda path: path.write_bytes(change(_bytes(table, suffix, path.parent))) and None

        yield _table(f"{what}", file, table, Reads(2000, 2, "key(a)", 0))
        yield Case(f"{what}: empty", file, _text(b""), Refuses((file, "empty")))
        yield Case(f"{what}: text", file, _text("a,b\n1,2\n"), Refuses((file, what)))
        yield Case(f"{what}: half", file, broken(lambda data: data[: len(data) // 2]), Refuses((file, what)))
        yield Case(f"{what}: without its end", file, broken(lambda data: data[:-9]), Refuses((file, what)))
        yield Case(f"{what}: without its beginning", file, broken(lambda data: data[9:]), Refuses((file, what)))
        yield Case(f"{what}: its end zeroed", file, broken(lambda data: data[:-12] + bytes(12)), Refuses((file, what)))
        yield _table(f"{what}: no rows", file, table[:0], Reads(0, 2, "key(a)", 0))
        yield _table(f"{what}: one row", file, table[:1], Reads(1, 2, "key(a)", 0))
    for suffix in (".parquet", ".arrow"):
        nothing = pa.table({})
        yield _table(f"{suffix}: no columns", f"f{suffix}", nothing, Refuses(("no column 'a'",), "key(a)"))
        double = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
        yield _table(f"{suffix}: two of a name", f"f{suffix}", double, Refuses(("2 columns named 'a'",), "key(a)"))
        odd = pa.table({name: [1, 1] for name in ("a.b", "`", "'", '"', "😀", "")} | {"new\nline": [1, 2]})
        rule = 'not(t["a.b"] == s["😀"] and t["new\\nline"] != s["new\\nline"])'
        yield _table(f"{suffix}: odd names", f"f{suffix}", odd, Reads(2, 7, rule, 2))


def _types() -> Iterator[Case]:
    plain = pa.array([1, 1])
    for name, array, word in (
        ("binary", pa.array([b"x", b"y"]), "binary"),
        ("list", pa.array([[1], [2]]), "list"),
        ("struct", pa.array([{"x": 1}, {"x": 2}]), "struct"),
        ("map", pa.array([[("k", 1)], [("k", 2)]], pa.map_(pa.string(), pa.int64())), "map"),
        ("fixed size binary", pa.array([b"xx", b"yy"], pa.binary(2)), "fixed_size_binary"),
    ):
        table = pa.table({"a": array, "b": plain})
        yield _table(f"a column of {name}, used", "f.parquet", table, Refuses(("'a'", word), "key(a)"))
        yield _table(f"a column of {name}, not used", "f.parquet", table, Reads(2, 2, "key(b)", 2))
    mixed = pa.table({"a": pa.array([0, 1], pa.timestamp("us")), "b": pa.array([0, 1], pa.timestamp("us", "UTC"))})
    yield _table("times with and without a zone", "f.parquet", mixed, Refuses(("'a'", "'b'", "zone"), "not(t.a < s.b)"))
    nulls = pa.table({"a": pa.nulls(3), "b": pa.array([1, 1, 1])})
    yield _table("a column of the type null", "f.arrow", nulls, Reads(3, 2, "b -> a", 0))
    dated = pa.table({"a": ["x"], "b": pa.array([1], pa.date32())})
    differ = Refuses(("'a'", "'b'", "text", "date"), "not(t.a == s.b)")
    yield _table("text against a date", "f.arrow", dated, differ)


def _no_text() -> Iterator[Case]:
    """Columns declared as text that are not; readers of binary formats trust the declaration."""
    buffers = [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")]
    table = pa.table({"a": pa.Array.from_buffers(pa.string(), 1, buffers)})
    for suffix in (".parquet", ".arrow", ".orc"):
        yield _table(f"{suffix}: text that is not UTF-8", f"f{suffix}", table, Refuses((f"f{suffix}", "'a'", "UTF8")))


def _folders() -> Iterator[Case]:
    def folder(files: dict[str, str | bytes]) -> Make:
        def make(path: Path) -> None:
            path.mkdir()
            for name, text in files.items():
                (path / name).parent.mkdir(exist_ok=True)
                (path / name).write_bytes(text if isinstance(text, bytes) else text.encode())

        return make

    yield Case("folder: nothing", "f", folder({}), Refuses(("f", "no files")))
    yield Case("folder: only hidden files", "f", folder({"_SUCCESS": "", ".x": ""}), Refuses(("f", "no files")))
    for name, file, text, wanted in (
        ("two files", "2.csv", "a\n1\n", Reads(2, 1, "key(a)", 2)),
        ("two formats", "2.jsonl", '{"a": 1}', Refuses(("csv", "json"))),
        ("other columns", "2.csv", "b\n1\n", Refuses(("2.csv", "'b'", "'a'"))),
        ("other types", "2.csv", "a\nx\n", Reads(2, 1, "key(a)", 0, {"a": "string"})),
        ("one file ragged", "2.csv", "a\n1,2\n", Refuses(("2.csv:2",))),
        ("a folder in it", "sub/2.csv", "a\n1\n", Refuses(("sub", "--engine spark"))),
        ("one file empty", "2.csv", "", Refuses(("2.csv", "empty"))),
    ):
        yield Case(f"folder: {name}", "f", folder({"1.csv": "a\n1\n", file: text}), wanted)


def _paths() -> Iterator[Case]:
    def nothing(path: Path) -> None:
        pass

    def beside(path: Path) -> None:
        (path.parent / "people.csv").write_text("a\n1\n", encoding="utf-8")

    def dangling(path: Path) -> None:
        path.symlink_to(path.parent / "nowhere.csv")

    def loop(path: Path) -> None:
        path.symlink_to(path)

    yield Case("no such file", "f.csv", nothing, Refuses(("no file", "f.csv")))
    yield Case("a file beside it", "peple.csv", beside, Refuses(("no file", "people.csv")))
    yield Case("no such folder", "nowhere/f.csv", nothing, Refuses(("no folder",)))
    yield Case("a dangling link", "f.csv", dangling, Refuses(("f.csv",)))
    yield Case("a link to itself", "f.csv", loop, Refuses(("f.csv",)))
    yield Case("no suffix", "f", _text("a,b\n1,2\n"), Refuses(("f", ".csv", "format")))
    yield Case("an unknown suffix", "f.xyz", _text("a,b\n1,2\n"), Refuses(("f.xyz", ".csv")))
    yield Case("an address", "hdfs://server/f.csv", nothing, Refuses(("--engine spark",)))
    yield Case("a name with spaces, quotes, emoji", "f 'x' \"y\" 😀.csv", _text("a\n1\n1\n"), Reads(2, 1, "key(a)", 2))
    yield Case("upper case", "F.CSV", _text("a\n1\n1\n"), Reads(2, 1, "key(a)", 2))
    unknown = Refuses(("format 'xls'",))
    yield Case("a format that does not exist", "f.csv", _text("a\n1\n"), unknown, {"format": "xls"})
    wrong = Refuses(("delimiter",))
    yield Case("a delimiter of two letters", "f.csv", _text("a\n1\n"), wrong, {"delimiter": "::"})
    yield Case("a sheet named .csv", "f.csv", _text(_xlsx()), Refuses(("f.csv",)))


def _xlsx() -> bytes:
    """The beginning of a zip file, which is how every spreadsheet begins."""
    sink = io.BytesIO()
    sink.write(b"PK\x03\x04\x14\x00\x06\x00\x08\x00\x00\x00!\x00" + bytes(12) + b"\x13\x00[Content_Types].xml")
    return sink.getvalue()
