"""Tables in DuckDB and SQLite files."""

from __future__ import annotations

import datetime
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import naysay
from naysay.errors import TableError
from naysay.io.files import read


def make_duckdb(path: Path, *statements: str) -> Path:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def make_sqlite(path: Path, *statements: str) -> Path:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


PEOPLE = (
    "CREATE TABLE people (id INTEGER, zip VARCHAR, city VARCHAR)",
    "INSERT INTO people VALUES (1, '007', 'Ulm'), (2, '007', NULL), (3, '8', 'Kiel')",
)
ORDERS = ('CREATE TABLE "my ""orders" (n INTEGER)', 'INSERT INTO "my ""orders" VALUES (5), (6)')
MAKERS = [
    (make_duckdb, "shop.duckdb"),
    (make_duckdb, "shop.db"),
    (make_sqlite, "shop.sqlite"),
    (make_sqlite, "shop.db"),
]


@pytest.mark.parametrize(("make", "name"), MAKERS)
def test_tables_of_a_database(tmp_path: Path, make: Any, name: str) -> None:
    path = make(tmp_path / name, *PEOPLE)
    expected = {"id": [1, 2, 3], "zip": ["007", "007", "8"], "city": ["Ulm", None, "Kiel"]}
    assert read(path).to_pydict() == expected
    assert read(path, columns=["city", "id"]).to_pydict() == {"city": expected["city"], "id": expected["id"]}
    assert read(path, columns=[]).num_columns == 0
    assert naysay.count(read(path), "key(zip)") == 2
    make(path, *ORDERS)
    assert read(path, table="People").to_pydict() == expected
    assert read(path, table='my "orders').to_pydict() == {"n": [5, 6]}
    with pytest.raises(TableError, match=r'has 2 tables; name one with --table \(table=\): my "orders, people'):
        read(path)
    with pytest.raises(TableError, match=r"has no table 'peple'; did you mean 'people'\?"):
        read(path, table="peple")
    with pytest.raises(TableError, match="has no column 'town'"):
        read(path, table="people", columns=["town"])


@pytest.mark.parametrize(("make", "name"), MAKERS[::2])
def test_views_and_empty_tables(tmp_path: Path, make: Any, name: str) -> None:
    path = make(tmp_path / name, *PEOPLE, "CREATE VIEW south AS SELECT id FROM people WHERE zip = '8'")
    assert read(path, table="south").to_pydict() == {"id": [3]}
    empty = make(tmp_path / f"empty.{name}", "CREATE TABLE a (x INTEGER)")
    assert read(empty).num_rows == 0
    with pytest.raises(TableError, match="the database has no tables"):
        read(make(tmp_path / f"none.{name}", "CREATE TABLE a (x INTEGER)", "DROP TABLE a"))


@pytest.mark.parametrize(("make", "name"), MAKERS[::2])
def test_names_are_never_part_of_a_statement(tmp_path: Path, make: Any, name: str) -> None:
    odd = 'x"; DROP TABLE people; --{}'
    quoted = odd.replace('"', '""')
    path = make(
        tmp_path / name, *PEOPLE, f'CREATE TABLE "{quoted}" ("{quoted}" INTEGER)', f'INSERT INTO "{quoted}" VALUES (1)'
    )
    assert read(path, table=odd, columns=[odd]).to_pydict() == {odd: [1]}
    assert read(path, table="people").num_rows == 3


def test_types_of_duckdb(tmp_path: Path) -> None:
    path = make_duckdb(
        tmp_path / "types.duckdb",
        "CREATE SCHEMA sales",
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TABLE sales.t AS SELECT 1::HUGEINT AS h, 1.25::DECIMAL(5,2) AS d, DATE '2024-01-31' AS day, "
        "TIMESTAMPTZ '2024-01-31 10:00:00+01' AS t, 'ok'::mood AS m, uuid() AS u, [1] AS l",
    )
    row = read(path).to_pylist()[0]
    assert (row["h"], row["d"], row["day"], row["m"]) == (1, Decimal("1.25"), datetime.date(2024, 1, 31), "ok")
    assert row["t"] == datetime.datetime(2024, 1, 31, 9, tzinfo=datetime.timezone.utc)
    assert naysay.count(read(path, table="sales.t"), ["key(h)", "key(m)", "key(u)", "key(t)"]) == [0, 0, 0, 0]


def test_values_of_sqlite_decide_the_type(tmp_path: Path) -> None:
    path = make_sqlite(
        tmp_path / "t.sqlite",
        "CREATE TABLE t (i INTEGER, x REAL, mixed INTEGER, words, none_, both NUMERIC, bytes BLOB)",
        "INSERT INTO t VALUES (1, 1.5, 1, 'a', NULL, 1, x'00')",
        "INSERT INTO t VALUES (-9223372036854775808, 2, 'NA', '1', NULL, 1.5, NULL)",
    )
    found = read(path)
    assert [str(type_) for type_ in found.schema.types] == [
        *("int64", "double", "string", "string", "null", "double", "binary")
    ]
    assert found["mixed"].to_pylist() == ["1", "NA"]
    assert found["both"].to_pylist() == [1.0, 1.5]
    make_sqlite(path, "INSERT INTO t (both) VALUES (9007199254740993)")
    with pytest.raises(TableError, match="mixes fractions with 9007199254740993"):
        read(path)
    assert read(path, columns=["i"]).num_rows == 3
    make_sqlite(path, "INSERT INTO t (words) VALUES (x'00')")
    with pytest.raises(TableError, match="column 'words' of 't' mixes blobs with text"):
        read(path, columns=["words"])


def test_more_rows_than_a_batch(tmp_path: Path) -> None:
    numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 70000)"
    path = make_sqlite(tmp_path / "n.sqlite", f"CREATE TABLE n AS {numbers} SELECT x FROM n")
    assert read(path)["x"].to_pylist() == list(range(1, 70_001))


def test_files_that_are_not_databases(tmp_path: Path) -> None:
    for name, kind in (("f.duckdb", "DuckDB"), ("f.sqlite", "SQLite")):
        (tmp_path / name).write_bytes(b"not a database " * 100)
        with pytest.raises(TableError, match=f"as a {kind} file"):
            read(tmp_path / name)
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(TableError, match="the file is empty"):
            read(tmp_path / name)
    for address in ("sqlite:///shop.db", "duckdb:///shop.duckdb"):
        with pytest.raises(TableError, match=r"pass the path of the database file, and its table with --table"):
            read(address)
    (tmp_path / "f.csv").write_text("a\n1\n")
    with pytest.raises(TableError, match=r"--table \(table=\) applies to DuckDB and SQLite files, not to csv files"):
        read(tmp_path / "f.csv", table="t")


def test_opening_a_database_reads_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    path = make_duckdb(tmp_path / "v.duckdb", f"CREATE VIEW v AS SELECT * FROM read_csv('{tmp_path}/secret.csv')")
    with pytest.raises(TableError, match=r"cannot read .*v.duckdb"):
        read(path)
