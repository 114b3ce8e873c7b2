"""What the command line reads: notations of CSV files, types in rules files, databases, and addresses."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]
LOCAL = ("--engine", "local")
ORDERS = """\
id;zip;city;price;day
1;01067;Dresden;1,5;31.01.2024
2;01067;NA;2,25;01.02.2024
3;1067;Ulm;N/A;28.12.2023
"""
GERMAN = ("--null-values", "NA,N/A", "--decimal-comma", "--date-format", "%d.%m.%Y")


@pytest.fixture
def orders(work: Path) -> Path:
    (work / "orders.csv").write_text(ORDERS)
    return work


def counts(done: Result) -> list[int]:
    assert done.exit_code in (0, 1), done.output
    return [rule["violations"] for rule in json.loads(done.stdout)["rules"]]


def test_notation_of_a_file(orders: Path, naysay: Run) -> None:
    rules = ("--rule", "zip -> city", "--rule", "ordered(day, price)", "--rule", "not(t.price > 2)", "--format", "json")
    # Read as they are, all three columns are text, and sorted as text.
    assert counts(naysay("check", "orders.csv", *rules[:4], *LOCAL, *rules[-2:])) == [2, 2]
    assert counts(naysay("check", "orders.csv", *rules, *LOCAL, *GERMAN)) == [0, 0, 1]
    more = ("--types", "zip=int,id=text", "--types", "price=decimal(6,2)")
    assert counts(naysay("check", "orders.csv", *rules, *LOCAL, *GERMAN, *more)) == [2, 0, 1]
    done = naysay("discover", "orders.csv", "--columns", "price,day", *LOCAL, *GERMAN, "--format", "json")
    assert done.exit_code == 0
    done = naysay("explain", "orders.csv", "--rule", "not(t.price > 2)", *LOCAL, *GERMAN)
    assert done.exit_code == 0


def test_types_in_a_rules_file(orders: Path, naysay: Run) -> None:
    (orders / "orders.yaml").write_text("types:\n  zip: int\n  city: text\nrules:\n- zip -> city\n")
    arguments = ("check", "orders.csv", "--rules", "orders.yaml", *LOCAL, "--format", "json")
    assert counts(naysay(*arguments)) == [6]
    # The command line has the last word.
    assert counts(naysay(*arguments, "--types", "zip=text")) == [2]
    (orders / "more.yaml").write_text("types: {zip: text}\nrules: [key(id)]\n")
    done = naysay(*arguments, "--rules", "more.yaml")
    assert done.exit_code == 2
    assert "more.yaml declares column 'zip' as text, another rules file as int" in done.stderr


def test_lint_keeps_types(work: Path, naysay: Run) -> None:
    (work / "r.yaml").write_text("types: {zip: String, price: 'decimal(6, 2)'}\nrules: [zip -> city]\n")
    done = naysay("lint", "r.yaml", "--short", "--out", "again.yaml")
    assert done.exit_code == 0, done.output
    assert (work / "again.yaml").read_text() == (
        "types:\n  zip: text\n  price: decimal(6,2)\nrules:\n- rule: zip -> city\n"
    )
    (work / "bad.yaml").write_text("types:\n  zip: postcode\n  zip2: [text]\nrules: [zip -> city]\n")
    done = naysay("lint", "bad.yaml")
    assert done.exit_code == 2
    assert "bad.yaml:2:8: 'postcode' is not a type" in done.stderr
    assert "bad.yaml:3:9" in done.stderr
    (work / "bad.yaml").write_text("types: [text]\nrules: [zip -> city]\n")
    assert "'types' is a mapping from columns to types" in naysay("lint", "bad.yaml").stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--types", "price=float"), "orders.csv:2: '1,5' in column 'price' is not a float; give --decimal-comma"),
        (("--types", "price=money"), "column 'price': there is no type 'money'; use text, int"),
        (("--types", "price"), "--types 'price': write COLUMN=TYPE, such as zip=text"),
        (("--types", "prise=float"), "orders.csv has no column 'prise'; did you mean 'price'?"),
        (("--date-format", "dd.MM.yyyy"), "'dd.MM.yyyy' is not a date format"),
        (("--input-format", "delta"), "unknown format 'delta' in-process; choose one of csv"),
        (("--option", "a=b"), "--option is for Spark's readers; use it with --engine spark"),
        (("--packages", "a:b:1"), "--packages and --conf are settings of Spark; use them with --engine spark"),
        (("--table", "t"), "--table (table=) applies to DuckDB and SQLite files, not to csv files"),
    ],
)
def test_bad_options_are_one_sentence(orders: Path, naysay: Run, more: tuple[str, ...], message: str) -> None:
    done = naysay("check", "orders.csv", "--rule", "key(id)", *LOCAL, *more)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_table_of_a_database(work: Path, naysay: Run) -> None:
    connection = sqlite3.connect(work / "shop.sqlite")
    connection.executescript("CREATE TABLE a (x); INSERT INTO a VALUES (1), (1); CREATE TABLE b (x);")
    connection.close()
    arguments = ("check", "shop.sqlite", "--rule", "key(x)", *LOCAL, "--format", "json")
    assert counts(naysay(*arguments, "--table", "a")) == [2]
    done = naysay(*arguments)
    assert done.exit_code == 2
    assert "shop.sqlite has 2 tables; name one with --table (table=): a, b" in done.stderr


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("people.xlsx", "people.xlsx is a spreadsheet"),
        ("ftp://host/people.csv", "does not download files"),
        ("postgresql://me:secret@host/db", "does not read databases in-process"),
        ("hdfs://host/people.csv", "not an address that naysay reads in-process"),
    ],
)
def test_sources_that_are_not_read(work: Path, naysay: Run, address: str, message: str) -> None:
    (work / "people.xlsx").write_bytes(b"PK\x03\x04")
    done = naysay("check", address, "--rule", "key(x)", *LOCAL)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "secret" not in done.stderr
